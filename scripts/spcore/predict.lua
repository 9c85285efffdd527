-- SPDX-License-Identifier: MIT
-- What predict_seg.lua and predict_cls.lua share: the run whose weights they take, the images, and those that cannot be read.
local args = require "spcore.args"
local backbone = require "spcore.backbone"
local core = require "spcore.core"
local json = require "spcore.json"
local numbers = require "spcore.numbers"
local outputs = require "spcore.outputs"
local pictures = require "spcore.pictures"
local progress = require "spcore.progress"
local rebuilt = require "spcore.rebuilt"
local sides = require "spcore.sides"
local sys = require "spcore.sys"
local twos = require "spcore.twos"

local predict = {}

local JSON <const> = '{"classes":' -- how a document of predictions begins
local SHOWN = 20 -- images that cannot be read, by name on the terminal

-- Why a run's folder has no weights of that kind, and what to do. summary: of a run that has ended.
local function why_none(run, best, summary, script)
  local other = sys.there(("%s/%s.safetensors"):format(run, best and "weights" or "best"))
  if summary and not summary.weights then return "its run has ended, and was one that keeps none: sp.run { weights = false }" end
  local instead = not other and "" or best and "; leave --best out" or "; take --best"
  if summary and (not best or summary.best) then return "it has been removed since its run ended" .. instead end
  if best then return ("its run has made no validation that was the best%s%s"):format(summary and "" or " so far", instead) end
  return ("its run has not ended; go on with: spcore run %s --resume %s%s"):format(script, run, other and ", or take --best" or "")
end

local function file_of(opt, script)
  local name = opt.best and "best.safetensors" or "weights.safetensors"
  if sys.there(opt.weights .. "/" .. name) then return opt.weights .. "/" .. name end
  local summary = json.read(opt.weights .. "/summary.json")
  args.usage("%s has no %s: %s", opt.weights, name, why_none(opt.weights, opt.best, type(summary) == "table" and summary,
    script))
end

-- A file of weights stands for the run that it lies in.
local function to_folder(opt, script)
  local kind = sys.kind(opt.weights)
  if not kind then args.usage("--weights %s: there is no such folder", opt.weights) end
  if kind == "dir" then
    if sys.there(opt.weights .. "/settings.json") then return end
    args.usage("--weights %s: it holds no run, as it has no settings.json; the folder of a run of %s is wanted", opt.weights, script)
  end
  local dir, name = opt.weights:match "^(.-)/*([^/]*)$"
  if dir == "" then dir = opt.weights:sub(1, 1) == "/" and "/" or "." end
  if not sys.there(dir .. "/settings.json") then
    args.usage("--weights %s: a file, and no settings.json beside it; the folder of a run of %s is wanted", opt.weights, script)
  end
  if name ~= "best.safetensors" and (name ~= "weights.safetensors" or opt.best) then
    args.usage("--weights %s: of a run the weights of its end are taken (--weights %s), or with --best those of its best validation",
      opt.weights, dir)
  end
  opt.weights, opt.best = dir, name == "best.safetensors"
end

-- run{ weights = RUN, best = false } -> the model that settings.json describes, the file of its weights. Stages of one's own are
-- loaded from where the run had them, unless the command line names plugins.
function predict.run(opt)
  local settings, why = json.read(opt.weights .. "/settings.json")
  if not settings then args.usage("%s", why) end
  local model = type(settings.model) == "table" and settings.model or {}
  local encoder = type(model.encoder) == "table" and model.encoder or {}
  encoder.levels, encoder.depth = encoder.levels or encoder.depth, nil -- as runs before 0.16 of the ABI called it
  -- images are read as those of its training
  if type(settings.options) == "table" and settings.options.orient == false then opt.orient = false end
  local plugins = type(settings.options) == "table" and settings.options.plugin
  if type(plugins) == "table" and #(opt.plugin or {}) == 0 then
    for _, path in ipairs(plugins) do
      local ok, words = core.load_plugin(path)
      if not ok then
        args.usage("%s was made with --plugin %s: %s; give it from where it is now, --plugin FILE", opt.weights, path, words)
      end
    end
  end
  return model, file_of(opt, type(settings.script) == "string" and settings.script or "SCRIPT")
end

-- Does settings.json describe a model that segments, or one that classifies?
local function described(model, seg, map)
  if (model.target == "map") ~= (map == true) then return false end
  local known = type(model.backbone) == "table"
  if not sides.valid(model.size) or not (known or type(model.encoder) == "table") then return false end
  if seg and not known then return type(model.decoder) == "table" end
  return math.type(model.classes) == "integer" and (model.head ~= nil) == seg
end

-- args(script, spec, doc) -> the options, with those that both scripts have; then as predict.run, of a run of `script`
function predict.args(script, spec, doc)
  spec.weights = { "", "folder of a run of " .. script, value = "RUN" }
  spec.best = { false, "take the weights of the run's best validation, best.safetensors, not the last ones" }
  spec.list = { "", "file with a path on each line, - for the standard input; @FILE among the images is the same", value = "FILE" }
  spec.decode = {
    "full", "scaled: JPEG files much larger than the network's input are decoded smaller: faster, probabilities differ a little",
    choices = { "full", "scaled" },
  }
  spec.orient = { true, "images are turned upright as EXIF says; --no-orient: as they are stored",
    default = "as the run was trained", sets = "image_requests.orient" }
  spec.batch = { 8, "images a step", min = 1, max = 1024 }
  spec.output = { "", "of a run of another script, with several outputs: which one, such as head.logits",
    default = "the only one that fits", value = "STAGE.PORT" }
  local opt = args.parse(spec, {
    rest = "IMAGE|FOLDER|@LIST...", doc = doc,
    without = { "by_hand", "run", "training", "reading", "seed", "auto_budget", "auto_again" },
  })
  outputs.alone()
  if opt.weights == "" then args.usage("--weights RUN is missing: the folder of a run of %s", script) end
  if opt.list ~= "" then table.insert(opt.rest, "@" .. opt.list) end
  if #opt.rest == 0 then args.usage "no image is given" end
  to_folder(opt, script)
  local model, weights = predict.run(opt)
  local seg, map = script ~= "train_cls.lua", script == "train_map.lua"
  if described(model, seg, map) then
    if opt.output ~= "" then args.usage("--output: is for runs of other scripts; a run of %s has one (leave --output out)", script) end
    return opt, model, weights
  end
  local own = script:gsub("train", "predict")
  for _, other in ipairs { "train_cls.lua", "train_seg.lua", "train_map.lua" } do
    if described(model, other ~= "train_cls.lua", other == "train_map.lua") then
      args.usage("%s is a run of %s: spcore run %s --weights %s predicts it", opt.weights, other, (other:gsub("train", "predict")),
        opt.weights)
    end
  end
  model = rebuilt.find(opt.weights, map and "map" or seg and "mask" or "class", opt.output, own)
  if model and map then model.target, model.numbers = "map", { names = { "value" }, mean = { 0.0 }, std = { 1.0 } } end
  if not model then
    args.usage("%s/settings.json describes no model, and there is no network.json: it was made by a script without sp.run{} and "
      .. "g:train{}, or by an old version; run it again", opt.weights)
  end
  return opt, model, weights
end

-- ---- networks of runs, in a graph: bytes of images to logits; `weights` has the names of the run's stages ----

local function with(params, wires)
  for k, v in pairs(params) do wires[k] = v end
  return wires
end

-- reading(model, stage): the parameters of a reader or image_requests, with those of how images were read in training
function predict.reading(model, stage)
  stage.size = model.size
  return with(model.read or {}, stage)
end

local function trained(weights) return { frozen = true, weights = { weights, prefix = "" } } end

function predict.segment(g, image, model, weights)
  if model.net then return rebuilt.make(g, image, model, weights) end
  if model.backbone then return backbone.segment(g, image, model, { encoder = trained(weights), head = trained(weights) }) end
  local x = twos.floats(image, function(one)
    return model.mean and numbers.normalize(g, one, model) or g.to_float { one, scale = model.scale }
  end)
  local features, maps = twos.encode(g, x, model, function(one)
    return g.encoder(with(model.encoder, { one, frozen = true, weights = { weights, prefix = "" } }))
  end)
  return g.decoder(with(model.decoder, { features, skips = maps, frozen = true, weights = { weights, prefix = "" } })).logits
end

function predict.classify(g, image, model, weights)
  if model.net then return rebuilt.make(g, image, model, weights) end
  local x = image
  if model.crop then -- as the validation does: the middle, at the size of training
    x = twos.floats(x, function(one)
      local middle = g.batch_crop { one, size = model.crop }.images[1]
      return not sides.same(model.crop, model.size) and g.resize { middle, size = model.size }.images[1] or middle
    end)
  end
  if model.backbone then return backbone.classify(g, x, model, { encoder = trained(weights), head = trained(weights) }) end
  x = twos.floats(x, function(one) return numbers.normalize(g, one, model, { mean = 0.5, std = 0.25 }) end)
  local features = twos.encode(g, x, model, function(one)
    return g.encoder(with(model.encoder, { one, frozen = true, weights = { weights, prefix = "" } }))
  end)
  return g.classifier { features, model = "pool", classes = model.classes, frozen = true, weights = { weights, prefix = "" } }.logits
end

-- ---- images ----

-- One that cannot be read: counted, the first ones named, all of them in the file.
local function note(bad, why)
  bad.n = bad.n + 1
  if bad.n <= SHOWN then core.log("warn", why) end
  local ok, words = bad.file, nil
  if not ok then bad.file, words = io.open(bad.path, "w") end
  if bad.file then ok, words = bad.file:write((why:gsub("\n", " ")), "\n") end
  if not ok then core.fail(("%s: %s"):format(bad.path, words)) end
end

-- A file that is written as the answers come; what fails names it.
local output = {}
output.__index = output

function output:write(...)
  local ok, why = self.file:write(...)
  if not ok then core.fail(("%s: %s"):format(self.path, why)) end
end

-- An entry of the list `images`: a line of its own.
function output:add(entry)
  self:write(self.n > 0 and ",\n" or "", json.encode(entry))
  self.n = self.n + 1
end

function output:close()
  if self.json then self:write "\n]}\n" end
  local ok, why = self.file:close()
  if not ok then core.fail(("%s: %s"):format(self.path, why)) end
end

-- Ends the program where the file --out, a document or one that begins with `head`, is another program's.
function predict.check_file(path, head) outputs.check_file(path, head or JSON) end

-- The same of a folder of which `names` will be written, or removed, beside predictions.json: who has written those has that, too.
function predict.check_folder(dir, names)
  local doc = dir .. "/predictions.json"
  outputs.check_file(doc, JSON)
  if sys.kind(doc) then return end
  for _, name in ipairs(names) do
    local path = dir .. "/" .. name
    local kind = sys.kind(path)
    if kind and not (kind == "dir" and #(sys.names(path) or {}) == 0) then
      args.usage("--out %s: %s is there without predictions.json beside it, so this script did not write it; name another folder",
        dir, path)
    end
  end
end

-- output(g, path) -> a text file of what g gives; json(g, path, names) -> a JSON document, {"classes":[...],"images":[ENTRY, ...]}.
-- A file that is there stays where g only shows its schedule.
function predict.output(g, path)
  g:_apply()
  local file, why = io.open(path, "w")
  if not file then core.fail(why) end
  return setmetatable({ path = path, file = file, n = 0, json = false }, output)
end

function predict.json(g, path, names)
  local self = predict.output(g, path)
  self.json = true
  self:write(JSON, json.encode(json.list(names)), ',"images":[\n')
  return self
end

-- The classes' names, their numbers where the model has none.
function predict.class_names(model, classes)
  local names = {}
  for i = 1, classes do names[i] = model.class_names and model.class_names[i] or tostring(i - 1) end
  return names
end

-- images(opt, bad, names) -> what each() reads; bad: the file that names the images that cannot be read, gone where there are none;
-- names: whether each is to have a name of its own; two: a sample has two images
function predict.images(opt, bad, names, two)
  local next_image, total
  if two then next_image, total = twos.pictures(opt.rest, names) else next_image, total = pictures(opt.rest, { names = names }) end
  return { next = next_image, total = total, batch = total and math.min(opt.batch, total) or opt.batch,
    bad = { path = bad, n = 0, file = nil } }
end

-- Runs g over the images: take(answer) for each, in order; the answer of one that cannot be read has an `error`. Returns how
-- many the others are.
function predict.each(g, images, take)
  local done, bad = 0, images.bad
  os.remove(bad.path) -- of another run
  do
    local bar <close> = progress.new { total = images.total, unit = "image" }
    local failed -- why a window of the image has no answer
    for answer in g:answers(images.next) do
      local window = answer.request.window
      answer.error = failed or answer.error
      failed = window and not window.is_last and answer.error or nil
      if not window or window.is_last then
        if not answer.error then done = done + 1
        elseif not core.interrupted() then note(bad, answer.error) end
        if not answer.error or not core.interrupted() then take(answer) end
        bar:step()
      end
    end
  end
  local closed, why = true, nil
  if bad.file then closed, why = bad.file:close() end
  if not closed then core.fail(("%s: %s"):format(bad.path, why)) end
  return done
end

-- The script's last words, and its end: 1 where images are left out.
function predict.finish(images, done, what, ...)
  local bad = images.bad
  if bad.n > SHOWN then core.log("warn", ("and %d more, see %s"):format(bad.n - SHOWN, bad.path)) end
  if core.interrupted() then core.exit(128 + core.interrupted()) end
  if done + bad.n == 0 then core.fail "no image was named" end
  if done == 0 then progress.print("nothing is predicted")
  else progress.print("%s of %d image%s", what:format(...), done, done == 1 and "" or "s") end
  if bad.n == 0 then return end
  core.log("warn", ("%d of %d images could not be read; they are named in %s"):format(bad.n, done + bad.n, bad.path))
  core.exit(1)
end

return predict
