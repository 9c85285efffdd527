-- SPDX-License-Identifier: MIT
-- Copies beside the work: the batch of step n + 1 goes to the device while step n computes, and what step n - 1 gave to
-- stages on the processor comes back.
local longest = require "spcore.options".lane.delay.max

-- Who reads each stage.
local function readers_of(g)
  local readers = {}
  for _, stage in ipairs(g:nodes()) do
    for _, from in ipairs(stage:producers()) do
      readers[from] = readers[from] or {}
      table.insert(readers[from], stage)
    end
  end
  return readers
end

-- Marks what can be reached from the stages that are marked. next_of: who comes next.
local function reached(marked, next_of)
  local seen = {}
  local function go(stage)
    for _, other in ipairs(next_of(stage) or {}) do
      if not seen[other] then
        seen[other] = true
        go(other)
      end
    end
  end
  for stage in pairs(marked) do go(stage) end
  return seen
end

-- What training has at one step: trained stages that lead to a loss, and what lies between two of them, on either side of
-- the border.
local function at_one_step(g, readers)
  local losses, path = {}, {}
  for _, stage in ipairs(g:stages()) do
    if stage.loss then losses[stage] = true end
  end
  local leads = reached(losses, function(stage) return stage:producers() end)
  for _, stage in ipairs(g:trained()) do
    if losses[stage] or leads[stage] then path[stage] = true end
  end
  local after = reached(path, function(stage) return readers[stage] end)
  local before = reached(path, function(stage) return stage:producers() end)
  for stage in pairs(after) do path[stage] = path[stage] or before[stage] end
  return path
end

-- The step of each stage: a crossing of the border is a step later, but between two of the path. No stage is more than
-- `room` steps behind the path. Also whether anything crosses, and what was too small for a step of each crossing.
local function steps_of(g, path, room)
  local at, together, most, crosses, short = {}, 0, longest, false, nil
  local function step_of(stage)
    if at[stage] then return at[stage] end
    local step = path[stage] and together or 0
    for _, from in ipairs(stage:producers()) do
      local crossing = from.on_cpu ~= stage.on_cpu
      crosses = crosses or crossing
      step = math.max(step, step_of(from) + (crossing and not (path[from] and path[stage]) and 1 or 0))
    end
    if step > most then short = most == longest and ("a delay of at most %d"):format(most) or "run_ahead = " .. room end
    at[stage] = math.min(step, most)
    return at[stage]
  end
  for stage in pairs(path) do together = math.max(together, step_of(stage)) end
  if next(path) then most = math.min(together + room, longest) end
  at = {}
  for _, stage in ipairs(g:nodes()) do step_of(stage) end
  return at, crosses, short
end

return function(g)
  local readers = readers_of(g)
  local at, crosses, short = steps_of(g, at_one_step(g, readers), g.run_ahead)
  if not crosses then
    g:notice("strategy 'double_buffer': nothing is copied on device '%s'; this is the same as 'serialized'", g:device())
    return { { name = "all", stages = g:stages() } }
  end
  if short then
    g:notice("strategy 'double_buffer': %s leaves no room for a step of each copy; the last ones are not beside the work", short)
  end

  local lanes, named = {}, {}
  local function add(name, delay, item, priority)
    name = ("%s%d"):format(name, delay)
    if not named[name] then
      named[name] = { name = name, delay = delay, stages = {}, priority = priority }
      lanes[#lanes + 1] = named[name]
    end
    table.insert(named[name].stages, item)
  end
  -- What goes up leaves with its stage, what comes down arrives with its first reader.
  for _, stage in ipairs(g:nodes()) do
    local first
    for _, reader in ipairs(readers[stage] or {}) do
      if reader.on_cpu ~= stage.on_cpu then first = math.min(first or at[reader], at[reader]) end
    end
    if not stage.source and not stage.optimizer then add("work", at[stage], { stage, "forward", "backward" }) end
    if first and stage.on_cpu then add("up", at[stage], { stage, "copy" }, "high")
    elseif first then add("down", first, { stage, "copy" }, "high") end
  end
  return lanes
end
