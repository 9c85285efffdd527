#!/bin/bash
# SPDX-License-Identifier: MIT
# ranks_gpu.sh - what a host with several GPUs says about ranks: bits, speed beside DistributedDataParallel, what one rank pays,
# and what becomes of a job whose rank is killed while the others are in a call of the communicator.
#
#   tests/bench/ranks_gpu.sh [-p PARTS] [-n RANKS] [-d DEVICE] [-c COMM] [-w BUILD-DIR] [-q] [BUILD-DIR [options of ranks.py]]
#
# PARTS, with commas: bits,seg8,seg32,cls32,alone,kill (all of them; meant to take less than nine minutes together). -w: a build
# folder to compare one rank with, such as one of before there were ranks. -q: tiny, does the script itself work? -d cpu -c local
# does so without a GPU. Options of ranks.py are for the speed: --ways static,compile-graphs --turns 5. See docs/scale-out.md.
set -u
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
parts=bits,seg8,seg32,cls32,alone,kill ranks=2 device=cuda comm=nccl without='' quick=''
usage() {
  sed -n '3,10s/^# \{0,1\}//p' "$0" >&2
  exit 2
}
while getopts p:n:d:c:w:q option; do
  case $option in
    p) parts=$OPTARG ;;
    n) ranks=$OPTARG ;;
    d) device=$OPTARG ;;
    c) comm=$OPTARG ;;
    w) without=$(cd "$OPTARG" && pwd) || exit 2 ;;
    q) quick=--quick ;;
    *) usage ;;
  esac
done
shift $((OPTIND - 1))
build=$(cd "${1-build}" && pwd) || exit 2
shift $(($# > 0))
for part in ${parts//,/ }; do
  case $part in bits | seg8 | seg32 | cls32 | alone | kill) ;; *) echo "ranks_gpu.sh: no part '$part'" >&2; usage ;; esac
done
. "$here/libraries.sh"
export NCCL_NVLS_ENABLE=${NCCL_NVLS_ENABLE-0}
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT SPCORE_ADDR SPCORE_PORT SPCORE_JOB
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
status=0
captures='off lane step' size=256 batch=8 steps=20 threads=''
[ "$device" != cpu ] || captures=off threads='--threads 1'
most=5000 # ms until all are gone
[ -z "$quick" ] || size=32 batch=2 steps=6 most=20000 # on a machine with other things to do

# A run into the folder NAME, in the array `command`: command_of NAME RANKS SCRIPT OPTIONS...
command_of() {
  local name=$1 n=$2 script=$3
  shift 3
  # shellcheck disable=SC2206
  command=("$build/spcore" run "$script" --device "$device" --ranks "$n" --comm "$comm" $threads --quiet --no-tensorboard
    --out "$tmp/$name" "$@")
}

# ---- the same bits on one rank and on several, in every capture ----
digest() {
  cat "$tmp/$1/checksums.jsonl" "$tmp/$1"/weights.safetensors 2>/dev/null | sha256sum | cut -c 1-16
  sed -E -e 's/"(comm_share|slowest_ms|slowest_rank)":[^,}]*,//g; s/,"(comm_share|slowest_ms|slowest_rank|sum)":[^,}]*//g' -e 's/"time":[^,}]*//' "$tmp/$1/metrics.jsonl" | sha256sum | cut -c 1-16
}

# bits_of TITLE SHARDS SCRIPT OPTIONS...: a line a run, and whether all have the same
bits_of() {
  local title=$1 shards=$2 first='' same=yes said n capture
  shift 2
  for n in 1 "$ranks"; do
    for capture in $captures; do
      rm -rf "$tmp/bits"
      command_of bits "$n" "$@" --shards "$shards" --capture "$capture" --strategy pipelined --checksums
      if timeout 120 "${command[@]}" >"$tmp/bits.log" 2>&1 && [ -s "$tmp/bits/checksums.jsonl" ]; then
        said=$(digest bits | tr '\n' ' ')
      else
        said="failed: $(tail -n 1 "$tmp/bits.log")" same=no
      fi
      printf '%-24s V = %d, R = %d, capture %-5s %s\n' "$title" "$shards" "$n" "$capture" "$said"
      first=${first:-$said}
      [ "$said" = "$first" ] || same=no
    done
  done
  [ $same = yes ] || status=1
  echo "$title, V = $shards: $([ $same = yes ] && echo 'the same bits every way' || echo 'NOT THE SAME BITS')"
}

part_bits() {
  echo "bits: checksums with weights, metrics; $steps steps"
  for shards in "$ranks" $((4 * ranks)); do
    bits_of "reference seg" "$shards" reference_seg.lua --size "$size" --batch "$batch" --warm-up 1 \
      --steps "$steps"
  done
  bits_of "cls with evaluations" $((4 * ranks)) train_cls.lua --size 32 --batch 2 --samples 124 --eval-every 4 --steps "$steps"
}

# ---- speed ----
# What PyTorch compiles takes a minute and more for each way, so only one of the tables has such rows: --ways names others.
speed() {
  # shellcheck disable=SC2086
  "$python" -B "$here/ranks.py" --device "$device" --comm "$comm" --ranks "1,$ranks" --turns 3 --alone eager $quick "$@" "$build" ||
    status=1
}
beside() { speed -s ddp --factors yes,no "$@"; }
part_seg8() { beside --workloads seg --batch 8 --ways eager,static,compile,compile-bf16 "$@"; }
part_seg32() { beside --workloads seg --batch 32 --ways static "$@"; }
part_cls32() { beside --workloads cls --cls-batch 32 --ways static "$@"; }
part_alone() { speed -s alone --without "$without" "$@"; }

# In the order in which they were started; a machine need not have ps.
children_of() {
  local stat
  for stat in /proc/[0-9]*/stat; do
    read -r pid _ _ parent _ <"$stat" && [ "$parent" = "$1" ] && echo "$pid"
  done 2>/dev/null | sort -n
}

# ---- killed while the others wait for it in a call ----
# killed VICTIM HOW: stopped first, so that the others are in the next call for sure, or at any time
killed() {
  local launcher all victim begun took look code named
  rm -rf "$tmp/kill"
  command_of kill "$ranks" reference_seg.lua --size "$size" --batch "$batch" --strategy pipelined --steps 10000000
  "${command[@]}" >"$tmp/kill.log" 2>&1 &
  launcher=$!
  for ((look = 0; look < 600; look++)); do
    [ "$(cat "$tmp/kill/metrics.jsonl" 2>/dev/null | wc -l)" -lt 40 ] || break
    kill -0 $launcher 2>/dev/null || break
    sleep 0.1
  done
  mapfile -t all < <(children_of $launcher)
  victim=${all[$1]-}
  if [ -z "$victim" ]; then
    echo "kill: no job of $ranks ranks: $(tail -n 1 "$tmp/kill.log")"
    kill -KILL $launcher 2>/dev/null
    status=1
    return
  fi
  sleep "0.$((RANDOM % 10))"
  [ "$2" = anytime ] || { kill -STOP "$victim"; sleep 0.5; }
  begun=$(date +%s%N)
  kill -KILL "$victim"
  for ((look = 0; look < 1500; look++)); do
    kill -0 $launcher "${all[@]}" 2>/dev/null || break # which is true as long as one is there
    sleep 0.01
  done
  took=$((($(date +%s%N) - begun) / 1000000))
  kill -KILL $launcher "${all[@]}" 2>/dev/null
  wait $launcher 2>/dev/null
  code=$? named=$(grep -c "rank $1 died" "$tmp/kill.log")
  printf 'kill: rank %d, %-10s all gone after %5d ms, named in %d lines, exit status %d\n' "$1" "$2," $took "$named" $code
  [ $took -le $most ] && [ "$named" -gt 0 ] && [ $code -ne 0 ] || {
    echo 'kill: FAILED'
    tail -n 4 "$tmp/kill.log"
    status=1
  }
}

part_kill() {
  killed $((ranks - 1)) in-a-call
  killed 0 anytime
  [ -z "$quick" ] || return 0
  killed 0 in-a-call
  killed $((ranks - 1)) anytime
}

for part in ${parts//,/ }; do
  begun=$(date +%s)
  echo
  "part_$part" "$@"
  echo "($part: $(($(date +%s) - begun)) s)"
done
exit $status
