-- SPDX-License-Identifier: MIT
-- What is said at the end of a run: how long, how well, and of which classes.
local mean_iou = require "spcore.iou"
local measure = require "spcore.measure"
local progress = require "spcore.progress"
local words = require "spcore.words"

local summary = {}

local most_pairs <const>, most_classes <const> = 5, 20

local function name_of(names, class) return names and names[class] or ("class %d"):format(class - 1) end

-- { { class = name, iou = x }, ... } in the order of the classes; not a number where a class never occurs
function summary.classes(counts, names)
  local list, _, per_class = {}, mean_iou(counts)
  for i, iou in ipairs(per_class) do list[i] = { class = name_of(names, i), iou = iou or 0 / 0 } end
  return list
end

-- { { class = name, taken_for = name, times = n, of = samples of the class }, ... }: the pairs that were confused most often
function summary.confused(counts, names)
  local list = {}
  for i, row in ipairs(counts) do
    local of = 0
    for _, n in ipairs(row) do of = of + n end
    for j, n in ipairs(row) do
      if i ~= j and n > 0 then list[#list + 1] = { i, j, n, of } end
    end
  end
  table.sort(list, function(a, b)
    if a[3] ~= b[3] then return a[3] > b[3] end
    return a[1] * #counts + a[2] < b[1] * #counts + b[2]
  end)
  for k = 1, math.min(#list, most_pairs) do
    local i, j, n, of = table.unpack(list[k])
    list[k] = { class = name_of(names, i), taken_for = name_of(names, j), times = n, of = of }
  end
  return table.move(list, 1, most_pairs, 1, {})
end

-- found(seen, counts) -> seen, { n = validations, [class] = true where one has found something of it }, and the validation of `counts`
function summary.found(seen, counts)
  seen = seen or { n = 0 }
  if type(counts) ~= "table" then return seen end
  seen.n = seen.n + 1
  for i, row in ipairs(counts) do seen[i] = seen[i] or row[i] > 0 end
  return seen
end

-- Classes that are in the last validation, and that none of several has found. may_weigh: there are class weights to be had
function summary.print_never(seen, counts, names, may_weigh)
  local never = {}
  for i, row in ipairs(counts) do
    local there = 0
    for _, n in ipairs(row) do there = there + n end
    if there > 0 and not seen[i] then never[#never + 1] = name_of(names, i) end
  end
  if seen.n < 2 or #never == 0 then return end
  local shown = table.concat(never, ", ", 1, math.min(#never, most_pairs)) .. (#never > most_pairs and ", ..." or "")
  progress.print("%d of %d classes found in none of %d validations: %s; train longer%s", #never, #counts, seen.n, shown,
    may_weigh and ", or give rare ones more weight (--class-weights balanced)" or "")
end

local function print_classes(list)
  local shown, width = {}, 0
  for i, c in ipairs(list) do shown[i] = c end
  if #list > most_classes then -- those that it is worth looking at
    local function badness(c) return c.iou == c.iou and c.iou or 2 end
    table.sort(shown, function(a, b) return badness(a) < badness(b) end)
    shown = table.move(shown, 1, most_classes, 1, {})
  end
  for _, c in ipairs(shown) do width = math.max(width, words.width(c.class)) end
  progress.print("%s", #shown == #list and "IoU of each class:" or ("IoU of the worst %d of %d classes:"):format(#shown, #list))
  for _, c in ipairs(shown) do
    local space = (" "):rep(width - words.width(c.class))
    progress.print("  %s%s  %s", c.class, space, c.iou == c.iou and ("%.4f"):format(c.iou) or "-")
  end
end

local function print_confused(list)
  if #list > 0 then progress.print "most often confused:" end
  for _, p in ipairs(list) do
    progress.print("  %s taken for %s %d time%s of %d", p.class, p.taken_for, p.times, p.times == 1 and "" or "s", p.of)
  end
end

-- s: as summary.json has it; first: steps of sessions before; best_weights: the folder with the weights of the best validation
function summary.print(s, first, best_weights)
  local parts = { ("%d step%s"):format(s.steps, s.steps == 1 and "" or "s") }
  if s.steps > first then
    parts[1] = ("%s%s in %s"):format(parts[1], first > 0 and (", the last %d"):format(s.steps - first) or "",
      progress.clock(s.seconds))
    parts[#parts + 1] = ("%.1f images/s"):format(s.images_per_second)
  end
  if s.loss then parts[#parts + 1] = "last loss " .. (s.loss == s.loss and ("%.4f"):format(s.loss) or "nan") end
  progress.print("%s", table.concat(parts, ", "))
  if s.best then
    local is_last = s.best.step + 1 == s.steps
    progress.print("best %s %.4f at step %d%s", measure.name(s.best.metric) or s.best.metric, s.best.value, s.best.step + 1,
      not is_last and best_weights
        and (": its weights are in %s/best.safetensors, which predict takes with --best"):format(best_weights) or "")
  end
  local told = s.evaluation and measure.words(s.evaluation)
  if told and told:find "," then progress.print("validation: %s", told) end
  if s.classes then print_classes(s.classes) end
  if s.most_confused then print_confused(s.most_confused) end
end

return summary
