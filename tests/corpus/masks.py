# SPDX-License-Identifier: MIT
# needs: onednn images jansson
# needs no torch
"""What the pixels of masks mean, and what is said before anything is learned from them."""
import json
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from kit import Image, case, main

SIDE = 16


def values(*v):
    """A mask with a stripe of each."""
    return np.repeat(np.array(v, np.uint8), SIDE * SIDE // len(v)).reshape(-1, SIDE)


def fill(c, mask, classes="bg\nfg\n", n=8, ending="png", **how):
    """n images with that mask, which an odd one of n may replace: mask(k)."""
    for k in range(n):
        m = mask(k) if callable(mask) else mask
        c.image(f"d/images/{k}.png", *m.shape[:2])
        c.image(f"d/masks/{k}.{ending}", m, **how)
    if classes:
        c.write("d/classes.txt", classes)


def wrong(name, doc, mask, says, cure=None, classes="bg\nfg\n", check=None, **how):
    """An error of a training in one line; with the option `cure`, which it names, the check finds nothing wrong."""
    def f(c):
        fill(c, mask, classes, **how)
        r = c.run("run train_seg.lua --data d --size 16 --batch 4 --steps 1 --pictures 0 --out r", 1, says=says)
        assert r.err.count("\n") == 1, r
        c.run("data d --check", 1, says=check or says)
        if cure:
            assert f"--mask-values {cure}" in r.text or f"--mask-values '{cure}'" in r.text, r
            c.run(f"data d --check --mask-values '{cure}'", 0, says="all 8 samples can be used")
    f.__name__, f.__doc__ = name, doc
    case(f)


def reads(name, doc, mask, shares, options="", classes="bg\nfg\n", names=None, says=(), **how):
    """The shares of pixels of each class."""
    def f(c):
        fill(c, mask, classes, **how)
        r = c.json(f"data d --check {options}")
        assert np.allclose(r["check"]["pixels"] + [r["check"]["unlabelled"]], shares, atol=2e-3), r
        assert names is None or r["class_names"] == names, r
        for word in [says] if isinstance(says, str) else says:
            assert any(word in line for line in r["check"]["odd"]), r
    f.__name__, f.__doc__ = name, doc
    case(f)


# ---- values that are no labels ----
wrong("mask_0_255", "the most common binary mask", values(0, 255), ["no mask has class 1 'fg'", "50 % of pixels are 255 = no label"], "0=bg,255=fg")
wrong("mask_0_255_three", "with three classes", values(0, 255), ["no mask has class 1 'b'", "50 % of pixels are 255"], classes="a\nb\nc\n")
wrong("mask_255_alone", "all is no label", values(255, 255), "no mask has a class")
wrong("mask_0_alone", "all is ground", values(0, 0), "no mask has class 1 'fg', only 0 'bg'")
wrong("mask_1_alone", "all is object", values(1, 1), "no mask has class 0 'bg', only 1 'fg'")
wrong("mask_0_128", "two other values", values(0, 128), "say which class each is", "0=bg,128=fg")
wrong("mask_0_254", "two other values, one beside 255", values(0, 254), "say which class each is", "0=bg,254=fg")
wrong("mask_1_2", "labels from 1", values(1, 2), "counted from 1", "1=bg,2=fg")
wrong("mask_1_3", "labels from 1 of three classes", values(1, 2, 3, 3), "counted from 1", "1=a,2=b,3=c", "a\nb\nc\n")
wrong("mask_thirds", "grey values spread over the classes", values(0, 85, 170, 170), "other numbers", "0=a,85=b,170=c", "a\nb\nc\n")
wrong("mask_too_many", "a label more than classes", values(0, 1, 2, 2), ["label 2", "classes = 3"])
wrong("mask_instances", "numbers of instances", values(*range(0, 64, 2)), "numbers of instances")
wrong("mask_one_class", "one class", values(0, 0), "there is one class alone", classes="fg\n")


def soft(k=0):
    row = np.clip((np.arange(64) - 28.0) * 25, 0, 255)
    return np.tile(row, (16, 1)).astype(np.uint8)


wrong("mask_soft", "soft edges", soft(), "soft edges", "0-127=bg,128-255=fg")
wrong("mask_rgb_grey", "grey values stored as colours", np.dstack([values(0, 255)] * 3), ["in colour", "#000000=0,#ffffff=1"], "#000000=0,#ffffff=1")
wrong("mask_rgb", "colours without a list", np.dstack([values(0, 200), values(0, 0), values(50, 0)]), "in colour", "#000032=0,#c80000=1")


@case
def mask_rgba(c):
    "a mask with alpha, in colours"
    a = np.dstack([values(0, 255), values(0, 0), values(0, 0), values(255, 255)])
    fill(c, a)
    c.run("data d --check", 1, says=["in colour", "#000000=0,#ff0000=1"])
    c.run("data d --check --mask-values #000000=bg,#ff0000=fg", 0)


@case
def mask_grey_alpha(c):
    "a grey mask with alpha"
    fill(c, np.dstack([values(0, 1), values(255, 255)]))
    c.run("data d --check", 1, says="grey with alpha")


@case
def mask_jpeg(c):
    "masks saved as JPEG"
    fill(c, soft(), ending="jpg", quality=80)
    c.run("data d", 1, says=["has no PNG mask", "0.jpg is there", "JPEG", "--mask-values"])
    r = c.json("data d --check --mask-values 0-127=bg,128-255=fg")
    assert abs(r["check"]["pixels"][1] - 0.48) < 0.03, r


# ---- what mask_values says ----
reads("values_0_255", "0 and 255", values(0, 255), [.5, .5, 0], "--mask-values 0=bg,255=fg")
reads("values_swapped", "255 is ground", values(0, 255, 255, 255), [.75, .25, 0], "--mask-values 255=bg,0=fg")
reads("values_ignore", "three values, one is no label", values(0, 128, 255, 255), [.25, .5, .25], "--mask-values 0=bg,255=fg,128=ignore")
reads("values_without_list", "names of the classes are those of the values", values(0, 255), [.5, .5, 0], "--mask-values 0=x,255=y", None, ["x", "y"])
reads("values_many_to_one", "several values of a class", values(0, 1, 2, 3), [.5, .5, 0], "--mask-values 0=bg,1=bg,2-3=fg")
reads("values_palette", "of a palette the index counts", values(0, 7), [.5, .5, 0], "--mask-values 0=bg,7=fg", palette=[9, 9, 9] * 256)
reads("values_colours", "colours", np.dstack([values(0, 255), values(0, 0), values(0, 0)]), [.5, .5, 0], "--mask-values #000000=bg,#FF0000=fg")
reads("values_grey_as_rgb", "grey values stored as colours", np.dstack([values(0, 255)] * 3), [.5, .5, 0], "--mask-values 0=bg,255=fg")


@case
def values_unknown(c):
    "a value that has no entry"
    fill(c, values(0, 255, 7, 7))
    c.run("data d --check --mask-values 0=bg,255=fg", 1, says=["has the value 7", "add it, as 7=ignore"])
    c.run("data d --check --mask-values 0=bg,255=fg,7=ignore", 0)


@case
def values_wrong(c):
    "entries that make no sense"
    fill(c, values(0, 1))
    for text, words in {"0": "has no =", "0=": "no name", "x=bg": "no value", "0=cat": "classes.txt has not", "0=bg,0=fg": "has a class already",
                        "0=bg,#00ff00=fg": "numbers and colours", "/1=fg": "no number above 1", "/1000,/10": "second divisor", "300-400=bg,350=fg": "has a class already"}.items():
        c.run(f"data d --target mask --mask-values {text}", 1, says=words)


# ---- colours of classes.txt ----
BLACK_WHITE = "bg #000000\nfg #ffffff\n"
reads("colours_grey", "a grey mask whose values are the colours", values(0, 255), [.5, .5, 0], classes=BLACK_WHITE)
reads("colours_index", "a grey mask whose values are the labels", values(0, 1), [.5, .5, 0], classes=BLACK_WHITE)
reads("colours_palette", "a palette in another order than the list", values(0, 1), [.5, .5, 0], classes="a #ff0000\nb #00ff00\n",
      palette=[0, 255, 0, 255, 0, 0])
reads("colours_palette_three", "of three the indices are not the labels", values(0, 1, 2, 2), [.5, .25, .25, 0],
      classes="a #0000ff\nb #ff0000\nc #00ff00\n", palette=[255, 0, 0, 0, 255, 0, 0, 0, 255])
reads("colours_foreign_palette", "a palette of other colours", values(0, 1), [.5, .5, 0], classes="a #ff0000\nb #00ff00\n", palette=[1, 2, 3, 4, 5, 6])


@case
def colours_disagree(c):
    "a palette of which one colour is of another class, and one of none"
    fill(c, values(0, 1), "a #ff0000\nb #00ff00\n", palette=[0, 255, 0, 9, 9, 9])
    c.run("data d --check", 1, says=["the value 0 has the colour #00ff00, which classes.txt gives to 'b', but as a label it is 'a'", "#090909"])


@case
def colours_unknown(c):
    "a colour that has no class"
    fill(c, np.dstack([values(0, 255), values(0, 0), values(0, 0)]), "a #000000\nb #00ff00\n")
    c.run("data d --check", 1, says=["has the colour #ff0000, which no class in classes.txt has", "void #ff0000"])


@case
def palettes_differ(c):
    "a converter has given each mask a palette of its own"
    fill(c, values(0, 1), palette=[255, 0, 0, 0, 255, 0])
    c.image("d/masks/3.png", values(0, 1, 1, 1), palette=[0, 255, 0, 255, 0, 0])
    words = "masks have palettes of their own: the value 0 is #ff0000 in d/masks/0.png and #00ff00 in d/masks/3.png"
    c.run("data d --check", 0, says=words)
    c.run("run train_seg.lua --data d --size 8 --batch 4 --steps 1 --out r", 0, says="masks have palettes of their own")
    c.write("d/classes.txt", "a #ff0000\nb #00ff00\n")
    c.run("data d --check", 0, lacks="palettes of their own")


# ---- classes that are missing ----
reads("absent_class", "a class without a pixel", values(0, 1), [.5, .5, 0, 0], classes="a\nb\nc\n", says="no training mask has class 2 'c'")
reads("absent_zero", "no 0 at all", values(1, 2), [0, .5, .5, 0], classes="a\nb\nc\n", says=["counted from 1? --mask-values 1=a,2=b", "class 0 'a'"])
reads("mostly_unlabelled", "most is no label", values(0, 1, 255, 255, 255, 255, 255, 255), [.125, .125, .75], says="75 % of the pixels for training are 255")
reads("few_of_a_class", "few samples of a class validate", values(0, 1), [.5, .5, 0], says="fewer than 5 validation samples have the class 0 'bg', 1 'fg'")


@case
def absent_in_part(c):
    "a class that validation has not"
    for part, v in {"train": (0, 1, 2, 2), "val": (0, 1, 1, 1)}.items():
        for k in range(6):
            c.image(f"d/{part}/images/{k}.png", SIDE)
            c.image(f"d/{part}/masks/{k}.png", values(*v))
    c.write("d/classes.txt", "a\nb\nc\n")
    words = "no validation mask has class 2 'c' (of 6 masks)"
    c.run("data d --check", 0, says=words)
    c.run("run train_seg.lua --data d --size 16 --batch 4 --steps 1 --pictures 0 --out r", 0, says=words)


@case
def one_class_of_images(c):
    "a folder of one class"
    for k in range(8):
        c.image(f"d/cat/{k}.png", 8)
    words = "there is one class alone, 0 'cat'"
    c.run("data d --check", 1, says=words)
    c.run("run train_cls.lua --data d --size 16 --batch 4 --steps 1 --augment none --pictures 0 --out r", 1, says=words)


@case
def few_for_validation(c):
    "classes with few validation samples"
    for k in range(32):
        c.image(f"d/{'ab'[k % 2]}/{k}.png", 8)
    words = "fewer than 5 validation samples have the class 0 'a', 1 'b'"
    c.run("data d --check", 0, says=words)
    c.run("run train_cls.lua --data d --size 16 --batch 4 --steps 1 --augment none --pictures 0 --out r", 0, says=words)


# ---- folds and a limit ----
@case
def folds(c):
    "every sample is in one fold"
    for k in range(20):
        c.image(f"d/{'ab'[k % 2]}/{k}.png", 8)
    parts = [c.json(f"data d --folds 4 --fold {f}")["counts"]["val"] for f in (1, 2, 3, 4)]
    assert [sum(n) for n in zip(*parts)] == [10, 10] and all(n in (2, 3) for part in parts for n in part), parts
    c.run("data d --folds 4", 1, says=["fold = 0", "--fold 1"])
    c.run("data d --folds 4 --fold 5", 1, says="the folds are 1 to 4")
    c.run("run train_cls.lua --data d --folds 4 --fold 2 --size 16 --batch 4 --steps 1 --augment none --pictures 0 --out r", 0, says="data d: 15 train, 5 val")


@case
def limit(c):
    "a few samples of each class"
    for k in range(40):
        c.image(f"d/{'ab'[k % 4 == 0]}/{k}.png", 8)
    r = c.json("data d --limit 8 --val-fraction 0.5")
    assert [a + b for a, b in zip(r["counts"]["train"], r["counts"]["val"])] == [6, 2], r


BINARY = """
local sp = require "spcore"
local opt = sp.args {}
local g <close> = sp.graph(opt)
local data = g.reader { path = "d", split = "train", size = 16, batch = 4, val_fraction = 0.25 }
local e = g.encoder { g.to_float { data.image, scale = true }, layers = { { "conv", 4, kernel = 3, pad = 1 }, { "relu" } } }
local d = g.decoder { e.features, classes = 1, layers = { { "conv", 1, kernel = 1 } } }
g:train { g.bce { d.logits, data.mask, ignore_index = 255 }, optimizer = g.adamw { lr = 0.05 } }
local run <close> = sp.run { graph = g, opt = opt, steps = 30, classes = data.class_names }
for step, m in g:steps(30) do run:step(step, m) end
run:finish()
"""


@case
def one_output_behind_bce(c):
    "masks of 0 and 1 that a script of one's own trains with bce, in one channel: predicted, by a threshold that is said"
    for k in range(8):
        mask = np.zeros((16, 16), np.uint8)
        mask[k: k + 8, 4:12] = 1
        c.image(f"d/images/{k}.png", (mask[:, :, None] * 160 + c.picture(16, 16) // 4).astype(np.uint8))
        c.image(f"d/masks/{k}.png", mask)
    c.write("d/classes.txt", "ground\nthing\n")
    c.write("own.lua", BINARY)
    c.run("run own.lua --out r --quiet")

    def predicted(more, out, says):
        c.run(f"run predict_seg.lua --weights r --out {out} --probabilities npy d/images/3.png {more}", says=says)
        p, mask = np.load(c.path(f"{out}/probabilities/3.npy")), np.asarray(Image.open(c.path(f"{out}/masks/3.png")))
        assert p.shape == (1, 16, 16) and mask.shape == (16, 16), (p.shape, mask.shape)
        return p[0], mask

    said = "a pixel is 1 where that is at least 0.5 probable, else 0 (--threshold P)"
    p, mask = predicted("", "a", said)
    assert (mask == (p >= 0.5)).all() and 0 < mask.sum() < 256, mask
    truth = np.asarray(Image.open(c.path("d/masks/3.png")))
    assert (mask == truth).mean() > 0.9, (mask, p)
    strict = float(np.sort(p[mask == 1])[int(mask.sum()) // 2]) * 0.999
    p, mask = predicted(f"--threshold {strict:.4f}", "b", f"at least {strict:.4f}".rstrip("0"))
    assert (mask == (p >= round(strict, 4))).all() and mask.sum() < truth.sum(), mask
    whole, mask = predicted("--window 8 --stride 4 --flip", "w", said)
    assert (mask == (whole >= 0.5)).all()
    got = json.loads(c.read("a/predictions.json"))
    assert got["classes"] == ["ground", "thing"] and sum(got["images"][0]["pixels"]) == 256 and len(got["images"][0]["pixels"]) == 2, got
    c.run("run predict_seg.lua --weights r --out q --probabilities png d/images/3.png", says=said)
    own = np.asarray(Image.open(c.path("q/probabilities/3.png"))).astype(float) / 65535
    first = np.load(c.path("a/probabilities/3.npy"))[0]
    assert np.abs(own - np.maximum(first, 1 - first)).max() < 1e-4, "the label's own"
    c.cures("run predict_seg.lua --weights r --out t d/images/3.png", said, ("--threshold P", "--threshold 0.9"), status=0)
    c.run("run predict_cls.lua --weights r --out x.csv d/images/3.png", 2, says="spcore run predict_seg.lua --weights r predicts it")
    c.run("run train_seg.lua --data d --size 16 --batch 4 --steps 1 --pictures 0 --quiet --width 2 --levels 1 --train-encoder --out s")
    c.cures("run predict_seg.lua --weights s --out o d/images/3.png --threshold 0.4", "goes with a run whose masks are one output", ("--threshold", None), status=2)


RESTORE = """
local sp = require "spcore"
local opt = sp.args({ how = { "", "" }, shorter = { 0, "" }, values = { false, "" } }, {})
local g <close> = sp.graph(opt)
local how = opt.how ~= "" and opt.how or nil
local ask = g.image_requests { size = { 16, 12 }, batch = 1, resize = how, shorter = opt.shorter }
local logits = g.to_float { ask.image, scale = true }
local channel = opt.values and g.layers { logits, layers = { { "conv", 1, kernel = 1, bias = false } } }
g.image_writer { logits = channel and channel.features or logits, dir = "out", images = "", restore = true, resize = how, shorter = opt.shorter,
  masks = channel and "" or "*.png", overlays = "", values = channel and "*.npy" or "" }
local done
for _ in g:answers(function()
  if done then return end
  done = true
  return { path = "a.png", name = (how or "squash") .. opt.shorter }
end) do end
"""


@case
def fitted_back(c):
    "what a network says of an image that was cut or got a border goes back to its place; what it has not seen has no label"
    size = 60, 40  # width, height
    px = np.zeros((40, 60, 3), np.uint8)
    px[:20, :, 0] = px[20:, :, 1] = 255  # class 0 above, 1 below, 2 in a column and at the left edge
    px[:, 24:36] = px[:, :6] = 0, 0, 255
    c.image("a.png", px)
    c.write("s.lua", RESTORE)
    wanted = px.argmax(2)
    for how, shorter, seen in (("", 0, (0, 60, 0, 40)), ("pad", 0, (0, 60, 0, 40)), ("crop", 0, (15, 45, 0, 40)), ("", 20, (18, 42, 4, 36))):
        c.run(f"run s.lua --device cpu --quiet --how '{how}' --shorter {shorter}")
        with Image.open(c.path(f"out/{how or 'squash'}{shorter}.png")) as im:
            assert im.size == size, im.size
            got = np.asarray(im)
        x0, x1, y0, y1 = seen
        there = np.zeros((40, 60), bool)
        there[y0:y1, x0:x1] = True
        assert (got[~there] == 255).all() and (got[there] != 255).all(), (how, shorter, np.unique(got[~there]), (got[there] == 255).sum())
        off = (got != wanted) & there
        assert off.sum() < 0.15 * there.sum(), (how, shorter, int(off.sum()))  # along borders of classes
        for y, x in ((8, 21), (32, 39), (8, 39), (32, 21), (8, 30), (32, 29)):
            assert got[y, x] == wanted[y, x], (how, shorter, y, x)


@case
def trained_fitted(c):
    "--resize crop and pad of trainings: images, masks, predictions of the whole image, pictures of validations"
    for k in range(16):
        c.image(f"d/images/{k}.png", 20, 40)
        c.image(f"d/masks/{k}.png", c.labels(20, 40, 2))
        c.image(f"e/{'ab'[k % 2]}/{k}.png", 20, 40)
    c.write("d/classes.txt", "a\nb\n")
    few = "--batch 4 --steps 1 --size 16 --width 2 --levels 1 --device cpu --quiet"
    bits = {}
    for how in ("auto", "squash", "crop", "pad"):
        for kind, data in (("seg", "d"), ("cls", "e")):
            name = kind + how
            c.run(f"run train_{kind}.lua --data {data} {few} --resize {how} --out {name}")
            read = json.load(open(c.path(name + "/settings.json")))["model"].get("read") or {}
            assert read.get("resize") == (how if how in ("crop", "pad") else None), read
            bits[name] = open(c.path(name + "/weights.safetensors"), "rb").read()
            c.run(f"run predict_{kind}.lua --weights {name} --out {name}p{'' if kind == 'seg' else '.csv'} d/images/0.png --device cpu")
        with Image.open(c.path(f"seg{how}p/masks/0.png")) as im:
            got = np.asarray(im)
        assert got.shape == (20, 40), got.shape
        assert ((got == 255).all(0) == ([x < 10 or x >= 30 for x in range(40)] if how == "crop" else [False] * 40)).all(), how
    for kind in ("seg", "cls"):
        assert bits[kind + "auto"] == bits[kind + "squash"], kind
        assert len({bits[kind + how] for how in ("squash", "crop", "pad")}) == 3, kind


if __name__ == "__main__":
    main()
