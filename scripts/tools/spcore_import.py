#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes images and labels, or images and masks, of other containers into the tar files that spcore reads (WebDataset).

SOURCE is a file, a folder or a zip archive of one of these kinds, which is seen from its content:

  parquet, arrow    tables as Hugging Face lays images out: columns of images, labels or masks; save_to_disk
  tfrecord          tf.train.Example with image/encoded and image/class/label or a mask
  lmdb              keys and images, as LSUN
  coco, panoptic    JSON with polygons or run lengths, or with segments in PNG files
  labelme           a JSON file with polygons for each image
  yolo              data.yaml, images/ and labels/ with polygons
  cvat              CVAT for images 1.1, an XML file with polygons
  listed            public sets whose labels or parts are in lists: CIFAR, CUB-200, DTD, FGVC-Aircraft, Flowers, Food-101,
                    ImageNet, MNIST, Oxford-IIIT Pet, Stanford Cars and Dogs, SVHN, Tiny ImageNet
  masks             images/ and masks/, perhaps with ids that --map makes classes of (Cityscapes, ADE20K, instances)
  classes           a folder for each class

DIR gets train-000000.tar ... and val-000000.tar ..., or data-000000.tar ... where the source is not divided,
classes.txt, and .import.json, which says what was read, counted and left out, with hashes. Images are copied byte by
byte. DIR is there as a whole or not at all. What cannot be read is left out and counted; what may be understood in two
ways is asked.
"""
import argparse
import collections
import hashlib
import json
import os
import re
import shutil
import signal
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from importers import coco, folders, images, listed, shapes, tables, tfrecord  # noqa: E402
from importers.common import PROGRAM, Classes, LeftOut, Refused, counted, settle_parts, shown, some  # noqa: E402
from importers.job import Job  # noqa: E402
from importers.kinds import KINDS, kind_of  # noqa: E402
from importers.shards import Shards  # noqa: E402

REPORT = ".import.json"  # the reader counts files of other endings, but not those with a dot in front
IMPORTERS = {
    "parquet": tables.Tables,
    "arrow": tables.Tables,
    "tfrecord": tfrecord.Records,
    "lmdb": folders.Lmdb,
    "coco": coco.Coco,
    "panoptic": coco.Coco,
    "labelme": shapes.LabelMe,
    "yolo": shapes.Yolo,
    "cvat": shapes.Cvat,
    "listed": listed.Listed,
    "masks": folders.MaskFolders,
    "classes": folders.ClassFolders,
}
OF_TREES = ("labelme", "yolo", "cvat", "listed", "masks", "classes")


# ---- the import ----
def sha256(path):
    h = hashlib.sha256()
    with open(path, "rb") as f:
        while block := f.read(1 << 20):
            h.update(block)
    return h.hexdigest()


def check_room(out, job):
    """Shards take about as much as the source."""
    need = sum(os.path.getsize(f) for f in job.files)
    need += sum(sum(t.files.values()) for t in job.trees.values() if t.path not in map(os.path.abspath, job.files))
    disk = shutil.disk_usage(os.path.dirname(os.path.abspath(out)))
    spare = min(1 << 30, disk.total // 20)
    if disk.free - spare < need:
        raise Refused(
            f"{shown(out)}: the disk has {disk.free / 2**30:.1f} GiB left, of which {spare / 2**30:.1f} stay free; "
            "the source has "
            f"{need / 2**30:.1f} GiB, and shards take about as much"
        )


def members(job, importer, key, data, truth, tally):
    """The files of one sample, and the number of its class."""
    kind, w, h = images.head(data)
    ending = images.READ.get(kind)
    if ending is None:
        data, ending = images.as_png(data, kind), "png"
        job.note(f"images of {kind.upper()} are written as PNG, pixel for pixel", key)
    if importer.target == "class":
        return truth, ((f"{key}.cls", truth.encode()), (f"{key}.{ending}", data))
    if isinstance(truth, tuple):
        truth, table = truth
    else:
        table = job.table
    if isinstance(truth, bytes):
        truth = images.mask_of(truth, (w, h), table, job.classes, tally)
    else:
        import numpy as np

        if truth.shape != (h, w):  # drawn on the image as EXIF turns it
            job.note("masks of images that EXIF turns: as they are seen", key)
        tally += np.bincount(truth.ravel(), minlength=256)
        truth = images.grey_png(truth)
    return None, ((f"{key}.{ending}", data), (f"{key}.seg.png", truth))


def import_part(job, importer, sources, writer):
    """All samples of a part; how many of each class, or how many pixels of each label."""
    counts, tally, job.keys = collections.Counter(), 0, set()
    if importer.target == "mask":
        import numpy as np

        tally = np.zeros(256, np.int64)
    by_row = getattr(importer, "kind", None) == "table" or type(importer).__name__ == "Records"
    for part in sources:
        for key, where, a, b in importer.items(part):
            try:
                data, truth = importer.sample(where, a, b)
                key = key if by_row and len(sources) == 1 else job.key(f"{part}/{key}" if by_row else key)
                label, files = members(job, importer, key, data, truth, tally)
            except LeftOut as why:
                place = importer.place(where) + (f", {why.at}" if why.at else "")
                if job.opt.strict:
                    raise Refused(f"{shown(place)}: {why} (--strict; without it the sample is left out)") from None
                job.leave(str(why), place)
                continue
            counts[label] += 1
            writer.add(files)
    return counts, tally


def finish_classes(job):
    """The classes, now that all labels are known."""
    if job.classes is None:
        if job.pairs:
            order, first = sorted(job.pairs), {}
            for k in order:
                if first.setdefault(job.pairs[k], k) != k:
                    raise Refused(
                        f"the numbers {first[job.pairs[k]]} and {k} of classes are both called '{job.pairs[k]}'; "
                        "--classes FILE names the classes from number 0 on, one on each line"
                    )
            job.classes = Classes([job.pairs[k] for k in order])
            if order != list(range(len(order))):
                job.say(
                    f"numbers of classes become 0 to {len(order) - 1} in their order: {order[0]} -> 0, ..., "
                    f"{order[-1]} -> "
                    f"{len(order) - 1}"
                )
            job.extra["classes of numbers"] = {str(k): i for i, k in enumerate(order)}
        else:
            job.classes = Classes(sorted(job.words, key=str.encode))
    return job.classes


def check_masks(job, tally, part):
    """Masks of 0 and 255 alone: 255 is no label, and what is learned is one class."""
    seen = [i for i in range(256) if tally[i]]
    names = job.classes.names
    if seen == [0, 255] and len(names) > 1 and job.table is None and not job.drawn:
        raise Refused(
            f"the masks of {part} have only 0 and 255, and 255 is no label, so that {names[0]} alone would be learned: "
            f"--map '0={names[0]},255={names[1]}' makes 255 a class, --map '0={names[0]},255=void' says that it is none"
        )
    missing = [n for i, n in enumerate(names) if not tally[i]]
    if missing:
        job.say(f"{counted(len(missing), 'class has', 'classes have')} no pixel in {part}: {some(missing)}")


def why_none(job):
    """The reason that has left out the most, with its first place."""
    if not job.left:
        return ": its source names none"
    what, (n, first) = max(job.left.items(), key=lambda x: x[1][0])
    return f": {n} left out: {what} (first: {first[0]})"


def tell(job):
    for what, (n, first) in sorted(job.notes.items()):
        job.say(f"{n} {what} (first: {first[0]})")
    for what, (n, first) in sorted(job.left.items(), key=lambda x: (-x[1][0], x[0])):
        job.say(f"left out: {n}: {what} (first: {first[0]})")


def report(job, kind, importer, parts):
    opt = job.opt
    sources = [
        {"path": os.path.basename(os.path.abspath(f)), "bytes": os.path.getsize(f), "sha256": sha256(f)}
        for f in job.files
    ]
    sources += [r for r in (t.record() for t in job.trees.values()) if r and r["files"]]
    settings = {
        k: os.path.basename(v) if k in ("images", "classes", "map") and isinstance(v, str) else v
        for k, v in vars(opt).items()
        if v not in (None, False, []) and k not in ("source", "out", "force", "frm")
    }
    firsts = {what: {"count": n, "first": first} for what, (n, first) in sorted(job.left.items())}
    return {
        "program": PROGRAM,
        "kind": kind,
        "target": importer.target,
        "settings": settings,
        "sources": sources,
        "read as": importer.summary(),
        "classes": job.classes.names,
        **job.extra,
        "parts": parts,
        "notes": {what: {"count": n, "first": first} for what, (n, first) in sorted(job.notes.items())},
        "left out": firsts,
    }


def run_import(opt, job, folder):
    sources = [os.path.normpath(s) for s in opt.source]
    sources = [
        os.path.dirname(s) or "." if s.lower().endswith((".yaml", ".yml")) and os.path.isfile(s) else s for s in sources
    ]
    if opt.frm in (None, "zip"):
        found = {kind_of(s, job) for s in sources}
        if len(found) > 1:
            raise Refused(f"the sources are of several kinds, {some(sorted(found))}: import each by itself")
        kind = found.pop()
    else:
        kind = opt.frm
        for s in sources:
            if not os.path.exists(s):
                raise Refused(f"{shown(s)}: there is no such file or folder")
    job.drawn = kind in ("coco", "panoptic", "labelme", "yolo", "cvat")
    if opt.target == "class" and (job.drawn or kind == "masks") or opt.target == "mask" and kind in ("classes", "listed", "lmdb"):
        raise Refused(f"--target {opt.target}: {kind} has {'masks' if opt.target == 'class' else 'labels'}")
    if opt.background and not job.drawn:
        raise Refused(
            f"--background is for kinds whose objects are drawn: coco, panoptic, labelme, yolo, cvat; for {kind} leave "
            "--background out"
        )
    job.say(f"{some(sources)}: {kind}")
    given = (
        [job.tree(s) if os.path.isdir(s) or kind in ("masks", "classes", "listed", "yolo") else s for s in sources]
        if kind in OF_TREES
        else sources
    )
    if kind == "cvat":
        given = [s if os.path.isfile(s) and s.lower().endswith(".xml") else job.tree(s) for s in sources]
    if kind == "labelme":
        given = [
            job.tree(s if os.path.isdir(s) or not s.endswith(".json") else os.path.dirname(os.path.abspath(s)))
            for s in sources
        ]
    importer = IMPORTERS[kind](job, given)
    first = {
        name: first_of(importer, name)
        for name in sorted(
            importer.parts, key=lambda n: (["train", "val", "test"].index(n) if n in ("train", "val", "test") else 9, n)
        )
    }
    to = settle_parts(first, opt, job.say)
    check_room(opt.out, job)
    parts = {}
    for name in ("train", "val", "data"):
        of = [p for p in first if to[p] == name]
        if not of:
            continue
        writer = Shards(folder, name, opt.shard_bytes)
        counts, tally = import_part(job, importer, of, writer)
        shards = writer.finish()
        if not writer.n:
            tell(job)
            raise Refused(f"part {name} has no sample that can be taken{why_none(job)}")
        parts[name] = {"of": of, "samples": writer.n, "shards": shards}
        if importer.target == "mask":
            check_masks(job, tally, name)
            parts[name]["pixels"] = {n: int(tally[i]) for i, n in enumerate(job.classes.names)}
            parts[name]["pixels"]["(no label)"] = int(tally[255])
        else:
            parts[name]["samples of classes"] = counts
    if hasattr(importer, "end"):
        importer.end()
    classes = finish_classes(job)
    if importer.target == "class":
        for name, p in parts.items():
            p["samples of classes"] = {n: p["samples of classes"][n] for n in classes.names}
            missing = [n for n, k in p["samples of classes"].items() if not k]
            if missing:
                job.say(f"{counted(len(missing), 'class has', 'classes have')} no sample in {name}: {some(missing)}")
    with open(os.path.join(folder, "classes.txt"), "w", encoding="utf-8", newline="\n") as f:
        f.writelines(line + "\n" for line in classes.lines)
    with open(os.path.join(folder, REPORT), "w", encoding="utf-8", newline="\n") as f:
        json.dump(report(job, kind, importer, parts), f, indent=1, ensure_ascii=False)
        f.write("\n")
    tell(job)
    return parts


def first_of(importer, part):
    """A name for messages about a part."""
    x = importer.parts[part]
    x = x[0] if x else ""
    while isinstance(x, (tuple, list)):
        strings = [v for v in x if isinstance(v, str)]
        x = strings[0] if strings else x[0]
    if isinstance(x, dict):
        x = x.get("name", "")
    return x if isinstance(x, str) else getattr(x, "path", "")


def check_out(opt):
    """Nothing of others is written over."""
    out = os.path.normpath(opt.out)
    if os.path.lexists(out) and not os.path.isdir(out):
        raise Refused(f"{shown(out)} is there and is no folder; another -o is wanted")
    if os.path.isdir(out) and os.listdir(out):
        own = os.path.isfile(os.path.join(out, REPORT))
        if not own:
            raise Refused(f"{shown(out)} is there and was not written by an import; another -o is wanted")
        if not opt.force:
            raise Refused(f"{shown(out)} is there already; import anew and replace it (--force), or take another -o")
    if os.path.lexists(out + ".old"):
        raise Refused(
            f"{shown(out)}.old is there: what an import that was killed has not replaced; rename it, or remove it "
            f"(rm -r '{shown(out)}.old')"
        )
    parent = os.path.dirname(os.path.abspath(out))
    if not os.path.isdir(parent):
        raise Refused(f"{shown(parent)}: there is no such folder, in which {shown(os.path.basename(out))} would be")
    for s in opt.source:
        if os.path.realpath(s) == os.path.realpath(out):
            raise Refused(f"{shown(out)} is the source itself; another -o is wanted")
    return out


def run(opt, say):
    out = check_out(opt)
    work, old, began = out + ".importing", out + ".old", time.monotonic()
    try:
        os.mkdir(work)
    except FileExistsError:
        raise Refused(
            f"{shown(work)} is there: another import into it is running, or one was killed; if none is, remove it "
            f"(rm -r '{shown(work)}')"
        ) from None
    try:
        parts = run_import(opt, Job(opt, say), work)
        if os.path.isdir(out) and os.listdir(out):
            os.rename(out, old)
        os.rename(work, out)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    took = max(time.monotonic() - began, 1e-3)
    for name, p in parts.items():
        say(
            f"{shown(out)}: {name}: {counted(p['samples'], 'sample')} in {counted(len(p['shards']), 'shard')}, "
            f"{sum(s['bytes'] for s in p['shards']) / 1e6:.1f} MB"
        )
    n = sum(p["samples"] for p in parts.values())
    say(
        f"{counted(n, 'image')} in {took:.1f} s, {n / took:.0f} a second; {shown(out)}/{REPORT} says what was read; "
        f"`spcore data {shown(out)} --check` reads it"
    )


def size_of(text):
    m = re.fullmatch(r"(\d{1,12})([KMGT]?)i?B?", text, re.I)
    n = int(m[1]) << 10 * " KMGT".index(m[2].upper() or " ") if m else 0
    if not 1 << 16 <= n <= 1 << 44:
        raise argparse.ArgumentTypeError(f"'{text}': 64K to 16T is possible, such as 512M")
    return n


def parser():
    p = argparse.ArgumentParser(prog=PROGRAM, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("source", metavar="SOURCE", nargs="+", help="files of one kind, a folder, or a zip archive")
    p.add_argument("-o", "--out", required=True, metavar="DIR", help="the folder that is written")
    p.add_argument(
        "--from",
        dest="frm",
        choices=KINDS,
        metavar="KIND",
        help="what the source is, where that is not seen: " + ", ".join(KINDS),
    )
    p.add_argument("--target", choices=("class", "mask"), help="which of them, where there are both")
    p.add_argument("--image", metavar="NAME", help="the column or key of the image")
    p.add_argument("--label", metavar="NAME", help="the column or key of the label")
    p.add_argument("--mask", metavar="NAME", help="the column or key of the mask")
    p.add_argument("--images", metavar="DIR", help="where the images of a COCO file lie: a folder or a zip archive")
    p.add_argument("--classes", metavar="FILE", help="names of the classes, one a line; or how many there are")
    p.add_argument(
        "--map",
        metavar="FILE",
        help="classes of ids in masks: lines `7 road`, `24000..24999 person`, `255 void`, `* void`; JSON "
        '{"7": "road"}, also of each mask\'s name; \'0=ground,255=road\'; cityscapes; ade20k',
    )
    p.add_argument(
        "--background",
        metavar="NAME",
        help="the class of pixels that no object covers (background); void: no label, as it is of " "panoptic",
    )
    p.add_argument(
        "--crowd",
        choices=("class", "void"),
        default="class",
        help="what crowds of COCO are: their class (default), or no label",
    )
    p.add_argument(
        "--part",
        action="append",
        default=[],
        metavar="NAME=PART",
        help="what a part of the source is: train, val, or no to leave it " "out; may be repeated",
    )
    p.add_argument("--only", metavar="NAME", help="import this part alone, undivided")
    p.add_argument(
        "--shard-bytes", type=size_of, default=1 << 30, metavar="N", help="a shard's size at most, such as 512M (1G)"
    )
    p.add_argument("--strict", action="store_true", help="stop at the first sample that cannot be taken")
    p.add_argument("--skip-damaged", action="store_true", help="of a damaged file, take what is in front of the damage")
    p.add_argument("--force", action="store_true", help="replace what an import has written into DIR before")
    return p


def ended(number, _):
    raise KeyboardInterrupt(number)


def main(words=None, say=lambda line: print(f"{PROGRAM}: {line}", flush=True)):
    opt = parser().parse_args(words)
    try:
        run(opt, say)
    except Refused as why:
        return f"{PROGRAM}: {why}"
    except OSError as why:
        return f"{PROGRAM}: {shown(why.filename or opt.out)}: {why.strerror or why}"
    except MemoryError:
        return f"{PROGRAM}: there is no memory for a document or an image of this size"
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, ended)
    try:
        sys.exit(main())
    except KeyboardInterrupt as why:
        print(f"{PROGRAM}: interrupted; nothing is written", file=sys.stderr)
        sys.exit(128 + (why.args[0] if why.args else signal.SIGINT))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)
