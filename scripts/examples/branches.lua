-- SPDX-License-Identifier: MIT
-- Two branches of one model that do not need each other, on two lanes of the same step, joined behind them: towers
-- of three and of four convolutions see the same images, and a linear layer sees the sum of both. Each tower is measured alone,
-- both in one lane, and both side by side (strategy branches), in turns; the results are the same bits.
local sp = require "spcore"

local opt = sp.args({
  batch = { 1, "images a step", min = 1, max = 1024 },
  size = { 64, "pixels of a side", min = 16, max = 1024 },
  width = { 32, "channels of the towers", min = 4, max = 1024 },
  steps = { 200, "timed steps", min = 1, max = 1000000 },
  turns = { 3, "how often each way is measured; the median counts", min = 1, max = 100 },
}, {
  doc = "Prints what two lanes bring for two independent branches of one step, and the ideal.",
  without = { "by_hand", "run", "strategy", "training", "memory_limit", "trace", "workers" },
})

local function tower(depth)
  local layers = {}
  for i = 1, depth do
    layers[#layers + 1] = { "conv", opt.width, kernel = 3, pad = 1, stride = i <= 2 and 2 or 1 }
    layers[#layers + 1] = { "relu" }
  end
  layers[#layers + 1] = { "avg_pool", kernel = opt.size // 4 }
  layers[#layers + 1] = { "flatten" }
  return layers
end

-- Milliseconds a step, and what the last one gave; `which`: the towers that are there.
local function measure(strategy, which)
  local own = { strategy = strategy, seed = opt.seed, run_ahead = opt.run_ahead, prefetch = opt.prefetch }
  for _, key in ipairs { "device", "precision", "capture", "threads", "pinned" } do own[key] = opt[key] end
  local g <close> = sp.graph(own)
  local data = g.reader {
    path = "random", target = "class", samples = 256, size = opt.size, batch = opt.batch, shuffle = false,
  }
  local image, ends = g.to_float { data.image, scale = true }, {}
  for _, depth in ipairs(which) do
    ends[#ends + 1] = g.layers { image, layers = tower(depth), name = "tower" .. depth, frozen = true }
  end
  local joined = #ends > 1 and g.add { ends[1].features, ends[2].features } or ends[1]
  local head = g.layers { joined, layers = { { "linear", data.classes } }, name = "head", frozen = true }
  local loss = g.cross_entropy { head.features, data.label }
  -- Steps are seen late: both ends of the timed ones have as many in flight behind them.
  local around, begun, ended, last = 20, nil, nil, nil
  for step, m in g:steps(around + opt.steps + around) do
    if step == around - 1 then begun = sp.now() end
    if step == around + opt.steps - 1 then ended = sp.now() end
    last = m.loss
  end
  if sp.interrupted() then sp.exit(130) end -- the loop has ended early
  return (ended - begun) / opt.steps * 1e3, last, g:device()
end

local function median(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end

local ways = {
  { "the first alone", "serialized", { 3 } },
  { "the second alone", "serialized", { 4 } },
  { "both, one lane", "serialized", { 3, 4 } },
  { "both, side by side", "branches", { 3, 4 } },
}
local times, losses, device = {}, {}, nil
for turn = 1, opt.turns do
  for i, way in ipairs(ways) do
    times[i] = times[i] or {}
    times[i][turn], losses[i], device = measure(way[2], way[3])
  end
end
print(("device %s, batch %d, %d pixels, %d channels, median of %d turns"):format(device, opt.batch, opt.size, opt.width,
  opt.turns))
local ms = {}
for i, way in ipairs(ways) do
  ms[i] = median(times[i])
  print(("  %-20s %8.3f ms a step"):format(way[1], ms[i]))
end
print(("speed-up %.2f, ideal %.2f: the sum over the longer one; the same bits: %s"):format(ms[3] / ms[4],
  (ms[1] + ms[2]) / math.max(ms[1], ms[2]), losses[3] == losses[4] and "yes" or "NO"))
if losses[3] ~= losses[4] then sp.fail "the strategies differ" end
