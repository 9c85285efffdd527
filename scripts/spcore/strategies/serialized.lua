-- SPDX-License-Identifier: MIT
-- One lane: every stage of a step runs after the one before it. The baseline, and what all others must equal.
return function(g)
  return { { name = "all", stages = g:stages(), delay = 0 } }
end
