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

local pictures = { jpg = true, jpeg = true, png = true, webp = true, tif = true, tiff = true }

-- Does a name end as those of the images do that stages read?
function files.is_picture(name)
  return pictures[(name:match "%.([^.]*)$" or ""):lower()] == true
end

return files
