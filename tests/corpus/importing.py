# SPDX-License-Identifier: MIT
"""What cases of scripts/tools/spcore_import.py share: it runs in this process, and `spcore data` reads what it has
written without a word. Cases that need a package of Python that is not there are left out, as the first line says."""

import importlib
import io
import json
import os
import sys
import tarfile
import zipfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import kit  # noqa: E402
from kit import Image, case, np  # noqa: E402

TOOL = os.path.join(
    os.environ.get("top_srcdir", os.path.dirname(os.path.abspath(__file__)) + "/../.."),
    "scripts/tools/spcore_import.py",
)
sys.path.insert(0, os.path.dirname(TOOL))
import spcore_import  # noqa: E402
from importers import tfrecord  # noqa: E402,F401

missing = set()


def needs(package):
    """Leaves a case out where the package is not there."""

    def f(case_):
        try:
            importlib.import_module(package)
        except ImportError:
            missing.add(package)
            return case_
        return case(case_)

    return f


class Imported:
    def __init__(self, c, line, status, lines):
        self.c, self.line, self.status, self.text = c, line, status, "\n".join(lines).replace(c.folder + "/", "")

    def __str__(self):
        return f"$ spcore_import.py {self.line}\n{self.text}\n(status {self.status})\n"

    def report(self, out="out"):
        return json.loads(self.c.read(f"{out}/.import.json"))


def imports(c, line, status=0, says=(), lacks=(), force=True):
    """Runs the tool. A word with `@` in front is a path of the case; without -o it writes `out`, anew."""
    words = [
        w.replace("@", c.folder + "/", 1) if isinstance(w, str) else w
        for w in (line.split() if isinstance(line, str) else line)
    ]
    lines = []
    got = spcore_import.main(
        words + (["-o", c.folder + "/out"] + ["--force"] * force if "-o" not in words else []), lines.append
    )
    if got:
        lines.append(got)
    r = Imported(c, line, int(bool(got)), lines)
    c.log.append(r)
    assert r.status == status, f"status {status} is expected\n{r}"
    for word in [says] if isinstance(says, str) else says:
        assert word in r.text, f"lacks '{word}'\n{r}"
    for word in [lacks] if isinstance(lacks, str) else lacks:
        assert word not in r.text, f"says '{word}'\n{r}"
    if status:
        assert got.count("\n") == 0, f"an error is one line\n{r}"
        assert not os.path.exists(c.folder + "/out.importing"), "the half import stays"
    else:
        assert all(ch.isprintable() for ch in r.text.replace("\n", "")), f"control characters\n{r}"
    return r


def cures(c, line, says, *typed):
    """The message, and each cure: words that are added to the command, or (words of it, others for them)."""
    r = imports(c, line, 1, says)
    for cure in typed:
        imports(c, line.replace(*cure) if isinstance(cure, tuple) else f"{line} {cure}", lacks=says)
    return r


def members(c, part="train", out="out"):
    """{ member: bytes } of all shards of a part, in order."""
    found = {}
    for name in sorted(os.listdir(f"{c.folder}/{out}")):
        if name.startswith(part + "-"):
            with tarfile.open(f"{c.folder}/{out}/{name}") as t:
                for m in t:
                    assert (m.mtime, m.uid, m.uname, m.isfile()) == (0, 0, "", True)
                    found[m.name] = t.extractfile(m).read()
    return found


def reads(c, target, train, val=None, out="out"):
    """The reader takes what was written, and has nothing to say about it."""
    r = c.run(f"data {out} --check --target {target} --json")
    doc = json.loads(r.out)
    n = doc["samples"]
    assert (n["train"], n["val"]) == (train, val) if val is not None else n["train"] + n["val"] == train, f"{n}\n{r}"
    words = [line for line in r.err.splitlines() if "small" not in line]
    assert not words and not doc["left_out"], f"the reader says something\n{r}"
    return doc


def mask_at(c, key, part="train", out="out"):
    return np.asarray(Image.open(io.BytesIO(members(c, part, out)[key + ".seg.png"])))


def encoded(a, form="PNG", **how):
    b = io.BytesIO()
    (a if isinstance(a, Image.Image) else Image.fromarray(a)).save(b, form, **how)
    return b.getvalue()


def pictures(c, n, size=8):
    return [encoded(c.picture(size, size)) for _ in range(n)]


def zipped(c, path, items, **how):
    with zipfile.ZipFile(c.path(path), "w", zipfile.ZIP_DEFLATED) as z:
        for name, data in items:
            z.writestr(name, data)


def main():
    if missing:
        names = sorted(missing)
        print(f"left out: cases that need {', '.join(names)} (python3 -m pip install {' '.join(names)})")
    kit.main()
