# SPDX-License-Identifier: MIT
"""What confusion, score_histogram, calibration, deviation, depth_error and boundary count, and the figures of it, beside NumPy in double; beside
torchmetrics and scikit-learn where they are installed."""
import json
import math
import os
import subprocess
import sys
import tempfile
from fractions import Fraction

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from spstage import CHANNELS_LAST, ROW_MAJOR, Report, Stage

import numpy as np

try:
    import torch
    import torchmetrics.functional as tm
    from torchmetrics.functional import classification as tmc
except ImportError:
    torch = tm = tmc = None
try:
    import sklearn.metrics as sk
except ImportError:
    sk = None
r = Report()
rng = np.random.default_rng(11)
asked = []


def figures(name, counts):
    """sp.figures.NAME(counts), all in one process at the end."""
    asked.append((name, counts.tolist()))
    return len(asked) - 1


def answers():
    with tempfile.TemporaryDirectory() as d:
        with open(f"{d}/asked.json", "w") as f:
            json.dump([{"name": n, "counts": c} for n, c in asked], f)
        with open(f"{d}/figures.lua", "w") as f:
            f.write('local sp = require "spcore"\nlocal opt = sp.args { from = { "", "file" }, to = { "", "file" } }\nlocal out = {}\n'
                    'for i, a in ipairs(sp.json.read(opt.from)) do out[i] = sp.figures[a.name](a.counts) end\n'
                    'sp.write_file(opt.to, sp.json.encode(out))\n')
        spcore = os.path.join(os.environ.get("top_builddir", os.getcwd()), "spcore")
        subprocess.run([spcore, "run", f"{d}/figures.lua", "--from", f"{d}/asked.json", "--to", f"{d}/told.json"], check=True)
        with open(f"{d}/told.json") as f:
            return json.load(f)


def nan(v):
    return math.nan if v is None else v


later = []


def check(k, path, name, want, tol=1e-6):
    """Figure k, at path, is `want` within tol."""
    later.append((k, path, name, want, tol))


def settle():
    told = answers()
    for k, path, name, want, tol in later:
        v = told[k]
        for key in path:
            v = v[key]
        v = np.array([nan(x) for x in v]) if isinstance(v, list) else nan(v)
        same = np.array_equal(np.isnan(v), np.isnan(want)) and np.all(np.isnan(want) | (np.abs(v - want) <= tol))
        r.true(name, bool(same), f"{v} not {want}")
    return told


def softmax(x):
    x = x.astype(np.float64)
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x.astype(np.float64)))


def columns(p):
    """N x C x ... -> positions x C"""
    return np.moveaxis(p, 1, -1).reshape(-1, p.shape[1])


def auroc(score, yes):
    """Exact, by ranks; equal scores count half."""
    if yes.all() or not yes.any():
        return math.nan
    values, at, n = np.unique(score, return_inverse=True, return_counts=True)
    rank = (np.cumsum(n) - (n - 1) / 2)[at]
    p, q = int(yes.sum()), int((~yes).sum())
    return (rank[yes].sum() - p * (p + 1) / 2) / (p * q)


def average_precision(score, yes):
    if not yes.any():
        return math.nan
    order = np.argsort(-score, kind="stable")
    score, yes = score[order], yes[order]
    last = np.r_[score[1:] != score[:-1], True]  # equal scores are one threshold
    hits = np.cumsum(yes)[last]
    return float(np.sum(np.diff(np.r_[0, hits]) * hits / (np.flatnonzero(last) + 1)) / yes.sum())


# ---- the confusion matrix ----
truth = rng.integers(0, 7, 3000)
guess = np.where(rng.random(3000) < 0.6, truth, rng.integers(0, 6, 3000))
truth[truth == 5] = 4                      # one class never true, one (6) never guessed
guess[guess == 6] = 0
truth, guess = np.r_[truth, 6], np.r_[guess, 5]
matrix = np.zeros((8, 8), np.int64)        # class 7 is nowhere
np.add.at(matrix, (truth, guess), 1)
k = figures("confusion", matrix)
tp, fn, fp = np.diag(matrix), matrix.sum(1) - np.diag(matrix), matrix.sum(0) - np.diag(matrix)
with np.errstate(invalid="ignore", divide="ignore"):
    precision, recall, f1 = (np.nan_to_num(a / b) for a, b in ((tp, tp + fp), (tp, tp + fn), (2 * tp, 2 * tp + fp + fn)))
there, support = tp + fp + fn > 0, tp + fn
for name, v in (("precision", precision), ("recall", recall), ("f1", f1)):
    check(k, ("macro", name), f"macro {name}", v[there].mean())
    check(k, ("weighted", name), f"weighted {name}", np.sum(v * support) / support.sum())
    check(k, ("micro", name), f"micro {name}", tp.sum() / matrix.sum())
    for c in range(8):
        check(k, ("classes", c, name), f"{name} of class {c}", v[c])
check(k, ("accuracy",), "accuracy", tp.sum() / matrix.sum())
if sk:
    for how in ("macro", "weighted", "micro"):
        for name, v in zip(("precision", "recall", "f1"), sk.precision_recall_fscore_support(
                truth, guess, average=how, zero_division=0)):
            check(k, (how, name), f"scikit-learn: {how} {name}", v)
    check(k, ("macro", "iou"), "scikit-learn: mean IoU", sk.jaccard_score(truth, guess, average="macro", zero_division=0))
if tm:
    a, b = torch.tensor(guess), torch.tensor(truth)
    for how in ("macro", "weighted", "micro"):
        for name, f in (("precision", tmc.multiclass_precision), ("recall", tmc.multiclass_recall), ("f1", tmc.multiclass_f1_score)):
            check(k, (how, name), f"torchmetrics: {how} {name}", f(a, b, 8, average=how).item())
    each = tmc.multiclass_accuracy(a, b, 8, average="none").numpy()
    dice = tm.dice(a, b, num_classes=8, average="none").numpy()
    for c in range(7):
        check(k, ("classes", c, "recall"), f"torchmetrics: accuracy of class {c}", each[c])
        check(k, ("classes", c, "f1"), f"torchmetrics: Dice of class {c}", dice[c])

# ---- histograms of scores ----
def cases():
    """name, logits, targets, parameters, probabilities (positions x classes), truth (the same), known (the same)"""
    for name, shape in (("classes", (900, 6)), ("two classes", (700, 2)), ("masks", (2, 4, 17, 23))):
        y = rng.integers(0, shape[1], (shape[0],) + shape[2:])
        x = (rng.standard_normal(shape) * 2).astype(np.float32)
        x += 2 * np.moveaxis(np.eye(shape[1], dtype=np.float32)[y], -1, 1)
        y[rng.random(y.shape) < 0.1] = -100
        flat = y.reshape(-1)
        yes = flat[:, None] == np.arange(shape[1])
        yield name, x, y, columns(softmax(x)), yes, np.repeat((flat >= 0)[:, None], shape[1], 1)
    y = rng.integers(0, 2, (3, 21, 19)).astype(np.uint8)
    x = (rng.standard_normal((3, 1, 21, 19)) * 2 + y[:, None]).astype(np.float32)
    y[rng.random(y.shape) < 0.1] = 255
    yield "one logit", x, y, columns(sigmoid(x)), y.reshape(-1, 1) == 1, y.reshape(-1, 1) != 255
    for shape in ((800, 5), (2, 3, 11, 13)):
        t = (rng.random(shape) < 0.3).astype(np.float32)
        x = (rng.standard_normal(shape) * 2 + 2 * t - 1).astype(np.float32)
        t[rng.random(shape) < 0.1] = 0.5      # a target between is the nearer one
        t[rng.random(shape) < 0.1] = 0.4375
        t[rng.random(shape) < 0.1] = np.nan
        t[rng.random(shape) < 0.1] = -1
        with np.errstate(invalid="ignore"):
            known = columns(t) >= 0
        yield f"several classes a sample {shape}", x, t, columns(sigmoid(x)), columns(t) >= 0.5, known


far = []
for name, x, y, p, yes, known in cases():
    C = p.shape[1]
    ignore = {"ignore_index": 255} if y.dtype == np.uint8 else {}
    for scale, bins in (("odds", 1024), ("odds", 64), ("probability", 1024), ("probability", 101)):
        orders = (ROW_MAJOR, CHANNELS_LAST) if x.ndim == 4 else (ROW_MAJOR,)
        got = [Stage("score_histogram", {"bins": bins, "scale": scale, **ignore}, [x, y], threads=t,
                     order=[o, o if y.dtype == np.float32 else ROW_MAJOR][:2] if x.ndim == 4 else ROW_MAJOR).forward()["scores"]
               for o in orders for t in (1, 2)]
        label = f"{name}, {bins} bins of {scale}"
        r.true(f"{label}: same counts in any order, by any team", all(np.array_equal(got[0], g) for g in got))
        got = got[0]
        odds = p / (1 - p)
        if scale == "probability":
            at = np.minimum((p * (bins - 1)).astype(np.int64), bins - 1)
        else:
            whole = np.floor(np.log2(odds))
            at = np.clip(((whole + 32) + (odds / 2 ** whole - 1)) * (bins // 64), 0, bins - 1).astype(np.int64)
        want = np.zeros((C, 2, bins), np.int64)
        for c in range(C):
            np.add.at(want[c], (yes[known[:, c], c].astype(int), at[known[:, c], c]), 1)
        r.true(f"{label}: counts", np.array_equal(got, want), f"{np.abs(got - want).sum()} differ of {want.sum()}")
        k = figures("scores", got)
        exact = [(auroc(p[known[:, c], c], yes[known[:, c], c]), average_precision(p[known[:, c], c], yes[known[:, c], c]))
                 for c in range(C)]
        if bins == 1024:
            far.append((scale, k, [a for a, _ in exact]))
            check(k, ("auroc",), f"{label}: AUROC near the exact one", np.mean([a for a, _ in exact]), 1e-3)
            check(k, ("map",), f"{label}: mean average precision near the exact one", np.mean([b for _, b in exact]), 3e-3)
        binned = [(auroc(at[known[:, c], c], yes[known[:, c], c]), average_precision(at[known[:, c], c], yes[known[:, c], c]))
                  for c in range(C)]
        for c in range(C):
            check(k, ("classes", c, "auroc"), f"{label}: AUROC of class {c}", binned[c][0])
            check(k, ("classes", c, "average_precision"), f"{label}: average precision of class {c}", binned[c][1])
        if tmc and scale == "probability":
            for c in range(C):
                a, b = torch.tensor(p[known[:, c], c]), torch.tensor(yes[known[:, c], c].astype(np.int64))
                check(k, ("classes", c, "auroc"), f"torchmetrics, {label}: AUROC of class {c}",
                      tmc.binary_auroc(a, b, thresholds=bins).item())
                check(k, ("classes", c, "average_precision"), f"torchmetrics, {label}: average precision of class {c}",
                      tmc.binary_average_precision(a, b, thresholds=bins).item())
        if sk and bins == 1024:
            for c in range(C):
                w = known[:, c]
                r.true(f"scikit-learn, {name}: AUROC of class {c}, the exact one",
                       abs(sk.roc_auc_score(yes[w, c], p[w, c]) - exact[c][0]) < 1e-9)
                r.true(f"scikit-learn, {name}: average precision of class {c}, the exact one",
                       abs(sk.average_precision_score(yes[w, c], p[w, c]) - exact[c][1]) < 1e-9)
        # the rates of a threshold of 1/2, where bins have an edge
        if scale == "odds" or bins % 2:
            for c in range(C):
                a, b = p[known[:, c], c] >= 0.5, yes[known[:, c], c]
                check(k, ("classes", c, "f1"), f"{label}: F1 of class {c} at 1/2", 2 * (a & b).sum() / (a.sum() + b.sum()))
            if tmc and y.dtype == np.float32 and bins == 1024:
                a, b = torch.tensor(p), torch.tensor(np.where(known, yes, -1).astype(np.int64))
                for how in ("macro", "micro", "weighted"):
                    for what, f in (("f1", tmc.multilabel_f1_score), ("precision", tmc.multilabel_precision),
                                    ("recall", tmc.multilabel_recall)):
                        check(k, (how, what), f"torchmetrics, {label}: {how} {what}",
                              f(a, b, C, average=how, ignore_index=-1).item())

# ---- a network that is sure: all scores of one bin of probability ----
y = rng.integers(0, 2, 4000)
x = np.stack([-np.abs(rng.standard_normal(4000)) * 3 - 8, np.zeros(4000)], 1).astype(np.float32)
x[:, 0] += 1.5 * (y == 0)
p = softmax(x)
sure = {}
for scale in ("odds", "probability"):
    got = Stage("score_histogram", {"scale": scale}, [x, y]).forward()["scores"]
    k = figures("scores", got)
    sure[scale] = (k, auroc(p[:, 1], y == 1))
check(sure["odds"][0], ("auroc",), "AUROC of a sure network, odds", sure["odds"][1], 1e-4)

# ---- calibration ----
for name, x, y, p, yes, known in cases():
    if y.dtype == np.float32 or x.shape[1] == 1:
        confidence, right = p[known], yes[known]
    else:
        keep = known[:, 0]
        confidence, right = p.max(1)[keep], yes[np.arange(len(p)), p.argmax(1)][keep]
    ignore = {"ignore_index": 255} if y.dtype == np.uint8 else {}
    for bins in (15, 4):
        got = [Stage("calibration", {"bins": bins, **ignore}, [x, y], threads=t).forward()["reliability"] for t in (1, 2)]
        r.same(f"calibration, {name}, {bins} bins: by any team", got[0], got[1])
        at = np.minimum((confidence * bins).astype(np.int64), bins - 1)
        want = np.zeros((bins, 3), np.int64)
        np.add.at(want, at, np.stack([np.ones_like(at), right, np.floor(confidence * 2.0 ** 24 + 0.5).astype(np.int64)], 1))
        r.true(f"calibration, {name}, {bins} bins", np.array_equal(got[0][:, :2], want[:, :2])
               and np.abs(got[0][:, 2] - want[:, 2]).max() <= 1, str(got[0] - want))
        k = figures("calibration", got[0])
        gaps = [(abs(right[at == b].mean() - confidence[at == b].mean()), np.mean(at == b)) for b in range(bins) if (at == b).any()]
        check(k, ("ece",), f"calibration, {name}, {bins} bins: ECE", sum(a * b for a, b in gaps))
        check(k, ("mce",), f"calibration, {name}, {bins} bins: MCE", max(a for a, b in gaps))
        if tmc:
            a, b = torch.tensor(confidence), torch.tensor(right.astype(np.int64))
            for key, norm in (("ece", "l1"), ("mce", "max")):
                check(k, (key,), f"torchmetrics, {name}, {bins} bins: {key}", tmc.binary_calibration_error(a, b, bins, norm).item())
            if x.shape[1] > 1 and y.dtype != np.float32:
                a, b = torch.tensor(p), torch.tensor(np.where(known[:, 0], yes.argmax(1), -1))
                for key, norm in (("ece", "l1"), ("mce", "max")):
                    check(k, (key,), f"torchmetrics of classes, {name}, {bins} bins: {key}",
                          tmc.multiclass_calibration_error(a, b, x.shape[1], bins, norm, ignore_index=-1).item())

# ---- numbers ----
def limbs(row):
    return sum(int(v) * Fraction(2) ** (24 * i - 312) for i, v in enumerate(row))


for name, shape, scale, shift in (("numbers", (500, 3), 1.0, 0.0), ("one number", (333, 1), 1.0, 0.0), ("a list", (200,), 1.0, 0.0),
                                  ("maps", (2, 2, 31, 17), 1.0, 0.0), ("large ones", (400, 2), 1e30, 0.0),
                                  ("small ones", (400, 2), 1e-35, 0.0), ("far from 0", (400, 2), 1.0, 1000.0)):
    y = (rng.standard_normal(shape) * scale + shift).astype(np.float32)
    x = (y + 0.3 * scale * rng.standard_normal(shape) + 0.1 * scale).astype(np.float32)
    y[rng.random(shape) < 0.1] = np.nan
    orders = (ROW_MAJOR, CHANNELS_LAST) if len(shape) == 4 else (ROW_MAJOR,)
    got = [Stage("deviation", {}, [x, y], order=[a, b] if len(shape) == 4 else ROW_MAJOR, threads=2).forward()["deviations"]
           for a in orders for b in orders]
    r.true(f"{name}: the same in any order of memory", all(np.array_equal(got[0], g) for g in got))
    shuffled = rng.permutation(shape[0])
    r.same(f"{name}: the same in any order", got[0], Stage("deviation", {}, [x[shuffled], y[shuffled]]).forward()["deviations"])
    a, b = (v.reshape(-1, 1) if v.ndim == 1 else columns(v) for v in (x, y))
    k = figures("deviation", got[0])
    wants = []
    for c in range(a.shape[1]):
        w = ~np.isnan(b[:, c])
        u, v = a[w, c].astype(np.float64), b[w, c].astype(np.float64)
        d = u - v
        for row, addends in ((1, np.abs(d)), (2, d), (3, d * d), (4, v), (5, v * v)):
            r.true(f"{name}: sum {row} of column {c} is exact", limbs(got[0][c][row]) == sum(map(Fraction, addends.tolist())))
        spread = float(sum(map(Fraction, (v * v).tolist())) - sum(map(Fraction, v.tolist())) ** 2 / len(v))
        wants.append((np.abs(d).mean(), math.sqrt((d * d).mean()), d.mean(), 1 - (d * d).sum() / spread))
        for i, key in enumerate(("mae", "rmse", "bias", "r2")):
            check(k, ("columns", c, key), f"{name}: {key} of column {c}", wants[-1][i], 1e-6 * (1 if key == "r2" else scale))
    known = ~np.isnan(b)
    u, v = a[known].astype(np.float64), b[known].astype(np.float64)
    check(k, ("mae",), f"{name}: MAE", np.abs(u - v).mean(), 1e-6 * scale)
    check(k, ("rmse",), f"{name}: RMSE", math.sqrt(((u - v) ** 2).mean()), 1e-6 * scale)
    check(k, ("bias",), f"{name}: bias", (u - v).mean(), 1e-6 * scale)
    check(k, ("r2",), f"{name}: R2", np.mean([w[3] for w in wants]))
    if tm and scale == 1:
        u, v = torch.tensor(u), torch.tensor(v)
        check(k, ("mae",), f"torchmetrics, {name}: MAE", tm.mean_absolute_error(u, v).item())
        check(k, ("rmse",), f"torchmetrics, {name}: RMSE", tm.mean_squared_error(u, v, squared=False).item())
        for c in range(a.shape[1]):
            w = ~np.isnan(b[:, c])
            check(k, ("columns", c, "r2"), f"torchmetrics, {name}: R2 of column {c}",
                  tm.r2_score(torch.tensor(a[w, c].astype(np.float64)), torch.tensor(b[w, c].astype(np.float64))).item())
    if sk:
        for c in range(a.shape[1]):
            w = ~np.isnan(b[:, c])
            check(k, ("columns", c, "r2"), f"scikit-learn, {name}: R2 of column {c}",
                  sk.r2_score(b[w, c].astype(np.float64), a[w, c].astype(np.float64)))
lost = Stage("deviation", {}, [np.array([[1.0], [np.nan], [np.inf]], np.float32), np.array([[1.0], [2.0], [3.0]], np.float32)])
k = figures("deviation", lost.forward()["deviations"])
check(k, ("mae",), "an input that is no number: no MAE", math.nan)
check(k, ("not_finite",), "an input that is no number is counted", 2)


# ---- depths: Eigen et al. 2014, and KITTI's SILog, in NumPy's double ----
for name, shape, least, scale, offset in (("metres", (3, 1, 37, 41), 1e-3, 1.0, 0.0), ("standardised", (2, 1, 23, 29), 1e-3, 4.5, 12.0),
                                          ("two columns", (300, 2), 0.5, 1.0, 0.0), ("millimetres", (2, 1, 40, 40), 1.0, 1.0, 0.0),
                                          ("small ones", (900,), 1e-6, 1.0, 0.0), ("large ones", (900,), 1e-3, 1e25, 0.0)):
    y = rng.lognormal({"millimetres": 8, "small ones": -9}.get(name, 2), 1.0, shape)
    x = y * rng.lognormal(0.05, 0.3, shape)
    x.flat[::17] = -x.flat[::17]                        # predictions that no depth is
    y.flat[::13], y.flat[5::19] = np.nan, 0.0           # no value; values below `least`
    x, y = (np.where(np.isnan(v), v, (v - offset) / (scale if scale < 1e9 else 1.0)).astype(np.float32) for v in (x, y))
    params = {"least": least, "scale": scale, "offset": offset}
    orders = (ROW_MAJOR, CHANNELS_LAST) if len(shape) == 4 else (ROW_MAJOR,)
    got = [Stage("depth_error", params, [x, y], order=a, threads=t).forward()["depths"] for a in orders for t in (1, 2)]
    r.true(f"depths, {name}: the same by any team, in any order of memory", all(np.array_equal(got[0], g) for g in got))
    shuffled = rng.permutation(shape[0])
    r.same(f"depths, {name}: the same in any order", got[0], Stage("depth_error", params, [x[shuffled], y[shuffled]]).forward()["depths"])
    u, v = x.astype(np.float64) * scale + offset, y.astype(np.float64) * scale + offset
    known, low = v >= least, v < least
    u, v = np.maximum(u[known], least), v[known]
    gap, d, ratio = np.log(u) - np.log(v), u - v, np.maximum(u / v, v / u)
    k = figures("depth_error", got[0])
    check(k, ("n",), f"depths, {name}: counted", known.sum(), 0)
    check(k, ("low_targets",), f"depths, {name}: truth below least", low.sum(), 0)
    check(k, ("low_inputs",), f"depths, {name}: predictions below least", (x.astype(np.float64)[known] * scale + offset < least).sum(), 0)
    sq = np.mean(d * d / v)
    for key, want, tol in (("abs_rel", np.mean(np.abs(d) / v), 1e-6), ("sq_rel", sq, 1e-6 * max(1, sq)), ("rmse_log", math.sqrt(np.mean(gap ** 2)), 1e-6),
                           ("silog", 100 * math.sqrt(np.mean(gap ** 2) - np.mean(gap) ** 2), 1e-6), ("delta1", np.mean(ratio < 1.25), 1e-12),
                           ("delta2", np.mean(ratio < 1.25 ** 2), 1e-12), ("delta3", np.mean(ratio < 1.25 ** 3), 1e-12)):
        check(k, (key,), f"depths, {name}: {key}", want, tol)
    table = got[0].reshape(-1, 5, 24)
    sums = [float(sum(limbs(c[row]) for c in table)) for row in (3, 4)]
    r.true(f"depths, {name}: logarithms as NumPy's", np.isclose(sums[0], math.fsum(gap), rtol=1e-13, atol=1e-13 * len(gap))
           and np.isclose(sums[1], math.fsum(gap * gap), rtol=1e-13))
bounds = np.array([1.25, 1.5625, 1.953125, 1.0], np.float32)  # exact ratios are outside of their bound
k = figures("depth_error", Stage("depth_error", {}, [bounds, np.ones(4, np.float32)]).forward()["depths"])
for key, want in ("delta1", 0.25), ("delta2", 0.5), ("delta3", 0.75):
    check(k, (key,), f"depths: a ratio that is a bound, {key}", want, 0)
odd = Stage("depth_error", {}, [np.array([np.nan, np.inf, 2, 1, 1e38], np.float32), np.array([1, 1, np.inf, 1, 1], np.float32)]).forward()["depths"]
k = figures("depth_error", odd)
check(k, ("not_finite",), "depths: what is not finite is counted", 4, 0)
check(k, ("abs_rel",), "depths: and there is no AbsRel", math.nan)
r.fails("depths: shape", "input and target have different shapes", lambda: Stage("depth_error", {}, [bounds, bounds[:2]]))


# ---- boundaries ----
def edges(mask):
    """DAVIS's seg2bmap at the mask's own size."""
    e, s, se = np.zeros_like(mask), np.zeros_like(mask), np.zeros_like(mask)
    e[:, :-1], s[:-1], se[:-1, :-1] = mask[:, 1:], mask[1:], mask[1:, 1:]
    b = mask ^ e | mask ^ s | mask ^ se
    b[-1] = mask[-1] ^ e[-1]
    b[:, -1] = mask[:, -1] ^ s[:, -1]
    b[-1, -1] = False
    return b


def near(b, radius):
    """Dilated by a disc."""
    out, (h, w) = np.zeros_like(b), b.shape
    wide = np.pad(b, radius)
    for dy in range(-radius, radius + 1):
        for dx in range(-radius, radius + 1):
            if dy * dy + dx * dx > radius * radius:
                continue
            out |= wide[radius + dy:radius + dy + h, radius + dx:radius + dx + w]
    return out


def blobs(n, h, w, classes):
    seeds = rng.integers(0, [h, w], (n, 12, 2))
    label = rng.integers(0, classes, (n, 12))
    yy, xx = np.mgrid[:h, :w]
    out = np.zeros((n, h, w), np.int64)
    for i in range(n):
        out[i] = label[i][np.argmin((yy[..., None] - seeds[i, :, 0]) ** 2 + (xx[..., None] - seeds[i, :, 1]) ** 2, -1)]
    return out


for shape, classes, tolerance in (((3, 40, 56), 5, 0), ((2, 33, 17), 3, 2), ((1, 64, 64), 2, 3), ((2, 9, 7), 4, 20), ((2, 1, 13), 3, 1)):
    y = blobs(*shape, classes)
    guess = np.where(rng.random(y.shape) < 0.02, rng.integers(0, classes, y.shape), np.roll(y, 2, 2))
    x = (np.moveaxis(np.eye(classes)[guess], -1, 1) * 3 + rng.random((shape[0], classes) + shape[1:])).astype(np.float32)
    radius = tolerance or math.ceil(0.008 * math.hypot(*shape[1:]))
    want = np.zeros((classes, 4), np.int64)
    for i in range(shape[0]):
        for c in range(classes):
            a, b = edges(guess[i] == c), edges(y[i] == c)
            want[c] += [a.sum(), (a & near(b, radius)).sum(), b.sum(), (b & near(a, radius)).sum()]
    for order in (ROW_MAJOR, CHANNELS_LAST):
        got = Stage("boundary", {"tolerance": tolerance}, [x, y], order=[order, ROW_MAJOR]).forward()["boundaries"]
        r.same(f"boundaries of {shape}, tolerance {tolerance}, order {order:x}", got, want)
    k = figures("boundary", got)
    with np.errstate(invalid="ignore", divide="ignore"):
        precision, recall = np.nan_to_num(want[:, 1] / want[:, 0]), np.nan_to_num(want[:, 3] / want[:, 2])
        f = np.nan_to_num(2 * precision * recall / (precision + recall))
    check(k, ("f1",), f"boundary F1 of {shape}", f[want[:, 0] + want[:, 2] > 0].mean())
    some = y.copy()
    some[:, :, : shape[2] // 2] = 255          # as if the image began later
    got = Stage("boundary", {"tolerance": radius, "ignore_index": 255}, [x, some]).forward()["boundaries"]
    half = Stage("boundary", {"tolerance": radius}, [x[..., shape[2] // 2:].copy(), y[:, :, shape[2] // 2:].copy()])
    r.same(f"labels that do not count in {shape}", got, half.forward()["boundaries"])
one = blobs(2, 20, 20, 2).astype(np.uint8)
x = (one[:, None] * 2.0 - 1 + rng.standard_normal((2, 1, 20, 20))).astype(np.float32)
two = np.concatenate([np.zeros_like(x), x], 1)
r.same("one logit is two classes", Stage("boundary", {}, [x, one]).forward()["boundaries"],
       Stage("boundary", {}, [two, one]).forward()["boundaries"])

# ---- what is refused ----
x, y = rng.standard_normal((4, 3)).astype(np.float32), np.array([0, 1, 3, 2])
for stage in ("score_histogram", "calibration"):
    r.fails(f"{stage}: label", "sample 2: label 3 is outside 0..2", lambda: Stage(stage, {}, [x, y]).forward())
    r.fails(f"{stage}: one logit", "sample 3: label 2 is outside 0..1", lambda: Stage(stage, {}, [x[:, :1], np.array([0, 1, 1, 2])]).forward())
    t = np.zeros((4, 3), np.float32)
    t[1, 2] = 7
    r.fails(f"{stage}: target", "sample 1: the target of class 2 is above 1", lambda: Stage(stage, {}, [x, t]).forward())
    r.fails(f"{stage}: shape", "float targets have another shape than the logits", lambda: Stage(stage, {}, [x, t[:, :2]]))
r.fails("bins of odds", 'bins = 100: scale = "odds" takes a power of two from 64 on', lambda: Stage("score_histogram", {"bins": 100}, [x, y]))
r.fails("boundary: label", "sample 1: label 9 is outside 0..1",
        lambda: Stage("boundary", {}, [two, np.where(np.arange(800).reshape(2, 20, 20) == 444, 9, 0)]).forward())
r.fails("deviation: shape", "input and target have different shapes", lambda: Stage("deviation", {}, [x, x[:, :2]]))

told = settle()
for scale in ("odds", "probability"):
    most = max(abs(told[k]["classes"][c]["auroc"] - a) for s, k, exact in far if s == scale for c, a in enumerate(exact))
    k, exact = sure[scale]
    print(f"AUROC of 1024 bins of {scale}: at most {most:.1e} from the exact one; of a sure network {abs(told[k]['auroc'] - exact):.1e}")
r.exit()
