-- SPDX-License-Identifier: MIT
-- spcore data: what it says of folders, with and without mistakes in them; and what a run says at its beginning.
-- needs: onednn images jansson
-- once: words; check_reader and its like have the stage
local json = require "spcore.json"
local sys = require "spcore.sys"
local t = require "check"

local dir <close> = t.folder()
local function run(line) return t.spcore(dir.path, line) end
local function make(name, more)
  t.eq((run(("run make_shapes.lua %s --samples 40 --size 24 --quiet %s"):format(name, more))), 0)
end
local function at(name) return dir.path .. "/" .. name end

-- ---- masks ----
make("m", "--format png")
t.write(at "m/images/notes.txt", "")
local code, out, err = run "data m"
t.eq(code .. err, "0")
t.eq(out, "m: layout pairs, target mask\n  34 train, 6 val, 6 classes: ground, disc, square, triangle, ring, cross\n"
  .. "  left out: 1 file of another ending, such as images/notes.txt\n  sizes, width x height: 24 x 24 (40)\n"
  .. "  images hold uint8, 3 channels (40)\n")

code, out, err = run "data m --check"
t.eq(code .. err, "0")
t.match(out, "\n  sizes, width x height: 24 x 24 %(40%)\n  images hold uint8, 3 channels %(40%)\n  train pixels: ground %d+%.%d %%, disc ")
t.match(out, "\n  val masks with a class: ground 6, disc ")
t.match(out, "\n  all 40 samples can be used\n$")

-- One that is cut off, one whose mask has another size, one with a label that is no class.
local image, mask = t.read(at "m/images/00003.png"), t.read(at "m/masks/00004.png")
t.write(at "m/images/00003.png", image:sub(1, #image // 2))
make("big", "--format png --size 32")
t.write(at "m/masks/00007.png", t.read(at "big/masks/00007.png"))
t.write(at "m/classes.txt", "ground\ndisc\nsquare\ntriangle\nring\n")
code, out, err = run "data m --check --json"
local doc = json.decode(out)
t.eq(code, 1)
t.eq(doc.check.samples, 40)
t.eq(#doc.check.wrong, select(2, err:gsub("\n", "")))
t.match(err, "m/images/00003%.png: ")
t.match(err, "m/images/00007%.png is 24 x 24 pixels, but its mask m/masks/00007%.png is 32 x 32")
t.match(err, "m/masks/%d+%.png: label 5 at x = %d+, y = %d+, but there are 5 classes")
local wrong = table.concat(doc.check.wrong, " ")
t.match(wrong, "m/images/00003%.png")
t.match(wrong, "m/images/00007%.png")
local sizes = 0
for _, s in ipairs(doc.check.sizes) do sizes = sizes + s.samples end
t.eq(sizes + #doc.check.wrong, 40)
local all = doc.check.unlabelled
for _, share in ipairs(doc.check.pixels) do all = all + share end
t.ok(math.abs(all - 1) < 1e-9)
t.write(at "m/masks/00004.png", mask)

-- ---- classes, in splits of their own ----
make("c", "--target class --layout splits")
t.write(at "c/train/disc/empty.jpg", "")
t.write(at "c/readme", "")
code, out, err = run "data c --json"
doc = json.decode(out)
t.eq(code .. err, "0")
t.eq(doc.layout .. doc.target .. doc.classes, "classesclass5")
t.eq(table.concat(doc.class_names, " "), "cross disc ring square triangle")
local n = 0
for _, split in ipairs { "train", "val" } do
  local sum = 0
  for _, k in ipairs(doc.counts[split]) do sum = sum + k end
  t.eq(sum, doc.samples[split])
  n = n + sum
end
t.eq(n, 41)
code, out, err = run "data c --check"
t.eq(code, 1)
t.one_line(err, "c/train/disc/empty%.jpg: ")
t.match(out, "\n  train: cross %d+, disc %d+, .*\n  val: cross ")
t.match(out, "1 of 41 samples cannot be used; what is wrong is said above\n$")

-- ---- other places ----
t.match(select(2, run "data shapes"), "^shapes: layout shapes, target mask\n  3584 train, 512 val, 6 classes: ground")
t.match(select(2, run "data shapes --target class"), "^shapes: layout shapes, target class\n  7168 train, 1024 val, 5 classes: cross")
t.match(select(2, run "data c/train --val c/val"), "target class\n  37 train, 4 val, 5 classes")
sys.mkdir(at "none")
for line, words in pairs {
  ["data"] = "a folder of data is wanted", ["data m c"] = "one folder at a time", ["data nosuch"] = "nosuch: No such file",
  ["data none"] = "none holds neither images/ and masks/", ["data m --target class"] = "m.*for target = \"mask\"",
  ["data m --chekc"] = "did you mean '%-%-check'",
} do
  code, out, err = run(line)
  t.ok(code ~= 0 and out == "", line)
  t.one_line(err, words)
end

-- ---- a mistake in a set is told as one of its own target, whatever the other one's reader says ----
local function cut(path, bytes) t.write(path, t.read(path):sub(1, bytes)) end
for layout, spoil in pairs {
  classes = { "class", function(name) os.execute(("cd '%s' && mv disc train"):format(at(name))) end, " holds train/, a part by its name" },
  csv = { "mask class", function(name) t.write(at(name .. "/labels.csv"), t.read(at(name .. "/labels.csv")) .. "x\n") end,
    "/labels.csv line 42: 1 fields, but the header has 2" },
  npy = { "mask class", function(name)
    for _, file in ipairs { "masks", "labels" } do
      if sys.there(at(("%s/%s.npy"):format(name, file))) then cut(at(("%s/%s.npy"):format(name, file)), 60) end
    end
  end, "/%a+s.npy: it ends within its header" },
  webdataset = { "mask class", function(name)
    local path = at(name .. "/shapes-000000.tar")
    t.write(path, (t.read(path):gsub("00000%.%a[%a.]+\0", function(member)
      return member:find "jpg" and member or "00000." .. ("x"):rep(#member - 7) .. "\0" -- a broken sum of its header, too
    end, 2)))
  end, "/shapes%-000000.tar" },
  pairs = { "mask", function(name) os.execute(("rm -r '%s/masks'"):format(at(name))) end, "/masks" },
  voc = { "mask", function(name) os.execute(("rm '%s'/ImageSets/*/*"):format(at(name))) end, "/ImageSets/Segmentation" },
} do
  for target in spoil[1]:gmatch "%a+" do
    local name = layout .. "_" .. target
    make(name, ("--layout %s --target %s"):format(layout, target))
    local train, val = select(2, run("data " .. name)):match(("target %s\n  (%%d+) train, (%%d+) val, "):format(target))
    t.ok(train + val == 40 and val + 0 >= 1 and val + 0 <= 12, ("%s: %s train, %s val"):format(name, train, val))
    spoil[2](name)
    local _, _, wanted = run(("data %s --target %s"):format(name, target))
    code, out, err = run("data " .. name)
    t.eq(code .. out, "1", name)
    t.one_line(err, name .. spoil[3])
    t.eq(err, wanted, name)
  end
end

-- compressed, what is in it is not looked at before
make("packed", "--layout webdataset --target class")
os.execute(("gzip '%s'"):format(at "packed/shapes-000000.tar"))
t.match(select(2, run "data packed"), "layout webdataset, target class\n  %d+ train, %d+ val, ")

-- ---- the beginning of a run: said once, though two readers see it ----
code, out, err = run "run train_cls.lua --data c --steps 1 --size 16 --batch 4 --width 4 --levels 2"
t.eq(code, 0)
t.match(out, "\ndata c: 37 train, 4 val, 5 classes, left out: 1 file of another ending\n")
t.eq(select(2, err:gsub("left out", "")), 1)

-- ---- and of one whose data do not say what is for validation: as many as here ----
make("own", "--target class")
make("masked", "")
for script, names in pairs { seg = { "masked", "shapes" }, cls = { "own", "shapes" } } do
  for _, name in ipairs(names) do
    code, out, err = run(("run train_%s.lua --data %s --steps 1 --size 16 --batch 4"):format(script, name))
    t.eq(code .. err, "0")
    t.eq(select(2, run(("data %s --target %s"):format(name, script == "seg" and "mask" or "class"))):match "%d+ train, %d+ val",
      out:match(("\ndata %s: (%%d+ train, %%d+ val)"):format(name)), script .. name)
  end
end
