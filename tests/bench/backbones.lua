-- SPDX-License-Identifier: MIT
-- One of the workloads of backbones.py: a frozen backbone with random weights, and a head that is trained. Prints steps/s.
local sp = require "spcore"
local opt = sp.args {
  head = { "probe", "what is trained", choices = { "probe", "unet", "deeplabv3", "fcn" } },
  backbone = { "resnet50", "what is frozen" }, output_stride = { 32, "of the backbone" },
  cache = { "off", "where the backbone's maps are kept", choices = { "off", "device", "host" } },
  encoder_precision = { "", "of the backbone", default = "that of the run" },
  size = { 256, "pixels of a side" }, batch = { 8, "images a step" }, classes = { 21, "classes" },
  steps = { 200, "timed steps" }, warm_up = { 50, "steps before" },
}
local g <close> = sp.graph(opt)
local probe = opt.head == "probe"
local data = g.reader {
  path = "random", target = probe and "class" or "mask", classes = opt.classes, samples = 512, size = opt.size, batch = opt.batch,
}
local list = sp.models.get(opt.backbone, { output_stride = opt.output_stride ~= 32 and opt.output_stride or nil })
local x = g.normalize { data.image, scale = true, mean = list.preprocess.mean, std = list.preprocess.std }.images
local own = opt.encoder_precision ~= "" and opt.encoder_precision or nil
local enc = g.encoder { x, layers = probe and sp.models.pooled(list) or list, frozen = true, precision = own, cache = opt.cache }
local logits
if probe then
  logits = g.classifier { enc.features, layers = sp.models.probe { classes = opt.classes, pooled = true }, classes = opt.classes }.logits
else
  local skips = opt.head == "unet" and { table.unpack(enc.maps, 1, #list.taps - 1) } or nil
  local layers = sp.models[opt.head] { classes = opt.classes, size = opt.size }
  logits = g.decoder { enc.features, skips = skips, layers = layers, classes = opt.classes }.logits
end
g:train {
  g.cross_entropy { logits, probe and data.label or data.mask },
  optimizer = probe and g.sgd { lr = 1e-3 } or g.adamw { lr = 1e-3 },
}
local began, ended
for step, m in g:steps(opt.warm_up + opt.steps) do
  if step == opt.warm_up - 1 then began = m.time end
  ended = m.time
end
print(("%.2f steps/s"):format(opt.steps / (ended - began)))
