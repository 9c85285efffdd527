/* SPDX-License-Identifier: MIT
 * gemm_cpu.c - the stage `gemm` on the CPU: blocks of a fixed grid, each by oneDNN on one thread. */
#include "../../kits/nn/cpu/dnnl_conv.h"
#include "../../kits/par.h"
#include "gemm.h"

#define BLOCK 256 /* rows and columns of c that one thread computes at a time */

typedef struct job {
  gemm_call p;
  int64_t across; /* blocks of a row of blocks */
  int64_t times;
  sp_ctx *ctx;
} job;

static int64_t blocks(int64_t n) { return (n + BLOCK - 1) / BLOCK; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int block(void *arg, int64_t i, int worker) {
  const job *j = arg;
  const gemm_call *p = &j->p;
  int64_t row = i / j->across * BLOCK, col = i % j->across * BLOCK;
  (void)worker;
  for (int64_t k = 0; k < j->times; k++)
    if (nn_gemm(0, 0, least(BLOCK, p->m - row), least(BLOCK, p->n - col), p->k, 1, p->a + row * p->k, p->k, p->b + col,
                p->n, 0, p->c + row * p->n + col, p->n))
      return j->ctx->host->fail(j->ctx, SP_E_UNSUPPORTED, "oneDNN refused the product");
  return SP_OK;
}

/* oneDNN compiles its product when it is first asked for one. */
static int prepare(sp_ctx *ctx, void *self, const sp_io *io) {
  float a[64] = {0}, b[64] = {0}, c[64];
  int st = nn_room(ctx);
  (void)self;
  (void)io;
  if (st) return st;
  return nn_gemm(0, 0, 8, 8, 8, 1, a, 8, b, 8, 0, c, 8)
             ? ctx->host->fail(ctx, SP_E_UNSUPPORTED, "oneDNN refused a product")
             : SP_OK;
}

static int forward(sp_ctx *ctx, void *self, const sp_io *io) {
  job j = {.p = gemm_call_of(io), .times = ((const gemm *)self)->p->times, .ctx = ctx};
  j.across = blocks(j.p.n);
  return par_run(ctx, blocks(j.p.m) * j.across, block, &j);
}

const sp_stage_type gemm_cpu = {.size = sizeof(sp_stage_type),
                                .flags = SP_STAGE_CAPTURABLE | SP_STAGE_REENTRANT,
                                .name = "gemm",
                                .device = "cpu",
                                .doc = GEMM_DOC,
                                .inputs = gemm_inputs,
                                .outputs = gemm_outputs,
                                .params = gemm_param_table,
                                .params_size = sizeof(gemm_params),
                                .create = gemm_create,
                                .destroy = gemm_destroy,
                                .plan = gemm_plan,
                                .prepare = prepare,
                                .forward = forward};
