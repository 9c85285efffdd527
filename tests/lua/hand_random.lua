-- SPDX-License-Identifier: MIT
-- Random programs of copies, sums, records and waits. --check-races names a wait wherever one is missing; with the
-- waits that it names put in, every order of the streams gives what the program gives one operation at a time. Without
-- them most do not.
local sp = require "spcore"
local t = dofile((os.getenv "top_srcdir") .. "/tests/lua/check.lua")

local streams, tensors, hosts, events = 3, 4, 3, 3

local function generator(seed)
  local state = seed * 2654435761 % 4294967296
  return function(n) -- 1..n
    state = (state * 6364136223846793005 + 1442695040888963407)
    return (state >> 33) % n + 1
  end
end

-- Halves of tensors, too, so that ranges of bytes count: "d2" whole, "d2a" and "d2b".
local function place(draw, kind, n)
  return kind .. draw(n) .. ({ "", "", "a", "b" })[draw(4)]
end

local function half(name) return name:match "[ab]$" and true or false end

local function make(seed)
  local draw, program, recorded = generator(seed), {}, {}
  while #program < 24 do
    local what, s, e = draw(20), draw(streams), draw(events)
    if what <= 8 then
      local kinds = ({ { "d", "h" }, { "h", "d" }, { "d", "d" } })[draw(3)]
      local dst = place(draw, kinds[1], kinds[1] == "d" and tensors or hosts)
      local src = place(draw, kinds[2], kinds[2] == "d" and tensors or hosts)
      if dst:sub(1, 2) ~= src:sub(1, 2) and half(dst) == half(src) then
        program[#program + 1] = { "copy", s, dst, src }
      end
    elseif what <= 12 then
      local a, b, c = draw(tensors), draw(tensors), draw(tensors)
      if a ~= b and c ~= a and c ~= b then program[#program + 1] = { "add", s, "d" .. a, "d" .. b, "d" .. c } end
    elseif what <= 14 then
      program[#program + 1] = { "record", s, e }
      recorded[e] = true
    elseif what <= 16 then
      if recorded[e] then program[#program + 1] = { "wait", s, e } end
    elseif what == 17 then
      program[#program + 1] = { "fill", 0, place(draw, "h", hosts), draw(100) }
    elseif what == 18 then
      program[#program + 1] = { "read", 0, place(draw, "h", hosts) }
    elseif what == 19 then
      program[#program + 1] = { "sync", s }
    elseif recorded[e] then
      program[#program + 1] = { "event", 0, e }
    end
  end
  return program
end

local function objects(h)
  local o = { streams = {}, events = {}, seen = {}, add = h.stage.add() }
  for i = 1, streams do o.streams[i] = h.stream { name = "s" .. i } end
  for i = 1, events do o.events[i] = h.event() end
  local function name(kind, i, at)
    local x = h.tensor { "f32", 4, at = at, name = kind .. i }
    o[kind .. i], o[kind .. i .. "a"], o[kind .. i .. "b"] = x, x:rows(1, 2), x:rows(3, 2)
  end
  for i = 1, hosts do
    name("h", i, "pinned")
    o["h" .. i]:write { i, i + 0.25, i + 0.5, i + 0.75 }
  end
  for i = 1, tensors do
    name("d", i, "device")
    o.streams[1]:copy(o["d" .. i], o["h" .. (i - 1) % hosts + 1])
  end
  o.streams[1]:sync()
  return o
end

local run = {
  copy = function(o, s, dst, src) s:copy(o[dst], o[src]) end,
  add = function(o, s, a, b, c) s:run(o.add, { o[a], o[b] }, o[c]) end,
  record = function(o, s, e) s:record(o.events[e]) end,
  wait = function(o, s, e) s:wait(o.events[e]) end,
  sync = function(_, s) s:sync() end,
  event = function(o, _, e) o.events[e]:sync() end,
  fill = function(o, _, x, v) o[x]:fill(v) end,
  read = function(o, _, x) o.seen[#o.seen + 1] = table.concat(o[x]:read(), ",") end,
  -- what a race asks for: an event of its own
  cure = function(o, s, from)
    local e = o.h.event()
    s:wait(o.streams[from]:record(e))
  end,
}

local function execute(o, op) run[op[1]](o, o.streams[op[2]], table.unpack(op, 3)) end

local function finish(o)
  for i = 1, streams do o.streams[i]:sync() end
  local text = { table.unpack(o.seen) }
  for i = 1, hosts do text[#text + 1] = table.concat(o["h" .. i]:read(), ",") end
  for i = 1, tensors do
    o.streams[1]:copy(o.h1, o["d" .. i])
    o.streams[1]:sync()
    text[#text + 1] = table.concat(o.h1:read(), ",")
  end
  return table.concat(text, " ")
end

local function result(program, how, one_by_one)
  local h <close> = sp.hand(how)
  local o = objects(h)
  o.h = h
  for _, op in ipairs(program) do
    execute(o, op)
    if one_by_one then
      for i = 1, streams do o.streams[i]:sync() end
    end
  end
  return finish(o)
end

-- The program with the waits that --check-races asks for, and how many these are.
local function cured(program)
  local h <close> = sp.hand { device = "sim", check_races = true }
  local o, list, n = objects(h), {}, 0
  o.h = h
  for _, op in ipairs(program) do
    for try = 1, 20 do
      local ok, why = pcall(execute, o, op)
      if ok then break end
      t.ok(try < 20, why)
      local stream, from = why:match "race on '.-'.*: stream 's(%d)' must wait for an event recorded on 's(%d)' behind "
      local cure
      if stream then
        cure = { "cure", tonumber(stream), tonumber(from) }
        t.eq(tonumber(stream), op[2], why)
      else
        cure = { "sync", tonumber(why:match "race on '.-'.*: the host must wait for stream 's(%d)'" or t.ok(false, why)) }
      end
      execute(o, cure)
      list[#list + 1] = cure
      n = n + 1
    end
    list[#list + 1] = op
  end
  return list, n, finish(o)
end

local racy, shown, races, clean = 0, 0, 0, 0
for seed = 1, tonumber(os.getenv "SP_HAND_PROGRAMS" or 60) do
  local program = make(seed)
  local want = result(program, { device = "cpu" }, true)
  local list, n, got = cured(program)
  t.eq(got, want, "seed " .. seed)
  for order = 1, 6 do t.eq(result(list, { device = "sim", order = order }), want, "seed " .. seed .. ", order " .. order) end
  t.eq(result(list, { device = "mock", check_races = true }), want, "seed " .. seed)
  if n == 0 then clean = clean + 1 end
  racy, races = racy + (n > 0 and 1 or 0), races + n
  local other = false
  for order = 1, n > 0 and 12 or 0 do
    other = other or result(program, { device = "sim", order = order }) ~= want
  end
  shown = shown + (other and 1 or 0)
end
print(("%d programs that race, %d waits named; %d show it in 12 orders; %d that do not"):format(racy, races, shown, clean))
t.ok(racy > 0 and shown * 100 >= racy * 60, "few races show")
