-- SPDX-License-Identifier: MIT
-- The samples of the validation that a run has drawn into RUN/samples, for its page: pictures as data: URIs, colours of labels.
local core = require "spcore.core"
local shape = require "spcore.report.shape"
local sys = require "spcore.sys"

local MOST <const> = 1200000 -- bytes of files: a third more in the page, which is to stay below 2 MB
local SMOOTH <const> = 200 -- pixels a side, from which on a browser may smooth

local letters = {}
for c in ("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"):gmatch "." do letters[#letters + 1] = c end

local function base64(s)
  local out = {}
  for i = 1, #s, 3 do
    local a, b, c = s:byte(i, i + 2)
    local n = a << 16 | (b or 0) << 8 | (c or 0)
    out[#out + 1] = letters[(n >> 18) + 1] .. letters[(n >> 12 & 63) + 1] .. (b and letters[(n >> 6 & 63) + 1] or "=")
      .. (c and letters[(n & 63) + 1] or "=")
  end
  return table.concat(out)
end

-- The bytes of a PNG file; nil: there is none.
local function read(path)
  local file = io.open(path, "rb")
  local s = file and file:read "a"
  if file then file:close() end
  return s and #s > 33 and s:sub(1, 8) == "\137PNG\r\n\26\n" and s:sub(13, 16) == "IHDR" and s or nil
end

-- { uri =, sharp = whether its pixels are to be seen }
local function picture(s) return { uri = "data:image/png;base64," .. base64(s), sharp = (">I4"):unpack(s, 17) < SMOOTH } end

-- Colours of the palette: [label] = "#rrggbb".
local function palette(s)
  local colours, at = {}, 9
  while at + 8 <= #s do
    local length, kind = (">I4c4"):unpack(s, at)
    if kind == "PLTE" then
      for i = 0, math.min(length, #s - at - 7) // 3 - 1 do
        colours[i] = ("#%02x%02x%02x"):format(s:byte(at + 8 + 3 * i, at + 10 + 3 * i))
      end
      return colours
    end
    at = at + 12 + length
  end
  return colours
end

-- ---- samples.json ----

local guesses_shape = { list = { class = "integer", ["probability?"] = "number" } }
local file_shape = {
  samples = { list = { name = "string", ["truth?"] = "integer" } }, ["classes?"] = { list = "string" },
  ["labels?"] = { list = "integer" }, last = { step = "integer", ["predicted?"] = guesses_shape },
  ["best?"] = { step = "integer", ["predicted?"] = guesses_shape },
}

-- What the shape does not say: names that are parts of paths, and with classes a truth and a prediction of each sample.
local function mistake(t)
  for i, s in ipairs(t.samples) do
    if not s.name:find "^%d+$" then return ("samples[%d].name is to be a number"):format(i) end
    if not t.labels and not s.truth then return ("samples[%d].truth is missing"):format(i) end
  end
  for _, name in ipairs(t.labels and {} or { "last", "best" }) do
    local e = t[name]
    if e and #(e.predicted or {}) ~= #t.samples then return ("%s.predicted is to have an entry for each sample"):format(name) end
  end
end

-- ---- pictures ----

-- { { words, kind of file }, ... }, of what a sample shows
local function kinds_of(t)
  local kinds = { { "image", "input" } }
  if not t.labels then return kinds end
  local same = t.best and t.best.step == t.last.step
  kinds[2] = { "truth", "truth" }
  kinds[3] = { ("predicted, step %d%s"):format(t.last.step, same and ", the best" or ""), "last" }
  if t.best and not same then kinds[4] = { ("the best, step %d"):format(t.best.step), "best" } end
  return kinds
end

local function name_of(t, class) return t.classes and t.classes[class + 1] or tostring(class) end

-- "step 59: disc, 0.98", and whether it is right
local function guess(t, evaluation, i)
  local p = evaluation.predicted[i]
  local of_best = evaluation == t.best and ", the best" or ""
  local sure = p.probability and ("%.2f"):format(p.probability) or "not a number"
  return { words = ("step %d%s: %s, %s"):format(evaluation.step, of_best, name_of(t, p.class), sure),
    right = p.class == t.samples[i].truth }
end

-- What was predicted of a sample with one class.
local function guesses(t, i)
  local same = t.best and t.best.step == t.last.step
  local list = { guess(t, same and t.best or t.last, i) }
  if t.best and not same then list[2] = guess(t, t.best, i) end
  return list
end

local function legend_of(t, colours)
  local list = {}
  for i, label in ipairs(t.labels or {}) do
    local name = t.classes and t.classes[label + 1] or label == 255 and "no label" or tostring(label)
    list[i] = { colour = colours[label] or "#000000", name = name }
  end
  return list
end

-- One sample's pictures, and their bytes; nil: a file is missing.
local function shots_of(dir, s, kinds)
  local shots, bytes, truth = {}, 0, nil
  for i, kind in ipairs(kinds) do
    local png = read(("%s/%s-%s.png"):format(dir, kind[2], s.name))
    if not png then return end
    if kind[2] == "truth" then truth = png end
    shots[i], bytes = picture(png), bytes + #png
    shots[i].words = kind[1]
  end
  return shots, bytes, truth
end

-- of(folder of the run) -> nil where it has none, or { legend =, cards = { { name =, truth =, shots =, guesses = }, ... },
-- told = samples.json, left_out = how many do not fit into a page, missing = how many have lost a file }
return function(run_dir)
  local dir = run_dir .. "/samples"
  local path = dir .. "/samples.json"
  if not sys.there(path) then return end
  local t, why = shape.read(path, file_shape)
  local odd = t and mistake(t)
  why = why or odd and ("%s: %s"):format(path, odd)
  if why then core.fail(why .. "; without this file the report has no samples") end
  local out, left, colours = { cards = {}, told = t, left_out = 0, missing = 0 }, MOST, {}
  for i, s in ipairs(t.samples) do
    local shots, bytes, truth = shots_of(dir, s, kinds_of(t))
    if not shots then out.missing = out.missing + 1
    elseif bytes > left then out.left_out = out.left_out + 1
    else
      left = left - bytes
      colours = truth and palette(truth) or colours
      table.insert(out.cards, { name = tostring(tonumber(s.name)), truth = not t.labels and name_of(t, s.truth) or nil,
        shots = shots, guesses = t.labels and {} or guesses(t, i) })
    end
  end
  out.legend = legend_of(t, colours)
  return out
end
