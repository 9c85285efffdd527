-- SPDX-License-Identifier: MIT
-- What validations are judged by: --metrics chooses the stages that count, and judge() makes figures of their counts.
local accuracy = require "spcore.accuracy"
local args = require "spcore.args"
local figures = require "spcore.figures"
local mean_iou = require "spcore.iou"
local words = require "spcore.words"

local measure = {}

measure.option = {
  "auto", "what validations are judged by: f1,precision,recall,auroc,map,ece,mce; masks: dice,boundary_f1, too; none",
  default = "all that costs little", value = "LIST",
}

-- Which stage counts each figure, by what a network is trained for.
local of_class <const> = { f1 = "confusion", precision = "confusion", recall = "confusion", auroc = "score_histogram",
  map = "score_histogram", ece = "calibration", mce = "calibration" }
local kinds <const> = {
  class = of_class,
  labels = { f1 = "score_histogram", precision = "score_histogram", recall = "score_histogram", auroc = "score_histogram",
    map = "score_histogram", ece = "calibration", mce = "calibration" },
  mask = { dice = "confusion", f1 = "confusion", precision = "confusion", recall = "confusion", auroc = "score_histogram",
    map = "score_histogram", ece = "calibration", mce = "calibration", boundary_f1 = "boundary" },
  numbers = { mae = "deviation", rmse = "deviation", bias = "deviation", r2 = "deviation" },
  depth = { mae = "deviation", rmse = "deviation", bias = "deviation", r2 = "deviation", silog = "depth_error", abs_rel = "depth_error",
    sq_rel = "depth_error", rmse_log = "depth_error", delta1 = "depth_error", delta2 = "depth_error", delta3 = "depth_error" },
}
local usual <const> = {
  class = "f1,precision,recall,auroc,map,ece,mce", labels = "f1,precision,recall,auroc,map,ece,mce", mask = "dice",
  numbers = "mae,rmse,bias,r2", depth = "mae,rmse,bias,r2,silog,abs_rel,sq_rel,rmse_log,delta1,delta2,delta3",
}
local most_classes <const> = 1000 -- that have a histogram each
local most_pairs <const> = 100

-- The names in --metrics; an unknown one, and one of another kind of network, ends the script.
local function chosen(text, kind)
  local there, list = kinds[kind], {}
  if text == "none" then return list end
  for name in (text == "auto" and usual[kind] or text):gmatch "[^,%s]+" do
    if not there[name] then
      local names = words.keys(there)
      args.usage("--metrics %s: this network's validations have no such metric; they may have %s%s", name, table.concat(names, ", "),
        words.near(name, names))
    end
    list[#list + 1] = name
  end
  return list
end

-- What --best-by names is measured, whether or not --metrics has it; a figure of other networks ends the script. -> it, or nil
local function asked_to_be_best(by, kind)
  if kinds[kind][by] then return by end
  for _, figures_there in pairs(kinds) do
    if figures_there[by] then
      args.usage("--best-by %s: this network's validations have no such metric; they may have %s", by,
        table.concat(words.keys(kinds[kind]), ", "))
    end
  end
end

-- As many bins as cost little, the more the nearer an AUROC is to the exact one.
local function bins_for(classes)
  local bins = 64
  while bins < 4096 and bins * classes < 65536 do bins = 2 * bins end
  return bins
end

-- What cannot be counted for so many classes: an error where it was asked for, else a line.
local function too_many(g, wanted, stage, classes, most, usually)
  if not wanted[stage] or classes <= most then return end
  if not usually then args.usage("--metrics %s: there are %d classes; it is counted for up to %d", wanted[stage], classes, most) end
  g:notice("validations have no %s: there are %d classes; they are counted for up to %d", usually, classes, most)
  wanted[stage] = nil
end

-- What divides by the truth and takes its logarithm is for values above 0: `least` is how small one may be, `lowest` how small one
-- of the training is.
local function add_depth_error(g, opt, t)
  if t.lowest < t.least and opt.metrics == "auto" and not kinds.depth[opt.best_by] then
    g:notice("validations have no AbsRel, SILog and the like: the maps have values down to %.6g; --metrics mae,rmse,abs_rel,silog "
      .. "counts them where the truth is %.6g (--least) or more", t.lowest, t.least)
    return
  end
  g.depth_error { t.logits, t.targets, least = t.least, scale = t.scale, offset = t.offset, eval_only = true }
end

-- add(g, opt, { kind = "class", "labels", "numbers", "depth" or "mask", logits =, targets =, classes =, ignore_index =, of depth scale =
-- and offset = (they give inputs and targets the units of the data), least = and lowest = }): the stages for opt.metrics, which
-- evaluations alone run. Whether a confusion matrix is there is up to the script.
function measure.add(g, opt, t)
  local wanted, names = {}, chosen(opt.metrics, t.kind)
  names[#names + 1] = asked_to_be_best(opt.best_by, t.kind)
  for _, name in ipairs(names) do wanted[kinds[t.kind][name]] = name end
  local classes, auto = t.classes or 1, opt.metrics == "auto"
  if t.kind == "class" then too_many(g, wanted, "confusion", classes, most_pairs, auto and "F1, precision and recall") end
  too_many(g, wanted, "score_histogram", classes, most_classes, auto and "AUROC and mAP")
  local ignore = t.ignore_index
  if wanted.score_histogram then
    g.score_histogram { t.logits, t.targets, bins = bins_for(classes), ignore_index = ignore, eval_only = true }
  end
  if wanted.calibration then g.calibration { t.logits, t.targets, ignore_index = ignore, eval_only = true } end
  if wanted.boundary then g.boundary { t.logits, t.targets, ignore_index = ignore, eval_only = true } end
  if wanted.deviation then g.deviation { t.logits, t.targets, eval_only = true } end
  if wanted.depth_error then add_depth_error(g, opt, t) end
end

-- ---- figures of an evaluation ----

-- Metrics as stage `accuracy` gives them.
function measure.has_hits(m)
  return math.type(m.top1) == "integer" and math.type(m.topk) == "integer" and math.type(m.counted) == "integer"
end

-- Tables of counts that a step's line of metrics.jsonl leaves out, where a script has them in its steps.
measure.counts = { scores = true, deviations = true, depths = true, reliability = true, boundaries = true }

-- Counts that a validation has no room for there, either; what report and summary show of them is in class_scores and columns.
measure.tables = { scores = true, deviations = true, depths = true }

local function rates_into(eval, macro)
  eval.f1, eval.precision, eval.recall = macro.f1, macro.precision, macro.recall
end

local function judge_scores(eval)
  local f = figures.scores(eval.scores)
  eval.auroc, eval.map, eval.class_scores = f.auroc, f.map, f.classes
  local matrix = type(eval.counts) == "table" -- it has the rates of the best class, the scores those of a probability of 1/2
  if not matrix then rates_into(eval, f.macro) end
  for _, c in ipairs(f.classes) do
    c.hits, c.iou = nil, nil
    if matrix then c.f1, c.precision, c.recall, c.taken, c.there = nil, nil, nil, nil, nil end
  end
end

-- Errors of columns as the data has them, where they are learned divided by `std`, and of one column what is told of all; of several
-- that have units of their own what is told of all stays standardised.
local function in_units(f, std)
  for i, c in ipairs(std and f.columns or {}) do
    for _, name in ipairs { "mae", "rmse", "bias" } do
      c[name] = c[name] * std[i]
      if #f.columns == 1 then f[name] = c[name] end
    end
  end
  f.standardized = std and #f.columns > 1 or nil
  return f
end

-- Puts into the metrics of an evaluation what its counts come to: accuracy, iou, f1 ... What a script has put there stays. std: what
-- each column of numbers was divided by to be learned; nil: nothing.
function measure.judge(eval, std)
  local own = {}
  for k, v in pairs(eval) do own[k] = v end
  local hits = measure.has_hits(eval)
  if hits then eval.accuracy = accuracy(eval)
  elseif type(eval.counts) == "table" then eval.iou = mean_iou(eval.counts) end
  if type(eval.counts) == "table" then
    local macro = figures.confusion(eval.counts).macro
    if hits then rates_into(eval, macro) else eval.dice = macro.f1 end
  end
  if type(eval.scores) == "table" then judge_scores(eval) end
  if type(eval.reliability) == "table" then
    local f = figures.calibration(eval.reliability)
    eval.ece, eval.mce = f.ece, f.mce
  end
  if type(eval.boundaries) == "table" then eval.boundary_f1 = figures.boundary(eval.boundaries).f1 end
  if type(eval.deviations) == "table" then
    local f = in_units(figures.deviation(eval.deviations), std)
    eval.mae, eval.rmse, eval.bias, eval.r2, eval.columns = f.mae, f.rmse, f.bias, f.r2, f.columns
    eval.standardized = f.standardized
  end
  if type(eval.depths) == "table" then
    local f = figures.depth_error(eval.depths)
    for _, name in ipairs(measure.figures_of.depths) do eval[name] = f[name] end
    eval.depth_counts = { n = f.n, not_finite = f.not_finite, low_targets = f.low_targets, low_inputs = f.low_inputs }
  end
  for k, v in pairs(own) do
    if k ~= "accuracy" and k ~= "iou" then eval[k] = v end
  end
end

-- The figures that outputs of these names come to: { OUTPUT = { NAME, ... } }
measure.figures_of = {
  scores = { "auroc", "map" }, reliability = { "ece", "mce" },
  boundaries = { "boundary_f1" }, deviations = { "mae", "rmse", "bias", "r2" },
  depths = { "silog", "abs_rel", "sq_rel", "rmse_log", "delta1", "delta2", "delta3" },
}

-- A copy of an evaluation, for a file, without the large tables.
function measure.slim(eval)
  local out = {}
  for k, v in pairs(eval) do
    if not (measure.tables[k] and type(v) == "table") then out[k] = v end
  end
  return out
end

-- How figures are called by people, in the order they are told.
local told <const> = {
  { "accuracy", "accuracy" }, { "iou", "mean IoU" }, { "dice", "Dice" }, { "boundary_f1", "boundary F1" }, { "f1", "F1" },
  { "precision", "precision" }, { "recall", "recall" }, { "auroc", "AUROC" }, { "map", "mAP" }, { "ece", "ECE" }, { "mce", "MCE" },
  { "mae", "MAE" }, { "rmse", "RMSE" }, { "bias", "bias" }, { "r2", "R2" },
  { "silog", "SILog" }, { "abs_rel", "AbsRel" }, { "sq_rel", "SqRel" }, { "rmse_log", "RMSE log" }, { "delta1", "delta < 1.25" },
  { "delta2", "delta < 1.25^2" }, { "delta3", "delta < 1.25^3" },
}

-- "F1 0.9123, precision 0.9000 ..." of an evaluation; nil: there are none beside `but`.
function measure.words(eval, but)
  local parts = {}
  for _, t in ipairs(told) do
    local v = eval[t[1]]
    if type(v) == "number" and t[1] ~= but then
      parts[#parts + 1] = t[2] .. (v == v and (math.abs(v) < 1e4 and " %.4f" or " %.4g"):format(v) or " -")
    end
  end
  if eval.standardized then parts[#parts] = parts[#parts] .. " of standardised columns" end
  return parts[1] and table.concat(parts, ", ")
end

-- What the bar shows of a validation without accuracy and IoU: the name and the value; nil: nothing.
function measure.other(eval)
  for _, name in ipairs { "map", "rmse" } do
    if type(eval[name]) == "number" and not (eval.accuracy or eval.iou) then return measure.name(name), eval[name] end
  end
end

-- 1 where more of a metric is better, -1 where less is, 0 where neither is.
local least <const> = { ece = -1, mce = -1, mae = -1, rmse = -1, bias = 0, silog = -1, abs_rel = -1, sq_rel = -1, rmse_log = -1 }
function measure.sign(name) return least[name] or name:find "loss$" and -1 or 1 end

-- Whether a figure is a share of something: from 0 to 1.
local numbers <const> = { mae = true, rmse = true, bias = true, r2 = true, silog = true, abs_rel = true, sq_rel = true, rmse_log = true }
function measure.is_share(name) return measure.name(name) ~= nil and not numbers[name] end

-- The name for people; nil: there is no such figure.
function measure.name(name)
  for _, t in ipairs(told) do
    if t[1] == name then return t[2] end
  end
end

-- What the figures of depths leave out or change, in a line; nil: nothing.
function measure.depth_words(eval, least)
  local c = type(eval.depth_counts) == "table" and eval.depth_counts or { low_targets = 0, low_inputs = 0 }
  local parts = {}
  if c.low_targets > 0 then
    parts[1] = ("%d pixels whose truth is below the least value, %.6g, do not count"):format(c.low_targets, least)
  end
  if c.low_inputs > 0 then parts[#parts + 1] = ("%d of %d predictions below %.6g count as %.6g"):format(c.low_inputs, c.n, least, least) end
  return parts[1] and "AbsRel, SILog and the like: " .. table.concat(parts, "; ")
end

-- "validation mean IoU 0.8123": what a run is judged by, in a word; nil: no stage has counted anything.
function measure.verdict(eval, std)
  local hits = measure.has_hits(eval)
  local what = hits and "accuracy" or type(eval.counts) == "table" and "mean IoU" or type(eval.scores) == "table" and "mAP"
    or type(eval.deviations) == "table" and "RMSE"
  if not what then return end
  local v
  if hits then v = accuracy(eval)
  elseif what == "mean IoU" then v = mean_iou(eval.counts)
  elseif what == "mAP" then v = eval.map or figures.scores(eval.scores).map
  else v = eval.rmse or in_units(figures.deviation(eval.deviations), std).rmse end
  if v ~= v then return ("validation: no labelled %s"):format(what == "mean IoU" and "pixels" or "samples") end
  return ("validation %s %.4f"):format(what, v)
end

return measure
