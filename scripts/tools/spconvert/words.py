# SPDX-License-Identifier: MIT
"""Words, shapes and numbers that all of the converter has."""

try:
    import numpy as np
except ImportError:
    np = None  # --help does without, and demand() of spcore_convert.py says it


class Refused(Exception):
    """What a layer cannot do, in words. what: what the operation is called in the verdict, where that is not its own name."""

    def __init__(self, words, what=None):
        super().__init__(words)
        self.what = what


SHARED = "have the weights of another layer, and a copy of their own here, which is trained by itself"


def say_kinds(source, counts):
    """Of numbers in other types than float32: { type: how many tensors }."""
    for kind, n in sorted(counts.items()):
        less = ", which rounds them" if kind == "float64" else ""
        what = f"{n} tensor{'s' * (n != 1)}" if n else "casts alone"
        print(f"{source}: {kind} ({what}): written and computed as float32{less}")


def two(v):
    return tuple(v) if isinstance(v, (tuple, list)) else (v, v)


def pair(v, left_out=None):
    """One number where height and width have the same; None where that is what is left out."""
    v = [int(x) for x in v]
    v = v[0] if len(set(v)) == 1 else v
    return None if v == left_out else v


def is_all(index, n, ordered):
    """Are these all places of n, each once?"""
    return index.size == n and ((index.reshape(-1) if ordered else np.sort(index, None)) == np.arange(n)).all()


def by(shape):
    return " x ".join(["N", *map(str, shape)])
