-- SPDX-License-Identifier: MIT
-- Known networks: names, taps and what is refused. tests/parity/resnet.py compares their values.
-- needs: onednn images
local sp = require "spcore"
local t = require "check"

local function named(layers)
  local names = {}
  for _, l in ipairs(layers) do
    if l.name then names[l.name] = l end
  end
  return names
end

local r50 = sp.models.resnet { 50, output_stride = 8 }
local names = named(r50)
t.eq(names["layer1.0.conv1"].from, "maxpool")
t.eq(names["layer2.0.conv2"].stride, 2)       -- never conv1
t.eq(names["layer3.0.conv2"].stride, 1)
t.eq(names["layer3.0.conv2"].dilation, 1)     -- that of the stage before
t.eq(names["layer3.1.conv2"].dilation, 2)
t.eq(names["layer4.0.conv2"].dilation, 2)
t.eq(names["layer4.2.conv2"].dilation, 4)
t.eq(names["layer4.2.conv3"][2], 2048)
t.eq(names["layer4.0.downsample.0"].from, "layer3.5")
t.eq(names["layer4.1.downsample.0"], nil)
t.eq(named(sp.models.resnet { 18 })["layer1.0.downsample.0"], nil)
t.eq(named(sp.models.resnet { 18, classes = 7 }).fc[2], 7)

local g <close> = sp.graph { device = "cpu" }
for stride, sides in pairs { [32] = { 32, 16, 8, 4, 2 }, [16] = { 32, 16, 8, 4, 4 }, [8] = { 32, 16, 8, 8, 8 } } do
  local data = g.reader { path = "random", size = 64, batch = 1, samples = 1, classes = 2, name = "data" .. stride }
  local enc = g.encoder { data.image, layers = sp.models.resnet { 34, output_stride = stride }, frozen = true, name = "e" .. stride }
  t.eq(#enc.maps, 5)
  for i, side in ipairs(sides) do
    t.eq(enc.maps[i].shape[3], side)
    t.eq(enc.maps[i].shape[2], i == 1 and 64 or 32 << (i - 1))
  end
end

t.raises("sp.models.resnet{}: there is ResNet%-18, 34, 50 and 101, not '20'", sp.models.resnet, { 20 })
t.raises("there is ResNet%-18, 34, 50 and 101, not 'nil'", sp.models.resnet, {})
t.raises("classes is a number from 1 on, not '0'", sp.models.resnet, { 18, classes = 0 })
t.raises("classes is a number from 1 on, not 'a'", sp.models.resnet, { 18, classes = "a" })
t.raises("output_stride is 32, 16 or 8, not '4'", sp.models.resnet, { 18, output_stride = 4 })
t.raises("no option 'output_strid'; did you mean 'output_stride'?", sp.models.resnet, { 18, output_strid = 8 })
t.raises("sp.models.resnet{}: a table of options is wanted", sp.models.resnet, 18)
