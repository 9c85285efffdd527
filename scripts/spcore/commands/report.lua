-- SPDX-License-Identifier: MIT
-- spcore report: a run's folder as one page, or several runs side by side.
local sp = require "spcore"
local compare = require "spcore.report.compare"
local files = require "spcore.files"
local findings = require "spcore.report.findings"
local page = require "spcore.report.page"
local read = require "spcore.report.read"
local samples = require "spcore.report.samples"
local sys = require "spcore.sys"
local trace = require "spcore.report.trace"

local opt = sp.args({
  out = { "", "file to write", value = "FILE", default = "RUN/report.html; of several runs compare.html in the first one's folder" },
  trace = { "", "trace of the run, for stages, overlap and a timeline", default = "what the run was given as --trace" },
  json = { false, "print the figures and the findings as one JSON document, and write no page" },
  follow = { false, "write it again each 10 seconds while the run is under way; the page reads itself again" },
}, {
  rest = "RUN...", doc = "Writes what a run's folder says as one page: findings, curves, classes, samples, speed, memory, options. "
    .. "Of several runs: what differs between them, their curves in one plot, figures side by side.",
  only = { "debug", "quiet" },
})

if #opt.rest == 0 then sp.usage "the folder of a run is wanted; several are compared" end
if opt.json and (opt.follow or opt.out ~= "") then sp.usage "--json: goes with neither --out nor --follow" end

if #opt.rest > 1 and opt.follow then sp.usage "--follow: goes with one run" end
if #opt.rest > 1 and opt.trace ~= "" then sp.usage "--trace: goes with one run" end

local EACH = 10 -- seconds

local function read_run()
  local run, why = read.run(opt.rest[1])
  if not run then sp.fail(why) end
  run.trace, run.samples = trace(run, opt.trace), samples(run.dir)
  return run, findings.of(run)
end

-- A pipe, or a link such as /dev/stdout: what it leads to is written, and it is not replaced.
local function in_place(path)
  if not sys.there(path) then return false end
  local parent, name = path:match "^(.*/)([^/]*)$"
  local real, folder = sys.realpath(path), sys.realpath(parent or ".")
  return sys.kind(path) ~= "file" or real ~= folder:gsub("/$", "") .. "/" .. (name or path)
end

-- Under another name first: who reads the page while it is written sees the old one. What fails leaves nothing of that name.
local function write(path, text)
  if in_place(path) then return files.write(path, text) end
  local new = path .. ".new"
  local ok, why = pcall(files.write, new, text)
  if ok then
    ok, why = os.rename(new, path)
    why = not ok and ("%s: %s"):format(path, why)
  end
  if ok then return end
  os.remove(new)
  error(why, 0)
end

local function check_file(path)
  if sys.kind(path) == "dir" then
    sp.usage("%s is a folder; --out names a file, such as %s/report.html", path, path:gsub("/+$", ""))
  end
end

-- Several: the same from each, then beside each other.
local function compare_runs()
  local runs, seen = {}, {}
  for i, dir in ipairs(opt.rest) do
    local run, why = read.run(dir)
    if not run then sp.fail(why) end
    if seen[run.dir] then sp.usage("%s is named twice", run.dir) end
    runs[i], seen[run.dir] = run, true
  end
  if opt.json then
    local told = { runs = sp.json.list {}, differences = sp.json.list(compare.differences(runs)),
      figures = sp.json.list(compare.figures(runs)) }
    for i, run in ipairs(runs) do told.runs[i] = run.dir end
    for _, list in ipairs { told.differences, told.figures } do
      for _, one in ipairs(list) do
        for i = 1, #runs do
          if one.values[i] == nil then one.values[i] = 0 / 0 end -- null
        end
        one.values, one.words = sp.json.list(one.values), nil
      end
    end
    print(sp.json.encode(told))
    return
  end
  local path = opt.out ~= "" and opt.out or runs[1].dir .. "/compare.html"
  check_file(path)
  write(path, compare.page(runs))
  if sys.is_stdout(path) then return end
  sp.print("%s", compare.table(runs))
  sp.print("%s", path)
end

if #opt.rest > 1 then return compare_runs() end
local run, found = read_run()
if opt.json then
  local curves = {}
  for _, name in ipairs(run.curves) do curves[name] = sp.json.list(run.curves[name]) end
  local validations = {}
  for _, name in ipairs(run.validations) do validations[name] = sp.json.list(run.validations[name]) end
  print(sp.json.encode({
    run = run.dir, state = run.state, steps = run.steps, planned = run.planned, seconds = run.seconds, images = run.images,
    resumed = run.resumed, speed = run.speed, slowest = run.slowest, curves = curves, validations = validations, summary = run.summary,
    settings = run.settings, samples = run.samples and run.samples.told, findings = sp.json.list(found),
    trace = run.trace and { file = run.trace.path, figures = run.trace.figures, calls = sp.json.list(run.trace.calls) },
  }))
  return
end

local path = opt.out ~= "" and opt.out or run.dir .. "/report.html"
check_file(path)
repeat
  local again = opt.follow and run.state == "under way"
  write(path, page.of(run, found, again and EACH))
  if again then sys.sleep(EACH) end -- which a signal ends
  if again and not sp.interrupted() then run, found = read_run() end
until not again or sp.interrupted()
if sp.interrupted() then write(path, page.of(run, found)) end -- which nobody writes again
if sys.is_stdout(path) then return end -- the page alone
sp.print("%s: %s, %d step%s, %d finding%s", path, run.state, run.steps, run.steps == 1 and "" or "s", #found,
  #found == 1 and "" or "s")
for _, f in ipairs(found) do sp.print("%s %s", f.text, f.cure) end
