# SPDX-License-Identifier: MIT
# needs: onednn
"""Random graphs of layers against PyTorch: what a value goes to, how often, and in which order in memory, is left to chance.
Each is trained, and frozen: then batch norms with statistics of their own are folded into products, and sums too.

graphs.py FIRST COUNT runs other ones than those of `make check`."""
import random
import sys

from spstage import CHANNELS_LAST, ROW_MAJOR, Report, Stage, torch_or_skip
import numpy as np

torch = torch_or_skip()
import nn_ops  # noqa: E402
nn, F = torch.nn, torch.nn.functional
r = Report()
FIRST, COUNT = (int(a) for a in sys.argv[1:3]) if len(sys.argv) > 2 else (0, 60)
CONVS = (nn.Conv2d, nn.ConvTranspose2d)
FUNCTIONS = [(row.layer(), row.make()) for row in nn_ops.rows() if "FN" in row.flags]


class Graph:
    """A random list of layers, and PyTorch's values of it."""

    def __init__(self, seed, frozen):
        self.frozen, self.rnd, self.mods, self.spec, self.read = frozen, random.Random(seed), nn.ModuleDict(), [], set()
        torch.manual_seed(seed)
        shape = [self.rnd.choice(c) for c in ((1, 2, 3), (1, 3, 4, 8), (4, 6, 8, 9), (4, 5, 8, 12))]
        self.x = torch.randn(shape).requires_grad_()
        self.values = [("input", self.x)]
        for i in range(self.rnd.randint(3, 14)):
            self.add(str(i))
        self.taps = []
        for (name, y), layer in zip(self.values[1:-1], self.spec):
            if name not in self.read or self.rnd.random() < 0.15:
                layer["tap"] = True
                self.taps.append(y)

    def pick(self, fits=lambda v: True):
        """A value, the sooner one that nothing reads yet."""
        all_of = [v for v in self.values if fits(v[1])]
        unread = [v for v in all_of[1:] if v[0] not in self.read]
        v = self.rnd.choice(unread if unread and self.rnd.random() < 0.6 else all_of)
        self.read.add(v[0])
        return v

    def add(self, name):
        joins = self.rnd.random() < 0.35
        layer, y = self.joined() if joins else self.one(name)
        self.spec.append(layer)
        self.values.append((name, y))

    def joined(self):
        kind, a = self.rnd.choice(("add", "concat", "mul", "gate")), self.pick()
        c, hw = a[1].shape[1], a[1].shape[2:]
        if kind == "gate":
            b = self.pick(lambda v: v.shape[1] == c and v.shape[2:] in ((1, 1), hw))
            return {1: "mul", "from": [b[0], a[0]]}, a[1] * b[1]
        if kind == "mul":
            b = self.pick(lambda v: v.shape == a[1].shape)
            return {1: "mul", "from": [a[0], b[0]]}, a[1] * b[1]
        more = self.rnd.randint(1, max(1, min(4, 64 // c)))
        vs = [a] + [self.pick(lambda v: v.shape[2:] == hw and (kind == "concat" or v.shape[1] == c)) for _ in range(more)]
        ys = [v[1] for v in vs]
        return {1: kind, "from": [v[0] for v in vs]}, sum(ys) if kind == "add" else torch.cat(ys, 1)

    def one(self, name):
        last, y = self.values[-1]
        norm = last not in self.read and isinstance(self.mods[last] if last in self.mods else None, CONVS)
        norm = norm and y[:, 0].numel() > 3 and self.rnd.random() < 0.4
        norm = norm and y.std(dim=(0, 2, 3)).min() > 0.02  # or what a division makes of rounding is compared
        src, x = self.pick(lambda v: v is y) if norm else self.pick()
        c, h, w = x.shape[1:]
        kinds = ["conv", "conv", "point", "depth", "mean", "dropout"] + FUNCTIONS
        kinds += ["patch", "max_pool", "avg_pool"] if min(h, w) > 1 else []
        kinds += ["transposed", "upsample"] if h * w < 200 else []
        kinds += ["batch_norm"] if len(x) * h * w > 3 else []
        groups = [n for n in range(1, c + 1) if c % n == 0 and c // n * h * w > 3 and
                  x.reshape(len(x), n, -1).std(2).min() > 0.02]
        kinds += ["group_norm"] if groups else []
        layer, f = self.layer("batch_norm" if norm else self.rnd.choice(kinds), c, groups)
        if list(f.parameters() if isinstance(f, nn.Module) else ()):
            self.mods[name] = f
        return {"from": src, **layer}, f(x)

    def norm(self, mod):
        with torch.no_grad():
            mod.weight.uniform_(0.5, 2)
            mod.bias.uniform_(-1, 1)  # the mean of what comes out is not where ReLU bends
        if self.frozen and isinstance(mod, nn.BatchNorm2d):
            mod.eval()
            mod.running_mean.uniform_(-1, 1)
            mod.running_var.uniform_(0.5, 2)
        return mod

    def layer(self, kind, c, groups):
        out, k, s, d = (self.rnd.choice(v) for v in ((2, 4, 6, 16), (1, 3), (1, 2), (1, 2)))
        if isinstance(kind, tuple):
            return kind
        if kind == "conv":
            return ({1: "conv", 2: out, "kernel": k, "stride": s, "pad": k // 2 * d, "dilation": d, "bias": False},
                    nn.Conv2d(c, out, k, s, k // 2 * d, d, bias=False))
        if kind == "point":
            return {1: "conv", 2: out, "kernel": 1}, nn.Conv2d(c, out, 1)
        if kind == "depth":
            return {1: "conv", 2: c, "pad": 1, "groups": c, "bias": False}, nn.Conv2d(c, c, 3, 1, 1, groups=c, bias=False)
        if kind == "patch":
            return {1: "conv", 2: out, "kernel": 2, "stride": 2}, nn.Conv2d(c, out, 2, 2)
        if kind == "transposed":
            return {1: "conv_transpose", 2: 4}, nn.ConvTranspose2d(c, 4, 2, 2)
        if kind == "batch_norm":
            return {1: kind}, self.norm(nn.BatchNorm2d(c))
        if kind == "group_norm":
            n = self.rnd.choice(groups)
            return {1: kind, 2: n}, self.norm(nn.GroupNorm(n, c))
        if kind == "dropout":
            return {1: kind, "p": 0}, lambda v: v
        if kind == "upsample":
            size = [self.rnd.randint(1, 14) for _ in range(2)]
            how = self.rnd.choice(({}, {"align_corners": False}, {"align_corners": True}))
            mode = "bilinear" if how else "nearest"
            return {1: kind, "size": size, "mode": mode, **how}, lambda v: F.interpolate(v, size=size, mode=mode, **how)
        pools = {"max_pool": lambda v: F.max_pool2d(v, 2), "avg_pool": lambda v: F.avg_pool2d(v, 2),
                 "mean": lambda v: F.adaptive_avg_pool2d(v, 1)}
        return {1: kind}, pools[kind]


def wrong(ours, theirs, tol):
    """By the largest value, or by 1: what PyTorch has as 0 may be the rest of a sum."""
    theirs = theirs.detach().numpy()
    return ours.shape != theirs.shape or not np.all(np.abs(ours - theirs) <= tol * max(1, np.max(np.abs(theirs))))


def state(g):
    words = ("weight", "bias", "running_mean", "running_var") if g.frozen else ("weight", "bias")
    return {k: v.numpy().copy() for k, v in g.mods.state_dict().items() if k.endswith(words)}


def check(seed, frozen):
    g = Graph(seed, frozen)
    stage = Stage("layers", {"layers": g.spec}, inputs=[g.x.detach().numpy()], order=g.rnd.choice((ROW_MAJOR, CHANNELS_LAST)),
                  frozen=frozen)
    stage.set_weights(state(g))
    out, ys = stage.forward(), [g.values[-1][1]] + g.taps
    ours = [out["features"]] + (out["maps"] if isinstance(out["maps"], list) else [out["maps"]])
    bad = [f"output {i}" for i, (a, b) in enumerate(zip(ours, ys)) if wrong(a, b, 1e-4)]
    gs = [torch.randn(y.shape) for y in ys]
    din, dw = stage.backward({"features": gs[0].numpy(), "maps": [v.numpy() for v in gs[1:]]})
    torch.autograd.backward(ys, gs)
    bad += ["din"] if wrong(din["image"], g.x.grad if g.x.grad is not None else torch.zeros(g.x.shape), 1e-3) else []
    grads = {k: torch.zeros(p.shape) if p.grad is None else p.grad for k, p in g.mods.named_parameters() if not frozen}
    for k, grad in grads.items():
        top = grads[k.replace(".bias", ".weight")].abs().max().item()
        rest = max(np.max(np.abs(dw[k])), grad.abs().max().item()) <= 1e-5 * top  # of a sum that is 0, as before a norm
        bad += [k] if wrong(dw[k], grad, 1e-3) and not rest else []
    name = f"graph {seed}, {len(g.spec)} layers" + (", frozen" if frozen else "")
    r.true(name, not bad and len(ours) == len(ys), f"{bad} in {g.spec}")


def frozen_forward(seed):
    """Where no gradient is asked for, more is done within the convolutions."""
    g = Graph(seed, True)
    stage = Stage("layers", {"layers": g.spec}, inputs=[g.x.detach().numpy()], order=g.rnd.choice((ROW_MAJOR, CHANNELS_LAST)),
                  frozen=True, training=False)
    stage.set_weights(state(g))
    out, ys = stage.forward(), [g.values[-1][1]] + g.taps
    ours = [out["features"]] + (out["maps"] if isinstance(out["maps"], list) else [out["maps"]])
    bad = [f"output {i}" for i, (a, b) in enumerate(zip(ours, ys)) if wrong(a, b, 1e-4)]
    r.true(f"graph {seed}, {len(g.spec)} layers, frozen, forward only", not bad and len(ours) == len(ys), f"{bad} in {g.spec}")


for seed in range(FIRST, FIRST + COUNT):
    check(seed, False)
    check(seed, True)
    frozen_forward(seed)
r.exit()
