#!/bin/sh
# SPDX-License-Identifier: MIT
# predict_ranks.sh - the tables in docs/scale-out.md are those that tests/bench/predict_ranks.lua prints, under spcore and under
# plain Lua, and what it is told of a network changes them; and the bytes that it counts are those that ranks send.
# needs: onednn images
# once: a script and a document, and traces of what other tests run
set -u
doc=${top_srcdir:?}/docs/scale-out.md script=$top_srcdir/tests/bench/predict_ranks.lua
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
status=0
for table in bytes links gpus cpus; do
  sed -n "/^<!-- predict_ranks.lua $table -->$/,/^<!-- end -->$/p" "$doc" | sed '/^<!--/d' >"$tmp/doc"
  "${top_builddir:?}/spcore" run "$script" "$table" >"$tmp/now" || status=1
  [ -s "$tmp/now" ] && diff "$tmp/doc" "$tmp/now" || { echo "FAIL: '<' is in docs/scale-out.md, '>' what it prints: $table"; status=1; }
  if command -v lua5.4 >/dev/null; then
    lua5.4 "$script" "$table" | cmp - "$tmp/now" || { echo "FAIL: $table is another one under plain Lua"; status=1; }
  fi
done
"$top_builddir/spcore" run "$script" gpus net=10 >"$tmp/slow" || status=1
"$top_builddir/spcore" run "$script" gpus >"$tmp/now"
cut -d'|' -f2-5 "$tmp/slow" >"$tmp/slow.host" && cut -d'|' -f2-5 "$tmp/now" | cmp - "$tmp/slow.host" || { echo "FAIL: the network changes one host"; status=1; }
cmp -s "$tmp/slow" "$tmp/now" && { echo "FAIL: a slower network changes nothing"; status=1; }
"$top_builddir/spcore" run "$script" nonsense 2>&1 | grep -q "'nonsense' is neither a table" || { echo "FAIL: nonsense is taken"; status=1; }

# sent SCRIPT HOW OPTIONS...: what two ranks send, by a trace of them, beside what is predicted
sent() {
  script_=$1 how=$2; shift 2
  "$top_builddir/spcore" run "train_$script_.lua" --reference --device cpu --threads 1 --ranks 2 --size 32 --batch 2 --steps 6 --warm-up 1 \
    --trace "$tmp/t.json" --trace-steps 3 --out "$tmp/$script_.$how" --quiet "$@" >"$tmp/log" 2>&1 || { echo "FAIL: $(cat "$tmp/log")"; status=1; }
  tr '{' '\n' <"$tmp/t.json" | awk -v want="$("$top_builddir/spcore" run "$script" sent size=32 batch=2 ranks=2 |
    sed -n "s/^$script_ $how //p")" -v what="$script_ $how" '
    /"pid":1,/ { add = /"name":"comm add/; steps += /"name":"comm totals"/ }
    /"lane":"comm"/ && !add && match($0, /"bytes":[0-9]+/) { bytes += substr($0, RSTART + 8, RLENGTH - 8) }
    /"pid":2,/ { exit }
    END { sent = steps ? bytes / steps / 2 : -1; print what ": " sent " bytes, predicted " want; exit sent != want }' || {
    echo "FAIL: $script_ $how: other bytes"
    status=1
  }
}
for which in seg cls; do
  sent $which factors
  sent $which reduced --no-factors
done
exit $status
