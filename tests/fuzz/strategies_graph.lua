-- SPDX-License-Identifier: MIT
-- Random graphs: of toy stages, which may all be captured, or of images and networks; with frozen and trained parts,
-- joins, several losses and metrics, some of them wired back.
local flow = require "strategies_flow"

local graph = {}

-- What is kept while a graph grows: outputs by kind, each as Lua text behind "n.".
local function begin(case, rng)
  return {
    case = case, rng = rng, nodes = case.nodes, count = 0, vectors = {}, anything = {}, metrics = {}, losses = {},
    jitter = rng.chance(0.5),
  }
end

-- inputs: lists of references, `port` where they go to an input by name, `nograd` where no gradient comes back.
local function add(b, stage, ins, params, facts)
  b.count = b.count + 1
  local node = { name = (stage:gsub("^fuzz_", "")) .. "_" .. b.count, stage = stage, ins = ins, params = params or {} }
  for k, v in pairs(facts or {}) do node[k] = v end
  b.nodes[#b.nodes + 1] = node
  return node
end

local function some(b, list, most)
  local refs = {}
  for i = 1, 1 + b.rng.below(most) do refs[i] = b.rng.pick(list) end
  return refs
end

local function drift(b) return b.jitter and b.rng.chance(0.4) and tostring(20 + b.rng.below(200)) or nil end

local function keep(b, list, ref)
  list[#list + 1] = ref
  if list ~= b.anything then b.anything[#b.anything + 1] = ref end
end

-- ---- sources ----

local function source(b, stage, name, params, samples)
  local rng = b.rng
  params.samples, params.batch = tostring(samples), tostring(b.batch)
  if name ~= "data" then
    params.shuffle = "false"
  else
    params.shuffle = rng.chance(0.2) and "false" or nil
    params.drop_last = rng.chance(0.2) and "true" or nil
  end
  b.nodes[#b.nodes + 1] = { name = name, stage = stage, params = params, source = true, ins = {} }
end

local function copy(t)
  local c = {}
  for k, v in pairs(t) do c[k] = v end
  return c
end

-- The training source and those that evaluations read.
local function sources(b, stage, params)
  local rng = b.rng
  b.batch = 2 + rng.below(4)
  source(b, stage, "data", copy(params), 7 + rng.below(17))
  for i = 1, rng.chance(0.4) and 1 + rng.below(2) or 0 do
    b.case.sources[i] = "val" .. i
    source(b, stage, "val" .. i, copy(params), 3 + rng.below(9))
  end
end

-- ---- toy stages ----

local function mix(b, refs, trained, scale)
  local rng, params = b.rng, { drift = drift(b) }
  trained = trained and not b.cuda
  if not trained and rng.chance(0.5) then params.frozen = "true" elseif not trained then params.learn = "0" end
  if rng.chance(0.16) then params.recompute = "true" end
  if rng.chance(0.3) then params.gain = ("%g"):format(rng.below(8) / 16) end
  if b.may_fail and rng.chance(0.3) then params.fail_at, b.case.fails = tostring(rng.below(14)), true end
  local ins = { refs }
  if #scale > 0 then
    ins[2] = scale
    scale.port, scale.nograd = "scale", true
  end
  local node = add(b, "fuzz_mix", ins, params,
    { alias = { y = refs[1] }, grad = true, trains = params.learn == nil, live = { "gain", 0.5 } })
  keep(b, b.vectors, node.name .. ".y")
  if trained then b.learned = node.name .. ".y" end
  return node
end

local function watch(b, refs)
  local node = add(b, "fuzz_watch", { refs }, { drift = drift(b) })
  keep(b, b.metrics, node.name .. ".digest")
end

local function loss(b, ref)
  local node = add(b, "fuzz_loss", { { ref } }, { drift = drift(b), target = ("%g"):format(b.rng.below(9) / 8) },
    { grad = true, loss = true, live = { "gain", 1 } })
  keep(b, b.metrics, node.name .. ".loss")
  b.losses[#b.losses + 1] = node.name
end

local function sleep(b, list)
  local ref = b.rng.pick(list)
  local node = add(b, "sleep", { { ref } }, { ms = ("%g"):format(b.rng.below(4) / 20) },
    { alias = { ["y[1]"] = ref }, grad = true })
  keep(b, list, node.name .. ".y[1]")
end

-- NaN in some steps, for optimizers that skip those.
local function spoil(b)
  local ref, first = b.rng.pick(b.vectors), b.rng.below(8)
  local node = add(b, "toy_spoil", { { ref } },
    { first = tostring(first), last = tostring(first + b.rng.below(3)) }, { alias = { x = ref } })
  keep(b, b.vectors, node.name .. ".x")
  b.spoiled = true
end

-- What makes a factor of a mix: metrics, seldom anything else; at times all outputs of one stage.
local function scales(b)
  local rng, refs = b.rng, {}
  if #b.metrics > 0 and rng.chance(0.4) then refs[1] = rng.pick(b.metrics)
  elseif rng.chance(0.1) then refs[1] = rng.pick(b.anything) end
  local watched = refs[1] and refs[1]:match "^(watch_%d+)%.digest$"
  if watched and rng.chance(0.4) then refs[#refs + 1] = watched .. ".words" end
  if watched and rng.chance(0.3) then refs[#refs + 1] = watched .. ".rows" end
  return refs
end

local function grow(b)
  local rng, p = b.rng, b.rng.below(100)
  if p < 35 then mix(b, some(b, b.vectors, 3), true, scales(b))
  elseif p < 60 then mix(b, some(b, b.vectors, 3), false, scales(b))
  elseif p < 75 then watch(b, some(b, b.anything, 3))
  elseif p < 85 and not b.cuda then loss(b, rng.pick(b.vectors))
  elseif p < 92 and not b.pure then sleep(b, b.vectors)
  elseif p < 96 and not b.learned then spoil(b)
  else watch(b, { rng.pick(b.vectors) }) end
end

local function toys(b)
  local rng = b.rng
  b.may_fail = rng.chance(0.1)
  sources(b, "toy_source", { drift = drift(b) })
  b.pure = rng.chance(0.7)
  keep(b, b.vectors, "data.x")
  for _ = 1, 2 + rng.below(8) do grow(b) end
end

-- ---- images ----

local augments = {
  { "flip", { horizontal = "0.5", vertical = "0.3" } },
  { "batch_rotate", { degrees = "20" } },
  { "affine", { degrees = "20", scale = "{ 0.7, 1.3 }", shear = "10" } },
  { "perspective", { distortion = "0.7" } },
  { "erase", { noise = "1" } },
  { "elastic", { sigma = "0.8", alpha = "10" } },
  { "blur", { kernel = "3" } },
  { "color_jitter", { brightness = "0.4", contrast = "0.3", hue = "0.1" } },
  { "channel_drop", { p = "0.5" } },
  { "resize", { size = true } },
  { "batch_crop", { size = true } },
  { "batch_resized_crop", { size = true, scale = "{ 0.3, 1 }" } },
}

local function augment(b, at)
  local stage, params = table.unpack(b.rng.pick(augments))
  params = copy(params)
  local size = at.size
  if params.size then
    size = stage == "batch_crop" and at.size // 2 or b.rng.pick { 8, 16 }
    if size < 8 then return at end
    params.size = tostring(size)
  end
  local ins = { { at.image, port = "images" } }
  if at.mask then ins[2] = { at.mask, port = "masks" } end
  local node = add(b, stage, ins, params, { alias = { ["images[1]"] = at.image, ["masks[1]"] = at.mask } })
  if params.size then node.alias = nil end
  local new = { image = node.name .. ".images[1]", size = size, label = at.label, shares = at.shares }
  if at.mask then new.mask = node.name .. ".masks[1]" end
  keep(b, b.anything, new.image)
  return new
end

-- Samples of the batch mixed, labels along: what each class counts, and the one that counts most.
local function mixed(b, at)
  local rng = b.rng
  local node = add(b, rng.pick { "mixup", "cutmix", "mixup_or_cutmix" }, { { at.image, port = "images" }, { at.label, port = "labels" } },
    { classes = "4", same_on_batch = rng.chance(0.5) and "true" or nil })
  return { image = node.name .. ".images[1]", size = at.size, label = node.name .. ".main", shares = node.name .. ".labels" }
end

local function floats(b, at)
  local node
  if b.rng.chance(0.5) then
    node = add(b, "to_float", { { at.image } }, { scale = "true" })
    return node.name .. ".image"
  end
  node = add(b, "normalize", { { at.image } }, { scale = "true", mean = "{ 0.5 }", std = "{ 0.3 }" })
  return node.name .. ".images[1]"
end

-- Of one stage in six the forward runs again before its backward.
local function again(b) return b.rng.chance(0.16) and "true" or nil end

local function frozen(b) return b.rng.chance(0.45) and "true" or nil end

-- A network of the size of its input.
local function same_size(b, ref)
  local rng = b.rng
  local list = { '{ "conv", 3, kernel = 3, pad = 1 }' }
  if rng.chance(0.5) then list[#list + 1] = '{ "batch_norm" }' end
  if rng.chance(0.5) then list[#list + 1] = '{ "relu" }' end
  local node = add(b, "layers", { { ref } }, { layers = "{ " .. table.concat(list, ", ") .. " }", frozen = frozen(b), recompute = again(b) },
    { grad = true, trains = true, alias = { features = ref } })
  return node.name .. ".features"
end

local function join(b, one, two)
  local node = add(b, "add", { { one, two } }, {}, { grad = true, alias = { y = one } })
  return node.name .. ".y"
end

local function trunk(b, ref)
  for _ = 1, b.rng.below(3) do
    local left = same_size(b, ref)
    if b.rng.chance(0.4) then
      local right = same_size(b, ref)
      left = join(b, left, right)
    end
    if b.rng.chance(0.2) then
      local node = add(b, "sleep", { { left } }, { ms = "0.1", backward_ms = "0.05" },
        { grad = true, alias = { ["y[1]"] = left } })
      left = node.name .. ".y[1]"
    end
    ref = left
  end
  return ref
end

local function pixels(b, at, ref)
  local levels = tostring(1 + b.rng.below(2))
  local params = { model = '"unet"', width = "2", levels = levels, convs = "1", frozen = frozen(b), recompute = again(b) }
  local enc = add(b, "encoder", { { ref } }, params, { grad = true, trains = true })
  params = { model = '"unet"', width = "2", convs = "1", classes = "4", recompute = again(b) }
  local dec = add(b, "decoder", { { enc.name .. ".features" }, { enc.name .. ".maps", port = "skips" } }, params,
    { grad = true, trains = true })
  return dec.name .. ".logits"
end

local function class_scores(b, at, ref)
  local params = { classes = "4", model = b.rng.pick { '"pool"', '"plain"' }, width = "2" }
  local node = add(b, "classifier", { { ref } }, params, { grad = true, trains = true })
  keep(b, b.vectors, node.name .. ".logits")
  return node.name .. ".logits"
end

local function judge(b, logits, labels, shares)
  local soft = shares and b.rng.chance(0.7)
  local ins = { { logits }, { soft and shares or labels, nograd = true } }
  local stage = (soft or b.rng.chance(0.6)) and "cross_entropy" or b.rng.pick { "dice", "focal", "jaccard", "lovasz", "tversky" }
  local node = add(b, stage, ins, { ignore_index = not soft and "255" or nil }, { grad = true })
  keep(b, b.metrics, node.name .. ".loss")
  keep(b, b.metrics, node.name .. ".valid")
  b.losses[#b.losses + 1] = node.name
end

local function measure(b, at, logits)
  local rng, labels = b.rng, at.mask or at.label
  if rng.chance(0.6) then
    local node = add(b, "confusion", { { logits }, { labels } }, { ignore_index = "255" })
    keep(b, b.metrics, node.name .. ".counts")
  end
  if at.label and rng.chance(0.7) then
    local node = add(b, "accuracy", { { logits }, { labels } }, { k = "2", ignore_index = "255" })
    keep(b, b.metrics, node.name .. ".top1")
  end
  if rng.chance(0.3) then
    local only, stage = rng.chance(0.5), rng.pick { "calibration", "score_histogram", at.mask and "boundary" or "calibration" }
    local node = add(b, stage, { { logits }, { labels } }, { ignore_index = "255", eval_only = only and "true" or nil,
      bins = stage == "score_histogram" and "64" or nil })
    if not only and stage == "calibration" then keep(b, b.metrics, node.name .. ".reliability") end
  end
  if at.mask and rng.chance(0.4) then
    local node = add(b, "argmax", { { logits } })
    watch(b, { node.name .. ".mask" })
  end
end

local function images(b)
  local rng, class = b.rng, b.rng.chance(0.5)
  local size = rng.pick { 8, 8, 16 }
  local target, pair = class and '"class"' or '"mask"', ("{ %d, %d }"):format(size, size)
  sources(b, "reader", { path = '"random"', size = pair, classes = "4", target = target })
  local at = { image = "data.image", size = size }
  at[class and "label" or "mask"] = class and "data.label" or "data.mask"
  keep(b, b.anything, "data.image")
  for _ = 1, rng.below(4) do at = augment(b, at) end
  if class and rng.chance(0.3) then at = mixed(b, at) end
  for _ = 1, rng.chance(0.3) and 2 or 1 do
    local head = rng.chance(0.3) and augment(b, at) or at
    local ref = trunk(b, floats(b, head))
    local logits = (class and class_scores or pixels)(b, head, ref)
    judge(b, logits, head.mask or head.label, head.shares)
    measure(b, head, logits)
  end
  for _ = 1, rng.chance(0.5) and 1 + rng.below(4) or 0 do
    if #b.vectors > 0 then grow(b) else watch(b, some(b, b.anything, 2)) end
  end
end

-- ---- training ----

-- Factors on rate and decay of some of what is trained; of networks a few weights stay as they are.
local function groups(b)
  local rng, list = b.rng, {}
  for _, node in ipairs(b.nodes) do
    if node.trains and node.params.frozen ~= "true" and rng.chance(0.5) then
      local frozen = b.images and node.stage ~= "fuzz_mix" and rng.chance(0.3)
      list[#list + 1] = frozen and ('{ "%s.*bias", frozen = true }'):format(node.name)
        or ('{ "%s.*", %s = %g }'):format(node.name, rng.pick { "lr", "decay" }, rng.pick { 0, 0.25, 1, 2 })
    end
  end
  return #list > 0 and "{ " .. table.concat(list, ", ") .. " }" or nil
end

local shipped <const> = { "sgd", "sgd", "adamw", "lion", "lamb", "muon" }
-- One or two of the stages that are trained, of which one is left, are so from a later step on.
local function unfreeze(b)
  local rng, late, list = b.rng, {}, {}
  if #b.case.losses > 1 then return end -- each has something to train in all phases
  for _, node in ipairs(b.nodes) do
    if node.trains and node.params.frozen ~= "true" then late[#late + 1] = node.name end
  end
  local at = 0
  for _ = 1, math.min(#late - 1, rng.below(3)) do
    at = at + 1 + rng.below(5)
    list[#list + 1] = ('{ "%s", at = %d }'):format(table.remove(late, 1 + rng.below(#late)), at)
  end
  return #list > 0 and "{ " .. table.concat(list, ", ") .. " }" or nil
end

local function optimizer(b)
  local rng, p = b.rng, {}
  local stage = rng.pick(b.spoiled and shipped or rng.chance(0.35) and { "toy_sgd" } or shipped)
  if b.images and stage == "toy_sgd" then stage = "sgd" end -- its weights are vectors
  p.lr = ("%g"):format((stage == "sgd" or stage == "toy_sgd") and 0.05 or 0.003)
  if (stage == "sgd" or stage == "toy_sgd") and rng.chance(0.5) then p.momentum = "0.5" end
  if stage == "toy_sgd" then p.momentum = p.momentum or "0" end
  if stage ~= "toy_sgd" then
    if b.spoiled or rng.chance(0.2) then p.nonfinite, p.max_nonfinite = '"skip"', "1000" end
    if rng.chance(0.3) then p.clip_norm = "1" end
    if rng.chance(0.2) then p.report_norm = "true" end
    if rng.chance(0.3) then p.ema = rng.pick { "0.9", "0.3" } end
    if rng.chance(0.4) then p.groups = groups(b) end
    if rng.chance(0.3) then p.unfreeze = unfreeze(b) end
    if stage == "adamw" and rng.chance(0.3) then p.amsgrad = "true" end
    if rng.chance(0.2) then p.no_decay = '"norm_bias"' end
  end
  b.nodes[#b.nodes + 1] = { name = "opt", stage = stage, params = p, ins = {}, optimizer = true, live = { "lr", 0.02 } }
end

local function train(b)
  local rng, case = b.rng, b.case
  if rng.chance(0.07) and not b.spoiled then return end -- forward only
  if not b.images and not b.learned then mix(b, some(b, b.vectors, 2), true, {}) end
  if not b.images then loss(b, b.learned) end
  local learns = flow.learning(case)
  for i, name in ipairs(b.losses) do
    local here = not b.cuda or not name:find "^loss"
    if learns[name] and here and (i == #b.losses or b.cuda or rng.chance(0.5)) then table.insert(case.losses, name) end
  end
  local leads = flow.leading(case, case.losses)
  for _, node in ipairs(b.nodes) do
    if node.trains and not leads[node.name] then node.params.frozen = "true" end
  end
  case.accumulate = rng.chance(0.25) and 2 + rng.below(2) or 1
  optimizer(b)
  if rng.chance(0.3) then
    case.lr = ("function(step) return %g / (1 + step %% 5) end"):format(0.01 * (1 + rng.below(4)))
  end
end

-- ---- results ----

-- Outputs with a row for each sample, and that of them which may be read instead of the first.
local rows = {
  toy_source = { "x" }, fuzz_mix = { "y", "side" }, toy_spoil = { "x" }, sleep = { "y[1]" }, add = { "y" },
  reader = { "image" }, to_float = { "image" }, normalize = { "images[1]" }, flip = { "images[1]" }, argmax = { "mask" },
  layers = { "features", "maps[1]" }, encoder = { "features" }, decoder = { "logits" }, classifier = { "logits" },
}

-- The first layer of a frozen network, or 1 - y of a toy, as an output of its own.
local function second_output(node, learns)
  if node.stage == "fuzz_mix" then return "side" end
  if node.stage ~= "layers" or learns[node.name] then return end
  node.params.layers = node.params.layers:gsub(" }", ", tap = true }", 1)
  return "maps[1]"
end

-- Readers that get no gradient back read another output of some stages, the first of which nobody may read then. Some
-- outputs come back as results: so a stage gives one to a lane and another one to the script.
function graph.results(case, rng)
  local learns, second, list = flow.learning(case), {}, {}
  if case.opt.shards or not rng.chance(0.5) then return end
  for _, node in ipairs(case.nodes) do
    local has = rows[node.stage]
    local other = has and has[2] and rng.chance(0.6) and second_output(node, learns)
    if other then
      second[node.name .. "." .. has[1]] = other
      node.alias[other] = node.alias[has[1]]
    end
    for _, input in ipairs(learns[node.name] and {} or node.ins) do
      for i, ref in ipairs(input) do
        if second[ref] and rng.chance(0.7) then input[i] = ref:match "^[%w_]+%." .. second[ref] end
      end
    end
    for _, port in ipairs(has or {}) do
      local there = (port == has[1] or port == other) and (not node.source or node.name == "data")
      if there and rng.chance(0.4) then list[#list + 1] = node.name .. "." .. port end
    end
  end
  case.results = #list > 0 and list or nil
end

-- ---- the processor between two trained stages ----

-- A stage without gradients reads one that learns and makes a factor of a later one.
function graph.between(case, rng)
  local learns, learned = flow.learning(case), {}
  if not rng.chance(0.4) then return end
  for i, node in ipairs(case.nodes) do
    if learns[node.name] and node.stage == "fuzz_mix" then
      if #learned > 0 and #node.ins == 1 then
        local between = { name = "between", stage = "fuzz_watch", ins = { { rng.pick(learned) } }, params = {} }
        if rng.chance(0.8) then between.params.on_cpu = "true" end
        node.ins[2] = { "between.digest", port = "scale", nograd = true }
        table.insert(case.nodes, i, between)
        return
      end
      learned[#learned + 1] = node.name .. ".y"
    end
  end
end

-- images: those stages are there. Toy stages exist for the cpu alone, so on cuda nothing of them is trained.
function graph.make(case, rng, device, with_images)
  local b = begin(case, rng)
  b.cuda = device:find "^cuda" ~= nil
  b.images = with_images and rng.chance(b.cuda and 1 or 0.4)
  if b.images then images(b) else toys(b) end
  train(b)
  if rng.chance(0.4) then -- what gets gradients stays on the device
    local learns = flow.learning(case)
    for _, node in ipairs(b.nodes) do
      local may = not node.source and not node.optimizer and not learns[node.name]
      if may and rng.chance(0.3) then node.params.on_cpu = "true" end
    end
  end
end

return graph
