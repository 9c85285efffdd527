-- SPDX-License-Identifier: MIT
-- Whose the folder of a run is: a new one, claimed by the run that makes its settings.json and locked while that is under way;
-- or the one of a run that goes on.
local core = require "spcore.core"
local files = require "spcore.files"
local sys = require "spcore.sys"

local folder = {}

-- What a run makes in its folder, as patterns.
local made = {
  "settings%.json", "network%.json", "metrics%.jsonl", "weights%.safetensors", "weights%-last%.safetensors", "best%.safetensors",
  "checkpoint%-%d+%.safetensors", "checksums%.jsonl", "resumed%.jsonl", "summary%.json", "stopped%.json",
  "samples", "events%.out%.tfevents%..*",
}

-- Whose content a run that goes on adds to, or cuts.
local added_to = { "settings.json", "metrics.jsonl", "checksums.jsonl", "resumed.jsonl" }

local function refuse(dir, name)
  if sys.locked(dir .. "/settings.json") then
    core.fail(("--out: %s is written by another run, which is under way; name another folder"):format(dir))
  end
  core.fail(("--out: %s holds %s of a run already; name another folder or remove it"):format(dir, name))
end

-- The first name in a folder that a run would give to a file of its own, also that of a link which leads nowhere; the first
-- name at all.
local function held(dir)
  local names = sys.list(dir) or {}
  table.sort(names)
  for _, name in ipairs(names) do
    for _, pattern in ipairs(made) do
      if name:find("^" .. pattern .. "$") then return name, name end
    end
  end
  return nil, names[1]
end

-- A folder asked for may be there, but must be empty: nothing is overwritten, and a run is not written into a set of data.
function folder.given(path)
  path = path:gsub("(.)/+$", "%1")
  files.make_parents(path)
  local ok, why, kind = sys.mkdir(path)
  if ok then return path end
  if kind ~= "exists" then core.fail("--out: " .. why) end
  if sys.kind(path) ~= "dir" then core.fail(("--out: %s is not a folder"):format(path)) end
  local name, any = held(path)
  if name then refuse(path, name) end
  if any then
    core.fail(("--out: %s is not empty, it holds %s; name a folder that is empty or not there, such as --out %s/run"):format(path, any,
      path))
  end
  return path
end

-- runs/NAME-1, -2 ...: mkdir decides who gets a number when several runs begin at once.
function folder.next(name)
  local ok, why, kind = sys.mkdir("runs")
  if not ok and kind ~= "exists" then core.fail(why) end
  for i = 1, math.maxinteger do
    local path = ("runs/%s-%d"):format(name, i)
    ok, why, kind = sys.mkdir(path)
    if ok then return path end
    if kind ~= "exists" then core.fail(why) end
  end
end

-- Of two runs that begin at once the one that makes settings.json has the folder; the file is whole from its first moment. It
-- stays open and locked while the run is under way, which is what the other is told; where a file system knows no locks, it
-- is told less.
function folder.claim(dir, text)
  local temporary = files.temporary(dir .. "/settings.json")
  local file, why = sys.create(temporary)
  if not file then core.fail(why) end
  sys.lock(file)
  local ok, kind
  ok, why = file:write(text, "\n")
  if ok then ok, why = file:flush() end
  if ok then ok, why = sys.sync(temporary) end
  if ok then ok, why, kind = sys.link(temporary, dir .. "/settings.json") end
  os.remove(temporary)
  if kind == "exists" then refuse(dir, "settings.json") end
  if not ok then core.fail(("%s/settings.json: %s"):format(dir, why)) end
  sys.sync(dir) -- where a file system cannot sync folders, its files are whole all the same
  sys.sync(dir .. "/..")
  return file
end

-- The lock of a run that is to go on.
function folder.reclaim(dir)
  local path = dir .. "/settings.json"
  local function refuse_locked()
    if sys.locked(path) then core.fail(("--resume %s: the run is under way"):format(dir)) end
  end
  refuse_locked()
  for _, name in ipairs(added_to) do
    if sys.there(dir .. "/" .. name) and not sys.changed(dir .. "/" .. name) then
      core.fail(("--resume %s: %s there is a link, or no file; put the file itself there"):format(dir, name))
    end
  end
  local file, why = io.open(path, "r+b")
  if not file then core.fail(why) end
  if not sys.lock(file) then refuse_locked() end
  return file
end

-- Removes what a process left that was killed while it saved.
function folder.tidy(dir) files.tidy(dir, made, dir .. "/settings.json") end

-- What other ranks than the first have in the place of a file.
function folder.nowhere()
  return io.open("/dev/null", "wb")
end

return folder
