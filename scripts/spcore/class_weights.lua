-- SPDX-License-Identifier: MIT
-- --class-weights of trainings: what a label of each class counts in the loss.
local args = require "spcore.args"
local core = require "spcore.core"
local graph = require "spcore.graph"
local labels = require "spcore.labels"
local options = require "spcore.options"
local progress = require "spcore.progress"
local sys = require "spcore.sys"
local words = require "spcore.words"

local class_weights = {}

class_weights.option = {
  "none", "what a label of each class counts in the loss: a number for each class, or balanced: the rarer the class is in training, the "
    .. "more", value = "balanced|X,...",
}

local SHOWN <const> = 20

-- all / (classes that are there * count), so that each class counts alike, and the mean over all labels is 1.
local function balance(counts)
  local all, there, list = 0, 0, {}
  for _, n in ipairs(counts) do all, there = all + n, there + (n > 0 and 1 or 0) end
  for c, n in ipairs(counts) do list[c] = n > 0 and tonumber(("%.6g"):format(all / (there * n))) or 1.0 end
  return list
end

-- Of masks all are read, since a class of which few have a pixel weighs most.
local function counted(opt, open)
  local g <close> = graph(options.reading_of(opt, { device = "cpu" }))
  local data = open(g, { check = true, size = 8, batch = 8, shuffle = false, drop_last = false })
  local there = labels.of(data)
  if not there then
    args.usage("--class-weights balanced: %s is made up and has nothing to count; leave it out, or give a number for each class", opt.data)
  end
  if there.counts then return balance(there.counts), "balanced by samples" end
  g:results { data.mask, raw = true }
  local bar <close> = sys.isatty "stdout" and not opt.quiet and progress.new { total = data.length, unit = "mask" } or nil
  for _, m in g:steps(g:epoch_steps()) do
    for _ = 1, bar and m.n or 0 do bar:step() end
  end
  if core.interrupted() then core.exit(130) end
  local found = labels.of(data, "training")
  return balance(found.pixels), ("balanced by pixels of %d masks"):format(found.masks)
end

local function listed(text, names, classes)
  local list, sum = {}, 0
  for word in (text .. ","):gmatch "([^,]*)," do
    local v = tonumber(word)
    if not v or not (v >= 0 and v < math.huge) then
      args.usage("--class-weights %s: '%s' is no number of at least 0; balanced, or a number for each class are expected", text, word)
    end
    list[#list + 1], sum = v + 0.0, sum + v
  end
  if #list ~= classes then
    args.usage("--class-weights %s: there are %d classes (%s), and %d number%s; give one for each, or --class-weights balanced", text, classes,
      table.concat(names, ", ", 1, math.min(SHOWN, #names)), #list, #list == 1 and "" or "s")
  end
  if sum == 0 then args.usage("--class-weights %s: nothing counts; one at least is above 0", text) end
  return list, "given"
end

-- of(opt, data, open) -> a number for each class, which is printed, or nil. data: the reader of the training; open(g): makes another
function class_weights.of(opt, data, open)
  local text = opt.class_weights
  if text == "none" then return end
  local names, said = words.lines(data.class_names), {}
  local list, how
  if text == "balanced" then list, how = counted(opt, open) else list, how = listed(text, names, data.classes) end
  for c = 1, math.min(SHOWN, #list) do said[c] = ("%s %.4g"):format(names[c] or c - 1, list[c]) end
  if #list > SHOWN then said[SHOWN + 1] = ("and %d more"):format(#list - SHOWN) end
  progress.print("class weights, %s: %s", how, table.concat(said, ", "))
  return list
end

return class_weights
