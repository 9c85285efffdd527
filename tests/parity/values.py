# SPDX-License-Identifier: MIT
# needs: images
# needs no torch
"""Masks as TIFF and .npy of every type against tifffile and NumPy: the same numbers, pixel for pixel."""
import os
import sys
import tempfile

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(os.path.dirname(os.path.abspath(__file__)), "../corpus")]
from formats import png, tiff
from spstage import Report, Stage

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
    print("tifffile is not there: TIFF is compared with Pillow alone (Debian: apt install python3-tifffile)")

r = Report()
rng = np.random.default_rng(7)
LEFT_OUT = os.environ.get("SP_LEFT_OUT_FORMATS", "").split()


def read(tmp, h, w, **more):
    st = Stage("reader", {"path": tmp, "size": [h, w], "workers": 1, "max_bad": 0, "classes": 200, **more}, batch=1,
               training=False, device="cpu")
    return st.forward()["mask"][0]


def compare(name, save, want, **more):
    """save(path without an ending) -> the file; want: the labels."""
    with tempfile.TemporaryDirectory() as tmp:
        for folder in ("images", "masks"):
            os.mkdir(f"{tmp}/{folder}")
        h, w = want.shape
        Image.fromarray(np.zeros((h, w, 3), np.uint8)).save(f"{tmp}/images/0.png")
        save(f"{tmp}/masks/0")
        got = read(tmp, h, w, **more)
        r.true(name, np.array_equal(got, want), f"{(got != want).sum()} of {want.size} labels differ")


TYPES = ["u1", "i1", "<u2", ">u2", "<i2", "<u4", ">i4", "<i8", "<u8", "<f2", ">f4", "<f8"]
for t in TYPES:
    for h, w in ((1, 1), (7, 5), (33, 40)):
        a = rng.integers(0, 120, (h, w)).astype(t)
        compare(f"npy {t} {h}x{w}", lambda p: np.save(p + ".npy", a), a.astype(np.uint8))
        if tifffile and "tiff" not in LEFT_OUT and t[-2:] not in ("i8", "u8"):
            compare(f"tiff {t} {h}x{w}", lambda p: tifffile.imwrite(p + ".tif", a, byteorder=t[0] if t[0] in "<>" else None),
                    a.astype(np.uint8))

one = rng.integers(0, 200, (40, 33))
hot = np.eye(200, dtype=np.uint8)[one]
compare("npy planes, C last", lambda p: np.save(p + ".npy", hot), one)
compare("npy planes, C first", lambda p: np.save(p + ".npy", np.ascontiguousarray(np.moveaxis(hot, 2, 0))), one)
wide = one * 300
values = ",".join(f"{k * 300}={k}" for k in range(200))
compare("npy with mask_values", lambda p: np.save(p + ".npy", wide), one, mask_values=values)
compare("png of 16 bits with mask_values", lambda p: Image.fromarray(wide.astype(np.uint16)).save(p + ".png"), one, mask_values=values)
compare("png of 16 bits, divided", lambda p: Image.fromarray((one * 300 + 299).astype(np.uint16)).save(p + ".png"),
        np.where(one == 0, 255, one), mask_values="/300,299=ignore," + ",".join(f"{k}={k}" for k in range(1, 200)))



def put(ending, data):
    def f(p):
        with open(f"{p}.{ending}", "wb") as file:
            file.write(data)
    return f


for bits in (1, 2, 4, 8):  # the values in the file, whatever they look like and whichever is clear
    few, palette = one % (1 << bits), (b"PLTE", rng.bytes(3 << bits))
    for interlaced in (False, True):
        name = f"{bits} bits, {'seven passes' if interlaced else 'rows'}"
        for clear in (False, True):
            compare(f"png grey of {name}, clear {clear}", put("png", png(few, bits, 0, [(b"tRNS", b"\0\1")] * clear, interlaced)), few)
            extra = [palette] + [(b"tRNS", b"\0\x80")] * clear
            compare(f"png palette of {name}, clear {clear}", put("png", png(few, bits, 3, extra, interlaced)), few)
if "tiff" not in LEFT_OUT:
    for bits in (1, 2, 3, 4, 6, 7, 9, 10, 12, 14, 15):
        few = one % min(200, 1 << bits)
        compare(f"tiff of {bits} bits", put("tif", tiff(few.astype(np.uint16), bits=bits)), few)
    for t in ("f2", "f4", "f8"):
        for order in "<>":
            compare(f"tiff {t} {order}, predictor 3, BigTIFF", put("tif", tiff(one.astype(t), order, predictor=True, big=True)), one)

if "tiff" not in LEFT_OUT:
    byte = one.astype(np.uint8)
    for compression in (None, "tiff_lzw", "tiff_deflate", "packbits"):
        compare(f"tiff of Pillow, {compression}", lambda p: Image.fromarray(byte).save(p + ".tif", compression=compression), byte)
    palette = Image.fromarray(byte, "P")
    palette.putpalette(list(rng.integers(0, 256, 768)))
    compare("tiff with a palette", lambda p: palette.save(p + ".tif"), byte)
    compare("tiff of a bit", lambda p: Image.fromarray(byte > 99).save(p + ".tif"), (byte > 99).astype(np.uint8))
if tifffile and "tiff" not in LEFT_OUT:
    big = rng.integers(0, 200, (130, 150)).astype(np.uint16)
    for name, how in {"tiles": {"tile": (32, 48)}, "several strips": {"rowsperstrip": 7}, "BigTIFF": {"bigtiff": True},
                      "deflate": {"compression": "zlib", "predictor": False}}.items():
        try:
            compare(f"tiff {name}", lambda p: tifffile.imwrite(p + ".tif", big, **how), big.astype(np.uint8))
        except ValueError as e:
            print(f"left out: {name}: {e}")
    for planar in ("contig", "separate"):
        a = np.moveaxis(hot, 2, 0) if planar == "separate" else hot
        for how in ({}, {"tile": (16, 16)}):
            compare(f"tiff planes, {planar} {how}",
                    lambda p: tifffile.imwrite(p + ".tif", np.ascontiguousarray(a), photometric="minisblack", planarconfig=planar, **how), one)

r.exit()
