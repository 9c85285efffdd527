-- SPDX-License-Identifier: MIT
-- Words of messages: the nearest name, lists of names, milliseconds.
local core = require "spcore.core"
local sys = require "spcore.sys"

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

-- Milliseconds as "3.12", of a step of a GPU as "0.0312".
function words.ms(v) return v < 0.001 and "0" or (v >= 100 and "%.0f" or "%.3g"):format(v) end

-- What a stage proposes between backquotes, `name = value`, with the option that says so where the text is printed.
function words.cures(text)
  return (text:gsub("`([%w_]+) = (.-)`", function(name, value)
    local plain = value:match '^"(.*)"$' or value
    if plain:find "[^%w_.,:/+=-]" then plain = "'" .. plain .. "'" end
    return ("%s = %s (--%s %s)"):format(name, value, (name:gsub("_", "-")), plain)
  end))
end

-- A text whose addresses are without name, password and query, as kits/fetch has them: what is shown or kept has no secrets.
-- Anything else stays as it is.
function words.bare(text)
  if type(text) ~= "string" then return text end
  return (text:gsub("([Hh][Tt][Tt][Pp][Ss]?://)([^%s'\"]*)", function(scheme, rest)
    local host, path = rest:match "^([^/?#]*)(.*)$"
    return scheme .. host:match "[^@]*$" .. path:match "^[^?#]*"
  end))
end

-- A word of a command line as a shell takes it.
function words.quoted(word)
  return word:find "^[%w%-_=+,./:@%%]+$" and word or "'" .. word:gsub("'", "'\\''") .. "'"
end

-- The lines of a text that are not empty, as a list.
function words.lines(text)
  local lines = {}
  for line in text:gmatch "[^\n]+" do lines[#lines + 1] = line end
  return lines
end

-- The letters of a text, which may be no UTF-8.
function words.width(text) return utf8.len(text) or #text end

-- The text broken between words so that no line is wider; those behind the first begin with `indent` spaces. Spaces stay
-- as they are where nothing is broken, a word that is too long for a line stays whole.
function words.wrap(text, width, indent)
  local lines, line, at = {}, "", 0
  for space, word in text:gmatch "([ ]*)([^ ]+)" do
    local more = words.width(space) + words.width(word)
    if at > 0 and #line > indent and at + more > width then
      lines[#lines + 1] = line
      line = (" "):rep(indent) .. word
    else
      line = line .. space .. word
    end
    at = words.width(line)
  end
  lines[#lines + 1] = line
  return table.concat(lines, "\n")
end

-- Lines for people: on a terminal they break between words, and what follows stays below its column, which two blanks or more
-- precede in the line's first half. Elsewhere they stay as they are, or are as wide as `otherwise` says.
function words.fold(text, otherwise)
  local columns = sys.isatty "stdout" and sys.width "stdout" or otherwise
  if not columns then return text end
  return (text:gsub("[^\n]+", function(line)
    local indent
    for at in line:gmatch "  ()[^ ]" do indent = at - 1 <= columns // 2 and at > 3 and at - 1 or indent end
    return words.wrap(line, columns, indent or #line:match "^ *" + 2)
  end))
end

return words
