-- SPDX-License-Identifier: MIT
-- The shipped encoder: it is small, loads into the encoder of train_seg.lua, and what is loaded is what is in the file. The
-- script that made it.
-- needs: onednn images jansson
-- once: a script and a file
local sp = require "spcore"
local t = require "check"

local shipped = sp.shipped "shapes_encoder.safetensors"
t.ok(#t.read(shipped) < 1000000, "under 1 MB")

local dir <close> = t.folder()

do -- the bytes
  local g <close> = sp.graph { threads = 2 }
  local data = g.reader { path = "shapes", size = { 64, 64 }, batch = 1 }
  local image = g.to_float { data.image, scale = true }
  g.encoder { image, model = "unet", width = 8, levels = 3, convs = 2, frozen = true, weights = shipped }
  for _ in g:steps(1) do end
  g:save(dir.path .. "/again.safetensors")
  local file, again, n = t.tensors(shipped), t.tensors(dir.path .. "/again.safetensors"), 0
  for name, bytes in pairs(again) do
    t.ok(bytes == file[name], name .. " is as in the file")
    file[name] = nil
    n = n + 1
  end
  t.eq(next(file), nil, "left in the file")
  t.eq(n, 8 * 6, "8 convolutions, each with batch norm")
end

do -- train_seg.lua as it is by default
  local code, out, err = t.spcore(dir.path, "run train_seg.lua --steps 2 --samples 64 --out run --threads 2")
  t.eq(err, "")
  t.eq(code, 0)
  t.match(out, "validation mean IoU 0%.%d+")
  local file, run = t.tensors(shipped), t.tensors(dir.path .. "/run/weights.safetensors")
  for name, bytes in pairs(file) do t.ok(run[name] == bytes, name .. " stays, being frozen") end
end

do -- pretrain_shapes.lua, which made it, knows before the training whether it can write at the end
  local tiny = "run pretrain_shapes.lua --size 16 --batch 4 --samples 64 --width 2 --levels 2 --steps 2 --threads 1 --quiet --to "
  assert(os.execute(("mkdir '%s/made.safetensors'"):format(dir.path)))
  for to, why in pairs {
    ["nodir/x.safetensors"] = "%-%-to nodir/x.safetensors: there is no folder nodir\n$",
    ["x.txt"] = "%-%-to: x.txt: no plugin reads or writes '.txt' files", ["made.safetensors"] = "that is a folder; name a file\n$",
    ["/proc/x.safetensors"] = "%-%-to: no file can be made there: /proc/x.safetensors.tried: ",
  } do
    local code, out, err = t.spcore(dir.path, tiny .. to)
    t.eq(code .. out, "2", to)
    t.one_line(err, why)
  end
  local code, out, err = t.spcore(dir.path, tiny .. "x.safetensors")
  t.eq(code .. err, "0")
  t.match(out, ": x.safetensors, validation mean IoU ")
  t.ok(t.tensors(dir.path .. "/x.safetensors")["encoder.levels.0.0.weight"])
  t.ok(not io.open(dir.path .. "/x.safetensors.tried"))
end
