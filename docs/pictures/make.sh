#!/bin/sh
# SPDX-License-Identifier: MIT
# make.sh SPCORE [FOLDER] - draws the schedules that docs/strategies.md shows: NAME.svg, beside this file or in FOLDER.
# With ./spcore of a build folder: docs/pictures/make.sh build/spcore
set -eu
here=$(cd "$(dirname "$0")" && pwd)
spcore=${1:?"usage: docs/pictures/make.sh SPCORE [FOLDER]"}
to=${2-$here}
# The device mock is a processor behind the border of a GPU, so that copies are seen.
draw() {
  "$spcore" schedule --svg "$here/graphs.lua" --device mock --capture off --strategy "$1" --graph "$2" >"$to/$1.svg"
}
draw serialized train
draw pipelined train
draw deep train
draw branches branches
draw double_buffer write
draw replicas predict
