-- SPDX-License-Identifier: MIT
-- Draws a contact sheet: samples as they are, and what augmentation makes of them in several epochs, each with the
-- parameters that were drawn for it.
local sp = require "spcore"
local args = require "spcore.args"
local chain = require "spcore.chain"
local chain_options = require "spcore.chain_options"
local core = require "spcore.core"
local files = require "spcore.files"
local kept = require "spcore.numbers"
local outputs = require "spcore.outputs"
local sys = require "spcore.sys"
local twos = require "spcore.twos"

local usual = { crop = "0.875", flip = "0.5", rotate = "30", jitter = "0.3", hue = "0.1", blur = "0.1,2.0" }
local options = {
  out = { "sheet.png", "PNG file to write; one that is there is replaced", value = "FILE.png" },
  target = { "auto", "what DIR holds; auto: see for yourself", choices = { "auto", "mask", "class" } },
  samples = { 6, "how many samples: rows of the sheet", min = 1, max = 1024 },
  variants = { 5, "epochs: columns beside the original", min = 1, max = 1024 },
  size = { "128", "height,width that everything is read at, in pixels, also HxW; one number: square", value = "H,W" },
  augment = { "", "a chain of stages as trainings take it, in place of the options from --order to --kernel", default = "none",
    value = "FILE.lua" },
  separate_colours = twos.separate,
  order = { "crop,resize," .. table.concat(chain_options.words, ",", 2), "the stages, in their order; one that is not named is off; "
    .. "scale has --shift and --shear, jitter --hue", value = "NAME,..." },
  resize = { "0", "height,width to scale to, in pixels; 0: off", value = "H,W" },
  mode = { "bilinear", "how rotate, scale and the like sample images", choices = { "nearest", "bilinear" } },
  same_on_batch = { false, "draw once for all samples of a step, which are 16" },
  cell = { 128, "pixels of the sheet for the longer side of an original", min = 8, max = 4096 },
  text = { 1, "size of the letters", min = 1, max = 8 },
}
for name, row in pairs(chain_options.options(usual)) do options[name] = row end
local opt = sp.args(options, {
  rest = "DIR | IMAGE...",
  doc = "Draws originals and what augmentation makes of them, with the parameters drawn, into one PNG file. DIR holds "
    .. "images/ and masks/, or a folder of images for each class, or is one of the built-in sets shapes and random.",
  without = { "by_hand", "run", "training", "precision" },
})
outputs.alone()

-- ---- the command line ----

-- Height and width, whole numbers with a comma between; one stands for both.
local function pair_of(name, least)
  local text, list = opt[name], {}
  for word in (text:gsub("^(%d+)x(%d+)$", "%1,%2") .. ","):gmatch "([^,]*)," do
    local v = tonumber(word)
    if not v or v ~= v or v - v ~= 0 or #list == 2 then
      sp.usage("--%s %s: one number, or up to 2 with commas between, are expected", name, text)
    end
    if v < least then sp.usage("--%s %s: %s is below %s", name, text, word, least) end
    list[#list + 1] = math.tointeger(v) or sp.usage("--%s %s: whole pixels are expected", name, text)
  end
  return { list[1], list[2] or list[1] }
end

local place, chain_file = "auto", nil
if opt.augment ~= "" then
  place, chain_file = chain.option(opt.augment)
  if not chain_file then
    sp.usage("--augment %s: a file is shown, such as the shipped chains/cls.lua, which train_cls.lua has by default", opt.augment)
  end
  local own = chain_options.options {}
  own.order, own.resize, own.mode = true, true, true
  for _, name in ipairs(args.given) do
    if own[name] then sp.usage("--%s: %s has its own stages; leave it out", name, chain_file) end
  end
end

local size = pair_of("size", 1)
if not opt.out:lower():match "[^/]%.png$" then sp.usage("--out %s: the name must end in .png", opt.out) end
if #opt.rest == 0 then sp.usage("no folder is given; --help says what it holds, `shapes` is one to begin with") end

-- ---- what is shown ----

-- The files of dir/images as the reader has them in order: by what stands before the ending.
local function image_names(dir)
  local list = {}
  for _, name in ipairs(sys.list(dir .. "/images") or {}) do
    local stem = files.is_picture(name) and name:match "^([^.].*)%.%a+$"
    if stem then list[#list + 1] = { name, stem = stem } end
  end
  table.sort(list, function(a, b) return a.stem < b.stem end)
  local names = {}
  for i = 1, math.min(#list, opt.samples) do names[i] = { list[i][1] } end
  return names
end

-- The images below a folder, as paths from `base` on, sorted; nothing where it is too deep to be one of classes.
local function pictures_below(base, rel, depth, list)
  for _, name in ipairs(depth > 16 and {} or sys.list(base .. "/" .. rel) or {}) do
    local path, ending = rel .. "/" .. name, name:match "%.(%a+)$"
    ending = ending and ending:lower()
    if name:sub(1, 1) == "." then goto continue end
    if ending == "jpg" or ending == "jpeg" or ending == "png" then
      list[#list + 1] = path
    elseif sys.kind(base .. "/" .. path) == "dir" then
      pictures_below(base, path, depth + 1, list)
    end
    ::continue::
  end
  return list
end

-- Of a folder of classes as many samples as are wanted, from all classes alike, the first ones of each: files, and their
-- names with that of the class. nil where it is none: the reader says so.
local function from_classes(dir)
  local classes, files, shown = {}, {}, {}
  for _, name in ipairs(sys.list(dir) or {}) do
    if name:sub(1, 1) ~= "." and sys.kind(dir .. "/" .. name) == "dir" then classes[#classes + 1] = name end
  end
  table.sort(classes)
  local taken, left = {}, opt.samples
  for i, name in ipairs(classes) do
    local list = pictures_below(dir, name, 1, {})
    if #list == 0 then return end
    table.sort(list)
    classes[i], taken[i] = list, 0
  end
  local function take(i)
    if left > 0 and taken[i] < #classes[i] then taken[i], left = taken[i] + 1, left - 1 end
  end
  if left < #classes then -- some of them, evenly
    for k = 0, opt.samples - 1 do take(k * #classes // opt.samples + 1) end
  end
  local before
  while left > 0 and left ~= before do
    before = left
    for i = 1, #classes do take(i) end
  end
  for i, list in ipairs(classes) do
    for k = 1, taken[i] do files[#files + 1], shown[#shown + 1] = { dir .. "/" .. list[k] }, { list[k] } end
  end
  if files[1] then return files, shown end
end

-- Has two images a sample, and masks.
local function of_two(path)
  local probe <close> = sp.graph(require("spcore.options").reading_of(opt, { device = "cpu" }))
  local level = core.log_level "error"
  local named = sys.kind(path) ~= "dir" or sys.kind(path .. "/classes.txt")
  local ok, data = pcall(probe.reader, { path = path, target = "mask", size = 8, batch = 1, classes = not named and 255 or nil })
  core.log_level(level)
  return ok and data.images == 2
end

-- -> parameters of the reader, whether there are masks, names of the samples
local function source()
  local first = opt.rest[1]
  local built_in = first == "shapes" or first == "random"
  local function folder(sub) return sys.kind(first .. "/" .. sub) == "dir" end
  if #opt.rest > 1 or sys.kind(first) == "file" and not first:lower():find "%.csv$" then
    local list, names = {}, {}
    for i, path in ipairs(opt.rest) do
      if i > opt.samples then break end
      if sys.kind(path) == "dir" then sp.usage("%s: several images are expected, or one folder", path) end
      list[i], names[i] = { path }, { path:match "[^/]*$" }
    end
    return { files = list }, false, names
  end
  local target = opt.target
  -- of a set of masks with splits of its own: what the training sees
  local split = not folder "images" and folder "train/images" and folder "train/masks"
  local voc = folder "JPEGImages"
  local has_masks = split or voc or folder "images" and folder "masks"
  if target == "auto" and not built_in and not has_masks then has_masks = of_two(first) end
  if target == "auto" then target = (built_in or has_masks) and "mask" or "class" end
  local params = { path = first, target = target, samples = opt.samples, split = split and "train" or nil }
  if built_in then return params, target == "mask" or first == "shapes" end
  if target == "class" then
    if folder "images" and folder "masks" then return params, false end -- which the reader refuses
    local list, shown = from_classes(first)
    return list and { files = list } or params, false, shown
  end
  -- colours need no names, so a set whose classes nobody has counted yet can be looked at
  if not voc and sys.kind(first .. "/classes.txt") == nil then params.classes = 255 end
  return params, true, image_names(split and first .. "/train" or first)
end

local g <close> = sp.graph(opt)
local params, masked, names = source()
local batch = math.min(opt.samples, 16)
params.size, params.batch, params.shuffle, params.max_bad = size, batch, false, 0
if opt.dtype ~= "uint8" then
  local probe <close> = sp.graph(require("spcore.options").reading_of(opt, { device = "cpu" }))
  params.range = kept.shown_range(opt, probe.reader(params))
  sp.print("the first three channels are shown; %s are black and white (--range)", ((params.range or "0,1"):gsub(",", " and ")))
end
local data = g.reader(params)
local rows = math.min(opt.samples, data.length)

-- Masks of shapes with one class an image: the ground is 0.
local function mask_names()
  if not masked or data.class_names == "" then return "" end
  return (params.target == "class" and "ground\n" or "") .. data.class_names
end

-- ---- the stages ----

local values, captions, settings = {}, {}, {}
local two = data.images == 2
if opt.separate_colours and not two then sp.usage("--separate-colours: goes with two images a sample, and %s has one", opt.rest[1]) end
if opt.separate_colours and not chain_file then
  sp.usage "--separate-colours: goes with --augment FILE.lua, a chain that changes colours"
end
if two then
  names = {}
  for i = 1, rows do names[i] = { data:item("files", i - 1):match "[^/]*$" } end
end
local image, mask = two and { data.image, data.second } or data.image, masked and data.mask or nil
local function first(x) return two and x[1] or x end
local function second(x) return two and x[2] or nil end

-- A stage; `without` are the options that do without it.
local function made_of(stage, wanted, option, without)
  local ok, made = pcall(g.stage, g, stage, wanted)
  if ok then return made end
  if not made:find "unknown stage" then error(made, 0) end
  sp.usage("--%s: this build has no stage '%s'; %s does without", option, stage, without)
end

local function resize()
  local px = pair_of("resize", 0)
  return px[1] + px[2] > 0 and { stage = "resize", params = { size = px }, option = "resize", without = "--resize 0" } or nil
end

local side = math.min(size[1], size[2])
local seen = chain.seen(data.image, side, side * 7 // 8)
seen.whole, seen.mode = size, opt.mode
local list = chain_file and chain.read(chain_file, seen) or chain_options.in_order(opt, opt.order, seen, { resize = resize })
if not chain_file and not seen.colours then
  settings[1] = "no jitter: it wants 3 channels or 1"
end
local drew
image, mask, drew = list:add(g, image, mask, { always = true, same_on_batch = opt.same_on_batch or nil,
  on_cpu = place == "cpu" and g:device() ~= "cpu" or nil }, chain_file and twos.chained(opt, data) or nil)
for i, one in ipairs(drew) do values[i], captions[i] = one.values, { one.caption } end
for _, text in ipairs(list:settings().steps) do settings[#settings + 1] = text:gsub(" ", "\u{a0}") end

-- ---- the sheet ----

-- Large pictures are scaled down to the cell, small ones made of whole blocks.
local longest = math.max(size[1], size[2])
local zoom = math.max(1, opt.cell // longest)
local function fit(x, m)
  if longest <= opt.cell then return x, m end
  local function side(px) return math.max(1, math.floor(px * opt.cell / longest + 0.5)) end
  local small = made_of("resize", { x, masks = m, size = { side(first(x).shape[3]), side(first(x).shape[4]) } },
    ("cell %d"):format(opt.cell), ("--cell %d"):format(longest))
  return two and { small.images[1], small.images[2] } or small.images[1], m and small.masks[1]
end

local original, original_mask = fit(two and { data.image, data.second } or data.image, masked and data.mask or nil)
image, mask = fit(image, mask)

local one = #opt.rest == 1 and opt.rest[1] or ("%d images"):format(rows)
local sheet <close> = outputs.place(opt, opt.out)
files.make_parents(sheet.path)
g.contact_sheet {
  image = first(image), second = second(image), mask = mask, original = first(original), original_second = second(original),
  original_mask = original_mask,
  values = #values > 0 and values or nil, captions = captions,
  label = params.target == "class" and data.label or nil,
  class_names = params.target == "class" and data.class_names or "", mask_names = mask_names(), names = names,
  rows = rows, columns = opt.variants, zoom = zoom, text = opt.text, file = sheet.path, on_cpu = true,
  title = ("%s\nread at %d x %d px · %sseed %d"):format(one, size[1], size[2],
    #settings > 0 and table.concat(settings, " · ") .. " · " or "no augmentation · ", opt.seed),
}

local steps = math.ceil(rows / batch) * opt.variants
local bar <close> = sp.progress { total = steps }
for _ in g:steps(steps) do bar:step() end
bar:close()
if not sp.interrupted() then
  print(("%s: %d sample%s, %d epoch%s"):format(opt.out, rows, rows == 1 and "" or "s", opt.variants,
    opt.variants == 1 and "" or "s"))
end
