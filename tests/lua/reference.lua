-- SPDX-License-Identifier: MIT
-- The reference workloads: they print steps/s wherever the augmentation runs, and of the steps that were made where they are
-- interrupted; the options that named them before say the new command.
-- needs: onednn jansson
-- once: scripts, of stages that each have a test
local t = require "check"

local dir <close> = t.folder()
local small = " --size 16 --batch 4 --steps 4 --warm-up 1 --threads 2 "

for i, line in ipairs {
  "cls", "cls --device mock --augment cpu --strategy pipelined", "cls --augment none", "cls --no-fused",
  "cls --no-fused --device mock --augment cpu", "seg", "seg --train-encoder --strategy pipelined",
} do
  local name, more = line:match "^(%a+)(.*)$"
  local code, out, err = t.spcore(dir.path, ("run reference_%s.lua --quiet --out r%d"):format(name, i) .. small .. more)
  t.eq(code, 0, line .. ": " .. err)
  t.match(out, "^r%d: [%d.]+ steps/s\n$")
end
local plain = t.read(dir.path .. "/r1/metrics.jsonl"):gsub('"time":[^,]*', ""):gsub('"sum":[^}]*', "")
local elsewhere = t.read(dir.path .. "/r2/metrics.jsonl"):gsub('"time":[^,]*', ""):gsub('"sum":[^}]*', "")
t.eq(elsewhere, plain)

-- of all that were asked for it would be a hundred million steps in a moment
local code, said, err = t.interrupted(dir.path, "run reference_cls.lua --size 16 --batch 4 --steps 100000000 --warm-up 1 --threads 1 "
  .. "--out cut", '"step":9', "cut/metrics.jsonl")
t.eq(code, 130, err)
t.ok(tonumber(said:match "([%d.]+) steps/s") < 1e6, said)

for line, words in pairs {
  ["reference_cls.lua --size 1"] = "'crop': 0 is below 1 px",
  ["reference_cls.lua --augment none --no-fused"] = "%-%-no%-fused: goes with an augmentation, and not with %-%-augment none\n$",
  ["reference_cls.lua --augment gpu --device cpu"] = "%-%-augment gpu: the training runs on the cpu; take %-%-device cuda",
  ["reference_seg.lua --val x"] = "unknown option '%-%-val'",
  ["train_cls.lua --warm-up 5 --reference --out 'a b'"] = "^spcore: train_cls.lua: 'reference' is a script of its own; run it instead: "
    .. "spcore run reference_cls.lua %-%-warm%-up 5 %-%-out 'a b'\n$",
  ["train_seg.lua --reference"] = "spcore run reference_seg.lua\n$",
} do
  code, _, err = t.spcore(dir.path, "run " .. line)
  t.ok(code ~= 0, line)
  t.one_line(err, words)
end
