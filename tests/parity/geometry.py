# SPDX-License-Identifier: MIT
"""batch_crop and batch_rotate against torchvision, with exchanged parameters: equal bits, roi_align and bilinear within
5e-7 of the largest value."""
import itertools
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from spstage import CHANNELS_LAST, ROW_MAJOR, Report, Stage, torch_or_skip, torchvision_or_skip

import numpy as np

torch = torch_or_skip()
torchvision = torchvision_or_skip()
F = torchvision.transforms.functional
Nearest, Bilinear = (getattr(torchvision.transforms.InterpolationMode, m) for m in ("NEAREST", "BILINEAR"))
r = Report()
rng = np.random.default_rng(11)


def images(n, c, h, w, dtype):
    x = rng.integers(0, 256, (n, c, h, w)).astype(dtype)
    return x + (rng.random(x.shape).astype(np.float32) if dtype == np.float32 else 0)


SIZES = [(1, 3, 1, 1), (3, 1, 17, 5), (5, 3, 64, 64), (4, 3, 63, 90), (2, 4, 30, 31), (65, 3, 12, 12)]
for (n, c, h, w), dtype, order in itertools.product(SIZES, (np.uint8, np.float32), (ROW_MAJOR, CHANNELS_LAST)):
    x = images(n, c, h, w, dtype)
    m = rng.integers(0, 256, (n, h, w)).astype(np.uint8)
    name = f"{n} x {c} x {h} x {w} {np.dtype(dtype).name}{' channels last' if order else ''}"
    t = torch.tensor(x)

    sh, sw = (h + 1) // 2, (w + 1) // 2
    box = np.stack([rng.integers(0, h - sh + 1, n), rng.integers(0, w - sw + 1, n)], 1).astype(np.int32)
    box[0], box[-1] = 0, (h - sh, w - sw)
    out = Stage("batch_crop", {"size": [sh, sw]}, [[x], [m], box], order=order).forward()
    want = torch.stack([F.crop(t[i], int(box[i, 0]), int(box[i, 1]), sh, sw) for i in range(n)])
    r.same(f"batch_crop {name}", out["images"], want.numpy())
    r.same(f"batch_crop {name}, mask", out["masks"],
           np.stack([m[i, a:a + sh, b:b + sw] for i, (a, b) in enumerate(box)]))
    if dtype == np.float32:
        rois = torch.tensor([[i, b, a, b + sw, a + sh] for i, (a, b) in enumerate(box)], dtype=torch.float32)
        got = Stage("batch_crop", {"size": [sh, sw], "mode": "roi_align"}, [[x], None, box], order=order).forward()
        r.close(f"batch_crop roi_align {name}", got["images"],
                torchvision.ops.roi_align(t, rois, (sh, sw)).numpy(), rtol=0, atol=5e-7 * np.abs(x).max())

    angles = rng.uniform(-180, 180, n).astype(np.float32)
    angles[:4] = np.array([0, 180, 90, -90], np.float32)[:min(n, 4)]
    for fill in (0, 7):
        out = Stage("batch_rotate", {"degrees": 1, "fill": fill, "mask_fill": fill}, [[x], [m], angles], order=order).forward()
        want = torch.stack([F.rotate(t[i], float(angles[i]), Nearest, fill=[float(fill)]) for i in range(n)])
        r.same(f"batch_rotate {name} fill {fill}", out["images"], want.numpy())
        want = torch.stack([F.rotate(torch.tensor(m[i])[None], float(angles[i]), Nearest, fill=[float(fill)])[0]
                            for i in range(n)])
        r.same(f"batch_rotate {name} fill {fill}, mask", out["masks"], want.numpy())
        out = Stage("batch_rotate", {"degrees": 1, "mode": "bilinear", "fill": fill}, [[x], None, angles], order=order).forward()
        want = torch.stack([F.rotate(t[i], float(angles[i]), Bilinear, fill=[float(fill)]) for i in range(n)])
        if dtype == np.float32:
            # A place has the rounding of a number as large as the width, and torchvision computes it by a matrix product,
            # which PyTorch 2 rounds elsewhere than Debian's.
            place = 3e-8 if torch.__version__ < "2" else 1.2e-7
            r.close(f"batch_rotate bilinear {name} fill {fill}", out["images"], want.numpy(), rtol=0,
                    atol=(5e-7 + place * max(h, w)) * np.abs(x).max())
        else:
            off = np.abs(out["images"].astype(int) - want.numpy().astype(int))
            r.true(f"batch_rotate bilinear {name} fill {fill}", off.max() <= 1 and off.mean() < 3e-3, f"{off.max()}, {off.mean()}")
r.exit()
