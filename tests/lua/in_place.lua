-- SPDX-License-Identifier: MIT
-- The learning rate of updates in place lies at the head of a lane's step block: a stage that is told nothing of the step, and
-- whose call comes behind such an update in its lane, leaves it alone.
-- needs: onednn images
local sp = require "spcore"
local t = require "check"

local function trained(device, capture, steps)
  local g <close> = sp.graph { device = device, capture = capture, run_ahead = 2 }
  local data = g.reader { path = "random", target = "class", batch = 2, size = 8, samples = 8 }
  local x = g.to_float { data.image, scale = true }
  local first = g.layers { x, layers = { { "conv", 4, kernel = 1 } }, name = "first" }
  local between = g.sleep { first.features, name = "between" }
  local last = g.classifier { between.y[1], classes = data.classes, model = "pool", name = "last" }
  local loss = g.cross_entropy { last.logits, data.label }
  local sgd = g.sgd { lr = 0.5 }
  g:train { loss, optimizer = sgd }
  g:strategy {
    { name = "one", stages = { x, first, sgd } },
    { name = "two", stages = { between, last, loss } },
  }
  for _ in g:steps(steps or 3) do end
  return table.concat(last:weight "2.weight", " ")
end

local wanted = trained "cpu"
t.ok(wanted ~= trained("cpu", nil, 1), "nothing is learned")
for _, capture in ipairs { "off", "lane", "step" } do t.eq(trained("mock", capture), wanted, capture) end
t.eq(trained "simmock", wanted)
