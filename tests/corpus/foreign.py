# SPDX-License-Identifier: MIT
# needs: onednn images jansson libarchive
# needs no torch
"""Files of other programs where data, pictures, shards or weights are wanted: each is named for what it is, with what converts it."""
import bz2
import io
import json
import lzma
import os
import struct
import sys
import tarfile
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from kit import Image, case, main, np

ZIP = b"PK\3\4" + bytes(26)
HDF = b"\x89HDF\r\n\x1a\n" + bytes(600)


def row(name, doc, make):
    def f(c):
        make(c)

    f.__name__, f.__doc__ = name, doc
    case(f)


DATA = (
    ("a.zip", ZIP + b"x/a.png" + bytes(90), "it is a zip archive; unpack it, or spcore_import.py a.zip -o NEW makes tar files of it"),
    ("a.parquet", b"PAR1" + bytes(90), "it is a Parquet file; spcore_import.py a.parquet -o NEW makes tar files of it"),
    ("a.arrow", b"ARROW1" + bytes(90), "it is an Arrow file; spcore_import.py a.arrow -o NEW"),
    ("data.mdb", bytes(16) + b"\xde\xc0\xef\xbe" + bytes(90), "it is an LMDB; spcore_import.py data.mdb -o NEW"),
    ("a.json", b'{"images": []}', "it is JSON, as of COCO or LabelMe: spcore_import.py a.json -o NEW"),
    ("a.tfrecord", b"\1" + bytes(90) + b"\2", "it is one of the files of records, to be converted: spcore_import.py"),
    ("a.npz", ZIP + b"x.npy" + bytes(90), "it is a NumPy archive (.npz)"),
    ("a.h5", HDF, "it is an HDF5 file"),
    ("a.mat", b"MATLAB 5.0 MAT-file" + bytes(600), "it is a MATLAB file; save its arrays as .npy"),
    ("a.nii", bytes(344) + b"n+1\0", "it is a NIfTI file"),
    ("a.pt", ZIP + b"archive/data.pkl" + bytes(90), "it is a file of PyTorch (a pickle)"),
    ("a.pkl", b"\x80\4\x95" + bytes(90), "it is a pickle of Python"),
)
for name, data, says in DATA:
    row(
        "data_" + name.replace(".", "_"),
        f"{name} where a folder of data is wanted",
        lambda c, name=name, data=data, says=says: (c.write(name, data), c.run(f"data {name}", 1, says)),
    )


@case
def folders_of_records(c):
    "a folder of Parquet files, and one of pickles"
    c.write("p/a/x.parquet", b"PAR1")
    c.run("data p", 1, ["1 file of records", "spcore_import.py FOLDER -o NEW"])
    c.write("q/a/x.pt", b"PK")
    c.run("data q", 1, "1 pickle of Python")


# ---- weights ----
WEIGHTS = (
    ("npz", ZIP + b"x.npy", "arrays of NumPy; save them under the names of the network's tensors"),
    ("npy", b"\x93NUMPY\1\0", "arrays of NumPy"),
    ("h5", HDF, "weights of Keras (HDF5)"),
    ("keras", ZIP + b"metadata.json", "weights of Keras"),
    ("mat", b"MATLAB 5.0 MAT-file" + bytes(90), "a file of MATLAB: scipy.io.loadmat reads"),
    ("gguf", b"GGUF\3" + bytes(90), "GGUF or GGML"),
    ("bin", b"lmgg" + bytes(90), "GGUF or GGML"),
    ("tflite", b"\x1c\0\0\0TFL3" + bytes(90), "tf2onnx makes ONNX of it, and spcore_convert.py NAME.onnx"),
    ("pb", b"\n\x1c" + bytes(90), "a file of TensorFlow"),
    ("msgpack", b"\x81\xa6params", "flax.serialization.msgpack_restore"),
    ("caffemodel", b"\n\x08AlexNet", "a file of Caffe"),
    ("engine", b"ftrt" + bytes(90), "built for one device"),
    ("param", b"7767517\n", "a description of layers"),
    ("zip", ZIP, "an archive: unpack it"),
    ("ckpt", bytes(90) + b"\1", "its ending is one of PyTorch, and its first bytes are not"),
    ("pth", ZIP + b"archive/data.pkl", "spcore_convert.py w.pth -o NAME writes NAME.safetensors"),
)
GO = "run train_cls.lua --samples 8 --size 32 --batch 4 --steps 1 --quiet --augment none --backbone resnet18 --out r --weights "
for ending, data, says in WEIGHTS:
    row(
        "weights_" + ending,
        f"w.{ending} where weights are wanted",
        lambda c, ending=ending, data=data, says=says: (c.write("w." + ending, data), c.run(GO + "w." + ending, 1, says)),
    )

for kind, bits in (("F8_E4M3", 8), ("F8_E5M2", 8), ("I4", 4), ("I8", 8), ("U8", 8)):

    def make(c, kind=kind, bits=bits):
        n = 64 * 3 * 7 * 7 * bits // 8
        head = json.dumps({"conv1.weight": {"dtype": kind, "shape": [64, 3, 7, 7], "data_offsets": [0, n]}}).encode()
        c.write("w.safetensors", struct.pack("<Q", len(head)) + head + bytes(n))
        c.run(GO + "w.safetensors", 1, "are a quantised network's: get the file of float32, float16 or bfloat16")

    row("weights_of_" + kind.lower(), f"safetensors with {kind}", make)


# ---- shards ----
def tar(names=("0.png", "0.cls", "1.png", "1.cls")):
    b, picture = io.BytesIO(), io.BytesIO()
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(picture, "PNG")
    with tarfile.open(fileobj=b, mode="w") as t:
        for name in names:
            data = picture.getvalue() if name.endswith("png") else b"0"
            info = tarfile.TarInfo(name)
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
    return b.getvalue()


SHARDS = (
    ("xz", lzma.compress(tar()), "it is compressed by xz; unpack it", ()),
    ("bzip2", bz2.compress(tar()), "it is compressed by bzip2; unpack it", ()),
    ("lz4", b"\x04\x22\x4d\x18" + bytes(600), "it is compressed by lz4; unpack it", ()),
    ("checksum", tar()[:148] + b"000000\0 " + tar()[156:], "is no tar, or its first header is damaged", "unpack it"),
)
for name, data, says, lacks in SHARDS:
    row(
        "tar_" + name,
        f"a tar that is {name}",
        lambda c, data=data, says=says, lacks=lacks: (c.write("a.tar", data), c.run("data a.tar", 1, says, lacks)),
    )


# ---- pictures ----
def classes(c, ending, data):
    for k in range(3):
        c.write(f"d/a/{k}.{ending}", data)
        c.image(f"d/b/{k}.png", 16)


@case
def animated_png(c):
    "an animated PNG: that the first picture alone is read is said"

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    b = io.BytesIO()
    Image.fromarray(c.picture(16, 16)).save(b, "PNG")
    still = b.getvalue()
    classes(c, "png", still[:33] + chunk(b"acTL", struct.pack(">II", 2, 0)) + still[33:])
    c.run("data d --check", says="d/a/0.png has several pictures, of which the first is read")
    classes(c, "png", still)
    c.run("data d --check", lacks="several pictures")


def tiff(a, form, tile=None):
    """H x W x C without compression: one strip, or tiles, which Pillow does not write."""
    h, w, n = a.shape
    bits = a.dtype.itemsize * 8
    parts = [a[y : y + tile, x : x + tile].tobytes() for y in range(0, h, tile) for x in range(0, w, tile)] if tile else [a.tobytes()]
    k, at = len(parts), 8
    entries, extra = [], b""
    rows = 13 if tile else 11
    end = 8 + 2 + 12 * rows + 4

    def tag(number, kind, values):
        nonlocal extra
        packed = struct.pack("<" + {3: "H", 4: "I"}[kind] * len(values), *values)
        if len(packed) > 4:
            packed, extra = struct.pack("<I", end + len(extra)), extra + packed
        entries.append(struct.pack("<HHI", number, kind, len(values)) + packed.ljust(4, b"\0"))

    sizes = [len(p) for p in parts]
    room = (0 if n < 3 else 2 * n) + (2 * n if n > 2 else 0) + (8 * k if k > 1 else 0)
    places = [end + room + sum(sizes[:i]) for i in range(k)]
    tag(256, 4, [w]), tag(257, 4, [h]), tag(258, 3, [bits] * n), tag(259, 3, [1]), tag(262, 3, [2 if n == 3 else 1])
    if not tile:
        tag(273, 4, places)
    tag(277, 3, [n])
    if not tile:
        tag(278, 4, [h]), tag(279, 4, sizes)
    tag(284, 3, [1])
    if tile:
        tag(322, 4, [tile]), tag(323, 4, [tile]), tag(324, 4, places), tag(325, 4, sizes)
    tag(339, 3, [form] * n)
    head = struct.pack("<2sHIH", b"II", 42, at, len(entries)) + b"".join(entries)
    body = head + bytes(end - len(head)) + extra
    assert len(entries) <= rows and len(extra) == room, (len(entries), len(extra), room)
    return body + b"".join(parts)


@case
def tiff_of_tiles(c):
    "a TIFF of small tiles without compression, as tifffile writes it, has the pixels of the PNG"
    a = c.picture(32, 32)
    c.write("d/a/0.tif", tiff(a, 1, 16))
    c.image("d/b/0.png", a)
    c.image("d/b/1.png", 32)
    c.run("data d --check", says=["all 3 samples can be used", "duplicates of two classes: 1 image"])


@case
def tiff_of_complex_numbers(c):
    "a TIFF of complex numbers: no option is proposed that does not help"
    classes(c, "tif", tiff(np.zeros((16, 16, 1), np.complex64), 6))
    c.run("data d --check", 1, "its numbers are complex, which are not read", "--dtype")


if __name__ == "__main__":
    main()
