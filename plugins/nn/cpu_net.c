/* SPDX-License-Identifier: MIT
 * cpu_net.c - plans a network for the CPU: how each op is computed, the pixel order of each value, where it lies. */
#include "cpu_net.h"

#include <stdlib.h>
#include <string.h>

#define MAX_BYTES ((int64_t)1 << 40)

static size_t align(size_t n) { return (n + 255) & ~(size_t)255; }
static int nomem(sp_ctx *ctx) { return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory for the network's plan"); }

static void *grown(void *p, size_t *cap, size_t n, size_t size) {
  size_t c = *cap ? *cap * 2 : 32;
  if (n <= *cap) return p;
  p = realloc(p, c * size);
  if (p) *cap = c;
  return p;
}

/* ---- pixel order ------------------------------------------------------------------------------------------------- */
static int32_t spread(int32_t v) { /* bit i to bit 2i */
  int32_t r = 0;
  for (int i = 0; i <= NN_MAX_DEPTH; i++) r |= (v >> i & 1) << (2 * i);
  return r;
}

static int tables(sp_ctx *ctx, nn_val *v) {
  int d = v->layout;
  int32_t low = (1 << d) - 1;
  v->yo = malloc((size_t)(v->h + v->w) * sizeof *v->yo);
  if (!v->yo) return nomem(ctx);
  v->xo = v->yo + v->h;
  for (int32_t y = 0; y < v->h; y++) v->yo[y] = (int32_t)((y >> d) * (v->w >> d) << 2 * d) + 2 * spread(y & low);
  for (int32_t x = 0; x < v->w; x++) v->xo[x] = ((x >> d) << 2 * d) + spread(x & low);
  return SP_OK;
}

/* ---- lowering ---------------------------------------------------------------------------------------------------- */
static int new_val(sp_ctx *ctx, nn_cpu *cpu, int net, int layout) {
  nn_value nv = cpu->net.values[net];
  nn_val *v = grown(cpu->vals, &cpu->cap_vals, (size_t)cpu->n_vals + 1, sizeof *v);
  int st;
  if (!v) return nomem(ctx);
  cpu->vals = v;
  v += cpu->n_vals;
  *v = (nn_val){.c = nv.c,
                .h = nv.h,
                .w = nv.w,
                .px = nv.h * nv.w,
                .net = net,
                .layout = layout,
                .in_port = -1,
                .out_port = -1,
                .producer = -1,
                .first = -1};
  if (v->layout == NN_PLANAR && (v->px == 1 || v->c == 1)) v->layout = 0;
  if (v->layout >= 0 && (st = tables(ctx, v))) return st;
  return cpu->n_vals++;
}

static nn_xop *new_op(sp_ctx *ctx, nn_cpu *cpu, int x) {
  nn_xop *op = grown(cpu->ops, &cpu->cap_ops, (size_t)cpu->n_ops + 1, sizeof *op);
  if (!op) {
    nomem(ctx);
    return NULL;
  }
  cpu->ops = op;
  op += cpu->n_ops++;
  *op = (nn_xop){.x = x, .in = -1, .in2 = -1, .out = -1, .d.in2 = -1, .d.w = -1};
  return op;
}

/* A copy of value v in `layout`. */
static int copy_of(sp_ctx *ctx, nn_cpu *cpu, int v, int layout) {
  int out = new_val(ctx, cpu, cpu->vals[v].net, layout);
  nn_xop *op = out < 0 ? NULL : new_op(ctx, cpu, NN_X_COPY);
  if (!op) return SP_E_NOMEM;
  op->in = v;
  op->out = out;
  op->from = cpu->vals[v].layout;
  op->to = cpu->vals[out].layout;
  return out;
}

/* The value of the net in `layout`; the first one there is in any where layout is below NN_PLANAR. */
static int in_layout(sp_ctx *ctx, nn_cpu *cpu, int net, int layout) {
  int any = -1;
  for (int i = 0; i < cpu->n_vals; i++) {
    const nn_val *v = &cpu->vals[i];
    if (v->net != net) continue;
    if (v->layout == layout || layout < NN_PLANAR || v->px == 1) return i;
    if (any < 0) any = i;
  }
  return copy_of(ctx, cpu, any, layout);
}

static int is_patch(const nn_net *net, const nn_op *op) { /* 2x2, stride 2, nothing padded or left over */
  const nn_value *fine = &net->values[op->kind == NN_OP_CONVT ? op->out : op->in];
  if (op->kind != NN_OP_CONV && op->kind != NN_OP_CONVT) return 0;
  for (int i = 0; i < 2; i++)
    if (op->k[i] != 2 || op->s[i] != 2 || op->p[i] || op->op[i]) return 0;
  return fine->h % 2 == 0 && fine->w % 2 == 0;
}

static int is_point(const nn_op *op) { /* 1x1, stride 1 */
  if (op->kind != NN_OP_CONV && op->kind != NN_OP_CONVT) return op->kind == NN_OP_LINEAR;
  for (int i = 0; i < 2; i++)
    if (op->k[i] != 1 || op->s[i] != 1 || op->p[i] || op->op[i]) return 0;
  return 1;
}

static int max2(int a, int b) { return a > b ? a : b; }

/* The depth of Z order that the readers of each value would like best. */
static void wishes(const nn_net *net, int *wish) {
  for (int i = net->n_ops - 1; i >= 0; i--) {
    const nn_op *op = &net->ops[i];
    int d = wish[op->out];
    switch (op->kind) {
      case NN_OP_RELU:
      case NN_OP_BATCH_NORM:
      case NN_OP_ADD:
      case NN_OP_CONCAT: break;
      default: d = is_point(op) ? d : op->kind == NN_OP_CONV && is_patch(net, op) && d < NN_MAX_DEPTH ? d + 1 : 0;
    }
    wish[op->in] = max2(wish[op->in], d);
    if (op->in2 >= 0) wish[op->in2] = max2(wish[op->in2], d);
  }
}

/* Order of a weight in memory: [n][k] of cpu_gemm.c. */
static void order_weight(nn_net *net, const nn_op *op) {
  if (op->kind == NN_OP_CONV) net->weights[op->w].spec.order = SP_CHANNELS_LAST;
  if (op->kind == NN_OP_CONVT) net->weights[op->w].spec.order = SP_ORDER4(2, 3, 1, 0);
}

static int lower_op(sp_ctx *ctx, nn_cpu *cpu, const nn_op *d, const int *wish) {
  nn_net *net = &cpu->net;
  int patch = is_patch(net, d), point = is_point(d), in = in_layout(ctx, cpu, d->in, NN_PLANAR - 1), in2 = -1, layout;
  int x = NN_X_GEMM;
  nn_xop *op;
  switch (d->kind) {
    case NN_OP_CONV:
    case NN_OP_CONVT:
    case NN_OP_LINEAR:
      if (patch || point) {
        order_weight(net, d);
      } else {
        x = NN_X_CONV;
      }
      break;
    case NN_OP_MAX_POOL:
    case NN_OP_AVG_POOL: x = NN_X_POOL; break;
    case NN_OP_BATCH_NORM: x = NN_X_NORM; break;
    case NN_OP_RELU: x = NN_X_RELU; break;
    case NN_OP_ADD: x = NN_X_ADD; break;
    case NN_OP_CONCAT: x = NN_X_CONCAT; break;
    default: x = NN_X_COPY; break;
  }
  layout = in < 0 ? 0 : cpu->vals[in].layout;
  if (x == NN_X_CONV || x == NN_X_POOL) layout = 0;
  else if (x == NN_X_GEMM && patch && d->kind == NN_OP_CONV && layout < 1) layout = max2(1, wish[d->in]);
  else if (x == NN_X_GEMM && patch && d->kind == NN_OP_CONVT && layout >= NN_MAX_DEPTH) layout = 0;
  else if (layout < 0 && x != NN_X_COPY && x != NN_X_RELU) layout = wish[d->in];
  in = in < 0 ? in : in_layout(ctx, cpu, d->in, layout);
  if (in >= 0 && d->in2 >= 0) in2 = in_layout(ctx, cpu, d->in2, layout);
  if (in < 0 || in2 < -1) return in < 0 ? in : in2;
  if (x == NN_X_GEMM && patch) layout += d->kind == NN_OP_CONV ? -1 : 1;
  op = new_op(ctx, cpu, x);
  if (!op) return SP_E_NOMEM;
  op->d = *d;
  op->in = in;
  op->in2 = in2;
  op->from = cpu->vals[in].layout;
  op->to = NN_PLANAR;
  in = new_val(ctx, cpu, d->out, x == NN_X_COPY ? 0 : layout);
  if (in < 0) return in;
  cpu->ops[cpu->n_ops - 1].out = in;
  return SP_OK;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */
typedef struct piece {
  int first, last;
  size_t bytes, *off;
} piece;

/* Offsets such that pieces that live at the same time do not overlap; returns the size of the whole. */
static size_t pack(piece *p, int n) {
  size_t total = 0;
  for (int i = 0; i < n; i++) {
    size_t at = 0;
    for (int again = 1; again;) {
      again = 0;
      for (int j = 0; j < i; j++)
        if (p[j].bytes && p[j].last >= p[i].first && p[j].first <= p[i].last && *p[j].off < at + p[i].bytes &&
            at < *p[j].off + p[j].bytes) {
          at = *p[j].off + p[j].bytes;
          again = 1;
        }
    }
    *p[i].off = at;
    if (at + p[i].bytes > total) total = at + p[i].bytes;
  }
  return total;
}

static int own_memory(const nn_val *v) { return v->in_port < 0 && (v->out_port < 0 || v->uses); }

static int place(sp_ctx *ctx, nn_cpu *cpu) {
  piece *infer = calloc((size_t)cpu->n_vals * 2 + 1, sizeof *infer), *grad = infer ? infer + cpu->n_vals : NULL;
  if (!infer) return nomem(ctx);
  cpu->saved_bytes = 0;
  for (int i = 0; i < cpu->n_vals; i++) {
    nn_val *v = &cpu->vals[i];
    size_t bytes = align((size_t)(cpu->batch * v->c * v->px) * sizeof(float));
    int relu = v->producer >= 0 && cpu->ops[v->producer].d.relu;
    infer[i] = (piece){v->first, v->last, own_memory(v) ? bytes : 0, &v->off_infer};
    grad[i] = (piece){v->first, v->last, v->in_port < 0 && (v->uses || relu) ? bytes : 0, &v->off_grad};
    v->off_saved = cpu->saved_bytes;
    if (own_memory(v)) cpu->saved_bytes += bytes;
  }
  cpu->infer_bytes = pack(infer, cpu->n_vals);
  for (int i = 0; i < cpu->n_vals / 2; i++) { /* backward meets the last value first */
    piece t = grad[i];
    grad[i] = grad[cpu->n_vals - 1 - i];
    grad[cpu->n_vals - 1 - i] = t;
  }
  cpu->grad_bytes = cpu->training ? pack(grad, cpu->n_vals) : 0;
  free(infer);
  for (int i = 0; i < cpu->n_ops; i++)
    if (cpu->ops[i].x == NN_X_NORM) {
      cpu->ops[i].off_stats = cpu->saved_bytes;
      cpu->saved_bytes += align((size_t)cpu->vals[cpu->ops[i].out].c * 2 * sizeof(float));
    }
  return SP_OK;
}

static int can_mask(int x) { return x != NN_X_RELU; }

static void uses(nn_cpu *cpu) {
  for (int i = 0; i < cpu->n_ops; i++) {
    nn_xop *op = &cpu->ops[i];
    int in[2] = {op->in, op->in2};
    for (int j = 0; j < 2; j++)
      if (in[j] >= 0) {
        cpu->vals[in[j]].uses++;
        cpu->vals[in[j]].last = i;
      }
    cpu->vals[op->out].producer = i;
    cpu->vals[op->out].first = cpu->vals[op->out].last = i;
  }
  for (int i = 0; i < cpu->n_ops; i++) {
    nn_val *v = &cpu->vals[cpu->ops[i].in], *v2 = cpu->ops[i].in2 < 0 ? NULL : &cpu->vals[cpu->ops[i].in2];
    for (int j = 0; j < 2; j++, v = v2)
      if (v && v->producer >= 0 && cpu->ops[v->producer].d.relu && v->uses == 1 && v->out_port < 0 &&
          can_mask(cpu->ops[i].x))
        v->masked = 1;
  }
}

static int bind_out(sp_ctx *ctx, nn_cpu *cpu, sp_plan *plan, const nn_bind *b) {
  sp_spec *spec = &plan->out[b->port].spec[b->item];
  int v = in_layout(ctx, cpu, b->value, 0);
  if (v >= 0 && (cpu->vals[v].in_port >= 0 || cpu->vals[v].out_port >= 0)) v = copy_of(ctx, cpu, v, 0);
  if (v < 0) return v;
  cpu->vals[v].out_port = b->port;
  cpu->vals[v].out_item = b->item;
  nn_spec(&cpu->net, b->value, cpu->batch, spec);
  if (spec->ndim == 4) spec->order = SP_CHANNELS_LAST;
  return SP_OK;
}

static int is_input(const nn_bind *in, int n, int value) {
  for (int i = 0; i < n; i++)
    if (in[i].value == value) return 1;
  return 0;
}

static int lower(sp_ctx *ctx, nn_cpu *cpu, sp_plan *plan, const nn_bind *in, int n_in, const nn_bind *out, int n_out) {
  int *wish = calloc((size_t)cpu->net.n_values + 1, sizeof *wish), st = SP_OK;
  if (!wish) return nomem(ctx);
  wishes(&cpu->net, wish);
  for (int i = 0; i < n_in && st >= 0; i++) {
    const sp_spec *s = &plan->in[in[i].port].spec[in[i].item];
    int last = s->order == (s->ndim == 4 ? SP_CHANNELS_LAST : 0x01);
    if (s->order != SP_ROW_MAJOR && !last)
      st = ctx->host->fail(ctx, SP_E_UNSUPPORTED,
                           "memory order %#x of the input is neither row-major nor channels-last", (unsigned)s->order);
    else st = new_val(ctx, cpu, in[i].value, s->ndim == 4 && s->order == SP_ROW_MAJOR ? NN_PLANAR : 0);
    if (st < 0) break;
    cpu->vals[st].in_port = in[i].port;
    cpu->vals[st].in_item = in[i].item;
  }
  for (int i = 0; i < n_out && st >= 0; i++)
    if (is_input(in, n_in, out[i].value)) st = bind_out(ctx, cpu, plan, &out[i]);
  for (int i = 0; i < cpu->net.n_ops && st >= 0; i++) {
    st = lower_op(ctx, cpu, &cpu->net.ops[i], wish);
    for (int j = 0; j < n_out && st >= 0; j++) /* at once, so that a copy does not keep the value alive */
      if (out[j].value == cpu->net.ops[i].out) st = bind_out(ctx, cpu, plan, &out[j]);
  }
  free(wish);
  return st < 0 ? st : SP_OK;
}

static int check_sizes(sp_ctx *ctx, const nn_cpu *cpu) {
  int64_t total = 0;
  for (int i = 0; i < cpu->n_vals; i++) {
    const nn_val *v = &cpu->vals[i];
    if (cpu->batch < 1 || v->c * v->px > MAX_BYTES / 4 / cpu->batch ||
        (total += v->c * v->px * 4 * cpu->batch) > MAX_BYTES)
      return ctx->host->fail(ctx, SP_E_SHAPE, "a batch of %lld x %lld x %lld x %lld needs more than 1 TiB of memory",
                             (long long)cpu->batch, (long long)v->c, (long long)v->h, (long long)v->w);
  }
  return SP_OK;
}

int nn_cpu_plan(sp_ctx *ctx, nn_cpu *cpu, sp_plan *plan, nn_net *net, const nn_bind *in, int n_in, const nn_bind *out,
                int n_out) {
  uint8_t *keep = calloc((size_t)net->n_values + 1, 1);
  int st = SP_OK;
  nn_cpu_clear(cpu);
  cpu->net = *net;
  memset(net, 0, sizeof *net);
  if (!keep) return nomem(ctx);
  for (int i = 0; i < n_out; i++) keep[out[i].value] = 1;
  nn_fuse(&cpu->net, keep);
  free(keep);
  cpu->batch = n_in ? plan->in[in[0].port].spec[in[0].item].shape[0] : plan->batch;
  cpu->training = plan->training != 0;
  cpu->frozen = plan->frozen;
  cpu->threads = nn_par_of(ctx).threads;
  for (int i = 0; i < n_in; i++) {
    int64_t n = plan->in[in[i].port].spec[in[i].item].shape[0];
    if (n != cpu->batch)
      return ctx->host->fail(ctx, SP_E_SHAPE, "the inputs have %lld and %lld samples", (long long)cpu->batch,
                             (long long)n);
  }
  if ((st = lower(ctx, cpu, plan, in, n_in, out, n_out)) || (st = check_sizes(ctx, cpu))) return st;
  uses(cpu);
  cpu->tmp_bytes = cpu->worker_bytes = 0;
  for (int i = 0; i < cpu->n_ops && !st; i++) {
    nn_xop *op = &cpu->ops[i];
    if (op->x == NN_X_GEMM) nn_gemm_size(cpu, op);
    if (op->x == NN_X_NORM) nn_norm_size(cpu, op);
    if (op->x == NN_X_CONV) st = nn_convs_plan(ctx, cpu, op);
    if (align(op->tmp) > cpu->tmp_bytes) cpu->tmp_bytes = align(op->tmp);
    if (align(op->worker) > cpu->worker_bytes) cpu->worker_bytes = align(op->worker);
  }
  if (st || (st = place(ctx, cpu))) return st;
  plan->weights = cpu->net.weights;
  plan->n_weights = (uint32_t)cpu->net.n_weights;
  plan->saved_bytes = cpu->training ? cpu->saved_bytes : 0;
  plan->scratch_bytes = (cpu->infer_bytes > cpu->grad_bytes ? cpu->infer_bytes : cpu->grad_bytes) + cpu->tmp_bytes +
                        cpu->worker_bytes * (size_t)cpu->threads;
  return SP_OK;
}

void nn_cpu_clear(nn_cpu *cpu) {
  for (int i = 0; i < cpu->n_vals; i++) free(cpu->vals[i].yo);
  for (int i = 0; i < cpu->n_ops; i++) nn_conv_free(cpu->ops[i].conv);
  free(cpu->vals);
  free(cpu->ops);
  nn_clear(&cpu->net);
  memset(cpu, 0, sizeof *cpu);
}
