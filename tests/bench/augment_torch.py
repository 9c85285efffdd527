# SPDX-License-Identifier: MIT
"""The augmentation of the cls workload in PyTorch, four ways: to float32, a random window of half the size, resized to
the whole, turned by up to 45 degrees (nearest), blurred (7 x 7, sigma 0.1 to 2), normalized with mean 0 and std 1.

Sample: one sample, torchvision's transforms; for workers of a DataLoader.
Seed: a batch, torchvision's functions; the rotation is a loop over samples, since each has an angle of its own.
Ops: a batch without a loop: roi_align, one grid_sample, depthwise convolutions with a sigma for each sample.
Fusable: the same in arithmetic and indexing alone, which a compiler can put into few kernels.

Torchvision is looked for where it is first used: what needs none runs without.
"""

import math

import torch
from torch import nn

CHAIN = ("batch_crop", "resize", "batch_rotate", "blur", "normalize")
DEGREES, KERNEL, SIGMAS, MEAN, STD = 45.0, 7, (0.1, 2.0), (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)


class Sample:
    """The faster one of equal choices: a plain window for the one that roi_align averages; antialiasing, which changes
    nothing where images grow, where the newer kernels have it."""

    def __init__(self, size, stages=CHAIN):
        from torchvision import transforms as t

        each = {
            "batch_crop": lambda: t.RandomCrop(size // 2),
            "resize": lambda: t.Resize((size, size), antialias=torch.__version__ >= "2"),
            "batch_rotate": lambda: t.RandomRotation(DEGREES),
            "blur": lambda: t.GaussianBlur(KERNEL, SIGMAS),
            "normalize": lambda: t.Normalize(MEAN, STD),
        }
        self.transform = t.Compose([each[s]() for s in stages])

    def __call__(self, x):
        return self.transform(x.float())


def roi_boxes(sample, top, left, side):
    """Rows of sample, x1, y1, x2, y2, as roi_align wants them."""
    return torch.stack([sample, left, top, left + side, top + side], 1).float()


class Batch:
    """What is known before the first batch comes: n images of `size` x `size` on a device."""

    def __init__(self, n, size, device):
        self.n, self.size, self.side, self.device = n, size, size // 2, device
        self.sample = torch.arange(n, device=device)
        self.places = torch.arange(self.side, device=device)
        self.centred = torch.arange(size, device=device) - (size - 1) / 2
        self.taps = torch.arange(KERNEL, device=device) - KERNEL // 2
        self.mean = torch.tensor(MEAN, device=device).view(1, 3, 1, 1)
        self.std = torch.tensor(STD, device=device).view(1, 3, 1, 1)

    def draw(self):
        """Top, left, degrees, sigma of each sample, on the device."""
        corner = torch.randint(0, self.size - self.side + 1, (2, self.n), device=self.device)
        angle = (torch.rand(self.n, device=self.device) * 2 - 1) * DEGREES
        sigma = torch.rand(self.n, device=self.device) * (SIGMAS[1] - SIGMAS[0]) + SIGMAS[0]
        return corner[0], corner[1], angle, sigma

    def __call__(self, x):
        return self.apply(x, *self.draw())

    def resize(self, x):
        return nn.functional.interpolate(x, size=(self.size, self.size), mode="bilinear", align_corners=False)

    def rotate(self, x, angle):
        """affine_grid's product is a sum of two terms: written so it costs less, and no TF32 rounds it."""
        a = angle * (-math.pi / 180)
        c, s = (torch.cos(a) / (self.size / 2)).view(-1, 1, 1), (torch.sin(a) / (self.size / 2)).view(-1, 1, 1)
        across, down = self.centred.view(1, 1, -1), self.centred.view(1, -1, 1)
        grid = torch.stack((across * c + down * s, down * c - across * s), -1)
        return nn.functional.grid_sample(x, grid, mode="nearest", padding_mode="zeros", align_corners=False)

    def weights(self, sigma):
        k = torch.exp(-0.5 * (self.taps / sigma.view(-1, 1)) ** 2)
        return k / k.sum(1, keepdim=True)

    def normalize(self, x):
        return (x - self.mean) / self.std


class Seed(Batch):
    """Angles are drawn on the host, as a loop over samples needs them."""

    def __init__(self, n, size, device):
        super().__init__(n, size, device)
        from torchvision import ops, transforms

        self.ops, self.turn = ops, transforms.functional.rotate
        self.blur, self.scale = transforms.GaussianBlur(KERNEL, SIGMAS), transforms.Normalize(MEAN, STD)

    def __call__(self, x):
        top, left = torch.randint(0, self.size - self.side + 1, (2, self.n), device=self.device)
        x = self.ops.roi_align(x.float(), roi_boxes(self.sample, top, left, self.side), self.side)
        x = self.resize(x)
        angles = torch.empty(self.n).uniform_(-DEGREES, DEGREES).tolist()
        x = torch.stack([self.turn(image, angle) for image, angle in zip(x, angles)])
        return self.scale(self.blur(x))


class Ops(Batch):
    def __init__(self, n, size, device):
        super().__init__(n, size, device)
        from torchvision import ops

        self.ops = ops

    def crop(self, x, top, left):
        return self.ops.roi_align(x.float(), roi_boxes(self.sample, top, left, self.side), self.side)

    def blur(self, x, sigma):
        n, c, h, w = x.shape
        k = self.weights(sigma).view(n, 1, KERNEL).expand(n, c, KERNEL).reshape(n * c, 1, 1, KERNEL)
        r = KERNEL // 2
        x = nn.functional.pad(x, (r, r, r, r), mode="reflect").view(1, n * c, h + 2 * r, w + 2 * r)
        x = nn.functional.conv2d(x, k, groups=n * c)
        return nn.functional.conv2d(x, k.transpose(2, 3), groups=n * c).view(n, c, h, w)

    def apply(self, x, top, left, angle, sigma):
        x = self.resize(self.crop(x, top, left))
        return self.normalize(self.blur(self.rotate(x, angle), sigma))


class Fusable(Batch):
    def __init__(self, n, size, device):
        super().__init__(n, size, device)
        self.channel = torch.arange(3, device=device)

    def crop(self, x, top, left):
        def rows(corner):
            at = corner.view(-1, 1) + self.places
            return at, (at + 1).clamp(max=self.size - 1)

        (y0, y1), (x0, x1) = rows(top), rows(left)
        n, c = self.sample.view(-1, 1, 1, 1), self.channel.view(1, -1, 1, 1)

        def pick(y, z):
            return x[n, c, y[:, None, :, None], z[:, None, None, :]].float()

        return (pick(y0, x0) + pick(y0, x1) + pick(y1, x0) + pick(y1, x1)) * 0.25

    def blur(self, x, sigma):
        k, r, size = self.weights(sigma).view(-1, KERNEL, 1, 1, 1), KERNEL // 2, self.size
        x = nn.functional.pad(x, (r, r, r, r), mode="reflect")
        x = sum(k[:, i] * x[:, :, :, i : i + size] for i in range(KERNEL))
        return sum(k[:, i] * x[:, :, i : i + size] for i in range(KERNEL))

    def apply(self, x, top, left, angle, sigma):
        x = self.resize(self.crop(x, top, left))
        return self.normalize(self.blur(self.rotate(x, angle), sigma))
