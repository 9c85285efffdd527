-- SPDX-License-Identifier: MIT
-- --trace: the file as Perfetto wants it, for every strategy, on devices with and without a border, eager and captured: slices
-- of a track nest, arrows lead from what is over to what begins, one for each wait between lanes; counters; which steps.
-- needs: onednn images jansson
local sp = require "spcore"
local t = require "check"

local dir <close> = t.folder()
t.write(dir.path .. "/graph.lua", [[
local sp = require "spcore"
local opt = sp.args {
  graph = { "train", "which", choices = { "train", "branches", "write" } },
  steps = { 12, "steps" },
  val = { false, "evaluates between" },
  kill = { -1, "ends the process at this step" },
}
local g <close> = sp.graph(opt)
local function source(split)
  return g.reader { path = "random", target = "class", classes = 4, samples = 24, size = 8, batch = 4, split = split,
    val_fraction = 0.25 }
end
local data, val = source "train", opt.val and source "val"
local x = g.to_float { data.image, scale = true }
local function layers(from, name, frozen)
  local list = { { "conv", 4, kernel = 3, pad = 1 }, { "relu" }, { "flatten" }, { "linear", 4 } }
  return g.layers { from, layers = list, name = name, frozen = frozen }
end
if opt.graph == "train" then
  local a = g.sleep { x, ms = 1, name = "a" }
  local loss = g.cross_entropy { layers(a.y[1], "head", false).features, data.label, name = "loss" }
  g:train { loss, optimizer = g.sgd { lr = 1e-3 } }
elseif opt.graph == "branches" then
  local left, right = layers(x, "left", true), layers(x, "right", true)
  g.add { left.features, right.features, name = "join" }
else
  g.sleep { layers(x, "head", true).features, on_cpu = true, ms = 0.2, name = "write" }
end
for step, m in g:steps(opt.steps) do
  if val and step % 5 == 4 then g:evaluate { data = val } end
  if step == opt.kill then os.execute("kill -9 $PPID") end
end
print(g:timings())
]])

-- ---- a strict look at a trace ----

local allowed = { M = true, X = true, s = true, f = true, C = true }

local function check_fields(e)
  t.ok(allowed[e.ph], "an event '" .. tostring(e.ph) .. "'")
  t.eq(e.pid, 1)
  t.eq(type(e.name), "string")
  if e.ph ~= "M" then t.ok(type(e.ts) == "number" and e.ts >= 0, "ts") end
  if e.ph == "X" then
    t.ok(type(e.dur) == "number" and e.dur >= 0, "dur")
    t.eq(math.type(e.args.step), "integer")
  end
end

-- Nanoseconds, so that sums are exact.
local function ns(us) return math.floor(us * 1000 + 0.5) end

local function check_tracks(trace)
  local names, open = {}, {}
  for _, e in ipairs(trace.events) do
    if e.ph == "M" and e.name == "thread_name" then
      t.eq(names[e.tid], nil, "one name a track")
      names[e.tid] = e.args.name
    elseif e.ph == "X" then
      t.ok(names[e.tid], "a slice on a track without a name")
      e.track, e.from, e.to = names[e.tid], ns(e.ts), ns(e.ts) + ns(e.dur)
      local stack = open[e.tid] or { last = 0 }
      open[e.tid] = stack
      t.ok(e.from >= stack.last, e.name .. " is written behind a later one")
      stack.last = e.from
      while #stack > 0 and stack[#stack].to <= e.from do table.remove(stack) end
      local around = stack[#stack]
      t.ok(not around or e.from >= around.from and e.to <= around.to, ("%s of %s crosses the end of %s"):format(e.name, e.track,
        around and around.name))
      stack[#stack + 1] = e
    end
  end
  local taken = {}
  for tid, name in pairs(names) do
    t.ok(not taken[name], "two tracks " .. name .. tid)
    taken[name] = true
  end
  trace.tracks = taken
end

-- The innermost slice of a track at a time.
local function slice_at(trace, tid, at)
  local found
  for _, e in ipairs(trace.events) do
    if e.ph == "X" and e.tid == tid and e.from <= at and (at < e.to or e.from == e.to and at == e.from) then found = e end
  end
  return found
end

local function check_arrows(trace)
  local starts, n = {}, 0
  for _, e in ipairs(trace.events) do
    if e.ph == "s" then
      t.eq(starts[e.id], nil, "an id that is there twice")
      starts[e.id] = e
    elseif e.ph == "f" then
      local s = starts[e.id]
      t.ok(s and not s.over, "an arrow without a beginning, or with two ends")
      s.over, n = true, n + 1
      local a, b = slice_at(trace, s.tid, ns(s.ts)), slice_at(trace, e.tid, ns(e.ts))
      t.ok(a and b, "an arrow beside the slices")
      t.eq(b.from, ns(e.ts), "an arrow ends where something begins")
      t.ok(a.to <= b.from, ("%s of step %d is not over when %s begins"):format(a.name, a.args.step, b.name))
      t.ok(a.args.lane ~= b.args.lane, "an arrow within a lane")
    end
  end
  for _, s in pairs(starts) do t.ok(s.over, "an arrow without an end") end
  trace.arrows = n
end

local function check_counters(trace, slots)
  slots = slots or {}
  local last, value, names = {}, {}, 0
  for _, e in ipairs(trace.events) do
    if e.ph == "C" then
      t.ok(not last[e.name] or e.ts >= last[e.name], e.name .. " goes back")
      local edge = e.name:match "^slots in use.*: (.*)$"
      local most = edge and slots[edge]
      t.eq(type(e.args.value), "number", e.name)
      t.ok(e.args.value >= 0 and (not most or e.args.value <= most),
        ("%s: %s of %s; %s"):format(e.name, e.args.value, most, slots.what))
      names = names + (last[e.name] and 0 or 1)
      last[e.name], value[e.name] = e.ts, edge and e.args.value or 0
    end
  end
  for name, v in pairs(value) do t.eq(v, 0, name .. " at the end") end
  trace.counters = names
  t.ok(last["steps/s"], "steps/s")
end

local function read(file, slots)
  local doc, why = sp.json.decode(t.read(dir.path .. "/" .. file))
  t.ok(doc, why)
  local trace = { doc = doc, head = doc.otherData, events = doc.traceEvents }
  for _, e in ipairs(trace.events) do check_fields(e) end
  check_tracks(trace)
  check_arrows(trace)
  check_counters(trace, slots)
  return trace
end

-- ---- beside the schedule and the run's own table ----

-- Calls, once each, with what belongs to them -> set of "lane stage what step"
local function check_calls(trace, slots)
  local seen = {}
  for _, e in ipairs(trace.events) do
    if e.ph == "X" and (e.cat == "call" or e.cat == "host" and e.args.lane) then
      local key = ("%d %s %s %d"):format(e.args.loop, e.args.lane, e.name, e.args.step)
      t.ok(not seen[key], key .. " is there twice")
      seen[key] = e
      t.ok(e.args.slot >= 0 and e.args.bytes >= 0 and e.args.stage, key)
      t.ok(e.args.bytes > 0 or not key:find " forward ", key)
    elseif e.ph == "X" and e.cat == "worker" then
      t.match(e.track, "^reader.* worker %d+$")
    end
  end
  if slots then
    for _, e in pairs(seen) do
      if e.name == "to_float forward" then t.eq(e.args.slot, e.args.step % slots["to_float.image"], "slot") end
    end
  end
  return seen
end

-- Each task of the schedule in each step, and an arrow for each of its waits between lanes.
local function check_schedule(trace, doc, steps, every)
  local wanted, calls, n, waits = 0, 0, 0, {}
  for _, w in ipairs(doc.waits) do
    waits[w.task] = true
    if w.lane ~= w.from_lane then wanted = wanted + steps - w.back end
  end
  for _, lane in ipairs(doc.lanes) do
    for _, name in ipairs(lane.tasks) do -- a task of the host may have nothing left to wait for
      if waits[name] or not name:find "^host.await" then calls = calls + steps end
    end
  end
  for _ in pairs(check_calls(trace, trace.slots)) do n = n + 1 end
  if every > 1 then
    t.ok(trace.arrows > 0 and n > 0)
    return
  end
  t.eq(n, calls, "calls, " .. trace.slots.what)
  t.eq(trace.arrows, wanted, "arrows, " .. trace.slots.what)
end

-- The table that the run prints says the same of each lane as the slices do.
local function check_busy(trace, text)
  local busy, first, last = {}, math.huge, 0
  for _, e in ipairs(trace.events) do
    if e.ph == "X" and e.cat == "call" then
      busy[e.args.lane] = (busy[e.args.lane] or 0) + e.dur
      first, last = math.min(first, e.ts), math.max(last, e.ts + e.dur)
    end
  end
  for lane, time in pairs(busy) do
    local percent = text:match(("\n%s +%%d+ +([%%d.]+)%%%%"):format(lane:gsub("%p", "%%%0")))
    t.ok(percent, "no line for lane " .. lane)
    t.ok(math.abs(percent - 100 * time / (last - first)) < 0.2, ("lane %s: %s"):format(lane, percent))
  end
end

local function run(options, env)
  local code, out, err = t.spcore(dir.path, "run graph.lua --threads 2 --trace t.json " .. options, env)
  t.eq(code, 0, err)
  return out, err
end

local function check(graph, strategy, how, every)
  local options = ("--graph %s --strategy %s %s"):format(graph, strategy, how)
  local doc = sp.json.decode((select(2, t.spcore(dir.path, "schedule --json graph.lua --threads 2 " .. options))))
  local slots = { what = options }
  for _, e in ipairs(doc.edges) do slots[e.name] = e.slots end
  local out, err = run(options)
  local trace = read("t.json", slots)
  trace.slots = slots
  t.eq(trace.head.strategy, doc.strategy)
  t.eq(trace.head.first_step, 0)
  t.eq(trace.head.last_step, 11)
  t.eq(trace.head.dropped, 0)
  if doc.capture == "off" or not how:find "cuda" then check_schedule(trace, doc, 12, every or 1) end
  check_busy(trace, out)
  return trace, err
end

for _, how in ipairs { "--device cpu", "--device sim", "--device mock --capture off" } do
  for _, strategy in ipairs { "serialized", "pipelined", "deep --depth 3" } do check("train", strategy, how) end
  check("branches", "branches", how)
  check("write", "double_buffer", how)
  check("write", "replicas --depth 2", how, 2)
end
do -- what auto takes is not the same each time
  local out = run("--strategy auto --auto-budget 0.2", "SPCORE_CACHE=/dev/null") -- what another run has measured counts for nothing
  local trace = read "t.json"
  t.ok(trace.head.strategy ~= "auto" and trace.head.strategy ~= "", trace.head.strategy)
  check_calls(trace)
  check_busy(trace, out)
end

-- Captured: the calls are timed where a processor replays them; each launch has a slice around its calls.
for _, how in ipairs { "--device mock --capture lane", "--device simmock --capture step" } do
  local trace = check("train", "pipelined", how)
  t.ok(trace.tracks["train: copies to the device"] and trace.tracks["train: copies from the device"], "tracks of copies")
  t.eq(trace.head.no_single_calls, nil)
  local graphs = 0
  for _, e in ipairs(trace.events) do graphs = graphs + (e.cat == "graph" and 1 or 0) end
  t.ok(graphs > 5, "slices of graphs: " .. graphs)
end

-- Of a long run the first steps behind warm-up, of evaluations between them their first; the file is there as soon as the last
-- of them is over, whatever comes of the run; one that is killed before leaves the older file as it is.
local function steps_of(trace, loop)
  local first, last = math.huge, -1
  for _, e in ipairs(trace.events) do
    if e.ph == "X" and e.args.loop == loop then first, last = math.min(first, e.args.step), math.max(last, e.args.step) end
  end
  return first, last
end

do
  local out = run "--steps 40 --strategy pipelined --val --trace-steps 7"
  local trace = read "t.json"
  check_calls(trace)
  local first, last = steps_of(trace, 1)
  t.ok(first > 4, "warm-up is left out")
  t.eq(last - first + 1, 7)
  t.eq(trace.head.first_step, first)
  t.eq(trace.head.last_step, last)
  t.match(out, ("t.json: steps %d to %d; of other steps nothing is kept"):format(first + 1, last + 1))
  local evaluations = 0
  for loop = 2, 20 do
    local from, to = steps_of(trace, loop)
    t.ok(to < 0 or from == 0 and to <= 1, "an evaluation has 2 steps")
    evaluations = evaluations + (to >= 0 and 1 or 0)
  end
  t.ok(evaluations >= 2, "evaluations up to the last step that is kept")
  local workers = {} -- which of them have something to do is up to the system
  for name in pairs(trace.tracks) do workers[name:match "^(.*) worker %d$" or ""] = true end
  t.ok(workers.reader and workers.reader_2, "workers of both readers")
  run "--steps 9 --trace-steps 7" -- no more steps than there are
  t.eq(steps_of(read "t.json", 1), 2)
end

for kill, kept in pairs { [4] = false, [300] = true } do
  t.write(dir.path .. "/t.json", "older")
  local code = t.spcore(dir.path, ("run graph.lua --steps 400 --trace t.json --trace-steps 7 --kill %d"):format(kill))
  t.eq(code, 137)
  if kept then read "t.json" else t.eq(t.read(dir.path .. "/t.json"), "older") end
end
local list = io.popen(("ls '%s'"):format(dir.path)):read "a"
t.eq(list, "graph.lua\nt.json\n", "what is left")

local code, _, err = t.spcore(dir.path, "run graph.lua --trace t.json --trace-steps 0")
t.eq(code, 2)
t.one_line(err, "trace%-steps")
