-- SPDX-License-Identifier: MIT
-- spcore timeline: how far lanes overlap, where that is known by construction; the picture: a row for each lane, a bar for each
-- call, nothing outside of it, in its two sets of colours; what is no trace is told in one line.
-- needs: onednn images jansson
-- once: a command in Lua
local json = require "spcore.json"
local t = require "check"
local timeline = require "spcore.timeline"

local dir <close> = t.folder()
local function file(name) return dir.path .. "/" .. name end

-- Lane one has a, lane two what follows. Without a delay a may begin again when its buffer was read: behind b. So c alone runs
-- beside it.
t.write(file "sleep.lua", [[
local sp = require "spcore"
local opt = sp.args {
  overlap = { "0", "by construction", choices = { "0", "50", "100" } }, ms = { 20, "of a" }, steps = { 7, "" },
  lanes = { true, "its own ones" },
}
local g <close> = sp.graph(opt)
local data = g.reader { path = "random", target = "class", classes = 4, samples = 64, size = 8, batch = 1 }
local a = g.sleep { data.image, ms = opt.ms, name = "a" }
local b = g.sleep { a.y[1], ms = opt.overlap == "0" and opt.ms or opt.ms / 2, name = "b" }
local two = { b }
if opt.overlap ~= "0" then two[2] = g.sleep { b.y[1], ms = opt.ms / 2, name = "c" } end
local delay = opt.overlap == "100" and 1 or 0
if opt.lanes then g:strategy({ { name = "one", stages = { a } }, { name = "two", stages = two, delay = delay } }, "mine <&>") end
for _ in g:steps(opt.steps) do end
]])

local function run(options, trace)
  local code, _, err = t.spcore(dir.path, ("run sleep.lua --threads 1 --trace %s %s"):format(trace, options))
  t.eq(code, 0, err)
end

-- Milliseconds in which calls of both stages ran.
local function beside(trace, one, two)
  local sum = 0
  for _, x in ipairs(trace.slices) do
    for _, y in ipairs(trace.slices) do
      if x.cat == "call" and y.cat == "call" and x.stage == one and y.stage == two then
        sum = sum + math.max(0, math.min(x.to, y.to) - math.max(x.from, y.from)) / 1e3
      end
    end
  end
  return sum
end
for _, percent in ipairs { "0", "50", "100" } do
  local trace, ab, ac
  for _, ms in ipairs { 20, 200, 2000 } do -- a thread of a busy machine may begin late: longer, once more
    run(("--overlap %s --ms %d"):format(percent, ms), percent .. ".json")
    trace = timeline.read(file(percent .. ".json"))
    ab, ac = beside(trace, "a", "b"), beside(trace, "a", "c")
    if percent == "0" or ac > 0 and (percent ~= "100" or ab > 0) then break end
  end
  t.ok(percent == "100" and ab > 0 or percent ~= "100" and ab == 0, ("%s: %g ms of a and b at once"):format(percent, ab))
  t.ok((ac > 0) == (percent ~= "0"), ("%s: %g ms of a and c at once"):format(percent, ac))
end

-- The same as it would be without a machine: each call takes as long as it is told. `at`: of a stage { lane, from, ms },
-- `every` ms again.
local function by_hand(name, strategy, every, at)
  local events, lanes = {}, {}
  for i, lane in ipairs { "one", "two" } do
    events[i] = ('{"ph":"M","pid":1,"tid":%d,"name":"thread_name","args":{"name":"%s"}}'):format(i, lane)
    lanes[lane] = i
  end
  for step = 0, 6 do
    for stage, c in pairs(at) do
      events[#events + 1] = ('{"ph":"X","pid":1,"tid":%d,"name":"%s forward","cat":"call","ts":%.3f,"dur":%.3f,"args":'
        .. '{"step":%d,"loop":1,"stage":"%s","lane":"%s"}}'):format(lanes[c[1]], stage, 1e3 * (c[2] + step * every), 1e3 * c[3],
        step, stage, c[1])
    end
  end
  t.write(file(name), ('{"otherData":{"writer":"spcore","version":1,"strategy":"%s","device":"cpu","loop":1},"traceEvents":[%s]}')
    :format(strategy, table.concat(events, ",")))
end
by_hand("none.json", "mine <&>", 210, { a = { "one", 0, 110 }, b = { "two", 110, 100 } })
by_hand("half.json", "mine <&>", 160, { a = { "one", 0, 110 }, b = { "two", 110, 50 }, c = { "two", 160, 50 } })
by_hand("all.json", "mine <&>", 110, { a = { "one", 0, 110 }, b = { "two", 110, 50 }, c = { "two", 160, 50 } })
by_hand("alone.json", "serialized", 210, { a = { "one", 0, 110 }, b = { "one", 110, 50 }, c = { "one", 160, 50 } })

local function command(line, wanted)
  local code, out, err = t.spcore(dir.path, "timeline " .. line)
  t.eq(code, wanted or 0, err)
  return out, err
end

do -- the terminal says the same, and what each number is
  for name, wanted in pairs { none = 0, half = 0.5, all = 1 } do
    local f = timeline.figures(timeline.read(file(name .. ".json")))
    t.eq(("%.6f %d"):format(f.overlap, f.steps), ("%.6f 6"):format(wanted), name)
  end
  local f, out = timeline.figures(timeline.read(file "half.json")), command "half.json all.json"
  t.eq(f.longest_lane, "one")
  t.eq(("%.6f %.6f %.6f"):format(f.step, f.sum, f.longest), "160.000000 210.000000 110.000000")
  t.match(out, "^half.json: mine <&> on cpu, steps 1 to 7\n")
  t.match(out, "\n  160 ms a step, mean of 6\n")
  t.match(out, "\n  the lanes' work of a step adds up to 210 ms; the longest lane, one, has 110 ms, which")
  t.match(out, "\n  50 %% of the other lanes' 100 ms ran in parallel with it; since lanes slow")
  t.match(out, "\nall.json: ")
  t.ok(not out:find "times as fast", "no gain without a serialized one")
end

do -- forward and backward have words and shades of their own; a script that evaluates says so
  local events = { '{"ph":"M","pid":1,"tid":1,"name":"thread_name","args":{"name":"one"}}',
    '{"ph":"M","pid":1,"tid":2,"name":"thread_name","args":{"name":"host"}}' }
  local function add(name, cat, tid, ts, dur, step, loop, stage)
    events[#events + 1] = ('{"ph":"X","pid":1,"tid":%d,"name":"%s","cat":"%s","ts":%d,"dur":%d,"args":{"step":%d,"loop":%d%s}}')
      :format(tid, name, cat, ts, dur, step, loop, stage and (',"stage":"%s","lane":"one"'):format(stage) or "")
  end
  for step = 0, 3 do
    local at = step * 3000
    add("net forward", "call", 1, at, 900, step, 1, "net")
    add("net backward", "call", 1, at + 1000, 900, step, 1, "net")
    add("script", "host", 2, at + 2000, 900, step, 1)
  end
  add("net forward", "call", 1, 5100, 700, 0, 2, "net") -- within the second one's
  t.write(file "shades.json", ('{"otherData":{"writer":"spcore","version":1,"strategy":"serialized","device":"cpu","loop":1},'
    .. '"traceEvents":[%s]}'):format(table.concat(events, ",")))
  command "shades.json --out shades.svg --from 2 --steps 3"
  local svg = t.read(file "shades.svg")
  for _, words in ipairs {
    ">net fwd 2<", ">net bwd 2<", ">net fwd<", ">net bwd<", "<title>evaluation, step 2: ", "<title>script, step 3: ",
  } do
    t.ok(svg:find(words, 1, true), words)
  end
  local fills = {}
  for fill in svg:gmatch 'rect [^>]*fill="(#%x+)"[^>]*/>\n<text [^>]*>net %lwd %d' do fills[fill] = true end
  t.ok(fills["#8ecae6"] and fills["#6995aa"], "two shades")
end

do -- beside a serialized one: the gain, of the steps' own times, wherever that one stands
  local out = command "half.json alone.json"
  t.match(out, "\n  a step of alone.json, serialized, took 210 ms: this is 1.31 times as fast\n")
  t.eq(select(2, out:gsub("times as fast", "")), 1)
  t.match(command "alone.json half.json", "\n  a step of alone.json, serialized, took 210 ms: this is 1.31 times as fast\n")
  run("--overlap 50 --steps 4 --no-lanes", "serialized.json")
  t.match(command "50.json serialized.json", "\n  a step of serialized.json, serialized, took [%d.]+ ms: this is [%d.]+ times as fast\n")
end

-- ---- the picture ----

local function attributes(tag)
  local a = {}
  for k, v in tag:gmatch '([%w-]+)="([^"]*)"' do a[k] = v end
  return a
end

-- Nothing lies outside of the page; a bar within its row.
local function check_picture(svg)
  local page = attributes(svg:match "<svg[^>]*>")
  local w, h, bars, rows = tonumber(page.width), tonumber(page.height), 0, 0
  t.eq(w, 800)
  t.eq(page.viewBox, ("0 0 %d %d"):format(w, h))
  for tag in svg:gmatch "<rect [^>]*>" do
    local a = attributes(tag)
    if a.width ~= "100%" then
      t.ok(a.x + 0 >= 0 and a.x + a.width <= w and a.y + 0 >= 0 and a.y + a.height <= h, tag)
      if a.class == "idle" and a.height == "18" then rows = rows + 1 end
    end
  end
  for tag, text in svg:gmatch "(<text [^>]*>)([^<]*)" do
    local a = attributes(tag)
    local wide = 5.2 * utf8.len((text:gsub("&%a+;", "x")))
    local left = a["text-anchor"] == "end" and a.x - wide or a["text-anchor"] == "middle" and a.x - wide / 2 or a.x + 0
    t.ok(left >= 0 and left + wide <= w and a.y + 0 <= h, tag .. text)
  end
  for title in svg:gmatch "<title>([^<]*), step %d+: [%d.]+ [mu]?s</title>" do bars = bars + (title ~= "script" and 1 or 0) end
  t.match(svg, "@media %(prefers%-color%-scheme: dark%)")
  t.ok(not svg:gsub("&%a+;", ""):find("&", 1, true), "a bare &")
  return rows, bars, h
end

command "0.json 100.json --out two.svg --steps 2 --from 4"
local two = t.read(file "two.svg")
local rows, bars, high = check_picture(two)
t.eq(rows, 8, "reader, one, two and the host, twice")
t.ok(bars >= 2 * 5, "bars: " .. bars)
t.match(two, ">mine &lt;&amp;&gt;<")
t.match(two, "steps 4 to 5<")
for _, word in ipairs { ">a<", ">b<", ">c<", ">reader<", ">idle<", ">ms<", "a wait for another lane" } do t.match(two, word) end
command "0.json --out one.svg"
rows = check_picture(t.read(file "one.svg"))
t.eq(rows, 4)
t.ok(high > tonumber(t.read(file "one.svg"):match 'height="(%d+)"'), "two are higher than one")
t.match(t.read(file "one.svg"), "steps 2 to 5<") -- of 1 to 7, in the middle

-- The same as a PNG, twice as large; a build without librsvg says so.
local left_out = (", %s, "):format(os.getenv "SP_LEFT_OUT" or "")
if left_out:find(", librsvg, ", 1, true) then
  t.one_line(select(2, command("0.json --out two.png", 1)), "two.png: no plugin reads or writes '.png' files %(built without .*librsvg")
else
  command "0.json 100.json --out two.png --steps 2 --from 3"
  local magic, w, h = (">c8xxxxxxxxI4I4"):unpack(t.read(file "two.png"))
  t.eq(magic, "\137PNG\r\n\26\n")
  t.eq(w, 1600)
  t.eq(h, 2 * high)
  local _, err = command("0.json --out none/two.png", 1)
  t.one_line(err:gsub("Fontconfig [^\n]*\n", ""), "none/two.png: ") -- which a machine without fonts puts before it
end

local python = os.getenv "PYTHON"
if python and python ~= "" and python ~= ":" then
  local parse = "import sys, xml.dom.minidom as x; x.parse(sys.argv[1])"
  t.ok(os.execute(("'%s' -c '%s' '%s'"):format(python, parse, file "two.svg")), "well-formed")
end

run("--ms 0 --steps 1", "short.json")
t.match(command "short.json --out short.svg", "one step alone says nothing")
check_picture(t.read(file "short.svg"))
run("--ms 1 --overlap 100 --steps 60", "long.json")
command "long.json --steps 1000 --out long.svg"
check_picture(t.read(file "long.svg"))

-- ---- ranks of one job, which keep step: none of them is faster than another one; another job's are, rank by rank ----

local function of_ranks(name, strategy, ...)
  local doc, events = json.decode(t.read(file "serialized.json")), {}
  doc.otherData.ranks, doc.otherData.strategy = select("#", ...), strategy
  for pid, slower in ipairs { ... } do
    for _, e in ipairs(doc.traceEvents) do
      local copy = {}
      for k, v in pairs(e) do copy[k] = v end
      copy.pid, copy.ts, copy.dur = pid, e.ts and e.ts * slower, e.dur and e.dur * slower
      events[#events + 1] = copy
    end
  end
  doc.traceEvents = json.list(events)
  t.write(file(name), json.encode(doc))
end
of_ranks("job.json", "serialized", 1, 1.5)
of_ranks("other.json", "mine", 0.5, 0.5)
t.ok(not command "job.json --out job.svg":find "times as fast")
t.ok(not t.read(file "job.svg"):find "times as fast")
do
  local out = command "job.json other.json"
  t.match(out, "\nother.json, rank 0: .*a step of job.json, rank 0, serialized, took [%d.]+ ms: this is 2.00 times as fast\n")
  t.match(out, "\nother.json, rank 1: .*a step of job.json, rank 1, serialized, took [%d.]+ ms: this is 3.00 times as fast\n")
  t.eq(select(2, out:gsub("times as fast", "")), 2)
end

-- ---- what is refused ----

local good = t.read(file "0.json")
local function refuse(text, words, options)
  t.write(file "bad.json", text)
  local _, err = command("bad.json --out bad.svg " .. (options or ""), 1)
  t.one_line(err, words)
  t.ok(not io.open(file "bad.svg"), "no picture")
end
refuse("", "bad.json: this is no trace: line 1")
refuse(good:sub(1, #good // 2), "bad.json: this is no trace: line %d+: ")
refuse("[]", "bad.json: this is no trace of spcore, which spcore run SCRIPT %-%-trace FILE writes")
refuse('{"traceEvents":[]}', "bad.json: this is no trace of spcore")
refuse(good:gsub('"version":1', '"version":2', 1), "bad.json: a trace of version 2; this program reads version 1")
refuse('{"otherData":{"writer":"spcore","version":1},"traceEvents":[]}', "bad.json: there is no call of a stage in it")
refuse(good:gsub('"ph":"X","pid":1,"tid":(%d+)', '"ph":"X","pid":1', 1), "bad.json: event %d+, '.*': a track 'tid' is wanted")
refuse(good:gsub('"dur":[%d.]+', '"dur":-1', 1), "bad.json: event %d+, '.*': 'ts' and 'dur' are wanted, microseconds")
refuse(good:gsub('"step":%d+,"loop":1', '"step":"x"', 1), "bad.json: event %d+, '.*': 'args' with 'step' and 'loop' are wanted")
refuse(good, "%-%-from 9: bad.json has the steps 1 to 7", "--from 9")
t.one_line(select(2, command("nowhere.json", 1)), "nowhere.json: No such file or directory")
t.one_line(select(2, command(".", 1)), "^spcore: %.: Is a directory\n$")
t.one_line(select(2, command("", 2)), "timeline: a trace is wanted, which spcore run SCRIPT %-%-trace FILE writes")
t.one_line(select(2, command("0.json --out x.gif", 2)), "timeline: %-%-out x.gif: a file .svg or .png is wanted")
