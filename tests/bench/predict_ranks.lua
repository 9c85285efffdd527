-- SPDX-License-Identifier: MIT
-- Predicts the step of the reference workloads on several ranks: what is sent, how long that takes, how much of it is exposed.
-- Prints the tables of docs/scale-out.md, which says what the symbols mean; tests/cli/predict_ranks.sh compares them.
--
--   lua tests/bench/predict_ranks.lua [bytes|links|gpus|cpus] [NAME=VALUE ...]      e.g. gpus net=25 net_latency=20
--   lua tests/bench/predict_ranks.lua sent size=32 batch=2 ranks=2        bytes that a rank sends in a step
--
-- Under `spcore run` as well: spcore run tests/bench/predict_ranks.lua gpus net=25. Times are us, sizes bytes, rates bytes a us.

-- ---- what was measured, and what is assumed ----
local given = {
  -- NCCL 2.28.3 on two H200s, one process a GPU, in a CUDA graph, windows: bytes of the whole -> us
  gather = { { 179e6, 398 }, { 33.6e6, 81 }, { 2.8e6, 14 }, { 0.26e6, 7.9 } },
  both = { { 179e6, 904 }, { 33.6e6, 183 }, { 2.8e6, 32 }, { 0.26e6, 17 } }, -- all-to-all, tree sum, all-gather
  -- NCCL's own all-reduce of 179 MB on 2, 4 and 8 of them, default buffers
  all_reduce = { [2] = 620, [4] = 820, [8] = 930 },
  -- steps/s of spcore on one H200, docs/measurements.md
  rate = { seg8 = 1487.0, seg32 = 633.7, cls32 = 1279.6 },
}
local set = {
  memory = 4.26e6, -- B/us: 4.26 TB/s of an H200, the floor of tests/bench/gpu.sh
  flops = 413e6, -- a us: 413 TFLOP/s of its products, the same
  host = 8, -- GPUs of a host; assumed, as is all of the network:
  net = 40, -- GB/s of each GPU's own way out of the host
  net_latency = 10, -- us a call, each time that the number of hosts doubles
  bucket = 16 * 1024 * 1024,
  wire = 4, -- bytes of an element of a sum as it is sent; 2 with --wire bf16
  size = 256, batch = 8, ranks = 2, -- of `sent` alone
}
-- Two processors, serialized, one thread a rank, 64 x 64, batch 8, communicator `local`: docs/scale-out.md says how.
local cpu = {
  processors = 2,
  bucket = 8 * 1024 * 1024, -- of those runs
  scatter = {
    [2] = { { 262144, 27.6 }, { 2.8e6, 369.3 }, { 33.6e6, 5805.5 } },
    [4] = { { 262144, 34.7 }, { 2.8e6, 418.7 }, { 33.6e6, 8522.0 } },
    [8] = { { 262144, 59.7 }, { 2.8e6, 1015.9 }, { 33.6e6, 16361.9 } },
  },
  gather = {
    [2] = { { 262144, 27.0 }, { 2.8e6, 194.0 }, { 33.6e6, 2511.3 } },
    [4] = { { 262144, 28.6 }, { 2.8e6, 163.8 }, { 33.6e6, 3964.0 } },
    [8] = { { 262144, 38.6 }, { 2.8e6, 294.3 }, { 33.6e6, 6014.7 } },
  },
  sums = 7166, -- B/us on two ranks
  slower = { seg8 = 1.03, cls8 = 1.11 }, -- two jobs of one rank at once, each, than one alone
  apply = { seg8 = 3250, cls8 = 2900 }, -- us of a step of eight shards on one rank
  measured = { -- steps/s by ranks: V = 8 reduced, V = R reduced, V = 8 with factors
    seg8 = { strong = { [1] = 10.31, [2] = 17.45, [4] = 15.60, [8] = 13.64 }, weak = { [2] = 63.17, [4] = 29.90, [8] = 13.44 },
      factors = { [1] = 12.16, [2] = 21.01, [4] = 19.65, [8] = 15.97 } },
    cls8 = { strong = { [1] = 15.97, [2] = 25.26, [4] = 22.16, [8] = 18.41 }, weak = { [2] = 86.43, [4] = 42.27, [8] = 18.76 },
      factors = { [1] = 22.09, [2] = 33.83, [4] = 30.36, [8] = 24.07 } },
  },
}

-- ---- layers: rows a sample, k, n, and what else is trained ----
local function seg_layers(size)
  local out, rows, c = {}, 1, 16 * size
  while c > 16 do
    out[#out + 1] = { rows = rows, k = c, n = 2 * c, bias = c // 2 }
    rows, c = rows * 4, c // 2
  end
  out[#out + 1] = { rows = math.huge, k = 9 * 16, n = 10, bias = 10 } -- a convolution of 3 x 3: its gradient is reduced
  return out
end

local function cls_layers(size)
  local out, side, c = { { rows = math.huge, k = 3, n = 16, bias = 16 } }, size, 16
  while side > 1 do
    side = side // 2
    out[#out + 1] = { rows = side * side, k = 4 * c, n = 2 * c, bias = 2 * c }
    c = 2 * c
  end
  out[#out + 1] = { rows = 1, k = c, n = 10, bias = 10 }
  return out
end

local function workload(name, batch, size)
  size = size or 256
  return { layers = name == "seg" and seg_layers(size) or cls_layers(size), batch = batch, name = name .. batch }
end

-- ---- what is sent ----
-- Factors where rows (k + n) < k n, by the rows of the global batch: at most half of what a reduction sends.
local function is_factor(w, layer, shards)
  local rows = layer.rows * w.batch * shards
  return rows * (layer.k + layer.n) < layer.k * layer.n
end

local function rounded(n) return math.ceil(n / 256) * 256 end

-- Buckets of what is reduced, from the end of the network, filled as core/params/buckets.c does; and the factors, of which the
-- gradient of the bias is made as well: lists of bytes of the whole, in the order in which backward completes them.
local function pieces(w, ranks, shards, factors, most)
  local buckets, gathered, open = {}, {}, 0
  local function add(bytes)
    if open > 0 and open + bytes > (most or set.bucket) then
      buckets[#buckets + 1], open = open, 0
    end
    open = open + bytes
  end
  for i = #w.layers, 1, -1 do
    local l = w.layers[i]
    if factors and is_factor(w, l, shards) then
      local rows = l.rows * w.batch * shards
      gathered[#gathered + 1] = { bytes = 4 * rows * l.k, layer = l, early = true } -- known after forward
      gathered[#gathered + 1] = { bytes = 4 * rows * l.n, layer = l }
    else
      add(rounded(4 * l.bias))
      add(rounded(4 * l.k * l.n))
    end
  end
  buckets[#buckets + 1] = open
  for k, bytes in ipairs(buckets) do buckets[k] = rounded(bytes / ranks) * ranks * set.wire // 4 end
  return buckets, gathered
end

local function sent(w, ranks, shards, factors)
  local buckets, gathered = pieces(w, ranks, shards, factors)
  local all = 0
  for _, b in ipairs(buckets) do all = all + 2 * b end
  for _, f in ipairs(gathered) do all = all + f.bytes end
  return all * (ranks - 1) / ranks, #buckets, #gathered // 2
end

-- ---- how long a call takes: T = a + n / b, n: bytes that a rank gets from others ----
-- Least squares of the relative errors, a not below 0 -> a, b, largest error
local function fit(points, ranks)
  local xx, xy, yy, x, y, worst = 0, 0, 0, 0, 0, 0
  local part = (ranks - 1) / ranks
  for _, p in ipairs(points) do
    local u, v = 1 / p[2], part * p[1] / p[2]
    xx, xy, yy, x, y = xx + u * u, xy + u * v, yy + v * v, x + u, y + v
  end
  local det = xx * yy - xy * xy
  local a, slope = (x * yy - y * xy) / det, (y * xx - x * xy) / det
  if a < 0 then
    a, slope = 0, y / yy
  end
  for _, p in ipairs(points) do worst = math.max(worst, math.abs((a + slope * part * p[1]) / p[2] - 1)) end
  return { a = a, b = 1 / slope, worst = worst }
end

local scatter_points = {}
for i, p in ipairs(given.both) do scatter_points[i] = { p[1], p[2] - given.gather[i][2] } end
local links = { gather = fit(given.gather, 2), scatter = fit(scatter_points, 2) } -- scatter: with the sum behind it

-- On hosts of set.host GPUs. What is gathered comes into a host once, over the ways of all of its GPUs; what is sent to all
-- takes each GPU's own way.
local function time(kind, bytes, ranks)
  local l, hosts = links[kind], math.ceil(ranks / set.host)
  local inside, outside = bytes * (ranks - 1) / ranks / l.b, bytes * (hosts - 1) / hosts / (set.net * 1000)
  if kind == "gather" then outside = outside / set.host end
  return l.a + set.net_latency * math.log(hosts, 2) + math.max(inside, outside)
end

-- Beyond the step of one GPU: gradients that are written and read again instead of added to the weights at once; products over
-- the rows of all ranks, where they take longer than reading and writing the weights.
local function more_work(w, shards, factors)
  local us = 0
  for _, l in ipairs(w.layers) do
    if factors and is_factor(w, l, shards) then
      us = us + math.max(0, 2 * l.rows * w.batch * shards * l.k * l.n / set.flops - 8 * l.k * l.n / set.memory)
    else
      us = us + 8 * l.k * l.n / set.memory
    end
  end
  return us
end

-- -> us of a step where nothing is hidden, and where all but the last call is, as far as the lane has the time for it
local function step(w, ranks, factors)
  local buckets, gathered = pieces(w, ranks, ranks, factors)
  local all, last = time("gather", 16 * ranks, ranks), 0 -- the totals
  for _, b in ipairs(buckets) do
    last = time("scatter", b, ranks) + time("gather", b, ranks)
    all = all + last
  end
  for _, f in ipairs(gathered) do
    local us = time("gather", f.bytes, ranks)
    all = all + us
    if not f.early and f.layer == w.layers[1] then last = us end
  end
  local compute = 1e6 / given.rate[w.name] + more_work(w, ranks, factors)
  return compute + all, math.max(compute + last, all)
end

-- ---- tables ----
local tables = {}
local workloads = { workload("seg", 8), workload("seg", 32), workload("cls", 32) }
local function row(...) print("| " .. table.concat({ ... }, " | ") .. " |") end
local function head(...)
  row(...)
  print(("|---"):rep(select("#", ...)) .. "|")
end
local function title(w) return ("%s, batch %d"):format(w.name:match "%a+", w.batch) end

function tables.bytes()
  head("MB that a GPU sends in a step", "2 GPUs", "4", "8", "16", "128")
  for _, w in ipairs(workloads) do
    for _, factors in ipairs { false, true } do
      local cells = {}
      for i, ranks in ipairs { 2, 4, 8, 16, 128 } do
        local bytes, _, layers = sent(w, ranks, ranks, factors)
        cells[i] = ("%.1f"):format(bytes * 1e-6) .. (factors and (" (%d)"):format(layers) or "")
      end
      row(title(w) .. (factors and ", factors (layers)" or ", all reduced"), table.unpack(cells))
    end
  end
end

-- To the byte, beside the totals: 16 for each other rank.
function tables.sent()
  for _, name in ipairs { "seg", "cls" } do
    local w = workload(name, set.batch, set.size)
    for _, factors in ipairs { false, true } do
      print(("%s %s %d"):format(name, factors and "factors" or "reduced", sent(w, set.ranks, set.ranks, factors) // 1
        + 16 * (set.ranks - 1)))
    end
  end
end

function tables.links()
  head("call", "a, us", "b, GB/s", "the line is off by at most")
  for _, kind in ipairs { "gather", "scatter" } do
    local l = links[kind]
    row(kind == "gather" and "all-gather" or "all-to-all with the sum behind it", ("%.1f"):format(l.a),
      ("%.0f"):format(l.b * 1e-3), ("%.0f %%"):format(100 * l.worst))
  end
  print()
  head("all-reduce of 179 MB by NCCL", "measured, us", "by the bandwidth of 2 GPUs", "off")
  for _, ranks in ipairs { 4, 8 } do
    local us = given.all_reduce[2] * 2 * (ranks - 1) / ranks
    row(("%d GPUs"):format(ranks), ("%d"):format(given.all_reduce[ranks]), ("%.0f"):format(us),
      ("%+.0f %%"):format(100 * (us / given.all_reduce[ranks] - 1)))
  end
end

function tables.gpus()
  head("**prediction**: ms a step, % of one GPU's speed", "2 GPUs", "4", "8", "2 hosts, 16", "16 hosts, 128")
  for _, w in ipairs(workloads) do
    for _, factors in ipairs { false, true } do
      local cells, alone = {}, 1e6 / given.rate[w.name]
      for i, ranks in ipairs { 2, 4, 8, 2 * set.host, 16 * set.host } do
        local none, most = step(w, ranks, factors)
        cells[i] = ("%.2f .. %.2f, %.0f .. %.0f %%"):format(none * 1e-3, most * 1e-3, 100 * alone / none, 100 * alone / most)
      end
      row(title(w) .. (factors and ", factors" or ", all reduced"), table.unpack(cells))
    end
  end
end

-- R ranks of P processors: a shard takes as long as 1 / V of a step of one rank, times what two jobs cost each other, and ranks
-- take turns where there are more of them than processors. Nothing is hidden: a rank that waits leaves its processor to others,
-- whose shards are the work that is counted already.
local function cpu_step(w, ranks, way)
  local one, turns = 1e6 / cpu.measured[w.name][way == "weak" and "strong" or way][1], math.max(1, ranks / cpu.processors)
  local shards, factors = way == "weak" and ranks or 8, way == "factors"
  local apply = factors and cpu.apply[w.name] or 0
  local compute = ((one - apply) / 8 * shards / ranks + apply) * turns * cpu.slower[w.name]
  local scatter, gather = fit(cpu.scatter[ranks], ranks), fit(cpu.gather[ranks], ranks)
  local moves, sums, part = gather.a, 0, (ranks - 1) / ranks
  local buckets, gathered = pieces(w, ranks, shards, factors, cpu.bucket)
  for _, bytes in ipairs(buckets) do
    moves = moves + scatter.a + gather.a + part * bytes * (1 / scatter.b + 1 / gather.b)
    sums = sums + turns * bytes / cpu.sums
  end
  for _, f in ipairs(gathered) do moves = moves + gather.a + part * f.bytes / gather.b end
  return compute, moves, sums, shards
end

local ways = { { "strong", "reduced" }, { "weak", "reduced" }, { "factors", "factors" } }

function tables.cpus()
  head("two processors", "V", "compute", "moves", "sums", "**predicted**, ms a step", "measured", "off")
  for _, w in ipairs { workload("seg", 8, 64), workload("cls", 8, 64) } do
    for _, way in ipairs(ways) do
      for _, ranks in ipairs((cpu.measured[w.name] or {})[way[1]] and { 2, 4, 8 } or {}) do
        local compute, moves, sums, shards = cpu_step(w, ranks, way[1])
        local all, was = compute + moves + sums, 1e6 / cpu.measured[w.name][way[1]][ranks]
        local function ms(us) return ("%.1f"):format(us * 1e-3) end
        row(("%s, %s, %d ranks"):format(w.name:match "%a+", way[2], ranks), tostring(shards), ms(compute), ms(moves), ms(sums),
          ms(all), ms(was), ("%+.0f %%"):format(100 * (all / was - 1)))
      end
    end
  end
end

-- ---- which of them ----
local wanted = {}
for _, word in ipairs(arg or require "spcore".args({}, { rest = "TABLE..." }).rest) do
  local name, value = word:match "^([%a_]+)=([%d.]+)$"
  if name and set[name] then
    set[name] = tonumber(value)
  elseif tables[word] then
    wanted[#wanted + 1] = word
  else
    io.stderr:write(("predict_ranks.lua: '%s' is neither a table (bytes, links, gpus, cpus, sent) nor a value (net=25)\n")
      :format(word))
    os.exit(2)
  end
end
if #wanted == 0 then wanted = { "bytes", "links", "gpus", "cpus" } end
for i, name in ipairs(wanted) do
  if i > 1 then print() end
  tables[name]()
end
