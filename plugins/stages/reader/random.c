/* SPDX-License-Identifier: MIT
 * random.c - the built-in set `random`: noise at the speed of memory, for measuring everything else. */
#include <endian.h>
#include <string.h>

#include <spcore/rng.h>

#include "reader.h"

/* SplitMix64; one Philox draw a sample seeds it. Philox alone would take longer than the workload allows. */
static inline uint64_t next(uint64_t *state) {
  uint64_t z = *state += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

static int random_open(sp_ctx *ctx, rd_self *self) {
  (void)ctx;
  self->total = self->p->samples ? (uint64_t)self->p->samples : 2048;
  self->classes = self->p->classes ? self->p->classes : 10;
  self->gives = self->p->target == RD_TARGET_CLASS ? RD_LABEL : RD_MASK;
  return SP_OK;
}

static void random_close(rd_self *self) { (void)self; }

static int random_fill(rd_self *self, rd_worker *w, uint64_t index, const rd_out *out) {
  uint8_t *image = out->image, *mask = out->mask;
  size_t pixels = (size_t)self->h * (size_t)self->w, bytes = pixels * 3, i;
  sp_rng4 r = sp_rng(self->key, index, 0);
  uint64_t s = (uint64_t)r.v[0] << 32 | r.v[1], z;
  (void)w;
  for (i = 0; image && i + 8 <= bytes; i += 8) {
    z = htole64(next(&s));
    memcpy(image + i, &z, 8);
  }
  z = htole64(next(&s));
  if (image) memcpy(image + i, &z, bytes - i);
  uint32_t classes = (uint32_t)self->classes;
  if (self->gives & RD_LABEL) *out->label = (int32_t)sp_rng_below(sp_rng(self->key, index, 1).v[0], classes);
  if (!mask) return SP_OK;
  s = (uint64_t)r.v[2] << 32 | r.v[3];
  for (i = 0; i < pixels; i += 4) {
    z = next(&s);
    for (size_t k = 0; k < 4 && i + k < pixels; k++) mask[i + k] = (uint8_t)((z >> 16 * k & 0xFFFF) * classes >> 16);
  }
  return SP_OK;
}

static uint64_t random_hash(const rd_self *self, uint64_t index) {
  uint64_t s = index;
  (void)self;
  return next(&s);
}

const rd_kind rd_random = {"random", random_open, random_close, random_fill, NULL, random_hash};
