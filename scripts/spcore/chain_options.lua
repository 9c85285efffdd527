-- SPDX-License-Identifier: MIT
-- Augmentation on the command line: which options there are, and the steps of a chain that they make. Trainings put them over the chain
-- that a run has; show_augment.lua makes all of its chain of them.
local args = require "spcore.args"
local chain = require "spcore.chain"

local chain_options = {}

local function ends(list) return { list[1], list[2] or list[1] } end

-- A window of `seen.whole`, the sides of images as they are read.
local function window(list, text, seen)
  local out = ends(list)
  for i, v in ipairs(out) do
    local px = v <= 1 and math.max(1, math.floor(v * seen.whole[i] + 0.5)) or math.tointeger(v)
    if v <= 0 or not px then args.usage("--crop %s: a part of the side up to 1, or whole pixels are expected", text) end
    out[i] = px
  end
  return { size = out[1] == out[2] and out[1] or out }
end

local function colours(list, text)
  if #list == 2 then args.usage("--jitter %s: one number, or brightness,contrast,saturation are expected", text) end
  return { brightness = list[1], contrast = list[2] or list[1], saturation = list[3] or list[1] }
end

local function scales(list, text)
  local lo, hi = list[1], list[2]
  if not hi then lo, hi = math.min(lo, 1 / lo), math.max(lo, 1 / lo) end
  if lo <= 0 or hi < lo then args.usage("--scale %s: factors above 0 are expected, the lower one first, such as 0.8,1.25", text) end
  return { scale = { lo, hi } }
end

local function blurred(list, _, seen)
  local kernel = seen.kernel > 0 and seen.kernel or math.min(63, 2 * math.ceil(3 * (list[2] or list[1])) + 1)
  return { sigma = list, kernel = kernel }
end

local function erased(list, _, seen)
  return { p = list[1], scale = list[2] and { list[2], list[3] or list[2] } or nil, value = seen.middle }
end

-- The stages in their order. moves: pixels come from elsewhere, so what lies outside of an image is seen. Each option has `most` numbers
-- from `least` to `largest`, sets parameters (without the first of which, or with `any` all, it is off), and has make(numbers, text, seen)
-- -> these.
local groups = {
  { stage = "batch_crop", {
    "crop", value = "H,W", most = 2, least = 0, sets = { "size" }, make = window,
    help = "height,width of a window out of each image: up to 1 a part of the image, above that pixels",
  } },
  { stage = "flip", any = true, {
    "flip", value = "P,P", most = 2, least = 0, largest = 1, sets = { "horizontal", "vertical" },
    help = "probability of mirroring left to right, or two: and top to bottom",
    make = function(list) return { horizontal = list[1], vertical = list[2] or 0.0 } end,
  } },
  { stage = "batch_rotate", moves = true, {
    "rotate", value = "X,X", most = 2, sets = { "degrees" }, help = "degrees to either side, or lowest,highest",
    make = function(list) return { degrees = list } end,
  } },
  { stage = "affine", moves = true, {
    "scale", value = "X,X", most = 2, least = 0, largest = 1000, sets = { "scale" }, make = scales,
    help = "factors from,to by which images become smaller or larger; one number: from 1/X to X",
  }, {
    "shift", value = "X,X", most = 2, least = 0, largest = 1, sets = { "translate" },
    help = "how far images move at most, as a part of their sides, or of width,height",
    make = function(list) return { translate = list } end,
  }, {
    "shear", value = "X,X", most = 2, least = -89, largest = 89, sets = { "shear" },
    help = "degrees of slant to either side, or lowest,highest", make = function(list) return { shear = list } end,
  } },
  { stage = "perspective", moves = true, {
    "perspective", value = "X", most = 1, least = 0, largest = 1, sets = { "distortion" },
    help = "how far corners move inwards at most, as a part of half the side, in every other image",
    make = function(list) return { distortion = list[1] } end,
  } },
  { stage = "elastic", moves = true, {
    "elastic", value = "X,X", most = 2, least = 0, largest = 1000000, sets = { "alpha", "sigma" },
    help = "strength of smooth displacements, such as 50, or that and their sigma in pixels, 5",
    make = function(list) return { alpha = list[1], sigma = list[2] or 5.0 } end,
  } },
  { stage = "color_jitter", any = true, {
    "jitter", value = "X,X,X", most = 3, least = 0, largest = 1000000, sets = { "brightness", "contrast", "saturation" }, make = colours,
    help = "how far colours go: all, or brightness,contrast,saturation",
  }, {
    "hue", value = "X", most = 1, least = 0, largest = 0.5, sets = { "hue" }, help = "how far the hue turns, 0.5 is half around",
    make = function(list) return { hue = list[1] } end,
  } },
  { stage = "blur", {
    "blur", value = "X,X", most = 2, least = 0, largest = 100, sets = { "sigma", "kernel" }, make = blurred,
    help = "sigma in pixels, or lowest,highest",
  } },
  { stage = "gaussian_noise", {
    "noise", value = "X,X", most = 2, least = 0, largest = 100, sets = { "sigma" },
    help = "sigma of normal noise, as a part of white, or lowest,highest", make = function(list) return { sigma = list } end,
  } },
  { stage = "erase", {
    "erase", value = "P,X,X", most = 3, least = 0, largest = 1, sets = { "p", "scale", "value" }, make = erased,
    help = "probability of painting over a rectangle, or that and its area from,to as parts of the image",
  } },
}

chain_options.words = {} -- of --order: each stage by its first option
for i, group in ipairs(groups) do chain_options.words[i] = group[1][1] end

-- options(usual) -> rows for args.parse. usual: values by name, and 0 is that of the others; nil: the chain of --augment has its own
function chain_options.options(usual)
  local rows = { kernel = { 0, "pixels of a side of --blur's kernel, odd", default = "3 sigmas to either side", min = 1, max = 63 } }
  for _, group in ipairs(groups) do
    for _, o in ipairs(group) do
      rows[o[1]] = { "", o.help .. "; 0: off", value = o.value, default = "as --augment has it" }
      if usual then rows[o[1]][1], rows[o[1]].default = usual[o[1]] or "0", nil end
    end
  end
  return rows
end

-- The names of the options that a run has.
function chain_options.of(opt)
  local names = {}
  for _, group in ipairs(groups) do
    for _, o in ipairs(group) do names[#names + 1] = opt[o[1]] ~= "" and o[1] or nil end
  end
  return names
end

-- The numbers of an option, with commas between. nil: all are 0, so it is off.
local function numbers(o, text)
  local list, on = {}, false
  for word in (text .. ","):gmatch "([^,]*)," do
    local v = tonumber(word)
    if not v or v ~= v or v - v ~= 0 or #list == o.most then
      args.usage("--%s %s: %s expected", o[1], text,
        o.most == 1 and "one number is" or ("one number, or up to %d with commas between, are"):format(o.most))
    end
    if o.least and v < o.least then args.usage("--%s %s: %s is below %s", o[1], text, word, o.least) end
    if o.largest and v > o.largest then args.usage("--%s %s: %s is above %s", o[1], text, word, o.largest) end
    list[#list + 1], on = v, on or v ~= 0
  end
  return on and list or nil
end

-- Does a step with these parameters leave images as they are?
local function is_off(group, params)
  for _, o in ipairs(group) do
    for _, k in ipairs(group.any and o.sets or { o.sets[1] }) do
      if params[k] and params[k] ~= 0 then return false end
    end
  end
  return true
end

-- The step of a group over that of the chain below, or nil; nil: there is none.
local function over(group, opt, seen, below)
  local params, option, off = {}, below and below.option, {}
  for k, v in next, below and below.params or {} do params[k] = v end
  for _, o in ipairs(group) do
    local text = opt[o[1]]
    off[#off + 1] = ("--%s 0"):format(o[1])
    local list = text ~= "" and numbers(o, text) or nil
    for _, k in ipairs(text ~= "" and o.sets or {}) do params[k] = nil end
    if list then
      if group.stage == "color_jitter" and not seen.colours and args.is_given(o[1]) then
        args.usage("--%s: images have %d channels, and colours are those of 3 or 1; leave it out", o[1], seen.channels)
      end
      for k, v in next, o.make(list, text, seen) do params[k] = v end
      if group.moves then params.mode, params.fill = seen.mode or "bilinear", seen.middle end
      option = o[1]
    end
  end
  if is_off(group, params) or group.stage == "color_jitter" and not seen.colours then return end
  return { stage = group.stage, params = params, option = option, without = option and table.concat(off, " "), line = below and below.line }
end

-- over(opt, base, seen, masks) -> the chain `base`, or none, with what the options say of its stages, and with those that it lacks,
-- in the order above. seen: as of chain.seen; masks: there are such, so that a window gets the size that it was cut from
function chain_options.over(opt, base, seen, masks)
  local self, place = chain.new(base), {}
  local steps = self.steps
  for i, group in ipairs(groups) do place[group.stage] = i end
  seen.kernel = opt.kernel
  for i, group in ipairs(groups) do
    local at, below = #steps + 1, nil
    for k = #steps, 1, -1 do
      if (place[steps[k].stage] or i) > i then at = k end
    end
    for k = #steps, 1, -1 do
      if steps[k].stage == group.stage then at, below = k, steps[k] end
    end
    local asked = false
    for _, o in ipairs(group) do asked = asked or opt[o[1]] ~= "" end
    if asked then
      if below then table.remove(steps, at) end
      local step = over(group, opt, seen, below)
      if step then table.insert(steps, at, step) end
      if step and masks and group.stage == "batch_crop" then
        table.insert(steps, at + 1, { stage = "resize", params = { size = seen.size }, option = "crop" })
      end
    end
  end
  return self
end

-- in_order(opt, order, seen, own) -> a chain of the stages that `order` names. own[WORD]() -> a step of the script's own, or nil
function chain_options.in_order(opt, order, seen, own)
  local self, known, there, all = chain.new(), {}, {}, {}
  for name in pairs(own) do all[#all + 1] = name end
  for _, group in ipairs(groups) do known[group[1][1]], all[#all + 1] = group, group[1][1] end
  seen.kernel = opt.kernel
  for word in order:gmatch "[^,%s]+" do
    if not known[word] and not own[word] then
      args.usage("--order %s: there is no '%s'; %s and %s are", order, word, table.concat(all, ", ", 1, #all - 1), all[#all])
    end
    if there[word] then args.usage("--order %s: '%s' stands there twice", order, word) end
    there[word] = true
    if known[word] then self.steps[#self.steps + 1] = over(known[word], opt, seen)
    else self.steps[#self.steps + 1] = own[word]() end
  end
  return self
end

return chain_options
