# SPDX-License-Identifier: MIT
"""ONNX: maps of another size."""

import math

from .words import Refused, np


class Sizes:
    """Parts of Onnx."""

    def resize(self, node, op, name, a, given):
        net, src = self.net, self.src(node.input[0])
        old, sizes, scales = net.shapes[src][1:], None, None
        mode = {"linear": "bilinear"}.get(a.get("mode", "nearest"), a.get("mode", "nearest"))
        if op == "Upsample" and self.opset < 7:
            scales = [1, 1, a.get("height_scale"), a.get("width_scale")]
        elif op == "Upsample":
            scales = self.given(node, 1, a, "scales", 9)
        elif self.opset < 11:
            scales = given[1]
        else:
            scales, sizes = given[2], given[3]
        axes = [int(d) % 4 for d in a.get("axes", range(4))]
        scales = None if scales is None or not len(scales) else dict(zip(axes, map(float, scales)))
        sizes = None if sizes is None or not len(sizes) else dict(zip(axes, map(int, sizes)))
        if scales is None and sizes is None:
            raise Refused("to a size that is computed")
        if any(
            (scales or {}).get(d, 1) != 1 or (sizes or {}).get(d, n) != n
            for d, n in enumerate(self.shape(node.input[0])[:2])
        ):
            raise Refused("of samples or channels")
        new = [sizes.get(d, n) if sizes else math.floor(n * scales.get(d, 1) + 1e-9) for d, n in zip((2, 3), old)]
        scale = [m / n if sizes else scales.get(d, 1) for d, n, m in zip((2, 3), old, new)]
        early = op == "Upsample" or self.opset < 11  # x / scale, without a word of it
        how = "asymmetric" if early else a.get("coordinate_transformation_mode", "half_pixel")
        rounding = "floor" if early else a.get("nearest_mode", "round_prefer_floor")
        if mode not in ("nearest", "bilinear"):
            raise Refused(f"{mode}: nearest and bilinear are possible")
        if a.get("antialias") and min(scale) < 1:
            raise Refused("with antialias")
        if early and mode == "nearest" and any(s != int(s) or s < 1 for s in scale):
            raise Refused(f"by {tuple(scale)} in operator set {self.opset}, which does not say what is nearest")
        points = [self.coordinates(how, n, m, s) for n, m, s in zip(old, new, scale)]
        if any(p is None for p in points):
            raise Refused(f"{mode}, {how}")
        made = (
            self.nearest(name, src, points, rounding, old, new, scale)
            if mode == "nearest"
            else self.bilinear(name, src, points, how, old, new, scale)
        )
        return made, None, (self.batch, *net.shapes[made])

    @staticmethod
    def coordinates(how, n, m, scale):
        """Where each of m pixels is among n."""
        x = np.arange(m, dtype=np.float64)
        if how in ("half_pixel", "pytorch_half_pixel"):
            return x * 0 if how != "half_pixel" and m == 1 else (x + 0.5) / scale - 0.5
        if how == "half_pixel_symmetric":
            return n / 2 * (1 - m / (n * scale)) + (x + 0.5) / scale - 0.5
        if how == "tf_half_pixel_for_nn":
            return (x + 0.5) / scale
        if how == "align_corners":
            return x * (n - 1) / (m - 1) if m > 1 else x * 0
        return x / scale if how == "asymmetric" else None

    def nearest(self, name, src, points, rounding, old, new, scale):
        near = {
            "floor": np.floor,
            "ceil": np.ceil,
            "round_prefer_floor": lambda x: np.ceil(x - 0.5),
            "round_prefer_ceil": lambda x: np.floor(x + 0.5),
        }[rounding]
        rows, columns = (np.clip(near(np.round(p, 9)), 0, n - 1).astype(int) for p, n in zip(points, old))
        usual = all((got == np.arange(m) * n // m).all() for got, n, m in zip((rows, columns), old, new))
        if usual:
            whole = all(s == int(s) for s in scale)
            if not whole:
                self.net.remark("have a size that is computed for this --input", name)
            return self.net.upsample(
                name, src, "nearest", None, [int(s) for s in scale] if whole else None, None if whole else new
            )
        if min(scale) >= 1:
            raise Refused(f"nearest by {tuple(scale)}, {rounding}: other pixels than those of the layer upsample")
        c = self.net.shapes[src][0]
        index = np.arange(c)[:, None, None] * old[0] * old[1] + rows[:, None] * old[1] + columns
        return self.net.gather(name, src, index)

    def bilinear(self, name, src, points, how, old, new, scale):
        net = self.net
        whole = all(s == int(s) and s >= 1 for s in scale)

        def like(kind):
            return all(
                np.allclose(np.clip(p, 0, n - 1), np.clip(self.coordinates(kind, n, m, m / n), 0, n - 1), 0, 1e-5)
                for p, n, m in zip(points, old, new)
            )

        for kind, align in (("half_pixel", None), ("align_corners", True)):
            if like(kind):
                if not whole:
                    net.remark("have a size that is computed for this --input", name)
                return net.upsample(
                    name, src, "bilinear", align, [int(s) for s in scale] if whole else None, None if whole else new
                )
        if how != "asymmetric" or not whole:
            raise Refused(f"bilinear, {how}, by {tuple(scale)}")
        # x / scale: with corners in place up to the last pixel, which is then repeated
        net.remark("are x / scale in several layers, as the operator set of the file has it, for this --input", name)
        steps = [int(s) for s in scale]
        size = [(n - 1) * s + 1 for n, s in zip(old, steps)]
        out = net.upsample(name, src, "bilinear", True, None, size) if list(size) != list(old) else src
        for i, s in enumerate(steps):
            if s == 1:
                continue
            c, h, w = net.shapes[out]
            places = np.arange(c * h * w).reshape(c, h, w)
            last = net.gather(f"{name}.last{i}", out, places[:, -1:, :] if i == 0 else places[:, :, -1:])
            tail = (
                net.upsample(f"{name}.tail{i}", last, "nearest", None, (s - 1, 1) if i == 0 else (1, s - 1), None)
                if s > 2
                else last
            )
            before, behind = ([h, 0, 0, 0], [0, 0, s - 1, 0]) if i == 0 else ([0, w, 0, 0], [0, 0, 0, s - 1])
            out = net.sum(
                f"{name}.with{i}", [net.pad(f"{name}.pad{i}", out, behind), net.pad(f"{name}.move{i}", tail, before)]
            )
        return out
