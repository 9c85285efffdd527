-- SPDX-License-Identifier: MIT
-- How far strategy auto is from the best: every shipped strategy and auto on mixes of work, in turns. auto measures in its first
-- turn, and takes what it remembers in the others (SPCORE_CACHE: where).
--
--   spcore run tests/bench/auto.lua --device cuda --capture lane
--   spcore run tests/bench/auto.lua --device cpu --size 32 --batches 1,4 --seconds 0.2
local sp = require "spcore"

local opt = sp.args({
  mixes = { "seg,cls,overlap,dependent,sleep,branches,infer,gemm", "which, with commas; gemm where there is such a stage" },
  batches = { "1,8,32,128", "images a step of seg and cls, with commas" },
  size = { 256, "pixels of a side", min = 16, max = 1024 },
  seconds = { 0.25, "of a turn", min = 0.01, max = 60.0 },
  turns = { 3, "how often each is timed; the median counts", min = 1, max = 100 },
}, { doc = "Prints what every strategy reaches on mixes of work, and how far auto is from the best." })

local function words_of(text)
  local list = {}
  for word in text:gmatch "[^,%s]+" do list[#list + 1] = word end
  return list
end

-- ---- the mixes: each adds its stages to g ----

local function random(g, batch, target, size)
  return g.reader { path = "random", target = target, batch = batch, size = { size, size }, classes = 10, samples = 1024 }
end

local mixes = {}

function mixes.seg(g, batch)
  local data = random(g, batch, nil, opt.size)
  local enc = g.encoder { g.to_float { data.image }, model = "plain", frozen = true }
  local dec = g.decoder { enc.features, model = "plain", classes = data.classes }
  g:train { g.cross_entropy { dec.logits, data.mask }, optimizer = g.sgd { lr = 1e-3 } }
end

function mixes.cls(g, batch)
  local data, size = random(g, batch, "class", opt.size), opt.size
  local x = g.augment {
    data.image, crop = size // 2, mode = "roi_align", size = size, degrees = 45, kernel = 7, sigma = { 0.1, 2.0 },
    mean = 0, std = 1,
  }.images
  local model = g.classifier { x, model = "plain", classes = data.classes }
  g:train { g.cross_entropy { model.logits, data.label }, optimizer = g.sgd { lr = 1e-3 } }
end

-- Two stages that sleep, the first of them frozen: ideal are two milliseconds a step in place of four.
function mixes.overlap(g)
  local data = random(g, 1, "class", 16)
  local one = g.sleep { g.to_float { data.image }, ms = 2, name = "one", frozen = true }
  local net = g.layers { one.y[1], layers = { { "flatten" }, { "linear", 10 } }, name = "net" }
  local two = g.sleep { net.features, ms = 1, backward_ms = 1, name = "two" }
  g:train { g.cross_entropy { two.y[1], data.label }, optimizer = g.sgd { lr = 1e-3 } }
end

-- The same without training: as many steps at a time as there are lanes.
function mixes.sleep(g)
  local data = random(g, 1, "class", 8)
  local one = g.sleep { data.image, ms = 2, name = "one" }
  g.sleep { one.y[1], ms = 2, name = "two" }
end

-- Both behind what is trained, so that each step needs the weights of the one before: nothing can overlap.
function mixes.dependent(g)
  local data = random(g, 1, "class", 16)
  local first = g.layers { g.to_float { data.image }, layers = { { "flatten" }, { "linear", 10 } }, name = "first" }
  local one = g.sleep { first.features, ms = 2, backward_ms = 0.5, name = "one" }
  local two = g.sleep { one.y[1], ms = 2, backward_ms = 0.5, name = "two" }
  g:train { g.cross_entropy { two.y[1], data.label }, optimizer = g.sgd { lr = 1e-3 } }
end

local function tower(depth, size)
  local layers = {}
  for i = 1, depth do
    layers[#layers + 1] = { "conv", 32, kernel = 3, pad = 1, stride = i <= 2 and 2 or 1 }
    layers[#layers + 1] = { "relu" }
  end
  layers[#layers + 1] = { "avg_pool", kernel = size // 4 }
  layers[#layers + 1] = { "flatten" }
  return layers
end

function mixes.branches(g)
  local data, ends = random(g, 1, "class", 64), {}
  local image = g.to_float { data.image, scale = true }
  for i, depth in ipairs { 3, 4 } do
    ends[i] = g.layers { image, layers = tower(depth, 64), name = "tower" .. depth, frozen = true }
  end
  local joined = g.add { ends[1].features, ends[2].features }
  local head = g.layers { joined, layers = { { "linear", data.classes } }, name = "head", frozen = true }
  g.cross_entropy { head.features, data.label }
end

function mixes.infer(g)
  local data = random(g, 1, "class", math.min(opt.size, 64))
  local net = g.classifier { g.to_float { data.image, scale = true }, model = "plain", classes = 10, frozen = true }
  g.cross_entropy { net.logits, data.label }
end

-- Two products that each fill the device, and take long beside the copy of a batch.
function mixes.gemm(g)
  local gpu = g:device():find "^cuda" ~= nil
  local data = random(g, gpu and 4096 or 64, "class", 16)
  local flat = g.layers { g.to_float { data.image, scale = true }, layers = { { "flatten" } }, name = "flat", frozen = true }
  local one = g.gemm { flat.features, n = gpu and 4096 or 0, times = gpu and 256 or 4, name = "one" }
  g.gemm { one.c, times = gpu and 48 or 4, name = "two" }
end

-- ---- contestants ----

local ways = {
  { "serialized", 1 }, { "pipelined", 1 }, { "pipelined", 2 }, { "deep", 1 }, { "double_buffer", 1 }, { "branches", 1 },
  { "replicas", 4 }, { "replicas", 8 }, { "auto", 1 },
}

local function options(strategy, depth)
  local own = { strategy = strategy, depth = depth, auto_budget = opt.auto_budget }
  for _, key in ipairs { "device", "precision", "capture", "threads", "workers", "prefetch", "run_ahead", "seed" } do
    own[key] = opt[key]
  end
  own.pinned = math.max(opt.pinned, 4096)
  return own
end

local function lanes_of(g)
  local names = {}
  for i, lane in ipairs(g:lanes()) do
    names[i] = ("%s %d x%d: %s"):format(lane.name, lane.delay, lane.replicas, table.concat(lane.stages, " "))
  end
  return table.concat(names, "\n")
end

-- Seconds a step, what it ran as, and the lanes; n: timed steps.
local function measure(mix, way, n, again)
  local own = options(way[1], way[2])
  own.auto_again = again
  local g <close> = sp.graph(own)
  mixes[mix.name](g, mix.batch)
  local before = sp.now()
  local lanes, name = lanes_of(g), g:schedule().strategy
  local chosen = sp.now() - before
  if g.depth > 1 then name = name .. ", depth " .. g.depth end
  -- Steps are seen late: both ends of the timed ones have as many in flight behind them; graphs are recorded before, one for each
  -- phase.
  local warm, begun, ended = 12, nil, nil
  if g._raw:options().capture ~= "off" then warm = warm + g._raw:plan_info().phases end
  for step, m in g:steps(warm + n + 6) do
    if step == warm - 1 then begun = m.time end
    if step == warm + n - 1 then ended = m.time end
  end
  if sp.interrupted() then sp.exit(130) end -- the loop has ended early
  return (ended - begun) / n, name, lanes, chosen
end

local function median(list)
  local v = table.move(list, 1, #list, 1, {})
  table.sort(v)
  return v[(#v + 1) // 2]
end

-- Those whose lanes differ; what says why not is silent here.
local function contest(mix)
  local core = require "spcore.core"
  local level = core.log_level "error"
  local rows, seen = {}, {}
  local rough = measure(mix, ways[1], 6)
  local n = math.max(4, math.min(20000, math.ceil(opt.seconds / rough)))
  for turn = 1, opt.turns do
    require "spcore.progress".quiet = opt.quiet or turn > 1 -- what auto remembers
    for i, way in ipairs(ways) do
      local row = rows[i] or { way = way, times = {} }
      rows[i] = row
      if not row.same then
        local ok, seconds, name, lanes, chosen = pcall(measure, mix, way, n, turn == 1)
        if not ok then
          row.same, row.why = true, seconds
        else
          row.times[turn], row.name = seconds, name
          if way[1] == "auto" then row.took = row.took or chosen
          elseif turn == 1 and seen[lanes] then row.same = true end
          seen[lanes] = true
        end
      end
    end
  end
  require "spcore.progress".quiet = opt.quiet
  core.log_level(level)
  return rows
end

local function print_mix(mix, rows)
  local best, auto
  for _, row in ipairs(rows) do
    if not row.same then
      row.median = median(row.times)
      if row.way[1] == "auto" then auto = row
      elseif not best or row.median < best.median then best = row end
    elseif row.why then
      print(("  %-22s failed: %s"):format(row.way[1], row.why))
    end
  end
  if not auto or not best then return end
  for _, row in ipairs(rows) do
    if not row.same then
      table.sort(row.times)
      print(("  %-22s %10.1f steps/s (%.1f .. %.1f)  %5.3f of the best"):format(row == auto and "auto" or row.name,
        1 / row.median, 1 / row.times[#row.times], 1 / row.times[1], best.median / row.median))
    end
  end
  print(("  auto took %s in %.1f s; best %s"):format(auto.name, auto.took, best.name))
  -- The strategy that it took, in the turns of its own: what differs from auto's is noise.
  local own
  for _, row in ipairs(rows) do
    if row ~= auto and not row.same and row.name == auto.name then own = row.median / best.median - 1 end
  end
  return { mix = mix.label, auto = auto.name, best = best.name, gap = auto.median / best.median - 1, own = own }
end

local list = {}
for _, name in ipairs(words_of(opt.mixes)) do
  if not mixes[name] then sp.usage("--mixes: there is no mix '%s'", name) end
  if name == "seg" or name == "cls" then
    for _, word in ipairs(words_of(opt.batches)) do
      local batch = math.tointeger(tonumber(word))
      if not batch or batch < 1 then sp.usage("--batches: '%s' is no number of images", word) end
      list[#list + 1] = { name = name, batch = batch, label = ("%s, batch %d"):format(name, batch) }
    end
  else
    list[#list + 1] = { name = name, batch = 1, label = name }
  end
end

local summary, began = {}, sp.now()
for _, mix in ipairs(list) do
  print(mix.label)
  local ok, why = pcall(function() summary[#summary + 1] = print_mix(mix, contest(mix)) end)
  if not ok then
    if type(why) ~= "string" then error(why, 0) end
    print("  left out: " .. why)
  end
  io.stdout:flush()
end
print(("\n%-18s %-22s %-22s %s"):format("mix", "auto took", "best", "slower than the best; what it took, by itself"))
for _, s in ipairs(summary) do
  local own = s.own and ("%6.1f %%"):format(100 * s.own) or ""
  print(("%-18s %-22s %-22s %6.1f %%  %s%s"):format(s.mix, s.auto, s.best, 100 * s.gap, own,
    math.min(s.gap, s.own or s.gap) > 0.03 and "  MORE THAN 3 %" or ""))
end
print(("%.0f s"):format(sp.now() - began))
