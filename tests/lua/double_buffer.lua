-- SPDX-License-Identifier: MIT
-- scripts/examples/double_buffer.lua: its table, on streams that wait for nothing they need not, and that nothing in it races.
-- once: a script, over streams that hand.lua has
local t = dofile((os.getenv "top_srcdir") .. "/tests/lua/check.lua")

local function run(args)
  local f = assert(io.popen("./spcore run double_buffer.lua --mib 0.01 --batches 4 --turns 1 " .. args .. " 2>&1; echo =$?"))
  local out, code = f:read "a":match "^(.*)=(%d+)\n$"
  f:close()
  return tonumber(code), out
end

for _, args in ipairs {
  "--device cpu", "--device mock --ms 1", "--device simmock --buffers 3", "--device sim --check-races", "--device mock --check-races",
} do
  local code, text = run(args)
  t.eq(code, 0, text)
  local _, columns = text:match("\npinned([^\n]*)\n"):gsub("%d+%.%d%d%d", "")
  t.eq(columns, 7, text)
  t.ok(not text:find "pageable", text)
end

-- what pageable memory costs is said for each line that copies with it
local code, text = run "--device mock --memory both"
t.eq(code, 0, text)
t.match(text, "\npinned .*\npageable ")
t.match(text, "double_buffer.lua:%d+: copy with 'host's input 1', which is pageable")
t.eq(run "--memory fast", 2)
t.eq(run "--buffers 1", 2)
