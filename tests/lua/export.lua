-- SPDX-License-Identifier: MIT
-- spcore export --torch: files, names and shapes, what is refused. That PyTorch takes them is tests/parity/export.py.
-- needs: onednn images jansson
-- once: the same files in every build
local sp = require "spcore"
local sys = require "spcore.sys"
local t = require "check"
local dir <close> = t.folder()
local at = dir.path

local function run(line, wanted)
  local code, out, err = t.spcore(at, line)
  t.eq(code, wanted or 0, line .. ": " .. err)
  return out, err
end

-- "NAME shape", sorted, of all tensors
local function names(path)
  local text = t.read(path)
  local size = ("<I8"):unpack(text)
  local list = {}
  for name, tensor in pairs(assert(sp.json.decode(text:sub(9, 8 + size)))) do
    if name ~= "__metadata__" then list[#list + 1] = name .. " " .. table.concat(tensor.shape, "x") end
  end
  table.sort(list)
  return list
end

local function norm(list, name, c)
  for _, w in ipairs { "weight", "bias", "running_mean", "running_var" } do list[#list + 1] = ("%s.%s %d"):format(name, w, c) end
  list[#list + 1] = name .. ".num_batches_tracked "
end

local function convs(list, name, c, out, n)
  for i = 0, n - 1 do
    list[#list + 1] = ("%s.%d.weight %dx%dx3x3"):format(name, 3 * i, out, i == 0 and c or out)
    norm(list, ("%s.%d"):format(name, 3 * i + 1), out)
  end
end

local function encoder(width, levels)
  local list = {}
  for i = 0, levels do convs(list, "encoder.levels." .. i, i == 0 and 3 or width << i - 1, width << i, 2) end
  return list
end

run "run train_seg.lua --train-encoder --width 4 --levels 2 --size 16 --steps 2 --out seg --quiet --device cpu"
run "run train_cls.lua --width 5 --levels 1 --size 16 --steps 2 --augment none --out cls --quiet --device cpu"
run "run train_cls.lua --reference --size 16 --steps 1 --warm-up 1 --out reference --quiet --device cpu"

t.match(run "export seg --torch new/s", "^new/s: model.py, model.safetensors; try: python3 new/s/model.py IMAGE\n$")
local wanted = encoder(4, 2)
for i = 0, 1 do
  convs(wanted, "decoder.levels." .. i, 8 << i, 4 << i, 1)
  wanted[#wanted + 1] = ("decoder.up.%d.weight %dx%dx2x2"):format(i, 8 << i, 4 << i)
  wanted[#wanted + 1] = ("decoder.up.%d.bias %d"):format(i, 4 << i)
end
wanted[#wanted + 1] = "decoder.head.weight 6x4x1x1"
wanted[#wanted + 1] = "decoder.head.bias 6"
table.sort(wanted)
t.eq(table.concat(names(at .. "/new/s/model.safetensors"), "\n"), table.concat(wanted, "\n"))
local text = t.read(at .. "/new/s/model.py")
t.ok(not text:find "${" and not text:find "nil")
for line in text:gmatch "[^\n]+" do t.ok(#line <= 130, line) end
for _, words in ipairs { 'SIZE = 16 ', 'CLASSES = ["ground","disc","square","triangle","ring","cross"]', "width=4, depth=2, count=2",
  "width=4, depth=2, count=1", "multiples of 4", "from seg.", "main(*given())" } do
  t.ok(text:find(words, 1, true), words)
end

run "export cls/ --torch c --best"
wanted = encoder(5, 1)
wanted[#wanted + 1] = "classifier.2.weight 5x10"
wanted[#wanted + 1] = "classifier.2.bias 5"
table.sort(wanted)
t.eq(table.concat(names(at .. "/c/model.safetensors"), "\n"), table.concat(wanted, "\n"))
text = t.read(at .. "/c/model.py")
t.ok(text:find("main(given()[1])", 1, true) and not text:find("${", 1, true) and text:find("nn.Linear(10, len(CLASSES))", 1, true) and not text:find "SIZE %- ")
run "run train_cls.lua --width 5 --levels 1 --size 16 --steps 2 --out cropped --quiet --device cpu"
run "export cropped --torch cropped_torch"
t.ok(t.read(at .. "/cropped_torch/model.py"):find("[:, :14, :14]", 1, true))

assert(sys.mkdir(at .. "/downloaded"))
t.write(at .. "/downloaded/model.safetensors", "as it came")
for line, words in pairs {
  ["export"] = "a run folder is wanted", ["export seg"] = "%-%-torch DIR is wanted", ["export seg cls --torch d"] = "one run at a time",
  ["export seg --torhc d"] = "did you mean '%-%-torch'%?", ["export seg --torch"] = "%-%-torch needs a value",
  ["export seg --torch c"] = "c/model.py is there already; name another folder",
  ["export nowhere --torch d"] = "nowhere/settings.json: No such file",
  ["export reference --torch d"] = "reference has no weights.safetensors: its run has ended, and was one that keeps none",
  ["export seg --torch downloaded"] = "downloaded/model.safetensors is there already; name another folder",
} do
  t.one_line(select(2, run(line, 2)), words)
end
t.write(at .. "/reference/weights.safetensors", "")
t.one_line(select(2, run("export reference --torch d", 2)), "reference/settings.json describes no U%-Net; is it a run of train_seg.lua")
os.remove(at .. "/cls/best.safetensors")
t.one_line(select(2, run("export cls --torch d --best", 2)), "cls has no best.safetensors: it has been removed since its run ended")
t.eq(t.read(at .. "/downloaded/model.safetensors"), "as it came")
t.eq(sys.kind(at .. "/d"), nil)
t.one_line(select(2, run("export seg --torch seg/settings.json/x", 1)), "seg/settings.json")
