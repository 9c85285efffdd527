-- SPDX-License-Identifier: MIT
-- Whatever the strategy, its depth, the reader's workers, and evaluation between: 50 steps give the same weights and the same
-- metrics, byte for byte. 38 images in batches of 4, so that every tenth batch is short; frozen and unfrozen encoder.
-- needs: onednn images jansson
local sp = require "spcore"

-- Under a sanitizer 30 steps, and each depth with an evaluation or without: threads and memory of the others are theirs.
local thorough = (os.getenv "SP_SANITIZERS" or "none") == "none"
local n = thorough and 50 or 30

local stem = os.tmpname()
local path = stem .. ".safetensors"

local function read(path)
  local f <close> = assert(io.open(path, "rb"))
  return f:read "a"
end

-- Weights, moments and statistics as one string; metrics as another.
local function run(s)
  local g <close> = sp.graph { strategy = s.strategy, depth = s.depth, workers = s.workers, seed = 3, threads = 2 }
  local function source(split)
    return g.reader { path = "shapes", split = split, samples = 48, val_fraction = 0.2, batch = 4, size = { 16, 16 } }
  end
  local data, val = source "train", source "val"
  local image = g.to_float { data.image, scale = true }
  local enc = g.encoder { image, model = "unet", width = 4, levels = 2, frozen = s.frozen }
  local dec = g.decoder { enc.features, skips = enc.maps, model = "unet", classes = data.classes }
  local loss = g.cross_entropy { dec.logits, data.mask, ignore_index = 255 }
  g.confusion { dec.logits, data.mask, ignore_index = 255 }
  g:train { loss, optimizer = g.adamw { lr = 3e-3, clip_norm = 1 } }
  local seen, evals = {}, {}
  local steps = 0
  for step, m in g:steps(n) do
    assert(step == steps, "steps come in order, each once")
    steps = steps + 1
    seen[#seen + 1] = ("%d %a %a"):format(step, m.loss, m.grad_norm)
    for _, row in ipairs(m.counts) do seen[#seen + 1] = table.concat(row, " ") end
    if s.evaluate and step % 20 == 10 then evals[#evals + 1] = ("%a"):format(g:evaluate { data = val }.loss) end
  end
  assert(steps == n)
  g:save(path, { optimizer = true })
  return read(path), table.concat(seen, "\n"), table.concat(evals, " ")
end

local compared = 0
for _, frozen in ipairs { true, false } do
  local w, m = run { strategy = "serialized", workers = 1, frozen = frozen }
  local _, _, e = run { strategy = "serialized", workers = 2, frozen = frozen, evaluate = true }
  if thorough then
    local w2, m2 = run { strategy = "serialized", workers = 1, frozen = frozen }
    assert(w == w2 and m == m2, "the same run twice gives other bits")
  end
  for depth = 1, 4 do
    for _, evaluate in ipairs(thorough and { false, true } or { depth % 2 == 0 }) do
      local workers = 2 * depth - (evaluate and 0 or 1) -- 1..8
      local pw, pm, pe = run { strategy = "pipelined", depth = depth, workers = workers, frozen = frozen, evaluate = evaluate }
      local what = ("frozen=%s depth=%d workers=%d evaluate=%s"):format(frozen, depth, workers, evaluate)
      assert(pm == m, what .. ": other metrics")
      assert(pw == w, what .. ": other weights")
      assert(not evaluate or pe == e, what .. ": other evaluation")
      compared = compared + 1
    end
  end
end
os.remove(path)
os.remove(stem)
print(("same bits in %d pipelined runs"):format(compared))
