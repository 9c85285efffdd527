-- SPDX-License-Identifier: MIT
-- A chain of augmentation in a Lua file of its own, which trainings and show_augment.lua share. The file returns a list of steps,
-- each the call of a stage by its name: `return { flip {}, solarize { p = 0.2 } }`. It sees `size`, the side that the network sees,
-- `crop`, the window that a classifier cuts out of an image, `middle`, a medium grey (127 of bytes, 0.5 of floats), and `colours`, whether
-- images have 3 channels or 1, without which some stages do not work.
local args = require "spcore.args"
local core = require "spcore.core"
local files = require "spcore.files"
local sides = require "spcore.sides"
local sys = require "spcore.sys"
local words = require "spcore.words"

local chain = {}

local variables = { size = true, crop = true, middle = true, colours = true }
local library = { -- what a file may use beside stages
  math = math, string = string, table = table, ipairs = ipairs, pairs = pairs, tonumber = tonumber, tostring = tostring,
  error = error, assert = assert, type = type, select = select, print = print,
}

-- Of a stage: the port that says what was drawn, and how it is written under a picture.
local tone = { port = "changes", caption = "{left!|done} {.2}" }
local whole = { port = "changes", caption = "{left|done}" }
local drawn = {
  affine = { port = "affines", caption = "affine: {+.1}°, move\u{a0}{+.1},{+.1}\nscale\u{a0}{.2} shear\u{a0}{+.1},{+.1}" },
  batch_crop = { port = "boxes", caption = "crop: y {}, x {}" },
  batch_rotate = { port = "angles", caption = "turn: {+.1}°" },
  blur = { port = "sigmas", caption = "blur: {.2} px" },
  erase = { port = "boxes", caption = "erase: y {}, x {}, {} x {}" },
  color_jitter = { port = "factors",
    caption = "brightness\u{a0}{.2} contrast\u{a0}{.2}\nsaturation\u{a0}{.2} hue\u{a0}{+.2}" },
  flip = { port = "flips", caption = "flip: {no|left-right}, {no|top-bottom}" },
  solarize = tone, posterize = tone, gamma = tone, sharpness = tone, gaussian_noise = tone, jpeg_noise = tone,
  invert = whole, autocontrast = whole, equalize = whole, grey = whole,
  channel_drop = { port = "changes", caption = "{left!|done}, bits {}" },
}
local operations = "{as is!|shear x|shear y|move x|move y|turn|light|colour|contrast|sharp|bits|solarize|stretch!|equalize!}"

local places <const> = { "auto", "cpu", "gpu", "none" }

-- The parts of a value of --augment: where it runs, or nil; the file, or nil. "cpu:FILE.lua" is both.
function chain.option(text)
  local place, file = text:match "^(%a+):(.+%.lua)$"
  if file and (place == "cpu" or place == "gpu") then return place, file end
  if text:find "%.lua$" then return "auto", text end
  for _, word in ipairs(places) do
    if text == word then return word end
  end
  args.usage("--augment %s: choose one of %s, or FILE.lua%s", text, table.concat(places, ", "), words.near(text, places))
end

-- A file of the user's, else the shipped one of that name.
local function found(path)
  local shipped = core.env().script_dir .. "/" .. path
  return not sys.kind(path) and sys.kind(shipped) == "file" and shipped or path
end

-- What mixes samples, and what does so with their labels.
local mixes = { mixup = "--mixup ALPHA", cutmix = "--cutmix ALPHA", mixup_or_cutmix = "--mixup ALPHA --cutmix ALPHA" }

local without_chance = { resize = true, normalize = true, to_float = true }

-- Where a step was asked for.
local function at(self, step) return step.option and "--" .. step.option or ("%s:%d"):format(self.file, step.line) end

-- seen(image, size, crop) -> the variables of a file whose images are such
function chain.seen(image, size, crop)
  local channels = image.shape[2]
  return {
    size = size, crop = crop, middle = image.dtype == "float32" and 0.5 or 127, colours = channels == 3 or channels == 1, channels = channels,
  }
end

-- new(base) -> a chain with the steps of another one, or none
function chain.new(base)
  local self = { file = base and base.file, text = base and base.text, steps = {} }
  for i, step in ipairs(base and base.steps or {}) do self.steps[i] = step end
  return setmetatable(self, { __index = chain })
end

-- read(path, seen) -> { file =, steps =, text = }. A step has stage, params, and its line, or the option that made it; `seen` are the
-- variables of the file: size, crop, middle and colours, those of RGB bytes where it has none
function chain.read(path, seen)
  if seen.middle == nil then seen.middle, seen.colours = 127, true end
  local self, known = { file = path, steps = {} }, {}
  local environment = setmetatable({}, {
    __index = function(_, name)
      if variables[name] and seen[name] ~= nil then return seen[name] end
      if library[name] ~= nil then return library[name] end
      return function(params)
        if type(params) ~= "table" then core.fail(("%s takes a table of parameters: %s { ... }"):format(name, name)) end
        for k, v in next, params do
          if type(v) == "function" then
            core.fail(("%s: '%s' is a name that means no value here; a chain knows size, crop, middle and colours"):format(name,
              tostring(k)))
          end
        end
        local step = { stage = name, params = params, line = debug.getinfo(2, "l").currentline }
        known[step] = true
        return step
      end
    end,
    __newindex = function(_, name)
      core.fail(("write `local %s = ...`; a chain has no variables that others see"):format(name))
    end,
  })
  local file = found(path)
  if sys.kind(file) ~= "file" then
    args.usage("--augment %s: there is no such file; it returns a list of steps, such as: return { flip {}, solarize { p = 0.2 } }", path)
  end
  -- what is shipped is of this version; a file of the user's is what a run depends on, and loadfile notes it
  self.text = files.read(file)
  local f, why
  if file == path then f, why = loadfile(path, "t", environment) else f, why = load(self.text, "@" .. path, "t", environment) end
  if not f then core.fail(why) end
  local ok, list = pcall(f)
  if not ok then core.fail(tostring(list)) end
  if type(list) ~= "table" or known[list] then
    core.fail(("%s: it returns %s, where a list of steps is expected: return { flip {}, solarize { p = 0.2 } }"):format(path,
      known[list] and "one step" or type(list) == "nil" and "nothing" or "a " .. type(list)))
  end
  local n = 0
  for k in next, list do
    if math.type(k) ~= "integer" then
      core.fail(("%s: the list has a '%s'; steps stand in it without names"):format(path, tostring(k)))
    end
    n = math.max(n, k)
  end
  for i = 1, n do
    local step = list[i]
    if not known[step] and step then
      core.fail(("%s: item %d of the list is a %s; a step is the call of a stage, such as flip {}"):format(path, i, type(step)))
    end
    if step then
      self.steps[#self.steps + 1] = step
    end
  end
  return setmetatable(self, { __index = chain })
end

-- The side, or { height, width }, of the window that a classifier's chain begins with, which evaluations and predictions take the middle
-- of; nil: it has none. A later one would leave them with another part of the image than the training.
function chain:window()
  local first
  for i, step in ipairs(self.steps) do
    if step.stage == "batch_crop" then
      if i > 1 then core.fail(("%s: batch_crop must be the first step: predictions cut their images likewise"):format(at(self, step))) end
      local size = step.params.size
      if type(size) == "table" then size = sides.pack(math.tointeger(size[1]), math.tointeger(size[2] or size[1])) end
      first = type(size) == "number" and math.tointeger(size) or size
      if not sides.valid(first) then core.fail(("%s: batch_crop needs a size of whole numbers here"):format(at(self, step))) end
    end
  end
  return first
end

local function told(g, node, name, step)
  local how = drawn[step.stage]
  if step.stage == "rand_augment" or step.stage == "trivial_augment" then
    local lines, n = {}, node.changes.shape[2] // 2
    for k = 1, n do lines[k] = (n > 2 and "{}" or operations) .. " {.2}" end -- a caption has room for two lists of names
    how = { port = "changes", caption = table.concat(lines, ", ") }
  elseif how and how.port == "changes" then
    how = { port = how.port, caption = name .. ": " .. how.caption }
  end
  if how then return node[how.port], how.caption end
end

-- What a file says of bytes is far beyond floats from 0 to 1.
local function check_fill(self, step, image)
  if image.dtype ~= "float32" then return end
  for _, name in ipairs { "fill", "value", "threshold" } do
    local v = step.params[name]
    for _, one in ipairs(type(v) == "table" and v or { v }) do
      if type(one) == "number" and one > 1 then
        core.fail(("%s: %s: %s = %g is of bytes, and images are floats here, of which the range is 0 to 1; %s = middle is a medium grey "
          .. "of both"):format(at(self, step), step.stage, name, one, name))
      end
    end
  end
end

local of_colours <const> = { -- stages that leave each pixel where it is
  autocontrast = true, blur = true, channel_drop = true, color_jitter = true, equalize = true, gamma = true, gaussian_noise = true,
  grey = true, invert = true, jpeg_noise = true, posterize = true, sharpness = true, solarize = true,
}
local of_both <const> = { augment = true, rand_augment = true, trivial_augment = true }
local moves <const> = {
  affine = true, augment = true, batch_resized_crop = true, batch_rotate = true, elastic = true, perspective = true, rand_augment = true,
  trivial_augment = true,
}

-- Ends with a line where a step makes of left and right images what no two cameras see. Mirrored alike, what was left is right, and
-- disparities are negative; turned or scaled, they are no more distances along a row of pixels.
local function check_stereo(self, step)
  local p = step.params
  local mirrors = step.stage == "flip" and p.horizontal ~= 0
  if not mirrors and not moves[step.stage] then return end
  core.fail(("%s: %s of left and right images %s; %s. If they are no two views of one scene, call them first and second"):format(
    at(self, step), step.stage,
    mirrors and "mirrors both, so that disparities become negative" or "moves pixels so that disparities are others",
    mirrors and "flip { horizontal = 0, vertical = 0.5 } mirrors top to bottom alone"
      or "leave it out; batch_crop, flip { horizontal = 0 } and colours keep them"))
end

-- A step of colours for each of two images, with draws of its own; `wanted` is that for both.
local function apart(g, step, wanted)
  local made = {}
  for i = 1, 2 do
    local one = {}
    for k, v in next, wanted do one[k] = v end
    one[1], one.masks = wanted[1][i], i == 1 and wanted.masks or nil
    made[i] = g:stage(step.stage, one)
  end
  return made[1], made[2].images[1]
end

-- Adds the steps to a graph, behind image (or a list of images, which get the same draws) and mask (nil: there is none). more:
-- parameters that each step gets, such as on_cpu. how: { separate = colours of two images have draws of their own, stereo = the two
-- are left and right }, or nil
-- -> image, mask, { { values =, caption = }, ... } of the steps that say what they drew
function chain:add(g, image, mask, more, how)
  local drew, separate = {}, how and how.separate
  local both = not core.kind(image) and image or nil
  local dtype = (both and both[1] or image).dtype
  for _, step in ipairs(self.steps) do
    local wanted = { image, masks = mask }
    if mixes[step.stage] and not mask then
      core.fail(("%s: %s changes labels, of which a chain has none; train_cls.lua has %s"):format(at(self, step), step.stage, mixes[step.stage]))
    end
    for k, v in next, step.params do
      if k == 1 or k == "masks" then
        core.fail(("%s: %s gets its images and masks from the step before it"):format(at(self, step), step.stage))
      end
      wanted[k] = v
    end
    for k, v in next, more or {} do
      if wanted[k] == nil and (k == "on_cpu" or not without_chance[step.stage]) then wanted[k] = v end
    end
    check_fill(self, step, both and both[1] or image)
    if how and how.stereo then check_stereo(self, step) end
    if both and separate and of_both[step.stage] then
      core.fail(("%s: %s draws colours and places together, so both images get the same; leave --separate-colours out, or take stages of "
        .. "colours alone, such as color_jitter"):format(at(self, step), step.stage))
    end
    local ok, made, other
    if both and separate and of_colours[step.stage] then ok, made, other = pcall(apart, g, step, wanted)
    else ok, made = pcall(g.stage, g, step.stage, wanted) end
    if not ok and step.without and tostring(made):find "unknown stage" then
      args.usage("--%s: this build has no stage '%s'; %s does without", step.option, step.stage, step.without)
    end
    if not ok then core.fail(("%s: %s"):format(at(self, step), (tostring(made):gsub("^%S+%.lua:%d+: ", "")))) end
    local given, images = pcall(function() return made.images[1] end)
    if not given then core.fail(("%s: %s makes no images, so it is no step of a chain"):format(at(self, step), step.stage)) end
    if images.dtype ~= dtype then
      core.fail(("%s: %s makes %s of %s; leave it out: the script converts images behind the chain"):format(at(self, step),
        step.stage, images.dtype, dtype))
    end
    mask = mask and made.masks[1]
    if both then image = { images, other or made.images[2] } else image = images end
    both = both and image
    local values, caption = told(g, made, step.stage, step)
    if values then drew[#drew + 1] = { values = values, caption = caption } end
  end
  return image, mask, drew
end

-- Ends with a line where a chain for masks changes their size: validation and predictions see whole images.
function chain:keeps(before, after)
  for d = 3, 4 do
    if before.shape[d] ~= after.shape[d] then
      core.fail(("%s: it makes %d x %d of %d x %d, but validation and predictions see whole images; batch_resized_crop { size = size } "
        .. "cuts windows and keeps the size"):format(self.file, after.shape[3], after.shape[4], before.shape[3], before.shape[4]))
    end
  end
end

-- For settings.json: the file, what was in it, and each step in words.
function chain:settings()
  local list = {}
  for i, step in ipairs(self.steps) do
    local parts = { step.stage }
    for _, k in ipairs(words.keys(step.params)) do
      local v = step.params[k]
      parts[#parts + 1] = ("%s %s"):format(k, type(v) == "table" and table.concat(v, ",") or tostring(v))
    end
    list[i] = table.concat(parts, " ")
  end
  return { file = self.file, steps = list, text = self.text }
end

return chain
