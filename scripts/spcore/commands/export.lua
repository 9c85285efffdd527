-- SPDX-License-Identifier: MIT
-- spcore export: the network of a run, for other programs.
local args = require "spcore.args"
local core = require "spcore.core"
local files = require "spcore.files"
local graph = require "spcore.graph"
local json = require "spcore.json"
local predict = require "spcore.predict"
local sys = require "spcore.sys"

-- ---- the module ----

local head = [==[
# Made by spcore ${version} from ${run}.
"""${what}

load() gives the network with its weights, ready to predict; prepare() makes its input of an image. `python3 model.py IMAGE`
${does}."""
import json
import os
import struct
import sys

import torch
import torch.nn.functional as F
from torch import nn

SIZE = ${size}  # pixels of a side that the network has seen in training
CLASSES = ${classes}


def convs(c, out, count):
    """`count` times convolution, batch norm and ReLU."""
    layers = []
    for _ in range(count):
        layers += [nn.Conv2d(c, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU()]
        c = out
    return nn.Sequential(*layers)


class Encoder(nn.Module):
    def __init__(self, width=${width}, depth=${depth}, count=${convs}):
        super().__init__()
        self.levels = nn.ModuleList(convs(width << i - 1 if i else 3, width << i, count) for i in range(depth + 1))

    def forward(self, x):
        """The last map, and those before each halving, from full resolution on."""
        maps = []
        for level in self.levels[:-1]:
            maps.append(level(x))
            x = F.max_pool2d(maps[-1], 2)
        return self.levels[-1](x), maps
]==]

local seg = [==[


class Decoder(nn.Module):
    def __init__(self, width=${decoder_width}, depth=${depth}, count=${decoder_convs}, classes=len(CLASSES)):
        super().__init__()
        self.up = nn.ModuleList(nn.ConvTranspose2d(width << i + 1, width << i, 2, 2) for i in range(depth))
        self.levels = nn.ModuleList(convs(width << i + 1, width << i, count) for i in range(depth))
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x, maps):
        for i in reversed(range(len(maps))):
            x = self.levels[i](torch.cat([self.up[i](x), maps[i]], 1))
        return self.head(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.decoder = Decoder()

    def forward(self, x):
        """float32 N x 3 x H x W, H and W multiples of ${multiple}, to logits N x classes x H x W."""
        return self.decoder(*self.encoder(x))
]==]

local cls = [==[


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.classifier = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(${features}, len(CLASSES)))

    def forward(self, x):
        """float32 N x 3 x H x W, H and W multiples of ${multiple}, to logits N x classes."""
        return self.classifier(self.encoder(x)[0])
]==]

local common = [==[


def load(path=os.path.join(os.path.dirname(os.path.abspath(__file__)), "model.safetensors")):
    """The network with the weights of a safetensors file."""
    types = {"F32": torch.float32, "I64": torch.int64}
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = bytearray(f.read())
    weights = {}
    for name, t in header.items():
        if name != "__metadata__":
            n = 1
            for side in t["shape"]:
                n *= side
            flat = torch.frombuffer(data, dtype=types[t["dtype"]], count=n, offset=t["data_offsets"][0])
            weights[name] = flat.reshape(t["shape"])
    model = Model()
    model.load_state_dict(weights, strict=True)
    return model.eval()


def resize(x, size):
    """uint8 3 x H x W to 3 x size x size, bilinear with antialiasing."""
    y = F.interpolate(x[None].float(), size=(size, size), mode="bilinear", align_corners=False, antialias=True)[0]
    return y.round().clamp(0, 255).to(torch.uint8)


def read(path):
    """An image file as uint8 3 x H x W, upright."""
    from PIL import Image, ImageOps
    image = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
    x = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    return x.reshape(image.height, image.width, 3).permute(2, 0, 1)


def given():
    """The path on the command line and its image."""
    if len(sys.argv) != 2:
        print(f"usage: python3 {sys.argv[0]} IMAGE", file=sys.stderr)
        sys.exit(2)
    try:
        return sys.argv[1], read(sys.argv[1])
    except ImportError as why:
        sys.exit(f"{sys.argv[0]}: {why}")
    except Exception as why:  # Pillow has many for a file that is damaged, or no image
        sys.exit(f"{sys.argv[1]}: {getattr(why, 'strerror', None) or why}")
]==]

local seg_main = [==[


def prepare(x):
    """uint8 3 x H x W to what Model takes."""
    return ${prepared}[None]


def main(path, x):
    from PIL import Image
    with torch.no_grad():
        logits = load()(prepare(x))
    logits = F.interpolate(logits, size=x.shape[1:], mode="bilinear", align_corners=False)
    labels = logits[0].argmax(0).to(torch.uint8)
    for i, name in enumerate(CLASSES):
        print(f"{int((labels == i).sum()):9} pixels  {name}")
    to = os.path.splitext(os.path.basename(path))[0] + "_mask.png"
    Image.frombytes("L", (labels.shape[1], labels.shape[0]), bytes(labels.flatten().tolist())).save(to)
    print(to)


if __name__ == "__main__":
    main(*given())
]==]

local cls_main = [==[


def prepare(x):
    """uint8 3 x H x W to what Model takes."""
    x = resize(x, SIZE)
${crop}    return ((x.float() / 255 - 0.5) / 0.25)[None]


def main(x):
    with torch.no_grad():
        p = load()(prepare(x))[0].softmax(0)
    for i in p.argsort(descending=True).tolist():
        print(f"{p[i]:.4f}  {CLASSES[i]}")


if __name__ == "__main__":
    main(given()[1])
]==]

-- As the validation does it: the middle, at the size of training.
local crop = [==[
    x = x[:, (SIZE - ${crop}) // 2:, (SIZE - ${crop}) // 2:][:, :${crop}, :${crop}]
    x = resize(x, SIZE)
]==]

local function filled(text, values)
  return (text:gsub("%${([%w_]+)}", function(name) return tostring(values[name]) end))
end

local function module_of(model, run)
  local e, d = model.encoder, model.decoder
  local depth = e.levels or 3
  local values = {
    version = core.env().version, run = run:gsub("%c", "?"), size = model.size, width = e.width, depth = depth, convs = e.convs,
    multiple = 1 << depth, features = e.width << depth, crop = model.crop and filled(crop, { crop = model.crop }) or "",
    decoder_width = d and d.width, decoder_convs = d and d.convs,
    classes = json.encode(json.list(predict.class_names(model, d and d.classes or model.classes))),
    prepared = model.scale and "(resize(x, SIZE).float() / 255)" or "resize(x, SIZE).float()",
    what = d and "A U-Net that gives each pixel a class." or "A classifier: the encoder of a U-Net, the mean over its last map, a linear layer.",
    does = d and "writes the mask of an image, of its own size" or "prints the classes of an image, the most probable one first",
  }
  return filled(head .. (d and seg or cls) .. common .. (d and seg_main or cls_main), values)
end

-- ---- the run ----

local function check(model, run)
  if type(model.backbone) == "table" then
    args.usage("%s: only the small networks have a module here; its weights.safetensors has torchvision's names behind encoder. "
      .. "and the head's behind %s.", run, model.head and "decoder" or "classifier")
  end
  local e, d = model.encoder, model.decoder
  local fits = type(e) == "table" and e.model == "unet" and e.width and e.convs and math.type(model.size) == "integer" and
    (d and d.model == "unet" and d.width and d.convs and d.classes or not d and model.classes)
  if not fits then
    args.usage("%s/settings.json describes no U-Net; is it a run of train_seg.lua or train_cls.lua?", run)
  end
end

-- Every weight in its place, by the stages themselves, under the names that the module has.
local function save(model, weights, path)
  local g <close> = graph { device = "cpu" }
  local image = g.image_requests { size = { model.size, model.size }, batch = 1 }.image
  if model.decoder then predict.segment(g, image, model, weights) else predict.classify(g, image, model, weights) end
  g:save(path)
end

local opt = args.parse({
  torch = { "", "folder for model.py and model.safetensors" },
  best = { false, "take the weights of the run's best validation, best.safetensors, not the last ones" },
}, {
  rest = "RUN", only = { "debug" },
  doc = "Writes the network of a run of train_seg.lua or train_cls.lua as a PyTorch module with its weights. model.py needs "
    .. "PyTorch alone: load() gives the module, and python3 model.py IMAGE predicts an image, prepared as in training.",
})
if #opt.rest == 0 then args.usage "a run folder is wanted, such as runs/train_seg-1" end
if #opt.rest > 1 then args.usage("one run at a time, not also '%s'", opt.rest[2]) end
if opt.torch == "" then args.usage "--torch DIR is wanted: the folder to write to" end

local run, dir = opt.rest[1]:gsub("(.)/+$", "%1"), opt.torch:gsub("(.)/+$", "%1")
local model, weights = predict.run { weights = run, best = opt.best }
check(model, run)
for _, name in ipairs { "model.py", "model.safetensors" } do
  if sys.there(dir .. "/" .. name) then args.usage("%s/%s is there already; name another folder, or remove it", dir, name) end
end
files.make_parents(dir .. "/")
save(model, weights, dir .. "/model.safetensors")
files.write(dir .. "/model.py", module_of(model, run))
print(("%s: model.py, model.safetensors; try: python3 %s/model.py IMAGE"):format(dir, dir))
