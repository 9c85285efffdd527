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
photos/images/bad.jpg: neither JPEG nor PNG, nor WebP or TIFF, by its first bytes
missing.png: No such file or directory
]]))
os.remove(at .. "/photos/images/bad.jpg")

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
t.one_line(err, "best has no weights.safetensors, its run has not ended; go on with it, %-%-resume best, or take %-%-best")
os.remove(at .. "/best/best.safetensors")
_, err = run("predict_cls.lua --weights best --best --out c.csv shapes/disc --device cpu", 2)
t.one_line(err, "best has no best.safetensors, its run has made no validation")
for i, how in ipairs { "--batch 1 --strategy replicas --depth 3", "--batch 5 --device mock" } do
  run(("predict_seg.lua --weights seg --out masks%d photos/images %s"):format(i, how))
  for _, kind in ipairs { "masks", "overlays" } do
    t.ok(os.execute(("cd '%s/masks/%s' && for f in 000??.png; do cmp -s $f '%s/masks%d/%s/'$f || exit 1; done"):format(at, kind, at,
      i, kind)), how)
  end
end

run "predict_cls.lua --weights cls --out a.csv shapes/disc shapes/ring --device cpu"
run "predict_cls.lua --weights cls --out b.csv shapes/disc/ shapes/ring/ --batch 1 --strategy replicas --device mock"
t.eq(t.read(at .. "/a.csv"), t.read(at .. "/b.csv"))
local lines = 0
for line in t.read(at .. "/a.csv"):gmatch "[^\n]+" do
  lines = lines + 1
  t.match(line, lines == 1 and "^file,class,name,probability$" or "^shapes/%a+/[%d_]+%.jpg,[0-4],%a+,[01]%.%d%d%d%d$")
end
t.eq(lines, 1 + #sys.list(at .. "/shapes/disc") + #sys.list(at .. "/shapes/ring"))

assert(sys.mkdir(at .. "/empty"))
for _, which in ipairs { "seg", "cls" } do
  local script = ("predict_%s.lua "):format(which)
  local _, words = run(script .. "photos/images", 2)
  t.one_line(words, "%-%-weights RUN is missing")
  _, words = run(script .. "--weights " .. which, 2)
  t.one_line(words, "no image is given")
  _, words = run(script .. "--weights nowhere photos/images", 2)
  t.one_line(words, "%-%-weights: .*nowhere/settings.json")
  _, words = run(script .. ("--weights %s photos/images"):format(which == "seg" and "cls" or "seg"), 2)
  t.one_line(words, "describes no model; is it a run of train_" .. which)
  _, words = run(script .. ("--weights %s empty"):format(which), 1)
  t.one_line(words, "empty: no %*%.jpg|jpeg|png|webp|tif|tiff is in this folder")
end
_, err = run("predict_cls.lua --weights cls --out /nowhere/x.csv shapes/disc", 1)
t.one_line(err, "/nowhere/x.csv")
