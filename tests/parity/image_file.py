# SPDX-License-Identifier: MIT
"""Image files as the reader and as Pillow read them: what images.py and image_kinds.py share."""
import os
import struct
import sys

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(os.path.dirname(os.path.abspath(__file__)), "../corpus")]
from spstage import Report, Stage, StageError

import numpy as np

try:
    from PIL import Image, ImageOps
except ImportError as e:
    print(f"skipped: {e} (Debian: apt install python3-pil)")
    sys.exit(77)

r = Report()
rng = np.random.default_rng(11)
LEFT_OUT = os.environ.get("SP_LEFT_OUT_FORMATS", "").split()
ORIENTATION = 0x0112
n_files = 0


def picture(h, w, channels=3):
    """Smooth, with an edge and noise, so that chroma, ringing and rounding all show."""
    y, x = np.mgrid[0:h, 0:w]
    a = np.stack([x * 255 / max(1, w - 1), y * 255 / max(1, h - 1), (x * 7 + y * 13) % 256, (x + y) * 3 % 256], 2)
    a[h // 3:h // 2, w // 4:w // 2] = (250, 10, 60, 128)
    return np.clip(a + rng.normal(0, 12, a.shape), 0, 255).astype(np.uint8)[:, :, :channels]


def files():
    return n_files


def read(path, h, w, **more):
    st = Stage("reader", {"files": [[path]], "size": [h, w], "workers": 1, "max_bad": 0, **more}, batch=1,
               training=False, device="cpu")
    return np.moveaxis(st.forward()["image"][0], 0, -1)


def rgb_of(image):
    """Pillow's convert("RGB"); of 16 bits of grey, which it clips, the high byte."""
    if image.mode.startswith("I"):
        grey = (np.asarray(image).astype(np.int64) >> 8).astype(np.uint8)
        return np.repeat(grey[:, :, None], 3, 2)
    return np.asarray(image.convert("RGB"))


def compare(name, path, most, twin=None):
    """With twin, a file of the same pixels, for what Pillow makes of them."""
    global n_files
    n_files += 1
    for orient in (True, False):
        image = Image.open(twin or path)
        want = rgb_of(ImageOps.exif_transpose(image) if orient else image)
        try:
            got = read(path, *want.shape[:2], orient=orient)
        except StageError as e:
            r.true(name, False, str(e))
            return
        off = np.abs(got.astype(int) - want.astype(int))
        r.true(f"{name}{'' if orient else ', as stored'}", off.max() <= most,
               f"{(off > most).sum()} values differ, by up to {off.max()}")


def known(tmp, name, data, ending, want, **more):
    """A file whose pixels the case knows, as no other library here reads it, or reads it wrong."""
    global n_files
    n_files += 1
    path = f"{tmp}/{n_files}.{ending}"
    with open(path, "wb") as f:
        f.write(data)
    try:
        r.same(f"{ending} {name}", read(path, *want.shape[:2], **more), want)
    except StageError as e:
        r.true(f"{ending} {name}", False, str(e))


def save(tmp, name, image, ending, most=0, orientation=0, **options):
    path = f"{tmp}/{n_files}.{ending}"
    if orientation:
        exif = Image.Exif()
        exif[ORIENTATION] = orientation
        options["exif"] = exif.tobytes()
    image.save(path, **options)
    twin = None
    if orientation and ending == "tif":  # some versions of Pillow turn these twice
        twin = f"{tmp}/twin.png"
        image.save(twin, exif=options["exif"])
    h, w = image.height, image.width
    compare(f"{ending} {name} {h}x{w}{f' orientation {orientation}' if orientation else ''}", path, most, twin)


def given(tmp, name, data, ending, most=0):
    """A file that Pillow cannot write, and reads."""
    path = f"{tmp}/{n_files}.{ending}"
    with open(path, "wb") as f:
        f.write(data)
    compare(f"{ending} {name}", path, most)


def bmp(w, h, bits, rows, compression=0, colours=b"", masks=b"", header=40, used=0):
    """The bytes of a BMP file; rows: all of its pixels."""
    head = struct.pack("<IiiHHIIiiII", header, w, h, 1, bits, compression, len(rows), 2835, 2835, used, 0)
    if header == 12:
        head = struct.pack("<IHHHH", 12, w, h, 1, bits)
    head += masks + bytes(max(0, header - len(head) - len(masks)))
    at = 14 + len(head) + len(colours)
    return b"BM" + struct.pack("<IHHI", at + len(rows), 0, 0, at) + head + colours + rows
