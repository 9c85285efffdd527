-- SPDX-License-Identifier: MIT
-- What an image classifier learns of an image: one class, several (labels), or numbers. The loss of each, what its validation
-- says, and what predictions are made of its outputs. A model of settings.json has `target` where it is not one class.
local core = require "spcore.core"
local data_target = require "spcore.data_target"
local graph = require "spcore.graph"
local measure = require "spcore.measure"
local options = require "spcore.options"
local progress = require "spcore.progress"
local words = require "spcore.words"

local targets = { choices = { "auto", "class", "labels", "numbers" } }

-- A graph of no steps, whose readers read as those of the training.
local function probe(opt) return graph(options.reading_of(opt, { device = "cpu" })) end

-- of(opt, path, open) -> --target, else what the data are for: .csv files, arrays and tar files may have labels or numbers.
-- open(g, target) makes its reader in g.
function targets.of(opt, path, open)
  if opt.target ~= "auto" then return opt.target end
  local is_table = data_target.has_table(path)
  if not is_table and not data_target.may_be_rows(path) then return "class" end
  local function try(target)
    local g <close> = probe(opt)
    local ok, data = pcall(open, g, target)
    return ok, not ok and tostring(data):match 'for target = "(%a+)" %(', ok and data.layout == "classes" and data.classes == 1
  end
  local ok, other, one_folder = try "class"
  if is_table and (one_folder or (not ok and not other)) then -- a table of numbers is nothing for classes, and its images' folder is none
    other = try "numbers" and "numbers"
  end
  if other == "labels" then other = select(2, try "labels") or other end -- whose first sample may look like labels
  if other ~= "labels" and other ~= "numbers" then return "class" end -- whatever is wrong is said by the reader that trains
  progress.print("%s: the target is %s (--target)", path, other)
  return other
end

-- Of each column of numbers what the training part has: { names =, mean =, std = }, by which both parts are
-- standardised where --standardize says so. open(g) makes the reader of the training part.
function targets.scale(opt, open)
  local on = opt.standardize
  local g <close> = probe(opt)
  local data = open(g)
  local t = { names = words.lines(data.class_names), mean = {}, std = {} }
  for i = 1, math.tointeger(data.figures) do
    local mean, std = data:item("figures", i - 1):match "^%S+ %S+ (%S+) (%S+)$"
    t.mean[i], t.std[i] = on and tonumber(mean) or 0.0, on and tonumber(std) or 1.0
    if t.std[i] == 0 then t.std[i] = 1.0 end -- one number throughout, which the reader has said
    if on then
      progress.print("%s: learned as (value - %.6g) / %.6g, its mean and deviation in training; --no-standardize: as it is",
        t.names[i], t.mean[i], t.std[i])
    end
  end
  return t
end

-- The loss. how: parameters of that of one class.
function targets.loss(g, model, logits, label, how)
  if model.target == "labels" then return g.bce { logits, label } end
  if model.target == "numbers" then return g.mse { logits, label } end
  return g.cross_entropy { logits, label, label_smoothing = how.label_smoothing, class_weights = how.class_weights }
end

-- "validation age MAE 1.5, RMSE 2" of what an evaluation of labels or numbers gave, where `measure` says less; nil: it does not.
function targets.verdict(model, eval)
  if not eval or not model.target then return end
  local depth = eval.depth_counts and measure.words({ silog = eval.silog, abs_rel = eval.abs_rel, delta1 = eval.delta1 })
  if type(eval.columns) ~= "table" then
    if depth then return "validation " .. depth end
    return not eval.scores and ("validation loss %.4f"):format(eval.loss) or nil
  end
  local out = {}
  for i, c in ipairs(eval.columns) do
    out[i] = ("%s MAE %.6g, RMSE %.6g"):format(model.numbers.names[i], c.mae, c.rmse)
  end
  out[#out + 1] = depth
  return "validation " .. table.concat(out, "; ")
end

-- ---- predictions ----

-- Six digits are more than float32 is worth.
local function short(v) return tonumber(("%.6g"):format(v)) end

-- The probability of each label.
function targets.probabilities(logits)
  local p = {}
  for i, v in ipairs(logits) do p[i] = v < 0 and math.exp(v) / (1 + math.exp(v)) or 1 / (1 + math.exp(-v)) end
  return p
end

-- The labels whose probability is at least `threshold`, the most probable first: { { class =, name =, probability = }, ... }
function targets.above(p, threshold, names)
  local list = {}
  for i, v in ipairs(p) do
    if v >= threshold then list[#list + 1] = { class = i - 1, name = names[i], probability = short(v) } end
  end
  table.sort(list, function(a, b)
    if a.probability ~= b.probability then return a.probability > b.probability end
    return a.class < b.class
  end)
  return list
end

-- The numbers as the table of the training had them.
function targets.numbers(model, outputs)
  local list = {}
  for i, v in ipairs(outputs) do list[i] = short(v * model.numbers.std[i] + model.numbers.mean[i]) end
  return list
end

-- Ends where settings.json does not say what the outputs are.
function targets.check(model, path)
  local n = model.numbers
  local good = model.target == nil or model.target == "labels" or (model.target == "numbers" or model.target == "map")
    and type(n) == "table" and type(n.mean) == "table" and type(n.std) == "table" and type(n.names) == "table"
    and #n.mean == (model.classes or 1) and #n.std == (model.classes or 1) and #n.names == (model.classes or 1)
  if not good then core.fail(("%s/settings.json: what it says of the target cannot be used"):format(path)) end
end

return targets
