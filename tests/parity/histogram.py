# SPDX-License-Identifier: MIT
# needs: images
"""The set shapes with one shape a picture: a classifier that sees an image's colours alone does not learn the class."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from spstage import Report, Stage, torch_or_skip

import numpy as np

torch = torch_or_skip()
TRAIN, VAL, SIDE, BINS = 3072, 1024, 64, 8


def pictures(n, first):
    """Images N x 3 x H x W, labels and masks of samples first.."""
    st = Stage("reader", {"path": "shapes", "target": "class", "size": SIDE, "samples": TRAIN + VAL}, batch=n,
               training=False, device="cpu")
    for i in range(n):
        st.set_id(i, first + i)
    out = st.forward()
    return out["image"], out["label"].astype(np.int64), out["mask"]


def histograms(images):
    """Of the colours of each image, BINS levels a channel, as shares."""
    q = images.astype(np.int64) * BINS // 256
    joint = (q[:, 0] * BINS + q[:, 1]) * BINS + q[:, 2]
    return np.stack([np.bincount(x.ravel(), minlength=BINS ** 3) for x in joint]) / float(SIDE * SIDE)


def best_accuracy(x, y, vx, vy, hidden, epochs=20):
    """The best on the validation part over all epochs, so rather too good than too bad."""
    torch.manual_seed(0)
    x, vx = (torch.tensor(a, dtype=torch.float32) for a in (x, vx))
    mean, std = x.mean(0), x.std(0) + 1e-3
    x, vx, y, vy = (x - mean) / std, (vx - mean) / std, torch.tensor(y), torch.tensor(vy)
    n_in = x.shape[1]
    net = torch.nn.Linear(n_in, 5) if not hidden else torch.nn.Sequential(
        torch.nn.Linear(n_in, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 5))
    opt, best = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-2), 0.0
    for _ in range(epochs):
        for part in torch.randperm(len(x)).split(64):
            opt.zero_grad()
            torch.nn.functional.cross_entropy(net(x[part]), y[part]).backward()
            opt.step()
        with torch.no_grad():
            best = max(best, (net(vx).argmax(1) == vy).float().mean().item())
    return best


r = Report()
images, labels, masks = pictures(TRAIN + VAL, 0)
counts = np.bincount(labels, minlength=5)
r.true(f"five classes, about equally many: {counts}", len(counts) == 5 and counts.min() > 0.9 * counts.mean())
h = histograms(images)
# the fitting works: of two classes of brightness it finds all
bright = images.mean((1, 2, 3))
two = (bright > np.median(bright)).astype(np.int64)
easy = best_accuracy(h[:TRAIN], two[:TRAIN], h[TRAIN:], two[TRAIN:], 0)
r.true(f"brightness from colours: {easy:.3f}", easy > 0.9)
area = np.stack([(masks > 0).mean((1, 2))], 1)
for name, features, hidden in [("colour histogram, logistic regression", h, 0),
                               ("colour histogram, a hidden layer", h, 32),
                               ("most frequent colours' shares, a hidden layer", np.sort(h, 1)[:, :-33:-1].copy(), 32),
                               ("share of labelled pixels, a hidden layer", area, 32)]:
    a = best_accuracy(features[:TRAIN], labels[:TRAIN], features[TRAIN:], labels[TRAIN:], hidden)
    r.true(f"{name}: accuracy {a:.3f}, chance is 0.2", a < 0.5)
r.exit()
