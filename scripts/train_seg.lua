-- SPDX-License-Identifier: MIT
-- Trains a segmentation decoder behind a frozen encoder, on the CPU too: a small U-Net, or a head behind a known backbone.
local sp = require "spcore"
local augment_sheet = require "spcore.augment_sheet"
local backbone = require "spcore.backbone"
local chain = require "spcore.chain"
local data_defaults = require "spcore.data_defaults"
local dense = require "spcore.dense"
local measure = require "spcore.measure"
local numbers = require "spcore.numbers"
local predict = require "spcore.predict"
local first_weights = (require "spcore.checkpoint").first_weights
local twos = require "spcore.twos"
local words = require "spcore.words"

local opt = sp.args({
  data = {
    "auto", "folder with images/, masks/ and classes.txt, or train/ and val/ of such; VOC; .csv; .tar; .npy; shapes, random",
    default = "shapes", value = "DIR|FILE|NAME",
  },
  val = { "", "folder with the images and masks for validation", default = "part of --data", value = "DIR",
    sets = "reader.val_path" },
  classes = { 0, "classes of a folder without classes.txt", default = "none", min = 1, max = 255, sets = "reader.classes" },
  size = { -1, "pixels of a side", default = "64; with --backbone 256", min = 1, max = 4096 },
  batch = dense.options.batch,
  steps = { -1, "optimizer steps", default = "1000; with --train-encoder 2000", min = 1 },
  epochs = dense.options.epochs,
  lr = { -1.0, "highest learning rate", default = "6e-3; with --backbone 1e-3", min = 0.0 },
  dropout = { 0.0, "part of the encoder's last maps that training drops", min = 0.0, max = 0.999 },
  ema = dense.options.ema,
  rate = {
    "cosine", "learning rates: cosine has a warm-up, step a tenth after each third of the steps",
    choices = { "cosine", "step", "one_cycle" },
  },
  loss = { "cross_entropy", "the loss", choices = { "cross_entropy", "dice", "focal" } },
  label_smoothing = { 0.0, "part of a label, for cross_entropy, that goes to all classes", min = 0.0, max = 0.999 },
  samples = { 0, "images of the data", default = "all of a folder, 4096 of a built-in set", min = 1, sets = "reader.samples" },
  width = dense.options.width,
  levels = dense.options.levels,
  train_encoder = { false, "train the encoder as well, from scratch or from --weights" },
  encoder = { "", "weights of the encoder", default = "the shipped ones, unless it is trained", value = "FILE" },
  fusion = twos.option,
  separate_colours = twos.separate,
  grey = dense.options.grey,
  mean = numbers.options.mean,
  std = numbers.options.std,
  backbone = backbone.options.backbone,
  weights = backbone.options.weights,
  variant = backbone.options.variant,
  cache = backbone.options.cache,
  model = dense.options.model,
  output_stride = dense.options.output_stride,
  augment = {
    "none", "FILE.lua: a chain of what is done to training images and masks, such as the shipped chains/seg.lua; cpu:FILE.lua: on "
      .. "the processor", value = "none|FILE.lua",
  },
  show_augment = augment_sheet.option,
  eval_every = dense.options.eval_every,
  metrics = measure.option,
  pictures = dense.options.pictures,
}, { doc = "Trains a segmentation decoder behind a frozen encoder.", without = { "by_hand" }, checkpoints = true,
  moved = { reference = "reference_seg.lua" } })

local place, chain_file = dense.augmentation(opt, "a segmentation has no augmentation of its own")
if opt.label_smoothing > 0 and opt.loss ~= "cross_entropy" then
  sp.usage("--label-smoothing: goes with --loss cross_entropy, not with %s", opt.loss)
end
backbone.check(opt, {
  only = { weights = "", variant = "", model = "unet", output_stride = 0 },
  no = { encoder = "", width = 8, levels = 3 },
  frozen = not opt.train_encoder, instead = "train it as well, --train-encoder",
})
if opt.cache ~= "off" and opt.train_encoder then
  sp.usage("--cache %s: goes with a frozen encoder, not with --train-encoder", opt.cache)
end
dense.check_stride(opt)
local known = opt.backbone ~= "" and backbone.describe(opt, opt.model) or nil

if opt.data == "auto" then opt.data = "shapes" end
numbers.check(opt)
local other = opt.grey and "--grey" or opt.channels == 1 and "--channels 1" or numbers.is_on(opt) and "--dtype and --channels"
if other and not known and not opt.train_encoder and opt.encoder == "" then
  sp.usage("%s: the shipped encoder reads colours; train one (--train-encoder)", other)
end
for _, key in ipairs(not known and not opt.train_encoder and opt.encoder == "" and { "width", "levels" } or {}) do
  local shipped = key == "width" and 8 or 3
  if opt[key] ~= shipped then
    sp.usage("--%s %d: the shipped encoder has %d; train one (--train-encoder), or give the file of one that has (--encoder FILE)", key,
      opt[key], shipped)
  end
end

-- A value of the command line, where none is below 0, or the usual one.
local function pick(value, usual) return value >= 0 and value or usual end

local size, batch = pick(opt.size, known and 256 or 64), opt.batch
local steps, lr = pick(opt.steps, opt.train_encoder and 2000 or 1000), pick(opt.lr, known and 1e-3 or 6e-3)
if not known then dense.check_size(opt, size) end
opt.size, opt.steps, opt.lr = size, steps, lr -- what settings.json tells

local rates = {
  cosine = function() return sp.cosine { lr = lr, steps = steps, warm_up = steps // 5 } end,
  step = function() return sp.step_rate { lr = lr, every = (steps + 2) // 3 } end,
  one_cycle = function() return sp.one_cycle { lr = lr, steps = steps } end,
}

local function loss_of(g, logits, mask)
  local smoothing = opt.loss == "cross_entropy" and opt.label_smoothing or nil
  return g[opt.loss] { logits, mask, ignore_index = 255, label_smoothing = smoothing }
end

-- Each gives the scores and fills in what settings.json says of the model.
local function small_unet(g, image, model, classes)
  model.encoder = { model = "unet", width = opt.width, levels = opt.levels, convs = 2 }
  model.decoder = { model = "unet", width = opt.width, convs = 1, classes = classes }
  model.scale = true
  local weights = opt.encoder
  if weights == "" and not opt.train_encoder then weights = sp.shipped "shapes_encoder.safetensors" end
  local images = twos.floats(image, function(one)
    return model.mean and numbers.normalize(g, one, model) or g.to_float { one, scale = true }
  end)
  local features, maps = twos.encode(g, images, model, function(one)
    return g.encoder {
      one, model = "unet", width = opt.width, levels = opt.levels, convs = 2, frozen = not opt.train_encoder,
      weights = first_weights(opt, weights), cache = opt.cache,
    }
  end)
  if opt.dropout > 0 then features = g.dropout { features, p = opt.dropout, maps = true } end
  return g.decoder { features, skips = maps, model = "unet", width = opt.width, convs = 1, classes = classes }.logits
end

local function behind_backbone(g, image, model, classes)
  model.backbone, model.head, model.classes = known, opt.model, classes
  return backbone.segment(g, image, model, {
    encoder = { frozen = not opt.train_encoder, weights = first_weights(opt, opt.weights), cache = opt.cache },
    head = {}, dropout = opt.dropout,
  })
end

local function train(g)
  local built_in = opt.data == "shapes" or opt.data == "random"
  local samples = opt.samples == 0 and built_in and data_defaults.samples.mask or opt.samples
  local model = { size = size, read = known and backbone.reading_all(known) or nil }
  local function source(split, other, more) -- in the other graph: of one sample a step, unless `more` says otherwise
    local t = predict.reading(model, {
      path = opt.data, split = split, batch = other and 1 or batch, samples = samples, classes = opt.classes,
      default_val_fraction = data_defaults.val_fraction, val_path = opt.val, drop_last = split == "train", shuffle = split == "train",
    })
    for k, v in next, more or {} do t[k] = v end
    return (other or g).reader(t)
  end
  numbers.plan(opt, model, function(other) return source("train", other) end, known)
  if augment_sheet.draw(opt, {
    chain = chain_file and chain.read(chain_file, chain.seen({ shape = { 1, 3 }, dtype = "uint8" }, size, size * 7 // 8)), masks = true,
    open = function(other, more) return source("train", other, more) end,
    add = function(other, image, mask, one)
      local own = chain.read(chain_file, chain.seen(one.image, size, size * 7 // 8))
      return own:add(other, image, mask, { always = true }, twos.chained(opt, one))
    end,
  }) then return end
  local data, val = source "train", source "val"
  if opt.epochs > 0 then steps = opt.epochs * math.max(1, data.length // (batch * opt.shards)) end -- a last short one is left out
  model.class_names = data.class_names ~= "" and words.lines(data.class_names) or nil
  twos.plan(opt, model, data, opt.train_encoder, not known and not opt.train_encoder and opt.encoder == "" and "the shipped encoder" or nil)
  local image, mask = twos.images(data, model), data.mask
  local steps_of = chain_file and chain.read(chain_file, chain.seen(data.image, size, size * 7 // 8)) or nil
  if steps_of then
    if place == "gpu" and g:device() == "cpu" then
      sp.fail(("--augment %s: the training runs on the cpu; take --device cuda, or leave gpu: out"):format(opt.augment))
    end
    image, mask = steps_of:add(g, image, mask, { on_cpu = place == "cpu" and g:device() ~= "cpu" or nil }, twos.chained(opt, data))
    steps_of:keeps(data.image, model.fusion and image[1] or image)
  end
  local logits = (known and behind_backbone or small_unet)(g, image, model, data.classes)
  local loss = loss_of(g, logits, mask)
  g.confusion { logits, mask, ignore_index = 255 }
  measure.add(g, opt, { kind = "mask", logits = logits, targets = mask, classes = data.classes, ignore_index = 255 })

  -- From some initial weights hundreds of steps pass before shapes are told apart; a long warm-up and a short memory of
  -- squared gradients shorten that.
  g:train {
    loss, optimizer = g.adamw { lr = lr, betas = { 0.9, 0.99 }, weight_decay = 1e-2, ema = opt.ema },
    lr = rates[opt.rate](),
  }
  local every = dense.every(opt, steps)
  opt.eval_every, opt.samples, opt.steps = every, samples, steps
  if every < steps then g:evaluate { data = val, every = every } end

  local function shown(other, file)
    local one = source("val", other)
    return {
      data = one, image = one.image, second = model.fusion and one.second, mask = one.mask,
      logits = predict.segment(other, twos.images(one, model), model, file),
    }
  end
  local run <close> = sp.run {
    graph = g, opt = opt, steps = steps, epochs = opt.epochs, classes = data.class_names,
    settings = { model = model, augmentation = steps_of and steps_of:settings() },
    samples = shown,
  }
  for step, m in g:steps(run:rest()) do run:step(step, m) end
  run:finish(run:verdict(run:evaluate(val)))
end

local g <close> = sp.graph(opt)
train(g)
