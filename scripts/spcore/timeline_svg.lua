-- SPDX-License-Identifier: MIT
-- Traces as a picture, one below the other on one axis: a row for each lane, a bar for each call, coloured by stage, a line for
-- each wait between lanes; what is left of a row is idle.
local look = require "spcore.look"
local plot = require "spcore.plot"
local timeline = require "spcore.timeline"

local escape = look.escape
local head, tail = 118, 44 -- left and right of the bars
local letter = 5.7 -- about as wide, at the small size

-- ---- colours ----

-- A fill for each stage, in the order in which they are first seen.
local function colours_of(parts)
  local fills, names = {}, {}
  for _, part in ipairs(parts) do
    for _, s in ipairs(part.slices) do
      if s.cat == "call" and not fills[s.stage] then
        fills[s.stage] = look.fills[#names % #look.fills + 1]
        names[#names + 1] = s.stage
      end
    end
  end
  return fills, names
end

-- ---- pieces ----

-- What is written in a bar: as much as there is room for.
local function label(s, width)
  local name = s.stage or s.name
  local what = s.name:match "(%S+)$"
  local long = s.cat == "call" and what ~= "forward" and name .. " " .. what or name
  for _, text in ipairs { long .. " " .. s.step, name .. " " .. s.step, s.cat == "call" and tostring(s.step) or nil } do
    if utf8.len(text) * letter + 4 <= width then return text end
  end
end

local function put_bar(c, s, y)
  local x, wide = head + s.from * c.scale, (s.to - s.from) * c.scale
  local row = c.drawn[y] or {}
  c.drawn[y] = row
  -- Many bars at one place are one.
  if wide < 0.4 and row.x and x - row.x < 0.4 then return end
  row.x = x
  local fill = s.cat == "call" and (' fill="%s"'):format(c.fills[s.stage]) or ' class="host"'
  if s.cat == "graph" then fill = c.hidden and ' class="host"' or ' fill="none" class="line-dim"' end
  local copy = s.cat == "call" and s.name:find " copy$" and ' opacity="0.6"' or ""
  c.put('<g><title>%s, step %d: %s</title><rect x="%.2f" y="%d" width="%.2f" height="%d" rx="1.5"%s%s/>', escape(s.name), s.step,
    timeline.ms((s.to - s.from) / 1e3), x, y, math.max(0.5, wide - 0.4), look.box, fill, copy)
  local text = s.cat ~= "graph" and label(s, wide) or c.hidden and label(s, wide)
  if text then
    c.put('<text x="%.1f" y="%d" font-size="%d" text-anchor="middle" fill="%s">%s</text>', x + wide / 2, y + 13, look.small,
      look.on_fill, escape(text))
  end
  c.put "</g>"
end

-- The time of a lane's calls, or of its graphs where there are no others; graphs around calls count once.
local function busy(part, lane)
  local calls, graphs = 0, 0
  for _, s in ipairs(part.slices) do
    if s.lane == lane and s.cat == "call" then calls = calls + s.to - s.from end
    if s.lane == lane and s.cat == "graph" then graphs = graphs + s.to - s.from end
  end
  return math.max(calls, graphs) / part.length
end

local function put_row(c, part, lane, y)
  for _, s in ipairs(part.slices) do
    if s.lane == lane and s.name ~= "step loop" then put_bar(c, s, y) end
  end
  c.put('<text class="ink" x="%d" y="%d" text-anchor="end">%s</text>', head - 8, y + 13, escape(look.cut(lane, 17)))
  if lane ~= "host" then
    c.put('<text class="dim" x="%d" y="%d" text-anchor="end" font-size="%d">%.0f %%</text>', look.width - 8, y + 13, look.small,
      100 * busy(part, lane))
  end
end

local function put_waits(c, part, at)
  c.put '<g class="line-ink" fill="none" stroke-width="0.8" opacity="0.65">'
  for _, a in ipairs(part.arrows) do
    local y1, y2 = at[a.from_lane], at[a.to_lane]
    if y1 and y2 and a.from_lane ~= "host" and a.to_lane ~= "host" then
      local down = y2 > y1
      c.put('<path d="M%.1f %dL%.1f %d"/>', head + a.from * c.scale, y1 + (down and look.box or 0), head + a.to * c.scale,
        y2 + (down and 0 or look.box))
    end
  end
  c.put "</g>"
end

-- Lines of at most so many letters, broken behind ";" and ","
local function wrapped(text, most)
  local lines = { "" }
  for piece in text:gmatch "[^;,]+[;,]?" do
    if #lines[#lines] > 0 and utf8.len(lines[#lines] .. piece) > most then lines[#lines + 1] = "" end
    lines[#lines] = lines[#lines] .. (lines[#lines] == "" and piece:gsub("^ ", "") or piece)
  end
  return lines
end

local function put_grid(c, top, bottom)
  local lines = {}
  for i, v in ipairs(c.ticks) do lines[i] = ("M%.1f %dV%d"):format(head + v * c.unit * c.scale, top, bottom) end
  c.put('<path class="line-rule" fill="none" stroke-width="0.7" stroke-opacity="0.8" d="%s"/>', table.concat(lines))
end

-- A trace; returns where the next one begins.
local function put_panel(c, trace, part, y)
  local title = ("%s, %s%s"):format(trace.device, trace.capture == "off" and "" or "capture " .. trace.capture .. ", ",
    part.from == part.to and "step " .. part.from or ("steps %d to %d"):format(part.from, part.to))
  c.put('<text class="ink" x="8" y="%d" font-size="%d" font-weight="bold">%s<tspan class="dim" font-size="%d" '
    .. 'font-weight="normal" dx="8">%s</tspan></text>', y + 14, look.large, escape(trace.strategy .. trace.of_rank), look.font, escape(title))
  y = y + 24
  local at, top = {}, y
  c.hidden = trace.hidden
  for _, lane in ipairs(trace.lanes) do
    c.put('<rect class="idle" x="%d" y="%d" width="%.1f" height="%d"/>', head, y, part.length * c.scale, look.box)
    at[lane], y = y, y + look.row
  end
  put_grid(c, top - 3, y - 4)
  for _, lane in ipairs(trace.lanes) do put_row(c, part, lane, at[lane]) end
  put_waits(c, part, at)
  for _, text in ipairs(timeline.words(trace, c.traces)) do
    for _, line in ipairs(wrapped(text, 122)) do
      c.put('<text class="dim" x="8" y="%d">%s</text>', y + 10, escape(line))
      y = y + 15
    end
  end
  return y + 14
end

-- Time in the unit in which the axis has short numbers.
local function unit_of(length)
  if length >= 2e6 then return 1e6, "s" elseif length >= 2e3 then return 1e3, "ms" end
  return 1, "us"
end

local function put_axis(c, length, y)
  c.put('<path class="line-dim" d="M%d %dH%.1f" fill="none"/>', head, y, head + length * c.scale)
  for _, v in ipairs(c.ticks) do
    local x = head + v * c.unit * c.scale
    c.put('<path class="line-dim" d="M%.1f %dv4"/>', x, y)
    c.put('<text class="dim" x="%.1f" y="%d" text-anchor="middle" font-size="%d">%s</text>', x, y + 15, look.small,
      plot.number(v))
  end
  c.put('<text class="dim" x="%d" y="%d" text-anchor="end" font-size="%d">%s</text>', look.width - 8, y + 15, look.small,
    c.unit_name)
end

local function put_legend(c, names, y)
  local x = 8
  local function entry(mark, text)
    local wide = 30 + math.ceil(utf8.len(text) * 6.5)
    if x + wide > look.width - 8 then x, y = 8, y + 18 end
    c.put(mark, x, y)
    c.put('<text class="ink" x="%d" y="%d">%s</text>', x + 16, y + 9, escape(text))
    x = x + wide
  end
  for _, name in ipairs(names) do
    entry(('<rect x="%%d" y="%%d" width="11" height="11" rx="2" fill="%s"/>'):format(c.fills[name]), look.cut(name, 24))
  end
  entry('<rect x="%d" y="%d" width="11" height="11" rx="2" class="idle"/>', "idle")
  entry('<path transform="translate(%d %d)" d="M1 10L10 1" class="line-ink" stroke-width="0.8"/>', "a wait for another lane")
  entry('<rect x="%d" y="%d" width="11" height="11" rx="2" class="host"/>', "host: script, metrics")
  c.put('<text class="dim" x="8" y="%d">numbers in bars: steps; on the right: how much of the time drawn a lane was busy</text>',
    y + 28)
  return y + 36
end

-- ---- the whole ----

-- traces as timeline.read gives them, the steps of each that are drawn as timeline.cut does.
return function(traces, parts)
  local out, length = {}, 0
  for _, part in ipairs(parts) do length = math.max(length, part.length) end
  local c = { scale = (look.width - head - tail - 6) / length, drawn = {}, traces = traces }
  function c.put(fmt, ...) out[#out + 1] = select("#", ...) > 0 and fmt:format(...) or fmt end
  local names
  c.fills, names = colours_of(parts)
  c.unit, c.unit_name = unit_of(length)
  c.ticks = plot.ticks(0, length / c.unit, 8)
  local y = 10
  for i, trace in ipairs(traces) do y = put_panel(c, trace, parts[i], y) end
  put_axis(c, length, y)
  local tall = put_legend(c, names, y + 30)
  local titles = {}
  for i, trace in ipairs(traces) do titles[i] = trace.strategy end
  local first = {
    ('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" '
      .. 'font-size="%d">'):format(look.width, tall, look.width, tall, look.font),
    ("<title>what ran when: %s</title>"):format(escape(table.concat(titles, ", "))),
    look.style(), "<style>.host{fill:#b4bac0}</style>", '<rect class="page" width="100%" height="100%"/>',
  }
  return table.concat(first, "\n") .. "\n" .. table.concat(out, "\n") .. "\n</svg>\n"
end
