# SPDX-License-Identifier: MIT
"""Classifies the images of a folder in PyTorch: the peer of `spcore run predict_cls.lua`, for tests/bench/predict_many.sh.

    python3 predict_torch.py MODEL.PY FOLDER [--workers 2] [--threads 0] [--batch 64]

MODEL.PY is what `spcore export` writes of the same run. A DataLoader decodes with Pillow, resizes and makes tensors in its
workers; images that cannot be read are left out. Prints images/s without the start of Python, and the processors' time."""
import argparse
import importlib.util
import os
import time

import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __init__(self, folder, size):
        self.paths = sorted(os.path.join(folder, name) for name in os.listdir(folder))
        self.size = size

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        try:
            image = Image.open(self.paths[i]).convert("RGB").resize((self.size, self.size), Image.BILINEAR)
        except OSError:
            return None
        x = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
        return x.reshape(self.size, self.size, 3).permute(2, 0, 1)


def collate(samples):
    samples = [s for s in samples if s is not None]
    return torch.stack(samples) if samples else None


def main():
    p = argparse.ArgumentParser()
    p.add_argument("model")
    p.add_argument("folder")
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--batch", type=int, default=64)
    o = p.parse_args()
    if o.threads:
        torch.set_num_threads(o.threads)
    spec = importlib.util.spec_from_file_location("model", o.model)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    net = module.load()
    images = Images(o.folder, module.SIZE)
    began, used = time.time(), os.times()
    n = 0
    with torch.no_grad():
        for x in DataLoader(images, batch_size=o.batch, num_workers=o.workers, collate_fn=collate):
            if x is None:
                continue
            p = net((x.float() / 255 - 0.5) / 0.25).softmax(1)
            n += len(p.argmax(1).tolist())
    seconds, now = time.time() - began, os.times()
    cpu = sum(now[:4]) - sum(used[:4])  # of the workers too, which have ended
    print(f"{n} images, {1000 * cpu / n:.2f} ms of a processor each, {n / seconds:.1f} images/s")


if __name__ == "__main__":
    main()
