-- SPDX-License-Identifier: MIT
-- Gives each pixel of images a number, with the weights of a run of train_map.lua. Images are requests: there may be any number of
-- them, and one that cannot be read is named while the others go on.
local sp = require "spcore"
local outputs = require "spcore.outputs"
local predict = require "spcore.predict"
local progress = require "spcore.progress"
local targets = require "spcore.targets"
local twos = require "spcore.twos"

local opt, model, weights = predict.args("train_map.lua", {
  out = { "predictions", "folder for maps/NAME.npy, .png or .tif, predictions.json and bad.txt", value = "DIR" },
  size = { "image", "of the maps: that of the image, bilinear, or as the network gives them", choices = { "image", "network" } },
  format = { "npy", "npy, tiff: float32; png16: multiples of a scale in 16 bits", choices = { "npy", "png16", "tiff" } },
  scale = { "", "with --format png16: 1/256, 0.001", default = "the run's --map-scale", value = "NUMBER" },
}, "Gives each pixel a number: writes a map for each image, height x width.")
targets.check(model, opt.weights)

-- "1/256" as a number.
local function number_of(text)
  local above, below = text:match "^%s*([^/%s]+)%s*/?%s*([^/%s]*)%s*$"
  local v = tonumber(above) and (below == "" and tonumber(above) or tonumber(below) and tonumber(above) / tonumber(below))
  return v and v >= 1e-30 and v <= 1e30 and v + 0.0 or nil
end

local scale = 1.0
if opt.format == "png16" then
  local run = sp.json.read(opt.weights .. "/settings.json")
  local of_run = type(run) == "table" and type(run.options) == "table" and run.options.map_scale
  local text = opt.scale ~= "" and opt.scale or type(of_run) == "string" and of_run or ""
  if text == "" then sp.usage "--format png16: the values are multiples of what? --scale 1/256 and --scale 0.001 are usual" end
  scale = number_of(text) or sp.usage("--scale %s: a number above 0 is wanted, such as 1/256 or 0.001", text)
elseif opt.scale ~= "" then sp.usage "--scale: goes with --format png16; .npy and TIFF have the values themselves" end

predict.check_folder(opt.out, { "maps", "bad.txt" })
local dir <close> = outputs.place(opt, opt.out)
local images = predict.images(opt, opt.out .. "/bad.txt", true, model.fusion ~= nil)
local g <close> = sp.graph(opt)
local data = g.image_requests(predict.reading(model, { batch = images.batch, decode = opt.decode }))
local values = predict.segment(g, twos.images(data, model), model, weights)
local ending = ({ npy = "npy", png16 = "png", tiff = "tif" })[opt.format]
local read = model.read or {}
local written = g.image_writer {
  logits = values, dir = dir.path, images = "", masks = "", values = "maps/*." .. ending, restore = opt.size == "image",
  resize = read.resize, shorter = read.shorter,
  values_std = model.numbers.std[1], values_mean = model.numbers.mean[1], values_scale = scale,
}
g:results { written.size, written.found }

local out, clipped, of = predict.json(g, opt.out .. "/predictions.json", { "value" }), 0, 0
local done = predict.each(g, images, function(answer)
  local ask = answer.request
  if answer.error then return out:add { file = ask.path, error = answer.error } end
  local size, found = answer.size, answer.found
  local lost = math.tointeger(found[3])
  clipped, of = clipped + lost, of + size[1] * size[2]
  out:add {
    file = ask.path, map = ("maps/%s.%s"):format(ask.name, ending), height = size[1], width = size[2], least = found[1], largest = found[2],
    scale = ending == "png" and scale or nil, clipped = ending == "png" and lost or nil,
  }
end)
out:close()
if done > 0 and ending == "png" then
  progress.print("a PNG's number times %.9g is the value, and 0 where there is none", scale)
end
if clipped > 0 then
  progress.print("%d of %d values do not fit: from %.6g to %.6g they are kept, others are clipped to that; .npy and TIFF keep them all",
    clipped, of, scale, 65535 * scale)
end
predict.finish(images, done, "%s: maps", opt.out)
