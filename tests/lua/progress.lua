-- SPDX-License-Identifier: MIT
-- What stands on a terminal: a bar that gives way to messages, keeps its place in a line that is narrow, and says how far a
-- validation is; lines that break between words.
-- once: functions of Lua
local sp = require "spcore"
local sys = require "spcore.sys"
local t = require "check"
local words = require "spcore.words"

t.eq(words.wrap("one two  three", 20, 2), "one two  three")
t.eq(words.wrap("one two  three", 8, 2), "one two\n  three")
t.eq(words.wrap("one two  three", 3, 2), "one\n  two\n  three")
t.eq(words.wrap("  é é é", 5, 2), "  é é\n  é")
t.eq(words.wrap("toolongaword of it", 6, 0), "toolongaword\nof it")

t.eq(words.fold("short  one\n\na name     that is told in words", 24), "short  one\n\na name     that is told\n           in words")
t.eq(words.fold("  words of a line that is long", 20), "  words of a line\n    that is long")

if not os.execute "command -v script >/dev/null 2>&1" then
  print "skipped the rest: no program 'script' that makes a terminal"
  sp.exit(77)
end
local dir <close> = t.folder()
local here = dir.path

-- What a script writes to a terminal of so many columns: newlines as files have them.
local function shown(columns, text, to, env)
  t.write(here .. "/it.lua", 'local sp = require "spcore"\n' .. text)
  t.write(here .. "/it.sh", ("ulimit -c 0\nstty cols %d\n%s '%s' run it.lua --out run %s\n"):format(columns,
    env or "", t.program, to or ""))
  os.execute(("cd '%s' && rm -rf run && script -qec 'sh it.sh' out </dev/null >/dev/null"):format(here))
  return (t.read(here .. "/out"):gsub("\r\n", "\n"))
end

do -- messages stand above the bar, which is there again behind each
  local out = shown(80, [[
    local bar <close> = sp.progress { total = 50 }
    bar:step { "loss 0.5" }
    sp.warn "one"
    print("two", 2)
    sp.print "three %%"
    sp.log(4, { loss = 0.25 })
    local val, more = { loss = 1.0, n = 4 }, { loss = 2.0 }
    sp.log(5, { eval = val, lr = 0.5 })
    sp.log(6, { eval = val, evals = { val = val, more = more }, lr = 0.5 })
    bar:close()
    print "end"
  ]])
  local line = "[#-----------------------------]  1/50  loss 0.5"
  local above = "\r\27[K%s\n" .. line
  local wanted = ("\r" .. line .. "\27[K" .. above:rep(6) .. "\r\27[Kend\n"):format("spcore: one", "two\t2",
    "three %%", "step 4  loss 0.2500", "step 5  lr 0.5000  val loss 1.0000",
    "step 6  lr 0.5000  more loss 2.0000  val loss 1.0000")
  t.ok(out:find(wanted, 1, true), ("%q"):format(out))
end

do -- a message that goes to a file leaves the terminal alone, and takes nothing of it along
  local out = shown(80, [[
    local bar <close> = sp.progress { total = 50 }
    bar:step()
    sp.warn "one"
    bar:close()
  ]], "2>err")
  t.match(out, "\r%[#%-+%]  1/50\27%[K\r\27%[K")
  t.eq(t.read(here .. "/err"), "spcore: one\n")
end

do -- the bar stays, in any width from 20 on: what gives way is the rate, then words from the right, then the count
  local function at(columns, total)
    return shown(columns, ([[
      local bar <close> = sp.progress { total = %d, first = %d }
      for i = 1, 1000 do bar:step { "loss 0.5231", "IoU 0.523", "accuracy 0.999", "val IoU 0.512" } end
    ]]):format(total or 1000, (total or 1000) - 1000))
  end
  for _, columns in ipairs { 200, 80, 60, 40, 24, 20 } do
    local last
    for line in at(columns):gmatch "\r([^\r\n]+)\27%[K" do
      t.match(line, "^%[#*%-*%]  %d+/1000")
      t.ok(words.width(line) < columns, line)
      last = line
    end
    t.match(last, columns == 200 and "1000/1000  loss 0.5231  IoU 0.523  accuracy 0.999  val IoU 0.512  %d+.%d steps/s$"
      or columns == 80 and "1000/1000  loss 0.5231  IoU 0.523  accuracy 0.999  val IoU 0.512$"
      or columns == 60 and "1000/1000  loss 0.5231  IoU 0.523$"
      or columns == 40 and "1000/1000  loss 0.5231$"
      or columns == 24 and "%[##########%]  1000/1000$"
      or "%[######%]  1000/1000$")
  end
  t.match(at(20, 10000000), "\r%[############%]  99%%\27%[K")
  t.match(at(20, 10000000), "\r%[###########%]  100%%\27%[K")
  t.match(at(8), "\r100%%\27%[K")
end

do -- no colours; in a pipe, and on a terminal that cannot erase a line, each report is a line of plain letters
  local text = [[
    local bar <close> = sp.progress { total = 4, every = 2 }
    for i = 1, 4 do bar:step { "loss 0.5" } end
    sp.warn "one"
  ]]
  for _, env in ipairs { "NO_COLOR=1", "TERM=xterm-256color" } do
    t.ok(not shown(80, text, nil, env):find "\27%[[%d;]*m", "a colour")
  end
  local plain = "\nstep 2/4  loss 0%.5[^\n]*\nstep 4/4  loss 0%.5[^\n]*\nspcore: one\n"
  t.match(shown(80, text, nil, "TERM=dumb"), plain)
  t.match(shown(20, text, "2>&1 | cat"), plain)
  t.ok(not shown(20, text, "2>&1 | cat"):find "[\27\r]", "letters that move the cursor")
end

do -- a validation says how far it is, and the next step takes its place
  local out = shown(80, [[
    local sys, time = require "spcore.sys", 1000
    function sys.now() -- of a machine that is never busy
      time = time + 1e-6
      return time
    end
    local opt = sp.args {}
    local g <close> = sp.graph(opt)
    local data, val = g.toy_source { batch = 4 }, g.toy_source { batch = 4, samples = 18, drop_last = false }
    g.toy_mul { data.x }
    g:evaluate { data = val, every = 2 }
    local run <close> = sp.run { graph = g, opt = opt, steps = 4, weights = false }
    for step, m in g:steps(4) do run:step(step, m) end
    run:finish()
  ]])
  t.match(out, "%]  1/4  validating\27%[K\r%[#+%-+%]  1/4  validating 5/5\27%[K\r\27%[K"
    .. "step 2/4  0:00\n%[#+%-+%]  1/4  validating 5/5\r%[#+%-+%]  2/4") -- a line of it stays
  t.ok(not out:find "1/4  validating [^5]", "less than a tenth of a second later nothing is drawn")
end

do -- what commands print breaks between words on a terminal, and not in a file
  local function lines_of(command, columns)
    t.write(here .. "/it.sh", ("stty cols %d\n'%s' %s\n"):format(columns, t.program, command))
    os.execute(("cd '%s' && script -qec 'sh it.sh' out </dev/null >/dev/null"):format(here))
    return t.read(here .. "/out"):gsub("\r\n", "\n"):gsub("Script [^\n]*\n", "")
  end
  local function squeezed(text) return (text:gsub("%s+", " ")) end
  t.write(here .. "/explained.lua", [[
    local sp = require "spcore"
    local g <close> = sp.graph(sp.args {})
    g.toy_mul { (g.toy_source { batch = 4 }).x, name = "a_stage_with_a_long_name" }
    for _ in g:steps(1) do end
  ]])
  for _, command in ipairs { "strategies", "inspect", "inspect toy_mul", "run explained.lua --explain" } do
    local _, plain = t.spcore(here, command)
    local longest = 0
    for line in plain:gmatch "[^\n]+" do longest = math.max(longest, #line) end
    t.ok(longest > 60, command .. ": a line that is long")
    local folded = lines_of(command, 60)
    for line in folded:gmatch "[^\n]+" do
      t.ok(words.width(line) <= 60 or not line:match "^%s*(.*)":find "%S +%S", ("%s: %s"):format(command, line))
    end
    t.ok(squeezed(folded):find(squeezed(plain), 1, true), command .. ": the same words")
  end
end

do -- the header breaks between words; in a file it does not break
  local text = [[
    local opt = sp.args {}
    local g <close> = sp.graph(opt)
    g.toy_mul { (g.toy_source { batch = 4 }).x }
    local run <close> = sp.run { graph = g, opt = opt, steps = 1, weights = false }
  ]]
  local out, whole = shown(50, text, "--threads 2"), 0
  t.match(out, "\ndevice cpu  strategy serialized  threads %d+  seed 1\nmemory [^\n]*,\n  [^\n]*,\n  scratch [^\n]*\n")
  for line in out:gmatch "\n([^\n]*)" do
    if line:find "^device" or line:find "^memory" or line:find "^  " then
      t.ok(#line <= 50, line)
      whole = whole + 1
    end
  end
  t.ok(whole >= 4, "lines of at most 50 letters")
  t.write(here .. "/it.lua", 'local sp = require "spcore"\n' .. text)
  local _, plain = t.spcore(here, "run it.lua --out plain")
  t.match(plain, "\ndevice [^\n]*seed 1\nmemory [^\n]*scratch [^\n]*\nfolder plain\n")
end

if (os.getenv "SP_SANITIZERS" or "none") == "none" then -- a crash takes the bar away
  local out = shown(80, [[
    local bar <close> = sp.progress { total = 50 }
    bar:step()
    local g <close> = sp.graph {}
    g.crash { (g.toy_source { batch = 8 }).x, name = "bad", how = "abort", at = "create" }
  ]])
  t.match(out, "%]  1/50\27%[K\r\27%[Kspcore: stage 'bad' %(crash.so%): create%(%) crashed")
end
