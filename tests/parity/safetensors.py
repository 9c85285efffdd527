# SPDX-License-Identifier: MIT
# needs: jansson
"""Weight files against Python's safetensors library, both ways."""
import os
import sys
import tempfile

try:
    # this file has the library's name: keep its own folder out of the way of the import
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != here]
    from safetensors.numpy import load_file as their_load, save_file as their_save
except ImportError:
    print("skipped: safetensors is not installed (pip install safetensors)")
    sys.exit(77)
sys.path.insert(0, here)
from spstage import Report, load_file, save_file

import numpy as np

r = Report()
rng = np.random.default_rng(1)
TENSORS = {
    "encoder.0.weight": rng.standard_normal((16, 3, 2, 2)).astype(np.float32),
    "encoder.0.bias": rng.standard_normal(16).astype(np.float32),
    "masks": rng.integers(0, 255, (3, 5)).astype(np.uint8),
    "signed": rng.integers(-100, 100, 7).astype(np.int8),
    "step": np.array(12, np.int64),
    "half": rng.standard_normal((2, 3)).astype(np.float16),
    "double": rng.standard_normal((4, 1, 2)),
    "int": rng.integers(-5, 5, (2, 2)).astype(np.int32),
    "empty": np.zeros((0, 4), np.float32),
    "nämé \"quoted\" \\ 日本": np.arange(3, dtype=np.float32),
}


def same(label, got, want):
    r.true(f"{label}: names", sorted(got) == sorted(want), f"{sorted(got)}")
    for name, a in want.items():
        if name in got:
            r.same(f"{label}: {name}", got[name], a)


with tempfile.TemporaryDirectory() as tmp:
    for label, tensors in (("all types", TENSORS), ("no tensors", {}),
                           ("many", {f"layer.{i}.w": np.full(i % 7, i, np.float32) for i in range(500)})):
        ours, theirs = os.path.join(tmp, "a.safetensors"), os.path.join(tmp, "b.safetensors")
        save_file(ours, tensors)
        same(f"written here, read there, {label}", their_load(ours), tensors)
        same(f"written here, read here, {label}", load_file(ours), tensors)
        their_save(tensors, theirs)
        same(f"written there, read here, {label}", load_file(theirs), tensors)
    their_save({"a": np.zeros(2, np.float32)}, theirs, metadata={"format": "pt"})
    same("with metadata", load_file(theirs), {"a": np.zeros(2, np.float32)})
    r.true("nothing left beside", sorted(os.listdir(tmp)) == ["a.safetensors", "b.safetensors"], str(os.listdir(tmp)))
    their_save({"a": np.zeros(2, np.uint16)}, theirs)
    r.fails("a type that is not taken", "tensor 'a': dtype 'U16' is not taken", lambda: load_file(theirs))
    r.fails("a missing file", "No such file", lambda: load_file(os.path.join(tmp, "none.safetensors")))
r.exit()
