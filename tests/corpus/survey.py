# SPDX-License-Identifier: MIT
# needs: onednn images jansson archive
# needs no torch
"""What `spcore data` says of a set as a whole: sides and aspect, classes of each part, what is there twice, a contact sheet."""
import fcntl
import io
import os
import pty
import struct
import subprocess
import sys
import tarfile
import termios

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from kit import SPCORE, Image, case, main


def classes(c, root, sizes, names=("ant", "bee")):
    """A folder of classes with an image of each size (height, width) in each."""
    for name in names:
        for k, (h, w) in enumerate(sizes):
            c.image(f"{root}/{name}/{k}.png", h, w)


def masks(c, root, n, label=lambda k: k % 2, names="bg\nfg\n"):
    for k in range(n):
        c.image(f"{root}/images/{k}.png", 8, 8)
        c.image(f"{root}/masks/{k}.png", np.full((8, 8), label(k), np.uint8))
    c.write("d/classes.txt", names)


def copy(c, old, new):
    c.write(new, c.read(old))


# ---- sides and aspect ----

@case
def sides(c):
    "least, median and largest side and aspect of all images, from headers and from pixels"
    sizes = [(10, 20), (30, 30), (40, 20), (16, 64), (50, 10)]
    classes(c, "d", sizes)
    for line in ("data d", "data d --check"):
        c.run(line, says=["width: least 10, median 20, largest 64; height: least 10, median 30, largest 50 pixels",
                          "aspect, width / height: least 0.2, median 1, largest 4"])
        doc = c.json(line)["sizes"]
        assert doc["images"] == 10 and doc["width"] == {"least": 10, "median": 20, "largest": 64}, doc


@case
def sides_of_headers_alone(c):
    "a file that is cut behind its header has its size, one without a header has none"
    classes(c, "d", [(8, 8), (24, 16), (300, 200), (300, 200)])
    for name in ("ant/2", "bee/3"):
        c.write(f"d/{name}.png", c.read(f"d/{name}.png")[:60])
    c.write("d/bee/0.png", b"")
    c.run("data d", says=["largest 200;", "1 image has no size in the header; --check names each"])
    assert c.json("data d")["sizes"]["unreadable"] == 1
    c.run("data d --check", 1, says=["d/bee/0.png", "3 of 8 samples cannot be used"])


@case
def sides_of_every_format(c):
    "each format says its size in the header, whatever lies in front of it"
    for ending in ("png", "jpg", "webp", "tif", "bmp", "gif", "ppm"):
        c.image(f"d/a/{ending}.{ending}", 40, 70)
    c.image("d/b/jpeg.jpg", 40, 70, icc_profile=bytes(60000) + b"x")
    c.run("data d", says="sizes, width x height: 70 x 40 (8)")


@case
def sides_cut_in_front_of(c):
    "a JPEG that ends before its header says a size"
    classes(c, "d", [(8, 8)] * 3)
    c.image("d/ant/x.jpg", 20, 30)
    data = c.read("d/ant/x.jpg")
    c.write("d/ant/x.jpg", data[:data.index(b"\xff\xc0")])
    c.run("data d", says=["sizes, width x height: 8 x 8 (6)", "1 image has no size in the header"])
    c.run("data d --check", 1, says="d/ant/x.jpg: it ends before the header says how large it is")


@case
def sides_turned(c):
    "EXIF turns the sides; --no-orient leaves them"
    e = Image.Exif()
    e[0x0112] = 6
    for name in ("a/0.jpg", "b/1.png"):
        c.image(f"d/{name}", 20, 60, exif=e.tobytes())
    c.run("data d", says="20 x 60 (2)")
    c.run("data d --no-orient", says="60 x 20 (2)")


@case
def sides_in_shards(c):
    "headers of members of a tar"
    c.folder_of("d")
    with tarfile.open(c.path("d/x.tar"), "w") as t:
        for k in range(4):
            for name, data in ((f"{k}.png", c), (f"{k}.cls", b"%d" % (k % 2))):
                if data is c:
                    c.image("one.png", c.rng.integers(0, 256, (200, 90 + k, 3), dtype=np.uint8))
                    data = c.read("one.png")
                i = tarfile.TarInfo(name)
                i.size = len(data)
                t.addfile(i, io.BytesIO(data))
    c.run("data d --target class", says="width: least 90, median 91, largest 93; height: least 200, median 200, largest 200")


@case
def sides_of_arrays(c):
    "rows of an array have one size"
    np.save(c.path("d/images.npy"), c.rng.integers(0, 256, (6, 12, 9, 3), dtype=np.uint8))
    np.save(c.path("d/labels.npy"), np.arange(6) % 2)
    c.run("data d", says="sizes, width x height: 9 x 12 (6)")


@case
def sides_of_many(c):
    "of more than 4096 images some are looked at, and the line says so; --check reads all"
    c.image("one.png", 4, 6)
    data = c.read("one.png")
    for k in range(4200):
        c.write(f"d/{'ab'[k % 2]}/{k}.png", data)
    c.run("data d", says="sizes are those of 4096 images, evenly spread over 4200; --check reads all")
    c.run("data d --check", says=["sizes, width x height: 6 x 4 (4200)", "duplicates in train: "], lacks="evenly spread")


@case
def sides_of_nothing(c):
    "what is made up has no files"
    c.run("data shapes", lacks=["width", "aspect"])
    assert "sizes" not in c.json("data shapes")


# ---- classes of each part ----

@case
def pixels_of_each_part(c):
    "pixels of the classes, and masks that have them, in each part"
    for part, n, label in (("train", 4, 1), ("val", 2, 0)):
        masks(c, f"d/{part}", n, lambda k, label=label: label if k % 2 else 255)
    r = c.run("data d --check", says=["train pixels: bg 0.0 %, fg 50.0 %, no label 50.0 %", "val pixels: bg 50.0 %, fg 0.0 %, no label"],
              status=1)
    assert "masks with a class: bg 0, fg 2" in r.out, r
    labels = c.json("data d --check", 1)["check"]["labels"]
    assert labels["train"] == {"pixels": [0, 128], "masks": [0, 2], "unlabelled": 128}, labels


@case
def counts_of_each_part(c):
    "samples of the classes in each part"
    classes(c, "d/train", [(8, 8)] * 3)
    classes(c, "d/val", [(8, 8)] * 2, ("ant",))
    c.run("data d", says=["train: ant 3, bee 3", "val: ant 2, bee 0"])
    assert c.json("data d")["counts"] == {"train": [3, 3], "val": [2, 0]}


# ---- what is there twice ----

def twins(c, line="data d --check"):
    return c.json(line)["check"]["duplicates"]


@case
def twice_none(c):
    "a set without duplicates does not speak of them"
    classes(c, "d", [(8, 8)] * 4)
    c.run("data d --check", lacks="duplicates")
    assert twins(c) == {}


@case
def twice_across(c):
    "an image that is in both parts, under another name"
    classes(c, "d/train", [(8, 8)] * 3)
    classes(c, "d/val", [(8, 8)] * 2)
    copy(c, "d/train/bee/1.png", "d/val/bee/other.png")
    copy(c, "d/train/ant/2.png", "d/val/ant/another.png")
    c.run("data d --check", says="duplicates in train and val: 2 images for validation have the pixels of some for training, such "
          "as d/train/ant/2.png and d/val/ant/another.png", lacks=["duplicates in train:", "two classes"])
    assert twins(c)["across"] == {"images": 2, "first": ["d/train/ant/2.png", "d/val/ant/another.png"]}
    c.run("data d", lacks="duplicates")


@case
def twice_in_another_format(c):
    "equal pixels in a PNG, a BMP and a PNG of another compression; a JPEG of it has other pixels"
    classes(c, "d/train", [(9, 7)] * 2)
    classes(c, "d/val", [(9, 7)] * 2)
    a = np.array(Image.open(c.path("d/train/ant/0.png")))
    c.image("d/val/ant/a.bmp", a)
    c.image("d/val/ant/b.png", a, compress_level=0)
    c.image("d/val/bee/c.jpg", a, quality=30)
    assert twins(c)["across"]["images"] == 2


@case
def twice_within(c):
    "copies within a part, and within the other"
    classes(c, "d/train", [(8, 8)] * 2)
    classes(c, "d/val", [(8, 8)] * 2)
    for k in range(3):
        copy(c, "d/train/ant/0.png", f"d/train/ant/copy{k}.png")
    copy(c, "d/val/bee/1.png", "d/val/bee/2.png")
    c.run("data d --check", says=["duplicates in train: 3 images have the pixels of earlier ones, such as d/train/ant/0.png and "
                                  "d/train/ant/copy0.png", "duplicates in val: 1 image has"], lacks="train and val")


@case
def twice_with_two_classes(c):
    "one image in two classes"
    classes(c, "d", [(8, 8)] * 4)
    copy(c, "d/ant/3.png", "d/bee/9.png")
    r = c.run("data d --check", says="duplicates of two classes: 1 image is there before with another class, such as d/ant/3.png and "
              "d/bee/9.png")
    assert "duplicates in train" in r.out


@case
def twice_of_another_shape(c):
    "one colour in two shapes of as many pixels is no duplicate"
    for k, shape in enumerate(((4, 16), (16, 4), (8, 8))):
        c.image(f"d/train/{'ab'[k % 2]}/{k}.png", np.zeros((*shape, 3), np.uint8))
        c.image(f"d/val/{'ab'[k % 2]}/{k}.png", np.full((*shape, 3), 7, np.uint8))
    assert twins(c) == {}


@case
def twice_masks(c):
    "an image that has two masks in one set"
    masks(c, "d", 12)
    copy(c, "d/images/3.png", "d/images/4.png")
    doc = twins(c)
    assert sum(v["images"] for v in doc.values()) == 1, doc
    assert all(sorted(v["first"]) == ["d/images/3.png", "d/images/4.png"] for v in doc.values()), doc


@case
def twice_and_broken(c):
    "files that cannot be read are no duplicates of each other"
    classes(c, "d", [(8, 8)] * 4)
    for name in ("ant/0", "ant/1", "bee/1"):
        c.write(f"d/{name}.png", b"no image")
    assert c.json("data d --check", 1)["check"]["duplicates"] == {}


# ---- the sheet ----

def sheet_of(c, name="s.png"):
    return np.array(Image.open(c.path(name)).convert("RGB"))


def has(a, colour):
    return (np.abs(a.astype(int) - colour).max(-1) < 2).any()


@case
def sheet_of_classes(c):
    "an image of each class and part is on the sheet, scaled with its aspect"
    colours = {("train", "ant"): (200, 10, 10), ("train", "bee"): (10, 200, 10), ("val", "ant"): (10, 10, 200), ("val", "bee"): (9, 99, 199)}
    for (part, name), colour in colours.items():
        for k in range(5):
            c.image(f"d/{part}/{name}/{k}.png", np.full((30, 60, 3), colour, np.uint8))
    c.run("data d --sheet s.png --sheet-samples 2", says="s.png: 8 samples of 2 classes")
    a = sheet_of(c)
    for colour in colours.values():
        assert has(a, colour), colour
    red = (a == (200, 10, 10)).all(-1)
    assert red.sum() == 2 * 128 * 64, red.sum()  # two of them, twice as wide as high
    assert c.json("data d --sheet s.png")["sheet"] == {"file": "s.png", "samples": 16, "classes": 2}


@case
def sheet_of_masks(c):
    "masks lie over images: a class has its own row; the background, class 0, leaves the image as it is, no label is pale"
    def mask(k):
        m = np.full((64, 64), 255, np.uint8)
        m[:32] = k % 3
        return m
    for k in range(30):
        c.image(f"d/images/{k}.png", np.full((64, 64, 3), 200, np.uint8))
        c.image(f"d/masks/{k}.png", mask(k))
    c.write("d/classes.txt", "bg\nfg\nrare\n")
    c.run("data d --sheet s.png --sheet-samples 1", says="samples of 3 classes")
    a = sheet_of(c)
    assert has(a, (200, 200, 200))
    for k, tint in enumerate(((128, 0, 0), (0, 128, 0), (224, 224, 192))):
        assert has(a, [round(200 + 0.45 * (t - 200)) for t in tint]), k
    assert not has(a, [round(200 - 0.45 * 200)] * 3) and not has(a[:60], (0, 0, 0)), "nothing is darkened by the black of class 0"


@case
def sheet_of_many_classes(c):
    "of many classes the first ones, which the sheet and the line say"
    for k in range(40):
        c.image(f"d/c{k:02d}/0.png", 8, 8)
        c.image(f"d/c{k:02d}/1.png", 8, 8)
    c.run("data d --sheet s.png --sheet-samples 1", says="samples of 32 classes, of 40")


@case
def sheet_of_a_class_without_samples(c):
    "a row stays empty"
    classes(c, "d/train", [(8, 8)] * 3)
    classes(c, "d/val", [(8, 8)] * 2, ("ant",))
    c.run("data d --sheet s.png", says="s.png: 8 samples of 2 classes")


@case
def sheet_and_a_broken_file(c):
    "a file that cannot be read is named once, and the sheet is drawn"
    classes(c, "d", [(8, 8)] * 4)
    c.write("d/ant/0.png", b"no image")
    r = c.run("data d --check --sheet s.png", 1, says="d/ant/0.png: neither JPEG nor PNG")
    assert r.err.count("d/ant/0.png") == 1 and sheet_of(c).size, r


@case
def sheet_elsewhere(c):
    "a name that is no PNG, a folder that is not there, what is made up"
    classes(c, "d", [(8, 8)] * 4)
    c.run("data d --sheet s.jpg", 2, says="--sheet s.jpg: the name must end in .png")
    c.run("data d --sheet nowhere/s.png", 1, says="nowhere/s.png cannot be written: folder nowhere")
    r = c.run("data shapes --sheet s.png", 1, says="shapes is made up and has no files; `spcore run show_augment.lua shapes` draws")
    assert not os.path.exists(c.path("s.png")), r
    c.run("run show_augment.lua shapes", says="sheet.png: 6 samples")


# ---- on a terminal ----

def on_terminal(c, line, columns):
    """What `spcore LINE` prints on a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = dict(os.environ, CUDA_VISIBLE_DEVICES="", XDG_CACHE_HOME=c.path(".cache"), TERM="dumb")
    p = subprocess.Popen([SPCORE, *line.split()], cwd=c.folder, stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.PIPE, env=env)
    os.close(theirs)
    data = b""
    while True:
        try:
            some = os.read(ours, 65536)
        except OSError:
            break
        if not some:
            break
        data += some
    p.wait(300)
    return data.decode().replace("\r\n", "\n")


@case
def folded_at_the_terminal(c):
    "lines are as wide as the terminal and break between words"
    names = [f"name{k:02d}" for k in range(30)]
    for name in names:
        for k in range(3):
            c.image(f"d/{name}/{k}.png", 8 + k, 8)
    copy(c, "d/name00/0.png", "d/name01/twin.png")
    plain = c.run("data d --check").out
    for columns in (40, 72):
        out = on_terminal(c, "data d --check", columns)
        out = out[out.index("d: layout"):]
        assert max(map(len, out.splitlines())) <= columns, out
        assert out.split() == plain.split(), out


main()
