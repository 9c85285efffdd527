# SPDX-License-Identifier: MIT
# conformance.sh - every plugin of ours passes the stage conformance suite.
set -u
spcore=$top_builddir/spcore
out=${TMPDIR:-/tmp}/spcore-conformance.$$
trap 'rm -rf "$out"' EXIT
mkdir "$out" || exit 99
n=0
failed=0
for so in "$top_builddir"/.libs/*.so; do
  test -f "$so" || continue
  n=$((n + 1))
  # what reader, image_writer, classifier ... cannot do without; the rest have no such parameters
  "$spcore" check --quiet --set path=random --set size=16 --set degrees=30 --set classes=2 --set dir="$out/pictures" \
    --set file="$out/sheet.png" "$so" >"$out/log" 2>&1 || {
    failed=$((failed + 1))
    cat "$out/log"
  }
done
for stage in sgd adamw; do
  "$spcore" check --quiet --set momentum=0.9 --set clip_norm=0.5 --set ema=0.9 --set nonfinite=skip \
    "$top_builddir/.libs/$stage.so" >"$out/log" 2>&1 || {
    failed=$((failed + 1))
    cat "$out/log"
  }
done
for stage in resize batch_resized_crop; do
  "$spcore" check --quiet --set size=16 --set interpolation=bicubic "$top_builddir/.libs/$stage.so" >"$out/log" 2>&1 || {
    failed=$((failed + 1))
    cat "$out/log"
  }
done
echo "$n plugins, $failed failed"
test "$n" -gt 0 || exit 77
test "$failed" -eq 0
