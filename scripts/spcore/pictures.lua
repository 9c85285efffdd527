-- SPDX-License-Identifier: MIT
-- Image files that a command line names: files, and what lies in folders.
local core = require "spcore.core"
local files = require "spcore.files"
local sys = require "spcore.sys"

-- The names in a folder that end as pictures do, sorted; how many there are besides.
local function in_folder(folder)
  local all, why = sys.list(folder)
  if not all then core.fail(why) end
  local names = {}
  for _, name in ipairs(all) do
    if files.is_picture(name) then names[#names + 1] = name end
  end
  table.sort(names)
  return names, #all - #names
end

-- A name that no earlier one has: the file's own without its ending, or with a number behind it.
local function namer()
  local taken = {}
  return function(path)
    local stem = path:match("[^/]*$"):gsub("(.)%.[^.]*$", "%1")
    local name = stem
    while taken[name] do
      taken[stem] = taken[stem] + 1
      name = ("%s_%d"):format(stem, taken[stem])
    end
    taken[name] = taken[name] or 1
    return name
  end
end

-- pictures(paths) -> a function that gives { path =, name = } for each, nil at the end; how many there are. A path that is
-- not there is a request like another: it is answered with the reason. What a folder has besides pictures is said.
return function(paths)
  local folders, total = {}, 0
  for i, path in ipairs(paths) do
    if sys.kind(path) == "dir" then
      local left
      folders[i], left = in_folder(path)
      total = total + #folders[i]
      if #folders[i] == 0 then core.fail(("%s: no *.jpg|jpeg|png|webp|tif|tiff is in this folder"):format(path)) end
      if left > 0 then
        core.log("warn", ("%s: %d of %d entries are left out: they are no *.jpg|jpeg|png|webp|tif|tiff"):format(path, left,
          left + #folders[i]))
      end
    else
      total = total + 1
    end
  end
  local i, k, name = 1, 0, namer()
  return function()
    while paths[i] do
      local path, folder = paths[i], folders[i]
      k = k + 1
      local file = folder and folder[k]
      if not folder or k == #folder then i, k = i + 1, 0 end
      if not folder then return { path = path, name = name(path) } end
      return { path = ("%s/%s"):format((path:gsub("(.)/+$", "%1")), file), name = name(file) }
    end
  end, total
end
