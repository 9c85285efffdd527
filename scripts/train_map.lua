-- SPDX-License-Identifier: MIT
-- Trains a network that gives each pixel a number, such as a depth: a small U-Net from scratch, or a head behind a known backbone.
local sp = require "spcore"
local augment_sheet = require "spcore.augment_sheet"
local backbone = require "spcore.backbone"
local chain = require "spcore.chain"
local data_defaults = require "spcore.data_defaults"
local dense = require "spcore.dense"
local first_weights = (require "spcore.checkpoint").first_weights
local measure = require "spcore.measure"
local numbers = require "spcore.numbers"
local options = require "spcore.options"
local predict = require "spcore.predict"
local progress = require "spcore.progress"
local targets = require "spcore.targets"
local twos = require "spcore.twos"
local words = require "spcore.words"

local opt = sp.args({
  data = { "", "folder with images/ and depth/ (or maps/, disparity/, heights/; left/ and right/), or train/ and val/ of such; .tar",
    value = "DIR|FILE" },
  val = { "", "folder with the images and maps for validation", default = "part of --data", value = "DIR", sets = "reader.val_path" },
  size = { -1, "pixels of a side", default = "64; with --backbone 256", min = 1, max = 4096 },
  batch = dense.options.batch,
  steps = { 1000, "optimizer steps", min = 1 },
  epochs = dense.options.epochs,
  lr = { -1.0, "highest learning rate", default = "6e-3; with --backbone 1e-3", min = 0.0 },
  ema = dense.options.ema,
  cost = { "absolute", "what a difference costs", choices = { "absolute", "square", "huber" } },
  standardize = { true, "values are learned less their mean, by their deviation in training; --no-standardize: as they are" },
  width = dense.options.width,
  levels = dense.options.levels,
  train_encoder = { false, "with --backbone: train it as well" },
  fusion = twos.option,
  separate_colours = twos.separate,
  grey = dense.options.grey,
  mean = numbers.options.mean,
  std = numbers.options.std,
  backbone = backbone.options.backbone,
  weights = backbone.options.weights,
  variant = backbone.options.variant,
  model = dense.options.model,
  output_stride = dense.options.output_stride,
  augment = { "none", "FILE.lua: a chain of what is done to training images and maps, such as the shipped chains/seg.lua",
    value = "none|FILE.lua" },
  show_augment = augment_sheet.option,
  eval_every = dense.options.eval_every,
  metrics = {
    "auto", "what validations are judged by: mae,rmse,bias,r2 and, of values above 0, silog,abs_rel,sq_rel,rmse_log,delta1,delta2,delta3;"
      .. " none", default = "all of these", value = "LIST",
  },
  pictures = dense.options.pictures,
  least = { 1e-3, "of silog, abs_rel and the like: a true value below does not count, a predicted one counts as this", min = 1e-6,
    max = 1e30 },
}, { doc = "Trains a network that gives each pixel a number, such as a depth.", without = { "by_hand" }, checkpoints = true })

if opt.data == "" then sp.usage "--data DIR is missing: a folder with images/ and depth/" end
local place, chain_file = dense.augmentation(opt, "maps have no augmentation of their own")
backbone.check(opt, {
  only = { weights = "", variant = "", model = "unet", output_stride = 0, train_encoder = false }, no = { width = 8, levels = 3 },
  frozen = not opt.train_encoder, instead = "train it as well, --train-encoder",
})
dense.check_stride(opt)
numbers.check(opt)
local known = opt.backbone ~= "" and backbone.describe(opt, opt.model) or nil
local size, steps = opt.size > 0 and opt.size or known and 256 or 64, opt.steps
local lr = opt.lr >= 0 and opt.lr or known and 1e-3 or 6e-3
if not known then dense.check_size(opt, size) end
opt.size, opt.lr = size, lr -- what settings.json tells

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

local function small(g, image, model)
  model.encoder = { model = "unet", width = opt.width, levels = opt.levels, convs = 2 }
  model.decoder = { model = "unet", width = opt.width, convs = 1, classes = 1 }
  model.scale = true
  local images = twos.floats(image, function(one)
    return model.mean and numbers.normalize(g, one, model) or g.to_float { one, scale = true }
  end)
  local features, maps = twos.encode(g, images, model, function(one)
    return g.encoder { one, model = "unet", width = opt.width, levels = opt.levels, convs = 2, weights = first_weights(opt, "") }
  end)
  return g.decoder { features, skips = maps, model = "unet", width = opt.width, convs = 1, classes = 1 }.logits
end

local function behind_backbone(g, image, model)
  model.backbone, model.head, model.classes = known, opt.model, 1
  return backbone.segment(g, image, model, {
    encoder = { frozen = not opt.train_encoder, weights = first_weights(opt, opt.weights) }, head = {},
  })
end

local g <close> = sp.graph(opt)
local model = { target = "map", size = size, read = known and backbone.reading_all(known) or nil }
local function source(split, other, more)
  local scale = model.numbers or {}
  local t = predict.reading(model, {
    path = opt.data, target = "map", split = split, batch = other and 1 or opt.batch, mean = scale.mean, std = scale.std,
    default_val_fraction = data_defaults.val_fraction, val_path = opt.val, drop_last = split == "train", shuffle = split == "train",
  })
  for k, v in next, more or {} do t[k] = v end
  return (other or g).reader(t)
end
model.numbers = scale_of(function(other) return source("train", other) end)
numbers.plan(opt, model, function(other) return source("train", other) end, known)
if augment_sheet.draw(opt, {
  chain = chain_file and chain.read(chain_file, chain.seen({ shape = { 1, 3 }, dtype = "uint8" }, size, size * 7 // 8)),
  open = function(other, more) return source("train", other, more) end,
  add = function(other, image, mask, one)
    local own = chain.read(chain_file, chain.seen(one.image, size, size * 7 // 8))
    return own:add(other, image, mask, { always = true }, twos.chained(opt, one))
  end,
}) then return end
local data, val = source "train", source "val"
if opt.epochs > 0 then steps = opt.epochs * math.max(1, data.length // (opt.batch * opt.shards)) end
twos.plan(opt, model, data, not known or opt.train_encoder, nil,
  not known and "take a frozen one, --backbone NAME --weights FILE" or nil)
local image, map = twos.images(data, model), data.mask
local steps_of = chain_file and chain.read(chain_file, chain.seen(data.image, size, size * 7 // 8)) or nil
if steps_of then
  image, map = steps_of:add(g, image, map, { on_cpu = place == "cpu" and g:device() ~= "cpu" or nil }, twos.chained(opt, data))
  steps_of:keeps(data.image, model.fusion and image[1] or image)
end
local values = (known and behind_backbone or small)(g, image, model)
measure.add(g, opt, {
  kind = "depth", logits = values, targets = map, classes = 1, scale = model.numbers.std[1], offset = model.numbers.mean[1],
  least = opt.least, lowest = lowest,
})
g:train {
  g.mse { values, map, cost = opt.cost, ignore_nan = true },
  optimizer = g.adamw { lr = lr, betas = { 0.9, 0.99 }, weight_decay = 1e-2, ema = opt.ema },
  lr = sp.cosine { lr = lr, steps = steps, warm_up = steps // 5 },
}
local every = dense.every(opt, steps)
opt.eval_every, opt.steps = every, steps
if every < steps then g:evaluate { data = val, every = every } end

local function shown(other, file)
  local one, scale = source("val", other), model.numbers
  local function of(v) return (v - scale.mean[1]) / scale.std[1] end
  return {
    data = one, image = one.image, second = model.fusion and one.second, map = one.mask,
    values = predict.segment(other, twos.images(one, model), model, file), lo = of(lowest),
    hi = of(highest > lowest and highest or lowest + math.max(1, math.abs(lowest))), scale = scale.std[1], offset = scale.mean[1],
  }
end
local run <close> = sp.run {
  graph = g, opt = opt, steps = steps, epochs = opt.epochs,
  settings = { model = model, augmentation = steps_of and steps_of:settings() }, samples = shown,
}
for step, m in g:steps(run:rest()) do run:step(step, m) end
local eval = run:evaluate(val)
local left_out = eval and measure.depth_words(eval, opt.least)
if left_out then progress.print("%s", left_out) end
run:finish(targets.verdict(model, eval) or run:verdict(eval))
