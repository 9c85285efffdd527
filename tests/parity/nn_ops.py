# SPDX-License-Identifier: MIT
"""tests/kit/nn_ops.list for tests in Python: rows() is a list of Row. `nn_ops.row_7` is a function that makes the module of
rows()[7], which scripts/tools/spcore_convert.py knows as "nn_ops:row_7"."""
import collections
import functools
import json
import os
import re

import torch
from torch import nn
from torch.nn import functional as F

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit", "nn_ops.list")
ROW = re.compile(r'(?:OP|MORE)\((\w+), ([\w |]+), (\d+), (\([\d, ]+\)), (.*?), (\{ "\w+".*)\)$')


class Row(collections.namedtuple("Row", "id flags most shape make layers")):
    """make(): PyTorch's module. layers: the text of a Lua table."""

    def input(self, rng):
        return rng.uniform(-self.most, self.most, self.shape).astype("float32")

    def layer(self):
        """The one layer, as Stage takes it."""
        word, *fields = self.layers.strip("{ }").split(", ")
        return {1: word.strip('"'), **{k: json.loads(v) for k, v in (f.split(" = ") for f in fields)}}

    def last(self):
        """The first word of the last layer, as in { "conv"."""
        return re.findall(r'\{ "\w+"', re.sub(r'from = \{.*?\}', "", self.layers))[-1]

    def __str__(self):
        return f"{self.layers} of {' x '.join(map(str, self.shape))}"


class Of(nn.Module):
    """A function as a module."""

    def __init__(self, f):
        super().__init__()
        self.forward = f


class Block(nn.Module):
    """torchvision's BasicBlock, under its names."""

    def __init__(self, c, o, s):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(c, o, 3, s, 1, bias=False), nn.BatchNorm2d(o)
        self.conv2, self.bn2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
        self.downsample = None
        if s != 1 or c != o:
            self.downsample = nn.Sequential(nn.Conv2d(c, o, 1, s, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + (self.downsample(x) if self.downsample else x))


@functools.cache
def rows():
    with open(FILE, encoding="utf-8") as f:
        lines = [line.rstrip() for line in f if line.startswith(("OP(", "MORE("))]
    found = [ROW.match(line) for line in lines]
    for line in (line for line, m in zip(lines, found) if not m):
        raise ValueError(f"{FILE}: {line}: no row")
    names = {"nn": nn, "F": F, "torch": torch, "Of": Of, "Block": Block}
    return [Row(ident, set(flags.split(" | ")), int(most), eval(shape),  # pylint: disable=eval-used
                eval("lambda: " + module, names), layers)  # pylint: disable=eval-used
            for ident, flags, most, shape, module, layers in (m.groups() for m in found)]


def __getattr__(name):
    if not re.fullmatch(r"row_\d+", name):
        raise AttributeError(name)
    return lambda: nn.Sequential(rows()[int(name[4:])].make())
