-- SPDX-License-Identifier: MIT
-- Writes the built-in set `shapes` as real JPEG images and PNG masks, for `train_seg.lua --data DIR`.
local sp = require "spcore"

local opt = sp.args({
  samples = { 512, "how many images", min = 1, max = 1000000 },
  size = { 96, "pixels of a side", min = 8, max = 4096 },
  quality = { 92, "of the JPEG files", min = 1, max = 100 },
  data_seed = { 0, "seed of the set: another one gives other images", min = 0 },
}, { rest = "DIR", doc = "Writes the set `shapes` as DIR/images/*.jpg, DIR/masks/*.png and DIR/classes.txt." })

local dir = opt.rest[1]
if #opt.rest ~= 1 then sp.usage("one folder to write to is wanted, got %d", #opt.rest) end

-- Images of the user's own may have the same names.
for _, sub in ipairs { "images", "masks" } do
  local file = io.open(dir .. "/" .. sub)
  if file then
    file:close()
    sp.usage("%s/%s is there already; name another folder or remove it", dir, sub)
  end
end

local g <close> = sp.graph(opt)
local data = g.reader {
  path = "shapes", batch = 16, shuffle = false, samples = opt.samples, size = { opt.size, opt.size },
  data_seed = opt.data_seed,
}
g.image_writer { image = data.image, mask = data.mask, dir = dir, quality = opt.quality }

local bar <close> = sp.progress { total = (opt.samples + 15) // 16 }
for _ in g:steps(bar.total) do bar:step() end
bar:close()

if not sp.interrupted() then
  -- the reader takes the number of classes from here
  sp.write_file(dir .. "/classes.txt", "ground\ndisc\nsquare\ntriangle\nring\ncross\n")
  print(("%s: %d images and masks"):format(dir, opt.samples))
end
