-- SPDX-License-Identifier: MIT
-- Writes the built-in set `shapes` as files, in each of the layouts that the reader reads.
local sp = require "spcore"
local files = require "spcore.files"
local npy = require "spcore.npy"
local outputs = require "spcore.outputs"
local sys = require "spcore.sys"
local tar = require "spcore.tar"
local words = require "spcore.words"

local opt = sp.args({
  samples = { 512, "how many images", min = 1, max = 1000000 },
  size = { 96, "pixels of a side", min = 8, max = 4096 },
  format = { "jpg", "files of the images; png: without loss, the same pixels in each layout", choices = { "jpg", "png" } },
  quality = { 92, "of the JPEG files", min = 1, max = 100 },
  data_seed = { 0, "seed of the set: another one gives other images", min = 0 },
  target = { "auto", "a mask or a class for each image; auto: mask, with --layout classes class",
    choices = { "auto", "mask", "class" } },
  layout = {
    "auto", "pairs: images/, masks/ and classes.txt; classes: a folder for each; voc: PASCAL VOC's folders and lists; csv: "
      .. "labels.csv and files; webdataset: tar files of --shard-size samples; npy: images.npy and masks.npy or labels.npy; "
      .. "auto: pairs or classes, by --target; splits: these with --splits",
    choices = { "auto", "pairs", "classes", "splits", "voc", "csv", "webdataset", "npy" },
  },
  splits = { false, "a tenth of the images is for validation, as the layout says it: train/ and val/, lists, a column ..." },
  shard_size = { 256, "samples of a shard, with --layout webdataset", min = 1 },
}, {
  rest = "DIR",
  doc = "Writes the set `shapes` into DIR, in one of the layouts that `reader` reads (docs/stages.md).",
  without = { "by_hand", "run", "training", "precision", "capture", "seed" },
})

outputs.alone()
if #opt.rest ~= 1 then sp.usage("one folder to write to is wanted, got %d", #opt.rest) end
local place <close> = outputs.place(opt, opt.rest[1])
local dir = place.path

local by_class = opt.target == "class" or opt.target == "auto" and opt.layout == "classes"
local layout = opt.layout ~= "auto" and opt.layout ~= "splits" and opt.layout or by_class and "classes" or "pairs"
if by_class and (layout == "pairs" or layout == "voc") then sp.usage("--layout %s: has masks, not --target class", layout) end
if not by_class and layout == "classes" then sp.usage "--layout classes: has a class for each image, not --target mask" end
local splits = opt.splits or opt.layout == "splits"
local parts = splits and { "train", "val" } or { "all" }

-- ---- what is there already ----
-- Images of the user's own may have the same names.
local function check_free(folder, names)
  for _, name in ipairs(names) do
    if sys.kind(folder .. "/" .. name) then
      sp.usage("%s/%s is there already; name another folder or remove it", folder, name)
    end
  end
end

-- ---- steps ----
local batch = 16

local function source(g, part)
  return g.reader {
    path = "shapes", target = by_class and "class" or "mask", batch = batch, shuffle = false, samples = opt.samples,
    split = part, size = { opt.size, opt.size }, data_seed = opt.data_seed,
  }
end

-- How the files of sample i are called, from 0.
local function stem(i) return ("%05d"):format(i) end

-- Calls done(m, first, last) with the samples of each step that is over, counted from 0.
local function run(g, data, done)
  local bar <close> = sp.progress { total = (data.length + batch - 1) // batch, unit = "batch" }
  local first = 0
  for _, m in g:steps(bar.total) do
    local last = math.min(first + batch, data.length) - 1
    if done then done(m, first, last) end
    first = last + 1
    bar:step()
  end
end

-- ---- layouts of files ----
-- What the names of a part's files begin with, and the folder of its own.
local function prefix(part, mark) return part == "all" and "" or part .. mark end
local function folder_of(part) return part == "all" and dir or dir .. "/" .. part end

-- A stage that writes the files of each sample below `folder`; without classes.
local function writer(g, data, folder, images, masks)
  g.image_writer {
    image = data.image, mask = not by_class and data.mask or nil, images = images .. "." .. opt.format, masks = masks,
    dir = folder, quality = opt.quality,
  }
end

-- The same with a folder for each class.
local function class_writer(g, data, folder)
  g.image_writer {
    image = data.image, label = data.label, class_names = data.class_names, images = "*." .. opt.format, dir = folder,
    quality = opt.quality,
  }
end

-- Each writes a part of the set, over a graph and the part's samples.
local layouts = {}

function layouts.pairs(g, data, part)
  local folder = folder_of(part)
  check_free(folder, { "images", "masks" })
  writer(g, data, folder, "images/*", "masks/*.png")
  run(g, data)
end

function layouts.classes(g, data, part)
  local folder = folder_of(part)
  check_free(folder, words.lines(data.class_names))
  class_writer(g, data, folder)
  run(g, data)
end

-- Without parts one list, which the reader divides.
function layouts.voc(g, data, part)
  local folder, list = dir .. "/ImageSets/Segmentation", (part == "all" and "trainval" or part) .. ".txt"
  if part ~= "val" then check_free(dir, { "JPEGImages", "SegmentationClass", "ImageSets" }) end
  writer(g, data, dir, "JPEGImages/" .. prefix(part, "_") .. "*", "SegmentationClass/" .. prefix(part, "_") .. "*.png")
  run(g, data)
  local stems = {}
  for i = 0, data.length - 1 do stems[#stems + 1] = prefix(part, "_") .. stem(i) .. "\n" end
  files.make_parents(folder .. "/" .. list)
  sp.write_file(folder .. "/" .. list, table.concat(stems))
end

local rows = {} -- of labels.csv

function layouts.csv(g, data, part)
  local below, names, first_row = prefix(part, "/"), words.lines(data.class_names), #rows
  if part ~= "val" then check_free(dir, { "labels.csv" }) end
  check_free(folder_of(part), by_class and names or { "masks", stem(0) .. "." .. opt.format })
  if by_class then
    class_writer(g, data, folder_of(part))
    g:results { data.label, raw = true }
  else
    writer(g, data, folder_of(part), "*", "masks/*.png")
  end
  run(g, data, function(m, first, last)
    for i = first, last do
      local name = by_class and names[m.label:byte(i - first + 1) + 1]
      rows[#rows + 1] = below .. (name and ("%s/%s.%s,%s"):format(name, stem(i), opt.format, name)
        or ("%s.%s,%smasks/%s.png"):format(stem(i), opt.format, below, stem(i))) .. (splits and "," .. part or "")
    end
  end)
  local sorted = table.move(rows, first_row + 1, #rows, 1, {})
  table.sort(sorted) -- as a folder of classes is
  table.move(sorted, 1, #sorted, first_row + 1, rows)
  local header = ("file,%s%s\n"):format(by_class and "label" or "mask", splits and ",split" or "")
  sp.write_file(dir .. "/labels.csv", header .. table.concat(rows, "\n") .. "\n")
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
function layouts.webdataset(g, data, part)
  local temp, name, shard, n = dir .. "/.parts", part == "all" and "shapes" or part, nil, 0
  for k = 0, (data.length - 1) // opt.shard_size do check_free(dir, { ("%s-%06d.tar"):format(name, k) }) end
  writer(g, data, temp, "*", "*.seg.png")
  if by_class then g:results { data.label, raw = true } end
  run(g, data, function(m, first, last)
    for i = first, last do
      if i % opt.shard_size == 0 then
        if shard then shard:close() end
        shard, n = tar.create(("%s/%s-%06d.tar"):format(dir, name, n)), n + 1
      end
      local image, mask = stem(i) .. "." .. opt.format, stem(i) .. ".seg.png"
      shard:add(image, take(temp .. "/" .. image))
      if by_class then
        shard:add(stem(i) .. ".cls", ("%d"):format(m.label:byte(i - first + 1)))
      else
        shard:add(mask, take(temp .. "/" .. mask))
      end
    end
  end)
  if shard then shard:close() end
  for _, left in ipairs(sys.list(temp) or {}) do os.remove(temp .. "/" .. left) end -- after Ctrl-C
  os.remove(temp)
end

-- Images as planes: results are row-major.
function layouts.npy(g, data, part)
  local start, truth = dir .. "/" .. prefix(part, "_"), by_class and "labels.npy" or "masks.npy"
  check_free(dir, { prefix(part, "_") .. "images.npy", prefix(part, "_") .. truth })
  files.make_parents(start .. truth)
  g:results { data.image, by_class and data.label or data.mask, raw = true }
  local n, size = data.length, opt.size
  local images = npy.create(start .. "images.npy", "|u1", { n, 3, size, size })
  local values = npy.create(start .. truth, "|u1", by_class and { n } or { n, size, size })
  run(g, data, function(m)
    images:put(m.image)
    values:put(by_class and m.label or m.mask)
  end)
  images:close()
  values:close()
end

if layout ~= "classes" then check_free(dir, { "classes.txt" }) end
local counts, names = {}, nil
for _, part in ipairs(parts) do
  if not sp.interrupted() then
    local g <close> = sp.graph(opt)
    local data = source(g, part)
    layouts[layout](g, data, part)
    counts[#counts + 1], names = data.length, data.class_names
  end
end

if not sp.interrupted() then
  -- the reader takes the classes of masks from here, and the names of those that are numbers
  if layout ~= "classes" then sp.write_file(dir .. "/classes.txt", names .. "\n") end
  print(("%s: %s images%s"):format(dir, table.concat(counts, " + "), by_class and "" or " and masks"))
end
