-- SPDX-License-Identifier: MIT
-- Writes tar files (ustar): tar.create(path) gives an object with add(name, bytes) and close(). The same members give the
-- same bytes, whoever writes them and when.
local core = require "spcore.core"

local tar = {}
tar.__index = tar
local block = 512

-- Numbers are octal digits with a 0 behind. The sum is of all bytes, its own field counted as blanks.
local function header(name, size)
  local function octal(v, digits) return ("%0" .. digits .. "o\0"):format(v) end
  local function text(s, n) return s .. ("\0"):rep(n - #s) end
  local before = text(name, 100) .. octal(420, 7) .. octal(0, 7) .. octal(0, 7) .. octal(size, 11) .. octal(0, 11)
  local behind = "0" .. text("", 100) .. "ustar\00000" .. text("", 64) .. octal(0, 7) .. octal(0, 7) .. text("", 167)
  local sum = 8 * 32
  for _, part in ipairs { before, behind } do
    for i = 1, #part do sum = sum + part:byte(i) end
  end
  return before .. octal(sum, 6) .. " " .. behind
end

function tar.create(path)
  local file, why = io.open(path, "wb")
  if not file then core.fail(why) end
  return setmetatable({ path = path, file = file }, tar)
end

function tar:put(bytes)
  local ok, why = self.file:write(bytes)
  if not ok then core.fail(("%s: %s"):format(self.path, why)) end
end

function tar:add(name, bytes)
  if #name > 99 then core.fail(("%s: the name %s... is longer than 99 bytes"):format(self.path, name:sub(1, 40))) end
  self:put(header(name, #bytes))
  self:put(bytes)
  self:put(("\0"):rep(-#bytes % block))
end

-- With the mark of its end.
function tar:close()
  self:put(("\0"):rep(2 * block))
  local ok, why = self.file:close()
  if not ok then core.fail(("%s: %s"):format(self.path, why)) end
end

return tar
