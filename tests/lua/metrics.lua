-- SPDX-License-Identifier: MIT
-- Stages that count: the same whole numbers over shards, ranks, threads, batches and strategies; stages that
-- evaluations alone run; figures of counts that are odd. needs: onednn images jansson
local sp = require "spcore"
local t = require "check"

local dir <close> = t.folder()

-- The weights are random, so scores spread; the evaluation's counts are written.
t.write(dir.path .. "/count.lua", [[
local sp = require "spcore"
local opt = sp.args { batch = { 8, "images" }, to = { "", "file" } }
local g <close> = sp.graph(opt)
local function read(split)
  return g.reader { path = "shapes", size = 16, batch = opt.batch, samples = 56, val_fraction = 0.5, split = split }
end
local data, val = read "train", read "val"
local image = g.to_float { data.image, scale = true }
local logits = g.layers { image, layers = { { "conv", data.classes, kernel = 3, pad = 1 } }, name = "net" }.features
local function map(name)
  return g.layers { image, layers = { { "conv", 1, kernel = 3, pad = 1 } }, name = name, frozen = true }.features
end
g.score_histogram { logits, data.mask, bins = 64, ignore_index = 255, eval_only = true }
g.calibration { logits, data.mask, ignore_index = 255, eval_only = true }
g.boundary { logits, data.mask, ignore_index = 255, eval_only = true }
g.deviation { map "one", map "two", eval_only = true }
g:train { g.cross_entropy { logits, data.mask }, optimizer = g.sgd { lr = 0.0 } }
local steps
for _, m in g:steps(1) do steps = m end
for _, name in ipairs { "scores", "reliability", "boundaries", "deviations" } do assert(steps[name] == nil, name) end
local m = g:evaluate { data = val }
assert(m.n == val.length)
sp.write_file(opt.to, sp.json.encode { m.scores, m.reliability, m.boundaries, m.deviations })
]])
local first
for i, way in ipairs { "--threads 2", "--threads 1 --batch 5", "--threads 1 --strategy pipelined --batch 3",
  "--shards 2 --batch 4", "--shards 4 --batch 2 --threads 1", "--ranks 2 --shards 2 --batch 4 --threads 1",
  "--ranks 4 --shards 4 --batch 2 --threads 1" } do
  local code, out, err = t.spcore(dir.path, ("run count.lua --device cpu --to %d.json %s"):format(i, way))
  t.eq(code, 0, way .. ": " .. out .. err)
  local text = t.read(("%s/%d.json"):format(dir.path, i))
  first = first or text
  t.eq(text, first, way)
end
local counts = sp.json.decode(first)
t.ok(#counts[1] > 1 and #counts[1][1] == 2 and #counts[1][1][1] == 64 and #counts[2] == 15)
local sum = 0
for _, b in ipairs(counts[2]) do sum = sum + b[1] end
t.eq(sum, 28 * 16 * 16, "each pixel of the validation is one prediction")
t.eq(counts[4][1][1][1], 28 * 16 * 16)

-- stages of evaluations: what reads one has to be such a stage, and what trains none
local function graph(f)
  local g <close> = sp.graph { threads = 1 }
  local data = g.reader { path = "shapes", size = 8, batch = 2, samples = 4, target = "class" }
  local x = g.layers { g.to_float { data.image }, layers = { { "flatten" }, { "linear", data.classes } }, name = "net" }
  return f(g, data, x)
end
graph(function(g, data, x)
  local loss = g.cross_entropy { x, data.label, eval_only = true }
  t.eq(loss.eval_only, true)
  t.eq(x.eval_only, false)
  t.raises("stage 'cross_entropy': eval_only: a training step needs its loss", g.train, g,
    { loss, optimizer = g.sgd {} })
end)
graph(function(g, data, x)
  local twice = g.add { x, x, eval_only = true }
  local l = g.cross_entropy { g.add { x, twice, name = "sum" }, data.label }
  t.raises("stage 'sum' reads 'add', which runs in evaluations only: set eval_only = true on it, too",
    g.train, g, { l, optimizer = g.sgd {} })
end)
graph(function(g, data, x) -- a chain of them, and a graph that trains nothing runs them in its steps
  g.accuracy { g.add { x, x, eval_only = true }, data.label, eval_only = true }
  for _, m in g:steps(1) do t.eq(m.counted, 2) end
end)
graph(function(g)
  t.raises("stage 'more': eval_only: a training step needs its samples", function()
    g.to_float { g.reader { path = "shapes", size = 8, batch = 2, eval_only = true, name = "more" }.image }
    for _ in g:steps(1) do end
  end)
end)

-- figures of little
local f = sp.figures
local c = f.confusion { { 6, 2, 0 }, { 2, 0, 0 }, { 0, 0, 0 } }
t.eq(c.accuracy, 0.6)
t.eq(c.classes[1].f1, 12 / 16)
t.eq(c.macro.f1, 0.375)
t.eq(c.macro.iou, (sp.mean_iou { { 6, 2, 0 }, { 2, 0, 0 }, { 0, 0, 0 } }))
t.eq(c.weighted.recall, 0.6)
t.eq(c.classes[3].there, false)
c = f.confusion { { 0, 0 }, { 0, 0 } }
t.eq(c.accuracy, 0 / 0)
t.eq(c.macro.f1, 0 / 0)
t.eq(c.micro.f1, 0 / 0)
local s = f.scores {
  { { 1, 1, 0, 0 }, { 0, 0, 1, 1 } },
  { { 1, 0, 0, 2 }, { 0, 0, 0, 0 } },
  { { 1, 0, 0, 1 }, { 1, 0, 0, 1 } },
}
t.eq(s.classes[1].auroc, 1.0)
t.eq(s.classes[1].f1, 1.0)
t.eq(s.classes[2].auroc, 0 / 0) -- no positive
t.eq(s.classes[2].average_precision, 0 / 0)
t.eq(s.classes[3].auroc, 0.5) -- ties
t.eq(s.auroc, 0.75)
t.eq(f.calibration { { 0, 0, 0 } }.ece, 0 / 0)
t.eq(f.calibration { { 4, 2, 3 << 24 }, { 0, 0, 0 } }.ece, 0.25)
t.eq(f.calibration { { 4, 2, 3 << 24 }, { 0, 0, 0 } }.bins[2].accuracy, nil)
t.eq(f.boundary { { 4, 2, 2, 2 }, { 0, 0, 0, 0 } }.f1, 2 / 3)
t.eq(f.boundary { { 0, 0, 0, 0 } }.f1, 0 / 0)
t.eq(f.boundary { { 3, 0, 0, 0 } }.f1, 0.0)
-- sums that cancel to little, below 0 and above; 1 is 2^0, bit 312 of the limbs, which begin at 2^-312
local function column(n, values)
  local out = { { n, 0 } }
  for i = 1, 5 do
    out[i + 1] = {}
    for k = 1, 24 do out[i + 1][k] = 0 end
    for k, v in pairs(values[i] or {}) do out[i + 1][k] = v end
  end
  return out
end
local d = f.deviation { column(2, { { [14] = 3 }, { [14] = -1 }, { [14] = 5 }, { [14] = 2 }, { [14] = 4 } }) }
t.eq(d.mae, 1.5)
t.eq(d.bias, -0.5)
t.eq(d.r2, 1 - 5 / 2)
d = f.deviation { column(1, { nil, { [14] = 1 << 40, [15] = -(1 << 16), [13] = -1 } }) }
t.eq(d.bias, -2.0 ^ -24)
d = f.deviation { column(1, { nil, { [14] = -(1 << 40), [15] = 1 << 16, [13] = 1 } }) }
t.eq(d.bias, 2.0 ^ -24)
t.eq(f.deviation { column(0, {}) }.mae, 0 / 0)
for name, words in pairs { confusion = "a square matrix", scores = "a histogram", calibration = "a table of bins",
  deviation = "a table of sums", boundary = "a table of counts" } do
  for _, odd in ipairs { 5, {}, { 1 }, { { 1 } , { 2 } }, { { "a" } } } do
    t.raises("figures." .. name .. ": " .. words, f[name], odd)
  end
end
