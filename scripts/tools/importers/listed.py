# SPDX-License-Identifier: MIT
"""Public data sets whose labels or parts are in lists of their own form: one function for each, known by the files
that it has."""

import gzip
import io
import pickle
import posixpath
import re

from .common import Classes, LeftOut, Refused, demand, shown, text_of
from .folders import is_picture


class Set:
    """What a function below reads: text, lines and arrays of a tree, and rows of samples."""

    def __init__(self, tree):
        self.tree, self.rows, self.classes = tree, {}, None

    def lines(self, name):
        text = text_of(self.tree.document(name), shown(name))
        return [line.split() for line in text.splitlines() if line.strip()]

    def matlab(self, name):
        demand("a list of MATLAB", ("scipy.io", "scipy"))
        import scipy.io

        try:
            return scipy.io.loadmat(io.BytesIO(self.tree.document(name)))
        except Exception as why:  # whatever is wrong in a damaged file
            raise Refused(f"{shown(name)}: no whole file of MATLAB: {shown(why)}; get it again") from None

    def take(self, part, path, label):
        """One image: the path of a file, or an array."""
        self.rows.setdefault(part, []).append((path, label))


# ---- folders of classes, whose parts are in lists ----
def food(s):
    for part in ("train", "test"):
        for (name,) in s.lines(f"meta/{part}.txt"):
            s.take(part, f"images/{name}.jpg", name.split("/")[0])


def cub(s):
    images = dict(s.lines("images.txt"))
    for number, trains in s.lines("train_test_split.txt"):
        if number not in images:
            raise Refused(f"train_test_split.txt names image {shown(number)}, which images.txt has not")
        s.take("train" if trains == "1" else "test", f"images/{images[number]}", images[number].split("/")[0])


def dogs(s):
    folder = "lists/" if "lists/train_list.mat" in s.tree.files else ""
    for part in ("train", "test"):
        for cell in s.matlab(f"{folder}{part}_list.mat")["file_list"].ravel():
            name = str(cell.item() if hasattr(cell, "item") else cell)
            s.take(part, f"Images/{name}", name.split("/")[0])


def dtd(s):
    for part in ("train", "val", "test"):
        for (name,) in s.lines(f"labels/{part}1.txt") if f"labels/{part}1.txt" in s.tree.files else ():
            s.take(part, f"images/{name}", name.split("/")[0])


# ---- labels in lists ----
def tiny_imagenet(s):
    for path in s.tree.files:
        words = path.split("/")
        if words[0] == "train" and len(words) > 2 and is_picture(path):
            s.take("train", path, words[1])
    for row in s.lines("val/val_annotations.txt"):
        s.take("val", f"val/images/{row[0]}", row[1])


def imagenet(s):
    top = "ILSVRC/Data/CLS-LOC"
    for path in s.tree.files:
        if path.startswith(top + "/train/") and is_picture(path):
            s.take("train", path, path.split("/")[-2])
    for row in s.lines("LOC_val_solution.csv")[1:]:
        name, _, label = row[0].partition(",")
        s.take("val", f"{top}/val/{name}.JPEG", label)


def flowers(s):
    labels, parts = s.matlab("imagelabels.mat")["labels"].ravel(), s.matlab("setid.mat")
    for part, key in (("train", "trnid"), ("val", "valid"), ("test", "tstid")):
        for i in parts[key].ravel().tolist():
            if not 0 < i <= len(labels):
                raise Refused(f"setid.mat names image {i}, and imagelabels.mat has labels of {len(labels)}")
            s.take(part, f"jpg/image_{i:05}.jpg", f"{int(labels[i - 1]):03}")


def aircraft(s):
    for part in ("train", "val", "test"):
        name = f"images_variant_{part}.txt"
        for number, *variant in s.lines(name) if name in s.tree.files else ():
            s.take(part, f"images/{number}.jpg", " ".join(variant))


def cars(s):
    names = [str(n.item()) for n in s.matlab("devkit/cars_meta.mat")["class_names"].ravel()]
    for part, name in (("train", "cars_train_annos.mat"), ("test", "cars_test_annos_withlabels.mat")):
        where = next((w for w in ("devkit/" + name, name) if w in s.tree.files), None)
        for row in s.matlab(where)["annotations"].ravel() if where else ():
            number = int(row["class"].item())
            if not 0 < number <= len(names):
                raise Refused(f"{shown(where)} has class {number}, and devkit/cars_meta.mat names {len(names)}")
            s.take(part, f"cars_{part}/{row['fname'].item()}", names[number - 1])


def pets(s):
    for part, name in (("train", "trainval"), ("test", "test")):
        for row in s.lines(f"annotations/{name}.txt"):
            s.take(part, f"images/{row[0]}.jpg", row[0].rpartition("_")[0])


# ---- arrays ----
class Numbers(pickle.Unpickler):
    """Pickles of CIFAR: numbers, texts and NumPy's arrays. Whatever else a pickle would call is refused."""

    KNOWN = {("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")}

    def find_class(self, module, name):
        if (module, name) in self.KNOWN:
            return super().find_class(module, name)
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "_reconstruct":
            import numpy as np

            return (getattr(np, "_core", None) or np.core).multiarray._reconstruct
        raise pickle.UnpicklingError(f"it would call {module}.{name}")


def unpickled(s, name):
    try:
        return Numbers(io.BytesIO(s.tree.document(name)), encoding="bytes").load()
    except Exception as why:  # whatever is wrong in a damaged file
        raise Refused(f"{shown(name)}: no pickle of CIFAR: {shown(why)}; get it again") from None


def take_planes(s, part, rows, labels):
    """Rows of red, green and blue planes of 32 x 32."""
    for row, label in zip(rows, labels):
        s.take(part, row.reshape(3, 32, 32).transpose(1, 2, 0), int(label))


def cifar(s):
    s.classes = [n.decode() for n in unpickled(s, "batches.meta")[b"label_names"]]
    for part, names in (("train", [f"data_batch_{i}" for i in range(1, 6)]), ("test", ["test_batch"])):
        for name in (n for n in names if n in s.tree.files):
            batch = unpickled(s, name)
            take_planes(s, part, batch[b"data"], batch[b"labels"])


def cifar_100(s):
    s.classes = [n.decode() for n in unpickled(s, "meta")[b"fine_label_names"]]
    for part in ("train", "test"):
        batch = unpickled(s, part)
        take_planes(s, part, batch[b"data"], batch[b"fine_labels"])


def cifar_binary(s):
    import numpy as np

    s.classes = [row[0] for row in s.lines("batches.meta.txt")]
    for part, names in (("train", [f"data_batch_{i}.bin" for i in range(1, 6)]), ("test", ["test_batch.bin"])):
        for name in (n for n in names if n in s.tree.files):
            rows = np.frombuffer(s.tree.document(name), np.uint8)
            if rows.size % 3073:
                raise Refused(f"{shown(name)} has {rows.size} bytes, which are no rows of 3073; get it again")
            take_planes(s, part, rows.reshape(-1, 3073)[:, 1:], rows.reshape(-1, 3073)[:, 0])


def idx(s, name):
    import numpy as np

    data = s.tree.document(name if name in s.tree.files else name + ".gz")
    try:
        data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except (OSError, EOFError) as why:
        raise Refused(f"{shown(name)}.gz: {shown(why)}; get it again") from None
    sides = np.frombuffer(data[4 : 4 + 4 * data[3]], ">u4").tolist() if len(data) > 4 + 4 * data[3] else []
    if not sides or data[2] != 8 or len(data) != 4 + 4 * len(sides) + np.prod(sides):
        raise Refused(f"{shown(name)} is no whole file of bytes in MNIST's form; get it again")
    return np.frombuffer(data, np.uint8, offset=4 + 4 * len(sides)).reshape(sides)


def mnist(s):
    s.classes = [str(i) for i in range(10)]
    for part, name in (("train", "train"), ("test", "t10k")):
        if any(f"{name}-images-idx3-ubyte{end}" in s.tree.files for end in ("", ".gz")):
            for image, label in zip(idx(s, f"{name}-images-idx3-ubyte"), idx(s, f"{name}-labels-idx1-ubyte")):
                s.take(part, image, int(label))


def svhn(s):
    s.classes = [str(i) for i in range(10)]
    for part in ("train", "test"):
        found = s.matlab(f"{part}_32x32.mat")
        for image, label in zip(found["X"].transpose(3, 0, 1, 2), found["y"].ravel()):
            s.take(part, image, int(label) % 10)  # 10 is the digit 0


# Name, files that it has, what reads it.
SETS = (
    ("Tiny ImageNet", ("val/val_annotations.txt", "train/"), tiny_imagenet),
    ("CUB-200", ("train_test_split.txt", "images.txt"), cub),
    ("Food-101", ("meta/train.txt", "meta/test.txt"), food),
    ("Stanford Dogs", ("train_list.mat", "test_list.mat"), dogs),
    ("Stanford Dogs", ("lists/train_list.mat", "lists/test_list.mat"), dogs),
    ("DTD", ("labels/train1.txt", "labels/test1.txt"), dtd),
    ("Oxford 102 Flowers", ("imagelabels.mat", "setid.mat"), flowers),
    ("FGVC-Aircraft", ("images_variant_train.txt", "images/"), aircraft),
    ("Stanford Cars", ("devkit/cars_train_annos.mat", "cars_train/"), cars),
    ("Oxford-IIIT Pet", ("annotations/trainval.txt", "annotations/trimaps/"), pets),
    ("ImageNet", ("LOC_val_solution.csv", "ILSVRC/"), imagenet),
    ("CIFAR-10", ("data_batch_1", "batches.meta"), cifar),
    ("CIFAR-10", ("data_batch_1.bin", "batches.meta.txt"), cifar_binary),
    ("CIFAR-100", ("train", "meta"), cifar_100),
    ("MNIST", ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"), mnist),
    ("MNIST", ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"), mnist),
    ("SVHN", ("train_32x32.mat", "test_32x32.mat"), svhn),
)


def find(tree):
    """(the tree or what lies in its only folders, its row), or None."""
    for _ in range(4):
        for row in SETS:
            if all(n in tree.files or n[-1] == "/" and any(p.startswith(n) for p in tree.files) for n in row[1]):
                return tree, row
        if len(tree.folders()) != 1:
            return None
        tree = tree.below(tree.folders()[0])
    return None


class Listed:
    target = "class"
    kind = "listed"

    def __init__(self, job, trees):
        self.job, self.parts, names = job, {}, set()
        for tree in trees:
            found = find(tree)
            if not found:
                raise Refused(f"{shown(tree.path)}: of no public set that is known here; it has none of their lists")
            self.tree, (self.name, _, read) = found
            s = Set(self.tree)
            try:
                read(s)
            except (KeyError, ValueError, IndexError, TypeError) as why:
                raise Refused(f"{shown(tree.path)}: a list of {self.name} has another form: {shown(why)}") from None
            for part, rows in s.rows.items():
                self.parts.setdefault(part, []).extend((i, self.tree, p, n) for i, (p, n) in enumerate(rows))
                names.update(n for _, n in rows)
            if job.classes is None and (s.classes or all(isinstance(n, str) for n in names)):
                job.classes = Classes(s.classes or sorted(names, key=str.encode), say=job.say)
        job.say(f"laid out as {self.name}")

    def items(self, part):
        for i, tree, path, name in self.parts[part]:
            if isinstance(path, str):
                yield re.sub(r"^images/", "", posixpath.splitext(path)[0]), path, tree, name
            else:
                yield f"{part}/{i:06}", f"{part} {i}", path, name

    def place(self, where):
        return where

    def sample(self, where, of, name):
        if hasattr(of, "files"):
            if where not in of.files:
                raise LeftOut("an image that a list names is not there")
            return of.read(where), self.job.label(name)
        demand("arrays of pixels", ("PIL", "pillow"))
        from PIL import Image

        out = io.BytesIO()
        Image.fromarray(of).save(out, "PNG")
        return out.getvalue(), self.job.label(name)

    def summary(self):
        return {"laid out as": self.name}
