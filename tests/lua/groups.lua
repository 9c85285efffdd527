-- SPDX-License-Identifier: MIT
-- Groups of parameters: factors on rate and decay by names of weights, weights that stay as they are, no_decay and layer_decay;
-- what fits is said once, what fits nothing is an error; the same bits in every strategy, on every device, with every
-- capture, shards, several steps an update, averages, clipping. Beside PyTorch: parity/optim.py, parity/groups.py.
-- needs: onednn images jansson
local sp = require "spcore"
local t = require "check"

local dir <close> = t.folder()
local path = dir.path .. "/weights.safetensors"
local devices = os.getenv "SP_TEST_DEVICES" or "cpu mock sim"

local function make(s)
  local g = sp.graph { device = s.device or "cpu", capture = s.capture, strategy = s.strategy, depth = 2, seed = 3, threads = 1,
    shards = s.shards }
  local data = g.reader { path = "shapes", size = { 16, 16 }, batch = 4, samples = 24 }
  local image = g.to_float { data.image, scale = true }
  local enc = g.encoder { image, model = "unet", width = 4, levels = 1, convs = 1, frozen = s.encoder }
  local dec = g.decoder { enc.features, skips = enc.maps, model = "unet", width = 4, convs = 1, classes = data.classes }
  local p = {}
  for k, v in pairs(s.params or {}) do p[k] = v end
  g:train { g.cross_entropy { dec.logits, data.mask }, optimizer = g[s.optimizer or "adamw"](p), accumulate = s.accumulate }
  return g
end

local function run(s)
  local g <close> = make(s)
  for _ in g:steps(s.steps or 5) do end
  g:save(path, { optimizer = true })
  return t.tensors(path)
end

local function start(s)
  local g <close> = make(s)
  g:save(path)
  return t.tensors(path)
end

local function floats(bytes)
  local out = {}
  for i = 1, #bytes, 4 do out[#out + 1] = (("<f"):unpack(bytes, i)) end
  return out
end

-- ---- one step of plain SGD: a weight moves by its factor times what it moves by else ----
do
  local before = start {}
  local plain = run { optimizer = "sgd", params = { lr = 0.5 }, steps = 1 }
  local part = run { optimizer = "sgd", params = { lr = 0.5, groups = { { "encoder.*", lr = 0.25 }, { "*.bias", "decoder.head.*", lr = 0.5 } } },
    steps = 1 }
  local seen = 0
  for name, bytes in pairs(before) do
    if name:find "%.weight$" or name:find "%.bias$" then
      local factor = (name:find "^encoder" and 0.25 or 1) * ((name:find "%.bias$" or name:find "^decoder.head") and 0.5 or 1)
      local a, b, c = floats(bytes), floats(plain[name]), floats(part[name])
      for i = 1, #a do t.ok(math.abs((c[i] - a[i]) - factor * (b[i] - a[i])) < 2e-7, name) end
      seen = seen + 1
    end
  end
  t.eq(seen, 13)
end

-- ---- frozen = true: neither gradient nor moment; all else as with the rate 0 ----
do
  local before = start {}
  local frozen = run { params = { lr = 0.01, groups = { { "encoder.levels.0.0.weight", "decoder.up.*", frozen = true } } } }
  local still = run { params = { lr = 0.01, groups = { { "encoder.levels.0.0.weight", "decoder.up.*", lr = 0 } } } }
  local moments, kept = 0, 0
  for name, bytes in pairs(frozen) do
    if name:find "exp_avg%." then moments = moments + 1 end
    if name:find "^encoder" or name:find "^decoder" then
      t.ok(bytes == still[name], name)
      if bytes == before[name] then kept = kept + 1 end
    end
  end
  t.eq(moments, 13 - 3)
  t.eq(kept, 3)
  -- a stage of which nothing is left to train needs no gradient
  local g <close> = make { params = { groups = { { "encoder.*", frozen = true } } } }
  for line in g:describe():gmatch "[^\n]+" do
    t.ok(not (line:find "encoder" and line:find "backward"), "no gradient for the encoder: " .. line)
  end
  local names = {}
  for _, w in ipairs(g:find("encoder"):weights()) do names[#names + 1] = tostring(w.trained) end
  t.ok(not table.concat(names):find "true", "none of them is trained")
end

-- ---- nothing is trained in groups of which all factors are 1, and decay 0 is another matter than rate 0 ----
do
  local function same(a, b) for name, bytes in pairs(a) do t.ok(bytes == b[name], name) end end
  same(run {}, run { params = { groups = { { "*", lr = 1 }, { "encoder.*", decay = 1 } } } })
  same(run { params = { weight_decay = 0 } }, run { params = { groups = { { "*", decay = 0 } } } })
  same(run { params = { weight_decay = 0.5, no_decay = { "*.bias", "*.1.weight" } } },
    run { params = { weight_decay = 0.5, groups = { { "*.bias", "*.1.weight", decay = 0 } } } })
  same(run { params = { weight_decay = 0.5, no_decay = "norm_bias" } },
    run { params = { weight_decay = 0.5, no_decay = { "*.bias", "*.levels.?.1.weight" } } })
end

-- ---- the same bits ----
do
  local mixed = { { "encoder.*", lr = 0.1 }, { "*.bias", decay = 0 }, { "decoder.levels.0.0.weight", frozen = true } }
  local cases = {
    { params = { lr = 0.01, groups = mixed, ema = 0.5, clip_norm = 1 } },
    { params = { lr = 0.01, groups = mixed, nonfinite = "skip", no_decay = "norm_bias" }, shards = 2 },
    { optimizer = "sgd", params = { lr = 0.1, momentum = 0.5, weight_decay = 0.1, groups = mixed }, accumulate = 2 },
    { optimizer = "sgd", params = { lr = 0.1, groups = { { "*.bias", decay = 0 }, { "encoder.levels.0.*", frozen = true } } } }, -- in place
    { optimizer = "sgd", params = { lr = 0.1, groups = { { "encoder.*", lr = 0.5 } } }, shards = 2 },
  }
  local ways = {}
  for device in devices:gmatch "%S+" do
    for _, strategy in ipairs { "serialized", "pipelined", "double_buffer" } do
      ways[#ways + 1] = { device, strategy, strategy == "pipelined" and "step" or strategy == "double_buffer" and "off" or "lane" }
    end
  end
  for i, case in ipairs(cases) do
    local want
    for _, way in ipairs(ways) do
      case.device, case.strategy, case.capture = table.unpack(way)
      if not case.device:match "^cuda" and case.device ~= "mock" then case.capture = nil end
      local got = run(case)
      want = want or got
      for name, bytes in pairs(want) do t.ok(bytes == got[name], ("case %d, %s, %s: %s"):format(i, way[1], way[2], name)) end
    end
  end
end

-- ---- layer_decay: as timm's param_groups_layer_decay numbers the blocks ----
do
  local groups = require "spcore.groups"
  local function blocks(name, options)
    local out = {}
    for i, names in ipairs(groups.blocks(sp.models.get(name, options))) do out[i] = table.concat(names, " ") end
    return out
  end
  t.eq(table.concat(blocks("resnet18", { classes = 10 }), "|"), "conv1.* bn1.* relu.* maxpool.*|layer1.0.*|layer1.1.*|layer2.0.*|layer2.1.*"
    .. "|layer3.0.*|layer3.1.*|layer4.0.*|layer4.1.*")
  t.eq(#blocks "resnet50", 17)
  t.eq(#blocks "efficientnet_b0", 18)
  t.eq(#blocks "mobilenet_v3_large", 17)
  local g <close> = sp.graph { threads = 1 }
  local data = g.reader { path = "shapes", size = { 32, 32 }, batch = 2, samples = 4 }
  g.encoder { g.to_float { data.image, scale = true }, name = "net", layers = sp.models.resnet { 18 } }
  local o = g.sgd { lr = 1, layer_decay = 0.5, groups = { { "net.layer4.1.*", lr = 0.5 } } }
  local list = groups.of(g, o).groups
  t.eq(#list, 10)
  for i = 2, 10 do t.eq(list[i].lr, 0.5 ^ (11 - i)) end
  t.eq(list[10].names[1], "net.layer4.1.*")
  local function blocks_up_to(name)
    return table.concat(groups.of(g, g.sgd { groups = { { up_to = name, frozen = true } } }).groups[1].names, " ")
  end
  t.eq(blocks_up_to "layer1", "net.conv1.* net.bn1.* net.relu.* net.maxpool.* net.layer1.0.* net.layer1.1.*")
  t.eq(blocks_up_to "layer1.0", "net.conv1.* net.bn1.* net.relu.* net.maxpool.* net.layer1.0.*")
  local ok, err = pcall(blocks_up_to, "layer5")
  t.ok(not ok and tostring(err):find('no block has this name; there are conv1, layer1.0, layer1.1', 1, true), err)
end

-- ---- what fits is said ----
do
  t.write(dir.path .. "/say.lua", [[
local sp = require "spcore"
local opt = sp.args { how = { "", "" } }
local g <close> = sp.graph(opt)
local data = g.reader { path = "shapes", size = { 16, 16 }, batch = 4, samples = 24 }
local enc = g.encoder { g.to_float { data.image, scale = true }, model = "unet", width = 4, levels = 1, convs = 1 }
local kept = g.encoder { g.to_float { data.image, scale = true }, name = "kept", model = "unet", width = 4, levels = 1, convs = 1, frozen = true }
local dec = g.decoder { enc.features, skips = enc.maps, model = "unet", width = 4, convs = 1, classes = data.classes }
local how = load("return " .. opt.how)()
g:train { g.cross_entropy { dec.logits, data.mask }, optimizer = g[how.name or "adamw"](how.p) }
for _ in g:steps(2) do end
for _ in g:steps(2) do end
]])
  local function say(how, code)
    local got, out, err = t.spcore(dir.path, ("run say.lua --device cpu --how '%s'"):format(how))
    t.eq(got, code or 0, out .. err)
    return err
  end
  t.eq(say '{ p = { groups = { { "encoder.*", lr = 0.1 }, { "*.bias", "*.up.*", decay = 0 }, { "decoder.head.*", frozen = true } } } }',
    "spcore: groups: encoder.*, lr x 0.1: 6 tensors, 420 parameters\n"
    .. "spcore: groups: *.bias, *.up.*, decay x 0: 5 tensors, 148 parameters\n"
    .. "spcore: groups: decoder.head.*, frozen: 2 tensors, 30 parameters\n")
  t.match(say '{ p = { no_decay = "norm_bias" } }', '^spcore: groups: no_decay = "norm_bias", decay x 0: 8 tensors, %d+ parameters\n$')
  t.match(say '{ p = { groups = { { "encoder.levels.0.*", frozen = true } } } }',
    "3 tensors, %d+ parameters; the running statistics of its batch norms still follow the batches")
  for how, want in pairs {
    ['{ p = { groups = { { "encder.*", lr = 0.1 } } } }'] = "no weight's name fits 'encder.*'; did you mean 'encoder.*'?",
    ['{ p = { groups = { { "encoder.0.*", lr = 0.1 } } } }'] = "no weight's name fits 'encoder.0.*'; a name is such as 'encoder.levels.0.0.weight'",
    ['{ p = { groups = { { "kept.*", lr = 0.1 } } } }'] = "'kept.*' fits weights of 'kept' alone, which is frozen as a whole",
    ['{ p = { groups = { { "*", frozen = true } } } }'] = "nothing that loss 'cross_entropy' depends on is trained",
    ['{ p = { groups = { { lr = 0.1 } } } }'] = "g.adamw{}: groups[1] names no weights",
    ['{ p = { groups = { { "*" } } } }'] = "g.adamw{}: groups[1] says nothing of its weights",
    ['{ p = { groups = { { "*", rate = 1 } } } }'] = "groups[1] has no field 'rate'",
    ['{ p = { groups = { { "*", lr = -1 } } } }'] = "groups[1]: lr is a factor from 0 to 1e6, got -1",
    ['{ p = { groups = { { "*", lr = "2" } } } }'] = "groups[1]: lr is a factor from 0 to 1e6, got a string",
    ['{ p = { groups = { { "*", lr = 0/0 } } } }'] = "groups[1]: lr is a factor from 0 to 1e6",
    ['{ p = { groups = { { "*", lr = 2, frozen = true } } } }'] = "frozen weights have neither lr nor decay",
    ['{ p = { groups = { { 7, lr = 2 } } } }'] = "groups[1]: item 1 is a number",
    ['{ p = { groups = { "*" } } }'] = "groups[1]: a table is wanted",
    ['{ p = { groups = { lr = 0.1 } } }'] = "groups is a list of tables",
    ['{ p = { groups = 3 } }'] = "groups is a list",
    ['{ p = { no_decay = "all" } }'] = 'no_decay is "norm_bias" or a list of names',
    ['{ p = { no_decay = {} } }'] = "got an empty list",
    ['{ p = { no_decay = { "decoder.nothing" } } }'] = "no weight's name fits 'decoder.nothing'",
    ['{ p = { layer_decay = 0 } }'] = "layer_decay is above 0 and at most 1, got 0",
    ['{ p = { groups = { { up_to = "levels.0", frozen = true } } } }'] = "no stage that is trained has a network whose blocks are known",
    ['{ p = { groups = { { "encoder.*", up_to = "levels.0", lr = 2 } } } }'] = "up_to is the name of a block",
    ['{ p = { layer_decay = 0.5 } }'] = "no stage that is trained has a network whose blocks are known",
    ['{ name = "toy_sgd", p = { groups = { { "*", lr = 0.5 } } } }'] = "optimizer 'toy_sgd' has one learning rate and one decay for all weights",
    ['{ name = "argmax", p = { no_decay = "norm_bias" } }'] = "stage 'argmax' is no optimizer",
  } do
    local err = say(how, 1)
    t.ok(err:find(want, 1, true), how .. ": " .. err)
    t.eq(select(2, err:gsub("\n", "")), 1, err)
  end
end
