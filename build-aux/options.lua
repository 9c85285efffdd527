-- SPDX-License-Identifier: MIT
-- What is made of the rows of options (scripts/spcore/options.lua, core/graph/option.c):
--   spcore run options.lua man docs/spcore.1.in    the man page: at @options NAME@ its items
--   spcore run options.lua meta                    annotations for editors: scripts/meta/options.lua
--   spcore run options.lua guide docs/lua.md       the guide with its tables as they are now
-- `make` makes the first two, `make guides` the tables of the guides, which tests/cli/man.sh compares.
local options = require "spcore.options"
local sp = require "spcore"
local words = require "spcore.words"

local function dashed(name) return (name:gsub("_", "-")) end
local function is_flag(row) return type(row[1]) == "boolean" end
local function capital(text) return (text:gsub("^%l", string.upper)) end
local function number(v) return math.type(v) == "float" and ("%g"):format(v) or tostring(v) end

-- What help calls the value.
local function value_of(row)
  if row.choices then return table.concat(row.choices, "|") end
  return row.value or (type(row[1]) == "number" and (math.type(row[1]) == "integer" and "N" or "X")) or "TEXT"
end

-- "1 to 64", or nil where nothing bounds it that a reader would not think of; a 0 that stands for something else is no
-- part.
local function range_of(row)
  if row.choices or type(row[1]) ~= "number" or not row.max or row.max == math.maxinteger then return nil end
  local least = row.default and row.min == 0 and 1 or row.min
  return ("%s to %s"):format(number(least), number(row.max))
end

-- "8", or the words for it; nil: there is none.
local function default_of(row)
  if row.default then return row.default end
  if is_flag(row) or row[1] == "" then return nil end
  return type(row[1]) == "number" and number(row[1]) or row[1]
end

-- ---- the man page ----

local function roff(text)
  text = text:gsub("\\", "\\e"):gsub("%-", "\\-"):gsub("%f[%*%w]%*([^%*]+)%*", "\\fB%1\\fR")
  return (text:gsub("%f[_%w]_(%S-)_%f[^_%w]", "\\fI%1\\fR"))
end

local function paragraph(text)
  return (("\n" .. words.wrap(roff(text), 118, 0)):gsub("\n([.'])", "\n\\&%1"):sub(2))
end

local function sentences(row)
  local text = row.more or capital(row[2]) .. "."
  local range, default = range_of(row), default_of(row)
  local zero = row.default and (row[1] == 0 or row[1] == "0")
  if range and zero then text = ("%s %s; 0, the default: %s."):format(text, range, default)
  elseif zero then text = ("%s 0, the default: %s."):format(text, default)
  else
    if range then text = ("%s %s."):format(text, range) end
    if default then text = ("%s Default: %s."):format(text, default) end
  end
  return text
end

local function items(rows)
  local out = {}
  for _, name in ipairs(words.keys(rows)) do
    local row = rows[name]
    local left = "\\-\\-" .. dashed((row[1] == true and "no_" or "") .. name):gsub("%-", "\\-")
    left = is_flag(row) and (".B %s"):format(left) or ('.BI %s " %s"'):format(left, value_of(row))
    out[#out + 1] = (".TP\n%s\n%s\n"):format(left, paragraph(sentences(row)))
  end
  return table.concat(out)
end

local function man(text)
  return (text:gsub("@options (%l+)@\n", function(name) return items(options[name]) end))
end

-- ---- annotations ----

local function type_of(row)
  if row.list then return "string[]" end
  if row.choices then return '"' .. table.concat(row.choices, '"|"') .. '"' end
  if is_flag(row) then return "boolean" end
  return math.type(row[1]) == "integer" and "integer" or type(row[1]) -- "number", "string"
end

local function fields(rows, names)
  local out = {}
  for i, name in ipairs(names) do
    local row = rows[name]
    local range, default = range_of(row), default_of(row)
    local note = (range or "") .. (range and default and ", " or "") .. (default and "default " .. default or "")
    out[i] = ("---@field %s? %s %s%s\n"):format(name, type_of(row), row[2], note ~= "" and (" (%s)"):format(note) or "")
  end
  return table.concat(out)
end

local function lane_names()
  local names = {}
  for i, row in ipairs(options.lane) do names[i] = row.name end
  return names
end

local function meta()
  local lane = {}
  for _, row in ipairs(options.lane) do lane[row.name] = row end
  return "---@meta\n-- The options of scripts and the properties of lanes, made by the build; the rest is in "
    .. "spcore.lua.\n\n---@class spcore.options\n" .. fields(options.common, words.keys(options.common))
    .. "\n---@class spcore.options of a script with checkpoints\n"
    .. fields(options.resuming, words.keys(options.resuming))
    .. "\n---@class spcore.lane\n" .. fields(lane, lane_names())
end

-- ---- tables of the guides ----

local function cell(text) return (text:gsub("|", "\\|")) end
local function code(names)
  for i, name in ipairs(names) do names[i] = "`" .. name .. "`" end
  return table.concat(names, ", ")
end

-- Which words of `without` leave the option out.
local function left_out_by(name)
  local found = {}
  for _, word in ipairs(words.keys(options.groups)) do
    for _, one in ipairs(options.named(word)) do
      if one == name then found[#found + 1] = word end
    end
  end
  return table.concat(found, ", ")
end

local tables = {}

-- " (0 to 64)", " (fp32, bf16)"
local function may_be(row)
  local range = row.choices and table.concat(row.choices, ", ") or range_of(row)
  return range and (" (%s)"):format(range) or ""
end

function tables.common()
  local rows = options.common
  local out = { "| option | default | what it is | left out by |\n|---|---|---|---|\n" }
  for _, name in ipairs(words.keys(rows)) do
    local row = rows[name]
    local default = is_flag(row) and tostring(row[1]) or default_of(row) or ""
    out[#out + 1] = ("| `%s` | %s | %s | %s |\n"):format(name, cell(default), cell(row[2] .. may_be(row)),
      left_out_by(name))
  end
  return table.concat(out)
end

function tables.resuming()
  local out = { "| option | default | what it is |\n|---|---|---|\n" }
  for _, name in ipairs(words.keys(options.resuming)) do
    local row = options.resuming[name]
    local default = is_flag(row) and tostring(row[1]) or default_of(row) or ""
    out[#out + 1] = ("| `%s` | %s | %s |\n"):format(name, cell(default), cell(row[2]))
  end
  return table.concat(out)
end

function tables.graph()
  return paragraph(code(words.keys(options.of_graph))):gsub("\\%-", "-"):gsub("\\f.", "") .. "\n"
end

function tables.lane()
  local out = { "| field of a lane | default | what it is |\n|---|---|---|\n",
    "| `name` | \"lane1\", \"lane2\" ... | for messages and traces |\n",
    "| `stages` | | list of stages, or of their parts (below); a lane whose list is empty is dropped |\n" }
  for _, row in ipairs(options.lane) do
    out[#out + 1] = ("| `%s` | %s | %s |\n"):format(row.name, default_of(row), cell(row[2] .. may_be(row)))
  end
  return table.concat(out)
end

local function guide(text)
  return (text:gsub("(<!%-%- options: (%l+)[^\n]*\n).-(<!%-%- end of options %-%->\n)", function(head, name, tail)
    return head .. tables[name]() .. tail
  end))
end

local makes = { man = man, guide = guide, meta = meta }
local rest = sp.args({}, { rest = "man|meta|guide [FILE]", only = { "debug" } }).rest
local make = makes[rest[1]] or sp.usage "one of man, meta and guide is wanted"
local file = rest[1] ~= "meta" and assert(io.open(rest[2], "r"))
io.stdout:write((make(file and file:read "a")))
