/* SPDX-License-Identifier: MIT
 * aug_kit.h - what must hold of every stage that changes images and masks. For Check.
 */
#ifndef AUG_KIT_H
#define AUG_KIT_H

#include <check.h>

#include "tests/kit/harness.h"

enum { KIT_IMAGES, KIT_MASKS, KIT_DRAWN }; /* ports, in and out */

/* As ck_assert_msg, of each of many values: Check writes to a file for every assertion, whether it holds or not. */
#define kit_each(holds, ...)                 \
  do {                                       \
    if (!(holds)) ck_abort_msg(__VA_ARGS__); \
  } while (0)

typedef struct aug_kit {
  spt *t;
  int64_t n, c, h, w;
} aug_kit;

/* A stage with an image of n x c x h x w (dtype SP_U8 or SP_F32, any order, a pure function of seed) and, where `mask`
 * is true, a uint8 mask that equals its channel 0. Not planned yet. Values: bytes, or whole floats of 0..255. */
void kit_open(aug_kit *k, const char *stage, const char *params, int64_t n, int64_t c, int64_t h, int64_t w, int dtype,
              int order, bool mask);
void kit_ok(const aug_kit *k, int rc);
void kit_plan(aug_kit *k, int training);
void kit_forward(aug_kit *k);
void kit_refused(const aug_kit *k, int rc, const char *words);
void kit_close(aug_kit *k);

/* A copy of a tensor, row-major, to be freed; its spec is spt_spec's. */
void *kit_get(const aug_kit *k, int what, int port, int item);
/* Value i of such a copy. */
double kit_at(const void *v, int dtype, int64_t i);

/* Opening fails, or planning: with these words. */
void kit_refuses(const char *stage, const char *params, int64_t n, int64_t c, int64_t h, int64_t w, const char *words);

/* For stages that move pixels and never mix them: the mask is channel 0 of the image afterwards, for both types and
 * orders, odd sizes, and for a second image of the list. */
void kit_aligned(const char *stage, const char *params);

/* The same bits of a sample in any batch size and place, with any number of threads; two images of one list get the
 * same; what was drawn gives the same images when it is wired back (stages with a port for it).
 * `params` ends in "}". */
void kit_by_id(const char *stage, const char *params);

/* same_on_batch: all samples get the draw of the first; always: outside of training too; and otherwise not: then every
 * sample is as `still` says of its drawn numbers (all of them equal to it, or NAN: nothing is checked). */
void kit_draw_modes(const char *stage, const char *params, double still);

/* Chi-square of `count` draws over `bins` equal bins of lo..hi (up to and without hi) of column `col` of the drawn
 * numbers is below the 99.9 % point, and so is that of pairs of neighbouring samples. Samples have ids 0 ..
 * count - 1. */
void kit_uniform(const char *stage, const char *params, int64_t h, int64_t w, int col, double lo, double hi, int bins);

#endif
