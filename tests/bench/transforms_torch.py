# SPDX-License-Identifier: MIT
"""The stages that change images beside torchvision's transforms v2 on the same batch, on the processor: both with two
threads, in turns in one process, every sample changed.

    top_builddir=$PWD python3 -B SRC/tests/bench/transforms_torch.py [--batch 32] [--size 224] [--turns 7]
                                                                     [--only NAME,...] [--clock]

torchvision runs twice: image by image, which gives each sample draws of its own, as the stages do, and on the whole
batch with one draw for all, where it can. What it has for one type alone is done by way of that. `copy` reads and
writes as many bytes, into memory that is there: an operation that only moves bytes cannot be much faster. Times are
seconds of processors, of all threads of the process, since the clock says little on a machine that others use; --clock
shows both. torchvision without v2 or without an operation: "-".
"""
import argparse
import os
import statistics
import sys
import time

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # threads that wait use no processor, which would count
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "parity"))
from spstage import CHANNELS_LAST, ROW_MAJOR, Stage, torch_or_skip, torchvision_or_skip

import numpy as np

torch, torchvision = torch_or_skip(), torchvision_or_skip()
try:
    from torchvision.transforms import v2
except ImportError:
    v2 = None
    old = torchvision.transforms
T = v2 or old
torch.set_num_threads(2)
NEAREST, BILINEAR = T.InterpolationMode.NEAREST, T.InterpolationMode.BILINEAR
MOVES = {"degrees": 30, "translate": 0.1, "scale": [0.8, 1.2], "shear": 10}
BYTES, FLOATS = np.uint8, np.float32


def of_v2(name, *args, **kw):
    """A transform of v2, or None."""
    return getattr(v2, name)(*args, **kw) if hasattr(v2, name) else None


def gamma():
    """torchvision has the function alone."""
    F = T.functional
    return lambda x: F.adjust_gamma(x, 0.7 + 0.8 * torch.rand(()).item())


def drop(x):
    """torchvision has none; what a user writes."""
    y = x.clone()
    y[..., torch.randint(0, 3, ()).item(), :, :] = 0
    return y


def by_way_of(dtype, other, transform):
    """In another type, and back."""
    if not transform or dtype == other:
        return transform
    to = [torch.from_numpy(np.zeros(0, d)).dtype for d in (other, dtype)]
    return v2.Compose([v2.ToDtype(to[0], scale=True), transform, v2.ToDtype(to[1], scale=True)])


def cases(dtype):
    P = {"p": 1}
    yield "affine nearest", "affine", MOVES, T.RandomAffine(30, (0.1, 0.1), (0.8, 1.2), 10, NEAREST)
    yield "affine bilinear", "affine", {**MOVES, "mode": "bilinear"}, T.RandomAffine(30, (0.1, 0.1), (0.8, 1.2), 10,
                                                                                    BILINEAR)
    yield "perspective nearest", "perspective", {**P, "mode": "nearest"}, T.RandomPerspective(p=1,
                                                                                             interpolation=NEAREST)
    yield "perspective bilinear", "perspective", P, T.RandomPerspective(p=1)
    yield "elastic", "elastic", {}, T.ElasticTransform()
    yield "erase", "erase", P, T.RandomErasing(1)
    yield "erase noise", "erase", {**P, "noise": 1}, T.RandomErasing(1, value="random")
    yield "solarize", "solarize", P, T.RandomSolarize(128 if dtype == BYTES else 0.5, 1)
    yield "posterize", "posterize", P, T.RandomPosterize(4, 1)
    yield "invert", "invert", P, T.RandomInvert(1)
    yield "gamma", "gamma", P, gamma()
    yield "autocontrast", "autocontrast", P, T.RandomAutocontrast(1)
    yield "equalize", "equalize", P, T.RandomEqualize(1)
    yield "grey", "grey", P, T.RandomGrayscale(1)
    yield "channel_drop", "channel_drop", P, drop
    yield "sharpness", "sharpness", P, T.RandomAdjustSharpness(2, 1)
    yield "gaussian_noise", "gaussian_noise", P, by_way_of(dtype, FLOATS, of_v2("GaussianNoise"))
    yield "jpeg_noise", "jpeg_noise", P, by_way_of(dtype, BYTES, of_v2("JPEG", (25, 100)))
    yield "rand_augment", "rand_augment", {}, T.RandAugment()
    yield "trivial_augment", "trivial_augment", {}, T.TrivialAugmentWide()
    jitter = {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1}
    yield "color_jitter", "color_jitter", jitter, T.ColorJitter(**jitter)


def timed(run, calls):
    clock, used = time.perf_counter(), time.process_time()
    for _ in range(calls):
        run()
    return [(time.process_time() - used) * 1e3 / calls, (time.perf_counter() - clock) * 1e3 / calls]


def calls_of(run):
    """As many as take 30 ms of processors; 0: it fails."""
    try:
        run()
    except Exception:
        return 0
    return max(1, min(100, round(30 / max(timed(run, 1)[0], 0.01))))


def words(times, k):
    """median [least .. most]"""
    if not times:
        return f"{'-':>26s}"
    t = sorted(x[k] for x in times)
    return f"{statistics.median(t):9.2f} [{t[0]:.2f} .. {t[-1]:.2f}]".ljust(26)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("batch", 32), ("size", 224), ("turns", 7)):
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--only", default="", help="names with commas")
    p.add_argument("--clock", action="store_true")
    o = p.parse_args()
    only = [name for name in o.only.split(",") if name]
    print(f"{o.batch} images of 3 x {o.size} x {o.size}; PyTorch {torch.__version__}, torchvision "
          f"{torchvision.__version__} ({'v2' if v2 else 'no v2'});"
          f" ms of processors, median [least .. most] of {o.turns}")
    heads = "".join(f"{head:27s}" for head in ("ours", "torchvision, each image", "torchvision, whole batch", "copy"))
    print(f"{'':42s}{heads}ours is faster")
    for dtype in (BYTES, FLOATS):
        x = np.random.default_rng(0).integers(0, 256, (o.batch, 3, o.size, o.size))
        x = x.astype(BYTES) if dtype == BYTES else (x / 255).astype(FLOATS)
        for order in (ROW_MAJOR, CHANNELS_LAST):
            t = torch.tensor(x).to(memory_format=torch.channels_last if order else torch.contiguous_format)
            to = t.clone()
            for name, stage_name, params, theirs in cases(dtype):
                if only and stage_name not in only:
                    continue
                stage = Stage(stage_name, params, [[x], None, None], order=order)
                stage.run()
                runs = [stage.again, lambda: [theirs(image) for image in t], lambda: theirs(t), lambda: to.copy_(t)]
                calls = [calls_of(run) for run in runs]
                times = [[] for _ in runs]
                for _ in range(o.turns):
                    for k, run in enumerate(runs):
                        if calls[k]:
                            times[k].append(timed(run, calls[k]))
                mid = [statistics.median(v[0] for v in one) if one else 0 for one in times]
                gain = " ".join(f"{mid[k] / mid[0]:6.1f} x" if mid[k] else f"{'-':>8s}" for k in (1, 2, 3))
                where = f"{name:22s} {np.dtype(dtype).name:8s}{'last' if order else 'rows':5s}"
                print(f"{where}      {' '.join(words(one, 0) for one in times)} {gain}", flush=True)
                if o.clock:
                    print(f"{'':36s}clock {' '.join(words(one, 1) for one in times)}", flush=True)


if __name__ == "__main__":
    main()
