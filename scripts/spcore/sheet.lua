-- SPDX-License-Identifier: MIT
-- The contact sheet of `spcore data --sheet`: some samples of each part and class, masks over images, names below them.
local core = require "spcore.core"

local CELL <const> = 128 -- pixels of the sheet, of a side
local MOST_ROWS <const> = 64
local LOOKED <const> = 256 -- masks of a part that are looked at for their classes
local OVERLAY <const> = 0.45

local parts = { "training", "validation" }

-- ---- which samples ----

-- The sample's number in the whole set, its part (1, 2), its classes from 1 on; nil: its mask is wrong.
local function classes_of(data, i)
  local numbers = {}
  local text = data:item("classes_of", i)
  if text:find "!" then return end
  for n in text:gmatch "%d+" do numbers[#numbers + 1] = math.tointeger(tonumber(n)) end
  local index, part = numbers[1], numbers[2] + 1
  for k = 3, #numbers do numbers[k - 2] = numbers[k] + 1 end
  numbers[#numbers], numbers[#numbers - 1] = nil, nil
  return index, part, numbers
end

-- Of folders of classes: `most` of each part and class, spread evenly. -> found[part][class] = { { i =, index = } ... }
local function choose_labels(data, t, most)
  local found, seen = { {}, {} }, { {}, {} }
  for i = 0, data.length - 1 do
    local index, part, c = classes_of(data, i)
    c = c[1]
    local all = t.counts[part == 1 and "train" or "val"][c]
    local n, list = seen[part][c] or 0, found[part][c] or {}
    seen[part][c], found[part][c] = n + 1, list
    if #list < most and n == #list * all // math.min(most, all) then list[#list + 1] = { i = i, index = index } end
  end
  return found
end

-- Of masks: those of some samples that are spread evenly say which classes they have. A class gets those that few rows have.
local function choose_masks(data, t, most)
  local having, found, looked = { {}, {} }, { {}, {} }, { 0, 0 }
  local step = math.max(1, data.length // (4 * LOOKED))
  for i = 0, data.length - 1, step do
    local index, part, classes = classes_of(data, i)
    if index and looked[part] < LOOKED then
      looked[part] = looked[part] + 1
      local one = { i = i, index = index, used = 0 }
      for _, c in ipairs(classes) do
        having[part][c] = having[part][c] or {}
        table.insert(having[part][c], one)
      end
    end
  end
  for part = 1, 2 do
    local order = {}
    for c in pairs(having[part]) do order[#order + 1] = c end
    table.sort(order, function(a, b)
      local x, y = #having[part][a], #having[part][b]
      if x ~= y then return x < y end
      return a < b
    end)
    for _, c in ipairs(order) do -- the rarest first
      local list = having[part][c]
      found[part][c] = { all = #list, looked = looked[part] }
      for _ = 1, math.min(most, #list) do
        local best
        for _, one in ipairs(list) do
          if one.row ~= c and (not best or one.used < best.used) then best = one end
        end
        best.used, best.row = best.used + 1, c
        table.insert(found[part][c], best)
      end
      table.sort(found[part][c], function(a, b) return a.i < b.i end)
    end
  end
  return found, looked
end

-- Of maps: `most` of each part, spread evenly.
local function choose_maps(data, t, most)
  local found, seen = { {}, {} }, { 0, 0 }
  for i = 0, data.length - 1 do
    local index, part = classes_of(data, i)
    local all = t.samples[part == 1 and "train" or "val"]
    local n, list = seen[part], found[part][1] or {}
    seen[part], found[part][1] = n + 1, list
    if #list < most and n == #list * all // math.min(most, all) then list[#list + 1] = { i = i, index = index } end
  end
  return found
end

-- ---- the sheet ----

local function plural(n, word) return ("%d %s%s"):format(n, word, n == 1 and "" or "s") end

local function row_name(t, part, c, list, looked)
  if t.target == "map" then return ("%s\n%s"):format(parts[part], plural(t.samples[part == 1 and "train" or "val"], "sample")) end
  local name = t.class_names[c] or ("class %d"):format(c - 1)
  local of = t.counts[part == 1 and "train" or "val"]
  local how = of and plural(of[c] or 0, "sample")
    or ("in %d of %s"):format(list and list.all or 0, plural(looked[part], "mask"))
  return ("%s\n%s\n%s"):format(name, parts[part], how)
end

-- sheet{ file =, about = the command's findings, samples = of each part and class, open = function(target, more) -> graph, reader }
-- -> { file =, samples =, classes = shown of each part }. Raises where there is nothing to show.
return function(how)
  local t = how.about
  local g <close>, data = how.open { size = CELL, batch = 1, resize = "pad" }
  if math.tointeger(data.classes_of) == 0 then
    core.fail(("%s is made up and has no files; `spcore run show_augment.lua %s` draws some of it"):format(t.path, t.path))
  end
  local found, looked = (t.target == "mask" and choose_masks or t.target == "map" and choose_maps or choose_labels)(data, t, how.samples)
  local shown = math.max(1, math.min(t.classes, MOST_ROWS // 2))
  local cells, cell_names, names, places = {}, {}, {}, {}
  for part = 1, 2 do
    for c = 1, t.samples[part == 1 and "train" or "val"] > 0 and shown or 0 do
      local list = found[part][c]
      names[#names + 1] = { row_name(t, part, c, list, looked) }
      for k = 1, how.samples do
        local one = list and list[k]
        cells[#cells + 1] = one and one.i or -1
        cell_names[#cell_names + 1] = { one and data:item("files", one.index):match "[^/]*$" or "" }
        if one then places[one.i] = true end
      end
    end
  end
  local masks = t.target == "mask"
  local colours, ends
  if t.target == "map" then
    local lo, hi = t.map.least, t.map.most
    if not (hi > lo) then hi = lo + math.max(1, math.abs(lo)) end
    colours, ends = g.map_picture { data.mask, lo = lo, hi = hi }.image, ("%.6g\n%.6g"):format(lo, hi)
  end
  g.contact_sheet {
    image = data.image, second = data.images == 2 and data.second or nil, meaning = colours,
    mask = masks and data.mask or nil, overlay = OVERLAY,
    file = how.file, rows = #names, columns = how.samples, ramp = ends,
    cells = cells, cell_names = cell_names, names = names, mask_names = masks and table.concat(t.class_names, "\n") or "",
    title = ("%s\n%s, %s · %s of each part%s%s"):format(t.path, plural(t.samples.train, "sample") .. " for training",
      ("%d for validation"):format(t.samples.val), plural(how.samples, "sample"), t.target == "map" and "" or " and class",
      shown < t.classes and (" · the first %d of %d classes"):format(shown, t.classes) or ""),
  }
  local order = {}
  for i in pairs(places) do order[#order + 1] = i end
  table.sort(order)
  for _, i in ipairs(order) do
    g:seek(i)
    for _ in g:steps(1) do end
  end
  return { file = how.file, samples = #order, classes = shown }
end
