---@meta
-- SPDX-License-Identifier: MIT
-- The stages, for editors. Written by `spcore inspect --meta`; do not edit.

---What g.adamw is called with.
---@class spcore.adamw.params: spcore.node_options
---@field [1]? spcore.ref|spcore.ref[] the input gradients
---@field gradients? spcore.ref|spcore.ref[] one per weight
---@field lr? number learning rate (0..1000000, default 0.001)
---@field betas? number|number[] decay of the running means of gradient and squared gradient (0..1, default {0.9,0.999})
---@field eps? number added to the root of the mean squared gradient (0..1, default 1e-08)
---@field weight_decay? number weights shrink by this times the learning rate (0..1000000, default 0.01)
---@field clip_norm? number gradients are scaled down to this L2 norm over all of them; 0: never (at least 0, default 0)
---@field report_norm? boolean compute grad_norm without clipping too (default false)

---Adam with decoupled weight decay.
---@class spcore.adamw: spcore.node
---@field weights spcore.ref[] updated in place, in the order of the gradients
---@field grad_norm spcore.ref[] L2 norm of all gradients before clipping; only with clip_norm or report_norm
---@field lr number may be set while running

---What g.add is called with.
---@class spcore.add.params: spcore.node_options
---@field [1]? spcore.ref|spcore.ref[] the input x
---@field x? spcore.ref|spcore.ref[] tensors of one shape

---Sum of tensors of one shape.
---@class spcore.add: spcore.node
---@field y spcore.ref their sum

---What g.argmax is called with.
---@class spcore.argmax.params: spcore.node_options
---@field [1]? spcore.ref the input logits
---@field logits? spcore.ref N x C x H x W

---Gives each pixel the class of its largest logit.
---@class spcore.argmax: spcore.node
---@field mask spcore.ref labels 0..C-1, N x H x W; of equal values the first

---What g.concat is called with.
---@class spcore.concat.params: spcore.node_options
---@field [1]? spcore.ref|spcore.ref[] the input x
---@field x? spcore.ref|spcore.ref[] tensors that differ along the axis only
---@field axis? integer dimension along which they are joined; 0, the samples, can't be (1..7, default 1)

---Joins tensors along an axis.
---@class spcore.concat: spcore.node
---@field y spcore.ref one behind the other

---What g.confusion is called with.
---@class spcore.confusion.params: spcore.node_options
---@field [1]? spcore.ref the input logits
---@field logits? spcore.ref N x C x ..., row-major or channels-last
---@field [2]? spcore.ref the input labels
---@field labels? spcore.ref N x ..., class numbers
---@field ignore_index? integer labels of this value do not count (default -100)

---Counts of true against predicted classes, for accuracy and IoU.
---@class spcore.confusion: spcore.node
---@field counts spcore.ref C x C: rows are the truth, columns the prediction
---@field status spcore.ref the first label out of range

---What g.cross_entropy is called with.
---@class spcore.cross_entropy.params: spcore.node_options
---@field [1]? spcore.ref the input logits
---@field logits? spcore.ref N x C x ..., row-major or channels-last
---@field [2]? spcore.ref the input labels
---@field labels? spcore.ref N x ..., class numbers
---@field ignore_index? integer labels of this value do not count (default -100)
---@field class_weights? number|number[] one per class; the mean is weighted by them; none: all 1 (at least 0, default {})
---@field weight? number multiplies this loss and its gradient (default 1)

---Mean cross-entropy of logits against class labels.
---@class spcore.cross_entropy: spcore.node
---@field loss spcore.ref mean over the labels that count; 0 where none does
---@field status spcore.ref the first label out of range
---@field valid spcore.ref how many labels counted; 0: the step has no gradient

---@class spcore.image_writer.names
---@field name? string file name without folder and ending (required)
---@field [1]? string the same as name
---@field original? string image file that the sample came from: mask and overlay get its size (default "")

---What g.image_writer is called with.
---@class spcore.image_writer.params: spcore.node_options
---@field [1]? spcore.ref the input image
---@field image? spcore.ref RGB images, N x 3 x H x W
---@field [2]? spcore.ref the input mask
---@field mask? spcore.ref labels, N x H x W
---@field dir string folder for the files; made where it is missing, files in it are overwritten (required)
---@field images? string file of an image, * stands for the sample's name; .jpg, .jpeg or .png; empty: none (default "images/*.jpg")
---@field masks? string file of a mask, a palette PNG whose indices are the labels; empty: none (default "masks/*.png")
---@field overlays? string file of the image with the mask's colours over it; empty: none (default "")
---@field names? spcore.image_writer.names[] names by sample number; without them the number itself, five digits (default {})
---@field quality? integer of JPEG files (1..100, default 92)
---@field max_pixels? integer an original whose header says more is refused (1..1073741824 px, default 67108864)

---Writes images, label masks and both in one picture as JPEG and PNG files.
---@class spcore.image_writer: spcore.node

---@class spcore.reader.files
---@field path? string JPEG or PNG file (required)
---@field [1]? string the same as path

---What g.reader is called with.
---@class spcore.reader.params: spcore.node_options
---@field path? string folder with images/ and masks/ (same stem, masks PNG), or a built-in set: shapes, random (default "")
---@field files? spcore.reader.files[] images without masks, in this order, instead of path; at most 1024, all labels are 255 (default {})
---@field size? integer|integer[] height and width that everything is resized to; one number: square (1..16384 px, default {256})
---@field workers? integer threads that fill one batch (1..64, default 2)
---@field split? "all"|"train"|"val" which samples: all, those for training or those for validation (default "all")
---@field val_fraction? number part of the samples that is for validation, rounded to the nearest count; chosen by name or number (0..0.9, default 0.1)
---@field samples? integer samples before the split: shapes and random make so many (0: 2048), of a folder the first (0: all) (0..2147483647, default 0)
---@field classes? integer of random (0: 10), or of a folder (0: as many as its classes.txt has lines); shapes has 6 (0..255, default 0)
---@field max_bad? integer how many broken files are replaced by others before the run stops (0..2147483647, default 16)
---@field max_pixels? integer an image whose header says more counts as broken (1..1073741824 px, default 67108864)
---@field data_seed? integer seed of the built-in sets (0..2147483647, default 0)

---Reads images and label masks from JPEG and PNG files, or makes them up.
---@class spcore.reader: spcore.node
---@field image spcore.ref RGB images, N x 3 x H x W
---@field mask spcore.ref labels, N x H x W; 255: no label

---What g.sgd is called with.
---@class spcore.sgd.params: spcore.node_options
---@field [1]? spcore.ref|spcore.ref[] the input gradients
---@field gradients? spcore.ref|spcore.ref[] one per weight
---@field lr? number learning rate (0..1000000, default 0.001)
---@field momentum? number share of the former update that is kept (0..1, default 0)
---@field dampening? number share of the gradient that momentum leaves out (0..1, default 0)
---@field nesterov? boolean Nesterov momentum (default false)
---@field weight_decay? number times the weight is added to its gradient (0..1000000, default 0)
---@field clip_norm? number gradients are scaled down to this L2 norm over all of them; 0: never (at least 0, default 0)
---@field report_norm? boolean compute grad_norm without clipping too (default false)

---Stochastic gradient descent.
---@class spcore.sgd: spcore.node
---@field weights spcore.ref[] updated in place, in the order of the gradients
---@field grad_norm spcore.ref[] L2 norm of all gradients before clipping; only with clip_norm or report_norm
---@field lr number may be set while running

---What g.sleep is called with.
---@class spcore.sleep.params: spcore.node_options
---@field [1]? spcore.ref|spcore.ref[] the input x
---@field x? spcore.ref|spcore.ref[] any tensors
---@field ms? number how long forward takes (0..1000000 ms, default 0)
---@field backward_ms? number how long backward takes (0..1000000 ms, default 0)
---@field spin? boolean keep a processor busy instead of sleeping (default false)
---@field fail_at_step? integer forward fails at this step; -1: never (-1..9007199254740992, default -1)

---Passes tensors through after a known time.
---@class spcore.sleep: spcore.node
---@field y spcore.ref[] copies of them

---What g.to_float is called with.
---@class spcore.to_float.params: spcore.node_options
---@field [1]? spcore.ref the input image
---@field image? spcore.ref any shape and order
---@field scale? boolean multiply by 1/255, so that values are 0..1; otherwise they stay 0..255 (default false)

---Turns bytes into float32.
---@class spcore.to_float: spcore.node
---@field image spcore.ref the same values as float32, same shape and order

---@class spcore.graph
---@field adamw fun(t: spcore.adamw.params): spcore.adamw Adam with decoupled weight decay
---@field add fun(t: spcore.add.params): spcore.add Sum of tensors of one shape
---@field argmax fun(t: spcore.argmax.params): spcore.argmax Gives each pixel the class of its largest logit
---@field concat fun(t: spcore.concat.params): spcore.concat Joins tensors along an axis
---@field confusion fun(t: spcore.confusion.params): spcore.confusion Counts of true against predicted classes, for accuracy and IoU
---@field cross_entropy fun(t: spcore.cross_entropy.params): spcore.cross_entropy Mean cross-entropy of logits against class labels
---@field image_writer fun(t: spcore.image_writer.params): spcore.image_writer Writes images, label masks and both in one picture as JPEG and PNG files
---@field reader fun(t: spcore.reader.params): spcore.reader Reads images and label masks from JPEG and PNG files, or makes them up
---@field sgd fun(t: spcore.sgd.params): spcore.sgd Stochastic gradient descent
---@field sleep fun(t: spcore.sleep.params): spcore.sleep Passes tensors through after a known time
---@field to_float fun(t: spcore.to_float.params): spcore.to_float Turns bytes into float32
