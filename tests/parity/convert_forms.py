# SPDX-License-Identifier: MIT
"""What networks of others are made of, for convert.py: a row each, which gives PyTorch's values through spcore's layers, or is
refused by the words of its row. FORM(i) is a function that makes the module of row i."""

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

SHAPE = (6, 9, 8)


class Of(nn.Module):
    """A function of the module and the image, with parts as attributes."""

    def __init__(self, f, **parts):
        super().__init__()
        self.f = f
        for k, v in parts.items():
            setattr(self, k, v)

    def forward(self, x):
        return self.f(self, x)


class NormAct(nn.BatchNorm2d):
    """A batch norm that calls the function on its own tensors, and an activation behind it."""

    def forward(self, x):
        torch._assert(x.ndim == 4, "a map is wanted")
        x = F.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, self.training, self.momentum, self.eps
        )
        return F.relu(x, inplace=True)


class Same(nn.Conv2d):
    """Padding that is computed of the size."""

    def forward(self, x):
        h, w = x.size()[-2:]
        pads = [
            max((math.ceil(n / s) - 1) * s + (k - 1) * d + 1 - n, 0)
            for n, k, s, d in zip((h, w), self.kernel_size, self.stride, self.dilation)
        ]
        if any(p > 0 for p in pads):
            x = F.pad(x, [pads[1] // 2, pads[1] - pads[1] // 2, pads[0] // 2, pads[0] - pads[0] // 2])
        return F.conv2d(x, self.weight, self.bias, self.stride, (0, 0), self.dilation, self.groups)


class Excite(nn.Module):
    """Squeeze and excitation by linear layers."""

    def __init__(self, c, how):
        super().__init__()
        self.fc, self.how = (
            nn.Sequential(nn.Linear(c, 3), nn.ReLU(inplace=True), nn.BatchNorm1d(3), nn.Linear(3, c), nn.Sigmoid()),
            how,
        )

    def forward(self, x):
        n, c, _, _ = x.size()
        y = F.adaptive_avg_pool2d(x, 1)
        y = self.fc(y.view(n, c) if self.how != "squeeze" else y.squeeze(-1).squeeze(-1))
        y = y.view(n, c, 1, 1) if self.how != "squeeze" else y[:, :, None, None]
        return x * (y.expand_as(x) if self.how == "expand" else y)


class Eca(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 1, 3, padding=1, bias=False)

    def forward(self, x):
        y = x.mean((2, 3)).view(x.shape[0], 1, -1)
        return x * torch.sigmoid(self.conv(y)).view(x.shape[0], -1, 1, 1)


class Shuffle(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1, groups=3)

    def forward(self, x):
        a, b = x.chunk(2, dim=1)
        x = torch.cat((a, self.conv(b)), 1)
        n, c, h, w = x.shape
        return x.view(n, 2, c // 2, h, w).transpose(1, 2).contiguous().view(n, -1, h, w)


class Standard(nn.Conv2d):
    """A convolution whose weights are computed of others."""

    def forward(self, x):
        w = F.batch_norm(
            self.weight.reshape(1, self.out_channels, -1), None, None, training=True, momentum=0.0
        ).reshape_as(self.weight)
        return F.conv2d(x, w, self.bias, self.stride, self.padding, self.dilation, self.groups)


def conv(o=5, k=3, **how):
    return nn.Conv2d(6, o, k, **how)


def parameter(*shape):
    return nn.Parameter(torch.linspace(-1, 1, math.prod(shape)).reshape(shape))


def rows():
    """Name, the module, and words: of a remark, or, behind "refused: ", of a refusal."""

    def of(f, **parts):  # parts: functions that make them, so that the seed of the row is theirs
        return lambda: Of(f, **{k: v() for k, v in parts.items()})

    relu = F.relu
    yield "BatchNormAct2d", lambda: nn.Sequential(conv(), NormAct(5)), ""
    for k, s, d in ((3, 2, 1), (4, 2, 1), (5, 3, 1), (3, 1, 2), (2, 1, 1)):
        yield f"same padding that is computed, {k}, {s}, {d}", lambda k=k, s=s, d=d: Same(6, 4, k, s, dilation=d), ""
    yield "padding same", lambda: conv(k=3, padding="same", dilation=2), ""
    yield "padding same, even kernel", lambda: conv(
        k=(4, 3), padding="same"
    ), "have kernels with rows or columns of zeros"
    yield "padding valid", lambda: conv(padding="valid"), ""
    yield "padding by reflection", lambda: conv(
        padding=1, padding_mode="reflect"
    ), "refused: reflect: zeros are possible"
    yield "ZeroPad2d", lambda: nn.Sequential(nn.ZeroPad2d((0, 1, 2, 3)), conv()), ""
    yield "a pad alone", of(lambda m, x: F.pad(x, (1, 0, 2, 1)) + 1), "pick, move, pad"
    yield "a pad of channels", of(lambda m, x: F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 2, 1))), "pick, move, pad"
    yield "a pad by reflection", of(
        lambda m, x: F.pad(x, (1, 1, 1, 1), "reflect")
    ), "refused: reflect: zeros are possible"
    yield "ceil_mode without a rest", of(
        lambda m, x: F.max_pool2d(x[:, :, 1:], 2, ceil_mode=True)
    ), "changes nothing at this --input"
    yield "ceil_mode with a rest, above 0", of(
        lambda m, x: F.max_pool2d(relu(x), 3, 2, ceil_mode=True)
    ), "pick, move, pad"
    yield "ceil_mode with a rest", of(
        lambda m, x: F.max_pool2d(x, 2, ceil_mode=True)
    ), "refused: ceil_mode, which counts a window past the edge of 9 x 8"
    yield "average pool, ceil_mode", of(lambda m, x: F.avg_pool2d(x, 2, ceil_mode=True)), "at the edges"
    yield "average pool, padding does not count", of(
        lambda m, x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)
    ), "at the edges"
    yield "mean, squeeze", of(lambda m, x: m.fc(F.adaptive_avg_pool2d(x, 1).squeeze()), fc=lambda: nn.Linear(6, 4)), ""
    yield "mean, squeeze twice", of(lambda m, x: x.mean(3).mean(2)), "are over one side"
    yield "mean over pixels in a row", of(lambda m, x: m.fc(x.flatten(2).mean(-1)), fc=lambda: nn.Linear(6, 4)), ""
    yield "mean, slices", of(lambda m, x: x.mean([2, 3], keepdim=True)[:, :, 0, 0]), ""
    yield "mean, view", of(lambda m, x: F.avg_pool2d(x, x.size()[2:]).view(x.size(0), -1)), ""
    yield "mean of channels", of(lambda m, x: x * torch.sigmoid(x.mean(1, keepdim=True))), "sums or means over channels"
    yield "sum over pixels", of(lambda m, x: x.sum((2, 3))), ""
    yield "largest of all pixels", of(lambda m, x: F.adaptive_max_pool2d(x, 1).flatten(1) + x.amax((2, 3))), ""
    yield "adaptive pool to 3 x 2", of(lambda m, x: F.adaptive_avg_pool2d(x, (3, 2))), "with windows for this --input"
    yield "adaptive pool with windows that overlap", of(
        lambda m, x: F.adaptive_avg_pool2d(x, (2, 8))
    ), "with windows for this --input"
    yield "adaptive pool to its size", of(lambda m, x: F.adaptive_avg_pool2d(x, (9, 8)) + x), ""
    yield "adaptive pool with uneven windows", of(
        lambda m, x: F.adaptive_avg_pool2d(x, (4, 3))
    ), "refused: from 9 x 8 to 4 x 3: windows"
    yield "ReLU6", lambda: nn.Sequential(conv(), nn.ReLU6(inplace=True)), ""
    yield "LeakyReLU", lambda: nn.LeakyReLU(0.2), ""
    yield "PReLU", lambda: nn.PReLU(6), ""
    yield "PReLU of one", lambda: nn.PReLU(), ""
    yield "Hardtanh, tanh, GELU", of(
        lambda m, x: F.hardtanh(x) + torch.tanh(x) + F.gelu(x, approximate="tanh")
    ), "factors or terms"
    yield "clamp", of(
        lambda m, x: x.clamp(min=-0.5) + x.clamp(max=0.3) + torch.clamp(x, 0.1, 0.6) + x.clamp_min(0)
    ), "factors or terms"
    yield "abs, square, neg", of(lambda m, x: x.abs() + x * x - x**2 + torch.square(-x)), ""
    yield "ELU", lambda: nn.ELU(), "refused: no layer does this"
    yield "half of it", of(lambda m, x: 0.5 * x + 1), "factors or terms"
    yield "less, over", of(lambda m, x: (x - 0.4) / 0.2 - (1 - x)), "factors or terms"
    yield "layer scale", of(
        lambda m, x: x + m.gamma * m.conv(x), gamma=lambda: parameter(6, 1, 1), conv=lambda: conv(6, 1)
    ), "factors or terms"
    yield "a table of positions", of(
        lambda m, x: x + m.table, table=lambda: parameter(1, *SHAPE)
    ), "refused: of N x 6 x 9 x 8 and numbers of (1, 6, 9, 8)"
    yield "a buffer", of(
        lambda m, x: (x - m.mean) / m.std, mean=lambda: parameter(1, 6, 1, 1), std=lambda: parameter(1, 6, 1, 1) + 2
    ), "factors or terms"
    yield "features times numbers", of(lambda m, x: 2 * x.mean((2, 3)) * m.w, w=lambda: parameter(6)), ""
    yield "maximum", of(
        lambda m, x: torch.maximum(x, 1 - x) + torch.minimum(x, x.mean((2, 3), keepdim=True).expand_as(x))
    ), ""
    yield "add with alpha", of(lambda m, x: torch.add(x, relu(x), alpha=3)), ""
    yield "split", of(
        lambda m, x: [torch.cat((c, relu(a), b), 1) for a, b, c in [torch.split(x, [1, 2, 3], 1)]][0]
    ), "pick, move, pad"
    yield "slices", of(lambda m, x: x[:, 2:] + x[:, :4] + x.narrow(1, 1, 4)), "pick, move, pad"
    yield "one channel", of(lambda m, x: x[:, 3].unsqueeze(1) * x), "pick, move, pad"
    yield "every second pixel", of(lambda m, x: x[..., ::2, 1::2]), "pick"
    yield "focus", of(
        lambda m, x: torch.cat([x[..., :8:2, ::2], x[..., 1::2, ::2], x[..., :8:2, 1::2], x[..., 1::2, 1::2]], 1)
    ), "pick"
    yield "channel shuffle", Shuffle, "pick, move, pad"
    yield "ChannelShuffle", lambda: nn.ChannelShuffle(3), "pick, move, pad"
    yield "pixel shuffle", of(lambda m, x: F.pixel_shuffle(m.conv(x), 2), conv=lambda: conv(8)), "pick, move, pad"
    yield "pixel unshuffle", of(lambda m, x: F.pixel_unshuffle(x[:, :, 1:], 2)), "pick, move, pad"
    yield "rows turned over", of(lambda m, x: x.flip(2)), "refused: "
    yield "unbind", of(lambda m, x: torch.cat([v.unsqueeze(1) for v in x.unbind(1)][::-1], 1)), "pick, move, pad"
    yield "channels last and back", of(lambda m, x: relu(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)), ""
    for how in ("view", "squeeze", "expand"):
        yield f"squeeze and excitation, {how}", lambda how=how: Excite(6, how), ""
    yield "efficient channel attention", Eca, "convolutions over channels"
    yield "standardized weights", lambda: Standard(6, 4, 3, padding=1), ""
    yield "InstanceNorm2d", lambda: nn.Sequential(nn.InstanceNorm2d(6, affine=True), nn.InstanceNorm2d(6)), ""
    yield "functions with own tensors", of(
        lambda m, x: F.linear(F.conv2d(x, m.c.weight, m.c.bias).mean((2, 3)), m.w),
        c=lambda: conv(),
        w=lambda: parameter(3, 5),
    ), ""
    yield "a branch on a size", of(lambda m, x: relu(x) if x.shape[2] > 5 and x.dim() == 4 and len(x) > 0 else -x), ""
    yield "a size that is computed", of(
        lambda m, x: F.interpolate(x, size=(x.shape[2] * 2, x.shape[3] * 2), mode="bilinear", align_corners=False)
    ), ""
    yield "half the size", of(
        lambda m, x: F.interpolate(x[:, :, 1:], scale_factor=0.5, mode="bilinear", align_corners=False)
    ), "to a size for this --input"
    yield "maps of one pixel added", of(lambda m, x: x + x.mean((2, 3), keepdim=True)), ""
    yield "SyncBatchNorm", lambda: nn.Sequential(conv(), nn.SyncBatchNorm(5)), ""
    yield "DataParallel", lambda: nn.DataParallel(nn.Sequential(conv(), nn.BatchNorm2d(5))), ""
    yield "scripted", lambda: torch.jit.script(
        nn.Sequential(conv())
    ), "refused: a scripted module (torch.jit): convert the network before"
    yield "scripted inside", lambda: nn.Sequential(torch.jit.script(conv())), "refused: 0 is a scripted module"
    yield "LayerNorm", of(
        lambda m, x: m.n(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2), n=lambda: nn.LayerNorm(6)
    ), "refused: as ConvNeXt: what is missing here: layer_norm 1x"
    yield "attention", of(
        lambda m, x: m.a(*[x.flatten(2).transpose(1, 2)] * 3)[0],
        a=lambda: nn.MultiheadAttention(6, 2, batch_first=True),
    ), "refused: a transformer: what is missing here: attention 1x"
    yield from branches()
    if hasattr(torch, "compile"):
        yield "compiled", lambda: torch.compile(nn.Sequential(conv(), nn.ReLU())), ""


def branches():
    """Selective kernels, and split attention: a softmax weighs branches, which are added."""

    def of(f, **parts):
        return lambda: Of(f, **{k: v() for k, v in parts.items()})

    def kernels(m, x):
        x = torch.stack([m.a(x), m.b(x)], dim=1)
        w = m.fc(x.sum(1).mean((2, 3), keepdim=True)).view(x.shape[0], 2, 4, 1, 1)
        return torch.sum(x * torch.softmax(w, dim=1), dim=1)

    def split(radix, groups):
        def f(m, x):
            b, c, h, w = (x := F.relu(m.a(x))).shape
            x = x.reshape((b, radix, c // radix, h, w))
            gap = m.fc(x.sum(dim=1).mean((2, 3), keepdim=True))
            gap = F.softmax(gap.view(b, groups, radix, -1).transpose(1, 2), dim=1).reshape(b, -1).view(b, -1, 1, 1)
            return (x * gap.reshape((b, radix, c // radix, 1, 1))).sum(dim=1).contiguous()

        return of(f, a=lambda: nn.Conv2d(6, 8, 3), fc=lambda: nn.Conv2d(8 // radix, 8, 1))

    two = "are a softmax over two as a sigmoid of differences, which a convolution makes"
    yield "branches of two kernels", of(
        kernels,
        a=lambda: nn.Conv2d(6, 4, 3, padding=1),
        b=lambda: nn.Conv2d(6, 4, 3, padding=2, dilation=2),
        fc=lambda: nn.Conv2d(4, 8, 1),
    ), two
    yield "branches of a split", split(2, 1), two
    yield "branches of a split in groups", split(2, 2), two
    yield "branches, a mean of three", of(
        lambda m, x: x.view(x.shape[0], 3, 2, 9, 8).mean(1)
    ), "are sums or means over groups of channels as a convolution"
    yield "branches that share a number", of(
        lambda m, x: torch.softmax(x.mean((2, 3), keepdim=True)[:, [0, 0, 1, 2, 3, 4]].view(x.shape[0], 2, 3, 1, 1), 1).sum(1)
    ), "refused: inside the network, of other numbers than channels"
    yield "branches of four", split(4, 1), "refused: inside the network, over 4 numbers: over two it is a sigmoid"
    yield "two classes", of(
        lambda m, x: F.softmax(m.fc(x).mean((2, 3)), 1), fc=lambda: nn.Conv2d(6, 2, 1)
    ), "refused: softmax: the loss and the predictions have it"
    yield "two classes of pixels", of(
        lambda m, x: F.softmax(m.fc(x), 1).contiguous(), fc=lambda: nn.Conv2d(6, 2, 1)
    ), "refused: softmax: the loss and the predictions have it"


def backward(r, stage, weights, name, made, x):
    """The gradients of the image and of the network's own weights."""
    stage.set_weights(weights)
    stage.forward()
    image = torch.from_numpy(x).requires_grad_()
    y = made(image)
    dy = torch.from_numpy(np.random.default_rng(8).uniform(-1, 1, y.shape).astype(np.float32))
    names = [k for k, _ in made.named_parameters()]
    wanted = torch.autograd.grad(y, [image, *made.parameters()], dy)
    d_image, d_weights = stage.backward({"features": dy.numpy()})
    for k, want in zip(["image", *names], wanted):
        got = d_image["image"] if k == "image" else d_weights[k]
        r.near(f"{name}: gradient of {k}", got, want.numpy(), 1e-5 * max(1, float(want.abs().max())))


def by_onnx(r, layers_of, name, made, x, y):
    """The same from a file of ONNX, with softmax as it was before operator set 13, and since."""
    import warnings

    from spconvert.onnx_net import Onnx
    from spstage import Lua, Stage

    for opset in (11, 14) if torch.__version__ < "2" else (18,):
        try:
            import onnx  # noqa: F401

            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.onnx.export(made, torch.from_numpy(x), "form.onnx", verbose=False, opset_version=opset)
        except ImportError as why:
            print(f"left out: {name} by ONNX: {why} (Debian: apt install python3-onnx; PyTorch 2: pip install onnxscript)")
            return
        text, weights = layers_of(Onnx("form.onnx", None))
        if r.true(f"{name} by ONNX {opset}", text, str(weights)):
            stage = Stage("layers", {"layers": Lua(text)}, inputs=[x], training=False, frozen=True)
            stage.set_weights(weights)
            r.near(f"{name} by ONNX {opset}", stage.forward()["features"].reshape(y.shape), y.numpy(), 1e-5)


def __getattr__(name):
    if name.startswith("row_") and name[4:].isdigit():
        return lambda: shaken(list(rows())[int(name[4:])][1], int(name[4:]))
    raise AttributeError(name)


def shaken(make, seed):
    torch.manual_seed(seed)
    m = make()
    for k, v in m.state_dict().items():
        if k.endswith("running_var"):
            v.uniform_(0.5, 2)
        elif k.endswith("running_mean"):
            v.uniform_(-1, 1)
    return m.eval()


def run(r, layers_of, convert):
    from spconvert.torch_net import Torch
    from spstage import Lua, Stage

    x = np.random.default_rng(5).uniform(-2, 2, (2, *SHAPE)).astype(np.float32)
    for i, (name, make, words) in enumerate(rows()):
        if words.startswith("refused: "):
            said = convert(f"convert_forms:row_{i}", "-o", "no", "--input", "6x9x8")
            r.true(f"{name}: refused", words[len("refused: ") :] in said, said)
            continue
        with torch.no_grad():
            made = shaken(make, i)
            y = (
                (made.module if isinstance(made, nn.DataParallel) else made)(torch.from_numpy(x))
                if "Sync" not in name
                else F.batch_norm(made[0](torch.from_numpy(x)), made[1].running_mean, made[1].running_var)
            )
        network = Torch(f"convert_forms:row_{i}", SHAPE)
        text, weights = layers_of(network)
        said = "; ".join(k for k, v in network.net.remarks.items() if v)
        if r.true(name, text and words in said, f"{said} {weights if not text else ''}"):
            stage = Stage("layers", {"layers": Lua(text)}, inputs=[x], training=False, frozen=True)
            stage.set_weights(weights)
            r.near(name, stage.forward()["features"].reshape(y.shape), y.numpy(), 1e-5)
        if name.startswith("branches"):
            backward(r, Stage("layers", {"layers": Lua(text)}, inputs=[x], training=True), weights, name, made, x)
            by_onnx(r, layers_of, name, made, x, y)
