/* SPDX-License-Identifier: MIT
 * weights.c - storage and first values of weights. */
#include "graph/model.h"
#include "graph/init.h"
#include "graph/reduce.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sp_node_drop_weights(sp_node *n) {
  const sp_place *place = sp_node_place(n);
  for (size_t i = 0; i < n->params.n_weights; i++) {
    if (n->params.w && !sp_reduce_owns(n->g, n->params.w[i].data)) sp_place_free(place, n->params.w[i].data);
    if (n->params.dw && !sp_reduce_owns(n->g, n->params.dw[i].data)) sp_place_free(place, n->params.dw[i].data);
    if (n->params.weights) free((char *)n->params.weights[i].name);
    if (n->params.whole) free(n->params.whole[i]);
  }
  free(n->params.whole);
  n->params.whole = NULL;
  sp_place_free(place, n->params.consts);
  free(n->params.weights);
  free(n->params.w);
  free(n->params.dw);
  free(n->params.loaded);
  n->params.weights = NULL;
  n->params.w = n->params.dw = NULL;
  n->params.loaded = NULL;
  n->params.consts = NULL;
  n->params.n_weights = 0;
}

bool sp_node_has_dw(const sp_node *n, size_t i) {
  uint32_t flags = n->params.weights[i].flags;
  return n->flow.trained && !n->flow.inplace && flags & SP_WEIGHT_TRAINED &&
         !(n->g->applied && flags & SP_WEIGHT_FACTORS);
}

int sp_node_lists(sp_node *n, sp_err *err) {
  sp_graph *g = n->g;
  if (!n->params.w && !(n->params.w = sp_graph_zalloc(g, n->params.n_weights, sizeof *n->params.w, "weights", err)))
    return err->status;
  if (!n->params.dw && !(n->params.dw = sp_graph_zalloc(g, n->params.n_weights, sizeof *n->params.dw, "weights", err)))
    return err->status;
  if (!n->params.loaded &&
      !(n->params.loaded = sp_graph_zalloc(g, n->params.n_weights, sizeof *n->params.loaded, "weights", err)))
    return err->status;
  for (size_t i = 0; i < n->params.n_weights; i++)
    n->params.w[i].spec = n->params.dw[i].spec = n->params.weights[i].spec;
  return SP_OK;
}

uint64_t sp_node_weight_bytes(const sp_node *n, size_t i) {
  const sp_graph *g = n->g;
  uint64_t bytes = (uint64_t)sp_spec_bytes(&n->params.weights[i].spec);
  if (!sp_node_sliced(n, i)) return bytes;
  if (!g->reduce || !g->reduce->slices) return bytes / (uint64_t)sp_ranks_opts(g->env->ranks)->ranks;
  return (uint64_t)sp_graph_slice_of(g, g->reduce->rank, n->params.weights[i].of - 1)->n * sizeof(float);
}

/* How much of one that ranks have slices of is this one's is known later. */
static int weight_storage(sp_node *n, size_t i, sp_err *err) {
  bool sliced = sp_node_sliced(n, i);
  if (n->params.w[i].data || (sliced && !n->g->reduce)) return SP_OK;
  size_t bytes = (size_t)sp_node_weight_bytes(n, i);
  n->params.w[i].data = sp_graph_alloc(n->g, sp_node_place(n), bytes ? bytes : 1, n->params.weights[i].name, err);
  if (!n->params.w[i].data) return sp_prefix(err, "stage '%s'", n->name);
  return sliced && n->params.whole && n->params.whole[i] ? sp_node_put_weight(n, i, n->params.whole[i], err) : SP_OK;
}

int sp_node_storage(sp_node *n, sp_err *err) {
  sp_graph *g = n->g;
  int st = n->params.n_weights ? sp_node_lists(n, err) : SP_OK;
  for (size_t i = 0; i < n->params.n_weights && !st; i++) {
    const sp_spec *s = &n->params.weights[i].spec;
    if ((st = weight_storage(n, i, err))) return st;
    if (!n->params.dw[i].data && sp_node_has_dw(n, i) &&
        !(n->params.dw[i].data =
              sp_graph_alloc(g, sp_node_place(n), (size_t)sp_spec_bytes(s), n->params.weights[i].name, err)))
      return sp_prefix(err, "stage '%s': gradient", n->name);
  }
  n->params.stale = true;
  if (!st && !n->params.consts && n->params.const_bytes &&
      !(n->params.consts = sp_graph_alloc(g, sp_node_place(n), n->params.const_bytes, "constants", err)))
    return sp_prefix(err, "stage '%s'", n->name);
  return st;
}

/* Of a weight that ranks have slices of: for the others, on the rank that gives them all that was loaded or begun with. */
static int keep_whole(sp_node *n, size_t i, const void *src, sp_err *err) {
  size_t bytes = (size_t)sp_spec_bytes(&n->params.weights[i].spec);
  if (!n->params.whole &&
      !(n->params.whole = sp_graph_zalloc(n->g, n->params.n_weights, sizeof *n->params.whole, "weights", err)))
    return err->status;
  if (!n->params.whole[i] && !(n->params.whole[i] = sp_calloc(1, bytes + 1)))
    return sp_nomem(err, bytes, n->params.weights[i].name);
  if (n->params.whole[i] != src) memcpy(n->params.whole[i], src, bytes);
  return SP_OK;
}

int sp_node_put_weight(sp_node *n, size_t i, const void *src, sp_err *err) {
  const sp_graph *g = n->g;
  size_t at = 0;
  n->params.stale = true;
  if (sp_node_sliced(n, i)) {
    int st = sp_graph_writes(g) ? keep_whole(n, i, src, err) : SP_OK;
    if (st || !n->params.w[i].data) return st;
    at = (size_t)sp_graph_slice_of(g, g->reduce->rank, n->params.weights[i].of - 1)->at * sizeof(float);
  }
  return sp_place_upload(sp_node_place(n), n->params.w[i].data, (const char *)src + at,
                         (size_t)sp_node_weight_bytes(n, i), err);
}

int sp_node_no_weight(const sp_node *n, size_t i, sp_err *err) {
  return sp_fail(err, SP_E_INVALID, "stage '%s': weight '%s' has no memory, since its graph could not be made", n->name,
                 n->params.weights[i].name);
}

int sp_node_get_weight(sp_node *n, size_t i, const void **data, void **owned, sp_err *err) {
  sp_place *place = sp_node_place(n);
  size_t bytes = (size_t)sp_spec_bytes(&n->params.weights[i].spec);
  *owned = NULL;
  *data = n->params.w[i].data;
  if (sp_node_sliced(n, i)) {
    bool given = n->params.whole && n->params.whole[i];
    int st = given ? SP_OK : sp_slices_gather(n, i, owned, err);
    *data = given ? n->params.whole[i] : *owned;
    return st;
  }
  if (!n->params.w[i].data) return sp_node_no_weight(n, i, err);
  if (sp_place_is_host(place)) return SP_OK;
  if (!(*owned = sp_calloc(1, bytes ? bytes : 1))) return sp_nomem(err, bytes, n->params.weights[i].name);
  *data = *owned;
  return sp_place_download(place, *owned, n->params.w[i].data, bytes, err);
}

/* It lies in host memory as a whole. */
static bool is_direct(const sp_node *n, size_t i) {
  return sp_place_is_host(sp_node_place(n)) && !sp_node_sliced(n, i);
}

/* First values are made in host memory, and what no file gave is taken from there: PyTorch's generator draws for every
 * weight, whether a file replaces it later or not. */
int sp_node_init_weights(sp_node *n, sp_mt19937 *torch, sp_err *err) {
  void **data = sp_calloc(n->params.n_weights, sizeof *data);
  int st = data ? SP_OK : sp_nomem(err, 64, "first values");
  for (size_t i = 0; i < n->params.n_weights && !st; i++) {
    size_t bytes = (size_t)sp_spec_bytes(&n->params.weights[i].spec);
    data[i] = n->params.w[i].data;
    if ((n->params.loaded[i] || !is_direct(n, i)) && !(data[i] = sp_calloc(1, bytes ? bytes : 1)))
      st = sp_nomem(err, bytes, "first values");
  }
  if (!st) st = sp_init_weights(n->params.weights, n->params.n_weights, data, n->name, n->g->opts.seed, torch, err);
  for (size_t i = 0; i < n->params.n_weights && !st; i++)
    if (!n->params.loaded[i] && !is_direct(n, i)) st = sp_node_put_weight(n, i, data[i], err);
  for (size_t i = 0; data && i < n->params.n_weights; i++)
    if (data[i] != n->params.w[i].data) free(data[i]);
  free(data);
  return st ? sp_prefix(err, "stage '%s'", n->name) : SP_OK;
}

int sp_graph_init_weights(sp_graph *g, sp_err *err) {
  bool torch = g->opts.init && !strcmp(g->opts.init, "torch");
  sp_mt19937 mt;
  int st = SP_OK;
  if (torch) sp_mt19937_seed(&mt, g->opts.seed);
  for (size_t i = 0; i < g->n_nodes && !st; i++) {
    sp_node *n = g->nodes[i];
    bool all = !torch;
    for (size_t k = 0; k < n->params.n_weights; k++) all = all && n->params.loaded[k];
    if (n->params.n_weights && !all) st = sp_node_init_weights(n, torch ? &mt : NULL, err);
  }
  g->initialised = !st;
  bool resumed = sp_graph_averages(g) && g->train.optimizer->params.loaded[g->train.optimizer->update.averages - 1];
  return st || resumed ? st : sp_graph_restart_averages(g, NULL, err);
}

/* ---- averages that the optimizer keeps ---- */

bool sp_graph_averages(const sp_graph *g) { return g->train.on && g->train.optimizer->update.averages; }

long sp_graph_average_of(const sp_graph *g, const sp_node *node, size_t i) {
  long at = sp_graph_averages(g) ? (long)g->train.optimizer->update.averages - 1 : 0;
  if (!sp_graph_averages(g)) return -1;
  for (sp_weight_ref r = {0}; sp_graph_next_trained(g, &r); at++)
    if (r.node == node && r.i == i) return at;
  return -1;
}

int sp_graph_restart_averages(sp_graph *g, const sp_node *node, sp_err *err) {
  sp_node *opt = g->train.optimizer;
  int st = SP_OK;
  if (!sp_graph_averages(g) || !g->initialised) return SP_OK;
  size_t at = opt->update.averages - 1;
  for (sp_weight_ref r = {0}; !st && sp_graph_next_trained(g, &r); at++) {
    const void *data;
    void *copy;
    if (node && r.node != node) continue;
    if (!(st = sp_node_get_weight(r.node, r.i, &data, &copy, err))) st = sp_node_put_weight(opt, at, data, err);
    free(copy);
  }
  return st;
}

/* Bytes of device memory change places; tmp has room for both. */
static int swap_bytes(sp_place *a, char *at, sp_place *b, char *with, size_t bytes, char *tmp, sp_err *err) {
  int st = sp_place_download(a, tmp, at, bytes, err);
  if (!st) st = sp_place_download(b, tmp + bytes, with, bytes, err);
  if (!st) st = sp_place_upload(a, at, tmp + bytes, bytes, err);
  return st ? st : sp_place_upload(b, with, tmp, bytes, err);
}

/* Of a weight that ranks have slices of each changes its own, and has those of the others from them. */
int sp_graph_swap_averages(sp_graph *g, sp_err *err) {
  sp_node *opt = g->train.optimizer;
  size_t most = 1, k = 0;
  int st = SP_OK;
  if (!sp_graph_averages(g)) return SP_OK;
  for (sp_weight_ref r = {0}; sp_graph_next_trained(g, &r);) {
    size_t bytes = (size_t)sp_spec_bytes(&r.node->params.weights[r.i].spec);
    most = bytes > most ? bytes : most;
  }
  char *tmp = sp_calloc(2, most);
  if (!tmp) return sp_nomem(err, 2 * most, "averages of the weights");
  for (sp_weight_ref r = {0}; !st && sp_graph_next_trained(g, &r); k++) {
    sp_tensor own = sp_graph_slice_tensor(g, k, &r.node->params.w[r.i]);
    st = swap_bytes(sp_node_place(r.node), own.data, sp_node_place(opt),
                    opt->params.w[opt->update.averages - 1 + k].data, (size_t)sp_spec_bytes(&own.spec), tmp, err);
  }
  free(tmp);
  return st || !g->sliced ? st : sp_slices_spread(g, err);
}

/* The last weights of the optimizer become what the statistics are now. Nothing is in flight. */
int sp_graph_keep_statistics(sp_graph *g, sp_err *err) {
  sp_node *opt = g->train.optimizer;
  int st = SP_OK;
  size_t at;
  if (!sp_graph_restores(g)) return SP_OK;
  if (opt->params.n_weights < opt->in_specs[1].n)
    return sp_fail(err, SP_E_INTERNAL, "optimizer '%s' restores %u statistics, but has %zu weights", opt->name,
                   opt->in_specs[1].n, opt->params.n_weights);
  at = opt->params.n_weights - opt->in_specs[1].n;
  for (sp_weight_ref r = {0}; !st && sp_graph_next_statistic(g, &r); at++) {
    const void *data;
    void *copy;
    if (!sp_spec_equal(&r.node->params.weights[r.i].spec, &opt->params.weights[at].spec))
      return sp_fail(err, SP_E_INTERNAL, "optimizer '%s': weight '%s' is no copy of '%s.%s'", opt->name,
                     opt->params.weights[at].name, r.node->name, r.node->params.weights[r.i].name);
    if (!(st = sp_node_get_weight(r.node, r.i, &data, &copy, err))) st = sp_node_put_weight(opt, at, data, err);
    free(copy);
  }
  return st;
}

size_t sp_node_n_weights(const sp_node *n) { return n->params.n_weights; }
const sp_weight *sp_node_weight_at(const sp_node *n, size_t i) {
  return i < n->params.n_weights ? &n->params.weights[i] : NULL;
}

int sp_node_weight(sp_node *n, const char *name, sp_spec *spec, void *dst, size_t bytes, sp_err *err) {
  int st;
  for (size_t i = 0; i < n->params.n_weights; i++) {
    if (strcmp(n->params.weights[i].name, name)) continue;
    *spec = n->params.weights[i].spec;
    spec->order = SP_ROW_MAJOR;
    if (!dst) return SP_OK; /* only the spec is asked */
    if ((int64_t)bytes != sp_spec_bytes(spec))
      return sp_fail(err, SP_E_SHAPE, "weight '%s.%s' has %" PRId64 " bytes, not %zu", n->name, name,
                     sp_spec_bytes(spec), bytes);
    if (!n->params.w || !n->params.w[i].data)
      return sp_fail(err, SP_E_STATE, "weight '%s.%s' has no values yet", n->name, name);
    const void *data;
    void *copy;
    st = sp_node_get_weight(n, i, &data, &copy, err);
    if (!st) sp_spec_copy(spec, dst, &n->params.weights[i].spec, data);
    free(copy);
    return st;
  }
  return sp_fail(err, SP_E_NOTFOUND, "stage '%s' has no weight '%s'", n->name, name);
}
