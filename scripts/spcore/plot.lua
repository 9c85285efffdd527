-- SPDX-License-Identifier: MIT
-- Curves as SVG, for pages that have the colours: classes and var(--...) names, no colour is written here. One letter is
-- about 6 units wide, so a plot is readable where it is shown at least at its own size.
local look = require "spcore.look"

local plot = {}

plot.escape = look.escape

-- A number as short as it can be read: 12000 -> "12k", 0.00012 -> "1.2e-4".
function plot.number(v)
  if v ~= v then return "-" end
  local a = math.abs(v)
  if v == 0 then return "0" end
  if a >= 1e15 or a < 1e-3 then return (("%.2e"):format(v):gsub("%.?0*e", "e"):gsub("e%+?(%-?)0*", "e%1")) end
  for _, unit in ipairs { { 1e9, "G" }, { 1e6, "M" }, { 1e4, "k", 1e3 } } do
    if a >= unit[1] then return ("%.4g%s"):format(v / (unit[3] or unit[1]), unit[2]) end
  end
  return ("%.4g"):format(v)
end

-- Places for marks in lo..hi, at 1, 2 or 5 times a power of ten, at most `most` of them.
function plot.ticks(lo, hi, most)
  local span = hi - lo
  if not (span > 0) or span == math.huge then return { lo } end
  local step = 10 ^ math.floor(math.log(span / most, 10))
  for _, k in ipairs { 1, 2, 5, 10 } do
    if span / (step * k) <= most then
      step = step * k
      break
    end
  end
  local out, from = {}, math.ceil(lo / step - 1e-9)
  for i = from, math.floor(hi / step + 1e-9) do out[#out + 1] = i * step end
  return out
end

-- Steps and values in at most `most` places: { at, mean, lowest, highest } each; values that are no numbers are left out.
function plot.thinned(points, most)
  local out, n = {}, #points
  local each = math.max(1, math.ceil(n / most))
  for i = 1, n, each do
    local count, at, sum, lo, hi = 0, 0, 0, math.huge, -math.huge
    for k = i, math.min(i + each - 1, n) do
      local v = points[k][2]
      if v == v and v ~= math.huge and v ~= -math.huge then
        count, at, sum = count + 1, at + points[k][1], sum + v
        lo, hi = math.min(lo, v), math.max(hi, v)
      end
    end
    if count > 0 then out[#out + 1] = { at / count, sum / count, lo, hi } end
  end
  return out
end

local function bounds(series, log)
  local x0, x1, y0, y1 = math.huge, -math.huge, math.huge, -math.huge
  for _, s in ipairs(series) do
    for _, p in ipairs(s.points) do
      x0, x1 = math.min(x0, p[1]), math.max(x1, p[1])
      y0, y1 = math.min(y0, p[3] or p[2]), math.max(y1, p[4] or p[2])
    end
  end
  if x0 == math.huge then return end
  if x0 > 0 and x0 < 0.1 * x1 then x0 = 0 end
  if x0 == x1 then x0, x1 = x0 - 0.5, x1 + 0.5 end
  if y0 == y1 then
    local room = y0 == 0 and 1 or math.abs(y0) * 0.1
    y0, y1 = y0 - room, y1 + room
  end
  if not log then
    local room = (y1 - y0) * 0.05
    y0, y1 = y0 - (y0 >= 0 and y0 < room and y0 or room), y1 + room
  end
  return x0, x1, y0, y1
end

local left, right, top, bottom = 52, 12, 12, 34

local function path(points, x, y, k)
  local out = {}
  for i, p in ipairs(points) do out[i] = ("%s%.1f %.1f"):format(i == 1 and "M" or "L", x(p[1]), y(p[k])) end
  return table.concat(out)
end

-- plot.lines{ width =, height =, x = "step", title =, series = { { name =, points = { { x, y[, lowest, highest] } },
-- dots = true }, ... }, zero = true }: `zero` has the axis begin at 0. A curve with lowest and highest has a band behind it.
function plot.lines(t)
  local w, h, out = t.width or 360, t.height or 200, {}
  local function put(...) out[#out + 1] = string.format(...) end
  local x0, x1, y0, y1 = bounds(t.series)
  put('<svg class="plot" viewBox="0 0 %d %d" role="img"><title>%s</title>', w, h, plot.escape(t.title))
  if not x0 then
    put('<text class="mark" x="%d" y="%d" text-anchor="middle">nothing to draw</text></svg>', w // 2, h // 2)
    return table.concat(out, "\n")
  end
  if t.zero then y0 = math.min(0, y0) end
  local function x(v) return left + (v - x0) / (x1 - x0) * (w - left - right) end
  local function y(v) return h - bottom - (v - y0) / (y1 - y0) * (h - top - bottom) end
  for _, v in ipairs(plot.ticks(y0, y1, 5)) do
    put('<path class="grid" d="M%d %.1fH%d"/>', left, y(v), w - right)
    put('<text class="mark" x="%d" y="%.1f" text-anchor="end">%s</text>', left - 6, y(v) + 4, plot.number(v))
  end
  local marks = plot.ticks(x0, x1, 5)
  for i, v in ipairs(marks) do
    local side = i == #marks and x(v) > w - 40 and "end" or "middle"
    put('<text class="mark" x="%.1f" y="%d" text-anchor="%s">%s</text>', x(v), h - bottom + 16, side, plot.number(v))
  end
  put('<text class="mark" x="%d" y="%d" text-anchor="middle">%s</text>', (left + w - right) // 2, h - 4, plot.escape(t.x))
  for i, s in ipairs(t.series) do
    local colour = ("var(--line%d)"):format((s.colour or i - 1) % 6)
    if s.points[1] and s.points[1][3] and #s.points > 1 then
      local back = {}
      for k = #s.points, 1, -1 do back[#back + 1] = s.points[k] end
      put('<path class="band" fill="%s" d="%s%sZ"/>', colour, path(s.points, x, y, 4),
        (path(back, x, y, 3):gsub("^M", "L")))
    end
    if #s.points > 1 then put('<path class="line" stroke="%s" d="%s"/>', colour, path(s.points, x, y, 2)) end
    for _, p in ipairs((s.dots or #s.points == 1) and s.points or {}) do
      put('<circle fill="%s" cx="%.1f" cy="%.1f" r="2.5"><title>%s %s: %s</title></circle>', colour, x(p[1]), y(p[2]),
        plot.escape(t.x), plot.number(p[1]), plot.number(p[2]))
    end
  end
  put "</svg>"
  return table.concat(out, "\n")
end

return plot
