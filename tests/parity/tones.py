# SPDX-License-Identifier: MIT
"""The stages of plugins/modules/tones beside torchvision: operations on the same images with the same numbers, JPEG
beside torchvision's encoder and decoder, draws by their distribution; RandAugment and TrivialAugment operation by
operation."""
import itertools
import math
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from spstage import CHANNELS_LAST, ROW_MAJOR, Report, Stage, torch_or_skip, torchvision_or_skip

import numpy as np

torch = torch_or_skip()
torchvision = torchvision_or_skip()
F = torchvision.transforms.functional
r = Report()
rng = np.random.default_rng(11)
SHAPES = [(6, 3, 33, 47), (5, 1, 16, 64), (4, 3, 1, 1), (4, 3, 3, 2), (4, 3, 2, 9), (3, 3, 64, 64)]


def image(shape, dtype=np.uint8):
    """Noise over a slope, so that there are dark and bright images and a channel without a value of its own."""
    n, c, h, w = shape
    x = rng.integers(0, 256, shape) // rng.integers(1, 5, (n, c, 1, 1)) + rng.integers(0, 60, (n, c, 1, 1))
    x[0, 0] = 77
    x = np.minimum(x, 255)
    return x.astype(np.uint8) if dtype == np.uint8 else (x / 255).astype(np.float32)


def each(x, by, op):
    return torch.stack([op(t, float(b)) for t, b in zip(torch.tensor(x), by)]).numpy()


def ours(name, params, x, by, order=ROW_MAJOR):
    changes = np.stack([np.ones(len(by)), by], 1).astype(np.float32)
    return Stage(name, params, [x, None, changes], order=order).forward()["images"]


def compare(name, got, want, exact=True):
    if exact:
        r.same(name, got, want)
    else:
        d = np.abs(got.astype(float) - want)
        r.true(f"{name}: {np.mean(d > 0):.3%} differ, by {d.max() if d.size else 0:.2g}",
               d.max(initial=0) <= 1 and np.mean(d > 0) < 0.01 if got.dtype == np.uint8 else d.max(initial=0) <= 2e-6)


def posterize_floats(t, bits):  # torchvision 0.15 and later take floats, too
    levels = 1 << int(bits)
    return (t * levels).floor().clamp(0, levels - 1) * (1.0 / levels)


def equalize_floats(t, _):
    return F.convert_image_dtype(F.equalize(F.convert_image_dtype(t, torch.uint8)), torch.float32)


OPS = {  # stage: numbers, torchvision on bytes, on floats, whether bytes and floats are equal to the bit
    "solarize": ([0, 0.2, 128 / 255, 0.77, 1], lambda t, b: F.solarize(t, round(b * 255, 4)), F.solarize, True, True),
    "posterize": ([0, 1, 3, 4, 7, 8], lambda t, b: F.posterize(t, int(b)), posterize_floats, True, False),
    "invert": ([0], lambda t, b: F.invert(t), lambda t, b: F.invert(t), True, True),
    "gamma": ([0, 0.3, 0.7, 1, 1.5, 2.2, 5], F.adjust_gamma, F.adjust_gamma, False, False),
    "autocontrast": ([0], lambda t, b: F.autocontrast(t), lambda t, b: F.autocontrast(t), True, True),
    "equalize": ([0], lambda t, b: F.equalize(t), equalize_floats, True, False),
    "grey": ([0], lambda t, b: F.rgb_to_grayscale(t, t.shape[0]) if t.shape[0] == 3 else t,
             lambda t, b: F.rgb_to_grayscale(t, t.shape[0]) if t.shape[0] == 3 else t, True, True),
    "sharpness": ([0, 0.5, 1, 2, 9.5], F.adjust_sharpness, F.adjust_sharpness, False, False),
}
for (stage, (numbers, on_bytes, on_floats, exact, exact_floats)), shape, order, dtype in itertools.product(
        OPS.items(), SHAPES, [ROW_MAJOR, CHANNELS_LAST], [np.uint8, np.float32]):
    x = image(shape, dtype)
    by = np.resize(np.array(numbers, np.float32), shape[0])
    got = ours(stage, {}, x, by, order)
    compare(f"{stage} {'x'.join(map(str, shape))} {np.dtype(dtype).name}{' channels last' if order else ''}", got,
            each(x, by, on_bytes if dtype == np.uint8 else on_floats), exact if dtype == np.uint8 else exact_floats)

# floats of 0..255 are those of 0..1, times 255
for stage, (numbers, *_) in OPS.items():
    x = image((5, 3, 20, 30), np.float32)
    by = np.resize(np.array(numbers, np.float32), 5)
    one, wide = ours(stage, {}, x, by), ours(stage, {} if stage == "grey" else {"max": 255}, x * 255, by)
    r.true(f"{stage}, max = 255: {np.mean(np.abs(one - wide / 255) > 2e-6):.3%} differ",
           np.mean(np.abs(one - wide / 255) > 2e-6) < 0.001)

# every number of every byte
every = np.arange(256, dtype=np.uint8).reshape(1, 1, 16, 16)
for g in np.linspace(0.2, 4, 20, dtype=np.float32):
    got, want = ours("gamma", {}, every, [g]).astype(int), F.adjust_gamma(torch.tensor(every), float(g)).numpy()
    r.true(f"gamma {g:.2f} of every byte", np.abs(got - want).max() <= 1 and np.sum(got != want) <= 1)
for t in range(256):
    if not np.array_equal(ours("solarize", {}, every, [t / 255]), F.solarize(torch.tensor(every), t).numpy()):
        r.true(f"solarize from {t}", False)

# JPEG: what an encoder and a decoder make of it
try:
    from torchvision.io import ImageReadMode, decode_jpeg, encode_jpeg

    encode_jpeg(torch.zeros(3, 8, 8, dtype=torch.uint8))
except Exception as e:  # built without
    print(f"     JPEG left out: {str(e).splitlines()[0]}")
else:
    base = torch.nn.functional.interpolate(torch.rand(3, 3, 9, 11), (120, 150), mode="bicubic")
    base = base.clamp(0, 1).mul(255).byte()
    sizes = [(3, 3, 120, 150), (3, 1, 33, 47), (2, 3, 1, 1), (2, 3, 16, 16), (3, 3, 17, 35), (3, 3, 7, 3), (2, 3, 5, 4),
             (2, 3, 50, 65), (1, 3, 1, 300)]
    for shape, order in itertools.product(sizes, [ROW_MAJOR, CHANNELS_LAST]):
        n, c, h, w = shape
        x = base[:n, :c, :h, :w].numpy() if h <= 120 and w <= 150 else image(shape)
        for quality in (1, 10, 25, 49, 50, 75, 92, 100):
            got = ours("jpeg_noise", {}, x, [quality] * n, order)
            mode = ImageReadMode.GRAY if c == 1 else ImageReadMode.RGB
            want = np.stack([decode_jpeg(encode_jpeg(torch.tensor(v), quality), mode).numpy() for v in x])
            r.same(f"jpeg {'x'.join(map(str, shape))} quality {quality}{' channels last' if order else ''}", got, want)
    noise = image((2, 3, 64, 48))
    for quality in (1, 50, 100):
        want = np.stack([decode_jpeg(encode_jpeg(torch.tensor(v), quality)).numpy() for v in noise])
        compare(f"jpeg of noise, quality {quality}", ours("jpeg_noise", {}, noise, [quality] * 2), want, False)
        floats = ours("jpeg_noise", {}, (noise / np.float32(255)).astype(np.float32), [quality] * 2)
        compare(f"jpeg of floats, quality {quality}", np.rint(floats * 255).astype(np.uint8), want, False)

# ---- noise: moments, tails, and no tie between neighbours, channels and samples ----
x = np.full((8, 3, 128, 128), 0.5, np.float32)
st = Stage("gaussian_noise", {"sigma": 0.1, "mean": 0.02, "clip": False}, [x])
for i in range(8):
    st.set_id(i, i + 5)
z = (st.forward()["images"].astype(np.float64) - 0.52) / 0.1
n = z.size
r.true(f"noise: mean {z.mean():.4f}", abs(z.mean()) < 4 / math.sqrt(n))
r.true(f"noise: variance {z.var():.4f}", abs(z.var() - 1) < 5 * math.sqrt(2 / n))
r.true(f"noise: skewness {np.mean(z ** 3):.4f}", abs(np.mean(z ** 3)) < 5 * math.sqrt(15 / n))
r.true(f"noise: kurtosis {np.mean(z ** 4):.4f}", abs(np.mean(z ** 4) - 3) < 5 * math.sqrt(96 / n))
for edge in (0.5, 1, 2, 3, 4):
    p = math.erfc(edge / math.sqrt(2))
    r.true(f"noise beyond {edge} sigma", abs(np.sum(np.abs(z) > edge) - n * p) < 5 * math.sqrt(n * p) + 1)
for name, pair in {"columns": (z[..., 1:], z[..., :-1]), "two columns": (z[..., 2:], z[..., :-2]),
                   "rows": (z[:, :, 1:], z[:, :, :-1]), "channels": (z[:, 1:], z[:, :-1]),
                   "samples": (z[1:], z[:-1])}.items():
    r.true(f"noise: {name} are independent", abs(np.mean(pair[0] * pair[1])) < 5 / math.sqrt(pair[0].size))
x = np.full((2, 3, 64, 64), 128, np.uint8)
z = Stage("gaussian_noise", {"sigma": 0.05}, [x]).forward()["images"].astype(float) - 128
r.true(f"noise of bytes: deviation {z.std():.3f} of {0.05 * 255:.3f}",
       abs(z.std() - 0.05 * 255) < 0.3 and abs(z.mean()) < 0.4)


# ---- the drawn ones ----
def drawn(name, params, n, shape=(3, 8, 8), seed=1):
    st = Stage(name, params, [np.zeros((n,) + shape, np.uint8)], seed=seed)
    for i in range(n):
        st.set_id(i, i)
    return st.forward()["changes"]


def chi(counts, want):
    counts, want = np.asarray(counts, float), np.asarray(want, float)
    return np.sum((counts - want) ** 2 / want), len(counts) - 1


def uniform(name, counts):
    x2, k = chi(counts, np.full(len(counts), sum(counts) / len(counts)))
    r.true(f"{name}: chi-square {x2:.1f} of {k} degrees", x2 < k + 4.5 * math.sqrt(2 * k) + 6)


for stage, p in [("invert", 0.5), ("grey", 0.1), ("solarize", 0.25), ("jpeg_noise", 1), ("equalize", 0)]:
    c = drawn(stage, {"p": p}, 4000)[:, 0]
    r.true(f"{stage}: p {p}, {c.mean():.3f} are changed", abs(c.sum() - 4000 * p) <= 4 * math.sqrt(4000 * p * (1 - p)))
c = drawn("jpeg_noise", {"quality": [31, 40]}, 4000)[:, 1]
uniform("quality 31..40", [np.sum(c == q) for q in range(31, 41)])
c = drawn("gamma", {"gamma": [1, 3], "p": 1}, 4000)[:, 1]
uniform("gamma 1..3", np.histogram(c, 20, (1, 3))[0])
c = drawn("channel_drop", {"drop": [1, 2], "p": 1}, 6000)[:, 1].astype(int)
uniform("one or two of three channels", [np.sum(c == m) for m in (1, 2, 4)])
uniform("two of three channels", [np.sum(c == m) for m in (3, 5, 6)])

A = torchvision.transforms.autoaugment
NAMES = ["Identity", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast",
         "Sharpness", "Posterize", "Solarize", "AutoContrast", "Equalize"]
EXACT = {"Identity", "Posterize", "Solarize", "AutoContrast", "Equalize", "Rotate", "TranslateX", "TranslateY"}
H, W = 37, 52


def theirs(transform, bins):
    args = (bins, (H, W)) if isinstance(transform, A.RandAugment) else (bins,)
    space = transform._augmentation_space(*args)
    assert list(space) == NAMES
    return space


def as_ours(name, magnitude):
    """What the port says of a magnitude of torchvision's."""
    if name in ("Brightness", "Color", "Contrast", "Sharpness"):
        return 1 + magnitude
    if name.startswith("Translate"):
        return int(magnitude)
    return magnitude / 255 if name == "Solarize" else magnitude


# every operation and magnitude that torchvision has, given on the port: the images
for stage, transform, shown in [("rand_augment", A.RandAugment(), (0, 9, 17, 30)),
                                ("trivial_augment", A.TrivialAugmentWide(), (0, 4, 15, 30))]:
    space = theirs(transform, 31)
    for i, name in enumerate(NAMES):
        magnitudes, signed = space[name]
        cases = [float(magnitudes[b]) if magnitudes.ndim else 0.0 for b in (shown if magnitudes.ndim else (0,))]
        cases += [-m for m in cases if signed and m]
        for order in (ROW_MAJOR, CHANNELS_LAST):
            x = image((len(cases), 3, H, W))
            mask = rng.integers(0, 9, (len(cases), H, W)).astype(np.int64)
            changes = np.zeros((len(cases), 4 if stage == "rand_augment" else 2), np.float32)
            changes[:, 0] = i
            changes[:, 1] = [as_ours(name, m) for m in cases]
            out = Stage(stage, {"fill": 9}, [x, mask, changes], order=order).forward()

            def apply(t, m, fill=9.0):
                return A._apply_op(t, name, m, interpolation=F.InterpolationMode.NEAREST, fill=[fill] * t.shape[0])

            want = np.stack([apply(torch.tensor(v), m).numpy() for v, m in zip(x, cases)])
            compare(f"{stage} {name}{' channels last' if order else ''}", out["images"], want, exact=name in EXACT)
            moved = i in range(1, 6)
            want = np.stack([apply(torch.tensor(v[None]).float(), m, 255.0)[0].numpy() if moved else v
                             for v, m in zip(mask, cases)])
            r.same(f"{stage} {name}, mask", out["masks"], want.astype(np.int64))

# two operations, one after another
x = image((3, 3, H, W))
rows = np.array([[5, 30, 13, 0], [11, 0.4, 9, 1.8], [1, 0.3, 7, 0.2]], np.float32)
got = Stage("rand_augment", {}, [x, None, rows]).forward()["images"]
want = []
for v, row in zip(torch.tensor(x), rows):
    for i, m in ((int(row[0]), float(row[1])), (int(row[2]), float(row[3]))):
        m = m * 255 if i == 11 else m - 1 if i in (6, 7, 8, 9) else m
        v = A._apply_op(v, NAMES[i], m, interpolation=F.InterpolationMode.NEAREST, fill=[0.0] * 3)
    want.append(v.numpy())
compare("two operations in turn", got, np.stack(want), False)

# draws: which operations, signs and magnitudes
for stage, params, transform in [("rand_augment", {"num_ops": 2, "magnitude": 9}, A.RandAugment()),
                                 ("rand_augment", {"num_ops": 3, "magnitude": 4, "num_magnitude_bins": 10},
                                  A.RandAugment()),
                                 ("trivial_augment", {}, A.TrivialAugmentWide())]:
    bins = params.get("num_magnitude_bins", 31)
    c = drawn(stage, params, 4200, (3, H, W)).reshape(-1, 2)
    space = theirs(transform, bins)
    uniform(f"{stage}: operations", np.bincount(c[:, 0].astype(int), minlength=14))
    for i, name in enumerate(NAMES):
        magnitudes, signed = space[name]
        some = magnitudes.reshape(-1)
        if stage == "rand_augment" and magnitudes.ndim:
            some = some[params["magnitude"]:][:1]
        want = {}
        for m in some:
            for sign in (1, -1) if signed else (1,):
                v = float(np.float32(as_ours(name, sign * float(m)))) + 0.0
                want[v] = want.get(v, 0) + 1 / len(some) / (2 if signed else 1)
        seen = c[c[:, 0] == i][:, 1].astype(np.float64) + 0.0
        keys = np.array(sorted(want))
        at = np.abs(seen[:, None] - keys).argmin(1)
        # PyTorch's versions round 16 of a shift differently, from which int() makes 16 or 15.
        apart = 1 if name.startswith("Translate") else 1e-6
        r.true(f"{stage} {name}: numbers", np.abs(seen - keys[at]).max() <= apart)
        x2, k = chi(np.bincount(at, minlength=len(keys)), [want[v] * len(seen) for v in keys])
        r.true(f"{stage} {name}: chi-square {x2:.1f} of {k}", x2 < k + 5 * math.sqrt(2 * k) + 8)
r.exit()
