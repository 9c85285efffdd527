-- SPDX-License-Identifier: MIT
-- What a trace costs a training: the same graph with and without one, in turns of some steps; best and median of the turns, by
-- the clock and by the time of processors, which a busy machine changes less.
--   spcore run tests/bench/trace.lua [--turns 15]
local sp = require "spcore"
local opt = sp.args({
  turns = { 15, "how often each is timed", min = 1, max = 1000 },
  turn_steps = { 40, "steps of a turn", min = 1, max = 10000 },
  size = { 64, "height and width of the pictures", min = 8, max = 1024 },
  width = { 8, "channels of the network's first layer", min = 1, max = 64 },
}, { doc = "Prints how much slower a training is while it is traced.", without = { "run", "trace" } })

local function make(trace)
  local own = {}
  for _, key in ipairs { "device", "precision", "capture", "strategy", "depth", "threads", "workers", "prefetch" } do
    own[key] = opt[key]
  end
  own.trace, own.trace_steps = trace, trace and 1000000
  local g = sp.graph(own)
  local data = g.reader { path = "shapes", batch = 8, size = opt.size, samples = 512 }
  local enc = g.encoder { g.to_float { data.image, scale = true }, model = "unet", width = opt.width, levels = 3, frozen = true }
  local dec = g.decoder { enc.features, skips = enc.maps, model = "unet", classes = data.classes }
  g:train { g.cross_entropy { dec.logits, data.mask }, optimizer = g.adamw { lr = 1e-3 } }
  return g
end

local file = os.tmpname()
local graphs = { make(), make(file) }
local clocks = { clock = sp.now, processors = os.clock }
local times = { clock = { {}, {} }, processors = { {}, {} } }
for turn = 0, opt.turns do
  for k = 1, 2 do
    local i, since = (turn + k) % 2 + 1, {}
    for name, clock in pairs(clocks) do since[name] = clock() end
    for _ in graphs[i]:steps(opt.turn_steps) do end
    for name, clock in pairs(clocks) do
      if turn > 0 then table.insert(times[name][i], (clock() - since[name]) / opt.turn_steps * 1e3) end
    end
  end
end
for _, g in ipairs(graphs) do g:close() end
os.remove(file)
for name, lists in pairs(times) do
  local off, on = lists[1], lists[2]
  table.sort(off)
  table.sort(on)
  local middle = (#off + 1) // 2
  print(("%s: without %.3f ms a step (median %.3f), with %.3f (%.3f): best %+.1f %%, median %+.1f %%"):format(name, off[1],
    off[middle], on[1], on[middle], 100 * (on[1] / off[1] - 1), 100 * (on[middle] / off[middle] - 1)))
end
