-- SPDX-License-Identifier: MIT
-- run:save() saves each time it is called, changes nothing of what comes after, and loses no weights without a word.
-- needs: jansson
local t = require "check"
local sys = require "spcore.sys"

local dir <close> = t.folder()

-- Writes NAME.lua and runs it into the folder NAME. `every` is the code in the loop, `last` what follows it.
local function run(name, every, last, more)
  t.write(dir.path .. "/" .. name .. ".lua", ([[
local sp = require "spcore"
local opt = sp.args {}
local g <close> = sp.graph(opt)
local mul = g.toy_mul { g.toy_source { batch = 8 }.x, name = "last" }
g:train { g.toy_loss { mul.y }, optimizer = g.toy_sgd {} }
local run <close> = sp.run { graph = g, opt = opt, steps = 7, %s }
for step, m in g:steps(7) do
  run:step(step, m)
  %s
end
%s
]]):format(more or "", every, last or "run:finish()"))
  return t.spcore(dir.path, ("run %s.lua --quiet --device cpu --out %s"):format(name, name))
end
local function weights(name) return dir.path .. "/" .. name .. "/weights.safetensors" end

t.eq(run("plain", ""), 0)
t.eq(run("saves", [[if step % 2 == 0 then
    run:save()
    assert(os.execute("cp saves/weights.safetensors saved" .. step))
  end]]), 0)
local seen = {}
for _, name in ipairs { "saved0", "saved2", "saved4" } do
  local w = t.tensors(dir.path .. "/" .. name)["last.w"]
  t.ok(w and not seen[w], name .. " has weights of its own")
  seen[w] = true
end
t.eq(t.read(weights "saves"), t.read(weights "plain"))
local left = 0
for _, name in ipairs(sys.list(dir.path .. "/saves")) do left = left + (name:match "^weights" and 1 or 0) end
t.eq(left, 1, "files of weights")

-- `weights = false` is about the end: who asks gets them.
t.eq(run("unasked", "", nil, "weights = false"), 0)
t.eq(sys.kind(weights "unasked"), nil)
t.eq(run("asked", "", "run:save() run:finish()", "weights = false"), 0)
t.eq(t.read(weights "asked"), t.read(weights "plain"))

local code, out, err = run("late", "", "run:finish() run:save()")
t.eq(code, 1)
t.one_line(err, "^spcore: late.lua:%d+: run:save was called after run:finish\n$")

-- An error behind the last save costs nothing of what was learned since.
code, out, err = run("fails", "if step == 2 then run:save() end if step == 6 then error 'mine' end")
t.one_line(err, "^spcore: fails.lua:%d+: mine\n$")
t.eq(t.read(weights "fails"), t.read(weights "plain"))

-- A folder that is gone: the weights go into a temporary one, once, and the user hears of it also where another error ended
-- the run.
local function elsewhere()
  local n = 0
  for _, name in ipairs(sys.list(dir.path .. "/tmp")) do
    if sys.kind(dir.path .. "/tmp/" .. name .. "/weights.safetensors") then n = n + 1 end
  end
  return n
end
assert(os.execute(("mkdir '%s/tmp'"):format(dir.path)))
local program = t.program
t.program = ("env' 'TMPDIR=%s/tmp' '%s"):format(dir.path, program)
code, out, err = run("gone", "if step == 3 then os.execute 'rm -r gone' run:save() end")
t.eq(code, 1)
t.one_line(err, "gone/weights.safetensors: .*; the weights are in .*/tmp/.*/weights.safetensors instead\n$")
t.eq(elsewhere(), 1)
code, out, err = run("lost", "if step == 3 then os.execute 'rm -r lost' error 'mine' end")
t.eq(code, 1)
t.match(err, "lost/weights.safetensors: .*; the weights are in .*/tmp/.*/weights.safetensors instead\n")
t.match(err, "spcore: lost.lua:%d+: mine\n$")
t.eq(elsewhere(), 2)

-- A file that may grow no further: where the weights are, and the last checkpoint, in the error's one line. The weights are
-- smaller than what is left; where their name is taken they are elsewhere, or nowhere.
local function full(name, line, command)
  t.write(dir.path .. "/full.lua", ([[
local sp = require "spcore"
local opt = sp.args({}, { checkpoints = true })
local g <close> = sp.graph(opt)
local mul = g.toy_mul { g.toy_source { batch = 8 }.x, name = "last" }
g:train { g.toy_loss { mul.y }, optimizer = g.toy_sgd {} }
local run <close> = sp.run { graph = g, opt = opt, steps = 200 }
for step, m in g:steps(200) do
  if step == 2 then os.execute %q end
  run:step(step, m)
end
]]):format(command))
  return t.spcore(dir.path, ("run full.lua --quiet --device cpu --out %s %s"):format(name, line), "ulimit -f 8;")
end
local no_space = "/metrics.jsonl: File too large; "
code, out, err = full("full", "--checkpoint-every 4", "true")
t.eq(code, 1)
t.one_line(err:match "[^\n]*\n$", "full.lua:%d+: full" .. no_space .. "the weights are in full/weights.safetensors; the last checkpoint is "
  .. "full/checkpoint%-%d+.safetensors\n$")
t.ok(t.tensors(weights "full")["last.w"])
code, out, err = full("taken", "", "mkdir -p taken/weights.safetensors/x")
t.one_line(err, "taken" .. no_space .. "the weights are in .*/tmp/.*/weights.safetensors; there is no checkpoint\n$")
t.eq(elsewhere(), 3)
code, out, err = full("none", "", "mkdir -p none/weights.safetensors/x; rm -r '" .. dir.path .. "/tmp'")
t.one_line(err, "none" .. no_space .. "the weights are lost, too: none/weights.safetensors: .*; there is no checkpoint\n$")
