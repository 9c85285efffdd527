-- SPDX-License-Identifier: MIT
-- A run that goes on with other data, or another script, says so, with --quiet too; with the same it says nothing.
-- needs: jansson onednn images
local t = require "check"

local dir <close> = t.folder()
local function sh(line) t.ok(os.execute(("cd '%s' && %s"):format(dir.path, line)), line) end
local function run(line) return t.spcore(dir.path, "run " .. line) end

t.write(dir.path .. "/mine.lua", "return { lr = 0.01 }\n")
t.write(dir.path .. "/own.lua", "return function(x) coroutine.yield(x) return x, nil end\n")
local shipped = package.searchpath("spcore.init", package.path):gsub("spcore/init.lua$", "train_cls.lua")
t.write(dir.path .. "/toy.lua", 'local mine, own = require "mine", dofile "own.lua"\n' .. t.read(shipped))
local small = "--device cpu --quiet --no-tensorboard --pictures 0 --batch 2 --size 16 --width 2 --levels 1 --augment none "
local function made(name, line)
  t.eq(run(("make_shapes.lua --quiet --samples 16 --size 16 --format png %s %s"):format(line, name)), 0)
  local code, _, err = run(("toy.lua %s --data %s --steps 6 --checkpoint-every 3 --eval-every 3 --out %s-run"):format(small, name, name))
  t.eq(code .. err:gsub("[^\n]*says which files there are\n", ""), "0")
end

-- Goes on in a copy, after `change`; then everything is as before.
local function resumed(name, change)
  sh(("cp -a %s kept && mkdir -p scripts && cp -a toy.lua mine.lua own.lua scripts"):format(name))
  sh(("rm -rf again && cp -a %s-run again"):format(name))
  sh(change)
  local code, out, err = run "toy.lua --resume again --override --steps 8"
  t.eq(code, 0, out .. err)
  sh(("rm -rf %s && mv kept %s && cp -a scripts/toy.lua scripts/mine.lua scripts/own.lua ."):format(name, name))
  return (err:gsub("[^\n]*says which files there are[^\n]*\n", "")) -- of a folder with a table
end
local function warned(name, change, pattern) t.one_line(resumed(name, change), "%-%-resume again: " .. pattern) end

made("photos", "--layout classes")
t.eq(resumed("photos", "true"), "")
local first = "f=$(find photos -name '*.png' | sort | head -n 1) && "
warned("photos", first .. "cat $(find photos -name '*.png' | sort | tail -n 1) >$f",
  "the files of 'reader[^:]*: not as the checkpoint knows")
warned("photos", first .. "mv $f ${f%.png}zzz.png", "the files of 'reader.*images, labels or their order")
warned("photos", first .. "cp -a $f ${f%.png}b.png && rm $(find photos -name '*.png' | sort | tail -n 1)", "the files of 'reader")
warned("photos", first .. "touch $f", "the files of 'reader.*if their content is the same, too, nothing changes")
warned("photos", "echo '-- more' >>toy.lua", "the script: not as the checkpoint knows it")
warned("photos", "echo '-- more' >>mine.lua", "module 'mine': not as the checkpoint knows it")
warned("photos", "echo '-- more' >>own.lua", "file 'own.lua': not as the checkpoint knows it")
made("table", "--layout csv --target class")
t.eq(resumed("table", "true"), "")
warned("table", "sed -i '2d' table/labels.csv", "the files of 'reader.*images, labels")
made("tar", "--layout webdataset --target class --shard-size 8")
warned("tar", ("'%s' run make_shapes.lua --quiet --samples 16 --size 16 --format png --layout webdataset "
  .. "--target class --shard-size 8 --data-seed 1 other >/dev/null && cp other/*.tar tar"):format(t.program), "the files of 'reader")

-- ---- a sample stays on its side of the split when others come, go or are renamed ----
sh "mkdir grows && find photos -name '*.png' | sort | head -n 1 | xargs -I F cp F one.png"
local function put(from, to)
  for i = from, to do sh(("mkdir grows/c%03d && cp one.png grows/c%03d/x%d.png"):format(i, i, i)) end
end
-- A class of one file each, so its count says on which side that file is.
local function sides()
  local g <close> = require "spcore".graph { device = "cpu" }
  local data = g.reader { path = dir.path .. "/grows", target = "class", split = "val", val_fraction = 0.3, size = 8, batch = 1 }
  local counts, of, n = {}, {}, 0
  for count in data.counts:gmatch "%d+" do counts[#counts + 1] = count end
  for name in data.class_names:gmatch "[^\n]+" do
    n = n + 1
    of[name] = counts[n]
  end
  return of
end
put(1, 60)
local before = sides()
for _, change in ipairs { function() put(61, 90) end, function() sh "rm -r grows/c00*" end,
  function() sh "for i in 1 2 3 4 5 6 7 8 9; do mv grows/c01$i grows/z$i; done" end } do
  change()
  local after, kept = sides(), 0
  for name, side in pairs(before) do
    if after[name] then
      kept = kept + 1
      t.eq(after[name], side, name)
    end
  end
  t.ok(kept > 30)
end
