#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The augmentation of the cls workload on the CPU, spcore beside torchvision in a DataLoader with as many workers, in
turns: A B C A B C ... in one go, each a process of its own.

Prints a table: images/s as median and spread (least..most) over the rounds; then spcore's time per stage and lane. Both
sides do the stages that this spcore has, and the table says which. Threads and workers: as many as processors; for
fewer use taskset, since spcore's lanes and readers are threads of their own.

  cls_cpu.py SPCORE [--size 256] [--batch 32] [--threads N] [--steps 40] [--warmup 6] [--rounds 5] [--json FILE]
             [--python PYTHON]...
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CHAIN = ("batch_crop", "resize", "batch_rotate", "blur", "normalize")  # augment_torch.py needs PyTorch
TARGET = 2.0


def run(command):
    p = subprocess.run(command, capture_output=True, text=True, cwd=tempfile.gettempdir(), check=False)
    if p.returncode:
        sys.exit(f"cls_cpu.py: {' '.join(command)} failed:\n{p.stdout}{p.stderr}")
    return p.stdout


def rate(text):
    found = re.search(r'"images_per_s": ([0-9.]+)', text) or re.search(r"([0-9.]+) images/s", text)
    if not found:
        sys.exit(f"cls_cpu.py: no images/s in:\n{text}")
    return float(found.group(1))


def there(spcore):
    """Which stages of the chain this spcore has."""
    def has(stage):
        return subprocess.run([spcore, "inspect", stage], capture_output=True, check=False).returncode == 0

    return [s for s in CHAIN if has(s)]


def twins(pythons, common, warmup):
    out = {}
    for python in pythons:
        code = "import torch, torchvision; print(torch.__version__, torchvision.__version__)"
        found = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
        if found.returncode:
            print(f"{python} has no PyTorch with torchvision: left out", file=sys.stderr)
            continue
        versions = "torch {}, torchvision {}".format(*found.stdout.split())
        out[versions] = [python, "-B", os.path.join(HERE, "cls_torch.py"), *common, f"--warmup={warmup}"]
    return out


def main():
    p = argparse.ArgumentParser()
    p.add_argument("spcore")
    for name, value in (("size", 256), ("batch", 32), ("threads", len(os.sched_getaffinity(0))), ("steps", 40),
                        ("warmup", 6), ("rounds", 5)):
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--python", action="append", help="a Python with PyTorch and torchvision; may be repeated")
    p.add_argument("--json")
    a = p.parse_args()
    spcore = os.path.abspath(a.spcore)
    stages = there(spcore)
    if not stages:
        sys.exit(f"cls_cpu.py: {spcore} has none of {', '.join(CHAIN)}")
    common = [f"--size={a.size}", f"--batch={a.batch}", f"--threads={a.threads}", f"--steps={a.steps}",
              f"--stages={','.join(stages)}"]
    ours = [spcore, "run", os.path.join(HERE, "augment.lua"), "--device=cpu", *common, f"--warm-up={a.warmup}",
            f"--workers={a.threads}"]
    theirs = twins(a.python or ["/usr/bin/python3"], common, a.warmup)
    ways = {"spcore, serialized": ours, "spcore, a lane a stage": ours + ["--deep"]}
    if stages == list(CHAIN):
        fused = [w for w in ours if not w.startswith("--stages=")] + ["--stages=augment"]
        ways.update({"spcore, one stage": fused, "spcore, one stage, a lane of its own": fused + ["--deep"]})
    ways.update(theirs)
    rates = {w: [] for w in ways}
    for _ in range(a.rounds):
        for way, command in ways.items():
            rates[way].append(rate(run(command)))
    with tempfile.TemporaryDirectory() as folder:
        shares = {way: run(command + [f"--trace={folder}/trace.json"]).split("\n", 1)[1].rstrip()
                  for way, command in ways.items() if way not in theirs}
    missing = [s for s in CHAIN if s not in stages]
    print(f"augmentation of cls on the CPU: {', '.join(stages)}{'; without ' + ', '.join(missing) if missing else ''}\n"
          f"{a.size} x {a.size}, batch {a.batch}, {a.threads} threads or workers, {a.steps} steps after {a.warmup}, "
          f"{a.rounds} rounds in turns")
    best = max((statistics.median(rates[w]) for w in theirs), default=None)
    print(f"{'':44} {'images/s':>9} {'least':>9} {'most':>9} {'x best' if best else '':>7}")
    for way, r in rates.items():
        times = f"{statistics.median(r) / best:7.2f}" if best else ""
        print(f"{way:44} {statistics.median(r):9.1f} {min(r):9.1f} {max(r):9.1f} {times}")
    if best:
        top = max(statistics.median(r) for w, r in rates.items() if w not in theirs) / best
        print(f"target: spcore, times torchvision in as many workers >= {TARGET}: {top:.2f}, "
              f"{'reached' if top >= TARGET else 'MISSED'}")
    for way, words in shares.items():
        print(f"\n{way}, time per stage in one more run\n{words}")
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump({"options": vars(a), "stages": stages, "images_per_s": rates, "shares": shares}, f, indent=1)


if __name__ == "__main__":
    main()
