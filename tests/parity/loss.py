# SPDX-License-Identifier: MIT
"""cross_entropy, dice, jaccard, tversky, lovasz, focal, bce, mse, l1, huber, confusion, add, concat and dropout against PyTorch."""
import itertools
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from spstage import CHANNELS_LAST, ROW_MAJOR, Report, Stage, torch_or_skip

import numpy as np

torch = torch_or_skip()
F = torch.nn.functional
r = Report()
rng = np.random.default_rng(5)


def reference(x, y, ignore=-100, weights=None, scale=1.0, smoothing=0.0):
    """In double: PyTorch's own float32 result is up to 1e-6 off that."""
    t = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    w = None if weights is None else torch.tensor(weights, dtype=torch.float64)
    loss = F.cross_entropy(t, torch.tensor(y.astype(np.int64)), ignore_index=ignore, weight=w,
                           label_smoothing=smoothing) * scale
    loss.backward()
    return loss.item(), t.grad.numpy()


def case(name, x, y, order=ROW_MAJOR, params=None, scale=1.0, torch_args=None):
    params = params or {}
    st = Stage("cross_entropy", params, [x, y], order=order)
    st.set_loss_scale(scale)
    out = st.forward()
    loss, grad = reference(x, y, **(torch_args or {}))
    r.close(f"{name} loss", out["loss"], loss, rtol=1e-6)
    counted = np.sum(y != (torch_args or {}).get("ignore", -100))
    r.true(f"{name} valid", out["valid"] == counted, f"{out['valid']} of {counted}")
    # the last term: a float keeps a probability near 1 to 6e-8, and smoothing takes two numbers from it
    w = np.array((torch_args or {}).get("weights", np.ones(x.shape[1])))
    unit = np.abs(scale) * w.max() / w[y[(y >= 0) & (y < x.shape[1])].astype(int)].sum()
    r.close(f"{name} gradient", st.dinputs()["logits"], grad * scale, rtol=1e-6, atol=(2e-7 if "label_smoothing" in params else 1e-7) * unit)
    return st


for shape, order, dtype in itertools.product(
        [(8, 10), (1, 2), (3, 1), (5, 100), (2, 10, 7), (3, 10, 9, 11), (2, 3, 64, 64), (1, 65, 5, 13), (2, 150, 8, 8)],
        [ROW_MAJOR, CHANNELS_LAST], [np.uint8, np.int32, np.int64]):
    if order and len(shape) != 4:
        continue
    x = (rng.standard_normal(shape) * 4).astype(np.float32)
    y = rng.integers(0, shape[1], (shape[0],) + shape[2:]).astype(dtype)
    case(f"cross_entropy {shape} {np.dtype(dtype).name}{' channels last' if order else ''}", x, y, order)

x = (rng.standard_normal((2, 4096, 3, 3)) * 3).astype(np.float32)
y = rng.integers(0, 4096, (2, 3, 3))
for order in (ROW_MAJOR, CHANNELS_LAST):
    case(f"cross_entropy 4096 classes, order {order:x}", x, y, order)

x = (rng.standard_normal((4, 10, 33, 35)) * 4).astype(np.float32)
for order in (ROW_MAJOR, CHANNELS_LAST):
    y = rng.integers(0, 10, (4, 33, 35)).astype(np.uint8)
    y[rng.random(y.shape) < 0.3] = 255
    case(f"cross_entropy ignoring 255, order {order:x}", x, y, order, {"ignore_index": 255},
         torch_args={"ignore": 255})
    y = rng.integers(0, 10, (4, 33, 35))
    y[rng.random(y.shape) < 0.3] = -100
    case(f"cross_entropy ignoring -100, order {order:x}", x, y, order, torch_args={"ignore": -100})
    w = [0.5, 2.0, 1.0, 0.25, 3.0, 1.5, 0.125, 1.0, 4.0, 0.75]
    case(f"cross_entropy class weights, order {order:x}", x, y, order, {"class_weights": w},
         torch_args={"weights": w, "ignore": -100})
    for classes, params in itertools.product((2, 10, 100), ({}, {"ignore_index": 1})):
        few = (rng.standard_normal((2, classes, 13, 7)) * 4).astype(np.float32)
        y10 = rng.integers(0, classes, (2, 13, 7))
        w10 = [0.5, 2.0, 1.0, 0.25, 3.0, 1.5, 0.125, 1.0, 4.0, 0.75] * (classes // 10) or [0.5, 2.0]
        args = {"ignore": params.get("ignore_index", -100), "smoothing": 0.1}
        what = f"label smoothing, {classes} classes, ignoring {args['ignore']}, order {order:x}"
        case(f"cross_entropy {what}", few, y10, order, {"label_smoothing": 0.1, **params}, torch_args=args)
        case(f"cross_entropy class weights, {what}", few, y10, order,
             {"label_smoothing": 0.1, "class_weights": w10, **params}, torch_args={"weights": w10, **args})
    case(f"cross_entropy loss scale, order {order:x}", x, y, order, scale=0.25, torch_args={"ignore": -100})
    st = Stage("cross_entropy", {"weight": 0.5}, [x, y], order=order)
    out = st.forward()
    loss, grad = reference(x, y, scale=0.5)
    r.close(f"cross_entropy weight 0.5, order {order:x} loss", out["loss"], loss, rtol=1e-6)
    r.close(f"cross_entropy weight 0.5, order {order:x} gradient", st.dinputs()["logits"], grad, rtol=1e-6, atol=1e-11)

    big = (rng.standard_normal((2, 10, 16, 16)) * 1000).astype(np.float32)
    case(f"cross_entropy large logits, order {order:x}", big, rng.integers(0, 10, (2, 16, 16)), order)
    sure = np.zeros((2, 3, 8, 8), np.float32)
    sure[:, 1] = 16
    case(f"cross_entropy nearly sure, order {order:x}", sure, np.ones((2, 8, 8), np.int64), order)

    st = Stage("cross_entropy", {"ignore_index": 7}, [x, np.full((4, 33, 35), 7, np.uint8)], order=order)
    out = st.forward()
    r.true(f"all ignored, order {order:x}", out["loss"] == 0 and out["valid"] == 0 and
           not np.any(st.dinputs()["logits"]), f"{out['loss']} {out['valid']}")

    one = Stage("cross_entropy", {}, [x, y], order=order, threads=1)
    a, b = Stage("cross_entropy", {}, [x, y], order=order, threads=2).forward(), one.forward()
    r.same(f"any number of threads, order {order:x}", a["loss"], b["loss"])

rows, planes = [Stage("cross_entropy", {}, [x, y], order=o) for o in (CHANNELS_LAST, ROW_MAJOR)]
rows.forward(), planes.forward()
r.same("gradient in either order", rows.dinputs()["logits"], planes.dinputs()["logits"])



def dice(x, y, smooth, eps, ignore):
    """As segmentation_models_pytorch has it, multiclass."""
    classes = x.shape[1]
    p = x.log_softmax(1).exp().flatten(2)
    counts = (y != ignore).flatten(1)
    t = F.one_hot(y.flatten(1) * counts, classes).permute(0, 2, 1) * counts[:, None]
    p = p * counts[:, None]
    score = (2 * (p * t).sum((0, 2)) + smooth) / (p + t).sum((0, 2)).add(smooth).clamp_min(eps)
    return ((1 - score) * (t.sum((0, 2)) > 0)).mean()


def overlaps(x, y, ignore):
    """Of each class: true positives, false positives, false negatives; whether it has labels."""
    p, counts = x.log_softmax(1).exp().flatten(2), (y != ignore).flatten(1)
    t = F.one_hot(y.flatten(1) * counts, x.shape[1]).permute(0, 2, 1) * counts[:, None]
    p = p * counts[:, None]
    both = (p * t).sum((0, 2))
    return both, p.sum((0, 2)) - both, t.sum((0, 2)) - both, t.sum((0, 2)) > 0


def jaccard(x, y, smooth, eps, ignore):
    """As segmentation_models_pytorch has it, multiclass."""
    both, fp, fn, there = overlaps(x, y, ignore)
    return ((1 - (both + smooth) / (both + fp + fn + smooth).clamp_min(eps)) * there).mean()


def tversky(x, y, alpha, beta, gamma, smooth, ignore):
    """As segmentation_models_pytorch has it, multiclass."""
    both, fp, fn, there = overlaps(x, y, ignore)
    return ((1 - (both + smooth) / (both + alpha * fp + beta * fn + smooth).clamp_min(1e-7)) * there).mean() ** gamma


def lovasz_grad(fg):
    """As the public code of Berman et al. has it."""
    truth = fg.sum()
    jac = 1 - (truth - fg.cumsum(0)) / (truth + (1 - fg).cumsum(0))
    return torch.cat((jac[:1], jac[1:] - jac[:-1]))


def lovasz(x, y, ignore, classes):
    """The same, per_image = False."""
    p, labels, losses = x.softmax(1).movedim(1, -1).flatten(0, -2), y.flatten(), []
    p, labels = p[labels != ignore], labels[labels != ignore]
    for c in range(x.shape[1]):
        fg = (labels == c).to(x.dtype)
        if classes == "present" and fg.sum() == 0: continue
        errors, order = torch.sort((fg - p[:, c]).abs(), dim=0, descending=True, stable=True)
        losses.append(torch.dot(errors, lovasz_grad(fg[order])))
    return sum(losses) / len(losses)


def lovasz_hinge(x, y, ignore):
    logits, labels = x.flatten()[y.flatten() != ignore], y.flatten()[y.flatten() != ignore].to(x.dtype)
    errors, order = torch.sort(1 - logits * (2 * labels - 1), dim=0, descending=True, stable=True)
    return torch.dot(F.relu(errors), lovasz_grad(labels[order]))


def focal(x, y, gamma, alpha, ignore):
    """As segmentation_models_pytorch has it, multiclass."""
    counts, loss = y != ignore, 0
    for c in range(x.shape[1]):
        t, x_c = (y == c)[counts].to(x.dtype), x[:, c][counts]
        cost = F.binary_cross_entropy_with_logits(x_c, t, reduction="none")
        each = (1 - torch.exp(-cost)) ** gamma * cost
        loss = loss + (each if alpha < 0 else each * (alpha * t + (1 - alpha) * (1 - t))).mean()
    return loss


def other(stage, name, f, x, y, params, order, label_order=None):
    t = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    loss = f(t, torch.tensor(y))
    loss.backward()
    st = Stage(stage, params, [x, y], order=[order, order if label_order is None else label_order])
    r.close(f"{stage} {name}, order {order:x} loss", st.forward()["loss"], loss.item(), rtol=1e-6)
    grad = t.grad.numpy()
    r.close(f"{stage} {name}, order {order:x} gradient", next(iter(st.dinputs().values())), grad, rtol=1e-6,
            atol=1e-6 * np.abs(grad).max())


for order, (classes, seen) in itertools.product((ROW_MAJOR, CHANNELS_LAST), ((2, 2), (10, 10), (21, 9), (100, 100))):
    few = (rng.standard_normal((3, classes, 13, 17)) * 3).astype(np.float32)
    truth = rng.integers(0, seen, (3, 13, 17))
    truth[rng.random(truth.shape) < 0.2] = 255
    for smooth, eps in ((0.0, 1e-7), (1.0, 1e-7), (0.0, 100.0)):
        other("dice", f"{seen} of {classes} classes, smooth {smooth:g}, eps {eps:g}",
              lambda a, b: dice(a, b, smooth, eps, 255), few, truth,
              {"ignore_index": 255, "smooth": smooth, "eps": eps}, order)
        other("jaccard", f"{seen} of {classes} classes, smooth {smooth:g}, eps {eps:g}",
              lambda a, b: jaccard(a, b, smooth, eps, 255), few, truth,
              {"ignore_index": 255, "smooth": smooth, "eps": eps}, order)
    for alpha, beta, gamma, smooth in ((0.5, 0.5, 1.0, 0.0), (0.3, 0.7, 1.0, 1.0), (0.7, 0.3, 0.75, 0.0), (1.0, 1.0, 1.5, 0.0)):
        other("tversky", f"{seen} of {classes} classes, alpha {alpha:g}, beta {beta:g}, gamma {gamma:g}",
              lambda a, b: tversky(a, b, alpha, beta, gamma, smooth, 255), few, truth,
              {"ignore_index": 255, "alpha": alpha, "beta": beta, "gamma": gamma, "smooth": smooth}, order)
    for which in ("present", "all"):
        other("lovasz", f"{seen} of {classes} classes, mean over {which}", lambda a, b: lovasz(a, b, 255, which), few[:2, :, :5, :7],
              truth[:2, :5, :7], {"ignore_index": 255, "over": which}, order)
    other("lovasz", "one logit", lambda a, b: lovasz_hinge(a, b, 255), few[:, :1], np.where(truth == 255, 255, truth % 2),
          {"ignore_index": 255}, order)
    for gamma, alpha in ((2.0, -1.0), (0.0, -1.0), (1.5, 0.25), (2.0, 0.75)):
        other("focal", f"{seen} of {classes} classes, gamma {gamma:g}, alpha {alpha:g}",
              lambda a, b: focal(a, b, gamma, alpha, 255), few, truth,
              {"ignore_index": 255, "gamma": gamma, "alpha": alpha}, order)
    target = rng.random(few.shape).astype(np.float32)
    for w in (1.0, 4.0, 0.25):
        other("bce", f"{classes} logits, pos_weight {w:g}", lambda a, b: F.binary_cross_entropy_with_logits(
            a, b.double(), pos_weight=torch.tensor(w, dtype=torch.float64)), few, target, {"pos_weight": w}, order)
    other("bce", f"labels {classes}", lambda a, b: F.binary_cross_entropy_with_logits(a[:, 0], b.double()), few[:, :1],
          (truth % 2).astype(np.uint8), {}, order)
    other("mse", f"{classes} channels", lambda a, b: F.mse_loss(a, b.double()), few, target, {}, order)
    other("l1", f"{classes} channels", lambda a, b: F.l1_loss(a, b.double()), few, target, {}, order)
    for delta in (0.5, 2.0):
        other("huber", f"{classes} channels, delta {delta:g}", lambda a, b: F.huber_loss(a, b.double(), delta=delta), few, target,
              {"delta": delta}, order)
        other("huber", f"{classes} channels, as smooth_l1 of beta {delta:g}", lambda a, b: F.smooth_l1_loss(a, b.double(), beta=delta),
              few, target, {"delta": delta, "weight": 1 / delta}, order)
    gaps = np.where(rng.random(few.shape) < 0.3, np.nan, target).astype(np.float32)
    for stage, f in (("mse", F.mse_loss), ("l1", F.l1_loss), ("huber", F.huber_loss)):
        other(stage, f"{classes} channels with gaps", lambda a, b: f(a[~b.isnan()], b[~b.isnan()].double()), few, gaps,
              {"ignore_nan": True}, order)
        other(stage, "a map with gaps", lambda a, b: f(a[:, 0][~b.isnan()], b[~b.isnan()].double()), few[:, :1],
              np.ascontiguousarray(gaps[:, 0]), {"ignore_nan": True}, order)

for order, label_order, shape in itertools.product((ROW_MAJOR, CHANNELS_LAST), (ROW_MAJOR, CHANNELS_LAST), (
        (8, 10), (3, 1000), (2, 3, 5, 7), (2, 70, 9, 8), (3, 21, 11, 13), (2, 4, 1, 70))):
    few = (rng.standard_normal(shape) * 3).astype(np.float32)
    shares = rng.random(shape).astype(np.float32) ** 4
    shares /= shares.sum(1, keepdims=True)
    shares[0, :, ...] = 0
    shares[0, 1, ...] = 1  # sure
    w = (rng.random(shape[1]) + 0.5).astype(np.float32)
    for smoothing, weights in ((0.0, None), (0.1, None), (0.0, w), (0.2, w)):
        params = {"label_smoothing": smoothing, **({} if weights is None else {"class_weights": [float(v) for v in weights]})}
        other("cross_entropy", f"probabilities of {shape}, smoothing {smoothing:g}, {'weights' if weights is not None else 'none'}",
              lambda a, b: F.cross_entropy(a, b.double(), label_smoothing=smoothing,
                                           weight=None if weights is None else torch.tensor(weights).double()),
              few, shares, params, order, label_order)

for value in (1.5, -0.25, np.nan):
    soft = rng.random((4, 3, 5, 6)).astype(np.float32)
    soft[2, 1, 3, 4] = value
    soft[3, 0, 0, 0] = 7
    for stage in ("cross_entropy", "bce"):
        for order in (ROW_MAJOR, CHANNELS_LAST):
            r.fails(f"{stage}: a target of {value}, order {order:x}", f"sample 2: target {value:g} is outside 0..1",
                    lambda: Stage(stage, {}, [np.zeros_like(soft), soft], order=order).forward())
r.fails("probabilities of another shape", "dimension 3 of the target is 5, of the input 6",
        lambda: Stage("cross_entropy", {}, [np.zeros_like(soft), soft[..., :5].copy()]))
r.fails("probabilities and ignore_index", "ignore_index is 255, but the labels are probabilities, of which none is ignored",
        lambda: Stage("cross_entropy", {"ignore_index": 255}, [np.zeros_like(soft), soft]))

bad = rng.integers(0, 10, (4, 33, 35))
bad[2, 3, 4], bad[3, 0, 0] = 12, -1
for name in ("cross_entropy", "confusion"):
    r.fails(f"{name} label out of range", "sample 2: label 12 is outside 0..9",
            lambda: Stage(name, {}, [x, bad]).forward())
    r.fails(f"{name} labels of another size", "labels are 4 x 33 x 34, but the logits want 4 x 33 x 35",
            lambda: Stage(name, {}, [x, bad[:, :, :34]]))
r.fails("class weights of another length", "class_weights has 2 numbers, but there are 10 classes",
        lambda: Stage("cross_entropy", {"class_weights": [1.0, 2.0]}, [x, y]))

for order in (ROW_MAJOR, CHANNELS_LAST):
    pred = np.argmax(x, 1)
    want = np.zeros((10, 10), np.int64)
    np.add.at(want, (y[y >= 0], pred[y >= 0]), 1)
    r.same(f"confusion, order {order:x}", Stage("confusion", {}, [x, y], order=order).forward()["counts"], want)
    tie = np.zeros((1, 4, 2, 2), np.float32)
    tie[0, 2:] = 1
    c = Stage("confusion", {}, [tie, np.full((1, 2, 2), 3)], order=order).forward()["counts"]
    r.true(f"confusion, equal logits: the first class, order {order:x}", c[3, 2] == 4 and c.sum() == 4, str(c))

parts = [rng.standard_normal((3, c, 5, 7)).astype(np.float32) for c in (4, 1, 6)]
for order in (ROW_MAJOR, CHANNELS_LAST):
    for axis in (1, 2, 3):
        a = [p if axis == 1 else np.moveaxis(p, 1, axis).copy() for p in parts]
        st = Stage("concat", {"axis": axis}, [a], order=order)
        t = [torch.tensor(p, requires_grad=True) for p in a]
        ref = torch.cat(t, axis)
        g = rng.standard_normal(ref.shape).astype(np.float32)
        ref.backward(torch.tensor(g))
        r.same(f"concat axis {axis}, order {order:x}", st.forward()["y"], ref.detach().numpy())
        din, _ = st.backward({"y": g})
        for i, p in enumerate(t):
            r.same(f"concat axis {axis}, order {order:x}, gradient {i}", din["x"][i], p.grad.numpy())
    same = [rng.standard_normal((3, 4, 5, 7)).astype(np.float32) for _ in range(3)]
    st = Stage("add", {}, [same], order=order)
    r.same(f"add, order {order:x}", st.forward()["y"], ((same[0] + same[1]) + same[2]))
    g = rng.standard_normal((3, 4, 5, 7)).astype(np.float32)
    din, _ = st.backward({"y": g})
    r.true(f"add gradients, order {order:x}", all(np.array_equal(d, g) for d in din["x"]))
    for p, maps in ((0.5, False), (0.1, False), (0.3, True)):
        label = f"dropout of {p}{', maps' if maps else ''}, order {order:x}"
        x = rng.standard_normal((3, 4, 5, 7)).astype(np.float32)
        kept = Stage("dropout", {"p": p, "maps": maps}, [np.ones_like(x)], order=order).forward()["y"] != 0
        theirs = torch.tensor(x, requires_grad=True)
        ref = theirs * (torch.tensor(kept).float() / (1 - p))  # what torch.nn.Dropout does with its own mask
        ref.backward(torch.tensor(g))
        st = Stage("dropout", {"p": p, "maps": maps}, [x], order=order)
        r.near(label, st.forward()["y"], ref.detach().numpy(), 1.2e-7)
        r.near(f"{label}, gradient", st.backward({"y": g})[0]["x"], theirs.grad.numpy(), 1.2e-7)
        r.true(f"{label}, whole maps", bool(np.all(kept == kept[:, :, :1, :1])) == maps)
r.exit()
