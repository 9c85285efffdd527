# SPDX-License-Identifier: MIT
# needs: onednn images jansson
"""predict_seg.lua --window, --stride, --scales, --flip against the same in PyTorch: mean of the logits of all windows, at each scale, then
of the scales, at the size of the image; probabilities and labels."""
import importlib.util
import os
import subprocess
import tempfile

from spstage import Report, torch_or_skip
import numpy as np
from PIL import Image

torch = torch_or_skip()
F = torch.nn.functional
r = Report()
SPCORE = os.path.abspath(os.path.join(os.environ.get("top_builddir", "."), "spcore"))


def spcore(*words):
    subprocess.run([SPCORE, *words], check=True, stdout=subprocess.DEVNULL)


def places(side, window, stride):
    """As mmsegmentation's and DINOv3's sliding windows: the last one ends with the image."""
    n = max(side - window + stride - 1, 0) // stride + 1
    return [max(min(k * stride + window, side) - window, 0) for k in range(n)]


def expected(net, image, window, stride, scales=(1,), flip=False, shorter=0):
    """Logits, classes x height x width of the image."""
    x = torch.from_numpy(image).permute(2, 0, 1)[None].float()
    h, w = image.shape[:2]
    base, total = None, 0
    for scale in scales:
        def side(n, scale=scale):
            factor = scale * (shorter / min(h, w) if shorter else 1)
            return max(window, int(n * max(factor, window / min(h, w)) + 0.5))
        size = side(h), side(w)
        base = base or (tuple(side(n, 1) for n in (h, w)) if len(scales) > 1 else size)
        y = F.interpolate(x, size, mode="bilinear", antialias=True).round() if size != (h, w) else x
        logits, count = 0, torch.zeros(size)
        for mirrored in (False, True) if flip else (False,):
            for top in places(size[0], window, stride):
                for left in places(size[1], window, stride):
                    part = y[:, :, top:top + window, left:left + window]
                    z = net((part.flip(3) if mirrored else part) / 255)
                    z = F.interpolate(z, (window, window), mode="bilinear")
                    z = z.flip(3) if mirrored else z
                    logits = logits + F.pad(z, (left, size[1] - left - window, top, size[0] - top - window))
                    count[top:top + window, left:left + window] += 1
        total = total + F.interpolate(logits / count, base, mode="bilinear") / len(scales)
    return F.interpolate(total, (h, w), mode="bilinear")[0]


def compare(name, net, images, args, atol=2e-5, **how):
    spcore("run", "predict_seg.lua", "--weights", "run", "--out", name, "--device", "cpu", "--quiet", "--probabilities", "npy", *args, *images)
    for path in images:
        stem = path[:-4]
        want = torch.softmax(expected(net, np.array(Image.open(path)), **how), 0).numpy()
        got = np.load(f"{name}/probabilities/{stem}.npy")
        r.close(f"{name}, {path}: probabilities", got, want, atol=atol)
        mask = np.asarray(Image.open(f"{name}/masks/{stem}.png"))
        r.true(f"{name}, {path}: labels", np.mean(mask == want.argmax(0)) > 0.999, f"{np.mean(mask == want.argmax(0))} are equal")


with tempfile.TemporaryDirectory() as folder, torch.no_grad():
    os.chdir(folder)
    rng = np.random.default_rng(5)
    for name, size in (("a.png", (83, 70)), ("b.png", (32, 32)), ("c.png", (32, 75))):
        Image.fromarray(rng.integers(0, 256, (9, 9, 3), dtype=np.uint8)).resize(size, Image.BICUBIC).save(name)
    spcore("run", "train_seg.lua", "--out", "run", "--quiet", "--device", "cpu", "--size", "32", "--steps", "30", "--samples", "64",
           "--pictures", "0")
    spcore("export", "run", "--torch", "module")
    spec = importlib.util.spec_from_file_location("module", "module/model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    net = module.load()
    images = ["a.png", "b.png", "c.png"]
    compare("windows", net, images, ["--window", "32", "--stride", "20", "--batch", "5"], window=32, stride=20)
    compare("default", net, images, ["--window", "32", "--flip", "--batch", "16"], window=32, stride=21, flip=True)
    # Pixels of a scaled image differ by at most 1 of 255 where PyTorch rounds the other way.
    compare("scales", net, ["a.png"], ["--window", "32", "--stride", "32", "--scales", "0.8,1,1.3", "--size", "50"], window=32, stride=32,
            scales=(0.8, 1, 1.3), shorter=50, atol=2e-3)
    compare("mirrored", net, ["b.png"], ["--flip"], window=32, stride=32, flip=True)
    os.chdir("/")
r.exit()
