-- SPDX-License-Identifier: MIT
-- What the by_hand scripts share: they run their loops one after another, each with weights of its own, and compare.
local core = require "spcore.core"
local hand = require "spcore.hand"
local now = (require "spcore.sys").now
local progress = require "spcore.progress"

local by_hand = {}

-- The options that such a script has, over which its own are laid.
function by_hand.options(own)
  local options = {
    loop = { "all", "which loop",
      choices = { "all", "serialized", "published", "corrected" } },
    without = { "", "leave out one wait of the corrected loop, to see what it is for" },
    steps = { 10, "timed steps", min = 1, max = 1000000 },
    warm_up = { 2, "steps before them", min = 1, max = 1000000 },
    memory = { "pinned", "where the host's batches lie", choices = { "pinned", "pageable" } },
    batches = { 0, "batches made before, taken in turn", default = "a new one for each step", min = 0, max = 4096 },
    order = { 0, "on the devices sim and simmock: which order of streams is drawn", min = 0 },
  }
  for name, option in pairs(own) do options[name] = option end
  return options
end

-- One loop, to the end: steps/s, the last loss, a hash of what was trained.
local function run(loop, make, opt)
  local h <close> = hand.new(opt)
  local o = make(h)
  local last, began = opt.warm_up + opt.steps, nil
  for step = 0, last - 1 + loop.behind do
    if core.interrupted() then core.exit(128 + core.interrupted()) end
    loop.step(o, step, step >= last)
    if step == opt.warm_up - 1 + loop.behind then
      o.sync()
      began = now()
    end
  end
  o.sync()
  local rate = opt.steps / (now() - began)
  return rate, o.losses:rows(last):read()[1], o.checksum()
end

-- What a data loader gives: load(step) has the tensors of a batch, in memory of the host. make() gives new tensors,
-- which fill(tensors, step) fills; is_free(step) returns when the copies of the batch before the last one are over.
function by_hand.loader(opt, make, fill, is_free)
  local made = {}
  for i = 0, (opt.batches > 0 and opt.batches or 2) - 1 do
    made[i] = make()
    if opt.batches > 0 then fill(made[i], i) end
  end
  return function(step)
    if opt.batches > 0 then return made[step % opt.batches] end
    if step > 1 then is_free(step) end
    fill(made[step % 2], step)
    return made[step % 2]
  end
end

-- by_hand.compare(opt, make, loops): make(h) gives the objects, loops are { { name =, step =, behind = }, ... }:
-- `behind` of 1 trains a step in the next one's turn. Of all loops those with a race are named, and the exit status is 1.
function by_hand.compare(opt, make, loops)
  progress.print("%-12s %10s %12s  %s", "loop", "steps/s", "last loss", "weights")
  local oracle, raced
  for _, loop in ipairs(loops) do
    if opt.loop == "all" or opt.loop == loop.name then
      local ok, rate, loss, sum = true, run, nil, nil
      if opt.loop == "all" and opt.check_races then ok, rate, loss, sum = pcall(run, loop, make, opt)
      else rate, loss, sum = run(loop, make, opt) end
      if not ok then
        if not tostring(rate):find("race on", 1, true) then error(rate, 0) end
        print(("%-12s %s"):format(loop.name, rate))
        raced = (raced and raced .. ", " or "") .. loop.name
      else
        local verdict = oracle and (sum == oracle and "as serialized" or "NOT as serialized") or ""
        print(("%-12s %10.2f %12.7f  %s %s"):format(loop.name, rate, loss, sum, verdict))
        if loop.name == "serialized" then oracle = sum end
      end
    end
  end
  if not raced then return end
  core.log("error", ("--check-races: these loops have races, which the table names: %s"):format(raced))
  core.exit(1)
end

-- The waits of the corrected loop by name, without the one that the user leaves out.
function by_hand.waits(opt, names)
  local known = opt.without == ""
  for _, name in ipairs(names) do known = known or name == opt.without end
  if not known then
    core.log("error", ("--without %s: choose one of %s"):format(opt.without, table.concat(names, ", ")))
    core.exit(2)
  end
  return function(name, stream, event)
    if opt.without ~= name then stream:wait(event) end
  end
end

return by_hand
