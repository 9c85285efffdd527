# SPDX-License-Identifier: MIT
# needs: onednn images jansson
"""spcore export: the PyTorch module loads its weights strictly and gives the logits of spcore, within 1e-5 of the largest; so does the
ONNX file. Of each: every row of tests/kit/nn_ops.list, known networks, heads behind them, models that stages make themselves, runs of
the shipped scripts and of one's own. ONNX is computed by onnx_file.py, and by ONNX Runtime where that is installed."""
import csv
import importlib.util
import json
import os
import subprocess
import sys
import tempfile

from spstage import Lua, Report, Stage, load_file, save_file, torch_or_skip
import numpy as np
from PIL import Image

torch = torch_or_skip()
import nn_ops  # noqa: E402
import onnx_file  # noqa: E402

try:
    import onnx
except ImportError:
    onnx = None
try:
    import onnxruntime
except ImportError:
    onnxruntime = None

r = Report()
rng = np.random.default_rng(3)
SPCORE = os.path.abspath(os.path.join(os.environ.get("top_builddir", "."), "spcore"))
CLOSE = 1e-5

# write(DIR, network, weights, prefix): as the command does it.
WRITE = """
local sp = require "spcore"
local files, sys = require "spcore.files", require "spcore.sys"
local backbone, models, network = require "spcore.backbone", require "spcore.models", require "spcore.network"
local onnx, tensors = require "spcore.export.onnx", require "spcore.export.tensors"
local torch, walk = require "spcore.export.torch", require "spcore.export.walk"
local function write(dir, net, weights)
  local found = walk.of(net, function(stage) return stage .. "." end)
  local file <close> = tensors.open(weights)
  walk.check(found, file)
  found.image = found.input_of
  local names = {}
  for _, op in ipairs(found.ops) do
    for _, w in ipairs(op.weights) do names[#names + 1] = w.name end
  end
  sys.mkdir(dir)
  local function to(name, f)
    local out <close> = assert(io.open(dir .. "/" .. name, "wb"))
    f(function(text) assert(out:write(text)) end)
  end
  to("model.safetensors", function(put) file:write(names, put) end)
  to("model.py", function(put) put(torch.module(found, { version = "1", run = "r", task = "numbers", what = "w" })) end)
  to("net.onnx", function(put) onnx.write(found, file, { version = "1", name = "n", doc = "", texts = {} }, put) end)
end
"""

# Each row of nn_ops.list, of the shapes and weights that are in a folder.
ROWS = WRITE + """
for i, row in ipairs(sp.json.read "rows.json") do
  local layers = network.layers(assert(load("return { " .. row.layers .. " }"))())
  write("row" .. i, { stages = {
    { name = "data", stage = "reader", source = true, params = {}, inputs = {} },
    { name = "net", stage = "layers", params = { layers = layers },
      inputs = { image = { { stage = "data", port = "image", shape = row.shape, dtype = "float32" } } } },
  }, outputs = { { from = { stage = "net", port = "features" } } } }, ("row%d.safetensors"):format(i))
end
"""

# Networks without a training: once to make their weights, once with those to compute and to write them.
NETS = WRITE + """
local opt = sp.args({ begin = { false, "" } }, { rest = "NAME" })
local function with(t) return function(g, x) return t[1](g, x, table.unpack(t, 2)) end end
local function known(g, x, name) return g.layers { x, layers = models.get(name, { classes = 7 }), name = "net", frozen = true }.features end
local function behind(g, x, head)
  local model = { backbone = { name = "resnet18", mean = 0.5, std = 0.25 }, head = head, classes = 3, size = 64 }
  if head == "fcn" or head == "deeplabv3" then model.backbone.output_stride = 8 end
  local how = { encoder = { frozen = true }, head = { frozen = true } }
  if head == "probe" then return backbone.classify(g, x, model, how) end
  return backbone.segment(g, x, model, how)
end
local nets = {
  plain = function(g, x)
    local e = g.encoder { x, width = 4, levels = 2, frozen = true }
    return g.decoder { e.features, width = 4, classes = 3, frozen = true }.logits
  end,
  down = function(g, x)
    local e = g.encoder { x, model = "unet", width = 3, levels = 2, convs = 1, down = "conv", frozen = true }
    return g.decoder { e.features, skips = e.maps, width = 5, convs = 2, classes = 3, frozen = true }.logits
  end,
  maps = function(g, x) -- those that no layer is a tap of
    local e = g.encoder { x, layers = { { "conv", 4, stride = 2 }, { "relu" }, { "max_pool" }, { "conv", 6, pad = 1 }, { "residual", 8, stride = 2 } }, frozen = true }
    local s = g.concat { g.add { e.maps[1], e.maps[1] }, e.maps[1] }
    return g.decoder { e.features, skips = { s, e.maps[2] }, layers = { { "upsample", like = "skips.1" },
      { "concat", from = { "0", "skips.1" } }, { "conv", 3, kernel = 1 } }, classes = 3, frozen = true }.logits
  end,
  classes = function(g, x) return g.classifier { x, width = 2, levels = 3, classes = 4, frozen = true }.logits end,
  residual = function(g, x) return g.classifier { x, model = "residual", width = 4, levels = 2, blocks = 1, classes = 4, frozen = true }.logits end,
}
local heads = {}
for _, head in ipairs { "unet", "fpn", "deeplabv3", "fcn", "probe" } do heads[head], nets[head] = true, with { behind, head } end
for _, name in ipairs(models.names) do nets[name] = with { known, name } end
for _, name in ipairs(opt.rest) do
  local g <close> = sp.graph(opt)
  local image = g.image_requests { size = 64, batch = 1 }.image
  local x = heads[name] and image or g.normalize { image, scale = true, mean = { 0.4, 0.5, 0.6 }, std = 0.25 }.images
  local logits = nets[name](g, x)
  local file = name .. ".safetensors"
  if opt.begin then g:save(file)
  else
    g:load(file)
    g.writer { logits, file = name .. ".npy" }
    assert(g:submit { path = "exact.png", name = "x" })
    for answer in g:answers() do assert(not answer.error, answer.error) end
    write(name, network.of(g, { logits }), file)
  end
end
"""

# A script of one's own, whose two losses judge two networks; with --weights it writes what they make of an image.
OWN = """
local sp = require "spcore"
local opt = sp.args({ weights = { "", "" } }, { rest = "IMAGE" })
local g <close> = sp.graph(opt)
local predicts = opt.weights ~= ""
local data = predicts and g.image_requests { size = { 26, 24 }, batch = 1, resize = "crop" }
  or g.reader { path = "shapes", split = "train", samples = 32, size = { 26, 24 }, batch = 4, resize = "crop" }
local function net(t)
  t.frozen, t.weights = predicts, predicts and { opt.weights, prefix = "" } or nil
  return t
end
local turned = g.flip { data.image, masks = not predicts and data.mask or nil }
local cut = g.batch_crop { turned.images, masks = not predicts and turned.masks or nil, size = 21 }
local scaled = g.resize { cut.images, masks = not predicts and cut.masks or nil, size = 24, interpolation = "bicubic" }
local x = g.to_float { scaled.images, scale = true }
x = g.normalize { g.normalize { x, mean = { 0.1, 0.2, 0.3 }, std = 0.5 }.images, mean = -1, std = 2 }.images
local first = g.encoder(net { x, model = "unet", width = 4, levels = 2, name = "first" })
local second = g.decoder(net { g.dropout { first.features, p = 0.3 }, skips = first.maps, width = 4, classes = 6, name = "second" })
local third = g.layers(net { first.maps[2], name = "third",
  layers = { { "conv", 6, pad = 1 }, { "gelu" }, { "upsample", size = 24, mode = "bilinear" } } })
if predicts then
  g.writer { x, file = "own_x.npy", name = "wx" }
  g.writer { second.logits, file = "own0.npy", name = "w0" }
  g.writer { third.features, file = "own1.npy", name = "w1" }
  assert(g:submit { path = opt.rest[1], name = "x" })
  for answer in g:answers() do assert(not answer.error, answer.error) end
else
  g:train { g.cross_entropy { second.logits, scaled.masks }, g.dice { third.features, scaled.masks }, optimizer = g.sgd { lr = 0.01 } }
  local run <close> = sp.run { graph = g, opt = opt, steps = 2, classes = { "a", "b", "c", "d", "e", "f" } }
  for step, m in g:steps(2) do run:step(step, m) end
  run:finish()
end
"""

# The logits of an image in a run's own graph.
LOGITS = """
local sp = require "spcore"
local predict = require "spcore.predict"
local opt = sp.args({ weights = { "", "" }, to = { "", "" } }, { rest = "IMAGE" })
local model, weights = predict.run { weights = opt.weights }
local g <close> = sp.graph(opt)
local data = g.image_requests(predict.reading(model, { batch = 1 }))
local seg = model.decoder or model.head
local logits = (seg and predict.segment or predict.classify)(g, data.image, model, weights)
g.writer { logits, file = opt.to }
assert(g:submit { path = opt.rest[1], name = "x" })
for answer in g:answers() do assert(not answer.error, answer.error) end
"""


def spcore(*words):
    return subprocess.run([SPCORE, *words], check=True, stdout=subprocess.PIPE, text=True).stdout


def module_in(folder):
    spec = importlib.util.spec_from_file_location(folder, os.path.join(folder, "model.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def results(y):
    return [t.numpy() for t in (y if isinstance(y, tuple) else (y,))]


def fits(shape, dims):
    return len(shape) == len(dims) and all(isinstance(d, str) or n == d for n, d in zip(shape, dims))


def judge(name, model, path, x, wanted):
    """Both forms on x beside what is wanted, a list of arrays."""
    with torch.no_grad():
        ys = results(model(x))
        net = onnx_file.load(path)
        of_onnx = {k: v.numpy() for k, v in net(x).items()}
    if onnx:
        onnx.checker.check_model(path, full_check=True)
    r.true(f"{name}: outputs", len(ys) == len(wanted) == len(of_onnx) == len(net.outputs), f"{len(ys)}, {list(of_onnx)}")
    r.true(f"{name}: shapes", fits(x.shape, net.inputs[0][2]) and all(fits(y.shape, o[2]) for y, o in zip(ys, net.outputs)),
           f"{net.inputs}, {net.outputs}")
    for i, (y, z, w) in enumerate(zip(ys, of_onnx.values(), wanted)):
        r.near(f"{name}: PyTorch {i}", w, y, CLOSE)
        r.near(f"{name}: ONNX {i}", w, z, CLOSE)
    if onnxruntime:
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        for i, (z, w) in enumerate(zip(session.run(None, {"image": x.numpy()}), wanted)):
            r.near(f"{name}: ONNX Runtime {i}", w, z, CLOSE)
    return net


def lively(path):
    """Norms of a network that has learned nothing get statistics and weights of their own."""
    weights = load_file(path)
    for name, a in weights.items():
        if name.endswith("running_mean"):
            a[...] = rng.normal(0, 0.1, a.shape)
        elif name.endswith("running_var") or a.ndim == 1 and name.endswith("weight"):
            a[...] = rng.uniform(0.5, 1.5, a.shape)
    save_file(path, weights)


def all_rows():
    """Each operation of the list, as the stage `layers` computes it, and that each has a row here."""
    rows, inputs, ours = nn_ops.rows(), [], []
    for i, row in enumerate(rows, 1):
        x = row.input(rng)
        stage = Stage("layers", {"layers": Lua(f"{{ {row.layers} }}")}, inputs=[x], training=False, torch_init=True)
        weights = {f"net.{k}": v for k, v in stage.weights().items()}
        save_file(f"row{i}.safetensors", weights or {"none": np.zeros(1, np.float32)})
        lively(f"row{i}.safetensors")
        stage.set_weights({k[4:]: v for k, v in load_file(f"row{i}.safetensors").items() if k in weights})
        inputs.append(x)
        ours.append(stage.forward()["features"])
    with open("rows.json", "w", encoding="utf-8") as f:
        json.dump([{"layers": row.layers, "shape": row.shape} for row in rows], f)
    spcore("run", "rows.lua")
    for i, (row, x, y) in enumerate(zip(rows, inputs, ours), 1):
        judge(str(row), module_in(f"row{i}").load(), f"row{i}/net.onnx", torch.from_numpy(x), [y])


def nets(*names):
    """Networks of an image of 64 x 64, and, where any size goes, of one whose sides are odd."""
    spcore("run", "nets.lua", "--begin", *names)
    for name in names:
        lively(f"{name}.safetensors")
    spcore("run", "nets.lua", *names)
    for name in names:
        module, image = module_in(name), torch.from_numpy(np.asarray(Image.open("exact.png")).copy()).permute(2, 0, 1)
        model = module.load()
        net = judge(name, model, f"{name}/net.onnx", module.prepare(image), [np.load(f"{name}.npy")])
        print(f"    {name}: {len(net.nodes)} nodes, {os.path.getsize(name + '/net.onnx') / 1e6:.1f} MB")
        free = net.inputs[0][2][2:] == ["height", "width"]
        r.true(f"{name}: sizes", free != (name == "classes"), str(net.inputs))
        if free and "multiples" not in module.Model.forward.__doc__:
            x = torch.randn(1, 3, 65, 97)
            with torch.no_grad():
                judge(f"{name}, odd", model, f"{name}/net.onnx", x, results(model(x)))


def compare(name, script, *options):
    """A run of a shipped script, as both forms, from an image file on. What is printed of the image."""
    run, to, npy = name, name + "_torch", name + ".npy"
    spcore("run", script, "--out", run, "--quiet", "--device", "cpu", *options)
    spcore("export", run, "--torch", to, "--onnx", name + ".onnx")
    spcore("run", "logits.lua", "--weights", run, "--to", npy, "image.png", "--device", "cpu")
    module = module_in(to)
    x = module.prepare(module.read("image.png"))
    judge(name, module.load(), name + ".onnx", x, [np.load(npy)])
    return subprocess.run([sys.executable, os.path.join(to, "model.py"), "image.png"], check=True, stdout=subprocess.PIPE, text=True).stdout


def own_script():
    """Predicted by its own graph, by the module from the image on, and by an ONNX graph that takes bytes."""
    spcore("run", "own.lua", "--out", "own", "--quiet")
    spcore("run", "own.lua", "--weights", "own/weights.safetensors", "image.png", "--quiet")
    spcore("export", "own", "--torch", "own_torch", "--onnx", "own.onnx")
    spcore("export", "own", "--onnx", "own_bytes.onnx", "--with-preprocessing")
    module = module_in("own_torch")
    x, wanted = np.load("own_x.npy"), [np.load("own0.npy"), np.load("own1.npy")]
    off = np.abs(module.prepare(module.read("image.png")).numpy() - x) * 255 * 0.5 * 2  # in steps of a byte: a half may be rounded apart
    r.true("own: prepared", off.max() < 1.01 and np.mean(off > 0.01) < 0.002, f"{off.max()}, {np.mean(off > 0.01)}")
    net = judge("own", module.load(), "own.onnx", torch.from_numpy(x), wanted)
    said = json.loads(net.metadata["preprocessing"])
    r.true("own: named", [o[0] for o in net.outputs] == ["second_logits", "third_features"], str(net.outputs))
    r.true("own: said", (said["fit"], said["size"], said["then"][0], said["layout"]) == ("crop", [26, 24], {"crop": [21, 21]}, "NCHW"), str(said))
    image = rng.integers(0, 256, (2, 24, 24, 3), dtype=np.uint8)
    scaled = (image.transpose(0, 3, 1, 2).astype(np.float64) * said["scale"] - np.reshape(said["mean"], (1, -1, 1, 1))) \
        / np.reshape(said["std"], (1, -1, 1, 1))
    by_hand = ((image.transpose(0, 3, 1, 2) / 255 - np.reshape([0.1, 0.2, 0.3], (1, 3, 1, 1))) / 0.5 + 1) / 2
    r.near("own: scale, mean, std", scaled, by_hand, 1e-6)
    with torch.no_grad():
        ys = results(module.load()(torch.from_numpy(scaled.astype(np.float32))))
        zs = onnx_file.load("own_bytes.onnx")(torch.from_numpy(image))
    for y, (k, z) in zip(ys, zs.items()):
        r.near(f"own: bytes to {k}", z.numpy(), y, CLOSE)


def of_a_file():
    """A known network by name, and a list of layers in a Lua file, each with a file of weights."""
    spcore("export", "mobilenet_v3_small", "--weights", "mobilenet_v3_small.safetensors", "--torch", "named", "--onnx", "named.onnx")
    with open("list.lua", "w", encoding="utf-8") as f:
        f.write('return { { "conv", 4, kernel = 3, stride = 2, name = "a" }, { "relu6" }, { "mean" } }')
    weights = {"a.weight": rng.normal(size=(4, 3, 3, 3)).astype(np.float32), "a.bias": rng.normal(size=4).astype(np.float32)}
    save_file("list.safetensors", weights)
    spcore("export", "list.lua", "--weights", "list.safetensors", "--torch", "listed", "--onnx", "listed.onnx")
    x = torch.randn(2, 3, 33, 65)
    with torch.no_grad():
        wanted = torch.nn.functional.conv2d(x, *map(torch.from_numpy, weights.values()), stride=2).clamp(0, 6).mean((2, 3), keepdim=True)
        judge("a list", module_in("listed").load(), "listed.onnx", x, [wanted.numpy()])
        y = module_in("mobilenet_v3_small").load()(x)
        judge("by name", module_in("named").load(), "named.onnx", x, [y.numpy()])
    r.true("names as the file has them", set(module_in("listed").load().state_dict()) == set(weights), str(weights.keys()))


def of_numbers():
    """Images of other numbers and channels: model.py reads, fits and prepares them as predictions do."""
    for name, dtype, more in (("halves", np.uint16, ["--dtype", "uint16"]), ("bands", np.float32, ["--dtype", "float32", "--nodata", "-9"]),
                                   ("bytes", np.uint8, ["--channels", "5"])):
        for k in range(6):
            for d in ("images", "masks"):
                os.makedirs(f"{name}/{d}", exist_ok=True)
            a = rng.normal(size=(37, 50, 5)).cumsum(0).cumsum(1)
            a = ((a - a.min()) / (a.max() - a.min()) * (250 if dtype == np.uint8 else 4000)).astype(dtype)
            if dtype == np.float32:
                a[:3, :4] = -9
                a[5, 5] = np.nan
            np.save(f"{name}/images/{k}.npy", a)
            Image.fromarray((a[..., 0] > np.nanmean(a[..., 0])).astype(np.uint8)).save(f"{name}/masks/{k}.png")
        with open(f"{name}/classes.txt", "w", encoding="utf-8") as f:
            f.write("a\nb\n")
        spcore("run", "train_seg.lua", "--data", name, *more, "--train-encoder", "--size", "32", "--steps", "4", "--batch", "2", "--out", f"{name}_run",
               "--device", "cpu", "--quiet", "--pictures", "0")
        spcore("run", "predict_seg.lua", "--weights", f"{name}_run", "--out", f"{name}_p", "--probabilities", "npy", "--device", "cpu", "--quiet",
               f"{name}/images")
        spcore("export", f"{name}_run", "--torch", f"{name}_torch")
        module = module_in(f"{name}_torch")
        with torch.no_grad():
            x = module.read(f"{name}/images/1.npy")
            logits = torch.nn.functional.interpolate(module.load()(module.prepare(x)), size=x.shape[1:], mode="bilinear", align_corners=False)
        r.near(f"{name}: probabilities of a file", logits[0].softmax(0).numpy(), np.load(f"{name}_p/probabilities/1.npy"), 1e-4)


def refused(to):
    """What is no use of model.py: its status and one line."""
    for words, status, wanted in (([], 2, f"usage: python3 {to}/model.py IMAGE\n"), (["none.png"], 1, "none.png: No such file or directory\n"),
                                  (["logits.lua"], 1, "logits.lua: cannot identify image file 'logits.lua'\n")):
        done = subprocess.run([sys.executable, f"{to}/model.py", *words], check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        r.true(f"{to}: {words}", done.returncode == status and done.stderr == wanted and not done.stdout, done.stderr)


# Of each family the smallest; `export.py all` takes every known network.
KNOWN = ["resnet18", "mobilenet_v3_small", "efficientnet_b0"]
if sys.argv[1:] == ["all"]:
    KNOWN = ["resnet18", "resnet34", "resnet50", "resnet101", "mobilenet_v3_small", "mobilenet_v3_large"]
    KNOWN += [f"efficientnet_b{i}" for i in range(5)]

with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    coarse = Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8))
    coarse.resize((173, 130), Image.BICUBIC).save("image.png")
    coarse.resize((64, 64), Image.BICUBIC).save("exact.png")
    for script, lines in (("logits", LOGITS), ("rows", ROWS), ("nets", NETS), ("own", OWN)):
        with open(script + ".lua", "w", encoding="utf-8") as f:
            f.write(lines)
    all_rows()
    nets("plain", "down", "maps", "classes", "residual", "unet", "fpn", "deeplabv3", "fcn", "probe", *KNOWN)
    own_script()
    of_a_file()
    of_numbers()
    compare("seg", "train_seg.lua", "--steps", "30", "--size", "32", "--samples", "64")
    out = compare("seg_deep", "train_seg.lua", "--train-encoder", "--width", "5", "--levels", "4", "--size", "32", "--steps", "30",
                  "--samples", "64", "--lr", "0.01")
    spcore("run", "predict_seg.lua", "--weights", "seg_deep", "--out", "p", "image.png", "--device", "cpu", "--quiet")
    ours, theirs = (np.asarray(Image.open(path)) for path in ("p/masks/image.png", "image_mask.png"))
    r.true("labels", ours.shape == theirs.shape and np.mean(ours == theirs) > 0.999, f"{np.mean(ours == theirs)} of them are equal")
    r.true("main", out.endswith("pixels  cross\nimage_mask.png\n"), out)
    compare("cls", "train_cls.lua", "--steps", "20", "--size", "32", "--samples", "64", "--batch", "8", "--augment", "none")
    compare("behind", "train_cls.lua", "--backbone", "resnet18", "--size", "64", "--steps", "2", "--samples", "16", "--batch", "8")
    out = compare("cls_crop", "train_cls.lua", "--width", "6", "--levels", "2", "--steps", "20", "--size", "40", "--samples", "64",
                  "--ema", "0.9", "--dropout", "0.2", "--batch", "8")
    spcore("run", "predict_cls.lua", "--weights", "cls_crop", "--out", "c.csv", "image.png", "--device", "cpu", "--quiet")
    with open("c.csv", encoding="utf-8") as f:
        row = list(csv.DictReader(f))[0]
    p, name = out.split("\n")[0].split("  ")
    refused("seg_torch")
    refused("cls_torch")
    r.true("classes", name == row["name"] and abs(float(p) - float(row["probability"])) < 2e-4, f"{out}, {row}")
    os.chdir("/")
r.exit()
