# SPDX-License-Identifier: MIT
"""A module of PyTorch in layers, node by node of its trace."""

import math
import sys

from .net import Net
from .torch_moves import Moves
from .torch_sums import Sums
from .trace import BATCH, Trace, load, where
from .words import SHARED, Refused, by, is_all, np, two

SAME = ("identity", "contiguous", "clone", "stochasticdepth", "droppath", "detach", "float", "to")  # in evaluation
PLAIN = {
    "relu": "relu",
    "relu6": "relu6",
    "sigmoid": "sigmoid",
    "silu": "silu",
    "hardsigmoid": "hard_sigmoid",
    "hardswish": "hard_swish",
    "swish": "silu",
    "hswish": "hard_swish",
}
# What moves numbers and computes nothing. It is done to the numbers' places, and what comes out says which places are read.
MOVES = (
    "view",
    "reshape",
    "flatten",
    "unflatten",
    "permute",
    "transpose",
    "swapaxes",
    "movedim",
    "squeeze",
    "unsqueeze",
    "getitem",
    "select",
    "narrow",
    "chunk",
    "split",
    "tensorsplit",
    "unbind",
    "channelshuffle",
    "nativechannelshuffle",
    "pixelunshuffle",
    "roll",
    "indexselect",
    "viewas",
    "reshapeas",
    "t",
    "stack",
)
WORDS = {
    "scaleddotproductattention": "attention",
    "multiheadattention": "attention",
    "layernorm": "layer_norm",
    "nativelayernorm": "layer_norm",
    "matmul": "matmul",
    "bmm": "matmul",
    "einsum": "einsum",
    "lstm": "recurrent",
    "gru": "recurrent",
    "rnn": "recurrent",
    "instancenorm2d": "instance_norm",
    "instancenorm": "instance_norm",
}


class Torch(Moves, Sums):
    """net: the layers; finish() gives the result's and the taps' names."""

    oracle = "PyTorch"

    def __init__(self, spec, shape):
        import torch

        module = load(torch, spec)
        self.torch, self.net, self.used = torch, Net(shape), set()
        self.weighed = set()  # weights that a layer has
        try:  # of any kind: for a size there may be no memory, or no number
            x = torch.rand(BATCH, *shape)
        except Exception as why:
            sys.exit(f"--input {'x'.join(map(str, shape))}: " + str(why).strip().split("\n")[0])
        try:  # of any kind: the network itself may not take this input
            with torch.no_grad():
                module(x.clone())
        except Exception as why:
            sys.exit(f"{spec} does not take an input of {' x '.join(map(str, shape))}: {where(why)}")
        try:  # what fails may be of any kind: it is the network's own code that runs
            self.trace = Trace(torch, module, x)
        except Exception as why:
            sys.exit(f"torch.fx cannot follow the network: {where(why)}")
        try:
            kept, self.changed = self.trace.run(x)
            same = self.trace.is_same(x, kept)
        except Exception as why:
            sys.exit(f"torch.fx does not follow the network to its result: {where(why)}")
        self.kept, self.modules = kept, self.trace.modules
        self.preprocess = getattr(module, "pretrained_cfg", None) or getattr(module, "default_cfg", None)
        self.shapes = {n: tuple(v.shape) for n, v in kept.items() if isinstance(v, torch.Tensor)}
        self.constant = self.constants()
        self.at = {}  # node: the layer that has its numbers, and where in a sample of it, None: in order
        self.lists = {}  # node of several tensors: the same of each
        self.pads = {}  # node: what is to be padded, by how much, with which number
        self.made, self.names, self.narrow = {}, {}, {}
        self.as_maps = self.find_as_maps()
        for node in self.trace.graph.nodes:
            if node.op == "placeholder":
                self.at.update({node: ("input", None)} if isinstance(kept[node], torch.Tensor) else {})
            elif node.op == "output":
                self.out = node.args[0]
            elif node.op != "get_attr" and node not in self.constant:
                self.take(node)
        if not same and not self.net.problems:
            self.net.refuse(
                "output", "output", "what torch.fx has followed gives another result than the network itself"
            )

    def constants(self):
        """Nodes that no image changes, and what they are."""
        known = {}
        for node in self.trace.graph.nodes:
            if (
                node.op == "get_attr"
                or node.op in ("call_function", "call_method")
                and all(n in known for n in node.all_input_nodes)
            ):
                known[node] = self.kept[node]
        return known

    def find_as_maps(self):
        """Nodes of N x C that become N x C x 1 x 1 again: squeeze and excitation by linear layers. They stay maps throughout."""
        found = set()
        for node in self.trace.graph.nodes:
            if (
                len(self.shapes.get(node, ())) == 4
                and self.shapes[node][2:] == (1, 1)
                and self.name_of(node)[0] in MOVES
            ):
                todo = [n for n in node.all_input_nodes if len(self.shapes.get(n, ())) in (2, 3)]
                while todo:
                    n = todo.pop()
                    if n not in found:
                        found.add(n)
                        todo += [m for m in n.all_input_nodes if len(self.shapes.get(m, ())) in (2, 3)]
        return found

    # ---- what an argument is ----

    def number(self, v):
        """A number, or an array of numbers, that no image changes; None of others."""
        if isinstance(v, self.torch.fx.Node):
            v = self.constant.get(v)
        if isinstance(v, self.torch.Tensor):
            return v.detach().numpy()
        return v if isinstance(v, (int, float)) and not isinstance(v, bool) else None

    def is_map(self, v):
        return isinstance(v, self.torch.fx.Node) and (v in self.at or v in self.pads)

    def place(self, node):
        """The layer that has the node's numbers, and where."""
        if not isinstance(node, self.torch.fx.Node) or node not in self.at and node not in self.pads:
            raise Refused(f"it reads {node}, which is no map")
        if node in self.pads:
            first, pads, value = self.pads.pop(node)
            if value != 0:
                raise Refused(f"it reads {node}, which is padded with {value}: zeros are possible")
            self.at[node] = (self.net.pad(self.names[node], self.src(first), pads), None)
        return self.at[node]

    def located(self, node):
        """The same, with a place for each number in the node's shape."""
        layer, index = self.place(node)
        index = np.arange(math.prod(self.net.shapes[layer])) if index is None else index
        return layer, index.reshape(self.shapes[node][1:])

    def src(self, node):
        """The layer whose numbers the node has, in its shape."""
        return self.shaped(node, *self.place(node))

    def shaped(self, node, layer, index):
        shape = self.shapes[node]
        if shape[0] != BATCH:
            raise Refused(f"of {shape}: samples are joined or taken apart")
        if index is None:
            index = np.arange(math.prod(self.net.shapes[layer]))
        index = index.reshape(shape[1:])
        if self.net.shapes[layer] == index.shape and (index.reshape(-1) == np.arange(index.size)).all():
            return layer
        return self.net.once(
            (layer, index.shape, index.tobytes()),
            lambda: self.net.gather(self.names.get(node, node.name), layer, index),
        )

    def as_is(self, node, ordered=False):
        """The layer and the places, for what is done to each number: it does not matter where they are, as long as all are there.
        ordered: it matters, but not their shape."""
        layer, index = self.place(node)
        if index is None or is_all(index, math.prod(self.net.shapes[layer]), ordered):
            return layer, index
        return self.src(node), None

    # ---- nodes ----

    def name_of(self, node):
        m = self.modules[node.target] if node.op == "call_module" else None
        kind = type(m).__mro__[1 if hasattr(m, "parametrizations") else 0]
        what = kind.__name__ if m is not None else str(getattr(node.target, "__name__", node.target))
        plain = what.lower().replace("_", "")
        return plain, what, m

    def take(self, node):
        if not isinstance(self.kept[node], (self.torch.Tensor, tuple, list)):
            return
        what, word, m = self.name_of(node)
        path, name = node.meta["path"], node.name
        if m is not None:
            name = node.target
        elif path:
            name = f"{path}.{name[len(path) + 1:] if name.startswith(path.replace('.', '_') + '_') else name}"
        while m is None and name in self.modules:  # whose name that is
            name += "_"
        args = dict(enumerate(node.args), **node.kwargs)
        self.names[node] = name

        def get(i, key, default=None):
            return getattr(m, key, default) if m is not None else args.get(i, args.get(key, default))

        try:
            made = self.layer(node, what, name, m, get)
            if isinstance(made, list):
                self.lists[node] = made
            elif made is not None:
                self.at[node] = made if isinstance(made, tuple) else (made, None)
                self.made[node] = self.at[node]  # as it was before somebody changed it in place
            for n in [n for n in self.changed[node] if n in self.at]:  # in place: who reads the old value reads this
                if self.shapes.get(n) != self.shapes.get(node):
                    raise Refused(f"it changes a view of {n} in place")
                self.at[n] = self.at[node]
        except Exception as why:  # of any kind: arguments may have any form
            if not isinstance(why, Refused):
                why = Refused(f"of a form that is not known here ({type(why).__name__}: {str(why)[:80]})")
            why.what = why.what or WORDS.get(what)
            self.net.refuse(node.name, word, why)
            self.skip(node)

    def skip(self, node):
        """Goes on behind what cannot be, so that what follows is looked at, too."""
        values = self.kept[node]
        for i, v in enumerate([values] if isinstance(values, self.torch.Tensor) else values):
            if not isinstance(v, self.torch.Tensor):
                continue
            layer = f"?{node.name}.{i}"
            self.net.shapes[layer] = tuple(v.shape[1:])
            if v is values:
                self.at[node] = (layer, None)
            else:
                self.lists.setdefault(node, []).append((layer, None))

    def layer(self, node, what, name, m, get):
        """A layer's name, or that with places, or a list of those."""
        net, new = self.net, self.shapes.get(node)
        first = node.args[0] if node.args else node.kwargs.get("input")
        if m is not None and len(node.args) + len(node.kwargs) != 1:
            raise Refused("called with more than what it reads")
        if what == "getitem" and isinstance(first, self.torch.fx.Node) and first in self.lists:
            if not isinstance(node.args[1], int):
                raise Refused("of several maps")
            return self.lists[first][node.args[1]]
        if what in WORDS and not what.startswith("instancenorm"):
            raise Refused("no layer does this")
        if what in ("cat", "concat", "concatenate"):
            return self.concat(node, name, get(0, "tensors"), get(1, "dim", 0))
        if what == "stack":
            return self.stacked(node, name, get(0, "tensors"), get(1, "dim", 0))
        if what in ("pad", "zeropad2d", "constantpad2d", "zeropad", "constantpadnd"):
            return self.padded(node, what, first, m, get)
        if what in (
            "add",
            "iadd",
            "mul",
            "imul",
            "sub",
            "isub",
            "truediv",
            "itruediv",
            "div",
            "neg",
            "rsub",
            "square",
            "abs",
            "pow",
            "multiply",
            "subtract",
            "divide",
            "rtruediv",
            "maximum",
            "minimum",
        ):
            return self.pointwise(node, what, name, first, get)
        if not self.is_map(first):
            raise Refused(f"it reads {first}, which is no map")
        if what in MOVES:
            return self.moved(node, first, m)
        if what in ("expand", "expandas", "broadcastto"):
            return self.expanded(node, name, first, get)
        if what in ("mean", "sum", "amax", "adaptivemaxpool2d"):
            return self.reduced(node, what, name, first, get)
        old = self.shapes[first]
        state = self.numbers(m) if m is not None else {}
        if state and name in self.used:
            raise Refused("used more than once: two layers do not have the same weights")
        self.used.add(name)
        weight = getattr(m, "_parameters", {}).get("weight")
        if weight is not None and id(weight) in self.weighed:
            self.net.remark(SHARED, name)
        self.weighed.add(id(weight))
        if what in (
            "conv2d",
            "convtranspose2d",
            "batchnorm",
            "batchnorm1d",
            "batchnorm2d",
            "linear",
            "groupnorm",
            "conv1d",
            "prelu",
            "instancenorm",
            "instancenorm2d",
        ):
            return self.weighted(node, what, name, m, get, first, state)
        if what in ("maxpool2d", "avgpool2d") and not get(6, "divisor_override"):
            return self.pool(what, name, first, get)
        if what == "adaptiveavgpool2d":
            return net.adaptive(name, self.src(first), "avg_pool", new[2:])
        if (what == "interpolate" or m is not None and isinstance(m, self.torch.nn.Upsample)) and not get(
            6, "antialias"
        ):
            return self.resize(node, name, self.src(first), get)
        if what == "pixelshuffle":
            return net.pixel_shuffle(name, self.src(first), get(1, "upscale_factor"))
        if what in ("dropout", "dropout1d", "dropout2d", "featuredropout", "alphadropout"):
            return self.dropout(what, name, first, m, get)
        if what in SAME and (new == old or what in ("to", "float")):
            return self.place(first)
        return self.function(node, what, name, first, new == old, m, get)

    def comes_out(self, node):
        """Does the network give these numbers, wherever they are moved?"""
        return any(u.op == "output" or self.name_of(u)[0] in (*MOVES, *SAME) and self.comes_out(u) for u in node.users)

    def function(self, node, what, name, first, same, m, get):
        """What is done to each number."""
        net = self.net
        if not same:
            raise Refused(f"from {by(self.shapes[first][1:])} to another shape: no layer does this")
        if what == "softmax" and not self.comes_out(node):
            layer, index = self.located(first)
            made = net.softmax_of_two(name, layer, index, get(1, "dim") % len(self.shapes[first]) - 1)
            return made, index
        if what == "softmax" or what == "logsoftmax":
            raise Refused(
                "the loss and the predictions have it: convert the network without it, or with the scores as its result",
                "softmax",
            )
        layer, index = self.as_is(first)
        if what in ("hardtanh", "clamp", "clip", "clampmin", "clampmax"):
            low, high = ("min_val", "max_val") if what == "hardtanh" else ("min", "max")
            ends = {
                "hardtanh": (get(1, low, -1.0), get(2, high, 1.0)),
                "clampmin": (get(1, low), None),
                "clampmax": (None, get(1, high)),
            }.get(what, (get(1, low), get(2, high)))
            out = net.clamp(name, layer, *ends)
        elif what == "leakyrelu":
            out = net.leaky_relu(name, layer, get(1, "negative_slope", 0.01))
        elif what in ("gelu", "geluptanh", "gelutanh", "geluactivation"):
            out = net.gelu(name, layer, "tanh" if "tanh" in what else get(1, "approximate", "none"))
        elif what == "tanh":
            out = net.tanh(name, layer)
        elif what == "threshold" and (get(1, "threshold"), get(2, "value")) == (0, 0):
            out = net.add(name, "relu", [layer])
        elif what in PLAIN:
            out = net.add(name, PLAIN[what], [layer])
        else:
            raise Refused("no layer does this")
        return out, index

    def dropout(self, what, name, first, m, get):
        p = get(1, "p", 0.5)
        if m is None and get(2, "training", True):
            raise Refused("in evaluation, too: give it training = self.training")
        if what == "alphadropout":
            raise Refused("no layer does this")
        layer, index = self.as_is(first)
        return (self.net.add(name, "dropout", [layer], p=p, maps="2d" in what or None), index) if p else (layer, index)

    def weighted(self, node, what, name, m, get, first, state):
        """Modules with weights, and functions that get tensors which the module has or computes from its own."""
        net, new, old = self.net, self.shapes[node], self.shapes[first]

        def tensor(i, key):
            v = state.get(key) if m is not None else get(i, key)
            given = v if isinstance(v, np.ndarray) else self.number(v)
            if v is not None and not isinstance(given, np.ndarray):
                raise Refused(f"{key} is computed from the image")
            return given

        norm = what.startswith(("batchnorm", "instancenorm"))
        w, b = (
            (tensor(3, "weight"), tensor(4, "bias"))
            if norm
            else (
                (tensor(2, "weight"), tensor(3, "bias"))
                if what == "groupnorm"
                else (tensor(1, "weight"), tensor(2, "bias"))
            )
        )
        if m is None:
            name = self.own_name(node, name)
        if what == "prelu":
            return net.prelu(name, self.src(first), w)
        if what.startswith("batchnorm"):
            if m is None and get(5, "training", False):
                raise Refused("in evaluation, too: its statistics are those of the images")
            eps, momentum = (
                (m.eps, m.momentum) if m is not None else (get(7, "eps", 1e-5), get(6, "momentum", 0.1) or 0.1)
            )
            src = self.as_is(first, True)[0] if node in self.as_maps else self.src(first)
            return net.norm(
                name,
                src,
                w,
                b,
                tensor(1, "running_mean"),
                tensor(2, "running_var"),
                eps,
                momentum,
                state.get("num_batches_tracked"),
            )
        if what == "groupnorm":
            groups, eps = (m.num_groups, m.eps) if m is not None else (get(1, "num_groups"), get(4, "eps", 1e-5))
            return net.group_norm(name, self.src(first), groups, old[1], w, b, eps)
        if what.startswith("instancenorm"):
            if tensor(1, "running_mean") is not None and (m is not None or not get(5, "use_input_stats", True)):
                raise Refused("with running statistics")
            return net.group_norm(
                name,
                self.src(first),
                old[1],
                old[1],
                tensor(3, "weight"),
                tensor(4, "bias"),
                m.eps if m is not None else get(7, "eps", 1e-5),
            )
        if w is None:
            raise Refused("without weights that are known")
        if what == "linear":
            if len(new) != 2 and node not in self.as_maps:
                raise Refused(f"of {by(old[1:])}: of rows of features alone", "linear on tokens")
            layer, _ = self.as_is(first, True)
            if node in self.as_maps and net.shapes[layer][1:] == (1, 1):
                return net.conv(name, layer, w[:, :, None, None], b, 1, [0] * 4, 1, 1)
            if len(new) != 2:
                raise Refused(f"of {by(old[1:])}: of rows of features alone", "linear on tokens")
            return net.linear(name, self.src(first), w, b)
        if what == "conv1d":
            return self.conv1d(name, first, w, b, get, new)
        stride, groups = two(get(3, "stride", 1)), get(6, "groups", 1)
        if what == "convtranspose2d":
            if m is None:
                raise Refused("no layer does this")
            pads = list(two(m.padding)) * 2
            return net.conv(name, self.src(first), w, b, stride, pads, m.dilation, m.groups, m.output_padding)
        if m is not None and m.padding_mode != "zeros":
            raise Refused(f"padding {m.padding_mode}: zeros are possible")
        dilation, padding = two(get(5, "dilation", 1)), get(4, "padding", 0)
        if isinstance(padding, str):
            all_of = [0, 0] if padding == "valid" else [d * (k - 1) for d, k in zip(dilation, w.shape[2:])]
            pads = [n // 2 for n in all_of] + [n - n // 2 for n in all_of]
        else:
            pads = list(two(padding)) * 2
        if first in self.pads and self.pads[first][2] == 0:
            first, more, _ = self.pads[first]
            pads = [p + q for p, q in zip(pads, more)]
        return net.conv(
            name, self.src(first), w, b, stride, pads, dilation, get(6, "groups", 1) if m is None else groups
        )

    def conv1d(self, name, first, w, b, get, new):
        """Over the channels of a mean, as in efficient channel attention."""
        layer, index = self.as_is(first, True)
        padding, n = get(4, "padding", 0), new[-1]
        if (
            w.shape[:2] != (1, 1)
            or new[1] != 1
            or len(self.net.shapes[layer]) == 3
            and self.net.shapes[layer][1:] != (1, 1)
            or two(get(3, "stride", 1))[0] != 1
            or two(get(5, "dilation", 1))[0] != 1
            or isinstance(padding, str)
        ):
            raise Refused("in one dimension")
        pad, c = two(padding)[0], self.net.shapes[layer][0]
        band = np.zeros((n, c), np.float32)
        for o in range(n):
            for i, v in enumerate(w[0, 0]):
                if 0 <= o - pad + i < c:
                    band[o, o - pad + i] = v
        b = None if b is None else np.repeat(b, n)
        self.net.remark(
            "are convolutions over channels, as those of 1 x 1 with one weight for each pair of channels: weights of "
            "other files of this network do not fit there",
            name,
        )
        if len(self.net.shapes[layer]) == 3:
            return self.net.conv(name, layer, band[:, :, None, None], b, 1, [0] * 4, 1, 1), None
        return self.net.linear(name, layer, band, b), None

    def own_name(self, node, name):
        """Of a function: the name of the module whose weights it gets."""
        for n in node.all_input_nodes:
            if n.op == "get_attr" and str(n.target).endswith(".weight"):
                own = n.target[: -len(".weight")]
                if own not in self.used:
                    self.used.add(own)
                    return own
        return name

    def numbers(self, m):
        """Its weights by their names: those of a parametrization are computed."""
        if m._forward_hooks or any(
            not type(h).__module__.startswith("torch.nn.utils.") for h in m._forward_pre_hooks.values()
        ):
            raise Refused("with a hook")
        named = {
            k: getattr(m, k, None) for k in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
        }
        return {k: v.detach().numpy() for k, v in named.items() if isinstance(v, self.torch.Tensor)}

    def pool(self, what, name, first, get):
        top, kernel = what == "maxpool2d", two(get(1, "kernel_size"))
        stride, pads = two(get(2, "stride") or kernel), list(two(get(3, "padding", 0))) * 2
        if first in self.pads:
            inner, more, value = self.pads[first]
            if top and value <= -1e30 or not top and value == 0 and get(5, "count_include_pad", True):
                first, pads = inner, [p + q for p, q in zip(pads, more)]
        return self.net.pool(
            name,
            self.src(first),
            "max_pool" if top else "avg_pool",
            kernel,
            stride,
            pads,
            get(5 if top else 4, "ceil_mode"),
            two(get(4, "dilation", 1)) if top else (1, 1),
            get(5, "count_include_pad", True),
        )

    def padded(self, node, what, first, m, get):
        """Kept until it is known who reads it."""
        pad = list(get(1, "pad") or get(1, "padding")) if m is None else list(two(m.padding))
        mode = "constant" if m is not None else get(2, "mode", "constant")
        value = getattr(m, "value", 0) if m is not None else get(3, "value", 0) or 0
        if what == "constantpadnd":
            mode, value = "constant", get(2, "value", 0)
        pad = [int(p) for p in (pad * 2 if len(pad) == 2 and m is not None else pad)] + [0] * 8
        if not self.is_map(first) or len(self.shapes[first]) != 4 or any(pad[6:]):
            raise Refused("of other dimensions than height and width")
        if mode != "constant":
            raise Refused(f"{mode}: zeros are possible")
        if min(pad) < 0:
            raise Refused("that cuts")
        if any(pad[4:6]):  # channels of zeros
            if value != 0:
                raise Refused(f"channels of {value}")
            src = self.src(first)
            c = self.net.shapes[src][0]
            w = np.zeros((c + pad[4] + pad[5], c, 1, 1), np.float32)
            w[np.arange(c) + pad[4], np.arange(c)] = 1
            src = self.net.fix(
                self.net.add(self.names[node], "conv", [src], len(w), {"weight": w}, kernel=1, bias=False)
            )
            return self.net.pad(self.names[node] + ".pad", src, [pad[2], pad[0], pad[3], pad[1]]), None
        self.pads[node] = (first, [pad[2], pad[0], pad[3], pad[1]], value)
        return None

    def concat(self, node, name, parts, dim):
        new = self.shapes[node]
        if len(new) not in (2, 4) or dim not in (1, 1 - len(new)):
            raise Refused("of another dimension than the channels'")
        return self.net.concat(name, [self.src(n) for n in parts])

    def stacked(self, node, name, parts, dim):
        """Side by side as channels; an axis more says which is which."""
        layers = [self.src(n) for n in parts]
        shape, rank = self.net.shapes[layers[0]], len(self.shapes[node])
        if dim % rank == 0:
            raise Refused("of samples")
        size = math.prod(shape)
        places = [np.arange(size).reshape(shape) + i * size for i in range(len(layers))]
        return self.net.concat(name, layers), np.stack(places, dim % rank - 1)

    # ---- what moves numbers ----

    # ---- the whole ----

    def finish(self, taps):
        if isinstance(self.out, dict) and len(self.out) == 1:
            self.out = list(self.out.values())[0]
        if isinstance(self.out, (list, tuple)) and len(self.out) == 1:
            self.out = self.out[0]
        if not isinstance(self.out, self.torch.fx.Node) or self.out not in self.at and self.out not in self.pads:
            self.net.refuse("output", "output", "no tensor, or several: convert the module that makes one")
            return None, []
        try:
            known = {
                **{self.names[n]: n for n in self.made},
                **{k: n for k, n in self.trace.ends.items() if n in self.made},
            }
            found = {self.shaped(n, *self.made[n]): n for n in self.net.find(taps, known)}
            out = self.src(self.out)
        except Refused as why:
            self.net.refuse("output", "output", why)
            return None, []
        order = [name for name in self.net.layers if name in found]
        self.tapped = [found[name] for name in order]
        return out, order

    def values(self, x):
        """The result and the taps, of BATCH images."""
        kept = self.trace.run(self.torch.from_numpy(x))[0]
        return [kept[n].numpy() for n in [self.out] + self.tapped]
