-- SPDX-License-Identifier: MIT
-- Losses in graphs: each falls in a few steps, in the same bits with any strategy; gradients on both sides of mse; what
-- train_seg.lua and train_cls.lua choose by --loss, --label-smoothing and --rate.
-- needs: onednn images
local sp = require "spcore"
local t = require "check"
local dir <close> = t.folder()

-- Losses of 12 steps. `wire` makes the loss of logits per pixel, masks of two classes and images.
local function train(wire, channels, strategy)
  local g <close> = sp.graph { device = "mock", strategy = strategy, threads = 2 }
  local data = g.reader { path = "random", size = { 8, 8 }, batch = 4, samples = 4, classes = 2, shuffle = false }
  local image = g.to_float { data.image, scale = true }
  local net = g.layers { image, layers = { { "conv", 8, kernel = 3, pad = 1 }, { "relu" }, { "conv", channels, kernel = 1 } } }
  g:train { wire(g, net, data, image), optimizer = g.adamw { lr = 0.05 } }
  local losses = {}
  for _, m in g:steps(12) do losses[#losses + 1] = m.loss end
  return losses
end

local function falls(what, channels, wire)
  local one, two = train(wire, channels, "serialized"), train(wire, channels, "pipelined")
  for i, v in ipairs(one) do t.eq(two[i], v, what .. ", pipelined, step " .. i) end
  t.ok(one[12] < one[1], ("%s: from %g to %g"):format(what, one[1], one[12]))
end

for what, params in pairs { cross_entropy = { label_smoothing = 0.1 }, dice = { smooth = 1 }, focal = { alpha = 0.25 },
  jaccard = {}, lovasz = {}, tversky = { alpha = 0.3, beta = 0.7, gamma = 0.75 } } do
  falls(what, 2, function(g, net, data)
    params[1], params[2], params.ignore_index = net, data.mask, 255
    return g[what](params)
  end)
end
falls("lovasz of one logit", 1, function(g, net, data) return g.lovasz { net, data.mask, ignore_index = 255 } end)
falls("bce", 1, function(g, net, data) return g.bce { net, data.mask, pos_weight = 2 } end)
falls("cross_entropy of probabilities", 3, function(g, net, _, image) return g.cross_entropy { net, image, label_smoothing = 0.1 } end)
falls("bce of numbers", 3, function(g, net, _, image) return g.bce { net, image } end)
for what, params in pairs { mse = {}, l1 = {}, huber = { delta = 0.1 } } do
  falls(what, 3, function(g, net, _, image)
    params[1], params[2] = net, image
    return g[what](params)
  end)
end

-- Shards, and batches that are added up, are one batch: of positions, of numbers, and of those that have a value.
local function weight_after(how, batch, wire)
  local g <close> = sp.graph { device = "cpu", threads = 1, shards = how.shards }
  local data = g.reader { path = "random", size = { 8, 8 }, batch = batch, samples = 8, classes = 2, shuffle = false }
  local image = g.to_float { data.image, scale = true }
  local net = g.layers { image, layers = { { "conv", 3, kernel = 1 } } }
  g:train { wire(g, net, image), optimizer = g.sgd { lr = 0.5 }, accumulate = how.accumulate }
  for _ in g:steps(how.accumulate or 1) do end
  local file = dir.path .. "/one.safetensors"
  g:save(file)
  local text = t.read(file)
  local length = ("<I8"):unpack(text)
  return { ("<" .. ("f"):rep((#text - 8 - length) // 4)):unpack(text, 9 + length) }
end
for what, wire in pairs {
  ["cross_entropy of probabilities"] = function(g, net, image) return g.cross_entropy { net, image, label_smoothing = 0.1 } end,
  bce = function(g, net, image) return g.bce { net, image } end, l1 = function(g, net, image) return g.l1 { net, image } end,
  huber = function(g, net, image) return g.huber { net, image, delta = 0.1 } end,
} do
  local whole = weight_after({}, 8, wire)
  for _, how in ipairs { { accumulate = 4 }, { shards = 2 } } do
    local parts, worst = weight_after(how, how.shards and 4 or 2, wire), 0
    for i = 1, #whole - 1 do worst = math.max(worst, math.abs(whole[i] - parts[i])) end
    t.ok(#whole == #parts and worst < 1e-6, ("%s in parts: %g apart"):format(what, worst))
  end
end

-- mse pulls its target as well: a layer on that side learns, too.
do
  local g <close> = sp.graph { device = "cpu", threads = 1 }
  local image = g.to_float { g.reader { path = "random", size = { 8, 8 }, batch = 2, samples = 2 }.image, scale = true }
  local target = g.layers { image, layers = { { "conv", 3, kernel = 1 } } }
  g:train { g.mse { image, target }, optimizer = g.sgd { lr = 0.5 } }
  local first, last
  for _, m in g:steps(10) do first, last = first or m.loss, m.loss end
  t.ok(last < first, "a target that is trained")
end

do
  local g <close> = sp.graph { device = "cpu" }
  local data = g.reader { path = "random", size = { 8, 8 }, batch = 2, samples = 4, classes = 3 }
  local net = g.layers { g.to_float { data.image }, layers = { { "conv", 1, kernel = 1 } } }
  g:train { g.bce { net, data.mask }, optimizer = g.sgd {} }
  local ok, why = pcall(function() for _ in g:steps(4) do end end)
  t.ok(not ok, "a label of 2")
  t.match(why, "sample %d: label 2 is outside 0%.%.1")
end

local function run(line, wanted)
  local small = " --size 16 --batch 4 --samples 32 --width 4 --levels 2 --threads 2"
  local code, out, err = t.spcore(dir.path, "run " .. line .. small)
  t.match(code == wanted.code and (wanted.code == 0 and out or err) or ("exit code %d: %s"):format(code, err), wanted[1])
end
local seg = "train_seg.lua --train-encoder --quiet --steps 4 "
for _, options in ipairs { "--loss dice --rate step", "--loss focal --rate one_cycle", "--loss jaccard", "--loss lovasz",
  "--loss tversky --false-negatives 0.8", "--label-smoothing 0.1" } do
  run(seg .. options, { code = 0, "validation mean IoU" })
end
run("train_cls.lua --quiet --steps 4 --label-smoothing 0.1 --rate one_cycle", { code = 0, "validation accuracy" })
run(seg .. "--loss dice --label-smoothing 0.1",
  { code = 2, "%-%-label%-smoothing: goes with %-%-loss cross_entropy, not with dice" })
run(seg .. "--loss dise", { code = 2, "%-%-loss dise: choose one of cross_entropy, dice, focal, jaccard, lovasz, tversky; did you mean 'dice'" })
