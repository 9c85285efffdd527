-- SPDX-License-Identifier: MIT
-- What lanes bring where the cost of every stage is known: stages that only sleep, one behind the other in a step. Runs in
-- turns: all in one lane; each in a lane of its own, --depth steps behind the one before it (with 2 a lane that is late by some
-- microseconds keeps nobody waiting); and, for control, each in a lane of its own at the same step, where every stage has to
-- wait for the one before and only its next step could begin, if the buffer between them were free. Reached is the longest
-- stage's time as asked for over a step's; efficiency is the speed-up over the ideal one, so it leaves out what it costs to
-- begin a stage also where all are in one lane.
local sp = require "spcore"

local opt = sp.args({
  ms = { "", "milliseconds of each stage, with commas", default = "a few sets" },
  steps = { 0, "timed steps", default = "about half a second a turn", min = 0, max = 1000000 },
  turns = { 3, "how often each way is measured; the median counts", min = 1, max = 100 },
}, {
  doc = "Prints how much of the ideal overlap lanes reach with stages of a known cost.",
  without = { "by_hand", "run", "training", "strategy", "memory_limit", "trace", "workers", "prefetch", "run_ahead", "seed" },
})

local function parse(text)
  local list = {}
  for word in (text .. ","):gmatch "([^,]*)," do
    local ms = tonumber(word)
    if not ms or ms <= 0 or ms > 10000 then
      sp.usage("--ms: '%s': times between 0 and 10000, such as 2,1,1, are wanted", text)
    end
    list[#list + 1] = ms
  end
  if #list > 16 then sp.usage("--ms: '%s': 16 stages at the most", text) end
  return list
end

local sets = {}
if opt.ms ~= "" then
  sets[1] = parse(opt.ms)
else
  for _, text in ipairs { "10,10", "1,1,1", "4,2,1", "0.1,0.1,0.1" } do sets[#sets + 1] = parse(text) end
  for _, ms in ipairs { "10", "1", "0.1", "0.05", "0.01" } do sets[#sets + 1] = parse((ms .. ","):rep(8):sub(1, -2)) end
end

local ways = {
  sequential = function(stages) return { { name = "all", stages = stages } } end,
  streamed = function(stages)
    local lanes = {}
    for i, stage in ipairs(stages) do lanes[i] = { name = "lane" .. i, stages = { stage }, delay = (i - 1) * opt.depth } end
    return lanes
  end,
  dependent = function(stages)
    local lanes = {}
    for i, stage in ipairs(stages) do lanes[i] = { name = "lane" .. i, stages = { stage } } end
    return lanes
  end,
}

-- Milliseconds a step.
local function measure(ms, way, capture)
  local own = { run_ahead = 8, prefetch = 2 }
  for _, key in ipairs { "device", "threads", "pinned", "precision" } do own[key] = opt[key] end
  own.capture = capture
  local g <close> = sp.graph(own)
  local data = g.reader { path = "random", target = "class", samples = 4096, size = 8, batch = 1, shuffle = false }
  local stages, x, longest = {}, data.image, 0
  for i, one in ipairs(ms) do
    stages[i] = g.sleep { x, ms = one, name = "sleep" .. i }
    x = stages[i].y[1]
    longest = math.max(longest, one)
  end
  g:strategy(ways[way](stages), way)
  local n = opt.steps > 0 and opt.steps or math.max(30, math.min(4000, math.ceil(500 / longest)))
  -- Steps are seen late: both ends of the timed ones have as many in flight behind them.
  local around, begun, ended = 12 + #ms, nil, nil
  for step in g:steps(around + n + around) do
    if step == around - 1 then begun = sp.now() end
    if step == around + n - 1 then ended = sp.now() end
  end
  if sp.interrupted() then sp.exit(130) end -- the loop has ended early
  return (ended - begun) / n * 1e3
end

local function median(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end

local captures = { opt.capture }
do
  local g <close> = sp.graph(opt)
  print(("device %s, depth %d, median of %d turns, milliseconds a step"):format(g:device(), opt.depth, opt.turns))
  if opt.capture == "auto" then captures = g:device():find "^cuda" and { "off", "lane", "step" } or { "off" } end
end
print(("%-28s %-8s %10s %10s %9s %7s %8s %11s %10s"):format("stages", "capture", "sequential", "streamed", "speed-up", "ideal",
  "reached", "efficiency", "dependent"))
for _, ms in ipairs(sets) do
  for _, capture in ipairs(captures) do
    local times = { sequential = {}, streamed = {}, dependent = {} }
    for turn = 1, opt.turns do
      for way, list in pairs(times) do list[turn] = measure(ms, way, capture) end
    end
    local sum, longest = 0, 0
    for _, one in ipairs(ms) do sum, longest = sum + one, math.max(longest, one) end
    local one, many, held = median(times.sequential), median(times.streamed), median(times.dependent)
    local name = table.concat(ms, " ")
    if #ms == 8 then name = ("8 x %s"):format(ms[1]) end
    print(("%-28s %-8s %10.3f %10.3f %9.2f %7.2f %7.0f%% %10.0f%% %10.2f"):format(name, capture, one, many,
      one / many, sum / longest, 100 * longest / many, 100 * (one / many) / (sum / longest), one / held))
  end
end
