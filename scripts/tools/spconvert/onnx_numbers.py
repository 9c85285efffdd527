# SPDX-License-Identifier: MIT
"""ONNX: numbers that no image changes."""

from . import onnx_file
from .words import Refused, np

TYPES = {1: np and np.float32, 6: np and np.int32, 7: np and np.int64, 9: np and np.bool_, 11: np and np.float64}


class Numbers:
    """Parts of Onnx."""

    def constant(self, node, op, a):
        if op == "Constant":
            key, value = next(iter(a.items()), ("", None))
            is_floats = key in ("value_float", "value_floats")
            self.known[node.output[0]] = (
                onnx_file.dense(self.path, value)
                if key == "sparse_value"
                else self.array(value) if hasattr(value, "dims") else np.asarray(value, np.float32 if is_floats else None)
            )
            return
        if any(n and n not in self.known for n in node.input):
            return  # of what was refused, or has no shape: who reads it complains
        v = [self.known.get(n) for n in node.input]
        axes = a.get("axes", v[1] if len(v) > 1 and v[1] is not None else ())
        try:
            made = {
                "Identity": lambda: v[0],
                "Cast": lambda: v[0].astype(TYPES[a["to"]]),
                "CastLike": lambda: v[0].astype(v[1].dtype),
                "DequantizeLinear": lambda: self.dequantized(v, a),
                "Floor": lambda: np.floor(v[0]),
                "Ceil": lambda: np.ceil(v[0]),
                "Neg": lambda: -v[0],
                "Sqrt": lambda: np.sqrt(v[0]),
                "Exp": lambda: np.exp(v[0]),
                "Add": lambda: v[0] + v[1],
                "Sub": lambda: v[0] - v[1],
                "Mul": lambda: v[0] * v[1],
                "Div": lambda: v[0] // v[1] if v[0].dtype.kind == "i" else v[0] / v[1],
                "Pow": lambda: v[0] ** v[1],
                "Gather": lambda: np.take(v[0], v[1], a.get("axis", 0)),
                "Concat": lambda: np.concatenate(v, a.get("axis", 1)),
                "Unsqueeze": lambda: self.unsqueezed(v[0], axes),
                "Squeeze": lambda: np.squeeze(v[0], tuple(map(int, axes)) or None),
                "Reshape": lambda: v[0].reshape(self.new_shape(v[0].shape, v[1] if len(v) > 1 else a["shape"], a)),
                "Transpose": lambda: np.transpose(v[0], a.get("perm")),
                "Shape": lambda: np.int64(v[0].shape),
                "ConstantOfShape": lambda: np.full(
                    tuple(v[0]), self.array(a["value"]).reshape(()) if "value" in a else np.float32(0)
                ),
                "Slice": lambda: self.sliced(v[0], node, a),
                "Range": lambda: np.arange(*[x.reshape(()) for x in v]),
                "Expand": lambda: np.broadcast_to(v[0], np.broadcast_shapes(v[0].shape, tuple(v[1]))),
            }[op]()
        except KeyError:
            return
        except (ValueError, IndexError, TypeError) as why:
            raise Refused(str(why)) from None
        self.known[node.output[0]] = np.asarray(made)

    @staticmethod
    def dequantized(v, a):
        if a.get("block_size"):
            raise KeyError("block_size")
        if v[1].ndim:
            shape = [-1 if d == a.get("axis", 1) % v[0].ndim else 1 for d in range(v[0].ndim)]
            v = [v[0], *(x.reshape(shape) for x in v[1:] if x is not None)]
        zero = v[2].astype(np.float32) if len(v) > 2 and v[2] is not None else 0
        return (v[0].astype(np.float32) - zero) * v[1].astype(np.float32)

    @staticmethod
    def unsqueezed(v, axes):
        rank = v.ndim + len(axes)
        for d in sorted(int(x) % rank for x in axes):
            v = np.expand_dims(v, d)
        return v

    def new_shape(self, old, to, a):
        to = [int(n) for n in to]
        if not (a.get("allowzero") and self.opset >= 14):
            to = [old[i] if n == 0 else n for i, n in enumerate(to)]
        return to

    def sliced(self, v, node, a):
        starts, ends = self.given(node, 1, a, "starts", 10), self.given(node, 2, a, "ends", 10)
        axes, steps = self.given(node, 3, a, "axes", 10), self.given(node, 4, a, "steps", 10)
        at = [slice(None)] * v.ndim
        for d, b, e, s in zip(
            range(len(starts)) if axes is None else axes, starts, ends, [1] * len(starts) if steps is None else steps
        ):
            at[int(d)] = slice(int(b), int(e) if e > -(1 << 62) else None, int(s))
        return v[tuple(at)]
