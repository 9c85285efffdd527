-- SPDX-License-Identifier: MIT
-- MobileNetV3 as a list of layers, whose weights have torchvision's names.
local build = require "spcore.models.build"
local core = require "spcore.core"
local inverted = require "spcore.models.inverted"
local words = require "spcore.words"

local what = "sp.models.mobilenet_v3{}"
local RE <const>, HS <const> = "relu", "hard_swish"

-- Each row a block: kernel, channels within, channels out, squeeze-excitation, activation, stride. The last three are C4.
local kinds = {
  large = {
    title = "MobileNetV3-Large", last = 1280, timm = "timm_ra",
    { 3, 16, 16, false, RE, 1 }, { 3, 64, 24, false, RE, 2 }, { 3, 72, 24, false, RE, 1 }, { 5, 72, 40, true, RE, 2 },
    { 5, 120, 40, true, RE, 1 }, { 5, 120, 40, true, RE, 1 }, { 3, 240, 80, false, HS, 2 }, { 3, 200, 80, false, HS, 1 },
    { 3, 184, 80, false, HS, 1 }, { 3, 184, 80, false, HS, 1 }, { 3, 480, 112, true, HS, 1 }, { 3, 672, 112, true, HS, 1 },
    { 5, 672, 160, true, HS, 2 }, { 5, 960, 160, true, HS, 1 }, { 5, 960, 160, true, HS, 1 },
  },
  small = {
    title = "MobileNetV3-Small", last = 1024, timm = "timm_lamb",
    { 3, 16, 16, true, RE, 2 }, { 3, 72, 24, false, RE, 2 }, { 3, 88, 24, false, RE, 1 }, { 5, 96, 40, true, HS, 2 },
    { 5, 240, 40, true, HS, 1 }, { 5, 240, 40, true, HS, 1 }, { 5, 120, 48, true, HS, 1 }, { 5, 144, 48, true, HS, 1 },
    { 5, 288, 96, true, HS, 2 }, { 5, 576, 96, true, HS, 1 }, { 5, 576, 96, true, HS, 1 },
  },
}

-- timm's weights are of the usual width.
local function variants(kind, width)
  return {
    torchvision_v1 = build.preprocess(256, 224),
    torchvision_v2 = kind == kinds.large and build.preprocess(232, 224) or nil,
    [kind.timm] = width == 1 and build.preprocess(256, 224, "bicubic") or nil,
  }
end

-- All blocks; timm counts those of as many channels as one stage. Returns the number of channels, and of timm's stages.
local function blocks(net, kind, width, dilation)
  local input, stage, nth = inverted.channels(16, width), 0, 0
  for i, row in ipairs(kind) do
    local kernel, wide, out, squeezes, act, stride = table.unpack(row)
    if i > 1 then
      local next_stage = out ~= kind[i - 1][3]
      stage, nth = next_stage and stage + 1 or stage, next_stage and 0 or nth + 1
    end
    wide = inverted.channels(wide, width)
    local o = { input = input, wide = wide, out = inverted.channels(out, width), kernel = kernel, stride = stride, act = act,
      squeezed = squeezes and inverted.channels(wide // 4, 1) or nil, dilation = i > #kind - 3 and dilation or 1 }
    inverted.block(net, "features." .. i, ("blocks.%d.%d"):format(stage, nth), o)
    input = o.out
  end
  return input, stage + 1
end

-- timm's first layer of the head is a convolution of the one pixel.
local function classify(list, classes, wide, is_timm)
  local first = is_timm and { "conv", wide, kernel = 1, name = "classifier.0" } or { "linear", wide, name = "classifier.0" }
  build.classify(list, is_timm and first or { "flatten" }, is_timm and { "flatten" } or first, { HS },
    { "dropout", p = 0.2, name = "classifier.2" }, { "linear", classes, name = "classifier.3" })
end

local function check_width(width)
  if math.type(width) and width > 0 and width <= 16 then return end
  core.fail(("%s: width is a number above 0, up to 16, not '%s'"):format(what, tostring(width)))
end

local function is_dilated(t)
  if t.output_stride == nil then return build.choice(what, t, "dilated", { false, true }) end
  if t.dilated ~= nil then core.fail(what .. ": give either dilated or output_stride; dilated = true is output_stride = 16") end
  return build.choice(what, t, "output_stride", { 32, 16 }) == 16
end

-- mobilenet_v3{ "large" | "small", dilated = of C4, or output_stride = 32 (or 16), width = times the channels,
-- variant = whose weights, classes = of a head "classifier" (none) } -> layers
return function(t)
  words.check_keys(what, t, { true, dilated = true, output_stride = true, width = true, variant = true, classes = true })
  local kind, width = kinds[t[1]], t.width or 1
  if not kind then core.fail(("%s: there is \"large\" and \"small\", not '%s'"):format(what, tostring(t[1]))) end
  check_width(width)
  local dilation = is_dilated(t) and 2 or 1
  local list = build.list(what, t, { family = "mobilenet_v3", title = kind.title, head = { "classifier.*" }, names = {},
    blocks = { "^features%.%d+" } },
    variants(kind, width))
  local is_timm = list.variant == kind.timm -- trained with another batch norm; a file of it fits no other variant's list
  local net = inverted.new(list, { norm = is_timm and { 1e-5, 0.1 } or { 1e-3, 0.01 }, squeeze = RE, gate = "hard_sigmoid" })
  inverted.unit(net, "features.0", { "conv_stem", "bn1" }, inverted.channels(16, width), 3, { act = HS, stride = 2 })
  net.stride = 2
  local channels, stages = blocks(net, kind, width, dilation)
  local last = ("blocks.%d.0."):format(stages)
  inverted.unit(net, "features." .. #kind + 1, { last .. "conv", last .. "bn1" }, 6 * channels, 1, { act = HS })
  build.tap(list, 6 * channels, net.stride)
  if is_timm then
    net.timm["classifier.0"], net.timm["classifier.3"] = "conv_head", "classifier"
    list.names.timm, list.head[2] = net.timm, "conv_head.*"
  end
  if t.classes then classify(list, t.classes, inverted.channels(kind.last, width), is_timm) end
  return list
end
