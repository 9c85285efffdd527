-- SPDX-License-Identifier: MIT
-- Some samples of the validation and what the network makes of them, for report and TensorBoard. RUN/samples has of each a
-- picture, that of its labels, and what was predicted in the last evaluation and in the best one; samples.json says what they
-- are. A small graph of its own computes them behind an evaluation, with the weights from a file: nothing of it is in the
-- training's.
local core = require "spcore.core"
local files = require "spcore.files"
local graph = require "spcore.graph"
local figures = require "spcore.figures"
local json = require "spcore.json"
local mean_iou = require "spcore.iou"
local options = require "spcore.options"
local ranks = require "spcore.ranks"
local sys = require "spcore.sys"

local SIDE <const> = 256 -- pixels, at most
local EACH <const> = 8 -- so many candidates for each of the worst
local DOTS <const> = 128 -- samples in a plot of numbers

local samples = { most = 8 }
samples.__index = samples

-- new{ dir = the run's folder, graph =, wire =, count =, classes = names or nil, best = step of the best evaluation of a run
-- that goes on }. wire(g, weights) puts the network into g, all of its weights from that file, behind a source of one sample a
-- step, and says what is shown: { data = source, image =, second = or nil, logits =, and mask = or label = the truth; of several labels and
-- of numbers also target = "labels" or "numbers", and numbers = { names =, mean =, std = }, by which numbers are in their units; of maps
-- map = the truth and values = what is predicted, lo =, hi = the numbers of both that are the ends of the colours, scale =,
-- offset = to their units }.
function samples.new(t)
  local self = setmetatable({
    dir = t.dir .. "/samples", graph = t.graph, wire = t.wire, count = math.min(t.count, samples.most), classes = t.classes,
    told = false,
  }, samples)
  if ranks.first then files.tidy(self.dir, { "weights%.safetensors", "%w+%-%d+%.png", "samples%.json" }, t.dir .. "/settings.json") end
  local old = t.best and json.read(self.dir .. "/samples.json")
  if type(old) == "table" and type(old.best) == "table" and old.best.step == t.best then self.best = old.best end
  return self
end

-- ---- the graph ----

-- Image and mask at the size of the pictures.
local function fit(g, image, mask)
  local longest = math.max(image.shape[3], image.shape[4])
  if longest <= SIDE then return image, mask end
  local function side(px) return math.max(1, px * SIDE // longest) end
  local made = g.resize { image, masks = mask, size = { side(image.shape[3]), side(image.shape[4]) } }
  return made.images[1], mask and made.masks[1]
end

-- And which sample of the whole set it is, where the source says so: its file's name follows from that.
local function add_results(g, t, list)
  local ok, origin = pcall(function() return t.data.origin end)
  if ok and core.kind(origin) == "output" then
    list[#list + 1], t.origin = origin, origin
  end
  g:results(list)
end

local function put_masks(g, t, dir)
  local image, mask = fit(g, t.image, t.mask)
  if t.second then g.image_writer { image = fit(g, t.second), name = "second", dir = dir, images = "second-*.png" } end
  local truth = g.image_writer { image = image, mask = mask, name = "truth", dir = dir, images = "input-*.png",
    masks = "truth-*.png" }
  local predicted = g.image_writer { image = image, logits = t.logits, name = "predicted", dir = dir, images = "",
    masks = "last-*.png" }
  pcall(g.confusion, { t.logits, t.mask, ignore_index = 255, name = "of_sample" }) -- scores of another size are no worse for it
  add_results(g, t, { truth.pixels, predicted.pixels })
end

local function put_classes(g, t, dir)
  if t.second then g.image_writer { image = fit(g, t.second), name = "second", dir = dir, images = "second-*.png" } end
  g.image_writer { image = fit(g, t.image), dir = dir, images = "input-*.png" }
  add_results(g, t, { t.logits, t.label })
end

-- Numbers in colours, and how far both are from each other, in colours up to a quarter of the range.
local function put_maps(g, t, dir)
  local shown = { g.image_writer { image = fit(g, t.image), name = "input", dir = dir, images = "input-*.png" }.size }
  if t.second then g.image_writer { image = fit(g, t.second), name = "second", dir = dir, images = "second-*.png" } end
  local pictures = {
    truth = g.map_picture { t.map, lo = t.lo, hi = t.hi, name = "truth_colours" },
    last = g.map_picture { t.values, lo = t.lo, hi = t.hi, name = "last_colours" },
    error = g.map_picture { t.values, t.map, lo = 0.0, hi = (t.hi - t.lo) / 4, name = "error_colours" },
  }
  for kind, picture in pairs(pictures) do
    g.image_writer { image = fit(g, picture.image), name = kind, dir = dir, images = kind .. "-*.png" }
  end
  g.deviation { t.values, t.map, name = "of_sample" }
  add_results(g, t, shown)
end

-- ---- what was predicted ----

-- The labels that there are in the pictures, into the set.
local function add_labels(set, pixels)
  for label, n in ipairs(pixels) do set[label - 1] = n > 0 or set[label - 1] end
end

local function best_of(logits)
  local at, sum = 1, 0
  for i, v in ipairs(logits) do at = v > logits[at] and i or at end
  for _, v in ipairs(logits) do sum = sum + math.exp(v - logits[at]) end
  return { class = at - 1, probability = sum == sum and 1 / sum or nil } -- nil: the network has diverged
end

-- A step's result, which has its port's name, or the stage's and that.
local function result(m, output) return (rawget(m, output.name) or m[output.name:match "[^.]*$"])[1] end

-- Its file; nil where the source has none, or does not say.
local function file_of(m, t)
  if not t.origin then return end
  local ok, name = pcall(function() return t.data:item("files", math.tointeger(result(m, t.origin)[1])) end)
  return ok and name ~= "" and name or nil
end

-- The cross entropy of a sample's class, which a probability of 0 does not make infinite.
local function loss_of(logits, class)
  local most, sum = -math.huge, 0
  for _, v in ipairs(logits) do most = math.max(most, v) end
  for _, v in ipairs(logits) do sum = sum + math.exp(v - most) end
  local loss = most + math.log(sum) - (logits[class + 1] or 0 / 0)
  return loss == loss and loss or nil
end

-- What a sample has of several labels, and how sure the network is of each; the loss is the mean of their cross entropies.
local function add_several(one, logits, truth)
  local loss, there, guess = 0, json.list {}, { classes = json.list {}, probabilities = json.list {} }
  for i, v in ipairs(logits) do
    loss = loss + math.max(v, 0) - v * truth[i] + math.log(1 + math.exp(-math.abs(v)))
    if truth[i] > 0.5 then there[#there + 1] = i - 1 end
    if v >= 0 then
      guess.classes[#guess.classes + 1] = i - 1
      guess.probabilities[#guess.probabilities + 1] = tonumber(("%.4g"):format(1 / (1 + math.exp(-v))))
    end
  end
  one.truths, one.loss = there, loss == loss and loss / #logits or nil
  return guess
end

-- std: of what was learned as a float in its units; smaller parts of it are rounding, so that a 0 stays one.
local function short(v, std)
  local unit = std > 0 and 10 ^ math.ceil(math.log(std * 2 ^ -22, 10)) or 0
  if std ~= 1 and v == v and math.abs(v) < math.huge and unit > 0 then v = math.floor(v / unit + 0.5) * unit end
  return tonumber(("%.6g"):format(v)) or 0 / 0
end

-- Numbers in their units; the loss is the mean of squares as it was learned.
local function add_numbers(one, outputs, truth, n)
  local loss, are, guess = 0, json.list {}, { values = json.list {} }
  for i, v in ipairs(outputs) do
    loss = loss + (v - truth[i]) ^ 2
    local std, mean = n and n.std[i] or 1, n and n.mean[i] or 0
    are[i], guess.values[i] = short(truth[i] * std + mean, std), short(v * std + mean, std)
  end
  one.values, one.loss = are, loss == loss and loss < math.huge and loss / #outputs or nil
  return guess
end

-- One sample's: { name =, file =, truth = its class, iou = or loss = }, what was predicted, where that is a class.
local function sample_of(m, t, set)
  local one = { name = ("%05d"):format(m.step), file = file_of(m, t) } -- named as image_writer does
  if t.map then
    local rmse = figures.deviation(m.deviations or rawget(m, "of_sample.deviations")).rmse * t.scale
    one.rmse = rmse == rmse and rmse or nil
    return one
  end
  if t.mask then
    add_labels(set, m["truth.pixels"][1])
    add_labels(set, m["predicted.pixels"][1])
    local counts = m.counts or rawget(m, "of_sample.counts")
    local iou = type(counts) == "table" and mean_iou(counts) or 0 / 0
    one.iou = iou == iou and iou or nil
    return one
  end
  local logits = result(m, t.logits)
  if t.target == "labels" then return one, add_several(one, logits, result(m, t.label)) end
  if t.target == "numbers" then return one, add_numbers(one, logits, result(m, t.label), t.numbers) end
  one.truth, one.loss = result(m, t.label), loss_of(logits, result(m, t.label))
  return one, best_of(logits)
end

-- The graph, and what it shows. It is made once: that takes ten times as long as to run it.
local function ready(self, weights)
  local g = self.small
  if g then
    for _, node in ipairs(g:nodes()) do
      if #node:weights() > 0 then g._raw:load({ file = weights }, node) end
    end
    return g, self.shown
  end
  local o = self.graph._opt
  g = graph(options.reading_of(o, { device = o.device, precision = self.graph._raw:options().precision, seed = o.seed,
    capture = "off", run_ahead = 0, shards = 1, prefetch = 1, workers = 1 }))
  self.small, self.shown = g, self.wire(g, weights)
  local put = self.shown.map and put_maps or self.shown.mask and put_masks or put_classes
  put(g, self.shown, self.dir)
  return g, self.shown
end

-- Runs `most` samples from all over the validation -> samples, predictions, labels; nil where a signal came.
local function run(self, weights, most)
  local set, list, predicted, labels = {}, {}, {}, {}
  local g, t = ready(self, weights)
  local count = math.min(most, t.data.length)
  for k = 0, count - 1 do
    g:seek(k * t.data.length // count)
    for _, m in g:steps(1) do list[#list + 1], predicted[#predicted + 1] = sample_of(m, t, set) end
  end
  if #list < count then return end
  for label in pairs(set) do labels[#labels + 1] = set[label] and label or nil end
  table.sort(labels)
  return list, predicted, t.mask and labels or nil
end

-- ---- files ----

local replace = files.replace

local function name_of(self, class) return self.classes and self.classes[class + 1] or tostring(class) end

-- What there is of each sample.
local function pictures_of(self)
  local kinds = { "input", "truth", "last" }
  if self.shown.map then kinds[#kinds + 1] = "error" end
  if self.shown.second then kinds[#kinds + 1] = "second" end
  return kinds
end

-- "ant, bee", of a sample or of what was predicted
local function words_of(self, t, one)
  local out = {}
  local names = t.numbers and t.numbers.names
  for i, v in ipairs(one.values or {}) do out[i] = ("%s %.4g"):format(names and names[i] or "value", v) end
  for i, class in ipairs(one.truths or one.classes or {}) do
    out[i] = name_of(self, class) .. (one.probabilities and (" %.3f"):format(one.probabilities[i]) or "")
  end
  return out[1] and table.concat(out, ", ") or "none"
end

local function tell_several(self, board, step, list, predicted)
  local lines = { "| sample | is | predicted |\n|---|---|---|" }
  for i, s in ipairs(list) do
    local tag = ("validation/samples/%d/input"):format(tonumber(s.name))
    if not self.told then board:image(step, tag, ("%s/input-%s.png"):format(self.dir, s.name)) end
    lines[#lines + 1] = ("| %d | %s | %s |"):format(tonumber(s.name), (words_of(self, self.shown, s):gsub("|", "\\|")),
      (words_of(self, self.shown, predicted[i]):gsub("|", "\\|")))
  end
  board:text(step, "validation/samples", table.concat(lines, "\n"))
end

local function tell_masks(self, board, step, list)
  for _, s in ipairs(list) do
    local group = ("validation/samples/%d/"):format(tonumber(s.name))
    for _, kind in ipairs(self.told and { "last", self.shown.map and "error" or nil } or pictures_of(self)) do
      board:image(step, group .. (kind == "last" and "predicted" or kind), ("%s/%s-%s.png"):format(self.dir, kind, s.name))
    end
  end
end

local function tell_classes(self, board, step, list, predicted)
  local function cell(class) return (name_of(self, class):gsub("|", "\\|")) end
  local lines = { "| sample | is | taken for | probability |\n|---|---|---|---|" }
  for i, s in ipairs(list) do
    local tag = ("validation/samples/%d/input"):format(tonumber(s.name))
    if not self.told then board:image(step, tag, ("%s/input-%s.png"):format(self.dir, s.name)) end
    local p = predicted[i]
    lines[#lines + 1] = ("| %d | %s | %s | %s |"):format(tonumber(s.name), cell(s.truth), cell(p.class),
      p.probability and ("%.3f"):format(p.probability) or "not a number")
  end
  board:text(step, "validation/samples", table.concat(lines, "\n"))
end

local function draw(self, step, best, board)
  sys.mkdir(self.dir) -- where there is none the save says so, in which all ranks may take part
  local weights <close> = setmetatable({ path = self.dir .. "/weights.safetensors" }, {
    __close = function(w) os.remove(w.path) end,
  })
  self.graph:save(weights.path, { averages = true })
  local list, predicted, labels = run(self, weights.path, self.count)
  if not list then return end
  local last = { step = step, predicted = predicted[1] and json.list(predicted) }
  if best then
    for _, s in ipairs((labels or self.shown.map) and list or {}) do
      replace(("%s/best-%s.png"):format(self.dir, s.name), files.read(("%s/last-%s.png"):format(self.dir, s.name)))
    end
    self.best = last
  end
  self.about = {
    classes = self.classes and json.list(self.classes), samples = json.list(list), labels = labels and json.list(labels),
    two_images = self.shown.second and true or nil, last = last, best = self.best, target = self.shown.target,
    map = self.shown.map and { least = self.shown.lo * self.shown.scale + self.shown.offset,
      largest = self.shown.hi * self.shown.scale + self.shown.offset, error = (self.shown.hi - self.shown.lo) / 4 * self.shown.scale },
    columns = self.shown.target == "numbers" and json.list(self.shown.numbers and self.shown.numbers.names or {}) or nil,
  }
  replace(self.dir .. "/samples.json", json.encode(self.about) .. "\n")
  local tell = (labels or self.shown.map) and tell_masks or self.shown.target and tell_several or tell_classes
  if board then tell(self, board, step, list, predicted) end
  self.told = true
end

-- Behind the evaluation that came after `step`, with its weights; best: it is the best one so far. What goes wrong costs the
-- pictures, not the training.
function samples:draw(step, best, board)
  local wanted = not self.off and not core.interrupted()
  if ranks.share_averages(self.graph) then
    wanted = ranks.told(tostring, wanted) == "true"
    if wanted and not ranks.first then self.graph:save("", { averages = true }) end
  end
  if not wanted or not ranks.first then return end
  local ok, why = pcall(draw, self, step, best, board)
  if ok then return end
  self.off = true
  self:close()
  if tostring(why):find "unknown stage 'image_writer'" then why = "this build has no stage 'image_writer', which writes PNG" end
  core.log("warn", ("no pictures of samples: %s"):format(why))
end

-- The worst of EACH times as many samples, evenly spaced, with the weights of that file, after the run's last step: those of the
-- least IoU, or of the largest RMSE or loss.
local function worst(self, weights, step)
  local of_numbers = self.shown.target == "numbers"
  local list, predicted, labels = run(self, weights, of_numbers and math.max(DOTS, EACH * self.count) or EACH * self.count)
  if not list then return end
  local by, order, kept, shown = labels and "iou" or self.shown.map and "rmse" or "loss", {}, {}, {}
  for i, s in ipairs(list) do
    s.predicted = predicted[i]
    if s[by] then order[#order + 1] = s end
  end
  local dots = of_numbers and json.list {} or nil
  for i, s in ipairs(of_numbers and list or {}) do dots[i] = { name = s.name, values = s.values, predicted = predicted[i].values } end
  table.sort(order, function(a, b)
    if a[by] ~= b[by] then return (a[by] < b[by]) == (by == "iou") end
    return a.name < b.name
  end)
  for i = 1, math.min(self.count, #order) do kept[i] = order[i] end
  for _, s in ipairs(kept) do shown[s.name] = true end
  for _, s in ipairs(self.about.samples) do shown[s.name] = true end
  for _, s in ipairs(list) do
    for _, kind in ipairs(not shown[s.name] and pictures_of(self) or {}) do
      os.remove(("%s/%s-%s.png"):format(self.dir, kind, s.name))
    end
  end
  self.about.worst = { step = step, by = by, of = #list, all = self.shown.data.length, samples = json.list(kept), dots = dots }
  replace(self.dir .. "/samples.json", json.encode(self.about) .. "\n")
end

-- Once, at the run's end, on the first rank. What goes wrong costs these pictures alone.
function samples:worst(weights, step)
  if self.off or not self.about or not self.small or not step or not ranks.first then return end
  local ok, why = pcall(worst, self, weights, step)
  if not ok then core.log("warn", ("no pictures of the worst samples: %s"):format(why)) end
end

function samples:close()
  if self.small then self.small:close() end
  self.small = nil
end

return samples
