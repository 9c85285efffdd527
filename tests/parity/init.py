# SPDX-License-Identifier: MIT
"""init = "torch": the weights that PyTorch's layers have after torch.manual_seed, bit for bit."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from spstage import CHANNELS_LAST, Report, init_weights, torch_or_skip

torch = torch_or_skip()
nn = torch.nn
r = Report()

LAYERS = [
    ("conv 3x3", lambda: nn.Conv2d(3, 16, 3), 3 * 9),
    ("conv 1x1", lambda: nn.Conv2d(7, 5, 1), 7),
    ("conv 2x2 stride 2", lambda: nn.Conv2d(16, 32, 2, stride=2), 16 * 4),
    ("conv groups", lambda: nn.Conv2d(8, 12, 3, groups=4), 2 * 9),
    ("conv_transpose 2x2", lambda: nn.ConvTranspose2d(32, 16, 2, stride=2), 16 * 4),
    ("conv_transpose groups", lambda: nn.ConvTranspose2d(8, 12, 3, groups=4), 3 * 9),
    ("linear", lambda: nn.Linear(300, 10), 300),
    ("large", lambda: nn.Conv2d(64, 128, 2), 64 * 4),
]

for seed in (0, 1, 2147483647, 4294967298, 123456789):
    torch.manual_seed(seed)
    modules = [make() for _, make, _ in LAYERS]
    for order in (0, CHANNELS_LAST):
        weights = []
        for (name, _, fan_in), m in zip(LAYERS, modules):
            shape = tuple(m.weight.shape)
            weights += [(name + ".weight", shape, fan_in, order if len(shape) == 4 else 0),
                        (name + ".bias", tuple(m.bias.shape), fan_in, 0)]
        ours = init_weights(weights, seed, torch=True)
        for (name, _, _), m in zip(LAYERS, modules):
            for part in ("weight", "bias"):
                r.same(f"seed {seed} order {order:x} {name}.{part}", ours[f"{name}.{part}"],
                       getattr(m, part).detach().numpy())
r.exit()
