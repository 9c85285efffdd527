/* SPDX-License-Identifier: MIT
 * muon_cpu.c - the stage `muon` on the CPU: a matrix at a time over all threads, then all other tensors. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "../../kits/optim/optim_adam.h"
#include "muon.h"
#include "muon_product.h"

typedef struct update_rule {
  optim_adam adam; /* of other tensors */
  muon_rule of;
  float lr[SP_MAX_GROUPS], shrink[SP_MAX_GROUPS], clip;
  /* Of a matrix, which lies with its short side first: x [shorter][longer], in padded memory. */
  muon_matrix matrix;
  int64_t first, ld; /* chunk; longer side, padded */
  bool tall;
  float *x, *y, *a, *b;
  double *squares; /* [chunks] */
} update_rule;

static inline __attribute__((always_inline)) int64_t place(const update_rule *r, int64_t at) {
  int64_t row = at / r->matrix.cols, col = at % r->matrix.cols;
  return r->tall ? col * r->ld + row : row * r->ld + col;
}

/* The momentum, and from it the matrix that is made orthogonal. */
OPTIM_INLINE load_body(OPTIM_FN_ARGS) {
  const update_rule *r = rule;
  float c = r->of.c, momentum = r->of.momentum, clip = r->clip;
  float *restrict mean = m[MUON_MEAN];
  bool nesterov = r->of.nesterov;
  double sum = 0;
  unsigned bad = 0;
  for (int64_t i = 0; i < n; i++) {
    float d = g[i] * clip, v = fmaf(c, d - mean[i], mean[i]);
    bad |= optim_bad(g[i]);
    mean[i] = v;
    if (nesterov) v = fmaf(momentum, v - d, d);
    sum += (double)v * v;
    r->x[place(r, at->before + i)] = v;
  }
  r->squares[at->chunk - r->first] = sum;
  (void)p;
  return bad;
}

OPTIM_INLINE apply_body(OPTIM_FN_ARGS) {
  const update_rule *r = rule;
  float lr = -r->lr[at->group], shrink = r->shrink[at->group], scale = r->of.scale;
  for (int64_t i = 0; i < n; i++) p[i] = fmaf(lr, r->x[place(r, at->before + i)] * scale, p[i] * shrink);
  (void)g, (void)m;
  return 0;
}

OPTIM_INLINE others_body(OPTIM_FN_ARGS) {
  return optim_adam_body(&((const update_rule *)rule)->adam, false, at, g, p, m, n);
}

OPTIM_BEST(load)
OPTIM_BEST(apply)
OPTIM_BEST(others)

/* ---- scratch: sums of chunks, two of the largest matrix, two of the largest short side's square ---- */
static int64_t matrix_floats(const muon_matrix *x) { return muon_padded(x->rows) * muon_padded(x->cols); }
static int64_t square_floats(const muon_matrix *x) { return muon_padded(muon_short(x)) * muon_padded(muon_short(x)); }

typedef struct room {
  int64_t sums, matrix, square;
} room;

static room room_of(const muon *m) {
  room out = {0};
  for (uint32_t i = 0; i < m->o.n; i++) {
    if (!m->o.apart[i]) continue;
    int64_t sums = m->o.first[i + 1] - m->o.first[i];
    if (sums > out.sums) out.sums = sums;
    if (matrix_floats(&m->matrix[i]) > out.matrix) out.matrix = matrix_floats(&m->matrix[i]);
    if (square_floats(&m->matrix[i]) > out.square) out.square = square_floats(&m->matrix[i]);
  }
  return out;
}

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  muon *m = self;
  int rc = muon_plan(ctx, m, pl, OPTIM_CHUNK);
  if (rc) return rc;
  room want = room_of(m);
  pl->scratch_bytes = optim_scratch(&m->o) + (size_t)want.sums * sizeof(double) +
                      2 * (size_t)(want.matrix + want.square) * sizeof(float);
  return SP_OK;
}

static void place_scratch(const muon *m, const sp_io *io, update_rule *r) {
  room want = room_of(m);
  r->squares = (double *)((char *)io->scratch + optim_scratch(&m->o));
  r->x = (float *)(r->squares + want.sums);
  r->y = r->x + want.matrix;
  r->a = r->y + want.matrix;
  r->b = r->a + want.square;
}

/* ---- a matrix ---- */
static void scale(update_rule *r, int64_t chunks) {
  double sum = 0;
  for (int64_t k = 0; k < chunks; k++) sum += r->squares[k];
  float norm = (float)sqrt(sum) + MUON_TINY;
  int64_t n = matrix_floats(&r->matrix);
  for (int64_t i = 0; i < n; i++) r->x[i] /= norm;
}

static int newton_schulz(sp_ctx *ctx, update_rule *r) {
  int64_t small = muon_short(&r->matrix), large = r->tall ? r->matrix.rows : r->matrix.cols, side = muon_padded(small);
  muon_product a = {.m = small,
                    .n = small,
                    .k = large,
                    .a = r->x,
                    .b = r->x,
                    .c = r->a,
                    .lda = r->ld,
                    .ldb = r->ld,
                    .ldc = side,
                    .b_transposed = 1,
                    .alpha = 1};
  muon_product b = {.m = small,
                    .n = small,
                    .k = small,
                    .a = r->a,
                    .b = r->a,
                    .c = r->b,
                    .d = r->a,
                    .lda = side,
                    .ldb = side,
                    .ldc = side,
                    .alpha = MUON_5,
                    .beta = MUON_3};
  muon_product x = {.m = small,
                    .n = large,
                    .k = small,
                    .a = r->b,
                    .b = r->x,
                    .c = r->y,
                    .d = r->x,
                    .lda = side,
                    .ldb = r->ld,
                    .ldc = r->ld,
                    .alpha = 1,
                    .beta = MUON_1};
  int rc = muon_multiply(ctx, &a);
  if (!rc) rc = muon_multiply(ctx, &b);
  if (!rc) rc = muon_multiply(ctx, &x);
  float *was = r->x;
  r->x = r->y;
  r->y = was;
  return rc;
}

static int update_matrix(sp_ctx *ctx, const muon *m, const sp_io *io, optim_pass *pass, update_rule *r, uint32_t i) {
  const optim *o = &m->o;
  r->matrix = m->matrix[i];
  r->tall = r->matrix.rows > r->matrix.cols;
  r->ld = muon_padded(r->tall ? r->matrix.rows : r->matrix.cols);
  r->first = o->first[i];
  r->of.scale = muon_scale(&r->matrix);
  memset(r->x, 0, (size_t)matrix_floats(&r->matrix) * sizeof(float));
  int rc = optim_visit_one(ctx, o, io, pass, load_best(), r, i);
  if (rc) return rc;
  scale(r, o->first[i + 1] - o->first[i]);
  for (int64_t k = 0; k < m->p->ns_steps && !rc; k++) rc = newton_schulz(ctx, r);
  return rc ? rc : optim_visit_one(ctx, o, io, pass, apply_best(), r, i);
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const muon *m = self;
  const optim *o = &m->o;
  const muon_params *p = m->p;
  double lr = io->step->live[0];
  optim_pass pass;
  update_rule r = {.of = muon_rule_of(m)};
  int rc = optim_begin(ctx, o, io, &pass);
  if (rc || pass.skip) return rc;
  r.clip = r.adam.clip = r.of.clips ? pass.clip : 1;
  optim_count(o, io);
  optim_adam_set(&r.adam, o, io, lr * p->aux_lr, &p->aux_betas, p->aux_eps, p->weight_decay);
  for (uint32_t k = 0; k < o->n_groups; k++) {
    r.lr[k] = (float)optim_lr(o, k, lr);
    r.shrink[k] = (float)(1 - optim_lr(o, k, lr) * optim_decay(o, k, p->weight_decay));
  }
  place_scratch(m, io, &r);
  for (uint32_t i = 0; i < o->n && !rc; i++)
    if (o->apart[i] && optim_is_here(io, i)) rc = update_matrix(ctx, m, io, &pass, &r, i);
  return rc ? rc : optim_update(ctx, o, io, &pass, others_best(), &r);
}

SP_STAGE_CPU(MUON_PAIR, .plan = plan, .forward = forward);
