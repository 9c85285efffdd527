-- SPDX-License-Identifier: MIT
-- Another folder for validation trains to the same bytes as train/ and val/ in one; samples have the names of their files.
-- needs: onednn images
-- once: a script; check_reader_layouts has the stage
local t = require "check"

local dir <close> = t.folder()

local function run(line, ...)
  local code, out, err = t.spcore(dir.path, "run " .. line:format(...))
  t.eq(code, 0, err)
  return out, err
end

local function make(name, layout, target)
  return run("make_shapes.lua %s --layout %s --target %s --samples 40 --size 24 --quiet --threads 2", name, layout, target)
end

-- The weights of three steps, and the metrics, which the validation has a part in.
local function train(kind, name, data)
  run("train_%s.lua --data %s --size 16 --batch 6 --width 4 --levels 2 --steps 3 --eval-every 2 --out %s --device cpu --threads 2",
    kind, data, kind == "seg" and name .. " --train-encoder" or name)
  local metrics = t.read(("%s/%s/metrics.jsonl"):format(dir.path, name)):gsub('"[%w_/]*time[%w_/]*":[^,}]+', ""):gsub(',"sum":"%x+"', "")
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
compare("cls", "classes", { "classes/train --val classes/val" })
make("pairs", "splits", "mask")
os.execute(("cp '%s/pairs/classes.txt' '%s/pairs/train'"):format(dir.path, dir.path))
compare("seg", "pairs", { "pairs/train --val pairs/val" })

do -- from `origin` back to the file
  local sp = require "spcore"
  local g <close> = sp.graph {}
  local data = g.reader { path = dir.path .. "/pairs", split = "val", size = 8, batch = 1, shuffle = false }
  t.eq(data.files, 40)
  t.eq(data.splits, "train 36 val 4")
  t.eq(data:item("files", 0), dir.path .. "/pairs/train/images/00000.jpg")
  t.eq(data:item("files", 36), dir.path .. "/pairs/val/images/00000.jpg")
  t.raises("'files' has 40 items, numbered from 0; there is no 40", data.item, data, "files", 40)
  t.raises("there is no %d+", data.item, data, "files", -1)
  t.raises("attribute 'layout' is no list", data.item, data, "layout", 0)
  t.raises("no output or attribute 'file'", data.item, data, "file", 0)
end
