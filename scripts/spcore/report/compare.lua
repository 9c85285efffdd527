-- SPDX-License-Identifier: MIT
-- Several runs on one page: what differs between them first, then their curves in the same plots, figures side by side.
local measure = require "spcore.measure"
local page = require "spcore.report.page"
local plot = require "spcore.plot"
local w = require "spcore.report.words"
local words = require "spcore.words"

local e = plot.escape
local compare = {}

-- Whether the values are not all the same; nil counts as one.
local function differ(list, n)
  for i = 2, n do
    if list[i] ~= list[1] then return true end
  end
  return false
end

-- Options that say where a run is kept or how it is looked at make no difference in it.
local aside = { out = true, resume = true, override = true, quiet = true, explain = true, trace = true, trace_steps = true,
  tensorboard = true, log_every = true, debug = true, pictures = true }

-- { { name =, values = { a run each } }, ... }: script, version, data and machine, then options, of which runs differ.
function compare.differences(runs)
  local out, n = {}, #runs
  local function add(name, value)
    local values = {}
    for i, run in ipairs(runs) do values[i] = value(run) end
    if differ(values, n) then out[#out + 1] = { name = name, values = values } end
  end
  for _, name in ipairs { "script", "spcore", "data", "device", "precision", "capture", "threads", "ranks", "shards" } do
    add(name, function(run)
      local v = run.settings[name]
      return v ~= nil and w.value(v) or nil
    end)
  end
  add("parameters", function(run) return run.settings.parameters and w.count(run.settings.parameters.total) end)
  local keys = {}
  for _, run in ipairs(runs) do
    for key in pairs(run.settings.options) do keys[key] = true end
  end
  for _, key in ipairs(words.keys(keys)) do
    if not aside[key] then
      add("--" .. key:gsub("_", "-"), function(run)
        local v = run.settings.options[key]
        return v ~= nil and w.value(v) or nil
      end)
    end
  end
  return out
end

local function last_of(curve) return curve and curve[#curve] and curve[#curve][2] end

-- { name =, values =, best = index of the best one or nil } of a figure; sign: 1 where more is better, -1 where less is, 0.
local function row(name, runs, value, words_of, sign)
  local one, best, most, equal = { name = name, values = {}, words = {} }, nil, -math.huge, true
  for i, run in ipairs(runs) do
    local v = value(run)
    one.values[i], one.words[i] = v, v ~= nil and words_of(v, run) or "-"
    if sign ~= 0 and type(v) == "number" and v == v then
      equal = equal and (not best or sign * v == most)
      if sign * v > most then best, most = i, sign * v end
    end
  end
  for i, text in ipairs(one.words) do equal = equal or i ~= best and text == one.words[best] end -- as far as the page shows it
  one.best = not equal and best or nil
  return one
end

local group <const> = "last validation: " -- in front of names that belong together

-- Speeds differ where the ranges that four fifths of each run lie in do not meet.
local function sign_of_speeds(runs)
  for i, a in ipairs(runs) do
    for k = 1, i - 1 do
      local b = runs[k]
      if a.speed.low and b.speed.low and a.speed.low <= b.speed.high and b.speed.low <= a.speed.high then return 0 end
    end
  end
  return 1
end

-- Figures side by side: how far, how well, how fast.
function compare.figures(runs)
  local list, names = {}, {}
  for i, run in ipairs(runs) do names[i] = run.validations end
  local function add(...) list[#list + 1] = row(...) end
  add("state", runs, function(r) return r.state end, tostring, 0)
  add("steps", runs, function(r) return r.steps end, w.count, 0)
  add("best validation", runs, function(r) return r.best and r.best.value end, function(v, r)
    local b = r.best
    return ("%s %s at step %d"):format(w.name(b.metric), w.metric(b.metric, v), b.step + 1)
  end, compare.same_best(runs))
  for _, name in ipairs(page.in_order(table.unpack(names))) do
    add(group .. w.name(name), runs, function(r) return last_of(r.validations[name]) end,
      function(v) return w.metric(name, v) end, (name:find "loss$" or measure.name(name) or w.is_share(name)) and measure.sign(name) or 0)
  end
  add("last training loss", runs, function(r) return last_of(r.curves.loss) end, w.figure, -1)
  add("steps/s (median)", runs, function(r) return r.speed.median end, w.rate, sign_of_speeds(runs))
  add("images/s", runs, function(r) return r.speed.median and r.batch and r.speed.median * r.batch end, w.rate, sign_of_speeds(runs))
  add("seconds in all", runs, function(r) return r.summary and r.summary.seconds or r.seconds end, w.duration, 0)
  add("memory", runs, function(r) return r.settings.memory and r.settings.memory.total end, w.bytes, -1)
  return list
end

-- 1 or -1 where all bests are of one metric, else 0: they cannot be compared.
function compare.same_best(runs)
  local metric
  for _, run in ipairs(runs) do
    local b = run.best
    if b and metric and b.metric ~= metric then return 0 end
    metric = b and b.metric or metric
  end
  return metric and measure.sign(metric) or 0
end

local function put_rows(put, runs, rows)
  put '<div class="scroll"><table class="versus"><tr><th></th>'
  for i, run in ipairs(runs) do
    put('<th><span class="key" style="background:var(--line%d)"></span>%s</th>', (i - 1) % 6, e(run.dir))
  end
  put "</tr>"
  local within
  for _, one in ipairs(rows) do -- names of a group stand below its own, which a narrow page has room for
    local own = one.name:sub(1, #group) == group and one.name:sub(#group + 1)
    if own and not within then put('<tr><th>%s</th><td colspan="%d"></td></tr>', e(group:match "^[^:]+"), #runs) end
    within = own
    put('<tr><th%s>%s</th>', own and ' class="in"' or "", e(own or one.name))
    for i = 1, #runs do
      local text = e(one.words and one.words[i] or one.values[i] or "-"):gsub(",", ",<wbr>")
      put('<td class="%s">%s</td>', one.best == i and "wrap best" or "wrap", text)
    end
    put "</tr>"
  end
  put "</table></div>"
end

local function put_curves(put, runs)
  local from, last = {}, 1
  for _, run in ipairs(runs) do
    from[#from + 1], from[#from + 2], last = run.curves, run.validations, math.max(last, run.steps)
  end
  put '<h2>Curves</h2><p class="dim">Validations have dots; where there are both, the training is dashed.</p><div class="plots">'
  for _, name in ipairs(page.plotted(table.unpack(from))) do
    local series = {}
    for i, run in ipairs(runs) do
      local train, val = run.curves[name], run.validations[name]
      local function add(points, t)
        t.points, t.colour, t.bare = page.points(points), i - 1, true
        series[#series + 1] = t
      end
      if train then add(train, { name = run.dir, dash = val ~= nil }) end
      if val then add(val, { name = not train and run.dir or nil, dots = #val <= 60 }) end
    end
    page.put_plot(put, { title = w.name(name), x = "step", from = 1, to = last, series = series,
      may_be_wide = name:find "loss$" ~= nil })
  end
  local series = {}
  for i, run in ipairs(runs) do
    if #run.rate > 0 then
      series[#series + 1] = { name = run.dir, points = page.points(run.rate), colour = i - 1, bare = true }
    end
  end
  if #series > 0 then
    page.put_plot(put, { title = "steps/s, without the pauses of validations", x = "step", zero = true, from = 1, to = last,
      series = series })
  end
  put "</div>"
end

function compare.page(runs)
  local titles = {}
  for i, run in ipairs(runs) do titles[i] = run.dir end
  return page.whole(table.concat(titles, ", "), function(put)
    put("<h1>%d runs</h1>", #runs)
    put "<h2>What differs</h2>"
    local rows = compare.differences(runs)
    if #rows == 0 then put '<p class="dim">Nothing: same script, data, machine and options.</p>' end
    if #rows > 0 then put_rows(put, runs, rows) end
    put "<h2>How they went</h2>"
    put_rows(put, runs, compare.figures(runs))
    put_curves(put, runs)
    put "<h2>Commands</h2>"
    for _, run in ipairs(runs) do
      put("<p>%s<br><code>%s</code></p>", e(run.dir), page.command(run.settings.command or "spcore run " .. run.settings.script))
    end
  end)
end

-- The same as lines of a terminal.
function compare.table(runs)
  local lines, width = { { "" } }, {}
  for i, run in ipairs(runs) do lines[1][i + 1] = run.dir end
  for _, rows in ipairs { compare.differences(runs), compare.figures(runs) } do
    for _, one in ipairs(rows) do
      local line = { one.name }
      for i = 1, #runs do
        line[i + 1] = (one.words and one.words[i] or one.values[i] or "-") .. (one.best == i and " *" or "")
      end
      lines[#lines + 1] = line
    end
  end
  for _, line in ipairs(lines) do
    for k, text in ipairs(line) do width[k] = math.max(width[k] or 0, words.width(text)) end
  end
  for i, line in ipairs(lines) do
    local out = {}
    for k, text in ipairs(line) do out[k] = text .. (" "):rep(width[k] - words.width(text)) end
    lines[i] = table.concat(out, "  "):gsub(" +$", "")
  end
  return table.concat(lines, "\n")
end

return compare
