# SPDX-License-Identifier: MIT
"""A file of ONNX as one graph: all tensors in memory and in float32, functions in place of their calls."""

import collections
import difflib
import os
import shlex
import sys

from .bytes_of import CURES, kind_of
from .words import np

FLOATS = {10: "float16", 11: "float64", 16: "bfloat16"}  # that are computed with in float32 here
FLOAT = 1
MOST_DEPTH = 32  # of functions in functions


def load(path):
    """The model, without what lies in other files."""
    import onnx

    try:  # what a damaged file raises may be of any kind
        return onnx.load(path, load_external_data=False)
    except OSError as why:
        sys.exit(f"{path}: {why.strerror or why}")
    except Exception as why:
        words = str(why).strip().split("\n")[0]
        sys.exit(f"{path}: onnx does not understand it ({words}): damaged, cut short, or no ONNX file")


def graphs_of(nodes):
    """The attributes of nodes, and of those in the graphs within."""
    for node in nodes:
        for a in node.attribute:
            yield a
            for graph in [*a.graphs, *([a.g] if a.HasField("g") else [])]:
                yield from graphs_of(graph.node)


def tensors_of(model):
    nodes = [*model.graph.node, *(n for f in model.functions for n in f.node)]
    graphs = [model.graph, *(g for a in graphs_of(nodes) for g in [*a.graphs, *([a.g] if a.HasField("g") else [])])]
    for graph in graphs:
        yield from graph.initializer
        for sparse in graph.sparse_initializer:
            yield from (sparse.values, sparse.indices)
    for a in graphs_of(nodes):
        yield from [*a.tensors, *([a.t] if a.HasField("t") else [])]
        for sparse in [*a.sparse_tensors, *([a.sparse_tensor] if a.HasField("sparse_tensor") else [])]:
            yield from (sparse.values, sparse.indices)


def demand_text(path, model):
    """Names have any bytes where a file is damaged, and come as bytes or not at all."""
    try:
        nodes = [*model.graph.node, *(n for f in model.functions for n in f.node)]
        words = [w for n in nodes for w in (n.name, n.op_type, n.domain, *n.input, *n.output)]
        words += [v.name for v in (*model.graph.input, *model.graph.output, *tensors_of(model), *graphs_of(nodes))]
        "".join(words)
    except (UnicodeDecodeError, TypeError):
        sys.exit(f"{path}: damaged: a name in it is no text")


# ---- other files ----


def fetch(path, tensor):
    """Puts into the tensor what lies in a file beside the model's."""
    says = {e.key: e.value for e in tensor.external_data}
    where = says.get("location", "")
    beside = os.path.join(os.path.dirname(path), where)
    parts = where.replace("\\", "/").split("/")
    if not where or os.path.isabs(where) or ".." in parts:
        sys.exit(
            f"{path}: {tensor.name} is said to lie in '{where}', outside of the file's folder, where nothing is read: "
            "export it anew"
        )
    for i in range(len(parts)):
        link = os.path.join(os.path.dirname(path), *parts[: i + 1])
        if os.path.islink(link):
            copy = f'cp -rL --remove-destination "$(readlink -f {shlex.quote(link)})" {shlex.quote(link)}'
            sys.exit(f"{path}: {link} is a link, which onnx does not follow: {copy}")
    if not os.path.isfile(beside):
        folder = os.path.dirname(path) or "."
        sys.exit(f"{path}: its weights are in {where}, and there is no such file in {folder}: download it, too")
    try:
        begin, size = int(says.get("offset") or 0), os.path.getsize(beside)
        length = int(says["length"]) if says.get("length") else size - begin
    except ValueError as why:
        sys.exit(f"{path}: {tensor.name}: damaged ({why})")
    if begin < 0 or length < 0 or begin + length > size:
        if kind_of(beside) in ("lfs", "html", "empty"):
            sys.exit(f"{beside}: {CURES[kind_of(beside)]}")
        sys.exit(
            f"{path}: {tensor.name} is said to be bytes {begin} to {begin + length} of {where}, which has {size}: "
            "cut short, or of another export: download both again"
        )
    try:
        with open(beside, "rb") as f:
            f.seek(begin)
            tensor.raw_data = f.read(length)
    except OSError as why:
        sys.exit(f"{beside}: {why.strerror or why}")
    del tensor.external_data[:]
    tensor.ClearField("data_location")


# ---- numbers ----


def array(path, tensor):
    from onnx import numpy_helper

    try:
        return numpy_helper.to_array(tensor)
    except Exception as why:  # of any kind: a type that this onnx does not have, numbers that do not fit the shape
        shape, words = " x ".join(map(str, tensor.dims)) or "one number", " ".join(str(why).split())
        sys.exit(f"{path}: {tensor.name}, of {shape} and type {tensor.data_type}: damaged ({words})")


def dense(path, sparse):
    """ONNX has places as numbers through the whole tensor, or one for each dimension."""
    made = np.zeros(tuple(sparse.dims), array(path, sparse.values).dtype)
    at = array(path, sparse.indices)
    try:
        made[tuple(at.T) if at.ndim == 2 else np.unravel_index(at, made.shape)] = array(path, sparse.values)
    except (IndexError, ValueError) as why:
        sys.exit(f"{path}: {sparse.values.name}: damaged ({why})")
    return made


def to_float32(path, model):
    """The model in float32; which of its tensors were in another type of floats: { type: how many }."""
    from onnx import numpy_helper

    counts = collections.Counter()
    for tensor in tensors_of(model):
        if tensor.data_type in FLOATS:
            counts[FLOATS[tensor.data_type]] += 1
            name, v = tensor.name, array(path, tensor).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(v.reshape(tuple(tensor.dims)), name))
    nodes = [*model.graph.node, *(n for f in model.functions for n in f.node)]
    for a in graphs_of(nodes):
        if a.name in ("to", "dtype") and a.i in FLOATS:
            counts[FLOATS[a.i]] += 0
            a.i = FLOAT
    for value in [*model.graph.input, *model.graph.output, *model.graph.value_info]:
        if value.type.tensor_type.elem_type in FLOATS:
            value.type.tensor_type.elem_type = FLOAT
    return counts


# ---- functions ----


def set_of(imports):
    return max([o.version for o in imports if o.domain in ("", "ai.onnx")], default=None)


def expanded(path, nodes, functions, depth=0):
    """Nodes with those of a function in place of each call, under names of their own."""
    if depth > MOST_DEPTH:
        sys.exit(f"{path}: damaged: functions that call themselves")
    for node in nodes:
        function = functions.get((node.domain, node.op_type))
        if function is None:
            yield node
        else:
            yield from expanded(path, body(node, function), functions, depth + 1)


def body(call, function):
    name = call.name or call.output[0]
    names = dict(zip(function.input, [*call.input, *[""] * len(function.input)]))
    names.update({inner: outer for inner, outer in zip(function.output, call.output) if outer})
    attributes = {a.name: a for a in [*getattr(function, "attribute_proto", []), *call.attribute]}
    for node in function.node:
        made = type(node)()
        made.CopyFrom(node)
        for o in node.output:
            names.setdefault(o, f"{name}.{o}" if o else "")
        made.name = f"{name}.{node.name or node.output[0]}"
        made.input[:] = [names.get(n, n) for n in node.input]
        made.output[:] = [names[n] for n in node.output]
        del made.attribute[:]
        for a in node.attribute:
            if not a.ref_attr_name:
                made.attribute.append(a)
            elif a.ref_attr_name in attributes:
                given = type(a)()
                given.CopyFrom(attributes[a.ref_attr_name])
                given.name = a.name
                made.attribute.append(given)
        yield made


def inline(path, model):
    """Functions of the model become nodes of its graph; those that cannot stay, and are returned: { (domain, name): why }."""
    own = set_of(model.opset_import)
    functions, others = {}, {}
    for f in model.functions:
        key, theirs = (f.domain, f.name), set_of(f.opset_import)
        if theirs not in (None, own):
            others[key] = f"a function of operator set {theirs}, and the file's is {own}"
        elif any(a.HasField("g") or a.graphs for a in graphs_of(f.node)):
            others[key] = "a function with a branch or a loop"
        else:
            functions[key] = f
    nodes = list(expanded(path, model.graph.node, functions)) if functions else list(model.graph.node)
    if functions:
        del model.graph.node[:]
        model.graph.node.extend(nodes)
    return others


def demand_order(path, model):
    """Ends with a line where a node reads what only a later one makes."""
    makers = {o: node.name or node.op_type for node in model.graph.node for o in node.output if o}
    seen = set()
    for node in model.graph.node:
        late = next((n for n in node.input if n in makers and n not in seen), None)
        if late:
            name = node.name or node.op_type
            sys.exit(f"{path}: damaged: node {name} reads {late}, which the later node {makers[late]} makes")
        seen.update(node.output)


def end_with(graph, output, taps):
    """Leaves the nodes that this value, and the taps, are computed of, and has the value alone come out."""
    values = [o for node in graph.node for o in node.output if o]
    if output not in values:
        near = difflib.get_close_matches(output, values, 3) or values[-3:]
        sys.exit(f"--output {output}: there is no such value; did you mean {', '.join(near)}?")
    wanted, kept = {output, *taps}, []
    for node in reversed(graph.node):
        if node.name in taps or any(o in wanted for o in node.output):
            kept.insert(0, node)
            wanted.update(n for n in node.input if n)
            wanted.update(n for a in graphs_of([node]) if a.HasField("g") for inner in a.g.node for n in inner.input)
    del graph.node[:]
    graph.node.extend(kept)
    known = [o for o in graph.output if o.name == output]
    del graph.output[:]
    if known:
        graph.output.extend(known)
    else:
        graph.output.add(name=output)


def read(path):
    """The model as said above; its numbers of other types, and functions that stay."""
    model = load(path)
    demand_text(path, model)
    for tensor in tensors_of(model):
        if tensor.data_location == tensor.EXTERNAL:
            fetch(path, tensor)
    if model.ir_version >= 3 and set_of(model.opset_import) is None:
        sys.exit(f"{path}: damaged: it names no operator set, which says what its nodes mean")
    counts, others = to_float32(path, model), inline(path, model)
    demand_order(path, model)
    return model, counts, others
