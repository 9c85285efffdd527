-- SPDX-License-Identifier: MIT
-- spcore timeline: traces as a picture, how far their lanes overlap, and what that gains over a serialized one beside them.
local sp = require "spcore"
local core = require "spcore.core"
local files = require "spcore.files"
local picture = require "spcore.timeline_svg"
local timeline = require "spcore.timeline"
local words = require "spcore.words"

local opt = sp.args({
  out = { "", "picture to draw, .svg or .png", default = "none: the figures alone", value = "FILE" },
  from = { 0, "first step that is drawn, from 1", default = "in the middle", min = 1, max = math.maxinteger },
  steps = { 4, "so many steps are drawn", min = 1, max = 1000 },
}, {
  rest = "TRACE...", doc = "Draws traces of runs below each other on one axis, and says how far their lanes overlap.",
  only = { "debug" },
})

if #opt.rest == 0 then sp.usage "a trace is wanted, which spcore run SCRIPT --trace FILE writes" end
local form = opt.out:match "%.(%a+)$"
if opt.out ~= "" and form ~= "svg" and form ~= "png" then sp.usage("--out %s: a file .svg or .png is wanted", opt.out) end
if form == "png" then
  local ok, why = core.knows_format(opt.out)
  if not ok then sp.fail(why) end
end

local function cut(trace)
  local count = trace.last - trace.first + 1
  local n = math.min(opt.steps, count)
  local from = opt.from > 0 and opt.from - 1 or timeline.middle(trace, n)
  if from < trace.first or from > trace.last then
    sp.fail(("--from %d: %s has the steps %d to %d"):format(from + 1, trace.path, trace.first + 1, trace.last + 1))
  end
  return timeline.cut(trace, from, n)
end

local traces, parts = {}, {}
for _, path in ipairs(opt.rest) do
  local rank = 0
  repeat
    local trace = timeline.read(path, rank)
    traces[#traces + 1] = trace
    parts[#traces] = cut(trace)
    rank = rank + 1
  until rank >= math.min(trace.ranks, 64)
end
for _, trace in ipairs(traces) do
  print(words.fold(("%s: %s on %s, steps %d to %d"):format(trace.path, trace.strategy, trace.device, trace.first + 1, trace.last + 1)))
  for _, line in ipairs(timeline.words(trace, traces)) do print(words.fold("  " .. line)) end
  if trace.hidden then print(words.fold("  " .. trace.hidden)) end
end
if form == "svg" then files.write(opt.out, picture(traces, parts)) end
if form == "png" then core.write_picture(opt.out, picture(traces, parts)) end
