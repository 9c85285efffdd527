# SPDX-License-Identifier: MIT
# needs: onednn images jansson
# needs no torch
"""spcore export: what is no network for other programs is refused in one line; what is written says what was guessed."""
import json
import os
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from kit import case, main

RUN = "run train_seg.lua --train-encoder --width 2 --levels 1 --size 8 --samples 16 --steps 1 --pictures 0 --quiet --out r"
OWN = """
local sp = require "spcore"
local opt = sp.args {}
local g <close> = sp.graph(opt)
local data = g.reader { path = "shapes", split = "train", samples = 16, size = 8, batch = 4%s }
%s
local run <close> = sp.run { graph = g, opt = opt, steps = 1, classes = data.class_names }
for step, m in g:steps(1) do run:step(step, m) end
run:finish()
"""


def own(c, body, reader=""):
    c.write("own.lua", OWN % (reader, body))
    c.run("run own.lua --quiet --out r")


def tensors(c, name, shapes):
    header, at = {}, 0
    for key, shape in shapes.items():
        size = 4
        for n in shape:
            size *= n
        header[key] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    c.write(name, struct.pack("<Q", len(text)) + text + bytes(at))


@case
def nothing_named(c):
    "no run, two runs, nowhere to write to"
    c.run("export", 2, ["a run folder is wanted", "resnet50"])
    c.run("export a b --onnx x", 2, "one run at a time")
    c.run("export a", 2, "--torch DIR or --onnx FILE is wanted")
    c.run("export resnet5 --onnx x", 2, ["resnet5/settings.json", "resnet50"])
    c.run("export a --torch x --with-preprocessing", 2, "--with-preprocessing: goes with --onnx FILE")


@case
def no_weights(c):
    "a known network without its file, with another's, with one that is damaged"
    c.run("export resnet18 --onnx x", 2, "--weights FILE is wanted")
    c.run("export resnet18 --onnx x --weights none", 2, "--weights none: there is no such file")
    c.write("t.safetensors", b"\x08")
    c.run("export resnet18 --onnx x --weights t.safetensors", 1, "t.safetensors")
    c.run("export resnet18 --onnx x --weights t.safetensors --variant nosuch", 1, "there is no variant 'nosuch'")
    assert not os.path.exists(os.path.join(c.folder, "x"))


@case
def a_list(c):
    "Lua files that return no list, no layers, or those of other weights"
    c.write("a.lua", "return 3")
    c.run("export a.lua --onnx x", 2, "a.lua: --weights FILE is wanted")
    tensors(c, "a.safetensors", {"a.weight": [4, 3, 3, 3], "a.bias": [4]})
    for text, says in (("return 3", "no list of layers"), ("return {", "a.lua: line 1:"), ("error 'no'", "data alone"), ("", "empty")):
        c.write("a.lua", text)
        c.run("export a.lua --onnx x", 1, ["a.lua", says])
    c.write("a.lua", 'return { { "conv", 5, name = "a" } }')
    c.run("export a.lua --onnx x", 1, ["a.weight", "wanted float32[5,3,3,3]"])
    c.write("a.lua", 'return { { "conv", 4, name = "a" } }')
    c.run("export a.lua --onnx x", 0, ["does not say how its images are prepared", "x: 2 nodes"])
    c.run("export a.lua --onnx y --variant v", 2, "--variant: is for a network by name")
    c.write("b.lua", 'return { preprocess = { size = 9, crop = 8, mean = { 0, 0, 0 }, std = { 1, 1, 1 }, interpolation = "bicubic" }, '
            '{ "conv", 4, name = "a" } }')
    c.run("export b.lua --onnx y --weights a.safetensors --with-preprocessing", 0, "takes uint8 N x H x W x 3", lacks=["does not say"])


@case
def a_run(c):
    "what is there stays; options of others; files that are gone or damaged"
    c.run(RUN)
    c.run("export r --onnx x --torch t", 0, ["x: ", "multiples of 2", "t: model.py"])
    c.run("export r --onnx x", 2, "x is there already")
    c.run("export r --torch t", 2, "t/model.py is there already")
    c.run("export r --onnx none/of/these/x --weights w", 2, "--weights: is for a network by name")
    c.run("export r --onnx r/settings.json/x", 1, "r/settings.json")
    good = c.read("r/network.json")
    for text in (b"", b"{", b"3", b"{}", b'{"stages":[3],"outputs":[{"from":{"stage":"a"}}]}', b'{"stages":[],"outputs":[]}',
                 b'{"stages":[{"name":"a","stage":"b"}],"outputs":[{"from":3}]}'):
        c.write("r/network.json", text)
        c.run("export r --onnx y", 2, "r/network.json")
    c.write("r/network.json", good.replace(b'"stage":"encoder"}', b'"stage":"attention"}'))
    c.run("export r --onnx y", 1, "attention")
    c.write("r/network.json", good.replace(b'"classes":6', b'"classes":7'))
    c.run("export r --onnx y", 1, "'decoder.head.weight' is 6 x 2 x 1 x 1, but 7 x 2 x 1 x 1 is wanted")
    c.write("r/network.json", good)
    c.write("r/weights.safetensors", c.read("r/weights.safetensors")[:-4])
    c.run("export r --onnx y", 1, "r/weights.safetensors: it has become shorter")
    assert not os.path.exists(os.path.join(c.folder, "y"))


@case
def own_scripts(c):
    "networks of one's own: what has no form elsewhere is named; what is drawn in predictions, too"
    train = "g:train { g.cross_entropy { n.logits, data.mask }, optimizer = g.sgd { lr = 0.01 } }"
    layers = 'layers = { { "conv", 6, pad = 1 } }, classes = data.classes }'
    own(c, f"local n = g.decoder {{ g.to_float {{ data.image }}, {layers}\n{train}")
    c.run("export r --onnx x", 0, "x: 2 nodes")
    own_two = "local x = g.normalize { g.flip { data.image, always = true }.images, mean = 0 }.images\n"
    c.write("own.lua", OWN % ("", f"{own_two}local n = g.decoder {{ x, {layers}\n{train}"))
    c.run("run own.lua --quiet --out drawn")
    c.run("export drawn --onnx y", 1, "stage 'flip': always = true")


@case
def nothing_trained(c):
    "a script that trains nothing records no network"
    own(c, "local n = g.decoder { g.to_float { data.image }, layers = { { 'conv', 6, pad = 1 } }, classes = data.classes }\ng.confusion { n.logits, data.mask }")
    c.run("export r --onnx x", 2, ["r has no network.json", "g:train{}"])


main()
