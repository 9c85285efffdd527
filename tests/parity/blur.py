# SPDX-License-Identifier: MIT
"""blur against torchvision's gaussian_blur, with the sigmas that were drawn.

torchvision sums all pixels of a large kernel in float32, which alone is 4e-6 off; so every size is compared with the
formula in double, to which torchvision must come near, and the usual sizes with torchvision itself.
"""
import itertools
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from spstage import CHANNELS_LAST, ROW_MAJOR, Report, Stage, torch_or_skip

import numpy as np

torch = torch_or_skip()
try:
    from torchvision.transforms.functional import gaussian_blur
except ImportError:
    print("skipped: torchvision is not installed (Debian: apt install python3-torchvision)")
    sys.exit(77)
r = Report()
rng = np.random.default_rng(11)


def reference(x, kernel, sigmas):
    """Sample by sample. torchvision wants floats of 0..1 or any other: it does not matter to it."""
    return np.stack([gaussian_blur(torch.tensor(a), kernel, [float(s)] * 2).numpy() for a, s in zip(x, sigmas)])


def mirrored(a, axis, weights):
    """The formula along one axis, in double."""
    radius, n = len(weights) // 2, a.shape[axis]
    wide = np.pad(a, [(radius, radius) if i == axis else (0, 0) for i in range(a.ndim)], mode="reflect")
    return sum(w * np.take(wide, range(i, i + n), axis) for i, w in enumerate(weights))


def formula(x, kernel, sigmas):
    out = []
    for a, s in zip(x.astype(np.float64), sigmas.astype(np.float64)):
        for axis, k in ((2, kernel[0]), (1, kernel[1])):
            weights = np.exp(-(np.arange(k) - k // 2) ** 2 / (2 * s * s))
            a = mirrored(a, axis, weights / weights.sum())
        out.append(a)
    return np.stack(out)


def case(shape, kernel, order, sigma=(0.1, 2.0)):
    name = f"{shape} kernel {kernel} sigma {sigma}{' channels last' if order else ''}"
    pair = kernel if isinstance(kernel, list) else [kernel, kernel]
    floats = rng.random(shape, np.float32)
    whole = rng.integers(0, 256, shape, np.uint8)
    mask = rng.integers(0, 256, (shape[0],) + shape[2:], np.int64)
    params = {"kernel": kernel, "sigma": list(sigma)}
    out = Stage("blur", params, [[floats, whole], [mask]], order=order).forward()
    sigmas = out["sigmas"]
    r.true(f"{name}: sigmas", bool(np.all((sigmas >= np.float32(sigma[0])) & (sigmas <= np.float32(sigma[1])))))
    theirs, exact = reference(floats, pair, sigmas), formula(floats, pair, sigmas)
    r.near(f"{name}: float32, the formula", out["images"][0], exact, 5e-7)
    r.near(f"{name}: the formula is torchvision's", theirs, exact, 1e-5)
    if max(pair) <= 7:
        r.close(f"{name}: float32, torchvision", out["images"][0], theirs, atol=5e-7 * floats.max())
    r.same(f"{name}: masks", out["masks"], mask)
    # bytes: what lies half way between two may be rounded either way
    ours = out["images"][1].astype(np.float64)
    off = np.max(np.abs(ours - formula(whole, pair, sigmas)))
    r.true(f"{name}: uint8", bool(off <= 0.5 + 255 * 5e-7), f"{off}")
    differ = np.mean(ours != reference(whole, pair, sigmas))
    r.true(f"{name}: uint8, nearly always torchvision's", differ < 1e-3 or differ * whole.size <= 1, f"{differ}")
    again = Stage("blur", params, [[floats], [], sigmas], order=order).forward()
    r.same(f"{name}: sigmas wired back", again["images"], out["images"][0])


for order in (ROW_MAJOR, CHANNELS_LAST):
    shapes = [(5, 3, 64, 64), (3, 1, 37, 53), (2, 4, 33, 9), (1, 3, 4, 300), (2, 11, 20, 23)]
    for shape, kernel in itertools.product(shapes, [7, 5, 3]):
        case(shape, kernel, order)
    case((65, 3, 8, 8), 7, order)
    case((2, 3, 1, 1), 1, order)
    case((2, 3, 2, 2), 3, order)
    case((2, 3, 40, 50), [9, 3], order)
    case((2, 3, 40, 50), [1, 13], order)
    case((2, 2, 32, 32), 63, order, (1.0, 20.0))
    case((1, 3, 80, 1100), [63, 21], order, (3.0, 9.0))
    case((4, 3, 40, 40), 7, order, (0.01, 0.05))
    case((4, 3, 40, 40), 7, order, (100.0, 1000.0))

x = rng.random((6, 3, 40, 40), np.float32)
plain = Stage("blur", {}, [x], training=False).forward()
r.same("outside of training: a copy", plain["images"], x)
r.true("outside of training: sigma 0", not np.any(plain["sigmas"]))
r.exit()
