-- SPDX-License-Identifier: MIT
-- What the labels of a data set say before anything is learned from them: classes without a pixel or a sample, masks of 0 and
-- 255. A run begins with it, and `spcore data --check` ends with it.
local core = require "spcore.core"
local words = require "spcore.words"

local labels = {}

local PALETTES <const> = 511 -- the reader's item that says that palettes differ
local CHECKED <const> = 512 -- where the reader's items of what was read with check begin
local FEW <const> = 5 -- samples of a class for validation: a figure of fewer is chance
local SHOWN <const> = 8

local function attribute(node, name)
  local ok, value = pcall(function() return node.source and node[name] end)
  return ok and value or nil
end

-- of(node, part) -> what the masks of a reader have: { masks =, of =, pixels = { of each class }, with = { masks that have it },
-- none =, all = pixels, palettes = in words that they differ, or "" }, or { counts = { samples of each class } } of a reader of
-- classes; nil: it says neither. part: "training" or "validation", of the masks that were read with check, not of some that are
-- read now. Raises where a mask is wrong.
function labels.of(node, part)
  local there = math.tointeger(attribute(node, "labels") or 0)
  local counts = attribute(node, "counts")
  if there == 0 and (counts or "") == "" then return end
  local t = { classes = math.tointeger(node.classes), names = words.lines(node.class_names) }
  if there == 0 then
    t.counts = {}
    t.several = (attribute(node, "figures") or 0) > 0 -- a sample has any number of labels: one label alone is there or not
    for n in counts:gmatch "%d+" do t.counts[#t.counts + 1] = math.tointeger(tonumber(n)) end
    return t
  end
  local base = part == "training" and CHECKED or part == "validation" and 2 * CHECKED or 0
  local function item(i)
    local text = node:item("labels", base + i)
    if text:sub(1, 2) == "! " then core.fail(words.cures(text:sub(3))) end
    local a, b = text:match "(%d+) (%d+)"
    return math.tointeger(tonumber(a)), math.tointeger(tonumber(b))
  end
  t.masks, t.of = item(0)
  t.palettes = node:item("labels", PALETTES)
  t.pixels, t.with, t.all = {}, {}, 0
  for c = 1, t.classes do
    t.pixels[c], t.with[c] = item(c)
    t.all = t.all + t.pixels[c]
  end
  t.none = t.classes <= 255 and item(t.classes + 1) or 0
  t.all = t.all + t.none
  return t
end

local function name_of(t, c) return t.names[c] and ("%d '%s'"):format(c - 1, t.names[c]) or tostring(c - 1) end
local function bare(t, c) return t.names[c] or tostring(c - 1) end

local function list(t, classes)
  local out = {}
  for i = 1, math.min(#classes, SHOWN) do out[i] = name_of(t, classes[i]) end
  return table.concat(out, ", ") .. (#classes > SHOWN and (" and %d more"):format(#classes - SHOWN) or "")
end

local function which(t, values, is)
  local out = {}
  for c = 1, t.classes do
    if is(values[c]) then out[#out + 1] = c end
  end
  return out
end

local function absent(v) return v == 0 end
local function present(v) return v > 0 end

local function share(part, all) return ("%.3g %%"):format(100 * part / all) end

-- "of 20 masks", "of the first 64 of 1000 masks"
local function how_many(t)
  if t.masks == t.of then return ("of %d mask%s"):format(t.of, t.of == 1 and "" or "s") end
  return ("of %d masks that were looked at, of %d"):format(t.masks, t.of)
end

-- Labels that nothing can be learned from; nil: something can.
local function useless(t)
  if t.counts then
    local there = which(t, t.counts, present)
    if t.classes > 1 or t.several then return end
    return ("there is one class alone, %s, so nothing is told apart: add folders or labels of other classes"):format(
      name_of(t, there[1] or 1))
  end
  local there = which(t, t.pixels, present)
  if t.all == 0 or #there > 1 then return end
  if t.classes == 1 then
    local alone = ("there is one class alone, %s, so nothing is told apart"):format(name_of(t, 1))
    if t.none == 0 then return alone .. ": what is not of it wants a label, too, and a line in classes.txt" end
    return ("%s; %s of pixels are 255 = no label. Binary masks? Put ground and %s into classes.txt, a line each, and give "
      .. "--mask-values 0=ground,255=%s"):format(alone, share(t.none, t.all), bare(t, 1), bare(t, 1))
  end
  local there_is = there[1] or 1
  local missing = there_is == 1 and 2 or 1
  local some = #there == 0 and "no mask has a class" or ("no mask has class %s, only %s"):format(name_of(t, missing), name_of(t, there_is))
  if t.none == 0 then return ("%s (%s): nothing can be learned"):format(some, how_many(t)) end
  return ("%s (%s); %s of pixels are 255 = no label. Binary masks? --mask-values %d=%s,255=%s"):format(some, how_many(t),
    share(t.none, t.all), there_is - 1, bare(t, there_is), bare(t, missing))
end

-- What is odd about the labels of one part, as lines. part: "training", "validation"; of: what labels.of gave
local function odd(t, part)
  local out = {}
  if t.counts then
    local none = which(t, t.counts, absent)
    if #none > 0 then out[1] = ("no %s sample has the class %s"):format(part, list(t, none)) end
  else
    local none = which(t, t.pixels, absent)
    if #none > 0 then out[1] = ("no %s mask has class %s (%s)"):format(part, list(t, none), how_many(t)) end
    if t.pixels[1] == 0 and t.classes > 1 and #none == 1 and t.masks > 0 then
      local cure = {}
      for c = 2, t.classes do cure[#cure + 1] = ("%d=%s"):format(c - 1, bare(t, c - 1)) end
      out[#out + 1] = ("labels are counted from 0: are these counted from 1? --mask-values %s"):format(table.concat(cure, ","))
    end
    if t.none * 2 > t.all then out[#out + 1] = ("%s of the pixels for %s are 255 = no label"):format(share(t.none, t.all), part) end
  end
  if part ~= "validation" then return out end
  local few = which(t, t.counts or t.with, function(n) return n > 0 and n < FEW end)
  if #few > 0 and (t.counts or t.masks == t.of) then
    out[#out + 1] = ("fewer than %d validation samples have the class %s: their figures are chance"):format(FEW, list(t, few))
  end
  return out
end

-- judge{ training =, validation = } -> why nothing can be learned or nil, lines on what is odd
function labels.judge(parts)
  local lines = {}
  local why = parts.training and useless(parts.training)
  if why then return why, lines end
  for _, part in ipairs { "training", "validation" } do
    if parts[part] then table.move(odd(parts[part], part), 1, 99, #lines + 1, lines) end
  end
  local palettes = parts.training and parts.training.palettes or ""
  if palettes == "" and parts.validation then palettes = parts.validation.palettes or "" end
  if palettes ~= "" then lines[#lines + 1] = palettes end
  return nil, lines
end

-- of_graph(g) -> as judge, of the readers of a graph that trains; of masks only where a stage reads them
function labels.of_graph(g)
  local parts, trains = {}, false
  for _, node in ipairs(g:nodes()) do
    trains = trains or node.optimizer
    local told = node.source and g._told[node]
    local part = told and told[1].split == "val" and "validation" or told and "training"
    local read = part and (part == "validation" or g._read[node.name .. ".mask"] or g._read[node.name .. ".label"])
    if read and not parts[part] then parts[part] = labels.of(node) end
  end
  if not trains or not parts.training then return nil, {} end
  return labels.judge(parts)
end

return labels
