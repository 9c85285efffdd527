-- SPDX-License-Identifier: MIT
-- The reference model for some steps on a folder of images, for train.py: prints each loss, saves the weights.
local sp = require "spcore"
local opt = sp.args {
  data = { "", "folder" }, steps = { 10, "steps" }, batch = { 4, "images a step" }, size = { 64, "pixels" },
  weights = { "", "where the weights go" }, unfrozen = { false, "train the encoder too" }, lr = { 1e-3, "learning rate" },
  momentum = { 0.0, "of SGD" },
}
local g <close> = sp.graph(opt)
local data = g.reader { path = opt.data, batch = opt.batch, size = opt.size, classes = 10, shuffle = false }
local enc = g.encoder { g.to_float { data.image }, frozen = not opt.unfrozen }
local dec = g.decoder { enc.features, classes = 10 }
g:train { g.cross_entropy { dec.logits, data.mask, ignore_index = 255 }, optimizer = g.sgd { lr = opt.lr, momentum = opt.momentum } }
for _, m in g:steps(opt.steps) do print(("%.9g"):format(m.loss)) end
g:save(opt.weights)
