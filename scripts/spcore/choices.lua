-- SPDX-License-Identifier: MIT
-- What strategy auto has chosen, a small file for each graph, device and set of options in the folder that caches are in. A file
-- is replaced as a whole, so that of two processes that measure at once the last one's stays.
local core = require "spcore.core"
local files = require "spcore.files"
local json = require "spcore.json"
local depth = require "spcore.options".common.depth
local sys = require "spcore.sys"

local FORM = 1 -- of the files

local store = {}
store.__index = store

local function folder()
  local function env(name)
    local v = os.getenv(name)
    return v ~= "" and v or nil
  end
  if env "SPCORE_CACHE" then return env "SPCORE_CACHE" end
  if env "XDG_CACHE_HOME" then return env "XDG_CACHE_HOME" .. "/spcore" end
  return env "HOME" and env "HOME" .. "/.cache/spcore"
end

local function read(path)
  local file = io.open(path, "rb")
  local text = file and file:read("a")
  if file then file:close() end
  return text
end

-- Parameters as they were given; a table that JSON has no form for counts by its items in order.
local function plain(v, depth)
  if type(v) ~= "table" then return type(v) == "string" and v or tostring(v) end
  local keys = {}
  for k in next, v do keys[#keys + 1] = tostring(k) end
  table.sort(keys)
  local out = {}
  for i, k in ipairs(keys) do
    local value = v[k]
    if value == nil then value = v[math.tointeger(k)] end
    out[i] = k .. "=" .. (depth < 16 and plain(value, depth + 1) or "...")
  end
  return "{" .. table.concat(out, ",") .. "}"
end

-- All that the time of a step may hang on: the plan (stages, wires, shapes in bytes, capture, run-ahead), parameters, the files
-- of the stages, device, threads, options.
local function key_of(g, plan)
  local effect, env = g._raw:options(), core.env()
  local parts = { FORM, env.version, env.abi, plan, effect.model, effect.memory, effect.device, effect.precision,
    effect.capture, env.threads, os.getenv "SPCORE_SYNC" or "" }
  for _, name in ipairs { "run_ahead", "prefetch", "checksums", "workers", "pinned", "memory_limit", "traced" } do
    parts[#parts + 1] = ("%s=%s"):format(name, tostring(g._opt[name]))
  end
  parts[#parts + 1] = "depth=" .. g.depth
  for _, node in ipairs(g:nodes()) do
    local from = {}
    for i, producer in ipairs(node:producers()) do from[i] = producer.name end
    parts[#parts + 1] = ("%s %s %s %s %s %s %s <- %s: %s"):format(node.name, node.stage, node.frozen, node.cache,
      node.on_cpu, node.eval_only, node.precision, table.concat(from, " "), plain(g._told[node], 0))
  end
  for _, path in ipairs(g._raw:plugins()) do
    parts[#parts + 1] = path:match "[^/]*$" .. " " .. core.checksum(read(path) or path)
  end
  for i, part in ipairs(parts) do parts[i] = tostring(part) end
  local text = table.concat(parts, "\n")
  return core.checksum(text)
end

-- open(g, plan) -> what is remembered of a graph; plan: its description under serialized
local function open(g, plan)
  local dir = folder()
  return setmetatable({ path = dir and ("%s/auto-%s.json"):format(dir, key_of(g, plan)) or false }, store)
end

local function valid(t)
  local function positive(v) return type(v) == "number" and v > 0 and v < math.huge end
  return type(t) == "table" and t.form == FORM and type(t.strategy) == "string" and t.strategy:match "^[%l_]+$" and
    t.strategy ~= "auto" and math.type(t.depth) == "integer" and t.depth >= depth.min and t.depth <= depth.max and
    type(t.gain) == "number" and type(t.date) == "string" and positive(t.steps_per_second) and
    (t.because == nil or type(t.because) == "string") and (t.strategy ~= "serialized" or t.because ~= nil)
end

-- The choice, or nil: none, or a file that is none, which is said.
function store:get()
  local text = self.path and read(self.path)
  if not text then return nil end
  local t, why = json.decode(text)
  if t ~= nil and not valid(t) then why = "it holds no choice" end
  if not why then return t end
  core.log("warn", ("%s: %s: strategy auto measures again and replaces it"):format(self.path, why))
end

-- A file of its own first, which then takes the other's name.
local function write(path, text)
  for i = 1, 100 do -- what a process that died has left keeps its number
    local temp = ("%s.%d"):format(path, i)
    local file, why, kind = sys.create(temp)
    if file then
      local ok
      ok, why = file:write(text, "\n")
      local closed, why_closed = file:close()
      if ok and closed then ok, why = os.rename(temp, path) end
      if ok and closed then return end
      os.remove(temp)
      return why or why_closed
    end
    if kind ~= "exists" then return why end
  end
  return path .. ": no name is free"
end

function store:put(choice)
  local why = "there is no HOME"
  if self.path then
    choice.form, choice.date, choice.script = FORM, os.date "!%Y-%m-%dT%H:%M:%SZ", core.env().script
    local ok, message = pcall(files.make_parents, self.path)
    why = ok and write(self.path, json.encode(choice, true)) or not ok and tostring(message) or nil
  end
  if not why then return end
  core.log("warn", ("strategy auto: the choice is not remembered: %s (SPCORE_CACHE names a folder for it)"):format(why))
end

return { open = open }
