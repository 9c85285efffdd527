-- SPDX-License-Identifier: MIT
-- From what network.json says to one list of operations with shapes and weights, which torch.lua and onnx.lua write.
local core = require "spcore.core"
local made = require "spcore.export.stages"
local ops = require "spcore.export.ops"
local words = require "spcore.words"

local walk = {}

-- What changes nothing where nothing is trained.
local by_chance = {
  flip = true, color_jitter = true, blur = true, batch_rotate = true, affine = true, perspective = true,
  elastic = true, erase = true, mixup = true, cutmix = true, mixup_or_cutmix = true,
  solarize = true, posterize = true, invert = true, gamma = true, autocontrast = true, equalize = true, grey = true,
  channel_drop = true, sharpness = true, gaussian_noise = true, jpeg_noise = true, rand_augment = true,
  trivial_augment = true,
}

-- ---- what is done to images before the network ----

local function sides(v) return type(v) == "table" and { v[1], v[2] or v[1] } or { v, v } end
local function numbers(v, default) return type(v) == "table" and v or { v or default } end

local function extended(image, step, h, w)
  local steps = table.move(image.steps, 1, #image.steps, 1, {})
  steps[#steps + 1] = step
  return { image = true, steps = steps, c = image.c, h = h or image.h, w = w or image.w,
    bytes = image.bytes and step.op ~= "float" and step.op ~= "normalize", of_bytes = image.of_bytes, read = image.read, port = image.port }
end

-- Both images of a sample as one: the channels of the first, then those of the second, prepared alike.
local function doubled(image)
  local function twice(list) return #list > 1 and table.move(list, 1, #list, #list + 1, table.move(list, 1, #list, 1, {})) or list end
  local both = { steps = {}, c = 2 * image.c, two = true }
  for k, v in next, image do
    if both[k] == nil and k ~= "port" then both[k] = v end
  end
  for i, step in ipairs(image.steps) do
    local copy = {}
    for k, v in next, step do copy[k] = v end
    if step.op == "normalize" then copy.mean, copy.std = twice(step.mean), twice(step.std) end
    both.steps[i] = copy
  end
  return both
end

-- One of the two images of the network's input.
local half = {
  value = function(_, v) return { c = v[1].c // 2, h = v[1].h, w = v[1].w } end,
  call = function(l, v, x) return ("%s[:, %d:%d]"):format(x[1], l.part * v[1].c // 2, (l.part + 1) * v[1].c // 2) end,
  onnx = function(b, l, v, x)
    local n = v[1].c // 2
    return b:node("Slice", { x[1], b:ints { l.part * n }, b:ints { (l.part + 1) * n }, b:ints { 1 } })
  end,
}

local prepare = {}

function prepare.to_float(p, x) return extended(x, { op = "float", scale = p.scale or false }) end

function prepare.normalize(p, x)
  return extended(x, { op = "normalize", scale = p.scale or false, mean = numbers(p.mean, 0), std = numbers(p.std, 1) })
end

function prepare.resize(p, x)
  local size = sides(p.size)
  return extended(x, { op = "resize", size = size, interpolation = p.interpolation or "bilinear", antialias = p.antialias ~= false },
    size[1], size[2])
end

local function crop(p, x, size, stage)
  if p.mode == "roi_align" then
    core.fail(("stage '%s': mode = \"roi_align\" is not exported; train with mode = \"exact\""):format(stage))
  end
  size = sides(size)
  return extended(x, { op = "crop", size = size }, size[1], size[2])
end

function prepare.batch_crop(p, x, stage) return crop(p, x, p.size, stage) end

-- The whole image, where nothing is drawn.
function prepare.batch_resized_crop(p, x, stage)
  local size = sides(p.size)
  if size[1] == x.h and size[2] == x.w then return x end
  core.fail(("stage '%s': size = %d,%d of images of %d x %d is not exported; take batch_resized_crop { size = size }"):format(
    stage, size[1], size[2], x.h, x.w))
end

function prepare.augment(p, x, stage)
  if p.crop then x = crop(p, x, p.crop, stage) end
  if p.size then x = prepare.resize({ size = p.size }, x) end
  return prepare.normalize(p, x)
end

-- ---- the walk ----

local state = {}
state.__index = state

local function fail(...) core.fail((...):format(select(2, ...))) end

local function new_value(self, v, name)
  local value = { c = v.c, h = v.h, w = v.w, flat = v.flat, id = #self.values + 1, name = name }
  self.values[value.id] = value
  return value
end

local function shown(v) return v.flat and ("N x %d"):format(v.c) or ("N x %d x %d x %d"):format(v.c, v.h, v.w) end

-- One layer, `name` within the stage, of the values v -> its value
local function add_op(self, stage, layer, name, v, like)
  local row = layer.row or ops[layer.type]
  if not row then fail("stage '%s', layer '%s': '%s' has no form in PyTorch or ONNX here", stage, name, tostring(layer.type)) end
  local l = {}
  for k, value in next, layer do l[k] = value end
  if row.parts then return self:layers(stage, row.parts(l, v), v, name .. ".") end
  local given = l.size -- the image's size, where that is what a layer states
  if l.type == "upsample" and not like and given and self.input and type(given) == "table" and given[1] ~= 0 and
      given[1] == self.stated.h and (given[2] or given[1]) == self.stated.w then
    like = self.input
  end
  if row.setup then row.setup(l, v) end
  local reads = table.move(v, 1, #v, 1, {})
  if like then reads[#reads + 1] = like end
  local out = row.value(l, reads)
  if not out then
    local shapes = {}
    for i, value in ipairs(v) do shapes[i] = shown(value) end
    fail("stage '%s', layer '%s' (%s): it cannot read %s", stage, name, l.type, table.concat(shapes, ", "))
  end
  local prefix = self.prefix(stage) .. name
  local op = { kind = l.type, name = prefix, l = l, reads = reads, weights = {}, row = row }
  for i, w in ipairs(row.weights and row.weights(l, reads) or {}) do
    op.weights[i] = { part = w[1], name = prefix .. "." .. w[1], shape = w[2], state = w.state }
  end
  op.out = new_value(self, out, prefix)
  self.ops[#self.ops + 1] = op
  return op.out
end

-- A list of layers, of the values that come in: the first is "input", those behind it are "skips.1" ... -> the last value, the taps.
-- prefix: of a block that stands for several
function state:layers(stage, list, v, prefix)
  local known, taps, last = { input = v[1] }, {}, v[1]
  for i = 2, #v do known["skips." .. i - 1] = v[i] end
  local function find(name, layer)
    return known[name] or fail("stage '%s', layer '%s': there is no '%s' before it", stage, layer, tostring(name))
  end
  for i, layer in ipairs(list) do
    local name = layer.name and layer.name ~= "" and layer.name or tostring(i - 1)
    local reads = {}
    for k, from in ipairs(layer.from or {}) do reads[k] = find(from, name) end
    if #reads == 0 then reads[1] = last end
    local like = layer.like and layer.like ~= "" and find(layer.like, name) or nil
    last = add_op(self, stage, layer, (prefix or "") .. name, reads, like)
    known[name] = last
    if layer.tap then taps[#taps + 1] = last end
  end
  return last, taps
end

-- The encoder's maps where no layer is a tap: what something makes smaller, but the image.
local function halved(self, first, image)
  local maps, seen = {}, { [image] = true }
  for i = first, #self.ops do
    local op = self.ops[i]
    local v = op.reads[1]
    if not seen[v] and not op.out.flat and op.out.h < v.h then seen[v], maps[#maps + 1] = true, v end
  end
  return maps
end

-- What comes in as a value of the network: an image, as it is prepared so far, is its input.
local function as_value(self, x, stage)
  if not x.image then return x end
  if self.two and x.port then
    if not self.input then
      self.stated = { h = x.h, w = x.w }
      self.input_of = doubled(x)
      self.input = new_value(self, { c = 2 * x.c, h = self.h or x.h, w = self.w or x.w }, "image")
    end
    local part = x.port == "second" and 1 or 0
    self.halves[part] = self.halves[part] or
      add_op(self, "images", { type = "half", part = part, row = half }, part == 0 and "first" or "second", { self.input })
    return self.halves[part]
  end
  if self.input and self.input_of ~= x then
    fail("stage '%s' reads a second input beside '%s'; networks of one input are exported", stage, self.input.name)
  end
  if not self.input then
    self.stated = { h = x.h, w = x.w }
    self.input_of = x
    self.input = new_value(self, { c = x.c, h = self.h or x.h, w = self.w or x.w, flat = x.flat }, "image")
  end
  return self.input
end

local function network(self, s, v)
  local p, list, first = s.params, s.params.layers, #self.ops + 1
  if not list or #list == 0 then list = made[s.stage](p, v) end
  local last, taps = self:layers(s.name, list, v)
  if s.stage == "encoder" and #taps == 0 then taps = halved(self, first, v[1]) end
  return { main = last, maps = taps }
end

local function joined(kind)
  return function(self, s, v)
    if (s.params.axis or 1) ~= 1 then fail("stage '%s': axis = %s is not exported, only 1", s.name, s.params.axis) end
    return { main = add_op(self, s.name, { type = kind }, kind, v) }
  end
end

local run = {
  encoder = network, decoder = network, classifier = network, layers = network, add = joined "add", concat = joined "concat",
  dropout = function(self, s, v)
    return { main = add_op(self, s.name, { type = "dropout", p = s.params.p, maps = s.params.maps }, "dropout", v) }
  end,
}

local function picked(made_of, ref)
  local of = made_of[ref.stage]
  if not of then fail("network.json: there is no stage '%s' before it is read", tostring(ref.stage)) end
  if ref.port == "maps" then
    local maps = of.maps or {}
    if not ref.item then return maps end
    return { maps[ref.item] or fail("network.json: stage '%s' has no map %s", ref.stage, ref.item) }
  end
  return { of.images and of.images[ref.item or 1] or of.main }
end

-- What of files that are no RGB or grey bytes becomes the image; nil: they are such.
local function numbers_of(p, ref)
  local dtype, channels = p.dtype or "uint8", ref.shape[2]
  if dtype == "uint8" and (channels == 1 or channels == 3) or not p.dtype and ref.dtype ~= "uint8" then return end
  local lo, hi = (p.range or ""):match "^%s*(%S-)%s*,%s*(%S-)%s*$"
  return { dtype = dtype, lo = tonumber(lo), hi = tonumber(hi), nodata = p.nodata ~= "" and p.nodata or nil,
    fill = tonumber(p.nodata_fill or "") or tonumber(lo) or 0 }
end

local function source_of(s, ref)
  local shape, p = ref.shape, s.params
  if type(shape) ~= "table" or #shape ~= 4 and #shape ~= 2 then
    fail("stage '%s': its output '%s' is no image, and no row of numbers", s.name, tostring(ref.port))
  end
  local map = #shape == 4
  return { image = true, steps = {}, c = shape[2], h = map and shape[3] or 1, w = map and shape[4] or 1, flat = not map,
    port = map and ref.port or nil, bytes = ref.dtype == "uint8", of_bytes = ref.dtype == "uint8",
    read = { size = map and { shape[3], shape[4] } or nil, resize = p.resize or "squash", shorter = p.shorter or 0,
      interpolation = p.interpolation or "bilinear", orient = p.orient ~= false, numbers = numbers_of(p, ref) } }
end

-- What stage s makes of what it reads.
local function compute(self, s, done)
  local v = {}
  local function read(port)
    for _, ref in ipairs(s.inputs[port] or {}) do
      local from = self.sources[ref.stage]
      if from then
        local key = ref.stage .. "." .. tostring(ref.port)
        self.images[key] = self.images[key] or source_of(from, ref)
        v[#v + 1] = self.images[key]
      else
        for _, value in ipairs(picked(done, ref)) do v[#v + 1] = value end
      end
    end
  end
  if by_chance[s.stage] or prepare[s.stage] then
    read(s.inputs.images and "images" or "image")
    if #v ~= 1 and not (#v == 2 and self.two) then fail("stage '%s' reads %d lists of images; one is exported", s.name, #v) end
    if s.params.always then fail("stage '%s': always = true draws in predictions, too, which is not exported", s.name) end
    if not v[1].image then fail("stage '%s' (%s) reads what the network gives, and only images are prepared so", s.name, s.stage) end
    local images = {}
    for i, image in ipairs(v) do
      images[i] = by_chance[s.stage] and image or prepare[s.stage](s.params, image, s.name)
    end
    return { main = images[1], images = images }
  end
  if not run[s.stage] then
    fail("stage '%s' (%s) is not exported: encoder, decoder, classifier, layers, dropout, add and concat are, behind %s", s.name,
      s.stage, table.concat(words.keys(prepare), ", "))
  end
  for _, port in ipairs { "features", "image", "x", "skips" } do read(port) end
  if s.stage == "concat" and #v == 2 and v[1].image and v[2].image and v[1].port ~= v[2].port then
    if v[1].bytes then fail("stage '%s' reads bytes", s.name) end
    return { main = doubled(v[1]) }
  end
  for i, x in ipairs(v) do
    if x.image and x.bytes then fail("stage '%s' reads bytes", s.name) end
    v[i] = as_value(self, x, s.name)
  end
  return run[s.stage](self, s, v)
end

local function outputs_of(self, net, done)
  local taken = {}
  for i, out in ipairs(net.outputs) do
    local value = picked(done, out.from)[1]
    if not value or value.image then fail("network.json: the loss of output %d reads no network", i) end
    local name = out.from.port or "output"
    if #net.outputs > 1 then name = out.from.stage .. "_" .. name .. (out.from.item and "_" .. out.from.item or "") end
    taken[i] = { name = name, value = value, loss = out.loss }
  end
  return taken
end

local function once(net, prefix, h, w)
  local self = setmetatable({ values = {}, ops = {}, sources = {}, images = {}, halves = {}, prefix = prefix, h = h, w = w }, state)
  for _, s in ipairs(net.stages) do
    for _, refs in next, s.inputs or {} do
      for _, ref in ipairs(refs) do self.two = self.two or ref.port == "second" end
    end
  end
  local done = {}
  for _, s in ipairs(net.stages) do
    if s.source then self.sources[s.name] = s else done[s.name] = compute(self, s, done) end
  end
  self.outputs = outputs_of(self, net, done)
  return self
end

-- ---- which sizes ----

-- The walk of another size, where its weights are those of `self`.
local function fits(self, net, prefix, h, w)
  local ok, got = pcall(once, net, prefix, h, w)
  if not ok or #got.ops ~= #self.ops then return end
  for i, op in ipairs(got.ops) do
    for k, weight in ipairs(op.weights) do
      if table.concat(weight.shape, " ") ~= table.concat(self.ops[i].weights[k].shape, " ") then return end
    end
  end
  return got
end

local MORE <const> = { 0, 1, 2, 3, 5, 8, 13, 37 } -- times as many pixels are tried as well

-- The least number of pixels of which both sides may be any multiple, from that of training on; nil: no other size fits.
local function multiple_of(self, net, prefix)
  local v = self.input
  if v.flat then return end
  for shift = 0, 8 do
    local m, all = 1 << shift, true
    for i, more in ipairs(MORE) do
      local h, w = (v.h + m - 1) // m * m + more * m, (v.w + m - 1) // m * m + MORE[#MORE + 1 - i] * m
      all = all and fits(self, net, prefix, h, w) ~= nil
    end
    if all then return m end
  end
end

-- How each side of each output depends on the image's: "same", "other" or "fixed".
local function sides_of(self, net, prefix)
  local m, v = self.multiple, self.input
  local other = m and fits(self, net, prefix, (v.h // m + 5) * m, (v.w // m + 9) * m)
  for i, out in ipairs(self.outputs) do
    local a, b = out.value, other and other.outputs[i].value
    out.side = not b and "fixed" or a.h == b.h and a.w == b.w and "fixed" or
      a.h == v.h and a.w == v.w and b.h == other.input.h and b.w == other.input.w and "same" or "other"
  end
end

-- of(net, prefix) -> { input =, image = what is done to it, values =, ops =, outputs =, multiple = }. prefix(STAGE): what the names of
-- its weights begin with
function walk.of(net, prefix)
  local self = once(net, prefix)
  if not self.input then core.fail "network.json: no stage reads the images" end
  self.multiple = multiple_of(self, net, prefix)
  sides_of(self, net, prefix)
  return self
end

-- Ends where `file` has not the weights that the operations read.
function walk.check(self, file)
  for _, op in ipairs(self.ops) do
    for _, w in ipairs(op.weights) do
      local t = file.by[w.name]
      if not t then core.fail(("%s: there is no tensor '%s'"):format(file.path, w.name)) end
      if table.concat(t.shape, " x ") ~= table.concat(w.shape, " x ") then
        core.fail(("%s: '%s' is %s, but %s is wanted"):format(file.path, w.name, table.concat(t.shape, " x "),
          table.concat(w.shape, " x ")))
      end
      if t.dtype ~= (w.state and "I64" or "F32") then
        core.fail(("%s: '%s' is of type %s, but float32 is exported"):format(file.path, w.name, t.dtype))
      end
    end
  end
end

-- The affine map of values that the steps come to: { scale =, mean =, std = }, x * scale less mean over std.
function walk.affine(image)
  local scale, mean, std = 1, nil, nil
  local function by_channel(list) return function(i) return list[#list == 1 and 1 or i] end end
  for _, step in ipairs(image.steps) do
    if step.scale then
      if mean then for i = 1, #mean do mean[i], std[i] = mean[i] * 255, std[i] * 255 end
      else scale = scale / 255 end
    end
    if step.op == "normalize" then
      local m, s = by_channel(step.mean), by_channel(step.std)
      local n = math.max(#step.mean, #step.std, mean and #mean or 1)
      local was_mean, was_std = by_channel(mean or { 0 }), by_channel(std or { 1 })
      local new_mean, new_std = {}, {}
      for i = 1, n do
        new_mean[i], new_std[i] = was_mean(i) + m(i) * was_std(i), was_std(i) * s(i)
      end
      mean, std = new_mean, new_std
    end
  end
  return { scale = scale, mean = mean or { 0 }, std = std or { 1 } }
end

return walk
