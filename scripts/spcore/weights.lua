-- SPDX-License-Identifier: MIT
-- What a script says of weights, weights = FILE or { FILE, prefix =, ignore =, names =, option = of the command line that names
-- it, channels = true where filters of RGB fit other images }, as the core takes it; and what the
-- list of layers of a known network (sp.models) says of them.
local core = require "spcore.core"
local words = require "spcore.words"

local weights = {}

local keys = { true, prefix = true, ignore = true, names = true, option = true, channels = true }

-- { ours = file's } -> { { ours, file's }, ... }
local function pairs_of(what, t)
  local list = {}
  if type(t) ~= "table" then core.fail(("%s: a table is wanted, got a %s"):format(what, type(t))) end
  for ours, file in next, t do
    if type(ours) ~= "string" or type(file) ~= "string" or ours == "" or file == "" then
      core.fail(("%s: ['name here'] = 'name in the file' is wanted, got ['%s'] = '%s'"):format(what, tostring(ours),
        tostring(file)))
    end
    list[#list + 1] = { ours, file }
  end
  return list
end

local function dialects_of(what, names)
  local list = {}
  for _, name in ipairs(words.keys(names or {})) do
    list[#list + 1] = { name = name, names = pairs_of(("%s: names.%s"):format(what, name), names[name]) }
  end
  return list
end

-- of(what, what `weights` is, the list of layers or nil) -> a table for the core; nil: no file
function weights.of(what, given, layers)
  if given == nil or given == "" then return end
  local t = type(given) == "string" and { given } or given
  if type(t) ~= "table" or core.kind(t) then
    core.fail(("%s: 'weights' must be the path of a file or { FILE, prefix = ... }, got a %s"):format(what,
      core.kind(given) or type(given)))
  end
  words.check_keys(what .. ": weights", t, keys)
  if type(t[1]) ~= "string" then
    core.fail(("%s: weights: the path of a file comes first, got a %s"):format(what, type(t[1])))
  end
  if t[1] == "" then return end
  local known = type(layers) == "table" and layers or {}
  return { file = t[1], prefix = t.prefix, option = t.option, channels = t.channels or nil, tried = t.prefix == nil,
    ignore = t.ignore, head = known.head,
    names = t.names and pairs_of(what .. ": weights: names", t.names), dialects = dialects_of(what, known.names) }
end

return weights
