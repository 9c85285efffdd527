/* SPDX-License-Identifier: MIT
 * depth_error.c - relative and logarithmic differences: ports and parameters. */
#include "depth_error.h"

const sp_port depth_outputs[] = {
    {.name = "depths",
     .dtypes = SP_DT(SP_I64),
     .ndim = 3,
     .flags = SP_PORT_METRIC | SP_PORT_NOGRAD,
     .doc = "C x 5 x 24: counts (summed, not finite, targets below `least`, inputs below it, within 1.25, 1.25^2, "
            "1.25^3); sums of |x - y| / y, (x - y)^2 / y, g and g^2, where x is the input, y the target, g log x - log "
            "y, in limbs of 24 bits from 2^-312 on"},
    {.name = NULL}};
const sp_param depth_param_table[] = {
    {.name = "least",
     .type = SP_PARAM_FLOAT,
     .offset = offsetof(depth_params, least),
     .def = 1e-3,
     .min = 1e-6,
     .max = 1e30,
     .doc = "a target below it does not count, an input below it counts as it"},
    {.name = "scale",
     .type = SP_PARAM_FLOAT,
     .offset = offsetof(depth_params, scale),
     .def = 1,
     .min = 1e-30,
     .max = 1e30,
     .doc = "inputs and targets are multiplied by it, so that they have the units of the data"},
    {.name = "offset",
     .type = SP_PARAM_FLOAT,
     .offset = offsetof(depth_params, offset),
     .min = -1e30,
     .max = 1e30,
     .doc = "what is added then"},
    {.name = NULL}};
