# SPDX-License-Identifier: MIT
# augment.sh - every CUDA stage that changes images over the CUDA emulator: against its twin on the cpu, and what measures
# them. Apart from stages.sh, so that both run at once.
. "$top_srcdir/tests/emu/env.sh"
SP_TEST_SMALL=1 && export SP_TEST_SMALL
failed=0
if test -x "$top_builddir/tests/cuda/check_augment"; then
  SPCORE_EMU_PROTECT=0 "$top_builddir/tests/cuda/check_augment" || failed=1
fi
# captured, replayed, over several sets of buffers: what it measures here says nothing; minutes under a sanitizer
if test "${SP_SANITIZERS-none}" = none && test -x "$top_builddir/tests/bench/bench_augment"; then
  "$top_builddir/tests/bench/bench_augment" cuda 1 16 0 1 || failed=1
fi
exit $failed
