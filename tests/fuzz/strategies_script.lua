-- SPDX-License-Identifier: MIT
-- A case as a Lua script that `spcore run` runs: it builds the graph for the serialized run and for each variant, and
-- compares all that can be seen of them.
local mutation = require "strategies_ops"

local script = {}

local function sorted(t)
  local keys = {}
  for k in pairs(t) do keys[#keys + 1] = k end
  table.sort(keys)
  return keys
end

-- Parameters are kept as Lua text.
local function stage_line(node)
  local parts = {}
  for _, input in ipairs(node.ins or {}) do
    local refs = {}
    for i, ref in ipairs(input) do refs[i] = "n." .. ref end
    if #refs > 0 then
      local list = table.concat(refs, ", ")
      parts[#parts + 1] = input.port and ("%s = { %s }"):format(input.port, list) or list
    end
  end
  for _, key in ipairs(sorted(node.params or {})) do parts[#parts + 1] = ("%s = %s"):format(key, node.params[key]) end
  parts[#parts + 1] = ("name = %q"):format(node.name)
  return ("  n.%s = g.%s { %s }\n"):format(node.name, node.stage, table.concat(parts, ", "))
end

local function train_line(case)
  local parts = {}
  for i, name in ipairs(case.losses) do parts[i] = "n." .. name end
  parts[#parts + 1] = "optimizer = n.opt"
  if case.lr then parts[#parts + 1] = "lr = " .. case.lr end
  if case.accumulate > 1 then parts[#parts + 1] = "accumulate = " .. case.accumulate end
  return ("  g:train { %s }\n"):format(table.concat(parts, ", "))
end

local function build_text(case)
  local out = { "local function build(opt)\n  local g, n = sp.graph(opt), {}\n" }
  for _, node in ipairs(case.nodes) do out[#out + 1] = stage_line(node) end
  if #case.losses > 0 then out[#out + 1] = train_line(case) end
  for _, e in ipairs(case.evals) do
    out[#out + 1] = ("  g:evaluate { data = n.%s, every = %d }\n"):format(e.source, e.every)
  end
  if case.results then
    local list = {}
    for i, ref in ipairs(case.results) do list[i] = "n." .. ref end
    out[#out + 1] = ("  g:results { raw = true, %s }\n"):format(table.concat(list, ", "))
  end
  out[#out + 1] = "  return g, n\nend\n"
  return table.concat(out)
end

-- Lists for the lanes' stages: "n.a", or "{ n.a, PART ... }" where a part of it is in another lane.
local function lane_items(case)
  local items, there, moved = {}, {}, {}
  for _, lane in ipairs(case.lanes) do there[lane.name] = true end
  for _, m in ipairs(case.parts or {}) do
    if there[m.lane] then
      items[m.lane] = items[m.lane] or {}
      table.insert(items[m.lane], ("{ n.%s, %q }"):format(m.node, m.part))
      moved[m.node] = m.part
    end
  end
  for _, lane in ipairs(case.lanes) do
    local list = items[lane.name] or {}
    for _, name in ipairs(lane.stages) do
      local rest = moved[name] == "backward" and ', "forward" }' or ', "forward", "backward" }'
      list[#list + 1] = moved[name] and "{ n." .. name .. rest or "n." .. name
    end
    items[lane.name] = list
  end
  return items
end

local function lanes_text(case)
  if case.strategy then return ("local shipped, strategy = true, function() return %q end\n"):format(case.strategy) end
  local out = { "local shipped, strategy = false, function(n)\n  return {\n" }
  local items = lane_items(case)
  for _, lane in ipairs(case.lanes) do
    local stages = items[lane.name]
    local extra = ""
    for _, key in ipairs { "extra", "replicas" } do
      if lane[key] then extra = ("%s%s = %d, "):format(extra, key, lane[key]) end
    end
    out[#out + 1] = ("    { name = %q, delay = %d, priority = %q, %sstages = { %s } },\n"):format(lane.name, lane.delay,
      lane.priority, extra, table.concat(stages, ", "))
  end
  out[#out + 1] = "  }\nend\n"
  return table.concat(out)
end

local function value_text(v)
  if type(v) ~= "table" then return ("%q"):format(v) end
  local parts = {}
  for _, k in ipairs(sorted(v)) do
    parts[#parts + 1] = type(k) == "number" and value_text(v[k]) or ("%s = %s"):format(k, value_text(v[k]))
  end
  return "{ " .. table.concat(parts, ", ") .. " }"
end

local function plan_text(case)
  local out = {}
  for _, key in ipairs { "opt", "loops", "events", "sources", "fails", "variants", "ranked", "wild" } do
    if case[key] ~= nil then out[#out + 1] = ("  %s = %s,\n"):format(key, value_text(case[key])) end
  end
  return "local plan = {\n" .. table.concat(out) .. "}\n"
end

-- The half that is the same in every script.
script.harness = [=[
local apart = { time = true, slowest_rank = true, slowest_ms = true, comm_share = true } -- how long it took
local function words(v)
  if math.type(v) == "float" then return ("%a"):format(v) end
  if type(v) == "string" and v:find "[^ -~]" then -- a result, as it lies in memory
    return (v:gsub(".", function(c) return ("%02x"):format(c:byte()) end))
  end
  if type(v) ~= "table" then return tostring(v) end
  local keys, parts = {}, {}
  for i, x in ipairs(v) do parts[i] = words(x) end
  for k in pairs(v) do if type(k) == "string" and not apart[k] then keys[#keys + 1] = k end end
  table.sort(keys)
  for _, k in ipairs(keys) do parts[#parts + 1] = k .. "=" .. words(v[k]) end
  return "{" .. table.concat(parts, " ") .. "}"
end

local function add_metrics(lines, step, m)
  local keys = {}
  for k in pairs(m) do if not apart[k] then keys[#keys + 1] = k end end
  table.sort(keys)
  for _, k in ipairs(keys) do lines[#lines + 1] = ("step %d: %s = %s"):format(step, k, words(m[k])) end
end

local function add_weights(lines, g, n)
  local weights, weight = n.data.weights, n.data.weight -- an optimizer has an output of that name
  for _, node in ipairs(g:nodes()) do
    for _, w in ipairs(weights(node)) do
      local ok, v = pcall(weight, node, w.name)
      lines[#lines + 1] = ("weights: %s.%s = %s"):format(node.name, w.name, ok and words(v) or "?")
    end
  end
end

local function body(lines, g, n, first, step, m, loop)
  add_metrics(lines, step, m)
  for _, e in ipairs(plan.events) do
    if e.step == step and e.param then n[e.node]:set(e.param, e.value) end
    if e.step == step and e.source then
      local result = g:evaluate { data = n[e.source] }
      lines[#lines + 1] = ("step %d: evaluation of %s = %s"):format(step, e.source, words(result))
    end
  end
  if loop.error_at == step - first then error "on purpose" end
  return loop.break_at == step - first
end

local function one_loop(lines, g, n, loop)
  if loop.seek then g:seek(loop.seek) end
  local first = g:step()
  local ok, why = pcall(function()
    for step, m in g:steps(loop.n) do
      if body(lines, g, n, first, step, m, loop) then break end
    end
  end)
  local failed = not ok and not tostring(why):find "on purpose"
  if failed and not plan.fails then error(why, 0) end
  why = failed and tostring(why):gsub("^[^:]*:%d+: ", "") -- an evaluation may be the first to report it
  lines[#lines + 1] = why or ("a loop of %d ended at step %d"):format(loop.n, g:step())
  return not failed
end

-- What weights a failed run leaves depends on how far the rest was.
local function loops(lines, g, n)
  for _, loop in ipairs(plan.loops) do
    if not one_loop(lines, g, n, loop) then return end
  end
  for _, name in ipairs(plan.sources) do
    lines[#lines + 1] = ("evaluation of %s = %s"):format(name, words(g:evaluate { data = n[name] }))
  end
  add_weights(lines, g, n)
end

-- With `fuzz`, what tests/fuzz/strategies adds: the kind of a refusal, and the seed of the device sim.
local function build_all(g, n, variant)
  g:strategy(variant.serialized and "serialized" or strategy(n))
  local ok, why = pcall(g.lanes, g)
  if not ok then return "refused", why end
  if fuzz then return fuzz.build(g._raw) end
  ok, why = pcall(g._raw.build, g._raw)
  return ok and "ok" or "refused", why
end

local sums = plan.opt.checksums and (fuzz and fuzz.sums or os.tmpname())

local function run(variant)
  local lines, opt = {}, {}
  for k, v in pairs(plan.opt) do opt[k] = v end
  opt.device, opt.capture, opt.bucket = variant.device, variant.capture, variant.bucket
  opt.optimizer_shards = variant.optimizer_shards
  if variant.serialized and not sums then opt.parts = 1 end -- where the order of checksums is not compared
  if fuzz then fuzz.sim_seed(variant.sim or 0) end
  do
    local g <close>, n = build(opt)
    require "spcore.progress".quiet = true -- what strategy auto has to say
    local status, why = build_all(g, n, variant)
    if status ~= "ok" then return nil, status, tostring(why) end
    if sums and not variant.rank then
      os.remove(sums) -- the last run's
      g:checksums(sums)
    end
    g._compared = variant.rank ~= nil -- there is no script
    loops(lines, g, n)
  end
  if sums and not variant.rank then
    for line in io.lines(sums) do lines[#lines + 1] = "checksums: " .. line end
  end
  return lines
end

local function difference(a, b)
  for i = 1, math.max(#a, #b) do
    if a[i] ~= b[i] then return ("serialized: %s; here: %s"):format(a[i] or "the end", b[i] or "the end") end
  end
end

local function name_of(v)
  return ("device %s, capture %s%s"):format(v.device, v.capture, v.sim and ", sim seed " .. v.sim or "")
end

-- The same by several processes, each of which has to say what one says; hashes of steps apart, which rank 0 alone writes.
local function compare_ranks(first, v)
  local plain = {}
  for _, line in ipairs(first) do
    if not line:find "^checksums: " then plain[#plain + 1] = line end
  end
  local said = fuzz.ranks(v.ranks, function(rank)
    local ranks = require "spcore.ranks"
    ranks.rank, ranks.n, ranks.first = rank, v.ranks, rank == 0
    local lines, status, why = run { device = v.device, capture = v.capture, rank = rank, bucket = v.bucket,
      optimizer_shards = v.optimizer_shards }
    local other = lines and difference(plain, lines)
    return not lines and status or other and "differs" or "same", why or other or ""
  end)
  for rank, answer in ipairs(said) do
    if answer[2]:find "take run_ahead = " then return "same", "" end -- a rank has fewer passes of a step to be behind
    if answer[1] ~= "same" then return answer[1], ("%s, rank %d of %d: %s"):format(name_of(v), rank - 1, v.ranks, answer[2]) end
  end
  return "same", ""
end

-- Random lanes may be wrong where the case says so, or run too far behind the trained part. A shipped strategy fits any graph.
local function may_refuse(why)
  return why:find("capture: more than", 1, true) or not shipped and (plan.wild or why:find("take run_ahead = ", 1, true))
end

local function compare()
  local first, status, why = run { serialized = true, device = plan.variants[1].oracle, capture = "off" }
  if not first then return "useless", why end
  local refused, taken
  for _, v in ipairs(plan.variants) do
    local lines, status, why = run(v)
    if not lines and status == "internal" then return "error", ("%s: %s"):format(name_of(v), why) end
    -- so many graphs are none without capture
    if lines then taken = v elseif not why:find("capture: more than", 1, true) then refused = { v, why } end
    local other = lines and difference(first, lines)
    if other then return "differs", ("%s: %s"):format(name_of(v), other) end
  end
  if taken and refused then
    return "refusal", ("taken with %s, refused with %s: %s"):format(name_of(taken), name_of(refused[1]), refused[2])
  end
  if refused and not may_refuse(refused[2]) then return "refusal", refused[2] end
  for _, v in ipairs(fuzz and fuzz.ranks and not refused and plan.ranked or {}) do
    local status, why = compare_ranks(first, v)
    if status ~= "same" then return status == "internal" and "error" or status == "refused" and "refusal" or status, why end
  end
  return refused and "refused" or "same", refused and refused[2] or ""
end

local main = compare
]=]

local ending = [=[
local ok, status, why = pcall(main)
if not ok then status, why = "error", tostring(status) end
if sums then os.remove(sums) end
if fuzz then return status, why end
print(status, why)
os.exit((status == "same" or status == "refused") and 0 or 1, true)
]=]

-- mutate: as --mutate asks
function script.text(case, mutate)
  -- What is played changed must be the very list that was changed, and auto may choose another one the next time.
  if mutate and case.strategy == "auto" then case.strategy = "pipelined" end
  return table.concat {
    "-- ", case.title, "\n-- tests/fuzz/strategies FILE runs it in the build folder, and so does\n",
    "-- SPCORE_PLUGIN_PATH=.libs:tests/plugins/.libs ./spcore run FILE\n",
    'local sp = require "spcore"\nrequire("spcore.core").log_level "error"\n\n',
    plan_text(case), "\n", build_text(case), "\n", lanes_text(case), "\n", script.harness,
    mutate and "\n" .. mutation or "", "\n", ending,
  }
end

return script
