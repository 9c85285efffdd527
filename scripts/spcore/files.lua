-- SPDX-License-Identifier: MIT
-- Files and folders; what goes wrong is raised with its path.
local core = require "spcore.core"
local sys = require "spcore.sys"

local files = {}

-- Makes the folders that `path` lies in.
function files.make_parents(path)
  for at in path:gmatch("()/") do
    local parent = path:sub(1, at - 1)
    if parent ~= "" and sys.kind(parent) ~= "dir" then
      local ok, why, kind = sys.mkdir(parent)
      if not ok and kind ~= "exists" then core.fail(why) end
    end
  end
end

-- All of a file.
function files.read(path)
  local file, why = io.open(path, "rb")
  if not file then core.fail(why) end
  local text = file:read "a"
  file:close()
  return text
end

-- Writes a whole file.
function files.write(path, text)
  local file, why = io.open(path, "w")
  if not file then core.fail(why) end
  local ok
  ok, why = file:write(text)
  local closed, why_closed = file:close()
  if not ok or not closed then core.fail(("%s: %s"):format(path, why or why_closed)) end
end

-- Names of files that are not yet whole. Nobody but spcore makes such names, so what a killed process leaves can be removed.
function files.temporary(path)
  local parent, name = path:match "^(.*/)([^/]*)$"
  return ("%s.%s.spcore-%s"):format(parent or "", name or path, core.checksum(path .. sys.now()):sub(1, 6))
end

-- Replaces a whole file: who reads it meanwhile sees the old one, and what a link of that name points to stays as it is.
function files.replace(path, text)
  local new = files.temporary(path)
  local file, why = sys.create(new)
  if not file then core.fail(why) end
  local ok, closed, why_closed
  ok, why = file:write(text)
  closed, why_closed = file:close()
  ok, why = ok and closed, why or why_closed
  if ok then ok, why = os.rename(new, path) end
  if ok then return end
  os.remove(new)
  core.fail(("%s: %s"):format(path, why))
end

-- Removes what saves that were cut short have left in a folder: files of names that `files.temporary` and formats of weights
-- give to one of `names` (patterns), none older than the file `since`.
function files.tidy(dir, names, since)
  local least = sys.changed(since)
  for _, name in ipairs(sys.list(dir) or {}) do
    local of, path = name:match "^%.(.+)%.spcore%-%w%w%w%w%w%w$", dir .. "/" .. name
    local changed = of and least and sys.changed(path)
    for _, pattern in ipairs(changed and changed >= least and names or {}) do
      if of:find("^" .. pattern .. "$") then os.remove(path) end
    end
  end
end

local pictures = {}
for ending in ("jpg jpeg jpe jfif png webp tif tiff bmp dib gif ppm pgm pbm pnm npy"):gmatch "%a+" do pictures[ending] = true end

-- Does a name end as those of the images do that stages read? Arrays of all images, labels or masks are none.
function files.is_picture(name)
  local array = name:match "([^/_]*)%.npy$"
  if array == "images" or array == "labels" or array == "masks" then return false end
  return pictures[(name:match "%.([^.]*)$" or ""):lower()] == true
end

-- A name that no earlier one has: the file's own without its ending, or with a number behind it.
function files.namer()
  local is_new, last = sys.distinct(), {}
  return function(path)
    local stem = path:match("[^/]*$"):gsub("(.)%.[^.]*$", "%1")
    local name = stem
    while not is_new(name) do
      last[stem] = (last[stem] or 1) + 1
      name = ("%s_%d"):format(stem, last[stem])
    end
    return name
  end
end

return files
