/* SPDX-License-Identifier: MIT
 * optim_adam.h - AdamW's update on the CPU, for optimizers that have it for all weights or for some. */
#ifndef SP_PLUGINS_OPTIM_ADAM_H
#define SP_PLUGINS_OPTIM_ADAM_H

#include <math.h>
#include <stdbool.h>

#include "optim_cpu.h"

enum { OPTIM_MEAN, OPTIM_SQUARE, OPTIM_LARGEST }; /* moments; LARGEST: with amsgrad alone */

/* Of a group. */
typedef struct optim_pace {
  float shrink, rate, root; /* 1 - lr * weight_decay, lr / (1 - b1^t), sqrt(1 - b2^t) */
} optim_pace;

typedef struct optim_adam {
  optim_pace pace[SP_MAX_GROUPS];
  float b1, b2, c1, c2; /* c: 1 - b */
  float eps, clip;
} optim_adam;

/* Behind optim_count(). lr: before that of groups. */
static inline void optim_adam_set(optim_adam *r, const optim *o, const sp_io *io, double lr, const sp_floats *betas,
                                  double eps, double weight_decay) {
  double b1 = betas->v[0], b2 = betas->v[1];
  r->b1 = (float)b1, r->b2 = (float)b2, r->c1 = (float)(1 - b1), r->c2 = (float)(1 - b2), r->eps = (float)eps;
  for (uint32_t k = 0; k < o->n_groups; k++) {
    double own = optim_lr(o, k, lr), t = (double)optim_updates(o, io, k);
    r->pace[k] = (optim_pace){.shrink = (float)(1 - own * optim_decay(o, k, weight_decay)),
                              .rate = (float)(own / (1 - pow(b1, t))),
                              .root = (float)sqrt(1 - pow(b2, t))};
  }
}

static inline __attribute__((always_inline)) unsigned optim_adam_body(const optim_adam *r, bool largest,
                                                                      const optim_at *at, const float *restrict g,
                                                                      float *restrict p, float *const *m, int64_t n) {
  float shrink = r->pace[at->group].shrink, rate = -r->pace[at->group].rate, root = r->pace[at->group].root;
  float b1 = r->b1, b2 = r->b2, c1 = r->c1, c2 = r->c2, eps = r->eps, clip = r->clip;
  float *restrict mean = m[OPTIM_MEAN], *restrict square = m[OPTIM_SQUARE], *restrict most = m[OPTIM_LARGEST];
  unsigned bad = 0;
  for (int64_t i = 0; i < n; i++) {
    float d = g[i] * clip;
    bad |= optim_bad(g[i]);
    float mi = fmaf(c1, d, b1 * mean[i]);
    float vi = fmaf(c2 * d, d, b2 * square[i]);
    mean[i] = mi;
    square[i] = vi;
    if (largest) {
      vi = most[i] > vi ? most[i] : vi;
      most[i] = vi;
    }
    p[i] = fmaf(rate, mi / (__builtin_sqrtf(vi) / root + eps), p[i] * shrink);
  }
  return bad;
}

#endif
