#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Turns a network of PyTorch or ONNX into a list of layers for spcore and a file with its weights.

MODEL is FILE.onnx, or FILE.py:NAME or PACKAGE.MODULE:NAME, where NAME is a torch.nn.Module or a function that makes one
without arguments. torch.fx traces it as it is in evaluation, so its forward may not branch on values. Written are OUT.lua
and OUT.safetensors, for a script such as

  local net = g.encoder { image, layers = dofile "OUT.lua", weights = "OUT.safetensors" }

Layers have the names of the modules that they come from, so that a state_dict of the network, as safetensors, fits as well (not
where ONNX has folded batch norms into convolutions). What cannot be expressed is refused, all of it in one list, by node and
operation. A size that the network states, and the part of an adaptive pool, are those for an --input of this size.
"""
import argparse
import difflib
import importlib
import importlib.util
import json
import math
import operator
import os
import re
import runpy
import shutil
import struct
import subprocess
import sys
import tempfile
import traceback

try:
    import numpy as np
except ImportError:
    np = None  # --help does without, and demand() says it

MOST = 16  # values that one layer reads
SAME = ("identity", "contiguous", "clone", "stochasticdepth")  # in evaluation
PLAIN = {"relu": "relu", "relu6": "relu6", "sigmoid": "sigmoid", "silu": "silu", "hardsigmoid": "hard_sigmoid",
         "hardswish": "hard_swish", "globalaveragepool": "mean"}
POOL = "auto_pad ceil_mode dilations kernel_shape pads strides"
ATTRIBUTES = {  # of ONNX, that are looked at or change nothing here; others have to be 0 or what they are without a word
    "AveragePool": POOL + " count_include_pad", "BatchNormalization": "epsilon momentum training_mode",
    "Clip": "max min", "Concat": "axis",
    "Conv": POOL + " group", "ConvTranspose": POOL + " group output_padding", "Dropout": "ratio seed", "Flatten": "axis",
    "Gemm": "alpha beta transA transB", "Gelu": "approximate",
    "GroupNormalization": "epsilon num_groups stash_type", "HardSigmoid": "alpha beta",
    "InstanceNormalization": "epsilon", "LeakyRelu": "alpha", "MaxPool": POOL + " storage_order", "Pad": "mode",
    "ReduceMean": "axes keepdims",
    "Resize": "coordinate_transformation_mode cubic_coeff_a keep_aspect_ratio_policy mode nearest_mode", "Reshape": "allowzero",
}
# Of ONNX: what is done to each number alone. Several such nodes may be one function, which is found by its values.
STEPS = {
    "Add": operator.add, "Sub": operator.sub, "Mul": operator.mul, "Div": operator.truediv, "Pow": operator.pow,
    "Tanh": lambda x: np.tanh(x), "Sigmoid": lambda x: 1 / (1 + np.exp(-x)), "HardSigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "Erf": lambda x: np.array([math.erf(v) for v in x]),
}
FUNCTIONS = [  # layers, and what they do to a number
    ({"kind": "silu"}, lambda x: x / (1 + math.exp(-x))),
    ({"kind": "hard_swish"}, lambda x: x * min(max(x + 3, 0), 6) / 6),
    ({"kind": "gelu"}, lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2),
    ({"kind": "gelu", "approximate": "tanh"}, lambda x: x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2),
]
CHECK = """
local sp = require "spcore"
local g <close> = sp.graph {}
local data = g.reader { path = "data", batch = 1, size = { HEIGHT, WIDTH }, target = "class", shuffle = false }
local x = g.to_float { data.image, scale = true }
local net = g.layers { x, layers = dofile "net.lua", weights = "net.safetensors", frozen = true }
g.writer { net.features, file = "0.npy", name = "w0" }
for i = 1, TAPS do g.writer { net.maps[i], file = i .. ".npy", name = "w" .. i } end
for _ in g:steps(1) do end
"""


class Refused(Exception):
    """What a layer cannot do, in words."""


def where(why):
    """What an error of others' code says, and where: one line."""
    frames = [f for f in traceback.extract_tb(why.__traceback__)
              if f"{os.sep}torch{os.sep}" not in f.filename and f.filename != __file__]
    place = f"{frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}: " if frames else ""
    return place + (str(why).strip() or type(why).__name__).split("\n")[0].split(". ")[0]


def two(v):
    return tuple(v) if isinstance(v, (tuple, list)) else (v, v)


def pair(v, left_out=None):
    """One number where height and width have the same; None where that is what is left out."""
    v = [int(x) for x in v]
    v = v[0] if len(set(v)) == 1 else v
    return None if v == left_out else v


def even(pads):
    if tuple(pads[:2]) != tuple(pads[2:]):
        raise Refused(f"padding that differs between sides: {tuple(pads)}")
    return pair(pads[:2], 0)


def lua(v):
    if isinstance(v, list):
        return "{ " + ", ".join(map(lua, v)) + " }" if len(v) != 1 or isinstance(v[0], int) else lua(v[0])
    return str(v).lower() if isinstance(v, bool) else f'"{v}"' if isinstance(v, str) else repr(v)


class Net:
    """Layers in order, by name, each as { type, out, from, params }, and their weights."""

    def __init__(self):
        self.layers, self.weights, self.problems = {}, {}, []

    def add(self, wanted, kind, sources, out=None, weights=None, **params):
        base = re.sub(r"[^A-Za-z0-9._-]", "_", wanted)[-60:]
        name, n = base if base not in ("", "input") else "layer", 1
        while name in self.layers:
            n += 1
            name = f"{base}_{n}"
        self.layers[name] = (kind, out, list(sources), {k: v for k, v in params.items() if v is not None})
        self.weights.update({f"{name}.{k}": np.asarray(v) for k, v in (weights or {}).items() if v is not None})
        return name

    def conv(self, name, src, w, b, stride, pads, dilation, groups, out_pad=None):
        """pads: top, left, bottom, right. out_pad: of a transposed one, whose weights are in x out."""
        if w.ndim != 4:
            raise Refused(f"in {w.ndim - 2} dimensions")
        turned = out_pad is not None
        return self.add(name, "conv_transpose" if turned else "conv", [src], w.shape[1] * groups if turned else w.shape[0],
                        {"weight": w, "bias": b}, kernel=pair(w.shape[2:]), stride=pair(stride), pad=even(pads),
                        dilation=pair(dilation, 1), groups=groups if groups > 1 else None, bias=None if b is not None else False,
                        out_pad=pair(out_pad, 0) if turned else None)

    def norm(self, name, src, w, b, mean, var, eps, momentum, count=None):
        if mean is None or momentum is None:
            raise Refused("without running statistics, or with the mean over all batches")
        self.check_eps(eps)
        weights = {"weight": np.ones_like(mean) if w is None else w, "bias": np.zeros_like(mean) if b is None else b,
                   "running_mean": mean, "running_var": var, "num_batches_tracked": count}
        return self.add(name, "batch_norm", [src], weights=weights, eps=eps, momentum=momentum)

    @staticmethod
    def check_eps(eps):
        if not 1e-12 <= eps <= 1:
            raise Refused(f"eps {eps}: 1e-12 to 1 is possible")

    def group_norm(self, name, src, groups, channels, w, b, eps):
        self.check_eps(eps)
        weights = {"weight": np.ones(channels, np.float32) if w is None else w,
                   "bias": np.zeros(channels, np.float32) if b is None else b}
        return self.add(name, "group_norm", [src], int(groups), weights, eps=eps)

    def pool(self, name, src, kind, kernel, stride, pads, ceil_mode, dilation, pads_count):
        if ceil_mode and pair(stride) != 1:  # with 1 there is nothing left over
            raise Refused("ceil_mode: pools leave out what does not fill a window")
        if pair(dilation, 1):
            raise Refused("a dilation")
        if kind == "avg_pool" and any(pads) and not pads_count:
            raise Refused("zeros of the padding that do not count")
        return self.add(name, kind, [src], kernel=pair(kernel), stride=pair(stride), pad=even(pads))

    def leaky_relu(self, name, src, slope):
        slope = float(str(np.float32(slope)))  # 0.2, of which ONNX has the nearest float32
        if not -1000 <= slope <= 1000:
            raise Refused(f"a slope of {slope}: -1000 to 1000 is possible")
        return self.add(name, "leaky_relu", [src], negative_slope=slope if slope != 0.01 else None)

    def gelu(self, name, src, approximate):
        if approximate not in ("none", "tanh"):
            raise Refused(f"approximate {approximate}: none and tanh are possible")
        return self.add(name, "gelu", [src], approximate=approximate if approximate == "tanh" else None)

    def linear(self, name, src, w, b):
        return self.add(name, "linear", [src], w.shape[0], {"weight": w, "bias": b}, bias=None if b is not None else False)

    def concat(self, name, sources):
        while len(sources) > MOST:
            sources = [self.add(name + ".part", "concat", sources[:MOST])] + sources[MOST:]
        return self.add(name, "concat", sources) if len(sources) > 1 else sources[0]

    def mean(self, name, src, dims, keep):
        if sorted(d % 4 for d in dims) != [2, 3]:
            raise Refused("of other dimensions than height and width")
        mean = self.add(name, "mean", [src])
        return mean if keep else self.add(name + ".flatten", "flatten", [mean])

    def upsample(self, name, src, mode, align, scale, size, like=None):
        if scale is not None and any(s != int(s) or s < 1 for s in scale):
            raise Refused(f"a scale of {tuple(scale)}: whole numbers are possible, or a size")
        if mode not in ("nearest", "bilinear"):
            raise Refused(f"{mode}: nearest and bilinear are possible")
        return self.add(name, "upsample", [src], mode=mode, align_corners=align or None, like=like,
                        scale=None if scale is None else pair(scale), size=None if size is None else pair(size))

    def find(self, taps, known):
        """Those of `known` that are called so."""
        for t in taps:
            if t not in known:
                near = ", ".join(difflib.get_close_matches(t, [k for k in known if k], 3))
                self.problems.append(f"--tap {t}: there is no such module or layer" + (f", but {near}" if near else ""))
        return [known[t] for t in taps if t in known]

    def prune(self, out, taps):
        """Leaves what the result and the taps need, the result last."""
        wanted, todo = set(), [out] + taps
        while todo:
            name = todo.pop()
            if name != "input" and name not in wanted:
                wanted.add(name)
                todo += self.layers[name][2] + [v for k, v in self.layers[name][3].items() if k == "like"]
        read = {s for n in wanted for s in self.layers[n][2]} | {out, "input", *taps}
        self.problems += [f"{n}: {self.layers[n][0]}: of {self.layers[n][3]['like']} nothing but the size is used"
                          for n in wanted if self.layers[n][3].get("like", out) not in read]
        if out == "input" or "input" in taps or any(out in self.layers[n][2] for n in wanted):
            self.problems.append("a result or tap that is what comes in, or a tap behind the result")
        self.layers = {n: self.layers[n] for n in [n for n in self.layers if n in wanted and n != out] + [out] if n != "input"}
        self.weights = {k: v for k, v in self.weights.items() if k.rpartition(".")[0] in self.layers}
        for tap in [t for t in taps if t != "input"]:
            self.layers[tap][3]["tap"] = True

    def write(self, out, title):
        before, at, header = ["input"], 0, {}
        with open(out + ".lua", "w", encoding="utf-8") as f:
            f.write(f"-- {title}, converted by spcore_convert.py.\nreturn {{\n")
            for name, (kind, channels, sources, params) in self.layers.items():
                words = [lua(kind)] + [lua(channels)] * (channels is not None) + [f"from = {lua(sources)}"] * (sources != before)
                words += [f"{k} = {lua(v)}" for k, v in params.items()] + [f"name = {lua(name)}"]
                f.write("  { " + ", ".join(words) + " },\n")
                before = [name]
            f.write("}\n")
        values = {k: v.astype(np.int64 if v.dtype == np.int64 else np.float32) for k, v in self.weights.items()}
        for name, v in values.items():
            word, at = "I64" if v.dtype == np.int64 else "F32", at + v.nbytes
            header[name] = {"dtype": word, "shape": v.shape, "data_offsets": [at - v.nbytes, at]}
        text = json.dumps(header).encode()
        with open(out + ".safetensors", "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text + b"".join(v.tobytes() for v in values.values()))


class Torch:
    """A module of PyTorch, traced, node by node."""

    def __init__(self, spec, shape):
        import torch
        from torch import fx
        module, ends, path = self.make(torch, spec), {}, []

        class Proxy(fx.Proxy):  # fx itself takes `z += y` as z = z + y, which whoever else has z does not see
            def __iadd__(self, other):
                return self.tracer.create_proxy("call_function", operator.iadd, (self, other), {})

            def __imul__(self, other):
                return self.tracer.create_proxy("call_function", operator.imul, (self, other), {})

        class Tracer(fx.Tracer):  # one that knows where each module ends, and in which each operation is
            def proxy(self, node):
                return Proxy(node, self)

            def call_module(self, m, forward, args, kwargs):
                path.append(self.path_of_module(m))
                out = super().call_module(m, forward, args, kwargs)
                ends[path.pop()] = out
                return out

            def create_node(self, *args, **kwargs):
                node = super().create_node(*args, **kwargs)
                node.meta["path"] = path[-1] if path else ""
                return node

        try:  # what fails may be of any kind: it is the network's own code that runs
            self.traced = fx.GraphModule(module, Tracer().trace(module))
        except Exception as why:
            sys.exit(f"torch.fx cannot follow the network: {where(why)}")
        self.torch, self.net, self.env, self.made, self.used = torch, Net(), {}, {}, set()
        try:  # of any kind again: for a size there may be no memory, or no number
            x = torch.rand(1, *shape)
        except Exception as why:
            sys.exit(f"--input {'x'.join(map(str, shape))}: " + str(why).strip().split("\n")[0])
        try:
            kept, self.changed = self.run(x)
            same = self.is_same(module, x, kept)
        except Exception as why:
            words = str(why).strip().split("\n")[0]
            sys.exit(f"{spec} does not take an input of {' x '.join(map(str, shape))}: {words}")
        self.shapes = {n: tuple(v.shape) for n, v in kept.items() if isinstance(v, torch.Tensor)}
        self.ends = {k: v.node for k, v in ends.items() if isinstance(v, fx.Proxy)}
        self.modules = dict(self.traced.named_modules())
        for node in self.traced.graph.nodes:
            if node.op == "placeholder":
                self.env[node] = "input"
            elif node.op == "output":
                self.out = node.args[0]
            elif self.shape(node) is not None:
                self.take(node)
        if not same and not self.net.problems:
            self.net.problems.append("output: what torch.fx has followed gives another result than the network itself")

    @staticmethod
    def make(torch, spec):
        """The module that is called so."""
        source, _, name = spec.rpartition(":")
        try:
            made = runpy.run_path(source)[name] if source.endswith(".py") else getattr(importlib.import_module(source), name)
            if not isinstance(made, torch.nn.Module) and callable(made):
                made = made()
        except (ImportError, OSError, KeyError, AttributeError):
            raise
        except Exception as why:
            sys.exit(f"{spec}: {where(why)}")
        if not isinstance(made, torch.nn.Module):
            sys.exit(f"{spec}: neither a torch.nn.Module nor a function that makes one")
        return made.eval().float()

    def is_same(self, module, x, kept):
        """Is what was traced what is computed? forward may depend on what fx does not see."""
        flat = self.torch.utils._pytree.tree_flatten
        with self.torch.no_grad():
            theirs = flat(module(x.clone()))[0]
        ours = flat(kept[next(n for n in self.traced.graph.nodes if n.op == "output")])[0]
        tensors = [(a, b) for a, b in zip(ours, theirs) if isinstance(a, self.torch.Tensor)]
        return len(ours) == len(theirs) and all(a.shape == b.shape and self.torch.allclose(a, b, 1e-3, 1e-4, True)
                                                for a, b in tensors)

    def shape(self, node):
        return self.shapes.get(node) if isinstance(node, self.torch.fx.Node) else None

    def src(self, node):
        if not isinstance(node, self.torch.fx.Node) or node not in self.env:
            raise Refused(f"it reads {node}, which is no map")
        return self.env[node]

    def take(self, node):
        m, path, name = self.modules[node.target] if node.op == "call_module" else None, node.meta["path"], node.name
        kind = type(m).__mro__[1 if hasattr(m, "parametrizations") else 0]
        what = kind.__name__ if m else str(getattr(node.target, "__name__", node.target))
        if m:
            name = node.target
        elif path:
            name = f"{path}.{name[len(path) + 1:] if name.startswith(path.replace('.', '_') + '_') else name}"
        while not m and name in self.modules:  # whose name that is
            name += "_"
        args = dict(enumerate(node.args), **node.kwargs)

        def get(i, key, default=None):
            return getattr(m, key, default) if m else args.get(i, args.get(key, default))
        try:
            self.env[node] = self.made[node] = self.layer(node, what.lower().replace("_", ""), name, m, get)
            for n in [n for n in self.changed[node] if n in self.env]:  # in place: who reads the old value reads this
                if self.shape(n) != self.shape(node):
                    raise Refused(f"it changes a view of {n} in place")
                self.env[n] = self.env[node]
        except Refused as why:
            self.net.problems.append(f"{node.name}: {what}: {why}")
            self.env[node] = "input"  # so that what follows is looked at, too

    def layer(self, node, what, name, m, get):
        net, new = self.net, self.shape(node)
        if node.op == "get_attr":
            raise Refused("a tensor of the module's own")
        if what in ("cat", "concat"):
            if len(new) not in (2, 4) or get(1, "dim", 0) not in (1, 1 - len(new)):
                raise Refused("of another dimension than the channels'")
            return net.concat(name, [self.src(n) for n in get(0, "tensors")])
        first = node.args[0] if node.args else node.kwargs.get("input")
        src, old = self.src(first), self.shape(first)
        state = self.numbers(m) if m else {}
        w, b = state.get("weight"), state.get("bias")
        if m and len(node.args) + len(node.kwargs) != 1:
            raise Refused("called with more than what it reads")
        if state and name in self.used:
            raise Refused("used more than once: two layers do not have the same weights")
        self.used.add(name)
        if what in ("conv2d", "convtranspose2d") and m:
            if isinstance(m.padding, str) or m.padding_mode != "zeros":
                raise Refused(f"padding {m.padding}, {m.padding_mode}: a number of zeros is possible")
            return net.conv(name, src, w, b, m.stride, m.padding * 2, m.dilation, m.groups,
                            m.output_padding if m.transposed else None)
        if what in ("batchnorm1d", "batchnorm2d") and m:
            return net.norm(name, src, w, b, state.get("running_mean"), state.get("running_var"), m.eps, m.momentum,
                            state.get("num_batches_tracked"))
        if what == "groupnorm" and m:
            return net.group_norm(name, src, m.num_groups, m.num_channels, w, b, m.eps)
        if what == "linear" and m and len(new) == 2:
            return net.linear(name, src, w, b)
        if what in ("maxpool2d", "avgpool2d") and not get(6, "divisor_override"):
            top, kernel = what == "maxpool2d", two(get(1, "kernel_size"))
            stride, pads = two(get(2, "stride") or kernel), two(get(3, "padding", 0)) * 2
            return net.pool(name, src, "max_pool" if top else "avg_pool", kernel, stride, pads, get(5 if top else 4, "ceil_mode"),
                            two(get(4, "dilation", 1)) if top else (1, 1), get(5, "count_include_pad", True))
        if what == "adaptiveavgpool2d" and (new[2:] == (1, 1) or new == old):
            return net.add(name, "mean", [src]) if new[2:] == (1, 1) else src
        if (what == "interpolate" or isinstance(m, self.torch.nn.Upsample)) and not get(6, "antialias"):
            return self.resize(node, name, src, get)
        if what in ("flatten", "view", "reshape"):
            if old != new and (len(old) != 4 or new != (old[0], int(np.prod(old[1:])))):
                raise Refused(f"from {old} to {new}: N x C x H x W may become N x C H W")
            return net.add(name, "flatten", [src]) if old != new else src
        if what in ("dropout", "dropout2d"):
            p = get(1, "p", 0.5)
            if get(2, "training", True):
                raise Refused("in evaluation, too: give it training = self.training")
            return net.add(name, "dropout", [src], p=p, maps=what == "dropout2d" or None) if p else src
        if what in ("add", "iadd", "mul", "imul"):
            if get(2, "alpha", 1) != 1:
                raise Refused("with an alpha")
            return self.pointwise(name, what[-3:], first, get(1, "other"))
        if what in ("hardtanh", "clamp"):
            low, high = ("min", "max") if what == "clamp" else ("min_val", "max_val")
            if (get(1, low), get(2, high)) != (0, 6):
                raise Refused("from 0 to 6 is possible")
            return net.add(name, "relu6", [src])
        if what == "leakyrelu":
            return net.leaky_relu(name, src, get(1, "negative_slope", 0.01))
        if what == "gelu":
            return net.gelu(name, src, get(1, "approximate", "none"))
        if what == "mean" and len(old) == 4:
            return net.mean(name, src, two(get(1, "dim", 0)), get(2, "keepdim"))
        if what not in SAME and (what not in PLAIN or new != old):
            raise Refused(f"from {old} to {new}: no layer does this")
        return src if what in SAME else net.add(name, PLAIN[what], [src])

    def numbers(self, m):
        """Its weights by their names: those of a parametrization are computed."""
        if m._forward_hooks or any(not type(h).__module__.startswith("torch.nn.utils.") for h in m._forward_pre_hooks.values()):
            raise Refused("with a hook")
        named = {k: getattr(m, k, None) for k in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")}
        return {k: v.detach().numpy() for k, v in named.items() if isinstance(v, self.torch.Tensor)}

    def pointwise(self, name, kind, a, b):
        x, y = self.shape(a), self.shape(b)
        if x and y and np.prod(x) < np.prod(y):
            a, b, x, y = b, a, y, x
        if x != y and not (kind == "mul" and y and len(x) == 4 and y == x[:2] + (1, 1)):
            raise Refused(f"of {x} and {y or b}")
        return self.net.add(name, kind, [self.src(a), self.src(b)])

    def resize(self, node, name, src, get):
        size, scale = get(1, "size"), get(2, "scale_factor")
        likes = {self.whose_size(n) for n in two(size)} - {None}
        like = likes.pop() if likes else None
        if likes or like is not None and self.shape(like)[2:] != self.shape(node)[2:]:
            raise Refused("to a size that is computed")
        return self.net.upsample(name, src, get(3, "mode", "nearest"), get(4, "align_corners"), two(scale) if scale else None,
                                 None if scale or like is not None else two(size), self.src(like) if like is not None else None)

    def whose_size(self, v):
        """The map of whose shape v is a part; None of numbers."""
        while isinstance(v, self.torch.fx.Node) and self.shape(v) is None:
            if v.target not in (getattr, operator.getitem, "size"):
                raise Refused("to a size that is computed")
            v = v.args[0]
        return v if isinstance(v, self.torch.fx.Node) else None

    def finish(self, taps):
        if isinstance(self.out, dict) and len(self.out) == 1:
            self.out = list(self.out.values())[0]
        if not isinstance(self.out, self.torch.fx.Node) or self.out not in self.env:
            self.net.problems.append("output: no tensor, or several: convert the module that makes one")
            return None, []
        known = {**{v: n for n, v in self.made.items()}, **{k: n for k, n in self.ends.items() if n in self.made}}
        found = {self.made[n]: n for n in self.net.find(taps, known)}
        order = [name for name in self.net.layers if name in found]
        self.tapped = [found[name] for name in order]
        return self.env[self.out], order

    def run(self, x):
        """What PyTorch computes, by node; and which nodes' values each node changes, which PyTorch counts."""
        kept, live, changed = {}, {}, {}
        tensor = self.torch.Tensor

        class Keep(self.torch.fx.Interpreter):
            def run_node(self, node):
                value = super().run_node(node)
                changed[node] = [n for n, (v, version) in live.items() if v._version != version]
                live.update({n: (live[n][0], live[n][0]._version) for n in changed[node]})
                live.update({node: (value, value._version)} if isinstance(value, tensor) else {})
                kept[node] = value.clone() if isinstance(value, tensor) else value  # what comes may change it in place
                return value

        with self.torch.no_grad():
            Keep(self.traced).run(x.clone())
        return kept, changed

    def values(self, x):
        """The result and the taps."""
        kept = self.run(self.torch.from_numpy(x))[0]
        return [kept[n].numpy() for n in [self.out] + self.tapped]


class Onnx:
    """A graph of ONNX, node by node."""

    def __init__(self, path):
        import onnx
        from onnx import helper, numpy_helper, shape_inference
        try:  # what a damaged file raises may be of any kind
            graph = shape_inference.infer_shapes(onnx.load(path), data_prop=True).graph
        except OSError:
            raise
        except Exception as why:
            words = str(why).strip().split("\n")[0]
            sys.exit(f"{path}: onnx does not understand it: {words}")
        self.array, self.net = numpy_helper.to_array, Net()
        values = [*graph.input, *graph.value_info, *graph.output]
        self.shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in values}
        self.known = {t.name: self.array(t) for t in graph.initializer}
        self.reads = [n for node in graph.node for n in node.input]
        self.points = np.linspace(-8, 8, 161)
        self.functions = [(how, np.array([f(x) for x in self.points])) for how, f in FUNCTIONS]
        self.steps = {}  # value: {an earlier value: what the value is where that is self.points}
        self.between = {}  # a value that no layer makes, but is a step: which node made it
        self.grouped = {}  # inside of a group norm that is several nodes: value: what goes in, groups, or the layer
        ins = [i.name for i in graph.input if i.name not in self.known]
        self.env, self.outs = {i: "input" for i in ins}, [o.name for o in graph.output]
        if len(ins) != 1:
            self.net.problems.append(f"input: {', '.join(ins) or 'none'}: one is wanted")
        for node in graph.node:
            attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            try:
                made = self.layer(node, {k: v.decode() if isinstance(v, bytes) else v for k, v in attrs.items()})
            except Refused as why:
                self.net.problems.append(f"{node.name or node.output[0]}: {node.op_type}: {why}")
                made = "input"
            self.env.update({node.output[0]: made} if made else {})

    def src(self, name):
        if name in self.between:  # of no function that is known
            self.net.problems.append(self.between.pop(name) + ": no layer does this, or not with these attributes")
            self.env[name] = "input"
        if name not in self.env:
            raise Refused(f"it reads {name}, which is no map")
        return self.env[name]

    def layer(self, node, a):
        net, op, given = self.net, node.op_type, [self.known.get(n) for n in node.input] + [None] * 5
        weight = next((n for n, v in zip(node.input, given) if v is not None and n.endswith(".weight")), None)
        name = weight[:-len(".weight")] if weight else (node.name or node.output[0]).strip("/").replace("/", ".")
        if op == "Constant" or op == "Identity" and given[0] is not None:
            value = next(iter(a.values()), None) if op == "Constant" else given[0]
            self.known[node.output[0]] = self.array(value) if hasattr(value, "dims") else np.asarray(value)
            return None
        if op in ("Reshape", "InstanceNormalization", "Mul", "Add") and self.grouping(node, op, name, a, given):
            return self.env.get(node.output[0])
        if op in STEPS and (made := self.step(node, op, name, a, given)) is not None:
            return made
        for inside in [n for n in node.input if n in self.grouped and n not in self.env]:
            self.src(inside)
        if op == "Shape" or not any(n in self.env or n in self.between for n in node.input):
            return None  # no maps but numbers: who reads them complains
        self.check(node, op, a)
        if op in ("Add", "Mul") or op == "Concat" and a["axis"] == 1:
            sources = [self.src(n) for n in node.input]
            if op != "Concat":
                self.check_shapes(op, *[self.shapes.get(n) for n in node.input])
            return net.concat(name, sources) if op == "Concat" else net.add(name, op.lower(), sources)
        src, pads, ones, w, b = self.src(node.input[0]), a.get("pads", [0] * 4), [1, 1], given[1], given[2]
        if a.get("auto_pad", "NOTSET") != "NOTSET":
            raise Refused(f"auto_pad {a['auto_pad']}")
        if op in ("Conv", "ConvTranspose") and w is not None:
            return net.conv(name, src, w, b, a.get("strides", ones), pads, a.get("dilations", ones), a.get("group", 1),
                            a.get("output_padding", [0, 0]) if op == "ConvTranspose" else None)
        if op == "BatchNormalization" and not a.get("training_mode"):
            return net.norm(name, src, *given[1:5], a.get("epsilon", 1e-5), 1 - a.get("momentum", 0.9))
        if op == "GroupNormalization" and w is not None and b is not None:  # before opset 21 a number for each group
            channels = self.shapes.get(node.input[0], [0, 0])[1]
            if not channels:
                raise Refused("of an unknown number of channels")
            w, b = (np.repeat(v, channels // len(v)) for v in (w, b))
            return net.group_norm(name, src, a["num_groups"], channels, w, b, a.get("epsilon", 1e-5))
        if op in ("MaxPool", "AveragePool"):
            return net.pool(name, src, "max_pool" if op == "MaxPool" else "avg_pool", a["kernel_shape"], a.get("strides", ones),
                            pads, a.get("ceil_mode"), a.get("dilations", ones), a.get("count_include_pad"))
        if op == "Gemm" and w is not None and a.get("alpha", 1) == a.get("beta", 1) == 1 and not a.get("transA"):
            w = w if a.get("transB") else w.T
            if b is not None and (b.ndim > 2 or b.ndim == 2 and b.shape[0] != 1):
                raise Refused(f"plus numbers of {b.shape}: as many as features are possible")
            return net.linear(name, src, w, None if b is None else np.broadcast_to(b.reshape(-1), w.shape[:1]))
        if op == "MatMul" and w is not None and w.ndim == 2 and len(self.shapes.get(node.input[0], [])) == 2:
            return net.linear(name, src, w.T, None)
        if op == "Flatten" and a.get("axis", 1) == 1 or op == "Reshape" and w is not None and self.flat(w, node.input[0]):
            return net.add(name, "flatten", [src])
        if op == "ReduceMean":  # from opset 18 on the axes come in
            return net.mean(name, src, a.get("axes", [] if w is None else list(w)), a.get("keepdims", 1))
        if op == "Resize":
            return self.resize(name, src, a, given, self.shapes.get(node.output[0], [])[2:])
        if op == "HardSigmoid" and not self.is_usual(a):
            raise Refused("alpha and beta are 1/6 and 0.5")
        if op == "Clip":  # from opset 11 on the limits come in
            if [a.get(k) if v is None else v for k, v in (("min", w), ("max", b))] != [0, 6]:
                raise Refused("from 0 to 6 is possible")
            return net.add(name, "relu6", [src])
        if op == "LeakyRelu":
            return net.leaky_relu(name, src, a.get("alpha", 0.01))
        if op == "Gelu":
            return net.gelu(name, src, a.get("approximate", "none"))
        if op.lower() in PLAIN:
            return net.add(name, PLAIN[op.lower()], [src])
        if op == "Dropout" and given[2] is not None and given[2].any():
            raise Refused("in evaluation, too")
        if op not in ("Identity", "Dropout") and not (op == "Pad" and w is not None and not w.any()):
            raise Refused("no layer does this, or not with these attributes")
        return src

    def step(self, node, op, name, a, given):
        """A node that does something to each number: a layer where that, with the nodes before it, is a known function; "" where
        no layer does it alone; None where one may."""
        value, operands = node.output[0], []
        for n, number in zip(node.input, given):
            if number is None and n not in self.env and n not in self.between or number is not None and number.size != 1:
                return None
            own = {n: self.points} if n in self.env else {}
            operands.append(float(number.reshape(())) if number is not None else {**self.steps.get(n, {}), **own})
        maps = [o for o in operands if isinstance(o, dict)]
        if not maps or node.domain not in ("", "ai.onnx") or (not self.is_usual(a) if op == "HardSigmoid" else a):
            return None
        with np.errstate(all="ignore"):
            self.steps[value] = {base: STEPS[op](*(o[base] if isinstance(o, dict) else o for o in operands))
                                 for base in maps[0] if all(base in m for m in maps)}
        for base, ys in self.steps[value].items():
            for how, known in self.functions:
                if base in self.env and np.allclose(ys, known, 0, 2e-5):
                    return self.net.add(name, sources=[self.env[base]], **how)
        if all(n in self.env for n in node.input) and op not in ("Sub", "Div", "Pow", "Tanh", "Erf"):
            return None
        self.between[value] = f"{node.name or value}: {op}"
        return ""

    @staticmethod
    def is_usual(a):
        return abs(a.get("alpha", 0.2) - 1 / 6) <= 1e-6 and a.get("beta", 0.5) == 0.5

    def check(self, node, op, a):
        """Refuses what would be left aside without a word."""
        if node.domain not in ("", "ai.onnx"):
            raise Refused(f"of the domain {node.domain}")
        for k, v in a.items():
            if k not in ATTRIBUTES.get(op, "").split() and v not in (0, "", "stretch", "NOTSET"):
                raise Refused(f"{k} = {v}")
        for n in [n for n in node.input[1:] if n and op not in ("Add", "Mul", "Concat", "Resize")]:
            if n not in self.known:
                raise Refused(f"{n} is computed")

    @staticmethod
    def check_shapes(op, x, y):
        known = x and y and all(x[1:]) and all(y[1:])  # 0: any
        if known and len(y) == 4 and np.prod(x[1:]) < np.prod(y[1:]):
            x, y = y, x
        if known and x[1:] != y[1:] and not (op == "Mul" and len(x) == 4 and y[1:] == [x[1], 1, 1]):
            raise Refused(f"of {' x '.join(map(str, x))} and {' x '.join(map(str, y))}")

    def grouping(self, node, op, name, a, given):
        """Takes a node of those that PyTorch makes of a group norm: N x C x H x W as N x groups x rest, normalized, as it was,
        and, where nobody else reads that, times and plus a number for each channel."""
        value, out, net = node.input[0], node.output[0], self.net
        source, groups, layer = self.grouped.get(value, (value, 0, None))
        to = [] if given[1] is None else list(given[1].reshape(-1)) if op == "Reshape" else [1] * 4 + list(given[1].shape)
        if op == "Reshape" and value in self.env and len(to) == 3 and to[::2] == [0, -1]:
            self.grouped[out] = (value, to[1], None)
        elif op == "InstanceNormalization" and groups and not layer and source in self.shapes and \
                (given[1] == 1).all() and (given[2] == 0).all():
            layer = net.group_norm(name, self.env[source], groups, self.shapes[source][1], None, None, a.get("epsilon", 1e-5))
            self.grouped[out] = (source, groups, layer)
        elif op == "Reshape" and layer and self.shapes.get(out) == self.shapes.get(source):
            self.env[out], self.grouped[out] = layer, (source, 0, layer)
        elif op in ("Mul", "Add") and layer and not groups and given[1] is not None and self.reads.count(value) == 1:
            weight, bias, rank = f"{layer}.weight", f"{layer}.bias", len(self.shapes[source])
            each = [len(net.weights[bias])] + [1] * (rank - 2)  # from the channels on
            if given[1].size > 1 and (given[1].ndim > rank or to[1 - rank:] != each or to[-rank] != 1):
                return False
            for key in (weight, bias) if op == "Mul" else (bias,):
                v = given[1].reshape(-1)
                net.weights[key] = net.weights[key] * v if op == "Mul" else net.weights[key] + v
            self.env[out] = layer
            self.grouped.update({out: (source, 0, layer)} if op == "Mul" else {})
        else:
            return False
        return True

    def flat(self, to, value):
        """Is a value of this new shape N x C H W?"""
        shape = self.shapes.get(value, [0, 0])
        return len(to) == 2 and (to[1] == -1 and to[0] in (0, shape[0]) or to[1] == np.prod(shape[1:]))

    def resize(self, name, src, a, given, size):
        mode, how = a.get("mode", "nearest"), a.get("coordinate_transformation_mode", "half_pixel")
        scale = given[2][2:] if given[2] is not None and given[2].size == 4 else None
        if scale is not None and (given[2][:2] != 1).any():
            raise Refused("of samples or channels")
        near = how == "asymmetric" and a.get("nearest_mode") == "floor"
        fine = near if mode == "nearest" else how in ("half_pixel", "pytorch_half_pixel", "align_corners")
        if not fine or scale is None and (len(size) != 2 or not all(size)):
            raise Refused(f"{mode}, {how}, or to a size that is computed")
        return self.net.upsample(name, src, {"linear": "bilinear"}.get(mode, mode), how == "align_corners", scale,
                                 size if scale is None else None)

    def finish(self, taps):
        if len(self.outs) != 1:
            self.net.problems.append(f"output: {', '.join(self.outs) or 'none'}: one is wanted")
        for n in [n for n in self.outs if n in self.between]:
            self.src(n)
        self.net.problems += [f"output: {n} is no map" for n in self.outs if n not in self.env]
        return self.env.get("".join(self.outs[:1])), self.net.find(taps, {**{v: v for v in self.env.values()}, **self.env})


def check(network, shape, out, taps):
    program = os.environ.get("SPCORE") or shutil.which("spcore")
    if not program or shape[0] != 3:
        sys.exit("--check runs the program spcore, from the PATH or the variable SPCORE, on an image of 3 channels")
    images, fine = np.random.default_rng(1).integers(0, 256, (1, *shape), dtype=np.uint8), True
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(folder + "/data")
        np.save(folder + "/data/images.npy", images)
        np.save(folder + "/data/labels.npy", np.zeros(1, np.int64))
        for end in (".lua", ".safetensors"):
            shutil.copy(out + end, folder + "/net" + end)
        with open(folder + "/check.lua", "w", encoding="utf-8") as f:
            f.write(CHECK.replace("HEIGHT", str(shape[1])).replace("WIDTH", str(shape[2])).replace("TAPS", str(taps)))
        try:
            failed = subprocess.run([os.path.abspath(program), "run", "check.lua"], cwd=folder, check=False).returncode
        except OSError as why:
            sys.exit(f"--check: the program {program} cannot be run: {why.strerror}")
        if failed:
            sys.exit("--check: spcore cannot run what was written")
        for i, y in enumerate(network.values(images.astype(np.float32) / 255)):
            ours = np.load(f"{folder}/{i}.npy")
            error = np.abs(ours - y).max() / max(np.abs(y).max(), 1e-30) if ours.shape == y.shape else np.inf
            what = f"tap {i}" if i else "result"
            print(f"{what}: {' x '.join(map(str, y.shape))}, differs by {error:.2g} of the largest value")
            fine = fine and error <= 1e-4  # not of NaN
    if not fine:
        sys.exit("--check: that is more than 1e-4")


def demand(*packages):
    """Ends with a line that names the package which is not there."""
    for name in packages:
        if importlib.util.find_spec(name) is None:
            sys.exit(f"spcore_convert.py: the Python package {name} is missing: python3 -m pip install {name}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", metavar="MODEL")
    p.add_argument("-o", "--out", required=True, help="OUT.lua and OUT.safetensors are written")
    p.add_argument("--input", default="3x224x224", metavar="CxHxW", help="what the network gets, default 3x224x224")
    p.add_argument("--tap", action="append", default=[], metavar="NAME", help="a module, a layer, or a value of ONNX, whose "
                   "result becomes one of `maps`, which are in the order of the network; may be given several times")
    p.add_argument("--check", action="store_true", help="runs spcore and PyTorch on an image of noise and compares")
    opt = p.parse_args()
    if not re.fullmatch(r"[1-9]\d*x[1-9]\d*x[1-9]\d*", opt.input):
        p.error(f"--input {opt.input}: such as 3x224x224 is wanted")
    if os.path.basename(opt.out) in ("", ".", ".."):
        p.error(f"-o '{opt.out}': the name of what is written, without .lua, is wanted")
    if ":" not in opt.model and not opt.model.endswith(".onnx") or opt.check and opt.model.endswith(".onnx"):
        p.error(f"{opt.model}: FILE.py:NAME, MODULE:NAME or FILE.onnx is wanted; --check is not for the last")
    shape = tuple(map(int, opt.input.split("x")))
    demand("numpy", "onnx" if opt.model.endswith(".onnx") else "torch")
    try:
        network = Onnx(opt.model) if opt.model.endswith(".onnx") else Torch(opt.model, shape)
    except (ImportError, OSError, KeyError, AttributeError) as why:
        sys.exit(f"{opt.model}: {type(why).__name__}: {why}")
    net, (out, taps) = network.net, network.finish(opt.tap)
    if not net.problems:
        net.prune(out, taps)
    if net.problems:
        sys.exit(f"{opt.model} cannot be expressed in layers:\n  " + "\n  ".join(net.problems))
    try:
        net.write(opt.out, opt.model)
    except OSError as why:
        sys.exit(f"{opt.out}: {why}")
    print(f"{opt.out}.lua: {len(net.layers)} layers; {opt.out}.safetensors: {sum(v.size for v in net.weights.values())} numbers")
    if opt.check:
        check(network, shape, opt.out, len(taps))


if __name__ == "__main__":
    main()
