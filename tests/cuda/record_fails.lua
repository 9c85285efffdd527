-- SPDX-License-Identifier: MIT
-- A stage fails at the host in a step that may be the one that is recorded: it is told as in any other step, no half of a
-- graph is kept, and a loop that goes on behind it computes the bits of a run that records nothing. Run by errors.sh on the
-- GPU and on the emulator.
local sp = require "spcore"
local opt = sp.args({ first = { 0, "first step that fails" }, last = { 7, "last one" } }, { doc = "Fails while recording." })

-- Runs to the failure at step `at`, goes on to step 12; gives whether it failed, and all that came of it.
local function run(capture, strategy, at)
  local g <close> = sp.graph { device = "cuda", capture = capture, seed = 3 }
  local data = g.toy_classes { batch = 4, samples = 64 }
  g.toy_nop { data.image, fail_at = at, name = "saboteur" }
  local net = g.layers { data.image, layers = { { "flatten" }, { "linear", data.classes } } }
  g:train { g.cross_entropy { net.features, data.label }, optimizer = g.sgd { lr = 1e-2 } }
  g:strategy(strategy)
  local lines, failed = {}, false
  local function steps(n)
    for step, m in g:steps(n) do lines[#lines + 1] = ("%d %a"):format(step, m.loss) end
  end
  local ok, why = pcall(steps, 12)
  if not ok then
    failed = true
    assert(tostring(why):find("'saboteur'", 1, true) and tostring(why):find("asked to fail", 1, true), why)
    assert(tostring(why):find(("step %d"):format(at + 1), 1, true), why)
    assert(#lines == at, ("%d steps came before the failure of step %d"):format(#lines, at))
  end
  return failed, table.concat(lines, "\n"), lines
end

local recorded = 0
for _, strategy in ipairs { "serialized", "pipelined" } do
  local _, _, whole = run("off", strategy, -1)
  for at = opt.first, opt.last do
    local failed, words = run("off", strategy, at)
    assert(failed, "capture off calls every step")
    assert(words == table.concat(whole, "\n", 1, at))
    for _, capture in ipairs { "lane", "step" } do
      local failed, words = run(capture, strategy, at)
      assert(words == table.concat(whole, "\n", 1, failed and at or #whole), capture .. ", " .. strategy .. ", " .. at)
      if failed then recorded = recorded + 1 end
    end
  end
end
assert(recorded >= 8, recorded .. " failures were met while recording")
print(("ok - a stage that fails while it is recorded: %d of them"):format(recorded))
