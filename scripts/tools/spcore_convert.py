#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Turns a network of PyTorch or ONNX into a list of layers for spcore and a file with its weights.

MODEL is FILE.onnx, or FILE.py:NAME or PACKAGE.MODULE:NAME, where NAME is a torch.nn.Module or a function that makes one
without arguments. torch.fx traces it as it is in evaluation, so its forward may not branch on values. Written are OUT.lua
and OUT.safetensors, for

  spcore run train_seg.lua --data DIR --backbone OUT.lua
  local net = g.encoder { image, layers = sp.models.file "OUT.lua", weights = "OUT.safetensors" }

Layers have the names of the modules that they come from, so that a state_dict of the network, as safetensors, fits as well (not
where ONNX has folded batch norms into convolutions). What cannot be expressed is refused: first what is missing and how often,
with --verbose each node. A size that the network states or computes is that for an --input of this size.

MODEL may also be a file of weights, FILE.pth, .pt, .bin or .ckpt: its tensors are written as OUT.safetensors. It is read without
running what is in it (weights_only).
"""

import argparse
import importlib.util
import os
import re
import sys

sys.dont_write_bytecode = True  # where this is installed is not ours to write
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from spconvert import bytes_of, check, pickles, verdict  # noqa: E402
from spconvert.trace import BATCH  # noqa: E402

PICKLES = (".pth", ".pt", ".bin", ".ckpt", ".tar")


def demand(*packages):
    """Ends with a line that names the package which is not there."""
    for name in packages:
        if importlib.util.find_spec(name) is None:
            sys.exit(f"spcore_convert.py: the Python package {name} is missing: python3 -m pip install {name}")


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", metavar="MODEL")
    p.add_argument("-o", "--out", required=True, help="OUT.lua and OUT.safetensors are written")
    p.add_argument(
        "--input", metavar="CxHxW", help="what the network gets, default 3x224x224, or what an ONNX file says"
    )
    p.add_argument(
        "--tap",
        action="append",
        default=[],
        metavar="NAME",
        help="a module, a layer, or a value of ONNX, whose "
        "result becomes one of `maps`, which are in the order of the network; may be given several times",
    )
    p.add_argument("--output", metavar="NAME", help="a value of ONNX that is the result, in place of what the file gives out")
    p.add_argument(
        "--check",
        action="store_true",
        help="runs spcore on images of noise, and PyTorch or, of ONNX, the reference "
        "evaluator of onnx or ONNX Runtime, and compares",
    )
    p.add_argument("--verbose", action="store_true", help="lists each node that cannot be expressed")
    opt = p.parse_args()
    if opt.input and not re.fullmatch(r"[1-9]\d*x[1-9]\d*x[1-9]\d*", opt.input):
        p.error(f"--input {opt.input}: such as 3x224x224 is wanted")
    if os.path.basename(opt.out) in ("", ".", ".."):
        p.error(f"-o '{opt.out}': the name of what is written, without .lua, is wanted")
    opt.out = re.sub(r"\.(lua|safetensors)$", "", opt.out)
    opt.weights = ":" not in os.path.basename(opt.model) and opt.model.lower().endswith(PICKLES)
    opt.onnx = opt.model.lower().endswith(".onnx")
    if not opt.onnx and not opt.weights and ":" not in opt.model:
        what = ".py" if opt.model.endswith(".py") else ""
        p.error(
            f"{opt.model}: "
            + (
                "the name of the network in it is wanted, as FILE.py:NAME"
                if what
                else "FILE.py:NAME, MODULE:NAME, FILE.onnx or FILE.pth is wanted"
            )
        )
    if opt.output and not opt.onnx:
        p.error(f"{opt.model}: --output names a value of an ONNX file: of PyTorch name the module that gives the result")
    if opt.weights and (opt.tap or opt.check or opt.input):
        p.error(f"{opt.model}: of a file of weights there is no network, so --tap, --check and --input say nothing")
    return opt


def main():
    opt = options()
    demand("numpy", "onnx" if opt.onnx else "torch")
    if opt.weights or opt.onnx:
        bytes_of.demand(opt.model, "onnx" if opt.onnx else "pickle")
    if opt.weights:
        pickles.convert(opt.model, opt.out)
        return
    shape = tuple(map(int, opt.input.split("x"))) if opt.input else None
    if opt.onnx:
        from spconvert.onnx_net import Onnx

        network = Onnx(opt.model, shape, opt.output, opt.tap)
    else:
        from spconvert.torch_net import Torch

        network = Torch(opt.model, shape or (3, 224, 224))
    net, (out, taps) = network.net, network.finish(opt.tap)
    if not net.problems:
        net.prune(out, taps)
    if net.problems:
        sys.exit(verdict.of(opt.model, net.problems, opt.verbose))
    try:
        net.write(opt.out, opt.model, verdict.about(network))
    except OSError as why:
        sys.exit(f"{opt.out}: {why.strerror or why}")
    print(
        f"{opt.out}.lua: {len(net.layers)} layers; {opt.out}.safetensors: {sum(v.size for v in net.weights.values())} numbers"
    )
    for words, names in net.remarks.items():
        if names:
            print(f"{len(names)} layers {words}: {', '.join(names[:3])}{' ...' if len(names) > 3 else ''}")
    if opt.check:
        check.check(network, net.shapes["input"], opt.out, len(taps), getattr(network, "batch", BATCH))


if __name__ == "__main__":
    main()
