-- SPDX-License-Identifier: MIT
-- The graph as a script sees it: g.stage{...} adds a stage, g:train, g:steps, g:evaluate ... run it.
local core = require "spcore.core"
local devices = require "spcore.device"
local files = require "spcore.files"
local groups = require "spcore.groups"
local identity = require "spcore.identity"
local progress = require "spcore.progress"
local merge_traces = require "spcore.rank_traces"
local models = require "spcore.models"
local options = require "spcore.options"
local phases = require "spcore.phases"
local ranks = require "spcore.ranks"
local requests = require "spcore.requests"
local schedule = require "spcore.schedule"
local set = require "spcore.set"
local strategy = require "spcore.strategy"
local sys = require "spcore.sys"
local weights = require "spcore.weights"
local words = require "spcore.words"

local graph = {} -- methods
for name, f in next, requests do graph[name] = f end

-- What the host keeps of g.stage{...}; everything else is a wire or a parameter.
local host_keys = { weights = true }
for _, row in ipairs(options.stage) do host_keys[row.name] = true end

local function is_wires(v)
  return core.kind(v) or (type(v) == "table" and core.kind(v[1]))
end

-- ---- adding stages ----

local function split(stage, t)
  local params, host, named, first = {}, {}, {}, {}
  for k, v in next, t do
    if math.type(k) == "integer" and k >= 1 and k <= #t then
      if not is_wires(v) then
        core.fail(("g.%s{}: item %d is a %s; what stands without a name is the output of another stage"):format(
          stage, k, type(v)))
      end
      first[k] = v
    elseif math.type(k) == "integer" then
      core.fail(("g.%s{}: an item before item %d is nil: is its name spelt right?"):format(stage, k))
    elseif host_keys[k] then
      host[k] = v
    elseif is_wires(v) then
      named[k] = v
    else
      params[k] = v
    end
  end
  for i = 1, #t do
    if first[i] == nil then core.fail(("g.%s{}: item %d is nil: is its name spelt right?"):format(stage, i)) end
  end
  return params, host, named, first
end

local construct

-- Bytes that go to an input of floats are converted on the way, values as they are (0..255): one stage to_float for all
-- that read the same output. Networks learn badly from such values, and nothing in the script shows them: so it is said.
local function as_wanted(g, node, port, ref)
  if core.kind(ref) ~= "output" then return ref end
  if ref.list and #ref == 1 then ref = ref[1] end
  if ref.list or ref.dtype ~= "uint8" then return ref end
  for _, input in ipairs(node:inputs()) do
    local dtypes = input.name == port and input.dtypes
    if dtypes and dtypes.float32 and not dtypes.uint8 then
      local name = ref.name
      g._floats[name] = g._floats[name] or construct(g, "to_float", { ref })
      g:notice("stage '%s': its input '%s' gets the bytes of '%s' as floats from 0 to 255; with g.to_float{ x, scale = true } "
        .. "in between they are from 0 to 1", node.name, port, name)
      return g._floats[name]
    end
  end
  return ref
end

local function wire(g, node, port, value)
  local refs = g._wired[node][port] or {}
  for _, ref in ipairs(core.kind(value) and { value } or value) do
    g._read[ref.name] = true
    ref = as_wanted(g, node, port, ref)
    g._raw:wire(node, port, ref)
    refs[#refs + 1] = ref
  end
  g._wired[node][port] = refs
end

-- Wires that stand without a name go to the inputs in order; a list input takes all that are left.
local function wire_all(g, node, inputs, named, first)
  local port = 1
  for i, value in ipairs(first) do
    if not inputs[port] then
      core.fail(("stage '%s' has %d input%s, but %d are given"):format(node.name, #inputs, #inputs == 1 and "" or "s",
        #first))
    end
    wire(g, node, inputs[port].name, value)
    if not inputs[port].list then port = port + 1 end
  end
  for _, input in ipairs(inputs) do
    if named[input.name] then wire(g, node, input.name, named[input.name]) end
    named[input.name] = nil
  end
  local left = next(named)
  if left then
    local names = {}
    for i, input in ipairs(inputs) do names[i] = input.name end
    core.fail(("stage '%s' has no input '%s'%s%s"):format(node.name, left, words.near(left, names),
      #names > 0 and " (inputs: " .. table.concat(names, ", ") .. ")" or ""))
  end
end

local function missing_input(g, node)
  for _, input in ipairs(node:inputs()) do
    if not input.optional and not g._wired[node][input.name] then return input.name end
  end
end

-- Plans a stage as soon as all it needs is wired.
local function plan(g, node)
  if node.optimizer or missing_input(g, node) then return end
  g._raw:plan(node)
  local from = g._weights[node]
  if from then
    g._weights[node] = nil
    g._raw:load(from, node)
  end
end

local function check_host(node, host)
  if not node.source then
    for _, row in ipairs(options.stage) do
      if row.groups ~= "" and host[row.name] ~= nil then
        core.fail(("stage '%s' reads no data, so it takes no '%s'"):format(node.name, row.name))
      end
    end
  end
end

function construct(g, stage, t)
  if t == g then
    local near = core.nearest(stage, words.keys(graph))
    core.fail(("a graph has no method '%s'%s"):format(stage,
      near and ("; did you mean 'g:%s'?"):format(near) or ("; a stage is added with a dot: g.%s{}"):format(stage)))
  end
  if t ~= nil and type(t) ~= "table" then
    core.fail(("g.%s{}: a table is wanted, got a %s"):format(stage, core.kind(t) or type(t)))
  end
  local params, host, named, first = split(stage, set.over(stage, t or {}))
  local from = weights.of(("stage '%s'"):format(host.name or stage), host.weights, params.layers)
  if params.workers == nil and g._raw:has_param(stage, "workers", host.on_cpu) then
    params.workers = g._opt.workers
  end
  if not g._opt.orient and params.orient == nil and g._raw:has_param(stage, "orient", host.on_cpu) then
    params.orient = false
  end
  for _, name in ipairs(options.reading) do
    local value = g._opt[name]
    if value ~= options.common[name][1] and params[name] == nil and g._raw:has_param(stage, name, host.on_cpu) then
      params[name] = value
    end
  end
  local grouped = groups.take(stage, params)
  local blocks = groups.blocks(params.layers)
  params.layers = models.bare(params.layers) -- behind whatever reads what the list says of itself
  local node = g._raw:add(stage, params, host)
  g._told[node] = { params, batch = host.batch, shuffle = host.shuffle, drop_last = host.drop_last, groups = grouped }
  g._applied, g._blocks[node] = false, blocks
  if grouped and not node.optimizer then
    core.fail(("stage '%s' is no optimizer: it takes neither groups nor no_decay, layer_decay or unfreeze"):format(node.name))
  end
  g._wired[node], g._made[node] = {}, core.where()
  check_host(node, host)
  g._weights[node] = from
  local inputs = node.optimizer and {} or node:inputs()
  wire_all(g, node, inputs, named, first)
  plan(g, node)
  return node
end

-- The device that the graph runs on: "cpu", "cuda", "cuda:1".
function graph:device()
  return self._opt.device
end

-- The same as g.NAME{...}, for a stage whose name is that of a method or in a variable.
function graph:stage(name, t)
  return construct(self, name, t)
end

-- Wires an input after the stage was added.
function graph:wire(node, port, value)
  if core.kind(node) ~= "node" then core.fail(("g:wire: a stage is wanted first, got a %s"):format(type(node))) end
  if not is_wires(value) then
    core.fail(("g:wire: the output of a stage is wanted, got a %s"):format(type(value)))
  end
  wire(self, node, port, value)
  self._applied = false
  plan(self, node)
end

-- ---- what is there ----

function graph:nodes() return self._raw:nodes() end

function graph:find(name)
  for _, node in ipairs(self._raw:nodes()) do
    if node.name == name then return node end
  end
  local names = {}
  for i, node in ipairs(self._raw:nodes()) do names[i] = node.name end
  strategy.missed = ("no stage '%s'%s"):format(tostring(name), words.near(tostring(name), names))
  return nil, ("no stage '%s'"):format(name)
end

local function pick(self, wanted)
  local list = {}
  for _, node in ipairs(self._raw:nodes()) do
    if not node.source and (wanted == nil or self._raw:in_trained_part(node) == wanted) then list[#list + 1] = node end
  end
  return list
end

-- All stages but the sources; those that training does not change; the others.
function graph:stages() return pick(self) end
function graph:frozen() return pick(self, false) end
function graph:trained() return pick(self, true) end

function graph:notice(fmt, ...)
  if self._notices then table.insert(self._notices, fmt:format(...)) end
  core.log("warn", fmt:format(...))
end

-- ---- training ----

local train_keys = { optimizer = true, lr = true, accumulate = true, optimizer_shards = true }

-- g:train{ loss, optimizer = g.sgd{}, lr = function(step) ... end, accumulate = k, optimizer_shards = true }
function graph:train(t)
  if type(t) ~= "table" or core.kind(t) then core.fail("g:train{ loss, optimizer = ... }: a table is wanted") end
  local losses = {}
  for k, v in next, t do
    if math.type(k) == "integer" then
      if not core.kind(v) then core.fail(("g:train{}: loss %d is a %s, not a stage"):format(k, type(v))) end
      losses[k] = v
    elseif not train_keys[k] then
      words.unknown("g:train{} has no option", k, train_keys)
    end
  end
  for k in next, losses do
    if k > 1 and losses[k - 1] == nil then core.fail(("g:train{}: loss %d is nil: is its name spelt right?"):format(k - 1)) end
  end
  if #losses == 0 then core.fail("g:train{}: a loss is missing, such as g:train{ g.cross_entropy{...}, ... }") end
  if core.kind(t.optimizer) ~= "node" or not t.optimizer.optimizer then
    core.fail("g:train{}: 'optimizer' must be an optimizer stage, such as optimizer = g.sgd{ lr = 1e-3 }")
  end
  if t.lr ~= nil and type(t.lr) ~= "function" then
    core.fail(("g:train{}: 'lr' must be a function(step), got a %s; a fixed rate is the optimizer's lr"):format(
      type(t.lr)))
  end
  local grouped, moments = groups.of(self, t.optimizer)
  self._raw:train { losses = losses, optimizer = t.optimizer, lr = t.lr, accumulate = t.accumulate,
    optimizer_shards = t.optimizer_shards, groups = grouped }
  self._phases, self._unfrozen = moments or false, moments and grouped.groups or false
  self._optimizer, self._losses, self._rated = t.optimizer, losses, t.lr and t.optimizer
  self._opt.optimizer_shards = self._opt.optimizer_shards or t.optimizer_shards or false
  self._told[t.optimizer].accumulate = t.accumulate
  self._applied = false
end

-- Chooses a strategy: a name, a file, a function(g), or a list of lanes.
function graph:strategy(what, name)
  local t = type(what)
  if t ~= "string" and t ~= "function" and t ~= "table" then
    core.fail(("g:strategy: a name, a file, a function or a list of lanes is wanted, got a %s"):format(t))
  end
  self._strategy, self._strategy_name, self._applied = what, name or false, false
end

local function check_wires(self)
  for _, node in ipairs(self._raw:nodes()) do
    local port = not node.optimizer and missing_input(self, node)
    if port then
      error(("%s: stage '%s': input '%s' is not wired"):format(self._made[node], node.name, port), 0)
    end
  end
end

-- Of --explain.
local LEGEND <const> = [[
In tick t a lane of delay d works on step t - d; "of step -3" is three steps before that one.
CALL: a stage runs. WAIT: a lane waits for what another one has RECORDed, SYNC: the host does. (4 events): so many take turns.
COPY: between processor and device. FILL: the host tells a lane its step. COLLECT: the host hands over a step's metrics.

]]

-- Lanes are derived once all stages are there; again if one was added since.
local function apply(self)
  strategy.refuse_within()
  if self._applied then return end
  check_wires(self)
  if not self._helps then set.check(self._raw:nodes()) end
  local explains = self._opt.explain and not core.env().schedule
  local later = phases.prove(self, explains)
  local lanes, name = strategy.lanes(self, self._strategy, self._strategy_name or nil)
  self._raw:lanes(name, lanes)
  self._lanes, self._applied = lanes, true
  local form = core.env().schedule
  if not (form or self._opt.explain) then return end
  core.only_prints()
  local text = form and schedule.show(self, form) or LEGEND .. self._raw:describe()
  for i, more in ipairs(explains and later or {}) do
    text = ("%s\nfrom %s on\n\n%s"):format(text, self._phases[i].words, more)
  end
  local picture = core.env().picture
  if core.env().rank > 0 then core.exit(0) end -- the other ranks have the same tasks
  if picture and picture ~= "-" then files.write(picture, text) else io.write(form and text or words.fold(text)) end
  core.exit(0)
end

graph._apply = apply

-- ---- running ----

-- What the ranks compute must be the same: a script that they have in two versions would find it out much later.
local function compare_ranks(self)
  local names, values = {}, {}
  local function add(name, value) names[#names + 1], values[#names + 1] = name, tostring(value) end
  for _, e in ipairs(identity.of(self)) do
    local kind, what, value = table.unpack(e)
    if kind ~= "times" then add(kind == "plugin" and what .. " (all have to load the same build)" or what, value) end
  end
  add("the steps between comparisons (--check-replicas)", self._opt.check_replicas)
  add("whether there is a trace (--trace)", self._trace ~= false)
  core.same(names, values)
  self._compared = true
end

-- Whether an evaluation is due behind so many steps, for which the loop pauses.
function graph:_pauses(steps)
  for _, e in ipairs(self._evals) do
    if steps % e.every == 0 then return true end
  end
  return false
end

-- ends: by a signal, also where checkpoints are saved.
local function evaluated(raw, data, ends)
  progress.validating(0)
  return raw:evaluate(data, progress.validating, ends)
end

-- What is due behind the step, into its metrics: m.eval is of the source that was named first; of several m.evals has each by
-- the source's name. False: a signal has cut it, and whoever saves checkpoints has the run end.
local function evaluate_due(self, step, m)
  local may_cut = self._keeper and self:_validates(step, step) and self._keeper:may_cut(step)
  for i, e in ipairs(self._evals) do
    if (step + 1) % e.every == 0 then
      local eval = evaluated(self._raw, e.data, may_cut)
      if not eval and may_cut then
        m.eval, m.evals = nil, nil
        return false
      end
      if i == 1 then m.eval = eval end
      if #self._evals > 1 then
        m.evals = m.evals or {}
        m.evals[e.data.name] = eval
      end
    end
  end
  return true
end

-- Whether a validation is due behind one of these steps.
function graph:_validates(first, last)
  for _, e in ipairs(self._evals) do
    if (last + 1) // e.every > first // e.every then return true end
  end
  return false
end

-- A loop over the next n steps, nil: without end; of a training with phases up to the end of this one.
local function begin(self, n)
  local raw = self._raw
  self._until = false
  if not self._phases then return raw:begin(n) end
  local first = raw:step()
  phases.begin(self, first)
  local ends = phases.ends(self, first)
  if ends and (not n or n > ends - first) then
    self._until = n and first + n or math.maxinteger
    n = ends - first
  end
  raw:begin(n)
end

-- The steps that the checkpoint has kept from which the run goes on, then those that run.
local function next_step(self)
  local m = table.remove(self._kept, 1)
  if m then
    m.time = sys.now()
    return m.step, m
  end
  local raw = self._raw
  local step, got = raw:next()
  if step or not self._until or raw:was_cut() then return step, got end
  begin(self, self._until < math.maxinteger and self._until - raw:step() or nil)
  return raw:next()
end

-- A signal has cut the validation behind the step m: no other step begins, and what those give that have is kept with it.
local function keep_steps(self, m)
  local kept = { m }
  self._raw:cut()
  for _, more in next_step, self do kept[#kept + 1] = more end
  self._keeper:keep(kept)
end

-- One that was left by an error where there are several ranks.
local function end_loop(self)
  if self._left then self._raw:stop() end
  self._left = false
end

local function has_weights(self)
  for _, node in ipairs(self._raw:nodes()) do
    for _, w in ipairs(node:weights()) do
      if w.trained then return true end
    end
  end
  return false
end

-- A loss that nothing trains for is what a forgotten g:train looks like: the steps run, and no weight changes.
local function say_untrained(self)
  if self._optimizer or self._untrained then return end
  for _, node in ipairs(self._raw:nodes()) do
    if node.loss and not node.eval_only and has_weights(self) then
      self._untrained = true
      return self:notice("nothing is trained: there is a loss, '%s', and no g:train{ %s, optimizer = ... }", node.name, node.name)
    end
  end
end

-- Gradients of the last steps of a loop may be of an update that has yet to come.
local function say_left_over(self, n)
  local k = self._optimizer and self._told[self._optimizer].accumulate or 1
  local left = (self._raw:step() + n) % k
  if left == 0 then return end
  self:notice("g:steps: an update takes %d steps (accumulate), so that the last %d of %d %s none; with %d steps %s, and a further "
    .. "g:steps resumes with %s", k, left, n, left == 1 and "is in" or "are in", n + k - left, left == 1 and "it is" or "they are",
    left == 1 and "it" or "them")
end

-- for step, m in g:steps(n) do ... end; n nil: without end. The loop runs in C.
function graph:steps(n)
  if n ~= nil and (math.tointeger(n) == nil or n < 0) then
    core.fail(("g:steps: the number of steps must be a whole number, got %s"):format(tostring(n)))
  end
  if n ~= nil and self._raw:serves() then
    core.fail "g:steps: a graph that reads requests runs until nobody submits any more; leave the number out, and break"
  end
  apply(self)
  local raw = self._raw
  if n == 0 then return function() end end
  say_untrained(self)
  end_loop(self)
  if n then say_left_over(self, n) end
  if ranks.n > 1 and self._optimizer and not self._compared then compare_ranks(self) end
  if not n or n > #self._kept then begin(self, n and math.tointeger(n) - #self._kept) end
  if #self._evals == 0 and not self._phases then return raw.next, raw, nil, self._stopper end
  return function()
    local step, m = next_step(self)
    if not step or evaluate_due(self, step, m) then return step, m end
    keep_steps(self, m)
  end, nil, nil, self._stopper
end

-- How many steps are in the weights that g:evaluate{ data = }, s:weight() and g:save() see now: in a loop's body up to run_ahead more
-- than have been given out.
function graph:steps_in_weights() return self._raw:boundary() end

-- g:evaluate{ data = source } -> means and sums over all of it | nil, "interrupted". With every = k it is run by
-- g:steps after each k steps, of the weights after as many, as m.eval; of several sources as m.evals.NAME, and m.eval is that of the
-- first.
function graph:evaluate(t)
  words.check_keys("g:evaluate{}", t, { data = true, every = true })
  if core.kind(t.data) ~= "node" or not t.data.source then
    core.fail("g:evaluate{}: 'data' must be a stage that reads data, such as data = g.reader{ split = \"val\" }")
  end
  if t.every == nil then
    apply(self)
    return evaluated(self._raw, t.data)
  end
  local every = math.tointeger(t.every)
  if not every or every < 1 then
    core.fail(("g:evaluate{}: 'every' must be a whole number of at least 1, got %s"):format(tostring(t.every)))
  end
  for _, e in ipairs(self._evals) do
    if e.data == t.data then
      core.fail(("g:evaluate{}: '%s' is evaluated each %d steps already"):format(e.data.name, e.every))
    end
  end
  self._raw:pause(every)
  self._evals[#self._evals + 1] = { data = t.data, every = every }
end

-- The same of the whole of a source, at the end of a run that saves checkpoints: a signal ends it.
function graph:_validate(data)
  apply(self)
  return evaluated(self._raw, data, true)
end

function graph:step()
  end_loop(self)
  return self._raw:step()
end

function graph:seek(step)
  end_loop(self)
  self._raw:seek(step)
  phases.seek(self, step)
end

function graph:epoch_steps()
  apply(self)
  return self._raw:epoch_steps()
end

-- Time per stage and lane in words; nil unless the graph was made with trace = FILE or timing = true.
function graph:timings() return self._raw:timings() end
function graph:allocations() return self._raw:allocations() end

-- append: the file of a run that goes on.
function graph:checksums(path, append)
  if type(path) ~= "string" then core.fail(("g:checksums: the path of a file is wanted, got a %s"):format(type(path))) end
  if not self._opt.checksums then
    core.fail "g:checksums: this graph computes none; make the graph with checksums = true"
  end
  self._raw:checksums(path, append)
end

-- Bytes that the run and its evaluations will take, by kind; known before they do.
function graph:memory()
  apply(self)
  return self._raw:memory()
end

-- An old name of a field.
local schedule_names = { __index = function(t, key)
  if key ~= "depth" then return nil end
  core.log("warn", "g:schedule(): 'depth' is called 'delay' now; the old name still works")
  return t.delay
end }

function graph:schedule()
  apply(self)
  return setmetatable(self._raw:schedule(), schedule_names)
end

-- What --explain prints: lanes, the operations of a tick as they are executed, buffers; the same of each evaluation.
function graph:describe()
  apply(self)
  return self._raw:describe()
end

-- The lanes of the strategy: { { name =, stages = { name, ... }, all that has a row in spcore.options }, ... }; parts of a stage
-- as "decoder.forward".
function graph:lanes()
  apply(self)
  local lanes = {}
  for i, lane in ipairs(self._lanes) do
    local stages = {}
    for j, item in ipairs(lane.stages) do
      stages[j] = core.kind(item) == "node" and item.name or item[1].name .. "." .. table.concat(item, ".", 2)
    end
    lanes[i] = { name = lane.name, stages = stages }
    for _, row in ipairs(options.lane) do lanes[i][row.name] = lane[row.name] end
  end
  return lanes
end

-- ---- weights ----

-- Weights of all stages to a safetensors file; options.optimizer: its moments too; options.averages: in the place of trained
-- weights the moving averages that the optimizer keeps (`ema`), where it does.
function graph:save(path, options)
  if type(path) ~= "string" then core.fail(("g:save: the path of a file is wanted, got a %s"):format(type(path))) end
  options = options or {}
  words.check_keys("g:save", options, { optimizer = true, averages = true })
  apply(self)
  self._raw:save(path, options.optimizer, options.averages)
end

-- All weights from a file or the folder of a run, or { FILE, prefix =, ignore = }.
function graph:load(from)
  local of = weights.of("g:load", from)
  if not of then core.fail "g:load: the path of a file is wanted" end
  apply(self)
  self._raw:load(of)
end

-- Frees everything. A graph in a variable marked <close> is closed at the end of its block.
function graph:close()
  self._raw:close()
  if self._trace and ranks.n > 1 and self._optimizer then merge_traces(self._trace) end
  self._trace = false
end

-- ---- the object ----

local meta = {
  __name = "graph",
  __close = function(g, why)
    if why ~= nil then g._trace = false end -- other ranks may not come along
    g:close()
  end,
  __tostring = function(g) return tostring(g._raw) end,
  __newindex = function(_, key)
    core.fail(("a graph's field '%s' cannot be assigned"):format(tostring(key)))
  end,
}

-- g.steps(...) and g:steps(...) are easily mixed up.
for name, f in next, graph do
  if name:sub(1, 1) ~= "_" then
    graph[name] = function(self, ...)
      if getmetatable(self) ~= meta then core.fail(("g:%s() is called with a colon"):format(name)) end
      return f(self, ...)
    end
  end
end

function meta.__index(g, key)
  if graph[key] then return graph[key] end
  if type(key) ~= "string" then core.fail(("a graph has no field of type %s"):format(type(key))) end
  local function constructor(t) return construct(g, key, t) end
  rawset(g, key, constructor)
  return constructor
end

-- Each rank has a file of its own.
local function trace_of(path)
  if not path or path == "" or ranks.first then return path end
  return ("%s-rank%d.json"):format((path:gsub("%.json$", "")), ranks.rank)
end

-- graph(opt): opt as sp.args gives it, or any table with device, seed, threads, strategy ...; all have defaults.
return function(opt)
  strategy.refuse_within()
  opt = opt or {}
  if type(opt) ~= "table" then core.fail(("sp.graph: a table of options is wanted, got a %s"):format(type(opt))) end
  local got, asked = {}, {} -- all that has a row, and what of it the core is asked for
  local apart = options.apart[opt] or {}
  for name, row in pairs(options.of_graph) do
    local value = rawget(opt, name)
    if apart[name] then value = nil end
    got[name] = options.checked("sp.graph", row, name, value)
  end
  if got.threads > 0 then core.set_threads(got.threads) end
  local device, why = devices.find(rawget(opt, "device") or "cpu")
  if not device then core.fail(("sp.graph: device '%s': %s"):format(opt.device, why)) end
  for _, row in ipairs(options.graph) do asked[row.name] = rawget(opt, row.name) end
  asked.device, asked.precision = device, devices.precision(device, got.precision)
  asked.trace, asked.trace_steps, asked.timing = trace_of(got.trace), got.trace_steps, rawget(opt, "timing")
  local raw = core.graph(asked)
  got.device, got.workers = device, devices.workers(device, got.workers)
  got.traced = got.trace ~= "" or rawget(opt, "timing") == true
  local g = {
    _trace = asked.trace ~= "" and asked.trace,
    _raw = raw, _wired = {}, _made = {},
    _blocks = {}, -- of known networks: see groups.lua
    _phases = false, _unfrozen = false, _phase = 0, _starts = false, _until = false, -- see phases.lua
    _told = {}, _notices = false, _weights = {}, _floats = {}, _evals = {}, _read = {},
    _applied = false, _untrained = false,
    _asked = { first = 1, last = 0, answer = {}, request = {} }, -- requests of this script
    _helps = rawget(opt, "helps") == true, -- another graph, and need not have all stages that --set names
    _kept = {}, _keeper = false, _compared = false, _left = false, _lanes = false, _optimizer = false, _rated = false,
    _losses = {}, _strategy_name = false,
    _strategy = rawget(opt, "strategy") or "serialized",
    _opt = got, depth = got.depth, run_ahead = got.run_ahead,
  }
  g._stopper = setmetatable({}, { __close = function(_, why)
    if why == nil or ranks.n == 1 then raw:stop()
    else g._left = true end -- by an error other ranks may not have: it ends where all begin another loop
  end })
  return setmetatable(g, meta)
end
