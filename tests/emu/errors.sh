# SPDX-License-Identifier: MIT
# errors.sh - what a user is told when the GPU fails, on the CUDA emulator: a device that broke, one that is too small.
# needs: onednn images jansson
. "$top_srcdir/tests/emu/env.sh"
failed=0
n=0

# expect NAME STATUS "VARIABLE=VALUE ..." OPTION... -- WORD...: one line with all the words, no weights
expect() {
  name=$1 want=$2 vars=$3
  shift 3
  n=$((n + 1))
  : >"$tmp/options"
  while test "$1" != --; do echo "$1" >>"$tmp/options" && shift; done
  shift
  env $vars "$top_builddir/spcore" run "$top_srcdir/scripts/train_seg.lua" --batch 2 --steps 12 --size 32 --samples 16 \
    --device cuda --quiet --eval-every 100 --out "$tmp/run$n" $(cat "$tmp/options") >"$tmp/out" 2>"$tmp/err"
  got=$?
  ok=1
  test "$got" = "$want" || ok=0
  test "$(grep -c . "$tmp/err")" = 1 || ok=0
  test ! -e "$tmp/run$n/weights.safetensors" || ok=0
  for word; do grep -qF -- "$word" "$tmp/err" || ok=0; done
  if test $ok = 1; then
    echo "ok - $name"
    return
  fi
  echo "not ok - $name: exit status $got, wanted $want and one line with: $*"
  cat "$tmp/out" "$tmp/err"
  ls "$tmp/run$n"
  failed=1
}

# The first run measures and keeps the choices, so that later ones fail where they are told to.
"$top_builddir/spcore" run "$top_srcdir/scripts/train_seg.lua" --batch 2 --steps 1 --size 32 --samples 16 \
  --device cuda --quiet --eval-every 100 --out "$tmp/first" >"$tmp/out" 2>&1 || { cat "$tmp/out"; exit 1; }

suspects="one of the stages 'to_float', 'encoder', 'decoder', 'cross_entropy', 'confusion', 'adamw'"
for timing in at_once late; do
  expect "a kernel fails, $timing" 75 "SPCORE_EMU_FAIL=400 SPCORE_EMU_TIMING=$timing" --capture off -- \
    "device 'cuda' failed in step " " or a later one, in $suspects" "SPCORE_SYNC=1 finds out which): "
  expect "a kernel fails behind another lane's, $timing" 75 "SPCORE_EMU_FAIL=500 SPCORE_EMU_TIMING=$timing" \
    --capture off --strategy pipelined -- "device 'cuda' failed in step " "$suspects"
done
expect "a recorded lane fails" 75 "SPCORE_EMU_FAIL=170 SPCORE_EMU_TIMING=late" -- \
  "device 'cuda' failed in step " "$suspects"
for fail in 400 430 460; do
  expect "the culprit of operation $fail" 75 "SPCORE_EMU_FAIL=$fail SPCORE_SYNC=1 SPCORE_EMU_TIMING=late" -- \
    "train_seg.lua:" ": '" "' of step "
done
expect "a copy of weights fails" 75 "SPCORE_EMU_FAIL=3" -- "train_seg.lua:" "an illegal memory access"
expect "a measurement fails" 75 "SPCORE_EMU_FAIL=200 SPCORE_CACHE=$tmp/none" -- \
  "stage '" "_cuda.so): " " an illegal memory access"

expect "weights do not fit" 1 "SPCORE_EMU_MEMORY=100000" -- \
  "stage 'encoder'" "out of memory on cuda:0: 73728 bytes asked for" " of 100000 bytes are free" "--batch"
expect "tensors do not fit" 1 "SPCORE_EMU_MEMORY=1000000" -- \
  "the graph needs " "device 'cuda' has " "the largest part is " "take a smaller batch or size"
expect "the workspace does not fit" 1 "SPCORE_EMU_MEMORY=40000000" -- "stage 'encoder' (networks_cuda.so): " \
  "67108864 bytes asked for" " of 40000000 bytes are free" "--batch"
"$top_builddir/spcore" run "$top_srcdir/tests/cuda/record_fails.lua" || failed=1
exit $failed
