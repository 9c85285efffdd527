-- SPDX-License-Identifier: MIT
-- The frozen stages in a row of lanes, each --depth steps ahead of the next, the training behind the last of them; without
-- training the last stages themselves. A lane's delay has a limit: where there are more rows, the last ones share a lane.
local longest = require "spcore.options".lane.delay.max

return function(g)
  local level, lanes, most, rows = {}, {}, 0, math.max(longest // math.max(g.depth, 1), 1)
  local function level_of(stage)
    if level[stage] then return level[stage] end
    level[stage] = 0
    for _, from in ipairs(stage:producers()) do
      if not from.source then level[stage] = math.max(level[stage], level_of(from) + 1) end
    end
    return level[stage]
  end
  local shared = 0
  for _, stage in ipairs(g:frozen()) do
    local at = math.min(level_of(stage), rows - 1)
    if at < level[stage] then shared = shared + 1 end
    most = math.max(most, at + 1)
    lanes[at] = lanes[at] or { name = ("ahead%d"):format(at + 1), stages = {}, delay = at * g.depth }
    table.insert(lanes[at].stages, stage)
  end
  if shared > 0 then
    g:notice("strategy 'deep': a delay is at most %d, so with depth %d the last of %d lanes has %d stages more", longest, g.depth,
      most, shared)
  end
  local list = table.move(lanes, 0, most - 1, 1, {})
  list[#list + 1] = { name = "train", stages = g:trained(), delay = most * g.depth, priority = "high" }
  if #list == 1 or most < 2 and #g:trained() == 0 then
    g:notice("strategy 'deep': no stage can work ahead of another one; this is the same as 'serialized'")
  end
  return list
end
