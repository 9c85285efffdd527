# SPDX-License-Identifier: MIT
# needs: images
"""reader, to_float and argmax against Pillow, torchvision and PyTorch."""
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from spstage import CHANNELS_LAST, ROW_MAJOR, Report, Stage, torch_or_skip

import numpy as np

torch = torch_or_skip()
try:
    import torchvision.transforms.functional as TF
    from PIL import Image
    from torchvision.datasets import ImageFolder
except ImportError as e:
    print(f"skipped: {e} (Debian: apt install python3-torchvision python3-pil)")
    sys.exit(77)

r = Report()
rng = np.random.default_rng(3)


def picture(h, w):
    """Smooth, with edges and noise, so that chroma, ringing and rounding all show."""
    y, x = np.mgrid[0:h, 0:w]
    a = np.stack([x * 255 / max(1, w - 1), y * 255 / max(1, h - 1), (x * 7 + y * 13) % 256], 2)
    a[h // 3:h // 2, w // 4:w // 2] = (250, 10, 60)
    return np.clip(a + rng.normal(0, 12, a.shape), 0, 255).astype(np.uint8)


def read(path, h, w, workers=2):
    st = Stage("reader", {"files": [[path]], "size": [h, w], "workers": workers}, batch=1, training=False, device="cpu")
    return st.forward()["image"][0]


def planes(a):
    return np.ascontiguousarray(np.moveaxis(a, -1, 0))


with tempfile.TemporaryDirectory() as tmp:
    # decoding: Pillow's bits
    for h, w in [(1, 1), (8, 8), (17, 31), (120, 90), (5, 200), (211, 3)]:
        a = picture(h, w)
        for name, options in [("444", {"subsampling": 0}), ("422", {"subsampling": 1}), ("420", {"subsampling": 2}),
                              ("progressive", {"progressive": True}), ("q20", {"quality": 20}),
                              ("restart", {"subsampling": 2, "quality": 60, "optimize": True})]:
            path = f"{tmp}/{name}.jpg"
            Image.fromarray(a).save(path, **options)
            r.same(f"jpeg {name} {h}x{w}", read(path, h, w), planes(np.asarray(Image.open(path))))
        path = f"{tmp}/grey.jpg"
        Image.fromarray(a).convert("L").save(path)
        r.same(f"jpeg grey {h}x{w}", read(path, h, w), planes(np.asarray(Image.open(path).convert("RGB"))))
        for mode in ("RGB", "L", "P", "LA", "RGBA", "1"):
            path = f"{tmp}/a.png"
            Image.fromarray(a).convert(mode).save(path)
            # alpha is dropped, not blended: convert("RGB") of Pillow does the same
            r.same(f"png {mode} {h}x{w}", read(path, h, w), planes(np.asarray(Image.open(path).convert("RGB"))))

    # resizing: torchvision on float, rounded. Within the tolerance of a half either side is right.
    for (h, w), (oh, ow) in [((120, 90), (64, 64)), ((375, 500), (256, 256)), ((64, 64), (65, 63)),
                             ((33, 57), (100, 200)), ((7, 300), (64, 20)), ((300, 7), (20, 64)), ((1, 1), (3, 5)),
                             ((50, 40), (1, 1)), ((1000, 13), (256, 13)), ((256, 256), (64, 64)),
                             ((31, 31), (30, 32))]:
        a = picture(h, w)
        path = f"{tmp}/b.png"
        Image.fromarray(a).save(path)
        t = torch.tensor(planes(a)).float()[None]
        want = TF.resize(t, [oh, ow], interpolation=TF.InterpolationMode.BILINEAR, antialias=True)[0].numpy()
        ours = read(path, oh, ow, workers=1).astype(np.float64)
        over = np.abs(ours - want) - 0.5 - 5e-7 * 255
        r.true(f"resize {h}x{w} -> {oh}x{ow}", over.max() <= 0, f"{(over > 0).sum()} off, by up to {over.max():.2e}")

    # masks: nearest
    os.makedirs(f"{tmp}/d/images")
    os.makedirs(f"{tmp}/d/masks")
    for (h, w), (oh, ow) in [((120, 90), (64, 64)), ((30, 41), (97, 33)), ((7, 7), (3, 49)), ((48, 80), (40, 30))]:
        Image.fromarray(picture(h, w)).save(f"{tmp}/d/images/m.png")
        m = rng.integers(0, 21, (h, w)).astype(np.uint8)
        Image.fromarray(m).save(f"{tmp}/d/masks/m.png")
        st = Stage("reader", {"path": f"{tmp}/d", "classes": 21, "size": [oh, ow]}, batch=1, training=False,
                   device="cpu")
        want = TF.resize(torch.tensor(m)[None], [oh, ow], interpolation=TF.InterpolationMode.NEAREST)[0].numpy()
        r.same(f"mask {h}x{w} -> {oh}x{ow}", st.forward()["mask"][0], want)

# folders of classes: torchvision's classes, order and labels
with tempfile.TemporaryDirectory() as tmp:
    names = ["Zebra/B.JPG", "Zebra/a.png", "Zebra/b.jpeg", "_x/1.jpg", "a/z.jpg", "a/B/2.jpg", "a/b/1.PNG",
             "a/b-c/0.jpg", "a/b/c/0.jpg", "a/b/c.d/0.jpg", "a-b/9.jpg", "a-b/10.jpg", "a.b/only.Png", "b/deep/er/x.jpeg", "B/y.jpg",
             "\u00e9t\u00e9/q.jpg", "\u4e2d/\u6587.png", "z/a b.jpg", "z/a!b.jpg", "z/a.b.jpg", "z/ab.jpg"]
    for k in rng.permutation(len(names)):
        path = f"{tmp}/{names[k]}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Image.fromarray(np.full((1, 1, 3), 11 * k, np.uint8)).save(path)
    theirs = ImageFolder(tmp)
    st = Stage("reader", {"path": tmp, "target": "class", "size": 1}, batch=len(names), training=False, device="cpu")
    out = st.forward()
    r.same("classes of a folder", np.float64(st.attr("classes")), np.float64(len(theirs.classes)))
    r.same("labels of a folder", out["label"].astype(np.int64), np.array(theirs.targets))
    r.same("order of a folder", out["image"][:, 0, 0, 0],
           np.stack([np.asarray(theirs.loader(path))[0, 0, 0] for path, _ in theirs.samples]))

for order in (ROW_MAJOR, CHANNELS_LAST):
    a = rng.integers(0, 256, (2, 3, 17, 19)).astype(np.uint8)
    for scale, by in ((False, 1.0), (True, 1.0 / 255)):
        want = (torch.tensor(a).float() * np.float32(by)).numpy()
        ours = Stage("to_float", {"scale": scale}, [a], order=order).forward()["image"]
        r.same(f"to_float scale {scale} order {order:x}", ours, want)
    x = rng.standard_normal((2, 7, 31, 33)).astype(np.float32)
    want = torch.tensor(x).argmax(1).numpy().astype(np.uint8)
    r.same(f"argmax order {order:x}", Stage("argmax", {}, [x], order=order).forward()["mask"], want)

r.exit()
