/* SPDX-License-Identifier: MIT
 * gemm.h - a matrix product: ports, parameters and checks, for every device. */
#ifndef GEMM_H
#define GEMM_H

#include <stddef.h>

#include <spcore/plugin.h>

#define GEMM_DOC "Matrix product c = a b, computed so often that it takes a known time"

enum { GEMM_IN_A, GEMM_IN_B };

typedef struct gemm_params {
  int64_t n, times;
} gemm_params;

typedef struct gemm {
  const gemm_params *p;
  sp_weight b; /* where b is not wired */
} gemm;

/* The product of one call, all row-major: a [m][k], b [k][n], c [m][n]. */
typedef struct gemm_call {
  const float *a, *b;
  float *c;
  int64_t m, n, k;
} gemm_call;

extern const sp_port gemm_inputs[], gemm_outputs[];
extern const sp_param gemm_param_table[];
extern const sp_stage_type gemm_cpu, gemm_cuda;

int gemm_create(sp_ctx *ctx, const void *params, void **self);
void gemm_destroy(void *self);
int gemm_plan(sp_ctx *ctx, void *self, sp_plan *plan);
gemm_call gemm_call_of(const sp_io *io);

#endif
