# SPDX-License-Identifier: MIT
# needs: onednn images jansson
# needs no torch
"""Two images a sample: before and after, left and right, as people lay them out, and what of it is asked about."""
import base64
import json
import os
import re
import shutil
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from kit import Image, case, main


def fill(c, where, n=4, names=("{}.png", "{}.png", "{}.png"), top="d", side=8):
    """where: FIRST, SECOND and LABELS, of each part. Squares that are in the second image alone are labelled."""
    c.write(f"{top}/classes.txt", "same\nchange\n")
    folders = where.split()
    for k in range(0, len(folders), 3):
        for i in range(n):
            first = c.rng.integers(0, 60, (side, side, 3)).astype(np.uint8)
            second, mask = first.copy(), np.zeros((side, side), np.uint8)
            for image in (first, second):
                y, x = c.rng.integers(0, side - side // 3, 2)
                image[y:y + side // 4, x:x + side // 4] = 200
            mask[(second > 100).all(2) & (first < 100).all(2)] = 1
            for folder, name, pixels in zip(folders[k:k + 3], names, (first, second, mask)):
                if folder != "-":
                    c.image(f"{top}/{folder}/{name.format(i)}", pixels)


def reads(name, doc, where, note, splits=4, options="", **how):
    def f(c):
        fill(c, where, **how)
        r = c.json(f"data d --check {options}")
        n = r["samples"]
        assert r["layout"] == "twos" and r["target"] == "mask" and r["images"] == 2, r
        assert splits in ((n["train"], n["val"]), n["train"] + n["val"]) and not r["check"]["wrong"], r
        assert any(note in line for line in r["notes"]), r
    f.__name__, f.__doc__ = name, doc
    case(f)


def asks(name, doc, where, says, options="", also=None, **how):
    def f(c):
        fill(c, where, **how)
        r = c.run(f"data d {options}", 1, says=says)
        assert r.err.count("\n") == 1, r
        if also:
            c.run(f"data d {also}", 0)
    f.__name__, f.__doc__ = name, doc
    case(f)


@case
def in_one_folder(c):
    "xView2: each is a sample of its own, which is said; what is proposed asks which masks are meant, and both cures read them"
    fill(c, "images images targets", names=("{}_pre_disaster.png", "{}_post_disaster.png", "{}_pre_disaster_target.png"))
    for i in range(4):
        c.image(f"d/targets/{i}_post_disaster_target.png", np.tile([[0, 1]], (8, 4)).astype(np.uint8))
    r = c.json("data d")
    assert r["layout"] == "pairs" and r["images"] == 1 and r["samples"]["train"] + r["samples"]["val"] == 8, r
    assert any('_disaster.png; each is read' in line and 'second_name = "_' in line for line in r["notes"]), r
    c.run("data d", 0, ["come in twos", "(--second-name _pre=_post)"])
    two = "data d --check --second-name _pre=_post"
    c.run(two, 1, ["has a mask, d/targets/0_pre_disaster_target.png", "--mask-name"])
    c.cures(two, "say which are meant", ("--mask-name '*_pre_disaster=*_pre_disaster_target'",) * 2,
            ("--mask-name '*_pre_disaster=*_post_disaster_target'",) * 2)
    r = c.json(f"{two} --mask-name '*_pre_disaster=*_post_disaster_target'")
    assert r["images"] == 2 and r["samples"]["train"] + r["samples"]["val"] == 4 and not r["check"]["wrong"], r
    pixels = r["check"]["labels"]["train"]["pixels"]
    assert pixels[0] == pixels[1], r  # half of those of post


def folder_of_two(name, doc, names, how, says="two images a sample", **more):
    def f(c):
        fill(c, "images images masks", names=names)
        r = c.json(f"data d --check --second-name {how}")
        assert r["images"] == 2 and r["samples"]["train"] + r["samples"]["val"] == 4 and not r["check"]["wrong"], r
        assert any(says in line for line in r["notes"]), r
        for key, value in more.items():
            assert r[key] == value, r
    f.__name__, f.__doc__ = name, doc
    case(f)


folder_of_two("one_ab", "x_A and x_B, masks without the word", ("x_{}_A.png", "x_{}_B.png", "x_{}.png"), "_A=_B", "x_0_A.png and x_0_B.png, whose mask is x_0.png")
folder_of_two("one_front", "the word in front", ("t1_{}.png", "t2_{}.png", "t1_{}.png"), "t1_=t2_")
folder_of_two("one_bare", "the first has no word", ("{}.png", "{}_after.png", "{}.png"), "=_after", "0.png and 0_after.png")
folder_of_two("one_bare_second", "the second has no word", ("{}_before.png", "{}.png", "{}.png"), "_before=", "0_before.png and 0.png")
folder_of_two("one_inside", "both words in each name", ("x_a_b_{}_a.png", "x_a_b_{}_b.png", "x_a_b_{}_a.png"), "_a=_b")
folder_of_two("one_second_mask", "masks of the second images alone", ("{}_pre.png", "{}_post.jpg", "{}_post.png"), "_pre=_post", "whose mask is 0_post.png")


@case
def one_folder_of_stereo(c):
    "as many maps as pairs: what reads them is proposed, and they are left and right then"
    for i in range(4):
        c.image(f"d/images/{i}_left.png", 8)
        c.image(f"d/images/{i}_right.png", 8)
        np.save(c.path(f"d/disparity/{i}_left.npy"), np.full((8, 8), i, np.float32))
    c.cures("data d --map-nodata none", "has 4 files for 8 images", ("--second-name _left=_right",) * 2)
    r = c.json("data d --map-nodata none --second-name _left=_right")
    assert r["images"] == 2 and any("0_left.png and 0_right.png, whose map is 0_left.npy" in line for line in r["notes"]), r
    c.run("run train_map.lua --data d --map-nodata none --second-name _left=_right --size 8 --steps 1 --batch 2 --width 2 --levels 1 --augment chains/seg.lua",
          1, "flip of left and right images mirrors both")


@case
def one_folder_lacks(c):
    "one of both is missing, or is neither"
    fill(c, "images images masks", names=("{}_pre.png", "{}_post.png", "{}_pre.png"))
    c.image("d/images/9_post.png", 8)
    c.image("d/images/odd.png", 8)
    said = str(c.json("data d --second-name _pre=_post")["notes"])
    assert "1 second image in d/images, such as 9_post.png, has no first one" in said and "odd.png, is neither" in said, said
    os.remove(c.path("d/images/1_post.png"))
    c.run("data d --second-name _pre=_post", 1, ["d/images/1_pre.png has no second image", "1 of 4 first images"])
    c.run("data d --second-name _x=_y", 1, ["no image in d/images has \"_x\""])
    for wrong in ("_pre", "=", "a=a"):
        c.run(f"data d --second-name {wrong}", 1, "such as \"_pre=_post\"")
    fill(c, "ant bee -", top="e")
    c.run("data e --target class --second-name _pre=_post", 1, ["laid out as classes", "the columns file, second and label"])


# ---- tables, shards, arrays ----

def table(c, head, row, n=6, name="d.csv", folders="A B label"):
    fill(c, folders, n=n)
    if "mask" in head:
        c.write("classes.txt", "same\nchange\n")
    c.write(name, "\n".join([head] + [row.format(i=i, c="ab"[i % 2]) for i in range(n)]) + "\n")


def reads_table(name, doc, head, row, target, options="", note="two images a sample", layout="csv"):
    def f(c):
        table(c, head, row)
        r = c.json(f"data d.csv --check {options}")
        assert r["layout"] == layout and r["target"] == target and r["images"] == 2 and not r["check"]["wrong"], r
        assert not note or any(note in line for line in r["notes"]), r
        assert r["samples"]["train"] + r["samples"]["val"] == 6, r
    f.__name__, f.__doc__ = name, doc
    case(f)


both = "d/A/{i}.png,d/B/{i}.png,"
reads_table("csv_masks", "before, after and mask", "before,after,mask", both + "d/label/{i}.png", "mask", note="column before has the first, column after the second")
reads_table("csv_label", "two images and a class", "image_a,image_b,label", both + "{c}", "class")
reads_table("csv_number", "two images and a number", "left_path,right_path,distance", both + "{i}.5", "numbers", "--target numbers")
reads_table("csv_labels", "two images and several labels", "t1,t2,tags", both + "a|b", "labels", "--target labels")
reads_table("csv_given", "columns that are named", "x,y,z", both + "{c}", "class", "--columns file=x,second=y,label=z", note="")
reads_table("csv_numbered", "no header", "d/A/0.png,d/B/0.png,a", both + "{c}", "class",
            "--columns file=1,second=2,label=3 --set reader.header=no --repeats once", note="")
reads_table("csv_in_both", "an image before several others is no repeat", "image1,image2,label", "d/A/0.png,d/B/{i}.png,{c}", "class")


@case
def csv_one_alone(c):
    "two columns of images, of which the first is to be read"
    table(c, "before,after,label", both + "{c}")
    c.cures("data d.csv", "two images a sample: column before", ("--columns file=before,second=",) * 2, status=0)
    assert c.json("data d.csv --columns file=before,second=")["images"] == 1


@case
def csv_lacks(c):
    "an empty cell, a file that is not there; several columns that may be meant"
    table(c, "before,after,label", both + "{c}")
    c.write("e.csv", "before,after,label\nd/A/0.png,d/B/0.png,a\nd/A/1.png,,b\n")
    c.run("data e.csv", 1, ["line 3, column 2 (after)", "it is empty"])
    c.write("e.csv", "before,after,label\nd/A/0.png,d/B/0.png,a\nd/A/1.png,d/B/77.png,b\n")
    c.run("data e.csv", 1, ["line 3, column 2 (after)", "77.png"])
    c.write("e.csv", "before,after,left,right,label\n" + "".join(f"d/A/{i}.png,d/B/{i}.png,d/A/{i}.png,d/B/{i}.png,a\n" for i in range(3)))
    c.cures("data e.csv", "several columns may be two images", ("--columns file=before,second=after",) * 2, ("--columns file=before,second=",) * 2)
    c.write("v.csv", "file,label\nd/A/5.png,a\n")
    c.run("data d.csv --val v.csv", 1, ["d.csv has two images a row", "v.csv has one"])


@case
def csv_split(c):
    "rows of parts in any order, some left out: seconds stay with their firsts"
    table(c, "before,after,mask,split", "d/A/{i}.png,d/B/{i}.png,d/label/{i}.png,x")
    parts = ["val", "train", "test", "train", "val", "train"]
    c.write("d.csv", "before,after,mask,split\n" + "".join(f"d/A/{i}.png,d/B/{i}.png,d/label/{i}.png,{p}\n" for i, p in enumerate(parts)))
    c.write("s.lua", SECONDS.replace("PATH", "d.csv"))
    assert c.run("run s.lua", 0).out.split() == [fingerprint(c, f"d/B/{i}.png") for i in (1, 3, 5, 0, 4)]


@case
def csv_left_out(c):
    "rows that are left out take their second images with them: without a label, of test, named twice"
    table(c, "before,after,label", "d/A/{i}.png,d/B/{i}.png,x")
    c.write("d.csv", "before,after,label\n" + "".join(f"d/A/{i}.png,d/B/{i}.png,{label}\n" for i, label in
                                                      ((0, "a"), (1, ""), (2, "b"), (2, "b"), (3, "a"), (4, ""), (5, "b"))))
    c.write("s.lua", SECONDS.replace("PATH", "d.csv").replace("size = 8,", "size = 8, target = 'class', missing = 'skip', repeats = 'once',"))
    assert sorted(c.run("run s.lua", 0).out.split()) == sorted(fingerprint(c, f"d/B/{i}.png") for i in (0, 2, 3, 5))


SECONDS = """
local sp = require "spcore"
local g <close> = sp.graph(sp.args {})
local data = g.reader { path = "PATH", size = 8, batch = 1, shuffle = false, split = "all" }
g:results { data.image, data.second, raw = true }
for _, m in g:steps(data.length) do print(("%.0f"):format((function(s) local n = 0 for i = 1, #s do n = n + i * s:byte(i) end return n end)(m.second))) end
"""


def fingerprint(c, name):
    """What SECONDS prints of an image of 8 x 8."""
    pixels = np.asarray(Image.open(c.path(name)).convert("RGB")).transpose(2, 0, 1).reshape(-1).astype(int)
    return str(int((pixels * np.arange(1, pixels.size + 1)).sum()))


def shard(c, names, n=4, name="d.tar", where="d/A d/B d/label"):
    """names: of the members of sample {i}: a first, a second, and a mask, or a class."""
    import io
    import tarfile
    with tarfile.open(c.path(name), "w") as tar:
        for i in range(n):
            for member, folder in zip(names, where.split()):
                text = b"ab"[i % 2:i % 2 + 1] if member.endswith(".cls") else c.read(f"{folder}/{i}.png")
                info = tarfile.TarInfo(member.format(i=i))
                info.size = len(text)
                tar.addfile(info, io.BytesIO(text))


def reads_shard(name, doc, names, target="mask", stereo=False):
    def f(c):
        fill(c, "A B label")
        c.write("classes.txt", "same\nchange\n" if target == "mask" else "a\nb\n")
        shard(c, names)
        r = c.json(f"data d.tar --check --target {target}")
        assert r["layout"] == "webdataset" and r["images"] == 2 and not r["check"]["wrong"] and r["left_out"] == "", r
        c.write("s.lua", SECONDS.replace("PATH", "d.tar").replace("size = 8,", f"size = 8, target = '{target}',"))
        order = range(4) if target == "mask" else (0, 2, 1, 3)  # samples of a class are neighbours
        assert c.run("run s.lua", 0).out.split() == [fingerprint(c, f"d/B/{i}.png") for i in order]
    f.__name__, f.__doc__ = name, doc
    case(f)


reads_shard("shard_ab", "KEY.a.png and KEY.b.png", ("x{i}.a.png", "x{i}.b.png", "x{i}.seg.png"))
reads_shard("shard_order", "the second in front, and the mask in between", ("x{i}.before.png", "x{i}.after.png", "x{i}.mask.png"))
reads_shard("shard_class", "left and right with a class", ("k/x{i}.left.png", "k/x{i}.right.png", "k/x{i}.cls"), "class")


@case
def shard_lacks(c):
    "one of both is missing; three; some samples have one image"
    fill(c, "A B label")
    shard(c, ("x{i}.a.png",), name="one.tar", where="d/A")
    c.run("data one.tar --target mask", 1, ["x0.a.png is one of two images by its name", "or call it x0.png"])
    shard(c, ("x{i}.t0.png", "x{i}.t1.png", "x{i}.t2.png"), name="three.tar", where="d/A d/B d/B")
    c.run("data three.tar --target mask", 1, ["the sample x0 has 3 images", "two a sample are read"])
    fill(c, "A B label", n=5)
    shard(c, ("x{i}.a.png", "x{i}.b.png", "x{i}.seg.png"), name="s/0.tar")
    shard(c, ("y{i}.png", "y{i}.seg.png"), name="s/1.tar", where="d/A d/label")
    c.run("data s --target mask", 1, ["y0.png is the only image of its sample", "pack all samples alike"])


def reads_arrays(name, doc, names, target="mask"):
    def f(c):
        fill(c, "A B label")
        for stem, folder in zip(names, "AB"):
            np.save(c.path(f"n/{stem}.npy"), np.stack([np.asarray(Image.open(c.path(f"d/{folder}/{i}.png"))) for i in range(4)]))
        if target == "mask":
            np.save(c.path("n/masks.npy"), np.stack([np.asarray(Image.open(c.path(f"d/label/{i}.png"))) for i in range(4)]))
        else:
            np.save(c.path("n/labels.npy"), np.array([0, 1, 0, 1]))
        c.write("n/classes.txt", "a\nb\n")
        r = c.json("data n --check")
        assert r["layout"] == "npy" and r["target"] == target and r["images"] == 2 and not r["check"]["wrong"] and r["left_out"] == "", r
        c.write("s.lua", SECONDS.replace("PATH", "n").replace("size = 8,", f"size = 8, target = '{target}',"))
        order = range(4) if target == "mask" else (0, 2, 1, 3)  # samples of a class are neighbours
        assert c.run("run s.lua", 0).out.split() == [fingerprint(c, f"d/B/{i}.png") for i in order]
    f.__name__, f.__doc__ = name, doc
    case(f)


reads_arrays("arrays", "images.npy and images2.npy", ("images", "images2"))
reads_arrays("arrays_class", "images_a.npy and images_b.npy, with classes", ("images_a", "images_b"), "class")
reads_arrays("arrays_before", "before.npy and after.npy", ("before", "after"))


@case
def arrays_differ(c):
    "arrays of other shapes"
    a = np.zeros((4, 8, 8, 3), np.uint8)
    np.save(c.path("n/images.npy"), a)
    np.save(c.path("n/masks.npy"), a[..., 0])
    for other in (a[:3], a[:, :7], a[..., :1]):
        np.save(c.path("n/images2.npy"), other)
        c.run("data n --target mask", 1, ["n/images.npy holds", "n/images2.npy", "save both with one shape"])
    np.save(c.path("n/images2.npy"), a.astype(np.float32))
    c.run("data n --target mask", 1, ["n/images2.npy holds", "float32"])


@case
def stereo_maps(c):
    "left, right and disparity are for maps"
    fill(c, "left right -")
    for i in range(4):
        np.save(c.path(f"d/disparity/{i}.npy"), np.full((8, 8), i + 1, np.float32))
    r = c.json("data d --check")
    assert r["layout"] == "twos" and r["target"] == "map" and r["images"] == 2 and not r["check"]["wrong"], r
    assert any("left/ has the first, right/ the second, disparity/ the maps" in line for line in r["notes"]), r
    os.rename(c.path("d/disparity"), c.path("d/other"))
    c.run("data d --target map", 1, ["left/ and right/", "disparity/, depth/ or maps/"])


reads("levir", "LEVIR-CD", "train/A train/B train/label val/A val/B val/label", "train/A/ has the first", (4, 4))
reads("whu", "WHU-CD, of no part", "A B OUT", "A/ has the first, B/ the second, OUT/ the labels")
reads("parts_behind", "A/train", "A/train B/train label/train A/val B/val label/val", "A/train/ has the first", (4, 4))
reads("parts_glued", "train_A", "train_A train_B train_label test_A test_B test_label", "train_A/ has the first", (4, 4))
reads("before_after", "words in names too, masks without", "before after masks", "before/ has the first",
      names=("x_{}_before.png", "x_{}_after.png", "x_{}.png"))
reads("pre_post", "capitals, and JPEG beside PNG", "Pre Post Labels", "Pre/ has the first", names=("{}_PRE.png", "{}_POST.png", "{}.png"))
reads("t1_t2", "OSCD and others", "t1 t2 gt", "t1/ has the first")
reads("time_1", "a sign in the words", "time_1 time_2 change", "time_1/ has the first")
reads("stereo", "left and right", "left right masks", "left/ has the first")
reads("within", "one folder deeper", "LEVIR/A LEVIR/B LEVIR/label", "A/ has the first")
reads("rule", "masks by a rule", "A B label", "mask_name", names=("{}.png", "{}.png", "{}_mask.png"))
reads("second_labels", "SECOND, one of two folders of labels", "im1 im2 label1 - - label2", "label1/ the labels",
      options="--set reader.mask_folder=label1")
reads("test_without_labels", "a test part that nobody has labelled", "train/A train/B train/label test/A test/B -", "train/A/ has")

asks("second_asks", "SECOND: both folders of labels", "im1 im2 label1 - - label2", ["label1/ and", "label2/", "mask_folder"],
     also="--set reader.mask_folder=label2")
asks("two_pairs", "A/ and B/ beside left/ and right/", "A B label left right -", ["A/ and", "B/", "left/ and", "right/"])
asks("as_classes", "with a folder of labels they are no classes, and are taken so where that is said", "A B label",
     ["two images a sample", "mask", "folders"], options="--target class", also="--target class --folders classes")
asks("no_labels", "two folders alone, for masks", "A B -", ["two images a sample", "label/", "two classes", "train_cls.lua"], options="--target mask",
     also="--target class")
asks("half_a_part", "a part without its second folder", "train/A train/B train/label val/A - val/label", ["val/A", "other image"])
asks("mixed", "of no part and of parts", "A B label train/A train/B train/label", ["A/", "of no part"])


@case
def classes_by_name(c):
    "A/ and B/ alone are classes, and the other reading is named"
    fill(c, "A B -")
    r = c.json("data d")
    assert r["target"] == "class" and r["class_names"] == ["A", "B"] and "two images of a sample" in str(r["notes"]), r


@case
def images_and_masks(c):
    "images/ and masks/ are read as such, whatever lies beside them"
    fill(c, "images A masks")
    fill(c, "B - -")
    r = c.json("data d")
    assert r["layout"] == "pairs" and r["images"] == 1, r


@case
def missing(c):
    "a stem that one of the folders lacks is named and counted; one that the first lacks is left out"
    fill(c, "A B label")
    c.image("d/B/9.png", 8)
    assert "1 of the 5 images in d/B have no first one" in str(c.json("data d")["notes"])
    os.remove(c.path("d/B/1.png"))
    os.remove(c.path("d/B/2.png"))
    c.run("data d", 1, ["d/A/1.png has no second image", "2 of 4 images have none"])
    os.remove(c.path("d/label/0.png"))
    fill(c, "- B -")
    c.run("data d", 1, ["d/A/0.png has no mask"])


@case
def sizes_differ(c):
    "the images of a sample are of one size"
    fill(c, "A B label")
    c.image("d/B/2.png", 9, 8)
    c.run("data d --check", 1, ["d/A/2.png is 8 x 8 pixels", "d/B/2.png, is 8 x 9", "1 of 4 samples cannot be used"])


@case
def unlike(c):
    "a second image of other channels, bits or EXIF orientation is read, said once and counted"
    fill(c, "A B label")
    c.image("d/B/1.png", 8)
    c.image("d/B/0.png", c.picture(8, 8, 1))
    r = c.run("data d --check", 0, [re.compile(r"d/A/\d.png has uint8 of 3 channels, and the second image of the sample, d/B/0.png, uint8 of 1: both become bytes of 3"), "unlike: 1 sample"])
    c.image("d/B/1.png", Image.fromarray(np.full((8, 8), 40000, np.uint16)))
    c.image("d/B/0.png", Image.fromarray(np.dstack([c.picture(8, 8), np.full((8, 8), 255, np.uint8)])))  # alpha is no colour
    c.run("data d --check", 0, ["d/B/1.png, uint16 of 1", "unlike: 1 sample"])
    c.run("data d --check --dtype uint16", 0, lacks="unlike")
    fill(c, "A B label")
    exif = Image.Exif()
    exif[0x0112] = 3
    os.remove(c.path("d/B/2.png"))
    c.image("d/B/2.jpg", 8, exif=exif)
    c.cures("data d --check", "d/A/2.png is as it is stored by its EXIF orientation, and the second image of the sample, d/B/2.jpg, turned by 180 degrees",
            "--no-orient", status=0)
    exif[0x0112] = 6  # turned, it is as large as the other one: that is how a phone stores it
    for i in range(2):
        c.image(f"e/A/{i}.png", 8, 16)
        c.image(f"e/B/{i}.jpg", 16, 8, exif=exif)
        c.image(f"e/label/{i}.png", c.labels(8, 16, 2))
    c.write("e/classes.txt", "same\nchange\n")
    c.run("data e --check", 0, "all 2 samples can be used", lacks=["EXIF orientation, and the second"])


@case
def damaged(c):
    "a second image that is cut"
    fill(c, "A B label")
    with open(c.path("d/B/2.png"), "rb") as f:
        c.write("d/B/2.png", f.read()[:60])
    c.run("data d --check", 1, ["d/B/2.png", "1 of 4 samples cannot be used"])


@case
def unread(c):
    "a script that reads the first images alone is told so; one that reads seconds of other data fails"
    fill(c, "A B label")
    text = """
local sp = require "spcore"
local g <close> = sp.graph(sp.args {})
local data = g.reader { path = "d", size = 8, batch = 2 }
g:results { data.%s }
for _ in g:steps(1) do end
"""
    c.write("s.lua", text % "image")
    c.run("run s.lua", 0, ["has two images", "output 'second' is not read"])
    c.write("s.lua", (text % "second").replace('path = "d"', 'path = "shapes"'))
    c.run("run s.lua", 0, ["output 'second' is read, but a sample of shapes has one image"])


@case
def same_draws(c):
    "what augmentation does to the first image it does to the second: equal ones stay equal"
    fill(c, "A B label", side=16)
    for i in range(4):
        with open(c.path(f"d/A/{i}.png"), "rb") as f:
            c.write(f"d/B/{i}.png", f.read())
    c.write("chain.lua", "return { flip {}, affine { shear = 20 }, batch_rotate { degrees = 30 }, color_jitter { hue = 0.1, contrast = 0.5 },"
            " gamma {}, perspective {} }")
    c.write("s.lua", """
local sp = require "spcore"
local chain = require "spcore.chain"
local g <close> = sp.graph(sp.args {})
local data = g.reader { path = "d", size = 16, batch = 4 }
local images, mask = chain.read("chain.lua", chain.seen(data.image, 16, 14)):add(g, { data.image, data.second }, data.mask, { always = true })
g:results { data.image, images[1], images[2], raw = true }
local bytes, different, seen = 0, 0, {}
for _, m in g:steps(1) do
  for _, v in pairs(m) do
    if type(v) == "string" and #v == 4 * 16 * 16 * 3 then
      bytes = bytes + 1
      if not seen[v] then different, seen[v] = different + 1, true end
    end
  end
end
print(bytes, different) -- what the reader gave, and what both became
""")
    c.run("run s.lua", 0, ["3\t2"])


COLOURS = ("color_jitter { brightness = 0.5, hue = 0.1 }", "gamma { p = 1 }", "posterize {}",
           "gaussian_noise { p = 1 }", "sharpness { p = 1 }", "jpeg_noise { p = 1 }", "blur {}", "channel_drop { p = 1 }")
MOVES = "flip {}, affine { shear = 20 }, batch_rotate { degrees = 30 }, batch_resized_crop { size = size }, perspective {}, elastic { sigma = 2 }, erase { p = 1 }"


@case
def separate_colours(c):
    "--separate-colours: equal images differ behind each stage of colours, and stay equal behind those that move pixels"
    fill(c, "A B label", side=16)
    for i in range(4):
        c.write(f"d/B/{i}.png", c.read(f"d/A/{i}.png"))
    c.write("s.lua", """
local sp = require "spcore"
local chain = require "spcore.chain"
local opt = sp.args({ chain = { "", "" }, separate = { false, "" } })
for file in opt.chain:gmatch "[^,]+" do
  local g <close> = sp.graph(opt)
  local data = g.reader { path = "d", size = 16, batch = 4 }
  local images, mask = chain.read(file, chain.seen(data.image, 16, 14)):add(g, { data.image, data.second }, data.mask, { always = true },
    { separate = opt.separate })
  local a = g.writer { images[1], file = "a.npy" }
  local b = g.writer { images[2], file = "b.npy" }
  for _ in g:steps(1) do end
  g:close()
  local function bytes(name) local f <close> = assert(io.open(name, "rb")); return f:read "a" end
  print(file, bytes "a.npy" == bytes "b.npy" and "equal" or "other")
end
""")
    files = []
    for i, step in enumerate(COLOURS + (MOVES,)):
        files.append(f"{i}.lua")
        c.write(files[-1], f"return {{ {step} }}")
    same = c.run(f"run s.lua --chain {','.join(files)}", 0).out.split()
    assert same == [word for f in files for word in (f, "equal")], same
    apart = c.run(f"run s.lua --separate --chain {','.join(files)}", 0).out.split()
    assert apart == [word for f in files for word in (f, "equal" if f == files[-1] else "other")], apart
    seg = "run train_seg.lua --data d --size 16 --steps 1 --batch 2 --pictures 0 --train-encoder --width 2 --levels 1"
    c.run(f"{seg} --augment chains/seg.lua --separate-colours", 0)
    c.cures(f"{seg} --separate-colours", "--separate-colours: goes with --augment FILE.lua", ("--augment FILE.lua", "--augment chains/seg.lua"), status=2)
    c.write("r.lua", "return { flip {}, rand_augment {} }")
    c.cures(f"{seg} --separate-colours --augment r.lua", "r.lua:1: rand_augment draws colours and places together", ("--separate-colours", None))
    c.cures("run train_seg.lua --steps 1 --batch 4 --pictures 0 --augment chains/seg.lua --separate-colours", "--separate-colours: goes with two images a sample",
            ("--separate-colours", None), status=2)


@case
def classes(c):
    "two images and a class, several labels or numbers: trained early, or siamese behind a frozen backbone; predicted and exported"
    rows = ["before,after,label,tags,distance"]
    for i in range(16):
        first = c.picture(16, 16)
        c.image(f"d/A/{i}.png", first)
        c.image(f"d/B/{i}.png", first if i % 2 else 255 - first)
        rows.append(f"d/A/{i}.png,d/B/{i}.png,{'same' if i % 2 else 'other'},{'a|b' if i % 2 else 'b'},{i}.5")
    c.write("d.csv", "\n".join(rows) + "\n")
    c.write("n.lua", "return { preprocess = { size = 16, crop = 16, mean = { 0, 0, 0 }, std = { 1, 1, 1 }, interpolation = 'bilinear' }, "
            "{ 'conv', 8, kernel = 3, pad = 1, stride = 2, name = 'a' }, { 'relu' }, { 'mean' } }")
    safetensors(c, "n.safetensors", {"a.weight": c.rng.normal(0, 0.2, (8, 3, 3, 3)), "a.bias": np.zeros(8)})
    train = "run train_cls.lua --data d.csv --size 16 --steps 2 --batch 4 --pictures 1 --columns file=before,second=after,label=label --target class"
    c.run(f"{train} --width 2 --levels 1 --separate-colours --out early", 0, "two images a sample, early fusion")
    c.run(f"{train} --backbone n.lua --weights n.safetensors --probe --augment none --out siamese", 0, "two images a sample, siamese fusion")
    c.run(f"{train} --show-augment show.png --separate-colours", 0, "show.png: 5 samples")
    assert Image.open(c.path("show.png")).width > 2 * 5 * 128  # two pictures in each of five columns
    c.run("run train_cls.lua --steps 1 --show-augment x.png --separate-colours", 2, "shapes has one")
    c.cures(f"{train} --fusion siamese", "trained apart", ("--fusion early", "--fusion early"),
            ("--backbone NAME --weights FILE --probe", "--backbone n.lua --weights n.safetensors --probe --augment none"), status=2)
    c.run("run train_cls.lua --steps 1 --fusion early", 2, "shapes has one")
    c.run("report early", 0)
    assert "second image" in c.read("early/report.html").decode()
    for run in ("early", "siamese"):
        c.run(f"run predict_cls.lua --weights {run} d/A d/B --out {run}.json", 0)
        c.run(f"run predict_cls.lua --weights {run} d/A d/A --out same-{run}.json", 0)
        c.run(f"run predict_cls.lua --weights {run} d/A/1.png --out one.csv", 2, "two images a sample")
        both, same = [{one["file"]: one for one in json.loads(c.read(name))["images"]} for name in (f"{run}.json", f"same-{run}.json")]
        assert both["d/A/2.png"]["second"] == "d/B/2.png" and both["d/A/2.png"]["probabilities"] != same["d/A/2.png"]["probabilities"], run
        c.run(f"export {run} --torch torch-{run} --onnx {run}.onnx", 0, "takes float32 N x 6 x ")
    want = {one["file"]: one for one in json.loads(c.read("siamese.json"))["images"]}["d/A/1.png"]["probabilities"]
    for logits in computed(c, "siamese"):
        odds = np.exp(logits - logits.max())
        assert np.abs(odds / odds.sum() - want).max() < 1e-5, (odds / odds.sum(), want)
    for target, column in (("labels", "tags"), ("numbers", "distance")):
        c.run(f"{train} --width 2 --levels 1 --pictures 0 --out {target}".replace("label=label --target class", f"label={column} --target {target}"), 0, "early fusion")
        c.run(f"run predict_cls.lua --weights {target} d/A d/B --out {target}.csv", 0)


def colours_of(picture):
    """Pixels of each colour, as a dict."""
    values, n = np.unique(np.asarray(picture.convert("RGB")).reshape(-1, 3), axis=0, return_counts=True)
    return {tuple(v): k for v, k in zip(values.tolist(), n)}


@case
def pictures(c):
    "contact sheets and the report show both images, side by side"
    for i in range(6):  # first ones are of one colour, second ones of another
        for folder, colour in (("A", (10, 200, 30)), ("B", (250, 20, 40))):
            c.image(f"d/{folder}/{i}.png", np.full((16, 16, 3), colour, np.uint8))
        c.image(f"d/label/{i}.png", c.labels(16, 16, 2))
    c.write("d/classes.txt", "same\nchange\n")
    c.run("data d --sheet sheet.png --sheet-samples 2", 0)
    sheet = Image.open(c.path("sheet.png"))
    row = np.asarray(sheet.convert("RGB")).astype(int)
    shown = [np.flatnonzero((np.abs(row - colour).max(2) < 2).any(0)) for colour in ((250, 20, 40),)]
    cells = colours_of(sheet).get((250, 20, 40), 0)
    assert cells == 6 * 128 * 128, cells  # of two classes two samples that train, and the one that validates
    overlaid = np.flatnonzero((row[:, :, 1] > 100) & (row[:, :, 0] < 130) & (row[:, :, 2] < 60))
    assert overlaid.size and shown[0].min() > (overlaid % row.shape[1]).min(), "the second one is right of the first"
    for i in range(6):  # maps in colours stand behind both
        np.save(c.path(f"m/depth/{i}.npy"), np.full((16, 16), i + 1, np.float32))
        for folder in "AB":
            shutil.copy(c.path(f"d/{folder}/{i}.png"), c.path(f"m/{folder}/{i}.png"))
    c.run("data m --target map --sheet m.png --sheet-samples 6", 0)
    found = colours_of(Image.open(c.path("m.png")))
    assert found.get((10, 200, 30)) == found.get((250, 20, 40)) == 6 * 128 * 128, found
    assert found.get((68, 1, 84), 0) >= 128 * 128, "the map of the least value"
    c.write("c.lua", "return { flip {}, invert { p = 1 } }")
    c.run("run show_augment.lua d --augment c.lua --samples 2 --variants 1 --size 16 --cell 16 --out a.png", 0)
    found = colours_of(Image.open(c.path("a.png")))
    zoomed = 2 * 16 * 16
    for colour in ((10, 200, 30), (250, 20, 40), (245, 55, 225), (5, 235, 215)):  # originals, and their negatives
        assert found.get(colour) == zoomed, (colour, found.get(colour))
    c.run("run show_augment.lua d --samples 2 --variants 1 --size 16 --cell 16 --jitter 0 --hue 0 --blur 0 --rotate 0 --crop 0 --out b.png", 0)
    found = colours_of(Image.open(c.path("b.png")))
    assert found.get((10, 200, 30)) == found.get((250, 20, 40)) == 2 * zoomed, found
    c.run("run show_augment.lua d --separate-colours --out x.png", 2, "--separate-colours: goes with --augment FILE.lua")
    c.run("run show_augment.lua shapes --separate-colours --augment c.lua --out x.png", 2, "shapes has one")
    c.run("run train_seg.lua --data d --size 16 --steps 2 --batch 2 --pictures 1 --train-encoder --width 2 --levels 1 --out r --quiet", 0)
    c.run("report r", 0)
    page = c.read("r/report.html").decode()
    assert page.count("second image") >= 2 and page.count("first image") == page.count("second image"), page.count("second image")
    one = colours_of(Image.open(c.path("r/samples/second-00000.png")))
    assert one == {(250, 20, 40): 256}, one
    assert base64.b64encode(c.read("r/samples/second-00000.png")).decode() in page


def safetensors(c, name, tensors):
    head, body = {}, b""
    for key, a in tensors.items():
        a = a.astype(np.float32)
        head[key] = {"dtype": "F32", "shape": list(a.shape), "data_offsets": [len(body), len(body) + a.nbytes]}
        body += a.tobytes()
    text = json.dumps(head).encode()
    c.write(name, len(text).to_bytes(8, "little") + text + body)


@case
def stereo_training(c):
    "left and right with disparity: trained early and siamese, predicted, and what a chain may not do with them"
    for i in range(10):
        picture = c.picture(16, 24)
        shift = i % 4
        c.image(f"d/left/{i}.png", np.ascontiguousarray(picture[:, 4:20]))
        c.image(f"d/right/{i}.png", np.ascontiguousarray(picture[:, 4 + shift:20 + shift]))
        np.save(c.path(f"d/disparity/{i}.npy"), np.full((16, 16), shift, np.float32))
    train = "run train_map.lua --data d --size 16 --steps 2 --batch 4 --map-nodata none --metrics none"
    early = f"{train} --width 2 --levels 1"
    c.run(f"{early} --out early", 0, "two images a sample, early fusion")
    c.write("n.lua", "return { preprocess = { size = 16, crop = 16, mean = { 0, 0, 0 }, std = { 1, 1, 1 }, interpolation = 'bilinear' }, "
            "{ 'conv', 8, kernel = 3, pad = 1, stride = 2, name = 'a' }, { 'relu' } }")
    safetensors(c, "n.safetensors", {"a.weight": c.rng.normal(0, 0.2, (8, 3, 3, 3)), "a.bias": np.zeros(8)})
    c.run(f"{train} --backbone n.lua --weights n.safetensors --model fcn --out siamese", 0, "two images a sample, siamese fusion")
    frozen = f"spcore {train} --fusion siamese --model fcn --backbone n.lua --weights n.safetensors"
    c.cures(f"{early} --fusion siamese", "trained apart", ("--fusion early", "--fusion early"),
            ("--backbone NAME --weights FILE", frozen), status=2)
    c.cures(f"{train} --fusion siamese --model fcn --backbone n.lua --train-encoder", "trained apart", ("--fusion early", "--fusion early"),
            ("leave --train-encoder out and give --weights FILE", frozen), status=2)
    c.write("a.txt", "d/left/1.png\nd/left/2.png\n")
    c.write("b.txt", "d/right/1.png\nd/right/2.png\n")
    for run in ("early", "siamese"):
        c.run(f"run predict_map.lua --weights {run} d/left d/right --out all-{run}", 0)
        c.run(f"run predict_map.lua --weights {run} @a.txt @b.txt --out some-{run}", 0)
        c.run(f"run predict_map.lua --weights {run} d/left/1.png d/left/1.png --out same-{run}", 0)
        c.run(f"run predict_map.lua --weights {run} d/left/1.png --out one-{run}", 2, "two images a sample")
        maps = [np.load(c.path(f"{out}-{run}/maps/1.npy")) for out in ("all", "some", "same")]
        assert maps[0].shape == (16, 16) and (maps[0] == maps[1]).all() and (maps[0] != maps[2]).any(), run
        c.run(f"export {run} --torch torch-{run} --onnx {run}.onnx", 0, ["takes float32 N x 6 x H x W"])
        scale = json.loads(c.read(f"{run}/settings.json"))["model"]["numbers"]
        for out in computed(c, run, ("left", "right")):
            assert np.abs(out[0] * scale["std"][0] + scale["mean"][0] - maps[0]).max() < 1e-5 * max(1, np.abs(maps[0]).max()), run
    # what is left in both images is right in both when they are mirrored
    c.run(f"{early} --augment chains/seg.lua", 1, ["chains/seg.lua:5: flip of left and right images mirrors both", "flip { horizontal = 0, vertical = 0.5 }"])
    good = "flip { horizontal = 0, vertical = 0.5 }, color_jitter { brightness = 0.3 }"
    for step in ("batch_rotate { degrees = 5 }", "affine { shear = 3 }", "perspective {}", "elastic {}", "batch_resized_crop { size = size }", "rand_augment {}"):
        c.write("c.lua", f"return {{\n  {good},\n  {step} }}")
        c.run(f"{early} --augment c.lua", 1, [f"c.lua:3: {step.split()[0]} of left and right images moves pixels", "leave it out"])
    c.write("c.lua", f"return {{ {good} }}")
    c.run(f"{early} --augment c.lua --separate-colours", 0)
    os.rename(c.path("d/left"), c.path("d/first"))
    os.rename(c.path("d/right"), c.path("d/second"))
    c.run(f"{early} --augment chains/seg.lua", 0)


def computed(c, run, folders="AB"):
    """What the module gives of both images, where PyTorch is there, and the ONNX file, where onnx or ONNX Runtime is."""
    pixels = [np.asarray(Image.open(c.path(f"d/{k}/1.png")), np.float32) / 255 for k in folders]
    x = np.concatenate(pixels, 2).transpose(2, 0, 1)[None]
    found = []
    try:
        import torch
        code = {"__file__": c.path(f"torch-{run}/model.py"), "__name__": "model"}
        with open(c.path(f"torch-{run}/model.py")) as f:
            exec(compile(f.read(), "model.py", "exec"), code)
        found.append(code["load"]()(torch.from_numpy(x)).detach().numpy())
    except ImportError:
        pass
    try:
        from onnx.reference import ReferenceEvaluator
        found.append(ReferenceEvaluator(c.path(f"{run}.onnx")).run(None, {"image": x})[0])
    except ImportError:
        pass
    try:
        import onnxruntime
        session = onnxruntime.InferenceSession(c.path(f"{run}.onnx"), providers=["CPUExecutionProvider"])
        found.append(session.run(None, {"image": x})[0])
    except ImportError:
        pass
    return [out[0] for out in found]


def same_as_exported(c, run):
    """The probabilities that predict_seg.lua has written."""
    want = np.load(c.path(f"all-{run}/probabilities/1.npy"))
    for logits in computed(c, run):
        odds = np.exp(logits - logits.max(0))
        assert np.abs(odds / odds.sum(0) - want).max() < 1e-5, run


@case
def from_folder_to_masks(c):
    "training, prediction of files, folders and lists, both ways of fusion, windows"
    fill(c, "A B label", n=12, side=16)
    train = "run train_seg.lua --data d --size 16 --steps 3 --batch 4 --pictures 2 --quiet"
    c.run(f"{train} --train-encoder --width 2 --levels 1 --out early --augment chains/seg.lua", 0)
    c.run(f"{train} --out siamese", 0)
    c.run(f"{train} --train-encoder --fusion siamese", 2, ["--fusion siamese", "--fusion early"])
    c.run(f"{train} --fusion early --no-train-encoder", 2, ["--fusion early", "the shipped encoder", "--train-encoder"])
    c.run("run train_seg.lua --steps 1 --fusion early --train-encoder", 2, ["--fusion early", "two images a sample", "shapes has one"])
    c.write("a.txt", "d/A/0.png\nd/A/1.png\n")
    c.write("b.txt", "d/B/0.png\nd/B/1.png\n")
    predict = "run predict_seg.lua --quiet --weights"
    for run in ("early", "siamese"):
        c.run(f"{predict} {run} d/A d/B --out all-{run} --probabilities npy", 0)
        c.run(f"{predict} {run} @a.txt @b.txt --out lists-{run}", 0)
        c.run(f"{predict} {run} d/A/0.png d/B/0.png d/A/1.png d/B/1.png --out files-{run}", 0)
        c.run(f"{predict} {run} d/A/0.png d/A/0.png --out same-{run}", 0)
        c.run(f"{predict} {run} d/A d/B --out windows-{run} --window 16 --flip", 0)
        masks = {}
        for out in ("all", "lists", "files"):
            with open(c.path(f"{out}-{run}/masks/1.png"), "rb") as f:
                masks[out] = f.read()
        assert len(set(masks.values())) == 1
        c.run(f"{predict} {run} d/A/0.png --out x", 2, ["two images a sample", "A/1.png B/1.png"])
        c.run(f"{predict} {run} d/A d/B/0.png --out x", 2, ["two files, two folders or two lists"])
    for run in ("early", "siamese"):
        c.run(f"export {run} --torch torch-{run} --onnx {run}.onnx", 0, ["takes float32 N x 6 x H x W"])
        same_as_exported(c, run)
    c.image("d/B/3.png", 9, 8)
    c.run(f"{predict} early d/A/3.png d/B/3.png --out x".replace("--quiet ", ""), 1, ["d/A/3.png is 16 x 16", "d/B/3.png is 8 x 9"])
    os.remove(c.path("d/B/3.png"))
    c.run(f"{predict} early d/A d/B --out y", 2, ["d/A/3.png has no second image", "1 of 12"])


if __name__ == "__main__":
    main()
