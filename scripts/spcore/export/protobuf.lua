-- SPDX-License-Identifier: MIT
-- Messages of protobuf, as far as ONNX needs them: fields of whole numbers, floats, texts and messages, as wire format. A message
-- is a list of pieces; a piece { bytes =, copy = function(put) } stands for bytes that are not in memory.
local protobuf = {}

local message = {}
message.__index = message

function protobuf.message() return setmetatable({ size = 0 }, message) end

local function varint(v)
  if v >= 0 and v < 128 then return string.char(v) end
  local out = {}
  repeat
    local low, rest = v & 127, v >> 7 -- `>>` fills with zeros, so a negative number has ten bytes, as the format wants it
    out[#out + 1] = string.char(rest ~= 0 and low | 128 or low)
    v = rest
  until v == 0
  return table.concat(out)
end

local function add(self, piece)
  self[#self + 1] = piece
  self.size = self.size + (type(piece) == "string" and #piece or piece.bytes)
end

local function key(field, wire) return varint(field << 3 | wire) end

function message:int(field, v)
  add(self, key(field, 0) .. varint(v))
  return self
end

-- A repeated field of whole numbers, packed.
function message:ints(field, list)
  local out = {}
  for i, v in ipairs(list) do out[i] = varint(v) end
  return self:text(field, table.concat(out))
end

function message:float(field, v)
  add(self, key(field, 5) .. ("<f"):pack(v))
  return self
end

-- Bytes, too.
function message:text(field, v)
  add(self, key(field, 2) .. varint(#v) .. v)
  return self
end

-- piece: as above
function message:data(field, piece)
  add(self, key(field, 2) .. varint(piece.bytes))
  add(self, piece)
  return self
end

function message:sub(field, other)
  add(self, key(field, 2) .. varint(other.size))
  for _, piece in ipairs(other) do add(self, piece) end
  return self
end

function message:write(put)
  for _, piece in ipairs(self) do
    if type(piece) == "string" then put(piece) else piece.copy(put) end
  end
end

return protobuf
