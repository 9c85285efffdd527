# SPDX-License-Identifier: MIT
"""Polygons become masks: LabelMe, YOLO segmentation, CVAT for images."""

import base64
import binascii
import math
import os
import posixpath
import re

from .common import (
    NO_LABEL,
    VOID,
    Classes,
    LeftOut,
    Refused,
    clean_name,
    demand,
    load_json,
    part_of,
    shown,
    some,
    text_of,
)
from .folders import is_picture
from .images import head, opened
from .tree import inside

MOST_POINTS = 1 << 24  # of a polygon's boundary, at a fifth of a pixel


def fill(points, w, h):
    """An H x W array of 0 and 1: the pixels of a polygon as pycocotools fills it.

    The boundary is walked in steps of a fifth of a pixel. Where it goes over the middle of a column, the column's
    pixels from there down are turned over. So what the boundary goes round twice is a hole.
    """
    import numpy as np

    xy = np.asarray(points, np.float64).reshape(-1, 2)
    if not np.isfinite(xy).all() or np.abs(xy).max() > 1e7:
        raise LeftOut("a polygon has coordinates that are no places")
    p = np.trunc(5 * xy + 0.5).astype(np.int64)
    q = np.roll(p, -1, 0)
    d = np.abs(q - p)
    n = d.max(1)
    if int(n.sum()) > MOST_POINTS:
        raise LeftOut("a polygon reaches too far out of its image")
    wide = d[:, 0] >= d[:, 1]
    flip = np.where(wide, p[:, 0] > q[:, 0], p[:, 1] > q[:, 1])
    begin, end = np.where(flip[:, None], q, p), np.where(flip[:, None], p, q)
    slope = np.where(wide, end[:, 1] - begin[:, 1], end[:, 0] - begin[:, 0]) / np.maximum(n, 1)
    edge = np.repeat(np.arange(len(p)), n + 1)
    t = np.arange(len(edge)) - np.repeat(np.cumsum(n + 1) - n - 1, n + 1)
    t = np.where(flip[edge], n[edge] - t, t)
    wide, begin = wide[edge], begin[edge]
    along = np.where(wide, begin[:, 0], begin[:, 1]) + t
    across = np.trunc(np.where(wide, begin[:, 1], begin[:, 0]) + slope[edge] * t + 0.5).astype(np.int64)
    u, v = np.where(wide, along, across), np.where(wide, across, along)
    step = u[1:] != u[:-1]
    a, b = u[:-1][step], u[1:][step]
    x = (np.where(b < a, b, b - 1) + 0.5) / 5 - 0.5
    y = (np.minimum(v[:-1][step], v[1:][step]) + 0.5) / 5 - 0.5
    keep = (np.floor(x) == x) & (x >= 0) & (x <= w - 1)
    x, y = x[keep].astype(np.int64), np.ceil(np.clip(y[keep], 0, h)).astype(np.int64)
    out = np.zeros((w, h), np.uint8)
    if x.size:  # a boundary that is closed goes over each column an even number of times
        x0, x1 = int(x.min()), int(x.max()) + 1
        turns = np.bincount((x - x0) * h + y, minlength=(x1 - x0) * h + 1)[: (x1 - x0) * h]
        out[x0:x1] = (np.cumsum(turns) & 1).reshape(x1 - x0, h)
    return out.T


def paint(mask, layers, job, where):
    """Draws layers (pixels, label), largest first, so that the smaller lies on top; of equal ones the later."""
    import numpy as np

    covered = np.zeros(mask.shape[::-1], bool).T  # by columns, as the layers are
    sized = [(np.count_nonzero(pixels), i, pixels, label) for i, (pixels, label) in enumerate(layers)]
    overlap = 0
    for _, _, pixels, label in sorted(sized, key=lambda s: (-s[0], s[1])):
        on = pixels.astype(bool)
        overlap += np.count_nonzero(covered & on & (mask != label))
        mask[on] = label
        covered |= on
    if overlap:
        job.note("images where objects of two classes overlap: the smaller is on top", where)


class Drawn:
    """What the readers of polygons share: classes with a background, and images beside documents."""

    target = "mask"

    def background(self, names, say):
        """The classes, and the label of pixels that nothing covers."""
        opt, job = self.job.opt, self.job
        names = [clean_name(n) for n in names]
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice and self.kind == "yolo":
            say(f"classes of one name become one: {some(twice)}")
        names = list(dict.fromkeys(names))
        own = next((n for n in names if n.lower() in ("background", "_background_")), None)
        if opt.background == "void":
            job.classes, self.ground = Classes(names, say=say), NO_LABEL
            say("pixels that no object covers have no label (255)")
        elif own is not None:
            job.classes = Classes(names, say=say)
            self.ground = job.classes.number[own]
            say(f"pixels that no object covers are of the class '{own}', number {self.ground}")
        else:
            job.classes, self.ground = Classes([opt.background or "background", *names], say=say), 0
            say(
                f"pixels that no object covers are of the class '{job.classes.names[0]}', number 0; --background "
                "void: of no label"
            )
        job.mask_classes()

    def canvas(self, w, h):
        import numpy as np

        return np.full((w, h), self.ground, np.uint8).T  # by columns, as `fill` draws


# ---- LabelMe ----
class LabelMe(Drawn):
    """A JSON file for each image. Pillow draws its shapes, as in LabelMe, in their order: the later on top."""

    kind = "labelme"

    def __init__(self, job, trees):
        demand("LabelMe", ("PIL", "Pillow"), ("numpy", "numpy"))
        self.job, self.parts, names = job, {}, set()
        for tree in trees:
            for p in tree.files:
                if not p.lower().endswith(".json"):
                    continue
                try:
                    doc = load_json(tree.read(p), shown(p))
                    if not isinstance(doc, dict) or not isinstance(doc.get("shapes"), list):
                        raise Refused("")
                except (Refused, LeftOut):
                    job.leave("a JSON file that is not of LabelMe", p)
                    continue
                names |= {
                    str(s.get("label")) for s in doc["shapes"] if isinstance(s, dict) and s.get("label") is not None
                }
                self.parts.setdefault(part_of(posixpath.dirname(p)) or part_of(os.path.basename(tree.path)), []).append(
                    (tree, p)
                )
        if not self.parts:
            raise Refused(f"{some(t.path for t in trees)}: no JSON file has shapes")
        self.background(
            job.classes.names if job.classes else sorted(n for n in names if n.lower() not in VOID), job.say
        )

    def items(self, part):
        for tree, p in self.parts[part]:
            yield posixpath.splitext(p)[0], p, tree, None

    def place(self, where):
        return where

    def image(self, tree, p, doc):
        name = doc.get("imagePath")
        if isinstance(name, str) and name:
            beside = posixpath.join(posixpath.dirname(p), posixpath.basename(name.replace("\\", "/")))
            try:
                path = inside(posixpath.dirname(p), name)
            except LeftOut:
                if beside not in tree.files and not isinstance(doc.get("imageData"), str):
                    raise
                path = beside
            if path in tree.files:
                return tree.read(path)
        if isinstance(doc.get("imageData"), str):
            try:
                return base64.b64decode(doc["imageData"], validate=True)
            except (binascii.Error, ValueError):
                raise LeftOut("imageData is no base64") from None
        raise LeftOut("the image that imagePath names is not there, and there is no imageData")

    @staticmethod
    def stencil(text):
        """The picture of a shape that is a mask, PNG in base64, which lies at its first point."""
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError, TypeError):
            raise LeftOut("the mask of a shape is no base64") from None
        head(data)
        return opened(data, "the mask of a shape").convert("L").point(lambda v: 255 * (v > 0))

    def sample(self, where, tree, _):
        from PIL import Image, ImageDraw
        import numpy as np

        doc = load_json(tree.read(where), shown(where))
        data = self.image(tree, where, doc)
        _, w, h = head(data)
        said = doc.get("imageWidth"), doc.get("imageHeight")
        if None not in said and said != (w, h):
            raise LeftOut("the JSON file says another size than the image has")
        before, drawn = self.canvas(w, h), 0
        overlap = False
        for s in doc["shapes"]:
            if not isinstance(s, dict):
                raise LeftOut("a shape is no object")
            kind, points, label = s.get("shape_type") or "polygon", s.get("points"), str(s.get("label"))
            if s.get("label") is None or not clean_name(label):
                raise LeftOut("a shape has no label")
            ink = NO_LABEL if label.lower() in VOID else self.job.classes.number.get(clean_name(label))
            if ink is None:
                raise LeftOut("a shape has a label that --classes has not; add it there, or leave --classes out")
            if kind in ("rectangle", "rotation", "oriented_rectangle") and isinstance(points, list):
                kind = "polygon" if len(points) == 4 else kind  # its corners
            if kind not in ("polygon", "rectangle", "circle", "mask"):
                self.job.note(f"shapes that are no area ({shown(kind)}), not drawn", where)
                continue
            try:
                xy = [(float(x), float(y)) for x, y in points]
                if not all(math.isfinite(c) and abs(c) < 1e6 for q in xy for c in q):
                    raise ValueError
            except (TypeError, ValueError):
                raise LeftOut("a shape has coordinates that are no places") from None
            if len(xy) < {"polygon": 3, "mask": 1}.get(kind, 2) or kind in ("circle", "rectangle") and len(xy) != 2:
                self.job.note(f"shapes with too few points for a {kind}, not drawn", where)
                continue
            layer = Image.new("L", (w, h))
            pen = ImageDraw.Draw(layer)
            if kind == "circle":
                (cx, cy), (px, py) = xy
                r = math.hypot(cx - px, cy - py)
                pen.ellipse([cx - r, cy - r, cx + r, cy + r], outline=1, fill=1)
            elif kind == "rectangle":
                (x0, y0), (x1, y1) = xy
                pen.rectangle([min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)], outline=1, fill=1)
            elif kind == "mask":
                layer.paste(1, tuple(map(int, xy[0])), self.stencil(s.get("mask")))
            else:
                pen.polygon(xy, outline=1, fill=1)
            on = np.asarray(layer).astype(bool)
            overlap = overlap or bool((on & (before != self.ground) & (before != ink)).any())
            before[on] = ink
            drawn += 1
        if overlap:
            self.job.note("images where shapes of two classes overlap: the later in the file is on top", where)
        if not drawn:
            self.job.note("images in which nothing is drawn", where)
        return data, before

    def summary(self):
        return {"documents": sum(map(len, self.parts.values()))}


# ---- YOLO ----
def yaml_names(text, where):
    """`names` of data.yaml: [a, b], lines `- a`, or lines `0: a`."""

    def plain(s):
        s = s.strip()
        quoted = re.match(r"(['\"])(.*?)\1", s)
        return quoted[2] if quoted else re.sub(r"\s+#.*$", "", s).strip()

    m = re.search(r"^names[ \t]*:[ \t]*(.*)$", text, re.M)
    if not m:
        return None
    rest = re.sub(r"^#.*", "", m[1]).strip()
    flow = re.match(r"[\[{]", rest)
    if flow:
        whole = text[m.start(1) :]
        end = whole.find("]" if flow[0] == "[" else "}")
        if end < 0:
            raise Refused(f"{where}: names has no closing bracket; --classes FILE names the classes, one on each line")
        items = re.findall(r"(?:'[^']*'|\"[^\"]*\"|[^,\s'\"][^,]*)", whole[1:end])
        if flow[0] == "[":
            return [plain(i) for i in items]
        pairs = [re.match(r"\s*['\"]?(\d+)['\"]?\s*:\s*(.*)", i) for i in items]
    else:
        pairs, listed = [], []
        for line in text[m.end() :].splitlines():
            if not line.strip() or line.strip().startswith("#"):
                continue
            number, item = re.match(r"\s+['\"]?(\d+)['\"]?\s*:\s*(.*)", line), re.match(r"\s*-\s+(.*)", line)
            if number:
                pairs.append(number)
            elif item:
                listed.append(plain(item[1]))
            else:
                break
        if listed:
            return listed
    if not pairs or None in pairs or sorted(int(p[1]) for p in pairs) != list(range(len(pairs))):
        raise Refused(
            f"{where}: names is no list, and no numbers from 0 on with names (0, 1, 2, ...); --classes FILE names the "
            "classes, one on each line"
        )
    return [plain(p[2]) for p in sorted(pairs, key=lambda p: int(p[1]))]


def yaml_ways(text):
    """(part, folder or list) of `train`, `val` and `test` in data.yaml, without what leads out of its folder."""
    out = []
    for part, value in re.findall(r"^(train|val|test)[ \t]*:[ \t]*([^\s#\[{].*?)[ \t]*(?:#.*)?$", text, re.M):
        out.append((part, without_way(value.strip("'\""))))
    return out


def without_way(path):
    """A path without what leads to its folder from elsewhere."""
    return "/".join(p for p in posixpath.normpath(path.replace("\\", "/")).split("/") if p not in ("..", ".", ""))


def part_in(ways, lists, path):
    """The part that data.yaml puts an image in; None: it does not say."""
    for listed, part in lists.get(posixpath.basename(path), ()):
        if is_tail(path, listed) or is_tail(listed, path):
            return part
    return next((part for part, value in ways if value and ("/" + path).startswith("/" + value + "/")), None)


def is_tail(end, path):
    return ("/" + path).endswith("/" + end)


class Yolo(Drawn):
    """labels/PART/NAME.txt beside images/PART/NAME.jpg, or PART/labels beside PART/images; a line: a class, points."""

    kind = "yolo"

    def __init__(self, job, trees):
        demand("YOLO's polygons", ("numpy", "numpy"))
        self.job, self.parts, names, ways = job, {}, job.classes.names if job.classes else None, {}
        for tree in trees:
            for p in sorted(tree.files, key=lambda p: (p.count("/"), p)):
                if p.lower().endswith((".yaml", ".yml")):
                    text = text_of(tree.document(p), shown(p))
                    names = self.named(names, text, p)
                    ways = ways or yaml_ways(text)
                    same = [v for i, (_, v) in enumerate(ways) if v in [w for _, w in ways[:i]]]
                    if same:
                        job.say(f"{shown(p)} names {shown(same[0])} for two parts; its images are in the first alone")
            for p in sorted(tree.files):
                if names is None and posixpath.basename(p) in ("classes.txt", "obj.names"):
                    lines = text_of(tree.document(p), shown(p)).splitlines()
                    names = [s.strip() for s in lines if s.strip()] or None
                    if names:
                        job.say(f"the classes are those of {shown(p)}")
            lists = self.lists(tree, ways)
            pictures = {posixpath.splitext(p)[0]: p for p in tree.files if is_picture(p)}
            for stem, p in sorted(pictures.items()):
                at = re.sub(r"(^|/)images(?=/|$)(?!.*/images(/|$))", r"\1labels", stem) + ".txt"
                part = part_in(ways, lists, p) or part_of(posixpath.dirname(p)) or part_of(os.path.basename(tree.path))
                self.parts.setdefault(part, []).append((tree, p, at if at in tree.files else None))
        if names is None:
            raise Refused(
                f"{some(t.path for t in trees)}: no data.yaml names the classes; --classes FILE has a name on each line"
            )
        if not any(at for part in self.parts.values() for _, _, at in part):
            raise Refused(
                f"{some(t.path for t in trees)}: no image has a text file in labels/ (images/a.jpg, labels/a.txt)"
            )
        if not names:
            raise Refused("names of data.yaml is an empty list; --classes FILE names the classes, one on each line")
        self.n = len(names)
        self.boxes = self.polygons = 0
        self.background(names, job.say)
        self.numbers = [self.job.classes.number[clean_name(n) or f"class {i}"] for i, n in enumerate(names)]

    def items(self, part):
        for tree, p, at in self.parts[part]:
            yield posixpath.splitext(p)[0], p, tree, at

    def place(self, where):
        return where

    def named(self, names, text, p):
        """The classes of data.yaml, unless they are known."""
        if names is not None:
            return names
        names = yaml_names(text, shown(p))
        if names is not None:
            self.job.say(f"the classes are those of {shown(p)}")
            n = re.search(r"^nc[ \t]*:[ \t]*(\d+)", text, re.M)
            if n and int(n[1]) != len(names):
                self.job.say(f"{shown(p)} says nc: {n[1]}, and names has {len(names)}, which are taken")
        return names

    @staticmethod
    def lists(tree, ways):
        """{ name of an image: its (path, part) } of the text files that data.yaml names."""
        out = {}
        for part, value in ways:
            if value.endswith(".txt"):
                for p in (p for p in tree.files if ("/" + p).endswith("/" + value)):
                    for line in text_of(tree.document(p), shown(p)).splitlines():
                        path = without_way(line.strip())
                        out.setdefault(posixpath.basename(path), []).append((path, part))
        return out

    @staticmethod
    def lines(tree, at):
        try:
            return text_of(tree.read(at), shown(at)).splitlines()
        except Refused:
            raise LeftOut("the text file is no text in UTF-8") from None

    def numbers_of(self, words):
        """The class of a line, and its coordinates: of a box four, of a polygon six and more."""
        try:
            label, v = int(float(words[0])), [float(x) for x in words[1:]]
        except (ValueError, OverflowError):
            if any("," in w for w in words):
                raise LeftOut("a line has commas; it has to be numbers such as 0.5, with blanks between them") from None
            raise LeftOut("a line is no numbers: the number of a class, x, y, x, y, ...") from None
        if not 0 <= label < self.n or label != float(words[0]):
            raise LeftOut(f"a line has a class that is none of the {self.n} (0 to {self.n - 1})")
        if len(v) < 4 or len(v) != 4 and len(v) < 6 or len(v) % 2:
            raise LeftOut("a line has no class and pairs of x and y, at least three")
        if not all(-0.01 <= x <= 1.01 for x in v):
            raise LeftOut("a line has coordinates outside of 0 to 1; they are fractions of width and height, no pixels")
        return label, v

    def sample(self, where, tree, at):
        import numpy as np

        data = tree.read(where)
        _, w, h = head(data)
        layers = []
        if at is None:
            self.job.note("images without a text file: all background", where)
        for number, line in enumerate(self.lines(tree, at) if at else (), 1):
            words = line.split()
            if not words:
                continue
            try:
                label, v = self.numbers_of(words)
            except LeftOut as why:
                why.at = f"line {number} of {shown(posixpath.basename(at))}"
                raise
            if len(v) == 4:
                self.boxes += 1
                self.job.note("lines with a box instead of a polygon, not drawn", at)
                continue
            self.polygons += 1
            pixels = fill([c for x, y in zip(v[::2], v[1::2]) for c in (x * w, y * h)], w, h)
            if not np.count_nonzero(pixels):
                self.job.note("polygons that cover no pixel's centre", at)
            layers.append((pixels, self.numbers[label]))
        mask = self.canvas(w, h)
        paint(mask, layers, self.job, where)
        return data, mask

    def end(self):
        if self.boxes and not self.polygons:
            raise Refused(
                f"all {self.boxes} lines of the text files are boxes, as of a detector; polygons have 3 and more "
                "points, and "
                "boxes are no masks"
            )

    def summary(self):
        return {"polygons": self.polygons}


# ---- CVAT ----
class Cvat(Drawn):
    """CVAT for images 1.1: an XML file with polygons and run lengths of all images, drawn in their z_order."""

    kind = "cvat"

    def __init__(self, job, sources):
        demand("CVAT's polygons", ("numpy", "numpy"))
        self.job, self.parts, names, listed = job, {}, [], False
        for s in sources:
            one = s if isinstance(s, str) else None
            tree = job.tree(os.path.dirname(os.path.abspath(one))) if one else s
            images = job.tree(job.opt.images) if job.opt.images else tree
            documents = [os.path.basename(one)] if one else [p for p in tree.files if p.lower().endswith(".xml")]
            for p in documents:
                root = self.document(tree.document(p), shown(p))
                if root is None:
                    job.leave("an XML file that is not of CVAT", p)
                    continue
                known = [
                    e.text.strip() for e in root.iterfind("./meta//labels/label/name") if e.text and e.text.strip()
                ]
                names, listed = names + known, listed or bool(known)
                for image in root.iterfind("image"):
                    if not listed:
                        names += sorted({e.get("label", "") for e in image})
                    part = (
                        part_of(image.get("subset", ""))
                        or part_of(posixpath.basename(p))
                        or part_of(posixpath.dirname(image.get("name", "")))
                    )
                    self.parts.setdefault(part, []).append((images, image.get("name", ""), image))
        if not self.parts:
            raise Refused("no XML file has images, as CVAT for images 1.1 has them")
        seen = set()
        for part in self.parts.values():
            for _, name, _ in part:
                if name in seen:
                    raise Refused(f"two images of CVAT have the name {shown(name)}; correct the file")
                seen.add(name)
        self.background(job.classes.names if job.classes else [n for n in names if n.lower() not in VOID], job.say)

    @staticmethod
    def document(data, where):
        from xml.etree import ElementTree

        if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
            raise Refused(f"{where} declares entities, which CVAT does not write")
        try:
            root = ElementTree.fromstring(data)
        except (ElementTree.ParseError, ValueError, LookupError) as why:
            raise Refused(f"{where}: no whole XML document: {shown(why)}") from None
        return root if root.tag == "annotations" and root.find("image") is not None else None

    def items(self, part):
        for tree, name, image in self.parts[part]:
            yield posixpath.splitext(name.replace("\\", "/").lstrip("/"))[0], name, tree, image

    def place(self, where):
        return where

    def sample(self, where, tree, image):
        path = next((p for p in (inside("", where), inside("images", where)) if p in tree.files), None)
        same = [path] if path else tree.by_name(posixpath.basename(where))
        if len(same) != 1:
            raise LeftOut("an image file that is not there (--images DIR or ZIP says where images lie)")
        data = tree.read(same[0])
        _, w, h = head(data)
        if (image.get("width", str(w)), image.get("height", str(h))) != (str(w), str(h)):
            raise LeftOut("the XML file says another size than the image has")
        mask = self.canvas(w, h)
        try:
            shapes = sorted(image, key=lambda e: int(e.get("z_order", 0)))
            for e in shapes:
                label = e.get("label", "")
                ink = NO_LABEL if label.lower() in VOID else self.job.classes.number.get(clean_name(label))
                if ink is None:
                    raise LeftOut("a shape has a label that is none of the classes")
                if e.tag == "polygon":
                    on = fill([float(c) for p in e.get("points", "").split(";") for c in p.split(",")], w, h)
                elif e.tag == "mask":
                    on = self.runs(e, w, h)
                elif e.tag == "tag":
                    continue
                else:
                    self.job.note(f"shapes that are no area ({shown(e.tag)}), not drawn", where)
                    continue
                if not on.any():
                    self.job.note("shapes that cover no pixel's centre", where)
                mask[on.astype(bool)] = ink
        except ValueError:
            raise LeftOut("a shape has coordinates that are no numbers") from None
        return data, mask

    @staticmethod
    def runs(e, w, h):
        """Run lengths by rows of a box, of 0 first."""
        import numpy as np

        counts = [int(c) for c in e.get("rle", "").split(",")]
        left, top, bw, bh = (int(float(e.get(k, "-1"))) for k in ("left", "top", "width", "height"))
        if (
            min(counts) < 0
            or sum(counts) > bw * bh
            or min(left, top) < 0
            or bw < 1
            or bh < 1
            or left + bw > w
            or top + bh > h
        ):
            raise LeftOut("run lengths do not fit into the image")
        on = np.zeros((h, w), np.uint8)
        box = np.zeros(bw * bh, np.uint8)
        box[: sum(counts)] = np.repeat(np.arange(len(counts)) & 1, counts)
        on[top : top + bh, left : left + bw] = box.reshape(bh, bw)
        return on

    def summary(self):
        return {"images": sum(map(len, self.parts.values()))}
