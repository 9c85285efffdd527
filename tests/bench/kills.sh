#!/bin/bash
# SPDX-License-Identifier: MIT
# kills.sh - ends a run by signals at random times, in saving and in going on too, goes on each time, and compares what it comes to
# with the same run in one piece: weights, the best, metrics without their times.
#
#   tests/bench/kills.sh BUILD-DIR SCRIPT SIGNAL TIMES [options of the script]
#   tests/bench/kills.sh build train_seg.lua KILL 40 --size 32 --batch 4 --steps 500 --samples 64 --checkpoint-every 20
set -u
if [ $# -lt 4 ]; then
  sed -n '3,8s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
build=$(cd "$1" && pwd) script=$2 signal=$3 times=$4
shift 4
export SPCORE_PLUGIN_PATH=${SPCORE_PLUGIN_PATH-$build/.libs}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1

without_time() { sed 's/"time": *[0-9.e+-]*,\?//; s/,"sum":"[0-9a-f]*"//' "$1"; }
now() { date +%s%N; }
failed() {
  echo "kills.sh: $1" >&2
  cat log >&2
  exit 1
}

begun=$(now)
"$build/spcore" run "$script" "$@" --out whole >log 2>&1 || failed "the run in one piece fails"
whole=$((($(now) - begun) / 1000000))
sent=0 runs=0 longest=0
while [ "$sent" -lt "$times" ]; do
  rm -rf part
  status=1
  while [ "$status" -ne 0 ]; do
    [ -f part/settings.json ] || rm -rf part
    if [ -d part ]; then "$build/spcore" run "$script" --resume part >log 2>&1 &
    else "$build/spcore" run "$script" "$@" --out part >log 2>&1 &
    fi
    pid=$!
    if [ "$sent" -lt "$times" ]; then
      wait_ms=$((10 + RANDOM * whole * 7 / 327680))
      sleep "$((wait_ms / 1000)).$(printf %03d $((wait_ms % 1000)))"
      begun=$(now)
      kill -s "$signal" "$pid" 2>/dev/null && sent=$((sent + 1))
    fi
    wait "$pid" 2>/dev/null
    status=$?
    took=$((($(now) - begun) / 1000000))
    case $status in
      0) ;;
      129 | 130 | 137 | 138 | 140 | 143) [ "$took" -le "$longest" ] || longest=$took ;;
      *) failed "exit status $status" ;;
    esac
  done
  runs=$((runs + 1))
  for file in weights.safetensors best.safetensors; do cmp whole/$file part/$file || exit 1; done
  [ ! -f whole/weights-last.safetensors ] || cmp whole/weights-last.safetensors part/weights-last.safetensors || exit 1
  if [ "$(without_time whole/metrics.jsonl)" != "$(without_time part/metrics.jsonl)" ]; then
    echo "kills.sh: the metrics differ" >&2
    exit 1
  fi
done
echo "$script: $sent times SIG$signal in $runs runs of $whole ms, the same bytes; from signal to end at most $longest ms"
