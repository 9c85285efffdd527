# SPDX-License-Identifier: MIT
# suite.sh - for tests of communicators: ranks COMM CASE N runs a case on so many ranks, and ends the test where it fails.
set -u
unset SP_THREADS SP_BOARD
ranks() {
  "$top_builddir/tests/comm/ranks" "$@" || {
    echo "FAIL: ranks $* ${SP_THREADS:+as threads}"
    exit 1
  }
}
