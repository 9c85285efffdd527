# SPDX-License-Identifier: MIT
"""Folders, as they are or in a zip archive: one for each class, or images beside masks. And LMDB, whose keys are such
paths."""

import os
import posixpath
import re

from .common import Classes, LeftOut, Refused, by_image, demand, given_map, load_json, object_rows, part_of, shown, some
from .images import format_of, what_else

PICTURES = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".tif", ".tiff", ".bmp", ".gif", ".ppm", ".pgm", ".pbm")
IMAGES = ("images", "image", "imgs", "img", "jpegimages", "leftimg8bit", "rgb", "photos", "color")
MASKS = (
    "masks",
    "mask",
    "labels",
    "label",
    "annotations",
    "annotation",
    "gtfine",
    "gtcoarse",
    "segmentationclass",
    "segmentation",
    "gt",
    "groundtruth",
    "ground_truth",
    "instances",
    "panoptic",
    "semantic",
)
# What stands behind the name that image and mask share.
TAIL = re.compile(
    r"(_leftImg8bit|_gt(Fine|Coarse)_(labelIds|instanceIds|labelTrainIds)|[_-](mask|label|labels|seg|segmentation|gt|"
    r"instances|instance|annotation))$",
    re.I,
)
ASIDE = re.compile(r"_gt(Fine|Coarse)_(color|polygons)$", re.I)


def is_picture(path):
    return path.lower().endswith(PICTURES)


def fold(path):
    """Without the parts that say which kind of file it is: what image and mask share."""
    folder, name = posixpath.split(path)
    kept = [p for p in folder.split("/") if p.lower() not in IMAGES + MASKS and p]
    return "/".join([*kept, TAIL.sub("", posixpath.splitext(name)[0])])


def side_of(path):
    """Whether one of the folders on the way is of images or of masks."""
    for p in path.split("/")[:-1]:
        if p.lower() in IMAGES:
            return "image"
        if p.lower() in MASKS:
            return "mask"
    return None


def looks_like(tree):
    """classes, masks, or None."""
    sides = {side_of(p) for p in tree.files if is_picture(p)}
    if {"image", "mask"} <= sides:
        return "masks"
    if any("/" in p for p in tree.files if is_picture(p)):
        return "classes"
    return None


class ClassFolders:
    target = "class"
    kind = "classes"

    def __init__(self, job, trees):
        self.job, self.parts, found = job, {}, set()
        for tree in trees:
            top = tree
            while (
                len(top.folders()) == 1
                and not any("/" not in p for p in top.files)
                and any(p.count("/") > 1 for p in top.files)
            ):
                top = top.below(top.folders()[0])
            whole = top.folders()
            divided = whole and all(part_of(f) and "+" not in part_of(f) for f in whole)
            for p in top.files:
                part, rest = (
                    (part_of(p.split("/")[0]), p.partition("/")[2])
                    if divided
                    else (part_of(os.path.basename(tree.path)), p)
                )
                if not is_picture(p):
                    job.leave("a file of another ending", p)
                elif "/" not in rest:
                    job.leave("an image in no folder of a class", p)
                else:
                    found.add(rest.split("/")[0])
                    self.parts.setdefault(part, []).append((top, p, rest))
        if not found:
            raise Refused(f"{some(t.path for t in trees)}: there are no folders with images, one for each class")
        if job.opt.frm != "classes" and all(n.lower() in IMAGES or part_of(n) for n in found):
            raise Refused(
                f"{some(t.path for t in trees)}: images are in {some(sorted(found))}, which is no class by its name"
                f"{self.beside(trees)}; --from classes takes it as one"
            )
        if job.classes is None:
            job.classes = Classes(sorted(found, key=os.fsencode), say=job.say)
        self.n = len(found)

    @staticmethod
    def beside(trees):
        """What lies there that may say what the images are."""
        for tree in trees:
            xml = next((p for p in tree.files if p.lower().endswith(".xml")), None)
            if xml:
                return f", and {shown(xml)} beside it is of a detector (boxes), which says no class of an image"
            other = next((p for p in tree.files if not is_picture(p)), None)
            if other:
                return f", and {shown(other)} beside it is of no kind that is known here"
        return ""

    def items(self, part):
        for tree, p, rest in self.parts[part]:
            yield posixpath.splitext(rest)[0], p, tree, rest.split("/")[0]

    def place(self, where):
        return where

    def sample(self, where, tree, name):
        return tree.read(where), self.job.label(name)

    def summary(self):
        return {"folders of classes": self.n}


class MaskFolders:
    """images/ and masks/ of any depth, with parts anywhere; masks of classes, or of ids that --map makes classes of."""

    target = "mask"
    kind = "masks"

    def __init__(self, job, trees):
        self.job, self.parts = job, {}
        self.by_id = given_map(job.opt, job.classes)
        if self.by_id is None:
            self.by_id = self.beside(trees)
        if self.by_id is None and job.classes is None:
            self.from_file(trees)
        if self.by_id is not None:
            job.classes = self.by_id.classes
        job.mask_classes()
        for tree in trees:
            images, masks = self.sides(tree)
            for key in sorted(images):
                if key not in masks:
                    job.leave("an image without a mask", images[key])
                    continue
                self.parts.setdefault(
                    part_of(posixpath.dirname(images[key])) or part_of(os.path.basename(tree.path)), []
                ).append((tree, key, images[key], masks[key]))
            for key in sorted(set(masks) - set(images)):
                job.leave("a mask without an image", masks[key])
        if not self.parts:
            raise Refused(
                f"{some(t.path for t in trees)}: no image has a mask of the same name (images/a.jpg, masks/a.png)"
            )

    def sides(self, tree):
        images, masks = {}, {}
        pictures = [p for p in tree.files if is_picture(p)]
        ids = {k for k in ("labelIds", "instanceIds", "labelTrainIds") if any(f"_{k}." in p for p in pictures)}
        if len(ids) > 1:
            pick = "labelIds" if self.job.opt.map == "cityscapes" and "labelIds" in ids else None
            if pick is None:
                raise Refused(
                    f"there are masks of {some(sorted(ids))}: --map cityscapes takes those of labelIds; or move the "
                    "others away"
                )
            pictures = [
                p for p in pictures if not re.search(r"_(labelIds|instanceIds|labelTrainIds)\.", p) or f"_{pick}." in p
            ]
        for p in pictures:
            side = side_of(p)
            if ASIDE.search(posixpath.splitext(p)[0]):
                self.job.leave("a picture of what masks have as ids", p)
                continue
            if side is None:
                self.job.leave("an image in neither a folder of images nor one of masks", p)
                continue
            to, key = images if side == "image" else masks, fold(p)
            if key in to:
                raise Refused(f"{shown(to[key])} and {shown(p)} are both the {side} of '{shown(key)}'; rename one")
            to[key] = p
        return images, masks

    def beside(self, trees):
        """MASK.json beside each mask, with its ids."""
        rows = {}
        for tree in trees:
            for p in tree.files:
                if p.endswith(".json") and side_of(p) == "mask" and tree.files[p] < 1 << 24:
                    rows[posixpath.splitext(posixpath.basename(p))[0]] = object_rows(
                        load_json(tree.document(p), shown(p)), shown(p)
                    )
        return by_image(rows, self.job.classes, "the .json files beside masks") if rows else None

    def from_file(self, trees):
        """classes.txt that lies there, or the table of ADE20K."""
        for tree in trees:
            for p in tree.files:
                name = posixpath.basename(p)
                if name == "classes.txt":
                    text = tree.document(p).decode("utf-8-sig", "replace")
                    lines = [s.strip() for s in text.splitlines() if s.strip()]
                    colour = re.compile(r"(?<=\S)\s+(#[0-9A-Fa-f]{6}|\d{1,3}\s+\d{1,3}\s+\d{1,3})$")
                    kept = [s for s in lines if not (colour.search(s) and colour.sub("", s) == "void")]
                    self.job.classes = Classes([colour.sub("", s) for s in kept], lines)
                    self.job.say(f"the classes are those of {shown(p)}")
                    return
                if name == "objectInfo150.txt":
                    rows = [
                        s.split("\t") for s in tree.document(p).decode("utf-8", "replace").splitlines()[1:] if s.strip()
                    ]
                    self.job.classes = Classes([r[-1].split(",")[0].strip() for r in rows])
                    self.job.opt.map = "ade20k"
                    self.by_id = given_map(self.job.opt, self.job.classes)
                    self.job.say(
                        f"the classes are those of {shown(p)}: ids from 1 on become classes from 0, id 0 no label"
                    )
                    return

    def items(self, part):
        for tree, key, image, mask in self.parts[part]:
            yield key, image, tree, mask

    def place(self, where):
        return where

    def sample(self, where, tree, mask):
        table = self.by_id(mask) if callable(self.by_id) else self.by_id
        return tree.read(where), (tree.read(mask), table)

    def summary(self):
        return {"pairs": sum(map(len, self.parts.values()))}


# ---- LMDB ----
LMDB_NAME = re.compile(r"[_-]?(train|val|valid|validation|test)?[_-]?lmdb$", re.I)


class Lmdb:
    """Keys and bytes of images. The class is the folder in a key (ant/1.jpg), what `label-N` says of `image-N`, or
    the name of the data base itself, as LSUN's bedroom_train_lmdb."""

    target = "class"
    kind = "lmdb"

    def __init__(self, job, sources):
        demand("LMDB", ("lmdb", "lmdb"))
        import lmdb

        self.lmdb, self.job, self.parts = lmdb, job, {}
        if job.opt.target == "mask" or job.opt.mask:
            raise Refused("LMDB: keys and images have no masks; --target class is possible")
        names = set()
        for s in sources:
            for path in bases(s):
                part, name = part_of(os.path.basename(path)), LMDB_NAME.sub("", os.path.basename(os.path.abspath(path)))
                way = self.look(path)
                job.file(os.path.join(path, "data.mdb") if os.path.isdir(path) else path)
                self.parts.setdefault(part, []).append((path, name, way))
                if way == "name":
                    names.add(name)
        if not self.parts:
            raise Refused(f"{some(sources)}: there is no data.mdb")
        if names:
            job.say(f"keys name no class, so the class is the name of the data base: {some(sorted(names))}")

    def open(self, path):
        file = os.path.join(path, "data.mdb") if os.path.isdir(path) else path
        try:
            env = self.lmdb.open(
                path, subdir=os.path.isdir(path), readonly=True, lock=False, readahead=False, max_dbs=0
            )
        except (self.lmdb.Error, OSError) as why:
            raise Refused(f"{shown(path)}: {shown(why)}") from None
        pages = (env.info()["last_pgno"] + 1) * env.stat()["psize"]
        if pages > os.path.getsize(file):  # to read behind a file's end would end the process
            env.close()
            raise Refused(
                f"{shown(file)} is cut: its header promises {pages} bytes, and it has {os.path.getsize(file)}; copy "
                "it again"
            )
        return env

    def look(self, path):
        """How its keys name classes, by the first ones."""
        env = self.open(path)
        try:
            with env.begin() as txn:
                first = [(k, v[:64]) for (k, v), _ in zip(txn.cursor(), range(64))]
                if txn.get(b"image-000000001") is not None:
                    return "text"
        except self.lmdb.Error as why:
            raise Refused(f"{shown(path)}: {shown(why)}") from None
        finally:
            env.close()
        if not first:
            raise Refused(f"{shown(path)} is empty")
        images = [k for k, v in first if format_of(v)]
        if not images:
            k, v = first[0]
            if v[:1] == b"\x08" and b"\x10" in v[:8] and b"\x18" in v[:12]:
                raise Refused(
                    f"{shown(path)}: its values are Datum messages of Caffe, raw pixels and no image files; export "
                    "them as "
                    "files first"
                )
            raise Refused(f"{shown(path)}: key {shown(k)}: {what_else(v)}")
        return "path" if all(b"/" in k for k in images) else "name"

    def items(self, part):
        for path, name, way in self.parts[part]:
            env = self.open(path)
            try:
                with env.begin() as txn:
                    for k, v in txn.cursor():
                        key = k.decode("utf-8", "backslashreplace")
                        if way == "text":
                            if not key.startswith("image-"):
                                continue
                            label = txn.get(b"label-" + k[6:])
                            yield key, (path, key), v, None if label is None else label.decode("utf-8", "replace")
                        else:
                            own = key.lstrip("/").split("/")[0] if way == "path" and "/" in key.strip("/") else name
                            yield posixpath.splitext(key.lstrip("/"))[0], (path, key), v, own
            except self.lmdb.Error as why:
                self.job.damaged(f"{shown(path)}: {shown(why)}")
            finally:
                env.close()

    def place(self, where):
        return f"{os.path.basename(os.path.abspath(where[0]))} key {where[1]}"

    def sample(self, where, data, name):
        if name is None:
            raise LeftOut("the image has no label")
        return data, self.job.label(name)

    def summary(self):
        return {"data bases": sum(map(len, self.parts.values()))}


def bases(source):
    """The folders with a data.mdb, or the file."""
    if os.path.isfile(source):
        return [source]
    out = []
    for folder, folders, names in os.walk(source):
        folders.sort()
        if "data.mdb" in names:
            out.append(folder)
    return out
