/* SPDX-License-Identifier: MIT
 * conv.c - convolutions of any kernel, and their transposes: one sample a call to oneDNN, samples spread over
 * threads. In a frozen network those of one pixel as well, of which a sample may be several calls.
 *
 * A transposed convolution runs the parts of the convolution that it transposes: its input is that one's `dst`. */
#include "cpu_net.h"
#include "wino.h"

#include <string.h>

#define SUMS_BYTES ((size_t)64 << 20) /* most memory for the partial sums of the weight gradient */

typedef struct cv {
  const nn_call *c;
  const nn_xop *op;
  const nn_val *in, *out;
  int part, acc;
  int64_t n, in_px, out_px; /* calls of oneDNN, and the pixels of each */
  const float *x, *dy, *mask, *bias, *plus;
  float *y, *dx;
  void *packed;
  char *sums;
  int64_t groups;
  size_t sum_bytes;
} cv;

static size_t align(size_t n) { return (n + 255) & ~(size_t)255; }
static size_t larger(size_t a, size_t b) { return a > b ? a : b; }
static int part_fwd(const nn_xop *op) { return op->d.kind == NN_CONVT ? NN_CONV_DATA : NN_CONV_FWD; }
static int part_data(const nn_xop *op) { return op->d.kind == NN_CONVT ? NN_CONV_FWD : NN_CONV_DATA; }

/* Into how many equal parts each sample is cut, whatever there are of samples and threads. */
static int64_t parts_of(const nn_cpu *cpu, const nn_xop *op) {
  const nn_op *d = &op->d;
  int64_t px = cpu->vals[op->in].px, n = 8;
  for (int i = 0; i < 2; i++)
    if (d->k[i] != 1 || d->s[i] != 1 || d->p[i]) return 1;
  while (n > 1 && (px % n || px / n < 32)) n--;
  return cpu->frozen ? n : 1;
}

static nn_conv_shape shape_of(const nn_cpu *cpu, const nn_xop *op) {
  const nn_op *d = &op->d;
  int64_t parts = parts_of(cpu, op);
  const nn_val *a = &cpu->vals[d->kind == NN_CONVT ? op->out : op->in];
  const nn_val *b = &cpu->vals[d->kind == NN_CONVT ? op->in : op->out];
  nn_conv_shape sh = {.c = a->c,
                      .h = a->h,
                      .w = a->w,
                      .o = b->c,
                      .oh = b->h,
                      .ow = b->w,
                      .k = {d->k[0], d->k[1]},
                      .s = {d->s[0], d->s[1]},
                      .p = {d->p[0], d->p[1]},
                      .d = {d->dil[0], d->dil[1]},
                      .groups = d->groups,
                      .order = cpu->net.weights[d->w].spec.order};
  if (parts > 1) {
    sh.h = sh.oh = 1;
    sh.w = sh.ow = a->px / parts;
  }
  if (d->act) sh.act = d->act;
  sh.bias = d->act && (d->bias || d->norm);
  return sh;
}

/* Only weights that stay as they are are worth preparing. */
static int is_wino(const nn_cpu *cpu, const nn_xop *op) {
  nn_conv_shape sh = shape_of(cpu, op);
  return cpu->frozen && op->d.kind == NN_CONV && nn_wino_fits(&sh);
}

/* How many partial sums: as many as samples, within reason. Each has a place for the sum and one for the new term. */
static int64_t groups(const nn_xop *op, int64_t n) {
  size_t one = 2 * align(nn_conv_packed_bytes(op->conv, NN_CONV_WEIGHTS));
  int64_t g = (int64_t)(SUMS_BYTES / one);
  if (g > NN_CHUNKS) g = NN_CHUNKS;
  if (g > n) g = n;
  return g < 1 ? 1 : g;
}

static void plan_constants(nn_cpu *cpu, nn_xop *op) {
  nn_conv_shape sh = shape_of(cpu, op);
  int wino = is_wino(cpu, op);
  op->off_w = nn_constant(cpu, wino ? nn_wino_packed_bytes(&sh) : nn_conv_packed_bytes(op->conv, part_fwd(op)));
  if (op->d.norm) op->off_b = nn_constant(cpu, (size_t)cpu->vals[op->out].c * sizeof(float));
  if (cpu->training) op->off_back = nn_constant(cpu, nn_conv_packed_bytes(op->conv, part_data(op)));
}

static int constants(sp_ctx *ctx, const nn_cpu *cpu, const nn_xop *op, const sp_io *io) {
  const float *w = io->weights[op->d.w].data;
  nn_conv_shape sh = shape_of(cpu, op);
  char *consts = io->consts;
  const char *err = NULL;
  if (op->d.norm) nn_fold_constants(cpu, op, io, io->scratch);
  if (op->d.norm) w = io->scratch;
  if (is_wino(cpu, op)) nn_wino_pack(&sh, w, (float *)(consts + op->off_w));
  else err = nn_conv_pack(op->conv, part_fwd(op), w, consts + op->off_w);
  if (!err && cpu->training) err = nn_conv_pack(op->conv, part_data(op), w, consts + op->off_back);
  return err ? ctx->host->fail(ctx, SP_E_UNSUPPORTED, "%s: %s", nn_kind_name(op->d.kind), err) : SP_OK;
}

/* The weights as oneDNN wants them: constants, or packed now. */
static const char *packed(const nn_call *c, const nn_xop *op, int part, void **p) {
  *p = c->w.low->frozen ? (char *)c->w.io->consts + (part == part_fwd(op) ? op->off_w : op->off_back) : c->w.tmp;
  return c->w.low->frozen ? NULL : nn_conv_pack(op->conv, part, nn_weight(c, op->d.w), *p);
}

static int size(sp_ctx *ctx, nn_cpu *cpu, nn_xop *op) {
  nn_conv_shape sh = shape_of(cpu, op);
  int wino = is_wino(cpu, op);
  const char *err = wino && !cpu->training ? NULL : nn_conv_new(&op->conv, &sh);
  size_t plain = align(nn_weight_bytes(cpu, op->d.w)), back;
  if (err)
    return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "%s %d x %d of %lld to %lld channels: %s", nn_kind_name(op->d.kind),
                           op->d.k[0], op->d.k[1], (long long)sh.c, (long long)sh.o, err);
  op->worker = wino ? nn_wino_scratch_bytes(&sh) : nn_conv_scratch_bytes(op->conv, part_fwd(op));
  if (cpu->frozen) plan_constants(cpu, op);
  op->tmp = !cpu->frozen ? align(nn_conv_packed_bytes(op->conv, part_fwd(op))) : op->d.norm ? plain : 0;
  if (!cpu->training) return SP_OK;
  op->worker = larger(op->worker, nn_conv_scratch_bytes(op->conv, NN_CONV_WEIGHTS));
  op->worker = larger(op->worker, align(nn_conv_scratch_bytes(op->conv, part_data(op))) +
                                      (size_t)(cpu->vals[op->in].px * cpu->vals[op->in].c) * sizeof(float));
  back = plain + (size_t)groups(op, cpu->batch) * 2 * align(nn_conv_packed_bytes(op->conv, NN_CONV_WEIGHTS));
  op->tmp = larger(op->tmp, larger(align(nn_conv_packed_bytes(op->conv, part_data(op))), back));
  op->tmp = larger(op->tmp, nn_bias_bytes(cpu->vals[op->out].c, 1));
  return SP_OK;
}

static int prepare(sp_ctx *ctx, const nn_cpu *cpu, nn_xop *op) {
  const int parts[] = {part_fwd(op), part_data(op), NN_CONV_WEIGHTS};
  for (int i = is_wino(cpu, op); i < (cpu->training ? 3 : 1); i++) {
    int st = nn_room(ctx);
    if (st) return st;
    const char *err = nn_conv_prepare(op->conv, parts[i]);
    if (err) return ctx->host->fail(ctx, SP_E_UNSUPPORTED, "%s: %s", nn_kind_name(op->d.kind), err);
  }
  return SP_OK;
}

static int run(const cv *p, int part, int worker, const float *x, void *packed, const float *y) {
  int t = p->op->d.kind == NN_CONVT;
  void *src = (void *)(uintptr_t)(t ? y : x), *dst = (void *)(uintptr_t)(t ? x : y);
  const char *err = nn_conv_run(p->op->conv, part, src, packed, dst, nn_worker(p->c, worker), p->bias);
  return err ? nn_fail(p->c, p->op, err) : SP_OK;
}

static int forward_sample(void *arg, int64_t i, int worker) {
  cv *p = arg;
  int64_t size = p->out_px * p->out->c;
  float *y = p->y + i * size;
  int st = run(p, p->part, worker, p->x + i * p->in_px * p->in->c, p->packed, y);
  if (!st && !p->op->d.act)
    nn_bias_relu(y, p->bias, p->plus ? p->plus + i * size : NULL, p->out_px, p->out->c, p->out->c, 0, p->out->c,
                 p->op->d.relu);
  return st;
}

static cv start(const nn_call *c, const nn_xop *op) {
  const nn_val *in = nn_val_of(c, op->in), *out = nn_val_of(c, op->out);
  int64_t parts = parts_of(c->w.low, op);
  return (cv){.c = c,
              .op = op,
              .in = in,
              .out = out,
              .n = c->w.n * parts,
              .in_px = in->px / parts,
              .out_px = out->px / parts,
              .x = nn_data(c, op->in),
              .y = nn_data(c, op->out),
              .dy = nn_dout(c, op->out)};
}

typedef struct wn {
  const nn_call *c;
  nn_wino w;
} wn;

static int wino_part(void *arg, int64_t i, int worker) {
  wn *p = arg;
  nn_wino_run(&p->w, i, nn_worker(p->c, worker));
  return SP_OK;
}

static int wino_forward(const nn_call *c, const nn_xop *op) {
  int st;
  wn p = {c, {.sh = shape_of(c->w.low, op), .samples = c->w.n, .relu = op->d.relu}};
  p.w.x = nn_data(c, op->in);
  p.w.y = nn_data(c, op->out);
  p.w.packed = (const float *)((const char *)c->w.io->consts + op->off_w);
  p.w.bias = nn_product_bias(c, op);
  p.w.plus = nn_product_plus(c, op);
  st = nn_run(&c->par, nn_wino_parts(&p.w), wino_part, &p);
  return st ? st : nn_act_behind(c, op);
}

static int forward(const nn_call *c, const nn_xop *op) {
  cv p = start(c, op);
  const char *err;
  if (is_wino(c->w.low, op)) return wino_forward(c, op);
  p.part = part_fwd(op);
  p.bias = nn_product_bias(c, op);
  p.plus = nn_product_plus(c, op);
  err = packed(c, op, p.part, &p.packed);
  return err ? nn_fail(c, op, err) : nn_run(&c->par, p.n, forward_sample, &p);
}

/* oneDNN overwrites; what is to be added goes through the worker's memory. */
static int data_sample(void *arg, int64_t i, int worker) {
  cv *p = arg;
  int64_t size = p->in_px * p->in->c;
  float *dx = p->dx + i * size;
  float *to = p->acc ? (float *)(nn_worker(p->c, worker) + align(nn_conv_scratch_bytes(p->op->conv, p->part))) : dx;
  int st = run(p, p->part, worker, to, p->packed, p->dy + i * p->out_px * p->out->c);
  if (!st && p->acc) nn_axpy(dx, to, 1, 1, size);
  if (!st && p->mask) nn_mask(dx, p->mask + i * size, size);
  return st;
}

static int group_sum(void *arg, int64_t i, int worker) {
  cv *p = arg;
  int64_t b, e;
  float *sum = (float *)(p->sums + (size_t)i * 2 * p->sum_bytes), *term = sum + p->sum_bytes / sizeof(float);
  nn_piece(p->c->w.n, 1, p->groups, i, &b, &e);
  for (int64_t s = b; s < e; s++) {
    int st = run(p, NN_CONV_WEIGHTS, worker, p->x + s * p->in->px * p->in->c, s == b ? sum : term,
                 p->dy + s * p->out->px * p->out->c);
    if (st) return st;
    if (s > b) nn_axpy(sum, term, 1, 1, (int64_t)(nn_conv_packed_bytes(p->op->conv, NN_CONV_WEIGHTS) / sizeof(float)));
  }
  return SP_OK;
}

static int backward(const nn_call *c, const nn_xop *op) {
  cv p = start(c, op);
  nn_grad g;
  const char *err;
  int st = SP_OK;
  p.dx = nn_din(c, op->in, &p.acc, &p.mask);
  if (p.dx) {
    p.part = part_data(op);
    err = packed(c, op, p.part, &p.packed);
    st = err ? nn_fail(c, op, err) : nn_run(&c->par, p.n, data_sample, &p);
  }
  if (!st) st = nn_plus_backward(c, op);
  if (!st && op->d.bias)
    st = nn_bias_grad(c, nn_grad_of(c, op->d.w + 1), p.dy, c->w.n * p.out->px, p.out->c, 1, (float *)c->w.tmp);
  g = nn_grad_of(c, op->d.w);
  if (!st && g.p) {
    size_t bytes = nn_weight_bytes(c->w.low, op->d.w);
    float *plain = (float *)c->w.tmp, *sum;
    p.sums = c->w.tmp + align(bytes);
    p.sum_bytes = align(nn_conv_packed_bytes(op->conv, NN_CONV_WEIGHTS));
    p.groups = groups(op, c->w.n);
    if ((st = nn_run(&c->par, p.groups, group_sum, &p))) return st;
    sum = (float *)p.sums;
    for (int64_t i = 1; i < p.groups; i++)
      nn_axpy(sum, (float *)(p.sums + (size_t)i * 2 * p.sum_bytes), 1, 1,
              (int64_t)(nn_conv_packed_bytes(op->conv, NN_CONV_WEIGHTS) / sizeof(float)));
    err = nn_conv_unpack(op->conv, sum, plain);
    if (err) return nn_fail(c, op, err);
    nn_axpy(g.p, plain, g.alpha, g.beta, (int64_t)(bytes / sizeof(float)));
  }
  return st;
}

const nn_cpu_op nn_cpu_conv = {
    .forward = forward, .backward = backward, .size = size, .prepare = prepare, .constants = constants};
