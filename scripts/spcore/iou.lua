-- SPDX-License-Identifier: MIT
-- Mean intersection over union from a confusion matrix.
local core = require "spcore.core"
local words = require "spcore.words"

-- How often each class is true, and predicted: once over the matrix, as a training does this in each step.
local function add_up(counts, truth, predicted)
  local n = #counts
  for j = 1, n do predicted[j] = 0 end
  for i = 1, n do
    local row, all = counts[i], 0
    if #row ~= n then error "not square" end
    for j = 1, n do
      local count = row[j]
      all, predicted[j] = all + count, predicted[j] + count
    end
    truth[i] = all
  end
  return n > 0 or error "empty"
end

-- The places of the classes that are left out.
local function ignored(options, n)
  local places = {}
  if options == nil then return places end
  words.check_keys("mean_iou", options, { ignore = true })
  local list = options.ignore
  if list == nil then return places end
  if type(list) ~= "table" then
    core.fail(("mean_iou: ignore: a list of classes such as { 0 } is wanted, got a %s"):format(type(list)))
  end
  for _, class in ipairs(list) do
    if math.type(class) ~= "integer" or class < 0 or class >= n then
      core.fail(("mean_iou: ignore: there is no class %s (0 to %d)"):format(tostring(class), n - 1))
    end
    places[class + 1] = true
  end
  return places
end

-- counts[truth][predicted]. Returns the mean and the value per class; a class that is neither in the truth nor in the
-- prediction is left out of the mean and false in the list. options.ignore: classes (from 0) to leave out as well.
-- Where nothing is left the mean is nan.
return function(counts, options)
  local truth, predicted = {}, {}
  if not pcall(add_up, counts, truth, predicted) then -- whatever else it is
    core.fail "mean_iou: a square matrix of counts is wanted, as stage 'confusion' gives"
  end
  local n, sum, classes, per_class = #truth, 0, 0, {}
  local ignore = ignored(options, n)
  for i = 1, n do
    local hits = counts[i][i]
    local union = truth[i] + predicted[i] - hits
    per_class[i] = union > 0 and not ignore[i] and hits / union
    if per_class[i] then
      sum = sum + per_class[i]
      classes = classes + 1
    end
  end
  return sum / classes, per_class
end
