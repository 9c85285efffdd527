-- SPDX-License-Identifier: MIT
-- ResNets as lists of layers, whose weights have torchvision's names; timm's are the same.
local build = require "spcore.models.build"
local core = require "spcore.core"
local words = require "spcore.words"

local what = "sp.models.resnet{}"
local blocks = {
  [18] = { 2, 2, 2, 2 }, [34] = { 3, 4, 6, 3 },
  [50] = { 3, 4, 6, 3, wide = 4 }, [101] = { 3, 4, 23, 3, wide = 4 }, -- of three convolutions
}

local function variants(n)
  return {
    torchvision_v1 = build.preprocess(256, 224),
    torchvision_v2 = n >= 50 and build.preprocess(232, 224) or nil,
    timm_a1 = build.preprocess(235, 224, "bicubic"), -- 224 / 0.95
  }
end

local function norm(list, name) build.add(list, { "batch_norm", name = name }) end

-- One block behind `from`, called `name`. `first` is the dilation of its first 3 x 3 convolution, `rate` that of a second.
local function block(list, name, from, o)
  local convs = o.wide and {
    { o.width, 1 }, { o.width, 3, stride = o.stride, dilation = o.first }, { o.width * o.wide, 1 },
  } or { { o.width, 3, stride = o.stride, dilation = o.first }, { o.width, 3, dilation = o.rate } }
  local shortcut = from
  for i, c in ipairs(convs) do
    build.conv(list, name .. ".conv" .. i, c[1], c[2],
      { stride = c.stride, dilation = c.dilation, from = i == 1 and from or nil })
    norm(list, name .. ".bn" .. i)
    if i < #convs then build.add(list, { "relu" }) end
  end
  if o.project then
    shortcut = name .. ".downsample.1"
    build.conv(list, name .. ".downsample.0", convs[#convs][1], 1, { stride = o.stride, from = from })
    norm(list, shortcut)
  end
  build.add(list, { "add", from = { name .. ".bn" .. #convs, shortcut } }, { "relu", name = name })
end

-- Four stages of blocks; from where the map would be smaller than `output_stride` allows, rates take the place of strides.
-- In torchvision the first block of a stage still has the rate of the stage before, in segmentation_models.pytorch it has the
-- stage's own.
local function stages(list, depth, output_stride, dilation)
  local rate, at, from = 1, 4, "maxpool"
  for s, n in ipairs(depth) do
    local stride, first = s > 1 and 2 or 1, rate
    if at * stride > output_stride then rate, stride = rate * stride, 1 end
    if dilation == "smp" then first = rate end
    at = at * stride
    for b = 0, n - 1 do
      local name = ("layer%d.%d"):format(s, b)
      local project = b == 0 and (s > 1 or depth.wide ~= nil)
      block(list, name, from, { width = 32 << s, wide = depth.wide, stride = b == 0 and stride or 1, project = project,
        first = b == 0 and first or rate, rate = rate })
      from = name
    end
    build.tap(list, (32 << s) * (depth.wide or 1), at)
  end
end

-- resnet{ 18 | 34 | 50 | 101, output_stride = 32 (or 16, 8), dilation = "torchvision" (or "smp"), variant = whose weights,
-- classes = of a head "fc" (none) } -> layers
return function(t)
  words.check_keys(what, t, { true, output_stride = true, dilation = true, variant = true, classes = true })
  local depth = blocks[t[1]]
  if not depth then core.fail(("%s: there is ResNet-18, 34, 50 and 101, not '%s'"):format(what, tostring(t[1]))) end
  local stride = build.choice(what, t, "output_stride", { 32, 16, 8 })
  local list = build.list(what, t, { family = "resnet", title = "ResNet-" .. t[1], head = { "fc.*" }, names = {},
    blocks = { "^layer%d+%.%d+" } },
    variants(t[1]))
  build.conv(list, "conv1", 64, 7, { stride = 2 })
  norm(list, "bn1")
  build.add(list, { "relu", name = "relu" })
  build.tap(list, 64, 2)
  build.add(list, { "max_pool", kernel = 3, stride = 2, pad = 1, name = "maxpool" })
  stages(list, depth, stride, build.choice(what, t, "dilation", { "torchvision", "smp" }))
  if t.classes then build.classify(list, { "flatten" }, { "linear", t.classes, name = "fc" }) end
  return list
end
