-- SPDX-License-Identifier: MIT
-- Learning rates for g:train{ lr = ... }: functions of the step, which counts from 0.
local core = require "spcore.core"
local words = require "spcore.words"

local rates = {}

-- The options of t over the defaults; each of `spec` is { least, most, default, whole = a whole number is wanted }. One
-- without a default must be given, unless it is `optional`.
local function options(what, t, spec)
  local o = {}
  words.check_keys(what, t, spec)
  for _, name in ipairs(words.keys(spec)) do
    local least, most, default, whole = spec[name][1], spec[name][2], spec[name][3], spec[name].whole
    local v = t[name]
    if v == nil then v = default end
    if v == nil and not spec[name].optional then core.fail(("%s: '%s' is missing"):format(what, name)) end
    if whole and type(v) == "number" then v = math.tointeger(v) end
    if t[name] ~= nil and (type(v) ~= "number" or not (v >= least and v <= most and v < math.huge)) then
      core.fail(("%s: '%s' must be a %s, %s, got %s"):format(what, name, whole and "whole number" or "number",
        most < math.huge and ("%g to %g"):format(least, most) or ("at least %g"):format(least), tostring(t[name])))
    end
    o[name] = v
  end
  return o
end

local any, some = { 0, math.huge }, { 1, math.huge, whole = true }

-- From `from` to `to` along half a cosine, at 0..1 of the way.
local function along(from, to, part)
  return to + (from - to) * 0.5 * (1 + math.cos(math.pi * part))
end

-- cosine{ lr = highest, steps = all steps, warm_up = steps of the rise (5 %), last = lowest as part of lr (0.01) } ->
-- function(step): up in a line, then down along a cosine
function rates.cosine(t)
  local o = options("sp.cosine{}", t, {
    lr = any, steps = any, warm_up = { 0, math.huge, optional = true }, last = { 0, math.huge, 0.01 },
  })
  local warm_up = o.warm_up or math.max(1, o.steps // 20)
  local length = math.max(1, o.steps - warm_up)
  return function(step)
    if step < warm_up then return o.lr * (step + 1) / warm_up end
    return o.lr * along(1, o.last, math.min(1, (step - warm_up) / length))
  end
end

-- step_rate{ lr = first, every = steps of each rate, factor = of one to the next (0.1) } -> function(step), PyTorch's StepLR
function rates.step_rate(t)
  local o = options("sp.step_rate{}", t, { lr = any, every = some, factor = { 0, math.huge, 0.1 } })
  return function(step) return o.lr * o.factor ^ (step // o.every) end
end

-- one_cycle{ lr = highest, steps = all steps, rise = part of them that rises (0.3), first, last = rates at the beginning and
-- at the end as parts of lr (1/25, 4e-6) } -> function(step), PyTorch's OneCycleLR with cosines and two phases
function rates.one_cycle(t)
  local o = options("sp.one_cycle{}", t,
    { lr = any, steps = some, rise = { 0, 1, 0.3 }, first = { 0, 1, 1 / 25 }, last = { 0, 1, 4e-6 } })
  local top, length = o.rise * o.steps - 1, (1 - o.rise) * o.steps
  return function(step)
    if top > 0 and step <= top then return o.lr * along(o.first, 1, step / top) end
    return o.lr * along(1, o.last, length > 0 and math.min(1, (step - top) / length) or 1)
  end
end

return rates
