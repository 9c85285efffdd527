-- SPDX-License-Identifier: MIT
-- What single stages take on a device, one after another in one stream: the losses with their gradients, dropout with its
-- own, batch_resized_crop. stages_torch.py times the same in PyTorch.
--   spcore run tests/bench/stages.lua --device cuda
local sp = require "spcore"
local opt = sp.args({
  batch = { 32, "samples", min = 1, max = 4096 },
  classes = { 10, "channels of the logits", min = 2, max = 1000 },
  size = { 256, "height and width", min = 8, max = 4096 },
  crop = { 224, "height and width of what batch_resized_crop gives", min = 8, max = 4096 },
  runs = { 200, "runs between two events", min = 1, max = 100000 },
  turns = { 5, "how often each is timed; the median counts", min = 1, max = 100 },
}, { doc = "Prints microseconds of each stage.", without = { "run", "trace", "strategy", "capture" } })

local n, c, s = opt.batch, opt.classes, opt.size
local stream = sp.stream()
local since, till = sp.event { timing = true }, sp.event { timing = true }

local function filled(spec, low, high)
  spec.at = "pinned"
  local here = sp.tensor(spec)
  here:random { seed = 1, low = low, high = high }
  local there = sp.tensor { like = here, at = "device" }
  stream:copy(there, here)
  stream:sync()
  return there
end

local logits, target = filled { "f32", n, c, s, s }, filled { "f32", n, c, s, s }
local labels = filled({ "u8", n, s, s }, 0, c - 1)
local bytes = filled({ "u8", n, 3, s, s }, 0, 255)
local ids = {}
for i = 1, n do ids[i] = i end
local stage = sp.stage
local list = {
  { "cross_entropy", stage.cross_entropy {}, { logits, labels } },
  { "dice", stage.dice {}, { logits, labels } },
  { "focal", stage.focal {}, { logits, labels } },
  { "bce", stage.bce {}, { logits, target } },
  { "mse", stage.mse {}, { logits, target } },
  { "dropout", stage.dropout { p = 0.5 }, { logits }, back = true },
  { "batch_resized_crop", stage.batch_resized_crop { size = opt.crop }, { { bytes } } },
}

-- Where a stage is no loss, one gives the gradient from which its backward begins.
for _, row in ipairs(list) do
  local name, made, inputs = table.unpack(row)
  local outputs, times = made:outputs(inputs), {}
  if row.back then
    stream:run(made, inputs, outputs, { ids = ids })
    stream:run(stage.mse {}, { outputs.y, target })
  end
  for turn = 0, opt.turns do -- the first is not counted
    stream:record(since)
    for step = 1, opt.runs do
      stream:run(made, inputs, outputs, { step = step, ids = ids })
      if row.back then stream:backward(made, { inputs = true }) end
    end
    stream:record(till)
    till:sync()
    times[turn] = since:elapsed(till) / opt.runs * 1e3
  end
  table.sort(times)
  print(("%-20s %8.1f us (%.1f .. %.1f)"):format(name, times[(#times + 1) // 2], times[1], times[#times]))
end
