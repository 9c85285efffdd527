/* SPDX-License-Identifier: MIT
 * sampler.c - see sampler.h. */
#include "sampler.h"

#include <spcore/plugin.h>
#include <spcore/rng.h>

#include <inttypes.h>
#include <stdlib.h>

int sp_sampler_init(sp_sampler *s, uint64_t seed, uint64_t length, uint32_t batch, bool shuffle, bool drop_last,
                    sp_err *err) {
  *s = (sp_sampler){.seed = seed, .length = length, .batch = batch, .shuffle = shuffle, .drop_last = drop_last};
  if (length < 1 || length >> 31)
    return sp_fail(err, SP_E_RANGE, "%" PRIu64 " samples: between 1 and 2147483647 are possible", length);
  if (drop_last && length < batch)
    return sp_fail(err, SP_E_RANGE,
                   "%" PRIu64 " samples do not fill one batch of %u: take a smaller batch or drop_last = false", length,
                   batch);
  s->steps = drop_last ? length / batch : (length + batch - 1) / batch;
  s->epoch = UINT64_MAX;
  if (shuffle) {
    s->order = sp_calloc(length, sizeof *s->order);
    if (!s->order) return sp_nomem(err, length * sizeof *s->order, "the order of samples");
  }
  return SP_OK;
}

void sp_sampler_free(sp_sampler *s) {
  free(s->order);
  *s = (sp_sampler){0};
}

uint32_t sp_sampler_n(const sp_sampler *s, uint64_t step) {
  uint64_t first = step % s->steps * s->batch, left = s->length - first;
  return left < s->batch ? (uint32_t)left : s->batch;
}

/* Fisher and Yates, drawn from the epoch's own counter, so that any epoch's order is known without the ones before. */
static void shuffle(sp_sampler *s, uint64_t epoch) {
  uint64_t key = sp_rng_key(s->seed, "sampler");
  for (uint64_t i = 0; i < s->length; i++) s->order[i] = (uint32_t)i;
  for (uint64_t i = s->length; i-- > 1;) {
    uint32_t j = sp_rng_below(sp_rng(key, SP_ID(epoch, i), 0).v[0], (uint32_t)i + 1), t = s->order[i];
    s->order[i] = s->order[j];
    s->order[j] = t;
  }
  s->epoch = epoch;
}

uint32_t sp_sampler_ids(sp_sampler *s, uint64_t step, uint64_t *ids) {
  uint64_t epoch = step / s->steps, first = step % s->steps * s->batch;
  uint32_t n = sp_sampler_n(s, step);
  if (s->shuffle && s->epoch != epoch) shuffle(s, epoch);
  for (uint32_t i = 0; i < n; i++) ids[i] = SP_ID(epoch, s->shuffle ? s->order[first + i] : first + i);
  return n;
}
