-- SPDX-License-Identifier: MIT
-- Trains a classifier, a small one or a known backbone, behind heavy augmentation, which runs on the processor or where the
-- training runs.
local sp = require "spcore"
local augment_sheet = require "spcore.augment_sheet"
local backbone = require "spcore.backbone"
local chain = require "spcore.chain"
local data_defaults = require "spcore.data_defaults"
local measure = require "spcore.measure"
local numbers = require "spcore.numbers"
local predict = require "spcore.predict"
local first_weights = (require "spcore.checkpoint").first_weights
local targets = require "spcore.targets"
local twos = require "spcore.twos"
local words = require "spcore.words"

local opt = sp.args({
  data = {
    "auto", "folder with a subfolder of images for each class, or train/ and val/ of such; .csv; .tar; .npy; shapes, random",
    default = "shapes", value = "DIR|FILE|NAME",
  },
  target = { "auto", "what is known of an image: one class, several labels, or numbers (.csv); auto: see for yourself",
    choices = targets.choices, sets = "reader.target" },
  standardize = { true, "with numbers: each column is learned less its mean, by its deviation; --no-standardize: as it is" },
  val = { "", "folder with the images for validation", default = "part of --data", value = "DIR", sets = "reader.val_path" },
  size = { -1, "pixels of a side", default = "64; with --backbone 224", min = 1, max = 4096 },
  batch = { 32, "images a step", min = 1, max = 65535, sets = "reader.batch" },
  steps = { -1, "optimizer steps", default = "1000", min = 1 },
  epochs = { 0, "how often all training images are seen", default = "so often as --steps says", min = 1, max = 1000000,
    instead_of = "steps" },
  lr = { -1.0, "highest learning rate", default = "6e-3; with --backbone 1e-3", min = 0.0 },
  dropout = { 0.0, "part of the encoder's last maps that training drops", min = 0.0, max = 0.999 },
  ema = { 0.0, "decay of moving averages of the weights, such as 0.999: they are evaluated and saved", min = 0.0, max = 0.999999,
    default = "none" },
  rate = {
    "cosine", "learning rates: cosine has a warm-up, step a tenth after each third of the steps",
    choices = { "cosine", "step", "one_cycle" },
  },
  label_smoothing = { 0.0, "part of a label that goes to all classes", min = 0.0, max = 0.999 },
  samples = { 0, "images of the data", default = "all of a folder, 8192 of a built-in set", min = 1 },
  width = { 8, "channels of the first layer", min = 1, max = 1024 },
  levels = { 3, "times that the encoder halves the image", min = 1, max = 8 },
  encoder = { "", "weights that the encoder begins with", value = "FILE" },
  fusion = twos.option,
  separate_colours = twos.separate,
  grey = { false, "images have one channel, their brightness" },
  mean = numbers.options.mean,
  std = numbers.options.std,
  backbone = backbone.options.backbone,
  weights = backbone.options.weights,
  variant = backbone.options.variant,
  cache = backbone.options.cache,
  probe = { false, "with --backbone: only the linear layer behind it is trained" },
  augment = {
    "auto", "where images are augmented: auto, where the training runs, cpu, gpu, none: nowhere; or FILE.lua, a chain of what is "
      .. "done to them, or cpu:FILE.lua", default = "auto, with chains/cls.lua", value = "auto|cpu|gpu|none|FILE.lua",
  },
  show_augment = augment_sheet.option,
  eval_every = { 0, "validate each so many steps", default = "four times; with --epochs after each", min = 1 },
  metrics = measure.option,
  pictures = { 4, "samples of the validation that report and TensorBoard show; 0: none", min = 0, max = 8 },
}, { doc = "Trains a classifier behind augmentation.", without = { "by_hand" }, checkpoints = true,
  moved = { reference = "reference_cls.lua" } })

local place, chain_file = chain.option(opt.augment)
augment_sheet.check(opt, place ~= "none", "such as --augment chains/cls.lua")

backbone.check(opt, {
  only = { weights = "", variant = "", probe = false, cache = "off" },
  no = { encoder = "", width = 8, levels = 3 },
  frozen = opt.probe, instead = "train it as well, without --probe",
})
if opt.cache ~= "off" and not (opt.probe and opt.augment == "none") then
  sp.usage("--cache %s: goes with --probe and --augment none, since else an image is another in each epoch", opt.cache)
end
local known = opt.backbone ~= "" and backbone.describe(opt) or nil

if opt.data == "auto" then opt.data = "shapes" end
numbers.check(opt)

-- A value of the command line, where none is below 0, or the usual one.
local function pick(value, usual) return value >= 0 and value or usual end

local size, batch = pick(opt.size, known and 224 or 64), opt.batch
local steps, lr = pick(opt.steps, 1000), pick(opt.lr, known and 1e-3 or 6e-3)
local halved = 1 << opt.levels
if not known and size % halved ~= 0 then
  sp.usage("--size %d: the encoder halves an image %d times, so that a multiple of %d is wanted (--size %d)", size, opt.levels, halved,
    math.max(halved, size // halved * halved))
end
opt.size, opt.steps, opt.lr = size, steps, lr -- what settings.json tells

local rates = {
  cosine = function() return sp.cosine { lr = lr, steps = steps, warm_up = steps // 5 } end,
  step = function() return sp.step_rate { lr = lr, every = (steps + 2) // 3 } end,
  one_cycle = function() return sp.one_cycle { lr = lr, steps = steps } end,
}

-- Whether the stages of the augmentation are told to stay on the processor.
local function on_cpu(g)
  local gpu = g:device() ~= "cpu"
  if place == "gpu" and not gpu then
    sp.fail("--augment gpu: the training runs on the cpu; take --device cuda, or leave --augment out")
  end
  return place == "cpu" and gpu or nil
end

local function resized(g, x, cpu)
  return twos.floats(x, function(one)
    local fits = one.shape[3] == size and one.shape[4] == size
    return fits and one or g.resize { one, size = size, on_cpu = cpu }.images[1]
  end)
end

-- Bytes until the end, so that little is moved. Validation takes the middle of each image, where the chain begins with a window,
-- and leaves the rest as it is.
local function augmented(g, image, steps_of, how)
  local cpu = on_cpu(g)
  local x = image
  if steps_of then x = steps_of:add(g, x, nil, { on_cpu = cpu }, how) end
  return resized(g, x, cpu), cpu
end

-- A class is that of the mirrored scene, too; a distance is not.
local function chained(model, data)
  local how = twos.chained(opt, data)
  how.stereo = how.stereo and model.target == "numbers"
  return how
end

-- Each gives the scores and fills in what settings.json says of the model.
local function small(g, image, model, steps_of, how)
  local x, cpu = augmented(g, image, steps_of, how)
  local floats = twos.floats(x, function(one) return numbers.normalize(g, one, model, { mean = 0.5, std = 0.25 }, cpu) end)
  local features = twos.encode(g, floats, model, function(one)
    return g.encoder { one, model = "unet", width = opt.width, levels = opt.levels, convs = 2, weights = first_weights(opt, opt.encoder) }
  end)
  if opt.dropout > 0 then features = g.dropout { features, p = opt.dropout, maps = true } end
  model.encoder = { model = "unet", width = opt.width, levels = opt.levels, convs = 2 }
  return g.classifier { features, model = "pool", classes = model.classes }.logits
end

local function behind_backbone(g, image, model, steps_of, how)
  model.backbone = known
  return backbone.classify(g, (augmented(g, image, steps_of, how)), model, {
    encoder = { frozen = opt.probe, weights = first_weights(opt, opt.weights), cache = opt.cache }, head = {}, dropout = opt.dropout,
  })
end

local function train(g)
  local built_in = opt.data == "shapes" or opt.data == "random"
  local samples = opt.samples == 0 and built_in and data_defaults.samples.class or opt.samples
  -- Behind a backbone the network sees the middle that its weights want of each image, which augmentation moves about; the small
  -- one sees 7/8 of an image that may be squashed.
  local seen = { size = size, crop = known and size or size * 7 // 8 }
  local steps_of = place ~= "none" and chain.read(chain_file or "chains/cls.lua", seen) or nil
  local cropped = steps_of and steps_of:window()
  local model = {
    size = size, crop = cropped, read = known and backbone.reading(known, size, cropped) or nil,
  }
  local function source(split, other, target, more) -- in the other graph: of one sample a step, unless `more` says otherwise
    local scale = model.numbers or {}
    local t = predict.reading(model, {
      path = opt.data, target = target or model.target or "class", mean = scale.mean, std = scale.std, split = split,
      batch = other and 1 or batch, samples = samples,
      default_val_fraction = data_defaults.val_fraction, val_path = opt.val, drop_last = split == "train", shuffle = split == "train",
    })
    for k, v in next, more or {} do t[k] = v end
    return (other or g).reader(t)
  end
  opt.target = built_in and opt.target == "auto" and "class"
    or targets.of(opt, opt.data, function(other, target) return source("train", other, target) end)
  if opt.target ~= "class" then model.target = opt.target end
  if model.target and opt.label_smoothing > 0 then
    sp.usage("--label-smoothing: goes with one class, not with --target %s", opt.target)
  end
  if model.target == "numbers" then
    model.numbers = targets.scale(opt, function(other) return source("train", other) end)
  elseif not opt.standardize then sp.usage "--no-standardize: goes with --target numbers" end
  numbers.plan(opt, model, function(other) return source("train", other) end, known)
  if augment_sheet.draw(opt, {
    chain = steps_of, classes = opt.target == "class", open = function(other, more) return source("train", other, nil, more) end,
    add = function(other, image, _, one)
      local list = chain.read(chain_file or "chains/cls.lua", chain.seen(one.image, seen.size, seen.crop))
      local x, _, drew = list:add(other, image, nil, { always = true }, chained(model, one))
      return resized(other, x), nil, drew
    end,
  }) then return end
  local data, val = source "train", source "val"
  if steps_of then steps_of = chain.read(chain_file or "chains/cls.lua", chain.seen(data.image, seen.size, seen.crop)) end
  if opt.epochs > 0 then steps = opt.epochs * math.max(1, data.length // (batch * opt.shards)) end -- a last short one is left out
  model.classes, model.class_names = data.classes, data.class_names ~= "" and words.lines(data.class_names) or nil
  twos.plan(opt, model, data, not opt.probe, nil, "take a frozen one, --backbone NAME --weights FILE --probe")
  local logits = (known and behind_backbone or small)(g, twos.images(data, model), model, steps_of, chained(model, data))
  if not model.target then
    g.accuracy { logits, data.label, k = math.min(5, data.classes) }
    if data.classes <= 100 then g.confusion { logits, data.label } end -- a table of all pairs a step
  end
  measure.add(g, opt, { kind = opt.target, logits = logits, targets = data.label, classes = data.classes })
  g:train {
    targets.loss(g, model, logits, data.label, { label_smoothing = opt.label_smoothing }),
    optimizer = g.adamw { lr = lr, betas = { 0.9, 0.99 }, weight_decay = 1e-2, ema = opt.ema },
    lr = rates[opt.rate](),
  }
  local every = opt.eval_every > 0 and opt.eval_every or opt.epochs > 0 and steps // opt.epochs or math.max(1, (steps + 3) // 4)
  opt.eval_every, opt.samples, opt.steps = every, samples, steps
  if every < steps then g:evaluate { data = val, every = every } end

  local function shown(other, file)
    local one = source("val", other)
    return {
      data = one, image = one.image, second = model.fusion and one.second, label = one.label, target = model.target,
      numbers = model.numbers,
      logits = predict.classify(other, twos.images(one, model), model, file),
    }
  end
  local run <close> = sp.run {
    graph = g, opt = opt, steps = steps, epochs = opt.epochs, classes = data.class_names,
    settings = { model = model, augmentation = steps_of and steps_of:settings() }, samples = shown,
  }
  for step, m in g:steps(run:rest()) do run:step(step, m) end
  local eval = run:evaluate(val)
  run:finish(targets.verdict(model, eval) or run:verdict(eval))
end

local g <close> = sp.graph(opt)
train(g)
