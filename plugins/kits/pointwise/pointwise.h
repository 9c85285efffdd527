/* SPDX-License-Identifier: MIT
 * pointwise.h - losses that are a mean over single numbers, each beside its target; on every device. */
#ifndef SP_PLUGINS_POINTWISE_H
#define SP_PLUGINS_POINTWISE_H

#include "../loss/loss.h"

enum { POINT_FOCAL, POINT_FOCAL_2 /* gamma is 2 */, POINT_BCE, POINT_SQUARE, POINT_PLAIN /* a square, all count */ };

/* What a difference costs, of POINT_SQUARE: its square, its size, or Huber's: half of its square up to `delta`, and as
 * steep as there from then on. */
enum { POINT_D_SQUARE, POINT_D_SIZE, POINT_D_HUBER };

/* What the target of a number is. */
enum {
  TARGET_CLASS, /* 1 where the label of the position is the number's class, else 0; the mean is over positions */
  TARGET_LABEL, /* the label of the position, 0 or 1; there is one class */
  TARGET_FLOAT  /* the number in another tensor */
};

typedef struct point_job {
  loss_job l; /* labels: NULL with TARGET_FLOAT */
  int kind, target;
  const float *y;  /* with TARGET_FLOAT */
  int y_rows;      /* the classes of a position lie side by side in y */
  float *dy;       /* its gradient, or NULL */
  int dy_acc;      /* add to dy */
  int cost;        /* POINT_D_SQUARE ..., of POINT_SQUARE */
  float delta;     /* of POINT_D_HUBER */
  float gamma;     /* of POINT_FOCAL */
  float one, zero; /* what targets of 1 and of 0 count */
} point_job;

/* Checks the inputs by what the targets are, and plans the outputs. */
int point_plan(sp_ctx *ctx, sp_plan *plan, int target);

/* The job of a call, all but what its kind needs. */
void point_job_of(point_job *j, const sp_io *io, const loss_params *p, int kind, int target);

/* On the CPU. */
size_t point_scratch(const sp_spec *x);
int point_loss(sp_ctx *ctx, const point_job *j);

#endif
