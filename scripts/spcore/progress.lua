-- SPDX-License-Identifier: MIT
-- What a run says: lines, and on a terminal a bar that is redrawn at most ten times a second.
local core = require "spcore.core"
local sys = require "spcore.sys"
local words = require "spcore.words"

local progress = { quiet = false }

local fixed = { step = true, epoch = true, n = true, updated = true, time = true, batches = true, eval = true }

local function short(v)
  if math.type(v) == "integer" then return tostring(v) end
  local a = math.abs(v)
  if v ~= v then return "nan" end
  if a == math.huge then return tostring(v) end
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

-- A line, above the bar if there is one; nothing with --quiet. Standard output is the schedule's where that is asked for.
function progress.print(fmt, ...)
  if progress.quiet then return end
  local line = select("#", ...) > 0 and fmt:format(...) or fmt
  if core.env().schedule then io.stderr:write(line, "\n") else print(line) end
end

-- The same of a long line: on a terminal it is broken between words.
function progress.wrapped(fmt, ...)
  local text = select("#", ...) > 0 and fmt:format(...) or fmt
  progress.print("%s", sys.isatty "stdout" and words.wrap(text, sys.width "stdout", 2) or text)
end

-- "step 50  loss 0.5231  lr 0.0010"; evaluations of several sources with their names
function progress.log(step, m)
  if type(m) ~= "table" then core.fail("sp.log(step, m): m is what the step loop gives") end
  local parts = scalars(m, "")
  local evals = type(m.evals) == "table" and m.evals or { val = m.eval }
  for _, name in ipairs(words.keys(evals)) do
    for _, part in ipairs(type(evals[name]) == "table" and scalars(evals[name], name .. " ") or {}) do
      parts[#parts + 1] = part
    end
  end
  progress.print(("step %d  %s"):format(step, table.concat(parts, "  ")))
end

-- "1:05", "2:00:09"
function progress.clock(seconds)
  seconds = math.floor(seconds + 0.5)
  if seconds >= 3600 then return ("%d:%02d:%02d"):format(seconds // 3600, seconds // 60 % 60, seconds % 60) end
  return ("%d:%02d"):format(seconds // 60, seconds % 60)
end

local newest -- the bar that was made last, until it is closed
local bar = {}
bar.__index = bar
bar.__close = function(self) self:close() end

-- new{ total = steps or nil, first = steps that are done already, every = plain lines each so many steps, unit = what is
-- counted, "step" }
function progress.new(options)
  local total = options.total
  newest = setmetatable({
    total = total, every = options.every or math.max(1, (total or 500) // 10),
    terminal = sys.isatty "stdout" and os.getenv "TERM" ~= "dumb",
    unit = options.unit or "step", drawn = -1, mark = nil, last = nil, done = options.first or 0,
    words = {},
  }, bar)
  return newest
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

local least = 8 -- columns that words leave to the bar
local fewest = 3 -- where the count alone leaves fewer, per cent stand in its place

local function text_of(p, n, rate)
  local parts = { p.count, table.unpack(p.words, 1, n) }
  parts[#parts + 1] = rate
  parts[#parts + 1] = p.left
  return table.concat(parts, "  ")
end

-- What fits into `room`: the rate gives way first, then words from the right, then the time that is left.
local function shortened(p, room)
  local n = #p.words
  local text = text_of(p, n, p.rate and ("%s %ss/s"):format(p.rate, p.unit))
  if words.width(text) > room and p.rate then text = text_of(p, n, p.rate .. "/s") end
  while words.width(text) > room and n >= 0 do
    text = text_of(p, n)
    n = n - 1
  end
  return words.width(text) > room and p.count or text
end

local function layout(p, width, fraction)
  local text = shortened(p, width - 1 - (fraction and least + 4 or 0))
  if fraction and words.width(text) > width - 1 - fewest - 4 then text = ("%d%%"):format(100 * fraction // 1) end
  local room = math.min(width - 1 - words.width(text) - 4, 30)
  if not fraction or room < fewest then return text:sub(1, (utf8.offset(text, math.max(width, 2)) or #text + 1) - 1) end
  local full = math.floor(room * fraction + 0.5)
  return ("[%s%s]  %s"):format(("#"):rep(full), ("-"):rep(room - full), text)
end

local function draw(self, shown, now, waits)
  local p = { words = shown, unit = self.unit, count = self.total and ("%d/%d"):format(self.done, self.total) }
  p.count = p.count or ("%s %d"):format(self.unit, self.done)
  local r = rate(self, now)
  p.rate = r and not waits and (r >= 10 and "%.1f" or "%.2f"):format(r) or nil
  p.left = r and self.total and self.done < self.total and progress.clock((self.total - self.done) / r) .. " left" or nil
  if self.terminal then
    self.drawn = now
    sys.draw(layout(p, sys.width "stdout", self.total and self.done / self.total))
  else
    if self.total then p.count = self.unit .. " " .. p.count end
    progress.print("%s", shortened(p, math.maxinteger))
  end
end

-- One step is done; `shown` (or nil) are texts such as "loss 0.5231", or a function that gives them when they are to be
-- shown.
function bar:step(shown)
  self.done = self.done + 1
  local now = sys.now()
  if not self.mark then self.mark = { time = now, done = self.done } end
  if progress.quiet then return end
  local due = self.done == self.total
  if self.terminal then
    due = due or now - self.drawn >= 0.1
  else
    due = due or self.done % self.every == 0
  end
  if not due then return end
  self.words = (type(shown) == "function" and shown() or shown) or {}
  draw(self, self.words, now)
end

-- Between two steps `done` of `all` batches of an evaluation are through: the newest bar says so, where there is one.
function progress.validating(done, all)
  local self = newest
  if not self or progress.quiet or not self.terminal then return end
  local now = sys.now()
  if done > 0 and done < all and now - self.drawn < 0.1 then return end
  local text = done > 0 and ("validating %d/%d"):format(done, all) or "validating"
  draw(self, { text, table.unpack(self.words) }, now, true)
  if done == all then self.drawn = -1 end -- so that the next step takes its place at once
end

-- Takes the bar away.
function bar:close()
  sys.erase()
  if newest == self then newest = nil end
end

return progress
