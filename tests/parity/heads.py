# SPDX-License-Identifier: MIT
# needs: onednn images jansson
# once: what PyTorch computes, and the lists of layers, are the same in every build
"""sp.models.fcn, deeplabv3, unet, fpn and probe: values, gradients of weights and inputs beside torchvision's heads and
segmentation_models.pytorch's U-Net and FPN, and five training steps of each behind a frozen ResNet, which stays as it is."""
import inspect
import json
import os
import subprocess
import sys
import tempfile

from spstage import Report, Stage, load_file, save_file, torch_or_skip, torchvision_or_skip
import numpy as np

torch = torch_or_skip()
torchvision = torchvision_or_skip()
from torchvision.models.segmentation.deeplabv3 import ASPP, DeepLabHead  # noqa: E402
from torchvision.models.segmentation.fcn import FCNHead  # noqa: E402

nn, F = torch.nn, torch.nn.functional
r = Report()
rng = np.random.default_rng(9)
torch.manual_seed(9)
SPCORE = os.path.abspath(os.path.join(os.environ.get("top_builddir", "."), "spcore"))
FWD, GRAD, CLASSES, STEPS, BATCH = 1e-4, 1e-3, 5, 5, 4
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


class UnetDecoder(nn.Module):
    """segmentation_models.pytorch's decoder and head, under its names; by hand, since few machines have it."""

    class Block(nn.Module):
        def __init__(self, c, out):
            super().__init__()
            self.conv1, self.conv2 = (nn.Sequential(nn.Conv2d(i, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU())
                                      for i in (c, out))

        def forward(self, x, skip):
            x = F.interpolate(x, scale_factor=2, mode="nearest")
            return self.conv2(self.conv1(x if skip is None else torch.cat([x, skip], 1)))

    def __init__(self, features, skips, channels, classes):
        super().__init__()
        wide = [features] + channels[:-1]
        beside = skips[::-1] + [0]
        self.blocks = nn.ModuleList([self.Block(a + b, o) for a, b, o in zip(wide, beside, channels)])
        self.segmentation_head = nn.Sequential(nn.Conv2d(channels[-1], classes, 3, padding=1))

    def forward(self, x, skips):
        for block, skip in zip(self.blocks, skips[::-1] + [None]):
            x = block(x, skip)
        return self.segmentation_head(x)


class FpnDecoder(nn.Module):
    """segmentation_models.pytorch's, and its head, under its names; as above."""

    class Level(nn.Module):
        def __init__(self, skip, pyramid):
            super().__init__()
            self.skip_conv = nn.Conv2d(skip, pyramid, 1)

        def forward(self, x, skip):
            return F.interpolate(x, scale_factor=2, mode="nearest") + self.skip_conv(skip)

    class Block(nn.Module):
        def __init__(self, c, out, up):
            super().__init__()
            self.block = nn.Sequential(nn.Conv2d(c, out, 3, padding=1, bias=False), nn.GroupNorm(32, out), nn.ReLU())
            self.up = up

        def forward(self, x):
            x = self.block(x)
            return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True) if self.up else x

    def __init__(self, features, skips, classes, pyramid=256, width=128, merge="add"):
        super().__init__()
        self.p5 = nn.Conv2d(features, pyramid, 1)
        self.p4, self.p3, self.p2 = (self.Level(c, pyramid) for c in skips[:0:-1])
        self.seg_blocks = nn.ModuleList()
        for ups in (3, 2, 1, 0):
            block = nn.Module()
            block.block = nn.Sequential(*[self.Block(width if i else pyramid, width, ups > 0) for i in range(max(ups, 1))])
            self.seg_blocks.append(block)
        self.segmentation_head = nn.Sequential(nn.Conv2d(width * (1 if merge == "add" else 4), classes, 1))
        self.merge = sum if merge == "add" else lambda levels: torch.cat(levels, 1)

    def forward(self, x, skips):
        p = [self.p5(x)]
        for level, skip in zip((self.p4, self.p3, self.p2), skips[:0:-1]):
            p.append(level(p[-1], skip))
        x = self.segmentation_head(self.merge([b.block(v) for b, v in zip(self.seg_blocks, p)]))
        return F.interpolate(x, scale_factor=4, mode="bilinear", align_corners=True)


LISTS = """
local sp = require "spcore"
local opt = sp.args { head = { "", "a Lua expression" } }
local list = {}
for i, l in ipairs(load("local m = require 'spcore'.models return m." .. opt.head)()) do
  list[i] = {}
  for k, v in pairs(l) do list[i][tostring(k)] = v end
end
print(sp.json.encode(list))
"""

TRAIN = """
local sp = require "spcore"
local opt = sp.args {
  resnet = { 50, "" }, os = { 8, "" }, head = { "", "" }, model = { "decoder", "" }, steps = { 10, "" }, batch = { 2, "" },
  lr = { 0.1, "" }, side = { 64, "" }, data = { "masks", "" },
}
local g <close> = sp.graph(opt)
local data = g.reader { path = opt.data, batch = opt.batch, size = opt.side, classes = 5, shuffle = false,
  target = opt.model == "classifier" and "class" or "mask" }
local x = g.normalize { data.image, scale = true, mean = { 0.485, 0.456, 0.406 }, std = { 0.229, 0.224, 0.225 } }.images
local net = sp.models.resnet { opt.resnet, output_stride = opt.os }
local enc = g.encoder { x, layers = net, weights = "encoder.safetensors", frozen = true }
local layers = load("local m = require 'spcore'.models return m." .. opt.head)()
local head = g[opt.model] { enc.features, skips = opt.model == "decoder" and enc.maps or nil, layers = layers, classes = 5,
  weights = "head.safetensors", name = "head" }
local loss = g.cross_entropy { head.logits, opt.model == "classifier" and data.label or data.mask }
g:train { loss, optimizer = g.sgd { lr = opt.lr } }
for _, m in g:steps(opt.steps) do print(("%.9g"):format(m.loss)) end
g:save "after.safetensors"
"""

BORDER = """
local sp = require "spcore"
local g <close> = sp.graph { device = "cpu" }
local data = g.reader { path = "masks", batch = 2, size = 64, classes = 5, shuffle = false }
local x = g.normalize { data.image, scale = true, mean = { 0.485, 0.456, 0.406 }, std = { 0.229, 0.224, 0.225 } }.images
local enc = g.encoder { x, layers = sp.models.resnet { 34 }, weights = "encoder.safetensors", frozen = true }
g.writer { enc.maps[1], file = "border.npy" }
for _ in g:steps(1) do end
"""

WHOLE = """
local sp = require "spcore"
local g <close> = sp.graph { device = "cpu" }
local data = g.reader { path = "whole", batch = 1, size = { 70, 90 }, classes = 5, shuffle = false }
local net = sp.models.get("resnet50", { output_stride = 8 })
local x = g.normalize { data.image, scale = true, mean = net.preprocess.mean, std = net.preprocess.std }.images
local enc = g.encoder { x, layers = net, weights = "whole.safetensors", frozen = true }
local dec = g.decoder { enc.features, layers = sp.models.fcn { classes = 5, size = { 70, 90 } }, classes = 5, frozen = true,
  weights = { "whole.safetensors", prefix = "classifier." } }
g.writer { dec.logits, file = "whole.npy" }
for _ in g:steps(1) do end
"""


def spcore(script, **options):
    line = [SPCORE, "run", script] + [w for k, v in options.items() for w in (f"--{k}", str(v))]
    return subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True).stdout


def layers(head):
    """The list that the Lua expression gives, as spstage has tables."""
    found = json.loads(spcore("lists.lua", head=head))
    return [{int(k) if k.isdigit() else k: v for k, v in entry.items()} for entry in found]


def rand(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def state(module):
    return {k: v.detach().numpy().copy() for k, v in module.state_dict().items()}


def randomized(module):
    for m in module.modules():
        if isinstance(m, (nn.BatchNorm2d, nn.GroupNorm)):
            nn.init.uniform_(m.weight, 0.5, 1.5)
            nn.init.uniform_(m.bias, -0.5, 0.5)
        if isinstance(m, nn.BatchNorm2d):
            m.running_mean.uniform_(-0.2, 0.2)
            m.running_var.uniform_(0.5, 2)
    return module


def settled(backbone, images):
    """As a trained one is: running statistics are those of its images, so that no layer's values are far from 1."""
    for m in randomized(backbone).modules():
        if isinstance(m, nn.BatchNorm2d):
            m.momentum = 1
    with torch.no_grad():
        Taps(backbone.train())(images)
    return backbone.eval()


# ---- values and gradients -------------------------------------------------------------------------------------------
def compare(name, head, module, inputs, run, stage="decoder", classes=CLASSES):
    """One training step of both with the same weights; run(*tensors) is what PyTorch makes of the inputs."""
    spec = {"layers": layers(head), "classes": classes}
    st = Stage(stage, spec, inputs=inputs)
    st.set_weights(state(module))
    r.true(f"{name} names", sorted(st.weight_names()) == sorted(module.state_dict()), str(st.weight_names()))
    tensors = [torch.from_numpy(x).requires_grad_() for port in inputs for x in (port if isinstance(port, list) else [port])]
    y = run(*tensors)
    r.near(f"{name} forward", st.forward()["logits"], y.detach().numpy(), FWD)
    g = rand(*y.shape)
    din, dw = st.backward({"logits": g})
    y.backward(torch.from_numpy(g))
    ours = [din["features" if stage == "decoder" else "image"]] + list(din.get("skips", []))
    for i, (a, t) in enumerate(zip(ours, tensors)):
        grad = torch.zeros_like(t) if t.grad is None else t.grad  # no layer reads it
        r.near(f"{name} d input {i}", a, grad.numpy(), GRAD)
    for k, p in module.named_parameters():
        r.near(f"{name} d {k}", dw[k], p.grad.numpy(), GRAD)
    after = st.weights()
    for k, b in module.named_buffers():
        r.near(f"{name} {k}", after[k], b.numpy(), FWD)


def quiet(module):
    """Without dropout, whose random numbers are others."""
    for m in module.modules():
        if isinstance(m, nn.Dropout):
            m.p = 0
    return randomized(module).train()


def heads():
    x = rand(2, 64, 8, 7)
    deeplab = DeepLabHead(64, CLASSES)
    deeplab[0] = ASPP(64, [2, 3, 12])
    fcn = FCNHead(64, CLASSES)
    for name, module, options in (("fcn", fcn, ", channels = 64"), ("deeplabv3", deeplab, ", rates = { 2, 3, 12 }")):
        quiet(module)
        compare(name, f"{name} {{ classes = {CLASSES}, size = {{ 61, 50 }}, dropout = 0{options} }}", module, [x],
                lambda t, m=module: F.interpolate(m(t), size=(61, 50), mode="bilinear", align_corners=False))
    unet = randomized(UnetDecoder(32, [6, 8, 16], [16, 12, 8, 4], CLASSES))
    maps = [rand(2, 6, 16, 24), rand(2, 8, 8, 12), rand(2, 16, 4, 6)]
    compare("unet", f"unet {{ classes = {CLASSES}, decoder = {{ 16, 12, 8, 4 }}, size = {{ 32, 48 }} }}", unet,
            [rand(2, 32, 2, 3), maps], lambda x, *skips: unet(x, list(skips)))
    for merge in ("add", "cat"):
        fpn = randomized(FpnDecoder(32, [4, 6, 8, 16], CLASSES, 24, 32, merge))
        maps = [rand(2, c, 32 >> i, 48 >> i) for i, c in enumerate([4, 6, 8, 16])]
        compare(f"fpn, {merge}", f"fpn {{ classes = {CLASSES}, pyramid = 24, width = 32, merge = '{merge}', dropout = 0 }}", fpn,
                [rand(2, 32, 2, 3), maps], lambda x, *skips: fpn(x, list(skips)))
    probe = nn.Sequential()
    probe.add_module("fc", nn.Linear(32, CLASSES))
    compare("probe", f"probe {{ classes = {CLASSES} }}", probe, [rand(3, 32, 4, 5)], lambda x: probe(x.mean((2, 3))),
            "classifier")


def one_sample():
    """BatchNorm over one value: both refuse to train; in an evaluation both go on."""
    module, x = quiet(DeepLabHead(16, CLASSES)), rand(1, 16, 4, 4)
    try:
        module(torch.from_numpy(x))
        r.true("deeplabv3 of one sample: PyTorch refuses", False, "it did not")
    except ValueError:
        pass
    spec = {"layers": layers(f"deeplabv3 {{ classes = {CLASSES}, size = 16 }}"), "classes": CLASSES}
    r.fails("deeplabv3 of one sample", "layer '0.convs.4.2' (batch_norm): more than one value per channel",
            Stage("decoder", spec, inputs=[x]).forward)
    st = Stage("decoder", spec, inputs=[x], training=False)
    st.set_weights(state(module))
    y = F.interpolate(module.eval()(torch.from_numpy(x)), size=(16, 16), mode="bilinear", align_corners=False)
    r.near("deeplabv3 of one sample, evaluated", st.forward()["logits"], y.detach().numpy(), FWD)


# ---- training -------------------------------------------------------------------------------------------------------
def normalized(x):
    images = torch.from_numpy(x).permute(0, 3, 1, 2).float() / 255
    return (images - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)


def data(side):
    x = rng.integers(0, 256, (STEPS * BATCH, side, side, 3), dtype=np.uint8)
    y = rng.integers(0, CLASSES, (STEPS * BATCH, side // 8, side // 8), dtype=np.uint8)
    y[:, 0, 0].sort()  # samples of classes come one class after another
    for name, truth in (("masks", y.repeat(8, 1).repeat(8, 2)), ("labels", y[:, 0, 0].astype(np.int64))):
        os.makedirs(name, exist_ok=True)
        np.save(f"{name}/images.npy", x)
        np.save(f"{name}/{name}.npy", truth)
    return normalized(x), y


def torch_run(encoder, head, images, labels, lr):
    encoder.eval()
    opt = torch.optim.SGD(head.parameters(), lr=lr)
    losses = []
    for s in range(STEPS):
        now = slice(s * BATCH, (s + 1) * BATCH)
        with torch.no_grad():
            maps = encoder(images[now])
        loss = F.cross_entropy(head.logits(maps), torch.from_numpy(labels[now].astype(np.int64)))
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses


class Taps(nn.Module):
    """What a ResNet gives behind the first ReLU and the four stages."""

    def __init__(self, m):
        super().__init__()
        self.m = m

    def forward(self, x):
        m = self.m
        taps = [F.relu(m.bn1(m.conv1(x)))]
        y = m.maxpool(taps[0])
        for stage in (m.layer1, m.layer2, m.layer3, m.layer4):
            y = stage(y)
            taps.append(y)
        return taps


def distance(a, b):
    return float(np.linalg.norm(np.asarray(a, np.float64) - np.asarray(b, np.float64)))


def train(name, resnet, stride, head_of, expression, side=64, model="decoder", lr=1e-3):
    """head_of(backbone) gives a module with logits(maps)."""
    images, masks = data(side)
    labels = masks.repeat(8, 1).repeat(8, 2) if model == "decoder" else masks[:, 0, 0]
    backbone, head, own = head_of()
    settled(backbone, images)
    encoder = {k: v for k, v in state(backbone).items() if not k.startswith("fc.")}
    save_file("encoder.safetensors", encoder)
    before = state(own)
    save_file("head.safetensors", before)
    want = torch_run(Taps(backbone), head, images, labels, lr)
    # on a GPU TF32 would be the default, whose rounding comes back magnified from batch norms of four values
    out = spcore("train.lua", resnet=resnet, os=stride, head=expression, model=model, steps=STEPS, batch=BATCH, lr=lr, side=side,
                 data="labels" if model == "classifier" else "masks", device=os.environ.get("SP_TEST_DEVICE", "cpu"),
                 precision=os.environ.get("SP_TEST_PRECISION", "fp32"))
    got = [float(line) for line in out.split()]
    after = load_file("after.safetensors")
    r.close(f"{name} losses", np.array(got), np.array(want), rtol=2e-4)
    want_w = state(own)
    # A value at a ReLU's corner that falls to the other side turns a filter, most of all where a batch norm has four values,
    # behind the mean over the map; steps are rounded to the weights' own last digits. What is left out is off by 1.
    off = {}
    for k, w in want_w.items():
        off[k] = (distance(after["head." + k], w) - 1e-6 * distance(w, 0)) / max(distance(w, before[k]), 1e-9)
    worst = max(off, key=off.get)
    r.true(f"{name} weights and running statistics, off by {max(off.values()):.1e} of their way", off[worst] < 0.1, worst)
    same = all(np.array_equal(after["encoder." + k], v) for k, v in encoder.items())
    r.true(f"{name}: the encoder, and its running statistics, stay", same)


def segmentation(make, side):
    def head_of():
        m = make(weights=None, weights_backbone=None, num_classes=CLASSES, aux_loss=False)
        m.classifier = quiet(m.classifier)
        m.classifier.logits = lambda maps: F.interpolate(m.classifier(maps[-1]), (side, side), mode="bilinear")
        return m.backbone, m.classifier, m.classifier
    return head_of


def smp_of(name, own, **options):
    """The package's own decoder and head where it is installed."""
    backbone = torchvision.models.resnet34(weights=None)
    own.logits = lambda maps: own(maps[-1], maps[:-1])
    here = sys.path.pop(0)  # whose safetensors.py is not the package
    try:
        import segmentation_models_pytorch as smp
    except ImportError:
        print(f"segmentation_models_pytorch is not installed: its {name} by hand", flush=True)
        return backbone, randomized(own), own
    finally:
        sys.path.insert(0, here)
    m = getattr(smp, name)("resnet34", encoder_weights=None, classes=CLASSES, **options)
    theirs = {k: v for k, v in m.decoder.state_dict().items()}
    theirs.update({"segmentation_head." + k: v for k, v in m.segmentation_head.state_dict().items()})
    r.true(f"segmentation_models.pytorch's names of {name}", sorted(theirs) == sorted(own.state_dict()), str(sorted(theirs)))
    own = nn.Module()
    for part, module in [*m.decoder.named_children(), ("segmentation_head", m.segmentation_head)]:
        own.add_module(part, module)
    apart = "*features" in str(inspect.signature(m.decoder.forward))  # as it was below 0.5

    def logits(maps):
        features = [F.interpolate(maps[0], scale_factor=2), *maps]  # of the first, the image, the size alone is looked at
        return m.segmentation_head(m.decoder(*features) if apart else m.decoder(features))
    own.logits = logits
    return backbone, randomized(own), own


def unet_of():
    return smp_of("Unet", UnetDecoder(512, [64, 64, 128, 256], [256, 128, 64, 32, 16], CLASSES))


def fpn_of():
    return smp_of("FPN", FpnDecoder(512, [64, 64, 128, 256], CLASSES), decoder_dropout=0)


def probe_of():
    backbone = torchvision.models.resnet18(weights=None)
    own = nn.Module()
    own.fc = nn.Linear(512, CLASSES)
    own.logits = lambda maps: own.fc(maps[-1].mean((2, 3)))
    return backbone, own, own


def border():
    """Normalized first and padded then: zeros around conv1 are the mean."""
    images, _ = data(64)
    backbone = randomized(torchvision.models.resnet34(weights=None)).eval()
    save_file("encoder.safetensors", {k: v for k, v in state(backbone).items() if not k.startswith("fc.")})
    with torch.no_grad():
        tap = Taps(backbone)(images[:2])[0].numpy()
    spcore("border.lua")
    ours = np.load("border.npy")[:2]
    rows = (("top", np.s_[:, :, :2]), ("bottom", np.s_[:, :, -2:]))
    for side, at in (*rows, ("left", np.s_[..., :2]), ("right", np.s_[..., -2:])):
        r.near(f"the border of conv1, {side}", ours[at], tap[at], FWD)


def whole():
    """A file of all of torchvision's model, and an image whose sides are no multiples of 8."""
    m = torchvision.models.segmentation.fcn_resnet50(weights=None, weights_backbone=None, num_classes=CLASSES, aux_loss=True)
    m.eval()
    save_file("whole.safetensors", state(m))
    x = rng.integers(0, 256, (1, 70, 90, 3), dtype=np.uint8)
    os.makedirs("whole")
    np.save("whole/images.npy", x)
    np.save("whole/masks.npy", np.zeros((1, 70, 90), np.uint8))
    with torch.no_grad():
        want = m(normalized(x))["out"].numpy()
    spcore("whole.lua")
    r.near("fcn_resnet50 from one file", np.load("whole.npy"), want, FWD)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for script, text in (("lists.lua", LISTS), ("train.lua", TRAIN), ("border.lua", BORDER), ("whole.lua", WHOLE)):
        with open(script, "w", encoding="utf-8") as f:
            f.write(text)
    heads()
    one_sample()
    border()
    whole()
    train("unet, resnet34", 34, 32, unet_of, f"unet {{ classes = {CLASSES}, size = 64 }}")
    train("fpn, resnet34", 34, 32, fpn_of, f"fpn {{ classes = {CLASSES}, size = 32, dropout = 0 }}", side=32)
    train("probe, resnet18", 18, 32, probe_of, f"probe {{ classes = {CLASSES} }}", model="classifier")
    segment = torchvision.models.segmentation
    for name, make in (("fcn", segment.fcn_resnet50), ("deeplabv3", segment.deeplabv3_resnet50)):
        expression = f"{name} {{ classes = {CLASSES}, size = 32, dropout = 0 }}"
        train(f"{name}_resnet50", 50, 8, segmentation(make, 32), expression, side=32)
    os.chdir("/")
r.exit()
