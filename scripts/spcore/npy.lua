-- SPDX-License-Identifier: MIT
-- Writes NumPy's .npy files row by row: npy.create(path, dtype, shape) gives an object with put(bytes) and close().
local core = require "spcore.core"

local npy = {}
npy.__index = npy

-- dtype as NumPy has it: "|u1"; the header is filled up to a multiple of 64 bytes, as NumPy does.
function npy.create(path, dtype, shape)
  local sides = table.concat(shape, ", ") .. (#shape == 1 and "," or "")
  local text = ("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }"):format(dtype, sides)
  local file, why = io.open(path, "wb")
  if not file then core.fail(why) end
  local n = setmetatable({ path = path, file = file }, npy)
  text = text .. (" "):rep(-(10 + #text + 1) % 64) .. "\n"
  n:put("\x93NUMPY\1\0" .. string.pack("<I2", #text) .. text)
  return n
end

function npy:put(bytes)
  local ok, why = self.file:write(bytes)
  if not ok then core.fail(("%s: %s"):format(self.path, why)) end
end

function npy:close()
  local ok, why = self.file:close()
  if not ok then core.fail(("%s: %s"):format(self.path, why)) end
end

return npy
