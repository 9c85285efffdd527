-- SPDX-License-Identifier: MIT
-- A number for each pixel is learned, with augmentation, to the same bits pipelined and one after the other; the run is predicted
-- and exported, and no other script takes it for its own.
-- needs: onednn images jansson
-- once: a script, of stages that each have a test
local sp = require "spcore"
local t = require "check"

local dir <close> = t.folder()
local function path(name) return dir.path .. "/" .. name end
local function run(line, want)
  local code, out, err = t.spcore(dir.path, line)
  t.eq(code, want or 0, line .. ": " .. err)
  return out .. err
end

-- The labels of shapes are whole numbers: as a map the ground, 0, has no value, and the others are a depth in halves.
run "run make_shapes.lua set --format png --samples 40 --size 32 --quiet --threads 2"
run "run make_shapes.lua arrays --layout npy --samples 40 --size 32 --quiet --threads 2"
os.execute("rm -r '" .. path "set/masks" .. "' '" .. path "set/classes.txt" .. "'; mkdir '" .. path "set/depth" .. "'")
local masks = t.read(path "arrays/masks.npy")
for i = 0, 39 do
  local head = "{'descr': '<u2', 'fortran_order': False, 'shape': (32, 32), }"
  head = head .. (" "):rep(117 - #head) .. "\n"
  local one = masks:sub(-1024 * (40 - i), i < 39 and -1024 * (39 - i) - 1 or -1)
  t.write(path(("set/depth/%05d.npy"):format(i)), "\x93NUMPY\1\0" .. ("<I2"):pack(#head) .. head .. one:gsub(".", "%0\0"))
end

local small = "run train_map.lua --data set --map-nodata 0 --map-scale 0.5 --size 32 --batch 4 --width 4 --levels 2 --threads 1 --quiet --device cpu "
local out = run(small .. "--steps 60 --eval-every 20 --augment chains/seg.lua --out whole")
t.ok((out):find("value MAE ", 1, true), "value MAE ")
local mae = tonumber(out:match "value MAE ([%d.]+)")
t.ok(mae and mae < 0.75, "a constant is off by 0.6 on average: " .. tostring(mae))
t.ok((run("data set --map-nodata 0")):find("target map", 1, true), "target map")

-- The same bits pipelined.
local function weights(name) return t.read(path(name .. "/weights.safetensors")) end
run(small .. "--steps 8 --eval-every 4 --out one")
run(small .. "--steps 8 --eval-every 4 --strategy pipelined --out two")
t.ok(weights "one" == weights "two", "the strategy has no say")

-- Predicted: a map of the image's size.
run "run predict_map.lua --weights whole --out p --device cpu set/images/00000.png"
local doc = sp.json.read(path "p/predictions.json")
t.eq(doc.images[1].height, 32)
t.ok(doc.images[1].least > -2 and doc.images[1].largest < 5, "in the units of the data")
local npy = t.read(path("p/" .. doc.images[1].map))
t.ok((npy):find("'<f4'", 1, true), "'<f4'")
t.eq(#npy, 128 + 4 * 32 * 32)
t.ok((run("run predict_seg.lua --weights whole --out q set/images/00000.png", 2)):find("spcore run predict_map.lua --weights whole predicts it", 1, true), "spcore run predict_map.lua --weights whole predicts it")
t.ok((run("run predict_map.lua --weights whole --out r --size network --device cpu set/images/00000.png")):find("maps of 1 image", 1, true), "maps of 1 image")
run "export one --torch net"
