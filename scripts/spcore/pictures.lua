-- SPDX-License-Identifier: MIT
-- Image files that a command line names: files, what lies in folders, and lists of files.
local core = require "spcore.core"
local files = require "spcore.files"
local sys = require "spcore.sys"
local text = require "spcore.text"
local words = require "spcore.words"

local endings = "*.jpg|jpeg|png|webp|tif|tiff|bmp|gif|ppm|npy"

-- A function that gives the pictures of a folder, sorted by their names, nil at the end; how many there are. What the folder
-- has besides is said.
local function folder(path)
  local names, why = sys.names(path)
  if not names then core.fail(why) end
  local count, i, base = 0, 0, path:gsub("(.)/+$", "%1")
  for k = 1, #names do
    if files.is_picture(names[k]) then count = count + 1 end
  end
  if count == 0 then core.fail(("%s: no %s is in this folder"):format(path, endings)) end
  if count < #names then
    core.log("warn", ("%s: %d of %d entries are left out: they are no %s"):format(path, #names - count, #names, endings))
  end
  return function()
    repeat i = i + 1 until not names[i] or files.is_picture(names[i])
    return names[i] and base .. "/" .. names[i]
  end, count
end

-- The same of a file with a path on each line, "-": of the standard input; how many there are nobody knows.
local function list(path)
  local next_line = text.lines(path)
  return function()
    local line
    repeat line = next_line() until line ~= ""
    if line and line:find("\\", 1, true) and not sys.kind(line) then line = line:gsub("\\", "/") end -- as Windows writes paths
    return line
  end
end

local function single(path)
  local left = path
  return function()
    path, left = left, nil
    return path
  end, 1
end

local function source(path)
  if path:match "^@." then return list(path:sub(2)) end
  return (sys.kind(path) == "dir" and folder or single)(path)
end

-- pictures(paths) -> a function that gives { path =, name = } for each, nil at the end; how many there are, nil where a list
-- is among them. "@FILE" is a list: a path on each line; "@-" reads the standard input. A path that is not there is a request
-- like another: it is answered with the reason. options.names = false: without names, which cost some bytes for each image.
return function(paths, options)
  words.check_keys("sp.pictures", options or {}, { names = true })
  if type(paths) ~= "table" then core.fail(("sp.pictures: a list of paths is wanted, got a %s"):format(type(paths))) end
  local sources, total = {}, 0
  for i, path in ipairs(paths) do
    local count
    if type(path) ~= "string" then core.fail(("sp.pictures: path %d is a %s, not a text"):format(i, type(path))) end
    sources[i], count = source(path)
    total = total and count and total + count
  end
  local i, name = 1, not (options and options.names == false) and files.namer() or function() end
  return function()
    while sources[i] do
      local path = sources[i]()
      if path then return { path = path, name = name(path) } end
      sources[i], i = false, i + 1
    end
  end, total
end
