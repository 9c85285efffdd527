-- SPDX-License-Identifier: MIT
-- A network as a PyTorch module, model.py: its layers by name, what it computes line by line, how its images are prepared.
local json = require "spcore.json"

local torch = {}

local head = [==[
# Made by spcore ${version} from ${run}.
"""${what}

load() gives the network with its weights, ready to predict${does}."""
import json
import os
import struct
${imports}
import torch
import torch.nn.functional as F
from torch import nn

${constants}


class Part(nn.Module):
    """Modules by name: part["a.b"] is b of the Part a."""

    def add(self, name, module):
        first, _, rest = name.partition(".")
        if not rest:
            self._modules[first] = module
        else:
            self._modules.setdefault(first, Part()).add(rest, module)

    def __getitem__(self, name):
        first, _, rest = name.partition(".")
        return self._modules[first][rest] if rest else self._modules[first]


class Model(Part):
    def __init__(self):
        super().__init__()
${modules}

    def forward(self, image):
        """${reads}, to ${gives}."""
${lines}
]==]

local load = [==[


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
]==]

-- ---- images ----

local resize = [==[


def resize(x, height, width, mode="bilinear", antialias=True):
    """A picture of that size; bytes stay bytes, and bicubic ones are rounded along x first, as Pillow does it."""
    apart = mode == "bicubic" and not x.is_floating_point()
    for size in [(x.shape[1], width), (height, width)] if apart else [(height, width)]:
        y = F.interpolate(x[None].float(), size=size, mode=mode, align_corners=False, antialias=antialias)[0]
        x = y if x.is_floating_point() else y.round().clamp(0, 255).to(torch.uint8)
    return x
]==]

local middle = [==[


def middle(x, height, width):
    """That much of the middle."""
    top, left = round((x.shape[1] - height) / 2), round((x.shape[2] - width) / 2)
    return x[:, top:top + height, left:left + width]
]==]

local fitted = {}

fitted.shorter = [==[


def fit(x, side, height, width, mode="bilinear"):
    """The shorter side becomes `side` pixels, and the middle of that is cut out."""
    h, w = x.shape[1:]
    x = resize(x, max(side, side * h // w), max(side, side * w // h), mode)
    return middle(x, height, width)
]==]

local share = [==[


def share(a, b, c, most):
    """a * b / c, rounded, halves up."""
    return max(1, min(most, (a * b * 2 + c) // (c * 2)))
]==]

fitted.crop = share .. [==[


def fit(x, height, width, mode="bilinear"):
    """The largest part of that shape, from the middle, in that size."""
    h, w = x.shape[1:]
    if w * height > h * width:
        side = share(h, width, height, w)
        x = x[:, :, (w - side) // 2:][:, :, :side]
    else:
        side = share(w, height, width, h)
        x = x[:, (h - side) // 2:][:, :side]
    return resize(x, height, width, mode)
]==]

fitted.pad = share .. [==[


def fit(x, height, width, mode="bilinear"):
    """All of it, in its shape, on black."""
    h, w = x.shape[1:]
    to_h, to_w = height, width
    if w * height > h * width:
        to_h = share(width, h, w, height)
    else:
        to_w = share(height, w, h, width)
    y = x.new_zeros(x.shape[0], height, width)
    top, left = (height - to_h) // 2, (width - to_w) // 2
    y[:, top:top + to_h, left:left + to_w] = resize(x, to_h, to_w, mode)
    return y
]==]

local read = [==[


def read(path):
    """An image file as uint8 ${channels} x H x W${upright}."""
    from PIL import Image, ImageOps
    image = ${opened}.convert("${mode}")
    x = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    return x.reshape(image.height, image.width, ${channels}).permute(2, 0, 1)
]==]

local given = [==[


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

local read_numbers = [==[


def read(path):
    """An image file's numbers as float32 ${channels} x H x W: .npy by NumPy, others by tifffile${pillow}."""
    import numpy
    if path.lower().endswith(".npy"):
        a = numpy.load(path)
    elif path.lower().endswith((".tif", ".tiff")):
        import tifffile
        a = tifffile.imread(path)
        page = tifffile.TiffFile(path).pages[0]
        if a.ndim == 3 and page.planarconfig == 2:
            a = a.transpose(1, 2, 0)
${tag}    else:
        from PIL import Image
        a = numpy.asarray(Image.open(path))
    a = a[..., None] if a.ndim == 2 else a
    if a.shape[2] != ${channels}:
        a = a.transpose(1, 2, 0) if a.shape[0] == ${channels} else a[:, :, :${channels}]
    if a.shape[2] != ${channels}:
        raise ValueError(f"it has {a.shape[2]} channels, and ${channels} are wanted")
    a = a.astype(numpy.float32)
    a[~numpy.isfinite(a)${nodata}] = ${fill}
    return torch.from_numpy(a).permute(2, 0, 1)
]==]

local prepare = [==[


def prepare(x):
    """${taken} ${channels} x H x W to what Model takes."""
${steps}
    return x[None]
]==]

local main = {}

main.mask = [==[


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
]==]

main.class = [==[


def main(_, x):
    with torch.no_grad():
        p = load()(prepare(x))[0].softmax(0)
    for i in p.argsort(descending=True).tolist():
        print(f"{p[i]:.4f}  {CLASSES[i]}")
]==]

main.labels = main.class:gsub("softmax%(0%)", "sigmoid()")

main.numbers = [==[


def main(_, x):
    with torch.no_grad():
        results = load()(prepare(x))
    for y in results if isinstance(results, tuple) else (results,):
        print(*y.flatten().tolist() if y.dim() == 2 else (f"{list(y.shape)}, {y.min():g} to {y.max():g}, mean {y.mean():g}",))
]==]

local called = [==[


if __name__ == "__main__":
    main(*given())
]==]

local does = {
  mask = "writes the mask of an image, of its own size", class = "prints the classes of an image, the most probable one first",
  labels = "prints the labels of an image, the most probable one first", numbers = "prints what the network makes of an image",
}

-- ---- the text ----

local function filled(text, values)
  return (text:gsub("%${([%w_]+)}", function(name) return tostring(values[name]) end))
end

-- "name = value" or a list in brackets, over several lines where it is long.
local function constant(name, list)
  local line = ("%s = %s"):format(name, json.encode(json.list(list)))
  if #line <= 120 then return line end
  local lines, at = { name .. " = [" }, "   "
  for _, v in ipairs(list) do
    local item = " " .. json.encode(v) .. ","
    if #at + #item > 120 and #at > 3 then lines[#lines + 1], at = at, "   " end
    at = at .. item
  end
  lines[#lines + 1], lines[#lines + 2] = at, "]"
  return table.concat(lines, "\n")
end

local function step_lines(image)
  local lines, read_as, uses = {}, image.read, {}
  local function mode(name) return name == "bicubic" and ', "bicubic"' or "" end
  local function line(fmt, ...) lines[#lines + 1] = "    " .. fmt:format(...) end
  local function tensor(list)
    return #list == 1 and json.encode(list[1]) or ("torch.tensor(%s).view(-1, 1, 1)"):format(json.encode(json.list(list)))
  end
  local size = read_as.size
  if read_as.shorter > 0 then
    uses.fit = "shorter"
    line("x = fit(x, %d, %d, %d%s)", read_as.shorter, size[1], size[2], mode(read_as.interpolation))
  elseif read_as.resize ~= "squash" then
    uses.fit = read_as.resize
    line("x = fit(x, %d, %d%s)", size[1], size[2], mode(read_as.interpolation))
  else
    line("x = resize(x, %d, %d%s)", size[1], size[2], mode(read_as.interpolation))
  end
  local kept = read_as.numbers
  if kept and kept.dtype == "uint8" then line "x = x.round().clamp(0, 255)" end
  if kept and kept.dtype == "uint16" then line "x = x.round().clamp(0, 65535)" end
  if kept and kept.lo then line("x = (x - %.9g) / (%.9g - %.9g)", kept.lo, kept.hi, kept.lo) end
  for _, step in ipairs(image.steps) do
    if step.op == "resize" then
      line("x = resize(x, %d, %d%s%s)", step.size[1], step.size[2], mode(step.interpolation),
        step.antialias and "" or ", antialias=False")
    elseif step.op == "crop" then
      uses.middle = true
      line("x = middle(x, %d, %d)", step.size[1], step.size[2])
    elseif step.op == "float" then
      line("x = x.float()%s", step.scale and " / 255" or "")
    else
      line("x = (x.float()%s - %s) / %s", step.scale and " / 255" or "", tensor(step.mean), tensor(step.std))
    end
  end
  return table.concat(lines, "\n"), uses
end

-- Every value in a variable: x where the next line alone reads it.
local function variables(net)
  local readers, names, taken = {}, {}, { x = true, image = true, F = true, nn = true, torch = true, self = true, json = true, os = true,
    struct = true, sys = true }
  for i, op in ipairs(net.ops) do
    for _, v in ipairs(op.reads) do readers[v.id] = (not readers[v.id] or readers[v.id] == i) and i or 0 end
  end
  for _, out in ipairs(net.outputs) do
    readers[out.value.id] = #net.outputs == 1 and not readers[out.value.id] and #net.ops + 1 or 0
  end
  for i, op in ipairs(net.ops) do
    local name = "x"
    if readers[op.out.id] ~= i + 1 then
      name = op.name:gsub("[^%w_]", "_"):gsub("^%d", "_%0")
      while taken[name] do name = name .. "_" end
      taken[name] = true
    end
    names[op.out.id] = name
  end
  names[net.input.id] = "image"
  return names
end

local function body(net)
  local modules, lines, names = {}, {}, variables(net)
  for _, op in ipairs(net.ops) do
    local x = {}
    for i, v in ipairs(op.reads) do x[i] = names[v.id] end
    if op.row.module then modules[#modules + 1] = ('        self.add("%s", %s)'):format(op.name, op.row.module(op.l, op.reads)) end
    local call = op.row.call(op.l, op.reads, x, ('self["%s"]'):format(op.name))
    if call ~= names[op.out.id] then lines[#lines + 1] = ("        %s = %s"):format(names[op.out.id], call) end
  end
  local results = {}
  for i, out in ipairs(net.outputs) do results[i] = names[out.value.id] end
  lines[#lines + 1] = "        return " .. table.concat(results, ", ")
  return table.concat(modules, "\n"), table.concat(lines, "\n")
end

-- "N x 3 x H x W, H and W multiples of 8"
local function reads(net)
  local v, m = net.input, net.multiple
  if v.flat then return ("float32 N x %d"):format(v.c) end
  if not m then return ("float32 N x %d x %d x %d"):format(v.c, v.h, v.w) end
  return ("float32 N x %d x H x W%s"):format(v.c, m > 1 and (", H and W multiples of %d"):format(m) or "")
end

local function gives(net)
  local list = {}
  for i, out in ipairs(net.outputs) do
    local v = out.value
    list[i] = ("%s N x %d%s"):format(out.name, v.c, v.flat and "" or out.side == "same" and " x H x W" or
      out.side == "fixed" and (" x %d x %d"):format(v.h, v.w) or ", a map of another size")
  end
  return table.concat(list, ", ")
end

local modes = { [1] = "L", [3] = "RGB", [4] = "RGBA" }

-- Does model.py read files of images?
function torch.reads_files(net)
  return not net.input.flat and (net.image.read.numbers ~= nil or net.image.of_bytes and modes[net.input.c] ~= nil)
end

-- module(net, about) -> the text: about = { version =, run =, task = "mask", "class", "labels" or "numbers",
-- classes = { NAME, ... } or nil, dir = }
function torch.module(net, about)
  local image, v = net.image, net.input
  local kept = image.read.numbers
  local mode = torch.reads_files(net) and (modes[v.c] or "")
  local steps, uses
  if mode then steps, uses = step_lines(image) end
  local modules, lines = body(net)
  local constants = {}
  if not v.flat then
    constants[1] = v.h == v.w and ("SIZE = %d  # pixels of a side that the network has seen in training"):format(v.h)
      or ("SIZE = (%d, %d)  # height and width that the network has seen in training"):format(v.h, v.w)
  end
  if about.classes then constants[#constants + 1] = constant("CLASSES", about.classes) end
  local values = {
    version = about.version, run = about.run:gsub("%c", "?"), what = about.what, constants = table.concat(constants, "\n"),
    imports = mode and "import sys\n" or "", modules = modules, lines = lines, reads = reads(net), gives = gives(net),
    channels = v.c, mode = mode, upright = image.read.orient and ", upright" or "",
    opened = image.read.orient and "ImageOps.exif_transpose(Image.open(path))" or "Image.open(path)",
    taken = kept and "float32" or "uint8", pillow = " or Pillow", fill = kept and ("%.9g"):format(kept.fill),
    tag = kept and kept.nodata == "tag" and "        tag = page.tags.get(42113)  # GDAL's number for no data\n" ..
      "        a = numpy.where(a == float(tag.value), numpy.nan, a) if tag else a\n" or "",
    nodata = kept and tonumber(kept.nodata) and (" | (a == numpy.float32(%.9g))"):format(tonumber(kept.nodata)) or "",
    steps = steps, does = mode and ("; prepare() makes its input of an image.\n`python3 model.py IMAGE` %s"):format(does[about.task]) or "",
  }
  local text = { head, load }
  if mode then
    text[3] = resize
    text[#text + 1] = (uses.middle or uses.fit == "shorter") and middle or nil
    text[#text + 1] = fitted[uses.fit]
    table.move({ kept and read_numbers or read, given, prepare, main[about.task], called }, 1, 5, #text + 1, text)
  end
  return filled(table.concat(text), values)
end

return torch
