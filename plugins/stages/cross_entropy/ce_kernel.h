/* SPDX-License-Identifier: MIT
 * ce_kernel.h - loss and gradient of one chunk of positions. */
#ifndef SP_PLUGINS_CE_KERNEL_H
#define SP_PLUGINS_CE_KERNEL_H

#include "../../kits/loss/loss_cpu.h"
#include "cross_entropy.h"

typedef struct ce_job {
  logit_shape shape;
  const float *x;
  float *g; /* NULL: no gradient */
  int acc;  /* add to g */
  const void *labels;
  int label_dtype;
  int64_t ignore;
  const float *class_weights; /* NULL: all 1 */
  ce_smooth smooth;
  float scale;  /* of the gradient: (softmax - onehot) * scale * class weight, without smoothing */
  double *loss; /* [chunks] out: sum of class weight * -log softmax, smoothed */
} ce_job;

typedef void (*ce_fn)(const ce_job *job, int64_t chunk);

/* The fastest variant for this processor. All give the same bits: they use the same operations, without fused ones. */
ce_fn ce_choose(void);

#endif
