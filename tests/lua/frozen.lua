-- SPDX-License-Identifier: MIT
-- A frozen stage keeps weights and statistics, and passes the same gradient on as one that is trained.
-- needs: onednn images jansson
local sp = require "spcore"
local t = require "check"

local dir <close> = t.folder()
local path = dir.path .. "/weights.safetensors"

-- All weights before and after `steps` steps.
local function train(build, steps)
  local g <close> = sp.graph { seed = 5, threads = 2 }
  local data = g.reader { path = "shapes", size = { 16, 16 }, batch = 4, samples = 4 }
  local logits = build(g, g.to_float { data.image, scale = true }, data.classes)
  g:train { g.cross_entropy { logits, data.mask }, optimizer = g.sgd { lr = 0.5 } }
  g:save(path)
  local before = t.tensors(path)
  for _ in g:steps(steps) do end
  g:save(path)
  return before, t.tensors(path)
end

local function count(before, after, prefix)
  local same, other = 0, 0
  for name, bytes in pairs(after) do
    if name:sub(1, #prefix) == prefix then
      if bytes == before[name] then same = same + 1 else other = other + 1 end
    end
  end
  return same, other
end

do -- one step: where the encoder arrives does not depend on whether the decoder goes too
  local function plain(frozen)
    return function(g, image, classes)
      local enc = g.encoder { image, model = "plain", width = 8, depth = 2 }
      return g.decoder { enc.features, model = "plain", width = 8, classes = classes, frozen = frozen }.logits
    end
  end
  local start, both = train(plain(false), 1)
  local _, alone = train(plain(true), 1)
  local same, other = count(start, both, "encoder.")
  t.eq(same, 0, "all of the encoder is trained")
  t.eq(other, 6)
  same, other = count(both, alone, "encoder.")
  t.eq(same, 6, "as with a trained decoder")
  t.eq(other, 0)
  same, other = count(start, alone, "decoder.")
  t.eq(same, 6, "the frozen decoder stays")
  t.eq(other, 0)
end

do -- batch norm: a frozen one counts no statistics, also where a gradient goes through it
  local function unet(encoder, decoder)
    return function(g, image, classes)
      local enc = g.encoder { image, model = "unet", width = 8, depth = 1, convs = 1, frozen = encoder }
      return g.decoder {
        enc.features, skips = enc.maps, model = "unet", width = 8, convs = 1, classes = classes, frozen = decoder,
      }.logits
    end
  end
  for _, frozen in ipairs { "encoder", "decoder" } do
    local start, ended = train(unet(frozen == "encoder", frozen == "decoder"), 3)
    local _, changed = count(start, ended, frozen .. ".")
    t.eq(changed, 0, frozen .. " is frozen")
    local stays = count(start, ended, (frozen == "encoder" and "decoder" or "encoder") .. ".")
    t.eq(stays, 0, "all but the " .. frozen .. " is trained")
  end
end
