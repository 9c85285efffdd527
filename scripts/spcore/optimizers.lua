-- SPDX-License-Identifier: MIT
-- What training scripts know of optimizers: the rate and the decay where the command line has none, and what is usual.
local optimizers = {}

-- In the order of --help. lr: of a network that begins anew, and behind --backbone; usual: rates from and to; more: parameters, those
-- that the command line has by name. From some initial weights hundreds of steps pass before shapes are told apart; a long warm-up and
-- a short memory of squared gradients shorten that.
local list <const> = {
  { "adamw", lr = { 6e-3, 1e-3 }, usual = { 1e-6, 0.1 }, decay = 1e-2, more = { betas = { 0.9, 0.99 } } },
  { "sgd", lr = { 0.1, 0.01 }, usual = { 1e-5, 2 }, decay = 1e-4, named = { "momentum" } },
  { "lion", lr = { 1e-3, 1e-4 }, usual = { 1e-7, 0.01 }, decay = 0.1 },
  { "lamb", lr = { 0.02, 5e-3 }, usual = { 1e-5, 0.5 }, decay = 1e-2, more = { betas = { 0.9, 0.99 } } },
  { "muon", lr = { 0.05, 0.02 }, usual = { 1e-4, 0.5 }, decay = 0.0 },
}

local by_name = {}
optimizers.names = {}
for i, one in ipairs(list) do
  optimizers.names[i], by_name[one[1]] = one[1], one
end

local function number(x) return (("%.0e"):format(x):gsub("e([+-])0+", "e%1")) end
local function plain(x) return x >= 0.01 and ("%g"):format(x) or number(x) end

-- "6e-3, with --backbone 1e-3; of sgd 0.1 and 0.01": what --help says of rates, and of decays
function optimizers.rates_in_words()
  local out = {}
  for i, one in ipairs(list) do
    local a, b = plain(one.lr[1]), plain(one.lr[2])
    out[i] = i == 1 and ("%s, with --backbone %s"):format(a, b) or ("of %s %s and %s"):format(one[1], a, b)
  end
  return table.concat(out, "; ")
end
function optimizers.decays_in_words()
  local out = {}
  for i, one in ipairs(list) do out[i] = (i == 1 and "" or "of " .. one[1] .. " ") .. plain(one.decay) end
  return table.concat(out, "; ")
end

-- The lowest and the highest rate that is usual.
function optimizers.usual(name) return table.unpack(by_name[name].usual) end

-- Fills opt.lr and opt.weight_decay where the command line has none; behind: there is a backbone.
function optimizers.fill(opt, behind)
  local one = by_name[opt.optimizer]
  if opt.lr < 0 then opt.lr = one.lr[behind and 2 or 1] end
  if opt.weight_decay < 0 then opt.weight_decay = one.decay end
end

-- Parameters that this optimizer has beside those of all.
function optimizers.params(opt)
  local one, out = by_name[opt.optimizer], {}
  for k, v in pairs(one.more or {}) do out[k] = v end
  for _, name in ipairs(one.named or {}) do out[name] = opt[name] end
  return out
end

-- Of the entries of a file of weights, those before the first "." that are what an optimizer keeps, by their names alone: moments,
-- averages and statistics are KIND.NUMBER, and beside them there are counts.
function optimizers.kept(names)
  local is = {}
  for name in pairs(names) do
    local stage, rest = name:match "^([^.]+)%.(.+)$"
    if stage and is[stage] ~= false then
      is[stage] = rest:find "^[%l_]+%.%d+$" ~= nil or rest == "step" or rest == "skipped" or rest == "phase_steps"
    end
  end
  local out = {}
  for stage, kept in pairs(is) do
    if kept then out[#out + 1] = stage end
  end
  table.sort(out)
  return out
end

return optimizers
