-- SPDX-License-Identifier: MIT
-- A backward in parts: the same bits as in one call, in every strategy, on every device, with every capture; with shards,
-- accumulated batches and updates in place; tasks, traces and failures are named by their part.
-- SP_TEST_DEVICES=cuda: on the device cuda alone.
-- needs: onednn images jansson
local sp = require "spcore"
local t = require "check"

local dir <close> = t.folder()
local path = dir.path .. "/weights.safetensors"
local cuda = os.getenv "SP_TEST_DEVICES" == "cuda"
local home = cuda and "cuda" or "cpu"

-- Networks as train_seg.lua and train_cls.lua have them, and lists of layers.
local nets = {
  plain = function(g, image, classes)
    local enc = g.encoder { image, model = "plain", width = 4, frozen = true }
    return g.decoder { enc.features, model = "plain", width = 4, classes = classes }.logits
  end,
  unet = function(g, image, classes) -- a skip's gradient goes on to the encoder from the middle of the decoder
    local enc = g.encoder { image, model = "unet", width = 4, levels = 2, convs = 1 }
    return g.decoder { enc.features, skips = enc.maps, model = "unet", width = 4, convs = 1, classes = classes }.logits
  end,
  scores = function(g, image, classes) return g.classifier { image, model = "plain", width = 4, classes = classes }.logits end,
  residual = function(g, image, classes)
    local layers = {
      { "conv", 6, kernel = 3, pad = 1 }, { "relu" }, { "residual", 6 }, { "relu" }, { "max_pool", kernel = 2 }, { "flatten" },
      { "linear", 12 }, { "relu" }, { "linear", classes },
    }
    return g.layers { image, layers = layers }.features
  end,
}
local pixels = { plain = true, unet = true }

local function make(s)
  local g = sp.graph {
    device = s.device or home, precision = s.precision, capture = s.capture, strategy = s.strategy, depth = 2, seed = 3,
    threads = 1, parts = s.parts, shards = s.shards, trace = s.trace, trace_steps = 4,
  }
  local data = g.reader { path = "shapes", size = 16, batch = 3, samples = 8, target = pixels[s.net] and "mask" or "class" }
  local logits = nets[s.net](g, g.to_float { data.image, scale = true }, data.classes)
  local loss = g.cross_entropy { logits, pixels[s.net] and data.mask or data.label }
  g:train { loss, optimizer = g[s.optimizer or "adamw"](s.params or { lr = 0.01 }), accumulate = s.accumulate }
  return g, data
end

-- Losses and weights, and the names of the backward's calls.
local function run(s)
  local g <close>, data = make(s)
  local out = { losses = {}, calls = {} }
  for _, m in g:steps(4) do out.losses[#out.losses + 1] = m.loss end
  out.eval = g:evaluate { data = data }.loss
  g:save(path, { optimizer = true })
  out.weights = t.tensors(path)
  for _, task in ipairs(g._raw:plan_info().tasks) do
    if task.name:match "%.backward" then out.calls[#out.calls + 1] = task.name end
  end
  return out
end

local function same(a, b, what)
  for i, loss in ipairs(a.losses) do t.eq(b.losses[i], loss, what) end
  t.eq(b.eval, a.eval, what)
  for name, bytes in pairs(a.weights) do t.ok(b.weights[name] == bytes, what .. ": " .. name) end
end

local ways = { { "serialized", home, "off" }, { "pipelined", home, "lane" }, { "deep", home, "step" } }
if not cuda then
  ways = {
    { "serialized", "cpu" }, { "pipelined", "cpu" }, { "deep", "sim" }, { "pipelined", "sim" },
    { "double_buffer", "mock", "off" }, { "pipelined", "mock", "off" }, { "deep", "mock", "off" }, -- captures: tests/fuzz/strategies
  }
end

local kinds = {
  {}, { optimizer = "sgd", params = { lr = 0.05 } }, -- in place
  { accumulate = 2 }, { shards = 4, optimizer = "sgd", params = { lr = 0.05, momentum = 0.9 } },
}
local precisions = cuda and { "fp32", "tf32", "bf16" } or { "fp32" }
local calls = { plain = 5, unet = 13, scores = 6, residual = 7 } -- of backwards in as many parts as there can be
for net, n in pairs(calls) do
  for _, precision in ipairs(precisions) do
    for k, kind in ipairs(precision == "fp32" and kinds or { kinds[2] }) do
      local s = { net = net, precision = precision }
      for key, v in pairs(kind) do s[key] = v end
      local one = run(s)
      for i, way in ipairs(ways) do
        if i == 1 or (i + k) % (cuda and 2 or 3) == 0 then
          s.strategy, s.device, s.capture = table.unpack(way, 1, 3)
          s.parts = i == 1 and 64 or 2 + (i + k) % 4
          local got = run(s)
          same(one, got, ("%s, %s, kind %d, %s, %d parts"):format(net, precision, k, table.concat(way, " "), s.parts))
          local named = table.concat(got.calls, " ")
          if i == 1 then t.eq(#got.calls, n, named) else t.ok(#got.calls > #one.calls, named) end
          t.match(named, "%.backward%[0%] %w+%.backward%[1%]")
        end
      end
    end
  end
end

-- The last layer that backward reaches has more bytes than all others.
t.eq(table.concat(run { net = "plain", parts = 2 }.calls, " "), "decoder.backward[0] decoder.backward[1]")

-- Names: in traces, and where one fails.
do
  local file = dir.path .. "/trace.json"
  local g <close> = make { net = "scores", parts = 2, trace = file }
  for _ in g:steps(4) do end
  g:close()
  local trace = t.read(file)
  for part = 0, 1 do t.match(trace, ('"classifier backward%%[%d%%]'):format(part)) end
end
for _, file in ipairs { "toy", "fuzz", "parts" } do
  assert(require("spcore.core").load_plugin(("%s/%s.so"):format(os.getenv "SP_TEST_PLUGINS", file)))
end
t.raises("stage 'fails_in_part' %(parts.so%) step 1: backward%[1%]: asked to fail", function()
  local g <close> = sp.graph { parts = 2 }
  local y = g.fails_in_part { g.toy_source { batch = 2 }.x }
  g:train { g.fuzz_loss { y.y }, optimizer = g.sgd {} }
  for _ in g:steps(1) do end
end)
t.raises("65", function() sp.graph { parts = 65 } end)
t.raises("%-1", function() sp.graph { parts = -1 } end)
