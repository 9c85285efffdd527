# SPDX-License-Identifier: MIT
"""Graphs of ONNX for convert.py, each node with the meaning of its own operator set: cases() has models and what comes out by
formulas of this file, or which words refuse it. By hand, with ONNX Runtime: python3 convert_onnx.py compares it with all of them.
"""

import numpy as np
import torch
from torch.nn import functional as F

RNG = np.random.default_rng(6)
X = RNG.uniform(-2, 2, (2, 8, 6, 5)).astype(np.float32)
T = torch.from_numpy(X)
POSITIVE = torch.relu(T)


def node(op, *names, **attrs):
    """("Conv", "x", "w", "y"): the last is what comes out, or several as a tuple."""
    return op, names[:-1], names[-1] if isinstance(names[-1], tuple) else (names[-1],), attrs


def model(opset, nodes, known):
    from onnx import TensorProto, helper, numpy_helper

    made = [helper.make_node(op, list(ins), list(outs), outs[0], **attrs) for op, ins, outs, attrs in nodes]
    last = nodes[-1][2][0]
    io = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, list(X.shape)),
        helper.make_tensor_value_info(last, TensorProto.FLOAT, None),
    ]
    graph = helper.make_graph(
        made, "g", io[:1], io[1:], [numpy_helper.from_array(np.asarray(v), k) for k, v in known.items()]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8 if opset > 8 else 3)


def sampled(points, mode):
    """X at points = (rows, columns), between pixels; outside is the edge."""

    def axis(v, p, d):
        n = v.shape[d]
        p = np.clip(p, 0, n - 1)
        low = np.clip(np.floor(p), 0, n - 1).astype(int)
        high, part = np.minimum(low + 1, n - 1), p - low
        part = part.reshape([-1 if i == d else 1 for i in range(4)])
        return (
            np.take(v, low, d) * (1 - part) + np.take(v, high, d) * part
            if mode == "linear"
            else np.take(v, np.floor(p).astype(int), d)
        )

    return axis(axis(X.astype(np.float64), points[0], 2), points[1], 3)


def grid(f, rows, columns):
    return [np.array([f(i, n, m) for i in range(m)]) for n, m in ((6, rows), (5, columns))]


def resizes():
    def s(*v):
        return np.float32([1, 1, *v])

    def half(i, n, m):
        return (i + 0.5) * n / m - 0.5

    def plain(i, n, m):
        return i * n / m

    def corners(i, n, m):
        return i * (n - 1) / (m - 1)

    up, up3, near = s(2, 2), s(3, 3), {"mode": "nearest"}
    for opset, op, ins in ((10, "Resize", ("x", "up")), (9, "Upsample", ("x", "up"))):
        yield f"{op} linear", opset, [node(op, *ins, "y", mode="linear")], {"up": up}, sampled(
            grid(plain, 12, 10), "linear"
        )
        yield f"{op} linear by 3", opset, [node(op, *ins, "y", mode="linear")], {"up": up3}, sampled(
            grid(plain, 18, 15), "linear"
        )
        yield f"{op} linear, one side", opset, [node(op, *ins, "y", mode="linear")], {"up": s(1, 2)}, sampled(
            grid(plain, 6, 10), "linear"
        )
        yield f"{op} nearest", opset, [node(op, *ins, "y", **near)], {"up": s(2, 3)}, sampled(
            grid(plain, 12, 15), "nearest"
        )
        yield f"{op} nearest by 1.5", opset, [node(op, *ins, "y", **near)], {
            "up": s(1.5, 2)
        }, "does not say what is nearest"
    yield "Upsample attribute", 7, [node("Upsample", "x", "y", scales=[1.0, 1, 2, 2], mode="linear")], {}, sampled(
        grid(plain, 12, 10), "linear"
    )
    yield "Upsample input too early", 7, [node("Upsample", "x", "up", "y")], {
        "up": up
    }, "which operator set 7 has as an attribute"
    for opset in (11, 13, 18):
        for how, f in (
            ("half_pixel", half),
            ("pytorch_half_pixel", half),
            ("align_corners", corners),
            ("asymmetric", plain),
        ):
            yield f"Resize linear {how}", opset, [
                node("Resize", "x", "none", "up", "y", mode="linear", coordinate_transformation_mode=how)
            ], {"up": up, "none": np.zeros(0, np.float32)}, sampled(grid(f, 12, 10), "linear")
        yield "Resize linear without a word", opset, [node("Resize", "x", "none", "up", "y", mode="linear")], {
            "up": up3,
            "none": np.zeros(0, np.float32),
        }, sampled(grid(half, 18, 15), "linear")
    for how, near, f in (
        ("asymmetric", "floor", plain),
        ("half_pixel", "round_prefer_floor", plain),
        ("half_pixel", "round_prefer_ceil", plain),
        ("tf_half_pixel_for_nn", "floor", plain),
        ("half_pixel", "floor", half),
        ("asymmetric", "ceil", None),
        ("align_corners", "round_prefer_floor", plain),
    ):
        want = (
            sampled(grid(f, 12, 10), "nearest")
            if f and (how, near) != ("half_pixel", "floor")
            else "nearest by (2.0, 2.0), "
        )
        yield f"Resize nearest {how} {near}", 13, [
            node("Resize", "x", "", "up", "y", coordinate_transformation_mode=how, nearest_mode=near)
        ], {"up": up}, want
    yield "Resize to sizes", 13, [node("Resize", "x", "", "", "to", "y", mode="linear")], {
        "to": np.int64([2, 8, 9, 10])
    }, sampled(grid(half, 9, 10), "linear")
    yield "Resize of axes", 18, [node("Resize", "x", "", "up", "y", mode="linear", axes=[2, 3])], {
        "up": np.float32([2, 2])
    }, sampled(grid(half, 12, 10), "linear")
    yield "Resize half as high", 13, [
        node("Resize", "x", "", "up", "y", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    ], {"up": s(0.5, 1)}, X[:, :, ::2]
    yield "Resize cubic", 13, [node("Resize", "x", "", "up", "y", mode="cubic")], {
        "up": up
    }, "cubic: nearest and bilinear"
    yield "Resize with antialias", 18, [node("Resize", "x", "", "up", "y", mode="linear", antialias=1)], {
        "up": s(0.5, 0.5)
    }, "antialias"
    yield "Resize of channels", 13, [node("Resize", "x", "", "up", "y")], {
        "up": np.float32([1, 2, 1, 1])
    }, "of samples or channels"
    yield "Resize crop", 13, [
        node("Resize", "x", "roi", "up", "y", coordinate_transformation_mode="tf_crop_and_resize")
    ], {"up": up, "roi": np.zeros(8, np.float32)}, "tf_crop_and_resize"


def sums():
    c = np.arange(8, dtype=np.float32).reshape(8, 1, 1) - 3
    yield "Sum of two", 13, [node("Sum", "x", "x", "y")], {}, X + X
    yield "Sum of three", 8, [node("Relu", "x", "a"), node("Sum", "x", "a", "x", "y")], {}, X + POSITIVE.numpy() + X
    yield "Mean", 13, [node("Relu", "x", "a"), node("Mean", "x", "a", "y")], {}, (X + POSITIVE.numpy()) / 2
    yield "Add of a number", 13, [node("Add", "x", "c", "y")], {"c": np.float32(0.3)}, X + np.float32(0.3)
    yield "Add for channels", 13, [node("Add", "x", "c", "y")], {"c": c}, X + c
    yield "Add for columns", 13, [node("Add", "x", "c", "y")], {
        "c": np.arange(5, dtype=np.float32)
    }, "not one for each channel"
    yield "Add of an axis", 6, [node("Add", "x", "c", "y", broadcast=1, axis=1)], {"c": c.reshape(-1)}, X + c
    yield "Add without broadcast", 6, [node("Add", "x", "c", "y")], {
        "c": c.reshape(-1)
    }, "without broadcast, in operator set 6"
    yield "Mul by a number", 13, [node("Mul", "c", "x", "y")], {"c": np.float32([0.5])}, X / 2
    yield "Mul for channels", 13, [node("Mul", "x", "c", "y")], {"c": c}, X * c
    yield "Sub from a number", 13, [node("Sub", "c", "x", "y")], {"c": np.float32(1)}, 1 - X
    yield "Sub of maps", 13, [node("Relu", "x", "a"), node("Sub", "x", "a", "y")], {}, X - POSITIVE.numpy()
    yield "Div", 13, [node("Div", "x", "c", "y")], {"c": np.float32(4)}, X / 4
    yield "Div of maps", 13, [node("Relu", "x", "a"), node("Div", "x", "a", "y")], {}, "no layer does this"
    yield "Pow 2", 13, [node("Pow", "x", "c", "y")], {"c": np.float32(2)}, X * X
    yield "Max with a number", 13, [node("Max", "x", "c", "y")], {"c": np.float32(0.5)}, np.maximum(X, 0.5)
    yield "a mean added", 13, [node("GlobalAveragePool", "x", "m"), node("Add", "m", "x", "y")], {}, X + X.mean(
        (2, 3), keepdims=True
    )
    yield "one channel times all", 13, [
        node("ReduceMean", "x", "m", axes=[1]),
        node("Sigmoid", "m", "s"),
        node("Mul", "x", "s", "y"),
    ], {}, (T * torch.sigmoid(T.mean(1, keepdim=True))).numpy()


def functions():
    yield "Clip 6", 6, [node("Clip", "x", "y", min=0.0, max=1.0)], {}, np.clip(X, 0, 1)
    yield "Clip 6, ReLU6", 6, [node("Clip", "x", "y", min=0.0, max=6.0)], {}, np.clip(X, 0, 6)
    yield "Clip without limits", 6, [node("Relu", "x", "a"), node("Clip", "a", "y")], {}, POSITIVE.numpy()
    yield "Clip 11", 11, [node("Clip", "x", "a", "b", "y")], {"a": np.float32(-1), "b": np.float32(0.5)}, np.clip(
        X, -1, 0.5
    )
    yield "Clip 13, below", 13, [node("Clip", "x", "a", "y")], {"a": np.float32(-1)}, np.maximum(X, -1)
    yield "Clip 12, above", 12, [node("Clip", "x", "", "a", "y")], {"a": np.float32(1)}, np.minimum(X, 1)
    yield "Clip, attributes too late", 11, [
        node("Clip", "x", "y", min=0.0, max=6.0)
    ], {}, "which operator set 11 has as an input"
    yield "LeakyRelu", 6, [node("LeakyRelu", "x", "y", alpha=0.2)], {}, F.leaky_relu(T, 0.2).numpy()
    yield "PRelu", 9, [node("PRelu", "x", "w", "y")], {
        "w": np.linspace(0, 1, 8, dtype=np.float32).reshape(8, 1, 1)
    }, F.prelu(T, torch.linspace(0, 1, 8)).numpy()
    yield "PRelu of columns", 9, [node("PRelu", "x", "w", "y")], {
        "w": np.linspace(0, 1, 5, dtype=np.float32)
    }, "slopes of (5,)"
    yield "PRelu 6", 6, [node("PRelu", "x", "w", "y")], {"w": np.linspace(0, 1, 8, dtype=np.float32)}, F.prelu(
        T, torch.linspace(0, 1, 8)
    ).numpy()
    yield "HardSigmoid", 6, [node("HardSigmoid", "x", "y")], {}, np.clip(0.2 * X + 0.5, 0, 1)
    yield "HardSwish", 14, [node("HardSwish", "x", "y")], {}, F.hardswish(T).numpy()
    yield "hard swish of four", 13, [
        node("Add", "x", "3", "a"),
        node("Clip", "a", "0", "6", "b"),
        node("Mul", "x", "b", "c"),
        node("Div", "c", "6", "y"),
    ], {"0": np.float32(0), "3": np.float32(3), "6": np.float32(6)}, F.hardswish(T).numpy()
    yield "Tanh", 13, [node("Tanh", "x", "y")], {}, np.tanh(X)
    yield "Abs, Neg", 13, [node("Abs", "x", "a"), node("Neg", "a", "y")], {}, -np.abs(X)
    yield "Elu", 6, [node("Elu", "x", "y")], {}, "Elu: no layer does this"
    yield "Softmax", 11, [node("Softmax", "x", "y")], {}, "softmax 1x"
    yield "Cast", 13, [node("Cast", "x", "a", to=1), node("Relu", "a", "y")], {}, POSITIVE.numpy()
    yield "Cast to whole numbers", 13, [node("Cast", "x", "a", to=6), node("Relu", "a", "y")], {}, "to the type 6"
    yield "Dropout 6", 6, [node("Dropout", "x", "a", is_test=1), node("Relu", "a", "y")], {}, POSITIVE.numpy()
    yield "Dropout 6, trained", 6, [node("Dropout", "x", "a"), node("Relu", "a", "y")], {}, "in evaluation, too"
    yield "Dropout 10", 10, [node("Dropout", "x", "a", ratio=0.5), node("Relu", "a", "y")], {}, POSITIVE.numpy()
    yield "Dropout 12", 12, [node("Dropout", "x", "r", "a"), node("Relu", "a", "y")], {
        "r": np.float32(0.5)
    }, POSITIVE.numpy()
    yield "Dropout 12, trained", 12, [node("Dropout", "x", "r", "t", "a"), node("Relu", "a", "y")], {
        "r": np.float32(0.5),
        "t": np.bool_(True),
    }, "in evaluation, too"
    yield "Identity", 13, [node("Identity", "x", "a"), node("Relu", "a", "y")], {}, POSITIVE.numpy()


def norms():
    w, b, m = (RNG.uniform(-1, 1, 8).astype(np.float32) for _ in range(3))
    v = RNG.uniform(0.5, 2, 8).astype(np.float32)
    tensors = [torch.from_numpy(t) for t in (m, v, w, b)]
    known, names = {"w": w, "b": b, "m": m, "v": v}, ("x", "w", "b", "m", "v", "y")
    want = F.batch_norm(T, *tensors, eps=1e-3).numpy()
    yield "BatchNormalization 7", 7, [node("BatchNormalization", *names, epsilon=1e-3, spatial=1)], known, want
    yield "BatchNormalization 6", 6, [node("BatchNormalization", *names, epsilon=1e-3, is_test=1)], known, want
    yield "BatchNormalization 9", 9, [node("BatchNormalization", *names, epsilon=1e-3)], known, want
    yield "BatchNormalization, pixels", 7, [node("BatchNormalization", *names, spatial=0)], known, "spatial = 0"
    yield "BatchNormalization 14", 14, [node("BatchNormalization", *names, epsilon=1e-3, training_mode=0)], known, want
    yield "BatchNormalization 14, trained", 14, [
        node("BatchNormalization", *names, training_mode=1)
    ], known, "in training"
    yield "BatchNormalization 7, trained", 7, [
        node("BatchNormalization", *names[:-1], ("y", "m2", "v2", "sm", "sv"))
    ], known, "in training"
    yield "InstanceNormalization", 6, [node("InstanceNormalization", "x", "w", "b", "y")], known, F.instance_norm(
        T, weight=tensors[2], bias=tensors[3]
    ).numpy()
    two, three = w[:2].copy(), b[:2].copy()
    yield "GroupNormalization 18", 18, [node("GroupNormalization", "x", "w", "b", "y", num_groups=2)], {
        "w": two,
        "b": three,
    }, F.group_norm(T, 2, torch.from_numpy(np.repeat(two, 4)), torch.from_numpy(np.repeat(three, 4))).numpy()
    yield "GroupNormalization 21", 21, [
        node("GroupNormalization", "x", "w", "b", "y", num_groups=2)
    ], known, F.group_norm(T, 2, tensors[2], tensors[3]).numpy()
    yield "GroupNormalization 18 of channels", 18, [
        node("GroupNormalization", "x", "w", "b", "y", num_groups=2)
    ], known, "8 factors of 8 channels in operator set 18"
    yield "LayerNormalization", 17, [node("LayerNormalization", "x", "w", "y")], {
        "w": np.ones(5, np.float32)
    }, "layer_norm 1x"


def moves():
    flat, mean = X.reshape(2, -1), X.mean((2, 3))
    yield "Reshape 1", 1, [node("Reshape", "x", "y", shape=[0, -1])], {}, flat
    yield "Reshape 5", 5, [node("Reshape", "x", "to", "y")], {"to": np.int64([2, -1])}, flat
    yield "Flatten", 9, [node("Flatten", "x", "y")], {}, flat
    yield "Flatten from behind", 11, [node("Flatten", "x", "y", axis=-3)], {}, flat
    yield "Flatten of samples", 9, [node("Flatten", "x", "y", axis=2)], {}, "samples are joined"
    yield "Squeeze 11", 11, [node("GlobalAveragePool", "x", "m"), node("Squeeze", "m", "y", axes=[2, 3])], {}, mean
    yield "Squeeze 13", 13, [node("GlobalAveragePool", "x", "m"), node("Squeeze", "m", "a", "y")], {
        "a": np.int64([2, 3])
    }, mean
    yield "Squeeze 13, attribute", 13, [
        node("GlobalAveragePool", "x", "m"),
        node("Squeeze", "m", "y", axes=[2, 3]),
    ], {}, "as an attribute"
    yield "ReduceMean 13", 13, [node("ReduceMean", "x", "y", axes=[-2, -1], keepdims=0)], {}, mean
    yield "ReduceMean 18", 18, [node("ReduceMean", "x", "a", "y")], {"a": np.int64([3, 2])}, mean[:, :, None, None]
    yield "ReduceMean 18, attribute", 18, [
        node("ReduceMean", "x", "y", axes=[2, 3])
    ], {}, "which operator set 18 has as an input"
    yield "ReduceMean of all", 13, [node("ReduceMean", "x", "y")], {}, "of other dimensions"
    yield "ReduceSum 13", 13, [node("ReduceSum", "x", "a", "y", keepdims=0)], {"a": np.int64([2, 3])}, X.sum((2, 3))
    yield "GlobalMaxPool", 9, [node("GlobalMaxPool", "x", "y")], {}, X.max((2, 3), keepdims=True)
    shape = [
        node("GlobalAveragePool", "x", "m"),
        node("Shape", "x", "s"),
        node("Gather", "s", "0", "n"),
        node("Unsqueeze", "n", "u", axes=[0]),
        node("Concat", "u", "-1", "to", axis=0),
        node("Reshape", "m", "to", "y"),
    ]
    yield "a shape that is computed", 11, shape, {"0": np.int64(0), "-1": np.int64([-1])}, mean
    parts = ("a", "b", "c")
    yield "Split 2", 2, [
        node("Split", "x", parts, axis=1, split=[2, 2, 4]),
        node("Concat", "c", "a", "b", "y", axis=1),
    ], {}, X[:, [4, 5, 6, 7, 0, 1, 2, 3]]
    yield "Split 13", 13, [node("Split", "x", "n", parts, axis=1), node("Sum", "a", "b", "y")], {
        "n": np.int64([3, 3, 2])
    }, X[:, :3] + X[:, 3:6]
    yield "Split 18", 18, [node("Split", "x", parts, axis=1, num_outputs=3), node("Sum", "a", "b", "y")], {}, X[
        :, :3
    ] + X[:, 3:6]
    yield "Split of the first axis", 13, [node("Split", "x", ("a", "b")), node("Sum", "a", "b", "y")], {}, "samples"
    yield "Slice 1", 1, [
        node("Slice", "x", "a", starts=[2], ends=[5], axes=[1]),
        node("Relu", "a", "y"),
    ], {}, np.maximum(X[:, 2:5], 0)
    yield "Slice 10", 10, [node("Slice", "x", "b", "e", "a", "s", "y")], {
        "b": np.int64([1, 1]),
        "e": np.int64([8, 6]),
        "a": np.int64([1, 2]),
        "s": np.int64([3, 2]),
    }, X[:, 1::3, 1:6:2]
    yield "Slice backwards", 10, [node("Slice", "x", "b", "e", "a", "s", "y")], {
        "b": np.int64([7]),
        "e": np.int64([-9]),
        "a": np.int64([1]),
        "s": np.int64([-1]),
    }, X[:, ::-1]
    yield "Slice of samples", 10, [node("Slice", "x", "b", "e", "a", "y")], {
        "b": np.int64([0]),
        "e": np.int64([1]),
        "a": np.int64([0]),
    }, "samples"
    yield "Gather", 11, [node("Gather", "x", "i", "y", axis=1)], {"i": np.int64([3, 3, 0])}, X[:, [3, 3, 0]]
    yield "channels shuffled", 13, [
        node("Reshape", "x", "t", "a"),
        node("Transpose", "a", "b", perm=[0, 2, 1, 3, 4]),
        node("Reshape", "b", "f", "y"),
    ], {"t": np.int64([2, 2, 4, 6, 5]), "f": np.int64([2, 8, 6, 5])}, X.reshape(2, 2, 4, 6, 5).transpose(
        0, 2, 1, 3, 4
    ).reshape(
        X.shape
    )
    yield "rows and columns change places", 13, [node("Transpose", "x", "y", perm=[0, 1, 3, 2])], {}, "it moves pixels"
    yield "there and back", 13, [
        node("Transpose", "x", "a", perm=[0, 2, 3, 1]),
        node("Relu", "a", "b"),
        node("Transpose", "b", "y", perm=[0, 3, 1, 2]),
    ], {}, POSITIVE.numpy()
    yield "SpaceToDepth", 13, [node("Slice", "x", "b", "e", "a", "s"), node("SpaceToDepth", "s", "y", blocksize=2)], {
        "b": np.int64([0]),
        "e": np.int64([4]),
        "a": np.int64([3]),
    }, X[:, :, :, :4].reshape(2, 8, 3, 2, 2, 2).transpose(0, 3, 5, 1, 2, 4).reshape(2, 32, 3, 2)
    yield "DepthToSpace", 11, [node("DepthToSpace", "x", "y", blocksize=2, mode="CRD")], {}, F.pixel_shuffle(
        T, 2
    ).numpy()
    yield "DepthToSpace without a word", 11, [node("DepthToSpace", "x", "y", blocksize=2)], {}, X.reshape(
        2, 2, 2, 2, 6, 5
    ).transpose(0, 3, 4, 1, 5, 2).reshape(2, 2, 12, 10)
    yield "SE by matrices", 13, [
        node("ReduceMean", "x", "m", axes=[2, 3], keepdims=0),
        node("Gemm", "m", "w", "g", transB=1),
        node("Sigmoid", "g", "s"),
        node("Unsqueeze", "s", "a", "u"),
        node("Mul", "x", "u", "y"),
    ], {"w": np.eye(8, dtype=np.float32), "a": np.int64([2, 3])}, (
        T * torch.sigmoid(T.mean((2, 3), keepdim=True))
    ).numpy()


def windows():
    w = RNG.uniform(-1, 1, (4, 8, 3, 3)).astype(np.float32)
    d = RNG.uniform(-1, 1, (8, 1, 3, 3)).astype(np.float32)
    tw = torch.from_numpy(w)

    def conv(t, b, left, r, **how):
        return F.conv2d(F.pad(T, (left, r, t, b)), tw, **how).numpy()

    yield "Conv SAME_UPPER", 9, [node("Conv", "x", "w", "y", auto_pad="SAME_UPPER", strides=[2, 2])], {"w": w}, conv(
        0, 1, 1, 1, stride=2
    )
    yield "Conv SAME_LOWER", 9, [node("Conv", "x", "w", "y", auto_pad="SAME_LOWER", strides=[2, 2])], {"w": w}, conv(
        1, 0, 1, 1, stride=2
    )
    yield "Conv SAME, dilated", 9, [node("Conv", "x", "w", "y", auto_pad="SAME_UPPER", dilations=[2, 2])], {
        "w": w
    }, conv(2, 2, 2, 2, dilation=2)
    yield "Conv VALID", 9, [node("Conv", "x", "w", "y", auto_pad="VALID")], {"w": w}, conv(0, 0, 0, 0)
    yield "Conv SAME, depthwise", 9, [node("Conv", "x", "w", "y", auto_pad="SAME_UPPER", strides=[2, 2], group=8)], {
        "w": d
    }, F.conv2d(F.pad(T, (1, 1, 0, 1)), torch.from_numpy(d), stride=2, groups=8).numpy()
    yield "Pad 2 before Conv", 7, [node("Pad", "x", "p", pads=[0, 0, 1, 0, 0, 0, 2, 1]), node("Conv", "p", "w", "y")], {
        "w": w
    }, conv(1, 2, 0, 1)
    yield "Pad 11 before Conv", 11, [node("Pad", "x", "n", "p"), node("Conv", "p", "w", "y")], {
        "w": w,
        "n": np.int64([0, 0, 0, 1, 0, 0, 1, 2]),
    }, conv(0, 1, 1, 2)
    yield "Pad alone", 11, [node("Pad", "x", "n", "y")], {"n": np.int64([0, 0, 0, 1, 0, 0, 2, 0])}, F.pad(
        T, (1, 0, 0, 2)
    ).numpy()
    yield "Pad of axes", 18, [node("Pad", "x", "n", "", "a", "y")], {
        "n": np.int64([1, 0, 0, 2]),
        "a": np.int64([3, 2]),
    }, F.pad(T, (1, 0, 0, 2)).numpy()
    yield "Pad with ones", 2, [
        node("Pad", "x", "p", pads=[0, 0, 1, 1, 0, 0, 1, 1], value=1.0),
        node("Conv", "p", "w", "y"),
    ], {"w": w}, "padded with 1.0"
    yield "Pad by reflection", 11, [node("Pad", "x", "n", "y", mode="reflect")], {
        "n": np.int64([0, 0, 1, 1, 0, 0, 1, 1])
    }, "reflect: zeros"
    yield "Pad of nothing", 11, [node("Pad", "x", "n", "a", mode="reflect"), node("Relu", "a", "y")], {
        "n": np.zeros(8, np.int64)
    }, POSITIVE.numpy()
    low = np.float32(-3.4e38)
    yield "Pad for MaxPool", 11, [
        node("Pad", "x", "n", "v", "p"),
        node("MaxPool", "p", "y", kernel_shape=[3, 3], strides=[2, 2]),
    ], {"n": np.int64([0, 0, 1, 1, 0, 0, 1, 1]), "v": low}, F.max_pool2d(T, 3, 2, 1).numpy()
    yield "MaxPool SAME of what is above 0", 11, [
        node("Relu", "x", "a"),
        node("MaxPool", "a", "y", kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER"),
    ], {}, F.max_pool2d(F.pad(POSITIVE, (1, 1, 0, 1)), 3, 2).numpy()
    yield "MaxPool SAME of others", 11, [
        node("MaxPool", "x", "y", kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER")
    ], {}, "of numbers below 0"
    yield "MaxPool up, above 0", 10, [
        node("Relu", "x", "a"),
        node("MaxPool", "a", "y", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
    ], {}, F.max_pool2d(POSITIVE, 2, ceil_mode=True).numpy()
    yield "MaxPool up, others", 10, [
        node("MaxPool", "x", "y", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    ], {}, "past the edge of 6 x 5"
    yield "AveragePool up", 10, [
        node("AveragePool", "x", "y", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    ], {}, F.avg_pool2d(T, 3, 2, ceil_mode=True).numpy()
    yield "MaxPool up, without a rest", 10, [
        node("MaxPool", "x", "y", kernel_shape=[2, 1], strides=[2, 1], ceil_mode=1)
    ], {}, F.max_pool2d(T, (2, 1)).numpy()
    yield "AveragePool, padding counts", 7, [
        node("AveragePool", "x", "y", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
    ], {}, F.avg_pool2d(T, 3, 1, 1).numpy()
    yield "AveragePool, padding does not", 7, [
        node("AveragePool", "x", "y", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    ], {}, F.avg_pool2d(T, 3, 1, 1, count_include_pad=False).numpy()
    yield "AveragePool 1", 1, [
        node("AveragePool", "x", "y", kernel_shape=[2, 3], strides=[2, 1], pads=[1, 1, 1, 1])
    ], {}, F.avg_pool2d(T, (2, 3), (2, 1), 1, count_include_pad=False).numpy()
    yield "MaxPool with places", 8, [
        node("MaxPool", "x", ("p", "i"), kernel_shape=[2, 2]),
        node("Add", "p", "i", "y"),
    ], {}, "second result, i, is read"
    fc = RNG.uniform(-1, 1, (240, 5)).astype(np.float32)
    yield "Gemm", 9, [node("Flatten", "x", "f"), node("Gemm", "f", "w", "b", "y", alpha=0.5, beta=2.0)], {
        "w": fc,
        "b": np.ones(5, np.float32),
    }, X.reshape(2, -1) @ fc * 0.5 + 2
    yield "MatMul", 13, [node("Flatten", "x", "f"), node("MatMul", "f", "w", "m"), node("Add", "m", "b", "y")], {
        "w": fc,
        "b": np.arange(5, dtype=np.float32),
    }, X.reshape(2, -1) @ fc + np.arange(5)


def cases():
    """Name, operator set, model, what comes out or words of the refusal."""
    for part in (resizes, sums, functions, norms, moves, windows):
        for name, opset, nodes, known, want in part():
            yield f"ONNX {opset}: {name}", model(opset, nodes, known), want


def run(r, layers_of, convert):
    from onnx import save
    from spconvert.onnx_net import Onnx
    from spstage import Lua, Stage

    for name, made, want in cases():
        save(made, "case.onnx")
        if isinstance(want, str):
            said = convert("case.onnx", "-o", "case")
            r.true(f"{name}: refused", want in said and " cannot be expressed in layers: " in said, said)
            continue
        text, weights = layers_of(Onnx("case.onnx", None))
        if r.true(name, text, str(weights)):
            stage = Stage("layers", {"layers": Lua(text)}, inputs=[X], training=False, frozen=True)
            stage.set_weights(weights)
            out = stage.forward()["features"]
            r.near(name, out, np.asarray(want, np.float32), 1e-5)


def compare():
    """Are the formulas those of ONNX Runtime?"""
    import onnxruntime

    for name, made, want in cases():
        if not isinstance(want, str):
            try:
                y = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"]).run(
                    None, {"x": X}
                )[0]
                error = np.abs(y - want).max() if y.shape == np.shape(want) else f"{y.shape}, not {np.shape(want)}"
                print("" if isinstance(error, float | np.floating) and error < 1e-4 else "DIFFERS ", name, error)
            except Exception as why:
                print("not run:", name, " ".join(str(why).split())[:150])


if __name__ == "__main__":
    compare()
