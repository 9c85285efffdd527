# SPDX-License-Identifier: MIT
# needs: onednn
"""Each row of tests/kit/nn_ops.list, and the parameter `layers` as a graph, against PyTorch: outputs, taps, input and weight
gradients, running statistics."""
from spstage import CHANNELS_LAST, ROW_MAJOR, Lua, Report, Stage, torch_or_skip
import numpy as np

torch = torch_or_skip()
import nn_ops  # noqa: E402
nn, F = torch.nn, torch.nn.functional
r = Report()
rng = np.random.default_rng(6)
torch.manual_seed(6)

FWD, GRAD = 1e-4, 1e-3


def rand(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def state(module):
    return {k: v.detach().numpy() for k, v in module.state_dict().items()}


def as_list(v):
    return list(v) if isinstance(v, (list, tuple)) else [v]


def compare(name, spec, module, x, order=ROW_MAJOR):
    """One training step of both with the same weights; module(x) gives the output, or it and the taps."""
    stage = Stage("layers", {"layers": spec}, inputs=[x], order=order)
    for m in module.modules():
        if isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d, nn.GroupNorm)):
            nn.init.uniform_(m.weight, 0.5, 1.5)
            nn.init.uniform_(m.bias, -0.5, 0.5)
    stage.set_weights(state(module))
    r.true(f"{name} names", sorted(stage.weight_names()) == sorted(module.state_dict()), str(stage.weight_names()))
    tx = torch.from_numpy(x).requires_grad_()
    ys = as_list(module(tx))
    out = stage.forward()
    ours = [out["features"]] + as_list(out["maps"])
    r.true(f"{name} outputs", len(ours) == len(ys), f"{len(ours)} are not {len(ys)}")
    for i, (a, y) in enumerate(zip(ours, ys)):
        r.near(f"{name} forward {i}", a, y.detach().numpy(), FWD)
    gs = [rand(*y.shape) for y in ys]
    din, dw = stage.backward({"features": gs[0], "maps": gs[1:]})
    torch.autograd.backward(ys, [torch.from_numpy(g) for g in gs])
    r.near(f"{name} din", din["image"], tx.grad.numpy(), GRAD)
    for k, p in module.named_parameters():
        r.near(f"{name} d {k}", dw[k], p.grad.numpy(), GRAD)
    after = stage.weights()
    for k, b in module.named_buffers():
        r.near(f"{name} {k}", after[k], b.numpy(), FWD)


def layer(*first, **named):
    """{ "conv", 4, from = ... } as Lua has it; `from` is a word of Python's."""
    t = dict(enumerate(first, 1))
    t.update({"from" if k == "from_" else k: v for k, v in named.items()})
    return t


for row in nn_ops.rows():
    if "DRAWS" not in row.flags:
        for order, oname in ((ROW_MAJOR, "nchw"), (CHANNELS_LAST, "nhwc"))[:len(row.shape) - 2 or 1]:
            compare(f"{row}, {oname}", Lua(f"{{ {row.layers} }}"), nn.Sequential(row.make()), row.input(rng), order)
    if "FN" in row.flags:
        compare(f"{row.layers} of features", Lua(f"{{ {row.layers} }}"), nn.Sequential(row.make()), rand(3, 70) * 4)


# What is no number, infinite, large, or where a function bends. The slope of what is no number depends, in PyTorch itself, on the
# place in memory; so does that of hard_swish at 3 and -3, which are not here. PyTorch 2.11 has NaN for gelu of infinity on
# processors with AVX-512, 1.13 has infinity.
ODD = np.float32([[np.nan, np.inf, -np.inf, 3e38, -3e38, 1e20, -1e20, 200, -200, 20, -20, 6, 0, -0.0, 1e-20, -1e-42]])
with np.errstate(invalid="ignore"):
    for row in (row for row in nn_ops.rows() if "FN" in row.flags):
        stage, x = Stage("layers", {"layers": Lua(f"{{ {row.layers} }}")}, inputs=[ODD]), torch.tensor(ODD, requires_grad=True)
        y = row.make()(x)
        y.backward(torch.ones(ODD.shape))
        ours = stage.forward()["features"], stage.backward({"features": np.ones(ODD.shape)})[0]["image"]
        for what, a, b in zip(("", ", its slope"), ours, (y.detach().numpy(), x.grad.numpy())):
            fine = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= 1e-6 * np.abs(b) + 1e-7)
            fine |= np.isnan(ODD) & bool(what)
            if "gelu" in row.layers and not what:
                fine |= (ODD == np.inf) & (a == np.inf) & np.isnan(b)
            r.true(f"{row.layers} of numbers at the ends{what}", fine.all(), f"{ODD[~fine]}: {a[~fine]}, not {b[~fine]}")


def conv(out, name, kernel=3, **kw):
    return layer("conv", out, kernel=kernel, name=name, bias=False, **kw)


class Bottleneck(nn.Module):
    """torchvision's, under its names: the stride is in the 3 x 3 convolution."""

    def __init__(self, c, mid, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(c, mid, 1, bias=False), nn.BatchNorm2d(mid)
        self.conv2, self.bn2 = nn.Conv2d(mid, mid, 3, stride, 1, bias=False), nn.BatchNorm2d(mid)
        self.conv3, self.bn3 = nn.Conv2d(mid, 4 * mid, 1, bias=False), nn.BatchNorm2d(4 * mid)
        self.downsample = nn.Sequential(nn.Conv2d(c, 4 * mid, 1, stride, bias=False), nn.BatchNorm2d(4 * mid))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        tap = F.relu(self.bn2(self.conv2(y)))
        return [F.relu(self.bn3(self.conv3(tap)) + self.downsample(x)), tap]


def bottleneck(mid, stride):
    return [conv(mid, "conv1", 1), layer("batch_norm", name="bn1"), layer("relu"),
            conv(mid, "conv2", pad=1, stride=stride), layer("batch_norm", name="bn2"), layer("relu", tap=True),
            conv(4 * mid, "conv3", 1), layer("batch_norm", name="bn3"),
            conv(4 * mid, "downsample.0", 1, stride=stride, from_="input"), layer("batch_norm", name="downsample.1"),
            layer("add", from_=["bn3", "downsample.1"]), layer("relu")]


for order, oname in ((ROW_MAJOR, "nchw"), (CHANNELS_LAST, "nhwc")):
    compare(f"bottleneck, stride 2, {oname}", bottleneck(4, 2), Bottleneck(6, 4, 2), rand(3, 6, 9, 12), order)


class Aspp(nn.Module):
    """Branches of several rates side by side, and a depthwise separable projection."""

    def __init__(self, c, o):
        super().__init__()
        self.b = nn.ModuleList([nn.Conv2d(c, o, 1), nn.Conv2d(c, o, 3, padding=2, dilation=2),
                                nn.Conv2d(c, o, 3, padding=(4, 3), dilation=(4, 3)),
                                nn.Conv2d(c, o, 3, padding=5, dilation=5, groups=2)])
        self.depth = nn.Conv2d(4 * o, 4 * o, 3, 1, 1, groups=4 * o, bias=False)
        self.point = nn.Conv2d(4 * o, o, 1)
        self.up = nn.ConvTranspose2d(o, o, 3, 2, 1, 1, groups=2, dilation=2)

    def forward(self, x):
        return self.up(self.point(self.depth(F.relu(torch.cat([b(x) for b in self.b], 1)))))


compare("aspp", [layer("conv", 6, kernel=1, name="b.0"), layer("conv", 6, pad=2, dilation=2, name="b.1", from_="input"),
                 layer("conv", 6, pad=[4, 3], dilation=[4, 3], name="b.2", from_="input"),
                 layer("conv", 6, pad=5, dilation=5, groups=2, name="b.3", from_="input"),
                 layer("concat", from_=["b.0", "b.1", "b.2", "b.3"]), layer("relu"),
                 layer("conv", 24, pad=1, groups=24, name="depth", bias=False), layer("conv", 6, kernel=1, name="point"),
                 layer("conv_transpose", 6, kernel=3, stride=2, pad=1, out_pad=1, groups=2, dilation=2, name="up")],
        Aspp(8, 6), rand(3, 8, 10, 11))
for n in (1, 4, 5):  # channels of a group
    compare(f"groups of {n}", [layer("conv", 8 * n, kernel=[5, 3], pad=[2, 1], groups=8, stride=2)],
            nn.Sequential(nn.Conv2d(8 * n, 8 * n, (5, 3), 2, (2, 1), groups=8)), rand(2, 8 * n, 12, 11))


class Excite(nn.Module):
    """torchvision's SqueezeExcitation behind a convolution, as in MobileNetV3 and EfficientNet."""

    def __init__(self, c, o, mid, act, gate):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(c, o, 5, 2, 2, groups=c, bias=False), nn.BatchNorm2d(o)
        self.fc1, self.fc2 = nn.Conv2d(o, mid, 1), nn.Conv2d(mid, o, 1)
        self.act, self.gate = act, gate

    def forward(self, x):
        x = self.act(self.bn(self.conv(x)))
        s = F.adaptive_avg_pool2d(x, 1)
        s = self.gate(self.fc2(F.relu(self.fc1(s))))
        return [x * s, s, F.adaptive_avg_pool2d(x, 1).flatten(1)]


for act, gate, f, g in (("hard_swish", "hard_sigmoid", F.hardswish, F.hardsigmoid), ("silu", "sigmoid", F.silu, torch.sigmoid)):
    for order, oname in ((ROW_MAJOR, "nchw"), (CHANNELS_LAST, "nhwc")):
        compare(f"squeeze and excitation, {act}, {oname}",
                [layer("conv", 16, name="conv", kernel=5, stride=2, pad=2, groups=8, bias=False), layer("batch_norm", name="bn"),
                 layer(act, name="x"), layer("mean", name="m"), layer("conv", 6, kernel=1, name="fc1"), layer("relu"),
                 layer("conv", 16, kernel=1, name="fc2"), layer(gate, name="s", tap=True), layer("flatten", from_="m", tap=True),
                 layer("mul", from_=["s", "x"])],
                Excite(8, 16, 6, f, g), rand(3, 8, 17, 12) * 2, order)

for order, oname in ((ROW_MAJOR, "nchw"), (CHANNELS_LAST, "nhwc")):
    compare(f"group norm, its mean is not 0, {oname}", [layer("group_norm", 3)], nn.Sequential(nn.GroupNorm(3, 12)),
            rand(3, 12, 33, 40) + 2, order)
    compare(f"group norm between, {oname}",
            [conv(8, "0", pad=1), layer("group_norm", 4), layer("relu"), conv(5, "3", 2, stride=2)],
            nn.Sequential(nn.Conv2d(3, 8, 3, 1, 1, bias=False), nn.GroupNorm(4, 8), nn.ReLU(), nn.Conv2d(8, 5, 2, 2, bias=False)),
            rand(2, 3, 12, 10), order)


class Resize(nn.Module):
    def __init__(self, **how):
        super().__init__()
        self.how = how

    def forward(self, x):
        return F.interpolate(x, **self.how)


for hw in ((7, 5), (1, 6), (16, 16)):
    x = rand(2, 6, *hw)
    for mode, more in (("nearest", {}), ("bilinear", {"align_corners": False}), ("bilinear", {"align_corners": True})):
        for scale in (2, (1, 3), 8):
            compare(f"{mode} {more} {hw} by {scale}", [layer("upsample", scale=scale, mode=mode, **more)],
                    Resize(scale_factor=scale, mode=mode, **more), x)
        for size in (hw, (13, 9), (3, 1), (1, 31)):
            compare(f"{mode} {more} {hw} to {size}", [layer("upsample", size=size, mode=mode, **more)],
                    Resize(size=size, mode=mode, **more), x)


class Pyramid(nn.Module):
    """As a feature pyramid: what is coarse is enlarged and added to what is fine."""

    def __init__(self):
        super().__init__()
        self.c1, self.c2, self.c3 = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 12, 3, 2, 1), nn.Conv2d(12, 16, 3, 2, 1)
        self.inner = nn.ModuleList([nn.Conv2d(c, 8, 1) for c in (8, 12, 16)])
        self.outer = nn.ModuleList([nn.Conv2d(8, 4, 3, 1, 1) for _ in range(3)])

    def forward(self, x):
        a = F.relu(self.c1(x))
        b = F.relu(self.c2(a))
        p3 = self.inner[2](F.relu(self.c3(b)))
        p2 = self.inner[1](b) + F.interpolate(p3, size=b.shape[2:], mode="nearest")
        p1 = self.inner[0](a) + F.interpolate(p2, size=a.shape[2:], mode="nearest")
        p = [o(v) for o, v in zip(self.outer, (p1, p2, p3))]
        whole = F.interpolate(p[0], size=x.shape[2:], mode="bilinear", align_corners=False)
        return [whole, *reversed(p)]


def conv3(out, name, **kw):
    return layer("conv", out, pad=1, name=name, **kw)


for order, oname in ((ROW_MAJOR, "nchw"), (CHANNELS_LAST, "nhwc")):
    compare(f"pyramid, {oname}",
            [conv3(8, "c1", stride=2), layer("relu", name="a"), conv3(12, "c2", stride=2), layer("relu", name="b"),
             conv3(16, "c3", stride=2), layer("relu"), layer("conv", 8, kernel=1, name="inner.2"),
             layer("upsample", like="b", name="up3"), layer("conv", 8, kernel=1, from_="b", name="inner.1"),
             layer("add", from_=["inner.1", "up3"], name="p2"), layer("upsample", like="a", name="up2"),
             layer("conv", 8, kernel=1, from_="a", name="inner.0"), layer("add", from_=["inner.0", "up2"], name="p1"),
             conv3(4, "outer.2", from_="inner.2", tap=True), conv3(4, "outer.1", from_="p2", tap=True),
             conv3(4, "outer.0", from_="p1", tap=True), layer("upsample", like="input", mode="bilinear")],
            Pyramid(), rand(2, 3, 21, 26), order)
r.exit()
