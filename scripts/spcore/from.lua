-- SPDX-License-Identifier: MIT
-- --from RUN|FILE of trainings: all weights of a run's network, which is trained further on other data, from step 1.
local args = require "spcore.args"
local core = require "spcore.core"
local first_weights = (require "spcore.checkpoint").first_weights
local json = require "spcore.json"
local known_file = require "spcore.known_file"
local optimizers = require "spcore.optimizers"
local progress = require "spcore.progress"
local ranks = require "spcore.ranks"
local sides = require "spcore.sides"
local sys = require "spcore.sys"
local words = require "spcore.words"

local from = {}

from.option = { "", "all weights that the network begins with: those of a run, of which it takes the options of the network, too; for training "
  .. "on with other data", default = "none", value = "RUN|FILE" }

local of_network <const> = { "backbone", "variant", "model", "output_stride", "width", "levels", "grey", "fusion", "size", "dtype", "channels" }

-- What settings.json in the folder of the run says, or beside the file.
local function settings_of(path)
  local dir = sys.kind(path) == "dir" and path or path:match "^(.*)/[^/]*$" or "."
  return json.decode(ranks.told(function()
    local t = json.read(dir .. "/settings.json")
    return json.encode(type(t) == "table" and t or {})
  end)), dir
end

-- How the encoder alone is taken, as it is typed.
local function of_encoder(settings, dir)
  local o = type(settings.options) == "table" and settings.options or {}
  if (o.backbone or "") ~= "" then return ("--backbone %s --weights %s"):format(words.quoted(o.backbone), words.quoted(dir)) end
  local more = o.width and o.levels and (o.width ~= 8 or o.levels ~= 3) and (" --width %d --levels %d"):format(o.width, o.levels) or ""
  return ("--encoder %s%s"):format(words.quoted(dir), more)
end

-- The options of the network are those of the run, where the command line has none.
function from.adopt(opt)
  if opt.from == "" or opt.resume ~= "" then return end
  local script = core.env().script:match "[^/]*$"
  for _, name in ipairs { "encoder", "weights" } do
    if (rawget(opt, name) or "") ~= "" then args.usage("--%s: --from has all weights; leave one of them out", name) end
  end
  if not ranks.told(function() return sys.kind(opt.from) or "" end):find "." then args.usage("--from %s: there is no such run or file", opt.from) end
  local settings, dir = settings_of(opt.from)
  local other = type(settings.script) == "string" and settings.script:match "[^/]*$"
  if other and other ~= script then
    args.usage("--from %s: it is a run of %s%s", opt.from, other, rawget(opt, "encoder") and "; its encoder alone is taken by "
      .. of_encoder(settings, dir) or (", and one of %s is wanted"):format(script))
  end
  local taken = {}
  for _, name in ipairs(of_network) do
    local old = type(settings.options) == "table" and settings.options[name]
    local mine = rawget(opt, name)
    local pair = name == "size" and type(old) == "table" and sides.valid(old)
    if mine ~= nil and old ~= nil and old ~= mine and (pair or type(old) == type(mine)) and not args.is_given(name) then
      opt[name] = old
      taken[#taken + 1] = ("--%s%s"):format(name:gsub("_", "-"), old == true and "" or " " .. (pair and sides.text(old) or tostring(old)))
    end
  end
  if taken[1] then progress.print("--from %s: its network, %s", opt.from, table.concat(taken, " ")) end
end

local function classes_of(model)
  local decoder = type(model.decoder) == "table" and model.decoder or {}
  return model.classes or decoder.classes, type(model.class_names) == "table" and model.class_names or nil
end

-- Other classes need another head, and the same number of others another look.
local function check_classes(opt, model)
  local settings, dir = settings_of(opt.from)
  if type(settings.model) ~= "table" then return end
  local n, names = classes_of(settings.model)
  local here, here_names = classes_of(model)
  if n and n ~= here then
    core.fail(("--from %s: its network has %d classes, and here are %d%s"):format(opt.from, n, here, rawget(opt, "encoder")
      and "; its encoder alone is taken by " .. of_encoder(settings, dir) or ""))
  end
  local a, b = table.concat(names or {}, ", "), table.concat(here_names or {}, ", ")
  if names and here_names and a ~= b and ranks.first then
    core.log("warn", ("--from %s: its classes are %s; here they are %s, which take their places in this order"):format(opt.from, a, b))
  end
end

-- Loads them into the whole graph; a run that goes on has its own.
function from.load(g, opt, model)
  if opt.from == "" or first_weights(opt, opt.from) == "" then return end
  check_classes(opt, model)
  local file = sys.kind(opt.from) == "dir" and opt.from .. "/weights.safetensors" or opt.from
  local ignore = {} -- the moments of a checkpoint: this is another training
  for i, stage in ipairs(optimizers.kept(known_file.header(file) or {})) do ignore[i] = stage .. ".*" end
  local ok, why = pcall(g.load, g, { file, prefix = "", ignore = ignore[1] and ignore or nil })
  if not ok then core.fail(("--from %s: %s"):format(opt.from, (tostring(why):gsub("^%S+%.lua:%d+: ", "")))) end
end

return from
