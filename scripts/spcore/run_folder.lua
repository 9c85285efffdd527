-- SPDX-License-Identifier: MIT
-- Whose the folder of a run is: a new one, claimed by the run that makes its settings.json and locked while that is under way;
-- or the one of a run that goes on.
local core = require "spcore.core"
local files = require "spcore.files"
local sys = require "spcore.sys"

local folder = {}

-- What a folder holds that holds a run.
local held = { "settings.json", "metrics.jsonl", "weights.safetensors", "checksums.jsonl" }

local function refuse(dir)
  if sys.locked(dir .. "/settings.json") then
    core.fail(("--out: %s is written by another run, which is under way; name another folder"):format(dir))
  end
  core.fail(("--out: %s holds a run already; name another folder or remove it"):format(dir))
end

-- A folder asked for may be there, but must not hold a run: nothing is overwritten.
function folder.given(path)
  path = path:gsub("(.)/+$", "%1")
  files.make_parents(path)
  local ok, why, kind = sys.mkdir(path)
  if ok then return path end
  if kind ~= "exists" then core.fail("--out: " .. why) end
  if sys.kind(path) ~= "dir" then core.fail(("--out: %s is not a folder"):format(path)) end
  for _, file in ipairs(held) do
    if sys.there(path .. "/" .. file) then refuse(path) end
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
  local temporary = ("%s/settings.json.%s"):format(dir, core.checksum(text .. sys.now()):sub(1, 6))
  local file, why = sys.create(temporary)
  if not file then core.fail(why) end
  sys.lock(file)
  local ok, kind
  ok, why = file:write(text, "\n")
  if ok then ok, why = file:flush() end
  if ok then ok, why, kind = sys.link(temporary, dir .. "/settings.json") end
  os.remove(temporary)
  if kind == "exists" then refuse(dir) end
  if not ok then core.fail(("%s/settings.json: %s"):format(dir, why)) end
  return file
end

-- The lock of a run that is to go on.
function folder.reclaim(dir)
  local path = dir .. "/settings.json"
  local function refuse_locked()
    if sys.locked(path) then core.fail(("--resume %s: the run is under way"):format(dir)) end
  end
  refuse_locked()
  local file, why = io.open(path, "r+b")
  if not file then core.fail(why) end
  if not sys.lock(file) then refuse_locked() end
  return file
end

-- What other ranks than the first have in the place of a file.
function folder.nowhere()
  return io.open("/dev/null", "wb")
end

return folder
