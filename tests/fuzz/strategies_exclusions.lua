-- SPDX-License-Identifier: MIT
-- What random cases leave out because it is known to fail today: an entry changes a case so that it does not meet the
-- defect, or says by which words the failure is known, which then counts as refused. `strategies --all` ignores the
-- table; with the defect cured its entry is deleted.
local flow = require "strategies_flow"

local exclusions = {}

local metric = { digest = true, rows = true, loss = true, valid = true, counts = true, top1 = true }

local function any(list, test)
  for _, v in ipairs(list or {}) do
    if test(v) then return true end
  end
  return false
end

local function without_step(case)
  for _, v in ipairs(case.variants) do
    if v.capture == "step" then v.capture = "lane" end
  end
end

exclusions.table = {
  {
    why = "capture step with a listed reader gives other weights",
    apply = function(case)
      local function lists_reader(lane) return any(lane.stages, function(name) return name == "data" end) end
      if any(case.lanes, lists_reader) then without_step(case) end
    end,
  },
  {
    why = "capture step: a break or an error in the body makes one more update, or garbage in the next loop",
    apply = function(case)
      if any(case.loops, function(loop) return loop.break_at or loop.error_at end) then without_step(case) end
    end,
  },
  {
    why = "a live parameter of a loss that is not trained takes effect at another step in a lane that runs behind",
    apply = function(case)
      for i = #case.events, 1, -1 do
        local name = case.events[i].node
        local watched = name and name:find "loss" and not any(case.losses, function(loss) return loss == name end)
        if watched then table.remove(case.events, i) end
      end
    end,
  },
  {
    why = "a metric of a stage on the cpu that is wired to a stage on the device brings another step's data",
    apply = function(case)
      for _, node in ipairs(case.nodes) do
        for _, p in ipairs(flow.producers(node)) do
          if metric[p.port] then flow.by_name(case)[p.name].params.on_cpu = nil end
        end
      end
    end,
  },
  {
    why = "capture ends where it would take more than 256 graphs, instead of single calls",
    kind = "refusal",
    words = "capture: more than 256 graphs",
  },
}

function exclusions.apply(case)
  for _, e in ipairs(exclusions.table) do
    if e.apply then e.apply(case) end
  end
end

-- Whether a failure of that kind and words is one of those.
function exclusions.forgives(kind, words)
  return any(exclusions.table, function(e) return e.kind == kind and words:find(e.words) ~= nil end)
end

return exclusions
