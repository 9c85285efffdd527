/* SPDX-License-Identifier: MIT
 * gemm_choose.c - how a product is computed: prepare() measures what cuBLASLt offers, and kernels of our own
 * where they take its shapes; the choice is kept as text, so later runs compute the same.
 */
#include "gemm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void key_of(const nn_product *p, const nn_cuda *cuda, char *key) {
  static const char *const kinds[] = {"forward", "data", "weights", "in place cold", "applied cold"};
  static const char *const precisions[] = {"fp32", "tf32", "bf16"};
  char mask[24] = "", map[32] = "";
  if (p->masks) snprintf(mask, sizeof mask, "+mask%d", p->masks);
  if (p->h) snprintf(map, sizeof map, " wide %dx%d", p->h, p->w);
  snprintf(key, SP_CUDA_KEY_MAX, "product %s m%lld n%lld k%lld %s%s%s%s%s%s %s to %s%s ws%zu", kinds[p->kind],
           (long long)p->m, (long long)p->n, (long long)p->k, p->biased ? "bias" : "-", p->sums ? "+map" : "",
           p->relu ? "+relu" : "", mask, p->rows ? "+rows" : "", p->columns ? "+columns" : "",
           precisions[cuda->precision], p->d_elt == NN_F32 ? "f32" : "bf16", map, cuda->ext->workspace_bytes);
}

static const struct {
  int how, tall;
  const char *text;
} own[] = {{SKINNY, 0, "skinny"},
           {OUTER, 0, "outer"},
           {MASKED, NNK_MASKED_LESS, "masked 64"},
           {MASKED, NNK_MASKED_MORE, "masked 128"},
           {WIDE, 0, "own"}};
enum { OWN = sizeof own / sizeof *own };

static int is_own(const nnc_gemm *a, nn_product *p, int i) {
  p->how = own[i].how;
  p->tall = own[i].tall;
  return nnc_gemm_may(a, p, p->how);
}

static int run(void *arg) { return nnc_gemm_whole(arg); }

/* 0: it is none of this library's. */
static int take(void *arg, const char *text) {
  const nnc_gemm *a = arg;
  nn_product *p = a->choosing;
  cublasLtMatmulHeuristicResult_t r;
  for (int i = 0; i < OWN; i++)
    if (!strcmp(text, own[i].text)) return is_own(a, p, i);
  if (strlen(text) < 2 || (text[0] != 'f' && text[0] != 'p') || text[1] != ' ' ||
      nnc_unhex(p->algo.data, text + 2, sizeof p->algo.data))
    return 0;
  p->how = text[0] == 'f' ? FUSED : PLAIN;
  if (nnc_gemm_describe(p, a->c->cuda->precision, p->how == FUSED, a->lt_bias)) return 0;
  return !cublasLtMatmulAlgoCheck(a->c->lt, &p->desc, p->a, p->b, p->d, p->d, &p->algo, &r) &&
         r.workspaceSize <= a->c->cuda->ext->workspace_bytes;
}

int nnc_lt_offers(const nnc_call *c, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                  cublasLtMatrixLayout_t d, cublasLtMatmulHeuristicResult_t *list) {
  cublasLtMatmulPreference_t pref;
  size_t workspace = c->cuda->ext->workspace_bytes;
  /* in place: partial sums meet in the order in which blocks finish */
  uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE, align = 16;
  int n = 0, bad;
  if (cublasLtMatmulPreferenceCreate(&pref)) return 0;
#define PREFER(what, value) \
  cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_##what, &value, sizeof value)
  bad = PREFER(MAX_WORKSPACE_BYTES, workspace) || PREFER(REDUCTION_SCHEME_MASK, schemes) ||
        PREFER(MIN_ALIGNMENT_A_BYTES, align) || PREFER(MIN_ALIGNMENT_B_BYTES, align) ||
        PREFER(MIN_ALIGNMENT_C_BYTES, align) || PREFER(MIN_ALIGNMENT_D_BYTES, align) ||
        cublasLtMatmulAlgoGetHeuristic(c->lt, desc, a, b, d, d, pref, NNC_OFFERS, list, &n);
#undef PREFER
  cublasLtMatmulPreferenceDestroy(pref);
  return bad ? 0 : n;
}

static int offered(const nnc_gemm *a, nn_product *p, int fused, cublasLtMatmulHeuristicResult_t *list) {
  if (nnc_gemm_describe(p, a->c->cuda->precision, fused, a->lt_bias)) return 0;
  return nnc_lt_offers(a->c, &p->desc, p->a, p->b, p->d, list);
}

/* In milliseconds; below 0: it cannot. In place: the weights come from memory, since a step reads them once. */
static double time_of(nnc_gemm *a, const char *key, const char *text) {
  sp_ctx *ctx = a->c->w.ctx;
  double ms = nnc_gemm_is_scaled(a->p->kind) ? nnc_measure_cold(a->c, run, a) : nnc_measure(a->c, run, a);
  ctx->host->log(ctx, SP_LOG_DEBUG, "%s: %.2f us, %.24s", key, ms * 1e3, text);
  return ms;
}

/* A product over the rows of factors runs beside calls of the communicator, if there are several ranks, which cannot begin
 * before cuBLASLt's kernels end: these fill the multiprocessors for as long as they take, so that a step takes longer with one
 * that is faster by itself. Not of one rank, but the choice is not to hang on how many there are, since bits hang on it. */
#define AHEAD 0.85

/* A kernel of our own in a frozen network lets the next one begin before it has ended; behind cuBLASLt's that one waits.
 * What that is worth, in milliseconds, does not show where one is measured (docs/measurements.md, frozen backbones). */
#define EARLY 0.0008

static int measure(void *arg, const char *key, char *text, size_t bytes) {
  nnc_gemm *a = arg;
  nn_product *p = a->choosing;
  cublasLtMatmulHeuristicResult_t list[NNC_OFFERS];
  char way[SP_CUDA_VALUE_MAX];
  double best = -1;
  int fused = p->biased || p->relu, n = offered(a, p, fused, list);
  if (!n && fused) n = offered(a, p, fused = 0, list);
  for (int i = 0; i < n + OWN; i++) {
    double ms;
    if (i < n) {
      if (list[i].state != CUBLAS_STATUS_SUCCESS || list[i].workspaceSize > a->c->cuda->ext->workspace_bytes) continue;
      p->algo = list[i].algo;
      p->how = fused ? FUSED : PLAIN;
      way[0] = fused ? 'f' : 'p';
      way[1] = ' ';
      nnc_hex(way + 2, p->algo.data, sizeof p->algo.data);
    } else {
      if (!is_own(a, p, i - n)) continue;
      snprintf(way, sizeof way, "%s", own[i - n].text);
    }
    ms = time_of(a, key, way);
    if (p->rows && p->how == OUTER) ms *= AHEAD;
    if (ms > EARLY && p->how == WIDE) ms -= EARLY;
    if (ms < 0 || (best >= 0 && ms >= best)) continue;
    best = ms;
    snprintf(text, bytes, "%s", way);
  }
  if (best < 0) return nnc_no_choice(a->c, "cuBLASLt has no algorithm for", key);
  a->c->w.ctx->host->log(a->c->w.ctx, SP_LOG_DEBUG, "%s: chosen %.24s", key, text);
  return SP_OK;
}

/* Of dx, a map of value `in`: its sign and the sums of its columns, behind what the product itself needs. */
static int prepare_mask(const nnc_call *c, const nn_xop *op, nnc_gemm *a, nn_product *p, char *place) {
  const nn_low *low = &c->cuda->low;
  const nn_val *in = &low->vals[op->in];
  if (!in->masked) return SP_OK;
  p->masks = (int)in->c;
  p->columns = !low->frozen && nnc_sums_bias(&low->ops[in->producer]);
  a->dx = a->sign = nnc_map(in, c->w.n);
  a->dx.p = a->d;
  a->sign.p = place;
  if (p->columns) a->pieces = place + nn_align(nnc_map_bytes(in, c->w.n));
  return nnc_check(c, op, nnc_gemm_may(a, p, MASKED) ? nnk_masked_prepare() : 0);
}

/* The product is measured on garbage behind the fixed part of scratch, the weights' gradient too; that of factors on them. */
static int prepare(nnc_call *c, const nn_xop *op, int kind) {
  const nn_cuda *cuda = c->cuda;
  const nn_low *low = &cuda->low;
  const nn_val *in = &low->vals[op->in], *out = &low->vals[op->out];
  nn_cop *cop = &cuda->cops[nnc_index(c, op)];
  nn_product *p;
  char *x = c->w.tmp, *y = x + nn_align(nnc_map_bytes(in, c->w.n)), *g = y + nn_align(nnc_map_bytes(out, c->w.n)),
       *work = g;
  char key[SP_CUDA_KEY_MAX];
  int all = nnc_gemm_is_scaled(kind) && nn_has_factors(low, op), st = SP_OK;
  int64_t pieces;
  nnc_call at = *c;
  nnc_gemm a = {.c = &at,
                .master = nnc_product_weight(c, op),
                .scale = nnc_gemm_is_scaled(kind) ? &cuda->numbers[1] : NULL,
                .add = kind == UPDATE,
                .n_pieces = &pieces};
  if (all) {
    if (!c->w.io->factors) return SP_OK; /* an evaluation */
    at.w.n = low->batch * low->shards;
    x = nn_factor(&c->w, in->rows);
    y = nn_factor(&c->w, out->drows);
    a.dy = nnc_map(out, at.w.n);
    a.dy.p = y;
  }
  for (p = cop->products; p; p = p->next)
    if (p->kind == kind && p->samples == at.w.n) return SP_OK;
  p = calloc(1, sizeof *p);
  if (!p) return nnc_fail(c, op, SP_E_NOMEM, "out of memory for a product");
  p->kind = kind;
  p->samples = at.w.n;
  p->elt = in->elt;
  p->d_elt = kind == FORWARD ? out->elt : kind == DATA ? in->elt : NN_F32;
  nn_extents(low, op, at.w.n, &p->m, &p->n, &p->k);
  if (kind == FORWARD) {
    p->relu = op->d.relu;
    p->biased = nnc_has_bias(op);
    p->sums = op->d.n_more;
    a.bias = nnc_gemm_bias(c, op);
    a.lt_bias = nnc_gemm_lt_bias(c, op);
    a.y = nnc_map(out, c->w.n);
    a.y.p = y;
    if (p->sums) a.plus = a.y;
    a.b = x;
    a.wide = nnc_gemm_wide(c, op);
    if (nnc_gemm_may(&a, p, WIDE)) p->h = (int)out->h, p->w = (int)out->w;
  }
  if (low->training) work = g + nn_align((size_t)(p->n * p->k) * sizeof(float));
  at.w.tmp = work;
  p->rows = all;
  if (all && op->d.bias) {
    p->columns = 1;
    a.db = (nnk_sum){(float *)(work + nn_align(op->tmp)), a.scale, a.add};
    a.pieces = (char *)a.db.p + nn_align((size_t)a.dy.c * sizeof(float));
  }
  a.p = a.choosing = p;
  a.a = kind >= WEIGHT ? x : nnc_gemm_weight(c, op);
  a.b = kind == FORWARD ? x : y;
  a.d = kind == FORWARD ? y : kind == DATA ? x : g;
  if (kind == DATA) st = prepare_mask(c, op, &a, p, work + nn_align(op->tmp));
  key_of(p, cuda, key);
  if (!st) st = nnc_tuned(c, key, take, measure, &a);
  if (st) {
    nnc_gemm_free(p);
    return st;
  }
  p->next = cop->products;
  cop->products = p;
  return SP_OK;
}

const nn_product *nnc_gemm_find(const nnc_call *c, const nn_xop *op, int kind) {
  for (const nn_product *p = nnc_cop(c, op)->products; p; p = p->next)
    if (p->kind == kind && p->samples == c->w.n) return p;
  return NULL;
}

/* ---- the backward in one pass, or product by product ------------------------------------------------------------- */
static int run_separate(void *arg) {
  const nnc_whole *b = arg;
  void *stream = b->data.c->stream;
  int64_t pieces;
  nnk_sum g = {b->work, NULL, 0};
  int err = nnc_gemm_whole(&b->data);
  if (!err && b->biased) err = nnk_bias_pieces(stream, &b->dy, b->work, &pieces);
  if (!err && b->biased) err = nnk_add_pieces(stream, 1, &(nnk_pieces){g, b->work, b->dy.c, b->dy.c, pieces});
  return err ? err : nnc_gemm_lt(&b->update);
}

static int run_whole(void *arg) {
  const nnc_whole *b = arg;
  nnk_pieces sums[2] = {{{b->update.d, b->update.scale, 1}, NULL, 0, 0, 0}, {{b->work, NULL, 0}, NULL, 0, 0, 0}}, data;
  int err = nnc_gemm_patch(b, (float *)b->work + b->dy.c, &sums[0], &sums[1], &data);
  return err ? err : nnk_add_pieces(b->data.c->stream, 1 + b->biased, sums);
}

static int take_whole(void *arg, const char *text) {
  nnc_whole *b = arg;
  b->patch = strcmp(text, "patch") == 0;
  return b->patch || strcmp(text, "separate") == 0;
}

static int measure_whole(void *arg, const char *key, char *text, size_t bytes) {
  nnc_whole *b = arg;
  const nnc_call *c = b->data.c;
  double separate = nnc_measure(c, run_separate, b), patch = nnc_measure(c, run_whole, b);
  if (patch < 0) return nnc_no_choice(c, "there is no backward in one pass for", key);
  snprintf(text, bytes, separate < 0 || patch < separate ? "patch" : "separate");
  c->w.ctx->host->log(c->w.ctx, SP_LOG_DEBUG, "%s: %.2f us patch, %.2f us separate", key, patch * 1e3, separate * 1e3);
  return SP_OK;
}

/* On garbage, after the products; as prepare(). */
static int prepare_whole(nnc_call *c, const nn_xop *op) {
  const nn_cuda *cuda = c->cuda;
  const nn_val *in = &cuda->low.vals[op->in], *out = &cuda->low.vals[op->out];
  nn_cop *cop = &cuda->cops[nnc_index(c, op)];
  const nn_product *data = nnc_gemm_find(c, op, DATA), *update = nnc_gemm_find(c, op, UPDATE);
  nn_product *p;
  nnc_whole b = {.x = nnc_map(in, c->w.n), .dx = nnc_map(in, c->w.n), .dy = nnc_map(out, c->w.n)};
  char key[SP_CUDA_KEY_MAX], *g;
  int64_t pieces;
  int st;
  if (nnc_gemm_find(c, op, BACKWARD) || !nnc_gemm_may_patch(cuda, op) ||
      !nnk_patch(data->m, data->n, data->k, data->elt, nnc_rounds(cuda) == SP_PRECISION_TF32,
                 cuda->device.shared_bytes))
    return SP_OK;
  b.relu = in->masked;
  b.biased = op->d.bias;
  b.x.p = c->w.tmp;
  b.dy.p = c->w.tmp + nn_align(nnc_map_bytes(in, c->w.n));
  g = (char *)b.dy.p + nn_align(nnc_map_bytes(out, c->w.n));
  b.dx.p = g + nn_align((size_t)(data->n * data->k) * sizeof(float));
  b.work = (char *)b.dx.p + nn_align(nnc_map_bytes(in, c->w.n));
  b.data = (nnc_gemm){.c = c, .p = data, .a = nnc_weight(c, op->d.w), .b = b.dy.p, .d = b.dx.p};
  b.data.master = b.data.a;
  b.data.dx = b.dx;
  b.data.n_pieces = &pieces;
  if (b.relu) b.data.sign = b.x;
  if (data->columns) /* see nnc_gemm_size() */
    b.data.pieces = (char *)b.work + nn_align(nnk_patch_work(data->m, data->n, data->k, cuda->device.multiprocessors)) +
                    nn_align(nnk_bias_grad_work(&b.dy));
  b.update = (nnc_gemm){.c = c, .p = update, .a = b.x.p, .b = b.dy.p, .d = g, .scale = &cuda->numbers[1], .add = 1};
  st = nnc_check(c, op, nnk_patch_prepare(data->n, data->k));
  if (st) return st;
  snprintf(key, sizeof key, "whole backward m%lld n%lld k%lld %s %s tf32", (long long)data->m, (long long)data->n,
           (long long)data->k, b.biased ? "bias" : "-", b.relu ? "mask" : "-");
  st = nnc_tuned(c, key, take_whole, measure_whole, &b);
  if (st) return st;
  p = calloc(1, sizeof *p);
  if (!p) return nnc_fail(c, op, SP_E_NOMEM, "out of memory for a product");
  p->kind = BACKWARD;
  p->how = b.patch ? PATCH : PLAIN;
  p->samples = c->w.n;
  p->next = cop->products;
  cop->products = p;
  return SP_OK;
}

int nnc_gemm_handles(nnc_call *c) {
  int st = c->lt ? SP_OK : c->cuda->ext->cublaslt(c->w.ctx, &c->lt);
  return st ? st : nnc_workspace(c);
}

int nnc_gemm_prepare(nnc_call *c, const nn_xop *op) {
  const nn_low *low = &c->cuda->low;
  int st = nnc_gemm_handles(c), trained = low->training && !low->frozen, factors = nn_has_factors(low, op);
  int at_once = trained && !factors;
  if (!st) st = prepare(c, op, FORWARD);
  if (!st && low->training) st = prepare(c, op, DATA);
  if (!st && at_once) st = prepare(c, op, WEIGHT);
  if (!st && trained) st = prepare(c, op, UPDATE);
  if (!st && trained && factors) st = prepare(c, op, APPLY);
  if (!st && at_once) st = prepare_whole(c, op);
  return st;
}
