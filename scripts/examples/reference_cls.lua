-- SPDX-License-Identifier: MIT
-- The reference workload of classification, which speed is measured on (docs/measurements.md): a plain classifier that is trained
-- on random images behind heavy augmentation, in one stage or in six. Prints steps/s.
--
--   spcore run reference_cls.lua --device cuda --strategy pipelined --steps 1000
local sp = require "spcore"
local reference = require "spcore.reference"

local opt = reference.args({
  batch = { 32, "images a step", min = 1, max = 65535, sets = "reader.batch" },
  augment = { "auto", "where images are augmented: auto, where the training runs, cpu, gpu, none: nowhere",
    choices = { "auto", "cpu", "gpu", "none" } },
  fused = { true, "one stage for all of the augmentation; --no-fused: six, one after another" },
}, "The reference workload of classification: prints steps/s.")

if not opt.fused and opt.augment == "none" then sp.usage "--no-fused: goes with an augmentation, and not with --augment none" end

local g <close> = sp.graph(opt)
local gpu, size = g:device() ~= "cpu", opt.size
if opt.augment == "gpu" and not gpu then
  sp.fail "--augment gpu: the training runs on the cpu; take --device cuda, or leave --augment out"
end
local cpu = opt.augment == "cpu" and gpu or nil -- the stages of the augmentation stay on the processor

local data = g.reader {
  path = "random", target = "class", batch = opt.batch, size = { size, size }, classes = 10, samples = opt.samples,
}
local x = data.image
if opt.augment == "none" then
  x = g.to_float { x, on_cpu = cpu }
elseif opt.fused then
  x = g.augment {
    x, crop = size // 2, mode = "roi_align", size = size, degrees = 45, kernel = 7, sigma = { 0.1, 2.0 }, mean = 0,
    std = 1, on_cpu = cpu,
  }.images
else
  x = g.to_float { x, on_cpu = cpu }
  x = g.batch_crop { x, size = size // 2, mode = "roi_align", on_cpu = cpu }.images
  x = g.resize { x, size = size, on_cpu = cpu }.images
  x = g.batch_rotate { x, degrees = 45, on_cpu = cpu }.images
  x = g.blur { x, kernel = 7, sigma = { 0.1, 2.0 }, on_cpu = cpu }.images
  x = g.normalize { x, mean = 0, std = 1, on_cpu = cpu }.images
end
local model = g.classifier { x, model = "plain", classes = data.classes }
g:train { g.cross_entropy { model.logits, data.label }, optimizer = g.sgd { lr = opt.lr } }
reference.run(g, opt)
