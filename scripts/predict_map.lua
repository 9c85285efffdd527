-- SPDX-License-Identifier: MIT
-- Gives each pixel of images a number, with the weights of a run of train_map.lua. Images are requests: there may be any number of
-- them, and one that cannot be read is named while the others go on.
local sp = require "spcore"
local files = require "spcore.files"
local npy = require "spcore.npy"
local outputs = require "spcore.outputs"
local predict = require "spcore.predict"
local targets = require "spcore.targets"
local twos = require "spcore.twos"

local opt, model, weights = predict.args("train_map.lua", {
  out = { "predictions", "folder for maps/NAME.npy, predictions.json and bad.txt", value = "DIR" },
  size = { "image", "of the maps: that of the image, bilinear, or as the network gives them", choices = { "image", "network" } },
}, "Gives each pixel a number: writes a map for each image, .npy of float32, height x width.")
targets.check(model, opt.weights)

predict.check_folder(opt.out, { "maps", "bad.txt" })
local dir <close> = outputs.place(opt, opt.out)
local images = predict.images(opt, opt.out .. "/bad.txt", true, model.fusion ~= nil)
local g <close> = sp.graph(opt)
local data = g.image_requests(predict.reading(model, { batch = images.batch, decode = opt.decode }))
local values = predict.segment(g, twos.images(data, model), model, weights)
local port = values.name:match "[^.]*$"
g:results { values, data.size, raw = true }
local h, w = values.shape[3], values.shape[4]
local mean, std = model.numbers.mean[1], model.numbers.std[1]

local function floats(bytes)
  local v = {}
  for i = 0, h * w - 1, 64 do
    local n = math.min(64, h * w - i)
    table.move({ ("<" .. ("f"):rep(n)):unpack(bytes, 4 * i + 1) }, 1, n, i + 1, v)
  end
  for i = 1, h * w do v[i] = v[i] * std + mean end
  return v
end

-- Where the numbers of a row or column of n lie in one of m, which is scaled to it: the two beside it, and the part of the second.
local function places(n, m)
  local list = {}
  for i = 1, n do
    local at = math.min(math.max((i - 0.5) * m / n - 0.5, 0), m - 1)
    local first = math.min(math.floor(at), math.max(m - 2, 0))
    list[i] = { first, math.min(first + 1, m - 1), at - first }
  end
  return list
end

-- Writes rows of a map; gives its least and largest number.
local function write(path, v, rows, columns)
  local file, least, most = npy.create(path, "<f4", { rows, columns }), math.huge, -math.huge
  local down, across, row = places(rows, h), places(columns, w), {}
  for y = 1, rows do
    local a, b, part = down[y][1] * w + 1, down[y][2] * w + 1, down[y][3]
    for x = 1, columns do
      local p = across[x]
      local upper = v[a + p[1]] + (v[a + p[2]] - v[a + p[1]]) * p[3]
      local lower = v[b + p[1]] + (v[b + p[2]] - v[b + p[1]]) * p[3]
      row[x] = upper + (lower - upper) * part
      least, most = math.min(least, row[x]), math.max(most, row[x])
    end
    for x = 1, columns, 64 do
      local n = math.min(64, columns - x + 1)
      file:put(("<" .. ("f"):rep(n)):pack(table.unpack(row, x, x + n - 1)))
    end
  end
  file:close()
  return least, most
end

files.make_parents(dir.path .. "/maps/NAME.npy")
local out = predict.json(g, opt.out .. "/predictions.json", { "value" })
local done = predict.each(g, images, function(answer)
  local ask = answer.request
  if answer.error then return out:add { file = ask.path, error = answer.error } end
  local rows, columns = h, w
  if opt.size == "image" then rows, columns = ("i4i4"):unpack(answer.size) end
  local name = ("maps/%s.npy"):format(ask.name)
  local least, most = write(opt.out .. "/" .. name, floats(answer[port]), rows, columns)
  out:add { file = ask.path, second = ask.second, map = name, height = rows, width = columns, least = least, largest = most }
end)
out:close()
predict.finish(images, done, "%s: maps", opt.out)
