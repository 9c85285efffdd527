#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The augmentation of the cls workload in PyTorch's DataLoader on the CPU: the peer of augment.lua.

Samples are made before the first step; each worker changes one after the other with torchvision's transforms, on one
thread. Prints one line of JSON with images/s over the timed steps.

  cls_torch.py [--size 256] [--batch 32] [--threads N] [--warmup 10] [--steps 40] [--stages batch_crop,resize,...]
"""
import argparse
import json
import os
import time

import torch

import augment_torch
from cls_gpu_torch import Samples


def main():
    p = argparse.ArgumentParser()
    threads = len(os.sched_getaffinity(0))
    for name, value in (("size", 256), ("batch", 32), ("threads", threads), ("warmup", 10), ("steps", 40)):
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--stages", default=",".join(augment_torch.CHAIN))
    a = p.parse_args()
    torch.set_num_threads(1)
    data = Samples(a.size, 10, augment_torch.Sample(a.size, a.stages.split(",")))
    loader = torch.utils.data.DataLoader(data, a.batch, num_workers=a.threads, prefetch_factor=2,
                                         worker_init_fn=lambda _: torch.set_num_threads(1))
    batches = iter(loader)
    for _ in range(max(a.warmup, 2 * a.threads)):  # what the queues hold before the first step is used up
        next(batches)
    begin = time.perf_counter()
    for _ in range(a.steps):
        x, _ = next(batches)
    rate = a.steps * a.batch / (time.perf_counter() - begin)
    print(json.dumps({"peer": "torch " + torch.__version__, "shape": list(x.shape), "workers": a.threads,
                      "steps": a.steps, "images_per_s": round(rate, 3)}), flush=True)


if __name__ == "__main__":
    main()
