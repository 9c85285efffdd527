# SPDX-License-Identifier: MIT
# ranks.sh - ranks over NCCL, with a GPU each: the conformance suite of communicators, the checksums of one process, eager and
# recorded, also where a job is killed and goes on with other ranks, and who is named when a rank is killed. What a host with
# one GPU skips runs over the emulator: tests/emu/nccl.sh, tests/emu/ranks.sh.
set -u
. "${top_srcdir:?}/tests/comm/suite.sh"
tmp=$(mktemp -d) || exit 99
first=
trap '[ -z "$first" ] || kill -KILL $first 2>/dev/null; rm -rf "$tmp"' EXIT
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
  timeout 600 "$top_builddir/spcore" run train_cls.lua --device cuda --ranks "$1" --capture "$2" --shards 4 --size 32 --batch 2 \
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

# Killed, and on with the other number of ranks.
long() { # long NAME RANKS: in the background, as `first`
  "$top_builddir/spcore" run train_cls.lua --device cuda --ranks "$2" --shards 4 --size 32 --batch 2 --samples 61 --eval-every 400 \
    --steps 2400 --checkpoint-every 200 --seed 3 --checksums --no-tensorboard --quiet --out "$tmp/$1" >"$tmp/$1.log" 2>&1 &
  first=$!
}
# over SECONDS: waits for `first` so long, then ends it; its exit status
over() {
  looks=$(($1 * 10))
  while kill -0 $first 2>/dev/null && [ $((looks -= 1)) -gt 0 ]; do sleep 0.1; done
  [ $looks -gt 0 ] || kill -KILL $first
  wait $first 2>/dev/null
  status=$?
  first=
  return $status
}
under_way() { # under_way NAME: it has a checkpoint, long before its end
  looks=6000
  while ! ls "$tmp/$1" 2>/dev/null | grep -q '^checkpoint-[1-9]' && kill -0 $first 2>/dev/null && [ $((looks -= 1)) -gt 0 ]; do
    sleep 0.01
  done
}
long whole 1
over 120 || {
  echo "FAIL: 2400 steps on one rank: $(cat "$tmp/whole.log")"
  exit 1
}
again() { # again RANKS THEN
  long "$1.then.$2" "$1"
  under_way "$1.then.$2"
  kill -KILL $first
  over 10
  sleep 1 # its ranks die with the launcher, a moment later
  if test -e "$tmp/$1.then.$2/summary.json"; then
    echo "FAIL: $1 ranks were through before they were killed"
    exit 1
  fi
  timeout 600 "$top_builddir/spcore" run train_cls.lua --resume "$tmp/$1.then.$2" --ranks "$2" --quiet >"$tmp/log" 2>&1 &&
    cmp "$tmp/$1.then.$2/checksums.jsonl" "$tmp/whole/checksums.jsonl" &&
    cmp "$tmp/$1.then.$2/weights.safetensors" "$tmp/whole/weights.safetensors" || {
    echo "FAIL: $1 ranks, then $2: $(cat "$tmp/log")"
    exit 1
  }
  echo "ok - $1, then $2"
}
again 2 1
again 1 2

# The other rank names the one that is killed, whichever it is.
killed() {
  long "killed.$1" 2
  under_way "killed.$1"
  # shellcheck disable=SC2046
  set -- "$1" $(cat /proc/$first/task/*/children) # in the order in which they were started
  eval "kill -KILL \"\$$(($1 + 2))\""
  over 20
  grep -q "rank $1 died at step" "$tmp/killed.$1.log" || {
    echo "FAIL: rank $1 is killed: $(cat "$tmp/killed.$1.log")"
    exit 1
  }
  echo "ok - rank $1 is killed"
}
killed 0
killed 1
