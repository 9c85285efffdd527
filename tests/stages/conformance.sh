# SPDX-License-Identifier: MIT
# conformance.sh - every plugin of ours passes the stage conformance suite.
set -u
spcore=$top_builddir/spcore
out=$(mktemp -d) || exit 99
trap 'rm -rf "$out"' EXIT
failed=0
check() { # check --set ... FILE...
  "$spcore" check --quiet "$@" >"$out/log" 2>&1 || { failed=1; cat "$out/log"; }
}
libs=$top_builddir/.libs
set -- "$libs"/*.so
test -f "$1" || exit 77
n=$#
# what reader, decoder, image_writer ... cannot do without
[ ! -f "$libs/reader.so" ] || set -- --set path=random "$@"
[ ! -f "$libs/decoder.so" ] || set -- --set classes=2 "$@"
[ ! -f "$libs/image_writer.so" ] || set -- --set dir="$out/pictures" "$@"
check --set file="$out/sheet.png" --set size=16 --set degrees=30 "$@"
optimizers="$libs/sgd.so $libs/adamw.so $libs/lion.so $libs/lamb.so $libs/muon.so"
# shellcheck disable=SC2086
check --set momentum=0.9 --set clip_norm=0.5 --set ema=0.9 --set nonfinite=skip $optimizers
check --set amsgrad=true --set ema=0.9 "$libs/adamw.so"
check --set size=16 --set interpolation=bicubic "$libs/resize.so" "$libs/batch_resized_crop.so"
echo "$n plugins"
exit $failed
