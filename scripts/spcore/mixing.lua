-- SPDX-License-Identifier: MIT
-- --mixup and --cutmix of train_cls.lua: images of a training batch mixed with each other, labels along.
local args = require "spcore.args"
local core = require "spcore.core"

local mixing = { options = {
  mixup = { 0.0, "mixes images of a batch, and their labels, by shares of Beta(X, X), such as 0.2; with --cutmix too each batch gets one of both",
    default = "off", min = 0.0, max = 1000.0, value = "ALPHA" },
  cutmix = { 0.0, "pastes a rectangle of another image of the batch, whose rest is of Beta(X, X), such as 1; labels go by area",
    default = "off", min = 0.0, max = 1000.0, value = "ALPHA" },
} }

-- What is said of a training with mixed images.
mixing.words = "its images are mixed: the accuracy of a training step counts the class of the larger share; that of a validation is as ever"

mixing.sheet = "the sheet shows images before they are mixed, as each picture is of one sample"

local function name_of(opt) return opt.mixup > 0 and "mixup" or opt.cutmix > 0 and "cutmix" or nil end

-- Whether images are mixed. Ends where that cannot be meant. target: class, labels or numbers
function mixing.on(opt, target)
  local name = name_of(opt)
  for _, one in ipairs { "mixup", "cutmix" } do
    if opt[one] > 0 and opt[one] < 0.01 then args.usage("--%s %g: 0, or 0.01 and more is expected", one, opt[one]) end
  end
  if not name then return false end
  if target == "numbers" then args.usage("--%s: goes with classes and labels, not with --target numbers", name) end
  if opt.batch == 1 then args.usage("--%s: mixes the images of a batch, and --batch 1 has one", name) end
  return true
end

-- add(g, opt, image, label, classes, on_cpu) -> image, labels N x C of float32, the class of the larger share. image: or a list of two
function mixing.add(g, opt, image, label, classes, on_cpu)
  local images = core.kind(image) and { image } or image
  local how = { images = images, labels = label, classes = label.dtype ~= "float32" and classes or nil, same_on_batch = true, on_cpu = on_cpu }
  local stage = "mixup_or_cutmix"
  if opt.cutmix == 0 then stage, how.alpha = "mixup", opt.mixup
  elseif opt.mixup == 0 then stage, how.alpha = "cutmix", opt.cutmix
  else how.mixup_alpha, how.cutmix_alpha = opt.mixup, opt.cutmix end
  local made = g:stage(stage, how)
  return images == image and made.images or made.images[1], made.labels, made.main
end

return mixing
