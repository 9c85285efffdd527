-- SPDX-License-Identifier: MIT
-- Height and width of images: one whole number where they are the same, as --size 64 and settings.json have it, else { height, width }.
local sides = {}

-- -> height, width
function sides.of(size)
  if type(size) == "table" then return size[1], size[2] end
  return size, size
end

function sides.pair(size) return { sides.of(size) } end

function sides.pack(height, width) return height == width and height or { height, width } end

-- Each side by f.
function sides.map(size, f)
  local h, w = sides.of(size)
  return sides.pack(f(h), f(w))
end

function sides.same(a, b)
  local ah, aw = sides.of(a)
  local bh, bw = sides.of(b)
  return ah == bh and aw == bw
end

-- "64", "96x128"
function sides.text(size)
  local h, w = sides.of(size)
  return h == w and ("%d"):format(h) or ("%dx%d"):format(h, w)
end

-- What settings.json may have: a whole number, or two.
function sides.valid(size)
  local h, w = sides.of(size)
  return math.type(h) == "integer" and math.type(w) == "integer"
end

return sides
