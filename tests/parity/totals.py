# SPDX-License-Identifier: MIT
# needs: onednn
"""Means over what counts, against PyTorch. Updates of several batches: with ignored labels, class weights, label smoothing,
clipping and a short last batch. Losses of evaluations: the same whatever the batch; where nothing counts there is none."""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from spstage import Report, load_file, lua, save_file, torch_or_skip

import numpy as np

torch = torch_or_skip()
F = torch.nn.functional
SCRIPT = """
local sp = require "spcore"
local g <close> = sp.graph { threads = 1 }
local data = g.reader { path = %(data)r, batch = %(batch)d, size = 4, shuffle = false, val_fraction = 0, dtype = "float32", classes = 3 }
local net = g.layers { data.image, name = "net", weights = %(weights)r, layers = {
  { "conv", out = 4, kernel = 3, pad = 1 }, { "relu" }, { "conv", out = 3, kernel = 1 } } }
local loss = g.%(loss)s { net, data.mask, ignore_index = 255 %(more)s }
g:train { loss, optimizer = g.sgd { lr = 0.5 %(optimizer)s }, accumulate = %(k)d }
for step, m in g:steps(%(steps)d) do end
g:save(%(out)r)
"""
EVALUATION = """
local sp = require "spcore"
local g <close> = sp.graph { threads = 1 }
local data = g.reader { path = %(data)r, batch = %(batch)d, size = 4, shuffle = false, val_fraction = 0, dtype = "float32", classes = 3 }
local net = g.layers { data.image, name = "net", weights = %(weights)r, layers = {
  { "conv", out = 4, kernel = 3, pad = 1 }, { "relu" }, { "conv", out = 3, kernel = 1 } } }
g.cross_entropy { net, data.mask, ignore_index = 255, class_weights = { 1, 3, 0.5 } }
local m = g:evaluate { data = data }
io.write(sp.json.encode { m.loss }, m.loss ~= m.loss and " none" or "")
"""
CASES = [  # batch, accumulate, samples, loss, its parameters, those of the optimizer
    (4, 2, 8, "cross_entropy", {}, {}),
    (2, 4, 8, "cross_entropy", {"class_weights": [1, 3, 0.5], "label_smoothing": 0.1}, {}),
    (2, 4, 8, "cross_entropy", {}, {"clip_norm": 0.02}),
    (3, 3, 7, "cross_entropy", {"class_weights": [1, 3, 0.5]}, {"clip_norm": 0.02}),  # the last batch has one sample
    (4, 2, 8, "focal", {"gamma": 2}, {}),
]


def images(n):
    rng = np.random.default_rng(5)
    x = rng.random((n, 3, 4, 4)).astype(np.float32)
    y = rng.integers(0, 3, (n, 4, 4)).astype(np.uint8)
    for i in range(n // 2):  # of each of these one pixel counts
        kept = y[i, 1, 2]
        y[i] = 255
        y[i, 1, 2] = kept
    return x, y



def given(values):
    return "".join(", %s = %s" % (k, lua(v)) for k, v in values.items())


def theirs(w, x, y, more, optimizer):
    """One update by all samples."""
    w = {k: torch.tensor(v, requires_grad=True) for k, v in w.items()}
    h = F.relu(F.conv2d(torch.tensor(x), w["0.weight"], w["0.bias"], padding=1))
    logits, labels = F.conv2d(h, w["2.weight"], w["2.bias"]), torch.tensor(y.astype(np.int64))
    weights = torch.tensor(more["class_weights"], dtype=torch.float32) if "class_weights" in more else None
    value = F.cross_entropy(logits, labels, weight=weights, ignore_index=255, label_smoothing=more.get("label_smoothing", 0))
    value.backward()
    if "clip_norm" in optimizer: torch.nn.utils.clip_grad_norm_(w.values(), optimizer["clip_norm"])
    return {k: (v - 0.5 * v.grad).detach().numpy() for k, v in w.items()}


def evaluated(folder, name, weights, batch):
    script = folder + "/evaluation.lua"
    with open(script, "w") as f:
        f.write(EVALUATION % dict(data=folder + "/" + name, batch=batch, weights=weights))
    out = subprocess.run([os.environ["top_builddir"] + "/spcore", "run", script], check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(out.split(" ")[0])[0], out.endswith(" none")


def evaluations(r, folder, weights, start):
    """Ten masks, of which four have one label and two have none."""
    x, y = images(10)
    y[4], y[7] = 255, 255
    os.mkdir(folder + "/ten")
    np.save(folder + "/ten/images.npy", x)
    np.save(folder + "/ten/masks.npy", y)
    w = {k: torch.tensor(v) for k, v in start.items()}
    h = F.relu(F.conv2d(torch.tensor(x), w["0.weight"], w["0.bias"], padding=1))
    want = F.cross_entropy(F.conv2d(h, w["2.weight"], w["2.bias"]), torch.tensor(y.astype(np.int64)),
                           weight=torch.tensor([1, 3, 0.5]), ignore_index=255).item()
    for batch in 1, 3, 10:
        r.near("the loss of an evaluation, batches of %d" % batch, np.array(evaluated(folder, "ten", weights, batch)[0]),
               np.array(want), 1e-6)
    np.save(folder + "/ten/masks.npy", np.full_like(y, 255))
    r.true("an evaluation without labels has no loss", evaluated(folder, "ten", weights, 3) == (None, True))


def main():
    r = Report()
    rng = np.random.default_rng(9)
    start = {k: (rng.random(s).astype(np.float32) - 0.5) * 0.6 for k, s in
             {"0.weight": (4, 3, 3, 3), "0.bias": (4,), "2.weight": (3, 4, 1, 1), "2.bias": (3,)}.items()}
    with tempfile.TemporaryDirectory() as folder:
        start_path = folder + "/start.safetensors"
        save_file(start_path, {"net." + k: v for k, v in start.items()})
        def ours(i, batch, k, loss, more, optimizer):
            script, out = "%s/%d.lua" % (folder, i), "%s/%d.safetensors" % (folder, i)
            with open(script, "w") as f:
                f.write(SCRIPT % dict(data="%s/%d" % (folder, i), batch=batch, weights=start_path, loss=loss, more=given(more), k=k,
                                      out=out, optimizer=given(optimizer), steps=k))
            subprocess.run([os.environ["top_builddir"] + "/spcore", "run", script], check=True, stdout=subprocess.DEVNULL)
            return {name[4:]: v for name, v in load_file(out).items()}

        for i, (batch, k, n, loss, more, optimizer) in enumerate(CASES):
            x, y = images(n)
            os.mkdir("%s/%d" % (folder, i))
            np.save("%s/%d/images.npy" % (folder, i), x)
            np.save("%s/%d/masks.npy" % (folder, i), y)
            got = ours(i, batch, k, loss, more, optimizer)
            # Of other losses one batch of all is beside theirs in loss.py.
            want = theirs(start, x, y, more, optimizer) if loss == "cross_entropy" else ours(i, n, 1, loss, more, optimizer)
            for name in want:
                r.near("%s, %d batches of %d, %s %s: %s" % (loss, k, batch, more, optimizer, name), got[name], want[name], 1e-6)
        evaluations(r, folder, start_path, start)
    r.exit()


main()
