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
  [ -s "$tmp/now" ] && diff "$tmp/doc" "$tmp/now" || {
    echo "FAIL: '<' is in docs/scale-out.md, '>' what it prints: $table"
    status=1
  }
  if command -v lua5.4 >/dev/null; then
    lua5.4 "$script" "$table" | cmp - "$tmp/now" || { echo "FAIL: $table is another one under plain Lua"; status=1; }
  fi
done
"$top_builddir/spcore" run "$script" gpus net=10 >"$tmp/slow" || status=1
"$top_builddir/spcore" run "$script" gpus >"$tmp/now"
fail() { echo "FAIL: $*"; status=1; }
cut -d'|' -f2-5 "$tmp/slow" >"$tmp/slow.host"
cut -d'|' -f2-5 "$tmp/now" | cmp - "$tmp/slow.host" || fail "the network changes one host"
cmp -s "$tmp/slow" "$tmp/now" && fail "a slower network changes nothing"
"$top_builddir/spcore" run "$script" nonsense 2>&1 | grep -q "'nonsense' is neither a table" || fail "nonsense is taken"

# sent SCRIPT HOW WIRE OPTIONS...: what two ranks send, by a trace of them, beside what is predicted
sent() {
  script_=$1 how=$2 wire=$3; shift 3
  "$top_builddir/spcore" run "reference_$script_.lua" --device cpu --threads 1 --ranks 2 --size 32 --batch 2 --steps 6 \
    --warm-up 1 --trace "$tmp/t.json" --trace-steps 3 --out "$tmp/$script_.$how.$wire" --quiet "$@" >"$tmp/log" 2>&1 ||
    fail "$(cat "$tmp/log")"
  tr '{' '\n' <"$tmp/t.json" | awk -v want="$("$top_builddir/spcore" run "$script" sent size=32 batch=2 ranks=2 wire=$wire |
    sed -n "s/^$script_ $how //p")" -v what="$script_ $how" '
    /"pid":1,/ { steps += /"name":"comm totals"/ }
    /"stage":"comm.*"lane":"comm"/ && match($0, /"bytes":[0-9]+/) { bytes += substr($0, RSTART + 8, RLENGTH - 8) }
    /"pid":2,/ { exit }
    END { sent = steps ? bytes / steps / 2 : -1; print what ": " sent " bytes, predicted " want; exit sent != want }' || {
    fail "$script_ $how: other bytes"
  }
}
for which in seg cls; do
  sent $which factors 4
  sent $which reduced 4 --no-factors
done
sent seg reduced 2 --no-factors --wire bf16
exit $status
