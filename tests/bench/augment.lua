-- SPDX-License-Identifier: MIT
-- The augmentation of the cls workload without training, for cls_cpu.py: prints images/s over the timed steps, with
-- --trace the time of each stage too.
local sp = require "spcore"
local opt = sp.args {
  size = { 256, "pixels of a side", min = 8 }, batch = { 32, "images a step", min = 1 },
  steps = { 100, "steps after the warm-up", min = 1 }, warm_up = { 10, "steps before", min = 1 },
  stages = { "batch_crop,resize,batch_rotate,blur,normalize", "which of the chain, with commas; augment: all in one" },
  deep = { false, "a lane for each stage, each a step behind the one before it: as many batches in flight as stages" },
}

-- Nothing is trained, so each stage is told to draw all the same.
local chain = {
  batch_crop = { size = opt.size // 2, mode = "roi_align", always = true },
  resize = { size = opt.size },
  batch_rotate = { degrees = 45, fill = 0, always = true },
  blur = { kernel = 7, sigma = { 0.1, 2.0 }, always = true },
  normalize = { mean = 0, std = 1 },
  augment = {
    crop = opt.size // 2, mode = "roi_align", size = opt.size, degrees = 45, kernel = 7, sigma = { 0.1, 2.0 },
    always = true,
  },
}

local g <close> = sp.graph(opt)
local data = g.reader { path = "random", batch = opt.batch, size = { opt.size, opt.size }, classes = 10 }
local image, lanes, node = data.image, {}, nil
if opt.stages ~= "augment" then -- which takes bytes
  node = g.to_float { image }
  image, lanes[1] = node, { stages = { node } }
end
for name in opt.stages:gmatch("[^,]+") do
  local params = chain[name] or sp.usage("--stages: '%s' is not in the chain, or is there twice", name)
  chain[name], params[1] = nil, image
  node = g:stage(name, params)
  image = node.images
  lanes[#lanes + 1] = { stages = { node }, delay = #lanes }
end
if opt.deep then g:strategy(lanes) end

local began, ended
for step, m in g:steps(opt.warm_up + opt.steps) do
  if step == opt.warm_up - 1 then began = m.time end
  ended = m.time
end
if not began or ended <= began then sp.usage("--steps: too few to measure") end
print(("%d batches in flight, %.3f images/s"):format(opt.deep and #lanes or 1, opt.steps * opt.batch / (ended - began)))
local timings = g:timings()
if timings then print((timings:gsub("\n$", ""))) end
