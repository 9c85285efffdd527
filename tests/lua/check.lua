-- SPDX-License-Identifier: MIT
-- What the Lua tests share: comparisons that name their line, a folder that goes away, other runs of the program.
local sys = require "spcore.sys"

local t = {}

function t.fail(level, fmt, ...)
  error(fmt:format(...), level + 1)
end

local function show(v)
  return type(v) == "string" and ("%q"):format(v) or tostring(v)
end

function t.eq(got, wanted, what)
  if got ~= wanted and not (got ~= got and wanted ~= wanted) then
    t.fail(2, "%s: got %s, wanted %s", what or "value", show(got), show(wanted))
  end
end

function t.ok(v, what)
  if not v then t.fail(2, "%s", what or "not true") end
end

function t.match(text, pattern)
  if type(text) ~= "string" or not text:find(pattern) then
    t.fail(2, "%s does not match %s", show(text), show(pattern))
  end
end

-- f must raise a message that matches, and names this file: the user's line, not one of the library.
function t.raises(pattern, f, ...)
  local ok, message = pcall(f, ...)
  if ok then t.fail(2, "no error, wanted one like %s", show(pattern)) end
  if not tostring(message):find(pattern) then t.fail(2, "error %s does not match %s", show(message), show(pattern)) end
  if not tostring(message):find("tests/lua/", 1, true) then t.fail(2, "error %s names another file", show(message)) end
end

-- A new folder; it is removed when the variable marked <close> goes.
function t.folder()
  local path = assert(sys.mkdtemp())
  return setmetatable({ path = path }, { __close = function() os.execute("rm -rf '" .. path .. "'") end })
end

function t.write(path, text)
  local file = assert(io.open(path, "w"))
  assert(file:write(text))
  assert(file:close())
end

function t.read(path)
  local file = assert(io.open(path, "r"))
  local text = file:read("a")
  file:close()
  return text
end

-- The tensors of a safetensors file, by name, each as its bytes.
function t.tensors(path)
  local text = t.read(path)
  local size = ("<I8"):unpack(text)
  local tensors = {}
  for name, fields in text:sub(9, 8 + size):gmatch '"([^"]+)":(%b{})' do
    local from, to = fields:match '"data_offsets":%[(%d+),(%d+)%]'
    if from then tensors[name] = text:sub(9 + size + from, 8 + size + to) end
  end
  return tensors
end

t.program = assert(sys.realpath("/proc/self/exe"))

-- Runs this program in `dir` with the words of `line`; returns exit code (128 + signal), stdout, stderr. `env`: what is set
-- besides, such as "SPCORE_CACHE=cache".
function t.spcore(dir, line, env)
  local command = ("cd '%s' && %s '%s' %s >'%s/.out' 2>'%s/.err'"):format(dir, env or "", t.program, line, dir, dir)
  local _, how, code = os.execute(command)
  return how == "signal" and 128 + code or code, t.read(dir .. "/.out"), t.read(dir .. "/.err")
end

-- As t.spcore, but sends SIGINT as soon as the program has printed a line, or written one to `file`, that the extended regular
-- expression matches, whenever that is. A shell's background jobs ignore SIGINT, which env undoes. timeout is for a program that
-- hangs; in the foreground, it passes a signal on once: otherwise to its whole group as well, and a second SIGINT kills.
function t.interrupted(dir, line, regex, file)
  t.write(dir .. "/.interrupt", ([[
rm -f .out .err
env --default-signal=INT timeout --foreground -s KILL 600 '%s' %s >.out 2>.err &
until grep -qsE '%s' %s || ! kill -0 $! 2>/dev/null; do sleep 0.02; done
kill -INT $!
wait $!
]]):format(t.program, line, regex, file or ".out .err"))
  local _, how, code = os.execute(("cd '%s' && sh .interrupt"):format(dir))
  return how == "signal" and 128 + code or code, t.read(dir .. "/.out"), t.read(dir .. "/.err")
end

-- Exactly one line that matches.
function t.one_line(text, pattern)
  if select(2, text:gsub("\n", "")) ~= 1 then t.fail(2, "%s is not one line", show(text)) end
  if not text:find(pattern) then t.fail(2, "%s does not match %s", show(text), show(pattern)) end
end

return t
