/* SPDX-License-Identifier: MIT
 * graph.c - a graph as a whole: its device, its options, its memory. */
#include "device/cpu.h"
#include "graph/model.h"
#include "graph/option.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */
void *sp_graph_zalloc(sp_graph *g, size_t n, size_t size, const char *what, sp_err *err) {
  return sp_store_zalloc(&g->store, n, size, what, err);
}

void *sp_graph_alloc(sp_graph *g, const sp_place *place, size_t bytes, const char *what, sp_err *err) {
  return sp_store_alloc(&g->store, place, bytes, what, err);
}

/* ---- the graph ---- */
static const void *extension_of(const sp_graph *g, const char *id) {
  return g->main.type->extension ? g->main.type->extension(g->main.dev, id) : NULL;
}

static const void *extension(void *arg, const char *id) { return extension_of(arg, id); }

const sp_times *sp_graph_times(const sp_graph *g) { return extension_of(g, SP_EXT_TIMES); }

bool sp_graph_times_calls(const sp_graph *g) { return !strcmp(g->stages, "cpu"); }

static int open_places(sp_graph *g, sp_err *err) {
  const sp_device_type *type;
  int st = sp_registry_device_at(g->env->reg, g->device, &type, &g->index, err);
  if (st || (st = sp_place_open(&g->main, type, g->index, err))) return st;
  g->border = !sp_place_is_host(&g->main);
  g->stages = sp_graph_plays_gpu(g) || type == &sp_device_sim ? "cpu" : type->name;
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
    return sp_fail(err, SP_E_INVALID, "capture %s on device '%s': %s; take capture off or auto",
                   sp_capture_words[o->capture], g->device, why);
  g->capture_asked = o->capture;
  if (o->capture == SP_CAPTURE_AUTO) o->capture = why || !sees_calls(g) ? SP_CAPTURE_OFF : SP_CAPTURE_LANE;
  g->precision = (sp_precision){.size = sizeof g->precision, .precision = o->precision};
  g->sync = sync;
  return SP_OK;
}

static int check_opts(const sp_graph_opts *o, sp_err *err) {
  int status = sp_option_check(sp_graph_rows, o, err);
  if (status || !strcmp(o->init, "philox") || !strcmp(o->init, "torch")) return status;
  return sp_fail(err, SP_E_INVALID, "init '%s': philox and torch are there", o->init);
}

/* With what stands for what was not said. */
static int take_opts(sp_graph *g, const sp_graph_opts *opts, sp_err *err) {
  sp_graph_opts *o = &g->opts;
  if (opts) *o = *opts;
  bool comm = o->comm;
  o->device = g->device = sp_strdup(o->device ? o->device : "cpu");
  o->init = g->init = sp_strdup(o->init ? o->init : "philox");
  o->comm = g->comm = comm ? sp_strdup(o->comm) : NULL;
  if (o->prefetch < 1) o->prefetch = 1;
  if (!o->bucket) o->bucket = (size_t)16 << 20;
  if (!o->shards) o->shards = sp_ranks_opts(g->env->ranks)->ranks;
  return g->device && g->init && (g->comm || !comm) ? SP_OK : sp_nomem(err, 64, "a graph");
}

static void fill_store(sp_graph *g) {
  const sp_graph_opts *o = &g->opts;
  g->store = (sp_store){.env = g->env,
                        .main = &g->main,
                        .border = g->border,
                        .device = o->device,
                        .comm = o->comm,
                        .seed = o->seed,
                        .torch = !strcmp(o->init, "torch"),
                        .shards = o->shards,
                        .bucket = o->bucket};
}

int sp_graph_new(sp_graph **out, sp_env *env, const sp_graph_opts *opts, sp_err *err) {
  sp_graph *g = sp_calloc(1, sizeof *g);
  *out = NULL;
  if (!g) return sp_nomem(err, sizeof *g, "a graph");
  g->env = env;
  g->train.accumulate = g->train.micro = 1;
  g->host = env->host;
  int st = take_opts(g, opts, err);
  if (st || (st = check_opts(&g->opts, err)) || (st = open_places(g, err)) || (st = settle(g, err))) {
    sp_graph_free(g);
    return st;
  }
  fill_store(g);
  *out = g;
  return SP_OK;
}

void sp_graph_free(sp_graph *g) {
  if (!g) return;
  if (g->queue)
    sp_queue_close(g->queue, SP_E_CANCELLED, "the graph was closed"); /* threads of a stage wait for answers */
  for (size_t i = 0; i < g->n_nodes; i++) sp_node_free(g->nodes[i]);
  sp_queue_free(g->queue);
  free(g->nodes);
  free(g->topo);
  free(g->train.losses.v);
  sp_groups_free(&g->train.groups);
  free(g->results.v);
  sp_strategy_free(g->strategy);
  sp_store_free(&g->store);
  sp_place_close(&g->cpu);
  sp_place_close(&g->main);
  free(g->device);
  free(g->init);
  free(g->comm);
  free(g);
}

int sp_graph_device_info(const sp_graph *g, sp_device_info *info, sp_err *err) {
  *info = (sp_device_info){.size = sizeof *info};
  return sp_place_describe(&g->main, g->index, info, err);
}
