# SPDX-License-Identifier: MIT
# conformance.sh - every CUDA module of ours passes the stage conformance suite, in each precision. The modules
# are those in $SP_CUDA_MODULES, .libs of the build folder where that is not set; $SP_CONFORMANCE names other precisions.
set -u
spcore=${top_builddir:?}/spcore
modules=${SP_CUDA_MODULES-$top_builddir/.libs}
out=$(mktemp -d) || exit 99
trap 'rm -rf "$out"' EXIT
n=0
failed=0
set --
for so in "$modules"/*_cuda.so; do
  case $so in */device_cuda.so) continue ;; esac
  test -f "$so" || continue
  n=$((n + 1))
  set -- "$@" "$so"
done
if [ "$n" -eq 0 ]; then
  echo 'skipped: this build is without CUDA'
  exit 77
fi
for precision in ${SP_CONFORMANCE:-fp32 tf32 bf16}; do
  # what decoder, batch_crop, batch_rotate ... cannot do without
  "$spcore" check --quiet --precision $precision --set classes=2 --set size=16 --set degrees=30 "$@" >"$out/log" 2>&1
  code=$?
  if reason=$(grep -o "SKIP device 'cuda': .*" "$out/log" | head -n 1) && [ -n "$reason" ]; then
    echo "skipped: ${reason#SKIP }"
    exit 77
  fi
  if [ $code -ne 0 ] || grep -q 'not exercised' "$out/log"; then
    echo "$precision:"
    cat "$out/log"
  fi
  [ $code -eq 0 ] || failed=$((failed + 1))
done
# with all that they can keep
"$spcore" check --quiet --set momentum=0.9 --set clip_norm=0.5 --set ema=0.9 --set nonfinite=skip "$modules/sgd_cuda.so" \
  "$modules/adamw_cuda.so" "$modules/lion_cuda.so" "$modules/lamb_cuda.so" "$modules/muon_cuda.so" >"$out/log" 2>&1 || {
  failed=$((failed + 1))
  cat "$out/log"
}
echo "$n modules, $failed runs failed"
test "$failed" -eq 0
