/* SPDX-License-Identifier: MIT
 * muon_cuda.c - the stage `muon` on CUDA: a matrix at a time, by products of cuBLAS, then all other tensors. */
#include <cublas_v2.h>
#include <limits.h>

#include <spcore/ext/cuda.h>
#include <spcore/ext/precision.h>

#include "../../kits/cuda/check.h"
#include "../../kits/optim/optim_cuda.h"
#include "muon.h"

enum { ALIGN = 256 }; /* bytes of each part of the scratch */

typedef struct room {
  size_t sums, matrix, square; /* bytes */
} room;

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static room room_of(const muon *m) {
  room out = {0};
  for (uint32_t i = 0; i < m->o.n; i++) {
    if (!m->o.apart[i]) continue;
    size_t side = (size_t)muon_short(&m->matrix[i]);
    out.sums = larger(out.sums, (size_t)(m->o.first[i + 1] - m->o.first[i]) * sizeof(double));
    out.matrix = larger(out.matrix, (size_t)m->o.count[i] * sizeof(float));
    out.square = larger(out.square, side * side * sizeof(float));
  }
  return out;
}

static size_t aligned(size_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

static int too_large(const muon *m) {
  for (uint32_t i = 0; i < m->o.n; i++)
    if (m->matrix[i].rows > INT_MAX || m->matrix[i].cols > INT_MAX) return 1;
  return 0;
}

static int plan(sp_ctx *ctx, void *self, sp_plan *pl) {
  muon *m = self;
  int rc = muon_plan(ctx, m, pl, OPK_CHUNK);
  if (rc) return rc;
  if (too_large(m)) return ctx->host->fail(ctx, SP_E_RANGE, "a weight has a side of more than %d", INT_MAX);
  room want = room_of(m);
  pl->scratch_bytes = aligned(optim_cuda_scratch(&m->o)) + ALIGN + aligned(want.sums) + 2 * aligned(want.matrix) +
                      2 * aligned(want.square);
  return SP_OK;
}

/* What an update of matrices works with. */
typedef struct work {
  sp_ctx *ctx;
  cublasHandle_t blas;
  cublasComputeType_t compute;
  double *sums;
  float *factor, *x, *y, *a, *b;
} work;

static int open_work(sp_ctx *ctx, const muon *m, const sp_io *io, work *w) {
  const sp_cuda *ext = (const sp_cuda *)ctx->host->get_extension(ctx, SP_EXT_CUDA);
  const sp_precision *p = (const sp_precision *)ctx->host->get_extension(ctx, SP_EXT_PRECISION);
  room want = room_of(m);
  char *at = (char *)io->scratch + aligned(optim_cuda_scratch(&m->o));
  void *handle = NULL;
  int rc = ext ? ext->cublas(ctx, &handle) : ctx->host->fail(ctx, SP_E_UNSUPPORTED, "the device gives no " SP_EXT_CUDA);
  *w = (work){.ctx = ctx, .blas = handle, .factor = (float *)at};
  w->compute = p && p->precision != SP_PRECISION_FP32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  w->sums = (double *)(at += ALIGN);
  w->x = (float *)(at += aligned(want.sums));
  w->y = (float *)(at += aligned(want.matrix));
  w->a = (float *)(at += aligned(want.matrix));
  w->b = (float *)(at + aligned(want.square));
  return rc;
}

static int prepare(sp_ctx *ctx, void *self, const sp_io *io) {
  work w;
  return open_work(ctx, self, io, &w);
}

/* c [m][n] = alpha * a b + beta * c, columns first. */
static int product(const work *w, int a_transposed, int b_transposed, int64_t m, int64_t n, int64_t k, float alpha,
                   const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c) {
  cublasStatus_t st =
      cublasGemmEx(w->blas, a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, (int)m,
                   (int)n, (int)k, &alpha, a, CUDA_R_32F, (int)lda, b, CUDA_R_32F, (int)ldb, &beta, c, CUDA_R_32F,
                   (int)m, w->compute, CUBLAS_GEMM_DEFAULT);
  if (st == CUBLAS_STATUS_SUCCESS) return SP_OK;
  return w->ctx->host->fail(w->ctx, SP_E_DEVICE, "cuBLAS refused a product (%s)", cublasGetStatusName(st));
}

/* With columns first x is transposed: [cols][rows]. The square is of its short side, left or right of it. */
static int newton_schulz(work *w, const muon_matrix *x) {
  int64_t side = muon_short(x), rows = x->rows, cols = x->cols;
  int tall = rows > cols;
  int rc = product(w, !tall, tall, side, side, tall ? rows : cols, 1, w->x, cols, w->x, cols, 0, w->a);
  if (!rc) rc = product(w, 0, 0, side, side, side, MUON_5, w->a, side, w->a, side, 0, w->b);
  if (!rc) rc = cuda_check(w->ctx, muonk_polynomial(w->ctx->stream, w->a, w->b, side), "a matrix polynomial");
  if (!rc && tall) rc = product(w, 0, 0, cols, rows, cols, 1, w->b, cols, w->x, cols, 0, w->y);
  else if (!rc) rc = product(w, 0, 0, cols, rows, rows, 1, w->x, cols, w->b, rows, 0, w->y);
  float *was = w->x;
  w->x = w->y;
  w->y = was;
  return rc;
}

static int update_matrix(work *w, const muon *m, const sp_io *io, const opk_rules *rules, muon_rule *rule, uint32_t i) {
  opk_table t;
  optim_cuda_one(&m->o, io, i, &t);
  rule->scale = muon_scale(&m->matrix[i]);
  int rc =
      cuda_check(w->ctx, muonk_load(w->ctx->stream, &t, rule, w->x, w->sums, w->factor, rules->head, rules->status),
                 "the momentum of a matrix");
  for (int64_t k = 0; k < m->p->ns_steps && !rc; k++) rc = newton_schulz(w, &m->matrix[i]);
  return rc ? rc : cuda_check(w->ctx, muonk_apply(w->ctx->stream, &t, rule, w->x, rules->head), "updating a matrix");
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  const muon *m = self;
  const muon_params *p = m->p;
  double b1 = p->aux_betas.v[0], b2 = p->aux_betas.v[1];
  opk_rules rules = {.b1 = b1, .b2 = b2, .weight_decay = p->weight_decay, .aux_lr = p->aux_lr};
  opk_adam_rule others = {.b1 = (float)b1,
                          .b2 = (float)b2,
                          .c1 = (float)(1 - b1),
                          .c2 = (float)(1 - b2),
                          .eps = (float)p->aux_eps,
                          .clips = p->common.clip_norm > 0};
  muon_rule rule = muon_rule_of(m);
  work w;
  int rc = open_work(ctx, m, io, &w);
  if (!rc) rc = optim_cuda_begin(ctx, &m->o, io, &rules);
  for (uint32_t i = 0; i < m->o.n && !rc; i++)
    if (m->o.apart[i] && optim_is_here(io, i)) rc = update_matrix(&w, m, io, &rules, &rule, i);
  return rc ? rc : optim_cuda_end(ctx, &m->o, io, &rules, muonk_others, &others);
}

SP_STAGE_CUDA(MUON_PAIR, .plan = plan, .prepare = prepare, .forward = forward);
