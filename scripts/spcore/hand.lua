-- SPDX-License-Identifier: MIT
-- Streams, events, tensors and stages that a script uses itself: sp.stream{}, sp.event{}, sp.tensor{}, sp.stage.NAME{},
-- on the device of the command line, or on one of its own: sp.hand{ device = }.
local args = require "spcore.args"
local core = require "spcore.core"
local devices = require "spcore.device"
local models = require "spcore.models"
local weights = require "spcore.weights"
local words = require "spcore.words"

local hand = {}

local tensor_keys = { at = true, name = true, like = true }
local priorities = { low = -1, normal = 0, high = 1 }

local function name_of(what, name)
  if name == nil or type(name) == "string" then return name end
  core.fail(("%s: 'name' must be a string, got a %s"):format(what, type(name)))
end

local function make_stream(device, t)
  t = t or {}
  words.check_keys("stream", t, { name = true, priority = true })
  local priority = priorities[t.priority == nil and "normal" or t.priority]
  if not priority then core.fail(("stream: priority '%s': choose high, normal or low"):format(tostring(t.priority))) end
  return device:stream(name_of("stream", t.name), priority)
end

local function make_event(device, t)
  t = t or {}
  words.check_keys("event", t, { timing = true })
  return device:event(t.timing)
end

local function make_tensor(device, t)
  if type(t) ~= "table" then core.fail(("tensor: write sp.tensor{ \"f32\", 8, 3 }, got a %s"):format(type(t))) end
  local shape, at = table.move(t, 2, #t, 1, {}), t.at == nil and "device" or t.at
  for k in next, t do
    local listed = math.type(k) == "integer" and k >= 1 and k <= #t
    if not listed and not tensor_keys[k] then words.unknown("tensor has no option", k, tensor_keys) end
  end
  if type(at) ~= "string" then core.fail(("tensor: 'at' must be a string, got a %s"):format(type(at))) end
  if t.like then return device:like(t.like, at, name_of("tensor", t.name)) end
  if type(t[1]) ~= "string" then core.fail "tensor: its type comes first, such as \"f32\"" end
  return device:tensor(t[1], shape, at, name_of("tensor", t.name))
end

local function make_stage(device, stage, t)
  local params, own = {}, { name = true, frozen = true, weights = true }
  if t ~= nil and type(t) ~= "table" then
    core.fail(("stage '%s': parameters are a table, got a %s"):format(stage, type(t)))
  end
  for k, v in next, t or {} do
    if not own[k] then params[k] = v end
  end
  t = t or {}
  local from = weights.of(("stage '%s'"):format(stage), t.weights, params.layers)
  params.layers = models.bare(params.layers) -- behind whatever reads what the list says of itself
  return device:stage(stage, params, name_of("stage", t.name), t.frozen, from)
end

-- What sp and each device of its own have: functions over the device that `get` gives.
local function makers(get)
  return {
    stream = function(t) return make_stream(get(), t) end,
    event = function(t) return make_event(get(), t) end,
    tensor = function(t) return make_tensor(get(), t) end,
    stage = setmetatable({}, {
      __index = function(_, name)
        return function(t) return make_stage(get(), name, t) end
      end,
      __call = function(_, name, t) return make_stage(get(), name, t) end,
    }),
  }
end

local known = { device = true, precision = true, seed = true, order = true, init = true, check_races = true }

local function open(opt)
  local o = {}
  for k in next, known do o[k] = rawget(opt, k) end
  o.device = o.device or "cpu"
  if o.device == "auto" then o.device = devices.find "auto" end
  o.precision = devices.precision(o.device, o.precision)
  return core.hand(o)
end

-- sp.hand{ device =, precision =, seed =, order =, init =, check_races = }, or what sp.args gave
function hand.new(opt)
  opt = opt or {}
  if type(opt) ~= "table" then core.fail(("hand: options are a table, got a %s"):format(type(opt))) end
  if not args.is_options(opt) then words.check_keys("hand", opt, known) end
  local device = open(opt)
  local made = makers(function() return device end)
  function made.close() device:close() end
  function made.device() return device:device() end
  return setmetatable(made, {
    __close = function() device:close() end,
    __index = function(t, key) words.unknown("a device by hand has no", key, t) end,
  })
end

-- The one of sp.stream and the others: opened when first needed, as the command line says.
local default

function hand.default()
  if not default or not default:is_open() then default = open(args.last or {}) end
  return default
end

for name, make in next, makers(hand.default) do hand[name] = make end

return hand
