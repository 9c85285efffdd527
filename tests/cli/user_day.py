# SPDX-License-Identifier: MIT
# once: words
# needs: onednn images jansson
# needs no torch
"""The commands of docs/masks.md, word by word, on masks of 0 and 255 with EXIF, a byte order mark and train/valid/test: nothing
is read wrong from the folder to ONNX."""
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../corpus"))
from kit import Image, case, main, np

DOC = os.path.join(os.environ.get("top_srcdir", os.path.dirname(os.path.abspath(__file__)) + "/../.."), "docs/masks.md")


def commands():
    with open(DOC, encoding="utf-8") as f:
        return [line[7:] for block in re.findall(r"^```\n(.*?)^```", f.read(), re.M | re.S) for line in block.splitlines()]


def folder(c):
    """Bright rectangles on dark noise; a photo in four is stored on its side, and EXIF says so. Their masks are upright."""
    truth = {}
    for k in range(40):
        part = "train" if k < 24 else "valid" if k < 32 else "test"
        mask = np.zeros((32, 24), np.uint8)
        y, x = c.rng.integers(2, 14, 2)
        mask[y : y + 12, x : x + 8] = 255
        image = c.rng.integers(0, 90, (32, 24, 3)).astype(np.uint8)
        image[mask > 0] += np.uint8(120)
        exif = Image.Exif()
        if k % 4 == 1:
            exif[274] = 6
            image = np.rot90(image)
        c.image(f"photos/{part}/images/{k:02}.jpg", np.ascontiguousarray(image), quality=95, exif=exif)
        c.image(f"photos/{part}/masks/{k:02}.png", mask)
        truth[part, k] = mask > 0
    c.write("photos/classes.txt", "\ufeffbackground\r\nobject\r\n")
    return truth


@case
def a_day(c):
    "from the folder to ONNX"
    truth = folder(c)
    line = commands()
    assert len(line) == 6, line
    c.run(line[0], 1, ["Binary masks? --mask-values 0=background,255=object", "no mask has class 1 'object'"])
    c.run(line[1], 0, ["24 train, 8 val, 2 classes: background, object", "such as test"], lacks=["\ufeff", "Binary"])
    doc = json.loads(c.run(line[1] + " --json").out)
    assert doc["class_names"] == ["background", "object"], doc
    c.run(line[2], 0, "validation: mean IoU")
    c.run(line[3], 0, "report.html: finished, 60 steps")
    c.run(line[4], 0, "masks and overlays of 8 images", lacks=["could not be read"])
    both = either = 0
    for (part, k), wanted in truth.items():
        if part == "test":
            got = np.asarray(Image.open(c.path(f"predictions/masks/{k:02}.png")))
            assert got.shape == wanted.shape and set(got.flat) <= {0, 1}, f"{k}: {got.shape}, {set(got.flat)}"
            both, either = both + (got.astype(bool) & wanted).sum(), either + (got.astype(bool) | wanted).sum()
    assert both > 0.7 * either, f"IoU {both / either}: images or masks are turned, or classes exchanged"
    c.run(line[5], 0, "takes uint8 N x H x W x 3")
    assert b'["background","object"]' in c.read("photos.onnx"), "the names of the classes"
    try:
        import onnxruntime
    except ImportError:
        return
    net = onnxruntime.InferenceSession(c.path("photos.onnx"), providers=["CPUExecutionProvider"])
    same = all_of = 0
    for k in range(32, 40):
        upright = Image.open(c.path(f"photos/test/images/{k:02}.jpg"))
        upright = upright.transpose(Image.Transpose.ROTATE_270) if k % 4 == 1 else upright
        scores = net.run(None, {net.get_inputs()[0].name: np.asarray(upright.resize((32, 32), Image.Resampling.BILINEAR))[None]})[0]
        got = Image.fromarray(scores[0].argmax(0).astype(np.uint8)).resize((24, 32), Image.Resampling.NEAREST)
        same, all_of = same + (np.asarray(got) > 0).__eq__(truth["test", k]).sum(), all_of + 32 * 24
    assert same > 0.9 * all_of, f"ONNX is right about {same / all_of} of the pixels"


if __name__ == "__main__":
    main()
