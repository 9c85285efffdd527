-- SPDX-License-Identifier: MIT
-- A run's report as one page of HTML, with its pictures in it: nothing is fetched, and no script runs.
local mean_iou = require "spcore.iou"
local look = require "spcore.look"
local plot = require "spcore.plot"
local timeline = require "spcore.timeline"
local words = require "spcore.words"

local style = look.variables() .. [[
:root { color-scheme: light dark; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 20px 16px 48px; }
h1 { font-size: 22px; margin: 0; overflow-wrap: anywhere; } h2 { font-size: 17px; margin: 32px 0 10px; }
p { margin: 6px 0; } .dim { color: var(--dim); } code { font: 13px ui-monospace, monospace; overflow-wrap: anywhere; }
.state { display: inline-block; border: 1px solid var(--rule); border-radius: 10px; padding: 0 9px; font-size: 13px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); gap: 10px; margin-top: 16px; }
.tile { background: var(--card); border: 1px solid var(--rule); border-radius: 8px; padding: 8px 12px; }
.tile b { display: block; font-size: 19px; font-variant-numeric: tabular-nums; } .tile span { color: var(--dim); font-size: 13px; }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(340px, 100%), 1fr)); gap: 14px; }
figure { margin: 0; background: var(--card); border: 1px solid var(--rule); border-radius: 8px; padding: 8px 8px 4px; }
figcaption { font-size: 13px; padding: 0 4px 4px; } figcaption i { font-style: normal; color: var(--dim); margin-left: 10px; }
figcaption s { display: inline-block; width: 14px; height: 3px; border-radius: 2px; margin: 0 5px 3px 0; vertical-align: middle; }
svg.plot { display: block; width: 100%; height: auto; } .mark { fill: var(--dim); font: 11px system-ui, sans-serif; }
.grid { stroke: var(--rule); stroke-width: 1; } .line { fill: none; stroke-width: 1.6; stroke-linejoin: round; }
.band { opacity: .2; } .scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 14px; } td, th { padding: 3px 12px 3px 0; text-align: left; vertical-align: top; }
tr + tr td { border-top: 1px solid var(--rule); } th { color: var(--dim); font-weight: 500; }
td.n, th.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; } .bars td:first-child { white-space: nowrap; } td.wrap { overflow-wrap: anywhere; }
.bars td:nth-child(2) { width: 100%; min-width: 120px; } .bar { background: var(--line0); height: 10px; border-radius: 3px; margin-top: 6px; }
.matrix td { text-align: center; padding: 4px 7px; border: 1px solid var(--rule); font-variant-numeric: tabular-nums; }
.matrix th { padding: 4px 7px; } ul.findings { list-style: none; padding: 0; margin: 0; }
ul.findings li { border-left: 4px solid var(--line1); background: var(--card); padding: 7px 12px; margin: 8px 0; border-radius: 0 6px 6px 0; }
.options { display: grid; grid-template-columns: repeat(auto-fill, minmax(220px, 1fr)); gap: 2px 16px; font-size: 14px; }
.legend i { font-style: normal; margin-right: 14px; display: inline-block; }
.legend s { display: inline-block; width: 12px; height: 12px; border: 1px solid var(--rule); margin-right: 5px; }
.samples { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(350px, 100%), 1fr)); gap: 14px; }
.samples.single { grid-template-columns: repeat(auto-fill, minmax(140px, 1fr)); }
.shots { display: grid; grid-template-columns: repeat(auto-fit, minmax(80px, 1fr)); gap: 8px; }
.shots span { display: block; margin-top: 3px; font-size: 12px; line-height: 1.3; color: var(--dim); } img.sharp { image-rendering: pixelated; }
.shots img { display: block; width: 100%; height: auto; border-radius: 3px; }
.wrong { color: var(--bad); } .samples div, .samples figcaption { overflow-wrap: anywhere; }
.options div { overflow-wrap: anywhere; } ul.findings li.bad { border-color: var(--bad); } details { margin-top: 8px; } summary { cursor: pointer; color: var(--dim); }
.scroll > svg { max-width: max(100%, 640px); height: auto; }
@media (max-width: 600px) {
  .bars td:first-child { white-space: normal; overflow-wrap: anywhere; min-width: 120px; }
  .bars td:nth-child(2) { min-width: 50px; } .matrix td, .matrix th { padding: 3px 4px; font-size: 12px; }
}
]]

local e = plot.escape

local function bytes(v)
  local units, i = { "B", "KiB", "MiB", "GiB", "TiB" }, 1
  while v >= 1024 and units[i + 1] do v, i = v / 1024, i + 1 end
  return (i == 1 and "%d %s" or "%.1f %s"):format(v, units[i])
end

local function duration(seconds)
  if seconds < 60 then return ("%.1f s"):format(seconds) end
  local m = seconds // 60
  if m < 60 then return ("%d min %d s"):format(m, seconds % 60 // 1) end
  return ("%d h %d min"):format(m // 60, m % 60)
end

local function figure(v) return type(v) == "number" and v == v and ("%.4g"):format(v) or "-" end

-- ---- parts ----

local function put_head(put, run)
  local s = run.settings
  put('<h1>%s</h1><p><span class="state">%s</span> <code>%s</code></p>', e(s.script), e(run.state), e(run.dir))
  put('<p class="dim">%s, %s, capture %s, strategy %s, seed %s, spcore %s, begun %s%s</p>', e(s.device), e(s.precision),
    e(s.capture), e(s.strategy), e(s.seed), e(s.spcore), e(s.date),
    run.resumed > 0 and (", gone on with %d time%s"):format(run.resumed, run.resumed == 1 and "" or "s") or "")
end

local function put_tiles(put, run)
  local function tile(value, words) put('<div class="tile"><b>%s</b><span>%s</span></div>', e(value), e(words)) end
  put '<div class="tiles">'
  tile(run.planned and ("%d of %d"):format(run.steps, run.planned) or run.steps, "steps")
  if run.speed.median then
    tile(("%.4g"):format(run.speed.median), ("steps/s; 80 %% of the run: %.4g to %.4g"):format(run.speed.low, run.speed.high))
    if run.batch then tile(("%.4g"):format(run.speed.median * run.batch), ("images/s, %d a step"):format(run.batch)) end
  end
  local slowest = run.slowest
  if slowest then
    tile(("+%s ms"):format(words.ms(slowest.ms)), ("a step: rank %d is the slowest"):format(slowest.rank))
    tile(("%.0f %%"):format(100 * slowest.comm), tostring(run.settings.device):find "^cuda" and
      "of the time lane comm is at work" or "of the time ranks wait for each other")
  end
  tile(duration(run.summary and run.summary.seconds or run.seconds), "in all")
  local loss = run.curves.loss
  if loss then tile(figure(loss[#loss][2]), "last loss") end
  local best = run.summary and run.summary.best
  if best then tile(figure(best.value), ("best %s, at step %d"):format(best.metric, best.step)) end
  local memory = run.settings.memory
  if memory and memory.total then tile(bytes(memory.total), "memory") end
  put "</div>"
end

local function put_findings(put, list)
  put "<h2>Findings</h2>"
  if #list == 0 then put '<p class="dim">Nothing stands out.</p>' end
  put '<ul class="findings">'
  for _, f in ipairs(list) do put('<li class="%s">%s<br><span class="dim">%s</span></li>', f.kind, e(f.text), e(f.cure)) end
  put "</ul>"
end

local names = { lr = "learning rate", iou = "mean IoU" }
local first = { loss = 1, accuracy = 2, iou = 2, ["accuracy among k"] = 3, lr = 9 }

-- The loss, then what is judged by, then the rest by name, the learning rate last.
local function in_order(run)
  local list, there = {}, {}
  for _, from in ipairs { run.curves, run.validations } do
    for _, name in ipairs(from) do
      if not there[name] then list[#list + 1] = name end
      there[name] = true
    end
  end
  table.sort(list, function(a, b)
    local x, y = first[a] or 5, first[b] or 5
    return x < y or x == y and a < b
  end)
  return list
end

-- A figure with what is drawn in it; series have names where there is more than one.
local function put_plot(put, t)
  put('<figure><figcaption><b>%s</b>', e(t.title))
  for i, s in ipairs(#t.series > 1 and t.series or {}) do
    put('<i><s style="background:var(--line%d)"></s>%s</i>', (s.colour or i - 1) % 6, e(s.name))
  end
  put "</figcaption>"
  put("%s", plot.lines(t))
  put "</figure>"
end

local function put_curves(put, run)
  put '<h2>Curves</h2><div class="plots">'
  for _, name in ipairs(in_order(run)) do
    local series, train, val = {}, run.curves[name], run.validations[name]
    if train then series[#series + 1] = { name = "training", points = plot.thinned(train, 100), colour = 0 } end
    if val then series[#series + 1] = { name = "validation", points = plot.thinned(val, 100), dots = #val <= 60, colour = 1 } end
    put_plot(put, { title = names[name] or name, x = "step", series = series })
  end
  if #run.rate > 0 then
    put_plot(put, { title = "steps/s, without the pauses of validations", x = "step", zero = true,
      series = { { name = "steps/s", points = run.rate, colour = 2 } } })
  end
  put "</div>"
end

local function put_card(put, card)
  put('<figure><figcaption>sample %s%s</figcaption><div class="shots">', e(card.name), card.truth and ": " .. e(card.truth) or "")
  for _, s in ipairs(card.shots) do
    local words = #card.shots > 1 and s.words or ""
    put('<div><img class="%s" src="%s" alt="%s"><span>%s</span></div>', s.sharp and "sharp" or "", s.uri,
      e(("sample %s: %s"):format(card.name, s.words)), e(words))
  end
  put "</div>"
  for _, g in ipairs(card.guesses) do put('<figcaption class="%s">%s</figcaption>', g.right and "" or "wrong", e(g.words)) end
  put "</figure>"
end

local function put_samples(put, run)
  local t = run.samples
  if not t then return end
  put '<h2>Samples of the validation</h2><p class="legend">'
  for _, l in ipairs(t.legend) do put('<i><s style="background:%s"></s>%s</i>', l.colour, e(l.name)) end
  put('</p><div class="samples%s">', t.told.labels and "" or " single")
  for _, card in ipairs(t.cards) do put_card(put, card) end
  put "</div>"
  if t.left_out > 0 then
    put('<p class="dim">%d more would make this page too large; they are in <code>%s/samples</code></p>', t.left_out, e(run.dir))
  end
  if t.missing > 0 then put('<p class="dim">%d more lack a file in <code>%s/samples</code></p>', t.missing, e(run.dir)) end
end

local function class_names(run, n)
  local model, out = run.settings.model, {}
  for i = 1, n do out[i] = model and model.class_names and model.class_names[i] or tostring(i - 1) end
  return out
end

local function put_matrix(put, counts, classes)
  put '<div class="scroll"><table class="matrix"><tr><th>is \\ taken for</th>'
  for _, name in ipairs(classes) do put("<th>%s</th>", e(name)) end
  put "</tr>"
  for i, row in ipairs(counts) do
    local all = 0
    for _, v in ipairs(row) do all = all + v end
    put("<tr><th>%s</th>", e(classes[i]))
    for k, v in ipairs(row) do
      local share = all > 0 and v / all or 0
      put('<td style="background:color-mix(in srgb, var(--line%d) %.0f%%, transparent)">%s</td>', i == k and 2 or 3, share * 60,
        all > 0 and ("%.1f"):format(100 * share) or "-")
    end
    put "</tr>"
  end
  put '</table></div><p class="dim">per cent of each row, of the last validation</p>'
end

-- Whether a metric called so is what stage `confusion` counts.
local function is_confusion(counts)
  if type(counts) ~= "table" or #counts == 0 then return false end
  for i = 1, #counts do
    local row = counts[i]
    if type(row) ~= "table" or #row ~= #counts then return false end
    for k = 1, #row do
      if type(row[k]) ~= "number" then return false end
    end
  end
  return true
end

local function put_classes(put, run)
  local counts = run.evaluation and run.evaluation.counts
  if not is_confusion(counts) then return end
  local classes, _, per_class = class_names(run, #counts), mean_iou(counts)
  put "<h2>Classes</h2>"
  put '<div class="scroll"><table class="bars"><tr><th>class</th><th>IoU of the last validation</th><th></th></tr>'
  for i, name in ipairs(classes) do
    local v = per_class[i]
    put('<tr><td>%s</td><td><div class="bar" style="width:%.1f%%"></div></td><td class="n">%s</td></tr>', e(name),
      100 * (v or 0), v and ("%.3f"):format(v) or "-")
  end
  put "</table></div>"
  if #counts <= 32 then
    put "<details open><summary>confusion</summary>"
    put_matrix(put, counts, classes)
    put "</details>"
  end
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
    put('<tr><td>%s</td><td><div class="bar" style="width:%.1f%%"></div></td><td class="n">%s</td><td>%s</td></tr>', e(c.what),
      100 * c.ms / most, e(timeline.ms(c.ms)), e(c.lane))
  end
  put "</table></div>"
end

local function put_memory(put, run)
  local memory = run.settings.memory
  if not memory or (memory.total or 0) == 0 then return end
  local kinds = {}
  for kind in pairs(memory) do
    if kind ~= "total" then kinds[#kinds + 1] = kind end
  end
  table.sort(kinds, function(a, b) return memory[a] > memory[b] or memory[a] == memory[b] and a < b end)
  put '<h2>Memory</h2><div class="scroll"><table class="bars">'
  for _, kind in ipairs(kinds) do
    put('<tr><td>%s</td><td><div class="bar" style="width:%.1f%%"></div></td><td class="n">%s</td></tr>', e(kind),
      100 * memory[kind] / memory.total, e(bytes(memory[kind])))
  end
  put "</table></div>"
end

local function put_settings(put, run)
  local keys = {}
  for key in pairs(run.settings.options) do keys[#keys + 1] = key end
  table.sort(keys)
  put '<h2>Options</h2><div class="options">'
  for _, key in ipairs(keys) do
    local v = run.settings.options[key]
    v = type(v) == "table" and table.concat(v, ", ") or type(v) == "number" and plot.number(v) or tostring(v)
    put('<div><span class="dim">--%s</span> %s</div>', e((key:gsub("_", "-"))), e(v))
  end
  put "</div>"
end

-- refresh: seconds after which a browser reads the page again.
return function(run, found, refresh)
  local out = {}
  local function put(fmt, ...) out[#out + 1] = select("#", ...) > 0 and fmt:format(...) or fmt end
  put '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
  put '<meta name="viewport" content="width=device-width, initial-scale=1">'
  if refresh then put('<meta http-equiv="refresh" content="%d">', refresh) end
  put("<title>%s</title>", e(run.dir .. " - " .. run.settings.script))
  put("<style>\n%s</style></head><body><main>", style)
  put_head(put, run)
  put_tiles(put, run)
  put_findings(put, found)
  put_curves(put, run)
  put_samples(put, run)
  put_classes(put, run)
  put_trace(put, run)
  put_lanes(put, run)
  put_memory(put, run)
  put_settings(put, run)
  put "</main></body></html>"
  return table.concat(out, "\n") .. "\n"
end
