#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The table behind gpu.sh: sections of measurements; where one fails the others go on. docs/gpu.md explains them."""

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time

import gpu_cls
import gpu_contest as gc
import gpu_kernels
import gpu_memory

SECTIONS = ("main", "batches", "bf16", "bits", "memory", "core", "kernels", "cls", "cls-batches", "augment")
OURS = (
    ("serialized, eager", "serialized", "off"),
    ("serialized, captured", "serialized", "auto"),
    ("pipelined, eager", "pipelined", "off"),
    ("pipelined, captured by lane", "pipelined", "lane"),
    ("pipelined, captured by step", "pipelined", "step"),
)
THEIRS = (
    ("serialized, DataLoader", "serialized"),
    ("two streams, DataLoader", "streams"),
    ("two streams, pinned DataLoader", "streams-pinned"),
    ("no loader, eager", "eager"),
    ("no loader, eager, channels last", "eager-cl"),
    ("no loader, compile max-autotune, channels last", "compile"),
    ("no loader, graph of 2 streams, channels last", "graph"),
)
SERIALIZED_TARGET, BEST_TARGET = 1.6, 2.0


class Bench:
    def __init__(self, a, folder):
        self.a, self.folder, self.raw = a, folder, []
        self.spcore = gc.Spcore(a, folder)
        self.deadline = time.monotonic() + a.budget

    def keep(self, section, row, precision, batch, steps):
        for k, rate in enumerate(row.rates):
            self.raw.append(
                {
                    "section": section,
                    "contestant": row.name,
                    "precision": precision,
                    "batch": batch,
                    "steps": steps,
                    "round": k,
                    "steps_per_s": rate,
                }
            )
        if row.why:
            self.raw.append(
                {"section": section, "contestant": row.name, "precision": precision, "batch": batch, "why": row.why}
            )

    def ours(self, name, strategy, capture, batch, precision, steps):
        a = self.a
        return gc.Row(
            "spcore " + name, lambda: self.spcore.block(steps, a.warm_up, batch, precision, strategy, capture)[0]
        )

    def theirs(self, name, way, batch, precision, steps, peer=None, warm_up=None, program="seg_gpu_torch.py"):
        close, peer = not peer, peer or gc.Peer(self.a, program)
        warm_up = self.a.warm_up if warm_up is None else warm_up
        set_up = {"do": "setup", "way": way, "batch": batch, "precision": precision, "warmup": warm_up}
        return gc.Row(
            "PyTorch " + name,
            lambda: peer.ask(do="run", steps=steps)["steps_per_s"],
            lambda: peer.ask(self.a.setup_limit, **set_up),
            peer.close if close else None,
        )

    def contest(self, section, title, precision, batch, ways, rounds, steps):
        """The PyTorch rows of `ways` and all of ours, in one table; the best PyTorch row is what ratios are of."""
        cuda = self.spcore.cuda
        theirs = [
            self.theirs(name, way, batch, precision, steps)
            for name, way in THEIRS
            if way in ways
            and (cuda or way in ("serialized", "eager", "eager-cl"))
            and gpu_cls.wanted(self, "PyTorch " + name)
        ]
        ours = [
            self.ours(*way, batch, precision, steps)
            for way in OURS
            if (self.spcore.captures or way[2] == "off") and gpu_cls.wanted(self, "spcore " + way[0])
        ]
        gpu_cls.need_rows(self, theirs + ours)
        done = gc.contest(theirs + ours, rounds, self.deadline)
        best = max((r.median for r in theirs if r.rates), default=None)
        print(
            f"\n{title}: batch {batch}, {self.a.size} x {self.a.size}, {precision}, {done} turns of {steps} steps, "
            f"warm-up {self.a.warm_up}"
        )
        gc.head("", "x best" if best else "")
        for row in theirs + ours:
            print(row.text(best))
            self.keep(section, row, precision, batch, steps)
        print(
            "spcore reads a new batch from its loader each step in all of its rows; x best: times the best PyTorch row"
        )
        return {r.name: r.median for r in ours}, best


def overlap(b, rates):
    """What overlapping could gain by the times of the stages, beside what it did gain."""
    path = os.path.join(b.a.out, "trace.json")
    try:
        b.spcore.block(b.a.trace_steps, b.a.warm_up, b.a.batch, b.a.precision, "serialized", "off", ["--trace", path])
        times = gc.stage_times(path)
    except (gc.Failed, OSError, ValueError) as e:
        print(f"ideal overlap: failed: {e}")
        return
    print("serialized, us: " + gc.longest_first(times))
    ideal, words = gc.ideal_overlap(times, ("encoder", "to_float"), ("encoder", "rest"))
    print(f"ideal overlap: {words}")
    if not ideal:
        return
    b.raw.append({"section": "main", "stages_us": times, "ideal_overlap": ideal})
    for ours, base in ((OURS[2], OURS[0]), (OURS[3], OURS[1]), (OURS[4], OURS[1])):
        fast, slow = rates.get("spcore " + ours[0]), rates.get("spcore " + base[0])
        if fast and slow:
            print(f"achieved: {ours[0]} / {base[0]} = {fast / slow:.3f}")


def section_main(b):
    a = b.a
    rates, best = b.contest("main", "seg", a.precision, a.batch, [way for _, way in THEIRS], a.runs, a.steps)
    serialized, any_of_ours = rates.get("spcore " + OURS[1][0]), max((r for r in rates.values() if r), default=None)
    gc.verdict(
        "serialized, captured, times the best PyTorch",
        serialized and best and serialized / best,
        SERIALIZED_TARGET,
        "x",
    )
    gc.verdict("best strategy, times the best PyTorch", any_of_ours and best and any_of_ours / best, BEST_TARGET, "x")
    overlap(b, rates)


def section_batches(b):
    a = b.a
    names = ("PyTorch eager, loader", "PyTorch eager, no loader", "serialized", "pipelined")
    print(f"\nbatches: {a.size} x {a.size}, {a.precision}, median steps/s of {a.batch_runs} turns")
    print(f"{'batch':>5} {'steps':>6}" + "".join(f"{n:>26}" for n in names) + f"{'gain':>7}")
    loader, resident = gc.Peer(a), gc.Peer(a)
    for batch in a.batches:
        if time.monotonic() > b.deadline:
            print(f"{batch:5} left out, as larger ones: the time is up")
            break
        steps = max(a.least_steps, min(a.steps, a.steps * 8 // batch))
        rows = [
            b.theirs("eager, loader", "serialized", batch, a.precision, steps, loader),
            b.theirs("eager, no loader", "eager", batch, a.precision, steps, resident),
            b.ours("serialized, captured", "serialized", "auto", batch, a.precision, steps),
            b.ours("pipelined, captured", "pipelined", "auto", batch, a.precision, steps),
        ]
        gc.contest(rows, a.batch_runs, b.deadline)
        for row in rows:
            b.keep("batches", row, a.precision, batch, steps)
        cells = "".join(f"{row.median:26.1f}" if row.rates else f"{'failed':>26}" for row in rows)
        gain = f"{rows[3].median / rows[2].median:7.2f}" if rows[2].rates and rows[3].rates else ""
        print(f"{batch:5} {steps:6}{cells}{gain}")
        for row in rows:
            if row.why:
                print(f"      {row.name} failed: {row.why}")
    loader.close()
    resident.close()
    print("gain: pipelined / serialized")


def section_bf16(b):
    b.contest("bf16", "seg in bf16", "bf16", b.a.batch, ("eager-cl", "compile", "graph"), b.a.bf16_runs, b.a.steps)
    print(
        "PyTorch: autocast to bfloat16 over float32 weights; spcore: bfloat16 activations and products, float32 weights"
    )


def weights_hash(b, strategy, capture, steps):
    path = os.path.join(b.folder, "w.safetensors")
    command = b.spcore.command(os.path.join(gc.HERE, "seg_gpu.lua"), b.a.batch, b.a.precision, strategy, capture)
    b.spcore.call(command + ["--warm-up", "1", "--steps", str(steps - 1), "--save", path])
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while chunk := f.read(1 << 22):
            digest.update(chunk)
    os.remove(path)
    return digest.hexdigest()


def section_bits(b):
    steps = b.a.bit_steps
    print(f"\nbits: weights after {steps} steps, batch {b.a.batch}, {b.a.precision}")
    captures = ("off", "lane", "step") if b.spcore.captures else ("off",)
    found, failed = set(), 0
    for strategy in ("serialized", "pipelined"):
        for capture in captures:
            try:
                value = weights_hash(b, strategy, capture, steps)
                found.add(value)
                print(f"{strategy + ', capture ' + capture:32} {value}")
                b.raw.append(
                    {"section": "bits", "strategy": strategy, "capture": capture, "steps": steps, "sha256": value}
                )
            except (gc.Failed, OSError) as e:
                failed += 1
                print(f"{strategy + ', capture ' + capture:32} failed: {e}")
    try:
        less = weights_hash(b, "serialized", captures[0], steps - 1)
    except (gc.Failed, OSError) as e:
        print(f"one step less: failed: {e}")
        return
    same = len(found) == 1 and not failed and less not in found
    print(
        f"{'the same bytes every way' if same else 'NOT the same bytes'}; one step less gives "
        f"{'others' if less not in found else 'the SAME: nothing was trained'}"
    )


def section_core(b):
    tests = os.path.join(b.a.build, "tests")
    plugin = os.path.join(tests, "plugins", ".libs", "toy_cuda.so" if b.spcore.cuda else "toy.so")
    command = [os.path.join(tests, "bench", "bench_core"), plugin, b.a.device, str(b.a.core_steps)]
    print("\ncore")
    try:
        found = {**os.environ, "SPCORE_PLUGIN_PATH": os.path.abspath(os.path.join(b.a.build, ".libs"))}  # the device
        print(b.spcore.call([os.path.abspath(command[0]), os.path.abspath(plugin), *command[2:]], env=found).rstrip())
    except gc.Failed as e:
        print(f"failed: {e}")


def section_memory(b):
    gpu_memory.section(b)


def section_kernels(b):
    gpu_kernels.section(b)


def section_cls(b):
    gpu_cls.section(b)


def section_cls_batches(b):
    gpu_cls.section_batches(b)


def section_augment(b):
    gpu_cls.section_augment(b)


def parse():
    p = argparse.ArgumentParser(prog="gpu.sh", formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("build", nargs="?", default="build", metavar="BUILD-DIR", help="where spcore was built")
    p.add_argument("-s", "--sections", default=",".join(SECTIONS), help="which, with commas")
    p.add_argument("--out", default=os.environ.get("OUT") or "gpu-results", help="folder of results")
    p.add_argument("--device", default="cuda")
    p.add_argument("--precision", default="tf32", choices=("fp32", "tf32"), help="of both sides, but for bf16")
    p.add_argument("--batches", default="1,2,4,8,16,32,64,128")
    p.add_argument("--cls-batches", default="8,16,32,64,128,256")
    p.add_argument("--rows", default="", help="of main, bf16, cls and cls-batches: whose names hold one of these, with commas")
    p.add_argument("--sweep-compile", default="", help="those of --cls-batches that have a row of torch.compile: minutes each")
    p.add_argument("--quick", action="store_true", help="tiny sizes, few steps: does the script itself work?")
    p.add_argument(
        "--spcore-option", action="append", default=[], metavar="OPTION", help="one more for spcore run, --x=y"
    )
    for name, value, doc in (
        ("size", 256, "pixels of a side"),
        ("batch", 8, "images a step"),
        ("cls-batch", 32, "images a step of cls and of augment"),
        ("steps", 300, "steps of a run"),
        ("slow-steps", 60, "steps of a run of the rows of cls that take long"),
        ("runs", 5, "turns of the main table"),
        ("warm-up", 50, "steps before the timed ones"),
        ("batch-runs", 2, "turns for each batch size"),
        ("bf16-runs", 3, "turns of the bf16 table"),
        ("least-steps", 40, "steps of a run of the largest batch"),
        ("augment-repeats", 30, "measurements of each stage of augment"),
        ("augment-mib", 256, "MiB of buffers in turn there: more than any cache holds"),
        ("bit-steps", 200, "steps before weights are compared"),
        ("memory-steps", 20000, "steps while memory is watched"),
        ("trace-steps", 100, "steps of a trace"),
        ("core-steps", 20000, "steps of a run of empty stages"),
        ("budget", 450, "seconds after which no turn begins"),
        ("setup-limit", 240, "seconds that PyTorch may compile"),
        ("workers", min(8, os.cpu_count() or 1), "of PyTorch's DataLoader"),
    ):
        p.add_argument("--" + name, type=int, default=value, help=doc)
    for name, value, doc in (
        ("bandwidth", 4.26, "TB/s of device memory, for the floor"),
        ("tflops", 413.0, "TFLOP/s of the products, for the floor"),
        ("pcie", 55.0, "GB/s of copies from pinned memory, for the floor"),
    ):
        p.add_argument("--" + name, type=float, default=value, help=doc)
    a = p.parse_args()
    if a.quick:
        a.size, a.batch, a.batches, a.steps, a.runs, a.warm_up = 32, 2, "1,2", 6, 2, 3
        a.batch_runs, a.bf16_runs, a.least_steps, a.bit_steps, a.memory_steps, a.trace_steps = 1, 1, 4, 5, 40, 8
        a.core_steps, a.workers = 200, 0
        a.cls_batch, a.cls_batches, a.slow_steps, a.augment_repeats, a.augment_mib = 2, "2,3", 4, 3, 0
    if not a.device.startswith("cuda"):
        a.precision = "fp32"
    a.sections = [s for s in a.sections.split(",") if s]
    for s in a.sections:
        if s not in SECTIONS:
            p.error(f"no section '{s}': there are {', '.join(SECTIONS)}")
    for option in ("batches", "cls_batches", "sweep_compile"):
        words = [x.strip() for x in getattr(a, option).split(",") if x.strip()]
        if not all(x.isdecimal() and int(x) for x in words):
            p.error(f"--{option.replace('_', '-')} {getattr(a, option)}: batches are whole numbers above 0, with commas")
        setattr(a, option, [int(x) for x in words])
    if not set(a.sweep_compile) <= set(a.cls_batches):
        p.error(f"--sweep-compile lists batches that are not among --cls-batches {','.join(map(str, a.cls_batches))}")
    a.rows = [x.strip() for x in a.rows.split(",") if x.strip()]
    a.build = os.path.abspath(a.build)
    if not os.access(os.path.join(a.build, "spcore"), os.X_OK):
        p.error(f"there is no program {a.build}/spcore")
    a.out = os.path.abspath(a.out)
    return a


def machine(a):
    out = {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "host": platform.platform(),
        "cpus": os.cpu_count(),
        "device": a.device,
    }
    try:
        query = ["nvidia-smi", "--query-gpu=name,driver_version,clocks.sm,memory.total", "--format=csv,noheader"]
        out["gpu"] = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        out["gpu"] = "nvidia-smi gives nothing"
    try:
        peer = gc.Peer(a)
        out.update({"torch " + k: v for k, v in peer.loaded().items() if k != "ok"})
    except gc.Failed as e:
        out["torch"] = f"none: {e}"
    peer.close()
    return out


def main():
    a = parse()
    sys.stdout.reconfigure(line_buffering=True)  # what is printed is kept though the time for all be up
    os.makedirs(a.out, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        b = Bench(a, folder)
        about = machine(a)
        for k, v in about.items():
            print(f"{k}: {v}")
        for name in SECTIONS:
            if name not in a.sections:
                continue
            if time.monotonic() > b.deadline:
                print(f"\n{name}: left out, the {a.budget} s of --budget are up")
                continue
            began = time.monotonic()
            try:
                globals()["section_" + name.replace("-", "_")](b)
            except (gc.Failed, OSError, ValueError, KeyError, subprocess.SubprocessError) as e:
                print(f"\n{name}: failed: {e if isinstance(e, gc.Failed) else repr(e)}")
            print(f"({name}: {time.monotonic() - began:.0f} s)", flush=True)
            with open(os.path.join(a.out, "gpu.json"), "w", encoding="utf-8") as f:
                json.dump({"machine": about, "options": vars(a), "raw": b.raw}, f, indent=1)
    with open(os.path.join(a.out, "gpu.tsv"), "w", encoding="utf-8") as f:
        f.write("section\tcontestant\tprecision\tbatch\tsteps\tround\tsteps_per_s\n")
        for r in b.raw:
            if "steps_per_s" in r:
                f.write(
                    "\t".join(
                        str(r[k])
                        for k in ("section", "contestant", "precision", "batch", "steps", "round", "steps_per_s")
                    )
                    + "\n"
                )
    print(f"\nall runs: {a.out}/gpu.json, gpu.tsv")
    return 0


if __name__ == "__main__":
    sys.exit(main())
