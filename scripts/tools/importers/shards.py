# SPDX-License-Identifier: MIT
"""Tar files as WebDataset has them, the same bytes for the same samples."""

import hashlib
import os
import tarfile

BLOCK = 512
PLAIN = b"\0" * BLOCK


def _head():
    """A header without name, size and checksum, and the sum of what stands in it."""
    h = bytearray(PLAIN)
    h[100:108] = b"0000644\0"
    h[108:116] = h[116:124] = b"0000000\0"
    h[136:148] = b"00000000000\0"
    h[148:156] = b"        "
    h[156:157] = b"0"
    h[257:265] = b"ustar\x0000"
    return bytes(h), sum(h)


HEAD, HEAD_SUM = _head()


def header(name, size):
    """Of a file of no user, from 1970."""
    if len(name) < 100 and size < 8 << 30 and name.isascii():
        n, s = name.encode(), b"%011o" % size
        total = b"%06o\0 " % (HEAD_SUM + sum(n) + sum(s))
        return n + HEAD[len(n) : 124] + s + HEAD[135:148] + total + HEAD[156:]
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o644
    return info.tobuf(tarfile.PAX_FORMAT)


class Shards:
    """The shards of one part, in a folder."""

    def __init__(self, folder, part, limit):
        self.folder, self.part, self.limit = folder, part, limit
        self.done, self.file, self.n = [], None, 0
        self.pieces, self.waiting = [], 0

    def _flush(self):
        data = b"".join(self.pieces)
        self.pieces, self.waiting = [], 0
        self.file.write(data)
        self.hash.update(data)
        self.bytes += len(data)

    def _open(self):
        self.name = f"{self.part}-{len(self.done):06d}.tar"
        self.file = open(os.path.join(self.folder, self.name), "xb", buffering=0)
        self.hash, self.bytes, self.samples = hashlib.sha256(), 0, 0

    def _close(self):
        self.pieces.append(PLAIN * 2)
        self._flush()
        os.fsync(self.file.fileno())
        self.file.close()
        self.file = None
        self.done.append(
            {"file": self.name, "samples": self.samples, "bytes": self.bytes, "sha256": self.hash.hexdigest()}
        )

    def add(self, members):
        """The members of one sample, (name, bytes), which stay in one shard."""
        size = sum(BLOCK + (len(data) + BLOCK - 1) // BLOCK * BLOCK for _, data in members)
        if self.file and self.bytes + self.waiting + size + 2 * BLOCK > self.limit and self.samples:
            self._close()
        if not self.file:
            self._open()
        for name, data in members:
            self.pieces += (header(name, len(data)), data)
            if len(data) % BLOCK:
                self.pieces.append(PLAIN[len(data) % BLOCK :])
        self.waiting += size
        self.samples += 1
        self.n += 1
        if self.waiting >= 1 << 20:
            self._flush()

    def finish(self):
        if self.file:
            self._close()
        return self.done
