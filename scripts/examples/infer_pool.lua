-- SPDX-License-Identifier: MIT
-- A classifier that serves: requests of many client threads, one image each, on a pool of lanes (strategy replicas: step t on
-- lane t mod n). Prints requests a second and their latency for each number of lanes, and fails where a request is not
-- answered exactly once, or with other bits than the same image anywhere else.
local sp = require "spcore"

local opt = sp.args({
  batch = { 1, "most requests a step", min = 1, max = 1024 },
  size = { 64, "pixels of a side, a power of two; 256 is the reference classifier", min = 16, max = 1024 },
  classes = { 10, "classes", min = 2, max = 65536 },
  lanes = { "1,2,4,8", "numbers of lanes, with commas" },
  clients = { 0, "client threads, each with one request open", default = "twice the lanes and batch", min = 0, max = 1024 },
  wait_us = { 0, "microseconds that the oldest request waits for a full batch", min = 0, max = 1000000 },
  requests = { 2000, "timed requests", min = 64, max = 100000000 },
  turns = { 3, "how often each is measured; the median counts", min = 1, max = 100 },
}, {
  doc = "Prints requests a second and latencies of a pool of lanes.",
  without = { "by_hand", "run", "strategy", "training", "memory_limit", "trace" },
})

local pool = {}
for word in (opt.lanes .. ","):gmatch "([^,]*)," do
  local n = math.tointeger(tonumber(word))
  if not n or n < 1 or n > 64 then sp.usage("--lanes: '%s': numbers from 1 to 64, such as 1,2,4, are wanted", opt.lanes) end
  pool[#pool + 1] = n
end

local report <close> = setmetatable({ path = os.tmpname() }, { __close = function(t) os.remove(t.path) end })

-- What the clients found, once the graph is closed.
local function check(n)
  local r, why = sp.json.read(report.path)
  if not r then sp.fail(why) end
  for _, key in ipairs { "twice", "never", "differ", "failed", "late" } do
    if r[key] ~= 0 then sp.fail(("%d lanes: of %d requests %d were '%s'"):format(n, r.accepted, r[key], key)) end
  end
  return r.bits
end

local function measure(n)
  local clients = opt.clients > 0 and opt.clients or math.min(2 * n * opt.batch, 1024)
  -- the timed ones are between others that fill the pool and empty it
  local around = math.max(64, 20 * n * opt.batch, 4 * clients)
  local own = { seed = opt.seed, run_ahead = math.max(n, opt.run_ahead), prefetch = math.max(2 * n, opt.prefetch) }
  for _, key in ipairs { "device", "precision", "capture", "threads", "workers", "pinned" } do own[key] = opt[key] end
  local row = { clients = clients }
  do
    local g <close> = sp.graph(own)
    local data = g.request_load {
      size = opt.size, batch = opt.batch, wait_us = opt.wait_us, clients = clients, requests = opt.requests + 2 * around,
      report = report.path, queue = math.max(256, 2 * clients),
    }
    local net = g.classifier {
      g.to_float { data.image, scale = true }, model = "plain", classes = opt.classes, frozen = true,
    }
    g:results { net.logits }
    g:strategy { { name = "pool", stages = g:stages(), replicas = n } }
    local answered, begun, first = 0, nil, nil
    for _, m in g:steps() do
      answered = answered + m.n
      if not begun and answered >= around then
        begun, first = sp.now(), answered
        g:request_stats { clear = true }
      elseif begun and not row.rate and answered - first >= opt.requests then
        local s = g:request_stats()
        row.rate, row.p50, row.p99 = (answered - first) / (sp.now() - begun), s.took.p50, s.took.p99
      end
    end
    if sp.interrupted() then sp.exit(130) end -- the loop has ended early
    row.device = g:device()
  end
  row.bits = check(n)
  return row
end

local function median(rows, key)
  local list = {}
  for i, row in ipairs(rows) do list[i] = row[key] end
  table.sort(list)
  return list[(#list + 1) // 2], list[1], list[#list]
end

local rows, bits = {}, nil
for _ = 1, opt.turns do
  for i, n in ipairs(pool) do
    local row = measure(n)
    bits = bits or row.bits
    if row.bits ~= bits then sp.fail(("%d lanes give other bits than %d: %s and %s"):format(n, pool[1], row.bits, bits)) end
    rows[i] = rows[i] or {}
    table.insert(rows[i], row)
  end
end
print(("device %s, batch %d, %d pixels, capture %s, median of %d turns (least .. most); latency in ms"):format(
  rows[1][1].device, opt.batch, opt.size, opt.capture, opt.turns))
local first
for i, n in ipairs(pool) do
  local rate, least, most = median(rows[i], "rate")
  first = first or rate
  print(("  %2d lanes %3d clients %8.0f requests/s (%.0f .. %.0f), %5.2f times the first, p50 %.3f, p99 %.3f"):format(n,
    rows[i][1].clients, rate, least, most, rate / first, 1e3 * median(rows[i], "p50"), 1e3 * median(rows[i], "p99")))
end
