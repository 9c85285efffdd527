-- SPDX-License-Identifier: MIT
-- `spcore bench`: turns, rates, medians, gains, files, another program beside, what fails, and that no child is left behind.
-- once: a command in Lua, and processes
local sp = require "spcore"
local sys = require "spcore.sys"
local t = require "check"

local dir <close> = t.folder()
local function path(name) return dir.path .. "/" .. name end

-- Stands in for a training: a folder whose steps took what is wanted, and a line that says who was there.
t.write(path "fake.lua", [[
local sp = require "spcore"
local opt = sp.args({ batch = { 8, "images" }, steps = { 23, "steps" }, note = { "", "a word" }, hang = { false, "wait" } })
local log = assert(io.open("log", "a"))
log:write(opt.strategy, " ", opt.batch, " ", opt.note, "\n")
log:close()
if opt.hang then
  sp.write_file("pid", tostring(io.open "/proc/self/stat":read "n"))
  os.execute "sleep 90 & echo $! >grandchild.new; mv grandchild.new grandchild; wait"
end
if opt.strategy == "broken" and opt.batch == 16 then sp.fail "no room for 16" end
if opt.strategy == "killed" then os.execute "kill -KILL $PPID" end
local turn = 0
for line in io.lines "log" do
  if line:find(opt.strategy .. " " .. opt.batch, 1, true) then turn = turn + 1 end
end
assert(os.execute("mkdir '" .. opt.out .. "'"))
local each = (opt.strategy == "serialized" and 0.02 or 0.0125) * (1 + 0.1 * (turn - 1)) * opt.batch / 8
local now, lines = 5.0, {}
for step = 0, opt.steps - 1 do
  now = now + (step < 3 and 1 or step == 12 and 10 * each or each) -- a slow begin, and a hiccup
  lines[#lines + 1] = sp.json.encode { step = step, n = opt.batch, time = now }
end
sp.write_file(opt.out .. "/metrics.jsonl", table.concat(lines, "\n") .. "\n")
]])
local function bench(line)
  os.remove(path "log")
  return t.spcore(dir.path, "bench " .. line, "env -u OMP_WAIT_POLICY") -- this process has set it
end

-- ---- turns, rates, what is written ----
local code, out, err = bench "fake.lua --batch 8,16 --strategy serialized,pipelined --csv t.csv --json t.json --svg t.svg"
t.eq(code .. err, "0")
t.eq(t.read(path "log"), "serialized 8 \npipelined 8 \nserialized 16 \npipelined 16 \n" .. "pipelined 16 \nserialized 16 \n"
  .. "pipelined 8 \nserialized 8 \n" .. "serialized 8 \npipelined 8 \nserialized 16 \npipelined 16 \n")
t.match(out, "^fake.lua: 2 strategies, 2 batch sizes, 3 turns\n")
t.match(out, "\nrun 1/12  serialized batch 8  50.00 steps/s")
t.match(out, "\nbatch  strategy    steps/s  least   most  images/s     gain\n")
t.match(out, "\n    8  serialized    45.45  41.67  50.00     363.6\n")
t.match(out, "\n    8  pipelined     72.73  66.67  80.00     581.8  %+60.0 %%\n")
t.match(out, "\n   16  pipelined     36.36  33.33  40.00     581.8  %+60.0 %%\nmedians of 3 turns")
t.eq(t.read(path "t.csv"), "batch,name,steps_per_second,least,most,images_per_second,gain_percent,failed,why\n"
  .. "8,serialized,45.4545,41.6667,50,363.636,,0,\n8,pipelined,72.7273,66.6667,80,581.818,60,0,\n"
  .. "16,serialized,22.7273,20.8333,25,363.636,,0,\n16,pipelined,36.3636,33.3333,40,581.818,60,0,\n")
local doc = sp.json.read(path "t.json")
t.eq(#doc.rows, 4)
t.eq(#doc.rows[2].runs, 3)
t.ok(math.abs(doc.rows[2].runs[1] - 80) < 1e-6)
t.eq(doc.turns, 3)
local svg = t.read(path "t.svg")
t.match(svg, "<title>pipelined, batch 16: 36.36 steps/s %(33.33 .. 40%)</title>")
t.match(svg, ">gain over serialized, per cent</text>")
t.match(svg, ">%+60.0</text>")
t.ok(not svg:find("nan", 1, true) and not svg:find("inf", 1, true))

-- Words go to the script as they are; the batch size is what its steps have.
code, out = bench [[fake.lua --repeat 1 --strategy serialized --skip 13 --note "a 'b' \$HOME" -- --batch 4]]
t.eq(t.read(path "log"), "serialized 4 a 'b' $HOME\n")
t.match(out, "\n    4  serialized    100.0  100.0  100.0     400.0\none turn: noise unknown, so no gain is printed %(%-%-repeat 3%);")

-- ---- another program ----
t.write(path "twin.sh", [[
echo "twin $1 ${OMP_WAIT_POLICY-unset}" >>log
echo '{"steps_per_s": 1.0}'
echo "at batch $1: $((400 / $1)).5 steps/s"
]])
code, out, err = bench "fake.lua --batch 8,16 --strategy serialized --repeat 1 --against 'sh ./twin.sh {batch}; true'"
t.eq(code .. err, "0")
t.eq(t.read(path "log"), "serialized 8 \ntwin 8 unset\nserialized 16 \ntwin 16 unset\n")
t.match(out, "\n    8  serialized    34.48 .*\n    8  sh            50.50  50.50  50.50     404.0\n") -- no gain; means: 20 / 0.58
t.match(out, "the mean over its steps")
code, out = bench "fake.lua --strategy serialized --repeat 1 --against 'python3 -u ./no_such/twin.py'"
t.eq(code, 1)
t.match(out, "\n       twin.py +%- +1 of 1 failed: ")
code, out = bench "fake.lua --strategy serialized --repeat 1 --against 'echo 3'"
t.match(out, '1 of 1 failed: it prints no line with "N steps/s" or "steps_per_s": N\n')

-- ---- what fails ----
code, out, err = bench "fake.lua --batch 8,16 --strategy serialized,broken,killed --repeat 2 --svg t.svg --csv t.csv"
t.eq(code .. err, "1")
t.match(out, "\n   16  serialized .*\n   16  broken            %- .* 2 of 2 failed: fake.lua:10: no room for 16\n")
t.match(out, "\n    8  killed            %- .* 2 of 2 failed: killed by signal 9\n")
t.match(out, "\n    8  broken        76%.")
t.match(t.read(path "t.csv"), "\n16,broken,,,,,,2,fake.lua:10: no room for 16\n")
-- nothing that would be better in another turn: one line, after one run of each
t.write(path "mine.csv", "mine")
for line, message in pairs {
  ["fake.lua --steps 11 --csv mine.csv --svg new.svg"] =
    "bench: 11 steps are too few: at least 12 are wanted, of which the first 3 are left",
  ["fake.lua --steps 43 --skip 35"] = "bench: 43 steps are too few: at least 44 are wanted, of which the first 35 are left out\n",
  ["fake.lua --nonsense 3"] = "bench: fake.lua: unknown option '%-%-nonsense'", ["nothing.lua"] = "bench: script 'nothing.lua' not found",
} do
  code, out, err = bench(line)
  t.eq(code .. out, "2", line)
  t.one_line(err, message)
  if line:find "steps" then t.eq(t.read(path "log"), "serialized 8 \npipelined 8 \n", line) end
end
t.eq(t.read(path "mine.csv"), "mine")
t.ok(not sys.there(path "new.svg"))
code, out, err = bench "fake.lua --batch 16 --strategy broken"
t.eq(code .. out, "1")
t.one_line(err, "bench: fake.lua:10: no room for 16\n$")
code, out, err = bench "fake.lua --batch 16 --strategy broken,killed --repeat 2" -- each its own words
t.eq(code .. err, "1")
t.match(out, "16  broken +%- +1 of 1 failed: fake.lua:10: no room for 16\n.* 1 of 1 failed: killed by signal 9\n")
for line, message in pairs {
  [""] = "a script is wanted first",
  ["--steps 3"] = "a script is wanted first",
  ["fake.lua --batch 8,x"] = "%-%-batch 8,x: 'x' is none",
  ["fake.lua --batch 0"] = "%-%-batch 0: '0' is none",
  ["fake.lua --strategy a,b,a"] = "%-%-strategy a,b,a: 'a' is there twice",
  ["fake.lua --svg no/such/folder.svg"] = "%-%-svg: no/such/folder.svg: No such file or directory",
  ["fake.lua --repeat 0"] = "%-%-repeat 0: the value must be at least 1",
  ["fake.lua --batch 8,16 --against 'sh twin.sh'"] = "{batch} is missing",
  ["fake.lua --against 'sh twin.sh {batch}'"] = "which {batch}",
} do
  code, out, err = bench(line)
  t.eq(code, 2, line)
  t.one_line(err, message)
end

-- ---- signals: no child is left ----
local function pid_of_child()
  local till = sp.now() + 30
  while sp.now() < till do
    local file = io.open(path "pid")
    local pid = file and file:read "n"
    if file then file:close() end
    if pid and sys.there(path "grandchild") then return pid end
    os.execute "sleep 0.02"
  end
  t.fail(1, "the child did not begin")
end
local function interrupt(signal)
  for _, name in ipairs { "pid", "grandchild", "log" } do os.remove(path(name)) end
  os.execute(("cd '%s' && { env --default-signal=INT,TERM TMPDIR=. '%s' bench fake.lua --batch 8 --hang >sig.out 2>sig.err; "
    .. "echo $? >code.new; mv code.new code; } & echo $! >%s/shell"):format(dir.path, t.program, dir.path))
  local child = pid_of_child()
  local parent = tonumber(t.read(("/proc/%d/stat"):format(child)):match "^%d+ %b() %a (%d+)")
  os.execute(("kill -%s %d"):format(signal, parent))
  local till = sp.now() + 30
  local function gone(pid)
    while sys.there("/proc/" .. pid) and sp.now() < till do os.execute "sleep 0.02" end
    t.ok(not sys.there("/proc/" .. pid), "a process is left behind SIG" .. signal)
  end
  gone(child)
  local grandchild = io.open(path "grandchild"):read "n"
  if signal == "KILL" then os.execute("kill " .. grandchild) end -- the kernel ends the child alone
  gone(grandchild)
  while not sys.there(path "code") and sp.now() < till do os.execute "sleep 0.02" end
  local status = tonumber(t.read(path "code"))
  os.remove(path "code")
  return status, t.read(path "sig.out")
end
code, out = interrupt "INT"
t.eq(code, 130)
t.match(out, "\n    8  serialized        %- +not run\n    8  pipelined         %- +not run\nmedians of 3 turns")
t.eq(interrupt "TERM", 143)
t.eq(interrupt "KILL", 137)

-- ---- a graph of its own ----
t.write(path "toy.lua", [[
local sp = require "spcore"
local opt = sp.args { steps = { 200, "steps" }, batch = { 4, "images" } }
local g <close> = sp.graph(opt)
g:train { g.toy_loss { g.toy_mul { g.toy_source { batch = opt.batch }.x }.y }, optimizer = g.toy_sgd {} }
local run <close> = sp.run { graph = g, opt = opt, steps = opt.steps, weights = false }
for step, m in g:steps(opt.steps) do run:step(step, m) end
run:finish()
]])
code, out, err = bench "toy.lua --batch 2,4 --repeat 1 --device cpu"
t.eq(code .. err, "0", out)
t.match(out, "\n    4  pipelined +%d+%.?%d* ")
code, out, err = bench "toy.lua --batch 4 --device cpu --steps 14 --run-ahead 3"
t.eq(code .. out, "2")
t.one_line(err, "bench: 14 steps are too few: at least 15 are wanted, of which the first 3 and the last 3 are left out\n$")

do -- a gain that the runs of both overlap in
  local bench, rows = require "spcore.bench", {}
  for i, runs in ipairs { { 10, 20 }, { 19, 29 }, { 21, 31 } } do
    rows[i] = { name = "s" .. i, batch = 4, failures = {}, runs = { { rate = runs[1] }, { rate = runs[2] } } }
  end
  local text = bench.table(bench.result(rows, { turns = 2 }))
  t.match(text, "s2 .* %(%+60%.0 %%%)\n.*s3 .*  %+73%.3 %%\n.*\n%(%.%.%.%): the runs of both overlap, so the gain may be noise")
  local drawn = bench.result(rows, { turns = 2, script = "x.lua" })
  local svg = (require "spcore.bench_svg")(drawn)
  t.match(svg, 'fill%-opacity="0.35"')
  t.match(svg, ">%(%+60%.0%)</text>.*>%+73%.3</text>")
  rows[2], rows[3] = rows[3], nil
  t.ok(not bench.table(bench.result(rows, { turns = 2 })):find("overlap", 1, true))
end

do -- the last steps, which are in flight together, come back at once
  local lines, of_run = {}, require "spcore.bench".of_run
  sys.mkdir(path "burst")
  t.write(path "burst/settings.json", '{"run_ahead":3,"lanes":[{"delay":0},{"delay":1}]}')
  for step = 0, 18 do lines[#lines + 1] = ('{"time":%g,"n":2}\n'):format(math.min(step, 15) / 100 + step / 1e6) end
  for _, mean in ipairs { false, true } do
    t.write(path "burst/metrics.jsonl", table.concat(lines))
    t.ok(math.abs(of_run(path "burst", { skip = 0, mean = mean }).rate - 100) < 0.1)
    t.write(path "burst/metrics.jsonl", table.concat(lines, "", 2))
    local got, why, least = of_run(path "burst", { skip = 0, mean = mean })
    t.eq(got, nil)
    t.eq(least, 19)
    t.match(why, "18 steps are too few: at least 19 are wanted, of which the first 3 and the last 4 are left out")
  end
end
t.ok(not sys.there(path "runs"), "folders of the runs are temporary")
