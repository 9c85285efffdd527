# SPDX-License-Identifier: MIT
# needs: onednn
"""Groups of parameters in a graph, against PyTorch's: rates and decays by names, weights that are frozen, or frozen at first, no_decay,
with clipping, averages, a rate that changes, and several steps an update."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from spstage import Report, load_file, lua, save_file, torch_or_skip

import numpy as np

torch = torch_or_skip()
import optimizers

F = torch.nn.functional
SCRIPT = """
local sp = require "spcore"
local g <close> = sp.graph { threads = 1 }
local data = g.reader { path = %(data)r, batch = 4, size = 4, shuffle = false, val_fraction = 0, dtype = "float32", classes = 3 }
local a = g.layers { data.image, name = "body", weights = %(weights)r, layers = { { "conv", out = 4, kernel = 3, pad = 1, name = "conv" }, { "relu" } } }
local b = g.layers { a, name = "head", weights = %(weights)r, layers = { { "conv", out = 5, kernel = 1, name = "mid" }, { "relu" }, { "conv", out = 3, kernel = 1, name = "out" } } }
g:train { g.cross_entropy { b, data.mask }, optimizer = g.%(name)s { lr = 0.1 %(params)s }, accumulate = %(k)d,
  lr = function(step) return 0.1 / (1 + step) end }
for step, m in g:steps(%(steps)d) do end
g:save(%(out)r)
"""
SHAPES = {"body.conv.weight": (4, 3, 3, 3), "body.conv.bias": (4,), "head.mid.weight": (5, 4, 1, 1), "head.mid.bias": (5,),
          "head.out.weight": (3, 5, 1, 1), "head.out.bias": (3,)}
STEPS = 6


def norm_bias(name): return (1, 0) if len(SHAPES[name]) < 2 else (1, 1)


# Parameters of ours; the factors of a weight by its name, None: frozen; steps of an update.
CASES = [
    ("sgd", {"groups": [["body.*", {"lr": 0.1}]]}, lambda n: (0.1 if n.startswith("body") else 1, 1), 1),
    ("sgd", {"momentum": 0.9, "weight_decay": 0.1, "no_decay": "norm_bias", "groups": [["head.out.*", {"lr": 3}]]},
     lambda n: (3 if "out" in n else 1, norm_bias(n)[1]), 1),
    ("adamw", {"weight_decay": 0.2, "groups": [["body.*", {"lr": 0.1}], ["*.bias", "body.*", {"decay": 0}], ["*.mid.*", {"lr": 0.5, "decay": 2}]]},
     lambda n: ((0.1 if n.startswith("body") else 1) * (0.5 if "mid" in n else 1),
                0 if n.endswith("bias") or n.startswith("body") else 2 if "mid" in n else 1), 1),
    ("adamw", {"weight_decay": 0.2, "clip_norm": 0.3, "groups": [["head.mid.*", {"frozen": True}], ["body.*", {"lr": 0.25}]]},
     lambda n: None if "mid" in n else (0.25 if n.startswith("body") else 1, 1), 1),
    ("adamw", {"weight_decay": 0.2, "clip_norm": 0.3, "no_decay": "norm_bias", "groups": [["body.*", {"frozen": True}]]},
     lambda n: None if n.startswith("body") else norm_bias(n), 2),
    ("adamw", {"weight_decay": 0.2, "amsgrad": True, "groups": [["head.mid.*", {"frozen": True}], ["body.*", {"lr": 0.25, "decay": 2}]]},
     lambda n: None if "mid" in n else ((0.25, 2) if n.startswith("body") else (1, 1)), 2),
    ("lion", {"weight_decay": 0.2, "clip_norm": 0.3, "groups": [["head.mid.*", {"frozen": True}], ["body.*", {"lr": 0.25, "decay": 2}]]},
     lambda n: None if "mid" in n else ((0.25, 2) if n.startswith("body") else (1, 1)), 2),
    ("lamb", {"weight_decay": 0.2, "clip_norm": 0.3, "no_decay": "norm_bias", "groups": [["head.mid.*", {"frozen": True}], ["body.*", {"lr": 0.25, "decay": 2}]]},
     lambda n: None if "mid" in n else (0.25 if n.startswith("body") else 1, norm_bias(n)[1] * (2 if n.startswith("body") else 1)), 2),
    ("muon", {"weight_decay": 0.2, "clip_norm": 0.3, "groups": [["head.mid.bias", {"frozen": True}], ["body.*", "head.mid.*", {"lr": 0.25, "decay": 2}]]},
     lambda n: None if n == "head.mid.bias" else ((0.25, 2) if n.startswith("body") or "mid" in n else (1, 1)), 2),
    ("lion", {"weight_decay": 0.2, "unfreeze": [["body", {"at": 2}]]}, lambda n: (1, 1), 1),
    ("lamb", {"weight_decay": 0.2, "unfreeze": [["body", {"at": 2}], ["head.mid", {"at": 4}]]}, lambda n: (1, 1), 1),
    ("muon", {"weight_decay": 0.2, "aux_lr": 0.2, "unfreeze": [["body", {"at": 2}]]}, lambda n: (1, 1), 1),
    ("adamw", {"weight_decay": 0.2, "clip_norm": 0.3, "unfreeze": [["body", {"at": 2}], ["head.mid", {"at": 4}]]}, lambda n: (1, 1), 1),
    ("adamw", {"amsgrad": True, "weight_decay": 0.1, "unfreeze": [["body.conv", {"at": 4}]], "groups": [["*.weight", {"lr": 0.5}]]},
     lambda n: (0.5 if n.endswith("weight") else 1, 1), 2),
    ("sgd", {"momentum": 0.9, "dampening": 0.5, "unfreeze": [["head.mid", {"at": 3}]]}, lambda n: (1, 1), 1),
]


def table(groups):
    return "{ %s }" % ", ".join("{ %s, %s }" % (", ".join(lua(n) for n in g[:-1]), ", ".join("%s = %s" % (k, lua(v)) for k, v in g[-1].items()))
                               for g in groups)


# The steps until which a weight is frozen.
def late(params, name): return max([g[1]["at"] for g in params.get("unfreeze", []) if name.startswith(g[0])], default=0)


def theirs(name, params, factors, k, start, x, y):
    w = {n: torch.tensor(v, requires_grad=factors(n) is not None) for n, v in start.items()}
    more = {p: params[p] for p in ("momentum", "dampening", "amsgrad", "aux_lr") if p in params}
    groups = [{"params": [v], "weight_decay": params.get("weight_decay", 0) * factors(n)[1], "factor": factors(n)[0]}
              for n, v in w.items() if factors(n)]
    opt = optimizers.MADE[name](groups, lr=0.1, **more)
    for step in range(STEPS):
        for n, v in w.items(): v.requires_grad = factors(n) is not None and step >= late(params, n)
        at = step * 4 % len(x)
        h = F.relu(F.conv2d(x[at:at + 4], w["body.conv.weight"], w["body.conv.bias"], padding=1))
        h = F.relu(F.conv2d(h, w["head.mid.weight"], w["head.mid.bias"]))
        (F.cross_entropy(F.conv2d(h, w["head.out.weight"], w["head.out.bias"]), y[at:at + 4]) / k).backward()
        if (step + 1) % k: continue
        if "clip_norm" in params: torch.nn.utils.clip_grad_norm_([v for g in groups for v in g["params"] if v.requires_grad], params["clip_norm"])
        for g in opt.param_groups: g["lr"] = 0.1 / (1 + step) * g["factor"]
        opt.step()
        opt.zero_grad()
    return {n: v.detach().numpy() for n, v in w.items()}


def main():
    r = Report()
    rng = np.random.default_rng(4)
    x, y = rng.random((12, 3, 4, 4)).astype(np.float32), rng.integers(0, 3, (12, 4, 4)).astype(np.uint8)
    start = {n: (rng.random(s).astype(np.float32) - 0.5) * 0.8 for n, s in SHAPES.items()}
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(folder + "/data")
        np.save(folder + "/data/images.npy", x)
        np.save(folder + "/data/masks.npy", y)
        save_file(folder + "/start.safetensors", start)
        for i, (name, params, factors, k) in enumerate(CASES):
            given = "".join(", %s = %s" % (p, table(v) if p in ("groups", "unfreeze") else lua(v)) for p, v in params.items())
            script, out = "%s/%d.lua" % (folder, i), "%s/%d.safetensors" % (folder, i)
            with open(script, "w") as f:
                f.write(SCRIPT % dict(data=folder + "/data", weights=folder + "/start.safetensors", name=name, params=given, k=k, steps=STEPS,
                                      out=out))
            subprocess.run([os.environ["top_builddir"] + "/spcore", "run", script], check=True, stderr=subprocess.DEVNULL)
            got = load_file(out)
            want = theirs(name, params, factors, k, start, torch.tensor(x), torch.tensor(y.astype(np.int64)))
            for n in want:
                r.near("%s %s, %d steps an update: %s" % (name, params, k, n), got[n], want[n], 1e-6)
                if factors(n) is None: r.same("%s stays" % n, got[n], start[n])
    r.exit()


main()
