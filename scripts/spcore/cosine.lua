-- SPDX-License-Identifier: MIT
-- A learning-rate schedule: up in a line, then down along a cosine.
local core = require "spcore.core"
local words = require "spcore.words"

-- cosine{ lr = highest, steps = all steps, warm_up = steps of the rise (5 %), last = lowest as part of lr (0.01) } ->
-- function(step) for g:train{ lr = ... }
return function(t)
  words.check_keys("sp.cosine{}", t, { lr = true, steps = true, warm_up = true, last = true })
  if type(t.lr) ~= "number" or type(t.steps) ~= "number" then core.fail("sp.cosine{}: 'lr' and 'steps' must be numbers") end
  local warm_up, last = t.warm_up or math.max(1, t.steps // 20), t.last or 0.01
  local length = math.max(1, t.steps - warm_up)
  return function(step)
    if step < warm_up then return t.lr * (step + 1) / warm_up end
    local part = math.min(1, (step - warm_up) / length)
    return t.lr * (last + (1 - last) * 0.5 * (1 + math.cos(math.pi * part)))
  end
end
