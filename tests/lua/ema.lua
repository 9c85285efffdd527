-- SPDX-License-Identifier: MIT
-- Moving averages of the weights, which an optimizer keeps: what they are, the same bits whatever the device, the strategy and
-- the capture; evaluations and saved weights have them, and change nothing of the training.
-- needs: onednn images jansson
local sp = require "spcore"
local t = require "check"

local dir <close> = t.folder()
local path = dir.path .. "/weights.safetensors"

-- A small U-Net with batch norm; its decoder is trained.
local function make(s)
  local g = sp.graph {
    device = s.device or "cpu", capture = s.capture, strategy = s.strategy or "serialized", depth = 2, seed = 7, threads = 2,
    run_ahead = s.run_ahead,
  }
  local function source(split)
    return g.reader { path = "shapes", split = split, val_fraction = 0.5, size = { 16, 16 }, batch = 4, samples = 24 }
  end
  local data, val = source "train", source "val"
  local image = g.to_float { data.image, scale = true, on_cpu = s.device and s.device:match "^cuda" and true }
  local enc = g.encoder { image, model = "unet", width = 4, levels = 1, convs = 1, frozen = true }
  local dec = g.decoder { enc.features, skips = enc.maps, model = "unet", width = 4, convs = 1, classes = data.classes }
  local params = { lr = 0.05, ema = s.ema }
  if s.optimizer == "sgd" then params.momentum = s.momentum end
  g:train { g.cross_entropy { dec.logits, data.mask }, optimizer = g[s.optimizer or "adamw"](params), accumulate = s.accumulate }
  return g, val
end

local function tensors(g, options)
  g:save(path, options)
  return t.tensors(path)
end
local function same(a, b, what)
  for name, bytes in pairs(a) do t.ok(b[name] == bytes, what .. ": " .. name) end
  for name in pairs(b) do t.ok(a[name], what .. ": no " .. name) end
end

-- d * average + (1 - d) * weight, in the precision of floats
local function follows(before, average, weight, d, what)
  for i = 1, #weight // 4 do
    local e, got, w = ("<f"):unpack(before, 4 * i - 3), ("<f"):unpack(average, 4 * i - 3), ("<f"):unpack(weight, 4 * i - 3)
    local wanted = d * e + (1 - d) * w
    if math.abs(got - wanted) > 2e-7 * (math.abs(e) + math.abs(w)) then
      t.fail(2, "%s: element %d is %g, wanted %g", what, i, got, wanted)
    end
  end
end

-- Before the first update they are the weights, the first update copies, and then they follow; between two updates nothing moves.
for _, case in ipairs {
  { optimizer = "adamw", ema = 0.75 }, { optimizer = "sgd", ema = 0.25 }, { optimizer = "sgd", momentum = 0.9, ema = 0.999 },
  { optimizer = "adamw", ema = 0.9, accumulate = 2 }, { optimizer = "lion", ema = 0.5 }, { optimizer = "lamb", ema = 0.75 },
  { optimizer = "muon", ema = 0.75 },
} do
  local what = ("%s, ema = %g"):format(case.optimizer, case.ema)
  case.run_ahead = 0
  local g <close>, val = make(case)
  t.ok(g:evaluate { data = val }.loss > 0)
  local before = tensors(g, { averages = true })
  same(tensors(g), before, what)
  local updates = 0
  for _, m in g:steps(6) do
    local plain, average = tensors(g), tensors(g, { averages = true })
    updates = updates + (m.updated and 1 or 0)
    for name, bytes in pairs(plain) do
      if name:match "^encoder" or name:match "running" or name:match "tracked" then
        t.ok(average[name] == bytes, what .. ": not trained: " .. name)
      elseif not m.updated then
        t.ok(average[name] == before[name], what .. ": no update: " .. name)
      elseif updates == 1 then
        t.ok(average[name] == bytes, what .. ": the first copies: " .. name)
      else
        t.ok(average[name] ~= bytes, what .. ": it lags: " .. name)
        follows(before[name], average[name], bytes, case.ema, what .. ": " .. name)
      end
    end
    before = average
  end
  t.eq(updates, 6 // (case.accumulate or 1))
end

-- The training is the same with and without, evaluations have the averages; the same bits everywhere.
local function trained(s)
  local g <close>, val = make(s)
  local evals = {}
  for step in g:steps(14) do
    if step % 5 == 2 then evals[#evals + 1] = ("%a"):format(g:evaluate { data = val }.loss) end
  end
  evals[#evals + 1] = ("%a"):format(g:evaluate { data = val }.loss)
  return tensors(g, { optimizer = true }), table.concat(evals, " ")
end
local plain, plain_evals = trained {}
local all, evals = trained { ema = 0.9 }
for name, bytes in pairs(plain) do t.ok(all[name] == bytes, "with averages: " .. name) end
local kept = 0
for name in pairs(all) do kept = kept + (name:match "^adamw%.ema%.%d+$" and 1 or 0) end
t.eq(kept, 7)
t.ok(evals ~= plain_evals, "evaluations are of the averages")
for device in (os.getenv "SP_TEST_DEVICES" or "cpu mock"):gmatch "%S+" do
  local one, one_evals = all, evals
  if device:match "^cuda" then one = nil end -- the same in every strategy, but not the cpu's
  for _, how in ipairs { { "serialized", "off" }, { "pipelined", "lane" }, { "double_buffer", "step" } } do
    local what = ("%s, %s, capture %s"):format(device, how[1], how[2])
    local got, got_evals = trained { ema = 0.9, device = device, strategy = how[1], capture = device ~= "cpu" and how[2] or nil }
    if not one then one, one_evals = got, got_evals end
    same(one, got, what)
    t.eq(got_evals, one_evals, what)
  end
end

-- Who loads what was saved evaluates the same; without moments the averages begin again with the weights.
do
  local g <close>, val = make { ema = 0.9 }
  for _ in g:steps(5) do end
  local loss = g:evaluate { data = val }.loss
  local averages = tensors(g, { averages = true })
  local other <close>, other_val = make {}
  other:load(path)
  t.eq(other:evaluate { data = other_val }.loss, loss)
  t.ok(g:evaluate { data = val }.loss == loss)
  same(tensors(other), averages, "loaded")
  g:load(path)
  same(tensors(g, { averages = true }), averages, "they begin again")
  same(tensors(other, { averages = true }), averages, "without averages the weights are meant")
  local all = dir.path .. "/all.safetensors"
  g:save(all, { optimizer = true }) -- of which the moments can be left out, but not a part of them
  for _ in other:steps(2) do end
  other:load { all, ignore = { "adamw.*" } }
  same(tensors(other), tensors(g), "without its moments")
  t.raises("missing: adamw.ema.0 %(ignore 'adamw.ema.%*' leaves it out%)", function() g:load { all, ignore = { "adamw.ema.*" } } end)
end

-- a run: the averages are its weights, and the last ones lie beside
local script = "run train_seg.lua --size 16 --width 4 --levels 2 --batch 4 --samples 64 --steps 8 --threads 2 --quiet --train-encoder "
for _, more in ipairs { "--out with --ema 0.9", "--out without" } do
  local code, _, err = t.spcore(dir.path, script .. more)
  t.eq(code .. err, "0")
end
local function of_run(name) return t.tensors(dir.path .. "/" .. name .. ".safetensors") end
same(of_run "with/weights-last", of_run "without/weights", "the last weights")
t.ok(of_run("with/weights")["decoder.head.bias"] ~= of_run("with/weights-last")["decoder.head.bias"])
t.ok(not require "spcore.sys".there(dir.path .. "/without/weights-last.safetensors"))

t.raises("ema is 1, but must be below 1", function()
  local g <close> = make { ema = 1.0 }
  g:memory()
end)
