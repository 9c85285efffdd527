# SPDX-License-Identifier: MIT
"""Sections cls, cls-batches and augment of gpu_table.py: a classifier behind augmentation, and the stages of that."""

import os
import re
import subprocess
import time

import gpu_contest as gc

PROGRAM, SCRIPT = "cls_gpu_torch.py", "examples/reference_cls.lua"
OURS = (
    ("augment gpu, serialized, eager", "gpu", "serialized", "off"),
    ("augment gpu, serialized, captured", "gpu", "serialized", "lane"),
    ("augment gpu, pipelined, eager", "gpu", "pipelined", "off"),
    ("augment gpu, pipelined, captured by lane", "gpu", "pipelined", "lane"),
    ("augment gpu, pipelined, captured by step", "gpu", "pipelined", "step"),
    ("augment cpu, serialized, captured", "cpu", "serialized", "lane"),
    ("augment cpu, pipelined, captured by lane", "cpu", "pipelined", "lane"),
    ("augment gpu, six stages, serialized, captured", "gpu", "serialized", "lane", "--no-fused"),
    ("augment gpu, six stages, pipelined, captured by lane", "gpu", "pipelined", "lane", "--no-fused"),
)
EAGER, CAPTURED, EAGER_PIPELINED, BY_LANE, BY_STEP, CPU, CPU_PIPELINED = ("spcore " + way[0] for way in OURS[:7])
SLOW = ("cpu", "serialized", "streams", "streams-pinned")
THEIRS = (
    ("augmentation on CPU workers", "cpu"),
    ("loop over samples, serialized", "serialized"),
    ("loop over samples, two streams", "streams"),
    ("loop over samples, two streams, pinned", "streams-pinned"),
    ("vectorised, serialized", "vector"),
    ("vectorised, two streams", "vector-streams"),
    ("no loader, vectorised", "resident"),
    ("no loader, graph of 2 streams, channels last", "graph"),
    ("no loader, compile max-autotune, channels last", "compile"),
    ("no loader, compile of operators, channels last", "compile-ops"),
)
SWEEP = ("cpu", "serialized", "streams-pinned", "vector-streams", "graph")
AHEAD = {"to_float", "batch_crop", "resize", "batch_rotate", "blur", "normalize", "flip", "color_jitter", "augment"}
BEST_TARGET, SEED_TARGET, CPU_TARGET, COPY_TARGET = 2.5, 8.0, 4.0, 60.0


def wanted(b, name):
    return not b.a.rows or any(word in name for word in b.a.rows)


def need_rows(b, rows):
    if not rows:
        raise gc.Failed(f"--rows {','.join(b.a.rows)}: no row's name holds any of these")


def options(b, augment):
    """As many threads and readers as PyTorch has workers; pinned memory for the largest batch, augmented on the CPU."""
    return ["--augment", augment, "--workers", str(b.a.workers), "--threads", str(b.a.workers), "--pinned", "4096"]


def ours(b, way, batch, steps):
    name, augment, strategy, capture, *more = way
    a = b.a
    return gc.Row(
        "spcore " + name,
        lambda: b.spcore.block(
            steps, a.warm_up, batch, a.precision, strategy, capture, script=SCRIPT, options=options(b, augment) + more
        )[0],
    )


def theirs(b, name, way, batch, steps, peer=None):
    return b.theirs(name, way, batch, b.a.precision, steps, peer, min(10, b.a.warm_up), PROGRAM)


def available(b, way):
    return b.spcore.cuda or way in ("cpu", "serialized", "vector", "resident")


def overlap(b, augment, rates, pairs):
    """What overlapping could gain by the times of the stages, beside what it did gain."""
    a = b.a
    path = os.path.join(a.out, f"trace_cls_{augment}.json")
    try:
        b.spcore.block(
            a.trace_steps,
            a.warm_up,
            a.cls_batch,
            a.precision,
            "serialized",
            "off",
            ["--trace", path],
            SCRIPT,
            options(b, augment),
        )
        times = gc.stage_times(path)
    except (gc.Failed, OSError, ValueError) as e:
        print(f"ideal overlap, augment {augment}: failed: {e}")
        return
    print(f"augment {augment}, serialized, us: {gc.longest_first(times)}")
    ideal, words = gc.ideal_overlap(times, AHEAD, ("augmentation", "training"))
    print(f"ideal overlap, augment {augment}: {words}")
    if not ideal:
        return
    b.raw.append({"section": "cls", "augment": augment, "stages_us": times, "ideal_overlap": ideal})
    for fast, slow in pairs:
        if rates.get(fast) and rates.get(slow):
            print(f"achieved: {fast[7:]} / {slow[7:]} = {rates[fast] / rates[slow]:.3f}")


def ratio(rates, ours_of, of):
    """The best of some rows, times the best of others."""
    top, base = ([rates[n] for n in names if rates.get(n)] for names in (ours_of, of))
    return max(top) / max(base) if top and base else None


def section(b):
    a = b.a
    steps = {way: a.slow_steps if way in SLOW else a.steps for _, way in THEIRS}
    peers = [
        theirs(b, name + (f" ({steps[way]} steps)" if way in SLOW else ""), way, a.cls_batch, steps[way])
        for name, way in THEIRS
        if available(b, way) and wanted(b, "PyTorch " + name)
    ]
    rows = peers + [
        ours(b, way, a.cls_batch, a.steps)
        for way in OURS
        if wanted(b, "spcore " + way[0]) and (b.spcore.captures or way[3] == "off" or way[1] == "cpu")
    ]
    need_rows(b, rows)
    done = gc.contest(rows, a.runs, b.deadline)
    best = max((r.median for r in peers if r.rates), default=None)
    print(
        f"\ncls: batch {a.cls_batch}, {a.size} x {a.size}, {a.precision}, {done} turns of {a.steps} steps where no "
        f"other number stands, warm-up {a.warm_up}, of PyTorch {min(10, a.warm_up)}, {a.workers} workers"
    )
    gc.head("", "x best" if best else "")
    for row in rows:
        print(row.text(best))
        b.keep("cls", row, a.precision, a.cls_batch, steps_of(row, a))
    print(
        "spcore reads a new batch from its loader each step in all of its rows, with as many readers and threads as "
        "PyTorch has workers; x best: times the best PyTorch row"
    )
    rates = {row.name: row.median for row in rows}
    seed = [n for n in rates if n.startswith("PyTorch loop") and "pinned" not in n]
    workers = [n for n in rates if n.startswith("PyTorch augmentation on CPU")]
    gpu = [EAGER, CAPTURED, EAGER_PIPELINED, BY_LANE, BY_STEP]
    gc.verdict(
        "augment gpu, best strategy, times the best PyTorch",
        ratio(rates, gpu, [r.name for r in peers]),
        BEST_TARGET,
        "x",
    )
    gc.verdict("augment gpu, best strategy, times the better seed script", ratio(rates, gpu, seed), SEED_TARGET, "x")
    gc.verdict("augment cpu, times PyTorch's workers", ratio(rates, [CPU, CPU_PIPELINED], workers), CPU_TARGET, "x")
    gc.verdict("augment gpu, pipelined / serialized", ratio(rates, gpu[2:], gpu[:2]), 1.0, "x")
    overlap(b, "gpu", rates, ((EAGER_PIPELINED, EAGER), (BY_LANE, CAPTURED), (BY_STEP, CAPTURED)))
    overlap(b, "cpu", rates, ((CPU_PIPELINED, CPU),))


def cell(rates, name):
    return "-" if name not in rates else f"{rates[name]:.1f}" if rates[name] else "failed"


def steps_of(row, a):
    found = re.search(r"\((\d+) steps\)$", row.name)
    return int(found.group(1)) if found else a.steps


def section_batches(b):
    """A line a batch. One process a way of PyTorch serves all of them."""
    a = b.a
    ways = [
        (name, way)
        for name, way in THEIRS
        if (way in SWEEP or way == "compile" and a.sweep_compile) and available(b, way) and wanted(b, "PyTorch " + name)
    ]
    mine = [
        way
        for way in OURS
        if "spcore " + way[0] in (CAPTURED, BY_LANE, CPU, CPU_PIPELINED) and wanted(b, "spcore " + way[0])
    ]
    need_rows(b, ways + mine)
    peers = {way: gc.Peer(a, PROGRAM) for _, way in ways}
    print(f"\ncls-batches: {a.size} x {a.size}, {a.precision}, median steps/s of {a.batch_runs} turns")
    names = ["PyTorch " + n for n, _ in ways] + ["spcore " + way[0] for way in mine]
    short = [f"P{k + 1}" for k in range(len(ways))] + [f"S{k + 1}" for k in range(len(mine))]
    for column, name in zip(short, names):
        print(f"  {column}: {name}")
    print(f"{'batch':>5} {'steps':>9}" + "".join(f"{n:>9}" for n in short) + f"{'x best':>8}{'gain':>7}")
    for batch in a.cls_batches:
        if time.monotonic() > b.deadline:
            print(f"{batch:5} left out, as larger ones: the time is up")
            break
        scale = min(1.0, a.cls_batch / batch)
        fast, slow = max(min(20, a.steps), int(a.steps * scale)), max(min(8, a.slow_steps), int(a.slow_steps * scale))
        there = [(n, way) for n, way in ways if way != "compile" or batch in a.sweep_compile]
        rows = [theirs(b, n, way, batch, slow if way in SLOW else fast, peers[way]) for n, way in there]
        rows += [ours(b, way, batch, fast) for way in mine]
        gc.contest(rows, a.batch_runs, b.deadline)
        for k, row in enumerate(rows):
            b.keep("cls-batches", row, a.precision, batch, slow if k < len(there) and there[k][1] in SLOW else fast)
        rates = {row.name: row.median for row in rows}
        best = ratio(rates, [CAPTURED, BY_LANE], [r.name for r in rows[: len(there)]])
        gain = ratio(rates, [BY_LANE], [CAPTURED])
        print(
            f"{batch:5} {f'{fast}/{slow}':>9}"
            + "".join(f"{cell(rates, name):>9}" for name in names)
            + (f"{best:8.2f}" if best else f"{'':8}")
            + (f"{gain:7.2f}" if gain else ""),
            flush=True,
        )
        for row in rows:
            if row.why:
                print(f"      {row.name} failed: {row.why}")
    for peer in peers.values():
        peer.close()
    print(
        "steps: of a turn, and of PyTorch's rows with workers or a loop; x best: spcore with augment gpu, times the "
        "best PyTorch row; gain: pipelined / serialized, augment gpu, captured"
    )


def section_augment(b):
    a = b.a
    program = os.path.join(a.build, "tests", "bench", "bench_augment")
    device = a.device if b.spcore.cuda else "cpu"
    command = [program, device, str(a.cls_batch), str(a.size), str(a.augment_mib), str(a.augment_repeats)]
    path = {**os.environ, "SPCORE_PLUGIN_PATH": os.path.join(a.build, ".libs")}
    print(flush=True)
    try:
        p = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300, check=False, env=path
        )
    except subprocess.TimeoutExpired as e:
        raise gc.Failed("no end after 300 s") from e
    except OSError as e:
        raise gc.Failed(f"{program}: {e.strerror}; make check builds it") from e
    print(p.stdout.rstrip())
    if p.returncode and p.stderr.strip():
        raise gc.Failed(gc.last_line(p.stderr))
    number = r" +([0-9.]+)"
    rows = re.findall(r"^(\S.*?)" + number * 9 + "%$", p.stdout, re.M)
    keys = ("mb", "sets", "us", "least", "most", "gb_s", "kernel_gb_s", "copy_gb_s", "percent")
    for name, *values in rows:
        b.raw.append({"section": "augment", "stage": name, **dict(zip(keys, map(float, values)))})
    if not b.spcore.cuda:
        return  # a cache of the processor is another thing to compare with
    missed = [name for name, *values in rows if float(values[-1]) < COPY_TARGET]
    print(f"target: share of a copy >= {COPY_TARGET:.0f}%: {len(rows) - len(missed)} of {len(rows)} rows reached it")
    for name in missed:
        print(f"  MISSED: {name}")
