-- SPDX-License-Identifier: MIT
-- What of a case's graph depends on what, and where gradients come by.
local flow = {}

-- { { name = producer, port = its output, grad = a gradient may go back }, ... } of a node's inputs.
function flow.producers(node)
  local names = {}
  for _, input in ipairs(node.ins) do
    for _, ref in ipairs(input) do
      local name, port = ref:match "^([%w_]+)%.([%w_]+)"
      names[#names + 1] = { name = name, port = port, grad = node.grad and not input.nograd }
    end
  end
  return names
end

function flow.by_name(case)
  local by = {}
  for _, node in ipairs(case.nodes) do by[node.name] = node end
  return by
end

-- Nodes that have weights to train, or get gradients on the way to such.
function flow.learning(case)
  local learns = {}
  for _, node in ipairs(case.nodes) do
    learns[node.name] = node.trains and not node.params.frozen
    for _, p in ipairs(flow.producers(node)) do
      learns[node.name] = learns[node.name] or p.grad and learns[p.name]
    end
  end
  return learns
end

-- Nodes from which a gradient path leads to one of the losses.
function flow.leading(case, losses)
  local leads, by = {}, flow.by_name(case)
  local function back(name)
    if leads[name] then return end
    leads[name] = true
    for _, p in ipairs(flow.producers(by[name])) do if p.grad then back(p.name) end end
  end
  for _, name in ipairs(losses) do back(name) end
  return leads
end

return flow
