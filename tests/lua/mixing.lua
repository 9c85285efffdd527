-- SPDX-License-Identifier: MIT
-- --mixup and --cutmix of train_cls.lua: the same bits with any strategy and from a checkpoint on, validation as it is without them, and
-- what they go with.
-- needs: onednn images jansson
local t = require "check"
local dir <close> = t.folder()

local function run(line, code)
  local got, out, err = t.spcore(dir.path, "run " .. line)
  t.eq(got, code or 0, line .. "\n" .. out .. err)
  return code and err or out
end
local function weights(name) return t.read(("%s/%s/weights.safetensors"):format(dir.path, name)) end

local small = "train_cls.lua --size 16 --batch 8 --samples 64 --width 4 --levels 2 --threads 2 --device mock --pictures 0 --steps 12 "
local both = small .. "--mixup 0.4 --cutmix 1 "
local out = run(both .. "--out one")
t.match(out, "its images are mixed: the accuracy of a training step counts the class of the larger share")
run(both .. "--out two --strategy pipelined --quiet")
t.ok(weights "one" == weights "two", "the strategy has no say")
run(small .. "--out plain --quiet")
t.ok(weights "one" ~= weights "plain", "mixed")
run(small .. "--mixup 0.4 --out up --quiet")
run(small .. "--cutmix 1 --out cut --quiet --label-smoothing 0.1")
t.ok(weights "up" ~= weights "one" and weights "cut" ~= weights "one", "each alone is another")

-- A validation sees images as they are: the same weights have the same loss.
local script = [[
local sp = require "spcore"
local losses = {}
for i, mixed in ipairs { false, true } do
  local g <close> = sp.graph { threads = 1, seed = 3 }
  local function open(split) return g.reader { path = "shapes", target = "class", size = 16, batch = 8, samples = 32, split = split } end
  local data, val = open "train", open "val"
  local image, label = data.image, data.label
  if mixed then
    local mix = g.mixup { image, labels = label, classes = math.tointeger(data.classes) }
    image, label = mix.images[1], mix.labels
  end
  local net = g.classifier { g.to_float { image, scale = true }, model = "pool", classes = math.tointeger(data.classes) }
  g:train { g.cross_entropy { net, label }, optimizer = g.sgd { lr = 0.0 } }
  for _ in g:steps(1) do end
  losses[i] = g:evaluate { data = val }.loss
end
print(("%.6f %.6f"):format(losses[1], losses[2]))
]]
t.write(dir.path .. "/own.lua", script)
local a, b = run("own.lua"):match "([%d.]+) ([%d.]+)"
t.ok(a and math.abs(a - b) < 2e-6, ("validation: %s and %s"):format(a, b))

-- An export leaves out what is done in training alone.
local code, told, why = t.spcore(dir.path, "export one --torch net")
t.eq(code, 0, told .. why)

-- What they go with.
local function refused(options, words) t.match(run(small .. options, 2), words) end
refused("--mixup 0.001", "%-%-mixup 0%.001: 0, or 0%.01 and more is expected")
refused("--mixup -1", "%-%-mixup %-1")
refused("--cutmix 1 --batch 1", "%-%-cutmix: mixes the images of a batch, and %-%-batch 1 has one")
t.write(dir.path .. "/mix.lua", "return { batch_crop { size = crop }, mixup { classes = 4 } }")
t.match(run(small .. "--augment mix.lua", 1), "mixup changes labels, of which a chain has none; train_cls.lua has %-%-mixup ALPHA")
t.write(dir.path .. "/cut.lua", "return { cutmix {} }")
t.match(run(small .. "--augment cut.lua", 1), "cutmix changes labels, of which a chain has none; train_cls.lua has %-%-cutmix ALPHA")
local seg = "train_seg.lua --size 16 --batch 4 --samples 16 --width 4 --levels 2 --threads 2 --pictures 0 --steps 4 --train-encoder --quiet "
t.match(run(seg .. "--augment cut.lua --out pasted"), "validation mean IoU")
t.write(dir.path .. "/up.lua", "return { mixup {} }")
t.match(run(seg .. "--augment up.lua", 1), "a pixel of a mask has one class, and mixup would give it two: take cutmix")
t.match(run(small .. "--mixup 0.2 --show-augment sheet.png"), "the sheet shows images before they are mixed")
