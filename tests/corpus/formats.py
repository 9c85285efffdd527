# SPDX-License-Identifier: MIT
"""Files of numbers, byte by byte, as cases need them: .npy, PNG, TIFF."""
import io
import struct
import zlib

import numpy as np


ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]  # x, y, steps


def packed(rows, bits):
    """Bytes of each row, the high bits first."""
    rows = rows.reshape(len(rows), -1)
    if bits in (8, 16):
        return [row.astype(">u2" if bits == 16 else np.uint8).tobytes() for row in rows]
    places = np.arange(bits - 1, -1, -1)
    return [np.packbits((row[:, None].astype(np.int64) >> places & 1).astype(np.uint8)).tobytes() for row in rows]


def png(a, bits, kind, extra=(), interlaced=False):
    """Of the colour type `kind`, with chunks (name, bytes) in front of the pixels."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    parts = [a[y::dy, x::dx] for x, y, dx, dy in ADAM7] if interlaced else [a]
    rows = b"".join(b"\0" + row for part in parts if part.size for row in packed(part, bits))
    head = struct.pack(">IIBBBBB", a.shape[1], a.shape[0], bits, kind, 0, 0, interlaced)
    chunks = [(b"IHDR", head), *extra, (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(name, data) for name, data in chunks)


def png16(a):
    """A PNG of 16 bits: grey, or of 2 to 4 channels."""
    return png(a, 16, {1: 0, 2: 4, 3: 2, 4: 6}[a.reshape(*a.shape[:2], -1).shape[2]])


def npy(a):
    b = io.BytesIO()
    np.save(b, a)
    return b.getvalue()


def tiff_of(tags, strips, order="<", big=False):
    """A TIFF file of tags, {number: (letter of struct, values)}, and of strips, whose tags are added; strips None: there are none."""
    offset, count, entry = ("Q", "Q", 20) if big else ("I", "I", 12)
    if strips is not None:
        tags = {**tags, 273: (offset, [0] * len(strips)), 279: (offset, [len(s) for s in strips])}
    head = (b"II" if order == "<" else b"MM") + (struct.pack(order + "HHHQ", 43, 8, 0, 16) if big else struct.pack(order + "HI", 42, 8))
    first = struct.pack(order + ("Q" if big else "H"), len(tags))
    behind = len(head) + len(first) + entry * len(tags) + struct.calcsize(offset)
    begin = behind + sum(len(v) * struct.calcsize(k) for k, v in tags.values())  # of the strips: more than the values need
    if strips is not None:
        tags[273] = (offset, [begin + sum(map(len, strips[:i])) for i in range(len(strips))])
    table, extra = b"", b""
    for key, (letter, values) in sorted(tags.items()):
        raw = struct.pack(f"{order}{len(values)}{letter}", *values) if letter != "s" else bytes(values)
        code, n = {"s": 2, "H": 3, "I": 4, "Q": 16}[letter], len(values)
        if len(raw) > struct.calcsize(offset):
            place, extra = struct.pack(order + offset, behind + len(extra)), extra + raw
        else:
            place = raw.ljust(struct.calcsize(offset), b"\0")
        table += struct.pack(order + "HH" + count, key, code, n) + place
    return (head + first + table + bytes(struct.calcsize(offset)) + extra).ljust(begin, b"\0") + b"".join(strips or [])


def differences(a):
    """Rows as libtiff's predictor 3 has them: the high bytes of all numbers first, each byte less the one of the pixel before."""
    h, w, c = a.shape
    planes = np.moveaxis(a.astype(a.dtype.newbyteorder(">")).view(np.uint8).reshape(h, w * c, -1), 2, 1).reshape(h, -1)
    planes[:, c:] -= planes[:, :-c].copy()
    return planes.tobytes()


def tiff(a, order="<", planar=False, photometric=1, nodata=None, extra_samples=(), bits=0, predictor=False, big=False, tags=()):
    """H x W, or H x W x C, of one strip, or one a plane; bits: numbers without a gap between them; tags: further ones."""
    a = a[..., None] if a.ndim == 2 else a
    h, w, c = a.shape
    parts = [a[:, :, k:k + 1] for k in range(c)] if planar else [a]
    if bits:
        strips = [b"".join(packed(p, bits)) for p in parts]
    elif predictor:
        strips = [zlib.compress(differences(p)) for p in parts]
    else:
        strips = [p.astype(a.dtype.newbyteorder(order)).tobytes() for p in parts]
    found = {256: ("I", [w]), 257: ("I", [h]), 258: ("H", [bits or a.dtype.itemsize * 8] * c), 259: ("H", [8 if predictor else 1]),
             262: ("H", [photometric]), 277: ("H", [c]), 278: ("I", [h]), 284: ("H", [2 if planar else 1]),
             339: ("H", [{"u": 1, "i": 2, "f": 3}[a.dtype.kind]] * c)}
    if predictor:
        found[317] = ("H", [3])
    if extra_samples:
        found[338] = ("H", extra_samples)
    if nodata:
        found[42113] = ("s", nodata.encode() + b"\0")
    return tiff_of({**found, **dict(tags)}, strips, order, big)
