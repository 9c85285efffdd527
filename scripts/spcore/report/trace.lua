-- SPDX-License-Identifier: MIT
-- What a trace of the run adds to its report: how long each stage takes, how far lanes overlap, some steps as a picture.
local core = require "spcore.core"
local picture = require "spcore.timeline_svg"
local sys = require "spcore.sys"
local timeline = require "spcore.timeline"

local STEPS <const> = 4 -- in the picture

-- Calls of stages, milliseconds a step, the longest first: { stage =, what =, lane =, ms = }.
local function calls_of(trace)
  local list, by, steps = {}, {}, trace.last - trace.first + 1
  for _, s in ipairs(trace.slices) do
    if s.cat == "call" and s.lane ~= "host" then
      local key = s.name .. "\0" .. s.lane
      local row = by[key]
      if not row then
        row = { stage = s.stage, what = s.name, lane = s.lane, ms = 0 }
        by[key], list[#list + 1] = row, row
      end
      row.ms = row.ms + (s.to - s.from) / 1e3 / steps
    end
  end
  table.sort(list, function(a, b) return a.ms > b.ms or a.ms == b.ms and a.what < b.what end)
  return list
end

-- Of the file, or where none is named of that which the run has written; nil: there is none.
return function(run, path)
  local told = run.settings.options.trace
  if path == "" then path = type(told) == "string" and told or "" end
  if path == "" or not sys.there(path) then
    if path ~= "" and path ~= told then core.fail(path .. ": No such file or directory") end
    return
  end
  local trace = timeline.read(path)
  local n = math.min(STEPS, trace.last - trace.first + 1)
  return {
    path = path, hidden = trace.hidden, figures = timeline.figures(trace), calls = calls_of(trace),
    svg = picture({ trace }, { timeline.cut(trace, timeline.middle(trace, n), n) }),
  }
end
