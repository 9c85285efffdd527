# SPDX-License-Identifier: MIT
# needs: onednn images jansson
# needs no torch
"""Several labels, and numbers, of arrays and of tar files: what a row or a member says, and what may be two things."""
import io
import json
import os
import sys
import tarfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from kit import case, main

import numpy as np
from PIL import Image

N = 12
HOT = np.eye(3)[np.arange(N) % 3]
SEVERAL = np.array([[i & 1, i >> 1 & 1, i >> 2 & 1, 0] for i in range(N)])
REALS = np.arange(3 * N).reshape(N, 3) / 4 - 1
NAMES = ["ant", "red, bee", "black cow"]


def named(i): return [name for k, name in enumerate(NAMES) if (i + 1) >> k & 1]


def put_arrays(c, labels, at="d", n=N, prefix=""):
    np.save(c.path(f"{at}/{prefix}images.npy"), np.random.default_rng(0).integers(0, 256, (n, 8, 8, 3), dtype=np.uint8))
    if labels is not None:
        np.save(c.path(f"{at}/{prefix}labels.npy"), labels)


def put_tar(c, members, at="d.tar", n=N):
    """members(i): {ending: text}"""
    with tarfile.open(c.path(at), "w") as t:
        for i in range(n):
            picture = io.BytesIO()
            Image.fromarray(c.picture(8, 8)).save(picture, "png")
            for ending, text in [("png", picture.getvalue()), *members(i).items()]:
                text = text if isinstance(text, bytes) else text.encode()
                info = tarfile.TarInfo(f"{i:03d}.{ending}")
                info.size = len(text)
                t.addfile(info, io.BytesIO(text))


def fill(c, what, more):
    if callable(what):
        put_tar(c, what)
    else:
        put_arrays(c, what)
    for path, text in more.items():
        c.write(path, text)
    return "d.tar" if callable(what) else "d"


def total(r, key="counts"):
    return [a + b for a, b in zip(r[key]["train"], r[key]["val"])]


def reads(name, doc, what, target, names, counts=None, figures=None, says=(), options="", n=N, **more):
    """counts: samples of each label; figures: least and largest of each column of numbers."""
    def f(c):
        r = c.json(f"data {fill(c, what, more)} {options}")
        assert (r["target"], r["class_names"]) == (target, list(names)), r
        assert sum(r["samples"].values()) == n, r
        if counts is not None:
            assert total(r) == list(counts), r
        for i, (least, most) in enumerate(figures or []):
            both = [r["figures"][split][i] for split in ("train", "val") if r["samples"][split]]
            assert (min(b["least"] for b in both), max(b["most"] for b in both)) == (least, most), r
        notes = "\n".join(r["notes"])
        for word in [says] if isinstance(says, str) else says:
            assert word in notes, f"notes lack '{word}': {notes}"
        c.run(f"data {'d.tar' if callable(what) else 'd'} {options} --check", 0, says="samples can be used")
    f.__name__, f.__doc__ = name, doc
    case(f)


def asks(name, doc, what, says, also=(), options="", command="data {}", **more):
    """also: options that the message proposes, each of which it reads by."""
    def f(c):
        line = command.format(fill(c, what, more)) + " " + options
        r = c.run(line, 1, says=says)
        assert r.err.count("\n") == 1, r
        for option in [also] if isinstance(also, str) else also:
            assert f"({option})" in r.err, f"does not propose {option}\n{r}"
            c.run(f"{line} {option}", 0)
    f.__name__, f.__doc__ = name, doc
    case(f)


# ---- arrays: several labels ----

for kind in ("uint8", "bool", "int64", "<i2", ">i4"):
    reads("several_" + "".join(x for x in kind if x.isalnum()) + ("_big" if ">" in kind else ""), f"N x C of 0 and 1, {kind}",
          SEVERAL.astype(kind), "labels", [], [6, 6, 4, 0])
reads("several_names", "classes.txt has the labels' names", SEVERAL.astype("u1"), "labels", "a b c d".split(), [6, 6, 4, 0],
      **{"d/classes.txt": "a\nb\nc\nd\n"})
reads("several_floats", "floats of 0 and 1 that are labels", SEVERAL.astype("f4"), "labels", [], [6, 6, 4, 0], options="--target labels")
reads("several_float64", "doubles of 0 and 1 that are labels", SEVERAL.astype(">f8"), "labels", [], [6, 6, 4, 0], options="--target labels")
reads("several_one", "N x 1 is one label that holds or not", SEVERAL[:, :1].astype("u1"), "labels", [], [6], options="--target labels")
asks("several_floats_asked", "floats of 0 and 1: labels or numbers", SEVERAL.astype("f4"), ["d/labels.npy holds 12 x 4 of float32", "several labels"],
     ["--target labels", "--target numbers"])
for kind in ("uint8", "bool", "float32", "float64"):
    asks(f"hot_{kind}_asked", f"one 1 a row, {kind}: a class, labels or numbers", HOT.astype(kind), f"12 x 3 of {kind}; each row has one 1",
         ["--set reader.cells=vector", "--target labels", "--target numbers"])
asks("hot_asked_in_training", "the same before a training", HOT, "each row has one 1",
     ["--set reader.cells=vector", "--target labels", "--target numbers"], command="run train_cls.lua --data {} --size 16 --batch 4 --explain")
reads("hot_class", "one-hot rows as classes", HOT.astype("u1"), "class", [], [4, 4, 4], options="--set reader.cells=vector")
reads("hot_class_names", "one-hot rows as classes with names", HOT, "class", ["x", "y", "z"], [4, 4, 4], options="--set reader.cells=vector",
      **{"d/classes.txt": "x\ny\nz\n"})
asks("vector_several", "rows with several 1 are no vectors of one class", SEVERAL.astype("u1"), "row 3 has 2 of 1, so it is for target = \"labels\"",
     options="--set reader.cells=vector --target class")
asks("vector_none", "a row without a 1", np.vstack([HOT[:-1], [[0, 0, 0]]]).astype("u1"), "row 11 has no 1, so it is for target = \"labels\"",
     options="--set reader.cells=vector --target class")
asks("vector_other", "a 2 among them", (2 * HOT).astype("u1"), "row 0 has a 2: several labels are 0 and 1", options="--set reader.cells=vector",
     also="--target numbers")
asks("several_names_wrong", "classes.txt has another number of lines", SEVERAL.astype("u1"),
     "d/classes.txt has 3 lines, and d/labels.npy has 4 for each image", **{"d/classes.txt": "a\nb\nc\n"})
asks("several_of_one", "a class for each image is not several labels", np.arange(N) % 3, "d/labels.npy holds 12 of int64; several labels are N x C",
     options="--target labels")
asks("several_counts", "counts are no labels", 3 * SEVERAL, "row 1 has a 3, and several labels are 0 and 1", options="--target labels")
asks("whole_rows", "whole numbers, several for each image", 3 * SEVERAL, "row 1 has a 3: several labels are 0 and 1", "--target numbers")
asks("deep", "a label that is a picture", np.zeros((N, 2, 3)), "12 x 2 x 3 of float64; labels are 12 numbers, one for each image")
asks("no_columns", "labels of no columns", np.zeros((N, 0)), "labels are 12 numbers")
asks("no_columns_deep", "labels of no columns, of one more dimension", np.zeros((N, 0, 1)), "labels are 12 numbers")
asks("texts", "labels that are texts", np.array(["a"] * N), "its elements are texts")
asks("complex", "complex numbers", np.zeros((N, 2), complex), "labels are 12 numbers", options="--target numbers")
reads("with_a_one", "N x K x 1", REALS[:, :2, None], "numbers", ["value 1", "value 2"], figures=[(-1, 7.25), (-.75, 7.5)])
asks("short", "fewer rows than images", SEVERAL[:5].astype("u1"), "labels are 12 numbers")

# ---- arrays: numbers ----

for kind in ("float32", "float64", "float16", ">f8"):
    reads("numbers_" + "".join(x for x in kind if x.isalnum()), f"N x K of numbers, {kind}", REALS.astype(kind), "numbers",
          ["value 1", "value 2", "value 3"], figures=[(-1, 7.25), (-.75, 7.5), (-.5, 7.75)])
reads("number_one", "one number for each image", REALS[:, 0], "numbers", ["value"], figures=[(-1, 7.25)])
reads("number_column", "N x 1 numbers", REALS[:, :1], "numbers", ["value"], figures=[(-1, 7.25)])
reads("numbers_names", "classes.txt has the names of columns", REALS[:, :2], "numbers", ["age", "weight"], figures=[(-1, 7.25), (-.75, 7.5)],
      **{"d/classes.txt": "age\nweight\n"})
reads("numbers_whole", "whole numbers by request", 3 * SEVERAL, "numbers", ["value 1", "value 2", "value 3", "value 4"],
      figures=[(0, 3), (0, 3), (0, 3), (0, 0)], options="--target numbers", says="value 4 is 0 in all samples")
asks("number_or_class", "floats without fractions: classes or numbers", (np.arange(N) % 3).astype("f4"), "12 of float32; all are whole numbers",
     ["--set reader.cells=name", "--target numbers"])
reads("float_classes", "floats that are classes", (np.arange(N) % 3).astype("f4"), "class", [], [4, 4, 4], options="--set reader.cells=name")
for word, value in (("nan", np.nan), ("inf", np.inf)):
    broken = REALS.copy()
    broken[2, 1] = value
    asks(f"number_{word}", f"a number is {word}", broken, f"d/labels.npy: row 2, column 1 is {word}, which is no number", "--missing skip",
         options="--target numbers")
    reads(f"number_{word}_skipped", f"rows with {word} are left out", broken, "numbers", ["value 1", "value 2", "value 3"], n=N - 1,
          options="--missing skip --target numbers", says="1 row of d/labels.npy without a number is left out")
asks("numbers_wide", "more numbers than there may be", np.zeros((N, 5000), "f4") + .5, "an image has at most 4096 numbers", options="--target numbers")


@case
def parts_differ(c):
    "the parts have other numbers of columns"
    put_arrays(c, REALS, prefix="train_")
    put_arrays(c, REALS[:, :2], prefix="val_")
    c.run("data d --target numbers", 1, says="d/val_labels.npy has 2 columns, and that of the other part 3")


@case
def parts_several(c):
    "train/ and val/ with several labels"
    put_arrays(c, SEVERAL.astype("u1"), at="d/train")
    put_arrays(c, SEVERAL[:5].astype("u1"), at="d/val", n=5)
    r = c.json("data d")
    assert (r["target"], r["samples"]) == ("labels", {"train": 12, "val": 5}), r
    assert r["counts"] == {"train": [6, 6, 4, 0], "val": [2, 2, 1, 0]}, r


@case
def numbers_are_columns(c):
    "the batches of an array are those of a table of the same numbers"
    put_arrays(c, REALS)
    c.write("t/d.csv", "file,value 1,value 2,value 3\n" + "".join(
        f"{i:05d}.png," + ",".join(str(v) for v in REALS[i]) + "\n" for i in range(N)))
    images = np.load(c.path("d/images.npy"))
    for i in range(N):
        c.image(f"t/{i:05d}.png", images[i])
    a, b = (c.json(f"data {d} --target numbers") for d in ("d", "t"))
    assert a["figures"] == b["figures"] and a["samples"] == b["samples"], (a, b)


asks("number_as_class", "a number where a class is expected", REALS[:, 0], "row 1 is -0.25, which is no class, so it is for target = \"numbers\"",
     options="--target class")
asks("numbers_as_class", "several numbers where a class is expected", REALS, "row 0 has a -0.75, so it is for target = \"numbers\"",
     options="--target class")
asks("object_as_class", "several labels by name where a class is expected", lambda i: {"json": json.dumps({"label": {"a": i & 1, "b": 1}})},
     "the label is an object, so it is for target = \"labels\"", options="--target class")

# ---- tar files ----

COUNTS = [6, 6, 5]
reads("lines", "a label in each line", lambda i: {"cls": "\n".join(named(i)) + "\n"}, "labels", sorted(NAMES), [6, 5, 6])
reads("lines_crlf", "lines end with CR LF, and one is empty", lambda i: {"cls": "\r\n\r\n".join(named(i)) + "\r\n"}, "labels", sorted(NAMES), [6, 5, 6])
reads("json_list", "a list as JSON has it", lambda i: {"cls": json.dumps(named(i))}, "labels", sorted(NAMES), [6, 5, 6])
reads("empty", "a sample without a label", lambda i: {"cls": json.dumps(named(i) if i else [])}, "labels", sorted(NAMES), [5, 5, 6],
      says="2 samples have no label")
reads("numbers_of_classes", "a list of numbers of classes", lambda i: {"cls": json.dumps([k for k in range(3) if (i + 1) >> k & 1])}, "labels", [],
      [6, 6, 5])
reads("vector", "0 and 1 for each class", lambda i: {"cls": json.dumps([i >> k & 1 for k in range(3)])}, "labels", [], [6, 6, 4],
      says="vectors of 0 and 1")
asks("vector_or_list", "0 and 1 of two classes, or their numbers", lambda i: {"cls": json.dumps([i & 1, 1 - (i & 1)])}, "may be 0 and 1 for each class",
     ["--set reader.cells=vector", "--set reader.cells=list"], options="--target labels")
reads("classes_txt", "classes.txt has the order", lambda i: {"cls": "\n".join(named(i))}, "labels", NAMES, [6, 6, 5],
      **{"classes.txt": "\n".join(NAMES)})
asks("classes_txt_lacks", "a label that classes.txt lacks", lambda i: {"cls": "\n".join(named(i))}, 'the label is "black cow"',
     options="--target labels", **{"classes.txt": "ant\nred, bee\n"})
reads("field", "the only field that is called so", lambda i: {"json": json.dumps({"labels": named(i), "id": i})}, "labels", sorted(NAMES), [6, 5, 6],
      says="field labels of KEY.json is the label")
reads("field_given", "a field that is named", lambda i: {"json": json.dumps({"labels": named(i), "what": NAMES[i % 3]})}, "class", sorted(NAMES),
      [4, 4, 4], options="--columns what")
reads("field_object", "a label for each name", lambda i: {"json": json.dumps({"labels": {n: n in named(i) for n in NAMES}})}, "labels",
      sorted(NAMES), [6, 5, 6])
reads("fields_truths", "a field for each label", lambda i: {"json": json.dumps({n: int(n in named(i)) for n in NAMES})}, "labels",
      ["ant", "black cow"], [6, 5], options="--columns 'ant,black cow' --target labels")
reads("fields_numbers", "a field for each number", lambda i: {"json": json.dumps({"age": i / 2, "size": i - 3})}, "numbers", ["age", "size"],
      figures=[(0, 5.5), (-3, 8)], options="--columns age,size --target numbers")
reads("field_numbers", "a field with a list of numbers", lambda i: {"json": json.dumps({"label": [i / 2, 1.0 * i]})}, "numbers",
      ["value 1", "value 2"], figures=[(0, 5.5), (0, 11)])
reads("beside_cls", "KEY.cls is taken, and KEY.json left out", lambda i: {"cls": NAMES[i % 3], "json": "{}"}, "class", sorted(NAMES), [4, 4, 4])
reads("instead_of_cls", "a named field is taken instead of KEY.cls", lambda i: {"cls": "x", "json": json.dumps({"k": i % 2})}, "class", [], [6, 6],
      options="--columns k")
asks("which_field", "several fields may be the label", lambda i: {"json": json.dumps({"label": "a", "class": "b", "id": i})},
     "000.json: which field is the label? It has label, class, id", ["--columns label=label", "--columns label=class"])
asks("no_such_field", "a field that is not there", lambda i: {"json": json.dumps({"label": "a"})}, '000.json has no field "k"; it has label',
     options="--columns k")
asks("no_field", "no field is called so", lambda i: {"json": json.dumps({"k": "a"})}, "which field is the label? It has k")
asks("no_json", "what is no JSON", lambda i: {"json": "{"}, "000.json: no JSON: line 1")
asks("nested", "a list of lists", lambda i: {"json": json.dumps({"label": [[1, 2]]})}, "a list of numbers or texts is expected", options="--target labels")
asks("no_truth", "a label that is neither 0 nor 1", lambda i: {"json": json.dumps({"a": 1, "b": "x"})}, '000.json: "b" is neither 0 nor 1',
     options="--columns a,b --target labels")
asks("number_object", "numbers by name are fields", lambda i: {"json": json.dumps({"label": {"a": 1.5}})}, "the label is an object", options="--target numbers")
reads("number", "one number in KEY.cls", lambda i: {"cls": f"{i / 4 + 1}\n"}, "numbers", ["value"], figures=[(1, 3.75)])
reads("number_lines", "a number in each line", lambda i: {"cls": f"{i / 4}\n{i}\n"}, "numbers", ["value 1", "value 2"], figures=[(0, 2.75), (0, 11)])
reads("number_row", "numbers with blanks between", lambda i: {"cls": f"{i / 4} {i}"}, "numbers", ["value 1", "value 2"],
      figures=[(0, 2.75), (0, 11)], options="--target numbers")
asks("number_words", "a text among numbers", lambda i: {"cls": "1.5" if i else "big"}, '000.cls: "big" is no number', options="--target numbers")
asks("number_counts", "more numbers in one sample", lambda i: {"cls": "1.5\n2.5" if i else "1.5"}, "001.cls has 2 numbers; 1 is expected",
     options="--target numbers")
asks("number_names", "classes.txt has more names than a sample numbers", lambda i: {"cls": f"{i / 4}"},
     "classes.txt has 2 lines, and d.tar: 000.cls has 1 for each image", options="--target numbers", **{"classes.txt": "a\nb\n"})
asks("neither", "a sample without a label", lambda i: {"cls": "ant"} if i else {}, "000.png has no label: there is no 000.cls or .json",
     options="--target labels")
asks("too_large", "a label of 70,000 bytes", lambda i: {"cls": "a" * 70000}, "000.cls has 70000 bytes; a label is a number", options="--target class")
asks("labels_long", "more text than labels may have", lambda i: {"cls": "\n".join(f"label {k}" for k in range(900))}, "000.cls: labels of more than",
     options="--target labels")


PAIRS = """local sp = require "spcore"
local opt = sp.args({ target = { "class", "" } }, { rest = "DIR..." })
for _, path in ipairs(opt.rest) do
  local g <close> = sp.graph { device = "cpu" }
  local data = g.reader { path = path, target = opt.target, split = "all", size = 8, batch = 4, shuffle = false }
  g:results { data.image, data.second, raw = true }
  for _, m in g:steps(g:epoch_steps()) do
    for i = 1, #m.image do assert(m.second:byte(i) == m.image:byte(i) + 1, path) end
  end
end
"""


@case
def two_images(c):
    "two images a sample stay together, whatever order their labels give them"
    images = np.random.default_rng(0).integers(0, 255, (N, 1, 1, 3), dtype=np.uint8).repeat(8, 1).repeat(8, 2)
    c.write("pairs.lua", PAIRS)
    for name, labels in (("class", np.arange(N) % 3), ("labels", SEVERAL.astype("u1")), ("numbers", REALS)):
        np.save(c.path(f"{name}/before.npy"), images)
        np.save(c.path(f"{name}/after.npy"), images + 1)
        np.save(c.path(f"{name}/labels.npy"), labels)
        c.run(f"run pairs.lua {name} --target {name}", 0)


@case
def trains(c):
    "each is trained and predicted without saying what it is"
    put_arrays(c, SEVERAL.astype("u1"), at="several")
    put_arrays(c, REALS, at="numbers")
    put_tar(c, lambda i: {"cls": "\n".join(named(i))}, at="lines.tar")
    put_tar(c, lambda i: {"cls": f"{i}\n{i / 4}"}, at="numbers.tar")
    c.image("in/0.png")
    how = "--size 16 --batch 4 --steps 2 --pictures 0 --augment none --width 2 --val-fraction 0.3 --metrics none"
    for data, target, head in (("several", "labels", "file,classes,names,probabilities"), ("numbers", "numbers", "file,value 1,value 2,value 3"),
                               ("lines.tar", "labels", "file,classes,names,probabilities"), ("numbers.tar", "numbers", "file,value 1,value 2")):
        c.run(f"run train_cls.lua --data {data} {how} --out run-{data}", 0, says=f"{data}: the target is {target} (--target)")
        c.run(f"run predict_cls.lua --weights run-{data} --out {data}.csv in", 0)
        assert c.read(f"{data}.csv").decode().startswith(head + "\n"), c.read(f"{data}.csv")


@case
def sheet_of_augmentation(c):
    "--show-augment where it cannot be meant, and what ends its run without training"
    how = "run train_cls.lua --data shapes --samples 64 --size 16 --batch 4 --steps 1 --width 2 --pictures 0 --metrics none --show-augment s.png"
    c.cures(f"{how} --augment none", "this run has no augmentation", "--augment chains/cls.lua", status=2)
    c.cures(how, "nothing is trained", ("--show-augment", None), status=0)


if __name__ == "__main__":
    main()
