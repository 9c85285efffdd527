-- SPDX-License-Identifier: MIT
-- spcore timeline: how far lanes overlap, where that is known by construction; the picture: a row for each lane, a bar for each
-- call, nothing outside of it, in its two sets of colours; what is no trace is told in one line.
-- needs: onednn images jansson
local t = require "check"
local timeline = require "spcore.timeline"

local dir <close> = t.folder()
local function file(name) return dir.path .. "/" .. name end

-- Lane one has a, lane two what follows. Without a delay a may begin again when its buffer was read: behind b. So c alone runs
-- beside it.
t.write(file "sleep.lua", [[
local sp = require "spcore"
local opt = sp.args {
  overlap = { "0", "by construction", choices = { "0", "50", "100" } }, ms = { 100, "of a" }, steps = { 7, "" },
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

-- A machine that is busy makes a sleep longer than it was to be: then it is tried again.
local function overlap(percent)
  local got
  for _ = 1, 4 do
    run("--overlap " .. percent, percent .. ".json")
    got = 100 * timeline.figures(timeline.read(file(percent .. ".json"))).overlap
    if math.abs(got - percent) <= 2 then return end
  end
  t.fail(2, "overlap %.1f %%, by construction %d %%", got, percent)
end
for _, percent in ipairs { 0, 50, 100 } do overlap(percent) end

local function command(line, wanted)
  local code, out, err = t.spcore(dir.path, "timeline " .. line)
  t.eq(code, wanted or 0, err)
  return out, err
end

do -- the terminal says the same, and what each number is
  local f, out = timeline.figures(timeline.read(file "50.json")), command "50.json 100.json"
  t.eq(f.steps, 6)
  t.ok(f.longest_lane == "one" or f.longest_lane == "two")
  t.ok(math.abs(f.step - 150) < 15 and math.abs(f.sum - 200) < 20 and math.abs(f.longest - 100) < 10, out)
  t.match(out, "^50.json: mine <&> on cpu, steps 0 to 6\n")
  local ms = timeline.ms
  t.match(out, ("\n  %s a step, mean of 6\n"):format(ms(f.step)))
  t.match(out, ("\n  the lanes' work of a step adds up to %s; the longest lane, %s, has %s, which"):format(ms(f.sum),
    f.longest_lane, ms(f.longest)))
  t.match(out, ("\n  of the others' %s, %s passed beside it %%(%.0f %%%%%%); lanes slow"):format(ms(f.sum - f.longest),
    ms(f.overlap * (f.sum - f.longest)), 100 * f.overlap))
  t.match(out, "\n100.json: ")
  t.ok(not out:find "times as fast", "no gain without a serialized one")
end

do -- beside a serialized one: the gain, of the steps' own times, wherever that one stands
  run("--overlap 50 --steps 4 --no-lanes", "serialized.json")
  local one, out = timeline.figures(timeline.read(file "serialized.json")).step, command "50.json serialized.json"
  local f = timeline.figures(timeline.read(file "50.json"))
  t.match(out, ("\n  a step of serialized.json, serialized, took %s: this is %.2f times as fast\n"):format(timeline.ms(one),
    one / f.step))
  t.eq(select(2, out:gsub("times as fast", "")), 1)
  t.ok(math.abs(one / f.step - 200 / 150) < 0.15, out)
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

command "0.json 100.json --out two.svg --steps 2 --from 3"
local two = t.read(file "two.svg")
local rows, bars, high = check_picture(two)
t.eq(rows, 8, "reader, one, two and the host, twice")
t.ok(bars >= 2 * 5, "bars: " .. bars)
t.match(two, ">mine &lt;&amp;&gt;<")
t.match(two, "steps 3 to 4<")
for _, word in ipairs { ">a<", ">b<", ">c<", ">reader<", ">idle<", ">ms<", "a wait for another lane" } do t.match(two, word) end
command "0.json --out one.svg"
rows = check_picture(t.read(file "one.svg"))
t.eq(rows, 4)
t.ok(high > tonumber(t.read(file "one.svg"):match 'height="(%d+)"'), "two are higher than one")
t.match(t.read(file "one.svg"), "steps 1 to 4<") -- of 0 to 6, in the middle

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
refuse("[]", "bad.json: this is no trace of spcore, which run %-%-trace FILE writes")
refuse('{"traceEvents":[]}', "bad.json: this is no trace of spcore")
refuse(good:gsub('"version":1', '"version":2', 1), "bad.json: a trace of version 2; this program reads version 1")
refuse('{"otherData":{"writer":"spcore","version":1},"traceEvents":[]}', "bad.json: there is no call of a stage in it")
refuse(good:gsub('"ph":"X","pid":1,"tid":(%d+)', '"ph":"X","pid":1', 1), "bad.json: event %d+, '.*': a track 'tid' is wanted")
refuse(good:gsub('"dur":[%d.]+', '"dur":-1', 1), "bad.json: event %d+, '.*': 'ts' and 'dur' are wanted, microseconds")
refuse(good:gsub('"step":%d+,"loop":1', '"step":"x"', 1), "bad.json: event %d+, '.*': 'args' with 'step' and 'loop' are wanted")
refuse(good, "%-%-from 9: bad.json has the steps 0 to 6", "--from 9")
t.one_line(select(2, command("none.json", 1)), "none.json: No such file or directory")
t.one_line(select(2, command("", 2)), "timeline: a trace is wanted, which spcore run SCRIPT %-%-trace FILE writes")
t.one_line(select(2, command("0.json --out x.gif", 2)), "timeline: %-%-out x.gif: a file .svg or .png is wanted")
