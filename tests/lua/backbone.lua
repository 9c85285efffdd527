-- SPDX-License-Identifier: MIT
-- train_seg.lua and train_cls.lua with a known backbone, from a file to masks and classes: what is frozen stays, also its running
-- statistics; the predictions are those of the run's network; what does not go together is one line.
-- needs: onednn images jansson
-- once: scripts
local sp = require "spcore"
local t = require "check"
local dir <close> = t.folder()
local at = dir.path

local function run(line, wanted)
  local code, out, err = t.spcore(at, "run " .. line)
  t.eq(code, wanted or 0, line .. ": " .. err)
  return out, err
end

-- A file as others have them, of DataParallel: with the head of its own classes.
do
  local g <close> = sp.graph { device = "cpu" }
  local x = g.reader { path = "random", size = 32, batch = 1, samples = 1, classes = 2 }.image
  g.classifier { g.to_float { x, scale = true }, layers = sp.models.resnet { 18, classes = 5 }, classes = 5, name = "module" }
  g:save(at .. "/r18.safetensors")
end
local file = t.tensors(at .. "/r18.safetensors")
t.ok(file["module.layer4.1.bn2.running_var"] and file["module.fc.weight"])

-- How many of the encoder's tensors are those of the file.
local function same(name)
  local n, of = 0, 0
  for k, v in pairs(t.tensors(("%s/%s/weights.safetensors"):format(at, name))) do
    local own = k:match "^encoder%.(.*)"
    of = own and of + 1 or of
    if own and file["module." .. own] == v then n = n + 1 end
  end
  t.eq(of, 120)
  return n
end

local few = "--device cpu --threads 2 --quiet --pictures 0 --size 64 "
local seg = "train_seg.lua --backbone resnet18 --batch 2 --samples 8 --steps 2 " .. few
local weights = "--weights r18.safetensors "
run "make_shapes.lua photos --samples 3 --size 70"
for model, names in pairs {
  unet = { "blocks.0.conv1.0", "blocks.4.conv2.1", "segmentation_head.0" }, fcn = { "0", "4" },
  deeplabv3 = { "0.convs.4.1", "0.project.0", "4" },
  fpn = { "p2.skip_conv", "seg_blocks.0.block.2.block.1", "segmentation_head.0" },
} do
  run(seg .. weights .. "--model " .. model .. " --out " .. model)
  t.eq(same(model), 120, model)
  local tensors = t.tensors(("%s/%s/weights.safetensors"):format(at, model))
  for _, name in ipairs(names) do t.ok(tensors["decoder." .. name .. ".weight"], name) end
  run(("predict_seg.lua --weights %s --out p_%s photos/images --device cpu"):format(model, model))
  t.eq(#assert(sp.json.read(("%s/p_%s/predictions.json"):format(at, model))).images, 3)
end
do -- images of other channels: the first filters are added up, or repeated, and what is trained behind them stays as it is
  local function npy(channels, value)
    local header = ("{'descr': '<f4', 'fortran_order': False, 'shape': (16, 16, %d), }"):format(channels)
    local values = {}
    for i = 1, 16 * 16 * channels do values[i] = ("<f"):pack(value + i % 7 / 7) end
    header = header .. (" "):rep(64 - (#header + 11) % 64) .. "\n"
    return "\x93NUMPY\1\0" .. ("<I2"):pack(#header) .. header .. table.concat(values)
  end
  local function floats(bytes)
    local list = {}
    for i = 1, #bytes // 4 do list[i] = ("<f"):unpack(bytes, 4 * i - 3) end
    return list
  end
  local old = floats(file["module.conv1.weight"])
  for channels, folder in pairs { [1] = "one", [5] = "five" } do
    for i = 1, 6 do
      local class = ("%s/%s/%s"):format(at, folder, i % 2 == 0 and "a" or "b")
      require("spcore.sys").mkdir(at .. "/" .. folder)
      require("spcore.sys").mkdir(class)
      t.write(("%s/%d.npy"):format(class, i), npy(channels, i))
    end
    local _, err = run("train_cls.lua --backbone resnet18 --probe --augment none --dtype float32 --batch 2 --steps 1 "
      .. "--size 32 --device cpu " .. weights .. "--data " .. folder .. " --out n" .. folder)
    t.match(err, channels == 1 and "images have 1 channel, and the filters .* three: their sum is taken"
      or "images have 5 channels, and the filters .* three: they are repeated")
    local new = floats(t.tensors(("%s/n%s/weights.safetensors"):format(at, folder))["encoder.conv1.weight"])
    t.eq(#new, 64 * channels * 49)
    for o = 0, 63 do
      for c = 0, channels - 1 do
        for p = 1, 49 do
          local function from(k) return old[(o * 3 + k) * 49 + p] end
          local wanted = channels == 1 and from(0) + from(1) + from(2) or from(c % 3) * 3 / 5
          t.ok(math.abs(new[(o * channels + c) * 49 + p] - wanted) < 1e-6, "a filter")
        end
      end
    end
    run(("predict_cls.lua --weights n%s --out n%s.csv %s/a --device cpu"):format(folder, folder, folder))
    t.eq(select(2, t.read(("%s/n%s.csv"):format(at, folder)):gsub("\n", "")), 4)
    local code = t.spcore(at, ("export n%s --onnx n%s.onnx"):format(folder, folder))
    t.eq(code, 0)
  end
end
run(seg .. weights .. "--strategy pipelined --out ahead") -- the same bits
t.eq(t.read(at .. "/ahead/weights.safetensors"), t.read(at .. "/unet/weights.safetensors"))
run "predict_seg.lua --weights fcn --size 50 --out p50 photos/images --device cpu"
run(seg .. "--train-encoder --out trained") -- from scratch
t.ok(same "trained" < 120)

-- a probe: the linear layer alone; its probabilities are those of the graph that docs/backbones.md describes, with and without
-- augmentation of images that the weights' preprocessing scales to 256 and cuts 224 out of
run "make_shapes.lua classes --target class --samples 12 --size 96 --format png"
local both = "train_cls.lua --backbone resnet18 --data classes --batch 2 --steps 2 " .. few
local cls = both .. "--augment none "
run(cls .. weights .. "--probe --out probe")
t.eq(same "probe", 120)
-- a cache has the means over the map, 2 KiB an image, not the map of 2 x 2 pixels
local _, told = run(cls .. weights .. "--probe --cache host --out kept")
local samples, mib = told:match "filling the cache of 'encoder' from 'reader': (%d+) samples, ([%d.]+) MiB"
t.eq(mib, samples and ("%.1f"):format(samples * 512 * 4 / 2 ^ 20), told)
t.eq(t.read(at .. "/kept/weights.safetensors"), t.read(at .. "/probe/weights.safetensors"))
run(cls .. weights .. "--variant timm_a1 --out tuned")
local tuned = assert(sp.json.read(at .. "/tuned/settings.json")).model
t.eq(tuned.backbone.variant, "timm_a1")
t.eq(("%d of %d, %s"):format(tuned.read.size, tuned.read.shorter, tuned.read.interpolation), "64 of 67, bicubic")
run "predict_cls.lua --weights tuned --out tuned.csv --device cpu classes/*"
t.ok(same "tuned" < 120)
local told = t.read(at .. "/tuned.csv") -- stays where nothing is predicted
t.eq(t.spcore(at, "schedule predict_cls.lua --weights tuned --out tuned.csv --device cpu classes/*"), 0)
run "predict_cls.lua --weights tuned --out tuned.csv --device cpu --explain classes/*"
t.eq(t.read(at .. "/tuned.csv"), told)
run(both .. weights .. "--probe --out augmented")
for name, reading in pairs { probe = { size = 64, shorter = 73 }, augmented = { size = 73, resize = "crop", crop = 64 } } do
  run(("predict_cls.lua --weights %s --out p.json --device cpu classes/*"):format(name))
  local told = assert(sp.json.read(at .. "/p.json"))
  local n = #told.classes
  local g <close> = sp.graph { device = "cpu" }
  local data = g.image_requests { size = reading.size, shorter = reading.shorter, resize = reading.resize, batch = 1 }
  local image = reading.crop and g.batch_crop { data.image, size = reading.crop }.images or data.image
  local x = g.normalize { image, scale = true, mean = { 0.485, 0.456, 0.406 }, std = { 0.229, 0.224, 0.225 } }.images
  local from = { ("%s/%s/weights.safetensors"):format(at, name), prefix = "" }
  local enc = g.encoder { x, layers = sp.models.resnet { 18 }, frozen = true, weights = from }
  local head = g.classifier { enc.features, layers = sp.models.probe { classes = n }, classes = n, frozen = true, weights = from }
  g:results { head.logits }
  local asks, i, seen = {}, 0, 0
  for i, image in ipairs(told.images) do asks[i] = { path = at .. "/" .. image.file } end
  for answer in g:answers(function() i = i + 1 return asks[i] end) do
    local sum = 0
    for _, v in ipairs(answer.logits) do sum = sum + math.exp(v) end
    seen = seen + 1
    t.ok(math.abs(told.images[seen].probabilities[1] - math.exp(answer.logits[1]) / sum) < 1e-5)
  end
  t.eq(seen, 12)
end

-- ---- a network of a file: a run that goes on and predicts without it ----
t.write(at .. "/net.lua", [[return {
  { "conv", 8, kernel = 3, stride = 4, pad = 1, name = "a" }, { "relu" },
  { "conv", 8, kernel = 3, stride = 2, pad = 1, name = "b", from = "1" }, { "mean" }, { "flatten" }, { "linear", 3, name = "fc" },
}
]])
for i, script in ipairs { "train_seg.lua --model fcn --train-encoder", "train_cls.lua --augment none" } do -- maps may be dropped
  run(("%s --backbone net.lua --dropout 0.5 --batch 2 --samples 8 --steps 1 --out dropped%d %s"):format(script, i, few))
end
local code = t.interrupted(at, "run train_seg.lua --backbone net.lua --train-encoder --model fcn --batch 2 --samples 8 --steps 100000 "
  .. "--checkpoint-every 2 --out filed " .. few:gsub("%-%-quiet", ""), "checkpoint-2", "filed/*.safetensors .out")
t.eq(code, 130)
os.remove(at .. "/net.lua")
run "predict_seg.lua --weights filed --out p_filed photos/images --device cpu"
local saved = io.popen(("ls '%s/filed'"):format(at)):read "a"
t.ok(saved:find "checkpoint", saved)
local code = t.interrupted(at, "run train_seg.lua --resume filed", "saved step", ".out")
t.eq(code, 130)

-- ---- what is refused, in one line each ----
local function refused(line, words, code)
  local _, err = run(line, code or 2)
  t.one_line(err, words)
end
local use = "%-%-backbone resnet18: frozen, with random weights, it is of no use; give %-%-weights FILE, or train it as well, "
local curl = "; curl %-LO https://huggingface.co/timm/resnet18.tv_in1k/resolve/main/model.safetensors gets a file"
refused(seg, use .. "%-%-train%-encoder" .. curl)
refused(cls .. "--probe", use .. "without %-%-probe" .. curl)
refused(seg:gsub("resnet18", "resnet8") .. weights, "there is no model 'resnet8'; did you mean 'resnet18'", 1)
refused("train_seg.lua --model fcn", "%-%-model: goes with %-%-backbone NAME")
refused("train_seg.lua --output-stride 16", "%-%-output%-stride: goes with %-%-backbone NAME")
refused("train_cls.lua --variant timm_a1", "%-%-variant: goes with %-%-backbone NAME")
refused(cls .. weights .. "--variant timm_a9", "of ResNet%-18 there is no variant 'timm_a9'; did you mean 'timm_a1'", 1)
refused("train_cls.lua --probe", "%-%-probe: goes with %-%-backbone NAME")
refused(seg .. weights .. "--levels 2", "%-%-levels: is for the small network; leave it out with %-%-backbone")
refused(cls .. weights .. "--encoder x", "%-%-encoder: is for the small network")
refused(seg .. weights .. "--output-stride 8", "%-%-output%-stride: is for %-%-model deeplabv3 and fcn; a U%-Net and an FPN")
refused(seg .. weights .. "--model fcn --output-stride 4", "output_stride is 32, 16 or 8, not '4'", 1)
refused(seg:gsub("size 64", "size 72") .. weights, "72 pixels of height are no multiple of 32; take 64 or 96", 1)
refused(seg:gsub("batch 2", "batch 1") .. weights .. "--model deeplabv3",
  "the statistics of a batch norm need at least 2 samples, and a batch has 1", 1)
refused("predict_seg.lua --weights unet --size 100 photos/images --device cpu", "100 pixels of height are no multiple of 32", 1)
refused("predict_seg.lua --weights probe photos/images", "probe is a run of train_cls.lua: spcore run predict_cls.lua")
refused("predict_cls.lua --weights unet photos/images", "unet is a run of train_seg.lua: spcore run predict_seg.lua")
local settings = t.read(at .. "/unet/settings.json")
t.write(at .. "/unet/settings.json", (settings:gsub('"head": "unet"', '"head": "pspnet"')))
refused("predict_seg.lua --weights unet photos/images --device cpu", "settings.json: there is no head 'pspnet'", 1)
