-- SPDX-License-Identifier: MIT
-- The stage `writer`: the rows of an evaluation and of requests, in any strategy; of requests those that were answered.
-- needs: onednn images
local sp = require "spcore"
local t = require "check"
local dir <close> = t.folder()

local function load(path)
  local text = t.read(path)
  local rows, columns = text:match "'shape': %((%d+), (%d+), %)"
  return tonumber(rows), tonumber(columns), text:sub(257)
end

-- The graph of an evaluation, which shuffles: rows are the samples by their numbers all the same.
local function evaluate(path, options)
  local g <close> = sp.graph(options)
  local data = g.reader { path = "random", target = "class", size = 4, batch = 3, samples = 10, shuffle = false }
  local val = g.reader { path = "random", target = "class", size = 4, batch = 3, samples = 10, shuffle = true }
  local net = g.layers { g.to_float { data.image }, layers = { { "flatten" }, { "linear", 10 } } }
  g.writer { net.features, file = path }
  g:train { g.cross_entropy { net.features, data.label }, optimizer = g.sgd { lr = 0 } }
  for _ in g:steps(4) do end
  local rows = load(path)
  t.eq(rows, 0)
  assert(g:evaluate { data = val })
  return load(path)
end
local rows, columns, bits = evaluate(dir.path .. "/a.npy", { device = "cpu" })
t.eq(rows, 10)
t.eq(columns, 10)
t.eq(#bits, 400)
t.eq(select(3, evaluate(dir.path .. "/b.npy", { device = "mock", strategy = "pipelined" })), bits)

local function serve(path, options)
  local g <close> = sp.graph(options)
  local ask = g.requests { tensors = { { "float32", shape = { 2 } } }, batch = 3 }
  local x = g.sleep { ask.data, ms = 0, frozen = true }
  g.writer { x, file = path }
  g:results { x }
  local k = 0
  for answer in g:answers(function()
    k = k + 1
    return k <= 17 and { k == 5 and "short" or string.pack("ff", k, -k) } or nil
  end) do
    t.ok(answer.status == "ok" or answer.status == "refused", answer.error)
  end
  return load(path)
end
local wanted = {}
for k = 1, 17 do wanted[#wanted + 1] = k ~= 5 and string.pack("ff", k, -k) or nil end
for i, options in ipairs {
  { device = "cpu" }, { device = "mock", strategy = "replicas", depth = 3, run_ahead = 3 }, { device = "sim", strategy = "deep" },
} do
  rows, columns, bits = serve(("%s/r%d.npy"):format(dir.path, i), options)
  t.eq(rows, 16)
  t.eq(columns, 2)
  t.eq(bits, table.concat(wanted))
end
