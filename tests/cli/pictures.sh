# SPDX-License-Identifier: MIT
# pictures.sh - the schedules in docs/pictures are those that the program draws.
# needs: onednn images
# once: the schedules of one source
set -u
tmp=$(mktemp -d "${TMPDIR:-/tmp}/spcore-pictures.XXXXXX") || exit 99
trap 'rm -rf "$tmp"' EXIT
"${top_srcdir:?}/docs/pictures/make.sh" "${top_builddir:?}/spcore" "$tmp" || exit 1
n=0
for picture in "$tmp"/*.svg; do
  cmp "$picture" "$top_srcdir/docs/pictures/${picture##*/}" || {
    echo "draw them again: docs/pictures/make.sh build/spcore"
    exit 1
  }
  n=$((n + 1))
done
for picture in "$top_srcdir"/docs/pictures/*.svg; do
  grep -q "pictures/${picture##*/}" "$top_srcdir"/README.md "$top_srcdir"/docs/*.md || {
    echo "no page of docs shows ${picture##*/}"
    exit 1
  }
done
echo "ok - $n pictures"
