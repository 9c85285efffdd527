-- SPDX-License-Identifier: MIT
-- For which target data are laid out, by names alone: what a reader of that target says of them is then what is wrong with them,
-- and not that they are no data for the other one.
local files = require "spcore.files"
local sys = require "spcore.sys"
local text = require "spcore.text"

local function is_dir(path) return sys.kind(path) == "dir" end

-- What lies in a folder and `fits` takes, as paths, sorted; hidden names are left out; none where it is no folder.
local function within(dir, fits)
  local list = {}
  for _, name in ipairs(is_dir(dir) and sys.list(dir) or {}) do
    if name:sub(1, 1) ~= "." and fits(name) then list[#list + 1] = dir .. "/" .. name end
  end
  table.sort(list)
  return list
end

local function is_csv(name) return name:lower():find "%.[ct]sv$" end

-- Of a path itself: also a list of lines "PATH LABEL".
local function is_table(path) return is_csv(path) or path:lower():find "%.txt$" or path:lower():find "%.lst$" end

local function is_tar(name)
  name = name:lower()
  return name:find "%.tar$" or name:find "%.tgz$" or name:find "%.tzst$" or name:find "%.tar%.gz$" or name:find "%.tar%.zst$"
end

-- file, or the one in the folder, or the one of them for training; nil: there is none, or several
local function the_one(path, is)
  if not is_dir(path) then return is(path) and sys.kind(path) == "file" and path or nil end
  local found, train = within(path, is), {}
  for _, name in ipairs(found) do train[#train + 1] = name:lower():find "train[^/]*$" and name or nil end
  return #found == 1 and found[1] or #train == 1 and train[1] or nil
end

-- The columns that a .csv file has, as a set.
local function columns(path)
  local set = {}
  local line = path and text.lines(path)() or ""
  for field in line:lower():gmatch "[^,;\t|]+" do set[text.trim(field):match('^"?(.-)"?$'):gsub("[ _-]", "")] = true end
  return set
end

-- What the first members of a tar file are, "mask" or "class", and whether a label may be several, or numbers; nil where they are
-- neither, or compressed.
local function of_members(file)
  local json
  for _ = 1, 64 do
    local head = file:read(512) or ""
    local digits = #head == 512 and head:match("^ *([0-7]+)", 125)
    if not digits then break end
    local size = tonumber(digits, 8)
    local name = head:match "^[^\0]*":lower()
    if name:find "%.seg%.png$" or name:find "%.mask%.png$" then return "mask" end
    if name:find "%.cls$" then return "class", true end
    json = json or name:find "[^/.][^/]*%.json$" ~= nil
    file:seek("cur", (size + 511) // 512 * 512)
  end
  if json then return "class", true end
end

local function of_shards(path)
  local shard = is_dir(path) and within(path, is_tar)[1] or is_tar(path) and path
  local file = shard and sys.kind(shard) == "file" and io.open(shard, "rb")
  if not file then return end
  local target, several = of_members(file)
  file:close()
  return target, several
end

-- images/ and masks/. One of them alone may be a class beside others.
local function is_pairs(dir)
  local images, masks = is_dir(dir .. "/images"), is_dir(dir .. "/masks")
  if images and masks then return true end
  return (images or masks) and #within(dir, function(name) return is_dir(dir .. "/" .. name) end) == 1
end

-- PASCAL VOC's folders.
local function is_voc(dir)
  return is_dir(dir .. "/JPEGImages")
    and (is_dir(dir .. "/SegmentationClass") or is_dir(dir .. "/ImageSets") or is_dir(dir .. "/Annotations"))
end

local function is_classes(dir)
  for _, folder in ipairs(within(dir, function(name) return is_dir(dir .. "/" .. name) end)) do
    if within(folder, files.is_picture)[1] then return true end
  end
  return false
end

local data_target = {}

-- A .csv file, or a folder with one: its reader says what it is for.
function data_target.has_table(path) return the_one(path, is_dir(path) and is_csv or is_table) ~= nil end

-- labels.npy, or tar files whose labels may be several, or numbers: their reader says what they are for.
function data_target.may_be_rows(path)
  for _, name in ipairs { "labels.npy", "train_labels.npy", "train/labels.npy" } do
    if sys.there(path .. "/" .. name) then return true end
  end
  local pattern = path:find "[{*?]" and not path:find "^https?:" and path:lower():find "%.tar$"
  return (select(2, of_shards(path)) or select(2, of_shards(path .. "/train")) or pattern) and true or false
end

-- A folder of maps beside images/, in the folder itself or in that of a part.
function data_target.has_maps(path)
  for _, part in ipairs { path, path .. "/train", path .. "/training" } do
    for _, name in ipairs { "depth", "depths", "maps", "disparity", "heights", "dem" } do
      for _, images in ipairs(is_dir(part .. "/" .. name) and { "images", "left", "before", "A", "t1" } or {}) do
        if is_dir(part .. "/" .. images) then return true end
      end
    end
  end
  return false
end

-- data_target(path) -> "mask", "class" (of a .csv file perhaps labels or numbers, as its reader then says), or nil: nothing that
-- a reader knows by its name. In the reader's order; as it does, a folder that would do for both is for masks.
local function find(path)
  if path == "shapes" or path == "random" then return "mask" end
  local has, parts = columns(the_one(path, is_csv)), { path, path .. "/train", path .. "/val" }
  local function any(is)
    for _, part in ipairs(parts) do
      if is(part) then return true end
    end
    return false
  end
  local function npy(name)
    return any(function(part) return sys.there(part .. "/" .. name) end) or sys.there(("%s/train_%s"):format(path, name))
      or sys.there(("%s/val_%s"):format(path, name))
  end
  local alone = sys.kind(path) == "file" and is_table(path)
  local shards = of_shards(path) or of_shards(parts[2]) or of_shards(parts[3])
  local column = has.mask or has.masks or has.maskpath or has.maskfile or has.segmentation
  if column or is_voc(path) or any(is_pairs) or npy "masks.npy" or shards == "mask" then return "mask" end
  return (has.label or alone or any(is_classes) or npy "labels.npy" or shards == "class") and "class" or nil
end

return setmetatable(data_target, { __call = function(_, path) return find(path) end })
