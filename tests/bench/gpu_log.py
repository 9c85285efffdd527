# SPDX-License-Identifier: MIT
"""Reads what cuda_log.so wrote: times in seconds of the monotonic clock, calls with the functions they came through."""

import bisect
import os
import struct

KINDS = {1: "pageable", 2: "pinned", 3: "device", 4: "array", 5: "managed", 6: "static", 7: "managed static"}


def environment(b, path, what):
    if os.path.exists(path):
        os.remove(path)
    module = os.path.join(b.a.build, "tests", "bench", ".libs", "cuda_log.so")
    return {**os.environ, "CUDA_INJECTION64_PATH": module, "SP_CUDA_LOG": path, "SP_CUDA_LOG_WHAT": what}


class Symbols:
    """Functions of a shared object, static ones too, by address."""

    def __init__(self, path):
        self.at, self.names = [], []
        try:
            with open(path, "rb") as f:
                self.parse(f.read())
        except (OSError, struct.error, IndexError):
            pass

    def parse(self, d):
        if d[:5] != b"\x7fELF\x02":
            return
        at, size, count = struct.unpack_from("<Q", d, 0x28)[0], *struct.unpack_from("<HH", d, 0x3A)
        sections = [struct.unpack_from("<IIQQQQIIQQ", d, at + i * size) for i in range(count)]
        found = {}
        for s in sections:
            if s[1] not in (2, 11):  # SHT_SYMTAB, SHT_DYNSYM
                continue
            words = sections[s[6]][4]
            for k in range(s[4], s[4] + s[5], 24):
                name, info, _, _, value, _ = struct.unpack_from("<IBBHQQ", d, k)
                if info & 15 == 2 and value:  # a function that is defined here
                    found[value] = d[words + name : d.index(b"\0", words + name)].decode("ascii", "replace")
        for value in sorted(found):
            self.at.append(value)
            self.names.append(found[value])

    def name(self, address):
        i = bisect.bisect_right(self.at, address) - 1
        return self.names[i] if i >= 0 else "?"


def frames(fields, symbols):
    """(module's base name, function, offset) from the inside out; libraries, which have no stage, are left out."""
    out = []
    for field in fields:
        module, offset = field.rsplit("+", 1)
        base = os.path.basename(module)
        if base.startswith("lib") and not base.startswith("libspcore"):
            continue
        if module not in symbols:
            symbols[module] = Symbols(module)
        out.append((base, symbols[module].name(int(offset, 16) - 1), offset))
    return out


def read(path):
    """{"memory": [...], "work": [...], "calls": {correlation: frames}, "why": what is missing, if so}"""
    out = {"memory": [], "work": [], "calls": {}, "why": None}
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            lines = [line.rstrip("\n").split("\t") for line in f]
    except OSError:
        out["why"] = "nothing was written; tests/bench/cuda_log.so wants libcupti, and a build with CUDA"
        return out
    zero, symbols = 0, {}
    for w in lines:
        if w[0] == "failed":
            out["why"] = "CUPTI: " + w[1]
        elif w[0] == "clock":
            zero = int(w[2]) - int(w[1])
        elif w[0] == "memory":
            out["memory"].append(
                {
                    "time": (int(w[1]) + zero) * 1e-9,
                    "what": {"1": "alloc", "2": "free"}.get(w[2], "?"),
                    "kind": KINDS.get(int(w[3]), w[3]),
                    "bytes": int(w[4]),
                }
            )
        elif w[0] in ("kernel", "copy", "fill"):
            e = {
                "what": w[0],
                "begin": (int(w[1]) + zero) * 1e-9,
                "end": (int(w[2]) + zero) * 1e-9,
                "correlation": int(w[4]),
            }
            e["name"] = w[5] if w[0] == "kernel" else w[0]
            e["bytes"] = int(w[-1]) if w[0] != "kernel" else 0
            out["work"].append(e)
        elif w[0] == "call":  # the outermost call of one correlation comes first and is the one that is kept
            out["calls"].setdefault(int(w[1]), frames(w[2:], symbols))
    return out
