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

local small = "run train_map.lua --data set --map-nodata 0 --map-scale 0.5 --size 32 --batch 4 --width 4 --levels 2 --threads 1 "
  .. "--quiet --device cpu "
local out = run(small .. "--steps 60 --eval-every 20 --augment chains/seg.lua --out whole")
t.ok((out):find("value MAE ", 1, true), "value MAE ")
local mae = tonumber(out:match "value MAE ([%d.]+)")
t.ok(mae and mae < 0.75, "a constant is off by 0.6 on average: " .. tostring(mae))
t.ok((run("data set --map-nodata 0")):find("target map", 1, true), "target map")

-- Pictures of the truth, what is predicted, and how far that is from it, in the report.
run "report whole"
local page = t.read(path "whole/report.html")
t.match(page, "%d+ train, %d+ val, 1 number for each pixel")
for _, words in ipairs { '<u class="ramp"></u>', "error, step 60", "predicted, step 60", "by their RMSE with the last weights",
  "<h2>Depths</h2>", "delta &lt; 1.25", "<td>value</td>", ", 1 number for each pixel</dd>", '0.5 <u class="ramp"></u> ' } do
  t.ok(page:find(words, 1, true), words)
end
local told = sp.json.read(path "whole/samples/samples.json")
t.eq(told.map.least, 0.5)
t.ok(told.map.largest > 0.5 and told.samples[1].rmse > 0, "in the units of the data")
for _, kind in ipairs { "input", "truth", "last", "error", "best" } do
  t.ok(t.read(path(("whole/samples/%s-%s.png"):format(kind, told.samples[1].name))):find("IHDR", 1, true), kind)
end
t.ok(told.worst.samples[1].rmse >= told.worst.samples[#told.worst.samples].rmse, "the worst first")

-- The same bits pipelined.
local function weights(name) return t.read(path(name .. "/weights.safetensors")) end
run(small .. "--steps 8 --eval-every 4 --out one")
run(small .. "--steps 8 --eval-every 4 --strategy pipelined --out two")
t.ok(weights "one" == weights "two", "the strategy has no say")
for name, more in pairs { rate = "--rate step", dropped = "--dropout 0.5",
  huber = "--loss huber --huber-delta 0.1" } do -- as in the other trainings
  run(small .. "--steps 8 --eval-every 4 " .. more .. " --out " .. name)
  t.ok(weights "one" ~= weights(name), more)
end

-- Predicted: a map of the image's size.
run "run predict_map.lua --weights whole --out p --device cpu set/images/00000.png"
local doc = sp.json.read(path "p/predictions.json")
t.eq(doc.images[1].height, 32)
t.ok(doc.images[1].least > -2 and doc.images[1].largest < 5, "in the units of the data")
local npy = t.read(path("p/" .. doc.images[1].map))
t.ok((npy):find("'<f4'", 1, true), "'<f4'")
t.eq(#npy, 256 + 4 * 32 * 32)
out = run("run predict_seg.lua --weights whole --out q set/images/00000.png", 2)
t.ok(out:find("spcore run predict_map.lua --weights whole predicts it", 1, true), out)
out = run "run predict_map.lua --weights whole --out r --size network --device cpu set/images/00000.png"
t.ok(out:find("maps of 1 image", 1, true), out)

-- As PNG of 16 bits: what a reader makes of it is the value, within half a step; what does not fit is counted.
local function map_of(folder, ending) return path(folder .. "/maps/00000." .. ending) end
run "run predict_map.lua --weights whole --out r --size network --device cpu set/images/00000.png --format npy"
out = run "run predict_map.lua --weights whole --out s --format png16 --scale 1/4096 --device cpu set/images/00000.png"
t.ok(out:find("a PNG's number times 0.000244140625 is the value, and 0 where there is none", 1, true), out)
doc = sp.json.read(path "s/predictions.json").images[1]
t.eq(doc.scale, 1 / 4096)
os.execute(("cd '%s' && mkdir -p back/images back/depth && cp set/images/00000.png back/images && cp s/maps/00000.png back/depth")
  :format(dir.path))
local function values(file, scale)
  local text = t.read(file)
  local v = {}
  for i = 1, 32 * 32 do v[i] = ("<f"):unpack(text, #text - 4 * 32 * 32 + 4 * i - 3) end
  return v
end
local g <close> = sp.graph { device = "cpu" }
local back = g.reader { path = path "back", target = "map", size = 32, batch = 1, split = "all", map_scale = "1/4096", map_nodata = "0" }
g:results { back.mask, raw = true }
local true_values, off, worst = values(path "p/maps/00000.npy"), 0, 0
for _, m in g:steps(1) do
  for i, v in ipairs(true_values) do
    local got = ("<f"):unpack(m.mask, 4 * i - 3)
    if v < 0.5 / 4096 or v > 65535.5 / 4096 then off = off + 1 else worst = math.max(worst, math.abs(got - v)) end
  end
end
t.ok(worst <= 0.5 / 4096 + 1e-6, "half a step: " .. worst)
t.ok(worst > 0.05 / 4096, "the steps are seen")
t.eq(doc.clipped, off)
out = run "run predict_map.lua --weights whole --out u --format png16 --scale 1/65536 --device cpu set/images/00000.png"
doc = sp.json.read(path "u/predictions.json").images[1]
local clipped = ("%d of 1024 values do not fit: from 1.52588e-05 to 0.999985 they are kept"):format(doc.clipped)
t.ok(doc.clipped > 0 and out:find(clipped, 1, true), out)
out = run "run predict_map.lua --weights whole --out v --format png16 --device cpu set/images/00000.png"
t.ok(out:find("a PNG's number times 0.5 is the value", 1, true), "the run's --map-scale: " .. out)
for more, words in pairs { ["--scale 2"] = "goes with --format png16", ["--format png16 --scale 1/0"] = "a number above 0 is wanted",
  ["--format png16 --scale x"] = "a number above 0 is wanted" } do
  out = run("run predict_map.lua --weights whole --out w --device cpu set/images/00000.png " .. more, 2)
  t.ok(out:find(words, 1, true), out)
end

-- Stopped and resumed: the bits of the run that went through.
local long = small .. "--steps 160 --eval-every 80 "
run(long .. "--out through")
t.eq(t.interrupted(dir.path, (long:gsub("%-%-quiet", "")) .. "--checkpoint-every 2 --out part", "checkpoint-2",
  "part/*.safetensors .out"), 130)
run "run train_map.lua --resume part"
t.ok(weights "part" == weights "through", "resumed")

-- From shards: KEY.png beside KEY.depth.npy.
os.execute(("cd '%s' && mkdir flat && for i in set/depth/*.npy; do k=$(basename $i .npy); cp $i flat/$k.depth.npy; "
  .. "cp set/images/$k.png flat; done; (cd flat && tar cf ../flat.tar *)"):format(dir.path))
out = run((small:gsub("--data set", "--data flat.tar")) .. "--steps 8 --eval-every 4 --out tar")
t.ok(out:find("value MAE ", 1, true), out)

run "export one --torch net"
