# SPDX-License-Identifier: MIT
"""affine, perspective, elastic and erase beside torchvision's transforms on the same batch, on the processor: both with two
threads, in turns, the least of some runs. Seconds of processors stand beside those of the clock, since on a busy machine
the latter say little. A copy of the batch shows what moving its bytes takes.

    top_builddir=$PWD python3 -B SRC/tests/bench/warp_torch.py [BATCH [SIZE [TURNS]]]
"""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "parity"))
from spstage import CHANNELS_LAST, ROW_MAJOR, Stage, torch_or_skip, torchvision_or_skip

import numpy as np

torch, T = torch_or_skip(), torchvision_or_skip().transforms
torch.set_num_threads(2)
BATCH, SIZE, TURNS = (int(sys.argv[i]) if len(sys.argv) > i else d for i, d in ((1, 32), (2, 224), (3, 3)))
NEAREST, BILINEAR = T.InterpolationMode.NEAREST, T.InterpolationMode.BILINEAR
moves = {"degrees": 30, "translate": 0.1, "scale": [0.8, 1.2], "shear": 10}
CASES = [
    ("affine", {**moves, "mode": "nearest"}, T.RandomAffine(30, (0.1, 0.1), (0.8, 1.2), 10, NEAREST)),
    ("affine", {**moves, "mode": "bilinear"}, T.RandomAffine(30, (0.1, 0.1), (0.8, 1.2), 10, BILINEAR)),
    ("perspective", {"p": 1, "mode": "nearest"}, T.RandomPerspective(p=1, interpolation=NEAREST)),
    ("perspective", {"p": 1}, T.RandomPerspective(p=1)),
    ("elastic", {}, T.ElasticTransform()),
    ("erase", {"p": 1}, T.RandomErasing(1)),
    ("erase", {"p": 1, "noise": 1}, T.RandomErasing(1, value="random")),
]


def timed(run):
    clock, used = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - clock, time.process_time() - used


def least(*runs):
    """Of each, over turns: the least milliseconds of the clock, and of processors."""
    times = [[timed(run) for run in runs] for turn in range(TURNS + 1)][1:]
    return [[1e3 * min(turn[i][k] for turn in times) for k in (0, 1)] for i in range(len(runs))]


print(f"{BATCH} images of 3 x {SIZE} x {SIZE}; ms of the clock, of processors: ours, torchvision {T.__name__}, a copy")
for dtype in (np.uint8, np.float32):
    x = np.random.default_rng(0).integers(0, 256, (BATCH, 3, SIZE, SIZE)).astype(dtype)
    for order in (ROW_MAJOR, CHANNELS_LAST):
        form = torch.channels_last if order else torch.contiguous_format
        t = torch.tensor(x).to(memory_format=form)
        for name, params, theirs in CASES:
            stage = Stage(name, params, [[x], None, None], order=order)
            ours, other, copy = least(stage.run, lambda: [theirs(image) for image in t], t.clone)
            what = f"{name} {params.get('mode', '') or ('noise' if 'noise' in params else '')}"
            print(f"{what:22s} {np.dtype(dtype).name:8s} {'channels last' if order else 'row-major':14s}"
                  f"{ours[0]:9.2f} {ours[1]:9.2f} {other[0]:9.1f} {other[1]:9.1f} {copy[0]:7.2f} {copy[1]:7.2f}"
                  f"   {other[0] / ours[0]:6.1f} x, {other[1] / ours[1]:6.1f} x", flush=True)
