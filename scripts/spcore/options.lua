-- SPDX-License-Identifier: MIT
-- The options that all scripts have, a row each: those of a graph, which the core has rows of (core/graph/option.c),
-- and here the others. --help, the man page, the annotations for editors and the table in docs/lua.md are made of them.
--
-- A row: { default, help, min =, max =, choices =, default = words in place of the default, value = what help calls
-- it, more = what the man page says instead of help (*word* is bold, _word_ italic), groups = words: a script that has
-- no use for one of these has no use for the option, resume = "free": may differ when a run goes on, since it changes
-- no bit of the result, or where that is kept; "session": and is not taken over from the run, since it says how a
-- session is looked at and what it runs on }
local core = require "spcore.core"

local options = {}

-- What a script may lack, in words of sp.args{}, { without = { ... } }.
options.groups = {
  by_hand = "streams by hand",
  run = "`sp.run`",
  training = "training",
  reading = "a reader",
  strategy = "lanes that a strategy makes",
  trace = "traces",
  graph = "`sp.graph`",
}

options.common = {
  device = { "auto", "where to compute: auto (a GPU if there is one), cpu, cuda, cuda:1 ...", value = "NAME",
    more = "Where to compute: *auto* (the first GPU, or the processor where there is none), *cpu*, *cuda* or *cuda:N*. "
      .. "*spcore devices* lists them." },
  precision = { "auto", "of products; auto: tf32 on a GPU, fp32 on the cpu",
    choices = { "auto", "fp32", "tf32", "bf16" },
    more = "What products are computed with: *fp32*, *tf32*, *bf16* (bfloat16 activations and products; weights, their "
      .. "gradients and losses stay float32) or *auto*: tf32 on a GPU, fp32 on the processor, which has no other." },
  strategy = { "serialized", "which stages overlap: a name or a file.lua", value = "NAME|FILE",
    groups = "strategy graph", resume = "free",
    more = "Which stages overlap: a shipped strategy (*spcore strategies* lists them; *auto* measures which is the "
      .. "fastest), or a Lua file." },
  depth = { 1, "how many steps a strategy works ahead", min = 1, groups = "strategy graph", resume = "free" },
  threads = { 0, "threads for arithmetic", default = "all processors", min = 0, max = 1024,
    more = "Threads for arithmetic. Recorded in _settings.json_, because another number may change bits." },
  workers = { 0, "threads that read data", default = "2; on a GPU as many as --threads, but at least 2 and at most 4",
    min = 0, max = 1024, groups = "reading graph", resume = "session" },
  orient = { true, "images and masks are turned upright as EXIF says; --no-orient: as they are stored", groups = "reading graph",
    sets = "reader.orient",
    more = "Images and masks stay as they are stored, whatever the EXIF orientation in their files says: for masks that "
      .. "were drawn on such pixels. Predictions with the run's weights read images in the same way." },
  dtype = { "uint8", "what images are: bytes; uint16: 16 bits kept; float32: numbers as files have them",
    choices = { "uint8", "uint16", "float32" }, groups = "reading graph", sets = "reader.dtype",
    more = "What images are: *uint8*, bytes, to which others are reduced; *uint16*, whole numbers to 65535; *float32*, numbers as "
      .. "their files have them. The network sees float32 in any case." },
  channels = { 0, "of images: 1 is brightness; files must have another number; 4: alpha, or a fourth band, too",
    default = "3, RGB; with --dtype as many as the first file has, without alpha", min = 0, max = 1024, groups = "reading graph",
    sets = "reader.channels" },
  range = { "", "with --dtype: the numbers of files that become 0 and 1", default = "looked for in 64 images, and said",
    value = "LO,HI", groups = "reading graph", sets = "reader.range" },
  nodata = { "", "with --dtype: the number that stands for no data; tag: the one that a TIFF's GDAL tag says", default = "none",
    value = "NUMBER|tag", groups = "reading graph", sets = "reader.nodata" },
  nodata_fill = { "", "with --dtype: the number that NaN, infinite ones and no data become", default = "the lower end of --range",
    value = "NUMBER", groups = "reading graph", sets = "reader.nodata_fill" },
  folders = { "auto", "what subfolders called train, valid, test and the like are: parts of the data, or classes",
    choices = { "auto", "parts", "classes" }, groups = "reading graph", sets = "reader.folders",
    more = "What subfolders called _train_, _valid_, _test_ and the like are: *auto*: parts of the data, and an error where "
      .. "they could be classes, too; *parts*: parts, and other folders are left out; *classes*: classes like any other." },
  val_fraction = { -1.0, "part of the samples for validation", default = "the script's; none where the data say what validates",
    groups = "reading graph", sets = "reader.val_fraction",
    more = "The part of the samples that validates, from 0 to 0.9." },
  folds = { 0, "divide the samples into so many folds, one of which validates", default = "--val-fraction divides them", min = 0,
    max = 1000, groups = "reading graph", sets = "reader.folds", more = "Divide the samples into so many folds, each class by its "
      .. "share. Every sample is in one of them; *--fold* says which one validates." },
  fold = { 0, "which of --folds validates, from 1", default = "none", min = 0, max = 1000, groups = "reading graph",
    sets = "reader.fold" },
  limit = { 0, "read at most so many samples, for a quick try", default = "all", min = 0, groups = "reading graph",
    sets = "reader.limit", more = "Read at most so many samples: the first of a fixed order that depends on their names alone, "
      .. "each class by its share; of data with parts so many of each." },
  mask_name = { "", "how masks are called, * being the stem of the image: '*_mask', or 'img_*=mask_*'",
    default = "of the same stem, or by the one rule that fits them all", value = "PATTERN", groups = "reading graph",
    sets = "reader.mask_name", more = "How masks are called, where * is the stem of the image without its ending, such as _*\\_mask_." },
  mask_folder = { "", "which folder has the masks, where several may: label1, trimaps, SegmentationClassAug",
    default = "the only one", value = "NAME", groups = "reading graph", sets = "reader.mask_folder",
    more = "Which folder has the masks, where several may: of two images a sample _label1_ beside _label2_, of folders within _masks/_ one, "
      .. "of VOC _SegmentationClassAug_." },
  second_name = { "", "of two images a sample in one folder: what names of the first have, and of the second instead: _pre=_post",
    default = "each image is a sample", value = "FIRST=SECOND", groups = "reading graph", sets = "reader.second_name",
    more = "Of two images a sample in one folder: what the names of the first images have, and those of the second ones instead, such as "
      .. "__pre=_post_. Without it each image is a sample." },
  mask_values = { "", "which class a value of the masks is: 0=bg,255=fg; 0-127=bg; #ff0000=fg; 7=ignore; /1000",
    default = "values are the numbers of classes, 255 is no label", value = "VALUE=CLASS,...", groups = "reading graph",
    sets = "reader.mask_values",
    more = "Which class each value of the masks is, such as _0=bg,255=fg_, with ranges (_0-127=bg_), colours (_#ff0000=fg_), and "
      .. "_ignore_ for no label; _/1000_ in front divides values from 1000 on, which are class * 1000 + k. "
      .. "Without classes.txt it names the classes, in this order." },
  map_scale = { "", "of maps such as depth: what numbers of the files are multiplied by: 1/256, 0.001", default = "1", value = "NUMBER",
    groups = "reading graph", sets = "reader.map_scale", more = "Of maps, such as depth: what the numbers of the files are multiplied "
      .. "by, such as _1/256_ (KITTI) or _0.001_ (millimetres to metres)." },
  map_offset = { 0.0, "of maps: added to that", groups = "reading graph", sets = "reader.map_offset" },
  map_nodata = { "", "of maps: the number in the files that says that a pixel has no value; none: each is one",
    default = "a 0 is an error that asks", value = "NUMBER|none", groups = "reading graph", sets = "reader.map_nodata",
    more = "Of maps: the number in the files that says that a pixel has no value, such as _0_; _none_: every number "
      .. "is a value. NaN, infinite numbers and what the GDAL tag of a TIFF says have none in any case." },
  map_range = { "", "of maps: values outside do not count", default = "all count", value = "LO,HI", groups = "reading graph",
    sets = "reader.map_range" },
  columns = { "", "of a .csv file: which column is what: file=path,second=after,label=dx,split=fold", default = "by their names",
    groups = "reading graph", sets = "reader.columns", value = "ROLE=NAME,...",
    more = "Which column of a .csv file is what, such as _file=path,label=dx,split=fold_; _second_ is that of "
      .. "a second image. Names alone are columns of values: classes "
      .. "with 0 and 1, or numbers. A number counts columns from 1; _split=_ has none divide the rows." },
  root = { "", "of a .csv file: the folder in front of its files' names; OLD=NEW: instead of OLD", value = "DIR",
    default = "the .csv file's folder, or the one that has the first file", groups = "reading graph", sets = "reader.root" },
  val_value = { "", "of a .csv file: the values of its column split that validate, with commas between; others train",
    default = "val, valid, dev and the like", groups = "reading graph", sets = "reader.val_value", value = "VALUE,..." },
  missing = { "ask", "labels and numbers that are empty, nan, NA and the like: an error, left out, or the name of a class",
    choices = { "ask", "skip", "class" }, groups = "reading graph", sets = "reader.missing" },
  repeats = { "ask", "files that a .csv file names twice: a notice, with two labels an error; the first counts; each counts",
    choices = { "ask", "once", "keep" }, groups = "reading graph", sets = "reader.repeats" },
  cache_dir = { "", "folder for shards that are fetched from addresses", default = "shards/ in $SPCORE_CACHE, else ~/.cache/spcore/shards",
    value = "DIR", groups = "reading graph", sets = "reader.cache_dir", resume = "free",
    more = "Folder for shards that are fetched from addresses. Runs and ranks share it." },
  cache_size = { "", "bytes of --cache-dir, such as 20G: what was used longest ago and nobody reads is deleted", default = "any",
    value = "SIZE", groups = "reading graph", sets = "reader.cache_size", resume = "free",
    more = "Bytes that *--cache-dir* may have, such as _20G_. What was used longest ago and no process reads is deleted." },
  data_checksums = { "", "file with the SHA-256 of shards at addresses, as sha256sum prints it",
    default = "SHARD.sha256 at the server, where it is", value = "FILE", groups = "reading graph", sets = "reader.data_checksums",
    resume = "free", more = "A file with the SHA-256 of shards at addresses, as _sha256sum_ prints it. Without it _SHARD.sha256_ at the "
      .. "server is taken, where it is." },
  auto_budget = { 4.0, "about how many seconds strategy auto may measure", min = 0.01, max = 3600, value = "SECONDS",
    groups = "strategy graph", resume = "free",
    more = "About how many seconds strategy *auto* may measure. Slow steps run at least a few times each." },
  auto_again = { false, "strategy auto measures again, even if it remembers a choice", groups = "strategy graph",
    resume = "session", more = "Strategy *auto* measures again, even if it remembers a choice." },
  trace = { "", "write what ran when to this file, for Perfetto, chrome://tracing and spcore timeline", value = "FILE",
    groups = "trace graph", resume = "session",
    more = "Write what ran when as JSON for Perfetto, chrome://tracing and *spcore timeline*, and print a table at the "
      .. "end. A thread writes the file after the last of *--trace-steps*; otherwise it is written at the end of "
      .. "the run. It replaces an older file only when it is complete: a run that is killed before then leaves none." },
  trace_steps = { 100, "how many steps are traced, from the end of warm-up on", min = 1, max = 1000000,
    groups = "trace graph", resume = "session",
    more = "How many steps the trace covers: the first after warm-up, or all steps of a shorter run; and the first N "
      .. "of each evaluation between them. It holds at most 100000 slices, about 30 MB, and says what is left out." },
  plugin = { "", "load this stage file.so; may be repeated", list = true, value = "FILE.so", resume = "free",
    more = "Load this plugin. May be repeated." },
  set = { "", "give a stage this parameter, whatever the script says; may be repeated", list = true,
    value = "STAGE.NAME=VALUE", groups = "graph",
    more = "Give the stages of that name or type this parameter, whatever the script says, such as "
      .. "*reader.drop_last=false*. VALUE is a number, *true*, *false*, a table of Lua, or a text. May be repeated." },
  out = { "", "folder of the run", default = "the first of runs/NAME-1, -2 ... that is free", value = "DIR",
    groups = "run", resume = "session",
    more = "Folder of the run, which is empty or not there: one that holds anything is refused, and so is one that another run is "
      .. "writing to." },
  tensorboard = { true, "an event file for TensorBoard in the run's folder; --no-tensorboard: none", groups = "run",
    resume = "free", more = "Write no event file for TensorBoard into the run's folder." },
  log_every = { 1, "TensorBoard gets the scalars of every Nth step", min = 1, max = math.maxinteger,
    groups = "run", resume = "free",
    more = "TensorBoard gets the scalars of every Nth step, and those of all validations. _metrics.jsonl_ has a line "
      .. "for each step in any case." },
  quiet = { false, "print errors and the last line only", resume = "session" },
  explain = { false, "print the schedule and its proof, and stop", groups = "strategy graph", resume = "session",
    more = "Print the lanes, the operations of a tick in the order of execution, and the buffers, of the training and "
      .. "of each evaluation, and stop." },
  debug = { false, "print a traceback with errors", resume = "session" },
  check_races = { false, "check what a script does with streams by hand, and name a wait that is missing",
    groups = "by_hand", resume = "session",
    more = "Check what the script does with streams by hand before it is submitted. Where nothing orders two "
      .. "operations that use the same bytes, the script ends with both operations, their streams, their lines, and "
      .. "the wait that is missing." },
}

-- Of a script that says `checkpoints = true`: its runs can be interrupted and resumed.
options.resuming = {
  resume = { "", "resume the run in this folder, with its options, from its newest checkpoint", value = "RUN",
    resume = "session",
    more = "Resume the run in that folder, with its options, from its newest checkpoint. Weights, and metrics except "
      .. "for times, are those of an uninterrupted run, byte for byte. A damaged checkpoint is named, and the one "
      .. "before it is used; without any the run starts from its beginning. A run that is complete is reported as such." },
  override = { false, "with --resume: accept options that differ from the run's, or another graph", resume = "session",
    more = "With *--resume*: accept options of the command line that differ from the run's, or another graph, and "
      .. "report them." },
  checkpoint_every = { "5m", "save all that --resume needs every N steps, or 90s, 5m, 2h; 0: at a signal and at the end only",
    value = "N|TIME", resume = "free",
    more = "Save all that *--resume* needs every N steps, or every 90s, 5m, 2h; 0: only when a signal or *--max-time* "
      .. "ends the run, and at its end, which is saved in any case. There is at most one checkpoint "
      .. "in *--run-ahead* + 1 steps. The two newest are kept." },
  on_usr = { "end", "at SIGUSR1 and SIGUSR2, as Slurm warns: end: save a checkpoint and end; save: and go on",
    choices = { "end", "save" }, resume = "free",
    more = "What SIGUSR1 and SIGUSR2 do, by which batch systems warn (*sbatch --signal=USR1@120*, submitit): *end*: save a "
      .. "checkpoint and end with status 128 + n, as at a SIGTERM; *save*: save a checkpoint and go on." },
  max_time = { "0", "save a checkpoint and end after 90s, 5m, 2h ...", default = "never", value = "TIME",
    resume = "session", more = "Save a checkpoint and end after 90s, 5m, 2h, with status 0." },
  best_by = { "auto", "the metric of validations that chooses best.safetensors: accuracy, iou, f1, loss ...",
    value = "METRIC",
    more = "The metric of validations that chooses _best.safetensors_: *auto* (*iou*, else *accuracy*, else *map*, "
      .. "else the least *loss*), or another metric of the validations. The least is best of *ece*, *mce*, *mae*, *rmse*, "
      .. "*silog*, *abs_rel*, *sq_rel*, *rmse_log* and where "
      .. "the name ends in *loss*, the one nearest to 0 of *bias*." },
  patience = { 0, "end after N validations without an improvement by --best-by", default = "never", min = 0,
    more = "End the run, as one that is complete, after N validations of which none improved on the best one by "
      .. "*--best-by*." },
  min_delta = { 0.0, "with --patience: an improvement is larger than this", min = 0.0,
    more = "With *--patience*: a validation counts as an improvement if it is better by more than this." },
}

-- What scripts of their own may have, which changes no bit, either.
local of_scripts = { pictures = "free", cache = "free" }

options.graph = {} -- the core's rows, in order
for _, row in ipairs(core.rows "graph") do
  options.graph[#options.graph + 1] = row
  options.common[row.name] = row
end
options.lane = {}
for _, row in ipairs(core.rows "lane") do
  options.lane[#options.lane + 1] = row
  options.lane[row.name] = row
end
options.stage = core.rows "stage" -- of g.NAME{ ... }: what the host keeps
local shards = options.common.shards -- the core has 0 for it
shards[1], shards.min = core.env().ranks, 1
options.common.depth.max = options.lane.delay.max

local function is_of(row, group) return (" " .. (row.groups or "") .. " "):find(" " .. group .. " ", 1, true) ~= nil end

options.reading = {} -- the names of those that a reader gets as its parameters where the script does not give them
for name, row in pairs(options.common) do
  if row.sets == "reader." .. name and name ~= "orient" then options.reading[#options.reading + 1] = name end
end
table.sort(options.reading)

-- Of what args.parse gave: the names of those to which the script has given a meaning of its own. No reader gets them.
options.apart = setmetatable({}, { __mode = "k" })

-- What another graph takes over of `opt`, so that its readers read the same; into t.
function options.reading_of(opt, t)
  local apart = options.apart[opt] or {}
  for _, name in ipairs(options.reading) do
    if not apart[name] then t[name] = opt[name] end
  end
  t.orient = opt.orient
  return t
end

-- What of sp.graph{ ... } has a row.
options.of_graph = {}
for name, row in pairs(options.common) do
  if is_of(row, "graph") then options.of_graph[name] = row end
end
for _, row in ipairs(options.graph) do options.of_graph[row.name] = row end
for _, name in ipairs { "device", "precision", "threads" } do options.of_graph[name] = options.common[name] end
options.of_graph.set = nil -- the command line's alone
options.of_graph.strategy = nil -- may also be a function or lanes: see spcore.strategy

-- The names of the common options that a word of `without` leaves out; nil: there is no such word. Without a graph
-- there is no run, either.
function options.named(word)
  if not options.groups[word] then return options.common[word] and { word } end
  local names = {}
  for name, row in pairs(options.common) do
    if is_of(row, word) or word == "graph" and is_of(row, "run") then names[#names + 1] = name end
  end
  return names
end

-- "free", "session" or nil, see above.
function options.resume(name)
  local row = options.common[name] or options.resuming[name]
  return row and row.resume or of_scripts[name]
end

-- The value that a table has of a row, or its default. Raises where it is of another type, or outside of its range.
function options.checked(where, row, name, value)
  local first = row[1]
  if value == nil then return first end
  local wanted = type(first)
  if type(value) ~= wanted then
    local words = { boolean = "true or false", string = "a string", number = options.range(row) }
    core.fail(("%s: '%s' must be %s, got a %s"):format(where, name, words[wanted], type(value)))
  end
  if row.choices then
    for _, word in ipairs(row.choices) do
      if word == value then return value end
    end
    core.fail(("%s: %s '%s': choose one of %s"):format(where, name, value, table.concat(row.choices, ", ")))
  end
  if wanted ~= "number" then return value end
  local number = value
  if math.type(first) == "integer" then number = math.tointeger(value) end
  if not number or row.min and not (number >= row.min) or row.max and not (number <= row.max) then
    core.fail(("%s: '%s' must be %s, got %s"):format(where, name, options.range(row), tostring(value)))
  end
  return number
end

-- "a whole number from 0 to 64"
function options.range(row)
  local text = math.type(row[1]) == "integer" and "a whole number" or "a number"
  if row.max and row.max < math.maxinteger then return ("%s from %s to %s"):format(text, row.min, row.max) end
  return row.min and ("%s of at least %s"):format(text, row.min) or text
end

return options
