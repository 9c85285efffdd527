-- SPDX-License-Identifier: MIT
-- EfficientNet as a list of layers, whose weights have torchvision's names.
local build = require "spcore.models.build"
local core = require "spcore.core"
local inverted = require "spcore.models.inverted"
local words = require "spcore.words"

local what = "sp.models.efficientnet{}"
local ACT <const> = "silu"

-- How many times as wide and as deep as B0, the head's dropout; weights of torchvision by version, and of timm by tag.
local kinds = {
  b0 = { 1.0, 1.0, 0.2, v1 = { 256, 224, "bicubic" }, ra = { 256, 224, "bicubic" } },
  b1 = { 1.0, 1.1, 0.2, v1 = { 256, 240, "bicubic" }, v2 = { 255, 240 }, ft = { 256, 224, "bicubic" } },
  b2 = { 1.1, 1.2, 0.3, v1 = { 288, 288, "bicubic" }, ra = { 292, 256, "bicubic" } },
  b3 = { 1.2, 1.4, 0.3, v1 = { 320, 300, "bicubic" }, ra2 = { 329, 288, "bicubic" } },
  b4 = { 1.4, 1.8, 0.4, v1 = { 384, 380, "bicubic" }, ra2 = { 365, 320, "bicubic" } },
}

-- Each row a stage: channels within for each that comes in, kernel, stride of its first block, channels out, blocks.
local stages = {
  { 1, 3, 1, 16, 1 }, { 6, 3, 2, 24, 2 }, { 6, 5, 2, 40, 2 }, { 6, 3, 2, 80, 3 }, { 6, 5, 1, 112, 3 }, { 6, 5, 2, 192, 4 },
  { 6, 3, 1, 320, 1 },
}

local function variants(kind)
  local out = {}
  for key, v in next, kind do
    if type(key) == "string" then
      out[(key:find "^v%d" and "torchvision_" or "timm_") .. key] = build.preprocess(table.unpack(v))
    end
  end
  return out
end

-- Returns the number of channels.
local function blocks(net, width, depth)
  local input = inverted.channels(32, width)
  for s, row in ipairs(stages) do
    local times, kernel, stride, out, n = table.unpack(row)
    for b = 0, math.ceil(n * depth) - 1 do
      local o = { input = input, wide = inverted.channels(input * times, 1), out = inverted.channels(out, width), kernel = kernel,
        stride = b == 0 and stride or 1, act = ACT, squeezed = math.max(1, input // 4) }
      inverted.block(net, ("features.%d.%d"):format(s, b), ("blocks.%d.%d"):format(s - 1, b), o)
      input = o.out
    end
  end
  return input
end

-- efficientnet{ "b0" .. "b4", variant = whose weights, classes = of a head "classifier" (none) } -> layers
return function(t)
  words.check_keys(what, t, { true, variant = true, classes = true })
  local kind = kinds[t[1]]
  if not kind then core.fail(("%s: there is \"b0\" to \"b4\", not '%s'"):format(what, tostring(t[1]))) end
  local list = build.list(what, t, {
    family = "efficientnet", title = "EfficientNet-" .. t[1]:upper(), head = { "classifier.*" }, names = {},
    blocks = { "^features%.[1-7]%.%d+", "^features%.%d+" },
  }, variants(kind))
  local net = inverted.new(list, { norm = { 1e-5, 0.1 }, squeeze = ACT, gate = "sigmoid" })
  local width, depth, drop = table.unpack(kind)
  inverted.unit(net, "features.0", { "conv_stem", "bn1" }, inverted.channels(32, width), 3, { act = ACT, stride = 2 })
  net.stride = 2
  local channels = blocks(net, width, depth)
  inverted.unit(net, "features.8", { "conv_head", "bn2" }, 4 * channels, 1, { act = ACT })
  build.tap(list, 4 * channels, net.stride)
  net.timm["classifier.1"] = "classifier"
  list.names.timm = net.timm
  if t.classes then
    build.classify(list, { "flatten" }, { "dropout", p = drop, name = "classifier.0" },
      { "linear", t.classes, name = "classifier.1" })
  end
  return list
end
