#!/bin/sh
# SPDX-License-Identifier: MIT
# ranks_faults.sh - so many faults of one rank of four, drawn at random: which, on which rank, at which step, over which communicator.
# A table says how many runs ended in time, and how many ended with every rank naming the guilty one. As root a full disk is one of them.
#
#   tests/bench/ranks_faults.sh BUILD-DIR TIMES
#   SP_FAULTS_SEED=1 tests/bench/ranks_faults.sh build 100
set -u
if [ $# -ne 2 ]; then
  sed -n '6,7s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
top_builddir=$(cd "$1" && pwd)
export top_builddir SP_FAULTS="$2" SPCORE_PLUGIN_PATH="$top_builddir/.libs:$top_builddir/tests/plugins/.libs"
exec sh "$(dirname "$0")/../cli/ranks_faults.sh"
