#!/bin/bash
# SPDX-License-Identifier: MIT
# predict_many.sh - predictions of many images of which one in a hundred is damaged: all others are written, those are listed, memory
# stays flat; then images/s of fewer of them, in turns with PyTorch's DataLoader, which is left out where PyTorch is not there.
#
#   tests/bench/predict_many.sh BUILD-DIR [IMAGES [ROUNDS]]       100000 images, 5 rounds; a file system has 65000 links of a file
set -u
if [ $# -lt 1 ]; then
  sed -n '3,6s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
build=$(cd "$1" && pwd) here=$(cd "$(dirname "$0")" && pwd) images=${2-100000} rounds=${3-5} python=${PYTHON-python3}
export SPCORE_PLUGIN_PATH=${SPCORE_PLUGIN_PATH-$build/.libs}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
spcore=$build/spcore
failed() {
  echo "predict_many.sh: $1" >&2
  tail -n 5 log >&2
  exit 1
}
make_images() { "$spcore" run "$here/predict_many.lua" data --links "$1" --bad "$2" --device cpu || exit 1; }

"$spcore" run train_cls.lua --size 64 --steps 30 --out cls --quiet --device cpu >log 2>&1 || failed "no classifier"
"$spcore" run train_seg.lua --size 64 --steps 30 --out seg --quiet --device cpu >log 2>&1 || failed "no network for masks"
many=$(make_images "$images" 100) fewer=$(make_images $((images / 50 + 100)) 100) some=$(make_images 2000 0)

# ---- all of them, and the peak of memory on the way ----
peak() { sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$1/status" 2>/dev/null; }

# watch SCRIPT COUNT COMMAND...: COUNT prints how many images are done
watch() {
  script=$1 count=$2 all=$3 early='' last='' begun=$(date +%s%N)
  shift 3
  nice "$spcore" run "$script" --device cpu --quiet "$@" >log 2>&1 &
  pid=$!
  while kill -0 $pid 2>/dev/null; do
    now=$(peak $pid)
    [ -z "$now" ] || last=$now
    [ -n "$early" ] || [ "$($count)" -lt $((all / 10)) ] || early=$last
    sleep 0.1
  done
  wait $pid
  status=$? seconds=$(($(date +%s%N) - begun))
  bad=$((all / 100))
  [ $status -eq 1 ] || failed "$script: exit status $status"
  [ "$($count)" -eq $((all - bad)) ] || failed "$script: $($count) of $((all - bad)) images are there"
  [ "$(wc -l <"$bad_file")" -eq $bad ] || failed "$script: $(wc -l <"$bad_file") of $bad bad ones are named"
  printf '%s: %d images, %d bad ones named, %d images/s, peak of memory %d KiB after a tenth, %d KiB at the end\n' "$script" "$all" $bad \
    $((all * 1000000000 / seconds)) "${early:-0}" "$last"
}
lines() { if [ -f all.csv ]; then echo $(($(wc -l <all.csv) - 1)); else echo 0; fi; }
masks() { if [ -d all/masks ]; then find all/masks -name '*.png' | wc -l; else echo 0; fi; }
bad_file=all.bad.txt
watch predict_cls.lua lines "$images" --weights cls --out all.csv "$many"
bad_file=all/bad.txt
watch predict_seg.lua masks $((images / 50 + 100)) --weights seg --out all "$fewer"

# ---- images/s, in turns; and of processors, which others that work on the machine disturb less ----
"$spcore" export cls --torch torch >log 2>&1 || failed "no export"
ours() {
  TIMEFORMAT='%R %U %S'
  { time "$spcore" run predict_cls.lua --device cpu --quiet --weights cls --out some.csv "$some" "$@" >log 2>&1; } 2>used ||
    failed "predict_cls.lua $*"
  awk '{ print 2000 / $1, ($2 + $3) / 2 }' used
}
theirs() {
  [ $with_torch = no ] || "$python" -W ignore "$here/predict_torch.py" torch/model.py "$some" "$@" 2>log |
    sed -n 's/.*images, \([0-9.]*\) ms.* \([0-9.]*\) images\/s/\2 \1/p'
}
median() { sort -n | awk '{ v[NR] = $1 } END { if (NR) printf "%8.'"$1"'f (%.'"$1"'f .. %.'"$1"'f)", v[int((NR + 1) / 2)], v[1], v[NR] }'; }
row() { echo "$1 $(cut -d ' ' -f 1 "$2" | median 0) $(cut -d ' ' -f 2 "$2" | median 2)"; }

with_torch=yes
"$python" -c 'import torch, PIL' 2>/dev/null || with_torch=no
: >a >b >c >d >e >f
for _ in $(seq "$rounds"); do
  ours --decode full >>a
  theirs --workers 2 >>b
  ours --decode scaled >>c
  theirs --workers 2 --threads 1 >>d
  theirs --workers 1 --threads 1 >>e
  theirs --workers 3 --threads 1 >>f
done
echo "images/s of 2000, and ms of a processor for each: median and range of $rounds rounds in turns, on $(nproc) processors; ours with"
echo "the start of the program, PyTorch without"
row 'predict_cls.lua                 ' a
row 'predict_cls.lua --decode scaled ' c
row 'PyTorch, 2 workers              ' b
row 'PyTorch, 2 workers, 1 thread    ' d
row 'PyTorch, 1 worker, 1 thread     ' e
row 'PyTorch, 3 workers, 1 thread    ' f
