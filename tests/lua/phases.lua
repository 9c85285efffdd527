-- SPDX-License-Identifier: MIT
-- Phases of a training: weights that stay as they are until a step or an epoch. Until then nothing of them moves; from then on the
-- others go on with what the optimizer has kept of them; the same bits in every strategy, on every device, with every capture,
-- shards, averages, skipped updates; resumed before, at and behind the border. Beside PyTorch: parity/groups.py.
-- needs: onednn images jansson
local sp = require "spcore"
local t = require "check"

local dir <close> = t.folder()
local path, cut = dir.path .. "/weights.safetensors", dir.path .. "/cut.safetensors"
local devices = os.getenv "SP_TEST_DEVICES" or "cpu mock sim"
local EPOCH <const> = 6

local function make(s)
  local g = sp.graph { device = s.device or "cpu", capture = s.capture, strategy = s.strategy, depth = 2, seed = 3, threads = 1,
    shards = s.shards, run_ahead = s.run_ahead }
  local data = g.reader { path = "shapes", size = { 16, 16 }, batch = 4 // (s.shards or 1), samples = 24 }
  local image = g.to_float { data.image, scale = true }
  local enc = g.encoder { image, model = "unet", width = 4, levels = 1, convs = 1, statistics = s.statistics }
  local dec = g.decoder { enc.features, skips = enc.maps, model = "unet", width = 4, convs = 1, classes = data.classes }
  local p = {}
  for k, v in pairs(s.params) do p[k] = v end
  g:train { g.cross_entropy { dec.logits, data.mask }, optimizer = g[s.optimizer or "adamw"](p), accumulate = s.accumulate }
  if s.eval then g:evaluate { data = data, every = s.eval } end
  return g
end

local function save(g, name)
  g:save(name, { optimizer = true })
  return t.tensors(name)
end

-- from: a step at which it was saved in `cut`
local function run(s, steps, from)
  local g <close> = make(s)
  if from then
    g:seek(from)
    g:load(cut)
  end
  local n = from or 0
  for step, m in g:steps(steps - n) do
    t.eq(step, n)
    n = n + 1
    if s.eval and n % s.eval == 0 then t.ok(m.eval) end
  end
  t.eq(n, steps)
  return save(g, from and path or cut)
end

local function same(a, b, what)
  for name, bytes in pairs(a) do t.ok(bytes == b[name], what .. ": " .. name) end
  for name in pairs(b) do t.ok(a[name], what .. ": " .. name) end
end

local late = { { "encoder", at = "epoch 1" } }

-- ---- what moves when ----
do
  local s = { params = { lr = 0.01, unfreeze = late } }
  local start = save(make(s), path)
  local before, behind = run(s, EPOCH), run(s, EPOCH + 1)
  local held, moments = 0, {}
  for name, bytes in pairs(before) do
    local weight = name:find "^encoder" and (name:find "weight$" or name:find "bias$")
    if weight then
      held = held + 1
      t.ok(bytes == start[name], name .. " stays")
      t.ok(bytes ~= behind[name], name .. " moves")
    elseif name:find "^decoder" then t.ok(bytes ~= start[name], name .. " moves")
    elseif name:find "exp_avg%." then moments[name] = true
    end
  end
  t.eq(held, 6)
  t.ok(moments["adamw.exp_avg.6"] and not moments["adamw.exp_avg.7"], "no moment of what stays")
  t.eq(("<i8"):unpack(behind["adamw.step"]), EPOCH + 1)
  t.eq(("<i8"):unpack(behind["adamw.phase_steps"]), 1)
  -- until then it is the training in which the encoder stays
  local plain = run({ params = { lr = 0.01, groups = { { "encoder.*", frozen = true } } } }, EPOCH)
  for name, bytes in pairs(plain) do t.ok(bytes == before[name], name) end
end

-- ---- the same bits, and resumed at any step ----
do
  local three = { { "encoder.levels.1", at = 3 }, { "encoder.levels.0.*", at = "epoch 1" }, { "decoder.head.bias", at = 8 } }
  local cases = {
    { params = { lr = 0.01, unfreeze = late, ema = 0.5, clip_norm = 1 }, eval = 4 },
    { params = { lr = 0.01, unfreeze = three, no_decay = "norm_bias", nonfinite = "skip", ema = 0.9 }, shards = 2, run_ahead = 0 },
    { optimizer = "sgd", params = { lr = 0.1, momentum = 0.5, dampening = 0.5, weight_decay = 0.1, unfreeze = late,
      groups = { { "encoder", lr = 0.5 }, { "decoder.up.*", frozen = true } } }, accumulate = 2 },
    { params = { lr = 0.01, unfreeze = { { "encoder.levels.1", at = 3 }, { "encoder", at = 4 } } }, accumulate = 2 }, -- both at 4
    { optimizer = "sgd", params = { lr = 0.1, unfreeze = late } }, -- in place
    { optimizer = "sgd", params = { lr = 0.1, unfreeze = three }, shards = 2 },
  }
  local small = devices == "cuda" -- as on the emulator
  for i, case in ipairs(small and { cases[1], cases[2] } or cases) do
    local want
    for device in devices:gmatch "%S+" do
      for _, strategy in ipairs { "serialized", "pipelined", "double_buffer" } do
        case.device, case.strategy = device, strategy
        local graphs = device == "mock" or device:match "^cuda"
        case.capture = graphs and (strategy == "pipelined" and "step" or strategy == "double_buffer" and "off" or "lane") or nil
        local got = run(case, 2 * EPOCH)
        want = want or got
        same(want, got, ("case %d, %s, %s"):format(i, device, strategy))
      end
    end
    for _, step in ipairs(small and {} or case.accumulate and { 2, 6, 8 } or { 2, 3, 6, 7 }) do
      run(case, step)
      same(want, run(case, 2 * EPOCH, step), ("case %d, resumed at %d"):format(i, step))
    end
  end
end

-- ---- loops that end early, or begin where a phase does ----
do
  local s = { params = { lr = 0.01, unfreeze = late }, run_ahead = 2 }
  local want = run(s, 2 * EPOCH)
  for _, lengths in ipairs { { 6, 6 }, { 5, 1, 1, 5 }, { 12 }, { 1, 11 } } do
    local g <close> = make(s)
    for _, n in ipairs(lengths) do
      for _ in g:steps(n) do end
    end
    same(want, save(g, path), table.concat(lengths, "+"))
  end
  local g <close> = make(s)
  for step in g:steps() do
    if step == 3 then break end -- 4 and two that have begun
  end
  t.eq(g:step(), 6)
  for _ in g:steps(6) do end
  same(want, save(g, path), "after break")
  local other <close> = make(s)
  for step in other:steps() do
    if step == 9 then break end
  end
  t.eq(other:step(), 12)
  same(want, save(other, path), "without end")
end

-- ---- with statistics that stay nothing of a frozen stage changes: then it runs ahead ----
do
  local s = { params = { lr = 0.01, unfreeze = late }, statistics = "keep", strategy = "pipelined" }
  local start, want = save(make(s), path), run(s, 2 * EPOCH)
  for name, bytes in pairs(start) do
    local kept = name:find "running" or name:find "tracked"
    if kept and name:find "^encoder" then t.ok(bytes == want[name], name .. " stays") end
    if kept and name:find "^decoder" then t.ok(bytes ~= want[name], name .. " moves") end
  end
  s.strategy = "serialized"
  same(want, run(s, 2 * EPOCH), "statistics kept")
  local g <close> = make { params = s.params, statistics = "keep", strategy = "pipelined" }
  local function lane_of_encoder()
    for _, lane in ipairs(g:lanes()) do
      if table.concat(lane.stages, " "):find "encoder" then return lane.name end
    end
  end
  t.eq(lane_of_encoder(), "ahead")
  for _ in g:steps(EPOCH + 1) do end
  t.ok(lane_of_encoder() ~= "ahead", "trained, it does not")
end

-- ---- auto chooses for each phase; what is planned is shown of all ----
do
  local s = { params = { lr = 0.01, unfreeze = late } }
  local want = run(s, EPOCH + 2)
  s.strategy = "auto"
  same(want, run(s, EPOCH + 2), "auto")
end

-- ---- what is said ----
do
  t.write(dir.path .. "/say.lua", [[
local sp = require "spcore"
local opt = sp.args { how = { "", "" } }
local g <close> = sp.graph(opt)
local data = g.reader { path = "shapes", size = { 16, 16 }, batch = 4, samples = 24 }
local enc = g.encoder { g.to_float { data.image, scale = true }, model = "unet", width = 4, levels = 1, convs = 1 }
local dec = g.decoder { enc.features, skips = enc.maps, model = "unet", width = 4, convs = 1, classes = data.classes }
local how = load("return " .. opt.how)()
g:train { g.cross_entropy { dec.logits, data.mask }, optimizer = g.adamw(how), accumulate = how.k }
for _ in g:steps(8) do end
]])
  local function say(how, code, more)
    local got, out, err = t.spcore(dir.path, ("run say.lua --device cpu --how '%s' %s"):format(how, more or ""))
    t.eq(got, code or 0, out .. err)
    return out, err
  end
  local out, err = say '{ unfreeze = { { "encoder.levels.1", "encoder.levels.0.1", at = "epoch 1" }, { "encoder", at = 7 } } }'
  t.eq(out, "step 7, epoch 1: encoder.levels.1, encoder.levels.0.1 are trained from here on\nstep 8, step 7: encoder is trained from here on\n")
  t.match(err, "groups: encoder.levels.1, encoder.levels.0.1, frozen until epoch 1: 5 tensors, 312 parameters; the running")
  out = say('{ unfreeze = { { "encoder", at = "epoch 1" } } }', 0, "--explain --strategy pipelined")
  t.match(out, "from epoch 1 on.*encoder.backward")
  for text, want in pairs {
    ['{ unfreeze = 3 }'] = 'g.adamw{}: unfreeze is a list, such as { { "encoder.layer4", at = "epoch 3" } }, got a number',
    ['{ unfreeze = { "encoder" } }'] = "unfreeze[1]: a table is wanted",
    ['{ unfreeze = { { "encoder" } } }'] = 'unfreeze[1]: at is a number of steps, such as at = 500, or of epochs, such as at = '
      .. '"epoch 3", got nothing',
    ['{ unfreeze = { { "encoder", at = "epoch three" } } }'] = 'got "epoch three"',
    ['{ unfreeze = { { "encoder", at = 0 } } }'] = "got 0",
    ['{ unfreeze = { { "encoder", at = 2.5 } } }'] = "got 2.5",
    ['{ unfreeze = { { at = 4 } } }'] = "unfreeze[1] names no weights",
    ['{ unfreeze = { { "encoder", at = 4, lr = 0.1 } } }'] = "unfreeze[1] has no field 'lr'",
    ['{ unfreeze = { { "encoderr", at = 4 } } }'] = "no weight's name fits 'encoderr'; did you mean 'encoder'?",
    ['{ unfreeze = { { "encoder", at = 4 }, { "decoder.head", at = 2 } } }'] = "unfreeze: step 2 does not come after step 4; list them in order",
    ['{ unfreeze = { { "encoder", at = 4 } }, groups = { { "encoder.*", frozen = true } } }'] =
      "unfreeze: another group freezes 'encoder' for good; leave it out of one of the two",
    ['{ unfreeze = { { "*", at = 4 } } }'] = "nothing that loss 'cross_entropy' depends on is trained before unfreeze says so",
  } do
    local _, why = say(text, 1)
    t.ok(why:find(want, 1, true), text .. ": " .. why)
    t.eq(select(2, why:gsub("spcore: groups:[^\n]*\n", ""):gsub("\n", "")), 1, why)
  end
end
