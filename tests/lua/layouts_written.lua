-- SPDX-License-Identifier: MIT
-- make_shapes.lua in every layout, read back: the same samples in the same order on the same side of the split, so the
-- same weights; and what it refuses.
-- needs: onednn images jansson archive
local sp = require "spcore"
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

local words = {
  pairs = "40 images and masks", voc = "40 images and masks", classes = "40 images", webdataset = "40 samples in 3 shards",
  npy = "40 rows",
}

for target, layouts in pairs {
  mask = { "pairs", "voc", "csv", "webdataset", "npy" }, class = { "classes", "csv", "webdataset", "npy" },
} do
  for i, layout in ipairs(layouts) do
    local name, first = target .. "_" .. layout, target .. "_" .. layouts[1]
    local out = make(name, ("--target %s --layout %s"):format(target, layout))
    t.match(out, words[layout] or "40 images")
    for _, split in ipairs(i > 1 and { "all", "train", "val" } or {}) do
      t.ok(read(name, target, split) == read(first, target, split), ("%s, %s: other samples"):format(name, split))
    end
  end
end

do -- train/ and val/: pairs or classes
  t.match(make("own", "--layout splits --target class"), "own: 36 %+ 4 images\n")
  t.match(make("own2", "--layout splits"), "own2: 36 %+ 4 images and masks\n")
  t.eq(select(2, t.read(dir.path .. "/own2/classes.txt"):gsub("\n", "")), 6)
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

do -- what the reader of shards and arrays says of itself
  local _, err = run "make_shapes.lua gz --layout webdataset --samples 8 --size 8 --quiet"
  t.eq(err, "")
  t.eq(os.execute(("gzip '%s/gz/shapes-000000.tar'"):format(dir.path)), true)
  _, err = run "train_seg.lua --data gz --size 16 --batch 2 --steps 1 --threads 2"
  t.match(err, "gz: unpacked 1 shard, [%d.]+ KiB, into ")
end

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
