-- SPDX-License-Identifier: MIT
-- What a run's folder says, as one table: of a run that has ended, one that is under way, and one that was cut short.
local json = require "spcore.json"
local metrics_line = require "spcore.metrics_line"
local shape = require "spcore.report.shape"
local sys = require "spcore.sys"

local read = {}

local settings_shape = {
  script = "string", options = { each = { either = { "word", { list = "word" } } } }, ["memory?"] = { each = "integer" },
  ["lanes?"] = { list = { name = "string", delay = "integer", stages = { list = "string" } } },
  ["stages?"] = { list = { name = "string", ["stage?"] = "string", ["frozen?"] = "boolean", ["k?"] = "integer" } },
  ["model?"] = { ["class_names?"] = { list = "string" } }, ["given?"] = { list = "string" }, ["command?"] = "string",
  ["parameters?"] = { total = "integer", trained = "integer", frozen = "integer" }, ["data?"] = "string",
}
local best_shape <const> = { metric = "string", value = "number", step = "integer" }
local stopped_shape = { kind = "string", why = "string", steps = "integer", ["best?"] = best_shape }
local summary_shape = { ["seconds?"] = "number", ["best?"] = best_shape }

-- The numbers of a line of metrics.jsonl, which are most of it: a whole parser takes five times as long.
local function numbers(line)
  local t = {}
  for key, value in line:gmatch '"([%w_.]+)":%s*(-?%d[%d.eE+-]*)' do t[key] = tonumber(value) end
  if line:find '"loss":%s*null' then t.loss = 0 / 0 end
  return t
end

-- Of the step itself, not of its evaluation.
local function line_has_nan(text) return text:gsub('"evals?":%s*%b{}', ""):find '"loss":%s*null' ~= nil end

local function line_of(text, path, n)
  local odd = metrics_line.damage(text)
  if odd then return nil, ("%s, line %d is damaged: %s"):format(path, n, odd) end
  if text:sub(1, 1) == "{" and text:sub(-1) == "}" then
    if not text:find("[{[]", 2) then return numbers(text) end
    local t, why = json.decode(text)
    if type(t) == "table" then
      if line_has_nan(text) then t.loss = 0 / 0 end
      return t
    end
    return nil, ("%s, line %d: %s"):format(path, n, (tostring(why):gsub("^line %d+: ", "")))
  end
  return nil, ("%s, line %d: no step of a run"):format(path, n)
end

-- Calls each(m) with every line. The last one may be cut off, in a run that is under way or was killed.
local function each_step(path, each)
  local file, why = io.open(path)
  if not file then return nil, why end
  local n, bad = 0, nil
  for line in file:lines "L" do
    if bad then break end
    n = n + 1
    local whole = line:sub(-1) == "\n"
    local m, odd = line_of(whole and line:sub(1, -2) or line, path, n)
    if m and math.type(m.step) == "integer" then each(m)
    elseif whole then bad = odd or ("%s, line %d: it has no step"):format(path, n) end
  end
  file:close()
  if bad then return nil, bad end
  return n
end

local known = { step = true, epoch = true, n = true, time = true, updated = true, valid = true, eval = true, batches = true,
  counted = true, top1 = true, topk = true, slowest_rank = true }

local function add(curves, name, step, v)
  if type(v) ~= "number" or type(name) ~= "string" or known[name] then return end
  local c = curves[name]
  if not c then
    c = {}
    curves[name], curves[#curves + 1] = c, name
  end
  c[#c + 1] = { step, v }
end

-- "top-5 accuracy"; nil: it says no more than accuracy, or is 1 in any case.
local function name_of_hits(settings)
  local classes, k = settings.model and settings.model.class_names, nil
  for _, s in ipairs(settings.stages or {}) do k = k or s.k end
  if k and (k == 1 or classes and k >= #classes) then return end
  return ("top-%s accuracy"):format(k or "k")
end

-- Hits of a batch are worth a curve as shares of what was counted.
local function add_hits(curves, m, name)
  if type(m.counted) ~= "number" or m.counted <= 0 then return end
  if type(m.top1) == "number" then add(curves, "accuracy", m.step, m.top1 / m.counted) end
  if name and type(m.topk) == "number" then add(curves, name, m.step, m.topk / m.counted) end
end

local function add_all(curves, m, hits)
  for key, v in pairs(m) do
    if key ~= "accuracy" then add(curves, key, m.step, v) end -- of the same hits
  end
  add_hits(curves, m, hits)
end

-- steps/s between neighbouring lines: { step, steps/s }, the pauses of validations apart. Steps that had begun before a pause
-- come all at once behind it, so they say nothing.
local function speed(times, run_ahead)
  local rate, pauses, all, from = {}, 0, 0, -math.huge
  for i = 2, #times do
    local a, b = times[i - 1], times[i]
    local seconds = b.time - a.time
    if a.eval then from = a.step + run_ahead end
    if seconds > 0 and b.step > a.step then
      all = all + seconds
      if a.eval then pauses = pauses + seconds
      elseif a.step > from then rate[#rate + 1] = { b.step, (b.step - a.step) / seconds } end
    end
  end
  return rate, pauses, all
end

local function quantile(sorted, q)
  if #sorted == 0 then return end
  return sorted[math.max(1, math.min(#sorted, math.ceil(q * #sorted)))]
end

-- The same of windows, at most `most` of them: a step is short beside the clock's and the host's own noise, and where the host was late
-- two results come at once.
local function windows_of(rate, most)
  local each, windows = math.max(1, math.min(3, #rate // 20), math.ceil(#rate / most)), {}
  for i = 1, #rate - each + 1, each do
    local time = 0
    for k = i, i + each - 1 do time = time + 1 / rate[k][2] end
    windows[#windows + 1] = { rate[i + each - 1][1], each / time }
  end
  return windows
end

local function summary_of(windows)
  local sorted = {}
  for i, w in ipairs(windows) do sorted[i] = w[2] end
  table.sort(sorted)
  return { median = quantile(sorted, 0.5), low = quantile(sorted, 0.1), high = quantile(sorted, 0.9) }
end

local function state_of(dir, steps, planned, summary, stopped)
  if summary then return summary.stopped_early and "stopped early" or "finished" end
  if sys.locked(dir .. "/settings.json") then return "under way" end
  if stopped then return "stopped" end
  return planned and steps < planned and "cut short" or "not finished"
end

-- Of several ranks: the one that was the slowest most often, in what share of the steps, by how many ms then, and the share of
-- the time that was waited. nil: there is one.
local function slowest_of(steps)
  local often, ms, share, most = {}, {}, 0, nil
  for _, m in ipairs(steps) do
    local r = m.slowest_rank
    often[r], ms[r], share = (often[r] or 0) + 1, (ms[r] or 0) + m.slowest_ms, share + m.comm_share
    if not most or often[r] > often[most] then most = r end
  end
  return most and { rank = most, often = often[most] / #steps, ms = ms[most] / often[most], comm = share / #steps }
end

-- What the run says at its end, while it writes which nothing is to be said; nil: nothing, or with a line: what is wrong.
local function summary_at(dir)
  local path = dir .. "/summary.json"
  if not sys.there(path) then return end
  local summary, why = shape.read(path, summary_shape)
  return summary, not summary and not sys.locked(dir .. "/settings.json") and why or nil
end

-- A validation after the last step is in summary.json alone.
local function add_last(run)
  local e, s = run.summary and run.summary.evaluation, run.summary
  if type(e) ~= "table" or math.type(s.steps) ~= "integer" then return end
  local is_new = false
  for _, name in ipairs(run.validations) do
    local c = run.validations[name]
    is_new = is_new or c[#c][1] < s.steps - 1
  end
  if not is_new and run.validations[1] then return end
  local copy = {}
  for k, v in pairs(e) do copy[k] = v end
  copy.step = s.steps - 1
  add_all(run.validations, copy, name_of_hits(run.settings))
  for _, name in ipairs { "counts", "class_scores", "columns", "depth_counts" } do
    if type(e[name]) == "table" then run.evaluation = e end
  end
end

-- read.run(dir) -> the table, or nil and a line.
function read.run(dir)
  dir = dir:gsub("(.)/+$", "%1")
  local path = dir .. "/settings.json"
  if not sys.there(path) then return nil, path .. ": No such file or directory: is it the folder of a run?" end
  local settings, why = shape.read(path, settings_shape)
  if not settings then return nil, why .. "; it does not describe a run" end
  local summary, odd_end = summary_at(dir)
  if odd_end then return nil, odd_end end
  local run = { dir = dir, settings = settings, summary = summary, curves = {}, validations = {}, images = 0 }
  local times, last, slowest = {}, nil, {}
  local hits = name_of_hits(settings)
  local n, odd = each_step(dir .. "/metrics.jsonl", function(m)
    add_all(run.curves, m, hits)
    if type(m.eval) == "table" then
      m.eval.step = m.step
      add_all(run.validations, m.eval, hits)
      run.evaluation = m.eval
    end
    if type(m.time) == "number" then times[#times + 1] = { step = m.step, time = m.time, eval = m.eval ~= nil } end
    if math.type(m.slowest_rank) == "integer" and type(m.slowest_ms) == "number" and type(m.comm_share) == "number" then
      slowest[#slowest + 1] = m
    end
    run.images = run.images + (type(m.n) == "number" and m.n or 0)
    last = m
  end)
  if not n then return nil, odd end
  local ahead = type(settings.run_ahead) == "number" and settings.run_ahead or 0
  local rate, pauses, seconds = speed(times, ahead)
  local options = settings.options
  run.steps, run.planned = last and last.step + 1 or 0, math.type(options.steps) == "integer" and options.steps or nil
  run.rate, run.pauses, run.seconds = windows_of(rate, 100), pauses, seconds
  run.speed, run.slowest = summary_of(run.rate), slowest_of(slowest)
  run.batch = math.type(options.batch) == "integer" and options.batch or nil
  run.stopped = not summary and sys.there(dir .. "/stopped.json") and shape.read(dir .. "/stopped.json", stopped_shape) or nil
  run.best = (summary or run.stopped or {}).best
  run.state = state_of(dir, run.steps, run.planned, run.summary, run.stopped)
  add_last(run)
  run.resumed = 0
  local again = io.open(dir .. "/resumed.jsonl")
  for _ in again and again:lines() or function() end do run.resumed = run.resumed + 1 end
  if again then again:close() end
  return run
end

return read
