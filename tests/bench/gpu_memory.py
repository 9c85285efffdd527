# SPDX-License-Identifier: MIT
"""Section memory of gpu_table.py: what is allocated between the warm-up and the last step. Nothing should be."""

import os
import re
import subprocess

import gpu_contest as gc
import gpu_log


def device_bytes():
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    try:
        return [
            int(x) << 20
            for x in subprocess.run(query, capture_output=True, text=True, timeout=20, check=True).stdout.split()
        ]
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def process_bytes(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        found = dict(re.findall(r"^(VmRSS|VmLck|VmPin):\s+(\d+) kB", f.read(), re.M))
    return {k: int(v) << 10 for k, v in found.items()}


def watch(b, strategy, capture, log):
    """At the pauses of the script: (word, time, allocations of the core, bytes of the process, bytes of the GPUs)."""
    a = b.a
    command = b.spcore.command(os.path.join(gc.HERE, "seg_gpu.lua"), a.batch, a.precision, strategy, capture)
    command += ["--warm-up", str(a.warm_up), "--steps", str(a.memory_steps - a.warm_up), "--pause"]
    p = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=b.folder,
        env=gpu_log.environment(b, log, "memory"),
    )
    seen = []
    try:
        for line in p.stdout:
            words = line.split()
            if words[:1] not in (["warm"], ["end"]):  # a notice
                continue
            seen.append((words[0], float(words[1]), int(words[2]), process_bytes(p.pid), device_bytes()))
            p.stdin.write("\n")
            p.stdin.flush()
        why = p.stderr.read()
        if p.wait() or len(seen) != 2:
            raise gc.Failed(gc.last_line(why))
    finally:
        if p.poll() is None:
            p.kill()
            p.wait()
        for f in (p.stdin, p.stdout, p.stderr):
            f.close()
    return seen


def section(b):
    strategy, capture = "pipelined", "auto"
    log = os.path.join(b.a.out, "memory.log")
    warm, end = watch(b, strategy, capture, log)
    print(f"\nmemory: {strategy}, captured, step {b.a.warm_up} .. {b.a.memory_steps}")
    print(f"{'':36} {'after warm-up':>16} {'at the end':>16}")
    rows = [("allocations of the core for steps", warm[2], end[2])]
    rows += [(f"process, {k}, bytes", warm[3][k], end[3].get(k, 0)) for k in sorted(warm[3])]
    for i, used in enumerate(warm[4] or []):
        rows.append((f"GPU {i} in use, bytes", used, (end[4] or {})[i] if end[4] else -1))
    for name, x, y in rows:
        print(f"{name:36} {x:16} {y:16}{'' if x == y else '   differs'}")
    b.raw.append({"section": "memory", "rows": rows})
    events = gpu_log.read(log)
    if not events["memory"]:
        print(f"calls that allocate or free: not counted: {events['why']}")
        return
    before = [e for e in events["memory"] if e["time"] < warm[1]]
    within = [e for e in events["memory"] if warm[1] <= e["time"] <= end[1]]
    total = sum(e["bytes"] for e in before if e["what"] == "alloc")
    print(
        f"calls that allocate or free: {len(before)} before ({total} bytes allocated), {len(within)} after the warm-up"
    )
    for e in within[:10]:
        print(f"  {e['what']} {e['kind']} {e['bytes']} bytes, {e['time'] - warm[1]:.3f} s after the warm-up")
