-- SPDX-License-Identifier: MIT
-- The folder of a run that is to go on: its settings, and what later sessions have changed of them.
local json = require "spcore.json"
local sys = require "spcore.sys"

local resume = {}

local function read(path)
  local file, why = io.open(path, "rb")
  if not file then return nil, why end
  local text = file:read "a"
  file:close()
  return text
end

-- settings(dir) -> what settings.json says, with the options as they were last | nil, why
function resume.settings(dir)
  if sys.kind(dir) ~= "dir" then return nil, "there is no such folder" end
  local text, why = read(dir .. "/settings.json")
  if not text then return nil, ("it holds no run (%s)"):format(why) end
  local settings
  settings, why = json.decode(text)
  if type(settings) ~= "table" or type(settings.options) ~= "table" or type(settings.script) ~= "string" then
    return nil, ("settings.json: %s"):format(why or "it does not say what was run")
  end
  for line in (read(dir .. "/resumed.jsonl") or ""):gmatch "[^\n]+" do
    local told = json.decode(line)
    for k, v in pairs(type(told) == "table" and told.changed or {}) do settings.options[k] = v end
  end
  return settings
end

return resume
