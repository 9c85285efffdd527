# SPDX-License-Identifier: MIT
# mpi.sh - the conformance suite of communicators on comm_mpi.so, whose ranks mpirun starts.
. "$top_srcdir/tests/comm/suite.sh"
if test ! -f "$top_builddir/.libs/comm_mpi.so"; then
  echo "skipped: this build is without MPI (configure's summary says why)"
  exit 77
fi
command -v mpirun >/dev/null || { echo "skipped: there is no mpirun"; exit 77; }
case ${SP_SANITIZERS-none} in
  *thread*)
    echo "skipped: ThreadSanitizer cannot see into MPI"
    exit 77
    ;;
esac
ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0 # MPI's own
export ASAN_OPTIONS
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

mpi() { # mpi N CASE PASSED [OPTIONS of mpirun]
  n=$1 case=$2 passed=$3
  shift 3
  rm -f "$tmp/board"
  truncate -s 65536 "$tmp/board"
  SP_BOARD=$tmp/board TMPDIR=$tmp mpirun -np "$n" --allow-run-as-root --oversubscribe --mca mpi_yield_when_idle 1 \
    "$@" "$top_builddir/tests/comm/ranks" mpi "$case" "$n" >"$tmp/out" 2>&1
  status=$?
  test "$(grep -c ': passed' "$tmp/out")" -eq "$passed" || { echo "FAIL: $case, $n ranks"; cat "$tmp/out"; exit 1; }
}
for n in 1 2 3 4 8; do
  mpi $n moves $n
  test $status -eq 0 || { echo "FAIL: moves, $n ranks end with status $status"; cat "$tmp/out"; exit 1; }
done
# From here on MPI is not finalized, which mpirun takes for a failure, and tells at length.
mpi 2 wrong 2 --enable-recovery
mpi 3 abort 3 --enable-recovery
mpi 3 kill 2 --enable-recovery

# without mpirun
SP_TMPDIRS=$tmp "$top_builddir/tests/comm/ranks" mpi moves 2 >"$tmp/out" 2>&1 && { echo "FAIL: two ranks without mpirun"; exit 1; }
grep -q 'MPI has 1 rank, the job 2: start it with mpirun -np 2' "$tmp/out" || { echo "FAIL: what it says:"; cat "$tmp/out"; exit 1; }
