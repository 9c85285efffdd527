# SPDX-License-Identifier: MIT
# needs: onednn images
"""sp.models against torchvision's networks, with the same random weights, loaded from a file of its whole state_dict: every tap,
or the head; what lists say of themselves; timm's names. SP_MODELS=all: all networks, at 224 x 224, 256 x 256 and 257 x 223.
SP_TEST_DEVICE and, on a GPU, SP_TEST_PRECISION: where and how ours compute; in tf32 and bf16 a map may be off by twice what
PyTorch's own is off there in that precision, or by a unit in the last place of its numbers: of a few logits PyTorch's may
all be right by chance."""
import copy
import hashlib
import json
import os
import subprocess
import sys
import tempfile

from spstage import Report, lua, save_file, torch_or_skip, torchvision_or_skip
import numpy as np

torch = torch_or_skip()
torchvision = torchvision_or_skip()
try:  # it needs a library that is called as a file beside this one
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != os.path.dirname(os.path.abspath(__file__))]
    import timm
    import timm.data
except ImportError:
    timm = None
    print("timm is not there: its names are compared as it had them, its numbers are left out")
r = Report()
DEVICE, PRECISION = os.environ.get("SP_TEST_DEVICE", "cpu"), os.environ.get("SP_TEST_PRECISION", "fp32")
CPU = 'device = "cpu", '
PLACE = f'device = "{DEVICE}", precision = "{PRECISION}", ' if DEVICE != "cpu" else CPU
SPCORE = os.path.abspath(os.path.join(os.environ.get("top_builddir", "."), "spcore"))
torch.manual_seed(8)
for init in ("kaiming_normal_", "kaiming_uniform_", "normal_", "trunc_normal_", "uniform_"):
    setattr(torch.nn.init, init, lambda t, *a, **k: t)  # randomise() fills weights, where they matter

UNIT = {"fp32": 1e-4, "tf32": 2**-10, "bf16": 2**-7}[PRECISION]  # of the largest value; fp32: of sums in another order

SMP = {"dilation": "smp"}
CASES = [
    ("resnet18", {"output_stride": 8}, (65, 97)), ("resnet18", {"output_stride": 8, **SMP}, (65, 97)),
    ("resnet18", {"classes": 7}, (64, 96)), ("resnet50", {"output_stride": 8}, (97, 65)),
    ("resnet50", {"output_stride": 16, **SMP}, (97, 65)),
    ("mobilenet_v3_large", {}, (97, 65)), ("mobilenet_v3_large", {"dilated": True}, (97, 65)),
    ("mobilenet_v3_small", {}, (65, 97)), ("mobilenet_v3_small", {"dilated": True, "width": 0.75}, (65, 97)),
    ("mobilenet_v3_large", {"classes": 7}, (64, 96)),
    ("efficientnet_b0", {}, (97, 65)), ("efficientnet_b2", {"classes": 7}, (64, 64)),
]
SIZES = ((224, 224), (256, 256), (257, 223))
LARGE = [("resnet18", {}), ("resnet34", {"output_stride": 8}), ("resnet50", {}), ("resnet50", {"output_stride": 8}),
         ("resnet101", {"output_stride": 16}), ("resnet101", {"output_stride": 8, **SMP}),
         ("mobilenet_v3_large", {}), ("mobilenet_v3_large", {"dilated": True}), ("mobilenet_v3_small", {})]
LARGE += [(f"efficientnet_b{i}", {}) for i in range(5)]

# sha256 of timm 1.0.31's state_dict(): a line "NAME SIZES" each, sorted
TIMM = {
    "mobilenet_v3_large": "7f2ec26ba945f43732d3403ca4cdb61f79aed53ef7bb3a7a8300baaf2f0cc987",
    "mobilenet_v3_small": "828877c834db48939e6fc90a5e7ef78995ebd12b274114ed42ee6c0adfc9a8c9",
    "efficientnet_b0": "de46994670e19e0c3389ac7ab50d4aa49e3fcb58a17e5fa1d267f9b92b5fd039",
    "efficientnet_b1": "1c0c3879bfe704284ca1ab331715022d87a54259ceda5525b465082135140c75",
    "efficientnet_b2": "61a87b4a8dc9886face8cc437b413bb5876f972b1ce391ac92869217b83e7943",
    "efficientnet_b3": "3225855cc18c9ae3fc55773ed72d398c55fcad8a274ad4cb4a4ad0a91ada21c5",
    "efficientnet_b4": "cecd7bba6e064a472edc2f7e428225f528429277fc5f44ee1fec7bc8b0d5ade5",
    "resnet18": "f0e35161599236f315cd146cd4248bf0732a9445b57a806ea3787184467b15b4",
    "resnet34": "c1372162bc2e8e861f0e7c2d13d683bdb9d66996aa4447248d69bc670d51b4bf",
    "resnet50": "fe1d335c3c7786ffda005558842d02e739fc8008f65d509710f49da78719aa43",
    "resnet101": "b6755676a9dbfb7d2416e0393ea27402a774a31280fddd82036f9860e6b32f42",
}

TAPS = """
local sp = require "spcore"
local layers = sp.models.get("%s", %s)
local g <close> = sp.graph { %sthreads = 2 }
local data = g.reader { path = "data", batch = 1, size = { %d, %d }, target = "class", shuffle = false }
local x = g.to_float { data.image, scale = true }
if #layers.taps == 0 then
  local net = g.classifier { x, layers = layers, classes = 7, weights = "w.safetensors", frozen = true }
  g.writer { net.logits, file = "0.npy" }
else
  local net = g.encoder { x, layers = layers, weights = "w.safetensors", frozen = true }
  g.writer { net.features, file = "0.npy", name = "w0" }
  for i = 1, #net.maps do g.writer { net.maps[i], file = i .. ".npy", name = "w" .. i } end
end
for _ in g:steps(1) do end
"""

ABOUT = """
local sp = require "spcore"
local out = {}
for _, name in ipairs(sp.models.names) do
  for variant in pairs(sp.models.get(name).variants) do
    local list = sp.models.get(name, { classes = 1000, variant = variant })
    local g <close> = sp.graph { device = "cpu" }
    local x = g.reader { path = "random", size = 64, batch = 1, samples = 1, classes = 2 }.image
    local net, weights = g.classifier { g.to_float { x }, layers = list, classes = 1000 }, {}
    for _, w in ipairs(net:weights()) do weights[w.name] = sp.json.list(w.shape) end
    out[name .. " " .. variant] = { names = list.names, preprocess = list.preprocess, weights = weights }
  end
end
print(sp.json.encode(out))
"""


def run(script):
    with open("script.lua", "w", encoding="utf-8") as f:
        f.write(script)
    return subprocess.run([SPCORE, "run", "script.lua"], check=True, stdout=subprocess.PIPE).stdout


# ---- torchvision's networks ----
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


def resnet(name, classes, output_stride=32, dilation="torchvision"):
    own = dilation == "torchvision" and name in ("resnet50", "resnet101")
    replaced = [False, own and output_stride < 16, own and output_stride < 32]
    m = getattr(torchvision.models, name)(num_classes=classes, replace_stride_with_dilation=replaced)
    if dilation == "smp":
        dilate_as_smp(m, output_stride)
    elif not own:
        dilate_basic(m, output_stride)
    return m


def network(name, options):
    o = dict(options)
    classes = o.pop("classes", 1000)
    if name.startswith("resnet"):
        return resnet(name, classes, **o)
    if "width" in o:
        o["width_mult"] = o.pop("width")
    return getattr(torchvision.models, name)(num_classes=classes, **o)


def randomise(m):
    for k, v in m.state_dict().items():
        if v.ndim > 1:
            v.normal_(0, v[0].numel() ** -0.5)  # larger ones make deep networks chaotic: rounding alone moves their maps by 1 %
        elif k.endswith("running_var"):
            v.uniform_(0.5, 2)
        elif k.endswith("running_mean"):
            v.uniform_(-1, 1)
        elif k.endswith("bias"):
            v.uniform_(-0.3, 0.3)
        elif v.ndim == 1:
            v.uniform_(0.5, 1.5)


def smaller_maps(m, x):
    """What the last part of each size of the map gives, of features or of ResNet's parts."""
    parts = m.features if hasattr(m, "features") else \
        [torch.nn.Sequential(m.conv1, m.bn1, m.relu), torch.nn.Sequential(m.maxpool, m.layer1), m.layer2, m.layer3, m.layer4]
    maps = []
    for part in parts:
        x = part(x)
        maps.append(x)
    return maps


def wanted(name, m, x, options):
    if "classes" in options:
        return [m(x)]
    maps = smaller_maps(m, x)
    if name.startswith("resnet"):
        return [maps[-1]] + maps
    plain = network(name, {k: v for k, v in options.items() if k != "dilated"}).eval().to(x.device)  # taps stay where they are
    sides = [y.shape[2] for y in smaller_maps(plain, x)]
    last = [i for i, side in enumerate(sides) if i + 1 == len(sides) or sides[i + 1] < side]
    return [maps[-1]] + [maps[i] for i in last]


def images(case, hw):
    """Writes some, for the reader, and returns them as the network gets them."""
    x = np.random.default_rng(len(case)).integers(0, 256, (1, 3, *hw), dtype=np.uint8)
    os.makedirs("data", exist_ok=True)
    np.save("data/images.npy", x)
    np.save("data/labels.npy", np.zeros(1, np.int64))
    return torch.from_numpy(x).float() / 255


def rounding(name, m, x, options, ys):
    """How much of its largest value each map of PyTorch's is off in the precision, on the device."""
    if PRECISION == "fp32":
        return [0] * len(ys)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    with torch.no_grad(), torch.autocast(DEVICE, torch.bfloat16, enabled=PRECISION == "bf16"):
        theirs = wanted(name, copy.deepcopy(m).to(DEVICE), x.to(DEVICE), options)
    return [float((a.float().cpu() - b).abs().max() / b.abs().max()) for a, b in zip(theirs, ys)]


def compare(name, options, hw):
    case = f"{name} {json.dumps(options)}, {hw[0]} x {hw[1]}"
    x = images(case, hw)
    m = network(name, options).eval()
    randomise(m)
    save_file("w.safetensors", {k: v.numpy() for k, v in m.state_dict().items()})
    with torch.no_grad():
        ys = wanted(name, m, x, options)
    run(TAPS % (name, lua(options), PLACE, *hw))
    for i, (y, off) in enumerate(zip(ys, rounding(name, m, x, options, ys))):
        r.near(f"{case}, {f'tap {i}' if i else 'features'}", np.load(f"{i}.npy"), y.numpy(), max(UNIT, 2 * off))
    r.true(f"{case}: no other tap", not os.path.exists(f"{len(ys)}.npy"))
    for i in range(len(ys)):
        os.remove(f"{i}.npy")


# ---- what lists say of themselves ----
def translated(name, names):
    """Our name with the longest prefix that `names` has replaced."""
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        if ".".join(parts[:n]) in names:
            return ".".join([names[".".join(parts[:n])]] + parts[n:])
    return name


def listed(shapes):
    return sorted(f"{k} {'x'.join(map(str, v))}" for k, v in shapes.items())


def check_torchvision(case, name, about, version):
    theirs = network(name, {}).state_dict()
    ours, want = listed(about["weights"]), listed({k: v.shape for k, v in theirs.items()})
    r.true(f"{case}: weights", ours == want, f"only here {set(ours) - set(want)}, only there {set(want) - set(ours)}")
    enum = next(n for n in dir(torchvision.models) if n.lower() == f"{name}_weights")
    t = torchvision.models.get_weight(f"{enum}.IMAGENET1K_{version.upper()}").transforms()
    p = about["preprocess"]
    got = [p["size"], p["crop"], p["interpolation"], p["mean"], p["std"]]
    want = [t.resize_size[0], t.crop_size[0], t.interpolation.value, t.mean, t.std]
    r.true(f"{case}: preprocess", got == want, f"{got}, torchvision has {want}")


def check_timm(case, name, about, tag):
    names = about["names"].get("timm", {}) if about["names"] else {}
    ours = listed({translated(k, names): v for k, v in about["weights"].items()})
    got = hashlib.sha256("\n".join(ours).encode()).hexdigest()
    r.true(f"{case}: names", got == TIMM[name], f"{got}, timm's are {TIMM[name]}")
    if timm:
        check_installed_timm(case, name, about, tag, ours, names)


def check_installed_timm(case, name, about, tag, ours, names):
    theirs = name.replace("mobilenet_v3", "mobilenetv3") + ("_100" if "mobilenet" in name else "")
    m = timm.create_model(f"{theirs}.{tag}_in1k").eval()
    want = listed({k: v.shape for k, v in m.state_dict().items()})
    r.true(f"{case}: timm's weights", ours == want, f"only here {set(ours) - set(want)}, only there {set(want) - set(ours)}")
    c, p = timm.data.resolve_model_data_config(m), about["preprocess"]
    got = [p["size"], p["crop"], p["interpolation"], p["mean"], p["std"]]
    want = [int(c["input_size"][1] / c["crop_pct"]), c["input_size"][1], c["interpolation"], list(c["mean"]), list(c["std"])]
    r.true(f"{case}: timm's preprocessing", got == want, f"{got}, timm has {want}")
    m.reset_classifier(7)
    randomise(m)
    state = {k: v.numpy() for k, v in m.state_dict().items()}
    save_file("w.safetensors", state)
    x = images("timm", (64, 96))
    run(TAPS % (name, lua({"classes": 7, "variant": f"timm_{tag}"}), CPU, 64, 96))
    with torch.no_grad():
        r.near(f"{case}: timm's logits", np.load("0.npy"), m(x).numpy(), 1e-4)


def check_lists():
    for case, about in json.loads(run(ABOUT)).items():
        name, variant = case.split()
        source, version = variant.split("_", 1)
        (check_torchvision if source == "torchvision" else check_timm)(case, name, about, version)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for case in [c + (hw,) for c in LARGE for hw in SIZES] if os.environ.get("SP_MODELS") == "all" else CASES:
        compare(*case)
    check_lists()
    os.chdir("/")
r.exit()
