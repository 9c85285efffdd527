-- SPDX-License-Identifier: MIT
-- JSON: encode(value), list(table), decode(text).
local core = require "spcore.core"

local json = {}

local escapes = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

local function quote(s)
  if not utf8.len(s) then s = s:gsub("[\x80-\xff]", "?") end
  return '"' .. s:gsub('[%c"\\\127]', function(c) return escapes[c] or ("\\u%04x"):format(c:byte()) end) .. '"'
end

-- The shortest text that reads back the same; infinities, for which JSON has no number, become strings.
local function number(v)
  if math.type(v) == "integer" then return ("%d"):format(v) end
  if v ~= v then return "null" end
  if v == math.huge then return '"inf"' end
  if v == -math.huge then return '"-inf"' end
  for digits = 6, 17 do
    local s = ("%." .. digits .. "g"):format(v)
    if tonumber(s) == v then return s end
  end
end

local list = {}

-- Marks a table as a list, which is then [] where it is empty; returns it.
function json.list(t)
  if type(t) ~= "table" then core.fail(("sp.json.list(t): a table is wanted, got a %s"):format(type(t))) end
  return setmetatable(t, list)
end

local put

-- The shape that g:weight and others give with n values: it is left out.
local function is_shape(key, shape, n)
  if key ~= "shape" or type(shape) ~= "table" then return false end
  local count = 1
  for i = 1, #shape do count = math.type(shape[i]) == "integer" and count * shape[i] or -1 end
  return count == n
end

-- Refuses what JSON has no place for: keys beside the items, items that are missing.
local function check_list(v, n)
  for k in next, v do
    local item = math.type(k) == "integer" and k >= 1 and k <= n
    if not item and not is_shape(k, v[k], n) then
      core.fail(("JSON: a list of %d item%s has the key '%s' as well"):format(n, n == 1 and "" or "s", tostring(k)))
    end
  end
  for i = 1, n do
    if rawget(v, i) == nil then core.fail(("JSON: item %d of a list of %d is nil"):format(i, n)) end
  end
end

local function put_list(out, v, depth)
  local n, count = #v, 0
  for _ in next, v do count = count + 1 end
  if count ~= n then check_list(v, n) end
  out[#out + 1] = "["
  for i = 1, n do
    if i > 1 then out[#out + 1] = "," end
    if v[i] == nil then check_list(v, n) end -- beside as many keys
    put(out, v[i], depth)
  end
  out[#out + 1] = "]"
end

local function put_object(out, v, depth, indent)
  local keys = {}
  for k in pairs(v) do
    if type(k) ~= "string" then
      core.fail(("JSON: the key '%s', a %s, in a table that is no list"):format(tostring(k), type(k)))
    end
    keys[#keys + 1] = k
  end
  table.sort(keys)
  local pad = indent and "\n" .. ("  "):rep(depth) or ""
  out[#out + 1] = "{"
  for i, k in ipairs(keys) do
    out[#out + 1] = (i > 1 and "," or "") .. pad .. quote(k) .. (indent and ": " or ":")
    put(out, v[k], depth, indent)
  end
  out[#out + 1] = (indent and #keys > 0 and "\n" .. ("  "):rep(depth - 1) or "") .. "}"
end

function put(out, v, depth, indent)
  local t = type(v)
  if depth > 64 then core.fail "JSON: nested deeper than 64" end
  if t == "table" then
    if #v > 0 or getmetatable(v) == list then put_list(out, v, depth + 1) else put_object(out, v, depth + 1, indent) end
  elseif t == "string" then
    out[#out + 1] = quote(v)
  elseif t == "number" then
    out[#out + 1] = number(v)
  elseif t == "boolean" then
    out[#out + 1] = tostring(v)
  elseif v == nil then
    out[#out + 1] = "null"
  else
    core.fail(("JSON: a %s cannot be written"):format(t))
  end
end

-- One line; with `indent` objects are laid out. Keys are sorted; an empty table is an object, unless it is
-- marked as a list.
function json.encode(v, indent)
  local out = {}
  put(out, v, 0, indent)
  return table.concat(out)
end

-- ---- reading ----

local plain = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ['"'] = '"', ["\\"] = "\\", ["/"] = "/" }

local function bad(s, at, what)
  local line = select(2, s:sub(1, at - 1):gsub("\n", "")) + 1
  error({ json = ("line %d: %s"):format(line, what) }, 0)
end

local function unescape(s, at, body)
  local i, out = 1, {}
  while i <= #body do
    local c = body:sub(i, i)
    if c ~= "\\" then
      local j = body:find("\\", i, true) or #body + 1
      out[#out + 1] = body:sub(i, j - 1)
      i = j
    else
      local e = body:sub(i + 1, i + 1)
      if e == "u" then
        local code = tonumber(body:match("^%x%x%x%x", i + 2) or bad(s, at, "a broken \\u escape"), 16)
        i = i + 6
        if code >= 0xD800 and code < 0xDC00 then
          local low = tonumber(body:match("^\\u(%x%x%x%x)", i) or "0", 16)
          if low < 0xDC00 or low > 0xDFFF then bad(s, at, "half a surrogate pair") end
          code = 0x10000 + (code - 0xD800) * 0x400 + (low - 0xDC00)
          i = i + 6
        end
        out[#out + 1] = utf8.char(code)
      else
        out[#out + 1] = plain[e] or bad(s, at, "an unknown escape")
        i = i + 2
      end
    end
  end
  return table.concat(out)
end

local function read_string(s, at)
  local i = at + 1
  while true do
    local j = s:find('["\\]', i)
    if not j then bad(s, at, "a string without end") end
    if s:sub(j, j) == '"' then return unescape(s, at, s:sub(at + 1, j - 1)), j + 1 end
    i = j + 2
  end
end

local read
local NAN <const> = 0 / 0 -- what null is in a list, as encode has it: without a value it would shorten the list

local function skip(s, at)
  return s:find("[^ \t\r\n]", at) or #s + 1
end

local function read_members(s, at, close, member, depth)
  local t = {}
  if depth > 64 then bad(s, at, "nested deeper than 64") end
  at = skip(s, at + 1)
  if s:sub(at, at) == close then return t, at + 1 end
  while true do
    at = skip(s, member(t, skip(s, at)))
    local c = s:sub(at, at)
    if c == close then return t, at + 1 end
    if c ~= "," then bad(s, at, ("',' or '%s' is missing"):format(close)) end
    at = at + 1
  end
end

function read(s, at, depth)
  local c = s:sub(at, at)
  if c == "{" then
    return read_members(s, at, "}", function(t, i)
      if s:sub(i, i) ~= '"' then bad(s, i, "a name in quotes is missing") end
      local key, value
      key, i = read_string(s, i)
      i = skip(s, i)
      if s:sub(i, i) ~= ":" then bad(s, i, "':' is missing") end
      value, i = read(s, skip(s, i + 1), depth + 1)
      t[key] = value
      return i
    end, depth)
  elseif c == "[" then
    local n = 0
    local t, behind = read_members(s, at, "]", function(t, i)
      local value
      value, i = read(s, i, depth + 1)
      n = n + 1
      if value == nil then value = NAN end
      t[n] = value
      return i
    end, depth)
    return setmetatable(t, list), behind
  elseif c == '"' then
    return read_string(s, at)
  end
  for word, value in pairs { ["true"] = true, ["false"] = false } do
    if s:sub(at, at + #word - 1) == word then return value, at + #word end
  end
  if s:sub(at, at + 3) == "null" then return nil, at + 4 end
  local text = s:match("^-?%d+%.?%d*[eE]?[+-]?%d*", at)
  local v = text and tonumber(text)
  if not v or text:find "^%-?0%d" or text:find(".", 1, true) and not text:find "%.%d" then bad(s, at, "no value") end
  return v, at + #text
end

-- decode(text) -> value | nil, message. Lists are marked as such; null is nan in them, in objects it is left out.
function json.decode(s)
  if type(s) ~= "string" then core.fail(("sp.json.decode(text): a text is wanted, got a %s"):format(type(s))) end
  local ok, v, at = pcall(read, s, skip(s, 1), 1)
  if not ok then
    if type(v) == "table" and v.json then return nil, v.json end
    error(v, 0)
  end
  if skip(s, at) <= #s then return nil, "something follows the value" end
  return v
end

-- read(path) -> value | nil, message
function json.read(path)
  if type(path) ~= "string" then core.fail(("sp.json.read(path): a text is wanted, got a %s"):format(type(path))) end
  local file, why = io.open(path, "rb")
  if not file then return nil, why end
  local text = file:read("a")
  file:close()
  if not text then return nil, path .. ": cannot be read" end
  local v, message = json.decode(text)
  if message then return nil, path .. ": " .. message end
  return v
end

return json
