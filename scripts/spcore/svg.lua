-- SPDX-License-Identifier: MIT
-- Pictures as SVG: elements, numbers, axes and legends, for all that draws (schedules, timelines, bench, curves of
-- reports). Colours and sizes are look.lua's.
local look = require "spcore.look"

local svg = {}
local canvas = {}
canvas.__index = canvas

-- ---- words and numbers ----

svg.escape = look.escape

-- A coordinate: at most two digits behind the point.
local function coordinate(v)
  if math.tointeger(v) then return ("%d"):format(v) end
  local text = ("%.2f"):format(v):gsub("%.?0+$", "")
  return text == "-0" and "0" or text
end

-- A number as short as it can be read: 12000 -> "12k", 0.00012 -> "1.2e-4".
function svg.number(v)
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
function svg.ticks(lo, hi, most)
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

-- Words as lines of at most so many letters. Each piece of `pieces` stays whole.
function svg.wrapped(pieces, most)
  local lines = { "" }
  for _, piece in ipairs(pieces) do
    local last = lines[#lines]
    if #last > 0 and (utf8.len(last .. piece) or #last + #piece) > most then
      lines[#lines + 1] = ""
      piece = piece:gsub("^ ", "")
    end
    lines[#lines] = lines[#lines] .. piece
  end
  return lines
end

-- svg.path("M", x, y, "L", x2, y2 ...): the commands of a path
function svg.path(...)
  local out = table.pack(...)
  for i = 1, out.n do
    local v = out[i]
    if type(v) == "number" then
      out[i] = (i > 1 and type(select(i - 1, ...)) == "number" and " " or "") .. coordinate(v)
    end
  end
  return table.concat(out)
end

-- ---- elements ----

-- Attributes that come first.
local front = { xmlns = 0, class = 1, x = 2, y = 3, width = 4, height = 5, cx = 2, cy = 3, r = 4 }

-- " x="1" y="2" class="ink"": the same order always
local function attributes(t)
  local names, out = {}, {}
  for name in pairs(t) do names[#names + 1] = name end
  table.sort(names, function(a, b)
    local i, j = front[a] or 9, front[b] or 9
    if i ~= j then return i < j end
    return a < b
  end)
  for i, name in ipairs(names) do
    local v = t[name]
    out[i] = (' %s="%s"'):format(name, type(v) == "number" and coordinate(v) or svg.escape(v))
  end
  return table.concat(out)
end

local function with(t, more)
  for k, v in pairs(more or {}) do t[k] = v end
  return t
end

-- `inside` is SVG already, or nil.
local function element(name, t, inside)
  if not inside then return ("<%s%s/>"):format(name, attributes(t)) end
  return ("<%s%s>%s</%s>"):format(name, attributes(t), inside, name)
end

local function titled(title) return title and element("title", {}, svg.escape(title)) end

-- A picture to draw on.
function svg.canvas() return setmetatable({ out = {} }, canvas) end

-- SVG as it is.
function canvas:put(text) self.out[#self.out + 1] = text end

-- Words at a place; `more`: further attributes; `behind`: words that follow, which look as `as` says.
function canvas:text(x, y, words, more, behind, as)
  local follow = behind and element("tspan", as, svg.escape(behind)) or ""
  self:put(element("text", with({ x = x, y = y }, more), svg.escape(words) .. follow))
end

-- The title is what a browser shows where the pointer is.
function canvas:rect(x, y, width, height, more, title)
  self:put(element("rect", with({ x = x, y = y, width = width, height = height }, more), titled(title)))
end

function canvas:circle(x, y, r, more, title)
  self:put(element("circle", with({ cx = x, cy = y, r = r }, more), titled(title)))
end

-- d: the commands, as svg.path makes them.
function canvas:path(d, more) self:put(element("path", with({ d = d }, more))) end

-- What draw() puts, with these attributes around it.
function canvas:group(t, draw, title)
  self:put("<g" .. attributes(t) .. ">" .. (titled(title) or ""))
  draw()
  self:put "</g>"
end

-- ---- axes and legends ----

-- A vertical axis of values: a line across and a number at each mark. t: from, to (values), top, bottom (where they
-- are), left, right (of the lines), most (marks), gap, line(value) and text: attributes -> a function from values to
-- heights
function canvas:y_axis(t)
  local function y(v) return t.bottom - (v - t.from) / (t.to - t.from) * (t.bottom - t.top) end
  for _, v in ipairs(t.ticks or svg.ticks(t.from, t.to, t.most)) do
    self:path(svg.path("M", t.left, y(v), "H", t.right), t.line(v))
    self:text(t.left - (t.gap or 8), y(v) + 4, (t.words or svg.number)(v), with({ ["text-anchor"] = "end" }, t.text))
  end
  return y
end

-- Numbers below a horizontal axis; the last one stays within the picture, which is `right` wide. t: ticks, x(value),
-- y, right, mark (length of the line at each; nil: none), line and text: attributes
function canvas:x_axis(t)
  for i, v in ipairs(t.ticks) do
    local x = t.x(v)
    local inside = t.right and i == #t.ticks and x > t.right
    if t.mark then self:path(svg.path("M", x, t.y, "v", t.mark), t.line) end
    self:text(x, t.y + t.down, svg.number(v), with({ ["text-anchor"] = inside and "end" or "middle" }, t.text))
  end
end

-- Entries { words =, mark(x, y) draws what stands for it } beside each other from `left`, in as many lines as they
-- take -> the height of the last line. t: left, right, y, line (height), letter (its width), room (around words),
-- words_at, text
function canvas:legend(entries, t)
  local x, y = t.left, t.y
  for _, one in ipairs(entries) do
    local width = t.room + math.ceil(t.letter * (utf8.len(one.words) or #one.words))
    if x > t.left and x + width > t.right then x, y = t.left, y + t.line end
    one.mark(x, y)
    self:text(x + t.words_at, y + (t.down or 0), one.words, t.text)
    x = x + width
  end
  return y
end

-- ---- the whole ----

-- The file's text: of this size, with a title, and what style and page it has. t: title, font-size and more attributes
-- in `more`, style: true for look.lua's classes and a page in their colour, `rules`: further CSS
function canvas:document(width, height, t)
  local head = {
    ("<svg%s>"):format(attributes(with({
      xmlns = "http://www.w3.org/2000/svg", width = width, height = height, ["font-family"] = "sans-serif",
      viewBox = ("0 0 %s %s"):format(coordinate(width), coordinate(height)),
    }, t.more))),
    titled(t.title),
  }
  if t.style then
    head[#head + 1] = look.style()
    head[#head + 1] = t.rules and ("<style>%s</style>"):format(t.rules)
    head[#head + 1] = element("rect", { class = "page", width = "100%", height = "100%" })
  end
  return table.concat(head, "\n") .. "\n" .. table.concat(self.out, "\n") .. "\n</svg>\n"
end

-- A picture within a page, which has the colours: `class` says how it looks.
function canvas:figure(width, height, class, title)
  local size = ("0 0 %d %d"):format(width, height)
  local head = ("<svg%s>%s"):format(attributes { class = class, viewBox = size, role = "img" }, titled(title))
  return head .. "\n" .. table.concat(self.out, "\n") .. "\n</svg>"
end

return svg
