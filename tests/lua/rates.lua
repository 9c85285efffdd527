-- SPDX-License-Identifier: MIT
-- Learning rates as functions of the step: values of PyTorch 1.13, and what is refused.
local sp = require "spcore"
local t = require "check"

local function same(rate, wanted, what)
  for step, v in ipairs(wanted) do
    local got = rate(step - 1)
    if math.abs(got - v) > 1e-12 * v then t.fail(2, "%s, step %d: %.17g, wanted %.17g", what, step - 1, got, v) end
  end
  if what ~= "step_rate" then t.eq(rate(#wanted + 1000), rate(#wanted + 2000), what .. ", long after the end") end
end

same(sp.cosine { lr = 2, steps = 6, warm_up = 2, last = 0.5 }, { 1, 2, 2, 1 + 0.5 + 0.5 * math.sqrt(0.5), 1.5,
  1 + 0.5 - 0.5 * math.sqrt(0.5), 1, 1 }, "cosine")
same(sp.cosine { lr = 1, steps = 40 }, { 0.5, 1, 1 }, "cosine, 5 %")

-- torch.optim.lr_scheduler.StepLR(step_size, gamma)
same(sp.step_rate { lr = 0.1, every = 3, factor = 0.5 },
  { 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.025, 0.025, 0.025, 0.0125 }, "step_rate")
t.eq(sp.step_rate { lr = 0.1, every = 4 }(7), 0.1 * 0.1, "a tenth without a factor")

-- torch.optim.lr_scheduler.OneCycleLR(max_lr=0.1, total_steps, pct_start, div_factor, final_div_factor)
local one = sp.one_cycle { lr = 0.1, steps = 10 }
same(one, {
  0.004, 0.052, 0.1, 0.09504846320134738, 0.0811745653949763, 0.06112620219362893, 0.03887419780637107, 0.0188258346050237,
  0.004951936798652629, 4e-07,
}, "one_cycle")
same(sp.one_cycle { lr = 0.1, steps = 7, rise = 0.5, first = 0.1, last = 0.001 }, {
  0.01, 0.041094235253127366, 0.09140576474687263, 0.09505339495172584, 0.06116492065111791, 0.018906684397156263, 0.0001,
}, "one_cycle, half of 7 steps")
same(sp.one_cycle { lr = 0.1, steps = 5, rise = 0 },
  { 0.0904508879153485, 0.0654509879153485, 0.03454941208465151, 0.009549512084651508, 4e-07 }, "one_cycle, no rise")
same(sp.one_cycle { lr = 0.1, steps = 4, rise = 1 }, { 0.004, 0.028, 0.076, 0.1 }, "one_cycle, a rise alone")
same(sp.one_cycle { lr = 0.1, steps = 1 }, { 4e-07 }, "one_cycle, one step")
t.eq(sp.one_cycle { lr = 0.1, steps = 10, rise = 0.1 }(0), 0.1, "a rise without length")

t.raises("sp.step_rate{}: 'every' is missing", sp.step_rate, { lr = 1 })
t.raises("sp.step_rate{}: 'every' must be a whole number, at least 1, got 0", sp.step_rate, { lr = 1, every = 0 })
t.raises("sp.step_rate{}: 'every' must be a whole number, at least 1, got 1.5", sp.step_rate, { lr = 1, every = 1.5 })
t.raises("sp.step_rate{} has no option 'gamma'", sp.step_rate, { lr = 1, every = 1, gamma = 0.1 })
t.raises("sp.one_cycle{}: 'rise' must be a number, 0 to 1, got 2", sp.one_cycle, { lr = 1, steps = 3, rise = 2 })
t.raises("sp.one_cycle{}: 'lr' must be a number, at least 0, got %-?nan", sp.one_cycle, { lr = 0 / 0, steps = 3 })
t.raises("sp.one_cycle{}: 'steps' is missing", sp.one_cycle, { lr = 1 })
t.raises("sp.cosine{}: 'lr' must be a number, at least 0, got inf", sp.cosine, { lr = math.huge, steps = 3 })
t.raises("sp.cosine{}: 'warm_up' must be a number, at least 0, got x", sp.cosine, { lr = 1, steps = 3, warm_up = "x" })
t.raises("sp.cosine{}: a table of options is wanted", sp.cosine, 3)

-- They do what they are for: metrics say the rate of each step.
local g <close> = sp.graph { device = "cpu" }
g:train { g.toy_loss { g.toy_mul { g.toy_source { batch = 4 }.x }.y }, optimizer = g.sgd { lr = 9 }, lr = one }
for step, m in g:steps(5) do t.ok(math.abs(m.lr - one(step)) < 1e-8, "the rate of a step") end
