-- SPDX-License-Identifier: MIT
-- The loss of a segmentation: the options of train_seg.lua, what goes with which, and the stage.
local args = require "spcore.args"

local seg_loss = { options = {
  loss = { "cross_entropy", "the loss", choices = { "cross_entropy", "dice", "focal", "jaccard", "lovasz", "tversky" } },
  label_smoothing = { 0.0, "part of a label, for cross_entropy, that goes to all classes", min = 0.0, max = 0.999 },
  false_positives = { 0.3, "with --loss tversky: what a pixel counts that is wrongly said to be of a class", min = 0.0, max = 1e6 },
  false_negatives = { 0.7, "with --loss tversky: what a pixel counts that is of a class and missed", min = 0.0, max = 1e6 },
} }

local of_loss = { label_smoothing = "cross_entropy", class_weights = "cross_entropy", false_positives = "tversky", false_negatives = "tversky" }
local left_alone = { label_smoothing = 0, class_weights = "none", false_positives = 0.3, false_negatives = 0.7 }

-- Ends where an option is of another loss.
function seg_loss.check(opt)
  for _, name in ipairs { "label_smoothing", "class_weights", "false_positives", "false_negatives" } do
    if opt[name] ~= left_alone[name] and opt.loss ~= of_loss[name] then
      args.usage("--%s: goes with --loss %s, not with %s", (name:gsub("_", "-")), of_loss[name], opt.loss)
    end
  end
end

-- The loss of logits N x C x H x W and labels N x H x W, of which 255 does not count.
function seg_loss.of(g, opt, logits, mask, class_weights)
  local params = { logits, mask, ignore_index = 255 }
  if opt.loss == "cross_entropy" then params.label_smoothing, params.class_weights = opt.label_smoothing, class_weights end
  if opt.loss == "tversky" then params.alpha, params.beta = opt.false_positives, opt.false_negatives end
  return g[opt.loss](params)
end

return seg_loss
