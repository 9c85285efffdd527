-- SPDX-License-Identifier: MIT
-- Figures of a data set: the least, median and largest side and aspect of its images, and what it has more than once.
local core = require "spcore.core"
local json = require "spcore.json"

local survey = {}

survey.most = 4096 -- images whose headers are looked at where not all files are read anyway

-- The value that half of the samples do not exceed, of { value, samples } sorted by value.
local function median(list, all)
  local below = 0
  for _, entry in ipairs(list) do
    below = below + entry[2]
    if 2 * below >= all then return entry[1] end
  end
end

-- Of all sizes, as a map of width << 32 | height to samples, what value(width, height) has.
local function range(sizes, all, value)
  local counts, list = {}, {}
  for key, n in pairs(sizes) do
    local v = value(key >> 32, key & 0xffffffff)
    counts[v] = (counts[v] or 0) + n
  end
  for v, n in pairs(counts) do list[#list + 1] = { v, n } end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  return { least = list[1][1], median = median(list, all), largest = list[#list][1] }
end

-- figures(sizes) -> { images =, width =, height =, aspect = { least =, median =, largest = } }; nil: there is no image
function survey.figures(sizes)
  local all = 0
  for _, n in pairs(sizes) do all = all + n end
  if all == 0 then return end
  return {
    images = all,
    width = range(sizes, all, function(w) return w end),
    height = range(sizes, all, function(_, h) return h end),
    aspect = range(sizes, all, function(w, h) return w / h end),
  }
end

-- headers(data, seen) -> what the headers of a reader's images say of their sizes, added to `seen` of another part: of all, or of
-- some that are spread evenly.
function survey.headers(data, seen)
  seen = seen or { sizes = {}, types = {}, of = 0, unreadable = 0 }
  local of = math.tointeger(data.sizes)
  local train, val = data.splits:match "(%d+)%D+(%d+)"
  local all = train and train + val or of
  local function upto(n) return all <= survey.most and n or n * survey.most // all end -- of the first n, so that parts add up
  local most, sizes = upto(seen.of + of) - upto(seen.of), seen.sizes
  for i = 0, most - 1 do
    local w, h, kind = data:item("sizes", i * of // most):match "^(%d+) (%d+) (.+)$"
    local key = w and math.tointeger(w) << 32 | math.tointeger(h)
    if key then sizes[key], seen.types[kind] = (sizes[key] or 0) + 1, (seen.types[kind] or 0) + 1
    else seen.unreadable = seen.unreadable + 1 end
  end
  seen.of = seen.of + of
  return seen
end

-- found(seen) -> their figures; `of` is how many images there are, `unreadable` how many of those that were looked at say no size;
-- nil: there are no files.
function survey.found(seen)
  local out = survey.figures(seen.sizes) or seen.of > 0 and { images = 0 } or nil
  if out then out.of, out.unreadable = seen.of, seen.unreadable end
  return out
end

local kinds = { "across", "train", "val", "labels" } -- as the reader counts them

-- twins(data) -> { across =, train =, val =, labels = { images =, first = { FILE, FILE } } }, each where there are such: images
-- whose decoded pixels equal those of another one; nil: the set has none that could be compared.
function survey.twins(data)
  local n = math.tointeger(data.duplicates)
  if n == 0 then return end
  local out = {}
  for i = 0, n - 1 do
    local text = data:item("duplicates", i)
    if text:sub(1, 2) == "! " then core.fail(text:sub(3)) end
    local count, a, b = text:match "^(%d+)\t(.-)\t(.*)$"
    if count then out[kinds[i + 1]] = { images = math.tointeger(tonumber(count)), first = json.list { a, b } } end
  end
  return out
end

-- types(seen) -> { { type =, channels =, alpha = true or nil, images = }, ... } of those headers, the most frequent first.
function survey.types(seen)
  local list = json.list {}
  for key, n in pairs(seen.types) do
    local kind, channels, alpha = key:match "^(%S+) (%d+) ?(%a*)$"
    list[#list + 1] = { type = kind, channels = math.tointeger(channels), alpha = alpha ~= "" or nil, images = n }
  end
  table.sort(list, function(a, b)
    if a.images ~= b.images then return a.images > b.images end
    return a.type .. a.channels < b.type .. b.channels
  end)
  return list
end

-- ---- words ----

-- Lines on types, and on what is lost of them as opt.dtype and opt.channels read them, with the cure.
function survey.type_lines(types, opt)
  local out, list, all = {}, {}, 0
  for i, t in ipairs(types) do
    list[i] = ("%s, %d channel%s%s (%d)"):format(t.type, t.channels, t.channels == 1 and "" or "s",
      t.alpha and " with alpha" or "", t.images)
    all = all + t.images
  end
  if #list > 0 then out[1] = "images hold " .. table.concat(list, "; ") end
  for _, t in ipairs(opt.dtype == "uint8" and types or {}) do
    local shown = t.channels - (t.alpha and 1 or 0)
    local many = shown ~= 1 and shown ~= 3 and opt.channels == 0
    if t.type ~= "uint8" then
      local dtype = t.type == "uint16" and "uint16" or "float32"
      out[#out + 1] = ("%d of %d images are %s%s, and bytes are read: %s (--dtype %s)"):format(t.images, all, t.type,
        many and (" of %d channels"):format(shown) or "", dtype == "uint16" and "the high 8 bits; all are kept by"
        or "of these none can be; they are read by", dtype)
    elseif many then
      out[#out + 1] = ("%d of %d images have %d channels, of which RGB has three at most; all are kept by (--channels %d)"):format(
        t.images, all, t.channels, t.channels)
    end
  end
  if #types > 1 and opt.dtype ~= "uint8" then
    for i = 2, #types do
      if types[i].type ~= types[1].type then
        out[#out + 1] = "numbers of several types are taken as they are: check that they mean the same"
        break
      end
    end
  end
  return out
end

local function number(v) return math.tointeger(v) and ("%d"):format(v) or ("%.3g"):format(v) end

local function words_of(name, r)
  return ("%s: least %s, median %s, largest %s"):format(name, number(r.least), number(r.median), number(r.largest))
end

-- Lines on figures.
function survey.lines(f)
  local out = {}
  local function is_one(r) return r.least == r.largest end
  if f.images > 0 and is_one(f.width) and is_one(f.height) then
    out[1] = ("sizes, width x height: %d x %d (%d)"):format(f.width.least, f.height.least, f.images)
  elseif f.images > 0 then
    out[1] = words_of("width", f.width) .. "; " .. words_of("height", f.height) .. " pixels"
    out[2] = words_of("aspect, width / height", f.aspect)
  end
  if f.of and f.images > 0 and f.images + f.unreadable < f.of then
    out[#out + 1] = ("sizes are those of %d images, evenly spread over %d; --check reads all"):format(f.images + f.unreadable, f.of)
  end
  if (f.unreadable or 0) > 0 then
    out[#out + 1] = ("%d image%s no size in the header; --check names each"):format(f.unreadable, f.unreadable == 1 and " has" or "s have")
  end
  return out
end

local function some(n, one, many) return n == 1 and "1 " .. one or ("%d %s"):format(n, many) end

-- Lines on what is there more than once.
function survey.twin_lines(twins)
  local out = {}
  local function add(kind, words)
    local t = twins[kind]
    if t then out[#out + 1] = ("%s: %s, such as %s and %s"):format(words[1], some(t.images, words[2], words[3]), t.first[1], t.first[2]) end
  end
  add("across", { "duplicates in train and val", "image for validation has the pixels of one for training",
    "images for validation have the pixels of some for training" })
  add("train", { "duplicates in train", "image has the pixels of an earlier one", "images have the pixels of earlier ones" })
  add("val", { "duplicates in val", "image has the pixels of an earlier one", "images have the pixels of earlier ones" })
  add("labels", { "duplicates of two classes", "image is there before with another class", "images are there before with another class" })
  return out
end

return survey
