-- SPDX-License-Identifier: MIT
-- branches.lua: its table on every device, and the same bits in both strategies.
-- needs: onednn images
-- once: a script, whose strategies same_bits.lua has
local t = require "check"
local dir <close> = t.folder()

for _, device in ipairs { "cpu", "mock" } do
  local code, out, err = t.spcore(dir.path, "run branches.lua --threads 1 --size 16 --width 4 --steps 3 --turns 1 --quiet --device "
    .. device)
  t.eq(code, 0, err)
  t.match(out, "^device " .. device .. ", batch 1, 16 pixels, 4 channels, median of 1 turns\n")
  local ms = {}
  for value in out:gmatch "([%d.]+) ms a step\n" do ms[#ms + 1] = tonumber(value) end
  t.eq(#ms, 4)
  local faster, ideal, same = out:match "speed%-up ([%d.]+), ideal ([%d.]+): .*the same bits: (%a+)\n$"
  t.eq(same, "yes")
  local rounding = 0.01 + faster * (0.001 / ms[3] + 0.001 / ms[4]) -- of times with three places
  t.ok(math.abs(ms[3] / ms[4] - faster) < rounding, "the speed-up is of the last two")
  t.ok(tonumber(ideal) >= 1 and tonumber(ideal) <= 2, "of two branches")
end
local code, out, err = t.spcore(dir.path, "run branches.lua --size 8")
t.eq(code .. out, "2")
t.one_line(err, "size")
