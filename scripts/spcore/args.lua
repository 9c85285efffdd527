-- SPDX-License-Identifier: MIT
-- The command line of a script: its own options and those common to all scripts.
local core = require "spcore.core"
local devices = require "spcore.device"
local rows = require "spcore.options"
local set = require "spcore.set"
local sides = require "spcore.sides"
local sys = require "spcore.sys"
local words = require "spcore.words"

local common = rows.common

local function dashed(name)
  return "--" .. name:gsub("_", "-")
end

-- A command of the program is a script, too.
local function command_name()
  return core.env().script:match "/spcore/commands/([^/]*)%.lua$"
end

local function script_name()
  return command_name() or core.env().script:match("[^/]*$")
end

local args = {}
local parsed = { __index = function(t, key) words.unknown("no option", key, t) end }

-- Ends the program with exit code 2 and this line: the command line makes no sense. Of several ranks the first one says so: they
-- have the same.
function args.usage(fmt, ...)
  if core.env().rank == 0 then core.log("error", ("%s: " .. fmt):format(script_name(), ...)) end
  core.exit(2)
end

local usage = args.usage

-- Is this option on the command line?
function args.is_given(name)
  for _, given in ipairs(args.given) do
    if given == name then return true end
  end
  return false
end

-- "N", "X", "TEXT", "a|b" or nil for a flag
local function placeholder(option)
  local default = option[1]
  if type(default) == "boolean" then return nil end
  if option.choices then return table.concat(option.choices, "|") end
  if option.value then return option.value end
  return type(default) == "string" and "TEXT" or math.type(default) == "integer" and "N" or "X"
end

local function check_option(name, option, given)
  if not name:match("^%l[%l%d_]*$") then
    core.fail(("option '%s': names are made of small letters, digits and _"):format(name))
  end
  if type(option) ~= "table" or option[1] == nil or (option[2] ~= nil and type(option[2]) ~= "string") then
    core.fail(("option '%s': write { default, \"what it is\" }"):format(name))
  end
  local t = type(option[1])
  if t ~= "boolean" and t ~= "number" and t ~= "string" then
    core.fail(("option '%s': the default is a %s, not a number, string or boolean"):format(name, t))
  end
  if option.instead_of ~= nil and not (type(option.instead_of) == "string" and option.instead_of ~= name) then
    core.fail(("option '%s': 'instead_of' is the name of another option"):format(name))
  end
  if option.sets ~= nil and not (type(option.sets) == "string" and option.sets:match "^[%w_]+%.[%w_]+$") then
    core.fail(("option '%s': 'sets' is the parameter that it gives, such as \"reader.classes\""):format(name))
  end
  if option.default ~= nil and type(option.default) ~= "string" then
    core.fail(("option '%s': 'default' is what help says in place of the default, got a %s"):format(name,
      type(option.default)))
  end
  if option.value ~= nil and type(option.value) ~= "string" then
    core.fail(("option '%s': 'value' is what help calls the value, such as FILE, got a %s"):format(name,
      type(option.value)))
  end
  if name == "help" or name == "rest" then core.fail(("option '%s' has a meaning of its own"):format(name)) end
  local base = given and common[name]
  if base and (base.list or type(base[1]) ~= t) then
    core.fail(("option '%s' is common to all scripts; its default is a %s"):format(name, type(base[1])))
  end
  if t == "number" and base and (option[1] < (option.min or base.min) or option[1] > (option.max or base.max)) then
    core.fail(("option '%s' is common to all scripts; its default must be %s, got %s"):format(name, rows.range(base),
      tostring(option[1])))
  end
end

-- The script's options over the common ones. A script may give a common option another default.
local function merge(spec, more)
  local options = {}
  for name, option in pairs(common) do options[name] = option end
  for name, option in pairs(more) do options[name] = option end
  for name, option in pairs(spec) do
    if type(name) ~= "string" then core.fail("args: options have names, got a key of type " .. type(name)) end
    check_option(name, option, true)
    local base = common[name] or {}
    options[name] = {
      option[1], option[2] or base[2] or "", own = true, default = option.default,
      min = option.min or base.min, max = option.max or base.max, choices = option.choices or base.choices,
      value = option.value or base.value, instead_of = option.instead_of, sets = option.sets, sides = option.sides,
    }
  end
  return options
end

-- The options of the script that are called like one of a reader, and say in words of their own what they are: `channels` of a
-- network is not that of images.
local function apart_of(spec)
  local apart = {}
  for _, name in ipairs(rows.reading) do apart[name] = spec[name] and spec[name][2] and not spec[name].sets or nil end
  return apart
end

-- The common options that are named in `without`, alone or as a group, are neither listed nor taken; they keep their
-- defaults. Where there is `only`, it names those that are.
local function leave_out(options, without, only)
  local known, kept = {}, {}
  if only then
    without = {}
    for _, name in ipairs(only) do kept[name] = common[name] or words.unknown("args: 'only' knows no", name, common) end
    for name in pairs(common) do without[#without + 1] = not kept[name] and name or nil end
  end
  for _, word in ipairs(without) do
    local names = rows.named(word)
    if not names then
      for name in pairs(common) do known[name] = true end
      for name in pairs(rows.groups) do known[name] = true end
      words.unknown("args: 'without' knows no", word, known)
    end
    for _, name in ipairs(names) do
      if not options[name].own then options[name] = { common[name][1], list = common[name].list, unused = true } end
    end
  end
end

local left_most = 22 -- columns; an option that takes more has a line of its own

local function default_of(option)
  if option.default then return (" (%s)"):format(option.default) end
  return (type(option[1]) == "boolean" or option[1] == "") and "" or (" (%s)"):format(option[1])
end

local function help_of(title, options, own, columns)
  local lines, width = {}, 1
  for _, name in ipairs(words.keys(options)) do
    local option = options[name]
    if (option.own or false) == own and not option.unused then
      local left = dashed(name) .. (placeholder(option) and " " .. placeholder(option) or "")
      if option[1] == true then left = dashed("no_" .. name) end
      lines[#lines + 1] = { left, option[2] .. default_of(option) }
      if #left <= left_most then width = math.max(width, #left) end
    end
  end
  if #lines == 0 then return end
  print("\n" .. title)
  for _, line in ipairs(lines) do
    local long = #line[1] > width
    if long then print("  " .. line[1]) end
    print(words.wrap(("  %-" .. width .. "s  %s"):format(long and "" or line[1], line[2]), columns, width + 4))
  end
end

local function print_help(options, how)
  core.only_prints()
  local name, columns = script_name(), sys.isatty "stdout" and sys.width "stdout" or 80
  print(("usage: spcore %s%s [options]%s"):format(command_name() and "" or "run ", name, how.rest and " " .. how.rest or ""))
  if how.doc then print(words.wrap(how.doc, columns, 0)) end
  help_of("options of " .. name .. ":", options, true, columns)
  help_of("common options:", options, false, columns)
  if not options.comm.unused then print "\nand --ranks N and --comm-timeout S, of spcore run itself: spcore run --help" end
end

-- "96x128" -> { 96, 128 }, of which each is in the range
local function convert_sides(name, option, text)
  local out = {}
  for i, word in ipairs { text:match "^(%d+)x(%d+)$" } do
    local n = math.tointeger(tonumber(word))
    if not n or n < option.min or n > option.max then
      usage("%s %s: a side must be from %d to %d", dashed(name), text, option.min, option.max)
    end
    out[i] = n
  end
  return out[1] and sides.pack(out[1], out[2])
end

local function convert(name, option, text)
  local default, value = option[1], text
  local pair = option.sides and convert_sides(name, option, text)
  if pair then return pair end
  if type(default) == "number" then
    value = tonumber(text)
    if value and math.type(default) == "integer" then
      value = math.tointeger(value)
      if not value then usage("%s takes a whole number, got '%s'", dashed(name), text) end
    elseif not value or value ~= value then
      usage("%s takes a number%s, got '%s'", dashed(name), option.sides and " or HEIGHTxWIDTH" or "", text)
    else
      value = value + 0.0
    end
    if (option.min and value < option.min) or (option.max and value > option.max) then
      usage("%s %s: the value must be %s%s", dashed(name), text,
        option.min and "at least " .. option.min or "",
        option.max and option.max < math.maxinteger
          and (option.min and " and " or "") .. "at most " .. option.max or "")
    end
  elseif option.choices then
    local known = false
    for _, c in ipairs(option.choices) do known = known or c == text end
    if not known then
      usage("%s %s: choose one of %s%s", dashed(name), text, table.concat(option.choices, ", "),
        words.near(text, option.choices))
    end
  end
  return value
end

local function check_device(name)
  local found, why = devices.find(name)
  return found or usage("--device %s: %s", name, why)
end

local function unknown(arg, options)
  local names = { "--help" }
  for name, option in pairs(options) do
    if not option.unused then names[#names + 1] = dashed(name) end
    if not option.unused and type(option[1]) == "boolean" then names[#names + 1] = dashed("no_" .. name) end
  end
  table.sort(names)
  usage("unknown option '%s'%s (--help lists all)", arg, words.near(arg, names))
end

-- One option at argv[i]; returns the index of the last argument it used, or nil where it is none of these options and
-- `others` may be there.
local function take(opt, options, argv, i, given, others)
  local word, value = argv[i]:match("^%-%-([^=]+)=(.*)$")
  word = word or argv[i]:sub(3)
  local name = word:gsub("-", "_")
  local option, flag = options[name], true
  if not option and name:match("^no_") and options[name:sub(4)] and type(options[name:sub(4)][1]) == "boolean" then
    name, flag = name:sub(4), false
    option = options[name]
  end
  if others and (not option or option.unused) then return end
  if not option then unknown("--" .. word, options) end
  if option.unused then usage("--%s: this script has no use for it (--help lists all)", word) end
  given[name] = true
  if type(option[1]) == "boolean" then
    if value then usage("%s takes no value: write %s or %s", dashed(name), dashed(name), dashed("no_" .. name)) end
    opt[name] = flag
    return i
  end
  if not value then
    i = i + 1
    value = argv[i] or usage("%s needs a value", dashed(name))
  end
  if option.list then
    table.insert(opt[name], value)
  else
    opt[name] = convert(name, option, value)
  end
  return i
end

-- Ends with the new command where the line has an option that a script of its own took over: moved = { name = script }.
local function check_moved(moved, argv)
  for i, arg in ipairs(argv) do
    local script = moved[arg:match "^%-%-([%w-]+)$" or ""]
    if script then
      local command = { "spcore run " .. script }
      for k, word in ipairs(argv) do command[#command + 1] = k ~= i and words.quoted(word) or nil end
      usage("'%s' is a script of its own; run it instead: %s", arg:sub(3), table.concat(command, " "))
    end
  end
end

-- Of two options of which one stands in place of the other only one may be there.
local function check_pairs(options, given)
  for name, option in pairs(options) do
    if option.instead_of and given[name] and given[option.instead_of] then
      usage("%s stands in place of %s: give one of them", dashed(name), dashed(option.instead_of))
    end
  end
end

local function check_resuming(opt, given)
  for _, name in ipairs { "checkpoint_every", "max_time" } do
    local steps, _, why = (require "spcore.checkpoint").interval(opt[name])
    if name == "max_time" and (steps or why) then why = ("'%s': a time such as 90s, 5m, 2h is wanted"):format(opt[name]) end
    if why then usage("%s %s", dashed(name), why) end
  end
  if opt.override and opt.resume == "" then usage "--override goes with --resume" end
  if given.min_delta and opt.patience == 0 then usage "--min-delta goes with --patience" end
end

-- As rank 0 reads them: other hosts may not have the folder.
local function settings_of(dir)
  local json = require "spcore.json"
  local told = (require "spcore.ranks").told(function()
    local settings, why = (require "spcore.resume").settings(dir)
    return json.encode { settings = settings, why = why }
  end)
  told = json.decode(told)
  return told.settings, told.why
end

local function differ(a, b)
  if type(a) == "table" and type(b) == "table" then return table.concat(a, "\n") ~= table.concat(b, "\n") end
  return a ~= b
end

local function word(option, v) return option.sides and sides.text(v) or v end

-- The options of the run that goes on, where the command line has none; what it has and the run had not is refused, or with
-- --override said.
local function take_over(opt, options, given)
  local dir = opt.resume:gsub("(.)/+$", "%1")
  local settings, why = settings_of(dir)
  if not settings then usage("--resume %s: %s", opt.resume, why) end
  if given.out then usage("--resume %s: the run has its folder; leave --out away", opt.resume) end
  if settings.script:match "[^/]*$" ~= script_name() then
    usage("--resume %s: it is a run of %s", opt.resume, settings.script:match "[^/]*$")
  end
  opt.resume = dir
  local changed = {}
  for name, option in pairs(options) do
    local old = settings.options[name]
    if old == nil or rows.resume(name) == "session" or name == "depth" and given.strategy then goto continue end
    if math.type(option[1]) == "float" and type(old) == "number" then old = old + 0.0 end
    local pair = option.sides and type(old) == "table" and sides.valid(old)
    if type(old) ~= (option.list and "table" or type(option[1])) and not pair then
      usage("--resume %s: settings.json: %s is a %s", opt.resume, name, type(old))
    end
    local mine = given[name] or given[option.instead_of] -- then this one is not in its place any more
    local now = words.bare(opt[name]) -- as the settings have it
    if mine and differ(now, old) then
      changed[#changed + 1] = { name, word(option, old), word(option, now), free = rows.resume(name) ~= nil }
    elseif not mine or now == opt[name] then opt[name] = old end
    ::continue::
  end
  table.sort(changed, function(a, b) return a[1] < b[1] end)
  for _, c in ipairs(changed) do
    if not opt.override and given[c[1]] and not c.free then
      usage("--resume %s: %s was %s and is %s; leave it away, or take --override", opt.resume, dashed(c[1]), c[2], c[3])
    end
  end
  args.changed = changed
  local from, here = settings.folder, sys.realpath "."
  if type(from) ~= "string" or from == here then return end
  for _, name in ipairs { "data", "val", "encoder", "weights", "backbone" } do
    local path = not given[name] and options[name] and opt[name]
    local made_up = path == "shapes" or path == "random"
    if type(path) == "string" and path:find "^[^/]" and not made_up and not sys.kind(path) and sys.kind(from .. "/" .. path) then
      usage("--resume %s: its %s %s is relative to the folder in which the run began; resume it there: cd '%s'", opt.resume,
        dashed(name), path, from)
    end
  end
end

-- parse({ name = { default, "doc" } }, { rest = "IMAGE...", doc = "what the script does", without = { "run" } }) -> values
-- by name. Types follow from the defaults; an option's default = "words" are what help says in place of the value, and
-- instead_of = "NAME" is the option in whose place it stands: both together are refused; sides = true: it takes HEIGHTxWIDTH, too; sets =
-- "STAGE.NAME" is the parameter that it gives, so that a stage's message which speaks of that proposes this option.
-- Arguments that are no options are in `rest`, if the script wants any, with others = true also options that are not its own.
-- moved = { NAME = SCRIPT }: options that another script took over; the line that says so has its command.
-- Wrong use ends the program with exit code 2.
function args.parse(spec, how)
  how = how or {}
  words.check_keys("args", how, { rest = true, doc = true, without = true, only = true, checkpoints = true, others = true, moved = true })
  local options, opt, rest, given = merge(spec or {}, how.checkpoints and rows.resuming or {}), {}, {}, {}
  leave_out(options, how.without or {}, how.only)
  for name, option in pairs(options) do
    opt[name] = option[1]
    if option.list then opt[name] = {} end
  end
  if command_name() then core.only_prints() end
  local argv, i, plain = core.argv(), 1, false
  check_moved(how.moved or {}, argv)
  while i <= #argv do
    local arg = argv[i]
    if plain or not arg:match("^%-.") then
      if not how.rest then usage("unexpected argument '%s'; options begin with --", arg) end
      rest[#rest + 1] = arg
    elseif arg == "--" then
      plain = true
    elseif arg == "--help" or arg == "-h" then
      print_help(options, how)
      core.exit(0)
    elseif arg:sub(1, 2) == "--" then
      local last = take(opt, options, argv, i, given, how.others)
      if not last then rest[#rest + 1] = arg end
      i = last or i
    else
      unknown(arg, options)
    end
    i = i + 1
  end
  check_pairs(options, given)
  if not options.device.unused then opt.device = check_device(opt.device) end
  if given.resume and opt.resume == "" then usage "--resume: the folder of a run is wanted" end
  if how.checkpoints and opt.resume ~= "" then take_over(opt, options, given) end
  if how.checkpoints then
    check_resuming(opt, given)
    core.warnings_save(opt.on_usr == "save")
  end
  if how.rest then opt.rest = rest end
  if opt.debug then core.set_debug(true) end
  if opt.quiet then core.log_level("error") end
  if not options.set.unused then
    core.cure_option()
    for name, option in pairs(options) do
      if option.sets then core.cure_option(option.sets, dashed(name)) end
    end
    local ok, why = set.parse(opt.set)
    if not ok then usage("%s", why) end
  end
  if opt.threads > 0 then core.set_threads(opt.threads) end
  require "spcore.progress".quiet = opt.quiet or core.env().rank > 0
  for _, path in ipairs(opt.plugin) do
    local ok, why = core.load_plugin(path)
    if not ok then usage("--plugin: %s", why) end
  end
  if given.comm then -- with one rank, which has no use for it, too
    local ok, why = core.knows_comm(opt.comm)
    if not ok then usage("--comm: %s", why) end
  end
  rows.apart[opt] = apart_of(spec or {})
  args.last, args.given = setmetatable(opt, parsed), words.keys(given)
  return opt
end

-- Whether it is what parse gave, and not a script's own table.
function args.is_options(opt)
  return getmetatable(opt) == parsed
end

return args
