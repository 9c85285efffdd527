# SPDX-License-Identifier: MIT
# needs: onednn images jansson
"""spcore export --torch: the module loads its weights strictly, and from an image file gives the logits of spcore, within 1e-5 of the
largest; its labels and classes are those of the predict scripts."""
import csv
import importlib.util
import os
import subprocess
import sys
import tempfile

from spstage import Report, torch_or_skip
import numpy as np
from PIL import Image

torch = torch_or_skip()
r = Report()
SPCORE = os.path.abspath(os.path.join(os.environ.get("top_builddir", "."), "spcore"))

# The logits of an image in a run's own graph.
LOGITS = """
local sp = require "spcore"
local predict = require "spcore.predict"
local opt = sp.args({ weights = { "", "" }, to = { "", "" } }, { rest = "IMAGE" })
local model, weights = predict.run { weights = opt.weights }
local g <close> = sp.graph(opt)
local data = g.image_requests { size = model.size, batch = 1 }
local logits = (model.decoder and predict.segment or predict.classify)(g, data.image, model, weights)
g.writer { logits, file = opt.to }
assert(g:submit { path = opt.rest[1], name = "x" })
for answer in g:answers() do assert(not answer.error, answer.error) end
"""


def spcore(*words):
    subprocess.run([SPCORE, *words], check=True, stdout=subprocess.DEVNULL)


def compare(name, script, *options):
    run, to, npy = name, name + "_torch", name + ".npy"
    spcore("run", script, "--out", run, "--quiet", "--device", "cpu", *options)
    spcore("export", run, "--torch", to)
    spcore("run", "logits.lua", "--weights", run, "--to", npy, "image.png", "--device", "cpu")
    spec = importlib.util.spec_from_file_location(to, os.path.join(to, "model.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with torch.no_grad():
        logits = module.load()(module.prepare(module.read("image.png")))
    r.near(f"{name}: logits", np.load(npy), logits.numpy(), 1e-5)
    return subprocess.run([sys.executable, os.path.join(to, "model.py"), "image.png"], check=True, stdout=subprocess.PIPE, text=True).stdout


def refused(to):
    """What is no use of model.py: its status and one line."""
    for words, status, wanted in (([], 2, f"usage: python3 {to}/model.py IMAGE\n"), (["none.png"], 1, "none.png: No such file or directory\n"),
                                  (["logits.lua"], 1, "logits.lua: cannot identify image file 'logits.lua'\n")):
        done = subprocess.run([sys.executable, f"{to}/model.py", *words], check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        r.true(f"{to}: {words}", done.returncode == status and done.stderr == wanted and not done.stdout, done.stderr)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    rng = np.random.default_rng(3)
    coarse = Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8))
    coarse.resize((173, 130), Image.BICUBIC).save("image.png")
    with open("logits.lua", "w", encoding="utf-8") as f:
        f.write(LOGITS)
    compare("seg", "train_seg.lua", "--steps", "30", "--size", "32", "--samples", "64")
    out = compare("seg_deep", "train_seg.lua", "--train-encoder", "--width", "5", "--levels", "4", "--size", "32", "--steps", "30",
                  "--samples", "64", "--lr", "0.01")
    spcore("run", "predict_seg.lua", "--weights", "seg_deep", "--out", "p", "image.png", "--device", "cpu", "--quiet")
    ours, theirs = (np.asarray(Image.open(path)) for path in ("p/masks/image.png", "image_mask.png"))
    r.true("labels", ours.shape == theirs.shape and np.mean(ours == theirs) > 0.999, f"{np.mean(ours == theirs)} of them are equal")
    r.true("main", out.endswith("pixels  cross\nimage_mask.png\n"), out)
    compare("cls", "train_cls.lua", "--steps", "20", "--size", "32", "--samples", "64", "--batch", "8", "--augment", "none")
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
