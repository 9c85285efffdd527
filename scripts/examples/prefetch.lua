-- SPDX-License-Identifier: MIT
-- Loading and preprocessing of the next batch beside the training of this one. On the processor a reader decodes or
-- draws images and four stages augment them; where the training runs, a small classifier is trained. Measured in
-- turns: loading alone, training alone (on bytes that cost next to nothing), both one after the other, and loading so
-- many steps ahead. With --load-ms and --train-ms both only sleep, so that the ideal is known.
local sp = require "spcore"

local opt = sp.args({
  data = { "shapes", "folder with a subfolder of images for each class, or a built-in set: shapes, random" },
  size = { 64, "pixels of a side", min = 16, max = 1024 },
  batch = { 32, "images a step", min = 1, max = 65535 },
  width = { 2, "channels of the first layer", min = 1, max = 1024 },
  ahead = { "0,1,2,4", "steps that loading is ahead, with commas; 0: after each other" },
  load_ms = { 0.0, "loading only sleeps, so many milliseconds", default = "it is real", min = 0.0, max = 10000.0 },
  train_ms = { 0.0, "training only sleeps, so many milliseconds", default = "it is real", min = 0.0, max = 10000.0 },
  steps = { 100, "timed steps", min = 1, max = 1000000 },
  turns = { 3, "how often each way is measured; the median counts", min = 1, max = 100 },
}, {
  doc = "Prints what loading the next batch beside the training of this one brings, and the ideal.",
  without = { "by_hand", "run", "strategy", "training", "memory_limit", "trace", "prefetch" },
})

local aheads = {}
for word in (opt.ahead .. ","):gmatch "([^,]*)," do
  local n = math.tointeger(tonumber(word))
  if not n or n < 0 or n > 64 then
    sp.usage("--ahead: '%s': numbers from 0 to 64, such as 0,1,2, are wanted", opt.ahead)
  end
  aheads[#aheads + 1] = n
end

-- What loads, and what it gives: images as bytes on the processor's side, classes.
local function loading(g, real, workers)
  local path = real and opt.load_ms == 0 and opt.data or "random"
  local data = g.reader {
    path = path, target = "class", size = opt.size, batch = opt.batch, workers = workers, drop_last = true,
    samples = (path == "shapes" or path == "random") and 64 * opt.batch or nil,
  }
  local stages, x = { data }, data.image
  local function add(stage, output) stages[#stages + 1], x = stage, output end
  if real and opt.load_ms > 0 then
    local slow = g.sleep { x, ms = opt.load_ms, on_cpu = true, name = "load" }
    add(slow, slow.y[1])
  elseif real then
    local crop = g.batch_crop { x, size = opt.size * 7 // 8, on_cpu = true }
    add(crop, crop.images)
    local flip = g.flip { x, on_cpu = true }
    add(flip, flip.images)
    local jitter = g.color_jitter { x, brightness = 0.3, contrast = 0.3, saturation = 0.3, hue = 0.1, on_cpu = true }
    add(jitter, jitter.images)
    local whole = g.resize { x, size = opt.size, on_cpu = true }
    add(whole, whole.images)
  end
  return stages, x, data
end

local function training(g, x, data)
  if opt.train_ms > 0 then
    g.sleep { x, ms = opt.train_ms, name = "train" }
    return
  end
  local image = g.normalize { x, scale = true, mean = 0.5, std = 0.25 }.images
  local enc = g.encoder { image, model = "unet", width = opt.width, levels = 3, convs = 2 }
  local head = g.classifier { enc.features, model = "pool", classes = data.classes }
  g:train { g.cross_entropy { head.logits, data.label }, optimizer = g.sgd { lr = 1e-3 } }
end

-- All but what loads.
local function others(g, loads)
  local known, list = {}, {}
  for _, stage in ipairs(loads) do known[stage] = true end
  for _, stage in ipairs(g:stages()) do
    if not known[stage] then list[#list + 1] = stage end
  end
  return list
end

-- Milliseconds a step. way: "load" or "train" alone, or how many steps loading is ahead.
local function measure(way, workers)
  local own = { seed = opt.seed, run_ahead = way == 0 and 0 or opt.run_ahead }
  for _, key in ipairs { "device", "precision", "capture", "threads", "pinned" } do own[key] = opt[key] end
  local g <close> = sp.graph(own)
  local loads, x, data = loading(g, way ~= "train", workers)
  if way ~= "load" then training(g, x, data) end
  local rest = others(g, loads)
  if math.type(way) and way > 0 then
    g:strategy({ { name = "load", stages = loads }, { name = "train", stages = rest, delay = way } }, "ahead")
  elseif way == 0 then
    g:strategy({ { name = "all", stages = table.move(rest, 1, #rest, #loads + 1, { table.unpack(loads) }) } }, "after")
  elseif way == "load" then
    g:strategy({ { name = "load", stages = loads } }, "load")
  end
  -- Steps are seen late: both ends of the timed ones have as many in flight behind them.
  local around, begun, ended = 12 + (math.type(way) and way or 0), nil, nil
  for step in g:steps(around + opt.steps + around) do
    if step == around - 1 then begun = sp.now() end
    if step == around + opt.steps - 1 then ended = sp.now() end
  end
  if sp.interrupted() then sp.exit(130) end -- the loop has ended early
  return (ended - begun) / opt.steps * 1e3
end

local function median(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end

local crew, shared = { 1 }, false
do
  local g <close> = sp.graph(opt)
  local most = opt.workers > 0 and opt.workers or g:device():find "^cuda" and 4 or 2
  if most > 1 and opt.load_ms == 0 then crew[2] = most end -- a sleep takes none
  shared = not g:device():find "^cuda" and opt.load_ms == 0 and opt.train_ms == 0
  local what = opt.load_ms > 0 and ("a sleep of %g ms"):format(opt.load_ms) or ("%s, augmented"):format(opt.data)
  local trains = opt.train_ms > 0 and ("a sleep of %g ms"):format(opt.train_ms) or "a classifier's"
  print(("device %s, batch %d of %d x %d, loading is %s, training is %s"):format(g:device(), opt.batch, opt.size,
    opt.size, what, trains))
  print(("median of %d turns, milliseconds a step"):format(opt.turns))
end

local times = {}
local function note(key, value)
  times[key] = times[key] or {}
  table.insert(times[key], value)
end
for _ = 1, opt.turns do
  note("train", measure("train", crew[#crew]))
  for _, workers in ipairs(crew) do
    note("load " .. workers, measure("load", workers))
    for _, ahead in ipairs(aheads) do note(workers .. " " .. ahead, measure(ahead, workers)) end
  end
end

local train = median(times.train)
print(("%-8s %-6s %9s %9s %9s %9s %9s %8s"):format("workers", "ahead", "load", "train", "both", "ideal", "speed-up",
  "reached"))
for _, workers in ipairs(crew) do
  local load = median(times["load " .. workers])
  for _, ahead in ipairs(aheads) do
    local both = median(times[workers .. " " .. ahead])
    local ideal = ahead == 0 and load + train or math.max(load, train)
    print(("%-8d %-6d %9.3f %9.3f %9.3f %9.3f %9.2f %7.0f%%"):format(workers, ahead, load, train, both, ideal,
      (load + train) / both, 100 * ideal / both))
  end
end
print "ideal: the sum where nothing is ahead, else the longer of the two; speed-up: the sum over the time of both"
if shared then
  print "on a processor both ask for the same cores, so that only what one of them leaves idle can be gained"
end
