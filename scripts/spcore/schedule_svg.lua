-- SPDX-License-Identifier: MIT
-- A schedule as a picture: a row for each lane, a column for each tick, a box for what a lane does of a step, coloured
-- by step, an arrow for each wait across lanes. Lengths mean nothing but order: a box begins when all that it waits for
-- may be over, and ends where its lane goes on or somebody waits for it.
local look = require "spcore.look"
local svg = require "spcore.svg"

-- ---- what is drawn ----

-- The run of task `from` that the wait of a task of step s is for; nil: it lies before the first step.
local function waited(tasks, w, s)
  local from = tasks[w.from]
  local run = s - w.back
  if run < from.phase then return nil end
  return run - (run - from.phase) % from.every
end

local function runs(task, step) return step >= 0 and step % task.every == task.phase end

local function longest(info)
  local most = 1
  for _, task in ipairs(info.tasks) do most = math.max(most, task.every) end
  return most
end

local function gcd(a, b) return b == 0 and a or gcd(b, a % b) end

-- Steps after which what runs is the same again.
local function period(info)
  local all = 1
  for _, task in ipairs(info.tasks) do all = all // gcd(all, task.every) * task.every end
  return math.min(all, 4096)
end

-- Waits between two lanes of which none is the host's; same: they are for the same tick at one step or another.
local function crossing(info)
  local waits, all = {}, period(info)
  for _, w in ipairs(info.waits) do
    local task, from = info.tasks[w.task], info.tasks[w.from]
    local to_lane, from_lane = info.lanes[task.lane], info.lanes[from.lane]
    if task.lane ~= from.lane and not to_lane.host and not from_lane.host then
      local wait = { task = w.task, from = w.from, back = w.back, same = false }
      for s = 64 * all, 65 * all do -- behind all that lies before the first step
        local run = runs(task, s) and waited(info.tasks, w, s)
        if run and run + from_lane.delay == s + to_lane.delay then wait.same = true end
      end
      waits[#waits + 1] = wait
    end
  end
  return waits
end

-- What the host tells a lane of a step is no work of its own: it is drawn with what follows.
local function only_told(info, group)
  for _, i in ipairs(group.tasks) do
    if info.tasks[i].name ~= info.lanes[group.lane].name .. ".block" then return false end
  end
  return true
end

-- The tasks of a lane in groups: a new one where a task waits within a tick, or behind one that others wait for so.
local function grouped(info, waits)
  local opens, closes, groups, of, last = {}, {}, {}, {}, {}
  for _, w in ipairs(waits) do
    if w.same then opens[w.task], closes[w.from] = true, true end
  end
  for _, i in ipairs(info.order) do
    local task = info.tasks[i]
    local group = last[task.lane]
    if not info.lanes[task.lane].host then
      if not group or opens[i] and not only_told(info, group) or closes[group.tasks[#group.tasks]] then
        group = { lane = task.lane, tasks = {}, before = group, level = 0 }
        groups[#groups + 1], last[task.lane] = group, group
      end
      table.insert(group.tasks, i)
      of[i] = group
    end
  end
  return groups, of
end

-- How many groups lie before one within a tick, at the most. They stand in the order of submission, so once is enough.
local function put_levels(groups, of, waits)
  local most = 0
  for _, group in ipairs(groups) do
    if group.before then group.level = group.before.level + 1 end
    for _, w in ipairs(waits) do
      if w.same and of[w.task] == group then group.level = math.max(group.level, of[w.from].level + 1) end
    end
    most = math.max(most, group.level)
  end
  return most + 1
end

local function has_step(info, group, step)
  for _, i in ipairs(group.tasks) do
    if runs(info.tasks[i], step) then return true end
  end
  return false
end

-- Where boxes begin, and end if nobody waits for them: [group][step] = { from =, to = }, in levels. Of the first ticks,
-- and some more that the last ones end at.
local function begin(info, groups, levels, ticks)
  local boxes, lanes = {}, {}
  for _, group in ipairs(groups) do
    local delay, row, lane = info.lanes[group.lane].delay, {}, lanes[group.lane] or {}
    boxes[group], lanes[group.lane] = row, lane
    for step = 0, ticks + 2 * longest(info) + 64 do
      if has_step(info, group, step) then
        row[step] = { from = (step + delay) * levels + group.level, to = math.huge }
        lane[#lane + 1] = row[step]
      end
    end
  end
  for _, lane in pairs(lanes) do
    table.sort(lane, function(a, b) return a.from < b.from end)
    for i = 1, #lane - 1 do lane[i].to = lane[i + 1].from end
  end
  return boxes
end

local function place(info, groups, of, waits, levels, ticks)
  local boxes = begin(info, groups, levels, ticks)
  for _, w in ipairs(waits) do
    for step, box in pairs(boxes[of[w.task]]) do
      local run = runs(info.tasks[w.task], step) and waited(info.tasks, w, step)
      local source = run and boxes[of[w.from]][run]
      if source and box.from > source.from then source.to = math.min(source.to, box.from) end
    end
  end
  return boxes
end

-- ---- how ----

local grey = look.grey
local colours = table.move(look.fills, 1, 6, 1, {}) -- by step, so that they come again soon

local head, row_height, box_height, top, line = 236, 34, 24, 40, 12

local function short(name)
  return (name:gsub(" %(%d+ of %d+%)$", ""):gsub("%.forward$", ""):gsub("%.update$", ""))
end

-- Words with commas as lines of at most so many letters.
local function wrapped(words, width)
  local pieces = {}
  for i, word in ipairs(words) do pieces[i] = word .. (i < #words and ", " or "") end
  return svg.wrapped(pieces, width)
end

-- A lane's name and delay, then what it does: with letters where that is more than one group.
local function words_of(info, lane)
  local lines, many = {}, #lane.groups > 1
  for k, group in ipairs(lane.groups) do
    group.letter = many and string.char(96 + (k - 1) % 26 + 1) or ""
    local words = {}
    for i, t in ipairs(group.tasks) do words[i] = short(info.tasks[t].name) end
    if many then words[1] = group.letter .. ": " .. words[1] end
    for _, text in ipairs(wrapped(words, 40)) do lines[#lines + 1] = text end
  end
  return lines
end

-- Lanes from the newest batch to the oldest and in the order of a tick, with their groups and heights.
local function rows_of(info, groups)
  local rows, of = {}, {}
  for _, group in ipairs(groups) do
    local row = of[group.lane]
    if not row then
      row = { lane = info.lanes[group.lane], groups = {}, nth = #rows + 1 }
      rows[#rows + 1], of[group.lane] = row, row
    end
    table.insert(row.groups, group)
  end
  table.sort(rows, function(a, b)
    if a.lane.delay ~= b.lane.delay then return a.lane.delay < b.lane.delay end
    if a.groups[1].level ~= b.groups[1].level then return a.groups[1].level < b.groups[1].level end
    return a.nth < b.nth
  end)
  local y = top
  for _, row in ipairs(rows) do
    row.words = words_of(info, row)
    row.y, row.height = y, math.max(row_height, (1 + #row.words) * line + 10)
    y = y + row.height
  end
  return rows, of, y
end

-- All that is to be drawn, and the canvas.
local function plan(info)
  local waits = crossing(info)
  local groups, of = grouped(info, waits)
  local c = { info = info, waits = waits, of = of, levels = put_levels(groups, of, waits), fill = 0,
    canvas = svg.canvas() }
  c.rows, c.row_of, c.bottom = rows_of(info, groups)
  for _, row in ipairs(c.rows) do c.fill = math.max(c.fill, row.lane.delay) end
  c.ticks = c.fill + math.max(3, longest(info) + 1)
  c.boxes = place(info, groups, of, waits, c.levels, c.ticks)
  c.unit = math.max(26, math.min(96, 640 // (c.ticks * c.levels)))
  c.last = c.ticks * c.levels
  function c.x(level) return head + math.min(level, c.last) * c.unit end
  return c
end

local middle = { ["text-anchor"] = "middle" }

local function put_ticks(c)
  local pen, wide = c.canvas, c.unit * c.levels
  pen:group({ class = "ticks", fill = grey }, function()
    for tick = 0, c.ticks - 1 do pen:text(head + tick * wide + wide // 2, 28, ("tick %d"):format(tick), middle) end
    if c.fill > 0 then pen:text(head + 4, 14, "fill") end
    pen:text(head + c.fill * wide + 4, 14, "from here on all ticks are alike")
  end)
  pen:group({ class = "grid", stroke = grey, ["stroke-width"] = 0.5, ["stroke-dasharray"] = "2 3" }, function()
    for tick = 0, c.ticks do pen:path(svg.path("M", head + tick * wide, tick == c.fill and 4 or 32, "V", c.bottom)) end
  end)
end

local function put_lane(c, row)
  local pen, y = c.canvas, row.y + 14
  pen:group({ class = "lane", fill = grey }, function()
    pen:text(8, y, row.lane.name, { ["font-size"] = 11, ["font-weight"] = "bold" })
    pen:text(head - 12, y, ("delay %d"):format(row.lane.delay), { ["text-anchor"] = "end" })
    for i, text in ipairs(row.words) do pen:text(8, y + i * line, text) end
  end)
end

local function put_box(c, row, group, step)
  local box, pen, names = c.boxes[group][step], c.canvas, {}
  if not box or box.from >= c.last then return end
  for i, t in ipairs(group.tasks) do names[i] = c.info.tasks[t].name end
  local left, wide, y = c.x(box.from) + 1, c.x(box.to) - c.x(box.from) - 2, row.y + (row.height - box_height) // 2
  pen:group({ class = "box" }, function()
    pen:rect(left, y, wide, box_height, { rx = 3, fill = colours[step % #colours + 1] })
    pen:text(left + wide // 2, y + 16, step .. group.letter, { ["font-size"] = 11 })
  end, ("%s, step %d: %s"):format(row.lane.name, step, table.concat(names, ", ")))
end

local function put_wait(c, w, step)
  local to, from = c.of[w.task], c.of[w.from]
  local run = runs(c.info.tasks[w.task], step) and waited(c.info.tasks, w, step)
  local box, source = c.boxes[to][step], run and c.boxes[from][run]
  if not box or not source or box.from >= c.last then return end
  local a, b = c.row_of[from.lane], c.row_of[to.lane]
  local half = (b.y > a.y and 1 or -1) * box_height // 2
  local x1, y1 = c.x(source.to) - 4, a.y + a.height // 2 + half
  local x2, y2 = c.x(box.from) + 4, b.y + b.height // 2 - half
  local middle_y = (y1 + y2) // 2
  c.canvas:path(svg.path("M", x1, y1, "C", x1, middle_y, x2, middle_y, x2, y2),
    { ["marker-end"] = "url(#tip)", ["stroke-dasharray"] = run < step and "3 2" or nil })
end

local function each_step(c, f)
  for step = 0, c.ticks - 1 do f(step) end
end

-- The tip of an arrow.
local tip = '<defs><marker id="tip" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="5" markerHeight="5" orient="auto">'
  .. '<path d="M0 0 6 3 0 6z" fill="' .. grey .. '"/></marker></defs>'

return function(doc, info)
  local c = plan(info)
  local pen = c.canvas
  pen:put(tip)
  put_ticks(c)
  for _, row in ipairs(c.rows) do put_lane(c, row) end
  pen:group({ class = "boxes", fill = look.on_fill, stroke = "none", ["text-anchor"] = "middle" }, function()
    for _, row in ipairs(c.rows) do
      for _, group in ipairs(row.groups) do
        each_step(c, function(step) put_box(c, row, group, step) end)
      end
    end
  end)
  pen:group({ class = "waits", fill = "none", stroke = grey, ["stroke-width"] = 0.9 }, function()
    for _, w in ipairs(c.waits) do
      each_step(c, function(step) put_wait(c, w, step) end)
    end
  end)
  pen:text(8, c.bottom + 14, doc.strategy .. "; boxes: the step; arrows: waits, dashed for an earlier step. Lengths "
    .. "are not times; the host's row is left out.", { fill = grey })
  return pen:document(c.x(c.last) + 12, c.bottom + 22,
    { title = ("strategy %s: lanes by ticks"):format(doc.strategy), more = { ["font-size"] = 10 } })
end
