-- SPDX-License-Identifier: MIT
-- overlap_bench.lua: its table, and what it refuses; what the figures are is for a quiet machine to say.
-- needs: images
-- once: a script
local t = require "check"
local dir <close> = t.folder()

local function run(line) return t.spcore(dir.path, "run overlap_bench.lua --threads 2 " .. line) end

for _, device in ipairs { "cpu", "mock" } do
  local code, out, err = run(("--device %s --ms 0.5,0.2 --steps 5 --turns 1"):format(device))
  t.eq(code .. err, "0")
  local lines = {}
  for line in out:gmatch "[^\n]+" do lines[#lines + 1] = line end
  t.eq(#lines, 3, out)
  t.match(lines[1], "^device " .. device .. ", depth 1, median of 1 turns")
  local row = "^0%.5 0%.2 +off +([%d.]+) +([%d.]+) +([%d.]+) +([%d.]+) +%d+%% +(%d+)%% +[%d.]+$"
  local sequential, streamed, faster, ideal, efficiency = lines[3]:match(row)
  t.ok(sequential, lines[3])
  t.eq(ideal, "1.40")
  -- steps that are seen in one go take next to nothing: three digits of that are a range
  local s, m, half = tonumber(sequential), tonumber(streamed), 0.0006
  t.ok(faster + 0.006 >= (s - half) / (m + half) and faster - 0.006 <= (s + half) / math.max(m - half, 1e-9),
    "the speed-up is of these two")
  t.ok(math.abs(efficiency - 100 * faster / ideal) < 2, "the efficiency is of these two")
end
for _, bad in ipairs { "x", "1,,2", "0", "-1", "1e9", ("1,"):rep(16) .. "1" } do
  local code, out, err = run("--device cpu --ms " .. bad)
  t.eq(code .. out, "2")
  t.one_line(err, "overlap_bench.lua: %-%-ms: ")
end
do -- a signal ends the loop that is measured, and all of it
  local code, out, err = t.interrupted(dir.path, "run overlap_bench.lua --device cpu --ms 50 --steps 100000", "^device cpu")
  t.eq(code, 130, out .. err)
  t.one_line(err, "^spcore: SIGINT: the script ends at its next step; a second signal ends it at once\n$")
end
