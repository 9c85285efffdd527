# SPDX-License-Identifier: MIT
# ranks.sh - ranks that train on the CUDA emulator over comm_nccl.so and a stand-in of NCCL: the checksums of one process,
# eager and recorded.
# needs: onednn
. "$top_srcdir/tests/emu/env.sh"
unset SPCORE_EMU_PROTECT # whether hosts look into memory of the device other tests find out
if test ! -f "$emu/comm_nccl.so"; then
  echo "skipped: there is no header of NCCL"
  exit 77
fi
run() { # run RANKS STRATEGY CAPTURE TIMING [WIRE]
  wire=${5-fp32}
  SPCORE_EMU_TIMING=$4 "$top_builddir/spcore" run train_cls.lua --size 16 --samples 61 --device cuda --threads 1 --seed 3 --batch 2 --shards 4 \
    --eval-every 4 --quiet --checksums --no-tensorboard --steps 8 --ranks "$1" --strategy "$2" --capture "$3" --bucket "$1" --wire "$wire" \
    --out "$tmp/$1.$2.$3.$wire" >"$tmp/log" 2>&1 || {
    echo "FAIL: $*: $(cat "$tmp/log")"
    exit 1
  }
  cmp "$tmp/$1.$2.$3.$wire/checksums.jsonl" "$tmp/1.serialized.off.$wire/checksums.jsonl" || {
    echo "FAIL: $*: other checksums than one process has"
    exit 1
  }
  echo "ok - $*"
}
run 1 serialized off early
run 2 pipelined lane early
run 2 pipelined step late
run 1 serialized off early bf16
run 4 pipelined lane late bf16

# wide RANKS CAPTURE MOMENTUM PARTS PRECISION: products over the rows of all shards
wide() {
  SPCORE_EMU_TIMING=late "$top_builddir/spcore" run "$top_srcdir/tests/kit/wide.lua" --device cuda --shards 4 --seed 3 --momentum "$3" \
    --ranks "$1" --capture "$2" --parts "$4" --precision "$5" --file "$tmp/$3.$5.$1.safetensors" >"$tmp/log" 2>&1 &&
    grep -q "^[12]$" "$tmp/log" && cmp "$tmp/$3.$5.$1.safetensors" "$tmp/$3.$5.1.safetensors" || {
    echo "FAIL: wide $*: $(cat "$tmp/log")"
    exit 1
  }
  echo "ok - wide $*"
}
wide 1 off 0 1 fp32
wide 2 lane 0 2 fp32
wide 1 off 0.9 1 bf16
wide 2 step 0.9 1 bf16
wide 4 off 0.9 2 bf16
