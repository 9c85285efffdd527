# SPDX-License-Identifier: MIT
# meta.sh - the build makes scripts/meta/stages.lua for editors: what `spcore inspect --meta` prints, of every stage.
# needs: onednn images jansson
# once: words in the plugins and in a file
set -u
# Only our own plugins.
unset SPCORE_PLUGIN_PATH
now=${TMPDIR:-/tmp}/meta.$$.lua
trap 'rm -f "$now"' EXIT
"$top_builddir/spcore" inspect --meta >"$now" || exit 1
made=$top_builddir/scripts/meta/stages.lua
diff -u "$made" "$now" || { echo "stale: make did not make $made anew"; exit 1; }
for line in '@class spcore.encoder.params' '@field kernel? ' '@class spcore.sgd.params: spcore.optimizer_options' '@field encoder fun(' '@field reader fun('; do
  grep -qF -- "---$line" "$made" || { echo "$made has no line $line"; exit 1; }
done
[ ! -e "$top_srcdir/scripts/meta/stages.lua" ] || [ "$top_srcdir" -ef "$top_builddir" ] ||
  { echo "$top_srcdir/scripts/meta/stages.lua is from before the build made it: remove it"; exit 1; }
