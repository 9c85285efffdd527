-- SPDX-License-Identifier: MIT
-- Segments images with the weights of a run of train_seg.lua.
local sp = require "spcore"

local opt = sp.args({
  weights = { "", "folder of a run of train_seg.lua" },
  out = { "predictions", "folder for masks/NAME.png and overlays/NAME.png" },
  size = { 0, "pixels of a side that the network sees; 0: as in training", min = 0, max = 4096 },
}, { rest = "IMAGE...", doc = "Segments images: writes a mask and an overlay, of the image's own size, for each." })

if opt.weights == "" then sp.usage("--weights RUN is missing: the folder of a run of train_seg.lua") end
if #opt.rest == 0 then sp.usage("no image is given") end

local settings, why = sp.json.read(opt.weights .. "/settings.json")
if not settings then sp.usage("--weights: %s", why) end
local model = settings.model
if type(model) ~= "table" or type(model.encoder) ~= "table" or type(model.decoder) ~= "table"
  or math.type(model.size) ~= "integer" then
  sp.usage("--weights: %s/settings.json describes no model; is it a run of train_seg.lua?", opt.weights)
end

-- One name per image: that of the file; where two files share it, a number is added.
local files, names, taken = {}, {}, {}
for i, path in ipairs(opt.rest) do
  local stem = path:match("[^/]*$"):gsub("(.)%.[^.]*$", "%1")
  local name, n = stem, 1
  while taken[name] do
    n = n + 1
    name = ("%s_%d"):format(stem, n)
  end
  taken[name] = true
  files[i], names[i] = { path }, { name, original = path }
end

local function with(params, wires)
  for k, v in pairs(params) do wires[k] = v end
  return wires
end

local g <close> = sp.graph(opt)
local size = opt.size > 0 and opt.size or model.size
local batch = math.min(8, #files)
local data = g.reader { files = files, size = { size, size }, batch = batch, shuffle = false, max_bad = 0 }
local image = g.to_float { data.image, scale = model.scale }
local enc = g.encoder(with(model.encoder, { image, frozen = true, weights = opt.weights }))
local dec = g.decoder(with(model.decoder, { enc.features, skips = enc.maps, frozen = true, weights = opt.weights }))
local mask = g.argmax { dec.logits }
g.image_writer {
  image = data.image, mask = mask, dir = opt.out, images = "", masks = "masks/*.png", overlays = "overlays/*.png",
  names = names,
}

local steps = math.ceil(#files / batch)
local bar <close> = sp.progress { total = steps }
for _ in g:steps(steps) do bar:step() end
bar:close()
if not sp.interrupted() then
  print(("%s: masks and overlays of %d image%s"):format(opt.out, #opt.rest, #opt.rest == 1 and "" or "s"))
end
