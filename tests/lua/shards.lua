-- SPDX-License-Identifier: MIT
-- A step of several shards, or an update of several steps: the same as one batch of all of them, but for rounding, also where most
-- labels of a shard do not count; the same bits in every strategy, on every device, with every capture;
-- statistics, counts and epochs are of the step.
-- needs: onednn images jansson
local sp = require "spcore"
local t = require "check"

local dir <close> = t.folder()
local path = dir.path .. "/weights.safetensors"

local function floats(bytes)
  local list = {}
  for i = 1, #bytes // 4 do list[i] = ("<f"):unpack(bytes, 4 * i - 3) end
  return list
end
local function tensors(g, options)
  g:save(path, options)
  return t.tensors(path)
end

local function near(a, b, rel, what)
  local most, worst = 0, 0
  for i, x in ipairs(a) do
    most, worst = math.max(most, math.abs(x)), math.max(worst, math.abs(x - b[i]))
  end
  if worst > rel * most then t.fail(2, "%s: differs by %g, the largest is %g", what, worst, most) end
end

-- norm: with batch norm; few: only the labels of class 3 count, so that one shard has almost all of them
local function make(s)
  local g = sp.graph {
    device = s.device, capture = s.capture, strategy = s.strategy, depth = 2, seed = 3, threads = 1, shards = s.shards,
    run_ahead = s.run_ahead, checksums = s.checksums, factors = s.factors, parts = s.parts,
  }
  local data = g.reader { path = "shapes", size = 16, batch = s.batch, samples = s.samples or 32, val_fraction = 0.5 }
  local val = g.reader { path = "shapes", size = 16, batch = s.batch, samples = s.samples or 32, split = "val", val_fraction = 0.5 }
  local image = g.to_float { data.image, scale = true }
  local logits
  if s.wide then
    local enc = g.encoder { image, width = 16, levels = 4, frozen = s.wide == "head" }
    logits = g.decoder { enc.features, width = 16, levels = 4, classes = data.classes }.logits
  elseif s.norm then
    local enc = g.encoder { image, model = "unet", width = 4, levels = 1, convs = 1, frozen = true }
    logits = g.decoder { enc.features, skips = enc.maps, model = "unet", width = 4, convs = 1, classes = data.classes }.logits
  else
    logits = g.layers { image, layers = { { "conv", 6, kernel = 3, pad = 1 }, { "relu" }, { "conv", data.classes, kernel = 1 } } }.features
  end
  local loss = (s.loss or function(l) return g.cross_entropy(l) end) { logits, data.mask, ignore_index = s.ignore }
  local watched = g.confusion { logits, data.mask }
  g:train { loss, optimizer = g[s.optimizer or "sgd"](s.params or { lr = 0.1 }), lr = s.rate, accumulate = s.accumulate }
  return g, val, loss, watched
end

local function run(s)
  local g <close>, val = make(s)
  local out = { steps = {} }
  for step, m in g:steps(s.steps or 12) do
    out.steps[#out.steps + 1] = m
    t.eq(step, #out.steps - 1)
    if s.evaluate and step % s.evaluate == 0 then m.eval = g:evaluate { data = val }.loss end
    if step == s.stop then break end
  end
  for _, m in g:steps(s.more or 0) do out.steps[#out.steps + 1] = m end
  out.step, out.epoch_steps, out.weights = g:step(), g:epoch_steps(), tensors(g, { optimizer = true })
  return out
end

local function same_runs(a, b, rel, what)
  t.eq(#a.steps, #b.steps, what)
  for i, m in ipairs(a.steps) do
    local o = b.steps[i]
    for _, key in ipairs { "n", "epoch", "valid", "lr", "step" } do t.eq(o[key], m[key], what .. ": " .. key) end
    t.ok(math.abs(m.loss - o.loss) <= rel * math.abs(m.loss), ("%s: loss %g, %g"):format(what, m.loss, o.loss))
  end
  for name, bytes in pairs(a.weights) do
    if #bytes % 4 == 0 then near(floats(bytes), floats(b.weights[name]), 20 * rel, what .. ": " .. name) end
  end
  t.eq(b.step, a.step, what)
  t.eq(b.epoch_steps, a.epoch_steps, what)
end

-- 16 samples, and 13: the last step of an epoch has shards of 3, 2 and 0.
for _, samples in ipairs { 32, 26 } do
  for _, ignore in ipairs { -100, 0 } do
    local what = ("%d samples, without label %d"):format(samples, ignore)
    local one = run { batch = 12, samples = samples, ignore = ignore }
    same_runs(one, run { batch = 3, shards = 4, samples = samples, ignore = ignore }, 2e-5, what)
    same_runs(one, run { batch = 4, shards = 3, samples = samples, ignore = ignore, strategy = "pipelined" }, 2e-5, what .. ", 3")
  end
end

-- So is an update of several steps.
for _, ignore in ipairs { -100, 0 } do
  local shards = run { batch = 4, shards = 3, samples = 48, ignore = ignore, steps = 4, evaluate = 1, run_ahead = 0 }
  local steps = run { batch = 4, accumulate = 3, samples = 48, ignore = ignore, steps = 12, evaluate = 1, run_ahead = 0, strategy = "pipelined" }
  for name, bytes in pairs(shards.weights) do
    near(floats(bytes), floats(steps.weights[name]), 2e-5, ("accumulate, without label %d: %s"):format(ignore, name))
  end
  for i = 1, 4 do t.ok(math.abs(shards.steps[i].eval / steps.steps[3 * i].eval - 1) < 2e-5) end
end

-- Counts are exact.
do
  local one, four = run { batch = 8, steps = 5 }, run { batch = 2, shards = 4, steps = 5 }
  for i, m in ipairs(one.steps) do
    local sum = 0
    for r, row in ipairs(four.steps[i].counts) do
      for _, n in ipairs(row) do sum = sum + n end
      t.eq(#row, #m.counts[r])
    end
    t.eq(sum, m.valid)
  end
end

-- Every strategy, device and capture: the same bits; with statistics that a skipped step puts back, averages, evaluations
-- between steps, a loop that is broken off and another one.
local ways = {}
for _, strategy in ipairs { "serialized", "pipelined", "deep", "double_buffer", "branches" } do
  for _, device in ipairs { "cpu", "sim", "mock off", "mock lane", "mock step" } do
    ways[#ways + 1] = { strategy, device:match "%S+", device:match " (%S+)" }
  end
end
for _, s in ipairs {
  { batch = 2, shards = 4, params = { lr = 0.1, momentum = 0.9, nonfinite = "skip" }, evaluate = 3, stop = 7, more = 3 },
  { batch = 3, shards = 3, optimizer = "adamw", params = { lr = 0.01, ema = 0.9 }, steps = 6, run_ahead = 1 },
  { batch = 3, accumulate = 3, params = { lr = 0.1, momentum = 0.9, clip_norm = 0.1 }, steps = 10, more = 2, evaluate = 4, ignore = 0 },
} do
  s.norm, s.samples, s.rate = true, 42, sp.cosine { lr = 0.1, steps = 12 }
  local first
  for _, way in ipairs(ways) do
    s.strategy, s.device, s.capture = table.unpack(way, 1, 3)
    local what, got = table.concat({ table.unpack(way, 1, 3) }, " "), run(s)
    first = first or got
    t.eq(#got.steps, #first.steps, what)
    for i, m in ipairs(got.steps) do t.eq(m.loss, first.steps[i].loss, what) t.eq(m.eval, first.steps[i].eval, what) end
    for name, bytes in pairs(first.weights) do t.ok(got.weights[name] == bytes, what .. ": " .. name) end
  end
end

-- Each shard is normalised by itself; running means are those over the shards, and a step is one batch that was tracked.
do
  local one = run { norm = true, batch = 8, steps = 1, run_ahead = 0 }.weights
  local four = run { norm = true, batch = 2, shards = 4, steps = 1, run_ahead = 0 }.weights
  local seen = 0
  for name, bytes in pairs(one) do
    if name:match "^decoder.*running_mean$" then
      near(floats(bytes), floats(four[name]), 1e-5, name)
      seen = seen + 1
    elseif name:match "^decoder.*num_batches_tracked$" then
      t.eq(("<i8"):unpack(four[name]), 1)
      t.eq(four[name], bytes)
      seen = seen + 1
    end
  end
  t.ok(seen >= 2, "statistics")
end

-- Going on from what was saved is the same.
do
  local s = { norm = true, batch = 2, shards = 4, samples = 42, optimizer = "adamw", params = { lr = 0.01 } }
  local whole = run(s).weights
  local kept = dir.path .. "/kept.safetensors"
  do
    local g <close> = make(s)
    for _ in g:steps(5) do end
    g:save(kept, { optimizer = true })
    t.eq(g:step(), 5)
  end
  s.strategy = "pipelined"
  local g <close> = make(s)
  g:load(kept)
  g:seek(5)
  for _ in g:steps(7) do end
  local got = tensors(g, { optimizer = true })
  for name, bytes in pairs(whole) do t.ok(got[name] == bytes, name) end
end

-- Gradients that are made of the rows of all shards at once: those of one batch but for rounding, also with shards of 3, 2 and
-- 0 samples; alike in each strategy, on each device, with each capture and any number of parts; by products in place, and
-- by gradients for an optimizer.
local function has_apply(s)
  local g <close> = make(s)
  return g:describe():find("decoder.apply", 1, true) ~= nil
end
for _, wide in ipairs { "all", "head" } do
  for _, params in ipairs { { lr = 0.05 }, { lr = 0.05, momentum = 0.9 } } do
    local s = { wide = wide, params = params, samples = 26, steps = 6, batch = 3, shards = 4 }
    t.ok(has_apply(s), "no factors")
    s.factors = false
    t.ok(not has_apply(s), "factors all the same")
    local summed, what = run(s), ("%s, momentum %s"):format(wide, params.momentum)
    s.factors = nil
    local first = run(s)
    same_runs(summed, first, 1e-4, what)
    same_runs(run { wide = wide, params = params, samples = 26, steps = 6, batch = 12 }, first, 1e-4, what .. ", one batch")
    for i, way in ipairs(ways) do
      if i % 3 == (params.momentum and 1 or 2) then
        s.strategy, s.device, s.capture, s.parts = way[1], way[2], way[3], i % 4 + 1
        local got = run(s)
        for k, m in ipairs(got.steps) do t.eq(m.loss, first.steps[k].loss, what) end
        for name, bytes in pairs(first.weights) do t.ok(got.weights[name] == bytes, what .. ": " .. name) end
      end
    end
  end
end

-- What is refused.
local function refused(words, options, reader, change)
  t.raises(words, function()
    local g <close> = sp.graph(options)
    local data = g.reader { path = "shapes", size = 8, batch = 2, samples = 8, drop_last = reader }
    local net = g.layers { g.to_float { data.image }, layers = { { "conv", data.classes, kernel = 1 } } }
    local loss = g.cross_entropy { net.features, data.mask }
    local how = { loss, optimizer = g.sgd {} }
    if change then change(g, how, net, data) end
    g:train(how)
    for _ in g:steps(1) do end
  end)
end
refused("1025", { shards = 1025 })
refused("wire 'fp16': choose one of fp32, bf16$", { wire = "fp16" })
refused("2 shards and accumulate = 2", { shards = 2 }, nil, function(_, how) how.accumulate = 2 end)
refused("2 shards and 2 losses", { shards = 2 }, nil,
  function(g, how, net, data) how[2] = g.dice { net.features, data.mask } end)
refused("8 samples do not fill one batch of 10 in all shards", { shards = 5 }, true)
refused("a step has 2 shards: 'layers.features' would come back", { shards = 2 }, nil,
  function(g, _, net) g:results { net.features } end)
t.raises("stage 'shard_sum' is added by the graph itself", function()
  local g <close> = sp.graph {}
  g:stage("shard_sum", { shards = 2 })
end)
