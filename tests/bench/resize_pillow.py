#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The stage resize on the processor beside Pillow and torchvision: one thread each, in turns, of RGB bytes.

  top_builddir=build python3 tests/bench/resize_pillow.py [--turns 15] [--images 8]

Milliseconds of the processor an image, median [least .. most] of the turns. The stage runs in the harness of the tests (`make check` builds
it), so looking at guard bands is in its time. torchvision scales tensors as floats, and is left out where it is missing.
"""
import argparse
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "parity"))
from spstage import CHANNELS_LAST, Stage

import numpy as np
from PIL import Image

p = argparse.ArgumentParser()
p.add_argument("--turns", type=int, default=15)
p.add_argument("--images", type=int, default=8)
args = p.parse_args()
try:
    import torch
    from torchvision.transforms import functional as F
    torch.set_num_threads(1)
except ImportError:
    F = None
rng = np.random.default_rng(1)

for h, w, oh, ow in ((375, 500, 224, 224), (900, 1200, 288, 288), (256, 256, 224, 224), (128, 128, 256, 256)):
    x = rng.integers(0, 256, (args.images, h, w, 3)).astype(np.uint8)
    planes = np.ascontiguousarray(np.moveaxis(x, 3, 1))
    pictures = [Image.fromarray(i) for i in x]
    for how in ("bicubic", "bilinear"):
        stage = Stage("resize", {"size": [oh, ow], "interpolation": how}, [planes], order=CHANNELS_LAST, threads=1)
        stage.run()
        mode = getattr(Image, how.upper())
        ways = {"spcore": stage.again, "Pillow": lambda: [i.resize((ow, oh), mode) for i in pictures]}
        if F:
            tensor, t_mode = torch.tensor(planes), getattr(F.InterpolationMode, how.upper())
            ways["torchvision"] = lambda: F.resize(tensor, [oh, ow], t_mode, antialias=True)
        times = {name: [] for name in ways}
        for turn in range(args.turns + 1):  # the first one warms up
            for name, run in ways.items():
                begin = time.process_time()
                run()
                if turn:
                    times[name].append((time.process_time() - begin) * 1e3 / args.images)
        print(f"{h} x {w} to {oh} x {ow}, {how}: " + ", ".join(
            f"{name} {statistics.median(t):.2f} [{min(t):.2f} .. {max(t):.2f}]" for name, t in times.items()), flush=True)
