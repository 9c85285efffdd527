-- SPDX-License-Identifier: MIT
-- Strategies: by name, file, function and table; what is refused, and why; same weights every way.
local sp = require "spcore"
local t = require "check"

local function make(opt, frozen)
  local g = sp.graph(opt)
  local data = g.toy_source { batch = 8 }
  local a = g.toy_mul { data.x, name = "a", frozen = frozen }
  local b = g.toy_mul { a.y, name = "b" }
  local loss = g.toy_loss { b.y, name = "loss" }
  g:train { loss, optimizer = g.toy_sgd { name = "sgd" } }
  return g, a, b, loss
end

local function names(list)
  local n = {}
  for i, node in ipairs(list) do n[i] = node.name end
  return table.concat(n, " ")
end

do
  local g <close> = make({}, true)
  t.eq(names(g:frozen()), "a")
  t.eq(names(g:trained()), "b loss sgd")
  t.eq(names(g:stages()), "a b loss sgd")
  t.eq(g:schedule().strategy, "serialized")
t.eq(g:schedule().depth, g:schedule().delay) -- its old name
  t.eq(#g:lanes(), 1)
end
do
  local g <close> = make({}, true)
  g:strategy("pipelined")
  local lanes = g:lanes()
  t.eq(#lanes, 2)
  t.eq(lanes[1].name, "ahead")
  t.eq(lanes[2].delay, 1)
  t.eq(lanes[2].priority, "high")
  t.match(g:describe(), "proved race%-free")
end
do
  local g <close> = make({ strategy = "pipelined", depth = 3 }, true)
  t.eq(g:lanes()[2].delay, 3)
end
do -- nothing frozen: the same as serialized
  local g <close> = make({ strategy = "pipelined" }, false)
  t.eq(#g:lanes(), 1)
end

-- what is refused
local g <close>, a, b, loss = make({}, true)
local function refused(pattern, what)
  g:strategy(what)
  t.raises(pattern, function() g:steps(1) end)
end
refused("no strategy 'pipelind'; did you mean 'pipelined'.*there are auto, branches, deep, double_buffer, pipelined, replicas, "
  .. "serialized", "pipelind")
refused("strategy file './none.lua' not found", "./none.lua")
refused("must give a list of lanes, got a number", function() return 3 end)
refused("lane 1 is a number", { 3 })
refused("lane 1 has no option 'dely'; did you mean 'delay'", { { stages = { a, b, loss }, dely = 1 } })
refused("'stages' must be a list", { { stages = 3 } })
refused("'stages' must be a list", { {} })
refused("has a number at place 2", { { stages = { a, 5 } } })
refused("stage 'a' is listed twice, first in lane 'x'", { { name = "x", stages = { a } }, { stages = { a, b, loss } } })
refused("lane 1: 'name' must not hold line breaks", { { name = "two\nlines", stages = { a, b, loss } } })
refused("two lanes are named 'x'", { { name = "x", stages = { a } }, { name = "x", stages = { b, loss } } })
refused("stage 'loss' is in no lane", { { stages = { a, b } } })
refused("'delay' must be a whole number from 0 to 64, got %-1", { { stages = { a, b, loss }, delay = -1 } })
refused("'delay' must be a whole number from 0 to 64, got 0.5", { { stages = { a, b, loss }, delay = 0.5 } })
refused("'delay' must be", { { stages = { a, b, loss }, delay = "1" } })
refused("'delay' must be a whole number from 0 to 64, got 65", { { stages = { a, b, loss }, delay = 65 } })
refused("priority 'hi': choose one of low, normal, high", { { stages = { a, b, loss }, priority = "hi" } })
refused("'foo' is no place in a list", { foo = { stages = { a, b, loss } } })
refused("'b.forward' %(lane 'x', delay 0%) needs 'a.forward' %(lane 'y', delay 1%) of the same step, for 'a.y': "
  .. "give lane 'x' a delay of at least 1$",
  { { name = "x", stages = { b, loss } }, { name = "y", stages = { a }, delay = 1 } }) -- consumer first
t.raises("a name, a file, a function or a list", function() g:strategy(3) end)

-- behind a border too what can be changed is named: a lane of the strategy, not the host, who waits there
do
  local g <close> = sp.graph { device = "mock" }
  local data = g.toy_source { batch = 8 }
  local slow = g.fuzz_watch { data.x, name = "slow", on_cpu = true }
  local reader = g.fuzz_mix { data.x, scale = slow.digest, learn = 0, name = "reader" }
  for _, n in ipairs { 0, 2 } do
    local replicas = n > 0 and n or nil
    g:strategy {
      { name = "ahead", stages = { reader }, replicas = replicas },
      { name = "behind", stages = { slow }, delay = 3, replicas = replicas },
    }
    t.raises(": give lane 'ahead' a delay of at least 3$", g.describe, g)
  end
  g:strategy { { name = "ahead", stages = { slow } }, { name = "behind", stages = { reader }, delay = 3 } }
  t.match(g:describe(), "proved race%-free")
end

-- parts of stages that are refused
refused("has no part 'upward': it has forward, backward, copy",
  { { stages = { { a, "upward" }, b, loss, a } } })
refused("has no part '3'", { { stages = { a, b, loss, { b, 3 } } } })
refused("lane 'lane1': stage 'b' is given without parts: name some of forward, backward, copy",
  { { stages = { a, { b }, loss } } })
refused("lane 'lane1': 'stages' has a table at place 2, not a stage", { { stages = { a, { "forward", b }, loss } } })
refused("lane 'back': stage 'b' is listed twice, first in lane 'all'",
  { { name = "all", stages = { a, b, loss } }, { name = "back", stages = { { b, "backward" } } } })
refused("lane 'all': stage 'b' is listed twice, first in lane 'all'",
  { { name = "all", stages = { a, loss, { b, "forward" }, { b, "backward", "forward" } } } })
refused("stage 'b' is in no lane", { { stages = { a, loss, { b, "backward", "copy" } } } })
refused("'b' %(lane 'lane1', delay 0%) and 'b' %(lane 'back', delay 1%) have two delays",
  { { stages = { a, loss, { b, "forward" } } }, { name = "back", stages = { { b, "backward" } }, delay = 1 } })

-- files
do
  local dir <close> = t.folder()
  t.write(dir.path .. "/mine.lua", [[
return function(g)
  return { { name = "ahead", stages = g:frozen(), delay = 0 },
           { name = "train", stages = g:trained(), delay = 2, priority = "low" } }
end]])
  t.write(dir.path .. "/broken.lua", "return = 3")
  t.write(dir.path .. "/number.lua", "return 3")
  g:strategy(dir.path .. "/mine.lua")
  t.eq(g:lanes()[2].delay, 2)
  g:strategy(dir.path .. "/broken.lua")
  local ok, message = pcall(g.steps, g, 1)
  t.ok(not ok)
  t.match(message, "broken.lua:1: ")
  refused("must return a function or a list of lanes, not a number", dir.path .. "/number.lua")
end

-- one that runs a graph would need its own lanes for it: a function, and a file that is a script
local runs = "strategy 'custom' makes or runs a graph itself: a list of lanes, or a function from the graph to one, is wanted"
refused(runs, function(h) for _ in h:steps(1) do end end)
refused(runs, function(h) return h:lanes() end)
refused(runs, function(h) return { { stages = h:stages() }, h:memory() } end)
refused(runs, function() return sp.graph {} end)
g:strategy(function(h) -- refused within it only
  t.raises(runs, h.schedule, h)
  return { { name = "mine", stages = h:stages() } }
end)
t.eq(g:lanes()[1].name, "mine")
do
  local dir <close> = t.folder()
  t.write(dir.path .. "/small.lua", [[
local sp = require "spcore"
local g <close> = sp.graph(sp.args {})
g.toy_mul { g.toy_source { batch = 8 }.x }
for _ in g:steps(1) do end]])
  local limit = (os.getenv "SP_SANITIZERS" or "none") == "none" and "ulimit -v 8000000;" or ""
  local code, _, err = t.spcore(dir.path, "run small.lua --device cpu --strategy ./small.lua", limit)
  t.eq(code, 1)
  t.one_line(err, "^spcore: ./small.lua:2: strategy '%./small.lua' makes or runs a graph itself")
end

-- the same bits every way, frozen or not, with a last short batch
local function weights(opt, frozen, lanes)
  local h <close>, _, last = make(opt, frozen)
  if lanes then h:strategy(lanes) end
  local losses = {}
  for _, m in h:steps(40) do losses[#losses + 1] = m.loss end
  return table.concat(last:weight "w", " "), table.concat(losses, " ")
end
for _, frozen in ipairs { true, false } do
  local w, losses = weights({ seed = 3 }, frozen)
  for depth = 1, 4 do
    local w2, losses2 = weights({ seed = 3, strategy = "pipelined", depth = depth, prefetch = depth }, frozen)
    t.eq(w2, w)
    t.eq(losses2, losses)
  end
  t.ok(weights({ seed = 4 }, frozen) ~= w, "another seed gives other weights")
end

-- parts of stages in lanes of their own: the same bits, also behind a border and captured
local function split(h)
  local first, second, last, opt = h:find "a", h:find "b", h:find "loss", h:find "sgd"
  local ahead, train = { { h:find "toy_source", "copy" } }, { { second, "forward" }, last }
  local back = { { second, "backward" }, opt }
  if first.frozen then
    ahead[2] = first
  else
    train[3], back[3] = { first, "forward" }, { first, "backward" }
  end
  return {
    { name = "ahead", stages = ahead },
    { name = "train", stages = train, delay = 2 },
    { name = "back", stages = back, delay = 2, priority = "high" },
  }
end
do
  local h <close> = make({}, true)
  h:strategy(split)
  local lanes = h:lanes()
  t.eq(table.concat(lanes[1].stages, " "), "toy_source.copy a")
  t.eq(table.concat(lanes[3].stages, " "), "b.backward sgd")
  t.match(h:describe(), "CALL    train            b%.forward\n")
  t.match(h:describe(), "CALL    back             b%.backward\n")
end
do -- the copy of a batch is where it is asked for
  local h <close> = make({ device = "mock" }, true)
  h:strategy(split)
  t.match(h:describe(), "COPY    ahead            toy_source%.copy\n")
end
for _, frozen in ipairs { true, false } do
  local w, losses = weights({ seed = 3 }, frozen)
  for _, how in ipairs { "cpu off", "mock off", "mock lane", "mock step", "mock auto" } do
    local device, capture = how:match "(%S+) (%S+)"
    local w2, losses2 = weights({ seed = 3, device = device, capture = capture }, frozen, split)
    t.eq(w2, w, how)
    t.eq(losses2, losses, how)
  end
end

-- how a loop ends: the same in every strategy, though stages ahead may have done steps behind the end
local function ending(strategy, fails, last)
  local h <close> = sp.graph { strategy = strategy, depth = 4 }
  local data = h.toy_source { batch = 8 }
  local ahead = h.sleep { data.x, fail_at_step = fails, name = "ahead" }
  local b = h.toy_mul { ahead.y[1], name = "b" }
  h:train { h.toy_loss { b.y, name = "loss" }, optimizer = h.toy_sgd { name = "sgd" } }
  local seen = -1
  local ok, message = pcall(function()
    for step in h:steps(20) do
      seen = step
      if step == last then break end
    end
  end)
  if ok then return ("%d %d %s"):format(seen, h:step(), table.concat(b:weight "w", " ")) end
  t.match(message, ("stage 'ahead' %%(sleep%%.so%%) step %d: told to fail here"):format(fails + 1))
  return ("%d failed"):format(seen)
end
for _, strategy in ipairs { "serialized", "pipelined" } do
  t.eq(ending(strategy, 6, 19), "5 failed") -- the steps before come first
  t.eq(ending(strategy, 6, 4), "4 failed") -- run_ahead is 2: step 6 belongs to the loop
  t.eq(ending(strategy, 6, 3), ending("serialized", -1, 3)) -- a failure behind the end is nobody's
end

-- what is frozen may be at another step in another strategy: its parameters change before the graph is planned only
do
  local h <close> = sp.graph {}
  local data = h.toy_source { batch = 8 }
  local b = h.toy_mul { data.x, name = "b" }
  local watched = h.toy_probe { b.y, name = "watched" }
  local sgd = h.toy_sgd { name = "sgd" }
  h:train { h.toy_loss { b.y, name = "loss" }, optimizer = sgd }
  watched:set("gain", 2)
  local schedule = h:schedule()
  t.ok(schedule.operations > schedule.tasks, "waits and records are operations too")
  t.raises("stage 'watched': parameter 'gain' may change before the first step only", watched.set, watched, "gain", 3)
  t.eq(watched:get "gain", 2)
  sgd:set("lr", 0.25)
end

-- a graph that was only looked at may have another strategy, and starts where it would have; one that has run may not
local function other(look)
  local h <close>, _, last = make({ seed = 3, strategy = "pipelined" }, true)
  h:seek(4)
  if look then
    local ahead, tasks = h:memory().activations, h:schedule().tasks
    h:strategy("serialized")
    t.ok(h:memory().activations < ahead, "serialized needs fewer buffers")
    t.eq(h:schedule().tasks, tasks)
    t.eq(h:schedule().strategy, "serialized")
    h:strategy({ { stages = h:frozen() }, { stages = h:trained(), delay = 3 } }, "mine")
    t.eq(h:schedule().strategy, "mine")
  end
  for step, m in h:steps(5) do t.eq(step, m.step) end
  t.eq(h:step(), 9)
  h:strategy("serialized")
  t.raises("strategy 'serialized': the graph has run already", h.steps, h, 1)
  return table.concat(last:weight "w", " ")
end
t.eq(other(true), other(false))
