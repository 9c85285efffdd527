# SPDX-License-Identifier: MIT
# ranks.sh - ranks over NCCL, with a GPU each: the conformance suite of communicators, and the checksums of one process,
# eager and recorded. What a host with one GPU skips runs over the emulator: tests/emu/nccl.sh, tests/emu/ranks.sh.
set -u
. "${top_srcdir:?}/tests/comm/suite.sh"
tmp=${TMPDIR:-/tmp}/spcore-cuda_ranks.$$
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp" || exit 99
if test ! -f "$top_builddir/.libs/comm_nccl.so"; then
  echo 'skipped: this build has no communicator nccl'
  exit 77
fi
if test "$("$top_builddir/spcore" devices 2>/dev/null | grep -c '^cuda:')" -lt 2; then
  echo 'skipped: there are no two GPUs'
  exit 77
fi
ranks nccl moves 2
ranks nccl abort_alloc 2
ranks nccl wrong 2
# NCCL's kernels for windows look for no abort (2.28): spcore ends such a process by force
NCCL_WIN_ENABLE=0
export NCCL_WIN_ENABLE
ranks nccl moves 2
ranks nccl abort 2
ranks nccl kill 2
unset NCCL_WIN_ENABLE

run() { # run RANKS CAPTURE
  timeout 120 "$top_builddir/spcore" run train_cls.lua --device cuda --ranks "$1" --capture "$2" --shards 4 --size 32 --batch 2 \
    --samples 61 --eval-every 4 --steps 12 --seed 3 --checksums --no-tensorboard --quiet --out "$tmp/$1.$2" >"$tmp/log" 2>&1 &&
    cmp "$tmp/$1.$2/checksums.jsonl" "$tmp/1.off/checksums.jsonl" || {
    echo "FAIL: $* ranks: $(cat "$tmp/log")"
    exit 1
  }
  echo "ok - $*"
}
run 1 off
run 1 step
run 2 off
run 2 lane
run 2 step
