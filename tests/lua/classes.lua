-- SPDX-License-Identifier: MIT
-- One class an image: shapes written as a folder of classes, read back, learned; and what a script that mixes targets
-- is told.
-- needs: onednn images
local sp = require "spcore"
local t = require "check"

local dir <close> = t.folder()
local set, names = dir.path .. "/set", { "cross", "disc", "ring", "square", "triangle" }

local function make()
  return t.spcore(dir.path, "run make_shapes.lua set --target class --samples 60 --size 24 --quiet --threads 2")
end

do -- the files
  local code, out, err = make()
  t.eq(err, "")
  t.eq(code, 0)
  t.match(out, "set: 60 images\n$")
  t.eq(io.open(set .. "/classes.txt"), nil)
  code, out, err = make()
  t.eq(code, 2)
  t.match(err, "set/cross is there already")
end

do -- labels of the files are those of the set
  local function labels(params)
    local g <close> = sp.graph { threads = 2 }
    params.size, params.target, params.batch, params.shuffle = 24, "class", 60, false
    local data = g.reader(params)
    t.eq(data.classes, 5)
    t.eq(data.class_names, table.concat(names, "\n"))
    t.eq(data.length, 60)
    t.eq(data.label.dtype, "uint8")
    t.eq(table.concat(data.label.shape, " "), "60")
    -- a row of the matrix for each label, whatever the logits say
    local any = g.layers { g.to_float { data.image }, layers = { { "flatten" }, { "linear", 5 } } }
    g.confusion { any, data.label }
    for _, m in g:steps(1) do
      local n = {}
      for i = 1, 5 do
        n[i] = 0
        for j = 1, 5 do n[i] = n[i] + m.counts[i][j] end
      end
      return table.concat(n, " ")
    end
  end
  local n = labels { path = set }
  t.eq(n, labels { path = "shapes", samples = 60 }, "how many of each class")
  -- as the files say
  local want = {}
  for i, name in ipairs(names) do
    local list = io.popen(("ls '%s/%s' | wc -l"):format(set, name))
    want[i] = tostring(tonumber(list:read "a"))
    list:close()
  end
  t.eq(n, table.concat(want, " "))
end

do -- it learns, and evaluates on the other part
  local g <close> = sp.graph { threads = 2 }
  local function source(split)
    return g.reader { path = set, target = "class", split = split, val_fraction = 0.2, size = 16, batch = 12 }
  end
  local data, val = source "train", source "val"
  local image = g.to_float { data.image, scale = true }
  local logits = g.layers { image, layers = { { "flatten" }, { "linear", data.classes } } }
  g.confusion { logits, data.label }
  g:train { g.cross_entropy { logits, data.label }, optimizer = g.adamw { lr = 1e-2 } }
  local first, last
  for _, m in g:steps(120) do
    first, last = first or m.loss, m.loss
  end
  t.ok(last < first / 2, ("the loss falls: %g, then %g"):format(first, last))
  local n = 0
  for _, row in ipairs(g:evaluate { data = val }.counts) do
    for _, k in ipairs(row) do n = n + k end
  end
  t.eq(n, val.length, "samples for validation")
end

do -- train/ and val/ of its own: the training goes by them
  local code, out, err = t.spcore(dir.path,
    "run make_shapes.lua own --layout splits --target class --samples 60 --size 16 --quiet --threads 2")
  t.eq(err, "")
  t.match(out, "own: 54 %+ 6 images\n$")
  code, _, err = t.spcore(dir.path, "run make_shapes.lua own --layout splits --target class --quiet")
  t.eq(code, 2)
  t.match(err, "own/train/cross is there already")
  os.rename(dir.path .. "/own/val/disc", dir.path .. "/own/val/zoo")
  local g <close> = sp.graph { threads = 2 }
  local n = {}
  for _, split in ipairs { "train", "val" } do
    local data = g.reader { path = dir.path .. "/own", target = "class", split = split, size = 16, batch = 2 }
    n[#n + 1] = data.length
    t.eq(data.class_names, "cross\ndisc\nring\nsquare\ntriangle\nzoo")
  end
  t.eq(table.concat(n, " "), "54 6")
  code, out, err = t.spcore(dir.path,
    "run train_cls.lua --data own --size 16 --batch 4 --width 4 --levels 2 --steps 2 --out own_run --threads 2 --device cpu")
  t.eq(code, 0, err)
  t.match(out, "no training sample has the class 5 'zoo'\n")
  t.match(out, "no validation sample has the class 1 'disc', 4 'triangle'\n")
  t.match(out, "own_run: validation accuracy")
end

do -- mixed up: a warning says what is missing, the loss what it got
  t.write(dir.path .. "/mixed.lua", [[
local sp = require "spcore"
local g <close> = sp.graph {}
local data = g.reader { path = "shapes", size = 16, batch = 4 }
local logits = g.layers { g.to_float { data.image }, layers = { { "flatten" }, { "linear", 6 } } }
g:train { g.cross_entropy { logits, data.label }, optimizer = g.sgd {} }
for _ in g:steps(1) do end
]])
  local code, _, err = t.spcore(dir.path, "run mixed.lua")
  t.eq(code, 1)
  t.match(err, "^spcore: stage 'reader': output 'label' is read, but shapes with target = \"mask\" has none.-\n")
  t.match(err, "\nspcore: mixed.lua:6: stage 'cross_entropy' step 1: sample %d+: label 255 is outside 0..5\n$")
  code, _, err = t.spcore(dir.path, "run train_seg.lua --steps 1 --out r --classes 5 --data set")
  t.eq(code, 1)
  t.one_line(err, "set holds a folder for each class, which is for target = \"class\"")
end

do -- sampling: trainings draw as often as it says, with replacement, the same samples in every strategy; evaluations see each once
  for class, gone in pairs { disc = 9, ring = 11 } do
    local files = require("spcore.sys").list(set .. "/" .. class)
    for i = 1, gone do os.remove(("%s/%s/%s"):format(set, class, files[i])) end
  end
  local function drawn(sampling, s)
    s = s or {}
    local g <close> = sp.graph { threads = 1, strategy = s.strategy, device = s.device, shards = s.shards, seed = 2 }
    local data = g.reader {
      path = s.path or set, target = "class", size = 24, batch = s.batch or 8, sampling = sampling, shuffle = s.shuffle, draws = s.draws,
      replacement = s.replacement, val_fraction = s.split_by,
    }
    local val = g.reader { path = set, target = "class", size = 24, batch = s.batch or 8, sampling = sampling:find ":" and "" or sampling }
    local turned = g.batch_rotate { data.image, degrees = 90 } -- of the same sample otherwise each time
    local net = g.classifier { g.to_float { turned.images[1], scale = true }, model = "pool", classes = 5, name = "net" }
    g.confusion { net.logits, data.label }
    g:train { g.cross_entropy { net.logits, data.label }, optimizer = g.sgd { lr = 0.1 } }
    local n, bits = { 0, 0, 0, 0, 0 }, {}
    for _, m in g:steps(s.steps or 150) do
      bits[#bits + 1] = ("%a"):format(m.loss)
      for r = 1, 5 do
        for c = 1, 5 do n[r] = n[r] + m.counts[r][c] end
      end
    end
    return n, table.concat(bits, " "), g:evaluate { data = val }.n, data.length
  end
  local n, bits, once, length = drawn "balanced"
  for c = 1, 5 do t.ok(n[c] > 200 and n[c] < 280, ("%s: %d of 1200"):format(names[c], n[c])) end
  t.eq(once, length)
  for _, way in ipairs { { "pipelined" }, { "branches", "sim" }, { "pipelined", "mock" } } do
    t.eq(select(2, drawn("balanced", { strategy = way[1], device = way[2] })), bits, way[1])
  end
  n = drawn "0,3,0,1,0"
  t.eq(n[1] + n[3] + n[5], 0)
  t.ok(n[2] > 860 and n[2] < 940, n[2])
  t.ok(bits ~= select(2, drawn ""), "else each comes once")
  t.raises("shuffle = false, and samples that are drawn %(sampling%) have no order", drawn, "balanced", { shuffle = false })
  -- a weight for each sample: by a column, and by a file, as often; without replacement all that have one, once an epoch
  local csv, list, of_class, some = { "file,label,often" }, {}, {}, 0
  for c, name in ipairs(names) do
    of_class[c] = 0
    for i, file in ipairs(require("spcore.sys").list(set .. "/" .. name)) do
      local often = (c == 2 and 3 or c == 4 and 1 or 0) * (i % 2)
      csv[#csv + 1], list[#list + 1] = ("%s/%s,%s,%s"):format(name, file, name, often), often
      if often > 0 then of_class[c], some = of_class[c] + 1, some + 1 end
    end
  end
  t.write(set .. "/table.csv", table.concat(csv, "\n") .. "\n")
  t.write(set .. "/often.txt", table.concat(list, "\n") .. "\n")
  local function own(sampling, s)
    s.path, s.split_by = set .. "/table.csv", 0.0
    return drawn(sampling, s)
  end
  n, bits = own("column:often", {})
  t.eq(n[1] + n[3] + n[5], 0)
  local share = 3 * of_class[2] / (3 * of_class[2] + of_class[4])
  t.ok(math.abs(n[2] / 1200 - share) < 0.05, ("%d of 1200, wanted %g"):format(n[2], share))
  t.eq(select(2, own("file:" .. set .. "/often.txt", {})), bits, "a file in the order of rows")
  n, bits = own("column:often", { replacement = false, batch = 1, steps = 2 * some })
  for c = 1, 5 do t.eq(n[c], 2 * of_class[c], "twice in two epochs: " .. names[c]) end
  for _, way in ipairs { { "pipelined" }, { "branches", "sim" } } do
    local got = { own("column:often", { replacement = false, batch = 1, steps = 2 * some, strategy = way[1], device = way[2] }) }
    t.eq(got[2], bits, way[1])
  end
  t.raises("draws = 60 without replacement, but only %d+ of %d+ samples have a weight above 0: take `?draws = %d+`? or less", own, "column:often",
    { replacement = false, draws = 60 })
  t.raises("draws goes with samples that are drawn: give sampling, or leave it out", own, "", { draws = 60 })
  t.raises("replacement goes with samples that are drawn", own, "", { replacement = false })
  local function refused(pattern, params)
    local g <close> = sp.graph { threads = 1 }
    params.batch, params.size = params.batch or 8, 24
    t.raises(pattern, function() return g.reader(params) end)
  end
  refused("there are 5 classes, and 2 numbers", { path = set, target = "class", sampling = "1,2" })
  refused('"balanced" or a number of at least 0 for each class is expected', { path = set, target = "class", sampling = "evenly" })
  refused("no class is ever drawn", { path = set, target = "class", sampling = "0,0,0,0,0" })
  refused("goes by the class of each image, and shapes, which is made up, has all alike", { path = "shapes", sampling = "balanced" })
  local code, out, err = t.spcore(dir.path, "run train_cls.lua --data set --sampler balanced --steps 3 --batch 8 --size 16 --quiet --threads 1")
  t.eq(code, 0, out .. err)
  code, _, err = t.spcore(dir.path, "run train_cls.lua --sampler balanced --steps 3")
  t.eq(code, 2)
  t.one_line(err, "%-%-sampler: shapes is made up")
end
