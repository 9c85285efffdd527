# SPDX-License-Identifier: MIT
# needs: onednn images jansson
# needs no torch
"""Messages whose cure is an option: it is one that the command takes, and works as written."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from kit import case, main


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
    c.run(TRAIN, 1, "take a smaller batch or drop_last = false (--set reader.drop_last=false)")


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


if __name__ == "__main__":
    main()
