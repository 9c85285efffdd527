#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What scripts/examples/double_buffer.lua measures, by PyTorch: copies to the device, work that sleeps and copies back, on the
stream of a batch's buffer, pinned, one batch at a time in each direction.

  python3 tests/bench/double_buffer_torch.py --mib 64 --batches 50 --buffers 3 --ms 0.1
"""
import argparse
import statistics
import time

import torch


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--mib", type=float, default=64)
    p.add_argument("--batches", type=int, default=50)
    p.add_argument("--buffers", type=int, default=2)
    p.add_argument("--ms", type=float, default=0.1)
    p.add_argument("--turns", type=int, default=3)
    return p.parse_args()


def measure(a, f):
    times = []
    for turn in range(a.turns + 1):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for n in range(a.batches):
            f(n)
        torch.cuda.synchronize()
        if turn:
            times.append((time.perf_counter() - began) / a.batches * 1e3)
    return statistics.median(times)


def cycles_for(ms):
    """How long _sleep() takes per cycle depends on the clock: measured."""
    torch.cuda._sleep(100_000_000)
    torch.cuda.synchronize()
    began = time.perf_counter()
    torch.cuda._sleep(100_000_000)
    torch.cuda.synchronize()
    return int(ms * 1e5 / (time.perf_counter() - began))


def main():
    a = arguments()
    floats = int(a.mib * 2**20 / 4)
    streams = [torch.cuda.Stream() for _ in range(a.buffers)]
    host = [(torch.rand(floats).pin_memory(), torch.zeros(floats).pin_memory()) for _ in streams]
    device = [(torch.zeros(floats, device="cuda"), torch.zeros(floats, device="cuda")) for _ in streams]
    cycles = cycles_for(a.ms)

    def copy_in(i):
        device[i][0].copy_(host[i][0], non_blocking=True)

    def work(i):
        torch.cuda._sleep(cycles)
        device[i][1].copy_(device[i][0])

    def copy_out(i):
        host[i][1].copy_(device[i][1], non_blocking=True)

    def on(i, *calls):
        with torch.cuda.stream(streams[i]):
            for call in calls:
                call(i)

    def both(_):
        on(0, copy_in)
        on(1, copy_out)

    events = [torch.cuda.Event() for _ in range(3)]
    for e in events:
        e.record(streams[0])

    def overlapped(n):
        i = n % a.buffers
        for event, call in zip(events, (copy_in, work, copy_out)):
            streams[i].wait_event(event)
            on(i, call)
            event.record(streams[i])

    row = [
        measure(a, lambda n: on(0, copy_in)),
        measure(a, lambda n: on(0, work)),
        measure(a, lambda n: on(0, copy_out)),
        measure(a, both),
        measure(a, lambda n: on(0, copy_in, work, copy_out)),
        measure(a, overlapped),
    ]
    print(("%12s" * 6) % ("H2D", "work", "D2H", "both copies", "sequential", "overlapped"))
    print(("%12.3f" * 6) % tuple(row))
    print(f"overlapped is {100 * (row[5] / row[3] - 1):.1f} % above both copies")


if __name__ == "__main__":
    main()
