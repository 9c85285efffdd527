-- SPDX-License-Identifier: MIT
-- spcore inspect --model: the layers of a known network, with what a planned graph of them says: shapes and weights.
local sp = require "spcore"
local words = require "spcore.words"

local opt = sp.args({
  model = { "", "layers, shapes, parameters and GFLOP of a network of sp.models", value = "MODEL" },
  size = { "", "of its images, or HxW", value = "N|HxW", default = "what its weights want" },
  output_stride = { 0, "how many times smaller its smallest map is: 32, 16, 8", default = "32", min = 0 },
  classes = { 0, "of its head; 0: none", min = 0, max = 65536 },
  json = { false, "print one JSON document" },
}, { doc = "Says what a known network is made of.", only = { "plugin", "debug" } })

local function known(name)
  for _, n in ipairs(sp.models.names) do
    if n == name then return end
  end
  sp.usage("there is no model '%s'%s (there are %s)", name, words.near(name, sp.models.names),
    table.concat(sp.models.names, ", "))
end

local function size_of(text, default)
  if text == "" then return default, default end
  local h, w = text:match "^(%d+)x(%d+)$"
  h, w = math.tointeger(h or text), math.tointeger(w or text)
  if not h or h < 1 or w < 1 or h > 16384 or w > 16384 then
    sp.usage("--size is a number of pixels or HxW, up to 16384 each, not '%s'", text)
  end
  return h, w
end

local function product(list, from)
  local n = 1
  for i = from or 1, #list do n = n * list[i] end
  return n
end

-- A stage of these layers, each of them a tap.
local function plan(g, list, h, w)
  local layers = {}
  for i, l in ipairs(list) do
    layers[i] = {}
    for k, v in next, l do layers[i][k] = v end
    layers[i].tap = true
  end
  local data = g.reader { path = "random", size = { h, w }, batch = 1, samples = 1, classes = 2 }
  return g.layers { g.to_float { data.image, scale = true }, layers = layers }
end

-- By layer: parameters, and multiply-adds for each pixel of its result.
local function count_weights(node)
  local found = {}
  for _, weight in ipairs(node:weights()) do
    local name, what = weight.name:match "^(.*)%.([^.]+)$"
    local n = product(weight.shape)
    found[name] = found[name] or { parameters = 0, per_pixel = 0 }
    if weight.trained then found[name].parameters = found[name].parameters + n end
    if what == "weight" then found[name].per_pixel = n end
  end
  return found
end

local products = { conv = true, linear = true }

local function describe(list, node)
  local weights, layers, last = count_weights(node), sp.json.list {}, "input"
  for i, l in ipairs(list) do
    local name, shape = l.name or tostring(i - 1), node.maps[i].shape
    local own = weights[name] or { parameters = 0, per_pixel = 0 }
    local from = type(l.from) == "table" and l.from or { l.from or last }
    layers[i] = { name = name, type = l[1], from = sp.json.list { table.unpack(from) },
      shape = sp.json.list { table.unpack(shape, 2) }, parameters = own.parameters,
      flop = products[l[1]] and 2 * own.per_pixel * product(shape, 3) or 0 }
    last = name
  end
  return layers
end

local function about(name)
  local list = sp.models.get(name, { output_stride = opt.output_stride > 0 and opt.output_stride or nil,
    classes = opt.classes > 0 and opt.classes or nil })
  local h, w = size_of(opt.size, list.preprocess.crop)
  local g <close> = sp.graph { device = "cpu" }
  local layers, parameters, flop = describe(list, plan(g, list, h, w)), 0, 0
  for _, l in ipairs(layers) do parameters, flop = parameters + l.parameters, flop + l.flop end
  return { model = name, title = list.title, size = sp.json.list { h, w }, layers = layers, parameters = parameters, flop = flop,
    taps = sp.json.list(list.taps), variant = list.variant, preprocess = list.preprocess }
end

-- ---- words ----

local function columns(rows)
  local widths = {}
  for _, row in ipairs(rows) do
    for i, word in ipairs(row) do widths[i] = math.max(widths[i] or 0, #word) end
  end
  for _, row in ipairs(rows) do
    for i, word in ipairs(row) do row[i] = (("%%%s%ds"):format(i > 3 and "" or "-", widths[i])):format(word) end
    sp.print("%s", (table.concat(row, "  "):gsub(" +$", "")))
  end
end

local function tell(t)
  sp.print("%s, %d x %d", t.title, t.size[1], t.size[2])
  local rows = { { "layer", "type", "from", "shape", "parameters", "GFLOP" } }
  for _, l in ipairs(t.layers) do
    rows[#rows + 1] = { l.name, l.type, table.concat(l.from, " "), table.concat(l.shape, " x "),
      l.parameters > 0 and tostring(l.parameters) or "", l.flop > 0 and ("%.4f"):format(l.flop / 1e9) or "" }
  end
  columns(rows)
  sp.print("%.2f M parameters, %.3f GFLOP an image: convolutions and linear layers, a multiply-add as two", t.parameters / 1e6,
    t.flop / 1e9)
  for i, tap in ipairs(t.taps) do sp.print("map %d: %s, %d channels, 1/%d", i, tap.name, tap.channels, tap.stride) end
  local p = t.preprocess
  sp.print("images for %s: shorter side %d, %s, middle %d x %d, 0 to 1, mean %s, std %s", t.variant, p.size, p.interpolation,
    p.crop, p.crop, table.concat(p.mean, " "), table.concat(p.std, " "))
end

known(opt.model)
local found = about(opt.model)
if opt.json then print(sp.json.encode(found)) else tell(found) end
