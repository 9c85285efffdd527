-- SPDX-License-Identifier: MIT
-- Wires by place, by name, as lists; items of a list; bytes that go to an input of floats.
local sp = require "spcore"
local t = require "check"

local g <close> = sp.graph {}
local source = g.toy_source { batch = 4 }
local list = g.sleep { source.x, source.x, name = "list" }
t.eq(#list.y, 2)
t.eq(list.y.list, true)
t.eq(list.y[2].list, false)
t.eq(list.y[2].shape[1], 4)
t.raises("has items 1..2, not 3", function() local _ = list.y[3] end)
t.raises("is a list: say which", function() local _ = list.y.shape end)

t.eq(#g.sleep { list.y, source.x }.y, 3)                 -- a whole list, then one more
t.eq(#g.sleep { x = { source.x, list.y, list.y[1] } }.y, 4) -- by name
t.eq(#g.sleep { x = list }.y, 2)                         -- a stage with one output stands for it
t.raises("has no output or attribute 'z'", function() g.sleep { x = { source.x, list.z } } end)
local mul = g.toy_mul { x = list.y[2] }
t.eq(mul.y.shape[1], 4)
t.eq(g:find("list"), list)
t.eq((g:find "nobody"), nil)

-- no reader: built without the image libraries
local ok, why = pcall(function() g.reader { path = "random", size = 8, batch = 2, samples = 4, classes = 3 } end)
if not ok then
  print("skipped the rest: " .. why)
  sp.exit(77)
end
local data = g:find "reader"
local n = #g:nodes()
g.cross_entropy { data.image, data.mask, name = "a" }
t.eq(#g:nodes(), n + 2) -- and one to_float
g.cross_entropy { logits = data.image, labels = data.mask, name = "b" }
t.eq(#g:nodes(), n + 3) -- which serves both
t.eq(g:find("to_float").image.dtype, "float32")
g.cross_entropy { g.sleep { data.image, name = "one" }.y, data.mask, name = "c" }
t.eq(#g:nodes(), n + 6) -- also of a list of one

-- a line for each wire that is converted, and none where the script says it or nothing is
local dir <close> = t.folder()
t.write(dir.path .. "/it.lua", [[
local sp = require "spcore"
local g <close> = sp.graph(sp.args {})
local d = g.reader { path = "random", size = 8, batch = 2, samples = 4, classes = 3 }
g.sleep { d.image }
g.cross_entropy { g.to_float { d.image }, d.mask, name = "told" }
g.cross_entropy { d.image, d.mask, name = "a" }
local b = g.cross_entropy { labels = d.mask, name = "b" }
g:wire(b, "logits", d.image)
]])
local code, _, err = t.spcore(dir.path, "run it.lua")
local line = "spcore: stage '%s': its input 'logits' gets the bytes of 'reader.image' as floats from 0 to 255; "
  .. "with g.to_float{ x, scale = true } in between they are from 0 to 1\n"
t.eq(err, line:format "a" .. line:format "b")
t.eq(code, 0)

-- an empty list does not count among a stage's outputs
local image = g:find("to_float").image
local plain = g.layers { image, layers = { { "relu" } }, name = "plain" }
t.eq(#g.sleep { plain, name = "alone" }.y, 1)
local tapped = g.layers { image, layers = { { "relu", tap = true }, { "relu" } }, name = "tapped" }
t.eq(#tapped.maps, 1)
t.raises("stage 'tapped' has several outputs: say which, such as tapped.features", function() g.sleep { tapped } end)
