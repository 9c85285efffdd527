# SPDX-License-Identifier: MIT
# meta.sh - scripts/meta/stages.lua is what `spcore inspect --meta` prints today.
# needs: onednn images jansson
# once: words in the plugins and in a file
set -u
# Only our own plugins.
unset SPCORE_PLUGIN_PATH
now=${TMPDIR:-/tmp}/meta.$$.lua
trap 'rm -f "$now"' EXIT
"$top_builddir/spcore" inspect --meta >"$now" || exit 1
diff -u "$top_srcdir/scripts/meta/stages.lua" "$now" && exit 0
echo "stale: run ./spcore inspect --meta >scripts/meta/stages.lua in the build folder's tree"
exit 1
