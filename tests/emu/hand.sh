# SPDX-License-Identifier: MIT
# hand.sh - streams by hand on the CUDA emulator: tests/lua/hand.lua, and the article's loops, whatever the timing of
# the streams. needs: onednn images
. "$top_srcdir/tests/emu/env.sh"
failed=0
for timing in now late; do
  SPCORE_EMU_TIMING=$timing
  export SPCORE_EMU_TIMING
  SP_TEST_DEVICE=cuda "$top_builddir/spcore" run "$top_srcdir/tests/lua/hand.lua" || failed=1
  for loop in seg cls; do
    "$top_builddir/spcore" run by_hand_$loop.lua --device cuda --size 16 --batch 2 --steps 3 --check-races >"$tmp/log" 2>&1
    if test $? -ne 1 || ! grep -q '^published  *by_hand_.*race on' "$tmp/log" || ! grep -q '^corrected .* as serialized$' "$tmp/log"; then
      echo "by_hand_$loop.lua, timing $timing:"
      cat "$tmp/log"
      failed=1
    fi
  done
  # a device that fails at any operation ends the script with one line
  for fail in 20 60 110 180; do
    SPCORE_EMU_FAIL=$fail "$top_builddir/spcore" run by_hand_seg.lua --device cuda --size 8 --batch 2 --steps 3 \
      --loop corrected >"$tmp/log" 2>&1
    code=$?
    if test $code -ne 75 || test "$(grep -c '^spcore: ' "$tmp/log")" -ne 1; then
      echo "failure at operation $fail, timing $timing: exit code $code"
      cat "$tmp/log"
      failed=1
    fi
  done
done
exit $failed
