# SPDX-License-Identifier: MIT
"""TFRecord files of tf.train.Example: the framing with its CRC-32C, and what an Example has of protocol buffers."""

import gzip
import os
import re
import struct
import zlib

from .common import LeftOut, Refused, demand, part_of, shown, some
from .images import format_of

MOST_RECORD = 1 << 31
IMAGES = (
    "image/encoded",
    "image",
    "image_raw",
    "image/image_raw",
    "image_bytes",
    "jpeg",
    "jpg",
    "png",
    "encoded",
    "img",
    "image/data",
)
LABELS = ("image/class/label", "label", "class", "labels", "target", "image/label", "class/label", "category")
NAMES = ("image/class/text", "image/class/name", "label/text", "class_name", "label_name", "class/text", "text")
MASKS = (
    "image/segmentation/class/encoded",
    "image/segmentation/encoded",
    "mask",
    "segmentation",
    "segmentation_mask",
    "annotation",
    "label/encoded",
    "seg",
    "mask/encoded",
)
BLOCK = 4096


class Crc:
    """CRC-32C in NumPy: the contribution of each byte by its distance from the end of a block."""

    def __init__(self):
        import numpy as np

        self.np = np
        t = np.arange(256, dtype=np.uint32)
        for _ in range(8):
            t = np.where(t & 1, t >> 1 ^ np.uint32(0x82F63B78), t >> 1)
        self.one = t
        far = np.empty((BLOCK, 256), np.uint32)
        far[BLOCK - 1] = t
        for i in range(BLOCK - 2, -1, -1):
            far[i] = t[far[i + 1] & 255] ^ far[i + 1] >> 8
        self.flat, self.rows = far.ravel(), np.arange(0, BLOCK * 256, 256, dtype=np.intp)
        # A block of zeros behind: its effect on each byte of the sum so far.
        self.skip = [[int(self.one_block(v << 8 * k)) for v in range(256)] for k in range(4)]
        self.small = [int(v) for v in t]

    def one_block(self, crc):
        """The sum behind a block of zeros: as if it stood in the block's first four bytes."""
        x = 0
        for k in range(4):
            x ^= int(self.flat[k * 256 + (crc >> 8 * k & 255)])
        return x

    def __call__(self, data):
        n, np = len(data), self.np
        if n < 64:
            crc = 0xFFFFFFFF
            for b in data:
                crc = self.small[(crc ^ b) & 255] ^ crc >> 8
            return crc ^ 0xFFFFFFFF
        a = np.frombuffer(data, np.uint8).astype(np.intp)
        a[:4] ^= 255  # what the sum begins with
        first = n % BLOCK
        crc = int(np.bitwise_xor.reduce(self.flat[self.rows[BLOCK - first :] + a[:first]])) if first else 0
        for at in range(first, n, BLOCK):
            s = self.skip
            crc = s[0][crc & 255] ^ s[1][crc >> 8 & 255] ^ s[2][crc >> 16 & 255] ^ s[3][crc >> 24]
            crc ^= int(np.bitwise_xor.reduce(self.flat[self.rows + a[at : at + BLOCK]]))
        return crc ^ 0xFFFFFFFF


_crc = []


def masked(data):
    """As it stands in the file."""
    if not _crc:
        _crc.append(Crc())
    crc = _crc[0](data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


class Damaged(Exception):
    pass


def opened(path):
    f = open(path, "rb")
    magic = f.read(2)
    f.seek(0)
    if magic == b"\x1f\x8b":
        return gzip.GzipFile(fileobj=f)
    return f


def is_records(path):
    """The first twelve bytes are a length and its CRC-32C."""
    try:
        with opened(path) as f:
            head = f.read(12)
    except (OSError, EOFError, zlib.error):
        return False
    return len(head) == 12 and struct.unpack_from("<I", head, 8)[0] == masked(head[:8])


def records(f):
    """The records of a file, each after its check."""
    n = 0
    while True:
        try:
            head = f.read(12)
            if not head:
                return
            if len(head) < 12:
                raise Damaged(f"cut in the header of record {n}")
            (size,) = struct.unpack_from("<Q", head)
            if struct.unpack_from("<I", head, 8)[0] != masked(head[:8]):
                raise Damaged(f"the CRC-32C of the length of record {n} is wrong")
            if size > MOST_RECORD:
                raise Damaged(f"record {n} has {size} bytes; 2 GiB are possible")
            data = f.read(size)
            tail = f.read(4)
        except (EOFError, zlib.error, gzip.BadGzipFile) as why:
            raise Damaged(f"gzip ends behind record {n}: {shown(why)}") from None
        if len(data) < size or len(tail) < 4:
            raise Damaged(f"cut in record {n}, of {size} bytes")
        if struct.unpack("<I", tail)[0] != masked(data):
            raise Damaged(f"the CRC-32C of record {n} is wrong")
        yield data
        n += 1


# ---- protocol buffers ----
def varint(b, at, end):
    v = shift = 0
    while at < end and shift < 70:
        c = b[at]
        v |= (c & 127) << shift
        at += 1
        if c < 128:
            return v, at
        shift += 7
    raise ValueError("a number does not end")


def fields(b, at, end):
    """(number, wire type, value): numbers, or the place of bytes (begin, end)."""
    while at < end:
        tag, at = varint(b, at, end)
        kind = tag & 7
        if kind == 0:
            v, at = varint(b, at, end)
        elif kind in (1, 5, 2):
            if kind == 2:
                n, at = varint(b, at, end)
            else:
                n = 8 if kind == 1 else 4
            if n > end - at:
                raise ValueError("bytes reach beyond their message")
            v, at = (at, at + n), at + n
        else:
            raise ValueError(f"wire type {kind}")
        yield tag >> 3, kind, v


def values_of(b, at, end):
    """A Feature: a list of bytes, or of numbers."""
    out = []
    for number, kind, v in fields(b, at, end):
        if kind != 2 or number not in (1, 2, 3):
            raise ValueError("no Feature")
        for inner, k, x in fields(b, *v):
            if inner != 1:
                raise ValueError("no list")
            if number == 1 and k == 2:
                out.append(bytes(b[x[0] : x[1]]))
            elif number == 2 and k in (2, 5) and (x[1] - x[0]) % 4 == 0:
                out += struct.unpack(f"<{(x[1] - x[0]) // 4}f", b[x[0] : x[1]])
            elif number == 3 and k == 0:
                out.append(x - (1 << 64) if x >> 63 else x)
            elif number == 3 and k == 2:
                p = x[0]
                while p < x[1]:
                    w, p = varint(b, p, x[1])
                    out.append(w - (1 << 64) if w >> 63 else w)
            else:
                raise ValueError("no value of its list")
    return out


def example(data):
    """{ key: where its values are } of a tf.train.Example."""
    out = {}
    for number, kind, v in fields(data, 0, len(data)):
        if number != 1 or kind != 2:
            raise ValueError(
                "no tf.train.Example" + (" (a SequenceExample, whose images are frames)" if number == 2 else "")
            )
        for inner, k, entry in fields(data, *v):
            if inner != 1 or k != 2:
                raise ValueError("no map of features")
            key, value = b"", None
            for n, kk, x in fields(data, *entry):
                if n == 1 and kk == 2:
                    key = data[x[0] : x[1]]
                elif n == 2 and kk == 2:
                    value = x
            if value is not None:
                out[key.decode(errors="backslashreplace")] = value
    return out


class Records:
    def __init__(self, job, sources):
        demand("TFRecord", ("numpy", "numpy"))
        self.job, opt, self.parts, self.found = job, job.opt, {}, {}
        for s in sources:
            for f in [s] if os.path.isfile(s) else self.files_of(s):
                name = (
                    os.path.basename(f)
                    if os.path.isfile(s)
                    else os.path.relpath(f, os.path.dirname(os.path.abspath(s)))
                )
                self.parts.setdefault(part_of(name), []).append(f)
                job.file(f)
        if not self.parts:
            raise Refused(f"{some(sources)}: there is no file of TFRecord")
        first = next(f for p in self.parts.values() for f in p)
        self.choose(first, opt)

    @staticmethod
    def files_of(folder):
        out = []
        for at, folders, names in os.walk(folder):
            folders.sort()
            out += [
                os.path.join(at, n)
                for n in sorted(names)
                if n[0] != "." and (re.search(r"\.tfrec|-of-\d+(\.gz)?$", n) and is_records(os.path.join(at, n)))
            ]
        return out

    def choose(self, path, opt):
        try:
            with opened(path) as f:
                data = next(records(f), None)
            if data is None:
                raise Refused(f"{shown(path)} has no record")
            ex = example(data)
            first = {k: values_of(data, *v) for k, v in ex.items()}
        except (Damaged, ValueError, OSError) as why:
            raise Refused(f"{shown(path)}: record 0: {shown(why)}; records of tf.train.Example are wanted") from None
        pictures = [k for k, v in first.items() if v and isinstance(v[0], bytes) and format_of(v[0])]
        masks = [k for k in MASKS if k in first and k in pictures] or [
            k for k in pictures if re.search("mask|seg|annot", k)
        ]
        images = [k for k in IMAGES if k in pictures] or [k for k in pictures if k not in masks]
        labels = [k for k in LABELS if first.get(k)]
        self.image = self.given("image", opt.image, first) or self.one("image", images, first)
        masks = [k for k in masks if k != self.image]
        if opt.target is None and masks and labels and not opt.mask and not opt.label:
            raise Refused(
                f"the records have a label ({some(labels)}) and a mask ({some(masks)}): --target class or --target "
                "mask "
                "says which is wanted"
            )
        self.target = opt.target or ("mask" if opt.mask or masks and not opt.label else "class")
        if self.target == "mask":
            self.truth = self.given("mask", opt.mask, first) or self.one("mask", masks, first)
            self.job.mask_classes()
            return
        self.truth = self.given("label", opt.label, first) or self.one(
            "label", labels or [k for k in NAMES if first.get(k)], first
        )
        value = first[self.truth][:1]
        self.name = next((k for k in NAMES if first.get(k) and k != self.truth), None)
        if value and isinstance(value[0], float):
            raise Refused(
                f"{shown(self.truth)} has numbers with fractions, which are no classes; a CSV file may have such "
                "targets"
            )
        if value and isinstance(value[0], int) and self.job.classes is None and self.name is None:
            raise Refused(
                f"the labels of {shown(self.truth)} are numbers without names: --classes FILE has a name on each "
                "line, or "
                "--classes N says how many there are"
            )
        if self.job.classes is not None:
            self.name = None
        elif self.name and value and isinstance(value[0], int):
            self.job.say(f"the names of classes are those of {shown(self.name)}, in the order of {shown(self.truth)}")

    @staticmethod
    def given(what, key, first):
        if key and key not in first:
            raise Refused(f"--{what} {shown(key)}: the first record has no such key; it has: {some(first, 20)}")
        return key

    @staticmethod
    def one(what, keys, first):
        if len(keys) == 1:
            return keys[0]
        if keys:
            raise Refused(f"the keys {some(keys)} may each be the {what}: --{what} KEY says which")
        raise Refused(
            f"no key is known as the {what}: --{what} KEY says which; the first record has: {some(first, 20)}"
        )

    def items(self, part):
        row = 0
        for path in self.parts[part]:
            at = 0
            try:
                with opened(path) as f:
                    for data in records(f):
                        yield f"{row:09d}", (path, at), data, None
                        row += 1
                        at += 1
            except (Damaged, OSError) as why:
                self.job.damaged(f"{shown(path)}: {shown(why)}")

    def place(self, where):
        return f"{os.path.basename(where[0])} record {where[1]}"

    def value(self, data, ex, key, what):
        if key not in ex:
            raise LeftOut(f"the record has no {what}")
        v = values_of(data, *ex[key])
        if not v:
            raise LeftOut(f"the {what} of the record is empty")
        if len(v) > 1:
            raise LeftOut(f"the record has several values as its {what}")
        return v[0]

    def sample(self, where, data, _):
        try:
            ex = example(data)
            image = self.value(data, ex, self.image, "image")
            truth = self.value(data, ex, self.truth, self.target == "mask" and "mask" or "label")
            name = (
                self.value(data, ex, self.name, "name of its class") if self.target == "class" and self.name else None
            )
        except ValueError:
            raise LeftOut("the record is no tf.train.Example") from None
        if not isinstance(image, bytes):
            raise LeftOut("the image is no bytes")
        if self.target == "mask":
            return image, truth
        if name is not None and isinstance(truth, int):
            name = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
            return image, self.job.label_pair(truth, name)
        return image, self.job.label(truth.decode(errors="replace") if isinstance(truth, bytes) else truth)

    def summary(self):
        return {"image": self.image, self.target: self.truth}
