#!/bin/sh
# SPDX-License-Identifier: MIT
# make.sh SPCORE [FOLDER] - draws the schedules that docs/strategies.md shows: NAME.svg, beside this file or in FOLDER.
# With ./spcore of a build folder: docs/pictures/make.sh build/spcore
# make.sh --timeline SPCORE [FOLDER] - runs the reference training twice and draws what ran when: timeline.svg, which is another
# one each time. The machine is to do nothing else meanwhile.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
timeline=
if [ "${1-}" = --timeline ]; then
  timeline=yes
  shift
fi
spcore=${1:?"usage: docs/pictures/make.sh [--timeline] SPCORE [FOLDER]"}
to=${2-$here}
if [ "$timeline" ]; then
  tmp=$(mktemp -d "${TMPDIR:-/tmp}/spcore-timeline.XXXXXX")
  trap 'rm -rf "$tmp"' EXIT
  for strategy in serialized pipelined; do
    "$spcore" run reference_seg.lua --batch 4 --threads 1 --steps 32 --strategy $strategy --quiet --out "$tmp/$strategy" \
      --trace "$tmp/$strategy.json" --trace-steps 15
  done
  "$spcore" timeline "$tmp/serialized.json" "$tmp/pipelined.json" --steps 3 --out "$to/timeline.svg"
  exit
fi
# The device mock is a processor behind the border of a GPU, so that copies are seen.
draw() {
  "$spcore" schedule "$here/graphs.lua" --device mock --capture off --strategy "$1" --graph "$2" --svg "$to/$1.svg"
}
draw serialized train
draw pipelined train
draw deep train
draw branches branches
draw double_buffer write
draw replicas predict
