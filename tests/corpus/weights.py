# SPDX-License-Identifier: MIT
# needs: onednn images
# once: words
"""Files of weights, and networks in files of their own: what they are is said before single tensors are."""

import io
import json
import os
import pickle
import struct
import zipfile

import numpy as np

from kit import case, main

SEG = "run train_seg.lua --data random --samples 8 --batch 2 --steps 1 --size 64 --device cpu --threads 1 --pictures 0 --out r "
CLS = "run train_cls.lua --data random --samples 8 --batch 2 --steps 1 --size 64 --device cpu --threads 1 --pictures 0 --out r "


def tensors(c, name, shapes, dtype=np.float32, meta=None):
    """Zeros by name and shape, as safetensors."""
    header, at = {"__metadata__": meta} if meta else {}, 0
    for key, shape in shapes.items():
        counted = key.endswith("num_batches_tracked")
        n = int(np.prod(shape)) * (8 if counted else 4)
        header[key] = {"dtype": "I64" if counted else "F32", "shape": list(shape), "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(header).encode()
    c.write(name, struct.pack("<Q", len(text)) + text + bytes(at))


def norm(shapes, name, n):
    shapes.update({f"{name}.{k}": (n,) for k in ("weight", "bias", "running_mean", "running_var")})
    shapes[f"{name}.num_batches_tracked"] = ()


def resnet(blocks, wide=1, fc=1000):
    s = {"conv1.weight": (64, 3, 7, 7)}
    norm(s, "bn1", 64)
    before = 64
    for i, n in enumerate(blocks):
        c = 64 << i
        for b in range(n):
            at = f"layer{i + 1}.{b}"
            sides = [(c, before, 1), (c, c, 3), (4 * c, c, 1)] if wide == 4 else [(c, before, 3), (c, c, 3)]
            for j, (o, k, side) in enumerate(sides):
                s[f"{at}.conv{j + 1}.weight"] = (o, k, side, side)
                norm(s, f"{at}.bn{j + 1}", o)
            if before != c * wide:
                s[f"{at}.downsample.0.weight"] = (c * wide, before, 1, 1)
                norm(s, f"{at}.downsample.1", c * wide)
            before = c * wide
    if fc:
        s.update({"fc.weight": (fc, before), "fc.bias": (fc,)})
    return s


def is_named(name, data, words):
    """A file with these bytes, called w.safetensors."""

    def f(c):
        c.write("w.safetensors", data() if callable(data) else data)
        r = c.run(SEG + "--backbone resnet18 --weights w.safetensors", 1, words)
        assert len(r.err.strip().splitlines()) == 1, r

    f.__name__, f.__doc__ = name, f"a file of weights that is {words}"
    return case(f)


def torch_zip():
    b = io.BytesIO()
    with zipfile.ZipFile(b, "w") as z:
        z.writestr("archive/data.pkl", b"\x80\x02}q\x00.")
        z.writestr("archive/data/0", bytes(400))
    return b.getvalue()


def plain_zip():
    b = io.BytesIO()
    with zipfile.ZipFile(b, "w") as z:
        z.writestr("readme.txt", "weights")
    return b.getvalue()


def numpy_file():
    b = io.BytesIO()
    np.save(b, np.zeros(4))
    return b.getvalue()


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 46807446\n"
is_named("lfs_pointer", LFS, "git lfs pull")
is_named("a_web_page", b"<!DOCTYPE html>\n<html><head><title>404</title></head></html>", "a page of the web (HTML)")
is_named("a_page_in_capitals", b"\n  <HTML><BODY>Access denied</BODY></HTML>", "a page of the web (HTML)")
is_named("nothing", b"", "w.safetensors: an empty file; get it again")
is_named("four_bytes", b"abcd", 'it is text: "abcd"')
is_named("four_other_bytes", b"\1\2\3\4", "too short: 4 bytes")
is_named("pth_of_today", torch_zip, "a file of PyTorch (a pickle), which is not read here")
is_named("pth_of_old", pickle.dumps({"a": 1}, 2), "spcore_convert.py FILE.pth -o NAME writes NAME.safetensors")
is_named("pickle_of_four", pickle.dumps([1, 2], 4), "a pickle")
is_named("zip_archive", plain_zip, "it is a zip archive; unpack it")
is_named("gzip", b"\x1f\x8b\x08" + bytes(60), "compressed by gzip")
is_named("hdf5", b"\x89HDF\r\n\x1a\n" + bytes(64), "an HDF5 file")
is_named("npy", numpy_file, "a NumPy array")
is_named("a_picture", b"\x89PNG\r\n\x1a\n" + bytes(64), "a PNG image")
is_named("a_pdf", b"%PDF-1.4\n" + bytes(64), "a PDF document")
is_named(
    "cut_in_the_header",
    struct.pack("<Q", 4096) + b'{"conv1.weight": {"dtype"',
    "truncated: the header needs 4104 bytes, the file has 33; get it again",
)
is_named("json_alone", b'{"error": "Repository not found, or you have no access to it"}', "w.safetensors: ")


@case
def cut_in_the_data(c):
    "a download that was cut short"
    tensors(c, "a.safetensors", resnet([2, 2, 2, 2]))
    c.write("w.safetensors", c.read("a.safetensors")[:100000])
    c.run(SEG + "--backbone resnet18 --weights w.safetensors", 1, ["truncated: tensor '", "get it again"])


@case
def no_such_file(c):
    "weights that are not there"
    c.run(SEG + "--backbone resnet18 --weights w.safetensors", 1, "w.safetensors: No such file")


@case
def of_a_deeper_network(c):
    "resnet34's weights for resnet18"
    tensors(c, "w.safetensors", resnet([3, 4, 6, 3]))
    c.run(
        SEG + "--backbone resnet18 --weights w.safetensors",
        2,
        "w.safetensors: the file is a resnet34: --backbone resnet34",
        ["ignore", "num_batches"],
    )


@case
def of_another_family(c):
    "resnet50's weights for resnet18, behind a prefix"
    tensors(c, "w.safetensors", {"module." + k: v for k, v in resnet([3, 4, 6, 3], 4).items()})
    c.run(CLS + "--probe --backbone resnet18 --weights w.safetensors", 2, "the file is a resnet50: --backbone resnet50")


@case
def of_a_shallower_network(c):
    "resnet18's weights for resnet34"
    tensors(c, "w.safetensors", resnet([2, 2, 2, 2], fc=5))
    c.cures(
        CLS + "--probe --backbone resnet34 --weights w.safetensors",
        "the file is a resnet18: --backbone resnet18",
        "--backbone resnet18",
        status=2,
    )


@case
def its_own(c):
    "resnet18's weights for resnet18, with another head"
    tensors(c, "w.safetensors", resnet([2, 2, 2, 2], fc=5))
    c.run(SEG + "--backbone resnet18 --weights w.safetensors", 0, "leaves out fc.weight, fc.bias")


@case
def counters_of_other_types(c):
    "batches that were counted, as float32, float16 and int32, as conversions of all tensors leave them; and what is no count"
    shapes = resnet([2, 2, 2, 2])
    head = SEG.replace("--out r", "").replace("--size 64", "--size 32")
    for how, (dtype, kind, value) in enumerate([("F32", np.float32, 7), ("F16", np.float16, 7), ("I32", np.int32, 7), ("F32", np.float32, 1.5)]):
        header, parts, at = {}, [], 0
        for key, shape in shapes.items():
            counted = key.endswith("num_batches_tracked")
            part = np.full(shape, value if counted else 0, kind if counted else np.float32).tobytes()
            header[key] = {"dtype": dtype if counted else "F32", "shape": list(shape), "data_offsets": [at, at + len(part)]}
            at += len(part)
            parts.append(part)
        text = json.dumps(header).encode()
        c.write(f"{how}.safetensors", struct.pack("<Q", len(text)) + text + b"".join(parts))
        go = f"{head} --backbone resnet18 --weights {how}.safetensors --out r{how}"
        if value == 7:
            c.run(go, lacks=["num_batches_tracked is", "become float32"])
            saved = c.read(f"r{how}/weights.safetensors")
            n = struct.unpack("<Q", saved[:8])[0]
            at = next(v for k, v in json.loads(saved[8:8 + n]).items() if k.endswith("bn1.num_batches_tracked"))
            assert at["dtype"] == "I64" and struct.unpack("<q", saved[8 + n + at["data_offsets"][0]:][:8])[0] == 7, at
        else:
            c.run(go, 1, says="num_batches_tracked' counts batches and holds 1.5, where a whole number of at least 0 is wanted; leave this entry out")


@case
def of_nobody_that_is_known(c):
    "a ResNet with more blocks than any that is known: values first, and no advice that the script does not take"
    tensors(c, "w.safetensors", resnet([2, 3, 2, 2]))
    c.run(
        SEG + "--backbone resnet18 --weights w.safetensors",
        1,
        ["12 unexpected: layer2.2.conv1.weight, ", "--weights takes a file of this network alone"],
        ["ignore", "weights = {", "num_batches_tracked"],
    )


@case
def of_an_unknown_wrapper(c):
    "all names are behind a word that nobody knows"
    tensors(c, "w.safetensors", {"student." + k: v for k, v in resnet([2, 2, 2, 2], fc=0).items()})
    c.run(
        SEG + "--backbone resnet18 --weights w.safetensors",
        1,
        "all are there behind 'student.', which --weights does not know: save them without it",
        "weights = {",
    )


@case
def advice_for_a_script(c):
    "the same in a script of one's own, where `weights` takes a prefix"
    tensors(c, "w.safetensors", {"student." + k: v for k, v in resnet([2, 2, 2, 2], fc=0).items()})
    c.write(
        "s.lua",
        """local sp = require "spcore"
local g <close> = sp.graph { device = "cpu" }
local x = g.reader { path = "random", size = 64, batch = 1, samples = 1 }.image
g.encoder { g.to_float { x, scale = true }, layers = sp.models.resnet { 18 }, weights = "w.safetensors", frozen = true }
for _ in g:steps(1) do end
""",
    )
    c.run("run s.lua", 1, 'weights = { FILE, prefix = "student." }')


@case
def in_the_names_of_another_variant(c):
    "timm's MobileNetV3 for torchvision's"
    c.write(
        "s.lua",
        """local sp = require "spcore"
local g <close> = sp.graph { device = "cpu" }
local x = g.reader { path = "random", size = 64, batch = 1, samples = 1 }.image
local list = sp.models.get("mobilenet_v3_small", { variant = "timm_lamb" })
g.encoder { g.to_float { x, scale = true }, layers = list }
g:save "ours.safetensors"
local f = assert(io.open("names.json", "w"))
f:write(sp.json.encode(list.names.timm))
f:close()
""",
    )
    c.run("run s.lua")
    data, names = c.read("ours.safetensors"), json.loads(c.read("names.json"))
    n = struct.unpack("<Q", data[:8])[0]
    header, renamed = json.loads(data[8 : 8 + n]), {}
    for name, t in header.items():
        name = name.removeprefix("encoder.")
        best = max((o for o in names if name == o or name.startswith(o + ".")), key=len, default=None)
        if name != "__metadata__":
            renamed[names[best] + name[len(best) :] if best else name] = t
    text = json.dumps(renamed).encode()
    c.write("w.safetensors", struct.pack("<Q", len(text)) + text + data[8 + n :])
    r = c.cures(
        CLS + "--probe --backbone mobilenet_v3_small --weights w.safetensors",
        "w.safetensors: names of timm: --variant timm_lamb",
        "--variant timm_lamb",
        status=2,
    )
    assert "missing" not in r.text and "unexpected" not in r.text
    c.run(
        CLS.replace("--out r", "--out s") + "--probe --backbone mobilenet_v3_large --weights w.safetensors",
        2,
        "the file is a mobilenet_v3_small: --backbone mobilenet_v3_small --variant timm_lamb",
    )


NET = """return {
  { "conv", 4, kernel = 3, stride = 2, pad = 1, name = "a" }, { "relu", name = "ra" },
  { "conv", 6, kernel = 3, stride = 2, pad = 1, name = "b" }, { "relu", name = "rb" },
  { "conv", 6, kernel = 3, stride = 2, pad = 1, name = "c" }, { "relu", name = "rc" },
  { "conv", 6, kernel = 3, stride = 2, pad = 1, name = "d" }, { "relu", name = "rd" },
  { "conv", 8, kernel = 3, stride = 2, pad = 1, name = "e" }, { "relu", name = "re" },
  { "mean", name = "m" }, { "flatten", name = "f" }, { "linear", 9, name = "fc" },
%s}
"""
TAPS = '  taps = { "ra", "rb", "rc", "rd" },\n'
HOW = '  preprocess = { mean = { 0.5, 0.5, 0.5 }, std = { 0.25, 0.25, 0.25 }, size = 64, crop = 64, interpolation = "bicubic" },\n'


def net(c, more=TAPS + HOW, name="n"):
    c.write(name + ".lua", NET % more)
    shapes, before = {}, 3
    for layer, o in zip("abcde", (4, 6, 6, 6, 8)):
        shapes.update({f"{layer}.weight": (o, before, 3, 3), f"{layer}.bias": (o,)})
        before = o
    shapes.update({"fc.weight": (9, 8), "fc.bias": (9,)})
    tensors(c, name + ".safetensors", shapes)


@case
def file_behind_a_unet(c):
    "a converted network as the backbone of a U-Net, its predictions without the file, and a run that goes on"
    net(c)
    c.image("p/0.png", 64)
    c.run(
        SEG.replace("--steps 1", "--steps 2 --checkpoint-every 1") + "--backbone n.lua",
        0,
        ["--weights n.safetensors, which is beside n.lua", "leaves out fc.weight, fc.bias"],
    )
    os.remove(c.path("n.lua"))
    c.run("run predict_seg.lua --weights r --out masks p --device cpu")


@case
def file_behind_other_heads(c):
    "the same behind fcn, deeplabv3 and fpn"
    net(c)
    for head in ("fcn", "fpn"):
        c.run(SEG.replace("--out r", f"--out {head}") + f"--backbone n.lua --model {head}")


@case
def file_of_a_classifier(c):
    "a converted network behind which classes are trained, and predictions"
    net(c)
    c.image("p/0.png", 64)
    c.run(CLS + "--probe --backbone n.lua", 0, "leaves out fc.weight, fc.bias")
    c.run("run predict_cls.lua --weights r --out c.csv p --device cpu")


@case
def file_says_no_preprocessing(c):
    "a file that does not say how images are prepared: what is taken is said"
    net(c, TAPS)
    c.run(
        CLS + "--probe --backbone n.lua",
        0,
        "n.lua does not say how its images are prepared; they are as torchvision's: mean 0.485",
    )


@case
def file_without_taps(c):
    "a file whose taps are not what a U-Net reads"
    net(c, HOW + '  taps = { "ra", "rb" },\n')
    c.run(
        SEG + "--backbone n.lua",
        1,
        ["n.lua gives no map of 1/8 of the image, which --model unet reads", "take --model fcn"],
    )
    c.run(SEG + "--backbone n.lua --model fcn", 0)
    c.write("o.lua", """return { { "conv", 4, kernel = 4, stride = 4 }, { "relu" }, %s }""" % HOW.rstrip(",\n"))
    c.run(SEG + "--backbone o.lua --train-encoder --explain", 1, ["o.lua gives no map of 1/2 of the image", "take --model fcn"])
    c.run(SEG + "--backbone o.lua --train-encoder --explain --model fcn")


@case
def file_is_not_there(c):
    "a file that is not there, is empty, is no Lua, gives nothing, or calls a function"
    c.run(SEG + "--backbone n.lua", 1, "n.lua: No such file")
    for text, words in (
        ("", "n.lua: an empty file"),
        ("return {", "n.lua: line 1: "),
        ("local x = 1", "n.lua: gives no list of layers"),
        ("return 5", "gives no list of layers"),
        ("return { 5 }", "n.lua: layer 1 is no { "),
        ("return os.exit()", "n.lua: it calls or computes something"),
        ('return { { "relu" }, preprocess = { mean = 5 } }', "n.lua: preprocess.mean is a number"),
        ('return { { "relu" }, preprocess = 5 }', "n.lua: preprocess.mean is a boolean"),
    ):
        c.write("n.lua", text)
        c.run(SEG + "--backbone n.lua --weights n.lua", 1, words)


@case
def network_of_others(c):
    "networks and weights that are converted first"
    net(c)
    c.cures(
        SEG + "--backbone net.onnx",
        "--backbone net.onnx: is converted first, by spcore_convert.py net.onnx -o NAME; then it is --backbone NAME.lua",
        ("--backbone NAME.lua", "--backbone n.lua"),
        status=2,
    )
    c.run(SEG + "--backbone net.py:make", 2, "by spcore_convert.py net.py:make -o NAME")
    for name in ("w.pth", "w.pt", "w.bin"):
        c.write(name, torch_zip())
        c.run(
            SEG + f"--backbone resnet18 --weights {name}",
            1,
            f"{name}: a file of PyTorch (a pickle), which is not read here: spcore_convert.py {name} -o NAME writes NAME.safetensors",
        )
    c.write("w.onnx", b"\x08\x07")
    c.run(
        SEG + "--backbone resnet18 --weights w.onnx",
        1,
        "w.onnx: a network of ONNX: spcore_convert.py w.onnx -o NAME makes",
    )


@case
def file_with_options_of_others(c):
    "options that are for known networks"
    net(c)
    c.run(SEG + "--backbone n.lua --variant timm_a1", 2, "--variant: is for known networks; n.lua says itself")
    c.run(
        SEG + "--backbone n.lua --model fcn --output-stride 8",
        2,
        "--output-stride: is for known networks; n.lua has the one",
    )


@case
def file_without_weights(c):
    "a frozen network without weights"
    net(c)
    c.write("o.lua", c.read("n.lua"))
    c.run(
        SEG + "--backbone o.lua",
        2,
        "--backbone o.lua: frozen, with random weights, it is of no use; give --weights FILE",
    )
    c.cures(
        SEG + "--backbone n.lua --train-encoder --explain",
        "n.lua begins with random weights; --weights n.safetensors has those",
        "--weights n.safetensors",
        status=0,
    )


@case
def file_in_the_settings(c):
    "a run keeps the network that it began with, whatever is in the file later"
    net(c)
    c.run(SEG + "--backbone n.lua --model fcn")
    told = json.loads(c.read("r/settings.json"))["model"]["backbone"]
    assert told["name"] == "n.lua" and told["list"].startswith("return {") and told["mean"] == [0.5, 0.5, 0.5], told


@case
def of_several_files(c):
    "the index of a set of files, and a folder, in place of weights"
    go = CLS + "--probe --backbone resnet18 --weights "
    c.write("w/model.safetensors.index.json", "{}")
    c.run(go + "w/model.safetensors.index.json", 1, "the list of a set's files, which are read as one: in Python save_file(")
    c.run(go + "w", 1, "w: a folder without weights.safetensors, so it is that of no run that has ended; name the file")


if __name__ == "__main__":
    main()
