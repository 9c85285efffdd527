-- SPDX-License-Identifier: MIT
-- Tensors of a safetensors file, by name, and such a file of some of them.
local core = require "spcore.core"
local json = require "spcore.json"

local tensors = {}
tensors.__index = tensors

local PIECE <const> = 1 << 24 -- bytes that are copied at once

-- open(path, strip) -> what has each tensor in `by`: { shape =, dtype =, at =, bytes = }. strip: what their names begin with there.
-- The file is one that a run or g:save has written.
function tensors.open(path, strip)
  local file, why = io.open(path, "rb")
  if not file then core.fail(why) end
  local size, length = file:read(8), file:seek "end"
  local header = size and #size == 8 and ("<I8"):unpack(size) or -1
  if header < 2 or header > length - 8 then core.fail(("%s: no safetensors file"):format(path)) end
  file:seek("set", 8)
  local ok, list = pcall(json.decode, file:read(header))
  if not ok or type(list) ~= "table" then core.fail(("%s: its header is damaged"):format(path)) end
  local by = {}
  for name, t in next, list do
    if name ~= "__metadata__" and (not strip or name:sub(1, #strip) == strip) then
      local first, last = t.data_offsets[1], t.data_offsets[2]
      if 8 + header + last > length then core.fail(("%s: it has become shorter"):format(path)) end
      by[strip and name:sub(#strip + 1) or name] = { shape = t.shape, dtype = t.dtype, at = 8 + header + first, bytes = last - first }
    end
  end
  return setmetatable({ path = path, file = file, by = by }, tensors)
end

function tensors:__close() self.file:close() end

-- Its bytes, piece by piece, to put(text).
function tensors:copy(name, put)
  local t = self.by[name]
  self.file:seek("set", t.at)
  local left = t.bytes
  while left > 0 do
    local piece = self.file:read(math.min(left, PIECE))
    if not piece then core.fail(("%s: it has become shorter"):format(self.path)) end
    left = left - #piece
    put(piece)
  end
end

-- Writes those of `names` to a new file, in this order. put(text) may raise an error.
function tensors:write(names, put)
  local parts, at = {}, 0
  for i, name in ipairs(names) do
    local t = self.by[name]
    parts[i] = ('%s:{"dtype":"%s","shape":%s,"data_offsets":[%d,%d]}'):format(json.encode(name), t.dtype,
      json.encode(json.list(table.move(t.shape, 1, #t.shape, 1, {}))), at, at + t.bytes)
    at = at + t.bytes
  end
  table.insert(parts, 1, '"__metadata__":{"format":"pt"}')
  local header = "{" .. table.concat(parts, ",") .. "}"
  header = header .. (" "):rep(-(8 + #header) % 8)
  put(("<I8"):pack(#header))
  put(header)
  for _, name in ipairs(names) do self:copy(name, put) end
end

return tensors
