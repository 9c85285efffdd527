-- SPDX-License-Identifier: MIT
-- The folder of a run: settings.json, network.json, metrics.jsonl a line a step, weights.safetensors at the end and at each run:save(),
-- summary.json at its end; an event file for TensorBoard; samples/ of the validation; checksums.jsonl where they are asked for;
-- checkpoints, and resumed.jsonl a line each time that the run went on.
local args = require "spcore.args"
local best = require "spcore.best"
local checkpoint = require "spcore.checkpoint"
local core = require "spcore.core"
local files = require "spcore.files"
local json = require "spcore.json"
local mean_iou = require "spcore.iou"
local measure = require "spcore.measure"
local metrics_line = require "spcore.metrics_line"
local network = require "spcore.network"
local phases = require "spcore.phases"
local progress = require "spcore.progress"
local labels = require "spcore.labels"
local ranks = require "spcore.ranks"
local folder = require "spcore.run_folder"
local run_settings = require "spcore.run_settings"
local samples = require "spcore.samples"
local summary = require "spcore.summary"
local sys = require "spcore.sys"
local tensorboard = require "spcore.tensorboard"
local words = require "spcore.words"

local run = {}
run.__index = run
run.__name = "run"

local keys = {
  graph = true, opt = true, steps = true, epochs = true, classes = true, name = true, settings = true, every = true,
  weights = true, samples = true,
}

-- ---- a run that goes on ----

-- A validation, with the weights before the step `boundary`; whether it is the best so far.
local function consider(self, step, eval, boundary)
  local value, by, v = best.worth(self.best_by, eval)
  self.last_eval, self.eval_boundary = eval, boundary
  self.found = summary.found(self.found, eval.counts)
  if not value or (self.best and value <= self.best.worth) then return false end
  self.best = { worth = value, metric = by, value = v, step = step }
  return true
end

-- --patience: whether one more validation that is not better by more than --min-delta is one too many. Then the run ends
-- where the steps end that have begun. Those that were done before it went on stay done: with less patience than it had
-- before it ends behind a later validation.
local function loses_patience(self, step, eval)
  local value = best.worth(self.best_by, eval)
  if self.early then return false end
  if value and (not self.hoped or value > self.hoped + self.min_delta) then self.hoped, self.waited = value, 0
  else self.waited = self.waited + 1 end
  if self.patience == 0 or self.waited < self.patience then return false end
  if self.eval_boundary == self.total or self.eval_boundary < self.first then return false end
  self.total = self.eval_boundary
  self.early = { step = step, validations = self.waited }
  return true
end

local function end_early(self)
  self.graph._raw:cut()
  self.bar.total = self.total
  if self.checkpoint then self.checkpoint:ends() end
end

-- What metrics.jsonl says of validations: the best and the last, and whether the run was to end behind one of them.
local function recall(self)
  local last
  local text = ranks.told(files.read, self.dir .. "/metrics.jsonl")
  for line in text:gmatch "[^\n]+" do
    last = line
    local m = line:find('"eval":', 1, true) and json.decode(line)
    if m and type(m.eval) == "table" then
      local begun = m.step + 1
      if not self.graph:_pauses(begun) then begun = begun + self.graph._opt.run_ahead end -- the script's own validation
      consider(self, m.step, m.eval, math.min(begun, self.total or begun))
      loses_patience(self, m.step, m.eval)
      self.iou, self.accuracy, self.other = m.eval.iou, m.eval.accuracy, { measure.other(m.eval) }
    end
  end
  self.loss = last and json.decode(last).loss
  -- Where the save of a validation's weights failed, the best one is that whose weights there are.
  if not self.best or (rawget(self.opt, "checkpoint_every") or "") == "" then return end
  local b = checkpoint.best_of(self.dir)
  if not b then
    self.best = nil
    return
  end
  -- The validation of an end that is none any more is in no line.
  local worth = best.worth(b.metric, { [b.metric] = b.value })
  if b.metric == self.best.metric and (b.step < self.best.step or b.step < self.first and worth > self.best.worth) then
    self.best = { worth = worth, metric = b.metric, value = b.value, step = b.step }
  end
end

local function note_resume(dir, step, changed)
  local t = { step = step, date = os.date("!%Y-%m-%dT%H:%M:%SZ"), changed = {} }
  for _, c in ipairs(changed) do
    t.changed[c[1]] = c[3]
    if not c.free then progress.print("--override: %s was %s and is %s", c[1], c[2], c[3]) end
  end
  local file, why = io.open(dir .. "/resumed.jsonl", "ab")
  local ok = file and file:write(json.encode(t), "\n")
  if file and not file:close() or not ok then core.fail(("%s/resumed.jsonl: %s"):format(dir, why or "writing failed")) end
  ok, why = sys.sync(dir .. "/resumed.jsonl")
  if not ok then core.fail(why) end
  sys.sync(dir)
end

-- There is nothing to do where the run has come to its end.
local function end_if_done(dir, opt)
  if ranks.told(function() return tostring(sys.there(dir .. "/summary.json")) end) == "false" then return end
  if not opt.override then
    local saved
    for _, name in ipairs(ranks.first and sys.names(dir) or {}) do saved = saved or name:match "^checkpoint%-%d+%.safetensors$" end
    if ranks.first then
      io.stdout:write(dir, ": the run is complete", saved and "; with --override and other options it goes on" or
        ", and has no checkpoint to go on from", "\n")
    end
    core.exit(0)
  end
end

-- A list of names as it is, or of a line each; nil where there are none.
local function names_of(classes)
  if type(classes) ~= "string" then return classes end
  local names = {}
  for name in classes:gmatch "[^\n]+" do names[#names + 1] = name end
  return names[1] and names
end

-- A new folder -> the lock, metrics.jsonl
local function begin(dir, settings, text)
  if not ranks.first then return folder.nowhere(), folder.nowhere() end
  local lock = folder.claim(dir, text)
  local metrics, why = sys.create(dir .. "/metrics.jsonl")
  if not metrics then core.fail(why) end
  run_settings.print(settings, dir)
  return lock, metrics
end

-- The folder of --resume, whose newest checkpoint the graph now holds -> the lock, metrics.jsonl
local function go_on(t, dir, settings)
  if t.weights == false then core.fail(("--resume %s: this run keeps no weights"):format(dir)) end
  local lock = ranks.first and folder.reclaim(dir) or folder.nowhere()
  end_if_done(dir, t.opt)
  run_settings.print(settings, dir)
  if ranks.first then folder.tidy(dir) end
  local step = checkpoint.resume(t.graph, dir, t.opt.override, t.steps)
  if not ranks.first then return lock, folder.nowhere() end
  note_resume(dir, step, args.changed)
  os.remove(dir .. "/stopped.json")
  local metrics, why = io.open(dir .. "/metrics.jsonl", "ab")
  if not metrics then core.fail(why) end
  return lock, metrics
end

-- A whole number of at least `least`, or nil where none is given.
local function whole(key, v, least)
  if v == nil then return end
  local n = type(v) == "number" and math.tointeger(v)
  if not n or n < least then
    core.fail(("sp.run{}: '%s' must be a whole number of at least %d, got %s"):format(key, least,
      type(v) == "number" and v or type(v) == "string" and "'" .. v .. "'" or "a " .. type(v)))
  end
  return n
end

local function typed(key, v, wanted, words_for)
  if v ~= nil and type(v) ~= wanted then
    core.fail(("sp.run{}: '%s' must be %s, got a %s"):format(key, words_for, core.kind(v) or type(v)))
  end
end

local function check_fields(t)
  typed("opt", t.opt, "table", "the options that sp.args gives")
  for _, key in ipairs { "out", "resume" } do
    local v = t.opt and rawget(t.opt, key)
    if v and type(v) ~= "string" then core.fail(("sp.run{}: opt.%s must be the path of a folder, got a %s"):format(key, type(v))) end
  end
  typed("settings", t.settings, "table", "a table that is added to settings.json")
  typed("weights", t.weights, "boolean", "true or false")
  typed("samples", t.samples or nil, "function", "a function(g, weights)")
  typed("name", t.name, "string", "the name of a folder")
  if t.name and (t.name == "" or t.name:find "[/%c]") then
    core.fail(("sp.run{}: 'name' must be the name of a folder in runs, got '%s'; --out takes a path"):format(
      (t.name:gsub("%c", "?"))))
  end
  local classes = t.classes
  if classes == nil or type(classes) == "string" then return end
  typed("classes", classes, "table", "a list of names, or text with a line each")
  for i = 1, #classes do
    if type(classes[i]) ~= "string" then
      core.fail(("sp.run{}: 'classes' must be a list of names, got a %s at place %d"):format(type(classes[i]), i))
    end
  end
end

-- What cannot end well: better now than after the training. -> the fields, numbers as integers
local function check(t)
  words.check_keys("sp.run{}", t, keys)
  if type(t.graph) ~= "table" or not rawget(t.graph, "_raw") then core.fail("sp.run{}: 'graph' is missing") end
  check_fields(t)
  local fields = {}
  for k, v in next, t do fields[k] = v end
  fields.steps, fields.epochs = whole("steps", t.steps, 0), whole("epochs", t.epochs, 0)
  fields.every = whole("every", t.every, 1)
  if t.weights ~= false then
    local ok, why = core.knows_format "weights.safetensors"
    if not ok then core.fail(why) end
  end
  local opt = t.opt or {}
  if rawget(opt, "best_by") then best.check(opt.best_by, t.graph) end
  local patience = rawget(opt, "patience") or 0
  if patience > 0 and #t.graph._evals == 0 then
    core.fail "--patience: there is no validation before the end; take a smaller --eval-every"
  end
  return fields
end

-- What writes beside metrics.jsonl: TensorBoard, samples, checkpoints.
local function add_writers(self, t, opt, again)
  local open = { self.metrics }
  self.board = ranks.first and tensorboard.new {
    dir = self.dir, first = self.first, again = again, wanted = rawget(opt, "tensorboard") ~= false,
    every = rawget(opt, "log_every") or 1, settings = self.settings, files = open,
  }
  local pictures = (ranks.first or t.graph._opt.optimizer_shards) and t.samples and (rawget(opt, "pictures") or 4) or 0
  if pictures > 0 then
    self.samples = samples.new { dir = self.dir, graph = t.graph, wire = t.samples, count = pictures, classes = self.classes,
      best = self.best and self.best.step }
  end
  if (rawget(opt, "checkpoint_every") or "") ~= "" and t.weights ~= false and t.graph._optimizer then
    self.checkpoint = checkpoint.new { dir = self.dir, graph = t.graph, files = open, every = opt.checkpoint_every,
      max_time = opt.max_time, total = t.steps }
    t.graph._raw:hold(true)
    t.graph._keeper = self.checkpoint
  elseif rawget(opt, "on_usr") == "save" then
    core.warnings_save(false)
    core.log("warn", "--on-usr save: this run saves no checkpoints, so SIGUSR1 and SIGUSR2 end it")
  end
end

-- What is odd about the labels, before anything is learned from them; the run does not begin where nothing can be.
local function look_at_labels(g)
  local why, odd = labels.of_graph(g)
  if why then core.fail(why) end
  return odd
end

-- run{ graph =, opt =, steps =, epochs =, classes =, name =, settings =, weights = false, samples = }: makes the folder, writes
-- the settings and prints them. epochs: how many the steps are, which are then told, too; classes: their names, a list or a line
-- each; settings: more of them; weights: whether they are saved at the end; samples: see samples.lua, how many opt.pictures says.
local function new(t)
  t = check(t)
  local odd = look_at_labels(t.graph)
  local late, step = phases.missed(t.graph, t.steps)
  if late and ranks.first then
    core.log("warn", ("unfreeze at %s, step %d: the run has %d steps, so these weights stay frozen; unfreeze earlier, or train longer"):format(
      late, step, t.steps))
  end
  local opt = t.opt or {}
  local function given(key) return rawget(opt, key) or "" end
  local settings, again = run_settings.of(t.graph, opt, t.settings or {}), given "resume" ~= ""
  local text = json.encode(settings, true) -- what cannot be written is refused before there is a folder
  local name = t.name or core.env().script:match("[^/]*$"):gsub("%.lua$", "")
  local dir = again and opt.resume
    or ranks.told(function() return given "out" ~= "" and folder.given(opt.out) or folder.next(name) end)
  local lock, metrics
  if again then lock, metrics = go_on(t, dir, settings) else lock, metrics = begin(dir, settings, text) end
  if not again and ranks.first then network.save(t.graph, dir .. "/network.json", names_of(t.classes)) end
  for _, line in ipairs(ranks.first and odd or {}) do progress.wrapped("%s", line) end
  if settings.checksums and ranks.first then t.graph:checksums(dir .. "/checksums.jsonl", again) end
  metrics:setvbuf "no"
  local first = t.graph:step() - #t.graph._kept
  local self = setmetatable({
    dir = dir, opt = opt, settings = settings, graph = t.graph, lock = lock, metrics = metrics, metrics_bytes = metrics:seek "end",
    began = sys.now(), seen = 0, images = 0, first = first, unsaved = false, save_weights = t.weights ~= false,
    epochs = (t.epochs or 0) > 0 and t.epochs, classes = names_of(t.classes),
    total = t.steps, planned = t.steps, best_by = rawget(opt, "best_by") or "auto", patience = rawget(opt, "patience") or 0,
    min_delta = rawget(opt, "min_delta") or 0.0, waited = 0,
    bar = progress.new { total = t.steps, every = t.every, first = first },
  }, run)
  if again then recall(self) end
  add_writers(self, t, opt, again)
  if self.early then end_early(self) end
  return self
end

-- run.step(...) and run:step(...) are easily mixed up.
local function own(self, call)
  if getmetatable(self) ~= run then core.fail(("run:%s is called with a colon"):format(call)) end
end

-- The same of what a run does until its end.
local function own_open(self, name, call)
  own(self, call)
  if self.finished then core.fail(("run:%s was called after run:finish"):format(name)) end
end

-- How many of the run's steps are still to be done: for g:steps.
function run:rest()
  own(self, "rest()")
  return self.total and math.max(0, self.total - self.first)
end

-- ---- steps ----

local RECENT <const> = 20 -- steps
local FEW <const> = 64 -- classes: the mean IoU of more takes as long as a step, so that it is taken of one step in RECENT

-- The mean IoU of the last training batches. What is older counts nothing: a class that was once taken for others would stay in the
-- mean with an IoU of 0.
local function add_counts(self, counts)
  local sums, recent, n = self.counts, self.recent or {}, self.seen % RECENT + 1
  if not sums then
    sums = {}
    for i = 1, #counts do
      sums[i] = {}
      for j = 1, #counts do sums[i][j] = 0 end
    end
    self.counts, self.recent = sums, recent
  end
  local old = recent[n]
  recent[n] = counts
  for i = 1, #counts do
    local row, new_row, old_row = sums[i], counts[i], old and old[i]
    for j = 1, #counts do row[j] = row[j] + new_row[j] - (old_row and old_row[j] or 0) end
  end
end

-- Correct samples fade, so that about the last 20 steps are in them.
local function fade_hits_in(self, m)
  self.right = 0.95 * (self.right or 0) + m.top1
  self.counted = 0.95 * (self.counted or 0) + m.counted
end

local has_hits <const> = measure.has_hits

-- What columns of numbers were divided by to be learned; nil: nothing.
local function std_of(self)
  local model = self.settings.model
  local numbers = type(model) == "table" and model.numbers
  return type(numbers) == "table" and numbers.std or nil
end

local rescue

-- The file has no buffer. Where a line does not fit, what did of it goes.
local function write_line(self, t)
  local text, path = metrics_line.encode(t), self.dir .. "/metrics.jsonl"
  local ok, why = self.metrics:write(text)
  if ok then self.metrics_bytes = self.metrics_bytes + #text
  else
    sys.truncate(path, self.metrics_bytes)
    core.fail(("%s: %s; %s"):format(path, why, rescue(self)))
  end
end

-- "IoU 0.812"; "IoU -" where there was nothing to measure
local function figure(name, v)
  return name .. (v == v and (" %.3f"):format(v) or " -")
end

-- "step 500/1000  loss 0.5012  val loss 0.4711  val IoU 0.8123  1:05, the best so far": a line that stays on a terminal.
local function words_of_eval(self, step, eval, is_best)
  local parts = { ("step %d%s"):format(step + 1, self.planned and "/" .. self.planned or "") }
  local function add(name, v) -- of numbers alone
    if type(v) == "number" then parts[#parts + 1] = name .. (v == v and " %.4f" or " nan"):format(v) end
  end
  add("loss", self.loss)
  add("val loss", eval.loss)
  add("val accuracy", eval.accuracy)
  add("val IoU", eval.iou)
  local other, value = measure.other(eval)
  if other then add("val " .. other, value) end
  parts[#parts + 1] = progress.clock(sys.now() - self.began) .. (is_best and ", the best so far" or "")
  return table.concat(parts, "  ")
end

-- The best validation is one whose weights there are: where their save failed, it is the one before.
local function settle_best(self)
  if self.checkpoint and self.checkpoint:best_is_there() == false then self.best = self.best_before end
end

local function note_eval(self, step, eval)
  best.demand(self.best_by, eval, self.patience > 0)
  settle_best(self)
  self.best_before = self.best
  local is_best = consider(self, step, eval, self.graph._raw:boundary())
  local b = self.best
  if is_best and self.checkpoint then self.checkpoint:best { metric = b.metric, value = b.value, step = step } end
  if self.bar.terminal then progress.print("%s", words_of_eval(self, step, eval, is_best)) end
  if self.samples then self.samples:draw(step, is_best, self.board) end
end

-- A step comes once, and later than those before it: behind a loop that was left with `break` some may be missing.
local function check_step(self, step, m)
  own_open(self, "step", "step(step, m)")
  if math.type(step) ~= "integer" or type(m) ~= "table" then
    core.fail(("run:step(step, m): the step and the metrics that g:steps gives are wanted, got a %s and a %s"):format(
      type(step), type(m)))
  end
  local wrong = type(m.time) ~= "number" and "time" or m.n ~= nil and type(m.n) ~= "number" and "n"
  if wrong then core.fail(("run:step(step, m): m is what g:steps gives; its '%s' is no number"):format(wrong)) end
  if m.step ~= nil and m.step ~= step then
    core.fail(("run:step: the step is %d, but the metrics are of step %s"):format(step, tostring(m.step)))
  end
  local least = self.last and self.last + 1 or self.first
  if step < least then
    core.fail(("run:step: step %d was there already; the next one is %d"):format(step, least)) -- as g:steps counts
  end
end

-- A loss that explodes, or is none any more, is said once, when it happens, where there is an --lr to change: report has it as a
-- finding.
local function watch_loss(self, step, loss)
  local lr = self.settings.options.lr
  if type(loss) ~= "number" or type(lr) ~= "number" or self.warned then return end
  self.first_loss = self.first_loss or loss
  local lost = loss ~= loss
  if not lost and not (self.first_loss > 0 and loss > 10 * self.first_loss and loss > 1) then return end
  self.warned = true
  core.log("warn", ("the loss is %s at step %d, and was %.4g at first: take a smaller --lr than %.4g"):format(
    lost and "not a number" or ("%.4g"):format(loss), step + 1, math.abs(self.first_loss), lr))
end

-- Writes the step to metrics.jsonl and shows it. Call it for every step.
function run:step(step, m)
  check_step(self, step, m)
  local nothing = m.valid == 0 and m.loss ~= m.loss -- no label counts in this step: there is no loss, and nothing is wrong
  if not nothing then watch_loss(self, step, m.loss) end
  local counts = m.counts
  if has_hits(m) then fade_hits_in(self, m)
  elseif type(counts) == "table" then add_counts(self, counts) end
  local eval = m.eval
  if type(eval) == "table" then
    measure.judge(eval, std_of(self))
    self.iou, self.accuracy, self.other = eval.iou, eval.accuracy, { measure.other(eval) }
  end
  for _, more in pairs(type(m.evals) == "table" and m.evals or {}) do
    if type(more) == "table" then measure.judge(more, std_of(self)) end
  end
  local line = {}
  for k, v in pairs(m) do
    if not (k == "counts" or measure.counts[k]) then line[k] = v end
  end
  if type(eval) == "table" then line.eval = measure.slim(eval) end
  if type(m.evals) == "table" then
    line.evals = {}
    for k, v in pairs(m.evals) do line.evals[k] = type(v) == "table" and measure.slim(v) or v end
  end
  line.time = m.time - self.began
  if line.iou == nil and type(counts) == "table" and not has_hits(m) and (#counts <= FEW or (step + 1) % RECENT == 0) then
    line.iou = mean_iou(counts) -- of this batch
  end
  write_line(self, line)
  if self.board then self.board:step(step, m) end
  self.seen, self.unsaved, self.images = self.seen + 1, true, self.images + (m.n or 0)
  if not nothing then self.loss = m.loss end
  self.last = step
  if type(eval) == "table" then
    note_eval(self, step, eval)
    if loses_patience(self, step, eval) then end_early(self) end
  end
  self.bar:step(function()
    local parts = {}
    if self.epochs and m.epoch then parts[1] = ("epoch %d/%d"):format(m.epoch + 1, self.epochs) end
    if m.loss then parts[#parts + 1] = nothing and "loss -" or m.loss == m.loss and ("loss %.4f"):format(m.loss) or "loss nan" end
    if self.counts then parts[#parts + 1] = figure("IoU", (mean_iou(self.counts))) end
    if self.counted then parts[#parts + 1] = figure("accuracy", self.right / self.counted) end
    if self.accuracy then parts[#parts + 1] = figure("val accuracy", self.accuracy) end
    if self.iou then parts[#parts + 1] = figure("val IoU", self.iou) end
    if self.other and self.other[1] then parts[#parts + 1] = figure("val " .. self.other[1], self.other[2]) end
    if m.slowest_rank then
      parts[#parts + 1] = ("rank %d slowest: +%s ms a step"):format(m.slowest_rank, words.ms(m.slowest_ms))
      parts[#parts + 1] = ("%.0f %% in comm"):format(100 * m.comm_share)
    end
    return parts
  end)
  if self.checkpoint then self.checkpoint:step(step) end
end

-- The whole of a source, with the weights as they are behind the loop; what was done with these weights is not done again.
-- nil: the run ends before its last step.
function run:evaluate(source)
  own_open(self, "evaluate", "evaluate(source)")
  if self.checkpoint and (self.checkpoint.stopped or core.interrupted()) then return end
  if self.eval_boundary and self.eval_boundary == self.total then return self.last_eval end
  local eval
  if self.checkpoint then eval = self.graph:_validate(source) else eval = self.graph:evaluate { data = source } end
  if not eval then return end
  measure.judge(eval, std_of(self))
  note_eval(self, self.graph:step() - 1, eval)
  if self.board then self.board:evaluation(self.graph:step() - 1, eval) end
  return eval
end

-- The picture in a PNG or JPEG file, for TensorBoard.
function run:image(step, name, path)
  own_open(self, "image", "image(step, name, path)")
  if self.board then self.board:image(step, name, path) end
end

-- "validation mean IoU 0.8123" of what run:evaluate gave; nil of nil.
function run:verdict(eval)
  own(self, "verdict(result)")
  if not eval then return end
  if type(eval) ~= "table" then
    core.fail(("run:verdict: what run:evaluate gives is wanted, got a %s"):format(type(eval)))
  end
  return measure.verdict(eval, std_of(self))
    or core.fail "run:verdict: metrics of a graph with stage 'confusion' or 'accuracy' are wanted"
end

-- With averages of the weights (`ema`) these are weights.safetensors, and the weights themselves lie beside them. -> whether it
-- did, why not, the file if it is another one. alone: it is not known whether the other ranks do this.
local function save_into(self, dir, alone)
  local g = self.graph
  if alone and ranks.share_averages(g) then
    local path = dir .. "/weights-last.safetensors"
    local ok, why = pcall(g.save, g, path)
    return ok, why, path
  end
  local ok, why = pcall(g.save, g, dir .. "/weights.safetensors", { averages = true })
  if ok and g._raw:averages() then ok, why = pcall(g.save, g, dir .. "/weights-last.safetensors") end
  return ok, why
end

-- Returns nothing, or why the folder does not have the weights. A full disk, or a folder that is gone, does not cost
-- what was learned: then they go into a new temporary folder, whose file is the second value.
local function save(self, alone)
  self.unsaved = false -- also where it fails: __close does not try the same again
  local ok, why, path = save_into(self, self.dir, alone)
  if ok then return nil, path end
  local line = core.where() .. ": " -- of the script: who passes the words on puts it before them
  why = tostring(why)
  if why:sub(1, #line) == line then why = why:sub(#line + 1) end
  local dir, _ = sys.mkdtemp()
  if dir then ok, _, path = save_into(self, dir, true) end
  if dir and ok then
    path = path or dir .. "/weights.safetensors"
    return ("%s; the weights are in %s instead"):format(why, path), path
  end
  if dir then os.remove(dir) end
  return why
end

-- The run ends at once, and this says what there is of it: part of the error's line.
function rescue(self)
  local words
  if not self.save_weights then words = "no weights are kept"
  else
    local why, elsewhere = save(self, true)
    words = elsewhere and ("the weights are in %s"):format(elsewhere) or why and ("the weights are lost, too: %s"):format(why)
      or ("the weights are in %s/weights.safetensors"):format(self.dir)
  end
  local newest = self.checkpoint and self.checkpoint:newest()
  return ("%s; %s"):format(words, newest and "the last checkpoint is " .. newest or "there is no checkpoint")
end

-- Saves the weights as they are now, as often as it is called: the file is replaced whole, so the last ones are there.
function run:save()
  own_open(self, "save", "save()")
  local why = save(self)
  if why then core.fail(why) end
end

-- Why a run ended before its last step, for its report; what cannot be written costs the reason alone.
local function note_stop(self, kind, why)
  if not ranks.first then return end
  pcall(files.replace, self.dir .. "/stopped.json",
    json.encode { kind = kind, why = why, steps = self.first + self.seen, date = os.date("!%Y-%m-%dT%H:%M:%SZ"),
      best = self.best and { metric = self.best.metric, value = self.best.value, step = self.best.step } } .. "\n")
end

-- A run in a variable marked <close> that ends without finish(), by an error, still saves what it has learned.
function run:__close(why)
  if self.finished then return end
  self.finished = true
  if why ~= nil then note_stop(self, "error", tostring(why)) end
  self.bar:close()
  if self.checkpoint then self.graph._raw:hold(false) end
  self.metrics:close()
  if self.board then self.board:close() end
  if self.samples then self.samples:close() end
  if why ~= nil and self.save_weights and self.unsaved then
    local not_saved, elsewhere = save(self, true)
    if not_saved and elsewhere then core.log("error", not_saved) end
  end
  self.lock:close()
end

-- Seconds and images are of this session alone where the run went on.
local function summary_of(self)
  local b, eval, seconds = self.best, {}, sys.now() - self.began
  for k, v in pairs(measure.slim(self.last_eval or {})) do
    if k ~= "counts" or type(v) == "table" and #v <= 128 then eval[k] = v end
  end
  local s = {
    steps = self.first + self.seen, seconds = seconds, images_per_second = self.images / seconds, loss = self.loss,
    evaluation = self.last_eval and eval, weights = self.save_weights and "weights.safetensors" or nil,
    best = b and { metric = b.metric, value = b.value, step = b.step }, stopped_early = self.early,
  }
  local counts = self.last_eval and self.last_eval.counts
  if type(counts) ~= "table" then return s end
  if has_hits(self.last_eval) then s.most_confused = json.list(summary.confused(counts, self.classes))
  else s.classes = json.list(summary.classes(counts, self.classes)) end
  return s
end

-- "stopped early at step 750: no better iou for 3 validations, best 0.8123 at step 600"
local function words_of_early(self)
  local early, b = self.early, self.best
  return ("stopped early at step %d: no better %s for %d validation%s%s"):format(early.step + 1,
    b and b.metric or self.best_by, early.validations, early.validations == 1 and "" or "s",
    b and (", best %.4f at step %d"):format(b.value, b.step + 1) or "")
end

-- Saves the weights and closes the folder. The last line, printed also with --quiet, names the folder; `text` follows.
function run:finish(text)
  own(self, "finish(text)")
  if self.finished then core.fail("run:finish was called before") end
  if text ~= nil and type(text) ~= "string" and type(text) ~= "number" then
    core.fail(("run:finish: a text is wanted, got a %s"):format(type(text)))
  end
  self.finished = true
  self.bar:close()
  local c = self.checkpoint
  if c then c:close(self.last and self.last + 1 or self.first) end
  settle_best(self)
  self.metrics:close()
  if self.board then self.board:close() end
  local why = self.save_weights and save(self)
  local cut_short = core.interrupted() or (c and c.stopped)
  if self.samples then
    local whole = self.save_weights and not why and not cut_short
    if whole then self.samples:worst(self.dir .. "/weights.safetensors", self.last) end
    self.samples:close()
  end
  local told = not cut_short and not why and summary_of(self)
  if told and ranks.first then files.replace(self.dir .. "/summary.json", json.encode(told, true) .. "\n") end
  self.lock:close()
  if c then self.graph._raw:hold(false) end
  if why then core.fail(why) end
  local timings = self.graph:timings()
  if timings then progress.print("%s", (timings:gsub("\n$", ""))) end
  if told then summary.print(told, self.first, sys.there(self.dir .. "/best.safetensors") and self.dir) end
  if told and self.last_eval and type(self.last_eval.counts) == "table" then
    summary.print_never(self.found, self.last_eval.counts, self.classes, rawget(self.opt, "class_weights") == "none")
  end
  if told and self.early then progress.print("%s", words_of_early(self)) end
  if cut_short then
    local n = self.first + self.seen
    local limit = rawget(self.opt, "max_time") or "0"
    local why_now = (core.interrupted() or limit == "0") and "a signal" or "--max-time " .. limit
    note_stop(self, "stop", why_now)
    text = ("stopped after %d step%s by %s%s"):format(n, n == 1 and "" or "s", why_now, text and ", " .. text or "")
  end
  if cut_short and c then progress.print("go on with: spcore run %s --resume %s", core.env().script, self.dir) end
  if ranks.first then io.stdout:write(self.dir, text and ": " .. text or "", "\n") end
  io.stdout:flush()
  if c and c:failed() and ranks.first then
    core.fail(("%s: no checkpoint of %d could be saved; see the lines before for the reasons"):format(self.dir, c.tried))
  end
end

return new
