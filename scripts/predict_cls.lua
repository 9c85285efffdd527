-- SPDX-License-Identifier: MIT
-- Classifies images with the weights of a run of train_cls.lua. Images are requests: there may be any number of them, and
-- one that cannot be read is named while the others go on.
local sp = require "spcore"
local predict = require "spcore.predict"
local targets = require "spcore.targets"
local twos = require "spcore.twos"

local opt, model, weights = predict.args("train_cls.lua", {
  out = {
    "predictions.csv", "NAME.csv: a line for each image: file, class, its name, probability, or several, or numbers; NAME.json: all "
      .. "probabilities",
  },
  threshold = { -1.0, "with a run of --target labels: the labels that are at least so probable", default = "0.5", min = 0.0, max = 1.0 },
  top = { 0, "with NAME.json: so many classes, the most probable ones first", default = "all, by number", min = 0 },
}, "Classifies images: writes the most probable class of each, or what else the run has learned.")
targets.check(model, opt.weights)

local function quoted(text)
  return text:find '[",\n\r]' and '"' .. text:gsub('"', '""') .. '"' or text
end

local HEAD = "file,class,name,probability\n"
if model.target == "labels" then HEAD = "file,classes,names,probabilities\n"
elseif model.target == "numbers" then
  local columns = { "file" }
  for i, name in ipairs(model.numbers.names) do columns[i + 1] = quoted(name) end
  HEAD = table.concat(columns, ",") .. "\n"
end
if opt.threshold >= 0 and model.target ~= "labels" then sp.usage "--threshold: goes with a run of --target labels" end
local threshold = opt.threshold >= 0 and opt.threshold or 0.5
if opt.top > 0 and model.target then sp.usage("--top: goes with a run of one class, and this one learned %s", model.target) end
local as_json = opt.out:match "%.json$" ~= nil
if opt.top > 0 and not as_json then sp.usage("--top: goes with --out NAME.json") end
predict.check_file(opt.out, not as_json and HEAD or nil)
if not as_json and not opt.out:match "%.csv$" and require "spcore.sys".kind(opt.out) ~= "other" then
  sp.usage("--out %s: NAME.csv or NAME.json is wanted (--out %s.csv)", opt.out, (opt.out:gsub("%.[^./]*$", ""):gsub("/+$", "")))
end

local images = predict.images(opt, opt.out:gsub("%.[^./]*$", "") .. ".bad.txt", false, model.fusion ~= nil)
local g <close> = sp.graph(opt)
local data = g.image_requests(predict.reading(model, { batch = images.batch, decode = opt.decode }))
local scores = predict.classify(g, twos.images(data, model), model, weights)
local port = scores.name:match "[^.]*$" -- what an answer calls them
g:results { scores }

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

-- An image's line, and its entry in JSON, by what the run has learned.
local write = {}

function write.class(path, logits)
  local p, at = softmax(logits)
  if as_json then return entry_of(path, p, at) end
  return ("%s,%d,%s,%.4f\n"):format(quoted(path), at - 1, quoted(names[at]), p[at])
end

function write.labels(path, logits)
  local p = targets.probabilities(logits)
  local list = targets.above(p, threshold, names)
  if as_json then
    for i, v in ipairs(p) do p[i] = short(v) end
    return { file = path, labels = sp.json.list(list), probabilities = p }
  end
  local columns = { {}, {}, {} }
  for i, l in ipairs(list) do
    columns[1][i], columns[2][i], columns[3][i] = l.class, l.name, ("%.4f"):format(l.probability)
  end
  for i, c in ipairs(columns) do columns[i] = quoted(table.concat(c, ";")) end
  return quoted(path) .. "," .. table.concat(columns, ",") .. "\n"
end

function write.numbers(path, outputs)
  local list = targets.numbers(model, outputs)
  if as_json then return { file = path, numbers = sp.json.list(list) } end
  return quoted(path) .. "," .. table.concat(list, ",") .. "\n"
end

local out = as_json and predict.json(g, opt.out, names) or predict.output(g, opt.out)
if not as_json then out:write(HEAD) end
local done = predict.each(g, images, function(answer)
  local path = answer.request.path
  if answer.error then return as_json and out:add { file = path, error = answer.error } end
  local scores_of = answer[port]
  local one = write[model.target or "class"](path, type(scores_of) == "table" and scores_of or { scores_of })
  if as_json then
    one.second = answer.request.second
    out:add(one)
  else
    out:write(one)
  end
end)
out:close()
predict.finish(images, done, "%s: %s", opt.out, model.target or "classes")
