-- SPDX-License-Identifier: MIT
-- The strategies that are shipped: which lanes they make of a graph, the same bits, and `spcore strategies`.
local sp = require "spcore"
local t = require "check"

-- data -> a -> b -> c -> loss, and two branches of the same batch: p, joined to a's in b, and q, which nobody reads. d runs
-- on the processor and reads what c gives.
local function make(opt, frozen)
  opt.threads = 2
  local g = sp.graph(opt)
  local data = g.toy_source { batch = 8 }
  local a = g.toy_mul { data.x, name = "a", frozen = frozen }
  local p = g.toy_mul { data.x, name = "p", frozen = frozen }
  local b = g.add { a.y, p.y, name = "b" }
  local c = g.toy_mul { b.y, name = "c" }
  local loss = g.toy_loss { c.y, name = "loss" }
  g.toy_mul { data.x, name = "q", frozen = true }
  g.toy_probe { c.y, name = "d", on_cpu = true }
  g:train { loss, optimizer = g.toy_sgd { name = "sgd" } }
  return g, c
end

local function lanes_of(g)
  local lines = {}
  for i, lane in ipairs(g:lanes()) do
    lines[i] = ("%s %d: %s"):format(lane.name, lane.delay, table.concat(lane.stages, " "))
  end
  return table.concat(lines, "\n")
end

local function lanes(opt, frozen)
  local g <close> = make(opt, frozen)
  return lanes_of(g)
end

t.eq(lanes({ strategy = "deep" }, true), [[
ahead1 0: a p q
ahead2 1: b
train 2: c loss d sgd]])
t.eq(lanes({ strategy = "deep", depth = 3 }, true), [[
ahead1 0: a p q
ahead2 3: b
train 6: c loss d sgd]])
t.eq(lanes({ strategy = "branches" }, true), [[
branch1 0: a b c loss
branch2 0: p
branch3 0: q
branch4 0: d]])
t.eq(lanes({ strategy = "double_buffer" }, true), "all 0: a p b c loss q d sgd") -- on the cpu nothing is copied
t.eq(lanes({ strategy = "double_buffer", device = "mock" }, true), [[
up0 0: toy_source.copy
work1 1: a.forward.backward p.forward.backward b.forward.backward c.forward.backward loss.forward.backward q.forward.backward
down2 2: c.copy
work2 2: d.forward.backward]])
t.eq(lanes({ strategy = "double_buffer", device = "mock", run_ahead = 0 }, true), [[
up0 0: toy_source.copy
work1 1: a.forward.backward p.forward.backward b.forward.backward c.forward.backward loss.forward.backward ]]
  .. [[q.forward.backward d.forward.backward
down1 1: c.copy]])

do -- without training: every stage may work ahead
  local g <close> = sp.graph { strategy = "deep" }
  local data = g.toy_source { batch = 8 }
  local a = g.toy_mul { data.x, name = "a" }
  g.toy_mul { a.y, name = "b" }
  t.eq(lanes_of(g), "ahead1 0: a\nahead2 1: b")
end

-- A stage on the processor between two of the trained part: they stay at one step.
local function between(opt)
  opt.threads, opt.seed = 2, 5
  local g = sp.graph(opt)
  local data = g.toy_source { batch = 8, samples = 40 }
  local one = g.fuzz_mix { data.x, name = "one" }
  local guess = g.fuzz_mix { one.y, learn = 0, name = "guess", on_cpu = opt.device and true }
  local two = g.fuzz_mix { one.y, scale = guess.y, name = "two" }
  g:train { g.fuzz_loss { two.y, name = "loss" }, optimizer = g.toy_sgd { name = "sgd", lr = 0.05 } }
  return g
end
do
  local g <close> = between { strategy = "double_buffer", device = "mock" }
  t.eq(lanes_of(g), [[
up0 0: toy_source.copy
work1 1: one.forward.backward guess.forward.backward two.forward.backward loss.forward.backward
down1 1: one.copy
up1 1: guess.copy]])
end

-- What comes back as a result has the slots of its copy, another output of its stage those that the lanes ask for.
local function gives_back(opt)
  opt.threads, opt.seed = 2, 5
  local g = sp.graph(opt)
  local data = g.toy_source { batch = 8, samples = 40 }
  local a = g.fuzz_mix { data.x, learn = 0, name = "a" }
  local b = g.fuzz_mix { a.side, learn = 0, name = "b" }
  g:results { a.y, b.y }
  return g
end
for depth = 1, 3 do
  local g <close> = gives_back { strategy = "deep", device = "mock", depth = depth }
  t.match(g:describe(), ("buffer a%%.side: %d x "):format(depth + 1))
  t.match(g:describe(), "buffer a%.y: 1 x ")
end

-- more rows of stages, and more crossings of the border, than the delays of lanes allow
do
  local function row(opt, n)
    local g = sp.graph(opt)
    local x = g.toy_source { batch = 8 }.x
    for i = 1, n do
      x = g.fuzz_mix { x, learn = 0, name = "m" .. i, on_cpu = opt.device and i % 2 == 0 or nil }.y
    end
    g:results { x }
    return g
  end
  for _, case in ipairs { { "deep", 1, 64 }, { "deep", 5, 12 }, { "deep", 64, 1 }, { "double_buffer", 1, 64, "mock" } } do
    local name, depth, rows, device = table.unpack(case)
    local g <close> = row({ strategy = name, depth = depth, device = device }, 70)
    local largest = 0
    for _, lane in ipairs(g:lanes()) do largest = math.max(largest, lane.delay) end
    t.eq(largest, device and rows or depth * (rows - 1), name .. depth)
      t.match(g:describe(), "proved race%-free")
  end
end

-- so many buffers more of what a lane gives to another, none of what stays in it
local function slots(extra)
  local g <close> = make({}, true)
  g:strategy(function()
    return {
      { name = "one", stages = { g:find "a", g:find "p", g:find "q" }, extra = extra },
      { name = "two", stages = { g:find "b", g:find "c", g:find "loss", g:find "d" }, delay = 1 },
    }
  end)
  local words = g:describe()
  return tonumber(words:match "buffer a%.y: (%d+) x"), tonumber(words:match "buffer b%.y: (%d+) x"),
    tonumber(words:match "buffer q%.y: (%d+) x"), g:memory().activations
end
local a, b, q, bytes = slots(nil)
local a3, b3, q3, bytes3 = slots(3)
t.eq(("%d %d %d"):format(a, b, q), "2 1 1")
t.eq(("%d %d %d"):format(a3, b3, q3), "5 1 1")
t.eq(bytes3 - bytes, 2 * 3 * 8 * 4 * 4)
for _, bad in ipairs { -1, 65, 0.5, "2" } do
  t.raises("lane 'one': 'extra' must be a whole number from 0 to 64, got", slots, bad)
end

-- replicas: without training; steps side by side, each with buffers of its own
local function pool(opt)
  opt.threads, opt.seed = 2, 5
  local g = sp.graph(opt)
  local data = g.toy_source { batch = 8, samples = 60 }
  local a = g.toy_mul { data.x, name = "a", frozen = true }
  local b = g.add { a.y, data.x, name = "b" }
  g.toy_probe { b.y, name = "seen" }
  return g
end
do
  local g <close> = pool { strategy = "replicas", depth = 3 }
  t.eq(lanes_of(g), "pool 0: a b seen")
  t.eq(g:lanes()[1].replicas, 3)
  local words = g:describe()
  for i = 1, 3 do t.match(words, ("lane pool%d: delay 2"):format(i)) end
  t.match(words, "buffer a%.y: 3 x ")
  t.match(words, "WAIT    pool1            a%.forward %(1 of 3%) <%- a%.forward %(3 of 3%) of step %-1") -- one instance
  t.ok(not words:find("b%.forward %(%d of 3%) <%- b%.forward"), "a stage that is reentrant waits for itself")
end
do
  local g <close> = pool { strategy = "replicas" }
  t.eq(g:lanes()[1].replicas, 4)
end
t.eq(lanes({ strategy = "replicas", depth = 3 }, true), "all 0: a p b c loss q d sgd")
do
  local g <close> = make({}, true)
  g:strategy { { name = "x", stages = g:stages(), replicas = 2 } }
  t.raises("lane 'x': 2 replicas in a graph that is trained", g.describe, g)
  for _, bad in ipairs { 0, 65, 1.5, "2" } do
    g:strategy { { name = "x", stages = g:stages(), replicas = bad } }
    t.raises("lane 'x': 'replicas' must be a whole number from 1 to 64, got", g.describe, g)
  end
end
local function seen(opt)
  local g <close> = pool(opt)
  local lines = {}
  for step, m in g:steps(25) do lines[#lines + 1] = ("%d %s"):format(step, sp.json.encode(m.seen)) end
  local val = g:find "toy_source"
  lines[#lines + 1] = sp.json.encode(g:evaluate { data = val })
  return table.concat(lines, "\n")
end
local want = seen {}
t.match(want, "^0 .*\n24 ")
for depth = 2, 6, 2 do
  for _, how in ipairs { "cpu off", "sim off", "mock off", "mock lane", "mock step", "simmock lane", "simmock step" } do
    local device, capture = how:match "(%S+) (%S+)"
    local got = seen { strategy = "replicas", device = device, capture = capture, depth = depth }
    t.eq(got, want, ("%d replicas, %s"):format(depth, how))
  end
end
do -- a break: the steps before it are seen in order, and a second loop goes on behind it
  local g <close> = pool { strategy = "replicas", depth = 6 }
  local steps = {}
  for step in g:steps(20) do
    steps[#steps + 1] = step
    if step == 4 then break end
  end
  for step in g:steps(3) do steps[#steps + 1] = step end
  t.eq(table.concat(steps, " "), "0 1 2 3 4 7 8 9") -- run_ahead is 2, as in every strategy
end

-- the same bits
local function weights(opt, frozen)
  opt.seed, opt.run_ahead = 3, 3
  local g <close>, c = make(opt, frozen)
  local losses = {}
  for _, m in g:steps(30) do losses[#losses + 1] = m.loss end
  return table.concat(c:weight "w", " ") .. table.concat(losses, " ")
end
for _, frozen in ipairs { true, false } do
  local want = weights({}, frozen)
  for _, name in ipairs { "pipelined", "deep", "branches", "double_buffer" } do
    for _, how in ipairs { "cpu off", "sim off", "mock off", "mock lane", "mock step", "simmock step" } do
      local device, capture = how:match "(%S+) (%S+)"
      t.eq(weights({ strategy = name, device = device, capture = capture, depth = 2 }, frozen), want, name .. ", " .. how)
    end
  end
end

local function all_of(make, opt, steps)
  local g <close> = make(opt)
  local lines = {}
  for _, m in g:steps(steps) do
    for name, v in pairs(m) do
      if name ~= "time" then lines[#lines + 1] = name .. sp.json.encode(v) end
    end
  end
  table.sort(lines)
  return table.concat(lines, "\n")
end
for _, case in ipairs { between, gives_back } do
  local want = all_of(case, {}, 12)
  for _, name in ipairs { "pipelined", "deep", "branches", "double_buffer" } do
    for _, how in ipairs { "mock off 0", "mock lane 1", "mock step 6", "simmock lane 2", "simmock step 6" } do
      local device, capture, ahead = how:match "(%S+) (%S+) (%d)"
      local opt = { strategy = name, device = device, capture = capture, depth = 2, run_ahead = tonumber(ahead) }
      t.eq(all_of(case, opt, 12), want, name .. ", " .. how)
    end
  end
end

-- the command
local dir <close> = t.folder()
local code, out, err = t.spcore(dir.path, "strategies")
t.eq(code .. err, "0")
for _, name in ipairs { "auto", "branches", "deep", "double_buffer", "pipelined", "replicas", "serialized" } do
  t.match(out, "\n?" .. name .. " +%u")
end
local code, out = t.spcore(dir.path, "strategies --json")
local list = sp.json.decode(out)
t.eq(("%d %d %s"):format(code, #list, list[1].name), "0 7 auto")
t.match(list[1].doc, "^Whichever of the others .*%.$")
t.match(list[2].doc, "^Stages of one step .*%.$")
local code, out, err = t.spcore(dir.path, "strategies --jsn")
t.eq(code .. out, "2")
t.one_line(err, "there is no option %-%-jsn, did you mean %-%-json%?")
local code, out, err = t.spcore(dir.path, "strategies deep")
t.eq(code .. out, "2")

do -- replicas of which nothing is left, in numbers without common factors: too many graphs, not an overflow
  local g <close> = pool { device = "mock", capture = "auto" }
  g:strategy(function()
    local list = { { name = "all", stages = {} } }
    local primes = { 61, 59, 53, 47, 43, 41, 37, 31, 29, 23, 19, 17, 13, 11, 7 }
    for i, stage in ipairs(g:stages()) do
      table.insert(list[1].stages, { stage, "forward", "backward" })
      list[#list + 1] = { name = "copies" .. i, stages = { { stage, "copy" } }, replicas = primes[i] }
    end
    return list
  end)
  t.match(g:describe(), "proved race%-free")
end
