-- SPDX-License-Identifier: MIT
-- What a run tells TensorBoard, read back by a strict parser and, where it is there, by TensorBoard's own reader: scalars,
-- settings, pictures; a run that goes on tells no step twice; a file that cannot be written ends no training.
-- needs: jansson
-- once: files that are written in Lua
local sp = require "spcore"
local sys = require "spcore.sys"
local t = require "check"

-- ---- a parser that takes nothing but what TensorFlow's protos say ----

local function crc32c(s)
  local c = 0xffffffff
  for i = 1, #s do
    c = c ~ s:byte(i)
    for _ = 1, 8 do c = c % 2 == 1 and c // 2 ~ 0x82f63b78 or c // 2 end
  end
  return c ~ 0xffffffff
end
t.eq(crc32c "123456789", 0xe3069283)

local function masked(s)
  local c = crc32c(s)
  return ((c // 32768 | c % 32768 * 131072) + 0xa282ead8) % (1 << 32)
end

local function varint(s, at)
  local n, shift = 0, 0
  repeat
    local b = s:byte(at)
    n, shift, at = n | b % 128 << shift, shift + 7, at + 1
  until b < 128
  return n, at
end

-- Fields by number: { kind, name, message or nil, list or nil }
local kinds = { varint = 0, double = 1, bytes = 2, float = 5 }
local dim = { { "varint", "size" } }
local tensor = { { "varint", "dtype" }, { "bytes", "shape", { [2] = { "bytes", "dim", dim } } }, [8] = { "bytes", "words" } }
local metadata = { { "bytes", "plugin", { { "bytes", "name" } } } }
local picture = { { "varint", "height" }, { "varint", "width" }, [4] = { "bytes", "file" } }
local value = {
  { "bytes", "tag" }, { "float", "number" }, [4] = { "bytes", "image", picture }, [8] = { "bytes", "tensor", tensor },
  [9] = { "bytes", "metadata", metadata },
}
local event = {
  { "double", "time" }, { "varint", "step" }, { "bytes", "version" }, [5] = { "bytes", "summary", { { "bytes", "value", value, true } } },
  [7] = { "bytes", "session", { { "varint", "status" } } },
}

local function parse(s, fields)
  local at, out = 1, {}
  while at <= #s do
    local key, v, length
    key, at = varint(s, at)
    local field = fields[key >> 3] or error(("field %d"):format(key >> 3))
    local kind, name, message, list = table.unpack(field)
    t.eq(key & 7, kinds[kind], name)
    if kind == "varint" then v, at = varint(s, at)
    elseif kind == "double" then v, at = ("<d"):unpack(s, at)
    elseif kind == "float" then v, at = ("<f"):unpack(s, at)
    else
      length, at = varint(s, at)
      t.ok(at + length <= #s + 1, "a field behind the end")
      v, at = s:sub(at, at + length - 1), at + length
      if message then v = parse(v, message) end
    end
    if list then
      out[name] = out[name] or {}
      table.insert(out[name], v)
    else
      t.eq(out[name], nil, name .. " twice")
      out[name] = v
    end
  end
  return out
end

local dir <close> = t.folder()

local function files_of(run)
  local names = {}
  for _, name in ipairs(sys.list(dir.path .. "/" .. run)) do
    if name:find "tfevents" then names[#names + 1] = ("%s/%s/%s"):format(dir.path, run, name) end
  end
  table.sort(names)
  return names
end

-- The events of a file, each from a record whose CRCs are right.
local function events_of(path)
  local s, at, list = t.read(path), 1, {}
  while at <= #s do
    local length, crc, body, tail
    length, crc, at = ("<I8I4"):unpack(s, at)
    t.eq(crc, masked(s:sub(at - 12, at - 5)), "the CRC of a length")
    body, tail, at = s:sub(at, at + length - 1), ("<I4"):unpack(s, at + length), at + length + 4
    t.eq(tail, masked(body), "the CRC of an event")
    list[#list + 1] = parse(body, event)
  end
  t.eq(list[1].version, "brain.Event:2")
  return list
end

-- values[tag][step] of all files; a step that is told twice is an error
local function told(run)
  local values, sessions = {}, {}
  for _, path in ipairs(files_of(run)) do
    for _, e in ipairs(events_of(path)) do
      if e.session then sessions[#sessions + 1] = e.step end
      for _, v in ipairs(e.summary and e.summary.value or {}) do
        local steps = values[v.tag] or {}
        values[v.tag] = steps
        if v.number then t.eq(steps[e.step], nil, ("%s of step %d"):format(v.tag, e.step)) end
        steps[e.step] = v.number or v.image or v
        t.ok(math.abs(e.time - os.time()) < 600, "the time of day")
      end
    end
  end
  return values, sessions
end

local function count(list)
  local n = 0
  for _ in pairs(list) do n = n + 1 end
  return n
end

-- ---- runs ----

t.write(dir.path .. "/toy.lua", [[
local sp = require "spcore"
local opt = sp.args({
  steps = { 40, "steps" }, die_at = { -1, "step" }, image = { "", "a file" }, image_at = { 3, "its step" },
}, { checkpoints = true })
local g <close> = sp.graph(opt)
local function source(samples) return g.toy_source { batch = 4, samples = samples } end
local data, val = source(36), source(8)
g:train { g.toy_loss { g.toy_mul { data.x, name = "model" }.y }, optimizer = g.sgd { lr = 0.05 } }
g:evaluate { data = val, every = 6 }
local run <close> = sp.run { graph = g, opt = opt, steps = opt.steps }
for step, m in g:steps(run:rest()) do
  run:step(step, m)
  if step == opt.image_at and opt.image ~= "" then run:image(step, "a picture", opt.image) end
  if step == opt.die_at then os.execute "kill -KILL $PPID" end
end
run:evaluate(val)
run:finish()
]])
local function run(line, before)
  local code, out, err = t.spcore(dir.path, "run toy.lua --device cpu --quiet " .. line, before)
  return code, out, err
end

-- What is told is what metrics.jsonl has, of training and of validations.
local function same_as_lines(name, every)
  local values, seen, validated = told(name), 0, 0
  for line in io.lines(dir.path .. "/" .. name .. "/metrics.jsonl") do
    local m = sp.json.decode(line)
    local loss = values["train/loss"][m.step]
    if m.step % every == 0 then
      t.ok(math.abs(loss - m.loss) <= 1e-6 * math.abs(m.loss), line)
      t.ok(values["train/lr"][m.step], "lr")
      seen = seen + 1
    end
    if m.eval then
      t.ok(math.abs(values["validation/loss"][m.step] - m.eval.loss) <= 1e-6 * math.abs(m.eval.loss), line)
      validated = validated + 1
    end
  end
  t.eq(count(values["train/loss"]), seen)
  t.ok(validated > 0)
  t.eq(count(values["validation/loss"]), validated + 1, "validations, with the one behind the loop")
  t.eq(values["train/n"], nil)
  return values
end

local png = "\137PNG\r\n\26\n" .. (">I4c4I4I4"):pack(13, "IHDR", 300, 200) .. ("x"):rep(1000)
local jpeg = "\255\216\255\224\0\4ab\255\194\0\11\8" .. (">I2I2"):pack(30, 500) .. "\1\1\17\0\255\217"
t.write(dir.path .. "/p.png", png)
t.write(dir.path .. "/p.jpg", jpeg)
t.write(dir.path .. "/p.txt", "no picture, and long enough to have a header")

t.eq(run "--out plain --image p.png", 0)
local values, sessions = same_as_lines("plain", 1)
t.eq(#files_of "plain", 1)
t.eq(values["a picture"][3].width, 300)
t.eq(values["a picture"][3].height, 200)
t.eq(values["a picture"][3].file, png)
local text = values.settings[0]
t.eq(text.metadata.plugin.name, "text")
t.eq(text.tensor.dtype, 7)
t.eq(text.tensor.shape.dim.size, 1)
t.eq("    " .. t.read(dir.path .. "/plain/settings.json"):gsub("\n$", ""):gsub("\n", "\n    "), text.tensor.words)

t.eq(run "--out some --log-every 7 --image p.jpg", 0)
values = same_as_lines("some", 7)
t.eq(values["a picture"][3].width, 500)
t.eq(values["a picture"][3].height, 30)
t.eq(run "--out none --no-tensorboard --image p.png", 0)
t.eq(#files_of "none", 0)
t.eq(select(2, t.spcore(dir.path, "run toy.lua --help")):match "%-%-no%-tensorboard", "--no-tensorboard")
local code, out, err = run "--out text --image p.txt"
t.eq(code, 1)
t.one_line(err, "toy.lua:%d+: p.txt: a picture for TensorBoard is a PNG or a JPEG file")
code, out, err = run "--out gone --image p.gif"
t.one_line(err, "toy.lua:%d+: p.gif: No such file")
code, out, err = run "--log-every 0"
t.eq(code, 2)
t.one_line(err, "%-%-log%-every 0: the value must be at least 1")

-- ---- a run that goes on ----

-- Killed, with a record that is cut short at its end; then without a board, then with one again.
t.eq(run "--out again --checkpoint-every 8 --die-at 30", 137)
local first = files_of "again"[1]
local begun = t.read(first)
t.write(first, begun .. begun:sub(1, 20))
t.eq(run "--resume again --die-at -1 --override", 0)
values, sessions = told "again"
same_as_lines("again", 1)
t.eq(#files_of "again", 2)
t.eq(#sessions, 1)
t.eq(sessions[1] % 8, 0)
t.ok(sessions[1] > 0 and values.settings[sessions[1]])
local last_of_first = events_of(first)
t.eq(last_of_first[#last_of_first].step, sessions[1] - 1)
t.eq(run "--out blind --checkpoint-every 8 --die-at 30", 137)
t.eq(run "--resume blind --die-at -1 --override --no-tensorboard", 0)
t.ok(count(told "blind"["train/loss"]) < 30, "what was done again is told by no file")

-- ---- no room ----
-- Toys are small: with 64 KiB for a file nothing but the picture is too large.
t.write(dir.path .. "/p.png", png .. ("x"):rep(1 << 17))
t.write(dir.path .. "/full.sh", ("trap '' XFSZ\nulimit -f 128\nexec '%s' run toy.lua --device cpu --out full --checkpoint-every 8 "
  .. "--image p.png 2>full.err\n"):format(t.program))
t.eq(os.execute(("cd '%s' && sh full.sh >/dev/null"):format(dir.path)), true)
t.one_line(t.read(dir.path .. "/full.err"), "full/events.out.tfevents.%d+.spcore: File too large; TensorBoard gets no more of this run")
t.ok(sys.there(dir.path .. "/full/summary.json"))
t.ok(sys.there(dir.path .. "/full/checkpoint-33.safetensors"))

-- ---- TensorBoard's own reader ----
local python = os.getenv "PYTHON" or ""
if python == "" or not os.execute(("'%s' -c 'import tensorboard' 2>/dev/null"):format(python)) then
  print("skipped the rest: " .. (python == "" and "this build is without Python" or python .. " has no module tensorboard (PyPI)"))
  sp.exit(77)
end
t.write(dir.path .. "/read.py", [[
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

for run in sys.argv[1:]:
    e = EventAccumulator(run, size_guidance={"scalars": 0, "tensors": 0, "images": 0})
    e.Reload()
    for tag in e.Tags()["scalars"]:
        for s in e.Scalars(tag):
            print(run, tag, s.step, "%.7g" % s.value)
    for tag in e.Tags()["images"]:
        for s in e.Images(tag):
            print(run, tag, s.step, s.width, s.height, len(s.encoded_image_string))
    for s in e.Tensors("settings"):
        print(run, "settings", s.step, len(s.tensor_proto.string_val[0]))
]])
local ok = os.execute(("cd '%s' && '%s' -B read.py plain some again >read.out 2>read.err"):format(dir.path, python))
t.ok(ok, t.read(dir.path .. "/read.err"))
local read = t.read(dir.path .. "/read.out")
for _, name in ipairs { "plain", "some", "again" } do
  for tag, steps in pairs(told(name)) do
    local n = 0
    for step, v in pairs(steps) do
      local wanted = type(v) == "number" and ("%.7g"):format(v) or v.file and ("%d %d %d"):format(v.width, v.height, #v.file)
        or #v.tensor.words
      t.ok(read:find(("%s %s %d %s\n"):format(name, tag, step, wanted), 1, true), ("%s %s %d"):format(name, tag, step))
      n = n + 1
    end
    t.eq(select(2, ("\n" .. read):gsub("\n" .. name .. " " .. tag:gsub("%p", "%%%0") .. " ", "")), n, tag)
  end
end
