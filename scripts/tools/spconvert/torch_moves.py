# SPDX-License-Identifier: MIT
"""PyTorch: what moves numbers, what is over the pixels of a map, and maps of another size."""

import math

from .trace import BATCH, Dim, sizes_like
from .words import Refused, by, np, two


class Moves:
    """Parts of Torch."""

    def moved(self, node, first, m):
        torch, target = self.torch, node.target
        if node.op != "call_module" and len([n for n in node.all_input_nodes if self.is_map(n)]) != 1:
            raise Refused("of several maps")
        layer, index = self.place(first)
        n = math.prod(self.net.shapes[layer])
        if self.shapes[first][0] != BATCH:
            raise Refused(f"of {self.shapes[first]}: samples are joined or taken apart")
        index = np.arange(n) if index is None else index
        places = np.stack([index.reshape(self.shapes[first][1:]) + i * n for i in range(BATCH)])
        places = torch.from_numpy(np.ascontiguousarray(places))
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda v: places if v is first else self.kept[v])
        if m is not None:
            out = m(places)
        else:
            out = (
                target(*args, **kwargs) if node.op == "call_function" else getattr(places, target)(*args[1:], **kwargs)
            )
        if isinstance(out, torch.Tensor):
            return layer, self.of_a_sample(out.numpy(), n)
        return [(layer, self.of_a_sample(v.numpy(), n)) for v in out]

    @staticmethod
    def of_a_sample(places, n):
        if places.ndim < 2 or len(places) != BATCH or (places[1] != places[0] + n).any() or (places[0] >= n).any():
            raise Refused("samples are joined, or change places", "a reshape of samples")
        return places[0]

    def expanded(self, node, name, first, get):
        """One pixel or channel in all places; a product takes it as it was."""
        src, new, like = self.src(first), self.shapes[node][1:], get(1, "other")
        if self.net.shapes[src] == new:
            return src
        self.narrow[node] = first
        if not self.is_map(like) or self.shapes[like][1:] != new:
            like = next(
                (n for n, (layer, index) in self.at.items() if index is None and self.net.shapes[layer] == new), None
            )
        if like is None:
            raise Refused(f"from {by(self.net.shapes[src])} to {by(new)}: no map has this shape")
        return self.net.widened(name, src, self.src(like))

    def reduced(self, node, what, name, first, get):
        """Over height, width or both; over channels the mean and the sum."""
        net, old, new = self.net, self.shapes[first], self.shapes[node]
        if what == "adaptivemaxpool2d":
            return net.adaptive(name, self.src(first), "max_pool", new[2:])
        dims = get(1, "dim")
        if dims is None:
            raise Refused("of all numbers")
        dims = sorted(d % len(old) for d in ([dims] if isinstance(dims, int) else dims))
        layer, index = self.place(first)
        shape = net.shapes[layer]
        if what != "amax" and len(dims) == 1 and len(old) > 4:
            made = net.over_group(name, *self.located(first), dims[0] - 1, what == "mean")
            if made:
                return made, np.arange(math.prod(net.shapes[made])).reshape(new[1:])
        if len(old) == 4 and dims == [1] and what in ("mean", "sum"):
            w = np.full((1, old[1], 1, 1), 1 / old[1] if what == "mean" else 1, np.float32)
            made = net.add(name, "conv", [self.src(first)], 1, {"weight": w}, kernel=1, bias=False)
            net.remark("are sums or means over channels as a convolution", made)
            return made, None
        if len(shape) != 3:
            raise Refused("of other dimensions than height and width")
        index = (np.arange(math.prod(shape)) if index is None else index).reshape(old[1:])
        axes = tuple(d - 1 for d in dims)
        if -1 in axes:
            raise Refused("over samples")
        rows = np.moveaxis(index, axes, range(-len(axes), 0)).reshape(
            *[n for i, n in enumerate(old[1:]) if i not in axes], -1
        )
        channels, size = rows // (shape[1] * shape[2]), shape[1] * shape[2]
        kind = "max_pool" if what == "amax" else "avg_pool"
        kept = new[1:] if get(2, "keepdim") else tuple(n for i, n in enumerate(old[1:]) if i not in axes)
        if (
            rows.shape[-1] == size
            and (channels == channels[..., :1]).all()
            and (np.sort(rows, -1) == channels * size + np.arange(size)).all()
        ):
            made = (
                net.add(name, "mean", [layer])
                if kind == "avg_pool"
                else net.pool(name, layer, kind, shape[1:], 1, [0] * 4, False, 1, True)
            )
            made = net.affine(name + ".sum", made, size, None) if what == "sum" else made
            return made, channels[..., 0].reshape(kept)
        if len(old) == 4 and dims in ([2], [3]):
            kernel = (shape[1], 1) if dims == [2] else (1, shape[2])
            made = net.pool(name, self.src(first), kind, kernel, 1, [0] * 4, False, 1, True)
            made = net.affine(name + ".sum", made, max(kernel), None) if what == "sum" else made
            net.remark("are over one side of this --input", made)
            return made, np.arange(math.prod(net.shapes[made])).reshape(kept)
        raise Refused("of other dimensions than height and width")

    def resize(self, node, name, src, get):
        size, scale = get(1, "size"), get(2, "scale_factor")
        size = None if scale else size
        like = sizes_like(size) if size is not None else None
        new, old = self.shapes[node][2:], self.net.shapes[src][1:]
        if like is not None and self.shapes[like][2:] != new:
            raise Refused("to a size that is computed")
        if like is None and size is not None and any(isinstance(n, Dim) for n in two(size)):  # computed of another one
            if any(n % o for n, o in zip(new, old)):
                self.net.remark("have a size that is computed for this --input", src)
            else:
                size, scale = None, [n // o for n, o in zip(new, old)]
        if (
            scale
            and any(s != int(s) or s < 1 for s in two(scale))
            and all(o * s == n for o, s, n in zip(old, two(scale), new))
        ):
            self.net.remark("become smaller, to a size for this --input", src)
            size, scale = new, None
        return self.net.upsample(
            name,
            src,
            get(3, "mode", "nearest"),
            get(4, "align_corners"),
            two(scale) if scale else None,
            None if scale or like is not None else two(size),
            self.src(like) if like is not None else None,
        )
