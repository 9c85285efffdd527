-- SPDX-License-Identifier: MIT
-- Makes scripts/shapes_encoder.safetensors: trains encoder and decoder of train_seg.lua on the set `shapes` of another
-- seed, so that train_seg.lua's images, those for validation too, are new to the encoder; keeps the encoder alone.
local sp = require "spcore"
local core = require "spcore.core"
local sys = require "spcore.sys"

local opt = sp.args({
  size = { 64, "pixels of a side", min = 8, max = 4096 },
  batch = { 16, "images a step", min = 1 },
  steps = { 3000, "steps", min = 1 },
  lr = { 6e-3, "highest learning rate", min = 0.0 },
  samples = { 16384, "images of the set", min = 64 },
  data_seed = { 1, "seed of the set; train_seg.lua has 0", min = 0 },
  width = { 8, "channels of the first layer", min = 1, max = 1024 },
  levels = { 3, "times that the encoder halves the image", min = 1, max = 8 },
  to = { "shapes_encoder.safetensors", "file to write", value = "FILE" },
}, { doc = "Pretrains the encoder of train_seg.lua on the built-in set `shapes`.", without = { "by_hand" } })

-- What is written at the end could be written now: better to know it before the training.
local function check_target(path)
  local known, why = core.knows_format(path)
  if not known then sp.usage("--to: %s", why) end
  local folder = path:match "^(.*)/" or "."
  if sys.kind(folder == "" and "/" or folder) ~= "dir" then sp.usage("--to %s: there is no folder %s", path, folder) end
  if sys.kind(path) == "dir" then sp.usage("--to %s: that is a folder; name a file", path) end
  if core.env().schedule or opt.explain then return end -- nothing is written
  local file, because, kind = sys.create(path .. ".tried")
  if not file and kind ~= "exists" then sp.usage("--to: no file can be made there: %s", because) end
  if file then
    file:close()
    os.remove(path .. ".tried")
  end
end

if sp.rank == 0 then check_target(opt.to) end -- who writes it
local g <close> = sp.graph(opt)

local function source(split)
  return g.reader {
    path = "shapes", split = split, size = { opt.size, opt.size }, batch = opt.batch, samples = opt.samples,
    data_seed = opt.data_seed, val_fraction = 0.03, shuffle = split == "train",
  }
end

local data, val = source "train", source "val"
local image = g.to_float { data.image, scale = true }
local enc = g.encoder { image, name = "encoder", model = "unet", width = opt.width, levels = opt.levels, convs = 2 }
local dec = g.decoder {
  enc.features, skips = enc.maps, model = "unet", width = opt.width, convs = 1, classes = data.classes,
}
g.confusion { dec.logits, data.mask, ignore_index = 255 }
g:train {
  g.cross_entropy { dec.logits, data.mask, ignore_index = 255 },
  optimizer = g.adamw { lr = opt.lr, betas = { 0.9, 0.99 }, weight_decay = 1e-2 },
  lr = sp.cosine { lr = opt.lr, steps = opt.steps, warm_up = opt.steps // 5 },
}

local run <close> = sp.run { graph = g, opt = opt, steps = opt.steps }
for step, m in g:steps(opt.steps) do run:step(step, m) end
local result = g:evaluate { data = val }
run:save()

if result and sp.rank == 0 then
  -- a graph that has no weights but the encoder's
  local part <close> = sp.graph { threads = opt.threads }
  part.encoder {
    part.to_float { part.reader { path = "shapes", size = { opt.size, opt.size }, batch = 1 }.image, scale = true },
    name = "encoder", model = "unet", width = opt.width, levels = opt.levels, convs = 2, weights = run.dir,
  }
  part:save(opt.to)
end
run:finish(result and ("%s, validation mean IoU %.4f"):format(opt.to, (sp.mean_iou(result.counts))))
