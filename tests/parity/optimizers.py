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


class Lamb(torch.optim.Optimizer):
    """As timm's Lamb, without its clipping, which is clip_norm = 1 here."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01, bias_correction=True, trust_clip=False,
                 always_adapt=False):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, bias_correction=bias_correction,
                                      trust_clip=trust_clip, always_adapt=always_adapt))
        self.count = 0

    @torch.no_grad()
    def step(self):
        self.count += 1
        for group in self.param_groups:
            b1, b2 = group["betas"]
            c1, c2 = (1 - b1 ** self.count, 1 - b2 ** self.count) if group["bias_correction"] else (1.0, 1.0)
            for p in group["params"]:
                state = self.state[p]
                mean, square = state.setdefault("exp_avg", torch.zeros_like(p)), state.setdefault("exp_avg_sq", torch.zeros_like(p))
                mean.mul_(b1).add_(p.grad, alpha=1 - b1)
                square.mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
                update = (mean / c1).div_((square.sqrt() / c2 ** 0.5).add_(group["eps"]))
                if group["weight_decay"] != 0: update.add_(p, alpha=group["weight_decay"])
                if group["weight_decay"] != 0 or group["always_adapt"]:
                    w, u = p.norm(2.0), update.norm(2.0)
                    trust = torch.where((w > 0) & (u > 0), w / u, torch.ones_like(w))
                    update.mul_(trust.clamp(max=1.0) if group["trust_clip"] else trust)
                p.add_(update, alpha=-group["lr"])


MADE = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW, "lion": Lion, "lamb": Lamb}
