-- SPDX-License-Identifier: MIT
-- train_cls.lua: the same losses wherever the augmentation runs and whatever the strategy; a folder of classes;
-- epochs; an encoder that goes on in train_seg.lua; what it says to bad options.
-- needs: onednn images jansson
-- once: a script, of stages that each have a test
local t = require "check"

local dir <close> = t.folder()
local small = "run train_cls.lua --size 16 --batch 4 --samples 64 --width 4 --levels 2 --threads 2 "

local function run(options)
  local code, out, err = t.spcore(dir.path, options)
  t.eq(code, 0, options .. ": " .. err)
  return out
end

local function losses(out)
  local seen = {}
  for step, loss in out:gmatch "step (%d+)/%d+  loss ([%d.]+)" do seen[#seen + 1] = step .. " " .. loss end
  t.ok(#seen > 2, "no losses in " .. out)
  return table.concat(seen, "\n")
end

local plain = run(small .. "--steps 6 --out plain")
t.match(plain, "\nplain: validation accuracy 0%.%d%d%d%d\n$")
for _, more in ipairs {
  "--strategy pipelined", "--augment cpu", "--device mock --augment cpu", "--device mock --augment gpu --capture step",
  "--device mock --augment gpu --strategy pipelined --depth 2", "--device mock --augment cpu --strategy pipelined",
} do
  t.eq(losses(run(small .. "--steps 6 " .. more)), losses(plain), more)
end
t.ok(losses(run(small .. "--steps 6 --augment none")) ~= losses(plain), "without augmentation, the same losses")
t.ok(losses(run(small .. "--steps 6 --seed 2")) ~= losses(plain), "another seed, the same losses")

-- its encoder under a decoder
t.match(run "run train_seg.lua --encoder plain --size 16 --width 4 --levels 2 --batch 4 --samples 64 --steps 2 --threads 2 --quiet",
  "validation mean IoU")

do -- of data of one's own the encoder learns, too, unless it is to stay; all of a network goes on with other data
  local function tensors(name) return t.tensors(("%s/%s/weights.safetensors"):format(dir.path, name)) end
  local function same(a, b, pattern)
    local n = 0
    for name, value in pairs(a) do
      if name:find(pattern) and b[name] == value then n = n + 1 end
    end
    return n
  end
  run "run make_shapes.lua photos --samples 24 --size 24 --quiet --threads 2"
  run "run make_shapes.lua more --samples 24 --size 24 --quiet --threads 2 --data-seed 7"
  local own = "run train_seg.lua --data photos --size 16 --batch 4 --steps 4 --pictures 0 --threads 2 --device cpu --seed 5 --out "
  t.match(run(own .. "own --checkpoint-every 0"),
    "encoder trained, the shipped weights, made for drawn shapes; %-%-no%-train%-encoder freezes it\n")
  t.match(run(own .. "asked --train-encoder"), "encoder trained, random weights\n")
  t.match(run(own .. "kept --no-train-encoder"), "encoder frozen, the shipped weights, made for drawn shapes\n")
  local shipped = t.tensors(require "spcore".shipped "shapes_encoder.safetensors")
  local own_weights, kept = tensors "own", tensors "kept"
  local shipped_file = require "spcore".shipped "shapes_encoder.safetensors"
  run(own .. "same --train-encoder --encoder '" .. shipped_file .. "'")
  t.eq(same(own_weights, tensors "same", ""), same(own_weights, own_weights, ""))
  t.ok(same(own_weights, tensors "asked", "") < same(own_weights, own_weights, "") // 2)
  for _, name in ipairs { "checkpoint-4.safetensors", "weights.safetensors", "summary.json" } do os.remove(dir.path .. "/own/" .. name) end
  run "run train_seg.lua --resume own --quiet" -- from its beginning
  t.eq(same(own_weights, tensors "own", ""), same(own_weights, own_weights, ""))
  for name, value in pairs(shipped) do t.ok(kept["encoder." .. name:gsub("^encoder%.", "")] == value, name) end
  t.match(run "run train_seg.lua --size 16 --batch 4 --samples 64 --steps 1 --pictures 0 --threads 2", "encoder frozen, the shipped weights")

  local small = own:gsub("%-%-size 16", "--size 16 --width 4 --levels 2")
  run(small .. "small --checkpoint-every 2")
  local on = "run train_seg.lua --data more --batch 4 --steps 2 --pictures 0 --threads 2 --device cpu --lr 0 "
  for i, path in ipairs { "small", "small/weights.safetensors", "small/checkpoint-4.safetensors" } do
    local out = run(("%s--from %s --out from%d"):format(on, path, i))
    t.match(out, ("--from %s: its network, --width 4 --levels 2 --size 16\n"):format(path):gsub("%-", "%%-"))
    t.match(out, ("encoder trained, all weights are those of %s\n"):format(path):gsub("%-", "%%-"))
    local a, b = tensors "small", tensors("from" .. i)
    t.eq(same(a, b, "%.weight$") + same(a, b, "%.bias$"), same(a, a, "%.weight$") + same(a, a, "%.bias$"), path)
    t.ok(same(a, b, "") < same(a, a, ""), "statistics stay, so nothing was trained")
  end
end

-- images of one's own
run "run make_shapes.lua set --target class --samples 60 --size 24 --quiet --threads 2"
t.match(run "run train_cls.lua --data set --size 16 --batch 4 --width 4 --levels 2 --steps 2 --quiet --threads 2",
  "validation accuracy")

-- epochs in place of steps; a run that goes on takes the one or the other
local short = small:gsub("64", "24") -- 21 for training: 5 steps an epoch, and one image is left out
t.match(run(short .. "--epochs 2 --checkpoint-every 5 --out epochs"), "\nstep 10/10  epoch 2/2  loss ")
t.match(run(short .. "--epochs 2 --shards 2 --out shards"), "\nstep 4/4  epoch 2/2  loss ")
local function of_epochs(pattern) t.match(t.read(dir.path .. "/epochs/settings.json"), pattern) end
of_epochs '"epochs": 2'
of_epochs '"steps": 10'
of_epochs '"eval_every": 5'
local function told(file)
  local text = t.read(dir.path .. "/epochs/" .. file)
  return text:match '"changed":(%b{})' or text
end
t.match(told "summary.json", '"steps": 10')
run "run train_cls.lua --resume epochs --override --epochs 3"
t.match(told "summary.json", '"steps": 15')
t.eq(told "resumed.jsonl", '{"epochs":3}')
os.remove(dir.path .. "/epochs/resumed.jsonl")
run "run train_cls.lua --resume epochs --override --steps 16"
t.match(told "summary.json", '"steps": 16')
t.eq(told "resumed.jsonl", '{"epochs":0,"steps":16}')

local function refused(options, words, script)
  local code, _, err = t.spcore(dir.path, ("run train_%s.lua --quiet %s"):format(script or "cls", options))
  t.ok(code ~= 0, options)
  t.match(err, words)
  return code
end
refused("--augment gpu --device cpu", "^spcore: .-%-%-augment gpu: the training runs on the cpu; take %-%-device cuda")
refused("--augment gpus", "%-%-augment gpus: choose one of auto, cpu, gpu, none, or FILE.lua; did you mean 'gpu'%?")
refused("--epochs 2 --steps 9", "%-%-epochs stands in place of %-%-steps: give one of them\n$")
refused("--resume epochs --steps 20", "%-%-steps was 16 and is 20; leave it away, or take %-%-override")
refused("--patience 2 --size 16 --samples 64 --steps 4 --eval-every 4", "%-%-patience: there is no validation before the end")
refused("--data nowhere", "nowhere")
refused("--min-delta 1", "train_cls.lua: %-%-min%-delta goes with %-%-patience\n$")

-- what is no value is not taken for the default
for _, script in ipairs { "seg", "cls" } do
  for option, least in pairs {
    steps = 1, epochs = 1, size = 1, samples = 1, ["eval-every"] = 1, lr = 0.0, classes = script == "seg" and 1 or nil,
    ["output-stride"] = script == "seg" and 1 or nil,
  } do
    local none = least == 0 and -1 or 0
    t.eq(refused(("--%s %d"):format(option, none), ("%d: the value must be at least %s"):format(none, least), script), 2, option)
  end
end
run(small .. "--steps 2 --lr 0 --out still --quiet") -- says what it means
t.ok(not t.read(dir.path .. "/still/metrics.jsonl"):find '"lr":[^0]')

-- --best-by: nearly the name of a metric, or an output that is no number, is refused before there is a folder
local best = small:sub(5) .. "--steps 4 --eval-every 2 --patience 1 --out best --best-by "
local code, _, err = t.spcore(dir.path, "run " .. best .. "acuracy")
t.eq(code, 2)
t.one_line(err, "^spcore: train_cls.lua: %-%-best%-by acuracy: validations have no such metric; they have accuracy, f1, precision, "
  .. "recall, auroc, map, ece, mce, loss; did you mean 'accuracy'%?\n$")
code, _, err = t.spcore(dir.path, "run " .. best .. "logits")
t.eq(code, 2)
t.one_line(err, "train_cls.lua: %-%-best%-by logits: validations have no such metric; they have accuracy, f1, .*, loss\n$")
t.ok(not require("spcore.sys").there(dir.path .. "/best"))
run("run " .. best:gsub("best %-%-best", "best2 --best") .. "top1 --quiet")
t.match(t.read(dir.path .. "/best2/summary.json"), '"metric": "top1"')

do -- a run that goes on needs the file of its beginning no more
  local sys = require "spcore.sys"
  local function path(name) return dir.path .. "/" .. name end
  t.write(path "begin.safetensors", t.read(require "spcore".shipped "shapes_encoder.safetensors"))
  run("run train_seg.lua --encoder begin.safetensors --size 16 --batch 2 --samples 16 --steps 8 --eval-every 8 --pictures 0 "
    .. "--checkpoint-every 4 --threads 1 --quiet --out begun")
  local weights = t.read(path "begun/weights.safetensors")
  for _, name in ipairs { "begin", "begun/checkpoint-8", "begun/weights", "begun/summary" } do
    os.remove(path(name .. ".safetensors"))
    os.remove(path(name .. ".json"))
  end
  t.ok(sys.there(path "begun/checkpoint-4.safetensors"))
  run "run train_seg.lua --resume begun --quiet"
  t.ok(t.read(path "begun/weights.safetensors") == weights, "the same weights")
end
