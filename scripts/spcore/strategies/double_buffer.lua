-- SPDX-License-Identifier: MIT
-- Copies beside the work: the batch of step n + 1 goes to the device while step n computes, and what step n - 1 gave to
-- stages on the processor comes back.
return function(g)
  -- What leads to a loss and is trained is at one step.
  local path, together, crosses = {}, 0, false
  local function mark(stage)
    if path[stage] ~= nil then return end
    path[stage] = false
    for _, from in ipairs(stage:producers()) do mark(from) end
  end
  for _, stage in ipairs(g:stages()) do
    if stage.loss then mark(stage) end
  end
  for _, stage in ipairs(g:trained()) do path[stage] = path[stage] ~= nil end

  -- Each crossing is a step.
  local at
  local function level(stage)
    if at[stage] then return at[stage] end
    at[stage] = path[stage] and together or 0
    for _, from in ipairs(stage:producers()) do
      local crossing = from.on_cpu ~= stage.on_cpu
      crosses = crosses or crossing
      at[stage] = math.max(at[stage], level(from) + (crossing and 1 or 0))
    end
    return at[stage]
  end
  for _ = 1, 2 do
    at = {}
    for _, stage in ipairs(g:nodes()) do
      if path[stage] then together = math.max(together, level(stage)) end
    end
  end
  at = {}

  local lanes, named = {}, {}
  local function add(name, delay, item, priority)
    name = ("%s%d"):format(name, delay)
    if not named[name] then
      named[name] = { name = name, delay = delay, stages = {}, priority = priority }
      lanes[#lanes + 1] = named[name]
    end
    table.insert(named[name].stages, item)
  end
  for _, stage in ipairs(g:nodes()) do
    local delay = level(stage)
    if not stage.source and not stage.optimizer then add("work", delay, { stage, "forward", "backward" }) end
    if stage.on_cpu then add("up", delay, { stage, "copy" }, "high")
    elseif not stage.optimizer then add("down", delay + 1, { stage, "copy" }, "high") end
  end
  if not crosses then
    g:notice("strategy 'double_buffer': nothing is copied on device '%s'; this is the same as 'serialized'", g:device())
    return { { name = "all", stages = g:stages() } }
  end
  return lanes
end
