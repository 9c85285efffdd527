-- SPDX-License-Identifier: MIT
-- The traces of the ranks of a job, of which each has written one, as one file.
local core = require "spcore.core"
local ranks = require "spcore.ranks"
local sys = require "spcore.sys"

-- What has to be added to this host's clock to come to the first rank's, within the way of a message: the nearest of some tries.
local function clock_offset()
  local best = -math.huge
  for _ = 1, 8 do
    core.gather "" -- all are here
    local sent = tonumber(core.broadcast(ranks.first and ("%.6f"):format(sys.now()) or nil))
    best = math.max(best, sent - sys.now())
  end
  return ranks.first and 0 or best
end

-- The events of a trace, later by so many microseconds, as those of the process with that number.
local function events_of(text, rank, later)
  local events = text:match '"traceEvents":%[\n(.*)\n%]}\n?$' or ""
  events = events:gsub('"pid":1,', ('"pid":%d,'):format(rank + 1)):gsub('"id":(%d+)', function(id)
    return ('"id":%d'):format(id + rank * 10000000)
  end):gsub('"ts":([%d.]+)', function(ts) return ('"ts":%.3f'):format(ts + later) end)
  return (events:gsub('"process_name","args":{"name":"spcore"}', ('"process_name","args":{"name":"rank %d"}'):format(rank)))
end

-- The traces that all ranks have in files of their own become that of the first: a process a rank, by one clock. A trace that is
-- damaged, or longer than 64 MiB, leaves them as they are.
return function(path)
  local file = io.open(path, "rb")
  local text = file and file:read "a" or ""
  if file then file:close() end
  local began = tonumber(text:match '"began":([%d.]+)')
  local all = core.gather(text)
  local begins = core.gather(began and ("%.6f"):format(began + clock_offset()) or "")
  local first = math.huge
  for _, b in ipairs(begins) do first = math.min(first, tonumber(b) or math.huge) end
  for r = 1, ranks.n do
    if not all or not tonumber(begins[r]) then return end
  end
  if not ranks.first then
    os.remove(path)
    return
  end
  local parts = {}
  for r, one in ipairs(all) do parts[r] = events_of(one, r - 1, (tonumber(begins[r]) - first) * 1e6) end
  local head = all[1]:match '^(.-"traceEvents":%[\n)'
  head = head:gsub('"writer":"spcore"', ('"writer":"spcore","ranks":%d'):format(ranks.n), 1)
  local out, why = io.open(path, "wb")
  local ok = out and out:write(head, table.concat(parts, ",\n"), "\n]}\n")
  if out and not out:close() or not ok then core.fail(("%s: %s"):format(path, why or "writing failed")) end
end
