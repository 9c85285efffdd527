# SPDX-License-Identifier: MIT
# stages.sh - every CUDA stage over the CUDA emulator: against its twin on the cpu, and the conformance suite of stages.
. "$top_srcdir/tests/emu/env.sh"
# All precisions take minutes under a sanitizer: memory of float32 is what the networks have here, of bfloat16 the suite.
if test "${SP_SANITIZERS-none}" != none; then
  SP_TEST_PRECISION=tf32 SP_CONFORMANCE=bf16
  export SP_TEST_PRECISION SP_CONFORMANCE
fi
failed=0
for suite in stages labels metrics optim networks; do
  test -x "$top_builddir/tests/cuda/check_$suite" || continue
  # protection costs by the number of tensors, of which there are many here; the other suite has it
  SPCORE_EMU_PROTECT=0 SP_TEST_SMALL=1 "$top_builddir/tests/cuda/check_$suite" || failed=1
done
# Of single networks, without the other cases of that program.
CK_RUN_CASE=networks
export CK_RUN_CASE
# Where the workspace that cuDNN asks for is more than a lane has, a batch of three is computed as two samples and one.
if test -x "$top_builddir/tests/cuda/check_networks"; then
  for net in "odd sizes" transposed; do
    SPCORE_EMU_SLOWER=1 SPCORE_EMU_CONV=30000000 SPCORE_EMU_PROTECT=0 SP_TEST_SMALL=1 SP_TEST_NET=$net \
      "$top_builddir/tests/cuda/check_networks" || failed=1
  done
fi
# Products of all places of a kernel are one call, or one call each: what was faster, then the other.
if test -x "$top_builddir/tests/cuda/check_networks"; then
  for turn in 1 2; do
    SPCORE_EMU_PROTECT=0 SP_TEST_SMALL=1 SP_TEST_PRECISION=tf32 SP_TEST_NET="places of an even kernel" SP_TEST_CACHE=$tmp/places \
      "$top_builddir/tests/cuda/check_networks" || failed=1
    grep -Eq "	(places|each) " "$tmp"/places/cuda-*.txt || failed=1
    sed -i -E "s/(	)places /\1now /; s/(	)each /\1places /; s/(	)now /\1each /" "$tmp"/places/cuda-*.txt
  done
fi
unset CK_RUN_CASE
SP_CUDA_MODULES=$emu sh "$top_srcdir/tests/cuda/conformance.sh" || failed=1
exit $failed
