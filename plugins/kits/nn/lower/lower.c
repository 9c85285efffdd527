/* SPDX-License-Identifier: MIT
 * lower.c - lowers a network for a device: how each op is computed, the pixel order of each value, where it lies. */
#include "lower.h"

#include <stdlib.h>
#include <string.h>

#include "../ops/row.h"
#include "product.h"

#define MAX_BYTES ((int64_t)1 << 40)
#define ANY (NN_PLANAR - 1) /* of pixel orders, and of elements */

/* NN_ROWS_ONLY ... */
static const unsigned execs[NN_EXECS] = {
#define NN_EXEC(ID, row, is) [NN_X_##ID] = is,
#include "../ops/ops.list"
};

static int nomem(sp_ctx *ctx) { return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory for the network's plan"); }

static void *grown(void *p, size_t *cap, size_t n, size_t size) {
  size_t c = *cap ? *cap * 2 : 32;
  if (n <= *cap) return p;
  p = realloc(p, c * size);
  if (p) *cap = c;
  return p;
}

static size_t elt_bytes(int elt) { return elt == NN_F32 ? 4 : 2; }

/* ---- lowering ---------------------------------------------------------------------------------------------------- */
static int new_val(sp_ctx *ctx, nn_low *low, int net, int layout, int elt) {
  nn_value nv = low->net.values[net];
  nn_val *v = grown(low->vals, &low->cap_vals, (size_t)low->n_vals + 1, sizeof *v);
  if (!v) return nomem(ctx);
  low->vals = v;
  v += low->n_vals;
  *v = (nn_val){.c = nv.c,
                .h = nv.h,
                .w = nv.w,
                .px = nv.h * nv.w,
                .net = net,
                .layout = layout,
                .elt = elt,
                .in_port = -1,
                .out_port = -1,
                .producer = -1,
                .first = -1};
  if (v->layout == NN_PLANAR && (v->px == 1 || v->c == 1)) v->layout = 0;
  return low->n_vals++;
}

static nn_xop *new_op(sp_ctx *ctx, nn_low *low, enum nn_exec x) {
  nn_xop *op = grown(low->ops, &low->cap_ops, (size_t)low->n_ops + 1, sizeof *op);
  if (!op) {
    nomem(ctx);
    return NULL;
  }
  low->ops = op;
  op += low->n_ops++;
  *op = (nn_xop){.x = x, .in = -1, .out = -1, .d.w = -1};
  return op;
}

/* A copy of value v in another order or of other elements. */
static int copy_of(sp_ctx *ctx, nn_low *low, int v, int layout, int elt) {
  int out = new_val(ctx, low, low->vals[v].net, layout, elt);
  nn_xop *op = out < 0 ? NULL : new_op(ctx, low, NN_X_COPY);
  if (!op) return SP_E_NOMEM;
  op->in = v;
  op->out = out;
  op->from = low->vals[v].layout;
  op->to = low->vals[out].layout;
  return out;
}

/* The value of the net that is there in `layout` and with elements `elt`, each of which may be ANY; -1: none is. */
static int found(const nn_low *low, int net, int layout, int elt) {
  for (int i = 0; i < low->n_vals; i++) {
    const nn_val *v = &low->vals[i];
    if (v->net == net && (v->layout == layout || layout == ANY || v->px == 1) && (v->elt == elt || elt == ANY))
      return i;
  }
  return -1;
}

/* It, or a copy that is so. */
static int in_layout(sp_ctx *ctx, nn_low *low, int net, int layout, int elt) {
  int there = found(low, net, layout, elt), any = found(low, net, ANY, ANY);
  if (there >= 0) return there;
  return copy_of(ctx, low, any, layout == ANY ? low->vals[any].layout : layout, elt == ANY ? low->vals[any].elt : elt);
}

/* What x reads. */
static int read_by(sp_ctx *ctx, nn_low *low, enum nn_exec x, int net, int layout, int elt) {
  int cast = execs[x] & NN_ANY_ELEMENTS && found(low, net, layout, elt) < 0;
  return in_layout(ctx, low, net, layout, cast && found(low, net, layout, ANY) >= 0 ? ANY : elt);
}

static int max2(int a, int b) { return a > b ? a : b; }

/* Does op enlarge what it joins? */
static int enlarges(const nn_net *net, const nn_op *op) {
  const nn_value *y = &net->values[op->out];
  for (int j = 0; j <= op->n_more && nn_is(op->kind, NN_ENLARGES); j++) {
    const nn_value *x = &net->values[NN_IN(op, j)];
    if (x->h != y->h || x->w != y->w) return 1;
  }
  return 0;
}

/* The depth of Z order that the readers of each value would like best. */
static void wishes(const nn_net *net, const nn_target *t, int *wish) {
  for (int i = net->n_ops - 1; i >= 0; i--) {
    const nn_op *op = &net->ops[i];
    int d = enlarges(net, op) ? 0 : wish[op->out];
    if (nn_is(op->kind, NN_PRODUCT)) d = nn_product_wish(net, t, op, d);
    else if (!nn_is(op->kind, NN_PIXELWISE)) d = 0;
    for (int j = 0; j <= op->n_more; j++) wish[NN_IN(op, j)] = max2(wish[NN_IN(op, j)], d);
  }
}

/* What lowering needs to know beside the net. */
typedef struct lowering {
  const nn_target *target;
  int *wish;       /* of each value of the net: depth of Z order */
  uint8_t *leaves; /* is an output that nothing else reads */
} lowering;

/* Who runs an op. */
static enum nn_exec runner(const nn_net *net, const nn_target *t, const nn_op *d) {
  return nn_is(d->kind, NN_PRODUCT) ? nn_product_exec(net, t, d) : nn_rows[d->kind]->exec;
}

/* The pixel order in which x reads what lies in `layout`; a patch is read in tiles of its own size. */
static int read_layout(const nn_net *net, const nn_op *d, enum nn_exec x, int layout, const int *wish) {
  int patch = x == NN_X_GEMM && nn_is_patch(net, d);
  if (execs[x] & NN_ROWS_ONLY || enlarges(net, d)) return 0;
  if (patch && d->kind == NN_CONV && layout < 1) return max2(1, wish[d->in]);
  if (patch && d->kind == NN_CONVT && layout >= NN_MAX_DEPTH) return 0;
  if (layout < 0 && !(execs[x] & NN_PLANAR_TOO)) return wish[d->in];
  return layout;
}

static int lower_op(sp_ctx *ctx, nn_low *low, const nn_op *d, const lowering *lo) {
  nn_net *net = &low->net;
  enum nn_exec x = runner(net, lo->target, d);
  int in = in_layout(ctx, low, d->in, ANY, ANY), more[NN_MAX_INS - 1] = {0};
  int elt = lo->target->inner, layout, out;
  nn_xop *op;
  if (in < 0) return in;
  if (nn_is(d->kind, NN_PRODUCT)) nn_order_weight(net, lo->target, d);
  layout = read_layout(net, d, x, low->vals[in].layout, lo->wish);
  if (x != NN_X_NARROW && (in = read_by(ctx, low, x, d->in, layout, elt)) < 0) return in;
  for (int j = 0; j < d->n_more; j++)
    if ((more[j] = read_by(ctx, low, x, d->more[j], layout, elt)) < 0) return more[j];
  if (x == NN_X_GEMM && nn_is_patch(net, d)) layout += d->kind == NN_CONV ? -1 : 1;
  if (x == NN_X_NARROW) layout = lo->wish[d->out];
  if (execs[x] & NN_FLOAT_LEAF && lo->leaves[d->out]) elt = NN_F32;
  op = new_op(ctx, low, x);
  if (!op) return SP_E_NOMEM;
  op->d = *d;
  op->in = in;
  memcpy(op->more, more, sizeof more);
  op->from = low->vals[in].layout;
  op->to = NN_PLANAR;
  out = new_val(ctx, low, d->out, x == NN_X_COPY ? 0 : layout, elt);
  if (out < 0) return out;
  low->ops[low->n_ops - 1].out = out;
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

static int own_memory(const nn_val *v) { return !v->unstored && v->in_port < 0 && (v->out_port < 0 || v->uses); }

size_t nn_stats_bytes(const nn_low *low, const nn_xop *op) {
  int64_t (*pairs)(const nn_op *, int64_t, int64_t) = nn_rows[op->d.kind]->stats;
  return pairs ? (size_t)pairs(&op->d, low->batch, low->vals[op->out].c) * 2 * sizeof(float) : 0;
}

int nn_place(sp_ctx *ctx, nn_low *low) {
  piece *infer = calloc((size_t)low->n_vals * 2 + 1, sizeof *infer), *grad = infer ? infer + low->n_vals : NULL;
  if (!infer) return nomem(ctx);
  low->saved_bytes = 0;
  for (int i = 0; i < low->n_vals; i++) {
    nn_val *v = &low->vals[i];
    size_t bytes = nn_align((size_t)(low->batch * v->c * v->px) * elt_bytes(v->elt));
    int relu = v->producer >= 0 && low->ops[v->producer].d.relu;
    infer[i] = (piece){v->first, v->last, own_memory(v) ? bytes : 0, &v->off_infer};
    grad[i] = (piece){v->first, v->last, v->in_port < 0 && !v->unstored && !v->drows && (v->uses || relu) ? bytes : 0,
                      &v->off_grad};
    v->off_saved = low->saved_bytes;
    if (own_memory(v) && !nn_is_factor(v)) low->saved_bytes += bytes;
  }
  low->infer_bytes = pack(infer, low->n_vals);
  for (int i = 0; i < low->n_vals / 2; i++) { /* backward meets the last value first */
    piece t = grad[i];
    grad[i] = grad[low->n_vals - 1 - i];
    grad[low->n_vals - 1 - i] = t;
  }
  low->grad_bytes = low->training ? pack(grad, low->n_vals) : 0;
  free(infer);
  for (int i = 0; i < low->n_ops; i++) {
    low->ops[i].off_stats = low->saved_bytes;
    low->saved_bytes += nn_align(nn_stats_bytes(low, &low->ops[i]));
  }
  return SP_OK;
}

static void uses(nn_low *low, unsigned no_mask) {
  for (int i = 0; i < low->n_ops; i++) {
    nn_xop *op = &low->ops[i];
    for (int j = 0; j <= op->d.n_more; j++) {
      low->vals[NN_IN(op, j)].uses++;
      low->vals[NN_IN(op, j)].last = i;
    }
    low->vals[op->out].producer = i;
    low->vals[op->out].first = low->vals[op->out].last = i;
  }
  for (int i = 0; i < low->n_ops; i++) {
    const nn_xop *op = &low->ops[i];
    for (int j = 0; j <= op->d.n_more && !(no_mask >> op->x & 1); j++) {
      nn_val *v = &low->vals[NN_IN(op, j)];
      if (v->producer >= 0 && low->ops[v->producer].d.relu && v->uses == 1 && v->out_port < 0) v->masked = 1;
    }
  }
}

static int bind_out(sp_ctx *ctx, nn_low *low, sp_plan *plan, const nn_bind *b) {
  sp_spec *spec = &plan->out[b->port].spec[b->item];
  int v = in_layout(ctx, low, b->value, 0, NN_F32);
  if (v >= 0 && (low->vals[v].in_port >= 0 || low->vals[v].out_port >= 0)) v = copy_of(ctx, low, v, 0, NN_F32);
  if (v < 0) return v;
  low->vals[v].out_port = b->port;
  low->vals[v].out_item = b->item;
  nn_spec(&low->net, b->value, low->batch, spec);
  if (spec->ndim == 4) spec->order = SP_CHANNELS_LAST;
  return SP_OK;
}

static int is_input(const nn_bind *in, int n, int value) {
  for (int i = 0; i < n; i++)
    if (in[i].value == value) return 1;
  return 0;
}

static int lower(sp_ctx *ctx, nn_low *low, const lowering *lo, sp_plan *plan, const nn_bind *in, int n_in,
                 const nn_bind *out, int n_out) {
  int st = SP_OK;
  wishes(&low->net, lo->target, lo->wish);
  for (int i = 0; i < n_out; i++) lo->leaves[out[i].value] = 1;
  for (int i = 0; i < low->net.n_ops; i++) {
    const nn_op *op = &low->net.ops[i];
    for (int j = 0; j <= op->n_more; j++) lo->leaves[NN_IN(op, j)] = 0;
  }
  for (int i = 0; i < n_in && st >= 0; i++) {
    const sp_spec *s = &plan->in[in[i].port].spec[in[i].item];
    int last = s->order == (s->ndim == 4 ? SP_CHANNELS_LAST : 0x01);
    if (s->order != SP_ROW_MAJOR && !last)
      st = ctx->host->fail(ctx, SP_E_UNSUPPORTED,
                           "memory order %#x of the input is neither row-major nor channels-last", (unsigned)s->order);
    else st = new_val(ctx, low, in[i].value, s->ndim == 4 && s->order == SP_ROW_MAJOR ? NN_PLANAR : 0, NN_F32);
    if (st < 0) break;
    low->vals[st].in_port = in[i].port;
    low->vals[st].in_item = in[i].item;
  }
  for (int i = 0; i < n_out && st >= 0; i++)
    if (is_input(in, n_in, out[i].value)) st = bind_out(ctx, low, plan, &out[i]);
  for (int i = 0; i < low->net.n_ops && st >= 0; i++) {
    st = lower_op(ctx, low, &low->net.ops[i], lo);
    for (int j = 0; j < n_out && st >= 0; j++) /* at once, so that a copy does not keep the value alive */
      if (out[j].value == low->net.ops[i].out) st = bind_out(ctx, low, plan, &out[j]);
  }
  return st < 0 ? st : SP_OK;
}

static int check_sizes(sp_ctx *ctx, const nn_low *low) {
  int64_t total = 0;
  for (int i = 0; i < low->n_vals; i++) {
    const nn_val *v = &low->vals[i];
    if (low->batch < 1 || v->c * v->px > MAX_BYTES / 4 / low->batch ||
        (total += v->c * v->px * 4 * low->batch) > MAX_BYTES)
      return ctx->host->fail(ctx, SP_E_SHAPE, "a batch of %lld x %lld x %lld x %lld needs more than 1 TiB of memory",
                             (long long)low->batch, (long long)v->c, (long long)v->h, (long long)v->w);
  }
  return SP_OK;
}

int nn_lower(sp_ctx *ctx, nn_low *low, const nn_target *target, sp_plan *plan, nn_net *net, const nn_bind *in, int n_in,
             const nn_bind *out, int n_out) {
  lowering lo = {.target = target};
  uint8_t *keep;
  int st;
  nn_low_clear(low);
  low->net = *net;
  memset(net, 0, sizeof *net);
  keep = calloc((size_t)low->net.n_values + 1, 1);
  if (!keep) return nomem(ctx);
  for (int i = 0; i < n_out; i++) keep[out[i].value] = 1;
  nn_fuse(&low->net, keep);
  nn_fold(&low->net, target, keep, plan->frozen);
  free(keep);
  low->batch = n_in ? plan->in[in[0].port].spec[in[0].item].shape[0] : plan->batch;
  low->training = plan->training != 0;
  low->frozen = plan->frozen;
  for (int i = 0; i < n_in; i++) {
    int64_t n = plan->in[in[i].port].spec[in[i].item].shape[0];
    if (n != low->batch)
      return ctx->host->fail(ctx, SP_E_SHAPE, "the inputs have %lld and %lld samples", (long long)low->batch,
                             (long long)n);
  }
  lo.wish = calloc((size_t)low->net.n_values + 1, sizeof *lo.wish);
  lo.leaves = calloc((size_t)low->net.n_values + 1, 1);
  st = lo.wish && lo.leaves ? lower(ctx, low, &lo, plan, in, n_in, out, n_out) : nomem(ctx);
  free(lo.wish);
  free(lo.leaves);
  if (st || (st = check_sizes(ctx, low))) return st;
  uses(low, target->no_mask);
  for (int i = 0; i < low->n_ops && !low->frozen; i++) low->draws |= nn_is(low->ops[i].d.kind, NN_DRAWS);
  plan->stepless = !low->draws;
  plan->repeats = 1; /* batch norms have the statistics of the batch, or keep theirs */
  for (int i = 0; i < low->n_ops && low->training && !low->frozen; i++)
    if (low->ops[i].x == NN_X_NORM && !low->ops[i].d.keeps && low->vals[low->ops[i].out].px == 1) {
      static const sp_attr least = {.name = "least_batch", .value = 2}; /* one value a channel has no variance */
      plan->attrs = &least;
      plan->n_attrs = 1;
    }
  plan->weights = low->net.weights;
  plan->n_weights = (uint32_t)low->net.n_weights;
  return SP_OK;
}

/* ---- parts of a backward ----------------------------------------------------------------------------------------- */
int nn_has_weight(const nn_op *op, int w) { return op->w >= 0 && (w == 0 || op->bias || nn_is(op->kind, NN_AFFINE)); }

const nn_xop *nn_with(const nn_low *low, const nn_xop *op) {
  const nn_val *in = &low->vals[op->in];
  return in->unstored ? &low->ops[in->producer] : NULL;
}

size_t nn_constant(nn_low *low, size_t bytes) {
  size_t at = low->const_bytes;
  low->const_bytes += nn_align(bytes);
  return at;
}

size_t nn_weight_bytes(const nn_low *low, int weight) {
  const sp_spec *s = &low->net.weights[weight].spec;
  size_t bytes = sizeof(float);
  for (int i = 0; i < s->ndim; i++) bytes *= (size_t)s->shape[i];
  return bytes;
}

static uint64_t gradient_bytes(const nn_low *low, const nn_xop *op) {
  uint64_t bytes = 0;
  for (int j = 0; op && j < 2; j++)
    if (nn_has_weight(&op->d, j)) bytes += nn_weight_bytes(low, op->d.w + j);
  return bytes;
}

static void put_part(nn_low *low, const nn_xop *op, int part) {
  low->ops[op - low->ops].part = part;
  for (int j = 0; j < 2; j++)
    if (nn_has_weight(&op->d, j)) low->net.weights[op->d.w + j].part = (uint32_t)part;
}

/* Parts of at most so many bytes, or of one op that has more; returns how many. */
static int cut(nn_low *low, uint64_t most) {
  uint64_t bytes = 0;
  int part = 0;
  for (int i = low->n_ops - 1; i >= 0; i--) {
    const nn_xop *op = &low->ops[i], *with = nn_with(low, op);
    uint64_t own = gradient_bytes(low, op) + gradient_bytes(low, with);
    if (low->vals[op->out].unstored) continue;
    if (own && bytes && bytes + own > most) bytes = 0, part++;
    bytes += own;
    put_part(low, op, part);
    if (with) put_part(low, with, part);
  }
  return part + 1;
}

/* The gradient of what op computes is there when the last op that reads it is through, which may be a part before op's
 * own: rows that other processes wait for go then. */
static int arrives_in(const nn_low *low, const nn_xop *op) {
  int part = -1;
  for (int i = 0; i < low->n_ops && nn_has_factors(low, op); i++)
    for (int j = 0; j <= low->ops[i].d.n_more; j++)
      if (NN_IN(&low->ops[i], j) == op->out && low->ops[i].part > part) part = low->ops[i].part;
  return part < 0 ? op->part : part;
}

void nn_cut(nn_low *low, sp_plan *plan) {
  uint64_t least = plan->part_bytes, most = 0;
  int max = low->training && !low->frozen ? (int)plan->max_parts : 1;
  for (int i = 0; i < low->n_ops; i++) most += gradient_bytes(low, &low->ops[i]);
  while (least < most) {
    uint64_t middle = least + (most - least) / 2;
    if (cut(low, middle) > max) least = middle + 1;
    else most = middle;
  }
  low->n_parts = cut(low, least);
  for (int i = 0; i < low->n_ops; i++) low->ops[i].arrives = arrives_in(low, &low->ops[i]);
  plan->n_parts = (uint32_t)low->n_parts;
}

void nn_low_clear(nn_low *low) {
  for (int i = 0; i < low->n_vals; i++) free(low->vals[i].yo);
  free(low->vals);
  free(low->ops);
  free(low->factors);
  nn_clear(&low->net);
  memset(low, 0, sizeof *low);
}
