-- SPDX-License-Identifier: MIT
-- Networks of runs of any script, made again in a graph for predictions, from what network.json says of the stages between the
-- images and the scores (network.lua).
local args = require "spcore.args"
local core = require "spcore.core"
local network = require "spcore.network"
local sys = require "spcore.sys"
local words = require "spcore.words"

local rebuilt = {}

local LABELS <const> = {
  mask = "a class for each pixel", class = "a class for each image", labels = "several labels for each image", numbers = "numbers",
  map = "a number for each pixel",
}

-- What each script predicts, by the kind that it is called with.
local FITS <const> = {
  class = { class = true, labels = true, numbers = true }, mask = { mask = true }, map = { map = true },
}
local WANTS <const> = { class = "a class, several labels or numbers for each image", mask = LABELS.mask, map = LABELS.map }
local SCRIPT <const> = { class = "predict_cls.lua", mask = "predict_seg.lua", map = "predict_map.lua" }

-- Numbers are those of an image, not of its pixels.
local function fits(out, kind) return FITS[kind][out.kind] and (out.kind ~= "numbers" or #out.shape <= 2) or false end

local function name_of(out)
  local from = out.from
  return from.stage .. (from.port and "." .. from.port or "") .. (from.item and ("[%d]"):format(from.item) or "")
end

local function shown(out)
  return ("%s (%s, %s)"):format(name_of(out), LABELS[out.kind] or "of no kind that is known", out.shape and
    "N x " .. table.concat(out.shape, " x ", 2) or "of no shape that is known")
end

local function list(outputs)
  local out = {}
  for i, one in ipairs(outputs) do out[i] = shown(one) end
  return table.concat(out, ", ")
end

-- The output that --output names, or the only one of that kind.
local function choose(run, net, kind, wanted, script)
  local fit = {}
  for _, out in ipairs(net.outputs) do
    if not out.shape then
      args.usage("%s/network.json does not say what its outputs are, as runs of an older version; run its script again", run)
    end
    if name_of(out) == wanted or wanted == out.from.stage then
      if not fits(out, kind) then
        args.usage("--output %s: %s has %s; %s", wanted, run, list(net.outputs), rebuilt.other(kind, out, run))
      end
      return out
    end
    if fits(out, kind) then fit[#fit + 1] = out end
  end
  if wanted ~= "" then
    local names = {}
    for i, out in ipairs(net.outputs) do names[i] = name_of(out) end
    args.usage("--output %s: %s has no such output%s; it has %s", wanted, run, words.near(wanted, names), list(net.outputs))
  end
  if #fit == 1 then return fit[1] end
  if #fit == 0 then
    args.usage("%s gives %s, and %s wants %s%s", run, list(net.outputs), script, WANTS[kind],
      rebuilt.other(kind, net.outputs[1], run, "; "))
  end
  local ways = {}
  for i, out in ipairs(fit) do ways[i] = ("(--output %s)"):format(name_of(out)) end
  args.usage("%s has several outputs with %s: %s; say which is meant: %s", run, WANTS[kind], list(fit), table.concat(ways, ", or "))
end

-- What to type where an output is another script's, or why none takes it.
function rebuilt.other(kind, out, run, before)
  before = before or ""
  for other, script in pairs(SCRIPT) do
    if other ~= kind and fits(out, other) then return ("%sspcore run %s --weights %s predicts it"):format(before, script, run) end
  end
  if out.kind ~= "numbers" or #out.shape ~= 4 then return "" end
  return before .. "of numbers of pixels maps are predicted, N x 1 x H x W behind l1, mse or huber, and masks of two classes, N x 1 x H x W "
    .. "behind bce; for more classes train it with cross_entropy"
end

-- Where the images come from: the source of the run, as parameters of image_requests.
local function source_of(run, net)
  for _, s in ipairs(net.stages) do
    for _, refs in next, s.inputs do
      for _, ref in ipairs(refs) do
        if ref.shape and #ref.shape == 4 and (ref.dtype == "uint8" or ref.dtype == "float32") then
          for _, source in ipairs(net.stages) do
            local is_file = ref.dtype == "uint8" or (source.params.dtype or "uint8") ~= "uint8"
            if source.name == ref.stage and is_file then return source, ref end
          end
        end
      end
    end
  end
  args.usage("%s: no stage of its network reads images of files, so it has no pictures to predict", run)
end

-- By what the reader took of numbers and divided them, and how they are called.
local function numbers_of(net, source, n)
  local function list(v, usual)
    local out = {}
    for i = 1, n do out[i] = type(v) == "table" and (v[i] or v[1]) or type(v) == "number" and v or usual end
    return out
  end
  local names = net.classes and #net.classes == n and net.classes or {}
  for i = 1, names[1] and 0 or n do names[i] = n == 1 and "value" or "value " .. i end
  return { names = names, mean = list(source.mean, 0.0), std = list(source.std, 1.0) }
end

-- find(run, kind, wanted, script) -> a model as settings.json describes those of the shipped scripts; kind: "mask", "class" (also of
-- several labels, and of numbers) or "map"; wanted:
-- what --output says. nil: there is no network.json
function rebuilt.find(run, kind, wanted, script)
  local path = run .. "/network.json"
  if not sys.there(path) then return end
  local net, why = network.read(path)
  if not net then args.usage("%s", why) end
  local out = choose(run, net, kind, wanted, script)
  local source, ref = source_of(run, net)
  local p, shape = source.params, ref.shape
  local classes = out.shape[2] or 1
  local model = { net = net, output = out, source = source.name, port = ref.port, classes = classes,
    size = shape[3] == shape[4] and shape[3] or { shape[3], shape[4] },
    read = { resize = p.resize, shorter = p.shorter, interpolation = p.interpolation, grey = p.grey or nil, dtype = p.dtype,
      range = p.range, nodata = p.nodata, nodata_fill = p.nodata_fill } }
  if shape[2] ~= 3 and not p.grey then model.read.channels = shape[2] end
  if p.dtype and p.dtype ~= "uint8" then model.read.channels = shape[2] end
  if out.binary then model.binary, model.classes, classes = true, 2, 2 end
  if out.kind == "labels" or out.kind == "numbers" then model.target = out.kind end
  if out.kind == "numbers" then model.numbers = numbers_of(net, p, classes) end
  model.class_names = net.classes and #net.classes == classes and net.classes or nil
  return model
end

-- The stages that the output depends on, by name.
local function needed(net, out)
  local by, need = {}, {}
  for _, s in ipairs(net.stages) do by[s.name] = s end
  local function add(name)
    if need[name] or not by[name] then return end
    need[name] = true
    for _, refs in next, by[name].inputs do
      for _, ref in ipairs(refs) do add(ref.stage) end
    end
  end
  add(out.from.stage)
  return need
end

local function picked(node, ref)
  local port = ref.port and node[ref.port] or node
  return ref.item and port[ref.item] or port
end

-- make(g, image, model, weights) -> the scores. Stages have the names of the run, behind which `weights` has theirs.
function rebuilt.make(g, image, model, weights)
  local made, need = {}, needed(model.net, model.output)
  for _, s in ipairs(model.net.stages) do
    if need[s.name] and not s.source then
      local t = { name = s.name }
      for k, v in next, s.params do t[k] = v end
      for port, refs in next, s.inputs do
        local from = {}
        for _, ref in ipairs(refs) do
          if ref.stage == model.source and ref.port == model.port then from[#from + 1] = image
          elseif made[ref.stage] then from[#from + 1] = picked(made[ref.stage], ref) end
        end
        if #from > 0 then t[port] = refs[1].item == nil and #refs == 1 and from[1] or from end
      end
      local node = g:stage(s.stage, t)
      if #node:weights() > 0 then g._raw:load({ file = weights }, node) end
      made[s.name] = node
    end
  end
  return picked(made[model.output.from.stage], model.output.from)
end

return rebuilt
