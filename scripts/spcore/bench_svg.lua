-- SPDX-License-Identifier: MIT
-- What `spcore bench` measured as a picture: throughput over batch sizes, a line for each strategy with its least and
-- most; below it the gain over the first strategy. Batch sizes stand at equal distances, points of one beside each
-- other.
local look = require "spcore.look"
local svg = require "spcore.svg"

local cut = look.cut
local lines = 6 -- look's colours of lines; what comes behind them is dashed, its bars are pale
local middle = { ["text-anchor"] = "middle" }
local wide, left, right, letter = look.width, 64, 16, 6.2 -- letter: about the width of one

-- Rows as series: { name =, colour = a class, dash =, pale =, at = { rows by the batch size's number } };
-- the batch sizes
local function series_of(result)
  local series, batches, seen, of = {}, {}, {}, {}
  for _, r in ipairs(result.rows) do
    if r.batch and not seen[r.batch] then
      seen[r.batch] = true
      batches[#batches + 1] = r.batch
    end
  end
  table.sort(batches)
  for _, r in ipairs(result.rows) do
    local s = of[r.name]
    if not s then
      local again = #series >= lines
      s = { name = r.name, colour = "line" .. #series % lines, at = {}, dash = again and "5 3" or nil,
        pale = again and 0.5 or nil }
      series[#series + 1], of[r.name] = s, s
    end
    for i, batch in ipairs(batches) do
      if r.batch == batch and r.steps_per_second then s.at[i] = r end
    end
  end
  return series, batches
end

-- A panel: its marks, of from..to between two heights -> a function from values to heights
local function axis(c, top, bottom, from, to, most)
  return c:y_axis { from = from, to = to, top = top, bottom = bottom, left = left, right = wide - right, most = most,
    line = function(v) return { class = v == 0 and "line-dim" or "line-rule" } end }
end

-- Names with their colours, in as many lines as they take -> the height of the last
local function put_legend(c, series, y)
  local entries = {}
  for i, s in ipairs(series) do
    entries[i] = { words = cut(s.name, 60), mark = function(x, at)
      c:path(svg.path("M", x, at - 4, "h", 22), { class = "line-" .. s.colour, ["stroke-width"] = 2.5,
        ["stroke-dasharray"] = s.dash })
    end }
  end
  return c:legend(entries, { left = left, right = wide, y = y, line = 18, letter = letter, room = 48, words_at = 28 })
end

local function rate(r) return r.images_per_second or r.steps_per_second end

-- A strategy's line, with what lies between its least and most, a little beside those of the others.
local function put_series(c, s, y, beside)
  local path, spread, marks = {}, {}, {}
  for i = 1, c.n do
    local r, x = s.at[i], c.x(i) + beside
    if r then
      local images = rate(r) / r.steps_per_second
      path[#path + 1] = svg.path(i > 1 and s.at[i - 1] and "L" or "M", x, y(rate(r)))
      spread[#spread + 1] = svg.path("M", x, y(images * r.least), "V", y(images * r.most))
      marks[#marks + 1] = { x, y(rate(r)), ("%s, batch %d: %.4g steps/s (%.4g .. %.4g)"):format(s.name, r.batch,
        r.steps_per_second, r.least, r.most) }
    end
  end
  c:group({ class = "line-" .. s.colour, fill = "none" }, function()
    c:path(table.concat(path), { ["stroke-width"] = 2, ["stroke-dasharray"] = s.dash })
    c:path(table.concat(spread))
  end)
  c:group({ class = s.colour }, function()
    for _, m in ipairs(marks) do c:circle(m[1], m[2], 3.5, nil, m[3]) end
  end)
end

local function put_lines(c, series, top, bottom)
  local most = 0
  for _, s in ipairs(series) do
    for _, r in pairs(s.at) do most = math.max(most, rate(r) * r.most / r.steps_per_second) end
  end
  if most == 0 then
    c:text(left + 20, (top + bottom) // 2, "no run came to its end")
    return
  end
  local y, apart = axis(c, top, bottom, 0, most * 1.02, 5), math.min(6, c.slot / 2 / #series)
  for k, s in ipairs(series) do put_series(c, s, y, (k - (#series + 1) / 2) * apart) end
end

-- Bars beside each other, each in a place that is so wide; with figures where all of them have room.
local function put_gains(c, series, top, bottom)
  local each = math.min(48, c.slot * 0.85 / (#series - 1))
  local form, low, high, longest = each >= 34 and "%+.1f" or "%+.0f", 0, 1, 0
  local function shown(r) return (r.within_noise and "(" .. form .. ")" or form):format(r.gain_percent) end -- as in the table
  for _, s in ipairs(series) do
    for _, r in pairs(s.at) do
      local gain = r.gain_percent or 0
      low, high, longest = math.min(low, gain), math.max(high, gain), math.max(longest, r.gain_percent and #shown(r) or 0)
    end
  end
  local room = 0.14 * (high - low) -- for a figure
  local y = axis(c, top, bottom, low < 0 and low - room or 0, high + room, 5)
  for k = 2, #series do
    for i, r in pairs(series[k].at) do
      local gain, x = r.gain_percent, c.x(i) + (k - 2 - (#series - 1) / 2) * each
      if gain then
        local a, b = y(math.max(gain, 0)), y(math.min(gain, 0))
        local look = { class = series[k].colour, ["fill-opacity"] = r.within_noise and 0.35 or series[k].pale }
        local what = ("%s, batch %d: %+.1f %%"):format(series[k].name, r.batch, gain)
        c:rect(x + 1, a, each - 2, math.max(b - a, 0.5), look, what)
        if longest * letter <= each then
          c:text(x + each / 2, gain >= 0 and a - 3 or b + 11, shown(r), middle)
        end
      end
    end
  end
end

local function has_gains(series)
  for k = 2, #series do
    for _, r in pairs(series[k].at) do
      if r.gain_percent then return true end
    end
  end
end

return function(result)
  local series, batches = series_of(result)
  local c = svg.canvas()
  c.n, c.slot = #batches, (wide - left - right) / math.max(#batches, 1)
  function c.x(i) return left + (i - 0.5) * c.slot end
  c:text(8, 20, cut(result.script, 90), { class = "ink", ["font-size"] = look.large })
  local legend = put_legend(c, series, 46)
  local top = legend + 34
  local bottom, images = top + 220, result.rows[1] and result.rows[1].batch
  c:text(8, top - 14, images and "images/s" or "steps/s")
  if c.n > 0 then put_lines(c, series, top, bottom) end
  if has_gains(series) then
    top, bottom = bottom + 44, bottom + 44 + 110
    c:text(8, top - 14, ("gain over %s, per cent"):format(cut(series[1].name, 60)))
    put_gains(c, series, top, bottom)
  end
  for i, batch in ipairs(batches) do c:text(c.x(i), bottom + 18, batch, middle) end
  c:text((left + wide - right) / 2, bottom + 36, "batch size", middle)
  return c:document(wide, bottom + 46, { title = result.script, style = true,
    more = { class = "dim", ["font-size"] = look.font } })
end
