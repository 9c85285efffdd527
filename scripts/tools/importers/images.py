# SPDX-License-Identifier: MIT
"""Image files by their first bytes: format and size, what the reader does not take, and masks."""

import io
import re
import struct
import warnings
import zlib

from .common import NO_LABEL, LeftOut, demand

MOST_BYTES = 1 << 30  # of a file, in a shard
MOST_PIXELS = 1 << 28
# Endings of what the reader takes; others become PNG.
READ = {"jpeg": "jpg", "png": "png", "webp": "webp", "tiff": "tif", "gif": "gif", "bmp": "bmp", "ppm": "ppm"}


def format_of(data):
    """By the first bytes; None: no image that is known here."""
    if data[:3] == b"\xff\xd8\xff":
        return "jpeg"
    if data[:8] == b"\x89PNG\r\n\x1a\n":
        return "png"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    if data[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"):
        return "tiff"
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return "gif"
    if data[:2] == b"BM" and len(data) > 26:
        return "bmp"
    if data[:1] == b"P" and data[1:2] in b"123456" and data[2:3] in (b"\n", b"\r", b" ", b"\t", b"#"):
        return "ppm"
    if data[:8] == b"\0\0\0\x0cjP  " or data[:4] == b"\xff\x4f\xff\x51":
        return "jpeg 2000"
    if data[4:12] in (b"ftypavif", b"ftypavis"):
        return "avif"
    return None


def what_else(data):
    """Why these bytes are no image, in words."""
    if not data:
        return "the image has no bytes"
    if data[:11] == b"version htt":
        return "a Git LFS pointer instead of the image (`git lfs pull` brings it)"
    if data[:1] == b"\x80" and data[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return "a pickle of Python instead of an image file, which is never loaded"
    if data[:64].lstrip()[:1] in (b"<", b"{"):
        return "text instead of an image file"
    if data[:6] == b"\x93NUMPY":
        return "a NumPy array instead of an image file"
    if data[4:8] == b"ftyp":
        return "HEIC, which is not read; convert it to JPEG or PNG"
    return "no image file: its first bytes are those of no known format"


def jpeg_size(data):
    at, n = 2, len(data)
    while at + 9 < n:
        if data[at] != 0xFF:
            break
        marker = data[at + 1]
        if marker == 0xFF or 0xD0 <= marker <= 0xD8 or marker == 1:
            at += 1 if marker == 0xFF else 2
            continue
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            h, w = struct.unpack_from(">HH", data, at + 5)
            if data.rfind(b"\xff\xd9", at) < 0:
                raise LeftOut("the JPEG file is cut: it has no end")
            return w, h
        at += 2 + (data[at + 2] << 8 | data[at + 3])
    raise LeftOut("the JPEG file is cut or damaged: its header has no size")


def png_size(data):
    at, n = 8, len(data)
    while at + 12 <= n:
        (size,) = struct.unpack_from(">I", data, at)
        if at + 12 + size > n:
            raise LeftOut("the PNG file is cut")
        if data[at + 4 : at + 8] == b"IEND":
            break
        at += 12 + size
    if n < 33 or data[12:16] != b"IHDR":
        raise LeftOut("the PNG file is cut or damaged: its header has no size")
    return struct.unpack_from(">II", data, 16)


def webp_size(data):
    if len(data) < 30 or struct.unpack_from("<I", data, 4)[0] + 8 > len(data) + 1:
        raise LeftOut("the WebP file is cut")
    kind = data[12:16]
    if kind == b"VP8X":
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    return struct.unpack_from("<H", data, 26)[0] & 0x3FFF, struct.unpack_from("<H", data, 28)[0] & 0x3FFF


def gif_size(data):
    if len(data) < 14:
        raise LeftOut("the GIF file is cut")
    return struct.unpack_from("<HH", data, 6)


def bmp_size(data):
    if struct.unpack_from("<I", data, 14)[0] == 12:
        return struct.unpack_from("<HH", data, 18)
    w, h = struct.unpack_from("<ii", data, 18)
    if w < 0:
        raise LeftOut("the BMP file is damaged: its width is negative")
    return w, abs(h)


def ppm_size(data):
    found = re.match(rb"P[1-6](?:\s|#[^\n]*\n)+(\d{1,9})(?:\s|#[^\n]*\n)+(\d{1,9})\s", data[:4096])
    if not found:
        raise LeftOut("the PNM file is cut or damaged: its header has no size")
    return int(found[1]), int(found[2])


SIZES = {"jpeg": jpeg_size, "png": png_size, "webp": webp_size, "gif": gif_size, "bmp": bmp_size, "ppm": ppm_size}


def opened(data, what):
    """The image in Pillow, its pixels decoded."""
    demand(what, ("PIL", "Pillow"))
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Image.MAX_IMAGE_PIXELS = None  # looked at below
        try:
            im = Image.open(io.BytesIO(data))
            if im.width * im.height > MOST_PIXELS:
                raise LeftOut(f"an image of more than {MOST_PIXELS} pixels")
            im.load()
        except LeftOut:
            raise
        except Exception:  # Pillow has many, one for each decoder
            raise LeftOut(f"Pillow cannot decode {what}") from None
    return im


def head(data):
    """Format, width and height; LeftOut where it is no whole image."""
    kind = format_of(data)
    if kind is None:
        raise LeftOut(what_else(data))
    if len(data) > MOST_BYTES:
        raise LeftOut("the image has more than 1 GiB")
    size = SIZES.get(kind)
    w, h = size(data) if size else opened(data, f"the {kind.upper()} image").size
    if not w or not h:
        raise LeftOut("the image has no pixels")
    if w * h > MOST_PIXELS:
        raise LeftOut(f"an image of more than {MOST_PIXELS} pixels")
    return kind, w, h


def turned(data):
    """EXIF turns the image by a quarter."""
    im = opened(data, "the image, for its EXIF orientation,")
    return im.getexif().get(274) in (5, 6, 7, 8)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def grey_png(a):
    """An H x W array of bytes as a PNG file; the bytes depend on zlib alone."""
    import numpy as np

    h, w = a.shape
    rows = np.zeros((h, w + 1), np.uint8)
    rows[:, 1:] = a
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, 8, 0, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(rows.tobytes(), 4))
        + chunk(b"IEND", b"")
    )


def as_png(data, kind):
    """The pixels of a format that the reader does not take; of several frames the first."""
    im = opened(data, f"the {kind.upper()} image")
    out = io.BytesIO()
    if im.mode not in ("L", "RGB"):
        im = im.convert("L" if im.mode == "1" else "RGB")
    im.save(out, "PNG")
    return out.getvalue()


def ids_of(data):
    """A mask's numbers as H x W, or its colours as H x W x 3; and whether the reader takes the file as it is."""
    import numpy as np

    kind = format_of(data)
    if kind == "jpeg":
        raise LeftOut("the mask is a JPEG, whose values between the classes are noise; masks have to be PNG or TIFF")
    if kind is None:
        raise LeftOut("of the mask: " + what_else(data))
    head(data)
    im = opened(data, "the mask")
    if im.mode == "1":
        return np.asarray(im).astype(np.uint8), False
    if im.mode == "L" and kind == "png" and data[24] < 8:  # Pillow stretches 2 and 4 bits to 0..255
        return (np.asarray(im) // (255 // ((1 << data[24]) - 1))).astype(np.uint8), False
    if im.mode in ("L", "P"):
        return np.asarray(im), kind == "png"
    if im.mode in ("I", "I;16", "I;16B", "I;16L"):
        return np.asarray(im).astype(np.int64), False
    a = np.asarray(im.convert("RGBA" if im.mode in ("RGBA", "PA", "LA") else "RGB"))
    if a.shape[2] == 4:
        if (a[:, :, 3] != 255).any():
            raise LeftOut("the mask has an alpha channel that is not opaque: which of its pixels have a label?")
        a, kind = a[:, :, :3], "rgba"
    if (a[:, :, 0] == a[:, :, 1]).all() and (a[:, :, 1] == a[:, :, 2]).all():
        return a[:, :, 0], False  # grey, written as three channels
    return a, kind == "png"


def segment_ids(data):
    """The numbers of a PNG of COCO panoptic: red + 256 green + 65536 blue."""
    import numpy as np

    head(data)
    a = np.asarray(opened(data, "the PNG of segments"))
    if a.dtype != np.uint8 or a.ndim == 2:
        return a.astype(np.int64)
    if a.ndim != 3 or a.shape[2] not in (3, 4):
        raise LeftOut("the PNG of segments is neither RGB nor grey")
    a = a.astype(np.int64)
    return a[:, :, 0] + 256 * a[:, :, 1] + 65536 * a[:, :, 2]


def mask_of(data, size, table, classes, tally):
    """The mask as a PNG that the reader takes, of an image of this size (width, height)."""
    import numpy as np

    ids, as_is = ids_of(data)
    if ids.shape[1::-1] != tuple(size):
        raise LeftOut("the mask has another size than the image")
    if ids.ndim == 3:
        if table is not None:
            raise LeftOut("the mask has colours, and --map is for ids; --classes FILE gives classes their colours")
        if classes is None or classes.lines == classes.names:
            raise LeftOut(
                "the mask has colours; --classes FILE with a colour on each line (road #804080) says whose they are"
            )
        return data if as_is else as_png(data, "mask")
    if table is not None:
        ids, as_is = table.apply(ids), False
    if ids.max() > 255:
        raise LeftOut("the mask has ids above 255; --map FILE says which classes they are")
    tally += np.bincount(ids.astype(np.uint8).ravel(), minlength=256)
    wrong = ids[(ids >= len(classes.names)) & (ids != NO_LABEL)]
    if wrong.size:
        raise LeftOut(
            f"the mask has the label {int(wrong[0])}, and there are {len(classes.names)} classes (0 to "
            f"{len(classes.names) - 1}) and 255 for no label; --map FILE says what ids are"
        )
    return data if as_is else grey_png(ids.astype(np.uint8))
