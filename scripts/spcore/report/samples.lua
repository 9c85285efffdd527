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

-- ---- PNG ----

local crc_table = {}
for i = 0, 255 do
  local c = i
  for _ = 1, 8 do c = c & 1 == 1 and 0xedb88320 ~ (c >> 1) or c >> 1 end
  crc_table[i] = c
end

local function crc(text)
  local c = 0xffffffff
  for i = 1, #text do c = crc_table[(c ~ text:byte(i)) & 255] ~ (c >> 8) end
  return c ~ 0xffffffff
end

-- A picture with a palette whose entries `clear` are as glass; others as they are.
local function with_glass(png, clear)
  local at = 9
  while at + 8 <= #png do
    local length, kind = (">I4c4"):unpack(png, at)
    if kind == "tRNS" or kind == "IDAT" then return png end
    if kind == "PLTE" then
      local alpha = {}
      for i = 0, length // 3 - 1 do alpha[i + 1] = clear[i] and "\0" or "\255" end
      local chunk = "tRNS" .. table.concat(alpha)
      local behind = at + 12 + length
      return png:sub(1, behind - 1) .. (">I4"):pack(#alpha) .. chunk .. (">I4"):pack(crc(chunk)) .. png:sub(behind)
    end
    at = at + 12 + length
  end
  return png
end

local function uri(png) return "data:image/png;base64," .. base64(png) end
local function size_of(png) return (">I4I4"):unpack(png, 17) end

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

local guess_shape = { ["class?"] = "integer", ["probability?"] = "number", ["classes?"] = { list = "integer" },
  ["probabilities?"] = { list = "number" }, ["values?"] = { list = "number" } }
local guesses_shape = { list = guess_shape }
local sample_shape = { name = "string", ["file?"] = "string", ["truth?"] = "integer", ["iou?"] = "number", ["loss?"] = "number",
  ["rmse?"] = "number", ["truths?"] = { list = "integer" }, ["values?"] = { list = "number" }, ["predicted?"] = guess_shape }
local dot_shape = { name = "string", values = { list = "number" }, predicted = { list = "number" } }
local file_shape = {
  ["worst?"] = { step = "integer", by = "string", of = "integer", all = "integer", samples = { list = sample_shape },
    ["dots?"] = { list = dot_shape } },
  ["target?"] = "string", ["columns?"] = { list = "string" }, samples = { list = sample_shape }, ["classes?"] = { list = "string" },
  ["two_images?"] = "boolean", ["labels?"] = { list = "integer" },
  ["map?"] = { least = "number", largest = "number", error = "number" },
  last = { step = "integer", ["predicted?"] = guesses_shape },
  ["best?"] = { step = "integer", ["predicted?"] = guesses_shape },
}

local TRUTH <const> = { labels = "truths", numbers = "values" }
local GUESS <const> = { labels = "classes", numbers = "values" }

-- What was predicted of a sample is what its target says.
local function is_guess(t, p) return p and p[GUESS[t.target] or "class"] ~= nil end

-- What the shape does not say: names that are parts of paths, and with classes a truth and a prediction of each sample.
local function mistake(t)
  for at, list in pairs { samples = t.samples, ["worst.samples"] = t.worst and t.worst.samples } do
    for i, s in ipairs(list) do
      if not s.name:find "^%d+$" then return ("%s[%d].name is to be a number"):format(at, i) end
      if not (t.labels or t.map) and not s[TRUTH[t.target] or "truth"] then return ("%s[%d].truth is missing"):format(at, i) end
      if at ~= "samples" and not (t.labels or t.map) and not is_guess(t, s.predicted) then
        return ("%s[%d].predicted is missing"):format(at, i)
      end
    end
  end
  for _, name in ipairs((t.labels or t.map) and {} or { "last", "best" }) do
    local e = t[name]
    if e and #(e.predicted or {}) ~= #t.samples then return ("%s.predicted is to have an entry for each sample"):format(name) end
    for i, p in ipairs(e and e.predicted or {}) do
      if not is_guess(t, p) then return ("%s.predicted[%d] is not what the target says"):format(name, i) end
    end
  end
end

-- ---- pictures ----

local function images_of(t)
  return t.two_images == true and { { "first image", "input" }, { "second image", "second" } } or { { "image", "input" } }
end

-- { { words, kind of file }, ... }, of what a sample shows
local function kinds_of(t)
  local kinds = images_of(t)
  if not (t.labels or t.map) then return kinds end
  local same = t.best and t.best.step == t.last.step
  kinds[#kinds + 1] = { "truth", "truth" }
  kinds[#kinds + 1] = { ("predicted, step %d%s"):format(t.last.step + 1, same and ", the best" or ""), "last" }
  if t.map then kinds[#kinds + 1] = { ("error, step %d"):format(t.last.step + 1), "error" } end
  if t.best and not same then kinds[#kinds + 1] = { ("the best, step %d"):format(t.best.step + 1), "best" } end
  return kinds
end

local function name_of(t, class) return t.classes and t.classes[class + 1] or tostring(class) end

-- "age 31, weight 70.5"
local function values_of(t, values)
  local out = {}
  for i, v in ipairs(values) do out[i] = ("%s %.4g"):format(t.columns and t.columns[i] or "value", v) end
  return table.concat(out, ", ")
end

local function names_of(t, classes, probabilities)
  local out = {}
  for i, class in ipairs(classes) do out[i] = name_of(t, class) .. (probabilities and (" %.2f"):format(probabilities[i]) or "") end
  return out[1] and table.concat(out, ", ") or "none"
end

-- Those of a that are not in b.
local function without(a, b)
  local set, out = {}, {}
  for _, v in ipairs(b) do set[v] = true end
  for _, v in ipairs(a) do out[#out + 1] = not set[v] and v or nil end
  return out
end

-- "predicted at step 60: ant 0.98; missed: bee; not there: cow"
local function several_of(t, p, at, truths)
  local missed, wrong = without(truths, p.classes), without(p.classes, truths)
  local words = { at .. names_of(t, p.classes, p.probabilities) }
  if missed[1] then words[#words + 1] = "missed: " .. names_of(t, missed) end
  if wrong[1] then words[#words + 1] = "not there: " .. names_of(t, wrong) end
  return { words = table.concat(words, "; "), right = not missed[1] and not wrong[1] }
end

-- "predicted at step 60: disc, 0.98", and whether it is right
local function guess_of(t, p, step, truth, of_best, s)
  local at = ("predicted at step %d%s: "):format(step + 1, of_best and ", the best" or "")
  if t.target == "labels" then return several_of(t, p, at, s.truths) end
  if t.target == "numbers" then return { words = at .. values_of(t, p.values), right = true } end
  local sure = p.probability and ("%.2f"):format(p.probability) or "not a number"
  return { words = ("predicted at step %d%s: %s, %s"):format(step + 1, of_best and ", the best" or "", name_of(t, p.class), sure),
    right = p.class == truth }
end

local function guess(t, evaluation, i)
  return guess_of(t, evaluation.predicted[i], evaluation.step, t.samples[i].truth, evaluation == t.best, t.samples[i])
end

-- What was predicted of a sample with one class.
local function guesses(t, i)
  local same = t.best and t.best.step == t.last.step
  local list = { guess(t, same and t.best or t.last, i) }
  if t.best and not same then list[2] = guess(t, t.best, i) end
  return list
end

local none = { [0] = true, [255] = true } -- labels that tint nothing: the ground, and what has no label

local function legend_of(t, colours)
  local list = {}
  for i, label in ipairs(t.labels or {}) do
    local name = t.classes and t.classes[label + 1] or label == 255 and "no label" or tostring(label)
    list[i] = { colour = not none[label] and (colours[label] or "#000000") or "transparent", name = name }
  end
  return list
end

-- One sample's card, { uri =, aspect =, shots = { { words =, sharp =, over = labels as a picture or nil }, ... } }, their bytes, and
-- the file of its labels; nil: a file is missing.
local function card_of(dir, s, kinds, is_map)
  local card, bytes, truth = { name = tostring(tonumber(s.name)), file = s.file, shots = {}, guesses = {} }, 0, nil
  for i, kind in ipairs(kinds) do
    local png = read(("%s/%s-%s.png"):format(dir, kind[2], s.name))
    if not png then return end
    local width, height = size_of(png)
    card.shots[i], bytes = { words = kind[1], sharp = width < SMOOTH }, bytes + #png
    if i > 1 and (kind[2] == "second" or is_map) then card.shots[i].uri = uri(png)
    elseif i == 1 then card.uri, card.aspect = uri(png), ("%d/%d"):format(width, height)
    else card.shots[i].over = uri(with_glass(png, none)) end
    if kind[2] == "truth" then truth = png end
  end
  return card, bytes, truth
end

-- What a card says of a sample beside its pictures.
local function note_of(t, s)
  local parts = {}
  if t.target == "labels" then parts[1] = "true: " .. names_of(t, s.truths)
  elseif t.target == "numbers" then parts[1] = "true: " .. values_of(t, s.values)
  elseif not (t.labels or t.map) then parts[1] = "true: " .. name_of(t, s.truth) end
  if s.iou then parts[#parts + 1] = ("mean IoU %.3f"):format(s.iou) end
  if s.rmse then parts[#parts + 1] = ("RMSE %.4g"):format(s.rmse) end
  if s.loss then parts[#parts + 1] = ("loss %.3g"):format(s.loss) end
  return parts[1] and table.concat(parts, ", ")
end

-- of(folder of the run) -> nil where it has none, or { legend =, cards = { { name =, file =, note =, uri =, aspect =, shots =,
-- guesses = }, ... }, worst = the same, told = samples.json, left_out = how many do not fit into a page, missing = how many have
-- lost a file }
return function(run_dir)
  local dir = run_dir .. "/samples"
  local path = dir .. "/samples.json"
  if not sys.there(path) then return end
  local t, why = shape.read(path, file_shape)
  local odd = t and mistake(t)
  why = why or odd and ("%s: %s"):format(path, odd)
  if why then core.fail(why .. "; without this file the report has no samples") end
  local out, left, colours = { cards = {}, worst = {}, told = t, left_out = 0, missing = 0 }, MOST, {}
  local function add(cards, s, kinds, guesses)
    local card, bytes, truth = card_of(dir, s, kinds, t.map ~= nil)
    if not card then out.missing = out.missing + 1
    elseif bytes > left then out.left_out = out.left_out + 1
    else
      left, card.note, card.guesses = left - bytes, note_of(t, s), guesses or {}
      colours = truth and palette(truth) or colours
      cards[#cards + 1] = card
    end
  end
  for _, s in ipairs(t.worst and t.worst.samples or {}) do
    local kinds = images_of(t)
    if t.labels then
      local predicted = ("predicted, step %d"):format(t.worst.step + 1)
      table.move({ { "truth", "truth" }, { predicted, "last" } }, 1, 2, #kinds + 1, kinds)
    end
    if t.map then
      local step = t.worst.step + 1
      local predicted, off = ("predicted, step %d"):format(step), ("error, step %d"):format(step)
      table.move({ { "truth", "truth" }, { predicted, "last" }, { off, "error" } }, 1, 3, #kinds + 1, kinds)
    end
    add(out.worst, s, kinds, not (t.labels or t.map) and { guess_of(t, s.predicted, t.worst.step, s.truth, false, s) })
  end
  for i, s in ipairs(t.samples) do add(out.cards, s, kinds_of(t), not (t.labels or t.map) and guesses(t, i)) end
  out.legend = legend_of(t, colours)
  return out
end
