/* SPDX-License-Identifier: MIT
 * boundary.h - how much of the boundaries of masks lies near those of others: ports, parameters and checks, for every
 * device.
 *
 * As the contour accuracy F of DAVIS (Perazzi et al., "A benchmark dataset and evaluation methodology for video object
 * segmentation", CVPR 2016) has it: a pixel is on a class's boundary where exactly one of it and its neighbours to the
 * right, below, and below on the right is of the class; a boundary pixel is matched where one of the other mask is
 * within the tolerance, as a disc. Where a label does not count, neither mask has a pixel, nor a boundary to it. */
#ifndef BOUNDARY_H
#define BOUNDARY_H

#include "../../kits/labels/labels.h"
#include "../../kits/pair.h"

#ifdef __CUDACC__
#define BOUNDARY_FN static __host__ __device__ __forceinline__
#else
#define BOUNDARY_FN static inline
#endif

#define BOUNDARY_DOC "Counts of boundary pixels that lie near those of the truth, by class, for the boundary F1"
#define BOUNDARY_STATUS_DOC "sample %sample: label %value is outside 0..%limit"

enum { BND_IN_LOGITS, BND_IN_LABELS };
enum { BND_OUT_BOUNDARIES, BND_OUT_STATUS };
enum { BND_PREDICTED, BND_PREDICTED_NEAR, BND_TRUE, BND_TRUE_NEAR, BND_N };

typedef struct bnd_params {
  int64_t tolerance, ignore_index;
} bnd_params;

extern const sp_port bnd_inputs[], bnd_outputs[];
extern const sp_param bnd_param_table[];

/* Classes of an image's pixels; -1: none. */
typedef int16_t bnd_class;

typedef struct bnd_size {
  int32_t h, w, tolerance;
} bnd_size;

/* How many classes there are: a single logit is above 0 or not. */
BOUNDARY_FN int64_t bnd_classes(const logit_shape *s) { return s->classes == 1 ? 2 : s->classes; }

/* The classes on whose boundary a pixel is, up to four -> how many. */
BOUNDARY_FN int bnd_at(const bnd_class *map, const bnd_size *s, int32_t y, int32_t x, bnd_class *found) {
  const bnd_class *at = map + (int64_t)y * s->w + x, own = *at;
  int right = x + 1 < s->w, below = y + 1 < s->h, n = 0;
  bnd_class others[3];
  others[0] = right ? at[1] : (bnd_class)-1;
  others[1] = below ? at[s->w] : (bnd_class)-1;
  others[2] = right && below ? at[s->w + 1] : (bnd_class)-1;
  if (own < 0) return 0;
  for (int k = 0; k < 3; k++) {
    int is_new = others[k] >= 0 && others[k] != own;
    for (int i = 1; i < n; i++) is_new = is_new && found[i] != others[k];
    if (!is_new) continue;
    if (!n) found[n++] = own;
    found[n++] = others[k];
  }
  return n;
}

/* Whether a boundary pixel of the class is within the tolerance; most that are lie near, so the nearest rows come
 * first. */
BOUNDARY_FN int bnd_near(const bnd_class *map, const bnd_size *s, int32_t y, int32_t x, bnd_class c) {
  bnd_class found[4];
  int32_t r = s->tolerance;
  int32_t x0 = x - r > 0 ? x - r : 0, x1 = x + r < s->w - 1 ? x + r : s->w - 1;
  for (int32_t k = 0; k <= 2 * r; k++) {
    int32_t v = y + (k & 1 ? (k + 1) / 2 : -k / 2);
    if (v < 0 || v >= s->h) continue;
    for (int32_t u = x0; u <= x1; u++) {
      if ((v - y) * (v - y) + (u - x) * (u - x) > r * r) continue;
      int n = bnd_at(map, s, v, u, found);
      for (int i = 0; i < n; i++)
        if (found[i] == c) return 1;
    }
  }
  return 0;
}

int bnd_plan(sp_ctx *ctx, void *self, sp_plan *plan); /* all but the scratch */
bnd_size bnd_size_of(const bnd_params *p, const sp_spec *x);

/* What the stage is on every device. */
#define BOUNDARY_PAIR                                                                                           \
  SP_STAGE_PAIR(boundary, SP_STAGE_REENTRANT, "Boundaries of masks", .doc = BOUNDARY_DOC, .inputs = bnd_inputs, \
                .outputs = bnd_outputs, .params = bnd_param_table, .params_size = sizeof(bnd_params),           \
                .status_doc = BOUNDARY_STATUS_DOC, .create = stateless_create, .destroy = stateless_destroy)

#endif
