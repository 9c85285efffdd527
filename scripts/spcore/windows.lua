-- SPDX-License-Identifier: MIT
-- Images as windows: each goes through the network at its own size, a window at a time, at several scales and mirrored, and
-- image_writer takes the mean of the scores.
local args = require "spcore.args"
local sides = require "spcore.sides"

local windows = {}

local MOST <const> = 1000000 -- windows of an image
local FORMAT <const> = "=" .. ("i4"):rep(15) -- im_window of plugins/kits/image/window.h

-- The options of a script whose `size` is there already.
function windows.options(spec)
  spec.window = { 0, "see an image at its own size, through windows of so many pixels a side; --size: its shorter side",
    default = "the whole image at once", min = 1, max = 4096 }
  spec.stride = { 0, "with --window: pixels from one window to the next", default = "two thirds of --window", min = 1, max = 4096 }
  spec.scales = { "1", "with --window: sizes of the image, such as 0.75,1,1.25, whose scores are averaged", value = "LIST" }
  spec.flip = { false, "average with the scores of the mirrored image" }
end

local function scales_of(text)
  local list = {}
  for word in text:gmatch "[^,%s]+" do
    local scale = tonumber(word)
    if not scale or not (scale >= 0.05 and scale <= 20) then
      args.usage("--scales %s: numbers from 0.05 to 20 with commas between are wanted", text)
    end
    list[#list + 1] = scale
  end
  if #list == 0 then args.usage "--scales: a list such as 0.75,1,1.25 is wanted" end
  return list
end

-- What the options ask for, nil: whole images. model.size becomes the window.
function windows.plan(opt, model)
  if opt.window == 0 then
    if opt.stride ~= 0 then args.usage "--stride goes with --window" end
    if opt.scales ~= "1" then args.usage "--scales goes with --window" end
    if opt.size > 0 then model.size = opt.size end
    if not opt.flip then return nil end
    local read = model.read or {}
    if read.shorter or (read.resize or "squash") ~= "squash" then
      args.usage "--flip: this network has been trained with the middle of images; give --window as well"
    end
    return { window = model.size, stride = 1, scales = { 1 }, flip = true, whole = true }
  end
  if opt.decode ~= "full" then args.usage("--decode %s goes with whole images, not with --window", opt.decode) end
  if opt.stride > opt.window then
    args.usage("--stride %d: pixels between windows of %d would be left out; at most %d", opt.stride, opt.window, opt.window)
  end
  local plan = {
    window = opt.window, stride = opt.stride > 0 and opt.stride or math.max(1, opt.window * 2 // 3), shorter = opt.size,
    scales = scales_of(opt.scales), flip = opt.flip,
  }
  model.size = opt.window
  return plan
end

-- Where windows begin along a side: the last one ends with it.
local function places(side, window, stride)
  if (side - window) // stride > MOST then args.usage("--stride %d: more than %d windows of an image", stride, MOST) end
  local list, at = { 0 }, 0
  while at + window < side do
    at = math.min(at + stride, side - window)
    list[#list + 1] = at
  end
  return list
end

-- The size of the whole image, of which no side is shorter than a window.
local function scaled(plan, w, h, scale)
  if plan.whole then
    local height, width = sides.of(plan.window)
    return width, height
  end
  local factor = scale * (plan.shorter > 0 and plan.shorter / math.min(w, h) or 1)
  factor = math.max(factor, plan.window / math.min(w, h))
  local function side(n) return math.max(plan.window, math.floor(n * factor + 0.5)) end
  return side(w), side(h)
end

-- The windows of an image, in the order in which their scores are added.
local function of_image(plan, w, h)
  local list = {}
  local height, width = sides.of(plan.window)
  local base_w, base_h = scaled(plan, w, h, 1)
  if #plan.scales == 1 then base_w, base_h = scaled(plan, w, h, plan.scales[1]) end
  for k, scale in ipairs(plan.scales) do
    local sw, sh = scaled(plan, w, h, scale)
    local from = #list + 1
    local rows, columns = places(sh, height, plan.stride), places(sw, width, plan.stride)
    if #list + #rows * #columns > MOST then
      args.usage("--stride %d: an image of %d x %d pixels has more than %d windows", plan.stride, w, h, MOST)
    end
    for flip = 0, plan.flip and 1 or 0 do
      for _, y in ipairs(rows) do
        for _, x in ipairs(columns) do
          list[#list + 1] = { scale = k - 1, w = sw, h = sh, x = x, y = y, flip = flip, first = 0, last = 0 }
        end
      end
    end
    list[from].first, list[#list].last = 1, 1
  end
  for i, at in ipairs(list) do
    at.is_last = i == #list
    at.packed = FORMAT:pack(i - 1, #list, at.scale, #plan.scales, at.w, at.h, base_w, base_h, at.x, at.y, width,
      height, at.first, at.last, at.flip)
  end
  return list
end

-- A function that gives a request for each window of the images that next_image gives. Their sizes are read from their
-- headers, some images ahead, by a graph of its own.
function windows.requests(plan, next_image, graph)
  local probe = graph()
  local size = probe.image_requests { size = 1, batch = 16 }.size
  probe:results { size }
  local pull = probe:answers(next_image)
  local list, i, image = {}, 0, nil
  return function()
    if i == #list then
      local answer = pull()
      if not answer then
        probe:close()
        return nil
      end
      image, i = answer.request, 0
      if answer.error then -- which the other graph finds as well
        list = {}
        return image
      end
      list = of_image(plan, answer.size[2], answer.size[1])
    end
    i = i + 1
    return { path = image.path, second = image.second, name = image.name, window = list[i] }
  end
end

return windows
