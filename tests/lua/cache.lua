-- SPDX-License-Identifier: MIT
-- What a frozen stage gives, kept: the same bits as without, over strategies, devices, evaluations and weights that are loaded in
-- between; images are read once; what cannot be kept is refused.
-- needs: onednn images jansson
-- once: scripts
local sp = require "spcore"
local t = require "check"
local sys = require "spcore.sys"

local dir <close> = t.folder()
local files = { dir.path .. "/1.safetensors", dir.path .. "/2.safetensors" }

-- A U-Net whose decoder reads some of the maps, over two epochs and a half with short batches; the losses of all steps and of the
-- evaluations in words.
local function losses(how)
  local list = {}
  local function put(x) list[#list + 1] = ("%.9g"):format(x) end
  local g <close> = sp.graph {
    device = how.device, strategy = how.strategy, shards = how.shards, seed = how.seed or 1, threads = 2,
    run_ahead = how.run_ahead,
  }
  local function source(split)
    return g.reader { path = "shapes", split = split, size = 16, batch = how.batch or 4, samples = 18, val_fraction = 0.25 }
  end
  local data, val = source "train", source "val"
  local x = g.normalize { data.image, scale = true, mean = 0.5, std = 0.25 }.images
  local enc = g.encoder { x, model = "unet", width = 4, levels = 2, convs = 1, frozen = true, cache = how.cache }
  local dec = g.decoder { enc.features, skips = enc.maps, model = "unet", width = 4, convs = 1, classes = data.classes }
  g:train { g.cross_entropy { dec.logits, data.mask }, optimizer = g.adamw { lr = 1e-2 } }
  if how.save then g:save(how.save) end
  for step, m in g:steps(10) do
    put(m.loss)
    if step == 4 then put(g:evaluate { data = val }.loss) end
    if step == how.at then g:load(files[2], enc) end
  end
  put(g:evaluate { data = val }.loss)
  put(g:evaluate { data = data }.loss)
  local kept = g:memory()
  return table.concat(list, " "), kept, g:describe()
end

do
  local plain, memory, words = losses {}
  t.eq(memory.cache, 0)
  t.ok(words:find("encoder.forward", 1, true))
  local cached
  cached, memory, words = losses { cache = "device" }
  t.eq(cached, plain)
  -- 13 and 5 samples: features of 16 x 4 x 4, maps of 4 x 16 x 16 and 8 x 8 x 8
  t.eq(memory.cache, 18 * 4 * (16 * 4 * 4 + 4 * 16 * 16 + 8 * 8 * 8))
  t.ok(words:find("encoder.cached", 1, true))
  t.ok(words:find(("cache encoder: 13 x %d bytes, device\n"):format(memory.cache // 18), 1, true))
  t.ok(not words:find("encoder.forward", 1, true) and not words:find("normalize", 1, true), "what only the encoder needs is gone")
  for _, how in ipairs {
    { strategy = "pipelined" }, { strategy = "deep" }, { device = "mock" }, { device = "mock", strategy = "pipelined" },
    { device = "simmock" },
  } do
    how.cache = "host"
    local bits
    bits, memory = losses(how)
    t.eq(bits, plain, ("%s %s"):format(how.device, how.strategy))
    t.eq(memory.host > 0, how.device ~= nil, "host memory, where the device has its own")
  end
  local shards = losses { shards = 2, batch = 2 }
  t.eq(losses { shards = 2, batch = 2, cache = "device", strategy = "pipelined" }, shards)
end

do -- other weights, in the middle of a loop
  losses { seed = 2, save = files[2] }
  local plain = losses { at = 3, run_ahead = 0 }
  t.ok(plain ~= losses {})
  t.eq(losses { at = 3, run_ahead = 0, cache = "device" }, plain)
  plain = losses { at = 3, strategy = "pipelined" }
  t.eq(losses { at = 3, strategy = "pipelined", cache = "device" }, plain)
end

do -- once all is kept no image is read, and a broken one is replaced by the same other one
  local function run(line) t.eq(t.spcore(dir.path, "run " .. line .. " --device cpu --threads 2"), 0, line) end
  local function remove(keep)
    for _, class in ipairs(sys.list(dir.path .. "/set")) do
      local at = dir.path .. "/set/" .. class
      for i, name in ipairs(sys.list(at) or {}) do
        if keep then
          if i == 1 then t.write(at .. "/" .. name, "broken") end
        else
          os.remove(at .. "/" .. name)
        end
      end
    end
  end
  local function probe(cache)
    local g <close> = sp.graph { device = "cpu", threads = 2 }
    local data = g.reader { path = dir.path .. "/set", target = "class", size = 16, batch = 4, max_bad = 99 }
    local enc = g.encoder { g.to_float { data.image, scale = true }, model = "plain", width = 8, frozen = true, cache = cache }
    local head = g.classifier { enc.features, model = "pool", classes = data.classes }
    g:train { g.cross_entropy { head.logits, data.label }, optimizer = g.sgd { lr = 0.1 } }
    local list = {}
    for _, m in g:steps(12) do
      if cache and not list[1] then remove(false) end
      list[#list + 1] = ("%.9g"):format(m.loss)
    end
    return table.concat(list, " ")
  end
  run "make_shapes.lua set --target class --samples 20 --size 24 --quiet"
  remove(true)
  local plain = probe()
  t.eq(probe "device", plain)
end

do -- so is one whose mask is broken, though a filling needs no mask
  t.eq(t.spcore(dir.path, "run make_shapes.lua masked --samples 12 --size 24 --quiet --device cpu"), 0)
  t.write(dir.path .. "/masked/masks/00003.png", "broken")
  t.write(dir.path .. "/masked/images/00005.jpg", "broken")
  local function segment(cache)
    local g <close> = sp.graph { device = "cpu", threads = 2 }
    local data = g.reader { path = dir.path .. "/masked", size = 16, batch = 4, max_bad = 99 }
    local enc = g.encoder { g.to_float { data.image, scale = true }, model = "plain", width = 4, frozen = true, cache = cache }
    local dec = g.decoder { enc.features, layers = { { "conv", 6, kernel = 1 }, { "upsample", size = 16 } }, classes = 6 }
    g:train { g.cross_entropy { dec.logits, data.mask }, optimizer = g.sgd { lr = 0.1 } }
    local list = {}
    for _, m in g:steps(6) do list[#list + 1] = ("%.9g"):format(m.loss) end
    return table.concat(list, " ")
  end
  t.eq(segment "device", segment())
end

do -- a run that is killed goes on, and one that is interrupted while a table is filled ends with no step
  t.write(dir.path .. "/train.lua", [[
local sp = require "spcore"
local opt = sp.args({ cache = { "off", "of the encoder" }, at = { -1, "step behind which `command` runs" },
  command = { "", "a command" }, ms = { 0, "that a batch of the encoder takes" }, samples = { 40, "" } }, { checkpoints = true })
local g <close> = sp.graph(opt)
local function source(split)
  return g.reader { path = "shapes", split = split, target = "class", size = 16, batch = 4, samples = opt.samples, val_fraction = 0.25 }
end
local data, val = source "train", source "val"
local x = g.sleep { g.to_float { data.image, scale = true }, ms = opt.ms }.y
local enc = g.encoder { x, model = "unet", width = 4, levels = 2, frozen = true, cache = opt.cache }
local head = g.classifier { enc.features, model = "pool", classes = data.classes }
g:train { g.cross_entropy { head.logits, data.label }, optimizer = g.adamw { lr = 1e-2 } }
g:evaluate { data = val, every = 6 }
local run <close> = sp.run { graph = g, opt = opt, steps = 20 }
for step, m in g:steps(run:rest()) do
  run:step(step, m)
  if step == opt.at then os.execute(opt.command) end
end
run:finish()
]])
  local function run(line)
    return t.spcore(dir.path, "run train.lua --device cpu --threads 2 --quiet " .. line, "env --default-signal=INT")
  end
  local function weights(name) return t.read(("%s/%s/weights.safetensors"):format(dir.path, name)) end
  t.eq(run "--out whole --checkpoint-every 8", 0)
  t.eq(run "--out killed --checkpoint-every 8 --cache device --strategy pipelined --at 13 --command 'kill -KILL $PPID'", 137)
  t.eq(run "--resume killed --cache device --at -1 --override", 0)
  t.eq(weights "killed", weights "whole")
  t.eq(run "--checksums --out plain", 0)
  t.eq(run "--checksums --out cached --cache device", 0)
  local code, out = t.spcore(dir.path, "diff plain cached")
  t.eq(code, 0, out) -- images, as floats, behind the sleep
  t.match(out, "^same bits: 20 steps, %d+ edges; 3 only plain computes\n$")
  t.match(t.read(dir.path .. "/cached/checksums.jsonl"), '^[^\n]+"reader%.image":null')
  code, out = t.spcore(dir.path, "diff cached plain")
  t.match(code .. out, "^0same bits: .*; 3 only plain computes\n$")
  t.eq(run "--out shards --shards 2", 0) -- each rank has all samples
  t.eq(run "--out ranks --shards 2 --ranks 2 --cache device", 0)
  t.eq(weights "ranks", weights "shards")
  local _, table_of = t.spcore(dir.path, "schedule train.lua --device mock --cache host")
  t.ok(table_of:find "\n  host +%d+ +%d+\n" and not table_of:find "\n  cache ", table_of)
  -- the whole table takes hours
  code, out = t.interrupted(dir.path, "run train.lua --device cpu --cache host --samples 400000 --ms 100 --out cut", "filling the cache")
  t.eq(code, 130)
  t.ok(out:find("stopped after 0 steps", 1, true), out)
end

do -- what is refused
  local function graph(build)
    local g <close> = sp.graph { device = "cpu" }
    local data = g.reader { path = "shapes", target = "class", size = 16, batch = 4, samples = 8 }
    local head = g.classifier { build(g, data), model = "pool", classes = data.classes }
    g:train { g.cross_entropy { head.logits, data.label }, optimizer = g.sgd { lr = 0.1 } }
    for _ in g:steps(1) do end
  end
  local function encoder(g, x, options)
    if x.dtype == "uint8" then x = g.to_float { x, scale = true } end
    local all = { x, model = "plain", width = 4, frozen = true, cache = "device" }
    for k, v in pairs(options or {}) do all[k] = v end
    return g.encoder(all).features
  end
  t.raises("stage 'encoder': cache = \"device\": what is trained gives something else in each step: set frozen = true", graph,
    function(g, data) return encoder(g, data.image, { frozen = false }) end)
  t.raises("stage 'encoder': cache = \"host\": 'flip' draws random numbers, .*: leave it away, or take cache = \"off\"", graph,
    function(g, data) return encoder(g, g.flip { data.image }.images[1], { cache = "host" }) end)
  t.raises("stage 'encoder': cache = \"device\": 'layers' changes in training: set frozen = true there, or", graph,
    function(g, data)
      return encoder(g, g.layers { g.to_float { data.image }, layers = { { "conv", 3, kernel = 1 } } }.features)
    end)
  t.raises("cache 'disk': choose one of off, device, host", graph,
    function(g, data) return encoder(g, data.image, { cache = "disk" }) end)
  t.raises("stage 'other': cache = \"device\": it is a source", graph,
    function(g) return g.reader { path = "shapes", batch = 2, name = "other", cache = "device" }.image end)

  local function too_large(options, reader, cache, first)
    local g <close> = sp.graph(options)
    local data = g.reader(reader)
    local x = g.to_float { data.image, scale = true, frozen = true, cache = first }
    local enc = g.encoder { x, model = "plain", width = 4, frozen = true, cache = cache }
    local head = g.classifier { enc.features, model = "pool", classes = data.classes }
    g:train { g.cross_entropy { head.logits, data.label }, optimizer = g.sgd { lr = 0.1 } }
    for _ in g:steps(1) do end
  end
  local reader = { path = "shapes", target = "class", size = 64, batch = 2, samples = 2000 }
  local wanted = "the cache of 'encoder' needs 2[%d.]+ MiB of memory, %-%-memory%-limit allows [%d.]+: take cache = "
  local small = { device = "cpu", memory_limit = 3 }
  t.raises(wanted .. '"off", or fewer samples', too_large, small, reader, "device")
  small.device = "mock"
  t.raises(wanted .. '"host" or "off"', too_large, small, reader, "device")
  too_large(small, reader, "host")
  t.raises("the caches of 'to_float' and 1 more need [%d.]+ MiB of memory, ", too_large, small, reader, "device", "device")
  reader.size, reader.samples = 4096, 2000000000
  t.raises("the cache of 'encoder' needs [%d.]+ GiB of memory, the host has [%d.]+: take cache = \"off\", or fewer samples",
    too_large, { device = "mock" }, reader, "host")
end
