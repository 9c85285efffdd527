/* SPDX-License-Identifier: MIT
 * dnnl_conv.c - oneDNN 2 and 3: primitives of one sample, which any number of calls may run at a time.
 *
 * Memory objects and streams say what one call works on, so they are made for it: that takes a microsecond. */
#include "dnnl_conv.h"

#include "../ops/act.h"

#include <dnnl.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t md_ref;
#else
typedef const dnnl_memory_desc_t *md_ref;
#endif

enum { ARGS = 5 }; /* src, weights, dst, scratchpad, bias */

typedef struct part {
  dnnl_primitive_desc_t pd;
  dnnl_primitive_t prim;
  md_ref md[ARGS]; /* NULL: it has none */
  dnnl_primitive_t reorder;
} part;

struct nn_conv {
  dnnl_engine_t engine;
  part parts[3];
  md_ref plain;
  dnnl_memory_desc_t plain_md;
};

static const char *words(dnnl_status_t s) {
  switch ((int)s) {
    case dnnl_out_of_memory: return "oneDNN: out of memory";
    case dnnl_unimplemented: return "oneDNN has no such convolution";
    default: return "oneDNN refused the convolution";
  }
}

/* What a primitive or the first product takes is far below: up to 6 MiB. */
enum { ROOM_MIB = 16 };

int nn_room(sp_ctx *ctx) {
  void *room = mmap(NULL, (size_t)ROOM_MIB << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED)
    return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory: oneDNN wants %d MiB to compile in", ROOM_MIB);
  munmap(room, (size_t)ROOM_MIB << 20);
  return SP_OK;
}

#define TRY(x)                                    \
  do {                                            \
    dnnl_status_t try_ = (x);                     \
    if (try_ != dnnl_success) return words(try_); \
  } while (0)

#if DNNL_VERSION_MAJOR >= 3
#define MD_TAG(md, nd, dims, tag) dnnl_memory_desc_create_with_tag(&(md), nd, dims, dnnl_f32, tag)
#define MD_REF(md) (md)
#define MD_DROP(md) dnnl_memory_desc_destroy(md)
#else
#define MD_TAG(md, nd, dims, tag) dnnl_memory_desc_init_by_tag(&(md), nd, dims, dnnl_f32, tag)
#define MD_REF(md) (&(md))
#define MD_DROP(md) ((void)0)
#endif

/* Where the kernel lies; dil 0: none, as oneDNN counts. */
typedef struct placing {
  dnnl_dims_t st, dil, pl, pr;
} placing;

static const char *create_forward(nn_conv *c, const md_ref *md, const placing *at, dnnl_primitive_attr_t attr) {
  dnnl_primitive_desc_t *f = &c->parts[0].pd;
#if DNNL_VERSION_MAJOR >= 3
  TRY(dnnl_convolution_forward_primitive_desc_create(f, c->engine, dnnl_forward_training, dnnl_convolution_direct,
                                                     md[0], md[1], md[3], md[2], at->st, at->dil, at->pl, at->pr,
                                                     attr));
#else
  dnnl_convolution_desc_t d;
  TRY(dnnl_dilated_convolution_forward_desc_init(&d, dnnl_forward_training, dnnl_convolution_direct, md[0], md[1],
                                                 md[3], md[2], at->st, at->dil, at->pl, at->pr));
  TRY(dnnl_primitive_desc_create(f, &d, attr, c->engine, NULL));
#endif
  return NULL;
}

static const char *create_backward(nn_conv *c, const md_ref *md, const placing *at, dnnl_primitive_attr_t attr) {
  dnnl_primitive_desc_t *f = &c->parts[0].pd, *bd = &c->parts[1].pd, *bw = &c->parts[2].pd;
  md_ref src = md[0], w = md[1], dst = md[2];
#if DNNL_VERSION_MAJOR >= 3
  TRY(dnnl_convolution_backward_data_primitive_desc_create(bd, c->engine, dnnl_convolution_direct, src, w, dst, at->st,
                                                           at->dil, at->pl, at->pr, *f, attr));
  TRY(dnnl_convolution_backward_weights_primitive_desc_create(bw, c->engine, dnnl_convolution_direct, src, w, NULL, dst,
                                                              at->st, at->dil, at->pl, at->pr, *f, attr));
#else
  dnnl_convolution_desc_t d;
  TRY(dnnl_dilated_convolution_backward_data_desc_init(&d, dnnl_convolution_direct, src, w, dst, at->st, at->dil,
                                                       at->pl, at->pr));
  TRY(dnnl_primitive_desc_create(bd, &d, attr, c->engine, *f));
  TRY(dnnl_dilated_convolution_backward_weights_desc_init(&d, dnnl_convolution_direct, src, w, NULL, dst, at->st,
                                                          at->dil, at->pl, at->pr));
  TRY(dnnl_primitive_desc_create(bw, &d, attr, c->engine, *f));
#endif
  return NULL;
}

static placing placing_of(const nn_conv_shape *sh) {
  int64_t in[2] = {sh->h, sh->w}, out[2] = {sh->oh, sh->ow};
  placing at;
  for (int i = 0; i < 2; i++) {
    at.st[i] = sh->s[i];
    at.dil[i] = sh->d[i] - 1;
    at.pl[i] = sh->p[i];
    /* the padding that is used; rows and columns that no kernel reaches are left out */
    at.pr[i] = (out[i] - 1) * sh->s[i] + (sh->k[i] - 1) * sh->d[i] + 1 - in[i] - sh->p[i];
  }
  return at;
}

/* [o][c / groups][kh][kw] as the shape's weights lie. */
static dnnl_format_tag_t tag_of(const nn_conv_shape *sh) {
  if (sh->groups > 1) return dnnl_goihw; /* oneDNN has the groups as a dimension */
  return sh->order == SP_ROW_MAJOR ? dnnl_oihw : sh->order == SP_CHANNELS_LAST ? dnnl_ohwi : dnnl_hwio;
}

/* oneDNN's activation of the same formula. */
static const char *add_act(dnnl_primitive_attr_t attr, enum nn_act act) {
  dnnl_post_ops_t ops = NULL;
  dnnl_status_t status = dnnl_post_ops_create(&ops);
  if (status) return words(status);
#if DNNL_VERSION_MAJOR >= 3
#define APPEND(alg, a, b) dnnl_post_ops_append_eltwise(ops, alg, a, b)
#else
#define APPEND(alg, a, b) dnnl_post_ops_append_eltwise(ops, 1, alg, a, b)
#endif
  if (act == NN_ACT_HARD_SWISH) status = APPEND(dnnl_eltwise_hardswish, 1.0f / 6, 0.5f);
  else if (act == NN_ACT_SILU) status = APPEND(dnnl_eltwise_swish, 1, 0);
  else status = dnnl_unimplemented;
  if (!status) status = dnnl_primitive_attr_set_post_ops(attr, ops);
  dnnl_post_ops_destroy(ops);
  return status ? words(status) : NULL;
}

static const char *describe(nn_conv *c, const nn_conv_shape *sh, dnnl_primitive_attr_t attr) {
  int g = sh->groups, apart = g > 1;
  dnnl_dims_t dims[4] = {
      {1, sh->c, sh->h, sh->w}, {sh->o, sh->c, sh->k[0], sh->k[1]}, {1, sh->o, sh->oh, sh->ow}, {sh->o}};
  dnnl_dims_t parts = {g, sh->o / g, sh->c / g, sh->k[0], sh->k[1]};
  static const dnnl_format_tag_t tags[4] = {dnnl_nhwc, dnnl_format_tag_any, dnnl_nhwc, dnnl_a};
  const int ranks[4] = {4, 4 + apart, 4, 1};
  placing at = placing_of(sh);
  dnnl_memory_desc_t md[4];
  md_ref ref[4] = {NULL};
  dnnl_status_t status = dnnl_success;
  const char *err = sh->act ? add_act(attr, sh->act) : NULL;
  int n = 0, all = sh->bias ? 4 : 3;
  if (err) return err;
  if (apart) memcpy(dims[1], parts, sizeof parts);
  TRY(MD_TAG(c->plain_md, 4 + apart, dims[1], tag_of(sh)));
  c->plain = MD_REF(c->plain_md);
  while (n < all && (status = MD_TAG(md[n], ranks[n], dims[n], tags[n])) == dnnl_success) ref[n] = MD_REF(md[n]), n++;
  err = n < all ? words(status) : create_forward(c, ref, &at, attr);
  if (!err && !sh->act) err = create_backward(c, ref, &at, attr);
  for (int i = 0; i < n; i++) MD_DROP(md[i]);
  return err;
}

static const dnnl_query_t queries[3][ARGS - 1] = {
    {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md, dnnl_query_scratchpad_md},
    {dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_diff_dst_md, dnnl_query_scratchpad_md},
    {dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md, dnnl_query_scratchpad_md}};
static const int roles[3][ARGS] = {{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD, DNNL_ARG_BIAS},
                                   {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST, DNNL_ARG_SCRATCHPAD},
                                   {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST, DNNL_ARG_SCRATCHPAD}};

const char *nn_conv_new(nn_conv **conv, const nn_conv_shape *shape) {
  nn_conv *c = calloc(1, sizeof *c);
  dnnl_primitive_attr_t attr = NULL;
  const char *err = NULL;
  int team = omp_get_max_threads(); /* oneDNN plans for as many threads as OpenMP has now */
  if (!c) return "out of memory";
  omp_set_num_threads(1);
  if (dnnl_engine_create(&c->engine, dnnl_cpu, 0) != dnnl_success ||
      dnnl_primitive_attr_create(&attr) != dnnl_success ||
      dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user) != dnnl_success)
    err = "oneDNN does not start";
  if (!err) err = describe(c, shape, attr);
  if (attr) dnnl_primitive_attr_destroy(attr);
  omp_set_num_threads(team);
  if (err) {
    nn_conv_free(c);
    return err;
  }
  for (int i = 0; i < 3 && c->parts[i].pd; i++)
    for (int j = 0; j < ARGS - 1; j++)
      c->parts[i].md[j] = dnnl_primitive_desc_query_md(c->parts[i].pd, queries[i][j], 0);
  if (shape->bias)
    c->parts[NN_CONV_FWD].md[ARGS - 1] = dnnl_primitive_desc_query_md(c->parts[0].pd, dnnl_query_weights_md, 1);
  *conv = c;
  return NULL;
}

static const char *compile(nn_conv *c, int which) {
  part *p = &c->parts[which];
  dnnl_primitive_desc_t rd;
  md_ref from = which == NN_CONV_WEIGHTS ? p->md[1] : c->plain, to = which == NN_CONV_WEIGHTS ? c->plain : p->md[1];
  dnnl_status_t st;
  if (!p->reorder) { /* else the primitive failed when it was tried before */
    TRY(dnnl_reorder_primitive_desc_create(&rd, from, c->engine, to, c->engine, NULL));
    st = dnnl_primitive_create(&p->reorder, rd);
    dnnl_primitive_desc_destroy(rd);
    TRY(st);
  }
  TRY(dnnl_primitive_create(&p->prim, p->pd));
  return NULL;
}

const char *nn_conv_prepare(nn_conv *c, int which) {
  int team = omp_get_max_threads();
  const char *err;
  if (c->parts[which].prim) return NULL;
  omp_set_num_threads(1);
  err = compile(c, which);
  omp_set_num_threads(team);
  return err;
}

void nn_conv_free(nn_conv *c) {
  if (!c) return;
  for (int i = 0; i < 3; i++) {
    part *p = &c->parts[i];
    if (p->reorder) dnnl_primitive_destroy(p->reorder);
    if (p->prim) dnnl_primitive_destroy(p->prim);
    if (p->pd) dnnl_primitive_desc_destroy(p->pd);
  }
  if (c->plain) MD_DROP(c->plain_md);
  if (c->engine) dnnl_engine_destroy(c->engine);
  free(c);
}

size_t nn_conv_packed_bytes(const nn_conv *c, int which) { return dnnl_memory_desc_get_size(c->parts[which].md[1]); }
size_t nn_conv_scratch_bytes(const nn_conv *c, int which) { return dnnl_memory_desc_get_size(c->parts[which].md[3]); }

/* Runs a primitive on the caller's thread alone, over objects of its own. */
static const char *execute(dnnl_engine_t engine, dnnl_primitive_t prim, int n, const int *arg, const md_ref *md,
                           void *const *data) {
  dnnl_exec_arg_t args[ARGS];
  dnnl_stream_t stream;
  dnnl_status_t st = dnnl_stream_create(&stream, engine, dnnl_stream_default_flags);
  int made = 0;
  if (st) return words(st);
  omp_set_num_threads(1);
  for (; made < n && !st; made += !st) {
    args[made].arg = arg[made];
    st = dnnl_memory_create(&args[made].memory, md[made], engine, data[made]);
  }
  if (!st) st = dnnl_primitive_execute(prim, stream, n, args);
  while (made > 0) dnnl_memory_destroy(args[--made].memory);
  dnnl_stream_destroy(stream);
  return st ? words(st) : NULL;
}

const char *nn_conv_pack(const nn_conv *c, int which, const float *weights, void *packed) {
  static const int arg[2] = {DNNL_ARG_FROM, DNNL_ARG_TO};
  md_ref md[2] = {c->plain, c->parts[which].md[1]};
  void *data[2] = {(void *)(uintptr_t)weights, packed};
  return execute(c->engine, c->parts[which].reorder, 2, arg, md, data);
}

const char *nn_conv_unpack(const nn_conv *c, const void *packed, float *weights) {
  static const int arg[2] = {DNNL_ARG_FROM, DNNL_ARG_TO};
  md_ref md[2] = {c->parts[NN_CONV_WEIGHTS].md[1], c->plain};
  void *data[2] = {(void *)(uintptr_t)packed, weights};
  return execute(c->engine, c->parts[NN_CONV_WEIGHTS].reorder, 2, arg, md, data);
}

const char *nn_conv_run(const nn_conv *c, int which, void *src, void *packed, void *dst, void *scratch,
                        const float *bias) {
  const part *p = &c->parts[which];
  void *data[ARGS] = {src, packed, dst, scratch, (void *)(uintptr_t)bias};
  return execute(c->engine, p->prim, p->md[ARGS - 1] ? ARGS : ARGS - 1, roles[which], p->md, data);
}

int nn_gemm(int ta, int tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda, const float *b,
            int64_t ldb, float beta, float *c, int64_t ldc) {
  omp_set_num_threads(1);
  return dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k, alpha, a, lda, b, ldb, beta, c, ldc) != dnnl_success;
}
