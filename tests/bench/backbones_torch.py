#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A frozen backbone and a head that is trained, in PyTorch: what backbones.py puts beside spcore. Inputs lie on the device.

Says "ready" when its way is compiled and warm, then answers each line "N" with the steps/s of N steps.

Ways: eager; graph (a CUDA graph of the step); graph2 (the backbone of the next batch on a second stream); compile (the
whole step's forward by torch.compile max-autotune); freeze (the backbone compiled with inductor's freezing, the rest
compiled, both in CUDA graphs); freeze2 (the same on two streams). All channels last.
"""

import argparse
import contextlib
import time

import torch
import torchvision
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    """Of segmentation_models.pytorch's U-Net: twice as large, joined to a map, two convolutions."""

    def __init__(self, c, skip, out):
        super().__init__()
        layers = []
        for i in (c + skip, out):
            layers += [nn.Conv2d(i, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=True)]
        self.conv = nn.Sequential(*layers)

    def forward(self, x, skip=None):
        x = F.interpolate(x, scale_factor=2.0, mode="nearest")
        return self.conv(x if skip is None else torch.cat([x, skip], 1))


class UNet(nn.Module):
    def __init__(self, taps, classes):
        super().__init__()
        c, out = taps[-1], (256, 128, 64, 32, 16)
        skips = list(reversed(taps[:-1])) + [0]
        self.blocks = nn.ModuleList()
        for s, o in zip(skips, out):
            self.blocks.append(Block(c, s, o))
            c = o
        self.head = nn.Conv2d(c, classes, 3, padding=1)

    def forward(self, maps):
        x, skips = maps[-1], list(reversed(maps[:-1])) + [None]
        for block, skip in zip(self.blocks, skips):
            x = block(x, skip)
        return self.head(x)


class Probe(nn.Module):
    def __init__(self, c, classes):
        super().__init__()
        self.fc = nn.Linear(c, classes)

    def forward(self, maps):
        return self.fc(maps[-1])


class Dense(nn.Module):
    """torchvision's head, resized to the image."""

    def __init__(self, head, size):
        super().__init__()
        self.head, self.size = head, size

    def forward(self, maps):
        return F.interpolate(self.head(maps[-1]), size=(self.size, self.size), mode="bilinear", align_corners=False)


class Backbone(nn.Module):
    def __init__(self, name, stride, head):
        super().__init__()
        more = {} if stride == 32 else {"replace_stride_with_dilation": [False, stride == 8, True]}
        net = getattr(torchvision.models, name)(weights=None, **more)
        self.stem = nn.Sequential(net.conv1, net.bn1, net.relu)
        self.pool, self.layers = net.maxpool, nn.ModuleList([net.layer1, net.layer2, net.layer3, net.layer4])
        self.head = head

    def forward(self, x):
        maps = [self.stem(x)]
        x = self.pool(maps[0])
        for layer in self.layers:
            x = layer(x)
            maps.append(x)
        if self.head == "probe":
            return [x.mean((2, 3))]
        return maps if self.head == "unet" else maps[-1:]


class Work:
    def __init__(self, a):
        torch.manual_seed(1)
        torch.backends.cudnn.benchmark = True
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        self.a, self.device, last = a, torch.device(a.device), torch.channels_last
        wide = 4 if a.backbone in ("resnet50", "resnet101") else 1
        taps = [64] + [64 * wide << i for i in range(4)]
        self.enc = Backbone(a.backbone, a.output_stride, a.head).eval().requires_grad_(False)
        if a.head == "probe":
            self.head = Probe(taps[-1], a.classes)
        elif a.head == "unet":
            self.head = UNet(taps, a.classes)
        else:
            seg = torchvision.models.segmentation
            kind = seg.deeplabv3.DeepLabHead if a.head == "deeplabv3" else seg.fcn.FCNHead
            self.head = Dense(kind(taps[-1], a.classes), a.size)
        self.enc = self.enc.to(self.device, memory_format=last)
        self.head = self.head.to(self.device, memory_format=last)
        x = torch.randn(a.batch, 3, a.size, a.size, device=self.device)
        self.x = [x.to(memory_format=last), x.flip(0).to(memory_format=last)]
        shape = (a.batch,) if a.head == "probe" else (a.batch, a.size, a.size)
        self.y = torch.randint(0, a.classes, shape, device=self.device)
        self.bf16 = a.precision == "bf16"
        if self.bf16 and a.way.startswith("freeze"):  # no casts at all
            self.enc, self.x = self.enc.bfloat16(), [x.bfloat16() for x in self.x]
        cuda = self.device.type == "cuda"
        if a.head == "probe":
            self.opt = torch.optim.SGD(self.head.parameters(), lr=1e-3)
        else:
            self.opt = torch.optim.AdamW(self.head.parameters(), lr=1e-3, **({"fused": True, "capturable": True} if cuda else {}))

    def cast(self):
        if not self.bf16:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16, cache_enabled=False)

    def encode(self, x):
        with torch.no_grad(), self.cast():
            return self.enc(x)

    def loss_of(self, maps):
        with self.cast():
            logits = self.head(maps)
        return F.cross_entropy(logits.float(), self.y)

    def train(self, maps):
        self.opt.zero_grad(set_to_none=True)
        self.loss_of(maps).backward()
        self.opt.step()

    def compiled(self, fn, mode):
        return torch.compile(fn, mode=mode, dynamic=False)

    def make(self):
        way = self.a.way
        if way == "compile":
            self.encode = self.compiled(self.encode, "max-autotune")
            self.loss_of = self.compiled(self.loss_of, "max-autotune")
            self.begin = torch.compiler.cudagraph_mark_step_begin
        elif way.startswith("freeze"):
            torch._inductor.config.freezing = True
            self.encode = self.compiled(self.encode, "max-autotune-no-cudagraphs")
            self.warm_encoder()
            torch._inductor.config.freezing = False
            self.loss_of = self.compiled(self.loss_of, "max-autotune-no-cudagraphs")
        for _ in range(4):
            self.step()
        if way in ("graph", "freeze"):
            self.record(1)
        elif way in ("graph2", "freeze2"):
            self.record(2)

    def warm_encoder(self):
        for x in self.x:
            self.encode(x)

    def begin(self):
        pass

    def step(self):
        self.begin()
        maps = self.encode(self.x[0])
        self.train([m.clone() for m in maps] if self.a.way == "compile" else maps)

    def record(self, streams):
        """Two graphs of a step: each encodes into maps of its own and trains on the other's, or on its own."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.train(self.encode(self.x[0]))
        torch.cuda.current_stream().wait_stream(side)
        encoders, maps, trainers = [], [], []
        for x in self.x[:streams]:
            g = torch.cuda.CUDAGraph()
            with torch.cuda.graph(g):
                maps.append(self.encode(x))
            encoders.append(g)
        for m in maps:
            g = torch.cuda.CUDAGraph()
            with torch.cuda.graph(g):
                self.train(m)
            trainers.append(g)
        first, second, count = torch.cuda.current_stream(), torch.cuda.Stream(), [0]

        def one():
            encoders[0].replay()
            trainers[0].replay()

        def both():
            k = count[0] = 1 - count[0]
            second.wait_stream(first)
            with torch.cuda.stream(second):
                encoders[1 - k].replay()
            trainers[k].replay()
            first.wait_stream(second)

        self.step = one if streams == 1 else both

    def sync(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def run(self, steps):
        self.sync()
        begin = time.perf_counter()
        for _ in range(steps):
            self.step()
        self.sync()
        return steps / (time.perf_counter() - begin)


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--head", default="probe", choices=("probe", "unet", "deeplabv3", "fcn"))
    p.add_argument("--backbone", default="resnet50")
    p.add_argument("--output-stride", type=int, default=32)
    p.add_argument("--size", type=int, default=256)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--classes", type=int, default=21)
    p.add_argument("--precision", default="tf32", choices=("tf32", "bf16"))
    p.add_argument("--way", default="eager", choices=("eager", "graph", "graph2", "compile", "freeze", "freeze2"))
    p.add_argument("--device", default="cuda")
    p.add_argument("--threads", type=int, default=0)
    return p.parse_args()


def main():
    a = options()
    if a.threads:
        torch.set_num_threads(a.threads)
    work = Work(a)
    work.make()
    print("ready", torch.__version__, flush=True)
    while True:
        try:
            steps = int(input())
        except EOFError:
            return
        print(f"{work.run(steps):.2f}", flush=True)


main()
