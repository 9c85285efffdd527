-- SPDX-License-Identifier: MIT
-- The chain of train_cls.lua: `--augment auto`. To change it, copy it and name the copy: --augment my_chain.lua. A step is a
-- stage by its name, with its parameters. `size` is the side that the network sees, `crop` that of the window; `middle` is a medium
-- grey, and `colours` says whether images are RGB or grey.
return {
  batch_crop { size = crop },
  flip {},
  batch_rotate { degrees = 45, mode = "bilinear", fill = middle },
  colours and color_jitter { brightness = 0.3, contrast = 0.3, saturation = 0.3, hue = 0.1 },
  blur { kernel = 3, sigma = { 0.1, 1.0 } },
}
