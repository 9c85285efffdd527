-- SPDX-License-Identifier: MIT
-- What the program's pictures look like: colours, sizes, how words get into SVG.
local look = {}

-- Fills of boxes. Dark text is read on each of them, and they are told apart on a light page and on a dark one.
look.fills = { "#8ecae6", "#ffb703", "#90be6d", "#f4978e", "#cdb4db", "#d4a373", "#7dd3c0", "#e9d66b", "#b0b8f0", "#e2a0c8" }
look.on_fill = "#1a1a1a"
look.grey = "#767676" -- 4.5 : 1 on white, 4.2 : 1 on GitHub's black

-- By name, on a light page and on a dark one.
look.page = {
  { "page", "#ffffff", "#14171a" }, { "ink", "#1c2024", "#e6e9ec" }, { "dim", "#5c6670", "#9aa4ae" },
  { "rule", "#d8dde2", "#363d44" }, { "card", "#f6f8fa", "#1c2126" }, { "idle", "#e9ecef", "#262c32" },
  { "bad", "#b3261e", "#ff8a80" },
  { "line0", "#2563c4", "#7cb4ff" }, { "line1", "#b45309", "#ffb454" }, { "line2", "#2f7d32", "#86cf8a" },
  { "line3", "#b03a2e", "#ff9587" }, { "line4", "#7a4bb0", "#c9a7ff" }, { "line5", "#6b5b2e", "#d6c48a" },
}

look.width = 800 -- of a picture that is as wide as its page
look.font, look.small, look.large = 11, 10, 14
look.row, look.box = 26, 18 -- heights: of a lane, of a box in it

local escapes = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }
function look.escape(text) return (tostring(text):gsub('[&<>"]', escapes)) end

-- Rules for a light page, and for a dark one: rule(name, colour) of each colour.
local function both(rule, around)
  local parts = { {}, {} }
  for _, c in ipairs(look.page) do
    for i = 1, 2 do table.insert(parts[i], rule(c[1], c[i + 1])) end
  end
  return ("%s\n@media (prefers-color-scheme: dark) { %s }"):format(around:format(table.concat(parts[1])),
    around:format(table.concat(parts[2])))
end

-- For a page: var(--ink) ...
function look.variables()
  return both(function(name, colour) return ("--%s: %s; "):format(name, colour) end, ":root { %s}") .. "\n"
end

-- For a picture by itself: classes ink, page ... that fill, and line-rule ... that draw.
function look.style()
  local function rule(name, colour) return (".%s{fill:%s}.line-%s{stroke:%s}"):format(name, colour, name, colour) end
  return "<style>" .. both(rule, "%s") .. "</style>"
end

-- At most so many letters.
function look.cut(text, most)
  if utf8.len(text) and utf8.len(text) <= most then return text end
  return text:sub(1, (utf8.offset(text, most) or most) - 1) .. "…"
end

return look
