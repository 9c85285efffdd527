-- SPDX-License-Identifier: MIT
-- The networks that encoder, decoder and classifier make themselves, as lists of layers with the names of their weights.
local stages = {}

local function add(list, type, name, fields)
  fields = fields or {}
  fields.type, fields.name = type, name
  list[#list + 1] = fields
end

-- What `plugins/kits/nn/net/models.c` has: convolutions 3 x 3 with batch norm and ReLU.
local function convs(list, name, out, count)
  for i = 0, count - 1 do
    add(list, "conv", ("%s.%d"):format(name, 3 * i), { out = out, pad = 1, bias = false })
    add(list, "batch_norm", ("%s.%d"):format(name, 3 * i + 1))
    add(list, "relu", ("%s.%d"):format(name, 3 * i + 2))
  end
end

local function halvings(p, v)
  local levels, side = p.levels or p.depth or 0, math.min(v.h, v.w)
  if levels > 0 then return levels end
  while side > 1 do levels, side = levels + 1, side // 2 end
  return levels
end

-- Behind its last convolution comes no ReLU.
local function plain(p, v)
  local list, times = {}, halvings(p, v)
  for i = 0, times do
    local k = i == 0 and 1 or 2
    add(list, "conv", tostring(2 * i), { out = (p.width or 16) << i, kernel = k, stride = k })
    if i < times then add(list, "relu", tostring(2 * i + 1)) end
  end
  return list, times
end

local function head(list, name, classes)
  add(list, "flatten", "flatten")
  add(list, "linear", name, { out = classes })
  return list
end

function stages.encoder(p, v)
  if p.model ~= "unet" then return (plain(p, v[1])) end
  local list, levels = {}, (p.levels or p.depth or 0) > 0 and (p.levels or p.depth) or 3
  for i = 0, levels do
    local out = (p.width or 16) << i
    convs(list, "levels." .. i, out, p.convs or 2)
    local down = p.down == "conv" and "conv" or "max_pool"
    if i < levels then add(list, down, "down." .. i, { out = down == "conv" and out or nil, kernel = 2, stride = 2 }) end
  end
  return list
end

function stages.decoder(p, v)
  local width, skips, list = p.width or 16, #v - 1, {}
  if p.model == "unet" or p.model ~= "plain" and skips > 0 then
    local levels = (p.levels or p.depth or 0) > 0 and (p.levels or p.depth) or skips
    for i = levels - 1, 0, -1 do
      add(list, "conv_transpose", "up." .. i, { out = width << i })
      if skips > 0 then add(list, "concat", "cat." .. i, { from = { "up." .. i, "skips." .. i + 1 } }) end
      convs(list, "levels." .. i, width << i, p.convs or 2)
    end
    add(list, "conv", "head", { out = p.classes, kernel = 1 })
    return list
  end
  local c, i = v[1].c, 0
  while c > width do
    c = c // 2
    add(list, "conv_transpose", tostring(2 * i), { out = c })
    add(list, "relu", tostring(2 * i + 1))
    i = i + 1
  end
  add(list, "conv", tostring(2 * i), { out = p.classes, pad = 1 })
  return list
end

function stages.classifier(p, v)
  if p.model == "pool" then
    local list = {}
    if not v[1].flat then add(list, "mean", "0") end
    return head(list, "2", p.classes)
  end
  if p.model ~= "residual" then
    local list, times = plain(p, v[1])
    return head(list, tostring(2 * times + 2), p.classes)
  end
  local list, width, levels = {}, p.width or 16, (p.levels or p.depth or 0) > 0 and (p.levels or p.depth) or 3
  add(list, "conv", "conv1", { out = width, pad = 1, bias = false })
  add(list, "batch_norm", "bn1")
  add(list, "relu", "relu")
  for i = 0, levels do
    for b = 0, (p.blocks or 2) - 1 do
      add(list, "residual", ("layer%d.%d"):format(i + 1, b), { out = width << i, stride = i > 0 and b == 0 and 2 or 1 })
    end
  end
  add(list, "mean", "mean")
  return head(list, "fc", p.classes)
end

function stages.layers() return {} end

return stages
