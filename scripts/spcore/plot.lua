-- SPDX-License-Identifier: MIT
-- Curves as SVG, for pages that have the colours: classes and var(--...) names, no colour is written here. One letter
-- is about 6 units wide, so a plot is readable where it is shown at least at its own size.
local svg = require "spcore.svg"

local plot = { escape = svg.escape, number = svg.number, ticks = svg.ticks }

-- Steps and values in at most `most` places: { at, mean, lowest, highest } each; values that are no numbers are left
-- out.
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

-- Whether values are so far apart that most would lie on the axis: then powers of ten stand at equal distances.
function plot.is_wide(series)
  local all, most = {}, 0
  for _, s in ipairs(series) do
    for _, p in ipairs(s.points) do
      if (p[3] or p[2]) <= 0 then return false end
      all[#all + 1], most = p[2], math.max(most, p[4] or p[2])
    end
  end
  table.sort(all)
  return #all > 0 and most > 100 * all[(#all + 1) // 2]
end

local function in_powers(series)
  local out = {}
  for i, s in ipairs(series) do
    local points = {}
    for k, p in ipairs(s.points) do
      points[k] = { p[1], math.log(p[2], 10), p[3] and math.log(p[3], 10), p[4] and math.log(p[4], 10), of = p[2] }
    end
    out[i] = { name = s.name, points = points, dots = s.dots, dash = s.dash, bare = s.bare, colour = s.colour }
  end
  return out
end

local function whole_numbers(from, to)
  local out = {}
  for v = math.ceil(from), math.floor(to), math.max(1, (to - from) // 5) do out[#out + 1] = v end
  return out
end

local function power_of_ten(v) return svg.number(10.0 ^ v) end

local function bounds(series, from, to)
  local x0, x1, y0, y1 = math.huge, -math.huge, math.huge, -math.huge
  for _, s in ipairs(series) do
    for _, p in ipairs(s.points) do
      x0, x1 = math.min(x0, p[1]), math.max(x1, p[1])
      y0, y1 = math.min(y0, p[3] or p[2]), math.max(y1, p[4] or p[2])
    end
  end
  if x0 == math.huge then return end
  x0, x1 = from or x0, math.max(to or x1, x1)
  if x0 == x1 then x0, x1 = x0 - 0.5, x1 + 0.5 end
  if y0 == y1 and y0 >= 0 and y0 <= 1 then y0, y1 = 0, 1 end -- most are shares
  if y0 == y1 then
    local room = y0 == 0 and 1 or math.abs(y0) * 0.1
    y0, y1 = y0 - room, y1 + room
  end
  local room = (y1 - y0) * 0.05
  return x0, x1, y0 - (y0 >= 0 and y0 < room and y0 or room), y1 + room
end

local left, right, top, bottom = 52, 12, 12, 34

-- Marks of whole steps: the first and the last one are there, and of those between only what does not touch them.
local function step_ticks(x0, x1)
  local out, room = { x0 }, (x1 - x0) / 9
  for _, v in ipairs(svg.ticks(x0, x1, 5)) do
    if v - x0 > room and x1 - v > room and v == math.floor(v) then out[#out + 1] = v end
  end
  if x1 > x0 then out[#out + 1] = x1 end
  return out
end

local function path(points, x, y, k, first)
  local out = {}
  for i, p in ipairs(points) do out[i] = svg.path(i == 1 and first or "L", x(p[1]), y(p[k])) end
  return table.concat(out)
end

-- A curve, with a band behind it where its points have a lowest and a highest; dots where they are asked for.
local function put_series(c, s, x, y, colour, x_name)
  local n = #s.points
  if n > 1 and s.points[1][3] and not s.bare then
    local back = {}
    for k = n, 1, -1 do back[#back + 1] = s.points[k] end
    c:path(path(s.points, x, y, 4, "M") .. path(back, x, y, 3, "L") .. "Z", { class = "band", fill = colour })
  end
  if n > 1 then c:path(path(s.points, x, y, 2, "M"), { class = "line", stroke = colour,
    ["stroke-dasharray"] = s.dash and "4 3" or nil }) end
  for _, p in ipairs((s.dots or n == 1) and s.points or {}) do
    c:circle(x(p[1]), y(p[2]), 2.5, { fill = colour }, ("%s %s: %s"):format(x_name, svg.number(p[1]), svg.number(p.of or p[2])))
  end
end

-- plot.lines{ width =, height =, x = "step", from =, to = the steps that the axis has, title =, series = { { name =, points =
-- { { x, y[, lowest, highest] } }, dots = true, dash = true }, ... }, zero = true }: `zero` has the values' axis begin at 0. A
-- curve with lowest and highest has a band behind it. powers = true: of values that plot.is_wide says are so.
function plot.lines(t)
  local w, h, c, series = t.width or 360, t.height or 200, svg.canvas(), t.powers and in_powers(t.series) or t.series
  local x0, x1, y0, y1 = bounds(series, t.from, t.to)
  local mark = { class = "mark", ["text-anchor"] = "middle" }
  if not x0 then
    c:text(w // 2, h // 2, "nothing to draw", mark)
    return c:figure(w, h, "plot", t.title)
  end
  if t.zero then y0 = math.min(0, y0) end
  local function x(v) return left + (v - x0) / (x1 - x0) * (w - left - right) end
  local y = c:y_axis { from = y0, to = y1, top = top, bottom = h - bottom, left = left, right = w - right, most = 5,
    ticks = t.powers and whole_numbers(y0, y1), words = t.powers and power_of_ten, gap = 6,
    line = function() return { class = "grid" } end, text = { class = "mark" } }
  c:x_axis { ticks = t.to and step_ticks(x0, x1) or svg.ticks(x0, x1, 5), x = x, y = h - bottom, down = 16, right = w - 40,
    text = { class = "mark" } }
  c:text((left + w - right) // 2, h - 4, t.x, mark)
  for i, s in ipairs(series) do put_series(c, s, x, y, ("var(--line%d)"):format((s.colour or i - 1) % 6), t.x) end
  return c:figure(w, h, "plot", t.title)
end

-- plot.scatter{ title =, x =, y = names of the axes, points = { { x, y, words }, ... } }: both axes have one range, and a line
-- says where both are equal.
function plot.scatter(t)
  local w, h, c = t.width or 360, t.height or 300, svg.canvas()
  local lo, hi = math.huge, -math.huge
  for _, p in ipairs(t.points) do lo, hi = math.min(lo, p[1], p[2]), math.max(hi, p[1], p[2]) end
  local room = hi > lo and (hi - lo) * 0.05 or math.max(math.abs(hi), 1) * 0.1
  lo, hi = lo - room, hi + room
  local function x(v) return left + (v - lo) / (hi - lo) * (w - left - right) end
  local y = c:y_axis { from = lo, to = hi, top = top, bottom = h - bottom, left = left, right = w - right, most = 5, gap = 6,
    line = function() return { class = "grid" } end, text = { class = "mark" } }
  c:x_axis { ticks = svg.ticks(lo, hi, 5), x = x, y = h - bottom, down = 16, right = w - 40, text = { class = "mark" } }
  c:path(svg.path("M", x(lo), y(lo)) .. svg.path("L", x(hi), y(hi)),
    { class = "line", stroke = "var(--dim)", ["stroke-dasharray"] = "4 3" })
  for _, p in ipairs(t.points) do c:circle(x(p[1]), y(p[2]), 2.5, { fill = "var(--line0)" }, p[3]) end
  c:text((left + w - right) // 2, h - 4, t.x, { class = "mark", ["text-anchor"] = "middle" })
  return c:figure(w, h, "plot", t.title)
end

return plot
