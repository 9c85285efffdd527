# SPDX-License-Identifier: MIT
# needs: onednn images jansson
# needs no torch
"""Masks whose numbers have more than 8 bits, count objects, lie in planes of classes, or come as TIFF and .npy."""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from formats import npy, png16, tiff
from kit import case, main

SIDE = 16


def stripes(*v, dtype=np.int64):
    """A mask with a stripe of each."""
    return np.repeat(np.array(v, dtype), SIDE * SIDE // len(v)).reshape(-1, SIDE)


def fill(c, data, ending="png", classes="bg\nfg\n", n=8):
    for k in range(n):
        c.image(f"d/images/{k}.png", SIDE)
        c.write(f"d/masks/{k}.{ending}", data)
    if classes:
        c.write("d/classes.txt", classes)


def reads(name, doc, data, shares, ending="png", options="", classes="bg\nfg\n", names=None):
    """The shares of pixels of each class, and of no label."""
    def f(c):
        fill(c, data, ending, classes)
        r = c.json(f"data d --check {options}")
        assert np.allclose(r["check"]["pixels"] + [r["check"]["unlabelled"]], shares, atol=2e-3), r
        assert names is None or r["class_names"] == names, r
    f.__name__, f.__doc__ = name, doc
    case(f)


def wrong(name, doc, data, says, ending="png", cure=None, classes="bg\nfg\n", options=""):
    """One line of a run, which names `cure`, with which all samples can be used."""
    def f(c):
        fill(c, data, ending, classes)
        r = c.run(f"run train_seg.lua --data d {options} --size 16 --batch 4 --steps 1 --pictures 0 --out r", 1, says=says)
        assert r.err.count("\n") == 1, r
        if cure:
            assert f"--mask-values {cure}" in r.text or f"--mask-values '{cure}'" in r.text, r
            c.run(f"data d --check --mask-values '{cure}'", 0, says="all 8 samples can be used")
    f.__name__, f.__doc__ = name, doc
    case(f)


# ---- 16 bits ----
wrong("wide_0_65535", "0 and 65535", png16(stripes(0, 65535)), ["is 65535, which is no label", "other numbers"], cure="0=bg,65535=fg")
wrong("wide_0_257", "labels times 257", png16(stripes(0, 257)), "other numbers", cure="0=bg,257=fg")
reads("wide_labels", "numbers of classes", png16(stripes(0, 1)), [.5, .5, 0])
reads("wide_void", "255 is no label in 16 bits, too", png16(stripes(0, 1, 255, 255)), [.25, .25, .5])
reads("wide_listed", "0 and 65535 with mask_values", png16(stripes(0, 65535)), [.5, .5, 0], options="--mask-values 0=bg,65535=fg")
reads("wide_range", "a range across the border of 8 bits", png16(stripes(0, 200, 300, 40000)), [.25, .75, 0], options="--mask-values 0=bg,1-65535=fg")
reads("wide_ranges", "ranges of objects", png16(stripes(7, 11000, 11001, 26000)), [.25, .5, .25, 0], classes="road\nperson\ncar\n",
      options="--mask-values 7=road,11000-11999=person,26000-26999=car")
reads("wide_without_list", "names of the classes are those of the values", png16(stripes(0, 1000)), [.5, .5, 0], options="--mask-values 0=x,1000=y",
      classes=None, names=["x", "y"])
reads("wide_numbers", "numbers of classes in place of names", png16(stripes(0, 1000, 2000, 2000)), [.25, .25, .5, 0], classes=None,
      options="--mask-values 0=0,1000=1,2000=2")
wrong("wide_unknown", "a value that has no entry", png16(stripes(0, 500)), ["the value 500, which mask_values has not", "500=ignore"],
      options="--mask-values 0=bg,1-499=fg")


@case
def wide_edge_first(c):
    "an unknown value may be the first or the last"
    for v in ((9, 1), (1, 9)):
        fill(c, png16(stripes(*v)))
        c.run("data d --check --mask-values 1=fg", 1, says="the value 9")


# ---- numbers of objects ----
CITY = png16(stripes(7, 7, 8, 11000, 11001, 11002, 26000, 26001))
wrong("objects_city", "class * 1000 + k", CITY, ["numbers of objects, class * 1000 + k, as Cityscapes", "/1000,7=a"], classes="a\nb\nc\nd\n",
      cure="/1000,7=a,8=b,11=c,26=d")
wrong("objects_city_plain", "classes that are the numbers themselves", png16(stripes(0, 1000, 1001, 2000)), ["class * 1000 + k"], cure="/1000",
      classes="a\nb\nc\n")
reads("objects_divided", "divided by 1000", CITY, [.375, .375, .25, 0], options="--mask-values /1000,7=flat,8=flat,11=person,26=car",
      classes="flat\nperson\ncar\n")
reads("objects_divided_alone", "divided, and a label then", png16(stripes(0, 1000, 1001, 2000)), [.25, .5, .25, 0], options="--mask-values /1000",
      classes="a\nb\nc\n")
reads("objects_divided_by_256", "divided by 256", png16(stripes(0, 256, 257, 515)), [.25, .5, .25, 0], options="--mask-values /256", classes="a\nb\nc\n")
wrong("objects_divided_unknown", "what is left has no entry", CITY, ["which is 26 once it is divided by 1000", "26=ignore"], classes="a\nb\n",
      options="--mask-values /1000,7-8=a,11=b")
wrong("objects_1_to_n", "a number for each object, in 16 bits", png16(np.arange(SIDE * SIDE).reshape(SIDE, SIDE) // 8 * 1), "numbers of objects",
      cure="0=bg,1-65535=fg")
wrong("objects_8_bits", "in 8 bits", npy((np.arange(SIDE * SIDE).reshape(SIDE, SIDE) // 8).astype(np.uint8)), "numbers of objects", "npy")
wrong("objects_few", "so few that they may be classes", png16(stripes(0, 1, 2, 3)), ["classes = 4", "numbers of objects"])
wrong("objects_of_three", "with three classes they do not say which", png16(np.arange(SIDE * SIDE).reshape(SIDE, SIDE) // 4), "their class is not in the mask",
      classes="a\nb\nc\n")
wrong("depth_as_mask", "a depth map where masks belong", png16((np.arange(SIDE * SIDE) * 251 % 65521).reshape(SIDE, SIDE)), ["different values", "or a picture"])


# ---- TIFF and .npy ----
reads("tiff_8", "a TIFF of bytes", tiff(stripes(0, 1, dtype=np.uint8)), [.5, .5, 0], "tif")
reads("tiff_16", "of 16 bits", tiff(stripes(0, 1, dtype=np.uint16)), [.5, .5, 0], "tif")
reads("tiff_big_endian", "in the other byte order", tiff(stripes(0, 1, dtype=np.uint16), ">"), [.5, .5, 0], "tiff")
reads("tiff_float", "of float that are whole", tiff(stripes(0, 1, dtype=np.float32)), [.5, .5, 0], "tif")
reads("tiff_signed", "with a sign", tiff(stripes(0, 1, dtype=np.int32)), [.5, .5, 0], "tif")
reads("tiff_values", "with mask_values", tiff(stripes(0, 70000, dtype=np.uint32)), [.5, .5, 0], "tif", "--mask-values 0=bg,70000=fg")
wrong("tiff_negative", "-1 for no label", tiff(stripes(-1, 1, dtype=np.int16)), "is -1, which is no label", "tif")
wrong("tiff_fractions", "probabilities", tiff(stripes(0.25, 0.75, dtype=np.float32)), ["is 0.25", "whole numbers"], "tif")
wrong("tiff_white_is_0", "0 is white", tiff(stripes(0, 1, dtype=np.uint8), photometric=0), "0 is white", "tif")
wrong("tiff_colour", "a TIFF in colour", tiff(np.dstack([stripes(0, 255, dtype=np.uint8)] * 3), photometric=2), "#000000=0,#ffffff=1", "tif",
      cure="#000000=0,#ffffff=1", classes="a\nb\nc\nd\n")
reads("npy_8", "an array of bytes", npy(stripes(0, 1, dtype=np.uint8)), [.5, .5, 0], "npy")
reads("npy_bool", "of bool", npy(stripes(0, 1, dtype=bool)), [.5, .5, 0], "npy")
reads("npy_int64", "of int64", npy(stripes(0, 1)), [.5, .5, 0], "npy")
reads("npy_swapped", "in the other byte order", npy(stripes(0, 1, dtype=">i4")), [.5, .5, 0], "npy")
reads("npy_half", "of float16", npy(stripes(0, 1, dtype=np.float16)), [.5, .5, 0], "npy")
reads("npy_values", "with mask_values", npy(stripes(0, 300)), [.5, .5, 0], "npy", "--mask-values 0=bg,300=fg")
reads("npy_plane", "with a dimension of 1", npy(stripes(0, 1)[None]), [.5, .5, 0], "npy")
wrong("npy_nan", "not a number", npy(stripes(np.nan, 1, dtype=np.float32)), "is nan", "npy")
wrong("npy_other_size", "of another size than its image", npy(stripes(0, 1)[4:12]), "is 16 x 16 pixels, but its mask", "npy")
wrong("npy_cut", "cut off", npy(stripes(0, 1))[:-8], "cut off", "npy", options="--set reader.max_bad=0")
wrong("npy_objects", "an array of objects", npy(np.array([None])), "it holds objects", "npy", options="--set reader.max_bad=0")


# ---- planes of classes ----
def planes(k, dtype=np.uint8, one=1):
    """H x W x C with 1 in the plane of the class."""
    return (np.eye(k, dtype=dtype) * dtype(one))[stripes(*range(k)) if k != 3 else stripes(0, 1, 2, 2)]


reads("planes_last", "H x W x C", npy(planes(4)), [.25] * 4 + [0], "npy", classes="a\nb\nc\nd\n")
reads("planes_first", "C x H x W", npy(np.moveaxis(planes(4), 2, 0)), [.25] * 4 + [0], "npy", classes="a\nb\nc\nd\n")
reads("planes_255", "0 and 255", npy(planes(3, one=255)), [.25, .25, .5, 0], "npy", classes="a\nb\nc\n")
reads("planes_float", "of float", npy(planes(2, np.float32)), [.5, .5, 0], "npy")
reads("planes_tiff", "a TIFF with a band for each class", tiff(planes(4)), [.25] * 4 + [0], "tif", classes="a\nb\nc\nd\n")
reads("planes_tiff_planar", "whose bands lie one behind the other", tiff(planes(4), planar=True), [.25] * 4 + [0], "tif", classes="a\nb\nc\nd\n")
wrong("planes_other", "more planes than classes", npy(planes(4)), ["has 4 channels", "one-hot"], "npy")
wrong("planes_several", "a pixel of several classes", npy(np.ones((SIDE, SIDE, 2), np.uint8)), ["has 2 planes that are not 0", "argmax"], "npy")
wrong("planes_none", "a pixel of no class", npy(np.zeros((SIDE, SIDE, 2), np.uint8)), "has 0 planes that are not 0", "npy")


@case
def planes_of_all(c):
    "masks.npy with planes, in either order"
    c.write("d/classes.txt", "a\nb\nc\nd\n")
    c.write("d/images.npy", npy(c.picture(8 * SIDE, SIDE).reshape(8, SIDE, SIDE, 3)))
    for m in (np.stack([planes(4)] * 8), np.stack([np.moveaxis(planes(4, np.float32), 2, 0)] * 8)):
        c.write("d/masks.npy", npy(m))
        r = c.json("data d --target mask --check")
        assert r["check"]["pixels"] == [.25] * 4, r
    c.write("d/masks.npy", npy(np.stack([stripes(0, 1000, 1001, 3000)] * 8).astype(np.uint16)))
    c.run("data d --target mask --check", 1, says=["row 0", "class * 1000 + k", "--mask-values /1000"])
    assert c.json("data d --target mask --check --mask-values /1000")["check"]["pixels"] == [.25, .5, 0, .25]


# ---- images that have more than is read ----
def reduced(name, doc, data, ending, says):
    def f(c):
        for k in range(8):
            c.write(f"d/{'ab'[k % 2]}/{k}.{ending}", data)
        r = c.run("data d --check", 0, says=[*says, "more of this kind are only counted", "reduced: 8 samples"])
        assert r.err.count("\n") == 1, r
        assert c.json("data d --check")["check"]["remarks"][0]["kind"] == "reduced"
    f.__name__, f.__doc__ = name, doc
    case(f)


WIDE = stripes(0, 4095, dtype=np.uint16)
reduced("reduced_png", "a PNG of 16 bits", png16(WIDE), "png", ["has 16 bits a channel, of which the high 8 are read"])
reduced("reduced_tiff", "a TIFF of 16 bits", tiff(WIDE), "tif", ["has 16 bits a channel"])
reduced("reduced_pgm", "a PGM of 16 bits", b"P5 16 16 4095\n" + WIDE.astype(">u2").tobytes(), "pgm", ["has 16 bits a channel"])
reduced("reduced_bands", "a TIFF of five bands", tiff(np.dstack([stripes(0, 9, dtype=np.uint8)] * 5), photometric=2), "tif",
        ["has 5 channels, of which the first three are read"])
reduced("reduced_grey_bands", "a grey TIFF of two bands", tiff(np.dstack([stripes(0, 9, dtype=np.uint8)] * 2)), "tif",
        ["has 2 channels, of which the first one is read"])


@case
def not_reduced(c):
    "alpha, and 8 bits, are nothing to be said"
    for k, channels in enumerate((3, 4) * 4):
        c.image(f"d/{'ab'[k % 2]}/{k}.png", c.picture(8, 8, channels))
    assert c.json("data d --check")["check"]["remarks"] == []


if __name__ == "__main__":
    main()
