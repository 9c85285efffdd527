-- SPDX-License-Identifier: MIT
-- Two images a sample, such as before and after, or left and right: how a network reads them. early: it sees one image of twice the
-- channels. siamese: one encoder sees each, and what follows sees the channels of both; a stage that is trained runs once, so the
-- encoder has to be frozen: the two stages then have the same weights. A run's settings.json has model.fusion.
local args = require "spcore.args"
local core = require "spcore.core"
local files = require "spcore.files"
local pictures = require "spcore.pictures"
local progress = require "spcore.progress"
local sys = require "spcore.sys"

local twos = {}

twos.option = {
  "auto", "of two images a sample: early, an encoder of both images' channels; siamese, one frozen encoder for each of them",
  choices = { "auto", "early", "siamese" }, default = "siamese where the encoder is frozen, else early",
}

twos.separate = { false, "with --augment, of two images a sample: each gets draws of its own of colours; they move alike in any case" }

-- plan(opt, model, data, trained, what): says in `model` how the images of that reader are read; trained: the encoder is; what: an
-- encoder that reads one image only, or nil; frozen: how it is, in words, where leaving --train-encoder out does not do it
function twos.plan(opt, model, data, trained, what, frozen)
  if data.images ~= 2 then
    if opt.fusion ~= "auto" then args.usage("--fusion %s: goes with two images a sample, and %s has one", opt.fusion, opt.data) end
    twos.chained(opt, data)
    return
  end
  if opt.separate_colours and opt.augment == "none" then
    args.usage "--separate-colours: goes with --augment FILE.lua, a chain that changes colours"
  end
  if opt.fusion == "siamese" and trained then
    local bare = opt.backbone and opt.backbone ~= "" and opt.weights == "" -- frozen it needs weights
    args.usage("--fusion siamese: the two encoders would be trained apart; %s, or take --fusion early",
      frozen or bare and "leave --train-encoder out and give --weights FILE" or "leave --train-encoder out")
  end
  if opt.fusion == "early" and what then
    args.usage("--fusion early: %s reads one image; train one (--train-encoder), or take --fusion siamese", what)
  end
  model.fusion = opt.fusion ~= "auto" and opt.fusion or trained and "early" or "siamese"
  progress.print("two images a sample, %s fusion: %s", model.fusion, model.fusion == "early" and "the encoder reads the channels of both" or
    "a frozen encoder reads each, what follows the channels of both")
end

-- The images of a source as a network reads them: a list of two where the model has a fusion.
function twos.images(data, model)
  return model.fusion and { data.image, data.second } or data.image
end

-- How a chain is added behind the images of that source: parameters of chain.add.
function twos.chained(opt, data)
  if opt.separate_colours and data.images ~= 2 then
    args.usage("--separate-colours: goes with two images a sample, and %s has one", opt.data)
  end
  return { separate = opt.separate_colours, stereo = data.stereo == 1 and data.images == 2 }
end

-- floats(images, f) -> f of the image, or a list of what it gives for each; f may give a list of one image
function twos.floats(images, f)
  if core.kind(images) then return f(images) end
  local out = {}
  for i, image in ipairs(images) do
    local x = f(image)
    out[i] = core.kind(x) == "output" and x.list and x[1] or x
  end
  return out
end

-- encode(g, images, model, make) -> features, maps, image as the encoder reads it; make(image, n) makes an encoder of n images' channels
function twos.encode(g, images, model, make)
  if core.kind(images) then
    local enc = make(images, 1)
    return enc.features, enc.maps, images
  end
  if model.fusion == "early" then
    local x = g.concat { images }.y
    local enc = make(x, 2)
    return enc.features, enc.maps, x
  end
  local a, b = make(images[1], 1), make(images[2], 1)
  local maps = {}
  for i = 1, #a.maps do maps[i] = g.concat { { a.maps[i], b.maps[i] } }.y end
  return g.concat { { a.features, b.features } }.y, maps, images[1]
end

-- ---- what a command line names ----

local words <const> = { -- as plugins/stages/reader/two_names.c has them
  { "a", "b" }, { "before", "after" }, { "pre", "post" }, { "t1", "t2" }, { "t0", "t1" }, { "time1", "time2" }, { "im1", "im2" },
  { "img1", "img2" }, { "image1", "image2" }, { "left", "right" }, { "first", "second" }, { "old", "new" },
}

local function stem_of(name) return (name:gsub("(.)%.[^.]*$", "%1")) end

-- The stem of the second image where that of the first has a word for it: x_pre, x_post.
local function counterpart(stem)
  local low = stem:lower()
  for _, pair in ipairs(words) do
    local from, to = low:match("()%f[%w]" .. pair[1] .. "%f[%W]()")
    if from then
      local is = stem:sub(from, to - 1)
      local other = is == is:upper() and pair[2]:upper() or is:sub(1, 1):match "%u" and (pair[2]:gsub("^%l", string.upper)) or pair[2]
      return stem:sub(1, from - 1) .. other .. stem:sub(to)
    end
  end
end

-- Two folders: the images of the first with those of the same stem in the second.
local function folders(first, second)
  local by, list, missing = {}, {}, 0
  for _, name in ipairs(sys.names(second) or {}) do
    if files.is_picture(name) then by[stem_of(name)] = name end
  end
  local next_image, lone = pictures({ first }, { names = false }), nil
  for image in next_image do
    local stem = stem_of(image.path:match "[^/]*$")
    local other = by[stem] or by[counterpart(stem) or ""]
    if other then list[#list + 1] = { path = image.path, second = second:gsub("(.)/+$", "%1") .. "/" .. other }
    else
      missing, lone = missing + 1, lone or image.path
    end
  end
  if missing > 0 then
    args.usage("%s has no second image: %s has none of its stem; %d of %d images have none; take them out, or add those", lone, second,
      missing, missing + #list)
  end
  local i = 0
  return function()
    i = i + 1
    return list[i]
  end, #list
end

-- Two files, or two lists with a path on each line.
local function in_step(first, second)
  local a, total = pictures({ first }, { names = false })
  local b = pictures({ second }, { names = false })
  return function()
    local one, other = a(), b()
    if (one == nil) ~= (other == nil) then
      core.fail(("%s names fewer images than %s; each sample has one in both"):format(one and second or first, one and first or second))
    end
    return one and { path = one.path, second = other.path }
  end, total
end

-- pictures(paths, names) -> as sp.pictures, of two images each: two files, two folders or two lists, and so on
function twos.pictures(paths, names)
  if #paths % 2 == 1 then
    args.usage("this network reads two images a sample: name the first and the second one, or the folders of both, such as A/1.png B/1.png "
      .. "or A B; %d %s named", #paths, #paths == 1 and "is" or "are")
  end
  local sources, total = {}, 0
  for i = 1, #paths, 2 do
    local a, b = paths[i], paths[i + 1]
    local is_dir = { sys.kind(a) == "dir", sys.kind(b) == "dir" }
    if is_dir[1] ~= is_dir[2] or (a:sub(1, 1) == "@") ~= (b:sub(1, 1) == "@") then
      args.usage("%s and %s: the two images of samples are two files, two folders or two lists", a, b)
    end
    local count
    sources[#sources + 1], count = (is_dir[1] and folders or in_step)(a, b)
    total = total and count and total + count
  end
  local i, name = 1, names and files.namer() or function() end
  return function()
    while sources[i] do
      local one = sources[i]()
      if one then
        one.name = name(one.path)
        return one
      end
      i = i + 1
    end
  end, total
end

return twos
