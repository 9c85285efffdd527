-- SPDX-License-Identifier: MIT
-- spcore export: a network for other programs, as a PyTorch module or as ONNX. It is that of a run, whatever script made it, a known
-- one, or a list of layers in a Lua file.
local args = require "spcore.args"
local core = require "spcore.core"
local files = require "spcore.files"
local graph = require "spcore.graph"
local json = require "spcore.json"
local model_file = require "spcore.models.file"
local models = require "spcore.models"
local network = require "spcore.network"
local onnx = require "spcore.export.onnx"
local predict = require "spcore.predict"
local sys = require "spcore.sys"
local tensors = require "spcore.export.tensors"
local torch = require "spcore.export.torch"
local walk = require "spcore.export.walk"

local opt = args.parse({
  torch = { "", "folder for model.py and model.safetensors", value = "DIR" },
  onnx = { "", "ONNX file to write", value = "FILE" },
  best = { false, "take the weights of the run's best validation, best.safetensors, not the last ones" },
  with_preprocessing = { false, "the ONNX graph takes bytes, N x H x W x 3, and scales and normalizes them itself" },
  weights = { "", "of a network by name or in a Lua file: safetensors file with its weights", value = "FILE",
    default = "of FILE.lua FILE.safetensors; else none" },
  variant = { "", "of a network by name: whose weights these are", default = "torchvision_v1", value = "NAME" },
  size = { 0, "of a network by name or in a Lua file: pixels of a side", min = 1, max = 4096, default = "what its weights want" },
}, {
  rest = "RUN|NAME|FILE.lua", only = { "debug" },
  doc = "Writes the network of a run, a known network (resnet50) or one in a Lua file, as a PyTorch module with its weights, or as "
    .. "ONNX. model.py needs PyTorch alone: load() gives the module, and python3 model.py IMAGE predicts an image, prepared as in "
    .. "training. The ONNX file says in its metadata how images are prepared.",
})
if #opt.rest == 0 then args.usage "a run folder is wanted, such as runs/train_seg-1, or a network: resnet50, FILE.lua" end
if #opt.rest > 1 then args.usage("one run at a time, not also '%s'", opt.rest[2]) end
if opt.torch == "" and opt.onnx == "" then args.usage "--torch DIR or --onnx FILE is wanted: where to write to" end
if opt.with_preprocessing and opt.onnx == "" then args.usage "--with-preprocessing: goes with --onnx FILE; model.py has prepare()" end

local what = opt.rest[1]:gsub("(.)/+$", "%1")
local dir = opt.torch:gsub("(.)/+$", "%1")

-- ---- which network: { net =, file =, classes =, task =, what = } ----

local function of_names(name)
  for _, known in ipairs(models.names) do
    if known == name then return true end
  end
  return false
end

-- What is no RUN takes other options.
local function check_options(is_run)
  for _, key in ipairs { "weights", "variant", "size" } do
    if is_run and opt[key] ~= (key == "size" and 0 or "") then
      args.usage("--%s: is for a network by name or in a Lua file; %s is a run, which has its own", key, what)
    end
  end
  if not is_run and opt.best then args.usage("--best: is for a run, and %s is none", what) end
  if not is_run and opt.weights == "" and what:find "%.lua$" then opt.weights = model_file.weights(what) or "" end
  if not is_run and opt.weights == "" then args.usage("%s: --weights FILE is wanted, a safetensors file with its weights", what) end
  if opt.weights ~= "" and not sys.there(opt.weights) then args.usage("--weights %s: there is no such file", opt.weights) end
end

local per_pixel = { cross_entropy = true, dice = true, focal = true, jaccard = true, lovasz = true, tversky = true }

local function task_of(outputs)
  if #outputs > 1 then return "numbers" end
  local loss, flat = outputs[1].loss, outputs[1].value.flat
  if per_pixel[loss] then return flat and "class" or "mask" end
  return loss == "bce" and flat and "labels" or "numbers"
end

local said = {
  mask = "A network that gives each pixel a class.", class = "A classifier.", labels = "A network that gives an image several labels.",
  numbers = "A network.",
}

-- Of a run without network.json, which is from before 0.17: what settings.json says of the shipped scripts' models.
local function of_settings(model, weights)
  local known, decoder = type(model.backbone) == "table", model.decoder
  local small = type(model.encoder) == "table" and model.encoder.model == "unet"
  if math.type(model.size) ~= "integer" or not (known or small) or not (decoder or model.classes) then
    args.usage("%s has no network.json, and its settings.json describes no model: it was made by a script without sp.run{} and "
      .. "g:train{}, or by an old version; run it again", what)
  end
  local g <close> = graph { device = "cpu" }
  local image = g.image_requests(predict.reading(model, { batch = 1 })).image
  local seg = decoder or model.head
  local logits = seg and predict.segment(g, image, model, weights) or predict.classify(g, image, model, weights)
  local net = network.of(g, { logits })
  net.outputs[1].loss = "cross_entropy"
  return net
end

local function own_prefix(stage) return stage .. "." end

local function of_run()
  check_options(true)
  local model, weights = predict.run { weights = what, best = opt.best }
  local path = what .. "/network.json"
  local net, why
  if sys.there(path) then net, why = network.read(path) else net = of_settings(model, weights) end
  if not net then args.usage("%s", why) end
  return { net = walk.of(net, own_prefix), file = tensors.open(weights), names = net.classes or model.class_names }
end

-- The file's own number of classes, where it has the head of a known network.
local function classes_in(path)
  if sys.kind(path) == "dir" then path = path .. "/weights.safetensors" end
  local ok, file = pcall(tensors.open, path)
  if not ok then return end
  local found
  for name, t in next, file.by do
    for _, head in ipairs { "fc.weight", "classifier.weight", "classifier.1.weight", "classifier.3.weight" } do
      if #t.shape == 2 and (name == head or name:sub(-#head - 1) == "." .. head) then found = t.shape[1] end
    end
  end
  file.file:close()
  return found
end

local function layers_of()
  if of_names(what) then
    local variant = opt.variant ~= "" and opt.variant or nil
    return models.get(what, { classes = classes_in(opt.weights), variant = variant })
  end
  if opt.variant ~= "" then args.usage("--variant: is for a network by name, and %s is a file", what) end
  local list, usual = model_file.of_text(model_file.text_of(what), what)
  if usual then
    core.log("warn", ("%s does not say how its images are prepared; what is written has torchvision's way: mean 0.485 0.456 0.406, std "
      .. "0.229 0.224 0.225, 224 of 256 pixels; where that is wrong put preprocess = { ... } into it (docs/convert.md)"):format(what))
  end
  return list
end

-- A graph with the list of layers as the stage `net`. Where all of its weights are behind another name, that is taken.
local function loaded(list, reading, want, prefix)
  local g = graph { device = "cpu" }
  local x = g.image_requests(reading).image
  x = g.normalize { x, scale = true, mean = want.mean, std = want.std }.images
  local ok, got = pcall(function()
    return g.layers { x, layers = list, weights = { opt.weights, prefix = prefix }, frozen = true, name = "net" }
  end)
  if ok then return g, got end
  g:close()
  local found = not prefix and tostring(got):match 'weights = { FILE, prefix = "([^"]+)" }'
  if not found then core.fail(tostring(got)) end
  core.log("info", ("%s: the weights behind '%s' are taken"):format(opt.weights, found))
  return loaded(list, reading, want, found)
end

-- That graph reads the file, in whatever dialect, and saves it under the layers' names.
local function of_list()
  check_options(false)
  local list = layers_of()
  local want = list.preprocess
  local size = opt.size > 0 and opt.size or want.crop
  local reading = { batch = 1, size = size, shorter = (size * want.size + want.crop // 2) // want.crop, interpolation = want.interpolation }
  local g <close>, node = loaded(list, reading, want)
  local net = walk.of(network.of(g, { node.features }), function() return "" end)
  local folder = sys.mkdtemp()
  g:save(folder .. "/net.safetensors")
  local file = tensors.open(folder .. "/net.safetensors", "net.")
  os.remove(folder .. "/net.safetensors") -- which is still open
  os.remove(folder)
  local flat = net.outputs[1].value.flat
  net.outputs[1].name, net.outputs[1].loss = flat and "logits" or "features", flat and "cross_entropy" or nil
  return { net = net, file = file }
end

local function find()
  if sys.kind(what) == "dir" and (not of_names(what) or sys.there(what .. "/settings.json")) then return of_run() end
  if of_names(what) or what:find "%.lua$" and sys.there(what) then return of_list() end
  if sys.there(what .. "/settings.json") or what:find "/" or not what:find "^[%w_]+$" then return of_run() end
  if sys.there(what) then args.usage("%s: a run folder is wanted, a known network or a Lua file", what) end
  args.usage("%s/settings.json: No such file or directory, and no network is called so (there are %s)", what,
    table.concat(models.names, ", "))
end

-- ---- what is said of it ----

local function preprocessing(net)
  local image = net.image
  local a, steps, read = walk.affine(image), {}, image.read
  for _, step in ipairs(image.steps) do
    if step.op == "crop" then steps[#steps + 1] = { crop = step.size }
    elseif step.op == "resize" then
      steps[#steps + 1] = { resize = step.size, interpolation = step.interpolation, antialias = step.antialias }
    end
  end
  local kept = read.numbers
  if not image.of_bytes and not kept then return end
  return {
    numbers = kept and { dtype = kept.dtype, zero = kept.lo, one = kept.hi, nodata = kept.nodata, nodata_fill = kept.fill } or nil,
    channels = net.input.c == 3 and "RGB" or net.input.c == 1 and "grey" or tostring(net.input.c), upright = read.orient,
    fit = read.shorter > 0 and "shorter side, then the middle" or read.resize, shorter = read.shorter > 0 and read.shorter or nil,
    size = read.size, interpolation = read.interpolation, antialias = true, ["then"] = #steps > 0 and steps or nil,
    scale = a.scale, mean = json.list(a.mean), std = json.list(a.std), multiple = net.multiple,
  }
end

-- How the graph's own input is laid out, and what of the preparation it does itself.
local function texts_of(found)
  local bytes, p = opt.with_preprocessing, preprocessing(found.net)
  local texts = { { "task", found.task }, { "made_from", what } }
  if found.classes then texts[#texts + 1] = { "classes", json.list(found.classes) } end
  if not p then return texts end
  p.layout, p.dtype = bytes and "NHWC" or "NCHW", bytes and "uint8" or "float32"
  p.within = bytes and json.list { "scale", "mean", "std" } or json.list {}
  texts[#texts + 1] = { "preprocessing", p }
  return texts
end

local function doc_of(found)
  return ("%s Images are prepared as metadata `preprocessing` says%s."):format(found.what,
    opt.with_preprocessing and ", whose scale, mean and std the graph applies itself: it takes bytes, N x H x W x C" or
    ": x * scale, less mean, over std, as N x C x H x W")
end

-- ---- files ----

-- Calls write(put) for a new file that is there whole or not at all.
local function create(path, write)
  local temporary = files.temporary(path)
  local file, why = sys.create(temporary)
  if not file then core.fail(why) end
  local function put(text)
    local ok, words = file:write(text)
    if not ok then error(("%s: %s"):format(path, words), 0) end
  end
  local ok, got = pcall(write, put)
  local closed, why_closed = file:close()
  if ok and closed then
    ok, got = os.rename(temporary, path)
    if ok then return end
  end
  os.remove(temporary)
  core.fail(tostring(not ok and got or ("%s: %s"):format(path, why_closed)))
end

local function size_text(path)
  local file = io.open(path, "rb")
  local bytes = file and file:seek "end" or 0
  if file then file:close() end
  return bytes < 1000000 and ("%.0f kB"):format(bytes / 1e3) or ("%.1f MB"):format(bytes / 1e6)
end

local function write_torch(found)
  local net, names = found.net, {}
  for _, op in ipairs(net.ops) do
    for _, w in ipairs(op.weights) do names[#names + 1] = w.name end
  end
  files.make_parents(dir .. "/")
  create(dir .. "/model.safetensors", function(put) found.file:write(names, put) end)
  files.write(dir .. "/model.py", torch.module(net, { version = core.env().version, run = what, task = found.task, classes = found.classes,
    what = found.what }))
  local try = torch.reads_files(net) and ("; try: python3 %s/model.py IMAGE"):format(dir) or ""
  print(("%s: model.py, model.safetensors%s"):format(dir, try))
end

local function write_onnx(found)
  local net, nodes = found.net, nil
  local about = { version = core.env().version, name = what:match "[^/]*$", doc = doc_of(found), bytes = opt.with_preprocessing,
    texts = texts_of(found) }
  if about.bytes and not (net.image.of_bytes and not net.input.flat) then
    args.usage("--with-preprocessing: %s reads no images of bytes; leave it out", what)
  end
  files.make_parents(opt.onnx)
  create(opt.onnx, function(put) nodes = onnx.write(net, found.file, about, put) end)
  local v = net.input
  local sides = v.flat and "" or net.multiple and " x H x W" or (" x %d x %d"):format(v.h, v.w)
  local taken = about.bytes and ("uint8 N%s x %d"):format(sides, v.c) or ("float32 N x %d%s"):format(v.c, sides)
  print(("%s: %d nodes, opset 17, %s, takes %s%s"):format(opt.onnx, nodes, size_text(opt.onnx), taken,
    (net.multiple or 1) > 1 and (", H and W multiples of %d"):format(net.multiple) or ""))
end

for _, name in ipairs(opt.torch ~= "" and { "model.py", "model.safetensors" } or {}) do
  if sys.there(dir .. "/" .. name) then args.usage("%s/%s is there already; name another folder, or remove it", dir, name) end
end
if opt.onnx ~= "" and sys.there(opt.onnx) then args.usage("%s is there already; name another file, or remove it", opt.onnx) end

local found = find()
found.net.image = found.net.input_of
walk.check(found.net, found.file)
found.task = task_of(found.net.outputs)
found.what = said[found.task]
if found.task ~= "numbers" then found.classes = predict.class_names({ class_names = found.names }, found.net.outputs[1].value.c) end
if opt.torch ~= "" then write_torch(found) end
if opt.onnx ~= "" then write_onnx(found) end
