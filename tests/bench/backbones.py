#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Frozen backbones with heads that are trained: spcore beside PyTorch's ways, in turns, in one run. Medians and ranges.

  backbones.py --build build [--work unet50,probe50] [--precision tf32,bf16] [--turns 5] [--json FILE]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
WORKS = {  # head, backbone, output stride, size, batch, classes; asked and goal: times PyTorch's best
    "unet34": ("unet", "resnet34", 32, 256, 8, 21, 1.2, 1.8),
    "unet50": ("unet", "resnet50", 32, 256, 8, 21, 1.3, 1.8),
    "probe50": ("probe", "resnet50", 32, 256, 32, 1000, 1.3, 1.8),
    "probe18": ("probe", "resnet18", 32, 224, 8, 1000, 1.2, 1.2),
    "deeplab50": ("deeplabv3", "resnet50", 8, 512, 8, 21, 1.2, 1.5),
}
WAYS = ("eager", "graph", "graph2", "compile", "freeze", "freeze2")


def arguments(work, precision, a):
    head, backbone, stride, size, batch, classes = WORKS[work][:6]
    pairs = {"head": head, "backbone": backbone, "output-stride": stride, "size": size, "batch": batch, "classes": classes,
             "device": a.device}
    if a.device != "cpu":
        pairs["precision"] = precision
    if a.threads:
        pairs["threads"] = a.threads
    return [word for key, value in pairs.items() for word in (f"--{key}", str(value))]


class Theirs:
    def __init__(self, a, work, precision, way):
        self.name, self.steps = f"PyTorch {way}", a.steps
        command = [sys.executable, os.path.join(HERE, "backbones_torch.py"), "--way", way, *arguments(work, precision, a)]
        self.log = open(os.path.join(a.logs, f"{work}-{precision}-{way}.log"), "w")
        self.p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True)

    def ready(self):
        return self.p.stdout.readline().startswith("ready")

    def run(self):
        self.p.stdin.write(f"{self.steps}\n")
        self.p.stdin.flush()
        line = self.p.stdout.readline()
        return float(line) if line else None

    def close(self):
        self.p.kill()
        self.p.wait()
        self.log.close()


class Ours:
    def __init__(self, a, work, precision, strategy, encoder=None):
        self.name = f"spcore {strategy}" + (f", backbone {encoder}" if encoder else "")
        self.command = [os.path.join(a.build, "spcore"), "run", os.path.join(HERE, "backbones.lua"), "--strategy", strategy,
                        "--steps", str(a.steps), *arguments(work, precision, a), *a.spcore_option]
        if encoder:
            self.command += ["--encoder-precision", encoder]

    def ready(self):
        return self.run() is not None  # tunes, and keeps what it has chosen

    def run(self):
        p = subprocess.run(self.command, capture_output=True, text=True, check=False)
        words = p.stdout.split()
        if p.returncode or len(words) < 2:
            print(f"{self.name}: {(p.stderr or p.stdout).strip()[-400:]}", file=sys.stderr)
            return None
        return float(words[-2])

    def close(self):
        pass


def contest(a, work, precision):
    runners = [Ours(a, work, precision, s) for s in a.strategies]
    if precision == "tf32" and a.device != "cpu":
        runners.append(Ours(a, work, precision, a.strategies[-1], "bf16"))
    runners += [Theirs(a, work, precision, way) for way in a.ways]
    there = [r for r in runners if r.ready()]
    times = {r.name: [] for r in there}
    for _ in range(a.turns):
        for r in there:
            value = r.run()
            if value is not None:
                times[r.name].append(value)
    for r in runners:
        r.close()
    return {name: t for name, t in times.items() if t}


def report(work, precision, times):
    print(f"\n{work}, {precision}, steps/s: median [lowest .. highest]")
    median = {name: statistics.median(t) for name, t in times.items()}
    for name, t in times.items():
        print(f"  {name:32} {median[name]:9.1f} [{min(t):.1f} .. {max(t):.1f}]")
    ours = max((m for name, m in median.items() if name.startswith("spcore") and "backbone" not in name), default=None)
    theirs = max((m for name, m in median.items() if name.startswith("PyTorch")), default=None)
    if ours and theirs:
        print(f"  spcore / PyTorch's best: {ours / theirs:.2f} (asked {WORKS[work][6]}, goal {WORKS[work][7]})")
    sys.stdout.flush()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build")
    p.add_argument("--device", default="cuda")
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--work", default="unet50,probe50")
    p.add_argument("--precision", default="tf32,bf16")
    p.add_argument("--ways", default=",".join(WAYS))
    p.add_argument("--strategies", default="serialized,pipelined")
    p.add_argument("--steps", type=int, default=200)
    p.add_argument("--turns", type=int, default=5)
    p.add_argument("--logs", default=".")
    p.add_argument("--json")
    p.add_argument("--spcore-option", action="append", default=[])
    a = p.parse_args()
    a.ways, a.strategies = [w for w in a.ways.split(",") if w], a.strategies.split(",")
    rows = []
    for work in a.work.split(","):
        for precision in a.precision.split(","):
            times = contest(a, work, precision)
            report(work, precision, times)
            rows.append({"work": work, "precision": precision, "steps_per_s": times})
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=1)


main()
