/* SPDX-License-Identifier: MIT
 * batch_rotate_cpu.c - the stage `batch_rotate` on the CPU. Of each row it is first computed where its pixels come
 * from, in loops that the compiler vectorises, and then moved. */
#include "../../kits/aug/cpu.h"
#include "batch_rotate.h"

#include <math.h>
#include <string.h>

typedef struct rotate_call {
  rotate_how how;
  const float *angles;
  char *work; /* of each worker: work_bytes() */
  size_t each;
} rotate_call;

/* For a row: the source's pixel, or -1; or for bilinear sampling its place. */
static size_t work_bytes(int64_t w) { return ((size_t)w * 2 * sizeof(float) + 63) / 64 * 64; }

/* The nearest whole number, half to even, without a call: exact for |v| < 2^22, which sizes are far below. */
static inline float nearest(float v) { return (v + 12582912.0f) - 12582912.0f; }

static void where_from(const rotate_turn *turn, int32_t y, int32_t h, int32_t w, int32_t *restrict at) {
  const rotate_turn t = *turn;
  for (int32_t x = 0; x < w; x++) {
    int32_t sx = (int32_t)nearest(rotate_x(&t, x, y)), sy = (int32_t)nearest(rotate_y(&t, x, y));
    int inside = (sx >= 0) & (sx < w) & (sy >= 0) & (sy < h);
    at[x] = inside ? sy * w + sx : -1;
  }
}

/* The pixels that come from the image lie side by side: along a row both places only grow, or only fall. */
static void inside_of(const int32_t *at, int32_t w, int32_t *from, int32_t *to) {
  int32_t a = 0, b = w;
  while (a < w && at[a] < 0) a++;
  while (b > a && at[b - 1] < 0) b--;
  *from = a;
  *to = b;
}

#define FILL_ROW(type, from, to) \
  for (int64_t i = (int64_t)(from)*pix; i < (int64_t)(to)*pix; i++) y[i] = fill[fills == 1 ? 0 : i % pix % fills];
#define MOVE_PIXELS(type, n)                            \
  for (int32_t i = from; i < to; i++) {                 \
    const type *restrict px = x + (int64_t)at[i] * (n); \
    type *restrict py = y + (int64_t)i * (n);           \
    for (int c = 0; c < (n); c++) py[c] = px[c];        \
  }
#define MOVE_ROW(name, type)                                                                                 \
  static void name(type *restrict y, const type *restrict x, const int32_t *restrict at, int32_t w, int pix, \
                   const type *restrict fill, int fills) {                                                   \
    int32_t from, to;                                                                                        \
    inside_of(at, w, &from, &to);                                                                            \
    FILL_ROW(type, 0, from)                                                                                  \
    FILL_ROW(type, to, w)                                                                                    \
    if (pix == 1) MOVE_PIXELS(type, 1)                                                                       \
    else if (pix == 3) MOVE_PIXELS(type, 3)                                                                  \
    else MOVE_PIXELS(type, pix)                                                                              \
  }
MOVE_ROW(move_bytes, uint8_t)
MOVE_ROW(move_words, uint32_t)
MOVE_ROW(move_longs, uint64_t)

static void move_rows(const rotate_call *c, const aug_part *part, const rotate_turn *turn, int32_t *at) {
  const aug_job *j = part->job;
  size_t bytes = aug_element(j->dtype);
  for (int32_t row = part->from; row < part->to; row++) {
    where_from(turn, row, j->h, j->w, at);
    for (int64_t plane = 0; plane < j->planes; plane++) {
      const void *x = aug_in_row(j, part->sample, plane, 0, bytes);
      void *y = aug_out_row(j, part->sample, plane, row, bytes);
      aug_fill fill;
      int fills = aug_fill_of(j, plane, c->how.fill, c->how.fills, c->how.mask_fill, &fill);
      if (j->dtype == SP_U8) move_bytes(y, x, at, j->w, j->pix, fill.b, fills);
      else if (j->dtype == SP_I64) move_longs(y, x, at, j->w, j->pix, &fill.u, fills);
      else move_words(y, x, at, j->w, j->pix, fill.w, fills);
    }
  }
}

/* What four neighbours weigh, and where they are, or -1 outside of the image.
 * `all` is their sum where one is outside. */
typedef struct corners {
  int64_t at[4];
  float weight[4], all;
  int inside; /* all four */
} corners;

static int32_t below(float v) {
  int32_t i = (int32_t)v;
  return i - ((float)i > v);
}

static inline corners corners_of(const aug_job *j, float sx, float sy) {
  int32_t x = below(sx), y = below(sy);
  float fx = sx - (float)x, fy = sy - (float)y;
  corners c = {.weight = {(1 - fx) * (1 - fy), fx * (1 - fy), (1 - fx) * fy, fx * fy}, .all = 1};
  c.inside = x >= 0 && x < j->w - 1 && y >= 0 && y < j->h - 1;
  if (c.inside) {
    c.at[0] = ((int64_t)y * j->w + x) * j->pix;
    c.at[1] = c.at[0] + j->pix;
    c.at[2] = c.at[0] + (int64_t)j->w * j->pix;
    c.at[3] = c.at[2] + j->pix;
    return c;
  }
  for (int k = 0; k < 4; k++) {
    int32_t cx = x + k % 2, cy = y + k / 2;
    int inside = cx >= 0 && cx < j->w && cy >= 0 && cy < j->h;
    c.weight[k] = inside ? c.weight[k] : 0;
    c.at[k] = inside ? ((int64_t)cy * j->w + cx) * j->pix : -1;
  }
  c.all = ((c.weight[0] + c.weight[1]) + c.weight[2]) + c.weight[3];
  return c;
}

#define WEIGHED(i) (c.inside || c.at[i] >= 0 ? (float)x[c.at[i]] * c.weight[i] : 0)
#define BLEND(type, finish)                                          \
  for (int k = 0; k < j->pix; k++) {                                 \
    const type *x = (const type *)in + k;                            \
    float v = ((WEIGHED(0) + WEIGHED(1)) + WEIGHED(2)) + WEIGHED(3); \
    float fill = how->fill[(plane + k) % how->fills];                \
    if (!c.inside) v = c.all * (v - fill) + fill;                    \
    ((type *)out)[i * j->pix + k] = finish;                          \
  }

static void blend_rows(const rotate_how *how, const aug_part *part, const rotate_turn *turn, float *place) {
  const aug_job *j = part->job;
  size_t bytes = aug_element(j->dtype);
  const rotate_turn t = *turn;
  for (int32_t row = part->from; row < part->to; row++) {
    float *restrict sx = place, *restrict sy = place + j->w;
    for (int32_t i = 0; i < j->w; i++) {
      sx[i] = rotate_x(&t, i, row);
      sy[i] = rotate_y(&t, i, row);
    }
    for (int64_t plane = 0; plane < j->planes; plane++) {
      const void *in = aug_in_row(j, part->sample, plane, 0, bytes);
      void *out = aug_out_row(j, part->sample, plane, row, bytes);
      for (int64_t i = 0; i < j->w; i++) {
        corners c = corners_of(j, sx[i], sy[i]);
        if (j->dtype == SP_U8) BLEND(uint8_t, (uint8_t)nearest(v < 0 ? 0 : v > 255 ? 255 : v))
        else BLEND(float, v)
      }
    }
  }
}

static int rows(const void *arg, const aug_part *part, int worker) {
  const rotate_call *c = arg;
  const aug_job *j = part->job;
  rotate_turn turn = rotate_turn_of(c->angles[part->sample], j->h, j->w);
  void *work = c->work + (size_t)worker * c->each;
  if (j->mask || c->how.mode == ROTATE_NEAREST) move_rows(c, part, &turn, work);
  else blend_rows(&c->how, part, &turn, work);
  return SP_OK;
}

static size_t drawn_bytes(int64_t n) { return ((size_t)n * sizeof(float) + 63) / 64 * 64; }

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const rotate_params *p = self;
  aug_jobs jobs;
  aug_jobs_of(io, &jobs);
  int rc;
  const float *given = aug_given(ctx, io, "angles", &rc);
  if (rc) return rc;
  rotate_how how = rotate_how_of(p);
  how.mask_fill = aug_mask_fill(io, p->mask_fill);
  rotate_call c = {how, io->scratch, (char *)io->scratch + drawn_bytes(jobs.n), work_bytes(jobs.job[0].w)};
  float *angles = io->scratch;
  int64_t *status = io->out[AUG_STATUS].t->data;
  aug_dice dice = aug_dice_of(io, &p->draws);
  memset(status, 0, 4 * sizeof *status);
  for (int64_t i = 0; i < jobs.n; i++) {
    angles[i] = given ? given[i] : rotate_draw(&dice, i, c.how.lo, c.how.hi);
    aug_note(status, !isfinite(angles[i]), io->ids ? (int64_t)io->ids[i] : i, 0, 0);
  }
  if (io->out[AUG_DRAWN].t->data) memcpy(io->out[AUG_DRAWN].t->data, angles, (size_t)jobs.n * sizeof *angles);
  for (int64_t i = 0; i < jobs.n; i++)
    if (!isfinite(angles[i])) angles[i] = 0; /* the status tells, behind the call */
  return aug_rows(ctx, &jobs, rows, &c);
}

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  int rc = rotate_plan(ctx, self, pl);
  if (rc) return rc;
  const sp_spec *s = pl->in[AUG_IMAGES].spec;
  const sp_parallel *par = ctx->host->get_extension(ctx, SP_EXT_PARALLEL);
  pl->scratch_bytes = drawn_bytes(s->shape[0]) + work_bytes(s->shape[3]) * (size_t)(par ? par->threads(ctx) : 1);
  return SP_OK;
}

AUG_CPU_STAGE(rotate, "batch_rotate", ROTATE_DOC, SP_STAGE_STOCHASTIC, .status_doc = ROTATE_STATUS_DOC,
              .create = stateless_create, .destroy = stateless_destroy, .plan = plan, .forward = forward);
