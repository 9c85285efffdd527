-- SPDX-License-Identifier: MIT
-- What `spcore bench` makes of runs: the rate of one, the median and spread of several, a table.
local core = require "spcore.core"
local json = require "spcore.json"
local words = require "spcore.words"

local bench = {}

function bench.read(path)
  local file = io.open(path, "rb")
  local text = file and file:read "a" or ""
  if file then file:close() end
  return text
end

function bench.last_line(text)
  local last = ""
  for line in text:gmatch "[^\n]+" do
    if line:find "%S" then last = line end
  end
  return (last:gsub("^spcore: ", ""))
end

-- "train.py" of "python3 -u train.py --x"; else the program
function bench.name_of(command)
  local name = command:match "(%S+%.py)%f[%s\0]" or command:match "%S+"
  return name:match "[^/]*$"
end

function bench.title(row) return row.name .. (row.batch and (" batch %d"):format(row.batch) or "") end

local function median(list)
  local sorted = table.move(list, 1, #list, 1, {})
  table.sort(sorted)
  local half = #sorted // 2
  return #sorted % 2 == 1 and sorted[half + 1] or (sorted[half] + sorted[half + 1]) / 2, sorted[1], sorted[#sorted]
end

-- ---- one run ----

local MOST <const>, FEWEST <const> = 10, 3 -- windows of a run
local NARROWEST <const> = 3 -- steps of a window

-- How many of the last steps come back in a burst, when none follow for which lanes and host would have to wait.
local function in_flight(dir)
  local settings, delay = json.read(dir .. "/settings.json"), 0
  if type(settings) ~= "table" then return 0 end -- a script that writes its times itself
  for _, lane in ipairs(settings.lanes or {}) do delay = math.max(delay, lane.delay or 0) end
  return (settings.run_ahead or 0) + delay
end

-- By the times in metrics.jsonl at which steps were complete, the first how.skip left out (0: a tenth, at least 3) and those
-- that are in flight at the end: the median of at most ten windows of equal length, how.mean: the mean over all of them
-- -> { rate =, images = a step } | nil, why, the least number of steps where these are too few
function bench.of_run(dir, how)
  local times, images = {}, 0
  for line in bench.read(dir .. "/metrics.jsonl"):gmatch "[^\n]+" do
    local m = json.decode(line) or {}
    if type(m.time) ~= "number" then return nil, "metrics.jsonl: a line without a time" end
    times[#times + 1], images = m.time, math.max(images, m.n or 0)
  end
  local function skipped(n) return how.skip > 0 and how.skip or math.max(3, n // 10) end
  local tail, skip = in_flight(dir), skipped(#times)
  local narrowest, last, least = math.max(NARROWEST, tail), #times - tail, #times
  if (last - skip) // narrowest < FEWEST then
    while least - tail - skipped(least) < FEWEST * narrowest do least = least + 1 end
    return nil, ("%d step%s too few: at least %d are wanted, of which the first %d%s are left out"):format(#times,
      #times == 1 and " is" or "s are", least, skipped(least), tail > 0 and " and the last " .. tail or ""), least
  end
  local width, rates = (last - skip) // math.min(MOST, (last - skip) // narrowest), {}
  for at = skip, last - width, width do
    local took = times[at + width] - times[at]
    if took > 0 then rates[#rates + 1] = width / took end
  end
  if #rates == 0 then return nil, "its steps took no time" end
  return { rate = how.mean and (last - skip) / (times[last] - times[skip]) or median(rates), images = images }
end

-- The last "N steps/s" or "steps_per_s": N that a twin prints.
function bench.of_text(text)
  local rate
  for line in text:gmatch "[^\n]+" do
    rate = tonumber(line:match '"steps_per_s": ?([%d.eE+-]+)' or line:match "([%d.]+) steps/s") or rate
  end
  if not rate then return nil, 'it prints no line with "N steps/s" or "steps_per_s": N' end
  return { rate = rate }
end

-- ---- all of them ----

-- Rows with figures: a row's gain is over the first strategy at the same batch size.
function bench.result(rows, about)
  local first = {}
  about.spcore, about.date, about.rows = core.env().version, os.date "!%Y-%m-%dT%H:%M:%SZ", json.list {}
  for _, row in ipairs(rows) do
    local r = { name = row.name, batch = row.batch or nil, runs = json.list {}, failed = #row.failures, why = row.failures[1] }
    local images = row.batch or nil -- of a step, where a run does not say: a twin
    for i, run in ipairs(row.runs) do
      r.runs[i] = run.rate
      r.batch, images = r.batch or run.images, run.images or images
    end
    if #r.runs > 0 then
      r.steps_per_second, r.least, r.most = median(r.runs)
      r.images_per_second = images and r.steps_per_second * images
      local base = first[row.batch]
      local compared = about.turns > 1 and base and base.steps_per_second -- of one turn the noise is not known
      if compared then
        r.gain_percent = 100 * (r.steps_per_second / compared - 1)
        r.within_noise = r.least <= base.most and base.least <= r.most or nil
      end
    end
    first[row.batch] = first[row.batch] or r
    table.insert(about.rows, r)
  end
  return about
end

local function figure(v)
  if not v then return "" end
  return (v < 100 and "%.2f" or v < 1000 and "%.1f" or "%.0f"):format(v)
end

local heads = { "batch", "strategy", "steps/s", "least", "most", "images/s", "gain" }

function bench.table(result)
  local lines, width = { heads }, {}
  for _, r in ipairs(result.rows) do
    lines[#lines + 1] = {
      tostring(r.batch or ""), r.name, r.steps_per_second and figure(r.steps_per_second) or "-", figure(r.least), figure(r.most),
      figure(r.images_per_second), r.gain_percent and (r.within_noise and "(%+.1f %%)" or "%+.1f %%"):format(r.gain_percent) or "",
      words = r.failed > 0 and ("%d of %d failed: %s"):format(r.failed, r.failed + #r.runs, r.why) or #r.runs == 0 and "not run",
    }
  end
  for _, line in ipairs(lines) do
    for k, text in ipairs(line) do width[k] = math.max(width[k] or 0, words.width(text)) end
  end
  for i, line in ipairs(lines) do
    local out = {}
    for k, text in ipairs(line) do
      local pad = (" "):rep(width[k] - words.width(text))
      out[k] = k == 2 and text .. pad or pad .. text
    end
    lines[i] = (table.concat(out, "  ") .. (line.words and "  " .. line.words or "")):gsub(" +$", "")
  end
  lines[#lines + 1] = ("%s; a run's steps/s: %s"):format(result.turns > 1 and ("medians of %d turns"):format(result.turns)
    or "one turn: noise unknown, so no gain is printed (--repeat 3)",
    result.mean and "the mean over its steps, as the other program's" or "the median of at most ten parts of its steps")
  for _, r in ipairs(result.rows) do
    if r.within_noise then
      lines[#lines + 1] = "(...): the runs of both overlap, so the gain may be noise; more turns tell (--repeat)"
      break
    end
  end
  return table.concat(lines, "\n")
end

local function cell(v)
  if v == nil then return "" end
  local text = type(v) == "string" and v or math.type(v) == "integer" and ("%d"):format(v) or ("%.6g"):format(v)
  return text:find '[",\n]' and '"' .. text:gsub('"', '""') .. '"' or text
end

local columns = { "batch", "name", "steps_per_second", "least", "most", "images_per_second", "gain_percent", "failed", "why" }

function bench.csv(result)
  local lines = { table.concat(columns, ",") }
  for _, r in ipairs(result.rows) do
    local cells = {}
    for k, name in ipairs(columns) do cells[k] = cell(r[name]) end
    lines[#lines + 1] = table.concat(cells, ",")
  end
  return table.concat(lines, "\n") .. "\n"
end

return bench
