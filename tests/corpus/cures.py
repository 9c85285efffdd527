# SPDX-License-Identifier: MIT
# needs: onednn images jansson
# needs no torch
"""Messages whose cure is an option: it is one that the command takes, and works as written."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from kit import case, main


@case
def tiny_val(c):
    "three images are too few for a validation part"
    for k in range(3):
        c.image(f"d/images/{k}.png", 8)
        c.image(f"d/masks/{k}.png", c.labels(8, 8, 2))
    c.write("d/classes.txt", "a\nb\n")
    c.run("run train_seg.lua --data d --size 16 --batch 4 --steps 6 --pictures 0 --out r", 1, says="2 samples do not fill one batch of 4")


if __name__ == "__main__":
    main()
