# SPDX-License-Identifier: MIT
# once: what Python computes
# needs no torch
"""Masks that scripts/tools/spcore_import.py draws from annotations of COCO, pixel for pixel beside pycocotools."""
import contextlib
import io
import json
import os
import sys
import tarfile
import tempfile

try:
    import numpy as np
    from PIL import Image
    from pycocotools import mask as theirs
    from pycocotools.coco import COCO
except ImportError as why:
    print(f"skipped: {why.name} is not installed (python3 -m pip install pycocotools Pillow)")
    sys.exit(77)

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.environ.get("top_srcdir", here + "/../.."), "scripts/tools"))
import spcore_import  # noqa: E402
from importers.coco import unpack  # noqa: E402
from importers.shapes import fill  # noqa: E402

rng = np.random.default_rng(34)
bad = 0


def check(name, wrong, of):
    global bad
    print(f"{'BAD' if wrong else 'ok'}  {name}: {of} masks, {wrong} differ")
    bad += wrong > 0


def polygon(kind, w, h):
    k = int(rng.integers(3, 14))
    if kind == "inside":
        p = rng.uniform(0, 1, (k, 2)) * (w, h)
    elif kind == "beyond the image":
        p = rng.uniform(-0.4, 1.4, (k, 2)) * (w, h)
    elif kind == "whole numbers":
        p = rng.integers(0, max(w, h) + 1, (k, 2))
    elif kind == "halves and tenths":
        p = rng.integers(-10, 10 * max(w, h) + 10, (k, 2)) / (10 if k % 2 else 2)
    elif kind == "points twice":
        p = np.repeat(rng.uniform(0, 1, (k, 2)) * (w, h), 2, 0)
    else:  # thin
        p = rng.uniform(0, 1, (k, 2)) * ((0.3, h) if k % 2 else (w, 0.3)) + rng.uniform(0, 1, 2) * (w, h)
    return [float(v) for v in np.asarray(p, float).ravel()]


KINDS = ("inside", "beyond the image", "whole numbers", "halves and tenths", "points twice", "thin")


def polygons():
    for kind in KINDS:
        wrong = 0
        for _ in range(500):
            w, h = (int(v) for v in rng.integers(1, 70, 2))
            p = polygon(kind, w, h)
            wrong += not (fill(p, w, h) == theirs.decode(theirs.frPyObjects([p], h, w))[:, :, 0]).all()
        check(f"polygons, {kind}", wrong, 500)


def run_lengths():
    wrong = 0
    for i in range(500):
        w, h = (int(v) for v in rng.integers(1, 90, 2))
        noise = (rng.uniform(0, 1, (h, w)) < rng.uniform(0, 1)).astype(np.uint8)
        a = noise if i % 2 else fill(polygon("inside", w, h), w, h)
        text = theirs.encode(np.asfortranarray(a))["counts"].decode()
        flat = a.T.ravel()
        turns = np.flatnonzero(np.diff(np.concatenate([[0], flat]))).tolist() + [len(flat)]
        counts = np.diff([0, *turns]).tolist()
        wrong += not all((unpack({"size": [h, w], "counts": c}, w, h) == a).all() for c in (text, counts))
    check("run lengths, in strings and as numbers", wrong, 500)


def documents():
    """A file of annotations as a whole, beside COCO.annToMask."""
    with tempfile.TemporaryDirectory() as d:
        images, annotations = [], []
        os.mkdir(d + "/images")
        for i in range(60):
            w, h = (int(v) for v in rng.integers(20, 90, 2))
            Image.fromarray(np.zeros((h, w, 3), np.uint8)).save(f"{d}/images/{i:03d}.png")
            images.append({"id": i, "file_name": f"{i:03d}.png", "width": w, "height": h})
            segm = [polygon(KINDS[i % len(KINDS)], w, h) for _ in range(1 + i % 3)]
            if i % 4 == 3:
                run = theirs.merge(theirs.frPyObjects(segm, h, w))
                segm = {"size": [h, w], "counts": run["counts"].decode()}
            own = {"id": i, "image_id": i, "category_id": 5, "iscrowd": 0, "area": 1}
            annotations.append({**own, "segmentation": segm})
        doc = {"images": images, "annotations": annotations, "categories": [{"id": 5, "name": "thing"}]}
        with open(d + "/instances.json", "w", encoding="utf-8") as f:
            json.dump(doc, f)
        status = spcore_import.main([d + "/instances.json", "-o", d + "/out"], lambda line: None)
        if status:
            print(status)
            sys.exit(1)
        with contextlib.redirect_stdout(io.StringIO()):
            coco = COCO(d + "/instances.json")
        wrong = 0
        with tarfile.open(d + "/out/data-000000.tar") as t:
            for i in range(60):
                got = np.asarray(Image.open(io.BytesIO(t.extractfile(f"{i:03d}.seg.png").read())))
                wrong += not (got == coco.annToMask(coco.loadAnns([i])[0])).all()
        check("a file of annotations", wrong, 60)


polygons()
run_lengths()
documents()
sys.exit(bad != 0)
