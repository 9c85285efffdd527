-- SPDX-License-Identifier: MIT
-- Images in large numbers, for tests/bench/predict_many.sh: links to a few pictures, one of a hundred to a half of a file.
local sp = require "spcore"
local files = require "spcore.files"
local sys = require "spcore.sys"

local opt = sp.args({
  pictures = { 300, "different ones, of 500 x 375 pixels", min = 2, max = 10000 },
  links = { 1000, "images", min = 1, max = 10000000 },
  bad = { 100, "one of so many is damaged; 0: none", min = 0 },
}, { rest = "DIR", without = { "by_hand", "run" } })
local dir = opt.rest[1]

if sys.kind(dir .. "/pictures") ~= "dir" then
  local g <close> = sp.graph(opt)
  local data = g.reader {
    path = "shapes", target = "class", size = { 375, 500 }, batch = 1, samples = opt.pictures, shuffle = false,
  }
  g.image_writer { data.image, dir = dir .. "/pictures", images = "*.jpg", quality = 85 }
  for _ in g:steps(opt.pictures) do end
end
local names = sys.names(dir .. "/pictures")
local first = assert(io.open(("%s/pictures/%s"):format(dir, names[1]), "rb"))
local whole = first:read "a"
first:close()
files.write(dir .. "/half", whole:sub(1, #whole // 2))

local to = ("%s/%d"):format(dir, opt.links)
files.make_parents(to .. "/")
for i = 1, opt.links do
  local is_bad = opt.bad > 0 and i % opt.bad == 0
  local from = is_bad and dir .. "/half" or ("%s/pictures/%s"):format(dir, names[i % #names + 1])
  local ok, why, kind = sys.link(from, ("%s/%07d.jpg"):format(to, i))
  if not ok and kind ~= "exists" then sp.fail(why) end
end
print(to)
