-- SPDX-License-Identifier: MIT
-- What each operation of plugins/kits/nn/ops/ops.list is in PyTorch and in ONNX (operators of opset 17): a row for each of its
-- words. tests/lua/export.lua compares the two lists.
--
-- A row is of a layer l, all of whose fields have values, and of what it reads, v: a list of { c =, h =, w =, flat = }.
--   setup(l, v)        fills in what the layer leaves to the operation
--   value(l, v)        what it makes, or nil where it cannot
--   weights(l, v)      { { NAME, SHAPE, state = true }, ... }
--   module(l, v)       the torch.nn.Module with these weights; nil: it has none
--   call(l, v, x, me)  its result in Python: x are the variables that it reads, me the module
--   onnx(b, l, v, x, w)  adds nodes to b and returns the result's name: x are the names of what it reads, w of its weights
--   parts(l, v)        instead of all these: the layers that it stands for
local json = require "spcore.json"

local ops = {}

local function two(v, default)
  if type(v) ~= "table" then v = { v or 0, v or 0 } end
  local y, x = v[1] or 0, v[2] or v[1] or 0
  return { y ~= 0 and y or default, x ~= 0 and x or default }
end

local function py(v) return v == true and "True" or v == false and "False" or json.encode(v) end
local function pair(p) return p[1] == p[2] and tostring(p[1]) or ("(%d, %d)"):format(p[1], p[2]) end

-- "A, k=v, k=v" of { k, v, default } that are not the default, which is text.
local function arguments(first, list)
  for _, a in ipairs(list) do
    if a[2] ~= a[3] then first = ("%s, %s=%s"):format(first, a[1], a[2]) end
  end
  return first
end

local function same(_, v) return v[1] end
local function map(v, c, h, w)
  return h >= 1 and w >= 1 and not v.flat and { c = c, h = h, w = w, flat = false } or nil
end

-- ---- convolutions and products ----

local function conv_setup(kernel, stride)
  return function(l)
    l.kernel, l.stride, l.pad = two(l.kernel, kernel), two(l.stride, stride), two(l.pad, 0)
    l.out_pad, l.dilation, l.groups = two(l.out_pad, 0), two(l.dilation, 1), l.groups or 1
    for i = 1, 2 do
      if l.kernel[i] == 1 then l.dilation[i] = 1 end
    end
    if l.bias == nil then l.bias = true end
  end
end

local function with_bias(l, shape) return { { "weight", shape }, l.bias and { "bias", { l.out } } or nil } end

local function conv_onnx(op)
  return function(b, l, _, x, w)
    local a = { kernel_shape = l.kernel, strides = l.stride, pads = { l.pad[1], l.pad[2], l.pad[1], l.pad[2] },
      dilations = l.dilation, group = l.groups }
    if op == "ConvTranspose" then a.output_padding = l.out_pad end
    return b:node(op, { x[1], w.weight, w.bias }, a)
  end
end

local function called(_, _, x, me) return ("%s(%s)"):format(me, x[1]) end

ops.conv = {
  setup = conv_setup(3, 1),
  value = function(l, v)
    local function side(i, n) return (n + 2 * l.pad[i] - l.dilation[i] * (l.kernel[i] - 1) - 1) // l.stride[i] + 1 end
    return map(v[1], l.out, side(1, v[1].h), side(2, v[1].w))
  end,
  weights = function(l, v) return with_bias(l, { l.out, v[1].c // l.groups, l.kernel[1], l.kernel[2] }) end,
  module = function(l, v)
    return ("nn.Conv2d(%s)"):format(arguments(("%d, %d, %s"):format(v[1].c, l.out, pair(l.kernel)), {
      { "stride", pair(l.stride), "1" }, { "padding", pair(l.pad), "0" }, { "dilation", pair(l.dilation), "1" },
      { "groups", tostring(l.groups), "1" }, { "bias", py(l.bias), "True" } }))
  end,
  call = called, onnx = conv_onnx "Conv",
}

ops.conv_transpose = {
  setup = conv_setup(2, 2),
  value = function(l, v)
    local function side(i, n)
      return (n - 1) * l.stride[i] - 2 * l.pad[i] + l.dilation[i] * (l.kernel[i] - 1) + 1 + l.out_pad[i]
    end
    return map(v[1], l.out, side(1, v[1].h), side(2, v[1].w))
  end,
  weights = function(l, v) return with_bias(l, { v[1].c, l.out // l.groups, l.kernel[1], l.kernel[2] }) end,
  module = function(l, v)
    return ("nn.ConvTranspose2d(%s)"):format(arguments(("%d, %d, %s"):format(v[1].c, l.out, pair(l.kernel)), {
      { "stride", pair(l.stride), "1" }, { "padding", pair(l.pad), "0" }, { "output_padding", pair(l.out_pad), "0" },
      { "groups", tostring(l.groups), "1" }, { "bias", py(l.bias), "True" }, { "dilation", pair(l.dilation), "1" } }))
  end,
  call = called, onnx = conv_onnx "ConvTranspose",
}

ops.linear = {
  setup = function(l) if l.bias == nil then l.bias = true end end,
  value = function(l, v) return v[1].flat and { c = l.out, h = 1, w = 1, flat = true } or nil end,
  weights = function(l, v) return with_bias(l, { l.out, v[1].c }) end,
  module = function(l, v)
    return ("nn.Linear(%s)"):format(arguments(("%d, %d"):format(v[1].c, l.out), { { "bias", py(l.bias), "True" } }))
  end,
  call = called,
  onnx = function(b, _, _, x, w) return b:node("Gemm", { x[1], w.weight, w.bias }, { transB = 1 }) end,
}

-- ---- norms ----

local function norm_setup(l) l.eps, l.momentum = l.eps or 1e-5, l.momentum or 0.1 end

ops.batch_norm = {
  setup = norm_setup, value = same,
  weights = function(_, v)
    local c = { v[1].c }
    return { { "weight", c }, { "bias", c }, { "running_mean", c }, { "running_var", c },
      { "num_batches_tracked", {}, state = true } }
  end,
  module = function(l, v)
    return ("nn.BatchNorm%dd(%s)"):format(v[1].flat and 1 or 2, arguments(tostring(v[1].c), {
      { "eps", py(l.eps), py(1e-5) }, { "momentum", py(l.momentum), py(0.1) } }))
  end,
  call = called,
  onnx = function(b, l, _, x, w)
    local reads = { x[1], w.weight, w.bias, w.running_mean, w.running_var }
    return b:node("BatchNormalization", reads, { epsilon = l.eps + 0.0 })
  end,
}

-- Each group becomes a channel of an instance norm without weights of its own.
ops.group_norm = {
  setup = norm_setup, value = same,
  weights = function(_, v) return { { "weight", { v[1].c } }, { "bias", { v[1].c } } } end,
  module = function(l, v)
    return ("nn.GroupNorm(%s)"):format(arguments(("%d, %d"):format(l.out, v[1].c), { { "eps", py(l.eps), py(1e-5) } }))
  end,
  call = called,
  onnx = function(b, l, v, x, w)
    local ones, zeros, axes = {}, {}, v[1].flat and { 0 } or { 1, 2 }
    for i = 1, l.out do ones[i], zeros[i] = 1.0, 0.0 end
    local apart = b:node("Reshape", { x[1], b:ints { 0, l.out, -1 } })
    local normed = b:node("InstanceNormalization", { apart, b:floats(ones), b:floats(zeros) },
      { epsilon = l.eps + 0.0 })
    local whole = b:node("Reshape", { normed, b:node("Shape", { x[1] }) })
    local function of_channels(name)
      return v[1].flat and w[name] or b:node("Unsqueeze", { w[name], b:ints(axes) })
    end
    return b:node("Add", { b:node("Mul", { whole, of_channels "weight" }), of_channels "bias" })
  end,
}

-- ---- pools ----

local function pool(call, onnx, attributes)
  return {
    setup = function(l)
      l.kernel, l.pad = two(l.kernel, 2), two(l.pad, 0)
      local stride = two(l.stride, 0)
      l.stride = { stride[1] ~= 0 and stride[1] or l.kernel[1], stride[2] ~= 0 and stride[2] or l.kernel[2] }
    end,
    value = function(l, v)
      local function side(i, n) return (n + 2 * l.pad[i] - l.kernel[i]) // l.stride[i] + 1 end
      return map(v[1], v[1].c, side(1, v[1].h), side(2, v[1].w))
    end,
    call = function(l, _, x)
      return ("F.%s(%s)"):format(call, arguments(("%s, %s"):format(x[1], pair(l.kernel)), {
        { "stride", pair(l.stride), pair(l.kernel) }, { "padding", pair(l.pad), "0" } }))
    end,
    onnx = function(b, l, _, x)
      local a = { kernel_shape = l.kernel, strides = l.stride, pads = { l.pad[1], l.pad[2], l.pad[1], l.pad[2] } }
      for k, value in next, attributes do a[k] = value end
      return b:node(onnx, { x[1] }, a)
    end,
  }
end

ops.max_pool = pool("max_pool2d", "MaxPool", {})
ops.avg_pool = pool("avg_pool2d", "AveragePool", { count_include_pad = 1 })

ops.mean = {
  value = function(_, v) return map(v[1], v[1].c, 1, 1) end,
  call = function(_, _, x) return ("%s.mean((2, 3), keepdim=True)"):format(x[1]) end,
  onnx = function(b, _, _, x) return b:node("GlobalAveragePool", { x[1] }) end,
}

-- ---- several values ----

local function alike(v)
  for i = 2, #v do
    if v[i].flat ~= v[1].flat or v[i].h ~= v[1].h or v[i].w ~= v[1].w then return false end
  end
  return true
end

ops.add = {
  value = function(_, v) return alike(v) and v[1] or nil end,
  call = function(_, _, x) return table.concat(x, " + ") end,
  onnx = function(b, _, _, x)
    local sum = x[1]
    for i = 2, #x do sum = b:node("Add", { sum, x[i] }) end
    return sum
  end,
}

ops.concat = {
  value = function(_, v)
    local c = 0
    for i = 1, #v do c = c + v[i].c end
    return alike(v) and { c = c, h = v[1].h, w = v[1].w, flat = v[1].flat } or nil
  end,
  call = function(_, _, x) return ("torch.cat((%s), 1)"):format(table.concat(x, ", ")) end,
  onnx = function(b, _, _, x) return b:node("Concat", x, { axis = 1 }) end,
}

-- One may be a number for each sample and channel: as a row it is made a map of one pixel, or the other way round.
local function factor(a, b) return a.c == b.c and a.h * a.w == 1 end

local function product_of(v) return factor(v[1], v[2]) and v[2] or v[1] end

ops.mul = {
  value = function(_, v)
    local fits = factor(v[1], v[2]) or factor(v[2], v[1]) or v[1].c == v[2].c and alike(v)
    return fits and product_of(v) or nil
  end,
  call = function(_, v, x)
    local to, parts = product_of(v), {}
    for i = 1, 2 do
      parts[i] = v[i].flat == to.flat and x[i] or to.flat and x[i] .. ".flatten(1)" or x[i] .. "[:, :, None, None]"
    end
    return table.concat(parts, " * ")
  end,
  onnx = function(b, _, v, x)
    local to, parts = product_of(v), {}
    for i = 1, 2 do
      parts[i] = v[i].flat == to.flat and x[i] or to.flat and b:node("Flatten", { x[i] }, { axis = 1 }) or
        b:node("Unsqueeze", { x[i], b:ints { 2, 3 } })
    end
    return b:node("Mul", parts)
  end,
}

-- ---- shapes ----

ops.flatten = {
  value = function(_, v) return v[1].flat and v[1] or { c = v[1].c * v[1].h * v[1].w, h = 1, w = 1, flat = true } end,
  call = function(_, v, x) return v[1].flat and x[1] or x[1] .. ".flatten(1)" end,
  onnx = function(b, _, v, x) return v[1].flat and x[1] or b:node("Flatten", { x[1] }, { axis = 1 }) end,
}

-- A second value that it reads is one whose size it gets: that of `like`, or the image, where `size` is the image's own.
ops.upsample = {
  setup = function(l)
    l.scale, l.size, l.mode = two(l.scale, 0), two(l.size, 0), l.mode or "nearest"
    l.align_corners = l.align_corners or false
  end,
  value = function(l, v)
    if v[2] then return map(v[1], v[1].c, v[2].h, v[2].w) end
    if l.scale[1] ~= 0 then return map(v[1], v[1].c, v[1].h * l.scale[1], v[1].w * l.scale[2]) end
    return map(v[1], v[1].c, l.size[1], l.size[2])
  end,
  call = function(l, v, x)
    local size = v[2] and "size=" .. x[2] .. ".shape[2:]" or l.scale[1] ~= 0 and "scale_factor=" .. pair(l.scale) or
      ("size=(%d, %d)"):format(l.size[1], l.size[2])
    local aligned = l.align_corners and ", align_corners=True" or ""
    return ("F.interpolate(%s, %s, mode=%s%s)"):format(x[1], size, py(l.mode), aligned)
  end,
  onnx = function(b, l, v, x)
    local a = { mode = "linear", coordinate_transformation_mode = l.align_corners and "align_corners" or "half_pixel" }
    if l.mode == "nearest" then
      a = { mode = "nearest", nearest_mode = "floor", coordinate_transformation_mode = "asymmetric" }
    end
    if not v[2] and l.scale[1] ~= 0 then
      return b:node("Resize", { x[1], "", b:floats { 1.0, 1.0, l.scale[1] + 0.0, l.scale[2] + 0.0 } }, a)
    end
    local size = v[2] and b:node("Shape", { x[2] }, { start = 2, ["end"] = 4 }) or b:ints(l.size)
    local channels = b:node("Shape", { x[1] }, { start = 0, ["end"] = 2 })
    return b:node("Resize", { x[1], "", "", b:node("Concat", { channels, size }, { axis = 0 }) }, a)
  end,
}

-- ---- functions of one number ----

local function fn(call, onnx, attributes)
  return {
    value = same, call = function(_, _, x) return call:format(x[1]) end,
    onnx = type(onnx) == "function" and onnx or function(b, _, _, x) return b:node(onnx, { x[1] }, attributes) end,
  }
end

ops.relu = fn("F.relu(%s)", "Relu")
ops.sigmoid = fn("torch.sigmoid(%s)", "Sigmoid")
ops.hard_sigmoid = fn("F.hardsigmoid(%s)", "HardSigmoid", { alpha = 1 / 6, beta = 0.5 })
ops.hard_swish = fn("F.hardswish(%s)", "HardSwish")
ops.relu6 = fn("F.relu6(%s)", function(b, _, _, x) return b:node("Clip", { x[1], b:float(0.0), b:float(6.0) }) end)
ops.silu = fn("F.silu(%s)", function(b, _, _, x) return b:node("Mul", { x[1], b:node("Sigmoid", { x[1] }) }) end)

ops.leaky_relu = {
  setup = function(l) l.negative_slope = l.negative_slope or 0.01 end, value = same,
  call = function(l, _, x) return ("F.leaky_relu(%s, %s)"):format(x[1], py(l.negative_slope)) end,
  onnx = function(b, l, _, x) return b:node("LeakyRelu", { x[1] }, { alpha = l.negative_slope + 0.0 }) end,
}

-- Half of x, times 1 + f(x): f is erf(x / sqrt 2), or tanh(sqrt(2 / pi) (x + 0.044715 x^3)).
ops.gelu = {
  setup = function(l) l.approximate = l.approximate or "none" end, value = same,
  call = function(l, _, x)
    return ("F.gelu(%s%s)"):format(x[1], l.approximate == "tanh" and ', approximate="tanh"' or "")
  end,
  onnx = function(b, l, _, x)
    local inner
    if l.approximate == "tanh" then
      local cube = b:node("Mul", { b:node("Mul", { x[1], x[1] }), b:node("Mul", { x[1], b:float(0.044715) }) })
      inner = b:node("Tanh", { b:node("Mul", { b:node("Add", { x[1], cube }), b:float((2 / math.pi) ^ 0.5) }) })
    else
      inner = b:node("Erf", { b:node("Mul", { x[1], b:float(0.5 ^ 0.5) }) })
    end
    return b:node("Mul", { b:node("Mul", { x[1], b:float(0.5) }), b:node("Add", { inner, b:float(1.0) }) })
  end,
}

ops.dropout = {
  setup = function(l) l.p = l.p or 0.5 end, value = same,
  call = function(l, v, x)
    return ("F.dropout%s(%s, %s, self.training)"):format(l.maps and not v[1].flat and "2d" or "", x[1], py(l.p))
  end,
  onnx = function(_, _, _, x) return x[1] end, -- a file for prediction
}

-- ---- blocks ----

ops.residual = {
  parts = function(l, v)
    local stride = two(l.stride, 1)
    local list, last = {}, nil
    local function conv(name, norm, kernel, s, from)
      list[#list + 1] = { type = "conv", out = l.out, kernel = kernel, stride = s, pad = kernel // 2, bias = false,
        name = name, from = from and { from } or nil }
      list[#list + 1] = { type = "batch_norm", eps = l.eps, momentum = l.momentum, name = norm }
    end
    conv("conv1", "bn1", 3, stride)
    list[#list + 1] = { type = "relu", name = "relu" }
    conv("conv2", "bn2", 3, 1)
    last = "input"
    if stride[1] ~= 1 or stride[2] ~= 1 or v[1].c ~= l.out then
      conv("downsample.0", "downsample.1", 1, stride, "input")
      last = "downsample.1"
    end
    list[#list + 1] = { type = "add", from = { "bn2", last }, name = "sum" }
    list[#list + 1] = { type = "relu", name = "out" }
    return list
  end,
}

return ops
