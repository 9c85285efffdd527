-- SPDX-License-Identifier: MIT
-- The folder of a run: settings.json, metrics.jsonl a line a step, weights.safetensors at the end and at each run:save(),
-- checksums.jsonl where they are asked for.
local accuracy = require "spcore.accuracy"
local core = require "spcore.core"
local files = require "spcore.files"
local json = require "spcore.json"
local mean_iou = require "spcore.iou"
local progress = require "spcore.progress"
local sys = require "spcore.sys"
local words = require "spcore.words"

local run = {}
run.__index = run
run.__name = "run"

-- ---- the folder ----

-- What a folder holds that holds a run.
local held = { "settings.json", "metrics.jsonl", "weights.safetensors", "checksums.jsonl" }

local function refuse(dir)
  if sys.locked(dir .. "/settings.json") then
    core.fail(("--out: %s is written by another run, which is under way; name another folder"):format(dir))
  end
  core.fail(("--out: %s holds a run already; name another folder or remove it"):format(dir))
end

-- A folder asked for may be there, but must not hold a run: nothing is overwritten.
local function given_folder(path)
  path = path:gsub("(.)/+$", "%1")
  files.make_parents(path)
  local ok, why, kind = sys.mkdir(path)
  if ok then return path end
  if kind ~= "exists" then core.fail("--out: " .. why) end
  if sys.kind(path) ~= "dir" then core.fail(("--out: %s is not a folder"):format(path)) end
  for _, file in ipairs(held) do
    if sys.there(path .. "/" .. file) then refuse(path) end
  end
  return path
end

-- runs/NAME-1, -2 ...: mkdir decides who gets a number when several runs begin at once.
local function next_folder(name)
  local ok, why, kind = sys.mkdir("runs")
  if not ok and kind ~= "exists" then core.fail(why) end
  for i = 1, math.maxinteger do
    local path = ("runs/%s-%d"):format(name, i)
    ok, why, kind = sys.mkdir(path)
    if ok then return path end
    if kind ~= "exists" then core.fail(why) end
  end
end

-- Of two runs that begin at once the one that makes settings.json has the folder. It stays open and locked while the
-- run is under way, which is what the other is told; where a file system knows no locks, it is told less.
local function claim(dir, text)
  local file, why, kind = sys.create(dir .. "/settings.json")
  if kind == "exists" then refuse(dir) end
  if not file then core.fail(why) end
  sys.lock(file)
  local ok
  ok, why = file:write(text, "\n")
  if ok then ok, why = file:flush() end
  if not ok then core.fail(("%s/settings.json: %s"):format(dir, why)) end
  return file
end

-- ---- settings ----

local function options_of(opt)
  local t = {}
  for k, v in pairs(opt) do
    if type(v) ~= "table" or #v > 0 then t[k] = v end
  end
  return t
end

local function settings_of(g, opt, more)
  local env, o, effect = core.env(), g._opt, g._raw:options()
  local stages = {}
  for i, node in ipairs(g:nodes()) do
    stages[i] = { name = node.name, stage = node.stage, frozen = node.frozen }
  end
  local lanes, depth = g:lanes(), 0
  for _, lane in ipairs(lanes) do depth = math.max(depth, lane.delay) end
  local t = {
    spcore = env.version, abi = env.abi, lua = _VERSION, script = env.script, date = os.date("!%Y-%m-%dT%H:%M:%SZ"),
    device = o.device, precision = effect.precision, capture = effect.capture, threads = env.threads, seed = o.seed, run_ahead = o.run_ahead,
    prefetch = o.prefetch, init = o.init, checksums = o.checksums,
    strategy = g:schedule().strategy, depth = depth, lanes = lanes, memory = g:memory(), stages = stages,
    options = options_of(opt),
  }
  for k, v in pairs(more) do t[k] = v end
  return t
end

local function size(bytes)
  local units, i = { "B", "KiB", "MiB", "GiB", "TiB" }, 1
  while bytes >= 1024 and units[i + 1] do
    bytes, i = bytes / 1024, i + 1
  end
  return (i == 1 and "%d %s" or "%.1f %s"):format(bytes, units[i])
end

local function print_header(s, dir)
  progress.print("spcore %s  %s", s.spcore, s.script)
  progress.print("device %s, %s, capture %s  strategy %s (%d lane%s, depth %d)  threads %d  seed %d", s.device,
    s.precision, s.capture, s.strategy, #s.lanes, #s.lanes == 1 and "" or "s", s.depth, s.threads, s.seed)
  progress.print("memory %s: weights %s, gradients %s, optimizer %s, activations %s, saved %s, scratch %s",
    size(s.memory.total), size(s.memory.weights), size(s.memory.gradients),
    size(s.memory.optimizer), size(s.memory.activations), size(s.memory.saved),
    size(s.memory.scratch))
  progress.print("folder %s", dir)
end

local keys = { graph = true, opt = true, steps = true, name = true, settings = true, every = true, weights = true }

-- run{ graph =, opt =, steps =, name =, settings =, weights = false }: makes the folder, writes the settings and prints
-- them. settings: more of them; weights: whether they are saved at the end.
local function new(t)
  words.check_keys("sp.run{}", t, keys)
  if type(t.graph) ~= "table" or not rawget(t.graph, "_raw") then core.fail("sp.run{}: 'graph' is missing") end
  if t.weights ~= false then -- better now than after the training
    local ok, why = core.knows_format "weights.safetensors"
    if not ok then core.fail(why) end
  end
  local opt = t.opt or {}
  local settings = settings_of(t.graph, opt, t.settings or {})
  local name = t.name or core.env().script:match("[^/]*$"):gsub("%.lua$", "")
  local out = rawget(opt, "out") or ""
  local dir = out ~= "" and given_folder(out) or next_folder(name)
  local lock = claim(dir, json.encode(settings, true))
  if settings.checksums then t.graph:checksums(dir .. "/checksums.jsonl") end
  local metrics, why = sys.create(dir .. "/metrics.jsonl")
  if not metrics then core.fail(why) end
  print_header(settings, dir)
  return setmetatable({
    dir = dir, settings = settings, graph = t.graph, lock = lock, metrics = metrics, began = sys.now(), seen = 0,
    unsaved = false, save_weights = t.weights ~= false,
    bar = progress.new { total = t.steps, every = t.every },
  }, run)
end

-- ---- steps ----

-- The running mean IoU of the training batches: counts fade, so that about the last 20 steps are in it.
local function fade_in(self, counts)
  local sums = self.counts
  if not sums then
    sums = {}
    for i = 1, #counts do
      sums[i] = {}
      for j = 1, #counts do sums[i][j] = 0 end
    end
    self.counts = sums
  end
  for i = 1, #counts do
    local row, new_row = sums[i], counts[i]
    for j = 1, #counts do row[j] = 0.95 * row[j] + new_row[j] end
  end
end

-- The same of the correct samples.
local function fade_hits_in(self, m)
  self.right = 0.95 * (self.right or 0) + m.top1
  self.counted = 0.95 * (self.counted or 0) + m.counted
end

-- Metrics as stage `accuracy` gives them.
local function has_hits(m)
  return math.type(m.top1) == "integer" and math.type(m.topk) == "integer" and math.type(m.counted) == "integer"
end

local function write_line(self, t)
  local ok, why = self.metrics:write(json.encode(t), "\n")
  if ok then ok, why = self.metrics:flush() end
  if not ok then core.fail(("%s/metrics.jsonl: %s"):format(self.dir, why)) end
end

-- Writes the step to metrics.jsonl and shows it. Call it for every step.
function run:step(step, m)
  local counts = m.counts
  if type(counts) == "table" then fade_in(self, counts) end
  if has_hits(m) then fade_hits_in(self, m) end
  local eval = m.eval
  if type(eval) == "table" and type(eval.counts) == "table" then
    eval.iou = mean_iou(eval.counts)
    self.iou = eval.iou
  end
  if type(eval) == "table" and has_hits(eval) then
    eval.accuracy = accuracy(eval)
    self.accuracy = eval.accuracy
  end
  local line = {}
  for k, v in pairs(m) do
    if k ~= "counts" then line[k] = v end
  end
  line.time = m.time - self.began
  write_line(self, line)
  self.seen, self.unsaved = self.seen + 1, true
  self.bar:step(function()
    local parts = {}
    if m.loss then parts[1] = ("loss %.4f"):format(m.loss) end
    if self.counts then parts[#parts + 1] = ("IoU %.3f"):format((mean_iou(self.counts))) end
    if self.counted and self.counted > 0 then
      parts[#parts + 1] = ("accuracy %.3f"):format(self.right / self.counted)
    end
    if self.accuracy then parts[#parts + 1] = ("val accuracy %.3f"):format(self.accuracy) end
    if self.iou then parts[#parts + 1] = ("val IoU %.3f"):format(self.iou) end
    return parts
  end)
end

-- Returns nothing, or why the folder does not have the weights. A full disk, or a folder that is gone, does not cost
-- what was learned: then they go into a new temporary folder, whose file is the second value.
local function save(self)
  self.unsaved = false -- also where it fails: __close does not try the same again
  local ok, why = pcall(self.graph.save, self.graph, self.dir .. "/weights.safetensors")
  if ok then return end
  why = tostring(why)
  local dir = sys.mkdtemp()
  local path = dir and dir .. "/weights.safetensors"
  if path and pcall(self.graph.save, self.graph, path) then
    return ("%s; the weights are in %s instead"):format(why, path), path
  end
  if dir then os.remove(dir) end
  return why
end

-- Saves the weights as they are now, as often as it is called: the file is replaced whole, so the last ones are there.
function run:save()
  if self.finished then core.fail "run:save was called after run:finish" end
  local why = save(self)
  if why then error(why, 0) end
end

-- A run in a variable marked <close> that ends without finish(), by an error, still saves what it has learned.
function run:__close(why)
  if self.finished then return end
  self.finished = true
  self.bar:close()
  self.metrics:close()
  if why ~= nil and self.save_weights and self.unsaved then
    local not_saved, elsewhere = save(self)
    if elsewhere then core.log("error", not_saved) end
  end
  self.lock:close()
end

-- Saves the weights and closes the folder. The last line, printed also with --quiet, names the folder; `text` follows.
function run:finish(text)
  if self.finished then core.fail("run:finish was called before") end
  self.finished = true
  self.bar:close()
  self.metrics:close()
  local why = self.save_weights and save(self)
  self.lock:close()
  if why then error(why, 0) end
  local timings = self.graph:timings()
  if timings then progress.print("%s", (timings:gsub("\n$", ""))) end
  if core.interrupted() then text = ("stopped after %d steps%s"):format(self.seen, text and ", " .. text or "") end
  io.stdout:write(self.dir, text and ": " .. text or "", "\n")
  io.stdout:flush()
end

return new
