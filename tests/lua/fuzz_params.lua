-- SPDX-License-Identifier: MIT
-- Parameters of every kind of nonsense for every stage: each is taken, or refused in one line that names the script.
local sp = require "spcore"
local opt = sp.args {}

local state = 1
local function below(n) -- the same on any machine
  state = (state * 48271) % 2147483647
  return state % n
end
local function pick(list) return list[1 + below(#list)] end

local names = { "accuracy", "add", "argmax", "bce", "boundary", "calibration", "classifier", "concat", "confusion",
  "cross_entropy", "decoder", "depth_error", "deviation", "dice", "encoder", "focal", "huber", "jaccard", "l1", "layers", "lovasz",
  "mse", "reader", "score_histogram", "sgd", "adamw", "lion", "lamb", "muon", "sleep", "to_float", "tversky" }
local keys = { "path", "size", "batch", "classes", "samples", "split", "workers", "layers", "model", "width", "levels",
  "frozen", "weights", "init", "lr", "momentum", "betas", "ignore_index", "class_weights", "label_smoothing", "gamma",
  "alpha", "beta", "scale", "mean", "std", "axis", "smooth", "eps", "pos_weight", "name", "files", "val_fraction", "max_bad",
  "skips", "x", "k", "bins", "tolerance", "eval_only", "blocks", "nope", "", "\0", "a b", "ms" }
local shared = {}
shared.self = shared
local hostile = setmetatable({}, {
  __index = function() error("a metamethod was called") end, __len = function() return 1 << 60 end,
  __pairs = function() error("a metamethod was called") end,
})
local plain = {
  function() return 0 end, function() return -1 end, function() return 1 << 62 end, function() return math.mininteger end,
  function() return 0 / 0 end, function() return 1 / 0 end, function() return 1e300 end, function() return 0.5 end,
  function() return "" end, function() return "shapes" end, function() return "unet" end, function() return "conv" end,
  function() return "a\0b" end, function() return ("x"):rep(5000) end, function() return "\27[31m\n" end,
  function() return true end, function() return false end, function() return print end, function() return io.stdout end,
  function() return coroutine.create(print) end, function() return shared end, function() return hostile end,
}

local function value(depth)
  if depth > 3 or below(3) > 0 then return pick(plain)() end
  local t = {}
  for i = 1, below(5) do
    local kind = below(4)
    if kind == 0 then t[pick(keys)] = value(depth + 1)
    elseif kind == 1 then t[below(4) - 1] = value(depth + 1)
    elseif kind == 2 then t[0.5 + i] = value(depth + 1)
    else t[i] = value(depth + 1) end
  end
  return t
end

local refused, taken = 0, 0
for round = 1, 3000 do
  local g <close> = sp.graph(opt)
  local name, params = pick(names), {}
  if name == "layers" and below(2) == 0 then params.layers = { value(0) } end
  for _ = 1, below(3) do params[pick(keys)] = value(0) end
  for i = 1, below(3) do params[i] = value(1) end
  local ok, why = pcall(function() g[name](params) end)
  if ok then
    taken = taken + 1
  else
    refused = refused + 1
    assert(type(why) == "string", ("round %d: %s: an error that is a %s"):format(round, name, type(why)))
    assert(why:find("fuzz_params.lua:%d+: "), ("round %d: %s: no line in: %s"):format(round, name, why))
    assert(not why:find("attempt to"), ("round %d: %s: %s"):format(round, name, why))
  end
end
assert(taken > 50 and refused > 1000, ("%d taken, %d refused"):format(taken, refused))
