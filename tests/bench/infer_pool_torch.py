#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A pool of streams for predictions in PyTorch: the peer of `spcore run infer_pool.lua --size 256 --device cuda`.

The reference classifier, not trained, one image a request: uint8 in pinned memory, copied to the GPU, to float32,
forward, logits back into pinned memory. Clients, twice as many as there are streams unless --clients says otherwise,
have one request open each: it waits in a queue, in the same process, until a stream is free, and when it is answered
the client asks the next one. Ways:

  eager    each call by itself
  graph    one CUDA graph a stream, of all between the two copies
  threads  eager, with a Python thread for each stream, all taking from one queue

Prints for each number of streams requests/s, p50 and p99 from when a request is put into the queue until its logits
can be read; the median of the turns, in which all ways and numbers follow each other. Kernels are chosen by
measurement, TF32 is allowed, no gradient is kept: whatever helps PyTorch and leaves the work as it is. Ways and
streams must give the same logits but for rounding (1 % of the largest), or it ends with status 1.

  infer_pool_torch.py [--streams 1,2,4,8] [--ways eager,graph,threads] [--clients N] [--turns 3]
"""

import argparse
import collections
import json
import queue
import statistics
import sys
import threading
import time

POOL = 64  # images that requests take turns with


def options():
    p = argparse.ArgumentParser(description="Predictions on a pool of streams in PyTorch.")
    p.add_argument("--device", default="cuda")
    p.add_argument("--size", type=int, default=256, help="pixels of a side, a power of two")
    p.add_argument("--classes", type=int, default=10)
    p.add_argument("--batch", type=int, default=1, help="images a request")
    p.add_argument("--streams", default="1,2,4,8", help="numbers of streams, with commas")
    p.add_argument("--ways", default="eager,graph,threads", help="of eager, graph, threads, with commas")
    p.add_argument("--clients", type=int, default=0, help="open requests; 0: twice the streams; never fewer than these")
    p.add_argument("--requests", type=int, default=3000, help="timed requests of a turn")
    p.add_argument("--warmup", type=int, default=300, help="requests before them")
    p.add_argument("--turns", type=int, default=3)
    p.add_argument("--precision", choices=("tf32", "fp32"), default="tf32")
    p.add_argument("--channels-last", action="store_true")
    p.add_argument("--json", help="write all figures to this file")
    a = p.parse_args()
    try:
        a.streams = [int(word) for word in a.streams.split(",")]
    except ValueError:
        p.error(f"--streams: '{a.streams}': numbers with commas are wanted")
    a.ways = a.ways.split(",")
    if min(a.streams) < 1 or max(a.streams) > 64:
        p.error("--streams: from 1 to 64")
    for way in a.ways:
        if way not in WAYS:
            p.error(f"--ways: no way '{way}'; there are {', '.join(WAYS)}")
    if min(a.requests, a.turns, a.batch) < 1 or a.warmup < 0:
        p.error("--requests, --turns, --batch: at least 1")
    return a


def build(size, classes):
    layers, c = [torch.nn.Conv2d(3, 16, 1)], 16
    for _ in range(size.bit_length() - 1):
        layers += [torch.nn.ReLU(), torch.nn.Conv2d(c, 2 * c, 2, 2)]
        c *= 2
    return torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(c, classes))


class Model:
    """What all slots share: weights and images."""

    def __init__(self, a):
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = a.precision == "tf32"
        torch.backends.cudnn.benchmark = True
        torch.manual_seed(0)
        self.device, self.batch, self.classes = torch.device(a.device), a.batch, a.classes
        self.format = torch.channels_last if a.channels_last else torch.contiguous_format
        self.net = build(a.size, a.classes).eval().to(self.device).to(memory_format=self.format)
        made = torch.Generator().manual_seed(1)
        shape = (POOL, a.batch, 3, a.size, a.size)
        self.images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=made).pin_memory()

    def forward(self, x):
        return self.net(x.to(torch.float32, memory_format=self.format) / 255)


class Slot:
    """One stream with what a request needs there."""

    def __init__(self, model):
        self.model = model
        self.stream = torch.cuda.Stream()
        self.done = torch.cuda.Event()
        self.x = torch.empty_like(model.images[0], device=model.device)
        self.logits = torch.empty((model.batch, model.classes), dtype=torch.float32).pin_memory()
        self.asked = 0.0
        with torch.cuda.stream(self.stream):
            for _ in range(3):  # kernels are chosen, memory is taken
                self.model.forward(self.x)
        self.stream.synchronize()
        self.prepare()

    def prepare(self):
        pass

    def compute(self):
        return self.model.forward(self.x)

    def submit(self, i, asked):
        self.asked = asked
        with torch.cuda.stream(self.stream):
            self.x.copy_(self.model.images[i % POOL], non_blocking=True)
            self.logits.copy_(self.compute(), non_blocking=True)
            self.done.record(self.stream)

    def answer(self):
        """Waits for the logits; seconds since the request was asked."""
        self.done.synchronize()
        return time.perf_counter() - self.asked


class GraphSlot(Slot):
    def prepare(self):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.out = self.model.forward(self.x)
        self.stream.synchronize()

    def compute(self):
        self.graph.replay()
        return self.out


class Clients:
    """Ask n requests, so many at a time; then, for each of those, None."""

    def __init__(self, n, at_once):
        self.left, self.next, self.lock = n, 0, threading.Lock()
        self.queue = queue.SimpleQueue()
        for _ in range(at_once):
            self.ask()

    def ask(self):
        with self.lock:
            i, self.next = self.next, self.next + 1
            self.queue.put((i, time.perf_counter()) if i < self.left else None)


def take_turns(slots, clients):
    """One thread: submits what a free stream can take, then waits for the oldest."""
    free, busy, took, asked = collections.deque(slots), collections.deque(), [], True
    while asked or busy:
        while free and asked:
            asked = clients.queue.get()
            if asked:
                free[0].submit(*asked)
                busy.append(free.popleft())
        if busy:
            took.append(busy[0].answer())
            free.append(busy.popleft())
            clients.ask()
    return took


def serve(slot, clients, took, failed):
    try:
        with torch.inference_mode():  # it is a thread's own
            while asked := clients.queue.get():
                slot.submit(*asked)
                took.append(slot.answer())
                clients.ask()
    except Exception as e:  # pylint: disable=broad-except
        failed.append(e)
        for _ in range(64):
            clients.queue.put(None)


def take_threads(slots, clients):
    took, failed = [], []
    threads = [threading.Thread(target=serve, args=(slot, clients, took, failed)) for slot in slots]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failed:
        raise failed[0]
    return took


WAYS = {"eager": (Slot, take_turns), "graph": (GraphSlot, take_turns), "threads": (Slot, take_threads)}


def farthest(slots, wanted):
    """How far a slot's logits are from those that one call gave, at the most."""
    worst = 0.0
    for slot in slots:
        slot.submit(0, 0.0)
        slot.answer()
        worst = max(worst, float((slot.logits - wanted).abs().max() / wanted.abs().max()))
    return worst


def percentile(took, part):
    took = sorted(took)
    return took[min(len(took) - 1, max(0, -(-int(part * 1000) * len(took) // 1000) - 1))] * 1e3


def measure(a, pools, wanted, found):
    for (way, n), slots in pools.items():
        drive, at_once = WAYS[way][1], max(n, a.clients or 2 * n)
        drive(slots, Clients(a.warmup, at_once))
        torch.cuda.synchronize()
        begin = time.perf_counter()
        took = drive(slots, Clients(a.requests, at_once))
        seconds = time.perf_counter() - begin
        figures = {"rate": a.requests / seconds, "p50": percentile(took, 0.5), "p99": percentile(took, 0.99),
                   "off": farthest(slots, wanted)}
        found.setdefault((way, n), []).append(figures)


def table(a, found):
    print(f"{'way':<8} {'streams':>7} {'requests/s':>11}  {'least .. most':<16} {'p50, ms':>8} {'p99, ms':>8}")
    for (way, n), turns in found.items():
        rates = [t["rate"] for t in turns]
        spread = f"{min(rates):.0f} .. {max(rates):.0f}"
        p50, p99 = (statistics.median(t[k] for t in turns) for k in ("p50", "p99"))
        print(f"{way:<8} {n:>7} {statistics.median(rates):>11.0f}  {spread:<16} {p50:>8.3f} {p99:>8.3f}")
    if a.json:
        rows = [{"way": way, "streams": n, "turns": turns} for (way, n), turns in found.items()]
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump({"options": vars(a), "torch": torch.__version__, "rows": rows}, f, indent=1)


def main():
    a = options()
    if not torch.cuda.is_available():
        sys.exit("infer_pool_torch.py: PyTorch finds no GPU here")
    torch.cuda.set_device(a.device if ":" in a.device else 0)
    with torch.inference_mode():
        model = Model(a)
        wanted = model.forward(model.images[0].to(model.device)).cpu()
        pools = {(way, n): [WAYS[way][0](model) for _ in range(n)] for way in a.ways for n in a.streams}
        print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, "
              f"batch {a.batch}, {a.size} pixels, {a.precision}{', channels last' if a.channels_last else ''}, "
              f"median of {a.turns} turns of {a.requests} requests")
        found = {}
        for _ in range(a.turns):
            measure(a, pools, wanted, found)
    table(a, found)
    off = max(t["off"] for turns in found.values() for t in turns)
    print(f"logits differ from those of one call by {off:.2g} of the largest, at the most")
    return 1 if off > 0.01 else 0


try:
    import torch
except ImportError:
    sys.exit("infer_pool_torch.py: there is no PyTorch here")

if __name__ == "__main__":
    sys.exit(main())
