# SPDX-License-Identifier: MIT
# needs: onednn images jansson
# needs no torch
"""Two images a sample: before and after, left and right, as people lay them out, and what of it is asked about."""
import os
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
    "xView2: each is a sample of its own, which is said"
    fill(c, "images images masks", names=("{}_pre_disaster.png", "{}_post_disaster.png", "{}_pre_disaster.png"))
    for i in range(4):
        c.image(f"d/masks/{i}_post_disaster.png", np.zeros((8, 8), np.uint8))
    r = c.json("data d")
    assert r["layout"] == "pairs" and sum(r["samples"][k] for k in ("train", "val")) == 8, r
    assert any("come in twos, such as 0_pre_disaster.png and 0_post_disaster.png" in line or
               "come in twos, such as 0_post_disaster.png and 0_pre_disaster.png" in line for line in r["notes"]), r


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


def same_as_torch(c, run):
    """The module, where PyTorch is there, and the ONNX file, where onnx is, give the probabilities that predict_seg.lua has written."""
    pixels = [np.asarray(Image.open(c.path(f"d/{k}/1.png")), np.float32) / 255 for k in "AB"]
    x = np.concatenate(pixels, 2).transpose(2, 0, 1)[None]
    want = np.load(c.path(f"all-{run}/probabilities/1.npy"))
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
    for logits in found:
        odds = np.exp(logits[0] - logits[0].max(0))
        assert np.abs(odds / odds.sum(0) - want).max() < 1e-4, run


@case
def from_folder_to_masks(c):
    "training, prediction of files, folders and lists, both ways of fusion, windows"
    fill(c, "A B label", n=12, side=16)
    train = "run train_seg.lua --data d --size 16 --steps 3 --batch 4 --pictures 2 --quiet"
    c.run(f"{train} --train-encoder --width 2 --levels 1 --out early --augment chains/seg.lua", 0)
    c.run(f"{train} --out siamese", 0)
    c.run(f"{train} --train-encoder --fusion siamese", 2, ["--fusion siamese", "--fusion early"])
    c.run(f"{train} --fusion early", 2, ["--fusion early", "the shipped encoder", "--train-encoder"])
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
        same_as_torch(c, run)
    c.image("d/B/3.png", 9, 8)
    c.run(f"{predict} early d/A/3.png d/B/3.png --out x".replace("--quiet ", ""), 1, ["d/A/3.png is 16 x 16", "d/B/3.png is 8 x 9"])
    os.remove(c.path("d/B/3.png"))
    c.run(f"{predict} early d/A d/B --out y", 2, ["d/A/3.png has no second image", "1 of 12"])


if __name__ == "__main__":
    main()
