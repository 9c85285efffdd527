# SPDX-License-Identifier: MIT
# needs: onednn
"""encoder, decoder, and layers beyond the rows of tests/kit/nn_ops.list, against PyTorch: forward, input and weight gradients,
running statistics."""
from spstage import CHANNELS_LAST, ROW_MAJOR, Report, Stage, StageError, torch_or_skip
import numpy as np

torch = torch_or_skip()
import nn_ops  # noqa: E402
nn = torch.nn
r = Report()
rng = np.random.default_rng(5)
torch.manual_seed(5)

FWD, GRAD = 1e-4, 1e-3


def rand(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def state(module):
    return {k: v.detach().numpy() for k, v in module.state_dict().items()}


def compare(name, stage, module, x, run=None, port="image", out="features"):
    """One training step of both with the same weights; module(x) or run(module, x)."""
    stage.set_weights(state(module))
    tx = torch.from_numpy(x).requires_grad_()
    y = run(module, tx) if run else module(tx)
    ours = stage.forward()[out]
    r.near(f"{name} forward", ours, y.detach().numpy(), FWD)
    g = rand(*y.shape)
    din, dw = stage.backward({out: g})
    y.backward(torch.from_numpy(g))
    r.near(f"{name} din", din[port], tx.grad.numpy(), GRAD)
    for k, p in module.named_parameters():
        r.near(f"{name} d {k}", dw[k], p.grad.numpy(), GRAD)
    after = stage.weights()
    for k, b in module.named_buffers():
        r.near(f"{name} {k}", after[k], b.numpy(), FWD)


def layers(name, spec, module, x, order=ROW_MAJOR, threads=2):
    compare(name, Stage("layers", {"layers": spec}, inputs=[x], order=order, threads=threads), module, x)


def conv(o, **kw):
    return {1: "conv", 2: o, **kw}


def convt(o, **kw):
    return {1: "conv_transpose", 2: o, **kw}


for order, oname in ((ROW_MAJOR, "nchw"), (CHANNELS_LAST, "nhwc")):
    layers(f"conv 3x3 {oname}", [conv(10, kernel=3, pad=1)], nn.Sequential(nn.Conv2d(16, 10, 3, padding=1)),
           rand(5, 16, 13, 9), order)
    layers(f"batch_norm {oname}", [{1: "batch_norm"}, {1: "relu"}], nn.Sequential(nn.BatchNorm2d(6), nn.ReLU()),
           rand(3, 6, 7, 5) * 3 + 1, order)
    layers(f"flatten linear {oname}", [{1: "flatten"}, {1: "linear", 2: 11}],
           nn.Sequential(nn.Flatten(), nn.Linear(4 * 3 * 5, 11)), rand(5, 4, 3, 5), order)

for n in range(1, 6):
    layers(f"three strides, batch {n}", [conv(16, kernel=1), {1: "relu"}, conv(32, kernel=2, stride=2), {1: "relu"},
                                         conv(48, kernel=2, stride=2), {1: "relu"}, conv(20, kernel=2, stride=2)],
           nn.Sequential(nn.Conv2d(3, 16, 1), nn.ReLU(), nn.Conv2d(16, 32, 2, 2), nn.ReLU(), nn.Conv2d(32, 48, 2, 2),
                         nn.ReLU(), nn.Conv2d(48, 20, 2, 2)), rand(n, 3, 24, 8))
layers("linear", [{1: "linear", 2: 33}, {1: "relu"}, {1: "linear", 2: 3, "bias": False}],
       nn.Sequential(nn.Linear(70, 33), nn.ReLU(), nn.Linear(33, 3, bias=False)), rand(9, 70))

# A wide layer: rows are few, weights are many.
layers("wide", [convt(256), {1: "relu"}, conv(512, kernel=2, stride=2)],
       nn.Sequential(nn.ConvTranspose2d(512, 256, 2, 2), nn.ReLU(), nn.Conv2d(256, 512, 2, 2)), rand(8, 512, 1, 1))
layers("residual projected", [{1: "residual", 2: 12, "stride": 2}, {1: "residual", 2: 12}],
       nn.Sequential(nn_ops.Block(8, 12, 2), nn_ops.Block(12, 12, 1)), rand(3, 8, 9, 7))


# ---- the reference models ----
def ref_encoder(k):
    m = [nn.Conv2d(3, 16, 1)]
    for i in range(k):
        m += [nn.ReLU(), nn.Conv2d(16 << i, 32 << i, 2, 2)]
    return nn.Sequential(*m)


def ref_decoder(k, classes):
    m = []
    for i in reversed(range(k)):
        m += [nn.ConvTranspose2d(32 << i, 16 << i, 2, 2), nn.ReLU()]
    return nn.Sequential(*m, nn.Conv2d(16, classes, 3, padding=1))


x = rand(8, 3, 64, 64)
compare("reference encoder", Stage("encoder", {}, inputs=[x]), ref_encoder(6), x)
f = rand(8, 1024, 1, 1)
compare("reference decoder", Stage("decoder", {"classes": 10}, inputs=[f, None]), ref_decoder(6, 10), f,
        port="features", out="logits")

# its maps, and gradients that come in through them
x = rand(3, 3, 16, 16)
enc, mod = Stage("encoder", {}, inputs=[x]), ref_encoder(4)
enc.set_weights(state(mod))
out = enc.forward()
tx = torch.from_numpy(x).requires_grad_()
y, maps = tx, []
for m in mod:
    if isinstance(m, nn.Conv2d) and m.stride == (2, 2):
        maps.append(y)
    y = m(y)
g, gm = rand(*y.shape), [rand(*m.shape) for m in maps]
r.true("number of maps", len(out["maps"]) == len(maps) == 4)
for i, m in enumerate(maps):
    r.near(f"map {i}", out["maps"][i], m.detach().numpy(), FWD)
din, dw = enc.backward({"features": g, "maps": gm})
torch.autograd.backward([y] + maps, [torch.from_numpy(a) for a in [g] + gm])
r.near("maps din", din["image"], tx.grad.numpy(), GRAD)
for k, p in mod.named_parameters():
    r.near(f"maps d {k}", dw[k], p.grad.numpy(), GRAD)


# ---- U-Net ----
class UNet(nn.Module):
    def __init__(self, width, depth, convs, classes, pool):
        super().__init__()

        def level(c, o):
            m = []
            for _ in range(convs):
                m += [nn.Conv2d(c, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU()]
                c = o
            return nn.Sequential(*m)
        c = [width << i for i in range(depth + 1)]
        levels = [level(3 if i == 0 else c[i - 1], c[i]) for i in range(depth + 1)]
        self.e = nn.ModuleDict({"levels": nn.ModuleList(levels)})
        if not pool:
            self.e["down"] = nn.ModuleList([nn.Conv2d(c[i], c[i], 2, 2) for i in range(depth)])
        self.d = nn.ModuleDict({"up": nn.ModuleList([nn.ConvTranspose2d(c[i + 1], c[i], 2, 2) for i in range(depth)]),
                                "levels": nn.ModuleList([level(2 * c[i], c[i]) for i in range(depth)]),
                                "head": nn.Conv2d(c[0], classes, 1)})
        self.pool = pool

    def forward(self, x):
        maps, n = [], len(self.d["up"])
        for i in range(n + 1):
            x = self.e["levels"][i](x)
            if i < n:
                maps.append(x)
                x = torch.max_pool2d(x, 2) if self.pool else self.e["down"][i](x)
        f = x
        for i in reversed(range(n)):
            x = self.d["levels"][i](torch.cat([self.d["up"][i](x), maps[i]], 1))
        return f, maps, self.d["head"](x)


for pool in (True, False):
    name = f"unet {'max_pool' if pool else 'conv'}"
    mod, x = UNet(8, 2, 2, 5, pool), rand(3, 3, 16, 24)
    params = {"model": "unet", "width": 8, "levels": 2, "down": "max_pool" if pool else "conv"}
    enc = Stage("encoder", params, inputs=[x])
    enc.set_weights(state(mod.e))
    out = enc.forward()
    dec = Stage("decoder", {"classes": 5, "width": 8}, inputs=[out["features"], out["maps"]], order=CHANNELS_LAST)
    dec.set_weights(state(mod.d))
    tx = torch.from_numpy(x).requires_grad_()
    f, maps, y = mod(tx)
    r.near(f"{name} logits", dec.forward()["logits"], y.detach().numpy(), FWD)
    g = rand(*y.shape)
    din, dwd = dec.backward({"logits": g})
    dimg, dwe = enc.backward({"features": din["features"], "maps": din["skips"]})
    y.backward(torch.from_numpy(g))
    r.near(f"{name} din", dimg["image"], tx.grad.numpy(), GRAD)
    for part, dw in ((mod.e, dwe), (mod.d, dwd)):
        for k, p in part.named_parameters():
            r.near(f"{name} d {k}", dw[k], p.grad.numpy(), GRAD)
    for k, b in mod.e.named_buffers():
        r.near(f"{name} {k}", enc.weights()[k], b.numpy(), FWD)
    mod.eval()
    ev = Stage("encoder", params, inputs=[x], training=False)
    ev.set_weights(state(mod.e))
    r.near(f"{name} inference", ev.forward()["features"], mod(torch.from_numpy(x))[0].detach().numpy(), FWD)

# ---- frozen: running statistics are used and kept, gradients pass ----
x = rand(2, 4, 6, 6)
spec = [conv(4, kernel=3, pad=1), {1: "batch_norm"}, {1: "relu"}]
mod = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()).eval()
mod[1].running_mean += 0.3
mod[1].running_var *= 2
st = Stage("layers", {"layers": spec}, inputs=[x], frozen=True)
st.set_weights(state(mod))
tx = torch.from_numpy(x).requires_grad_()
y = mod(tx)
r.near("frozen forward", st.forward()["features"], y.detach().numpy(), FWD)
g = rand(*y.shape)
din, _ = st.backward({"features": g})
y.backward(torch.from_numpy(g))
r.near("frozen din", din["image"], tx.grad.numpy(), GRAD)
r.same("frozen running_mean", st.weights()["1.running_mean"], state(mod)["1.running_mean"])

# ---- trained, with running statistics that stay ----
for order, oname in ((ROW_MAJOR, "nchw"), (CHANNELS_LAST, "nhwc")):
    mod = nn.Sequential(nn.Conv2d(4, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 3, 1), nn.BatchNorm2d(3)).eval()
    for at in 1, 4:
        mod[at].running_mean += 0.3
        mod[at].running_var *= 2
    spec = [conv(6, kernel=3, pad=1), {1: "batch_norm"}, {1: "relu"}, conv(3, kernel=1), {1: "batch_norm"}]
    for batch in 3, 1:
        for p in mod.parameters(): p.grad = None
        x = rand(batch, 4, 5, 6)
        compare(f"kept statistics, {oname}, batch of {batch}", Stage("layers", {"layers": spec, "statistics": "keep"}, inputs=[x], order=order),
                mod, x)

# ---- initialisation as PyTorch's ----
torch.manual_seed(11)
mod = ref_decoder(3, 4)
st = Stage("decoder", {"classes": 4}, inputs=[rand(2, 128, 1, 1), None], seed=11, torch_init=True)
for k, v in state(mod).items():
    r.same(f"init {k}", st.weights()[k], v)
r.exit()
