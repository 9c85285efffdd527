-- SPDX-License-Identifier: MIT
-- Lines of text files as programs and people write them: UTF-8 with or without a byte order mark, UTF-16 with one, and ends of
-- lines of any kind. The stages have kits/text for the same.
local core = require "spcore.core"

local text = {}

-- UTF-16 behind its mark. Half of a letter stays out.
local function from_utf16(bytes, big)
  local out, unit, at, high = {}, big and ">I2" or "<I2", 3, nil
  while at + 1 <= #bytes do
    local c = unit:unpack(bytes, at)
    at = at + 2
    if c >= 0xd800 and c < 0xdc00 then high = c
    elseif c >= 0xdc00 and c < 0xe000 then
      if high then out[#out + 1] = utf8.char(0x10000 + (high - 0xd800 << 10) + c - 0xdc00) end
      high = nil
    else out[#out + 1], high = utf8.char(c), nil end
  end
  return table.concat(out)
end

-- Without the blanks around it, as those not to be broken at.
function text.trim(line)
  local blank = { ["\u{a0}"] = true, ["\u{3000}"] = true, ["\u{feff}"] = true, ["\u{200b}"] = true, ["\u{202f}"] = true }
  line = line:match "^%s*(.-)%s*$"
  while blank[line:match "^[\xc2-\xef][\x80-\xbf]+" or ""] do line = line:gsub("^[\xc2-\xef][\x80-\xbf]+", ""):match "^%s*(.*)$" end
  while blank[line:match "[\xc2-\xef][\x80-\xbf]+$" or ""] do line = line:gsub("[\xc2-\xef][\x80-\xbf]+$", ""):match "^(.-)%s*$" end
  return line
end

-- lines(path) -> a function that gives each line without its end and the blanks around it, nil at the end; path "-": the
-- standard input. It reads as it goes, so a list may come from a pipe.
function text.lines(path)
  local file, why = io.stdin, nil
  if path ~= "-" then file, why = io.open(path, "rb") end
  if not file then core.fail(why) end
  local n, waiting = 0, {}
  local function next_piece()
    local piece, failed = file:read "L"
    if failed then core.fail(("%s: %s"):format(path, failed)) end
    n = n + 1
    if n > 1 or not piece then return piece end
    if piece:find "^\xff\xfe" or piece:find "^\xfe\xff" then return from_utf16(piece .. (file:read "a" or ""), piece:byte() == 0xfe) end
    return (piece:gsub("^\u{feff}", ""))
  end
  return function()
    while #waiting == 0 do
      local piece = next_piece()
      if not piece then return end
      if piece:find("\0", 1, true) then
        core.fail(("%s line %d: a byte 0: this is no text; save it as UTF-8"):format(path, n))
      end
      for line in piece:gsub("\r\n?", "\n"):gmatch "[^\n]+" do waiting[#waiting + 1] = text.trim(line) end
    end
    return table.remove(waiting, 1)
  end
end

return text
