/* SPDX-License-Identifier: MIT
 * deviation.c - exact sums of differences: ports. */
#include "deviation.h"

const sp_port dev_outputs[] = {
    {.name = "deviations",
     .dtypes = SP_DT(SP_I64),
     .ndim = 3,
     .flags = SP_PORT_METRIC | SP_PORT_NOGRAD,
     .doc = "C x 6 x 24: how many counted and were not finite; sums of |d|, d, d^2, y and y^2, where d is "
            "input - target and y the target, in limbs of 24 bits from 2^-312 on"},
    {.name = NULL}};
