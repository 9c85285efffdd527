# SPDX-License-Identifier: MIT
"""affine against torchvision, with exchanged parameters: nearest pixels and masks have equal bits, bilinear bytes are 1
apart at most. What it draws, against torchvision's own draws.
"""
import itertools
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from spstage import CHANNELS_LAST, ROW_MAJOR, Report, Stage, torch_or_skip, torchvision_or_skip

import numpy as np

torch = torch_or_skip()
torchvision = torchvision_or_skip()
F, T = torchvision.transforms.functional, torchvision.transforms
MODES = {m: getattr(T.InterpolationMode, m.upper()) for m in ("nearest", "bilinear")}
r = Report()
rng = np.random.default_rng(12)
SIZES = [(2, 3, 1, 1), (2, 3, 1, 9), (2, 2, 12, 1), (2, 3, 2, 2), (4, 3, 64, 64), (4, 3, 63, 90), (2, 4, 30, 31), (1, 1, 60, 520)]


def images(n, c, h, w, dtype):
    x = rng.integers(0, 256, (n, c, h, w)).astype(dtype)
    return x + (rng.random(x.shape).astype(np.float32) if dtype == np.float32 else 0)


def compare(name, stage, params, x, m, given, order, theirs):
    """theirs(tensor, i, mode, fill): what torchvision makes of sample i."""
    for fill, (mode, m_of) in itertools.product((0, 7), MODES.items()):
        if x.shape[1] == 3 and fill:
            fill = [7.0, 200.0, 31.0]
        out = Stage(stage, {"mode": mode, "fill": fill, "mask_fill": 7, **params}, [[x], [m], given], order=order).forward()
        fills = fill if isinstance(fill, list) else [float(fill)] * x.shape[1]
        want = torch.stack([theirs(torch.tensor(v), i, m_of, fills) for i, v in enumerate(x)]).numpy()
        if mode == "nearest":
            r.same(f"{name}, fill {fill}, nearest", out["images"], want)
        elif x.dtype == np.float32:  # a place has the rounding of a number as large as the side
            r.close(f"{name}, fill {fill}, bilinear", out["images"], want, atol=(5e-7 + 2.4e-7 * max(x.shape)) * 256)
        else:
            off = np.abs(out["images"].astype(int) - want)
            r.true(f"{name}, fill {fill}, bilinear", off.max() <= 1 and off.mean() < 3e-3, f"{off.max()}, {off.mean()}")
        if mode == "nearest":
            want = [theirs(torch.tensor(v)[None], i, m_of, [7.0])[0].numpy() for i, v in enumerate(m)]
            r.same(f"{name}, fill {fill}, mask", out["masks"], np.stack(want))


def alike(name, ours, theirs):
    """Two samples of one distribution: the largest distance of their cumulative frequencies (Kolmogorov and Smirnov) is
    below its 99.9 % point. Seeds are fixed."""
    for i in range(ours.shape[1]):
        a, b = ours[:, i], theirs[:, i]
        values = np.unique(np.concatenate([a, b]))
        apart = np.abs(np.searchsorted(np.sort(a), values, side="right") / len(a)
                       - np.searchsorted(np.sort(b), values, side="right") / len(b)).max()
        r.true(f"{name}, number {i + 1}", apart < 1.95 * (1 / len(a) + 1 / len(b)) ** 0.5, f"{apart:.4f}")


# ---- affine ----
for (n, c, h, w), dtype, order in itertools.product(SIZES, (np.uint8, np.float32), (ROW_MAJOR, CHANNELS_LAST)):
    x, m = images(n, c, h, w, dtype), rng.integers(0, 256, (n, h, w)).astype(np.uint8)
    a = np.stack([rng.uniform(-180, 180, n), rng.integers(-w // 3, w // 3 + 1, n), rng.integers(-h // 3, h // 3 + 1, n),
                  rng.uniform(0.4, 2, n), rng.uniform(-50, 50, n), rng.uniform(-50, 50, n)], 1).astype(np.float32)
    a[0] = rng.permutation([[0, 0, 0, 1, 0, 0], [90, 0, 0, 1, 0, 0], [0, 1, -1, 1, 0, 0], [-45, 0, 0, 1, 0, 0]])[0]
    for params, center in (({}, None), ({"center": [1.0, h - 3.0]}, [1.0, h - 3.0])):
        compare(f"affine {n} x {c} x {h} x {w} {np.dtype(dtype).name}{' channels last' if order else ''} {center}", "affine",
                params, x, m, a, order,
                lambda t, i, mode, fill: F.affine(t, float(a[i][0]), [float(v) for v in a[i][1:3]], float(a[i][3]),
                                                  [float(v) for v in a[i][4:]], mode, fill=fill, center=center))

for (h, w), ranges in (((60, 90), dict(degrees=30, translate=(0.1, 0.4), scale=(0.5, 2.0), shear=20)),
                       ((7, 5), dict(degrees=(-10, 90), translate=(0.5, 0.0), scale=(1.0, 1.2), shear=(-3, 20, 5, 9)))):
    n, full = 10000, dict(degrees=(0, 0), shear=(0, 0))
    torch.manual_seed(5)
    aug = T.RandomAffine(**ranges)
    theirs = [aug.get_params(aug.degrees, aug.translate, aug.scale, aug.shear, [w, h]) for _ in range(n)]
    theirs = np.array([[a, *t, s, *k] for a, t, s, k in theirs])
    params = {k: list(v) if isinstance(v, tuple) else v for k, v in ranges.items()}
    ours = Stage("affine", params, [[np.zeros((n, 1, h, w), np.uint8)], None, None]).forward()["affines"]
    alike(f"affine draws, {h} x {w}", ours, theirs)

r.exit()
