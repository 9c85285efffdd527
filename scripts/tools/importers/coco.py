# SPDX-License-Identifier: MIT
"""COCO: instances with polygons and run lengths, and panoptic segments, become masks of classes."""

import os
import posixpath
import re

from .common import NO_LABEL, LeftOut, Refused, clean_name, demand, load_json, part_of, shown, some
from .images import MOST_PIXELS, head, segment_ids, turned
from .shapes import Drawn, fill, paint
from .tree import inside, is_absolute


# ---- run lengths ----
def counts_of(text):
    """The run lengths in a string: six bits a character, the lowest five first; from the third on as the difference to
    the one two before."""
    out, at, n = [], 0, len(text)
    while at < n:
        x = k = 0
        more = True
        while more:
            if at == n or k > 12:
                raise LeftOut("a run length ends early")
            c = ord(text[at]) - 48
            if not 0 <= c < 64:
                raise LeftOut("a run length has a character that is none of its")
            x |= (c & 31) << 5 * k
            more = c & 32
            at += 1
            k += 1
            if not more and c & 16:
                x |= -1 << 5 * k
        out.append(x + out[-2] if len(out) > 2 else x)
    return out


def unpack(rle, w, h):
    """An H x W array of 0 and 1 from {"size": [h, w], "counts": ...}."""
    import numpy as np

    size, counts = rle.get("size"), rle.get("counts")
    if size != [h, w]:
        raise LeftOut("run lengths are of another size than the image")
    if isinstance(counts, str):
        counts = counts_of(counts)
    if not isinstance(counts, list) or not all(type(c) is int and 0 <= c <= MOST_PIXELS for c in counts):
        raise LeftOut("run lengths are no numbers from 0 on")
    if sum(counts) != w * h:
        raise LeftOut("run lengths have another sum than the image has pixels")
    runs = np.arange(len(counts), dtype=np.int64) & 1
    return np.repeat(runs, counts).astype(np.uint8).reshape(w, h).T


def pixels_of(segm, w, h, job, where):
    """What an annotation covers; None: nothing that is an area."""
    import numpy as np

    if isinstance(segm, dict):
        return unpack(segm, w, h)
    if not isinstance(segm, list):
        raise LeftOut("a segmentation is neither polygons nor run lengths")
    out = np.zeros((w, h), np.uint8).T
    if segm and all(map(is_number, segm)):
        raise LeftOut("a segmentation is one list of numbers; polygons are a list of such lists, [[x, y, ...]]")
    for p in segm:
        if not isinstance(p, list) or not all(map(is_number, p)):
            raise LeftOut("a polygon is no list of x and y")
        if len(p) % 2:
            raise LeftOut("a polygon has an odd number of coordinates: an x without a y")
        if len(p) < 6:
            job.note("polygons of fewer than 3 points, not drawn", where)
            continue
        out |= fill(p, w, h)
    return out


def is_number(v):
    return isinstance(v, (int, float)) and not isinstance(v, bool)


# ---- documents ----
def lacks(doc):
    """The lists of COCO that a document has not."""
    have = doc if isinstance(doc, dict) else {}
    return [k for k in ("images", "annotations", "categories") if not isinstance(have.get(k), list)]


def is_id(v):
    return isinstance(v, (int, str)) and not isinstance(v, bool)


def unique(rows, key, where, what):
    out = {}
    for i, r in enumerate(rows):
        k = r.get(key) if isinstance(r, dict) else None
        if not is_id(k):
            raise Refused(f"{where}: {what}[{i}] has no {key} that is a whole number or a text; correct the file")
        if k in out:
            raise Refused(f"{where}: two {what} have the {key} {shown(k)}; correct the file")
        out[k] = r
    return out


class Coco(Drawn):
    kind = "coco"

    def __init__(self, job, sources):
        demand("COCO", ("numpy", "numpy"))
        self.job, self.parts, self.docs, self.lacking = job, {}, [], {}
        for s in sources:
            self.load(s)
        if not self.docs:
            raise Refused(
                f"{some(sources)}: no JSON file has the lists images, annotations and categories"
                + "".join(f"; {p} has no {some(k)}" for p, k in sorted(self.lacking.items())[:1])
            )
        self.panoptic = {d["panoptic"] for d in self.docs}
        if len(self.panoptic) > 1:
            raise Refused(
                "there are JSON files of instances and of panoptic segments, such as "
                f"{some(d['name'] for d in self.docs)}: name the ones that are wanted instead of the folder"
            )
        self.panoptic = self.panoptic.pop()
        self.categories()
        self.match()

    def load(self, source):
        if os.path.isfile(source) and source.lower().endswith(".json"):
            self.job.file(source)
            with open(source, "rb") as f:
                doc = load_json(f.read(), shown(source))
            tree = self.images(os.path.dirname(os.path.abspath(source)))
            at = (
                os.path.relpath(os.path.dirname(os.path.abspath(source)), tree.path).replace(os.sep, "/")
                if os.path.isdir(tree.path)
                else ""
            )
            if lacks(doc):
                raise Refused(
                    f"{shown(source)} has no {some(lacks(doc))}; a document of COCO has the lists images, annotations "
                    "and categories"
                )
            self.add(tree, "" if at.startswith("..") or at == "." else at, os.path.basename(source), doc)
            return
        tree = self.job.tree(source)
        found = [p for p in tree.files if p.lower().endswith(".json")]
        instances = [p for p in found if re.match(r"_?(instances|annotations)", posixpath.basename(p))]
        panoptic = [p for p in found if posixpath.basename(p).startswith("panoptic")]
        if instances and panoptic and self.job.opt.frm not in ("coco", "panoptic"):
            raise Refused(
                f"{shown(source)} has {shown(instances[0])} and {shown(panoptic[0])}: --from coco or --from panoptic "
                "says which"
            )
        usual = (panoptic if self.job.opt.frm == "panoptic" else instances or panoptic) or found
        for p in found:
            if p not in usual:
                self.job.leave("a JSON file of another kind", p)
        images = self.images(None) or tree
        for p in usual:
            doc = load_json(tree.document(p), shown(p))
            if lacks(doc):
                self.lacking[shown(p)] = lacks(doc)
                self.job.leave(f"a JSON file that has no {some(lacks(doc))}", p)
                continue
            self.add(images, posixpath.dirname(p) if images is tree else "", p, doc, tree)

    def images(self, folder):
        """The tree of images: --images, or where the document lies; of annotations/x.json the folder above."""
        if self.job.opt.images:
            return self.job.tree(self.job.opt.images)
        if folder is None:
            return None
        return self.job.tree(os.path.dirname(folder) if os.path.basename(folder) == "annotations" else folder)

    def add(self, tree, at, name, doc, segments=None):
        where = shown(name)
        images, cats = unique(doc["images"], "id", where, "images"), unique(
            doc["categories"], "id", where, "categories"
        )
        files = {}
        for i in images.values():
            f = i.get("file_name")
            if not isinstance(f, str) or not f:
                raise Refused(f"{where}: image {shown(i['id'])} has no file_name")
            if f in files:
                raise Refused(
                    f"{where}: the images {shown(files[f])} and {shown(i['id'])} have one file_name, {shown(f)}"
                )
            files[f] = i["id"]
        panoptic = bool(doc["annotations"]) and all(
            isinstance(a, dict) and "segments_info" in a for a in doc["annotations"]
        )
        if (
            not panoptic
            and doc["annotations"]
            and not any(isinstance(a, dict) and a.get("segmentation") for a in doc["annotations"])
        ):
            raise Refused(f"{where}: no annotation has a segmentation: boxes, key points or captions are no masks")
        ids = [a.get("image_id") for a in doc["annotations"] if isinstance(a, dict)]
        if ids and images and not any(is_id(k) and k in images for k in ids):
            raise Refused(
                f"{where}: no image_id of its annotations, such as {shown(repr(ids[0]))}, is an id of its images, such "
                f"as {shown(repr(next(iter(images))))}; write them alike, as numbers or as texts"
            )
        of, seen = {k: [] for k in images}, set()
        for a in doc["annotations"]:
            own, image = (a.get("id"), a.get("image_id")) if isinstance(a, dict) else (a, None)
            if not is_id(image) or image not in of:
                self.job.note(f"annotations in {where} of an image that the file does not name", str(own))
                continue
            if is_id(own) and not panoptic:
                if own in seen:
                    self.job.note(f"annotations in {where} whose id another one has", str(own))
                seen.add(own)
            of[image].append(a)
        part = part_of(posixpath.basename(name)) or part_of(posixpath.dirname(name))
        d = {
            "tree": tree,
            "at": at,
            "name": name,
            "images": images,
            "cats": cats,
            "of": of,
            "panoptic": panoptic,
            "part": part,
            "segments": segments or tree,
        }
        self.docs.append(d)

    # -- classes --
    def categories(self):
        ids, job = {}, self.job
        for d in self.docs:
            for k, c in d["cats"].items():
                name = c.get("name")
                if not isinstance(name, str) or not name.strip():
                    raise Refused(f"{shown(d['name'])}: category {shown(k)} has no name")
                if ids.setdefault(k, name) != name:
                    raise Refused(
                        f"category {shown(k)} is '{shown(ids[k])}' in one file and '{shown(name)}' in "
                        f"{shown(d['name'])}; "
                        "import each by itself"
                    )
        if not ids:
            raise Refused(f"{shown(self.docs[0]['name'])} has no categories")
        order = sorted(ids, key=lambda k: (isinstance(k, str), k))
        names = [clean_name(ids[k]) or f"class {k}" for k in order]
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            job.say(f"categories of one name become one class: {some(twice)}")
        if self.panoptic and job.opt.background is None:
            job.opt.background = "void"
        self.background(names, job.say)
        self.label = {k: job.classes.number[clean_name(ids[k]) or f"class {k}"] for k in order}
        if [self.label[k] for k in order] != order:
            first = ", ".join(f"{k} -> {self.label[k]}" for k in order[:4])
            job.say(
                "ids of categories become numbers of classes in their order: "
                f"{first}{', ...' if len(order) > 4 else ''}"
            )
        job.extra["classes of category ids"] = {str(k): self.label[k] for k in order}

    # -- images --
    def find(self, d, name):
        """The path of an image in the tree."""
        tree, part, stem = (
            d["tree"],
            d["part"],
            re.sub(r"^(instances|panoptic|annotations)_|\.json$", "", posixpath.basename(d["name"])),
        )
        tried = []
        for folder in (d["at"], "", posixpath.dirname(d["at"])):
            for sub in ("", "images", stem, f"images/{stem}", part, f"images/{part}", f"{part}/images"):
                try:
                    path = inside(posixpath.join(folder, sub), name)
                except LeftOut:
                    continue
                if path in tree.files:
                    return path
                tried.append(path)
        if is_absolute(name) and tree.by_name(posixpath.basename(name.replace("\\", "/"))):
            self.job.note("names with a path of another machine: found by what stands at its end", name)
        else:
            inside("", name)
        same = tree.by_name(posixpath.basename(name.replace("\\", "/")))
        same = [p for p in same if is_end(p, name)] or same
        own = [p for p in same if part_of(posixpath.dirname(p)) == part] or same
        own = [p for p in own if p.lower().endswith((".jpg", ".jpeg"))] or own if self.panoptic else own
        if len(own) == 1:
            return own[0]
        if own:
            raise Refused(f"{shown(name)} of {shown(d['name'])} may be {some(own)}: --images DIR says where images lie")
        raise LeftOut("an image file that is not there (--images DIR or ZIP says where images lie)")

    def match(self):
        for d in self.docs:
            to = self.parts.setdefault(d["part"], [])
            for k in sorted(d["images"], key=lambda k: (isinstance(k, str), k)):
                to.append((d, k))

    def items(self, part):
        for d, k in self.parts[part]:
            yield posixpath.splitext(d["images"][k]["file_name"].replace("\\", "/").lstrip("/"))[0], d["images"][k][
                "file_name"
            ], d, k

    def place(self, where):
        return where

    def sample(self, where, d, k):
        info = d["images"][k]
        data = d["tree"].read(self.find(d, where))
        _, w, h = head(data)
        said = tuple(n if info.get(k) is None else info[k] for k, n in (("width", w), ("height", h)))
        if said != (w, h):
            if said != (h, w) or not turned(data):
                raise LeftOut("the JSON file says another size than the image has")
            w, h = h, w
        return data, self.segments(d, info, w, h) if self.panoptic else self.instances(d, k, w, h, where)

    def category(self, a):
        label = self.label.get(a.get("category_id")) if is_id(a.get("category_id")) else None
        if label is None:
            raise LeftOut("an annotation has a category_id that the file does not name")
        return label

    def instances(self, d, k, w, h, where):
        import numpy as np

        mask, layers, crowds = self.canvas(w, h), [], []
        for a in d["of"][k]:
            try:
                label, segm = self.category(a), a.get("segmentation")
                if not segm:
                    self.job.note("annotations without a segmentation, not drawn", where)
                    continue
                pixels = pixels_of(segm, w, h, self.job, where)
            except LeftOut as why:
                why.at = f"annotation {shown(a.get('id'))}"
                raise
            if not np.count_nonzero(pixels):
                self.job.note("annotations that cover no pixel's centre in their image", where)
                continue
            if a.get("iscrowd"):
                self.job.note(
                    "crowds, drawn below all else "
                    + ("as no label" if self.job.opt.crowd == "void" else "with their class"),
                    where,
                )
                crowds.append((pixels, NO_LABEL if self.job.opt.crowd == "void" else label))
            else:
                layers.append((pixels, label))
        if not layers and not crowds:
            what = "in which no annotation covers a pixel" if d["of"][k] else "without an annotation"
            self.job.note(f"images {what}: all background", where)
        for pixels, label in crowds:
            mask[pixels.astype(bool)] = label
        paint(mask, layers, self.job, where)
        return mask

    def segments(self, d, info, w, h):
        import numpy as np

        found = d["of"][info["id"]]
        if len(found) != 1:
            raise LeftOut("the image has no annotation" if not found else "the image has several annotations")
        a = found[0]
        name, stem = str(a.get("file_name")), posixpath.splitext(posixpath.basename(d["name"]))[0]
        tree, at = d["segments"], (
            posixpath.dirname(d["name"]) if d["segments"] is not d["tree"] or "/" in d["name"] else d["at"]
        )
        tried = [
            inside(posixpath.join(f, s), name) for f in (at, "", "annotations") for s in (stem, "", "panoptic", "masks")
        ]
        path = next((p for p in tried if p in tree.files and p.lower().endswith(".png")), None)
        if path is None:
            same = [
                p for p in tree.by_name(posixpath.basename(name)) if p.lower().endswith(".png") and stem in p.split("/")
            ]
            if len(same) != 1:
                raise LeftOut(f"a PNG of segments that is not there (a folder {stem} beside the JSON file has them)")
            path = same[0]
        ids = segment_ids(tree.read(path))
        if ids.shape[1::-1] != (w, h):
            raise LeftOut("the PNG of segments has another size than the image")
        if not isinstance(a["segments_info"], list):
            raise LeftOut("segments_info is no list")
        labels = {0: self.ground}
        for s in a["segments_info"]:
            if not isinstance(s, dict) or type(s.get("id")) is not int or s["id"] in labels:
                raise LeftOut("segments_info has an id that is there twice, is 0, or is no whole number")
            try:
                labels[s["id"]] = self.category(s)
            except LeftOut as why:
                why.at = f"segment {s['id']}"
                raise
        values, where = np.unique(ids, return_inverse=True)
        out = [labels.get(int(v)) for v in values]
        if None in out:
            why = LeftOut("the PNG has a segment that segments_info does not name")
            why.at = f"segment {int(values[out.index(None)])}"
            raise why
        if len(labels) > len(values) + (0 not in values):
            self.job.note("images whose segments_info names segments that the PNG has no pixel of", info["file_name"])
        return np.array(out, np.uint8)[where].reshape(ids.shape)

    def summary(self):
        return {
            "documents": [posixpath.basename(d["name"]) for d in self.docs],
            "annotations": sum(len(v) for d in self.docs for v in d["of"].values()),
        }


def is_end(path, name):
    return ("/" + path).endswith("/" + name.replace("\\", "/").lstrip("/"))
