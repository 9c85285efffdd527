-- SPDX-License-Identifier: MIT
-- Which known network a file of weights is of, by the names and shapes in its header, before blame is put on single tensors.
local core = require "spcore.core"
local json = require "spcore.json"
local models = require "spcore.models"
local words = require "spcore.words"

local known_file = {}

local LONGEST <const> = 1 << 24 -- bytes of a header

-- header(path) -> { name = shape } or nil: what cannot be read is for the core to say.
function known_file.header(path)
  local f = io.open(path, "rb")
  if not f then return end
  local n = f:read(8)
  n = n and #n == 8 and string.unpack("<I8", n)
  local text = n and n > 1 and n < LONGEST and f:read(n)
  f:close()
  local all = text and #text == n and text:sub(1, 1) == "{" and json.decode(text)
  if type(all) ~= "table" then return end
  local shapes = {}
  for name, t in next, all do
    if name ~= "__metadata__" and type(t) == "table" and type(t.shape) == "table" then shapes[name] = t.shape end
  end
  return shapes
end

-- Names that a dialect has: the longest that is `name`, or whole words before it, is replaced.
local function translated(name, dialect)
  local best = ""
  for ours in next, dialect or {} do
    if #ours > #best and name:sub(1, #ours) == ours and (name:sub(#ours + 1, #ours + 1) == "." or #ours == #name) then best = ours end
  end
  return best == "" and name or dialect[best] .. name:sub(#best + 1)
end

-- Does the file have all convolutions and norms of the list, and no block more, behind this prefix?
local function fits(list, shapes, prefix, dialect)
  local n, ours = 0, {}
  for _, l in ipairs(list) do
    local kind = l[1]
    if kind == "conv" or kind == "batch_norm" then
      local name = prefix .. translated(l.name, dialect)
      local shape = shapes[name .. ".weight"]
      if not shape or kind == "conv" and shape[1] ~= l[2] then return false end
      ours[name], n = true, n + 1
    end
  end
  for name, shape in next, shapes do -- convolutions that are not ours: a deeper network
    local base = name:match "^(.*)%.weight$"
    if base and #shape == 4 and name:sub(1, #prefix) == prefix and not ours[base] then
      local rest, head = name:sub(#prefix + 1), false
      for _, pattern in ipairs(list.head or {}) do
        head = head or rest:find((pattern:gsub("%.", "%%."):gsub("%*", ".*"))) == 1
      end
      if not head then return false end
    end
  end
  return n > 0
end

local function prefixes(shapes)
  local out = { "" }
  for _, word in ipairs { "module.", "_orig_mod.", "encoder.", "backbone.", "module.encoder.", "module.backbone." } do
    for name in next, shapes do
      if name:sub(1, #word) == word then
        out[#out + 1] = word
        break
      end
    end
  end
  return out
end

-- Is it what was asked for?
local function is(shapes, name, variant)
  local list = models.get(name, { variant = variant })
  for _, prefix in ipairs(prefixes(shapes)) do
    if fits(list, shapes, prefix) then return true end
    for _, names in next, list.names or {} do
      if fits(list, shapes, prefix, names) then return true end
    end
  end
end

-- { { name = of the network, variant =, dialect = "timm" or nil }, ... }
local function all_of(shapes)
  local found = {}
  for _, prefix in ipairs(prefixes(shapes)) do
    for _, name in ipairs(models.names) do
      for _, variant in ipairs(words.keys(models.get(name).variants)) do
        local list = models.get(name, { variant = variant })
        if fits(list, shapes, prefix) then found[#found + 1] = { name = name, variant = variant } end
        for dialect, names in next, list.names or {} do
          if fits(list, shapes, prefix, names) then found[#found + 1] = { name = name, variant = variant, dialect = dialect } end
        end
      end
    end
    if #found > 0 then break end
  end
  return found
end

-- cure(path, name, variant) -> what to say of a file that is another network's, or in the names of another variant; nil: it is this
-- one's, or nobody's that is known.
function known_file.cure(path, name, variant)
  local shapes, networks = known_file.header(path), {}
  if not shapes or is(shapes, name, variant) then return end
  for _, f in ipairs(all_of(shapes)) do networks[f.name] = f end
  if networks[name] then
    return ("%s: names of %s: --variant %s"):format(path, networks[name].dialect or "another dialect", networks[name].variant)
  end
  for other, f in next, networks do
    local more = f.dialect and not models.get(other).names[f.dialect] and " --variant " .. f.variant or ""
    return ("%s: the file is %s %s: --backbone %s%s"):format(path, other:find "^[aeiou]" and "an" or "a", other, other, more)
  end
end

return known_file
