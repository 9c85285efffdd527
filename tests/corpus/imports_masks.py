# SPDX-License-Identifier: MIT
# needs: images jansson libarchive
# needs no torch
"""Masks of ids, COCO, LabelMe, YOLO and CVAT become shards by scripts/tools/spcore_import.py."""

import base64
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from importing import encoded, imports, main, mask_at, members, reads, zipped  # noqa: E402
from kit import Image, case, np  # noqa: E402


# ---- masks of ids ----
@case
def cityscapes(c):
    "leftImg8bit and gtFine with labelIds, instanceIds and colours: the table of 19 classes; ids that are none are 255"
    ids = np.array([[7, 8, 0, 26], [24, 33, 3, 11]], np.uint8).repeat(4, 0).repeat(2, 1)
    for part, n in (("train", 2), ("val", 1)):
        for i in range(n):
            base = f"{part}/aachen/aachen_{i}_19"
            c.image(f"d/leftImg8bit/{base}_leftImg8bit.png", 8)
            c.image(f"d/gtFine/{base}_gtFine_labelIds.png", ids)
            c.image(f"d/gtFine/{base}_gtFine_color.png", 8)
            c.image(f"d/gtFine/{base}_gtFine_instanceIds.png", (ids.astype(np.uint16) * 1000 + 1))
    imports(c, "@d", 1, "--map FILE (cityscapes, ade20k)")
    imports(c, "@d --map cityscapes")
    reads(c, "mask", 2, 1)
    want = np.array([[0, 1, 255, 13], [11, 18, 255, 2]]).repeat(4, 0).repeat(2, 1)
    assert (mask_at(c, "train/aachen/aachen_0_19") == want).all() and c.read("out/classes.txt").split(b"\n")[
        13
    ] == b"car"


@case
def ids_by_a_table(c):
    "masks of instances: ids above 255, a table of ranges, a table for each mask, ids that no table has; ADE20K from 1"
    ids = np.array([[24001, 24002], [26000, 0]], np.uint16).repeat(4, 0).repeat(4, 1)
    for i in range(2):
        c.image(f"d/images/{i}.png", 8)
        c.image(f"d/masks/{i}.png", ids)
    imports(c, "@d --classes 3", 1, "part data has no sample")
    c.write("map", "id name\n0 ground\n24000..24999 person\n26000, car\n")
    imports(c, "@d --map @map")
    reads(c, "mask", 2)
    want = np.array([[1, 1], [2, 0]]).repeat(4, 0).repeat(4, 1)
    assert (mask_at(c, "0", "data") == want).all() and c.read("out/classes.txt") == b"ground\nperson\ncar\n"
    imports(c, ["@d", "--map", "24000..24999=person,26000=car", "-o", "@o1"], 1, "part data has no sample")
    imports(c, ["@d", "--map", "24000..24999=person,26000=car,*=void", "-o", "@o1"])
    assert (mask_at(c, "0", "data", "o1") == np.array([[0, 0], [1, 255]]).repeat(4, 0).repeat(4, 1)).all()
    c.write(
        "map.json",
        json.dumps(
            {
                "0.png": {"24001": "cat", "24002": "dog", "26000": "cat"},
                "1.png": {"24001": "dog", "24002": "dog", "26000": "dog"},
            }
        ),
    )
    imports(c, "@d --map @map.json -o @o2")
    assert (
        mask_at(c, "0", "data", "o2")[0, 0] == 0
        and mask_at(c, "1", "data", "o2")[0, 0] == 1
        and mask_at(c, "0", "data", "o2")[7, 7] == 255
    )
    imports(c, ["@d", "--map", "1..9=a,5=b", "-o", "@o3"], 1, "the map has id 5 twice")
    imports(c, ["@d", "--map", "x=a", "-o", "@o3"], 1, "ID NAME is wanted")
    for i, part in enumerate(("training", "training", "validation")):
        c.image(f"ade/images/{part}/ADE_{i}.jpg", 8)
        c.image(f"ade/annotations/{part}/ADE_{i}.png", np.array([[0, 1], [2, 3]], np.uint8).repeat(4, 0).repeat(4, 1))
    c.write(
        "ade/objectInfo150.txt",
        "Idx\tRatio\tTrain\tVal\tStuff\tName\n1\t0\t0\t0\t1\twall\n2\t0\t0\t0\t1\tbuilding, "
        "edifice\n3\t0\t0\t0\t1\tsky\n",
    )
    imports(c, "@ade -o @o4")
    reads(c, "mask", 2, 1, out="o4")
    assert (mask_at(c, "training/ADE_0", "train", "o4") == np.array([[255, 0], [1, 2]]).repeat(4, 0).repeat(4, 1)).all()


@case
def masks_that_are_none(c):
    "masks of 0 and 255 alone, as JPEG, with colours, of another size, half transparent, without an image"
    for i in range(3):
        c.image(f"d/images/{i}.png", 8)
        c.image(f"d/masks/{i}.png", c.labels(8, 8, 2) * 255)
    imports(c, "@d --classes 2", 1, ["have only 0 and 255", "--map '0=0,255=1'"])
    imports(c, ["@d", "--classes", "2", "--map", "0=0,255=1"])
    reads(c, "mask", 3)
    for name in ("ok", "ok2"):
        c.image(f"e/images/{name}.png", 8)
        c.image(f"e/masks/{name}.png", c.labels(8, 8, 2))
    for name, im in (
        ("jpeg", c.labels(8, 8, 2)),
        ("colour", c.picture(8, 8)),
        ("size", c.labels(4, 8, 2)),
        ("alpha", np.full((8, 8, 4), 7, np.uint8)),
        ("big", c.labels(8, 8, 9)),
    ):
        c.image(f"e/images/{name}.png", 8)
        c.image(f"e/masks/{name}.{'jpg' if name == 'jpeg' else 'png'}", im)
    c.image("e/masks/alone.png", c.labels(8, 8, 2))
    imports(
        c,
        "@e --classes 2 -o @o2",
        says=[
            "a JPEG, whose values",
            "the mask has colours",
            "another size than the image",
            "alpha channel",
            "the label 2, and there",
            "a mask without an image (first: masks/alone.png)",
        ],
    )
    reads(c, "mask", 2, out="o2")
    c.write("colours", "road #804080\nvoid #000000\nsky 70 130 180\n")
    c.image("f/images/b.png", 8)
    c.image("f/images/a.png", 8)
    for name in ("a", "b"):
        c.image(f"f/masks/{name}.png", np.array([[[128, 64, 128], [70, 130, 180]]], np.uint8).repeat(8, 0).repeat(4, 1))
    imports(c, "@f --classes @colours -o @o3")
    assert members(c, "data", "o3")["a.seg.png"] == c.read("f/masks/a.png") and reads(c, "mask", 2, out="o3")[
        "class_names"
    ] == ["road", "sky"]


# ---- COCO ----
def coco(images, annotations, categories=((1, "cat"), (3, "dog")), **more):
    return json.dumps(
        {
            "images": images,
            "annotations": annotations,
            "categories": [{"id": i, "name": n} for i, n in categories],
            **more,
        }
    )


def box(x, y, w, h):
    return [[x, y, x + w, y, x + w, y + h, x, y + h]]


@case
def coco_instances(c):
    "COCO in two parts: ids with holes, overlap, a crowd, run lengths of both kinds, empty images"
    for part, n in (("train", 3), ("val", 1)):
        for i in range(n):
            c.image(f"d/{part}2017/{i:012d}.jpg", 10, 12)
    images = [{"id": i, "file_name": f"{i:012d}.jpg", "width": 12, "height": 10} for i in range(3)]
    run = {"size": [10, 12], "counts": [50, 10, 60]}
    text = {"size": [10, 12], "counts": "b2370N66"}
    annotations = [
        {"id": 1, "image_id": 0, "category_id": 1, "segmentation": box(2, 2, 3, 3)},
        {"id": 2, "image_id": 0, "category_id": 3, "segmentation": box(1, 1, 8, 8)},
        {"id": 3, "image_id": 1, "category_id": 3, "segmentation": run},
        {"id": 4, "image_id": 1, "category_id": 1, "segmentation": text},
        {
            "id": 5,
            "image_id": 1,
            "category_id": 1,
            "iscrowd": 1,
            "segmentation": {"size": [10, 12], "counts": [0, 120]},
        },
        {"id": 6, "image_id": 0, "category_id": 1, "segmentation": [[1, 1, 2, 2]]},
        {"id": 7, "image_id": 0, "category_id": 1, "segmentation": []},
        {"id": 8, "image_id": 0, "category_id": 1, "segmentation": box(40, 40, 5, 5)},
    ]
    c.write("d/annotations/instances_train2017.json", coco(images, annotations))
    c.write("d/annotations/instances_val2017.json", coco(images[:1], annotations[:2]))
    r = imports(
        c,
        "@d",
        says=[
            "'background', number 0",
            "1 -> 1, 3 -> 2",
            "two classes overlap: the smaller is on top",
            "crowds",
            "without an annotation",
            "without a segmentation",
            "cover no pixel",
            "fewer than 3 points",
        ],
        lacks="left out",
    )
    m = mask_at(c, "000000000000")
    assert m[3, 3] == 1 and m[7, 7] == 2 and m[0, 0] == 0 and (m == 1).sum() == 9 and (m == 2).sum() == 55, m
    m = mask_at(c, "000000000001")
    assert (m[:, 5] == 2).all() and m[2, 8] == m[8, 10] == m[0, 0] == 1 and r.report()["notes"]
    assert not mask_at(c, "000000000002").any()
    reads(c, "mask", 3, 1)
    assert r.report()["classes of category ids"] == {"1": 1, "3": 2}
    imports(c, "@d/annotations/instances_val2017.json --background void --crowd void -o @o2", says="no label (255)")
    assert mask_at(c, "000000000000", "val", "o2")[0, 0] == 255
    zipped(c, "images.zip", [(f"val2017/{0:012d}.jpg", c.read(f"d/val2017/{0:012d}.jpg"))])
    imports(c, "@d/annotations/instances_val2017.json --images @images.zip -o @o3")
    assert members(c, "val", "o3") == members(c, "val"), (list(members(c, "val", "o3")), list(members(c, "val")))


@case
def coco_means_no_good(c):
    "COCO: names that lead out, ids twice, sizes that are absurd or wrong, run lengths that do not fit, coordinates"
    "that are no places"
    c.image("secret.png", 8)
    c.image("d/images/a.png", 8)
    image, good = {"id": 1, "file_name": "a.png", "width": 8, "height": 8}, {
        "id": 1,
        "image_id": 1,
        "category_id": 1,
        "segmentation": box(1, 1, 4, 4),
    }

    def one(says, annotations=(), status=0, **change):
        c.write(
            "d/x.json",
            coco(
                [{"id": 9, "file_name": "a.png", "width": 8, "height": 8}, {**image, "file_name": "b.png", **change}],
                list(annotations) or [good],
            ),
        )
        imports(c, "@d/x.json", status, says)

    c.image("d/images/b.png", 8)
    one("two images have the id 9", status=1, id=9)
    one("have one file_name, a.png", status=1, file_name="a.png")
    one("a name leads out of the source", file_name="../secret.png")
    one("a name leads out of the source", file_name=c.folder + "/secret.png")
    one("an image file that is not there", file_name="c.png")
    one("another size than the image has", width=10**12, height=10**12)
    one("another size than the image has", width=-8)
    for segm, says in (
        ({"size": [10**6, 10**6], "counts": [10**12]}, "another size"),
        ({"size": [8, 8], "counts": [3]}, "another sum"),
        ({"size": [8, 8], "counts": "~~"}, "none of its"),
        ({"size": [8, 8], "counts": "o"}, "ends early"),
        ({"size": [8, 8], "counts": [-1, 65]}, "from 0 on"),
        ([[0, 0, 1e300, 0, 0, 4]], "no places"),
        ([[0, 0, 9e6, 0, 9e6, 9e6]], "too far"),
        ([["x", 1, 2, 3, 4, 5]], "no list of x and y"),
        ("RLE", "neither polygons nor"),
        ([[1, 2, 3, 4, 5, 6, 7]], "odd number"),
    ):
        one(says, [{**good, "segmentation": segm}])
    one("category_id that the file does not name", [{**good, "category_id": 77}])
    one("of an image that the file does not name", [good, {**good, "id": 2, "image_id": 5}])
    one("of an image that the file does not name", [good, {**good, "id": {}, "image_id": []}, None])
    one("no annotation has a segmentation", [{**good, "segmentation": None}], 1)
    c.write("d/x.json", coco([image], [{**good, "segmentation": [[float("nan")] * 6]}]))
    imports(c, "@d/x.json -o @o2", 1, "no places")
    c.write("d/x.json", coco([image], [good], [(1, "a"), (1, "b")]))
    imports(c, "@d/x.json", 1, "two categories have the id 1")
    c.write("deep.json", '{"images":' + "[" * 200000)
    imports(c, "@deep.json", 1, "deep.json: JSON is nested too deep")
    c.write("cut.json", '{"images": [{"id": 1, ')
    imports(c, "@cut.json", 1, "cut.json: no whole JSON document")


@case
def coco_panoptic(c):
    "COCO panoptic: ids of three bytes, 0 is no label, a segment that the JSON lacks"
    ids = np.array([[7, 300], [70000, 0]]).repeat(4, 0).repeat(4, 1)
    rgb = np.stack([ids & 255, ids >> 8 & 255, ids >> 16], 2).astype(np.uint8)
    for i in range(3):
        c.image(f"d/val2017/{i}.jpg", 8)
        c.image(f"d/annotations/panoptic_val2017/{i}.png", rgb)
    info = [{"id": 7, "category_id": 1}, {"id": 300, "category_id": 200}, {"id": 70000, "category_id": 1, "iscrowd": 1}]
    images = [{"id": i, "file_name": f"{i}.jpg", "width": 8, "height": 8} for i in range(3)]
    c.write(
        "d/annotations/panoptic_val2017.json",
        coco(
            images,
            [{"image_id": i, "file_name": f"{i}.png", "segments_info": info[: 3 - i // 2]} for i in range(3)],
            [(1, "cat"), (200, "rug")],
        ),
    )
    imports(c, "@d", says=["no label (255)", "segment that segments_info does not name", "1 -> 0, 200 -> 1"])
    assert (mask_at(c, "0", "val") == np.array([[0, 1], [0, 255]]).repeat(4, 0).repeat(4, 1)).all()
    reads(c, "mask", 2)
    c.write(
        "d/annotations/instances_val2017.json",
        coco(images, [{"id": 1, "image_id": 0, "category_id": 1, "segmentation": box(1, 1, 4, 4)}]),
    )
    imports(c, "@d -o @o2", 1, ["--from coco", "--from panoptic"])
    imports(c, "@d --from panoptic -o @o3")
    imports(c, "@d --from coco -o @o4", says="another kind")


# ---- LabelMe, YOLO, CVAT ----
@case
def labelme(c):
    "LabelMe: polygons, rectangles and circles in their order, lines are counted, the image beside or in the document"
    from PIL import ImageDraw

    im = c.picture(20, 30)
    c.image("d/a.png", im)
    shapes = [
        {"label": "dog", "points": [[2, 2], [20, 3], [12, 17.5]], "shape_type": "polygon"},
        {"label": "cat", "points": [[15, 15], [8, 5]], "shape_type": "rectangle"},
        {"label": "_background_", "points": [[10, 10], [12, 10]], "shape_type": "circle"},
        {"label": "__ignore__", "points": [[25, 2], [29, 2], [29, 6]], "shape_type": "polygon"},
        {"label": "cat", "points": [[0, 0], [9, 9]], "shape_type": "line"},
    ]
    c.write(
        "d/a.json",
        json.dumps(
            {
                "version": "5.0",
                "shapes": shapes,
                "imagePath": "a.png",
                "imageData": None,
                "imageHeight": 20,
                "imageWidth": 30,
            }
        ),
    )
    c.write(
        "d/b.json",
        json.dumps(
            {"shapes": shapes[:1], "imagePath": "..\\up\\b.png", "imageData": None}
        ),
    )
    c.write(
        "d/c.json",
        json.dumps({"shapes": shapes[:1], "imagePath": "c.png", "imageData": base64.b64encode(encoded(im)).decode()}),
    )
    imports(
        c,
        "@d",
        says=["'_background_', number 0", "no area (line)", "the later in the file is on top", "a name leads out"],
    )
    want = Image.new("L", (30, 20))
    draw = ImageDraw.Draw(want)
    draw.polygon([(2, 2), (20, 3), (12, 17.5)], fill=2, outline=2)
    draw.rectangle([8, 5, 15, 15], fill=1, outline=1)
    draw.ellipse([8, 8, 12, 12], fill=0, outline=0)
    draw.polygon([(25, 2), (29, 2), (29, 6)], fill=255, outline=255)
    assert (mask_at(c, "a", "data") == np.asarray(want)).all()
    reads(c, "mask", 2)


@case
def yolo(c):
    "YOLO segmentation: names of data.yaml in three forms, parts both ways, boxes, coordinates outside"
    for yaml in (
        "names: ['cat', \"dog\"]\n",
        "nc: 2\nnames:\n  0: cat\n  1: dog\n",
        "path: .\nnames:\n- cat\n- dog # small\n",
    ):
        c.write("d/data.yaml", yaml)
        for part, n in (("train", 2), ("val", 1)):
            for i in range(n):
                c.image(f"d/images/{part}/{i}.png", 10, 20)
                c.write(f"d/labels/{part}/{i}.txt", "1 0.1 0.1 0.9 0.1 0.9 0.9 0.1 0.9\n0 0.5 0.5 0.7 0.5 0.7 0.8\n")
        imports(c, "@d", says=["'background', number 0", "smaller is on top"])
        assert c.read("out/classes.txt") == b"background\ncat\ndog\n", yaml
        reads(c, "mask", 2, 1)
    m = mask_at(c, "images/train/0")
    assert m[6, 13] == 1 and m[2, 3] == 2 and m[0, 0] == 0
    c.write("d/labels/train/1.txt", "0 0.5 0.5 0.2 0.2\n1 0.1 0.1 0.9 0.1 0.9 0.9\n")
    c.write("d/labels/val/0.txt", "0 12 50 80 50 70 90\n")
    imports(c, "@d", 1, "part val has no sample")
    c.write("d/labels/val/0.txt", "0 0.5 0.5 0.2 0.2\n")
    imports(c, "@d/data.yaml", says="2 lines with a box instead of a polygon")
    for name in ("train/0", "train/1"):
        c.write(f"d/labels/{name}.txt", "0 0.5 0.5 0.2 0.2\n")
    imports(c, "@d", 1, "are boxes, as of a detector")
    c.write("d/data.yaml", "nc: 2\n")
    imports(c, "@d -o @o2 --from yolo", 1, "--classes FILE")
    for i, part in enumerate(("train", "valid")):
        c.image(f"r/{part}/images/{i}.jpg", 8)
        c.write(f"r/{part}/labels/{i}.txt", "2 0 0 1 0 1 1 0 1\n" if i else "1 0 0 1 0 1 1\n")
    c.write("r/data.yaml", "names: [cat, dog]\n")
    imports(c, "@r -o @o3", 1, "part val has no sample")


@case
def cvat(c):
    "CVAT for images: polygons and run lengths by z_order; entities are refused"
    c.image("d/images/a.png", 10)
    names = "".join(f"<label><name>{n}</name></label>" for n in ("cat", "dog"))
    xml = f"""<?xml version="1.0"?><annotations><version>1.1</version><meta><task><labels>{names}</labels></task></meta>
<image id="0" name="a.png" width="10" height="10">
<polygon label="dog" points="1,1;9,1;9,9;1,9" z_order="1"/>
<polygon label="cat" points="0,0;10,0;10,10;0,10" z_order="0"/>
<mask label="cat" rle="1,2,1" left="2" top="3" width="2" height="2" z_order="2"/>
<box label="cat" xtl="1" ytl="1" xbr="2" ybr="2"/></image></annotations>"""
    c.write("d/annotations.xml", xml)
    imports(c, "@d", says="no area (box)")
    m = mask_at(c, "a", "data")
    assert (m == 2).sum() == 62 and m[3, 3] == 1 and m[4, 2] == 1 and m[3, 2] == 2 and m[0, 0] == 1
    c.write("d/annotations.xml", xml.replace("?><", '?><!DOCTYPE a [<!ENTITY b "c">]><', 1))
    imports(c, "@d/annotations.xml", 1, "declares entities")


if __name__ == "__main__":
    main()
