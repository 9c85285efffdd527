-- SPDX-License-Identifier: MIT
-- Known networks: names, taps and what is refused. tests/parity/models.py compares their values.
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

-- ---- what a list says of itself ----
t.eq(r50.family .. " " .. r50.title .. " " .. r50.variant, "resnet ResNet-50 torchvision_v1")
t.eq(table.concat(r50.head, " "), "fc.*")
t.eq(next(r50.names), nil) -- timm's are the same

local function prep(p)
  return ("%d %d %s %s %s"):format(p.size, p.crop, p.interpolation, table.concat(p.mean, " "), table.concat(p.std, " "))
end
local stats = "0.485 0.456 0.406 0.229 0.224 0.225"
t.eq(prep(r50.preprocess), "256 224 bilinear " .. stats)
t.eq(prep(r50.variants.timm_a1), "235 224 bicubic " .. stats)
t.eq(prep(sp.models.resnet { 50, variant = "torchvision_v2" }.preprocess), "232 224 bilinear " .. stats)

local function taps(list)
  local out = {}
  for i, tap in ipairs(list.taps) do
    t.ok(named(list)[tap.name].tap, tap.name)
    out[i] = ("%s %d/%d"):format(tap.name, tap.channels, tap.stride)
  end
  return table.concat(out, ", ")
end
t.eq(taps(r50), "relu 64/2, layer1.2 256/4, layer2.3 512/8, layer3.5 1024/8, layer4.2 2048/8")
t.eq(taps(sp.models.resnet { 18 }), "relu 64/2, layer1.1 64/4, layer2.1 128/8, layer3.1 256/16, layer4.1 512/32")
t.eq(taps(sp.models.resnet { 18, classes = 7 }), "")

-- ---- dilation as segmentation_models.pytorch has it: all of the stage ----
names = named(sp.models.resnet { 50, output_stride = 8, dilation = "smp" })
for name, dilation in pairs { ["layer2.0.conv2"] = 1, ["layer3.0.conv2"] = 2, ["layer3.1.conv2"] = 2, ["layer4.0.conv2"] = 4 } do
  t.eq(names[name].dilation, dilation, name)
  t.eq(names[name].pad, dilation, name)
end
t.eq(named(sp.models.resnet { 18, output_stride = 16, dilation = "smp" })["layer4.0.conv1"].dilation, 2)

-- ---- MobileNetV3 and EfficientNet ----
local function norms(list)
  local found = {}
  for _, l in ipairs(list) do
    if l[1] == "batch_norm" then found[("%g %g"):format(l.eps, l.momentum)] = true end
  end
  return table.concat(require "spcore.words".keys(found), ", ")
end

local large, dilated = sp.models.mobilenet_v3 { "large" }, sp.models.mobilenet_v3 { "large", dilated = true }
t.eq(norms(large), "0.001 0.01")
t.eq(norms(sp.models.mobilenet_v3 { "large", variant = "timm_ra" }), "1e-05 0.1") -- timm's were trained with these
t.eq(norms(sp.models.efficientnet { "b0" }), "1e-05 0.1")
t.eq(taps(large), "features.1 16/2, features.3 24/4, features.6 40/8, features.12 112/16, features.16.2 960/32")
t.eq(taps(dilated), "features.1 16/2, features.3 24/4, features.6 40/8, features.12 112/16, features.16.2 960/16")
t.eq(taps(sp.models.mobilenet_v3 { "small" }),
  "features.0.2 16/2, features.1.block.2.1 16/4, features.3 24/8, features.8 48/16, features.12.2 576/32")
t.eq(taps(sp.models.efficientnet { "b0" }), "features.1.0.block.2.1 16/2, features.2.1 24/4, features.3.1 40/8, "
  .. "features.5.2 112/16, features.8.2 1280/32")
names = named(dilated)
t.eq(names["features.12.block.1.0"].dilation, 1)
for _, block in ipairs { "features.13", "features.14", "features.15" } do -- its first block, too
  local conv = names[block .. ".block.1.0"]
  t.eq(("%d %d %d %d"):format(conv.stride, conv.dilation, conv.pad, conv.groups), ("1 2 4 %d"):format(conv[2]), block)
end
t.eq(named(large)["features.13.block.1.0"].stride, 2)
t.eq(named(sp.models.mobilenet_v3 { "small", width = 0.5 })["features.0.0"][2], 8)
t.eq(named(sp.models.mobilenet_v3 { "small", classes = 3, width = 0.75 })["classifier.0"][2], 768)
t.eq(named(sp.models.efficientnet { "b4", classes = 3 })["classifier.0"].p, 0.4)

-- What timm calls a layer; where batch norm differs, the variant that is timm's has names alone.
local ra = sp.models.mobilenet_v3 { "large", variant = "timm_ra" }
t.eq(large.names.timm, nil)
t.eq(ra.names.timm["features.4.block.2.fc1"], "blocks.2.0.se.conv_reduce")
t.eq(ra.names.timm["features.1.block.1.0"], "blocks.0.0.conv_pw")
t.eq(ra.names.timm["features.16.1"], "blocks.6.0.bn1")
t.eq(table.concat(ra.head, " "), "classifier.* conv_head.*")
t.eq(sp.models.efficientnet { "b0" }.names.timm["features.3.1.block.3.1"], "blocks.2.1.bn3")
t.eq(prep(sp.models.efficientnet { "b3", variant = "timm_ra2" }.preprocess), "329 288 bicubic " .. stats)
t.eq(prep(sp.models.efficientnet { "b2" }.variants.timm_ra), "292 256 bicubic " .. stats)
t.eq(prep(sp.models.efficientnet { "b4" }.preprocess), "384 380 bicubic " .. stats)

t.raises("sp.models.mobilenet_v3{}: there is \"large\" and \"small\", not 'middle'", sp.models.mobilenet_v3, { "middle" })
t.raises("width is a number above 0, up to 16, not '0'", sp.models.mobilenet_v3, { "small", width = 0 })
t.eq(sp.models.mobilenet_v3({ "small", output_stride = 16 }).taps[5].stride, 16)
t.raises("output_stride is 32 or 16, not '8'", sp.models.mobilenet_v3, { "small", output_stride = 8 })
t.raises("give either dilated or output_stride", sp.models.mobilenet_v3, { "small", output_stride = 16, dilated = true })
t.raises("dilated is false or true, not 'yes'", sp.models.mobilenet_v3, { "small", dilated = "yes" })
t.raises("of MobileNetV3%-Large there is no variant 'timm_ra'", sp.models.mobilenet_v3,
  { "large", variant = "timm_ra", width = 0.5 })
t.raises("sp.models.efficientnet{}: there is \"b0\" to \"b4\", not 'b5'", sp.models.efficientnet, { "b5" })
t.raises("no option 'dilated'", sp.models.efficientnet, { "b0", dilated = true })

-- ---- by name ----
local by_name = sp.models.get("resnet50", { output_stride = 8 })
t.eq(#by_name, #r50)
t.eq(named(by_name)["layer4.2.conv2"].dilation, 4)
t.eq(sp.models.get "resnet18".title, "ResNet-18")
t.eq(table.concat(sp.models.names, " "), "efficientnet_b0 efficientnet_b1 efficientnet_b2 efficientnet_b3 efficientnet_b4 "
  .. "mobilenet_v3_large mobilenet_v3_small resnet101 resnet18 resnet34 resnet50")
for _, name in ipairs(sp.models.names) do t.ok(#sp.models.get(name) > 10, name) end
t.raises("sp.models.get: there is no model 'resnet5'; did you mean 'resnet50'%? %(there are .*resnet101, resnet18.*%)",
  sp.models.get, "resnet5")
t.raises("there is no model 'nil' ", sp.models.get)
t.raises("no option 'output_strid'", sp.models.get, "resnet50", { output_strid = 8 })
t.raises("'resnet50' says already which model", sp.models.get, "resnet50", { 18 })
t.raises("a table of options is wanted, got a number", sp.models.get, "resnet50", 18)

-- ---- as `layers` of a stage ----
local g <close> = sp.graph { device = "cpu" }
for stride, sides in pairs { [32] = { 32, 16, 8, 4, 2 }, [16] = { 32, 16, 8, 4, 4 }, [8] = { 32, 16, 8, 8, 8 } } do
  local data = g.reader { path = "random", size = 64, batch = 1, samples = 1, classes = 2, name = "data" .. stride }
  local layers = sp.models.resnet { 34, output_stride = stride }
  local enc = g.encoder { data.image, layers = layers, frozen = true, name = "e" .. stride }
  t.eq(#enc.maps, 5)
  for i, side in ipairs(sides) do
    t.eq(enc.maps[i].shape[3], side)
    t.eq(enc.maps[i].shape[2], i == 1 and 64 or 32 << (i - 1))
  end
end


-- What the list says of itself stays with it, and is no parameter; another name is.
local r18 = sp.models.resnet { 18 }
local image = g.reader { path = "random", size = 64, batch = 1, samples = 1, classes = 2, name = "image" }.image
g.layers { image, layers = r18, name = "known" }
t.eq(r18.title .. #r18.taps .. #r18.head, "ResNet-185" .. 1)
r18.titel = "mine"
t.raises("stage 'titled'.*parameter 'layers': expected a list of tables, got a table with the key 'titel'", function()
  g.layers { image, layers = r18, name = "titled" }
end)
t.raises("parameter 'layers': expected a list of tables, got .*5", function() g.layers { image, layers = 5 } end)
r18.titel = nil
sp.stage.layers { layers = r18 }

-- ---- heads ----
local unet = named(sp.models.unet { classes = 3, size = { 64, 96 } })
t.eq(unet["blocks.0.cat"].from[2], "skips.4")
t.eq(unet["blocks.3.cat"].from[2], "skips.1")
t.eq(unet["blocks.4.cat"], nil) -- at the image's size there is no map
t.eq(named(sp.models.deeplabv3 { classes = 3, size = 64 })["0.convs.3.0"].dilation, 36)
t.eq(sp.models.fcn { classes = 3, size = 64, channels = 512 }[1][2], 128)
t.eq(sp.models.probe { classes = 3 }[3].name, "fc")
t.eq(sp.models.probe { classes = 3, pooled = true }[2].name, "fc")
local plain = sp.models.resnet { 18 }
local pooled = sp.models.pooled(plain)
t.eq(#pooled, #plain + 1)
t.eq(pooled[#pooled][1], "mean")
t.eq(pooled.preprocess, plain.preprocess)
t.raises("sp.models.pooled: a list of layers is wanted, such as sp.models.resnet{ 50 }", sp.models.pooled, "resnet50")
t.raises("sp.models.pooled: the list ends in 'linear', and a mean is over a map: leave 'classes' out", sp.models.pooled,
  sp.models.resnet { 18, classes = 3 })
t.raises("sp.models.probe{}: pooled is true or false, not '1'", sp.models.probe, { classes = 3, pooled = 1 })
local fpn = named(sp.models.fpn { classes = 3, merge = "cat", width = 64, size = 64 })
t.eq(fpn["p4.skip_conv"].from, "skips.4")
t.eq(fpn.merge[1], "concat")
t.eq(fpn["seg_blocks.0.block.2.block.0"][2], 64)
t.eq(fpn["seg_blocks.3.block.0.up"], nil) -- it has the size already

t.raises("sp.models.unet{}: 100 pixels of width are no multiple of 32; take 96 or 128", sp.models.unet,
  { classes = 3, size = { 64, 100 } })
t.raises("unet{}: 8 pixels of height are no multiple of 32; take 32 or 64", sp.models.unet, { classes = 3, size = 8 })
t.raises("unet{}: decoder is a list of numbers", sp.models.unet, { classes = 3, decoder = 5 })
t.raises("unet{}: decoder is a number from 1 on, not '0'", sp.models.unet, { classes = 3, decoder = { 8, 0 } })
t.raises("sp.models.fpn{}: 8 pixels of height are no multiple of 32; take 32 or 64", sp.models.fpn, { classes = 3, size = 8 })
t.raises("sp.models.fpn{}: width is a multiple of 32, the groups of its norms, not 48", sp.models.fpn,
  { classes = 3, width = 48 })
t.raises("sp.models.fpn{}: merge is add or cat, not 'mul'", sp.models.fpn, { classes = 3, merge = "mul" })
t.raises("sp.models.fcn{}: size is missing: the image's side in pixels", sp.models.fcn, { classes = 3 })
t.raises("sp.models.fcn{}: channels is a number from 4 on, not '3'", sp.models.fcn, { classes = 3, size = 64, channels = 3 })
t.raises("sp.models.deeplabv3{}: size is a list of 2 numbers", sp.models.deeplabv3, { classes = 3, size = { 64 } })
t.raises("sp.models.deeplabv3{}: dropout is a number from 0 to below 1, not '1'", sp.models.deeplabv3,
  { classes = 3, size = 64, dropout = 1 })
t.raises("sp.models.probe{}: classes is a number from 1 on, not 'nil'", sp.models.probe, {})
t.raises("sp.models.probe{} has no option 'class'; did you mean 'classes'", sp.models.probe, { class = 3 })

t.raises("sp.models.resnet{}: there is ResNet%-18, 34, 50 and 101, not '20'", sp.models.resnet, { 20 })
t.raises("there is ResNet%-18, 34, 50 and 101, not 'nil'", sp.models.resnet, {})
t.raises("classes is a number from 1 on, not '0'", sp.models.resnet, { 18, classes = 0 })
t.raises("classes is a number from 1 on, not 'a'", sp.models.resnet, { 18, classes = "a" })
t.raises("output_stride is 32, 16 or 8, not '4'", sp.models.resnet, { 18, output_stride = 4 })
t.raises("dilation is torchvision or smp, not 'timm'", sp.models.resnet, { 18, dilation = "timm" })
t.raises("of ResNet%-18 there is no variant 'torchvision_v2'; did you mean 'torchvision_v1'%?", sp.models.resnet,
  { 18, variant = "torchvision_v2" })
t.raises("of ResNet%-18 there is no variant 'nope'; it has timm_a1, .*torchvision_v1", sp.models.resnet, { 18, variant = "nope" })
t.raises("no option 'output_strid'; did you mean 'output_stride'?", sp.models.resnet, { 18, output_strid = 8 })
t.raises("sp.models.resnet{}: a table of options is wanted", sp.models.resnet, 18)
