-- SPDX-License-Identifier: MIT
-- Writes the built-in set `shapes` as files, in each of the layouts that the reader reads.
local sp = require "spcore"
local files = require "spcore.files"
local npy = require "spcore.npy"
local sys = require "spcore.sys"
local tar = require "spcore.tar"

local opt = sp.args({
  samples = { 512, "how many images", min = 1, max = 1000000 },
  size = { 96, "pixels of a side", min = 8, max = 4096 },
  format = { "jpg", "files of the images; png: without loss, the same pixels in each layout", choices = { "jpg", "png" } },
  quality = { 92, "of the JPEG files", min = 1, max = 100 },
  data_seed = { 0, "seed of the set: another one gives other images", min = 0 },
  target = { "auto", "a mask or a class for each image; auto: mask, with --layout classes class",
    choices = { "auto", "mask", "class" } },
  layout = {
    "auto", "pairs: images/, masks/ and classes.txt; classes: a folder for each; splits: train/ and val/ of one of these, "
      .. "a tenth of the images in val/; voc: PASCAL VOC's folders and lists; csv: data.csv and files; webdataset: tar "
      .. "files of --shard-size samples; npy: images.npy and masks.npy or labels.npy; auto: pairs or classes, by --target",
    choices = { "auto", "pairs", "classes", "splits", "voc", "csv", "webdataset", "npy" },
  },
  shard_size = { 256, "samples of a shard, with --layout webdataset", min = 1 },
}, {
  rest = "DIR",
  doc = "Writes the set `shapes` into DIR, in one of the layouts that `reader` reads (docs/stages.md).",
  without = { "by_hand", "run", "training", "precision", "capture", "seed" },
})

local dir = opt.rest[1]
if #opt.rest ~= 1 then sp.usage("one folder to write to is wanted, got %d", #opt.rest) end

local by_class = opt.target == "class" or opt.target == "auto" and opt.layout == "classes"
local layout = opt.layout ~= "auto" and opt.layout or by_class and "classes" or "pairs"
if by_class and (layout == "pairs" or layout == "voc") then sp.usage("--layout %s: has masks, not --target class", layout) end
if not by_class and layout == "classes" then sp.usage "--layout classes: has a class for each image, not --target mask" end

-- ---- what is there already ----
-- Images of the user's own may have the same names.
local function check_free(folder, names)
  for _, name in ipairs(names) do
    if sys.kind(folder .. "/" .. name) then
      sp.usage("%s/%s is there already; name another folder or remove it", folder, name)
    end
  end
end

local function make_folder(path)
  files.make_parents(path .. "/x")
end

local function classes_of(data)
  local names = {}
  for name in data.class_names:gmatch "[^\n]+" do names[#names + 1] = name end
  return names
end

-- ---- steps ----
local batch = 16

local function source(g, part)
  return g.reader {
    path = "shapes", target = by_class and "class" or "mask", batch = batch, shuffle = false, samples = opt.samples,
    split = part or "all", size = { opt.size, opt.size }, data_seed = opt.data_seed,
  }
end

-- How the files of sample i are called, from 0.
local function stem(i) return ("%05d"):format(i) end

-- Calls done(m, first, last) with the samples of each step that is over, counted from 0.
local function run(g, data, done)
  local bar <close> = sp.progress { total = (data.length + batch - 1) // batch }
  local first = 0
  for _, m in g:steps(bar.total) do
    local last = math.min(first + batch, data.length) - 1
    if done then done(m, first, last) end
    first = last + 1
    bar:step()
  end
end

-- The labels of a step.
local function labels(m) return { m.label:byte(1, -1) } end

-- ---- layouts of files ----
-- A stage that writes the files of each sample below `folder`; without classes.
local function writer(g, data, folder, images, masks)
  g.image_writer {
    image = data.image, mask = not by_class and data.mask or nil, images = images .. "*." .. opt.format,
    masks = masks, dir = folder, quality = opt.quality,
  }
end

-- The same with a folder for each class.
local function class_writer(g, data, folder)
  g.image_writer {
    image = data.image, label = data.label, class_names = data.class_names, images = "*." .. opt.format, dir = folder,
    quality = opt.quality,
  }
end

local function write_pairs(folder, part)
  local g <close> = sp.graph(opt)
  local data = source(g, part)
  check_free(folder, { "images", "masks" })
  writer(g, data, folder, "images/", "masks/*.png")
  run(g, data)
  return data.length, data.class_names
end

local function write_classes(folder, part)
  local g <close> = sp.graph(opt)
  local data = source(g, part)
  check_free(folder, classes_of(data))
  class_writer(g, data, folder)
  run(g, data)
  return data.length, data.class_names
end

local layouts = {}

-- Each returns how many samples it wrote, in words, and the names of the classes where classes.txt is to be written.
function layouts.pairs()
  local n, names = write_pairs(dir)
  return ("%d images and masks"):format(n), names
end

function layouts.classes()
  return ("%d images"):format((write_classes(dir)))
end

function layouts.splits()
  local write = by_class and write_classes or write_pairs
  local n, names = write(dir .. "/train", "train")
  local n_val = sp.interrupted() and 0 or write(dir .. "/val", "val")
  return ("%d + %d images%s"):format(n, n_val, by_class and "" or " and masks"), not by_class and names or nil
end

-- One list, which the reader divides: by the names, as it divides pairs.
function layouts.voc()
  local g <close> = sp.graph(opt)
  local data = source(g)
  check_free(dir, { "JPEGImages", "SegmentationClass", "ImageSets" })
  writer(g, data, dir, "JPEGImages/", "SegmentationClass/*.png")
  run(g, data)
  local stems = {}
  for i = 0, data.length - 1 do stems[#stems + 1] = stem(i) .. "\n" end
  make_folder(dir .. "/ImageSets/Segmentation")
  sp.write_file(dir .. "/ImageSets/Segmentation/trainval.txt", table.concat(stems))
  return ("%d images and masks"):format(data.length), data.class_names
end

function layouts.csv()
  local g <close> = sp.graph(opt)
  local data = source(g)
  local names, rows = classes_of(data), {}
  check_free(dir, { "data.csv", "masks", table.unpack(by_class and names or {}) })
  if by_class then
    class_writer(g, data, dir)
    g:results { data.label, raw = true }
  else
    writer(g, data, dir, "", "masks/*.png")
  end
  run(g, data, function(m, first, last)
    local of = by_class and labels(m)
    for i = first, last do
      local name = of and names[of[i - first + 1] + 1]
      rows[#rows + 1] = name and ("%s/%s.%s,%s\n"):format(name, stem(i), opt.format, name)
        or ("%s.%s,masks/%s.png\n"):format(stem(i), opt.format, stem(i))
    end
  end)
  table.sort(rows)
  sp.write_file(dir .. "/data.csv", ("file,%s\n"):format(by_class and "label" or "mask") .. table.concat(rows))
  return ("%d images%s"):format(data.length, by_class and "" or " and masks"), data.class_names
end

-- ---- layouts of large files ----
-- Takes a file away that the graph has written.
local function take(path)
  local file, why = io.open(path, "rb")
  if not file then sp.fail(why) end
  local bytes = file:read "a"
  file:close()
  os.remove(path)
  return bytes
end

-- The graph writes files into a folder beside the shards; each step's are moved into a shard.
function layouts.webdataset()
  local g <close> = sp.graph(opt)
  local data = source(g)
  local temp, shard, n = dir .. "/.parts", nil, 0
  check_free(dir, { "shapes-000000.tar" })
  writer(g, data, temp, "", "*.seg.png")
  if by_class then g:results { data.label, raw = true } end
  run(g, data, function(m, first, last)
    local of = by_class and labels(m)
    for i = first, last do
      if i % opt.shard_size == 0 then
        if shard then shard:close() end
        shard = tar.create(("%s/shapes-%06d.tar"):format(dir, n))
        n = n + 1
      end
      local image, mask = ("%s.%s"):format(stem(i), opt.format), stem(i) .. ".seg.png"
      shard:add(image, take(temp .. "/" .. image))
      if of then
        shard:add(stem(i) .. ".cls", ("%d"):format(of[i - first + 1]))
      else
        shard:add(mask, take(temp .. "/" .. mask))
      end
    end
  end)
  if shard then shard:close() end
  for _, name in ipairs(sys.list(temp) or {}) do os.remove(temp .. "/" .. name) end -- after Ctrl-C
  os.remove(temp)
  return ("%d samples in %d shards"):format(data.length, n), data.class_names
end

-- Images as planes: results are row-major.
function layouts.npy()
  local g <close> = sp.graph(opt)
  local data = source(g)
  local truth = by_class and "labels" or "masks"
  check_free(dir, { "images.npy", truth .. ".npy" })
  make_folder(dir)
  g:results { data.image, by_class and data.label or data.mask, raw = true }
  local n, size = data.length, opt.size
  local images = npy.create(dir .. "/images.npy", "|u1", { n, 3, size, size })
  local rows = npy.create(("%s/%s.npy"):format(dir, truth), "|u1", by_class and { n } or { n, size, size })
  run(g, data, function(m)
    images:put(m.image)
    rows:put(by_class and m.label or m.mask)
  end)
  images:close()
  rows:close()
  return ("%d rows"):format(n), data.class_names
end

local what, names = layouts[layout]()
if not sp.interrupted() then
  -- the reader takes the classes of masks, and the names of numbers, from here
  if names then sp.write_file(dir .. "/classes.txt", names .. "\n") end
  print(("%s: %s"):format(dir, what))
end
