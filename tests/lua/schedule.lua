-- SPDX-License-Identifier: MIT
-- `spcore schedule`: the same numbers as the graph's own in each of its forms, for every strategy, with and without a
-- border; nothing is run; what is refused.
-- needs: jansson
local sp = require "spcore"
local t = require "check"

local script = [[
local sp = require "spcore"
local opt = sp.args({ fails = { false, "has a wire too few" } })
local g <close> = sp.graph(opt)
local data = g.toy_source { batch = 8 }
local a = g.toy_mul { data.x, name = "a", frozen = true }
local b = g.toy_mul { a.y, name = "b" }
if opt.fails then g.toy_mul { name = "alone" } end
g:train { g.toy_loss { b.y, name = "loss" }, optimizer = g.toy_sgd { name = "sgd" } }
sp.run { graph = g, opt = opt }
for step in g:steps(1) do io.stderr:write("step " .. step .. "\n") end
]]
local dir <close> = t.folder()
t.write(dir.path .. "/train.lua", script)

-- The document as JSON, and the words that belong to it.
local function schedule(options, form)
  local code, out, err = t.spcore(dir.path, ("schedule %s train.lua %s"):format(form or "", options))
  t.eq(code, 0, err)
  t.ok(not err:find "step %d", "it has run")
  return out, err
end

-- The same graph, asked by its own methods.
local function facts(opt)
  opt.threads = 2
  local g <close> = sp.graph(opt)
  local data = g.toy_source { batch = 8 }
  local a = g.toy_mul { data.x, name = "a", frozen = true }
  local b = g.toy_mul { a.y, name = "b" }
  g:train { g.toy_loss { b.y, name = "loss" }, optimizer = g.toy_sgd { name = "sgd" } }
  local words = g:describe()
  return g:schedule(), g:memory(), words
end

local function count(text, pattern) return select(2, text:gsub(pattern, "")) end

local function check_edges(doc, words)
  t.eq(#doc.edges, count(words, "\nbuffer "))
  for _, e in ipairs(doc.edges) do
    t.ok(words:find(("buffer %s: %d x %d bytes\n"):format(e.name, e.slots, e.bytes), 1, true), e.name)
    t.eq(e.total, e.slots * e.bytes)
    t.ok(#e.written_by > 0, e.name)
  end
end

local function check_lanes(doc, words, tasks)
  local n = 0
  for _, lane in ipairs(doc.lanes) do
    n = n + #lane.tasks
    if lane.host then
      t.ok(words:find(("metrics %d ticks"):format(lane.delay), 1, true))
      t.eq(lane.priority, nil)
    else
      t.ok(words:find(("\nlane %s: delay %d\n"):format(lane.name, lane.delay), 1, true), lane.name)
    end
  end
  t.eq(n, tasks)
end

local function check_memory(doc, own, serialized)
  for kind, bytes in pairs(own) do t.eq(doc.memory.strategy[kind], bytes, kind) end
  for kind, bytes in pairs(serialized) do t.eq(doc.memory.serialized[kind], bytes, kind) end
  t.eq(doc.memory.factor, own.total / serialized.total)
end

local function check_segments(doc, words, capture)
  t.eq(doc.capture, capture)
  t.eq(#doc.segments, count(words, "\n  LAUNCH"))
  for _, s in ipairs(doc.segments) do
    t.ok(#s.calls > 0 and s.phases > 0, s.lane)
    t.ok(doc.lanes[1].name == s.lane or words:find("\nlane " .. s.lane .. ":", 1, true), s.lane)
  end
end

-- The other two forms say the same.
local function check_text(doc, text)
  local first = text:match "^[^\n]+"
  t.eq(first, ("strategy %s, device %s, capture %s, run-ahead %d, proved race-free"):format(doc.strategy, doc.device,
    doc.capture, doc.run_ahead))
  t.match(text, "\nwaits: " .. #doc.waits .. "\n")
  t.match(text, "\nimplied by those, and left out: " .. #doc.implied .. "\n")
  t.eq(count(text, " <%- "), #doc.waits + #doc.implied)
  t.eq(count(text, " graphs +of "), #doc.segments)
  t.match(text, ("evaluations included: %.2f times"):format(doc.memory.factor))
  t.match(text, ("\n  total +%d +%d\n$"):format(doc.memory.strategy.total, doc.memory.serialized.total))
  for _, e in ipairs(doc.edges) do
    t.ok(text:find(("\n  %s "):format(e.name), 1, true), e.name)
  end
end

local function check_dot(doc, dot)
  t.eq(dot:match "^[^\n]+", ('digraph "%s" {'):format(doc.strategy))
  t.match(dot, "\n}\n$")
  t.eq(count(dot, "{"), count(dot, "}"))
  for _, lane in ipairs(doc.lanes) do
    t.ok(dot:find(('    label="%s, delay %d";'):format(lane.name, lane.delay), 1, true), lane.name)
    local at = 1
    for _, task in ipairs(lane.tasks) do
      at = dot:find(('\n    "%s";'):format(task), at, true)
      t.ok(at, task .. " in its place")
    end
  end
  t.eq(count(dot, "style=solid"), #doc.waits)
  t.eq(count(dot, "style=dashed, color=grey"), #doc.implied)
  for _, w in ipairs(doc.waits) do
    t.ok(dot:find(('\n  "%s" -> "%s" [label="%d", style=solid'):format(w.from, w.task, w.back), 1, true), w.task)
  end
end

-- Tags that are closed in their order, and no letter of markup beside them; what a parser says where there is one.
local function check_xml(text)
  local open = {}
  for close, name, rest in text:gmatch "<(/?)([%a:]+)([^<>]*)>" do
    if close == "/" then t.eq(table.remove(open), name)
    elseif rest:sub(-1) ~= "/" then open[#open + 1] = name end
  end
  t.eq(#open, 0)
  t.ok(not text:gsub("&%a+;", ""):find("&", 1, true), "a bare &")
  local python = os.getenv "PYTHON"
  if not python or python == "" or python == ":" then return end
  t.write(dir.path .. "/parse.svg", text)
  local parse = "import sys, xml.dom.minidom as x; x.parse(sys.argv[1])"
  t.ok(os.execute(("'%s' -c '%s' '%s/parse.svg'"):format(python, parse, dir.path)), "well-formed")
end

-- A box for each lane and step of its ticks, at least, which together have all tasks of the lane; no others.
local function check_svg(doc, svg, every)
  check_xml(svg)
  local ticks, boxes = count(svg, ">tick %d+</text>"), 0
  for _, lane in ipairs(doc.lanes) do
    local nth = tonumber(lane.name:match "^pool(%d)$")
    for step = 0, lane.host and -1 or ticks - 1 do
      local tasks = {}
      local name = lane.name:gsub("%p", "%%%0")
      for words in svg:gmatch(("<title>%s, step %d: ([^<]*)</title>"):format(name, step)) do
        tasks[#tasks + 1], boxes = words, boxes + 1
      end
      local drawn = step + lane.delay < ticks and (not nth or step % every == nth - 1)
      t.eq(table.concat(tasks, ", "), drawn and table.concat(lane.tasks, ", ") or "", lane.name .. " " .. step)
    end
    t.ok(lane.host or svg:find((">%s</text>"):format(lane.name), 1, true), lane.name)
  end
  t.ok(boxes > 0)
  t.eq(count(svg, 'class="box"'), boxes)
  t.eq(count(svg, "<rect "), boxes)
  local across = 0
  for _, w in ipairs(doc.waits) do
    if w.lane ~= w.from_lane and w.lane ~= "host" and w.from_lane ~= "host" then across = across + 1 end
  end
  t.eq(count(svg, "<path d=[^>]*marker%-end") > 0, across > 0)
end

local function check(strategy, device, asked, capture)
  local options = ("--strategy %s --device %s --capture %s --run-ahead 3 --depth 2"):format(strategy, device, asked)
  local text = schedule(options)
  local doc, why = sp.json.decode((schedule(options, "--json")))
  t.ok(doc, why)
  t.eq(doc.strategy .. doc.device .. doc.run_ahead, strategy .. device .. 3)
  t.eq(doc.race_free, true)
  local opt = { strategy = strategy, device = device, capture = asked, run_ahead = 3, depth = 2 }
  local own, memory, words = facts(opt)
  opt.strategy = "serialized"
  local _, serialized = facts(opt)
  t.eq(#doc.waits, own.waits)
  t.eq(#doc.waits + #doc.implied, own.derived)
  check_lanes(doc, words, own.tasks)
  check_edges(doc, words)
  check_segments(doc, words, capture)
  check_memory(doc, memory, serialized)
  check_text(doc, text)
  check_dot(doc, (schedule(options, "--dot")))
  check_svg(doc, (schedule(options, "--svg -")))
  return doc
end

local doc = check("serialized", "cpu", "auto", "off")
t.eq(doc.memory.factor, 1)
t.eq(#doc.segments, 0)
t.match(schedule("", "--json"), '"segments": %[%]')
doc = check("pipelined", "cpu", "auto", "off")
t.ok(doc.memory.factor > 1, "pipelining costs memory")
local edges, waits = {}, {}
for _, e in ipairs(doc.edges) do
  edges[e.name] = ("%s -> %s %d"):format(table.concat(e.written_by, " "), table.concat(e.read_by, " "), e.slots)
end
for _, w in ipairs(doc.waits) do waits[("%s %s <- %s %s"):format(w.lane, w.task, w.from_lane, w.from)] = w.back end
t.eq(edges["a.y"], "ahead -> train 3")
t.eq(waits["train b.forward <- ahead a.forward"], 0)
t.eq(waits["ahead a.forward <- train b.backward"] or waits["ahead a.forward <- train sgd.update"], 3)

-- behind a border: copies, and graphs of what follows each other
doc = check("pipelined", "mock", "off", "off")
t.eq(#doc.segments, 0)
doc = check("pipelined", "mock", "lane", "lane")
t.ok(#doc.segments > 1, "a graph of each lane")
doc = check("pipelined", "mock", "step", "step")
t.eq(#doc.segments, 1)
local calls = " " .. table.concat(doc.segments[1].calls, " ") .. " "
for _, task in ipairs { "toy_source.copy", "a.forward", "b.backward", "train.metrics" } do
  t.ok(calls:find(" " .. task .. " ", 1, true), task)
end
check("double_buffer", "mock", "step", "step")
check("deep", "simmock", "lane", "lane")
t.eq(check("serialized", "mock", "lane", "lane").memory.factor, 1)

-- steps side by side: each lane has every third one
t.write(dir.path .. "/predict.lua", [[
local sp = require "spcore"
local g <close> = sp.graph(sp.args {})
g.toy_mul { g.toy_source { batch = 8 }.x, name = "a", frozen = true }
g:memory()
for step in g:steps(1) do error "it ran" end
]])
do
  local line = "schedule %s predict.lua --device mock --strategy replicas --depth 3"
  local _, out = t.spcore(dir.path, line:format "--json")
  local code, svg, err = t.spcore(dir.path, line:format "--svg -")
  t.eq(code, 0, err)
  check_svg(sp.json.decode(out), svg, 3)
end

-- what cannot be recorded is said once, though memory is counted for two plans
t.write(dir.path .. "/probe.lua", [[
local g = require "spcore".graph { device = "mock", capture = "lane", strategy = "pipelined" }
g.toy_probe { g.toy_source { batch = 8 }.x, name = "probe" }
g:memory()
]])
local code, _, err = t.spcore(dir.path, "schedule probe.lua")
t.eq(code, 0, err)
t.eq(count(err, "'probe' cannot be recorded"), 1)

-- no folder of a run was made
t.ok(not sp.json.read(dir.path .. "/runs/train-1/settings.json"), "a run's folder")

-- what is refused, and whose exit code it is
local function fails(code, pattern, words)
  local got, out, err = t.spcore(dir.path, "schedule " .. words)
  t.eq(("%d %s"):format(got, out), code .. " ")
  t.one_line(err, pattern)
end
t.write(dir.path .. "/none.lua", "local x = 1\n")
t.write(dir.path .. "/three.lua", "require 'spcore'.exit(3)\n")
t.write(dir.path .. "/bad.lua", "error 'oh'\n")
fails(1, "^spcore: script 'none.lua' runs no graph, so there is no schedule\n", "none.lua")
fails(1, "^spcore: bad.lua:1: oh\n", "bad.lua")
fails(1, "train.lua:7: stage 'alone': input 'x' is not wired", "--json train.lua --fails")
fails(1, "no strategy 'pipelind'; did you mean 'pipelined'", "train.lua --strategy pipelind")
fails(2, "schedule: a script is wanted", "--json")
fails(2, "schedule: one of %-%-json, %-%-dot and %-%-svg", "--json --dot train.lua")
fails(2, "schedule: one of %-%-json, %-%-dot and %-%-svg", "--svg - --json train.lua")
fails(2, "schedule: %-%-svg train.lua: a script; name the file to draw to as well, %-%-svg schedule.svg", "--svg train.lua")
fails(2, "there is no option %-%-jsn, did you mean %-%-json", "--jsn train.lua")
fails(1, "nowhere.so: No such file", "--plugin nowhere.so train.lua")
fails(2, "script 'nowhere' not found", "nowhere")
t.eq((t.spcore(dir.path, "schedule three.lua")), 3)
local code, out = t.spcore(dir.path, "schedule train.lua --help")
t.eq(code, 0)
t.match(out, "%-%-fails")

do -- a script that catches its own end goes on under its own strategy
  local here <close> = t.folder()
  t.write(here.path .. "/caught.lua", [[
local sp = require "spcore"
local g <close> = sp.graph { strategy = "branches" }
local data = g.toy_source { batch = 8 }
g.toy_probe { g.toy_mul { data.x, frozen = true }.y }
g.toy_probe { g.toy_mul { data.x, frozen = true }.y }
pcall(g.schedule, g)
io.stderr:write(g:schedule().strategy, " ", g:schedule().lanes, "\n")
]])
  local code, _, err = t.spcore(here.path, "schedule caught.lua")
  t.match(err, "branches 3\n")
end
