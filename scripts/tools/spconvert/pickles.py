# SPDX-License-Identifier: MIT
"""Files of weights of PyTorch, as safetensors. What is in them is not run."""

import sys

from .net import write_weights
from .words import np

PLACES = (
    "state_dict",
    "model_state_dict",
    "model",
    "state_dict_ema",
    "model_ema",
    "net",
    "network",
    "module",
    "teacher",
    "ema",
    "generator",
    "backbone",
)


def tensors_of(torch, made):
    """The one table of tensors in what was saved, and where it was: the table itself, or under a usual name."""

    def own(table):
        return (
            {k: v for k, v in table.items() if isinstance(k, str) and isinstance(v, torch.Tensor)}
            if isinstance(table, dict)
            else {}
        )

    if own(made):
        return own(made), "", []
    found = [k for k in (made if isinstance(made, dict) else {}) if own(made[k])]
    known = [k for k in PLACES if k in found] or found
    return (own(made[known[0]]), known[0], [k for k in found if k != known[0]]) if known else ({}, "", [])


def convert(path, out):
    import inspect
    import torch

    how = {"weights_only": True} if "weights_only" in inspect.signature(torch.load).parameters else None
    if how is None:
        sys.exit(
            f"{path}: PyTorch {torch.__version__} can read it only by running what is in it: PyTorch 1.13 or later is wanted"
        )
    try:
        made = torch.load(path, map_location="cpu", **how)
    except Exception as why:  # of any kind: a damaged file, or one that has code
        words = " ".join(str(why).split())
        if "archive" in words or "central directory" in words or "EOF" in words or isinstance(why, EOFError):
            sys.exit(f"{path}: damaged or cut short: download it again")
        sys.exit(
            f"{path}: it has more than tensors, which is not run here; where you trust it, in Python: "
            "torch.save(torch.load(FILE, weights_only=False).state_dict(), OTHER)"
        )
    found, place, others = tensors_of(torch, made)
    if not found:
        sys.exit(f"{path}: no tensors by name were found in it; a state_dict is wanted")
    kept, left = {}, []
    double = sum(v.dtype == torch.float64 for v in found.values())
    for name, v in found.items():
        if v.is_sparse or v.is_quantized or v.is_complex():
            left.append(name)
        else:
            kept[name] = v.detach().contiguous().to(torch.float32 if v.is_floating_point() else torch.int64).numpy()
    if not kept:
        sys.exit(f"{path}: its tensors are sparse, quantized or complex, which safetensors does not have")
    try:
        write_weights(out + ".safetensors", {k: np.asarray(v) for k, v in kept.items()})
    except OSError as why:
        sys.exit(f"{out}.safetensors: {why.strerror or why}")
    print(
        f"{out}.safetensors: {len(kept)} tensors, {sum(v.size for v in kept.values())} numbers"
        + (f", those of '{place}'" if place else "")
        + (f" (not of {', '.join(others)})" if others else "")
    )
    if double:
        print(f"float64 ({double} tensor{'s' * (double != 1)}): written as float32, which rounds them")
    if left:
        print(f"left out, since sparse, quantized or complex: {', '.join(left[:3])}{' ...' if len(left) > 3 else ''}")
