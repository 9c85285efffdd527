-- SPDX-License-Identifier: MIT
-- The graphs of graph_edges.c, which gives check(graph, drop): under every strategy and capture the edges of
-- all captured CUDA graphs are the schedule's; without any one wait they are not, and neither is what a schedule
-- without it would say.
local sp = require "spcore"
local opt = sp.args({ mutate = { true, "take waits out" } }, { doc = "Compares CUDA graphs with the schedule." })

local function graph(how)
  local g = sp.graph { device = "cuda", capture = how.capture, strategy = how.strategy, depth = how.depth, seed = 3 }
  return g, g.toy_classes { batch = 4, samples = 64 }
end

local function train(g, features, data)
  local head = g.layers { features, layers = { { "flatten" }, { "linear", data.classes } }, name = "head" }
  g:train { g.cross_entropy { head.features, data.label, name = "loss" }, optimizer = g.sgd { lr = 1e-2 } }
end

-- name -> makes the graph
local makes = {}

-- two frozen stages in a row, then what is trained
function makes.chain(how)
  local g, data = graph(how)
  local a = g.sleep { data.image, ms = 0.02, name = "a", frozen = true }
  local b = g.layers { a.y[1], layers = { { "conv", 4, kernel = 3, pad = 1 }, { "relu" } }, name = "b", frozen = true }
  train(g, b.features, data)
  return g
end

-- a frozen stage whose outputs are kept, so that rows are read in its place
function makes.kept(how)
  local g, data = graph(how)
  local a = g.sleep { data.image, ms = 0.02, name = "a" }
  local b = g.layers { a.y[1], layers = { { "conv", 4, kernel = 3, pad = 1 } }, name = "b", frozen = true, cache = "device" }
  local c = g.layers { b.features, layers = { { "relu" } }, name = "c", frozen = true }
  train(g, c.features, data)
  return g
end

-- three branches of one step, joined
function makes.diamond(how)
  local g, data = graph(how)
  local root = g.sleep { data.image, ms = 0.02, name = "root" }
  local left = g.sleep { root.y[1], ms = 0.03, name = "left" }
  local right = g.sleep { root.y[1], ms = 0.01, name = "right" }
  local far = g.sleep { g.sleep { data.image, ms = 0.01, name = "far1" }.y[1], ms = 0.01, name = "far2" }
  local sum = g.add { g.add { left.y[1], right.y[1], name = "near" }, far.y[1], name = "sum" }
  train(g, sum, data)
  return g
end

-- its end is on the processor
function makes.back(how)
  local g, data = graph(how)
  local a = g.sleep { data.image, ms = 0.02, name = "a" }
  local b = g.sleep { a.y[1], ms = 0.01, name = "b" }
  g.sleep { b.y[1], on_cpu = true, name = "c" }
  return g
end

-- everything in a lane of its own
local function spread(g)
  local lanes = {}
  for i, stage in ipairs(g:stages()) do
    lanes[#lanes + 1] = { name = "lane" .. i, stages = { { stage, "forward" } } }
    if not stage.optimizer then lanes[#lanes + 1] = { name = "back" .. i, stages = { { stage, "backward" } } } end
  end
  return lanes
end

-- by hand: the backward in a lane of its own, copies where the batch is read first
local function by_hand(g)
  local ahead, forward, backward = { { g:find "toy_classes", "copy" } }, {}, {}
  for _, stage in ipairs(g:frozen()) do ahead[#ahead + 1] = stage end
  for _, stage in ipairs(g:trained()) do
    if stage.optimizer then backward[#backward + 1] = stage
    else
      forward[#forward + 1] = { stage, "forward" }
      backward[#backward + 1] = { stage, "backward" }
    end
  end
  return {
    { name = "ahead", stages = ahead },
    { name = "forward", stages = forward, delay = 1, priority = "high" },
    { name = "backward", stages = backward, delay = 1 },
  }
end

local cases = {
  { "chain", "serialized" }, { "chain", "pipelined" }, { "chain", "pipelined", depth = 2 }, { "chain", "deep" },
  { "chain", "double_buffer" }, { "chain", by_hand }, { "chain", spread },
  { "kept", "serialized" }, { "kept", "pipelined" },
  { "diamond", "branches" }, { "diamond", "pipelined" }, { "diamond", "deep" }, { "diamond", spread },
  { "back", "double_buffer" }, { "back", "deep" }, { "back", "replicas", depth = 3 },
}

local function run(case, capture, drop)
  local own = type(case[2]) == "function"
  local g <close> = makes[case[1]] {
    capture = capture, strategy = own and "serialized" or case[2], depth = case.depth or 1,
  }
  if own then g:strategy(case[2](g), "by hand") end
  g:lanes() -- the strategy reaches the core
  return check(g._raw, drop)
end

local graphs, nodes, edges, waits = 0, 0, 0, 0
for _, case in ipairs(cases) do
  for _, capture in ipairs { "lane", "step" } do
    local name = ("%s, %s, capture %s"):format(case[1], type(case[2]) == "string" and case[2] or "by hand", capture)
    local wrong, n, n_nodes, n_edges, all, n_waits, noticed = run(case, capture, -1)
    if wrong then error(("%s: %s"):format(name, wrong)) end
    if n ~= all or n == 0 then error(("%s: %d graphs were recorded, %d are in the list"):format(name, n, all)) end
    graphs, nodes, edges = graphs + n, nodes + n_nodes, edges + n_edges
    if capture == "lane" then n_waits = 0 end -- waits are outside of those graphs
    if noticed ~= n_waits then
      error(("%s: %d of %d waits may be missing in the schedule unnoticed"):format(name, n_waits - noticed, n_waits))
    end
    for k = 0, opt.mutate and n_waits - 1 or -1 do
      local words = run(case, capture, k)
      if not words or not words:find("the graph does not", 1, true) then
        error(("%s: without wait %d: %s"):format(name, k, words or "nobody noticed"))
      end
    end
    waits = waits + n_waits
    print(("ok - %s: %d graphs, %d nodes, %d edges, %d waits"):format(name, n, n_nodes, n_edges, n_waits))
  end
end
print(("ok - %d graphs with %d nodes and %d edges are the schedules'"):format(graphs, nodes, edges))
print(("ok - each of %d waits is noticed when it is missing"):format(waits))
if waits < 30 then error("too few waits within ticks") end
