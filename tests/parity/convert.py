# SPDX-License-Identifier: MIT
# needs: onednn images
# once: what is written
"""scripts/tools/spcore_convert.py: networks of torchvision and one of all that layers can be, with random weights and running
statistics, give what PyTorch's module gives, by way of torch.fx and of ONNX; what layers cannot be is refused by name."""
import contextlib
import io
import os
import sys
import tempfile
import warnings

from spstage import Report, torch_or_skip, torchvision_or_skip

torch = torch_or_skip()
torchvision = torchvision_or_skip()
sys.path.insert(0, os.path.join(os.environ.get("top_srcdir", "."), "scripts", "tools"))
import numpy as np  # noqa: E402
import spcore_convert  # noqa: E402
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


def exported():
    return shake(Exported)


class Refused(Mixed):
    def forward(self, x):
        a = F.relu6(x) + 1.0
        a = self.c2(self.c2(torch.cat([a, a], 2)[:, :1].expand(-1, 8, -1, -1)))
        a = F.interpolate(F.pad(a, (1, 1)), scale_factor=1.5)
        a = F.interpolate(a, size=(8, 8), mode="bicubic")
        return torch.cat([a, F.conv2d(a, self.c2.weight, padding=1, groups=2)], 1).softmax(1), a


class Branches(nn.Module):
    def forward(self, x):
        return x if x.mean() > 0 else -x


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
    opset = {"opset_version": 14} if torch.__version__ < "2" else {}  # later exporters know 18 and later sets alone
    try:
        import onnx  # noqa: F401
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(globals()[name](), torch.rand(1, *shape), "net.onnx", verbose=False, **opset)
    except ImportError as why:
        print(f"left out: {name} by ONNX: {why} (Debian: apt install python3-onnx; PyTorch 2: pip install onnxscript)")
        return
    said = convert("net.onnx", "-o", "net", "--tap", "nothing")
    wanted = "cannot be expressed in layers:\n  --tap nothing: there is no such"
    r.true(f"{name} by ONNX: a tap that is not there", wanted in said, said)
    said = convert("net.onnx", "-o", "net")
    if not r.true(f"{name} by ONNX", said.startswith("net.lua: "), said):
        return
    network = spcore_convert.Torch(model(name), shape)
    network.finish([])
    with contextlib.redirect_stdout(io.StringIO()) as out:
        spcore_convert.check(network, shape, "net", 0)
    r.true(f"{name} by ONNX: values", out.getvalue().count("of the largest value") == 1, out.getvalue())


def by_nodes(r):
    """Graphs of ONNX that PyTorch does not write: what looks like a part of a group norm, and is none."""
    try:
        from onnx import TensorProto, helper, numpy_helper, save
    except ImportError:
        return

    def said(*nodes, **known):
        known.update(groups=np.int64([0, 2, -1]), whole=np.int64([1, 4, 4, 4]), flat=np.int64([0, -1]),
                     one=np.ones(2, np.float32), none=np.zeros(2, np.float32), fc=np.ones((64, 5), np.float32))
        io = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [1, 4, 4, 4]), (nodes[-1][-1], None))]
        graph = helper.make_graph([helper.make_node(n[0], list(n[1:-1]), [n[-1]], n[-1]) for n in nodes], "g", io[:1], io[1:],
                                  [numpy_helper.from_array(v, k) for k, v in known.items()])
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), "nodes.onnx")
        return convert("nodes.onnx", "-o", "nodes")

    norm = ("Reshape", "x", "groups", "a"), ("InstanceNormalization", "a", "one", "none", "b"), ("Reshape", "b", "whole", "c")
    channels = (4, 1, 1), (1, 4, 1, 1), ()
    for shape in (*channels, (4,), (4, 1), (1, 4, 1), (1, 1, 4, 1, 1)):
        words = said(*norm, ("Mul", "c", "by", "y"), by=np.full(shape, 2, np.float32))
        wanted = "1 layers; nodes.safetensors: 8 numbers" if shape in channels else "  y: Mul: it reads by, which is no map"
        r.true(f"a group norm times numbers of shape {shape}", wanted in words, words)
    words = said(("Reshape", "x", "flat", "a"), ("Gemm", "a", "fc", "y"))
    r.true("a shape of 0, -1 is flat", words.startswith("nodes.lua: 2 layers"), words)
    words = said(("Reshape", "x", "groups", "a"), ("Relu", "a", "b"), ("Reshape", "b", "whole", "y"))
    r.true("groups without a norm", "  b: Relu: it reads a, which is no map" in words, words)
    words = said(("Reshape", "x", "groups", "y"))
    r.true("groups as the result", "  output: y is no map" in words, words)


def refusals(r):
    said = convert(model("googlenet"), "-o", "no", "--input", "3x64x64")
    wanted = [f"  maxpool{i}: MaxPool2d: ceil_mode: pools leave out what does not fill a window\n" for i in (1, 2, 3, 4)]
    r.true("googlenet is refused", said == f"{model('googlenet')} cannot be expressed in layers:\n" + "".join(wanted), said)
    said = convert(model("Refused"), "-o", "no", "--input", "3x32x32", "--tap", "c3")
    for words in ("relu6: relu6: ", "add: add: of (1, 3, 32, 32) and 1.0", "cat: cat: of another dimension",
                  "getitem: getitem: ", "expand: ", "c2_1: Conv2d: used more than once", "pad: pad: ",
                  "interpolate: interpolate: a scale of (1.5, 1.5)",
                  "interpolate_1: interpolate: bicubic", "c2_weight: c2.weight: a tensor", "conv2d: conv2d: ",
                  "softmax: softmax: ", "output: no tensor, or several"):
        r.true(f"refused: {words}", f"\n  {words}" in said, said)
    r.true("nothing is written", not os.path.exists("no.lua") and not os.path.exists("no.safetensors"))
    for words, args in (("torch.fx cannot follow the network: ", [model("Branches")]), ("none: KeyError", [model("none")]),
                        ("FileNotFoundError", ["none.py:net"]),
                        ("does not take an input of 1 x 32 x 32", [model("mixed"), "--input", "1x32x32"]),
                        ("--tap layer: there is no such module or layer, but layer", [model("resnet18"), "--tap", "layer"])):
        said = convert(*args, "-o", "no")
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
        converted(r, "mixed", 3, "--input", "3x40x48", "--tap", "c2", "--tap", "up")
        values, spcore_convert.Torch.values = spcore_convert.Torch.values, lambda self, x: [1.001 * v for v in values(self, x)]
        said = convert(model("mixed"), "-o", "no", "--check", "--input", "3x40x48")
        r.true("--check finds what differs", "--check: that is more than 1e-4" in said, said)
        spcore_convert.Torch.values = values
        os.remove("no.lua")
        os.remove("no.safetensors")
        by_onnx(r, "mobilenet", (3, 64, 64))
        by_onnx(r, "exported", (3, 40, 48))
        by_nodes(r)
        refusals(r)
        os.chdir("/")
    r.exit()


if __name__ == "__main__":
    main()
