-- SPDX-License-Identifier: MIT
-- Trains a network that gives each pixel a number, such as a depth: a small U-Net from scratch, or a head behind a known backbone.
local sp = require "spcore"
local measure = require "spcore.measure"
local options = require "spcore.options"
local progress = require "spcore.progress"
local train_options = require "spcore.train_options"
local trainer = require "spcore.trainer"
local words = require "spcore.words"

local opt = train_options.args({
  data = { "", "folder with images/ and depth/ (or maps/, disparity/, heights/; left/ and right/), or train/ and val/ of such; .tar",
    value = "DIR|FILE" },
  val = { "", "folder with the images and maps for validation", default = "part of --data", value = "DIR", sets = "reader.val_path" },
  steps = { 1000, "optimizer steps", min = 1 },
  loss = { "l1", "what a difference costs: its size, its square (mse), or half its square up to --huber-delta and straight from there on",
    choices = { "l1", "mse", "huber" } },
  huber_delta = { 1.0, "with --loss huber: where it becomes straight, in what is learned: deviations of the values", min = 1e-6, max = 1e6 },
  standardize = { true, "values are learned less their mean, by their deviation in training; --no-standardize: as they are" },
  train_encoder = { false, "with --backbone: train it as well" },
  augment = { "none", "FILE.lua: a chain of what is done to training images and maps, such as the shipped chains/seg.lua",
    value = "none|FILE.lua" },
  metrics = {
    "auto", "what validations are judged by: mae,rmse,bias,r2 and, of values above 0, silog,abs_rel,sq_rel,rmse_log,delta1,delta2,delta3;"
      .. " none", default = "all of these", value = "LIST",
  },
  least = { 1e-3, "of silog, abs_rel and the like: a true value below does not count, a predicted one counts as this", min = 1e-6,
    max = 1e30 },
}, { doc = "Trains a network that gives each pixel a number, such as a depth.", masks = true, size = 256 })

if opt.data == "" then sp.usage "--data DIR is missing: a folder with images/ and depth/" end
if opt.huber_delta ~= 1 and opt.loss ~= "huber" then sp.usage("--huber-delta: goes with --loss huber, not with %s", opt.loss) end

local lowest, highest -- value of the training part

-- What the values of the training part are: { names =, mean =, std = }, by which both parts are standardised.
local function scale_of(open)
  local g <close> = sp.graph(options.reading_of(opt, { device = "cpu" }))
  local text = open(g):item("map", 0)
  if text:find "^! " then sp.fail(words.cures(text:sub(3))) end
  local v = {}
  for word in text:gmatch "%S+" do v[#v + 1] = tonumber(word) end
  local pixels, without, least, median, most, mean, std = table.unpack(v, 3)
  if without == pixels then sp.fail(("%s: no pixel of its first %d maps has a value"):format(opt.data, v[1])) end
  progress.print("values: least %.6g, median %.6g, largest %.6g in %d of %d maps; %.1f %% of the pixels have none", least, median, most,
    v[1], v[2], 100 * without / pixels)
  if not opt.standardize then mean, std = 0.0, 1.0 end
  if not (std > 0) then std = 1.0 end -- one value throughout
  lowest, highest = least, most
  return { names = { "value" }, mean = { tonumber(("%.6g"):format(mean)) }, std = { tonumber(("%.6g"):format(std)) } }
end

local known = opt.backbone ~= ""
local t <close> = trainer.new(opt, {
  target = "map", masks = true, size = 256, steps = opt.steps, frozen = known and not opt.train_encoder,
  instead = "train it as well, --train-encoder", only = { train_encoder = false }, no_chain = "maps have no augmentation of their own",
  siamese = not known and "take a frozen one, --backbone NAME --weights FILE" or nil,
})
local g, model = t.graph, t.model
model.numbers = scale_of(function(other) return t:source("train", other) end)
if t:shows_augmentation() then return end
local image, map = t:augmented(t:data())
local values, scale = t:network(image, 1), model.numbers
measure.add(g, opt, {
  kind = "depth", logits = values, targets = map, classes = 1, scale = scale.std[1], offset = scale.mean[1], least = opt.least,
  lowest = lowest,
})
t:train(g[opt.loss] { values, map, delta = opt.loss == "huber" and opt.huber_delta or nil, ignore_nan = true })

local function of(v) return (v - scale.mean[1]) / scale.std[1] end
t:run(function(one, seen)
  return {
    map = one.mask, values = seen, lo = of(lowest), hi = of(highest > lowest and highest or lowest + math.max(1, math.abs(lowest))),
    scale = scale.std[1], offset = scale.mean[1],
  }
end, function(eval)
  local left_out = measure.depth_words(eval, opt.least)
  if left_out then progress.print("%s", left_out) end
end)
