-- SPDX-License-Identifier: MIT
-- Streams, events, tensors and stages by hand: what they compute, what is refused, which races are found.
local sp = require "spcore"
local t = dofile((os.getenv "top_srcdir") .. "/tests/lua/check.lua")

local devices = { "cpu", "sim", "mock", "simmock" } -- or that of the environment, for tests/emu/hand.sh and a GPU
if os.getenv "SP_TEST_DEVICE" then devices = { os.getenv "SP_TEST_DEVICE" } end

local function each(f)
  for _, device in ipairs(devices) do
    local h <close> = sp.hand { device = device, check_races = true }
    f(h, device)
  end
end

local function line() return debug.getinfo(2, "l").currentline end

-- there and back, over two streams
each(function(h, device)
  local up, down, e = h.stream { name = "up" }, h.stream { name = "down", priority = "high" }, h.event()
  local a, b = h.tensor { "i32", 2, 3, at = "pinned" }, h.tensor { "i32", 2, 3, at = "pinned" }
  local d = h.tensor { "i32", 2, 3, name = "d" }
  a:write { { 1, 2, 3 }, { 4, 5, 6 } }
  b:fill(0)
  up:copy(d, a)
  up:record(e)
  down:wait(e)
  down:copy(b, d)
  down:sync()
  local got = b:read()
  t.eq(got[1][1] .. got[1][3] .. got[2][1] .. got[2][3], "1346", device)
  -- the second row alone
  a:rows(2):write { 7, 8, 9 }
  up:copy(d:rows(2, 1), a:rows(2))
  up:copy(b, d)
  up:sync()
  t.eq(table.concat(b:read()[2]), "789", device)
  t.eq(b:rows(1, 2):shape()[2], 3)
  -- as many values under another shape
  local flat = h.tensor { "i32", 6, at = "pinned" }
  up:copy(flat, d)
  up:sync()
  t.eq(flat:read()[6], 9, device)
end)

-- a stage; its own outputs, given ones, and another number of samples
each(function(h, device)
  local s = h.stream()
  local host, x = h.tensor { "u8", 4, 1, 2, 2, at = "pinned" }, h.tensor { "u8", 4, 1, 2, 2 }
  host:random { seed = 5, low = 0, high = 200 }
  s:copy(x, host)
  local f = h.stage.to_float()
  local y = s:run(f, x).image
  local back = h.tensor { like = y, at = "pinned" }
  s:copy(back, y)
  s:sync()
  t.eq(back:read()[3][1][2][1], host:read()[3][1][2][1], device)
  local own = h.tensor { "f32", 2, 1, 2, 2 }
  t.raises("no output 'picture', but 'image'", function() return s:run(f, x).picture end)
  t.eq(s:run(f, x:rows(3, 2), own).image, own, device)
  local two = h.tensor { like = own, at = "pinned" }
  s:copy(two, own)
  s:sync()
  t.eq(two:read()[1][1][2][1], host:read()[3][1][2][1], device)
  t.raises("input 'image': .* is uint8%[4,1,2,3%], wanted uint8%[4,1,2,2%]", s.run, s, f, h.tensor { "u8", 4, 1, 2, 3 })
  t.raises("output 'image'.*wanted float32%[4,1,2,2%]", s.run, s, f, x, own)
end)

-- training, and the same in every order of streams
local function train(h, waits)
  local ahead, main, e, back = h.stream { name = "ahead" }, h.stream { name = "main" }, h.event(), h.event()
  local images = h.tensor { "f32", 2, 1, 4, 4, at = "pinned" }
  local labels = h.tensor { "i64", 2, at = "pinned" }
  local x, l = h.tensor { "f32", 2, 1, 4, 4, name = "x" }, h.tensor { "i64", 2 }
  local loss = h.tensor { "f32", at = "pinned" }
  local body = h.stage.layers { layers = { { "flatten" }, { "linear", 6 }, { "relu" } }, name = "body" }
  local head = h.stage.layers { layers = { { "linear", 3 } }, name = "head" }
  local ce, sgd = h.stage.cross_entropy(), h.stage.sgd { lr = 0.1 }
  labels:random { seed = 2, high = 2 }
  local losses = {}
  for step = 1, 6 do
    if step > 1 then e:sync() end
    images:random { seed = step, low = -1 }
    if step > 1 and waits then ahead:wait(back) end
    ahead:copy(x, images)
    ahead:copy(l, labels)
    ahead:record(e)
    if waits then main:wait(e) end
    local y = main:run(body, x)
    local z = main:run(head, y.features)
    local m = main:run(ce, { z.features, l })
    main:backward(head, { inputs = true })
    main:backward(body)
    main:update(sgd, { body, head })
    main:copy(loss, m.loss)
    main:record(back)
    if step % 2 == 0 then
      back:sync()
      losses[#losses + 1] = loss:read()
    end
  end
  main:sync()
  ahead:sync()
  return table.concat(losses, " ") .. " " .. table.concat(body:weight "1.weight", " ")
end

local ok = pcall(function()
  local h <close> = sp.hand {}
  h.stage.layers { layers = { { "relu" } } }
end)
if ok then
  local want
  each(function(h, device)
    local got = train(h, true)
    want = want or got
    t.eq(got, want, device)
  end)
  if devices[1] ~= "cpu" then
    local h <close> = sp.hand {}
    want = train(h, true)
  end
  local diverged = 0
  for order = 1, 12 do
    local h <close> = sp.hand { device = "sim", order = order, check_races = true }
    t.eq(train(h, true), want, "order " .. order)
    local careless <close> = sp.hand { device = "sim", order = order }
    if train(careless, false) ~= want then diverged = diverged + 1 end
  end
  t.ok(diverged > 0, "no order shows that waits are missing")
  local h <close> = sp.hand { check_races = true }
  t.raises("race on 'x'.*stream 'main' must wait for an event recorded on 'ahead' behind [^ ]*tests/lua/hand.lua:%d+", train, h,
    false)
  -- gradients beside tensors, and what cannot be
  local s = h.stream()
  local x = h.tensor { "f32", 2, 3, name = "x" }
  local f = h.stage.layers { layers = { { "linear", 2 } } }
  t.raises("'layers', which has not run", s.backward, s, f)
  local xh = h.tensor { like = x, at = "pinned" }
  xh:fill(1)
  s:copy(x, xh)
  local y = s:run(f, x)
  t.raises("none of its outputs has a gradient", s.backward, s, f)
  t.raises("is no optimizer", s.update, s, f, f)
  local sgd = h.stage.sgd()
  t.raises("is an optimizer", s.run, s, sgd, x)
  t.raises("which has not run", s.update, s, sgd, h.stage.layers { layers = { { "relu" } } })
  t.raises("have no weights to train", s.update, s, sgd, {})
  t.raises("in use by stream", f.weight, f, "0.weight")
  s:sync()
  t.eq(#f:weight "0.weight", 6)
  t.eq(#f:weights(), 2)
  t.raises("no weight 'nothing'", f.weight, f, "nothing")
  local frozen = h.stage.layers { layers = { { "linear", 2 } }, frozen = true }
  s:run(frozen, x)
  t.raises("is frozen", s.backward, s, frozen)
  s:run(f, x, nil, { evaluate = true })
  t.raises("was an evaluation", s.backward, s, f)
  t.raises("has no option 'stepp'; did you mean 'step'", s.run, s, f, x, nil, { stepp = 1 })
  t.raises("2 samples", s.run, s, f, x, nil, { ids = { 1 } })
  local ce = h.stage.cross_entropy()
  t.raises("has no input 'logit'; did you mean 'logits'", s.run, s, ce, { logit = x })
  t.raises("is given twice", s.run, s, ce, { x, logits = x })
end

-- gradients that add up, and weights of a file
if ok then
  local function trained(lr, times)
    local h <close> = sp.hand {}
    local s, x, l = h.stream(), h.tensor { "f32", 2, 3 }, h.tensor { "i64", 2 }
    local xh, lh = h.tensor { like = x, at = "pinned" }, h.tensor { like = l, at = "pinned" }
    xh:random { seed = 3, low = -1 }
    lh:fill(1)
    s:copy(x, xh)
    s:copy(l, lh)
    local f, ce, sgd = h.stage.layers { layers = { { "linear", 2 } }, name = "f" }, h.stage.cross_entropy(), h.stage.sgd { lr = lr }
    for i = 1, times do
      local y = s:run(f, x)
      s:run(ce, { y.features, l })
      s:backward(f, { accumulate = i > 1 })
    end
    -- a stage keeps what its last run needs alone
    s:run(f, x, nil, { evaluate = true })
    local y = s:run(f, x)
    s:run(ce, { y.features, l })
    y = s:run(f, x)
    t.raises("backward of stage 'f', which has run twice, at %S*hand.lua:%d+ and at %S*hand.lua:%d+: it keeps the values of the "
      .. "last run alone", function() s:backward(f) end)
    s:backward(f, { last = true, accumulate = false })
    s:run(f, x)
    s:run(ce, { y.features, l })
    for i = 1, times do s:backward(f, { accumulate = i > 1 }) end
    sgd:set("lr", lr)
    t.eq(("%.3f"):format(sgd:get "lr"), ("%.3f"):format(lr))
    s:update(sgd, f)
    s:sync()
    return f:checksum()
  end
  t.eq(trained(0.25, 2), trained(0.5, 1))
  t.ok(trained(0.25, 2) ~= trained(0.25, 1))

  local dir <close> = t.folder()
  local path = dir.path .. "/w.safetensors"
  local g <close> = sp.graph {}
  local data = g.toy_source { batch = 2 }
  local body = g.layers { data, layers = { { "linear", 3 } }, name = "f" }
  if pcall(g.save, g, path) then
    local h <close> = sp.hand { seed = 7 }
    local s, x = h.stream(), h.tensor { "f32", 2, 4 }
    local xh = h.tensor { like = x, at = "pinned" }
    xh:fill(1)
    s:copy(x, xh)
    local from_file = h.stage.layers { layers = { { "linear", 3 } }, name = "f", weights = path }
    s:run(from_file, x)
    s:sync()
    t.eq(table.concat(from_file:weight "0.weight", " "), table.concat(body:weight "0.weight", " "))
    t.raises("does not fit stage 'g'", s.run, s, h.stage.layers { layers = { { "linear", 2 } }, name = "g", weights = path }, x)
    t.raises("No such file", s.run, s, h.stage.layers { layers = { { "linear", 2 } }, weights = path .. "x" }, x)
  end
end

-- a label out of range is told when the host waits, whichever side it is found on
each(function(h, device)
  local s = h.stream { name = "main" }
  local logits, labels = h.tensor { "f32", 2, 3, at = "pinned" }, h.tensor { "i64", 2, at = "pinned" }
  local x, l = h.tensor { like = logits }, h.tensor { like = labels }
  logits:random()
  labels:write { 0, 7 }
  s:copy(x, logits)
  s:copy(l, labels)
  local ce = h.stage.cross_entropy()
  s:run(ce, { x, l }, nil, { step = 12 })
  t.raises("stage 'cross_entropy'.*step 13.*7", s.sync, s)
end)

-- a stage that fails: its words come at the next wait, once; its stream does nothing more, and others go on
each(function(h, device)
  if device == "cuda" then return end -- there it is a trap, behind which the device does nothing more
  local s, other = h.stream { name = "s" }, h.stream { name = "other" }
  local x = h.tensor { "f32", 4 }
  local bad = h.stage.sleep { fail_at_step = 3 }
  s:run(bad, x, nil, { step = 2 })
  s:sync()
  s:run(bad, x, nil, { step = 3 })
  t.raises("stage 'sleep'.*step 4: told to fail here", s.sync, s)
  t.raises("stream 's' has failed, so that it does nothing more: stage 'sleep'", s.run, s, bad, x)
  t.raises("has failed", s.sync, s)
  local e = h.event()
  t.raises("has failed", s.record, s, e)
  s:close()
  other:run(bad, x, nil, { step = 4 })
  other:sync()
end)

-- events
each(function(h, device)
  local s = h.stream()
  local plain, a, b = h.event(), h.event { timing = true }, h.event { timing = true }
  t.raises("never recorded", s.wait, s, plain)
  t.raises("never recorded", plain.sync, plain)
  t.raises("never recorded", plain.query, plain)
  t.raises("was never recorded", a.elapsed, a, b)
  -- sim does nothing before somebody waits; where threads do it, a busy machine may have it done by then: longer, once more
  local x, seen = h.tensor { "f32", 1 }, device ~= "mock" and device ~= "cpu"
  local ms = 2
  repeat
    s:record(a)
    s:run(h.stage.sleep { ms = ms }, x)
    s:record(b)
    s:record(plain)
    t.raises("keeps no time", plain.elapsed, plain, b)
    if not seen then
      local ok, why = pcall(a.elapsed, a, b)
      seen = not ok and why:find "not complete yet"
    end
    b:sync()
    ms = ms * 5
  until seen or ms > 60000
  t.ok(seen, device .. ": the time of an event that is not complete yet is told")
  t.ok(b:query() and a:query(), device)
  t.ok(a:elapsed(b) >= 0, device)
  a:close()
  t.raises("the event is closed", s.record, s, a)
end)

-- what is closed, in any order
each(function(h)
  local s, e, x = h.stream { name = "s" }, h.event(), h.tensor { "f32", 8, name = "x" }
  local y = h.tensor { like = x, at = "pinned", name = "y" }
  y:fill(1)
  s:copy(x, y)
  t.raises("race on 'x': freeing writes it on the host %([^ ]*:%d+%), the copy writes it on stream 's' %("
    .. "[^ ]*tests/lua/hand.lua:%d+%)", x.close, x)
  s:record(e)
  e:sync()
  x:close()
  x:close()
  t.raises("tensor 'x' is closed", s.copy, s, x, y)
  t.raises("'x'.*is closed", s.run, s, h.stage.sleep(), x)
  t.match(tostring(x), "closed")
  s:close()
  s:close()
  t.raises("stream 's' is closed", s.copy, s, x, y)
  t.raises("stream 's' is closed", s.sync, s)
  h.close()
  h.close()
  t.raises("closed", h.stream)
  t.raises("closed", y.read, y)
  t.raises("closed", e.sync, e)
end)

do -- without --check-races what is in flight is not freed either
  local h <close> = sp.hand { device = "sim" }
  local s, x, y = h.stream { name = "s" }, h.tensor { "f32", 8, name = "x" }, h.tensor { "f32", 8, at = "pinned" }
  s:copy(x, y)
  t.raises("'x' is in use.*stream 's'", x.close, x)
  s:sync()
  x:close()
end

-- the host's reads and writes, queries that it believes
do
  local h <close> = sp.hand { device = "sim", check_races = true }
  local s, e = h.stream { name = "s" }, h.event()
  local x, y = h.tensor { "f32", 8, name = "x" }, h.tensor { "f32", 8, at = "pinned", name = "y" }
  y:fill(0)
  s:copy(x, y)
  s:copy(y, x)
  s:record(e)
  t.raises("race on 'y': t:read%(%) reads it on the host .*the host must wait for stream 's'", y.read, y)
  t.raises("race on 'y': t:fill%(%) writes", y.fill, y, 1)
  repeat until e:query()
  t.eq(y:read()[1], 0.0)
  t.raises("lies on the device", x.read, x)
  t.raises("lies on the device", x.fill, x, 1)
end

-- lines: both are the user's
do
  local h <close> = sp.hand { check_races = true }
  local a, b = h.stream { name = "a" }, h.stream { name = "b" }
  local x, y = h.tensor { "f32", 8, name = "x" }, h.tensor { "f32", 8, at = "pinned" }
  y:fill(0)
  local first = line() + 1
  a:copy(x, y)
  local ok, why = pcall(function() b:run(h.stage.sleep(), x) end)
  t.ok(not ok)
  t.eq((why:gsub("[^ (]*tests/lua/", "tests/lua/")),
    ("tests/lua/hand.lua:%d: race on 'x': stage 'sleep' reads it on stream 'b' (tests/lua/hand.lua:%d), the copy "
    .. "writes it on stream 'a' (tests/lua/hand.lua:%d), and nothing orders the two: stream 'b' must wait for an event "
    .. "recorded on 'a' behind tests/lua/hand.lua:%d"):format(first + 1, first + 1, first, first))
end

-- the instance of a stage that is not reentrant, and its own outputs
do
  local h <close> = sp.hand { check_races = true, device = "sim" }
  local a, b = h.stream { name = "a" }, h.stream { name = "b" }
  local inputs = { h.tensor { "f32", 2, 3 }, h.tensor { "i64", 2 } }
  local host = h.tensor { like = inputs[2], at = "pinned" }
  local logits = h.tensor { like = inputs[1], at = "pinned" }
  host:fill(0)
  logits:fill(1)
  a:copy(inputs[2], host)
  a:copy(inputs[1], logits)
  a:sync()
  local f = h.stage.cross_entropy()
  local one, two = f:outputs(inputs), f:outputs(inputs)
  a:run(f, inputs, one, { evaluate = true })
  t.raises("race on 'cross_entropy.loss'", b.run, b, f, inputs, one, { evaluate = true })
  t.raises("race on 'cross_entropy.status'", b.run, b, f, inputs, two, { evaluate = true })
  a:run(f, inputs, two, { evaluate = true })
  local mul = h.stage.toy_mul { frozen = true }
  local x = inputs[1]
  one, two = mul:outputs(x), mul:outputs(x)
  a:run(mul, x, one)
  t.raises("race on 'the state of stage 'toy_mul''", b.run, b, mul, x, two)
end

-- collected while in use: the memory waits
each(function(h, device)
  local s = h.stream()
  local host = h.tensor { "f32", 1024, at = "pinned" }
  host:fill(3)
  local last = h.tensor { "f32", 1024 }
  for _ = 1, 50 do
    local x = h.tensor { "f32", 1024 }
    s:copy(x, host)
    s:copy(last, x)
    x = nil
    collectgarbage()
  end
  do
    local scoped <close> = h.tensor { "f32", 1024 }
    s:copy(scoped, last)
  end
  s:copy(host, last)
  s:sync()
  t.eq(host:read()[1024], 3.0, device)
end)

-- sizes: none, too many, more than there is
each(function(h)
  local s = h.stream()
  local none, also = h.tensor { "f32", 0, 4 }, h.tensor { "f32", 0, 4, at = "pinned" }
  s:copy(none, also)
  s:sync()
  t.eq(#also:read(), 0)
  t.raises("extent 0 is 0", s.run, s, h.stage.sleep(), none)
  t.raises("too large to count", h.tensor, { "f64", 1 << 40, 1 << 40 })
  t.raises("needs %d+ bytes: out of memory", h.tensor, { "u8", 1 << 50 })
  t.raises("needs %d+ bytes: out of memory", h.tensor, { "u8", 1 << 50, at = "pageable" })
  t.raises("extent 2 is below 0", h.tensor, { "u8", 1, -1 })
  t.raises("whole number", h.tensor, { "u8", 1.5 })
  t.raises("at most 8", h.tensor, { "u8", 1, 1, 1, 1, 1, 1, 1, 1, 1 })
  t.raises("no type 'f31'", h.tensor, { "f31", 1 })
  t.raises("its type comes first", h.tensor, { 1 })
  t.raises("choose one of device, pinned, pageable", h.tensor, { "u8", 1, at = "gpu" })
  t.raises("no option 'nam'; did you mean 'name'", h.tensor, { "u8", 1, nam = "x" })
  local x = h.tensor { "i32", 2, at = "pinned" }
  t.raises("has 2 values, got 1", x.write, x, { 1 })
  t.raises("has 2 values, got more", x.write, x, { 1, 2, 3 })
  t.raises("cannot be in it", x.write, x, { 1, 0.5 })
  t.raises("cannot be in it", x.fill, x, 2 ^ 40)
  t.raises("number is wanted", x.write, x, { 1, "2" })
  t.raises("rows 2..3 of .*it has rows 1..2", x.rows, x, 2, 2)
  t.raises("counted from 1", x.rows, x, 0)
  t.raises("of one type, with as many values", s.copy, s, x, also)
  t.raises("of one type, with as many values", s.copy, s, x, h.tensor { "i32", 3 })
  t.raises("into its own memory", s.copy, s, x, x)
end)

-- streams: how many, which priorities
do
  local h <close> = sp.hand { device = "sim" }
  local all = {}
  for i = 1, 128 do all[i] = h.stream() end
  t.raises("128 streams are open", h.stream)
  all[3]:close()
  t.match(tostring(h.stream { priority = "low" }), "stream '")
  t.raises("choose high, normal or low", h.stream, { priority = "urgent" })
  t.raises("no option 'prio", h.stream, { prio = "high" })
end

-- two devices do not mix
do
  local a <close> = sp.hand {}
  local b <close> = sp.hand {}
  local s, e = a.stream(), b.event()
  t.raises("two devices", s.record, s, e)
  t.raises("two devices", s.copy, s, a.tensor { "u8", 1 }, b.tensor { "u8", 1 })
  t.raises("another device", s.run, s, a.stage.sleep(), b.tensor { "u8", 1 })
  t.raises("two devices", s.run, s, b.stage.sleep(), a.tensor { "u8", 1 })
end

-- stages that there are not, or not so
do
  local h <close> = sp.hand { device = "mock" }
  t.raises("stage 'enkoder'", h.stage.enkoder)
  t.raises("makes samples for a graph", function() h.stage.toy_source() end)
  t.raises("parameter 'mss'", h.stage.sleep, { mss = 1 })
  t.raises("draws none", sp.hand, { device = "mock", order = 1 })
  t.raises("no option 'devise'; did you mean 'device'", sp.hand, { devise = "cpu" })
  local s, x = h.stream(), h.tensor { "f32", 2, at = "pinned", name = "x" }
  t.raises("'x' lies in the host's memory", s.run, s, h.stage.sleep(), x)
  t.raises("a tensor is wanted, got a number", s.run, s, h.stage.sleep(), { 1 })
  t.raises("is not wired", s.run, s, h.stage.to_float())
  local y = h.tensor { "f32", 2, name = "y" }
  t.raises("would write 'y', which it also reads", s.run, s, h.stage.sleep(), y, y)
  t.raises("a stream is wanted", s.run, y, h.stage.sleep(), y)
  t.raises("a stage made by hand is wanted", s.run, s, y, y)
end

-- pageable memory: a warning for each line, and the host has waited
do
  local script = [[
local sp = require "spcore"
local h <close> = sp.hand { device = "mock", check_races = true }
local s, x, y = h.stream(), h.tensor { "f32", 4 }, h.tensor { "f32", 4, at = "pageable", name = "y" }
for i = 1, 3 do
  y:fill(i)
  s:copy(x, y)
end
s:copy(y, x)
print(y:read()[4])
]]
  local dir <close> = t.folder()
  t.write(dir.path .. "/p.lua", script)
  local f = assert(io.popen(("./spcore run %s/p.lua 2>&1"):format(dir.path)))
  local text = f:read "a"
  t.ok(f:close(), text)
  local _, warnings = text:gsub("copy with 'y', which is pageable", "")
  t.eq(warnings, 2, text)
  t.match(text, "p%.lua:6: copy with")
  t.match(text, "\n3%.0\n")
end
