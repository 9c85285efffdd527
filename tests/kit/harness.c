/* SPDX-License-Identifier: MIT
 * harness.c - runs one stage outside a graph, with guarded and poisoned buffers. */
#include "harness_impl.h"

#include <stdlib.h>
#include <string.h>

#define FAIL SPT_FAIL

typedef spt_buf buf;
typedef spt_port port;
typedef spt_call call;

int spt_oops(spt *t, int rc) {
  if (rc) {
    t->msg = t->err;
    t->msg.status = rc;
  }
  return rc;
}

int spt_failed(const spt *t) { return t->msg.status; }
const char *spt_error(const spt *t) { return t->msg.status ? t->msg.msg : ""; }
void spt_note(spt *t, const sp_err *err) { t->msg = *err; }
const sp_stage_type *spt_type(const spt *t) { return t->type; }

/* ---- making ---- */
static int count_ports(const sp_port *p) {
  int n = 0;
  while (p && p[n].name) n++;
  return n;
}

int spt_add_dirs(sp_registry *reg, sp_err *err) {
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

static const void *extension(void *arg, const char *id) {
  const spt *t = arg;
  if (!strcmp(id, SP_EXT_PRECISION)) return &t->precision;
  return t->solo ? sp_solo_extension(t->solo, id) : NULL;
}

static int open_stage(spt *t, const char *device, const char *stage, const sp_value *params, int threads) {
  const sp_plugin_file *file;
  char kind[64];
  int rc;
  if ((rc = spt_open_device(device, &t->solo, kind, sizeof kind, &t->err))) return rc;
  if ((rc = sp_registry_new(&t->reg, &t->err)) || (rc = spt_add_dirs(t->reg, &t->err)) ||
      (rc = sp_team_new(&t->team, threads, &t->err)))
    return rc;
  t->host.team = t->team;
  t->host.threads = threads;
  t->host.observe = note_span;
  t->host.observe_arg = t;
  t->host.extension = extension;
  t->host.extension_arg = t;
  if ((rc = sp_registry_stage(t->reg, stage, kind, &t->type, &file, &t->err)) ||
      (rc = sp_inst_new(&t->inst, &t->host, stage, t->type, file, params, NULL, &t->err)))
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

static spt *new_on(const char *device, const char *stage, const sp_value *params, int threads) {
  spt *t = sp_calloc(1, sizeof *t);
  if (!t) return NULL;
  t->seed = 1;
  t->step.loss_scale = 1;
  t->precision = (sp_precision){sizeof t->precision, SP_PRECISION_FP32};
  spt_oops(t, open_stage(t, device, stage, params, threads));
  return t;
}

spt *spt_new_value(const char *stage, const sp_value *params, int threads) {
  return new_on("cpu", stage, params, threads);
}

spt *spt_new_on(const char *device, const char *stage, const char *params, int threads) {
  sp_value v = {.type = SP_V_NIL};
  sp_err err;
  if (params && spt_table(&v, params, &err)) {
    spt *t = sp_calloc(1, sizeof *t);
    if (t) t->msg = err;
    return t;
  }
  spt *t = new_on(device, stage, params ? &v : NULL, threads);
  sp_value_free(&v);
  return t;
}

spt *spt_new(const char *stage, const char *params, int threads) { return spt_new_on("cpu", stage, params, threads); }

static void call_free(call *c) {
  if (!c) return;
  free(c->lists);
  free(c->acc);
  free(c->store);
  free(c);
}

void spt_free_graphs(spt *t) {
  for (size_t k = 0; k < SP_ARRAY(t->graph); k++) {
    if (t->graph[k]) t->solo->type->graph_close(t->graph[k]);
    call_free(t->kept[k]);
    t->graph[k] = NULL;
    t->kept[k] = NULL;
  }
}

void spt_free(spt *t) {
  if (!t) return;
  spt_free_plan(t);
  for (int i = 0; i < t->n_in && t->in; i++) spt_port_clear(t, &t->in[i]);
  free(t->in);
  free(t->din);
  free(t->out);
  free(t->dout);
  if (t->inst && !t->shared) sp_inst_free(t->inst);
  if (t->team) sp_team_free(t->team);
  if (t->reg) sp_registry_free(t->reg);
  spt_release_device(t->solo);
  free(t);
}

void spt_share(spt *t, spt *of) {
  if (!t->shared) sp_inst_free(t->inst);
  t->inst = of->inst;
  t->shared = 1;
  of->host.observe = NULL; /* one place for the seconds of all */
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
  int rc = spt_port_add(t, &t->in[p], spec);
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
  uint64_t *ids = spt_buf_data(&t->ids_mem);
  if (ids && i >= 0 && i < t->batch) ids[i] = id;
}
void spt_set_epoch(spt *t, uint64_t epoch) { t->epoch = epoch; }
void spt_set_loss_scale(spt *t, float scale) { t->step.loss_scale = scale; }
void spt_set_parts(spt *t, int max_parts, uint64_t bytes) { t->max_parts = (uint32_t)max_parts, t->part_bytes = bytes; }
void spt_set_shards(spt *t, int shards) { t->shards = (uint32_t)shards; }
void spt_set_groups(spt *t, int n, const sp_group *groups) { t->n_groups = (uint32_t)n, t->groups = groups; }
void spt_set_shard(spt *t, int shard) { t->step.shard = (uint32_t)shard; }
void spt_set_precision(spt *t, int precision) { t->precision.precision = precision; }
void spt_set_capture(spt *t, int how) { t->capture = how; }
void spt_set_acc(spt *t, int din_acc, int dw_acc) { t->din_acc = din_acc, t->dw_acc = dw_acc; }

void spt_set_dw_scale(spt *t, float scale) {
  if (spt_buf_data(&t->scale_mem)) memcpy(spt_buf_data(&t->scale_mem), &scale, sizeof scale);
}

/* ---- calls ---- */
static sp_tensor shorten(const spt *t, sp_tensor x) {
  if (t->run_n != t->batch && x.spec.ndim > 0 && x.spec.shape[0] == t->batch) x.spec.shape[0] = t->run_n;
  return x;
}

/* As t[i].data, in the stage's memory. */
static void *lent(const port *p, uint32_t i) { return (p->mem[i].twin ? p->mem[i].twin : p->mem[i].base) + SPT_GUARD; }

static sp_list lend(const spt *t, const port *p, sp_tensor **store, bool shortens) {
  sp_list l = {p->n, 0, *store};
  for (uint32_t i = 0; i < p->n; i++, ++*store) {
    **store = shortens ? shorten(t, p->t[i]) : p->t[i];
    (*store)->data = p->hidden[i] ? NULL : lent(p, i);
  }
  return l;
}

/* The gradient list has one element per tensor of its port, data NULL where there is none, or none is wanted. */
static sp_list lend_grad(const spt *t, const port *grad, const port *of, bool wanted, sp_tensor **store) {
  sp_list l = {of->n, 0, *store};
  for (uint32_t i = 0; i < of->n; i++, ++*store) {
    **store = shorten(t, of->t[i]);
    (*store)->data = wanted && i < grad->n && !grad->hidden[i] ? lent(grad, i) : NULL;
  }
  return l;
}

/* all: those of all shards. */
static void lend_rows(const spt *t, call *c, bool all) {
  for (uint32_t i = 0; i < t->rows.n; i++) {
    c->factors[i] = (sp_tensor){t->rows.t[i].spec, lent(&t->rows, i)};
    if (all) continue;
    c->factors[i].spec.shape[0] /= t->shards;
    c->factors[i].data = (char *)c->factors[i].data + t->step.shard * (size_t)sp_spec_bytes(&c->factors[i].spec);
  }
}

static int lend_ports(spt *t, call *c, bool grads) {
  size_t n_in = (size_t)t->n_in, n_out = (size_t)t->n_out, lists = 2 * (n_in + n_out), all = lists * SP_MAX_LIST;
  c->lists = sp_calloc(lists + 1, sizeof *c->lists);
  c->acc = sp_calloc(n_in + 1, sizeof *c->acc), c->store = sp_calloc(all + 1, sizeof *c->store);
  if (!c->lists || !c->acc || !c->store) return spt_oops(t, sp_nomem(&t->err, all * sizeof(sp_tensor), "a test call"));
  memset(c->flags, t->din_acc, sizeof c->flags);
  sp_tensor *store = c->store;
  sp_list *in = c->lists, *out = in + n_in, *dout = out + n_out, *din = dout + n_out;
  for (size_t p = 0; p < n_in; p++) {
    in[p] = lend(t, &t->in[p], &store, true);
    c->acc[p] = c->flags;
    din[p] = lend_grad(t, &t->din[p], &t->in[p], grads, &store);
  }
  for (size_t p = 0; p < n_out; p++) {
    bool small = t->type->outputs[p].flags & (SP_PORT_METRIC | SP_PORT_STATUS | SP_PORT_TOTAL);
    out[p] = lend(t, &t->out[p], &store, !small);
    dout[p] = lend_grad(t, &t->dout[p], &t->out[p], grads, &store);
  }
  return SP_OK;
}

/* Gradients of weights that are made of factors come from apply(), those of all others from backward(). */
static void lend_weights(const spt *t, call *c, bool apply, bool in_place) {
  for (uint32_t i = 0; i < t->n_w; i++) {
    bool product = t->w[i].flags & SP_WEIGHT_FACTORS, gives = product == apply && !in_place && !t->dweight.hidden[i];
    c->weights[i] = (sp_tensor){t->weight.t[i].spec, lent(&t->weight, i)};
    c->dweights[i] = (sp_tensor){t->dweight.t[i].spec, gives ? lent(&t->dweight, i) : NULL};
  }
}

/* in_place, of apply(): weights are updated. */
static int call_new(spt *t, call **out, sp_call_kind kind, bool grads, bool in_place) {
  bool apply = kind == SP_CALL_APPLY;
  call *c = *out = sp_calloc(1, sizeof *c);
  if (!c) return spt_oops(t, sp_nomem(&t->err, sizeof *c, "a test call"));
  if (!apply && lend_ports(t, c, grads)) return t->msg.status;
  float scale = 0;
  if (spt_buf_data(&t->scale_mem)) memcpy(&scale, spt_buf_data(&t->scale_mem), sizeof scale);
  lend_weights(t, c, apply, apply ? in_place : scale != 0);
  lend_rows(t, c, apply || kind == SP_CALL_PREPARE);
  const sp_io_parts parts = {.training = apply || t->training,
                             .n_in = (uint32_t)t->n_in,
                             .n_out = (uint32_t)t->n_out,
                             .lists = c->lists,
                             .din_acc = grads ? c->acc : NULL,
                             .n_weights = t->n_w,
                             .n_factors = t->rows.n,
                             .weights = c->weights,
                             .dweights = c->dweights,
                             .factors = c->factors,
                             .dw_acc = !apply && t->dw_acc,
                             .part = t->part,
                             .dw_scale = apply || scale != 0 ? spt_buf_lent(&t->scale_mem) : NULL,
                             .step = t->stepless ? NULL : spt_buf_lent(&t->step_mem),
                             .ids = t->stepless ? NULL : spt_buf_lent(&t->ids_mem),
                             .scratch = spt_buf_lent(&t->scratch),
                             .saved = spt_buf_lent(&t->saved),
                             .consts = spt_buf_lent(&t->consts)};
  sp_io_fill(&c->io, kind, &parts);
  return SP_OK;
}

/* As FNV, but eight bytes at a time: networks under test have 45 million weights, hashed around every call. */
static uint64_t hash(uint64_t h, const void *data, size_t bytes) {
  const uint8_t *p = data;
  uint64_t word;
  for (; bytes >= sizeof word; p += sizeof word, bytes -= sizeof word) {
    memcpy(&word, p, sizeof word);
    h = (h ^ word) * UINT64_C(0x100000001b3);
    h ^= h >> 29; /* what only the high bits of a word say must not be lost */
  }
  return sp_fnv64(h, p, bytes);
}

static uint64_t hash_weights(const spt *t) {
  uint64_t h = SP_FNV64;
  for (uint32_t i = 0; i < t->n_w; i++) h = hash(h, t->weight.t[i].data, t->weight.mem[i].bytes);
  return h;
}

/* On a device the buffers hold garbage afterwards; their host sides, which the next call brings there, do not. */
int spt_prepare(spt *t) {
  call *c;
  int rc = SP_OK;
  if (!t->type->prepare) return SP_OK;
  uint64_t before = t->consts_of = hash_weights(t);
  void *native = t->solo ? sp_solo_native(t->solo) : NULL;
  if ((rc = spt_upload(t))) return rc;
  if (!(rc = call_new(t, &c, SP_CALL_PREPARE, t->training, false)))
    rc = spt_oops(t, sp_inst_prepare(t->inst, &c->io, native, &t->err));
  call_free(c);
  if (rc || (rc = spt_download(t, true))) return rc;
  if (hash_weights(t) == before) return SP_OK;
  return FAIL(t, SP_E_INTERNAL, "stage '%s' changed a weight in prepare()", t->inst->name);
}

int spt_run_batch(spt *t, int64_t n) {
  if (!t->planned || n < (t->rows.n ? 0 : 1) || n > t->batch)
    return FAIL(t, SP_E_RANGE, "harness: a batch of %lld was not planned", (long long)n);
  t->run_n = n;
  return n ? spt_prepare(t) : SP_OK;
}

/* ---- running ---- */
static uint64_t hash_port(uint64_t h, const port *p) {
  for (uint32_t i = 0; i < p->n; i++) h = hash(h, p->t[i].data, p->mem[i].bytes);
  return h;
}

static uint64_t hash_fixed(const spt *t, bool weights) {
  uint64_t h = SP_FNV64;
  int n = t->type->flags & SP_STAGE_OPTIMIZER ? 1 : t->n_in; /* statistics may be put back */
  for (int p = 0; p < n && p < t->n_in; p++) h = hash_port(h, &t->in[p]);
  for (uint32_t i = 0; i < t->n_w && weights; i++)
    if (t->w[i].flags & SP_WEIGHT_TRAINED) h = hash(h, t->weight.t[i].data, t->weight.mem[i].bytes);
  return h;
}

static int check_port_guards(spt *t, const port *ports, int n, const char *what) {
  for (int p = 0; p < n; p++)
    for (uint32_t i = 0; i < ports[p].n; i++)
      if (!spt_buf_intact(&ports[p].mem[i]))
        return FAIL(t, SP_E_INTERNAL, "stage '%s' wrote outside of %s %d, tensor %u", t->inst->name, what, p, i);
  return SP_OK;
}

static int check_guards(spt *t) {
  int rc;
  if ((rc = check_port_guards(t, t->in, t->n_in, "input")) || (rc = check_port_guards(t, t->out, t->n_out, "output")) ||
      (rc = check_port_guards(t, t->din, t->n_in, "input gradient")) ||
      (rc = check_port_guards(t, t->dout, t->n_out, "output gradient")) ||
      (rc = check_port_guards(t, &t->weight, 1, "weight")) ||
      (rc = check_port_guards(t, &t->dweight, 1, "weight gradient")) ||
      (rc = check_port_guards(t, &t->rows, 1, "factor")))
    return rc;
  if (!spt_buf_intact(&t->scratch)) return FAIL(t, SP_E_INTERNAL, "stage '%s' wrote outside of scratch", t->inst->name);
  if (!spt_buf_intact(&t->saved)) return FAIL(t, SP_E_INTERNAL, "stage '%s' wrote outside of saved", t->inst->name);
  if (!spt_buf_intact(&t->consts)) return FAIL(t, SP_E_INTERNAL, "stage '%s' wrote outside of consts", t->inst->name);
  if (!spt_buf_intact(&t->step_mem) || memcmp(spt_buf_data(&t->step_mem), &t->step, sizeof t->step) ||
      !spt_buf_intact(&t->ids_mem) || !spt_buf_intact(&t->scale_mem))
    return FAIL(t, SP_E_INTERNAL, "stage '%s' wrote to step, ids or dw_scale", t->inst->name);
  return SP_OK;
}

/* The words of status_doc with its three places filled in. */
static int report_status(spt *t, const int64_t *s) {
  sp_sb sb = {0};
  sp_status_text(t->type, s, &sb);
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
    for (uint32_t i = 0; i < t->out[p].n; i++) spt_buf_poison(&t->out[p].mem[i]);
}

/* One call of the stage, as t->capture says. */
/* Keeps the call as a graph, which launch() runs and waits for, any number of times. */
static int capture(sp_solo *s, sp_solo_call *c, void **graph, sp_err *err) {
  const sp_device_type *type = s->type;
  sp_ctx_holder h;
  sp_err end;
  *graph = NULL;
  if (!(type->flags & SP_DEVICE_CAPTURE))
    return sp_fail(err, SP_E_UNSUPPORTED, "device '%s' does not capture", type->name);
  int status = type->capture_begin(sp_ctx_for(&h, type->name, err), s->stream);
  if (status) return status;
  status = sp_solo_submit(s, c, err);
  int ended = type->capture_end(sp_ctx_for(&h, type->name, &end), s->stream, graph);
  if (!status && !c->rc && ended) *err = end;
  status = sp_solo_finish(s, c, status || c->rc ? status : ended, err);
  if (status && *graph) type->graph_close(*graph), *graph = NULL;
  return status;
}

static int launch(sp_solo *s, const sp_solo_call *c, void *graph, sp_err *err) {
  sp_ctx_holder h;
  return sp_solo_finish(s, c, s->type->graph_launch(sp_ctx_for(&h, s->type->name, err), graph, s->stream), err);
}

static int run_on_device(spt *t, call *c) {
  int rc, k = (int)c->solo.kind;
  double begin = sp_now();
  if (!t->capture) {
    rc = sp_solo_run(t->solo, &c->solo, &t->err);
    t->seconds = sp_now() - begin;
    return rc;
  }
  if (t->graph[k]) t->solo->type->graph_close(t->graph[k]);
  call_free(t->kept[k]);
  t->kept[k] = c;
  t->graph[k] = NULL;
  rc = capture(t->solo, &c->solo, &t->graph[k], &t->err);
  return rc ? rc : launch(t->solo, &c->solo, t->graph[k], &t->err);
}

static int replay(spt *t, sp_call_kind k) {
  if (!t->graph[k]) return sp_fail(&t->err, SP_E_STATE, "harness: there is nothing to replay");
  return launch(t->solo, &t->kept[k]->solo, t->graph[k], &t->err);
}

static int run(spt *t, sp_call_kind kind, bool grads, bool in_place) {
  call *c = NULL;
  int rc;
  memcpy(spt_buf_data(&t->step_mem), &t->step, sizeof t->step);
  if (t->consts.bytes && t->consts_of != hash_weights(t) && (rc = spt_prepare(t))) return rc;
  if (t->solo && t->capture == SPT_REPLAY) {
    if ((rc = spt_upload(t)) || (rc = spt_oops(t, replay(t, kind)))) return rc;
    return spt_download(t, false);
  }
  rc = call_new(t, &c, kind, grads, in_place);
  if (!rc) c->solo = (sp_solo_call){.inst = t->inst, .io = &c->io, .step = t->step.step, .kind = kind};
  if (!rc) rc = spt_upload(t);
  if (!rc)
    rc = spt_oops(t, t->solo ? run_on_device(t, c)
                             : sp_inst_call(t->inst, kind, &c->io, t->step.step, NULL, NULL, &t->err));
  if (c != t->kept[kind]) call_free(c);
  return rc ? rc : spt_download(t, false);
}

int spt_forward(spt *t, uint64_t step) {
  int rc;
  if (!t->planned) return t->msg.status ? t->msg.status : FAIL(t, SP_E_STATE, "harness: spt_plan comes first");
  bool loss = t->type->flags & SP_STAGE_LOSS && t->training;
  t->step.step = step;
  t->step.epoch = t->epoch;
  t->step.n = (uint32_t)t->run_n;
  t->step.batch = t->shards > 1 ? (uint32_t)t->batch : 0;
  t->step.training = (uint32_t)t->training;
  poison_outputs(t);
  spt_buf_poison(&t->scratch);
  spt_buf_poison(&t->saved);
  uint64_t before = hash_fixed(t, true);
  if ((rc = run(t, SP_CALL_FORWARD, loss, false)) || (rc = check_guards(t))) return rc;
  if (hash_fixed(t, true) != before)
    return FAIL(t, SP_E_INTERNAL, "stage '%s' changed an input or a trained weight in forward()", t->inst->name);
  t->forwarded = 1;
  return check_status(t);
}

int spt_again(spt *t, int calls) {
  int status = t->forwarded ? SP_OK : FAIL(t, SP_E_STATE, "harness: spt_forward comes first");
  bool loss = t->type->flags & SP_STAGE_LOSS && t->training;
  for (int i = 0; i < calls && !status; i++) status = run(t, SP_CALL_FORWARD, loss, false);
  return status;
}

static int run_parts(spt *t) {
  int rc = SP_OK;
  if (t->n_parts > 1 && t->capture) return FAIL(t, SP_E_UNSUPPORTED, "harness: a backward in parts is not captured");
  for (t->part = 0; t->part < t->n_parts && !rc; t->part++) rc = run(t, SP_CALL_BACKWARD, true, false);
  t->part = 0;
  return rc;
}

int spt_backward(spt *t) {
  int rc;
  if (!t->forwarded) return t->msg.status ? t->msg.status : FAIL(t, SP_E_STATE, "harness: spt_forward comes first");
  if (!t->training) return FAIL(t, SP_E_STATE, "harness: planned without training");
  spt_buf_poison(&t->scratch);
  float scale;
  memcpy(&scale, spt_buf_data(&t->scale_mem), sizeof scale);
  uint64_t before = hash_fixed(t, scale == 0);
  if ((rc = run_parts(t)) || (rc = check_guards(t))) return rc;
  if (hash_fixed(t, scale == 0) != before)
    return FAIL(t, SP_E_INTERNAL, "stage '%s' changed an input or a weight in backward()", t->inst->name);
  return SP_OK;
}

static bool applies(const spt *t, uint32_t part) {
  for (uint32_t i = 0; i < t->n_w; i++)
    if (t->w[i].flags & SP_WEIGHT_FACTORS && t->w[i].part == part) return true;
  return false;
}

int spt_apply(spt *t, float scale, int in_place) {
  int rc = SP_OK;
  if (!t->rows.n) return FAIL(t, SP_E_STATE, "harness: there are no factors");
  spt_set_dw_scale(t, scale);
  uint64_t before = hash_port(SP_FNV64, &t->rows), weights = hash_weights(t);
  for (t->part = 0; t->part < t->n_parts && !rc; t->part++) {
    spt_buf_poison(&t->scratch);
    if (applies(t, t->part)) rc = run(t, SP_CALL_APPLY, false, in_place);
  }
  t->part = 0;
  spt_set_dw_scale(t, 0);
  if (rc || (rc = check_guards(t))) return rc;
  if (hash_port(SP_FNV64, &t->rows) != before || (!in_place && hash_weights(t) != weights))
    return FAIL(t, SP_E_INTERNAL, "stage '%s' changed a factor or a weight in apply()", t->inst->name);
  return SP_OK;
}
