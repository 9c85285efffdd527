# SPDX-License-Identifier: MIT
"""A list of layers as it is built: what each becomes, which shape it has, and its weights."""

import difflib
import json
import math
import re
import struct

from .forms import Forms
from .groups import Groups
from .words import Refused, by, np, pair, two

MOST = 16  # values that one layer reads


def lua(v):
    if isinstance(v, list):
        return "{ " + ", ".join(map(lua, v)) + " }" if len(v) != 1 or isinstance(v[0], int) else lua(v[0])
    return str(v).lower() if isinstance(v, bool) else f'"{v}"' if isinstance(v, str) else repr(v)


def shape_of(kind, out, ins, p):
    """Of what a layer gives: C, H, W or F. Those of what it reads, the map that a size is taken from last."""
    first = ins[0]
    if kind in ("conv", "conv_transpose", "max_pool", "avg_pool"):
        if len(first) != 3:
            raise Refused(f"of {by(first)}, which is no map")
        size = []
        for n, k, s, pad, d, o in zip(
            first[1:],
            *(
                two(p.get(w) or e)
                for w, e in (("kernel", 1), ("stride", 1), ("pad", 0), ("dilation", 1), ("out_pad", 0))
            ),
        ):
            under = d * (k - 1) + 1
            size.append(
                (n - 1) * s - 2 * pad + under + o if kind == "conv_transpose" else (n + 2 * pad - under) // s + 1
            )
        if min(size) < 1:
            raise Refused(f"of {by(first)}: nothing is left of the map")
        return (out if "conv" in kind else first[0], *size)
    if kind == "mean":
        return first[0], 1, 1
    if kind == "flatten":
        return (math.prod(first),)
    if kind == "linear":
        return (out,)
    if kind == "concat":
        return (sum(s[0] for s in ins), *first[1:])
    if kind == "upsample":
        size = (
            two(p["size"])
            if p.get("size")
            else ins[-1][1:] if p.get("like") else [n * s for n, s in zip(first[1:], two(p["scale"]))]
        )
        return (first[0], *size)
    return max(ins, key=math.prod)


class Net(Forms, Groups):
    """Layers in order, by name, each as { type, out, from, params }, and their weights."""

    def __init__(self, shape):
        self.layers, self.weights, self.problems, self.remarks = {}, {}, [], {}
        self.shapes, self.made = {"input": tuple(shape)}, {}
        self.fixed = set()  # whose weights are zeros and ones

    def refuse(self, node, what, why):
        if isinstance(why, str) and node in ("input", "output"):  # of the whole, and no operation
            self.problems.append((None, what, f"{node}: {why}"))
            return
        self.problems.append((node, (why.what if isinstance(why, Refused) else None) or what, str(why)))

    def remark(self, words, name):
        self.remarks.setdefault(words, []).append(name)

    def add(self, wanted, kind, sources, out=None, weights=None, **params):
        params = {k: v for k, v in params.items() if v is not None}
        shape = shape_of(
            kind, out, [self.shapes[s] for s in [*sources, *([params["like"]] if "like" in params else [])]], params
        )
        base = re.sub(r"[^A-Za-z0-9._-]", "_", wanted)[-60:]
        name, n = base if base not in ("", "input") else "layer", 1
        while name in self.layers:
            n += 1
            name = f"{base}_{n}"
        self.layers[name], self.shapes[name] = (kind, out, list(sources), params), shape
        self.weights.update({f"{name}.{k}": np.asarray(v) for k, v in (weights or {}).items() if v is not None})
        return name

    def once(self, key, make):
        """What is made for several readers, once."""
        if key not in self.made:
            self.made[key] = make()
        return self.made[key]

    def demand_channels(self, src, n):
        """Where something was refused before, nobody knows how many there would be."""
        if not self.problems and self.shapes[src][0] != n:
            raise Refused(f"of {by(self.shapes[src])} by weights for {n} channels")

    # ---- layers ----

    def conv(self, name, src, w, b, stride, pads, dilation, groups, out_pad=None):
        """pads: top, left, bottom, right. out_pad: of a transposed one, whose weights are in x out."""
        if w.ndim != 4:
            raise Refused(f"in {w.ndim - 2} dimensions")
        turned, pads, wide = out_pad is not None, list(pads), []
        self.demand_channels(src, w.shape[0] if turned else w.shape[1] * groups)
        if turned and pads[:2] != pads[2:]:
            raise Refused(f"padding that differs between sides: {tuple(pads)}")
        if min(pads) < 0:
            raise Refused(f"padding that cuts: {tuple(pads)}")
        for i, d in enumerate(two(dilation)):  # a side with less padding gets rows of zeros under the kernel instead
            most = max(pads[i], pads[i + 2])
            p = next((p for p in range(most, most + d) if (p - pads[i]) % d == (p - pads[i + 2]) % d == 0), None)
            if p is None:
                raise Refused(f"padding that differs between sides, {tuple(pads)}, with a dilation of {d}")
            wide.append(((p - pads[i]) // d, (p - pads[i + 2]) // d))
            pads[i] = p
        if any(map(any, wide)):
            self.remark(
                "have kernels with rows or columns of zeros, since their padding differs between sides: weights of other "
                "files of this network do not fit there",
                name,
            )
            w = np.pad(w, ((0, 0), (0, 0), *wide))
        return self.add(
            name,
            "conv_transpose" if turned else "conv",
            [src],
            w.shape[1] * groups if turned else w.shape[0],
            {"weight": w, "bias": b},
            kernel=pair(w.shape[2:]),
            stride=pair(two(stride)),
            pad=pair(pads[:2], 0),
            dilation=pair(two(dilation), 1),
            groups=groups if groups > 1 else None,
            bias=None if b is not None else False,
            out_pad=pair(two(out_pad), 0) if turned else None,
        )

    def norm(self, name, src, w, b, mean, var, eps, momentum, count=None):
        if mean is None or momentum is None:
            raise Refused("without running statistics, or with the mean over all batches")
        self.check_eps(eps)
        self.demand_channels(src, len(mean))
        weights = {
            "weight": np.ones_like(mean) if w is None else w,
            "bias": np.zeros_like(mean) if b is None else b,
            "running_mean": mean,
            "running_var": var,
            "num_batches_tracked": count,
        }
        return self.add(name, "batch_norm", [src], weights=weights, eps=eps, momentum=momentum)

    @staticmethod
    def check_eps(eps):
        if not 1e-12 <= eps <= 1:
            raise Refused(f"eps {eps}: 1e-12 to 1 is possible")

    def group_norm(self, name, src, groups, channels, w, b, eps):
        self.check_eps(eps)
        weights = {
            "weight": np.ones(channels, np.float32) if w is None else w,
            "bias": np.zeros(channels, np.float32) if b is None else b,
        }
        return self.add(name, "group_norm", [src], int(groups), weights, eps=eps)

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
        self.demand_channels(src, w.shape[1])
        return self.add(
            name, "linear", [src], w.shape[0], {"weight": w, "bias": b}, bias=None if b is not None else False
        )

    def concat(self, name, sources):
        while len(sources) > MOST:
            sources = [self.add(name + ".part", "concat", sources[:MOST])] + sources[MOST:]
        return self.add(name, "concat", sources) if len(sources) > 1 else sources[0]

    def sum(self, name, sources):
        """Of maps: one of N x C x 1 x 1, or of one channel, counts for all pixels, or channels, of the others."""
        most = max((self.shapes[s] for s in sources), key=math.prod)
        like = next(s for s in sources if self.shapes[s] == most)
        sources = [self.widened(name, s, like) for s in sources]
        while len(sources) > MOST:
            sources = [self.add(name + ".part", "add", sources[:MOST])] + sources[MOST:]
        return self.add(name, "add", sources) if len(sources) > 1 else sources[0]

    def product(self, name, a, b):
        if math.prod(self.shapes[a]) < math.prod(self.shapes[b]):
            a, b = b, a
        x, y = self.shapes[a], self.shapes[b]
        if len(x) == 3 and y in ((x[0], 1, 1), (x[0],)):
            return self.add(name, "mul", [a, b])
        return self.add(name, "mul", [a, self.widened(name, b, a)])

    def upsample(self, name, src, mode, align, scale, size, like=None):
        if scale is not None and any(s != int(s) or s < 1 for s in scale):
            raise Refused(f"a scale of {tuple(scale)}: whole numbers are possible, or a size")
        if mode not in ("nearest", "bilinear"):
            raise Refused(f"{mode}: nearest and bilinear are possible")
        return self.add(
            name,
            "upsample",
            [src],
            mode=mode,
            align_corners=align or None,
            like=like,
            scale=None if scale is None else pair(scale),
            size=None if size is None else pair(size),
        )

    # ---- the whole ----

    def find(self, taps, known):
        """Those of `known` that are called so."""
        for t in taps:
            if t not in known:
                near = difflib.get_close_matches(t, [k for k in known if k], 3)
                near = near or [k for k in known if t and k and (t in k or k in t)][:3] or [k for k in known if k][-3:]
                self.problems.append(
                    (None, "--tap", f"--tap {t}: there is no such module or layer; did you mean {', '.join(near)}?")
                )
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
        for n in [n for n in wanted if self.layers[n][3].get("like", out) not in read]:
            self.refuse(n, self.layers[n][0], f"of {self.layers[n][3]['like']} nothing but the size is used")
        if out == "input" or "input" in taps or any(out in self.layers[n][2] for n in wanted):
            self.refuse("output", "output", "a result or tap that is what comes in, or a tap behind the result")
        self.layers = {
            n: self.layers[n] for n in [n for n in self.layers if n in wanted and n != out] + [out] if n != "input"
        }
        self.weights = {k: v for k, v in self.weights.items() if k.rpartition(".")[0] in self.layers}
        self.remarks = {k: [n for n in v if n in self.layers] for k, v in self.remarks.items()}
        for tap in [t for t in taps if t != "input"]:
            self.layers[tap][3]["tap"] = True

    def pyramid(self):
        """The last layers of a half, a quarter, an eighth and a sixteenth of the input's sides, where the map becomes smaller."""
        if len(self.shapes["input"]) != 3:
            return []
        _, h, w = self.shapes["input"]
        found = {}
        for name, (kind, _, sources, _) in self.layers.items():
            for source in sources[:1]:
                while source in self.fixed:  # zeros around a map
                    source = self.layers[source][2][0]
                size, after = self.shapes[source][1:], self.shapes[name][1:]
                for level in (2, 4, 8, 16):
                    if (
                        size == (h // level, w // level)
                        and after == (h // level // 2, w // level // 2)
                        and source != "input"
                    ):
                        found[level] = source
        return [found[level] for level in sorted(found)]

    def write(self, out, title, about):
        """about: lines of the table beside the layers, as { key: the text of a value }"""
        before = ["input"]
        with open(out + ".lua", "w", encoding="utf-8") as f:
            f.write(f"-- {title}, converted by spcore_convert.py.\nreturn {{\n")
            for name, (kind, channels, sources, params) in self.layers.items():
                words = (
                    [lua(kind)]
                    + [lua(channels)] * (channels is not None)
                    + [f"from = {lua(sources)}"] * (sources != before)
                )
                words += [f"{k} = {lua(v)}" for k, v in params.items()] + [f"name = {lua(name)}"]
                f.write("  { " + ", ".join(words) + " },\n")
                before = [name]
            f.write("".join(f"  {k} = {v},\n" for k, v in about.items()) + "}\n")
        write_weights(out + ".safetensors", self.weights)


def write_weights(path, weights):
    """As safetensors: whole numbers as int64, all else as float32."""
    at, header = 0, {}
    values = {k: v.astype(np.int64 if v.dtype.kind in "iub" else np.float32) for k, v in weights.items()}
    for name, v in values.items():
        word, at = "I64" if v.dtype == np.int64 else "F32", at + v.nbytes
        header[name] = {"dtype": word, "shape": list(v.shape), "data_offsets": [at - v.nbytes, at]}
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for v in values.values():
            f.write(v.tobytes())
