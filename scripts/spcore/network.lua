-- SPDX-License-Identifier: MIT
-- A run's network.json: the stages between the images and the scores, as plain tables, so that any run can be exported, whatever
-- script made it.
--
--   { stages = { { name =, stage =, source = true or nil, params = {}, inputs = { PORT = { REF, ... } } }, ... },
--     outputs = { { from = REF, loss = "cross_entropy", shape = { N, ... }, kind = KIND }, ... }, classes = { NAME, ... } or nil }
--
-- REF: { stage = NAME, port = PORT or nil where the stage has only one, item = N or nil for a whole list, shape = of what a source
-- gives }. KIND: "mask" has a class for each pixel, also in one channel behind bce, "class" one for each image, "labels" several,
-- "numbers" is all else.
-- An output is what the first input of a loss reads; stages are in an order that can be computed.
local core = require "spcore.core"
local files = require "spcore.files"
local json = require "spcore.json"
local words = require "spcore.words"

local network = {}

-- A layer with all its fields by name: JSON has no tables of both kinds.
local function named(layer)
  if type(layer) ~= "table" then return { type = layer } end
  local out = {}
  for k, v in next, layer do out[k == 1 and "type" or k == 2 and "out" or k] = v end
  local from = out.from
  if from ~= nil then
    out.from = json.list {}
    for i, v in ipairs(type(from) == "table" and from or { from }) do
      out.from[i] = type(v) == "table" and (v.name or v[1]) or v
    end
  end
  return out
end

-- layers(list) -> such layers of a whole list
function network.layers(list)
  local out = json.list {}
  for i, layer in ipairs(type(list) == "table" and list or {}) do out[i] = named(layer) end
  return out
end

local function params_of(told)
  local params = {}
  for k, v in next, told or {} do params[k] = k == "layers" and network.layers(v) or words.bare(v) end
  return params
end

local function ref_of(ref)
  if core.kind(ref) == "node" then return { stage = ref.name }, ref end
  local node = ref.stage
  local out = { stage = node.name, port = ref.name:sub(#node.name + 2), item = ref.item }
  if node.source and not ref.list then out.shape, out.dtype = ref.shape, ref.dtype end
  return out, node
end

-- of(g, refs) -> { stages =, outputs = } of the outputs `refs` of g's stages
function network.of(g, refs)
  local net, known = { stages = json.list {}, outputs = json.list {} }, {}
  local function add(node)
    if known[node.name] then return end
    known[node.name] = true
    local inputs = {}
    for port, from in next, g._wired[node] do
      inputs[port] = json.list {}
      for i, ref in ipairs(from) do
        local producer
        inputs[port][i], producer = ref_of(ref)
        add(producer)
      end
    end
    net.stages[#net.stages + 1] = { name = node.name, stage = node.stage, source = node.source or nil,
      params = params_of(g._told[node][1]), inputs = inputs }
  end
  for i, ref in ipairs(refs) do
    local from, node = ref_of(ref)
    add(node)
    net.outputs[i] = { from = from }
  end
  return net
end

-- One channel behind bce says how probable 1 is, beside 0.
local function is_binary(loss, shape) return loss == "bce" and #shape == 4 and shape[2] == 1 end

local of_numbers = { mse = true, l1 = true, huber = true }

-- What an output is, by the loss that judges it. One that is not known judges classes.
local function kind_of(loss, shape)
  if of_numbers[loss] and #shape == 4 and shape[2] == 1 then return "map" end
  if of_numbers[loss] or #shape ~= 2 and #shape ~= 4 then return "numbers" end
  if is_binary(loss, shape) then return "mask" end
  if loss == "bce" then return #shape == 2 and "labels" or "numbers" end
  return #shape == 4 and "mask" or "class"
end

-- trained(g) -> the same of what the losses of g:train judge; nil where nothing is trained.
function network.trained(g)
  local refs, losses, seen = {}, {}, {}
  for _, loss in ipairs(g._losses) do
    if core.kind(loss) == "output" then loss = loss.stage end
    local port = loss:inputs()[1]
    for _, ref in ipairs(port and g._wired[loss] and g._wired[loss][port.name] or {}) do
      local key = tostring(core.kind(ref) == "node" and ref.name or ref.name .. "." .. tostring(ref.item))
      if not seen[key] then
        seen[key], refs[#refs + 1] = true, ref
        losses[#refs] = loss.stage
      end
    end
  end
  if #refs == 0 then return end
  local net = network.of(g, refs)
  for i, output in ipairs(net.outputs) do
    local ref = refs[i]
    if core.kind(ref) == "node" then ref = ref[ref:outputs()[1].name] end
    if type(ref.shape) == "table" then output.shape, output.kind = json.list(ref.shape), kind_of(losses[i], ref.shape) end
    output.loss = losses[i]
  end
  return net
end

local function is_ref(ref) return type(ref) == "table" and type(ref.stage) == "string" end

local function is_stage(s)
  if type(s) ~= "table" or type(s.name) ~= "string" or type(s.stage) ~= "string" then return false end
  if type(s.params) ~= "table" or type(s.inputs) ~= "table" then return false end
  for _, refs in next, s.inputs do
    if type(refs) ~= "table" then return false end
    for _, ref in ipairs(refs) do
      if not is_ref(ref) then return false end
    end
  end
  return true
end

-- read(path) -> such a document | nil, why
function network.read(path)
  local net, why = json.read(path)
  if not net then return nil, why end
  local whole = type(net) == "table" and type(net.stages) == "table" and type(net.outputs) == "table" and #net.outputs > 0
  for _, s in ipairs(whole and net.stages or {}) do whole = whole and is_stage(s) end
  for _, out in ipairs(whole and net.outputs or {}) do whole = whole and type(out) == "table" and is_ref(out.from) end
  for _, out in ipairs(whole and net.outputs or {}) do
    out.binary = type(out.shape) == "table" and is_binary(out.loss, out.shape)
    if out.binary then out.kind = "mask" end -- older runs say "numbers"
  end
  if not whole then return nil, ("%s: it describes no network; run the script again"):format(path) end
  return net
end

-- Writes network.json, where something is trained. classes: their names or nil. A stage of others may have parameters that are
-- no JSON: that is no reason not to train.
function network.save(g, path, classes)
  local net = network.trained(g)
  if not net then return end
  net.classes = classes and json.list(table.move(classes, 1, #classes, 1, {})) or nil
  local ok, text = pcall(json.encode, net)
  if ok then files.write(path, text .. "\n")
  else core.log("warn", ("%s is not written, so `spcore export` has nothing to read: %s"):format(path, text)) end
end

return network
