# SPDX-License-Identifier: MIT
"""color_jitter against torchvision's ColorJitter of tensors, with exchanged factors and order: bytes equal, floats too
where the mean that contrast needs is rounded once; PyTorch adds it up in floats."""
import itertools
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from spstage import CHANNELS_LAST, ROW_MAJOR, Report, Stage, torch_or_skip, torchvision_or_skip

import numpy as np

torch = torch_or_skip()
torchvision = torchvision_or_skip()
F = torchvision.transforms.functional
try:
    from torchvision.transforms import functional_tensor
except ImportError:
    print(f"skipped: torchvision {torchvision.__version__} makes other hues of bytes than 0.14.1, which is the reference")
    sys.exit(77)
r = Report()
rng = np.random.default_rng(8)
NEUTRAL = [1, 1, 1, 0]
ON = {"brightness": 0.5, "contrast": 0.5, "saturation": 0.5, "hue": 0.5}


def exact_contrast(t, by):
    """adjust_contrast with the mean as a float can have it; PyTorch's own sum is off by some of its last bits."""
    grey = (F.rgb_to_grayscale(t) if t.shape[0] == 3 else t).to(torch.float32)
    mean = grey.double().mean().float()
    return functional_tensor._blend(t, mean, by)


def theirs(x, factors, neutral=False, contrast=F.adjust_contrast):
    """As ColorJitter.forward does, which leaves an operation out that is switched off. `neutral`: does them all."""
    ops = [F.adjust_brightness, contrast, F.adjust_saturation, F.adjust_hue]
    ys = []
    for t, f in zip(torch.tensor(x), factors):
        for op in f[4:].astype(int):
            if neutral or f[op] != NEUTRAL[op]:
                t = ops[op](t, float(f[op]))
        ys.append(t)
    return torch.stack(ys).numpy()


def image(shape, dtype):
    return rng.integers(0, 256, shape).astype(np.uint8) if dtype == np.uint8 else rng.random(shape).astype(np.float32)


def table(n, which=range(4), orders=None):
    f = np.tile(np.array([1, 1, 1, 0, 0, 1, 2, 3], np.float32), (n, 1))
    for op in which:
        f[:, op] = rng.random(n) - 0.5 if op == 3 else rng.random(n) * 2
    for i in range(n):
        f[i, 4:] = orders[i % len(orders)] if orders else rng.permutation(4)
    return f


def name_of(what, shape, dtype, order):
    return f"{what} {'x'.join(map(str, shape))} {np.dtype(dtype).name}{' channels last' if order else ''}"


every = list(itertools.permutations(range(4)))
# each operation alone
for dtype, order, op in itertools.product([np.uint8, np.float32], [ROW_MAJOR, CHANNELS_LAST], range(4)):
    x, f = image((9, 3, 61, 47), dtype), table(9, [op])
    f[0, op] = 0  # no colour, grey, black; and the outermost turns of the hue
    f[1, op] = 0.5
    f[2, op] = -0.5 if op == 3 else 7.25
    out = Stage("color_jitter", {}, [x, None, f], order=order).forward()
    name = name_of(["brightness", "contrast", "saturation", "hue"][op], x.shape, dtype, order)
    if op == 1 and dtype == np.float32:
        r.close(name, out["images"], theirs(x, f), atol=5e-7)
        r.same(name + ", mean rounded once", out["images"], theirs(x, f, contrast=exact_contrast))
    else:
        r.same(name, out["images"], theirs(x, f))

# every order, many sizes
for shape, order, dtype in itertools.product(
        [(24, 3, 32, 32), (24, 3, 33, 47), (5, 3, 1, 1), (3, 3, 1, 9), (24, 1, 17, 5), (2, 3, 256, 256), (2, 3, 7, 1000)],
        [ROW_MAJOR, CHANNELS_LAST], [np.uint8, np.float32]):
    x, f = image(shape, dtype), table(shape[0], orders=every)
    st = Stage("color_jitter", {}, [x, rng.integers(0, 99, shape[:1] + shape[2:]), f], order=order)
    out = st.forward()
    name = name_of("jitter", shape, dtype, order)
    if dtype == np.uint8:
        r.same(name, out["images"], theirs(x, f))
    else:
        r.same(name, out["images"], theirs(x, f, contrast=exact_contrast))
        # with PyTorch's own mean; hue behind it multiplies its error where a colour is nearly grey
        late = np.array([list(k[4:]).index(3) > list(k[4:]).index(1) for k in f])
        want = theirs(x, f)
        r.close(name + ", PyTorch's mean", out["images"][~late], want[~late], atol=5e-7)
        r.close(name + ", PyTorch's mean, then hue", out["images"][late], want[late], atol=5e-6)
    r.same(name + ", factors", out["factors"], f)
    drawn = Stage("color_jitter", ON, [x], order=order)
    for i in range(shape[0]):
        drawn.set_id(i, i + 1)
    out = drawn.forward()
    r.same(name + ", drawn", out["images"], theirs(x, out["factors"], contrast=exact_contrast))

# floats of 0..255: what torchvision makes of the same picture in 0..1
x, f = image((24, 3, 20, 21), np.uint8), table(24, orders=every)
out = Stage("color_jitter", {"max": 255}, [x.astype(np.float32), None, f]).forward()["images"]
r.close("floats of 0..255", out / 255, theirs(x.astype(np.float32) / np.float32(255), f), atol=5e-6)

# every colour of bytes, in steps that meet 0, 255 and equal channels
v = np.array(sorted(set(range(0, 256, 5)) | {1, 254}), np.uint8)
x = np.stack(np.meshgrid(v, v, v, indexing="ij")).reshape(1, 3, len(v), -1)
for turn in (0.5, -0.5, 0.1, -1e-9, 1 / 3, 0.25):
    f = np.array([[1, 1, 1, turn, 0, 1, 2, 3]], np.float32)
    r.same(f"hue of every colour, {turn:.3g}", Stage("color_jitter", {}, [x, None, f]).forward()["images"], theirs(x, f))

# a neutral factor: left out, as torchvision does with what is switched off; doing it gives the same bits but for hue
x, f = image((4, 3, 40, 40), np.uint8), table(4, [])
ours = Stage("color_jitter", ON, [x, None, f]).forward()["images"]
r.same("neutral factors leave bytes alone", ours, x)
f[:, 3] = 0.25
f[:, :3] = 1
r.same("neutral but for hue", Stage("color_jitter", ON, [x, None, f]).forward()["images"], theirs(x, f, neutral=True))
f[:, 3] = 0
moved = np.abs(theirs(x, f, neutral=True).astype(int) - x)
r.true(f"torchvision's hue of 0 moves {np.mean(moved > 0):.1%} of bytes by {moved.max()}", moved.max() == 1)

# images whose sum of greys PyTorch's float cannot hold
x, f = rng.integers(200, 256, (2, 3, 600, 700)).astype(np.uint8), table(2, [1])
ours, want = Stage("color_jitter", {}, [x, None, f]).forward()["images"].astype(int), theirs(x, f)
r.close(f"large images, {np.mean(ours != want):.2%} of bytes differ", ours, want, atol=1)
r.exit()
