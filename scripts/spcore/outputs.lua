-- SPDX-License-Identifier: MIT
-- Files of scripts that write no run: in one process alone, over nothing that another program wrote, and none where the graph is
-- only shown.
local args = require "spcore.args"
local core = require "spcore.core"
local ranks = require "spcore.ranks"
local sys = require "spcore.sys"

local outputs = {}

-- For a script that does not train: each rank of a job would do all of it, into the same files. The first one says so.
function outputs.alone()
  if ranks.n == 1 then return end
  core.broadcast(ranks.first and "" or nil) -- all are here, so the end of one is not news to another that has yet to speak
  if not ranks.first then core.exit(2) end
  args.usage("it does not train: each of the %d ranks of this job would do all of it; start it once, without --ranks", ranks.n)
end

-- place(opt, path) -> { path = }, to be marked <close>: the file or folder that stages and the script write to. Stages make folders
-- before the graph runs, so where it is only shown (--explain, spcore schedule) that is another place, which goes away again.
function outputs.place(opt, path)
  if not (core.env().schedule or opt.explain) then return setmetatable({ path = path }, { __close = function() end }) end
  local temp = assert(sys.mkdtemp())
  return setmetatable({ path = temp .. "/shown" .. (path:match "%.%w+$" or "") },
    { __close = function() sys.remove_all(temp) end })
end

-- What is at `path`: "none" (nothing, or an empty file), "own" (a file that begins with `head`), "other"; pipes are "none".
function outputs.what(path, head)
  if sys.kind(path) ~= "file" then return "none" end
  local file, why = io.open(path, "rb")
  if not file then core.fail(why) end
  local begin = file:read(#head)
  file:close()
  return not begin and "none" or begin == head and "own" or "other"
end

-- Ends the program where --out names a file that does not begin as what this script writes.
function outputs.check_file(path, head)
  if outputs.what(path, head) ~= "other" then return end
  args.usage("--out: %s is there, and this script did not write it; name another file, or remove it", path)
end

return outputs
