-- SPDX-License-Identifier: MIT
-- Trains products with few rows and many weights, whose gradients are made of factors where a step has shards; its last steps
-- of an epoch are short. Prints how many calls make them.
local sp = require "spcore"
local opt = sp.args({
  momentum = { 0.0, "of the updates of sgd", min = 0.0 },
  optimizer = { "sgd", "another than sgd has averages of the weights" },
  clip = { 0.0, "the norm of gradients to clip to", min = 0.0 },
  nonfinite = { "stop", "the optimizer's" },
  file = { "", "for the weights" },
  load = { "", "weights to begin with" },
  freeze = { false, "the last bias stays as it is, so that there are no factors" },
  fit = { false, "layers as wide as multiples of 64, and the losses are printed" },
}, {})
local g <close> = sp.graph(opt)
local data = g.reader { path = "random", batch = 2, size = 8, classes = 3, samples = 37, target = "class" }
local layers = { { "flatten" }, { "linear", opt.fit and 256 or 300 }, { "relu" }, { "linear", opt.fit and 192 or 200 },
  { "relu" }, { "linear", 3 } }
local net = g.layers { g.to_float { data.image, scale = true }, layers = layers }
local params = { lr = 0.02, clip_norm = opt.clip, nonfinite = opt.nonfinite }
if opt.optimizer ~= "sgd" then
  params.ema, params.groups = 0.8, { { "layers.1.*", lr = 0.5 }, { "*.bias", decay = 0 } }
  if opt.freeze then table.insert(params.groups, { "layers.5.bias", frozen = true }) end
else
  params.momentum = opt.momentum
end
g:train { g.cross_entropy { net.features, data.label }, optimizer = g[opt.optimizer](params) }
if opt.load ~= "" then g:load(opt.load) end
for step, m in g:steps(7) do
  if opt.fit and sp.rank == 0 then print(("loss %.9g"):format(m.loss)) end
  if opt.clip > 0 and sp.rank == sp.ranks - 1 then print(("step %d: norm %a"):format(step, m.grad_norm)) end
end
if sp.rank == 0 then print(select(2, g:describe():gsub("CALL +%S+ +layers.apply", ""))) end
g:save(opt.file, { optimizer = true })
