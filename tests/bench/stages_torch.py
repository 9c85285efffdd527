#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What tests/bench/stages.lua times, in PyTorch: eager, and compiled and replayed as a CUDA graph (--ways).

Losses with the gradient of their logits, dropout with its own; batch_resized_crop is one grid_sample with a window of its
own for each image, which PyTorch users write where a loop over images is too slow, from bytes to bytes.

  stages_torch.py [--batch 32] [--classes 10] [--size 256] [--crop 224] [--runs 200] [--turns 5] [--ways eager,compiled]
"""

import argparse
import statistics

import torch
import torch.nn.functional as F


def dice(x, y):
    classes = x.shape[1]
    p = x.log_softmax(1).exp().flatten(2)
    t = F.one_hot(y.flatten(1).long(), classes).permute(0, 2, 1)
    score = 2 * (p * t).sum((0, 2)) / (p + t).sum((0, 2)).clamp_min(1e-7)
    return ((1 - score) * (t.sum((0, 2)) > 0)).mean()


def focal(x, y):
    t = F.one_hot(y.long(), x.shape[1]).permute(0, 3, 1, 2).to(x.dtype)
    cost = F.binary_cross_entropy_with_logits(x, t, reduction="none")
    return ((1 - torch.exp(-cost)) ** 2 * cost).mean((0, 2, 3)).sum()


def windows(n, size, device):
    """torchvision's distribution of RandomResizedCrop, one draw an image, as an affine map of grid_sample."""
    area = size * size * (torch.rand(n, device=device) * 0.92 + 0.08)
    ratio = torch.exp((torch.rand(n, device=device) * 2 - 1) * 0.28768)
    w, h = (area * ratio).sqrt().round().clamp(1, size), (area / ratio).sqrt().round().clamp(1, size)
    left, top = (torch.rand(n, device=device) * (size - w + 1)).floor(), (torch.rand(n, device=device) * (size - h + 1)).floor()
    zero = torch.zeros_like(w)
    return torch.stack((w / size, zero, (2 * left + w) / size - 1, zero, h / size, (2 * top + h) / size - 1), 1).view(n, 2, 3)


def main():
    p = argparse.ArgumentParser()
    for name, value in (("batch", 32), ("classes", 10), ("size", 256), ("crop", 224), ("runs", 200), ("turns", 5)):
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--device", default="cuda")
    p.add_argument("--ways", default="eager,compiled")
    o = p.parse_args()
    d, n, c, s = o.device, o.batch, o.classes, o.size
    logits = torch.randn(n, c, s, s, device=d, requires_grad=True)
    target = torch.randn(n, c, s, s, device=d)
    labels = torch.randint(0, c, (n, s, s), device=d, dtype=torch.uint8)
    images = torch.randint(0, 256, (n, 3, s, s), device=d, dtype=torch.uint8)

    def with_gradient(f):
        return lambda: torch.autograd.grad(f(), logits)

    def crop():
        grid = F.affine_grid(windows(n, s, d), (n, 3, o.crop, o.crop), align_corners=False)
        return F.grid_sample(images.float(), grid, align_corners=False).round().clamp(0, 255).byte()

    each = {
        "cross_entropy": with_gradient(lambda: F.cross_entropy(logits, labels.long())),
        "dice": with_gradient(lambda: dice(logits, labels)),
        "focal": with_gradient(lambda: focal(logits, labels)),
        "bce": with_gradient(lambda: F.binary_cross_entropy_with_logits(logits, target)),
        "mse": with_gradient(lambda: F.mse_loss(logits, target)),
        "dropout": lambda: torch.autograd.grad(F.dropout(logits, 0.5), logits, target),
        "batch_resized_crop": crop,
    }
    for name, f in each.items():
        for way in o.ways.split(","):
            run = f
            if way == "compiled":
                # The gradient is made by the forward's own autograd, so the whole of it is recorded, not compiled alone.
                inner = {"cross_entropy": lambda x: F.cross_entropy(x, labels.long()), "dice": lambda x: dice(x, labels),
                         "focal": lambda x: focal(x, labels),
                         "bce": lambda x: F.binary_cross_entropy_with_logits(x, target),
                         "mse": lambda x: F.mse_loss(x, target), "dropout": lambda x: F.dropout(x, 0.5)}.get(name)
                g = torch.compile(inner) if inner else torch.compile(f)
                seed = target if name == "dropout" else None
                run = (lambda: torch.autograd.grad(g(logits), logits, seed)) if inner else g
            if d == "cuda" and way == "compiled":
                side = torch.cuda.Stream()
                with torch.cuda.stream(side):
                    for _ in range(5):
                        run()
                torch.cuda.synchronize()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    kept = run()  # noqa: F841
                run = graph.replay
            times = []
            for turn in range(o.turns + 1):
                if d == "cuda":
                    a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                    a.record()
                    for _ in range(o.runs):
                        run()
                    b.record()
                    b.synchronize()
                    us = a.elapsed_time(b) / o.runs * 1e3
                else:
                    import time
                    begun = time.perf_counter()
                    for _ in range(o.runs):
                        run()
                    us = (time.perf_counter() - begun) / o.runs * 1e6
                if turn:
                    times.append(us)
            print(f"{name:20} {way:9} {statistics.median(times):8.1f} us ({min(times):.1f} .. {max(times):.1f})", flush=True)


if __name__ == "__main__":
    main()
