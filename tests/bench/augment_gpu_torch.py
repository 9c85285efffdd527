# SPDX-License-Identifier: MIT
"""What bench_augment times, on a GPU by PyTorch: torchvision's transforms v2 of a whole batch, where one draw serves all
samples, and of one sample after another, each with a draw of its own; and kornia, where it is installed, which draws for
each sample of a batch of floats. The stages of spcore draw for each sample.

    python3 -B tests/bench/augment_gpu_torch.py [BATCH [SIZE [TURNS]]]
"""
import statistics
import sys

import torch
import torchvision
from torchvision.transforms import v2

try:
    from kornia import augmentation as K
except ImportError:
    K = None

BATCH, SIZE, TURNS = (int(sys.argv[i]) if len(sys.argv) > i else d for i, d in ((1, 32), (2, 256), (3, 7)))
NEAREST, BILINEAR = v2.InterpolationMode.NEAREST, v2.InterpolationMode.BILINEAR
MOVES = {"degrees": 30, "translate": (0.1, 0.1), "scale": (0.8, 1.2), "shear": 10}
CASES = [  # stage, torchvision, kornia
    ("affine, nearest", v2.RandomAffine(**MOVES, interpolation=NEAREST),
     lambda: K.RandomAffine(**MOVES, resample="nearest", p=1)),
    ("affine, bilinear", v2.RandomAffine(**MOVES, interpolation=BILINEAR), lambda: K.RandomAffine(**MOVES, p=1)),
    ("perspective, bilinear", v2.RandomPerspective(p=1), lambda: K.RandomPerspective(p=1)),
    ("elastic, sigma 3", v2.ElasticTransform(sigma=3.0),
     lambda: K.RandomElasticTransform((25, 25), (3.0, 3.0), (0.2, 0.2), p=1)),
    ("erase, a value", v2.RandomErasing(1), lambda: K.RandomErasing(p=1)),
    ("erase, noise", v2.RandomErasing(1, value="random"), None),
    ("solarize", v2.RandomSolarize(0.5, 1), lambda: K.RandomSolarize(0.1, 0.0, p=1)),
    ("posterize", v2.RandomPosterize(4, 1), lambda: K.RandomPosterize((4, 8), p=1)),
    ("invert", v2.RandomInvert(1), lambda: K.RandomInvert(p=1)),
    ("gamma", lambda x: v2.functional.adjust_gamma(x, 1.3), lambda: K.RandomGamma((0.7, 1.5), p=1)),
    ("autocontrast", v2.RandomAutocontrast(1), lambda: K.RandomAutoContrast(p=1)),
    ("equalize", v2.RandomEqualize(1), lambda: K.RandomEqualize(p=1)),
    ("grey", v2.RandomGrayscale(1), lambda: K.RandomGrayscale(p=1)),
    ("channel_drop", None, lambda: K.RandomChannelDropout(p=1)),
    ("sharpness", v2.RandomAdjustSharpness(1.5, 1), lambda: K.RandomSharpness((0.2, 1.8), p=1)),
    ("gaussian_noise", v2.GaussianNoise(), lambda: K.RandomGaussianNoise(std=0.1, p=1)),
    ("jpeg_noise", v2.JPEG((25, 95)), lambda: K.RandomJPEG((25.0, 95.0), p=1)),
    ("rand_augment", v2.RandAugment(), lambda: K.auto.RandAugment(2, 9)),
    ("trivial_augment", v2.TrivialAugmentWide(), lambda: K.auto.TrivialAugment()),
]


def us(run, calls):
    since, till = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    run()
    times = []
    for _ in range(TURNS):
        since.record()
        for _ in range(calls):
            run()
        till.record()
        till.synchronize()
        times.append(since.elapsed_time(till) * 1e3 / calls)
    return times


def cell(run, calls):
    if run is None:
        return f"{'-':>32s}"
    try:
        t = us(run, calls)
    except Exception as e:  # it does not take such numbers
        return f"{type(e).__name__:>32s}"
    return f"{statistics.median(t):9.1f} [{min(t):8.1f} .. {max(t):8.1f}]"


torch.manual_seed(0)
if K:
    import kornia
print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, torchvision {torchvision.__version__}, kornia "
      f"{kornia.__version__ if K else 'not installed'}; {BATCH} images of 3 x {SIZE} x {SIZE}")
print("us a batch, median [least .. most]: torchvision with one draw for all, with one a sample; kornia")
for dtype in (torch.uint8, torch.float32):
    x = torch.randint(0, 256, (BATCH, 3, SIZE, SIZE), device="cuda", dtype=torch.uint8)
    x = x if dtype is torch.uint8 else x.float() / 255
    for form in (torch.contiguous_format, torch.channels_last):
        x = x.contiguous(memory_format=form)
        kind = f"{str(dtype)[6:]}, {'channels last' if form is torch.channels_last else 'row-major'}"
        print(f"{'copy':22s} {kind:24s} {cell(x.clone, 100)}")
        for name, op, theirs in CASES:
            their_op = theirs() if theirs and K and dtype is torch.float32 else None
            once = op and (lambda: op(x))
            each = op and (lambda: torch.stack([op(i) for i in x]))
            per_sample = their_op and (lambda: their_op(x))
            print(f"{name:22s} {kind:24s} {cell(once, 20)} {cell(each, 2)} {cell(per_sample, 5)}", flush=True)
