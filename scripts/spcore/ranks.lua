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

-- Averages of the weights of which each rank has a share (--optimizer-shards): a save with them takes all ranks.
function ranks.share_averages(g)
  return ranks.n > 1 and g._opt.optimizer_shards and g._raw:averages()
end

return ranks
