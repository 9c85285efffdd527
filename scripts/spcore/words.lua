-- SPDX-License-Identifier: MIT
-- Words of error messages: the nearest name, lists of names.
local core = require "spcore.core"

local words = {}

function words.keys(t)
  local keys = {}
  for k in next, t do
    if type(k) == "string" then keys[#keys + 1] = k end
  end
  table.sort(keys)
  return keys
end

-- "; did you mean 'batch'?" or ""
function words.near(word, names)
  local name = core.nearest(tostring(word), names)
  return name and ("; did you mean '%s'?"):format(name) or ""
end

-- Raises "WHAT 'key'; did you mean ...": `known` is a table with the names as keys.
function words.unknown(what, key, known)
  core.fail(("%s '%s'%s"):format(what, tostring(key), words.near(key, words.keys(known))))
end

-- Refuses keys of an option table that are not in `known`.
function words.check_keys(what, t, known)
  if type(t) ~= "table" then core.fail(("%s: a table of options is wanted, got a %s"):format(what, type(t))) end
  for k in next, t do
    if not known[k] then words.unknown(what .. " has no option", k, known) end
  end
end

return words
