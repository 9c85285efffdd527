-- SPDX-License-Identifier: MIT
-- Double buffering by hand: each batch is copied to the device, worked on and copied back, on the stream of its buffer,
-- so that the copies of one batch run beside the work on another. Prints each part alone, all of them one after another
-- and overlapped, and what could be reached: the longest part.
--
--   spcore run double_buffer.lua --memory both
--   spcore run double_buffer.lua --device cuda --mib 64 --batches 50
local sp = require "spcore"

local opt = sp.args({
  mib = { 8.0, "MiB of a batch, there and back each", min = 0.001, max = 4096.0 },
  batches = { 20, "batches a measurement", min = 1, max = 100000 },
  ms = { 0.0, "milliseconds of the work on a batch", default = "1.5 times both copies", min = 0.0, max = 10000.0 },
  buffers = { 2, "buffers, with a stream each; 3 let all three parts run at once", min = 2, max = 16 },
  turns = { 3, "how often each is measured; the median counts", min = 1, max = 100 },
  memory = { "pinned", "of the host", choices = { "pinned", "pageable", "both" } },
}, {
  doc = "Copies to the device, work and copies back, one after another and overlapped.",
  without = { "graph", "training", "seed" },
})

local floats = math.max(1, math.floor(opt.mib * 2 ^ 20 / 4))

local function make(memory)
  local o = { streams = {}, host_in = {}, host_out = {}, inputs = {}, outputs = {} }
  for i = 1, opt.buffers do
    o.streams[i] = sp.stream { name = "buffer " .. i }
    o.host_in[i] = sp.tensor { "f32", floats, at = memory, name = "host's input " .. i }
    o.host_out[i] = sp.tensor { "f32", floats, at = memory, name = "host's output " .. i }
    o.inputs[i] = sp.tensor { "f32", floats, name = "input " .. i }
    o.outputs[i] = sp.tensor { "f32", floats, name = "output " .. i }
    o.host_in[i]:random { seed = i }
    o.host_out[i]:fill(0)
    o.streams[i]:copy(o.inputs[i], o.host_in[i])
    o.streams[i]:copy(o.outputs[i], o.host_in[i])
  end
  return o
end

local function sync(o)
  for _, stream in ipairs(o.streams) do stream:sync() end
end

local function median(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end

-- Milliseconds a batch of f(n), for batches n = 0, 1 ...
local function measure(o, f)
  local times = {}
  for turn = 0, opt.turns do
    sync(o)
    local began = sp.now()
    for n = 0, opt.batches - 1 do f(n) end
    sync(o)
    if sp.interrupted() then sp.exit(128 + sp.interrupted()) end
    if turn > 0 then times[turn] = (sp.now() - began) / opt.batches * 1e3 end
  end
  return median(times)
end

local function run(memory)
  local o <const>, m = make(memory), {}
  local first, second = o.streams[1], o.streams[2]
  local function copy_in(stream, i) stream:copy(o.inputs[i], o.host_in[i]) end
  local function copy_out(stream, i) stream:copy(o.host_out[i], o.outputs[i]) end
  m.up = measure(o, function() copy_in(first, 1) end)
  m.down = measure(o, function() copy_out(first, 1) end)
  m.both = measure(o, function()
    copy_in(first, 1)
    copy_out(second, 2)
  end)
  local ms = opt.ms > 0 and opt.ms or 1.5 * (m.up + m.down)
  local work = sp.stage.sleep { ms = ms }
  local function work_on(stream, i) stream:run(work, o.inputs[i], { y = o.outputs[i] }) end
  m.work = measure(o, function() work_on(first, 1) end)
  m.sequential = measure(o, function()
    copy_in(first, 1)
    work_on(first, 1)
    copy_out(first, 1)
  end)
  -- Two copies in one direction at a time would share the way, both end late, and leave the other direction idle. Work that
  -- only sleeps could go on beside itself; real work that fills the device could not.
  local came <close> = sp.event {}
  local worked <close> = sp.event {}
  local went <close> = sp.event {}
  for _, event in ipairs { came, worked, went } do first:record(event) end
  local function in_turn(stream, event, f, i)
    stream:wait(event)
    f(stream, i)
    stream:record(event)
  end
  m.overlapped = measure(o, function(n)
    local i = n % opt.buffers + 1
    local stream = o.streams[i]
    in_turn(stream, came, copy_in, i)
    in_turn(stream, worked, work_on, i)
    in_turn(stream, went, copy_out, i)
  end)
  -- What came back is what was sent.
  local some = math.min(floats, 1000)
  local sent, got = o.host_in[2]:rows(1, some):read(), o.host_out[2]:rows(1, some):read()
  for k, v in ipairs(sent) do
    if got[k] ~= v then sp.fail(("value %d came back as %g, not %g"):format(k, got[k], v)) end
  end
  for i = 1, opt.buffers do o.streams[i]:close() end
  return m
end

local columns = { "H2D", "work", "D2H", "both copies", "sequential", "overlapped", "ideal", "hidden" }
print(("milliseconds a batch of %g MiB, %d buffers"):format(opt.mib, opt.buffers))
print(("%-9s" .. ("%12s"):rep(#columns)):format("memory", table.unpack(columns)))
for _, memory in ipairs(opt.memory == "both" and { "pinned", "pageable" } or { opt.memory }) do
  local m = run(memory)
  local ideal = math.max(m.up, m.work, m.down)
  local most = m.sequential - ideal
  local share = most > 0 and (m.sequential - m.overlapped) / most * 100 or 0
  local hidden = share > 0 and ("%.1f %%"):format(share) or "nothing"
  print(("%-9s" .. ("%12.3f"):rep(7) .. "%12s"):format(memory, m.up, m.work, m.down, m.both, m.sequential, m.overlapped,
    ideal, hidden))
end
