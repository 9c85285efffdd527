-- SPDX-License-Identifier: MIT
-- Weights of other frameworks: other floating types, names behind "module.", what may be missing; and what is wrong with a
-- file, with the cure.
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
  F16 = function(v) return ("<I2"):pack(half(v)) end, BF16 = function(v) return ("<f"):pack(v):sub(3) end,
}

local function write(dtype, prefix, change)
  local g <close>, net = build()
  local header, data, k = {}, {}, 0
  for _, w in ipairs(net:weights()) do
    local n = 1
    for _, size in ipairs(w.shape) do n = n * size end
    local from = #table.concat(data)
    for i = 1, n do
      local v = (k + i) % 9 / 2 - 2
      data[#data + 1] = packs[dtype](change and change(w.name, i) or v)
    end
    k = k + n
    header[prefix .. w.name] = { dtype = dtype, shape = json.list(w.shape),
      data_offsets = json.list { from, #table.concat(data) } }
  end
  local text = json.encode(header)
  t.write(path, ("<I8"):pack(#text) .. text .. table.concat(data))
end

-- The values, and what is said.
local function load(width)
  t.write(dir.path .. "/load.lua", ([[
local sp = require "spcore"
local g <close> = sp.graph { device = "cpu", seed = 1 }
local data = g.toy_source { batch = 2 }
local net = g.layers { data.x, name = "net", weights = %q, layers = { { "linear", %d }, { "linear", 2 } } }
g:results { net.features }
for _ in g:steps(1) do end
for _, w in ipairs(net:weights()) do print(w.name, sp.json.encode(net:weight(w.name))) end
]]):format(path, width or 3))
  return t.spcore(dir.path, "run load.lua")
end

write("F32", "")
local code, plain, err = load()
t.eq(code .. err, "0")
for dtype, word in pairs { F16 = "float16", BF16 = "bfloat16", F64 = "float64" } do
  write(dtype, "net.")
  local _, out, said = load()
  t.eq(out, plain)
  t.one_line(said, "w.safetensors: 4 tensors are " .. word .. " and become float32\n$")
end
for _, prefix in ipairs { "module.", "module.net." } do
  write("F32", prefix)
  local _, out, said = load()
  t.eq(said, "")
  t.eq(out, plain)
end
write("F32", "", function(name, i) return name == "1.weight" and i == 2 and 0 / 0 end)
code, _, err = load()
t.eq(code, 0)
t.one_line(err, "1 tensors have values that are not finite, '1.weight' the first: all that is computed from them is nan\n$")
code, _, err = load(4)
t.eq(code, 1)
t.one_line(err, "3 of another shape: .*; make the stages with the parameters that it was trained with\n$")
t.write(dir.path .. "/settings.json", "{}")
t.one_line(select(3, load(4)), "trained with, which .*/settings.json tells\n$")
