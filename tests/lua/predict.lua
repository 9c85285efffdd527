-- SPDX-License-Identifier: MIT
-- predict_seg.lua and predict_cls.lua: folders and files of any number, names that collide, images that cannot be read; the same
-- bytes in any batch, strategy and device.
-- needs: onednn images jansson
local sp = require "spcore"
local sys = require "spcore.sys"
local t = require "check"
local dir <close> = t.folder()
local at = dir.path

local function run(line, wanted)
  local code, out, err = t.spcore(at, "run " .. line)
  t.eq(code, wanted or 0, line .. ": " .. err)
  return out, err
end

run "make_shapes.lua photos --samples 21 --size 40"
run "make_shapes.lua shapes --samples 21 --size 40 --target class"
run "train_seg.lua --data photos --size 16 --steps 2 --out seg --quiet --device cpu"
run "train_cls.lua --data shapes --size 16 --batch 4 --steps 2 --out cls --quiet --device cpu"
t.write(at .. "/photos/images/bad.jpg", "no picture")
t.write(at .. "/photos/images/notes.txt", "left out")

local _, err = run("predict_seg.lua --weights seg --out masks photos/images missing.png photos/images/00001.jpg --device cpu", 1)
t.match(err, "photos/images: 1 of 23 entries are left out")
t.match(err, "photos/images/bad.jpg: neither JPEG nor PNG")
t.match(err, "missing.png: No such file")
t.match(err, "2 of 24 images could not be read")
local names = sys.list(at .. "/masks/masks")
t.eq(#names, 22)
t.ok(sys.kind(at .. "/masks/masks/00001_2.png") == "file")

t.eq(t.read(at .. "/masks/bad.txt"), ([[
photos/images/bad.jpg: neither JPEG nor PNG, nor another format that is read: it is text: "no picture"
missing.png: No such file or directory
]]))
os.remove(at .. "/photos/images/bad.jpg")

-- image_requests fits a picture to its size as the reader does
t.write(at .. "/fit.lua", [[
local sp = require "spcore"
local opt = sp.args {}
for name, how in pairs { shorter = { shorter = 24, interpolation = "bicubic" }, crop = { resize = "crop" } } do
  for _, from in ipairs { "reader", "image_requests" } do
    local g <close> = sp.graph(opt)
    local params = { size = { 10, 24 }, batch = 1 }
    for k, v in pairs(how) do params[k] = v end
    if from == "reader" then params.files = { { "photos/images/00001.jpg" } } end
    g.writer { g[from](params).image, file = name .. "_" .. from .. ".npy" }
    if from == "reader" then
      for _ in g:steps(1) do end
    else
      assert(g:submit { path = "photos/images/00001.jpg", name = "x" })
      for answer in g:answers() do assert(not answer.error, answer.error) end
    end
  end
end
]])
run "fit.lua --device cpu"
for _, name in ipairs { "shorter", "crop" } do
  t.eq(t.read(at .. "/" .. name .. "_image_requests.npy"), t.read(at .. "/" .. name .. "_reader.npy"))
end
t.ok(t.read(at .. "/shorter_reader.npy") ~= t.read(at .. "/crop_reader.npy"))
t.write(at .. "/fit.lua", [[
local sp = require "spcore"
sp.graph(sp.args {}).image_requests { size = 25, shorter = 24, batch = 1 }
]])
_, err = run("fit.lua --device cpu", 1)
t.one_line(err, "'size' is cut out of a picture whose shorter side is 'shorter', which must not be less")

-- lists, of files and of the standard input; of many that are bad the first ones are named
local list = {}
for i = 0, 20 do list[#list + 1] = ("photos/images/%05d.jpg\r\n\n"):format(i) end
t.write(at .. "/list", table.concat(list))
for i = 1, 23 do list[#list + 1] = ("nowhere/%02d.jpg\n"):format(i) end
t.write(at .. "/mixed", table.concat(list))
t.write(at .. "/none", "\n")
run "predict_seg.lua --weights seg --out listed --list list @list --device cpu"
names = sys.list(at .. "/listed/masks")
t.eq(#names, 42)
t.ok(sys.kind(at .. "/listed/masks/00020_2.png") == "file")
t.eq(sys.kind(at .. "/listed/bad.txt"), nil)
_, err = run("predict_seg.lua --weights seg --out listed --list - --device cpu <mixed", 1)
t.match(err, "nowhere/20.jpg: No such")
t.ok(not err:find "nowhere/21.jpg")
t.match(err, "and 3 more, see listed/bad.txt\n")
t.match(err, "23 of 44 images could not be read; they are named in listed/bad.txt\n")
t.eq(select(2, t.read(at .. "/listed/bad.txt"):gsub("nowhere/%d%d.jpg: No such file or directory\n", "")), 23)
_, err = run("predict_seg.lua --weights seg --list none", 1)
t.one_line(err, "no image was named")
_, err = run("predict_seg.lua --weights seg @nolist", 1)
t.one_line(err, "nolist: No such file")
_, err = run("predict_seg.lua --weights seg @photos", 1)
t.one_line(err, "photos: Is a directory")

-- the weights of the best validation are a file of their own
run "train_cls.lua --data shapes --size 16 --batch 4 --steps 4 --eval-every 1 --out best --quiet --device cpu"
os.rename(at .. "/best/weights.safetensors", at .. "/last")
run "predict_cls.lua --weights best --best --out c.csv shapes/disc --device cpu"
_, err = run("predict_cls.lua --weights best --out c.csv shapes/disc --device cpu", 2)
t.one_line(err, "best has no weights.safetensors: it has been removed since its run ended; take %-%-best\n$")
os.rename(at .. "/best/summary.json", at .. "/summary")
_, err = run("predict_cls.lua --weights best --out c.csv shapes/disc --device cpu", 2)
t.one_line(err, "best has no weights.safetensors: its run has not ended; go on with: spcore run train_cls.lua %-%-resume best, "
  .. "or take %-%-best\n$")
os.remove(at .. "/best/best.safetensors")
_, err = run("predict_cls.lua --weights best --out c.csv shapes/disc --device cpu", 2)
t.one_line(err, ": its run has not ended; go on with: spcore run train_cls.lua %-%-resume best\n$")
_, err = run("predict_cls.lua --weights best --best --out c.csv shapes/disc --device cpu", 2)
t.one_line(err, "best has no best.safetensors: its run has made no validation that was the best so far\n$")
os.rename(at .. "/last", at .. "/best/weights.safetensors")
os.rename(at .. "/summary", at .. "/best/summary.json")
_, err = run("predict_cls.lua --weights best --best --out c.csv shapes/disc --device cpu", 2)
t.one_line(err, "best has no best.safetensors: it has been removed since its run ended; leave %-%-best out\n$")
run "train_cls.lua --data shapes --size 16 --batch 4 --steps 1 --out never --quiet --device cpu"
os.remove(at .. "/never/best.safetensors")
t.write(at .. "/never/summary.json", (t.read(at .. "/never/summary.json"):gsub('"best": %b{},', "")))
_, err = run("predict_cls.lua --weights never --best --out c.csv shapes/disc --device cpu", 2)
t.one_line(err, "never has no best.safetensors: its run has made no validation that was the best; leave %-%-best out\n$")
run "reference_cls.lua --size 16 --steps 1 --warm-up 1 --out none_kept --quiet --device cpu"
for _, how in ipairs { "", "--best" } do
  _, err = run(("predict_cls.lua --weights none_kept %s --out c.csv shapes/disc --device cpu"):format(how), 2)
  t.one_line(err, "none_kept has no %w+.safetensors: its run has ended, and was one that keeps none: sp.run { weights = false }\n$")
end
for i, how in ipairs { "--batch 1 --strategy replicas --depth 3", "--batch 5 --device mock" } do
  run(("predict_seg.lua --weights seg --out masks%d photos/images %s"):format(i, how))
  for _, kind in ipairs { "masks", "overlays" } do
    t.ok(os.execute(("cd '%s/masks/%s' && for f in 000??.png; do cmp -s $f '%s/masks%d/%s/'$f || exit 1; done"):format(at, kind, at,
      i, kind)), how)
  end
end

-- what is told of a mask; probabilities; a legend below the overlay where there are classes
local told = assert(sp.json.read(at .. "/masks/predictions.json"))
t.eq(table.concat(told.classes, " "), "ground disc square triangle ring cross")
t.eq(#told.images, 24)
t.match(told.images[22].error, "bad.jpg: neither JPEG")
for i = 1, 21 do
  local image, sum = told.images[i], 0
  t.eq(image.file, ("photos/images/%05d.jpg"):format(i - 1))
  t.eq(image.mask, ("masks/%05d.png"):format(i - 1))
  t.ok(image.height == 40 and image.width == 40 and #image.pixels == 6)
  for _, n in ipairs(image.pixels) do sum = sum + n end
  t.eq(sum, 1600)
end
run "predict_seg.lua --weights seg --out p photos/images/00003.jpg --probabilities npy --device cpu"
t.match(t.read(at .. "/p/probabilities/00003.npy"), "^\x93NUMPY.*'descr': '<f4'.*'shape': %(6, 40, 40, %)")
run "predict_seg.lua --weights seg --out p photos/images/00003.jpg --probabilities png --device cpu"
t.eq(t.read(at .. "/p/probabilities/00003.png"):sub(17, 26), "\0\0\0\x28\0\0\0\x28\x10\0") -- 40 x 40, 16 bits, grey

-- The background has no tint, unless each class is to have one.
local most = 1
for i, n in ipairs(told.images[4].pixels) do most = n > told.images[4].pixels[most] and i or most end
for _, background in ipairs { "none", most - 1 } do
  run(("predict_seg.lua --weights seg --out tinted_%s photos/images/00003.jpg --background %s --device cpu"):format(background, background))
end
t.eq(t.read(at .. "/tinted_none/masks/00003.png"), t.read(at .. "/p/masks/00003.png"))
t.ok(t.read(at .. "/tinted_none/overlays/00003.png") ~= t.read(("%s/tinted_%d/overlays/00003.png"):format(at, most - 1)), "a tint")
_, err = run("predict_seg.lua --weights seg --out tinted photos/images/00003.jpg --background ground", 2)
t.one_line(err, "%-%-background ground: a label from 0 to 255 is wanted, or none")

run "predict_cls.lua --weights cls --out a.csv shapes/disc shapes/ring --device cpu"
run "predict_cls.lua --weights cls --out b.csv shapes/disc/ shapes/ring/ --batch 1 --strategy replicas --device mock"
t.eq(t.read(at .. "/a.csv"), t.read(at .. "/b.csv"))
local lines = 0
for line in t.read(at .. "/a.csv"):gmatch "[^\n]+" do
  lines = lines + 1
  t.match(line, lines == 1 and "^file,class,name,probability$" or "^shapes/%a+/[%d_]+%.jpg,[0-4],%a+,[01]%.%d%d%d%d$")
end
t.eq(lines, 1 + #sys.list(at .. "/shapes/disc") + #sys.list(at .. "/shapes/ring"))

-- Decoded at a quarter the probabilities are others, but near.
run "make_shapes.lua large --target class --samples 9 --size 64"
for _, how in ipairs { "full", "scaled" } do
  run(("predict_cls.lua --weights cls --out %s.json large/disc large/ring --device cpu --decode %s"):format(how, how))
end
local full, scaled, differ = sp.json.read(at .. "/full.json"), sp.json.read(at .. "/scaled.json"), false
for i, image in ipairs(full.images) do
  local p, q = image.probability, scaled.images[i].probability
  t.ok(math.abs(p - q) < 0.05)
  differ = differ or p ~= q
end
t.ok(differ)

-- as JSON: the classes of the CSV, with all of their probabilities or the largest
run "predict_cls.lua --weights cls --out a.json shapes/disc shapes/ring --device cpu"
run("predict_cls.lua --weights cls --out top.json shapes/disc shapes/ring nowhere.jpg --top 2 --device cpu", 1)
local all, top = assert(sp.json.read(at .. "/a.json")), assert(sp.json.read(at .. "/top.json"))
local k = 0
for file, class, name, p in t.read(at .. "/a.csv"):gmatch "(shapes[^,]+),(%d),(%a+),([%d.]+)\n" do
  k = k + 1
  local image, best, sum = all.images[k], top.images[k], 0
  t.eq(image.file, file)
  t.eq(image.class, tonumber(class))
  t.eq(image.name, name)
  t.eq(("%.4f"):format(image.probability), p)
  for _, v in ipairs(image.probabilities) do sum = sum + v end
  t.ok(math.abs(sum - 1) < 1e-5 and #image.probabilities == 5 and image.probabilities[image.class + 1] == image.probability)
  t.ok(#best.top == 2 and best.top[1].class == image.class and best.top[1].probability >= best.top[2].probability)
end
t.eq(k, lines - 1)
t.ok(#all.images == k and #top.images == k + 1)
t.match(top.images[k + 1].error, "nowhere.jpg: No such file")
t.one_line(select(2, run("predict_cls.lua --weights cls --out a.csv --top 2 shapes/disc", 2)), "%-%-top: goes with")

assert(sys.mkdir(at .. "/empty"))
for _, which in ipairs { "seg", "cls" } do
  local script = ("predict_%s.lua "):format(which)
  local _, words = run(script .. "photos/images", 2)
  t.one_line(words, "%-%-weights RUN is missing")
  _, words = run(script .. "--weights " .. which, 2)
  t.one_line(words, "no image is given")
  _, words = run(script .. "--weights nowhere photos/images", 2)
  t.one_line(words, "%-%-weights nowhere: there is no such folder")
  _, words = run(script .. "--weights empty photos/images", 2)
  t.one_line(words, "empty: it holds no run, as it has no settings.json")
  _, words = run(script .. ("--weights %s/summary.json photos/images"):format(which), 2)
  t.one_line(words, ("of its end are taken %%(%%-%%-weights %s%%)"):format(which))
  _, words = run(script .. ("--weights %s photos/images"):format(which == "seg" and "cls" or "seg"), 2)
  local other = which == "seg" and "cls" or "seg"
  t.one_line(words,
    ("%s is a run of train_%s.lua: spcore run predict_%s.lua %%-%%-weights %s predicts it"):format(other, other, other, other))
  _, words = run(script .. ("--weights %s empty"):format(which), 1)
  t.one_line(words, "empty: no %*%.jpg|jpeg|png|webp|tif|tiff|bmp|gif|ppm|npy is in this folder")
end
for _, name in ipairs { "x.txt", "x", "dir.x/x.xlsx" } do
  _, err = run(("predict_cls.lua --weights cls --out %s shapes/disc"):format(name), 2)
  t.one_line(err, ("NAME.csv or NAME.json is wanted %%(%%-%%-out %s.csv%%)"):format((name:gsub("%.[^./]*$", ""))))
end
local said
said, err = run("predict_seg.lua --weights seg/weights.safetensors --out of_file nowhere.jpg", 1) -- a file stands for its run
t.match(said, "nothing is predicted")
assert(not said:match "0 images" and err:match "nowhere.jpg: No such file", said)
_, err = run("predict_cls.lua --weights cls --out /nowhere/x.csv shapes/disc", 1)
t.one_line(err, "/nowhere/x.csv")
if sys.there "/dev/full" then
  for _, name in ipairs { "full.csv", "full.json" } do
    os.execute(("ln -sf /dev/full '%s/%s'"):format(at, name))
    _, err = run(("predict_cls.lua --weights cls --out %s shapes/disc --device cpu"):format(name), 1)
    t.one_line(err, name .. ": No space left on device")
  end
end

-- Windows: the same bytes in any batch and strategy; an image that cannot be read is named once.
do
  local windows = "predict_seg.lua --weights seg --device cpu --window 16 --stride 11 --flip --scales 0.5,1 --out "
  _, err = run(windows .. "w1 photos/images/00001.jpg missing.png photos/images/00002.jpg --batch 3", 1)
  t.eq(select(2, err:gsub("\n", "")), 2, err)
  t.match(err, "missing.png: No such file or directory\n.*1 of 3 images could not be read")
  run(windows .. "w2 photos/images/00001.jpg photos/images/00002.jpg --batch 16 --strategy pipelined --quiet")
  for _, name in ipairs { "masks/00001.png", "masks/00002.png", "overlays/00002.png" } do
    t.eq(t.read(("%s/w1/%s"):format(at, name)), t.read(("%s/w2/%s"):format(at, name)), name)
  end
  for more, words in pairs {
    ["--stride 9"] = "--stride goes with --window", ["--scales 1,2"] = "--scales goes with --window",
    ["--window 16 --stride 17"] = "pixels between windows of 16 would be left out",
    ["--window 16 --scales 1,none"] = "numbers from 0.05 to 20",
    ["--window 16 --decode scaled"] = "goes with whole images",
  } do
    _, err = run("predict_seg.lua --weights seg --out w3 photos/images/00001.jpg --device cpu " .. more, 2)
    t.one_line(err, (words:gsub("%-", "%%-")))
  end
  _, err = run("predict_seg.lua --weights seg --out w3 photos/images/00001.jpg --device cpu --window 16 --size 400 "
    .. "--set image_writer.max_scores=1", 1)
  t.match(err, "00001.jpg: 6 classes at 400 x 400 pixels need 4 MiB for their scores, and max_scores is 1; .* max_scores = 4 "
    .. "%(%-%-set image_writer.max_scores=4%)")
end

-- what somebody else wrote stays: masks to train on, a list of bad images, a table, a picture
for line, words in pairs {
  ["predict_seg.lua --weights seg --out photos"] = "%-%-out photos: photos/masks is there without predictions.json beside it",
  ["predict_seg.lua --weights seg --out mine"] = "%-%-out mine: mine/bad.txt is there without",
  ["predict_seg.lua --weights seg --out other"] = "%-%-out: other/predictions.json is there, and this script did not write it",
  ["predict_cls.lua --weights cls --out mine/labels.csv"] = "%-%-out: mine/labels.csv is there, and this script did not",
  ["predict_cls.lua --weights cls --out a.csv.json"] = "%-%-out: a.csv.json is there",
  ["predict_cls.lua --weights cls --out photos/images/00001.jpg"] = "00001.jpg is there",
} do
  os.execute(("cd '%s' && mkdir -p mine other && cp a.csv a.csv.json && echo x >mine/bad.txt && echo x >mine/labels.csv && "
    .. "echo '{}' >other/predictions.json && find photos mine other a.csv.json -type f | sort | xargs cat >before"):format(at))
  _, err = run(line .. " photos/images/00001.jpg --device cpu", 2)
  t.one_line(err, words)
  t.ok(os.execute(("cd '%s' && find photos mine other a.csv.json -type f | sort | xargs cat | cmp -s - before"):format(at)), line)
end
assert(sys.mkdir(at .. "/fresh") and sys.mkdir(at .. "/fresh/masks"))
t.write(at .. "/fresh.csv", "")
for _ = 1, 2 do -- an empty folder is nobody's, and what it wrote itself it writes again
  run "predict_seg.lua --weights seg --out fresh photos/images/00001.jpg --device cpu --quiet"
  run "predict_cls.lua --weights cls --out fresh.csv photos/images/00001.jpg --device cpu --quiet"
end

-- what only shows its schedule writes nothing; ranks would each do all of it
for _, line in ipairs {
  "predict_seg.lua --weights seg --out new photos/images/00001.jpg", "predict_cls.lua --weights cls --out new.csv shapes/disc",
  "make_shapes.lua new", "make_shapes.lua new --layout npy", "make_shapes.lua new --layout webdataset",
  "show_augment.lua photos --out new/new.png",
} do
  for _, how in ipairs { "schedule %s", "run %s --explain" } do
    local code, out, words = t.spcore(at, how:format(line) .. " --device cpu", "TMPDIR=empty")
    t.eq(code, 0, line .. ": " .. words)
    t.ok(#out > 100, line)
  end
  local code, out, words = t.spcore(at, "run " .. line .. " --device cpu --ranks 2")
  t.eq(code .. out, "2", line)
  t.one_line(words, "^spcore: %w+_%w+%.lua: it does not train: each of the 2 ranks of this job would do all of it; start it once, without")
  t.ok(not sys.there(at .. "/new") and not sys.there(at .. "/new.csv"), line)
  t.eq(#sys.list(at .. "/empty"), 0, line)
end

-- Requests of any size get through a queue that takes them one by one, after smaller ones have left it memory that is too
-- small: all are answered, here as no images. One that is larger than the whole queue is refused and named, and the others go on.
do
  local g <close> = sp.graph { device = "cpu", threads = 1 }
  local ask = g.image_requests { size = 8, batch = 2, queue = 4, queue_mb = 1, max_bytes = 2000000, workers = 1 }
  g:results { ask.image, raw = true }
  local sizes, k, answered = { 500000, 500000, 900000, 100, 1500000, 1000000, 700000, 200000, 16 }, 0, {}
  for a in g:answers(function()
    k = k + 1
    return sizes[k] and { "x" .. ("\0"):rep(sizes[k] - 1), tag = k } or nil
  end) do
    answered[#answered + 1] = ("%d %s"):format(a.request.tag, a.status)
    if a.request.tag == 5 then
      t.eq(a.error, "a request of 1500000 bytes is larger than the whole queue of 1048576: give the source queue_mb = 2 or more")
    end
  end
  t.eq(table.concat(answered, ", "),
    "1 failed, 2 failed, 3 failed, 4 failed, 5 refused, 6 failed, 7 failed, 8 failed, 9 failed")
end
