-- SPDX-License-Identifier: MIT
-- The options that training scripts share, and what cannot be meant by them.
local args = require "spcore.args"
local augment_sheet = require "spcore.augment_sheet"
local backbone = require "spcore.backbone"
local chain = require "spcore.chain"
local chain_options = require "spcore.chain_options"
local core = require "spcore.core"
local from = require "spcore.from"
local measure = require "spcore.measure"
local numbers = require "spcore.numbers"
local optimizers = require "spcore.optimizers"
local ranks = require "spcore.ranks"
local sides = require "spcore.sides"
local twos = require "spcore.twos"

local train_options = {}

local shared = {
  batch = { 8, "images a step", min = 1, max = 65536, sets = "reader.batch" },
  epochs = { 0, "how often all training images are seen", default = "so often as --steps says", min = 1, max = 1000000,
    instead_of = "steps" },
  sampler = { "each", "each: all samples once an epoch; else they are drawn, balanced: each class as often; X,...: as a number for each class says; "
    .. "column:NAME: as a column of the .csv file says; file:PATH: as a file with a number a line says",
    value = "each|balanced|X,...|column:NAME|file:PATH", sets = "reader.sampling" },
  draws = { 0, "samples an epoch, with --sampler", default = "as many as there are; with --no-replacement as can be drawn", min = 1,
    sets = "reader.draws" },
  replacement = { true, "with --sampler: samples may be drawn twice in an epoch; --no-replacement: none is" },
  optimizer = { "adamw", "what updates weights", choices = optimizers.names },
  lr = { -1.0, "highest learning rate", default = optimizers.rates_in_words(), min = 0.0 },
  momentum = { 0.9, "of --optimizer sgd: part of the former update that is kept", min = 0.0, max = 0.999999 },
  weight_decay = { -1.0, "how weights shrink: by this times the rate, of sgd as part of the gradient", default = optimizers.decays_in_words(),
    min = 0.0, max = 1000000 },
  no_decay = { false, "biases and what normalisation multiplies by do not shrink" },
  encoder_lr = { 1.0, "a trained encoder's learning rate is so many times that of the rest", min = 0.0, max = 1000000 },
  layer_decay = { 1.0, "each block of a trained --backbone has so many times the rate of the next one, the last one so many times that of the rest",
    min = 0.0001, max = 1.0 },
  freeze = { "", "what of a trained encoder stays as it is: with --backbone the blocks up to this one, such as layer2, or names of weights, such "
    .. "as encoder.conv1.*,*.bias", default = "nothing", value = "BLOCK|NAMES" },
  unfreeze = { "", "epochs after which what --freeze names is trained, too, without it the whole encoder; or parts, each with its epochs, such as "
    .. "layer4@2,layer3@4", default = "never", value = "EPOCHS|PART@EPOCHS,..." },
  keep_statistics = { false, "running statistics of a trained encoder's batch norms stay as they are, and steps use them" },
  clip_norm = { 0.0, "gradients are scaled down to this norm over all of them", default = "never", min = 0.0 },
  dropout = { 0.0, "part of the encoder's last maps that training drops", min = 0.0, max = 0.999 },
  ema = { 0.0, "decay of moving averages of the weights, such as 0.999: they are evaluated and saved", min = 0.0, max = 0.999999,
    default = "none" },
  rate = {
    "cosine", "learning rates: cosine has a warm-up, step a tenth after each third of the steps",
    choices = { "cosine", "step", "one_cycle" },
  },
  width = { 8, "channels of the first layer", min = 1, max = 1024 },
  levels = { 3, "times that the encoder halves the image", min = 1, max = 8 },
  fusion = twos.option,
  separate_colours = twos.separate,
  resize = {
    "auto", "how images of another shape than --size are fitted: squash changes their shape, crop takes the middle, pad adds a border",
    choices = { "auto", "squash", "crop", "pad" }, default = "squash; of a classifier behind a backbone crop",
  },
  grey = { false, "images have one channel, their brightness" },
  mean = numbers.options.mean,
  std = numbers.options.std,
  backbone = backbone.options.backbone,
  weights = backbone.options.weights,
  from = from.option,
  variant = backbone.options.variant,
  show_augment = augment_sheet.option,
  eval_every = { 0, "validate each so many steps", default = "four times; with --epochs after each", min = 1 },
  metrics = measure.option,
  pictures = { 4, "samples of the validation that report and TensorBoard show; 0: none", min = 0, max = 8 },
}

-- Of networks that say something of each pixel.
local of_pixels = {
  model = { "unet", "the head behind --backbone", choices = { "unet", "fpn", "deeplabv3", "fcn" } },
  output_stride = {
    0, "the image is so many times larger than the backbone's last map", default = "8 for deeplabv3 and fcn behind a ResNet",
    min = 1, max = 32,
  },
}

-- args(own, how) -> the values of a script's own options over the shared ones. how: as of sp.args; masks = images have masks or maps;
-- size = pixels of a side with --backbone
function train_options.args(own, how)
  local options = {
    size = { -1, "pixels of a side, or of height and width", default = "64; with --backbone " .. how.size, min = 1, max = 4096, value = "N|HxW",
      sides = true },
  }
  local augmentation = chain_options.options()
  for _, list in ipairs { augmentation, shared, how.masks and of_pixels or {}, own } do
    for name, option in pairs(list) do options[name] = option end
  end
  local opt = args.parse(options, { doc = how.doc, moved = how.moved, without = { "by_hand" }, checkpoints = true })
  from.adopt(opt)
  return opt
end

-- The small encoder halves a side so many times.
local function check_size(opt)
  local halved = 1 << opt.levels
  local fits = sides.map(opt.size, function(side) return math.max(halved, side // halved * halved) end)
  if sides.same(fits, opt.size) then return end
  args.usage("--size %s: the encoder halves an image %d times, so that a multiple of %d is wanted (--size %s)", sides.text(opt.size), opt.levels,
    halved, sides.text(fits))
end

-- Where images are augmented; the file of the chain that options change, or nil. usual: that of the script; none: what is said where
-- it has none and --augment names no file.
local function augmentation(opt, usual, none)
  local place, file = chain.option(opt.augment)
  local options = chain_options.of(opt)
  if file and options[1] then args.usage("--%s: %s has its own stages; leave it out", options[1], file) end
  if opt.kernel > 0 and opt.blur == "" then args.usage "--kernel: goes with --blur X" end
  if none and not file and place ~= "none" and not options[1] then
    args.usage("--augment %s: %s; name a chain, such as --augment chains/seg.lua", opt.augment, none)
  end
  if place ~= "none" then file = file or usual end
  if options[1] and place == "none" then place = "auto" end
  return place, file
end

local function warn_of_rate(opt)
  local lo, hi = optimizers.usual(opt.optimizer)
  if opt.lr == 0 or opt.lr >= lo and opt.lr <= hi or opt.resume ~= "" or not ranks.first then return end
  core.log("warn", ("--lr %g: rates of %s are from %g to %g as a rule; leave it out for the usual one"):format(opt.lr, opt.optimizer, lo, hi))
end

-- --unfreeze -> the groups of `unfreeze`, the first moment first, or nil. Parts are blocks or names of weights, of the encoder unless
-- they name another stage.
function train_options.late(opt)
  if opt.unfreeze == "" then return nil end
  local all, list = tonumber(opt.unfreeze), {}
  local function add(group, epochs, text)
    if not epochs or epochs <= 0 then
      args.usage("--unfreeze %s: '%s' is no part and epochs; --unfreeze 3, or --unfreeze layer4@2,layer3@4", opt.unfreeze, text)
    end
    group.at, group.epochs = ("epoch %s"):format(text:match "[^@]*$"), epochs
    list[#list + 1] = group
  end
  if all then
    local blocks = opt.freeze ~= "" and not opt.freeze:find "[%.%*]"
    local group = blocks and { up_to = opt.freeze } or {}
    for name in (opt.freeze == "" and "encoder" or blocks and "" or opt.freeze):gmatch "[^,%s]+" do group[#group + 1] = name end
    add(group, all, opt.unfreeze)
  end
  for text in (all and "" or opt.unfreeze):gmatch "[^,]+" do
    local name, epochs = text:match "^%s*([^@%s]+)@([%d.]+)%s*$"
    add({ name and (name:find "^encoder" and name or "encoder." .. name) }, tonumber(epochs), text:match "^%s*(.-)%s*$")
  end
  if #list == 0 then args.usage("--unfreeze %s: it names nothing; --unfreeze 3, or --unfreeze layer4@2,layer3@4", opt.unfreeze) end
  table.sort(list, function(a, b) return a.epochs < b.epochs end)
  for _, group in ipairs(list) do group.epochs = nil end
  return list
end

-- What concerns a trained encoder alone.
local function check_groups(opt, frozen)
  local known = opt.backbone ~= ""
  train_options.late(opt)
  for name, usual in pairs { encoder_lr = 1.0, layer_decay = 1.0, freeze = "", unfreeze = "", keep_statistics = false } do
    if opt[name] ~= usual and frozen then
      args.usage("--%s: the encoder is frozen as a whole; %s", name:gsub("_", "-"), rawget(opt, "probe") and "leave --probe out"
        or "add --train-encoder")
    end
  end
  if opt.layer_decay ~= 1 and not known then args.usage "--layer-decay: goes with --backbone NAME" end
  if opt.freeze ~= "" and not opt.freeze:find "[%.%*]" and not known then
    args.usage("--freeze %s: blocks are those of --backbone; here names of weights are wanted, such as --freeze 'encoder.levels.0.*'", opt.freeze)
  end
end

-- check(opt, t) -> what --backbone is, or nil; where images are augmented; the file of the chain that options change, or nil. The
-- numbers of the command line that hang on others are filled in, as settings.json tells them. t: { size = with --backbone, steps =,
-- masks =, frozen = the encoder stays as it is, instead = what to do where its weights are missing, only = options that go with
-- --backbone alone, chain = the augmentation where --augment names no file, no_chain = what is said where there is none }
function train_options.check(opt, t)
  local place, file = augmentation(opt, t.chain, t.no_chain)
  if opt.sampler == "" then opt.sampler = "each" end
  if opt.sampler == "each" and (opt.draws > 0 or not opt.replacement) then
    args.usage("--%s: goes with --sampler balanced and others that draw", opt.draws > 0 and "draws" or "no-replacement")
  end
  local only, no = { weights = "", variant = "" }, { width = 8, levels = 3 }
  if t.masks then only.model, only.output_stride = "unet", 0 end
  if rawget(opt, "encoder") then no.encoder = "" end
  for name, value in pairs(t.only or {}) do only[name] = value end
  check_groups(opt, t.frozen)
  backbone.check(opt, { only = only, no = no, frozen = t.frozen, instead = t.instead })
  if t.masks and backbone.pyramids[opt.model] and opt.output_stride ~= 0 then
    args.usage "--output-stride: is for --model deeplabv3 and fcn; a U-Net and an FPN need maps of all sizes"
  end
  local known = opt.backbone ~= "" and backbone.describe(opt, t.masks and opt.model) or nil
  if opt.data == "auto" then opt.data = "shapes" end
  numbers.check(opt)
  opt.size = opt.size ~= -1 and opt.size or known and t.size or 64
  opt.steps = opt.steps > 0 and opt.steps or t.steps
  if opt.optimizer ~= "sgd" and opt.momentum ~= 0.9 then args.usage "--momentum: goes with --optimizer sgd" end
  optimizers.fill(opt, known)
  warn_of_rate(opt)
  if not known then check_size(opt) end
  return known, place, file
end

-- Whether the encoder is trained: as --train-encoder says, and without a word the small one on data of one's own, which the shipped one,
-- made for drawn shapes, has never seen the like of, unless another option wants it frozen.
function train_options.trains_encoder(opt)
  if opt.train_encoder or opt.resume ~= "" then return opt.train_encoder end
  if args.is_given "train_encoder" then return false end
  local built_in = opt.data == "auto" or opt.data == "shapes" or opt.data == "random"
  return not built_in and opt.backbone == "" and opt.cache == "off" and opt.fusion ~= "siamese"
end

-- Steps between validations.
function train_options.every(opt)
  if opt.eval_every > 0 then return opt.eval_every end
  return opt.epochs > 0 and opt.steps // opt.epochs or math.max(1, (opt.steps + 3) // 4)
end

return train_options
