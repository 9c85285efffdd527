-- SPDX-License-Identifier: MIT
-- Networks as lists of layers in files of their own, as scripts/tools/spcore_convert.py writes them: sp.models.file.
local build = require "spcore.models.build"
local core = require "spcore.core"
local sys = require "spcore.sys"

local file = {}

local LONGEST <const> = 1 << 24 -- bytes of such a file

-- What comes behind the last map: a classifier, from the mean on.
local flat = {
  mean = true, flatten = true, linear = true, dropout = true, batch_norm = true, relu = true, relu6 = true, sigmoid = true,
  silu = true, hard_sigmoid = true, hard_swish = true, leaky_relu = true, gelu = true, conv = true,
}

local function check_layers(list, path)
  if type(list) ~= "table" or #list == 0 then
    core.fail(path .. ": gives no list of layers; spcore_convert.py writes such a file of a network of PyTorch or ONNX")
  end
  for i, l in ipairs(list) do
    if type(l) ~= "table" or type(l[1]) ~= "string" then
      core.fail(("%s: layer %d is no { \"type\", ... }"):format(path, i))
    end
  end
end

local function check_preprocess(p, path)
  local usual = build.preprocess(256, 224)
  if p == nil then return usual, true end
  for _, key in ipairs { "mean", "std", "size", "crop", "interpolation" } do
    local given, v = type(p) == "table" and p[key], usual[key]
    local numbers = type(v) ~= "table" or type(given) == "table" and #given == 3 and type(given[1]) == "number"
    if math.type(given) ~= math.type(v) or type(given) ~= type(v) or not numbers then
      core.fail(("%s: preprocess.%s is a %s; such as preprocess = { mean = { 0.485, 0.456, 0.406 }, std = { 0.229, 0.224, 0.225 }, "
        .. "size = 256, crop = 224, interpolation = \"bilinear\" } is wanted"):format(path, key, type(given)))
    end
  end
  if p.interpolation ~= "bilinear" and p.interpolation ~= "bicubic" or p.size < p.crop or p.crop < 1 then
    core.fail(path .. ": preprocess: interpolation is bilinear or bicubic, and size is crop or more")
  end
  return p
end

-- of_text(text, path) -> the list, and whether it says nothing of how images are prepared, so that what is usual is taken. The text
-- is data: it sees no functions.
function file.of_text(text, path)
  local made, why = load(text, "@" .. path, "t", {})
  if not made then core.fail(("%s: %s"):format(path, (why:gsub("^.-:(%d+: )", "line %1")))) end
  local ok, list = pcall(made)
  if not ok then core.fail(path .. ": it calls or computes something, and a file of layers has data alone") end
  check_layers(list, path)
  local usual
  list.title, list.family, list.names = path, "file", {}
  list.preprocess, usual = check_preprocess(list.preprocess, path)
  return list, usual
end

-- text_of(path): what is in the file.
function file.text_of(path)
  local f, why = io.open(path, "rb")
  if not f then core.fail(why) end
  local text = f:read(LONGEST)
  f:close()
  if not text or text == "" then core.fail(path .. ": an empty file, or a folder") end
  return text
end

-- file.list(path): what sp.models.file gives.
function file.list(path)
  if type(path) ~= "string" then
    core.fail(("sp.models.file: the path of a file is wanted, got a %s"):format(type(path)))
  end
  return file.of_text(file.text_of(path), path)
end

-- The safetensors file beside FILE.lua, where there is one.
function file.weights(path)
  local beside = path:gsub("%.lua$", "") .. ".safetensors"
  return sys.there(beside) and beside or nil
end

local function name_of(list, i) return list[i].name or tostring(i - 1) end

-- tapped(list): the list, whose layers that `taps` names give their maps, where no layer says so itself.
function file.tapped(list)
  local named, out = {}, {}
  for _, l in ipairs(list) do
    if l.tap then return list end
  end
  for _, name in ipairs(list.taps or {}) do named[name] = true end
  for k, v in next, list do
    if math.type(k) == "integer" and named[name_of(list, k)] then
      local l = {}
      for key, value in next, v do l[key] = value end
      l.tap, v = true, l
    end
    out[k] = v
  end
  return out
end

-- headless(list) -> the layers up to the last map, and globs for the weights of those that are left out: the classifier, from
-- the last mean on behind which there is one way only.
function file.headless(list)
  local cut, i = nil, #list
  while i > 1 and flat[list[i][1]] do
    local kind, from = list[i][1], list[i].from
    if type(from) == "table" and #from == 1 then from = from[1] end
    if from and from ~= name_of(list, i - 1) then break end
    if kind == "mean" or kind == "flatten" then cut = i end
    if kind == "mean" then break end
    i = i - 1
  end
  if not cut then return list, {} end
  local short, left = {}, {}
  for k, v in next, list do
    if math.type(k) ~= "integer" then short[k] = v
    elseif k < cut then short[k] = v
    else left[#left + 1] = name_of(list, k) .. ".*" end
  end
  return short, left
end

return file
