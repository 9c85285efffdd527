/* SPDX-License-Identifier: MIT
 * plan.c - plans a network for the CPU: what each op needs of memory and of oneDNN, where each pixel lies. */
#include "cpu_net.h"

#include <stdlib.h>

static int32_t spread(int32_t v) { /* bit i to bit 2i */
  int32_t r = 0;
  for (int i = 0; i <= NN_MAX_DEPTH; i++) r |= (v >> i & 1) << (2 * i);
  return r;
}

static int tables(sp_ctx *ctx, nn_val *v) {
  int d = v->layout;
  int32_t low = (1 << d) - 1;
  v->yo = malloc((size_t)(v->h + v->w) * sizeof *v->yo);
  if (!v->yo) return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory for the network's plan");
  v->xo = v->yo + v->h;
  for (int32_t y = 0; y < v->h; y++) v->yo[y] = (int32_t)((y >> d) * (v->w >> d) << 2 * d) + 2 * spread(y & low);
  for (int32_t x = 0; x < v->w; x++) v->xo[x] = ((x >> d) << 2 * d) + spread(x & low);
  return SP_OK;
}

int nn_cpu_plan(sp_ctx *ctx, nn_cpu *cpu, sp_plan *plan, nn_net *net, const nn_bind *in, int n_in, const nn_bind *out,
                int n_out) {
  nn_target target = {.inner = NN_F32, .no_mask = 1u << NN_X_RELU, .apart = plan->frozen, .acts = !plan->training};
  int st;
  nn_cpu_clear(cpu);
  if ((st = nn_lower(ctx, cpu, &target, plan, net, in, n_in, out, n_out))) return st;
  cpu->threads = nn_par_of(ctx).threads;
  for (int i = 0; i < cpu->n_vals && !st; i++)
    if (cpu->vals[i].layout >= 0) st = tables(ctx, &cpu->vals[i]);
  for (int i = 0; i < cpu->n_ops && !st; i++) {
    nn_xop *op = &cpu->ops[i];
    if (nn_cpu_ops[op->x]->size) st = nn_cpu_ops[op->x]->size(ctx, cpu, op);
    if (nn_align(op->tmp) > cpu->tmp_bytes) cpu->tmp_bytes = nn_align(op->tmp);
    if (nn_align(op->worker) > cpu->worker_bytes) cpu->worker_bytes = nn_align(op->worker);
  }
  if (st || (st = nn_find_factors(ctx, cpu, plan)) || (st = nn_place(ctx, cpu))) return st;
  nn_cut(cpu, plan);
  nn_give_factors(cpu, plan);
  plan->const_bytes = cpu->const_bytes;
  plan->saved_bytes = cpu->training ? cpu->saved_bytes : 0;
  plan->scratch_bytes = (cpu->infer_bytes > cpu->grad_bytes ? cpu->infer_bytes : cpu->grad_bytes) + cpu->tmp_bytes +
                        cpu->worker_bytes * (size_t)cpu->threads;
  return SP_OK;
}

void nn_cpu_clear(nn_cpu *cpu) {
  for (int i = 0; i < cpu->n_ops; i++) nn_conv_free(cpu->ops[i].conv);
  nn_low_clear(cpu);
}
