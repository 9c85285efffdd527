# SPDX-License-Identifier: MIT
"""ONNX: what moves numbers, and what is over the pixels of a map."""

import math

from .words import Refused, is_all, np


class Moves:
    """Parts of Onnx."""

    def moved(self, node, op, a, given):
        layer, index, shape = self.place(node.input[0])
        n = math.prod(self.net.shapes[layer])
        index = np.arange(n) if index is None else index
        if shape[0] != self.batch:
            raise Refused(f"of {' x '.join(map(str, shape))}: samples are joined or taken apart")
        places = np.stack([index.reshape(shape[1:]) + i * n for i in range(self.batch)])
        try:
            parts = self.move(node, op, a, given, places)
        except (ValueError, IndexError) as why:
            raise Refused(str(why)) from None
        made = []
        for v in parts if isinstance(parts, list) else [parts]:
            if (
                v.ndim < 2
                or v.shape[0] != self.batch
                or any((v[i] != v[0] + i * n).any() for i in range(self.batch))
                or (v[0] >= n).any()
            ):
                raise Refused("samples are joined, or change places", "a reshape of samples")
            made.append((layer, v[0], v.shape))
        return made

    def move(self, node, op, a, given, v):
        if op == "Reshape":
            return v.reshape(self.new_shape(v.shape, self.given(node, 1, a, "shape", 5), a))
        if op == "Flatten":
            axis = a.get("axis", 1)
            if axis < 0 and self.opset < 11:
                raise Refused(f"axis {axis} in operator set {self.opset}")
            axis = axis + v.ndim if axis < 0 else axis
            return v.reshape(math.prod(v.shape[:axis]), -1)
        if op in ("Squeeze", "Unsqueeze"):
            axes = self.given(node, 1, a, "axes", 13)
            if op == "Unsqueeze":
                return self.unsqueezed(v, axes)
            return np.squeeze(v, None if axes is None else tuple(int(d) for d in axes))
        if op == "Transpose":
            return np.transpose(v, a.get("perm"))
        if op == "Slice":
            return self.sliced(v, node, a)
        if op == "Gather":
            if given[1] is None:
                raise Refused("its places are computed")
            return np.take(v, given[1].astype(np.int64), a.get("axis", 0))
        if op == "SpaceToDepth":
            r, (n, c, h, w) = a["blocksize"], v.shape
            return (
                v.reshape(n, c, h // r, r, w // r, r).transpose(0, 3, 5, 1, 2, 4).reshape(n, c * r * r, h // r, w // r)
            )
        axis, parts = a.get("axis", 0), len(node.output)
        sizes = self.given(node, 1, a, "split", 13)
        if sizes is None:
            each = -(-v.shape[axis] // parts)
            if each * parts != v.shape[axis] and self.opset < 18:
                raise Refused(f"of {v.shape[axis]} in {parts} parts")
            sizes = [each] * parts
        return np.split(v, np.cumsum([int(s) for s in sizes])[:-1], axis)

    def depth_to_space(self, name, value, a):
        net, src, r = self.net, self.src(value), a["blocksize"]
        c, h, w = net.shapes[src]
        if a.get("mode", "DCR") == "DCR":
            index = np.arange(c * h * w).reshape(r * r, c // (r * r), h, w).swapaxes(0, 1).reshape(c, h, w)
            src = net.gather(name + ".channels", src, index)
        made = net.pixel_shuffle(name, src, r)
        return made, None, (self.batch, *net.shapes[made])

    def reduced(self, node, op, name, a, given):
        net, value = self.net, node.input[0]
        old = self.shape(value)
        if op.startswith("Global"):
            axes, keep = tuple(range(2, len(old))), 1
        else:
            axes = self.given(node, 1, a, "axes", 13 if op == "ReduceSum" else 18)
            keep = a.get("keepdims", 1)
            axes = tuple(sorted(int(d) % len(old) for d in (axes if axes is not None else ())))
        layer, index, _ = self.place(value)
        shape = net.shapes[layer]
        if len(axes) == 1 and axes[0] > 0 and len(old) > 4 and op in ("ReduceMean", "ReduceSum"):
            made = net.over_group(name, *self.located(value), axes[0] - 1, op == "ReduceMean")
            if made:
                new = [1 if i == axes[0] else n for i, n in enumerate(old) if keep or i != axes[0]]
                return made, np.arange(math.prod(net.shapes[made])).reshape(new[1:]), tuple(new)
        if axes == (1,) and len(old) == 4 and op in ("ReduceMean", "ReduceSum") and keep:
            w = np.full((1, old[1], 1, 1), 1 / old[1] if op == "ReduceMean" else 1, np.float32)
            made = net.add(name, "conv", [self.src(value)], 1, {"weight": w}, kernel=1, bias=False)
            return made, None, (self.batch, *net.shapes[made])
        if not axes or 0 in axes or len(shape) != 3:
            raise Refused("of other dimensions than height and width")
        index = (np.arange(math.prod(shape)) if index is None else index).reshape(old[1:])
        inner = tuple(d - 1 for d in axes)
        rest = [n for i, n in enumerate(old[1:]) if i not in inner]
        rows, size = np.moveaxis(index, inner, range(-len(inner), 0)).reshape(*rest, -1), shape[1] * shape[2]
        channels = rows // size
        if (
            rows.shape[-1] != size
            or (channels != channels[..., :1]).any()
            or (np.sort(rows, -1) != channels * size + np.arange(size)).any()
        ):
            raise Refused("of other dimensions than height and width")
        if op.endswith("Max") or op == "GlobalMaxPool":
            made = net.pool(name, layer, "max_pool", shape[1:], 1, [0] * 4, False, 1, True)
        else:
            made = net.add(name, "mean", [layer])
        made = net.affine(name + ".sum", made, size, None) if op == "ReduceSum" else made
        new = tuple(1 if i in inner else n for i, n in enumerate(old[1:])) if keep else tuple(rest)
        return made, channels[..., 0].reshape(new), (self.batch, *new)

    # ---- groups of channels ----

    def located(self, name):
        """The layer that has the value's numbers, and a place for each in the value's shape."""
        layer, index, shape = self.place(name)
        if shape[0] != self.batch:
            raise Refused(f"{name} is {' x '.join(map(str, shape))}: samples are joined or taken apart")
        index = np.arange(math.prod(self.net.shapes[layer])) if index is None else index
        return layer, index.reshape(shape[1:])

    def joined(self, node, name, axis):
        """Values of more than four dimensions side by side, whose layers follow one another as channels."""
        parts, places, at = [self.located(n) for n in node.input], [], 0
        for layer, index in parts:
            size = math.prod(self.net.shapes[layer])
            if not is_all(index, size, True):
                raise Refused("of parts of maps, in more than four dimensions")
            places.append(index + at)
            at += size
        made, index = self.net.concat(name, [layer for layer, _ in parts]), np.concatenate(places, axis - 1)
        return made, index, (self.batch, *index.shape)

    def comes_out(self, name, moves):
        """Does the network give this value, wherever its numbers are moved?"""
        readers = [n for n in self.model.graph.node if name in n.input and n.op_type in (*moves, "Identity", "Cast")]
        return name in self.outs or any(self.comes_out(o, moves) for n in readers for o in n.output)

    def softmax(self, node, name, a):
        """Inside the network. Before operator set 13 it is over all dimensions from its axis on."""
        layer, index = self.located(node.input[0])
        rank = index.ndim + 1
        axis = a.get("axis", -1 if self.opset >= 13 else 1) % rank
        if self.opset < 13 and math.prod(index.shape[axis:]) != 1:
            raise Refused(f"inside the network, of several dimensions in operator set {self.opset}", "softmax")
        return self.net.softmax_of_two(name, layer, index, axis - 1), index, (self.batch, *index.shape)

    def weighed(self, name, ins):
        for v, k in (ins, ins[::-1]):
            (layer, places), (factor, factors) = self.located(v), self.located(k)
            made = self.net.weighed(name, layer, places, factor, factors)
            if made:
                return made, places, (self.batch, *places.shape)
        return None

    def padded(self, node, a):
        """Kept until it is known who reads it."""
        value, old = node.input[0], self.shape(node.input[0])
        pads = self.given(node, 1, {k.replace("paddings", "pads"): v for k, v in a.items()}, "pads", 11)
        number = self.given(node, 2, a, "value", 11, 0) if self.opset < 11 or len(node.input) > 2 else 0
        axes = self.known[node.input[3]] if len(node.input) > 3 and node.input[3] else range(len(old))
        if a.get("mode", "constant") != "constant" and np.any(pads):
            raise Refused(f"{a['mode']}: zeros are possible")
        all_of, half = [0] * 2 * len(old), len(pads) // 2
        for i, d in enumerate(axes):
            all_of[int(d)], all_of[int(d) + len(old)] = int(pads[i]), int(pads[i + half])
        if not any(all_of):
            return self.place(value)
        if len(old) != 4 or any(all_of[i] for i in (0, 1, 4, 5)) or min(all_of) < 0:
            raise Refused("of other dimensions than height and width, or that cuts")
        edge = [all_of[2], all_of[3], all_of[6], all_of[7]]
        shape = (*old[:2], old[2] + edge[0] + edge[2], old[3] + edge[1] + edge[3])
        self.pads[node.output[0]] = (
            value,
            edge,
            float(np.asarray(number if number is not None else 0).reshape(())),
            shape,
        )
        return None
