-- SPDX-License-Identifier: MIT
-- spcore report: the figures of finished, short, running, killed and damaged runs, and that the page is one whole.
-- needs: onednn images jansson
-- once: a command in Lua, and files
local json = require "spcore.json"
local plot = require "spcore.plot"
local sys = require "spcore.sys"
local t = require "check"

local dir <close> = t.folder()
local function run(line) return t.spcore(dir.path, line) end
local function report(name) -- its figures
  local code, out, err = run("report --json " .. name)
  t.eq(code .. err, "0")
  return json.decode(out)
end

-- ---- numbers and marks of the axes ----
for v, text in pairs {
  [0] = "0", [0.5] = "0.5", [1234] = "1234", [12345] = "12.35k", [1.5e6] = "1.5M", [2e9] = "2G", [1.2e-4] = "1.2e-4",
  [-0.25] = "-0.25", [1e20] = "1e20",
} do t.eq(plot.number(v), text) end
t.eq(plot.number(0 / 0), "-")
t.eq(table.concat(plot.ticks(0, 1, 5), " "), "0.0 0.2 0.4 0.6 0.8 1.0")
t.eq(#plot.ticks(3, 3, 5), 1)
for _, span in ipairs { 1e-7, 0.3, 7, 12345, 3e11 } do
  local marks = plot.ticks(-span / 3, span, 5)
  t.ok(#marks >= 2 and #marks <= 6, ("%d marks for %g"):format(#marks, span))
end
-- ---- svg.lua, which draws ----
do
  local svg = require "spcore.svg"
  t.eq(svg.path("M", 1, 2.256, "L", -3, 4.0, "h", 0.001), "M1 2.26L-3 4h0")
  t.eq(table.concat(svg.wrapped({ "one, ", "two, ", "three" }, 9), "|"), "one, |two, |three")
  local c = svg.canvas()
  c:group({ class = 'a"b' }, function() c:text(1.5, 2, "<&>", { fill = "red" }) end, "x < y")
  c:rect(0, 0, 10, 0.333, { rx = 2 }, "5 > 4")
  t.eq(c:document(20, 10, { title = "a & b" }), [[
<svg xmlns="http://www.w3.org/2000/svg" width="20" height="10" font-family="sans-serif" viewBox="0 0 20 10">
<title>a &amp; b</title>
<g class="a&quot;b"><title>x &lt; y</title>
<text x="1.5" y="2" fill="red">&lt;&amp;&gt;</text>
</g>
<rect x="0" y="0" width="10" height="0.33" rx="2"><title>5 &gt; 4</title></rect>
</svg>
]])
end

local thin = plot.thinned({ { 0, 1 }, { 1, 0 / 0 }, { 2, 5 }, { 3, 3 } }, 2)
t.eq(#thin, 2)
t.eq(table.concat(thin[1], " "), "0.0 1.0 1 1")
t.eq(table.concat(thin[2], " "), "2.5 4.0 3 5")

do -- values far apart are in powers of ten, and shares that never change have the axis of shares
  local far = { { points = { { 1, 2 }, { 2, 1 }, { 3, 1 }, { 4, 1000 } } } }
  t.ok(plot.is_wide(far))
  t.ok(not plot.is_wide { { points = { { 1, 2 }, { 2, 1 }, { 3, 90 } } } })
  t.ok(not plot.is_wide { { points = { { 1, 0 }, { 2, 1 }, { 3, 1 }, { 4, 1000 } } } })
  t.match(plot.lines { x = "step", series = far, powers = true }, ">1<.*>10<.*>100<.*>1000<")
  local flat = plot.lines { x = "step", series = { { points = { { 1, 1 }, { 9, 1 } } } } }
  t.ok(flat:find ">0.5<" and not flat:find ">1%.", "no share is above 1")
end

-- ---- a run of each kind ----
t.eq((run "run train_seg.lua --steps 30 --eval-every 10 --size 32 --batch 4 --samples 64 --quiet --out seg"), 0)
t.eq((run "run train_cls.lua --steps 12 --eval-every 5 --size 16 --batch 4 --samples 64 --width 4 --levels 2 --quiet --out cls"), 0)
t.eq((run "run train_cls.lua --steps 1 --size 16 --batch 4 --samples 64 --width 4 --levels 2 --quiet --out one"), 0)

local seg = report "seg"
t.eq(seg.state .. " " .. seg.steps .. " " .. seg.planned, "finished 30 30")
t.eq(#seg.curves.loss, 30)
t.eq(#seg.curves.lr, 30)
t.eq(#seg.validations.iou, 3) -- behind steps 9, 19, 29
t.eq(seg.validations.iou[3][1], 29)
t.eq(seg.summary.best.metric, "iou")
t.ok(seg.speed.median > 0 and seg.speed.low <= seg.speed.median and seg.speed.median <= seg.speed.high)
t.eq(seg.images, 120)
local cls = report "cls"
t.eq(#cls.curves.accuracy, 12)
t.ok(cls.curves.top1 == nil and cls.curves.counted == nil)
t.eq(report("one").steps, 1)

-- Nothing is fetched, no script runs, and every mark that is opened is closed.
local voids = { meta = true, br = true, img = true, wbr = true }
local function check_page(name)
  local text = t.read(("%s/%s/report.html"):format(dir.path, name))
  t.ok(#text < 2e6 and not text:gsub("http://www%.w3%.org/2000/svg", ""):find "https?://")
  t.ok(not text:find "<script" and not text:find "<link")
  t.ok(not text:find "[<>]nan" and not text:find "NaN" and not text:find "inf[^o]", name .. ": a number that is none")
  local open = {}
  local body = text:gsub("<!DOCTYPE html>", ""):gsub("<style>.-</style>", "")
  for slash, tag, rest in body:gmatch "<(/?)(%w+)([^>]*)>" do
    if slash == "/" then t.eq(table.remove(open), tag)
    elseif not (voids[tag] or rest:sub(-1) == "/") then open[#open + 1] = tag end
  end
  t.eq(#open, 0)
  return text
end
for _, name in ipairs { "seg", "cls", "one" } do
  local code, out, err = run("report " .. name)
  t.eq(code .. err, "0")
  t.match(out, "^" .. name .. "/report.html: finished, ")
  check_page(name)
end
t.match(check_page "seg", "<td>triangle</td>.*confusion")
do -- one axis for all: from step 1 to the last, training and validation in one plot; the command, data, parameters, options
  local text = check_page "seg"
  local n = 0
  for plot in text:gmatch '<svg class="plot".-</svg>' do
    t.match(plot, '>1</text>.*>30</text>\n<text[^>]*>step<') -- its first and last marks
    n = n + 1
  end
  t.ok(n >= 3, "plots: " .. n)
  t.match(text, "<b>mean IoU</b>\n<i>.-training</i>\n<i>.-validation</i>\n</figcaption>")
  t.eq(#seg.curves.iou, 30)
  t.match(text, "<dt>command</dt>.->spcore</span>.->train_seg.lua</span>.->%-%-steps</span>.-<dt>data</dt>"
    .. "<dd>shapes: 56 train, 8 val, 6 classes</dd>")
  t.match(text, "<dt>parameters</dt><dd>[%d,]+: [%d,]+ trained, [%d,]+ frozen</dd>")
  t.eq(json.read(dir.path .. "/cls/settings.json").parameters.frozen, 0) -- counts of batches are none
  local options, rest = text:match "<h2>Options</h2>(.-)<details>(.*)"
  t.match(options, "%-%-eval%-every</span> 10<.*%-%-steps</span> 30<")
  t.ok(not options:find "%-%-seed" and rest:find "%-%-seed</span> 1<", "what is as usual is folded")
  t.match(text, "<h3>The worst</h3>.-by their mean IoU with the last weights, among all 8 samples of the validation")
end
do -- several runs: what differs, curves in one plot, figures side by side
  local code, out, err = run "report seg cls --json"
  t.eq(code .. err, "0")
  local told = json.decode(out)
  local by = {}
  for _, list in ipairs { told.differences, told.figures } do
    for _, row in ipairs(list) do by[row.name] = row.values end
  end
  t.eq(by.script[1] .. by.script[2] .. by["--steps"][1] .. by["--steps"][2], "train_seg.luatrain_cls.lua3012")
  t.eq(by["--out"], nil)
  t.eq(by.steps[2], 12)
  t.ok(by["last validation: mean IoU"][1] > 0 and by["last validation: accuracy"][2] >= 0)
  code, out, err = run "report seg cls one"
  t.eq(code .. err, "0")
  t.match(out, "^ +seg +cls +one\n.*\n%-%-steps +30 +12 +1\n.*\nsteps +30 +12 +1\n.*\nseg/compare.html\n$")
  do -- what the page shows alike is no better
    local compare, two = require "spcore.report.compare", {}
    for i, bytes in ipairs { 1048576, 1048577 } do
      two[i] = { dir = "r" .. i, state = "finished", steps = 1, curves = {}, validations = {}, speed = {}, rate = {}, seconds = i,
        settings = { options = {}, memory = { total = bytes } }, summary = {}, best = { metric = "iou", value = i / 4, step = 1 } }
    end
    local best = {}
    for _, one in ipairs(compare.figures(two)) do best[one.name] = one.best or "none" end
    t.eq(best["best validation"], 2)
    t.eq(best.memory, "none")
    local function faster(low, high) -- a speed is better where the ranges of both runs do not meet
      two[1].speed, two[2].speed = { median = 100, low = 90, high = 110 }, { median = 120, low = low, high = high }
      for _, one in ipairs(compare.figures(two)) do if one.name == "steps/s (median)" then return one.best or "none" end end
    end
    t.eq(faster(111, 130), 2)
    t.eq(faster(110, 130), "none")
  end
  os.rename(dir.path .. "/seg/compare.html", dir.path .. "/one/report.html")
  t.match(check_page "one", "<h1>3 runs</h1>.*What differs.*%-%-steps.*<b>loss</b>\n<i>.-seg</i>\n<i>.-cls</i>\n<i>.-one</i>")
  t.match(t.read(dir.path .. "/one/report.html"), '<tr><th>last validation</th><td colspan="3"></td></tr>\n<tr><th class="in">loss</th>')
  t.eq((run "report one --quiet"), 0)
end
local code, out, err = run "report seg/ --out page.html --quiet"
t.eq(code .. out .. err, "0")
t.ok(#t.read(dir.path .. "/page.html") > 1000)
do -- what cannot be written leaves nothing behind
  local code, out, err = run "report seg --out seg/samples/"
  t.eq(code .. out, "2")
  t.one_line(err, "report: seg/samples/ is a folder; %-%-out names a file, such as seg/samples/report.html\n$")
  os.execute(("ln -s /dev/full '%s/full.html.new'"):format(dir.path))
  code, out, err = run "report seg --out full.html"
  t.eq(code .. out, "1")
  t.one_line(err, "full.html.new: No space left on device")
  for _, name in ipairs { "seg/samples.new", "seg/samples/.new", "full.html.new", "full.html" } do
    t.ok(not sys.there(dir.path .. "/" .. name), name)
  end
  os.execute(("cd '%s' && echo old >linked && ln -s linked link.html"):format(dir.path))
  t.eq((run "report seg --out link.html"), 0)
  t.match(t.read(dir.path .. "/linked"), "^<!DOCTYPE html>")
  os.execute(("ln -s /proc/self/fd/1 '%s/out.html'"):format(dir.path)) -- as /dev/stdout is one
  code, out = run "report seg --out out.html" -- a file
  t.eq(code, 0)
  t.match(out, "^<!DOCTYPE html>.*</html>%s*$")
  os.execute(("cd '%s' && '%s/spcore' report seg --out out.html | cat >piped"):format(dir.path, os.getenv "top_builddir"))
  t.eq(t.read(dir.path .. "/piped"), out)
  t.ok(os.execute(("test -L '%s/out.html'"):format(dir.path)), "the link is still one")
end

-- With a trace: what each stage takes, how far lanes overlap, a picture.
t.eq((run "run train_seg.lua --steps 20 --eval-every 30 --size 32 --batch 4 --samples 64 --quiet --out traced --trace traced.json"), 0)
local traced = report "traced"
t.ok(#traced.trace.calls > 5 and traced.trace.calls[1].ms >= traced.trace.calls[2].ms)
t.ok(traced.trace.figures.step > 0 and traced.trace.figures.longest <= traced.trace.figures.sum + 1e-9)
t.match((select(2, run "report traced")), "^traced/report.html: finished")
t.match(check_page "traced", "<h2>Timeline</h2>.*<svg xmlns.*a step, mean of.*<h2>Stages</h2>.*<td>decoder backward</td>")
os.rename(dir.path .. "/traced.json", dir.path .. "/moved.json")
t.eq(report("traced").trace, nil)
t.ok(report("traced --trace moved.json").trace)

-- A run that was killed: no summary, and a last line that is cut off.
local lines = t.read(dir.path .. "/seg/metrics.jsonl")
os.remove(dir.path .. "/seg/summary.json")
t.write(dir.path .. "/seg/metrics.jsonl", lines:match(("[^\n]*\n"):rep(20)) .. '{"epoch":0,"lo')
seg = report "seg"
t.eq(seg.state .. " " .. seg.steps, "cut short 20")
t.match(seg.findings[1].text .. seg.findings[1].cure, "ended after step 20 of 30, and nothing says why.*%-%-resume seg")

-- Under way: somebody holds the lock. The text of a name is no mark of the page.
local sys = require "spcore.sys"
local held = io.open(dir.path .. "/seg/settings.json", "r+")
t.ok(sys.lock(held))
t.eq(report("seg").state, "under way")
held:close()
local settings = json.read(dir.path .. "/cls/settings.json")
settings.options.data = '<b>"x"&</b>'
t.write(dir.path .. "/cls/settings.json", json.encode(settings))
t.eq((run "report cls --quiet"), 0)
t.match(check_page "cls", "&lt;b&gt;&quot;x&quot;&amp;&lt;/b&gt;")

-- What the figures say: made-up runs of 200 steps.
local function made_up(name, loss, more, device)
  sys.mkdir(dir.path .. "/" .. name)
  local out, time = {}, 0
  for step = 0, 199 do
    local m = { step = step, epoch = 0, loss = loss(step), n = 4 }
    for k, v in pairs(more and more(step) or {}) do m[k] = v end
    time = time + (m.wait or 0.01)
    m.time, m.wait = time, nil
    out[#out + 1] = json.encode(m)
  end
  t.write(("%s/%s/metrics.jsonl"):format(dir.path, name), table.concat(out, "\n") .. "\n")
  t.write(("%s/%s/settings.json"):format(dir.path, name), json.encode {
    script = "x.lua", device = device, options = { steps = 200, batch = 4 }, strategy = "serialized", run_ahead = 2,
    stages = { { name = "encoder", frozen = true } },
  })
  t.write(("%s/%s/summary.json"):format(dir.path, name), json.encode {
    seconds = time, loss = loss(199), best = { metric = "iou", value = 0.9, step = 49 },
  })
  local words = {}
  for i, f in ipairs(report(name).findings) do words[i] = f.text end
  t.eq((run("report " .. name)), 0)
  check_page(name)
  return table.concat(words, "\n")
end
local function falls(step) return 2 - step / 200 end
local good = made_up("good", falls)
t.match(good, "^Stage 'encoder' is frozen, and nothing overlaps%.$")
t.ok(math.abs(report("good").speed.median - 100) < 1e-6)
t.match(made_up("flat", function() return 1.5 end), "The loss did not fall: 1.5 at the beginning, 1.5 at the end")
t.match(made_up("odd", function(step) return step < 150 and 1 or 0 / 0 end), "The loss is not a number from step 151 on")
t.match(made_up("exploded", function(step) return step == 7 and 30 or 2 - step / 200 end),
  "The loss exploded: 30 at step 8, 15 times that of the first step, 2")
t.ok(not good:find "exploded")
do -- the rate that was typed, or the script's own
  local function cure(given)
    t.write(dir.path .. "/exploded/settings.json", json.encode { script = "a/long/way/x.lua", options = { lr = 100.0 }, given = given })
    t.eq((run "report exploded --quiet"), 0)
    return report("exploded").findings[1].cure
  end
  t.eq(cure(json.list { "lr" }), "Take a smaller --lr than 100, or leave it out: the script has its own.")
  t.eq(cure(json.list { "max_lr" }), "Take a smaller --lr than 100, such as 10.")
  t.match(t.read(dir.path .. "/exploded/report.html"), "<h1>x.lua</h1>")
end
t.match(made_up("by_heart", function(step) return 2 / (1 + step) end, function(step)
  return step % 20 == 19 and { eval = { loss = step < 60 and 1 - step / 100 or 0.4 + step / 200, n = 4 } } or {}
end), "learns its training images by heart: since step 60 the loss of validations rose from 0.41 to 1.395")
do -- classes: one is never found, one is not there; of counts of pixels and of samples
  local function with(top1) -- the class ring is taken for disc always
    return function(step)
      return step == 199 and { eval = { n = 20, top1 = top1, topk = top1 and 20, counted = top1 and 20,
        counts = { { 8, 2, 0, 0 }, { 1, 5, 0, 0 }, { 0, 4, 0, 0 }, { 0, 0, 0, 0 } } } } or {}
    end
  end
  t.match(made_up("classes", falls, with(nil)), "1 of 4 classes is never found, IoU 0: 2%.\nThe validation has no pixel of 3%.")
  local text = t.read(dir.path .. "/classes/report.html")
  t.match(text, '<td>2</td>.->0.000</td>.-<td>1</td>.->0.417</td>.->0.588<.->0.455<.->0.833<.->30.00 %%<.-<td>0</td>.->0.727<.-<td>3</td>')
  local cures = json.encode(report("classes").findings)
  t.match(cures, "Train longer; see how rare it is, .*Nothing is known of it: put samples of it into")
  t.match(made_up("labels", falls, with(13)), "1 of 4 classes is never found, recall 0: 2%.\nThe validation has no sample of 3%.")
  text = t.read(dir.path .. "/labels/report.html")
  t.match(text, "<th>F1</th>.-<td>2</td>.->0.000<.->%-<.->0.000<.->4</td>.-<td>1</td>.->0.588<.->0.455<.->0.833<.->6</td>")
end
do -- top-5 accuracy has its number, and is left out where it is 1 in any case
  local function curves(k, classes)
    made_up("hits", falls, function() return { top1 = 1, topk = 3, counted = 4 } end)
    local names = {}
    for i = 1, classes do names[i] = "c" .. i end
    t.write(dir.path .. "/hits/settings.json", json.encode { script = "x.lua", options = {}, model = { class_names = json.list(names) },
      stages = json.list { { name = "accuracy", stage = "accuracy", k = k } } })
    t.eq((run "report hits --quiet"), 0)
    return t.read(dir.path .. "/hits/report.html")
  end
  t.match(curves(5, 9), "<b>top%-5 accuracy</b>")
  t.ok(not curves(5, 5):find "top%-")
  t.ok(not curves(1, 9):find "top%-")
  t.match(curves(nil, 9), "<b>top%-k accuracy</b>")
end
do -- a curve of validations alone says so
  made_up("alone", falls, function(step) return step % 50 == 49 and { eval = { dice = step / 200, n = 4 } } or {} end)
  t.match(t.read(dir.path .. "/alone/report.html"), "<b>Dice</b>\n<i><span[^>]*></span>validation</i>")
end
do -- why a run ended before its end
  made_up("stopped", falls)
  os.remove(dir.path .. "/stopped/summary.json")
  t.write(dir.path .. "/stopped/stopped.json", '{"kind":"stop","why":"--max-time 20s","steps":200}')
  local r = report "stopped"
  t.eq(r.state, "stopped")
  t.match(r.findings[1].text, "The run ended after step 200 of 200, by %-%-max%-time 20s%.")
  t.write(dir.path .. "/stopped/stopped.json", '{"kind":"stop","why":"a signal","steps":200,"best":{"metric":"iou","value":0.75,"step":49}}')
  t.eq((run "report stopped --quiet"), 0)
  t.match(t.read(dir.path .. "/stopped/report.html"), "<b>0.7500</b><span>best mean IoU, at step 50<")
  t.write(dir.path .. "/stopped/stopped.json", '{"kind":"error","why":"x.lua:3: no","steps":200}')
  t.match(report("stopped").findings[1].text, "ended after step 200 by an error: x.lua:3: no")
end
t.match(made_up("uneven", falls, function(step) return { wait = step % 200 < 60 and 0.03 or 0.01 } end), "The speed is uneven")
local validated = made_up("late", falls, function(step)
  if step % 50 ~= 49 then return { wait = step % 50 == 0 and 2 or 0.01 } end
  return { eval = { iou = step == 49 and 0.9 or 0.5, n = 4 } }
end)
t.match(validated, "Validations took %d+ %% of the time")
t.match(validated, "The best mean IoU, 0.9000, was at step 50; at the end it is 0.5000")
t.match(json.encode(report("late").findings), "%-%-checkpoint%-every keeps the weights") -- there is no best.safetensors

-- Ranks: of a GPU what lane comm takes may have something beside it, who is slow is slow.
local function of_ranks(ms)
  return function() return { slowest_rank = 1, slowest_ms = ms, comm_share = 0.4 } end
end
t.match(made_up("waits", falls, of_ranks(0.1), "cpu"), "Ranks wait for each other 40 %% of the time")
t.match(t.read(dir.path .. "/waits/report.html"), "40 %%.-of the time ranks wait for each other")
t.ok(not made_up("beside", falls, of_ranks(0.0123), "cuda:0"):find "Rank")
t.match(t.read(dir.path .. "/beside/report.html"), "%+0%.0123 ms.-40 %%.-of the time lane comm is at work")
t.match(made_up("slow", falls, of_ranks(2), "cuda:0"), "Rank 1 is the slowest: %+2 of 10 ms a step, for which the others wait")

-- ---- what is no run ----
local function refused(line, pattern)
  local status, _, words = run(line)
  t.ok(status ~= 0)
  t.one_line(words, pattern)
end
refused("report", "the folder of a run is wanted")
refused("report cls seg --follow", "%-%-follow: goes with one run")
refused("report cls cls/", "cls is named twice")
refused("report cls nosuch", "nosuch/settings.json: No such file")
refused("report nosuch", "nosuch/settings.json: No such file")
refused("report cls --trace nosuch.json", "nosuch.json: No such file")
refused("report cls --trace seg/settings.json", "seg/settings.json: this is no trace")
refused("report seg --json --follow", "%-%-json: goes with")
t.write(dir.path .. "/flat/metrics.jsonl", '{"step":0}\nrubbish\n{"step":1}\n')
refused("report flat", "flat/metrics.jsonl, line 2: no step of a run")
t.write(dir.path .. "/flat/metrics.jsonl", '{"step":0}\n{"eval":{"x":}}\n')
refused("report flat", "flat/metrics.jsonl, line 2: ")
t.write(dir.path .. "/flat/metrics.jsonl", '{"step":0}\n{"loss":1}\n')
refused("report flat", "flat/metrics.jsonl, line 2: it has no step")
t.write(dir.path .. "/flat/metrics.jsonl", '{"step":0}\n{"step":1,"sum":"0123456789abcdef"}\n')
refused("report flat", "flat/metrics.jsonl, line 2 is damaged: its checksum is %x+, and it says 0123456789abcdef")
os.remove(dir.path .. "/flat/metrics.jsonl")
refused("report flat", "flat/metrics.jsonl: No such file")
t.write(dir.path .. "/flat/settings.json", "[1]")
refused("report flat", "flat/settings.json: options is to be an object; it does not describe a run")
for text, words in pairs {
  ['{"script":"x","options":{"a":{}},"lanes":[{"name":"x","delay":0,"stages":[1]}]}'] = "lanes%[1%].stages%[1%] is to be a text",
  ['{"script":"x","options":{"a":{"b":1}}}'] = "options.a is to be a list", ['{"script":"x","options":[1]}'] = "options is to be",
  ['{"script":"x","options":{},"memory":{"total":-1}}'] = "memory.total is to be a whole number from 0 on",
  ['{"script":"x","options":{},"stages":7}'] = "stages is to be a list", ['{"script":"x"}'] = "options is to be an object",
} do
  t.write(dir.path .. "/flat/settings.json", text)
  refused("report flat", "flat/settings.json: " .. words)
end
t.write(dir.path .. "/late/summary.json", '{"seconds":1,"best":{"metric":"iou","value":0.9}}')
refused("report late", "late/summary.json: best.step is to be a whole number")
t.write(dir.path .. "/late/summary.json", '{"seconds":')
refused("report late", "late/summary.json: ")
os.remove(dir.path .. "/late/summary.json")
-- a metric of that name that is no table of pairs
local line = '{"step":0,"n":4,"time":1,"eval":{"counts":[[1,2],[3,"4"]],"n":4}}\n'
t.write(dir.path .. "/late/metrics.jsonl", line)
t.eq((run "report late"), 0)
t.ok(not check_page "late":find "<h2>Classes</h2>")

-- What a run that failed by itself may do next: a script without checkpoints does not go on.
t.eq(report("late").findings[1].cure, "Look at what the run printed.")

-- ---- --follow: the page reads itself again while the run is under way, and no longer when nobody writes it ----
held = io.open(dir.path .. "/late/settings.json", "r+")
t.ok(sys.lock(held))
t.write(dir.path .. "/follow.sh", ([[
'%s' report late --follow >follow.out 2>&1 &
n=0
until grep -q 'http-equiv="refresh" content="10"' late/report.html 2>/dev/null || [ $n -gt 100 ]; do
  n=$((n + 1))
  sleep 0.1
done
cp late/report.html followed.html
kill -TERM $!
wait $!
]]):format(t.program))
os.remove(dir.path .. "/late/report.html")
os.execute(("cd '%s' && sh follow.sh"):format(dir.path))
held:close()
t.match(t.read(dir.path .. "/followed.html"), 'http%-equiv="refresh" content="10".*under way')
t.ok(not check_page "late":find "refresh")
t.match(t.read(dir.path .. "/follow.out"), "^spcore: SIGTERM: the script ends at its next step; [^\n]*\nlate/report.html: under way, 1 step, ")
t.eq((run "report late --follow"), 0) -- of a run that is over it is one report
t.ok(not check_page "late":find "refresh")
