/* SPDX-License-Identifier: MIT
 * sampler.c - see sampler.h. */
#include "source/sampler.h"

#include "base/util.h"

#include <spcore/plugin.h>
#include <spcore/rng.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t of_all(const sp_sampler *s) { return (uint64_t)s->batch * s->world; }

int sp_sampler_share(sp_sampler *s, uint32_t first, uint32_t parts, uint32_t world, sp_err *err) {
  if (!parts || first >= world || parts > world - first)
    return sp_fail(err, SP_E_RANGE, "batches %u to %u of %u: there are none such", first, first + parts, world);
  s->first = first;
  s->parts = parts;
  s->world = world;
  if (s->drop_last && s->places < of_all(s)) {
    uint64_t most = s->places / world;
    char smaller[64] = "fewer shards";
    if (most)
      snprintf(smaller, sizeof smaller, "`batch = %" PRIu64 "`%s", most,
               world > 1 ? " or less, fewer shards," : " or less");
    return sp_fail(err, SP_E_RANGE,
                   "%" PRIu64 " samples do not fill one batch of %" PRIu64 "%s: take %s, or `drop_last = false`",
                   s->places, of_all(s), world > 1 ? " in all shards" : "", smaller);
  }
  s->steps = (s->drop_last ? s->places / of_all(s) : (s->places + of_all(s) - 1) / of_all(s)) * parts;
  return SP_OK;
}

int sp_sampler_init(sp_sampler *s, uint64_t seed, uint64_t length, uint32_t batch, bool shuffle, bool drop_last,
                    sp_err *err) {
  *s = (sp_sampler){
      .seed = seed, .length = length, .places = length, .batch = batch, .shuffle = shuffle, .drop_last = drop_last};
  if (length < 1 || length >> 31)
    return sp_fail(err, SP_E_RANGE, "%" PRIu64 " samples: between 1 and 2147483647 are possible", length);
  if (sp_sampler_share(s, 0, 1, 1, err)) return err->status;
  s->epoch = UINT64_MAX;
  if (shuffle) {
    s->order = sp_calloc(length, sizeof *s->order);
    if (!s->order) return sp_nomem(err, length * sizeof *s->order, "the order of samples");
  }
  return SP_OK;
}

uint64_t sp_sampler_drawable(const float *draw, uint64_t length) {
  uint64_t n = 0;
  for (uint64_t i = 0; i < length; i++) n += draw[i] > 0;
  return n;
}

static int weigh_with(sp_sampler *s, const float *draw, sp_err *err) {
  s->until = sp_calloc(s->length, sizeof *s->until);
  s->before = sp_calloc(s->places, 1);
  s->seen = sp_calloc(s->length, 1);
  if (!s->until || !s->before || !s->seen)
    return sp_nomem(err, s->length * (sizeof *s->until + 2), "how often samples are drawn");
  double sum = 0;
  for (uint64_t i = 0; i < s->length; i++) s->until[i] = sum += (double)draw[i];
  return SP_OK;
}

static int weigh_without(sp_sampler *s, const float *draw, sp_err *err) {
  s->odds = sp_calloc(s->length, sizeof *s->odds);
  s->turns = sp_calloc(s->length, sizeof *s->turns);
  if (!s->odds || !s->turns)
    return sp_nomem(err, s->length * (sizeof *s->odds + sizeof *s->turns), "how often samples are drawn");
  memcpy(s->odds, draw, s->length * sizeof *s->odds);
  return SP_OK;
}

int sp_sampler_weigh(sp_sampler *s, const float *draw, uint64_t places, bool replacement, sp_err *err) {
  if (!s->order) return sp_fail(err, SP_E_INTERNAL, "samples without an order are weighed");
  s->places = places ? places : replacement ? s->length : sp_sampler_drawable(draw, s->length);
  free(s->order);
  s->order = sp_calloc(s->places, sizeof *s->order);
  if (!s->order) return sp_nomem(err, s->places * sizeof *s->order, "the order of samples");
  int status = replacement ? weigh_with(s, draw, err) : weigh_without(s, draw, err);
  return status ? status : sp_sampler_share(s, s->first, s->parts, s->world, err);
}

void sp_sampler_free(sp_sampler *s) {
  free(s->order);
  free(s->until);
  free(s->before);
  free(s->seen);
  free(s->odds);
  free(s->turns);
  *s = (sp_sampler){0};
}

static uint64_t first_of(const sp_sampler *s, uint64_t step) {
  uint64_t pass = step % s->steps;
  return pass / s->parts * of_all(s) + (s->first + pass % s->parts) * s->batch;
}

static bool refills(const sp_sampler *s) { return s->refill && s->places >= s->batch; }

uint32_t sp_sampler_n(const sp_sampler *s, uint64_t step) {
  uint64_t first = first_of(s, step), left = s->places > first ? s->places - first : 0;
  if (refills(s)) return s->batch;
  return left < s->batch ? (uint32_t)left : s->batch;
}

bool sp_sampler_full(const sp_sampler *s, uint64_t step) {
  return s->places >= (step % s->steps / s->parts + 1) * of_all(s);
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

/* The first sample whose share ends behind `at`. */
static uint32_t find_share(const sp_sampler *s, double at) {
  uint64_t lo = 0, hi = s->length - 1;
  while (lo < hi) {
    uint64_t mid = lo + (hi - lo) / 2;
    if (s->until[mid] > at) hi = mid;
    else lo = mid + 1;
  }
  while (lo && s->until[lo] == s->until[lo - 1]) lo--; /* rounded up to the end, behind which lie samples of no share */
  return (uint32_t)lo;
}

/* From 0 to below 1. */
static double uniform(uint64_t key, uint64_t epoch, uint64_t i) {
  sp_rng4 r = sp_rng(key, SP_ID(epoch, i), 0);
  return (double)((uint64_t)r.v[0] << 21 ^ r.v[1] >> 11) * 0x1p-53;
}

static void draw(sp_sampler *s, uint64_t epoch) {
  uint64_t key = sp_rng_key(s->seed, "sampler");
  memset(s->seen, 0, s->length);
  for (uint64_t i = 0; i < s->places; i++) {
    s->order[i] = find_share(s, uniform(key, epoch, i) * s->until[s->length - 1]);
    s->before[i] = s->seen[s->order[i]]++;
  }
  s->epoch = epoch;
}

/* -log(x) of 0 < x <= 1, by operations that every machine rounds alike: that of libm decides on orders. */
static double minus_log(double x) {
  int e;
  double m = frexp(x, &e), t, sum = 0;
  if (m < 0.70710678118654752) m *= 2, e--;
  t = (m - 1) / (m + 1);
  for (int k = 21; k > 0; k -= 2) sum = sum * (t * t) + 1.0 / k;
  return -(e * 0.69314718055994531 + 2 * t * sum);
}

static bool sooner(const sp_sampler_turn *a, const sp_sampler_turn *b) {
  return a->when != b->when ? a->when < b->when : a->sample < b->sample;
}

static void sink(sp_sampler_turn *heap, uint64_t n, uint64_t at) {
  for (uint64_t child; (child = 2 * at + 1) < n; at = child) {
    if (child + 1 < n && sooner(&heap[child + 1], &heap[child])) child++;
    if (!sooner(&heap[child], &heap[at])) return;
    sp_sampler_turn t = heap[at];
    heap[at] = heap[child];
    heap[child] = t;
  }
}

/* Efraimidis and Spirakis: each sample waits for a time whose mean is 1 / odds, and those that come first are drawn in
 * their order, which has the odds of draws one after another. */
static void draw_each_once(sp_sampler *s, uint64_t epoch) {
  uint64_t key = sp_rng_key(s->seed, "sampler"), n = 0;
  for (uint64_t i = 0; i < s->length; i++)
    if (s->odds[i] > 0)
      s->turns[n++] = (sp_sampler_turn){minus_log(1 - uniform(key, epoch, i)) / (double)s->odds[i], (uint32_t)i};
  for (uint64_t i = n / 2; i-- > 0;) sink(s->turns, n, i);
  for (uint64_t i = 0; i < s->places && n; i++) {
    s->order[i] = s->turns[0].sample;
    s->turns[0] = s->turns[--n];
    sink(s->turns, n, 0);
  }
  s->epoch = epoch;
}

static uint64_t id_at(const sp_sampler *s, uint64_t epoch, uint64_t at) {
  if (s->until) return SP_ID((epoch & 0xffff) | (uint64_t)s->before[at] << 16, s->order[at]);
  return SP_ID(epoch, s->shuffle ? s->order[at] : at);
}

uint32_t sp_sampler_ids(sp_sampler *s, uint64_t step, uint64_t *ids) {
  uint64_t epoch = step / s->steps, first = first_of(s, step);
  uint32_t n = sp_sampler_n(s, step);
  if (s->shuffle && s->epoch != epoch) (s->until ? draw : s->odds ? draw_each_once : shuffle)(s, epoch);
  for (uint32_t i = 0; i < n; i++) {
    uint64_t at = (first + i) % s->places;
    ids[i] = id_at(s, epoch, at);
  }
  return n;
}

static uint32_t take(void *self, uint64_t step, uint64_t *ids) { return sp_sampler_ids(self, step, ids); }

/* Of the sizes that others of the `world` have too: what is chosen for them is to be the same everywhere. */
void sp_sampler_feed(sp_sampler *s, sp_feed *feed) {
  uint32_t rest = s->drop_last || refills(s) ? 0 : (uint32_t)(s->places % s->batch);
  *feed = (sp_feed){.self = s, .steps = s->steps, .take = take};
  feed->sizes[0] = s->places < s->batch ? rest : s->batch;
  feed->sizes[1] = s->places < s->batch ? 0 : rest;
}
