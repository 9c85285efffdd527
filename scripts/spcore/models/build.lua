-- SPDX-License-Identifier: MIT
-- What the lists of known networks are made with: layers, taps, heads, and what each list says of itself.
local core = require "spcore.core"
local words = require "spcore.words"

local build = {}

local imagenet = { mean = { 0.485, 0.456, 0.406 }, std = { 0.229, 0.224, 0.225 } }

-- What one set of weights wants: the shorter side scaled to `size`, the square of `crop` in its middle, numbers of 0 to 1
-- less `mean` over `std`.
function build.preprocess(size, crop, interpolation)
  return { size = size, crop = crop, mean = { table.unpack(imagenet.mean) }, std = { table.unpack(imagenet.std) },
    interpolation = interpolation or "bilinear" }
end

-- ---- options ----

local function check_classes(what, n)
  if n ~= nil and (math.type(n) ~= "integer" or n < 1) then
    core.fail(("%s: classes is a number from 1 on, not '%s'"):format(what, tostring(n)))
  end
end

-- The option `key`, one of `choices`; the first where it is not given.
function build.choice(what, t, key, choices)
  local value = t[key]
  if value == nil then return choices[1] end
  for _, c in ipairs(choices) do
    if c == value then return c end
  end
  for i, c in ipairs(choices) do choices[i] = tostring(c) end
  local last = table.remove(choices)
  core.fail(("%s: %s is %s or %s, not '%s'"):format(what, key, table.concat(choices, ", "), last, tostring(value)))
end

-- A list for sp.models.FAMILY{}: `about` is what it says of itself, `variants` what each known set of weights wants.
function build.list(what, t, about, variants)
  check_classes(what, t.classes)
  local variant = t.variant or "torchvision_v1"
  if not variants[variant] then
    local names = words.keys(variants)
    local near = words.near(variant, names)
    core.fail(("%s: of %s there is no variant '%s'%s %s"):format(what, about.title, tostring(variant),
      near == "" and "; it has" or near .. " It has", table.concat(names, ", ")))
  end
  local list = { taps = {}, variants = variants, variant = variant, preprocess = variants[variant] }
  for k, v in next, about do list[k] = v end
  return list
end

-- ---- layers ----

function build.add(list, ...)
  for _, l in ipairs { ... } do list[#list + 1] = l end
end

-- A convolution without bias that keeps the map's size, but for its stride. o: stride, dilation, groups, from.
function build.conv(list, name, out, kernel, o)
  o = o or {}
  local dilation = o.dilation or 1
  build.add(list, { "conv", out, kernel = kernel, stride = o.stride or 1, pad = kernel // 2 * dilation, dilation = dilation,
    groups = o.groups, bias = false, name = name, from = o.from })
end

-- The last layer becomes a tap, whose map has so many channels and is so many times smaller than the image.
function build.tap(list, channels, stride)
  local l = list[#list]
  l.tap = true
  list.taps[#list.taps + 1] = { name = l.name, channels = channels, stride = stride }
end

-- The list as a classifier, which gives no maps: the mean over the map and these layers behind it.
function build.classify(list, ...)
  for _, l in ipairs(list) do l.tap = nil end
  list.taps = {}
  build.add(list, { "mean" }, ...)
end

return build
