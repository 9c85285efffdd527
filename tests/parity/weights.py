# SPDX-License-Identifier: MIT
# needs: onednn images
# once: names
"""Files as others save them, by `weights = FILE` alone: behind prefixes of wrappers, in half precision, without what older
versions did not count, of a whole segmentation model. The encoder gives what PyTorch's module gives with those values."""
import json
import os
import struct
import subprocess
import tempfile

from spstage import Report, torch_or_skip, torchvision_or_skip
import numpy as np

torch = torch_or_skip()
torchvision = torchvision_or_skip()
r = Report()
SPCORE = os.path.abspath(os.path.join(os.environ.get("top_builddir", "."), "spcore"))
torch.manual_seed(8)

ENCODE = """
local sp = require "spcore"
local opt = sp.args { depth = { 18, "" }, os = { 32, "" } }
local g <close> = sp.graph { device = "cpu" }
local data = g.reader { path = "data", batch = 1, size = { 64, 64 }, target = "class", shuffle = false }
local x = g.to_float { data.image, scale = true }
local layers = sp.models.resnet { opt.depth, output_stride = opt.os }
g.writer { g.encoder { x, name = "net", layers = layers, weights = "w.safetensors", frozen = true }.features, file = "y.npy" }
for _ in g:steps(1) do end
"""
WORDS = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64"}


def save(state):
    header, data = {}, b""
    for name, v in state.items():
        b = v.contiguous().view(torch.int16).numpy().tobytes() if v.element_size() == 2 else v.numpy().tobytes()
        header[name] = {"dtype": WORDS[v.dtype], "shape": list(v.shape), "data_offsets": [len(data), len(data) + len(b)]}
        data += b
    text = json.dumps(header).encode()
    with open("w.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def encode(name, state, words, depth=18, stride=32):
    save(state)
    said = subprocess.run([SPCORE, "run", "encode.lua", "--depth", str(depth), "--os", str(stride)], check=True,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True).stderr
    lines = (len(words) > 0) + ("become" in said)
    r.true(f"{name}: what is said", all(w in said for w in words) and said.count("\n") == lines, said)
    return np.load("y.npy")


def shake(m):
    for k, v in m.state_dict().items():
        if k.endswith("running_var"):
            v.uniform_(0.5, 2)
        elif k.endswith("running_mean"):
            v.uniform_(-1, 1)
    return m.eval()


def features(m, x):
    with torch.no_grad():
        y = m.maxpool(m.relu(m.bn1(m.conv1(x))))
        return m.layer4(m.layer3(m.layer2(m.layer1(y)))).numpy()


def resnet(x):
    m = shake(torchvision.models.resnet18())
    state, y = m.state_dict(), features(m, x)
    head = ["fc.weight", "fc.bias"]
    plain = encode("resnet18", state, head)
    r.near("resnet18", plain, y, 1e-4)
    for p in ("module.", "backbone.", "encoder.", "_orig_mod.module."):
        r.same(f"behind {p}", encode(p, {p + k: v for k, v in state.items()}, [f"behind '{p}'"] + [p + h for h in head]), plain)
    uncounted = {k: v for k, v in state.items() if not k.endswith("num_batches_tracked") and not k.startswith("fc.")}
    r.same("without what is counted", encode("without what is counted", uncounted, []), plain)
    for dtype, word in ((torch.float16, "float16"), (torch.bfloat16, "bfloat16")):
        half = {k: v.to(dtype) if v.is_floating_point() else v for k, v in state.items()}
        m.load_state_dict(half)
        r.near(word, encode(word, {"module." + k: v for k, v in half.items()}, ["behind 'module.'", word]), features(m, x), 1e-4)


def segmentation(x):
    m = shake(torchvision.models.segmentation.fcn_resnet50(weights=None, weights_backbone=None, aux_loss=True))
    with torch.no_grad():
        y = m.backbone(x)["out"].numpy()
    got = encode("fcn_resnet50", m.state_dict(), ["behind 'backbone.'", " of other parts: classifier.0.weight, "], 50, 8)
    r.near("fcn_resnet50", got, y, 1e-4)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    with open("encode.lua", "w", encoding="utf-8") as f:
        f.write(ENCODE)
    os.makedirs("data")
    images = np.random.default_rng(8).integers(0, 256, (1, 3, 64, 64), dtype=np.uint8)
    np.save("data/images.npy", images)
    np.save("data/labels.npy", np.zeros(1, np.int64))
    image = torch.from_numpy(images).float() / 255
    resnet(image)
    segmentation(image)
    os.chdir("/")
r.exit()
