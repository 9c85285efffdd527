-- SPDX-License-Identifier: MIT
-- Known networks as lists of layers, for the parameter `layers` of encoder, classifier and layers: sp.models.
return {
  resnet = require "spcore.models.resnet",
}
