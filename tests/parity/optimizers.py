# SPDX-License-Identifier: MIT
"""Optimizers that PyTorch has not, as their authors publish them for it."""
import torch


class Lion(torch.optim.Optimizer):
    """As its authors' lion_pytorch.py."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                p.mul_(1 - group["lr"] * group["weight_decay"])
                mean = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                p.add_((mean * b1 + p.grad * (1 - b1)).sign_(), alpha=-group["lr"])
                mean.mul_(b2).add_(p.grad, alpha=1 - b2)


MADE = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW, "lion": Lion}
