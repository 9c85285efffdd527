-- SPDX-License-Identifier: MIT
-- Phases of a training: g.adamw{ unfreeze = { { "encoder.layer4", at = "epoch 3" } } } leaves weights as they are until then. Each phase
-- has a program of its own, planned and proved before the first step; between two of them no step is in flight.
local core = require "spcore.core"
local progress = require "spcore.progress"
local ranks = require "spcore.ranks"
local strategy = require "spcore.strategy"

local phases = {}

-- ---- what a script says ----

-- "epoch 3" -> { epochs = 3 }; 500 -> { steps = 500 }; nil: neither
local function moment(at)
  local steps = math.type(at) == "integer" and at or type(at) == "number" and math.tointeger(at)
  if steps then return steps > 0 and { steps = steps, words = ("step %d"):format(steps) } or nil end
  local epochs = type(at) == "string" and tonumber(at:match "^%s*epoch%s+(%d+%.?%d*)%s*$")
  if not epochs or epochs <= 0 then return nil end
  return { epochs = epochs, words = ("epoch %s"):format((("%g"):format(epochs))) }
end

-- Gives the groups of `unfreeze` their phases -> when each of the later ones begins. Those of the same moment are one.
function phases.take(where, groups)
  local moments = {}
  for i, group in ipairs(groups) do
    local when = moment(group.at)
    if not when then
      core.fail(("%s: unfreeze[%d]: at is a number of steps, such as at = 500, or of epochs, such as at = \"epoch 3\", got %s"):format(where, i,
        type(group.at) == "string" and ('"%s"'):format(group.at) or group.at == nil and "nothing" or tostring(group.at)))
    end
    local last = moments[#moments]
    if not last or last.words ~= when.words then moments[#moments + 1] = when end
    group.phase, group.when, group.at = #moments, when.words, nil
  end
  return moments
end

-- ---- when that is ----

-- The steps at which phases begin, the first at 0. An update of several steps belongs to one phase.
local function starts_of(g)
  if g._starts then return g._starts end
  local starts, k = { [0] = 0 }, g._told[g._optimizer].accumulate or 1
  local epoch = g._raw:epoch_steps()
  for i, when in ipairs(g._phases) do
    if when.epochs and epoch == 0 then
      core.fail(("unfreeze at %q: the graph reads no samples, so it has no epochs; give a number of steps, such as at = 500"):format(when.words))
    end
    local step = when.steps or math.max(1, math.floor(when.epochs * epoch))
    starts[i] = (step + k - 1) // k * k
    if starts[i] ~= step and ranks.first then
      core.log("info", ("unfreeze at %s: with %d steps an update that is step %d"):format(when.words, k, starts[i]))
    end
    if starts[i] < starts[i - 1] then -- two may fall together
      core.fail(("unfreeze: %s does not come after %s; list them in order of time (an epoch has %d steps)"):format(when.words,
        g._phases[i - 1].words, epoch))
    end
  end
  g._starts = starts
  return starts
end

local function at(g, step)
  local starts, phase = starts_of(g), 0
  while starts[phase + 1] and starts[phase + 1] <= step do phase = phase + 1 end
  return phase
end

-- Where the phase of `step` ends; nil: with the training.
function phases.ends(g, step) return starts_of(g)[at(g, step) + 1] end

-- What a run of so many steps never comes to, in words, and its step. nil steps: it has no last one.
function phases.missed(g, steps)
  if not g._phases or not steps then return end
  g:_apply()
  for i, when in ipairs(g._phases) do
    if starts_of(g)[i] >= steps then return when.words, starts_of(g)[i] end
  end
end

-- ---- from one to the next ----

local function set_lanes(g, what)
  local lanes, name = strategy.lanes(g, what, g._strategy_name or nil)
  g._raw:lanes(name, lanes)
  return lanes
end

-- Plans and proves every phase but the one that is now. auto tries strategies where a phase begins; until then it is serialized.
-- -> what --explain prints of them, by phase
function phases.prove(g, describes)
  local now, texts = g._phase, {}
  if not g._phases then return texts end
  g._raw:lanes("serialized", (strategy.lanes(g, "serialized")))
  starts_of(g)
  for i = #g._phases, 0, -1 do
    if i ~= now then
      g._raw:phase(i)
      set_lanes(g, g._strategy == "auto" and "serialized" or g._strategy)
      g._raw:memory()
      texts[i] = describes and g._raw:describe()
    end
  end
  g._raw:phase(now)
  return texts
end

-- Weights as they are before `step` are those of the phase of the step before: a checkpoint of there has what it keeps.
function phases.seek(g, step)
  if not g._phases then return end
  g:_apply()
  phases.enter(g, at(g, math.max(step - 1, 0)))
end

function phases.enter(g, phase)
  if phase == g._phase then return end
  g._raw:phase(phase)
  g._phase = phase
  g._lanes = set_lanes(g, g._strategy)
end

-- Before a loop begins at `step`.
function phases.begin(g, step)
  local phase, before = at(g, step), g._phase
  if phase == before then return end
  phases.enter(g, phase)
  if ranks.first and phase > before then
    local names = {}
    for _, group in ipairs(g._unfrozen) do
      if group.phase and group.phase > before and group.phase <= phase then names[#names + 1] = group.label or table.concat(group.names, ", ") end
    end
    progress.print("step %d, %s: %s %s trained from here on", step + 1, g._phases[phase].words, table.concat(names, ", "),
      #names == 1 and not names[1]:find "," and "is" or "are")
  end
end

return phases
