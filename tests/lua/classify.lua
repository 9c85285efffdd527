-- SPDX-License-Identifier: MIT
-- Classifiers in a graph: each model learns four classes; an encoder in front of one keeps its name before its weights;
-- accuracy is exact over an evaluation with a short batch, and in a run's lines; other strategies, same bits.
-- needs: onednn jansson
local sp = require "spcore"
local t = require "check"
local dir <close> = t.folder()

-- body(g, data): the node that gives logits. Returns the last training metrics, those over 22 other images, the file.
local function learn(body, steps, strategy)
  local g <close> = sp.graph { seed = 3, threads = 2, strategy = strategy, depth = 2 }
  local data, val = g.toy_classes { batch = 8, samples = 64 }, g.toy_classes { batch = 8, samples = 22, first = 64 }
  local net = body(g, data)
  local loss = g.cross_entropy { net.logits, data.label }
  g.accuracy { net.logits, data.label, k = 2 }
  g:train { loss, optimizer = g.adamw { lr = 3e-3 } }
  local last
  for _, m in g:steps(steps) do last = m end
  local path = dir.path .. "/weights.safetensors"
  g:save(path)
  return last, g:evaluate { data = val }, t.tensors(path)
end

local function behind_encoder(g, data, frozen)
  local enc = g.encoder { data.image, levels = 3, width = 4, frozen = frozen }
  local flat = g.layers { enc.features, layers = { { "flatten" } } }
  return g.classifier { flat.features, model = "pool", classes = data.classes }
end

local models = {
  plain = function(g, data) return g.classifier { data.image, classes = data.classes, width = 4 } end,
  residual = function(g, data)
    return g.classifier { data.image, classes = data.classes, model = "residual", width = 4, levels = 1, blocks = 1 }
  end,
  layers = function(g, data)
    return g.classifier { data.image, classes = 4, layers = {
      { "avg_pool", kernel = 4 }, { "flatten" }, { "linear", 16 }, { "relu" }, { "linear", 4 } } }
  end,
  pool = function(g, data) return behind_encoder(g, data, false) end,
}
for name, body in pairs(models) do
  local m, e, file = learn(body, 80)
  local top1, top2 = sp.accuracy(e)
  print(("%s: loss %.3f, accuracy %.3f, top-2 %.3f"):format(name, m.loss, top1, top2))
  t.eq(m.counted, 8)
  t.eq(e.counted, 22, "each image counts once")
  t.eq(math.type(e.top1), "integer")
  t.eq(top1, e.top1 / 22)
  t.eq(top2, e.topk / 22)
  t.ok(e.topk >= e.top1, "top-2 contains top-1")
  t.ok(top1 > 0.8, name .. " learns")
  t.ok(file["classifier." .. ({ plain = "10", residual = "fc", layers = "4", pool = "2" })[name] .. ".weight"],
    name .. ": the name of the last layer")
  t.ok((file["encoder.0.weight"] ~= nil) == (name == "pool"), name .. ": the encoder's weights have its name")
end

-- nothing learned: a quarter, within what 22 images can say
local _, before = learn(models.plain, 0)
t.ok(before.top1 < 15, "it cannot know before it has learned")

-- the sum over an evaluation is the sum over its samples, batch by batch
do
  local g <close> = sp.graph { seed = 3 }
  local data = g.toy_classes { batch = 8, samples = 22 }
  local net = g.classifier { data.image, classes = 4, width = 4 }
  g.accuracy { net.logits, data.label, name = "a" }
  g.accuracy { net.logits, data.label, k = 2, name = "b" }
  local e = g:evaluate { data = data }
  t.eq(e["a.counted"], 22)
  t.eq(e["a.topk"], 22, "of four classes all are among five")
  t.eq((sp.accuracy(e, "a")), (sp.accuracy(e, "b")))
  t.raises("accuracy: metrics with 'counted' are wanted", sp.accuracy, e)
end

-- same bits for other strategies
do
  local function frozen(g, data) return behind_encoder(g, data, true) end
  local one, _, w1 = learn(frozen, 12)
  local two, _, w2 = learn(frozen, 12, "pipelined")
  t.eq(one.loss, two.loss)
  t.eq(one.top1, two.top1)
  for name, bytes in pairs(w1) do t.eq(w2[name], bytes, name) end
end

-- a run shows and keeps it
t.write(dir.path .. "/toy.lua", [[
local sp = require "spcore"
local opt = sp.args { steps = { 6, "steps" } }
local g <close> = sp.graph(opt)
local data, val = g.toy_classes { batch = 8 }, g.toy_classes { batch = 8, first = 22 }
local net = g.classifier { data.image, classes = data.classes, width = 4 }
g.accuracy { net.logits, data.label }
g:train { g.cross_entropy { net.logits, data.label }, optimizer = g.sgd { lr = 0.1 } }
g:evaluate { data = val, every = 3 }
local run <close> = sp.run { graph = g, opt = opt, steps = opt.steps, every = 1 }
for step, m in g:steps(opt.steps) do run:step(step, m) end
run:finish(("accuracy %.3f"):format((sp.accuracy(g:evaluate { data = val }))))
]])
local code, out, err = t.spcore(dir.path, "run toy.lua --device cpu")
t.eq(code, 0, err)
t.match(out, "step 1/6  loss %d%.%d+  accuracy %d%.%d%d%d")
t.match(out, "step 6/6  loss %d%.%d+  accuracy %d%.%d%d%d  val accuracy %d%.%d%d%d")
local lines = {}
for line in io.lines(dir.path .. "/runs/toy-1/metrics.jsonl") do lines[#lines + 1] = sp.json.decode(line) end
t.eq(#lines, 6)
t.eq(lines[1].counted, 8)
local e = lines[3].eval
t.eq(e.counted, 22)
t.eq(e.accuracy, e.top1 / 22)
