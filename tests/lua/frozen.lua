-- SPDX-License-Identifier: MIT
-- A frozen stage keeps weights and statistics, and passes the same gradient on as one that is trained.
-- needs: onednn images jansson
local sp = require "spcore"
local t = require "check"

local dir <close> = t.folder()
local path = dir.path .. "/weights.safetensors"

-- All weights before and after `steps` steps.
local function train(build, steps)
  local g <close> = sp.graph { seed = 5, threads = 2 }
  local data = g.reader { path = "shapes", size = { 16, 16 }, batch = 4, samples = 4 }
  local logits = build(g, g.to_float { data.image, scale = true }, data.classes)
  g:train { g.cross_entropy { logits, data.mask }, optimizer = g.sgd { lr = 0.5 } }
  g:save(path)
  local before = t.tensors(path)
  for _ in g:steps(steps) do end
  g:save(path)
  return before, t.tensors(path)
end

-- The largest difference of the numbers of those that begin so.
local function off(a, b, prefix)
  local most = 0
  for name, bytes in pairs(a) do
    for i = 1, name:sub(1, #prefix) == prefix and #bytes or 0, 4 do
      most = math.max(most, math.abs(("<f"):unpack(bytes, i) - ("<f"):unpack(b[name], i)))
    end
  end
  return most
end

local function count(before, after, prefix)
  local same, other = 0, 0
  for name, bytes in pairs(after) do
    if name:sub(1, #prefix) == prefix then
      if bytes == before[name] then same = same + 1 else other = other + 1 end
    end
  end
  return same, other
end

do -- one step: where the encoder arrives does not depend on whether the decoder goes too
  local function plain(frozen)
    return function(g, image, classes)
      local enc = g.encoder { image, model = "plain", width = 8, levels = 2 }
      return g.decoder { enc.features, model = "plain", width = 8, classes = classes, frozen = frozen }.logits
    end
  end
  local start, both = train(plain(false), 1)
  local _, alone = train(plain(true), 1)
  local same, other = count(start, both, "encoder.")
  t.eq(same, 0, "all of the encoder is trained")
  t.eq(other, 6)
  t.ok(off(both, alone, "encoder.") < 1e-4 * off(start, both, "encoder."), "as with a trained decoder")
  same, other = count(start, alone, "decoder.")
  t.eq(same, 6, "the frozen decoder stays")
  t.eq(other, 0)
end

do -- weights that are loaded before anything is known to be trained lie as they will for the training
  local function plain(g, image, classes)
    local enc = g.encoder { image, model = "plain", width = 8, levels = 2, weights = path }
    return g.decoder { enc.features, model = "plain", width = 8, classes = classes, weights = path, frozen = true }.logits
  end
  local before, after = train(plain, 1)
  local same, other = count(before, after, "decoder.")
  t.eq(same, 6)
  t.eq(other, 0)
  t.ok(off(before, after, "encoder.") > 1e-6)
end

do -- batch norm: a frozen one counts no statistics, also where a gradient goes through it
  local function unet(encoder, decoder)
    return function(g, image, classes)
      local enc = g.encoder { image, model = "unet", width = 8, levels = 1, convs = 1, frozen = encoder }
      return g.decoder {
        enc.features, skips = enc.maps, model = "unet", width = 8, convs = 1, classes = classes, frozen = decoder,
      }.logits
    end
  end
  for _, frozen in ipairs { "encoder", "decoder" } do
    local start, ended = train(unet(frozen == "encoder", frozen == "decoder"), 3)
    local _, changed = count(start, ended, frozen .. ".")
    t.eq(changed, 0, frozen .. " is frozen")
    local stays = count(start, ended, (frozen == "encoder" and "decoder" or "encoder") .. ".")
    t.eq(stays, 0, "all but the " .. frozen .. " is trained")
  end
end

do -- what is made of frozen weights once is made anew when others are loaded, in the middle of a loop too
  local layers = { { "conv", 4, kernel = 3, pad = 1 }, { "batch_norm" }, { "relu" }, { "conv", 4, kernel = 3, pad = 1, name = "a" },
    { "batch_norm", name = "b" }, { "add", from = { "b", "2" } }, { "relu" } }
  local files = { dir.path .. "/1.safetensors", dir.path .. "/2.safetensors" }
  local function losses(seed, other, at)
    local g <close> = sp.graph { seed = seed, threads = 2, run_ahead = 0 }
    local data = g.reader { path = "shapes", size = { 16, 16 }, batch = 4, samples = 4, shuffle = false }
    local enc = g.layers { g.to_float { data.image, scale = true }, layers = layers, name = "enc", frozen = true }
    local head = g.layers { enc.features, layers = { { "conv", data.classes, kernel = 1 } }, name = "head", frozen = true }
    local tail = g.layers { head.features, layers = { { "conv", data.classes, kernel = 1, bias = false } }, name = "tail" }
    g:train { g.cross_entropy { tail.features, data.mask }, optimizer = g.sgd { lr = 0 } }
    local list = {}
    g:save(files[seed])
    if other and not at then g:load(files[other], enc) end
    for step, m in g:steps(6) do
      list[#list + 1] = ("%.9g"):format(m.loss)
      if step == at then g:load(files[other], enc) end
    end
    return list
  end
  local one, two = losses(1), losses(2)
  t.ok(one[1] ~= two[1], "other weights, another loss")
  local changed = losses(1, 2)
  local midway = losses(1, 2, 2)
  t.ok(changed[1] ~= one[1], "loaded before the loop")
  t.eq(table.concat(midway, " ", 1, 3), table.concat(one, " ", 1, 3), "until then")
  t.eq(table.concat(midway, " ", 4), table.concat(changed, " ", 4), "loaded in its middle")
end

do -- the precision of one stage
  local g <close> = sp.graph { device = "cpu" }
  local data = g.toy_source { batch = 2 }
  local layers = { { "linear", 3 } }
  local net = g.layers { data.x, layers = layers, precision = "fp32" }
  t.eq(net.precision, "fp32")
  t.raises("stage 'half'.*precision: device 'cpu' computes in fp32 only", g.layers,
    { data.x, layers = layers, name = "half", precision = "bf16" })
  t.raises("precision 'fp16': choose one of fp32, tf32, bf16", g.layers, { data.x, layers = layers, precision = "fp16" })
end

-- ---- the name that the number of halvings had ----
t.write(dir.path .. "/old.lua", [[
local sp = require "spcore"
local g <close> = sp.graph { device = "cpu" }
local data = g.reader { path = "shapes", size = 16, batch = 2, samples = 4 }
local image = g.to_float { data.image, scale = true }
for i = 1, 2 do
  local old, new = g.encoder { image, depth = 2, width = 4 }, g.encoder { image, levels = 2, width = 4 }
  print(old.features.shape[3], new.features.shape[3])
end
print(pcall(g.encoder, { image, depth = 2, levels = 2 }))
]])
local code, out, err = t.spcore(dir.path, "run old.lua")
t.eq(code, 0, err)
t.match(out, "^4\t4\n4\t4\nfalse\t.*parameter 'levels' is given twice: 'depth' is its old name")
t.one_line(err, "^spcore: parameter 'depth' is called 'levels' now; the old name still works")
