#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The seg workload in PyTorch on the CPU: the peer of `spcore run reference_seg.lua`.

A frozen encoder of kernel-2 stride-2 convolutions and a trained decoder of transposed ones; random uint8 images, random
labels of 10 classes, SGD with learning rate 1e-3. Prints one line of JSON: steps/s over the timed steps and the process's peak
memory.

  seg_torch.py [--size 256] [--batch 8] [--threads 2] [--warmup 10] [--steps 100] [--channels-last] [--loader]
"""
import argparse
import json
import resource
import time

import torch
from torch import nn


def build(size, classes):
    levels = size.bit_length() - 1
    enc, c = [nn.Conv2d(3, 16, 1)], 16
    for _ in range(levels):
        enc += [nn.ReLU(), nn.Conv2d(c, 2 * c, 2, 2)]
        c *= 2
    dec = []
    for _ in range(levels):
        dec += [nn.ConvTranspose2d(c, c // 2, 2, 2), nn.ReLU()]
        c //= 2
    dec += [nn.Conv2d(c, classes, 3, padding=1)]
    return nn.Sequential(*enc), nn.Sequential(*dec)


class Random(torch.utils.data.Dataset):
    def __init__(self, size, classes):
        self.size, self.classes = size, classes

    def __len__(self):
        return 1 << 20

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return (torch.randint(0, 256, (3, self.size, self.size), dtype=torch.uint8, generator=g),
                torch.randint(0, self.classes, (self.size, self.size), generator=g))


def main():
    p = argparse.ArgumentParser()
    for name, value in (("size", 256), ("batch", 8), ("threads", 2), ("warmup", 10), ("steps", 100), ("classes", 10)):
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--channels-last", action="store_true")
    p.add_argument("--loader", action="store_true", help="a DataLoader with one worker instead of one batch made before")
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    enc, dec = build(a.size, a.classes)
    if a.channels_last:
        enc, dec = enc.to(memory_format=torch.channels_last), dec.to(memory_format=torch.channels_last)
    for w in enc.parameters():
        w.requires_grad_(False)
    opt = torch.optim.SGD(dec.parameters(), lr=1e-3)
    data = Random(a.size, a.classes)
    if a.loader:
        batches = iter(torch.utils.data.DataLoader(data, a.batch, num_workers=1))
    else:
        one = [torch.stack(x) for x in zip(*(data[i] for i in range(a.batch)))]
        batches = iter(lambda: one, None)
    loss = None
    begin = 0.0
    for step in range(a.warmup + a.steps):
        if step == a.warmup:
            begin = time.perf_counter()
        x, y = next(batches)
        x = x.float()
        if a.channels_last:
            x = x.contiguous(memory_format=torch.channels_last)
        with torch.no_grad():
            z = enc(x)
        loss = nn.functional.cross_entropy(dec(z), y.long())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    rate = a.steps / (time.perf_counter() - begin)
    print(json.dumps({"peer": "torch " + torch.__version__, "size": a.size, "batch": a.batch, "threads": a.threads,
                      "steps": a.steps, "steps_per_s": round(rate, 3), "loss": loss.item(),
                      "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}), flush=True)


if __name__ == "__main__":
    main()
