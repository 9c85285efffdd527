# SPDX-License-Identifier: MIT
# needs no torch
"""The ideal overlap that tests/bench prints counts stages and copies, each once: a trace also has what the host does."""
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ.get("top_srcdir", "."), "tests", "bench"))
import gpu_contest

CALLS = {"to_float forward": 24, "encoder forward": 120, "decoder forward": 200, "decoder backward": 350}
CALLS |= {"cross_entropy forward": 48, "image copy": 60, "all block": 5, "all metrics": 6, "reader forward": 9999}
HOST = {"step loop": 820, "script": 40, "host fill(all)": 2, "wait for all metrics": 790, "graph from encoder forward": 9}


def event(name, us, category, step):
    return {"ph": "X", "name": name, "cat": category, "ts": 0, "dur": us, "args": {"step": step}}


def trace(calls):
    """Six steps; the first three, a warm-up, take a hundred times as long."""
    events = [{"ph": "M", "name": "process_name", "args": {"name": "spcore"}}]
    for step in range(6):
        events += [event(name, us * (100 if step < 3 else 1), "call", step) for name, us in calls.items()]
        for name, us in HOST.items():
            category = "wait" if name.startswith("wait") else "graph" if name.startswith("graph") else "host"
            events.append(event(name, us, category, step))
        events.append(event("reader forward", 7777, "worker", step))
    return {"traceEvents": events}


def times(calls):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(trace(calls), f)
        f.flush()
        return gpu_contest.stage_times(f.name)


def check(got, want, what):
    if got != want:
        sys.exit(f"{what}: {got!r} instead of {want!r}")


ahead, names = ("encoder", "to_float"), ("encoder", "rest")
check(times(CALLS), CALLS, "the times of calls")
ideal, words = gpu_contest.ideal_overlap(times(CALLS), ahead, names)
check(words, "(encoder 144 + rest 598 + copies 71) / the largest = 1.360", "the words")
check(round(ideal, 3), 1.36, "the ideal overlap")
alone = {name: us for name, us in CALLS.items() if not name.startswith(ahead)}
check(gpu_contest.ideal_overlap(times(alone), ahead, names)[0], None, "no encoder in the trace")
replicas = {"encoder_2 forward": 10, "decoder forward": 10}
check(gpu_contest.ideal_overlap(replicas, ahead, names)[0], 2.0, "a replica of the encoder")
try:
    times({})
    sys.exit("a trace without calls was taken")
except gpu_contest.Failed:
    pass
