-- SPDX-License-Identifier: MIT
-- Trains a segmentation network, on the CPU too: a small U-Net, whose encoder learns along with data of one's own, or a head behind a
-- known backbone.
local sp = require "spcore"
local backbone = require "spcore.backbone"
local class_weights = require "spcore.class_weights"
local measure = require "spcore.measure"
local numbers = require "spcore.numbers"
local seg_loss = require "spcore.seg_loss"
local train_options = require "spcore.train_options"
local trainer = require "spcore.trainer"

local opt = train_options.args({
  data = {
    "auto", "folder with images/, masks/ and classes.txt, or train/ and val/ of such; VOC; .csv; .tar; .npy; shapes, random",
    default = "shapes", value = "DIR|FILE|NAME",
  },
  val = { "", "folder with the images and masks for validation", default = "part of --data", value = "DIR",
    sets = "reader.val_path" },
  classes = { 0, "classes of a folder without classes.txt", default = "none", min = 1, max = 255, sets = "reader.classes" },
  steps = { -1, "optimizer steps", default = "1000; with --train-encoder 2000", min = 1 },
  samples = { 0, "images of the data", default = "all of a folder, 4096 of a built-in set", min = 1, sets = "reader.samples" },
  loss = seg_loss.options.loss, label_smoothing = seg_loss.options.label_smoothing,
  false_positives = seg_loss.options.false_positives, false_negatives = seg_loss.options.false_negatives,
  class_weights = class_weights.option,
  train_encoder = { false, "train the encoder as well, from scratch or from --weights; --no-train-encoder: it stays as it is",
    default = "with data of one's own and no --backbone, from the shipped weights" },
  encoder = { "", "weights of the encoder", default = "the shipped ones, unless it is trained", value = "FILE" },
  cache = backbone.options.cache,
  augment = {
    "none", "FILE.lua: a chain of what is done to training images and masks, such as the shipped chains/seg.lua; cpu:FILE.lua: on "
      .. "the processor", value = "none|FILE.lua",
  },
}, {
  doc = "Trains a segmentation network: a small U-Net, or a head behind a known backbone.", masks = true, size = 256,
  moved = { reference = "reference_seg.lua" },
})

seg_loss.check(opt)
if opt.cache ~= "off" and opt.train_encoder then
  sp.usage("--cache %s: goes with a frozen encoder, not with --train-encoder", opt.cache)
end

local asked = opt.train_encoder
opt.train_encoder = train_options.trains_encoder(opt)

-- The shipped encoder reads colours, by 8 channels and 3 levels.
local shipped = opt.backbone == "" and not opt.train_encoder and opt.encoder == "" and opt.from == ""
local other = opt.grey and "--grey" or opt.channels == 1 and "--channels 1" or numbers.is_on(opt) and "--dtype and --channels"
if shipped and other then sp.usage("%s: the shipped encoder reads colours; train one (--train-encoder)", other) end
for _, one in ipairs(shipped and { { "width", 8 }, { "levels", 3 } } or {}) do
  if opt[one[1]] ~= one[2] then
    sp.usage("--%s %d: the shipped encoder has %d; train one (--train-encoder), or give the file of one that has (--encoder FILE)",
      one[1], opt[one[1]], one[2])
  end
end

local t <close> = trainer.new(opt, {
  target = "mask", masks = true, size = 256, steps = opt.train_encoder and 2000 or 1000, frozen = not opt.train_encoder,
  instead = "train it as well, --train-encoder", no_chain = "a segmentation has no augmentation of its own",
  encoder = shipped and trainer.shipped_encoder() or nil,
  begins = opt.train_encoder and not asked and opt.encoder == "" and opt.from == "" and not other and opt.width == 8 and opt.levels == 3,
  sees_one = shipped and "the shipped encoder" or nil,
})
if t:shows_augmentation() then return end
local g, data = t.graph, t:data()
local image, mask = t:augmented(data)
local logits = t:network(image, data.classes)
local loss = seg_loss.of(g, opt, logits, mask, t:class_weights())
g.confusion { logits, mask, ignore_index = 255 }
measure.add(g, opt, { kind = "mask", logits = logits, targets = mask, classes = data.classes, ignore_index = 255 })
t:train(loss)
t:run(function(one, seen) return { mask = one.mask, logits = seen } end)
