-- SPDX-License-Identifier: MIT
-- What train_seg.lua and train_cls.lua read where nothing else is said; `spcore data` shows what they will read.
return {
  val_fraction = 0.125, -- of the samples is for validation, where the data do not say which
  samples = { mask = 4096, class = 8192 }, -- of the built-in sets, by target
}
