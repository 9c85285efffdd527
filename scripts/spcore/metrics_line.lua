-- SPDX-License-Identifier: MIT
-- A line of metrics.jsonl: an object whose last member, `sum`, is a checksum of the line without it, so that none of its digits
-- changes unnoticed. Lines that an older spcore has written have none.
local core = require "spcore.core"
local json = require "spcore.json"

local metrics_line = {}

function metrics_line.encode(t)
  local text = json.encode(t)
  return ('%s%s"sum":"%s"}\n'):format(text:sub(1, -2), next(t) == nil and "" or ",", core.checksum(text))
end

-- What is wrong with the text, or nil; whether it has a checksum.
function metrics_line.damage(text)
  local body, sum = text:match '^({.*),"sum":"(%x+)"}%s*$'
  if not body then return nil, false end
  local is = core.checksum(body .. "}")
  return is ~= sum and ("its checksum is %s, and it says %s"):format(is, sum) or nil, true
end

return metrics_line
