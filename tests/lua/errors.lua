-- SPDX-License-Identifier: MIT
-- Every wrong use of the API names the user's line, what is wrong and, where there is one, the nearest right name.
local sp = require "spcore"
local t = require "check"

local g <close> = sp.graph {}
local data = g.toy_source { batch = 4 }
local mul = g.toy_mul { data.x }

t.raises("no output or attribute 'xx'; did you mean 'x'", function() local _ = data.xx end)
t.raises("outputs and attributes by name", function() local _ = data[1] end)
t.raises("cannot be assigned", function() data.x = 1 end)
t.raises("no output or attribute 'samples'", function() local _ = data.samples end)
t.eq(data.length, 22)
t.eq(data.name, "toy_source")
t.eq(data.source, true)
t.eq(mul.frozen, false)
t.eq(data.x.shape[1], 4)
t.eq(data.x.dtype, "float32")
t.eq(data.x.name, "toy_source.x")
t.match(tostring(data.x), "toy_source.x float32%[4,")
t.raises("one tensor, not a list", function() local _ = #data.x end)
t.raises("one tensor, not a list", function() local _ = data.x[1] end)
t.raises("no field 'shap'; did you mean 'shape'", function() local _ = data.x.shap end)

t.raises("unknown stage 'toy_mull', did you mean 'toy_mul'", function() local _ = g.toy_mull { data.x } end)
t.raises("unknown parameter 'drft', did you mean 'drift'", function() local _ = g.toy_mul { data.x, drft = 1 } end)
t.raises("parameter 'drift'", function() local _ = g.toy_mul { data.x, drift = -1 } end)
t.raises("parameter 'drift': a function cannot be a parameter",
  function() local _ = g.toy_mul { data.x, drift = print } end)
t.raises("no input 'z'", function() local _ = g.toy_mul { z = data.x } end)
t.raises("1 input, but 2 are given", function() local _ = g.toy_mul { data.x, data.x } end)
t.raises("item 1 is a number", function() local _ = g.toy_mul { 5 } end)
t.raises("a table is wanted, got a number", function() local _ = g.toy_mul(5) end)
t.raises("reads no data, so it takes no 'batch'", function() local _ = g.toy_mul { data.x, batch = 5 } end)
t.raises("'batch': 0 is not in", function() local _ = g.toy_source { batch = 0 } end)
t.raises("'batch' must be a whole number", function() local _ = g.toy_source { batch = "x" } end)
t.raises("'frozen' must be true or false", function() local _ = g.toy_mul { data.x, frozen = 1 } end)
t.raises("'weights' must be the path", function() local _ = g.toy_mul { data.x, weights = 1 } end)
t.raises("no method 'stpes'; did you mean 'g:steps'", function() g:stpes(3) end)
t.raises("added with a dot: g.toy_mul{}", function() g:toy_mul {} end)
t.raises("'foo' cannot be assigned", function() g.foo = 1 end)

t.raises("a loss is missing", function() g:train {} end)
t.raises("'optimizer' must be", function() g:train { mul } end)
t.raises("no option 'optimiser'; did you mean 'optimizer'", function() g:train { mul, optimiser = 1 } end)
t.raises("'lr' must be a function", function() g:train { mul, optimizer = g.toy_sgd {}, lr = 0.1 } end)
t.raises("stage 'toy_mul' is no loss", function() g:train { mul, optimizer = g.toy_sgd { name = "other" } } end)
t.raises("whole number, got 1.5", function() g:steps(1.5) end)
t.raises("whole number, got %-1", function() g:steps(-1) end)
t.raises("no option 'dat'; did you mean 'data'", function() g:evaluate { dat = data } end)
t.raises("'data' must be a stage that reads", function() g:evaluate { data = mul } end)
t.raises("'every' must be", function() g:evaluate { data = data, every = 0 } end)
t.raises("spcore has no 'grph'; did you mean 'graph'", function() local _ = sp.grph end)
t.raises("mean_iou: a square matrix", sp.mean_iou, { 1, 2 })
t.raises("accuracy: metrics with 'counted' are wanted", sp.accuracy, { loss = 1 })
t.raises("accuracy: metrics with 'head.counted' are wanted", sp.accuracy, { counted = 1, top1 = 1, topk = 1 }, "head")
t.raises("accuracy: metrics with 'topk' are wanted", sp.accuracy, { counted = 1, top1 = 1 })
t.raises("accuracy: metrics", sp.accuracy)

-- With a dot in place of a colon: all methods of a graph, and of a stage.
for _, name in ipairs { "steps", "train", "evaluate", "find", "nodes", "stages", "wire", "save", "load", "close", "seek", "strategy",
  "schedule", "memory", "describe", "lanes", "timings", "epoch_steps", "step", "device", "stage", "answers", "results" } do
  t.raises(("g:%s%%(%%) is called with a colon"):format(name), g[name], 3)
end
for _, name in ipairs { "set", "get", "weights", "weight", "inputs", "outputs", "producers", "item" } do
  t.raises(("a stage's %s%%(%%) is called with a colon"):format(name), mul[name], "x")
end

-- What is nil because a name is spelt wrong: in the middle of a list, in a list of losses, in a lane.
do
  local nosuch
  t.raises("item 2 is nil", function() local _ = g.toy_mul { data.x, nosuch, data.x } end)
  t.raises("loss 1 is nil", function() g:train { nosuch, mul, optimizer = g.toy_sgd { name = "third" } } end)
  local h <close> = sp.graph {}
  h.toy_mul { h.toy_source { batch = 2 }.x }
  h:strategy { { name = "a", stages = { h:find "toy_mil" } } }
  t.raises("place 1, not a stage; no stage 'toy_mil'.*did you mean 'toy_mul'", function() h:steps(1) end)
end

-- Metrics by name, as options are; those that a step may lack are nil.
do
  local h <close> = sp.graph {}
  local source = h.toy_source { batch = 2 }
  h.toy_loss { h.toy_mul { source.x }, name = "cost" }
  for _, m in h:steps(1) do
    t.eq(m.eval, nil)
    t.raises("no metric 'los'; did you mean 'loss'", function() return m.los end)
    t.eq(m.skipped, nil)
  end
end

-- An input that is never wired is named with the line where the stage was added.
do
  local h <close> = sp.graph {}
  local line = debug.getinfo(1, "l").currentline + 1
  h.toy_mul {}
  t.raises(("errors.lua:%d: stage 'toy_mul': input 'x' is not wired"):format(line), function() h:steps(1) end)
end

-- wired late
do
  local h <close> = sp.graph {}
  local late, source = h.toy_mul {}, h.toy_source { batch = 2 }
  t.raises("not known before", function() local _ = late.y.shape end)
  t.raises("input", function() h:wire(late, "z", source.x) end)
  t.raises("output of a stage is wanted", function() h:wire(late, "x", 3) end)
  h:wire(late, "x", source.x)
  t.eq(late.y.shape[1], 2)
  t.raises("belongs to another graph", function() h:wire(late, "x", data.x) end)
end

-- after close
local h = sp.graph {}
local s = h.toy_source { batch = 2 }
h:close()
h:close()
t.raises("closed", function() h:steps(1) end)
t.raises("closed", function() local _ = s.x end)

-- nested tables as parameters
local loop = {}
loop.loop = loop
for pattern, value in pairs {
  ["parameter 'drift.loop': the table holds itself"] = loop,
  ["parameter 'drift%[2%]': nil"] = { 1, nil, 3 },
  ["a key of type boolean"] = { [true] = 1 },
  ["%[7%] stands alone"] = { [7] = 1 },
  ["parameter 'drift%[1%]%[2%]': a stage"] = { { 1, data } },
  ["zero byte"] = "a\0b",
} do
  t.raises(pattern, function() local _ = g.toy_mul { data.x, drift = value } end)
end
local deep = {}
for _ = 1, 40 do deep = { deep } end
t.raises("nested deeper", function() local _ = g.toy_mul { data.x, drift = deep } end)
local long = {}
for i = 1, 100001 do long[i] = i end
t.raises("more than 100000 values", function() local _ = g.toy_mul { data.x, drift = long } end)

-- A run: its fields before there is a folder, then its methods.
do
  local dir <close> = t.folder()
  local out = dir.path .. "/run"
  local h <close> = sp.graph {}
  local val = h.toy_source { batch = 2, samples = 4, name = "val" }
  h:train { h.toy_loss { h.toy_mul { h.toy_source { batch = 2 }.x }.y }, optimizer = h.toy_sgd {} }
  local function run(fields)
    fields.graph, fields.weights = h, false
    fields.opt = fields.opt or { out = out, tensorboard = false }
    return sp.run(fields)
  end
  local whole = "sp.run{}: '%s' must be a whole number of at least %d, got %s"
  t.raises(whole:format("steps", 0, "'2'"), run, { steps = "2" })
  t.raises(whole:format("steps", 0, "%-1"), run, { steps = -1 })
  t.raises(whole:format("steps", 0, "2.5"), run, { steps = 2.5 })
  t.raises(whole:format("every", 1, "0"), run, { every = 0 })
  t.raises(whole:format("every", 1, "'a'"), run, { every = "a" })
  t.raises(whole:format("epochs", 0, "a table"), run, { epochs = {} })
  t.raises("'opt' must be the options that sp.args gives, got a number", run, { opt = 5 })
  t.raises("opt.out must be the path of a folder, got a number", run, { opt = { out = 5 } })
  t.raises("'settings' must be a table that is added to settings.json, got a number", run, { settings = 5 })
  t.raises("'settings' has 'options', which settings.json has of its own", run, { settings = { options = 3 } })
  t.raises("'settings' has 'data', which", run, { settings = { data = 3 } })
  t.raises("'settings' must have names", run, { settings = { "model" } })
  t.raises("JSON", run, { settings = { model = print } })
  t.raises("'samples' must be a function%(g, weights%), got a number", run, { samples = 5 })
  t.raises("'classes' must be a list of names, or text with a line each, got a number", run, { classes = 5 })
  t.raises("'classes' must be a list of names, got a number at place 2", run, { classes = { "a", 2 } })
  t.raises("'name' must be the name of a folder, got a number", run, { name = 5 })
  for _, name in ipairs { "../../evil", "", "a\nb" } do
    t.raises("'name' must be the name of a folder in runs, got '[^\n]*'; %-%-out takes a path$", run, { name = name })
  end
  t.raises("'weights' must be true or false, got a string", sp.run, { graph = h, weights = "no" })
  t.eq(io.open(out .. "/settings.json"), nil)
  t.ok(not os.remove(out), "there is no folder yet")

  local r <close> = run { steps = 4.0, every = 3, settings = { model = { 1 } } }
  t.raises("the step and the metrics that g:steps gives are wanted, got a number and a nil", function() r:step(0) end)
  t.raises("are wanted, got a table and a nil", function() r:step {} end)
  t.raises("m is what g:steps gives; its 'time' is no number", function() r:step(0, {}) end)
  t.raises("run:step%(step, m%) is called with a colon", function() r.step(0, {}) end)
  t.raises("run:rest%(%) is called with a colon", function() r.rest() end)
  t.raises("run:verdict: what run:evaluate gives is wanted, got a number", function() r:verdict(5) end)
  t.raises("run:finish: a text is wanted, got a table", function() r:finish {} end)
  local last
  for step, m in h:steps(r:rest()) do
    local again = ("run:step: step %d was there already; the next one is %d"):format(step, step + 1)
    t.raises(("run:step: the step is 7, but the metrics are of step %d"):format(step), r.step, r, 7, m)
    m.evals = { val = { n = 2, counts = { { 1, 0 }, { 0, 1 } } } } -- of several sources: what their counts come to is told
    r:step(step, m)
    t.eq(m.evals.val.iou, 1.0)
    t.raises(again, r.step, r, step, m)
    last = m
  end
  t.raises("step 2 was there already; the next one is 4", function() r:step(2, { time = 1.0 }) end)
  local n = 0
  for _ in io.lines(out .. "/metrics.jsonl") do n = n + 1 end
  t.eq(n, 4)
  r:finish()
  t.raises("run:step was called after run:finish", function() r:step(4, last) end)
  t.raises("run:evaluate was called after run:finish", function() r:evaluate(val) end)
  t.raises("run:finish was called before", function() r:finish() end)
end

-- A build without a library says so where its stages are missed, and before a run instead of at its end.
local left_out = os.getenv "SP_LEFT_OUT" or ""
if left_out:find "onednn" then t.raises("unknown stage 'encoder'.*built without[^)]*onednn", function() g.encoder {} end) end
if left_out:find "jansson" then t.raises("built without[^)]*jansson", sp.run, { graph = g }) end
