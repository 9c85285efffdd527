-- SPDX-License-Identifier: MIT
-- Work that somebody waits for beside work that has time: predictions one image at a time, each waited for, beside
-- batches through wide convolutions, of which several are always in flight. Two graphs, each with a loop and a lane of
-- its own, that one thread drives: after each batch that is done, so many requests. Measured in turns: requests alone,
-- batches alone, both with lanes of one priority, and both with the requests' lane high and the batches' low.
local sp = require "spcore"

local opt = sp.args({
  size = { 64, "pixels of a side, a power of two", min = 16, max = 1024 },
  batch = { 16, "images a step of the background", min = 1, max = 4096 },
  width = { 16, "channels of the background's convolutions", min = 1, max = 4096 },
  flight = { 4, "steps of the background in flight", min = 1, max = 64 },
  requests = { 4, "requests after each step of the background", min = 1, max = 1000 },
  steps = { 100, "timed steps of the background", min = 1, max = 1000000 },
  turns = { 3, "how often each way is measured; the median counts", min = 1, max = 100 },
}, {
  doc = "Prints the latency of small work beside large work, with and without priorities.",
  without = { "by_hand", "run", "strategy", "training", "memory_limit", "trace" },
})

-- What is computed of an image: a request is a classifier's, the background's are four convolutions that fill a device.
local function network(g, image, classes, wide)
  if not wide then return g.classifier { image, model = "plain", classes = classes, frozen = true }.logits end
  local layers = {}
  for _ = 1, 4 do
    layers[#layers + 1] = { "conv", opt.width, kernel = 3, pad = 1 }
    layers[#layers + 1] = { "relu" }
  end
  layers[#layers + 1] = { "avg_pool", kernel = opt.size }
  layers[#layers + 1] = { "flatten" }
  layers[#layers + 1] = { "linear", classes }
  return g.layers { image, layers = layers, frozen = true }.features
end

-- A graph that predicts, in one lane of that priority.
local function predict(batch, run_ahead, priority, wide)
  local own = { seed = opt.seed, run_ahead = run_ahead, prefetch = math.max(opt.prefetch, run_ahead) }
  for _, key in ipairs { "device", "precision", "capture", "threads", "workers", "pinned" } do own[key] = opt[key] end
  local g = sp.graph(own)
  local data = g.reader {
    path = "random", target = "class", samples = 64 * batch, size = opt.size, batch = batch, shuffle = false,
  }
  local logits = network(g, g.to_float { data.image, scale = true }, data.classes, wide)
  g.cross_entropy { logits, data.label, name = "score" }
  g:strategy({ { name = priority, stages = g:stages(), priority = priority } }, "one lane")
  return g
end

-- The next step of a loop that is not written as one, since two of them take turns.
local function driver(g)
  local step, state = g:steps()
  return function()
    local n, m = step(state)
    if not n then sp.exit(130) end -- Ctrl-C
    return m
  end
end

-- way: which of both is there, and their priorities. Gives seconds of each request, steps a second of the background,
-- and the sum of what the requests gave.
local function measure(way)
  local small <close> = way.request and predict(1, 0, way.request)
  local large <close> = way.background and predict(opt.batch, opt.flight, way.background, true)
  local warm = 12 + 2 * opt.flight
  local next_small, next_large = small and driver(small), large and driver(large)
  local latencies, sum, begun = {}, 0, nil
  for i = 1 - warm, opt.steps do
    if i == 1 then begun = sp.now() end
    if large then next_large() end
    for _ = 1, small and opt.requests or 0 do
      local asked = sp.now()
      local m = next_small()
      if i > 0 then
        latencies[#latencies + 1] = sp.now() - asked
        sum = sum + m.loss
      end
    end
  end
  return latencies, opt.steps / (sp.now() - begun), sum, (small or large):device()
end

-- Of a sorted list.
local function percentile(list, part)
  return list[math.max(1, math.ceil(part * #list))]
end

local function median(list)
  table.sort(list)
  return percentile(list, 0.5)
end

local ways = {
  { "requests alone", request = "normal" },
  { "background alone", background = "normal" },
  { "both, one priority", request = "normal", background = "normal" },
  { "both, high and low", request = "high", background = "low" },
}
local found, device, first = {}, nil, nil
for turn = 1, opt.turns do
  for i, way in ipairs(ways) do
    local latencies, rate, sum
    latencies, rate, sum, device = measure(way)
    table.sort(latencies)
    found[i] = found[i] or { p50 = {}, p99 = {}, rate = {} }
    found[i].p50[turn], found[i].p99[turn] = percentile(latencies, 0.5), percentile(latencies, 0.99)
    found[i].rate[turn] = rate
    if way.request then
      first = first or sum
      if sum ~= first then sp.fail(("%s: the requests got other bits"):format(way[1])) end
    end
  end
end

print(("device %s, %d pixels, median of %d turns: requests of 1 image, %d after each batch of %d, %d of them in flight")
  :format(device, opt.size, opt.turns, opt.requests, opt.batch, opt.flight))
print(("%-20s %12s %12s %20s"):format("", "p50, ms", "p99, ms", "background steps/s"))
for i, way in ipairs(ways) do
  local f = found[i]
  local function ms(list) return way.request and ("%.3f"):format(median(list) * 1e3) or "-" end
  print(("%-20s %12s %12s %20s"):format(way[1], ms(f.p50), ms(f.p99),
    way.background and ("%.1f"):format(median(f.rate)) or "-"))
end
if not device:find "^cuda" then
  print(("device %s has no priorities: the last two rows are the same work, and differ by chance"):format(device))
end
