-- SPDX-License-Identifier: MIT
-- Dropout in a graph: nothing is dropped in evaluations and without training; the same bits whatever the device, the strategy,
-- and where a run begins; --dropout of the scripts.
-- needs: onednn images jansson
local sp = require "spcore"
local t = require "check"

local dir <close> = t.folder()
local path = dir.path .. "/weights.safetensors"

local function make(s)
  local g = sp.graph {
    device = s.device or "cpu", strategy = s.strategy or "serialized", depth = 2, capture = s.capture, seed = 3, threads = 2,
  }
  local function source(split)
    return g.reader {
      path = "shapes", target = "class", split = split, val_fraction = 0.5, size = { 16, 16 }, batch = 4, samples = 24,
    }
  end
  local data, val = source "train", source "val"
  local enc = g.encoder { g.to_float { data.image, scale = true }, model = "unet", width = 4, levels = 1, convs = 1 }
  local features = s.p and g.dropout { enc.features, p = s.p, maps = s.maps } or enc.features
  local head = g.classifier { features, model = "pool", classes = data.classes }
  local loss = g.cross_entropy { head.logits, data.label }
  if not s.forward then g:train { loss, optimizer = g.sgd { lr = s.lr or 0.1, momentum = 0.9 } } end
  return g, val
end

-- Losses of so many steps, and then the weights.
local function run(s, steps, first)
  local g <close> = make(s)
  if first then
    g:load(path)
    g:seek(first)
  end
  local seen = {}
  for _, m in g:steps(steps) do seen[#seen + 1] = ("%a"):format(m.loss) end
  g:save(path, { optimizer = true })
  return table.concat(seen, " "), t.read(path)
end

local function first_loss(s) return (run(s, 1)) end
local plain = first_loss { lr = 0 }
t.ok(first_loss { lr = 0, p = 0.5 } ~= plain, "something is dropped")
t.ok(first_loss { lr = 0, p = 0.5, maps = true } ~= first_loss { lr = 0, p = 0.5 }, "maps are others than elements")
t.eq(first_loss { forward = true, p = 0.5 }, first_loss { forward = true }, "nothing is dropped without training")
local function evaluated(p)
  local g <close>, val = make { p = p }
  return g:evaluate { data = val }.loss
end
t.eq(evaluated(1), evaluated(), "nothing is dropped in an evaluation")

for _, maps in ipairs { false, true } do
  local losses, weights = run({ p = 0.4, maps = maps }, 12)
  for _, how in ipairs {
    { strategy = "pipelined" }, { device = "mock", strategy = "pipelined", capture = "lane" },
    { device = "mock", strategy = "double_buffer", capture = "lane" },
  } do
    how.p, how.maps = 0.4, maps
    local other, other_weights = run(how, 12)
    t.eq(other, losses, how.strategy)
    t.ok(other_weights == weights, how.strategy)
  end
  local begun = run({ p = 0.4, maps = maps }, 5)
  local rest, last = run({ p = 0.4, maps = maps }, 7, 5)
  t.eq(begun .. " " .. rest, losses, "in two pieces")
  t.ok(last == weights, "in two pieces")
end

for script, more in pairs { ["train_cls.lua"] = "", ["train_seg.lua"] = "--train-encoder " } do
  local line = ("run %s --size 16 --batch 4 --samples 64 --width 4 --levels 2 --steps 2 --threads 2 %s"):format(script, more)
  local code, out, err = t.spcore(dir.path, line .. "--dropout 0.5 --out " .. script)
  t.eq(code .. err, "0")
  local _, without = t.spcore(dir.path, line)
  t.ok(out:match "loss [%d.]+" ~= without:match "loss [%d.]+", script)
  t.match(t.read(dir.path .. "/" .. script .. "/settings.json"), '"stage": ?"dropout"')
end
