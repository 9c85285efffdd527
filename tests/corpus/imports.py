# SPDX-License-Identifier: MIT
# needs: images jansson libarchive
# needs no torch
"""Tables, TFRecord, LMDB and zip archives become shards by scripts/tools/spcore_import.py."""

import gzip
import io
import json
import os
import pickle
import shutil
import signal
import struct
import subprocess
import sys
import zipfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from importing import (
    TOOL,
    cures,
    encoded,
    imports,
    main,
    mask_at,
    members,
    needs,
    pictures,
    reads,
    spcore_import,
    tfrecord,
    zipped,
)  # noqa: E402
from kit import HANG, Image, case, np  # noqa: E402


# ---- Parquet and Arrow ----
def table(c, rows, names=None, image="image", label="label", meta=True):
    """As `datasets` writes it: structs of bytes and path, and names of classes in the schema's metadata."""
    import pyarrow as pa

    columns = {
        image: pa.array(
            [{"bytes": r[0], "path": f"{i}.png"} for i, r in enumerate(rows)],
            pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
        ),
        label: pa.array([r[1] for r in rows]),
    }
    t = pa.table(columns)
    if meta:
        features = {image: {"_type": "Image"}}
        if names:
            features[label] = {"names": names, "_type": "ClassLabel"}
        t = t.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    return t


def parquet(c, path, t, **how):
    import pyarrow.parquet as pq

    pq.write_table(t, c.path(path), **how)


@needs("pyarrow")
def parquet_of_hugging_face(c):
    "Parquet of Hugging Face in two parts: bytes, names and counts arrive"
    a, b = pictures(c, 7), pictures(c, 3)
    parquet(
        c,
        "d/data/train-00000-of-00002.parquet",
        table(c, [(x, i % 3) for i, x in enumerate(a[:4])], ["cat", "dog", "eel"]),
    )
    parquet(
        c,
        "d/data/train-00001-of-00002.parquet",
        table(c, [(x, i % 3) for i, x in enumerate(a[4:])], ["cat", "dog", "eel"]),
    )
    parquet(
        c,
        "d/data/validation-00000-of-00001.parquet",
        table(c, [(x, i) for i, x in enumerate(b)], ["cat", "dog", "eel"]),
    )
    r = imports(c, "@d", says="out: train: 7 samples in 1 shard", lacks="left out")
    got = members(c)
    assert [got[f"{i:09d}.png"] for i in range(7)] == a and [got[f"{i:09d}.cls"] for i in range(7)] == [
        b"cat",
        b"dog",
        b"eel",
        b"cat",
    ] + [b"cat", b"dog", b"eel"]
    doc = reads(c, "class", 7, 3)
    rep = r.report()
    assert rep["parts"]["train"]["samples of classes"] == {"cat": 3, "dog": 2, "eel": 2} and len(rep["sources"]) == 3
    assert all(len(s["sha256"]) == 64 for s in rep["sources"]) and c.folder not in json.dumps(rep)
    assert doc["layout"] == "webdataset" and doc["class_names"] == ["cat", "dog", "eel"], doc


@needs("pyarrow")
def parquet_twice_the_same_bytes(c):
    "an import again gives the same bytes; one that is there is replaced with --force alone, and other folders never"
    parquet(c, "train.parquet", table(c, [(x, i % 2) for i, x in enumerate(pictures(c, 60, 96))], ["a", "b"]))
    imports(c, "@train.parquet --shard-bytes 128K", says=" shards, ")
    first = {n: c.read("out/" + n) for n in os.listdir(c.folder + "/out")}
    assert len(first) > 4 and all(len(v) <= 128 << 10 for n, v in first.items() if n.endswith(".tar"))
    imports(c, "@train.parquet --shard-bytes 128K", 1, "replace it (--force)", force=False)
    imports(c, "@train.parquet --shard-bytes 128K")
    assert first == {n: c.read("out/" + n) for n in os.listdir(c.folder + "/out")}
    assert not [n for n in os.listdir(c.folder) if n.startswith("out.")]
    reads(c, "class", 60)
    c.write("mine/thesis.txt", "")
    imports(c, "@train.parquet -o @mine --force", 1, "was not written by an import")
    assert os.listdir(c.folder + "/mine") == ["thesis.txt"]


@needs("pyarrow")
def parquet_of_texts(c):
    "labels that are texts are sorted; a binary column; JPEG bytes are copied, JPEG 2000 becomes PNG, what is no"
    "image is counted"
    import pyarrow as pa

    jpeg, other = encoded(c.picture(8, 8), "JPEG"), encoded(c.picture(32, 32), "JPEG2000", irreversible=False)
    cells = [
        jpeg,
        other,
        b"",
        None,
        b"version https://git-lfs.github.com/spec/v1\noid",
        b"\x80\x04K\x01.",
        jpeg[:-40],
        b"hello",
        jpeg,
    ]
    parquet(
        c,
        "d.parquet",
        pa.table(
            {
                "img": pa.array(cells, pa.binary()),
                "label": ["z", "y", "a", "a", "a", "a", "a", "a", None],
                "id": list(range(9)),
            }
        ),
    )
    r = imports(
        c,
        "@d.parquet",
        says=[
            "columns that are not read: id",
            "JPEG 2000 are written as PNG",
            "no bytes",
            "no image in the row",
            "Git LFS",
            "pickle",
            "the JPEG file is cut",
            "no label",
        ],
    )
    got = members(c, "data")
    assert (
        got["000000000.jpg"] == jpeg
        and got["000000001.cls"] == b"y"
        and sorted(got) == ["000000000.cls", "000000000.jpg", "000000001.cls", "000000001.png"]
    )
    assert (np.asarray(Image.open(io.BytesIO(got["000000001.png"]))) == np.asarray(Image.open(io.BytesIO(other)))).all()
    assert c.read("out/classes.txt") == b"a\ny\nz\n" and sum(v["count"] for v in r.report()["left out"].values()) == 7
    imports(c, "@d.parquet --strict -o @o2", 1, ["d.parquet row 2: the image has no bytes", "--strict"])


@needs("pyarrow")
def parquet_is_asked(c):
    "two images, two labels, a label and a mask, numbers without names, several labels: asked in one line, and the"
    "option works"
    import pyarrow as pa

    x = pictures(c, 4)
    t = table(c, [(p, i % 2) for i, p in enumerate(x)], meta=False)
    parquet(c, "n.parquet", t)
    imports(c, "@n.parquet", 1, "--classes N")
    imports(c, "@n.parquet --classes 2 -o @n2")
    assert c.read("n2/classes.txt") == b"0\n1\n"
    c.write("names", "\ufeffant\r\nbee\r\n")
    imports(c, "@n.parquet --classes @names -o @n3")
    reads(c, "class", 4, out="n3")
    assert c.read("n3/classes.txt") == b"ant\nbee\n"
    parquet(c, "l.parquet", t.append_column("category", pa.array(["p", "q", "p", "q"])))
    imports(c, "@l.parquet", 1, "--label NAME says which")
    imports(c, "@l.parquet --label category -o @l2")
    parquet(c, "i.parquet", t.append_column("after", t.column("image")))
    imports(c, "@i.parquet --classes 2", 1, ["image, after", "--image NAME"])
    imports(c, "@i.parquet --classes 2 --image after -o @i2", says="not read: image")
    parquet(c, "m.parquet", t.append_column("annotation", pa.array([encoded(c.labels(8, 8, 2))] * 4)))
    imports(c, "@m.parquet --classes 2", 1, "--target class or --target mask")
    imports(c, "@m.parquet --classes 2 --target mask -o @m2")
    reads(c, "mask", 4, out="m2")
    imports(c, "@m.parquet --target mask", 1, "--map FILE")
    parquet(c, "s.parquet", t.set_column(1, "label", pa.array([[0, 1]] * 4)))
    imports(c, "@s.parquet --label label", 1, "several labels a row")
    parquet(c, "f.parquet", t.set_column(1, "label", pa.array([0.5] * 4)))
    imports(c, "@f.parquet --label label", 1, "fractions")
    imports(c, "@n.parquet --label nothing", 1, "there is no such column; there are: image, label")
    parquet(c, "b.parquet", t.set_column(1, "label", pa.array([-1, 0, 1, 7])))
    imports(c, "@b.parquet --classes 2 -o @b2", says=["negative", "the label is 7, and there are 2 classes"])


@needs("pyarrow")
def parquet_parts(c):
    "test beside train validates, said; beside train and val it is left out, said; --only imports it; a file of no"
    "part asks"
    x = pictures(c, 6)
    for name in ("train", "test"):
        parquet(c, f"d/{name}-00000-of-00001.parquet", table(c, [(p, i % 2) for i, p in enumerate(x)], ["a", "b"]))
    imports(c, "@d -o @o1", says=["part test is for validation", "--part test=no"])
    reads(c, "class", 6, 6, out="o1")
    imports(c, "@d --part test=no -o @o5")
    reads(c, "class", 6, out="o5")
    parquet(c, "d/valid.parquet", table(c, [(p, i % 2) for i, p in enumerate(x[:4])], ["a", "b"]))
    imports(c, "@d -o @o2", says="left out: part test")
    reads(c, "class", 6, 4, out="o2")
    imports(c, "@d --only test -o @o3")
    assert sorted(os.listdir(c.folder + "/o3")) == [".import.json", "classes.txt", "data-000000.tar"]
    reads(c, "class", 6, out="o3")
    imports(c, "@d --part tset=val", 1, "there is no part 'tset'; there are: train, val, test")
    parquet(c, "d/extra.parquet", table(c, [(x[0], 0)], ["a", "b"]))
    imports(c, "@d", 1, ["extra.parquet", "--part =train"])
    imports(c, "@d --part =no -o @o4")


@needs("pyarrow")
def arrow_files(c):
    "Arrow as stream, as file, and as save_to_disk leaves it, in the order of state.json"
    import pyarrow as pa

    x = pictures(c, 6)
    t = table(c, [(p, i % 2) for i, p in enumerate(x)], ["a", "b"])
    with pa.OSFile(c.path("s.arrow"), "wb") as f, pa.ipc.new_stream(f, t.schema) as w:
        w.write_table(t, 2)
    with pa.OSFile(c.path("f.feather"), "wb") as f, pa.ipc.new_file(f, t.schema) as w:
        w.write_table(t, 4)
    c.write("sd/dataset_dict.json", '{"splits": ["train", "test"]}')
    for part in ("train", "test"):
        for k in (0, 1):
            with pa.OSFile(c.path(f"sd/{part}/data-0000{k}-of-00002.arrow"), "wb") as f, pa.ipc.new_stream(
                f, t.schema
            ) as w:
                w.write_table(t[3 * k : 3 * k + 3])
        c.write(
            f"sd/{part}/state.json",
            json.dumps({"_data_files": [{"filename": f"data-0000{k}-of-00002.arrow"} for k in (1, 0)]}),
        )
    for name in ("s.arrow", "f.feather"):
        imports(c, f"@{name} -o @o-{name}")
        assert [members(c, "data", f"o-{name}")[f"{i:09d}.png"] for i in range(6)] == x
    imports(c, "@sd --part test=val")
    assert [members(c, "val")[f"{i:09d}.png"] for i in range(6)] == x[3:] + x[:3]
    reads(c, "class", 6, 6)
    c.write("sd/test/state.json", "{}")
    imports(c, "@sd", 1, "save_to_disk")


@needs("pyarrow")
def parquet_is_damaged(c):
    "cut, with turned bytes, or no Parquet: one line; what is in front of the damage is taken when asked"
    parquet(
        c,
        "d.parquet",
        table(c, [(x, 0) for x in pictures(c, 60, 16)], ["a"]),
        row_group_size=10,
        compression="none",
        use_dictionary=False,
        write_page_checksum=True,
        write_statistics=False,
    )
    whole = c.read("d.parquet")
    c.write("cut.parquet", whole[: len(whole) // 2])
    imports(c, "@cut.parquet", 1, "cut.parquet: no whole Parquet or Arrow file")
    c.write("head.parquet", b"PAR1" + b"\xff" * 40 + b"PAR1")
    imports(c, "@head.parquet", 1, "head.parquet: no whole")
    for seed in range(24):
        bad = bytearray(whole)
        for at in np.random.default_rng(seed).integers(4, len(whole), 12):
            bad[at] ^= 0x55
        c.write("bad.parquet", bytes(bad))
        r = spcore_import.main([c.folder + "/bad.parquet", "-o", c.folder + "/bad", "--force"], lambda line: None)
        assert r == 0 or r.startswith("spcore_import.py: ") and r.count("\n") == 0, r
    bad = bytearray(whole)
    bad[whole.find(b"IDAT", len(whole) // 2) + 9] ^= 1  # a pixel, which the page's checksum alone tells
    c.write("page.parquet", bytes(bad))
    imports(c, "@page.parquet", 1, ["page.parquet behind row ", "--skip-damaged"])
    imports(c, "@page.parquet -o @p --skip-damaged", says="the rest of a damaged file")
    assert 0 < len(members(c, "data", "p")) < 120


@needs("pyarrow")
def parquet_of_paths(c):
    "a path instead of bytes: a file beside the table is taken, one outside of it is not"
    import pyarrow as pa

    c.image("d/a.png", 8)
    c.image("secret.png", 8)
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    paths = ["a.png", "../secret.png", c.folder + "/secret.png", "none.png"]
    parquet(
        c,
        "d/x.parquet",
        pa.table({"image": pa.array([{"bytes": None, "path": p} for p in paths], kind), "label": ["u", "v", "v", "v"]}),
    )
    imports(c, "@d/x.parquet", says="left out: 3: a path instead of the image's bytes")
    assert sorted(members(c, "data")) == ["000000000.cls", "000000000.png"]


@needs("pyarrow")
def names_of_classes(c):
    "names that classes.txt would read as something else are changed, and said"
    names = ["boeing 7 4 7", "red #ff0000", "two\nlines", " blank ", "7"]
    parquet(c, "d.parquet", table(c, [(x, i) for i, x in enumerate(pictures(c, 5))], names))
    imports(c, "@d.parquet", says=["'boeing 7 4_7'", "'red_#ff0000'", "'two lines'", "'blank'"])
    assert reads(c, "class", 5)["class_names"] == ["boeing 7 4_7", "red_#ff0000", "two lines", "blank", "7"]
    parquet(c, "t.parquet", table(c, [(x, i) for i, x in enumerate(pictures(c, 2))], ["a b", "a\nb"]))
    imports(c, "@t.parquet", 1, "two classes are called 'a b'")


# ---- TFRecord ----
def example(**features):
    def varint(n):
        out = b""
        while n > 127:
            out, n = out + bytes([n & 127 | 128]), n >> 7
        return out + bytes([n])

    def field(n, b):
        return varint(n << 3 | 2) + varint(len(b)) + b

    entries = b""
    for k, v in features.items():
        if isinstance(v, bytes):
            value = field(1, field(1, v))
        elif isinstance(v, float):
            value = field(2, field(1, struct.pack("<f", v)))
        else:
            value = field(3, field(1, varint(v & (1 << 64) - 1)))
        entries += field(1, field(1, k.replace("__", "/").encode()) + field(2, value))
    return field(1, entries)


def framed(*data):
    out = b""
    for d in data:
        n = struct.pack("<Q", len(d))
        out += n + struct.pack("<I", tfrecord.masked(n)) + d + struct.pack("<I", tfrecord.masked(d))
    return out


@case
def tfrecord_of_imagenet(c):
    "TFRecord with numbers from 1 and names, plain and compressed; CRC-32C is that of the standard"
    assert (
        tfrecord.Crc()(b"123456789") == 0xE3069283
        and tfrecord.Crc()(bytes(32)) == 0x8A9136AA
        and tfrecord.Crc()(bytes(5000)) == tfrecord.Crc()(bytes(5000))
    )
    x = pictures(c, 6)
    r = [
        example(
            image__encoded=p,
            image__class__label=1 + i % 3,
            image__class__text=[b"n01", b"n02", b"n03"][i % 3],
            image__height=8,
        )
        for i, p in enumerate(x)
    ]
    c.write("d/train-00000-of-00002", framed(*r[:3]))
    c.write("d/train-00001-of-00002", gzip.compress(framed(*r[3:])))
    c.write("d/validation-00000-of-00001", framed(*r[:2]))
    imports(c, "@d", says=["1 -> 0", "names of classes are those of image/class/text"], lacks="left out")
    got = members(c)
    assert [got[f"{i:09d}.png"] for i in range(6)] == x and got["000000004.cls"] == b"n02"
    reads(c, "class", 6, 2)


@case
def tfrecord_is_damaged(c):
    "TFRecord that is cut, with a wrong CRC, with a length beyond all, without Example: the record is named"
    x = pictures(c, 3)
    whole = framed(*[example(image=p, label=i) for i, p in enumerate(x)])
    one = len(framed(example(image=x[0], label=0)))
    c.write("cut.tfrecord", whole[:-9])
    imports(c, "@cut.tfrecord --classes 3", 1, ["cut.tfrecord: cut in record 2", "--skip-damaged"])
    imports(c, "@cut.tfrecord --classes 3 --skip-damaged", says="1: the rest of a damaged file")
    reads(c, "class", 2)
    c.write("crc.tfrecord", whole[: one + 30] + b"\x55" + whole[one + 31 :])
    imports(c, "@crc.tfrecord --classes 3", 1, "the CRC-32C of record 1 is wrong")
    c.write("len.tfrecord", whole + struct.pack("<QI", 1 << 60, 7))
    imports(c, "@len.tfrecord --classes 3", 1, "CRC-32C of the length of record 3")
    n = struct.pack("<Q", 1 << 60)
    c.write("big.tfrecord", whole + n + struct.pack("<I", tfrecord.masked(n)))
    imports(c, "@big.tfrecord --classes 3", 1, f"record 3 has {1 << 60} bytes")
    c.write("gz.tfrecord", gzip.compress(whole)[:-60])
    imports(c, "@gz.tfrecord --classes 3", 1, "gz.tfrecord: ")
    c.write("none.tfrecord", framed(b"hello, records"))
    imports(c, "@none.tfrecord", 1, "none.tfrecord: record 0")
    c.write("text.tfrecord", "no record at all, but text")
    imports(c, "@text.tfrecord", 1, "text.tfrecord: record 0")
    c.write("later.tfrecord", whole + framed(b"\x0a\xff\xff\xff\xff\x7f"))
    imports(c, "@later.tfrecord --classes 3 -o @o2", says="the record is no tf.train.Example")


@case
def cures_of_records(c):
    "TFRecord: two numbers of classes with one name"
    (x,) = pictures(c, 1)
    c.write("cat.txt", "none\ncat\ncrane\n")
    c.write("r.tfrecord", framed(*[example(image__encoded=x, image__class__label=k, image__class__text=b"crane") for k in (1, 2)]))
    cures(c, "@r.tfrecord", "the numbers 1 and 2 of classes are both called 'crane'; --classes FILE names the classes", "--classes @cat.txt")


@case
def tfrecord_asks(c):
    "TFRecord: which image, a label or a mask, names; masks as PNG"
    x = pictures(c, 4)
    c.write("n.tfrecord", framed(*[example(image=p, label=i % 2) for i, p in enumerate(x)]))
    imports(c, "@n.tfrecord", 1, "--classes N")
    c.write("t.tfrecord", framed(*[example(left=p, right=p, label=b"a") for p in x]))
    imports(c, "@t.tfrecord", 1, "--image KEY says which")
    imports(c, "@t.tfrecord --image left -o @t2")
    c.write(
        "m.tfrecord",
        framed(
            *[
                example(
                    image__encoded=p,
                    image__segmentation__class__encoded=encoded(c.labels(8, 8, 2)),
                    image__class__label=1,
                )
                for p in x
            ]
        ),
    )
    imports(c, "@m.tfrecord --classes 2", 1, "--target class or --target mask")
    imports(c, "@m.tfrecord --classes 2 --target mask")
    reads(c, "mask", 4)
    assert (mask_at(c, "000000000", "data") == c.labels(8, 8, 2)).all()
    imports(c, "@m.tfrecord --classes 2 --target mask --label x --mask no", 1, "no such key")


# ---- LMDB ----
def lmdb_of(c, path, items):
    import lmdb

    c.folder_of(path)
    env = lmdb.open(c.path(path), map_size=1 << 24)
    with env.begin(write=True) as txn:
        for k, v in items:
            txn.put(k, v)
    env.close()


@needs("lmdb")
def lmdb_of_lsun(c):
    "LMDB: the name of the data base, folders in keys, image-N with label-N"
    x = pictures(c, 4)
    for name in ("bedroom", "kitchen"):
        lmdb_of(c, f"d/{name}_train_lmdb", [(f"{i:04x}".encode(), p) for i, p in enumerate(x)])
        lmdb_of(c, f"d/{name}_val_lmdb", [(f"{i:04x}".encode(), p) for i, p in enumerate(x[:2])])
    imports(c, "@d", says="the class is the name of the data base: bedroom, kitchen")
    reads(c, "class", 8, 4)
    assert c.read("out/classes.txt") == b"bedroom\nkitchen\n"
    lmdb_of(c, "k", [(f"{'ab'[i % 2]}/{i}.v2.png".encode(), p) for i, p in enumerate(x)])
    imports(c, "@k -o @o2")
    reads(c, "class", 4, out="o2")
    assert members(c, "data", "o2")["a/0_v2.cls"] == b"a"
    lmdb_of(
        c,
        "t",
        [(f"image-{i:09d}".encode(), p) for i, p in enumerate(x, 1)]
        + [(f"label-{i:09d}".encode(), b"word") for i in (1, 2, 3)]
        + [(b"num-samples", b"4")],
    )
    imports(c, "@t/data.mdb -o @o3", says="left out: 1: the image has no label")


@needs("lmdb")
def lmdb_is_refused(c):
    "LMDB with values of Caffe, with pickles, cut, empty"
    lmdb_of(c, "caffe", [(b"0", b"\x08\x03\x10\x20\x18\x20\x22\x80\x18" + bytes(3072))])
    imports(c, "@caffe", 1, "Datum messages of Caffe")
    lmdb_of(c, "pickle", [(b"0", pickle.dumps((b"x", 1)))])
    imports(c, "@pickle", 1, "a pickle of Python instead of an image file, which is never loaded")
    lmdb_of(c, "cut", [(f"{i}".encode(), p) for i, p in enumerate(pictures(c, 200, 32))])
    c.write("cut/data.mdb", c.read("cut/data.mdb")[:20000])
    imports(c, "@cut", 1, "is cut: its header promises")
    lmdb_of(c, "empty", [])
    imports(c, "@empty", 1, "is empty")
    c.write("junk/data.mdb", os.urandom(8192))
    imports(c, "@junk", 1, "junk")


# ---- zip and folders ----
@case
def zip_of_classes(c):
    "a zip archive of a folder of classes in parts, below a folder of its own, with __MACOSX and a text"
    x = pictures(c, 6)
    items = [(f"pets/{'train' if i < 4 else 'val'}/{'ab'[i % 2]}/{i}.png", p) for i, p in enumerate(x)]
    zipped(
        c,
        "pets.zip",
        items + [("pets/", b""), ("__MACOSX/pets/train/a/._0.png", b"x"), ("pets/train/a/readme.txt", b"x")],
    )
    r = imports(c, "@pets.zip", says="left out: 1: a file of another ending")
    assert members(c)["a/0.png"] == x[0] and r.report()["sources"][0]["path"] == "pets.zip"
    reads(c, "class", 4, 2)


@case
def zip_of_pairs(c):
    "a zip archive of images beside masks with classes.txt, and the folder: the same shards"
    for i in range(4):
        c.image(f"d/images/{i}.png", 8)
        c.image(f"d/masks/{i}.png", c.labels(8, 8, 3))
    c.write("d/classes.txt", "a\nb\nc\n")
    zipped(
        c,
        "d.zip",
        [(f"{f}/{i}.png", c.read(f"d/{f}/{i}.png")) for f in ("masks", "images") for i in range(4)]
        + [("classes.txt", "a\nb\nc\n")],
    )
    imports(c, "@d.zip")
    imports(c, "@d -o @o2")
    assert members(c, "data") == members(c, "data", "o2") and members(c, "data")["0.seg.png"] == c.read("d/masks/0.png")
    reads(c, "mask", 4)


@case
def zip_means_no_good(c):
    "zip-slip, absolute names, encrypted, a bomb, twice one name, nested, links, cut, a wrong CRC"
    p = pictures(c, 2)
    for k, name in enumerate(["../evil/a.png", "/abs/a.png", "a\\..\\..\\x.png", "C:\\x.png"]):
        zipped(c, f"{k}.zip", [("a/1.png", p[0]), (name, p[1])])
        imports(c, f"@{k}.zip", 1, "leads out of the archive")
    zipped(c, "bare.zip", [("x", p[0]), ("a/1.png", p[0])])
    c.write("bare.zip", c.read("bare.zip").replace(b"x", b"\0"))
    imports(c, "@bare.zip")
    zipped(c, "bomb.zip", [("a/1.png", p[0]), ("a/2.png", bytes(64 << 20))])
    imports(c, "@bomb.zip", 1, "more than 1000 times")
    data = bytearray(c.read("bomb.zip"))
    at = data.rfind(b"PK\1\2")
    data[at + 24 : at + 28] = struct.pack("<I", 0xF0000000)
    c.write("lie.zip", bytes(data))
    imports(c, "@lie.zip -o @o2", 1, "more than 1000 times")
    data = bytearray(c.read("0.zip").replace(b"../evil", b"zz/evil"))
    data[data.find(b"PK\1\2") + 8] |= 1
    c.write("locked.zip", bytes(data))
    imports(c, "@locked.zip", 1, "is encrypted")
    with zipfile.ZipFile(c.path("more.zip"), "w") as z:
        link = zipfile.ZipInfo("a/link.png")
        link.external_attr = 0o120777 << 16
        for name, what in (("a/1.png", p[0]), (link, b"/etc/passwd"), ("inner.zip", b"PK"), ("b/1.png", p[1])):
            z.writestr(name, what)
    imports(c, "@more.zip -o @o3", says=["1: a link in the archive", "1: an archive in the archive"])
    reads(c, "class", 2, out="o3")
    c.write("cut.zip", c.read("more.zip")[:-30])
    imports(c, "@cut.zip", 1, "no whole zip archive")
    data = bytearray(c.read("more.zip"))
    data[60] ^= 1
    c.write("crc.zip", bytes(data))
    imports(c, "@crc.zip -o @o4", says="1: a member of the archive is damaged")


# ---- all kinds ----
@case
def what_it_is_not(c):
    "what is no source, or one that spcore reads itself, is named"
    for name, data, says in (
        ("a.tar", bytes(257) + b"ustar" + bytes(300), "spcore reads tar files"),
        ("a.pkl", pickle.dumps([1]), "a pickle of Python, which is never loaded"),
        ("a.h5", b"\x89HDF\r\n\x1a\n" + bytes(99), "HDF5"),
        ("a.json", '{"a": 1}', "neither of COCO nor of LabelMe"),
        ("a.bin", b"hello", "--from KIND"),
        ("a.parquet", b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        ("e.parquet", b"", "is empty"),
    ):
        c.write(name, data)
        imports(c, "@" + name, 1, says)
    imports(c, "@nowhere", 1, "there is no such file or folder")
    c.write("two/a.tfrecord", framed(example(image=pictures(c, 1)[0], label=1)))
    c.write("two/b.parquet", b"PAR1")
    imports(c, "@two", 1, ["--from parquet or --from tfrecord"])
    c.folder_of("bare")
    imports(c, "@bare", 1, "it holds nothing")
    c.image("one/a/1.png", 8)
    imports(c, "@one -o @one", 1, "another -o is wanted")
    imports(c, "@one -o @no/where", 1, "there is no such folder")
    c.folder_of("out.old")
    imports(c, "@one", 1, "out.old is there")
    os.rmdir(c.path("out.old"))
    c.folder_of("out.importing")
    try:
        imports(c, "@one", 1, "was killed")
    except AssertionError as why:
        assert "stays" in str(why), why
    assert os.path.isdir(c.folder + "/out.importing"), "the folder of another import is removed"


@case
def disk_is_full(c):
    "too little room is said before anything is written, and an error of the disk in one line"
    c.image("d/a/1.png", 8)
    c.image("e/a/1.png", 8)
    usage, flush = shutil.disk_usage, spcore_import.Shards._flush

    def little(path):  # of this case alone: another one runs beside it
        return usage(path) if not path.startswith(c.folder) else usage(path)._replace(free=1000)

    def full(self):
        if self.folder.startswith(c.folder):
            raise OSError(28, "No space left on device", None)
        flush(self)

    try:
        shutil.disk_usage = little
        imports(c, "@d", 1, "the disk has 0.0 GiB left")
        shutil.disk_usage = usage
        spcore_import.Shards._flush = full
        imports(c, "@e", 1, "No space left on device")
    finally:
        shutil.disk_usage, spcore_import.Shards._flush = usage, flush
    assert not os.path.exists(c.folder + "/out")


@case
def interrupted(c):
    "SIGTERM in the middle leaves nothing; the program says so"
    c.image("d/a/1.png", 8)
    os.mkfifo(c.path("d/a/2"))
    code = (
        "import sys, runpy, os, signal; sys.path.insert(0, sys.argv[1]); from importers import shards; add = "
        "shards.Shards.add\n"
        "def stop(self, m): add(self, m); os.kill(os.getpid(), signal.SIGTERM)\n"
        "shards.Shards.add = stop; tool = sys.argv[1] + '/spcore_import.py'; sys.argv = [tool, *sys.argv[2:]]; "
        "runpy.run_path(tool, run_name='__main__')"
    )
    p = subprocess.run(
        [sys.executable, "-c", code, os.path.dirname(TOOL), c.folder + "/d", "-o", c.folder + "/out"],
        capture_output=True,
        timeout=HANG,
    )
    assert p.returncode == 128 + signal.SIGTERM and b"interrupted; nothing is written" in p.stderr, (
        p.returncode,
        p.stderr,
    )
    assert sorted(os.listdir(c.folder)) == ["d"]


@case
def names_of_files(c):
    "dots, blanks, other scripts, control characters and long names: each sample stays one, and no name leads anywhere"
    x = pictures(c, 1)[0]
    names = [
        "a.b.c.png",
        "a_b.c.png",
        "sp ace.png",
        "ümläut 猫.png",
        "x" * 120 + ".png",
        "tab\there.png",
        "-o.png",
        "..png.png",
    ]
    for n in names:
        c.write("d/k/" + n, x)
        c.write("d/l.m/" + n, x)
    imports(c, "@d", says="data: 14 samples in 1 shard")
    got = members(c, "data")
    assert sum(k.endswith(".png") for k in got) == 2 * (len(names) - 1), sorted(got)
    assert "k/a_b_c.png" in got and "k/a_b_c_2.png" in got and "l.m/a_b_c.cls" in got
    reads(c, "class", 2 * (len(names) - 1))


if __name__ == "__main__":
    main()
