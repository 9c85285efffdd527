-- SPDX-License-Identifier: MIT
-- Makes a failing case small: drops stages, lanes, options, steps one by one while it still fails the same way.
local script = require "strategies_script"

local function copy(v)
  if type(v) ~= "table" then return v end
  local c = {}
  for k, x in pairs(v) do c[k] = copy(x) end
  return c
end

local function drop(list, test)
  for i = #list, 1, -1 do if test(list[i]) then table.remove(list, i) end end
end

local function drop_from_lanes(case, gone)
  drop(case.parts or {}, function(m) return gone[m.node] end)
  for _, lane in ipairs(case.lanes or {}) do drop(lane.stages, function(name) return gone[name] end) end
  drop(case.lanes or {}, function(lane) return #lane.stages == 0 end)
end

-- ---- stages ----

local optional = { scale = true, masks = true, skips = true }

-- What a reader of a node that goes reads instead: what that node read, where that has the same shape.
local function rewire(reader, node)
  for k = #reader.ins, 1, -1 do
    local input = reader.ins[k]
    for r = #input, 1, -1 do
      local name, port = input[r]:match "^([%w_]+)%.(.*)$"
      local instead = node.alias and node.alias[port]
      if name == node.name and instead then input[r] = instead elseif name == node.name then table.remove(input, r) end
    end
    if #input == 0 and optional[input.port] then table.remove(reader.ins, k) end
  end
end

local function starved(case)
  for i, node in ipairs(case.nodes) do
    for _, input in ipairs(node.ins) do
      if #input == 0 then return i end
    end
  end
end

-- Without the i-th node and all that cannot be without it; nil where that leaves no case.
local function without_node(case, i)
  local gone = {}
  case = copy(case)
  while i do
    local node = table.remove(case.nodes, i)
    gone[node.name] = true
    for _, reader in ipairs(case.nodes) do rewire(reader, node) end
    i = starved(case)
  end
  drop(case.losses, function(name) return gone[name] end)
  drop(case.events, function(e) return gone[e.node] or gone[e.source] end)
  drop(case.evals, function(e) return gone[e.source] end)
  drop(case.sources, function(name) return gone[name] end)
  drop(case.results or {}, function(ref) return gone[ref:match "^[%w_]+"] end)
  drop_from_lanes(case, gone)
  if not gone.data and (#case.losses > 0 or not case.trained) then return case end
end

local function without_training(c)
  if #c.losses == 0 then return false end
  c.losses, c.lr, c.accumulate, c.trained, c.opt.shards = {}, nil, 1, false, nil
  drop(c.nodes, function(node) return node.optimizer end)
  drop(c.events, function(e) return e.param end)
  drop_from_lanes(c, { opt = true })
end

-- ---- what is tried, coarse first: each calls with(change), which gets a copy to change ----

local function fewer_variants(case, with)
  for i = 1, #case.variants > 1 and case.kind ~= "refusal" and #case.variants or 0 do
    with(function(c) c.variants = { c.variants[i] } end)
  end
  if #case.loops > 1 then with(function(c) c.loops[2] = nil end) end
end

local function fewer_stages(case, _, yield)
  for i = #case.nodes, 1, -1 do
    local node = case.nodes[i]
    local c = node.name ~= "data" and not node.optimizer and without_node(case, i)
    if c then yield(c) end
  end
end

local function fewer_results(case, with)
  if case.results then with(function(c) c.results = nil end) end
  for i = 1, #(case.results or {}) do with(function(c) table.remove(c.results, i) end) end
end

local function less_training(case, with)
  with(without_training)
  for i = 1, #case.losses > 1 and #case.losses or 0 do with(function(c) table.remove(c.losses, i) end) end
  for i = 1, #case.events do with(function(c) table.remove(c.events, i) end) end
  for i = 1, #case.evals do with(function(c) table.remove(c.evals, i) end) end
  if case.lr then with(function(c) c.lr = nil end) end
  if case.accumulate > 1 then with(function(c) c.accumulate = 1 end) end
  if case.opt.shards then with(function(c) c.opt.shards = nil end) end
end

local function fewer_steps(case, with)
  for i, loop in ipairs(case.loops) do
    for _, key in ipairs { "seek", "break_at", "error_at", "n" } do
      local now = loop[key]
      if now and key ~= "n" then with(function(c) c.loops[i][key] = nil end) end
      if now and now > 1 then with(function(c) c.loops[i][key] = now // 2 end) end
      if now and now > 1 then with(function(c) c.loops[i][key] = now - 1 end) end
    end
  end
  for i, e in ipairs(case.events) do
    if e.step > 0 then with(function(c) c.events[i].step = e.step // 2 end) end
  end
end

local function merged(i, k)
  return function(c)
    for _, name in ipairs(table.remove(c.lanes, i).stages) do table.insert(c.lanes[k].stages, name) end
  end
end

local function simpler_lanes(case, with)
  if case.kind == "refusal" and case.lanes then return end -- others may be refused for a reason
  for i in ipairs(case.parts or {}) do with(function(c) table.remove(c.parts, i) end) end
  if case.strategy then with(function(c) c.strategy, c.lanes = "serialized", {} end) end
  for i, lane in ipairs(case.lanes or {}) do
    for k = 1, i - 1 do with(merged(i, k)) end
    if lane.delay > 0 then with(function(c) c.lanes[i].delay = lane.delay - 1 end) end
    for _, key in ipairs { "extra", "replicas" } do
      if lane[key] then with(function(c) c.lanes[i][key] = nil end) end
    end
    if lane.priority ~= "normal" then with(function(c) c.lanes[i].priority = "normal" end) end
    for _, name in ipairs(lane.stages) do
      if name == "opt" or name == "data" then with(function(c) drop_from_lanes(c, { [name] = true }) end) end
    end
  end
  with(function(c)
    for _, lane in ipairs(c.lanes or {}) do lane.delay = math.max(lane.delay - 1, 0) end
    if not case.lanes or #case.lanes < 2 then return false end
  end)
end

local plain = { parts = 1, checksums = false, threads = 1, workers = 1, prefetch = 1, run_ahead = 0, seed = 1 }

local function simpler_options(case, with)
  for key, value in pairs(plain) do
    local now = case.opt[key]
    if now and now ~= value then with(function(c) c.opt[key] = value or nil end) end
    if now and now ~= value and key == "run_ahead" then with(function(c) c.opt[key] = now - 1 end) end
  end
end

local removable = {
  "on_cpu", "drift", "gain", "fail_at", "momentum", "nonfinite", "max_nonfinite", "clip_norm", "report_norm", "shuffle",
  "drop_last", "target", "factors",
}

local function smaller_data(case, i, with)
  local p = case.nodes[i].params
  local samples, batch = tonumber(p.samples), tonumber(p.batch)
  if samples and samples > 4 then with(function(c) c.nodes[i].params.samples = tostring(samples // 2) end) end
  if not batch or batch == 1 then return end
  with(function(c)
    for _, s in ipairs(c.nodes) do
      if s.source then s.params.batch = tostring(batch - 1) end
    end
  end)
end

local function simpler_stages(case, with)
  for i, node in ipairs(case.nodes) do
    for _, key in ipairs(removable) do
      local has = node.params[key] and node.stage ~= "reader"
      if has then with(function(c) c.nodes[i].params[key] = nil end) end
    end
    if node.stage == "fuzz_mix" and node.params.learn ~= "0" then
      with(function(c) c.nodes[i].params.learn, c.nodes[i].params.frozen, c.nodes[i].trains = "0", nil, false end)
    end
    for k, input in ipairs(node.ins) do
      for r = 1, #input > 1 and #input or 0 do with(function(c) table.remove(c.nodes[i].ins[k], r) end) end
      if optional[input.port] then with(function(c) table.remove(c.nodes[i].ins, k) end) end
    end
    smaller_data(case, i, with)
  end
end

local passes = {
  fewer_variants, fewer_stages, fewer_results, less_training, fewer_steps, simpler_lanes, simpler_options, simpler_stages,
}

local function candidates(case, yield)
  local function with(change)
    local c = copy(case)
    if change(c) ~= false then yield(c) end
  end
  for _, pass in ipairs(passes) do pass(case, with, yield) end
end

-- ---- the search ----

-- A case that depends on the order of threads does not fail each time, so a smaller one gets a second attempt.
local function tester(kind, try, budget)
  return function(case)
    for _ = 1, 2 do
      if budget <= 0 then return nil, true end
      budget = budget - 1
      local k, words = try(script.text(case))
      if k == kind then return words end
      if k == "useless" then return nil end
    end
  end
end

-- The first smaller case that still fails, and its words.
local function smaller(case, fails)
  for c in coroutine.wrap(function() candidates(case, coroutine.yield) end) do
    local words, spent = fails(c)
    if words or spent then return words and c, words end
  end
end

-- shrink(case, kind, try, budget) -> the script of a smaller case. try(text) -> kind, words: runs a script in another
-- process; budget: how often.
return function(case, kind, try, budget)
  local fails = tester(kind, try, budget)
  local best, words = copy(case), fails(case)
  best.kind, best.trained = kind, #case.losses > 0
  while words do
    local c, why = smaller(best, fails)
    if not c then break end
    best, words = c, why
  end
  return ("-- %s: %s\n%s"):format(kind, words or "not again, when it was tried alone", script.text(best))
end
