-- SPDX-License-Identifier: MIT
-- Strategies: found by name or file, run, and checked before the core sees them.
local core = require "spcore.core"
local files = require "spcore.files"
local options = require "spcore.options"
local sys = require "spcore.sys"
local words = require "spcore.words"

local strategy = {} -- strategy.missed: what g:find did not find last, for places that are nil because of it

local function folder()
  return core.env().script_dir .. "/spcore/strategies"
end

-- Names of the strategies that are shipped.
function strategy.names()
  local names = {}
  for _, file in ipairs(sys.list(folder()) or {}) do
    names[#names + 1] = file:match("^(.*)%.lua$")
  end
  table.sort(names)
  return names
end

local function path_of(name)
  if name:find("/", 1, true) or name:match("%.lua$") then
    if sys.kind(name) ~= "file" then core.fail(("strategy file '%s' not found"):format(name)) end
    return name
  end
  local path = ("%s/%s.lua"):format(folder(), name)
  if sys.kind(path) ~= "file" then
    local names = strategy.names()
    core.fail(("no strategy '%s'%s (there are %s; a file is given as ./%s.lua)"):format(name, words.near(name, names),
      table.concat(names, ", "), name))
  end
  return path
end

-- ---- a strategy that runs a graph ----

local making = false -- the name of the strategy whose lanes are made at this moment

-- Called by all that makes or runs a graph: in a strategy it would need the lanes that are not there yet, without end.
function strategy.refuse_within()
  if making then
    core.fail(("strategy '%s' makes or runs a graph itself: a list of lanes, or a function from the graph to one, is "
      .. "wanted"):format(making))
  end
end

-- One may ask for another's lanes, as auto does.
local function within(name)
  local outer = making
  making = name
  return setmetatable({}, { __close = function() making = outer end })
end

-- What a strategy is given as -> its lanes as the author wrote them, and its name, which a function may give as well.
local function lanes_of(g, what, name)
  if type(what) == "string" then name = name or what end
  local _ <close> = within(name or "custom")
  if type(what) == "string" then
    local path = path_of(what) -- not by loadfile, which would make it a part of what a checkpoint depends on
    local chunk, why = load(files.read(path):gsub("^#[^\n]*", ""), "@" .. path, "t")
    if not chunk then error(why, 0) end
    what = chunk()
    if type(what) ~= "function" and type(what) ~= "table" then
      core.fail(("strategy '%s': the file must return a function or a list of lanes, not a %s"):format(name,
        type(what)))
    end
  end
  if type(what) == "function" then
    local lanes, own = what(g)
    return lanes, type(own) == "string" and own or name or "custom"
  end
  return what, name or "custom"
end

-- A shipped strategy's lanes as a strategy gives them, and its name.
function strategy.written(g, name)
  return lanes_of(g, name)
end

local lane_keys = { name = true, stages = true }
for _, row in ipairs(options.lane) do lane_keys[row.name] = true end

local part_names = { "forward", "backward", "copy" }

-- A stage of a lane: all of it, or { stage, "forward", "backward", "copy" } with some of the words.
local function parts_of(where, i, item)
  if core.kind(item) == "node" then return item, part_names end
  local node = type(item) == "table" and item[1]
  if not node or core.kind(node) ~= "node" then
    local why = item == nil and strategy.missed and "; " .. strategy.missed or ""
    core.fail(("%s: 'stages' has a %s at place %d, not a stage%s"):format(where, type(item), i, why))
  end
  local parts = { table.unpack(item, 2) }
  for _, part in ipairs(parts) do
    if part ~= "forward" and part ~= "backward" and part ~= "copy" then
      core.fail(("%s: stage '%s' has no part '%s': it has %s"):format(where, node.name, tostring(part),
        table.concat(part_names, ", ")))
    end
  end
  if #parts == 0 then
    core.fail(("%s: stage '%s' is given without parts: name some of %s"):format(where, node.name,
      table.concat(part_names, ", ")))
  end
  return node, parts
end

local function check_stages(where, lane, taken, lane_name)
  if type(lane.stages) ~= "table" then
    core.fail(("%s: 'stages' must be a list of stages, got a %s"):format(where, type(lane.stages)))
  end
  local n = 0
  for k in next, lane.stages do
    if math.type(k) ~= "integer" then core.fail(("%s: 'stages' must be a plain list"):format(where)) end
    n = n + 1
  end
  for i = 1, n do
    local node, parts = parts_of(where, i, lane.stages[i])
    taken[node] = taken[node] or {}
    for _, part in ipairs(parts) do
      if taken[node][part] then
        core.fail(("%s: stage '%s' is listed twice, first in lane '%s'"):format(where, node.name, taken[node][part]))
      end
      taken[node][part] = lane_name
    end
  end
end

local function check_lane(where, i, lane, taken, names)
  if type(lane) ~= "table" then core.fail(("%s: lane %d is a %s, not a table"):format(where, i, type(lane))) end
  words.check_keys(("%s: lane %d"):format(where, i), lane, lane_keys)
  local name = lane.name or ("lane%d"):format(i)
  if type(name) ~= "string" or name == "" then core.fail(("%s: lane %d: 'name' must be a string"):format(where, i)) end
  if name:find "%c" then
    core.fail(("%s: lane %d: 'name' must not hold line breaks or other control characters"):format(where, i))
  end
  if names[name] then core.fail(("%s: two lanes are named '%s'"):format(where, name)) end
  names[name] = true
  where = ("%s: lane '%s'"):format(where, name)
  check_stages(where, lane, taken, name)
  local checked = { name = name, stages = lane.stages }
  for _, row in ipairs(options.lane) do checked[row.name] = options.checked(where, row, row.name, lane[row.name]) end
  return checked
end

-- lanes(g, what, name) -> checked lanes, name. A lane without stages, as of a frozen part where nothing is frozen, is
-- dropped.
function strategy.lanes(g, what, name)
  local list
  list, name = lanes_of(g, what, name)
  local where = ("strategy '%s'"):format(name)
  if type(list) ~= "table" then
    core.fail(("%s must give a list of lanes, got a %s"):format(where, type(list)))
  end
  if #g:nodes() == 0 then core.fail "the graph has no stages; add some, as in g.reader { ... }, before it runs" end
  local lanes, taken, names = {}, {}, {}
  for k in next, list do
    if math.type(k) ~= "integer" then
      core.fail(("%s must give a list of lanes; '%s' is no place in a list"):format(where, tostring(k)))
    end
  end
  for i, lane in ipairs(list) do
    lane = check_lane(where, i, lane, taken, names)
    if #lane.stages > 0 then lanes[#lanes + 1] = lane end
  end
  for _, node in ipairs(g:nodes()) do
    if not (taken[node] and taken[node].forward) and not node.source and not node.optimizer then
      core.fail(("%s: stage '%s' is in no lane"):format(where, node.name))
    end
  end
  return lanes, name
end

return strategy
