-- SPDX-License-Identifier: MIT
-- The same samples laid out in several ways train to the same bytes; another folder for validation does so too.
-- needs: onednn images jansson archive
local t = require "check"

local dir <close> = t.folder()

local function run(line, ...)
  local code, out, err = t.spcore(dir.path, "run " .. line:format(...))
  t.eq(code, 0, err)
  return out, err
end

local function make(name, layout, target)
  return run("make_shapes.lua %s --layout %s --splits --target %s --samples 40 --size 24 --format png --quiet --threads 2", name,
    layout, target)
end

-- The weights of three steps, and the metrics, which the validation has a part in.
local function train(kind, name, data)
  run("train_%s.lua --data %s --size 16 --batch 6 --width 4 --levels 2 --steps 3 --eval-every 2 --out %s --device cpu --threads 2",
    kind, data, kind == "seg" and name .. " --train-encoder" or name)
  local metrics = t.read(("%s/%s/metrics.jsonl"):format(dir.path, name)):gsub('"[%w_/]*time[%w_/]*":[^,}]+', "")
  return t.read(("%s/%s/weights.safetensors"):format(dir.path, name)), metrics:gsub('"[%w_/]*per_s[%w_/]*":[^,}]+', "")
end

local function compare(kind, first, others)
  local weights, metrics = train(kind, "run_1", first)
  for i, data in ipairs(others) do
    local w, m = train(kind, "run_" .. i + 1, data)
    t.ok(w == weights, data .. ": other weights than of " .. first)
    t.eq(m, metrics, data)
  end
  os.execute(("rm -rf '%s'/run_*"):format(dir.path))
end

make("classes", "splits", "class")
make("table", "csv", "class")
t.match(t.read(dir.path .. "/table/labels.csv"), "^file,label,split\ntrain/cross/%d+%.png,cross,train\n.*,square,val\n")
make("shards", "webdataset", "class")
make("arrays", "npy", "class")
compare("cls", "classes", { "table", "table/labels.csv", "classes/train --val classes/val", "shards", "arrays" })

make("pairs", "splits", "mask")
make("voc", "voc", "mask")
make("masks", "csv", "mask")
t.match(t.read(dir.path .. "/voc/ImageSets/Segmentation/val.txt"), "^val_%d+\nval_%d+\nval_%d+\nval_%d+\n$")
os.execute(("cp '%s/pairs/classes.txt' '%s/pairs/train'"):format(dir.path, dir.path))
make("mask_shards", "webdataset", "mask")
make("mask_arrays", "npy", "mask")
local two = "mask_shards/train-{000000..000000}.tar --val mask_shards/val-000000.tar"
compare("seg", "pairs", { "voc", "masks", "pairs/train --val pairs/val", "mask_shards", two, "mask_arrays" })

do -- what is refused
  local code, _, err = t.spcore(dir.path, "run make_shapes.lua x --layout voc --target class")
  t.eq(code, 2)
  t.match(err, "%-%-layout voc: has masks")
  code, _, err = t.spcore(dir.path, "run make_shapes.lua voc --layout voc --quiet")
  t.eq(code, 2)
  t.match(err, "voc/JPEGImages is there already")
  for _, kind in ipairs { "cls", "seg" } do
    code, _, err = t.spcore(dir.path, ("run train_%s.lua --reference --val pairs"):format(kind))
    t.eq(code, 2)
    t.match(err, "%-%-reference: has no validation; leave %-%-val out")
  end
end

do -- from `origin` back to the file
  local sp = require "spcore"
  local g <close> = sp.graph {}
  local data = g.reader { path = dir.path .. "/pairs", split = "val", size = 8, batch = 1, shuffle = false }
  t.eq(data.files, 40)
  t.eq(data.splits, "train 36 val 4")
  t.eq(data:item("files", 0), dir.path .. "/pairs/train/images/00000.png")
  t.eq(data:item("files", 36), dir.path .. "/pairs/val/images/00000.png")
  t.raises("'files' has 40 items, numbered from 0; there is no 40", data.item, data, "files", 40)
  t.raises("there is no %d+", data.item, data, "files", -1)
  t.raises("attribute 'layout' is no list", data.item, data, "layout", 0)
  t.raises("no output or attribute 'file'", data.item, data, "file", 0)
end
