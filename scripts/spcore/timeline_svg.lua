-- SPDX-License-Identifier: MIT
-- Traces as a picture, one below the other on one axis: a row for each lane, a bar for each call, coloured by stage, a
-- line for each wait between lanes; what is left of a row is idle.
local look = require "spcore.look"
local svg = require "spcore.svg"
local timeline = require "spcore.timeline"

local head, tail = 118, 44 -- left and right of the bars
local letter = 5.7 -- about as wide, at the small size
local at_right = { class = "dim", ["text-anchor"] = "end", ["font-size"] = look.small }

-- ---- colours ----

-- "fwd", "bwd", "bwd[2]"; what else a call does, by its own word; whether it belongs to the backward pass
local short = { forward = "fwd", backward = "bwd" }
local function what_of(s)
  local word = s.cat == "call" and s.name:sub(#s.stage + 2) or ""
  return word:gsub("^%l+", short), word:find "^backward" ~= nil
end

-- A darker shade, on which dark text is still read.
local function darker(colour)
  return "#" .. colour:gsub("%x%x", function(x) return ("%02x"):format(math.floor(tonumber(x, 16) * 0.74)) end):sub(2)
end

-- A fill for each stage, in the order in which they are first seen, { fill, that of its backward, if there is one }.
local function colours_of(parts)
  local fills, names = {}, {}
  for _, part in ipairs(parts) do
    for _, s in ipairs(part.slices) do
      if s.cat == "call" then
        if not fills[s.stage] then
          fills[s.stage] = { look.fills[#names % #look.fills + 1] }
          names[#names + 1] = s.stage
        end
        if select(2, what_of(s)) then fills[s.stage][2] = darker(fills[s.stage][1]) end
      end
    end
  end
  return fills, names
end

-- ---- pieces ----

-- What is written in a bar: as much as there is room for.
local function label(s, width)
  local name, what, step = s.stage or s.name, what_of(s), s.step + 1
  local texts = { ("%s %s %d"):format(name, what, step), ("%s %d"):format(what, step), tostring(step) }
  if what == "" then texts = { ("%s %d"):format(name, step), name } end
  for _, text in ipairs(texts) do
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
  local box = { rx = 1.5, opacity = s.cat == "call" and s.name:find " copy$" and 0.6 or nil }
  if s.cat == "call" then box.fill = c.fills[s.stage][select(2, what_of(s)) and 2 or 1]
  elseif s.cat == "graph" and not c.hidden then box.fill, box.class = "none", "line-dim"
  else box.class = "host" end
  c:group({}, function()
    c:rect(x, y, math.max(0.5, wide - 0.4), look.box, box)
    local text = (s.cat ~= "graph" or c.hidden) and label(s, wide)
    if text then
      c:text(x + wide / 2, y + 13, text,
        { ["font-size"] = look.small, ["text-anchor"] = "middle", fill = look.on_fill })
    end
  end, ("%s, step %d: %s"):format(s.name, s.step + 1, timeline.ms((s.to - s.from) / 1e3)))
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
  c:text(head - 8, y + 13, look.cut(lane, 17), { class = "ink", ["text-anchor"] = "end" })
  if lane ~= "host" then c:text(look.width - 8, y + 13, ("%.0f %%"):format(100 * busy(part, lane)), at_right) end
end

local function put_waits(c, part, at)
  c:group({ class = "line-ink", fill = "none", ["stroke-width"] = 0.8, opacity = 0.65 }, function()
    for _, a in ipairs(part.arrows) do
      local y1, y2 = at[a.from_lane], at[a.to_lane]
      if y1 and y2 and a.from_lane ~= "host" and a.to_lane ~= "host" then
        local down = y2 > y1
        c:path(svg.path("M", head + a.from * c.scale, y1 + (down and look.box or 0), "L", head + a.to * c.scale,
          y2 + (down and 0 or look.box)))
      end
    end
  end)
end

-- Lines of at most so many letters, broken behind ";" and ","
local function wrapped(text, most)
  local pieces = {}
  for piece in text:gmatch "[^;,]+[;,]?" do pieces[#pieces + 1] = piece end
  return svg.wrapped(pieces, most)
end

local function put_grid(c, top, bottom)
  local lines = {}
  for i, v in ipairs(c.ticks) do lines[i] = svg.path("M", c.x(v), top, "V", bottom) end
  c:path(table.concat(lines), { class = "line-rule", fill = "none", ["stroke-width"] = 0.7, ["stroke-opacity"] = 0.8 })
end

-- A trace; returns where the next one begins.
local function put_panel(c, trace, part, y)
  local title = ("%s, %s%s"):format(trace.device, trace.capture == "off" and "" or "capture " .. trace.capture .. ", ",
    part.from == part.to and "step " .. part.from + 1 or ("steps %d to %d"):format(part.from + 1, part.to + 1))
  c:text(8, y + 14, trace.strategy .. trace.of_rank,
    { class = "ink", ["font-size"] = look.large, ["font-weight"] = "bold" },
    title, { class = "dim", dx = 8, ["font-size"] = look.font, ["font-weight"] = "normal" })
  y = y + 24
  local at, top = {}, y
  c.hidden = trace.hidden
  for _, lane in ipairs(trace.lanes) do
    c:rect(head, y, part.length * c.scale, look.box, { class = "idle" })
    at[lane], y = y, y + look.row
  end
  put_grid(c, top - 3, y - 4)
  for _, lane in ipairs(trace.lanes) do put_row(c, part, lane, at[lane]) end
  put_waits(c, part, at)
  for _, text in ipairs(timeline.words(trace, c.traces)) do
    for _, line in ipairs(wrapped(text, 122)) do
      c:text(8, y + 10, line, { class = "dim" })
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
  c:path(svg.path("M", head, y, "H", head + length * c.scale), { class = "line-dim", fill = "none" })
  c:x_axis { ticks = c.ticks, x = c.x, y = y, mark = 4, down = 15, line = { class = "line-dim" },
    text = { class = "dim", ["font-size"] = look.small } }
  c:text(look.width - 8, y + 15, c.unit_name, at_right)
end

local function put_legend(c, names, y)
  local entries = {}
  local function entry(words, attributes)
    entries[#entries + 1] = { words = words, mark = function(x, at) c:rect(x, at - 9, 11, 11, attributes) end }
  end
  for _, name in ipairs(names) do
    local forward, backward = table.unpack(c.fills[name])
    entry(look.cut(name, 24) .. (backward and " fwd" or ""), { rx = 2, fill = forward })
    if backward then entry(look.cut(name, 24) .. " bwd", { rx = 2, fill = backward }) end
  end
  entry("idle", { rx = 2, class = "idle" })
  entries[#entries + 1] = { words = "a wait for another lane", mark = function(x, at)
    c:path(svg.path("M", x + 1, at + 1, "L", x + 10, at - 8), { class = "line-ink", ["stroke-width"] = 0.8 })
  end }
  entry("host: script, evaluation, metrics", { rx = 2, class = "host" })
  y = c:legend(entries, { left = 8, right = look.width - 8, y = y + 9, line = 18, letter = 6.5, room = 30,
    words_at = 16, text = { class = "ink" } }) - 9
  c:text(8, y + 28, "numbers in bars: steps; on the right: how much of the time drawn a lane was busy",
    { class = "dim" })
  return y + 36
end

-- ---- the whole ----

-- traces as timeline.read gives them, the steps of each that are drawn as timeline.cut does.
return function(traces, parts)
  local length = 0
  for _, part in ipairs(parts) do length = math.max(length, part.length) end
  local c, names = svg.canvas(), nil
  c.scale, c.drawn, c.traces = (look.width - head - tail - 6) / length, {}, traces
  c.fills, names = colours_of(parts)
  c.unit, c.unit_name = unit_of(length)
  c.ticks = svg.ticks(0, length / c.unit, 8)
  function c.x(v) return head + v * c.unit * c.scale end
  local y = 10
  for i, trace in ipairs(traces) do y = put_panel(c, trace, parts[i], y) end
  put_axis(c, length, y)
  local tall = put_legend(c, names, y + 30)
  local titles = {}
  for i, trace in ipairs(traces) do titles[i] = trace.strategy end
  return c:document(look.width, tall, { title = "what ran when: " .. table.concat(titles, ", "), style = true,
    rules = ".host{fill:#b4bac0}", more = { ["font-size"] = look.font } })
end
