-- SPDX-License-Identifier: MIT
-- A process that may take only so much more memory than it has when its graph stands: one line, whoever runs out of it.
-- oneDNN crashes where it finds none for the code that it compiles, so it must not get there.
-- needs: onednn images
local sp = require "spcore"
local t = require "check"

if (os.getenv "SP_SANITIZERS" or "none") ~= "none" then
  print "skipped: a sanitizer takes memory as it likes"
  sp.exit(77)
end
if not os.execute "command -v prlimit >/dev/null 2>&1" then
  print "skipped: no program 'prlimit'"
  sp.exit(77)
end

local dir <close> = t.folder()
t.write(dir.path .. "/it.lua", [[
local sp = require "spcore"
local opt = sp.args { mib = { 0, "how much more" } }
local g <close> = sp.graph(opt)
local d = g.reader { path = "shapes", size = 32, batch = 2 }
local x = g.to_float { d.image, scale = true }
local e = g.encoder { x, model = "unet", width = 4, levels = 2 }
local c = g.decoder { e.features, skips = e.maps, model = "unet", classes = 6 }
g:train { g.cross_entropy { c.logits, d.mask }, optimizer = g.sgd {} }
g:memory()
local file <close> = assert(io.open "/proc/self/status")
local kib = file:read("a"):match "VmSize:%s*(%d+)"
local most = (kib + opt.mib * 1024) * 1024
assert(os.execute(("prlimit --pid $PPID --as=%d:%d"):format(most, most)))
for _ in g:steps(2) do end
]])

local compiler, through = 0, 0
for mib = 4, 64, 4 do
  local code, out, err = t.spcore(dir.path, ("run it.lua --device cpu --threads 1 --workers 1 --mib %d"):format(mib))
  local what = ("%d MiB more: status %d, %s%s"):format(mib, code, out, err)
  t.ok(code == 0 and err == "" or code == 1 or code == 75, what) -- 75: no thread could be started
  if code ~= 0 then t.one_line(err, "^spcore: it.lua:%d+: ") end
  if err:find "stage '%l+coder' %(networks.so%): out of memory: oneDNN wants 16 MiB to compile in" then compiler = compiler + 1 end
  if code == 0 then through = through + 1 end
end
t.ok(compiler > 0, "never the compiler")
t.ok(through > 0, "never enough")
