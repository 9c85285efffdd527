-- SPDX-License-Identifier: MIT
-- Numbers of a report as people read them.
local measure = require "spcore.measure"

local words = {}

function words.bytes(v)
  local units, i = { "B", "KiB", "MiB", "GiB", "TiB" }, 1
  while v >= 1024 and units[i + 1] do v, i = v / 1024, i + 1 end
  return (i == 1 and "%d %s" or "%.1f %s"):format(v, units[i])
end

function words.duration(seconds)
  if seconds < 60 then return ("%.1f s"):format(seconds) end
  local m = seconds // 60
  if m < 60 then return ("%d min %d s"):format(m, seconds % 60 // 1) end
  return ("%d h %d min"):format(m // 60, m % 60)
end

-- A loss, or another number: four digits.
function words.figure(v) return type(v) == "number" and v == v and ("%.4g"):format(v) or "-" end

-- Three digits, of 7 as of 7.05: "7.00"; "1234".
function words.rate(v)
  if type(v) ~= "number" or v ~= v then return "-" end
  return (v >= 100 and "%.0f" or v >= 10 and "%.1f" or "%.2f"):format(v)
end

-- A share, such as an accuracy or an IoU: as many digits whatever it is.
function words.share(v) return type(v) == "number" and v == v and ("%.4f"):format(v) or "-" end

function words.is_share(name) return name:find "^top%-%w+ accuracy$" ~= nil or measure.is_share(name) end

-- A metric by its name.
function words.metric(name, v) return (words.is_share(name) and words.share or words.figure)(v) end

-- "12,345"
function words.count(v)
  local text = ("%d"):format(v)
  return (text:reverse():gsub("(%d%d%d)", "%1,"):reverse():gsub("^,", ""))
end

local names = { lr = "learning rate" }
function words.name(metric) return names[metric] or measure.name(metric) or metric end

-- An option's value.
function words.value(v)
  if type(v) == "table" then return table.concat(v, ", ") end
  if type(v) == "number" then return math.type(v) == "integer" and tostring(v) or ("%.6g"):format(v) end
  return tostring(v)
end

-- "a, b and 3 more"
function words.some(list, most)
  if #list <= most then return table.concat(list, ", ") end
  return ("%s and %d more"):format(table.concat(list, ", ", 1, most), #list - most)
end

return words
