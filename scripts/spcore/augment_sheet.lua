-- SPDX-License-Identifier: MIT
-- --show-augment FILE.png of trainings: a sheet of some samples and what the run's own augmentation makes of them, in place of the
-- training.
local args = require "spcore.args"
local core = require "spcore.core"
local files = require "spcore.files"
local graph = require "spcore.graph"
local options = require "spcore.options"
local outputs = require "spcore.outputs"
local progress = require "spcore.progress"
local twos = require "spcore.twos"

local augment_sheet = {}

augment_sheet.option = { "", "draw some samples, and what this run's augmentation makes of them, into this file, and end", default = "none",
  value = "FILE.png" }

local ROWS <const>, COLUMNS <const>, CELL <const> = 6, 5, 128 -- ROWS: and one that may validate

-- What cannot be meant. chain: the run has an augmentation; cure: how it gets one
function augment_sheet.check(opt, chain, cure)
  if opt.show_augment == "" then return end
  if not chain then args.usage("--show-augment: this run has no augmentation; name one, %s", cure) end
  if not opt.show_augment:lower():match "[^/]%.png$" then args.usage("--show-augment %s: the name must end in .png", opt.show_augment) end
end

local function first(x) return not core.kind(x) and x[1] or x end
local function second(x) return not core.kind(x) and x[2] or nil end

-- Large pictures are scaled down to the cell.
local function fit(g, image, mask)
  local shape = first(image).shape
  local longest = math.max(shape[3], shape[4])
  if longest <= CELL then return image, mask end
  local function side(px) return math.max(1, px * CELL // longest) end
  local small = g.resize { image, masks = mask, size = { side(shape[3]), side(shape[4]) } }
  return not core.kind(image) and { small.images[1], small.images[2] } or small.images[1], mask and small.masks[1]
end

-- draw(opt, how): the sheet, where --show-augment asks for it; true: it is drawn. how: { open(g, more) makes the reader of the training
-- part with these parameters as well; chain = the steps, add(g, image, mask, data) -> image, mask, drew, as chain:add }
function augment_sheet.draw(opt, how)
  if opt.show_augment == "" then return false end
  outputs.alone()
  local reading = options.reading_of(opt, { device = "cpu" })
  local function few(g, batch)
    return how.open(g, { samples = ROWS + 1, batch = batch, shuffle = false, drop_last = false })
  end
  local rows
  do
    local probe <close> = graph(reading)
    rows = few(probe, 1).length
  end
  local g <close> = graph(reading)
  local data = few(g, rows) -- an epoch is one step
  local masked = how.masks
  local two = data.images == 2 and data.second
  local image, mask = two and { data.image, two } or data.image, masked and data.mask or nil
  local changed, changed_mask, drew = how.add(g, image, mask, data)
  local values, captions, names, settings = {}, {}, {}, {}
  for i, one in ipairs(drew) do values[i], captions[i] = one.values, { one.caption } end
  for i, text in ipairs(how.chain:settings().steps) do settings[i] = text:gsub(" ", "\u{a0}") end
  if data.files > 0 then
    for i = 1, rows do names[i] = { data:item("files", i - 1):match "[^/]*$" } end
  end
  local original, original_mask = fit(g, image, mask)
  changed, changed_mask = fit(g, changed, changed_mask)
  local shape = first(changed).shape
  local sheet <close> = outputs.place(opt, opt.show_augment)
  files.make_parents(sheet.path)
  g.contact_sheet {
    image = first(changed), second = second(changed), mask = changed_mask, original = first(original), original_second = second(original),
    original_mask = original_mask, values = values[1] and values or nil, captions = captions, label = how.classes and data.label or nil,
    class_names = how.classes and data.class_names or "", mask_names = masked and data.class_names or "", names = names[1] and names or nil,
    rows = rows, columns = COLUMNS, zoom = math.max(1, CELL // math.max(shape[3], shape[4])), file = sheet.path, on_cpu = true,
    title = ("%s\nas this run's network sees it · %s · seed %d"):format(opt.data, table.concat(settings, " · "), opt.seed),
  }
  for _ in g:steps(COLUMNS) do end
  if not core.interrupted() then
    progress.print("%s: %d sample%s, %d epochs; nothing is trained (leave --show-augment out)", opt.show_augment, rows,
      rows == 1 and "" or "s", COLUMNS)
  end
  return true
end

return augment_sheet
