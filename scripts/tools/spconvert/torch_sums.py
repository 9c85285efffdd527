# SPDX-License-Identifier: MIT
"""PyTorch: sums and products of maps and numbers."""

import math

from .words import Refused, by, np


class Sums:
    """Parts of Torch."""

    def pointwise(self, node, what, name, a, get):
        net, new = self.net, self.shapes[node]
        if what in ("neg", "square", "abs"):
            layer, index = self.as_is(a)
            if what == "neg":
                return net.affine(name, layer, -1, None), index
            if what == "square":
                return net.product(name, layer, layer), index
            return net.prelu(name, layer, np.float32([-1])), index
        b, alpha = get(1, "other"), get(2, "alpha", 1)
        if what == "pow":
            if get(1, "exponent", b) != 2:
                raise Refused("to another power than 2")
            layer, index = self.as_is(a)
            return net.product(name, layer, layer), index
        word = what.lstrip("i") if what[0] == "i" else what
        word = {"multiply": "mul", "subtract": "sub", "divide": "div", "truediv": "div", "itruediv": "div"}.get(
            word, word
        )
        if word == "rsub":
            a, b, word = b, a, "sub"
        if what == "rtruediv" or word == "div" and get(2, "rounding_mode"):
            raise Refused("no layer does this")
        x, y = self.number(a), self.number(b)
        if x is not None or y is not None:
            return self.with_numbers(word, name, a, b, x, y, alpha)
        if word == "div":
            raise Refused("of two maps: no layer does this")
        if word == "mul":
            a, b = (
                self.narrow.get(v, v) if self.shapes.get(self.narrow.get(v), ())[2:] == (1, 1) else v for v in (a, b)
            )
        if word == "mul" and len(new) > 4:
            for v, k in ((a, b), (b, a)):
                (layer, places), (factor, factors) = self.located(v), self.located(k)
                if self.shapes[v] == new and (made := net.weighed(name, layer, places, factor, factors)):
                    return made, places
        pair, index = [self.as_is(v) for v in (a, b)], None
        if (
            self.shapes[a] == self.shapes[b]
            and net.shapes[pair[0][0]] == net.shapes[pair[1][0]]
            and str(pair[0][1]) == str(pair[1][1])
            and (pair[0][1] is None or (pair[0][1] == pair[1][1]).all())
        ):
            pair, index = [layer for layer, _ in pair], pair[0][1]
        else:
            pair = [self.src(a), self.src(b)]
        if word in ("maximum", "minimum"):  # b + relu(a - b), b - relu(b - a)
            one = -1 if word == "minimum" else 1
            less = net.sum(name + ".less", [pair[0], net.affine(name + ".minus", pair[1], -1, None)])
            less = net.affine(name + ".turned", less, -1, None) if one < 0 else less
            above = net.add(name + ".above", "relu", [less])
            return net.sum(name, [pair[1], net.affine(name + ".back", above, -1, None) if one < 0 else above]), index
        if word == "sub" or word == "add" and alpha != 1:
            pair[1] = net.affine(name + ".factor", pair[1], -alpha if word == "sub" else alpha, None)
        made = net.product(name, *pair) if word == "mul" else net.sum(name, pair)
        if index is None and math.prod(net.shapes[made]) != math.prod(new[1:]):
            raise Refused(f"of {by(net.shapes[pair[0]])} and {by(net.shapes[pair[1]])}")
        return made, index

    def with_numbers(self, word, name, a, b, x, y, alpha):
        net = self.net
        node, k = (b, x) if x is not None else (a, y)
        scalar = np.size(k) == 1
        layer, index = self.as_is(node) if scalar else (self.src(node), None)
        k = np.asarray(k, np.float32).reshape(()) if scalar else np.asarray(k, np.float32)
        if word == "add":
            w, c = (None, k * alpha) if y is not None else (None if alpha == 1 else alpha, k)
        elif word == "sub":
            w, c = (None, -k * alpha) if y is not None else (-alpha, k)
        elif word == "mul":
            w, c = k, None
        elif word == "div" and y is not None:
            w, c = 1 / k, None
        elif word in ("maximum", "minimum") and scalar:
            return net.clamp(name, layer, *((float(k), None) if word == "maximum" else (None, float(k)))), index
        else:
            raise Refused("of a number by a map: no layer does this")
        if (w is None or (np.asarray(w) == 1).all()) and (c is None or (np.asarray(c) == 0).all()):
            return layer, index
        return net.affine(name, layer, w, c), index
