-- SPDX-License-Identifier: MIT
-- show_augment.lua: a sheet of every kind of data, the same for the same seed; what is wrong is said in one line.
-- needs: images
-- once: a script
local sys = require "spcore.sys"
local t = require "check"

local dir <close> = t.folder()
local here = dir.path

local function run(line) return t.spcore(here, "run show_augment.lua --quiet --threads 2 " .. line) end

-- Width and height as the file's header has them.
local function size_of(png)
  t.eq(png:sub(1, 8), "\137PNG\r\n\26\n")
  t.eq(png:sub(-8, -5), "IEND", "the end of the file")
  return (">I4I4"):unpack(png, 17)
end

local function sheet(name, line)
  local code, out, err = run(("%s --out '%s'"):format(line, name))
  t.eq(err, "")
  t.eq(code, 0)
  t.match(out, "^" .. name:gsub("%p", "%%%0") .. ": %d+ samples?, %d+ epochs?\n$")
  return t.read(here .. "/" .. name)
end

local small = " --size 32 --cell 32 --samples 3 --variants 2 "

-- A cell has 18 letters of 6 pixels at least; between are 28, at the sides 16.
local function width(columns, cell) return 32 + cell + 28 + columns * (cell + 14) - 14 end

do -- built-in sets: masks beside the images, pictures of two pixels a pixel
  local a = sheet("a.png", "shapes" .. small)
  t.eq(size_of(a), width(2, 108))
  t.ok(a == sheet("b.png", "shapes" .. small), "same seed, same bytes")
  t.ok(a == sheet("a.png", "shapes --workers 3 --strategy pipelined" .. small), "however it is run, over the old file")
  t.ok(a == sheet("b.png", "shapes --device mock" .. small), "behind a border")
  t.ok(a ~= sheet("b.png", "shapes --seed 2" .. small), "another seed")
  t.eq(size_of(sheet("b.png", "random --size 32 --cell 64 --samples 2 --variants 3 --crop 0")), width(3, 136))
  t.eq(size_of(sheet("b.png", "shapes --target class" .. small)), width(2, 108))
end

do -- each stage can be left out, then it is not on the sheet; without any, three pictures stand beside each other
  local _, all = size_of(t.read(here .. "/a.png"))
  local off = { "--crop 0", "--flip 0", "--rotate 0", "--jitter 0 --hue 0", "--blur 0" }
  for _, option in ipairs(off) do
    local _, height = size_of(sheet("c.png", "shapes" .. small .. option))
    t.ok(height < all, option .. ": a caption less")
  end
  local none = sheet("c.png", "shapes" .. small .. table.concat(off, " "))
  t.ok(none == sheet("d.png", "shapes --order ''" .. small), "all off")
  local a = sheet("c.png", "shapes --order crop,flip" .. small)
  t.ok(a ~= sheet("d.png", "shapes --order flip,crop" .. small), "the order counts")
  sheet("c.png", "shapes --crop 20,24 --resize 40,16 --flip 0.5,0.2 --rotate -10,80 --mode bilinear --jitter 0.1,0,0.4 "
    .. "--scale 1.2 --shift 0.1,0 --shear -5,5 --perspective 0.2 --elastic 20,3 --noise 0.02 --erase 0.5,0.1,0.2 "
    .. "--blur 1.5 --kernel 3 --same-on-batch --text 2 --size 24,40 --samples 20 --variants 2")
end

do -- files: masks with names, masks without classes.txt, classes, images alone
  t.eq(t.spcore(here, "run make_shapes.lua set --samples 5 --size 40 --quiet"), 0)
  t.eq(t.spcore(here, "run make_shapes.lua classes --target class --samples 20 --size 40 --quiet"), 0)
  local w, h = size_of(sheet("e.png", "set --samples 8 --variants 2 --size 32 --cell 32 --order crop"))
  t.eq(w, width(2, 108))
  local _, two = size_of(sheet("f.png", "set --samples 2 --variants 2 --size 32 --cell 32 --order crop"))
  t.eq((h - two) % 3, 0, "five samples are three rows more than two, not six")
  t.ok(h - two > 3 * 34, "three rows")
  os.rename(here .. "/set/classes.txt", here .. "/set/classes.no")
  sheet("new/folder/f.png", "set" .. small) -- folders are made
  t.eq(sys.kind(here .. "/new/folder/f.png"), "file")
  t.eq(size_of(sheet("f.png", "classes --size 64 --cell 40 --samples 3 --variants 2")), width(2, 108))
  sheet("f.png", "set/images/00001.jpg set/images/00000.jpg" .. small)
  sheet("f.png", "set/images/00001.jpg --samples 1 --variants 1")
  -- splits of its own: 9 for training, 1 for validation, which is not shown
  t.eq(t.spcore(here, "run make_shapes.lua own --layout splits --samples 10 --size 40 --quiet"), 0)
  local nine = sheet("f.png", "own --samples 9 --variants 1 --size 32 --cell 32")
  t.ok(nine == sheet("g.png", "own --samples 12 --variants 1 --size 32 --cell 32"), "all of own/train")
  -- PASCAL VOC's layout is one of masks; a .csv file is no image
  t.eq(t.spcore(here, "run make_shapes.lua voc --layout voc --samples 9 --size 40 --quiet"), 0)
  t.eq(t.spcore(here, "run make_shapes.lua list --layout csv --target class --samples 9 --size 40 --quiet"), 0)
  os.remove(here .. "/voc/classes.txt")
  t.eq(size_of(sheet("f.png", "voc --samples 9 --variants 1 --size 32 --cell 32")), size_of(nine))
  t.eq(size_of(sheet("f.png", "list/labels.csv --samples 9 --variants 1 --size 32 --cell 32")), size_of(nine))
end

-- ---- what is wrong ----

local function wrong(line, code, pattern)
  local got, _, err = run(line)
  t.one_line(err, pattern)
  t.eq(got, code, line)
end

wrong("", 2, "no folder is given")
wrong("nowhere", 1, "nowhere: No such file or directory")
wrong("shapes set", 2, "set: several images are expected, or one folder")
wrong("shapes --out x.jpg", 2, "%-%-out x.jpg: the name must end in .png")
wrong("shapes --out set/images/00000.jpg/x.png", 1, "set/images/00000.jpg")
wrong("shapes --size 12,a", 2, "%-%-size 12,a: one number, or up to 2 with commas between, are expected")
wrong("shapes --size 1,2,3", 2, "%-%-size 1,2,3: one number")
wrong("shapes --size 0", 2, "%-%-size 0: 0 is below 1")
wrong("shapes --size 2.5", 2, "%-%-size 2.5: whole pixels")
wrong("shapes --crop 2.5", 2, "%-%-crop 2.5: a part of the side up to 1, or whole pixels")
wrong("shapes --crop 0.5,0", 2, "%-%-crop 0.5,0: a part")
wrong("shapes --crop 200", 1, "a window of 200 x 200 does not fit into images of 128 x 128")
wrong("shapes --flip -1", 2, "%-%-flip %-1: %-1 is below 0")
wrong("shapes --flip 2", 2, "%-%-flip 2: 2 is above 1")
wrong("shapes --rotate nan", 2, "%-%-rotate nan: one number")
wrong("shapes --rotate 30,10", 1, "the first is the lowest angle")
wrong("shapes --jitter 1,2", 2, "%-%-jitter 1,2: one number, or brightness,contrast,saturation")
wrong("shapes --hue 0.7", 2, "%-%-hue 0.7: 0.7 is above 0.5")
wrong("shapes --scale 1.2,0.8", 2, "%-%-scale 1.2,0.8: factors above 0 are expected, the lower one first, such as 0.8,1.25")
wrong("shapes --kernel 4", 1, "a kernel of 4 pixels has no middle")
wrong("shapes --mode cubic", 2, "%-%-mode cubic: choose one of nearest, bilinear")
wrong("shapes --order crop,crp", 2, "%-%-order crop,crp: there is no 'crp'")
wrong("shapes --order crop,crop", 2, "'crop' stands there twice")
wrong("shapes --variants 1000", 1, "a sheet of 1000 columns would be %d+ pixels wide, 16384 are possible")
wrong("shapes --samples 1000", 1, "a sheet of 1000 rows and 5 columns would be %d+ x %d+ pixels")

do -- nothing is left of a sheet that could not be written, nor is the old one gone
  t.eq(sys.kind(here .. "/sheet.png"), nil)
  t.write(here .. "/set/images/00003.jpg", "no picture")
  local old = t.read(here .. "/e.png")
  wrong("set --size 32 --out e.png", 1, "set/images/00003.jpg")
  t.ok(old == t.read(here .. "/e.png"), "the old one")
end

do -- samples come from all classes alike, the first ones of each, and bear their files' names
  local classes, line = { "cross", "disc", "ring", "square", "triangle" }, "classes --size 16 --cell 16 --order '' --variants 1 "
  local first, second = {}, {}
  for i, name in ipairs(classes) do
    local files = assert(sys.list(here .. "/classes/" .. name))
    table.sort(files)
    first[i], second[i] = ("classes/%s/%s"):format(name, files[1]), ("classes/%s/%s"):format(name, files[2])
  end
  -- samples that are read, of those that are broken one at a time
  local function reads(samples, file)
    local path = here .. "/" .. file
    local whole = t.read(path)
    t.write(path, "no picture")
    local code, _, err = run(line .. "--out h.png --samples " .. samples)
    t.write(path, whole)
    if code ~= 0 then t.one_line(err, file) end
    return code ~= 0
  end
  for i in ipairs(classes) do
    t.ok(reads(5, first[i]), "the first of " .. classes[i])
    t.eq(reads(7, second[i]), i <= 2, "two of " .. classes[i])
  end
  t.ok(reads(2, first[1]) and reads(2, first[3]) and not reads(2, first[2]), "two of five classes")
  local short = sheet("h.png", line .. "--samples 5")
  t.ok(os.rename(here .. "/classes/disc", here .. "/classes/disk"))
  t.ok(short ~= sheet("h.png", line .. "--samples 5"), "the class stands there")
end

do -- a build that lacks a stage: the program with some of its plugins
  local from = t.program:match "^(.*)/"
  local srcdir = assert(sys.realpath(os.getenv "top_srcdir"))
  assert(sys.mkdir(here .. "/.libs"))
  for _, name in ipairs { "spcore", ".libs/reader.so", ".libs/batch_crop.so", ".libs/contact_sheet.so" } do
    t.ok(os.execute(("cp '%s/%s' '%s/%s'"):format(from, name, here, name)), "copied " .. name)
  end
  t.write(here .. "/spcore.tree", ("srcdir=%s\n"):format(srcdir))
  local function lacking(line)
    local _, _, code = os.execute(("cd '%s' && SPCORE_PLUGIN_PATH= ./spcore run show_augment.lua shapes --quiet "
      .. "--device cpu --size 32 --cell 32 %s >out.txt 2>err.txt"):format(here, line))
    return code, t.read(here .. "/err.txt")
  end
  local code, err = lacking ""
  t.one_line(err, "%-%-flip: this build has no stage 'flip'; %-%-flip 0 does without")
  t.eq(code, 2)
  code, err = lacking "--flip 0 --rotate 0 --jitter 0 --hue 0 --blur 0"
  t.eq(err, "")
  t.eq(code, 0)
  code, err = lacking "--flip 0 --rotate 0 --jitter 0 --hue 0.2"
  t.one_line(err, "%-%-hue: this build has no stage 'color_jitter'; %-%-jitter 0 %-%-hue 0 does without")
  t.eq(code, 2)
  code, err = lacking "--order crop --cell 16"
  t.one_line(err, "%-%-cell 16: this build has no stage 'resize'; %-%-cell 32 does without")
  t.eq(code, 2)
end
