-- SPDX-License-Identifier: MIT
-- Which device a graph runs on, and with what precision, where the user leaves it open.
local core = require "spcore.core"
local words = require "spcore.words"

local device = {}

-- Each rank on a host has its own, where there are several.
local function of_rank(kind)
  local n, at = core.count_device(kind), core.env().local_rank
  if at == 0 or not n or n == 1 then return kind end
  if at < n then return ("%s:%d"):format(kind, at) end
  return nil, ("rank %d is number %d on this host, which has %d; take fewer ranks"):format(core.env().rank, at + 1, n)
end

-- find(name) -> the device's name | nil, why it cannot be had. "auto": a GPU, or the processor where there is none.
function device.find(name)
  if name == "auto" then
    if not core.count_device "cuda" then return "cpu" end
    name = "cuda"
  end
  if name == "cuda" and core.count_device(name) then return of_rank(name) end
  local kind, index = core.device_name(name)
  if not kind then return nil, index end
  local n, why = core.count_device(kind)
  if n then
    if index >= n then
      return nil, ("there %s %d, numbered from 0 (spcore devices lists them)"):format(n == 1 and "is" or "are", n)
    end
    return name
  end
  if why then return nil, why .. "; take --device cpu" end
  if kind == "cuda" then return nil, "this build has no CUDA device; take --device cpu" end
  local near = kind == "gpu" and "; did you mean 'cuda'?" or words.near(kind, { "auto", "cpu", "cuda" })
  return nil, ("no such device%s (spcore devices lists them)"):format(near)
end

local function on_cuda(name) return core.device_name(name) == "cuda" end

-- The precision of products where none is asked for: that of PyTorch's convolutions on the same device.
function device.precision(name, asked)
  if asked and asked ~= "auto" then return asked end
  return on_cuda(name) and "tf32" or "fp32"
end

-- How many threads read data where nobody says: nil leaves it to the reader. Behind a GPU the processors have little
-- else to do; more than four have gained nothing there and get into the submitting thread's way.
function device.workers(name, asked)
  if asked and asked > 0 then return asked end
  return on_cuda(name) and math.max(2, math.min(4, core.env().threads)) or nil
end

return device
