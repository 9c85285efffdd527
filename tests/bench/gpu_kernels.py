# SPDX-License-Identifier: MIT
"""Section kernels of gpu_table.py: what each group of kernels takes, beside the least that its bytes and FLOP need."""

import os
import re

import gpu_contest as gc
import gpu_log

ENCODER, FORWARD, DATA, WEIGHT = "encoder products", "decoder forward", "data gradient", "weight gradient, update"
PATCH = "whole backward of large maps"
NARROW, LOSS, ELEMENTS, COPIES, OTHER = "narrow convolutions", "loss", "elementwise", "copies", "others"
GROUPS = (ENCODER, FORWARD, PATCH, DATA, WEIGHT, NARROW, LOSS, ELEMENTS, COPIES, OTHER)
PATCHES = 2  # layers, from the last one on, whose gradients of data, weights and bias come from one kernel


def floors(batch, size, classes, elt, stem):
    """{group: (bytes, FLOP)} a step: every weight read as often as the mathematics needs, every map that a
    layer makes written once and read once. `elt`: bytes of a map's element. stem: the encoder's first two layers are one,
    and the map between them is in no memory."""
    pixels = batch * size * size
    f = {g: [0, 0] for g in GROUPS}

    def add(group, maps, weights, flop):
        f[group][0] += maps * elt + weights * 4
        f[group][1] += flop

    for level in range(size.bit_length() - 1):
        c = 16 << level
        wide = (pixels >> (2 * level)) * c  # of the larger map
        narrow = wide // 2
        w, flop = 8 * c * c, 2 * narrow * 4 * c
        if stem and level == 0:
            add(ENCODER, pixels * 3 + narrow, w, flop + 2 * pixels * 3 * 16)
        else:
            add(ENCODER, wide + narrow, w, flop)
        add(FORWARD, wide + narrow, w, flop)
        if level < PATCHES:
            add(PATCH, wide + 2 * narrow, 3 * w, 2 * flop)
            continue
        add(WEIGHT, wide + narrow, 2 * w, flop)
        if size >> (level + 1) > 1:  # nobody asks for the gradient of what the encoder gives
            add(DATA, wide + 2 * narrow, w, flop)  # with the output that says where ReLU let pass
    if not stem:
        add(NARROW, pixels * (3 + 16), 0, 2 * pixels * 3 * 16)
    for maps in (16 + classes, 16 + 16 + classes, 16 + classes):  # forward, data, weights
        add(NARROW, pixels * maps, 0, 2 * pixels * 9 * 16 * classes)
    f[LOSS][0] = pixels * (2 * 4 * classes + 1)
    f[ELEMENTS][0] = pixels * 3 * (1 + 4)
    f[COPIES][0] = pixels * (3 + 1)
    return f


def has(frames, *words):
    return any(w in function for _, function, _ in frames for w in words)


def update_paths(calls):
    """Call paths of the products that are weight gradients. A library's product of either kind comes through the same
    functions, but from another place in nnc_gemm_backward, and that of the weights is the later one."""
    paths = {}
    for frames in calls.values():
        if has(frames, "nnk_") and not has(frames, "nnk_masked"):
            continue
        at = next((int(offset, 16) for _, function, offset in frames if function.startswith("nnc_gemm_backward")), None)
        if at is not None:
            paths.setdefault(at, set()).add(tuple(frames))
    return paths[max(paths)] if len(paths) > 1 else set()


def group_of(event, calls, updates):
    """The group of a kernel by the stage that called it and the functions between."""
    frames = calls.get(event["correlation"], ())
    stage = next(
        (m[: -len("_cuda.so")] for m, _, _ in frames if m.endswith("_cuda.so") and m != "device_cuda.so"), None
    )
    if stage is None:
        return COPIES if event["what"] != "kernel" else OTHER
    if stage in ("cross_entropy", "confusion", "argmax"):
        return LOSS
    if stage in ("to_float", "add", "concat"):
        return ELEMENTS
    if stage == "sgd":
        return WEIGHT
    if has(frames, "nnk_patch"):
        return PATCH
    if has(frames, "narrow"):
        return NARROW
    if has(frames, "nnk_") and not has(frames, "nnk_skinny", "nnk_outer", "nnk_masked", "nnk_stem"):
        return ELEMENTS
    if stage == "encoder":
        return ENCODER
    if not has(frames, "backward"):
        return FORWARD
    return WEIGHT if has(frames, "nnk_skinny_weight", "nnk_outer") or tuple(frames) in updates else DATA


def plain(name):
    """The function's own name in a mangled one."""
    parts, rest = [], name[3:] if name.startswith("_ZN") else name[2:] if name.startswith("_Z") else ""
    while found := re.match(r"L?(\d+)", rest):
        end = found.end() + int(found.group(1))
        parts.append(rest[found.end() : end])
        rest = rest[end:]
    return parts[-1] if parts else name


def measure(b, strategy):
    a = b.a
    log = os.path.join(a.out, "kernels.log")
    steps = a.trace_steps
    command = b.spcore.command(os.path.join(gc.HERE, "seg_gpu.lua"), a.batch, a.precision, strategy, "off")
    text = b.spcore.call(
        command + ["--warm-up", str(a.warm_up), "--steps", str(steps)], env=gpu_log.environment(b, log, "kernels")
    )
    marks = {w[0]: float(w[1]) for w in (line.split() for line in text.split("\n")) if w[:1] in (["warm"], ["end"])}
    found = gpu_log.read(log)
    if found["why"] or not found["work"]:
        raise gc.Failed(found["why"] or "no kernel ran")
    work = [e for e in found["work"] if marks["warm"] <= e["begin"] < marks["end"]]
    return work, found["calls"], steps, marks["end"] - marks["warm"]


def section(b):
    a = b.a
    work, calls, steps, seconds = measure(b, "serialized")
    updates = update_paths(calls)
    time, count, names = dict.fromkeys(GROUPS, 0.0), dict.fromkeys(GROUPS, 0), {}
    for e in work:
        group, us = group_of(e, calls, updates), (e["end"] - e["begin"]) * 1e6 / steps
        time[group] += us
        count[group] += 1
        key = (group, plain(e["name"]))
        names[key] = [x + y for x, y in zip(names.get(key, (0.0, 0)), (us, 1))]
    busy = sum(time.values())
    floor = floors(a.batch, a.size, 10, 4, a.precision == "tf32")
    print(
        f"\nkernels: serialized, eager, {a.precision}, batch {a.batch}, mean of {steps} steps; "
        f"floor of {a.bandwidth} TB/s, "
        f"{a.tflops} TFLOP/s, {a.pcie} GB/s of copies"
    )
    print(f"{'group':26} {'a step':>7} {'us':>9} {'share':>7} {'MB':>8} {'GFLOP':>8} {'floor us':>9} {'x floor':>8}")
    least = 0.0
    for g in GROUPS:
        size, flop = floor[g]
        rate = a.pcie * 1e9 if g == COPIES else a.bandwidth * 1e12
        us = max(size / rate, flop / (a.tflops * 1e12)) * 1e6
        least += us
        over = f"{time[g] / us:8.1f}" if us and time[g] else f"{'':8}"
        print(
            f"{g:26} {count[g] / steps:7.1f} {time[g]:9.1f} {time[g] / max(busy, 1e-9):7.1%} "
            f"{size * 1e-6:8.1f} {flop * 1e-9:8.2f} "
            f"{us:9.1f} {over}"
        )
        b.raw.append({"section": "kernels", "group": g, "a_step": count[g] / steps, "us": time[g], "floor_us": us})
    print(f"{'all':26} {len(work) / steps:7.1f} {busy:9.1f} {'':7} {'':8} {'':8} {least:9.1f} {busy / least:8.1f}")
    print(f"wall time {seconds / steps * 1e6:.1f} us a step, with CUPTI listening")
    print(f"\n{'the longest':58} {'group':26} {'a step':>7} {'us':>9}")
    for (group, name), (us, n) in sorted(names.items(), key=lambda x: -x[1][0])[:16]:
        print(f"{name[:58]:58} {group:26} {n / steps:7.1f} {us:9.1f}")
