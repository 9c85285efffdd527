-- SPDX-License-Identifier: MIT
-- What could bring the frozen encoder and the decoder's training closer to the ideal: other cuts of the reference workload seg into
-- lanes, other priorities, more buffers, captures, in turns. The ideal is all of the work over that of the longer part, from
-- a run of the frozen part alone; that part beside itself shows how much of the device it leaves idle.
--
--   spcore run tests/bench/overlap_seg.lua --device cuda --capture lane
local sp = require "spcore"

local opt = sp.args({
  batch = { 8, "images a step", min = 1 },
  size = { 256, "pixels of a side", min = 16, max = 1024 },
  seconds = { 0.4, "of a turn", min = 0.01, max = 60.0 },
  turns = { 3, "how often each is timed; the median counts", min = 1, max = 100 },
}, { doc = "Prints what ways to overlap the workload seg reach." })

-- parts: nil for all of it, or the frozen part "once", "twice".
local function build(g, parts)
  local data = g.reader {
    path = "random", batch = opt.batch, size = { opt.size, opt.size }, classes = 10, samples = 512,
  }
  local s = { data = data, float = g.to_float { data.image } }
  s.enc = g.encoder { s.float, model = "plain", frozen = true, name = "enc" }
  if parts == "twice" then s.enc2 = g.encoder { s.float, model = "plain", frozen = true, name = "enc2" } end
  if parts then return s end
  s.dec = g.decoder { s.enc.features, model = "plain", classes = data.classes, name = "dec" }
  s.loss = g.cross_entropy { s.dec.logits, data.mask, name = "loss" }
  s.sgd = g.sgd { lr = 1e-3 }
  g:train { s.loss, optimizer = s.sgd }
  return s
end

local function lanes(ahead, train)
  return function(_, s)
    return {
      { name = "ahead", stages = { s.float, s.enc }, priority = ahead.priority, extra = ahead.extra },
      { name = "train", stages = { s.dec, s.loss, s.sgd }, delay = train.delay or 1, priority = train.priority },
    }
  end
end

local ways = {
  { "serialized", function(g) return { { name = "all", stages = g:stages() } } end },
  { "pipelined, training high", lanes({}, { priority = "high" }) },
  { "pipelined, one priority", lanes({}, {}) },
  { "pipelined, encoder high", lanes({ priority = "high" }, { priority = "low" }) },
  { "pipelined, two steps ahead", lanes({}, { delay = 2, priority = "high" }) },
  { "pipelined, a buffer more", lanes({ extra = 1 }, { priority = "high" }) },
  { "pixels with the training", function(_, s)
    return {
      { name = "float", stages = { s.float } },
      { name = "ahead", stages = { s.enc }, delay = 1 },
      { name = "train", stages = { s.dec, s.loss, s.sgd }, delay = 2, priority = "high" },
    }
  end },
  { "backward in a lane of its own", function(_, s)
    return {
      { name = "ahead", stages = { s.float, s.enc } },
      { name = "train", stages = { { s.dec, "forward" }, s.loss }, delay = 1, priority = "high" },
      { name = "back", stages = { { s.dec, "backward" }, s.sgd }, delay = 1, priority = "high" },
    }
  end },
  { "the frozen part alone", function(g) return { { name = "all", stages = g:stages() } } end, "once" },
  { "the frozen part twice, in a row", function(g) return { { name = "all", stages = g:stages() } } end, "twice" },
  { "the frozen part twice, side by side", function(_, s)
    return { { name = "one", stages = { s.float, s.enc } }, { name = "two", stages = { s.enc2 } } }
  end, "twice" },
}

local function measure(way)
  local own = {}
  for _, key in ipairs { "device", "precision", "capture", "threads", "workers", "pinned", "seed" } do own[key] = opt[key] end
  own.run_ahead = 3
  local g <close> = sp.graph(own)
  local s = build(g, way[3])
  g:strategy(way[2](g, s), way[1])
  local steps, began, n = 0, nil, 0
  for step, m in g:steps() do
    if step == 30 then began = m.time end
    if began then n, steps = n + 1, step end
    if began and m.time - began > opt.seconds and n > 5 then return (n - 1) / (m.time - began) end
  end
  if sp.interrupted() then sp.exit(130) end -- the loop has ended early
  return steps
end

local rates = {}
for turn = 1, opt.turns do
  for i, way in ipairs(ways) do
    rates[i] = rates[i] or {}
    rates[i][turn] = measure(way)
  end
end
print(("seg, batch %d, %d pixels, capture %s, median of %d turns"):format(opt.batch, opt.size, opt.capture, opt.turns))
print(("%-38s %9s %9s %20s"):format("", "steps/s", "ms", "least .. most"))
local ms = {}
for i, way in ipairs(ways) do
  table.sort(rates[i])
  local median = rates[i][(#rates[i] + 1) // 2]
  ms[i] = 1e3 / median
  print(("%-38s %9.1f %9.3f %9.1f .. %7.1f"):format(way[1], median, ms[i], rates[i][1], rates[i][#rates[i]]))
end
local all, frozen = ms[1], ms[#ways - 2]
print(("the frozen part takes %.3f of %.3f ms: beside the rest at no cost a step would take %.3f, %.2f times as fast"):format(frozen,
  all, all - frozen, all / (all - frozen)))
print(("beside itself it takes %.3f ms where twice in a row it takes %.3f: %.2f times as fast, so much does one leave idle"):format(
  ms[#ways], ms[#ways - 1], ms[#ways - 1] / ms[#ways]))
