# SPDX-License-Identifier: MIT
# device.sh - the device conformance suite on device_cuda.so over the CUDA emulator, at both of its timings.
. "$top_srcdir/tests/emu/env.sh"
unset SPCORE_EMU_SLOWER # what events tell is compared with the clock of the host
if test ! -x "$top_builddir/tests/emu/check_device"; then
  echo "skipped: the suite needs Check"
  exit 77
fi
if test -f "$top_builddir/tests/emu/tools/.libs/libcuptiemu.so"; then # stand-ins of CUPTI and NVML
  LD_LIBRARY_PATH=$top_builddir/tests/emu/tools/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  SP_TEST_TOOLS=1
  export LD_LIBRARY_PATH SP_TEST_TOOLS
fi
for timing in at_once late; do
  echo "SPCORE_EMU_TIMING=$timing"
  SPCORE_EMU_DEVICES=2 SPCORE_EMU_TIMING=$timing "$top_builddir/tests/emu/check_device" || exit 1
done
