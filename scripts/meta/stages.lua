---@meta
-- SPDX-License-Identifier: MIT
-- The stages, for editors. Written by `spcore inspect --meta`; do not edit.

---An output of a stage, to be given to another one.
---@class spcore.ref

---@class spcore.weights
---@field [1] string the file, or the folder of a run
---@field prefix? string only what begins with it is looked at, and named by what comes behind (default: as the names are, else what wrappers put before them)
---@field ignore? string|string[] patterns of names, behind the prefix, that are left out
---@field names? table<string, string> the file's names: ["features.0.0"] = "conv_stem"

---@class spcore.node_options
---@field name? string how the stage is called in messages and files (default: the stage's name)
---@field frozen? boolean its weights are not trained (default false)
---@field cache? "device"|"host"|"off" where the outputs of a frozen stage are kept (default "off")
---@field precision? "fp32"|"tf32"|"bf16" what its products compute with (default: the graph's)
---@field on_cpu? boolean runs on the processor in a graph on a GPU (default false)
---@field weights? string|spcore.weights file to load its weights from

---@class spcore.source_options: spcore.node_options
---@field batch? integer samples per step
---@field shuffle? boolean another order in every epoch (default true)
---@field drop_last? boolean leave out a last batch that is short (default false)

---@class spcore.requests_options: spcore.node_options
---@field batch? integer places for requests in a step
---@field queue? integer most requests that are not answered (default the larger of 256 and 4 batches)
---@field queue_mb? integer most memory for them in MiB (default 1024)
---@field wait_us? integer microseconds that the oldest waits for a full batch (default 0)
---@field deadline_us? integer microseconds after which a request that no step has taken is late (default never)

---A stage in a graph.
---@class spcore.node
---@field name string

---What g.accuracy is called with.
---@class spcore.accuracy.params: spcore.node_options
---@field [1]? spcore.ref the input logits
---@field logits? spcore.ref N x C
---@field [2]? spcore.ref the input labels
---@field labels? spcore.ref N class numbers
---@field k? integer how many of the largest logits topk looks at; may be more than there are (1..65536, default 5)
---@field ignore_index? integer labels of this value do not count (default -100)

---Counts of labels that are the class of the largest logit, or among the k largest.
---@class spcore.accuracy: spcore.node
---@field top1 spcore.ref how many labels are the class of the largest logit; of equals the first
---@field topk spcore.ref how many labels are among the classes of the k largest logits
---@field counted spcore.ref how many labels there are without those that do not count
---@field status spcore.ref the first label out of range

---What g.adamw is called with.
---@class spcore.adamw.params: spcore.node_options
---@field [1]? spcore.ref|spcore.ref[] the input gradients
---@field gradients? spcore.ref|spcore.ref[] one per weight
---@field [2]? spcore.ref|spcore.ref[] the input statistics
---@field statistics? spcore.ref|spcore.ref[] running statistics of what is trained; put back where an update is skipped
---@field lr? number learning rate (0..1000000, default 0.001; may be set while running)
---@field betas? number|number[] decay of the running means of gradient and squared gradient (0..1, default {0.9,0.999})
---@field eps? number added to the root of the mean squared gradient (0..1, default 1e-08)
---@field weight_decay? number weights shrink by this times the learning rate (0..1000000, default 0.01)
---@field clip_norm? number gradients are scaled down to this L2 norm over all of them; 0: never (at least 0, default 0)
---@field report_norm? boolean compute grad_norm without clipping too (default false)
---@field ema? number decay of moving averages of the weights, below 1: after each update average = ema * average + (1 - ema) * weight, the first copies; evaluations and saved runs have them; 0: none (0..1, default 0)
---@field nonfinite? "stop"|"skip" when a gradient is NaN or infinite: stop the run, or skip the update and leave weights and state (default "stop")
---@field max_nonfinite? integer so many updates skipped in a row stop the run; only with nonfinite = "skip" (1..1000000000, default 10)

---Adam with decoupled weight decay.
---@class spcore.adamw: spcore.node
---@field weights spcore.ref[] updated in place, in the order of the gradients
---@field grad_norm spcore.ref[] L2 norm of all gradients before clipping; only with clip_norm or report_norm
---@field skipped spcore.ref[] 1 where this update was skipped, else 0; only with nonfinite = "skip"
---@field status spcore.ref gradients that are not finite, where they stop the run

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

---What g.augment is called with.
---@class spcore.augment.params: spcore.node_options
---@field [1]? spcore.ref|spcore.ref[] the input images
---@field images? spcore.ref|spcore.ref[] images of one height and width, N x C x H x W each, row-major or channels-last
---@field [2]? spcore.ref|spcore.ref[] the input masks
---@field masks? spcore.ref|spcore.ref[] label masks of the same height and width, N x H x W each
---@field [3]? spcore.ref the input boxes
---@field boxes? spcore.ref where the windows begin, N x 2: top and left, in pixels; not wired: drawn, uniform over all places
---@field [4]? spcore.ref the input angles
---@field angles? spcore.ref degrees, one a sample, positive is counter-clockwise; not wired: drawn, uniform in `degrees`
---@field [5]? spcore.ref the input sigmas
---@field sigmas? spcore.ref the sigma of each sample, in pixels, 0: no blur; not wired: drawn
---@field crop? integer|integer[] height and width of the window; one number: square; not given: the whole image (1..1048576 px, default {})
---@field mode? "exact"|"roi_align" of the window, as batch_crop has it: its pixels, or roi_align: means of two by two; masks are copied either way (default "exact")
---@field size? integer|integer[] height and width that the window is enlarged to; one number: square; not given: it keeps its size (1..1048576 px, default {})
---@field degrees? number|number[] lowest and highest angle of the turn; one number d: -d to d (-3600..3600 degrees, default {0})
---@field fill? number|number[] what images get outside of the original, before they are blurred and normalized: one number, or one a channel, up to 4 (default {0})
---@field mask_fill? integer what masks get there: the label that the loss ignores, 255 in label masks here (-2147483648..2147483647, default 255)
---@field kernel? integer|integer[] width and height of the kernel that blurs, odd; one number: square; 0: no blur (0..63 px, default {0})
---@field sigma? number|number[] the standard deviation is drawn uniform between these two; one number: always that (px, default {0.1,2})
---@field mean? number|number[] what is subtracted at the end: one number, or one a channel (default {0})
---@field std? number|number[] what the difference is divided by: one positive number, or one a channel (default {1})
---@field scale? boolean multiply by 1/255 before the mean is subtracted, so that mean and std are those of values 0..1; only for uint8 images (default false)
---@field same_on_batch? boolean one draw for the whole batch, by the id of its first sample, instead of one a sample (default false)
---@field always? boolean draw outside of training too; otherwise evaluations and plain loops leave chance out (default false)

---Crops, enlarges, turns, blurs and normalizes images in one go, to float32.
---@class spcore.augment: spcore.node
---@field images spcore.ref[] the images, N x C x size, as float32, in the order that they had
---@field masks spcore.ref[] the masks, N x size, of the type that they had
---@field boxes spcore.ref where the windows began, N x 2: top and left
---@field angles spcore.ref the angles, in degrees
---@field sigmas spcore.ref the sigma of each sample; 0: it was not blurred
---@field status spcore.ref bad values of the port of parameters

---What g.batch_crop is called with.
---@class spcore.batch_crop.params: spcore.node_options
---@field [1]? spcore.ref|spcore.ref[] the input images
---@field images? spcore.ref|spcore.ref[] images of one height and width, N x C x H x W each, row-major or channels-last
---@field [2]? spcore.ref|spcore.ref[] the input masks
---@field masks? spcore.ref|spcore.ref[] label masks of the same height and width, N x H x W each
---@field [3]? spcore.ref the input boxes
---@field boxes? spcore.ref where the windows begin, N x 2: top and left, in pixels; not wired: drawn, uniform over all places
---@field size integer|integer[] height and width of the window; one number: square (1..1048576 px, required)
---@field mode? "exact"|"roi_align" exact: a copy; roi_align: each pixel is the mean of it and its right, lower and lower right neighbours, as torchvision.ops.roi_align gives it for boxes of whole numbers; masks are copied either way (default "exact")
---@field same_on_batch? boolean one draw for the whole batch, by the id of its first sample, instead of one a sample (default false)
---@field always? boolean draw outside of training too; otherwise evaluations and plain loops leave chance out (default false)

---Cuts a window of one size out of each sample, at a place of its own.
---@class spcore.batch_crop: spcore.node
---@field images spcore.ref[] the windows, N x C x size, of the type and order of the images
---@field masks spcore.ref[] the same windows of the masks, N x size
---@field boxes spcore.ref where the windows began, N x 2: top and left
---@field status spcore.ref bad values of the port of parameters

---What g.batch_resized_crop is called with.
---@class spcore.batch_resized_crop.params: spcore.node_options
---@field [1]? spcore.ref|spcore.ref[] the input images
---@field images? spcore.ref|spcore.ref[] images of one height and width, N x C x H x W each, row-major or channels-last
---@field [2]? spcore.ref|spcore.ref[] the input masks
---@field masks? spcore.ref|spcore.ref[] label masks of the same height and width, N x H x W each
---@field [3]? spcore.ref the input boxes
---@field boxes? spcore.ref the windows, N x 4: top, left, height, width, in pixels; not wired: drawn
---@field size integer|integer[] height and width afterwards; one number: square (1..1048576 px, required)
---@field scale? number|number[] area of the window, as a part of the image's, from and to; one number: always this (0..1, default {0.08,1})
---@field ratio? number|number[] width of the window over its height, from and to, even on a scale of logarithms (not given: 3/4 to 4/3) (0.001..1000, default {})
---@field interpolation? "bilinear"|"bicubic" of images; bicubic with a = -1/2: bytes as Pillow, floats as PyTorch with antialiasing (default "bilinear")
---@field antialias? boolean where images shrink, a pixel is the mean of all that it covers; otherwise of the nearest 2 x 2 alone, which bicubic cannot (default true)
---@field same_on_batch? boolean one draw for the whole batch, by the id of its first sample, instead of one a sample (default false)
---@field always? boolean draw outside of training too; otherwise evaluations and plain loops leave chance out (default false)

---Cuts a window of random area and ratio out of each sample and scales it to one size.
---@class spcore.batch_resized_crop: spcore.node
---@field images spcore.ref[] the windows, N x C x size, of the type and order of the images; bytes are rounded, half to even
---@field masks spcore.ref[] the same windows of the masks, N x size
---@field boxes spcore.ref the windows, N x 4: top, left, height, width
---@field status spcore.ref bad values of the port of parameters

---What g.batch_rotate is called with.
---@class spcore.batch_rotate.params: spcore.node_options
---@field [1]? spcore.ref|spcore.ref[] the input images
---@field images? spcore.ref|spcore.ref[] images of one height and width, N x C x H x W each, row-major or channels-last
---@field [2]? spcore.ref|spcore.ref[] the input masks
---@field masks? spcore.ref|spcore.ref[] label masks of the same height and width, N x H x W each
---@field [3]? spcore.ref the input angles
---@field angles? spcore.ref degrees, one a sample, positive is counter-clockwise; not wired: drawn, uniform in `degrees`
---@field degrees number|number[] lowest and highest angle; one number d: -d to d (-3600..3600 degrees, required)
---@field mode? "nearest"|"bilinear" how images are sampled; masks take the nearest pixel either way (default "nearest")
---@field fill? number|number[] what images get outside of the original: one number, or one a channel, up to 4 (default {0})
---@field mask_fill? integer what masks get there: the label that the loss ignores, 255 in label masks here (-2147483648..2147483647, default 255)
---@field same_on_batch? boolean one draw for the whole batch, by the id of its first sample, instead of one a sample (default false)
---@field always? boolean draw outside of training too; otherwise evaluations and plain loops leave chance out (default false)

---Turns each sample about its middle by an angle of its own, on the same canvas.
---@class spcore.batch_rotate: spcore.node
---@field images spcore.ref[] the turned images, of the same shape, type and order
---@field masks spcore.ref[] the masks, turned likewise, by the nearest pixel
---@field angles spcore.ref the angles, in degrees
---@field status spcore.ref bad values of the port of parameters

---What g.bce is called with.
---@class spcore.bce.params: spcore.node_options
---@field [1]? spcore.ref the input logits
---@field logits? spcore.ref N x C x ..., row-major or channels-last
---@field [2]? spcore.ref the input targets
---@field targets? spcore.ref N x ... labels of 0 and 1 where C is 1, or float32 in the shape of the logits
---@field ignore_index? integer labels of this value do not count (default -100)
---@field pos_weight? number what a target of 1 counts beside one of 0 (at least 0, default 1)
---@field weight? number multiplies this loss and its gradient (default 1)
---@field nonfinite? "stop"|"ignore" stop the run when the loss is NaN or infinite, or ignore that, for an optimizer that skips such steps (default "stop")

---Binary cross-entropy of logits against labels of 0 and 1, or numbers between.
---@class spcore.bce: spcore.node
---@field loss spcore.ref mean over what counts; 0 where nothing does
---@field status spcore.ref the first label out of range, or a loss that is not finite
---@field valid spcore.ref how many labels or numbers counted; 0: the step has no gradient
---@field total spcore.ref what the mean is over; of a step in shards its share of a full batch

---What g.blur is called with.
---@class spcore.blur.params: spcore.node_options
---@field [1]? spcore.ref|spcore.ref[] the input images
---@field images? spcore.ref|spcore.ref[] images of one height and width, N x C x H x W each, row-major or channels-last
---@field [2]? spcore.ref|spcore.ref[] the input masks
---@field masks? spcore.ref|spcore.ref[] label masks of the same height and width, N x H x W each
---@field [3]? spcore.ref the input sigmas
---@field sigmas? spcore.ref the sigma of each sample, in pixels, 0: no blur; not wired: drawn
---@field kernel? integer|integer[] width and height of the kernel, odd, in torchvision's order; one number: square (1..63 px, default {7})
---@field sigma? number|number[] the standard deviation is drawn uniform between these two; one number: always that (px, default {0.1,2})
---@field same_on_batch? boolean one draw for the whole batch, by the id of its first sample, instead of one a sample (default false)
---@field always? boolean draw outside of training too; otherwise evaluations and plain loops leave chance out (default false)

---Blurs images with a Gaussian kernel, each sample with a sigma of its own.
---@class spcore.blur: spcore.node
---@field images spcore.ref[] the blurred images, of the type and order of the images
---@field masks spcore.ref[] the masks, unchanged
---@field sigmas spcore.ref the sigma of each sample; 0: it stayed as it was
---@field status spcore.ref bad values of the port of parameters

---@class spcore.classifier.layers
---@field type? "conv"|"conv_transpose"|"max_pool"|"avg_pool"|"batch_norm"|"relu"|"linear"|"flatten"|"residual"|"add"|"concat"|"mul"|"mean"|"sigmoid"|"hard_sigmoid"|"hard_swish"|"silu"|"upsample"|"dropout"|"group_norm" what the layer does (required)
---@field [1]? "conv"|"conv_transpose"|"max_pool"|"avg_pool"|"batch_norm"|"relu"|"linear"|"flatten"|"residual"|"add"|"concat"|"mul"|"mean"|"sigmoid"|"hard_sigmoid"|"hard_swish"|"silu"|"upsample"|"dropout"|"group_norm" the same as type
---@field out? integer output channels (conv, conv_transpose, residual), features (linear) or groups (group_norm) (0..1048576, default 0)
---@field [2]? integer the same as out
---@field kernel? integer|integer[] kernel size, or {height, width}; 0: 3 for conv, 2 for conv_transpose and pooling (0..1024 px, default {0})
---@field stride? integer|integer[] step; 0: 1 for conv and residual, 2 for conv_transpose, the kernel for pooling (0..1024 px, default {0})
---@field pad? integer|integer[] zeros added on each side (0..1024 px, default {0})
---@field out_pad? integer|integer[] conv_transpose: rows and columns added at the bottom and right (0..1024 px, default {0})
---@field dilation? integer|integer[] conv, conv_transpose: step between the pixels under the kernel; 0: 1 (0..1024 px, default {0})
---@field groups? integer conv, conv_transpose: parts of the channels that are convolved apart; as many as channels: depthwise (1..1048576, default 1)
---@field scale? integer|integer[] upsample: how many times as large (0..1024, default {0})
---@field size? integer|integer[] upsample: size of the result (0..1048576 px, default {0})
---@field like? string upsample: a layer whose size it gets (default "")
---@field mode? "nearest"|"bilinear" upsample: how (default "nearest")
---@field align_corners? boolean upsample, bilinear: the middles of corner pixels stay in place, not the corners of the map (default false)
---@field p? number dropout: how probable it is that an element, or a map, is dropped (0..1, default 0.5)
---@field maps? boolean dropout: drop all of a sample's channel or nothing of it (default false)
---@field name? string what `from` and its weights are called by; empty: its place in the list, from 0 (default "")
---@field from? string|string[] names of the earlier layers that it reads, "input", or in a decoder "skips.1" ...; none: the layer before (default {})
---@field tap? boolean its result is one of the stage's maps (default false)
---@field bias? boolean conv, conv_transpose, linear: with a bias (default true)
---@field eps? number batch_norm, group_norm, residual: added to the variance (1e-12..1, default 1e-05)
---@field momentum? number batch_norm, residual: weight of the new batch in the running statistics (0..1, default 0.1)

---What g.classifier is called with.
---@class spcore.classifier.params: spcore.node_options
---@field [1]? spcore.ref the input image
---@field image? spcore.ref N x C x H x W, or N x C features
---@field classes integer how many classes (1..65536, required)
---@field model? "plain"|"residual"|"pool" plain: the encoder's plain model, flatten, linear; residual: a 3x3 convolution, residual blocks, mean over the map, linear; pool: mean over the map, linear, for features (default "plain")
---@field layers? spcore.classifier.layers[] the layers in order, instead of a model; the last gives the classes (default {})
---@field width? integer plain, residual: channels at full resolution, doubled with each halving (1..4096, default 16)
---@field depth? integer how often the map is halved; 0: down to one pixel (plain) or 3 times (residual) (0..20, default 0)
---@field blocks? integer residual: blocks of two 3x3 convolutions per resolution (1..64, default 2)

---a network from an image, or from an encoder's features, to one score per class.
---@class spcore.classifier: spcore.node
---@field logits spcore.ref N x classes

---What g.color_jitter is called with.
---@class spcore.color_jitter.params: spcore.node_options
---@field [1]? spcore.ref|spcore.ref[] the input images
---@field images? spcore.ref|spcore.ref[] images of one height and width, N x C x H x W with C 3 (RGB) or 1, row-major or channels-last
---@field [2]? spcore.ref|spcore.ref[] the input masks
---@field masks? spcore.ref|spcore.ref[] label masks of the same height and width, N x H x W each
---@field [3]? spcore.ref the input factors
---@field factors? spcore.ref what to do, N x 8: factors of brightness, contrast and saturation, the turn of the hue, and these four, counted from 0, in the order they are done; a neutral 1, 1, 1 or 0 is left out; not wired: drawn
---@field brightness? number|number[] factor uniform in max(0, 1 - b)..1 + b, or in {lo, hi}; 0: brightness stays (0..1000000, default {0})
---@field contrast? number|number[] factor uniform in max(0, 1 - c)..1 + c, or in {lo, hi}; 0: contrast stays (0..1000000, default {0})
---@field saturation? number|number[] factor uniform in max(0, 1 - s)..1 + s, or in {lo, hi}; 0: saturation stays (0..1000000, default {0})
---@field hue? number|number[] turn of the colour circle, uniform in -h..h or in {lo, hi}, 1 is once around; 0: hue stays (-0.5..0.5, default {0})
---@field max? integer what white is in float images: 1, or 255 as to_float gives it without scale; bytes have 255 anyway (1..255, default 1)
---@field same_on_batch? boolean one draw for the whole batch, by the id of its first sample, instead of one a sample (default false)
---@field always? boolean draw outside of training too; otherwise evaluations and plain loops leave chance out (default false)

---Changes brightness, contrast, saturation and hue of each sample, in an order of its own.
---@class spcore.color_jitter: spcore.node
---@field images spcore.ref[] the images, of the same type and order
---@field masks spcore.ref[] the masks as they were
---@field factors spcore.ref what was done, N x 8, as on the input of this name
---@field status spcore.ref bad values of the port of parameters

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

---What g.contact_sheet is called with.
---@class spcore.contact_sheet.params: spcore.node_options
---@field [1]? spcore.ref the input image
---@field image? spcore.ref what comes out of augmentation, N x C x H x W, RGB or grey
---@field [2]? spcore.ref the input mask
---@field mask? spcore.ref its labels, N x H x W, shown in colours beside it
---@field [3]? spcore.ref the input original
---@field original? spcore.ref what goes in, of its own size, shown once a sample
---@field [4]? spcore.ref the input original_mask
---@field original_mask? spcore.ref its labels
---@field [5]? spcore.ref|spcore.ref[] the input values
---@field values? spcore.ref|spcore.ref[] what was drawn, a number or a row of numbers for each sample; captions say it
---@field [6]? spcore.ref the input label
---@field label? spcore.ref class of each sample, N, shown below the original
---@field file string PNG file, written when the last cell is there; one of that name is replaced (required)
---@field rows? integer samples 0 to rows - 1 get a row each, others are left out (1..1024, default 8)
---@field columns? integer epochs 0 to columns - 1 get a column each, others are left out (1..1024, default 4)
---@field title? string lines above all; the first one is a heading (default "")
---@field captions? string|string[] the words for each tensor of values, such as "turned {.1} degrees": {} is a number as it is, {.2} with two digits behind the point, {+.2} with its sign too, {no|yes} the word that it counts, from 0 (default {})
---@field names? string|string[] names by sample number; without one the number (default {})
---@field class_names? string names of the classes in label, one a line, as reader's class_names (default "")
---@field mask_names? string names of the labels in masks, one a line: a legend of their colours is shown (default "")
---@field zoom? integer a side of what each pixel of a picture becomes (1..64 px, default 1)
---@field text? integer the same for the dots of letters, which are 5 x 9 of them (1..8 px, default 1)

---Draws samples and what augmentation made of them, with captions, into one PNG file.
---@class spcore.contact_sheet: spcore.node

---What g.cross_entropy is called with.
---@class spcore.cross_entropy.params: spcore.node_options
---@field [1]? spcore.ref the input logits
---@field logits? spcore.ref N x C x ..., row-major or channels-last
---@field [2]? spcore.ref the input labels
---@field labels? spcore.ref N x ..., class numbers
---@field ignore_index? integer labels of this value do not count (default -100)
---@field class_weights? number|number[] one per class; the mean is weighted by them; none: all 1 (at least 0, default {})
---@field label_smoothing? number part of a label, below 1, that is spread evenly over all classes (0..1, default 0)
---@field weight? number multiplies this loss and its gradient (default 1)
---@field nonfinite? "stop"|"ignore" stop the run when the loss is NaN or infinite, or ignore that, for an optimizer that skips such steps (default "stop")

---Mean cross-entropy of logits against class labels.
---@class spcore.cross_entropy: spcore.node
---@field loss spcore.ref mean over what counts; 0 where nothing does
---@field status spcore.ref the first label out of range, or a loss that is not finite
---@field valid spcore.ref how many labels or numbers counted; 0: the step has no gradient
---@field total spcore.ref what the mean is over; of a step in shards its share of a full batch

---@class spcore.decoder.layers
---@field type? "conv"|"conv_transpose"|"max_pool"|"avg_pool"|"batch_norm"|"relu"|"linear"|"flatten"|"residual"|"add"|"concat"|"mul"|"mean"|"sigmoid"|"hard_sigmoid"|"hard_swish"|"silu"|"upsample"|"dropout"|"group_norm" what the layer does (required)
---@field [1]? "conv"|"conv_transpose"|"max_pool"|"avg_pool"|"batch_norm"|"relu"|"linear"|"flatten"|"residual"|"add"|"concat"|"mul"|"mean"|"sigmoid"|"hard_sigmoid"|"hard_swish"|"silu"|"upsample"|"dropout"|"group_norm" the same as type
---@field out? integer output channels (conv, conv_transpose, residual), features (linear) or groups (group_norm) (0..1048576, default 0)
---@field [2]? integer the same as out
---@field kernel? integer|integer[] kernel size, or {height, width}; 0: 3 for conv, 2 for conv_transpose and pooling (0..1024 px, default {0})
---@field stride? integer|integer[] step; 0: 1 for conv and residual, 2 for conv_transpose, the kernel for pooling (0..1024 px, default {0})
---@field pad? integer|integer[] zeros added on each side (0..1024 px, default {0})
---@field out_pad? integer|integer[] conv_transpose: rows and columns added at the bottom and right (0..1024 px, default {0})
---@field dilation? integer|integer[] conv, conv_transpose: step between the pixels under the kernel; 0: 1 (0..1024 px, default {0})
---@field groups? integer conv, conv_transpose: parts of the channels that are convolved apart; as many as channels: depthwise (1..1048576, default 1)
---@field scale? integer|integer[] upsample: how many times as large (0..1024, default {0})
---@field size? integer|integer[] upsample: size of the result (0..1048576 px, default {0})
---@field like? string upsample: a layer whose size it gets (default "")
---@field mode? "nearest"|"bilinear" upsample: how (default "nearest")
---@field align_corners? boolean upsample, bilinear: the middles of corner pixels stay in place, not the corners of the map (default false)
---@field p? number dropout: how probable it is that an element, or a map, is dropped (0..1, default 0.5)
---@field maps? boolean dropout: drop all of a sample's channel or nothing of it (default false)
---@field name? string what `from` and its weights are called by; empty: its place in the list, from 0 (default "")
---@field from? string|string[] names of the earlier layers that it reads, "input", or in a decoder "skips.1" ...; none: the layer before (default {})
---@field tap? boolean its result is one of the stage's maps (default false)
---@field bias? boolean conv, conv_transpose, linear: with a bias (default true)
---@field eps? number batch_norm, group_norm, residual: added to the variance (1e-12..1, default 1e-05)
---@field momentum? number batch_norm, residual: weight of the new batch in the running statistics (0..1, default 0.1)

---What g.decoder is called with.
---@class spcore.decoder.params: spcore.node_options
---@field [1]? spcore.ref the input features
---@field features? spcore.ref N x C x H x W, the encoder's last map
---@field [2]? spcore.ref|spcore.ref[] the input skips
---@field skips? spcore.ref|spcore.ref[] the encoder's maps from full resolution on, joined to the maps of the same size; in `layers` skips.1, skips.2 and so on name them
---@field classes integer how many classes (1..65536, required)
---@field model? "auto"|"plain"|"unet" plain: transposed convolutions down to `width` channels and a 3x3 convolution; unet: 3x3 convolutions with batch norm at every size; auto: unet where skips are wired (default "auto")
---@field layers? spcore.decoder.layers[] the layers in order, instead of a model; the last gives the classes (default {})
---@field width? integer channels at full resolution (1..4096, default 16)
---@field depth? integer unet: how often the map is doubled; 0: as many times as there are skips (0..20, default 0)
---@field convs? integer unet: 3x3 convolutions per size (1..16, default 2)

---a network of transposed convolutions from features to class scores per pixel.
---@class spcore.decoder: spcore.node
---@field logits spcore.ref N x classes x H x W

---What g.dice is called with.
---@class spcore.dice.params: spcore.node_options
---@field [1]? spcore.ref the input logits
---@field logits? spcore.ref N x C x ..., row-major or channels-last
---@field [2]? spcore.ref the input labels
---@field labels? spcore.ref N x ..., class numbers
---@field ignore_index? integer labels of this value do not count (default -100)
---@field smooth? number added above and below the line of each class's score (at least 0, default 0)
---@field eps? number least of what is below the line (at least 0, default 1e-07)
---@field weight? number multiplies this loss and its gradient (default 1)
---@field nonfinite? "stop"|"ignore" stop the run when the loss is NaN or infinite, or ignore that, for an optimizer that skips such steps (default "stop")

---Dice loss of the softmax of logits against class labels.
---@class spcore.dice: spcore.node
---@field loss spcore.ref mean over what counts; 0 where nothing does
---@field status spcore.ref the first label out of range, or a loss that is not finite
---@field valid spcore.ref how many labels or numbers counted; 0: the step has no gradient
---@field total spcore.ref what the mean is over; of a step in shards its share of a full batch

---What g.dropout is called with.
---@class spcore.dropout.params: spcore.node_options
---@field [1]? spcore.ref the input x
---@field x? spcore.ref N x ..., of any shape
---@field p? number how probable it is that an element, or a map, is dropped (0..1, default 0.5)
---@field maps? boolean drop all of a sample's channel or nothing of it (default false)

---Drops elements or whole maps at random in training.
---@class spcore.dropout: spcore.node
---@field y spcore.ref 0, or x / (1 - p); x where nothing is trained

---@class spcore.encoder.layers
---@field type? "conv"|"conv_transpose"|"max_pool"|"avg_pool"|"batch_norm"|"relu"|"linear"|"flatten"|"residual"|"add"|"concat"|"mul"|"mean"|"sigmoid"|"hard_sigmoid"|"hard_swish"|"silu"|"upsample"|"dropout"|"group_norm" what the layer does (required)
---@field [1]? "conv"|"conv_transpose"|"max_pool"|"avg_pool"|"batch_norm"|"relu"|"linear"|"flatten"|"residual"|"add"|"concat"|"mul"|"mean"|"sigmoid"|"hard_sigmoid"|"hard_swish"|"silu"|"upsample"|"dropout"|"group_norm" the same as type
---@field out? integer output channels (conv, conv_transpose, residual), features (linear) or groups (group_norm) (0..1048576, default 0)
---@field [2]? integer the same as out
---@field kernel? integer|integer[] kernel size, or {height, width}; 0: 3 for conv, 2 for conv_transpose and pooling (0..1024 px, default {0})
---@field stride? integer|integer[] step; 0: 1 for conv and residual, 2 for conv_transpose, the kernel for pooling (0..1024 px, default {0})
---@field pad? integer|integer[] zeros added on each side (0..1024 px, default {0})
---@field out_pad? integer|integer[] conv_transpose: rows and columns added at the bottom and right (0..1024 px, default {0})
---@field dilation? integer|integer[] conv, conv_transpose: step between the pixels under the kernel; 0: 1 (0..1024 px, default {0})
---@field groups? integer conv, conv_transpose: parts of the channels that are convolved apart; as many as channels: depthwise (1..1048576, default 1)
---@field scale? integer|integer[] upsample: how many times as large (0..1024, default {0})
---@field size? integer|integer[] upsample: size of the result (0..1048576 px, default {0})
---@field like? string upsample: a layer whose size it gets (default "")
---@field mode? "nearest"|"bilinear" upsample: how (default "nearest")
---@field align_corners? boolean upsample, bilinear: the middles of corner pixels stay in place, not the corners of the map (default false)
---@field p? number dropout: how probable it is that an element, or a map, is dropped (0..1, default 0.5)
---@field maps? boolean dropout: drop all of a sample's channel or nothing of it (default false)
---@field name? string what `from` and its weights are called by; empty: its place in the list, from 0 (default "")
---@field from? string|string[] names of the earlier layers that it reads, "input", or in a decoder "skips.1" ...; none: the layer before (default {})
---@field tap? boolean its result is one of the stage's maps (default false)
---@field bias? boolean conv, conv_transpose, linear: with a bias (default true)
---@field eps? number batch_norm, group_norm, residual: added to the variance (1e-12..1, default 1e-05)
---@field momentum? number batch_norm, residual: weight of the new batch in the running statistics (0..1, default 0.1)

---What g.encoder is called with.
---@class spcore.encoder.params: spcore.node_options
---@field [1]? spcore.ref the input image
---@field image? spcore.ref N x C x H x W
---@field model? "plain"|"unet" plain: 1x1 convolution and log2(size) convolutions of stride 2; unet: levels of 3x3 convolutions with batch norm (default "plain")
---@field layers? spcore.encoder.layers[] the layers in order, instead of a model (default {})
---@field width? integer channels at full resolution, doubled with each halving (1..4096, default 16)
---@field depth? integer how often the map is halved; 0: down to one pixel (plain) or 3 times (unet) (0..20, default 0)
---@field convs? integer unet: 3x3 convolutions per level (1..16, default 2)
---@field down? "max_pool"|"conv" unet: how the map is halved (default "max_pool")

---a convolutional network from an image to features, with its maps at every resolution.
---@class spcore.encoder: spcore.node
---@field features spcore.ref the last map
---@field maps spcore.ref[] the map before each halving, from full resolution on; or, of `layers`, those with `tap`

---What g.flip is called with.
---@class spcore.flip.params: spcore.node_options
---@field [1]? spcore.ref|spcore.ref[] the input images
---@field images? spcore.ref|spcore.ref[] images of one height and width, N x C x H x W each, row-major or channels-last
---@field [2]? spcore.ref|spcore.ref[] the input masks
---@field masks? spcore.ref|spcore.ref[] label masks of the same height and width, N x H x W each
---@field [3]? spcore.ref the input flips
---@field flips? spcore.ref what to mirror, N x 2: left to right and top to bottom, 0 or 1 each; not wired: drawn
---@field horizontal? number probability of mirroring a sample left to right (0..1, default 0.5)
---@field vertical? number probability of mirroring a sample top to bottom (0..1, default 0)
---@field same_on_batch? boolean one draw for the whole batch, by the id of its first sample, instead of one a sample (default false)
---@field always? boolean draw outside of training too; otherwise evaluations and plain loops leave chance out (default false)

---Mirrors each sample left to right, top to bottom, both or not at all.
---@class spcore.flip: spcore.node
---@field images spcore.ref[] the images, mirrored, of the same type and order
---@field masks spcore.ref[] the masks, mirrored alike
---@field flips spcore.ref what was mirrored, N x 2: left to right and top to bottom, 0 or 1 each
---@field status spcore.ref bad values of the port of parameters

---What g.focal is called with.
---@class spcore.focal.params: spcore.node_options
---@field [1]? spcore.ref the input logits
---@field logits? spcore.ref N x C x ..., row-major or channels-last
---@field [2]? spcore.ref the input labels
---@field labels? spcore.ref N x ..., class numbers
---@field ignore_index? integer labels of this value do not count (default -100)
---@field gamma? number power of how wrong a logit is; 0: binary cross-entropy of each class (0..1000, default 2)
---@field alpha? number what the label's class counts, the others 1 - alpha; -1: all count 1 (-1..1, default -1)
---@field weight? number multiplies this loss and its gradient (default 1)
---@field nonfinite? "stop"|"ignore" stop the run when the loss is NaN or infinite, or ignore that, for an optimizer that skips such steps (default "stop")

---Focal loss of each class's logit against class labels.
---@class spcore.focal: spcore.node
---@field loss spcore.ref mean over what counts; 0 where nothing does
---@field status spcore.ref the first label out of range, or a loss that is not finite
---@field valid spcore.ref how many labels or numbers counted; 0: the step has no gradient
---@field total spcore.ref what the mean is over; of a step in shards its share of a full batch

---What g.gemm is called with.
---@class spcore.gemm.params: spcore.node_options
---@field [1]? spcore.ref the input a
---@field a? spcore.ref M x K
---@field [2]? spcore.ref the input b
---@field b? spcore.ref K x N; without it a constant matrix of random numbers
---@field n? integer columns of the constant b; 0: as many as a has (0..1048576, default 0)
---@field times? integer how often the same product is computed (1..1048576, default 1)

---Matrix product c = a b, computed so often that it takes a known time.
---@class spcore.gemm: spcore.node
---@field c spcore.ref M x N

---What g.image_requests is called with.
---@class spcore.image_requests.params: spcore.requests_options
---@field size? integer|integer[] height and width that images are resized to; one number: square (1..16384 px, default {256})
---@field resize? "squash"|"crop"|"pad" how images of another shape than size are fitted, as the reader does it (default "squash")
---@field shorter? integer as the reader has it (0..16384 px, default 0)
---@field interpolation? "bilinear"|"bicubic" as the reader has it (default "bilinear")
---@field orient? boolean images are turned upright as their EXIF orientation says; false: as stored (default true)
---@field decode? "full"|"scaled" scaled: a JPEG is decoded at a half, a quarter or an eighth of its sides where they are not below size: faster, other bits (default "full")
---@field workers? integer threads that decode one batch (1..64, default 2)
---@field max_pixels? integer an image whose header says more is refused (1..1073741824 px, default 67108864)
---@field max_bytes? integer a request of more is refused (1..1073741824 bytes, default 67108864)

---JPEG, PNG, WebP and TIFF images that scripts or other threads submit.
---@class spcore.image_requests: spcore.node
---@field image spcore.ref RGB images, N x 3 x H x W; black where a step has more places than requests

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
---@field [3]? spcore.ref the input label
---@field label? spcore.ref class of each sample, N: its files go to a folder of the class
---@field [4]? spcore.ref the input logits
---@field logits? spcore.ref scores, N x C x H x W, in the place of mask: enlarged to the picture's size, then the class of the largest is the label
---@field dir string folder for the files; made where it is missing, files in it are overwritten (required)
---@field images? string file of an image, * stands for the sample's name; .jpg, .jpeg or .png; empty: none (default "images/*.jpg")
---@field masks? string file of a mask, a palette PNG whose indices are the labels; empty: none (default "masks/*.png")
---@field overlays? string file of the image with the mask's colours over it; empty: none (default "")
---@field probabilities? string file of the softmax of the enlarged logits: .npy, float32 C x H x W, or .png, the label's own in 65535ths; empty: none (default "")
---@field legend? string names of the labels, one a line from 0 on: those in a mask but 0 stand below its overlay; empty: nothing does (default "")
---@field names? spcore.image_writer.names[] names by sample number; without them the number itself, five digits; a request has its own (default {})
---@field restore? boolean requests of image files: mask and overlay get the size of the file's image (default false)
---@field class_names? string folders by class, one a line, as reader's class_names; they come before the last part of images, masks and overlays; without them the class's number (default "")
---@field quality? integer of JPEG files (1..100, default 92)
---@field max_pixels? integer an original whose header says more is refused (1..1073741824 px, default 67108864)

---Writes images, label masks and both in one picture as JPEG and PNG files.
---@class spcore.image_writer: spcore.node
---@field size spcore.ref height and width of each mask, N x 2
---@field pixels spcore.ref how many pixels of each mask have each label, N x C, without logits N x 256

---@class spcore.layers.layers
---@field type? "conv"|"conv_transpose"|"max_pool"|"avg_pool"|"batch_norm"|"relu"|"linear"|"flatten"|"residual"|"add"|"concat"|"mul"|"mean"|"sigmoid"|"hard_sigmoid"|"hard_swish"|"silu"|"upsample"|"dropout"|"group_norm" what the layer does (required)
---@field [1]? "conv"|"conv_transpose"|"max_pool"|"avg_pool"|"batch_norm"|"relu"|"linear"|"flatten"|"residual"|"add"|"concat"|"mul"|"mean"|"sigmoid"|"hard_sigmoid"|"hard_swish"|"silu"|"upsample"|"dropout"|"group_norm" the same as type
---@field out? integer output channels (conv, conv_transpose, residual), features (linear) or groups (group_norm) (0..1048576, default 0)
---@field [2]? integer the same as out
---@field kernel? integer|integer[] kernel size, or {height, width}; 0: 3 for conv, 2 for conv_transpose and pooling (0..1024 px, default {0})
---@field stride? integer|integer[] step; 0: 1 for conv and residual, 2 for conv_transpose, the kernel for pooling (0..1024 px, default {0})
---@field pad? integer|integer[] zeros added on each side (0..1024 px, default {0})
---@field out_pad? integer|integer[] conv_transpose: rows and columns added at the bottom and right (0..1024 px, default {0})
---@field dilation? integer|integer[] conv, conv_transpose: step between the pixels under the kernel; 0: 1 (0..1024 px, default {0})
---@field groups? integer conv, conv_transpose: parts of the channels that are convolved apart; as many as channels: depthwise (1..1048576, default 1)
---@field scale? integer|integer[] upsample: how many times as large (0..1024, default {0})
---@field size? integer|integer[] upsample: size of the result (0..1048576 px, default {0})
---@field like? string upsample: a layer whose size it gets (default "")
---@field mode? "nearest"|"bilinear" upsample: how (default "nearest")
---@field align_corners? boolean upsample, bilinear: the middles of corner pixels stay in place, not the corners of the map (default false)
---@field p? number dropout: how probable it is that an element, or a map, is dropped (0..1, default 0.5)
---@field maps? boolean dropout: drop all of a sample's channel or nothing of it (default false)
---@field name? string what `from` and its weights are called by; empty: its place in the list, from 0 (default "")
---@field from? string|string[] names of the earlier layers that it reads, "input", or in a decoder "skips.1" ...; none: the layer before (default {})
---@field tap? boolean its result is one of the stage's maps (default false)
---@field bias? boolean conv, conv_transpose, linear: with a bias (default true)
---@field eps? number batch_norm, group_norm, residual: added to the variance (1e-12..1, default 1e-05)
---@field momentum? number batch_norm, residual: weight of the new batch in the running statistics (0..1, default 0.1)

---What g.layers is called with.
---@class spcore.layers.params: spcore.node_options
---@field [1]? spcore.ref the input image
---@field image? spcore.ref N x C x H x W, or N x C for linear layers
---@field layers spcore.layers.layers[] the layers in order: { { "conv", 16, kernel = 3, pad = 1 }, { "relu" } }; `from` makes them a graph (required)

---a list or graph of layers, named as PyTorch's nn.Sequential names them unless they say.
---@class spcore.layers: spcore.node
---@field features spcore.ref what the last layer gives
---@field maps spcore.ref[] what the layers with `tap` give, in their order

---What g.mse is called with.
---@class spcore.mse.params: spcore.node_options
---@field [1]? spcore.ref the input input
---@field input? spcore.ref N x C x ..., row-major or channels-last
---@field [2]? spcore.ref the input target
---@field target? spcore.ref the same shape; it has a gradient as well
---@field weight? number multiplies this loss and its gradient (default 1)
---@field nonfinite? "stop"|"ignore" stop the run when the loss is NaN or infinite, or ignore that, for an optimizer that skips such steps (default "stop")

---Mean of the squared differences of two tensors.
---@class spcore.mse: spcore.node
---@field loss spcore.ref mean over what counts; 0 where nothing does
---@field status spcore.ref the first label out of range, or a loss that is not finite
---@field valid spcore.ref how many labels or numbers counted; 0: the step has no gradient
---@field total spcore.ref what the mean is over; of a step in shards its share of a full batch

---What g.normalize is called with.
---@class spcore.normalize.params: spcore.node_options
---@field [1]? spcore.ref|spcore.ref[] the input images
---@field images? spcore.ref|spcore.ref[] images of one height and width, N x C x H x W each, row-major or channels-last
---@field mean? number|number[] what is subtracted: one number, or one a channel (default {0})
---@field std? number|number[] what the difference is divided by: one positive number, or one a channel (default {1})
---@field scale? boolean multiply bytes by 1/255 first, so that mean and std are those of values 0..1; only for uint8 images (default false)

---Subtracts a mean from each channel and divides by a deviation, to float32.
---@class spcore.normalize: spcore.node
---@field images spcore.ref[] (x - mean) / std as float32, in the order of the images

---What g.reader is called with.
---@class spcore.reader.params: spcore.source_options
---@field path? string folder with images/ and masks/ (same stem, masks PNG), folder with a subfolder of images for each class (target class), folder with train/ and val/ of such layout, PASCAL VOC's, a .csv file with the columns file and label or mask, tar files or a pattern of them, .npy files, or a built-in set: shapes, random (default "")
---@field target? "mask"|"class" what is known of an image: a label for each pixel, or one class (default "mask")
---@field files? string|string[] images without masks, in this order, instead of path; at most 1024, all labels are 255 (default {})
---@field size? integer|integer[] height and width that everything is resized to; one number: square (1..16384 px, default {256})
---@field workers? integer threads that fill one batch (1..64, default 2)
---@field split? "all"|"train"|"val" which samples: all, those for training or those for validation; of data that says so itself (train/ and val/, lists, a column split, val_path) what it says (default "all")
---@field val_fraction? number|number[] part of the samples that is for validation (not given: default_val_fraction), rounded to the nearest count; chosen by name or number; not for data that says itself what is for validation (0..0.9, default {})
---@field default_val_fraction? number val_fraction where that is not given and the data does not say itself what is for validation (0..0.9, default 0.1)
---@field val_path? string another folder of the same layout: its samples are those for validation, those of path for training (default "")
---@field samples? integer samples before the split: shapes and random make so many (0: 2048), of a folder the first, or with target class a choice by name (0: all); of data that says itself what is for validation so many of each part (0..2147483647, default 0)
---@field classes? integer of random (0: 10), or of files (0: as many as classes.txt has lines, there are subfolders, or their labels name); shapes has 6, with target class 5; at most 255 with target mask (0..2147483647, default 0)
---@field max_bad? integer how many broken files are replaced by others before the run stops (0..2147483647, default 16)
---@field max_pixels? integer an image whose header says more counts as broken (1..1073741824 px, default 67108864)
---@field resize? "squash"|"crop"|"pad" how files of another shape than size are fitted: squash changes the aspect; crop keeps it and cuts the middle out; pad keeps it and fills with 0, masks with 255 (default "squash")
---@field shorter? integer the shorter side of a file becomes this, and size is cut out of the middle; 0: resize says what is done (0..16384 px, default 0)
---@field interpolation? "bilinear"|"bicubic" of images, with antialiasing; bicubic has Pillow's bits. Masks take the nearest pixel (default "bilinear")
---@field orient? boolean images and masks are turned upright as their EXIF orientation says; false: as they are stored (default true)
---@field check? boolean every sample that is wrong is named, its image is black and nothing takes its place: to look for mistakes, not to train (default false)
---@field data_seed? integer seed of the built-in sets (0..2147483647, default 0)

---Reads images with label masks or classes from files, archives and arrays, or makes them up.
---@class spcore.reader: spcore.node
---@field image spcore.ref RGB images, N x 3 x H x W
---@field mask spcore.ref labels of the pixels, N x H x W; 255: no label; of shapes with target class 0 is ground, 1 + label the shape
---@field label spcore.ref class of each image, N, int32 where there are more than 256; with target mask 255: no label
---@field origin spcore.ref N x 3: which of the whole set the sample is, of a broken file's that of its replacement (with check: -1 less its own); height and width that its file has, turned as orient says

---What g.request_load is called with.
---@class spcore.request_load.params: spcore.requests_options
---@field size? integer|integer[] height and width of the images, or one for both (1..4096 px, default {256})
---@field clients? integer threads (1..1024, default 16)
---@field open? integer requests that a client has open before it waits for an answer (1..1024, default 1)
---@field requests? integer of all clients together (1..1000000000, default 1000)
---@field pause_us? integer mean of a client's pause before a request, uniform from 0 to twice that (0..10000000 us, default 0)
---@field cancel? number part of the requests that are cancelled as soon as they are submitted (0..1, default 0)
---@field late? number part of the requests that have a deadline (0..1, default 0)
---@field late_us? integer the longest of these deadlines; they are uniform from 1 us (1..1000000000 us, default 1000)
---@field seed? integer of images, pauses and all else (at least 0, default 1)
---@field report? string JSON file that is written when the graph is closed: requests by what came of them, and how many were answered twice, never, or with other bits than another request of the same image (default "")

---Requests of many client threads, to measure a graph that serves.
---@class spcore.request_load: spcore.node
---@field image spcore.ref random images, N x 3 x H x W

---@class spcore.requests.tensors
---@field dtype? "uint8"|"int8"|"int32"|"int64"|"float32"|"float64" type of the elements (default "float32")
---@field [1]? "uint8"|"int8"|"int32"|"int64"|"float32"|"float64" the same as dtype
---@field shape? integer|integer[] of one sample, without the batch (1..2147483648, default {})
---@field order? "row_major"|"channels_last" how a sample lies in memory; channels_last: height, width, channels (default "row_major")

---What g.requests is called with.
---@class spcore.requests.params: spcore.requests_options
---@field tensors spcore.requests.tensors[] what a request has, in order (required)

---Samples that scripts or other threads submit, as they lie in memory.
---@class spcore.requests: spcore.node
---@field data spcore.ref[] what requests are made of, each tensor with the batch in front; zeros where a step has more places than requests

---What g.resize is called with.
---@class spcore.resize.params: spcore.node_options
---@field [1]? spcore.ref|spcore.ref[] the input images
---@field images? spcore.ref|spcore.ref[] images of one height and width, N x C x H x W each, row-major or channels-last
---@field [2]? spcore.ref|spcore.ref[] the input masks
---@field masks? spcore.ref|spcore.ref[] label masks of the same height and width, N x H x W each
---@field size integer|integer[] height and width afterwards; one number: square (1..1048576 px, required)
---@field interpolation? "bilinear"|"bicubic" of images; bicubic with a = -1/2: bytes as Pillow, floats as PyTorch with antialiasing (default "bilinear")
---@field antialias? boolean where images shrink, a pixel is the mean of all that it covers; otherwise of the nearest 2 x 2 alone, which bicubic cannot (default true)

---Scales images bilinearly or bicubically, with antialiasing, and masks to the nearest pixel.
---@class spcore.resize: spcore.node
---@field images spcore.ref[] the images, N x C x size, of the type and order they had; bytes are rounded, half to even
---@field masks spcore.ref[] the masks, N x size

---What g.sgd is called with.
---@class spcore.sgd.params: spcore.node_options
---@field [1]? spcore.ref|spcore.ref[] the input gradients
---@field gradients? spcore.ref|spcore.ref[] one per weight
---@field [2]? spcore.ref|spcore.ref[] the input statistics
---@field statistics? spcore.ref|spcore.ref[] running statistics of what is trained; put back where an update is skipped
---@field lr? number learning rate (0..1000000, default 0.001; may be set while running)
---@field momentum? number share of the former update that is kept (0..1, default 0)
---@field dampening? number share of the gradient that momentum leaves out (0..1, default 0)
---@field nesterov? boolean Nesterov momentum (default false)
---@field weight_decay? number times the weight is added to its gradient (0..1000000, default 0)
---@field clip_norm? number gradients are scaled down to this L2 norm over all of them; 0: never (at least 0, default 0)
---@field report_norm? boolean compute grad_norm without clipping too (default false)
---@field ema? number decay of moving averages of the weights, below 1: after each update average = ema * average + (1 - ema) * weight, the first copies; evaluations and saved runs have them; 0: none (0..1, default 0)
---@field nonfinite? "stop"|"skip" when a gradient is NaN or infinite: stop the run, or skip the update and leave weights and state (default "stop")
---@field max_nonfinite? integer so many updates skipped in a row stop the run; only with nonfinite = "skip" (1..1000000000, default 10)

---Stochastic gradient descent.
---@class spcore.sgd: spcore.node
---@field weights spcore.ref[] updated in place, in the order of the gradients
---@field grad_norm spcore.ref[] L2 norm of all gradients before clipping; only with clip_norm or report_norm
---@field skipped spcore.ref[] 1 where this update was skipped, else 0; only with nonfinite = "skip"
---@field status spcore.ref gradients that are not finite, where they stop the run

---What g.sleep is called with.
---@class spcore.sleep.params: spcore.node_options
---@field [1]? spcore.ref|spcore.ref[] the input x
---@field x? spcore.ref|spcore.ref[] any tensors
---@field ms? number how long forward takes (0..1000000 ms, default 0)
---@field backward_ms? number how long backward takes (0..1000000 ms, default 0)
---@field spin? boolean keep a processor busy instead of sleeping; a GPU is kept busy in any case (default false)
---@field fail_at_step? integer forward fails at this step, on a GPU by a trap; -1: never (-1..9007199254740992, default -1)

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

---What g.writer is called with.
---@class spcore.writer.params: spcore.node_options
---@field [1]? spcore.ref the input data
---@field data? spcore.ref N rows of any shape
---@field file string the .npy file; what was there is replaced as the first step begins (required)

---Writes a tensor, a row for each sample, to one .npy file.
---@class spcore.writer: spcore.node

---@class spcore.graph
---@field accuracy fun(t: spcore.accuracy.params): spcore.accuracy Counts of labels that are the class of the largest logit, or among the k largest
---@field adamw fun(t: spcore.adamw.params): spcore.adamw Adam with decoupled weight decay
---@field add fun(t: spcore.add.params): spcore.add Sum of tensors of one shape
---@field argmax fun(t: spcore.argmax.params): spcore.argmax Gives each pixel the class of its largest logit
---@field augment fun(t: spcore.augment.params): spcore.augment Crops, enlarges, turns, blurs and normalizes images in one go, to float32
---@field batch_crop fun(t: spcore.batch_crop.params): spcore.batch_crop Cuts a window of one size out of each sample, at a place of its own
---@field batch_resized_crop fun(t: spcore.batch_resized_crop.params): spcore.batch_resized_crop Cuts a window of random area and ratio out of each sample and scales it to one size
---@field batch_rotate fun(t: spcore.batch_rotate.params): spcore.batch_rotate Turns each sample about its middle by an angle of its own, on the same canvas
---@field bce fun(t: spcore.bce.params): spcore.bce Binary cross-entropy of logits against labels of 0 and 1, or numbers between
---@field blur fun(t: spcore.blur.params): spcore.blur Blurs images with a Gaussian kernel, each sample with a sigma of its own
---@field classifier fun(t: spcore.classifier.params): spcore.classifier a network from an image, or from an encoder's features, to one score per class
---@field color_jitter fun(t: spcore.color_jitter.params): spcore.color_jitter Changes brightness, contrast, saturation and hue of each sample, in an order of its own
---@field concat fun(t: spcore.concat.params): spcore.concat Joins tensors along an axis
---@field confusion fun(t: spcore.confusion.params): spcore.confusion Counts of true against predicted classes, for accuracy and IoU
---@field contact_sheet fun(t: spcore.contact_sheet.params): spcore.contact_sheet Draws samples and what augmentation made of them, with captions, into one PNG file
---@field cross_entropy fun(t: spcore.cross_entropy.params): spcore.cross_entropy Mean cross-entropy of logits against class labels
---@field decoder fun(t: spcore.decoder.params): spcore.decoder a network of transposed convolutions from features to class scores per pixel
---@field dice fun(t: spcore.dice.params): spcore.dice Dice loss of the softmax of logits against class labels
---@field dropout fun(t: spcore.dropout.params): spcore.dropout Drops elements or whole maps at random in training
---@field encoder fun(t: spcore.encoder.params): spcore.encoder a convolutional network from an image to features, with its maps at every resolution
---@field flip fun(t: spcore.flip.params): spcore.flip Mirrors each sample left to right, top to bottom, both or not at all
---@field focal fun(t: spcore.focal.params): spcore.focal Focal loss of each class's logit against class labels
---@field gemm fun(t: spcore.gemm.params): spcore.gemm Matrix product c = a b, computed so often that it takes a known time
---@field image_requests fun(t: spcore.image_requests.params): spcore.image_requests JPEG, PNG, WebP and TIFF images that scripts or other threads submit
---@field image_writer fun(t: spcore.image_writer.params): spcore.image_writer Writes images, label masks and both in one picture as JPEG and PNG files
---@field layers fun(t: spcore.layers.params): spcore.layers a list or graph of layers, named as PyTorch's nn.Sequential names them unless they say
---@field mse fun(t: spcore.mse.params): spcore.mse Mean of the squared differences of two tensors
---@field normalize fun(t: spcore.normalize.params): spcore.normalize Subtracts a mean from each channel and divides by a deviation, to float32
---@field reader fun(t: spcore.reader.params): spcore.reader Reads images with label masks or classes from files, archives and arrays, or makes them up
---@field request_load fun(t: spcore.request_load.params): spcore.request_load Requests of many client threads, to measure a graph that serves
---@field requests fun(t: spcore.requests.params): spcore.requests Samples that scripts or other threads submit, as they lie in memory
---@field resize fun(t: spcore.resize.params): spcore.resize Scales images bilinearly or bicubically, with antialiasing, and masks to the nearest pixel
---@field sgd fun(t: spcore.sgd.params): spcore.sgd Stochastic gradient descent
---@field sleep fun(t: spcore.sleep.params): spcore.sleep Passes tensors through after a known time
---@field to_float fun(t: spcore.to_float.params): spcore.to_float Turns bytes into float32
---@field writer fun(t: spcore.writer.params): spcore.writer Writes a tensor, a row for each sample, to one .npy file
