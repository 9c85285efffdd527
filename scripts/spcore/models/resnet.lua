-- SPDX-License-Identifier: MIT
-- ResNets as lists of layers, whose weights have torchvision's names.
local core = require "spcore.core"
local words = require "spcore.words"

local what = "sp.models.resnet{}"
local blocks = {
  [18] = { 2, 2, 2, 2 }, [34] = { 3, 4, 6, 3 },
  [50] = { 3, 4, 6, 3, wide = 4 }, [101] = { 3, 4, 23, 3, wide = 4 }, -- of three convolutions
}

local function conv(list, name, out, kernel, o)
  local rate = o and o.rate or 1
  list[#list + 1] = { "conv", out, kernel = kernel, stride = o and o.stride or 1, pad = kernel // 2 * rate, dilation = rate,
    bias = false, name = name, from = o and o.from }
end

local function norm(list, name) list[#list + 1] = { "batch_norm", name = name } end

-- One block behind `from`, called `name`. `first` is the dilation of its first 3 x 3 convolution, `rate` that of a second.
local function block(list, name, from, o)
  local convs = o.wide and {
    { o.width, 1 }, { o.width, 3, stride = o.stride, rate = o.first }, { o.width * o.wide, 1 },
  } or { { o.width, 3, stride = o.stride, rate = o.first }, { o.width, 3, rate = o.rate } }
  local shortcut = from
  for i, c in ipairs(convs) do
    conv(list, name .. ".conv" .. i, c[1], c[2], { stride = c.stride, rate = c.rate, from = i == 1 and from or nil })
    norm(list, name .. ".bn" .. i)
    if i < #convs then list[#list + 1] = { "relu" } end
  end
  if o.project then
    shortcut = name .. ".downsample.1"
    conv(list, name .. ".downsample.0", convs[#convs][1], 1, { stride = o.stride, from = from })
    norm(list, shortcut)
  end
  list[#list + 1] = { "add", from = { name .. ".bn" .. #convs, shortcut } }
  list[#list + 1] = { "relu", name = name }
end

-- Four stages of blocks; from where the map would be smaller than `output_stride` allows, rates take the place of strides,
-- and the first block of a stage still has the rate of the stage before.
local function stages(list, depth, output_stride)
  local rate, at, from = 1, 4, "maxpool"
  for s, n in ipairs(depth) do
    local stride, first = s > 1 and 2 or 1, rate
    if at * stride > output_stride then rate, stride = rate * stride, 1 end
    at = at * stride
    for b = 0, n - 1 do
      local name = ("layer%d.%d"):format(s, b)
      local project = b == 0 and (s > 1 or depth.wide ~= nil)
      block(list, name, from, { width = 32 << s, wide = depth.wide, stride = b == 0 and stride or 1, project = project,
        first = b == 0 and first or rate, rate = rate })
      from = name
    end
    list[#list].tap = true
  end
end

-- resnet{ 18 | 34 | 50 | 101, output_stride = 32 (or 16, 8), classes = of a head "fc" (none) } -> layers
return function(t)
  words.check_keys(what, t, { true, output_stride = true, classes = true })
  local depth, stride = blocks[t[1]], t.output_stride or 32
  if not depth then core.fail(("%s: there is ResNet-18, 34, 50 and 101, not '%s'"):format(what, tostring(t[1]))) end
  if stride ~= 32 and stride ~= 16 and stride ~= 8 then
    core.fail(("%s: output_stride is 32, 16 or 8, not '%s'"):format(what, tostring(stride)))
  end
  if t.classes ~= nil and (math.type(t.classes) ~= "integer" or t.classes < 1) then
    core.fail(("%s: classes is a number from 1 on, not '%s'"):format(what, tostring(t.classes)))
  end
  local list = {}
  conv(list, "conv1", 64, 7, { stride = 2 })
  norm(list, "bn1")
  list[#list + 1] = { "relu", tap = true }
  list[#list + 1] = { "max_pool", kernel = 3, stride = 2, pad = 1, name = "maxpool" }
  stages(list, depth, stride)
  if not t.classes then return list end
  for _, l in ipairs(list) do l.tap = nil end -- a classifier gives no maps
  for _, l in ipairs { { "mean" }, { "flatten" }, { "linear", t.classes, name = "fc" } } do list[#list + 1] = l end
  return list
end
