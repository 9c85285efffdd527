# SPDX-License-Identifier: MIT
# env.sh - for the tests on the CUDA emulator: skips where it was not built, else puts it in front of the plugins.
emu=$top_builddir/tests/emu/.libs
if test ! -f "$emu/device_cuda.so"; then
  echo "skipped: the CUDA emulator was not built (it needs CUDA's headers and a C++17 compiler)"
  exit 77
fi
case ${SP_SANITIZERS-none}:$0 in
  *thread*:*/device.sh) ;;
  *thread*)
    echo "skipped: one thread computes everything here, and takes many minutes under ThreadSanitizer"
    exit 77
    ;;
esac
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
SPCORE_PLUGIN_PATH=$emu:$SPCORE_PLUGIN_PATH
SPCORE_CACHE=$tmp
SPCORE_EMU_PROTECT=1
SPCORE_EMU_SLOWER=10000 # what is a candidate for the fastest runs twice, then, and not 42 times; stages.sh has both
export SPCORE_PLUGIN_PATH SPCORE_CACHE SPCORE_EMU_PROTECT SPCORE_EMU_SLOWER
