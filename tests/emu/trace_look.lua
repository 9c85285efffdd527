-- SPDX-License-Identifier: MIT
-- trace_look.lua EAGER.json CAPTURED.json WORDS - for trace.sh: the same calls in both, which nest in their graphs; parts of calls
-- that fill them; WORDS of spcore timeline about the second, which are of the calls.
local sp = require "spcore"
local opt = sp.args({}, { rest = "EAGER CAPTURED WORDS" })
local json = require "spcore.json"

local function ns(us) return math.floor(us * 1000 + 0.5) end

local function key_of(trace, name, e) return ("%s of step %d of the trace"):format(name, e.args.step - trace.first) end

local function read(path)
  local file = assert(io.open(path))
  local doc = json.decode(file:read "a")
  local trace = { slices = {}, calls = {}, first = doc.otherData.first_step }
  file:close()
  for _, e in ipairs(doc.traceEvents) do
    if e.ph == "X" then
      e.from, e.to = ns(e.ts), ns(e.ts) + ns(e.dur)
      table.insert(trace.slices, e)
      if e.cat == "call" then
        local key = key_of(trace, e.name, e)
        assert(not trace.calls[key], key .. " is there twice")
        trace.calls[key] = e
      end
    end
  end
  return trace
end

-- Each slice gets its parent: what it lies within on its track.
local function nest(trace)
  local open = {}
  for _, e in ipairs(trace.slices) do
    local stack = open[e.tid] or {}
    open[e.tid] = stack
    while #stack > 0 and stack[#stack].to <= e.from and e.to > stack[#stack].to do table.remove(stack) end
    local around = stack[#stack]
    assert(not around or e.from >= around.from and e.to <= around.to, ("%s crosses the end of %s"):format(e.name, around and
      around.name))
    e.parent = around
    stack[#stack + 1] = e
  end
end

local eager, captured = read(opt.rest[1]), read(opt.rest[2])
nest(captured)
for key in pairs(eager.calls) do assert(captured.calls[key], key .. " is missing where it was recorded") end
for key in pairs(captured.calls) do assert(eager.calls[key], key .. " is there only where it was recorded") end

local kernels, within, busy, graphs = 0, {}, 0, 0
for _, e in ipairs(captured.slices) do
  graphs = graphs + (e.cat == "graph" and 1 or 0)
  if e.cat == "kernel" then
    kernels = kernels + 1
    assert(e.name == "kernel" or e.name == "fill" or e.name:find "^copy", "a name: " .. e.name)
    local call = captured.calls[key_of(captured, e.parent.name, e)]
    assert(call == e.parent, ("%s of step %d lies within %s"):format(e.name, e.args.step, e.parent.name))
    assert(call.args.stage == e.args.stage, "another stage's")
    local sum = within[call] or { from = e.from, to = e.to, time = 0 }
    within[call] = sum
    sum.to, sum.time = math.max(sum.to, e.to), sum.time + e.to - e.from
  end
end
assert(graphs >= 5 and kernels >= 25, ("%d graphs, %d kernels"):format(graphs, kernels))
local of_graph = {}
for call, sum in pairs(within) do
  assert(sum.from == call.from and sum.to == call.to, call.name .. " is not from its first part to its last")
  assert(sum.time <= call.to - call.from, call.name .. " is shorter than its parts")
  local g = call.parent
  if g then
    assert(g.cat == "graph", call.name .. " lies within " .. g.name)
    of_graph[g] = (of_graph[g] or 0) + call.to - call.from
  end
end
for g, time in pairs(of_graph) do assert(time <= g.to - g.from, g.name .. " is shorter than its calls") end

-- The words are of the steps behind the first: the time of all calls of a step, one after another.
local first = math.huge
for _, e in pairs(captured.calls) do
  if e.args.lane ~= "host" then first = math.min(first, e.args.step) end
end
for _, e in pairs(captured.calls) do
  if e.args.step > first then busy = busy + (e.to - e.from) / 1e6 / 4 end
end
local told, unit = opt.rest[3]:match "adds up to ([%d.]+) (%a+);"
if told then
  told = tonumber(told) / (unit == "us" and 1000 or 1)
  assert(math.abs(told - busy) < 0.02 * busy, ("%s ms are told, the calls take %s"):format(told, busy))
else
  assert(opt.rest[3]:find "nothing can overlap", opt.rest[3])
end
