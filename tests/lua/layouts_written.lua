-- SPDX-License-Identifier: MIT
-- make_shapes.lua in every layout, read back: the same samples in the same order on the same side of the split; and what
-- it refuses.
-- needs: images archive
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
  g.to_float { data.image }
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
    t.match(out, target == "mask" and "40 images and masks\n" or "40 images\n")
    for _, split in ipairs(i > 1 and { "all", "train", "val" } or {}) do
      t.ok(read(name, target, split) == read(first, target, split), ("%s, %s: other samples"):format(name, split))
    end
  end
end

do -- train/ and val/: pairs or classes
  t.match(make("own", "--layout splits --target class"), "own: 36 %+ 4 images\n")
  t.match(make("own2", "--layout splits"), "own2: 36 %+ 4 images and masks\n")
  t.eq(select(2, t.read(dir.path .. "/own2/classes.txt"):gsub("\n", "")), 6)
  make("own3", "--layout webdataset --splits")
  t.ok(read("own3", "mask", "val") == read("own2", "mask", "val"), "other samples for validation")
end

do -- compressed: the same, and a line that says what it took
  make("gz", "--layout webdataset")
  t.eq(os.execute(("gzip '%s/gz/shapes-000001.tar'"):format(dir.path)), true)
  t.ok(read("gz", "mask", "all") == read("mask_pairs", "mask", "all"), "compressed shards: other samples")
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
