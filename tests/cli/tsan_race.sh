# SPDX-License-Identifier: MIT
# Under TSan a deliberate race must be reported, with the suppressions that the other tests run with.
case ${SP_SANITIZERS-} in
  *thread*) ;;
  *) echo 'skipped: not a ThreadSanitizer build'; exit 77 ;;
esac
out=$(TSAN_OPTIONS="${TSAN_OPTIONS-} exitcode=66" "${top_builddir:?}/tests/cli/tsan_race" 2>&1)
rc=$?
echo "$out"
[ "$rc" -eq 66 ] || { echo "FAIL: exit status $rc, 66 expected"; exit 1; }
case $out in
  *'data race'*lane*) exit 0 ;;
esac
echo 'FAIL: no data race reported'
exit 1
