-- SPDX-License-Identifier: MIT
-- The reference workload of segmentation, which speed is measured on (docs/measurements.md): a frozen plain encoder and a decoder
-- that is trained on random images and masks of ten classes. Prints steps/s.
--
--   spcore run reference_seg.lua --device cuda --strategy pipelined --steps 1000
local sp = require "spcore"
local reference = require "spcore.reference"

local opt = reference.args({
  batch = { 8, "images a step", min = 1, max = 65536, sets = "reader.batch" },
  train_encoder = { false, "train the encoder as well" },
  encoder = { "", "weights of the encoder", default = "random ones", value = "FILE" },
}, "The reference workload of segmentation: prints steps/s.")

local g <close> = sp.graph(opt)
local data = g.reader {
  path = "random", batch = opt.batch, size = { opt.size, opt.size }, classes = 10, samples = opt.samples,
}
local image = g.to_float { data.image }
local enc = g.encoder { image, model = "plain", frozen = not opt.train_encoder, weights = opt.encoder }
local dec = g.decoder { enc.features, model = "plain", classes = data.classes }
g:train { g.cross_entropy { dec.logits, data.mask }, optimizer = g.sgd { lr = opt.lr } }
reference.run(g, opt)
