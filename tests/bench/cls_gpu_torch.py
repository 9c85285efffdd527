#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The cls workload in PyTorch on a GPU: the peers of `spcore run reference_cls.lua --device cuda`.

A server as seg_gpu_torch.py, which says how it is talked to. Ways, all trained in the same manner:

  cpu                        augmentation in the workers of the DataLoader, a sample at a time
  serialized                 on the GPU, torchvision's functions, a loop over samples for the rotation
  streams, streams-pinned    that for batch n + 1 on a second stream beside the training on batch n
  vector, vector-streams     augmentation without a loop; the DataLoader pins its batches
  resident                   vector with its inputs on the GPU already: no loader; nor have these:
  compile                    torch.compile, max-autotune, channels last, over augmentation and model, in fusable form
  compile-ops                the same over the operators of `vector`
  graph                      one CUDA graph of a step with two streams, channels last

  cls_gpu_torch.py [--device cuda] [--size 256] [--classes 10] [--workers 8]
  cls_gpu_torch.py --ways vector,graph --batches 8,32 [--steps 100] [--windows 5] [--precision tf32]

The second form is no server: it prints the median and the spread of the windows. Augmentation: augment_torch.py.
"""

import statistics
import sys
import time

import torch
from torch import nn

import augment_torch
import seg_gpu_torch as seg


def build(size, classes):
    layers, c = [nn.Conv2d(3, 16, 1)], 16
    for _ in range(size.bit_length() - 1):
        layers += [nn.ReLU(), nn.Conv2d(c, 2 * c, 2, 2)]
        c *= 2
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(c, classes))


class Samples(torch.utils.data.Dataset):
    """Random samples made once; with a transform each time changed by it."""

    def __init__(self, size, classes, transform=None):
        g = torch.Generator().manual_seed(1)
        self.x = torch.randint(0, 256, (seg.POOL, 3, size, size), dtype=torch.uint8, generator=g)
        self.y = torch.randint(0, classes, (seg.POOL,), generator=g)
        self.transform = transform

    def __len__(self):
        return 1 << 24

    def __getitem__(self, i):
        x = self.x[i % seg.POOL]
        return (self.transform(x) if self.transform else x), self.y[i % seg.POOL]


class Contestant(seg.Contestant):
    prefetch, source = 2, None

    def make(self):
        self.model = build(self.a.size, self.a.classes).to(self.device)
        self.data = Samples(self.a.size, self.a.classes)

    def trained(self):
        return self.model.parameters()

    def channels_last(self):
        self.format = torch.channels_last
        self.model = self.model.to(memory_format=self.format)

    def augmentation(self, form):
        self.change = form(self.batch, self.a.size, self.device)

    def ready(self, x):
        """What the model sees."""
        with torch.no_grad():
            return self.change(x).contiguous(memory_format=self.format)

    def loss_of(self, x, y):
        with self.cast():
            logits = self.model(x)
        return nn.functional.cross_entropy(logits.float(), y)

    def run(self, steps):
        """While others have their turns the workers fill their queues: those batches are used up before the time is
        taken, and filled again after it, so that this is not in the next one's time."""
        if not self.source:
            return super().run(steps)
        queued = self.a.workers * self.prefetch
        if queued:
            self.loop(queued)
        rate, loss = super().run(steps)
        time.sleep(min(queued / rate, 3))
        return rate, loss


class Loaded(Contestant):
    """With a DataLoader, step after step."""

    pinned, form = False, augment_torch.Seed

    def prepare(self):
        self.augmentation(self.form)
        self.opt, self.source = self.optimizer(), self.batches(self.pinned)

    def fetch(self):
        x, y = next(self.source)
        return x.to(self.device, non_blocking=self.pinned), y.to(self.device, non_blocking=self.pinned)

    def loop(self, steps):
        loss = None
        for _ in range(steps):
            x, y = self.fetch()
            loss = self.train(self.ready(x), y)
        return loss


class Workers(Loaded):
    """Nothing is left to be done to a batch but to copy it."""

    pinned = True

    def prepare(self):
        self.data.transform = augment_torch.Sample(self.a.size)
        self.change = lambda x: x
        self.opt, self.source = self.optimizer(), self.batches(self.pinned)


class Vector(Loaded):
    pinned, form = True, augment_torch.Ops


class Streams(Loaded):
    """The augmentation of batch n + 1, on one stream, beside the training on batch n, on another. The training is
    submitted first: where the augmentation makes the host wait, the GPU has something to do."""

    gpu_only = True

    def prepare(self):
        super().prepare()
        self.ahead, self.behind = torch.cuda.Stream(), torch.cuda.Stream()

    def coming(self):
        with torch.cuda.stream(self.ahead):
            x, y = self.fetch()
            x = self.ready(x)
            done = torch.cuda.Event()
            done.record()
        for t in (x, y):
            t.record_stream(self.behind)
        return x, y, done

    def loop(self, steps):
        loss = None
        x, y, done = self.coming()
        for step in range(steps):
            with torch.cuda.stream(self.behind):
                self.behind.wait_event(done)
                loss = self.train(x, y)
            if step + 1 < steps:
                x, y, done = self.coming()
        torch.cuda.current_stream().wait_stream(self.behind)
        return loss


class StreamsPinned(Streams):
    pinned = True


class VectorStreams(Streams):
    pinned, form = True, augment_torch.Ops


class Resident(Contestant):
    def prepare(self):
        self.augmentation(augment_torch.Ops)
        self.opt = self.optimizer()
        self.x, self.y = self.resident()

    def loop(self, steps):
        loss = None
        for _ in range(steps):
            loss = self.train(self.ready(self.x), self.y)
        return loss


class Compile(Contestant):
    """As Compile of the seg workload, and for its reasons."""

    form = augment_torch.Fusable

    def prepare(self):
        self.channels_last()
        self.augmentation(self.form)
        self.opt = self.optimizer()
        self.x, self.y = self.resident()
        torch._inductor.config.max_autotune_conv_backends = "ATEN"
        torch._dynamo.reset()  # or another batch size than before would be compiled for any
        self.forward = torch.compile(lambda x, y: self.loss_of(self.ready(x), y), mode="max-autotune")

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


class CompileOps(Compile):
    form = augment_torch.Ops


class Graph(Contestant):
    """The augmentation of the next batch on a side stream of the graph; the generator goes on with each replay."""

    gpu_only = True

    def prepare(self):
        self.channels_last()
        self.augmentation(augment_torch.Ops)
        self.cache = False  # a cast weight kept between steps would be a stale one
        self.opt = self.optimizer()
        self.x, self.y = self.resident()
        main, side = torch.cuda.Stream(), torch.cuda.Stream()
        main.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(main):
            self.now = self.ready(self.x)
            for _ in range(3):
                self.ready(self.x)
                self.train(self.now, self.y)
            self.opt.zero_grad(set_to_none=True)
        self.sync()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=main):
            side.wait_stream(main)
            with torch.cuda.stream(side):
                ahead = self.ready(self.x)
            self.loss = self.loss_of(self.now, self.y)
            self.loss.backward()
            self.opt.step()
            main.wait_stream(side)
            self.now.copy_(ahead)

    def loop(self, steps):
        for _ in range(steps):
            self.graph.replay()
        return self.loss


WAYS = {
    "cpu": Workers,
    "serialized": Loaded,
    "streams": Streams,
    "streams-pinned": StreamsPinned,
    "vector": Vector,
    "vector-streams": VectorStreams,
    "resident": Resident,
    "compile": Compile,
    "compile-ops": CompileOps,
    "graph": Graph,
}


def table(a):
    """Each way and batch after the other, without a server."""
    failed = 0
    print(f"cls, {a.size} x {a.size}, {a.precision}, {a.windows} windows of {a.steps} steps, torch {torch.__version__}")
    for way in a.ways.split(","):
        for batch in a.batches.split(","):
            name = f"{way}, batch {batch}"
            c = None
            try:
                c = seg.setup(a, {"way": way, "batch": int(batch), "precision": a.precision, "warmup": a.warmup}, WAYS)
                rates = [c.run(a.steps)[0] for _ in range(a.windows)]
            except Exception as e:  # pylint: disable=broad-except
                words = [w for w in str(e).split("\n") if w.strip()] or [""]
                print(f"{name:32} failed: {type(e).__name__}: {words[0]}", flush=True)
                failed = 1
                continue
            print(f"{name:32} {statistics.median(rates):9.1f} {min(rates):9.1f} .. {max(rates):<9.1f}", flush=True)
    return failed


def main():
    p = seg.options()
    p.add_argument("--ways", help=f"with commas: {', '.join(WAYS)}; without: a server")
    p.add_argument("--batches", default="32", help="with commas")
    p.add_argument("--precision", default="tf32", choices=("fp32", "tf32", "bf16"))
    for name, value in (("steps", 100), ("windows", 5), ("warmup", 20)):
        p.add_argument("--" + name, type=int, default=value)
    a = p.parse_args()
    if not a.ways:
        return seg.serve(lambda: seg.about(a), seg.Server(a, WAYS).answer)
    for way in a.ways.split(","):
        if way not in WAYS:
            p.error(f"no way '{way}': there are {', '.join(WAYS)}")
    return table(a)


if __name__ == "__main__":
    sys.exit(main())
