-- SPDX-License-Identifier: MIT
-- Strategy auto: measures what every call costs alone and what lanes cost together, predicts every strategy, tries the best two
-- against serialized in turns, and keeps the winner if it is worth it. What it tries leaves no trace: see core/run/trial.h.
local choices = require "spcore.choices"
local core = require "spcore.core"
local limit = require "spcore.limit"
local progress = require "spcore.progress"
local ranks = require "spcore.ranks"
local strategy = require "spcore.strategy"

local LEAST = 0.02 -- gain that a strategy must bring
local SLOW = 0.05 -- of the budget: where a step takes longer, only what is predicted to gain is tried, and little of it

-- ---- candidates ----

-- Each name with the depths that are tried, besides the one asked for; replicas has four lanes where that is 1.
local shipped = {
  { name = "serialized", depths = {} },
  { name = "pipelined", depths = { 1, 2 } },
  { name = "deep", depths = { 1, 2 } },
  { name = "double_buffer", depths = {} },
  { name = "branches", depths = {} },
  { name = "replicas", depths = { 2, 4, 8 } },
}

local function find_shipped(name)
  for _, one in ipairs(shipped) do
    if one.name == name then return one end
  end
end

local function label_of(name, depth)
  return #find_shipped(name).depths > 0 and ("%s, depth %d"):format(name, depth) or name
end

-- f with nothing said, but for errors; what strategies would have said goes into `notices`.
local function silently(g, notices, f, ...)
  local level = core.log_level "error"
  g._notices = notices
  local got = table.pack(pcall(f, ...))
  g._notices = false
  core.log_level(level)
  if not got[1] then error(got[2], 0) end
  return table.unpack(got, 2, got.n)
end

local function lanes_at(g, name, depth)
  local asked = g.depth
  g.depth = depth
  local ok, lanes = pcall(strategy.lanes, g, name)
  g.depth = asked
  if not ok then error(lanes, 0) end
  return lanes
end

local function depths_of(g, one)
  local list, seen = {}, {}
  if #one.depths == 0 then return { g.depth } end
  for _, depth in ipairs { g.depth, table.unpack(one.depths) } do
    if not seen[depth] and depth >= one.depths[1] then list[#list + 1] = depth end
    seen[depth] = true
  end
  table.sort(list)
  return list
end

-- What differs from what came before it, with the memory that it takes; those that are refused say why.
local function candidates(g, notices)
  local list = {}
  for _, one in ipairs(shipped) do
    for _, depth in ipairs(depths_of(g, one)) do
      local c = { name = one.name, depth = depth, label = label_of(one.name, depth) }
      c.lanes = lanes_at(g, c.name, depth)
      local index, why = g._raw:trial_add(c.name, c.lanes)
      local known = false
      for _, other in ipairs(list) do known = known or other.index == index and index ~= nil end
      c.index = index
      if index and not known then
        c.memory, c.refused = g._raw:trial_memory(index)
        list[#list + 1] = c
      elseif not index then
        c.refused = why
        list[#list + 1] = c
      end
    end
  end
  return list
end

local function limit_of(g, c)
  return limit(c.forecast, g:device() == "cpu" and "the processors" or "the device")
end

-- ---- measuring ----

-- What a step of the graph says that fails: raised as a value that choose() tells apart.
local failure = {}
failure.__index = failure

local function check(got, why, kind)
  if got then return got end
  error(setmetatable({ why = why, kind = kind }, failure), 0)
end

local function interrupted()
  if core.interrupted() then error(setmetatable({ why = "interrupted", kind = "interrupted" }, failure), 0) end
end

local function predict(raw, c)
  c.forecast = check(raw:trial_predict(c.index))
  c.seconds = c.forecast.seconds
end

-- The fastest first; of those that are as fast the one with the least memory.
local function sort(list)
  local function key(c) return math.floor(math.log(c.seconds) / math.log(1.005)) end
  table.sort(list, function(a, b)
    local x, y = key(a), key(b)
    if x ~= y then return x < y end
    if a.memory ~= b.memory then return a.memory < b.memory end
    return a.index < b.index
  end)
end

-- Beside the others while memory lasts, else without them: they are built again for their next turn.
local function run_beside(raw, c, steps, others)
  local t, why, kind = raw:trial_run(c.index, steps)
  if kind ~= "memory" then return t, why, kind end
  for _, other in ipairs(others) do raw:trial_drop(other.index) end
  return raw:trial_run(c.index, steps)
end

-- Built, run for a few steps, its lanes measured two by two. A strategy that cannot be built is refused; what fails otherwise
-- would fail in any.
local function measure(raw, c, base, steps, seconds)
  interrupted()
  local t, why, kind = run_beside(raw, c, steps, { base })
  if t then t, why, kind = raw:trial_measure(c.index, seconds) end
  if not t and kind == "memory" and base then
    c.refused = why
    return
  end
  check(t, why, kind)
  predict(raw, c)
  c.measured = true
end

-- The first, and the first of another name: the same at another depth tells little more, unless it is predicted to.
local function pick_two(list)
  local first, alike, other
  for _, c in ipairs(list) do
    if c.refused then goto next end
    if not first then first = c
    elseif c.name == first.name then alike = alike or c
    else other = other or c end
    ::next::
  end
  if alike and other and other.seconds < 1.03 * alike.seconds then alike = nil end
  return { first, alike or other }
end

-- Predictions without what lanes do to each other can only be too good, so those that lead are measured until two are ahead of
-- all that were not.
local function find_best(raw, list, base, steps, budget)
  for _ = 1, #list do
    sort(list)
    local next
    for _, c in ipairs(pick_two(list)) do
      if not c.measured then next = next or c end
    end
    local least = base.achieved > SLOW * budget and 1 + LEAST or 1
    if not next or next.seconds * least > base.seconds then break end
    measure(raw, next, base, steps, 0.08 * budget)
    raw:trial_drop(next.index)
  end
  sort(list)
  return pick_two(list)
end

-- ---- trying ----

local function median(list)
  local v = table.move(list, 1, #list, 1, {})
  table.sort(v)
  return #v % 2 == 1 and v[#v // 2 + 1] or 0.5 * (v[#v // 2] + v[#v // 2 + 1])
end

-- How far their median may be off, as a part of it: how much the middle half of them differs, over the root of their number.
local function noise(list)
  local v = table.move(list, 1, #list, 1, {})
  table.sort(v)
  local low, high = 1 + #v // 4, #v - #v // 4
  return (v[high] - v[low]) / median(v) / math.sqrt(#v)
end

local function turn(raw, c, steps, all)
  interrupted()
  c.turns[#c.turns + 1] = check(run_beside(raw, c, steps, all))
end

-- Each turn beside serialized's of the same round, so that what changes slowly changes both.
local function gain_of(c, base)
  local ratios = {}
  for i, t in ipairs(c.turns) do ratios[i] = base.turns[i] / t end
  return median(ratios) - 1
end

local function try(raw, base, best, budget)
  local all = { base, table.unpack(best) }
  for _, c in ipairs(all) do c.turns = {} end
  local step = base.achieved
  local around = 10 -- steps that a turn takes besides
  local rounds = math.max(2, math.min(15, math.floor(budget / (#all * 2 * around * step))))
  local steps = math.max(1, math.min(5000, math.floor(budget / rounds / #all / step) - around))
  for _, c in ipairs(all) do
    if step < 0.1 * budget then turn(raw, c, 1, all) end -- graphs are recorded, memory is touched
    c.turns = {}
  end
  for _ = 1, rounds do
    for _, c in ipairs(all) do
      local hopeless = c ~= base and #c.turns > 2 and gain_of(c, base) < -0.1
      if not hopeless then turn(raw, c, steps, all) end
    end
  end
  for _, c in ipairs(all) do
    c.achieved = median(c.turns)
    c.gain = gain_of(c, base)
  end
  base.noise = noise(base.turns)
end

-- ---- words ----

local function rate(seconds)
  local r = 1 / seconds
  return (r >= 100 and "%.0f" or r >= 10 and "%.1f" or "%.3f"):format(r)
end

local function size(bytes)
  local units, i = { "B", "KiB", "MiB", "GiB" }, 1
  while bytes >= 1000 and units[i + 1] do bytes, i = bytes / 1024, i + 1 end
  return ("%.3g %s"):format(bytes, units[i])
end

local function print_table(g, list)
  local rows = { { "strategy", "predicted", "achieved", "memory", "limited by" } }
  for _, c in ipairs(list) do
    local row = { c.label, "", "", c.memory and size(c.memory) or "", "" }
    if c.refused then
      row[5] = "refused: " .. c.refused
    else
      row[2] = (c.measured and "" or "< ") .. rate(c.seconds)
      row[3] = c.turns and rate(c.achieved) or ""
      row[5] = limit_of(g, c)
    end
    rows[#rows + 1] = row
  end
  local widths = {}
  for _, row in ipairs(rows) do
    for i, cell in ipairs(row) do widths[i] = math.max(widths[i] or 0, #cell) end
  end
  progress.wrapped("strategy auto on %s: steps a second", g:device())
  for _, row in ipairs(rows) do
    local line = ("  %%-%ds  %%%ds  %%%ds  %%%ds  %%s"):format(widths[1], widths[2], widths[3], widths[4])
    progress.print("%s", (line:format(table.unpack(row)):gsub(" +$", "")))
  end
end

-- The calls that take longest by themselves.
local function print_costs(costs)
  table.sort(costs, function(a, b) return a.seconds > b.seconds end)
  local words = {}
  for i = 1, math.min(6, #costs) do
    words[i] = ("%s %.3g ms"):format(costs[i].name, costs[i].seconds * 1e3)
  end
  progress.wrapped("  alone: %s%s", table.concat(words, ", "), #costs > 6 and " ..." or "")
end

-- Why others were the same: what they said themselves.
local function none_differs(notices)
  local reasons, seen = {}, {}
  for _, text in ipairs(notices) do
    local reason = text:match "^strategy '[^']*': (.-); this is the same" or text
    reason = reason:gsub(", so nothing can overlap$", "")
    if not seen[reason] then reasons[#reasons + 1] = reason end
    seen[reason] = true
  end
  return "every other strategy does the same here" .. (#reasons > 0 and ": " .. table.concat(reasons, "; ") or "")
end

local function percent(x) return ("%.1f %%"):format(100 * x) end

local function change(x) return (x >= 0 and "gain " or "lose ") .. percent(math.abs(x)) end

-- The winner, or serialized and why; true behind it: that may come out otherwise another time.
local function decide(g, base, best)
  local winner = best[1]
  if best[2] and best[2].gain > winner.gain + LEAST then winner = best[2] end -- of two alike the first
  local _, reason = limit_of(g, winner)
  if winner.gain < LEAST then
    local words = winner.gain >= 0 and ("%s gains %s, less than %s"):format(winner.label, percent(winner.gain),
      percent(LEAST)) or ("%s loses %s"):format(winner.label, percent(-winner.gain))
    return base, ("%s: %s"):format(words, reason)
  end
  if winner.gain < base.noise then
    return base, ("%s gains %s, but serialized's own turns differ too much to tell (%s)"):format(winner.label,
      percent(winner.gain), percent(base.noise)), true
  end
  return winner
end

-- ---- the choice ----

-- The best of each name.
local function one_of_each(list)
  local out, seen = {}, {}
  sort(list)
  for _, c in ipairs(list) do
    if not seen[c.name] then out[#out + 1] = c end
    seen[c.name] = true
  end
  return out
end

-- Those that are predicted to gain enough.
local function worth_it(list, base)
  local out = {}
  for _, c in ipairs(list) do
    if c.seconds * (1 + LEAST) < base.seconds then out[#out + 1] = c end
  end
  return out
end

local function choice_of(c, because)
  return { strategy = c.name, depth = c.depth, gain = c.gain or 0, because = because, steps_per_second = 1 / c.achieved }
end

-- The first steps are slow, and tell about how long one takes.
local function first_steps(raw, base, budget)
  local t = check(raw:trial_run(base.index, 1))
  local n = math.max(2, math.min(64, math.floor(0.05 * budget / t)))
  base.achieved = t < SLOW * budget and check(raw:trial_run(base.index, n)) or t
  return n
end

-- Two to try, of those that are neither refused nor hopeless.
local function find_two(raw, others, base, steps, budget)
  local slow = base.achieved > SLOW * budget
  if slow then others = one_of_each(others) end
  local best = find_best(raw, others, base, slow and 1 or math.min(steps, 8), budget)
  local first = best[1]
  return slow and worth_it(best, base) or best, first
end

local function conclude(g, base, budget, best, first)
  if #best > 0 then
    try(g._raw, base, best, 0.6 * budget)
    return decide(g, base, best)
  end
  if not first then return base, "no other strategy fits" end
  local _, reason = limit_of(g, first)
  return base, ("%s is predicted to %s, and steps are slow to try: %s"):format(first.label,
    change(base.seconds / first.seconds - 1), reason)
end

-- -> the choice; true behind it: it is not worth remembering
local function measure_all(g, budget)
  local raw, notices = g._raw, {}
  local list = silently(g, notices, candidates, g, notices)
  local base, others, refused = table.remove(list, 1), {}, {}
  if base.refused then check(nil, base.refused) end
  if #list == 0 then
    base.achieved = 1
    return choice_of(base, none_differs(notices))
  end
  for _, c in ipairs(list) do table.insert(c.refused and refused or others, c) end
  local steps = first_steps(raw, base, budget)
  if base.achieved > budget then
    return choice_of(base, ("a step takes %.1f seconds and --auto-budget is %g, so nothing was tried"):format(base.achieved,
      budget))
  end
  measure(raw, base, nil, steps, 0.15 * budget)
  for _, c in ipairs(others) do predict(raw, c) end
  local winner, because, open = conclude(g, base, budget, find_two(raw, others, base, steps, budget))
  sort(others)
  print_table(g, table.move(refused, 1, #refused, #others + 2, { base, table.unpack(others) }))
  print_costs(raw:trial_costs())
  return choice_of(winner, because), open
end

local function words_of(choice)
  if choice.strategy == "serialized" then return "stay serialized, because " .. choice.because end
  return ("%s, %.2f times serialized"):format(label_of(choice.strategy, choice.depth), 1 + choice.gain)
end

-- Measures; nothing stays of it. nil: it could not, and that was said. true behind the choice: it is not worth remembering.
local function find(g)
  local trial <close> = setmetatable({}, { __close = function() g._raw:trial_end() end })
  local level = core.log_level "error" -- what stages and lists say of trial steps they say again of the run's
  local ok, got, open = pcall(function()
    check(g._raw:trial_begin())
    return measure_all(g, g._opt.auto_budget)
  end)
  core.log_level(level)
  if ok then return got, open end
  if getmetatable(got) ~= failure then error(got, 0) end
  if got.kind ~= "interrupted" then
    core.log("warn", ("strategy auto: stay serialized, because a trial step failed: %s"):format(got.why))
  end
end

local function take(g, choice)
  g.depth = choice.depth
  return strategy.written(g, choice.strategy)
end

-- -> lanes, the name of the strategy
return function(g)
  local function serialized() return strategy.written(g, "serialized") end
  if #g:nodes() == 0 then return serialized() end
  local node = g._raw:outside()
  if node then
    progress.wrapped("strategy auto: stay serialized, because what stage '%s' does stays, and trial steps must leave nothing",
      node.name)
    return serialized()
  end
  if ranks.n > 1 then
    progress.wrapped("strategy auto: stay serialized, because several ranks do not measure: run it once without --ranks, and "
      .. "name the strategy that it finds")
    return serialized()
  end
  if g._raw:serves() then
    progress.wrapped("strategy auto: stay serialized, because nobody asks for the steps of a trial; "
      .. "replicas is made for requests")
    return serialized()
  end
  local plan = silently(g, {}, function()
    g._raw:lanes("serialized", (strategy.lanes(g, "serialized")))
    return g._raw:describe()
  end)
  local store = choices.open(g, plan)
  local choice = not g._opt.auto_again and store:get()
  if choice and find_shipped(choice.strategy) then
    progress.wrapped("strategy auto: %s, as measured %s; --auto-again measures again (%s)", words_of(choice), choice.date,
      store.path)
    return take(g, choice)
  end
  if core.env().schedule or g._opt.explain then
    g:notice("strategy 'auto': nothing is remembered of this graph yet, so this is serialized; spcore run measures")
    return serialized()
  end
  local open
  choice, open = find(g)
  if not choice then return serialized() end
  progress.wrapped("strategy auto: %s", words_of(choice))
  if not open then store:put(choice) end
  return take(g, choice)
end
