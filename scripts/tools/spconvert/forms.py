# SPDX-License-Identifier: MIT
"""What a network does and no layer is called after, as several layers: channels that are picked, moved or padded, factors, pools
with a rest."""

import math

from .words import Refused, by, np, pair, two

ABOVE_ZERO = ("relu", "relu6", "sigmoid", "hard_sigmoid")
KEEP_SIGN = ("max_pool", "avg_pool", "mean", "upsample", "dropout", "flatten", "concat", "add", "mul")


class Forms:
    """Parts of Net."""

    def is_above_zero(self, name):
        """Are all its numbers 0 or more, whatever comes in?"""
        seen, todo = set(), [name]
        while todo:
            name = todo.pop()
            if name in seen:
                continue
            seen.add(name)
            kind, _, sources, _ = self.layers.get(name, ("input", None, [], {}))
            if kind in KEEP_SIGN or name in self.fixed:
                todo += sources
            elif kind not in ABOVE_ZERO:
                return False
        return True

    def pool(self, name, src, kind, kernel, stride, pads, ceil_mode, dilation, pads_count):
        """pads: top, left, bottom, right."""
        kernel, stride, pads, size = two(kernel), two(stride), list(pads), self.shapes[src][1:]
        if len(size) != 2:
            raise Refused(f"of {by(self.shapes[src])}, which is no map")
        if pair(two(dilation), 1):
            raise Refused("a dilation")
        rest = [
            ceil_mode
            and (n + pads[i] + pads[i + 2] - k) % s
            and -(-(n + pads[i] + pads[i + 2] - k) // s) * s < n + pads[i]
            for i, (n, k, s) in enumerate(zip(size, kernel, stride))
        ]  # a window that begins in the padding is left out
        if ceil_mode and not any(rest) and max(stride) > 1:
            self.remark(
                "have ceil_mode, which changes nothing at this --input; at sizes that leave a rest it would", name
            )
        if kind == "avg_pool" and (any(rest) and not (any(pads) and pads_count) or any(pads) and not pads_count):
            return self.mean_of_pixels(
                name,
                src,
                kernel,
                stride,
                [
                    p + ((s - 1) * r if i > 1 else 0)
                    for i, (p, s, r) in enumerate(zip(pads, stride * 2, [bool(r) for r in rest] * 2))
                ],
            )
        if any(rest) and (kind != "max_pool" or not self.is_above_zero(src)):
            raise Refused(
                f"ceil_mode, which counts a window past the edge of {size[0]} x {size[1]} pixels here: --input with a "
                "size that leaves no rest"
            )
        if any(rest):
            for i, s in enumerate(stride):
                pads[i + 2] += (s - 1) if rest[i] else 0
        if pads[:2] != pads[2:]:
            if kind == "max_pool" and not self.is_above_zero(src):
                raise Refused(f"padding that differs between sides, {tuple(pads)}, of numbers below 0")
            even = [min(pads[i], pads[i + 2]) for i in (0, 1)]
            src = self.pad(name + ".pad", src, [p - q for p, q in zip(pads, even * 2)])
            pads = even
        return self.add(name, kind, [src], kernel=pair(kernel), stride=pair(stride), pad=pair(pads[:2], 0))

    def mean_of_pixels(self, name, src, kernel, stride, pads):
        """An average pool whose padding does not count: with zeros that do, times how many pixels there are for each that is not
        padding. That is a function of the mean of ones, which are the bias of a convolution."""

        def ones():
            w = np.zeros((1, self.shapes[src][0], 1, 1), np.float32)
            return self.add(name + ".ones", "conv", [src], 1, {"weight": w, "bias": np.ones(1, np.float32)}, kernel=1)

        part = self.pool(
            name + ".part", self.once((src, "ones"), ones), "avg_pool", kernel, stride, pads, False, 1, True
        )
        counts = [
            [min(i * s - p + k, n) - max(i * s - p, 0) for i in range(o)]
            for n, k, s, p, o in zip(self.shapes[src][1:], kernel, stride, pads, self.shapes[part][1:])
        ]
        at = sorted({a * b / math.prod(kernel) for a in counts[0] for b in counts[1]})
        slopes = [(1 / b - 1 / a) / (b - a) for a, b in zip(at, at[1:])]
        factor, bends = part, [t - s for t, s in zip(slopes, [0, *slopes])]
        if bends:  # straight lines between the values that there are
            below = self.add(
                name + ".above",
                "conv",
                [part],
                len(bends),
                {"weight": np.ones((len(bends), 1, 1, 1), np.float32), "bias": -np.float32(at[:-1])},
                kernel=1,
            )
            factor = self.add(
                name + ".factor",
                "conv",
                [self.add(name + ".bends", "relu", [below])],
                1,
                {"weight": np.float32(bends).reshape(1, -1, 1, 1), "bias": np.float32([1 / at[0]])},
                kernel=1,
            )
        self.remark(
            "are average pools whose padding does not count, as one where it does and factors at the edges", name
        )
        made = self.pool(name + ".all", src, "avg_pool", kernel, stride, pads, False, 1, True)
        return (
            self.product(name, made, factor)
            if bends
            else made if at[0] == 1 else self.affine(name, made, 1 / at[0], None)
        )

    def adaptive(self, name, src, kind, size):
        """A pool to a size, where all its windows are alike."""
        kernel, stride, old = [], [], self.shapes[src][1:]
        for n, o in zip(old, size):
            begins, ends = [i * n // o for i in range(o)], [-(-(i + 1) * n // o) for i in range(o)]
            s, k = begins[1] - begins[0] if o > 1 else n, ends[0]
            if any(b != i * s or e != b + k for i, (b, e) in enumerate(zip(begins, ends))) or (n - k) // s + 1 != o:
                raise Refused(f"from {old[0]} x {old[1]} to {size[0]} x {size[1]}: windows of different sizes")
            kernel, stride = kernel + [k], stride + [s]
        if tuple(size) == (1, 1) and kind == "avg_pool":
            return self.add(name, "mean", [src])
        if tuple(size) == tuple(old):
            self.remark("are read by adaptive pools that change nothing at this --input", src)
            return src
        self.remark("are adaptive pools, with windows for this --input", name)
        return self.add(name, kind, [src], kernel=pair(kernel), stride=pair(stride))

    def prelu(self, name, src, slopes):
        """relu(x) - slope relu(-x)"""
        if slopes.size == 1:
            return self.leaky_relu(name, src, float(slopes.reshape(())))
        above = self.add(name + ".above", "relu", [src])
        below = self.add(name + ".below", "relu", [self.affine(name + ".minus", src, -1, None)])
        slopes = slopes.reshape(-1, *[1] * (len(self.shapes[src]) - 1))
        return self.add(name, "add", [above, self.affine(name + ".slopes", below, -slopes, None)])

    def clamp(self, name, src, low, high):
        low, high = (None if v is None or abs(v) > 1e30 else float(v) for v in (low, high))
        if (low, high) == (None, None):
            return src
        if high is None:
            below = self.affine(name + ".below", src, None, -low) if low else src
            out = self.add(name, "relu", [below])
            return self.affine(name + ".back", out, None, low) if low else out
        if low is None:  # high - relu(high - x)
            out = self.add(name, "relu", [self.affine(name + ".below", src, -1, high)])
            return self.affine(name + ".back", out, -1, high)
        if low >= high:
            raise Refused(f"from {low} to {high}")
        if (low, high) == (0, 6):
            return self.add(name, "relu6", [src])
        k = 6 / (high - low)
        out = self.add(name, "relu6", [self.affine(name + ".to", src, k, -low * k)])
        return self.affine(name + ".back", out, 1 / k, low or None)

    def tanh(self, name, src):
        """2 sigmoid(2 x) - 1"""
        return self.affine(
            name + ".back", self.add(name, "sigmoid", [self.affine(name + ".twice", src, 2, None)]), 2, -1
        )

    def widened(self, name, src, like):
        """A map in the shape of another one."""
        x, y = self.shapes[src], self.shapes[like]
        if x == y:
            return src
        if len(x) != 3 or len(y) != 3 or any(a not in (1, b) for a, b in zip(x, y)):
            raise Refused(f"of {by(y)} and {by(x)}")
        if x[1:] != y[1:]:
            if x[1] != 1 or x[2] != 1:
                raise Refused(f"of {by(y)} and {by(x)}")
            src = self.once(
                (src, "up", y[1:]), lambda: self.add(name + ".all", "upsample", [src], mode="nearest", like=like)
            )
        if x[0] != y[0]:
            return self.once(
                (src, "channels", y[0]),
                lambda: self.fix(
                    self.add(
                        name + ".channels",
                        "conv",
                        [src],
                        y[0],
                        {"weight": np.ones((y[0], 1, 1, 1), np.float32)},
                        kernel=1,
                        bias=False,
                    )
                ),
            )
        return src

    def fix(self, layer):
        self.fixed.add(layer)
        self.remark(
            "are convolutions with weights of 0 and 1, which pick, move, pad or repeat channels: the same numbers; where "
            "the network is trained they are trained as well",
            layer,
        )
        return layer

    @staticmethod
    def each_channel(v, shape):
        """Numbers that are broadcast to N x C x H x W or N x C as one for each channel; None where they are not that."""
        v = np.asarray(v, np.float32)
        v = v[0] if v.ndim == len(shape) + 1 and len(v) == 1 else v
        if v.ndim > len(shape) or any(a not in (1, b) for a, b in zip(v.shape[::-1], shape[::-1])):
            return None
        v = np.broadcast_to(v, shape).reshape(shape[0], -1)
        return None if (v != v[:, :1]).any() else v[:, 0]

    def affine(self, name, src, w, b):
        """x w + b, where w and b are numbers, or one for each channel."""
        shape = self.shapes[src]
        each = [None if v is None else self.each_channel(v, shape) for v in (w, b)]
        for v, e in zip((w, b), each):
            if v is not None and e is None:
                raise Refused(
                    f"of {by(shape)} and numbers of {np.shape(v)}, which are not one for each channel",
                    "a table of positions" if np.size(v) == math.prod(shape) else None,
                )
        w, b = each
        w = np.ones(shape[0], np.float32) if w is None else w
        if len(shape) == 1:
            return self.add(
                name,
                "linear",
                [src],
                shape[0],
                {"weight": np.diag(w), "bias": b},
                bias=None if b is not None else False,
            )
        self.remark("are factors or terms as depthwise convolutions of 1 x 1", name)
        return self.add(
            name,
            "conv",
            [src],
            shape[0],
            {"weight": w.reshape(-1, 1, 1, 1), "bias": b},
            kernel=1,
            groups=shape[0] if shape[0] > 1 else None,
            bias=None if b is not None else False,
        )

    def pad(self, name, src, pads):
        """Zeros around a map."""
        shape = self.shapes[src]
        if len(shape) != 3 or min(pads) < 0:
            raise Refused(f"of {by(shape)} by {tuple(pads)}")
        if not any(pads):
            return src
        most = [max(pads[i], pads[i + 2]) for i in (0, 1)]
        kernel = [1 + 2 * most[i] - pads[i] - pads[i + 2] for i in (0, 1)]
        w = np.zeros((shape[0], 1, *kernel), np.float32)
        w[:, :, most[0] - pads[0], most[1] - pads[1]] = 1
        return self.fix(
            self.add(
                name,
                "conv",
                [src],
                shape[0],
                {"weight": w},
                kernel=pair(kernel),
                pad=pair(most, 0),
                groups=shape[0] if shape[0] > 1 else None,
                bias=False,
            )
        )

    def gather(self, name, src, index):
        """What has number index[...] of src, counted from 0 through a sample, at each place."""
        shape, new = self.shapes[src], index.shape
        if index.size == math.prod(shape) and (index.reshape(-1) == np.arange(index.size)).all():
            if new == shape:
                return src
            if len(new) == 1:
                return self.add(name, "flatten", [src])
        if len(new) == 1 and (len(shape) == 1 or shape[1:] == (1, 1)):
            flat = (
                src
                if len(shape) == 1
                else self.once((src, "flat"), lambda: self.add(name + ".flatten", "flatten", [src]))
            )
            w = np.zeros((new[0], shape[0]), np.float32)
            w[np.arange(new[0]), index] = 1
            return self.fix(self.add(name, "linear", [flat], new[0], {"weight": w}, bias=False))
        if len(new) != 3 or len(shape) != 3:
            raise Refused(f"from {by(shape)} to {by(new)}: no layer does this", "a reshape or transpose")
        return self.pick(name, src, index)

    def pick(self, name, src, index):
        """The same of a map to a map: channels, and a grid of pixels of each."""
        (c, h, w), new = self.shapes[src], index.shape
        first = index[:, 0, 0]
        channel, top, left = first // (h * w), first // w % h, first % w
        steps = [
            int(index[0, 1, 0] - first[0]) // w if new[1] > 1 else 1,
            int(index[0, 0, 1] - first[0]) if new[2] > 1 else 1,
        ]
        i, j = np.arange(new[1])[:, None] * steps[0], np.arange(new[2]) * steps[1]
        kernel = [
            next((k for k in range(int(most.max()) + 1, n + 1) if s > 0 and (n - k) // s + 1 == o), 0)
            for most, n, s, o in zip((top, left), (h, w), steps, new[1:])
        ]
        if (
            0 in kernel
            or (index != first[:, None, None] + i * w + j).any()
            or ((top[:, None] + i[:, 0]) >= h).any()
            or ((left[:, None] + j) >= w).any()
        ):
            raise Refused(f"from {by(self.shapes[src])} to {by(new)}: it moves pixels", "a reshape or transpose")
        groups = max(
            g
            for g in range(1, math.gcd(c, new[0]) + 1)
            if c % g == new[0] % g == 0 and (channel // (c // g) == np.arange(new[0]) // (new[0] // g)).all()
        )
        weight = np.zeros((new[0], c // groups, *kernel), np.float32)
        weight[np.arange(new[0]), channel % (c // groups), top, left] = 1
        return self.fix(
            self.add(
                name,
                "conv",
                [src],
                new[0],
                {"weight": weight},
                kernel=pair(kernel),
                stride=pair(steps),
                groups=groups if groups > 1 else None,
                bias=False,
            )
        )

    def pixel_shuffle(self, name, src, r):
        c = self.shapes[src][0] // (r * r)
        weight = np.zeros((c * r * r, 1, r, r), np.float32)
        for i in range(c * r * r):
            weight[i, 0, i // r % r, i % r] = 1
        return self.fix(
            self.add(
                name,
                "conv_transpose",
                [src],
                c,
                {"weight": weight},
                kernel=r,
                stride=r,
                groups=c if c > 1 else None,
                bias=False,
            )
        )
