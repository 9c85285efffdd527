/* SPDX-License-Identifier: MIT
 * optim_cpu.c - the gradient norm of a list of tensors, and what becomes of gradients that are not finite. */
#include "optim_cpu.h"

#include <math.h>
#include <stdbool.h>

#include "../par.h"
#include "../spec.h"

size_t optim_scratch(const optim *o) { return optim_norm(o->p) ? (size_t)optim_chunks(o) * sizeof(double) : 0; }

optim_span optim_find(const optim *o, int64_t chunk) {
  uint32_t lo = 0, hi = o->n;
  while (hi - lo > 1) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (o->first[mid] <= chunk) lo = mid;
    else hi = mid;
  }
  int64_t at = (chunk - o->first[lo]) * o->chunk, left = o->count[lo] - at;
  return (optim_span){lo, at, left < o->chunk ? left : o->chunk};
}

static void tell(optim_pass *pass, unsigned bad) {
  if (bad) atomic_store_explicit(&pass->bad, 1, memory_order_relaxed);
}

typedef struct norm_job {
  const optim *o;
  const sp_list *g;
  double *part;
} norm_job;

#define LANES 16

static int norm_chunk(void *arg, int64_t chunk, int worker) {
  const norm_job *j = arg;
  optim_span s = optim_find(j->o, chunk);
  const float *g = (const float *)j->g->t[s.tensor].data + s.at;
  double sum[LANES] = {0};
  int64_t whole = s.n - s.n % LANES;
  for (int64_t i = 0; i < whole; i += LANES)
    for (int l = 0; l < LANES; l++) sum[l] += (double)g[i + l] * g[i + l];
  for (int64_t i = whole; i < s.n; i++) sum[i - whole] += (double)g[i] * g[i];
  for (int l = 1; l < LANES; l++) sum[0] += sum[l];
  j->part[chunk] = sum[0];
  (void)worker;
  return SP_OK;
}

static int sum_chunks(sp_ctx *ctx, const optim *o, const sp_io *io, double *part) {
  norm_job j = {o, &io->in[OPTIM_IN_GRADIENTS], part};
  return par_run(ctx, optim_chunks(o), norm_chunk, &j);
}

int optim_survey(sp_ctx *ctx, const optim *o, const sp_io *io) { return sum_chunks(ctx, o, io, io->sums); }

/* Of all gradients; where this is a process of several, by what all of them found,
 * in the order that it has where it is one. */
static int sum_squares(sp_ctx *ctx, const optim *o, const sp_io *io, double *sum) {
  const double *part = io->scratch;
  *sum = 0;
  for (uint64_t i = 0; io->sums && i < io->n_sums; i++) *sum += io->sums[io->sum_at[i]];
  if (io->sums) return SP_OK;
  int rc = sum_chunks(ctx, o, io, io->scratch);
  for (int64_t i = 0; !rc && i < optim_chunks(o); i++) *sum += part[i];
  return rc;
}

static void clip(const optim *o, const sp_io *io, double sum, optim_pass *pass) {
  float norm = (float)sqrt(sum);
  *(float *)io->out[OPTIM_OUT_NORM].t[0].data = norm;
  if (o->p->clip_norm > 0) {
    float f = (float)o->p->clip_norm / (norm + 1e-6f);
    pass->clip = f > 1 ? 1 : f; /* NaN stays NaN: a broken gradient must not look like a clipped one */
  }
}

typedef struct scan_job {
  const optim *o;
  const sp_list *g;
  optim_pass *pass;
} scan_job;

static int scan_chunk(void *arg, int64_t chunk, int worker) {
  const scan_job *j = arg;
  optim_span s = optim_find(j->o, chunk);
  const float *g = (const float *)j->g->t[s.tensor].data + s.at;
  unsigned bad = 0;
  for (int64_t i = 0; i < s.n; i++) bad |= optim_bad(g[i]);
  tell(j->pass, bad);
  (void)worker;
  return SP_OK;
}

/* As torch.lerp with the weight 1 - ema: from the nearer end. */
static inline __attribute__((always_inline)) void lerp_body(float weight, const float *p, float *e, int64_t n) {
  if (weight < 0.5f)
    for (int64_t i = 0; i < n; i++) e[i] = fmaf(weight, p[i] - e[i], e[i]);
  else
    for (int64_t i = 0; i < n; i++) e[i] = fmaf(weight - 1, p[i] - e[i], p[i]);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static void lerp_avx2(float weight, const float *p, float *e, int64_t n) {
  lerp_body(weight, p, e, n);
}
#endif

static void lerp(float weight, const float *p, float *e, int64_t n) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    lerp_avx2(weight, p, e, n);
    return;
  }
#endif
  lerp_body(weight, p, e, n);
}

/* Of the first call of an update, or of any that has something to tell. */
static void put_status(const sp_io *io, int64_t in_a_row, int64_t limit) {
  int64_t *status = io->out[OPTIM_OUT_STATUS].t[0].data;
  if (!io->part) memset(status, 0, 4 * sizeof *status);
  if (in_a_row < limit) return;
  status[0] = SP_E_DATA;
  status[2] = in_a_row;
  status[3] = limit;
}

/* The forward passes have moved them already. */
static void keep_statistics(const optim *o, const sp_io *io, int put_back) {
  for (uint32_t i = 0; i < optim_statistics(o, io); i++) {
    const sp_tensor *t = &io->in[OPTIM_IN_STATISTICS].t[i];
    void *kept = optim_kept(o, io, i);
    memcpy(put_back ? t->data : kept, put_back ? kept : t->data, spec_bytes(&t->spec));
  }
}

int optim_begin(sp_ctx *ctx, const optim *o, const sp_io *io, optim_pass *pass) {
  bool sums = optim_norm(o->p) || io->sums;
  double sum = 0;
  int rc = sums ? sum_squares(ctx, o, io, &sum) : SP_OK;
  pass->clip = 1;
  pass->skip = 0;
  atomic_init(&pass->bad, !isfinite(sum)); /* squares of floats can't overflow a double */
  if (!rc && optim_norm(o->p)) clip(o, io, sum, pass);
  if (rc || o->p->nonfinite != OPTIM_SKIP) return rc;
  if (!sums) {
    scan_job j = {o, &io->in[OPTIM_IN_GRADIENTS], pass};
    if ((rc = par_run(ctx, optim_chunks(o), scan_chunk, &j))) return rc;
  }
  pass->skip = atomic_load(&pass->bad);
  int64_t *in_a_row = optim_in_a_row(o, io);
  *in_a_row = pass->skip ? *in_a_row + 1 : 0;
  *(int64_t *)io->out[OPTIM_OUT_SKIPPED].t[0].data = pass->skip;
  put_status(io, *in_a_row, o->p->max_nonfinite);
  keep_statistics(o, io, pass->skip);
  return SP_OK;
}

static void average(const optim *o, const sp_io *io, const optim_span *s) {
  if (!optim_averages(o)) return;
  const float *p = (const float *)io->out[OPTIM_OUT_WEIGHTS].t[s->tensor].data + s->at;
  float *e = optim_ema(o, io, s->tensor) + s->at;
  if (optim_updates(o, io, o->group_of[s->tensor]) > 1) lerp((float)(1 - o->p->ema), p, e, s->n);
  else memcpy(e, p, (size_t)s->n * sizeof *e);
}

typedef struct update_job {
  const optim *o;
  const sp_io *io;
  optim_pass *pass;
  optim_fn fn;
  const void *rule;
  bool last;
  int64_t first; /* chunk */
} update_job;

static int update_chunk(void *arg, int64_t i, int worker) {
  update_job *j = arg;
  int64_t chunk = j->first + i;
  optim_span s = optim_find(j->o, chunk);
  if (!optim_is_here(j->io, s.tensor)) return SP_OK;
  const float *g = (const float *)j->io->in[OPTIM_IN_GRADIENTS].t[s.tensor].data + s.at;
  float *p = (float *)j->io->out[OPTIM_OUT_WEIGHTS].t[s.tensor].data + s.at, *m[OPTIM_MOMENTS] = {NULL};
  for (uint32_t k = 0; k < j->o->kinds; k++) {
    float *all = optim_moment(j->o, j->io, k, s.tensor);
    m[k] = all ? all + s.at : NULL;
  }
  optim_at at = {s.tensor, j->o->group_of[s.tensor], chunk, s.at};
  if (!j->last || !j->o->apart[s.tensor]) tell(j->pass, j->fn(j->rule, &at, g, p, m, s.n));
  if (j->last) average(j->o, j->io, &s);
  (void)worker;
  return SP_OK;
}

int optim_visit(sp_ctx *ctx, const optim *o, const sp_io *io, optim_pass *pass, optim_fn fn, const void *rule) {
  update_job j = {o, io, pass, fn, rule, false, 0};
  return par_run(ctx, optim_chunks(o), update_chunk, &j);
}

int optim_visit_one(sp_ctx *ctx, const optim *o, const sp_io *io, optim_pass *pass, optim_fn fn, const void *rule,
                    uint32_t tensor) {
  update_job j = {o, io, pass, fn, rule, false, o->first[tensor]};
  return par_run(ctx, o->first[tensor + 1] - o->first[tensor], update_chunk, &j);
}

int optim_update(sp_ctx *ctx, const optim *o, const sp_io *io, optim_pass *pass, optim_fn fn, const void *rule) {
  update_job j = {o, io, pass, fn, rule, true, 0};
  int rc = par_run(ctx, optim_chunks(o), update_chunk, &j);
  if (o->p->nonfinite == OPTIM_STOP) put_status(io, atomic_load(&pass->bad), 1);
  return rc;
}
