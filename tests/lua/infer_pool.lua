-- SPDX-License-Identifier: MIT
-- infer_pool.lua: a row for each number of lanes, whose answers the script itself compares bit by bit; what it refuses.
-- needs: onednn images
local t = require "check"
local dir <close> = t.folder()

for _, how in ipairs { "--device cpu", "--device mock", "--device mock --capture step" } do
  local code, out, err = t.spcore(dir.path, "run infer_pool.lua --threads 1 --size 16 --requests 100 --turns 1 --lanes 1,3,2 " .. how)
  t.eq(code, 0, err)
  local rows = {}
  for n in out:gmatch "\n +(%d+) lanes +%d+ clients +%d+ requests/s %(%d+ .. %d+%), +[%d.]+ times the first, p50 [%d.]+, p99 [%d.]+" do
    rows[#rows + 1] = n
  end
  t.eq(table.concat(rows, " "), "1 3 2", out)
end
for _, bad in ipairs { "x", "0", "65", "1,,2", "1.5" } do
  local code, out, err = t.spcore(dir.path, "run infer_pool.lua --device cpu --lanes " .. bad)
  t.eq(code .. out, "2")
  t.one_line(err, "infer_pool.lua: %-%-lanes: ")
end
