-- SPDX-License-Identifier: MIT
-- Classifies images with the weights of a run of train_cls.lua. Images are requests: there may be any number of them, and
-- one that cannot be read is named while the others go on.
local sp = require "spcore"

local opt = sp.args({
  weights = { "", "folder of a run of train_cls.lua" },
  out = { "predictions.csv", "file with a line for each image: file, class, name of the class, probability" },
  batch = { 8, "images a step", min = 1, max = 1024 },
}, {
  rest = "IMAGE|FOLDER...", doc = "Classifies images: writes the most probable class of each.",
  without = { "by_hand", "run", "training", "reading", "seed", "auto_budget", "auto_again" },
})

if opt.weights == "" then sp.usage("--weights RUN is missing: the folder of a run of train_cls.lua") end
if #opt.rest == 0 then sp.usage("no image is given") end

local settings, why = sp.json.read(opt.weights .. "/settings.json")
if not settings then sp.usage("--weights: %s", why) end
local model = settings.model
if type(model) ~= "table" or type(model.encoder) ~= "table" or math.type(model.classes) ~= "integer"
  or math.type(model.size) ~= "integer" then
  sp.usage("--weights: %s/settings.json describes no model; is it a run of train_cls.lua?", opt.weights)
end

local next_image, total = sp.pictures(opt.rest)
local g <close> = sp.graph(opt)
local size = model.size
local x = g.image_requests { size = { size, size }, batch = math.min(opt.batch, total) }.image
if model.crop then -- as the validation does: the middle, at the size of training
  x = g.resize { g.batch_crop { x, size = model.crop }.images, size = size }.images
end
x = g.normalize { x, scale = true, mean = 0.5, std = 0.25 }.images
local encoder = { x, frozen = true, weights = opt.weights }
for k, v in pairs(model.encoder) do encoder[k] = v end
local head = g.classifier {
  g.encoder(encoder).features, model = "pool", classes = model.classes, frozen = true, weights = opt.weights,
}
g:results { head.logits }

-- The most probable class, from 0, and its probability.
local function best(logits)
  local at, sum = 1, 0
  for i, v in ipairs(logits) do
    if v > logits[at] then at = i end
  end
  for _, v in ipairs(logits) do sum = sum + math.exp(v - logits[at]) end
  return at - 1, 1 / sum
end

local function quoted(text)
  return text:find '[",\n\r]' and '"' .. text:gsub('"', '""') .. '"' or text
end

local out, failed = io.open(opt.out, "w")
if not out then sp.fail(failed) end
local function write(...)
  local ok, words = out:write(...)
  if not ok then sp.fail(("%s: %s"):format(opt.out, words)) end
end

local done, bad = 0, 0
write "file,class,name,probability\n"
do
  local bar <close> = sp.progress { total = total, unit = "image" }
  for answer in g:answers(next_image) do
    if answer.error and not sp.interrupted() then
      bad = bad + 1
      sp.warn(answer.error)
    elseif not answer.error then
      local class, p = best(answer.logits)
      local name = model.class_names and model.class_names[class + 1] or tostring(class)
      write(quoted(answer.request.path), ",", class, ",", quoted(name), ",", ("%.4f"):format(p), "\n")
      done = done + 1
    end
    bar:step()
  end
end
local closed, words = out:close()
if not closed then sp.fail(("%s: %s"):format(opt.out, words)) end
if sp.interrupted() then sp.exit(130) end
sp.print("%s: classes of %d image%s", opt.out, done, done == 1 and "" or "s")
if bad > 0 then
  sp.warn(("%d of %d images could not be read; they are named above"):format(bad, done + bad))
  sp.exit(1)
end
