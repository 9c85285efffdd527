-- SPDX-License-Identifier: MIT
-- What is different on the ranks of a job: files, and what is printed, are the first one's business. Whatever steers a script
-- must be the same on all of them, so what the first reads it tells the others.
local core = require "spcore.core"

local env = core.env()
local ranks = { rank = env.rank, n = env.ranks, first = env.rank == 0 }

-- What fn gives on the first rank, a string, on all.
function ranks.told(fn, ...)
  if ranks.n == 1 then return fn(...) end
  return core.broadcast(ranks.first and fn(...) or nil)
end

return ranks
