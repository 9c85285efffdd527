# SPDX-License-Identifier: MIT
"""batch_crop, batch_resized_crop and batch_rotate against torchvision, with exchanged parameters: equal bits, roi_align,
resized and bilinear within 5e-7 of the largest value; bicubic windows of bytes have Pillow's bits. What
batch_resized_crop draws, against torchvision's own draws."""
import itertools
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from spstage import CHANNELS_LAST, ROW_MAJOR, Report, Stage, pillow_bicubic, torch_or_skip, torchvision_or_skip

import numpy as np

try:
    from PIL import Image
except ImportError:
    Image = None
    print("Pillow is not installed: bicubic windows are not compared")
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

    side = np.stack([rng.integers(1, h + 1, n), rng.integers(1, w + 1, n)], 1)
    corner = np.stack([rng.integers(0, h - side[:, 0] + 1), rng.integers(0, w - side[:, 1] + 1)], 1)
    box = np.concatenate([corner, side], 1).astype(np.int32)
    out = Stage("batch_resized_crop", {"size": [20, 15]}, [[x], [m], box], order=order).forward()
    want = np.stack([F.resized_crop(t[i], *(int(v) for v in box[i]), [20, 15], Bilinear, antialias=True).numpy()
                     for i in range(n)])
    if dtype == np.float32:
        r.close(f"batch_resized_crop {name}", out["images"], want, rtol=0, atol=5e-7 * np.abs(x).max())
    else:
        off = np.abs(out["images"].astype(int) - want.astype(int))
        r.true(f"batch_resized_crop {name}", off.max() <= 1 and off.mean() < 3e-2, f"{off.max()}, {off.mean()}")
    want = [F.resized_crop(torch.tensor(m[i])[None], *(int(v) for v in box[i]), [20, 15], Nearest)[0] for i in range(n)]
    r.same(f"batch_resized_crop {name}, mask", out["masks"], np.stack(want))

    if dtype == np.uint8 and Image:
        params = {"size": [20, 15], "interpolation": "bicubic"}
        out = Stage("batch_resized_crop", params, [[x], [m], box], order=order).forward()
        want = [[pillow_bicubic(Image.fromarray(p).crop((b, a, b + d, a + e)), (15, 20)) for p in x[i]]
                for i, (a, b, e, d) in enumerate(box)]
        r.same(f"batch_resized_crop {name}, bicubic", out["images"], np.array([[np.asarray(p) for p in i] for i in want]))

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

# Two samples of one distribution: the largest distance of their cumulative frequencies (Kolmogorov and Smirnov), whose
# 99.9 % point is 1.95 sqrt(2 / n).
for (h, w), scale, ratio in (((60, 90), (0.08, 1.0), (3 / 4, 4 / 3)), ((100, 30), (0.5, 1.0), (0.3, 3.0)),
                             ((64, 64), (0.9, 1.0), (1.0, 1.0))):
    n, image = 10000, torch.zeros(3, h, w, dtype=torch.uint8)
    torch.manual_seed(5)
    crop = torchvision.transforms.RandomResizedCrop
    theirs = np.array([crop.get_params(image, list(scale), list(ratio)) for _ in range(n)])
    stage = Stage("batch_resized_crop", {"size": 1, "scale": list(scale), "ratio": list(ratio)},
                  [[np.zeros((n, 1, h, w), np.uint8)], None, None], training=True)
    ours = stage.forward()["boxes"]
    ours, theirs = (np.column_stack([b, b[:, 2] * b[:, 3], b[:, 3] / b[:, 2]]) for b in (ours, theirs))
    for i, what in enumerate(("top", "left", "height", "width", "area", "ratio")):
        values = np.unique(np.concatenate([ours[:, i], theirs[:, i]]))
        below = [np.searchsorted(np.sort(b[:, i]), values, side="right") / n for b in (ours, theirs)]
        apart = np.abs(below[0] - below[1]).max()
        r.true(f"batch_resized_crop draws, {h} x {w}, {what}", apart < 1.95 * (2 / n) ** 0.5, f"{apart:.4f}")
r.exit()
