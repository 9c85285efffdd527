-- SPDX-License-Identifier: MIT
-- make_shapes.lua in every layout, read back: the same samples in the same order on the same side of the split, so the
-- same weights; and what it refuses.
-- needs: onednn images jansson archive
-- once: a script; check_reader_layouts has what is read
local sp = require "spcore"
local sys = require "spcore.sys"
local t = require "check"

local dir <close> = t.folder()

local function run(options)
  local code, out, err = t.spcore(dir.path, "run " .. options)
  t.eq(code, 0, options .. ": " .. err)
  return out, err
end

local function make(name, options)
  local same = "--samples 40 --size 24 --format png --shard-size 15 --quiet --threads 2"
  return run(("make_shapes.lua %s %s %s"):format(name, same, options))
end

-- All that is known of a part of a set, in order.
local function read(name, target, split)
  local g <close> = sp.graph { threads = 2 }
  local data = g.reader {
    path = dir.path .. "/" .. name, target = target, split = split, size = 24, batch = 10, shuffle = false,
  }
  local seen = { data.classes, data.class_names, data.length }
  g:results { data.image, target == "class" and data.label or data.mask, raw = true }
  for _, m in g:steps((data.length + 9) // 10) do
    seen[#seen + 1] = m.image
    seen[#seen + 1] = m.label or m.mask
  end
  return table.concat(seen, "\0")
end

for target, layouts in pairs {
  mask = { "pairs", "voc", "csv", "webdataset", "npy" }, class = { "classes", "csv", "webdataset", "npy" },
} do
  for i, layout in ipairs(layouts) do
    local name, first = target .. "_" .. layout, target .. "_" .. layouts[1]
    local out = make(name, ("--target %s --layout %s"):format(target, layout))
    t.match(out, target == "mask" and ": 40 images and masks\n" or ": 40 images\n")
    for _, split in ipairs(i > 1 and { "all", "train", "val" } or {}) do
      t.ok(read(name, target, split) == read(first, target, split), ("%s, %s: other samples"):format(name, split))
    end
  end
end

do -- what is for validation, as each layout says it
  t.match(make("own_classes", "--layout splits --target class"), "own_classes: 36 %+ 4 images\n")
  t.match(make("own_pairs", "--layout splits"), "own_pairs: 36 %+ 4 images and masks\n")
  t.eq(select(2, t.read(dir.path .. "/own_pairs/classes.txt"):gsub("\n", "")), 6)
  for _, layout in ipairs { "voc", "csv", "webdataset", "npy" } do
    make("own_" .. layout, "--splits --layout " .. layout)
    for _, split in ipairs { "train", "val" } do
      t.ok(read("own_" .. layout, "mask", split) == read("own_pairs", "mask", split), layout .. ", other samples: " .. split)
    end
  end
  t.match(t.read(dir.path .. "/own_csv/labels.csv"),
    "^file,mask,split\ntrain/00000.png,train/masks/00000.png,train\n.*\nval/00003.png,val/masks/00003.png,val\n$")
  t.match(t.read(dir.path .. "/own_voc/ImageSets/Segmentation/val.txt"), "^val_00000\nval_00001\nval_00002\nval_00003\n$")
end

do -- compressed: the same; check_reader_shards has the line that it says
  make("gz", "--layout webdataset")
  t.eq(os.execute(("gzip '%s/gz/shapes-000001.tar'"):format(dir.path)), true)
  t.ok(read("gz", "mask", "all") == read("mask_pairs", "mask", "all"), "compressed shards: other samples")
end

-- what is learned
local function weights(script, name)
  run(("%s --data %s --size 16 --batch 4 --steps 3 --threads 2 --quiet --out r_%s"):format(script, name,
    name))
  return t.read(("%s/r_%s/weights.safetensors"):format(dir.path, name))
end
local function same_weights(script, target, first, others)
  local wanted = weights(script, target .. "_" .. first)
  for _, layout in ipairs(others) do
    t.ok(weights(script, target .. "_" .. layout) == wanted, ("%s of %s: other weights"):format(script, layout))
  end
end
same_weights("train_seg.lua", "mask", "pairs", { "voc", "csv", "webdataset", "npy" })
same_weights("train_cls.lua", "class", "classes", { "csv", "webdataset", "npy" })

local function refused(options, words_of)
  local code, _, err = t.spcore(dir.path, "run make_shapes.lua --quiet " .. options)
  t.eq(code, 2, options)
  t.match(err, words_of)
end
refused("--layout pairs --target class x", "%-%-layout pairs: has masks, not %-%-target class")
refused("--layout classes --target mask x", "%-%-layout classes: has a class for each image, not %-%-target mask")
refused("--layout tar x", "%-%-layout tar: choose one of auto, pairs, classes, splits, voc, csv, webdataset, npy")
for _, layout in ipairs { "voc", "csv", "webdataset", "npy" } do
  refused(("--layout %s mask_%s"):format(layout, layout), "is there already")
end
assert(sys.mkdir(dir.path .. "/mine"))
t.write(dir.path .. "/mine/shapes-000001.tar", "mine")
refused("--layout webdataset --shard-size 256 --samples 512 mine", "mine/shapes%-000001.tar is there already")
t.write(dir.path .. "/mine/classes.txt", "mine")
refused("mine", "mine/classes.txt is there already")
t.eq(t.read(dir.path .. "/mine/shapes-000001.tar") .. t.read(dir.path .. "/mine/classes.txt"), "minemine")
