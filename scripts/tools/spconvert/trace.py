# SPDX-License-Identifier: MIT
"""A module of PyTorch as a graph of what its forward calls, by torch.fx. Sizes are numbers while it is followed, so a forward may
compute with them and branch on them, but not on values."""

import collections
import importlib
import operator
import os
import runpy
import sys
import traceback

from .words import Refused, say_kinds, two

BATCH = 2  # images while a network is followed: squeeze() leaves that alone, as it does with more


def where(why):
    """What an error of others' code says, and where: one line."""
    frames = [
        f
        for f in traceback.extract_tb(why.__traceback__)
        if f"{os.sep}torch{os.sep}" not in f.filename
        and os.path.dirname(f.filename) != os.path.dirname(__file__)
        and os.path.basename(f.filename) != "spcore_convert.py"
    ]
    place = f"{frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}: " if frames else ""
    return place + (str(why).strip() or type(why).__name__).split("\n")[0].split(". ")[0]


class Dim(int):
    """A side of the map `of`. What is computed from one is a Dim of no map."""

    of = None

    def __new__(cls, n, of=None):
        self = super().__new__(cls, n)
        self.of = of
        return self


def computed(name):
    def method(self, other):
        n = getattr(int, name)(self, other)
        return Dim(n) if type(n) is int else n

    return method


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "floordiv", "rfloordiv"):
    setattr(Dim, f"__{_name}__", computed(f"__{_name}__"))


class Shape(tuple):
    def numel(self):
        n = 1
        for d in self:
            n *= d
        return n


def load(torch, spec):
    """The module that is called so."""
    import difflib

    source, _, name = spec.rpartition(":")
    try:
        space = runpy.run_path(source) if source.endswith(".py") else dict(vars(importlib.import_module(source)))
        if name not in space and callable(space.get("__getattr__")):
            space[name] = space["__getattr__"](name)
    except AttributeError:  # of that
        pass
    except ImportError as why:
        if getattr(why, "name", None) and source.split(".")[0] != why.name:
            sys.exit(f"{spec}: {where(why)}")
        sys.exit(f"{spec}: there is no module {source} (as `import {source}` finds it); a file is named FILE.py:NAME")
    except OSError as why:
        sys.exit(f"{source}: {why.strerror or why}")
    except Exception as why:
        sys.exit(f"{spec}: {where(why)}")
    if name not in space:
        mine = [
            k
            for k, v in space.items()
            if callable(v)
            and not k.startswith("_")
            and (not source.endswith(".py") or getattr(v, "__module__", None) == "<run_path>")
            or isinstance(v, torch.nn.Module)
        ]
        near = difflib.get_close_matches(name, mine, 3) or mine
        sys.exit(
            f"{source} has no {name or 'network without a name'}" + (f"; it has {', '.join(near[:8])}" if near else "")
        )
    made = space[name]
    try:
        if not isinstance(made, torch.nn.Module) and callable(made):
            made = made()
    except TypeError as why:
        sys.exit(f"{spec}: {where(why)}; NAME is a function without arguments: def net(): return {name}(...)")
    except Exception as why:
        sys.exit(f"{spec}: {where(why)}")
    if isinstance(made, dict):
        sys.exit(
            f"{spec}: a dict, such as a state_dict: it has weights and no network; give the module with these weights loaded"
        )
    if not isinstance(made, torch.nn.Module):
        sys.exit(f"{spec}: neither a torch.nn.Module nor a function that makes one")
    made = unwrapped(torch, made, spec).eval()
    kinds = [str(v.dtype)[6:] for v in made.state_dict().values() if v.is_floating_point() and v.dtype != torch.float32]
    say_kinds(spec, collections.Counter(kinds))
    return made.float()


def unwrapped(torch, module, spec):
    """The network inside what wraps it for training or compiling."""
    while True:
        kind = type(module).__name__
        if (
            isinstance(module, (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel))
            or kind in ("AveragedModel", "FullyShardedDataParallel")
            and hasattr(module, "module")
        ):
            module = module.module
        elif hasattr(module, "_orig_mod"):  # torch.compile
            module = module._orig_mod
        else:
            break
    for name, m in module.named_modules():
        if isinstance(m, torch.jit.ScriptModule):
            sys.exit(
                f"{spec}: {name or 'the network'} is a scripted module (torch.jit): convert the network before torch.jit.script "
                "or torch.jit.trace, from the class that it was made of"
            )
        if isinstance(m, torch.nn.SyncBatchNorm):  # the same in evaluation, and on the processor
            m.__class__ = torch.nn.BatchNorm2d
    for name, child in list(module.named_children()):
        if hasattr(child, "_orig_mod"):
            setattr(module, name, child._orig_mod)
    return module


class Trace:
    """graph: nodes, in order; kept: the value of each; changed: which nodes' values each node changes in place."""

    def __init__(self, torch, module, x):
        from torch import fx

        self.torch, self.module, self.ends = torch, module, {}
        values, path, ends = {}, [], {}
        flat = torch.utils._pytree.tree_flatten

        def has_tensor(v):
            return any(isinstance(t, torch.Tensor) for t in flat(v)[0])

        class Proxy(fx.Proxy):
            def __iadd__(self, other):  # fx itself takes `z += y` as z = z + y, which whoever else has z does not see
                return self.tracer.create_proxy("call_function", operator.iadd, (self, other), {})

            def __isub__(self, other):
                return self.tracer.create_proxy("call_function", operator.isub, (self, other), {})

            def __imul__(self, other):
                return self.tracer.create_proxy("call_function", operator.imul, (self, other), {})

            def __itruediv__(self, other):
                return self.tracer.create_proxy("call_function", operator.itruediv, (self, other), {})

            @property
            def shape(self):
                return Shape(Dim(n, self.node) for n in values[self.node].shape)

            def size(self, dim=None):
                return self.shape if dim is None else self.shape[dim]

            def dim(self):
                return values[self.node].dim()

            ndimension = dim
            ndim = property(dim)

            def numel(self):
                return self.shape.numel()

            def stride(self, *dim):
                return values[self.node].stride(*dim)

            def is_contiguous(self, **how):
                return True

            def is_floating_point(self):
                return values[self.node].is_floating_point()

            dtype = property(lambda self: values[self.node].dtype)
            device = property(lambda self: values[self.node].device)
            is_cuda = property(lambda self: False)
            requires_grad = property(lambda self: False)

            def __len__(self):
                return len(values[self.node])

            def __iter__(self):
                return (self[i] for i in range(len(values[self.node])))

            def __bool__(self):
                raise fx.proxy.TraceError("it branches on a value that it computes")

        class Tracer(
            fx.Tracer
        ):  # one that knows what each value is, where each module ends, and in which each operation is
            computing = False  # what is called then is not followed

            def proxy(self, node):
                return Proxy(node, self)

            def getattr(self, attr, value, cache):
                return value if self.computing else super().getattr(attr, value, cache)

            def _module_getattr(self, attr, value, cache):  # its name before PyTorch 2
                return value if self.computing else super()._module_getattr(attr, value, cache)

            def value(self, node):
                if node not in values:  # of a tensor of the module, which create_arg() gives no proxy
                    values[node] = self.compute("get_attr", node.target, (), {})
                return values[node]

            def compute(self, kind, target, args, kwargs):
                if kind == "placeholder" and values:  # the first is the image, others are what they are without a word
                    return (
                        {} if target.startswith("**") else () if target.startswith("*") else args[0] if args else None
                    )
                if kind == "placeholder":
                    return x.clone()
                if kind == "get_attr":
                    value = self.root
                    for part in target.split("."):
                        value = getattr(value, part)
                    return value
                if kind == "call_module":
                    return torch.nn.Module._call_impl(self.root.get_submodule(target), *args, **kwargs)
                return (
                    target(*args, **kwargs)
                    if kind == "call_function"
                    else getattr(args[0], target)(*args[1:], **kwargs)
                )

            def create_proxy(self, kind, target, args, kwargs, *more, **others):
                out = super().create_proxy(kind, target, args, kwargs, *more, **others)
                if kind == "output":
                    return out
                node = out.node
                args, kwargs = fx.node.map_arg((node.args, node.kwargs), self.value)
                self.computing = True
                try:
                    with torch.no_grad():
                        value = self.compute(kind, target, args, kwargs)
                finally:
                    self.computing = False
                values[node] = value
                return out if has_tensor(value) else value

            def call_module(self, m, forward, args, kwargs):
                if self.computing:
                    return forward(*args, **kwargs)
                path.append(self.path_of_module(m))
                out = super().call_module(m, forward, args, kwargs)
                ends[path.pop()] = out
                return out

            def create_node(self, *args, **kwargs):
                node = super().create_node(*args, **kwargs)
                node.meta["path"] = path[-1] if path else ""
                return node

        wrapped = (
            fx._symbolic_trace._wrapped_fns_to_patch
        )  # functions that others keep out of a trace: sizes are numbers here
        kept = wrapped.copy()
        wrapped.clear()
        try:
            self.traced = fx.GraphModule(module, Tracer().trace(module))
        finally:
            (wrapped.update if isinstance(wrapped, dict) else wrapped.extend)(kept)  # a list before PyTorch 2
        self.graph = self.traced.graph
        self.ends = {k: v.node for k, v in ends.items() if isinstance(v, fx.Proxy)}
        self.modules = dict(self.traced.named_modules())

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

    def is_same(self, x, kept):
        """Is what was traced what is computed? forward may depend on what fx does not see."""
        flat = self.torch.utils._pytree.tree_flatten
        with self.torch.no_grad():
            theirs = flat(self.module(x.clone()))[0]
        ours = flat(kept[next(n for n in self.graph.nodes if n.op == "output")])[0]
        tensors = [(a, b) for a, b in zip(ours, theirs) if isinstance(a, self.torch.Tensor)]
        return len(ours) == len(theirs) and all(
            a.shape == b.shape and self.torch.allclose(a, b, 1e-3, 1e-4, True) for a, b in tensors
        )


def whose_size(v):
    """The map that v is a side of; None of other numbers."""
    return v.of if isinstance(v, Dim) else None


def sizes_like(size):
    """The one map whose height and width these are, or None where they are numbers."""
    sides = [whose_size(n) for n in two(size)]
    if sides[0] is not None and sides[0] is sides[1]:
        return sides[0]
    if any(s is not None for s in sides):
        raise Refused("to a size of several maps")
    return None
