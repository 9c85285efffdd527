-- SPDX-License-Identifier: MIT
-- Writes the built-in set `shapes` as files: JPEG images and PNG masks, for `train_seg.lua --data DIR`, or a folder of
-- JPEG images for each class; all of them, or in train/ and val/ of their own, which a CSV file may name, or as PASCAL VOC.
local sp = require "spcore"
local sys = require "spcore.sys"
local words = require "spcore.words"

local opt = sp.args({
  samples = { 512, "how many images", min = 1, max = 1000000 },
  size = { 96, "pixels of a side", min = 8, max = 4096 },
  quality = { 92, "of the JPEG files", min = 1, max = 100 },
  data_seed = { 0, "seed of the set: another one gives other images", min = 0 },
  target = { "mask", "images/, masks/ and classes.txt, or a folder for each class", choices = { "mask", "class" } },
  layout = {
    "flat", "flat: all of the images together; splits: DIR/train and DIR/val, a tenth of them in the latter; csv: these, and "
      .. "labels.csv, which names them; voc: as PASCAL VOC",
    choices = { "flat", "splits", "csv", "voc" },
  },
}, {
  rest = "DIR",
  doc = "Writes the set `shapes` as DIR/images/*.jpg, DIR/masks/*.png and DIR/classes.txt, or as DIR/CLASS/*.jpg.",
  without = { "by_hand", "run", "training", "precision", "capture", "seed" },
})

local dir, by_class = opt.rest[1], opt.target == "class"
if #opt.rest ~= 1 then sp.usage("one folder to write to is wanted, got %d", #opt.rest) end
local voc = opt.layout == "voc"
if voc and by_class then sp.usage("--layout voc: has masks, not one class an image; leave --target class out") end

local parts = opt.layout == "flat" and { "all" } or { "train", "val" }
local function folder_of(part) return (part == "all" or voc) and dir or dir .. "/" .. part end

-- Where the images of a part are, and their masks; * becomes the number.
local function names_of(part)
  if voc then return "JPEGImages/" .. part .. "_*.jpg", "SegmentationClass/" .. part .. "_*.png" end
  return by_class and "*.jpg" or "images/*.jpg", "masks/*.png"
end

-- Images of the user's own may have the same names.
local function check_free(folder, subs)
  for _, sub in ipairs(subs) do
    local file = io.open(folder .. "/" .. sub)
    if file then
      file:close()
      sp.usage("%s/%s is there already; name another folder or remove it", folder, sub)
    end
  end
end

-- Writes a part of the set; returns how many images it has, and the names of the classes.
local function write(part)
  local g <close> = sp.graph(opt)
  local data = g.reader {
    path = "shapes", target = opt.target, batch = 16, shuffle = false, samples = opt.samples, split = part,
    size = { opt.size, opt.size }, data_seed = opt.data_seed,
  }
  local images, masks = names_of(part)
  if voc then
    check_free(dir, part == "train" and { "JPEGImages", "SegmentationClass", "ImageSets" } or {})
  else
    check_free(folder_of(part), { "images", "masks", table.unpack(by_class and words.lines(data.class_names) or {}) })
  end
  g.image_writer {
    image = data.image, mask = not by_class and data.mask or nil, label = by_class and data.label or nil,
    class_names = by_class and data.class_names or "", images = images, masks = masks, dir = folder_of(part),
    quality = opt.quality,
  }
  local bar <close> = sp.progress { total = (data.length + 15) // 16 }
  for _ in g:steps(bar.total) do bar:step() end
  return data.length, data.class_names
end

-- The files of a folder, sorted, without hidden ones; none where there is no such folder.
local function files_in(folder)
  local found = {}
  for _, name in ipairs(sys.list(folder) or {}) do
    if name:sub(1, 1) ~= "." then found[#found + 1] = name end
  end
  table.sort(found)
  return found
end

-- ImageSets/Segmentation/PART.txt: the stems of its images.
local function write_lists()
  local lines = { train = {}, val = {} }
  for _, name in ipairs(files_in(dir .. "/JPEGImages")) do
    local list = lines[name:match "^%a+"]
    list[#list + 1] = name:match "^[^.]+" .. "\n"
  end
  sys.mkdir(dir .. "/ImageSets")
  sys.mkdir(dir .. "/ImageSets/Segmentation")
  for part, list in pairs(lines) do
    sp.write_file(dir .. "/ImageSets/Segmentation/" .. part .. ".txt", table.concat(list))
  end
end

local function write_csv(classes)
  local rows = { by_class and "file,label,split" or "file,mask,split" }
  for _, part in ipairs(parts) do
    for _, sub in ipairs(by_class and classes or { "images" }) do
      for _, name in ipairs(files_in(("%s/%s/%s"):format(dir, part, sub))) do
        local value = by_class and sub or part .. "/masks/" .. name:gsub("jpg$", "png")
        rows[#rows + 1] = ("%s/%s/%s,%s,%s"):format(part, sub, name, value, part)
      end
    end
  end
  sp.write_file(dir .. "/labels.csv", table.concat(rows, "\n") .. "\n")
end

local counts, names = {}, nil
for _, part in ipairs(parts) do
  if not sp.interrupted() then counts[#counts + 1], names = write(part) end
end

if not sp.interrupted() then
  -- the reader takes the classes of masks from here
  if voc then write_lists() end
  if opt.layout == "csv" then write_csv(words.lines(names)) end
  if not by_class then sp.write_file(dir .. "/classes.txt", names .. "\n") end
  print(("%s: %s images%s"):format(dir, table.concat(counts, " + "), by_class and "" or " and masks"))
end
