-- SPDX-License-Identifier: MIT
-- Command lines of scripts: values, types, help, wrong use.
-- once: functions of Lua
local core = require "spcore.core"
local t = require "check"

local dir <close> = t.folder()
t.write(dir.path .. "/s.lua", [[
local sp = require "spcore"
local opt = sp.args({
  batch = { 8, "images" }, rate = { 0.5, "rate" }, data = { "shapes", "set" }, flip = { true, "flip" },
  fast = { false, "go fast" }, my_long_name = { 1, "long" }, mode = { "a", "which", choices = { "a", "b" } },
  seed = { 7, "another default" }, size = { 0, "pixels of a side of what is read", default = "64; with --fast 256" },
  to = { "", "where to", value = "DIR" },
  sort = { "auto", "which order", choices = { "automatic", "by_name", "auto" } },
}, { rest = "FILE...", without = { "run", "by_hand", "seed", "depth" },
  doc = "Says what it is told in more words than a line has, which break between words and not within one." })
print(opt.batch, math.type(opt.batch), opt.rate, opt.data, opt.flip, opt.fast, opt.my_long_name, opt.seed, opt.mode,
  #opt.rest, opt.rest[1])
print(pcall(function() return opt.bacth end))
]])
t.write(dir.path .. "/few.lua", [[print(require "spcore".args({}, { only = { "seed", "debug" } }).seed)]])
t.write(dir.path .. "/plain.lua", [[require "spcore".args {}]])

local function run(line)
  return t.spcore(dir.path, "run s.lua " .. line)
end

local code, out = run ""
t.eq(code, 0)
t.match(out, "^8\tinteger\t0.5\tshapes\ttrue\tfalse\t1\t7\ta\t0\tnil\n")
t.match(out, "no option 'bacth'; did you mean 'batch'%?")

code, out = run "--batch 4 --rate=2 --data=a=b --no-flip --fast --my-long-name 3 --seed 9 --mode b x.png -- --y"
t.eq(code, 0)
t.match(out, "^4\tinteger\t2.0\ta=b\tfalse\ttrue\t3\t9\tb\t2\tx.png\n")
code, out = run "--my_long_name 5 --batch 1e2"
t.match(out, "^100\tinteger\t.*\t5\t7\t")

code, out = run "--help"
t.eq(code, 0)
t.match(out, "^usage: spcore run s.lua %[options%] FILE...\n")
t.match(out, "\n  %-%-batch N +images %(8%)\n")
t.match(out, "\n  %-%-no%-flip +flip\n")
t.match(out, "\n  %-%-strategy NAME|FILE ")
t.match(out, "\nSays what [^\n]* words\nand not within one.\n")
t.match(out, "\n  %-%-size N +pixels of a side of what is read %(64; with %-%-fast 256%)\n")
t.match(out, "\n  %-%-mode a|b +which %(a%)\n")
t.match(out, "\n  %-%-to DIR +where to\n")
t.match(out, "\n  %-%-sort automatic|by_name|auto\n   +which order %(auto%)\n")
t.match(out, "\n  %-%-seed N +another default %(7%)\n.*\ncommon options:\n")
t.match(out, "\nand %-%-ranks N and %-%-comm%-timeout S, of spcore run itself: spcore run %-%-help\n$")
for _, name in ipairs { "out", "checksums", "check-races", "depth" } do
  t.ok(not out:find("\n  --" .. name .. " ", 1, true), name .. " is left out")
end
for line in out:gmatch "[^\n]+" do t.ok(#line <= 80, line) end
t.match(out, "\n  %-%-workers N +threads that read data %(2; on a GPU as many as\n +%-%-threads, but at least 2 and at most 4%)\n")

for line, message in pairs {
  ["--bacth 3"] = "unknown option '%-%-bacth'; did you mean '%-%-batch'%?",
  ["--no-fats"] = "unknown option '%-%-no%-fats'; did you mean '%-%-no%-fast'%?",
  ["-b"] = "unknown option '%-b'",
  ["--batch x"] = "%-%-batch takes a number, got 'x'",
  ["--batch 1.5"] = "%-%-batch takes a whole number, got '1.5'",
  ["--rate nan"] = "%-%-rate takes a number",
  ["--batch"] = "%-%-batch needs a value",
  ["--fast=1"] = "%-%-fast takes no value",
  ["--mode c"] = "choose one of a, b",
  ["--depth 2"] = "%-%-depth: this script has no use for it",
  ["--run-ahead 65"] = "at most 64",
  ["--threads -1"] = "at least 0",
  ["--prefetch 0"] = "at least 1",
  ["--device cuda:1000"] = core.count_device "cuda" and "numbered from 0" or "cuda:1000: .*; take %-%-device cpu",
  ["--device cpu:1"] = "there is 1, numbered from 0 %(spcore devices lists them%)",
  ["--device cpu:x"] = "%-%-device cpu:x: NAME or NAME:NUMBER is wanted, NAME of 1 to 63 characters, NUMBER from 0",
  ["--device cpu:"] = "NAME or NAME:NUMBER is wanted",
  ["--device cpu:99999999999"] = "NAME or NAME:NUMBER is wanted",
  ["--device cuad"] = "no such device; did you mean 'cuda'%?",
  ["--precision fp16"] = "choose one of auto, fp32, tf32, bf16",
  ["--capture steps"] = "choose one of auto, off, lane, step; did you mean 'step'%?",
  ["--device gpu"] = "no such device; did you mean 'cuda'%?",
  ["--init other"] = "choose one of philox, torch",
  ["--plugin nothing.so"] = "nothing.so",
  ["--comm pigeon"] = "%-%-comm: there is no communicator 'pigeon', only: .*local",
  ["--out x"] = "%-%-out: this script has no use for it %(%-%-help lists all%)",
  ["--no-checksums"] = "%-%-no%-checksums: this script has no use for it",
} do
  local err
  code, out, err = run(line)
  t.eq(code, 2, line)
  t.eq(out, "", line)
  t.one_line(err, "^spcore: s.lua: .*" .. message)
end

local err
code, out, err = t.spcore(dir.path, "run plain.lua word")
t.eq(code, 2)
t.one_line(err, "unexpected argument 'word'")

-- what the device cannot do is said when the graph is made
t.write(dir.path .. "/graph.lua", [[
local sp = require "spcore"
local opt = sp.args {}
local g <close> = sp.graph(opt)
local o = g._raw:options()
print(o.device, o.precision, o.capture)
]])
for line, message in pairs {
  ["--device cpu --precision tf32"] = "precision: device 'cpu' computes in fp32 only",
  ["--device mock --precision bf16"] = "precision: device 'mock' computes in fp32 only",
  ["--device cpu --capture lane"] = "capture lane on device 'cpu': the device records nothing; take capture off",
} do
  code, out, err = t.spcore(dir.path, "run graph.lua " .. line)
  t.eq(code, 1, line)
  t.eq(out, "", line)
  t.one_line(err, "^spcore: graph.lua:3: .*" .. message)
end
for line, wanted in pairs {
  ["--device cpu"] = "cpu\tfp32\toff\n",
  ["--device mock"] = "mock\tfp32\tlane\n",
  ["--device mock:0 --capture step"] = "mock:0\tfp32\tstep\n",
  ["--device mock --trace t.json"] = "mock\tfp32\tlane\n", -- a processor replays them: each has its times
  ["--device mock --checksums"] = "mock\tfp32\tlane\n",
} do
  code, out = t.spcore(dir.path, "run graph.lua " .. line)
  t.eq(out, wanted, line)
end

-- what a script describes in its own words is no parameter of its reader
t.write(dir.path .. "/apart.lua", [[
local sp = require "spcore"
local opt = sp.args { channels = { 16, "of its maps" } }
local g <close> = sp.graph(opt)
g.reader { path = "shapes", batch = 2, size = 32, samples = 16 }
print(opt.channels)
]])
code, out = t.spcore(dir.path, "run apart.lua --channels 5")
t.eq(out, "5\n")

-- wrong tables are the script's fault, not the user's
local sp = require "spcore"
t.raises("sp.graph: 'run_ahead' must be a whole number from 0 to 64, got 65", sp.graph, { run_ahead = 65 })
t.raises("sp.graph: 'depth' must be a whole number from 1 to 64, got 1.5", sp.graph, { depth = 1.5 })
t.raises("sp.graph: 'auto_budget' must be a number from 0.01 to 3600, got %-?nan", sp.graph, { auto_budget = 0 / 0 })
t.raises("sp.graph: 'factors' must be true or false, got a string", sp.graph, { factors = "no" })
t.raises("option 'Batch': names", sp.args, { Batch = { 1 } })
t.raises("option 'a': write", sp.args, { a = 1 })
t.raises("option 'a': write", sp.args, { a = {} })
t.raises("default is a table", sp.args, { a = { {} } })
t.raises("option 'depth' is common", sp.args, { depth = { "x" } })
t.raises("option 'depth' is common to all scripts; its default must be a whole number from 1 to 64, got 0", sp.args,
  { depth = { 0 } })
t.raises("option 'a': 'default' is what help says", sp.args, { a = { 1, "a", default = 2 } })
t.raises("option 'a': 'value' is what help calls the value", sp.args, { a = { 1, "a", value = true } })
t.raises("'without' knows no 'trainin'; did you mean 'training'%?", sp.args, {}, { without = { "trainin" } })
t.raises("option 'help' has a meaning", sp.args, { help = { true } })

-- ---- a few of the common options ----
code, out = t.spcore(dir.path, "run few.lua --seed 3")
t.eq(code .. out, "0" .. "3\n")
local _, _, err = t.spcore(dir.path, "run few.lua --device cpu")
t.one_line(err, "%-%-device: this script has no use for it")
code, out = t.spcore(dir.path, "run few.lua --help")
t.eq(code, 0)
t.match(out, "\ncommon options:\n  %-%-debug .*\n  %-%-seed N ")
t.ok(not out:find "%-%-device")
