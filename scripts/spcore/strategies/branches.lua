-- SPDX-License-Identifier: MIT
-- Stages of one step that do not need each other side by side: a stage goes on in the lane of one that it reads, if nothing
-- else has gone on there, and else begins a lane.
return function(g)
  local lanes, lane_of, last, seen = {}, {}, {}, {}
  local function place(stage)
    if seen[stage] or stage.source then return end
    seen[stage] = true
    for _, from in ipairs(stage:producers()) do place(from) end
    if stage.optimizer then return end
    local lane
    for _, from in ipairs(stage:producers()) do
      if not lane and lane_of[from] and last[lane_of[from]] == from then lane = lane_of[from] end
    end
    if not lane then
      lane = { name = ("branch%d"):format(#lanes + 1), stages = {} }
      lanes[#lanes + 1] = lane
    end
    table.insert(lane.stages, stage)
    lane_of[stage], last[lane] = lane, stage
  end
  for _, stage in ipairs(g:stages()) do place(stage) end
  if #lanes == 1 then
    g:notice("strategy 'branches': each stage needs the one before it; this is the same as 'serialized'")
  end
  return lanes
end
