-- SPDX-License-Identifier: MIT
-- The other two loops of "Pipelining AI/ML Training Workloads with CUDA Streams" (C. Rand, 2025), line by line: a
-- classifier behind augmentation, on random data. `published` is the article's pipelined loop with the waits that it
-- has; --check-races names those that it lacks. `corrected` has them all.
--
--   spcore run by_hand_cls.lua --check-races
--   spcore run by_hand_cls.lua --device cuda --size 256 --batch 32 --batches 16 --steps 100 --warm-up 10
local sp = require "spcore"
local by_hand = require "spcore.by_hand"

local opt = sp.args(by_hand.options {
  size = { 32, "pixels of a side, a power of two", min = 16, max = 1024 },
  batch = { 4, "images a step", min = 1, max = 65536 },
  lr = { 1e-3, "learning rate", min = 0.0 },
}, { doc = "The classification loops of an article about CUDA streams, written by hand.", without = { "graph" } })

local wait = by_hand.waits(opt, { "transformed", "labels", "reuse_images", "reuse_labels" })
local n, size = opt.batch, opt.size

-- Two buffers of each kind: step s and the one before it. PyTorch's allocator gives as many in turn.
local function objects(h)
  local o = { losses = h.tensor { "f32", opt.warm_up + opt.steps, at = "pinned", name = "losses" } }
  o.main = h.stream { name = "main" } -- PyTorch's default stream
  o.transform_stream, o.model_stream = h.stream { name = "transform" }, h.stream { name = "model" }
  o.batch_transform = h.stage.augment {
    crop = size // 2, mode = "roi_align", size = size, degrees = 45, kernel = 7, sigma = { 0.1, 2.0 },
    mean = 0, std = 1,
  }
  o.model = h.stage.classifier { model = "plain", classes = 10 }
  o.criterion = h.stage.cross_entropy()
  o.optimizer = h.stage.sgd { lr = opt.lr }
  for _, name in ipairs { "inputs", "labels", "transformed", "copied", "moved", "ready", "trained" } do
    o[name] = {}
  end
  for s = 0, 1 do
    o.inputs[s] = h.tensor { "u8", n, 3, size, size, name = "inputs " .. s }
    o.labels[s] = h.tensor { "i64", n, name = "labels " .. s }
    o.transformed[s] = o.batch_transform:outputs(o.inputs[s])
    o.copied[s], o.moved[s], o.ready[s], o.trained[s] = h.event(), h.event(), h.event(), h.event()
  end
  -- for data in train_loader: new memory each time, or at least memory that is not being copied from any more
  o.load = by_hand.loader(opt, function()
    return {
      image = h.tensor { "u8", n, 3, size, size, at = opt.memory, name = "images of the host" },
      target = h.tensor { "i64", n, at = opt.memory, name = "targets of the host" },
    }
  end, function(batch, step)
    batch.image:random { seed = step, high = 255 }
    batch.target:random { seed = step + 1000000, high = 9 }
  end, function(step)
    o.copied[step % 2]:sync()
    o.moved[step % 2]:sync()
  end)
  function o.sync()
    o.main:sync()
    o.transform_stream:sync()
    o.model_stream:sync()
  end
  function o.checksum() return o.model:checksum() end
  return o
end

-- labels = data[1].to(device, non_blocking=True)
local function move_labels(o, step)
  local s = step % 2
  o.main:copy(o.labels[s], o.batch.target)
  o.main:record(o.moved[s])
end

-- inputs = inputs.to(device, non_blocking=True); transformed = batch_transform(inputs)
local function transform(o, stream, step)
  local s = step % 2
  stream:copy(o.inputs[s], o.batch.image)
  stream:record(o.copied[s])
  stream:run(o.batch_transform, o.inputs[s], o.transformed[s], { step = step })
  stream:record(o.ready[s])
end

-- output = model(transformed); loss = criterion(output, labels); loss.backward(); optimizer.step()
local function train(o, stream, step)
  local s = step % 2
  local output = stream:run(o.model, o.transformed[s].images)
  local loss = stream:run(o.criterion, { output.logits, o.labels[s] }, nil, { step = step })
  stream:backward(o.model)
  stream:update(o.optimizer, o.model)
  stream:copy(o.losses:rows(step + 1), loss.loss)
  stream:record(o.trained[s])
end

local function serialized(o, step)
  o.batch = o.load(step)
  move_labels(o, step)
  transform(o, o.main, step)
  train(o, o.main, step)
end

local function published(o, step, last)
  local s, transform_stream, model_stream = step % 2, o.transform_stream, o.model_stream
  if not last then
    o.batch = o.load(step)
    move_labels(o, step)
  end
  if step > 0 then -- transformed is not None
    model_stream:wait(o.ready[1 - s]) -- model_stream.wait_stream(transform_stream)
    train(o, model_stream, step - 1)
  end
  if last then return end
  -- transformed.record_stream(model_stream): its memory is not given again before the model is through with it
  if step > 1 then transform_stream:wait(o.trained[s]) end
  transform(o, transform_stream, step)
end

local function corrected(o, step, last)
  local s, main, transform_stream, model_stream = step % 2, o.main, o.transform_stream, o.model_stream
  if not last then
    o.batch = o.load(step)
    if step > 1 then wait("reuse_labels", main, o.trained[s]) end -- labels.record_stream(model_stream)
    move_labels(o, step)
  end
  if step > 0 then
    wait("transformed", model_stream, o.ready[1 - s])
    wait("labels", model_stream, o.moved[1 - s]) -- model_stream.wait_stream(torch.cuda.default_stream())
    train(o, model_stream, step - 1)
  end
  if last then return end
  if step > 1 then wait("reuse_images", transform_stream, o.trained[s]) end
  transform(o, transform_stream, step)
end

by_hand.compare(opt, objects, {
  { name = "serialized", step = serialized, behind = 0 },
  { name = "published", step = published, behind = 1 },
  { name = "corrected", step = corrected, behind = 1 },
})
