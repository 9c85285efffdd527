-- SPDX-License-Identifier: MIT
-- A small U-Net learns a few pictures by heart, all of it or the decoder alone. Where only the last bias learns, the mean
-- IoU stays below 0.15: that of "all is ground".
-- needs: onednn images jansson
-- once: a training, of stages that each have a test
local sp = require "spcore"
local t = require "check"

-- Trains it on 8 pictures of 32 x 32, the encoder only if it is not frozen; returns the last loss as part of the first,
-- and the last mean IoU.
local function learn(frozen, steps)
  local g <close> = sp.graph { seed = 3, threads = 2 }
  local data = g.reader { path = "shapes", size = { 32, 32 }, batch = 8, samples = 8 }
  local image = g.to_float { data.image, scale = true }
  local enc = g.encoder { image, model = "unet", width = 8, levels = 2, convs = 1, frozen = frozen }
  local dec = g.decoder { enc.features, skips = enc.maps, model = "unet", width = 8, convs = 1, classes = data.classes }
  local loss = g.cross_entropy { dec.logits, data.mask }
  g.confusion { dec.logits, data.mask }
  g:train { loss, optimizer = g.adamw { lr = 1e-2, betas = { 0.9, 0.99 } } }
  local first, last
  for _, m in g:steps(steps) do
    first = first or m
    last = m
  end
  t.ok(sp.mean_iou(first.counts) < 0.15, "it cannot know before it has learned")
  return last.loss / first.loss, (sp.mean_iou(last.counts))
end

for _, case in ipairs {
  { "all of it", false, loss = 0.2, iou = 0.7 },
  { "the decoder alone", true, loss = 0.2, iou = 0.7 },
} do
  local loss, iou = learn(case[2], 120)
  print(("%s: loss x %.3f, mean IoU %.3f"):format(case[1], loss, iou))
  t.ok(loss < case.loss, case[1] .. ": the loss falls")
  t.ok(iou > case.iou, case[1] .. ": the mean IoU rises")
end
