#!/bin/bash
# SPDX-License-Identifier: MIT
# comm.sh - times of the calls of communicators by size and number of ranks, by tests/bench/bench_comm; see there.
#
#   tests/bench/comm.sh BUILD-DIR [COMM] [RANKS] [CASE]       local by default, "2 4 8", all
#   tests/bench/comm.sh build nccl 2
set -u
if [ $# -lt 1 ]; then
  sed -n '3,6s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
build=$(cd "$1" && pwd) || exit 2
comm=${2-local} ranks=${3-2 4 8} case=${4-all}
export SPCORE_PLUGIN_PATH=${SPCORE_PLUGIN_PATH-$build/.libs}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
status=0
for n in $ranks; do
  set -- "$build/tests/bench/bench_comm" "$comm" "$case" "$n"
  if [ "$comm" = mpi ]; then
    rm -f "$tmp/board"
    truncate -s 65536 "$tmp/board"
    SP_BOARD=$tmp/board TMPDIR=$tmp mpirun -np "$n" --allow-run-as-root --oversubscribe --mca mpi_yield_when_idle 1 "$@" |
      grep -v ': passed$'
    status=$((status | PIPESTATUS[0]))
  else
    "$@" || status=1
  fi
done
exit $status
