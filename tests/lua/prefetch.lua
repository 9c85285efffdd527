-- SPDX-License-Identifier: MIT
-- prefetch.lua: a row for each number of workers and of steps ahead, on the built-in images, on files and where both
-- only sleep; what it refuses. What the figures are is for a quiet machine to say.
-- needs: onednn images
-- once: a script
local t = require "check"
local dir <close> = t.folder()

local function run(line)
  return t.spcore(dir.path, "run prefetch.lua --threads 1 --steps 3 --turns 1 --size 16 " .. line)
end

local row = "^(%d+) +(%d+) +([%d.]+) +([%d.]+) +([%d.]+) +([%d.]+) +([%d.]+) +%d+%%$"

-- The rows "workers ahead"; their figures belong together.
local function rows(line, device)
  local code, out, err = run(line .. " --device " .. device)
  t.eq(code, 0, err)
  t.match(out, "^device " .. device .. ", batch %d+ of 16 x 16, loading is ")
  local list = {}
  for words in out:gmatch "[^\n]+" do
    local workers, ahead, load, train, both, ideal, gain = words:match(row)
    if workers then
      list[#list + 1] = workers .. " " .. ahead
      load, train = tonumber(load), tonumber(train)
      t.ok(math.abs(ideal - (ahead == "0" and load + train or math.max(load, train))) < 0.002, words)
      local b, half = tonumber(both), 0.0006 -- of three digits, each of which is a range
      local least, most = (load + train - 2 * half) / (b + half), (load + train + 2 * half) / math.max(b - half, 1e-9)
      t.ok(gain + 0.006 >= least and gain - 0.006 <= most, words)
    end
  end
  return table.concat(list, ", ")
end

t.eq(rows("--batch 4 --ahead 0,1,3 --workers 3", "cpu"), "1 0, 1 1, 1 3, 3 0, 3 1, 3 3")
t.eq(rows("--batch 4 --ahead 0,2", "mock"), "1 0, 1 2, 2 0, 2 2")
t.eq(rows("--batch 2 --load-ms 0.2 --train-ms 0.3 --ahead 1", "mock"), "1 1")
local code, _, err = t.spcore(dir.path, "run make_shapes.lua --target class --samples 24 --size 16 --quiet files")
t.eq(code, 0, err)
t.eq(rows("--batch 2 --ahead 1 --workers 1 --data files", "cpu"), "1 1")

for _, bad in ipairs { "x", "-1", "65", "1,,2", "1.5" } do
  local code, out, err = run("--device cpu --ahead " .. bad)
  t.eq(code .. out, "2")
  t.one_line(err, "prefetch.lua: %-%-ahead: ")
end
