-- SPDX-License-Identifier: MIT
-- From a seed to a case: a graph, lanes, options, a loop with all that can happen in it. strategies.c runs it.
local flow = require "strategies_flow"
local graph = require "strategies_graph"
local lanes = require "strategies_lanes"
local script = require "strategies_script"
local shrink = require "strategies_shrink"

local function random(seed) -- splitmix64
  local state = seed * 0x9E3779B97F4A7C15
  local rng = {}
  function rng.below(n)
    state = state + 0x9E3779B97F4A7C15
    local z = state
    z = (z ~ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ~ (z >> 27)) * 0x94D049BB133111EB
    z = z ~ (z >> 31)
    return (z >> 33) % n
  end
  function rng.chance(p) return rng.below(1000) < p * 1000 end
  function rng.pick(list) return list[1 + rng.below(#list)] end
  return rng
end

local function options(rng)
  return {
    seed = 1 + rng.below(1000), run_ahead = rng.pick { 0, 1, 2, 2, 3 }, prefetch = 1 + rng.below(4),
    workers = 1 + rng.below(3), threads = rng.chance(0.2) and 2 or 1, checksums = rng.chance(0.2) or nil,
  }
end

local function loops(case, rng)
  local n = 8 + rng.below(13)
  case.loops = { { n = n } }
  local p = rng.below(100)
  if p < 25 then case.loops[1].break_at = rng.below(n)
  elseif p < 32 then case.loops[1].error_at = rng.below(n) end
  if p < 50 then case.loops[2] = { n = 1 + rng.below(8) } end
  if p < 50 and rng.chance(0.2) then case.loops[2].seek = rng.below(8) * case.accumulate end
end

-- Nodes whose live parameter may change in the loop.
local function live(case)
  local learns, leads, list = flow.learning(case), flow.leading(case, case.losses), {}
  local late = false -- what is not trained at first is not set then
  for _, node in ipairs(case.nodes) do late = late or node.params.unfreeze end
  for _, node in ipairs(case.nodes) do
    local may = node.optimizer or learns[node.name] and leads[node.name] and not late
    local rated = node.optimizer and case.lr -- a function's rate is not set
    if node.live and may and not rated then list[#list + 1] = node end
  end
  return list
end

local function events(case, rng)
  local nodes = #case.losses > 0 and live(case) or {}
  for _ = 1, #nodes > 0 and rng.chance(0.5) and 1 + rng.below(3) or 0 do
    local node = rng.pick(nodes)
    table.insert(case.events,
      { step = rng.below(12), node = node.name, param = node.live[1], value = node.live[2] * rng.below(8) / 8 })
  end
  for _ = 1, #case.sources > 0 and rng.chance(0.5) and 1 + rng.below(2) or 0 do
    table.insert(case.events, { step = rng.below(12), source = rng.pick(case.sources) })
  end
  for _, name in ipairs(case.sources) do
    if rng.chance(0.6) then table.insert(case.evals, { source = name, every = 2 + rng.below(6) }) end
  end
end

-- Only a device behind a border records calls.
local function variants(case, rng, device)
  local border = device ~= "cpu" and device ~= "sim"
  local list, captures = {}, { "off" }
  if border then captures[2] = rng.pick { "lane", "step", "step", "auto" } end
  for i, capture in ipairs(captures) do
    list[i] = { device = device, capture = capture, oracle = device:find "cuda" and device or "cpu" }
  end
  if device == "sim" then
    list[1].sim = rng.below(1 << 20)
    list[2] = { device = device, capture = "off", oracle = "cpu", sim = rng.below(1 << 20) }
  elseif device == "mock" then
    list[3] = { device = "simmock", capture = captures[2], oracle = "cpu", sim = rng.below(1 << 20) }
  end
  case.variants = list
end

local whole <const> = { toy_sgd = true, lamb = true, muon = true } -- they take whole gradients only

-- The shards on several ranks, where streams are threads of their own: those of sim have nobody who waits for other ranks.
local function ranked(case, rng, device)
  local shards, counts = case.opt.shards, {}
  if not shards or case.fails or case.strategy == "auto" or device ~= "cpu" then return end
  for n = 2, shards do
    local own = shards // n
    if shards % n == 0 and own & (own - 1) == 0 then counts[#counts + 1] = n end
  end
  local ranks, bucket, share = rng.pick(counts), rng.pick { 0, 8 }, rng.chance(0.5)
  for _, node in ipairs(case.nodes) do share = share and not whole[node.stage] end
  case.ranked = { { device = device, capture = "off", ranks = ranks, bucket = bucket, optimizer_shards = share } }
end

-- Toys that leave gradients of one weight or of both to the end of a step.
local function factors(case, rng)
  for _, node in ipairs(case.nodes) do
    local toy = node.stage == "fuzz_mix" and node.trains
    if toy and rng.chance(0.6) then node.params.factors = rng.pick { "1", "2", "3", "5", "7" } end
  end
end

-- make(seed, devices, images) -> case; images: those stages are there
local function make(seed, devices, images)
  local rng = random(seed)
  local case = { nodes = {}, losses = {}, accumulate = 1, sources = {}, evals = {}, events = {}, opt = options(rng) }
  local device = rng.pick(devices)
  graph.make(case, rng, device, images)
  graph.between(case, random(seed + 0xbe7ee0))
  if case.fails then case.opt.checksums = nil end
  local shards, whole = random(seed + 0x5a4d03), false
  for _, node in ipairs(case.nodes) do whole = whole or node.params and node.params.drop_last end -- perhaps there is none
  if case.accumulate == 1 and #case.losses == 1 and not whole and shards.chance(0.4) then
    case.opt.shards = 2 + shards.below(4)
    factors(case, random(seed + 0xfac702))
  end
  local parts = random(seed + 0x9a2757)
  if parts.chance(0.5) then case.opt.parts = 2 + parts.below(4) end
  lanes.make(case, rng)
  lanes.more(case, random(seed + 0x51ed27), seed)
  graph.results(case, random(seed + 0x4e5017))
  loops(case, rng)
  events(case, rng)
  variants(case, rng, device)
  ranked(case, random(seed + 0x7a11c5), device)
  case.title = ("seed %d, device %s"):format(seed, device)
  local captures = {}
  for i, v in ipairs(case.variants) do captures[i] = v.capture end
  case.device, case.captures = device, table.concat(captures, "+")
  return case
end

return { make = make, text = script.text, shrink = shrink }
