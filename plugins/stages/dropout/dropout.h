/* SPDX-License-Identifier: MIT
 * dropout.h - which elements or maps are dropped: ports, checks and the rule, for every device and in kernels. */
#ifndef DROPOUT_H
#define DROPOUT_H

#include "../../kits/drop.h"
#include "../../kits/pair.h"

#define DROPOUT_DOC "Drops elements or whole maps at random in training"

extern const sp_port dropout_inputs[], dropout_outputs[];
extern const sp_param dropout_param_table[];

typedef struct dropout_params {
  double p;
  int32_t maps;
} dropout_params;

/* A batch, and what is drawn for it. */
typedef struct drop_shape {
  int64_t n, channels, px; /* px: elements of one map */
  int32_t rows;            /* the channels of one position lie side by side */
  int32_t maps;
  uint32_t limit; /* of 2^24: draws below it drop */
  float scale;    /* of what is left */
} drop_shape;

int dropout_plan(sp_ctx *ctx, void *self, sp_plan *plan);
drop_shape dropout_shape(const dropout_params *p, const sp_spec *x);

/* What is drawn for element `at` of a sample, in memory order: its map, or its place in logical row-major order. So the
 * order in memory changes nothing. */
SP_RNG_FN int64_t drop_unit(const drop_shape *s, int64_t at) {
  int64_t channel = s->rows ? at % s->channels : at / s->px;
  if (s->maps) return channel;
  return s->rows ? channel * s->px + at / s->channels : at;
}

/* What the stage is on every device. */
#define DROPOUT_PAIR                                                                                             \
  SP_STAGE_PAIR(dropout, SP_STAGE_REENTRANT | SP_STAGE_STOCHASTIC, DROPOUT_DOC, .doc = DROPOUT_DOC,              \
                .inputs = dropout_inputs, .outputs = dropout_outputs, .params = dropout_param_table,             \
                .params_size = sizeof(dropout_params), .create = stateless_create, .destroy = stateless_destroy, \
                .plan = dropout_plan)

#endif
