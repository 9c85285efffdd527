-- SPDX-License-Identifier: MIT
-- What a case's script does in the place of the comparison, with --mutate: see strategies_ops.c.
return [=[
local seeds, steps = 20, 24

local function made(variant, sim)
  local opt = {}
  for k, v in pairs(plan.opt) do opt[k] = v end
  opt.device, opt.capture = variant.device, variant.capture
  fuzz.sim_seed(sim)
  local g, n = build(opt)
  g:strategy(variant.serialized and "serialized" or strategy(n))
  local ok, why = pcall(g.lanes, g)
  if ok then return g end
  g:close()
  return nil, why
end

local function play(variant, sim, swap)
  local g <close> = assert(made(variant, sim))
  return fuzz.play(g._raw, swap[1], swap[2], variant.serialized and swap[2] or swap[3], steps)
end

-- What draws the order of the streams from a seed, with the list that the device has.
local drawn = { cpu = "sim", sim = "sim", mock = "simmock" }

local function as_good(v, swap)
  local device = assert(drawn[v.device], "--mutate is for cpu, sim and mock")
  local want = play({ serialized = true, device = v.oracle, capture = "off" }, 0, swap)
  for seed = 1, seeds do
    local got = play({ device = device, capture = v.capture }, seed, swap)
    if got ~= want then
      return false, ("program %d: the proof holds with operations %d and %d swapped, %s, but seed %d gives %s, not %s")
        :format(swap[1], swap[2], swap[3], swap[4], seed, got, want)
    end
  end
  return true
end

-- Of swaps that the proof lets through: as many as --swaps says, those of two waits last.
local function some_of(waits, others)
  local list = {}
  for _, from in ipairs { others, waits } do
    for i = 1, math.min(fuzz.swaps - #list, #from) do list[#list + 1] = from[1 + (i * 7919) % #from] end
  end
  return list
end

-- Without a wait some timing gives other bits, or what is played above shows nothing. Not each one
-- does: what it orders may be the same bits either way.
local function shows(v, wait)
  local taken_out = { 0, wait, -1 }
  local want = play({ serialized = true, device = v.oracle, capture = "off" }, 0, { 0, wait, wait })
  for seed = 1, seeds do
    if play({ device = drawn[v.device], capture = v.capture }, seed, taken_out) ~= want then return true end
  end
  return false
end

local function mutate(v, sum)
  local g <close>, why = made(v, 0)
  if not g then return "refused", why end
  local status, words = fuzz.build(g._raw)
  if status ~= "ok" then return status == "refused" and status or "error", words end
  local g <close> = assert(made(v, 0))
  local all, waits, others, deleted, swapped, changed, held = fuzz.mutants(g._raw, fuzz.changes)
  if not all then return "differs", waits end
  local list = some_of(waits, others)
  for _, swap in ipairs(list) do
    local good, why = as_good(v, swap)
    if not good then return "differs", why end
  end
  local played, shown = math.min(fuzz.waits, #all), 0
  for i = 1, played do shown = shown + (shows(v, all[i]) and 1 or 0) end
  local add = { 1, deleted, swapped, #waits + #others, #list, played, shown, changed, held }
  for i, x in ipairs(add) do sum[i] = sum[i] + x end
  return "same"
end

main = function()
  local sum, done = { 0, 0, 0, 0, 0, 0, 0, 0, 0 }, {}
  for _, v in ipairs(plan.variants) do
    local name = ("device %s, capture %s"):format(v.device, v.capture)
    local status, why = "same"
    if not done[name] and v.device ~= "simmock" then status, why = mutate(v, sum) end
    done[name] = true
    if status ~= "same" then return status, name .. ": " .. why end
  end
  return "same", table.concat(sum, " ")
end
]=]
