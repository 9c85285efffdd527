# SPDX-License-Identifier: MIT
# needs: onednn
"""classifier and accuracy against PyTorch, and cross_entropy of their rows: the models as the modules they are said to
be, with whole state_dicts there and back, and counts of torch.topk."""
import copy
from unittest import mock

from spstage import CHANNELS_LAST, ROW_MAJOR, Report, Stage, torch_or_skip
import numpy as np

torch = torch_or_skip()
nn, F = torch.nn, torch.nn.functional
r = Report()
rng = np.random.default_rng(5)
torch.manual_seed(5)

FWD, GRAD = 1e-4, 1e-3


def rand(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def state(module):
    return {k: v.detach().numpy() for k, v in module.state_dict().items()}


def least(module, x):
    """The number beside 0 that a ReLU sees: where rounding decides its sign, gradients may differ by a pixel's share."""
    seen, relu = [1.0], torch.relu
    with mock.patch("torch.relu", lambda v: (seen.append(v.abs().min().item()), relu(v))[1]), torch.no_grad():
        copy.deepcopy(module)(torch.from_numpy(x))
    return min(seen)


def clear(module, *shape):
    draws = (rand(*shape) for _ in range(50))
    return module, next(x for x in draws if least(module, x) > 2e-6)


def compare(name, params, module, x, order=ROW_MAJOR, labels=None):
    """One training step of both with the same weights, through the mean cross-entropy of both."""
    st = Stage("classifier", params, inputs=[x], order=order)
    r.true(f"{name} names", set(st.weight_names()) == set(state(module)),
           f"{sorted(st.weight_names())}, PyTorch has {sorted(state(module))}")
    st.set_weights(state(module))
    tx = torch.from_numpy(x).requires_grad_()
    y = module(tx)
    ours = st.forward()["logits"]
    r.near(f"{name} forward", ours, y.detach().numpy(), FWD)
    labels = rng.integers(0, y.shape[1], len(x)) if labels is None else labels
    loss = F.cross_entropy(y, torch.from_numpy(labels))
    loss.backward()
    ce = Stage("cross_entropy", {}, [ours, labels])
    r.close(f"{name} loss", ce.forward()["loss"], loss.item(), rtol=1e-4)
    din, dw = st.backward({"logits": ce.dinputs()["logits"]})
    r.near(f"{name} din", din["image"], tx.grad.numpy(), GRAD)
    for k, p in module.named_parameters():
        r.near(f"{name} d {k}", dw[k], p.grad.numpy(), GRAD)
    after = st.weights()
    for k, b in module.named_buffers():
        r.near(f"{name} {k}", after[k], b.numpy(), FWD)
    module.eval()
    ev = Stage("classifier", params, inputs=[x], order=order, training=False)
    ev.set_weights(state(module))
    r.near(f"{name} inference", ev.forward()["logits"], module(torch.from_numpy(x)).detach().numpy(), FWD)
    return st


# ---- the models ----
def plain(channels, classes, k, width=16, pixels=1):
    m = [nn.Conv2d(channels, width, 1)]
    for i in range(k):
        m += [nn.ReLU(), nn.Conv2d(width << i, width << i + 1, 2, 2)]
    return nn.Sequential(*m, nn.Flatten(), nn.Linear((width << k) * pixels, classes))


class Block(nn.Module):
    def __init__(self, c, o, s):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(c, o, 3, s, 1, bias=False), nn.BatchNorm2d(o)
        self.conv2, self.bn2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
        self.downsample = None
        if s != 1 or c != o:
            self.downsample = nn.Sequential(nn.Conv2d(c, o, 1, s, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + (self.downsample(x) if self.downsample else x))


class Residual(nn.Module):
    def __init__(self, channels, classes, width, depth, blocks):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        c, self.depth = width, depth
        for i in range(depth + 1):
            o, m = width << i, []
            for b in range(blocks):
                m.append(Block(c, o, 2 if i and not b else 1))
                c = o
            setattr(self, f"layer{i + 1}", nn.Sequential(*m))
        self.fc = nn.Linear(c, classes)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        for i in range(self.depth + 1):
            x = getattr(self, f"layer{i + 1}")(x)
        return self.fc(x.mean((2, 3)))


class Features(nn.Module):
    """For rows: PyTorch cannot pool them, but the linear layer is the same."""

    def __init__(self, c, classes):
        super().__init__()
        self.add_module("2", nn.Linear(c, classes))

    def forward(self, x):
        return getattr(self, "2")(x)


for order, name in ((ROW_MAJOR, "nchw"), (CHANNELS_LAST, "nhwc")):
    compare(f"plain 64 {name}", {"classes": 10}, plain(3, 10, 6), rand(8, 3, 64, 64), order)
    compare(f"plain 8 x 12 {name}", {"classes": 7, "width": 5, "levels": 2}, plain(1, 7, 2, 5, 6), rand(5, 1, 8, 12),
            order)
    # of numbers around 1, which batch norm makes, none is so near to 0 that rounding decides its sign
    compare(f"residual {name}", {"classes": 5, "model": "residual", "width": 8, "levels": 2, "blocks": 1},
            *clear(Residual(3, 5, 8, 2, 1), 6, 3, 13, 10), order)
    compare(f"residual of defaults {name}", {"classes": 10, "model": "residual"},
            *clear(Residual(3, 10, 16, 3, 2), 4, 3, 32, 32), order)
    for h, w in ((1, 1), (7, 5), (16, 16), (64, 48)):
        compare(f"pool {h} x {w} {name}", {"classes": 6, "model": "pool"},
                nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 6)), rand(4, 24, h, w), order)
compare("pool of rows", {"classes": 6, "model": "pool"}, Features(24, 6), rand(4, 24))
compare("layers", {"classes": 4, "layers": [{1: "conv", 2: 6, "pad": 1}, {1: "relu"}, {1: "flatten"},
                                            {1: "linear", 2: 9}, {1: "relu"}, {1: "linear", 2: 4}]},
        nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 30, 9), nn.ReLU(),
                      nn.Linear(9, 4)), rand(4, 3, 5, 6))

# ---- first values, and the weights as a state_dict ----
torch.manual_seed(11)
mod, x = plain(3, 10, 4), rand(2, 3, 16, 16)
st = Stage("classifier", {"classes": 10}, inputs=[x], seed=11, torch_init=True)
for k, v in state(mod).items():
    r.same(f"init {k}", st.weights()[k], v)
other = plain(3, 10, 4)
other.load_state_dict({k: torch.from_numpy(v) for k, v in st.weights().items()})
with torch.no_grad():
    r.near("saved weights in PyTorch", other(torch.from_numpy(x)).numpy(), st.forward()["logits"], FWD)

# ---- behind an encoder ----
enc = Stage("encoder", {"levels": 2, "width": 4}, inputs=[rand(3, 3, 16, 16)])
head = Stage("classifier", {"classes": 5, "model": "pool"}, inputs=[enc.forward()["features"]], order=CHANNELS_LAST)
mod = nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU(), nn.Conv2d(4, 8, 2, 2), nn.ReLU(), nn.Conv2d(8, 16, 2, 2))
mod.load_state_dict({k: torch.from_numpy(v) for k, v in enc.weights().items()})
last = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5))
last.load_state_dict({k: torch.from_numpy(v) for k, v in head.weights().items()})
tx = torch.from_numpy(enc._get(0, 0, 0)).requires_grad_()
y = last(mod(tx))
r.near("encoder and pool", head.forward()["logits"], y.detach().numpy(), FWD)
g = rand(3, 5)
din, _ = head.backward({"logits": g})
dimg, _ = enc.backward({"features": din["image"]})
y.backward(torch.from_numpy(g))
r.near("encoder and pool din", dimg["image"], tx.grad.numpy(), GRAD)

# ---- accuracy: torch.topk, of logits without ties ----
for n, c, k in ((32, 10, 5), (64, 1000, 5), (500, 7, 2), (3, 20000, 50), (20, 4, 4), (9, 3, 5)):
    x = np.argsort(rand(n, c), 1).astype(np.float32) - c / 2
    for dtype in (np.uint8, np.int32, np.int64):
        y = rng.integers(0, min(c, 200), n)
        y[rng.random(n) < 0.3] = x.argmax(1)[0] if dtype != np.uint8 else y[0]
        y, ignore = y.astype(dtype), 255 if dtype == np.uint8 else -100
        y[n // 2] = ignore
        got = Stage("accuracy", {"k": k, "ignore_index": ignore}, [x, y]).forward()
        keep = torch.from_numpy(np.arange(n) != n // 2)
        hits = torch.topk(torch.from_numpy(x), min(k, c))[1] == torch.from_numpy(y.astype(np.int64))[:, None]
        want = [int(hits[keep][:, :1].sum()), int(hits[keep].sum()), n - 1]
        r.true(f"accuracy {n} x {c}, k = {k}, {np.dtype(dtype).name}",
               [int(got["top1"]), int(got["topk"]), int(got["counted"])] == want,
               f"{got['top1']}, {got['topk']} of {got['counted']}, not {want}")

# ties: the first of equals, as numpy's argmax and a stable sort
x = rng.integers(-2, 3, (200, 12)).astype(np.float32)
y = rng.integers(0, 12, 200)
got = Stage("accuracy", {"k": 4}, [x, y]).forward()
first = np.argsort(-x, 1, kind="stable")[:, :4]
r.true("accuracy, ties", got["top1"] == (x.argmax(1) == y).sum() and got["topk"] == (first == y[:, None]).sum(),
       f"{got['top1']}, {got['topk']}")
y[7] = 12
r.fails("accuracy, label out of range", "sample 7: label 12 is outside 0..11",
        lambda: Stage("accuracy", {}, [x, y]).forward())
r.exit()
