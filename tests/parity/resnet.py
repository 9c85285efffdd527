# SPDX-License-Identifier: MIT
# needs: onednn images
"""sp.models.resnet against torchvision's, with the same random weights, loaded from a file of its state_dict: every tap."""
import os
import subprocess
import tempfile

from spstage import Report, save_file, torch_or_skip, torchvision_or_skip
import numpy as np

torch = torch_or_skip()
torchvision = torchvision_or_skip()
r = Report()
SPCORE = os.path.abspath(os.path.join(os.environ.get("top_builddir", "."), "spcore"))
torch.manual_seed(8)

CASES = [(18, 32, (224, 224)), (34, 16, (257, 223)), (50, 8, (257, 223)), (101, 32, (224, 224)), (50, 32, (64, 96), 7),
         (50, 8, (97, 65), 0, "smp"), (34, 8, (97, 65), 0, "smp")]

TAPS = """
local sp = require "spcore"
local opt = sp.args { resnet = { 18, "" }, os = { 32, "" }, classes = { 0, "" }, height = { 1, "" }, width = { 1, "" },
  dilation = { "torchvision", "" } }
local layers = sp.models.resnet { opt.resnet, output_stride = opt.os, dilation = opt.dilation,
  classes = opt.classes > 0 and opt.classes or nil }
local g <close> = sp.graph { device = "cpu" }
local data = g.reader { path = "data", batch = 1, size = { opt.height, opt.width }, target = "class", shuffle = false }
local x = g.to_float { data.image, scale = true }
if opt.classes > 0 then
  local net = g.classifier { x, layers = layers, classes = opt.classes, weights = "w.safetensors", frozen = true }
  g.writer { net.logits, file = "0.npy" }
else
  local net = g.encoder { x, layers = layers, weights = "w.safetensors", frozen = true }
  g.writer { net.features, file = "0.npy", name = "w0" }
  for i = 1, #net.maps do g.writer { net.maps[i], file = i .. ".npy", name = "w" .. i } end
end
for _ in g:steps(1) do end
"""


LAYERS = {18: [2, 2, 2, 2], 34: [3, 4, 6, 3], 50: [3, 4, 6, 3], 101: [3, 4, 23, 3]}


def dilate_basic(m, stride):
    """torchvision refuses a dilation of basic blocks; here the first convolution of a stage has that of the stage before, as
    its bottlenecks do."""
    rate = 1
    for at, stage in ((16, m.layer3), (32, m.layer4)):
        if at <= stride:
            continue
        first, rate = rate, 2 * rate
        stage[0].conv1.stride = stage[0].downsample[0].stride = (1, 1)
        for c in [b.conv1 for b in stage[1:]] + [b.conv2 for b in stage]:
            c.dilation = c.padding = (rate, rate)
        stage[0].conv1.dilation = stage[0].conv1.padding = (first, first)


def dilate_as_smp(m, stride):
    """segmentation_models.pytorch's replace_strides_with_dilation, of the stages that its make_dilated names."""
    for at, stage, rate in ((16, m.layer3, 2), (32, m.layer4, 32 // stride)):
        for c in stage.modules() if at > stride else ():
            if isinstance(c, torch.nn.Conv2d):
                c.stride, c.dilation = (1, 1), (rate, rate)
                c.padding = (c.kernel_size[0] // 2 * rate, c.kernel_size[1] // 2 * rate)


def model(depth, stride, classes, dilation):
    basic = depth < 50
    block = torchvision.models.resnet.BasicBlock if basic else torchvision.models.resnet.Bottleneck
    replaced = [False, stride < 16 and not basic, stride < 32 and not basic] if dilation == "torchvision" else [False] * 3
    m = torchvision.models.ResNet(block, LAYERS[depth], num_classes=max(classes, 1), replace_stride_with_dilation=replaced).eval()
    if dilation == "smp":
        dilate_as_smp(m, stride)
    elif basic:
        dilate_basic(m, stride)
    for k, v in m.state_dict().items():
        if k.endswith("running_var"):
            v.uniform_(0.5, 2)
        elif k.endswith("running_mean"):
            v.uniform_(-1, 1)
    if not classes:
        m.fc = torch.nn.Identity()
    return m


def wanted(m, x, classes):
    if classes:
        return [m(x)]
    taps = [m.relu(m.bn1(m.conv1(x)))]
    y = m.maxpool(taps[0])
    for stage in (m.layer1, m.layer2, m.layer3, m.layer4):
        y = stage(y)
        taps.append(y)
    return [y] + taps


def compare(depth, stride, hw, classes=0, dilation="torchvision"):
    name = f"resnet{depth}, output stride {stride}, {hw[0]} x {hw[1]}" + (", with its head" if classes else "")
    name += "" if dilation == "torchvision" else f", dilated as {dilation}"
    images = np.random.default_rng(depth).integers(0, 256, (1, 3, *hw), dtype=np.uint8)
    os.makedirs("data", exist_ok=True)
    np.save("data/images.npy", images)
    np.save("data/labels.npy", np.zeros(1, np.int64))
    m = model(depth, stride, classes, dilation)
    save_file("w.safetensors", {k: v.numpy() for k, v in m.state_dict().items()})
    with torch.no_grad():
        ys = wanted(m, torch.from_numpy(images).float() / 255, classes)
    subprocess.run([SPCORE, "run", "taps.lua", "--resnet", str(depth), "--os", str(stride), "--classes", str(classes),
                    "--dilation", dilation, "--height", str(hw[0]), "--width", str(hw[1])], check=True, stdout=subprocess.DEVNULL)
    for i, y in enumerate(ys):
        r.near(f"{name}, {f'tap {i}' if i else 'features'}", np.load(f"{i}.npy"), y.numpy(), 1e-4)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    with open("taps.lua", "w", encoding="utf-8") as f:
        f.write(TAPS)
    for case in CASES:
        compare(*case)
    os.chdir("/")
r.exit()
