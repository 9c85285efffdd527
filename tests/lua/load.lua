-- SPDX-License-Identifier: MIT
-- Weights of other frameworks: other floating types, other names, what may be missing or left out; and what is wrong with a file,
-- with the cure.
-- needs: onednn jansson
-- once: words
local t = require "check"
local json = require "spcore.json"
local sp = require "spcore"

local dir <close> = t.folder()
local path = dir.path .. "/w.safetensors"

local function build(width)
  local g = sp.graph { device = "cpu", seed = 1 }
  local data = g.toy_source { batch = 2 }
  local net = g.layers { data.x, name = "net", layers = { { "linear", width or 3 }, { "linear", 2 } } }
  return g, net
end

-- Packs of the values -2, -1.5, -1 ... as a type has them; all of these types have each of them.
local function half(v)
  if v == 0 then return 0 end
  local m, e = math.abs(v), 0
  while m >= 2 do m, e = m / 2, e + 1 end
  while m < 1 do m, e = m * 2, e - 1 end
  return (v < 0 and 0x8000 or 0) | (e + 15) << 10 | math.tointeger((m - 1) * 1024)
end
local packs = {
  F32 = function(v) return ("<f"):pack(v) end, F64 = function(v) return ("<d"):pack(v) end,
  I32 = function() return ("<i4"):pack(0) end,
  BOOL = function() return "\1" end,
  F16 = function(v) return ("<I2"):pack(half(v)) end, BF16 = function(v) return ("<f"):pack(v):sub(3) end,
}

-- `name`: what comes before the names, or a function of them, which may give several or none. `others`: names of single
-- numbers, or { name, type }.
local function write(dtype, name, change, others)
  local g <close>, net = build()
  local header, data, size, k = {}, {}, 0, 0
  local function put(own, shape, n, as)
    as = as or dtype
    header[own] = { dtype = as, shape = json.list(shape), data_offsets = json.list { size } }
    for i = 1, n do
      data[#data + 1] = packs[as](change and change(own, i) or (k + i) % 9 / 2 - 2)
      size = size + #data[#data]
    end
    header[own].data_offsets[2] = size
  end
  for _, w in ipairs(net:weights()) do
    local n = 1
    for _, d in ipairs(w.shape) do n = n * d end
    local names = type(name) == "string" and name .. w.name or name(w.name)
    for _, own in ipairs(type(names) == "string" and { names } or names) do put(own, w.shape, n) end
    k = k + n
  end
  for _, own in ipairs(others or {}) do
    local one = type(own) == "table" and own or { own }
    put(one[1], { 1 }, 1, one[2])
  end
  local text = json.encode(header)
  t.write(path, ("<I8"):pack(#text) .. text .. table.concat(data))
end

-- Exit code, the values, what is said. o.weights: what stands behind the file, such as ", prefix = ''"; o.carries: the same of
-- the layers.
local function load(o)
  o = o or {}
  t.write(dir.path .. "/load.lua", ([[
local sp = require "spcore"
local g <close> = sp.graph { device = "cpu", seed = 1 }
local data = g.toy_source { batch = 2 }
local net = g.layers { data.x, name = %q, weights = { %q%s }, layers = { { "linear", %d }, { "linear", 2 }%s } }
g:results { net.features }
for _ in g:steps(1) do end
for _, w in ipairs(net:weights()) do print(w.name, sp.json.encode(net:weight(w.name))) end
]]):format(o.name or "net", path, o.weights or "", o.width or 3, o.carries or ""))
  return t.spcore(dir.path, "run load.lua")
end

local plain

-- It loads, with these words or none.
local function loads(words, o)
  local _, out, said = load(o)
  t.eq(out, plain, said)
  if words then t.one_line(said, "w.safetensors: stage 'net'" .. words .. "\n$") else t.eq(said, "") end
end

local function refused(words, o)
  local code, _, err = load(o)
  t.eq(code, 1)
  t.one_line(err, words)
end

local code, err
write("F32", "")
code, plain, err = load()
t.eq(code .. err, "0")

-- ---- types and values ----

for dtype, word in pairs { F16 = "float16", BF16 = "bfloat16", F64 = "float64" } do
  write(dtype, "net.")
  local _, out, said = load()
  t.eq(out, plain, said)
  t.one_line(said, "w.safetensors: 4 tensors are " .. word .. " and become float32\n$")
end
write("I32", "")
refused "4 of another shape or type: .*0.bias is int32%[3%], wanted float32%[3%].*; save it with the types that are wanted\n$"
write("F32", "", function(name, i) return name == "1.weight" and i == 2 and 0 / 0 end)
code, _, err = load()
t.eq(code, 0)
t.one_line(err, "1 tensors have values that are not finite, '1.weight' the first: all that is computed from them is nan\n$")
refused("3 of another shape or type: .*; make the stages with the parameters that it was trained with\n$", { width = 4 })
t.write(dir.path .. "/settings.json", "{}")
refused("trained with, which .*/settings.json tells\n$", { width = 4 })
os.remove(dir.path .. "/settings.json")

-- ---- what comes before all names ----

for _, prefix in ipairs { "module.", "module.net.", "_orig_mod.", "backbone.", "encoder.net.", "module._orig_mod.backbone." } do
  write("F32", prefix)
  loads(" takes the entries behind '" .. prefix .. "'")
  loads(nil, { weights = (", prefix = %q"):format(prefix) })
  refused("does not fit stage 'net': 4 missing: .*; all are there behind '" .. prefix .. "': weights = { FILE, prefix = \""
    .. prefix .. "\" }\n$", { weights = ", prefix = ''" })
end
write("F32", "net.", nil, { "module.net.0.weight", "backbone.x" }) -- as they are goes first, and others are others'
loads()
write("F32", "module.", nil, { "net.x" }) -- so does what has the stage's name, if it fits
loads " takes the entries behind 'module.'; 1 of other parts: net.x"
for _, prefix in ipairs { "net.encoder.", "model.0.", "module.encoder_q.", "0" } do
  write("F32", prefix)
  refused("; all are there behind '" .. prefix .. "': weights = { FILE, prefix = \"" .. prefix .. "\" }\n$")
  loads(nil, { weights = (", prefix = %q"):format(prefix) })
end
write("F32", "backbone.")
loads(nil, { name = "backbone" })
loads(nil, { name = "backbone", weights = ", prefix = ''" })
for _, prefix in ipairs { "backbone.module.", "module.backbone.", "module.backbone.encoder.", "backbone.backbone." } do
  write("F32", prefix) -- what a stage is called as may be one of several
  loads(nil, { name = "backbone", weights = (", prefix = %q"):format(prefix) })
  local _, out, said = load { name = "backbone" }
  t.eq(out, plain, said)
  t.one_line(said, "stage 'backbone' takes the entries behind '" .. prefix .. "'\n$")
end
write("F32", "", nil, { "net.x" })
refused "does not fit stage 'net': 1 unexpected: net.x;"
loads(nil, { weights = ", ignore = { 'net.*' }" })
write("F32", "encoder.", nil, { "decoder.0.weight", "head.0.bias" })
loads " takes the entries behind 'encoder.'; 2 of other parts: decoder.0.weight, head.0.bias"
refused("no entry begins with 'back.', but with 'decoder.', 'encoder.', 'head.'; all are there behind 'encoder.'",
  { weights = ", prefix = 'back.'" })
refused("no entry begins with 'back.', but with .*'encoder.'", { weights = ", prefix = 'back.'", width = 4 })
write("F32", "encoder.", nil, { "encoder.x" })
refused "does not fit stage 'net' behind 'encoder.': 1 unexpected: encoder.x; .* ignore = { \"x\" } }\n$"
write("F32", function(own) return { "backbone." .. own, "module." .. own } end)
refused("fits stage 'net' behind 'module.' and behind 'backbone.': say which .* { FILE, prefix = \"module.\" }\n$")
loads(nil, { weights = ", prefix = 'backbone.'" })

-- ---- what is left out ----

write("F32", "", nil, { "fc.weight", "fc.bias" })
refused("2 unexpected: fc.weight, fc.bias; what is another's may be left out: weights = { FILE, ignore = { \"fc.*\" } }\n$")
loads(nil, { weights = ", ignore = { 'fc.*' }" })
loads(nil, { weights = ", ignore = 'fc.*'" })
loads(nil, { weights = ", ignore = { 'f?.weight', '[ef]c.bi*', 'fc.*' }, prefix = ''" })
loads(" leaves out fc.weight, fc.bias %(the classifier, which its layers do not have%)", { carries = ", head = { 'fc.*' }" })
write("F32", "", nil, { { "fc.mask", "BOOL" }, "fc.bias" }) -- of a type that we have not
loads(nil, { weights = ", ignore = 'fc.*'" })
refused("2 unexpected: fc.mask, fc.bias; what is another's may be left out")
-- only what is too many: 0.weight is taken
write("F32", "", nil, { "0.more.x", "0.more.y" })
refused("2 unexpected: 0.more.x, 0.more.y; .* ignore = { \"0%.more%.%*\" } }\n$")
loads(nil, { weights = ", ignore = { '0.more.*' }" })
write("F32", "", nil, { "0.gain" })
refused("1 unexpected: 0.gain; .* ignore = { \"0%.gain\" } }\n$")
write("BOOL", "")
local meta, why = require("spcore.core").examine(dir.path .. "/w.safetensors")
t.eq(meta, nil)
t.ok(why:find("w.safetensors: tensor '0.weight': dtype 'BOOL' is not taken", 1, true), why)
refused("4 of another shape or type: 0.weight is of a type that is not taken, wanted float32%[3,4%].*; otherwise save it with "
  .. "the types that are wanted\n$")
write("F32", "", nil, { "fc.weight", "fc.bias" })
refused("4 missing: 0.weight %(ignore '%*' leaves it out%)", { weights = ", ignore = { '*' }" })
refused("w.safetensors: ignore 'head.%*' is the name of no entry\n$", { weights = ", ignore = { 'fc.*', 'head.*' }" })
refused("1 missing: 1.weight %(ignore '1.w%*' leaves it out%); 2 unexpected", { weights = ", ignore = { '1.w*' }" })
refused("2 unexpected: fc.weight, fc.bias", { carries = ", head = { 'head.*', 'f' }" })
write("F32", "module.backbone.", nil, { "module.backbone.fc.bias", "module.aux.0", "module.aux.1" })
loads(" takes the entries behind 'module.backbone.'; leaves out module.backbone.fc.bias %(the classifier, which its layers do "
  .. "not have%); 2 of other parts: module.aux.0, module.aux.1", { carries = ", head = { 'fc.*' }" })
loads(" takes the entries behind 'module.backbone.'; 2 of other parts: module.aux.0, module.aux.1",
  { weights = ", ignore = { 'fc.*' }" })
refused("ignore 'module.%*' is the name of no entry behind 'module.backbone.'", { weights = ", ignore = { 'fc.*', 'module.*' }" })
refused("behind 'module.backbone.': 1 unexpected: module.backbone.fc.bias; .* ignore = { \"fc.*\" } }\n$")

-- ---- other names ----

local function timm(own) return (own:gsub("^0", "stem.conv"):gsub("^1", "head")) end
local names = "{ ['0'] = 'stem.conv', ['1.weight'] = 'head.weight', ['1'] = 'tail', ['1.bias'] = 'head.bias', ['none'] = 'x' }"
local dialects = ", names = { timm = " .. names .. ", other = { ['0'] = 'o' } }, head = { 'none.*' }"
write("F32", timm)
loads(nil, { weights = ", names = " .. names })
loads(" takes the entries with names in the dialect 'timm'", { carries = dialects })
refused("4 missing: 0.weight", {})
refused("with names in the dialect 'timm': 3 of another shape or type: stem.conv", { carries = dialects, width = 4 })
refused("4 missing: o.weight", { carries = dialects, weights = ", names = { ['0'] = 'o', ['1'] = 'p' }" })
refused("fits stage 'net' with names in the dialect 'same' and with names in the dialect 'timm': say which",
  { carries = (dialects:gsub("other = ", "same = " .. names .. ", other = ")) })
write("F32", function(own) return "backbone." .. timm(own) end, nil, { "backbone.x.bias", "neck" })
loads(" takes the entries behind 'backbone.' in the dialect 'timm'; leaves out backbone.x.bias %(the classifier, which its "
  .. "layers do not have%); 1 of other parts: neck", { carries = dialects })
loads(" takes the entries behind 'backbone.' in the dialect 'timm'; leaves out backbone.x.bias .*",
  { carries = dialects, weights = ", prefix = 'backbone.'" })
loads(" takes the entries behind 'backbone.'; 1 of other parts: neck",
  { weights = ", ignore = { 'x.*' }, names = " .. names })

-- ---- words for what is wrong in the script ----

for words, weights in pairs {
  ["weights has no option 'prefx'; did you mean 'prefix'"] = ", prefx = 'a'",
  ["weights: parameter 'prefix'"] = ", prefix = 1.5",
  ["weights: parameter 'ignore"] = ", ignore = { {} }",
  ["weights: names: a table is wanted, got a string"] = ", names = 'timm'",
  ["weights: names: %['name here'%] = 'name in the file' is wanted, got %['1'%] = 'a'"] = ", names = { 'a' }",
} do refused(words, { weights = weights }) end
refused("names.timm: a table is wanted, got a number", { carries = ", names = { timm = 1 }" })
refused("hed", { carries = ", hed = { 'fc.*' }" })
local g <close>, net = build()
local columns = net:weights()[1].shape[2] -- or of the bias
for _, weights in ipairs { { 1 }, { {} }, 3, { prefix = "" }, net } do
  t.raises("stage 'layers': ", function() g.layers { net.features, layers = { { "relu" } }, weights = weights } end)
end
t.raises("g:load: the path of a file is wanted", function() g:load "" end)
t.write(dir.path .. "/w.pth", "")
t.raises("w.pth: a file of PyTorch %(a pickle%), which is not read here: spcore_convert.py .*/w.pth %-o NAME writes", function()
  g:load(dir.path .. "/w.pth")
end)

-- ---- a whole graph: what comes before all names and what is left out may be said, and wrappers are found ----

local function whole(from, name)
  local g <close> = sp.graph { device = "cpu" }
  local data = g.toy_source { batch = 2 }
  local net = g.layers { data.x, name = name or "net", layers = { { "linear", 3 }, { "linear", 2 } } }
  g:results { net.features }
  g:load(from)
  return sp.json.encode(net:weight "1.weight")
end
write("F32", "net.")
local all = whole(path)
write("F32", "module.net.", nil, { "module.net.fc.bias" })
t.raises("does not fit the graph behind 'module.': 1 unexpected: module.net.fc.bias", whole, path)
t.eq(whole { path, ignore = { "net.fc.*" } }, all)
t.eq(whole { path, prefix = "module.", ignore = { "net.fc.*" } }, all)
t.raises("4 missing: net.0.weight", whole, { path, prefix = "" })
write("F32", "module.")
t.eq(whole(path, "module"), all) -- the stage's name
t.raises("4 missing: net.0.weight", whole, path)

-- ---- the same by hand ----

write("F32", "module.", nil, { "module.fc.bias" })
local h <close> = sp.hand { device = "cpu" }
local st = h.stage.layers { layers = { { "linear", 3 }, { "linear", 2 }, head = { "fc.*" } },
  weights = { path, prefix = "module." } }
local stream = h.stream()
stream:run(st, h.tensor { "f32", 2, columns })
stream:sync()
t.eq(sp.json.encode(st:weight "1.weight"), all)
h.stage.layers { layers = { { "relu" } }, weights = "" }
t.raises("stage 'layers': weights has no option 'prefx'", function() h.stage.layers { weights = { path, prefx = "" } } end)
