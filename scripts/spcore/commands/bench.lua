-- SPDX-License-Identifier: MIT
-- spcore bench: a script in several strategies and at several batch sizes, in turns, so that what a machine does meanwhile is
-- shared by all of them.
local sp = require "spcore"
local bench = require "spcore.bench"
local core = require "spcore.core"
local sys = require "spcore.sys"

local opt = sp.args({
  strategy = { "serialized,pipelined", "strategies with commas between; gains are over the first", value = "NAME,..." },
  batch = { "", "batch sizes with commas between", default = "the script's own", value = "N,..." },
  ["repeat"] = { 3, "turns", min = 1, max = 1000 },
  skip = { 0, "first steps of each run that are left out", default = "a tenth, at least 3", min = 0 },
  against = { "", "a command that runs in the same turns and prints its steps/s; {batch} in it is the batch size", value = "COMMAND" },
  csv = { "", "write the table to this file", value = "FILE" },
  json = { "", "write what each run measured to this file", value = "FILE" },
  svg = { "", "write a picture to this file: throughput and gain over batch sizes", value = "FILE.svg" },
}, {
  rest = "SCRIPT [the script's options]", others = true, only = { "debug" },
  doc = "Runs a script in each strategy and at each batch size, in turns, and prints steps/s. Options that are not listed here "
    .. "are the script's; what follows -- is, too.",
})

local script, options = opt.rest[1], { table.unpack(opt.rest, 2) }
if not script or script:sub(1, 1) == "-" then sp.usage("a script is wanted first, such as: spcore bench train_seg.lua") end

-- "a,b" -> { "a", "b" }; a word that is there twice, or is none, is refused.
local function list(name, convert)
  local words, seen = {}, {}
  for word in (opt[name] .. ","):gmatch "([^,]*)," do
    local v = convert(word)
    if v == nil then sp.usage("--%s %s: '%s' is none", name, opt[name], word) end
    if seen[v] then sp.usage("--%s %s: '%s' is there twice", name, opt[name], word) end
    words[#words + 1], seen[v] = v, true
  end
  return words
end

local strategies = list("strategy", function(word) return word ~= "" and word or nil end)
local batches = opt.batch == "" and { false } or list("batch", function(word)
  local n = math.tointeger(tonumber(word))
  return n and n > 0 and n or nil
end)
local by_batch = opt.against:find("{batch}", 1, true)
if opt.against ~= "" and #batches > 1 and not by_batch then sp.usage "--against: {batch} is missing in the command" end
if by_batch and not batches[1] then sp.usage "--against: which {batch}? take --batch" end

for _, name in ipairs { "csv", "json", "svg" } do -- better now than after an hour
  local path = opt[name] ~= "" and opt[name] or "/dev/null"
  local there = sys.there(path)
  local file, why = io.open(path, "a")
  if not file then sp.usage("--%s: %s", name, why) end
  file:close()
  if not there then os.remove(path) end
end

local dir = assert(sys.mkdtemp())
local clean <close> = setmetatable({}, { __close = function() sys.remove_all(dir) end })
local program = assert(sys.realpath "/proc/self/exe")

-- What is compared, in the order of the first turn.
local rows = {}
for _, batch in ipairs(batches) do
  for _, strategy in ipairs(strategies) do
    local command = { program, "run", script, table.unpack(options) }
    for _, word in ipairs { "--strategy", strategy, "--quiet", "--out", dir .. "/run" } do command[#command + 1] = word end
    if batch then table.move({ "--batch", tostring(batch) }, 1, 2, #command + 1, command) end
    rows[#rows + 1] = { name = strategy, batch = batch, command = command }
  end
  if opt.against ~= "" then
    local text = opt.against:gsub("{batch}", tostring(batch))
    rows[#rows + 1] = { name = bench.name_of(opt.against), batch = batch, command = { "sh", "-c", text }, twin = true }
  end
end

local how = { skip = opt.skip, mean = opt.against ~= "" }

-- Once -> false where a signal ended it; else true, what it measured | true, nil, why not
local function run(row)
  local out, err = dir .. "/out", dir .. "/err"
  row.command.out, row.command.err = out, err
  local ended, code = sys.run(row.command)
  if not ended and not code then return false end
  local got, why, least
  if ended == "exit" and code == 0 then
    if row.twin then got, why = bench.of_text(bench.read(out)) else got, why, least = bench.of_run(dir .. "/run", how) end
  else
    why = ended and bench.last_line(bench.read(err)) or code
    if why == "" then why = ended == "exit" and "exit code " .. code or "killed by signal " .. code end
  end
  if got then table.insert(row.runs, got) else
    table.insert(row.failures, why)
    row.usage, row.least = least ~= nil or ended == "exit" and code == 2, least
  end
  sys.remove_all(dir .. "/run")
  return true, got, why
end

-- Where every first run fails in the same way no other would do better: that is said in one line, and nothing before it.
local function refuse()
  local first = rows[1]
  for _, row in ipairs(rows) do
    if row.least and first.least and row.least > first.least then first = row end
  end
  local why = first.failures[1]
  for _, row in ipairs(rows) do
    if not (row.least and first.least) and row.failures[1] ~= why then return end
  end
  if first.usage then sp.usage("%s", why) end
  core.log("error", "bench: " .. why)
  sp.exit(1)
end

local words = table.concat(opt.rest, " ")

local function turns()
  local failed, bar = 0, nil
  local function begin() -- late, so that a mistake is told alone; runs that failed until then are in the table
    sp.print("%s: %d strateg%s, %d batch size%s%s, %d turn%s", words, #strategies, #strategies == 1 and "y" or "ies", #batches,
      #batches == 1 and "" or "s", how.mean and ", and " .. bench.name_of(opt.against) or "", opt["repeat"],
      opt["repeat"] == 1 and "" or "s")
    bar = sp.progress { total = #rows * opt["repeat"], first = failed, every = 1, unit = "run" }
  end
  local ended <close> = setmetatable({}, { __close = function() return bar and bar:close() end })
  for turn = 1, opt["repeat"] do
    for i = 1, #rows do
      local row = rows[turn % 2 == 1 and i or #rows + 1 - i]
      local there, got, why = run(row)
      if not there or core.interrupted() then return bar or begin() end
      if got and not bar then begin() end
      if bar then bar:step { bench.title(row), got and ("%.2f steps/s"):format(got.rate) or why } else failed = failed + 1 end
    end
    if not bar then
      refuse()
      return begin()
    end
  end
end

for _, row in ipairs(rows) do row.runs, row.failures = {}, {} end
turns()

local result = bench.result(rows, { script = words, turns = opt["repeat"], mean = how.mean })
sp.print("%s", bench.table(result))
if opt.csv ~= "" then sp.write_file(opt.csv, bench.csv(result)) end
if opt.json ~= "" then sp.write_file(opt.json, sp.json.encode(result, true) .. "\n") end
if opt.svg ~= "" then sp.write_file(opt.svg, (require "spcore.bench_svg")(result)) end
for _, row in ipairs(result.rows) do
  if row.failed > 0 and not core.interrupted() then sp.exit(1) end
end
