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
run() { # run RANKS STRATEGY CAPTURE TIMING
  SPCORE_EMU_TIMING=$4 "$top_builddir/spcore" run train_cls.lua --size 16 --samples 61 --device cuda --threads 1 --seed 3 --batch 2 --shards 4 \
    --eval-every 4 --quiet --checksums --no-tensorboard --steps 8 --ranks "$1" --strategy "$2" --capture "$3" --bucket "$1" \
    --out "$tmp/$1.$2.$3" >"$tmp/log" 2>&1 || {
    echo "FAIL: $*: $(cat "$tmp/log")"
    exit 1
  }
  cmp "$tmp/$1.$2.$3/checksums.jsonl" "$tmp/1.serialized.off/checksums.jsonl" || {
    echo "FAIL: $*: other checksums than one process has"
    exit 1
  }
  echo "ok - $*"
}
run 1 serialized off early
run 2 pipelined lane early
run 2 pipelined step late
