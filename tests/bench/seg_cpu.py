#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The seg workload on the CPU, spcore beside PyTorch, in turns: A B C A B C ... in one go, each a process of its own.

Prints a table: steps/s as median and spread (least..most) over the rounds, and the peak memory of the process; then spcore's
time per stage and lane.

  seg_cpu.py SPCORE [--size 256] [--batch 8] [--threads 2] [--steps 20] [--warmup 3] [--rounds 5] [--json FILE]
             [--python PYTHON]... [--channels-last]
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


def run(command):
    """Runs it; returns its output and peak memory in MiB."""
    with tempfile.TemporaryFile("w+") as out:
        p = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=tempfile.gettempdir())
        _, status, usage = os.wait4(p.pid, 0)
        out.seek(0)
        text = out.read()
    if status != 0:
        sys.exit(f"seg_cpu.py: {' '.join(command)} failed:\n{text}")
    return text, usage.ru_maxrss / 1024


def main():
    p = argparse.ArgumentParser()
    p.add_argument("spcore")
    for name, value in (("size", 256), ("batch", 8), ("threads", 2), ("steps", 20), ("warmup", 3), ("rounds", 5)):
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--python", action="append", help="a Python with PyTorch; may be repeated")
    p.add_argument("--channels-last", action="store_true", help="PyTorch in channels-last too")
    p.add_argument("--json")
    a = p.parse_args()
    common = [f"--{k}={v}" for k, v in (("size", a.size), ("batch", a.batch), ("threads", a.threads), ("steps", a.steps))]
    ways = {}
    with tempfile.TemporaryDirectory() as folder:
        for strategy in ("serialized", "pipelined"):
            ways["spcore " + strategy] = [os.path.abspath(a.spcore), "run", "reference_seg.lua", "--quiet", *common,
                                          f"--warm-up={a.warmup}", "--strategy=" + strategy]
        for python in a.python or ["/usr/bin/python3"]:
            twin = [python, os.path.join(HERE, "seg_torch.py"), *common, f"--warmup={a.warmup}"]
            version = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True)
            if version.returncode:
                print(f"{python} has no PyTorch: left out", file=sys.stderr)
                continue
            ways[f"PyTorch {version.stdout.strip()}"] = twin
            if a.channels_last:
                ways[f"PyTorch {version.stdout.strip()} channels last"] = twin + ["--channels-last"]
        rates, peaks = {w: [] for w in ways}, {w: [] for w in ways}
        for k in range(a.rounds):
            for way, command in ways.items():
                extra = [f"--out={folder}/{k}{way.replace(' ', '_')}"] if way.startswith("spcore") else []
                text, peak = run(command + extra)
                found = re.search(r'"steps_per_s": ([0-9.]+)', text) or re.search(r"([0-9.]+) steps/s", text)
                rates[way].append(float(found.group(1)))
                peaks[way].append(peak)
        stages = {}
        for way, command in ways.items():
            if way.startswith("spcore"):
                text, _ = run([c for c in command if c != "--quiet"] +
                              [f"--trace={folder}/trace.json", f"--out={folder}/trace{way.replace(' ', '_')}"])
                stages[way] = text[text.index("stage  "):text.rindex("\n", 0, -1)]
    print(f"seg workload, {a.size} x {a.size}, batch {a.batch}, {a.threads} threads, {a.steps} steps after {a.warmup}, "
          f"{a.rounds} rounds in turns")
    print(f"{'':36} {'steps/s':>9} {'least':>9} {'most':>9} {'peak MiB':>9}")
    for way in ways:
        r = rates[way]
        print(f"{way:36} {statistics.median(r):9.3f} {min(r):9.3f} {max(r):9.3f} {max(peaks[way]):9.0f}")
    for way, table in stages.items():
        print(f"\n{way}, time per stage in one more run\n{table}")
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump({"options": vars(a), "steps_per_s": rates, "peak_mib": peaks, "stages": stages}, f, indent=1)


if __name__ == "__main__":
    main()
