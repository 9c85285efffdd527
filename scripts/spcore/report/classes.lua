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

-- { by = "iou" or "f1", { name =, support = how many of it there are, share = of all, taken = how many are taken for it,
-- iou =, precision =, recall =, f1 = or nil where nothing is to be divided }, ... } in the order of the classes; nil: no matrix.
function classes.of(run)
  local counts = classes.counts(run)
  if not counts then return end
  local names, all, list = names_of(run, #counts), 0, {}
  for i, c in ipairs(figures.confusion(counts).classes) do
    list[i] = {
      name = names[i], support = c.support, taken = c.taken, iou = c.there and c.iou or nil, f1 = c.there and c.f1 or nil,
      recall = c.support > 0 and c.recall or nil, precision = c.taken > 0 and c.precision or nil,
    }
    all = all + c.support
  end
  for _, one in ipairs(list) do one.share = all > 0 and one.support / all or nil end
  list.by = type(run.evaluation.top1) == "number" and "f1" or "iou"
  return list
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
