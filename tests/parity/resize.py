# SPDX-License-Identifier: MIT
"""resize against PyTorch's interpolate (with antialiasing and without), and torchvision's nearest for masks."""
import itertools
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from spstage import CHANNELS_LAST, ROW_MAJOR, Report, Stage, torch_or_skip

import numpy as np

torch = torch_or_skip()
r = Report()
rng = np.random.default_rng(7)
SIZES = [(128, 128, 256, 256), (256, 256, 128, 128), (13, 17, 29, 31), (29, 31, 13, 17), (40, 9, 7, 33), (9, 40, 33, 7),
         (1, 1, 5, 4), (5, 4, 1, 1), (1, 7, 7, 1), (375, 500, 224, 224), (500, 333, 256, 256), (600, 40, 9, 80),
         (64, 64, 64, 64), (2, 3, 200, 301), (97, 101, 96, 103)]


def interpolate(x, size, antialias):
    y = torch.nn.functional.interpolate(torch.tensor(x), size=size, mode="bilinear", align_corners=False,
                                        antialias=antialias)
    return y.numpy()


for (h, w, oh, ow), order, antialias in itertools.product(SIZES, [ROW_MAJOR, CHANNELS_LAST], [True, False]):
    c = 1 + (h + w) % 4
    name = f"{h} x {w} x {c} to {oh} x {ow}{', channels last' if order else ''}{'' if antialias else ', plain'}"
    params = {"size": [oh, ow], "antialias": antialias}
    # Without antialiasing PyTorch 2 rounds places elsewhere than Debian's: two roundings of a number as large as the side.
    place = 0 if antialias or torch.__version__ < "2" else 1.2e-7 * max(h, w)
    x = rng.standard_normal((2, c, h, w)).astype(np.float32)
    y = Stage("resize", params, [x], order=order).forward()["images"]
    # of the largest value, which is that of the input: what is left of a large reduction is small
    r.close(f"{name}, float", y, interpolate(x, (oh, ow), antialias), atol=(5e-7 + place) * np.abs(x).max())
    b = rng.integers(0, 256, (2, c, h, w)).astype(np.uint8)
    y = Stage("resize", params, [b], order=order).forward()["images"]
    wanted = interpolate(b.astype(np.float32), (oh, ow), antialias)
    theirs = np.rint(wanted).astype(np.uint8)
    far = np.abs(wanted - np.floor(wanted) - 0.5) > (5e-7 + place) * 255
    off = np.abs(y.astype(int) - theirs.astype(int))
    r.true(f"{name}, bytes", not off[far].any() and off.max() <= 1, f"{(off[far] > 0).sum()} differ, by {off.max()}")

try:
    from torchvision.transforms import functional as F
except ImportError:
    print("torchvision is not installed: masks are not compared")
    r.exit()
sides = [(a, b) for a in (1, 2, 3, 5, 7, 10, 13, 31, 64, 100, 333, 500) for b in (1, 2, 3, 6, 9, 29, 64, 97, 224, 1000)]
for (h, oh), dtype in itertools.product(sides, [np.uint8, np.int32, np.int64]):
    w, ow = h // 2 + 1, oh + 3
    m = rng.integers(0, 200, (2, h, w)).astype(dtype)
    y = Stage("resize", {"size": [oh, ow]}, [np.zeros((2, 1, h, w), np.uint8), m]).forward()["masks"]
    theirs = F.resize(torch.tensor(m), [oh, ow], F.InterpolationMode.NEAREST).numpy()
    r.same(f"mask {h} x {w} to {oh} x {ow}, {np.dtype(dtype).name}", y, theirs)
r.exit()
