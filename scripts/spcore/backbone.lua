-- SPDX-License-Identifier: MIT
-- What train_*.lua and predict_*.lua share of networks with a known backbone (sp.models) and a head behind it. A run's
-- settings.json describes them as model = { backbone = { name =, variant =, output_stride =, mean =, std = }, head =,
-- classes =, size =, crop =, read = } with what reading() gives.
local args = require "spcore.args"
local core = require "spcore.core"
local models = require "spcore.models"
local words = require "spcore.words"

local backbone = {}

-- The options of a training script.
backbone.options = {
  backbone = { "", "a known network as the encoder, such as resnet34: docs/backbones.md", default = "none: a small one", value = "NAME" },
  weights = { "", "safetensors file with the backbone's weights", value = "FILE" },
  cache = {
    "off", "where what the frozen encoder makes of each image is kept, so that it computes it once",
    choices = { "device", "host", "off" },
  },
  variant = { "", "whose weights these are, such as timm_a1: numbers of the network and its images", default = "torchvision_v1", value = "NAME" },
}

-- Where weights are, of names that torchvision and timm share.
local function hub(name)
  if not name:find "^resnet" then return "" end
  return ("; curl -LO https://huggingface.co/timm/%s.tv_in1k/resolve/main/model.safetensors gets a file"):format(name)
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
  models.get(opt.backbone, { variant = opt.variant ~= "" and opt.variant or nil }) -- refuses what is not known
  if opt.weights == "" and t.frozen then
    args.usage("--backbone %s: frozen, with random weights, it is of no use; give --weights FILE, or %s%s", opt.backbone,
      t.instead, hub(opt.backbone))
  end
end

-- What settings.json says of --backbone. Without an output stride: 8 in front of a head that reads the last map alone, where
-- the network has that option, else the network's own
function backbone.describe(opt, head)
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
  local want = models.get(known.name, { variant = known.variant }).preprocess
  local shorter = (size * want.size + want.crop // 2) // want.crop
  if crop then return { size = shorter, resize = "crop", interpolation = want.interpolation } end
  return { size = size, shorter = shorter, interpolation = want.interpolation }
end

-- The same of images with masks, all of which is kept.
function backbone.reading_all(known)
  return { interpolation = models.get(known.name, { variant = known.variant }).preprocess.interpolation }
end

local function with(stage, how)
  stage.frozen, stage.weights, stage.cache = how.frozen, how.weights, how.cache
  return stage
end

-- how: { encoder = { frozen =, weights =, cache = }, head = { frozen =, weights = }, dropout = of the features or nil }; pooled: what
-- comes is the mean over the last map
local function encode(g, image, model, how, pooled)
  local about = model.backbone
  if type(about.name) ~= "string" then core.fail "settings.json names no backbone" end
  local list = models.get(about.name, { output_stride = about.output_stride, variant = about.variant })
  if pooled then list = models.pooled(list) end
  local x = g.normalize { image, scale = true, mean = about.mean, std = about.std }.images
  local enc = g.encoder(with({ x, layers = list }, how.encoder))
  local dropped = (how.dropout or 0) > 0
  return dropped and g.dropout { enc.features, p = how.dropout, maps = true } or enc.features, enc.maps
end

-- Which read the maps of all sizes.
backbone.pyramids = { unet = true, fpn = true }

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
  local features, maps = encode(g, image, model, how)
  local skips = backbone.pyramids[model.head] and table.move(maps, 1, #maps - 1, 1, {}) or nil
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
