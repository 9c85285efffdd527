-- SPDX-License-Identifier: MIT
-- What `spcore bench` measured as a picture: throughput over batch sizes, a line for each strategy with its least and most;
-- below it the gain over the first strategy. Batch sizes stand at equal distances, points of one beside each other.
local plot = require "spcore.plot"

local escape = plot.escape

-- 3 : 1 and more on a white page and on a dark one.
local colours = { "#3d85c6", "#d9730d", "#3a9a4b", "#d1495b", "#9a6fc9", "#1b979e", "#a1783c", "#c9559a" }
local grey = "#767676"
local wide, left, right, letter = 760, 64, 16, 6.2 -- letter: about the width of one

local function short(text, columns)
  if (utf8.len(text) or #text) <= columns then return text end
  return text:sub(1, (utf8.offset(text, columns - 2) or columns) - 1) .. "..."
end

-- Rows as series: { name =, colour =, dash =, at = the row of each batch size's number }; the batch sizes
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
      local dash = #series >= #colours and ' stroke-dasharray="5 3"' or ""
      s = { name = r.name, colour = colours[#series % #colours + 1], dash = dash, at = {} }
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
  local function y(v) return bottom - (v - from) / (to - from) * (bottom - top) end
  for _, v in ipairs(plot.ticks(from, to, most)) do
    c.put('<path d="M%d %.1fH%d" stroke="%s" stroke-width="%s"/>', left, y(v), wide - right, grey, v == 0 and "1" or "0.4")
    c.put('<text x="%d" y="%.1f" text-anchor="end">%s</text>', left - 8, y(v) + 4, plot.number(v))
  end
  return y
end

-- Names with their colours, in as many lines as they take -> the height behind them
local function put_legend(c, series, y)
  local x = left
  for _, s in ipairs(series) do
    local name = short(s.name, 60)
    local width = 30 + letter * (utf8.len(name) or #name) + 18
    if x > left and x + width > wide then x, y = left, y + 18 end
    c.put('<path d="M%.1f %dh22" stroke="%s" stroke-width="2.5"%s/>', x, y - 4, s.colour, s.dash)
    c.put('<text x="%.1f" y="%d">%s</text>', x + 28, y, escape(name))
    x = x + width
  end
  return y
end

local function rate(r) return r.images_per_second or r.steps_per_second end

-- A strategy's line, with what lies between its least and most, a little beside those of the others.
local function put_series(c, s, y, beside)
  local path, spread, marks = {}, {}, {}
  for i = 1, c.n do
    local r, x = s.at[i], c.x(i) + beside
    if r then
      local images = rate(r) / r.steps_per_second
      path[#path + 1] = ("%s%.1f %.1f"):format(i > 1 and s.at[i - 1] and "L" or "M", x, y(rate(r)))
      spread[#spread + 1] = ("M%.1f %.1fV%.1f"):format(x, y(images * r.least), y(images * r.most))
      local title = ("%s, batch %d: %.4g steps/s (%.4g .. %.4g)"):format(escape(s.name), r.batch, r.steps_per_second, r.least,
        r.most)
      marks[#marks + 1] = ('<circle cx="%.1f" cy="%.1f" r="3.5"><title>%s</title></circle>'):format(x, y(rate(r)), title)
    end
  end
  c.put('<g stroke="%s" fill="none"><path d="%s" stroke-width="2"%s/><path d="%s"/></g>', s.colour, table.concat(path), s.dash,
    table.concat(spread))
  c.put('<g fill="%s">%s</g>', s.colour, table.concat(marks, "\n"))
end

local function put_lines(c, series, top, bottom)
  local most = 0
  for _, s in ipairs(series) do
    for _, r in pairs(s.at) do most = math.max(most, rate(r) * r.most / r.steps_per_second) end
  end
  if most == 0 then
    c.put('<text x="%d" y="%d">no run came to its end</text>', left + 20, (top + bottom) // 2)
    return
  end
  local y, apart = axis(c, top, bottom, 0, most * 1.02, 5), math.min(6, c.slot / 2 / #series)
  for k, s in ipairs(series) do put_series(c, s, y, (k - (#series + 1) / 2) * apart) end
end

-- Bars beside each other, each in a place that is so wide; with figures where all of them have room.
local function put_gains(c, series, top, bottom)
  local each = math.min(40, c.slot * 0.85 / (#series - 1))
  local form, low, high, longest = each >= 34 and "%+.1f" or "%+.0f", 0, 1, 0
  for _, s in ipairs(series) do
    for _, r in pairs(s.at) do
      local gain = r.gain_percent or 0
      low, high, longest = math.min(low, gain), math.max(high, gain), math.max(longest, #form:format(gain))
    end
  end
  local room = 0.14 * (high - low) -- for a figure
  local y = axis(c, top, bottom, low < 0 and low - room or 0, high + room, 5)
  for k = 2, #series do
    for i, r in pairs(series[k].at) do
      local gain, x = r.gain_percent, c.x(i) + (k - 2 - (#series - 1) / 2) * each
      if gain then
        local a, b = y(math.max(gain, 0)), y(math.min(gain, 0))
        c.put('<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"><title>%s, batch %d: %+.1f %%</title></rect>', x + 1,
          a, each - 2, math.max(b - a, 0.5), series[k].colour, escape(series[k].name), r.batch, gain)
        if longest * letter <= each then
          c.put('<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>', x + each / 2, gain >= 0 and a - 3 or b + 11,
            form:format(gain))
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
  local c = { out = {}, n = #batches, slot = (wide - left - right) / math.max(#batches, 1) }
  function c.put(...) c.out[#c.out + 1] = string.format(...) end
  function c.x(i) return left + (i - 0.5) * c.slot end
  local legend = put_legend(c, series, 46)
  local top = legend + 34
  local bottom, images = top + 220, result.rows[1] and result.rows[1].batch
  c.put('<text x="8" y="%d">%s</text>', top - 14, images and "images/s" or "steps/s")
  if c.n > 0 then put_lines(c, series, top, bottom) end
  if has_gains(series) then
    top, bottom = bottom + 44, bottom + 44 + 110
    c.put('<text x="8" y="%d">gain over %s, per cent</text>', top - 14, escape(short(series[1].name, 60)))
    put_gains(c, series, top, bottom)
  end
  for i, batch in ipairs(batches) do
    c.put('<text x="%.1f" y="%d" text-anchor="middle">%d</text>', c.x(i), bottom + 18, batch)
  end
  c.put('<text x="%.1f" y="%d" text-anchor="middle">batch size</text>', (left + wide - right) / 2, bottom + 36)
  local high = bottom + 46
  local head = ('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" '
    .. 'font-size="11" fill="%s">\n<title>%s</title>\n<text x="8" y="20" font-size="12" font-weight="bold">%s</text>\n'):format(
    wide, high, wide, high, grey, escape(result.script), escape(short(result.script, 100)))
  return head .. table.concat(c.out, "\n") .. "\n</svg>\n"
end
