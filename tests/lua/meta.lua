-- SPDX-License-Identifier: MIT
-- scripts/meta, for editors, has what scripts can use: all of `sp`, methods, options, keys of tables.
-- once: words in scripts and in a file
local sp = require "spcore"
local t = require "check"

local path = sp.script_dir .. "/meta/spcore.lua"
local meta = assert(loadfile(path, "t", {}))()

-- The words before each function, by its name, and the fields of each class.
local functions, classes = {}, {}
for _, file in ipairs { path, os.getenv "top_builddir" .. "/scripts/meta/options.lua" } do
  local words, fields = {}, nil
  for line in io.lines(file) do
    local class, field = line:match "^%-%-%-@class ([%w_.]+)", line:match "^%-%-%-@field ([%w_]+)"
    if class then
      fields = classes[class] or {}
      classes[class] = fields
    elseif field then fields[field] = true end
    if line:find "^%-%-%-" then words[#words + 1] = line
    else
      local name = line:match "^function ([%w_.:]+)"
      if name then functions[name] = table.concat(words, "\n") end
      words = {}
    end
  end
end

local function read(name) return t.read(("%s/spcore/%s.lua"):format(sp.script_dir, name)) end
local node_c = t.read(os.getenv "top_srcdir" .. "/core/lua/node.c")

-- Each word that `pattern` finds in `text` is there.
local function each(text, pattern, there, what)
  local n = 0
  for name in text:gmatch(pattern) do
    n = n + 1
    t.ok(there(name), ("scripts/meta/spcore.lua: %s lacks '%s'"):format(what, name))
  end
  t.ok(n > 0, what .. ": nothing is found in the source")
end
local function field_of(class) return function(name) return classes[class][name] end end
local function method_of(class) return function(name) return functions[class .. ":" .. name] end end
local function key_of(name) -- of the table that a function takes, which may be a class of its own
  local class = functions[name]:match "%-%-%-@param %w+%?? (spcore[%w_.]+)"
  return class and classes[class] and field_of(class) or function(key) return functions[name]:find("[{ ]" .. key .. "%??:") end
end

-- ---- what `sp` has ----
local internal = { bare = true } -- of sp.models
local function compare(real, told, what)
  for name, v in pairs(real) do
    if type(name) == "string" and not internal[name] then
      local there = rawget(told, name)
      t.ok(there ~= nil or type(v) ~= "function" and classes.spcore[name], what .. name .. " is not in scripts/meta/spcore.lua")
      if type(v) == "table" and getmetatable(v) == nil then compare(v, there, what .. name .. ".") end
    end
  end
  for name in pairs(told) do t.ok(rawget(real, name) ~= nil, what .. name .. " is in scripts/meta/spcore.lua alone") end
end
compare(sp, meta, "sp.")

-- ---- methods ----
each(read "graph", "\nfunction graph:(%l[%w_]*)", method_of "graph", "graph")
each(read "requests", "\nfunction requests:(%l[%w_]*)", method_of "graph", "graph")
each(read "run", "\nfunction run:(%l[%w_]*)", method_of "run", "run")
each(node_c:match "node_methods%[%] = (%b{})", '{"([%l_]+)"', method_of "node", "node")
each(node_c:match "facts%[%] = (%b{})", '"([%l_]+)"', field_of "spcore.node", "spcore.node")

-- ---- options, and keys of tables ----
local dir <close> = t.folder()
t.write(dir.path .. "/none.lua", [[require "spcore".args({}, { checkpoints = true })]])
local code, help = t.spcore(dir.path, "run none.lua --help")
t.eq(code, 0)
each(help:gsub("\n  %-%-no%-", "\n  --"):gsub("%-(%l)", "_%1"), "\n  %-_(%l[%l_]*)", field_of "spcore.options", "spcore.options")
each(read "args":match "own = true, default.-}", "([%l_]+) = option%.", field_of "spcore.option", "spcore.option")
each(read "args":match 'check_keys%("args", how, (%b{})', "([%l_]+) = true", key_of "sp.args", "sp.args")
each(read "run":match "\nlocal keys = (%b{})", "([%l_]+) = true", field_of "spcore.run_options", "sp.run")
each(read "graph":match "\nlocal train_keys = (%b{})", "([%l_]+) = true", key_of "graph:train", "graph:train")
each(read "graph":match '"g:save", options, (%b{})', "([%l_]+) = true", key_of "graph:save", "graph:save")
each(read "graph":match '"g:evaluate{}", t, (%b{})', "([%l_]+) = true", key_of "graph:evaluate", "graph:evaluate")
