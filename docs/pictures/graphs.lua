-- SPDX-License-Identifier: MIT
-- The graphs that docs/strategies.md has pictures of: a training with frozen stages, two branches of one step,
-- predictions, and predictions whose end is on the processor. docs/pictures/make.sh draws them.
local sp = require "spcore"
local opt = sp.args({
  graph = { "train", "which one", choices = { "train", "branches", "predict", "write" } },
}, { doc = "Graphs to draw the schedules of." })

local g <close> = sp.graph(opt)
local data = g.reader { path = "random", target = "class", classes = 10, samples = 64, size = 16, batch = 4 }
local x = g.to_float { data.image, scale = true }

local function layers(from, name)
  return g.layers { from, layers = { { "conv", 4, kernel = 3, pad = 1 }, { "relu" } }, name = name, frozen = true }
end

local function head(from, frozen)
  local linear = { { "flatten" }, { "linear", data.classes } }
  return g.layers { from, layers = linear, name = "head", frozen = frozen }
end

if opt.graph == "train" then
  local trained = head(layers(x, "encoder").features)
  g:train { g.cross_entropy { trained.features, data.label, name = "loss" }, optimizer = g.sgd { lr = 1e-3 } }
elseif opt.graph == "branches" then
  local left, right = layers(x, "left"), layers(x, "right")
  head(g.add { left.features, right.features, name = "join" }, true)
else
  local given = head(layers(x, "encoder").features, true)
  if opt.graph == "write" then g.sleep { given.features, on_cpu = true, name = "write" } end
end
for step, m in g:steps(4) do sp.log(step, m) end
