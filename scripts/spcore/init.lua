-- SPDX-License-Identifier: MIT
-- What `require "spcore"` gives a script.
local core = require "spcore.core"

local progress = require "spcore.progress"
local env = core.env()
local hand = require "spcore.hand"
local rates = require "spcore.rates"

-- f(fmt, ...) of a script, whose words may not fit its format.
local function formatted(name, f)
  return function(fmt, ...)
    local ok, text = pcall(string.format, fmt, ...)
    if not ok then core.fail(("%s: %s"):format(name, text:gsub(" to '[%w.]+'", ""))) end
    f("%s", text)
  end
end

local function text_of(name, message)
  if type(message) == "string" or type(message) == "number" then return message end
  core.fail(("%s(message): a text is wanted, got a %s"):format(name, type(message)))
end

local say = formatted("sp.print", progress.print)

local sp = {
  version = env.version,
  script_dir = env.script_dir,
  rank = env.rank,
  ranks = env.ranks,
  args = (require "spcore.args").parse,
  usage = formatted("sp.usage", (require "spcore.args").usage),
  graph = require "spcore.graph",
  hand = hand.new,
  stream = hand.stream,
  event = hand.event,
  tensor = hand.tensor,
  stage = hand.stage,
  cosine = rates.cosine,
  step_rate = rates.step_rate,
  one_cycle = rates.one_cycle,
  models = require "spcore.models",
  run = require "spcore.run",
  write_file = (require "spcore.files").write,
  accuracy = require "spcore.accuracy",
  mean_iou = require "spcore.iou",
  figures = require "spcore.figures",
  json = require "spcore.json",
  log = progress.log,
  print = function(text, ...)
    if select("#", ...) > 0 then say(text, ...) else progress.print("%s", tostring(text)) end
  end,
  pictures = require "spcore.pictures",
  progress = progress.new,
  now = (require "spcore.sys").now,
  interrupted = core.interrupted,
  exit = core.exit,
  fail = function(message) core.fail(text_of("sp.fail", message)) end,
  warn = function(message) core.log("warn", text_of("sp.warn", message)) end,
}

-- The path of a file that is shipped beside the scripts.
function sp.shipped(name)
  return env.script_dir .. "/" .. name
end

return setmetatable(sp, {
  __index = function(t, key)
    require "spcore.words".unknown("spcore has no", key, t)
  end,
})
