-- SPDX-License-Identifier: MIT
-- Evaluations that are due each k steps see the weights after as many, and others, and loops that end or are broken off, those after
-- g:steps_in_weights() and g:step() steps: beside loops of just so many steps, in random strategies, on random devices, with random loops.
-- needs: onednn images
local sp = require "spcore"
local t = require "check"

math.randomseed(tonumber(os.getenv "SEED") or 1)
local function make(o)
  local g = sp.graph { seed = 3, strategy = o.strategy, run_ahead = o.R, shards = o.shards, depth = o.depth, device = o.device, threads = 1 }
  local data = g.reader { path = "shapes", size = 16, batch = 4, samples = 48, val_fraction = 0.5 }
  local val = g.reader { path = "shapes", size = 16, batch = 4, samples = 48, split = "val", val_fraction = 0.5 }
  local enc = g.encoder { g.to_float { data.image, scale = true }, model = "unet", width = 4, levels = 1, convs = 1, frozen = true }
  local net = g.layers {
    enc.features, name = "net",
    layers = { { "conv", 6, kernel = 3, pad = 1 }, { "relu" }, { "upsample", scale = 2 }, { "conv", data.classes, kernel = 1 } },
  }
  g:train {
    g.cross_entropy { net.features, data.mask, ignore_index = 0 }, optimizer = g.adamw { lr = 0.01, ema = o.ema },
    lr = function(step) return 0.01 / (step + 1) end, accumulate = o.acc,
  }
  return g, net, val
end

local function weights(net)
  local list = {}
  for _, w in ipairs(net:weights()) do
    for _, v in ipairs(net:weight(w.name)) do list[#list + 1] = ("%a"):format(v) end
  end
  return table.concat(list, " ")
end

local known = {}
local function plain(o, n)
  local key = ("%d %d %d"):format(o.acc, o.shards, n)
  if not known[key] then
    local g <close>, net = make { acc = o.acc, shards = o.shards, R = 0, strategy = "serialized", ema = o.ema }
    for _ in g:steps(n) do end
    known[key] = weights(net)
  end
  return known[key]
end

for case = 1, tonumber(os.getenv "CASES") or 6 do
  local shards = math.random(4) == 1 and 2 or 1
  local o = {
    shards = shards, acc = shards == 1 and math.random(3) or 1, R = math.random(0, 4), depth = math.random(3),
    strategy = ({ "serialized", "pipelined", "deep", "double_buffer" })[math.random(4)],
    device = ({ "cpu", "sim", "mock" })[math.random(3)], ema = math.random(2) == 1 and 0.9 or nil,
  }
  local what = ("case %d %s"):format(case, sp.json.encode(o))
  local g <close>, net, val = make(o)
  local every = math.random(5)
  g:evaluate { data = val, every = every }
  for _ = 1, math.random(3) do
    local n, stop = math.random(9), math.random(12)
    for step, m in g:steps(n) do
      local at = g:steps_in_weights()
      t.eq(m.eval ~= nil, (step + 1) % every == 0, what)
      t.ok(at > step and at <= step + 1 + o.R, what)
      if m.eval then t.eq(at, step + 1, what) end
      if m.eval or math.random(4) == 1 then t.ok(weights(net) == plain(o, at), what) end
      if math.random(6) == 1 then g:evaluate { data = val } end
      stop = stop - 1
      if stop == 0 then break end
    end
    t.ok(weights(net) == plain(o, g:step()), what)
  end
end
