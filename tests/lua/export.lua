-- SPDX-License-Identifier: MIT
-- spcore export: files, names and shapes, a row for each operation, what is refused. That PyTorch and ONNX compute the same is
-- tests/parity/export.py.
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
run "run reference_cls.lua --size 16 --steps 1 --warm-up 1 --out reference --quiet --device cpu"

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
for _, words in ipairs { 'SIZE = 16 ', 'CLASSES = ["ground","disc","square","triangle","ring","cross"]', "multiples of 4", "from seg.",
  'self.add("encoder.levels.2.3", nn.Conv2d(16, 16, 3, padding=1, bias=False))', "resize(x, 16, 16)", "main(*given())" } do
  t.ok(text:find(words, 1, true), words)
end

run "export cls/ --torch c --best"
wanted = encoder(5, 1)
wanted[#wanted + 1] = "classifier.2.weight 5x10"
wanted[#wanted + 1] = "classifier.2.bias 5"
table.sort(wanted)
t.eq(table.concat(names(at .. "/c/model.safetensors"), "\n"), table.concat(wanted, "\n"))
text = t.read(at .. "/c/model.py")
t.ok(text:find("softmax", 1, true) and not text:find("${", 1, true))
t.ok(text:find("nn.Linear(10, 5)", 1, true) and not text:find "def middle")
run "run train_cls.lua --width 5 --levels 1 --size 16 --steps 2 --out cropped --quiet --device cpu"
run "export cropped --torch cropped_torch"
t.ok(t.read(at .. "/cropped_torch/model.py"):find("middle(x, 14, 14)", 1, true))

-- ---- every operation has a row, and every row is one ----
local ops, listed = require "spcore.export.ops", {}
for line in io.lines(os.getenv "top_srcdir" .. "/plugins/kits/nn/ops/ops.list") do
  local word = line:match '^NN_OP%(%u[%w_]*, "([%w_]+)"' or line:match '^NN_OP_ACT%(%u[%w_]*, "([%w_]+)"'
  if word then
    listed[word] = true
    local row = ops[word]
    t.ok(row and (row.parts or row.value and row.call and row.onnx),
      ("scripts/spcore/export/ops.lua has no row, or half a one, for '%s' of ops.list"):format(word))
  end
end
t.ok(listed.conv and listed.gelu)
for word in pairs(ops) do t.ok(listed[word], ("scripts/spcore/export/ops.lua: '%s' is not in ops.list"):format(word)) end

-- ---- ONNX ----
t.match(run "export seg --onnx new/seg.onnx",
  "^new/seg.onnx: %d+ nodes, opset 17, %d+ kB, takes float32 N x 3 x H x W, H and W multiples of 4\n$")
local proto = t.read(at .. "/new/seg.onnx")
t.eq(proto:sub(1, 10), "\x08\x08\x12\x06spcore")
t.ok(proto:find('["ground","disc","square"', 1, true) and proto:find("encoder.levels.0.0.weight", 1, true))
t.match(run "export seg --onnx bytes.onnx --with-preprocessing", "takes uint8 N x H x W x 3, H and W multiples of 4\n$")

-- A run of before network.json, which settings.json describes.
os.remove(at .. "/seg/network.json")
run "export seg --onnx old.onnx"
t.eq(t.read(at .. "/old.onnx"), proto)
local onnx, walk = require "spcore.export.onnx", require "spcore.export.walk"
local function network_of(layers, shape)
  return { stages = {
    { name = "data", stage = "reader", source = true, params = {}, inputs = {} },
    { name = "net", stage = "layers", params = { layers = layers },
      inputs = { image = { { stage = "data", port = "image", shape = shape or { 1, 3, 8, 8 }, dtype = "float32" } } } },
  }, outputs = { { from = { stage = "net", port = "features" } } } }
end
local function prefix(stage) return stage .. "." end
local function walked(layers, shape) return walk.of(network_of(layers, shape), prefix) end
t.raises("stage 'net', layer 'a': 'attention' has no form in PyTorch or ONNX here", walked, { { type = "attention", name = "a" } })
t.eq(walked({ { type = "max_pool" }, { type = "conv_transpose", out = 2 }, { type = "add", from = { "1", "1" } } }).multiple, 1)
t.eq(walked({ { type = "conv", out = 3, kernel = 1 }, { type = "max_pool" }, { type = "conv_transpose", out = 3 },
  { type = "add", from = { "2", "0" } } }).multiple, 2)
t.eq(walked({ { type = "flatten" }, { type = "linear", out = 2 } }).multiple, nil)
t.eq(walked({ { type = "mean" }, { type = "flatten" }, { type = "linear", out = 2 } }).multiple, 1)

-- More than a message may have is refused before a byte is written.
do
  local net = walked({ { type = "linear", out = 30000 } }, { 1, 20000 })
  local file = { path = "f", by = { ["net.0.weight"] = { bytes = 4 * 30000 * 20000 }, ["net.0.bias"] = { bytes = 4 * 30000 } } }
  t.raises("the network would be 2.4 GB, and an ONNX file with its weights within has 2.1 GB at most; %-%-torch DIR writes any size",
    onnx.write, net, file, { version = "", name = "", doc = "", texts = {} }, error)
end

assert(sys.mkdir(at .. "/downloaded"))
t.write(at .. "/downloaded/model.safetensors", "as it came")
for line, words in pairs {
  ["export"] = "a run folder is wanted", ["export seg"] = "%-%-torch DIR or %-%-onnx FILE is wanted",
  ["export seg cls --torch d"] = "one run at a time",
  ["export seg --torhc d"] = "did you mean '%-%-torch'%?", ["export seg --torch"] = "%-%-torch needs a value",
  ["export seg --torch c"] = "c/model.py is there already; name another folder",
  ["export nowhere --torch d"] =
    "nowhere/settings.json: No such file or directory, and no network is called so %(there are efficientnet_b0",
  ["export a/nowhere --torch d"] = "a/nowhere/settings.json: No such file",
  ["export seg --onnx old.onnx"] = "old.onnx is there already; name another file",
  ["export seg --torch d --with-preprocessing"] = "goes with %-%-onnx",
  ["export seg --torch d --size 32"] = "%-%-size: is for a network by name", ["export resnet18 --torch d"] = "%-%-weights FILE is wanted",
  ["export resnet18 --torch d --weights none"] = "%-%-weights none: there is no such file",
  ["export resnet18 --torch d --best"] = "is for a run",
  ["export reference --torch d"] = "reference has no weights.safetensors: its run has ended, and was one that keeps none",
  ["export seg --torch downloaded"] = "downloaded/model.safetensors is there already; name another folder",
} do
  t.one_line(select(2, run(line, 2)), words)
end
t.write(at .. "/reference/weights.safetensors", "")
t.one_line(select(2, run("export reference --torch d", 1)), 'stage \'augment\': mode = "roi_align" is not exported')
os.remove(at .. "/reference/network.json")
t.one_line(select(2, run("export reference --torch d", 2)), "reference has no network.json, and its settings.json describes no model")
os.remove(at .. "/cls/best.safetensors")
t.one_line(select(2, run("export cls --torch d --best", 2)), "cls has no best.safetensors: it has been removed since its run ended")
t.eq(t.read(at .. "/downloaded/model.safetensors"), "as it came")
t.eq(sys.kind(at .. "/d"), nil)
t.one_line(select(2, run("export seg --torch seg/settings.json/x", 1)), "seg/settings.json")
