/* SPDX-License-Identifier: MIT
 * gemm_whole.c - the backward of a product at once, where a way can and is faster than its parts are. */
#include "gemm.h"

#include <stdio.h>

/* ---- the parts, each in its own fastest way ---------------------------------------------------------------------- */
static int run_separate(const nnc_job *job) {
  const nnc_whole *b = (const nnc_whole *)job;
  void *stream = job->c->stream;
  int64_t pieces;
  nnk_sum g = {b->bias, NULL, 0};
  int err = nnc_gemm_run(&b->data);
  if (!err && b->biased) err = nnk_bias_pieces(stream, &b->dy, b->bias, &pieces);
  if (!err && b->biased) err = nnk_add_pieces(stream, 1, &(nnk_pieces){g, b->bias, b->dy.c, b->dy.c, pieces});
  return err ? err : nnc_gemm_run(&b->update);
}

static const char *const texts[] = {"separate", NULL};

const nnc_way nnc_way_separate = {.id = NNC_WAY_SEPARATE, .jobs = NNC_WHOLE, .texts = texts, .run = run_separate};

/* ---- choosing ---------------------------------------------------------------------------------------------------- */
static int run_timed(void *job) {
  const nnc_whole *b = job;
  int err = b->job.by->way->run(job);
  if (err || !(b->job.by->does & NNC_ALL)) return err;
  b->sums[NNC_OF_WEIGHT].dst = (nnk_sum){b->update.d, b->update.scale, 1};
  b->sums[NNC_OF_DY].dst = (nnk_sum){b->bias, NULL, 0};
  return nnk_add_pieces(b->job.c->stream, 1 + b->biased, b->sums);
}

int nnc_whole_prepare(nnc_call *c, const nn_xop *op) {
  const nn_cuda *cuda = c->cuda;
  const nn_val *in = &cuda->low.vals[op->in], *out = &cuda->low.vals[op->out];
  nn_product *data = nnc_gemm_find(c, op, NNC_DATA), *update = nnc_gemm_find(c, op, NNC_UPDATE), *p;
  nnc_choice by = {NULL};
  nnc_whole b = {.job = {.c = c, .op = op, .of = NNC_WHOLE, .part = NNC_BACKWARD, .by = &by, .timed = run_timed},
                 .x = nnc_map(in, c->w.n),
                 .dx = nnc_map(in, c->w.n),
                 .dy = nnc_map(out, c->w.n),
                 .relu = in->masked,
                 .biased = op->d.bias};
  nnk_pieces sums[NNC_WHOLE_SUMS];
  char key[SP_CUDA_KEY_MAX], *g;
  int64_t pieces;
  int status;
  b.data.p = data;
  if (nnc_gemm_find(c, op, NNC_BACKWARD) || !nnc_takes_all(&b.job)) return SP_OK;
  b.x.p = c->w.tmp;
  b.dy.p = c->w.tmp + nn_align(nnc_map_bytes(in, c->w.n));
  g = (char *)b.dy.p + nn_align(nnc_map_bytes(out, c->w.n));
  b.dx.p = g + nn_align((size_t)(data->n * data->k) * sizeof(float));
  b.bias = (float *)((char *)b.dx.p + nn_align(nnc_map_bytes(in, c->w.n)));
  b.work = b.bias + b.dy.c;
  b.sums = sums;
  b.data = (nnc_gemm){.job = {.c = c, .op = op, .of = NNC_PRODUCT, .part = NNC_DATA, .by = &data->by},
                      .p = data,
                      .a = nnc_weight(c, op->d.w),
                      .b = b.dy.p,
                      .d = b.dx.p,
                      .master = nnc_weight(c, op->d.w),
                      .dx = b.dx,
                      .n_pieces = &pieces};
  if (b.relu) b.data.sign = b.x;
  if (data->columns) /* see nnc_gemm_size() */
    b.data.pieces =
        (char *)b.bias + nn_align(nnc_ways_most_pieces(cuda, op, c->w.n)) + nn_align(nnk_bias_grad_work(&b.dy));
  b.update = (nnc_gemm){.job = {.c = c, .op = op, .of = NNC_PRODUCT, .part = NNC_UPDATE, .by = &update->by},
                        .p = update,
                        .a = b.x.p,
                        .b = b.dy.p,
                        .d = g,
                        .scale = &cuda->numbers[1],
                        .add = 1};
  snprintf(key, sizeof key, "whole backward m%lld n%lld k%lld %s %s tf32", (long long)data->m, (long long)data->n,
           (long long)data->k, b.biased ? "bias" : "-", b.relu ? "mask" : "-");
  status = nnc_choose(&b.job, key);
  if (status) return status;
  p = nnc_gemm_new(c, op, NNC_BACKWARD, c->w.n);
  if (!p) return nnc_fail(c, op, SP_E_NOMEM, "out of memory for a product");
  p->by = by;
  return SP_OK;
}

/* ---- the call ---------------------------------------------------------------------------------------------------- */
int nnc_whole_backward(nnc_call *c, const nn_xop *op, const nnk_map *dx, int add, int relu) {
  nn_product *all = nnc_gemm_find(c, op, NNC_BACKWARD);
  nnk_pieces sums[NNC_WHOLE_SUMS];
  nnc_whole b = {.job = {.c = c, .op = op, .of = NNC_WHOLE, .part = NNC_BACKWARD, .by = &all->by},
                 .x = nnc_data(c, op->in),
                 .dx = *dx,
                 .dy = nnc_grad(c, op->out),
                 .relu = relu,
                 .work = (float *)(c->w.more + nnc_cop(c, op)->at[all->by.way->id]),
                 .sums = sums};
  int status;
  b.data.p = nnc_gemm_find(c, op, NNC_DATA);
  b.data.add = add;
  b.data.master = nnc_weight(c, op->d.w);
  status = nnc_ran(&b.job, all->by.way->run(&b.job));
  sums[NNC_OF_WEIGHT].dst = nnc_grad_of(c, op->d.w);
  if (!status) status = nnc_add_later(c, &sums[NNC_OF_WEIGHT]);
  if (!status && relu) status = nnc_bias_later(c, op->in, sums[NNC_OF_DX]);
  if (status || !op->d.bias || c->pieces[nnc_index(c, op)] < 0) return status;
  sums[NNC_OF_DY].dst = nnc_grad_of(c, op->d.w + 1);
  return sums[NNC_OF_DY].dst.p ? nnc_add_later(c, &sums[NNC_OF_DY]) : SP_OK;
}
