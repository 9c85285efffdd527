#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: onednn images jansson
"""Ten training steps of the reference model at 64 x 64, beside the same steps in PyTorch: same first weights (init = torch),
same images from PNG files. Losses and all weights within 1e-4; in both strategies, frozen and not, with and without momentum.

And one step of four shards, on one to four ranks, where nine of ten labels of one shard do not count: the gradient of the
global batch within 1e-5 of the largest of its tensor. A mean of the shards' means, as data-parallel training usually takes,
is far off."""
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    from PIL import Image
    from torch import nn
except ImportError as e:
    print(f"train.py: {e.name} is not installed; skipped")
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import spstage  # noqa: E402

STEPS, BATCH, SIZE, SEED = 10, 4, 64, 5
SPCORE = os.path.join(os.environ.get("top_builddir", "."), "spcore")


def images(folder):
    rng = np.random.default_rng(1)
    n = STEPS * BATCH
    x = rng.integers(0, 256, (n, SIZE, SIZE, 3), dtype=np.uint8)
    y = rng.integers(0, 10, (n, SIZE, SIZE), dtype=np.uint8)
    for sub in ("images", "masks"):
        os.mkdir(os.path.join(folder, sub))
    for i in range(n):
        Image.fromarray(x[i]).save(os.path.join(folder, "images", f"{i:03}.png"))
        Image.fromarray(y[i]).save(os.path.join(folder, "masks", f"{i:03}.png"))
    return x, y


def model():
    torch.manual_seed(SEED)
    enc, c = [nn.Conv2d(3, 16, 1)], 16
    for _ in range(SIZE.bit_length() - 1):
        enc += [nn.ReLU(), nn.Conv2d(c, 2 * c, 2, 2)]
        c *= 2
    dec = []
    for _ in range(SIZE.bit_length() - 1):
        dec += [nn.ConvTranspose2d(c, c // 2, 2, 2), nn.ReLU()]
        c //= 2
    return nn.Sequential(*enc), nn.Sequential(*dec, nn.Conv2d(c, 10, 3, padding=1))


def torch_run(x, y, unfrozen, lr, momentum):
    enc, dec = model()
    for w in enc.parameters():
        w.requires_grad_(unfrozen)
    opt = torch.optim.SGD([w for m in (enc, dec) for w in m.parameters() if w.requires_grad], lr=lr, momentum=momentum)
    losses = []
    for s in range(STEPS):
        a = torch.from_numpy(x[s * BATCH:(s + 1) * BATCH]).permute(0, 3, 1, 2).float()
        b = torch.from_numpy(y[s * BATCH:(s + 1) * BATCH]).long()
        loss = nn.functional.cross_entropy(dec(enc(a)), b)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    moved = max(float((v - w).abs().max()) for m, n in zip((enc, dec), model()) for v, w in zip(m.parameters(), n.parameters()))
    weights = {f"{k}.{n}": v.numpy() for k, m in (("encoder", enc), ("decoder", dec)) for n, v in m.state_dict().items()}
    return losses, weights, moved


def spcore_run(folder, strategy, unfrozen, lr, momentum):
    path = os.path.join(folder, "w.safetensors")
    command = [SPCORE, "run", os.path.join(HERE, "train_graph.lua"), "--data", folder, "--weights", path, "--init", "torch", "--seed",
               str(SEED), "--strategy", strategy, "--lr", str(lr), "--momentum", str(momentum), "--steps", str(STEPS),
               "--batch", str(BATCH), "--size", str(SIZE)] + (["--unfrozen"] if unfrozen else [])
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [float(line) for line in out.split()], spstage.load_file(path)


def gradients(x, y, parts):
    """Of the mean over all labels that count, or of the mean of as many means."""
    enc, dec = model()
    n, loss = len(x) // parts, 0
    for p in range(parts):
        a = torch.from_numpy(x[p * n:(p + 1) * n]).permute(0, 3, 1, 2).float()
        b = torch.from_numpy(y[p * n:(p + 1) * n]).long()
        loss = loss + nn.functional.cross_entropy(dec(enc(a)), b, ignore_index=255) / parts
    loss.backward()
    return {f"{k}.{n}": w.grad.numpy() for k, m in (("encoder", enc), ("decoder", dec)) for n, w in m.named_parameters()}


def worst(want, got):
    return max(float(np.abs(want[k] - got[k]).max() / np.abs(want[k]).max()) for k in want)


def shards(folder, x, y):
    shard, n, lr, failed = 2, 4, 2.0 ** 19, 0  # beside such a step the weights themselves are nothing
    x, y = x[:shard * n], y[:shard * n].copy()
    y[:shard][np.random.default_rng(2).random((shard, SIZE, SIZE)) < 0.9] = 255
    for i in range(len(y)):
        Image.fromarray(y[i]).save(os.path.join(folder, "masks", f"{i:03}.png"))
    want, start = gradients(x, y, 1), model()
    start = {f"{k}.{n}": w.detach().numpy() for k, m in zip(("encoder", "decoder"), start) for n, w in m.named_parameters()}
    apart = worst(want, gradients(x, y, n))
    for ranks in (1, 2, 4):
        path = os.path.join(folder, f"shards{ranks}.safetensors")
        command = [SPCORE, "run", os.path.join(HERE, "train_graph.lua"), "--data", folder, "--weights", path, "--init", "torch",
                   "--seed", str(SEED), "--lr", str(lr), "--steps", "1", "--batch", str(shard), "--size", str(SIZE), "--unfrozen", "--shards",
                   str(n), "--ranks", str(ranks), "--threads", "1"]
        subprocess.run(command, check=True, stdout=subprocess.PIPE)
        after = spstage.load_file(path)
        off = worst(want, {k: (start[k] - after[k]) / lr for k in want})
        good = off < 1e-5 < apart / 100
        failed += not good
        print(f"{'ok' if good else 'not ok'} - {n} shards on {ranks} rank(s): {off:.1e} of the largest gradient; "
              f"a mean of means: {apart:.1e}")
    return failed


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        x, y = images(folder)
        for unfrozen in (False, True):
            for lr, momentum in ((3.0, 0.0), (0.3, 0.9)):
                want, want_w, moved = torch_run(x, y, unfrozen, lr, momentum)
                for strategy in ("serialized", "pipelined"):
                    got, got_w = spcore_run(folder, strategy, unfrozen, lr, momentum)
                    worst = max(abs(a - b) for a, b in zip(want, got))
                    worst_w = max(float(np.abs(want_w[k] - got_w[k]).max()) for k in want_w)
                    # a value at a ReLU's corner that falls to the other side moves single weights by so much of their way
                    good = len(got) == STEPS and moved > 1e-2 and set(got_w) == set(want_w) and worst < 1e-4 and worst_w < 2e-3 * moved
                    failed += not good
                    print(f"{'ok' if good else 'not ok'} - {strategy}, encoder {'trained' if unfrozen else 'frozen'}, lr {lr}, "
                          f"momentum {momentum}: losses {want[0]:.6f} .. {want[-1]:.6f}, worst difference {worst:.1e}, "
                          f"of weights {worst_w:.1e}, which moved by up to {moved:.2g}")
        failed += shards(folder, x, y)
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
