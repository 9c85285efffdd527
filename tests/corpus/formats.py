# SPDX-License-Identifier: MIT
"""Files of numbers, byte by byte, as cases need them: .npy, PNG of 16 bits, TIFF."""
import io
import struct
import zlib

import numpy as np


def png16(a):
    """A PNG of 16 bits: grey, or of 2 to 4 channels."""
    a = a.reshape(*a.shape[:2], -1)
    kind = {1: 0, 2: 4, 3: 2, 4: 6}[a.shape[2]]

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in a)
    head = struct.pack(">IIBBBBB", a.shape[1], a.shape[0], 16, kind, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def npy(a):
    b = io.BytesIO()
    np.save(b, a)
    return b.getvalue()


def tiff(a, order="<", planar=False, photometric=1, nodata=None, extra_samples=()):
    """Of one strip, or one a plane, without compression: H x W, or H x W x C."""
    if a.ndim == 2:
        a = a[..., None]
    h, w, c = a.shape
    bits, form = a.dtype.itemsize * 8, {"u": 1, "i": 2, "f": 3}[a.dtype.kind]
    data = (np.moveaxis(a, 2, 0) if planar else a).astype(a.dtype.newbyteorder(order)).tobytes()
    strips, extra = c if planar else 1, bytearray()
    tags = []
    at = 8 + 2 + 12 * (11 + bool(extra_samples) + bool(nodata)) + 4

    def tag(key, values, kind="H"):
        raw = values if kind == "s" else struct.pack(order + kind * len(values), *values)
        code, n = {"s": 2, "H": 3, "I": 4}[kind], len(values)
        if len(raw) > 4:
            place = at + len(extra)
            extra.extend(raw)
            raw = struct.pack(order + "I", place)
        tags.append(struct.pack(order + "HHI", key, code, n) + raw.ljust(4, b"\0"))

    begin = at + 8 * c + 8 * strips + 96
    tag(256, [w], "I")
    tag(257, [h], "I")
    tag(258, [bits] * c)
    tag(259, [1])
    tag(262, [photometric])
    tag(273, [begin + k * (len(data) // strips) for k in range(strips)], "I")
    tag(277, [c])
    tag(278, [h], "I")
    tag(279, [len(data) // strips] * strips, "I")
    tag(284, [2 if planar else 1])
    if extra_samples:
        tag(338, extra_samples)
    tag(339, [form] * c)
    if nodata:
        tag(42113, nodata.encode() + b"\0", "s")
    file = (b"II" if order == "<" else b"MM") + struct.pack(order + "HI", 42, 8) + struct.pack(order + "H", len(tags)) + b"".join(tags)
    return (file + bytes(4) + extra).ljust(begin, b"\0") + data
