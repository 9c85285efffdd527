/* SPDX-License-Identifier: MIT
 * fields.c - what a script may say of a layer. */
#include "net.h"

static const char *const modes[] = {"nearest", "bilinear", NULL};
static const sp_param from_fields[] = {{.name = "name",
                                        .type = SP_PARAM_STRING,
                                        .flags = SP_PARAM_REQUIRED | SP_PARAM_FIRST,
                                        .doc = "of an earlier layer"},
                                       {.name = NULL}};

#define FIELD(m) offsetof(nn_layer, m)
/* One number, or {height, width}. */
#define PAIR(m, max, of, words)                                                                                \
  {                                                                                                            \
    .name = #m, .type = SP_PARAM_INTS, .offset = FIELD(m), .imin = 0, .imax = max, .def_str = "0", .min_n = 1, \
    .max_n = 2, .unit = of, .doc = words                                                                       \
  }
#define SIDES(m, words) PAIR(m, 1024, "px", words)

const sp_param nn_layer_fields[] = {
    {.name = "type",
     .type = SP_PARAM_CHOICE,
     .flags = SP_PARAM_REQUIRED | SP_PARAM_FIRST,
     .offset = FIELD(type),
     .choices = nn_words,
     .doc = "what the layer does"},
    {.name = "out",
     .type = SP_PARAM_INT,
     .flags = SP_PARAM_FIRST,
     .offset = FIELD(out),
     .imin = 0,
     .imax = NN_MAX_EXTENT,
     .doc = "output channels (conv, conv_transpose, residual), features (linear) or groups (group_norm)"},
    SIDES(kernel, "kernel size, or {height, width}; 0: 3 for conv, 2 for conv_transpose and pooling"),
    SIDES(stride, "step; 0: 1 for conv and residual, 2 for conv_transpose, the kernel for pooling"),
    SIDES(pad, "zeros added on each side"),
    SIDES(out_pad, "conv_transpose: rows and columns added at the bottom and right"),
    SIDES(dilation, "conv, conv_transpose: step between the pixels under the kernel; 0: 1"),
    {.name = "groups",
     .type = SP_PARAM_INT,
     .offset = FIELD(groups),
     .idef = 1,
     .imin = 1,
     .imax = NN_MAX_EXTENT,
     .doc = "conv, conv_transpose: parts of the channels that are convolved apart; as many as channels: depthwise"},
    PAIR(scale, 1024, NULL, "upsample: how many times as large"),
    PAIR(size, NN_MAX_EXTENT, "px", "upsample: size of the result"),
    {.name = "like", .type = SP_PARAM_STRING, .offset = FIELD(like), .doc = "upsample: a layer whose size it gets"},
    {.name = "mode", .type = SP_PARAM_CHOICE, .offset = FIELD(mode), .choices = modes, .doc = "upsample: how"},
    {.name = "align_corners",
     .type = SP_PARAM_BOOL,
     .offset = FIELD(align_corners),
     .doc = "upsample, bilinear: the middles of corner pixels stay in place, not the corners of the map"},
    {.name = "p",
     .type = SP_PARAM_FLOAT,
     .offset = FIELD(p),
     .def = 0.5,
     .min = 0,
     .max = 1,
     .doc = "dropout: how probable it is that an element, or a map, is dropped"},
    {.name = "maps",
     .type = SP_PARAM_BOOL,
     .offset = FIELD(maps),
     .doc = "dropout: drop all of a sample's channel or nothing of it"},
    {.name = "name",
     .type = SP_PARAM_STRING,
     .offset = FIELD(name),
     .doc = "what `from` and its weights are called by; empty: its place in the list, from 0"},
    {.name = "from",
     .type = SP_PARAM_LIST,
     .offset = FIELD(from),
     .fields = from_fields,
     .fields_size = sizeof(const char *),
     .max_n = NN_MAX_INS,
     .doc = "names of the earlier layers that it reads, \"input\", or in a decoder \"skips.1\" ...; none: the layer "
            "before"},
    {.name = "tap", .type = SP_PARAM_BOOL, .offset = FIELD(tap), .doc = "its result is one of the stage's maps"},
    {.name = "bias",
     .type = SP_PARAM_BOOL,
     .offset = FIELD(bias),
     .idef = 1,
     .doc = "conv, conv_transpose, linear: with a bias"},
    {.name = "eps",
     .type = SP_PARAM_FLOAT,
     .offset = FIELD(eps),
     .def = 1e-5,
     .min = 1e-12,
     .max = 1,
     .doc = "batch_norm, group_norm, residual: added to the variance"},
    {.name = "momentum",
     .type = SP_PARAM_FLOAT,
     .offset = FIELD(momentum),
     .def = 0.1,
     .min = 0,
     .max = 1,
     .doc = "batch_norm, residual: weight of the new batch in the running statistics"},
    {.name = NULL}};
