-- SPDX-License-Identifier: MIT
-- Classifies images with the weights of a run of train_cls.lua. Images are requests: there may be any number of them, and
-- one that cannot be read is named while the others go on.
local sp = require "spcore"
local predict = require "spcore.predict"

local opt, model, weights = predict.args("train_cls.lua", {
  out = { "predictions.csv", "file with a line for each image: file, class, name of the class, probability" },
}, "Classifies images: writes the most probable class of each.")

local images = predict.images(opt, opt.out:gsub("%.[^./]*$", "") .. ".bad.txt")
local g <close> = sp.graph(opt)
local size = model.size
local x = g.image_requests { size = { size, size }, batch = images.batch }.image
if model.crop then -- as the validation does: the middle, at the size of training
  x = g.resize { g.batch_crop { x, size = model.crop }.images, size = size }.images
end
x = g.normalize { x, scale = true, mean = 0.5, std = 0.25 }.images
local encoder = { x, frozen = true, weights = weights }
for k, v in pairs(model.encoder) do encoder[k] = v end
local head = g.classifier {
  g.encoder(encoder).features, model = "pool", classes = model.classes, frozen = true, weights = weights,
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

write "file,class,name,probability\n"
local done = predict.each(g, images, function(answer)
  if answer.error then return end
  local class, p = best(answer.logits)
  local name = model.class_names and model.class_names[class + 1] or tostring(class)
  write(quoted(answer.request.path), ",", class, ",", quoted(name), ",", ("%.4f"):format(p), "\n")
end)
local closed, words = out:close()
if not closed then sp.fail(("%s: %s"):format(opt.out, words)) end
predict.finish(images, done, "%s: classes", opt.out)
