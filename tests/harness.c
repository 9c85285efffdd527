/* SPDX-License-Identifier: MIT
 * harness.c - runs one stage outside a graph, with guarded and poisoned buffers. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include <spcore/rng.h>

#include "../core/init.h"
#include "../core/registry.h"
#include "../core/stage.h"

#define GUARD 256 /* bytes before and behind each buffer; keeps SP_ALIGN */
#define GUARD_BYTE 0xA5
#define MAX_WEIGHTS 512
#define POISON_BYTE 0xFF /* NaN in every float type */

typedef struct buf {
  uint8_t *base;
  size_t bytes;
} buf;

typedef struct port {
  uint32_t n;
  sp_tensor t[MAX_WEIGHTS];
  buf mem[MAX_WEIGHTS];
  uint8_t hidden[MAX_WEIGHTS]; /* not wanted: data NULL in the call */
} port;

struct spt {
  sp_err err, msg; /* scratch for calls; the first failure since the last call that was well */
  sp_registry *reg;
  sp_team *team;
  sp_stage_host host;
  double seconds; /* of the latest call */
  sp_inst *inst;
  const sp_stage_type *type;
  int n_in, n_out;
  port *in, *out, *din, *dout, weight, dweight;
  sp_weight *w; /* as planned; names are copies */
  uint32_t n_w;
  sp_attr *attrs;
  uint32_t n_attrs;
  buf scratch, saved, scale_mem;
  int64_t batch, run_n;
  int training, frozen, torch, planned, forwarded, din_acc, dw_acc;
  uint64_t seed, epoch;
  uint64_t *ids;
  sp_step step;
};

static int oops(spt *t, int rc) {
  if (rc) {
    t->msg = t->err;
    t->msg.status = rc;
  }
  return rc;
}

#define FAIL(t, ...) oops(t, sp_fail(&(t)->err, __VA_ARGS__))

int spt_failed(const spt *t) { return t->msg.status; }
const char *spt_error(const spt *t) { return t->msg.status ? t->msg.msg : ""; }
void spt_note(spt *t, const sp_err *err) { t->msg = *err; }
const sp_stage_type *spt_type(const spt *t) { return t->type; }

/* ---- buffers ---- */
static int buf_new(spt *t, buf *b, int64_t bytes) {
  void *p = NULL;
  if (bytes < 0 || bytes > INT64_C(1) << 34)
    return FAIL(t, SP_E_SHAPE, "harness: a buffer of %lld bytes was asked for", (long long)bytes);
  size_t all = (size_t)bytes + 2 * GUARD;
  if (posix_memalign(&p, 256, all)) return oops(t, sp_nomem(&t->err, all, "a test buffer"));
  memset(p, GUARD_BYTE, all);
  memset((uint8_t *)p + GUARD, POISON_BYTE, (size_t)bytes);
  *b = (buf){p, (size_t)bytes};
  return SP_OK;
}

static void *buf_data(const buf *b) { return b->base && b->bytes ? b->base + GUARD : NULL; }

static bool buf_intact(const buf *b) {
  if (!b->base) return true;
  for (size_t i = 0; i < GUARD; i++)
    if (b->base[i] != GUARD_BYTE || b->base[GUARD + b->bytes + i] != GUARD_BYTE) return false;
  return true;
}

static void buf_poison(buf *b) {
  if (b->base) memset(b->base + GUARD, POISON_BYTE, b->bytes);
}

static void buf_free(buf *b) {
  free(b->base);
  *b = (buf){NULL, 0};
}

static void port_clear(port *p) {
  for (uint32_t i = 0; i < p->n; i++) buf_free(&p->mem[i]);
  memset(p, 0, sizeof *p);
}

static int port_add(spt *t, port *p, const sp_spec *spec) {
  if (p->n >= MAX_WEIGHTS) return FAIL(t, SP_E_RANGE, "harness: more than %d tensors on a port", MAX_WEIGHTS);
  int64_t bytes = sp_spec_bytes(spec);
  int rc = buf_new(t, &p->mem[p->n], bytes);
  if (rc) return rc;
  p->t[p->n].spec = *spec;
  p->t[p->n].data = p->mem[p->n].base + GUARD;
  p->n++;
  return SP_OK;
}

/* ---- making ---- */
static int count_ports(const sp_port *p) {
  int n = 0;
  while (p && p[n].name) n++;
  return n;
}

static int add_dirs(sp_registry *reg, sp_err *err) {
  const char *path = getenv("SPCORE_PLUGIN_PATH");
  if (!path || !*path) return sp_fail(err, SP_E_NOTFOUND, "harness: SPCORE_PLUGIN_PATH is not set");
  char *copy = sp_strdup(path), *rest = NULL;
  if (!copy) return sp_nomem(err, strlen(path), "SPCORE_PLUGIN_PATH");
  int rc = SP_OK;
  for (char *d = strtok_r(copy, ":", &rest); d && !rc; d = strtok_r(NULL, ":", &rest))
    rc = sp_registry_add_dir(reg, d, err);
  free(copy);
  return rc;
}

static void note_span(void *arg, const sp_span *span) { ((spt *)arg)->seconds = span->end - span->begin; }

static int open_stage(spt *t, const char *stage, const sp_value *params, int threads) {
  const sp_plugin_file *file;
  int rc;
  if ((rc = sp_registry_new(&t->reg, &t->err)) || (rc = add_dirs(t->reg, &t->err)) ||
      (rc = sp_team_new(&t->team, threads, &t->err)))
    return rc;
  t->host.team = t->team;
  t->host.threads = threads;
  t->host.observe = note_span;
  t->host.observe_arg = t;
  if ((rc = sp_registry_stage(t->reg, stage, "cpu", &t->type, &file, &t->err)) ||
      (rc = sp_inst_new(&t->inst, &t->host, stage, t->type, file, params, &t->err)))
    return rc;
  t->n_in = count_ports(t->type->inputs);
  t->n_out = count_ports(t->type->outputs);
  t->in = sp_calloc((size_t)t->n_in + 1, sizeof(port));
  t->din = sp_calloc((size_t)t->n_in + 1, sizeof(port));
  t->out = sp_calloc((size_t)t->n_out + 1, sizeof(port));
  t->dout = sp_calloc((size_t)t->n_out + 1, sizeof(port));
  if (!t->in || !t->din || !t->out || !t->dout) return sp_nomem(&t->err, sizeof(port), "test ports");
  sp_params_live(t->type->params, t->inst->params.data, t->step.live);
  return SP_OK;
}

spt *spt_new_value(const char *stage, const sp_value *params, int threads) {
  spt *t = sp_calloc(1, sizeof *t);
  if (!t) return NULL;
  t->seed = 1;
  t->step.loss_scale = 1;
  oops(t, open_stage(t, stage, params, threads));
  return t;
}

spt *spt_new(const char *stage, const char *params, int threads) {
  sp_value v = {.type = SP_V_NIL};
  sp_err err;
  if (params && spt_table(&v, params, &err)) {
    spt *t = sp_calloc(1, sizeof *t);
    if (t) t->msg = err;
    return t;
  }
  spt *t = spt_new_value(stage, params ? &v : NULL, threads);
  sp_value_free(&v);
  return t;
}

static void free_plan(spt *t) {
  for (int i = 0; i < t->n_in && t->din; i++) port_clear(&t->din[i]);
  for (int i = 0; i < t->n_out && t->out; i++) port_clear(&t->out[i]);
  for (int i = 0; i < t->n_out && t->dout; i++) port_clear(&t->dout[i]);
  port_clear(&t->weight);
  port_clear(&t->dweight);
  for (uint32_t i = 0; i < t->n_w; i++) free((char *)t->w[i].name);
  free(t->w);
  free(t->attrs);
  free(t->ids);
  buf_free(&t->scratch);
  buf_free(&t->saved);
  buf_free(&t->scale_mem);
  t->w = NULL;
  t->attrs = NULL;
  t->ids = NULL;
  t->n_w = t->n_attrs = 0;
  t->planned = t->forwarded = 0;
}

void spt_free(spt *t) {
  if (!t) return;
  free_plan(t);
  for (int i = 0; i < t->n_in && t->in; i++) port_clear(&t->in[i]);
  free(t->in);
  free(t->din);
  free(t->out);
  free(t->dout);
  if (t->inst) sp_inst_free(t->inst);
  if (t->team) sp_team_free(t->team);
  if (t->reg) sp_registry_free(t->reg);
  free(t);
}

static sp_spec row_major(const sp_spec *s) {
  sp_spec r = *s;
  r.order = SP_ROW_MAJOR;
  return r;
}

int spt_input(spt *t, int p, const sp_spec *spec, const void *data) {
  if (!t->type) return spt_failed(t);
  if (p < 0 || p >= t->n_in) return FAIL(t, SP_E_NOTFOUND, "harness: stage '%s' has no input %d", t->type->name, p);
  if (t->in[p].n >= SP_MAX_LIST) return FAIL(t, SP_E_RANGE, "harness: more than %d tensors on a port", SP_MAX_LIST);
  int rc = port_add(t, &t->in[p], spec);
  if (rc) return rc;
  sp_tensor *x = &t->in[p].t[t->in[p].n - 1];
  sp_spec rows = row_major(spec);
  if (data) sp_spec_copy(spec, x->data, &rows, data);
  else memset(x->data, 0, t->in[p].mem[t->in[p].n - 1].bytes);
  return SP_OK;
}

int spt_input_of(spt *t, int p, int dtype, int ndim, const int64_t *shape, int order, const void *data) {
  sp_spec s = {.dtype = dtype, .ndim = ndim, .order = order};
  if (ndim < 0 || ndim > SP_MAX_DIMS) return FAIL(t, SP_E_SHAPE, "harness: %d dimensions", ndim);
  for (int i = 0; i < ndim; i++) s.shape[i] = shape[i];
  return spt_input(t, p, &s, data);
}

void spt_set_batch(spt *t, int64_t n) { t->batch = n; }
void spt_set_seed(spt *t, uint64_t seed) { t->seed = seed; }
void spt_set_frozen(spt *t, int frozen) { t->frozen = frozen; }
void spt_set_torch(spt *t, int on) { t->torch = on; }
void spt_set_live(spt *t, int i, float v) {
  if (i >= 0 && i < SP_MAX_LIVE) t->step.live[i] = v;
}
void spt_set_id(spt *t, int64_t i, uint64_t id) {
  if (t->ids && i >= 0 && i < t->batch) t->ids[i] = id;
}
void spt_set_epoch(spt *t, uint64_t epoch) { t->epoch = epoch; }
void spt_set_loss_scale(spt *t, float scale) { t->step.loss_scale = scale; }
void spt_set_acc(spt *t, int din_acc, int dw_acc) { t->din_acc = din_acc, t->dw_acc = dw_acc; }

void spt_set_dw_scale(spt *t, float scale) {
  if (buf_data(&t->scale_mem)) memcpy(buf_data(&t->scale_mem), &scale, sizeof scale);
}

/* ---- planning ---- */
static int check_port(spt *t, const sp_port *p, const port *have, const char *side) {
  char text[160];
  if (!have->n && !(p->flags & (SP_PORT_OPTIONAL | SP_PORT_LIST)))
    return FAIL(t, SP_E_INVALID, "harness: %s '%s' has no tensor", side, p->name);
  if (have->n > 1 && !(p->flags & SP_PORT_LIST))
    return FAIL(t, SP_E_INVALID, "harness: %s '%s' takes one tensor", side, p->name);
  for (uint32_t i = 0; i < have->n; i++) {
    const sp_spec *s = &have->t[i].spec;
    if (p->dtypes && !(p->dtypes & SP_DT(s->dtype)))
      return FAIL(t, SP_E_DTYPE, "harness: %s '%s' does not take %s", side, p->name, sp_spec_str(s, text, sizeof text));
    if (p->ndim >= 0 && p->ndim != s->ndim)
      return FAIL(t, SP_E_SHAPE, "harness: %s '%s' wants %d dimensions, got %s", side, p->name, p->ndim,
                  sp_spec_str(s, text, sizeof text));
  }
  return SP_OK;
}

static bool is_float(const sp_spec *s) { return s->dtype == SP_F32 || s->dtype == SP_F64; }

static int add_outputs(spt *t, const sp_speclist *out) {
  int rc;
  for (int p = 0; p < t->n_out; p++) {
    const sp_port *desc = &t->type->outputs[p];
    if (out[p].n > out[p].cap)
      return FAIL(t, SP_E_INTERNAL, "output '%s': plan() filled %u of %u specs", desc->name, out[p].n, out[p].cap);
    for (uint32_t i = 0; i < out[p].n; i++) {
      if ((rc = port_add(t, &t->out[p], &out[p].spec[i]))) return rc;
      if (!is_float(&out[p].spec[i]) || desc->flags & (SP_PORT_NOGRAD | SP_PORT_STATUS)) continue;
      if ((rc = port_add(t, &t->dout[p], &out[p].spec[i]))) return rc;
      memset(t->dout[p].t[t->dout[p].n - 1].data, 0, t->dout[p].mem[t->dout[p].n - 1].bytes);
    }
    if ((rc = check_port(t, desc, &t->out[p], "output"))) return rc;
  }
  return SP_OK;
}

static int add_weights(spt *t, const sp_plan *plan) {
  int rc;
  if (plan->n_weights > MAX_WEIGHTS) return FAIL(t, SP_E_RANGE, "harness: %u weights", plan->n_weights);
  t->w = sp_calloc(plan->n_weights + 1, sizeof *t->w);
  if (!t->w) return oops(t, sp_nomem(&t->err, 0, "test weights"));
  for (uint32_t i = 0; i < plan->n_weights; i++) {
    t->w[i] = plan->weights[i];
    t->w[i].name = sp_strdup(plan->weights[i].name);
    t->n_w = i + 1;
    if (!t->w[i].name) return oops(t, sp_nomem(&t->err, 0, "test weights"));
    if ((rc = port_add(t, &t->weight, &t->w[i].spec)) || (rc = port_add(t, &t->dweight, &t->w[i].spec))) return rc;
    if (!(t->w[i].flags & SP_WEIGHT_TRAINED)) t->dweight.hidden[i] = 1;
  }
  return SP_OK;
}

static int init_weights(spt *t) {
  void *data[MAX_WEIGHTS];
  sp_mt19937 mt;
  sp_mt19937_seed(&mt, t->seed);
  for (uint32_t i = 0; i < t->n_w; i++) data[i] = t->weight.t[i].data;
  return oops(t, sp_init_weights(t->w, t->n_w, data, t->inst->name, t->seed, t->torch ? &mt : NULL, &t->err));
}

typedef struct call {
  sp_io io;
  sp_list *in, *out, *dout, *din;
  const uint8_t **acc;
  uint8_t flags[SP_MAX_LIST];
  sp_tensor *store;
  sp_tensor weights[MAX_WEIGHTS], dweights[MAX_WEIGHTS];
} call;

static void call_free(call *c) {
  free(c->in);
  free(c->out);
  free(c->dout);
  free(c->din);
  free(c->acc);
  free(c->store);
}

static sp_tensor shorten(const spt *t, sp_tensor x) {
  if (t->run_n != t->batch && x.spec.ndim > 0 && x.spec.shape[0] == t->batch) x.spec.shape[0] = t->run_n;
  return x;
}

static sp_list lend(const spt *t, const port *p, sp_tensor **store, bool shortens) {
  sp_list l = {p->n, 0, *store};
  for (uint32_t i = 0; i < p->n; i++, ++*store) {
    **store = shortens ? shorten(t, p->t[i]) : p->t[i];
    if (p->hidden[i]) (*store)->data = NULL;
  }
  return l;
}

/* The gradient list has one element per tensor of its port, data NULL where there is none. */
static sp_list lend_grad(const spt *t, const port *grad, const port *of, sp_tensor **store) {
  sp_list l = {of->n, 0, *store};
  for (uint32_t i = 0; i < of->n; i++, ++*store) {
    **store = shorten(t, of->t[i]);
    (*store)->data = i < grad->n && !grad->hidden[i] ? grad->t[i].data : NULL;
  }
  return l;
}

static int call_fill(spt *t, call *c, bool grads, bool prepare) {
  memset(c, 0, sizeof *c);
  size_t n_in = (size_t)t->n_in + 1, n_out = (size_t)t->n_out + 1, all = 2 * (n_in + n_out) * SP_MAX_LIST;
  c->in = sp_calloc(n_in, sizeof(sp_list)), c->din = sp_calloc(n_in, sizeof(sp_list));
  c->out = sp_calloc(n_out, sizeof(sp_list)), c->dout = sp_calloc(n_out, sizeof(sp_list));
  c->acc = sp_calloc(n_in, sizeof(uint8_t *)), c->store = sp_calloc(all, sizeof(sp_tensor));
  if (!c->in || !c->din || !c->out || !c->dout || !c->acc || !c->store)
    return oops(t, sp_nomem(&t->err, all * sizeof(sp_tensor), "a test call"));
  memset(c->flags, t->din_acc, sizeof c->flags);
  sp_tensor *store = c->store;
  for (int p = 0; p < t->n_in; p++) {
    c->in[p] = lend(t, &t->in[p], &store, true);
    c->acc[p] = c->flags;
    if (grads) c->din[p] = lend_grad(t, &t->din[p], &t->in[p], &store);
  }
  for (int p = 0; p < t->n_out; p++) {
    bool small = t->type->outputs[p].flags & (SP_PORT_METRIC | SP_PORT_STATUS);
    c->out[p] = lend(t, &t->out[p], &store, !small);
    if (grads) c->dout[p] = lend_grad(t, &t->dout[p], &t->out[p], &store);
  }
  float scale = 0;
  if (buf_data(&t->scale_mem)) memcpy(&scale, buf_data(&t->scale_mem), sizeof scale);
  for (uint32_t i = 0; i < t->n_w; i++) {
    c->weights[i] = t->weight.t[i];
    c->dweights[i] = t->dweight.t[i];
    if (t->dweight.hidden[i] || scale != 0) c->dweights[i].data = NULL;
  }
  c->io = (sp_io){.size = sizeof(sp_io),
                  .training = (uint32_t)t->training,
                  .step = prepare ? NULL : &t->step,
                  .ids = prepare ? NULL : t->ids,
                  .n_in = (uint32_t)t->n_in,
                  .n_out = (uint32_t)t->n_out,
                  .n_weights = t->n_w,
                  .in = c->in,
                  .out = c->out,
                  .dout = grads ? c->dout : NULL,
                  .din = grads ? c->din : NULL,
                  .din_acc = grads ? c->acc : NULL,
                  .weights = c->weights,
                  .dweights = c->dweights,
                  .dw_acc = (uint32_t)t->dw_acc,
                  .dw_scale = scale != 0 ? buf_data(&t->scale_mem) : NULL,
                  .scratch = buf_data(&t->scratch),
                  .saved = buf_data(&t->saved)};
  return SP_OK;
}

static int prepare(spt *t) {
  call c;
  int rc = SP_OK;
  if (!t->type->prepare) return SP_OK;
  if (!(rc = call_fill(t, &c, t->training, true)) && t->type->prepare)
    rc = oops(t, sp_inst_prepare(t->inst, &c.io, NULL, &t->err));
  call_free(&c);
  return rc;
}

static int plan_ids(spt *t) {
  t->ids = sp_calloc((size_t)t->batch + 1, sizeof *t->ids);
  if (!t->ids) return oops(t, sp_nomem(&t->err, 0, "test ids"));
  for (int64_t i = 0; i < t->batch; i++) t->ids[i] = SP_ID(t->epoch, i);
  return SP_OK;
}

static int plan_with(spt *t, sp_speclist *in, sp_speclist *out, sp_spec *store) {
  int rc;
  sp_plan plan = {.size = sizeof plan,
                  .training = (uint32_t)t->training,
                  .n_in = (uint32_t)t->n_in,
                  .n_out = (uint32_t)t->n_out,
                  .batch = t->batch,
                  .frozen = t->frozen,
                  .in = in,
                  .out = out};
  for (int p = 0; p < t->n_in; p++) {
    if ((rc = check_port(t, &t->type->inputs[p], &t->in[p], "input"))) return rc;
    in[p] = (sp_speclist){t->in[p].n, t->in[p].n, store};
    for (uint32_t i = 0; i < t->in[p].n; i++) *store++ = t->in[p].t[i].spec;
  }
  for (int p = 0; p < t->n_out; p++, store += SP_MAX_LIST)
    out[p] = (sp_speclist){0, t->type->outputs[p].flags & SP_PORT_LIST ? SP_MAX_LIST : 1, store};
  if ((rc = sp_inst_plan(t->inst, &plan, &t->err))) return oops(t, rc);
  if ((rc = add_outputs(t, out)) || (rc = add_weights(t, &plan)) || (rc = plan_ids(t)) ||
      (rc = buf_new(t, &t->scratch, (int64_t)plan.scratch_bytes)) ||
      (rc = buf_new(t, &t->saved, (int64_t)plan.saved_bytes)) || (rc = buf_new(t, &t->scale_mem, sizeof(float))))
    return rc;
  spt_set_dw_scale(t, 0);
  t->attrs = sp_calloc(plan.n_attrs + 1, sizeof *t->attrs);
  if (!t->attrs) return oops(t, sp_nomem(&t->err, 0, "test attributes"));
  if (plan.n_attrs) memcpy(t->attrs, plan.attrs, plan.n_attrs * sizeof *t->attrs);
  t->n_attrs = plan.n_attrs;
  return SP_OK;
}

static int add_din(spt *t) {
  int rc;
  for (int p = 0; p < t->n_in; p++) {
    bool no = t->type->inputs[p].flags & SP_PORT_NOGRAD;
    for (uint32_t i = 0; i < t->in[p].n; i++) {
      if ((rc = port_add(t, &t->din[p], &t->in[p].t[i].spec))) return rc;
      if (no || !is_float(&t->in[p].t[i].spec)) t->din[p].hidden[i] = 1;
    }
  }
  return SP_OK;
}

int spt_plan(spt *t, int training) {
  int rc;
  if (!t->type) return spt_failed(t);
  t->msg.status = SP_OK;
  free_plan(t);
  t->training = training != 0;
  if (!t->batch) t->batch = t->n_in && t->in[0].n && t->in[0].t[0].spec.ndim ? t->in[0].t[0].spec.shape[0] : 1;
  t->run_n = t->batch;
  t->step.key = sp_rng_key(t->seed, t->inst->name);
  sp_speclist *in = sp_calloc((size_t)t->n_in + 1, sizeof *in), *out = sp_calloc((size_t)t->n_out + 1, sizeof *out);
  sp_spec *store = sp_calloc((size_t)(t->n_in + t->n_out + 1) * SP_MAX_LIST, sizeof *store);
  if (!in || !out || !store) rc = oops(t, sp_nomem(&t->err, 0, "test specs"));
  else rc = plan_with(t, in, out, store);
  free(in);
  free(out);
  free(store);
  if (rc || (rc = add_din(t)) || (rc = init_weights(t)) || (rc = prepare(t))) return rc;
  t->planned = 1;
  return SP_OK;
}

int spt_run_batch(spt *t, int64_t n) {
  if (!t->planned || n < 1 || n > t->batch)
    return FAIL(t, SP_E_RANGE, "harness: a batch of %lld was not planned", (long long)n);
  t->run_n = n;
  return prepare(t);
}

/* ---- running ---- */
static uint64_t hash_port(uint64_t h, const port *p) {
  for (uint32_t i = 0; i < p->n; i++) h = sp_fnv64(h, p->t[i].data, p->mem[i].bytes);
  return h;
}

static uint64_t hash_fixed(const spt *t, bool weights) {
  uint64_t h = SP_FNV64;
  for (int p = 0; p < t->n_in; p++) h = hash_port(h, &t->in[p]);
  for (uint32_t i = 0; i < t->n_w && weights; i++)
    if (t->w[i].flags & SP_WEIGHT_TRAINED) h = sp_fnv64(h, t->weight.t[i].data, t->weight.mem[i].bytes);
  return h;
}

static int check_port_guards(spt *t, const port *ports, int n, const char *what) {
  for (int p = 0; p < n; p++)
    for (uint32_t i = 0; i < ports[p].n; i++)
      if (!buf_intact(&ports[p].mem[i]))
        return FAIL(t, SP_E_INTERNAL, "stage '%s' wrote outside of %s %d, tensor %u", t->inst->name, what, p, i);
  return SP_OK;
}

static int check_guards(spt *t) {
  int rc;
  if ((rc = check_port_guards(t, t->in, t->n_in, "input")) || (rc = check_port_guards(t, t->out, t->n_out, "output")) ||
      (rc = check_port_guards(t, t->din, t->n_in, "input gradient")) ||
      (rc = check_port_guards(t, t->dout, t->n_out, "output gradient")) ||
      (rc = check_port_guards(t, &t->weight, 1, "weight")) ||
      (rc = check_port_guards(t, &t->dweight, 1, "weight gradient")))
    return rc;
  if (!buf_intact(&t->scratch)) return FAIL(t, SP_E_INTERNAL, "stage '%s' wrote outside of scratch", t->inst->name);
  if (!buf_intact(&t->saved)) return FAIL(t, SP_E_INTERNAL, "stage '%s' wrote outside of saved", t->inst->name);
  return SP_OK;
}

/* The words of status_doc with its three places filled in. */
static int report_status(spt *t, const int64_t *s) {
  static const char *const places[] = {"%sample", "%value", "%limit"};
  sp_sb sb = {0};
  for (const char *p = t->type->status_doc ? t->type->status_doc : "no words"; *p;) {
    int hit = -1;
    for (int k = 0; k < 3; k++)
      if (!strncmp(p, places[k], strlen(places[k]))) hit = k;
    if (hit < 0) sp_sb_putf(&sb, "%c", *p++);
    else sp_sb_putf(&sb, "%lld", (long long)s[1 + hit]), p += strlen(places[hit]);
  }
  int rc = FAIL(t, (int)s[0], "stage '%s': %s", t->inst->name, sp_sb_str(&sb));
  sp_sb_free(&sb);
  return rc;
}

static int check_status(spt *t) {
  for (int p = 0; p < t->n_out; p++) {
    if (!(t->type->outputs[p].flags & SP_PORT_STATUS)) continue;
    const int64_t *s = t->out[p].t[0].data;
    if (s[0]) return report_status(t, s);
  }
  return SP_OK;
}

static void poison_outputs(spt *t) {
  if (t->type->flags & SP_STAGE_OPTIMIZER) return;
  for (int p = 0; p < t->n_out; p++)
    for (uint32_t i = 0; i < t->out[p].n; i++) buf_poison(&t->out[p].mem[i]);
}

int spt_forward(spt *t, uint64_t step) {
  call c;
  int rc;
  if (!t->planned) return t->msg.status ? t->msg.status : FAIL(t, SP_E_STATE, "harness: spt_plan comes first");
  bool loss = t->type->flags & SP_STAGE_LOSS && t->training;
  t->step.step = step;
  t->step.epoch = t->epoch;
  t->step.n = (uint32_t)t->run_n;
  t->step.training = (uint32_t)t->training;
  poison_outputs(t);
  buf_poison(&t->scratch);
  buf_poison(&t->saved);
  uint64_t before = hash_fixed(t, true);
  if (!(rc = call_fill(t, &c, loss, false))) rc = oops(t, sp_inst_forward(t->inst, &c.io, step, NULL, NULL, &t->err));
  call_free(&c);
  if (rc || (rc = check_guards(t))) return rc;
  if (hash_fixed(t, true) != before)
    return FAIL(t, SP_E_INTERNAL, "stage '%s' changed an input or a trained weight in forward()", t->inst->name);
  t->forwarded = 1;
  return check_status(t);
}

int spt_backward(spt *t) {
  call c;
  int rc;
  if (!t->forwarded) return t->msg.status ? t->msg.status : FAIL(t, SP_E_STATE, "harness: spt_forward comes first");
  if (!t->training) return FAIL(t, SP_E_STATE, "harness: planned without training");
  buf_poison(&t->scratch);
  float scale;
  memcpy(&scale, buf_data(&t->scale_mem), sizeof scale);
  uint64_t before = hash_fixed(t, scale == 0);
  if (!(rc = call_fill(t, &c, true, false)))
    rc = oops(t, sp_inst_backward(t->inst, &c.io, t->step.step, NULL, NULL, &t->err));
  call_free(&c);
  if (rc || (rc = check_guards(t))) return rc;
  if (hash_fixed(t, scale == 0) != before)
    return FAIL(t, SP_E_INTERNAL, "stage '%s' changed an input or a weight in backward()", t->inst->name);
  return SP_OK;
}

/* ---- reading and setting ---- */
static const port *find_port(const spt *t, int what, int p) {
  switch (what) {
    case SPT_IN: return p >= 0 && p < t->n_in ? &t->in[p] : NULL;
    case SPT_DIN: return p >= 0 && p < t->n_in ? &t->din[p] : NULL;
    case SPT_OUT: return p >= 0 && p < t->n_out ? &t->out[p] : NULL;
    case SPT_DOUT: return p >= 0 && p < t->n_out ? &t->dout[p] : NULL;
    case SPT_WEIGHT: return p == 0 ? &t->weight : NULL;
    case SPT_DWEIGHT: return p == 0 ? &t->dweight : NULL;
    default: return NULL;
  }
}

int spt_ports(const spt *t, int what) {
  if (what == SPT_WEIGHT || what == SPT_DWEIGHT) return 1;
  return what == SPT_IN || what == SPT_DIN ? t->n_in : t->n_out;
}

int spt_count(const spt *t, int what, int p) {
  const port *q = find_port(t, what, p);
  return q ? (int)q->n : 0;
}

const sp_spec *spt_spec(const spt *t, int what, int p, int i) {
  const port *q = find_port(t, what, p);
  return q && i >= 0 && i < (int)q->n ? &q->t[i].spec : NULL;
}

void *spt_raw(spt *t, int what, int p, int i) {
  const port *q = find_port(t, what, p);
  return q && i >= 0 && i < (int)q->n ? q->t[i].data : NULL;
}

int spt_set(spt *t, int what, int p, int i, const void *data) {
  const sp_spec *s = spt_spec(t, what, p, i);
  if (!s) return FAIL(t, SP_E_NOTFOUND, "harness: no tensor %d of port %d", i, p);
  sp_spec rows = row_major(s);
  sp_spec_copy(s, spt_raw(t, what, p, i), &rows, data);
  return SP_OK;
}

int spt_get(spt *t, int what, int p, int i, void *data) {
  const sp_spec *s = spt_spec(t, what, p, i);
  if (!s) return FAIL(t, SP_E_NOTFOUND, "harness: no tensor %d of port %d", i, p);
  sp_spec rows = row_major(s);
  sp_spec_copy(&rows, data, s, spt_raw(t, what, p, i));
  return SP_OK;
}

void spt_want(spt *t, int what, int p, int i, int wanted) {
  port *q = (port *)find_port(t, what, p);
  if (q && i >= 0 && i < (int)q->n) q->hidden[i] = !wanted;
}

const sp_weight *spt_weight(const spt *t, int i) { return i >= 0 && i < (int)t->n_w ? &t->w[i] : NULL; }

const char *spt_weight_name(const spt *t, int i) {
  const sp_weight *w = spt_weight(t, i);
  return w ? w->name : NULL;
}

int spt_weight_index(const spt *t, const char *name) {
  for (uint32_t i = 0; i < t->n_w; i++)
    if (!strcmp(t->w[i].name, name)) return (int)i;
  return -1;
}

const char *spt_port_name(const spt *t, int what, int p) {
  if (p < 0 || p >= spt_ports(t, what)) return NULL;
  return what == SPT_IN || what == SPT_DIN ? t->type->inputs[p].name : t->type->outputs[p].name;
}

int spt_port_index(const spt *t, int what, const char *name) {
  for (int p = 0; p < spt_ports(t, what); p++)
    if (!strcmp(spt_port_name(t, what, p), name)) return p;
  return -1;
}

int spt_attr(const spt *t, const char *name, double *value) {
  for (uint32_t i = 0; i < t->n_attrs; i++) {
    if (strcmp(t->attrs[i].name, name)) continue;
    *value = t->attrs[i].value;
    return 1;
  }
  return 0;
}

double spt_seconds(const spt *t) { return t->seconds; }
size_t spt_bytes(const spt *t, int saved) { return saved ? t->saved.bytes : t->scratch.bytes; }

void spt_random(float *dst, int64_t n, uint64_t seed, float lo, float hi) {
  uint64_t key = sp_rng_key(seed, "test");
  for (int64_t i = 0; i < n; i++) dst[i] = lo + (hi - lo) * sp_rng_float(sp_rng(key, (uint64_t)i, 0).v[0]);
}

int spt_format(const char *path, const sp_format_type **type, sp_err *err) {
  static sp_registry *reg; /* what it loads is never unloaded, so one serves all tests of a process */
  int rc;
  if (!reg && ((rc = sp_registry_new(&reg, err)) || (rc = add_dirs(reg, err)))) return rc;
  return sp_registry_format(reg, path, type, err);
}
