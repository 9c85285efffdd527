# SPDX-License-Identifier: MIT
"""Optimizers against torch.optim, and against what their authors publish for PyTorch: several steps on a list of tensors."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from spstage import CHANNELS_LAST, Report, Stage, torch_or_skip

import numpy as np

torch = torch_or_skip()
from optimizers import Lamb, Lion, Muon

r = Report()
SHAPES = [(16, 3, 3, 3), (16,), (40000,), (5, 7), (1,)]
MATRICES = [(16, 3, 3, 3), (16,), (24, 16, 3, 3), (24,), (40, 24), (10, 24, 1, 1), (100, 60), (3, 10)]
STEPS = 5


def average(theirs, ema):
    """PyTorch's averages of these; before 2.1 the function with a decay is missing."""
    swa, model = torch.optim.swa_utils, torch.nn.ParameterList(theirs)
    if hasattr(swa, "get_ema_multi_avg_fn"):
        return swa.AveragedModel(model, multi_avg_fn=swa.get_ema_multi_avg_fn(ema))
    return swa.AveragedModel(model, avg_fn=lambda average, now, n: torch.lerp(average, now, 1 - ema))


def run(name, params, make, clip=0.0, order=0, lrs=None, exact=True, groups=None, shapes=SHAPES):
    rng = np.random.default_rng(3)
    weights = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    theirs = [torch.nn.Parameter(torch.tensor(w)) for w in weights]
    opt = make(theirs)
    if groups:
        opt = grouped(opt, theirs, groups)
    opt.order = theirs
    st = Stage(name, params, [[np.zeros(s, np.float32) for s in shapes]], order=order, groups=groups)
    for i, w in enumerate(weights):
        st.set_output("weights", w, i)
    label = f"{name} {params}{' channels last' if order else ''}{f' groups {groups}' if groups else ''}"
    averaged = average(theirs, params["ema"]) if "ema" in params else None
    for step in range(STEPS):
        grads = [rng.standard_normal(s).astype(np.float32) for s in shapes]
        for i, g in enumerate(grads):
            st.set_input("gradients", g, i)
            theirs[i].grad = torch.tensor(g)
        if lrs:
            st.set_live(0, lrs[step])
            for k, group in enumerate(opt.param_groups):
                group["lr"] = lrs[step] * (groups[k][0] if groups else 1)
        if clip:
            norm = torch.nn.utils.clip_grad_norm_(theirs, clip).item()
        opt.step()
        if averaged:
            averaged.update_parameters(torch.nn.ParameterList(theirs))
        out = st.forward(step)
        if clip:
            r.close(f"{label} step {step} grad_norm", out["grad_norm"], norm, rtol=1e-6)
    for i, w in enumerate(theirs):
        if exact:
            r.same(f"{label} weight {i}", out["weights"][i], w.detach().numpy())
        else:
            r.close(f"{label} weight {i}", out["weights"][i], w.detach().numpy(), rtol=1e-6, atol=1e-7)
    for i, w in enumerate(averaged.module.parameters() if averaged else []):
        got = st.weights()[f"ema.{i}"]
        if exact:
            r.same(f"{label} average {i}", got, w.detach().numpy())
        else:
            r.close(f"{label} average {i}", got, w.detach().numpy(), rtol=1e-6, atol=1e-7)
    return st


def grouped(opt, theirs, groups):
    """The same optimizer with a group of parameters for each pair of factors."""
    n, base = len(groups), opt.defaults
    return type(opt)([{"params": theirs[k::n], "lr": base["lr"] * f[0], "weight_decay": base["weight_decay"] * f[1]}
                      for k, f in enumerate(groups)], **{k: base[k] for k in ("lr", "momentum", "betas", "eps", "nesterov", "amsgrad", "aux_lr", "aux_betas", "aux_eps") if k in base})


def sgd(**kw):
    return lambda p: torch.optim.SGD(p, **kw)


run("sgd", {}, sgd(lr=1e-3))
run("sgd", {"lr": 0.1}, sgd(lr=0.1), order=CHANNELS_LAST)
run("sgd", {"lr": 0.05, "momentum": 0.9}, sgd(lr=0.05, momentum=0.9))
run("sgd", {"lr": 0.05, "momentum": 0.9, "dampening": 0.5}, sgd(lr=0.05, momentum=0.9, dampening=0.5))
run("sgd", {"lr": 0.05, "momentum": 0.9, "nesterov": True}, sgd(lr=0.05, momentum=0.9, nesterov=True))
run("sgd", {"lr": 0.05, "weight_decay": 0.01}, sgd(lr=0.05, weight_decay=0.01))
st = run("sgd", {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True},
         sgd(lr=0.05, momentum=0.9, weight_decay=0.01, nesterov=True), order=CHANNELS_LAST)
r.true("sgd state names", st.weight_names() == [f"momentum.{i}" for i in range(5)] + ["step"], str(st.weight_names()))
run("sgd", {}, sgd(lr=1e-3), lrs=[0.1, 0.05, 0.025, 0.5, 0.0])
run("sgd", {"lr": 0.1, "clip_norm": 1.0}, sgd(lr=0.1), clip=1.0, exact=False)
run("sgd", {"lr": 0.1, "clip_norm": 1e6}, sgd(lr=0.1), clip=1e6)

run("sgd", {"lr": 0.1, "ema": 0.999}, sgd(lr=0.1))
run("sgd", {"lr": 0.05, "momentum": 0.9, "ema": 0.3}, sgd(lr=0.05, momentum=0.9), order=CHANNELS_LAST)
run("adamw", {"lr": 0.01, "ema": 0.9}, lambda p: torch.optim.AdamW(p, lr=0.01), exact=False)

for kw in ({}, {"lr": 0.01, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}, {"weight_decay": 0.0}):
    params = {k: (list(v) if isinstance(v, tuple) else v) for k, v in kw.items()}
    st = run("adamw", params, lambda p: torch.optim.AdamW(p, **kw), exact=False)
    r.true("adamw step count", st.weights()["step"] == STEPS, str(st.weights()["step"]))
run("adamw", {"lr": 0.01, "clip_norm": 0.5}, lambda p: torch.optim.AdamW(p, lr=0.01), clip=0.5, exact=False)
run("adamw", {"lr": 0.01, "betas": [0.9, 0.5], "amsgrad": True, "clip_norm": 0.5},
    lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.9, 0.5), amsgrad=True), clip=0.5, exact=False)
run("adamw", {}, lambda p: torch.optim.AdamW(p), lrs=[1e-2, 1e-3, 0.0, 1e-4, 1e-3], order=CHANNELS_LAST, exact=False)

FACTORS = [(1, 1), (0.1, 0), (0.75, 2)]
run("sgd", {"lr": 0.1}, sgd(lr=0.1), groups=FACTORS)
run("sgd", {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True},
    sgd(lr=0.05, momentum=0.9, weight_decay=0.01, nesterov=True), groups=FACTORS, lrs=[0.1, 0.05, 0.025, 0.5, 0.0], exact=False)
run("sgd", {"lr": 0.1, "clip_norm": 1.0}, sgd(lr=0.1), clip=1.0, groups=FACTORS, exact=False)
run("adamw", {"lr": 0.01, "weight_decay": 0.1}, lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1), groups=FACTORS, exact=False)
run("adamw", {"lr": 0.01, "ema": 0.9, "clip_norm": 0.5}, lambda p: torch.optim.AdamW(p, lr=0.01), clip=0.5, groups=FACTORS, exact=False)
run("adamw", {"lr": 0.01, "weight_decay": 0.1, "amsgrad": True}, lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1, amsgrad=True),
    groups=FACTORS, exact=False)

run("lion", {}, Lion)
run("lion", {"lr": 0.01, "betas": [0.8, 0.95], "weight_decay": 0.1, "ema": 0.9}, lambda p: Lion(p, 0.01, (0.8, 0.95), 0.1), order=CHANNELS_LAST)
run("lion", {"lr": 0.01, "weight_decay": 0.1}, lambda p: Lion(p, 0.01, weight_decay=0.1), groups=FACTORS, lrs=[0.1, 0.05, 0.025, 0.5, 0.0])
run("lion", {"lr": 0.01, "clip_norm": 0.5}, lambda p: Lion(p, 0.01), clip=0.5, exact=False)

run("lamb", {}, Lamb, exact=False)
for more in ({"lr": 0.01, "weight_decay": 0.1, "trust_clip": True}, {"lr": 0.01, "weight_decay": 0.0},
             {"lr": 0.01, "weight_decay": 0.0, "always_adapt": True}, {"lr": 0.01, "bias_correction": False, "betas": [0.8, 0.9], "eps": 1e-4}):
    run("lamb", {**more, "ema": 0.9}, lambda p: Lamb(p, **more), order=CHANNELS_LAST, exact=False)
run("lamb", {"lr": 0.01, "clip_norm": 0.5}, lambda p: Lamb(p, 0.01), clip=0.5, groups=FACTORS, lrs=[0.02, 0.05, 0.025, 0.01, 0.0],
    exact=False)

run("muon", {}, Muon, exact=False, shapes=MATRICES)
run("muon", {"lr": 0.05, "momentum": 0.9, "nesterov": False, "ns_steps": 3, "weight_decay": 0.1, "edges": "muon", "ema": 0.9},
    lambda p: Muon(p, 0.05, 0.9, False, 0.1, ns_steps=3, edges="muon"), order=CHANNELS_LAST, exact=False, shapes=MATRICES)
run("muon", {"lr": 0.05, "weight_decay": 0.1, "aux_lr": 0.1, "aux_betas": [0.8, 0.9], "aux_eps": 1e-6, "clip_norm": 0.5},
    lambda p: Muon(p, 0.05, weight_decay=0.1, aux_lr=0.1, aux_betas=(0.8, 0.9), aux_eps=1e-6), clip=0.5, groups=FACTORS,
    lrs=[0.1, 0.05, 0.025, 0.01, 0.0], exact=False, shapes=MATRICES)

for name in ("sgd", "adamw"):
    a, b = [run_threads.outputs()["weights"][2] for run_threads in
            [run(name, {"clip_norm": 0.5}, lambda p: (torch.optim.SGD(p, lr=1e-3) if name == "sgd" else
                                                      torch.optim.AdamW(p)), clip=0.5, exact=False) for _ in range(2)]]
    r.same(f"{name} repeats", a, b)
r.fails("nesterov without momentum", "nesterov needs a momentum above 0", lambda: Stage("sgd", {"nesterov": True}))
r.fails("beta of 1", "must be below 1", lambda: Stage("adamw", {"betas": [0.9, 1.0]}))
plain = Stage("sgd", {}, [[np.zeros(3, np.float32)]])
r.true("plain sgd may run in place", plain.inplace() and plain.weight_names() == [])
for p in ({"momentum": 0.9}, {"weight_decay": 0.1}, {"clip_norm": 1.0}, {"report_norm": True}, {"nonfinite": "skip"}):
    r.true(f"sgd {p} may not", not Stage("sgd", p, [[np.zeros(3, np.float32)]]).inplace())
r.exit()
