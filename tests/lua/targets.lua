-- SPDX-License-Identifier: MIT
-- Several labels and numbers of a .csv file: learned to the same bits by shards, ranks and strategies, gone on with, predicted.
-- needs: onednn images jansson
-- once: a script, of stages that each have a test
local t = require "check"

local dir <close> = t.folder()
local function path(name) return dir.path .. "/" .. name end
local function run(line)
  local code, out, err = t.spcore(dir.path, "run " .. line)
  t.eq(code, 0, line .. ": " .. err)
  return out, err
end

run "make_shapes.lua set --target class --layout csv --format png --samples 48 --size 16 --quiet --threads 2"

-- What each image shows, from 0, becomes two of three labels, and two numbers, one of which is ten times as large.
local names, several, hot, numbers = {}, { "file,labels" }, { "file,a,b,c" }, { "file,age,size" }
for file, name in t.read(path "set/labels.csv"):gmatch "\n([^\n,]+),([^\n,]+)" do
  if not names[name] then names[#names + 1], names[name] = name, #names end
  local k = names[name] % 3
  local bits = { k ~= 0, k ~= 1, k == 2 }
  local list = {}
  for i, bit in ipairs(bits) do list[#list + 1] = bit and ("abc"):sub(i, i) or nil end
  several[#several + 1] = file .. "," .. table.concat(list, "|")
  hot[#hot + 1] = ("%s,%d,%d,%d"):format(file, bits[1] and 1 or 0, bits[2] and 1 or 0, bits[3] and 1 or 0)
  numbers[#numbers + 1] = ("%s,%d.5,%d"):format(file, 10 + k, 1000 + 100 * k)
end
t.eq(#several, 49)
os.remove(path "set/labels.csv")
os.remove(path "set/classes.txt")
for name, rows in pairs { several = several, hot = hot, numbers = numbers } do
  t.write(path("set/" .. name .. ".csv"), table.concat(rows, "\n") .. "\n")
end

local small = "train_cls.lua --size 16 --batch 4 --width 2 --levels 1 --threads 1 --augment none --steps 8 --eval-every 4 "
  .. "--quiet --device cpu "
local function weights(name) return t.read(path(name .. "/weights.safetensors")) end

-- ---- several ----
local out = run(small .. "--data set/hot.csv --out hot") -- the rows show that there are several
t.match(out, "hot: validation mAP [%d.]+\n$")
t.match(t.read(path "hot/settings.json"), '"target": "labels"')
run(small .. "--data set/several.csv --target labels --out several")
t.ok(weights "hot" == weights "several", "columns of 0 and 1 and cells of several labels give other bits")
run(small .. "--data set/hot.csv --strategy pipelined --out piped")
t.ok(weights "hot" == weights "piped", "another strategy, other bits")
run(small .. "--data set/hot.csv --shards 2 --out shards")
run(small .. "--data set/hot.csv --ranks 2 --out ranks")
t.ok(weights "shards" == weights "ranks", "ranks give other bits than shards")

local function csv(name) return t.read(path(name)) end
local files = several[2]:match "^[^,]+" .. " " .. several[3]:match "^[^,]+"
files = ("set/%s set/%s"):format(files:match "^(%S+) (%S+)$")
run("predict_cls.lua --weights hot --threshold 0 --out all.csv --device cpu " .. files)
t.match(csv "all.csv", "^file,classes,names,probabilities\nset/[^,]+,[012];[012];[012],[abc];[abc];[abc],0%.%d+;0%.%d+;0%.%d+\n")
run("predict_cls.lua --weights hot --threshold 1 --out none.csv --device cpu " .. files)
t.match(csv "none.csv", "\nset/[^,]+,,,\n")
run("predict_cls.lua --weights hot --out all.json --device cpu " .. files)
t.match(csv "all.json", '^{"classes":%["a","b","c"%],"images":%[\n{"file":"set/[^"]+","labels":%[.-%],'
  .. '"probabilities":%[[%d.]+,[%d.]+,[%d.]+%]}')

-- ---- numbers ----
local said
out, said = run(small .. "--data set/numbers.csv --out numbers")
t.match(out, "numbers: validation age MAE [%d.]+, RMSE [%d.]+; size MAE [%d.]+, RMSE [%d.]+\n$")
local settings = require("spcore.json").decode(t.read(path "numbers/settings.json"))
local scale = settings.model.numbers
t.eq(table.concat(scale.names, " "), "age size")
t.ok(scale.mean[1] > 10.5 and scale.mean[1] < 12.5 and scale.mean[2] > 1000 and scale.mean[2] < 1200, scale.mean[1])
t.ok(math.abs(scale.std[2] / scale.std[1] - 100) < 1e-6, "both columns are one, but for its scale")
local size_mae = tonumber(out:match "size MAE ([%d.]+)")
t.ok(size_mae > 1 and size_mae < 400, out) -- in the table's units: standardised it would be near 1
run("predict_cls.lua --weights numbers --out n.csv --device cpu " .. files)
local age, size = csv("n.csv"):match "^file,age,size\nset/[^,]+,([%d.]+),([%d.]+)\n"
t.ok(age and math.abs(age - 11.5) < 5 and math.abs(size - 1100) < 500, csv "n.csv") -- undone: not near 0
run("predict_cls.lua --weights numbers --out n.json --device cpu " .. files)
t.match(csv "n.json", ('"numbers":[%s,%s]'):format(age, size):gsub("[%[%].]", "%%%0"))
run(small .. "--data set/numbers.csv --no-standardize --out plain")
t.eq(table.concat(require("spcore.json").decode(t.read(path "plain/settings.json")).model.numbers.std, " "), "1 1")
t.ok(weights "plain" ~= weights "numbers")
out = run((small:gsub("%-%-quiet ", "")) .. "--data set/numbers.csv --columns size --target numbers --out one")
t.match(out, "size: learned as %(value %- 1[%d.]+%) / [%d.]+, its mean and deviation in training; %-%-no%-standardize: as it is\n")
local one, std = require("spcore.json").decode(t.read(path "one/summary.json")).evaluation
std = require("spcore.json").decode(t.read(path "one/settings.json")).model.numbers.std[1]
t.ok(std > 1.5 and math.abs(one.rmse / (std * math.sqrt(one.loss)) - 1) < 1e-6, "errors are in units of the data")

-- ---- a run that goes on: with the same bits, and not with other numbers ----
run(small .. "--data set/numbers.csv --checkpoint-every 4 --out whole")
t.ok(weights "whole" == weights "numbers")
run(small .. "--data set/numbers.csv --checkpoint-every 3 --out again")
t.write(path "set/numbers.csv", (table.concat(numbers, "\n") .. "\n"):gsub("1000\n", "1001\n"))
local code
code, out, said = t.spcore(dir.path, "run train_cls.lua --resume again --override --steps 9")
t.eq(code, 0, said)
t.match(said, "the files of 'reader")

-- ---- what tells data apart: numbers and labels, not only the sizes and times of files ----
local function content(target, text)
  t.write(path "set/digest.csv", text)
  local g <close> = require "spcore".graph { device = "cpu" }
  return g.reader { path = path "set/digest.csv", target = target, size = 8, batch = 1 }:item("digest", 0)
end
local one = several[2]:match "^[^,]+"
t.eq(content("numbers", "file,x\n" .. one .. ",1\n"), content("numbers", "file,x\n" .. one .. ",1\n"))
t.ok(content("numbers", "file,x\n" .. one .. ",1\n") ~= content("numbers", "file,x\n" .. one .. ",2\n"), "other numbers, one digest")
t.ok(content("labels", "file,x,y\n" .. one .. ",0,1\n") ~= content("labels", "file,x,y\n" .. one .. ",1,0\n"), "other labels, one digest")

-- ---- refused ----
local function refused(line, words)
  local other, _, err = t.spcore(dir.path, "run " .. line)
  t.ok(other ~= 0, line)
  t.match(err, words)
end
refused(small .. "--data set/hot.csv --label-smoothing 0.1", "%-%-label%-smoothing: goes with one class, not with %-%-target labels")
refused(small .. "--data set/hot.csv --no-standardize", "%-%-no%-standardize: goes with %-%-target numbers")
refused(small .. "--data shapes --target labels", 'target = "labels" goes with a path to a .csv file, arrays or tar files')
refused("predict_cls.lua --weights numbers --threshold 0.5 " .. files, "%-%-threshold: goes with a run of %-%-target labels")
refused("predict_cls.lua --weights numbers --top 2 --out x.json " .. files,
  "%-%-top: goes with a run of one class, and this one learned numbers")
