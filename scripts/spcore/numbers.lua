-- SPDX-License-Identifier: MIT
-- Images that are no RGB bytes: how their numbers come to a network. The reader makes them 0 to 1 by a range, `normalize` takes a
-- mean and a deviation of each channel; both are looked for in the training's images where the command line does not say them.
-- A run's settings.json has model.read = { dtype =, channels =, range = ... } and model.mean, model.std.
local args = require "spcore.args"
local core = require "spcore.core"
local graph = require "spcore.graph"
local options = require "spcore.options"
local progress = require "spcore.progress"
local words = require "spcore.words"

local numbers = {}

-- The options of a training script.
numbers.options = {
  mean = { "", "with --dtype or --channels: the mean of each channel, 0 and 1 being the ends of --range", value = "X,...",
    default = "looked for in 64 images, and said" },
  std = { "", "the same of the deviation", value = "X,...", default = "looked for in 64 images, and said" },
}

local MOST <const> = 256 -- channels that `normalize` has numbers for

local function list_of(opt, name)
  if opt[name] == "" then return end
  local list = {}
  for word in (opt[name] .. ","):gmatch "([^,]*)," do
    local v = tonumber(word)
    if not v or v ~= v or math.abs(v) == math.huge or name == "std" and v <= 0 then
      args.usage("--%s %s: %s with commas between are wanted", name, opt[name], name == "std" and "numbers above 0" or "numbers")
    end
    list[#list + 1] = v + 0.0
  end
  return list
end

-- Are images something else than RGB or grey bytes?
function numbers.is_on(opt)
  return opt.dtype ~= "uint8" or opt.channels > 3 or opt.channels == 2
end

-- What cannot be meant.
function numbers.check(opt)
  local on = numbers.is_on(opt)
  for _, name in ipairs { "mean", "std" } do
    if opt[name] ~= "" and not on then args.usage("--%s: goes with --dtype float32 or uint16, or with --channels", name) end
  end
  if opt.grey and opt.channels > 1 then args.usage("--grey: images have one channel then, and --channels says %d", opt.channels) end
  if opt.grey and on then args.usage "--grey: is for bytes; with --dtype it is --channels 1" end
  if (on or opt.channels == 1) and (opt.data == "shapes" or opt.data == "random") then
    args.usage("%s: goes with files (--data DIR); the built-in set %s has RGB bytes",
      on and opt.dtype ~= "uint8" and "--dtype " .. opt.dtype or "--channels " .. opt.channels, opt.data)
  end
end

function numbers.shown(list)
  local out = {}
  for i, v in ipairs(list) do out[i] = ("%.6g"):format(v) end
  return table.concat(out, ",")
end

-- found(data) -> { images =, of =, type =, least =, most =, mean = {}, std = {} } of a reader's images, as files have them
function numbers.found(data)
  local function item(i)
    local text = data:item("numbers", i)
    if text:sub(1, 2) == "! " then core.fail(words.cures(text:sub(3))) end
    return text
  end
  local images, of, kind = item(0):match "^(%d+) (%d+) (%S+)"
  local t = { images = math.tointeger(images), of = math.tointeger(of), type = kind, least = math.huge, most = -math.huge,
    mean = {}, std = {}, channels = math.tointeger(data.numbers) - 1 }
  for c = 1, t.channels do
    local least, most, mean, std = item(c):match "^(%S+) (%S+) (%S+) (%S+)$"
    t.least, t.most = math.min(t.least, tonumber(least)), math.max(t.most, tonumber(most))
    t.mean[c], t.std[c] = tonumber(mean), tonumber(std)
  end
  return t
end

-- The ends of the range that is meant: of whole numbers from 0 those of 8, 10, 12, 14 or 16 bits, of others from 0 to 1 these.
function numbers.range_of(t, dtype)
  if dtype == "uint8" then return 0, 255 end
  if dtype == "uint16" then
    for _, bits in ipairs { 8, 10, 12, 14, 16 } do
      if t.most < 1 << bits then return 0, (1 << bits) - 1 end
    end
  end
  if t.type == "uint8" then return 0, 255 end
  if t.least >= 0 and t.most <= 1 then return 0, 1 end
  if not (t.most > t.least) then return t.least, t.least + math.max(1, math.abs(t.least) / 1000) end
  local step = 10.0 ^ (math.floor(math.log(t.most - t.least, 10)) - 2) -- three digits, outwards
  local lo, hi = math.floor(t.least / step) * step, math.ceil(t.most / step) * step
  lo, hi = tonumber(("%.9g"):format(lo)), tonumber(("%.9g"):format(hi))
  if hi - lo < math.max(math.abs(lo), math.abs(hi)) * 1e-5 then return lo, lo + math.max(math.abs(lo), math.abs(hi)) * 1e-5 end -- float32
  return lo, hi
end

-- Mean and deviation of each channel in a range.
function numbers.scaled(t, lo, hi)
  local mean, std = {}, {}
  for c = 1, t.channels do
    mean[c], std[c] = (t.mean[c] - lo) / (hi - lo), t.std[c] / (hi - lo)
    if not (std[c] > 1e-12) then std[c] = 1.0 end -- one number throughout
    mean[c], std[c] = tonumber(("%.6g"):format(mean[c])), tonumber(("%.6g"):format(std[c]))
  end
  return mean, std
end

local function check_length(opt, name, list, channels)
  if list and #list ~= 1 and #list ~= channels then
    args.usage("--%s %s: %d numbers for %d channels; one is wanted, or one for each", name, opt[name], #list, channels)
  end
end

-- plan(opt, model, open): gives `model` what its images need. open(g) makes the reader of the training part; known: what --backbone
-- is, or nil.
function numbers.plan(opt, model, open, known)
  local read = model.read or {}
  if not numbers.is_on(opt) then
    if opt.channels == 1 or opt.grey then read.grey, model.read = true, read end
    if read.grey and known then
      local function middle(list) return { (list[1] + list[2] + list[3]) / 3 } end
      model.mean, model.std = middle(known.mean), middle(known.std)
    end
    return
  end
  local g <close> = graph(options.reading_of(opt, { device = "cpu" }))
  local data = open(g)
  local channels = data.image.shape[2]
  local mean, std = list_of(opt, "mean"), list_of(opt, "std")
  check_length(opt, "mean", mean, channels)
  check_length(opt, "std", std, channels)
  if known and channels == 3 then mean, std = mean or known.mean, std or known.std end
  read.dtype, read.channels = opt.dtype, channels
  for _, name in ipairs { "range", "nodata", "nodata_fill" } do
    if opt[name] ~= "" then read[name] = opt[name] end
  end
  model.read = read
  local ranged = opt.dtype == "uint8" or read.range
  if mean and std and ranged then
    model.mean, model.std = mean, std
    return
  end
  local t = numbers.found(data)
  if t.images == 0 then core.fail(("%s: none of its first images can be read"):format(opt.data)) end
  local lo, hi = numbers.range_of(t, opt.dtype)
  if read.range then lo, hi = read.range:match "^%s*(%S-)%s*,%s*(%S-)%s*$" end
  lo, hi = tonumber(lo), tonumber(hi)
  local measured_mean, measured_std = numbers.scaled(t, lo, hi)
  if channels > MOST then -- one for all
    local m, s = 0, 0
    for c = 1, channels do m, s = m + measured_mean[c] / channels, s + measured_std[c] / channels end
    measured_mean, measured_std = { m }, { s }
  end
  model.mean, model.std = mean or measured_mean, std or measured_std
  progress.print("images: %d channel%s, numbers from %.6g to %.6g in %d of %d%s", channels, channels == 1 and "" or "s", t.least, t.most,
    t.images, t.of, ranged and "" or ("; %.9g becomes 0, %.9g 1 (--range %.9g,%.9g)"):format(lo, hi, lo, hi))
  if not ranged then read.range = ("%.9g,%.9g"):format(lo, hi) end
  progress.print("each channel is taken less its mean, by its deviation (--mean %s --std %s)", numbers.shown(model.mean),
    numbers.shown(model.std))
end

-- "LO,HI" for images that are shown: that of the command line, or the one that a training would take; nil: of bytes. data: a reader
function numbers.shown_range(opt, data)
  if opt.dtype == "uint8" then return end
  if opt.range ~= "" then return opt.range end
  local t = numbers.found(data)
  return t.images > 0 and ("%.9g,%.9g"):format(numbers.range_of(t, opt.dtype)) or nil
end

-- Images as the network sees them. about: mean and std of RGB bytes.
function numbers.normalize(g, image, model, about, on_cpu)
  return g.normalize {
    image, scale = image.dtype == "uint8" or nil, mean = model.mean or about.mean, std = model.std or about.std, on_cpu = on_cpu,
  }.images
end

return numbers
