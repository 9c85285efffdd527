# SPDX-License-Identifier: MIT
"""Folders and zip archives alike: names of files, in order, and their bytes."""

import hashlib
import os
import posixpath
import stat
import zipfile
import zlib

from .common import LeftOut, Refused, shown

MOST_FILES = 20000000
MOST_RATIO = 1000  # of what a member unpacks to; Deflate makes 1032 of zeros
ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".7z", ".rar", ".zst", ".xz", ".bz2")


def is_absolute(name):
    name = str(name).replace("\\", "/")
    return name.startswith("/") or name[1:2] == ":"


def inside(folder, name):
    """The path of a name that a document in `folder` says; LeftOut where it leads out of the source."""
    name = str(name).replace("\\", "/")
    path = posixpath.normpath(posixpath.join(folder, name))
    if is_absolute(name) or "\0" in name or path.split("/")[0] == "..":
        raise LeftOut("a name leads out of the source")
    return path


class Tree:
    """What both have: `files` { path: size }, sorted; read(path)."""

    def __init__(self, path):
        self.path, self.files, self.hash, self.n_read, self.bytes_read = path, {}, hashlib.sha256(), 0, 0
        self._by_name = None

    def read(self, path):
        data = self.data(path)
        self.hash.update(f"{path}\0{len(data)}\0".encode(errors="surrogateescape") + hashlib.sha256(data).digest())
        self.n_read += 1
        self.bytes_read += len(data)
        return data

    def document(self, path):
        """The bytes of a file that all samples depend on."""
        try:
            return self.read(path)
        except LeftOut as why:
            raise Refused(f"{shown(self.path)}: {shown(path)}: {why}") from None

    def peek(self, path, n):
        """Its first bytes; none where it cannot be read, which is said when it is."""
        try:
            return self.data(path)[:n]
        except LeftOut:
            return b""

    def by_name(self, name):
        """The paths whose last part is this."""
        if self._by_name is None:
            self._by_name = {}
            for p in self.files:
                self._by_name.setdefault(posixpath.basename(p), []).append(p)
        return self._by_name.get(name, [])

    def below(self, folder):
        """A view: what lies in a folder."""
        return self if not folder else Below(self, folder)

    def folders(self):
        """The first parts of paths."""
        return sorted({p.split("/", 1)[0] for p in self.files if "/" in p})


class Below(Tree):
    def __init__(self, tree, folder):
        super().__init__(tree.path)
        self.tree, self.folder = tree, folder
        self.files = {p[len(folder) + 1 :]: n for p, n in tree.files.items() if p.startswith(folder + "/")}

    def read(self, path):
        return self.tree.read(f"{self.folder}/{path}")

    def record(self):
        return self.tree.record()


class Folder(Tree):
    def __init__(self, path, job):
        super().__init__(path)
        for folder, folders, names in os.walk(path, onerror=self.fail):
            folders[:] = sorted(f for f in folders if f[0] != "." and f != "__MACOSX")
            for name in names:
                full = os.path.join(folder, name)
                if name[0] == ".":
                    continue
                try:
                    st = os.stat(full)
                except OSError as why:
                    job.leave(f"a file that cannot be opened: {why.strerror}", full)
                    continue
                if stat.S_ISREG(st.st_mode):
                    self.files[os.path.relpath(full, path).replace(os.sep, "/")] = st.st_size
            if len(self.files) > MOST_FILES:
                raise Refused(f"{shown(path)} holds more than {MOST_FILES} files")
        self.files = dict(sorted(self.files.items()))

    @staticmethod
    def fail(why):
        raise Refused(f"{shown(why.filename)}: {why.strerror}")

    def data(self, path):
        try:
            with open(os.path.join(self.path, path), "rb") as f:
                return f.read()
        except OSError as why:
            raise LeftOut(f"a file that cannot be read: {why.strerror}") from None

    def record(self):
        return {
            "path": os.path.basename(os.path.abspath(self.path)),
            "files": self.n_read,
            "bytes": self.bytes_read,
            "sha256 of names and contents": self.hash.hexdigest(),
        }


class Zip(Tree):
    def __init__(self, path, job):
        super().__init__(path)
        self.job = job
        try:
            self.zip = zipfile.ZipFile(path)
            members = self.zip.infolist()
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, EOFError) as why:
            raise Refused(f"{shown(path)}: no whole zip archive: {shown(why)}") from None
        self.members = {}
        for m in members:
            self.take(m)
        self.files = {p: self.members[p].file_size for p in sorted(self.members)}

    def take(self, m):
        where, name = f"{shown(self.path)}: {shown(m.filename)}", m.filename.replace("\\", "/")
        parts = name.split("/")
        if name.startswith("/") or ".." in parts or name[1:2] == ":":
            raise Refused(f"{where} leads out of the archive; whoever made it means no good, or pack it again")
        if not name or name.endswith("/") or "__MACOSX" in parts or any(p[:1] == "." for p in parts):
            return
        if m.flag_bits & 1:
            raise Refused(f"{where} is encrypted; unpack the archive with its password (unzip), and import the folder")
        if stat.S_ISLNK(m.external_attr >> 16):
            self.job.leave("a link in the archive", where)
        elif name.lower().endswith(ARCHIVES):
            self.job.leave("an archive in the archive; unpack it and import it by itself", where)
        elif m.file_size > MOST_RATIO * max(m.compress_size, 1) + (1 << 20):
            raise Refused(
                f"{where} would be {m.file_size} bytes out of {m.compress_size}: more than {MOST_RATIO} times; unpack "
                "the archive, if it is trusted, and import the folder"
            )
        elif posixpath.normpath(name) in self.members:
            raise Refused(f"{where} is in the archive twice; unpack it, and import the folder")
        else:
            self.members[posixpath.normpath(name)] = m

    def data(self, path):
        m = self.members[path]
        try:
            with self.zip.open(m) as f:
                data = f.read(m.file_size + 1)
        except NotImplementedError:
            raise Refused(
                f"{shown(self.path)}: {shown(path)}: compressed by method {m.compress_type}, which Python does not "
                "unpack; unpack the archive, and import the folder"
            ) from None
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError):
            raise LeftOut("a member of the archive is damaged: it does not unpack, or its CRC-32 is wrong") from None
        if len(data) != m.file_size:
            raise LeftOut("a member of the archive has another size than its header says")
        return data

    def record(self):
        return None  # the archive is a file, with a hash of its own


def is_zip(path):
    with open(path, "rb") as f:
        return f.read(4) in (b"PK\3\4", b"PK\5\6")


def tree_of(path, job):
    if os.path.isdir(path):
        return Folder(path, job)
    if os.path.isfile(path) and is_zip(path):
        job.file(path)
        return Zip(path, job)
    raise Refused(f"{shown(path)}: neither a folder nor a zip archive")
