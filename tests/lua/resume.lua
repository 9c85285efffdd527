-- SPDX-License-Identifier: MIT
-- Runs that are interrupted and go on: the same bytes as in one piece, whatever ended them, and what is refused.
-- needs: jansson
local t = require "check"
local sys = require "spcore.sys"

local dir <close> = t.folder()
t.write(dir.path .. "/toy.lua", [[
local sp = require "spcore"
local opt = sp.args({
  at = { -1, "step behind which `command` runs" }, command = { "", "a command" }, steps = { 40, "steps" },
  accumulate = { 1, "steps of an update" }, drift = { 3, "of the data" }, wait = { 0.0, "seconds behind it, or a signal" },
  rate = { false, "by a function" },
}, { checkpoints = true })
local g <close> = sp.graph(opt)
local function source(samples) return g.toy_source { batch = 4, samples = samples, drift = opt.drift } end
local data, val = source(36), source(8)
local loss = g.toy_loss { g.toy_mul { data.x, name = "model" }.y }
local sgd = g.sgd { lr = 0.05, momentum = 0.5, ema = 0.875 }
g:train { loss, optimizer = sgd, accumulate = opt.accumulate, lr = opt.rate and function() return 0.05 end or nil }
g:evaluate { data = val, every = 8 }
local run <close> = sp.run { graph = g, opt = opt, steps = opt.steps }
for step, m in g:steps(run:rest()) do
  run:step(step, m)
  if step == 20 and not opt.rate then sgd:set("lr", 0.02) end
  if step == opt.at then os.execute(opt.command) end
  local till = sp.now() + (step == opt.at and opt.wait or 0)
  if sp.now() < till then io.open("waits", "w"):close() end -- os.execute hears no SIGINT
  while sp.now() < till and not sp.interrupted() do require "spcore.sys".sleep(0.01) end
end
run:evaluate(val)
run:finish()
]])
t.write(dir.path .. "/other.lua", t.read(dir.path .. "/toy.lua"))
-- `command` when that file is there
local function when(path, command)
  return ("for _ in $(seq 1000); do [ ! -e %s ] || break; sleep 0.02; done; %s"):format(path, command)
end
-- Under nohup, or in the background of a script, a process inherits signals that are ignored.
local function run(line, script)
  return t.spcore(dir.path, ("run %s --device cpu %s"):format(script or "toy.lua", line), "env --default-signal=INT,TERM,HUP")
end
local function without_time(path)
  return (t.read(dir.path .. path):gsub('"time":[%d.e+-]+,?', ""):gsub(',"sum":"%x+"', ""))
end
local function same(a, b)
  for _, name in ipairs { "/weights.safetensors", "/weights-last.safetensors", "/best.safetensors" } do
    t.ok(t.read(dir.path .. "/" .. a .. name) == t.read(dir.path .. "/" .. b .. name), name .. " of " .. b)
  end
  t.eq(without_time("/" .. b .. "/metrics.jsonl"), without_time("/" .. a .. "/metrics.jsonl"))
end
local function checkpoints(name)
  local list = {}
  for _, file in ipairs(sys.list(dir.path .. "/" .. name)) do list[#list + 1] = tonumber(file:match "^checkpoint%-(%d+)") end
  table.sort(list)
  return table.concat(list, " ")
end

-- ---- killed, at any step and in any strategy ----
t.eq(run "--out whole --quiet --checkpoint-every 8", 0)
t.eq(checkpoints "whole", "32 40")
for i, step in ipairs { 3, 11, 20, 21, 38 } do
  local name, strategy = "k" .. i, i % 2 == 0 and "pipelined" or "serialized"
  t.eq(run(("--out %s --quiet --checkpoint-every 8 --strategy %s --at %d --command 'kill -KILL $PPID'"):format(name,
    strategy, step)), 137)
  local code, out, err = run(("--resume %s --at -1"):format(name))
  t.eq(code, 2) -- --at is an option as others are
  code, out, err = run(("--resume %s --at -1 --override"):format(name))
  t.eq(code, 0, out .. err)
  t.match(out, "strategy " .. strategy) -- as it was, and as often saved
  t.eq(checkpoints(name), "32 40")
  t.eq((out:match "resumed after step (%d+)" or out:match "starts again at step (1): %S+ has no checkpoint yet" - 1) % 8, 0)
  same("whole", name)
end
do -- killed between a checkpoint and the removal of the one before the one before it, and with no other to come
  local kill = "cp stale/checkpoint-24.safetensors stale/checkpoint-16.safetensors; kill -KILL $PPID"
  t.eq(run(("--out stale --quiet --checkpoint-every 8 --at 38 --command '%s'"):format(when("stale/checkpoint-32.safetensors", kill))), 137)
  t.eq(checkpoints "stale", "16 24 32")
  t.eq(run "--resume stale --at -1 --override --quiet", 0)
  t.eq(checkpoints "stale", "32 40")
  same("whole", "stale")
end
local plugin = ("--plugin '%s/toy.so' "):format(os.getenv "SP_TEST_PLUGINS") -- a list of one
t.eq(run("--out plug --quiet --checkpoint-every 8 --at 11 --command 'kill -KILL $PPID' " .. plugin), 137)
t.eq(run "--resume plug --at 21 --override --prefetch 3 --quiet", 137)
t.eq(run("--resume plug --at -1 --override --quiet " .. plugin), 0)
t.match(t.read(dir.path .. "/plug/resumed.jsonl"), '"changed":{"at":21,"prefetch":3}.*"changed":{"at":%-1}')
same("whole", "plug")
t.eq(run "--out acc --quiet --checkpoint-every 5 --accumulate 3", 0)
t.eq(checkpoints "acc", "30 36") -- gradients between two updates are in no file
t.eq(run "--out acc2 --quiet --checkpoint-every 5 --accumulate 3 --at 33 --command 'kill -KILL $PPID'", 137)
t.eq(run "--resume acc2 --override --at -1 --quiet", 0)
same("acc", "acc2")

-- ---- a run that is complete, and is to be longer ----
for i, every in ipairs { "0", "8", "5m" } do
  local name = "longer" .. i
  t.eq(run(("--out %s --quiet --steps 24 --checkpoint-every %s"):format(name, every)), 0)
  t.match(checkpoints(name), "24$")
  t.match(select(2, run(("--resume %s"):format(name))), "the run is complete; with %-%-override and other options it goes on")
  t.match(select(2, run(("--resume %s --override --steps 40"):format(name))), "resumed after step 24: ")
  same("whole", name)
end
t.eq(run "--out longest --quiet --steps 19", 0) -- whose last validation no line has
t.eq(run "--resume longest --override --steps 40 --quiet", 0)
t.ok(t.read(dir.path .. "/whole/weights.safetensors") == t.read(dir.path .. "/longest/weights.safetensors"))

-- ---- what cannot be gone on with ----
for words, cure in pairs {
  ["--resume="] = "%-%-resume: the folder of a run is wanted", ["--resume ''"] = "the folder of a run is wanted",
} do
  local code, _, err = run(words)
  t.eq(code, 2)
  t.one_line(err, cure)
end
do
  local before = t.read(dir.path .. "/whole/metrics.jsonl")
  local code, _, err = run "--resume whole --override --steps 20"
  t.eq(code, 1)
  t.one_line(err, "%-%-resume whole: the run is to have 20 steps, and its checkpoint is at step 40: take more")
  t.eq(t.read(dir.path .. "/whole/metrics.jsonl"), before)
  t.ok(sys.there(dir.path .. "/whole/summary.json"))
end

-- ---- signals, and time that is over ----
for signal, status in pairs { INT = 130, TERM = 143, HUP = 129 } do
  os.remove(dir.path .. "/waits")
  local kill = when("waits", "kill -" .. signal .. " $PPID")
  local code, out, err = run(("--out %s --at 13 --wait 30 --command '(%s) &'"):format(signal, kill))
  t.eq(code, status, out)
  t.one_line(err, ("^spcore: SIG%s: a checkpoint is saved, and the run ends; a second signal ends it at once\n$"):format(signal))
  t.match(out, "saved step 1[678]: ")
  t.match(out, "go on with: spcore run toy.lua %-%-resume " .. signal)
  t.ok(not sys.there(dir.path .. "/" .. signal .. "/summary.json"))
  t.eq(run(("--resume %s --override --at -1 --wait 0 --quiet"):format(signal)), 0)
  same("whole", signal)
end
-- A fixed number of times: ThreadSanitizer holds a signal back while the program waits for the command.
t.eq(run "--out twice --at 13 --command 'for i in $(seq 60); do kill -TERM $PPID || exit; sleep 0.05; done 2>/dev/null'", 143)
code, out, err = run "--out late --max-time 1s --at 5 --command 'sleep 1.1'"
t.eq(code .. err, "0", out)
t.match(out, "late: stopped after %d+ steps? by %-%-max%-time 1s\n")
t.eq(run "--resume late --override --at -1 --max-time 0 --quiet", 0)
same("whole", "late")
t.eq(os.execute(("cd '%s' && '%s' run toy.lua --device cpu --out pipe 2>pipe.err | head -n 1 >/dev/null"):format(dir.path,
  t.program)), true)
t.ok(sys.there(dir.path .. "/pipe/summary.json"), "a pipe that is closed ends no training")

-- ---- --patience: two validations, each behind eight steps, that are no better by 0.5 are too many ----
local early = "--checkpoint-every 8 --patience 2 --min-delta 0.5 "
local code, out, err = run("--out early " .. early)
t.eq(code .. err, "0", out)
t.match(out, "\nstopped early at step 24: no better loss for 2 validations, best [%d.]+ at step 24\n")
t.eq(select(2, t.read(dir.path .. "/early/metrics.jsonl"):gsub("\n", "")), 24) -- no other had begun
t.eq(checkpoints "early", "16 24")
local summary = t.read(dir.path .. "/early/summary.json")
t.match(summary, '"steps": 24')
t.match(summary, '"stopped_early": {\n *"step": 23,\n *"validations": 2\n')
for i, step in ipairs { 9, 16, 17, 22, 23 } do
  local name, strategy = "early" .. i, i % 2 == 0 and "pipelined" or "serialized"
  t.eq(run(("--out %s %s --quiet --strategy %s --at %d --command 'sleep 0.1; kill -KILL $PPID'"):format(name, early, strategy,
    step)), 137)
  t.eq(run(("--resume %s --at -1 --override --quiet --checkpoint-every 8"):format(name)), 0)
  same("early", name)
  t.match(checkpoints(name), "16 24$")
  t.match(t.read(dir.path .. "/" .. name .. "/summary.json"), '"stopped_early"')
end
t.eq(run "--resume early --override --patience 0 --quiet", 0) -- whoever changes their mind
same("whole", "early")
local function killed(name)
  local path = name .. "/checkpoint-24.safetensors"
  t.eq(run(("--out %s --quiet --checkpoint-every 8 --at 30 --command '%s'"):format(name, when(path, "kill -KILL $PPID"))), 137)
  return dir.path .. "/" .. path
end
killed "late_early"
t.match(select(2, run "--resume late_early --at -1 --override --patience 1 --min-delta 0.5"), -- from step 24
  "\nstopped early at step 24: no better loss for 2 validations")
t.match(t.read(dir.path .. "/late_early/summary.json"), '"steps": 24')
t.eq(run "--out never --quiet --patience 7", 0)
same("whole", "never")
t.ok(not t.read(dir.path .. "/never/summary.json"):find "early")

-- ---- what is damaged, and what cannot be saved ----
local path = killed "flipped"
local text = t.read(path)
t.write(path, text:sub(1, -2) .. string.char(text:byte(-1) ~ 1))
code, out, err = run "--resume flipped --override --at -1"
t.eq(code, 0)
t.one_line(err, "flipped/checkpoint%-24.safetensors: damaged: .*; an older one is taken\n$")
t.match(out, "resumed after step 16")
same("whole", "flipped")
t.write(killed "short", text:sub(1, 200))
local cut_short, older = "/short/.checkpoint-16.safetensors.spcore-abcdef", "/short/.best.safetensors.spcore-abcdef"
t.write(dir.path .. cut_short, "of a save that was cut short")
t.write(dir.path .. older, "older than the run")
os.execute("touch -d 2001-01-01 " .. dir.path .. older)
local users = { "/short/best.safetensors.backup", "/short/best.safetensors.sha256", "/short/weights.safetensors.readme",
  "/short/checkpoint-08.safetensors", "/short/.notes.spcore-abcdef" }
for _, name in ipairs(users) do t.write(dir.path .. name, "of the user") end
t.match(select(2, run "--resume short --override --at -1"), "resumed after step 16")
t.ok(not sys.there(dir.path .. cut_short))
t.eq(t.read(dir.path .. older), "older than the run")
for _, name in ipairs(users) do t.eq(t.read(dir.path .. name), "of the user", name) end
same("whole", "short")
killed "lines"
text = t.read(dir.path .. "/lines/metrics.jsonl")
t.write(dir.path .. "/lines/metrics.jsonl", text:match(("[^\n]*\n"):rep(20)) .. '{"cut sh')
code, out, err = run "--resume lines --override --at -1"
t.one_line(err, "checkpoint%-24.safetensors: metrics.jsonl has 20 of the 24 lines before it; an older one is taken\n$")
same("whole", "lines")
path = killed "damage"
text = t.read(path)
t.ok(text:find('\\"lr\\":0.0199', 1, true), "what is live is in the metadata")
t.eq(run "--out rated --quiet --checkpoint-every 8 --steps 8 --rate", 0) -- a run that resumes knows no step's rate before one runs
t.ok(not t.read(dir.path .. "/rated/best.safetensors"):find('\\"lr\\":', 1, true), "a rate by a function is no state")
t.write(path, (text:gsub('(\\"lr\\":)0.0199', "%19.0199", 1)))
code, out, err = run "--resume damage --override --at -1"
t.one_line(err, "checkpoint%-24.safetensors: damaged: its metadata has the checksum .*; an older one is taken\n$")
same("whole", "damage")
killed "bytes"
text = t.read(dir.path .. "/bytes/metrics.jsonl")
-- Where line 21 begins: lines have times, whose digits differ from run to run.
local function line_21(lines) return #lines:match(("[^\n]*\n"):rep(20)) + 1 end
t.write(dir.path .. "/bytes/metrics.jsonl", text:sub(1, line_21(text) - 1) .. text:sub(line_21(text)):gsub('"loss":', '"loss";', 1))
code, out, err = run "--resume bytes --override --at -1"
t.one_line(err, "checkpoint%-24.safetensors: it is of step 24, but bytes/metrics.jsonl: line 21 is damaged: .*; an older one is taken\n$")
same("whole", "bytes")
-- One digit of a line that is JSON all the same; a line without its checksum.
for name, change in pairs { digit = { '("loss":%d*%.?%d*)(%d)', function(a, b) return a .. (b + 1) % 10 end },
  bare = { ',"sum":"%x+"}', "}" } } do
  killed(name)
  text = t.read(dir.path .. "/" .. name .. "/metrics.jsonl")
  t.write(dir.path .. "/" .. name .. "/metrics.jsonl", text:sub(1, line_21(text) - 1) .. text:sub(line_21(text)):gsub(change[1], change[2], 1))
  code, out, err = run(("--resume %s --override --at -1"):format(name))
  t.one_line(err, "it is of step 24, but %S*metrics.jsonl: line 21 is damaged: [^\n]* checksum[^\n]*; an older one is taken\n$")
  same("whole", name)
end
killed "none" -- of whose checkpoints none can be gone on with: nothing is begun anew, nor is a line lost
for step = 8, 24, 8 do
  path = ("%s/none/checkpoint-%d.safetensors"):format(dir.path, step)
  if sys.there(path) then t.write(path, text:sub(1, 100)) end
end
text = t.read(dir.path .. "/none/metrics.jsonl")
code, out, err = run "--resume none --override --at -1 --quiet"
t.eq(code, 1)
t.one_line(err, "%-%-resume %S*none: no checkpoint there can be gone on with: %S*checkpoint%-24.safetensors: .*; remove its")
t.eq(t.read(dir.path .. "/none/metrics.jsonl"), text)
os.execute("rm " .. dir.path .. "/none/checkpoint-*.safetensors")
t.match(select(2, run "--resume none --override --at -1"), "starts again at step 1: %S*none has no checkpoint yet")
same("whole", "none")
t.eq(run "--out full --at 4 --command 'mkdir -p full/checkpoint-16.safetensors/x' --checkpoint-every 8 --quiet", 0)
code, out, err = run "--out full2 --at 4 --command 'mkdir -p full2/checkpoint-16.safetensors/x' --checkpoint-every 8"
t.eq(code, 0)
t.one_line(err, "step 16 was not saved, what was saved before is still there: .*checkpoint%-16")
-- Names that no save can replace: each failure is told with --quiet, too, and a run without any save ends with an error.
local taken = {}
for step = 8, 40, 8 do taken[#taken + 1] = ("full3/checkpoint-%d.safetensors/x"):format(step) end
local all = table.concat(taken, " ")
code, out, err = run("--out full3 --at 0 --command 'mkdir -p " .. all .. " full3/best.safetensors/x' --checkpoint-every 8 --quiet")
t.eq(code, 1)
t.match(err, "step 8 was not saved, .*step 32 was not saved, .*full3: no checkpoint of %d+ could be saved")
t.ok(not t.read(dir.path .. "/full3/summary.json"):find '"best"', "weights of the best validation are nowhere")
t.ok(sys.there(dir.path .. "/full3/weights.safetensors"))

-- ---- what is refused ----
local function refused(line, pattern, status, script)
  code, out, err = run(line, script)
  t.eq(code, status or 2, out)
  t.one_line(err, pattern)
end
killed "r"
refused("--resume nowhere", "%-%-resume nowhere: there is no such folder")
refused("--resume .", "%-%-resume %.: it holds no run")
refused("--resume r", "other.lua: %-%-resume r: it is a run of toy.lua", 2, "other.lua")
refused("--resume r --steps 50", "%-%-resume r: %-%-steps was 40 and is 50; leave it away, or take %-%-override")
refused("--resume r --out elsewhere", "the run has its folder; leave %-%-out away")
refused("--override", "%-%-override goes with %-%-resume")
refused("--checkpoint-every often", "%-%-checkpoint%-every 'often': steps, or a time such as 90s, 5m, 2h, are wanted")
refused("--max-time 100", "%-%-max%-time '100': a time such as 90s, 5m, 2h is wanted")
t.write(dir.path .. "/toy.lua", (t.read(dir.path .. "/toy.lua"):gsub("momentum = 0.5", "momentum = 0.75")))
refused("--resume r", "the graph is another one: it was 'sgd: sgd of .*0.5.*' and is 'sgd: sgd of .*0.75.*'; %-%-override goes on", 1)
code, out, err = run "--resume r --override --at -1 --steps 44"
t.eq(code, 0)
t.one_line(err, "%-%-resume r: the script: not as the checkpoint knows it: ")
t.match(out, "%-%-override: steps was 40 and is 44\n")
t.match(out, "%-%-override: 'sgd: ")
t.match(t.read(dir.path .. "/r/summary.json"), '"steps": 44')
code, out = run "--resume r"
t.eq(code, 0)
t.match(out, "r: the run is complete")
