-- SPDX-License-Identifier: MIT
-- Runs of scripts of one's own are predicted from what network.json says: the same scores, bit for bit, as the script's own network
-- gives with the run's weights; where it is not known which output is meant, the error names the option that says so.
-- needs: onednn images jansson
local sp = require "spcore"
local rebuilt = require "spcore.rebuilt"
local t = require "check"
local dir <close> = t.folder()
local at = dir.path

local function run(line, wanted)
  local code, out, err = t.spcore(at, line)
  t.eq(code, wanted or 0, line .. ": " .. err)
  return out, err
end

-- A script trains what `net` makes of the images, and writes the scores of its own network with the weights of its run.
local SCRIPT <const> = [[
local sp = require "spcore"
local opt = sp.args {}
local TARGET <const> = "%s"
local function net(g, image, w)
  local from = w and { w, prefix = "" } or nil
  %s
end
do
  local g <close> = sp.graph(opt)
  local data = g.reader { path = TARGET == "mask" and "pairs" or "classes", split = "train", size = 16, batch = 4, target = TARGET,
    val_fraction = 0.25 }
  local truth = TARGET == "mask" and data.mask or data.label
  local scores = table.pack(net(g, data.image))
  local losses = {}
  for i, one in ipairs(scores) do
    losses[i] = g.cross_entropy { one, #one.shape == 4 and data.mask or truth, ignore_index = 255 }
  end
  losses.optimizer = g.sgd { lr = 0.05 }
  g:train(losses)
  local run <close> = sp.run { graph = g, opt = opt, steps = 3, classes = data.class_names }
  for step, m in g:steps(3) do run:step(step, m) end
  run:finish()
end
local g <close> = sp.graph { device = "cpu" }
local data = g.image_requests { size = 16, batch = 1 }
local scores = net(g, data.image, opt.out .. "/weights.safetensors")
g:results { scores }
local left = { "pairs/images/00001.png", "pairs/images/00002.png" }
local file = io.open(opt.out .. ".own", "w")
for answer in g:answers(function() local path = table.remove(left, 1) return path and { path = path } end) do
  for _, v in ipairs(answer[scores.name:match "[^.]*$"]) do
    for _, row in ipairs(type(v) == "table" and v or { { v } }) do
      for _, x in ipairs(row) do file:write(("%%a\n"):format(x)) end
    end
  end
end
file:close()
]]

-- The scores of the network that is made again, in the same form.
local function again(name, kind, wanted)
  local model = rebuilt.find(at .. "/" .. name, kind, wanted or "", "predict")
  local g <close> = sp.graph { device = "cpu" }
  local data = g.image_requests { size = model.size, batch = 1, resize = model.read.resize, shorter = model.read.shorter }
  local scores = rebuilt.make(g, data.image, model, at .. "/" .. name .. "/weights.safetensors")
  g:results { scores }
  local left, out = { at .. "/pairs/images/00001.png", at .. "/pairs/images/00002.png" }, {}
  for answer in g:answers(function() local path = table.remove(left, 1) return path and { path = path } end) do
    for _, v in ipairs(answer[scores.name:match "[^.]*$"]) do
      for _, row in ipairs(type(v) == "table" and v or { { v } }) do
        for _, x in ipairs(row) do out[#out + 1] = ("%a\n"):format(x) end
      end
    end
  end
  return table.concat(out), model
end

local function train(name, target, body, more)
  t.write(("%s/%s.lua"):format(at, name), SCRIPT:format(target, body))
  run(("run %s.lua --out %s --quiet --device cpu %s"):format(name, name, more or ""))
  return t.read(("%s/%s.own"):format(at, name))
end

run "run make_shapes.lua pairs --samples 16 --size 16 --format png"
run "run make_shapes.lua classes --samples 24 --size 16 --target class --format png"

-- ---- a U-Net of its own layers, behind augmentation and its own numbers ----
local UNET <const> = [[
  local x = g.flip { image, horizontal = 0.0, name = "mirror" }.images
  x = g.normalize { x, scale = true, mean = { 0.5, 0.4, 0.3 }, std = 0.25 }.images
  local e = g.encoder { x, weights = from, layers = {
    { "conv", 4, kernel = 3, pad = 1 }, { "batch_norm" }, { "relu", tap = true }, { "max_pool", kernel = 2, stride = 2 },
    { "conv", 8, kernel = 3, pad = 1 }, { "relu" } } }
  return g.decoder { e.features, skips = e.maps, classes = 6, weights = from, layers = {
    { "conv_transpose", 4, kernel = 2, stride = 2, name = "up" }, { "concat", from = { "up", "skips.1" } },
    { "conv", 6, kernel = 1 } } }.logits
]]
local own = train("unet", "mask", UNET)
local got, model = again("unet", "mask")
t.ok(#own > 1000)
t.eq(got, own)
t.eq(#model.class_names, 6)
run "run predict_seg.lua --weights unet --out o pairs/images"
t.match(t.read(at .. "/o/predictions.json"), '"classes":%["ground"')
run "run predict_seg.lua --weights unet --out w --window 16 --stride 8 --flip --scales 1,1.5 --probabilities npy pairs/images"
t.match(t.read(at .. "/w/probabilities/00001.npy"), "^\x93NUMPY")
run "export unet --onnx unet.onnx"
t.one_line(select(2, run("run predict_cls.lua --weights unet pairs/images", 2)),
  "unet gives decoder.logits %(a class for each pixel, N x 6 x 16 x 16%), and predict_cls.lua wants a class, several labels or "
  .. "numbers for each image; spcore run predict_seg.lua %-%-weights unet predicts it")

-- ---- a number for each pixel that is no map: no script takes it, and none is named that does not ----
assert(os.execute(("cp -r '%s/unet' '%s/odd'"):format(at, at)))
t.write(at .. "/odd/network.json", (t.read(at .. "/unet/network.json"):gsub('"kind":"mask"', '"kind":"numbers"')))
for _, script in ipairs { "predict_seg.lua", "predict_cls.lua" } do
  t.one_line(select(2, run(("run %s --weights odd --out odd.csv pairs/images"):format(script), 2)),
    "numbers, N x 6 x 16 x 16.*; of numbers of pixels maps are predicted.* train it with cross_entropy")
end

-- ---- a classifier on a known network ----
own = train("cls", "class", [[
  local list = sp.models.resnet18 and sp.models.resnet18 {} or sp.models.get("resnet18")
  local x = g.normalize { image, scale = true, mean = list.preprocess.mean, std = list.preprocess.std }.images
  local e = g.encoder { x, layers = sp.models.pooled(list), weights = from, frozen = true }
  return g.classifier { e.features, model = "pool", classes = 6, weights = from }.logits
]])
t.eq(again("cls", "class"), own)
run "run predict_cls.lua --weights cls --out cls.csv pairs/images"

-- ---- two heads: which one is asked, and said by the option ----
own = train("two", "mask", [[
  local x = g.to_float { image, scale = true }
  local e = g.encoder { x, layers = { { "conv", 4, kernel = 3, pad = 1 }, { "relu" } }, weights = from }
  local a = g.decoder { e.features, classes = 6, layers = { { "conv", 6, kernel = 1 } }, weights = from, name = "left" }
  local b = g.decoder { e.features, classes = 6, layers = { { "conv", 6, kernel = 3, pad = 1 } }, weights = from, name = "right" }
  return a.logits, b.logits
]])
t.eq(again("two", "mask", "left.logits"), own)
t.ok(again("two", "mask", "right") ~= own)
local _, err = run("run predict_seg.lua --weights two --out p pairs/images", 2)
t.one_line(err, "two has several outputs with a class for each pixel: left.logits .*, right.logits .*say which is meant: "
  .. "%(%-%-output left.logits%), or %(%-%-output right.logits%)")
run "run predict_seg.lua --weights two --out p --output right.logits pairs/images"
_, err = run("run predict_seg.lua --weights two --out q --output rihgt.logits pairs/images", 2)
t.one_line(err, "did you mean 'right.logits'%?")

-- ---- a stage of one's own, from the plugin that the run was given ----
local plugins = os.getenv "SP_TEST_PLUGINS"
own = train("stage", "class", [[
  local x = g.to_float { image, scale = true }
  x = g.toy_mul { g.layers { x, layers = { { "flatten" }, { "linear", 4 } }, name = "rows", weights = from }, weights = from }
  return g.classifier { x, classes = 6, layers = { { "linear", 6 } }, weights = from }.logits
]], ("--plugin %s/toy.so"):format(plugins))
t.ok((require "spcore.core").load_plugin(plugins .. "/toy.so"))
t.eq(again("stage", "class"), own)
local out = run "run predict_cls.lua --weights stage --out stage.csv pairs/images"
t.match(out, "stage.csv: classes of 16 images")

-- ---- several labels, and numbers in the units of their table ----
do
  local rows = { labels = { "file,ant,bee,cow" }, numbers = { "file,age,weight" } }
  for i = 0, 15 do
    local file = ("pairs/images/%05d.png"):format(i)
    rows.labels[i + 2] = ("%s,%d,%d,%d"):format(file, i & 1, i >> 1 & 1, i >> 2 & 1)
    rows.numbers[i + 2] = ("%s,%d,%g"):format(file, 20 + i, 3.5 * i)
  end
  for name, list in pairs(rows) do t.write(("%s/%s.csv"):format(at, name), table.concat(list, "\n") .. "\n") end
end
local ROWS <const> = [[
local sp = require "spcore"
local opt = sp.args {}
local g <close> = sp.graph(opt)
local data = g.reader { path = "%s.csv", target = "%s", split = "train", size = 16, batch = 4, val_fraction = 0.25 %s }
local x = g.to_float { data.image, scale = true }
local out = g.classifier { x, classes = data.classes, layers = { { "conv", 4, kernel = 3, pad = 1 }, { "relu" }, { "mean" }, { "flatten" },
  { "linear", data.classes } } }.logits
g:train { g.%s { out, data.label }, optimizer = g.sgd { lr = 1e-4 } }
local run <close> = sp.run { graph = g, opt = opt, steps = 3, classes = %s }
for step, m in g:steps(3) do run:step(step, m) end
run:finish()
]]
local function train_rows(name, target, more, loss, classes)
  t.write(("%s/%s.lua"):format(at, name), ROWS:format(target, target, more, loss, classes))
  run(("run %s.lua --out %s --quiet --device cpu"):format(name, name))
end
local function predicted(name, more, wanted)
  local out, why = run(("run predict_cls.lua --weights %s --out %s.csv %s pairs/images"):format(name, name, more or ""), wanted)
  return wanted and why or t.read(("%s/%s.csv"):format(at, name)), out
end
train_rows("several", "labels", "", "bce", "data.class_names")
local text, said = predicted("several", "--threshold 0.01")
t.match(text, '^file,classes,names,probabilities\npairs/images/00000.png,"?%d')
t.match(text, "ant")
t.match(said, "several.csv: labels of 16 images")
t.match(t.read(at .. "/several.csv"), "cow")
train_rows("scaled", "numbers", ", mean = { 1000, 50 }, std = { 1, 20 }", "mse", "data.class_names")
text, said = predicted("scaled")
t.match(said, "scaled.csv: numbers of 16 images")
local age = tonumber(text:match "^file,age,weight\npairs/images/00000.png,([^,]+),")
t.ok(age > 900 and age < 1100, "the mean that the reader took is added again: " .. age)
train_rows("plain", "numbers", "", "huber", "nil")
t.match((predicted "plain"), "^file,value 1,value 2\n")
t.match(select(2, run("run predict_seg.lua --weights plain --out pp pairs/images", 2)),
  "numbers, N x 2.*and predict_seg.lua wants a class for each pixel; spcore run predict_cls.lua %-%-weights plain predicts it")
t.one_line(predicted("scaled", "--threshold 0.5", 2), "%-%-threshold: goes with a run of %-%-target labels")

-- ---- runs of the other script ----
run "run train_cls.lua --data classes --size 16 --batch 4 --steps 1 --out shipped --quiet --pictures 0 --width 2"
t.one_line(select(2, run("run predict_seg.lua --weights shipped pairs/images", 2)),
  "shipped is a run of train_cls.lua: spcore run predict_cls.lua %-%-weights shipped predicts it")
t.one_line(select(2, run("run predict_cls.lua --weights shipped --output x pairs/images", 2)), "leave %-%-output out")
