# SPDX-License-Identifier: MIT
"""Files of ONNX for convert.py, one network in many of them: weights in other files, as inputs, constants, of other types; functions;
branches. cases() has a file and nothing, where its layers give the network's values, or words of the line that refuses it."""
import os

import numpy as np
import torch
from torch.nn import functional as F

RNG = np.random.default_rng(9)
X = RNG.uniform(-1, 1, (2, 3, 6, 5)).astype(np.float32)
SIXTEENTHS = {"w": (8, 3, 3, 3), "b": (8,), "s": (8,), "t": (8,), "m": (8,), "fw": (4, 8), "fb": (4,)}  # the same in 16 bits
KNOWN = {k: (RNG.integers(-16, 17, shape) / 16).astype(np.float32) for k, shape in SIXTEENTHS.items()}
KNOWN["v"] = np.float32([0.5, 1, 2, 0.25, 1, 4, 1, 0.5])


def want():
    k = {n: torch.from_numpy(v) for n, v in KNOWN.items()}
    x = F.batch_norm(F.conv2d(torch.from_numpy(X), k["w"], k["b"], padding=1), k["m"], k["v"], k["s"], k["t"])
    return F.linear(F.silu(x).mean((2, 3)), k["fw"], k["fb"]).numpy()


class Maker:
    """Writes the network as name.onnx."""

    def __init__(self):
        import onnx
        from onnx import TensorProto, helper, numpy_helper
        self.onnx, self.helper, self.types, self.array = onnx, helper, TensorProto, numpy_helper.from_array
        node = helper.make_node
        self.nodes = [node("Conv", ["x", "w", "b"], ["c"], "conv", pads=[1] * 4), node("BatchNormalization", [*"cstmv"], ["n"], "bn"),
                      node("Sigmoid", ["n"], ["g"], "gate"), node("Mul", ["n", "g"], ["a"], "act"),
                      node("GlobalAveragePool", ["a"], ["p"], "pool"), node("Flatten", ["p"], ["f"], "flat"),
                      node("Gemm", ["f", "fw", "fb"], ["y"], "fc", transB=1)]

    def model(self, nodes=None, known=None, first=(), last=(), ins=(), outs=("y",), tensors=None, sparse=(), functions=(), kind=1,
              shape=X.shape, opset=13, domains=(), ir=8):
        """first, last: nodes around those of the network."""
        h = self.helper
        tensors = [self.array(np.asarray(v), k) for k, v in (KNOWN if known is None else known).items()] if tensors is None else tensors
        values = [[h.make_tensor_value_info(n, t, s) for n, t, s in v]
                  for v in ([("x", kind, shape), *ins], [(n, kind, None) for n in outs])]
        graph = h.make_graph([*first, *(self.nodes if nodes is None else nodes), *last], "g", *values, tensors, sparse_initializer=sparse)
        sets = [h.make_opsetid("", opset)] + [h.make_opsetid(d, 1) for d in domains]
        made = h.make_model(graph, opset_imports=sets, ir_version=ir)
        made.functions.extend(functions)
        return made

    def save(self, model, folder=".", **beside):
        """beside: what the keys of tensors in another file say, or functions of that; the file is FOLDER/w.data."""
        os.makedirs(folder, exist_ok=True)
        path = f"{folder}/m.onnx"
        data = b""
        for t in model.graph.initializer if beside else ():
            says = {"location": "w.data", "offset": len(data), "length": len(t.raw_data), **beside}
            data += t.raw_data
            t.ClearField("raw_data")
            t.data_location = self.types.EXTERNAL
            for key, value in says.items():
                if value is not None:
                    t.external_data.add(key=key, value=str(value))
        with open(path, "wb") as f:
            f.write(model.SerializeToString())
        if beside:
            with open(f"{folder}/w.data", "wb") as f:
                f.write(data)
        return path


def in_other_files(m):
    def file(name, **beside):
        return m.save(m.model(), name, **beside)

    yield "weights beside", file("beside", checksum="0"), None
    path = file("deeper", location="more/w.data")
    os.makedirs("deeper/more")
    os.rename("deeper/w.data", "deeper/more/w.data")
    yield "weights in a folder beside", path, None
    path = file("gone", checksum="0")
    os.remove("gone/w.data")
    yield "weights that are not there", path, "gone/m.onnx: its weights are in w.data, and there is no such file in gone: download it, too"
    path = file("short", checksum="0")
    os.truncate("short/w.data", 500)
    yield "weights that are cut short", path, "short/m.onnx: w is said to be bytes 0 to 864 of w.data, which has 500: cut short"
    path = file("pointer", checksum="0")
    with open("pointer/w.data", "w", encoding="utf-8") as f:
        f.write("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n")
    yield "weights as a Git LFS pointer", path, "pointer/w.data: a Git LFS pointer, not the file: git lfs pull"
    path = file("a link", checksum="0")
    os.rename("a link/w.data", "link_data")
    os.symlink("../link_data", "a link/w.data")
    words = "a link/w.data is a link, which onnx does not follow: cp -rL --remove-destination \"$(readlink -f 'a link/w.data')\" 'a link/w.data'"
    yield "weights behind a link", path, words
    os.system(words.partition("follow: ")[2])
    yield "... copied as the message says", path, None
    for name, where in (("above", "../beside/w.data"), ("at_root", os.path.abspath("beside/w.data")), ("nowhere", "")):
        yield f"weights {name}", file(name, location=where), f"{name}/m.onnx: w is said to lie in '{where}', outside of the file's folder"
    for name, says, words in (("before", {"offset": -4}, "w is said to be bytes -4 to 860 of w.data"), ("letters", {"offset": "x"}, "w: damaged ("),
                              ("few", {"length": 12}, "w, of 8 x 3 x 3 x 3 and type 1: damaged (")):
        yield f"weights {name}", file(name, **says), f"{name}/m.onnx: {words}"


def as_numbers(m):
    h, node = m.helper, m.helper.make_node
    others = {k: v for k, v in KNOWN.items() if k != "w"}
    yield "weights as inputs", m.model(ins=[(k, 1, v.shape) for k, v in KNOWN.items()], opset=8, ir=3), None
    yield "weights as constants", m.model(known={}, first=[node("Constant", [], [k], value=m.array(v, k)) for k, v in KNOWN.items()]), None
    for k, v in KNOWN.items():
        assert (v.astype(np.float16) == v).all(), k
    for kind, dtype in ((10, np.float16), (11, np.float64)):
        yield f"numbers of {np.dtype(dtype)}", m.model(known={k: v.astype(dtype) for k, v in KNOWN.items()}, kind=kind), None
    halves = [h.make_tensor(k, 16, v.shape, (v.view(np.uint32) >> 16).astype(np.uint16).tobytes(), raw=True) for k, v in KNOWN.items()]
    yield "numbers of bfloat16", m.model(tensors=halves, kind=16), None
    half = [node("Cast", ["x0"], ["x"], "down", to=10), *m.nodes[:-1], node("Gemm", ["f", "fw", "fb"], ["z"], "fc", transB=1),
            node("Cast", ["z"], ["y"], "up", to=1)]
    made = m.model(half, {k: v.astype(np.float16) for k, v in KNOWN.items()})
    made.graph.input[0].name = "x0"
    yield "computed in float16", made, None
    eighths = {**others, "q": np.int8(KNOWN["w"] * 16) + np.int8(3), "by": np.float32([0.0625] * 8), "zero": np.int8([3] * 8)}
    yield "weights of int8", m.model(known=eighths, first=[node("DequantizeLinear", ["q", "by", "zero"], ["w"], axis=0)]), None
    at = np.flatnonzero(KNOWN["fb"])
    sparse = h.make_sparse_tensor(m.array(KNOWN["fb"][at], "fb"), m.array(at.astype(np.int64), "at"), [4])
    rest = {k: v for k, v in KNOWN.items() if k != "fb"}
    yield "sparse weights", m.model(known=rest, sparse=[sparse]), None
    yield "a sparse constant", m.model(known=rest, first=[node("Constant", [], ["fb"], sparse_value=sparse)]), None
    made = m.model()
    made.graph.initializer[0].dims[0] = 9
    yield "weights of another shape", made, "m.onnx: w, of 9 x 3 x 3 x 3 and type 1: damaged ("
    yield "weights that are nowhere", m.model(known=others), "conv: Conv: w is nowhere in the file"
    yield "weights of another width", m.model(known={**others, "w": KNOWN["w"][:, :2]}), "conv: Conv: of N x 3 x 6 x 5 by weights for 2 channels"
    yield "height and width first", m.model(shape=(2, 6, 6, 3)), "m.onnx: input x is N x H x W x C; N x C x H x W is wanted"


def as_graphs(m):
    h, node = m.helper, m.helper.make_node
    act = h.make_function("own", "Act", ["i"], ["o"], [node("Sigmoid", ["i"], ["g"]), node("Mul", ["i", "g"], ["o"])], [h.make_opsetid("", 13)])
    conv = node("Conv", ["i", "k", "l"], ["o"])
    conv.attribute.append(m.onnx.AttributeProto(name="pads", ref_attr_name="around", type=7))
    block = h.make_function("own", "Block", ["i", "k", "l"], ["o2"], [conv, node("BatchNormalization", [*"ostmv"], ["n"]), node(
        "Act", ["n"], ["o2"], domain="own")], [h.make_opsetid("", 13), h.make_opsetid("own", 1)], ["around"])
    block.node[1].input[:] = ["o", "s2", "t2", "m2", "v2"]
    block.input.extend(["s2", "t2", "m2", "v2"])
    call = node("Block", ["x", "w", "b", *"stmv"], ["a"], "block", domain="own", around=[1] * 4)
    yield "a function in a function", m.model([call, *m.nodes[4:]], functions=[act, block], domains=["own"]), None
    later = h.make_function("own", "Act", ["i"], ["o"], [node("Sigmoid", ["i"], ["o"])], [h.make_opsetid("", 18)])
    one = [*m.nodes[:2], node("Act", ["n"], ["a"], "act", domain="own"), *m.nodes[4:]]
    yield "a function of another set", m.model(one, functions=[later], domains=["own"]), "act: Act: a function of operator set 18, and the file's is 13"
    yield "a domain", m.model(one, domains=["own"]), "what is missing here: act 1x\n  act: Act: of the domain own"
    fused = [node("FusedConv", ["x", "w", "b"], ["c"], "conv", domain="com.microsoft")]
    yield "a file of ONNX Runtime", m.model([*fused, *m.nodes[1:]], domains=["com.microsoft"]), (
        "what is missing here: fused_conv 1x\n  conv: FusedConv: of the domain com.microsoft, which ONNX Runtime writes when it optimizes: ")
    quantized = [node("QuantizeLinear", ["x0", "by"], ["q"], "q"), node("DequantizeLinear", ["q", "by"], ["x"], "dq")]
    made = m.model(first=quantized, known={**KNOWN, "by": np.float32(0.1)})
    made.graph.input[0].name = "x0"
    yield "a quantized network", made, "q: QuantizeLinear: the network is quantized: take the file as it was exported"
    branches = {k: h.make_graph([node(op, ["n"], [k[0] + "g"])], k, [], [h.make_tensor_value_info(k[0] + "g", 1, None)])
                for k, op in (("then_branch", "Sigmoid"), ("else_branch", "Relu"))}
    branching = h.make_function("own", "Act", ["i"], ["o"], [node("If", ["i"], ["o"], **branches)], [h.make_opsetid("", 13)])
    yield "a function with a branch", m.model(one, functions=[branching], domains=["own"]), "act: Act: a function with a branch or a loop"
    chosen = [*m.nodes[:2], node("If", ["which"], ["g"], "if", **branches), *m.nodes[3:]]
    yield "a branch that is chosen", m.model(chosen, {**KNOWN, "which": np.bool_(True)}), None
    yield "a branch that is computed", m.model(chosen, first=[node("Cast", ["x"], ["which"], to=1)]), "if: If: its condition is computed"
    yield "nodes out of order", m.model(m.nodes[::-1]), "m.onnx: damaged: node fc reads f, which the later node flat makes"
    made = m.model()
    del made.opset_import[:]
    yield "no operator set", made, "m.onnx: damaged: it names no operator set"
    for where, odd in (("name", b"\xff"), ("type", 0)):
        data = m.model(first=[node("Constant", [], ["zz"], value_int=1)]).SerializeToString()
        at = data.index(b"value_int")
        data = data.replace(b"zz", b"z" + odd) if odd else data[:at + 9] + data[at + 9:].replace(b"\xa0\x01\x02", b"\xa0\x01\x00", 1)
        with open(f"odd_{where}.onnx", "wb") as f:
            f.write(data)
        yield f"a {where} that is none", f"odd_{where}.onnx", f"odd_{where}.onnx: damaged: "
    yield "a set to come", m.model(opset=99), None
    softmax = m.model(last=[node("Softmax", ["y"], ["z"], "sm")], outs=["z"])
    yield "probabilities", softmax, "sm: softmax: the loss and the predictions have it: --output y ends the network with the scores before it"
    yield "probabilities --output y", softmax, None
    yield "two results", m.model(outs=["y", "a"]), "m.onnx: output: y, a: one is wanted: --output y"
    yield "two results --output y", m.model(outs=["y", "a"]), None
    yield "two results --output b", m.model(outs=["y", "a"]), "--output b: there is no such value; did you mean "


def run(r, layers_of, convert):
    try:
        m = Maker()
    except ImportError as why:
        print(f"left out: files of ONNX: {why} (Debian: apt install python3-onnx)")
        return
    from spconvert.onnx_net import Onnx
    from spstage import Lua, Stage

    for part in (in_other_files, as_numbers, as_graphs):
        for name, made, words in part(m):
            path = made if isinstance(made, str) else m.save(made)
            output = name.partition(" --output ")[2]
            said = convert(path, "-o", "m", *(["--output", output] if output else []))
            if words:
                r.true(f"{name}: refused", words in said and "m.lua: " not in said, said)
                continue
            if not r.true(name, "m.lua: " in said, said):
                continue
            for kind, less in (("float16", ""), ("bfloat16", ""), ("float64", ", which rounds them")):
                if f"of {kind}" in name or f"in {kind}" in name:
                    r.true(f"{name}: said", f"m.onnx: {kind} (8 tensors): written and computed as float32{less}\n" in said, said)
            r.true(f"{name}: the set", ("operator set 99 is later" in said) == (name == "a set to come"), said)
            text, weights = layers_of(Onnx(path, None, output))
            stage = Stage("layers", {"layers": Lua(text)}, inputs=[X], training=False, frozen=True)
            stage.set_weights(weights)
            r.near(name, stage.forward()["features"], want(), 1e-5)
    tied = [m.nodes[0], *(m.helper.make_node("Conv", [a, "w2"], [b], b) for a, b in ("cd", "dy"))]
    said = convert(m.save(m.model(tied, {**KNOWN, "w2": np.ones((8, 8, 1, 1), np.float32)})), "-o", "m")
    words = "1 layers have the weights of another layer, and a copy of their own here, which is trained by itself: y\n"
    r.true("weights of two layers", words in said, said)
    network = Onnx(m.save(m.model()), None)
    network.finish([])
    norms = [n for n in network.given_out()[0].graph.node if n.op_type == "BatchNormalization"]
    r.true("onnx's evaluator takes no norm for a training", [a.f for n in norms for a in n.attribute if a.name == "momentum"] == [1.0])
