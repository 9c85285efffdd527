-- SPDX-License-Identifier: MIT
-- spcore bench: a script in several strategies and at several batch sizes, in turns, so that what a machine does meanwhile is
-- shared by all of them.
local sp = require "spcore"
local bench = require "spcore.bench"
local core = require "spcore.core"
local sys = require "spcore.sys"

local opt = sp.args({
  strategy = { "serialized,pipelined", "strategies with commas between; gains are over the first" },
  batch = { "", "batch sizes with commas between", default = "the script's own" },
  ["repeat"] = { 3, "turns", min = 1, max = 1000 },
  skip = { 0, "first steps of each run that are left out", default = "a tenth, at least 3", min = 0 },
  against = { "", "a command that runs in the same turns and prints its steps/s; {batch} in it is the batch size" },
  csv = { "", "write the table to this file" },
  json = { "", "write what each run measured to this file" },
  svg = { "", "write a picture to this file: throughput and gain over batch sizes" },
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
  local file, why = io.open(opt[name] ~= "" and opt[name] or "/dev/null", "a")
  if not file then sp.usage("--%s: %s", name, why) end
  file:close()
end

local dir = assert(sys.mkdtemp())
local clean <close> = setmetatable({}, { __close = function() sys.run { "rm", "-rf", dir } end })
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

-- Once -> false where a signal ended it
local function run(row)
  local out, err = dir .. "/out", dir .. "/err"
  row.command.out, row.command.err = out, err
  local ended, code = sys.run(row.command)
  if not ended and not code then return false end
  local got, why
  if ended == "exit" and code == 0 then
    if row.twin then got, why = bench.of_text(bench.read(out)) else got, why = bench.of_run(dir .. "/run", how) end
  else
    why = ended and bench.last_line(bench.read(err)) or code
    if why == "" then why = ended == "exit" and "exit code " .. code or "killed by signal " .. code end
  end
  if got then table.insert(row.runs, got) else table.insert(row.failures, why) end
  sys.run { "rm", "-rf", dir .. "/run" }
  return true, got, why
end

local function turns(bar)
  for turn = 1, opt["repeat"] do
    for i = 1, #rows do
      local row = rows[turn % 2 == 1 and i or #rows + 1 - i]
      local there, got, why = run(row)
      if not there or core.interrupted() then return end
      bar:step { bench.title(row), got and ("%.2f steps/s"):format(got.rate) or why }
    end
  end
end

for _, row in ipairs(rows) do row.runs, row.failures = {}, {} end
local words = table.concat(opt.rest, " ")
sp.print("%s: %d strateg%s, %d batch size%s%s, %d turn%s", words, #strategies, #strategies == 1 and "y" or "ies", #batches,
  #batches == 1 and "" or "s", how.mean and ", and " .. bench.name_of(opt.against) or "", opt["repeat"],
  opt["repeat"] == 1 and "" or "s")
do
  local bar <close> = sp.progress { total = #rows * opt["repeat"], every = 1, unit = "run" }
  turns(bar)
end

local result = bench.result(rows, { script = words, turns = opt["repeat"], mean = how.mean })
sp.print("%s", bench.table(result))
if opt.csv ~= "" then sp.write_file(opt.csv, bench.csv(result)) end
if opt.json ~= "" then sp.write_file(opt.json, sp.json.encode(result, true) .. "\n") end
if opt.svg ~= "" then sp.write_file(opt.svg, (require "spcore.bench_svg")(result)) end
for _, row in ipairs(result.rows) do
  if row.failed > 0 and not core.interrupted() then sp.exit(1) end
end
