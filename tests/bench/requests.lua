-- SPDX-License-Identifier: MIT
-- How a graph answers requests that come at given rates, whether answers come or not: latency, how full steps are, what is late.
-- Rates are parts of what it answers in full batches. With --beside another spcore program is asked at the same rates, in turns.
--
-- The graph is the reference classifier, or, with --ms, a stage that sleeps: a device that takes as long for any batch, on a
-- machine that others use, too.
--
--   spcore run tests/bench/requests.lua --device cuda --capture lane --size 256 --beside ../before/spcore
--   spcore run tests/bench/requests.lua --device cpu --batch 8 --lanes 2 --beside ../before/spcore
local sp = require "spcore"

local opt = sp.args({
  batch = { 8, "most requests a step", min = 1, max = 1024 },
  size = { 64, "pixels of a side, a power of two", min = 16, max = 1024 },
  ms = { 0.0, "a stage that sleeps so many milliseconds in place of a classifier, 0: the classifier", min = 0, max = 1e4 },
  lanes = { 1, "of strategy replicas; 1: strategy serialized", min = 1, max = 64 },
  loads = { "20,40,60,80,95,120", "percent of what full batches reach, with commas" },
  seconds = { 4.0, "of requests at each rate", min = 0.1, max = 1000.0 },
  deadline_ms = { 0.0, "of each request; 0: none", min = 0, max = 1e6 },
  turns = { 3, "how often each is measured; the median counts", min = 1, max = 100 },
  beside = { "", "another spcore program, asked at the same rates" },
  rates = { "", "requests a second, with commas: prints a line of numbers for each, for the other program" },
}, {
  doc = "Prints latencies and how full steps are at several rates of requests.",
  without = { "by_hand", "run", "strategy", "training", "memory_limit", "trace" },
})

local function numbers(text)
  local list = {}
  for word in text:gmatch "[^,%s]+" do list[#list + 1] = assert(tonumber(word), "numbers with commas are wanted") end
  return list
end

local own = { "device", "precision", "capture", "threads", "workers", "pinned", "run_ahead", "prefetch" }
local report <close> = setmetatable({ path = os.tmpname() }, { __close = function(t) os.remove(t.path) end })

-- rate nil: as many as are answered. Each client pauses a few milliseconds before a request, so that many make the rate.
local function measure(rate)
  local clients = rate and math.max(8, math.min(512, math.ceil(rate * 0.005))) or 4 * opt.batch * opt.lanes
  local n = math.max(200, math.floor((rate or 2000) * opt.seconds))
  local settings = { seed = opt.seed }
  for _, key in ipairs(own) do settings[key] = opt[key] end
  if opt.lanes > 1 then
    settings.run_ahead, settings.prefetch = math.max(opt.lanes, opt.run_ahead), math.max(2 * opt.lanes, opt.prefetch)
  end
  local row = {}
  do
    local g <close> = sp.graph(settings)
    local data = g.request_load {
      size = opt.size, batch = opt.batch, clients = clients, open = rate and 64 or 1, requests = n, report = report.path,
      pause_us = rate and math.floor(clients / rate * 1e6) or 0, queue = 65536, seed = opt.seed,
      deadline_us = opt.deadline_ms > 0 and math.ceil(opt.deadline_ms * 1000) or nil,
    }
    local image = g.to_float { data.image, scale = true }
    local net = opt.ms == 0 and g.classifier { image, model = "plain", classes = 10, frozen = true }
    local results = net and net.logits or g.sleep { image, ms = opt.ms, frozen = true }
    g:results { results }
    g:strategy { { name = "pool", stages = g:stages(), replicas = opt.lanes } }
    local answered, begun = 0, nil
    for _, m in g:steps() do
      answered = answered + m.n
      if not begun and answered >= n // 10 then
        begun = sp.now()
        g:request_stats { clear = true }
      end
    end
    if sp.interrupted() then sp.exit(130) end
    local s = g:request_stats()
    row.rate, row.fill = s.done / (sp.now() - begun), (s.done + s.late) / s.steps / opt.batch
    row.p50, row.p99, row.late = s.took.p50 or 0, s.took.p99 or 0, s.late / math.max(1, s.done + s.late)
    row.device = g:device()
  end
  local r = sp.json.read(report.path)
  for _, key in ipairs { "twice", "never", "differ", "failed" } do
    if r[key] ~= 0 then sp.fail(("%d requests were '%s'"):format(r[key], key)) end
  end
  return row
end

local line = "%.17g %.17g %.17g %.17g %.17g"
local keys = { "rate", "p50", "p99", "fill", "late" }
if opt.rates ~= "" then
  for _, rate in ipairs(numbers(opt.rates)) do
    local row = measure(rate)
    print(line:format(row.rate, row.p50, row.p99, row.fill, row.late))
  end
  return
end

-- The same script in the other program, with the same options.
local function beside(rate)
  local words = { opt.beside, "run", debug.getinfo(1, "S").source:sub(2), "--rates", ("%.17g"):format(rate) }
  for _, key in ipairs { "batch", "size", "ms", "lanes", "seconds", "deadline_ms", "seed", table.unpack(own) } do
    if opt[key] ~= nil and opt[key] ~= false then
      words[#words + 1] = "--" .. key:gsub("_", "-") .. (opt[key] == true and "" or " " .. tostring(opt[key]))
    end
  end
  local pipe <close> = assert(io.popen(table.concat(words, " ")))
  local row, text = {}, pipe:read "a"
  for number in text:gmatch "[^%s]+" do row[keys[#row + 1]], row[#row + 1] = tonumber(number), true end
  if not row.late then sp.fail(("%s gave no figures: %s"):format(opt.beside, text)) end
  return row
end

local function median(rows, key)
  local list = {}
  for i, row in ipairs(rows) do list[i] = row[key] end
  table.sort(list)
  return list[(#list + 1) // 2]
end

local full = measure(nil)
print(("device %s, batch %d, %s, lanes %d: %.0f requests/s in full batches; median of %d turns"):format(full.device, opt.batch,
  opt.ms > 0 and ("%g ms a step"):format(opt.ms) or ("%d pixels"):format(opt.size), opt.lanes, full.rate, opt.turns))
print "| load | | requests/s | p50, ms | p99, ms | steps are full | late |"
print "|---|---|---|---|---|---|---|"
for _, load in ipairs(numbers(opt.loads)) do
  local rate, mine, other = full.rate * load / 100, {}, {}
  for turn = 1, opt.turns do
    if opt.beside ~= "" then other[turn] = beside(rate) end
    mine[turn] = measure(rate)
  end
  for _, who in ipairs { { "before", other }, { "after", mine } } do
    local rows = who[2]
    if rows[1] then
      print(("| %g %% | %s | %.0f | %.2f | %.2f | %.0f %% | %.1f %% |"):format(load, opt.beside ~= "" and who[1] or "",
        median(rows, "rate"), 1e3 * median(rows, "p50"), 1e3 * median(rows, "p99"), 100 * median(rows, "fill"),
        100 * median(rows, "late")))
    end
  end
end
