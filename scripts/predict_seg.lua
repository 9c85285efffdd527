-- SPDX-License-Identifier: MIT
-- Segments images with the weights of a run of train_seg.lua. Images are requests: there may be any number of them, and
-- one that cannot be read is named while the others go on.
local sp = require "spcore"
local outputs = require "spcore.outputs"
local predict = require "spcore.predict"
local progress = require "spcore.progress"
local twos = require "spcore.twos"
local windows = require "spcore.windows"

local spec = {
  out = { "predictions", "folder for masks/NAME.png, overlays/NAME.png, predictions.json and bad.txt", value = "DIR" },
  probabilities = {
    "none", "probabilities/NAME: npy: float32 classes x height x width; png: the best class's in 16 bits",
    choices = { "none", "npy", "png" },
  },
  background = { "0", "label that overlays leave as it is; none: each class is tinted", value = "N|none" },
  threshold = { -1.0, "with a run whose masks are one output, trained with bce: 1 is what is at least so probable", default = "0.5",
    min = 0.001, max = 0.999 },
  size = { 0, "pixels of a side that the network sees", default = "as in training", min = 0, max = 65536 },
}
windows.options(spec)
local opt, model, weights = predict.args("train_seg.lua", spec,
  "Segments images: writes a mask and an overlay, of the image's own size, for each.")
local plan = windows.plan(opt, model)
if opt.window == 0 and opt.size > 4096 then sp.usage("--size %d: at most 4096 without --window", opt.size) end

local background = opt.background == "none" and -1 or math.tointeger(tonumber(opt.background))
if not background or background < -1 or background > 255 then
  sp.usage("--background %s: a label from 0 to 255 is wanted, or none", opt.background)
end

if opt.threshold > 0 and not model.binary then
  sp.usage "--threshold: goes with a run whose masks are one output, trained with bce; of several the largest says the class"
end
local threshold = model.binary and (opt.threshold > 0 and opt.threshold or 0.5) or 0.0
if model.binary then progress.print("a pixel is 1 where that is at least %g probable, else 0 (--threshold P)", threshold) end

predict.check_folder(opt.out, { "masks", "overlays", "bad.txt", opt.probabilities ~= "none" and "probabilities" or nil })
local dir <close> = outputs.place(opt, opt.out)
local images = predict.images(opt, opt.out .. "/bad.txt", true, model.fusion ~= nil)
local g <close> = sp.graph(opt)
if plan then
  images.next = windows.requests(plan, images.next, function()
    return sp.graph { device = "cpu", workers = opt.workers, orient = opt.orient, helps = true }
  end)
  images.batch = opt.batch -- of windows
end
local data = g.image_requests(predict.reading(model, { batch = images.batch, decode = opt.decode }))
local logits = predict.segment(g, twos.images(data, model), model, weights)
local names = predict.class_names(model, model.classes or model.decoder.classes)
local read = model.read or {}
local files = g.image_writer {
  image = data.image, logits = logits, dir = dir.path, images = "", masks = "masks/*.png", overlays = "overlays/*.png",
  probabilities = opt.probabilities ~= "none" and "probabilities/*." .. opt.probabilities or "",
  legend = table.concat(names, "\n"), background = background, threshold = threshold, restore = true, resize = read.resize,
  shorter = read.shorter, dtype = read.dtype,
  channels = read.channels, range = read.range, nodata = read.nodata, nodata_fill = read.nodata_fill,
}
g:results { files.size, files.pixels }

local out = predict.json(g, opt.out .. "/predictions.json", names)
local done = predict.each(g, images, function(answer)
  local ask, size = answer.request, answer.size
  if answer.error then return out:add { file = ask.path, error = answer.error } end
  out:add {
    file = ask.path, second = ask.second, mask = ("masks/%s.png"):format(ask.name), height = size[1],
    width = size[2], pixels = answer.pixels,
  }
end)
out:close()
predict.finish(images, done, "%s: masks and overlays", opt.out)
