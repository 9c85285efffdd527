-- SPDX-License-Identifier: MIT
-- What training scripts share: data, augmentation, network, optimizer and run, each a call of the script in this order. A script says
-- what its data are for, and adds its loss and metrics.
local args = require "spcore.args"
local augment_sheet = require "spcore.augment_sheet"
local backbone = require "spcore.backbone"
local chain = require "spcore.chain"
local chain_options = require "spcore.chain_options"
local class_weights = require "spcore.class_weights"
local core = require "spcore.core"
local data_defaults = require "spcore.data_defaults"
local from = require "spcore.from"
local first_weights = (require "spcore.checkpoint").first_weights
local graph = require "spcore.graph"
local mixing = require "spcore.mixing"
local new_run = require "spcore.run"
local numbers = require "spcore.numbers"
local optimizers = require "spcore.optimizers"
local predict = require "spcore.predict"
local progress = require "spcore.progress"
local rates = require "spcore.rates"
local sides = require "spcore.sides"
local small = require "spcore.small"
local targets = require "spcore.targets"
local train_options = require "spcore.train_options"
local twos = require "spcore.twos"
local words = require "spcore.words"

local trainer = {}
trainer.__index = trainer

-- The chain of a run whose images are such, or bytes of RGB; nil: there is none.
local function chain_of(self, image)
  local opt, masks = self.opt, self.t.masks
  if self.place == "none" then return end
  -- Behind a backbone a classifier sees the middle that its weights want of each image, which augmentation moves about; the small one
  -- sees 7/8 of an image that may be squashed.
  local whole, crop = opt.size, sides.map(opt.size, function(side) return side * 7 // 8 end)
  if self.known and not masks then whole, crop = backbone.reading(self.known, opt.size, true).size, opt.size end
  local seen = chain.seen(image or { shape = { 1, 3 }, dtype = "uint8" }, opt.size, crop)
  seen.whole = sides.pair(whole)
  local steps = chain_options.over(opt, self.file and chain.read(self.file, seen) or nil, seen, masks)
  return (steps.file or steps.steps[1]) and steps or nil
end

-- How images get the size of the network, as --resize says. crops: that is the middle unless it says otherwise
local function fit(model, resize, crops)
  if resize == "auto" or resize == "crop" and crops then return end
  local read = model.read or {}
  if read.shorter then read.size, read.shorter = nil, nil end
  read.resize = resize ~= "squash" and resize or nil
  model.read = next(read) and read or nil
end

-- new(opt, t): t as of train_options.check, and target = of the reader; encoder = the file of its weights where the command line has
-- none; begins = a trained encoder begins with the shipped one, where images are such; sees_one = an encoder that reads one image, in
-- words; siamese = how it gets frozen, in words, where leaving --train-encoder out does not do it
function trainer.new(opt, t)
  local known, place, file = train_options.check(opt, t)
  local self = setmetatable({ opt = opt, t = t, known = known, place = place, file = file }, trainer)
  local steps = chain_of(self)
  augment_sheet.check(opt, steps, "such as --augment " .. (t.no_chain and "chains/seg.lua" or "chains/cls.lua"))
  local cropped = not t.masks and steps and steps:window() or nil
  self.chain = steps
  self.model = { target = t.target == "map" and "map" or nil, size = opt.size, crop = cropped }
  if known then self.model.read = t.masks and backbone.reading_all(known) or backbone.reading(known, opt.size, cropped) end
  fit(self.model, opt.resize, known and not t.masks)
  self.target, self.built_in = t.target, opt.data == "shapes" or opt.data == "random"
  local usual = self.built_in and data_defaults.samples[t.target] or 0
  self.samples = rawget(opt, "samples") and (opt.samples == 0 and usual or opt.samples) or nil
  self.graph = graph(opt)
  return self
end

function trainer:__close() self.graph:close() end

-- ---- data ----

-- A reader of the training part or of what validates; in another graph of one sample a step, unless `more` says otherwise.
function trainer:source(split, other, more)
  local opt, scale = self.opt, self.model.numbers or {}
  local t = predict.reading(self.model, {
    path = opt.data, target = self.target ~= "mask" and self.target or nil, mean = scale.mean, std = scale.std, split = split,
    batch = other and 1 or opt.batch,
    samples = self.samples, classes = rawget(opt, "classes"), default_val_fraction = data_defaults.val_fraction, val_path = opt.val,
    drop_last = split == "train", shuffle = split == "train",
  })
  if split == "train" and not other and opt.sampler ~= "each" then
    if self.built_in and not opt.sampler:find "^file:" then
      args.usage("--sampler: %s is made up, and has all classes as often; leave it out", opt.data)
    end
    t.sampling, t.draws, t.replacement = opt.sampler, opt.draws > 0 and opt.draws or nil, opt.replacement
  end
  for k, v in next, more or {} do t[k] = v end
  return (other or self.graph).reader(t)
end

-- How the chain is added. A class is that of the mirrored scene, too; a distance is not.
local function chained(self, data)
  local how = twos.chained(self.opt, data)
  how.stereo = how.stereo and (self.t.masks or self.target == "numbers")
  return how
end

-- Windows at the size of the network.
local function resized(self, g, x, on_cpu)
  local size = self.opt.size
  return twos.floats(x, function(one)
    local fits = sides.same({ one.shape[3], one.shape[4] }, size)
    return fits and one or g.resize { one, size = size, on_cpu = on_cpu }.images[1]
  end)
end

-- What the numbers of images are, where they are no bytes; then the sheet of --show-augment, where it is asked for -> whether it is
-- drawn, and nothing is trained.
function trainer:shows_augmentation()
  numbers.plan(self.opt, self.model, function(other) return self:source("train", other) end, self.known)
  local masks = self.t.target == "mask"
  local drawn = augment_sheet.draw(self.opt, {
    chain = self.chain, masks = masks, classes = self.target == "class",
    open = function(other, more) return self:source("train", other, more) end,
    add = function(other, image, mask, one)
      local x, y, drew = chain_of(self, one.image):add(other, image, mask, { always = true }, chained(self, one))
      if not self.t.masks then x = resized(self, other, x) end
      return x, y, drew
    end,
  })
  if drawn and ((rawget(self.opt, "mixup") or 0) > 0 or (rawget(self.opt, "cutmix") or 0) > 0) then progress.print("%s", mixing.sheet) end
  return drawn
end

-- The reader of the training part; that of what validates is self.val.
function trainer:data()
  local opt, model, t = self.opt, self.model, self.t
  local data = self:source "train"
  self.train_data, self.val = data, self:source "val"
  local an_epoch = opt.draws > 0 and opt.draws or opt.replacement and data.length or data.drawable
  if opt.epochs > 0 then opt.steps = opt.epochs * math.max(1, an_epoch // (opt.batch * opt.shards)) end -- a last short one is left out
  model.class_names = t.target ~= "map" and data.class_names ~= "" and words.lines(data.class_names) or nil
  twos.plan(opt, model, data, not t.frozen, t.sees_one, t.siamese)
  return data
end

-- Images of the training as the network sees them, and masks. Bytes until the end, so that little is moved. Validation takes the middle
-- of each image where the chain begins with a window, and leaves the rest as it is.
function trainer:augmented(data)
  local g, t = self.graph, self.t
  local image, mask = twos.images(data, self.model), t.masks and data.mask or nil
  local gpu = g:device() ~= "cpu"
  if self.place == "gpu" and not gpu then
    core.fail(("--augment %s: the training runs on the cpu; take --device cuda, or leave %s out"):format(self.opt.augment,
      t.masks and "gpu:" or "--augment"))
  end
  self.on_cpu = self.place == "cpu" and gpu or nil
  if self.chain then
    self.chain = chain_of(self, data.image)
    image, mask = self.chain:add(g, image, mask, { on_cpu = self.on_cpu }, chained(self, data))
    if t.masks then self.chain:keeps(data.image, self.model.fusion and image[1] or image) end
  end
  return t.masks and image or resized(self, g, image, self.on_cpu), mask
end

-- Images of the training mixed with each other, their labels, and the class that counts most of each; validation takes images as they are.
function trainer:mixed(image, data)
  progress.print("%s", mixing.words)
  return mixing.add(self.graph, self.opt, image, data.label, math.tointeger(data.classes), self.on_cpu)
end

-- ---- the network ----

function trainer.shipped_encoder() return core.env().script_dir .. "/shapes_encoder.safetensors" end

-- Which weights the encoder begins with, in a line.
local function say_weights(self, file)
  local opt, t = self.opt, self.t
  if opt.resume ~= "" or core.env().schedule then return end
  local of = opt.from ~= "" and ("all weights are those of %s"):format(opt.from) or file == "" and "random weights"
    or file == trainer.shipped_encoder() and "the shipped weights, made for drawn shapes" or "the weights of " .. file
  progress.print("encoder %s, %s%s", t.frozen and "frozen" or "trained", of, t.begins and file ~= "" and "; --no-train-encoder freezes it" or "")
end

-- Images to scores of `classes`, by the small network or a head behind the backbone; settings.json says of the model what it is.
function trainer:network(image, classes)
  local opt, model, t, g = self.opt, self.model, self.t, self.graph
  local file = self.known and opt.weights or rawget(opt, "encoder") or ""
  if file == "" then file = t.encoder or "" end
  if t.begins and not model.fusion and self.train_data.image.shape[2] == 3 then
    opt.encoder = trainer.shipped_encoder() -- which settings.json tells, so that a run that goes on from its beginning has it
    file = opt.encoder
  end
  say_weights(self, file)
  local encoder = { frozen = t.frozen, weights = first_weights(opt, file), cache = rawget(opt, "cache"),
    statistics = opt.keep_statistics and "keep" or nil }
  if not t.masks or self.known then model.classes = classes end
  if not self.known then
    return (t.masks and small.segment or small.classify)(g, image, opt, model, classes, encoder, self.on_cpu)
  end
  model.backbone, model.head = self.known, t.masks and opt.model or nil
  return (t.masks and backbone.segment or backbone.classify)(g, image, model, { encoder = encoder, head = {}, dropout = opt.dropout })
end

-- ---- training ----

local function rate_of(opt)
  local lr, steps = opt.lr, opt.steps
  if opt.rate == "step" then return rates.step_rate { lr = lr, every = (steps + 2) // 3 } end
  if opt.rate == "one_cycle" then return rates.one_cycle { lr = lr, steps = steps } end
  return rates.cosine { lr = lr, steps = steps, warm_up = steps // 5 }
end

local function groups_of(opt)
  local groups = {}
  if opt.encoder_lr ~= 1 then groups[1] = { "encoder.*", lr = opt.encoder_lr } end
  local all = tonumber(opt.unfreeze) -- what --freeze names is trained later
  if all or opt.freeze == "" then return #groups > 0 and groups or nil end
  if not opt.freeze:find "[%.%*]" then groups[#groups + 1] = { up_to = opt.freeze, frozen = true }
  else
    local names = { frozen = true }
    for name in opt.freeze:gmatch "[^,%s]+" do names[#names + 1] = name end
    groups[#groups + 1] = names
  end
  return groups
end

local function optimizer_of(g, opt)
  local how = optimizers.params(opt)
  how.lr, how.weight_decay, how.ema, how.clip_norm = opt.lr, opt.weight_decay, opt.ema, opt.clip_norm > 0 and opt.clip_norm or nil
  how.groups, how.no_decay = groups_of(opt), opt.no_decay and "norm_bias" or nil
  how.unfreeze = train_options.late(opt)
  how.layer_decay = opt.layer_decay ~= 1 and opt.layer_decay or nil
  return g:stage(opt.optimizer, how)
end

-- What a label of each class counts, or nil.
function trainer:class_weights()
  return class_weights.of(self.opt, self.train_data, function(other, more) return self:source("train", other, more) end)
end

function trainer:train(loss)
  local opt, g = self.opt, self.graph
  g:train { loss, optimizer = optimizer_of(g, opt), lr = rate_of(opt) }
  opt.eval_every = train_options.every(opt)
  if self.samples then opt.samples = self.samples end
  if opt.eval_every < opt.steps then g:evaluate { data = self.val, every = opt.eval_every } end
end

-- Runs the steps and the last validation. shown(one, logits) -> more of what samples show of the reader `one`, see samples.lua; said: a
-- function of the last validation, before the verdict, or nil
function trainer:run(shown, said)
  local opt, model, g = self.opt, self.model, self.graph
  from.load(g, opt, model)
  local run <close> = new_run {
    graph = g, opt = opt, steps = opt.steps, epochs = opt.epochs, classes = model.class_names,
    settings = { model = model, augmentation = self.chain and self.chain:settings() },
    samples = function(other, file)
      local one = self:source("val", other)
      local seen = predict[self.t.masks and "segment" or "classify"](other, twos.images(one, model), model, file)
      local how = shown(one, seen)
      how.data, how.image, how.second = one, one.image, model.fusion and one.second
      return how
    end,
  }
  for step, m in g:steps(run:rest()) do run:step(step, m) end
  local eval = run:evaluate(self.val)
  if eval and said then said(eval) end
  run:finish(targets.verdict(model, eval) or run:verdict(eval))
end

return trainer
