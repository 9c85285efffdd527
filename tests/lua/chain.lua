-- SPDX-License-Identifier: MIT
-- A chain of augmentation in a file: the same bits as the one that is shipped, wherever it runs; masks go along; a run records it and
-- says on resume that it is another one; the sheet shows it; what is wrong in it is said with its file and line.
-- needs: onednn images jansson
-- once: scripts
local json = require "spcore.json"
local t = require "check"

local dir <close> = t.folder()
local here = dir.path
local more = " --size 16 --batch 4 --samples 64 --width 4 --levels 2 --threads 2 --no-tensorboard --pictures 0 "
local cls, seg = "run train_cls.lua" .. more .. "--steps 6 ", "run train_seg.lua --train-encoder" .. more .. "--steps 4 "

local function run(line)
  local code, out, err = t.spcore(here, line)
  t.eq(code, 0, line .. ": " .. err)
  return out, err
end

local function losses(out)
  local seen = {}
  for step, loss in out:gmatch "step (%d+)/%d+  loss ([%d.]+)" do seen[#seen + 1] = step .. " " .. loss end
  t.ok(#seen > 2, "no losses in " .. out)
  return table.concat(seen, "\n")
end

local function chain(name, text)
  t.write(here .. "/" .. name, text)
  return " --augment " .. name
end

do -- the shipped chain, in a file of one's own; other steps, other losses; the device has no say
  local shipped = chain("copy.lua", [[
return {
  batch_crop { size = crop },
  flip {},
  batch_rotate { degrees = 45, mode = "bilinear", fill = 127 },
  color_jitter { brightness = 0.3, contrast = 0.3, saturation = 0.3, hue = 0.1 },
  blur { kernel = 3, sigma = { 0.1, 1.0 } },
}]])
  local plain = losses(run(cls))
  t.eq(losses(run(cls .. shipped .. " --out copy")), plain)
  t.eq(losses(run(cls .. shipped:gsub("copy", "cpu:copy") .. " --device mock --strategy pipelined")), plain)
  t.eq(losses(run(cls .. "--augment chains/cls.lua")), plain)
  local other = chain("other.lua", "local p = 0.9\nreturn { rand_augment { num_ops = 3 }, solarize { p = p }, false, gaussian_noise {} }")
  local bits = losses(run(cls .. other .. " --out other --checkpoint-every 3"))
  t.ok(bits ~= plain, "another chain, the same losses")
  t.eq(losses(run(cls .. other .. " --device mock --strategy pipelined --depth 2")), bits)
  local told = json.read(here .. "/other/settings.json")
  t.eq(told.augmentation.file, "other.lua")
  t.eq(table.concat(told.augmentation.steps, "; "), "rand_augment num_ops 3; solarize p 0.9; gaussian_noise")
  t.match(told.augmentation.text, "local p = 0.9")
  t.eq(told.model.crop, nil, "no window: predictions see whole images")
  t.eq(json.read(here .. "/copy/settings.json").model.crop, 14)
  run "run make_shapes.lua set --target class --samples 6 --size 24 --quiet --threads 2"
  run "run predict_cls.lua --weights other set/ring --device cpu --threads 2 --quiet"
end

do -- with masks, which must keep their size
  local plain, with = losses(run(seg)), losses(run(seg .. "--augment chains/seg.lua --out seg"))
  t.ok(plain ~= with, "a chain for masks changes nothing")
  t.eq(losses(run(seg .. "--augment cpu:chains/seg.lua --device mock --strategy pipelined")), with)
  t.eq(json.read(here .. "/seg/settings.json").augmentation.steps[1], "flip")
end

do -- options make the same chain, or change one that is there
  local plain = losses(run(cls))
  local all = "--crop 0.875 --flip 0.5 --rotate 45 --jitter 0.3 --hue 0.1 --blur 0.1,1 --kernel 3 "
  t.eq(losses(run(cls .. "--augment none " .. all)), plain)
  t.eq(losses(run(cls .. "--augment cpu --device mock --rotate 45")), plain)
  local function steps_of(line, name)
    local bits = losses(run(line .. "--checkpoint-every 3 --out " .. name))
    local told = json.read(here .. "/" .. name .. "/settings.json")
    return table.concat(told.augmentation and told.augmentation.steps or {}, "; "), bits, told
  end
  local steps, bits, told = steps_of(cls .. "--rotate 10 --jitter 0 --blur 0 --crop 0.5 --erase 0.3 ", "changed")
  t.eq(steps, "batch_crop size 8; flip; batch_rotate degrees 10 fill 127 mode bilinear; color_jitter hue 0.1; erase p 0.3 value 127")
  t.ok(bits ~= plain, "options change nothing")
  t.eq(told.model.crop, 8, "validation takes the middle of such a size")
  t.eq(steps_of(cls .. "--crop 0 --flip 0 --rotate 0 --jitter 0 --hue 0 --blur 0 ", "off"), "")
  t.eq(losses(run(cls .. "--augment none ")), losses(run(cls .. "--crop 0 --flip 0 --rotate 0 --jitter 0 --hue 0 --blur 0")))
  local line = "--flip 0.5,0.2 --rotate 20 --crop 0.75 --scale 0.8,1.25 --shift 0.1 --elastic 30,2 --noise 0.02,0.05 "
  local file = chain("masks.lua", [[
return {
  batch_crop { size = 12 }, resize { size = 16 }, flip { horizontal = 0.5, vertical = 0.2 },
  batch_rotate { degrees = 20, mode = "bilinear", fill = middle },
  affine { scale = { 0.8, 1.25 }, translate = 0.1, mode = "bilinear", fill = middle },
  elastic { alpha = 30, sigma = 2, fill = middle }, gaussian_noise { sigma = { 0.02, 0.05 } },
}]])
  local masks, seg_bits = steps_of(seg .. line, "masks")
  t.match(masks, "^batch_crop size 12; resize size 16; flip horizontal 0.5 vertical 0.2; batch_rotate degrees 20 ")
  t.eq(losses(run(seg .. file)), seg_bits) -- masks go along
  t.eq(losses(run(seg .. line .. "--augment cpu --device mock --strategy pipelined")), seg_bits)
  local function weights() return t.read(here .. "/masks/weights.safetensors") end
  local whole = weights()
  for _, name in ipairs { "checkpoint-4", "weights", "summary" } do
    os.remove(("%s/masks/%s.safetensors"):format(here, name))
    os.remove(("%s/masks/%s.json"):format(here, name))
  end
  run "run train_seg.lua --resume masks --quiet"
  t.ok(weights() == whole, "a run that goes on has its augmentation")
end

do -- one picture of it
  chain("sheet.lua", "return { resize { size = 24 }, grey { p = 0.5 }, channel_drop {}, rand_augment {}, trivial_augment {}, erase {} }")
  run "run show_augment.lua shapes --augment sheet.lua --size 32 --cell 32 --samples 2 --variants 2 --quiet --out a.png"
  local a = t.read(here .. "/a.png")
  run "run show_augment.lua shapes --augment sheet.lua --size 32 --cell 32 --samples 2 --variants 2 --quiet --device mock --out b.png"
  t.ok(a == t.read(here .. "/b.png"), "behind a border")
end

-- ---- what is wrong ----

local function wrong(line, pattern)
  local code, _, err = t.spcore(here, line .. " --quiet")
  t.one_line(err, pattern)
  t.ok(code ~= 0, line)
end

for i, case in ipairs {
  { "return {\n  flip {},\n  solarise {},\n}", "%.lua:3: unknown stage 'solarise', did you mean 'solarize'%?" },
  { "return {\n  solarize { p = 2 },\n}", "%.lua:2: .*parameter 'p': 2 is above 1" },
  { "return { flip {},\n to_float {} }", "%.lua:2: to_float makes no images, so it is no step of a chain" },
  { "return { augment {} }", "%.lua:1: augment makes float32 of uint8; leave it out" },
  { "return {\n flip { p = }\n}", "%.lua:2: unexpected symbol near '}'" },
  { "return flip {}", "it returns one step, where a list of steps is expected: return { flip {}, solarize { p = 0.2 } }" },
  { "flip {}", "it returns nothing, where a list of steps" },
  { "\nside = 3\nreturn {}", "%.lua:2: write `local side = %.%.%.`" },
  { "return { flip {}, 7 }", "item 2 of the list is a number; a step is the call of a stage" },
  { "return { first = flip {} }", "the list has a 'first'; steps stand in it without names" },
  { "return {\n flip { horizontal = hal } }",
    "%.lua:2: flip: 'horizontal' is a name that means no value here; a chain knows size, crop, middle and colours" },
  { "return {\n flip(3) }", "%.lua:2: flip takes a table of parameters: flip { %.%.%. }" },
  { "return { flip {},\n batch_crop { size = 8 } }", "%.lua:2: batch_crop must be the first step" },
  { "return { batch_crop { size = { 8, 2.5 } } }", "%.lua:1: batch_crop needs a size of whole numbers here" },
  { "return { flip { masks = 1 } }", "%.lua:1: flip gets its images and masks from the step before it" },
  { "local a = nil + 1", "%.lua:1: attempt to perform arithmetic" },
} do
  local name = "bad" .. i .. ".lua"
  wrong(cls .. chain(name, case[1]), "bad" .. i .. ".-" .. case[2])
end
wrong(cls .. "--augment nowhere.lua", "%-%-augment nowhere.lua: there is no such file")
wrong(cls .. "--augment gpus", "%-%-augment gpus: choose one of auto, cpu, gpu, none, or FILE.lua; did you mean 'gpu'%?")
wrong(cls .. "--augment gpu:copy.lua --device cpu", "the training runs on the cpu")
wrong(seg .. "--augment copy.lua", "copy.lua: it makes 14 x 14 of 16 x 16.*batch_resized_crop { size = size } cuts windows")
wrong(seg .. "--augment auto", "a segmentation has no augmentation of its own; name a chain, such as %-%-augment chains/seg.lua")
wrong(seg .. "--flip 0.5 --augment chains/seg.lua", "%-%-flip: chains/seg.lua has its own stages; leave it out")
wrong(cls .. "--rotate 1,2,3", "%-%-rotate 1,2,3: one number, or up to 2 with commas between, are expected")
wrong(cls .. "--erase 1.5", "%-%-erase 1.5: 1.5 is above 1")
wrong(cls .. "--scale 0.5,nan", "%-%-scale 0.5,nan: one number, or up to 2")
wrong(cls .. "--kernel 3", "%-%-kernel: goes with %-%-blur X")
wrong(cls .. "--blur 1 --kernel 4", "%-%-blur: .*a kernel of 4 pixels has no middle")
wrong("run show_augment.lua shapes --augment copy.lua --order flip", "%-%-order: copy.lua has its own stages; leave it out")
wrong("run show_augment.lua shapes --augment auto", "such as the shipped chains/cls.lua")

do -- a run that goes on with another text of the file
  chain("other.lua", "local p = 0.9\nreturn { rand_augment { num_ops = 3 }, solarize { p = p }, false, gaussian_noise {} } -- more")
  local code, _, err = t.spcore(here, "run train_cls.lua --resume other --override --steps 8 --quiet")
  t.eq(code, 0, err)
  t.match(err, "file 'other.lua'.*not as the checkpoint knows it")
end

do -- a sheet of what this run's own augmentation makes, in place of the training
  local function sheet(line, n)
    local out = run(line .. " --show-augment s.png --out not-there")
    t.match(out, ("s.png: %d samples, 5 epochs; nothing is trained"):format(n))
    t.match(t.read(here .. "/s.png"), "^\x89PNG")
    t.eq((require "spcore.sys").kind(here .. "/not-there"), nil, "a run was made")
    return t.read(here .. "/s.png")
  end
  local cls_sheet = sheet(cls, 6)
  t.eq(sheet(cls, 6), cls_sheet)
  t.ok(sheet(cls .. " --augment copy.lua --seed 2", 6) ~= cls_sheet)
  t.ok(sheet(cls .. " --augment other.lua", 6) ~= cls_sheet)
  sheet(seg .. " --augment chains/seg.lua", 6)
  t.ok(sheet(seg .. "--flip 1", 6) ~= sheet(seg .. "--flip 0,1", 6), "its options have no say")
  t.eq(select(2, t.spcore(here, seg .. "--show-augment s.png")), "", "what is printed")
  local code, _, err = t.spcore(here, seg .. "--show-augment s.png")
  t.eq(code, 2)
  t.one_line(err, "this run has no augmentation; name one, such as %-%-augment chains/seg.lua")
  code, _, err = t.spcore(here, cls .. "--show-augment s.jpg")
  t.eq(code, 2)
  t.one_line(err, "the name must end in .png")
end
