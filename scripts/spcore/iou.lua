-- SPDX-License-Identifier: MIT
-- Mean intersection over union from a confusion matrix.
local core = require "spcore.core"
local words = require "spcore.words"

local function check(counts)
  local fine = type(counts) == "table" and #counts > 0
  for i = 1, fine and #counts or 0 do
    local row = counts[i]
    fine = fine and type(row) == "table" and #row == #counts
    for j = 1, fine and #row or 0 do fine = fine and type(row[j]) == "number" end
  end
  if not fine then core.fail "mean_iou: a square matrix of counts is wanted, as stage 'confusion' gives" end
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
  check(counts)
  local ignore = ignored(options, #counts)
  local n, sum, classes, per_class = #counts, 0, 0, {}
  for i = 1, n do
    local union = -counts[i][i]
    for j = 1, n do union = union + counts[i][j] + counts[j][i] end
    per_class[i] = union > 0 and not ignore[i] and counts[i][i] / union
    if per_class[i] then
      sum = sum + per_class[i]
      classes = classes + 1
    end
  end
  return sum / classes, per_class
end
