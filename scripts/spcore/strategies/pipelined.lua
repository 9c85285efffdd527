-- SPDX-License-Identifier: MIT
-- The frozen part of step n + depth beside the training of step n.
return function(g)
  local frozen, trained = g:frozen(), g:trained()
  if #frozen == 0 or #trained == 0 then
    g:notice("strategy 'pipelined': %s, so nothing can overlap; this is the same as 'serialized'",
      #frozen == 0 and "there is no frozen stage" or "nothing is trained")
    return { { name = "all", stages = g:stages(), delay = 0 } }
  end
  return {
    { name = "ahead", stages = frozen, delay = 0 },
    { name = "train", stages = trained, delay = g.depth, priority = "high" },
  }
end
