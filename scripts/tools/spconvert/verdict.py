# SPDX-License-Identifier: MIT
"""What is said of a network that cannot be expressed, and what of one that can be is written beside its layers."""

import collections
import re

from .net import lua

TOKENS = ("attention", "linear on tokens", "matmul", "einsum", "a table of positions", "layer_norm", "softmax")


def kind_of(counts, problems):
    """What it looks like, in words, from what is missing."""
    said = " ".join(f"{node} {what} {words}".lower() for node, what, words in problems)
    if (
        counts["attention"]
        or "attn" in said
        and (counts["softmax"] or counts["matmul"])
        or counts["layer_norm"]
        and (counts["linear on tokens"] and counts["matmul"])
    ):
        return "a transformer"
    if counts["recurrent"]:
        return "a recurrent network"
    if counts["layer_norm"]:
        return "a network with layer norm, as ConvNeXt"
    return ""


def plain(what):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", what).lower().strip("_") if what != what.upper() else what.lower()


def of(model, problems, verbose):
    ours = [p for p in problems if p[0] is None]
    nodes = [p for p in problems if p[0] is not None]
    if ours and not nodes:
        return "\n".join(f"{model}: {words}" for _, _, words in ours)
    counts = collections.Counter(plain(what) for _, what, _ in nodes)
    kind = kind_of(counts, nodes)
    if kind == "a transformer" and counts["softmax"] and counts["matmul"] >= 2 * counts["softmax"]:
        counts["attention"] += counts.pop("softmax")
        del counts["matmul"]
    missing = ", ".join(f"{what} {n}x" for what, n in counts.most_common(8)) + (" ..." if len(counts) > 8 else "")
    lines = [
        f"{model} cannot be expressed in layers: " + (f"{kind}: " if kind else "") + f"what is missing here: {missing}"
    ]
    groups = {}
    for node, what, words in nodes:
        groups.setdefault((plain(what), words if len(groups) < 40 else "others"), []).append((node, what, words))
    if verbose:
        lines += [f"{node}: {what}: {words}" for node, what, words in nodes]
    else:
        ranked = sorted(groups.items(), key=lambda g: -counts[g[0][0]])
        for (what, words), found in ranked[:8]:
            first = found[0]
            more = f" and {len(found) - 1} more" if len(found) > 1 else ""
            lines.append(f"{first[0]}{more}: {first[1]}: {words}")
        if len(ranked) > 8:
            lines.append(f"... and {sum(len(f) for _, f in ranked[8:])} more: --verbose lists all {len(nodes)}")
        elif len(nodes) > len(ranked):
            lines.append(f"--verbose lists all {len(nodes)}")
    lines += [words for _, _, words in ours]
    return "\n  ".join(lines)


def about(network):
    """Fields of the table, as { key: the text of a value }: how images are prepared, where the network says so."""
    taps = network.net.pyramid() if not any("tap" in v[3] for v in network.net.layers.values()) else []
    fields = {"taps": "{ " + ", ".join(map(lua, taps)) + " }"} if taps else {}
    said = getattr(network, "preprocess", None)
    if not isinstance(said, dict):
        said = {k: getattr(said, k, None) for k in ("mean", "std", "interpolation", "crop_pct", "input_size")}
    mean, std = said.get("mean"), said.get("std")
    if not mean or not std or len(mean) != 3 or len(std) != 3:
        return fields
    crop = (said.get("input_size") or (3, 224, 224))[-1]
    how = said.get("interpolation")
    pct = said.get("crop_pct") or 0.875
    numbers = '{ mean = { %s }, std = { %s }, size = %d, crop = %d, interpolation = "%s" }' % (
        ", ".join(map(repr, mean)),
        ", ".join(map(repr, std)),
        int(crop / pct),
        crop,
        how if how in ("bicubic", "bilinear") else "bilinear",
    )
    return {**fields, "preprocess": numbers}
