# SPDX-License-Identifier: MIT
# needs: images
"""Labels of logits that image_writer enlarges, against interpolate and argmax of PyTorch: the same but where the two largest
scores differ by rounding."""
import os
import tempfile

from spstage import CHANNELS_LAST, ROW_MAJOR, Report, Stage, torch_or_skip
import numpy as np
from PIL import Image

torch = torch_or_skip()
r = Report()
rng = np.random.default_rng(11)

with tempfile.TemporaryDirectory() as folder:
    picture = os.path.join(folder, "picture.png")
    for classes, (h, w), (oh, ow) in ((6, (64, 64), (375, 500)), (21, (16, 24), (16, 24)), (3, (1, 5), (9, 40)), (5, (33, 20), (7, 61)),
                                      (2, (64, 64), (20, 20)), (255, (8, 8), (50, 3))):
        x = rng.standard_normal((1, classes, h, w)).astype(np.float32)
        Image.new("RGB", (ow, oh)).save(picture)
        big = torch.nn.functional.interpolate(torch.from_numpy(x), size=(oh, ow), mode="bilinear", align_corners=False)[0]
        top = torch.topk(big, 2, dim=0)
        clear = (top.values[0] - top.values[1] > 1e-5).numpy()
        for order in (ROW_MAJOR, CHANNELS_LAST):
            st = Stage("image_writer", {"dir": folder, "images": "", "masks": "*.png", "names": [{1: "m", "original": picture}]},
                       inputs=[None, None, None, x], order=order, training=False)
            st.forward()
            ours = np.asarray(Image.open(os.path.join(folder, "m.png")))
            name = f"{classes} classes, {h} x {w} to {oh} x {ow}{', channels last' if order else ''}"
            r.true(name, ours.shape == (oh, ow) and clear.mean() > 0.99 and bool((ours == top.indices[0].numpy())[clear].all()),
                   f"{np.sum((ours != top.indices[0].numpy())[clear])} labels differ")
r.exit()
