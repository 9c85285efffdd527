-- SPDX-License-Identifier: MIT
-- Which classes fail: what follows for each from the last validation's confusion matrix.
local figures = require "spcore.figures"

local classes = {}

-- Whether a metric called so is what stage `confusion` counts.
local function is_confusion(counts)
  if type(counts) ~= "table" or #counts == 0 then return false end
  for i = 1, #counts do
    local row = counts[i]
    if type(row) ~= "table" or #row ~= #counts then return false end
    for k = 1, #row do
      if type(row[k]) ~= "number" then return false end
    end
  end
  return true
end

-- The last validation's matrix; nil: it has none.
function classes.counts(run)
  local counts = run.evaluation and run.evaluation.counts
  return is_confusion(counts) and counts or nil
end

local function names_of(run, n)
  local model, s, out = run.settings.model, run.samples and run.samples.told.classes, {}
  local names = model and model.class_names or s or {}
  for i = 1, n do out[i] = names[i] or tostring(i - 1) end
  return out
end

-- Of the matrix.
local function of_counts(counts, list)
  for i, c in ipairs(figures.confusion(counts).classes) do
    list[i] = {
      support = c.support, taken = c.taken, iou = c.there and c.iou or nil, f1 = c.there and c.f1 or nil,
      recall = c.support > 0 and c.recall or nil, precision = c.taken > 0 and c.precision or nil,
    }
  end
end

-- Of several classes a sample, by the probability 1/2.
local function of_scores(scores, list)
  for i, c in ipairs(scores) do
    local there = c.there == true
    list[i] = {
      support = type(c.support) == "number" and c.support or 0, f1 = there and c.f1 or nil,
      recall = there and c.support > 0 and c.recall or nil, precision = there and c.taken ~= 0 and c.precision or nil,
    }
  end
end

local function is_list(v, n) return type(v) == "table" and #v > 0 and (not n or #v == n) and type(v[1]) == "table" end

-- { by = "iou" or "f1", labels = several classes a sample, { name =, support = how many of it there are, share = of all, taken = how
-- many are taken for it, iou =, precision =, recall =, f1 =, auroc =, average_precision =, boundary_f1 = or nil where nothing is to be
-- divided, or nothing has counted it }, ... } in the order of the classes; nil: no validation has classes.
function classes.of(run)
  local eval, counts, list, all = run.evaluation or {}, classes.counts(run), {}, 0
  local scores = is_list(eval.class_scores, counts and #counts) and eval.class_scores or nil
  if counts then of_counts(counts, list) elseif scores then of_scores(scores, list) else return end
  local names = names_of(run, #list)
  local edges = is_list(eval.boundaries, #list) and figures.boundary(eval.boundaries).classes or {}
  for i, one in ipairs(list) do
    one.name, all = names[i], all + one.support
    if scores then one.auroc, one.average_precision = scores[i].auroc, scores[i].average_precision end
    if edges[i] and edges[i].there then one.boundary_f1 = edges[i].f1 end
  end
  for _, one in ipairs(list) do one.share = all > 0 and one.support / all or nil end
  list.labels = not counts
  list.by = (list.labels or type(eval.top1) == "number") and "f1" or "iou"
  return list
end

-- { { name =, n =, mae =, rmse =, bias =, r2 = }, ... } of numbers that are predicted; nil: none are.
function classes.columns(run)
  local columns = run.evaluation and run.evaluation.columns
  if not is_list(columns) then return end
  local names, out = names_of(run, #columns), {}
  local model = run.settings.model
  if type(model) == "table" and model.target == "map" then names[1] = "value" end
  for i, c in ipairs(columns) do out[i] = { name = names[i], n = c.n, mae = c.mae, rmse = c.rmse, bias = c.bias, r2 = c.r2 } end
  return out
end

-- { n =, low_targets =, low_inputs =, and figures by name } of depths; nil: there are none.
function classes.depths(run)
  local eval = run.evaluation
  return eval and type(eval.depth_counts) == "table" and eval.depth_counts
end

-- { ece =, mce =, bins = { { samples =, accuracy =, confidence = }, ... } } of the last validation; nil: nothing has counted it.
function classes.reliability(run)
  local bins = run.evaluation and run.evaluation.reliability
  if not is_list(bins) or #bins[1] ~= 3 then return end
  return figures.calibration(bins)
end

-- The same, the worst one first; those of which nothing is known last.
function classes.worst_first(list)
  local out = table.move(list, 1, #list, 1, { by = list.by })
  local at = {}
  for i, one in ipairs(list) do at[one] = i end
  table.sort(out, function(a, b)
    local x, y = a[list.by] or 2, b[list.by] or 2
    if x ~= y then return x < y end
    return at[a] < at[b]
  end)
  return out
end

return classes
