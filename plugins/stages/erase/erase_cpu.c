/* SPDX-License-Identifier: MIT
 * erase_cpu.c - the stage `erase` on the CPU. */
#define LANES 16
#include "../../kits/aug/lanes.h"
#include "../../kits/aug/words.h"
#include "erase.h"

#include <string.h>

typedef struct erase_call {
  erase_how how;
  aug_dice dice;
  const erase_box *boxes;
} erase_call;

/* ---- noise ---- */
/* aug_log_part of several numbers. */
LANES_FN lanes log_part(lane_ints n) {
  lane_ints bits = (lane_ints)lanes_floats(n), e = (bits >> 23) - 127 - 24, high;
  bits = (bits & 0x7fffff) | 0x3f800000;
  high = -(lane_ints)(bits > 0x3fb504f3);
  e += high;
  lanes m = (lanes)(bits - (high << 23)), t = (m - 1.0f) / (m + 1.0f), z = t * t, v = z * (1.0f / 9.0f) + 1.0f / 7.0f;
  v = z * v + 1.0f / 5.0f;
  v = z * v + 1.0f / 3.0f;
  v = (t + t) * (z * v + 1.0f);
  return lanes_floats(e) * 0.69314718f + v;
}

/* aug_normal of them. */
LANES_FN void normal(lane_words a, lane_words b, lanes *one, lanes *other) {
  lanes r = lanes_sqrt(-2.0f * log_part((lane_ints)((a >> 8) + 1u))), s, c;
  lane_ints turn = (lane_ints)(b >> 8), q = (turn + (1 << 21)) >> 22, odd = -(q & 1);
  lanes f = lanes_floats(turn - (q << 22)) * (1.0f / 4194304.0f), z = f * f;
  s = z * -0.0046817541353f + 0.0796926262462f;
  s = z * s + -0.6459640975063f;
  s = f * (z * s + 1.5707963267949f);
  c = z * 0.0009192602749f + -0.0208634807634f;
  c = z * c + 0.2536695079011f;
  c = z * c + -1.2337005501362f;
  c = z * c + 1.0f;
  lane_ints x = lanes_int_if(odd, (lane_ints)s ^ (lane_ints)(odd & INT32_MIN), (lane_ints)c);
  lane_ints y = lanes_int_if(odd, (lane_ints)c, (lane_ints)s), sign = (q & 2) << 30;
  *one = r * (lanes)(x ^ sign);
  *other = r * (lanes)(y ^ sign);
}

LANES_VEC static void normals(float *restrict y, const aug_words *restrict w, int32_t quads, float value, float by) {
  _Alignas(64) float v[4][AUG_DRAWS];
  for (int32_t i = 0; i < quads; i += LANES)
    for (int k = 0; k < 4; k += 2) {
      lanes a, b;
      normal(lanes_words(&w->v[k][i]), lanes_words(&w->v[k + 1][i]), &a, &b);
      lanes_to(&v[k][i], value + a * by);
      lanes_to(&v[k + 1][i], value + b * by);
    }
  for (int32_t i = 0; i < quads; i++)
    for (int k = 0; k < 4; k++) y[4 * i + k] = v[k][i];
}

static inline uint8_t to_byte(float v) {
  v = v > 0.0f ? v : 0.0f;
  v = v < 255.0f ? v : 255.0f;
  return (uint8_t)(int32_t)((v + 12582912.0f) - 12582912.0f); /* to the nearest, half to even, without a call */
}

LANES_VEC static void keep_bytes(uint8_t *restrict to, float *restrict v, int32_t n, int pix) {
  for (int32_t i = 0; i < n; i += LANES) { /* v has room for whole lanes */
    lanes one = lanes_min(lanes_max(lanes_of(v + i), lanes_all(0.0f)), lanes_all(255.0f));
    lanes_to(v + i, lanes_nearest(one));
  }
  if (pix == 1)
    for (int32_t i = 0; i < n; i++) to[i] = (uint8_t)(int32_t)v[i];
  else
    for (int32_t i = 0; i < n; i++) to[(int64_t)i * pix] = (uint8_t)(int32_t)v[i];
}
static void keep_floats(float *restrict to, const float *restrict v, int32_t n, int pix) {
  if (pix == 1) memcpy(to, v, (size_t)n * sizeof *v);
  else
    for (int32_t i = 0; i < n; i++) to[(int64_t)i * pix] = v[i];
}

static void noise_row(const erase_call *c, const aug_part *part, const erase_box *b, int64_t channel, int32_t y,
                      void *row) {
  const aug_job *j = part->job;
  int32_t first = b->left / 4, end = (b->left + b->w + 3) / 4, k = j->pix > 1 ? (int32_t)channel : 0;
  uint64_t key = erase_key(&c->dice, channel), id = c->dice.ids[c->dice.same ? 0 : part->sample];
  aug_words w;
  float v[4 * AUG_DRAWS + LANES];
  for (int32_t quad = first; quad < end; quad += AUG_DRAWS) {
    int32_t n = end - quad < AUG_DRAWS ? end - quad : AUG_DRAWS;
    aug_words_of(&w, key, id, erase_group(y, quad, j->w), n);
    normals(v, &w, n, c->how.value[channel % c->how.values], c->how.noise);
    int32_t from = b->left > 4 * quad ? b->left : 4 * quad;
    int32_t to = b->left + b->w < 4 * (quad + n) ? b->left + b->w : 4 * (quad + n);
    int64_t at = (int64_t)from * j->pix + k;
    if (j->dtype == SP_U8) keep_bytes((uint8_t *)row + at, v + (from - 4 * quad), to - from, j->pix);
    else keep_floats((float *)row + at, v + (from - 4 * quad), to - from, j->pix);
  }
}

/* ---- one value ---- */
#define FILL(type, v)                                              \
  {                                                                \
    type *at = (type *)row + (int64_t)b->left * j->pix, one = (v); \
    for (int64_t i = 0; i < n; i++) at[i] = one;                   \
  }
#define FILL_PIXELS(type, v)                                                                    \
  {                                                                                             \
    type *at = (type *)row + (int64_t)b->left * j->pix;                                         \
    for (int32_t x = 0; x < b->w; x++)                                                          \
      for (int k = 0, c = 0; k < j->pix; k++, c = c + 1 < how->values ? c + 1 : 0) *at++ = (v); \
  }

static void value_row(const erase_how *how, const aug_job *j, const erase_box *b, int64_t plane, void *row) {
  int64_t n = (int64_t)b->w * j->pix;
  float of_plane = how->value[plane % how->values];
  if (j->mask && j->dtype == SP_I64) FILL(int64_t, how->mask_fill)
  else if (j->mask && j->dtype == SP_I32) FILL(int32_t, how->mask_fill)
  else if (j->mask) memset((uint8_t *)row + b->left, how->mask_fill, (size_t)n);
  else if (j->pix > 1 && how->values > 1 && j->dtype == SP_U8) FILL_PIXELS(uint8_t, to_byte(how->value[c]))
  else if (j->pix > 1 && how->values > 1) FILL_PIXELS(float, how->value[c])
  else if (j->dtype == SP_U8) memset((uint8_t *)row + (int64_t)b->left * j->pix, to_byte(of_plane), (size_t)n);
  else FILL(float, of_plane)
}

static int rows(const void *arg, const aug_part *part, int worker) {
  const erase_call *c = arg;
  const aug_job *j = part->job;
  const erase_box *b = &c->boxes[part->sample];
  size_t bytes = aug_element(j->dtype);
  int32_t from = part->from > b->top ? part->from : b->top, to = part->to < b->top + b->h ? part->to : b->top + b->h;
  (void)worker;
  for (int64_t plane = 0; plane < j->planes; plane++) {
    memcpy(aug_out_row(j, part->sample, plane, part->from, bytes),
           aug_in_row(j, part->sample, plane, part->from, bytes),
           (size_t)(part->to - part->from) * (size_t)j->w * (size_t)j->pix * bytes);
    if (!b->w || (j->mask && !c->how.masks)) continue;
    for (int32_t y = from; y < to; y++) {
      void *row = aug_out_row(j, part->sample, plane, y, bytes);
      if (j->mask || c->how.noise == 0.0f) value_row(&c->how, j, b, plane, row);
      else
        for (int64_t k = 0; k < j->pix; k++) noise_row(c, part, b, j->pix > 1 ? k : plane, y, row);
    }
  }
  return SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const erase_params *p = self;
  aug_jobs jobs;
  aug_jobs_of(io, &jobs);
  int rc;
  const erase_box *given = aug_given(ctx, io, "boxes", &rc);
  if (rc) return rc;
  if ((rc = erase_check_ids(ctx, p, io))) return rc;
  erase_box *boxes = io->scratch, *told = io->out[AUG_DRAWN].t->data;
  int64_t *status = io->out[AUG_STATUS].t->data, value, limit;
  erase_range range = erase_range_of(p, jobs.job[0].h, jobs.job[0].w);
  erase_call c = {erase_how_of(io, p), aug_dice_of(io, &p->draws), boxes};
  memset(status, 0, 4 * sizeof *status);
  for (int64_t i = 0; i < jobs.n; i++) {
    boxes[i] = given ? given[i] : erase_draw(&c.dice, i, &range);
    if (told) told[i] = boxes[i];
    if (!given || !erase_bad(&range, &boxes[i], &value, &limit)) continue;
    aug_note(status, 1, io->ids ? (int64_t)io->ids[i] : i, value, limit);
    boxes[i] = (erase_box){0, 0, 0, 0};
  }
  return aug_rows(ctx, &jobs, rows, &c);
}

AUG_CPU_STAGE(erase, "erase", ERASE_DOC, SP_STAGE_STOCHASTIC, .status_doc = ERASE_STATUS_DOC,
              .create = stateless_create, .destroy = stateless_destroy, .plan = erase_plan, .forward = forward);
