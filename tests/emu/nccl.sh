# SPDX-License-Identifier: MIT
# nccl.sh - the conformance suite of communicators on comm_nccl.so, over the CUDA emulator and a stand-in of NCCL.
. "$top_srcdir/tests/emu/env.sh"
. "$top_srcdir/tests/comm/suite.sh"
if test ! -f "$emu/comm_nccl.so"; then
  echo "skipped: there is no header of NCCL"
  exit 77
fi
unset NCCL_WIN_ENABLE # windows are on where nobody switches them off
for n in 1 2 4 8; do ranks nccl moves $n; done
ranks nccl abort 3
ranks nccl abort_alloc 3
ranks nccl kill 3
ranks nccl wrong 2
( # without windows
  export NCCL_WIN_ENABLE=0
  ranks nccl moves 2
  ranks nccl moves 3
) || exit 1
( # of several hosts there are none
  export SP_LOCAL_RANKS=1
  ranks nccl moves 2
) || exit 1
SPCORE_EMU_TIMING=late
export SPCORE_EMU_TIMING
ranks nccl moves 2
ranks nccl abort 3
ranks nccl kill 3
SPCORE_PLUGIN_PATH=$top_builddir/tests/emu/old/.libs:$SPCORE_PLUGIN_PATH # all_to_all as sends and receives
ranks nccl moves 3
