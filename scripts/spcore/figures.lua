-- SPDX-License-Identifier: MIT
-- Figures from what the stages confusion, score_histogram, calibration, deviation, depth_error and boundary count. The counts of
-- batches, shards and ranks are added before, so a figure is one of all samples, not a mean of means.
local core = require "spcore.core"

local figures = {}

-- a / b as people divide here: nothing by nothing is 0, as torchmetrics and scikit-learn have it.
local function safe(a, b) return b == 0 and 0.0 or a / b end

-- ---- the confusion matrix ----

local function is_square(counts)
  if type(counts) ~= "table" or #counts == 0 then return false end
  for _, row in ipairs(counts) do
    if type(row) ~= "table" or #row ~= #counts then return false end
    for _, v in ipairs(row) do
      if type(v) ~= "number" then return false end
    end
  end
  return true
end

-- hits: of the class and predicted so; support: of the class; taken: predicted so.
local function rates(hits, support, taken)
  return {
    support = support, taken = taken, hits = hits, there = support + taken > 0,
    precision = safe(hits, taken), recall = safe(hits, support), f1 = safe(2 * hits, support + taken),
    iou = safe(hits, support + taken - hits),
  }
end

local each <const> = { "precision", "recall", "f1", "iou" }

-- Of a list of rates(): macro, the mean over classes that occur or are predicted; weighted by support; micro, of all
-- counts.
local function averages(list)
  local n, all, hits, taken = 0, 0, 0, 0
  local macro, weighted = {}, {}
  for _, c in ipairs(list) do
    n, all, hits, taken = n + (c.there and 1 or 0), all + c.support, hits + c.hits, taken + c.taken
  end
  for _, name in ipairs(each) do
    local sum, by = 0, 0
    for _, c in ipairs(list) do sum, by = sum + c[name], by + c.support * c[name] end
    macro[name], weighted[name] = sum / n, by / all -- nothing was measured: not a number
  end
  local micro = all + taken > 0 and rates(hits, all, taken)
  local out = { precision = micro and micro.precision or 0 / 0, recall = micro and micro.recall or 0 / 0,
    f1 = micro and micro.f1 or 0 / 0, iou = micro and micro.iou or 0 / 0 }
  return macro, weighted, out
end

-- counts[truth][predicted] -> { accuracy =, macro =, weighted =, micro = { precision =, recall =, f1 =, iou = },
-- classes = { { the same, support =, taken =, hits =, there = }, ... } }. Recall of a class is its accuracy, F1 its
-- Dice coefficient. A class that is neither in the truth nor predicted is not `there` and in no mean; a mean of nothing
-- is not a number.
function figures.confusion(counts)
  if not is_square(counts) then
    core.fail "figures.confusion: a square matrix of counts is wanted, as stage 'confusion' gives"
  end
  local n, all, right, list = #counts, 0, 0, {}
  local taken = {}
  for i = 1, n do taken[i] = 0 end
  for i = 1, n do
    for j = 1, n do taken[j] = taken[j] + counts[i][j] end
  end
  for i = 1, n do
    local support = 0
    for j = 1, n do support = support + counts[i][j] end
    list[i], all, right = rates(counts[i][i], support, taken[i]), all + support, right + counts[i][i]
  end
  local macro, weighted, micro = averages(list)
  return { accuracy = right / all, macro = macro, weighted = weighted, micro = micro, classes = list }
end

-- ---- histograms of scores ----

local function is_histogram(scores)
  return type(scores) == "table" and type(scores[1]) == "table" and type(scores[1][1]) == "table" and #scores[1] == 2
    and #scores[1][1] >= 2
end

-- Of one class. Scores of one bin count as equal: half of their pairs are in the right order. average: the area under
-- precision over recall in steps, where each bin's lower end is a threshold.
local function curves_of(negatives, positives)
  local bins, n, p = #positives, 0, 0
  for k = 1, bins do n, p = n + negatives[k], p + positives[k] end
  local above, hits, area, average = 0, 0, 0, 0
  for k = bins, 1, -1 do
    area = area + negatives[k] * (hits + 0.5 * positives[k])
    above, hits = above + negatives[k], hits + positives[k]
    if positives[k] > 0 then average = average + positives[k] * (hits / (hits + above)) end
  end
  return n > 0 and p > 0 and area / (n * p) or 0 / 0, p > 0 and average / p or 0 / 0, p, n
end

-- The mean of those that are numbers; not a number where none is.
local function mean(list, key)
  local sum, n = 0, 0
  for _, c in ipairs(list) do
    if c[key] == c[key] then sum, n = sum + c[key], n + 1 end
  end
  return sum / n
end

-- scores[class][1: of negatives, 2: of positives][bin], as stage `score_histogram` gives -> { auroc =, map =, classes =
-- { { auroc =, average_precision =, support =, and as in figures.confusion() }, ... }, macro =, weighted =, micro = }.
-- auroc and map are means over the classes that have one: both positives and negatives, and positives. The rates are
-- those of the threshold 1/2, where bins of odds have an edge; an even number of bins of probabilities has the next
-- edge above.
function figures.scores(scores)
  if not is_histogram(scores) then
    core.fail "figures.scores: a histogram is wanted, as stage 'score_histogram' gives"
  end
  local list = {}
  for i, class in ipairs(scores) do
    local auroc, average, support = curves_of(class[1], class[2])
    local hits, taken = 0, 0
    for k = #class[1] // 2 + 1, #class[1] do hits, taken = hits + class[2][k], taken + class[1][k] + class[2][k] end
    list[i] = rates(hits, support, taken)
    list[i].auroc, list[i].average_precision = auroc, average
  end
  local macro, weighted, micro = averages(list)
  return { auroc = mean(list, "auroc"), map = mean(list, "average_precision"), classes = list, macro = macro,
    weighted = weighted, micro = micro }
end

-- ---- calibration ----

local unit <const> = 2.0 ^ 24 -- of the sums of confidences

-- reliability[bin] = { samples, hits, sum of confidences }, as stage `calibration` gives -> { ece =, mce =, bins = { {
-- samples =, accuracy =, confidence = or neither where there are no samples }, ... } }
function figures.calibration(reliability)
  if type(reliability) ~= "table" or type(reliability[1]) ~= "table" or #reliability[1] ~= 3 then
    core.fail "figures.calibration: a table of bins is wanted, as stage 'calibration' gives"
  end
  local all, sum, most, bins = 0, 0, 0, {}
  for _, b in ipairs(reliability) do all = all + b[1] end
  for i, b in ipairs(reliability) do
    bins[i] = { samples = b[1] }
    if b[1] > 0 then
      bins[i].accuracy, bins[i].confidence = b[2] / b[1], b[3] / unit / b[1]
      local gap = math.abs(bins[i].accuracy - bins[i].confidence)
      sum, most = sum + gap * (b[1] / all), math.max(most, gap)
    end
  end
  return { ece = all > 0 and sum or 0 / 0, mce = all > 0 and most or 0 / 0, bins = bins }
end

-- ---- numbers ----

local limb_bits <const>, first_bit <const> = 24, -312

-- A sum that lies in whole numbers, of which each counts 2^24 times the one before. They are carried on first, so that
-- what cancels costs no digits.
local function number(limbs)
  local carry, digits = 0, {}
  for k, v in ipairs(limbs) do
    local all = v + carry
    local low = all & 0xffffff
    carry, digits[k] = (all - low) // (1 << limb_bits), low
  end
  local sum = carry * 2.0 ^ (first_bit + limb_bits * #limbs) -- -1 of what is below 0
  if carry < 0 then -- the complement, so that digits of one sign are added
    local borrow = 1
    for k, d in ipairs(digits) do
      local v = 0xffffff - d + borrow
      digits[k], borrow = v & 0xffffff, v >> limb_bits
    end
    sum = (carry + 1) * 2.0 ^ (first_bit + limb_bits * #limbs)
    for k = #digits, 1, -1 do sum = sum - digits[k] * 2.0 ^ (first_bit + limb_bits * (k - 1)) end
    return sum
  end
  for k = #digits, 1, -1 do sum = sum + digits[k] * 2.0 ^ (first_bit + limb_bits * (k - 1)) end
  return sum
end

-- deviations[column] = { { measured, not finite }, |d|, d, d^2, y, y^2 }, as stage `deviation` gives: sums over d =
-- input - target and y = target -> { mae =, rmse =, bias =, r2 =, columns = { the same, n = }, ... }. r2 is the mean
-- over the columns. Where an input is not finite, nothing is a number.
function figures.deviation(deviations)
  if type(deviations) ~= "table" or type(deviations[1]) ~= "table" or #deviations[1] ~= 6 then
    core.fail "figures.deviation: a table of sums is wanted, as stage 'deviation' gives"
  end
  local columns, n, lost, absolute, plain, square = {}, 0, 0, 0.0, 0.0, 0.0
  for i, c in ipairs(deviations) do
    local count, bad = c[1][1], c[1][2]
    local a, d, s, y, yy = number(c[2]), number(c[3]), number(c[4]), number(c[5]), number(c[6])
    local spread = yy - y * y / count
    local nan = bad > 0 and 0 / 0 or 0.0
    columns[i] = { n = count, mae = a / count + nan, rmse = math.sqrt(s / count) + nan, bias = d / count + nan,
      r2 = 1 - s / spread + nan }
    n, lost, absolute, plain, square = n + count, lost + bad, absolute + a, plain + d, square + s
  end
  local nan = lost > 0 and 0 / 0 or 0.0
  return { mae = absolute / n + nan, rmse = math.sqrt(square / n) + nan, bias = plain / n + nan,
    r2 = mean(columns, "r2") + nan, columns = columns, not_finite = lost }
end

-- depths[column] = { { summed, not finite, low targets, low inputs, within 1.25, 1.25^2, 1.25^3 }, |x - y| / y, (x - y)^2 / y, g,
-- g^2 }, as stage `depth_error` gives: sums over x = input, y = target and g = log x - log y -> of all columns { n =, not_finite =,
-- low_targets =, low_inputs =, abs_rel =, sq_rel =, rmse_log =, silog =, delta1 =, delta2 =, delta3 = }. silog is that of KITTI: 100
-- times the deviation of g.
function figures.depth_error(depths)
  if type(depths) ~= "table" or type(depths[1]) ~= "table" or #depths[1] ~= 5 or type(depths[1][1]) ~= "table" then
    core.fail "figures.depth_error: a table of sums is wanted, as stage 'depth_error' gives"
  end
  local counts, sums = { 0, 0, 0, 0, 0, 0, 0 }, { 0.0, 0.0, 0.0, 0.0 }
  for _, c in ipairs(depths) do
    for i in ipairs(counts) do counts[i] = counts[i] + c[1][i] end
    for i in ipairs(sums) do sums[i] = sums[i] + number(c[i + 1]) end
  end
  local n, nan = counts[1], counts[2] > 0 and 0 / 0 or 0.0
  local log, log_square = sums[3] / n, sums[4] / n
  return {
    n = n, not_finite = counts[2], low_targets = counts[3], low_inputs = counts[4], abs_rel = sums[1] / n + nan, sq_rel = sums[2] / n + nan,
    rmse_log = math.sqrt(log_square) + nan, silog = 100 * math.sqrt(math.max(log_square - log * log, 0 * log)) + nan,
    delta1 = counts[5] / n + nan, delta2 = counts[6] / n + nan, delta3 = counts[7] / n + nan,
  }
end

-- ---- boundaries ----

-- boundaries[class] = { predicted, of these near a true one, true, of these near a predicted one }, as stage `boundary`
-- gives -> { f1 =, classes = { { precision =, recall =, f1 =, there = }, ... } }. f1 is the mean over the classes that
-- have a boundary.
function figures.boundary(boundaries)
  if type(boundaries) ~= "table" or type(boundaries[1]) ~= "table" or #boundaries[1] ~= 4 then
    core.fail "figures.boundary: a table of counts is wanted, as stage 'boundary' gives"
  end
  local list, sum, n = {}, 0, 0
  for i, b in ipairs(boundaries) do
    local precision, recall = safe(b[2], b[1]), safe(b[4], b[3])
    list[i] = { precision = precision, recall = recall, f1 = safe(2 * precision * recall, precision + recall),
      there = b[1] + b[3] > 0 }
    if list[i].there then sum, n = sum + list[i].f1, n + 1 end
  end
  return { f1 = sum / n, classes = list }
end

return figures
