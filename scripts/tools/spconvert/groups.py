# SPDX-License-Identifier: MIT
"""Sums, products and softmax over groups of channels, as of branches that a network weighs (SK, split attention). A value is a layer
and, for each number of a sample, its place in the layer's: an array in the shape that the network sees."""

import math

from .words import Refused, is_all, np


class Groups:
    """Parts of Net."""

    def channels_of(self, layer, index):
        """Of each number the channel, where `index` ends with whole planes; else None. Numbers of one pixel are planes."""
        c, h, w = self.shapes[layer]
        if (h, w) == (1, 1):
            return index
        if index.ndim < 3 or index.shape[-2:] != (h, w):
            return None
        channels = index[..., 0, 0] // (h * w)
        usual = channels[..., None, None] * (h * w) + np.arange(h * w).reshape(h, w)
        return channels if (index == usual).all() else None

    def over_group(self, name, layer, index, axis, mean):
        """The sum or mean along an axis of channels, or None: then it is no such axis."""
        if len(self.shapes[layer]) != 3 or index.ndim < 2:
            return None
        channels = self.channels_of(layer, index)
        if channels is None or axis >= channels.ndim:
            return None
        rows = np.moveaxis(channels, axis, 0)
        rows = rows.reshape(len(rows), -1)
        kind, _, sources, _ = self.layers.get(layer, ("", 0, [], {}))
        if kind == "concat" and not mean:  # branches that lie side by side
            ends = np.cumsum([self.shapes[s][0] for s in sources])
            begins = {(int(e) - self.shapes[s][0], int(e)): s for s, e in zip(sources, ends)}
            found = [begins.get((int(r[0]), int(r[-1]) + 1)) if (np.diff(r) == 1).all() else None for r in rows]
            if all(found):
                return self.sum(name, found)
        w = np.zeros((rows.shape[1], self.shapes[layer][0], 1, 1), np.float32)
        for r in rows:
            w[np.arange(len(r)), r] += 1 / len(rows) if mean else 1
        made = self.add(name, "conv", [layer], w.shape[0], {"weight": w}, kernel=1, bias=False)
        self.remark("are sums or means over groups of channels as a convolution", made)
        return made

    def softmax_of_two(self, name, layer, index, axis):
        """Of each pair along an axis: the sigmoid of the difference to the other."""
        if index.shape[axis] != 2:
            raise Refused(f"inside the network, over {index.shape[axis]} numbers: over two it is a sigmoid", "softmax")
        channels = self.channels_of(layer, index) if len(self.shapes[layer]) == 3 else None
        if channels is None or axis >= channels.ndim or not is_all(channels, self.shapes[layer][0], False):
            raise Refused("inside the network, of other numbers than channels", "softmax")
        first, second = (c.reshape(-1) for c in np.moveaxis(channels, axis, 0))
        w = np.eye(self.shapes[layer][0], dtype=np.float32)
        w[first, second] = w[second, first] = -1
        less = self.add(
            name + ".less", "conv", [layer], len(w), {"weight": w[:, :, None, None]}, kernel=1, bias=False
        )
        self.remark("are a softmax over two as a sigmoid of differences, which a convolution makes", less)
        return self.add(name, "sigmoid", [less])

    def weighed(self, name, a, places, b, factors):
        """Maps times a number for each channel, in shapes that broadcast; None where they are something else."""
        if len(self.shapes[a]) != 3 or len(self.shapes[b]) != 3 or self.shapes[b][1:] != (1, 1):
            return None
        try:
            factors = np.broadcast_to(factors, places.shape)
        except ValueError:
            return None
        channels = places // math.prod(self.shapes[a][1:])
        order = np.full(self.shapes[a][0], -1)
        order[channels.reshape(-1)] = factors.reshape(-1)
        if (order < 0).any() or (order[channels] != factors).any():
            return None
        return self.product(name, a, self.gather(name + ".order", b, order.reshape(-1, 1, 1)))
