# SPDX-License-Identifier: MIT
"""Reads an ONNX file and computes it with PyTorch's functions, for tests where neither onnx nor ONNX Runtime is there: load(path) gives
a Model. Bytes are read as onnx.proto numbers its fields, operators do what their page of opset 17 says."""
import struct

import numpy as np
import torch
from torch.nn import functional as F

TYPES = {1: np.float32, 2: np.uint8, 7: np.int64}


def varint(data, at):
    value, shift = 0, 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """{ number: [value, ...] } of a message."""
    found, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
            assert len(value) == size
        else:
            assert key & 7 == 5
            value, at = struct.unpack("<f", data[at:at + 4])[0], at + 4
        found.setdefault(key >> 3, []).append(value)
    return found


def ints(found):
    """A repeated field of whole numbers: packed, as spcore writes it, or one by one, as PyTorch and onnx do."""
    values = []
    for data in found:
        at = 0
        while not isinstance(data, int) and at < len(data):
            value, at = varint(data, at)
            values.append(value)
        values += [data] if isinstance(data, int) else []
    return [v - (1 << 64) if v >> 63 else v for v in values]


def text(data):
    return bytes(data).decode()


def tensor(data):
    f = fields(data)
    shape = ints(f.get(1, []))
    a = np.frombuffer(f[9][0], TYPES[f[2][0]]).reshape(shape)
    return text(f[8][0]), torch.from_numpy(a.copy())


def attribute(data):
    f = fields(data)
    value = {1: lambda: f[2][0], 2: lambda: f[3][0], 3: lambda: text(f[4][0]), 7: lambda: ints(f[8])}[f[20][0]]()
    return text(f[1][0]), value


def value_info(data):
    f = fields(data)
    kind = fields(fields(f[2][0])[1][0])
    dims = [fields(d) for d in fields(kind[2][0]).get(1, [])]
    return text(f[1][0]), TYPES[kind[1][0]], [d[1][0] if 1 in d else text(d[2][0]) for d in dims]


def pads(a):
    top, left, bottom, right = a.get("pads", [0, 0, 0, 0])
    assert (top, left) == (bottom, right)
    return (top, left)


def resize(a, x, _roi, scales=None, sizes=None):
    size = [int(round(n * s)) for n, s in zip(x.shape[2:], scales.tolist()[2:])] if sizes is None else sizes.tolist()[2:]
    assert sizes is None or sizes.tolist()[:2] == list(x.shape[:2])
    if a["mode"] == "nearest":
        assert (a["coordinate_transformation_mode"], a["nearest_mode"]) == ("asymmetric", "floor")
        return F.interpolate(x, size=size)
    aligned = a["coordinate_transformation_mode"] == "align_corners"
    assert a["mode"] == "linear" and (aligned or a["coordinate_transformation_mode"] == "half_pixel")
    return F.interpolate(x, size=size, mode="bilinear", align_corners=aligned)


def reshape(_, x, shape):
    return x.reshape([x.shape[i] if n == 0 else n for i, n in enumerate(shape.tolist())])


def unsqueeze(_, x, axes):
    for axis in axes.tolist():
        x = x.unsqueeze(axis)
    return x


def average(a, x):
    assert a["count_include_pad"] == 1
    return F.avg_pool2d(x, a["kernel_shape"], a["strides"], pads(a))


OPS = {
    "Add": lambda a, x, y: x + y, "Sub": lambda a, x, y: x - y, "Mul": lambda a, x, y: x * y, "Identity": lambda a, x: x,
    "Conv": lambda a, x, w, b=None: F.conv2d(x, w, b, a["strides"], pads(a), a["dilations"], a["group"]),
    "ConvTranspose": lambda a, x, w, b=None: F.conv_transpose2d(x, w, b, a["strides"], pads(a), a["output_padding"], a["group"],
                                                               a["dilations"]),
    "Gemm": lambda a, x, w, b=None: F.linear(x, w, b) if a == {"transB": 1} else None,
    "BatchNormalization": lambda a, x, w, b, mean, var: F.batch_norm(x, mean, var, w, b, eps=a["epsilon"]),
    "InstanceNormalization": lambda a, x, w, b: F.instance_norm(x, weight=w, bias=b, eps=a["epsilon"]),
    "MaxPool": lambda a, x: F.max_pool2d(x, a["kernel_shape"], a["strides"], pads(a)), "AveragePool": average,
    "GlobalAveragePool": lambda a, x: x.mean((2, 3), keepdim=True), "Flatten": lambda a, x: x.flatten(a["axis"]),
    "Concat": lambda a, *x: torch.cat(x, a["axis"]), "Shape": lambda a, x: torch.tensor(x.shape)[a.get("start", 0):a.get("end", None)],
    "Relu": lambda a, x: F.relu(x), "Sigmoid": lambda a, x: torch.sigmoid(x), "Tanh": lambda a, x: torch.tanh(x),
    "Erf": lambda a, x: torch.erf(x), "Clip": lambda a, x, lo, hi: x.clamp(lo.item(), hi.item()),
    "HardSigmoid": lambda a, x: (x * a["alpha"] + a["beta"]).clamp(0, 1), "HardSwish": lambda a, x: F.hardswish(x),
    "LeakyRelu": lambda a, x: F.leaky_relu(x, a["alpha"]), "Cast": lambda a, x: x.float() if a["to"] == 1 else None,
    "Transpose": lambda a, x: x.permute(a["perm"]), "Resize": resize, "Reshape": reshape, "Unsqueeze": unsqueeze,
}


class Model:
    """inputs, outputs: (name, type, dimensions); metadata: {key: text}; model(x): the outputs, by name."""

    def __init__(self, data):
        f = fields(memoryview(data))
        self.opset, self.ir = fields(f[8][0])[2][0], f[1][0]
        self.metadata = {text(p[1][0]): text(p[2][0]) for p in map(fields, f.get(14, []))}
        graph = fields(f[7][0])
        self.inputs, self.outputs = [value_info(v) for v in graph[11]], [value_info(v) for v in graph[12]]
        self.constants = dict(map(tensor, graph.get(5, [])))
        self.nodes = [fields(n) for n in graph[1]]

    def __call__(self, x):
        values = {"": None, self.inputs[0][0]: x, **self.constants}
        for n in self.nodes:
            op, name = text(n[4][0]), text(n[2][0])
            assert name not in values, name
            values[name] = OPS[op](dict(map(attribute, n.get(5, []))), *(values[text(i)] for i in n[1]))
        return {name: values[name] for name, _, _ in self.outputs}


def load(path):
    with open(path, "rb") as f:
        return Model(f.read())
