-- SPDX-License-Identifier: MIT
-- What a run says: lines, and on a terminal a bar that is redrawn at most ten times a second.
local core = require "spcore.core"
local sys = require "spcore.sys"

local progress = { quiet = false }

local fixed = { step = true, epoch = true, n = true, updated = true, time = true, batches = true, eval = true }

local function short(v)
  if math.type(v) == "integer" then return tostring(v) end
  local a = math.abs(v)
  if v ~= v or a == math.huge then return tostring(v) end
  if a ~= 0 and (a < 1e-3 or a >= 1e6) then return ("%.3g"):format(v) end
  return ("%.4f"):format(v)
end

-- The scalars of a metrics table as words, the loss first.
local function scalars(m, prefix)
  local names, parts = {}, {}
  for k, v in pairs(m) do
    if type(v) == "number" and not fixed[k] then names[#names + 1] = k end
  end
  table.sort(names, function(a, b)
    local la, lb = a:match("loss") ~= nil, b:match("loss") ~= nil
    if la ~= lb then return la end
    return a < b
  end)
  for i, name in ipairs(names) do parts[i] = ("%s%s %s"):format(prefix, name, short(m[name])) end
  return parts
end

-- A line, above the bar if there is one; nothing with --quiet.
function progress.print(fmt, ...)
  if progress.quiet then return end
  sys.erase()
  io.stdout:write(select("#", ...) > 0 and fmt:format(...) or fmt, "\n")
  io.stdout:flush()
end

-- "step 50  loss 0.5231  lr 0.0010"
function progress.log(step, m)
  if type(m) ~= "table" then core.fail("sp.log(step, m): m is what the step loop gives") end
  local parts = scalars(m, "")
  if type(m.eval) == "table" then
    for _, part in ipairs(scalars(m.eval, "val ")) do parts[#parts + 1] = part end
  end
  progress.print(("step %d  %s"):format(step, table.concat(parts, "  ")))
end

local function clock(seconds)
  seconds = math.floor(seconds + 0.5)
  if seconds >= 3600 then return ("%d:%02d:%02d"):format(seconds // 3600, seconds // 60 % 60, seconds % 60) end
  return ("%d:%02d"):format(seconds // 60, seconds % 60)
end

local bar = {}
bar.__index = bar
bar.__close = function(self) self:close() end

-- new{ total = steps or nil, first = steps that are done already, every = plain lines each so many steps, unit = what is counted, "step" }
function progress.new(options)
  local total = options.total
  return setmetatable({
    total = total, every = options.every or math.max(1, (total or 500) // 10), terminal = sys.isatty "stdout",
    unit = options.unit or "step", drawn = -1, mark = nil, last = nil, done = options.first or 0,
  }, bar)
end

-- Steps per second over the last seconds: the two marks are at least 2 s apart once there are that many.
local function rate(self, now)
  local old = self.mark
  if not old or now <= old.time then return nil end
  local r = (self.done - old.done) / (now - old.time)
  if not self.last or now - self.last.time > 2 then
    self.mark, self.last = self.last or self.mark, { time = now, done = self.done }
  end
  return r > 0 and r or nil
end

-- Leaves out parts from the right until the rest fits in the line, and puts a bar where there is room.
local function layout(parts, width, fraction)
  local n = #parts
  local text = table.concat(parts, "  ", 1, n)
  while n > 1 and #text > width - 1 do
    n = n - 1
    text = table.concat(parts, "  ", 1, n)
  end
  local room = math.min(width - 1 - #text - 4, 30)
  if not fraction or room < 5 then return text:sub(1, math.max(width - 1, 1)) end
  local full = math.floor(room * fraction + 0.5)
  return ("[%s%s]  %s"):format(("#"):rep(full), ("-"):rep(room - full), text)
end

local function parts_of(self, words, now)
  local parts = { self.total and ("%d/%d"):format(self.done, self.total) or ("%s %d"):format(self.unit, self.done) }
  for _, word in ipairs(words or {}) do parts[#parts + 1] = word end
  local r = rate(self, now)
  if r then
    parts[#parts + 1] = (r >= 10 and "%.1f %ss/s" or "%.2f %ss/s"):format(r, self.unit)
    if self.total then parts[#parts + 1] = clock((self.total - self.done) / r) .. " left" end
  end
  return parts
end

-- One step is done; `words` (or nil) are texts such as "loss 0.5231", or a function that gives them when they are to be
-- shown.
function bar:step(words)
  self.done = self.done + 1
  local now = sys.now()
  if not self.mark then self.mark = { time = now, done = self.done } end
  if progress.quiet then return end
  if self.terminal then
    if now - self.drawn < 0.1 and self.done ~= self.total then return end
    self.drawn = now
    local parts = parts_of(self, type(words) == "function" and words() or words, now)
    sys.draw(layout(parts, sys.width "stdout", self.total and self.done / self.total))
  elseif self.done % self.every == 0 or self.done == self.total then
    local parts = parts_of(self, type(words) == "function" and words() or words, now)
    if self.total then parts[1] = self.unit .. " " .. parts[1] end
    progress.print(table.concat(parts, "  "))
  end
end

-- Takes the bar away.
function bar:close() sys.erase() end

return progress
