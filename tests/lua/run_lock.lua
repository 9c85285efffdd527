-- SPDX-License-Identifier: MIT
-- A run folder has one run: of several that begin at once one, and nothing that is there already is written to.
-- needs: jansson
-- once: files that are written in Lua
local t = require "check"
local sys = require "spcore.sys"

local dir <close> = t.folder()
t.write(dir.path .. "/toy.lua", [[
local sp = require "spcore"
local sys = require "spcore.sys"
local opt = sp.args {
  during = { "", "command to run behind the first step" },
  between = { "", "command to run between the making of the folder and of what is in it" },
}
local mkdir = sys.mkdir
function sys.mkdir(path)
  local ok, why, kind = mkdir(path)
  os.execute(opt.between)
  return ok, why, kind
end
local g <close> = sp.graph(opt)
g:train { g.toy_loss { g.toy_mul { g.toy_source { batch = 8 }.x }.y }, optimizer = g.toy_sgd {} }
local run <close> = sp.run { graph = g, opt = opt, steps = 5 }
for step, m in g:steps(5) do
  run:step(step, m)
  if step == 0 then os.execute(opt.during) end
end
run:finish()
]])
local function run(line) return t.spcore(dir.path, "run toy.lua --quiet --device cpu --seed 1 " .. line) end
local function lines(path)
  local n = 0
  for _ in io.lines(dir.path .. "/" .. path) do n = n + 1 end
  return n
end
local function other(out) -- a run beside the one under test
  return ("'%s' run toy.lua --quiet --device cpu --seed 2 --out %s 2>second"):format(t.program, out)
end
local holds = "%-%-out: %w+ holds %S+ of a run already; name another folder or remove it\n$"

-- Under way, over, and killed: what the next run is told.
t.eq(run(('--out one --during "%s"'):format(other "one")), 0)
t.one_line(t.read(dir.path .. "/second"),
  "^spcore: toy.lua:%d+: %-%-out: one is written by another run, which is under way; name another folder\n$")
t.eq(lines "one/metrics.jsonl", 5)
local code, out, err = run "--out one"
t.eq(code, 1)
t.one_line(err, holds)
t.eq(run "--out killed --during 'kill -KILL $PPID'", 128 + 9)
code, out, err = run "--out killed"
t.one_line(err, holds)

-- Two find the folder empty, or new: the first that writes to it has it.
for _, name in ipairs { "new", "empty" } do
  if name == "empty" then assert(sys.mkdir(dir.path .. "/empty")) end
  code, out, err = run(('--out %s --between "%s"'):format(name, other(name)))
  t.eq(code, 1)
  t.one_line(err, holds)
  t.eq(t.read(dir.path .. "/second"), "")
  t.match(t.read(dir.path .. "/" .. name .. "/settings.json"), '"seed": 2')
  t.eq(lines(name .. "/metrics.jsonl"), 5)
end

-- Links that lead nowhere are not followed.
for _, name in ipairs { "settings.json", "metrics.jsonl", "weights.safetensors", "checksums.jsonl", "summary.json", "samples",
  "best.safetensors", "checkpoint-7.safetensors", "weights-last.safetensors", "resumed.jsonl" } do
  assert(os.execute(("mkdir '%s/%s' && ln -s ../target '%s/%s/%s'"):format(dir.path, name, dir.path, name, name)))
  code, out, err = run("--checksums --out " .. name)
  t.eq(code, 1, name)
  t.one_line(err, "%-%-out: " .. name:gsub("[.-]", "%%%0") .. " holds " .. name:gsub("[.-]", "%%%0") .. " of a run already")
  t.eq(sys.kind(dir.path .. "/target"), nil, "what " .. name .. " leads to")
end

-- Files of one's own: made once, by whoever comes first; locked until they are closed.
local path = dir.path .. "/own"
local file = assert(sys.create(path))
t.eq(sys.locked(path), false)
t.eq(sys.lock(file), true)
t.eq(sys.locked(path), true)
assert(io.open(path)):close()
t.eq(sys.locked(path), true)
assert(file:write "text")
t.eq(file:close(), true)
t.eq(sys.locked(path), false)
t.eq(t.read(path), "text")
t.eq(select(3, sys.create(path)), "exists")
t.eq(t.read(path), "text")
t.eq(select(3, sys.create(dir.path .. "/none/own")), "missing")

-- Checksums too are no other run's.
local sp = require "spcore"
local g <close> = sp.graph { device = "cpu", checksums = true }
t.raises("own: File exists", g.checksums, g, path)
t.eq(t.read(path), "text")
