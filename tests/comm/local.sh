# SPDX-License-Identifier: MIT
# local.sh - the conformance suite of communicators on comm_local.so: ranks that are processes, and threads of one.
. "$top_srcdir/tests/comm/suite.sh"
for threads in '' yes; do
  SP_THREADS=$threads
  test -n "$threads" && export SP_THREADS
  for n in 1 2 3 4 8; do ranks local moves $n; done
  for n in 2 4; do ranks local abort $n; done
  ranks local abort_of_one 3
  ranks local wrong 2
  ranks local differ 3
done
unset SP_THREADS
ranks local kill 4
ranks local one_host 2
