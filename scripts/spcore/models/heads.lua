-- SPDX-License-Identifier: MIT
-- What is trained behind an encoder, as lists of layers: sp.models.probe, fcn, deeplabv3, unet and fpn. Names of weights are
-- those of torchvision's `classifier` and of segmentation_models.pytorch's Unet and FPN.
local build = require "spcore.models.build"
local core = require "spcore.core"
local words = require "spcore.words"

local heads = {}

local function bad(what, fmt, ...) core.fail(("sp.models.%s{}: "):format(what) .. fmt:format(...)) end

local function whole(what, key, v, least)
  if math.type(v) ~= "integer" or v < least then bad(what, "%s is a number from %d on, not '%s'", key, least, tostring(v)) end
  return v
end

-- A list of `n` such numbers, of any length where n is nil.
local function numbers(what, key, v, n)
  if type(v) ~= "table" or #v == 0 or (n and #v ~= n) then bad(what, "%s is a list of %snumbers", key, n and n .. " " or "") end
  for _, x in ipairs(v) do whole(what, key, x, 1) end
  return v
end

local function part(what, key, v)
  if type(v) ~= "number" or v < 0 or v >= 1 then bad(what, "%s is a number from 0 to below 1, not '%s'", key, tostring(v)) end
  return v
end

-- The image's height and width, from one number or two.
local function size_of(what, v)
  if type(v) == "table" then return numbers(what, "size", v, 2) end
  if v == nil then bad(what, "size is missing: the image's side in pixels, or { height, width }") end
  v = whole(what, "size", v, 1)
  return { v, v }
end

-- Convolution without bias, batch norm and ReLU, called `names`. o: as of build.conv
local function block(list, names, out, kernel, o)
  build.conv(list, names[1], out, kernel, o)
  build.add(list, { "batch_norm", name = names[2] }, { "relu", name = names[3] })
end

-- "NAME.0", "NAME.1" ...
local function numbered(name, first)
  return { name .. "." .. first, name .. "." .. first + 1, name .. "." .. first + 2 }
end

-- The scores of the classes, in the image's size.
local function to_image(list, what, t)
  build.add(list, { "conv", whole(what, "classes", t.classes, 1), kernel = 1, name = "4" },
    { "upsample", size = size_of(what, t.size), mode = "bilinear", name = "5" })
  return list
end

-- probe{ classes, pooled = false } -> a linear layer behind the mean over the map, for `classifier`; pooled: of what is that mean
-- already, as pooled() has it
function heads.probe(t)
  words.check_keys("sp.models.probe{}", t, { classes = true, pooled = true })
  if t.pooled ~= nil and type(t.pooled) ~= "boolean" then bad("probe", "pooled is true or false, not '%s'", tostring(t.pooled)) end
  local list = { { "flatten" }, { "linear", whole("probe", "classes", t.classes, 1), name = "fc" } }
  if not t.pooled then table.insert(list, 1, { "mean" }) end
  return list
end

-- fcn{ classes, size = of the image, channels = of the features (2048), dropout = 0.1 } -> torchvision's FCNHead
function heads.fcn(t)
  words.check_keys("sp.models.fcn{}", t, { classes = true, size = true, channels = true, dropout = true })
  local list, channels = {}, whole("fcn", "channels", t.channels or 2048, 4)
  block(list, { "0", "1", "2" }, channels // 4, 3)
  build.add(list, { "dropout", p = part("fcn", "dropout", t.dropout or 0.1), name = "3" })
  return to_image(list, "fcn", t)
end

-- The branches of atrous spatial pyramid pooling side by side, and their projection.
local function pyramid(list, rates, dropout)
  local branches = {}
  local function branch(i, kernel, rate)
    local names = numbered("0.convs." .. i, 0)
    block(list, names, 256, kernel, { dilation = rate, from = "input" })
    branches[i + 1] = names[3]
  end
  branch(0, 1)
  for i, rate in ipairs(rates) do branch(i, 3, rate) end
  local last = "0.convs." .. #rates + 1
  build.add(list, { "mean", from = "input", name = last .. ".0" })
  block(list, numbered(last, 1), 256, 1)
  build.add(list, { "upsample", like = "input", mode = "bilinear", name = last })
  branches[#branches + 1] = last
  build.add(list, { "concat", from = branches, name = "0.concat" })
  block(list, numbered("0.project", 0), 256, 1)
  build.add(list, { "dropout", p = dropout, name = "0.project.3" })
end

-- deeplabv3{ classes, size = of the image, rates = { 12, 24, 36 }, dropout = 0.5 } -> torchvision's DeepLabHead
function heads.deeplabv3(t)
  words.check_keys("sp.models.deeplabv3{}", t, { classes = true, size = true, rates = true, dropout = true })
  local list = {}
  pyramid(list, numbers("deeplabv3", "rates", t.rates or { 12, 24, 36 }), part("deeplabv3", "dropout", t.dropout or 0.5))
  block(list, { "1", "2", "3" }, 256, 3)
  return to_image(list, "deeplabv3", t)
end

-- Refuses an image that the encoder cannot halve so often.
local function check_halvings(what, size, times)
  local stride = 1 << times
  for i, side in ipairs(size) do
    if side % stride ~= 0 then
      bad(what, "%d pixels of %s are no multiple of %d; take %d or %d", side, i == 1 and "height" or "width", stride,
        math.max(1, side // stride) * stride, math.max(2, side // stride + 1) * stride)
    end
  end
end

-- unet{ classes, decoder = { 256, 128, 64, 32, 16 }, size = of the image, where it is to be checked } ->
-- segmentation_models.pytorch's UnetDecoder and head. Each number is the channels of a block, the image's size is that of the
-- last; `skips` are one less.
function heads.unet(t)
  words.check_keys("sp.models.unet{}", t, { classes = true, decoder = true, size = true })
  local decoder = numbers("unet", "decoder", t.decoder or { 256, 128, 64, 32, 16 })
  if t.size ~= nil then check_halvings("unet", size_of("unet", t.size), #decoder) end
  local list = {}
  for i, channels in ipairs(decoder) do
    local name = "blocks." .. i - 1
    build.add(list, { "upsample", scale = 2, name = name .. ".up" })
    if i < #decoder then
      build.add(list, { "concat", from = { name .. ".up", "skips." .. #decoder - i }, name = name .. ".cat" })
    end
    block(list, numbered(name .. ".conv1", 0), channels, 3)
    block(list, numbered(name .. ".conv2", 0), channels, 3)
  end
  build.add(list, { "conv", whole("unet", "classes", t.classes, 1), kernel = 3, pad = 1, name = "segmentation_head.0" })
  return list
end

-- From the coarsest map to that of a quarter of the image's sides, each added to the one before, twice as large.
local function top_down(list, channels)
  build.add(list, { "conv", channels, kernel = 1, name = "p5" })
  for level = 4, 2, -1 do
    local name = "p" .. level
    build.add(list, { "upsample", scale = 2, from = "p" .. level + 1, name = name .. ".up" },
      { "conv", channels, kernel = 1, from = "skips." .. level, name = name .. ".skip_conv" },
      { "add", from = { name .. ".up", name .. ".skip_conv" }, name = name })
  end
end

-- A level of the pyramid in the size of the finest, `times` enlarged; returns what its result is called.
local function enlarged(list, name, from, channels, times)
  for i = 0, math.max(times, 1) - 1 do
    local block = ("%s.block.%d"):format(name, i)
    build.add(list, { "conv", channels, kernel = 3, pad = 1, bias = false, from = from, name = block .. ".block.0" },
      { "group_norm", 32, name = block .. ".block.1" }, { "relu", name = block .. ".block.2" })
    if times > 0 then
      build.add(list, { "upsample", scale = 2, mode = "bilinear", align_corners = true, name = block .. ".up" })
    end
    from = list[#list].name
  end
  return from
end

-- fpn{ classes, pyramid = 256, width = 128, merge = "add", dropout = 0.2, size = of the image, where it is to be checked } ->
-- segmentation_models.pytorch's FPNDecoder and head. `skips` are four maps, of 1/2 to 1/16 of the image's sides.
function heads.fpn(t)
  words.check_keys("sp.models.fpn{}", t,
    { classes = true, pyramid = true, width = true, merge = true, dropout = true, size = true })
  if t.size ~= nil then check_halvings("fpn", size_of("fpn", t.size), 5) end
  local width, merge = whole("fpn", "width", t.width or 128, 1), build.choice("sp.models.fpn{}", t, "merge", { "add", "cat" })
  if width % 32 ~= 0 then bad("fpn", "width is a multiple of 32, the groups of its norms, not %d", width) end
  local list, levels = {}, {}
  top_down(list, whole("fpn", "pyramid", t.pyramid or 256, 1))
  for i = 0, 3 do levels[i + 1] = enlarged(list, "seg_blocks." .. i, "p" .. 5 - i, width, 3 - i) end
  build.add(list, { merge == "add" and "add" or "concat", from = levels, name = "merge" },
    { "dropout", p = part("fpn", "dropout", t.dropout or 0.2), maps = true, name = "dropout" },
    { "conv", whole("fpn", "classes", t.classes, 1), kernel = 1, name = "segmentation_head.0" },
    { "upsample", scale = 4, mode = "bilinear", align_corners = true, name = "segmentation_head.1" })
  return list
end

return heads
