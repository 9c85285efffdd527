-- SPDX-License-Identifier: MIT
-- Mean intersection over union from a confusion matrix.
local core = require "spcore.core"

-- counts[truth][predicted]. Returns the mean and the value per class; a class that is neither in the truth nor in the
-- prediction is left out of the mean and false in the list. options.ignore: classes (from 0) to leave out as well.
-- Where nothing is left the mean is nan.
return function(counts, options)
  if type(counts) ~= "table" or type(counts[1]) ~= "table" or #counts[1] ~= #counts then
    core.fail("mean_iou: a square matrix of counts is wanted, as stage 'confusion' gives")
  end
  local ignore = {}
  for _, class in ipairs(options and options.ignore or {}) do ignore[class + 1] = true end
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
