-- SPDX-License-Identifier: MIT
-- SIGUSR1 and SIGUSR2 save and end, or save and go on; every signal is answered at once, in one line, and ends a validation within
-- a batch; whoever goes on from such a checkpoint comes to the same bytes. All signals are sent by the script itself, at a step or
-- behind the first batch of a validation, so that no clock is in it.
-- needs: onednn images jansson
local t = require "check"
local sys = require "spcore.sys"

local dir <close> = t.folder()
t.write(dir.path .. "/toy.lua", [[
local sp = require "spcore"
local progress = require "spcore.progress"
local opt = sp.args({
  at = { -1, "step behind which `command` runs" }, validation = { -1, "number of the one within which it runs" },
  command = { "", "a command" }, early = { "", "a command before the run begins" }, rank = { 0, "of several, which runs it" },
  every = { 6, "steps of a validation" }, steps = { 40, "steps" }, accumulate = { 1, "steps of an update" },
  weights = { true, "are saved" }, shared = { false, "a graph that ranks can share" },
}, { checkpoints = true })
local function command(text)
  if (tonumber(os.getenv "RANK") or 0) == opt.rank then os.execute(text) end
end
local g <close> = sp.graph(opt)
local data, val, loss
if opt.shared then
  local function source(split) return g.reader { path = "shapes", split = split, size = 8, batch = 2, samples = 32, val_fraction = 0.5 } end
  data, val = source "train", source "val"
  local images = g.normalize { data.image, scale = true }.images
  local enc = g.encoder { images, model = "unet", width = 4, levels = 1, convs = 1 }
  loss = g.cross_entropy { g.decoder { enc.features, skips = enc.maps, model = "unet", width = 4, convs = 1, classes = data.classes }.logits,
    data.mask }
else
  local function source(samples) return g.toy_source { batch = 4, samples = samples, drift = 3 } end
  data, val = source(36), source(16)
  loss = g.toy_loss { g.toy_mul { data.x, name = "model" }.y }
end
g:train { loss, optimizer = g.sgd { lr = 0.05, momentum = 0.5, ema = 0.875 }, accumulate = opt.accumulate }
g:evaluate { data = val, every = opt.every }
command(opt.early)
local run <close> = sp.run { graph = g, opt = opt, steps = opt.steps, weights = opt.weights }
local number, batches = 0, 0
function progress.validating(done)
  if done == 0 then number = number + 1 end
  if number ~= opt.validation then return end
  if done == 1 then command(opt.command) end
  batches = math.max(batches, done)
end
for step, m in g:steps(run:rest()) do
  run:step(step, m)
  if step == opt.at then command(opt.command) end
end
run:evaluate(val)
run:finish(batches .. " batches")
]])
t.write(dir.path .. "/plain.lua", [[
local sp = require "spcore"
local opt = sp.args { command = { "", "a command" } }
local g <close> = sp.graph(opt)
local x = g.toy_source { batch = 4, samples = 36 }
g:train { g.toy_loss { g.toy_mul { x.x }.y }, optimizer = g.toy_sgd {} }
local n = 0
for step in g:steps(100) do
  if step == 2 then os.execute(opt.command) end
  n = n + 1
end
print(n)
]])
local function run(line, script)
  return t.spcore(dir.path, ("run %s --device cpu %s"):format(script or "toy.lua", line),
    "env --default-signal=INT,TERM,HUP,USR1,USR2")
end
local function without_time(name)
  local text = t.read(dir.path .. "/" .. name .. "/metrics.jsonl")
  for _, key in ipairs { "time", "comm_share", "slowest_ms", "slowest_rank" } do text = text:gsub(('"%s":[%%d.e+-]+,?'):format(key), "") end
  return (text:gsub(',"sum":"%x+"', ""):gsub(",}", "}"))
end
local function same(a, b)
  for _, name in ipairs { "weights", "weights-last", "best" } do
    local path = ("%s/%%s/%s.safetensors"):format(dir.path, name)
    t.ok(t.read(path:format(a)) == t.read(path:format(b)), name .. " of " .. b)
  end
  t.eq(without_time(b), without_time(a), b)
end
local status = { INT = 130, TERM = 143, HUP = 129, USR1 = 138, USR2 = 140 }
local ends = "^spcore: SIG%s: a checkpoint is saved, and the run ends%s\n$"
local function kill(signal) return ("'kill -%s $PPID'"):format(signal) end

for name, options in pairs { whole = "", often = "--every 1", acc2 = "--accumulate 2", acc3 = "--accumulate 3 --every 5 --steps 39" } do
  t.eq(run(("--out %s --quiet %s"):format(name, options)), 0)
end

-- ---- within a validation: the first, a later one, the last one of a run that has none behind it, the one behind the loop ----
local n = 0
local function cut(signal, options, where, twin, batches)
  n = n + 1
  local name = "cut" .. n
  local code, out, err = run(("--out %s %s %s --command %s"):format(name, options, where, kill(signal)))
  t.eq(code, status[signal], out .. err)
  err = err:gsub("spcore: train: accumulate = [^\n]*\n", "") -- what it says of this toy
  t.one_line(err, ends:format(signal, signal:find "USR" and "" or "; a second signal ends it at once"))
  t.match(out, "go on with: spcore run toy.lua %-%-resume " .. name)
  if batches then t.match(out, (", %d batches\n"):format(batches)) end
  code, out, err = run(("--resume %s --override --at -1 --validation -1"):format(name))
  t.eq(code, 0, out .. err)
  same(twin, name)
  return out
end
for signal in pairs(status) do
  local number = ({ INT = 1, TERM = 3, HUP = 6, USR1 = 2, USR2 = 7 })[signal]
  if signal ~= "INT" then -- of which os.execute hears nothing
    local out = cut(signal, "", "--validation " .. number, "whole", 1)
    if number < 7 then
      t.match(out, ("resumed after step %d, before the validation that was interrupted: %%S+checkpoint%%-%d"):format(6 * number - 1,
        6 * number))
    end
  end
end
cut("TERM", "--prefetch 2 --checkpoint-every 4", "--validation 1", "whole", 1)
cut("USR1", "--accumulate 2", "--validation 2", "acc2", 1)
-- Not where the weights, or those that a later validation has to see, are none that a checkpoint has: then it comes to its end.
cut("TERM", "--accumulate 3 --every 5 --steps 39", "--validation 2", "acc3", 4)
cut("TERM", "--every 1", "--validation 9", "often", 1)
-- The same validation twice, and two signals in it; the first of them counts, and warnings kill nothing.
for first, second in pairs { USR1 = "USR2", USR2 = "TERM" } do
  local name = "again" .. first
  local code, out, err = run(("--out %s --validation 3 --command 'kill -%s $PPID; kill -%s $PPID'"):format(name, first, second))
  t.eq(code, status[first], out .. err)
  t.match(err, ("^spcore: SIG%s: a checkpoint is saved, and the run ends\nspcore: SIG%s: the run is ending already[^\n]*\n$"):format(
    first, second))
  code = run(("--resume %s --override --validation 1 --command %s"):format(name, kill "TERM"))
  t.eq(code, 143)
  t.eq(run(("--resume %s --override --validation -1 --quiet"):format(name)), 0)
  same("whole", name)
end
local code, out, err = run("--out killed --validation 3 --command 'kill -TERM $PPID; kill -HUP $PPID'") -- whichever is first
t.ok(code == status.TERM or code == status.HUP, code)
t.ok(not sys.there(dir.path .. "/killed/stopped.json"), "the second one ends it at once")

-- ---- behind a step: the first, while a checkpoint is being written, the last that was to be run ----
for where, signal in pairs { ["--at 0"] = "USR1", ["--at 5 --checkpoint-every 3"] = "USR2", ["--at 39"] = "USR1",
  ["--at 38"] = "TERM" } do
  cut(signal, "", where, "whole")
end

-- ---- a checkpoint, and on ----
for where, signal in pairs { ["--at 13"] = "USR1", ["--at 0"] = "USR2", ["--validation 2"] = "USR1" } do
  local name = "save" .. where:gsub("%W", "")
  local code, out, err = run(("--out %s --on-usr save --checkpoint-every 0 %s --command %s"):format(name, where, kill(signal)))
  t.eq(code, 0, out .. err)
  t.one_line(err, ("^spcore: SIG%s: a checkpoint is saved, and the run goes on\n$"):format(signal))
  t.eq(select(2, out:gsub("saved step %d+: ", "")), 1, out)
  same("whole", name)
  os.remove(dir.path .. "/" .. name .. "/summary.json") -- as one that was killed later
  code, out, err = run(("--resume %s --override --at -1 --validation -1"):format(name))
  t.eq(code, 0, out .. err)
  t.match(out, "resumed after step %d")
  same("whole", name)
end
code, out, err = run("--out soon --on-usr save --early " .. kill "USR1")
t.eq(code, 0)
t.one_line(err, "^spcore: SIGUSR1: the run has no steps to save now, and goes on\n$")
t.match(out, "saved step 3: ") -- which are saved as soon as there are some
same("whole", "soon")
code, out, err = run("--out none --on-usr save --no-weights --at 3 --command " .. kill "USR1")
t.eq(code, 138)
t.match(err, "%-%-on%-usr save: this run saves no checkpoints, so SIGUSR1 and SIGUSR2 end it\n"
  .. "spcore: SIGUSR1: there are no checkpoints here to save; the script ends at its next step, as at a SIGTERM\n$")
code, _, err = run "--on-usr maybe"
t.eq(code, 2)
t.one_line(err, "%-%-on%-usr maybe: choose one of end, save")

-- ---- a script without checkpoints ----
for signal, words in pairs { USR1 = "there are no checkpoints here to save; the script ends at its next step, as at a SIGTERM",
  TERM = "the script ends at its next step; a second signal ends it at once" } do
  code, out, err = run("--command " .. kill(signal), "plain.lua")
  t.eq(code, status[signal])
  t.eq(out, "3\n")
  t.eq(err, ("spcore: SIG%s: %s\n"):format(signal, words))
end

-- ---- several ranks: to one of them, to the launcher; within a validation, behind a step; to end, to go on ----
local launcher = "'kill -%s $(sed \"s/.*) . //; s/ .*//\" /proc/$PPID/stat)'"
t.eq(run "--out two --shared --ranks 2 --quiet", 0)
for i, how in ipairs { { "USR1", "--rank 1 --validation 2", "'kill -%s $PPID'" }, { "TERM", "--rank 0 --at 13", launcher },
  { "USR2", "--rank 1 --at 13 --on-usr save", "'kill -%s $PPID'" }, { "USR1", "--rank 0 --validation 3", launcher } } do
  local signal, name, saves = how[1], "ranks" .. i, how[2]:find "save"
  code, out, err = run(("--out %s --shared --ranks 2 %s --command %s"):format(name, how[2], how[3]:format(signal)))
  t.eq(code, saves and 0 or status[signal], out .. err)
  t.match(err, ("SIG%s: a checkpoint is saved, and the run %s"):format(signal, saves and "goes on" or "ends"))
  t.eq(select(2, err:gsub("\n", "")), 1, err)
  if saves then os.remove(dir.path .. "/" .. name .. "/summary.json") end
  t.eq(select(2, out:gsub("saved step %d+: ", "")), 1, out)
  code, out, err = run(("--resume %s --ranks 2 --override --at -1 --validation -1"):format(name))
  t.eq(code, 0, out .. err)
  same("two", name)
end
