-- SPDX-License-Identifier: MIT
-- Random lanes for a random graph, most of them such as the scheduler accepts.
local flow = require "strategies_flow"

local lanes = {}

-- Marks the nodes of the trained part, which has one delay (gradients come by, or what is both behind and before such),
-- and all that are behind it.
local function mark(case, by)
  local learns, leads = flow.learning(case), flow.leading(case, case.losses)
  local path, after, before = {}, {}, {}
  for name in pairs(leads) do path[name] = learns[name] end
  for _, node in ipairs(case.nodes) do
    for _, p in ipairs(flow.producers(node)) do after[node.name] = after[node.name] or path[p.name] or after[p.name] end
  end
  for i = #case.nodes, 1, -1 do
    local node = case.nodes[i]
    if path[node.name] or before[node.name] then
      for _, p in ipairs(flow.producers(node)) do before[p.name] = true end
    end
  end
  for name in pairs(by) do path[name] = path[name] or after[name] and before[name] end
  return path, after
end

-- A delay for each node: no consumer ahead of its producer, all of the trained part at one.
local function delays(case, rng)
  local by, delay, train, wide = flow.by_name(case), {}, 0, rng.chance(0.15) and 4 or 1
  local path, after = mark(case, by)
  local function least(node)
    local d = 0
    for _, p in ipairs(flow.producers(node)) do d = math.max(d, delay[p.name] or 0) end
    return d
  end
  for _, node in ipairs(case.nodes) do
    if not node.source and not node.optimizer and not path[node.name] and not after[node.name] then
      delay[node.name] = least(node) + (rng.chance(0.35) and 1 + rng.below(wide) or 0)
    end
  end
  for _, node in ipairs(case.nodes) do
    if path[node.name] then train = math.max(train, least(node)) end
  end
  if rng.chance(0.5) then train = train + rng.below(2) + rng.below(wide) end
  for _, node in ipairs(case.nodes) do
    if path[node.name] then delay[node.name] = train end
  end
  local room = #case.losses > 0 and case.opt.run_ahead or 4
  for _, node in ipairs(case.nodes) do
    if not node.source and not delay[node.name] and not node.optimizer then
      local d = math.max(least(node), train)
      delay[node.name] = math.max(d, math.min(train + room, d + (rng.chance(0.4) and rng.below(room + 1) or 0)))
    end
  end
  return delay, train
end

-- A reader can stand in a lane, not behind those who read from it.
local function reader_delay(case, delay, rng)
  local most = 64
  for _, node in ipairs(case.nodes) do
    for _, p in ipairs(flow.producers(node)) do
      if p.name == "data" and delay[node.name] then most = math.min(most, delay[node.name]) end
    end
  end
  return rng.chance(0.6) and most or rng.below(most + 1)
end

local function group(delay, rng)
  local groups, list, names = {}, {}, {}
  for name in pairs(delay) do names[#names + 1] = name end
  table.sort(names)
  local split = 1 + rng.below(3)
  for _, name in ipairs(names) do
    local key = delay[name] .. "_" .. rng.below(split)
    if not groups[key] then
      local priority = rng.pick { "high", "normal", "low" }
      groups[key] = { name = "lane" .. key, delay = delay[name], stages = {}, priority = priority }
      list[#list + 1] = groups[key]
    end
    table.insert(groups[key].stages, name)
  end
  return list
end

function lanes.make(case, rng)
  if rng.chance(0.08) then
    case.strategy, case.opt.depth = rng.pick { "pipelined", "pipelined", "serialized" }, 1 + rng.below(3)
    return
  end
  local delay, train = delays(case, rng)
  if rng.chance(0.3) then delay.data = reader_delay(case, delay, rng) end
  if #case.losses > 0 and rng.chance(0.5) then delay.opt = train end
  if rng.chance(0.05) then -- most of these are refused
    case.wild = true
    local name = rng.pick(case.nodes).name
    if delay[name] then delay[name] = rng.below(delay[name] + 2) end
  end
  case.lanes = group(delay, rng)
  if delay.opt and rng.chance(0.4) then -- a lane of its own
    for _, lane in ipairs(case.lanes) do
      for i = #lane.stages, 1, -1 do if lane.stages[i] == "opt" then table.remove(lane.stages, i) end end
    end
    table.insert(case.lanes, { name = "update", delay = delay.opt, stages = { "opt" }, priority = "normal" })
  end
  for i = #case.lanes, 2, -1 do
    local k = 1 + rng.below(i)
    case.lanes[i], case.lanes[k] = case.lanes[k], case.lanes[i]
  end
end

-- Some backwards and copies in other lanes: { node =, part =, lane = }.
local function parts(case, rng)
  local list, at = {}, {}
  for _, lane in ipairs(case.lanes) do
    for _, name in ipairs(lane.stages) do at[name] = lane end
  end
  for _, node in ipairs(case.nodes) do
    local own, part = at[node.name], rng.pick { "backward", "copy" }
    if not node.optimizer and (own or node.source) and rng.chance(0.3) then
      local fit = {}
      for _, lane in ipairs(case.lanes) do
        local behind = lane.delay - (own and own.delay or 0)
        if lane ~= own and (behind == 0 or part == "copy" and behind > 0) then fit[#fit + 1] = lane.name end
      end
      if #fit > 0 and not (node.source and part == "backward") then
        list[#list + 1] = { node = node.name, part = part, lane = rng.pick(fit) }
        case.wild = case.wild or part == "copy" -- who reads it may be ahead of that lane
      end
    end
  end
  return #list > 0 and list or nil
end

-- What came later, for two seeds of four, so that the others' cases stay what they were: a shipped strategy in the place of
-- the lanes, or lanes with more buffers than they need, replicas, and parts of
-- stages.
function lanes.more(case, rng, seed)
  local learns = #case.losses > 0
  if seed % 4 == 2 then
    local names = { "pipelined", "deep", "deep", "branches", "branches", "double_buffer" }
    if not learns then names = { "deep", "branches", "double_buffer", "replicas", "replicas" } end
    case.strategy, case.lanes, case.opt.depth = rng.pick(names), nil, 1 + rng.below(5)
    if seed % 64 == 2 then -- it takes longer than all others
      case.strategy, case.opt.auto_budget, case.opt.auto_again = "auto", 0.1, true
    end
  elseif seed % 4 == 1 then
    for _, lane in ipairs(case.lanes or {}) do
      lane.extra = rng.chance(0.4) and 1 + rng.below(3) or nil
      lane.replicas = not learns and rng.chance(0.5) and 2 + rng.below(4) or nil
    end
    if case.lanes then case.parts = parts(case, rng) end
  end
end

return lanes
