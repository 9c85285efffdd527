-- SPDX-License-Identifier: MIT
-- Known networks as lists of layers, for the parameter `layers` of encoder, classifier and layers, and heads for
-- decoder and classifier: sp.models.
local core = require "spcore.core"
local words = require "spcore.words"

local models = {
  efficientnet = require "spcore.models.efficientnet",
  mobilenet_v3 = require "spcore.models.mobilenet_v3",
  resnet = require "spcore.models.resnet",
}
models.file = (require "spcore.models.file").list -- "densenet.lua" -> the list of layers in it
for name, head in pairs(require "spcore.models.heads") do models[name] = head end

local named = {}
for _, n in ipairs { 18, 34, 50, 101 } do named["resnet" .. n] = { "resnet", n } end
for _, size in ipairs { "large", "small" } do named["mobilenet_v3_" .. size] = { "mobilenet_v3", size } end
for i = 0, 4 do named["efficientnet_b" .. i] = { "efficientnet", "b" .. i } end

models.names = words.keys(named)

-- get("resnet50", { output_stride = 8 }): what sp.models.resnet{ 50, output_stride = 8 } gives.
function models.get(name, options)
  local known = named[name]
  if not known then
    core.fail(("sp.models.get: there is no model '%s'%s (there are %s)"):format(tostring(name), words.near(name, models.names),
      table.concat(models.names, ", ")))
  end
  if options ~= nil and type(options) ~= "table" then
    core.fail(("sp.models.get: a table of options is wanted, got a %s"):format(type(options)))
  end
  local t = { known[2] }
  for k, v in next, options or {} do
    if k == 1 then core.fail(("sp.models.get: '%s' says already which model; options have names"):format(name)) end
    t[k] = v
  end
  return models[known[1]](t)
end

-- pooled(list): the network with the mean over its last map behind it, which is 49 times smaller where that has 7 x 7 pixels.
function models.pooled(list)
  if type(list) ~= "table" or #list == 0 then
    core.fail "sp.models.pooled: a list of layers is wanted, such as sp.models.resnet{ 50 }"
  end
  local last = type(list[#list]) == "table" and list[#list][1]
  if last == "flatten" or last == "linear" then
    core.fail(("sp.models.pooled: the list ends in '%s', and a mean is over a map: leave 'classes' out"):format(last))
  end
  local out = {}
  for k, v in next, list do out[k] = v end
  out[#out + 1] = { "mean" }
  return out
end

-- What a list of layers may say of itself.
local about = {
  blocks = true, family = true, title = true, head = true, names = true, taps = true, preprocess = true, variant = true, variants = true,
}

-- The layers alone, as a stage takes them; what is no table is left to the stage.
function models.bare(list)
  if type(list) ~= "table" then return list end
  local layers = {}
  for k, v in next, list do
    if not about[k] then layers[k] = v end
  end
  return layers
end

return models
