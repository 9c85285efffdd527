-- SPDX-License-Identifier: MIT
-- What `spcore schedule` prints: a graph's schedule as one table, and that as text, JSON, a graph for Graphviz, a picture.
local core = require "spcore.core"
local json = require "spcore.json"
local picture = require "spcore.schedule_svg"
local strategy = require "spcore.strategy"

local schedule = {}

-- ---- the table ----

local priorities = { [-1] = "low", [0] = "normal", [1] = "high", [2] = "highest" }

local function map(list, f)
  local out = {}
  for i, v in ipairs(list) do out[i] = f(v) end
  return json.list(out)
end

-- Lanes that have tasks, those in the order of submission. The host's delay is that of what it collects.
local function lanes_of(info)
  local lanes, at = {}, {}
  for i, lane in ipairs(info.lanes) do
    if lane.used then
      at[i] = { name = lane.name, delay = lane.delay, host = lane.host, tasks = json.list {} }
      at[i].priority = not lane.host and priorities[lane.priority] or nil
      lanes[#lanes + 1] = at[i]
    end
  end
  for _, i in ipairs(info.order) do
    local task = info.tasks[i]
    table.insert(at[task.lane].tasks, task.name)
  end
  return json.list(lanes)
end

-- The same graph with all in one lane. It is planned again, so this comes last; notices of that were printed before. Then it
-- has its own lanes again, for a script that goes on all the same (the end of the program is an error that pcall catches).
local function serialized_memory(g, name)
  core.log_level "error"
  g._raw:lanes("serialized", (strategy.lanes(g, "serialized")))
  local memory = g._raw:memory()
  g._raw:lanes(name, g._lanes)
  return memory
end

local function document(g)
  local info, capture, memory = g._raw:plan_info(), g._raw:options().capture, g._raw:memory()
  local function lane(i) return info.lanes[i].name end
  local function task(i) return info.tasks[i].name end
  local function wait(w)
    return {
      task = task(w.task), lane = lane(info.tasks[w.task].lane),
      from = task(w.from), from_lane = lane(info.tasks[w.from].lane), back = w.back,
    }
  end
  local function edge(b)
    return {
      name = b.name, written_by = map(b.writers, lane), read_by = map(b.readers, lane),
      slots = b.slots, bytes = b.bytes, total = b.bytes * b.slots,
    }
  end
  local function segment(l) return { lane = lane(l.lane), calls = map(l.calls, task), phases = info.phases } end
  local doc = {
    strategy = info.strategy, device = g:device(), capture = capture, run_ahead = g._opt.run_ahead, race_free = true,
    lanes = lanes_of(info), edges = map(info.buffers, edge), waits = map(info.waits, wait),
    implied = map(info.implied, wait), segments = map(info.launches, segment),
  }
  local plain = serialized_memory(g, info.strategy)
  doc.memory = { strategy = memory, serialized = plain, factor = plain.total > 0 and memory.total / plain.total or 1 }
  return doc, info
end

-- ---- text ----

-- Rows of cells as lines, in columns; numbers stand to the right.
local function put_rows(out, rows)
  local widths = {}
  for _, row in ipairs(rows) do
    for i, cell in ipairs(row) do widths[i] = math.max(widths[i] or 0, utf8.len(tostring(cell)) or #cell) end
  end
  for _, row in ipairs(rows) do
    local cells = {}
    for i, cell in ipairs(row) do
      local text = tostring(cell)
      local pad = (" "):rep(widths[i] - (utf8.len(text) or #text))
      cells[i] = math.type(cell) and pad .. text or text .. pad
    end
    out[#out + 1] = ("  " .. table.concat(cells, "  ")):gsub(" +$", "")
  end
end

local function back_words(back)
  return back == 0 and "" or ("%d step%s back"):format(back, back == 1 and "" or "s")
end

local function put_lanes(out, doc)
  local rows = {}
  for i, lane in ipairs(doc.lanes) do
    rows[i] = { lane.name, "delay", lane.delay, lane.priority or "", table.concat(lane.tasks, ", ") }
  end
  out[#out + 1] = "lanes, with their tasks in order; the host's delay is until it collects a step's metrics"
  put_rows(out, rows)
end

local function names(lanes)
  return #lanes > 0 and table.concat(lanes, ", ") or "nobody"
end

local function put_edges(out, doc)
  local rows = {}
  for i, e in ipairs(doc.edges) do
    rows[i] = { e.name, names(e.written_by), "->", names(e.read_by), e.slots, "x", e.bytes, "=", e.total }
  end
  out[#out + 1] = ""
  out[#out + 1] = "edges, from the lane that writes to those that read: slots x bytes"
  put_rows(out, rows)
end

local function put_waits(out, waits, title)
  local rows = {}
  for i, w in ipairs(waits) do rows[i] = { w.lane, w.task, "<-", w.from_lane, w.from, back_words(w.back) } end
  out[#out + 1] = ""
  out[#out + 1] = title:format(#waits)
  put_rows(out, rows)
end

local function put_segments(out, doc)
  local rows = {}
  for i, s in ipairs(doc.segments) do
    rows[i] = { s.lane, s.phases, "graphs", "of", table.concat(s.calls, ", ") }
  end
  out[#out + 1] = ""
  out[#out + 1] = ("segments that are recorded: %d"):format(#rows)
  put_rows(out, rows)
end

local kinds = { "weights", "gradients", "optimizer", "activations", "saved", "scratch", "cache", "total", "host" }
local seldom = { cache = true, host = true }

local function put_memory(out, doc)
  local m = doc.memory
  local rows = { { "", doc.strategy, "serialized" } }
  for _, kind in ipairs(kinds) do
    if not seldom[kind] or m.strategy[kind] > 0 then rows[#rows + 1] = { kind, m.strategy[kind], m.serialized[kind] } end
  end
  out[#out + 1] = ""
  out[#out + 1] = ("memory in bytes, evaluations included: %.2f times that of serialized"):format(m.factor)
  put_rows(out, rows)
end

local forms = {}

function forms.text(doc)
  local out = {}
  out[1] = ("strategy %s, device %s, capture %s, run-ahead %d, proved race-free"):format(doc.strategy, doc.device,
    doc.capture, doc.run_ahead)
  out[2] = ""
  put_lanes(out, doc)
  put_edges(out, doc)
  put_waits(out, doc.waits, "waits: %d")
  put_waits(out, doc.implied, "implied by those, and left out: %d")
  put_segments(out, doc)
  put_memory(out, doc)
  return table.concat(out, "\n") .. "\n"
end

-- ---- the other forms ----

function forms.json(doc)
  return json.encode(doc, true) .. "\n"
end

local function quote(s)
  return '"' .. s:gsub('[\\"]', "\\%0") .. '"'
end

-- A lane is a row, its tasks one after another; an edge points to the task that waits. Waits within a step say where
-- things are drawn.
function forms.dot(doc)
  local out = { ("digraph %s {"):format(quote(doc.strategy)), "  rankdir=LR;", "  node [shape=box];" }
  for i, lane in ipairs(doc.lanes) do
    out[#out + 1] = ("  subgraph cluster_%d {"):format(i)
    out[#out + 1] = ("    label=%s;"):format(quote(("%s, delay %d"):format(lane.name, lane.delay)))
    for k, task in ipairs(lane.tasks) do
      out[#out + 1] = ("    %s;"):format(quote(task))
      if k > 1 then out[#out + 1] = ("    %s -> %s [style=invis];"):format(quote(lane.tasks[k - 1]), quote(task)) end
    end
    out[#out + 1] = "  }"
  end
  local function put(w, style, placed)
    out[#out + 1] = ('  %s -> %s [label="%d", style=%s%s];'):format(quote(w.from), quote(w.task), w.back, style,
      placed and "" or ", constraint=false")
  end
  for _, w in ipairs(doc.waits) do put(w, "solid", w.back == 0) end
  for _, w in ipairs(doc.implied) do put(w, "dashed, color=grey, fontcolor=grey", false) end
  out[#out + 1] = "}"
  return table.concat(out, "\n") .. "\n"
end

forms.svg = picture

-- show(g, "text" | "json" | "dot" | "svg"): of a graph that has its lanes and has not run; it cannot be used afterwards.
function schedule.show(g, form)
  return forms[form](document(g))
end

return schedule
