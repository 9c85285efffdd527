-- SPDX-License-Identifier: MIT
-- A trace as lanes with what they did: read(path) checks that it is one of ours, figures(trace) says how far its lanes ran beside
-- each other, cut(trace, from, n) takes some steps out for a picture.
local core = require "spcore.core"
local json = require "spcore.json"

local timeline = {}

-- ---- reading ----

local function bad(path, fmt, ...) core.fail(("%s: " .. fmt):format(path, ...)) end

local function number(v, least) return type(v) == "number" and v == v and v >= least and v < 1e15 end

-- What a slice must have to be drawn; nil: it is in order.
local function mistake(e)
  if not number(e.ts, 0) or not number(e.dur, 0) then return "'ts' and 'dur' are wanted, microseconds" end
  if math.type(e.tid) ~= "integer" then return "a track 'tid' is wanted" end
  local a = e.args
  if type(a) ~= "table" or math.type(a.step) ~= "integer" or math.type(a.loop) ~= "integer" then
    return "'args' with 'step' and 'loop' are wanted"
  end
  if e.cat == "call" and (type(a.stage) ~= "string" or type(a.lane) ~= "string") then
    return "'args' with 'stage' and 'lane' are wanted"
  end
end

local function load(path)
  local file, why = io.open(path, "rb")
  if not file then core.fail(why) end
  local text, doc
  text, why = file:read "a"
  file:close()
  if not text then bad(path, "%s", why) end
  doc, why = json.decode(text)
  if not doc then bad(path, "this is no trace: %s", why) end
  local head = type(doc) == "table" and doc.otherData
  if type(head) ~= "table" or head.writer ~= "spcore" or type(doc.traceEvents) ~= "table" then
    bad(path, "this is no trace of spcore, which spcore run SCRIPT --trace FILE writes")
  end
  if head.version ~= 1 then bad(path, "a trace of version %s; this program reads version 1", tostring(head.version)) end
  return doc, head
end

-- Whether a call of an evaluation began within the slice; pauses are sorted.
local function pauses_in(pauses, s)
  local lo, hi = 1, #pauses + 1
  while lo < hi do
    local mid = (lo + hi) // 2
    if pauses[mid] < s.from then lo = mid + 1 else hi = mid end
  end
  return pauses[lo] ~= nil and pauses[lo] <= s.to
end

local drawn = { call = true, graph = true, host = true }

-- { path =, strategy =, device =, lanes = { names in order }, slices = by begin, arrows =, first =, last = steps }: of the
-- training alone, or of what the first loop is. pauses: when calls of evaluations began.
-- Of several ranks: that of number `rank`, 0 without; ranks: how many.
function timeline.read(path, rank)
  local doc, head = load(path)
  local ranks = math.type(head.ranks) == "integer" and head.ranks or 1
  local of_rank = ranks > 1 and (", rank %d"):format(rank or 0) or ""
  local trace = { path = path .. of_rank, file = path, rank = rank or 0, of_rank = of_rank, ranks = ranks,
    strategy = tostring(head.strategy), device = tostring(head.device),
    capture = tostring(head.capture), hidden = head.no_single_calls, lanes = {}, slices = {}, arrows = {}, pauses = {},
    first = math.huge, last = -math.huge }
  local tracks, lane_of, used, starts, loop = {}, {}, {}, {}, head.loop
  for i, e in ipairs(doc.traceEvents) do
    if type(e) ~= "table" or type(e.name) ~= "string" then bad(path, "event %d: an object with a 'name' is wanted", i) end
    if ranks > 1 and e.pid ~= (rank or 0) + 1 then goto other end
    if e.ph == "M" and e.name == "thread_name" then
      local name = type(e.args) == "table" and e.args.name
      if type(name) ~= "string" then bad(path, "event %d: a track without a name", i) end
      tracks[#tracks + 1] = name
    elseif e.ph == "X" then
      local why = mistake(e)
      if why then bad(path, "event %d, '%s': %s", i, e.name, why) end
      loop = loop or (e.cat == "call" and e.args.loop) or nil
      local s = { name = e.name, cat = e.cat, from = e.ts, to = e.ts + e.dur, step = e.args.step, loop = e.args.loop,
        stage = e.args.stage, lane = e.args.lane or "host" }
      if e.cat ~= "worker" then lane_of[e.tid] = s.lane end
      if drawn[e.cat] then trace.slices[#trace.slices + 1] = s end
    elseif e.ph == "s" or e.ph == "f" then
      if not number(e.ts, 0) or math.type(e.tid) ~= "integer" or e.id == nil then
        bad(path, "event %d: an arrow without an end", i)
      end
      local s = starts[e.id]
      if e.ph == "s" then starts[e.id] = e
      elseif s then table.insert(trace.arrows, { from = s.ts, to = e.ts, from_track = s.tid, to_track = e.tid }) end
    end
    ::other::
  end
  local kept = {}
  for _, s in ipairs(trace.slices) do
    if s.loop == loop then
      kept[#kept + 1], used[s.lane] = s, true
      if s.cat == "call" then trace.first, trace.last = math.min(trace.first, s.step), math.max(trace.last, s.step) end
    elseif s.cat ~= "host" then
      table.insert(trace.pauses, s.from)
    end
  end
  trace.slices, trace.loop = kept, loop
  if not loop or trace.last < trace.first then bad(path, "there is no call of a stage in it") end
  table.sort(kept, function(a, b)
    if a.from ~= b.from then return a.from < b.from end
    return a.to > b.to
  end)
  table.sort(trace.pauses)
  for _, s in ipairs(kept) do
    if s.cat == "host" and s.name == "script" and pauses_in(trace.pauses, s) then s.name = "evaluation" end
  end
  for _, a in ipairs(trace.arrows) do a.from_lane, a.to_lane = lane_of[a.from_track], lane_of[a.to_track] end
  for _, name in ipairs(tracks) do
    if used[name] and name ~= "host" then trace.lanes[#trace.lanes + 1] = name end
  end
  if used.host then trace.lanes[#trace.lanes + 1] = "host" end
  return trace
end

-- ---- figures ----

-- When each step was over, all of its lanes.
local function ends_of(trace)
  local ends = {}
  for _, s in ipairs(trace.slices) do
    if s.cat ~= "host" and s.lane ~= "host" then ends[s.step] = math.max(ends[s.step] or 0, s.to) end
  end
  return ends
end

-- Steps behind whose predecessor no evaluation came: a set, and how many.
local function steady(trace, ends)
  local steps, n, k = {}, 0, 1
  for step = trace.first + 1, trace.last do
    local from, to = ends[step - 1], ends[step]
    while from and trace.pauses[k] and trace.pauses[k] < from do k = k + 1 end
    if from and to and not (trace.pauses[k] and trace.pauses[k] < to) then steps[step], n = true, n + 1 end
  end
  return steps, n
end

-- Of steps behind the first, and not behind an evaluation: { steps =, step =, sum =, longest =, longest_lane =, overlap =,
-- busy = by lane }, milliseconds a step. `step` is from the end of one step to that of the next; `sum` is what the calls of all
-- lanes took, a reader's too, as they were beside each other. No step is shorter than its longest lane; overlap is how much of
-- the other lanes' time cost the step none, from 0 to 1; nil: there is only one lane to speak of. It says nothing of speed: calls
-- beside each other take longer than alone.
function timeline.figures(trace)
  local ends, busy = ends_of(trace), {}
  local steps, n = steady(trace, ends)
  local f = { steps = n, busy = busy, sum = 0, longest = 0 }
  if n < 1 then return f end
  f.step = 0
  for step in pairs(steps) do f.step = f.step + (ends[step] - ends[step - 1]) / 1e3 / n end
  for _, s in ipairs(trace.slices) do
    local work = s.cat == "call" or s.cat == "graph" and trace.hidden
    if work and steps[s.step] and s.lane ~= "host" then
      busy[s.lane] = (busy[s.lane] or 0) + (s.to - s.from) / 1e3 / n
    end
  end
  for lane, ms in pairs(busy) do
    f.sum = f.sum + ms
    if ms > f.longest then f.longest, f.longest_lane = ms, lane end
  end
  if f.sum - f.longest > 0.02 * f.sum then
    f.overlap = math.max(0, math.min(1, (f.sum - f.step) / (f.sum - f.longest)))
  end
  return f
end

local function ms(v)
  if v < 1 then return ("%.0f us"):format(v * 1e3) end
  return (v >= 100 and "%.0f ms" or "%.3g ms"):format(v)
end
timeline.ms = ms

-- What a step of the trace that is given beside it took: the gain. Ranks of one job wait for each other in each step.
local function gain(trace, f, serialized)
  local other = serialized and serialized.file ~= trace.file and timeline.figures(serialized).step
  if not other or serialized.device ~= trace.device then return end
  return ("a step of %s, serialized, took %s: this is %.2f times as fast"):format(serialized.path, ms(other), other / f.step)
end

-- The first trace of strategy serialized among these, of several ranks that of the same one as `trace`; nil: there is none.
local function serialized_of(traces, trace)
  local first
  for _, other in ipairs(traces) do
    if other.strategy == "serialized" then
      first = first or other
      if other.file == first.file and other.rank == trace.rank then return other end
    end
  end
  return first
end

-- The same in words, a line each; traces: those that this one is beside, among which may be one of strategy serialized.
function timeline.words(trace, traces)
  local f = timeline.figures(trace)
  if not f.step then return { "one step alone says nothing of overlap" } end
  local lines = { ("%s a step, mean of %d"):format(ms(f.step), f.steps) }
  if trace.hidden and trace.capture == "step" then
    lines[1] = lines[1] .. "; the device's lanes are in one graph, so how far they overlap is not known"
  elseif not f.overlap then
    lines[1] = ("%s; all work is in lane %s, so nothing can overlap"):format(lines[1], f.longest_lane or "host")
  else
    local others = f.sum - f.longest
    lines[2] = ("the lanes' work of a step adds up to %s; the longest lane, %s, has %s, which a step takes at best"):format(
      ms(f.sum), f.longest_lane, ms(f.longest))
    lines[3] = ("%.0f %% of the other lanes' %s ran in parallel with it; since lanes slow each other down, the real gain is smaller")
      :format(100 * f.overlap, ms(others))
  end
  lines[#lines + 1] = gain(trace, f, serialized_of(traces, trace))
  return lines
end

-- ---- some steps ----

-- Where to begin with n steps: in the middle, but rather where no evaluation is among them.
function timeline.middle(trace, n)
  local steps = steady(trace, ends_of(trace))
  local at, best, most = trace.first + (trace.last - trace.first + 1 - n) // 2, nil, -1
  for from = trace.first, trace.last - n + 1 do
    local good = 0
    for step = from + 1, from + n - 1 do good = good + (steps[step] and 1 or 0) end
    if good > most or good == most and math.abs(from - at) < math.abs(best - at) then best, most = from, good end
  end
  return best or at
end

-- When the work on a step began, in the lane that is over last: what is ahead, a reader above all, began long before.
local function begin_of(trace, step)
  local begin, over = {}, nil
  for _, s in ipairs(trace.slices) do
    if s.cat ~= "host" and s.lane ~= "host" and s.step == step then
      begin[s.lane] = math.min(begin[s.lane] or s.from, s.from)
      if not over or s.to >= over.to then over = s end
    end
  end
  return over and begin[over.lane]
end

-- The slices and arrows while steps from .. from + n - 1 are worked on: from the end of the one before, where it is in the
-- trace, to the end of the last. Times are microseconds from there on.
function timeline.cut(trace, from, n)
  local to, ends = math.min(from + n - 1, trace.last), ends_of(trace)
  local zero, stop = ends[from - 1] or begin_of(trace, from), ends[to]
  if not zero or not stop or stop <= zero then
    core.fail(("%s: nothing ran in the steps %d to %d"):format(trace.path, from + 1, to + 1))
  end
  local part = { from = from, to = to, length = stop - zero, slices = {}, arrows = {} }
  for _, s in ipairs(trace.slices) do
    if s.to > zero and s.from < stop then
      local copy = {}
      for k, v in pairs(s) do copy[k] = v end
      copy.from, copy.to = math.max(0, s.from - zero), math.min(stop - zero, s.to - zero)
      part.slices[#part.slices + 1] = copy
    end
  end
  for _, a in ipairs(trace.arrows) do
    if a.from >= zero and a.to <= stop then
      table.insert(part.arrows, { from = a.from - zero, to = a.to - zero, from_lane = a.from_lane, to_lane = a.to_lane })
    end
  end
  return part
end

return timeline
