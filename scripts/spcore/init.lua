-- SPDX-License-Identifier: MIT
-- What `require "spcore"` gives a script.
local core = require "spcore.core"

local progress = require "spcore.progress"
local env = core.env()
local hand = require "spcore.hand"
local rates = require "spcore.rates"

local sp = {
  version = env.version,
  script_dir = env.script_dir,
  rank = env.rank,
  ranks = env.ranks,
  args = (require "spcore.args").parse,
  usage = (require "spcore.args").usage,
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
  json = require "spcore.json",
  log = progress.log,
  print = progress.print,
  pictures = require "spcore.pictures",
  progress = progress.new,
  now = (require "spcore.sys").now,
  interrupted = core.interrupted,
  exit = core.exit,
  fail = core.fail,
  warn = function(words) core.log("warn", words) end,
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
