/* SPDX-License-Identifier: MIT
 * toy.c - small stages with exact arithmetic and uneven timing, for tests of the core without any layer code. */
#include <spcore/plugin.h>
#include <spcore/rng.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define W 4

/* Tells who opens which copy of this file: a line in the file $SP_TEST_MARKS for each. */
__attribute__((constructor)) static void leave_mark(void) {
  static const char here;
  const char *path = getenv("SP_TEST_MARKS");
  Dl_info info;
  FILE *f = path && dladdr(&here, &info) ? fopen(path, "a") : NULL;
  if (!f) return;
  fprintf(f, "%s\n", strrchr(info.dli_fname, '/') + 1);
  fclose(f);
}

/* Sleeps 0..us microseconds, drawn from key: so that lanes drift against each other, differently at every step. */
static void drift(int64_t us, uint64_t key) {
  struct timespec t = {0, 0};
  if (us <= 0) return;
  t.tv_nsec = (long)sp_rng_below(sp_rng(key, 7, 0).v[0], (uint32_t)us) * 1000;
  nanosleep(&t, NULL);
}

static sp_spec vec(int64_t n) {
  sp_spec s = {.dtype = SP_F32, .ndim = 2, .shape = {n, W}};
  return s;
}

/* ---- toy_source: N x 4 floats made of the ids ---- */
typedef struct {
  int64_t samples, drift, workers;
} source_params;
typedef struct {
  const source_params *p;
  sp_attr attrs[1];
} source;

static const sp_param source_table[] = {{.name = "samples",
                                         .type = SP_PARAM_INT,
                                         .offset = offsetof(source_params, samples),
                                         .idef = 22,
                                         .imin = 0,
                                         .imax = 1000000,
                                         .doc = "how many"},
                                        {.name = "drift",
                                         .type = SP_PARAM_INT,
                                         .offset = offsetof(source_params, drift),
                                         .imax = 1000000,
                                         .unit = "us",
                                         .doc = "longest sleep"},
                                        {.name = "workers",
                                         .type = SP_PARAM_INT,
                                         .offset = offsetof(source_params, workers),
                                         .idef = 2,
                                         .imin = 1,
                                         .imax = 64,
                                         .doc = "told to the script, without any effect"},
                                        {.name = NULL}};
static const sp_port source_out[] = {
    {.name = "x", .dtypes = SP_DT(SP_F32), .ndim = 2, .flags = SP_PORT_NOGRAD, .doc = "values"}, {.name = NULL}};

static int source_create(sp_ctx *c, const void *p, void **self) {
  source *s = calloc(1, sizeof *s);
  if (!s) return c->host->fail(c, SP_E_NOMEM, "out of memory");
  s->p = p;
  s->attrs[0] = (sp_attr){.name = "workers", .value = (double)s->p->workers};
  *self = s;
  return SP_OK;
}
static int source_plan(sp_ctx *c, void *self, sp_plan *p) {
  (void)c;
  p->out[0].spec[0] = vec(p->batch);
  p->attrs = ((source *)self)->attrs;
  p->n_attrs = 1;
  p->length = (uint64_t)((source *)self)->p->samples;
  return SP_OK;
}
static int source_forward(sp_ctx *c, void *self, const sp_io *io) {
  float *y = io->out[0].t[0].data;
  (void)c;
  drift(((source *)self)->p->drift, io->step->key ^ io->step->step);
  for (uint32_t i = 0; i < io->step->n; i++)
    for (int k = 0; k < W; k++) y[i * W + k] = sp_rng_float(sp_rng(3, io->ids[i], 0).v[k]) - 0.4f;
  return SP_OK;
}

/* ---- toy_mul: y = w * x, and a STATE that counts training steps ---- */
typedef struct {
  int64_t drift, fail_at, fail_eval;
} mul_params;
typedef struct {
  const mul_params *p;
  sp_weight w[2];
  int frozen;
} mul;

static const sp_param mul_table[] = {{.name = "drift",
                                      .type = SP_PARAM_INT,
                                      .offset = offsetof(mul_params, drift),
                                      .imax = 1000000,
                                      .unit = "us",
                                      .doc = "longest sleep"},
                                     {.name = "fail_at",
                                      .type = SP_PARAM_INT,
                                      .offset = offsetof(mul_params, fail_at),
                                      .idef = -1,
                                      .imin = -1,
                                      .imax = 1000000000,
                                      .doc = "step at which forward fails"},
                                     {.name = "fail_eval",
                                      .type = SP_PARAM_INT,
                                      .offset = offsetof(mul_params, fail_eval),
                                      .idef = -1,
                                      .imin = -1,
                                      .imax = 1000000000,
                                      .doc = "step of an evaluation at which forward fails"},
                                     {.name = NULL}};
static const sp_port mul_in[] = {{.name = "x", .dtypes = SP_DT(SP_F32), .ndim = 2, .doc = "values"}, {.name = NULL}};
static const sp_port mul_out[] = {{.name = "y", .dtypes = SP_DT(SP_F32), .ndim = 2, .doc = "values"}, {.name = NULL}};

static int mul_create(sp_ctx *c, const void *p, void **self) {
  mul *m = calloc(1, sizeof *m);
  if (!m) return c->host->fail(c, SP_E_NOMEM, "out of memory");
  m->p = p;
  m->w[0] = (sp_weight){.name = "w",
                        .spec = {.dtype = SP_F32, .ndim = 1, .shape = {W}},
                        .flags = SP_WEIGHT_TRAINED,
                        .init = SP_INIT_UNIFORM,
                        .init_value = 1};
  m->w[1] = (sp_weight){.name = "steps", .spec = {.dtype = SP_F32, .ndim = 1, .shape = {1}}, .flags = SP_WEIGHT_STATE};
  *self = m;
  return SP_OK;
}
static int mul_plan(sp_ctx *c, void *self, sp_plan *p) {
  (void)c;
  p->out[0].spec[0] = p->in[0].spec[0];
  p->weights = ((mul *)self)->w;
  p->n_weights = 2;
  ((mul *)self)->frozen = p->frozen;
  p->saved_bytes = p->training ? (size_t)p->batch * W * sizeof(float) : 0;
  p->scratch_bytes = 64;
  return SP_OK;
}
static int mul_forward(sp_ctx *c, void *self, const sp_io *io) {
  const mul *m = self;
  const float *x = io->in[0].t[0].data, *w = io->weights[0].data;
  float *y = io->out[0].t[0].data, *saved = io->saved;
  if (m->p->fail_at >= 0 && io->step->step == (uint64_t)m->p->fail_at)
    return c->host->fail(c, SP_E_DATA, "asked to fail");
  if (m->p->fail_eval >= 0 && !io->step->training && io->step->step == (uint64_t)m->p->fail_eval)
    return c->host->fail(c, SP_E_DATA, "asked to fail in evaluation");
  drift(m->p->drift, io->step->key ^ io->step->step);
  memset(io->scratch, 0xA5, 64);
  if (io->training) {
    memcpy(saved, x, io->step->n * W * sizeof *x);
    if (!m->frozen) ((float *)io->weights[1].data)[0] += 1;
  }
  for (uint32_t i = 0; i < io->step->n * W; i++) y[i] = x[i] * w[i % W] + (float)io->training * 0.001f;
  return SP_OK;
}
static int mul_backward(sp_ctx *c, void *self, const sp_io *io) {
  const float *x = io->saved, *w = io->weights[0].data, *dy = io->dout[0].t[0].data;
  float *dx = io->din[0].t[0].data, dw[W] = {0};
  (void)c;
  drift(((mul *)self)->p->drift, io->step->key ^ ~io->step->step);
  for (uint32_t i = 0; dy && i < io->step->n * W; i++) {
    dw[i % W] += dy[i] * x[i];
    if (dx) dx[i] = (io->din_acc[0][0] ? dx[i] : 0) + dy[i] * w[i % W];
  }
  for (int k = 0; k < W; k++) {
    if (io->dw_scale) ((float *)io->weights[0].data)[k] += *io->dw_scale * dw[k];
    else if (io->dweights[0].data) {
      float *g = io->dweights[0].data;
      g[k] = (io->dw_acc ? g[k] : 0) + dw[k];
    }
  }
  return SP_OK;
}

/* ---- toy_loss: the mean square ---- */
typedef struct {
  int64_t bad_at;
} loss_params;
static const sp_param loss_table[] = {{.name = "bad_at",
                                       .type = SP_PARAM_INT,
                                       .offset = offsetof(loss_params, bad_at),
                                       .idef = -1,
                                       .imin = -1,
                                       .imax = 1000000000,
                                       .doc = "step that reports a bad value"},
                                      {.name = NULL}};
static const sp_port loss_out[] = {
    {.name = "loss", .dtypes = SP_DT(SP_F32), .ndim = 0, .flags = SP_PORT_METRIC, .doc = "mean square"},
    {.name = "status", .dtypes = SP_DT(SP_I64), .ndim = 1, .flags = SP_PORT_STATUS, .doc = "bad values"},
    {.name = NULL}};
static int loss_create(sp_ctx *c, const void *p, void **self) {
  (void)c;
  *self = (void *)(uintptr_t)p;
  return SP_OK;
}
static int loss_plan(sp_ctx *c, void *self, sp_plan *p) {
  (void)c, (void)self;
  p->out[0].spec[0] = (sp_spec){.dtype = SP_F32};
  p->out[1].spec[0] = (sp_spec){.dtype = SP_I64, .ndim = 1, .shape = {4}};
  return SP_OK;
}
static int loss_forward(sp_ctx *c, void *self, const sp_io *io) {
  const float *x = io->in[0].t[0].data;
  float *dx = io->din[0].t[0].data, sum = 0;
  int64_t *status = io->out[1].t[0].data, bad = ((const loss_params *)self)->bad_at;
  uint32_t n = io->step->n * W;
  (void)c;
  for (uint32_t i = 0; i < n; i++) {
    sum += x[i] * x[i];
    if (dx) dx[i] = (io->din_acc[0][0] ? dx[i] : 0) + 2 * x[i] / (float)n * io->step->loss_scale;
  }
  *(float *)io->out[0].t[0].data = sum / (float)n;
  memset(status, 0, 4 * sizeof *status);
  if (bad >= 0 && io->step->step == (uint64_t)bad)
    status[0] = SP_E_RANGE, status[1] = (int64_t)io->ids[0], status[2] = 77, status[3] = 9;
  return SP_OK;
}

/* ---- toy_sgd: with momentum ---- */
typedef struct {
  double lr, momentum;
} sgd_params;
typedef struct {
  const sgd_params *p;
  sp_weight w[64];
  char names[64][16];
} sgd;
static const sp_param sgd_table[] = {{.name = "lr",
                                      .type = SP_PARAM_FLOAT,
                                      .flags = SP_PARAM_LIVE,
                                      .offset = offsetof(sgd_params, lr),
                                      .def = 0.5,
                                      .max = 100,
                                      .doc = "learning rate"},
                                     {.name = "momentum",
                                      .type = SP_PARAM_FLOAT,
                                      .offset = offsetof(sgd_params, momentum),
                                      .def = 0.5,
                                      .max = 1,
                                      .doc = "momentum; 0 lets stages update in place"},
                                     {.name = NULL}};
static const sp_port sgd_in[] = {
    {.name = "gradients", .dtypes = SP_DT(SP_F32), .ndim = -1, .flags = SP_PORT_LIST, .doc = "gradients"},
    {.name = NULL}};
static const sp_port sgd_out[] = {
    {.name = "weights", .dtypes = SP_DT(SP_F32), .ndim = -1, .flags = SP_PORT_LIST, .doc = "weights"}, {.name = NULL}};

static int sgd_create(sp_ctx *c, const void *p, void **self) {
  sgd *s = calloc(1, sizeof *s);
  if (!s) return c->host->fail(c, SP_E_NOMEM, "out of memory");
  s->p = p;
  *self = s;
  return SP_OK;
}
static int sgd_plan(sp_ctx *c, void *self, sp_plan *p) {
  sgd *s = self;
  (void)c;
  p->inplace = s->p->momentum == 0;
  p->out[0].n = p->in[0].n;
  for (uint32_t i = 0; i < p->in[0].n; i++) {
    p->out[0].spec[i] = p->in[0].spec[i];
    s->names[i][0] = 'm';
    s->names[i][1] = (char)('a' + i % 26);
    s->names[i][2] = (char)('a' + i / 26);
    s->w[i] = (sp_weight){.name = s->names[i], .spec = p->in[0].spec[i], .flags = SP_WEIGHT_STATE};
  }
  p->weights = s->w;
  p->n_weights = p->in[0].n;
  return SP_OK;
}
static int sgd_forward(sp_ctx *c, void *self, const sp_io *io) {
  const sgd *s = self;
  (void)c;
  for (uint32_t i = 0; i < io->in[0].n; i++) {
    const float *g = io->in[0].t[i].data;
    float *w = io->out[0].t[i].data, *m = io->weights[i].data;
    for (int64_t k = 0; k < io->in[0].t[i].spec.shape[0]; k++) {
      m[k] = (float)s->p->momentum * m[k] + g[k];
      w[k] -= io->step->live[0] * m[k];
    }
  }
  return SP_OK;
}

static void no_op(void *self) { (void)self; }

/* ---- toy_nop: does nothing, for the cost of the core itself ---- */
static const sp_port nop_in[] = {{.name = "x", .ndim = -1, .flags = SP_PORT_OPTIONAL, .doc = "anything"},
                                 {.name = NULL}};
static const sp_port nop_out[] = {{.name = "y", .dtypes = SP_DT(SP_F32), .ndim = 2, .doc = "garbage"}, {.name = NULL}};
static int nop_plan(sp_ctx *c, void *self, sp_plan *p) {
  (void)c, (void)self;
  p->out[0].spec[0] = vec(p->batch);
  return SP_OK;
}
static int nop_forward(sp_ctx *c, void *self, const sp_io *io) {
  (void)c, (void)self, (void)io;
  return SP_OK;
}

/* ---- toy_fill: no input; `rows` x 4 ones ---- */
typedef struct {
  int64_t rows;
} fill_params;
static const sp_param fill_table[] = {{.name = "rows",
                                       .type = SP_PARAM_INT,
                                       .offset = offsetof(fill_params, rows),
                                       .idef = 1,
                                       .imin = 1,
                                       .imax = INT64_MAX - 1,
                                       .doc = "rows"},
                                      {.name = NULL}};
static const sp_port fill_out[] = {{.name = "y", .dtypes = SP_DT(SP_F32), .ndim = 2, .doc = "ones"}, {.name = NULL}};
static int fill_plan(sp_ctx *c, void *self, sp_plan *p) {
  (void)c;
  p->out[0].spec[0] = vec(((const fill_params *)self)->rows);
  return SP_OK;
}
static int fill_forward(sp_ctx *c, void *self, const sp_io *io) {
  const sp_tensor *y = &io->out[0].t[0];
  (void)c, (void)self;
  for (int64_t i = 0; i < y->spec.shape[0] * W; i++) ((float *)y->data)[i] = 1;
  return SP_OK;
}

/* ---- toy_probe: reports what it is given ---- */
typedef struct {
  double gain;
  int64_t state;
} probe_params;
typedef struct {
  const probe_params *p;
  sp_weight w;
} probe;
static const sp_param probe_table[] = {{.name = "gain",
                                        .type = SP_PARAM_FLOAT,
                                        .flags = SP_PARAM_LIVE,
                                        .offset = offsetof(probe_params, gain),
                                        .doc = "may change while running"},
                                       {.name = "state",
                                        .type = SP_PARAM_INT,
                                        .imax = 1,
                                        .offset = offsetof(probe_params, state),
                                        .doc = "has statistics that training changes"},
                                       {.name = NULL}};
static const sp_port probe_in[] = {{.name = "x", .ndim = -1, .doc = "anything"}, {.name = NULL}};
static const sp_port probe_out[] = {
    {.name = "y",
     .dtypes = SP_DT(SP_F32),
     .ndim = 2,
     .flags = SP_PORT_OPTIONAL,
     .doc = "a copy of the first four columns"},
    {.name = "maps",
     .dtypes = SP_DT(SP_F32),
     .ndim = 2,
     .flags = SP_PORT_OPTIONAL | SP_PORT_LIST,
     .doc = "two of them, ones"},
    {.name = "seen",
     .dtypes = SP_DT(SP_I64),
     .ndim = 1,
     .flags = SP_PORT_OPTIONAL | SP_PORT_METRIC,
     .doc = "rows, columns, step->n, outputs that have memory"},
    {.name = "two", .dtypes = SP_DT(SP_I64), .ndim = 0, .flags = SP_PORT_METRIC | SP_PORT_LIST, .doc = "1 and 2"},
    {.name = NULL}};
static int probe_create(sp_ctx *c, const void *p, void **self) {
  probe *b = calloc(1, sizeof *b);
  if (!b) return c->host->fail(c, SP_E_NOMEM, "out of memory");
  b->p = p;
  b->w = (sp_weight){.name = "calls", .spec = {.dtype = SP_F32, .ndim = 1, .shape = {1}}, .flags = SP_WEIGHT_STATE};
  *self = b;
  return SP_OK;
}
static int probe_plan(sp_ctx *c, void *self, sp_plan *p) {
  probe *b = self;
  (void)c;
  p->out[0].spec[0] = p->out[1].spec[0] = p->out[1].spec[1] = vec(p->in[0].spec[0].shape[0]);
  p->out[1].n = p->out[3].n = 2;
  p->out[2].spec[0] = (sp_spec){.dtype = SP_I64, .ndim = 1, .shape = {4}};
  p->out[3].spec[0] = p->out[3].spec[1] = (sp_spec){.dtype = SP_I64};
  p->weights = &b->w;
  p->n_weights = b->p->state != 0;
  return SP_OK;
}
static int probe_forward(sp_ctx *c, void *self, const sp_io *io) {
  const sp_tensor *x = &io->in[0].t[0], *y = &io->out[0].t[0], *maps = io->out[1].t;
  int64_t rows = x->spec.shape[0], columns = x->spec.shape[1], *seen = io->out[2].t[0].data;
  (void)c;
  for (int64_t i = 0; i < rows * W; i++) {
    if (y->data) ((float *)y->data)[i] = ((const float *)x->data)[i / W * columns + i % W];
    for (int k = 0; k < 2; k++)
      if (maps[k].data) ((float *)maps[k].data)[i] = 1;
  }
  seen[0] = rows, seen[1] = columns, seen[2] = io->step->n;
  seen[3] = !!y->data + !!maps[0].data + !!maps[1].data;
  *(int64_t *)io->out[3].t[0].data = 1, *(int64_t *)io->out[3].t[1].data = 2;
  if (io->training && ((probe *)self)->p->state) ((float *)io->weights[0].data)[0] += 1;
  return SP_OK;
}

/* ---- toy_spoil: a copy, but NaN in some steps of training ---- */
typedef struct {
  int64_t first, last;
} spoil_params;
static const sp_param spoil_table[] = {{.name = "first",
                                        .type = SP_PARAM_INT,
                                        .offset = offsetof(spoil_params, first),
                                        .imax = 1000000000,
                                        .doc = "step from which on all is NaN"},
                                       {.name = "last",
                                        .type = SP_PARAM_INT,
                                        .offset = offsetof(spoil_params, last),
                                        .idef = -1,
                                        .imin = -1,
                                        .imax = 1000000000,
                                        .doc = "last such step"},
                                       {.name = NULL}};
static const sp_port spoil_ports[] = {
    {.name = "x", .dtypes = SP_DT(SP_F32), .ndim = -1, .flags = SP_PORT_NOGRAD, .doc = "any shape"}, {.name = NULL}};
static int spoil_plan(sp_ctx *c, void *self, sp_plan *p) {
  (void)c, (void)self;
  p->out[0].spec[0] = p->in[0].spec[0];
  return SP_OK;
}
static int spoil_forward(sp_ctx *c, void *self, const sp_io *io) {
  const spoil_params *p = self;
  const sp_tensor *x = &io->in[0].t[0];
  int64_t at = (int64_t)io->step->step;
  size_t bytes = sizeof(float);
  (void)c;
  for (int i = 0; i < x->spec.ndim; i++) bytes *= (size_t)x->spec.shape[i];
  if (!io->step->training || at < p->first || at > p->last) memcpy(io->out[0].t[0].data, x->data, bytes);
  else memset(io->out[0].t[0].data, 0xff, bytes);
  return SP_OK;
}

#define TYPE(var, nm, fl, ins, outs, table, ps, cr, de, pl, fo, ba) \
  static const sp_stage_type var = {.size = sizeof(sp_stage_type),  \
                                    .flags = fl,                    \
                                    .name = nm,                     \
                                    .device = "cpu",                \
                                    .doc = "for tests",             \
                                    .inputs = ins,                  \
                                    .outputs = outs,                \
                                    .params = table,                \
                                    .params_size = sizeof(ps),      \
                                    .create = cr,                   \
                                    .destroy = de,                  \
                                    .plan = pl,                     \
                                    .forward = fo,                  \
                                    .backward = ba,                 \
                                    .status_doc = "sample %sample: value %value is above %limit"}
TYPE(t_source, "toy_source", SP_STAGE_SOURCE, NULL, source_out, source_table, source_params, source_create, free,
     source_plan, source_forward, NULL);
TYPE(t_mul, "toy_mul", SP_STAGE_INPLACE_SGD | SP_STAGE_CAPTURABLE, mul_in, mul_out, mul_table, mul_params, mul_create,
     free, mul_plan, mul_forward, mul_backward);
TYPE(t_loss, "toy_loss", SP_STAGE_LOSS | SP_STAGE_CAPTURABLE, mul_in, loss_out, loss_table, loss_params, loss_create,
     no_op, loss_plan, loss_forward, NULL);
TYPE(t_sgd, "toy_sgd", SP_STAGE_OPTIMIZER | SP_STAGE_INPLACE_SGD | SP_STAGE_CAPTURABLE, sgd_in, sgd_out, sgd_table,
     sgd_params, sgd_create, free, sgd_plan, sgd_forward, NULL);
TYPE(t_nop, "toy_nop", SP_STAGE_CAPTURABLE, nop_in, nop_out, NULL, char, loss_create, no_op, nop_plan, nop_forward,
     NULL);
TYPE(t_fill, "toy_fill", 0, NULL, fill_out, fill_table, fill_params, loss_create, no_op, fill_plan, fill_forward, NULL);
TYPE(t_probe, "toy_probe", 0, probe_in, probe_out, probe_table, probe_params, probe_create, free, probe_plan,
     probe_forward, NULL);
TYPE(t_spoil, "toy_spoil", SP_STAGE_CAPTURABLE, spoil_ports, spoil_ports, spoil_table, spoil_params, loss_create, no_op,
     spoil_plan, spoil_forward, NULL);

static const sp_stage_type *const all[] = {&t_source, &t_mul,   &t_loss,  &t_sgd, &t_nop,
                                           &t_fill,   &t_probe, &t_spoil, NULL};
SP_PLUGIN("toy", "stages for tests of the core", all);
