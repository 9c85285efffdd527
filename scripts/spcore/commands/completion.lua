-- SPDX-License-Identifier: MIT
-- spcore completion: what a shell needs to complete a command line, and what may stand where: all of it comes from the help of
-- commands and scripts, which is read as it is printed.
local sp = require "spcore"
local core = require "spcore.core"
local sys = require "spcore.sys"

local program = assert(sys.realpath "/proc/self/exe")

-- What this program prints with these words.
local function output(...)
  local command = {}
  for i, word in ipairs { program, ... } do command[i] = "'" .. word:gsub("'", "'\\''") .. "'" end
  local pipe = io.popen(table.concat(command, " ") .. " 2>/dev/null </dev/null")
  local text = pipe and pipe:read "a" or ""
  if pipe then pipe:close() end
  return text
end

-- A help text -> its options: [name] = { value = what stands behind it, nil of a flag; doc = }
local function options_in(text, into)
  for line, below in text:gmatch "([^\n]+)\n?()" do
    local left, doc = line:match "^  (%-%-.-)  +(.*)$"
    if not left then left, doc = line:match "^  (%-%-.*)$", text:match("^   +([^\n]+)", below) end
    if left then
      local name, value = left:match "^(%S+) ?(.*)$"
      into[name] = into[name] or { value = value ~= "" and value or nil, doc = doc or "" }
    end
  end
  return into
end

-- The commands, with what each says of itself.
local function commands()
  local list, names = {}, {}
  for name, doc in output("--help"):gmatch "\n  (%l+)  +([^\n]+)" do
    list[#list + 1] = name .. "\t" .. doc
    names[name] = true
  end
  list[#list + 1] = "help\tthe options of a command"
  return list, names
end

-- ---- words that a place takes ----

local function decoded(...) return sp.json.decode(output(...)) or {} end

local function named(list)
  local out, seen = {}, {}
  for _, t in ipairs(list or {}) do
    if not seen[t.name] then out[#out + 1] = t.name .. "\t" .. (t.doc or "") end
    seen[t.name] = true
  end
  return out
end

local script_dirs = { sp.script_dir, sp.script_dir .. "/examples" } -- in which a name is looked for

local function scripts()
  local list = {}
  for _, dir in ipairs(script_dirs) do
    for _, name in ipairs(sys.list(dir) or {}) do
      if name:find "%.lua$" then list[#list + 1] = name end
    end
  end
  table.sort(list)
  list[#list + 1] = ":files lua"
  return list
end

local function devices()
  local list = { "auto", "cpu" }
  for _, name in ipairs(sys.list(core.env().plugin_dir) or {}) do list[#list + 1] = name:match "^device_(%l+)%.so$" end
  return list
end

-- Of the stages in the plugin files that the line names.
local function parameters(words)
  local list = {}
  for _, word in ipairs(words) do
    local stage = word:match "([^/]+)%.so$"
    local about = stage and decoded("inspect", stage, "--json", "--plugin", word) or {}
    for _, p in ipairs((about[1] or about).params or {}) do -- a list where there is one for a GPU, too
      list[#list + 1] = p.name .. "=\t" .. (p.doc or "")
    end
  end
  return list
end

-- Behind a comma a list goes on with what it has not yet.
local function behind_commas(list, value)
  local front = value:match "^.*," or ""
  for i, word in ipairs(list) do
    if word:sub(1, 1) ~= ":" then list[i] = front .. word end
  end
  return list
end

-- What an option is given, or what stands where the usage has this word.
local function values(kind, option, words)
  if option == "--strategy" then
    local list = named(decoded("strategies", "--json"))
    list[#list + 1] = ":files lua"
    return words[1] == "bench" and behind_commas(list, words[#words]) or list
  end
  if option == "--device" then return devices() end
  if option == "--set" then return parameters(words) end
  if kind == "SCRIPT" then return scripts() end
  if kind == "STAGE" then return named(decoded("inspect", "--json").stages) end
  if kind == "MODEL" then return { table.unpack(sp.models.names) } end
  if kind == "RUN" or kind == "DIR" then return { ":dirs" } end
  local list = {}
  for word in kind:gmatch "[^|]+" do list[#list + 1] = not word:find "^%u+$" and word or nil end -- FILE and DIR stand for others
  if #list > 1 then return list end
  local ending = kind:match "^FILE%.(%l+)"
  if ending then return { ":files " .. ending } end
  return kind:find "^%u%f[,|%z]" and {} or { ":files" } -- N, or X,X
end

-- ---- the line ----

-- Its words without those that bash makes of "=".
local function plain(line)
  local words = {}
  for i, word in ipairs(line) do
    if word ~= "=" then words[#words + 1] = word elseif i == #line then words[#words + 1] = "" end
  end
  return words
end

-- A script that takes options says so; another is not run for its help.
local function takes_options(script)
  local paths = { script, script .. ".lua" }
  for _, dir in ipairs(script_dirs) do
    paths[#paths + 1] = dir .. "/" .. script
    paths[#paths + 1] = dir .. "/" .. script .. ".lua"
  end
  for _, path in ipairs(paths) do
    local file = sys.kind(path) == "file" and io.open(path)
    if file then
      local text = file:read "a"
      file:close()
      return text:find "%.args%f[^%w_]" ~= nil
    end
  end
end

-- Its options as they are before the last word, whether that is a value of the last option, and how many plain words there are.
local function read_line(words, help)
  local options, waits, plain_words = options_in(help, {}), nil, 0
  local script_at = help:match "^usage:[^\n]*SCRIPT" and 1
  for i = 2, #words - 1 do
    local word, option = words[i], options[words[i]]
    if waits then waits = nil
    elseif word:sub(1, 1) == "-" then waits = option and option.value and word
    else
      plain_words = plain_words + 1
      if plain_words == script_at then
        if words[1] ~= "bench" then options = {} end -- what follows is the script's
        if takes_options(word) then options_in(output("run", word, "--help"), options) end
      end
    end
  end
  return options, waits, plain_words
end

local function option_names(options)
  local list = {}
  for name, option in pairs(options) do list[#list + 1] = name .. "\t" .. option.doc end
  table.sort(list)
  return list
end

local function candidates(line)
  local words = plain(line)
  local list, known = commands()
  if #words <= 1 then
    table.move({ "--help\tthe commands", "--version\tversion, ABI and how it was built" }, 1, 2, #list + 1, list)
    return list
  end
  if words[1] == "help" then return #words == 2 and list or {} end
  if not known[words[1]] then return {} end
  local help = output(words[1], "--help")
  local options, waits, n = read_line(words, help)
  local last = words[#words]
  local name, value = last:match "^(%-%-[^=]+)=(.*)$"
  if name and options[name] and options[name].value then
    words[#words] = value
    return values(options[name].value, name, words)
  end
  if waits then return values(options[waits].value, waits, words) end
  if last:sub(1, 1) == "-" then return option_names(options) end
  local places = {}
  local usage = help:match "^usage: spcore %l+ ([^\n]*)":gsub("%[[%l' ]+%]", "")
  for word in usage:gmatch "[^%s%[%]]+" do places[#places + 1] = word end
  local kind = places[n + 1] or (places[1] and usage:find "%.%.%." and places[#places])
  if kind or n == 0 then return kind and values(kind, nil, words) or {} end
  return usage:find "SCRIPT" and { ":files" } or {}
end

-- Those that begin as the last word does.
local function print_words(line)
  local last = line[#line] or ""
  last = last == "=" and "" or last:match "^%-%-[^=]+=(.*)$" or last
  for _, word in ipairs(candidates(line)) do
    if word:sub(1, 1) == ":" or word:sub(1, #last) == last then io.stdout:write(word, "\n") end
  end
end

local line = core.argv()
if line[1] == "words" then
  print_words { table.unpack(line, 2) }
  sp.exit(0)
end

local opt = sp.args({}, {
  rest = "bash|zsh", only = { "debug" },
  doc = "Prints what the shell needs to complete command lines of spcore. In ~/.bashrc: source <(spcore completion bash); in "
    .. "~/.zshrc, behind compinit: source <(spcore completion zsh). An installed spcore needs neither.",
})
local shells = { bash = "spcore", zsh = "_spcore" }
local file = shells[opt.rest[1]]
if not file or opt.rest[2] then sp.usage("one of bash, zsh is wanted") end
local text, why = io.open(sp.shipped("completion/" .. file))
if not text then sp.fail(why) end
io.stdout:write(text:read "a")
