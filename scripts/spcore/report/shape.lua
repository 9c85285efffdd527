-- SPDX-License-Identifier: MIT
-- Whether what a JSON file says is what its reader goes by.
local json = require "spcore.json"
local words = require "spcore.words"

local shape = {}

local function is_integer(v) return math.type(v) == "integer" and v >= 0 end
local function is_word(v) return type(v) == "string" or type(v) == "number" or type(v) == "boolean" end

-- What a shape is called by name: a test, and the words for it.
local kinds = {
  string = { function(v) return type(v) == "string" end, "a text" },
  number = { function(v) return type(v) == "number" end, "a number" },
  integer = { is_integer, "a whole number from 0 on" },
  boolean = { function(v) return type(v) == "boolean" end, "true or false" },
  word = { is_word, "a text, a number, true or false" },
}

local mistake

local function in_list(v, wanted, at)
  if type(next(v)) == "string" then return at .. " is to be a list" end
  for i = 1, #v do
    local why = mistake(v[i], wanted, ("%s[%d]"):format(at, i))
    if why then return why end
  end
end

-- { each = SHAPE } of an object with any keys
local function in_each(v, wanted, at)
  for k, x in pairs(v) do
    local why = type(k) ~= "string" and at .. " is to be an object" or mistake(x, wanted, at .. "." .. k)
    if why then return why end
  end
end

-- { field = SHAPE, ["may be missing?"] = SHAPE }
local function in_fields(v, wanted, at)
  for _, key in ipairs(words.keys(wanted)) do
    local name, optional = key:match "^([^?]*)(%??)$"
    if v[name] ~= nil or optional == "" then
      local why = mistake(v[name], wanted[key], at == "" and name or at .. "." .. name)
      if why then return why end
    end
  end
end

-- What is wrong with v, in words; nil: nothing is. wanted: the name of a kind, { list = SHAPE }, { each = SHAPE }, { either = two
-- shapes } or an object's fields.
function mistake(v, wanted, at)
  local kind = kinds[wanted]
  if kind then return not kind[1](v) and ("%s is to be %s"):format(at, kind[2]) or nil end
  if wanted.either then return mistake(v, wanted.either[1], at) and mistake(v, wanted.either[2], at) end
  if type(v) ~= "table" then
    return ("%s is to be %s"):format(at == "" and "it" or at, wanted.list and "a list" or "an object")
  end
  if wanted.list then return in_list(v, wanted.list, at) end
  return (wanted.each and in_each or in_fields)(v, wanted.each or wanted, at)
end

-- The file, which is to have the shape; nil and a line where it has not.
function shape.read(path, wanted)
  local v, why = json.read(path)
  if why then return nil, why end
  why = mistake(v, wanted, "")
  if why then return nil, ("%s: %s"):format(path, why) end
  return v
end

return shape
