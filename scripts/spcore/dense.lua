-- SPDX-License-Identifier: MIT
-- What train_seg.lua and train_map.lua share: options and checks of a network that says something of each pixel.
local args = require "spcore.args"
local augment_sheet = require "spcore.augment_sheet"
local backbone = require "spcore.backbone"
local chain = require "spcore.chain"

local dense = {}

dense.options = {
  batch = { 8, "images a step", min = 1, max = 65536, sets = "reader.batch" },
  epochs = { 0, "how often all training images are seen", default = "so often as --steps says", min = 1, max = 1000000,
    instead_of = "steps" },
  ema = { 0.0, "decay of moving averages of the weights, such as 0.999: they are evaluated and saved", min = 0.0, max = 0.999999,
    default = "none" },
  width = { 8, "channels of the first layer", min = 1, max = 1024 },
  levels = { 3, "times that the encoder halves the image", min = 1, max = 8 },
  grey = { false, "images have one channel, their brightness" },
  model = { "unet", "the head behind --backbone", choices = { "unet", "fpn", "deeplabv3", "fcn" } },
  output_stride = {
    0, "the image is so many times larger than the backbone's last map", default = "8 for deeplabv3 and fcn behind a ResNet",
    min = 1, max = 32,
  },
  eval_every = { 0, "validate each so many steps", default = "four times; with --epochs after each", min = 1 },
  pictures = { 4, "samples of the validation that report and TensorBoard show; 0: none", min = 0, max = 8 },
}

-- place, file of --augment; none: what is said where it names no file.
function dense.augmentation(opt, none)
  local place, file = chain.option(opt.augment)
  if not file and place ~= "none" then
    args.usage("--augment %s: %s; name a chain, such as --augment chains/seg.lua", opt.augment, none)
  end
  augment_sheet.check(opt, file, "such as --augment chains/seg.lua")
  return place, file
end

function dense.check_stride(opt)
  if backbone.pyramids[opt.model] and opt.output_stride ~= 0 then
    args.usage "--output-stride: is for --model deeplabv3 and fcn; a U-Net and an FPN need maps of all sizes"
  end
end

-- The small U-Net halves a side so many times.
function dense.check_size(opt, size)
  local halved = 1 << opt.levels
  if size % halved == 0 then return end
  args.usage("--size %d: the encoder halves an image %d times, so that a multiple of %d is wanted (--size %d)", size, opt.levels, halved,
    math.max(halved, size // halved * halved))
end

-- Steps between validations.
function dense.every(opt, steps)
  if opt.eval_every > 0 then return opt.eval_every end
  return opt.epochs > 0 and steps // opt.epochs or math.max(1, (steps + 3) // 4)
end

return dense
