# SPDX-License-Identifier: MIT
"""Which kind a source is, by its content."""
import collections
import importlib.util
import os
import re

from . import folders, listed, tfrecord, tree
from .common import Refused, shown, some

KINDS = (
    "parquet",
    "arrow",
    "tfrecord",
    "lmdb",
    "coco",
    "panoptic",
    "labelme",
    "yolo",
    "cvat",
    "listed",
    "masks",
    "classes",
    "zip",
)


def kind_of(path, job):
    if not os.path.exists(path):
        raise Refused(f"{shown(path)}: there is no such file or folder")
    if os.path.isdir(path):
        return kind_of_tree(job.tree(path), path, True)
    if not os.path.isfile(path):
        raise Refused(f"{shown(path)}: neither a file nor a folder")
    with open(path, "rb") as f:
        head = f.read(1 << 16)
    if not head:
        raise Refused(f"{shown(path)} is empty")
    if head[:4] == b"PAR1":
        return "parquet"
    if head[:6] == b"ARROW1" or head[:4] == b"\xff\xff\xff\xff":
        return "arrow"
    if tree.is_zip(path):
        return kind_of_tree(job.tree(path), path, False)
    if head[16:20] in (b"\xde\xc0\xef\xbe", b"\xbe\xef\xc0\xde"):
        return "lmdb"
    if head[:11] == b"version htt":
        raise Refused(f"{shown(path)} is a Git LFS pointer, not the file: `git lfs pull` brings it")
    if head[257:262] == b"ustar" or re.search(r"\.(tar|tgz|tar\.\w+|csv|npy)$", path.lower()):
        raise Refused(
            f"{shown(path)}: spcore reads tar files, CSV and NumPy's arrays itself: `spcore data` says how it takes "
            "them"
        )
    if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05") or path.endswith((".pkl", ".pickle")):
        raise Refused(
            f"{shown(path)} is a pickle of Python, which is never loaded, as it may run anything; export it as Parquet"
        )
    if head[:8] == b"\x89HDF\r\n\x1a\n":
        raise Refused(
            f"{shown(path)} is HDF5, which has no layout for images that is known; export it as Parquet or as files"
        )
    if head.lstrip(b"\xef\xbb\xbf\xff\xfe\0 \t\r\n")[:1] == b"{":
        kind = kind_of_json(head)
        if kind:
            return kind
        raise Refused(f"{shown(path)}: JSON that is neither of COCO nor of LabelMe")
    if b"<annotations>" in head[:4096]:
        return "cvat"
    if importlib.util.find_spec("numpy") and tfrecord.is_records(path):
        return "tfrecord"
    if re.search(r"\.tfrec|-of-\d+(\.gz)?$", path):
        return "tfrecord"
    raise Refused(f"{shown(path)}: of no kind that is known here; --from KIND forces one of {', '.join(KINDS)}")


def is_row(head):
    """A line of YOLO: numbers, five or more."""
    words = head.split(b"\n")[0].split()
    return len(words) > 4 and all(re.fullmatch(rb"-?[\d.]+(e-?\d+)?", w) for w in words)


def kind_of_json(head):
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        head = head[: len(head) & ~1].decode("utf-16", "replace").encode()
    if b'"shapes"' in head or b'"imagePath"' in head:
        return "labelme"
    known = [k for k in (b'"images"', b'"annotations"', b'"categories"') if k in head]
    if len(known) > 1 or re.match(rb'[\xef\xbb\xbf\s]*\{\s*"(images|annotations|categories|info|licenses)"', head):
        return "panoptic" if b'"segments_info"' in head else "coco"
    return None


def kind_of_tree(tree, path, folder):
    if listed.find(tree):
        return "listed"
    names = list(tree.files)
    ends = collections.Counter(os.path.splitext(n)[1].lower() for n in names)
    boxes = [
        k
        for k, there in (
            ("parquet", ends[".parquet"] or ends[".pq"]),
            ("arrow", ends[".arrow"] or ends[".feather"]),
            ("lmdb", any(os.path.basename(n) == "data.mdb" for n in names)),
            ("tfrecord", any(re.search(r"\.tfrec|-of-\d+(\.gz)?$", n) for n in names)),
        )
        if there
    ]
    if boxes and not folder:
        raise Refused(f"{shown(path)}: the archive holds {boxes[0]}; unpack it, and import the folder")
    found = list(boxes)
    texts = [n for n in names if re.search(r"(^|/)labels/.*\.txt$", n) and not n.endswith("/classes.txt")]
    if texts and (any(n.lower().endswith((".yaml", ".yml")) for n in names) or is_row(tree.peek(texts[0], 4096))):
        found.append("yolo")
    documents = sorted((n for n in names if n.lower().endswith(".json")), key=lambda n: (n.count("/"), n))
    seen = []
    for n in documents[:16] + [n for n in documents[16:] if re.search(r"instances|panoptic|coco", n)][:16]:
        kind = kind_of_json(tree.data(n)[: 1 << 16] if not folder else head_of(os.path.join(path, n)))
        if kind == "panoptic" and "coco" in seen or kind in seen or kind is None:
            continue
        seen.append(kind)
    found += ["coco"] if "coco" in seen else seen[:1] if seen[:1] == ["panoptic"] else []
    found += ["labelme"] if "labelme" in seen else []
    if not found and any(
        n.lower().endswith(".xml") and b"<annotations>" in tree.peek(n, 4096) for n in names if n.count("/") < 2
    ):
        found.append("cvat")
    if len(found) > 1:
        raise Refused(
            f"{shown(path)} may be {' or '.join(found)}: " + " or ".join(f"--from {k}" for k in found) + " says which"
        )
    kind = found[0] if found else folders.looks_like(tree)
    if kind is None:
        inner = some(names, 3) or "nothing"
        raise Refused(
            f"{shown(path)}: of no kind that is known here; it holds {inner}; --from KIND forces one of "
            f"{', '.join(KINDS)}"
        )
    return kind


def head_of(path):
    with open(path, "rb") as f:
        return f.read(1 << 16)
