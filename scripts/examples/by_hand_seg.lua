-- SPDX-License-Identifier: MIT
-- The first two loops of "Pipelining AI/ML Training Workloads with CUDA Streams" (C. Rand, 2025), line by line: a
-- frozen encoder and a decoder that is trained, on random data. `published` is the article's pipelined loop with the
-- waits that it has; --check-races names those that it lacks. `corrected` has them all.
--
--   spcore run by_hand_seg.lua --check-races
--   spcore run by_hand_seg.lua --device cuda --size 256 --batch 8 --batches 16 --steps 100 --warm-up 10
local sp = require "spcore"
local by_hand = require "spcore.by_hand"

local opt = sp.args(by_hand.options {
  size = { 32, "pixels of a side, a power of two", min = 2, max = 1024 },
  batch = { 4, "images a step", min = 1, max = 65536 },
  lr = { 1e-3, "learning rate", min = 0.0 },
}, { doc = "The segmentation loops of an article about CUDA streams, written by hand.", without = { "graph" } })

local wait = by_hand.waits(opt, { "inputs", "features", "reuse" })
local n, size = opt.batch, opt.size

-- Two buffers of each kind: step s and the one before it. PyTorch's allocator gives as many in turn.
local function objects(h)
  local o = { losses = h.tensor { "f32", opt.warm_up + opt.steps, at = "pinned", name = "losses" } }
  o.main = h.stream { name = "main" } -- PyTorch's default stream
  o.encoder_stream, o.decoder_stream = h.stream { name = "encoder" }, h.stream { name = "decoder" }
  o.to_float = h.stage.to_float()
  o.encoder = h.stage.encoder { model = "plain", frozen = true }
  o.decoder = h.stage.decoder { model = "plain", classes = 10 }
  o.criterion = h.stage.cross_entropy()
  o.optimizer = h.stage.sgd { lr = opt.lr }
  for _, name in ipairs { "bytes", "inputs", "labels", "features", "copied", "encoded", "trained" } do
    o[name] = {}
  end
  for s = 0, 1 do
    o.bytes[s] = h.tensor { "u8", n, 3, size, size, name = "bytes " .. s }
    o.inputs[s] = h.tensor { "f32", n, 3, size, size, name = "inputs " .. s }
    o.labels[s] = h.tensor { "u8", n, size, size, name = "labels " .. s }
    o.features[s] = o.encoder:outputs(o.inputs[s])
    o.copied[s], o.encoded[s], o.trained[s] = h.event(), h.event(), h.event()
  end
  -- for data in train_loader: new memory each time, or at least memory that is not being copied from any more
  o.load = by_hand.loader(opt, function()
    return {
      image = h.tensor { "u8", n, 3, size, size, at = opt.memory, name = "images of the host" },
      mask = h.tensor { "u8", n, size, size, at = opt.memory, name = "masks of the host" },
    }
  end, function(batch, step)
    batch.image:random { seed = step, high = 255 }
    batch.mask:random { seed = step + 1000000, high = 9 }
  end, function(step) o.copied[step % 2]:sync() end)
  function o.sync()
    o.main:sync()
    o.encoder_stream:sync()
    o.decoder_stream:sync()
  end
  function o.checksum() return o.decoder:checksum() end
  return o
end

-- inputs = data[0].to(device, non_blocking=True).float()
-- labels = data[1].to(device, non_blocking=True)
local function move(o, step)
  local s = step % 2
  o.main:copy(o.bytes[s], o.batch.image)
  o.main:run(o.to_float, o.bytes[s], o.inputs[s])
  o.main:copy(o.labels[s], o.batch.mask)
  o.main:record(o.copied[s])
end

-- output = decoder(features); loss = criterion(output, labels); loss.backward(); optimizer.step()
local function train(o, stream, step)
  local s = step % 2
  local output = stream:run(o.decoder, o.features[s].features)
  local loss = stream:run(o.criterion, { output.logits, o.labels[s] }, nil, { step = step })
  stream:backward(o.decoder)
  stream:update(o.optimizer, o.decoder)
  stream:copy(o.losses:rows(step + 1), loss.loss)
end

local function serialized(o, step)
  o.batch = o.load(step)
  move(o, step)
  o.main:run(o.encoder, o.inputs[step % 2], o.features[step % 2])
  train(o, o.main, step)
end

local function published(o, step, last)
  local s, encoder_stream, decoder_stream = step % 2, o.encoder_stream, o.decoder_stream
  if not last then
    o.batch = o.load(step)
    move(o, step)
  end
  if step > 0 then -- features is not None
    decoder_stream:wait(encoder_stream:record(o.encoded[1 - s])) -- decoder_stream.wait_stream(encoder_stream)
    train(o, decoder_stream, step - 1)
    decoder_stream:record(o.trained[1 - s])
  end
  if last then return end
  -- features.record_stream(decoder_stream): their memory is not given again before the decoder is through with it
  if step > 1 then encoder_stream:wait(o.trained[s]) end
  encoder_stream:run(o.encoder, o.inputs[s], o.features[s])
end

-- Two waits more. What they order also orders the labels, and the features' memory.
local function corrected(o, step, last)
  local s, main, encoder_stream, decoder_stream = step % 2, o.main, o.encoder_stream, o.decoder_stream
  if not last then
    o.batch = o.load(step)
    -- inputs.record_stream(encoder_stream); labels.record_stream(decoder_stream)
    if step > 1 then wait("reuse", main, o.trained[s]) end
    move(o, step)
  end
  if step > 0 then
    wait("features", decoder_stream, o.encoded[1 - s])
    train(o, decoder_stream, step - 1)
    decoder_stream:record(o.trained[1 - s])
  end
  if last then return end
  wait("inputs", encoder_stream, o.copied[s]) -- encoder_stream.wait_stream(torch.cuda.default_stream())
  encoder_stream:run(o.encoder, o.inputs[s], o.features[s])
  encoder_stream:record(o.encoded[s])
end

by_hand.compare(opt, objects, {
  { name = "serialized", step = serialized, behind = 0 },
  { name = "published", step = published, behind = 1 },
  { name = "corrected", step = corrected, behind = 1 },
})
