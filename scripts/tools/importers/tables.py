# SPDX-License-Identifier: MIT
"""Parquet and Arrow, as Hugging Face lays images out: a row a sample."""

import json
import os
import re

from .common import Classes, LeftOut, Refused, counted, demand, part_of, shown, some
from .images import format_of

ROWS = 256  # that are in memory at once
LABELS = ("label", "labels", "class", "category", "target", "class_label", "label_name", "class_name")
MASKS = re.compile(r"mask|annot|segm|semantic|label|ground_truth|\bgt\b", re.I)


def files_of(source, endings):
    """The files of a folder, in order; those that save_to_disk has written as state.json says."""
    if os.path.isfile(source):
        return [source]
    out = []
    for folder, folders, names in os.walk(source):
        folders[:] = sorted(f for f in folders if f[0] not in "._" or f == "__default__")
        names = sorted(n for n in names if n.lower().endswith(endings) and not n.startswith("cache-"))
        state = os.path.join(folder, "state.json")
        if os.path.isfile(state):
            with open(state, "rb") as f:
                try:
                    listed = [os.path.basename(d["filename"]) for d in json.load(f)["_data_files"]]
                except (ValueError, KeyError, TypeError, RecursionError):
                    raise Refused(f"{shown(state)}: not as datasets.save_to_disk writes it") from None
            missing = [n for n in listed if n not in names]
            if missing:
                raise Refused(f"{shown(state)} names {shown(missing[0])}, which is not there")
            names = listed
        out += [os.path.join(folder, n) for n in names]
    return out


class Tables:
    kind = "table"

    def __init__(self, job, sources):
        demand("this source", ("pyarrow", "pyarrow"))
        import pyarrow

        self.pa, self.job, opt = pyarrow, job, job.opt
        files = [f for s in sources for f in files_of(s, (".parquet", ".pq", ".arrow", ".feather"))]
        if not files:
            raise Refused(f"{some(sources)}: there is no .parquet or .arrow file")
        self.parts = {}
        for f in files:
            root = next(s for s in sources if f.startswith(s))
            name = (
                os.path.relpath(f, os.path.dirname(os.path.abspath(root)))
                if os.path.isdir(root)
                else os.path.basename(f)
            )
            self.parts.setdefault(part_of(name), []).append(f)
            job.file(f)
        schema = None
        for f in files:
            mine = self.schema(f)
            if schema is not None and mine.names != schema.names:
                raise Refused(
                    f"{shown(files[0])} has the columns {some(schema.names)}, {shown(f)} has {some(mine.names)}; "
                    "import "
                    "each kind by itself"
                )
            schema = mine if schema is None else schema
        self.features = self.hugging_face(schema, files[0])
        self.choose(schema, files[0], opt)

    # -- files --
    @staticmethod
    def why(why):
        """The first line of an error of pyarrow."""
        return shown((str(why).splitlines() or [type(why).__name__])[0])

    def damaged(self, path, why, row):
        self.job.damaged(f"{shown(path)} behind row {row}: {self.why(why)}")

    def batches(self, path, columns=None):
        """Batches of rows, of a file of any size."""
        pa = self.pa
        with open(path, "rb") as f:
            magic = f.read(6)
        if magic[:4] == b"PAR1":
            import pyarrow.parquet as pq

            how = {"memory_map": False, "pre_buffer": False, "buffer_size": 1 << 20}
            if int(self.pa.__version__.split(".")[0]) >= 15:
                how["page_checksum_verification"] = True
            with pq.ParquetFile(path, **how) as f:
                for group in range(f.num_row_groups):  # a damaged one does not take those in front of it along
                    yield from f.iter_batches(batch_size=ROWS, row_groups=[group], columns=columns, use_threads=False)
            return
        with pa.memory_map(path) as f:
            if magic == b"ARROW1":
                reader = pa.ipc.open_file(f)
                batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
            else:
                batches = iter(pa.ipc.open_stream(f))
            for b in batches:
                b.validate(full=True)
                b = b.select(columns) if columns else b
                for at in range(0, b.num_rows, ROWS):
                    yield b.slice(at, ROWS)

    def schema(self, path):
        try:
            with open(path, "rb") as f:
                magic = f.read(6)
            if magic[:4] == b"PAR1":
                import pyarrow.parquet as pq

                return pq.read_schema(path)
            with self.pa.memory_map(path) as f:
                return (self.pa.ipc.open_file(f) if magic == b"ARROW1" else self.pa.ipc.open_stream(f)).schema
        except (self.pa.ArrowException, OSError, ValueError) as why:
            raise Refused(
                f"{shown(path)}: no whole Parquet or Arrow file: {self.why(why)}"
            ) from None

    # -- columns --
    @staticmethod
    def hugging_face(schema, path):
        """What `datasets` says of the columns, such as the names of classes."""
        text = (schema.metadata or {}).get(b"huggingface")
        if text is None:
            return {}
        try:
            features = json.loads(text)["info"]["features"]
        except (KeyError, ValueError, TypeError, RecursionError):
            features = None
        if not isinstance(features, dict):
            raise Refused(
                f"{shown(path)}: the features of Hugging Face in its metadata are damaged; get the file again"
            )
        return features

    def is_image(self, field, first):
        t, pa = field.type, self.pa.types
        feature = self.features.get(field.name)
        if isinstance(feature, dict) and feature.get("_type") == "Image":
            return True
        if pa.is_struct(t):
            return t.get_field_index("bytes") >= 0
        value = first.get(field.name)
        return self.is_bytes(t) and value is not None and format_of(value) is not None

    def first_row(self, path):
        """The first value of each column of bytes that has one."""
        try:
            for b in self.batches(path):
                out = {}
                for i, n in enumerate(b.schema.names):
                    if self.is_bytes(b.schema.types[i]):
                        out[n] = next((v.as_py() for v in b.column(i) if v.is_valid), None)
                return out
        except (self.pa.ArrowException, OSError, ValueError):
            pass  # said where it is read
        return {}

    def pick(self, given, option, schema):
        if given not in schema.names:
            raise Refused(f"--{option} {shown(given)}: there is no such column; there are: {some(schema.names, 20)}")
        return given

    def choose(self, schema, path, opt):
        self.n_columns = schema.names
        first = self.first_row(path)
        images = [f.name for f in schema if self.is_image(f, first)]
        masks = [n for n in images if MASKS.search(n)]
        plain = [n for n in images if n not in masks]
        self.image = self.pick(opt.image, "image", schema) if opt.image else self.one(plain or images, "image", schema)
        masks = [n for n in masks if n != self.image]
        labels = [f for f in schema if f.name not in images and self.is_label(f)]
        named = [f for f in labels if self.names_of(f) is not None]
        usual = [f for f in labels if f.name.lower() in LABELS]
        labels = [f.name for f in (named or usual or [])]
        target = opt.target or ("mask" if opt.mask else "class" if opt.label else None)
        if target is None and masks and labels:
            raise Refused(
                f"the rows have a label ({some(labels)}) and a mask ({some(masks)}): --target class or --target mask "
                "says "
                "which is wanted"
            )
        self.target = target or ("mask" if masks else "class")
        if self.target == "mask":
            others = [n for n in images if n != self.image]
            self.truth = self.pick(opt.mask, "mask", schema) if opt.mask else self.one(masks or others, "mask", schema)
            self.job.mask_classes()
        else:
            self.truth = self.pick(opt.label, "label", schema) if opt.label else self.one(labels, "label", schema)
            self.set_labels(schema.field(self.truth), path, opt)
        self.columns = [self.image, self.truth]
        rest = [n for n in schema.names if n not in self.columns]
        if rest:
            self.job.say(f"columns that are not read: {some(rest, 10)}")

    def one(self, names, what, schema):
        if len(names) == 1:
            return names[0]
        if names:
            raise Refused(f"the columns {some(names)} may each be the {what}: --{what} NAME says which")
        there = [f"{shown(f.name)} ({f.type})" for f in schema]
        raise Refused(f"no column is known as the {what}: --{what} NAME says which; there are: {some(there, 20)}")

    # -- labels --
    def is_label(self, field):
        t, pa = field.type, self.pa.types
        whole = pa.is_integer(t) or pa.is_boolean(t) or pa.is_floating(t) and field.name.lower() in LABELS
        return whole or self.is_text(t) or pa.is_dictionary(t)

    def is_text(self, t):
        pa = self.pa.types
        return pa.is_string(t) or pa.is_large_string(t) or getattr(pa, "is_string_view", pa.is_string)(t)

    def is_bytes(self, t):
        pa = self.pa.types
        return pa.is_binary(t) or pa.is_large_binary(t) or getattr(pa, "is_binary_view", pa.is_binary)(t)

    def names_of(self, field):
        feature = self.features.get(field.name)
        if (
            isinstance(feature, dict)
            and feature.get("_type") == "ClassLabel"
            and isinstance(feature.get("names"), list)
        ):
            return feature["names"]
        return None

    def are_whole(self, name, path):
        """The numbers of the first rows; NaN is none."""
        try:
            values = next(iter(self.batches(path, [name])), None)
        except (self.pa.ArrowException, OSError, ValueError):
            return True  # said where it is read
        found = values.column(0).to_pylist() if values is not None else []
        return all(v is None or v != v or v.is_integer() for v in found)

    def set_labels(self, field, path, opt):
        t, pa, job = field.type, self.pa.types, self.job
        if pa.is_list(t) or pa.is_large_list(t) or pa.is_fixed_size_list(t):
            raise Refused(
                f"the column {shown(field.name)} has several labels a row; shards have one a sample, and a CSV file "
                "may "
                "have several"
            )
        if pa.is_decimal(t) or pa.is_floating(t) and not self.are_whole(field.name, path):
            raise Refused(
                f"the column {shown(field.name)} has numbers with fractions ({t}), which are no classes; a CSV file "
                "may have such targets"
            )
        if pa.is_floating(t):
            job.say(f"the column {shown(field.name)} has the type {t}: its whole numbers are numbers of classes")
        if not self.is_label(field):
            raise Refused(f"the column {shown(field.name)} has the type {t}; a label is a whole number or a text")
        names = self.names_of(field)
        self.named = not (pa.is_integer(t) or pa.is_boolean(t) or pa.is_floating(t))
        if names is not None and opt.classes is None:
            job.classes = Classes(names, say=job.say)
        elif not self.named and job.classes is None:
            raise Refused(
                f"the labels of {shown(field.name)} are numbers without names: --classes FILE has a name on each "
                "line, or "
                "--classes N says how many there are"
            )

    # -- samples --
    def items(self, part):
        row = 0
        for path in self.parts[part]:
            at = 0
            try:
                for b in self.batches(path, self.columns):
                    image, truth = self.values(b, self.image), self.values(b, self.truth)
                    for x, y in zip(image, truth):
                        yield f"{row:09d}", (path, at), x, y
                        row += 1
                        at += 1
            except (self.pa.ArrowException, OSError, ValueError) as why:
                self.damaged(path, why, at)

    def values(self, batch, name):
        """Bytes, (None, path), numbers or texts."""
        column = batch.column(batch.schema.get_field_index(name))
        if self.pa.types.is_struct(column.type):
            i = column.type.get_field_index("bytes")
            if i < 0:
                raise Refused(f"the column {shown(name)} has no bytes: {column.type}")
            fields = column.flatten()
            values, k = fields[i].to_pylist(), column.type.get_field_index("path")
            if k >= 0 and None in values:
                return [v if v is not None else p for v, p in zip(values, fields[k].to_pylist())]
            return values
        if self.pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        return column.to_pylist()

    def place(self, where):
        return f"{os.path.basename(where[0])} row {where[1]}"

    def bytes_of(self, value, where):
        if isinstance(value, bytes):
            return value
        if value is None:
            raise LeftOut("there is no image in the row")
        if not isinstance(value, str):
            raise LeftOut("the image is neither the bytes of an image file nor a path; write it as one of them")
        if re.match(r"https?://", value):
            raise LeftOut("an address instead of the image's bytes; fetch the images, and name them in a CSV file")
        return self.job.beside(os.path.dirname(where[0]), value)

    def sample(self, where, image, truth):
        data = self.bytes_of(image, where)
        if self.target == "mask":
            if truth is None:
                raise LeftOut("there is no mask in the row")
            return data, self.bytes_of(truth, where)
        return data, self.job.label(truth)

    def summary(self):
        return {"image": self.image, self.target: self.truth, "columns": counted(len(self.n_columns), "column")}
