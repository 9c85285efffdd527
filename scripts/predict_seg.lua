-- SPDX-License-Identifier: MIT
-- Segments images with the weights of a run of train_seg.lua. Images are requests: there may be any number of them, and
-- one that cannot be read is named while the others go on.
local sp = require "spcore"

local opt = sp.args({
  weights = { "", "folder of a run of train_seg.lua" },
  out = { "predictions", "folder for masks/NAME.png and overlays/NAME.png" },
  size = { 0, "pixels of a side that the network sees", default = "as in training", min = 0, max = 4096 },
  batch = { 8, "images a step", min = 1, max = 1024 },
}, {
  rest = "IMAGE|FOLDER...", doc = "Segments images: writes a mask and an overlay, of the image's own size, for each.",
  without = { "by_hand", "run", "training", "reading", "seed", "auto_budget", "auto_again" },
})

if opt.weights == "" then sp.usage("--weights RUN is missing: the folder of a run of train_seg.lua") end
if #opt.rest == 0 then sp.usage("no image is given") end

local settings, why = sp.json.read(opt.weights .. "/settings.json")
if not settings then sp.usage("--weights: %s", why) end
local model = settings.model
if type(model) ~= "table" or type(model.encoder) ~= "table" or type(model.decoder) ~= "table"
  or math.type(model.size) ~= "integer" then
  sp.usage("--weights: %s/settings.json describes no model; is it a run of train_seg.lua?", opt.weights)
end

local function with(params, wires)
  for k, v in pairs(params) do wires[k] = v end
  return wires
end

local next_image, total = sp.pictures(opt.rest)
local g <close> = sp.graph(opt)
local size = opt.size > 0 and opt.size or model.size
local data = g.image_requests { size = { size, size }, batch = math.min(opt.batch, total) }
local image = g.to_float { data.image, scale = model.scale }
local enc = g.encoder(with(model.encoder, { image, frozen = true, weights = opt.weights }))
local dec = g.decoder(with(model.decoder, { enc.features, skips = enc.maps, frozen = true, weights = opt.weights }))
local mask = g.argmax { dec.logits }
g.image_writer {
  image = data.image, mask = mask, dir = opt.out, images = "", masks = "masks/*.png", overlays = "overlays/*.png",
  restore = true,
}

local done, bad = 0, 0
do
  local bar <close> = sp.progress { total = total, unit = "image" }
  for answer in g:answers(next_image) do
    if answer.error and not sp.interrupted() then
      bad = bad + 1
      sp.warn(answer.error)
    elseif not answer.error then
      done = done + 1
    end
    bar:step()
  end
end
if sp.interrupted() then sp.exit(130) end
sp.print("%s: masks and overlays of %d image%s", opt.out, done, done == 1 and "" or "s")
if bad > 0 then
  sp.warn(("%d of %d images could not be read; they are named above"):format(bad, done + bad))
  sp.exit(1)
end
