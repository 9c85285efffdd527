-- SPDX-License-Identifier: MIT
-- No file of ours, and no function of it that a run calls, touches a global that Lua itself does not have.
-- needs: jansson
-- once: sources
local t = require "check"
local sys = require "spcore.sys"

local known = {}
for name in pairs(_G) do known[name] = true end
setmetatable(_G, {
  __index = function(_, name) error("global '" .. tostring(name) .. "' is read", 2) end,
  __newindex = function(_, name) error("global '" .. tostring(name) .. "' is made", 2) end,
})
for name in pairs(package.loaded) do
  if name:match "^spcore%.%l" and name ~= "spcore.sys" and name ~= "spcore.core" then package.loaded[name] = nil end
end

local sp = require "spcore"

-- The compiler's listing shows every access, in code that no run reaches too.
local list = io.popen("luac5.4 -v 2>&1 || luac -v 2>&1"):read "l" or ""
local luac = list:match "^Lua 5.4" and (os.execute "luac5.4 -v >/dev/null 2>&1" and "luac5.4" or "luac")
local function check_folder(dir)
  for _, name in ipairs(assert(sys.list(dir))) do
    local path = dir .. "/" .. name
    if sys.kind(path) == "dir" then
      if name ~= "meta" then check_folder(path) end
    elseif name:match "%.lua$" then
      for line in io.popen(("%s -l -l -p '%s'"):format(luac, path)):lines() do
        local global = line:match "TABUP.*_ENV \"([^\"]+)\""
        local made = line:match "SETTABUP"
        t.ok(not global or (known[global] and not made), path .. ": global " .. tostring(global))
      end
    end
  end
end
if luac then check_folder(sp.script_dir) end

local g <close> = sp.graph { strategy = "pipelined" }
local data = g.toy_source { batch = 8 }
local a = g.toy_mul { data.x, name = "a", frozen = true }
local b = g.toy_mul { a.y, name = "b" }
g:train { g.toy_loss { b.y }, optimizer = g.toy_sgd {}, lr = function() return 0.1 end }
local dir <close> = t.folder()
local run = sp.run { graph = g, opt = { out = dir.path .. "/run" }, steps = 3 }
for step, m in g:steps(3) do
  run:step(step, m)
  sp.log(step, m)
end
run:finish()
t.eq(sys.kind(dir.path .. "/run/metrics.jsonl"), "file")
