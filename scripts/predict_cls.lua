-- SPDX-License-Identifier: MIT
-- Classifies images with the weights of a run of train_cls.lua. Images are requests: there may be any number of them, and
-- one that cannot be read is named while the others go on.
local sp = require "spcore"
local predict = require "spcore.predict"

local opt, model, weights = predict.args("train_cls.lua", {
  out = {
    "predictions.csv", "NAME.csv: a line for each image: file, class, its name, probability; NAME.json: all probabilities",
  },
  top = { 0, "with NAME.json: so many classes, the most probable ones first", default = "all, by number", min = 0 },
}, "Classifies images: writes the most probable class of each.")

local HEAD <const> = "file,class,name,probability\n"
local as_json = opt.out:match "%.json$" ~= nil
if opt.top > 0 and not as_json then sp.usage("--top: goes with --out NAME.json") end
predict.check_file(opt.out, not as_json and HEAD or nil)

local images = predict.images(opt, opt.out:gsub("%.[^./]*$", "") .. ".bad.txt", false)
local g <close> = sp.graph(opt)
local data = g.image_requests(predict.reading(model, { batch = images.batch, decode = opt.decode }))
g:results { predict.classify(g, data.image, model, weights) }

local names = predict.class_names(model, model.classes)

-- Probabilities, and the number of the largest, from 1.
local function softmax(logits)
  local at, sum, p = 1, 0, {}
  for i, v in ipairs(logits) do
    if v > logits[at] then at = i end
  end
  for i, v in ipairs(logits) do
    p[i] = math.exp(v - logits[at])
    sum = sum + p[i]
  end
  for i, v in ipairs(p) do p[i] = v / sum end
  return p, at
end

-- Six digits are more than float32 logits are worth.
local function short(v) return tonumber(("%.6g"):format(v)) end

local function best_of(p, n)
  local order, list = {}, {}
  for i = 1, #p do order[i] = i end
  table.sort(order, function(a, b) return p[a] > p[b] or p[a] == p[b] and a < b end)
  for k = 1, math.min(n, #order) do
    list[k] = { class = order[k] - 1, name = names[order[k]], probability = short(p[order[k]]) }
  end
  return list
end

local function entry_of(path, p, at)
  local entry = { file = path, class = at - 1, name = names[at], probability = short(p[at]) }
  if opt.top > 0 then
    entry.top = best_of(p, opt.top)
    return entry
  end
  for i, v in ipairs(p) do p[i] = short(v) end
  entry.probabilities = p
  return entry
end

local function quoted(text)
  return text:find '[",\n\r]' and '"' .. text:gsub('"', '""') .. '"' or text
end

local out = as_json and predict.json(g, opt.out, names) or predict.output(g, opt.out)
if not as_json then out:write(HEAD) end
local done = predict.each(g, images, function(answer)
  local path = answer.request.path
  if answer.error then return as_json and out:add { file = path, error = answer.error } end
  local p, at = softmax(answer.logits)
  if as_json then out:add(entry_of(path, p, at))
  else out:write(quoted(path), ",", at - 1, ",", quoted(names[at]), ",", ("%.4f"):format(p[at]), "\n") end
end)
out:close()
predict.finish(images, done, "%s: classes", opt.out)
