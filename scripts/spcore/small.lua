-- SPDX-License-Identifier: MIT
-- The small networks of training scripts without --backbone: an encoder that halves an image a few times, and what follows it.
-- settings.json describes them as model = { encoder =, decoder =, scale = } or { encoder =, classes = }; spcore.predict makes them again.
local numbers = require "spcore.numbers"
local twos = require "spcore.twos"

local small = {}

local function encode(g, floats, opt, model, how)
  model.encoder = { model = "unet", width = opt.width, levels = opt.levels, convs = 2 }
  local features, maps = twos.encode(g, floats, model, function(one)
    return g.encoder {
      one, model = "unet", width = opt.width, levels = opt.levels, convs = 2, frozen = how.frozen, weights = how.weights,
      cache = how.cache, statistics = how.statistics,
    }
  end)
  if opt.dropout > 0 then features = g.dropout { features, p = opt.dropout, maps = true } end
  return features, maps
end

-- Images to scores of each pixel's classes, or one number: a U-Net. how: frozen, weights, cache and statistics of the encoder
function small.segment(g, image, opt, model, classes, how)
  model.decoder = { model = "unet", width = opt.width, convs = 1, classes = classes }
  model.scale = true
  local floats = twos.floats(image, function(one)
    return model.mean and numbers.normalize(g, one, model) or g.to_float { one, scale = true }
  end)
  local features, maps = encode(g, floats, opt, model, how)
  return g.decoder { features, skips = maps, model = "unet", width = opt.width, convs = 1, classes = classes }.logits
end

-- Images to scores of their classes; on_cpu: where they are made floats.
function small.classify(g, image, opt, model, classes, how, on_cpu)
  local floats = twos.floats(image, function(one) return numbers.normalize(g, one, model, { mean = 0.5, std = 0.25 }, on_cpu) end)
  local features = encode(g, floats, opt, model, how)
  return g.classifier { features, model = "pool", classes = classes }.logits
end

return small
