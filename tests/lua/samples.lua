-- SPDX-License-Identifier: MIT
-- Pictures of validation samples: what they show is what prediction makes of the same picture and weights, training has the
-- same bits with and without them, the report and TensorBoard have them; what goes wrong with them costs them alone.
-- needs: onednn images jansson
-- once: a library in Lua; check_contact_sheet has the stage
local json = require "spcore.json"
local sys = require "spcore.sys"
local t = require "check"

local dir <close> = t.folder()
local function file(name) return dir.path .. "/" .. name end
local function run(line) return t.spcore(dir.path, line) end
local function train(line)
  local code, _, err = run("run " .. line .. " --device cpu")
  t.ok(code == 0 and not err:find "pictures", err)
end

local function size_of(path) return (">I4I4"):unpack(t.read(path), 17) end

-- ---- masks ----
local seg = "train_seg.lua --steps 24 --eval-every 8 --size 32 --batch 4 --samples 64 --levels 2 --train-encoder "
train(seg .. "--pictures 3 --ema 0.9 --rate step --out seg")
train(seg .. "--pictures 0 --ema 0.9 --rate step --out bare")
t.eq(sys.there(file "bare/samples"), false)
for _, name in ipairs { "weights", "weights-last", "best" } do
  local f = ("/%s.safetensors"):format(name)
  t.ok(t.read(file("seg" .. f)) == t.read(file("bare" .. f)), name)
end
local function metrics(name) return (t.read(file(name .. "/metrics.jsonl")):gsub('"time":[%d.e-]+', ""):gsub(',"sum":"%x+"', "")) end
t.eq(metrics "seg", metrics "bare")

local told = json.read(file "seg/samples/samples.json")
local summary = json.read(file "seg/summary.json")
t.eq(#told.samples, 3)
t.eq(told.samples[1].name .. told.samples[2].name .. told.samples[3].name, "000000000200005") -- of 8
t.eq(told.last.step, 23)
t.eq(told.best.step, summary.best.step)
t.eq(sys.there(file "seg/samples/weights.safetensors"), false)

-- The prediction scripts read the same picture and the run's weights.
local function same_masks(name, kind, more)
  t.eq((run(("run predict_seg.lua --weights %s --device cpu --quiet --out p %s %s/samples/input-*.png"):format(
    name, more, name))), 0)
  for _, s in ipairs(told.samples) do
    local wanted = t.read(file(("p/masks/input-%s.png"):format(s.name)))
    t.ok(t.read(file(("%s/samples/%s-%s.png"):format(name, kind, s.name))) == wanted, ("%s: %s %s"):format(name, kind, s.name))
  end
end
same_masks("seg", "last", "")
same_masks("seg", "best", "--best")
t.ok(t.read(file "seg/samples/truth-00000.png") ~= t.read(file "seg/samples/last-00000.png"))

-- A side of 256 pixels, and no more samples than there are.
train "train_seg.lua --steps 1 --size 264 --batch 1 --samples 16 --pictures 8 --out large"
t.eq(#json.read(file "large/samples/samples.json").samples, 2)
for _, kind in ipairs { "input", "truth", "last", "best" } do
  t.eq(table.concat({ size_of(file(("large/samples/%s-00001.png"):format(kind))) }, " ", 1, 2), "256 256")
end

-- A run that goes on: the best one is that of its file, or there is none yet.
train(seg .. "--out again --checkpoint-every 8")
t.write(file "again/samples/.weights.safetensors.spcore-Ab12Cd", "of a process that was killed")
t.write(file "again/samples/weights.safetensors.backup", "of the user")
train "train_seg.lua --resume again --override --steps 30 --lr 1e-9"
t.eq(sys.there(file "again/samples/.weights.safetensors.spcore-Ab12Cd"), false)
t.eq(t.read(file "again/samples/weights.safetensors.backup"), "of the user")
told = json.read(file "again/samples/samples.json")
t.eq(told.last.step, 29)
same_masks("again", "last", "")
if told.best then
  t.eq(told.best.step, json.read(file "again/summary.json").best.step)
  same_masks("again", "best", "--best")
end

-- ---- classes ----
local cls = "train_cls.lua --steps 20 --eval-every 10 --size 32 --batch 4 --samples 64 --width 4 --levels 2 "
train(cls .. "--out cls")
told = json.read(file "cls/samples/samples.json")
t.eq(#told.samples, 4)
local inputs = {}
for i, s in ipairs(told.samples) do inputs[i] = ("cls/samples/input-%s.png"):format(s.name) end
t.eq((run("run predict_cls.lua --weights cls --device cpu --quiet --out p.json " .. table.concat(inputs, " "))), 0)
for i, image in ipairs(json.read(file "p.json").images) do
  local p = told.last.predicted[i]
  t.eq(told.classes[p.class + 1], image.name)
  t.ok(math.abs(p.probability - image.probabilities[p.class + 1]) < 1e-5)
end

-- ---- TensorBoard ----
local function events_of(name)
  for _, f in ipairs(sys.list(file(name))) do
    if f:find "^events" then return t.read(file(name .. "/" .. f)) end
  end
end
local events = events_of "seg"
t.eq(select(2, events:gsub("validation/samples/2/input", "")), 1)
t.eq(select(2, events:gsub("validation/samples/2/truth", "")), 1)
t.eq(select(2, events:gsub("validation/samples/2/predicted", "")), 3)
t.ok(events:find(t.read(file "seg/samples/last-00002.png"), 1, true), "the last picture is there")
events = events_of "cls"
t.eq(select(2, events:gsub("| sample | is | taken for | probability |", "")), 2)
t.ok(events:find(t.read(file "cls/samples/input-00002.png"), 1, true))

-- ---- the report ----
local function page(name, wanted)
  local code, out, err = run("report " .. name)
  t.eq(code, wanted or 0, err)
  return code == 0 and t.read(file(name .. "/report.html")), err, out
end
local function count(text, pattern) return select(2, text:gsub(pattern, "")) end
local text = page "seg"
-- Labels lie over their picture: two or three of the evenly spaced, two of the worst.
t.eq(count(text, '<img class="sharp" src="data:image/png;base64,[%w+/]+=*" alt="'), 3 * (summary.best.step == 23 and 2 or 3) + 3 * 2)
t.eq(count(text, '<figure style="%-%-p:url%(data:image/png;base64,[%w+/]+=*%)">'), 6)
t.match(text, '<s><b style="background:transparent"></b></s>ground<') -- it tints nothing
t.match(text, '<s class="over"><b style="background:#800000"></b></s>disc<') -- as in VOC's pictures, over grey
told = json.read(file "seg/samples/samples.json")
t.eq(("%s %d %d %d"):format(told.worst.by, told.worst.of, told.worst.all, told.worst.step), "iou 8 8 23")
for i = 2, 3 do t.ok(told.worst.samples[i - 1].iou <= told.worst.samples[i].iou, "the worst first") end
do -- each of the 8 alone, the least IoU of them is the first
  local least = math.huge
  for _, s in ipairs(told.samples) do least = math.min(least, s.iou) end
  t.ok(told.worst.samples[1].iou <= least)
  local kept = {}
  for _, list in ipairs { told.samples, told.worst.samples } do
    for _, s in ipairs(list) do kept[s.name] = true end
  end
  for _, name in ipairs(sys.list(file "seg/samples")) do
    t.ok(kept[name:match "^input%-(%d+)"] or not name:find "^input", name .. ": a candidate's picture that nobody shows")
  end
end
-- What a browser decodes is the file.
local letters = {}
for i, c in ("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"):gmatch "()(.)" do letters[c] = i - 1 end
local bits = {}
for c in text:match('base64,([^"]+)" alt="sample 0: truth"'):gmatch "[^=]" do
  for k = 5, 0, -1 do bits[#bits + 1] = letters[c] >> k & 1 end
end
local bytes = {}
for i = 1, #bits - 7, 8 do bytes[#bytes + 1] = string.char(tonumber(table.concat(bits, "", i, i + 7), 2)) end
-- What has no tint is as glass in it; all else is the file's.
local seen = table.concat(bytes)
local glass = seen:find("tRNS", 1, true)
t.eq(seen:byte(glass + 4), 0)
t.eq(seen:byte(glass + 5), 255)
local length = (">I4"):unpack(seen, glass - 4)
t.ok(seen:sub(1, glass - 5) .. seen:sub(glass + 8 + length) == t.read(file "seg/samples/truth-00000.png"), "the picture in the page")

t.match(page "cls", "by their loss.*sample 0<br>true: %w+, loss [%d.e+-]+</figcaption>.*predicted at step 20[%w, ]*: %w+, "
  .. "[01]%.%d%d</figcaption>")
do
  local list = json.read(file "cls/samples/samples.json").worst.samples
  for i = 2, #list do t.ok(list[i - 1].loss >= list[i].loss, "the worst first") end
end
t.eq(count(page "bare", "Samples of the validation"), 0)


-- Of a run that was killed, and of one that is under way.
os.remove(file "seg/summary.json")
os.remove(file "cls/summary.json")
t.match(page "seg", "Samples of the validation")
local held = assert(io.open(file "cls/settings.json", "r+"))
t.ok(sys.lock(held))
t.match(page "cls", "under way.*Samples of the validation")
held:close()

-- A file that is gone, too large, or none of ours.
os.remove(file "seg/samples/last-00002.png")
t.match(page "seg", "[12] more lacks? a file in <code>seg/samples</code>")
t.write(file "large/samples/input-00000.png", t.read(file "large/samples/input-00000.png") .. ("x"):rep(1200000))
text = page "large"
t.match(text, "2 more would make this page too large; they are in <code>large/samples</code>")
t.ok(#text < 2e6) -- it is among the worst, too
for _, bad in ipairs {
  "{", "[]", '{"samples":[{"name":"../../x"}],"labels":[0],"last":{"step":1}}', '{"samples":[{"name":"1"}],"last":{"step":1}}',
} do
  t.write(file "large/samples/samples.json", bad)
  t.one_line(select(2, page("large", 1)), "large/samples/samples.json: ")
end

-- ---- what goes wrong ----
local code, _, err = run("run " .. seg .. "--pictures 9")
t.eq(code, 2)
t.one_line(err, "%-%-pictures 9: the value must be at least 0 and at most 8")

-- A script of its own, whose network gives what is no number; one that fails costs one line, and the run goes on.
t.write(file "toy.lua", [[
local sp = require "spcore"
local opt = sp.args({ fails = { false, "says so" } }, { without = { "by_hand" } })
local g <close> = sp.graph(opt)
local function source(g, split, batch)
  return g.reader { path = "random", split = split, target = "class", classes = 4, samples = 32, size = 8, batch = batch }
end
local function network(g, x, weights)
  local layers = { { "flatten" }, { "linear", 4 } }
  return g.layers { x, layers = layers, weights = weights, frozen = weights ~= nil, name = "net" }.features
end
local data, val = source(g, "train", 4), source(g, "val", 4)
g:train { g.cross_entropy { network(g, g.to_float { data.image }), data.label }, optimizer = g.sgd {} }
g:evaluate { data = val, every = 4 }
local run <close> = sp.run {
  graph = g, opt = opt, steps = 16, samples = function(g, weights)
    if opt.fails then error "nothing is wired" end
    local one = source(g, "val", 1)
    local x = g.normalize { one.image, mean = 0, std = 1e-38 }.images
    return { data = one, image = one.image, label = one.label, logits = network(g, x, weights) }
  end,
}
for step, m in g:steps(16) do run:step(step, m) end
run:finish()
]])
train "toy.lua --out toy"
told = json.read(file "toy/samples/samples.json")
t.eq(#told.last.predicted, 3) -- as many as there are
t.eq(told.last.predicted[1].probability, nil)
t.match(page "toy", "sample 0<br>true: %d</figcaption>.*: 0, not a number</figcaption>")
code, _, err = run "run toy.lua --device cpu --fails --out fails"
t.eq(code, 0, err)
t.one_line(err, "no pictures of samples: .*nothing is wired")
t.ok(sys.there(file "fails/summary.json"))

do -- several labels, and numbers in their units: what the last weights make of them, and a plot of truth and prediction
  local rows = { labels = { "file,ant,bee,cow" }, numbers = { "file,age,weight" } }
  run "run make_shapes.lua set --samples 40 --size 16 --format png --quiet"
  for i = 0, 39 do
    local at = ("set/images/%05d.png"):format(i)
    rows.labels[i + 2] = ("%s,%d,%d,%d"):format(at, i & 1, i >> 1 & 1, i >> 2 & 1)
    rows.numbers[i + 2] = ("%s,%d,%g"):format(at, 20 + i, 3.5 * i)
  end
  for name, list in pairs(rows) do t.write(file(name .. ".csv"), table.concat(list, "\n") .. "\n") end
  local how = "--size 16 --steps 6 --batch 4 --width 2 --augment none --val-fraction 0.4 --pictures 3 --metrics none "
  train("train_cls.lua --data labels.csv --out several " .. how)
  told = json.read(file "several/samples/samples.json")
  t.eq(told.target, "labels")
  run "run predict_cls.lua --weights several --out p.json set/images --device cpu --quiet"
  local by = {}
  for _, one in ipairs(json.read(file "p.json").images) do by[one.file:match "%d+%.png"] = one end
  local number = function(s) return tonumber(s.file:match "(%d+)%.png") end
  for i, s in ipairs(told.samples) do
    local n, wanted = number(s), {}
    for k = 0, 2 do wanted[#wanted + 1] = n >> k & 1 == 1 and k or nil end
    t.eq(table.concat(s.truths, " "), table.concat(wanted, " "))
    local found, same = told.last.predicted[i], {}
    for _, label in ipairs(by[s.file:match "%d+%.png"].labels) do same[#same + 1] = label.class end
    table.sort(same)
    t.eq(table.concat(found.classes, " "), table.concat(same, " "))
  end
  t.eq(#told.worst.samples, 3)
  t.ok(told.worst.samples[1].loss >= told.worst.samples[3].loss)
  t.match(page "several", "true: [%a, ]+, loss [%d.]+<.*predicted at step 6")
  t.ok((page "several"):find "missed: " or (page "several"):find "not there: ")

  train("train_cls.lua --data numbers.csv --out numbers " .. how)
  told = json.read(file "numbers/samples/samples.json")
  t.eq(told.target .. " " .. table.concat(told.columns, " "), "numbers age weight")
  run "run predict_cls.lua --weights numbers --out q.json set/images --device cpu --quiet"
  for _, one in ipairs(json.read(file "q.json").images) do by[one.file:match "%d+%.png"] = one end
  for i, s in ipairs(told.samples) do
    t.eq(("%.9g %.9g"):format(table.unpack(s.values)), ("%.9g %.9g"):format(20 + number(s), 3.5 * number(s))) -- 0 is 0
    for k, v in ipairs(by[s.file:match "%d+%.png"].numbers) do
      t.ok(math.abs(told.last.predicted[i].values[k] - v) < 1e-3 * (1 + math.abs(v)), "another prediction")
    end
  end
  t.eq(#told.worst.dots, told.worst.all)
  t.match(page "numbers", "true: age %d+, weight [%d.]+, loss")
  local _, plots = (page "numbers"):gsub("predicted %(upwards%) against truth", "")
  t.eq(plots, 2)
  local _, dots = (page "numbers"):gsub("<title>sample %d+: [^<]* predicted", "")
  t.eq(dots, 2 * told.worst.all)
end

do -- a build that writes no pictures
  local from = t.program:match "^(.*)/"
  assert(sys.mkdir(file ".libs"))
  local made = "cd '%s' && ln -s '%s'/.libs/*.so .libs && rm .libs/image_writer.so && cp '%s/spcore' ."
  t.ok(os.execute(made:format(dir.path, from, from)))
  t.write(file "spcore.tree", ("srcdir=%s\n"):format(assert(sys.realpath(os.getenv "top_srcdir"))))
  local line = "cd '%s' && SPCORE_PLUGIN_PATH= ./spcore run %s --device cpu --out lacking >out.txt 2>err.txt"
  t.ok(os.execute(line:format(dir.path, seg)))
  t.one_line(t.read(file "err.txt"), "no pictures of samples: this build has no stage 'image_writer', which writes PNG")
  t.ok(sys.there(file "lacking/summary.json"))
end
