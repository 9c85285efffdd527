-- SPDX-License-Identifier: MIT
-- A run's report as one page of HTML, with its pictures in it: nothing is fetched, and no script runs.
local classes = require "spcore.report.classes"
local plot = require "spcore.plot"
local style = require "spcore.report.style"
local timeline = require "spcore.timeline"
local measure = require "spcore.measure"
local w = require "spcore.report.words"
local words = require "spcore.words"

local e = plot.escape
local page = {}

local MOST_SCATTERS <const> = 12 -- columns of numbers that have a plot

-- ---- parts ----

-- A command whose words stay whole, unless one is too long for a line.
function page.command(text)
  return (text:gsub("%S+", function(word) return #word < 40 and ('<span class="word">%s</span>'):format(e(word)) or e(word) end))
end

-- A path that breaks behind its folders and words; what is behind a dot stays with its name.
local function path_of(text) return (e(text):gsub("[/_]", "%0<wbr>")) end

-- What it was, in lines: the command, the data, the network, the machine.
local function put_head(put, run)
  local s = run.settings
  local script = s.script:match "[^/]+$" or s.script
  put('<h1>%s</h1><p><span class="state">%s</span> <code>%s</code></p>', path_of(script), e(run.state), path_of(run.dir))
  put '<dl class="about">'
  local function line(what, text) put("<dt>%s</dt><dd>%s</dd>", what, text) end
  if s.command then line("command", ("<code>%s</code>"):format(page.command(s.command))) end
  local from = type(s.options.data) == "string" and s.options.data or nil
  if s.data or from then line("data", e((from and from .. (s.data and ": " or "") or "") .. (s.data or ""))) end
  local p = s.parameters
  if p then
    line("parameters", ("%s%s"):format(w.count(p.total), p.frozen > 0
      and (": %s trained, %s frozen"):format(w.count(p.trained), w.count(p.frozen)) or ", all trained"))
  end
  line("machine", e(("%s, %s%s, strategy %s, %s threads"):format(s.device, s.precision,
    s.capture ~= "off" and ", capture " .. tostring(s.capture) or "", s.strategy, s.threads)))
  line("begun", e(("%s, seed %s, spcore %s%s"):format(s.date, s.seed, s.spcore, run.resumed > 0
    and (", resumed %s"):format(run.resumed == 1 and "once" or run.resumed .. " times") or "")))
  put "</dl>"
end

local function put_tiles(put, run)
  local function tile(value, about) put('<div class="tile"><b>%s</b><span>%s</span></div>', e(value), e(about)) end
  put '<div class="tiles">'
  tile(w.count(run.steps), run.planned and run.planned ~= run.steps and ("of %s steps"):format(w.count(run.planned)) or "steps")
  local best = run.best
  if best then tile(w.metric(best.metric, best.value), ("best %s, at step %d"):format(w.name(best.metric), best.step + 1)) end
  local loss = run.curves.loss
  if loss then tile(w.figure(loss[#loss][2]), "last loss") end
  if run.speed.median then
    tile(w.rate(run.speed.median), ("steps/s; four fifths of the run between %s and %s"):format(w.rate(run.speed.low),
      w.rate(run.speed.high)))
    if run.batch then tile(w.rate(run.speed.median * run.batch), ("images/s, %d a step"):format(run.batch)) end
  end
  local slowest = run.slowest
  if slowest then
    tile(("+%s ms"):format(words.ms(slowest.ms)), ("a step: rank %d is the slowest"):format(slowest.rank))
    tile(("%.0f %%"):format(100 * slowest.comm), tostring(run.settings.device):find "^cuda" and
      "of the time lane comm is at work" or "of the time ranks wait for each other")
  end
  tile(w.duration(run.summary and run.summary.seconds or run.seconds), "in all")
  local memory = run.settings.memory
  if memory and memory.total then tile(w.bytes(memory.total), "memory") end
  put "</div>"
end

local function put_findings(put, list)
  put "<h2>Findings</h2>"
  if #list == 0 then put '<p class="dim">Nothing stands out.</p>' end
  put '<ul class="findings">'
  for _, f in ipairs(list) do put('<li class="%s">%s<br><span class="dim">%s</span></li>', f.kind, e(f.text), e(f.cure)) end
  put "</ul>"
end

local first = { loss = 1, accuracy = 2, iou = 2, lr = 9 }

local function rank(name) return first[name] or name:find "^top%-%w+ accuracy$" and 3 or 5 end

-- Such figures are in tables; a curve of them says little beside those of F1 and ECE.
local unplotted <const> = { precision = true, recall = true, mce = true }

-- The names in order that have a curve.
function page.plotted(...)
  local out = {}
  for _, name in ipairs(page.in_order(...)) do
    if not unplotted[name] then out[#out + 1] = name end
  end
  return out
end

-- The loss, then what is judged by, then the rest by name, the learning rate last.
function page.in_order(...)
  local list, there = {}, {}
  for _, from in ipairs { ... } do
    for _, name in ipairs(from) do
      if not there[name] then list[#list + 1] = name end
      there[name] = true
    end
  end
  table.sort(list, function(a, b)
    local x, y = rank(a), rank(b)
    return x < y or x == y and a < b
  end)
  return list
end

-- A curve as people count its steps, in at most 100 places.
function page.points(curve)
  local out = plot.thinned(curve, 100)
  for _, p in ipairs(out) do p[1] = p[1] + 1 end
  return out
end

-- A figure with what is drawn in it; series have names where there is more than one.
function page.put_plot(put, t)
  put('<figure><figcaption><b>%s</b>', e(t.title))
  for i, s in ipairs((#t.series > 1 or t.named) and t.series or {}) do
    if s.name then put('<i><span class="key" style="background:var(--line%d)"></span>%s</i>', (s.colour or i - 1) % 6, e(s.name)) end
  end
  t.powers = t.may_be_wide and plot.is_wide(t.series)
  if t.powers then put "<i>powers of ten</i>" end
  put "</figcaption>"
  put("%s", plot.lines(t))
  put "</figure>"
end

local function put_curves(put, run)
  put '<h2>Curves</h2><div class="plots">'
  local last = math.max(run.steps, 1)
  for _, name in ipairs(page.plotted(run.curves, run.validations)) do
    local series, train, val = {}, run.curves[name], run.validations[name]
    if train then series[#series + 1] = { name = "training", points = page.points(train), colour = 0 } end
    if val then series[#series + 1] = { name = "validation", points = page.points(val), dots = #val <= 60, colour = 1 } end
    page.put_plot(put, { title = w.name(name), x = "step", from = 1, to = last, series = series, named = val ~= nil,
      may_be_wide = name:find "loss$" ~= nil })
  end
  if #run.rate > 0 then
    page.put_plot(put, { title = "steps/s, without the pauses of validations", x = "step", zero = true, from = 1, to = last,
      series = { { name = "steps/s", points = page.points(run.rate), colour = 2 } } })
  end
  put "</div>"
end

-- A picture, or labels over that of the card.
local function put_shot(put, card, s, about)
  local class = s.sharp and "sharp" or ""
  local alt = e(("sample %s: %s"):format(card.name, s.words))
  if s.over then
    put('<div><div class="shot %s" style="aspect-ratio:%s"><img class="%s" src="%s" alt="%s"></div><span>%s</span></div>', class,
      card.aspect, class, s.over, alt, e(about))
  else
    local own = s.uri and (";--p:url(%s)"):format(s.uri) or ""
    put('<div><div class="shot %s" style="aspect-ratio:%s%s" role="img" aria-label="%s"></div><span>%s</span></div>', class,
      card.aspect, own, alt, e(about))
  end
end

local function put_card(put, card)
  put('<figure style="--p:url(%s)">', card.uri)
  put('<figcaption>%s%s</figcaption><div class="shots">',
    card.file and ('<span class="file">%s</span>'):format(path_of(card.file)) or "sample " .. e(card.name),
    card.note and "<br>" .. e(card.note) or "")
  for _, s in ipairs(card.shots) do put_shot(put, card, s, #card.shots > 1 and s.words or "") end
  put "</div>"
  for _, g in ipairs(card.guesses) do put('<figcaption class="%s">%s</figcaption>', g.right and "" or "wrong", e(g.words)) end
  put "</figure>"
end

local function put_cards(put, run, cards)
  put('<div class="samples%s">', (run.samples.told.labels or run.samples.told.map) and "" or " single")
  for _, card in ipairs(cards) do put_card(put, card) end
  put "</div>"
end

local function put_samples(put, run)
  local t = run.samples
  if not t then return end
  put '<h2>Samples of the validation</h2><p class="legend">'
  for _, l in ipairs(t.legend) do
    local over = l.colour ~= "transparent" and ' class="over"' or ""
    put('<i><s%s><b style="background:%s"></b></s>%s</i>', over, l.colour, e(l.name))
  end
  local map = t.told.map
  if map then
    put('<i>%s <u class="ramp"></u> %s</i><i>error: %s <u class="ramp"></u> %s or more</i><i><s class="no-value"></s>no value</i>',
      w.figure(map.least), w.figure(map.largest), "0", w.figure(map.error))
  end
  put "</p>"
  local bad = t.told.worst
  if bad and #t.worst > 0 then
    put("<h3>The worst</h3><p class=\"dim\">by their %s with the last weights, among %s</p>",
      ({ iou = "mean IoU", rmse = "RMSE" })[bad.by] or "loss", bad.of == bad.all and ("all %d samples of the validation"):format(bad.all)
      or ("%d evenly spaced samples of %d"):format(bad.of, bad.all))
    put_cards(put, run, t.worst)
    put "<h3>Evenly spaced</h3>"
  end
  put_cards(put, run, t.cards)
  if t.left_out > 0 then
    put('<p class="dim">%d more would make this page too large; they are in <code>%s/samples</code></p>', t.left_out, e(run.dir))
  end
  if t.missing > 0 then put('<p class="dim">%d more lack%s a file in <code>%s/samples</code></p>', t.missing,
    t.missing == 1 and "s" or "", e(run.dir)) end
end

local function put_matrix(put, counts, list)
  put('<div class="scroll"><table class="matrix%s"><thead><tr><th>true \\ predicted</th>', #list > 5 and " many" or "")
  for _, c in ipairs(list) do put("<th>%s</th>", e(c.name)) end
  put "</tr></thead>"
  for i, row in ipairs(counts) do
    local all = list[i].support
    put("<tr><th>%s</th>", e(list[i].name))
    for k, v in ipairs(row) do
      local share = all > 0 and v / all or 0
      put('<td style="background:color-mix(in srgb, var(--line%d) %.0f%%, transparent)">%s</td>', i == k and 2 or 3, share * 60,
        all > 0 and ("%.1f"):format(100 * share) or "-")
    end
    put "</tr>"
  end
  put '</table></div><p class="dim">per cent of each row</p>'
end

-- What a table of classes shows beside what it is sorted by, where any class has it.
local columns <const> = {
  { "f1", "F1" }, { "precision", "precision" }, { "recall", "recall" }, { "boundary_f1", "boundary F1" }, { "auroc", "AUROC" },
  { "average_precision", "average precision" },
}

local function columns_of(list)
  local out = {}
  for _, c in ipairs(columns) do
    local there = false
    for _, one in ipairs(list) do there = there or one[c[1]] ~= nil end
    if there and c[1] ~= list.by then out[#out + 1] = { c[1], c[1] == "f1" and "Dice" or c[2] } end
  end
  return out
end

local function put_classes(put, run)
  local list = classes.of(run)
  if not list then return end
  local by_f1, shown = list.by == "f1", columns_of(list)
  local function number(v) return v and v == v and ("%.3f"):format(v) or "-" end
  put('<h2>Classes</h2><p class="dim">of the last validation, the worst first%s</p><div class="scroll"><table class="bars">',
    list.labels and "; a class is predicted from a probability of 1/2 on" or "")
  put("<tr><th>class</th><th>%s</th><th></th>", by_f1 and "F1" or "IoU")
  for _, c in ipairs(shown) do put('<th class="n">%s</th>', c[2]) end
  put('<th class="n">%s</th></tr>', by_f1 and "samples" or "pixels")
  for _, c in ipairs(classes.worst_first(list)) do
    local v = c[list.by]
    put('<tr><td>%s</td><td class="bars-at"><div class="bar" style="width:%.1f%%"></div></td><td class="n">%s</td>', e(c.name),
      100 * (v or 0), number(v))
    for _, k in ipairs(shown) do put('<td class="n">%s</td>', number(c[k[1]])) end
    put('<td class="n">%s</td></tr>', by_f1 and w.count(c.support) or c.share and ("%.2f %%"):format(100 * c.share) or "-")
  end
  put "</table></div>"
  if not list.labels and #list <= 32 then
    put "<details open><summary>confusion</summary>"
    put_matrix(put, classes.counts(run), list)
    put "</details>"
  end
end

-- Of predictions as sure as this, how many are right.
local function put_reliability(put, run)
  local r = classes.reliability(run)
  if not r or r.ece ~= r.ece then return end
  put('<h2>Reliability</h2><p class="dim">Of the last validation: predictions by their probability, and how many of them are right. '
    .. "Both are %s apart on average (ECE), %s at most (MCE).</p>", w.share(r.ece), w.share(r.mce))
  put('<div class="scroll"><table class="bars"><tr><th>probability</th><th>right</th><th></th><th class="n">mean probability</th>'
    .. '<th class="n">predictions</th></tr>')
  for i, b in ipairs(r.bins) do
    if b.samples > 0 then
      put('<tr><td>%.2f to %.2f</td><td class="bars-at"><div class="bar" style="width:%.1f%%"></div></td><td class="n">%.3f</td>'
        .. '<td class="n">%.3f</td><td class="n">%s</td></tr>', (i - 1) / #r.bins, i / #r.bins, 100 * b.accuracy, b.accuracy,
        b.confidence, w.count(b.samples))
    end
  end
  put "</table></div>"
end

local function put_numbers(put, run)
  local list = classes.columns(run)
  if not list then return end
  put('<h2>Numbers</h2><p class="dim">of the last validation; bias is the mean of prediction less truth%s</p>',
    run.evaluation.standardized and "; the curves above are of all columns, each divided by its deviation" or "")
  put '<div class="scroll"><table>'
  put '<tr><th></th><th class="n">MAE</th><th class="n">RMSE</th><th class="n">bias</th><th class="n">R2</th><th class="n">measured</th></tr>'
  for _, c in ipairs(list) do
    put('<tr><td>%s</td><td class="n">%s</td><td class="n">%s</td><td class="n">%s</td><td class="n">%s</td><td class="n">%s</td></tr>',
      e(c.name), w.figure(c.mae), w.figure(c.rmse), w.figure(c.bias), w.figure(c.r2), c.n and w.count(c.n) or "-")
  end
  put "</table></div>"
end

-- Truth against prediction, a plot for each column, of the samples that the run has looked at.
local function put_scatter(put, run)
  local told = run.samples and run.samples.told
  local dots = told and told.worst and told.worst.dots or {}
  local columns = told and told.columns or {}
  if not dots[1] then return end
  put('<h3>Prediction against truth</h3><p class="dim">of %d of %d validation samples, after step %d; on the dashed line both are equal</p>'
    .. '<div class="plots">', #dots, told.worst.all, told.worst.step + 1)
  for c = 1, math.min(#dots[1].values, MOST_SCATTERS) do
    local points = {}
    for _, d in ipairs(dots) do
      local a, b = d.values[c], d.predicted[c]
      if a and b and a == a and b == b then
        points[#points + 1] = { a, b, ("sample %d: %.4g, predicted %.4g"):format(tonumber(d.name), a, b) }
      end
    end
    local name = columns[c] or "value"
    put("<figure><figcaption>%s<i>predicted (upwards) against truth</i></figcaption>", e(name))
    put("%s</figure>", plot.scatter { title = name, x = "truth: " .. name, points = points })
  end
  put "</div>"
  if #dots[1].values > MOST_SCATTERS then
    put('<p class="dim">The first %d of %d columns.</p>', MOST_SCATTERS, #dots[1].values)
  end
end

-- How many pixels the figures of depths are of.
local function put_depths(put, run)
  local d, eval = classes.depths(run), run.evaluation
  if not d then return end
  put '<h2>Depths</h2><div class="scroll"><table><tr>'
  for _, name in ipairs(measure.figures_of.depths) do put('<th class="n">%s</th>', e(w.name(name))) end
  put "</tr><tr>"
  for _, name in ipairs(measure.figures_of.depths) do put('<td class="n">%s</td>', w.metric(name, eval[name])) end
  put "</tr></table></div>"
  local least = type(run.settings.options) == "table" and run.settings.options.least
  local words = measure.depth_words(eval, type(least) == "number" and least or 1e-3)
  put('<p class="dim">of the last validation, %s pixels%s</p>', w.count(d.n or 0), words and "; " .. e(words) or "")
end

local function put_lanes(put, run)
  local lanes = run.settings.lanes
  if not lanes or #lanes == 0 then return end
  put '<h2>Lanes</h2><div class="scroll"><table><tr><th>lane</th><th class="n">steps behind</th><th>what it does</th></tr>'
  for _, lane in ipairs(lanes) do
    put('<tr><td>%s</td><td class="n">%s</td><td class="wrap">%s</td></tr>', e(lane.name), e(lane.delay),
      e(table.concat(lane.stages, ", ")))
  end
  put "</table></div>"
end

local function put_trace(put, run)
  local t = run.trace
  if not t then return end
  put "<h2>Timeline</h2>"
  if t.hidden then put('<p class="dim">%s</p>', e(t.hidden)) end
  put '<div class="scroll">'
  put("%s", t.svg)
  put '</div><h2>Stages</h2><div class="scroll"><table class="bars"><tr><th>call</th><th>time of a step</th><th></th><th>lane</th></tr>'
  local most = t.calls[1] and math.max(t.calls[1].ms, 1e-9) or 1
  for i = 1, math.min(#t.calls, 40) do
    local c = t.calls[i]
    put('<tr><td>%s</td><td class="bars-at"><div class="bar" style="width:%.1f%%"></div></td><td class="n">%s</td><td>%s</td></tr>',
      e(c.what), 100 * c.ms / most, e(timeline.ms(c.ms)), e(c.lane))
  end
  put "</table></div>"
end

local function put_memory(put, run)
  local memory = run.settings.memory
  if not memory or (memory.total or 0) == 0 then return end
  local kinds = {}
  for kind, n in pairs(memory) do
    if kind ~= "total" and n > 0 then kinds[#kinds + 1] = kind end
  end
  table.sort(kinds, function(a, b) return memory[a] > memory[b] or memory[a] == memory[b] and a < b end)
  put '<h2>Memory</h2><div class="scroll"><table class="bars">'
  for _, kind in ipairs(kinds) do
    put('<tr><td>%s</td><td class="bars-at"><div class="bar" style="width:%.1f%%"></div></td><td class="n">%s</td></tr>', e(kind),
      100 * memory[kind] / memory.total, e(w.bytes(memory[kind])))
  end
  put "</table></div>"
end

local function put_options(put, run, keys)
  put '<div class="options">'
  for _, key in ipairs(keys) do
    put('<div><span class="dim">--%s</span> %s</div>', e((key:gsub("_", "-"))), e(w.value(run.settings.options[key])))
  end
  put "</div>"
end

-- What the command line says, and folded what is as it usually is: of an older run all of them.
local function put_settings(put, run)
  local changed, usual, given = {}, {}, {}
  for _, key in ipairs(run.settings.given or {}) do given[key] = true end
  for _, key in ipairs(words.keys(run.settings.options)) do table.insert(given[key] and changed or usual, key) end
  put "<h2>Options</h2>"
  if run.settings.given then put_options(put, run, changed)
  elseif run.settings.command then put '<p class="dim">All are as they usually are.</p>' end
  put("<details><summary>%s %d options%s</summary>", #changed > 0 and "the other" or "all", #usual,
    (run.settings.given or run.settings.command) and ", with what they were here" or "")
  put_options(put, run, usual)
  put "</details>"
end

-- ---- the whole ----

-- A page with this title; body(put) fills it. refresh: seconds after which a browser reads the page again.
function page.whole(title, body, refresh)
  local out = {}
  local function put(fmt, ...) out[#out + 1] = select("#", ...) > 0 and fmt:format(...) or fmt end
  put '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
  put '<meta name="viewport" content="width=device-width, initial-scale=1">'
  if refresh then put('<meta http-equiv="refresh" content="%d">', refresh) end
  put("<title>%s</title>", e(title))
  put("<style>\n%s</style></head><body><main>", style)
  body(put)
  put "</main></body></html>"
  return table.concat(out, "\n") .. "\n"
end

function page.of(run, found, refresh)
  return page.whole(run.dir .. " - " .. run.settings.script, function(put)
    put_head(put, run)
    put_tiles(put, run)
    put_findings(put, found)
    put_curves(put, run)
    put_classes(put, run)
    put_numbers(put, run)
    put_depths(put, run)
    put_scatter(put, run)
    put_reliability(put, run)
    put_samples(put, run)
    put_trace(put, run)
    put_lanes(put, run)
    put_memory(put, run)
    put_settings(put, run)
  end, refresh)
end

return page
