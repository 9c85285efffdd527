-- SPDX-License-Identifier: MIT
-- Fractions from the counts of the stage `accuracy`.
local core = require "spcore.core"

-- metrics: of a step or an evaluation; stage: the stage's name, where several stages have metrics of these names.
-- Returns top-1 and top-k accuracy; nan where no label counted.
return function(metrics, stage)
  local prefix = stage and stage .. "." or ""
  local function count(name)
    local v = type(metrics) == "table" and rawget(metrics, prefix .. name)
    if type(v) ~= "number" then
      core.fail(("accuracy: metrics with '%s%s' are wanted, as stage 'accuracy' gives"):format(prefix, name))
    end
    return v
  end
  local counted = count "counted"
  return count "top1" / counted, count "topk" / counted
end
