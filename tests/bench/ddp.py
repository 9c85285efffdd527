#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""DistributedDataParallel over the devices of one host: the peer of `spcore run reference_seg.lua --ranks N`, and of
reference_cls.lua.

A server as seg_gpu_torch.py, which says how it is talked to; it starts a process for each device itself. Models, samples and
optimizer are those of seg_gpu_torch.py and cls_gpu_torch.py: `batch` samples a process, other ones in each, which lie on the
device before the first step. A rate is that of the slowest process. Ways:

  eager             the module as it is
  static            eager, with static_graph
  static-bf16       that with the hook that sends gradients as bfloat16
  compile           torch.compile, max-autotune without CUDA graphs, channels last
  compile-bf16      that with the hook
  compile-graphs    torch.compile, max-autotune: CUDA graphs too, between the hooks of the buckets

  ddp.py [--ranks 2] [--workload seg] [--device cuda] [--size 256] [--classes 10] [--threads N]
  ddp.py --ways eager,static --batches 8,32 [--steps 300] [--windows 5] [--warmup 50] [--precision tf32]

The second form is no server: it prints the median and the spread of the windows.
"""

import argparse
import ctypes
import multiprocessing
import multiprocessing.connection
import os
import signal
import statistics
import sys
import tempfile

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

import augment_torch
import cls_gpu_torch as cls
import seg_gpu_torch as seg

PATIENCE = 20  # seconds in which the others tell that one has failed


class Shared:
    """One of the processes: a contestant of its workload with its own samples, whose gradients are everybody's."""

    static, mode, hook = False, None, False

    def prepare(self):
        self.first = self.a.rank * self.batch
        if self.mode:
            self.channels_last()
            torch._dynamo.reset()  # or another batch size than before would be compiled for any
            torch._inductor.config.max_autotune_conv_backends = "ATEN"  # as in seg_gpu_torch.py
        self.wrap()
        if self.mode:
            self.ready, self.loss_of = (torch.compile(f, mode=self.mode) for f in (self.ready, self.loss_of))
        self.opt = self.optimizer()
        self.x, self.y = self.resident()

    def shared(self, module):
        more = {"device_ids": [self.device.index]} if self.cuda else {}
        out = torch.nn.parallel.DistributedDataParallel(
            module, gradient_as_bucket_view=True, static_graph=self.static, **more
        )
        if self.hook:
            out.register_comm_hook(None, default_hooks.bf16_compress_hook)
        return out

    def loop(self, steps):
        loss = None
        for _ in range(steps):
            if self.cuda and self.mode:
                torch.compiler.cudagraph_mark_step_begin()
            loss = self.train(self.ready(self.x), self.y)
        return loss

    def run(self, steps):
        dist.barrier()
        return super().run(steps)


class Seg(Shared, seg.Contestant):
    def wrap(self):
        self.dec = self.shared(self.dec)
        self.ready = self.encode


class Cls(Shared, cls.Contestant):
    def wrap(self):
        self.augmentation(augment_torch.Fusable if self.mode else augment_torch.Ops)
        self.model = self.shared(self.model)


WAYS = {
    "eager": {},
    "static": {"static": True},
    "static-bf16": {"static": True, "hook": True},
    "compile": {"mode": "max-autotune-no-cudagraphs"},
    "compile-bf16": {"mode": "max-autotune-no-cudagraphs", "hook": True},
    "compile-graphs": {"mode": "max-autotune"},
}
WORKLOADS = {"seg": Seg, "cls": Cls}


# ---- a process ----
def work(a, pipe):
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: who waits for another process would stay
    os.dup2(2, 1)
    try:
        if a.device.startswith("cuda"):
            torch.cuda.set_device(a.rank)
            a.device = f"cuda:{a.rank}"
        torch.set_num_threads(a.threads)
        backend = "nccl" if a.device.startswith("cuda") else "gloo"
        dist.init_process_group(backend, init_method="file://" + a.store, rank=a.rank, world_size=a.ranks)
        server = seg.Server(a, {name: type(name, (WORKLOADS[a.workload],), way) for name, way in WAYS.items()})
        pipe.send(seg.about(a))
    except (RuntimeError, AssertionError, ValueError) as e:
        pipe.send({"ok": False, "why": str(e).strip().split("\n")[0]})
        return
    while True:
        try:
            ask = pipe.recv()
        except EOFError:
            break
        pipe.send(server.answer(ask))
    dist.destroy_process_group()


# ---- all of them ----
class Processes:
    def __init__(self, a, folder):
        self.pipes, self.all = [], []
        spawn = multiprocessing.get_context("spawn")
        for rank in range(a.ranks):
            mine, its = spawn.Pipe()
            own = argparse.Namespace(**vars(a), rank=rank, store=os.path.join(folder, "store"))
            p = spawn.Process(target=work, args=(own, its), daemon=True)
            p.start()
            its.close()
            self.pipes.append(mine)
            self.all.append(p)

    def gather(self):
        """The slowest rate, or the first failure; who waits for one that has failed answers no more."""
        answers, missing = [], list(self.pipes)
        while missing:
            failed = [x for x in answers if not x["ok"]]
            ready = multiprocessing.connection.wait(missing, PATIENCE if failed else None)
            if not ready:
                self.kill()
                break
            for pipe in ready:
                missing.remove(pipe)
                try:
                    answers.append(pipe.recv())
                except (EOFError, OSError):
                    answers.append({"ok": False, "why": "a process has ended"})
        failed = [x for x in answers if not x["ok"]]
        return failed[0] if failed else min(answers, key=lambda x: x.get("steps_per_s", 0))

    def ask(self, what):
        for pipe in self.pipes:
            try:
                pipe.send(what)
            except OSError:
                pass  # gather() will say so
        return self.gather()

    def kill(self):
        for p in self.all:
            p.kill()

    def close(self):
        for pipe in self.pipes:
            pipe.close()
        for p in self.all:
            p.join(PATIENCE)
        self.kill()


def table(a, processes):
    """Each way and batch after the other, without a server."""
    about, status = processes.gather(), 0
    if not about["ok"]:
        print(f"ddp.py: {about['why']}", file=sys.stderr)
        return 1
    print(
        f"{a.workload}, {a.size} x {a.size}, {a.precision}, {a.ranks} processes, {a.windows} windows of {a.steps} steps, "
        f"torch {about['torch']}"
    )
    for way in a.ways.split(","):
        for batch in a.batches.split(","):
            name = f"DDP {way}, batch {batch}"
            said = processes.ask(
                {"do": "setup", "way": way, "batch": int(batch), "precision": a.precision, "warmup": a.warmup}
            )
            rates = []
            while said["ok"] and len(rates) < a.windows:
                said = processes.ask({"do": "run", "steps": a.steps})
                rates.append(said.get("steps_per_s"))
            if not said["ok"]:
                print(f"{name:56} failed: {said['why']}", flush=True)
                status = 1
                continue
            print(f"{name:56} {statistics.median(rates):9.1f} {min(rates):9.1f} .. {max(rates):<9.1f}", flush=True)
    return status


def main():
    p = seg.options()
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--workload", default="seg", choices=WORKLOADS)
    p.add_argument("--threads", type=int, default=0, help="of a process on the processor; 0: its part of them")
    p.add_argument("--ways", help=f"with commas: {', '.join(WAYS)}; without: a server")
    p.add_argument("--batches", default="8", help="with commas")
    p.add_argument("--precision", default="tf32", choices=("fp32", "tf32", "bf16"))
    for name, value in (("steps", 300), ("windows", 5), ("warmup", 50)):
        p.add_argument("--" + name, type=int, default=value)
    a = p.parse_args()
    for way in (a.ways or "eager").split(","):
        if way not in WAYS:
            p.error(f"no way '{way}': there are {', '.join(WAYS)}")
    if a.ranks < 1 or a.device.startswith("cuda") and a.ranks > torch.cuda.device_count():
        p.error(f"--ranks {a.ranks}: there are {torch.cuda.device_count()} GPUs")
    a.threads = a.threads or max(1, len(os.sched_getaffinity(0)) // a.ranks)
    with tempfile.TemporaryDirectory() as folder:
        processes = Processes(a, folder)
        status = table(a, processes) if a.ways else seg.serve(processes.gather, processes.ask)
        processes.close()
    return status


if __name__ == "__main__":
    sys.exit(main())
