# SPDX-License-Identifier: MIT
# once: functions of Lua
"""sp.cosine, sp.step_rate and sp.one_cycle against torch.optim.lr_scheduler, step by step."""
import os
import subprocess
import sys
import tempfile
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from spstage import Report, lua, torch_or_skip

import numpy as np

torch = torch_or_skip()
lr_scheduler = torch.optim.lr_scheduler
warnings.filterwarnings("ignore")  # schedulers that are stepped without their optimizer
r = Report()
SPCORE = os.path.join(os.environ.get("top_builddir", "."), "spcore")
SCRIPT = """
local sp = require "spcore"
for _, case in ipairs {{ {cases} }} do
  local rate, list = sp[case.kind](case.options), {{}}
  for step = 0, case.n - 1 do list[step + 1] = ("%.17g"):format(rate(step)) end
  print(table.concat(list, " "))
end
"""


def theirs(make, lr, n):
    opt = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    scheduler, rates = make(opt), []
    for _ in range(n):
        rates.append(opt.param_groups[0]["lr"])
        scheduler.step()
    return np.array(rates)


def cosine(lr, steps, warm_up, last):
    def make(opt):
        down = lr_scheduler.CosineAnnealingLR(opt, steps - warm_up, eta_min=last * lr)
        if not warm_up:
            return down
        up = lr_scheduler.LinearLR(opt, start_factor=1 / warm_up, total_iters=warm_up - 1)
        return lr_scheduler.SequentialLR(opt, [up, down], milestones=[warm_up])
    return "cosine", {"lr": lr, "steps": steps, "warm_up": warm_up, "last": last}, make, steps + 1


def step_rate(lr, every, factor, n):
    return ("step_rate", {"lr": lr, "every": every, "factor": factor},
            lambda opt: lr_scheduler.StepLR(opt, every, factor), n)


def one_cycle(lr, steps, rise, first, last):
    return ("one_cycle", {"lr": lr, "steps": steps, "rise": rise, "first": first, "last": last},
            lambda opt: lr_scheduler.OneCycleLR(opt, lr, total_steps=steps, pct_start=rise, div_factor=1 / first,
                                                final_div_factor=first / last, cycle_momentum=False), steps - 1)


CASES = [cosine(0.1, 40, 10, 0.01), cosine(6e-3, 1000, 200, 0.01), cosine(0.3, 57, 0, 0.5), cosine(1.0, 5, 2, 0.0),
         step_rate(0.1, 3, 0.1, 20), step_rate(2.0, 1, 0.9, 50), step_rate(0.05, 334, 0.1, 1000),
         one_cycle(0.1, 30, 0.3, 1 / 25, 4e-6), one_cycle(0.02, 1000, 0.25, 0.1, 1e-3), one_cycle(3.0, 7, 0.5, 0.5, 0.1)]
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "rates.lua")
    with open(path, "w") as f:
        f.write(SCRIPT.format(cases=", ".join(lua({"kind": k, "options": o, "n": n}) for k, o, _, n in CASES)))
    out = subprocess.run([SPCORE, "run", path], check=True, stdout=subprocess.PIPE, text=True).stdout
for (kind, options, make, n), line in zip(CASES, out.splitlines(), strict=True):
    # their schedulers go from rate to rate, so that errors add up
    r.close(f"{kind} {options}", np.array(line.split(), float), theirs(make, options["lr"], n), rtol=1e-9, atol=1e-15)
r.exit()
