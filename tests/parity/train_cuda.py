#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: images jansson
"""Ten training steps of the reference model on the GPU, beside the same steps of PyTorch there: same precision, same
first weights (init = torch), same images from PNG files.

A precision is a choice of how much to be off, and two programs that round at other places differ by as much. So
PyTorch's own result is compared with its result in fp32, and spcore may be off from PyTorch's by twice that, but never
by more than a cap. Weights are compared by the length of the difference, for each tensor, over the length of the way it
went in these steps. At 64 x 64 every layer goes some way; at 256 x 256, the reference, what reaches the deepest ones is
about the rounding of a weight.

  train_cuda.py [--device cuda] [--sizes 64,256]
"""

import argparse
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import zlib

try:
    import numpy as np
    import torch
    from torch import nn
except ImportError as e:
    print(f"train_cuda.py: {e.name} is not installed; skipped")
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS, SEED, CLASSES = 10, 5, 10
SPCORE = os.path.join(os.environ.get("top_builddir", "."), "spcore")
ROUNDING = 2e-7  # of a weight's own length: what ten additions in float32 lose
LOSS = {"fp32": 1e-5, "tf32": 1e-4, "bf16": 1e-3}  # least tolerance, of a loss; then that of weights, and their cap
WAY = {"fp32": (2e-3, 2e-3), "tf32": (5e-3, 5e-2), "bf16": (2e-2, 2e-1)}


def png(path, pixels):
    """pixels: uint8, height x width (grey) or height x width x 3."""
    height, width = pixels.shape[:2]
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2 if pixels.ndim == 3 else 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows, 1)),
        (b"IEND", b""),
    )
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n")
        for kind, data in chunks:
            f.write(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)))


def images(folder, a):
    rng = np.random.default_rng(1)
    n = STEPS * a.batch
    x = rng.integers(0, 256, (n, a.size, a.size, 3), dtype=np.uint8)
    y = rng.integers(0, CLASSES, (n, a.size, a.size), dtype=np.uint8)
    for sub in ("images", "masks"):
        os.mkdir(os.path.join(folder, sub))
    for i in range(n):
        png(os.path.join(folder, "images", f"{i:03}.png"), x[i])
        png(os.path.join(folder, "masks", f"{i:03}.png"), y[i])
    return x, y


def model(size):
    torch.manual_seed(SEED)
    enc, c = [nn.Conv2d(3, 16, 1)], 16
    for _ in range(size.bit_length() - 1):
        enc += [nn.ReLU(), nn.Conv2d(c, 2 * c, 2, 2)]
        c *= 2
    dec = []
    for _ in range(size.bit_length() - 1):
        dec += [nn.ConvTranspose2d(c, c // 2, 2, 2), nn.ReLU()]
        c //= 2
    return nn.Sequential(*enc), nn.Sequential(*dec, nn.Conv2d(c, CLASSES, 3, padding=1))


def weights_of(enc, dec):
    return {
        f"{k}.{n}": v.detach().cpu().numpy()
        for k, m in (("encoder", enc), ("decoder", dec))
        for n, v in m.state_dict().items()
    }


def torch_run(a, x, y, precision, case):
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = precision != "fp32"
    enc, dec = (m.to(a.device) for m in model(a.size))
    for w in enc.parameters():
        w.requires_grad_(case["unfrozen"])
    opt = torch.optim.SGD(
        [w for m in (enc, dec) for w in m.parameters() if w.requires_grad], lr=case["lr"], momentum=case["momentum"]
    )
    losses = []
    for s in range(STEPS):
        part = slice(s * a.batch, (s + 1) * a.batch)
        images_, labels = torch.from_numpy(x[part]).to(a.device), torch.from_numpy(y[part]).to(a.device)
        with torch.autocast(torch.device(a.device).type, torch.bfloat16, enabled=precision == "bf16"):
            logits = dec(enc(images_.permute(0, 3, 1, 2).float()))
        loss = nn.functional.cross_entropy(logits.float(), labels.long())
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses, weights_of(enc, dec)


def load(path):
    """A safetensors file of float32."""
    with open(path, "rb") as f:
        (size,) = struct.unpack("<Q", f.read(8))
        head = json.loads(f.read(size))
        data = f.read()
    head.pop("__metadata__", None)
    return {k: np.frombuffer(data[slice(*v["data_offsets"])], np.float32).reshape(v["shape"]) for k, v in head.items()}


def spcore_run(a, folder, precision, strategy, case):
    path = os.path.join(folder, "w.safetensors")
    command = [
        SPCORE,
        "run",
        os.path.join(HERE, "train_graph.lua"),
        "--data",
        folder,
        "--weights",
        path,
        "--init",
        "torch",
        "--seed",
        str(SEED),
        "--strategy",
        strategy,
        "--lr",
        str(case["lr"]),
        "--momentum",
        str(case["momentum"]),
        "--steps",
        str(STEPS),
        "--batch",
        str(a.batch),
        "--size",
        str(a.size),
        "--device",
        a.device,
    ]
    if case["unfrozen"]:
        command += ["--unfrozen"]
    if a.device != "cpu":
        command += ["--precision", precision]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    weights = load(path)
    os.remove(path)
    return [float(line) for line in out.split()], weights


def has_device(name):
    out = subprocess.run([SPCORE, "devices"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return re.search(rf"^{name.split(':')[0]}:", out, re.M) is not None


def length(v):
    return float(np.sqrt(np.sum(np.square(v, dtype=np.float64))))


def off(got, want, first):
    """Largest over the tensors: how far `got` is from `want`, over the way that `want` went."""
    worst = 0.0
    for k, w in want.items():
        way, rounding = length(w - first[k]), ROUNDING * length(w)
        beyond = max(0.0, length(got[k] - w) - rounding)
        worst = max(worst, beyond / way if way > rounding else beyond / rounding)
    return worst


def compare(a, folder, x, y, precision, strategy, case, first, fp32):
    want, want_w = torch_run(a, x, y, precision, case) if precision != "fp32" else fp32
    got, got_w = spcore_run(a, folder, precision, strategy, case)
    noise = max(abs(p - q) for p, q in zip(want, fp32[0]))
    noise_w = off(want_w, fp32[1], first)
    loss, limit = max(abs(p - q) for p, q in zip(want, got)), max(LOSS[precision], 2 * noise)
    least, cap = WAY[precision]
    way, limit_w = off(got_w, want_w, first), min(cap, max(least, 2 * noise_w))
    moved = max(float(np.abs(want_w[k] - first[k]).max()) for k in want_w)
    good = len(got) == STEPS and set(got_w) == set(want_w) and moved > 1e-3 and loss <= limit and way <= limit_w
    print(
        f"{'ok' if good else 'not ok'} - {precision}, {strategy}, "
        f"encoder {'trained' if case['unfrozen'] else 'frozen'}, "
        f"momentum {case['momentum']}: losses {want[0]:.6f} .. {want[-1]:.6f}, off by {loss:.1e} (may be {limit:.1e}); "
        f"weights moved by up to {moved:.2g}, off by {way:.1e} of their way (may be {limit_w:.1e})",
        flush=True,
    )
    return good


def compare_all(a):
    """How many comparisons fail at size a.size."""
    cases = ({"unfrozen": False, "lr": 1.0, "momentum": 0.0}, {"unfrozen": True, "lr": 0.1, "momentum": 0.9})
    first, failed = weights_of(*model(a.size)), 0
    print(f"{a.size} x {a.size}, batch {a.batch}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        x, y = images(folder, a)
        for case in cases:
            fp32 = torch_run(a, x, y, "fp32", case)
            for precision in ("fp32", "tf32", "bf16") if a.device != "cpu" else ("fp32",):
                for strategy in ("serialized",) if case["unfrozen"] else ("serialized", "pipelined"):
                    failed += not compare(a, folder, x, y, precision, strategy, case, first, fp32)
    return failed


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda")
    p.add_argument("--sizes", default="64,256")
    a = p.parse_args()
    if a.device != "cpu" and not torch.cuda.is_available():
        print("skipped: PyTorch sees no GPU")
        return 77
    if a.device != "cpu" and not has_device(a.device):
        print("skipped: spcore devices lists no GPU")
        return 77
    torch.backends.cudnn.deterministic = True
    failed = 0
    for size in a.sizes.split(","):
        a.size, a.batch = int(size), 8 if int(size) > 64 else 4
        failed += compare_all(a)
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
