-- SPDX-License-Identifier: MIT
-- Inverted residual blocks, which MobileNetV3 and EfficientNet are made of, under torchvision's names and timm's.
local build = require "spcore.models.build"

local inverted = {}

-- What a network of such blocks is made with: its list, and for all of it o.norm = { eps, momentum }, o.squeeze = what is between
-- the two convolutions of a squeeze-excitation, o.gate = what is behind them.
function inverted.new(list, o)
  return { list = list, norm = o.norm, squeeze = o.squeeze, gate = o.gate, timm = {}, stride = 1 }
end

-- n channels of a network so many times as wide: a multiple of 8, at most a tenth below.
function inverted.channels(n, width)
  local v = n * width
  local rounded = math.max(8, (v + 4) // 8 * 8)
  return math.tointeger(rounded < 0.9 * v and rounded + 8 or rounded)
end

-- Convolution, batch norm, activation o.act; `theirs` is what timm calls the first two.
function inverted.unit(net, name, theirs, out, kernel, o)
  local norm = net.norm
  build.conv(net.list, name .. ".0", out, kernel, o)
  build.add(net.list, { "batch_norm", name = name .. ".1", eps = norm[1], momentum = norm[2] })
  if o.act then build.add(net.list, { o.act, name = name .. ".2" }) end
  net.timm[name .. ".0"], net.timm[name .. ".1"] = theirs[1], theirs[2]
end

-- Squeeze-excitation: what the last layer gives times a factor for each of its channels.
local function excite(net, name, theirs, channels, squeezed)
  local map, gate = net.list[#net.list].name, name .. ".scale_activation"
  build.add(net.list, { "mean" }, { "conv", squeezed, kernel = 1, name = name .. ".fc1" }, { net.squeeze },
    { "conv", channels, kernel = 1, name = name .. ".fc2" }, { net.gate, name = gate }, { "mul", from = { map, gate } })
  net.timm[name .. ".fc1"], net.timm[name .. ".fc2"] = theirs .. ".conv_reduce", theirs .. ".conv_expand"
end

-- One block, called `name`, from o.input by way of o.wide to o.out channels; o.squeezed: those within its squeeze-excitation. The
-- last layer before the map is halved is a tap; with a dilation it is not halved.
function inverted.block(net, name, theirs, o)
  local from, part = net.list[#net.list].name, 0
  local function unit(conv, bn, ...)
    inverted.unit(net, ("%s.block.%d"):format(name, part), { theirs .. "." .. conv, theirs .. "." .. bn }, ...)
    part = part + 1
  end
  if o.stride == 2 then build.tap(net.list, o.input, net.stride) end
  local stride = (o.dilation or 1) > 1 and 1 or o.stride
  local expands = o.wide ~= o.input
  if expands then unit("conv_pw", "bn1", o.wide, 1, { act = o.act }) end
  unit("conv_dw", expands and "bn2" or "bn1", o.wide, o.kernel,
    { act = o.act, stride = stride, dilation = o.dilation, groups = o.wide })
  if o.squeezed then
    excite(net, ("%s.block.%d"):format(name, part), theirs .. ".se", o.wide, o.squeezed)
    part = part + 1
  end
  unit(expands and "conv_pwl" or "conv_pw", expands and "bn3" or "bn2", o.out, 1, {})
  net.stride = net.stride * stride
  if o.stride == 1 and o.input == o.out then
    build.add(net.list, { "add", from = { net.list[#net.list].name, from }, name = name })
  end
end

return inverted
