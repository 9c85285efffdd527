-- SPDX-License-Identifier: MIT
-- Predictions one image at a time on a pool of lanes (strategy replicas): a classifier that is not trained, images from
-- reader threads, step t on lane t mod n. Prints images a second for each number of lanes, and fails where a lane gives other
-- bits than one lane alone.
local sp = require "spcore"

local opt = sp.args({
  batch = { 1, "images a step", min = 1, max = 1024 },
  size = { 64, "pixels of a side, a power of two; 256 is the reference classifier", min = 16, max = 1024 },
  classes = { 10, "classes", min = 2, max = 65536 },
  lanes = { "1,2,4,8", "numbers of lanes, with commas" },
  steps = { 1000, "timed steps", min = 1, max = 10000000 },
  turns = { 3, "how often each is measured; the median counts", min = 1, max = 100 },
}, { doc = "Prints how many images a second a pool of lanes predicts." })

local pool = {}
for word in (opt.lanes .. ","):gmatch "([^,]*)," do
  local n = math.tointeger(tonumber(word))
  if not n or n < 1 or n > 64 then sp.usage("--lanes: '%s': numbers from 1 to 64, such as 1,2,4, are wanted", opt.lanes) end
  pool[#pool + 1] = n
end

-- Images a second, and what all of them gave.
local function measure(n)
  local own = { seed = opt.seed, run_ahead = math.max(n, opt.run_ahead), prefetch = math.max(2 * n, opt.prefetch) }
  for _, key in ipairs { "device", "precision", "capture", "threads", "workers", "pinned" } do own[key] = opt[key] end
  local g <close> = sp.graph(own)
  local data = g.reader {
    path = "random", target = "class", samples = 512, size = opt.size, batch = opt.batch, classes = opt.classes,
    shuffle = false,
  }
  local net = g.classifier { g.to_float { data.image, scale = true }, model = "plain", classes = opt.classes, frozen = true }
  g.cross_entropy { net.logits, data.label, name = "score" }
  g:strategy { { name = "pool", stages = g:stages(), replicas = n } }
  -- Steps are seen late: both ends of the timed ones have as many in flight behind them.
  local around, begun, ended, sum = 20 + 2 * n, nil, nil, 0
  for step, m in g:steps(2 * around + opt.steps) do
    if step == around - 1 then begun = sp.now() end
    if step == around + opt.steps - 1 then ended = sp.now() end
    if step < opt.steps then sum = sum + m.loss end
    if sp.interrupted() then sp.exit(130) end
  end
  return opt.steps * opt.batch / (ended - begun), sum, g:device()
end

local rates, sums, device = {}, {}, nil
for turn = 1, opt.turns do
  for i, n in ipairs(pool) do
    rates[i] = rates[i] or {}
    rates[i][turn], sums[i], device = measure(n)
  end
end
print(("device %s, batch %d, %d pixels, capture %s, median of %d turns (least .. most)"):format(device, opt.batch, opt.size,
  opt.capture, opt.turns))
local first
for i, n in ipairs(pool) do
  table.sort(rates[i])
  local list = rates[i]
  local median = list[(#list + 1) // 2]
  first = first or median
  print(("  %2d lanes %10.0f images/s (%.0f .. %.0f), %.2f times the first"):format(n, median, list[1], list[#list],
    median / first))
  if sums[i] ~= sums[1] then sp.fail(("%d lanes give other bits than %d: %a and %a"):format(n, pool[1], sums[i], sums[1])) end
end
