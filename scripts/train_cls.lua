-- SPDX-License-Identifier: MIT
-- Trains a classifier, a small one or a known backbone, behind heavy augmentation, which runs on the processor or where the
-- training runs.
local sp = require "spcore"
local backbone = require "spcore.backbone"
local class_weights = require "spcore.class_weights"
local measure = require "spcore.measure"
local mixing = require "spcore.mixing"
local targets = require "spcore.targets"
local train_options = require "spcore.train_options"
local trainer = require "spcore.trainer"

local opt = train_options.args({
  data = {
    "auto", "folder with a subfolder of images for each class, or train/ and val/ of such; .csv; .tar; .npy; shapes, random",
    default = "shapes", value = "DIR|FILE|NAME",
  },
  target = { "auto", "what is known of an image: one class, several labels, or numbers (.csv); auto: see for yourself",
    choices = targets.choices, sets = "reader.target" },
  standardize = { true, "with numbers: each column is learned less its mean, by its deviation; --no-standardize: as it is" },
  val = { "", "folder with the images for validation", default = "part of --data", value = "DIR", sets = "reader.val_path" },
  batch = { 32, "images a step", min = 1, max = 65535, sets = "reader.batch" },
  steps = { -1, "optimizer steps", default = "1000", min = 1 },
  samples = { 0, "images of the data", default = "all of a folder, 8192 of a built-in set", min = 1 },
  class_weights = class_weights.option,
  label_smoothing = { 0.0, "part of a label that goes to all classes", min = 0.0, max = 0.999 },
  mixup = mixing.options.mixup,
  cutmix = mixing.options.cutmix,
  encoder = { "", "weights that the encoder begins with", value = "FILE" },
  cache = backbone.options.cache,
  probe = { false, "with --backbone: only the linear layer behind it is trained" },
  augment = {
    "auto", "where images are augmented: auto, where the training runs, cpu, gpu, none: nowhere; or FILE.lua, a chain of what is "
      .. "done to them, or cpu:FILE.lua", default = "auto, with chains/cls.lua", value = "auto|cpu|gpu|none|FILE.lua",
  },
}, { doc = "Trains a classifier behind augmentation.", size = 224, moved = { reference = "reference_cls.lua" } })

if opt.cache ~= "off" and opt.backbone ~= "" and not (opt.probe and opt.augment == "none" and opt.mixup + opt.cutmix == 0) then
  sp.usage("--cache %s: goes with --probe and --augment none, without --mixup and --cutmix, since else an image is another in each epoch", opt.cache)
end

local t <close> = trainer.new(opt, {
  target = "class", size = 224, steps = 1000, frozen = opt.probe, instead = "train it as well, without --probe",
  only = { probe = false, cache = "off" }, chain = "chains/cls.lua",
  siamese = "take a frozen one, --backbone NAME --weights FILE --probe",
})
local model = t.model
opt.target = t.built_in and opt.target == "auto" and "class"
  or targets.of(opt, opt.data, function(other, target) return t:source("train", other, { target = target }) end)
t.target = opt.target
model.target = opt.target ~= "class" and opt.target or nil
local of_classes = model.target and (opt.label_smoothing > 0 and "label-smoothing" or opt.class_weights ~= "none" and "class-weights")
if of_classes then sp.usage("--%s: goes with one class, not with --target %s", of_classes, opt.target) end
if model.target == "numbers" then
  model.numbers = targets.scale(opt, function(other) return t:source("train", other) end)
elseif not opt.standardize then sp.usage "--no-standardize: goes with --target numbers" end

local mixed = mixing.on(opt, opt.target)
if t:shows_augmentation() then return end
local g, data = t.graph, t:data()
local image, label, class = t:augmented(data), data.label, data.label
if mixed then image, label, class = t:mixed(image, data) end
local logits = t:network(image, data.classes)
if not model.target then
  g.accuracy { logits, class, k = math.min(5, data.classes) }
  if data.classes <= 100 then g.confusion { logits, class } end -- a table of all pairs a step
end
measure.add(g, opt, { kind = opt.target, logits = logits, targets = data.label, classes = data.classes })
t:train(targets.loss(g, model, logits, label, {
  label_smoothing = opt.label_smoothing, class_weights = t:class_weights(),
}))
t:run(function(one, seen) return { label = one.label, target = model.target, numbers = model.numbers, logits = seen } end)
