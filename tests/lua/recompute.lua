-- SPDX-License-Identifier: MIT
-- recompute: a stage's forward runs again before its backward instead of keeping what that needs: the same bits, statistics that move
-- once a step, dropout of the same pixels, less memory; in every strategy, on every device, with every capture, shards, parts.
-- needs: onednn images
local sp = require "spcore"
local t = require "check"

local dir <close> = t.folder()
local path = dir.path .. "/weights.safetensors"
local devices = os.getenv "SP_TEST_DEVICES" or "cpu mock sim"

local function make(s)
  local g = sp.graph { device = s.device or "cpu", capture = s.capture, strategy = s.strategy, depth = 2, seed = 3, threads = 1,
    shards = s.shards, parts = s.parts }
  local data = g.reader { path = "shapes", size = { 16, 16 }, batch = 4, samples = 24 }
  local enc = g.encoder { g.to_float { data.image, scale = true }, model = "unet", width = 4, levels = 2, convs = 2, recompute = s.again }
  local body = g.layers { enc.features, recompute = s.again, layers = { { "dropout", p = 0.3 }, { "conv", 16, pad = 1 },
    { "batch_norm" }, { "relu" }, { "dropout", p = 0.3 } } }
  local dec = g.decoder { body, skips = enc.maps, model = "unet", width = 4, convs = 1, classes = data.classes, recompute = s.again }
  g:train { g.cross_entropy { dec.logits, data.mask }, optimizer = g[s.optimizer or "adamw"] { lr = 0.01 }, accumulate = s.accumulate }
  g:evaluate { data = data, every = 4 }
  return g
end

local function run(s)
  local g <close> = make(s)
  for _ in g:steps(6) do end
  g:save(path, { optimizer = true })
  return t.tensors(path), g:memory()
end

local function same(a, b, what)
  for name, bytes in pairs(a) do t.ok(bytes == b[name], what .. ": " .. name) end
end

for i, case in ipairs { {}, { optimizer = "sgd" }, { shards = 2 }, { parts = 4 }, { accumulate = 2 } } do
  local want
  for device in devices:gmatch "%S+" do
    for _, strategy in ipairs(i == 1 and { "serialized", "pipelined", "double_buffer" } or { "pipelined" }) do
      local graphs = device == "mock" or device:match "^cuda"
      case.device, case.strategy = device, strategy
      case.capture = graphs and (strategy == "serialized" and "step" or strategy == "pipelined" and "lane" or "off") or nil
      if not want then case.again, want = false, run(case) end
      case.again = true
      same(want, (run(case)), ("case %d, %s, %s"):format(i, device, strategy))
    end
  end
end

-- ---- memory ----
do
  local _, plain = run { device = devices:match "cuda" or "cpu" }
  local _, less = run { device = devices:match "cuda" or "cpu", again = true }
  t.eq(less.saved, 0)
  t.ok(less.total < plain.total, ("%d < %d"):format(less.total, plain.total))
  t.eq(less.activations, plain.activations)
end

-- ---- where it is of no use, and who cannot ----
do
  t.write(dir.path .. "/say.lua", [[
local sp = require "spcore"
local g <close> = sp.graph { threads = 1 }
local data = g.reader { path = "shapes", size = 16, batch = 4, samples = 8 }
local enc = g.layers { data.image, name = "enc", layers = { { "conv", 4, pad = 1 } }, frozen = true, recompute = true }
local head = g.layers { enc, layers = { { "conv", data.classes, pad = 1 } } }
g:train { g.cross_entropy { head, data.mask }, optimizer = g.sgd {} }
for _ in g:steps(1) do end
for _ in g:steps(1) do end
]])
  local code, _, err = t.spcore(dir.path, "run say.lua")
  t.eq(code, 0, err)
  local _, times = err:gsub("stage 'enc': recompute changes nothing: no gradient passes through it", "")
  t.eq(times, 1)
  local g <close> = sp.graph { threads = 1 }
  t.raises("stage 'reader': recompute: it has no backward; leave it out", function()
    g.reader { path = "shapes", size = 16, batch = 4, recompute = true }
  end)
  local data = g.reader { path = "shapes", size = 16, batch = 4, target = "class" }
  t.raises("recompute: it has no backward; leave it out", function() g.flip { data.image, recompute = true } end)
end
