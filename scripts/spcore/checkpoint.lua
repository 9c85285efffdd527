-- SPDX-License-Identifier: MIT
-- Checkpoints of a run: all that it takes to go on from a step as if nothing had come in between. A snapshot is taken between
-- two steps and kept until the metrics of all steps before it are in metrics.jsonl; then a thread writes it beside the
-- training. RUN/checkpoint-STEP.safetensors: the two newest; RUN/best.safetensors: of the best validation.
local core = require "spcore.core"
local identity = require "spcore.identity"
local json = require "spcore.json"
local metrics_line = require "spcore.metrics_line"
local progress = require "spcore.progress"
local ranks = require "spcore.ranks"
local sys = require "spcore.sys"

local FORM <const> = 1
local KEY <const> = "spcore.run" -- of the metadata
local OVER <const>, DUE <const>, SAVE <const> = 1, 2, 4 -- what ranks ask each other: to end; to save, since it is time; by a signal

local checkpoint = {}
checkpoint.__index = checkpoint

-- ---- what makes two graphs the same ----

-- The first line in which they differ.
local function difference(old, new)
  for i = 1, math.max(#old, #new) do
    if old[i] ~= new[i] then return old[i] or "nothing", new[i] or "nothing" end
  end
end

-- ---- when ----

local units = { s = 1, m = 60, h = 3600 }

-- "500" -> 500 steps; "30s", "5m", "2h" -> nil, seconds; "0" -> nothing; nil, nil, why
function checkpoint.interval(text)
  local n, unit = text:match "^(%d+)([smh]?)$"
  n = math.tointeger(tonumber(n))
  if not n then return nil, nil, ("'%s': steps, or a time such as 90s, 5m, 2h, are wanted"):format(text) end
  if n == 0 then return end
  if unit == "" then return n end
  return nil, n * units[unit]
end

-- ---- taking and writing ----

-- The steps of which there are files, the newest first.
local function saved_steps(dir)
  local steps = {}
  for _, name in ipairs(sys.list(dir) or {}) do
    local step = math.tointeger(tonumber(name:match "^checkpoint%-(%d+)%.safetensors$"))
    if step and name == ("checkpoint-%d.safetensors"):format(step) then steps[#steps + 1] = step end -- "-08" is another's
  end
  table.sort(steps, function(a, b) return a > b end)
  return steps
end

-- The steps that the run has saved before it went on: what lay in the folder before the run began is not its own.
local function own_steps(dir)
  local own, began = {}, sys.changed(dir .. "/settings.json")
  for _, step in ipairs(saved_steps(dir)) do
    local changed = sys.changed(("%s/checkpoint-%d.safetensors"):format(dir, step))
    if began and changed and changed >= began then own[step] = true end
  end
  return own
end

local function file_of(self, step) return ("%s/checkpoint-%d.safetensors"):format(self.dir, step) end

-- Of a run that was killed before it came to that, what is older than the one that it goes on from and the one before it. It may
-- end without another.
local function tidy_before(self)
  local seen = false
  for _, step in ipairs(saved_steps(self.dir)) do -- the newest first
    local older = self.saved[step] and step < self.last_step
    if older and seen then
      if ranks.first then os.remove(file_of(self, step)) end
      self.saved[step] = nil
    end
    seen = seen or older
  end
end

-- new{ dir =, graph =, files = { metrics, ... }, every = text, max_time = text, total = steps or nil }
function checkpoint.new(t)
  local self = setmetatable(t, checkpoint)
  self.each_steps, self.each_seconds = checkpoint.interval(t.every)
  local max_steps, max_seconds = checkpoint.interval(t.max_time)
  self.until_time = max_seconds and sys.now() + max_seconds
  if max_steps then core.fail(("--max-time %s: a time such as 90s, 5m, 2h is wanted"):format(t.max_time)) end
  self.raw, self.accumulate = t.graph._raw, t.graph._told[t.graph._optimizer].accumulate or 1
  local k, ahead = self.accumulate, t.graph._opt.run_ahead
  local least = (ahead + k) // k * k -- one is kept until its metrics are written; then the weights are so many steps further
  if self.each_steps and self.each_steps < least and ranks.first then
    core.log("warn", ("--checkpoint-every %d: with --run-ahead %d%s a checkpoint is saved each %d steps"):format(self.each_steps,
      ahead, k > 1 and (" and %d steps an update"):format(k) or "", least))
  end
  self.last_time, self.last_step, self.told = sys.now(), self.raw:step(), 0
  self.saved, self.tried, self.written = own_steps(t.dir), 0, 0
  self.safe = self.last_step -- of a run that goes on: the file that it was read from stays with the next one
  self.about = json.encode { form = FORM, seed = t.graph._opt.seed, script = core.env().script:match "[^/]*$",
    graph = identity.describe(t.graph), same = identity.of(t.graph) }
  tidy_before(self)
  return self
end

-- What is read to go on has the weights; with `averages` those have their place that were evaluated.
local function snapshot(self, path, step, extra, averages)
  local about = json.decode(self.about)
  about.step, about.live = step, {}
  for _, node in ipairs(self.graph:nodes()) do
    local live = node.live
    if node == self.graph._rated then live.lr = nil end -- a function gives it for each step
    if next(live) then about.live[node.name] = live end
  end
  for k, v in pairs(extra or {}) do about[k] = v end
  return pcall(self.raw.snapshot, self.raw, path, KEY, json.encode(about), averages)
end

-- The weights that a stage begins with: a run that goes on from a checkpoint has them all from there, whether the file of its
-- beginning is still somewhere or not.
function checkpoint.first_weights(opt, path)
  if opt.resume == "" or path == "" then return path end
  local any = ranks.told(function() return #saved_steps(opt.resume) > 0 and "any" or "" end)
  return any == "any" and "" or path
end

-- Of those that this run has saved all but the newest and the one before it go.
local function tidy(self, newest)
  self.saved[newest] = true
  for step in pairs(self.saved) do
    if step ~= newest and step ~= self.safe then
      if ranks.first then os.remove(file_of(self, step)) end
      self.saved[step] = nil
    end
  end
  self.safe = newest
end

-- Standard error has it with --quiet, too: whoever trusts in checkpoints has to know that there is none.
local function not_saved(self, step, words)
  core.log("error", ("step %d was not saved%s"):format(step, words))
end

local function outcome(self, ok, why)
  local w = self.writing
  self.writing = nil
  if w.best then self.best_written = ok end
  self.written = self.written + (ok and 1 or 0)
  if not ok then
    not_saved(self, w.step, ", what was saved before is still there: " .. why)
  elseif not w.best then
    tidy(self, w.step)
    if not w.last then progress.print("saved step %d: %s", w.step, w.path) end
  end
  return ok
end

local function poll(self, wait)
  local w = self.writing
  if not w then return end
  local ok, why
  if wait then ok, why = w.snapshot:wait() else ok, why = w.snapshot:poll() end
  if ok ~= nil then outcome(self, ok, why) end
end

local function write(self, job)
  poll(self, true)
  self.writing = job
  local ok, why = pcall(job.snapshot.start, job.snapshot, table.unpack(self.files))
  if not ok then outcome(self, false, why) end
end

-- The weights as they are belong to the step `boundary`; between two updates the gradients would be missing.
local function take(self, boundary)
  if boundary % self.accumulate ~= 0 then return false end
  local path = file_of(self, boundary)
  local ok, got = snapshot(self, path, boundary)
  self.last_time, self.last_step, self.tried = sys.now(), boundary, self.tried + 1
  if not ok then
    not_saved(self, boundary, ": " .. got)
    return false
  end
  self.pending = { snapshot = got, path = path, step = boundary }
  return true
end

local function due(self, boundary)
  if self.last_one or self.wanted then return true end
  if self.each_steps then return boundary // self.each_steps > self.last_step // self.each_steps end
  return self.told & DUE ~= 0
end

-- Clocks are not the same on all ranks, but what one of them asks all hear at one step.
local function ask(self)
  local now, asks = sys.now(), 0
  if self.until_time and now >= self.until_time then asks = OVER end
  if self.each_seconds and ranks.first and now - self.last_time >= self.each_seconds then asks = asks | DUE end
  if core.warned() then asks = asks | SAVE end
  self.told = self.raw:ask(asks)
  if self.told & SAVE ~= 0 then self.wanted = true end
end

-- Whether somebody wants the run to end before its last step: a signal, or its time is over.
function checkpoint:asked()
  return core.interrupted() or self.told & OVER ~= 0
end

-- After the metrics of `step` were written. The loop ends here where a stop was asked for and the run is safe.
function checkpoint:step(step)
  ask(self)
  local boundary, asked = self.raw:boundary(), self:asked()
  poll(self)
  if not self.pending and (asked or due(self, boundary)) and boundary ~= self.total then
    if take(self, boundary) then self.wanted = false end
    self.last_one = false
  end
  local p = self.pending
  if not p or step + 1 < p.step then return end
  self.pending = nil
  write(self, p)
  if not asked then return end
  poll(self, true)
  self.stopped = step + 1
  self.raw:stop()
end

-- The run ends with the steps that have begun: what it takes to go on from there is saved, too.
function checkpoint:ends()
  self.total, self.last_one = nil, true
end

-- The weights with which the step's evaluation was made are the best so far.
function checkpoint:best(value)
  local path, step = self.dir .. "/best.safetensors", self.raw:boundary()
  self.best_under_way, self.best_written, self.tried = true, false, self.tried + 1
  local ok, got = snapshot(self, path, step, { best = value }, true)
  if not ok then
    not_saved(self, step, ": " .. got)
    return
  end
  write(self, { snapshot = got, path = path, step = step, best = true })
end

-- Whether the best weights that were saved last are on the disk; nil: that was asked before. The first rank writes them, and all
-- have to know.
function checkpoint:best_is_there()
  if not self.best_under_way then return end
  self.best_under_way = false
  if self.writing and self.writing.best then poll(self, true) end
  return ranks.told(function() return tostring(self.best_written) end) == "true"
end

-- What the best weights of a run that goes on say of the validation that chose them; nil: there are none.
function checkpoint.best_of(dir)
  local text = ranks.told(function()
    local path = dir .. "/best.safetensors"
    local meta = sys.there(path) and core.examine(path)
    return meta and meta[KEY] or ""
  end)
  local about = json.decode(text)
  local b = type(about) == "table" and about.best
  if type(b) ~= "table" or math.type(b.step) ~= "integer" or type(b.value) ~= "number" or type(b.metric) ~= "string" then return end
  return b
end

-- Whether saves were tried and none has worked.
function checkpoint:failed() return self.tried > 0 and self.written == 0 end

-- ---- a validation that a signal cuts ----

-- What steps have given, as JSON keeps it: of its numbers only the whole ones are what they were.
local function packed(v)
  if math.type(v) == "float" then return { float = ("%a"):format(v) } end
  if type(v) ~= "table" then return v end
  local t = {}
  for k, item in pairs(v) do t[k] = packed(item) end
  return #t > 0 and t or { fields = t }
end

local special <const> = { inf = math.huge, ["-inf"] = -math.huge }

local function unpacked(v)
  if type(v) ~= "table" then return v end
  if v.float then return tonumber(v.float) or special[v.float] or 0 / 0 end
  local t = {}
  for k, item in pairs(v.fields or v) do t[k] = unpacked(item) end
  return t
end

-- Whether the validation behind `step` can begin anew when the run goes on: with the weights as they are, and before any other
-- that is due behind a step which has begun, since that one has later weights.
function checkpoint:may_cut(step)
  local boundary = self.raw:boundary()
  return boundary % self.accumulate == 0 and not self.graph:_validates(step + 1, boundary - 1)
end

-- A validation was cut: the run ends, and its checkpoint keeps what the steps gave that are not told yet.
function checkpoint:keep(kept)
  local boundary = self.raw:boundary()
  local path = file_of(self, boundary)
  self.pending, self.stopped, self.tried = nil, kept[1].step, self.tried + 1
  local ok, got = snapshot(self, path, boundary, { kept = packed(kept) })
  if not ok then return not_saved(self, boundary, ": " .. got) end
  write(self, { snapshot = got, path = path, step = boundary })
  poll(self, true)
end

-- The steps that such a checkpoint has kept; none in any other.
local function kept_of(about)
  return type(about.kept) == "table" and unpacked(about.kept) or {}
end

-- Behind the loop: what is under way is waited for, and the end is saved where it was not yet, so that a run can be longer than it was
-- meant to be.
function checkpoint:close(seen)
  self.pending = nil
  if not self.stopped and seen == self.raw:boundary() and seen ~= self.last_step and take(self, seen) then
    local p = self.pending
    self.pending, p.last = nil, not self:asked()
    write(self, p)
  end
  poll(self, true)
end

-- The newest file of a step there is, once what is under way is written; nil: there is none.
function checkpoint:newest()
  poll(self, true)
  local steps = saved_steps(self.dir)
  return steps[1] and file_of(self, steps[1])
end

-- ---- going on ----

-- The newest checkpoint that is whole and whose metrics are all there -> step, path, what it says; nil: there is none, and
-- what the newest of those lacks that are there.
local function newest(dir, lines, damage)
  local newer = {} -- what they lack
  for _, step in ipairs(saved_steps(dir)) do
    local path = ("%s/checkpoint-%d.safetensors"):format(dir, step)
    local meta, why = core.examine(path)
    local about = json.decode(meta and meta[KEY] or "")
    if meta and not (type(about) == "table" and about.step == step and type(about.graph) == "table") then
      why = path .. ": it does not say what run and step it is of"
    elseif meta and about.form ~= FORM then
      why = path .. ": another version of spcore wrote it"
    elseif meta and lines < step - #kept_of(about) then
      why = damage and ("%s: it is of step %d, but %s"):format(path, step, damage)
        or ("%s: metrics.jsonl has %d of the %d lines before it"):format(path, lines, step)
    elseif meta then
      for _, words in ipairs(newer) do core.log("warn", words .. "; an older one is taken") end
      return step, path, about
    end
    newer[#newer + 1] = why
  end
  return nil, newer[1]
end

-- Bytes of the lines of steps before `step`, their number, and what is wrong with the line behind them where it is whole and
-- damaged; nil: there is no such file. A last line without its end is of a run that was killed.
local function lines_before(path, step)
  local file, bytes, n, last, sums, damage = io.open(path, "rb"), 0, 0, -1, false, nil
  if not file then return end
  for line in file:lines "L" do
    if line:sub(-1) ~= "\n" then break end
    local m, why = json.decode(line)
    local number = type(m) == "table" and math.type(m.step) == "integer" and m.step
    local odd, summed = metrics_line.damage(line)
    if type(m) ~= "table" then why = why or "it is no object"
    elseif not number then why = "it names no step"
    elseif number <= last then why = ("step %d stands behind step %d"):format(number, last)
    else why = odd or sums and not summed and "it has no checksum, as those before it have" or nil end
    if why then
      damage = ("%s: line %d is damaged: %s"):format(path, n + 1, why)
      break
    end
    sums = summed
    if number >= step then break end
    bytes, n, last = bytes + #line, n + 1, number
  end
  file:close()
  return bytes, n, damage
end

local function find(dir)
  local _, lines, damage = lines_before(dir .. "/metrics.jsonl", math.maxinteger)
  local step, path_or_lack, about = newest(dir, lines or 0, damage)
  if step then return json.encode { step = step, path = path_or_lack, about = about } end
  return json.encode { lacks = path_or_lack, lines = lines or 0, complete = sys.there(dir .. "/summary.json") }
end

-- Loads the newest checkpoint of dir into g, which goes on at its step, and cuts what is told of later ones. steps: of the whole
-- run. -> the step
function checkpoint.resume(g, dir, override, steps)
  local found = json.decode(ranks.told(find, dir))
  local step, path, about = found.step, found.path, found.about
  if found.lacks then
    core.fail(("--resume %s: no checkpoint there can be gone on with: %s; %sstart another run"):format(dir, found.lacks,
      found.complete and "" or "remove its checkpoint-*.safetensors to begin at step 0, or "))
  end
  if found.complete then
    core.fail(("--resume %s: the run is complete and has no checkpoint to go on from; begin another, with a --checkpoint-every "
      .. "that saves some before its end"):format(dir))
  end
  local kept = step and kept_of(about) or {}
  if step and steps and step > steps then
    core.fail(("--resume %s: the run is to have %d steps, and its checkpoint is at step %d: take more"):format(dir, steps, step))
  end
  if step then
    local old, new = difference(about.graph, identity.describe(g))
    if old and not override then
      core.fail(("--resume %s: the graph is another one: it was '%s' and is '%s'; --override goes on all the same"):format(dir,
        old, new))
    end
    if old then progress.print("--override: '%s' becomes '%s'", old, new) end
    -- Other data, or another script, is nothing to be silent about, with --quiet neither.
    for _, line in ipairs(type(about.same) == "table" and identity.differences(about.same, identity.of(g)) or {}) do
      if ranks.first then core.log("error", ("--resume %s: %s"):format(dir, line)) end
    end
    g:seek(step) -- which weights are trained there
    g:load { path, prefix = "" }
    for name, live in pairs(type(about.live) == "table" and about.live or {}) do
      local node = g:find(name)
      for key, value in pairs(node and live or {}) do
        if not (key == "lr" and node == g._rated) then node:set(key, value) end -- a function gives that of each step
      end
    end
    for _, m in ipairs(kept) do g._kept[#g._kept + 1] = m end
    progress.print("resumed after step %d%s: %s", step - #kept, #kept > 0 and ", before the validation that was interrupted" or "", path)
  else
    step = 0
    local n = found.lines
    progress.print("starts again at step 1: %s has no checkpoint yet%s", dir,
      n > 0 and ("; its %d step%s done again"):format(n, n == 1 and " is" or "s are") or "")
  end
  if ranks.first then os.remove(dir .. "/summary.json") end -- of a run that was complete: no longer, once its metrics are cut
  for _, name in ipairs(ranks.first and { "metrics.jsonl", "checksums.jsonl" } or {}) do
    local bytes = lines_before(dir .. "/" .. name, name == "metrics.jsonl" and step - #kept or step)
    if bytes then
      local ok, why = sys.truncate(dir .. "/" .. name, bytes)
      if not ok then core.fail(why) end
    end
  end
  return step
end

return checkpoint
