-- SPDX-License-Identifier: MIT
-- What train_*.lua and predict_*.lua share of networks with a known backbone (sp.models) and a head behind it. A run's
-- settings.json describes them as model = { backbone = { name =, variant =, output_stride =, mean =, std = }, head =,
-- classes =, size =, crop =, read = } with what reading() gives. Of a network in a file of its own (sp.models.file) `name` is that
-- file and `list` is what was in it, so that a run needs it no more.
local args = require "spcore.args"
local core = require "spcore.core"
local file = require "spcore.models.file"
local json = require "spcore.json"
local known_file = require "spcore.known_file"
local models = require "spcore.models"
local numbers = require "spcore.numbers"
local sides = require "spcore.sides"
local twos = require "spcore.twos"
local words = require "spcore.words"

local backbone = {}

-- The options of a training script.
backbone.options = {
  backbone = {
    "", "a known network as the encoder, such as resnet34, or a converted one, FILE.lua: docs/backbones.md",
    default = "none: a small one", value = "NAME",
  },
  weights = {
    "", "safetensors file with the backbone's weights", default = "of FILE.lua, frozen, FILE.safetensors; else none", value = "FILE",
  },
  cache = {
    "off", "where what the frozen encoder makes of each image is kept, so that it computes it once",
    choices = { "device", "host", "off" },
  },
  variant = { "", "whose weights these are, such as timm_a1: numbers of the network and its images", default = "torchvision_v1",
    value = "NAME" },
}

-- Where weights are, of names that torchvision and timm share.
local function hub(name)
  if not name:find "^resnet" then return "" end
  return ("; curl -LO https://huggingface.co/timm/%s.tv_in1k/resolve/main/model.safetensors gets a file"):format(name)
end

local function is_file(name) return name:find "%.lua$" ~= nil or name:find "/" ~= nil end

-- What is in FILE.lua; of a run that goes on, what was in it.
local function text_of(opt)
  local run = (opt.resume or "") ~= "" and json.read(opt.resume .. "/settings.json")
  local model = type(run) == "table" and type(run.model) == "table" and run.model or {}
  local before = type(model.backbone) == "table" and model.backbone.list
  return type(before) == "string" and before or file.text_of(opt.backbone)
end

-- The list of layers that a description has, and globs of the weights that it leaves out.
local function list_of(about)
  if about.list then return file.headless((file.of_text(about.list, about.name))) end
  return models.get(about.name, { output_stride = about.output_stride, variant = about.variant })
end

-- A converted network: what does not go with it, how its images are prepared, and which weights are taken.
local function check_file(opt, t)
  if opt.variant ~= "" then args.usage("--variant: is for known networks; %s says itself what its images are", opt.backbone) end
  if t.only.output_stride and opt.output_stride ~= 0 then
    args.usage("--output-stride: is for known networks; %s has the one that it was converted with", opt.backbone)
  end
  local _, usual = file.of_text(text_of(opt), opt.backbone)
  local going_on = (opt.resume or "") ~= "" or (rawget(opt, "from") or "") ~= "" -- with weights
  if usual and not going_on then
    core.log("warn", ("%s does not say how its images are prepared; they are as torchvision's: mean 0.485 0.456 0.406, std 0.229 "
      .. "0.224 0.225, 224 of 256 pixels; where that is wrong put preprocess = { ... } into it (docs/convert.md)"):format(opt.backbone))
  end
  local beside = file.weights(opt.backbone)
  if opt.weights == "" and beside and not going_on then
    if t.frozen then opt.weights = beside end
    core.log(t.frozen and "info" or "warn", t.frozen and ("--weights %s, which is beside %s"):format(beside, opt.backbone) or
      ("%s begins with random weights; --weights %s has those that it was converted with"):format(opt.backbone, beside))
  end
end

-- Ends with a line where options do not go together. only: those that go with --backbone alone, no: those that do not, each
-- with its default; frozen: is the backbone to stay as it is? instead: what to do where its weights are missing
function backbone.check(opt, t)
  local small = opt.backbone == ""
  local wrong = small and t.only or t.no
  for _, key in ipairs(words.keys(wrong)) do
    if opt[key] ~= wrong[key] then
      args.usage("--%s: %s", key:gsub("_", "-"), small and "goes with --backbone NAME" or
        "is for the small network; leave it out with --backbone")
    end
  end
  if small then return end
  local variant, of_file = opt.variant ~= "" and opt.variant or nil, is_file(opt.backbone)
  if opt.backbone:find "%.onnx$" or opt.backbone:find "%.py:?[%w_]*$" then
    args.usage("--backbone %s: is converted first, by spcore_convert.py %s -o NAME; then it is --backbone NAME.lua", opt.backbone,
      opt.backbone)
  end
  if of_file then check_file(opt, t)
  else models.get(opt.backbone, { variant = variant }) end -- refuses what is not known
  if opt.weights ~= "" and not of_file and (opt.resume or "") == "" then
    local cure = known_file.cure(opt.weights, opt.backbone, variant)
    if cure then args.usage("--weights %s", cure) end
  end
  if opt.weights == "" and t.frozen and (rawget(opt, "from") or "") == "" then
    args.usage("--backbone %s: frozen, with random weights, it is of no use; give --weights FILE, or %s%s", opt.backbone,
      t.instead, hub(opt.backbone))
  end
end

-- What settings.json says of --backbone. Without an output stride: 8 in front of a head that reads the last map alone, where
-- the network has that option, else the network's own
function backbone.describe(opt, head)
  if is_file(opt.backbone) then
    local text = text_of(opt)
    local want = file.of_text(text, opt.backbone).preprocess
    return { name = opt.backbone, list = text, mean = want.mean, std = want.std }
  end
  local variant = opt.variant ~= "" and opt.variant or nil
  local list, stride = models.get(opt.backbone, { variant = variant }), head and opt.output_stride or 0
  local dilated = list.family == "resnet" and (head == "fcn" or head == "deeplabv3")
  if stride == 0 then stride = dilated and 8 or nil end
  local want = list.preprocess
  return { name = opt.backbone, variant = variant, output_stride = stride, mean = want.mean, std = want.std }
end

-- How images are read as the weights want them, scaled to a network of `size` pixels, as parameters of reader and image_requests:
-- nothing is squashed. crop: what is read is what `size` pixels are cut out of, the middle unless it is augmented
function backbone.reading(known, size, crop)
  local want = list_of(known).preprocess
  local shorter = sides.map(size, function(side) return (side * want.size + want.crop // 2) // want.crop end)
  if type(size) == "table" and not crop then return { size = size, resize = "crop", interpolation = want.interpolation } end
  if crop then return { size = shorter, resize = "crop", interpolation = want.interpolation } end
  return { size = size, shorter = shorter, interpolation = want.interpolation }
end

-- The same of images with masks, all of which is kept.
function backbone.reading_all(known)
  return { interpolation = list_of(known).preprocess.interpolation }
end

-- Which read the maps of all sizes.
backbone.pyramids = { unet = true, fpn = true }

local function with(stage, how)
  local given = how.weights
  if type(given) == "string" and given ~= "" then given = { given, option = "--weights", channels = how.channels } end
  stage.frozen, stage.weights, stage.cache, stage.statistics = how.frozen, given, how.cache, how.statistics
  return stage
end

-- how: { encoder = { frozen =, weights =, cache =, statistics = }, head = { frozen =, weights = }, dropout = of the features or nil }; pooled: what
-- comes is the mean over the last map. Gives features, maps, and the image as the encoder reads it.
local function encode(g, image, model, how, pooled)
  local about = model.backbone
  if type(about.name) ~= "string" then core.fail "settings.json names no backbone" end
  local list, left_out = list_of(about)
  if about.list then
    if not pooled and backbone.pyramids[model.head] then list = file.tapped(list) end
    list.head = left_out
  end
  if pooled then list = models.pooled(list) end
  local images = twos.floats(image, function(one) return numbers.normalize(g, one, model, about) end)
  local features, maps, x = twos.encode(g, images, model, function(one, n)
    how.encoder.channels = n * (core.kind(image) and image or image[1]).shape[2] ~= 3 or nil
    return g.encoder(with({ one, layers = list }, how.encoder))
  end)
  local dropped = (how.dropout or 0) > 0
  return dropped and g.dropout { features, p = how.dropout, maps = true }.y or features, maps, x
end

-- Of the maps of a converted network those of a half to a sixteenth of the image's sides.
local function pyramid_of(about, head, maps, features, image)
  local skips, side = {}, image[1].shape[3]
  for i = 1, #maps do
    for level = 1, 4 do
      if maps[i].shape[3] << level == side then skips[level] = maps[i] end
    end
  end
  for level = 1, 4 do
    if not skips[level] then
      core.fail(("%s gives no map of 1/%d of the image, which --model %s reads: convert it again with a tap of a module of "
        .. "that size, or take --model fcn"):format(about.name, 1 << level, head))
    end
  end
  if features.shape[3] << 5 ~= side then
    core.fail(("%s: its last map is %d pixels high for an image of %d, and --model %s reads one of 1/32; take --model fcn")
      :format(about.name, features.shape[3], side, head))
  end
  return skips
end

local heads = {
  unet = function(model) return models.unet { classes = model.classes, size = model.size } end,
  fcn = function(model, features)
    return models.fcn { classes = model.classes, size = model.size, channels = features.shape[2] }
  end,
  deeplabv3 = function(model) return models.deeplabv3 { classes = model.classes, size = model.size } end,
  fpn = function(model) return models.fpn { classes = model.classes, size = model.size } end,
}

-- Bytes of images to scores of each pixel's classes.
function backbone.segment(g, image, model, how)
  local head = heads[model.head]
  if not head then words.unknown("settings.json: there is no head", model.head, heads) end
  local features, maps, x = encode(g, image, model, how)
  if #features.shape ~= 4 then core.fail(model.backbone.name .. ": its result is no map, and masks need one") end
  local skips
  if backbone.pyramids[model.head] then
    local of_file = model.backbone.list
    skips = of_file and pyramid_of(model.backbone, model.head, maps, features, x) or table.move(maps, 1, #maps - 1, 1, {})
  end
  local layers = head(model, features)
  return g.decoder(with({ features, skips = skips, layers = layers, classes = model.classes }, how.head)).logits
end

-- Bytes of images to scores of their classes. The mean is the backbone's, so that a cache keeps no more than that.
function backbone.classify(g, image, model, how)
  local features = encode(g, image, model, how, true)
  local layers = models.probe { classes = model.classes, pooled = true }
  return g.classifier(with({ features, layers = layers, classes = model.classes }, how.head)).logits
end

return backbone
