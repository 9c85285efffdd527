-- SPDX-License-Identifier: MIT
-- spcore data: what a folder of data holds, as the reader sees it, and what is wrong with it.
local sp = require "spcore"
local core = require "spcore.core"
local data_defaults = require "spcore.data_defaults"
local data_target = require "spcore.data_target"
local labels = require "spcore.labels"
local numbers = require "spcore.numbers"
local options = require "spcore.options"
local sheet = require "spcore.sheet"
local survey = require "spcore.survey"
local sys = require "spcore.sys"
local words = require "spcore.words"

local taken = { "orient", "workers", "plugin", "set", "debug" }
for _, name in ipairs(options.reading) do taken[#taken + 1] = name end

local opt = sp.args({
  target = { "auto", "what is known of an image; auto: see for yourself", choices = { "auto", "mask", "class", "labels", "numbers", "map" },
    sets = "reader.target" },
  val = { "", "another folder of that layout, which holds the samples for validation", value = "DIR", sets = "reader.val_path" },
  classes = { 0, "how many classes, where no classes.txt says it", default = "as many as there are names", min = 0,
    sets = "reader.classes" },
  check = { false, "read every file, name each that is wrong, and say which labels there are and what is there twice" },
  sheet = { "", "draw samples of each part and class, masks over images, into this file", default = "none", value = "FILE.png" },
  sheet_samples = { 4, "samples of each part and class on the sheet", min = 1, max = 32 },
  json = { false, "print one JSON document" },
}, {
  rest = "DIR", doc = "Says what a folder of data holds: layout, splits, classes, and what is left out.",
  only = taken,
})

if #opt.rest ~= 1 then sp.usage(#opt.rest == 0 and "a folder of data is wanted; --help says more" or "one folder at a time") end
local dir = opt.rest[1]
if opt.sheet ~= "" and not opt.sheet:lower():match "[^/]%.png$" then sp.usage("--sheet %s: the name must end in .png", opt.sheet) end

local MOST_SIZES <const> = 8 -- that are listed one by one
local SIZE <const> = 64 -- pixels of a side of what is read: masks are counted at their own size

-- A reader of that split, in a graph of its own.
local function open(split, target, more)
  local how = options.reading_of(opt, { device = "cpu", workers = opt.workers > 0 and opt.workers or nil })
  local g = sp.graph(how)
  local t = {
    path = dir, split = split, target = target, classes = opt.classes, val_path = opt.val ~= "" and opt.val or nil, size = SIZE,
    batch = 16, shuffle = false, drop_last = false, default_val_fraction = data_defaults.val_fraction,
    samples = (dir == "shapes" or dir == "random") and data_defaults.samples[target] or nil,
  }
  for k, v in pairs(more or {}) do t[k] = v end
  local ok, data = pcall(g.reader, t)
  if ok then return g, data end
  g:close()
  error(data, 0)
end

local function can_open(target)
  local ok, why = pcall(open, "all", target)
  if ok then why:close() end
  return ok, why
end

-- The target that the reader names instead of this one, if it opens or not, and why not.
local function follow(target)
  for _ = 1, 3 do
    local ok, why = can_open(target)
    local elsewhere = not ok and why:match 'for target = "(%a+)" %('
    if not elsewhere or elsewhere == target then return target, ok, why end
    target = elsewhere
  end
  return target
end

-- Its images lie in one folder, which is no class: a table beside it may say what they are.
local function one_folder()
  local g <close>, data = open("all", "class")
  return data.layout == "classes" and data.classes == 1
end

-- What the folder is laid out for by its names, whatever is wrong in it, unless the reader says that it is for another target;
-- where its names do not say so, what can be read; else why it is nothing for masks.
local function find_target()
  if opt.target ~= "auto" then return opt.target end
  local named = data_target(dir)
  local of_maps = opt.map_scale ~= "" or opt.map_nodata ~= "" or opt.map_range ~= "" or opt.map_offset ~= 0
  if of_maps or named ~= "mask" and data_target.has_maps(dir) then return "map" end
  if opt.second_name ~= "" then return "mask" end
  core.log_level "error"
  local first = named or "mask"
  local target, ok, why = follow(first)
  if ok and target == "class" and data_target.has_table(dir) and one_folder() and can_open "numbers" then return "numbers" end
  if ok or named or target ~= first then return target end
  local other, may, doubt = follow "class"
  if may or other ~= "class" then return other end
  if doubt:find('target = "class" (', 1, true) then sp.fail(doubt) end -- it is laid out so, and something is to be said first
  if data_target.has_table(dir) and can_open "numbers" then return "numbers" end
  sp.fail(why)
end

-- "LEAST MEAN MOST NONE" of the labels a sample has, "LEAST MOST MEAN DEVIATION" of each column of numbers; nil: of others.
local function figures_of(data, target)
  local n = math.tointeger(data.figures)
  if n == 0 then return end
  local keys = target == "labels" and { "least", "mean", "most", "none" } or { "least", "most", "mean", "deviation" }
  local out = sp.json.list {}
  for i = 1, n do
    local one, at = {}, 0
    for word in data:item("figures", i - 1):gmatch "%S+" do
      at = at + 1
      one[keys[at]] = tonumber(word)
    end
    out[i] = one
  end
  return out
end

local function integers(text)
  local out = sp.json.list {}
  for word in text:gmatch "%d+" do out[#out + 1] = math.tointeger(tonumber(word)) end
  return out
end

-- Of images that keep what files hold: how large their numbers are, and what training makes of them.
local function numbers_of(data)
  if data.numbers == 0 then return end
  local t = numbers.found(data)
  if t.images == 0 then return end
  local lo, hi = numbers.range_of(t, opt.dtype)
  if opt.range ~= "" then
    lo, hi = opt.range:match "^%s*(%S-)%s*,%s*(%S-)%s*$"
    lo, hi = tonumber(lo), tonumber(hi)
  end
  t.range = sp.json.list { lo, hi }
  t.train_mean, t.train_std = numbers.scaled(t, lo, hi)
  for _, key in ipairs { "mean", "std", "train_mean", "train_std" } do t[key] = sp.json.list(t[key]) end
  return t
end

-- Of maps: what values they have; ends where one of them cannot be read.
local function map_of(data)
  local text = data:item("map", 0)
  if text:find "^! " then sp.fail(words.cures(text:sub(3))) end
  local t, at = {}, 0
  for word in text:gmatch "%S+" do
    at = at + 1
    t[({ "maps", "of", "pixels", "without", "least", "median", "most", "mean", "deviation" })[at]] = tonumber(word)
  end
  t.without = t.pixels > 0 and t.without / t.pixels or 0
  return t
end

-- What readers have to say is said once; that of what is left out is part of the answer.
local function about(target)
  local out = { path = words.bare(dir), target = target, samples = {}, counts = {}, figures = {} }
  local seen
  core.log_level "warn"
  for _, split in ipairs { "train", "val" } do
    local g <close>, data = open(split, target)
    out.images = math.tointeger(data.images)
    out.layout, out.left_out, out.classes = data.layout, data.left_out, data.classes
    out.class_names = sp.json.list(words.lines(data.class_names))
    out.notes = sp.json.list(words.lines(data.notes))
    out.samples[split] = data.length
    out.counts[split] = data.counts ~= "" and integers(data.counts) or nil
    seen = survey.headers(data, seen)
    if split == "train" and target == "map" then out.map = map_of(data) end
    if split == "train" then out.numbers = not opt.check and data.length > 0 and numbers_of(data) or nil end
    out.figures[split] = figures_of(data, target)
    core.log_level "error"
  end
  core.log_level "warn"
  out.sizes, out.types = survey.found(seen), survey.types(seen)
  return out
end

-- ---- every sample ----

-- What is odd about samples that are read all the same: { kind =, samples =, first = } of each kind that there is.
local function remarks_of(data)
  local list = sp.json.list {}
  for i = 0, math.tointeger(data.remarks) - 1 do
    local kind, n, first = data:item("remarks", i):match "^(.-)\t(%d+)\t(.*)$"
    if n ~= "0" then list[#list + 1] = { kind = kind, samples = math.tointeger(n), first = first } end
  end
  return list
end

-- What is found in all samples, and what the labels of both parts are.
local function check_all(t)
  local g <close>, data = open("all", t.target, { check = true })
  local read = { data.origin, raw = true }
  if t.target == "mask" or t.target == "map" then read[2] = data.mask end
  if t.images == 2 then read[#read + 1] = data.second end
  g:results(read)
  local sizes, wrong = {}, sp.json.list {}
  local bar <close> = sys.isatty "stdout" and sp.progress { total = t.samples.train + t.samples.val, unit = "sample" } or nil
  for _, m in g:steps(g:epoch_steps()) do
    for i = 1, m.n do
      local index, h, w = ("i4i4i4"):unpack(m.origin, 12 * i - 11)
      if index < 0 then wrong[#wrong + 1] = data:item("files", -1 - index)
      else sizes[w << 32 | h] = (sizes[w << 32 | h] or 0) + 1 end
      if bar then bar:step() end
    end
  end
  if sp.interrupted() then sp.exit(130) end
  local parts = {}
  for part, split in pairs { training = "train", validation = "val" } do
    parts[part] = t.target == "mask" and labels.of(data, part)
      or t.counts[split] and { classes = t.classes, names = t.class_names, counts = t.counts[split], several = t.target == "labels" } or nil
  end
  t.numbers = numbers_of(data)
  return sizes, wrong, remarks_of(data), parts, survey.twins(data)
end

local function list_sizes(sizes)
  local list = sp.json.list {}
  for key, n in pairs(sizes) do list[#list + 1] = { width = key >> 32, height = key & 0xffffffff, samples = n } end
  table.sort(list, function(a, b)
    if a.samples ~= b.samples then return a.samples > b.samples end
    return a.width < b.width or a.width == b.width and a.height < b.height
  end)
  return list
end

-- Of the parts, "train" and "val": pixels of each class and of no label, and the masks that have it.
local function pixels_of(parts)
  local out
  for split, part in pairs { train = parts.training or nil, val = parts.validation or nil } do
    if part and part.masks then
      out = out or {}
      out[split] = { pixels = sp.json.list(part.pixels), masks = sp.json.list(part.with), unlabelled = part.none }
    end
  end
  return out
end

-- Shares of all pixels.
local function shares(parts)
  local both, all, out = { parts.training, parts.validation }, 0, sp.json.list {}
  if not both[1] or not both[1].masks then return end
  local none = 0
  for _, part in ipairs(both) do all, none = all + part.all, none + part.none end
  if all == 0 then return end
  for c = 1, both[1].classes do out[c] = (both[1].pixels[c] + both[2].pixels[c]) / all end
  return out, none / all
end

-- ---- words ----

local function name_of(t, c) return t.class_names[c] or tostring(c - 1) end

-- "disc 12, square 9 ...": of many classes the first.
local function by_class(t, values, fmt)
  local out = {}
  for c = 1, math.min(#values, 40) do out[c] = ("%s\u{a0}" .. fmt):format(name_of(t, c), values[c]) end
  if #values > 40 then out[#out + 1] = ("and %d more"):format(#values - 40) end
  return table.concat(out, ", ")
end

local COUNTED <const> = { mask = "classes", class = "classes", labels = "labels", numbers = "numbers", map = "number for each pixel" }
local ONE <const> = { mask = "class", class = "class", labels = "label", numbers = "number" }

-- A hard space holds what is on both sides of it in one line, and is shown as a blank.
local function put(text)
  text = sys.isatty "stdout" and words.wrap(text, sys.width "stdout", 4) or text
  sp.print("%s", (text:gsub("\u{a0}", " ")))
end

-- Pixels of the masks of a part.
local function put_pixels(t, split, part)
  local percent, all = {}, part.unlabelled
  for _, n in ipairs(part.pixels) do all = all + n end
  if all == 0 then return end
  for i, n in ipairs(part.pixels) do percent[i] = 100 * n / all end
  put(("  %s pixels: %s, no label %.1f %%"):format(split, by_class(t, percent, "%.1f %%"), 100 * part.unlabelled / all))
  put(("  %s masks with a class: %s"):format(split, by_class(t, part.masks, "%d")))
end

local function put_check(t, c)
  local list = {}
  for i = 1, #c.sizes > 1 and #c.sizes <= MOST_SIZES and #c.sizes or 0 do
    list[i] = ("%d x %d (%d)"):format(c.sizes[i].width, c.sizes[i].height, c.sizes[i].samples)
  end
  if list[1] then put("  sizes, width x height: " .. table.concat(list, ", ")) end
  for _, split in ipairs { "train", "val" } do
    if c.labels and c.labels[split] then put_pixels(t, split, c.labels[split]) end
  end
  for _, line in ipairs(c.odd) do put("  " .. line) end
  if c.useless then put("  " .. c.useless) end
  for _, line in ipairs(c.duplicates and survey.twin_lines(c.duplicates) or {}) do put("  " .. line) end
  for _, remark in ipairs(c.remarks) do
    put(("  %s: %d sample%s, the first is said above"):format(remark.kind, remark.samples, remark.samples == 1 and "" or "s"))
  end
  put("  " .. (#c.wrong == 0 and ("all %d samples can be used"):format(c.samples)
    or ("%d of %d samples cannot be used; what is wrong is said above"):format(#c.wrong, c.samples)))
end

local function put_numbers(n)
  put(("  numbers: %d channel%s, from %.6g to %.6g in %d of %d images"):format(n.channels, n.channels == 1 and "" or "s", n.least, n.most,
    n.images, n.of))
  put(("  training takes --dtype %s%s --mean %s --std %s where it is given no others"):format(opt.dtype,
    opt.dtype == "uint8" and (" --channels %d"):format(n.channels) or (" --range %.9g,%.9g"):format(n.range[1], n.range[2]),
    numbers.shown(n.train_mean), numbers.shown(n.train_std)))
end

local function tell(t)
  put(("%s: layout %s, target %s"):format(t.path, t.layout, t.target))
  put(("  %d train, %d val, %d %s%s%s"):format(t.samples.train, t.samples.val, t.classes,
    t.classes == 1 and ONE[t.target] or COUNTED[t.target], #t.class_names > 0 and ": " or "",
    table.concat(t.class_names, ", ", 1, math.min(#t.class_names, 40))))
  for _, split in ipairs { "train", "val" } do
    if t.counts[split] then put(("  %s: %s"):format(split, by_class(t, t.counts[split], "%d"))) end
  end
  for _, split in ipairs { "train", "val" } do
    for i, f in ipairs(t.figures[split] or {}) do
      if t.target == "labels" then
        put(("  %s: %d to %d labels a sample, on average %.3g, %d without one"):format(split, f.least, f.most, f.mean, f.none))
      else put(("  %s: %s %.6g to %.6g, mean %.6g, deviation %.6g"):format(split, name_of(t, i), f.least, f.most, f.mean, f.deviation)) end
    end
  end
  for _, note in ipairs(t.notes) do put("  " .. words.cures(note)) end
  if t.left_out ~= "" then put("  left out: " .. t.left_out) end
  for _, line in ipairs(t.sizes and survey.lines(t.sizes) or {}) do put("  " .. line) end
  for _, line in ipairs(survey.type_lines(t.types, opt)) do put("  " .. line) end
  if t.map then
    put(("  values: least %.6g, median %.6g, largest %.6g, mean %.6g, deviation %.6g in %d of %d maps; %.1f %% of the pixels have none")
      :format(t.map.least, t.map.median, t.map.most, t.map.mean, t.map.deviation, t.map.maps, t.map.of, 100 * t.map.without))
    if t.map.least == t.map.most then put "  all values are one: nothing can be learned from them" end
  end
  if t.numbers then put_numbers(t.numbers) end
  if t.check then put_check(t, t.check) end
  if t.sheet then
    if t.map then
      put(("  %s: %d samples; values in colours from %.6g to %.6g"):format(t.sheet.file, t.sheet.samples, t.map.least, t.map.most))
    else
      put(("  %s: %d samples of %d class%s%s"):format(t.sheet.file, t.sheet.samples, t.sheet.classes,
        t.sheet.classes == 1 and "" or "es", t.sheet.classes < t.classes and (", of %d"):format(t.classes) or ""))
    end
    if t.numbers then put "  on it the first three channels are shown, or the first one alone, black and white at the ends of the range" end
  end
end

local t = about(find_target())
if opt.check then
  local sizes, wrong, remarks, parts, twins = check_all(t)
  t.sizes = survey.figures(sizes)
  t.check = { samples = t.samples.train + t.samples.val, wrong = wrong, sizes = list_sizes(sizes), remarks = remarks }
  t.check.pixels, t.check.unlabelled = shares(parts)
  t.check.labels, t.check.duplicates = pixels_of(parts), twins
  local why, odd = labels.judge(parts)
  t.check.useless, t.check.odd = why, sp.json.list(odd)
end
if opt.sheet ~= "" then
  if opt.check then core.log_level "error" end -- what is wrong with masks is said
  t.sheet = sheet { file = opt.sheet, about = t, samples = opt.sheet_samples, open = function(more)
    more.check = true
    if t.numbers and opt.dtype ~= "uint8" then more.range = ("%.9g,%.9g"):format(t.numbers.range[1], t.numbers.range[2]) end
    return open("all", t.target, more)
  end }
end
if opt.json then print(sp.json.encode(t, true)) else tell(t) end
if t.check and (#t.check.wrong > 0 or t.check.useless) then sp.exit(1) end
