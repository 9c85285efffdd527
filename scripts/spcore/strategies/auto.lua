-- SPDX-License-Identifier: MIT
-- Whichever of the others is the fastest here: it measures, tries the best two beside serialized before the first step, prints
-- why, and remembers the choice.
return function(g) return require "spcore.auto" (g) end
