/* SPDX-License-Identifier: MIT
 * cuda_gemm.c - linear, 1x1 and patch convolutions and their transposes as matrix products.
 *
 * y[m][n] = x[m][k] w[n][k]: rows are pixels, w lies as [n][k]. cuBLASLt counts columns first, so that what is
 * row-major here is a transposed matrix there: y^T = w x^T, dx^T = w^T dy^T, dw^T = x^T dy. prepare() measures what
 * cuBLASLt offers, and for few rows kernels of our own; the choice is kept as text, so later runs compute the same. */
#include "cuda_lt.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* UPDATE: w += *scale * dw; APPLY: the same to the gradient's own memory, which it overwrites; BACKWARD: all of it */
enum kind { FORWARD, DATA, WEIGHT, UPDATE, APPLY, BACKWARD };
/* FUSED: with bias and ReLU. BACKWARD: PATCH or PLAIN. OUTER: cuda_outer.cu, which sums the columns of dy too */
enum how { FUSED, PLAIN, SKINNY, PATCH, OUTER };

struct nn_product {
  nn_product *next;
  int kind, how, relu, biased, sums; /* sums: FORWARD adds a map to its result */
  int rows;                          /* it is over the rows of factors */
  int columns;                       /* the sums of dy's columns, the bias' gradient, are wanted with it */
  int elt, d_elt;                    /* of both factors (but w in SKINNY), and of the result */
  int64_t samples, m, n, k;
  cublasLtMatmulDescOpaque_t desc;
  cublasLtMatrixLayout_t a, b, d;
  cublasLtMatmulAlgo_t algo;
  const void *bias; /* that desc names: prepare()'s, a call with another one has a descriptor of its own */
};

/* One product, about to be enqueued. */
typedef struct args {
  nnc_call *c;
  const nn_product *p;
  nn_product *choosing; /* the same, while it is prepared */
  const void *a, *b;    /* FORWARD: w, x. DATA: w, dy. WEIGHT, UPDATE: x, dy */
  void *d;
  const float *master; /* w as float32 */
  const float *bias;
  const void *lt_bias; /* the same in the type of the result, as cuBLASLt takes it */
  nnk_map y, plus;     /* FORWARD; plus.p NULL: nothing is added */
  const void *mask;
  const float *scale;
  int add;
  nnk_sum db; /* from dy; p NULL: not wanted */
  nnk_map dy;
  void *pieces; /* for these sums, where the product does not make them on its way */
} args;

static cudaDataType_t type_of(int elt) { return elt == NN_F32 ? CUDA_R_32F : CUDA_R_16BF; }

int nnc_gemm_repeats(const nn_xop *op) {
  return op->x == NN_X_GEMM && op->d.kind == NN_OP_CONVT && nnc_has_bias(op) && op->d.k[0] * op->d.k[1] > 1;
}

int nnc_gemm_narrows(const nn_low *low, const nn_xop *op) {
  return op->x == NN_X_GEMM && low->vals[op->out].elt != NN_F32 && nnc_has_bias(op);
}

/* Whether one pass may compute the whole backward, where shapes and device allow it. */
static int may_patch(const nn_cuda *cuda, const nn_xop *op) {
  return cuda->low.training && !cuda->low.frozen && cuda->precision == SP_PRECISION_TF32 &&
         cuda->low.vals[op->in].elt == NN_F32 && !nn_has_factors(&cuda->low, op);
}

void nnc_gemm_size(nn_cuda *cuda, nn_xop *op, size_t *arena) {
  nn_low *low = &cuda->low;
  nn_cop *cop = &cuda->cops[op - low->ops];
  const nn_val *in = &low->vals[op->in], *out = &low->vals[op->out];
  size_t patch = 0;
  int64_t m, n, k;
  nn_extents(low, op, low->batch, &m, &n, &k);
  cop->off_cast = nnc_fixed(cuda, cuda->precision == SP_PRECISION_BF16 ? (size_t)(n * k) * 2 : 0);
  cop->off_bias = nnc_fixed(cuda, nnc_gemm_repeats(op) ? (size_t)n * sizeof(float) : 0);
  cop->off_narrow = nnc_fixed(cuda, nnc_gemm_narrows(low, op) ? (size_t)n * 2 : 0);
  for (int64_t s = 1; s <= low->batch; s++) {
    nn_extents(low, op, s, &m, &n, &k);
    if (m <= NNK_SKINNY && nnk_skinny_work(m, n, k) > op->tmp) op->tmp = nnk_skinny_work(m, n, k);
    if (may_patch(cuda, op) && nnk_patch_work(m, n, k) > patch) patch = nnk_patch_work(m, n, k);
  }
  cop->off_patch = cuda->pieces_bytes;
  cuda->pieces_bytes += nn_align(patch);
  *arena = nn_align(nnc_map_bytes(in, low->batch)) + nn_align(nnc_map_bytes(out, low->batch)) + nn_align(op->tmp);
  if (low->training) *arena += nn_align((size_t)(n * k) * sizeof(float));
  if (nn_has_factors(low, op)) {
    nnk_map dy = nnc_map(out, low->batch * low->shards);
    *arena += nn_align((size_t)dy.c * sizeof(float)) + nn_align(nnk_bias_grad_work(&dy));
  }
  if (patch) {
    nnk_map dy = nnc_map(out, low->batch);
    *arena += nn_align(nnc_map_bytes(in, low->batch)) + patch + nnk_bias_grad_work(&dy);
  }
}

/* ---- descriptors ------------------------------------------------------------------------------------------------- */
static void close_product(nn_product *p) {
  if (p->a) cublasLtMatrixLayoutDestroy(p->a);
  if (p->b) cublasLtMatrixLayoutDestroy(p->b);
  if (p->d) cublasLtMatrixLayoutDestroy(p->d);
  p->a = p->b = p->d = NULL;
  p->bias = NULL;
}

void nnc_gemm_free(nn_product *p) {
  while (p) {
    nn_product *next = p->next;
    close_product(p);
    free(p);
    p = next;
  }
}

static int set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t what, const void *value, size_t bytes) {
  return cublasLtMatmulDescSetAttribute(desc, what, value, bytes) != CUBLAS_STATUS_SUCCESS;
}

/* By numbers on the device. */
static int is_scaled(int kind) { return kind == UPDATE || kind == APPLY; }

/* What the product is, over maps and weights. Not 0: cuBLASLt refuses. */
static int describe_product(cublasLtMatmulDesc_t desc, const nn_product *p, int precision, int fused,
                            const void *bias) {
  cublasComputeType_t compute = precision == SP_PRECISION_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  int32_t ta = p->kind == FORWARD ? CUBLAS_OP_T : CUBLAS_OP_N, tb = p->kind >= WEIGHT ? CUBLAS_OP_T : CUBLAS_OP_N;
  int32_t mode = is_scaled(p->kind) ? CUBLASLT_POINTER_MODE_DEVICE : CUBLASLT_POINTER_MODE_HOST;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  int bad;
  if (fused && p->biased) epilogue = p->relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
  else if (fused && p->relu) epilogue = CUBLASLT_EPILOGUE_RELU;
  bad = cublasLtMatmulDescInit(desc, compute, CUDA_R_32F) || set(desc, CUBLASLT_MATMUL_DESC_TRANSA, &ta, sizeof ta) ||
        set(desc, CUBLASLT_MATMUL_DESC_TRANSB, &tb, sizeof tb) ||
        set(desc, CUBLASLT_MATMUL_DESC_POINTER_MODE, &mode, sizeof mode) ||
        set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
  return bad || (fused && p->biased && set(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
}

static int describe(nn_product *p, int precision, int fused, const void *bias) {
  cudaDataType_t t = type_of(p->elt);
  uint64_t m = (uint64_t)p->m, n = (uint64_t)p->n, k = (uint64_t)p->k;
  close_product(p);
  p->bias = bias;
  if (describe_product(&p->desc, p, precision, fused, bias)) return 1;
  switch (p->kind) {
    case FORWARD:
      return cublasLtMatrixLayoutCreate(&p->a, t, k, n, p->k) || cublasLtMatrixLayoutCreate(&p->b, t, k, m, p->k) ||
             cublasLtMatrixLayoutCreate(&p->d, type_of(p->d_elt), n, m, p->n);
    case DATA:
      return cublasLtMatrixLayoutCreate(&p->a, t, k, n, p->k) || cublasLtMatrixLayoutCreate(&p->b, t, n, m, p->n) ||
             cublasLtMatrixLayoutCreate(&p->d, type_of(p->d_elt), k, m, p->k);
    default:
      return cublasLtMatrixLayoutCreate(&p->a, t, k, m, p->k) || cublasLtMatrixLayoutCreate(&p->b, t, n, m, p->n) ||
             cublasLtMatrixLayoutCreate(&p->d, CUDA_R_32F, k, n, p->k);
  }
}

/* ---- running ----------------------------------------------------------------------------------------------------- */
/* Returns a cudaError_t or a cublasStatus_t; not 0: failed. */
static int run_lt(const args *a) {
  const nn_product *p = a->p;
  const nnc_call *c = a->c;
  float host_alpha = 1, host_beta = a->add || a->plus.p ? 1 : 0;
  const void *from = a->plus.p ? a->plus.p : a->d;
  const void *alpha = &host_alpha, *beta = &host_beta;
  cublasLtMatmulDescOpaque_t own, *desc = (cublasLtMatmulDescOpaque_t *)(uintptr_t)&p->desc; /* only read */
  if (is_scaled(p->kind)) {
    alpha = a->scale;
    beta = &c->cuda->numbers[a->add];
  }
  if (p->how == FUSED && p->biased && p->bias != a->lt_bias) { /* repeated, in the scratch of this lane */
    desc = &own;
    if (describe_product(desc, p, c->cuda->precision, 1, a->lt_bias)) return CUBLAS_STATUS_INTERNAL_ERROR;
  }
  return (int)cublasLtMatmul(c->lt, desc, alpha, a->a, p->a, a->b, p->b, beta, from, p->d, a->d, p->d, &p->algo,
                             c->workspace, c->cuda->ext->workspace_bytes, c->stream);
}

static int run_skinny(const args *a) {
  const nn_product *p = a->p;
  nnk_sum sum = {a->d, a->scale, a->add};
  int err;
  switch (p->kind) {
    case FORWARD:
      err = nnk_skinny_forward(a->c->stream, p->elt, a->d, a->b, NNK_F32, a->master, a->bias, p->relu && !a->plus.p,
                               p->m, p->n, p->k, a->c->w.tmp);
      return err || !a->plus.p ? err : nnk_add(a->c->stream, &a->y, &a->y, &a->plus, p->relu);
    case DATA:
      return nnk_skinny_data(a->c->stream, p->elt, a->d, a->b, NNK_F32, a->master, a->mask, a->add, p->m, p->n, p->k,
                             a->c->w.tmp);
    default: return nnk_skinny_weight(a->c->stream, p->elt, sum, a->b, a->a, p->m, p->n, p->k);
  }
}

static int run_outer(const args *a, int product) {
  const nn_product *p = a->p;
  nnk_outer of = {.dy = a->b, .x = a->a, .m = p->m, .n = p->n, .k = p->k, .db = a->db, .cols = a->dy.c};
  if (product) of.dw = (nnk_sum){a->d, a->scale, a->add};
  return nnk_outer_weight(a->c->stream, &of);
}

static int run_own(const args *a) { return a->p->how == SKINNY ? run_skinny(a) : run_outer(a, 1); }

static int is_own(const nn_product *p) { return p->how == SKINNY || p->how == OUTER; }

/* In small blocks where they can be: large ones wait until others leave half a multiprocessor. */
static int run_columns(const args *a) {
  if (!a->db.p || a->p->how == OUTER) return cudaSuccess;
  if (a->p->elt == NN_F32) return run_outer(a, 0);
  return nnk_bias_grad(a->c->stream, a->db, &a->dy, a->pieces);
}

static int run_either(void *arg) {
  const args *a = arg;
  int err = run_columns(a);
  return err ? err : is_own(a->p) ? run_own(a) : run_lt(a);
}

static int may(const args *a, const nn_product *p, int how) {
  if (how == SKINNY) return p->m <= NNK_SKINNY;
  return p->kind >= WEIGHT && nnk_outer_takes(p->m, p->n, p->k, p->elt, a->c->cuda->precision == SP_PRECISION_TF32);
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */
static void key_of(const nn_product *p, const nn_cuda *cuda, char *key) {
  static const char *const kinds[] = {"forward", "data", "weights", "in place cold", "applied cold"};
  static const char *const precisions[] = {"fp32", "tf32", "bf16"};
  snprintf(key, SP_CUDA_KEY_MAX, "product %s m%lld n%lld k%lld %s%s%s%s%s %s to %s ws%zu", kinds[p->kind],
           (long long)p->m, (long long)p->n, (long long)p->k, p->biased ? "bias" : "-", p->sums ? "+map" : "",
           p->relu ? "+relu" : "", p->rows ? "+rows" : "", p->columns ? "+columns" : "", precisions[cuda->precision],
           p->d_elt == NN_F32 ? "f32" : "bf16", cuda->ext->workspace_bytes);
}

static const struct {
  int how;
  const char *text;
} own[] = {{SKINNY, "skinny"}, {OUTER, "outer"}};

/* 0: it is none of this library's. */
static int take(void *arg, const char *text) {
  const args *a = arg;
  nn_product *p = a->choosing;
  cublasLtMatmulHeuristicResult_t r;
  for (int i = 0; i < 2; i++)
    if (!strcmp(text, own[i].text)) return may(a, p, p->how = own[i].how);
  if (strlen(text) < 2 || (text[0] != 'f' && text[0] != 'p') || text[1] != ' ' ||
      nnc_unhex(p->algo.data, text + 2, sizeof p->algo.data))
    return 0;
  p->how = text[0] == 'f' ? FUSED : PLAIN;
  if (describe(p, a->c->cuda->precision, p->how == FUSED, a->lt_bias)) return 0;
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

static int offered(const args *a, nn_product *p, int fused, cublasLtMatmulHeuristicResult_t *list) {
  if (describe(p, a->c->cuda->precision, fused, a->lt_bias)) return 0;
  return nnc_lt_offers(a->c, &p->desc, p->a, p->b, p->d, list);
}

/* In milliseconds; below 0: it cannot. In place: the weights come from memory, since a step reads them once. */
static double time_of(args *a, const char *key, const char *text) {
  sp_ctx *ctx = a->c->w.ctx;
  double ms = is_scaled(a->p->kind) ? nnc_measure_cold(a->c, run_either, a) : nnc_measure(a->c, run_either, a);
  ctx->host->log(ctx, SP_LOG_DEBUG, "%s: %.2f us, %.24s", key, ms * 1e3, text);
  return ms;
}

/* A product over the rows of factors runs beside calls of the communicator, if there are several ranks, which cannot begin
 * before cuBLASLt's kernels end: these fill the multiprocessors for as long as they take, so that a step takes longer with one
 * that is faster by itself. Not of one rank, but the choice is not to hang on how many there are, since bits hang on it. */
#define AHEAD 0.85

static int measure(void *arg, const char *key, char *text, size_t bytes) {
  args *a = arg;
  nn_product *p = a->choosing;
  cublasLtMatmulHeuristicResult_t list[NNC_OFFERS];
  char way[SP_CUDA_VALUE_MAX];
  double best = -1;
  int fused = p->biased || p->relu, n = offered(a, p, fused, list);
  if (!n && fused) n = offered(a, p, fused = 0, list);
  for (int i = 0; i < n + 2; i++) {
    double ms;
    if (i < n) {
      if (list[i].state != CUBLAS_STATUS_SUCCESS || list[i].workspaceSize > a->c->cuda->ext->workspace_bytes) continue;
      p->algo = list[i].algo;
      p->how = fused ? FUSED : PLAIN;
      way[0] = fused ? 'f' : 'p';
      way[1] = ' ';
      nnc_hex(way + 2, p->algo.data, sizeof p->algo.data);
    } else {
      p->how = own[i - n].how;
      if (!may(a, p, p->how)) continue;
      snprintf(way, sizeof way, "%s", own[i - n].text);
    }
    ms = time_of(a, key, way);
    if (p->rows && p->how == OUTER) ms *= AHEAD;
    if (ms < 0 || (best >= 0 && ms >= best)) continue;
    best = ms;
    snprintf(text, bytes, "%s", way);
  }
  if (best < 0) return nnc_no_choice(a->c, "cuBLASLt has no algorithm for", key);
  a->c->w.ctx->host->log(a->c->w.ctx, SP_LOG_DEBUG, "%s: chosen %.24s", key, text);
  return SP_OK;
}

static const void *cast_weight(const nnc_call *c, const nn_xop *op) {
  if (c->cuda->low.vals[op->in].elt == NN_F32) return nnc_product_weight(c, op);
  return c->fixed + nnc_cop(c, op)->off_cast;
}

const float *nnc_gemm_bias(const nnc_call *c, const nn_xop *op) {
  return nnc_gemm_repeats(op) ? (float *)(c->fixed + nnc_cop(c, op)->off_bias) : nnc_product_bias(c, op);
}

static const void *lt_bias_of(const nnc_call *c, const nn_xop *op) {
  if (nnc_gemm_narrows(&c->cuda->low, op)) return c->fixed + nnc_cop(c, op)->off_narrow;
  return nnc_gemm_bias(c, op);
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
  int all = is_scaled(kind) && nn_has_factors(low, op), st;
  nnc_call at = *c;
  args a = {.c = &at,
            .master = nnc_product_weight(c, op),
            .scale = is_scaled(kind) ? &cuda->numbers[1] : NULL,
            .add = kind == UPDATE};
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
    a.lt_bias = lt_bias_of(c, op);
    a.y = nnc_map(out, c->w.n);
    a.y.p = y;
    if (p->sums) a.plus = a.y;
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
  a.a = kind >= WEIGHT ? x : cast_weight(c, op);
  a.b = kind == FORWARD ? x : y;
  a.d = kind == FORWARD ? y : kind == DATA ? x : g;
  key_of(p, cuda, key);
  st = nnc_tuned(c, key, take, measure, &a);
  if (st) {
    nnc_gemm_free(p);
    return st;
  }
  p->next = cop->products;
  cop->products = p;
  return SP_OK;
}

static const nn_product *find(const nnc_call *c, const nn_xop *op, int kind) {
  for (const nn_product *p = nnc_cop(c, op)->products; p; p = p->next)
    if (p->kind == kind && p->samples == c->w.n) return p;
  return NULL;
}

/* ---- the backward in one pass, or product by product ------------------------------------------------------------- */
typedef struct whole {
  args data, update;
  nnk_map x, dx, dy;
  int relu, biased, patch;
  void *work;
} whole;

static int run_separate(void *arg) {
  const whole *b = arg;
  void *stream = b->data.c->stream;
  int64_t pieces;
  nnk_sum g = {b->work, NULL, 0};
  int err = run_lt(&b->data);
  if (!err && b->relu) err = nnk_mask(stream, &b->dx, &b->dx, &b->x, 0);
  if (!err && b->biased) err = nnk_bias_pieces(stream, &b->dy, b->work, &pieces);
  if (!err && b->biased) err = nnk_add_pieces(stream, 1, &(nnk_pieces){g, b->work, b->dy.c, b->dy.c, pieces});
  return err ? err : run_lt(&b->update);
}

/* In one pass; dw, db and the sums of dx are what is to be added up. */
static int run_patch(const whole *b, float *work, nnk_pieces *dw, nnk_pieces *db, nnk_pieces *data) {
  const nn_product *p = b->data.p;
  int64_t pieces = 0, count = p->n * p->k, stride = count + b->dy.c + b->x.c;
  int err = nnk_patch_backward(b->data.c->stream, b->dx.p, b->data.add, b->relu, b->dy.p, b->x.p, b->data.master,
                               b->dy.c, b->x.c, p->m, p->n, p->k, work, &pieces);
  *dw = (nnk_pieces){dw->dst, work, count, stride, pieces};
  *db = (nnk_pieces){db->dst, work + count, b->dy.c, stride, pieces};
  *data = (nnk_pieces){{NULL, NULL, 0}, work + count + b->dy.c, b->x.c, stride, pieces};
  return err;
}

static int run_whole(void *arg) {
  const whole *b = arg;
  nnk_pieces sums[2] = {{{b->update.d, b->update.scale, 1}, NULL, 0, 0, 0}, {{b->work, NULL, 0}, NULL, 0, 0, 0}}, data;
  int err = run_patch(b, (float *)b->work + b->dy.c, &sums[0], &sums[1], &data);
  return err ? err : nnk_add_pieces(b->data.c->stream, 1 + b->biased, sums);
}

static int take_whole(void *arg, const char *text) {
  whole *b = arg;
  b->patch = strcmp(text, "patch") == 0;
  return b->patch || strcmp(text, "separate") == 0;
}

static int measure_whole(void *arg, const char *key, char *text, size_t bytes) {
  whole *b = arg;
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
  const nn_product *data = find(c, op, DATA), *update = find(c, op, UPDATE);
  nn_product *p;
  whole b = {.x = nnc_map(in, c->w.n), .dx = nnc_map(in, c->w.n), .dy = nnc_map(out, c->w.n)};
  char key[SP_CUDA_KEY_MAX], *g;
  int st;
  if (find(c, op, BACKWARD) || !may_patch(cuda, op) || !nnk_patch(data->m, data->n, data->k, data->elt, 1))
    return SP_OK;
  b.relu = in->masked;
  b.biased = op->d.bias;
  b.x.p = c->w.tmp;
  b.dy.p = c->w.tmp + nn_align(nnc_map_bytes(in, c->w.n));
  g = (char *)b.dy.p + nn_align(nnc_map_bytes(out, c->w.n));
  b.dx.p = g + nn_align((size_t)(data->n * data->k) * sizeof(float));
  b.work = (char *)b.dx.p + nn_align(nnc_map_bytes(in, c->w.n));
  b.data = (args){.c = c, .p = data, .a = nnc_weight(c, op->d.w), .b = b.dy.p, .d = b.dx.p};
  b.data.master = b.data.a;
  b.update = (args){.c = c, .p = update, .a = b.x.p, .b = b.dy.p, .d = g, .scale = &cuda->numbers[1], .add = 1};
  st = nnc_check(c, op, nnk_patch_prepare(data->n, data->k));
  if (st) return st;
  snprintf(key, sizeof key, "backward in place m%lld n%lld k%lld %s %s tf32", (long long)data->m, (long long)data->n,
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

static int handles(nnc_call *c) {
  int st = c->lt ? SP_OK : c->cuda->ext->cublaslt(c->w.ctx, &c->lt);
  return st ? st : nnc_workspace(c);
}

int nnc_gemm_prepare(nnc_call *c, const nn_xop *op) {
  const nn_low *low = &c->cuda->low;
  int st = handles(c), trained = low->training && !low->frozen, factors = nn_has_factors(low, op);
  int at_once = trained && !factors;
  if (!st) st = prepare(c, op, FORWARD);
  if (!st && low->training) st = prepare(c, op, DATA);
  if (!st && at_once) st = prepare(c, op, WEIGHT);
  if (!st && trained) st = prepare(c, op, UPDATE);
  if (!st && trained && factors) st = prepare(c, op, APPLY);
  if (!st && at_once) st = prepare_whole(c, op);
  return st;
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */
int nnc_gemm_casts(const nnc_call *c, const nn_xop *op, int backward) {
  const nn_product *p = find(c, op, backward ? DATA : FORWARD);
  return c->cuda->low.vals[op->in].elt != NN_F32 && (!p || p->how != SKINNY);
}

static int run(nnc_call *c, const nn_xop *op, args *a, int kind) {
  int err, st = handles(c);
  if (st) return st;
  a->c = c;
  a->p = find(c, op, kind);
  if (!a->p) return nnc_fail(c, op, SP_E_STATE, "a batch of this size was not prepared");
  st = nnc_check(c, op, run_columns(a));
  if (st || is_own(a->p)) return st ? st : nnc_check(c, op, run_own(a));
  err = run_lt(a);
  return err ? nnc_fail(c, op, SP_E_DEVICE, cublasLtGetStatusString((cublasStatus_t)err)) : SP_OK;
}

/* The map is added by the product itself, whether fused or plain. */
int nnc_gemm_forward(nnc_call *c, const nn_xop *op) {
  nnk_map y = nnc_data(c, op->out);
  const float *bias = nnc_product_bias(c, op);
  args a = {.a = cast_weight(c, op),
            .b = nnc_data(c, op->in).p,
            .d = y.p,
            .master = nnc_product_weight(c, op),
            .bias = nnc_gemm_bias(c, op),
            .lt_bias = lt_bias_of(c, op),
            .y = y,
            .plus = nnc_product_plus(c, op)};
  int st = run(c, op, &a, FORWARD);
  if (st || a.p->how != PLAIN || !(bias || op->d.relu)) return st;
  return nnc_check(c, op, nnk_bias_relu(c->stream, &y, &y, bias, NULL, op->d.relu));
}

/* dx and dw are both wanted. A masked gradient is complete, and its sums are those of the bias before it. */
static int patch_backward(nnc_call *c, const nn_xop *op, const nnk_map *dx, int add, int relu) {
  whole b = {.x = nnc_data(c, op->in), .dx = *dx, .dy = nnc_grad(c, op->out), .relu = relu};
  nnk_pieces dw = {.dst = nnc_grad_of(c, op->d.w)}, db = {.pieces = 0}, data;
  int st;
  if (op->d.bias && c->pieces[nnc_index(c, op)] >= 0) db.dst = nnc_grad_of(c, op->d.w + 1);
  b.data = (args){.c = c, .p = find(c, op, DATA), .add = add, .master = nnc_weight(c, op->d.w)};
  st = nnc_check(c, op, run_patch(&b, (float *)(c->w.more + nnc_cop(c, op)->off_patch), &dw, &db, &data));
  if (!st) st = nnc_add_later(c, &dw);
  if (!st && relu) st = nnc_bias_later(c, op->in, data);
  return st || !db.dst.p ? st : nnc_add_later(c, &db);
}

int nnc_gemm_backward(nnc_call *c, const nn_xop *op) {
  nnk_map x = nnc_data(c, op->in), dy = nnc_grad(c, op->out);
  args a = {.a = cast_weight(c, op), .b = dy.p, .master = nnc_product_weight(c, op)};
  const nn_product *all = find(c, op, BACKWARD);
  nnk_sum g = nnc_grad_of(c, op->d.w);
  nnc_into in;
  int st = SP_OK;
  nnc_din(c, op->in, &in);
  if (in.dx && g.p && all && all->how == PATCH) return patch_backward(c, op, in.dx, in.add, in.mask != NULL);
  if (in.dx) {
    a.d = in.dx->p;
    a.mask = in.mask ? in.mask->p : NULL;
    a.add = in.add;
    st = run(c, op, &a, DATA);
    if (!st && in.mask && a.p->how != SKINNY) st = nnc_check(c, op, nnc_mask(c, op->in, in.dx, in.dx, in.mask));
  }
  if (!st) st = nnc_plus_backward(c, op);
  if (!st) st = nnc_bias_grad(c, op);
  if (st || !g.p) return st;
  a = (args){.a = x.p, .b = dy.p, .d = g.p, .scale = g.scale, .add = g.add};
  return run(c, op, &a, g.scale ? UPDATE : WEIGHT);
}

int nnc_gemm_apply(nnc_call *c, const nn_xop *op) {
  const nn_low *low = c->w.low;
  nnk_sum g = nnc_applied(c, op->d.w);
  args a = {.a = nn_factor(&c->w, low->vals[op->in].rows),
            .b = nn_factor(&c->w, low->vals[op->out].drows),
            .d = g.p,
            .scale = g.scale,
            .add = g.add,
            .dy = nnc_map(&low->vals[op->out], c->w.n),
            .pieces = c->w.more + nnc_cop(c, op)->off_pieces};
  a.dy.p = (void *)(uintptr_t)a.b;
  if (op->d.bias) a.db = nnc_applied(c, op->d.w + 1);
  return run(c, op, &a, a.add ? UPDATE : APPLY);
}
