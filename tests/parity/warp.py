# SPDX-License-Identifier: MIT
"""affine, perspective, elastic, erase, mixup and cutmix against torchvision, with exchanged parameters: nearest pixels and masks have
equal bits, bilinear bytes are 1 apart at most. What they draw, against torchvision's own draws.
"""
import inspect
import itertools
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from spstage import CHANNELS_LAST, ROW_MAJOR, Report, Stage, torch_or_skip, torchvision_or_skip

import numpy as np

torch = torch_or_skip()
torchvision = torchvision_or_skip()
F, T = torchvision.transforms.functional, torchvision.transforms
MODES = {m: getattr(T.InterpolationMode, m.upper()) for m in ("nearest", "bilinear")}
r = Report()
rng = np.random.default_rng(12)
SIZES = [(2, 3, 1, 1), (2, 3, 1, 9), (2, 2, 12, 1), (2, 3, 2, 2), (4, 3, 64, 64), (4, 3, 63, 90), (2, 4, 30, 31),
         (1, 1, 60, 520)]


def images(n, c, h, w, dtype):
    x = rng.integers(0, 256, (n, c, h, w)).astype(dtype)
    return x + (rng.random(x.shape).astype(np.float32) if dtype == np.float32 else 0)


def case(n, c, h, w, dtype, order):
    return f"{n} x {c} x {h} x {w} {np.dtype(dtype).name}{' channels last' if order else ''}"


def nearest(name, got, want, nearby):
    """The same bits; or where PyTorch rounds a place halfway between two pixels otherwise, as its versions do, what it
    has a thousandth of a pixel away."""
    allowed = got == want
    for dx, dy in itertools.product((-1e-3, 1e-3), repeat=2) if not allowed.all() else ():
        allowed |= got == nearby(dx, dy)
    r.true(name, allowed.all(), f"{(~allowed).sum()} of {got.size} differ")


def compare(name, stage, params, x, m, given, order, theirs):
    """theirs(tensor, i, mode, fill, dx, dy): what torchvision makes of sample i, seen from so many pixels beside."""
    for fill, (mode, m_of) in itertools.product((0, 7), MODES.items()):
        if x.shape[1] == 3 and fill:
            fill = [7.0, 200.0, 31.0]
        out = Stage(stage, {"mode": mode, "fill": fill, "mask_fill": 7, **params}, [[x], [m], given],
                    order=[order, ROW_MAJOR, ROW_MAJOR]).forward()
        fills = fill if isinstance(fill, list) else [float(fill)] * x.shape[1]

        def of_images(dx=0.0, dy=0.0):
            return torch.stack([theirs(torch.tensor(v), i, m_of, fills, dx, dy) for i, v in enumerate(x)]).numpy()

        def of_masks(dx=0.0, dy=0.0):
            return np.stack([theirs(torch.tensor(v)[None], i, m_of, [7.0], dx, dy)[0].numpy() for i, v in enumerate(m)])

        want = of_images()
        if mode == "nearest":
            nearest(f"{name}, fill {fill}, nearest", out["images"], want, of_images)
        elif x.dtype == np.float32:  # a place has a few roundings of numbers as large as the side
            r.close(f"{name}, fill {fill}, bilinear", out["images"], want, atol=(5e-7 + 6e-7 * max(x.shape)) * 256)
        else:
            off = np.abs(out["images"].astype(int) - want)
            r.true(f"{name}, fill {fill}, bilinear", off.max() <= 1 and off.mean() < 3e-3, f"{off.max()}, {off.mean()}")
        if mode == "nearest":
            nearest(f"{name}, fill {fill}, mask", out["masks"], of_masks(), of_masks)


def alike(name, ours, theirs):
    """Two samples of one distribution: the largest distance of their cumulative frequencies (Kolmogorov and Smirnov) is
    below its 99.9 % point. Seeds are fixed."""
    for i in range(ours.shape[1]):
        a, b = ours[:, i], theirs[:, i]
        values = np.unique(np.concatenate([a, b]))
        apart = np.abs(np.searchsorted(np.sort(a), values, side="right") / len(a)
                       - np.searchsorted(np.sort(b), values, side="right") / len(b)).max()
        r.true(f"{name}, number {i + 1}", apart < 1.95 * (1 / len(a) + 1 / len(b)) ** 0.5, f"{apart:.4f}")


# ---- affine ----
for (n, c, h, w), dtype, order in itertools.product(SIZES, (np.uint8, np.float32), (ROW_MAJOR, CHANNELS_LAST)):
    x, m = images(n, c, h, w, dtype), rng.integers(0, 256, (n, h, w)).astype(np.uint8)
    a = np.stack([rng.uniform(-180, 180, n), rng.integers(-w // 3, w // 3 + 1, n), rng.integers(-h // 3, h // 3 + 1, n),
                  rng.uniform(0.4, 2, n), rng.uniform(-50, 50, n), rng.uniform(-50, 50, n)], 1).astype(np.float32)
    a[0] = rng.permutation([[0, 0, 0, 1, 0, 0], [90, 0, 0, 1, 0, 0], [0, 1, -1, 1, 0, 0], [-45, 0, 0, 1, 0, 0]])[0]
    for params, center in (({}, None), ({"center": [1.0, h - 3.0]}, [1.0, h - 3.0])):
        compare(f"affine {case(n, c, h, w, dtype, order)} {center}", "affine",
                params, x, m, a, order,
                lambda t, i, mode, fill, dx, dy: F.affine(t, float(a[i][0]), [a[i][1] + dx, a[i][2] + dy],
                                                          float(a[i][3]), [float(v) for v in a[i][4:]], mode, fill=fill,
                                                          center=center))

for (h, w), ranges in (((60, 90), dict(degrees=30, translate=(0.1, 0.4), scale=(0.5, 2.0), shear=20)),
                       ((7, 5), dict(degrees=(-10, 90), translate=(0.5, 0.0), scale=(1.0, 1.2), shear=(-3, 20, 5, 9)))):
    n, full = 10000, dict(degrees=(0, 0), shear=(0, 0))
    torch.manual_seed(5)
    aug = T.RandomAffine(**ranges)
    theirs = [aug.get_params(aug.degrees, aug.translate, aug.scale, aug.shear, [w, h]) for _ in range(n)]
    theirs = np.array([[a, *t, s, *k] for a, t, s, k in theirs])
    params = {k: list(v) if isinstance(v, tuple) else v for k, v in ranges.items()}
    ours = Stage("affine", params, [[np.zeros((n, 1, h, w), np.uint8)], None, None]).forward()["affines"]
    alike(f"affine draws, {h} x {w}", ours, theirs)


# ---- perspective ----
# torchvision 0.14 solves for its eight coefficients in float, newer ones in double: by these its places are compared.
def coefficients(start, end):
    rows = [row for (x, y), (u, v) in zip(end, start)
            for row in ([x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y])]
    return np.linalg.solve(np.array(rows, float), np.array(start, float).ravel()).tolist()


on_tensors = getattr(T, "_functional_tensor", None) or T.functional_tensor
for (n, c, h, w), dtype, order in itertools.product(SIZES[3:], (np.uint8, np.float32), (ROW_MAJOR, CHANNELS_LAST)):
    x, m = images(n, c, h, w, dtype), rng.integers(0, 256, (n, h, w)).astype(np.uint8)
    own = [[0, 0], [w - 1, 0], [w - 1, h - 1], [0, h - 1]]
    ends = np.array([T.RandomPerspective.get_params(w, h, 0.2 + 0.3 * i)[1] for i in range(n)], np.int32)
    if h > 9:
        ends[-1] = [[-w // 3, 3], [w + w // 2, -h // 3], [w, 2 * h], [0, h - 1]]  # beyond the canvas
    if n > 2:
        ends[0] = own
    of = [coefficients(own, e.tolist()) for e in ends]
    compare(f"perspective {case(n, c, h, w, dtype, order)}", "perspective", {},
            x, m, ends.reshape(n, 8), order,
            lambda t, i, mode, fill, dx, dy: t if ends[i].tolist() == own else on_tensors.perspective(
                t, [v + {2: dx, 5: dy}.get(k, 0) for k, v in enumerate(of[i])], mode.value, fill))

# Smooth images, by torchvision's own coefficients, which move places by a hundredth of a pixel in the largest.
for h, w in ((64, 64), (90, 200)):
    y, x = np.mgrid[:h, :w]
    smooth = np.stack([(127 + 120 * np.sin(x / 9 + i) * np.cos(y / 7)).astype(np.uint8) for i in range(3)])[None]
    for i in range(5):
        start, end = T.RandomPerspective.get_params(w, h, 0.5)
        out = Stage("perspective", {}, [[smooth], None, np.array(end, np.int32).reshape(1, 8)]).forward()["images"]
        off = np.abs(out[0].astype(int) - F.perspective(torch.tensor(smooth[0]), start, end, fill=[0.0]).numpy())
        white = torch.full((1, h, w), 255, dtype=torch.uint8)
        off = off[:, F.perspective(white, start, end, fill=[0.0]).numpy()[0] == 255]
        r.true(f"perspective of a smooth image, {h} x {w}, {i + 1}", off.max() <= 1, f"{off.max()}")

for h, w, d in ((60, 90, 0.5), (7, 11, 0.66)):
    n = 10000
    torch.manual_seed(6)
    theirs = np.array([T.RandomPerspective.get_params(w, h, d)[1] for _ in range(n)]).reshape(n, 8)
    ours = Stage("perspective", {"distortion": d, "p": 1}, [[np.zeros((n, 1, h, w), np.uint8)], None, None])
    alike(f"perspective draws, {h} x {w}", ours.forward()["corners"], theirs)

# ---- erase ----
for (n, c, h, w), dtype, order in itertools.product(SIZES, (np.uint8, np.float32), (ROW_MAJOR, CHANNELS_LAST)):
    x, m = images(n, c, h, w, dtype), rng.integers(0, 256, (n, h, w)).astype(np.uint8)
    side = np.stack([rng.integers(0, h + 1, n), rng.integers(0, w + 1, n)], 1)
    corner = np.stack([rng.integers(0, h - side[:, 0] + 1), rng.integers(0, w - side[:, 1] + 1)], 1)
    box, value = np.concatenate([corner, side], 1).astype(np.int32), [float(v) for v in rng.integers(0, 256, c)]
    out = Stage("erase", {"value": value}, [[x], [m], box], order=order).forward()
    v = torch.tensor(value)[:, None, None].to(torch.tensor(x).dtype)
    want = torch.stack([F.erase(torch.tensor(x[i]), *(int(e) for e in box[i]), v) for i in range(n)])
    name = f"erase {case(n, c, h, w, dtype, order)}"
    r.same(name, out["images"], want.numpy())
    r.same(f"{name}, mask", out["masks"], m)

for (h, w), scale, ratio in (((60, 90), (0.02, 0.33), (0.3, 3.3)), ((100, 30), (0.1, 0.9), (0.2, 1.0))):
    n = 10000
    torch.manual_seed(7)
    image = torch.zeros(1, h, w)
    theirs = np.array([T.RandomErasing.get_params(image, scale, ratio, [0.0])[:4] for _ in range(n)])
    theirs[(theirs[:, 2] == h) & (theirs[:, 3] == w)] = 0  # nothing is erased
    ours = Stage("erase", {"scale": list(scale), "ratio": list(ratio), "p": 1},
                 [[np.zeros((n, 1, h, w), np.uint8)], None, None]).forward()["boxes"]
    alike(f"erase draws, {h} x {w}", *(np.column_stack([b, b[:, 2] * b[:, 3]]) for b in (ours, theirs)))
half = Stage("erase", {}, [[np.zeros((10000, 1, 20, 20), np.uint8)], None, None]).forward()["boxes"][:, 2] > 0
r.true("erase: half of the samples", abs(half.mean() - 0.5) < 0.02, f"{half.mean()}")

stage = Stage("erase", {"noise": 1, "p": 1, "scale": 0.9, "ratio": 1},
              [[np.zeros((40, 3, 64, 64), np.float32)], None, None])
noise = stage.forward()["images"]
alike("erase noise", noise[noise != 0][:100000, None], np.random.default_rng(1).normal(size=(100000, 1)))

# ---- mixup and cutmix: as transforms v2 of torchvision has them, whose 0.14 lacks them ----
def mixed(x, lam):
    return x.roll(1, 0) * (1.0 - lam) + x * lam


def pasted(x, box):
    top, left, h, w = (int(v) for v in box)
    out = x.clone()
    out[..., top:top + h, left:left + w] = x.roll(1, 0)[..., top:top + h, left:left + w]
    return out


for (n, c, h, w), order, label in itertools.product(SIZES, (ROW_MAJOR, CHANNELS_LAST), (np.uint8, np.int64, np.float32)):
    x, m = images(n, c, h, w, np.float32), rng.integers(0, 256, (n, h, w)).astype(np.uint8)
    classes, y = 5, rng.integers(0, 5, n).astype(np.uint8)
    hot = torch.nn.functional.one_hot(torch.tensor(y.astype(np.int64)), classes).float()
    labels = hot.numpy() if label == np.float32 else y.astype(label)
    how = {} if label == np.float32 else {"classes": classes}
    name = f"{case(n, c, h, w, np.float32, order)}, labels {np.dtype(label).name}"
    for lam in (0.0, 0.25, np.float32(0.7), 1.0):
        rows = np.zeros((n, 5), np.float32)
        rows[:, 0] = lam
        out = Stage("mixup", how, [[x], None, rows, labels], order=[order, ROW_MAJOR, ROW_MAJOR, ROW_MAJOR]).forward()
        r.same(f"mixup {name}, {lam:g}", out["images"], mixed(torch.tensor(x), float(lam)).numpy())
        r.same(f"mixup {name}, {lam:g}, labels", out["labels"], mixed(hot, float(lam)).numpy())
        r.same(f"mixup {name}, {lam:g}, main", out["main"], mixed(hot, float(lam)).argmax(1).numpy())
    box = [h // 3, w // 4, h - h // 2, w - w // 3 - w // 4]
    rows = np.tile(np.array([1, *box], np.float32), (n, 1))
    out = Stage("cutmix", how, [[x], [m], rows, labels], order=[order, ROW_MAJOR, ROW_MAJOR, ROW_MAJOR]).forward()
    r.same(f"cutmix {name}", out["images"], pasted(torch.tensor(x), box).numpy())
    r.same(f"cutmix {name}, masks", out["masks"], pasted(torch.tensor(m), box).numpy())
    r.same(f"cutmix {name}, labels", out["labels"], mixed(hot, float(1.0 - box[2] * box[3] / (h * w))).numpy())
    bytes_ = images(n, c, h, w, np.uint8)
    out = Stage("mixup", {}, [[bytes_], None, np.tile(np.array([0.3, 0, 0, 0, 0], np.float32), (n, 1))], order=order).forward()
    want = mixed(torch.tensor(bytes_).float(), float(np.float32(0.3))).round().numpy()
    r.same(f"mixup {name}, bytes", out["images"], want.astype(np.uint8))


def boxes_of(lam, h, w, random):
    """CutMix.make_params of torchvision."""
    y, x, part = random.integers(0, h, len(lam)), random.integers(0, w, len(lam)), 0.5 * np.sqrt(1.0 - lam)
    half_h, half_w = (part * h).astype(int), (part * w).astype(int)
    top, left, bottom, right = np.maximum(y - half_h, 0), np.maximum(x - half_w, 0), np.minimum(y + half_h, h), np.minimum(x + half_w, w)
    return np.column_stack([top, left, bottom - top, right - left])


random = np.random.default_rng(3)
for alpha in (0.05, 0.2, 1.0, 1.5, 8.0):
    n = 20000
    theirs = random.beta(alpha, alpha, n).astype(np.float32).astype(float)  # as many are 1
    ours = Stage("mixup", {"alpha": alpha}, [[np.zeros((n, 1, 1, 1), np.uint8)]]).forward()["mixes"]
    alike(f"mixup draws, {alpha:g}", ours[:, :1], theirs[:, None])
    ours = Stage("cutmix", {"alpha": alpha}, [[np.zeros((n, 1, 20, 30), np.uint8)]]).forward()["mixes"]
    alike(f"cutmix draws, {alpha:g}", ours[:, 1:], boxes_of(theirs, 20, 30, random))
rows = Stage("mixup_or_cutmix", {"cutmix_part": 0.3, "p": 0.5}, [[np.zeros((n, 1, 20, 30), np.uint8)]]).forward()["mixes"]
r.true("mixup in 35 of 100", abs((rows[:, 0] < 1).mean() - 0.35) < 0.02, str((rows[:, 0] < 1).mean()))
r.true("cutmix in 15 of 100", abs((rows[:, 3] > 0).mean() - 0.15) < 0.02, str((rows[:, 3] > 0).mean()))
rows = Stage("mixup_or_cutmix", {"same_on_batch": True}, [[np.zeros((64, 1, 20, 30), np.uint8)]]).forward()["mixes"]
r.true("one draw for the batch", bool(np.all(rows == rows[0])))
r.fails("mixup of masks", "a pixel of a mask has one class, and mixup would give it two: take cutmix, or leave the masks out",
        lambda: Stage("mixup", {}, [[x], [m]]))
r.fails("a share above 1", "sample 1: 1.5 on 'mixes' is neither a share of 0 to 1 nor a side of a box inside of the image",
        lambda: Stage("cutmix", {}, [[np.zeros((2, 1, 4, 4), np.uint8)], None, np.array([[1, 0, 0, 4, 4], [1.5, 0, 0, 0, 0]], np.float32)]).forward())
r.fails("half a pixel", "sample 1: 0.5 on 'mixes'",
        lambda: Stage("cutmix", {}, [[np.zeros((2, 1, 4, 4), np.uint8)], None, np.array([[1, 0, 0, 4, 4], [1, 0.5, 0, 1, 1]], np.float32)]).forward())
r.fails("a box that sticks out", "sample 0: 4 on 'mixes'",
        lambda: Stage("cutmix", {}, [[np.zeros((2, 1, 4, 4), np.uint8)], None, np.array([[1, 1, 0, 4, 4], [1, 0, 0, 1, 1]], np.float32)]).forward())
r.fails("a label above", "sample 1: label 5 is outside 0..4", lambda: Stage("mixup", {"classes": 5}, [
    [np.zeros((2, 1, 4, 4), np.uint8)], None, None, np.array([1, 5], np.int64)]).forward())
r.fails("no classes", "how many classes the labels have is missing: give classes = N", lambda: Stage("mixup", {}, [
    [np.zeros((2, 1, 4, 4), np.uint8)], None, None, np.array([1, 5], np.int64)]))
r.fails("labels of another batch", "labels must be 2 class numbers, one a sample", lambda: Stage("mixup", {"classes": 5}, [
    [np.zeros((2, 1, 4, 4), np.uint8)], None, None, np.array([1, 5, 2], np.int64)]))

# ---- elastic ----
# torch.linspace rounds places of the grid elsewhere in each block of a row: ties of nearest pixels may fall the other
# way.
for (n, c, h, w), dtype, order in itertools.product(SIZES[4:], (np.uint8, np.float32), (ROW_MAJOR, CHANNELS_LAST)):
    x, m = images(n, c, h, w, dtype), rng.integers(0, 256, (n, h, w)).astype(np.uint8)
    drawn = Stage("elastic", {"sigma": 2.0, "alpha": 60.0}, [[x], None, None], order=order).forward()["displacements"]
    by = torch.tensor(drawn)
    compare(f"elastic {case(n, c, h, w, dtype, order)}", "elastic", {}, x, m,
            drawn, order, lambda t, i, mode, fill, dx, dy: F.elastic_transform(
                t, by[i:i + 1] + torch.tensor([2 * dx / w, 2 * dy / h]), mode, fill))

# Fields: numbers of one are not independent, so of each sample a few are compared, and the deviation of all.
for (h, w), alpha, sigma in (((64, 64), 50.0, 5.0), ((40, 90), 20.0, 1.0)):
    n, places = 300, (slice(None), [0, h // 2, h - 1, h // 3], [w // 2, 0, w - 1, w // 3])
    torch.manual_seed(8)
    theirs = np.concatenate([T.ElasticTransform.get_params([alpha] * 2, [sigma] * 2, [h, w]).numpy() for _ in range(n)])
    if "alpha[0] / size[0]" in inspect.getsource(T.ElasticTransform.get_params):  # up to 0.25: along x by the height
        theirs *= np.array([h / w, w / h])
    stage = Stage("elastic", {"alpha": alpha, "sigma": sigma}, [[np.zeros((n, 1, h, w), np.uint8)], None, None])
    ours = stage.forward()["displacements"]
    alike(f"elastic fields, {h} x {w}", ours[places].reshape(n, 8), theirs[places].reshape(n, 8))
    for e, what in enumerate("xy"):
        a, b = ours[..., e].std(), theirs[..., e].std()
        r.true(f"elastic fields, {h} x {w}, deviation along {what}", abs(a / b - 1) < 0.02, f"{a}, {b}")
        a, b = ((f[:, :, 3:, e] * f[:, :, :-3, e]).mean() / f[..., e].var() for f in (ours, theirs))
        r.true(f"elastic fields, {h} x {w}, smoothness along {what}", abs(a - b) < 0.02, f"{a}, {b}")

r.exit()
