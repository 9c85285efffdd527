-- SPDX-License-Identifier: MIT
-- A chain for train_seg.lua: `--augment chains/seg.lua`. Masks go along; what comes in from outside of an image has the label
-- 255, which the loss ignores.
return {
  flip {},
  batch_resized_crop { size = size, scale = { 0.4, 1 } },
  batch_rotate { degrees = 15, mode = "bilinear", fill = middle },
  colours and color_jitter { brightness = 0.3, contrast = 0.3, saturation = 0.3, hue = 0.05 },
}
