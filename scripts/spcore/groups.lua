-- SPDX-License-Identifier: MIT
-- Groups of parameters, as an optimizer takes them: g.adamw{ groups = { { "encoder.*", lr = 0.1 } }, no_decay = "norm_bias",
-- layer_decay = 0.75, unfreeze = { { "encoder.layer4", at = "epoch 3" } } }. The core (core/graph/groups.h) knows globs, factors and
-- numbers of phases alone; what the shorthands stand for is here, and in phases.lua when phases begin.
local core = require "spcore.core"
local phases = require "spcore.phases"
local words = require "spcore.words"

local groups = {}

local keys = { groups = true, no_decay = true, layer_decay = true, unfreeze = true }
local group_keys = { lr = true, decay = true, frozen = true, up_to = true }
local late_keys = { at = true, up_to = true }

-- fields: those that it may have
local function check_group(where, group, fields)
  if type(group) ~= "table" then
    core.fail(("%s: a table is wanted, such as { \"encoder.*\", lr = 0.1 }, got a %s"):format(where, type(group)))
  end
  local out = { names = {}, lr = group.lr, decay = group.decay, frozen = group.frozen }
  for k, v in next, group do
    if math.type(k) == "integer" then
      if type(v) ~= "string" then core.fail(("%s: item %d is a %s, not the name of a weight, such as \"encoder.*\""):format(where, k, type(v))) end
    elseif not fields[k] then
      words.unknown(where .. " has no field", k, fields)
    end
  end
  for i, name in ipairs(group) do out.names[i] = name end
  out.up_to = group.up_to
  if out.up_to ~= nil and (type(out.up_to) ~= "string" or #out.names > 0) then
    core.fail(("%s: up_to is the name of a block, such as \"layer3\", and stands instead of names of weights"):format(where))
  end
  if #out.names == 0 and not out.up_to then core.fail(("%s names no weights; it begins with them: { \"encoder.*\", ... }"):format(where)) end
  for _, key in ipairs { "lr", "decay" } do
    local v = group[key]
    if v ~= nil and (type(v) ~= "number" or not (v >= 0 and v <= 1e6)) then
      core.fail(("%s: %s is a factor from 0 to 1e6, got %s"):format(where, key,
        type(v) == "number" and tostring(v) or "a " .. type(v)))
    end
  end
  if group.frozen ~= nil and type(group.frozen) ~= "boolean" then core.fail(("%s: frozen is true or false"):format(where)) end
  if group.frozen and (group.lr or group.decay) then
    core.fail(("%s: frozen weights have neither lr nor decay; leave those out"):format(where))
  end
  if fields == group_keys and not (group.frozen or group.lr or group.decay) then
    core.fail(("%s says nothing of its weights: give it lr, decay or frozen = true"):format(where))
  end
  return out
end

local function check_no_decay(where, v)
  if v == "norm_bias" then return { { names = { "*" }, flat = true, decay = 0, label = 'no_decay = "norm_bias"' } } end
  if type(v) ~= "table" or #v == 0 then
    core.fail(('%s: no_decay is "norm_bias" or a list of names, such as { "*.bias" }, got %s'):format(where,
      type(v) == "table" and "an empty list" or tostring(v)))
  end
  local out = { names = {}, decay = 0 }
  for i, name in ipairs(v) do
    if type(name) ~= "string" then core.fail(("%s: no_decay: item %d is a %s, not a name"):format(where, i, type(name))) end
    out.names[i] = name
  end
  return { out }
end

local function check_list(where, key, list, example)
  if type(list) ~= "table" then
    core.fail(("%s: %s is a list, such as { %s }, got a %s"):format(where, key, example, type(list)))
  end
  for k in next, list do
    if math.type(k) ~= "integer" then
      core.fail(("%s: %s is a list of tables: %s = { %s }"):format(where, key, key, example))
    end
  end
end

local function check_unfreeze(where, list)
  local out = {}
  check_list(where, "unfreeze", list, '{ "encoder.layer4", at = "epoch 3" }')
  for i, group in ipairs(list) do
    out[i] = check_group(("%s: unfreeze[%d]"):format(where, i), group, late_keys)
    out[i].at = group.at
  end
  return out, phases.take(where, out)
end

-- Takes what is about groups out of an optimizer's parameters; nil: there is nothing.
function groups.take(stage, params)
  local where, out = ("g.%s{}"):format(stage), nil
  for key in next, keys do out = out or params[key] ~= nil end
  if not out then return nil end
  out = {}
  if params.groups ~= nil then
    check_list(where, "groups", params.groups, '{ "encoder.*", lr = 0.1 }')
    for i, group in ipairs(params.groups) do out[i] = check_group(("%s: groups[%d]"):format(where, i), group, group_keys) end
  end
  if params.unfreeze ~= nil then
    local late, moments = check_unfreeze(where, params.unfreeze)
    for _, group in ipairs(late) do out[#out + 1] = group end
    out.moments = #moments > 0 and moments or nil
  end
  for _, group in ipairs(params.no_decay ~= nil and check_no_decay(where, params.no_decay) or {}) do out[#out + 1] = group end
  local decay = params.layer_decay
  if decay ~= nil and (type(decay) ~= "number" or not (decay > 0 and decay <= 1)) then
    core.fail(("%s: layer_decay is above 0 and at most 1, got %s"):format(where, tostring(decay)))
  end
  out.layer_decay = decay
  for key in next, keys do params[key] = nil end
  return out
end

-- The blocks of a known network from its input on, each as globs: list.blocks has patterns of their names, in the order in
-- which they are tried, and what none fits belongs to the block before. list.head is none.
function groups.blocks(list)
  if type(list) ~= "table" or not list.blocks then return nil end
  local blocks, last = {}, nil
  local function is_head(name)
    for _, glob in ipairs(list.head or {}) do
      if (name .. "."):sub(1, #glob - 1) == glob:sub(1, -2) then return true end -- "fc.*"
    end
  end
  local function block_of(name)
    for _, pattern in ipairs(list.blocks) do
      local block = name:match(pattern)
      if block then return block end
    end
  end
  for _, layer in ipairs(list) do
    local name = layer.name
    if name and not is_head(name) then
      local block = block_of(name)
      if #blocks == 0 or (block and block ~= last) then
        blocks[#blocks + 1], last = block and { block .. ".*" } or {}, block
      end
      if not block then table.insert(blocks[#blocks], name .. ".*") end
    end
  end
  return blocks
end

-- As timm does: what lies behind the network has the rate itself, its last block `decay` times it, and so on to the input.
local function by_layer(g, decay, out)
  local any = false
  for _, node in ipairs(g:nodes()) do
    local blocks = g._blocks[node]
    if blocks and not node.frozen then
      any = true
      for i, names in ipairs(blocks) do
        local own = {}
        for k, name in ipairs(names) do own[k] = node.name .. "." .. name end
        out[#out + 1] = { names = own, lr = decay ^ (#blocks + 1 - i), label = ("layer_decay = %g of %s"):format(decay, node.name) }
      end
    end
  end
  if not any then
    core.fail(("layer_decay = %g: no stage that is trained has a network whose blocks are known, as those of sp.models are; "
      .. "with groups = { { \"NAME.*\", lr = %g } } they are named"):format(decay, decay))
  end
end

-- The weights of known networks from the input up to the last block whose name begins so.
local function up_to(g, group)
  local names, seen = {}, {}
  for _, node in ipairs(g:nodes()) do
    local blocks, last = not node.frozen and g._blocks[node], 0
    for i, of in ipairs(blocks or {}) do
      seen[#seen + 1] = of[1]:sub(1, -3)
      for _, name in ipairs(of) do
        if (name:sub(1, -2)):sub(1, #group.up_to + 1) == group.up_to .. "." then last = i end
      end
    end
    for i = 1, last do
      for _, name in ipairs(blocks[i]) do names[#names + 1] = node.name .. "." .. name end
    end
  end
  if #seen == 0 then
    core.fail(("up_to = %q: no stage that is trained has a network whose blocks are known, as those of sp.models are; name its weights, "
      .. "such as { \"encoder.%s.*\", ... }"):format(group.up_to, group.up_to))
  end
  if #names == 0 then core.fail(("up_to = %q: no block has this name; there are %s"):format(group.up_to, table.concat(seen, ", "))) end
  return { names = names, lr = group.lr, decay = group.decay, frozen = group.frozen, phase = group.phase, when = group.when,
    label = "up to " .. group.up_to }
end

-- What g:train hands on; nil: the optimizer has no groups.
function groups.of(g, optimizer)
  local given = g._told[optimizer].groups
  if not given then return nil end
  local out = {}
  for i, group in ipairs(given) do out[i] = group.up_to and up_to(g, group) or group end
  if given.layer_decay and given.layer_decay ~= 1 then by_layer(g, given.layer_decay, out) end
  return { groups = out, phases = given.moments and #given.moments + 1 or nil }, given.moments
end

return groups
