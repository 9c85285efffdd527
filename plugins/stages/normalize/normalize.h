/* SPDX-License-Identifier: MIT
 * normalize.h - (x - mean) / std of each channel: ports, parameters and checks, for every device. */
#ifndef NORMALIZE_H
#define NORMALIZE_H

#include "../../kits/aug/aug.h"

#define NORM_DOC "Subtracts a mean from each channel and divides by a deviation, to float32"

#define NORM_MAX 256 /* numbers of `mean` and `std`: a kernel gets them as its argument */

typedef struct norm_params {
  sp_floats mean, std;
  int32_t scale;
} norm_params;

/* What is computed: (x * by - mean[c]) / std[c]; n is 1 where all channels have the same. */
typedef struct norm_terms {
  int32_t n;
  float by; /* of bytes */
  float mean[NORM_MAX], std[NORM_MAX];
} norm_terms;

extern const sp_port norm_inputs[], norm_outputs[];
extern const sp_param norm_param_table[];

/* Whether the numbers are such, and as many as there are channels. */
int norm_check(sp_ctx *ctx, const norm_params *p, const sp_plan *plan);
int norm_plan(sp_ctx *ctx, void *self, sp_plan *plan);
void norm_terms_of(const norm_params *p, norm_terms *t);

#endif
