# SPDX-License-Identifier: MIT
# needs: images jansson libarchive
# needs no torch
"""What scripts/tools/spcore_import.py says of annotations that are damaged, unusual or of another program: a row each,
with the place and the cure in one line."""

import base64
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from importing import cures, encoded, imports, main, mask_at, needs  # noqa: E402
from kit import case, np  # noqa: E402

BOX = [1, 1, 6, 1, 6, 6, 1, 6]
CORNERS = [[1, 1], [6, 1], [6, 6], [1, 6]]
PNG = encoded(np.arange(192, dtype=np.uint8).reshape(8, 8, 3))


def row(name, doc, make):
    """A case of one row of a table."""

    def f(c):
        make(c)

    f.__name__, f.__doc__ = name, doc
    case(f)


# ---- COCO ----
def coco(c, annotations, image=None, cats=((1, "cat"), (3, "dog")), at="d/train/a.png"):
    image = {"id": 1, "file_name": "a.png", "width": 8, "height": 8, **(image or {})}
    c.write(
        "d/annotations/instances_train.json",
        json.dumps({"images": [image], "annotations": annotations, "categories": [{"id": k, "name": n} for k, n in cats]}),
    )
    if at:
        c.write(at, PNG)


def drawn(segmentation, **more):
    return {"id": 1, "image_id": 1, "category_id": 1, "iscrowd": 0, "segmentation": segmentation, **more}


SEGMENTATIONS = (
    ("compressed_size", {"size": [8, 8], "counts": "0n04"}, 1, "another sum than the image has pixels (first: a.png, annotation 1)"),
    ("another_size", {"size": [7, 8], "counts": [10, 20, 26]}, 1, "run lengths are of another size than the image"),
    ("sides_swapped", {"size": [8, 9], "counts": [10, 20, 42]}, 1, "run lengths are of another size than the image"),
    ("short", {"size": [8, 8], "counts": [10, 20]}, 1, "another sum than the image has pixels"),
    ("giant", {"size": [8, 8], "counts": [1 << 62, 1 << 62]}, 1, "no numbers from 0 on"),
    ("no_counts", {"size": [8, 8]}, 1, "no numbers from 0 on"),
    ("fractions", {"size": [8, 8], "counts": [1.5, 62.5]}, 1, "no numbers from 0 on"),
    ("no_numbers", [[]], 0, "1 polygons of fewer than 3 points, not drawn (first: a.png)"),
    ("one_point", [[1, 1]], 0, "images in which no annotation covers a pixel: all background"),
    ("two_points", [[1, 1, 5, 5]], 0, "1 polygons of fewer than 3 points"),
    ("nothing", [], 1, "no annotation has a segmentation"),
    ("null", None, 1, "no annotation has a segmentation"),
    ("flat", BOX, 1, "polygons are a list of such lists, [[x, y, ...]]"),
    ("pairs", [CORNERS], 1, "a polygon is no list of x and y"),
    ("odd", [BOX[:-1]], 1, "odd number of coordinates: an x without a y (first: a.png, annotation 1)"),
    ("outside", [[20, 20, 30, 20, 30, 30]], 0, "cover no pixel's centre in their image"),
    ("texts", [[str(v) for v in BOX]], 1, "a polygon is no list of x and y"),
    ("true", [[True, *BOX[1:]]], 1, "a polygon is no list of x and y"),
    ("list_of_run_lengths", [{"size": [8, 8], "counts": [10, 20, 34]}], 1, "a polygon is no list of x and y"),
)
for name, segm, status, says in SEGMENTATIONS:
    row(
        f"coco_segmentation_{name}",
        f"COCO: a segmentation that is {name.replace('_', ' ')}",
        lambda c, segm=segm, status=status, says=says: (coco(c, [drawn(segm)]), imports(c, "@d", status, says)),
    )


@case
def coco_run_lengths(c):
    "COCO: run lengths go down the columns, and a polygon that leaves the image is cut at its border"
    coco(c, [drawn({"size": [8, 8], "counts": [8, 20, 36]})])
    imports(c, "@d")
    want = np.zeros(64, np.uint8)
    want[8:28] = 1
    assert (mask_at(c, "a") == want.reshape(8, 8).T).all()
    coco(c, [drawn([[-5, -5, 4, -5, 4, 4, -5, 4]])])
    imports(c, "@d")
    want = np.zeros((8, 8), np.uint8)
    want[:4, :4] = 1
    assert (mask_at(c, "a") == want).all()


COCO = (
    ("id_from_0", dict(cats=((0, "cat"), (5, "dog")), change={"category_id": 0}), 0, "0 -> 1, 5 -> 2"),
    ("category_unknown", dict(change={"category_id": 77}), 1, "category_id that the file does not name (first: a.png, annotation 1)"),
    ("category_is_text", dict(change={"category_id": "1"}), 1, "category_id that the file does not name"),
    ("crowd", dict(change={"iscrowd": 1}), 0, "1 crowds, drawn below all else with their class"),
    ("image_id_is_text", dict(image={"id": "1"}), 1, "such as 1, is an id of its images, such as '1'; write them alike"),
    ("not_on_disk", dict(at="d/train/other.png"), 1, "is not there (--images DIR or ZIP says where images lie)"),
    ("in_a_folder", dict(image={"file_name": "sub/a.png"}, at="d/train/sub/a.png"), 0, ()),
    ("backslash", dict(image={"file_name": "sub\\a.png"}, at="d/train/sub/a.png"), 0, ()),
    ("absolute", dict(image={"file_name": "/data/x/a.png"}), 0, "names with a path of another machine: found by what stands at its end"),
    ("drive", dict(image={"file_name": "C:\\data\\a.png"}), 0, "names with a path of another machine"),
    ("leads_out", dict(image={"file_name": "../../a.png"}), 1, "a name leads out of the source"),
    ("address", dict(image={"file_name": "http://example.org/a.png"}), 0, ()),
    ("image_without_id", dict(image={"id": None}), 1, "images[0] has no id that is a whole number or a text; correct the file"),
    ("without_size", dict(image={"width": None, "height": None}), 0, ()),
    ("another_size", dict(image={"width": 800}), 1, "the JSON file says another size than the image has"),
)
for name, how, status, says in COCO:

    def make(c, how=how, status=status, says=says):
        how = dict(how)
        change = how.pop("change", {})
        coco(c, [drawn([BOX], **change)], **how)
        imports(c, "@d", status, says)

    row(f"coco_{name}", f"COCO: {name.replace('_', ' ')}", make)


@case
def coco_lists_that_are_missing(c):
    "COCO: a document without annotations or categories, with none of them, cut off, in UTF-16"
    c.write("d/train/a.png", PNG)
    name = "d/annotations/instances_train.json"
    c.write(name, '{"images": [{"id": 1, "file_name": "a.png"}], "annotations": []}')
    imports(c, "@d", 1, "annotations/instances_train.json has no categories")
    imports(c, "@" + name, 1, "instances_train.json has no categories; a document of COCO")
    c.write(name, '{"images": [], "annotations": [], "categories": [{"id": 1, "name": "a"}]}')
    imports(c, "@d", 1, "part train has no sample that can be taken: its source names none")
    coco(c, [drawn([BOX])])
    text = c.read(name)
    c.write(name, text[: len(text) // 2])
    imports(c, "@d", 1, ["instances_train.json: no whole JSON document", "correct the file, or get it again"])
    c.write(name, text.decode().encode("utf-16"))
    for source in ("@d", "@" + name):
        imports(c, source)
        assert mask_at(c, "a").sum() == 25
    c.write(name, text.replace(b"cat", b"c\xe4t"))
    imports(c, "@d", 1, "is no text in UTF-8; save the file as UTF-8")


# ---- COCO panoptic ----
PANOPTIC = (
    ("id_not_in_json", (1, 9), ((1, 1), (2, 2)), 1, "segments_info does not name (first: a.jpg, segment 9)"),
    ("category_unknown", (1, 2), ((1, 7), (2, 2)), 1, "(first: a.jpg, segment 1)"),
    ("id_not_in_png", (1, 1), ((1, 1), (2, 2)), 0, "names segments that the PNG has no pixel of (first: a.jpg)"),
    ("id_twice", (1, 2), ((1, 1), (1, 2)), 1, "an id that is there twice, is 0, or is no whole number"),
    ("id_is_text", (1, 2), (("1", 1), (2, 2)), 1, "an id that is there twice, is 0, or is no whole number"),
)
for name, ids, segments, status, says in PANOPTIC:

    def make(c, ids=ids, segments=segments, status=status, says=says):
        a = np.zeros((8, 8, 3), np.uint8)
        a[:4, :, 0], a[4:, :, 0] = ids
        c.image("d/annotations/panoptic_train/a.png", a)
        c.image("d/train/a.jpg", 8)
        segments = [{"id": k, "category_id": v} for k, v in segments]
        c.write(
            "d/annotations/panoptic_train.json",
            json.dumps(
                {
                    "images": [{"id": 1, "file_name": "a.jpg", "width": 8, "height": 8}],
                    "annotations": [{"image_id": 1, "file_name": "a.png", "segments_info": segments}],
                    "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "sky"}],
                }
            ),
        )
        imports(c, "@d", status, says)

    row(f"panoptic_{name}", f"COCO panoptic: {name.replace('_', ' ')}", make)


# ---- YOLO ----
POLYGON = "0 0.1 0.1 0.9 0.1 0.9 0.9\n"


def yolo(c, lines=POLYGON, yaml="names: [cat, dog]\n"):
    c.write("d/images/train/a.png", PNG)
    c.write("d/images/train/b.png", PNG)
    c.write("d/labels/train/a.txt", lines)
    c.write("d/labels/train/b.txt", POLYGON)
    if yaml is not None:
        c.write("d/data.yaml", yaml)


LINES = (
    ("class_beyond", POLYGON + POLYGON.replace("0 0.1", "5 0.1", 1), "none of the 2 (0 to 1) (first: images/train/a.png, line 2 of a.txt)"),
    ("class_negative", "-1" + POLYGON[1:], "a class that is none of the 2"),
    ("class_fraction", "0.5" + POLYGON[1:], "a class that is none of the 2"),
    ("class_name", "cat" + POLYGON[1:], "a line is no numbers"),
    ("above_1", "0 0.1 0.1 1.9 0.1 0.9 0.9\n", "they are fractions of width and height, no pixels"),
    ("pixels", "0 1 1 7 1 7 7\n", "they are fractions of width and height, no pixels"),
    ("negative", "0 -0.1 0.1 0.9 0.1 0.9 0.9\n", "coordinates outside of 0 to 1"),
    ("nan", "0 nan 0.1 0.9 0.1 0.9 0.9\n", "coordinates outside of 0 to 1"),
    ("infinite", "0 inf 0.1 0.9 0.1 0.9 0.9\n", "coordinates outside of 0 to 1"),
    ("three_numbers", "0 0.1 0.1\n", "pairs of x and y, at least three"),
    ("odd", POLYGON.strip() + " 0.3\n", "pairs of x and y, at least three"),
    ("decimal_comma", POLYGON.replace(".", ","), "a line has commas; it has to be numbers such as 0.5"),
    ("csv", POLYGON.replace(" ", ","), "a line has commas"),
    ("box_with_score", "0 0.5 0.5 0.2 0.2 0.9\n", "pairs of x and y, at least three"),
    ("pose", "0 0.5 0.5 0.2 0.2 0.1 0.1 2 0.3 0.3 2\n", "coordinates outside of 0 to 1"),
    ("mixed", "0 0.5 0.5 0.2 0.2\n" + POLYGON, "1 lines with a box instead of a polygon, not drawn"),
    ("mark", "\ufeff" + POLYGON, None),
    ("windows", POLYGON.replace("\n", "\r\n"), None),
    ("utf16", ("\ufeff" + POLYGON).encode("utf-16-le"), None),
)
for name, lines, says in LINES:

    def make(c, lines=lines, says=says, taken=name == "mixed"):
        yolo(c, lines)
        r = imports(c, "@d", says=says or (), lacks=() if says else "left out")
        assert r.report()["parts"]["train"]["samples"] == 2 - bool(says and not taken)
        if says is None or taken:
            assert (mask_at(c, "images/train/a") == mask_at(c, "images/train/b")).all()

    row(f"yolo_line_{name}", f"YOLO: a line with {name.replace('_', ' ')}", make)

NAMES = (
    ("numbered", "names:\n  0: cat\n  1: dog\n", 0, "cat and dog"),
    ("dashes", "names:\n- cat\n- dog\n", 0, "cat and dog"),
    ("flow", "names: {0: cat, 1: dog}\n", 0, "cat and dog"),
    ("quoted_numbers", "names:\n  '0': cat\n  \"1\": dog\n", 0, "cat and dog"),
    ("comments", "names: # of classes\n  0: cat # a\n  1: dog\n", 0, "cat and dog"),
    ("tabs", "names:\n\t0: cat\n\t1: dog\n", 0, "cat and dog"),
    ("utf16", "names: [cat, dog]\n".encode("utf-16"), 0, "cat and dog"),
    ("other_count", "nc: 3\nnames: [cat, dog]\n", 0, "data.yaml says nc: 3, and names has 2, which are taken"),
    ("twice", "names: [cat, cat]\n", 0, "classes of one name become one: cat"),
    ("missing", "nc: 2\n", 1, "no data.yaml names the classes; --classes FILE has a name on each line"),
    ("hole", "names:\n  0: cat\n  2: dog\n", 1, "no numbers from 0 on with names (0, 1, 2, ...); --classes FILE"),
    ("no_end", "names: [cat, dog\n", 1, "data.yaml: names has no closing bracket; --classes FILE names the classes"),
    ("a_word", "names: cat\n", 1, "names is no list"),
    ("empty", "names: []\n", 1, "is an empty list; --classes FILE names the classes"),
)
for name, yaml, status, says in NAMES:

    def make(c, yaml=yaml, status=status, says=says):
        yolo(c, yaml=yaml)
        r = imports(c, "@d", status, () if says == "cat and dog" else says)
        if says == "cat and dog":
            assert r.report()["classes"] == ["background", "cat", "dog"]
        if status:
            c.write("n.txt", "cat\ndog\n")
            assert imports(c, "@d --classes @n.txt", lacks=says).report()["classes"] == ["background", "cat", "dog"]

    row(f"yolo_names_{name}", f"YOLO: names of data.yaml, {name.replace('_', ' ')}", make)


@case
def yolo_without_yaml(c):
    "YOLO without data.yaml is no folder of classes: classes.txt names them, or --classes"
    yolo(c, yaml=None)
    imports(c, "@d", 1, ["d: yolo", "no data.yaml names the classes"])
    c.write("d/labels/classes.txt", "cat\ndog\n")
    assert imports(c, "@d", says="the classes are those of labels/classes.txt").report()["classes"][1:] == ["cat", "dog"]


@case
def yolo_parts_of_yaml(c):
    "YOLO: parts are those of data.yaml, by folders of any name and by lists"
    names = "names: [cat]\n"
    for k in "abcd":
        c.write(f"d/images/{'one' if k < 'c' else 'two'}/{k}.png", PNG)
        c.write(f"d/labels/{'one' if k < 'c' else 'two'}/{k}.txt", POLYGON)

    def parts(yaml, train, val, says=()):
        c.write("d/data.yaml", yaml + names)
        r = imports(c, "@d", says=says).report()
        assert {k: p["samples"] for k, p in r["parts"].items()} == {"train": train, **({"val": val} if val else {})}, r

    parts("path: ../sets/d\ntrain: ./images/one  # two images\nval: 'images/two'\n", 2, 2)
    parts("train: ../d/../images/one\nval: images\\two\n", 2, 2)
    c.write("d/first.txt", "./images/one/a.png\n./images/two/c.png\r\n/home/me/d/images/two/d.png\n")
    c.write("d/second.txt", "images/one/b.png\n")
    parts("train: first.txt\nval: second.txt\n", 3, 1)
    parts("train: images\nval: images\n", 4, 0, "data.yaml names images for two parts; its images are in the first alone")


@case
def yolo_boxes(c):
    "YOLO: boxes alone are no masks"
    yolo(c, "0 0.5 0.5 0.2 0.2\n")
    c.write("d/labels/train/b.txt", "1 0.5 0.5 0.2 0.2\n")
    imports(c, "@d", 1, "all 2 lines of the text files are boxes")


# ---- LabelMe ----
def labelme(c, image=True, **change):
    doc = {
        "version": "5.0.1",
        "shapes": [{"label": "cat", "points": CORNERS, "shape_type": "polygon"}],
        "imagePath": "a.png",
        "imageData": None,
        "imageHeight": 8,
        "imageWidth": 8,
        **change,
    }
    c.write("d/a.json", json.dumps({k: v for k, v in doc.items() if v != "left out"}))
    if image:
        c.write("d/a.png", PNG)


def shape(**change):
    return {"shapes": [{"label": "cat", "points": CORNERS, "shape_type": "polygon", **change}]}


DATA = base64.b64encode(PNG).decode()
STENCIL = base64.b64encode(encoded(np.eye(4, dtype=np.uint8) * 255)).decode()
OLD = {"version": "3.16.7", "imageHeight": "left out", "imageWidth": "left out", "lineColor": [0, 255, 0, 128]}
LABELME = (
    ("image_within", {"imageData": DATA, "imagePath": "gone.png", "image": False}, 36),
    ("image_without_a_name", {"imageData": DATA, "imagePath": "left out", "image": False}, 36),
    ("image_of_windows", {"imagePath": "..\\d\\a.png"}, 36),
    ("image_of_another_machine", {"imagePath": "C:\\Users\\me\\a.png"}, 36),
    ("old", {**OLD, "shapes": [{"label": "cat", "points": CORNERS, "line_color": None}]}, 36),
    ("circle", shape(shape_type="circle", points=[[4, 4], [6, 4]]), None),
    ("rectangle", shape(shape_type="rectangle", points=[[1, 1], [6, 6]]), 36),
    ("rectangle_backwards", shape(shape_type="rectangle", points=[[6, 6], [1, 1]]), 36),
    ("rectangle_of_4", shape(shape_type="rectangle"), 36),
    ("rotation", shape(shape_type="rotation"), 36),
    ("mask", shape(shape_type="mask", points=[[2, 1], [5, 4]], mask=STENCIL), 4),
    ("line", shape(shape_type="line", points=[[1, 1], [5, 5]]), "1 shapes that are no area (line), not drawn"),
    ("linestrip", shape(shape_type="linestrip"), "1 shapes that are no area (linestrip), not drawn"),
    ("point", shape(shape_type="point", points=[[1, 1]]), "1 shapes that are no area (point), not drawn"),
    ("nothing", {"shapes": []}, "1 images in which nothing is drawn"),
    ("bad_data", {"imageData": "@@@", "imagePath": "x", "image": False}, "!imageData is no base64 (first: a.json)"),
    ("bad_mask", shape(shape_type="mask", points=[[2, 1]], mask="@"), "!the mask of a shape is no base64"),
    ("no_label", shape(label=None), "!a shape has no label (first: a.json)"),
    ("another_size", {"imageHeight": 9}, "!the JSON file says another size than the image has"),
    ("points_are_text", shape(points="x"), "!a shape has coordinates that are no places"),
    ("points_of_space", shape(points=[[1, 1, 0]] * 3), "!a shape has coordinates that are no places"),
    ("no_shapes", {"shapes": "left out"}, "!no JSON file has shapes"),
)
for name, change, want in LABELME:

    def make(c, change=change, want=want):
        change = dict(change)
        labelme(c, change.pop("image", True), **change)
        if isinstance(want, str):
            imports(c, "@d", int(want[0] == "!"), want.lstrip("!"))
            return
        imports(c, "@d", lacks="left out")
        n = int((mask_at(c, "a", "data") == 1).sum())
        assert n == want or want is None and n > 8, f"{n} pixels are drawn"

    row(f"labelme_{name}", f"LabelMe: {name.replace('_', ' ')}", make)


# ---- what is no folder of classes ----
@case
def images_of_no_class(c):
    "folders of images that are no classes: a detector's XML, parts, a folder called images"
    c.write("voc/JPEGImages/a b.png", PNG)
    c.write("voc/Annotations/a b.xml", "<annotation>\r\n<filename>a b.png</filename>\r\n</annotation>\r\n")
    imports(c, "@voc", 1, ["JPEGImages, which is no class by its name", "boxes", "--from classes takes it as one"])
    imports(c, "@voc --from classes", lacks="no class by its name")
    c.write("raw/train/a.png", PNG)
    c.write("raw/notes/a.md", "no annotations")
    imports(c, "@raw", 1, "images are in train, which is no class by its name, and notes/a.md beside it")
    c.write("rgb/images/a.png", PNG)
    imports(c, "@rgb", 1, "images are in images, which is no class by its name; --from classes")


# ---- cures ----
@case
def cures_of_classes(c):
    "masks and labels whose classes are others than those of --classes: each cure is typed"
    c.write("one.txt", "cat\n")
    c.write("both.txt", "cat\ndog\n")
    for k, name in enumerate(("cat", "dog")):
        c.write(f"c/{name}/{k}.png", PNG)
    imports(c, "@c --classes @one.txt", says="1: the label is a name that --classes has not; add it there, or leave --classes out")
    for line in ("@c --classes @both.txt", "@c"):
        imports(c, line, lacks="--classes has not")
    labelme(c, shapes=[{"label": n, "points": CORNERS} for n in ("cat", "dog")])
    cures(c, "@d --classes @one.txt", "a shape has a label that --classes has not; add it there, or leave --classes out",
          ("one.txt", "both.txt"), (" --classes @one.txt", ""))
    grey, colours = np.zeros((8, 8), np.uint8), np.zeros((8, 8, 3), np.uint8)
    grey[4:] = 1
    colours[4:] = 128, 64, 128
    c.write("m/images/a.png", PNG)
    c.write("m/masks/a.png", encoded(grey))
    cures(c, "@m --classes @one.txt --map 0=cat,1=dog", "the map names the class 'dog', which --classes has not; add it there",
          ("one.txt", "both.txt"), (" --classes @one.txt", ""))
    cures(c, "@m --map ade20k", "--classes FILE says their names, or how many there are (--classes 150)", "--classes 150", "--classes @one.txt")
    cures(c, "@m --classes @both.txt --background void", "for masks leave --background out", (" --background void", ""))
    c.write("m/masks/a.png", encoded(colours))
    c.write("coloured.txt", "cat #000000\ndog #804080\n")
    cures(c, "@m --map 0=cat,1=dog", "the mask has colours, and --map is for ids; --classes FILE gives classes their colours",
          (" --map 0=cat,1=dog", " --classes @coloured.txt"))


@case
def cures_of_files(c):
    "images in two places, masks of two kinds, parts that are all left out: each cure is typed"
    coco(c, [drawn([BOX])], at="d/x/a.png")
    c.write("d/y/a.png", PNG)
    cures(c, "@d", "may be x/a.png, y/a.png: --images DIR says where images lie", "--images @d/y")
    for name in ("a_leftImg8bit", "a_gtFine_labelIds", "a_gtFine_instanceIds"):
        c.write(f"e/{'leftImg8bit' if 'Img' in name else 'gtFine'}/train/x/{name}.png", encoded(np.full((8, 8), 7, np.uint8)))
    cures(c, "@e --classes 8", "--map cityscapes takes those of labelIds", (" --classes 8", " --map cityscapes"))
    for part in ("train", "val"):
        c.write(f"p/{part}/cat/a.png", PNG)
    cures(c, "@p --part train=no --part val=no", "all parts are left out; --part train=train takes one of them", "--part train=train")


@needs("lmdb")
def cures_of_lmdb(c):
    "LMDB has no masks"
    import lmdb

    c.folder_of("cat_lmdb")
    env = lmdb.open(c.path("cat_lmdb"), map_size=1 << 20)
    with env.begin(write=True) as t:
        t.put(b"1", PNG)
    env.close()
    cures(c, "@cat_lmdb --mask x", "LMDB: keys and images have no masks; --target class is possible", (" --mask x", " --target class"))


# ---- tables ----
def parquet(c, **columns):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({k: pa.array(*(v if isinstance(v, tuple) else (v,))) for k, v in columns.items()}), c.path("d/train-0.parquet"))


@needs("pyarrow")
def parquet_types_of_columns(c):
    "Parquet: views, whole numbers as floats with NaN, a column of no known type is named with its type"
    import pyarrow as pa

    parquet(c, image=[PNG] * 3, label=[0.0, float("nan"), 1.0])
    imports(c, "@d --classes 2", says=["label has the type double: its whole numbers are numbers of classes", "1: there is no label"])
    parquet(c, image=[PNG] * 2, label=[0.5, 1.0])
    imports(c, "@d --classes 2 --label label", 1, "numbers with fractions (double), which are no classes")
    try:
        parquet(c, image=([PNG] * 2, pa.binary_view()), label=(["a", "b"], pa.string_view()))
        assert imports(c, "@d").report()["classes"] == ["a", "b"]
    except (AttributeError, NotImplementedError):
        pass  # pyarrow has no views yet, or does not write them
    parquet(c, image=[[1, 2, 3]] * 2, label=[0, 1])
    imports(c, "@d --classes 2", 1, "--image NAME says which; there are: image (list<")
    imports(c, "@d --classes 2 --image image", 1, "neither the bytes of an image file nor a path")
    parquet(c, image=[PNG] * 2, label=[[0], [1]])
    imports(c, "@d --classes 2", 1, "no column is known as the label: --label NAME")
    imports(c, "@d --classes 2 --label label", 1, "has several labels a row")


@needs("pyarrow")
def parquet_of_paths(c):
    "Parquet: paths instead of bytes: those beside the table are taken, addresses are not"
    import pyarrow as pa

    struct = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    c.write("d/a.png", PNG)
    parquet(c, image=[PNG, None, PNG], label=[0, 1, None])
    imports(c, "@d --classes 2", says=["1: there is no image in the row (first: train-0.parquet row 1)", "there is no label (first: train-0.parquet row 2)"])
    for path, says in (("a.png", ()), ("/root/a.png", "no such file lies beside the table"), ("https://example.org/a.png", "an address instead")):
        parquet(c, image=([{"bytes": None, "path": path}] * 2, struct), label=[0, 1])
        imports(c, "@d --classes 2", int(bool(says)), says)
        parquet(c, image=[path] * 2, label=[0, 1])
        imports(c, "@d --classes 2", 1, "--image NAME says which; there are: image (string), label (int64)")
        imports(c, "@d --classes 2 --image image", int(bool(says)), says)


if __name__ == "__main__":
    main()
