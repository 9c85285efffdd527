#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The seg workload in PyTorch on a GPU: the peers of `spcore run reference_seg.lua --device cuda`.

A server, so that contestants can take turns without starting anew. It reads one JSON object a line and answers each
with one, {"ok": true, ...} or {"ok": false, "why": ...}; the first comes unasked when it is ready:

  {"do": "setup", "way": "serialized", "batch": 8, "precision": "tf32", "warmup": 20}
  {"do": "run", "steps": 300}    answers with steps_per_s and loss
  {"do": "drop"}     forgets the contestant and its memory
  {"do": "quit"}

Ways: serialized, streams, streams-pinned (with a DataLoader); eager, eager-cl, compile, graph (the inputs lie on the
GPU already). cl is channels last, which compile and graph are too. Kernels are chosen by measurement
(cudnn.benchmark), samples are made before the first step, no step waits for its loss: whatever helps PyTorch and
leaves the workload as it is.

  seg_gpu_torch.py [--device cuda] [--size 256] [--classes 10] [--workers 8]
"""

import argparse
import contextlib
import gc
import json
import sys
import time

import torch
from torch import nn

LR, POOL = 1e-3, 64


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


class Samples(torch.utils.data.Dataset):
    """Random samples made once, so that a worker has only to collate them."""

    def __init__(self, size, classes):
        g = torch.Generator().manual_seed(1)
        self.x = torch.randint(0, 256, (POOL, 3, size, size), dtype=torch.uint8, generator=g)
        self.y = torch.randint(0, classes, (POOL, size, size), generator=g)

    def __len__(self):
        return 1 << 24

    def __getitem__(self, i):
        return self.x[i % POOL], self.y[i % POOL]


class Contestant:
    gpu_only, prefetch, first = False, 4, 0  # first: of the samples that lie on the GPU

    def __init__(self, a, batch, precision):
        self.cuda = a.device.startswith("cuda")
        self.device = torch.device(a.device)
        tf32 = precision != "fp32"
        torch.backends.cudnn.allow_tf32 = tf32
        torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.backends.cudnn.benchmark = True
        torch.manual_seed(0)
        self.a, self.batch, self.bf16 = a, batch, precision == "bf16"
        self.format = torch.contiguous_format
        self.cache = True
        self.make()

    def make(self):
        enc, dec = build(self.a.size, self.a.classes)
        self.enc, self.dec = enc.to(self.device), dec.to(self.device)
        for w in self.enc.parameters():
            w.requires_grad_(False)
        self.data = Samples(self.a.size, self.a.classes)

    def trained(self):
        return self.dec.parameters()

    def channels_last(self):
        self.format = torch.channels_last
        self.enc, self.dec = self.enc.to(memory_format=self.format), self.dec.to(memory_format=self.format)

    def optimizer(self):
        try:
            return torch.optim.SGD(self.trained(), lr=LR, fused=self.cuda)
        except (TypeError, RuntimeError):  # before fused kernels
            return torch.optim.SGD(self.trained(), lr=LR)

    def cast(self):
        if not self.bf16:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16, cache_enabled=self.cache)

    def encode(self, x):
        with torch.no_grad(), self.cast():
            return self.enc(x.float().contiguous(memory_format=self.format))

    def loss_of(self, z, y):
        with self.cast():
            logits = self.dec(z)
        return nn.functional.cross_entropy(logits.float(), y)

    def train(self, z, y):
        self.opt.zero_grad(set_to_none=True)
        loss = self.loss_of(z, y)
        loss.backward()
        self.opt.step()
        return loss.detach()

    def batches(self, pinned):
        workers = self.a.workers
        more = {"num_workers": workers, "persistent_workers": True, "prefetch_factor": self.prefetch} if workers else {}
        return iter(torch.utils.data.DataLoader(self.data, self.batch, pin_memory=pinned and self.cuda, **more))

    def resident(self):
        samples = [self.data[i] for i in range(self.first, self.first + self.batch)]
        x, y = (torch.stack(part).to(self.device) for part in zip(*samples))
        return x, y

    def sync(self):
        if self.cuda:
            torch.cuda.synchronize(self.device)

    def run(self, steps):
        self.sync()
        begin = time.perf_counter()
        loss = self.loop(steps)
        self.sync()
        return steps / (time.perf_counter() - begin), float(loss)


class Serialized(Contestant):
    def prepare(self):
        self.opt, self.source = self.optimizer(), self.batches(False)

    def loop(self, steps):
        loss = None
        for _ in range(steps):
            x, y = next(self.source)
            loss = self.train(self.encode(x.to(self.device)), y.to(self.device))
        return loss


class Eager(Contestant):
    def prepare(self):
        self.opt = self.optimizer()
        self.x, self.y = self.resident()

    def loop(self, steps):
        loss = None
        for _ in range(steps):
            loss = self.train(self.encode(self.x), self.y)
        return loss


class EagerChannelsLast(Eager):
    def prepare(self):
        self.channels_last()
        super().prepare()


class Streams(Contestant):
    """The encoder on batch n + 1, on one stream, beside the decoder on batch n, on another."""

    gpu_only, pinned = True, False

    def prepare(self):
        self.opt, self.source = self.optimizer(), self.batches(self.pinned)
        self.ahead, self.behind = torch.cuda.Stream(), torch.cuda.Stream()

    def encoded(self):
        x, y = next(self.source)
        with torch.cuda.stream(self.ahead):
            z = self.encode(x.to(self.device, non_blocking=self.pinned))
            y = y.to(self.device, non_blocking=self.pinned)
            done = torch.cuda.Event()
            done.record()
        for t in (z, y):
            t.record_stream(self.behind)
        return z, y, done

    def loop(self, steps):
        loss = None
        z, y, done = self.encoded()
        for step in range(steps):
            coming = self.encoded() if step + 1 < steps else None
            with torch.cuda.stream(self.behind):
                self.behind.wait_event(done)
                loss = self.train(z, y)
            if coming:
                z, y, done = coming
        torch.cuda.current_stream().wait_stream(self.behind)
        return loss


class StreamsPinned(Streams):
    pinned = True


class Compile(Contestant):
    """torch.compile in its mode max-autotune, channels last; CUDA graphs of forward and backward are part of that."""

    def prepare(self):
        self.channels_last()
        self.opt = self.optimizer()
        self.x, self.y = self.resident()
        # Triton's convolutions lost to cuDNN's in every layer, by 2 to 12 times, and take minutes to measure; products
        # are still chosen among all.
        torch._inductor.config.max_autotune_conv_backends = "ATEN"
        self.forward = torch.compile(lambda x, y: self.loss_of(self.encode(x), y), mode="max-autotune")

    def loop(self, steps):
        loss = None
        for _ in range(steps):
            if self.cuda:
                torch.compiler.cudagraph_mark_step_begin()
            self.opt.zero_grad(set_to_none=True)
            loss = self.forward(self.x, self.y)
            loss.backward()
            self.opt.step()
        return loss.detach()


class Graph(Contestant):
    """One CUDA graph of a whole step with two streams in it, channels last."""

    gpu_only = True

    def prepare(self):
        self.channels_last()
        self.cache = False  # a cast weight kept between steps would be a stale one
        self.opt = self.optimizer()
        self.x, self.y = self.resident()
        main, side = torch.cuda.Stream(), torch.cuda.Stream()
        with torch.cuda.stream(main):
            self.z = self.encode(self.x)
            for _ in range(3):
                self.encode(self.x)
                self.train(self.z, self.y)
            self.opt.zero_grad(set_to_none=True)
        self.sync()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=main):
            side.wait_stream(main)
            with torch.cuda.stream(side):
                ahead = self.encode(self.x)
            self.loss = self.loss_of(self.z, self.y)
            self.loss.backward()
            self.opt.step()
            main.wait_stream(side)
            self.z.copy_(ahead)

    def loop(self, steps):
        for _ in range(steps):
            self.graph.replay()
        return self.loss


WAYS = {
    "serialized": Serialized,
    "eager": Eager,
    "eager-cl": EagerChannelsLast,
    "streams": Streams,
    "streams-pinned": StreamsPinned,
    "compile": Compile,
    "graph": Graph,
}


def setup(a, ask, ways):
    way = ask["way"]
    if way not in ways:
        raise ValueError(f"no way '{way}'")
    if not a.device.startswith("cuda") and ways[way].gpu_only:
        raise ValueError("needs a GPU")
    c = ways[way](a, ask["batch"], ask.get("precision", "tf32"))
    c.prepare()
    c.run(ask.get("warmup", 20))
    return c


def about(a):
    out = {"ok": True, "torch": torch.__version__, "cudnn": torch.backends.cudnn.version()}
    if a.device.startswith("cuda"):
        out["gpu"] = torch.cuda.get_device_name(a.device)
        out["driver_api"] = torch.version.cuda
    return out


def options():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda")
    for name, value in (("size", 256), ("classes", 10), ("workers", 8)):
        p.add_argument("--" + name, type=int, default=value)
    return p


class Server:
    """Does what it is asked, with one contestant at a time."""

    def __init__(self, a, ways):
        self.a, self.ways, self.contestant = a, ways, None

    def obey(self, ask):
        if ask["do"] == "run":
            rate, loss = self.contestant.run(ask["steps"])
            return {"ok": True, "steps_per_s": rate, "loss": loss}
        self.contestant = None
        gc.collect()
        if self.a.device.startswith("cuda"):
            torch.cuda.empty_cache()
        if ask["do"] == "setup":
            self.contestant = setup(self.a, ask, self.ways)
        return {"ok": True}

    def answer(self, ask):
        try:
            return self.obey(ask)
        except Exception as e:  # pylint: disable=broad-except
            words = [w for w in str(e).strip().split("\n") if w] or [type(e).__name__]
            return {"ok": False, "why": f"{type(e).__name__}: {words[0]}"}


def serve(first, answer):
    """Says `first`, if that is all right, and answers until it is told to quit."""
    answers = sys.stdout
    sys.stdout = sys.stderr  # what libraries print must not be taken for an answer

    def say(what):
        answers.write(json.dumps(what) + "\n")
        answers.flush()

    try:
        say(first())
    except (RuntimeError, AssertionError) as e:
        say({"ok": False, "why": str(e).strip().split("\n")[0]})
        return 1
    for line in sys.stdin:
        ask = json.loads(line)
        if ask["do"] == "quit":
            break
        say(answer(ask))
    return 0


if __name__ == "__main__":
    arguments = options().parse_args()
    sys.exit(serve(lambda: about(arguments), Server(arguments, WAYS).answer))
