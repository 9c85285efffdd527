# SPDX-License-Identifier: MIT
"""What an import has found out so far: sources, what is said and left out, labels, keys."""
import os

from .common import MOST_CLASSES, LeftOut, Refused, clean_name, given_classes, given_map, shown
from .tree import tree_of

FIRST = 5  # names that a count of what is left out has


class Job:
    """What an import has found out so far."""

    def __init__(self, opt, say):
        self.opt, self.say = opt, say
        self.classes, self.table, self.extra = given_classes(opt), None, {}
        self.left, self.notes, self.files, self.trees = {}, {}, [], {}
        self.words, self.pairs, self.keys = {}, {}, set()

    # -- sources --
    def file(self, path):
        if path not in self.files:
            self.files.append(path)

    def tree(self, path):
        path = os.path.abspath(path)
        if path not in self.trees:
            self.trees[path] = tree_of(path, self)
        return self.trees[path]

    @staticmethod
    def beside(folder, path):
        """The image that a table has the path of."""
        full = os.path.realpath(os.path.join(folder, path))
        if not full.startswith(os.path.realpath(folder) + os.sep) or not os.path.isfile(full):
            raise LeftOut("a path instead of the image's bytes, and no such file lies beside the table")
        with open(full, "rb") as f:
            return f.read()

    # -- what is said --
    @staticmethod
    def count(to, what, where):
        n, first = to.setdefault(what, [0, []])
        to[what][0] += 1
        if len(first) < FIRST:
            first.append(shown(where))

    def leave(self, reason, where):
        self.count(self.left, reason, where)

    def note(self, what, where):
        self.count(self.notes, what, where)

    def damaged(self, what):
        if not self.opt.skip_damaged:
            raise Refused(f"{what}; get the file again, or take what is in front of the damage (--skip-damaged)")
        self.leave("the rest of a damaged file", what)

    # -- labels --
    def label(self, value):
        """The name of a label's class."""
        if value is None:
            raise LeftOut("there is no label")
        if isinstance(value, float):
            if value != value:
                raise LeftOut("there is no label")  # NaN, as pandas writes it among numbers
            if not value.is_integer():
                raise LeftOut("the label is a number with a fraction")
            value = int(value)
        if isinstance(value, int):
            if value < 0:
                raise LeftOut("the label is negative, which is said where there is none")
            if self.classes is None:
                raise LeftOut("the label is a number and others are names")
            if value >= len(self.classes.names):
                raise LeftOut(
                    f"the label is {value}, and there are {len(self.classes.names)} classes (0 to "
                    f"{len(self.classes.names) - 1})"
                )
            return self.classes.names[value]
        if not isinstance(value, str):
            raise LeftOut("the label is neither a number nor a text")
        name = clean_name(value)
        if not name:
            raise LeftOut("the label is an empty text")
        if self.classes is not None:
            if name not in self.classes.number:
                raise LeftOut(
                    "the label is a name that --classes has not; add it there, or leave --classes out"
                    if self.opt.classes
                    else "the label is a name of no class"
                )
        elif self.words.setdefault(name, value) != value:
            raise Refused(
                f"the labels {shown(repr(self.words[name]))} and {shown(repr(value))} would be one line of classes.txt"
            )
        return name

    def label_pair(self, number, name):
        name = clean_name(name)
        if not name or self.pairs.setdefault(number, name) != name:
            raise LeftOut("the number of a class has two names, or none")
        return name

    def mask_classes(self):
        """Masks want classes in advance."""
        if self.table is None and self.opt.map and self.classes is None or self.opt.map and self.table is None:
            self.table = given_map(self.opt, self.classes)
            self.classes = self.table.classes
        if self.classes is None:
            raise Refused(
                "masks have numbers without names: --classes FILE has a name on each line, --classes N says how many "
                "there are, "
                "or --map FILE (cityscapes, ade20k) has the class of each id"
            )
        if len(self.classes.names) > MOST_CLASSES:
            raise Refused(f"there are {len(self.classes.names)} classes; masks may have {MOST_CLASSES}")

    def key(self, key):
        """A name that is one sample's alone, without a dot in its last part."""
        parts = [p for p in key.split("/") if p not in ("", ".")] or ["_"]
        parts = ["".join(c if c.isprintable() else "_" for c in p) for p in parts]
        parts = ["_" + p if p == ".." or p[0] == "." else p for p in parts]
        parts[-1] = parts[-1].replace(".", "_")
        key = base = "/".join(parts)[-1000:].lstrip("/")
        n = 1
        while key in self.keys:
            n += 1
            key = f"{base}_{n}"
        self.keys.add(key)
        return key
