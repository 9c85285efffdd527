-- SPDX-License-Identifier: MIT
-- Strategy auto: what it takes where stages can overlap and where not, and why; the same bits as serialized, and no trace of its
-- trials; what it remembers, and what it does with a file that is none. How fast anything is, is for a quiet machine to say.
-- needs: onednn images
-- once: a choice in Lua; check_trial has what it measures with
local t = require "check"

local dir <close> = t.folder()

-- Two stages that sleep: the first may work a step ahead, unless it is `bound` to the weights of the step before.
t.write(dir.path .. "/train.lua", [[
local sp = require "spcore"
local opt = sp.args {
  steps = { 12, "" }, ms = { 2.0, "" }, bound = { false, "" }, batch = { 8, "" }, fails = { -1, "" }, twice = { false, "" },
  folder = { false, "" },
}
local g <close> = sp.graph(opt)
local data = g.toy_source { batch = opt.batch }
local x = data.x
if opt.bound then x = g.toy_mul { x, name = "first" }.y end
local one = g.sleep { x, ms = opt.ms, name = "one", frozen = true, fail_at_step = opt.fails }
local b = g.toy_mul { one.y[1], name = "b" }
local two = g.sleep { b.y, ms = opt.bound and 0.1 or opt.ms, name = "two" }
local asked = {}
g:train {
  g.toy_loss { two.y[1], name = "loss" }, optimizer = g.toy_sgd {},
  lr = function(step) asked[#asked + 1] = step; return 0.01 / (1 + #asked) end,
}
-- Trials have a clock of their own, so that no choice depends on how busy the machine is: their steps are made, and are said to
-- take what they would on a machine that does nothing else.
local trial, names = getmetatable(g._raw).__index, {}
local function seconds(i)
  local serialized, overlapped = 2e-3 * opt.ms, 1e-3 * opt.ms
  return names[i] == "serialized" and serialized or names[i] == "pipelined" and overlapped or 1.1 * overlapped
end
local add, turn, predict = trial.trial_add, trial.trial_run, trial.trial_predict
function trial.trial_add(raw, name, lanes)
  local i, why, kind = add(raw, name, lanes)
  if i then names[i] = names[i] or name end
  return i, why, kind
end
function trial.trial_run(raw, i, steps)
  local t, why, kind = turn(raw, i, steps)
  return t and seconds(i), why, kind
end
function trial.trial_predict(raw, i)
  local forecast, why, kind = predict(raw, i)
  if forecast then forecast.seconds = seconds(i) end
  return forecast, why, kind
end
local run = opt.folder and sp.run { graph = g, opt = opt, weights = false }
for loop = 1, opt.twice and 2 or 1 do
  for step, m in g:steps(opt.steps) do
    print(("%d %d %a %a"):format(step, m.epoch, m.loss, m.lr))
    if run then run:step(step, m) end
  end
end
print(table.concat(asked, " "), g:step())
for _, w in ipairs(b:weight "w") do print(("%a"):format(w)) end
io.stderr:write(("allocations %d strategy %s\n"):format(g:allocations(), g:schedule().strategy))
if run then run:finish() end
]])

local n = 0
-- Returns what the script says, without what auto does; the last line of that, the table in front of it, standard error.
local function run(options, cache, code)
  local got, out, err = t.spcore(dir.path, ("run --plugin '%s/toy.so' train.lua --threads 2 --auto-budget 0.6 %s"):format(
    os.getenv "SP_TEST_PLUGINS", options), ("SPCORE_CACHE='%s/%s'"):format(dir.path, cache or "none"))
  t.eq(got, code or 0, err)
  local auto, rows, rest = nil, {}, {}
  for line in out:gmatch "[^\n]+" do
    if line:find "^strategy auto: " then auto = line:sub(16)
    elseif line:find "^strategy auto on" or line:find "^  %l" then rows[#rows + 1] = line
    else rest[#rest + 1] = line end
  end
  return table.concat(rest, "\n"), auto, table.concat(rows, "\n"), err
end

local function new_cache()
  n = n + 1
  return "cache" .. n
end

-- what can overlap does, with the same bits, also of steps in a second loop; the learning rate is asked as always
for _, how in ipairs { "cpu off", "mock lane", "mock step" } do
  local device, capture = how:match "(%S+) (%S+)"
  local options = ("--twice --device %s --capture %s"):format(device, capture)
  local want = run(options)
  local got, auto, rows, err = run(options .. " --strategy auto", new_cache())
  t.eq(got, want, how)
  t.match(auto, "^%l[%l_]*, .*%d%.%d%d times serialized$")
  t.ok(not auto:find "^serialized", auto)
  t.match(rows, "^strategy auto on " .. device .. ": steps a second\n +strategy +predicted +achieved +memory +limited by")
  t.match(rows, "\n  serialized +[%d.]+ +[%d.]+ +[%d.]+ %a+ +lane all")
  t.match(rows, "\n  pipelined, depth 1 +<? ?[%d.]+")
  t.match(rows, "\n  alone: %l[%w_.]+ [%d.]+ ms, ")
  t.match(err, "strategy " .. auto:match "^[%l_]+")
end

do -- what cannot stays serialized, and nothing but that is different: also allocations
  local want, _, _, plain = run "--bound"
  local cache = new_cache()
  local got, auto, rows, err = run("--bound --strategy auto", cache)
  t.eq(got, want)
  t.eq(err, plain, "allocations and strategy")
  t.match(auto, "^stay serialized, because every other strategy does the same here: .*there is no frozen stage")
  t.eq(rows, "")
end

do -- checksums of the run's own steps, and its folder
  run "--folder --checksums --out plain"
  run("--folder --checksums --out chosen --strategy auto", new_cache())
  t.eq(t.read(dir.path .. "/chosen/checksums.jsonl"), t.read(dir.path .. "/plain/checksums.jsonl"))
  local _, lines = t.read(dir.path .. "/chosen/metrics.jsonl"):gsub("\n", "")
  t.eq(lines, 12)
  t.match(t.read(dir.path .. "/chosen/settings.json"), '"strategy": "pipelined"')
  run("--folder --trace trace.json --out traced --strategy auto --steps 3", new_cache())
  local _, calls = t.read(dir.path .. "/trace.json"):gsub('"one forward"', "")
  t.eq(calls, 3, "calls in the trace")
end

do -- remembered, measured again, and a file that is none
  local cache = new_cache()
  local want, first = run("--strategy auto", cache)
  local got, second, rows = run("--strategy auto", cache)
  t.eq(got, want)
  t.eq(rows, "")
  local path = second:match "%-%-auto%-again measures again %((.*)%)$"
  t.eq(second:sub(1, #first), first)
  t.match(second, ", as measured %d+%-%d%d%-%d%dT")
  local _, _, again = run("--strategy auto --auto-again", cache)
  t.match(again, "serialized")
  local _, other = run("--strategy auto --batch 4", cache)
  t.ok(not other:find "as measured", "another batch is measured")
  for _, text in ipairs { "", "{", "[1]", '{"form": 1, "strategy": "../x", "depth": 1}', '{"form": 1, "strategy": 3}' } do
    t.write(path, text)
    local _, third, measured, err = run("--strategy auto", cache)
    t.match(err, "auto%-%x+%.json: .*: strategy auto measures again and replaces it\n")
    t.match(measured, "serialized")
    t.ok(not third:find "as measured", third)
    if text ~= "" then break end -- the others are read alike
  end
  local _, fourth = run("--strategy auto", cache)
  t.match(fourth, "as measured")
  local _, chosen, _, err = run("--strategy auto", "train.lua/none")
  t.match(chosen, "times serialized$")
  t.match(err, "the choice is not remembered: .*train.lua.*SPCORE_CACHE names a folder for it")
end

do -- spcore schedule, and --explain, run nothing: they take what is remembered, or say that nothing is
  local cache = new_cache()
  local function schedule(words)
    return t.spcore(dir.path, ("%s --plugin '%s/toy.so' train.lua --threads 2 --strategy auto"):format(words,
      os.getenv "SP_TEST_PLUGINS"), ("SPCORE_CACHE='%s/%s'"):format(dir.path, cache))
  end
  local code, out, err = schedule "schedule"
  t.eq(code, 0, err)
  t.match(out, "^strategy serialized,")
  t.one_line(err, "nothing is remembered of this graph yet, so this is serialized; spcore run measures")
  run("--strategy auto", cache)
  code, out, err = schedule "schedule"
  t.eq(code, 0, err)
  t.match(out, "^strategy pipelined,") -- alone: with --json it is one document
  t.match(err, "^strategy auto: pipelined, .*, as measured .*\n$")
end

do -- a failure of a stage is the run's to tell, at its step; one that the run does not come to is not told as its own
  local want, _, _, plain = run("--fails 5", nil, 1)
  local got, auto, _, err = run("--fails 5 --strategy auto", new_cache(), 1)
  t.eq(got, want)
  t.eq(auto, nil)
  t.match(err, "stay serialized, because a trial step failed: stage 'one' .*step 6: told to fail here")
  t.ok(err:find(plain:match "[^\n]+\n$", 1, true), "the same words: " .. err)
  t.eq((run("--fails 5 --steps 3 --strategy auto", new_cache())), (run "--fails 5 --steps 3"))
end

do -- what does not fit the limit is left out, with the figures
  local function memory(strategy)
    local _, out = t.spcore(dir.path, ("schedule --json --plugin '%s/toy.so' train.lua --batch 65536 --strategy %s"):format(
      os.getenv "SP_TEST_PLUGINS", strategy))
    return require "spcore".json.decode(out).memory.strategy.total
  end
  local least, most = memory "serialized", memory "pipelined"
  local limit = least // 0x100000 + 1
  t.ok(limit * 0x100000 < most, "there is a limit between")
  local _, auto, rows = run(("--batch 65536 --memory-limit %d --strategy auto"):format(limit), new_cache())
  t.match(rows, "pipelined, depth 1 .* refused: the graph needs [%d.]+ MiB of memory, %-%-memory%-limit allows [%d.]+;")
  t.match(auto, "^stay serialized, because ")
  local _, _, _, err = run("--batch 65536 --memory-limit 1", nil, 1)
  t.match(err, "the graph needs [%d.]+ MiB of memory, %-%-memory%-limit allows 1%.0; .*, or a higher limit")
end

do -- where there is no room for several at a time, each is built for its turns alone
  local options = "--device mock --batch 2048 --pinned 1"
  local got, auto, rows = run(options .. " --strategy auto", new_cache())
  t.eq(got, (run(options)))
  t.match(auto, "times serialized$")
  t.ok(not rows:find "refused", rows)
end

do -- steps that take longer than all the time that there is are not tried
  local _, auto, rows = run("--ms 150 --steps 1 --strategy auto --auto-budget 0.1", new_cache())
  t.match(auto, "^stay serialized, because a step takes %d%.%d seconds and %-%-auto%-budget is 0%.1, so nothing was tried$")
  t.eq(rows, "")
end

do -- another plugin of the same name is measured anew
  os.execute(("cp '%s/toy.so' '%s/toy.so'"):format(os.getenv "SP_TEST_PLUGINS", dir.path))
  local cache = new_cache()
  local function words()
    local code, out, err = t.spcore(dir.path, "run --plugin toy.so train.lua --threads 2 --auto-budget 0.6 --strategy auto",
      ("SPCORE_CACHE='%s/%s'"):format(dir.path, cache))
    t.eq(code, 0, err)
    return out
  end
  t.ok(not words():find "as measured", "the first time")
  t.ok(words():find "as measured", "the second time")
  local file = assert(io.open(dir.path .. "/toy.so", "a"))
  file:write "another build"
  file:close()
  t.ok(not words():find "as measured", "another build")
end

do -- a stage whose work is outside of the graph is not tried
  t.write(dir.path .. "/writes.lua", [[
local sp = require "spcore"
local g <close> = sp.graph(sp.args {})
local data = g.reader { path = "random", target = "class", samples = 8, size = 8, batch = 1 }
g.image_writer { data.image, dir = "pictures" }
for _ in g:steps(2) do end
]])
  local code, out, err = t.spcore(dir.path, "run writes.lua --strategy auto", "SPCORE_CACHE=no")
  t.eq(code .. err, "0")
  t.eq(out, "strategy auto: stay serialized, because what stage 'image_writer' does stays, and trial steps must leave nothing\n")
  t.ok(#require "spcore.sys".list(dir.path .. "/pictures") > 0, "the run's own are there")
end

do -- what limits a step, in words
  local limit = require "spcore.limit"
  local function says(f, word, sentence)
    for _, lane in ipairs(f.lanes) do lane.share = lane.share or {} end
    local got, words = limit(f, "the device")
    t.eq(got, word)
    t.match(words, sentence)
  end
  local ahead = { name = "ahead", busy = 1.96, work = 1, share = { false, 0.96, false } }
  local train = { name = "train", busy = 1.96, work = 1, share = { 0.96, false, false } }
  local reader = { name = "reader", source = true, busy = 0.1, work = 0.1, share = { false, false, false } }
  says({ seconds = 1.96, host = 0.1, lanes = { ahead, train, reader } }, "ahead and train share the device",
    "^lanes ahead and train both fill the device: together they take 1%.96 times as long as the longer one alone$")
  says({ seconds = 1, host = 0.1, lanes = { { name = "all", busy = 1, work = 1 } } }, "lane all", "^lane all alone takes 1000 ms")
  says({ seconds = 0.004, host = 0.001, lanes = { { name = "all", busy = 0.002, work = 0.002 },
    { name = "data", source = true, busy = 0.004, work = 0.004 } } }, "reader data", "^data takes 4 ms of a step whatever")
  says({ seconds = 1, host = 0.95, lanes = { { name = "all", busy = 0.5, work = 0.5 } } }, "host", "^the host needs")
  says({ seconds = 1, host = 0.1, lanes = { { name = "a", busy = 0.5, work = 0.5 }, { name = "b", busy = 0.5, work = 0.5 } } },
    "waits", "^each step waits for the one before$")
end

do -- the bench prints every strategy and how far auto is from the best; which one that is, is for a quiet machine to say
  local bench = assert(os.getenv "top_srcdir") .. "/tests/bench/auto.lua"
  local code, out, err = t.spcore(dir.path,
    ("run '%s' --device cpu --threads 2 --mixes sleep,gemm,infer --seconds 0.02 --turns 1 "):format(bench)
    .. "--auto-budget 0.3 --size 16 --batches 2", "SPCORE_CACHE=bench")
  t.eq(code, 0, err)
  t.match(out, "^sleep\nstrategy auto on cpu: steps a second\n")
  t.match(out, "\n  replicas, depth 8 +[%d.]+ steps/s %([%d.]+ %.%. [%d.]+%) +[%d.]+ of the best\n")
  local took, best = out:match "\n  auto took (%l[%l_]*[, %w]-) in [%d.]+ s; best (%l[%l_]*[, %w]-)\n"
  t.ok(took, out)
  t.match(out, "\nsleep +" .. took .. " +" .. best .. " +%-?[%d.]+ %%")
end

-- Requests are not there to be tried on.
do
  local g <close> = require "spcore".graph { strategy = "auto" }
  local data = g.requests { tensors = { { shape = { 2 } } }, batch = 1 }
  g:results { g.sleep { data.data[1], ms = 0 } }
  t.eq(g:schedule().strategy, "serialized")
end
