# SPDX-License-Identifier: MIT
# needs: images
# needs no torch
"""Images of numbers: those that NumPy, Pillow and, where it is installed, tifffile have written, at their own size and at others."""
import os
import sys
import tempfile

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(os.path.dirname(os.path.abspath(__file__)), "../corpus")]
from formats import png16, tiff
from spstage import Report, Stage, StageError

import numpy as np

try:
    from PIL import Image
except ImportError as e:
    print(f"skipped: {e} (Debian: apt install python3-pil)")
    sys.exit(77)
try:
    import tifffile
except ImportError:
    tifffile = None

r = Report()
rng = np.random.default_rng(5)
LEFT_OUT = os.environ.get("SP_LEFT_OUT_FORMATS", "").split()
H, W = 37, 50


def picture(dtype, channels, h=H, w=W):
    """All bits of an integer, and floats of both signs."""
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return (rng.normal(0, 3, (h, w, channels)) + np.arange(channels)).astype(dtype)
    most = min(np.iinfo(dtype).max, 2**24)
    return rng.integers(0 if dtype.kind == "u" else -most, most, (h, w, channels)).astype(dtype)


def read(path, h, w, **more):
    st = Stage("reader", {"files": [[path]], "size": [h, w], "workers": 1, "max_bad": 0, **more}, batch=1, training=False, device="cpu")
    return np.moveaxis(st.forward()["image"][0], 0, -1)


def same(name, got, want, most=0.0):
    if got.shape != want.shape:
        r.true(name, False, f"{got.shape}, not {want.shape}")
        return
    off = np.abs(got.astype(np.float64) - want.astype(np.float64))
    r.true(name, off.max() <= most, f"{(off > most).sum()} values differ, by up to {off.max()}")


def exact(name, path, a, **more):
    try:
        same(name, read(path, *a.shape[:2], **more), a.astype(np.float32))
    except StageError as e:
        r.true(name, False, str(e))


def types(tmp):
    for form in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"):
        for channels in (1, 2, 4, 5, 13):
            a = picture(form, channels)
            for order in "<>":
                np.save(f"{tmp}/a.npy", a.astype(a.dtype.newbyteorder(order)))
                exact(f"npy {form}{order} of {channels}", f"{tmp}/a.npy", a, dtype="float32", channels=channels)
            np.save(f"{tmp}/a.npy", np.moveaxis(a, 2, 0).copy())
            exact(f"npy {form}, {channels} first", f"{tmp}/a.npy", a, dtype="float32", channels=channels)
            if "tiff" in LEFT_OUT:
                continue
            for planar in (False, True):
                with open(f"{tmp}/a.tif", "wb") as f:
                    f.write(tiff(a, "<>"[channels % 2], planar))
                exact(f"tiff {form} of {channels}, planar {planar}", f"{tmp}/a.tif", a, dtype="float32", channels=channels)
                if tifffile:
                    for how in ({}, {"tile": (16, 16)}, {"compression": "zlib"}):
                        layout = {"planarconfig": "separate" if planar else "contig"} if channels > 1 else {}
                        tifffile.imwrite(f"{tmp}/t.tif", a[..., 0] if channels == 1 else np.moveaxis(a, 2, 0) if planar else a,
                                         photometric="minisblack", **layout, **how)
                        exact(f"tifffile {form} of {channels}, planar {planar}, {how}", f"{tmp}/t.tif", a, dtype="float32", channels=channels)
            if form in ("u1", "u2"):
                np.save(f"{tmp}/a.npy", a)
                exact(f"{form} of {channels} as uint16", f"{tmp}/a.npy", a, dtype="uint16", channels=channels)
            if form == "u1" and channels != 1:
                exact(f"bytes of {channels}", f"{tmp}/a.npy", a, channels=channels)


def pictures(tmp):
    for channels in (1, 2, 3, 4):
        a = picture("u2", channels)
        with open(f"{tmp}/a.png", "wb") as f:
            f.write(png16(a))
        for dtype in ("uint16", "float32"):
            exact(f"png of {channels} x 16 bits as {dtype}", f"{tmp}/a.png", a, dtype=dtype, channels=channels)
    a = picture("u1", 4)
    Image.fromarray(a).save(f"{tmp}/a.png")
    exact("RGBA as bytes", f"{tmp}/a.png", a, channels=4)
    exact("RGBA as RGB floats", f"{tmp}/a.png", a[..., :3], dtype="float32")
    for image, name in ((Image.fromarray(a[..., :3]), "L of RGB"), (Image.fromarray(a[..., 0]), "L")):
        image.save(f"{tmp}/a.png")
        want = np.asarray(image.convert("F"), np.float32) if name == "L" else np.asarray(image.convert("RGB"), np.float64) @ [.299, .587, .114]
        same(f"brightness as mode F, {name}", read(f"{tmp}/a.png", H, W, dtype="float32", channels=1)[..., 0], want, 0.01)
    if "tiff" in LEFT_OUT:
        return
    for mode, form in (("F", "f4"), ("I;16", "u2")):
        plane = picture(form, 1)[..., 0]
        turns = {1: plane, 2: plane[:, ::-1], 3: plane[::-1, ::-1], 4: plane[::-1], 5: plane.T, 6: np.rot90(plane, -1), 7: plane[::-1, ::-1].T,
                 8: np.rot90(plane)}
        for way, want in turns.items():
            Image.fromarray(plane, mode).save(f"{tmp}/a.tif", tiffinfo={274: way})
            exact(f"Pillow's {mode}, orientation {way}", f"{tmp}/a.tif", want[..., None], dtype="float32", channels=1)


def sizes(tmp):
    a = picture("f4", 5)
    whole = picture("u2", 2)
    np.save(f"{tmp}/f.npy", a)
    np.save(f"{tmp}/u.npy", whole)
    for h, w in ((16, 16), (80, 64), (5, 120), (37, 25), (1, 1), (37, 50)):
        for name, how in (("bilinear", Image.BILINEAR), ("bicubic", Image.BICUBIC)):
            got = read(f"{tmp}/f.npy", h, w, dtype="float32", channels=5, interpolation=name)
            want = np.stack([np.asarray(Image.fromarray(a[..., c]).resize((w, h), how)) for c in range(5)], 2)
            same(f"{name} floats {h} x {w} as mode F", got, want, 2e-6 * (a.max() - a.min()))  # weights are float32, Pillow's double
            got = read(f"{tmp}/u.npy", h, w, dtype="uint16", channels=2, interpolation=name)
            want = np.stack([np.asarray(Image.fromarray(whole[..., c].astype(np.float32)).resize((w, h), how)) for c in range(2)], 2)
            want = np.clip(np.rint(want), 0, 65535)
            off = np.abs(got - want)
            r.true(f"{name} 16 bits {h} x {w}", off.max() <= 1 and (off > 0).mean() < 0.01 and (got == np.rint(got)).all(), f"{off.max()}")


def as_bytes(tmp):
    """Fitted as bytes are: two pictures side by side in six channels, and the same as floats, which are rounded here."""
    a = picture("u1", 6)
    np.save(f"{tmp}/six.npy", a)
    for k in range(2):
        np.save(f"{tmp}/{k}.npy", a[..., 3 * k:3 * k + 3].copy())
    for how in ({"resize": "squash"}, {"resize": "crop"}, {"resize": "pad"}, {"shorter": 40}):
        for h, w in ((24, 40), (33, 20), (40, 40)):
            for interpolation in ("bilinear", "bicubic"):
                try:
                    want = np.concatenate([read(f"{tmp}/{k}.npy", h, w, interpolation=interpolation, **how) for k in range(2)], 2)
                except StageError:
                    continue
                same(f"six channels {how} {h} x {w} {interpolation}",
                     read(f"{tmp}/six.npy", h, w, channels=6, interpolation=interpolation, **how), want)
                if interpolation == "bilinear":
                    got = read(f"{tmp}/six.npy", h, w, channels=6, dtype="float32", **how)
                    same(f"six channels as floats {how} {h} x {w}", np.rint(got), want)


def numbers(tmp):
    a = picture("f4", 2)
    a[3, 4, 0], a[5, 6, 1], a[7, 8, 0] = np.nan, np.inf, -9999
    np.save(f"{tmp}/n.npy", a)
    for more, fill in (({"nodata": "-9999"}, 0), ({"nodata": "-9999", "nodata_fill": "2.5"}, 2.5), ({"range": "-4,6", "nodata": "-9999"}, -4)):
        want = np.where(np.isfinite(a) & (a != -9999), a, np.float32(fill))
        if "range" in more:
            want = (want + 4) / 10
        same(f"no data {more}", read(f"{tmp}/n.npy", H, W, dtype="float32", channels=2, **more), want, 1e-6)
        small = np.stack([np.asarray(Image.fromarray(want[..., c]).resize((20, 20), Image.BILINEAR)) for c in range(2)], 2)
        same(f"no data {more}, resized", read(f"{tmp}/n.npy", 20, 20, dtype="float32", channels=2, **more), small, 1e-5)


with tempfile.TemporaryDirectory() as tmp:
    for part in (types, pictures, sizes, as_bytes, numbers):
        part(tmp)
print("tifffile: " + (tifffile.__version__ if tifffile else "not installed, so that TIFF files are those of tests/corpus/formats.py alone"))
r.exit()
