-- SPDX-License-Identifier: MIT
-- What the reference workloads share, reference_seg.lua and reference_cls.lua: the loops that speed is measured on, with plain
-- networks, random data and SGD. What they learn is noise.
local args = require "spcore.args"
local new_run = require "spcore.run"

local reference = {}

-- The options of both, over which a script's own are laid.
function reference.args(own, doc)
  local options = {
    size = { 256, "pixels of a side", min = 1, max = 4096 },
    steps = { 100, "timed steps", min = 1 },
    warm_up = { 10, "steps before them", min = 1 },
    lr = { 1e-3, "learning rate", min = 0.0 },
    samples = { 0, "images of the random data", default = "2048", min = 1 },
  }
  for name, option in pairs(own) do options[name] = option end
  return args.parse(options, { doc = doc, without = { "by_hand" } })
end

-- Trains, and prints the steps/s of the timed ones; where it is interrupted, of those that were made.
function reference.run(g, opt)
  local last = opt.warm_up + opt.steps
  local run <close> = new_run { graph = g, opt = opt, steps = last, weights = false }
  local began, ended, timed
  for step, m in g:steps(last) do
    if step == opt.warm_up - 1 then began = m.time end
    ended, timed = m.time, step - opt.warm_up + 1
    run:step(step, m)
  end
  run:finish(began and ended > began and ("%.3f steps/s"):format(timed / (ended - began)) or nil)
end

return reference
