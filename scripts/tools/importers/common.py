# SPDX-License-Identifier: MIT
"""What all importers share: errors, what is left out and why, parts, names of classes, tables of ids."""

import importlib
import json
import os
import re

PROGRAM = "spcore_import.py"
NO_LABEL = 255
MOST_CLASSES = 255  # of masks
MOST_JSON = 4 << 30
PARTS = {
    "train": ("train", "training", "trn"),
    "val": ("val", "valid", "validation", "dev", "eval"),
    "test": ("test", "testing", "tst"),
}
VOID = ("void", "-", "ignore", "__ignore__", "unlabeled", "unlabelled")
CITYSCAPES = (
    (7, "road"),
    (8, "sidewalk"),
    (11, "building"),
    (12, "wall"),
    (13, "fence"),
    (17, "pole"),
    (19, "traffic light"),
    (20, "traffic sign"),
    (21, "vegetation"),
    (22, "terrain"),
    (23, "sky"),
    (24, "person"),
    (25, "rider"),
    (26, "car"),
    (27, "truck"),
    (28, "bus"),
    (31, "train"),
    (32, "motorcycle"),
    (33, "bicycle"),
)


class Refused(Exception):
    """The import cannot go on: what it is, where, and the cure."""


class LeftOut(Exception):
    """One sample cannot be taken. The reason is the same text for all samples of its kind; `at` is the place in the
    sample's document."""

    at = ""


def shown(name):
    """A name from a file, as one line without control characters."""
    text = name.decode(errors="backslashreplace") if isinstance(name, bytes) else str(name)
    text = "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)
    return text if len(text) <= 200 else text[:200] + "..."


def some(names, most=5):
    names = [shown(n) for n in names]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def counted(n, one, many=None):
    return f"{n} {one if n == 1 else many or one + 's'}"


def demand(what, *packages):
    """Imports packages, (module, name of the package), or says which is missing."""
    for name, package in packages:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as why:
            if why.name != name:
                raise Refused(f"the Python package {package} cannot be imported: {shown(why)}") from None
            raise Refused(
                f"{what} needs the Python package {package}, which is missing: python3 -m pip install {package}"
            ) from None
        except ImportError as why:
            raise Refused(f"the Python package {package} cannot be imported: {shown(why)}") from None


def text_of(data, where):
    """Text in UTF-8 or, with its mark, UTF-16; without the mark."""
    try:
        return data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError as why:
        raise Refused(f"{where}: byte {why.start} is no text in UTF-8; save the file as UTF-8") from None


def load_json(data, where):
    """The document in these bytes."""
    text = text_of(data, where)
    try:
        return json.loads(text)
    except RecursionError:
        raise Refused(f"{where}: JSON is nested too deep to be annotations") from None
    except ValueError as why:
        raise Refused(f"{where}: no whole JSON document: {shown(why)}; correct the file, or get it again") from None


# ---- parts ----
def part_of(path):
    """The part that a path names, in its last component that names one; "": none does."""
    for name in reversed(path.replace("\\", "/").split("/")):
        words = set(re.split(r"[^a-z]+", name.lower()))
        found = [part for part, known in PARTS.items() if words & set(known)]
        if found:
            return "+".join(found)
    return ""


def settle_parts(found, opt, say):
    """{ part of the source: name of its shards, or None where it is left out }; found: { part: its first file }"""
    names = list(found)
    given = {}
    for text in opt.part:
        name, eq, to = text.partition("=")
        if not eq or to not in ("train", "val", "no"):
            raise Refused(f"--part {shown(text)}: NAME=train, NAME=val or NAME=no is wanted")
        given[name] = None if to == "no" else to
    unknown = [n for n in [*given, *([opt.only] if opt.only else [])] if n not in names]
    if unknown:
        raise Refused(
            f"there is no part '{shown(unknown[0])}'; there are: {some(n or '(without a name)' for n in names)}"
        )
    if opt.only:
        rest = [n for n in names if n != opt.only]
        if rest:
            say(f"left out: part {some(rest)}, as --only {opt.only} asks")
        return {n: "data" if n == opt.only else None for n in names}
    if len(names) == 1 and not given:
        return {names[0]: names[0] if names[0] in ("train", "val") else "data"}
    out = {}
    for n in names:
        if n in given:
            out[n] = given[n]
        elif n in ("train", "val"):
            out[n] = n
        elif n == "test" and ("val" in names or "val" in given.values()):
            out[n] = None
            say(
                "left out: part test, as shards have train and val; --only test imports it alone, --part test=val as "
                "validation"
            )
        elif n == "test" and "train" in names:
            out[n] = "val"
            say("part test is for validation, as there is no other part for that; --part test=no leaves it out")
        else:
            raise Refused(
                f"{shown(found[n])} belongs to {'the part ' + repr(n) if n else 'no part by its name'}, beside "
                f"{some(x for x in names if x and x != n)}: is it for training (--part {n}=train), for validation "
                f"(--part {n}=val), or left out (--part {n}=no)?"
            )
    if not any(out.values()):
        raise Refused(f"all parts are left out; --part {names[0]}=train takes one of them")
    return out


# ---- classes ----
def clean_name(name):
    """A name as a line of classes.txt that is read as this name: one line, no colour at its end, at most 200 bytes."""
    text = " ".join("".join(c if c.isprintable() else " " for c in str(name)).split())
    text = text.encode("utf-8", "replace")[:200].decode("utf-8", "ignore").rstrip()
    text = re.sub(r" (?=#[0-9A-Fa-f]{6}$)", "_", text)
    if re.search(r"(^| )\d{1,3} \d{1,3} \d{1,3}$", text) and len(text.split()) > 3:
        text = re.sub(r" (?=\d{1,3}$)", "_", text)
    return text


class Classes:
    """Names of classes in order, and what a number or a name of the source becomes."""

    def __init__(self, names, lines=None, say=None):
        self.names, seen = [], {}
        for i, n in enumerate(names):
            clean = clean_name(n) or f"class {i}"
            if clean != str(n) and say:
                say(f"the class {shown(repr(n))} is called '{clean}', as a line of classes.txt has to be")
            if clean in seen:
                raise Refused(f"two classes are called '{clean}': numbers {seen[clean]} and {i}")
            seen[clean] = i
            self.names.append(clean)
        self.lines = lines or self.names
        self.number = {n: i for i, n in enumerate(self.names)}


def given_classes(opt):
    """--classes FILE, or a number: classes called 0, 1, ..."""
    if opt.classes is None:
        return None
    if re.fullmatch(r"\d{1,7}", opt.classes) and not os.path.exists(opt.classes):
        n = int(opt.classes)
        if not 0 < n <= 1000000:
            raise Refused(f"--classes {n}: 1 to 1000000 is possible")
        return Classes([str(i) for i in range(n)])
    try:
        with open(opt.classes, encoding="utf-8-sig") as f:
            lines = [line.strip() for line in f.read(1 << 24).splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as why:
        raise Refused(
            f"--classes {shown(opt.classes)}: {shown(getattr(why, 'strerror', None) or why)}; a text file with a name "
            "on "
            "each line is wanted, or how many classes there are"
        ) from None
    colour = re.compile(r"(?<=\S)\s+(#[0-9A-Fa-f]{6}|\d{1,3}\s+\d{1,3}\s+\d{1,3})$")
    kept = [line for line in lines if not (colour.search(line) and colour.sub("", line) == "void")]
    if not kept:
        raise Refused(f"--classes {shown(opt.classes)}: it names no class")
    return Classes([colour.sub("", line) for line in kept], lines)


class Table:
    """Ids of masks become classes: what --map says."""

    def __init__(self, rows, classes=None):
        """rows: (first id, last id, name); an id of None is any other."""
        names = [] if classes is None else classes.names
        for _, _, name in rows:
            if name.lower() not in VOID and clean_name(name) not in names:
                if classes is not None:
                    raise Refused(
                        f"the map names the class '{shown(name)}', which --classes has not; add it there, or leave "
                        "--classes out"
                    )
                names.append(clean_name(name))
        self.classes = classes or Classes(names)
        self.rows = [
            (a, b, NO_LABEL if name.lower() in VOID else self.classes.number[clean_name(name)]) for a, b, name in rows
        ]
        self.other = next((label for a, _, label in self.rows if a is None), None)
        spans = sorted((a, b) for a, b, _ in self.rows if a is not None)
        for (_, end), (begin, _) in zip(spans, spans[1:]):
            if begin <= end:
                raise Refused(f"the map has id {begin} twice")

    def label(self, i):
        for a, b, label in self.rows:
            if a is not None and a <= i <= b:
                return label
        return self.other

    def apply(self, ids):
        import numpy as np

        values, at = np.unique(ids, return_inverse=True)
        labels = [self.label(int(v)) for v in values]
        if None in labels:
            raise LeftOut("the mask has an id that the map has not, such as " + str(int(values[labels.index(None)])))
        return np.array(labels, np.uint8)[at].reshape(ids.shape)


def table_rows(text, where):
    """`7 road`, `24000..24999 person`, `255 void`, `* void`; or with `=` or a comma between."""
    rows = []
    for number, line in enumerate(re.split(r"[\n;]" if "\n" in text or ";" in text else r"[\n,]", text), 1):
        line = line.strip()
        m = re.fullmatch(r"(?:(\d{1,9})(?:\.\.(\d{1,9}))?|\*)\s*[=,:\s]\s*(\S.*)", line)
        if m:
            a = None if m[1] is None else int(m[1])
            rows.append((a, int(m[2]) if m[2] else a, m[3].strip().strip('"')))
        elif line and not (number == 1 and re.match(r"\W*(id|value|index)\W", line, re.I)):
            raise Refused(
                f"{where} line {number}: {shown(line)}: ID NAME is wanted, such as `7 road`, `24000..24999 person` or "
                "`* void`"
            )
    return rows


def object_rows(doc, where):
    """A JSON object of ids and names."""
    if not isinstance(doc, dict) or not all(re.fullmatch(r"\d{1,9}", k) and isinstance(v, str) for k, v in doc.items()):
        raise Refused(f'{where}: an object of ids and names is wanted, such as {{"1": "cat"}}')
    return [(int(k), int(k), v) for k, v in doc.items()]


def given_map(opt, classes):
    """--map: a table for all masks, or a function of a mask's name that gives its own; None: there is none."""
    if opt.map is None:
        return None
    if opt.map == "cityscapes":
        rows = [(i, i, n) for i, n in CITYSCAPES] + [(i * 1000, i * 1000 + 999, n) for i, n in CITYSCAPES if i >= 24]
        return Table(rows + [(None, None, "void")])
    if opt.map == "ade20k":
        if classes is None:
            raise Refused(
                "--map ade20k makes ids 1, 2, ... the classes 0, 1, ...: --classes FILE says their names, or how many "
                "there are (--classes 150)"
            )
        return Table([(0, 0, "void")] + [(i + 1, i + 1, n) for i, n in enumerate(classes.names)], classes)
    if "=" in opt.map and not os.path.exists(opt.map):
        return Table(table_rows(opt.map, "--map"), classes)
    try:
        with open(opt.map, "rb") as f:
            data = f.read(1 << 26)
    except OSError as why:
        raise Refused(
            f"--map {shown(opt.map)}: {why.strerror}; a file, `0=ground,255=road`, cityscapes or ade20k is wanted"
        ) from None
    if not opt.map.lower().endswith(".json"):
        return Table(table_rows(data.decode("utf-8-sig", "replace"), shown(opt.map)), classes)
    doc = load_json(data, shown(opt.map))
    if isinstance(doc, dict) and doc and all(isinstance(v, dict) for v in doc.values()):
        rows = {name: object_rows(ids, f"{shown(opt.map)}: {shown(name)}") for name, ids in doc.items()}
        return by_image(rows, classes, shown(opt.map))
    return Table(object_rows(doc, shown(opt.map)), classes)


def by_image(rows, classes, where):
    """Instance masks: the ids of each have names of their own. Names are sorted, as no order is that of all masks."""
    names = sorted({clean_name(n) for r in rows.values() for _, _, n in r if n.lower() not in VOID})
    classes = classes or Classes(names)

    def table(path):
        found = [
            rows[n] for n in (path, os.path.basename(path), os.path.splitext(os.path.basename(path))[0]) if n in rows
        ]
        if not found:
            raise LeftOut(f"{where} has no ids for the mask")
        ids = list(found[0])
        return Table(ids if any(a == 0 for a, _, _ in ids) else ids + [(0, 0, "void")], classes)

    table.classes = classes
    return table
