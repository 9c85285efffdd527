-- SPDX-License-Identifier: MIT
-- Requests: answered in order with the bits of a plain loop, in every strategy; what is refused, late, cancelled, wrong;
-- client threads.
local sp = require "spcore"
local t = require "check"
local dir <close> = t.folder()

local function bytes(k) return string.char(k % 251, (3 * k) % 256, 255 - k % 256, 7) end

-- n requests answered by a graph that scales bytes in `batch` places a step; what came, as text.
local function serve(options, n, batch, lanes)
  local g <close> = sp.graph(options)
  local data = g.requests { tensors = { { "uint8", shape = { 4 } } }, batch = batch, queue = math.max(batch, 5) }
  local x = g.to_float { data.data, scale = true }
  local y = g.sleep { x, ms = 0, frozen = true }
  g:results { x.image, y }
  if lanes then g:strategy(lanes(g, x, y)) end
  local k, lines = 0, {}
  local function producer()
    k = k + 1
    return k <= n and { bytes(k), tag = k } or nil
  end
  for a in g:answers(producer) do
    t.eq(a.status, "ok", a.error)
    t.ok(a.took >= a.waited and a.waited >= 0)
    lines[#lines + 1] = ("%d %s %s"):format(a.request.tag, table.concat(a.image, " "), table.concat(a.y, " "))
  end
  local s = g:request_stats { clear = true }
  t.eq(s.accepted, n)
  t.eq(s.done, n)
  t.eq(s.open, 0)
  t.ok(s.steps >= (n + batch - 1) // batch and s.steps <= n)
  local count = 0
  for _, bin in ipairs(s.histogram) do count = count + bin[3] end
  t.eq(count, n)
  t.eq(g:request_stats().done, 0)
  return table.concat(lines, "\n")
end

local function two(delay)
  return function(_, x, y)
    return { { name = "a", stages = { x } }, { name = "b", stages = { y }, delay = delay, priority = "high" } }
  end
end

local wanted = {}
for k = 1, 23 do
  local f = {}
  for i = 1, 4 do f[i] = string.unpack("f", string.pack("f", bytes(k):byte(i) * string.unpack("f", string.pack("f", 1 / 255)))) end
  wanted[k] = ("%d %s %s"):format(k, table.concat(f, " "), table.concat(f, " "))
end
wanted = table.concat(wanted, "\n")
t.eq(serve({ device = "cpu" }, 23, 4), wanted)
for _, device in ipairs { "cpu", "mock", "sim", "simmock" } do
  for _, strategy in ipairs { "serialized", "deep", "branches", "double_buffer", "replicas" } do
    for _, capture in ipairs { "off", "step" } do
      if capture == "off" or device == "mock" then
        t.eq(serve({ device = device, strategy = strategy, capture = capture, depth = 3, run_ahead = 3 }, 23, 2), wanted,
          device .. " " .. strategy)
      end
    end
  end
  t.eq(serve({ device = device, run_ahead = 5 }, 23, 3, two(4)), wanted, device)
end
t.eq(serve({ device = "cpu", run_ahead = 0 }, 23, 1), wanted)

-- While the last ones are computed nobody is busy with waiting.
do
  local g <close> = sp.graph {}
  local data = g.requests { tensors = { { "uint8", shape = { 4 } } }, batch = 1 }
  g:results { g.sleep { g.to_float { data.data }, ms = 100, frozen = true } }
  for k = 1, 4 do t.ok(g:submit { bytes(k) }) end
  local began, clock = os.clock(), sp.now()
  for answer in g:answers() do t.eq(answer.status, "ok") end
  local busy, took = os.clock() - began, sp.now() - clock -- who waits busily takes all of it
  t.ok(busy < 0.5 * took, ("%.2f s of a processor in %.2f s"):format(busy, took))
end

-- While a step is under way, deadlines are kept, also of what it has taken; less than a batch, which would only wait behind it, is
-- not taken.
for _, device in ipairs { "cpu", "mock" } do -- sim has no thread of its own
  local go = ("%s/go_%s"):format(dir.path, device)
  local g <close> = sp.graph { device = device, run_ahead = 4 }
  local data = g.requests { tensors = { { "uint8", shape = { 4 } } }, batch = 3 }
  g:results { g.toy_wait { g.to_float { data.data }, file = go, frozen = true } }
  local tickets, got = {}, {}
  for k = 1, 6 do tickets[k] = assert(g:submit { bytes(k), tag = k, deadline = (k == 2 or k == 5) and 0.05 or nil }) end
  t.eq(g:cancel(tickets[1]), true) -- so that 2 is the first that waits for an answer, and has its in front of the step's
  for a in g:answers() do
    got[#got + 1] = a.request.tag .. " " .. a.status
    if a.request.tag == 2 then
      t.eq(g:cancel(tickets[2]), nil)
      t.eq(g:cancel(tickets[6]), true)
      t.write(go, "")
    end
  end
  t.eq(table.concat(got, ", "), "1 cancelled, 2 late, 3 ok, 4 ok, 5 late, 6 cancelled", device)
  local s = g:request_stats()
  t.eq(("%d %d %d %d"):format(s.done, s.late, s.cancelled, s.open), "2 2 2 0")
end

-- Submitted by hand: the queue is bounded; what was cancelled, is late, or does not fit is answered in its turn.
do
  local g <close> = sp.graph {}
  local data = g.requests { tensors = { { "uint8", shape = { 4 } } }, batch = 2, queue = 5 }
  local x = g.to_float { data.data }
  g:results { x.image, raw = true }
  local tickets = {}
  for k = 1, 5 do
    tickets[k] = assert(g:submit { bytes(k), tag = k, deadline = k == 4 and 1e-6 or nil })
  end
  local ok, why, word = g:submit { bytes(6) }
  t.eq(ok, nil)
  t.eq(word, "full")
  t.match(why, "the queue is full: 5 requests are not answered yet %(queue = 5%)")
  ok, why, word = g:submit { "abc" }
  t.eq(word, "refused")
  t.match(why, "a request of 3 bytes, where 4 are wanted")
  t.eq(g:cancel(tickets[2]), true)
  t.raises("g:cancel%(ticket%): the number that g:submit gave is wanted, got a string", g.cancel, g, "x")
  t.raises("g:cancel%(ticket%): .*, got a nil", g.cancel, g)
  ok, why = g:cancel(tickets[2])
  t.eq(ok, nil)
  t.eq(why, "it was answered, or there is no such request")
  local got = {}
  for a in g:answers() do got[#got + 1] = a.request.tag .. " " .. a.status .. " " .. #(a.image or "") end
  t.eq(table.concat(got, ", "), "1 ok 16, 2 cancelled 0, 3 ok 16, 4 late 0, 5 ok 16")

  -- A producer's mistake is an answer; `break` leaves what waits for the next loop, and nothing is lost.
  local k = 0
  local function producer()
    k = k + 1
    if k > 9 then return nil end
    return { k == 3 and "short" or bytes(k), tag = k }
  end
  got = {}
  for a in g:answers(producer) do
    got[#got + 1] = a.request.tag .. " " .. a.status
    if a.status == "refused" then
      t.match(a.error, "a request of 5 bytes, where 4 are wanted")
      break
    end
  end
  for a in g:answers(producer) do got[#got + 1] = a.request.tag .. " " .. a.status end
  t.eq(table.concat(got, ", "), "1 ok, 2 ok, 3 refused, 4 ok, 5 ok, 6 ok, 7 ok, 8 ok, 9 ok")
  t.eq(g:request_stats().open, 0)

  -- The body of a loop may submit: it ends when nothing is open.
  assert(g:submit { bytes(1), tag = 1 })
  local n = 0
  for a in g:answers() do
    n = n + 1
    if n < 7 then assert(g:submit { bytes(n), tag = a.request.tag + 1 }) end
  end
  t.eq(n, 7)
  t.raises("leave the number out, and break", function() g:steps(3) end)
  t.raises("bytes in a string are wanted", function() g:submit { 5 } end)
  t.raises("no field 'nmae'; did you mean 'name'", function() g:submit { bytes(1), nmae = "x" } end)
  t.raises("a request is a table, got a string", function() g:submit "x" end)
  t.raises("deadline is in seconds, above 0", function() g:submit { bytes(1), deadline = -1 } end)
  t.raises("a path or bytes, not both", function() g:submit { bytes(1), path = "x" } end)
  t.raises("a function that gives requests is wanted, got a table", function() g:answers {} end)
  t.raises("the graph has run already", function() g:results { x.image } end)
end

-- Results without requests: of a step's own samples.
do
  local g <close> = sp.graph { run_ahead = 1 }
  local data = g.toy_source { batch = 4, shuffle = false }
  local y = g.toy_mul { data.x }
  g:results { y }
  local sizes = {}
  for _, m in g:steps(6) do
    t.eq(#m.y, m.n)
    sizes[#sizes + 1] = #m.y
  end
  t.eq(table.concat(sizes, " "), "4 4 4 4 4 2")
  t.raises("the graph reads no requests", function() g:submit { "x" } end)
end

-- A failure of a stage ends the loop with its name; those that were open are answered, and the queue is closed.
do
  local g <close> = sp.graph {}
  local data = g.requests { tensors = { { "uint8", shape = { 4 } } }, batch = 1 }
  local y = g.sleep { data.data[1], fail_at_step = 2 }
  g:results { y }
  local k = 0
  local seen = {}
  t.raises("stage 'sleep' .* step 3: told to fail here", function()
    for a in g:answers(function() k = k + 1; return k <= 9 and { bytes(k), tag = k } or nil end) do
      seen[#seen + 1] = a.request.tag .. a.status
    end
  end)
  t.eq(table.concat(seen, " "), "1ok 2ok")
  local s = g:request_stats()
  t.eq(s.open, 0)
  t.eq(s.failed, s.accepted - 2)
  local _, why = g:submit { bytes(1) }
  t.match(why, "the queue is closed: stage 'sleep'")
end

for pattern, requests in pairs {
  ["never fills a batch of 8"] = { tensors = { { shape = { 1 } } }, batch = 8, queue = 7 },
  ["channels_last is for channels, height and width"] = { tensors = { { shape = { 2, 2 }, order = "channels_last" } }, batch = 1 },
  ["more than %d+ elements"] = { tensors = { { shape = { 1 << 30, 1 << 30 } } }, batch = 1 },
  ["batch %d+ is above 1048576"] = { tensors = { { shape = { 1 } } }, batch = 1 << 21 },
  ["parameter 'tensors'"] = { batch = 1 },
  ["requests come in their own order"] = { tensors = { { shape = { 1 } } }, batch = 1, shuffle = false },
} do
  local g <close> = sp.graph {}
  t.raises(pattern, function() g.requests(requests) end)
end
do
  local g <close> = sp.graph {}
  local data = g.requests { tensors = { { shape = { 3 } } }, batch = 2 }
  t.raises("reads requests already", function() g.requests { tensors = { { shape = { 3 } } }, batch = 2 } end)
  local y = g.toy_mul { data.data[1] }
  t.raises("reads no requests, so it takes no 'queue'", function() g.toy_source { batch = 1, wait_us = 1 } end)
  t.raises("reads no requests, so it takes no 'queue'", function() g.sleep { wait_us = 1 } end)
  t.raises("item 1 is a number, not an output", function() g:results { 5 } end)
end

-- Client threads: each request is answered once, whatever becomes of it, with bits that do not depend on lanes or batch.
local bits
for i, how in ipairs {
  { batch = 1, lanes = 1 }, { batch = 4, lanes = 1, wait_us = 300 }, { batch = 2, lanes = 3, cancel = 0.2, late = 0.3 },
  { batch = 3, lanes = 2, open = 4, queue = 8, cancel = 0.1, device = "mock" },
} do
  local report = ("%s/report%d.json"):format(dir.path, i)
  do
    local g <close> = sp.graph { device = how.device or "cpu", run_ahead = 4 }
    local data = g.request_load {
      size = 4, batch = how.batch, clients = 5, open = how.open, requests = 600, pause_us = 10, cancel = how.cancel,
      late = how.late, late_us = 300, wait_us = how.wait_us, queue = how.queue, report = report,
    }
    local x = g.to_float { data.image }
    g:results { x.image }
    g:strategy { { name = "pool", stages = g:stages(), replicas = how.lanes } }
    local n = 0
    for _, m in g:steps() do n = n + m.n end
    local s = g:request_stats()
    t.ok(s.done <= n and s.done + s.late >= n and (how.late or s.done == n)) -- a step's own may be late
    t.eq(s.open, 0)
  end
  local r = assert(sp.json.read(report))
  t.eq(r.accepted, 600)
  t.eq(r.done + r.cancelled + r.late + r.failed, 600)
  t.eq(r.cancelled, r.cancels)
  for _, key in ipairs { "twice", "never", "differ", "failed" } do t.eq(r[key], 0, key) end
  t.eq(r.images, 64)
  bits = bits or r.bits
  t.eq(r.bits, bits)
end

-- Clients that would go on for hours are told when the graph is closed, or when the run is asked to end.
do
  local g <close> = sp.graph {}
  local data = g.request_load { size = 4, batch = 1, clients = 3, requests = 1000000, pause_us = 100 }
  local x = g.to_float { data.image }
  g:results { x.image }
  local n = 0
  for _ in g:steps() do
    n = n + 1
    if n == 20 then break end
  end
end
t.write(dir.path .. "/wait.lua", [[
local sp = require "spcore"
local g <close> = sp.graph {}
local data = g.request_load { size = 4, batch = 1, clients = 2, requests = 10, pause_us = 10000000 }
g.to_float { data.image }
print "waits"
io.stdout:flush()
for _ in g:steps() do end
]])
t.eq((t.interrupted(dir.path, "run wait.lua", "^waits")), 130)
