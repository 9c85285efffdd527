/* SPDX-License-Identifier: MIT
 * graph.c - nodes, wires, and what a script may ask of them before the graph runs. */
#include "device/cpu.h"
#include "graph/model.h"
#include "graph/reduce.h"

#include <spcore/rng.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */
void *sp_graph_zalloc(sp_graph *g, size_t n, size_t size, const char *what, sp_err *err) {
  void *p = sp_calloc(n ? n : 1, size);
  if (!p) sp_nomem(err, n * size, what);
  g->allocations++;
  return p;
}

void *sp_graph_alloc(sp_graph *g, const sp_place *place, size_t bytes, const char *what, sp_err *err) {
  void *p;
  if (sp_place_alloc(place, bytes, what, &p, err)) {
    if (err->status == SP_E_NOMEM && place == &g->main && g->border) {
      size_t len = strlen(err->msg);
      snprintf(err->msg + len, sizeof err->msg - len, "; take a smaller --batch or --depth");
    }
    return NULL;
  }
  g->allocations++;
  return p;
}

sp_place *sp_node_place(const sp_node *n) { return n->on_cpu && n->g->border ? &n->g->cpu : &n->g->main; }

/* ---- the graph ---- */
static const void *extension(void *arg, const char *id) {
  const sp_graph *g = arg;
  return g->main.type->extension ? g->main.type->extension(g->main.dev, id) : NULL;
}

/* Its stages are the processor's, though it is no host to the core. */
static bool plays_gpu(const sp_device_type *type) { return type == &sp_device_mock || type == &sp_device_simmock; }

const sp_times *sp_graph_times(const sp_graph *g) {
  return g->main.type->extension ? g->main.type->extension(g->main.dev, SP_EXT_TIMES) : NULL;
}

bool sp_graph_times_calls(const sp_graph *g) { return !strcmp(g->stages, "cpu"); }

static int open_places(sp_graph *g, sp_err *err) {
  const sp_device_type *type;
  int st = sp_registry_device_at(g->env->reg, g->device, &type, &g->index, err);
  if (st || (st = sp_place_open(&g->main, type, g->index, err))) return st;
  g->border = !sp_place_is_host(&g->main);
  g->stages = plays_gpu(type) || type == &sp_device_sim ? "cpu" : type->name;
  if (g->border && (st = sp_place_open_cpu(&g->cpu, &g->main, err))) return st;
  g->cpu_host = g->host;
  g->host.extension = extension;
  g->host.extension_arg = g;
  return SP_OK;
}

/* A trace that is wanted has the calls of graphs. The device is asked before anything runs on it. */
static bool sees_calls(sp_graph *g) {
  const sp_times *times = sp_graph_times(g);
  sp_ctx_holder h;
  sp_err ignored; /* who asks for graphs is told when they are made */
  if (!g->opts.trace || sp_graph_times_calls(g)) return true;
  return times && sp_trace_steps(g->opts.trace) && !times->open(sp_ctx_for(&h, "the trace", &ignored), g->main.dev);
}

/* What of the options depends on the device. */
static int settle(sp_graph *g, sp_err *err) {
  static const char *const words[] = {"auto", "off", "lane", "step"};
  sp_graph_opts *o = &g->opts;
  bool sync = getenv("SPCORE_SYNC") && strcmp(getenv("SPCORE_SYNC"), "0");
  bool can = g->border && g->main.type->flags & SP_DEVICE_CAPTURE;
  const char *why = !can   ? "the device records nothing"
                    : sync ? "SPCORE_SYNC waits behind every stage"
                    : o->checksums && !g->main.type->stream_hash
                        ? "it makes no checksums itself, so they are taken behind every stage"
                        : NULL;
  if (o->precision < SP_PRECISION_FP32 || o->precision > SP_PRECISION_BF16 || o->capture < 0 ||
      o->capture > SP_CAPTURE_STEP)
    return sp_fail(err, SP_E_INVALID, "precision %d, capture %d: there is no such thing", o->precision, o->capture);
  if (o->precision != SP_PRECISION_FP32 && !strcmp(g->stages, "cpu"))
    return sp_fail(err, SP_E_INVALID, "precision: device '%s' computes in fp32 only", g->device);
  if (why && o->capture > SP_CAPTURE_OFF)
    return sp_fail(err, SP_E_INVALID, "capture %s on device '%s': %s; take capture off or auto", words[o->capture],
                   g->device, why);
  g->capture_asked = o->capture;
  if (o->capture == SP_CAPTURE_AUTO) o->capture = why || !sees_calls(g) ? SP_CAPTURE_OFF : SP_CAPTURE_LANE;
  g->precision = (sp_precision){.size = sizeof g->precision, .precision = o->precision};
  g->sync = sync;
  return SP_OK;
}

int sp_graph_new(sp_graph **out, sp_env *env, const sp_graph_opts *opts, sp_err *err) {
  sp_graph *g = sp_calloc(1, sizeof *g);
  int st;
  *out = NULL;
  if (!g) return sp_nomem(err, sizeof *g, "a graph");
  g->env = env;
  if (opts) g->opts = *opts;
  g->opts.device = g->device = sp_strdup(opts && opts->device ? opts->device : "cpu");
  g->opts.init = g->init = sp_strdup(opts && opts->init ? opts->init : "philox");
  if (opts && opts->comm) g->comm = sp_strdup(opts->comm);
  g->opts.comm = g->comm;
  if (g->opts.prefetch < 1) g->opts.prefetch = 1;
  if (!g->opts.bucket) g->opts.bucket = (size_t)8 << 20;
  if (!g->opts.shards) g->opts.shards = sp_ranks_opts(env->ranks)->ranks;
  g->accumulate = g->micro = 1;
  g->host = env->host;
  st = !g->device || !g->init ? sp_nomem(err, 64, "a graph")
       : g->opts.run_ahead < 0 || g->opts.run_ahead > 64
           ? sp_fail(err, SP_E_RANGE, "run_ahead %d is outside 0..64", g->opts.run_ahead)
       : g->opts.shards < 0 || g->opts.shards > 1024
           ? sp_fail(err, SP_E_RANGE, "shards %d is outside 1..1024", g->opts.shards)
       : g->opts.parts < 0 || g->opts.parts > SP_PARTS_MAX
           ? sp_fail(err, SP_E_RANGE, "parts %d is outside 1..%d", g->opts.parts, SP_PARTS_MAX)
       : g->opts.prefetch > 64 ? sp_fail(err, SP_E_RANGE, "prefetch %d is outside 1..64", g->opts.prefetch)
       : strcmp(g->opts.init, "philox") && strcmp(g->opts.init, "torch")
           ? sp_fail(err, SP_E_INVALID, "init '%s': philox and torch are there", g->opts.init)
           : open_places(g, err);
  if (!st) st = settle(g, err);
  if (st) {
    sp_graph_free(g);
    return st;
  }
  *out = g;
  return SP_OK;
}

static void free_node(sp_node *n) {
  sp_cache_free(n);
  sp_node_drop_factors(n);
  sp_node_drop_weights(n);
  for (unsigned i = 0; n->in && i < n->n_in; i++) free(n->in[i].v);
  free(n->in);
  for (unsigned i = 0; n->in_specs && i < n->n_in; i++) free(n->in_specs[i].spec);
  for (unsigned i = 0; n->out_specs && i < n->n_out; i++) free(n->out_specs[i].spec);
  free(n->in_specs);
  free(n->out_specs);
  for (size_t i = 0; i < n->n_attrs; i++) {
    free((char *)n->attrs[i].name);
    free((char *)n->attrs[i].text);
  }
  free(n->attrs);
  sp_inst_free(n->inst);
  free(n->name);
  free(n);
}

void sp_graph_free(sp_graph *g) {
  if (!g) return;
  if (g->queue)
    sp_queue_close(g->queue, SP_E_CANCELLED, "the graph was closed"); /* threads of a stage wait for answers */
  for (size_t i = 0; i < g->n_nodes; i++) free_node(g->nodes[i]);
  sp_queue_free(g->queue);
  free(g->nodes);
  free(g->topo);
  free(g->losses.v);
  free(g->results.v);
  free(g->strategy);
  sp_graph_drop_lanes(g);
  sp_graph_free_reduce(g);
  sp_place_close(&g->cpu);
  sp_place_close(&g->main);
  free(g->device);
  free(g->init);
  free(g->comm);
  free(g);
}

const sp_graph_opts *sp_graph_options(const sp_graph *g) { return &g->opts; }

int sp_graph_device_info(const sp_graph *g, sp_device_info *info, sp_err *err) {
  *info = (sp_device_info){.size = sizeof *info};
  return sp_place_describe(&g->main, g->index, info, err);
}

size_t sp_graph_n_nodes(const sp_graph *g) { return g->n_nodes; }
sp_node *sp_graph_node(const sp_graph *g, size_t i) { return i < g->n_nodes ? g->nodes[i] : NULL; }

sp_node *sp_graph_find(const sp_graph *g, const char *name) {
  for (size_t i = 0; i < g->n_nodes; i++)
    if (!strcmp(g->nodes[i]->name, name)) return g->nodes[i];
  return NULL;
}

/* ---- nodes ---- */
static bool valid_name(const char *s) {
  size_t n = strlen(s);
  if (!n || n > 64 || !((s[0] >= 'a' && s[0] <= 'z') || (s[0] >= 'A' && s[0] <= 'Z') || s[0] == '_')) return false;
  return strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == n;
}

static char *free_name(const sp_graph *g, const char *stage) {
  char buf[96];
  snprintf(buf, sizeof buf, "%s", stage);
  for (int i = 2; sp_graph_find(g, buf); i++) snprintf(buf, sizeof buf, "%.60s_%d", stage, i);
  return sp_strdup(buf);
}

static int alloc_ports(sp_node *n, sp_err *err) {
  const sp_stage_type *t = n->inst->type;
  n->n_in = sp_ports_count(t->inputs);
  n->n_out = sp_ports_count(t->outputs);
  n->in = sp_calloc(n->n_in + 1, sizeof *n->in);
  n->in_specs = sp_calloc(n->n_in + 1, sizeof *n->in_specs);
  n->out_specs = sp_calloc(n->n_out + 1, sizeof *n->out_specs);
  if (!n->in || !n->in_specs || !n->out_specs) return sp_nomem(err, 0, "ports");
  for (unsigned i = 0; i < n->n_out; i++) {
    uint32_t cap = t->outputs[i].flags & SP_PORT_LIST ? SP_MAX_LIST : 1;
    n->out_specs[i].spec = sp_calloc(cap, sizeof(sp_spec));
    n->out_specs[i].cap = cap;
    if (!n->out_specs[i].spec) return sp_nomem(err, cap * sizeof(sp_spec), "ports");
  }
  return SP_OK;
}

/* The stage for the graph's device; where there is none, but one for the cpu, that one, behind copies: `placed`. */
static int find_stage(sp_graph *g, const char *stage, bool on_cpu, const sp_stage_type **type,
                      const sp_plugin_file **file, bool *placed, sp_err *err) {
  sp_err cpu;
  int st = sp_registry_stage(g->env->reg, stage, on_cpu ? "cpu" : g->stages, type, file, err);
  *placed = g->border && on_cpu;
  if (!g->border) return st;
  if (!st && plays_gpu(g->main.type)) *placed = on_cpu || (*type)->flags & SP_STAGE_SOURCE;
  if (st != SP_E_NOTFOUND || on_cpu) return st;
  *placed = true;
  return sp_registry_stage(g->env->reg, stage, "cpu", type, file, &cpu) ? st : SP_OK;
}

int sp_graph_stage_type(sp_graph *g, const char *stage, bool on_cpu, const sp_stage_type **type, sp_err *err) {
  const sp_plugin_file *file;
  bool placed;
  return find_stage(g, stage, on_cpu, type, &file, &placed, err);
}

static int check_source(const sp_node *n, uint32_t flags, sp_err *err) {
  const sp_node_opts *o = &n->opts;
  long long batch = (long long)o->batch;
  bool requests = flags & SP_STAGE_REQUESTS;
  if (requests && (o->no_shuffle || o->drop_last))
    return sp_fail(err, SP_E_INVALID,
                   "stage '%s': requests come in their own order: it takes no 'shuffle', no 'drop_last'", n->name);
  if (!requests && (o->queue || o->queue_bytes || o->wait_us || o->deadline_us))
    return sp_fail(err, SP_E_INVALID,
                   "stage '%s' reads no requests, so it takes no 'queue', 'queue_mb', 'wait_us' or 'deadline_us'",
                   n->name);
  if (n->source && batch < 1)
    return sp_fail(err, SP_E_RANGE, "stage '%s': batch %lld: at least 1 is wanted", n->name, batch);
  if (batch > 1 << 20) return sp_fail(err, SP_E_RANGE, "stage '%s': batch %lld is above 1048576", n->name, batch);
  return SP_OK;
}

/* A source of requests has its queue before it is made: its create() may ask for it. */
static int make_queue(sp_node *n, sp_err *err) {
  sp_graph *g = n->g;
  const sp_node_opts *o = &n->opts;
  int64_t four = 4 * o->batch;
  sp_queue_opts q = {.batch = (uint32_t)o->batch,
                     .capacity = o->queue ? o->queue : (uint32_t)(four > 256 ? four : 256),
                     .bytes = o->queue_bytes ? o->queue_bytes : (size_t)1 << 30,
                     .wait_us = o->wait_us,
                     .deadline_us = o->deadline_us};
  if (g->queue)
    return sp_fail(err, SP_E_INVALID, "stage '%s': the graph reads requests already; one source of them is possible",
                   n->name);
  if (q.capacity < q.batch)
    return sp_fail(err, SP_E_RANGE, "stage '%s': a queue of %u requests never fills a batch of %u", n->name, q.capacity,
                   q.batch);
  int st = sp_queue_new(&g->queue, &q, err);
  g->host.queue = g->cpu_host.queue = g->queue;
  return st;
}

/* One of its own where that is another than the graph's. */
static int settle_precision(sp_node *n, sp_err *err) {
  int precision = n->opts.precision - 1;
  bool whole = n->on_cpu || !strcmp(n->g->stages, "cpu");
  n->precision = n->g->precision;
  if (whole) n->precision.precision = SP_PRECISION_FP32;
  if (precision < 0 || precision == n->precision.precision) return SP_OK;
  n->precision.precision = precision;
  if (!whole) return SP_OK;
  sp_fail(err, SP_E_INVALID, "precision: device '%s' computes in fp32 only", n->on_cpu ? "cpu" : n->g->device);
  return sp_prefix(err, "stage '%s'", n->name);
}

static void drop_queue(sp_graph *g) {
  sp_queue_free(g->queue);
  g->queue = g->host.queue = g->cpu_host.queue = NULL;
}

int sp_graph_add_own(sp_graph *g, const char *stage, const sp_value *params, const sp_node_opts *opts, sp_node **out,
                     sp_err *err) {
  const sp_stage_type *type;
  const sp_plugin_file *file;
  sp_node *n;
  bool asked = opts && opts->on_cpu, on_cpu;
  int st;
  *out = NULL;
  if (g->fixed) return sp_fail(err, SP_E_STATE, "stage '%s': the graph has run already; add stages before", stage);
  if (opts && opts->name && !valid_name(opts->name))
    return sp_fail(err, SP_E_INVALID, "name '%s': letters, digits and _ are wanted, at most 64", opts->name);
  if (opts && opts->name && sp_graph_find(g, opts->name))
    return sp_fail(err, SP_E_INVALID, "name '%s' is taken by another stage of this graph", opts->name);
  if ((st = find_stage(g, stage, asked, &type, &file, &on_cpu, err))) return st;
  if (on_cpu && !asked && !(type->flags & SP_STAGE_SOURCE))
    sp_log(SP_LOG_WARN, "stage '%s' exists for the cpu only: it runs there, behind copies", stage);
  n = sp_calloc(1, sizeof *n);
  if (!n || !sp_grow(&g->nodes, &g->cap_nodes, g->n_nodes + 1, sizeof *g->nodes)) {
    free(n);
    return sp_nomem(err, sizeof *n, "a stage");
  }
  n->g = g;
  n->index = g->n_nodes;
  if (opts) n->opts = *opts;
  n->opts.name = NULL;
  n->frozen = n->opts.frozen;
  n->on_cpu = on_cpu;
  n->name = opts && opts->name ? sp_strdup(opts->name) : free_name(g, stage);
  n->source = type->flags & SP_STAGE_SOURCE;
  n->optimizer = type->flags & SP_STAGE_OPTIMIZER;
  n->loss = type->flags & SP_STAGE_LOSS;
  n->shards = type->flags & SP_STAGE_SHARDS;
  st = n->name ? SP_OK : sp_nomem(err, 64, "a name");
  bool queue =
      type->flags & SP_STAGE_REQUESTS && !st && !(st = check_source(n, type->flags, err)) && !(st = make_queue(n, err));
  if (!st) st = settle_precision(n, err);
  if (!st)
    st = sp_inst_new(&n->inst, on_cpu ? &g->cpu_host : &g->host, n->name, type, file, params, &n->precision, err);
  if (!st) st = alloc_ports(n, err);
  if (!st) st = sp_cache_new(n, err);
  if (!st) st = check_source(n, type->flags, err);
  if (st) {
    free_node(n);
    if (queue) drop_queue(g); /* behind the instance, which may have it */
    return st;
  }
  n->key = sp_rng_key(g->opts.seed, n->name);
  n->n_live = sp_params_live(type->params, n->inst->params.data, n->live);
  g->nodes[g->n_nodes++] = n;
  g->planned = false;
  *out = n;
  return SP_OK;
}

int sp_graph_add(sp_graph *g, const char *stage, const sp_value *params, const sp_node_opts *opts, sp_node **out,
                 sp_err *err) {
  const sp_stage_type *type;
  int st = sp_graph_stage_type(g, stage, opts && opts->on_cpu, &type, err);
  *out = NULL;
  if (!st && type->flags & SP_STAGE_SHARDS)
    st = sp_fail(err, SP_E_INVALID, "stage '%s' is added by the graph itself, where a step has shards or a cache",
                 stage);
  return st ? st : sp_graph_add_own(g, stage, params, opts, out, err);
}

const char *sp_node_name(const sp_node *n) { return n->name; }
const sp_stage_type *sp_node_type(const sp_node *n) { return n->inst->type; }
const sp_inst *sp_node_inst(const sp_node *n) { return n->inst; }
bool sp_node_frozen(const sp_node *n) { return n->frozen; }
sp_cache_at sp_node_cache(const sp_node *n) { return n->opts.cache; }

int sp_node_precision(const sp_node *n) { return n->precision.precision; }
bool sp_node_on_cpu(const sp_node *n) { return n->on_cpu && n->g->border; }

/* A wire of n before the one at (port, item) comes from the same stage. */
static bool read_before(const sp_node *n, unsigned port, size_t item) {
  const sp_node *from = n->in[port].v[item].node;
  for (unsigned i = 0; i <= port; i++)
    for (size_t j = 0; j < (i < port ? n->in[i].n : item); j++)
      if (n->in[i].v[j].node == from) return true;
  return false;
}

sp_node *sp_node_producer(const sp_node *n, size_t k) {
  for (unsigned i = 0; i < n->n_in; i++)
    for (size_t j = 0; j < n->in[i].n; j++)
      if (!read_before(n, i, j) && k-- == 0) return n->in[i].v[j].node;
  return NULL;
}
bool sp_node_is_source(const sp_node *n) { return n->source; }
bool sp_node_is_shards(const sp_node *n) { return n->shards; }

bool sp_graph_in_trained_part(sp_graph *g, const sp_node *n) {
  sp_err ignored;                                 /* build() says it again */
  if (!g->planned) sp_graph_analyse(g, &ignored); /* stages may have come since train() */
  return n->in_trained;
}

const sp_port *sp_node_in_port(const sp_node *n, unsigned i) { return &n->inst->type->inputs[i]; }
const sp_port *sp_node_out_port(const sp_node *n, unsigned i) { return &n->inst->type->outputs[i]; }

size_t sp_node_flat(const sp_node *n, int port, int index) {
  size_t k = 0;
  for (int i = 0; i < port; i++) k += n->out_specs[i].n;
  return k + (size_t)index;
}

size_t sp_node_n_flat(const sp_node *n) { return sp_node_flat(n, (int)n->n_out, 0); }

static int find_port(const sp_node *n, const sp_port *ports, unsigned count, const char *name, const char *kind,
                     sp_err *err) {
  const char *names[64], *near;
  unsigned k = 0;
  for (unsigned i = 0; i < count; i++) {
    if (!strcmp(ports[i].name, name)) return (int)i;
    if (k < 63) names[k++] = ports[i].name;
  }
  names[k] = NULL;
  near = sp_nearest(name, names);
  if (near)
    return sp_fail(err, SP_E_NOTFOUND, "stage '%s' has no %s port '%s'; did you mean '%s'?", n->name, kind, name, near);
  return sp_fail(err, SP_E_NOTFOUND, "stage '%s' has no %s port '%s' (see: spcore inspect %s)", n->name, kind, name,
                 n->inst->type->name);
}

int sp_node_find_in(const sp_node *n, const char *port, sp_err *err) {
  return find_port(n, n->inst->type->inputs, n->n_in, port, "input", err);
}

int sp_node_find_out(const sp_node *n, const char *port, sp_err *err) {
  return find_port(n, n->inst->type->outputs, n->n_out, port, "output", err);
}

const sp_speclist *sp_node_out_specs(const sp_node *n, int port) { return &n->out_specs[port]; }

uint64_t sp_node_length(const sp_node *n) { return n->length; }

const sp_attr *sp_node_attr(const sp_node *n, const char *name) {
  for (size_t i = 0; i < n->n_attrs; i++)
    if (!strcmp(n->attrs[i].name, name)) return &n->attrs[i];
  return NULL;
}

int sp_node_item(const sp_node *n, const sp_attr *attr, uint64_t i, char *to, size_t size, sp_err *err) {
  return sp_inst_item(n->inst, attr, i, to, size, err);
}

int sp_node_set_live(sp_node *n, const char *param, double value, sp_err *err) {
  const sp_param *p = NULL;
  int i = sp_params_find_live(n->inst->type->params, param, &p);
  if (i < 0)
    return sp_fail(err, SP_E_NOTFOUND, "stage '%s' has no parameter '%s' that may change while running", n->name,
                   param);
  if (isnan(value) || ((p->min != 0 || p->max != 0) && (value < p->min || value > p->max)))
    return sp_fail(err, SP_E_RANGE, "stage '%s': parameter '%s': %g is outside %g..%g", n->name, param, value, p->min,
                   p->max);
  /* A stage ahead of the trained part, or behind it, is at another step in another strategy: the same script would give
   * other bits there. So is a loss that is only watched. */
  if (n->g->fixed && !n->backward && !n->optimizer && !sp_node_trained_on(n))
    return sp_fail(err, SP_E_STATE,
                   "stage '%s': parameter '%s' may change before the first step only: the stage may run "
                   "ahead of the trained part or behind it",
                   n->name, param);
  n->live[i] = (float)value;
  return SP_OK;
}

int sp_node_get_live(const sp_node *n, const char *param, double *value, sp_err *err) {
  int i = sp_params_find_live(n->inst->type->params, param, NULL);
  if (i < 0)
    return sp_fail(err, SP_E_NOTFOUND, "stage '%s' has no parameter '%s' that may change while running", n->name,
                   param);
  *value = n->live[i];
  return SP_OK;
}

/* ---- wires ---- */
static int add_ref(sp_refs *r, sp_ref ref, sp_err *err) {
  if (!sp_grow(&r->v, &r->cap, r->n + 1, sizeof *r->v)) return sp_nomem(err, sizeof ref, "a wire");
  r->v[r->n++] = ref;
  return SP_OK;
}

int sp_graph_result(sp_graph *g, sp_ref from, sp_err *err) {
  const sp_node *n = from.node;
  const char *port = sp_node_out_port(n, (unsigned)from.port)->name;
  const sp_speclist *specs = &n->out_specs[from.port];
  uint32_t first = from.index < 0 ? 0 : (uint32_t)from.index, count = from.index < 0 ? specs->n : 1;
  char words[128];
  int st = SP_OK;
  if (g->fixed) return sp_fail(err, SP_E_STATE, "result '%s.%s': the graph has run already", n->name, port);
  if (!n->planned || first + count > specs->n)
    return sp_fail(err, SP_E_INVALID, "result '%s.%s': stage '%s' is not wired yet", n->name, port, n->name);
  if (g->results.n + count > SP_QUEUE_MAX_PARTS)
    return sp_fail(err, SP_E_RANGE, "result '%s.%s': at most %d results are possible", n->name, port,
                   SP_QUEUE_MAX_PARTS);
  for (uint32_t k = first; k < first + count && !st; k++) {
    sp_ref r = {from.node, from.port, (int)k};
    if (!sp_node_batch_out(n, r.port, &specs->spec[k]) || sp_spec_sample(&specs->spec[k]).ndim < 0)
      return sp_fail(err, SP_E_SHAPE, "result '%s.%s' is %s: it has no sample for each request or image of a batch",
                     n->name, port, sp_spec_str(&specs->spec[k], words, sizeof words));
    if (!sp_graph_is_result(g, n, r.port, r.index)) st = add_ref(&g->results, r, err);
  }
  return st;
}

bool sp_graph_is_result(const sp_graph *g, const sp_node *n, int port, int index) {
  for (size_t i = 0; i < g->results.n; i++) {
    sp_ref r = g->results.v[i];
    if (r.node == n && r.port == port && r.index == index) return true;
  }
  return false;
}

sp_queue *sp_graph_queue(const sp_graph *g) { return g->queue; }

/* Is `goal` upstream of `n`, or n itself? Writes the way into `way`. `seen` keeps diamonds from being walked twice. */
static bool upstream(const sp_node *n, const sp_node *goal, bool *seen, sp_sb *way) {
  if (n == goal) {
    sp_sb_putf(way, "%s", n->name);
    return true;
  }
  if (seen[n->index]) return false;
  seen[n->index] = true;
  for (unsigned i = 0; i < n->n_in; i++)
    for (size_t k = 0; k < n->in[i].n; k++)
      if (upstream(n->in[i].v[k].node, goal, seen, way)) {
        sp_sb_putf(way, " -> %s", n->name);
        return true;
      }
  return false;
}

static int refuse_cycle(sp_node *node, const sp_port *pi, sp_ref from, const sp_port *po, sp_err *err) {
  bool *seen = sp_calloc(node->g->n_nodes, sizeof *seen);
  sp_sb way = {0};
  int st = SP_OK;
  if (!seen) return sp_nomem(err, node->g->n_nodes, "a search for cycles");
  if (upstream(from.node, node, seen, &way))
    st = sp_fail(err, SP_E_INVALID, "wiring '%s.%s' to '%s.%s' closes a cycle: %s -> %s", from.node->name, po->name,
                 node->name, pi->name, sp_sb_str(&way), node->name);
  sp_sb_free(&way);
  free(seen);
  return st;
}

static int check_wire(const sp_graph *g, const sp_node *node, int in_port, sp_ref from, sp_err *err) {
  if (in_port < 0 || (unsigned)in_port >= node->n_in || from.port < 0 || (unsigned)from.port >= from.node->n_out)
    return sp_fail(err, SP_E_INVALID, "'%s' to '%s': there is no such port", from.node->name, node->name);
  if (from.node->g != g || node->g != g)
    return sp_fail(err, SP_E_INVALID, "'%s' and '%s' belong to two graphs", from.node->name, node->name);
  if (node->optimizer)
    return sp_fail(err, SP_E_INVALID, "stage '%s' is an optimizer: it is wired by train{ optimizer = ... }",
                   node->name);
  if (g->fixed)
    return sp_fail(err, SP_E_STATE, "stage '%s': the graph has run already; wire stages before", node->name);
  return SP_OK;
}

int sp_graph_wire(sp_graph *g, sp_node *node, int in_port, sp_ref from, sp_err *err) {
  int st = check_wire(g, node, in_port, from, err);
  if (st) return st;
  const sp_port *pi = sp_node_in_port(node, (unsigned)in_port), *po = sp_node_out_port(from.node, (unsigned)from.port);
  const sp_speclist *specs = &from.node->out_specs[from.port];
  sp_refs *r = &node->in[in_port];
  if ((st = refuse_cycle(node, pi, from, po, err))) return st;
  uint32_t first = from.index < 0 ? 0 : (uint32_t)from.index;
  uint32_t n = from.index < 0 && po->flags & SP_PORT_LIST ? specs->n : 1;
  if (from.index >= 0 && from.node->planned && first >= specs->n)
    return sp_fail(err, SP_E_RANGE, "'%s.%s' has %u tensors; there is no number %u", from.node->name, po->name,
                   specs->n, first + 1);
  if (po->flags & SP_PORT_LIST && from.index < 0 && !from.node->planned)
    return sp_fail(err, SP_E_STATE, "'%s.%s': wire the inputs of '%s' first", from.node->name, po->name,
                   from.node->name);
  if (!(pi->flags & SP_PORT_LIST) && (r->n || n != 1))
    return sp_fail(err, SP_E_INVALID, "'%s.%s' takes one tensor, '%s.%s' %s", node->name, pi->name, from.node->name,
                   po->name, r->n ? "is a second one" : "is a list of another length");
  if (r->n + n > SP_MAX_LIST)
    return sp_fail(err, SP_E_RANGE, "'%s.%s' takes at most %d tensors", node->name, pi->name, SP_MAX_LIST);
  node->planned = g->planned = false;
  for (uint32_t i = 0; i < n && !st; i++) st = add_ref(r, (sp_ref){from.node, from.port, (int)(first + i)}, err);
  return st;
}

bool sp_ref_grad(const sp_node *consumer, int in_port, sp_ref from) {
  return !(
      (sp_node_in_port(consumer, (unsigned)in_port)->flags | sp_node_out_port(from.node, (unsigned)from.port)->flags) &
      (SP_PORT_NOGRAD | SP_PORT_METRIC | SP_PORT_STATUS | SP_PORT_TOTAL));
}
