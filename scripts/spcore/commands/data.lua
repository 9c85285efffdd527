-- SPDX-License-Identifier: MIT
-- spcore data: what a folder of data holds, as the reader sees it.
local sp = require "spcore"

local opt = sp.args({
  target = { "auto", "what is known of an image; auto: see for yourself", choices = { "auto", "mask", "class" } },
}, {
  rest = "DIR", doc = "Says what a folder of data holds: splits and classes.",
  only = { "plugin", "debug" },
})

if #opt.rest ~= 1 then sp.usage("%s; --help says more", #opt.rest == 0 and "no folder is given" or "one folder at a time") end
local dir = opt.rest[1]

-- The samples of a split, and the reader that knows them.
local function open(split, target)
  local g = sp.graph { device = "cpu" }
  return g.reader { path = dir, split = split, target = target, size = 1, batch = 1 }, g
end

-- By the first target whose layout is there; the words are of the first that is not.
local function find_target()
  if opt.target ~= "auto" then return opt.target end
  local ok, why = pcall(open, "all", "mask")
  if ok then return "mask" end
  if pcall(open, "all", "class") then return "class" end
  error(why, 0)
end

local target = find_target()
local train, val = open("train", target), open("val", target)
sp.print("%s: %d train, %d val, %d classes", dir, train.length, val.length, train.classes)
