-- SPDX-License-Identifier: MIT
-- The step loop: metrics, breaking off, errors within, learning-rate functions, evaluation, saving.
-- needs: jansson
local sp = require "spcore"
local t = require "check"

local function make(opt, train, source)
  local g = sp.graph(opt)
  local data = g.toy_source(source or { batch = 8 }) -- 22 samples: 8, 8, 6
  local mul = g.toy_mul { data.x, fail_at = opt.fail_at or -1 }
  local loss = g.toy_loss { mul.y }
  local sgd = g.toy_sgd {}
  train = train or {}
  train[1], train.optimizer = train[1] or loss, sgd
  g:train(train)
  return g, mul, sgd, data
end

do -- what a step gives
  local g <close> = make {}
  local steps, n = 0, {}
  for step, m in g:steps(7) do
    t.eq(step, steps)
    t.eq(m.step, step)
    t.eq(m.epoch, step // 3)
    t.eq(m.updated, true)
    t.eq(m.lr, 0.5)
    t.eq(math.type(m.loss), "float")
    t.eq(m.toy_loss, nil)
    n[#n + 1] = m.n
    steps = steps + 1
  end
  t.eq(steps, 7)
  t.eq(table.concat(n, " "), "8 8 6 8 8 6 8")
  t.eq(g:step(), 7)
  t.eq(g:epoch_steps(), 3)
  for step in g:steps(2) do t.ok(step == 7 or step == 8) end -- goes on where it was
  for _ in g:steps(0) do error "no step was asked for" end
  t.ok(g:memory().total > 0)
end

do -- break, then on; a nested loop is refused
  local g <close> = make {}
  for step in g:steps() do
    if step == 3 then
      t.raises("under way already", function() g:steps(1) end)
      break
    end
  end
  local first
  for step in g:steps(1) do first = step end
  t.eq(first, 3 + 2 + 1) -- run_ahead steps were under way
end

do -- an error in the body ends the loop; the graph stays usable
  local g <close> = make {}
  t.raises("mine", function()
    for step in g:steps(10) do
      if step == 2 then error "mine" end
    end
  end)
  for _ in g:steps(1) do end
end

do -- a failing stage is named, with its step; the weights can still be saved
  local dir <close> = t.folder()
  local g <close> = make { fail_at = 4 }
  local seen = 0
  t.raises("steps.lua:%d+: stage 'toy_mul' %(toy.so%) step 5: ", function()
    for _ in g:steps(10) do seen = seen + 1 end
  end)
  t.eq(seen, 4)
  g:save(dir.path .. "/w.safetensors")
end

do -- learning rate: called in step order, shows in m.lr; live parameters
  local order = {}
  local g <close> = make({}, { lr = function(step)
    order[#order + 1] = step
    return 0.5 / (step + 1)
  end })
  for step, m in g:steps(6) do t.eq(m.lr, 0.5 / (step + 1)) end
  for i, step in ipairs(order) do t.eq(step, i - 1) end
  t.ok(#order >= 6)
end
do
  local g <close>, _, sgd = make { run_ahead = 1 }
  t.eq(sgd:get "lr", 0.5)
  for step, m in g:steps(8) do
    if step == 2 then sgd:set("lr", 0.25) end
    t.eq(m.lr, step >= 2 + 1 + 1 and 0.25 or 0.5, "lr at step " .. step) -- run_ahead + 1 steps later
  end
  t.raises("lrr", function() sgd:set("lrr", 1) end)
  t.raises("must be a number", function() sgd:set("lr", "x") end)
end

for pattern, lr in pairs {
  ["steps.lua:%d+: mine"] = function(step) if step == 3 then error "mine" end return 1 end,
  ["gave a nil at step 4"] = function(step) if step ~= 3 then return 1 end end,
  ["gave a string at step 1"] = function() return "1" end,
  ["gave inf at step 1"] = function() return math.huge end,
} do
  local g <close> = make({}, { lr = lr })
  t.raises(pattern, function() for _ in g:steps(6) do end end)
end
do -- an error that is no string arrives as it is
  local mine = {}
  local g <close> = make({}, { lr = function() error(mine) end })
  local ok, got = pcall(function() for _ in g:steps(6) do end end)
  t.eq(ok, false)
  t.eq(got, mine)
end
do -- a rate that is set beside a function would be ignored
  local g <close>, _, sgd = make({}, { lr = function() return 0.1 end })
  t.raises("the learning rate of each step is what the function g:train{ lr = ... } gives", function() sgd:set("lr", 1) end)
end
do -- weights may be looked at before the first step, with a strategy of lanes
  local looked = {}
  for i = 1, 2 do
    local g <close>, mul, sgd = make { strategy = "pipelined", depth = 2 }
    if i == 1 then looked[0] = mul:weight "w"[1] end
    t.eq(type(sgd:weights()), "table")
    for _ in g:steps(3) do end
    looked[i] = mul:weight "w"[1]
    t.raises("the graph has run already", function() g:strategy "serialized" for _ in g:steps(1) do end end)
  end
  t.eq(looked[1], looked[2])
  t.ok(looked[0] ~= looked[1])
end
do -- the graph cannot be used from there
  local g
  g = make({}, { lr = function() g:step() return 1 end })
  t.raises("in the middle of a step", function() for _ in g:steps(2) do end end)
  g:close()
end

do -- accumulation: every second step updates
  local g <close>, _, _, data = make({}, { accumulate = 2 })
  t.raises("0 is not in 1..4096", make, {}, { accumulate = 0 })
  for _ in g:steps(2) do
    t.raises("a loop is under way already: name what is due each 3 steps before it", function() g:evaluate { data = data, every = 3 } end)
  end
  for step, m in g:steps(6) do t.eq(m.updated, step % 2 == 1) end
end
do -- a loss that nothing trains for is said
  local dir <close> = t.folder()
  t.write(dir.path .. "/idle.lua", [[
    local sp = require "spcore"
    local g <close> = sp.graph {}
    local loss = g.toy_loss { g.toy_mul { g.toy_source { batch = 8 }.x }.y, name = "cost" }
    for _ in g:steps(2) do end
  ]])
  local code, _, err = t.spcore(dir.path, "run idle.lua")
  t.eq(code, 0)
  t.one_line(err, "nothing is trained: there is a loss, 'cost', and no g:train{ cost, optimizer = %.%.%. }\n$")
end
do -- steps that a loop leaves over are said, and take part in an update of the next one
  local dir <close> = t.folder()
  t.write(dir.path .. "/left.lua", [[
    local sp = require "spcore"
    local g <close> = sp.graph {}
    local data = g.toy_source { batch = 8 }
    local mul = g.toy_mul { data.x }
    g:train { g.toy_loss { mul.y }, optimizer = g.toy_sgd {}, accumulate = 4 }
    for _, n in ipairs { 6, 2, 8 } do
      for step, m in g:steps(n) do if m.updated then io.write(step, " ") end end
    end
  ]])
  local code, out, err = t.spcore(dir.path, "run left.lua")
  t.eq(code, 0, err)
  t.eq(out, "3 7 11 15 ")
  t.match(err, "an update takes 4 steps %(accumulate%), so that the last 2 of 6 are in none; with 8 steps they are, and a further "
    .. "g:steps resumes with them\n$")
end

do -- an evaluation each k steps sees the weights after as many, whatever runs ahead; others say what they see
  for _, s in ipairs { { run_ahead = 0 }, { run_ahead = 2 }, { run_ahead = 5 } } do
    local g <close>, mul = make(s)
    for every, name in pairs { [3] = "three", [5] = "five" } do
      g:evaluate { data = g.toy_source { batch = 8, samples = 10, name = name }, every = every }
    end
    local seen = {}
    for step, m in g:steps(11) do
      local due = (step + 1) % 3 == 0 or (step + 1) % 5 == 0
      t.eq(m.eval ~= nil or m.evals ~= nil, due)
      if due then t.eq(g:steps_in_weights(), step + 1) end
      local n = g:steps_in_weights()
      t.ok(n > step and n <= step + 1 + s.run_ahead and n <= 11)
      seen[n] = mul:weight "w"[1]
    end
    for n, w in pairs(seen) do
      local h <close>, other = make { run_ahead = s.run_ahead }
      for _ in h:steps(n) do end
      t.eq(w, other:weight "w"[1], "the weights after " .. n .. " steps")
    end
  end
end

do -- evaluation: weighted mean over all samples, training unharmed
  local function run(every)
    local g <close>, mul = make { seed = 5 }
    local val = g.toy_source { batch = 8, samples = 10, name = "val" }
    if every then g:evaluate { data = val, every = every } end
    local evals = 0
    for step, m in g:steps(9) do
      t.eq(m.eval ~= nil, every ~= nil and (step + 1) % every == 0)
      if m.eval then
        evals = evals + 1
        t.eq(m.eval.n, 10)
        t.eq(m.eval.batches, 2)
        t.eq(math.type(m.eval.loss), "float")
      end
    end
    return table.concat(mul:weight "w", " "), evals, g:evaluate { data = val }.loss
  end
  local w, _, loss = run()
  local w2, evals, loss2 = run(4)
  t.eq(w2, w)
  t.eq(loss2, loss)
  t.eq(evals, 2)
end

do -- of two sources: both, also where they are due behind the same step
  local g <close> = make { seed = 5 }
  local val, more = g.toy_source { batch = 8, samples = 10, name = "val" }, g.toy_source { batch = 8, samples = 5, name = "more" }
  g:evaluate { data = val, every = 2 }
  g:evaluate { data = more, every = 3 }
  t.raises("'val' is evaluated each 2 steps already", function() g:evaluate { data = val, every = 5 } end)
  local seen = {}
  for step, m in g:steps(6) do
    local evals = m.evals or {}
    t.eq(m.eval, evals.val)
    seen[step + 1] = ("%s %s"):format(evals.val and evals.val.n, evals.more and evals.more.n)
  end
  t.eq(table.concat(seen, ", "), "nil nil, 10 nil, nil 5, 10 nil, nil nil, 10 5")
end

do -- save and load
  local dir <close> = t.folder()
  local path = dir.path .. "/w.safetensors"
  local g <close>, mul = make { seed = 5 }
  for _ in g:steps(5) do end
  g:save(path)
  t.raises("g:save: the path of a file is wanted, got a nil", function() g:save() end)
  local h <close>, other = make { seed = 6 }
  h:load(path)
  t.eq(table.concat(other:weight "w", " "), table.concat(mul:weight "w", " "))
  t.eq(other:weight("w").shape[1], #other:weight "w")
  t.eq(other:weights()[1].name, "w")
  t.eq(other:weights()[1].trained, true)
  t.raises("no weight 'v'", function() other:weight "v" end)
  t.raises("nothing.safetensors", function() h:load(dir.path .. "/nothing.safetensors") end)
  t.raises("no option 'optimiser'", function() h:save(path, { optimiser = true }) end)
  local k <close> = sp.graph {}
  local source = k.toy_source { batch = 8 }
  t.raises("a folder without weights.safetensors", function() k.toy_mul { source.x, name = "a", weights = dir.path } end)
  t.raises("'other'.*missing", function() k.toy_mul { source.x, name = "other", weights = path } end)
  local loaded = k.toy_mul { source.x, weights = path, frozen = true }
  t.eq(table.concat(loaded:weight "w", " "), table.concat(mul:weight "w", " "))
end

do -- checksums
  local dir <close> = t.folder()
  local path = dir.path .. "/c.jsonl"
  local g <close> = make {}
  t.raises("make the graph with checksums = true", function() g:checksums(path) end)
  t.eq(io.open(path), nil)
  local h <close> = make { checksums = true }
  t.raises("g:checksums: the path of a file is wanted, got a nil", function() h:checksums() end)
  h:checksums(path)
  for _ in h:steps(1) do end
  t.match(t.read(path), '^{"step":0,')
end

-- Two stages fail in one step: the first in serialized order is told, though its lane lags behind the other's; by the loop
-- and by an evaluation in it, which meets the failure earlier.
for _, evaluates in ipairs { false, true } do
  for _, variant in ipairs { { "cpu", "off" }, { "mock", "off" }, { "mock", "step" } } do
    for behind = 3, 4 do
      local g <close> = sp.graph { device = variant[1], capture = variant[2] }
      local data, val = g.toy_source { batch = 8, samples = 64 }, g.toy_source { batch = 8, samples = 16 }
      local a = g.toy_mul { data.x, name = "first", fail_at = 6, frozen = true }
      local b = g.toy_mul { data.x, name = "second", fail_at = 6, frozen = true }
      local mul = g.toy_mul { data.x }
      local loss = g.toy_loss { mul.y }
      g:train { loss, optimizer = g.toy_sgd {} }
      g:strategy { { stages = { b } }, { stages = { a }, delay = behind }, { stages = { mul, loss }, delay = 2 } }
      local seen = 0
      t.raises("stage 'first' %(toy.so%) step 7: ", function()
        for _ in g:steps(12) do
          seen = seen + 1
          if evaluates then g:evaluate { data = val } end
        end
      end)
      t.eq(seen, evaluates and 5 or 6)
    end
  end
end

-- A lane of a device whose stages read neither step nor ids is told of none.
for _, fail in ipairs { -1, 5 } do
  local g <close> = sp.graph { device = "mock" }
  local data = g.toy_source { batch = 2 }
  local y = g.sleep { data.x, fail_at_step = fail }
  g:results { y }
  t.eq(g:describe():find "host.fill" ~= nil, fail == 5)
  local function loop()
    local n = 0
    for _ in g:steps(8) do n = n + 1 end
    return n
  end
  if fail == 5 then t.raises("step 6: told to fail here", loop) else t.eq(loop(), 8) end
end
