-- SPDX-License-Identifier: MIT
-- What TensorBoard reads of a run: RUN/events.out.tfevents.SECONDS.spcore, one file for each session. A file is a row of
-- records (length, CRC of the length, bytes, CRC of the bytes), each of which holds one message Event of TensorFlow's
-- event.proto; the few fields that are wanted are written by hand. Steps are numbered as in metrics.jsonl.
local accuracy = require "spcore.accuracy"
local core = require "spcore.core"
local json = require "spcore.json"
local mean_iou = require "spcore.iou"
local sys = require "spcore.sys"

local pack, unpack = string.pack, string.unpack

local tensorboard = {}
tensorboard.__index = tensorboard

-- ---- records ----

-- CRC-32C (Castagnoli), bit by bit for each byte.
local crcs = {}
for i = 0, 255 do
  local c = i
  for _ = 1, 8 do c = (c >> 1) ~ ((c & 1) * 0x82f63b78) end
  crcs[i] = c
end

-- As records have it: turned and moved, so that the CRC of bytes with CRCs among them is none of those.
local function masked_crc(s)
  local c, table = 0xffffffff, crcs
  for i = 1, #s - 7, 8 do
    local a, b, d, e, f, g, h, k = s:byte(i, i + 7)
    c = table[(c ~ a) & 255] ~ c >> 8
    c = table[(c ~ b) & 255] ~ c >> 8
    c = table[(c ~ d) & 255] ~ c >> 8
    c = table[(c ~ e) & 255] ~ c >> 8
    c = table[(c ~ f) & 255] ~ c >> 8
    c = table[(c ~ g) & 255] ~ c >> 8
    c = table[(c ~ h) & 255] ~ c >> 8
    c = table[(c ~ k) & 255] ~ c >> 8
  end
  for i = #s - #s % 8 + 1, #s do c = table[(c ~ s:byte(i)) & 255] ~ c >> 8 end
  c = c ~ 0xffffffff
  return ((c >> 15 | c << 17) + 0xa282ead8) & 0xffffffff
end

local function record(bytes)
  local length = pack("<I8", #bytes)
  return pack("<c8I4", length, masked_crc(length)) .. bytes .. pack("<I4", masked_crc(bytes))
end

-- ---- messages ----

local function varint(n)
  local out = ""
  while n > 127 do
    out = out .. string.char(n & 127 | 128)
    n = n >> 7
  end
  return out .. string.char(n)
end

local function number(field, n) return varint(field << 3) .. varint(n) end
local function bytes(field, s) return varint(field << 3 | 2) .. varint(#s) .. s end

-- Event: 1 the time, 2 the step, 3 the version, 5 a summary, 7 a word about the session
local function event(time, step, content)
  return record(pack("<Bd", 0x09, time) .. (step and number(2, step) or "") .. content)
end

local version = bytes(3, "brain.Event:2")
local start = bytes(7, number(1, 1)) -- what was told before of this step and later ones is void

-- Value: 1 the tag, 2 a float, 4 an image, 8 a tensor, 9 which plugin shows it
local function scalar(tag, v) return bytes(1, tag .. pack("<Bf", 0x15, v)) end

local function text(tag, words)
  local shape = bytes(2, bytes(2, number(1, 1))) -- one
  local tensor = number(1, 7) .. shape .. bytes(8, words) -- of type DT_STRING
  return bytes(1, bytes(1, tag) .. bytes(8, tensor) .. bytes(9, bytes(1, bytes(1, "text"))))
end

-- An image's colorspace is left out: TensorBoard takes that of the file.
local function image(tag, file, width, height)
  return bytes(1, bytes(1, tag) .. bytes(4, number(1, height) .. number(2, width) .. bytes(4, file)))
end

-- ---- a run that goes on ----

-- Bytes of a file's records that are whole and of steps before `step`: the time is first in each, the step behind it.
local function bytes_before(path, step)
  local file, why = io.open(path, "rb")
  if not file then core.fail(why) end
  local all = file:read "a"
  file:close()
  local at = 1
  while at + 12 <= #all do
    local length = unpack("<I8", all, at)
    local e = at + 12
    if length < 9 or length > #all - e - 3 then break end
    if masked_crc(all:sub(e, e + length - 1)) ~= unpack("<I4", all, e + length) then break end
    if all:byte(e + 9) == 0x10 then
      local n, shift, i = 0, 0, e + 10
      repeat
        local b = all:byte(i)
        n, shift, i = n | (b & 127) << shift, shift + 7, i + 1
      until b < 128
      if n >= step then break end
    end
    at = e + length + 4
  end
  return at - 1
end

-- Cuts off what the folder's files say of `step` and later ones. -> the seconds in the newest file's name
local function cut(dir, step)
  local newest = 0
  for _, name in ipairs(sys.list(dir) or {}) do
    local seconds = math.tointeger(tonumber(name:match "^events%.out%.tfevents%.(%d+)%.spcore$"))
    if seconds then
      local path = dir .. "/" .. name
      local ok, why = sys.truncate(path, bytes_before(path, step))
      if not ok then core.fail(why) end
      newest = math.max(newest, seconds)
    end
  end
  return newest
end

-- ---- what a run tells ----

-- Something went wrong with the file: the training is worth more than its curves.
local function give_up(self, why)
  core.log("warn", ("%s: %s; TensorBoard gets no more of this run"):format(self.path, why))
  for i, file in ipairs(self.files) do
    if file == self.file then table.remove(self.files, i) end
  end
  self:close()
end

local function write(self, ...)
  if not self.file then return end
  local ok, why = self.file:write(event(...))
  local now = sys.now()
  if ok and now - self.flushed >= 1 then
    self.flushed = now
    ok, why = self.file:flush()
  end
  if not ok then give_up(self, why) end
end

-- new{ dir =, first = the step that the session begins at, again = whether the run goes on, wanted = whether it is told from
-- there on, every = N, settings =, files = what a checkpoint makes safe before itself, to which the new file comes }
function tensorboard.new(t)
  local newest = t.again and cut(t.dir, t.first) or 0
  if not t.wanted then return end
  -- TensorBoard reads files in the order of their names, and never again one that lies before another.
  local seconds = math.max(os.time(), newest + 1)
  local path = ("%s/events.out.tfevents.%010d.spcore"):format(t.dir, seconds)
  local file, why = sys.create(path)
  if not file then core.fail(why) end
  file:setvbuf("full", 1 << 16)
  local self = setmetatable({
    path = path, file = file, files = t.files, every = t.every, flushed = -math.huge, clock = os.time() - sys.now(), tags = {},
  }, tensorboard)
  table.insert(t.files, file)
  local now = sys.now() + self.clock
  local settings = "    " .. json.encode(t.settings, true):gsub("\n", "\n    ") -- Markdown for: as it stands
  write(self, now, nil, version)
  if t.again then write(self, now, t.first, start) end
  write(self, now, t.first, bytes(5, text("settings", settings)))
  return self
end

-- Numbers that say nothing about learning.
local left_out = { step = true, epoch = true, n = true, updated = true, time = true, batches = true }

-- The numbers among metrics. Counts are told as what they come to: accuracy, iou.
local function figures(m)
  local values = {}
  for k, v in pairs(m) do
    local none = m.valid == 0 and v ~= v -- a loss of no labels: its curve has a gap
    if type(v) == "number" and not left_out[k] and not none then values[k] = v end
  end
  if values.top1 and values.topk and values.counted then
    values.accuracy = accuracy(m)
    values.top1, values.topk, values.counted = nil, nil, nil
  elseif type(m.counts) == "table" and type(m.counts[1]) == "table" then
    values.iou = mean_iou(m.counts)
  end
  return values
end

-- In the order of their names.
local function scalars(self, group, m)
  local values, names = figures(m), {}
  for k in pairs(values) do names[#names + 1] = k end
  table.sort(names)
  local out, tags = {}, self.tags[group] or {}
  self.tags[group] = tags
  for i, k in ipairs(names) do
    tags[k] = tags[k] or bytes(1, group .. "/" .. k)
    out[i] = scalar(tags[k], values[k])
  end
  return #out > 0 and table.concat(out)
end

local function put(self, group, step, m, time)
  local values = scalars(self, group, m)
  if values then write(self, time + self.clock, step, bytes(5, values)) end
end

-- A step's metrics: train/NAME each `every` steps, validation/NAME of each validation.
function tensorboard:step(step, m)
  if not self.file then return end
  if step % self.every == 0 then put(self, "train", step, m, m.time) end
  if type(m.eval) == "table" then self:evaluation(step, m.eval, m.time) end
end

function tensorboard:evaluation(step, eval, time)
  if self.file then put(self, "validation", step, eval, time or sys.now()) end
end

-- Width and height of a PNG or JPEG file's bytes; nil of anything else.
local function size_of(s)
  if s:sub(1, 8) == "\137PNG\r\n\26\n" and #s >= 24 then return unpack(">I4I4", s, 17) end
  local at = 3
  while s:sub(1, 2) == "\255\216" and at + 8 <= #s and s:byte(at) == 255 do
    local marker, length, _, height, width = unpack(">BI2BI2I2", s, at + 1)
    if marker >= 0xc0 and marker <= 0xcf and marker ~= 0xc4 and marker ~= 0xc8 and marker ~= 0xcc then return width, height end
    at = at + 2 + length
  end
end

-- The picture in a PNG or JPEG file, at this step.
function tensorboard:image(step, tag, path)
  local file, why = io.open(path, "rb")
  local all = file and file:read "a"
  if file then file:close() end
  if not all then core.fail(why or path .. ": it cannot be read") end
  local width, height = size_of(all)
  if not width then core.fail(path .. ": a picture for TensorBoard is a PNG or a JPEG file") end
  if self.file then write(self, sys.now() + self.clock, step, bytes(5, image(tag, all, width, height))) end
end

-- Words in Markdown, at this step.
function tensorboard:text(step, tag, markdown)
  if self.file then write(self, sys.now() + self.clock, step, bytes(5, text(tag, markdown))) end
end

function tensorboard:close()
  if self.file then self.file:close() end
  self.file = nil
end

return tensorboard
