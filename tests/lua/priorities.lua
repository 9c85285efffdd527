-- SPDX-License-Identifier: MIT
-- priorities.lua: two loops driven in turns by one script, with the same bits in all ways, and its table; that
-- nothing is claimed where a device has no priorities.
-- needs: onednn images
-- once: a script
local t = require "check"
local dir <close> = t.folder()

for _, how in ipairs { "cpu", "mock", "mock --capture lane --requests 1 --flight 1" } do
  local line = "run priorities.lua --threads 1 --size 16 --batch 2 --width 4 --steps 3 --turns 2 --device " .. how
  local code, out, err = t.spcore(dir.path, line)
  t.eq(code, 0, err)
  local rows, device = {}, how:match "^%a+"
  for words in out:gmatch "[^\n]+" do
    local name, p50, p99, rate = words:match "^(%a.-%a)  +([%d.-]+) +([%d.-]+) +([%d.-]+)$"
    if name then
      rows[#rows + 1] = name
      t.eq(p50 == "-", p99 == "-", words)
      t.eq(p50 == "-", name == "background alone", words)
      t.eq(rate == "-", name == "requests alone", words)
      t.ok(p50 == "-" or tonumber(p50) <= tonumber(p99), words)
    end
  end
  t.eq(table.concat(rows, "; "), "requests alone; background alone; both, one priority; both, high and low")
  t.match(out, "\ndevice " .. device .. " has no priorities: ")
end
local code, out, err = t.spcore(dir.path, "run priorities.lua --size 8")
t.eq(code .. out, "2")
t.one_line(err, "size")
