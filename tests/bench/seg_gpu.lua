-- SPDX-License-Identifier: MIT
-- The reference workload for gpu_table.py: tells when the warm-up and the last step are over, and saves the weights.
local sp = require "spcore"
local opt = sp.args {
  size = { 256, "pixels of a side" }, batch = { 8, "images a step" }, steps = { 200, "steps after the warm-up" },
  warm_up = { 50, "steps before" }, lr = { 1e-3, "learning rate" }, save = { "", "where the weights go" },
  pause = { false, "wait for a line of input after each word" },
}
local g <close> = sp.graph(opt)
local data = g.reader { path = "random", batch = opt.batch, size = { opt.size, opt.size }, classes = 10 }
local enc = g.encoder { g.to_float { data.image }, model = "plain", frozen = true }
local dec = g.decoder { enc.features, model = "plain", classes = data.classes }
g:train { g.cross_entropy { dec.logits, data.mask }, optimizer = g.sgd { lr = opt.lr } }

local function say(what, time)
  print(("%s %.9f %d"):format(what, time, g:allocations()))
  io.stdout:flush()
  if opt.pause then io.read("l") end
end

local last
for step, m in g:steps(opt.warm_up + opt.steps) do
  last = m.time
  if step == opt.warm_up - 1 then say("warm", m.time) end
end
say("end", last)
if opt.save ~= "" then g:save(opt.save) end
