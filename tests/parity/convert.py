# SPDX-License-Identifier: MIT
# needs: onednn images
# once: what is written
"""scripts/tools/spcore_convert.py: networks of torchvision and one of all that layers can be, with random weights and running
statistics, give what PyTorch's module gives, by way of torch.fx and of ONNX; what layers cannot be is refused by name."""
import contextlib
import io
import json
import os
import re
import sys
import tempfile
import warnings

from spstage import Lua, Report, Stage, torch_or_skip, torchvision_or_skip

torch = torch_or_skip()
torchvision = torchvision_or_skip()
sys.path.insert(0, os.path.join(os.environ.get("top_srcdir", "."), "scripts", "tools"))
import numpy as np  # noqa: E402
import convert_files  # noqa: E402
import convert_forms  # noqa: E402
import convert_onnx  # noqa: E402
import nn_ops  # noqa: E402
import spcore_convert  # noqa: E402
from spconvert import check  # noqa: E402
from spconvert.onnx_net import Onnx  # noqa: E402
from spconvert.torch_net import Torch  # noqa: E402
from spconvert.trace import BATCH  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

HERE = os.path.abspath(__file__)


def shake(make, **how):
    torch.manual_seed(3)
    m = make(**how)
    for k, v in m.state_dict().items():
        if k.endswith("running_var"):
            v.uniform_(0.5, 2)
        elif k.endswith("running_mean"):
            v.uniform_(-1, 1)
    return m.eval()


def resnet18():
    return shake(torchvision.models.resnet18)


def mobilenet():
    return shake(torchvision.models.mobilenet_v3_small)


def densenet():
    return shake(torchvision.models.densenet121)


def googlenet():
    return shake(torchvision.models.googlenet, init_weights=False)


def shifted(norm):
    nn.init.uniform_(norm.weight, 0.5, 2)
    nn.init.uniform_(norm.bias, -1, 1)
    return norm


class Mixed(nn.Module):
    """What the networks above lack."""

    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(3, 8, (3, 5), padding=(1, 2), stride=(2, 1))
        self.c2 = nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=2, bias=False)
        self.t = nn.ConvTranspose2d(8, 6, 3, stride=2, padding=1, output_padding=(1, 0))
        self.g = nn.Conv2d(8, 8, 1)
        self.bn = nn.BatchNorm2d(8, affine=False)
        self.d = nn.Dropout2d(0.2)
        self.pool = nn.AvgPool2d(3, 2, 1)
        self.act = nn.SiLU(inplace=True)
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.gn, self.plain = shifted(nn.GroupNorm(4, 8, eps=1e-3)), nn.GroupNorm(2, 8, affine=False)

    def forward(self, x):
        y = self.plain(self.gn(self.act(self.bn(self.c1(x)))))
        z = self.c2(y)
        before = z
        z += y
        z = F.hardsigmoid(self.g(z.mean((2, 3), keepdim=True))) * before  # which is what z is now
        q = torch.cat([self.d(self.pool(z)), F.max_pool2d(z, 3, stride=2, padding=1)], 1)
        q = F.interpolate(q, size=z.shape[-2:], mode="nearest")
        u = F.interpolate(self.t(z), size=q.shape[2:], mode="bilinear", align_corners=False)
        r = self.up(F.relu(torch.cat((F.hardswish(q), u), 1), inplace=True))
        p = F.dropout(F.adaptive_avg_pool2d(r, (1, 1)), 0.3, self.training)
        return F.silu(torch.sigmoid(p.view(p.size(0), -1)))


def mixed():
    return shake(Mixed)


class Sharing(nn.Module):
    """What changes in place is seen by all that share it, and by no copy; weights that are computed; names of others."""

    def __init__(self):
        super().__init__()
        self.a, self.add = nn.utils.weight_norm(nn.Conv2d(3, 8, 3, padding=1)), nn.Conv2d(8, 8, 1)
        self.b = nn.utils.parametrizations.spectral_norm(nn.Conv2d(8, 8, 3, padding=1))
        self.up = nn.UpsamplingBilinear2d(scale_factor=2)

    def forward(self, x):
        y = self.a(x)
        same, copy = y, y.clone()
        y += self.add(y)
        z = F.relu(y, True) * self.b(same) + copy
        z.add_(y)
        z = self.up(z) * F.interpolate(copy, scale_factor=2)
        p = z.mean((2, 3))
        return torch.cat([p, torch.sigmoid(p)], -1)


def sharing():
    return shake(Sharing)


class Exported(Mixed):
    """What ONNX has as a node of its own."""

    def __init__(self):
        super().__init__()
        self.bn = nn.BatchNorm2d(3, eps=1e-3)
        self.near = nn.Upsample(scale_factor=(1, 2))
        self.down = nn.AvgPool2d(2)
        self.fc = nn.Linear(14, 5)

    def forward(self, x):
        y = self.plain(F.relu(self.gn(self.c1(self.bn(x)))))
        y = F.hardsigmoid(self.g(y.mean((2, 3), keepdim=True))) * y + self.c2(y)
        z = self.up(F.max_pool2d(F.hardswish(self.d(y)), 3, 2, 1))
        u = self.down(self.near(self.t(F.silu(z))))
        return self.fc(torch.flatten(torch.cat([z.mean((2, 3), keepdim=True), u.mean((2, 3), keepdim=True)], 1), 1))


def twins():
    """Two layers with one tensor of weights, in 16 bits."""
    net = shake(lambda: nn.Sequential(nn.Conv2d(3, 3, 3), nn.ReLU(), nn.Conv2d(3, 3, 3)))
    net[2].weight = net[0].weight
    return net.half()


def exported():
    return shake(Exported)


class Refused(Mixed):
    def forward(self, x):
        a = F.hardtanh(x) + 1.0
        a = self.c2(self.c2(torch.cat([a, a], 2)[:, :1].expand(-1, 8, -1, -1)))
        a = F.interpolate(F.pad(a, (1, 1)), scale_factor=1.5)
        a = F.interpolate(a, size=(8, 8), mode="bicubic")
        self.t(a, output_size=(15, 15))
        a = torch.add(F.dropout(a), a, alpha=2)
        b = F.max_pool2d(self.c1(x), 2)
        a = F.interpolate(F.interpolate(a, size=b.shape[2:]), size=(2 * x.shape[2], 2 * x.shape[3]))
        F.relu_(a.flatten(1))
        return torch.cat([a, F.conv2d(a, self.c2.weight, padding=1, groups=2)], 1).softmax(1), a


class Branches(nn.Module):
    def forward(self, x):
        return x if x.mean() > 0 else -x


class Hooked(Mixed):
    def __init__(self):
        super().__init__()
        self.c1.register_forward_hook(lambda m, x, y: 2 * y)
        self.bn.eps = 2

    def forward(self, x):
        return self.bn(self.c1(x))


class Unseen(Mixed):
    calls = 0

    def forward(self, x):
        self.calls += 1
        return F.relu(self.c1(x)) if self.calls % 2 else self.c1(x)


class Sized(Mixed):
    def forward(self, x):
        return F.interpolate(self.c1(x), size=F.max_pool2d(x, 2).shape[2:])


five = 5


def convert(*words):
    """What is printed, or refused."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        sys.argv = ["spcore_convert.py", *words]
        try:
            spcore_convert.main()
        except SystemExit as why:
            print(why.args[0])
    return out.getvalue()


def model(name):
    return f"{HERE}:{name}"


def converted(r, name, n, *words):
    said = convert(model(name), "-o", name, "--check", *words)
    r.true(f"{name}", said.count(" of the largest value") == n and "1e-4" not in said and "cannot" not in said, said)


def by_onnx(r, name, shape):
    if not export("net", globals()[name], (1, *shape)):
        return
    said = convert("net.onnx", "-o", "net", "--tap", "nothing")
    wanted = "net.onnx: --tap nothing: there is no such module or layer; did you mean "
    r.true(f"{name} by ONNX: a tap that is not there", said.startswith(wanted), said)
    said = convert("net.onnx", "-o", "net")
    if not r.true(f"{name} by ONNX", said.startswith("net.lua: "), said):
        return
    network = Torch(model(name), shape)
    network.finish([])
    with contextlib.redirect_stdout(io.StringIO()) as out:
        check.check(network, shape, "net", 0, BATCH)
    r.true(f"{name} by ONNX: values", out.getvalue().count("of the largest value") == 1, out.getvalue())


def export(name, make, shape):
    """As NAME.onnx. False: it cannot be done here."""
    opset = {"opset_version": 14} if torch.__version__ < "2" else {}  # later exporters know 18 and later sets alone
    try:
        import onnx  # noqa: F401
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(make(), torch.rand(shape), f"{name}.onnx", verbose=False, **opset)
    except ImportError as why:
        print(f"left out: {name} by ONNX: {why} (Debian: apt install python3-onnx; PyTorch 2: pip install onnxscript)")
        return False
    return True


def layers_of(network):
    """What is written of it, and its weights."""
    net, (out, taps) = network.net, network.finish([])
    if not net.problems:
        net.prune(out, taps)
        net.write("row", "row", {})
    if net.problems:
        return "", net.problems
    with open("row.lua", encoding="utf-8") as f:
        return f.read().partition("return ")[2], {k: v.astype(v.dtype if v.dtype == np.int64 else np.float32)
                                                  for k, v in net.weights.items()}


def by_rows(r):
    """Each row of nn_ops.list by torch.fx and by ONNX: the layers of the row again, and PyTorch's values."""
    rng = np.random.default_rng(4)
    for i, row in enumerate(nn_ops.rows()):
        torch.manual_seed(i)
        module, x = shake(getattr(nn_ops, f"row_{i}")), row.input(rng)
        y = module(torch.from_numpy(x)).detach().numpy()
        networks = {"fx": lambda: Torch(f"nn_ops:row_{i}", row.shape[1:])}
        if "NO_ONNX" not in row.flags and export("row", lambda: module, row.shape):
            networks["ONNX"] = lambda: Onnx("row.onnx", None)
        for how, make in networks.items():
            torch.manual_seed(i)
            text, weights = layers_of(make())
            name = f"{row} by {how}"
            if not r.true(name, text and ("PARTS" in row.flags or row.last() in text.splitlines()[-2]), f"{text or weights}"):
                continue
            weights = weights if how == "ONNX" else {k: v.numpy() for k, v in module.state_dict().items()}
            stage = Stage("layers", {"layers": Lua(text)}, inputs=[x], training=False, frozen=True)
            stage.set_weights(weights)
            r.near(name, stage.forward()["features"], y, 1e-4)


def by_operator_sets(r):
    try:
        convert_onnx.run(r, layers_of, convert)
    except ImportError as why:
        print(f"left out: operator sets of ONNX: {why} (Debian: apt install python3-onnx)")


def by_nodes(r):
    """Graphs of ONNX that PyTorch does not write: what looks like a part of a group norm, and is none."""
    try:
        from onnx import TensorProto, helper, numpy_helper, save
    except ImportError:
        return

    def said(*nodes, last=None, ins=("x",), **known):
        known.update(groups=np.int64([0, 2, -1]), whole=np.int64([1, 4, 4, 4]), flat=np.int64([0, -1]),
                     one=np.ones(2, np.float32), none=np.zeros(2, np.float32), fc=np.ones((64, 5), np.float32))
        io = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
              for n, s in (*((n, [1, 4, 4, 4]) for n in ins), (nodes[-1][-1], None))]
        made = [helper.make_node(n[0], list(n[1:-1]), [n[-1]], n[-1], **(last or {}) if n is nodes[-1] else {}) for n in nodes]
        graph = helper.make_graph(made, "g", io[:-1], io[-1:],
                                  [numpy_helper.from_array(v, k) for k, v in known.items()])
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13), helper.make_opsetid("some", 1)]), "nodes.onnx")
        return convert("nodes.onnx", "-o", "nodes")

    norm = ("Reshape", "x", "groups", "a"), ("InstanceNormalization", "a", "one", "none", "b"), ("Reshape", "b", "whole", "c")
    channels = (4, 1, 1), (1, 4, 1, 1), ()
    for shape in (*channels, (4,), (4, 1), (1, 4, 1), (1, 1, 4, 1, 1)):
        words = said(*norm, ("Mul", "c", "by", "y"), by=np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape))
        wanted = "1 layers; nodes.safetensors: 8 numbers" if shape in channels else "  y: Mul: of N x 4 x 4 x 4 and numbers of ("
        r.true(f"a group norm times numbers of shape {shape}", wanted in words, words)
    words = said(("Reshape", "x", "flat", "a"), ("Gemm", "a", "fc", "y"))
    r.true("a shape of 0, -1 is flat", words.startswith("nodes.lua: 2 layers"), words)
    words = said(("Reshape", "x", "groups", "a"), ("Relu", "a", "b"), ("Reshape", "b", "whole", "y"))
    r.true("groups without a norm", words.startswith("nodes.lua: 1 layers"), words)
    for words, nodes, known in (
            ("f: a reshape of samples: samples are joined", (("Reshape", "x", "four", "f"), ("Relu", "f", "y")), {}),
            ("e: Erf: no layer", (("Erf", "x", "e"), ("Relu", "e", "b"), ("Add", "b", "e", "y")), {}),
            ("y: Div: no layer", (("Relu", "x", "a"), ("Div", "a", "x", "y")), {}),
            ("y: Conv: w2 is computed", (("Relu", "x", "w2"), ("Conv", "x", "w2", "y")), {}),
            ("y: Resize: of samples", (("Resize", "x", "", "scales", "y"),), {}),
            ("y: ConvTranspose: output_shape = [9, 9]", (("ConvTranspose", "x", "w", "y"),), {"output_shape": [9, 9]}),
            ("y: Relu: of the domain some", (("Relu", "x", "y"),), {"domain": "some"})):
        told = said(*nodes, w=np.ones((4, 4, 1, 1), np.float32), four=np.int64([4, -1]), scales=np.float32([1, 2, 2, 2]),
                    half=np.float32(0.5), six=np.float32(6), last=known)
        r.true(f"refused: {words}", told.count(f"\n  {words}") == 1, told)
    words = said(("Sigmoid", "x", "s"), ("Relu", "x", "r"), ("Mul", "x", "s", "z"), ("Add", "z", "r", "y"))
    with open("nodes.lua", encoding="utf-8") as f:
        kinds = re.findall(r'^  { "(\w+)"', f.read(), re.MULTILINE)
    r.true("a function that is two nodes", kinds == ["relu", "silu", "add"], words)
    words = said(("Reshape", "x", "flat", "a"), ("Gemm", "a", "fc", "b", "y"), b=np.ones((1, 1), np.float32))
    r.true("a bias for all features", "2 layers; nodes.safetensors: 325 numbers" in words, words)
    words = said(("Add", "x", "z", "y"), ins=("x", "z"))
    r.true("two inputs", "nodes.onnx: input: x, z: one is wanted" in words, words)
    words = said(("Reshape", "x", "groups", "y"))
    r.true("groups as the result", "  output: a reshape or transpose: from N x 4 x 4 x 4 to N x 2 x 32" in words or
           "  output: output: from N x 4 x 4 x 4 to N x 2 x 32" in words, words)


def safetensors(path):
    with open(path, "rb") as f:
        data = f.read()
    n = int.from_bytes(data[:8], "little")
    kinds = {"F32": np.float32, "I64": np.int64}
    return {k: np.frombuffer(data[8 + n:][slice(*t["data_offsets"])], kinds[t["dtype"]]).reshape(t["shape"])
            for k, t in json.loads(data[8:8 + n]).items()}


class Whole(nn.Sequential):
    """What a file has that holds more than tensors."""


def files(r):
    """Files of weights, and files that are something else."""
    net = shake(lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)))
    state, half = net.state_dict(), {k: v.half() if v.is_floating_point() else v for k, v in net.state_dict().items()}
    for name, saved, words in (("plain", state, ""), ("in_model", {"epoch": 3, "model": state}, ", those of 'model'"),
                               ("two", {"state_dict": state, "optimizer": {"x": state["0.weight"]}}, ", those of 'state_dict' (not of optimizer)"),
                               ("half", half, ""), ("double", {k: v.double() if v.is_floating_point() else v for k, v in state.items()},
                                                   "\nfloat64 (6 tensors): written as float32, which rounds them")):
        torch.save(saved, name + ".pth")
        said = convert(name + ".pth", "-o", name)
        r.true(f"{name}.pth", said == f"{name}.safetensors: 7 tensors, 129 numbers{words}\n", said)
        got = safetensors(name + ".safetensors")
        want = {k: v.float() if v.is_floating_point() else v for k, v in (half if name == "half" else state).items()}
        r.true(f"{name}.pth: values", got.keys() == want.keys() and all((got[k] == want[k].numpy()).all() for k in want))
    torch.save(Whole(net), "whole.pth")
    torch.jit.script(net).save("jit.pt")
    with open("plain.pth", "rb") as f:
        data = f.read()
    for name, content, words in (
            ("whole.pth", None, "it has more than tensors, which is not run here"), ("cut.pth", data[:len(data) // 2], "cut.pth: damaged or cut short"),
            ("jit.pt", None, 'jit.pt: a scripted module (torch.jit); its weights, in Python: torch.save(torch.jit.load("jit.pt").state_dict(), "weights.pth")'),
            ("none.pth", None, "none.pth: No such file"), ("empty.onnx", b"", "an empty file"), ("damaged.onnx", b"\xff" * 99, "onnx does not understand it"),
            ("lfs.pth", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "a Git LFS pointer, not the file: git lfs pull"),
            ("lfs.onnx", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "git lfs pull"),
            ("page.onnx", b"<!DOCTYPE html><html>", "a web page"), ("page.pth", b"\n<html>", "a web page"), ("zip.onnx", b"PK\3\4" + bytes(60), "a zip archive"),
            ("weights.onnx", data, "a file of weights of PyTorch: name it FILE.pth"), ("a.pth", b"hello, world", "no file of weights that PyTorch wrote"),
            ("st.pth", open("plain.safetensors", "rb").read(), "a safetensors file: weights are taken as they are"),
            ("keras.onnx", b"\x89HDF\r\n\x1a\n" + bytes(9), "export the network as ONNX")):
        if content is not None:
            with open(name, "wb") as f:
                f.write(content)
        said = convert(name, "-o", "no")
        r.true(f"refused: {name}: {words}", words in said and said.startswith(name) and said.count("\n") == 1, said)


class Stub:
    """In the place of onnx's reference evaluator, which Debian's onnx has not."""
    times = 1

    def __init__(self, made):
        pass

    def run(self, wanted, feeds):
        with torch.no_grad():
            return [self.times * exported()(torch.from_numpy(feeds["x" if "x" in feeds else list(feeds)[0]])).numpy()] * len(wanted)


def checks_onnx(r):
    """--check of an ONNX file."""
    if not export("net", exported, (1, 3, 40, 48)):
        return
    before = {k: sys.modules.get(k) for k in ("onnx.reference", "onnxruntime")}
    stub = type(sys)("onnx.reference")
    stub.ReferenceEvaluator = Stub
    sys.modules.update({"onnx.reference": stub, "onnxruntime": None})
    for Stub.times, words in ((1, "of the largest value from onnx's reference evaluator\n"), (1.01, "--check: that is more than 1e-4\n")):
        said = convert("net.onnx", "-o", "net", "--check")
        r.true(f"--check by ONNX, times {Stub.times}", said.endswith(words), said)
    sys.modules["onnx.reference"] = None
    said = convert("net.onnx", "-o", "net", "--check")
    r.true("--check without evaluators", said.endswith("pip install onnxruntime, which is used instead, or a later onnx\n"), said)
    for k, v in before.items():
        sys.modules.pop(k)
        sys.modules.update({k: v} if v else {})


def refusals(r):
    said = convert(model("Refused"), "-o", "no", "--input", "3x32x32", "--verbose")
    for words in ("cat: cat: of another dimension", "expand: expand: ", "c2_1: Conv2d: used more than once",
                  "interpolate_1: interpolate: bicubic", "softmax: softmax: the loss", "dropout: dropout: in evaluation, too",
                  "t: ConvTranspose2d: called with more", "relu_: relu_: it changes a view of interpolate_3 in place",
                  "output: no tensor, or several"):
        r.true(f"refused: {words}", f"\n  {words}" in said, said)
    r.true("the verdict", said.split("\n")[0].endswith("Refused cannot be expressed in layers: what is missing here: cat 1x, expand 1x, "
                                                       "conv2d 1x, interpolate 1x, conv_transpose2d 1x, dropout 1x, relu 1x, softmax 1x"), said)
    short = convert(model("Refused"), "-o", "no", "--input", "3x32x32")
    r.true("the rest by --verbose", short.endswith("  output: no tensor, or several: convert the module that makes one\n") and short.count("\n") == 10, short)
    r.true("nothing is written", not os.path.exists("no.lua") and not os.path.exists("no.safetensors"))
    said = convert(model("Hooked"), "-o", "no", "--input", "3x32x32")
    for words in ("c1: Conv2d: with a hook", "bn: BatchNorm2d: eps 2"):
        r.true(f"refused: {words}", f"\n  {words}" in said, said)
    for words, name in (("output: what torch.fx has followed gives another result", "Unseen"),
                        ("interpolate: upsample: of max_pool2d nothing but the size is used", "Sized")):
        said = convert(model(name), "-o", "no", "--input", "3x32x32")
        r.true(f"refused: {words}", f"\n  {words}" in said or f": {words}" in said, said)
    for words, args in (("torch.fx cannot follow the network: ", [model("Branches")]), ("convert.py has no Mixt; it has Mixed", [model("Mixt")]),
                        (":five: neither a torch.nn.Module nor a function", [model("five")]),
                        (":converted: converted() missing 3 required", [model("converted")]),
                        ("no/such: ", [model("resnet18"), "-o", "no/such"]),
                        ("--input 3x1000000000x1000000000: ", [model("mixed"), "--input", "3x1000000000x1000000000"]),
                        ("none.py: No such file or directory", ["none.py:net"]),
                        ("does not take an input of 1 x 32 x 32", [model("mixed"), "--input", "1x32x32"]),
                        ("--tap layer: there is no such module or layer; did you mean layer", [model("resnet18"), "--tap", "layer"])):
        said = convert(*args[:1], "-o", "no", *args[1:])
        r.true(f"refused: {words}", words in said and said.count("\n") <= 2, said)


def main():
    r = Report()
    os.environ["SPCORE"] = os.path.abspath(os.path.join(os.environ.get("top_builddir", "."), "spcore"))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        taps = ["--tap", "layer1", "--tap", "maxpool", "--tap", "layer3.0.bn1"]
        converted(r, "resnet18", 4, "--input", "3x64x64", *taps)
        converted(r, "mobilenet", 1, "--input", "3x64x64")
        converted(r, "densenet", 1, "--input", "3x64x64")
        converted(r, "googlenet", 1, "--input", "3x64x64")  # ceil_mode, of what is above 0
        converted(r, "sharing", 1, "--input", "3x16x16")
        with open("sharing.lua", encoding="utf-8") as f:
            r.true("a module keeps its name", 'name = "add" }' in f.read())
        converted(r, "mixed", 3, "--input", "3x40x48", "--tap", "c2", "--tap", "up")
        values, Torch.values = Torch.values, lambda self, x: [1.001 * v for v in values(self, x)]
        said = convert(model("mixed"), "-o", "no", "--check", "--input", "3x40x48")
        r.true("--check finds what differs", "--check: that is more than 1e-4" in said, said)
        Torch.values = lambda self, x: [float("nan") * v for v in values(self, x)]
        said = convert(model("mixed"), "-o", "no", "--check", "--input", "3x40x48")
        r.true("--check finds NaN", "--check: that is more than 1e-4" in said, said)
        Torch.values = values
        said = convert(model("twins"), "-o", "no", "--check", "--input", "3x16x16")
        for words in ("twins: float16 (4 tensors): written and computed as float32\n", "1 layers have the weights of another layer, and a copy of "
                      "their own here, which is trained by itself: 2\n", "of the largest value from PyTorch\n"):
            r.true("twins", words in said, said)
        program = os.environ["SPCORE"]
        for os.environ["SPCORE"], why in (("/none", "No such file or directory"), (folder, "Permission denied")):
            said = convert(model("mixed"), "-o", "no", "--check", "--input", "3x40x48")
            wanted = f"\n--check: the program {os.environ['SPCORE']} cannot be run: {why}\n"
            r.true(f"--check by {os.environ['SPCORE']}", said.endswith(wanted) and said.count("\n") == 2, said)
        os.environ["SPCORE"] = program
        os.remove("no.lua")
        os.remove("no.safetensors")
        by_onnx(r, "mobilenet", (3, 64, 64))
        by_onnx(r, "exported", (3, 40, 48))
        by_rows(r)
        convert_forms.run(r, layers_of, convert)
        files(r)
        checks_onnx(r)
        by_nodes(r)
        by_operator_sets(r)
        convert_files.run(r, layers_of, convert)
        refusals(r)
        os.chdir("/")
    r.exit()


if __name__ == "__main__":
    main()
