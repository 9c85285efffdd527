/* SPDX-License-Identifier: MIT
 * optim.c - chunks, moments and the gradient norm of a list of tensors. */
#include "optim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../par.h"

const sp_port optim_inputs[] = {{.name = "gradients",
                                 .dtypes = SP_DT(SP_F32),
                                 .ndim = -1,
                                 .flags = SP_PORT_LIST | SP_PORT_NOGRAD,
                                 .doc = "one per weight"},
                                {.name = NULL}};
const sp_port optim_outputs[] = {
    {.name = "weights",
     .dtypes = SP_DT(SP_F32),
     .ndim = -1,
     .flags = SP_PORT_LIST | SP_PORT_NOGRAD,
     .doc = "updated in place, in the order of the gradients"},
    {.name = "grad_norm",
     .dtypes = SP_DT(SP_F32),
     .ndim = 0,
     .flags = SP_PORT_LIST | SP_PORT_METRIC | SP_PORT_NOGRAD,
     .doc = "L2 norm of all gradients before clipping; only with clip_norm or report_norm"},
    {.name = NULL}};

#define NAME_BYTES 48

void optim_free(optim *o) {
  free(o->count);
  free(o->first);
  free(o->state);
  free(o->names);
  memset(o, 0, sizeof *o);
}

static int64_t elements(const sp_spec *s) {
  int64_t n = 1;
  for (int d = 0; d < s->ndim; d++) n *= s->shape[d];
  return n;
}

static void name_state(optim *o, const sp_spec *spec, const char *const *kind_names) {
  for (uint32_t k = 0; k < o->kinds; k++)
    for (uint32_t i = 0; i < o->n; i++) {
      sp_weight *w = &o->state[k * o->n + i];
      char *name = o->names + (size_t)(k * o->n + i) * NAME_BYTES;
      snprintf(name, NAME_BYTES, "%s.%u", kind_names[k], i);
      w->name = name;
      w->spec = spec[i];
      w->flags = SP_WEIGHT_STATE;
    }
  if (o->kinds)
    o->state[o->kinds * o->n] = (sp_weight){.name = "step", .spec = {.dtype = SP_I64}, .flags = SP_WEIGHT_STATE};
}

int optim_plan(sp_ctx *ctx, optim *o, sp_plan *plan, const char *const *kind_names, uint32_t kinds, int norm) {
  const sp_speclist *in = &plan->in[OPTIM_IN_GRADIENTS];
  sp_speclist *out = &plan->out[OPTIM_OUT_WEIGHTS];
  optim_free(o);
  if (in->n > out->cap)
    return ctx->host->fail(ctx, SP_E_RANGE, "%u gradients, but only %u can be listed", in->n, out->cap);
  o->n = in->n;
  o->kinds = kinds;
  o->n_state = kinds ? kinds * in->n + 1 : 0;
  o->count = calloc(in->n + 1, sizeof *o->count);
  o->first = calloc(in->n + 1, sizeof *o->first);
  o->state = calloc(o->n_state + 1, sizeof *o->state);
  o->names = calloc(o->n_state + 1, NAME_BYTES);
  if (!o->count || !o->first || !o->state || !o->names)
    return ctx->host->fail(ctx, SP_E_NOMEM, "no memory for a list of %u tensors", in->n);
  for (uint32_t i = 0; i < in->n; i++) {
    out->spec[i] = in->spec[i];
    o->count[i] = elements(&in->spec[i]);
    o->first[i + 1] = o->first[i] + (o->count[i] + OPTIM_CHUNK - 1) / OPTIM_CHUNK;
  }
  out->n = in->n;
  plan->out[OPTIM_OUT_NORM].n = norm ? 1 : 0;
  if (norm) {
    plan->out[OPTIM_OUT_NORM].spec[0] = (sp_spec){.dtype = SP_F32};
    plan->scratch_bytes = (size_t)optim_chunks(o) * sizeof(double);
  }
  name_state(o, in->spec, kind_names);
  plan->weights = o->state;
  plan->n_weights = o->n_state;
  return SP_OK;
}

optim_span optim_find(const optim *o, int64_t chunk) {
  uint32_t lo = 0, hi = o->n;
  while (hi - lo > 1) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (o->first[mid] <= chunk) lo = mid;
    else hi = mid;
  }
  int64_t at = (chunk - o->first[lo]) * OPTIM_CHUNK, left = o->count[lo] - at;
  return (optim_span){lo, at, left < OPTIM_CHUNK ? left : OPTIM_CHUNK};
}

int64_t optim_count_step(const optim *o, const sp_io *io) {
  int64_t *step = io->weights[o->n_state - 1].data;
  return ++*step;
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

int optim_clip(sp_ctx *ctx, const optim *o, const sp_io *io, double clip_norm, float *factor) {
  *factor = 1;
  if (!io->out[OPTIM_OUT_NORM].n) return SP_OK;
  norm_job j = {o, &io->in[OPTIM_IN_GRADIENTS], io->scratch};
  int rc = par_run(ctx, optim_chunks(o), norm_chunk, &j);
  if (rc) return rc;
  double sum = 0;
  for (int64_t i = 0; i < optim_chunks(o); i++) sum += j.part[i];
  float norm = (float)sqrt(sum);
  *(float *)io->out[OPTIM_OUT_NORM].t[0].data = norm;
  if (clip_norm > 0) {
    float f = (float)clip_norm / (norm + 1e-6f);
    *factor = f > 1 ? 1 : f; /* NaN stays NaN: a broken gradient must not look like a clipped one */
  }
  return SP_OK;
}
