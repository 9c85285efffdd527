# SPDX-License-Identifier: MIT
# needs: onednn images jansson
# needs no torch
"""Messages whose cure is an option: it is one that the command takes, and works as written."""
import json
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from kit import Image, case, main


def pairs(c, name, n, size=8, classes=2):
    for k in range(n):
        c.image(f"{name}/images/{k}.png", size)
        c.image(f"{name}/masks/{k}.png", c.labels(size, size, classes))
    c.write(f"{name}/classes.txt", "".join(f"class {k}\n" for k in range(classes)))


TRAIN = "run train_seg.lua --data d --size 16 --batch 4 --steps 1 --pictures 0 --quiet --out r"


@case
def fewer_than_a_batch(c):
    "fewer images than a batch"
    pairs(c, "d", 3)
    c.run(TRAIN, 1, "take batch = 2 (--batch 2) or less, or drop_last = false (--set reader.drop_last=false)")


@case
def set_nothing(c):
    "--set of a stage that the graph has not, of what is no parameter, of no value"
    pairs(c, "d", 8)
    c.run(TRAIN + " --set raeder.orient=false", 1, "no stage 'raeder'; did you mean 'reader'?")
    c.run(TRAIN + " --set reader.oreint=false", 1, "did you mean 'orient'?")
    c.run(TRAIN + " --set reader.orient=7", 1, "orient")
    c.run(TRAIN + " --set orient=false", 2, "such as reader.drop_last=false")
    c.run(TRAIN + " --set 'reader.size={ 1,'", 2, "no table of Lua")
    c.run(TRAIN + " --set 'reader.size={ os.exit(0) }'", 2, "no table of Lua")


@case
def set_values(c):
    "--set of a table, a number, a word"
    pairs(c, "d", 8)
    r = c.run(TRAIN.replace("--quiet", "") + " --set 'reader.size={ 24, 16 }' --set reader.val_fraction=0.5", says="4 train, 4 val")
    c.run(r.line.split(" --set")[0].replace("--out r", "--resume r") + " --set reader.val_fraction=0.25", 2, "--set")
    c.run("data d --set reader.layout=nosuch", 1, "layout")


@case
def large_image(c):
    "an image of more pixels than max_pixels"
    pairs(c, "d", 8)
    r = c.run(TRAIN + " --set reader.max_pixels=63", 1, "8 x 8 pixels, and max_pixels is 63; max_pixels = 64 (--set reader.max_pixels=64)")
    c.run("data d --check --set reader.max_pixels=63", 1, "(--set reader.max_pixels=64)")


@case
def broken_files(c):
    "more broken files than max_bad"
    pairs(c, "d", 20)
    for k in range(5):
        c.write(f"d/images/{k}.png", "not an image")
    c.run(TRAIN.replace("--steps 1", "--steps 5 --eval-every 5") + " --set reader.max_bad=2", 1, "3 broken files, and max_bad is 2; max_bad = 19 (")


@case
def class_weights(c):
    "--class-weights balanced: what it counts, of masks all, and what it prints, has the bits of the numbers that it stands for"
    for k in range(80):  # more than are looked at before a training
        mask = np.zeros((8, 8), np.uint8)
        mask[:, 6:] = 1
        c.image(f"d/images/{k}.png", 8)
        c.image(f"d/masks/{k}.png", mask)
        c.image(f"e/{'ab'[k % 4 == 0]}/{k}.png", 8)
    c.write("d/classes.txt", "common\nrare\n")
    few = " --size 16 --batch 4 --steps 5 --pictures 0 --seed 3 --levels 1 --width 2 --device cpu --out "
    for run, says, given in (
            ("run train_seg.lua --data d --train-encoder", "balanced by pixels of 71 masks: common 0.6667, rare 2", "0.666667,2"),
            ("run train_cls.lua --data e --augment none", "balanced by samples: a 0.6731, b 1.944", "0.673077,1.94444")):
        name = run.split()[1][:9]
        c.run(run + few + name + " --class-weights balanced", says=says)
        c.run(run + few + name + f"-given --class-weights {given}", says="class weights, given: ")
        c.run(run + few + name + "-none", lacks="class weights")
        bits = [open(c.path(name + end + "/weights.safetensors"), "rb").read() for end in ("", "-given", "-none")]
        assert bits[0] == bits[1] != bits[2], name


@case
def height_and_width(c):
    "--size HxW: what trains, goes on, is predicted and exported has these sides"
    for k in range(16):
        c.image(f"d/images/{k}.png", 20, 30)
        c.image(f"d/masks/{k}.png", c.labels(20, 30, 2))
        c.image(f"e/{'ab'[k % 2]}/{k}.png", 20, 30)
    c.write("d/classes.txt", "a\nb\n")
    few = " --batch 4 --steps 2 --pictures 1 --width 2 --levels 1 --device cpu --quiet --out "
    for kind, data, shapes in (("seg", "d --crop 0.5", ["[4,3,16,24]", "[4,2,16,24]"]), ("cls", "e", ["[4,3,16,24]", "[14,21]"])):
        c.run(f"run train_{kind}.lua --data {data} --size 16x24{few}{kind}")
        network = open(c.path(kind + "/network.json")).read()
        assert all(s in network for s in shapes), (shapes, network)
        assert json.load(open(c.path(kind + "/settings.json")))["model"]["size"] == [16, 24]
        c.run(f"run predict_{kind}.lua --weights {kind} --out {kind}p{'.csv' if kind == 'cls' else ''} d/images --device cpu")
        c.run(f"run train_{kind}.lua --resume {kind} --size 24", 2, f"--resume {kind}: --size was 16x24 and is 24; leave it away")
        c.run(f"run train_{kind}.lua --resume {kind} --override --steps 4")
        c.run(f"run train_{kind}.lua --data {data[0]} --from {kind}{few.replace(' --width 2 --levels 1', '')}{kind}2 --steps 1")
        assert json.load(open(c.path(kind + "2/settings.json")))["options"]["size"] == [16, 24]
        c.run(f"export {kind} --onnx {kind}.onnx")
        c.run(f"report {kind}")
    c.run("run predict_seg.lua --weights seg --flip --out flipped d/images --device cpu")
    with Image.open(c.path("flipped/masks/0.png")) as mask:
        assert mask.size == (30, 20), mask.size
    for size, says in (("16x", "takes a number or HEIGHTxWIDTH, got '16x'"), ("0x16", "a side must be from 1 to 4096"),
                       ("16x4097", "a side must be from 1 to 4096")):
        c.run(f"run train_seg.lua --size {size}", 2, says)
    c.cures(f"run train_seg.lua --data d --size 17x26{few.replace('levels 1', 'levels 2')}q", "a multiple of 4 is wanted", "--size 16x24", status=2)
    c.run("run show_augment.lua d --size 16x24 --samples 1 --variants 1 --quiet", says="sheet.png: 1 sample")


@case
def never_found(c):
    "a class of which no validation finds a pixel is said at the end; one that a validation has found is not"
    for k in range(16):
        c.image(f"d/images/{k}.png", np.full((8, 8, 3), 90, np.uint8))
        mask = np.ones((8, 8), np.uint8)
        mask[0, 0] = 0
        c.image(f"d/masks/{k}.png", mask)
    c.write("d/classes.txt", "speck\nground\n")
    run = "run train_seg.lua --data d --size 8 --batch 4 --pictures 0 --width 2 --levels 1 --device cpu --steps 40 --lr 0.05"
    said = "of 2 classes found in none of 4 validations: speck; train longer, or give rare ones more weight (--class-weights balanced)"
    c.run(run, says="1 " + said)
    c.run(run + " --class-weights 1,1", says="1 of 2 classes found in none of 4 validations: speck; train longer\n")
    c.run(run + " --eval-every 40", lacks="found in none")
    c.run(run + " --class-weights 1,0", lacks="speck; train")


@case
def optimizers(c):
    "--optimizer, --weight-decay, --clip-norm and --momentum have a say; what the rate and the decay are is recorded"
    run = "run train_cls.lua --samples 16 --size 16 --batch 4 --steps 2 --pictures 0 --levels 1 --width 2 --augment none --device cpu --out r"
    bits = set()
    for k, (more, lr, decay) in enumerate((("", 6e-3, 1e-2), (" --weight-decay 0.5", 6e-3, 0.5), (" --clip-norm 0.01", 6e-3, 1e-2),
                                           (" --optimizer sgd", 0.1, 1e-4), (" --optimizer sgd --momentum 0", 0.1, 1e-4),
                                           (" --optimizer lion", 1e-3, 0.1), (" --optimizer lamb", 0.02, 0.01), (" --optimizer muon", 0.05, 0.0))):
        c.run(f"{run}{k}{more}")
        told = json.load(open(c.path(f"r{k}/settings.json")))["options"]
        assert (told["lr"], told["weight_decay"]) == (lr, decay), told
        bits.add(open(c.path(f"r{k}/weights.safetensors"), "rb").read())
        # what was recorded is what is meant again: nothing of the optimizer is overridden
        c.run(f"run train_cls.lua --resume r{k} --steps 3 --override", lacks=f"'{told['optimizer']}: ")
    assert len(bits) == 8, "some have no say"


@case
def no_classes_txt(c):
    "masks without classes.txt"
    pairs(c, "d", 8)
    c.run("data d --classes 3", 1, "classes = 3, but d/classes.txt names 2")
    os.remove(c.path("d/classes.txt"))
    c.run(TRAIN, 1, "how many classes does d have? Give classes = N (--classes N)")
    c.run("data d", 1, "classes = N (--classes N)")
    c.run("data d --classes 2")


@case
def label_too_large(c):
    "a CSV label that would make more classes than is likely"
    c.image("0.png")
    c.image("1.png")
    c.write("d.csv", "file,label\n0.png,0\n1.png,7000000\n")
    c.run("data d.csv", 1, "classes = 7000001 (--classes 7000001)")
    c.run("data d.csv --classes 5", 1, "label 7000000, but there are 5 classes (0 to 4): correct it, or give classes = 7000001 (")


if __name__ == "__main__":
    main()
