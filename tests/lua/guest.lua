-- SPDX-License-Identifier: MIT
-- What a plugin changes of the process while it loads, or in create(), plan(), prepare() and destroy(), is put back and said once,
-- with its name: handlers of signals, the signal mask, the locale, the working folder, the umask, the floating-point mode.
-- once: what the host does around calls
local t = require "check"

local dir <close> = t.folder()
-- What a script sees of it; the sum tells of rounding.
t.write(dir.path .. "/guest.lua", [[
local sp = require "spcore"
local sys = require "spcore.sys"
local opt = sp.args { what = { "nothing", "what" }, at = { "create", "where" } }
local three = tonumber "3"
local function shared()
  local text = io.open("/proc/self/status"):read "a"
  local list = { os.setlocale(), sys.realpath ".", ("%a"):format(1 / three), os.getenv "LC_NUMERIC" or "none",
    os.getenv "LC_MESSAGES" or "none" }
  list[#list + 1] = text:match "Umask:%s*(%S+)"
  for _, key in ipairs { "SigBlk", "SigIgn", "SigCgt" } do -- without 32 and 33, which are the C library's
    list[#list + 1] = ("%x"):format(tonumber(text:match(key .. ":%s*(%S+)"), 16) & ~(3 << 31))
  end
  return table.concat(list, " ")
end
local before = shared()
do
  local g <close> = sp.graph(opt)
  local x = g.toy_source { batch = 8 }.x
  for _ = 1, 3 do x = g.guest { x, what = opt.what, at = opt.at }.y end
  g:results { x }
  for _ in g:steps(2) do end
end
local after = shared()
if after ~= before then error("it was " .. before .. " and is " .. after) end
]])

local words = {
  handler = "the handler of SIGTERM", ignored = "the handler of SIGUSR1, the handler of SIGUSR2", fatal = "the handler of SIGSEGV",
  mask = "the signal mask", locale = "the locale (to C.UTF-8)", thread = "the thread's locale",
  environment = "LC_NUMERIC of the environment, LC_MESSAGES of the environment", folder = "the working folder (to /)",
  umask = "the umask (to 000)", mode = "the floating-point mode",
}
local sanitized = (os.getenv "SP_SANITIZERS" or "none") ~= "none" -- then SIGSEGV has a handler that cannot be changed

local function changed(line, who, what, env)
  local code, out, err = t.spcore(dir.path, "run guest.lua --device cpu " .. line, "env LC_MESSAGES=C " .. (env or ""))
  t.eq(code, 0, out .. err)
  t.eq(err, what and ("spcore: %s changed %s; it is put back, since the whole program shares it\n"):format(who, words[what]) or "",
    line)
end

changed("", "nobody")
for what in pairs(words) do
  if not (sanitized and what == "fatal") then
    for i, at in ipairs { "create", "plan", "prepare", "destroy" } do
      if i == 1 or what == "handler" or what == "umask" then
        changed(("--what %s --at %s"):format(what, at), ("stage 'guest' (guest.so): %s()"):format(at), what)
      end
    end
    changed("", os.getenv "SP_TEST_PLUGINS" .. "/guest.so: loading it", what, "SP_TEST_GUEST=" .. what)
  end
end
