-- SPDX-License-Identifier: MIT
-- What must be the same between two processes that compute the same bits: the ranks of a job, and a run before and after it
-- was cut. This is the only list of it; graph.lua compares it between ranks, checkpoint.lua with what a checkpoint says.
local core = require "spcore.core"
local files = require "spcore.files"
local sys = require "spcore.sys"
local words = require "spcore.words"

local identity = {}

-- Parameters that do not change what is computed: threads, and how data comes here.
local free = { "workers", "cache_dir", "cache_size", "data_checksums", "fetch_tries", "fetch_pause", "fetch_timeout" }

local function plain(v, depth)
  if type(v) ~= "table" then return words.bare(type(v) == "string" and v or tostring(v)) end
  local keys, out = {}, {}
  for k in next, v do keys[#keys + 1] = k end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for i, k in ipairs(keys) do out[i] = ("%s = %s"):format(k, depth < 16 and plain(v[k], depth + 1) or "...") end
  return "{ " .. table.concat(out, ", ") .. " }"
end

-- Stage by stage: what it is, its parameters, whose outputs it reads; of a source how many steps an epoch has.
function identity.describe(g)
  local list = {}
  for i, node in ipairs(g:nodes()) do
    local from, told = {}, {}
    for k, producer in ipairs(node:producers()) do from[k] = producer.name end
    for k, v in next, g._told[node] do told[k == 1 and "parameters" or k] = v end
    for _, name in ipairs(told.parameters and free or {}) do told.parameters[name] = nil end
    list[i] = ("%s: %s%s of %s, %s"):format(node.name, node.frozen and "frozen " or "", node.stage,
      #from > 0 and table.concat(from, " ") or "nobody", plain(told, 0))
  end
  list[#list + 1] = ("an epoch: %d steps"):format(g:epoch_steps())
  return list
end

-- Lua files that the script has required, as name and path; those of spcore are of its version.
local function modules()
  local list = {}
  for name in pairs(package.loaded) do
    local path = type(name) == "string" and not name:find "^spcore%f[.%z]" and package.searchpath(name, package.path)
    if path then list[#list + 1] = { name, path } end
  end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  return list
end

-- Item i of a source's digest, nil of what has no files.
local function digest(node, i)
  local ok, n = pcall(function() return node.source and node.digest end)
  return ok and math.type(n) == "integer" and n > i and node:item("digest", i) or nil
end

-- A list of { kind, what, value }, in an order that is the same where the script is. Kinds: "script", "graph", "data", "times"
-- (of files whose names and sizes are in "data"), "plugin", "setting".
function identity.of(g)
  local list = {}
  local function add(kind, what, value) list[#list + 1] = { kind, what, tostring(value) } end
  add("script", "the script", core.checksum(files.read(core.env().script_path)))
  for _, m in ipairs(modules()) do add("script", ("module '%s'"):format(m[1]), core.checksum(files.read(m[2]))) end
  local loaded = core.loaded_files()
  table.sort(loaded)
  for _, path in ipairs(loaded) do
    if sys.kind(path) == "file" then add("script", ("file '%s'"):format(path), core.checksum(files.read(path))) end
  end
  for i, line in ipairs(identity.describe(g)) do add("graph", "the graph, line " .. i, line) end
  for _, node in ipairs(g:nodes()) do
    local content = digest(node, 0)
    if content then
      add("data", ("the files of '%s'"):format(node.name), content)
      add("times", ("the files of '%s'"):format(node.name), digest(node, 1))
    end
  end
  for _, e in ipairs(g._evals) do
    add("setting", ("the steps between evaluations on '%s'"):format(e.data.name), e.every)
  end
  for _, path in ipairs(g._raw:plugins()) do
    add("plugin", "plugin " .. path:match "[^/]*$", core.checksum(files.read(path)))
  end
  add("setting", "the seed (--seed)", g._opt.seed)
  add("setting", "the shards of a step (--shards)", g._opt.shards)
  add("setting", "the precision (--precision)", g._raw:options().precision)
  add("setting", "the version of spcore", core.env().version)
  if g._opt.device == "cpu" then add("setting", "threads (--threads N takes N on each host)", core.env().threads) end
  return list
end

local consequences = {
  script = "what it computes from here may differ; put the old text back, or begin another run",
  data = "images, labels or their order are other ones, so it will not end as it would have in one piece; put the old data "
    .. "back, or begin another run",
  times = "names and sizes are the same but they were written since; if their content is the same, too, nothing changes",
  plugin = "a build of the same source changes nothing; another source may",
  setting = "what it computes from here may differ; go on with the old value, or begin another run",
}

-- Lines on what differs between two such lists, one a kind; the graph's lines are the caller's to judge.
function identity.differences(old, new)
  local was, is, names, order = {}, {}, {}, {}
  for _, e in ipairs(old) do
    if type(e) == "table" then was[e[1] .. "\n" .. e[2]] = e[3] end
  end
  local function note(kind, what, how)
    if kind == "graph" or not consequences[kind] then return end
    if not names[kind] then names[kind], order[#order + 1] = {}, kind end
    table.insert(names[kind], what .. how)
  end
  local data = {}
  for _, e in ipairs(new) do
    local key = e[1] .. "\n" .. e[2]
    is[key] = true
    if was[key] ~= e[3] then
      if e[1] == "data" then data[e[2]] = true end
      if not (e[1] == "times" and data[e[2]]) then note(e[1], e[2], was[key] == nil and " (new)" or "") end
    end
  end
  for _, e in ipairs(old) do
    if type(e) == "table" and not is[e[1] .. "\n" .. e[2]] then note(e[1], e[2], " (no longer there)") end
  end
  local lines = {}
  for i, kind in ipairs(order) do
    lines[i] = ("%s: not as the checkpoint knows %s: %s"):format(table.concat(names[kind], ", "),
      #names[kind] == 1 and "it" or "them", consequences[kind])
  end
  return lines
end

return identity
