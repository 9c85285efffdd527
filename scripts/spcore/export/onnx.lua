-- SPDX-License-Identifier: MIT
-- A network as an ONNX file: opset 17, weights within, the number of images free and, where the network allows it, their size.
local core = require "spcore.core"
local json = require "spcore.json"
local protobuf = require "spcore.export.protobuf"
local walk = require "spcore.export.walk"

local onnx = {}

local OPSET <const>, IR <const> = 17, 8
local FLOAT <const>, UINT8 <const>, INT64 <const> = 1, 2, 7
local MOST <const> = 2147483647 -- bytes of a message

local message = protobuf.message

-- ---- nodes ----

local builder = {}
builder.__index = builder

-- Attributes: whole numbers, floats, texts, lists of whole numbers.
local function attribute(name, v)
  local a = message():text(1, name)
  if math.type(v) == "integer" then return a:int(3, v):int(20, 2) end
  if type(v) == "number" then return a:float(2, v):int(20, 1) end
  if type(v) == "string" then return a:text(4, v):int(20, 3) end
  return a:ints(8, v):int(20, 7)
end

function builder:node(op, inputs, attributes)
  local m, keys = message(), {}
  local out = self.count == 0 and self.label or ("%s/%d"):format(self.label, self.count)
  self.count, self.nodes = self.count + 1, self.nodes + 1
  for _, name in ipairs(inputs) do m:text(1, name) end
  m:text(2, out):text(3, out):text(4, op)
  for k in next, attributes or {} do keys[#keys + 1] = k end
  table.sort(keys)
  for _, k in ipairs(keys) do m:sub(5, attribute(k, attributes[k])) end
  self.graph:sub(1, m)
  return out
end

local function tensor(name, type, shape)
  local t = message()
  if #shape > 0 then t:ints(1, shape) end
  return t:int(2, type):text(8, name)
end

-- A constant, each once.
local function constant(self, kind, type, format, list, shape)
  local name = kind .. "_" .. table.concat(list, "_")
  if #name > 60 then name = ("%s_%dx_%s"):format(kind, #list, core.checksum(name):sub(1, 8)) end
  if not self.constants[name] then
    self.constants[name] = true
    local out = {}
    for i, v in ipairs(list) do out[i] = format:pack(v) end
    self.graph:sub(5, tensor(name, type, shape):text(9, table.concat(out)))
  end
  return name
end

function builder:ints(list) return constant(self, "ints", INT64, "<i8", list, { #list }) end
function builder:floats(list) return constant(self, "floats", FLOAT, "<f", list, { #list }) end
function builder:float(v) return constant(self, "float", FLOAT, "<f", { v }, {}) end

-- ---- inputs and outputs ----

local function value_info(name, type, dims)
  local shape = message()
  for _, d in ipairs(dims) do
    local dim = message()
    if math.type(d) == "integer" then dim:int(1, d) else dim:text(2, d) end
    shape:sub(1, dim)
  end
  return message():text(1, name):sub(2, message():sub(1, message():int(1, type):sub(2, shape)))
end

local function output_dims(v, side)
  if v.flat then return { "batch", v.c } end
  if side == "fixed" then return { "batch", v.c, v.h, v.w } end
  return { "batch", v.c, side == "same" and "height" or "out_height", side == "same" and "width" or "out_width" }
end

-- ---- the file ----

-- Bytes, N x H x W x C, to what the network reads.
local function prepared(b, net)
  local v, a = net.input, walk.affine(net.image)
  local function each(list, f)
    local out = {}
    for i = 1, v.c do out[i] = f(list[#list == 1 and 1 or i], i) end
    return b:node("Unsqueeze", { b:floats(out), b:ints { 1, 2 } })
  end
  b.label, b.count = "/prepared", 0
  local x = b:node("Transpose", { b:node("Cast", { "image" }, { to = FLOAT }) }, { perm = { 0, 3, 1, 2 } })
  x = b:node("Sub", { x, each(a.mean, function(m) return m / a.scale end) })
  return b:node("Mul", { x, each(a.std, function(s) return a.scale / s end) })
end

local function weight(b, file, w)
  local t = file.by[w.name]
  local m = tensor(w.name, FLOAT, w.shape)
  m:data(9, { bytes = t.bytes, copy = function(put) file:copy(w.name, put) end })
  b.graph:sub(5, m)
  return w.name
end

local function fill(b, net, file, names)
  for _, op in ipairs(net.ops) do
    local x, w = {}, {}
    for i, v in ipairs(op.reads) do x[i] = names[v.id] end
    for _, one in ipairs(op.weights) do
      if not one.state then w[one.part] = weight(b, file, one) end
    end
    b.label, b.count = "/" .. op.name, 0
    names[op.out.id] = op.row.onnx(b, op.l, op.reads, x, w)
  end
end

-- write(net, file, about, put) -> the number of nodes. about: { version =, texts = { KEY, VALUE, ... }, bytes = the graph takes bytes }
function onnx.write(net, file, about, put)
  local v, input = net.input, nil
  local b = setmetatable({ graph = message(), constants = {}, nodes = 0, count = 0, label = "" }, builder)
  local names = { [v.id] = "image" }
  local h, w = net.multiple and "height" or v.h, net.multiple and "width" or v.w
  if about.bytes then
    names[v.id] = prepared(b, net)
    input = value_info("image", UINT8, { "batch", h, w, v.c })
  else
    input = value_info("image", FLOAT, v.flat and { "batch", v.c } or { "batch", v.c, h, w })
  end
  fill(b, net, file, names)
  for _, out in ipairs(net.outputs) do -- under the names that the run gives them
    b.label, b.count = out.name, 0
    b:node("Identity", { names[out.value.id] })
  end
  b.graph:text(2, about.name):sub(11, input)
  for _, out in ipairs(net.outputs) do b.graph:sub(12, value_info(out.name, FLOAT, output_dims(out.value, out.side))) end
  local model = message():int(1, IR):text(2, "spcore"):text(3, about.version):text(6, about.doc):sub(7, b.graph)
  model:sub(8, message():text(1, ""):int(2, OPSET))
  for _, pair in ipairs(about.texts) do
    model:sub(14, message():text(1, pair[1]):text(2, type(pair[2]) == "string" and pair[2] or json.encode(pair[2])))
  end
  if model.size > MOST then
    core.fail(("the network would be %.1f GB, and an ONNX file with its weights within has 2.1 GB at most; --torch DIR writes any size")
      :format(model.size / 1e9))
  end
  model:write(put)
  return b.nodes
end

return onnx
