# SPDX-License-Identifier: MIT
"""A graph of ONNX in layers, node by node, each with the meaning that it has in the operator set that the file names."""

import math
import operator
import sys

from . import onnx_file
from .net import Net
from .onnx_moves import Moves
from .onnx_numbers import Numbers
from .onnx_sizes import Sizes
from .words import SHARED, Refused, by, is_all, np, say_kinds

KNOWN = 25  # the last operator set whose pages were read
POOL = "auto_pad ceil_mode dilations kernel_shape pads strides"
OLD = "consumed_inputs "  # says nothing of values
ATTRIBUTES = {  # that are looked at or change nothing here; others have to be 0 or what they are without a word
    "Add": "broadcast axis",
    "Sub": "broadcast axis",
    "Mul": "broadcast axis",
    "Div": "broadcast axis",
    "PRelu": "broadcast",
    "AveragePool": POOL + " count_include_pad",
    "BatchNormalization": "epsilon momentum training_mode spatial is_test",
    "Cast": "to saturate",
    "Clip": "max min",
    "Concat": "axis",
    "ConstantOfShape": "value",
    "Conv": POOL + " group",
    "ConvTranspose": POOL + " group output_padding",
    "DepthToSpace": "blocksize mode",
    "Dropout": "ratio seed is_test",
    "Flatten": "axis",
    "Gather": "axis",
    "Gemm": "alpha beta broadcast transA transB",
    "Gelu": "approximate",
    "GroupNormalization": "epsilon num_groups stash_type",
    "HardSigmoid": "alpha beta",
    "Softmax": "axis",
    "InstanceNormalization": "epsilon",
    "LeakyRelu": "alpha",
    "MaxPool": POOL + " storage_order",
    "Pad": "mode pads paddings value",
    "ReduceMax": "axes keepdims noop_with_empty_axes",
    "ReduceMean": "axes keepdims noop_with_empty_axes",
    "ReduceSum": "axes keepdims noop_with_empty_axes",
    "Resize": "antialias axes coordinate_transformation_mode cubic_coeff_a keep_aspect_ratio_policy mode nearest_mode",
    "Reshape": "allowzero shape",
    "Shape": "start end",
    "Slice": "axes ends starts steps",
    "SpaceToDepth": "blocksize",
    "Split": "axis num_outputs split",
    "Squeeze": "axes",
    "Transpose": "perm",
    "Unsqueeze": "axes",
    "Upsample": "mode scales height_scale width_scale",
}
# What is done to each number alone. Several such nodes may be one function, which is found by its values.
STEPS = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Div": operator.truediv,
    "Pow": operator.pow,
    "Tanh": lambda x: np.tanh(x),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "HardSigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "Erf": lambda x: np.array([math.erf(v) for v in x]),
    "Neg": operator.neg,
    "Clip": lambda x, low, high: np.clip(x, low, high),
    "Relu": lambda x: np.maximum(x, 0),
}
FUNCTIONS = [  # layers, and what they do to a number
    ({"kind": "silu"}, lambda x: x / (1 + math.exp(-x))),
    ({"kind": "hard_swish"}, lambda x: x * min(max(x + 3, 0), 6) / 6),
    ({"kind": "hard_sigmoid"}, lambda x: min(max(x + 3, 0), 6) / 6),
    ({"kind": "gelu"}, lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2),
    (
        {"kind": "gelu", "approximate": "tanh"},
        lambda x: x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    ),
]
FLOAT_NAMES = ("FLOAT", "DOUBLE", "FLOAT16")  # of operator set 1
PLAIN = {"Relu": "relu", "Sigmoid": "sigmoid", "HardSwish": "hard_swish"}
MOVES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Split", "Gather", "SpaceToDepth")
WORDS = {
    "LayerNormalization": "layer_norm",
    "Attention": "attention",
    "MultiHeadAttention": "attention",
    "LSTM": "recurrent",
    "GRU": "recurrent",
    "RNN": "recurrent",
    "Softmax": "softmax",
    "LogSoftmax": "softmax",
}


class Onnx(Numbers, Moves, Sizes):
    """net: the layers; finish() gives the result's and the taps' names."""

    def __init__(self, path, shape, output=None, taps=()):
        """output: the value that is the result, in place of what the file gives out."""
        self.path = path
        self.model, kinds, self.not_inline = onnx_file.read(path)
        graph = self.model.graph
        if output:
            onnx_file.end_with(graph, output, taps)
        self.opset = onnx_file.set_of(self.model.opset_import) or 1
        self.known = {t.name: self.array(t) for t in graph.initializer}
        self.known.update({s.values.name: onnx_file.dense(path, s) for s in graph.sparse_initializer})
        self.say(kinds)
        ins = [i for i in graph.input if i.name not in self.known]
        self.batch, shape = self.shape_of(path, ins[0], shape) if ins else (1, shape or (3, 224, 224))
        self.net, self.name = Net(shape), ins[0].name if ins else ""
        self.readers = [n for node in graph.node for n in node.input] + [o.name for o in graph.output]
        self.points = np.linspace(-8, 8, 161)
        self.functions = [(how, np.array([f(x) for x in self.points])) for how, f in FUNCTIONS]
        self.steps = {}  # value: {an earlier value: what the value is where that is self.points}
        self.between = {}  # a value that no layer makes, but is a step: which node made it
        self.fresh = set()  # values of a group norm that has no weights yet
        self.pads = {}  # value: what is to be padded, by how much, with which number
        self.at = {
            i.name: ("input", None, (self.batch, *shape)) for i in ins
        }  # value: layer, places in a sample, shape
        self.names, self.outs = {}, [o.name for o in graph.output]
        if len(ins) != 1:
            self.net.refuse("input", "input", f"{', '.join(i.name for i in ins) or 'none'}: one is wanted")
        if not 1 <= self.opset:
            sys.exit(f"{path}: operator set {self.opset}")
        self.made = {o for node in graph.node for o in node.output}
        self.copied = set()  # names of weights that a layer has
        self.take_all(graph.node)

    def array(self, tensor):
        return onnx_file.array(self.path, tensor)

    def say(self, kinds):
        """Before what is written."""
        say_kinds(self.path, kinds)
        if self.opset > KNOWN:
            later = f"operator set {self.opset} is later than those that are known here"
            print(f"{self.path}: {later}: nodes mean what they do in {KNOWN}")

    def take_all(self, nodes):
        from onnx import helper

        for node in nodes:
            if not all(a.type for a in node.attribute):  # a later onnx makes it None
                sys.exit(f"{self.path}: damaged: {node.name or node.op_type} has an attribute without a type")
            attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            self.take(node, {k: v.decode(errors="replace") if isinstance(v, bytes) else v for k, v in attrs.items()})

    @staticmethod
    def shape_of(path, value, shape):
        """Batch and C, H, W: the file's, where it says them."""
        dims = [d.dim_value for d in value.type.tensor_type.shape.dim]
        if len(dims) == 2 and dims[1] and shape is None:
            return dims[0] or 2, (dims[1],)
        if dims and len(dims) != 4:
            sys.exit(f"{path}: input {value.name} is {' x '.join(map(str, dims))}, and an image is N x C x H x W")
        dims = dims or [0] * 4
        if shape is None:
            shape = [d or e for d, e in zip(dims[1:], (3, 224, 224))]
            channels = {1, 3, 4}
            if dims[3] in channels and dims[1] == dims[2] and dims[1] not in {0, *channels}:
                shape = (0, 0, 0)
        if any(d and d != s for d, s in zip(dims[1:], shape)):
            if dims[3] in (1, 3, 4) and dims[1] not in (1, 3, 4):
                sys.exit(
                    f"{path}: input {value.name} is N x H x W x C; N x C x H x W is wanted (tf2onnx: --inputs-as-nchw)"
                )
            sys.exit(
                f"--input {'x'.join(map(str, shape))}: the file is made for {'x'.join(str(d or '?') for d in dims[1:])}"
            )
        return dims[0] or 2, tuple(shape)

    # ---- values ----

    def place(self, name):
        if name in self.between:  # of no function that is known
            self.net.problems.append(self.between.pop(name))
            self.at[name] = self.skipped(name, None)
        if name in self.pads:
            inner, pads, value, shape = self.pads.pop(name)
            if value != 0:
                raise Refused(f"it reads {name}, which is padded with {value}: zeros are possible")
            self.at[name] = (self.net.pad(self.names.get(name, name), self.src(inner), pads), None, shape)
        if name not in self.at:
            raise Refused(f"it reads {name}, which is no map")
        return self.at[name]

    def skipped(self, name, shape):
        """Stands for a value that cannot be, so that what follows is looked at, too."""
        layer = f"?{name}"
        shape = shape or (self.batch, *self.net.shapes["input"])
        self.net.shapes[layer] = tuple(shape[1:])
        return layer, None, shape

    def src(self, name):
        """The layer whose numbers the value has, in its shape."""
        layer, index, shape = self.place(name)
        if index is None and self.net.shapes[layer] == shape[1:]:
            return layer
        index = (np.arange(math.prod(self.net.shapes[layer])) if index is None else index).reshape(shape[1:])
        if shape[0] != self.batch:
            raise Refused(f"{name} is {' x '.join(map(str, shape))}: samples are joined or taken apart")
        return self.net.once(
            (layer, index.shape, index.tobytes()), lambda: self.net.gather(self.names.get(name, name), layer, index)
        )

    def as_is(self, name, ordered=False):
        """Layer, places and shape, for what is done to each number: it does not matter where they are, as long as all are there.
        ordered: it matters, but not their shape."""
        layer, index, shape = self.place(name)
        if index is None or is_all(index, math.prod(self.net.shapes[layer]), ordered):
            return layer, index, shape
        return self.src(name), None, shape

    def shape(self, name):
        if name in self.pads:
            return self.pads[name][3]
        return self.at[name][2] if name in self.at else self.known[name].shape if name in self.known else None

    def is_map(self, name):
        return name in self.at or name in self.pads or name in self.between

    def take(self, node, a):
        op, name = node.op_type, self.name_of(node)
        self.names[node.output[0]] = name
        try:
            if op == "If":
                self.branch(node, a)
                return
            if not any(self.is_map(n) for n in node.input):
                self.constant(node, op, a)
                return
            if node.domain not in ("", "ai.onnx"):
                raise Refused(self.foreign(node), WORDS.get(op))
            if any(n in self.readers for n in node.output[1:] if n) and op not in ("Split", "BatchNormalization"):
                raise Refused(f"its second result, {node.output[1]}, is read")
            self.check(node, op, a)
            made = self.step(node, op, name, a) if op in STEPS else None
            made = made or self.layer(node, op, name, a)
            self.mark(node, op, name)
        except Exception as why:  # of any kind: attributes may have any form
            if not isinstance(why, Refused):
                why = Refused(f"of a form that is not known here ({type(why).__name__}: {str(why)[:80]})")
            why.what = why.what or WORDS.get(op)
            self.net.refuse(node.name or node.output[0], op, why)
            first = next((self.shape(n) for n in node.input if self.is_map(n)), None)
            made = [self.skipped(n, first) for n in node.output]
        if made:
            self.at.update({n: m for n, m in zip(node.output, made if isinstance(made, list) else [made]) if n and m})

    def foreign(self, node):
        """Why a node of another domain is no layer."""
        if (node.domain, node.op_type) in self.not_inline:
            return self.not_inline[(node.domain, node.op_type)]
        if node.domain == "com.microsoft":
            return (
                "of the domain com.microsoft, which ONNX Runtime writes when it optimizes: take the file as it was exported"
            )
        return f"of the domain {node.domain}"

    def branch(self, node, a):
        """The nodes of the one graph that a number chooses."""
        if node.input[0] not in self.known:
            raise Refused("its condition is computed")
        graph = a["then_branch" if self.known[node.input[0]].all() else "else_branch"]
        self.known.update({t.name: self.array(t) for t in graph.initializer})
        self.made |= {o for n in graph.node for o in n.output}
        self.take_all(graph.node)
        for outer, inner in zip(node.output, graph.output):
            if inner.name in self.known:
                self.known[outer] = self.known[inner.name]
            else:
                self.at[outer] = self.place(inner.name)

    def mark(self, node, op, name):
        """Says which weights several layers have."""
        if op not in ("Conv", "ConvTranspose", "Gemm", "MatMul"):
            return
        weight = node.input[1]
        if weight in self.copied:
            self.net.remark(SHARED, name)
        self.copied.add(weight)

    def name_of(self, node):
        weight = next((n for n in node.input if n in self.known and n.endswith(".weight")), None)
        return weight[: -len(".weight")] if weight else (node.name or node.output[0]).strip("/").replace("/", ".")

    def check(self, node, op, a):
        """Refuses what would be left aside without a word."""
        for k, v in a.items():
            if k not in (OLD + ATTRIBUTES.get(op, "")).split() and v not in (0, "", "stretch", "NOTSET"):
                raise Refused(f"{k} = {v}")
        for n in [
            n
            for n in node.input[1:]
            if n and op not in ("Add", "Sub", "Mul", "Div", "Sum", "Mean", "Max", "Min", "Concat", "Pow", "CastLike")
        ]:
            if n not in self.known:
                raise Refused(f"{n} is computed" if n in self.made or self.is_map(n) else f"{n} is nowhere in the file")

    def given(self, node, i, a, key, since, default=None):
        """What was an attribute before an operator set, and comes in from there on."""
        if self.opset >= since:
            if key in a:
                raise Refused(f"{key} as an attribute, which operator set {self.opset} has as an input")
            return self.known[node.input[i]] if len(node.input) > i and node.input[i] else default
        if len(node.input) > i and node.input[i]:
            raise Refused(f"{key} as an input, which operator set {self.opset} has as an attribute")
        return a.get(key, default)

    # ---- numbers that no image changes ----

    # ---- nodes ----

    def step(self, node, op, name, a):
        """A layer where a node, with those before it, is a known function of a number. None where it is not; what no layer does
        alone is said when somebody reads it."""
        value, operands = node.output[0], []
        for i, n in enumerate(node.input):
            number = self.known.get(n)
            if number is None and n and not self.is_map(n) or number is not None and number.size != 1:
                return None
            if n:
                own = {n: self.points} if n in self.at else {}
                operands.append(float(number.reshape(())) if number is not None else {**self.steps.get(n, {}), **own})
        maps = [o for o in operands if isinstance(o, dict)]
        if op == "Clip":
            low, high = self.limits(node, a)
            operands = operands[:1] + [-np.inf if low is None else low, np.inf if high is None else high]
        elif (
            op == "HardSigmoid"
            and not self.is_usual(a)
            or op not in ("HardSigmoid", "Clip")
            and set(a) - {"broadcast", "axis"}
        ):
            return None
        if not maps:
            return None
        with np.errstate(all="ignore"):
            self.steps[value] = {
                base: STEPS[op](*(o[base] if isinstance(o, dict) else o for o in operands))
                for base in maps[0]
                if all(base in m for m in maps)
            }
        for base, ys in self.steps[value].items():
            for how, known in self.functions:
                if base in self.at and np.allclose(ys, known, 0, 2e-5):
                    layer, index, shape = self.as_is(base)
                    return self.net.add(name, sources=[layer], **how), index, shape
        if (
            op == "Erf"
            or op == "Pow"
            and not (len(operands) > 1 and operands[1] == 2)
            or any(n in self.between for n in node.input)
            or op == "Div"
            and not isinstance(operands[1], float)
        ):
            first = next((self.between[n] for n in node.input if n in self.between), None)
            self.between[value] = first or (node.name or value, op, "no layer does this, or not with these attributes")
            return [None]
        return None

    @staticmethod
    def is_usual(a):
        return abs(a.get("alpha", 0.2) - 1 / 6) <= 1e-6 and a.get("beta", 0.5) == 0.5

    def limits(self, node, a):
        low, high = self.given(node, 1, a, "min", 11), self.given(node, 2, a, "max", 11)
        return [None if v is None else float(np.asarray(v).reshape(())) for v in (low, high)]

    def layer(self, node, op, name, a):
        net, given = self.net, [self.known.get(n) for n in node.input] + [None] * 6
        first = node.input[0]
        if op in ("Add", "Sub", "Mul", "Div", "Sum", "Mean", "Max", "Min", "Pow"):
            return self.pointwise(node, op, name, a, given)
        if op == "Shape":
            self.known[node.output[0]] = np.int64(self.shape(first))[a.get("start", 0) : a.get("end")]
            return None
        if op in MOVES:
            return self.moved(node, op, a, given)
        if op == "Concat":
            return self.concat(node, name, a)
        if op in ("ReduceMean", "ReduceSum", "ReduceMax", "GlobalAveragePool", "GlobalMaxPool"):
            return self.reduced(node, op, name, a, given)
        if op == "Pad":
            return self.padded(node, a)
        if op in ("Identity", "Dropout", "Cast", "CastLike"):
            return self.passed(node, op, a, given)
        if op in ("Resize", "Upsample"):
            return self.resize(node, op, name, a, given)
        if op == "Softmax" and not self.comes_out(node.output[0], MOVES):
            return self.softmax(node, name, a)
        if op == "DepthToSpace":
            return self.depth_to_space(name, first, a)
        if op in ("Conv", "ConvTranspose", "MaxPool", "AveragePool"):
            return self.windows(node, op, name, a, given)
        layer, index, shape = self.as_is(first)
        made = self.weighted(op, name, a, given, first, len(node.output))
        if made is None:
            made = self.function(node, op, name, a, given, layer)
            return made, index, shape
        return (made, None, (self.batch, *net.shapes[made]) if op in ("Gemm", "MatMul") else shape)

    def function(self, node, op, name, a, given, layer):
        net = self.net
        if op == "HardSigmoid":
            return (
                net.add(name, "hard_sigmoid", [layer])
                if self.is_usual(a)
                else net.clamp(name, net.affine(name + ".factor", layer, a.get("alpha", 0.2), a.get("beta", 0.5)), 0, 1)
            )
        if op == "Clip":
            return net.clamp(name, layer, *self.limits(node, a))
        if op == "LeakyRelu":
            return net.leaky_relu(name, layer, a.get("alpha", 0.01))
        if op == "PRelu" and given[1] is not None:
            src, k = self.src(node.input[0]), given[1]
            each = k if k.size == 1 or self.opset < 7 else net.each_channel(k, net.shapes[src])
            if each is None:
                raise Refused(f"of {by(net.shapes[src])} and slopes of {k.shape}")
            return net.prelu(name, src, each)
        if op == "Gelu":
            return net.gelu(name, layer, a.get("approximate", "none"))
        if op == "Tanh":
            return net.tanh(name, layer)
        if op == "Neg":
            return net.affine(name, layer, -1, None)
        if op == "Abs":
            return net.prelu(name, layer, np.float32([-1]))
        if op in PLAIN:
            return net.add(name, PLAIN[op], [layer])
        if op in ("Softmax", "LogSoftmax"):
            raise Refused(f"the loss and the predictions have it: --output {node.input[0]} ends the network with the scores before it")
        if "uantize" in op or "Integer" in op or op.startswith("QLinear"):
            raise Refused("the network is quantized: take the file as it was exported")
        raise Refused("no layer does this, or not with these attributes")

    def weighted(self, op, name, a, given, first, outs):
        """A layer with weights, or None."""
        net, w, b = self.net, given[1], given[2]
        shape = self.shape(first)
        if op == "BatchNormalization":
            if a.get("training_mode") or self.opset < 14 and outs > 1:
                raise Refused("in training: export the network in evaluation (model.eval())")
            if self.opset < 9 and a.get("spatial", 1) != 1:
                raise Refused("spatial = 0: numbers for each pixel")
            if any(v is None for v in given[1:5]):
                raise Refused("its numbers are computed")
            return net.norm(name, self.src(first), *given[1:5], a.get("epsilon", 1e-5), 1 - a.get("momentum", 0.9))
        if op == "InstanceNormalization":
            layer = self.as_is(first, True)[0]
            groups, channels = shape[1], self.net.shapes[layer][0]
            if channels % groups or len(self.net.shapes[layer]) != 3:
                raise Refused(f"of {by(shape[1:])}")
            plain = (w == 1).all() and (b == 0).all()
            w, b = (np.repeat(v, channels // groups) for v in (w, b))
            made = net.group_norm(name, layer, groups, channels, w, b, a.get("epsilon", 1e-5))
            self.fresh.update({made} if plain else ())
            return made
        if op == "GroupNormalization" and w is not None and b is not None:
            channels = shape[1]
            if len(w) != (channels if self.opset >= 21 else a["num_groups"]):
                raise Refused(f"{len(w)} factors of {channels} channels in operator set {self.opset}")
            w, b = (np.repeat(v, channels // len(v)) for v in (w, b))
            return net.group_norm(name, self.src(first), a["num_groups"], channels, w, b, a.get("epsilon", 1e-5))
        if op == "Gemm" and w is not None and not a.get("transA"):
            w = (w if a.get("transB") else w.T) * np.float32(a.get("alpha", 1))
            if b is not None and (b.ndim > 2 or b.ndim == 2 and b.shape[0] != 1):
                raise Refused(f"plus numbers of {b.shape}: as many as features are possible")
            b = None if b is None else np.broadcast_to(b.reshape(-1), w.shape[:1]) * np.float32(a.get("beta", 1))
            return net.linear(name, self.src(first), w, b)
        if op in ("Gemm", "MatMul"):
            if w is None or w.ndim != 2 or len(shape) != 2:
                raise Refused("of rows of features by weights alone", "matmul" if w is None else "linear on tokens")
            return net.linear(name, self.src(first), w.T, None)
        return None

    def windows(self, node, op, name, a, given):
        """Convolutions and pools."""
        net, first, w = self.net, node.input[0], given[1]
        conv = op.startswith("Conv")
        if conv and w is None:
            raise Refused("its weights are computed")
        kernel = list(w.shape[2:]) if conv else list(a["kernel_shape"])
        if len(kernel) != 2:
            raise Refused(f"in {len(kernel)} dimensions")
        strides, dilations, pads = a.get("strides", [1, 1]), a.get("dilations", [1, 1]), list(a.get("pads", [0] * 4))
        size, auto = self.shape(first)[2:], a.get("auto_pad", "NOTSET") or "NOTSET"
        if auto in ("SAME_UPPER", "SAME_LOWER") and op != "ConvTranspose":
            all_of = [
                max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
                for n, k, s, d in zip(size, kernel, strides, dilations)
            ]
            less, more = [n // 2 for n in all_of], [n - n // 2 for n in all_of]
            pads = less + more if auto == "SAME_UPPER" else more + less
            if max(strides) > 1:
                net.remark("have auto_pad, with the padding that it is for this --input", name)
        elif auto == "VALID":
            pads = [0] * 4
        elif auto != "NOTSET":
            raise Refused(f"auto_pad {auto}")
        if first in self.pads:
            inner, padded, value, _ = self.pads[first]
            if (
                value == 0
                and (op == "Conv" or op == "AveragePool" and not any(pads))
                or value <= -1e30
                and op == "MaxPool"
            ):
                first, pads = inner, [p + q for p, q in zip(pads, padded)]
                a = {**a, "count_include_pad": 1}
        src = self.src(first)
        if conv:
            out_pad = a.get("output_padding", [0, 0]) if op == "ConvTranspose" else None
            made = net.conv(name, src, w, given[2], strides, pads, dilations, a.get("group", 1), out_pad)
        else:
            for n, k, s, p, q in zip(net.shapes[src][1:], kernel, strides, pads[:2], pads[2:]):
                last = -(-(n + p + q - k) // s) * s
                if a.get("ceil_mode") and (n + p + q - k) % s and last >= n + p:
                    raise Refused("ceil_mode with a window that begins in the padding")
            made = net.pool(
                name,
                src,
                "max_pool" if op == "MaxPool" else "avg_pool",
                kernel,
                strides,
                pads,
                a.get("ceil_mode"),
                dilations,
                a.get("count_include_pad") and self.opset >= 7,
            )
        return made, None, (self.batch, *net.shapes[made])

    def concat(self, node, name, a):
        rank = len(self.shape(node.input[0]) or ())
        if rank > 4 and a.get("axis", 0) % rank:
            return self.joined(node, name, a["axis"] % rank)
        if (
            "axis" not in a
            and self.opset >= 4
            or rank not in (2, 4)
            or a.get("axis", 1) % rank != 1
            or a.get("axis", 1) < 0
            and self.opset < 11
        ):
            raise Refused("of another dimension than the channels'")
        made = self.net.concat(name, [self.src(n) for n in node.input])
        return made, None, (self.batch, *self.net.shapes[made])

    def passed(self, node, op, a, given):
        if op == "Cast" and a.get("to") not in (1, *FLOAT_NAMES):
            raise Refused(f"to the type {a.get('to')}: float32 is possible")
        if op == "CastLike" and given[1] is not None and given[1].dtype.kind != "f":
            raise Refused(f"to the type {given[1].dtype}: float32 is possible")
        if op == "Dropout":
            if self.opset < 7 and not a.get("is_test"):
                raise Refused("in evaluation, too (is_test = 0)")
            if given[2] is not None and given[2].any():
                raise Refused("in evaluation, too")
        return self.place(node.input[0])

    def spread(self, name, like, a):
        """Numbers in the shape that broadcasting gives them: before operator set 7 as attributes say it."""
        v = self.known[name]
        if self.opset >= 7:
            return v
        if v.shape != like and not a.get("broadcast"):
            raise Refused(f"of {v.shape} without broadcast, in operator set {self.opset}")
        at = a.get("axis", len(like) - v.ndim)
        return (
            v.reshape([1] * at + list(v.shape) + [1] * (len(like) - at - v.ndim)) if v.ndim and v.shape != like else v
        )

    def pointwise(self, node, op, name, a, given):
        net, ins = self.net, list(node.input)
        maps, numbers = [n for n in ins if self.is_map(n)], [n for n in ins if n in self.known]
        if len(maps) + len(numbers) != len(ins):
            raise Refused(f"it reads {next(n for n in ins if n not in maps + numbers)}, which is no map")
        if op == "Pow":
            layer, index, shape = self.as_is(ins[0])
            return net.product(name, layer, layer), index, shape
        if numbers and op in ("Add", "Sub", "Mul", "Div", "Max", "Min") and len(ins) == 2:
            return self.with_numbers(op, name, a, ins)
        if op in ("Max", "Min", "Div") or numbers:
            raise Refused("of several maps: no layer does this")
        if (
            self.opset < 7
            and op != "Sum"
            and op != "Mean"
            and len({self.shape(n)[1:] for n in maps}) > 1
            and not a.get("broadcast")
        ):
            raise Refused("of different shapes without broadcast")
        if op == "Mul" and max(len(self.shape(n)) for n in maps) > 4 and (made := self.weighed(name, maps)):
            return made
        found, index = [self.as_is(n) for n in maps], None
        first = found[0]
        if all(
            v[2] == first[2]
            and net.shapes[v[0]] == net.shapes[first[0]]
            and str(v[1]) == str(first[1])
            and (v[1] is None or (v[1] == first[1]).all())
            for v in found
        ):
            parts, index, shape = [v[0] for v in found], *first[1:]
        else:
            parts, shape = [self.factor(n) if op == "Mul" else self.src(n) for n in maps], None
        if op == "Sub":
            parts[1] = net.affine(name + ".minus", parts[1], -1, None)
        layer = net.product(name, *parts) if op == "Mul" else net.sum(name, parts)
        if op == "Mean":
            layer = net.affine(name + ".part", layer, 1 / len(parts), None)
        return layer, index, shape or (self.batch, *net.shapes[layer])

    def factor(self, name):
        """Of N x C that became N x C x 1 x 1 a product takes the first."""
        layer, index, shape = self.as_is(name, True)
        return (
            layer
            if shape[2:] == (1, 1)
            and len(self.net.shapes[layer]) == 1
            and index is not None
            and is_all(index, math.prod(self.net.shapes[layer]), True)
            else self.src(name)
        )

    def with_numbers(self, op, name, a, ins):
        net = self.net
        left = ins[0] in self.known
        value, numbers = ins[::-1] if left else ins
        k = self.spread(numbers, self.shape(value), a)
        layer, index, shape = self.as_is(value)
        if k.size > 1:
            layer, index = self.src(value), None
            if k.ndim > len(shape) or any(n not in (1, m) for n, m in zip(k.shape[::-1], shape[::-1])):
                raise Refused(f"of {by(shape[1:])} and numbers of {k.shape}")
        else:
            k = k.reshape(())
        if (
            layer in self.fresh
            and self.readers.count(value) == 1
            and op in ("Mul", "Add")
            and (each := net.each_channel(k, net.shapes[layer])) is not None
        ):
            weight, bias = f"{layer}.weight", f"{layer}.bias"
            for key in (weight, bias) if op == "Mul" else (bias,):
                net.weights[key] = net.weights[key] * each if op == "Mul" else net.weights[key] + each
            return layer, index, shape
        if op in ("Max", "Min"):
            if k.ndim:
                raise Refused("of a number for each channel")
            return net.clamp(name, layer, *((float(k), None) if op == "Max" else (None, float(k)))), index, shape
        if op == "Div" and left:
            raise Refused("of a number by a map: no layer does this")
        factor = k if op == "Mul" else 1 / k if op == "Div" else -1 if op == "Sub" and left else None
        term = None if op in ("Mul", "Div") else -k if op == "Sub" and not left else k
        if (factor is None or (np.asarray(factor) == 1).all()) and (term is None or (np.asarray(term) == 0).all()):
            return layer, index, shape
        return net.affine(name, layer, factor, term), index, shape

    # ---- what moves numbers ----

    # ---- sizes ----

    # ---- the whole ----

    def finish(self, taps):
        if len(self.outs) != 1:
            cure = f": --output {self.outs[0]}" if self.outs else ""
            self.net.refuse("output", "output", f"{', '.join(self.outs) or 'none'}: one is wanted{cure}")
        made = {}
        for n in self.outs[:1]:
            if not self.is_map(n):
                words = "is no map" if n in self.known or n in self.made else "is nowhere in the file"
                self.net.refuse("output", "output", f"{n} {words}")
                continue
            try:
                made[n] = self.src(n)
            except Refused as why:
                self.net.refuse("output", "output", why)
        layers = {v[0]: n for n, v in self.at.items() if v[1] is None}
        known = {**{layer: n for layer, n in layers.items() if layer in self.net.layers}, **{n: n for n in self.at}}
        found = {}
        for n in self.net.find(taps, known):
            try:
                found[self.src(n)] = n
            except Refused as why:
                self.net.refuse(n, "--tap", why)
        order = [name for name in self.net.layers if name in found]
        self.tapped = [found[n] for n in order]
        return made.get("".join(self.outs[:1])), order

    def given_out(self):
        """The model with the taps as results, and their names. A momentum of 1 changes no network that is not trained; onnx's
        reference evaluator takes any other for a training in sets before 14."""
        import onnx

        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        for node in model.graph.node if self.opset < 14 else ():
            if node.op_type == "BatchNormalization":
                kept = [a for a in node.attribute if a.name != "momentum"]
                del node.attribute[:]
                node.attribute.extend([*kept, onnx.helper.make_attribute("momentum", 1.0)])
        wanted, have = self.outs[:1] + self.tapped, {o.name for o in model.graph.output}
        model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in wanted if n not in have)
        return model, wanted

    def values(self, x):
        """The result and the taps, by the reference evaluator of onnx, or by ONNX Runtime where that is missing or cannot."""
        model, wanted = self.given_out()
        try:
            from onnx.reference import ReferenceEvaluator

            self.oracle = "onnx's reference evaluator"
            return ReferenceEvaluator(model).run(wanted, {self.name: x})
        except ImportError:
            failed = "this onnx has no reference evaluator"
        except Exception as why:  # of any kind: it does not have every operator of every set
            failed = f"onnx's reference evaluator: {' '.join(str(why).split())[:120]}"
        values = self.others(x)
        if values is None:
            sys.exit(f"--check: {failed}: python3 -m pip install onnxruntime, which is used instead, or a later onnx")
        return values

    def others(self, x):
        """The same by ONNX Runtime, where that is installed."""
        try:
            import onnxruntime
        except ImportError:
            return None
        model, wanted = self.given_out()
        self.oracle = "ONNX Runtime"
        try:
            session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
            return session.run(wanted, {self.name: x})
        except Exception as why:
            sys.exit(f"--check: ONNX Runtime: {' '.join(str(why).split())[:200]}")
