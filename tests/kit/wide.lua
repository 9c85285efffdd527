-- SPDX-License-Identifier: MIT
-- Trains products with few rows and many weights, whose gradients are made of factors where a step has shards; its last steps
-- of an epoch are short. Prints how many calls make them.
local sp = require "spcore"
local opt = sp.args({ momentum = { 0.0, "of the updates", min = 0.0 }, file = { "", "for the weights" } }, {})
local g <close> = sp.graph(opt)
local data = g.reader { path = "random", batch = 2, size = 8, classes = 3, samples = 37, target = "class" }
local layers = { { "flatten" }, { "linear", 300 }, { "relu" }, { "linear", 200 }, { "relu" }, { "linear", 3 } }
local net = g.layers { g.to_float { data.image, scale = true }, layers = layers }
g:train { g.cross_entropy { net.features, data.label }, optimizer = g.sgd { lr = 0.02, momentum = opt.momentum } }
for _ in g:steps(7) do end
if sp.rank == 0 then print(select(2, g:describe():gsub("CALL +%S+ +layers.apply", ""))) end
g:save(opt.file, { optimizer = true })
