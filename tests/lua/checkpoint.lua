-- SPDX-License-Identifier: MIT
-- Runs that have no checkpoint, or fewer than they were asked for: nothing is lost or left out without a word.
-- needs: jansson
local t = require "check"
local sys = require "spcore.sys"

local dir <close> = t.folder()
t.write(dir.path .. "/toy.lua", [[
local sp = require "spcore"
local opt = sp.args({ steps = { 7, "steps" }, at = { -1, "step that kills it" }, accumulate = { 1, "steps of an update" } },
  { checkpoints = true })
local g <close> = sp.graph(opt)
g:train { g.toy_loss { g.toy_mul { g.toy_source { batch = 4 }.x }.y }, optimizer = g.toy_sgd {}, accumulate = opt.accumulate }
local run <close> = sp.run { graph = g, opt = opt, steps = opt.steps }
for step, m in g:steps(run:rest()) do
  run:step(step, m)
  if step == opt.at then os.execute "kill -KILL $PPID" end
end
run:finish()
]])
local function run(line) return t.spcore(dir.path, "run toy.lua --device cpu --no-tensorboard " .. line) end
local function read(name) return t.read(dir.path .. "/" .. name) end

-- ---- none at all ----
t.eq(run "--out over --quiet", 0)
t.ok(os.remove(dir.path .. "/over/checkpoint-7.safetensors"), "one of the end")
t.eq(run "--resume over", 0) -- there is nothing to do
local metrics, weights = read "over/metrics.jsonl", read "over/weights.safetensors"
local code, out, err = run "--resume over --override --steps 9"
t.eq(code, 1)
t.one_line(err, "%-%-resume over: the run is complete and has no checkpoint to go on from; begin another, with a %-%-checkpoint%-every "
  .. "that saves some before its end\n$")
t.eq(read "over/metrics.jsonl", metrics)
t.ok(read "over/weights.safetensors" == weights and sys.there(dir.path .. "/over/summary.json"))
t.write(dir.path .. "/over/checkpoint-3.safetensors", "damaged")
code, out, err = run "--resume over --override --steps 9"
t.eq(code, 1)
t.one_line(err, "no checkpoint there can be gone on with: .*; start another run\n$") -- which would not begin at step 0 either
for at, words in pairs { [0] = "1 step is", [4] = "5 steps are" } do
  local name = "cut" .. at
  t.eq(run(("--out %s --quiet --at %d"):format(name, at)), 137)
  code, out, err = run(("--resume %s --override --at -1"):format(name))
  t.eq(code .. err, "0")
  t.match(out, ("\nstarts again at step 1: %s has no checkpoint yet; its %s done again\n"):format(name, words))
  t.ok(read(name .. "/weights.safetensors") == weights)
end

-- ---- fewer than asked for, which is said at the start ----
for line, wanted in pairs {
  ["--checkpoint-every 1"] = { "6 7", "1: with %-%-run%-ahead 2 a checkpoint is saved each 3 steps\n$" },
  ["--checkpoint-every 2 --run-ahead 5 --steps 14"] = { "12 14", "2: with %-%-run%-ahead 5 a checkpoint is saved each 6 steps\n$" },
  ["--checkpoint-every 3 --accumulate 2 --steps 10"] = {
    "8 10", "3: with %-%-run%-ahead 2 and 2 steps an update a checkpoint is saved each 4 steps\n$",
  },
  ["--checkpoint-every 3"] = { "6 7" },
  ["--checkpoint-every 0"] = { "7" },
  ["--checkpoint-every 1 --run-ahead 0"] = { "6 7" },
} do
  local name = line:gsub("%W", "")
  code, out, err = run(line .. " --out " .. name)
  t.eq(code, 0, line .. err)
  err = err:gsub("^spcore: train: accumulate = 2: loss 'toy_loss' has no TOTAL output[^\n]*\n", "")
  if wanted[2] then t.one_line(err, "^spcore: %-%-checkpoint%-every " .. wanted[2]) else t.eq(err, "") end
  local steps = {}
  for _, file in ipairs(sys.list(dir.path .. "/" .. name)) do steps[#steps + 1] = math.tointeger(file:match "^checkpoint%-(%d+)") end
  table.sort(steps)
  t.eq(table.concat(steps, " "), wanted[1], line)
end

-- ---- what makes a folder a run's is on the disk before anything is said of it ----
t.write(dir.path .. "/synced.lua", [[
local sys = require "spcore.sys"
local sync = sys.sync
function sys.sync(path)
  local file <close> = assert(io.open("synced", "a"))
  file:write(path:gsub("spcore%-%w+$", "spcore"), "\n")
  return assert(sync(path))
end
]] .. read "toy.lua")
t.eq(t.spcore(dir.path, "run synced.lua --device cpu --no-tensorboard --quiet --out disk --at 4"), 137)
t.eq(read "synced", "disk/.settings.json.spcore\ndisk\ndisk/..\n")
t.eq(t.spcore(dir.path, "run synced.lua --device cpu --no-tensorboard --quiet --resume disk --override --at -1"), 0)
t.match(read "synced", "disk/%.%.\ndisk/resumed.jsonl\ndisk\n$")
t.eq(select("#", sys.sync(dir.path .. "/nowhere")), 3)
