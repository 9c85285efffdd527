# SPDX-License-Identifier: MIT
"""resize against PyTorch's interpolate (with antialiasing and without), and torchvision's nearest for masks. Bicubic bytes
have Pillow's bits, and where nothing is cut off they are within 1 of torchvision's."""
import itertools
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from spstage import CHANNELS_LAST, ROW_MAJOR, Report, Stage, pillow_bicubic, torch_or_skip

import numpy as np

torch = torch_or_skip()
r = Report()
rng = np.random.default_rng(7)
SIZES = [(128, 128, 256, 256), (256, 256, 128, 128), (13, 17, 29, 31), (29, 31, 13, 17), (40, 9, 7, 33), (9, 40, 33, 7),
         (1, 1, 5, 4), (5, 4, 1, 1), (1, 7, 7, 1), (375, 500, 224, 224), (500, 333, 256, 256), (600, 40, 9, 80),
         (64, 64, 64, 64), (2, 3, 200, 301), (97, 101, 96, 103)]


def interpolate(x, size, antialias, mode="bilinear"):
    y = torch.nn.functional.interpolate(torch.tensor(x), size=size, mode=mode, align_corners=False, antialias=antialias)
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

# Floats: PyTorch in double, since what is left of a weight in float is a place as far from the edge as the side is long.
for (h, w, oh, ow), order in itertools.product(SIZES, [ROW_MAJOR, CHANNELS_LAST]):
    c = 1 + (h + w) % 4
    x = rng.standard_normal((2, c, h, w)).astype(np.float32)
    y = Stage("resize", {"size": [oh, ow], "interpolation": "bicubic"}, [x], order=order).forward()["images"]
    r.close(f"{h} x {w} x {c} to {oh} x {ow}{', channels last' if order else ''}, bicubic, float", y,
            interpolate(x.astype(np.float64), (oh, ow), True, "bicubic"), atol=5e-7 * np.abs(x).max())

try:
    from PIL import Image
except ImportError:
    Image = None
    print("Pillow is not installed: bicubic bytes are not compared with its")
# Sides of 1 to 300, as many small as large ones; noise, and black and white, whose overshoot is cut off.
differ, cases, kinds = [], 0, ("noise", "black and white")
for i in range(600 if Image else 0):
    h, w, oh, ow = (int(v) for v in np.exp(rng.uniform(0, np.log(301), 4)))
    x = rng.integers(0, 256, (1, 1 + i % 4, h, w)).astype(np.uint8)
    if i % 3 == 0:
        x = np.where(x < 128, 0, 255).astype(np.uint8)
    y = Stage("resize", {"size": [oh, ow], "interpolation": "bicubic"}, [x],
              order=(ROW_MAJOR, CHANNELS_LAST)[i % 2]).forward()["images"]
    want = np.stack([np.asarray(pillow_bicubic(Image.fromarray(p), (ow, oh))) for p in x[0]])
    cases += 1
    if not np.array_equal(y[0], want):
        differ.append(f"{kinds[i % 3 == 0]} {h} x {w} to {oh} x {ow}: {(y[0] != want).sum()}")
r.true(f"bicubic bytes of {cases} sizes, Pillow's bits", not differ, "; ".join(differ[:5]))

try:
    from torchvision.transforms import functional as F
except ImportError:
    print("torchvision is not installed: masks are not compared")
    r.exit()
# What is beyond a byte Pillow cuts off behind either axis, torchvision once: of grey nothing is.
for h, w, oh, ow in SIZES:
    b = rng.integers(96, 160, (1, 3, h, w)).astype(np.uint8)
    y = Stage("resize", {"size": [oh, ow], "interpolation": "bicubic"}, [b]).forward()["images"]
    theirs = F.resize(torch.tensor(b), [oh, ow], F.InterpolationMode.BICUBIC, antialias=True).numpy()
    off = np.abs(y.astype(int) - theirs.astype(int))
    r.true(f"{h} x {w} to {oh} x {ow}, bicubic bytes, torchvision", off.max() <= 1,
           f"{off.max()}, {off.mean():.3f}")
sides = [(a, b) for a in (1, 2, 3, 5, 7, 10, 13, 31, 64, 100, 333, 500) for b in (1, 2, 3, 6, 9, 29, 64, 97, 224, 1000)]
for (h, oh), dtype in itertools.product(sides, [np.uint8, np.int32, np.int64]):
    w, ow = h // 2 + 1, oh + 3
    m = rng.integers(0, 200, (2, h, w)).astype(dtype)
    y = Stage("resize", {"size": [oh, ow]}, [np.zeros((2, 1, h, w), np.uint8), m]).forward()["masks"]
    theirs = F.resize(torch.tensor(m), [oh, ow], F.InterpolationMode.NEAREST).numpy()
    r.same(f"mask {h} x {w} to {oh} x {ow}, {np.dtype(dtype).name}", y, theirs)
r.exit()
