# SPDX-License-Identifier: MIT
"""Optimizers that PyTorch has not, as their authors publish them for it."""
import torch


def trained(group): return [p for p in group["params"] if p.grad is not None]


class Lion(torch.optim.Optimizer):
    """As its authors' lion_pytorch.py."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in trained(group):
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
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in trained(group):
                state = self.state[p]
                n = state["step"] = state.get("step", 0) + 1
                c1, c2 = (1 - b1 ** n, 1 - b2 ** n) if group["bias_correction"] else (1.0, 1.0)
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


def orthogonal(x, steps):
    """zeropower_via_newtonschulz5 of Muon's author, in the precision of x, which is bfloat16 there."""
    tall = x.size(0) > x.size(1)
    x = x.T if tall else x
    x = x / (x.norm() + 1e-7)
    for _ in range(steps):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.T if tall else x


class Muon(torch.optim.Optimizer):
    """As its author's SingleDeviceMuonWithAuxAdam: matrices but the first and the last by Muon, all else by Adam. The factor of a kernel
    is that of the matrix that it is flattened to."""

    def __init__(self, params, lr=0.02, momentum=0.95, nesterov=True, weight_decay=0.0, aux_lr=0.015, aux_betas=(0.9, 0.95), aux_eps=1e-10,
                 ns_steps=5, edges="adamw"):
        super().__init__(params, dict(lr=lr, momentum=momentum, nesterov=nesterov, weight_decay=weight_decay, aux_lr=aux_lr,
                                      aux_betas=aux_betas, aux_eps=aux_eps, ns_steps=ns_steps))
        self.edges = edges

    def matrices(self, order):
        found = [p for p in order if p.dim() >= 2]
        return found[1:-1] if self.edges == "adamw" else found

    @torch.no_grad()
    def step(self):
        order = self.order if hasattr(self, "order") else [p for group in self.param_groups for p in trained(group)]
        matrices = {id(p) for p in self.matrices(order)}
        for group in self.param_groups:
            for p in trained(group):
                state = self.state[p]
                n = state["step"] = state.get("step", 0) + 1
                mean = state.setdefault("exp_avg", torch.zeros_like(p))
                if id(p) in matrices:
                    mean.lerp_(p.grad, 1 - group["momentum"])
                    update = p.grad.lerp(mean, group["momentum"]) if group["nesterov"] else mean
                    update = update.reshape(len(p), -1)
                    rows, cols = update.shape
                    update, lr = orthogonal(update, group["ns_steps"]) * max(1, rows / cols) ** 0.5, group["lr"]
                else:
                    b1, b2 = group["aux_betas"]
                    square = state.setdefault("exp_avg_sq", torch.zeros_like(p))
                    mean.lerp_(p.grad, 1 - b1)
                    square.lerp_(p.grad.square(), 1 - b2)
                    update = mean / (1 - b1 ** n) / ((square / (1 - b2 ** n)).sqrt() + group["aux_eps"])
                    lr = group["lr"] * group["aux_lr"]
                p.mul_(1 - lr * group["weight_decay"])
                p.add_(update.reshape(p.shape), alpha=-lr)


MADE = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW, "lion": Lion, "lamb": Lamb, "muon": Muon}
