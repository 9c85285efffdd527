-- SPDX-License-Identifier: MIT
-- The folder of a run, what the terminal shows, Ctrl-C, exit codes, and `spcore diff` on two of them.
-- needs: jansson
-- once: files that are written in Lua
local sp = require "spcore"
local t = require "check"
local sys = require "spcore.sys"

local dir <close> = t.folder()
t.write(dir.path .. "/toy.lua", [[
local sp = require "spcore"
local opt = sp.args { steps = { 7, "steps" }, fail_at = { -1, "step" }, kill_at = { -1, "step" },
  error_at = { -1, "step" }, mine = { 0.5, "a number of the script" } }
local g <close> = sp.graph(opt)
local data = g.toy_source { batch = 8 }
local mul = g.toy_mul { data.x, name = "first", frozen = true }
local last = g.toy_mul { mul.y, name = "last", fail_at = opt.fail_at }
local loss = g.toy_loss { last.y, name = "loss" }
g:train { loss, optimizer = g.toy_sgd {} }
local run <close> = sp.run { graph = g, opt = opt, steps = opt.steps, settings = { model = { a = 1 } } }
for step, m in g:steps(opt.steps) do
  run:step(step, m)
  if step == opt.error_at then error "mine" end
  if step == opt.kill_at then os.execute("(sleep 0.1; kill -INT $PPID) &") end
end
run:finish("done")
]])

local function run(line)
  return t.spcore(dir.path, "run toy.lua " .. line)
end
local function lines(path)
  local n, last = 0, nil
  for line in io.lines(dir.path .. "/" .. path) do n, last = n + 1, line end
  return n, sp.json.decode(last)
end

-- numbered folders, settings, metrics, the last line
local code, out = run "--device cpu"
t.eq(code, 0)
t.match(out, "device cpu  strategy serialized  threads %d+  seed 1\n")
t.match(out, "memory %d")
t.match(out, "step 7/7  loss ")
t.match(out, "\nruns/toy%-1: done\n$")
code, out = run "--quiet --device cpu --strategy pipelined --depth 2 --seed 5"
t.eq(code, 0)
t.eq(out, "runs/toy-2: done\n")
local s = sp.json.read(dir.path .. "/runs/toy-2/settings.json")
t.eq(s.strategy, "pipelined")
t.eq(s.delay, 2)
t.eq(s.seed, 5)
t.eq(s.device, "cpu")
t.eq(s.precision, "fp32")
t.eq(s.capture, "off")
t.eq(s.lanes[2].stages[1], "last")
t.eq(s.options.mine, 0.5)
t.eq(s.model.a, 1)
t.eq(s.spcore, sp.version)
local n, m = lines("runs/toy-2/metrics.jsonl")
t.eq(n, 7)
t.eq(m.step, 6)
t.eq(m.n, 8)
t.eq(math.type(m.loss), "float")
t.eq(sys.kind(dir.path .. "/runs/toy-2/weights.safetensors"), "file")

-- what "auto" came to is what is written
t.eq(run "--quiet --device mock --out mock", 0)
s = sp.json.read(dir.path .. "/mock/settings.json")
t.eq(s.device, "mock")
t.eq(s.precision, "fp32")
t.eq(s.capture, "lane")
t.eq(s.options.capture, "auto")
t.eq(t.read(dir.path .. "/mock/weights.safetensors"), t.read(dir.path .. "/runs/toy-1/weights.safetensors"))
t.eq(run "--quiet --device mock --capture step --out mock2", 0)
t.eq(sp.json.read(dir.path .. "/mock2/settings.json").capture, "step")

-- --out: made with its parents; never overwritten
t.eq(run "--quiet --out a/b/c/", 0)
t.eq(lines("a/b/c/metrics.jsonl"), 7)
local err
code, out, err = run "--quiet --out a/b/c"
t.eq(code, 1)
t.one_line(err, "a/b/c holds %S+ of a run already")
-- a set of data is no place for a run; an empty folder is
assert(sys.mkdir(dir.path .. "/set") and sys.mkdir(dir.path .. "/set/images"))
code, _, err = run "--device cpu --out set"
t.eq(code, 1)
t.one_line(err, "%-%-out: set is not empty, it holds images; name a folder that is empty or not there, such as %-%-out set/run")
t.eq(#sys.list(dir.path .. "/set"), 1)
t.eq((run "--device cpu --out set/images"), 0)
t.write(dir.path .. "/file", "")
code, out, err = run "--out file"
t.one_line(err, "file is not a folder")

-- a failure: one line, everything before it kept
code, out, err = run "--quiet --out failed --fail-at 4"
t.eq(code, 1)
t.one_line(err, "^spcore: toy.lua:%d+: stage 'last' %(toy.so%) step 5: ")
t.eq(lines("failed/metrics.jsonl"), 4)
t.eq(sys.kind(dir.path .. "/failed/weights.safetensors"), "file")
code, out, err = run "--quiet --out failed2 --error-at 2"
t.one_line(err, "^spcore: toy.lua:%d+: mine\n$")
t.eq(lines("failed2/metrics.jsonl"), 3)
code, out, err = t.spcore(dir.path, "run --debug toy.lua --quiet --out failed3 --error-at 2")
t.match(err, "\nstack traceback:\n")

-- Ctrl-C: the loop ends, the rest of the script runs, weights are there
code, out = run "--quiet --out stopped --steps 1000000 --kill-at 20"
t.eq(code, 130)
t.match(out, "^stopped: stopped after %d+ steps by a signal, done\n$")
t.eq(sys.kind(dir.path .. "/stopped/weights.safetensors"), "file")
t.ok(lines("stopped/metrics.jsonl") >= 21)

-- the mean IoU of many classes takes time: of one step in twenty
t.write(dir.path .. "/many.lua", [[
local sp = require "spcore"
local opt = sp.args {}
local g <close> = sp.graph(opt)
local mul = g.toy_mul { g.toy_source { batch = 8 }.x }
g:train { g.toy_loss { mul.y }, optimizer = g.toy_sgd {} }
local run <close> = sp.run { graph = g, opt = opt, steps = 40, every = 1 }
local counts = {}
for i = 1, 65 do
  counts[i] = {}
  for k = 1, 65 do counts[i][k] = i == k and 3 or 0 end
end
for step = 0, 39 do run:step(step, { time = 1.0 + step, n = 8, loss = 0.5, counts = counts }) end
run:finish()
]])
code, out, err = t.spcore(dir.path, "run many.lua --quiet --device cpu --out twenty")
t.eq(code .. err, "0")
local with, step = {}, 0
for line in t.read(dir.path .. "/twenty/metrics.jsonl"):gmatch "[^\n]+" do
  if line:find '"iou":1,' then with[#with + 1] = step end
  step = step + 1
end
t.eq(table.concat(with, " "), "19 39")

-- nothing was labelled: words for it on the terminal, null in the file; a class that never occurs is in no mean
t.write(dir.path .. "/unlabelled.lua", [[
local sp = require "spcore"
local opt = sp.args {}
local g <close> = sp.graph(opt)
local mul = g.toy_mul { g.toy_source { batch = 8 }.x }
g:train { g.toy_loss { mul.y }, optimizer = g.toy_sgd {} }
local run <close> = sp.run { graph = g, opt = opt, steps = 2, every = 1 }
local none = { { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 } }
local eval = { counts = none, n = 8 }
run:step(0, { time = 1.0, n = 8, loss = 0 / 0, counts = none, eval = eval })
local hits = { top1 = 0, topk = 0, counted = 0, n = 8 }
run:step(1, { time = 2.0, n = 8, loss = 0 / 0, top1 = 0, topk = 0, counted = 0, eval = hits })
print(run:verdict(eval), run:verdict(hits), run:verdict { counts = { { 3, 1, 0 }, { 0, 2, 0 }, { 0, 0, 0 } } })
run:finish()
]])
code, out, err = t.spcore(dir.path, "run unlabelled.lua --device cpu --out unlabelled")
t.eq(code .. err, "0")
t.match(out, "step 1/2  loss nan  IoU %-  val IoU %-\n")
t.match(out, "step 2/2  loss nan  IoU %-  accuracy %-  val accuracy %-  ")
t.match(out, "\n2 steps in 0:00, [%d.]+ images/s, last loss nan\n")
t.match(out, "validation: no labelled pixels\tvalidation: no labelled samples\tvalidation mean IoU 0.7083\n")
local text = t.read(dir.path .. "/unlabelled/metrics.jsonl")
t.match(text, '"iou":null')
t.match(text, '"accuracy":null')
t.ok(not text:find "nan", text)
t.ok(not t.read(dir.path .. "/unlabelled/summary.json"):find "nan")

-- the end: how long, how well, of which classes, and which are confused; in words and in summary.json
local function report(name, eval, classes)
  t.write(dir.path .. "/report.lua", ([[
local sp = require "spcore"
local opt = sp.args {}
local g <close> = sp.graph(opt)
local mul = g.toy_mul { g.toy_source { batch = 8 }.x }
g:train { g.toy_loss { mul.y }, optimizer = g.toy_sgd {} }
local run <close> = sp.run { graph = g, opt = opt, steps = 3, classes = %s }
for step = 0, 2 do run:step(step, { time = 1.0, n = 8, loss = 2.5 - step, eval = step == 1 and { n = 8, %s } or nil }) end
run:finish "over"
]]):format(classes, eval))
  local code, out, err = t.spcore(dir.path, "run report.lua --device cpu --out " .. name)
  t.eq(code .. err, "0", out)
  return out, sp.json.read(dir.path .. "/" .. name .. "/summary.json")
end
local told, sum = report("seg", "counts = { { 3, 1, 0 }, { 0, 2, 0 }, { 0, 0, 0 } }", '"ground\\ndisc\\nunicorn"')
t.match(told, "\n3 steps in 0:00, [%d.]+ images/s, last loss 0.5000\nbest mean IoU 0.7083 at step 2\n"
  .. "validation: mean IoU 0.7083, Dice 0.8286\nIoU of each class:\n  ground   0.7500\n  disc     0.6667\n  unicorn  %-\nseg: over\n$")
t.eq(sum.steps, 3)
t.ok(sum.seconds > 0 and sum.images_per_second > 0)
t.eq(sum.classes[2].class, "disc")
t.eq(sum.classes[2].iou, 2 / 3)
t.match(t.read(dir.path .. "/seg/summary.json"), '{"class":"unicorn","iou":null}')
told, sum = report("cls", "top1 = 15, topk = 20, counted = 21, counts = { { 9, 1, 0 }, { 2, 2, 3 }, { 0, 0, 4 } }",
  '{ "a", "b", "c" }')
t.match(told, "best accuracy 0.7143 at step 2\nvalidation: accuracy 0.7143, F1 0.6615, precision 0.6854, recall 0.7286\n"
  .. "most often confused:\n  b taken for c 3 times of 7\n  b taken for a 2 times of 7\n"
  .. "  a taken for b 1 time of 10\ncls: over\n$")
t.eq(#sum.most_confused, 3)
t.eq(sum.most_confused[1].taken_for, "c")
t.eq(sum.most_confused[1].times, 3)
t.eq(sum.classes, nil)
told, sum = report("many", "counts = (function() local c = {} for i = 1, 30 do c[i] = {} "
  .. "for j = 1, 30 do c[i][j] = i == j and i or 1 end end return c end)()", "nil")
t.match(told, "IoU of the worst 20 of 30 classes:\n  class 0   0.0169\n")
t.eq(#sum.classes, 30)
t.ok(not report("quick", "loss = 1", "nil"):find "IoU")

-- validations without anything that one can be better by: of no use to --patience; a name that one of several stages has
t.write(dir.path .. "/judged.lua", [[
local sp = require "spcore"
local opt = sp.args({ eval = { "size", "what a validation has" } }, { checkpoints = true })
local g <close> = sp.graph(opt)
local x = g.toy_mul { g.toy_source { batch = 8 }.x }.y
g:train { g.toy_loss { x, name = "one" }, g.toy_loss { x, name = "two" }, optimizer = g.toy_sgd {} }
g:evaluate { data = g.toy_source { batch = 8 }, every = 1 }
local run <close> = sp.run { graph = g, opt = opt, steps = 2 }
for step = 0, 1 do run:step(step, { time = 1.0, n = 8, eval = { n = 8, batches = 1, [opt.eval] = 3 - step } }) end
run:finish()
]])
local function judged(line) return t.spcore(dir.path, "run judged.lua --quiet --device cpu " .. line) end
t.eq(judged "--out judged1", 0)
code, out, err = judged "--out judged2 --patience 2"
t.eq(code, 1)
t.one_line(err, "judged.lua:8: %-%-best%-by auto: validations have no such metric; they have size\n$")
code, out, err = judged "--out judged3 --best-by three.loss"
t.eq(code, 2)
t.one_line(err, "%-%-best%-by three.loss: validations have no such metric; they have one.loss, two.loss; did you mean 'one.loss'%?")
t.eq(sys.kind(dir.path .. "/judged3"), nil)
t.eq(judged "--out judged3 --best-by two.loss --eval two.loss", 0)
t.match(t.read(dir.path .. "/judged3/summary.json"), '"metric": "two.loss",\n *"step": 1,\n *"value": 2')
t.eq(judged "--out judged4 --best-by f1 --eval f1", 0) -- which the script puts there
t.match(t.read(dir.path .. "/judged4/summary.json"), '"metric": "f1",')
code, out, err = judged "--out judged5 --best-by f1"
t.eq(code, 1)
t.one_line(err, "judged.lua:8: %-%-best%-by f1: validations have no such metric; they have size\n$")

-- scripts that are not there or do not parse
code, out, err = t.spcore(dir.path, "run nothing")
t.eq(code, 2)
t.one_line(err, "script 'nothing' not found, looked here and in /.*scripts; shipped are make_shapes.lua, .*train_seg.lua, "
  .. "examples/branches.lua")
t.write(dir.path .. "/syntax.lua", "local x = = 3")
code, out, err = t.spcore(dir.path, "run syntax")
t.eq(code, 1)
t.one_line(err, "^spcore: syntax.lua:1: unexpected symbol near '='")
t.write(dir.path .. "/assert.lua", "\nassert(io.open('none.txt'))")
code, out, err = t.spcore(dir.path, "run assert.lua")
t.one_line(err, "^spcore: assert.lua:2: none.txt: No such file")
t.eq(t.spcore(dir.path, "run"), 2)

-- The current folder puts no code into a run; the script's own folder does.
t.eq(os.execute(("mkdir -p '%s/sub/spcore'"):format(dir.path)), true)
t.write(dir.path .. "/sub/spcore/init.lua", "error 'wrong spcore'")
t.write(dir.path .. "/sub/evil.lua", "error 'evil'")
t.write(dir.path .. "/near.lua", "return 'near'")
t.write(dir.path .. "/require.lua", [[
require "spcore"
print(require "near", (pcall(require, "evil")))
for entry in (package.path .. ";" .. package.cpath):gmatch("[^;]+") do assert(entry:sub(1, 1) == "/", entry) end
]])
code, out, err = t.spcore(dir.path .. "/sub", "run ../require.lua")
t.eq(err, "")
t.eq(out, "near\tfalse\n")

-- diff
local function diff(line)
  return t.spcore(dir.path, "diff " .. line)
end
t.eq(run "--quiet --checksums --out one", 0)
t.eq(run "--quiet --checksums --out two --strategy pipelined --depth 3", 0)
t.eq(run "--quiet --checksums --out short --steps 5", 0)
t.eq(run "--quiet --checksums --out other --seed 2", 0)
code, out = diff "one two"
t.eq(code, 0, out)
t.match(out, "^same bits: 7 steps, %d+ edges\n$")
code, out = diff "one other"
t.eq(code, 1)
t.match(out, "^settings differ: seed 1 and 2\nfirst difference: step 1, stage 'toy_source', edge 'toy_source.x'\n")
t.match(out, "\n7 of 7 common steps differ\n$")
code, out = diff "one short"
t.eq(code, 1)
t.match(out, "^settings differ: steps 7 and 5\nstep 6 is only in one\n0 of 5 common steps differ; 2 steps only in one\n$")
code, out, err = diff "one runs/toy-1"
t.eq(code, 2)
t.one_line(err, "runs/toy%-1 has no checksums; run it with %-%-checksums")
code, out, err = diff "one nowhere"
t.eq(code, 2)
t.one_line(err, "nowhere: No such file")
t.eq(diff "one", 2)
t.eq(diff "--foo one two", 2)

-- one bit of one edge; lines that are damaged; edges that are only in one
text = t.read(dir.path .. "/one/checksums.jsonl")
local function changed(from, to)
  local new, k = text:gsub(from, to, 1)
  t.eq(k, 1)
  t.write(dir.path .. "/x.jsonl", new)
  return diff "one x.jsonl"
end
code, out = changed('("step":3.-"last%.y":")%x', "%1g")
t.eq(code, 1)
t.match(out, "^first difference: step 4, stage 'last', edge 'last.y'\n")
t.match(out, "\n1 of 7 common steps differ\n$")
code, out, err = changed('{"step":2', '{"stp":2')
t.eq(code, 1)
t.one_line(err, "x.jsonl:3: line left out: no step")
t.match(out, "^step 3 is only in one\n")
code, out = changed('"last%.y":"%x+"', '"last.y":null') -- in one step one run does not compute it
t.match(code .. out, "^0same bits: 7 steps, %d+ edges; 1 only one computes\n$")
code, out = changed('"last%.y":"%x+"', '"last.y":null,"unknown.y":null')
t.match(code .. out, "^0same bits: 7 steps, %d+ edges; 1 only one computes\n$")
t.write(dir.path .. "/x.jsonl", (text:gsub('"%x+"', "null")))
code, out, err = diff "one x.jsonl"
t.eq(code .. out, "2")
t.one_line(err, "one and x.jsonl: no edge has a checksum in both")
t.write(dir.path .. "/x.jsonl", (text:gsub('"step":(%d)', '"step":1%1')))
code, out = diff "one x.jsonl" -- no step is in both
t.eq(code, 1)
t.match(out, "\n0 of 0 common steps differ; 7 steps only in one; 7 steps only in x.jsonl\n$")
code, out = changed('"last%.y":"%x+",', "")
t.match(out, "^edge 'last.y' is only in one %(step 1%)\n")
for _, bad in ipairs {
  "", "{", '{"step":99999999999999999999,"hashes":{}}', '{"step":1,"hashes":{"a":', ("x"):rep(100000),
  '{"step":1,"hashes":{"a\\',
} do
  t.write(dir.path .. "/x.jsonl", bad)
  t.eq(diff "x.jsonl one", 2, bad)
end
