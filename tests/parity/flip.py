# SPDX-License-Identifier: MIT
"""flip against torchvision: equal bits."""
import itertools
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from spstage import CHANNELS_LAST, ROW_MAJOR, Report, Stage, torch_or_skip

import numpy as np

torch = torch_or_skip()
try:
    from torchvision.transforms import functional as F
except ImportError:
    print("skipped: torchvision is not installed (Debian: apt install python3-torchvision)")
    sys.exit(77)
r = Report()
rng = np.random.default_rng(3)
for (n, c, h, w), order, dtype in itertools.product([(4, 3, 33, 47), (4, 1, 1, 1), (5, 4, 64, 48), (1, 3, 7, 1)],
                                                    [ROW_MAJOR, CHANNELS_LAST], [np.uint8, np.float32]):
    x = (rng.random((n, c, h, w)) * 256).astype(dtype)
    mask = rng.integers(0, 1 << 40, (n, h, w))
    flips = np.array([[i & 1, i >> 1 & 1] for i in range(n)], np.int32)
    out = Stage("flip", {}, [x, mask, flips], order=order).forward()

    def theirs(a):
        ys = []
        for t, f in zip(torch.tensor(a), flips):
            t = F.hflip(t) if f[0] else t
            ys.append(F.vflip(t) if f[1] else t)
        return torch.stack(ys).numpy()

    name = f"flip {n}x{c}x{h}x{w} {np.dtype(dtype).name}{' channels last' if order else ''}"
    r.same(name, out["images"], theirs(x))
    r.same(name + ", mask", out["masks"], theirs(mask))
    r.same(name + ", flips", out["flips"], flips)
r.exit()
