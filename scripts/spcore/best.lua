-- SPDX-License-Identifier: MIT
-- The metric of validations by which the best one is chosen, and --patience judges (--best-by).
local args = require "spcore.args"
local core = require "spcore.core"
local measure = require "spcore.measure"
local words = require "spcore.words"

local best = {}

-- What a validation is worth by a metric, the more the better -> that, the metric's name, its value; nil: it has no such number, or
-- nothing was measured.
function best.worth(by, eval)
  if by == "auto" then
    by = "loss"
    for _, name in ipairs { "map", "accuracy", "iou" } do
      if type(eval[name]) == "number" then by = name end
    end
  end
  local v = eval[by]
  if type(v) ~= "number" or v ~= v then return end
  local sign = measure.sign(by)
  return sign == 0 and -math.abs(v) or sign * v, by, v
end

local function refusal(by, names)
  return ("--best-by %s: validations have no such metric; they have %s%s"):format(by,
    names[1] and table.concat(names, ", ") or "none", words.near(by, names))
end

-- The stages with an output of that name; an evaluation runs no optimizer.
local function stages_with(g, output)
  local list = {}
  for _, node in ipairs(g:nodes()) do
    local ok, v = pcall(function() return not node.optimizer and node[output] end)
    if ok and core.kind(v) == "output" then list[#list + 1] = node end
  end
  return list
end

-- What validations are chosen by most of the time: of the outputs of stages nobody knows which are numbers.
local function usual(g)
  local names = {}
  local hits, pairs_counted = #stages_with(g, "counted") == 1, #stages_with(g, "counts") == 1
  if hits then names[1] = "accuracy" elseif pairs_counted then names[1], names[2] = "iou", "dice" end
  local scores = #stages_with(g, "scores") == 1
  if hits and pairs_counted or scores and not pairs_counted then table.move({ "f1", "precision", "recall" }, 1, 3, #names + 1, names) end
  for _, output in ipairs { "scores", "reliability", "boundaries", "deviations", "depths" } do
    local list = #stages_with(g, output) == 1 and measure.figures_of[output] or {}
    table.move(list, 1, #list, #names + 1, names)
  end
  local losses = stages_with(g, "loss")
  for i, node in ipairs(losses) do names[#names + 1] = #losses == 1 and "loss" or losses[i].name .. ".loss" end
  return names
end

-- Whether an output of a stage is one number.
local function is_number(output)
  local n = 1
  for _, size in ipairs(output.shape) do n = n * size end
  return n == 1
end

-- Ends with a line, before a step is done, where `by` is an output that is no number, or nearly the name of one that is. Another
-- name may be of what the script itself puts into validations.
function best.check(by, g)
  local stage, port = by:match "^([^.]+)%.([^.]+)$"
  local names = usual(g)
  for _, name in ipairs(names) do
    if name == by then return end
  end
  local found
  for _, node in ipairs(stages_with(g, port or by)) do
    if not stage or node.name == stage then
      found = true
      if is_number(node[port or by]) then return end
    end
  end
  if by ~= "auto" and (found or words.near(by, names) ~= "") then args.usage("%s", refusal(by, names)) end
end

-- Raises the same where a validation does not have it as a number. needed: "auto" is to find one, too.
function best.demand(by, eval, needed)
  if by == "auto" and not needed then return end
  local names = {}
  for _, name in ipairs(words.keys(eval)) do
    if type(eval[name]) == "number" and name ~= "n" and name ~= "batches" then names[#names + 1] = name end
    if name == by and type(eval[name]) == "number" then return end
  end
  if by ~= "auto" or not (eval.iou or eval.accuracy or eval.map or eval.loss) then core.fail(refusal(by, names)) end
end

return best
