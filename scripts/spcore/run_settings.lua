-- SPDX-License-Identifier: MIT
-- What is known of a run before its first step, for settings.json; and the lines that a run begins with.
local args = require "spcore.args"
local core = require "spcore.core"
local progress = require "spcore.progress"
local ranks = require "spcore.ranks"
local sys = require "spcore.sys"
local words = require "spcore.words"

local settings = {}

local function options_of(opt)
  local t = {}
  for k, v in pairs(opt) do
    if type(v) ~= "table" then t[k] = words.bare(v) end
    if type(v) == "table" and #v > 0 then
      t[k] = {}
      for i, one in ipairs(v) do t[k][i] = words.bare(one) end
    end
  end
  return t
end

local one <const> = { class = "class", mask = "class", labels = "label", numbers = "number", map = "number" }

-- "classes", or what else the target of a reader counts.
local function counted(g, node)
  local target = g._told[node] and g._told[node][1].target
  local word = one[target] or "class"
  return (node.classes == 1 and word or word == "class" and "classes" or word .. "s") .. (target == "map" and " for each pixel" or "")
end

-- "448 train, 64 val, 5 classes, left out: 3 files of other endings", of a source that says it; nil: none does.
local function data_of(g)
  for _, node in ipairs(g:nodes()) do
    local told, splits = pcall(function() return node.source and node.splits end)
    local train, val = (told and splits or ""):match "^train (%d+) val (%d+)$"
    if train then
      local left = node.left_out:gsub(", such as .*", "")
      return ("%s train, %s val, %d %s%s"):format(train, val, node.classes, counted(g, node),
        left ~= "" and ", left out: " .. left or "")
    end
  end
end

-- { total =, trained =, frozen = }: numbers that a training may change. Running statistics and what the optimizer keeps are none.
local function parameters_of(g)
  local t = { total = 0, trained = 0, frozen = 0 }
  for _, node in ipairs(g:nodes()) do
    for _, w in ipairs(not node.optimizer and node:weights() or {}) do
      local n = (w.name:find "running_" or w.name:find "num_batches_tracked") and 0 or 1 -- statistics
      for _, size in ipairs(w.shape) do n = n * size end
      local kind = w.trained and "trained" or "frozen"
      t[kind], t.total = t[kind] + n, t.total + n
    end
  end
  return t
end

-- What was typed.
local function command_of(env)
  local list = { "spcore", "run", env.script }
  for _, word in ipairs(core.argv()) do list[#list + 1] = words.quoted(words.bare(word)) end
  return table.concat(list, " ")
end

function settings.of(g, opt, more)
  local env, o, effect = core.env(), g._opt, g._raw:options()
  local stages = {}
  for i, node in ipairs(g:nodes()) do
    local told = g._told[node]
    stages[i] = { name = node.name, stage = node.stage, frozen = node.frozen, k = node.stage == "accuracy" and told and told[1].k or nil }
  end
  local lanes, delay = g:lanes(), 0 -- the longest
  for _, lane in ipairs(lanes) do delay = math.max(delay, lane.delay) end
  local t = {
    spcore = env.version, abi = env.abi, lua = _VERSION, script = env.script, folder = sys.realpath ".",
    date = os.date("!%Y-%m-%dT%H:%M:%SZ"),
    device = o.device, precision = effect.precision, capture = effect.capture, threads = env.threads, seed = o.seed,
    run_ahead = o.run_ahead, shards = o.shards, ranks = ranks.n,
    parts = o.parts, prefetch = o.prefetch, init = o.init, checksums = o.checksums,
    strategy = g:schedule().strategy, delay = delay, lanes = lanes, memory = g:memory(), stages = stages,
    options = options_of(opt), data = data_of(g), command = command_of(env), parameters = parameters_of(g),
    given = args.is_options(opt) and args.given[1] and args.given or nil, -- what the command line says; the rest are defaults
  }
  for k, v in pairs(more) do
    if type(k) ~= "string" then core.fail("sp.run{}: 'settings' must have names, such as settings = { model = ... }") end
    if t[k] ~= nil or k == "data" then
      core.fail(("sp.run{}: 'settings' has '%s', which settings.json has of its own"):format(k))
    end
    t[k] = v
  end
  return t
end

local function size(bytes)
  local units, i = { "B", "KiB", "MiB", "GiB", "TiB" }, 1
  while bytes >= 1024 and units[i + 1] do
    bytes, i = bytes / 1024, i + 1
  end
  return (i == 1 and "%d %s" or "%.1f %s"):format(bytes, units[i])
end

function settings.print(s, dir)
  progress.print("spcore %s  %s", s.spcore, s.script)
  -- What is as everywhere is left out.
  local how = s.device .. (s.precision ~= "fp32" and ", " .. s.precision or "")
  how = how .. (s.capture ~= "off" and ", capture " .. s.capture or "")
  local lanes = (#s.lanes > 1 or s.delay > 0) and (" (%d lane%s, delay %d)"):format(#s.lanes, #s.lanes == 1 and "" or "s", s.delay)
  progress.wrapped("device %s  strategy %s%s  threads %d  seed %d", how, s.strategy, lanes or "", s.threads, s.seed)
  local kept = s.memory.cache > 0 and (", cache %s"):format(size(s.memory.cache)) or ""
  if s.memory.host > 0 then kept = kept .. (", cache %s of the host"):format(size(s.memory.host)) end
  progress.wrapped("memory %s: weights %s, gradients %s, optimizer %s, activations %s, saved %s, scratch %s%s",
    size(s.memory.total), size(s.memory.weights), size(s.memory.gradients),
    size(s.memory.optimizer), size(s.memory.activations), size(s.memory.saved),
    size(s.memory.scratch), kept)
  if s.device == "cpu" and s.ranks > 1 and s.options.threads == 0 then
    progress.wrapped("each of the %d ranks has %d threads, as many as there are processors: with a part of them (--threads) "
      .. "for each rank of a host it is faster; their number may change bits", s.ranks, s.threads)
  end
  if s.data then progress.wrapped("data %s%s", s.options.data and s.options.data .. ": " or "", s.data) end
  progress.print("folder %s", dir)
end

return settings
