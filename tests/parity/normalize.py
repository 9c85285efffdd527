# SPDX-License-Identifier: MIT
"""normalize against torchvision: the same bits."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from spstage import CHANNELS_LAST, ROW_MAJOR, Report, Stage, torch_or_skip

import numpy as np

torch = torch_or_skip()
try:
    from torchvision.transforms.functional import normalize
except ImportError:
    print("skipped: torchvision is not installed (Debian: apt install python3-torchvision)")
    sys.exit(77)
r = Report()
rng = np.random.default_rng(3)


def reference(x, mean, std):
    return normalize(torch.tensor(x), mean, std).numpy()


def case(shape, mean, std, order):
    name = f"{shape} mean {mean[:3]} std {std[:3]}{' channels last' if order else ''}"
    floats = (rng.random(shape, np.float32) - 0.25) * 3
    whole = rng.integers(0, 256, shape, np.uint8)
    params = {"mean": mean if len(mean) > 1 else mean[0], "std": std if len(std) > 1 else std[0]}
    out = Stage("normalize", params, [[floats, whole]], order=order).forward()["images"]
    r.same(f"{name}: float32", out[0], reference(floats, mean, std))
    r.same(f"{name}: uint8", out[1], reference(whole.astype(np.float32), mean, std))
    scaled = Stage("normalize", {**params, "scale": True}, [[whole]], order=order).forward()["images"]
    r.same(f"{name}: uint8, scaled", scaled, reference(whole.astype(np.float32) * np.float32(1 / 255), mean, std))


imagenet = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
for order in (ROW_MAJOR, CHANNELS_LAST):
    for shape in [(1, 3, 1, 1), (5, 3, 33, 29), (65, 3, 8, 8), (2, 3, 224, 200), (1, 3, 2, 1000)]:
        case(shape, *imagenet, order)
        case(shape, [0.45], [0.225], order)
        case(shape, [0.0], [1.0], order)
        case(shape, [0.45], imagenet[1], order)
        case(shape, imagenet[0], [0.3], order)
    case((3, 1, 9, 11), [0.1307], [0.3081], order)
    case((2, 256, 9, 11), [0.01 * i for i in range(256)], [0.1 + 0.01 * i for i in range(256)], order)
    case((2, 3, 9, 11), [1e-30, 1e30, -4.0], [1e-30, 1e30, 3e-39], order)
r.exit()
