# SPDX-License-Identifier: MIT
# trace.sh - a trace of device_cuda.so over the emulator: calls have times; those in recorded graphs from CUPTI, and without
# it a graph is one slice, and that is said.
set -u
. "${top_srcdir:?}/tests/emu/env.sh"
unset SPCORE_EMU_SLOWER # times of the timeline are compared with those of the host
cat >"$tmp/graph.lua" <<'END'
local sp = require "spcore"
local opt = sp.args { steps = { 12, "steps" }, fails = { -1, "the step that does" } }
local g <close> = sp.graph(opt)
local data = g.reader { path = "random", target = "class", classes = 4, samples = 24, size = 8, batch = 4 }
local x = g.to_float { data.image, scale = true }
local flat = g.layers { x, layers = { { "flatten" }, { "linear", 4 } }, name = "head" }
g:train { g.cross_entropy { flat.features, data.label, name = "loss" }, optimizer = g.sgd { lr = 1e-3 },
  lr = function(step) return step == opt.fails and 0 / 0 or 1e-3 end }
for _ in g:steps(opt.steps) do end
END
fail() {
  echo "FAIL: $*"
  exit 1
}
run() { # run CAPTURE [OPTION...]
  "$top_builddir/spcore" run "$tmp/graph.lua" --device cuda --threads 1 --capture "$@" --trace "$tmp/$1.json" \
    >"$tmp/out" 2>"$tmp/err" ||
    fail "capture $1: $(cat "$tmp/err")"
  "$top_builddir/spcore" timeline "$tmp/$1.json" --out "$tmp/$1.svg" >"$tmp/words" || fail "timeline of capture $1"
}
has() { # has N WORDS CAPTURE: so many slices of that name
  n=$(grep -c "\"ph\":\"X\".*\"name\":\"$2\"" "$tmp/$3.json")
  [ "$n" -eq "$1" ] || fail "capture $3: $n slices '$2', not $1"
}
notice() { # notice WHY: each graph is one slice, and that is said, with why
  grep -q "^spcore: trace: device 'cuda' has no times of single calls in a recorded graph: .*$1.*; each graph is one" \
    "$tmp/err" || fail "no notice of '$1': $(cat "$tmp/err")"
}

# ---- without CUPTI ----
run auto # records nothing, since it is traced
has 12 "head forward" auto
has 12 "head backward" auto
has 12 "data copy\|reader copy" auto
! grep -q no_single_calls "$tmp/auto.json" || fail "auto has single calls"

run lane
notice "CUPTI\|libcuptiemu.so"
grep -q '"no_single_calls":' "$tmp/lane.json" || fail "nothing said in the file"
has 1 "head backward" lane # of the first step, in which nothing is recorded
grep -q '"cat":"graph"' "$tmp/lane.json" || fail "no slice of a graph"
grep -q "is in lane all,\|the longest lane, all, has" "$tmp/words" || fail "no figures of graphs: $(cat "$tmp/words")"

run step
grep -q '"cat":"graph"' "$tmp/step.json" || fail "no slice of a step's graph"
grep -q "in one graph, so how far they overlap is not known" "$tmp/words" || fail "$(cat "$tmp/words")"
echo "ok - eager, lane and step"

grep -q '"no_counters":"libnvmlemu.so: ' "$tmp/step.json" || fail "nothing said of NVML"
! grep -q '"name":"GPU ' "$tmp/step.json" || fail "counters without NVML"

# ---- with stand-ins ----
LD_LIBRARY_PATH=$top_builddir/tests/emu/tools/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
run off
! grep -q '"no_counters"' "$tmp/off.json" || fail "counters are there"
grep -q '"ph":"C","pid":1,"name":"GPU power (W)","ts":0.000,"args":{"value":1[0-9][0-9]}' "$tmp/off.json" ||
  fail "no power: $(grep GPU "$tmp/off.json")"
grep -q '"name":"GPU memory (MiB)","ts":[0-9.]*,"args":{"value":[0-9.]*}' "$tmp/off.json" || fail "no memory"
! grep -q '"name":"GPU load' "$tmp/off.json" || fail "a load that NVML does not have"
[ "$(grep -c '"name":"GPU power' "$tmp/off.json")" -ge 2 ] || fail "no sample at the end"
echo "ok - counters"

# ---- a profiler that listens to NVTX ----
nvtx=$top_builddir/tests/emu/tools/.libs/libnvtxemu.so
nested() { # nested LOG: ranges of each thread end in turn, all of one domain
  awk '$1 == "push" { open[$2]++; if ($3 != "spcore") bad = 1 }
    $1 == "pop" { if (--open[$2] < 0 || $3 != "spcore") bad = 1 }
    END { for (t in open) if (open[t]) bad = 1; exit bad }' "$1"
}
ranges() { # ranges N NAME LOG: so many of that name, one for each step
  n=$(sed -n "s/^push [0-9]* spcore \([0-9]*\) $2$/\1/p" "$3" | sort -n | uniq | wc -l)
  [ "$n" -eq "$1" ] || fail "$n steps with a range '$2', not $1: $(cat "$3")"
}
if test -f "$nvtx"; then
  for mode in off lane; do
    NVTX_INJECTION64_PATH=$nvtx SPCORE_EMU_NVTX=$tmp/$mode.log "$top_builddir/spcore" run "$tmp/graph.lua" --device cuda \
      --threads 1 --strategy pipelined --capture $mode >"$tmp/out" 2>"$tmp/err" || fail "with a profiler: $(cat "$tmp/err")"
    nested "$tmp/$mode.log" || fail "ranges do not nest: $(cat "$tmp/$mode.log")"
    grep -q "^stream train$" "$tmp/$mode.log" || fail "stream train has no name: $(grep stream "$tmp/$mode.log")"
    ranges 12 "reader.forward" "$tmp/$mode.log"
  done
  ranges 12 "head.backward" "$tmp/off.log"
  ranges 13 "step" "$tmp/off.log" # the end of the loop is asked for, too
  ranges 0 "graph launch" "$tmp/off.log"
  ranges 11 "graph launch" "$tmp/lane.log"
  echo "ok - ranges"
fi

if test ! -f "$top_builddir/tests/emu/tools/.libs/libcuptiemu.so"; then
  echo "ok - there is no header of CUPTI"
  exit 0
fi
SPCORE_EMU_CUPTI=busy run lane
notice "another profiler has CUPTI"
has 1 "head backward" lane

look() { # look CAPTURE OPTION...: slices of all calls and of what they are made of, beside those of a run without graphs
  mode=$1
  shift
  run off --trace-steps 5 --steps 40 "$@"
  run "$mode" --trace-steps 5 --steps 40 "$@"
  [ ! -s "$tmp/err" ] || fail "capture $mode $*: $(cat "$tmp/err")"
  ! grep -q "no_single_calls" "$tmp/$mode.json" || fail "capture $mode $*: single calls are there"
  "$top_builddir/spcore" run "$top_srcdir/tests/emu/trace_look.lua" "$tmp/off.json" "$tmp/$mode.json" "$(cat "$tmp/words")" ||
    fail "capture $mode $*"
}
run lane # the first step's calls are timed one by one
has 12 "head backward" lane
look lane
look step
look lane --strategy pipelined
look step --strategy pipelined
look auto --strategy pipelined
run_failing() { # of a run that fails there are the calls of the steps before
  ! "$top_builddir/spcore" run "$tmp/graph.lua" --device cuda --threads 1 --capture "$1" --steps 40 --fails 25 --trace-steps 30 \
    --trace "$tmp/$1.json" >"$tmp/out" 2>"$tmp/err" && grep -q "at step 26" "$tmp/err" || fail "$(cat "$tmp/err")"
  n=$(grep -c '"ph":"X".*"name":"head backward"' "$tmp/$1.json")
  [ "$n" -ge 12 ] && [ "$n" -le 17 ] || fail "capture $1, a run that fails: $n calls of a stage"
}
run_failing lane
run_failing step
SPCORE_EMU_TIMING=late
export SPCORE_EMU_TIMING
look step --strategy double_buffer
echo "ok - single calls of lane and step"
