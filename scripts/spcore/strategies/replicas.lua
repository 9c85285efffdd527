-- SPDX-License-Identifier: MIT
-- Steps side by side, in a pool of --depth lanes (4 where that is 1): step t is on lane t mod n, with buffers of its own. For
-- graphs without training.
return function(g)
  if #g:trained() > 0 then
    g:notice("strategy 'replicas': what is trained needs the step before it; this is the same as 'serialized'")
    return { { name = "all", stages = g:stages() } }
  end
  return { { name = "pool", stages = g:stages(), replicas = g.depth > 1 and g.depth or 4 } }
end
