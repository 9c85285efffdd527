-- SPDX-License-Identifier: MIT
-- What depends on the device where the user leaves it open.
local sp = require "spcore"
local core = require "spcore.core"
local device = require "spcore.device"
local t = require "check"

t.eq(device.precision("cpu", "auto"), "fp32")
t.eq(device.precision("cuda:1", "auto"), "tf32")
t.eq(device.precision("cuda", "bf16"), "bf16")
t.eq(device.workers("cpu", 0), nil)
t.eq(device.workers("cpu", 5), 5)
t.eq(device.workers("cuda", 5), 5)
for threads, workers in pairs { [1] = 2, [3] = 3, [40] = 4 } do
  core.set_threads(threads)
  t.eq(device.workers("cuda:0", 0), workers)
  t.eq(device.workers("cuda"), workers)
end

-- What a reader is given, also where it stands behind the border of another device.
for _, name in ipairs { "cpu", "mock", "mock:0" } do
  local g <close> = sp.graph { device = name, workers = 5 }
  t.eq(g.toy_source { batch = 8 }.workers, 5, name)
  t.eq(g.toy_source { batch = 8, workers = 3 }.workers, 3, name)
  t.eq(g.toy_source { batch = 8, on_cpu = true }.workers, 5, name)
  local usual <close> = sp.graph { device = name }
  t.eq(usual.toy_source { batch = 8 }.workers, 2, name)
end
