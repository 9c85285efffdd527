-- SPDX-License-Identifier: MIT
-- --set STAGE.NAME=VALUE: the command line gives a stage a parameter, whatever the script says. Every script takes it, so
-- that what a stage's message proposes can be typed where it was printed.
local core = require "spcore.core"
local words = require "spcore.words"

local set = {}
local given = {} -- { stage =, name =, value =, text =, used = }

-- A number, true, false, a table of Lua, or a text, which needs quotes only where it looks like one of these.
local function value_of(text)
  if text == "true" then return true end
  if text == "false" then return false end
  if tonumber(text) then return math.tointeger(tonumber(text)) or tonumber(text) end
  local quoted = text:match '^"(.*)"$'
  if quoted then return quoted end
  if not text:match "^%s*{" then return text end
  local chunk = load("return " .. text, "=--set", "t", {})
  local ok, value = pcall(chunk or error)
  if not ok or type(value) ~= "table" then return nil, "is no table of Lua" end
  return value
end

-- What the options --set say; nil, why: one makes no sense.
function set.parse(texts)
  given = {}
  for _, text in ipairs(texts) do
    local stage, name, value = text:match "^([%w_]+)%.([%a_][%w_]*)=(.*)$"
    if not stage then return nil, ("--set %s: STAGE.NAME=VALUE is wanted, such as reader.drop_last=false"):format(text) end
    local parsed, why = value_of(value)
    if why then return nil, ("--set %s: the value %s"):format(text, why) end
    given[#given + 1] = { stage = stage, name = name, value = parsed, text = text }
  end
  return true
end

-- The table of g.STAGE{ ... } with what the command line says over it. The last one wins, as with other options.
function set.over(stage, t)
  local own = t
  for _, one in ipairs(given) do
    if one.stage == stage or one.stage == rawget(t, "name") then
      if own == t then
        own = {}
        for key, value in next, t do own[key] = value end
      end
      own[one.name], one.used = one.value, true
    end
  end
  return own
end

-- When a graph begins its work: one that no stage has taken was typed for nothing.
function set.check(nodes)
  for _, one in ipairs(given) do
    if not one.used then
      local names = {}
      for _, node in ipairs(nodes) do names[node.name] = true end
      core.fail(("--set %s: the graph has no stage '%s'%s; it has %s"):format(one.text, one.stage,
        words.near(one.stage, words.keys(names)), table.concat(words.keys(names), ", ")))
    end
  end
end

return set
