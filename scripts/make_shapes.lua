-- SPDX-License-Identifier: MIT
-- Writes the built-in set `shapes` as files: JPEG images and PNG masks, for `train_seg.lua --data DIR`, or a folder of
-- JPEG images for each class; all of them, or in train/ and val/ of their own.
local sp = require "spcore"

local opt = sp.args({
  samples = { 512, "how many images", min = 1, max = 1000000 },
  size = { 96, "pixels of a side", min = 8, max = 4096 },
  quality = { 92, "of the JPEG files", min = 1, max = 100 },
  data_seed = { 0, "seed of the set: another one gives other images", min = 0 },
  target = { "mask", "images/, masks/ and classes.txt, or a folder for each class", choices = { "mask", "class" } },
  layout = {
    "flat", "flat: all of the images together; splits: DIR/train and DIR/val, a tenth of them in the latter",
    choices = { "flat", "splits" },
  },
}, {
  rest = "DIR",
  doc = "Writes the set `shapes` as DIR/images/*.jpg, DIR/masks/*.png and DIR/classes.txt, or as DIR/CLASS/*.jpg.",
  without = { "by_hand", "run", "training", "precision", "capture", "seed" },
})

local dir, by_class = opt.rest[1], opt.target == "class"
if #opt.rest ~= 1 then sp.usage("one folder to write to is wanted, got %d", #opt.rest) end

local parts = opt.layout == "splits" and { "train", "val" } or { "all" }
local function folder_of(part) return part == "all" and dir or dir .. "/" .. part end

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
  local subs = { "images", "masks" }
  if by_class then
    for name in data.class_names:gmatch "[^\n]+" do subs[#subs + 1] = name end
  end
  check_free(folder_of(part), subs)
  g.image_writer {
    image = data.image, mask = not by_class and data.mask or nil, label = by_class and data.label or nil,
    class_names = by_class and data.class_names or "", images = by_class and "*.jpg" or "images/*.jpg",
    dir = folder_of(part), quality = opt.quality,
  }
  local bar <close> = sp.progress { total = (data.length + 15) // 16 }
  for _ in g:steps(bar.total) do bar:step() end
  return data.length, data.class_names
end

local counts, names = {}, nil
for _, part in ipairs(parts) do
  if not sp.interrupted() then counts[#counts + 1], names = write(part) end
end

if not sp.interrupted() then
  -- the reader takes the classes of masks from here
  if not by_class then sp.write_file(dir .. "/classes.txt", names .. "\n") end
  print(("%s: %s images%s"):format(dir, table.concat(counts, " + "), by_class and "" or " and masks"))
end
