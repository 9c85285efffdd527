/* SPDX-License-Identifier: MIT
 * reduce.c - see reduce.h. */
#include "device/cpu.h"
#include "graph/reduce.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VERDICT 3 /* seconds in which the job says why a call of the communicator failed */

enum { ALIGN = 256, BLOCK = 4096 }; /* of a tensor in its bucket, and of a piece; of a bucket */

static size_t rounded(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

/* Slices begin where pieces do, and where the optimizer wants them to. */
static size_t unit_of(const sp_graph *g, const sp_bucket *b) {
  size_t unit = g->sliced && b->n_gradients ? g->train.optimizer->update.slice * sizeof(float) : ALIGN;
  while (unit % ALIGN) unit *= 2; /* which is a power of two */
  return unit;
}

static size_t bytes_of(const sp_weight_ref *r) {
  return rounded((size_t)sp_spec_bytes(&r->node->params.weights[r->i].spec), ALIGN);
}

/* ---- buckets ---- */
static int add_part(sp_reduce *x, const sp_weight_ref *r, bool gradient, sp_err *err) {
  sp_bucket *b = &x->buckets[x->n - 1];
  if (!sp_grow(&b->parts, &b->cap, b->n + 1, sizeof *b->parts)) return sp_nomem(err, 64, "buckets");
  b->parts[b->n++] = *r;
  b->bytes += bytes_of(r);
  if (gradient) b->n_gradients = b->n;
  return SP_OK;
}

static int new_bucket(sp_reduce *x, sp_err *err) {
  if (!sp_grow(&x->buckets, &x->cap, x->n + 1, sizeof *x->buckets)) return sp_nomem(err, 64, "buckets");
  x->buckets[x->n++] = (sp_bucket){0};
  return SP_OK;
}

/* From the end of the network, whose gradients come first. What is one weight is never in two buckets. */
static int fill_gradients(sp_graph *g, sp_reduce *x, bool factors, sp_err *err) {
  size_t most = g->opts.bucket, n = 0;
  sp_weight_ref *all = NULL;
  for (sp_weight_ref r = {0}; sp_graph_next_trained(g, &r);) n += sp_node_sums(r.node, r.i) != factors;
  if (!(all = sp_calloc(n + 1, sizeof *all))) return sp_nomem(err, n * sizeof *all, "buckets");
  size_t k = n;
  for (sp_weight_ref r = {0}; sp_graph_next_trained(g, &r);)
    if (sp_node_sums(r.node, r.i) != factors) all[--k] = r;
  int st = new_bucket(x, err);
  for (k = 0; k < n && !st; k++) {
    const sp_bucket *b = &x->buckets[x->n - 1];
    if (b->n && b->bytes + bytes_of(&all[k]) > most) st = new_bucket(x, err);
    if (!st) st = add_part(x, &all[k], true, err);
    x->buckets[x->n - 1].factors = factors;
  }
  free(all);
  return st;
}

static void drop_empty(sp_reduce *x) {
  if (x->n && !x->buckets[x->n - 1].n) x->n--;
}

static int fill_buckets(sp_graph *g, sp_reduce *x, sp_err *err) {
  int st = fill_gradients(g, x, false, err);
  bool alone = g->shards.wire || g->sliced; /* statistics go as they are, and all ranks want them */
  if (!st && alone && x->buckets[x->n - 1].n) st = new_bucket(x, err);
  for (int counts = 0; counts < 2 && !st; counts++)
    for (sp_weight_ref r = {0}; !st && sp_graph_next_statistic(g, &r);) {
      if ((r.node->params.weights[r.i].spec.dtype != SP_F32) != counts) continue;
      if (counts && !x->buckets[x->n - 1].counts && !(st = new_bucket(x, err))) x->buckets[x->n - 1].counts = true;
      if (!st) st = add_part(x, &r, false, err);
    }
  if (!st) drop_empty(x); /* all gradients are made of factors */
  if (!st && g->sliced && !(st = fill_gradients(g, x, true, err))) drop_empty(x);
  return st;
}

/* Where parts lie if a piece has so many bytes; the end of all. What lies in several pieces begins at a unit, as they do. */
static size_t lay(const sp_bucket *b, size_t each, size_t unit) {
  size_t end = 0;
  for (size_t i = 0; i < b->n; i++) {
    size_t bytes = bytes_of(&b->parts[i]);
    bool split = end / each != (end + bytes - 1) / each;
    b->at[i] = split && i < b->n_gradients ? rounded(end, unit) : end;
    end = b->at[i] + bytes;
  }
  return end;
}

static int lay_out(const sp_graph *g, const sp_reduce *x, sp_bucket *b, sp_err *err) {
  size_t unit = unit_of(g, b), n = (size_t)x->n_ranks;
  if (!(b->at = sp_calloc(b->n + 1, sizeof *b->at))) return sp_nomem(err, b->n * sizeof *b->at, "buckets");
  b->each = rounded((b->bytes + n - 1) / n, unit);
  while (b->n && lay(b, b->each, unit) > n * b->each) b->each += unit;
  b->bytes = n * b->each;
  if (b->n_gradients) b->gradients = b->at[b->n_gradients - 1] + bytes_of(&b->parts[b->n_gradients - 1]);
  return SP_OK;
}

/* ---- the communicator ---- */
typedef struct boot {
  sp_ranks *ranks;
  sp_err err;
} boot;

static int exchange(const sp_comm_boot *b, const void *mine, size_t bytes, void *all) {
  boot *own = b->impl;
  return sp_ranks_exchange(own->ranks, mine, bytes, all, &own->err);
}

static void end_waits(void *arg) {
  const sp_reduce *x = arg;
  x->type->abort(x->comm);
}

/* The words are those of the job where it has failed, since then this is only what came of it: of a rank that is lost the
 * communicator may know first. */
int sp_reduce_failed(const sp_reduce *x, const char *what, sp_err *err) {
  sp_err why;
  if (sp_ranks_await_failure(x->ranks, VERDICT, &why)) *err = why;
  else sp_prefix(err, "communicator '%s': %s", x->type->name, what);
  return err->status;
}

static const char *comm_name(const sp_graph *g) {
  if (g->opts.comm && *g->opts.comm) return g->opts.comm;
  return sp_place_is_host(&g->main) ? "local" : "nccl";
}

/* torchrun, say, gives a job no name. */
static int name_job(sp_ranks *ranks, char name[64], sp_err *err) {
  const sp_rank_opts *o = sp_ranks_opts(ranks);
  static unsigned graphs;
  snprintf(name, 64, "%s", o->job);
  if (*name) return SP_OK;
  snprintf(name, 64, "%d-%u-%.6f", (int)getpid(), graphs++, sp_now());
  return sp_ranks_broadcast(ranks, name, 64, err);
}

static int open_comm(sp_graph *g, sp_reduce *x, sp_err *err) {
  const char *name = comm_name(g);
  const char *memory = sp_place_is_host(&g->main) ? "cpu" : g->main.type->name;
  const sp_rank_opts *o = sp_ranks_opts(x->ranks);
  sp_ctx_holder h;
  boot own = {.ranks = x->ranks};
  char job[64];
  sp_comm_boot b = {.size = sizeof b,
                    .rank = o->rank,
                    .ranks = o->ranks,
                    .local_rank = o->local_rank,
                    .local_ranks = o->local_ranks,
                    .job = job,
                    .impl = &own,
                    .exchange = exchange};
  if (g->main.type == &sp_device_sim) /* the submitting thread does it all, so nobody could wait for another rank */
    return sp_fail(err, SP_E_UNSUPPORTED, "device 'sim' simulates one process: take --device cpu for several ranks");
  int st = sp_registry_comm(g->env->reg, name, &x->type, err);
  if (st) return st;
  if (strcmp(x->type->device, memory))
    return sp_fail(
        err, SP_E_UNSUPPORTED,
        "communicator '%s' moves memory of '%s', not of device '%s': ranks train on cpu or cuda; leave --comm "
        "out, and the right one is taken",
        name, x->type->device, g->opts.device);
  if ((st = name_job(x->ranks, job, err))) return st;
  void *dev = sp_place_is_host(&g->main) ? NULL : g->main.dev;
  st = x->type->open(sp_ctx_for(&h, name, err), &b, dev, &x->comm);
  if (st) {
    x->comm = NULL;
    if (!*err->msg) *err = own.err;
    return sp_reduce_failed(x, "open", err);
  }
  x->abort = (sp_rank_abort){.abort = end_waits, .arg = x};
  sp_ranks_add_abort(x->ranks, &x->abort);
  return SP_OK;
}

static int take(sp_reduce *x, size_t bytes, void *to, sp_err *err) {
  sp_ctx_holder h;
  void *memory = NULL;
  int st = x->type->alloc(sp_ctx_for(&h, "alloc", err), x->comm, bytes, &memory);
  *(void **)to = memory;
  return st ? sp_reduce_failed(x, "memory for gradients", err) : SP_OK;
}

/* ---- the whole ---- */
/* The part's weight lies in the bucket: a statistic, or beside its gradient. */
static bool has_weight(const sp_graph *g, const sp_bucket *b, size_t i) { return i >= b->n_gradients || g->sliced; }

/* What lies elsewhere makes room for the bucket: gradients of before are for nobody, what a file gave comes to the host. */
static int lift(sp_graph *g, sp_bucket *b, sp_err *err) {
  const void *data;
  int st = SP_OK;
  if (!(b->given = sp_calloc(b->n + 1, sizeof *b->given))) return sp_nomem(err, b->n * sizeof *b->given, "buckets");
  for (size_t i = 0; i < b->n && !st; i++) {
    const sp_weight_ref *r = &b->parts[i];
    if ((st = sp_node_lists(r->node, err))) break;
    sp_tensor *w = &r->node->params.w[r->i], *dw = &r->node->params.dw[r->i];
    if (i < b->n_gradients && !b->factors) sp_place_free(&g->main, dw->data), dw->data = NULL;
    if (!has_weight(g, b, i) || !w->data || sp_place_is_host(&g->main)) continue;
    st = sp_node_get_weight(r->node, r->i, &data, &b->given[i], err);
    sp_place_free(&g->main, w->data);
    w->data = NULL;
  }
  return st;
}

/* A weight goes there, with what a file gave. */
static int place_weight(sp_graph *g, const sp_weight_ref *r, char *to, const void *given, sp_err *err) {
  sp_tensor *t = &r->node->params.w[r->i];
  void *old = t->data;
  const void *from = given ? given : old;
  t->data = to;
  int st = from ? sp_node_put_weight(r->node, r->i, from, err) : SP_OK;
  sp_place_free(&g->main, old);
  return st;
}

static int place(sp_graph *g, sp_bucket *b, sp_err *err) {
  int st = SP_OK;
  for (size_t i = 0; i < b->n && !st; i++) {
    const sp_weight_ref *r = &b->parts[i];
    char *weights = i < b->n_gradients ? b->weights : b->memory;
    if (has_weight(g, b, i)) st = place_weight(g, r, weights + b->at[i], b->given[i], err);
    if (i < b->n_gradients && b->memory) r->node->params.dw[r->i].data = b->memory + b->at[i];
    free(b->given[i]);
    b->given[i] = NULL;
  }
  return st;
}

/* Lays out the bucket, and adds what it takes. */
static int measure(const sp_graph *g, sp_reduce *x, sp_bucket *b, sp_err *err) {
  int st = lay_out(g, x, b, err);
  if (st) return st;
  if (!b->factors) x->bytes += rounded(b->bytes, BLOCK);
  if (g->sliced && b->n_gradients) x->bytes += rounded(b->bytes, BLOCK);
  if (b->bytes > x->room && !b->factors) x->room = b->bytes;
  return SP_OK;
}

static char *cut(char **rest, size_t bytes) {
  char *here = *rest;
  *rest += rounded(bytes, BLOCK);
  return here;
}

/* All buckets lie in one block: a communicator's memory may come in pieces of 2 MiB, and a window of all ranks takes long. */
static int make_buckets(sp_graph *g, sp_reduce *x, sp_err *err) {
  int st = SP_OK;
  for (size_t i = 0; i < x->n && !st; i++) st = measure(g, x, &x->buckets[i], err);
  for (size_t i = 0; i < x->n && !st; i++) st = lift(g, &x->buckets[i], err);
  if (!st && x->bytes) st = take(x, x->bytes, &x->memory, err);
  char *rest = x->memory;
  for (size_t i = 0; i < x->n && !st; i++) {
    sp_bucket *b = &x->buckets[i];
    if (!b->factors) b->memory = cut(&rest, b->bytes);
    if (g->sliced && b->n_gradients) b->weights = cut(&rest, b->bytes);
    st = place(g, b, err);
  }
  return st;
}

/* Before anybody waits for another in a communicator: which options make what they would do there differ. */
static int same_options(const sp_graph *g, const sp_reduce *x, sp_err *err) {
  const sp_graph_opts *o = &g->opts;
  char shards[16], parts[16], bucket[32];
  snprintf(shards, sizeof shards, "%d", o->shards);
  snprintf(parts, sizeof parts, "%d", o->parts);
  snprintf(bucket, sizeof bucket, "%g MB", o->bucket == 1 ? 0 : (double)o->bucket / (1 << 20)); /* 1: each alone */
  const sp_rank_text texts[] = {
      {"the shards of a step (--shards)", shards},
      {"the communicator (--comm)", comm_name(g)},
      {"the type that gradients are sent as (--wire)", o->wire_bf16 ? "bf16" : "fp32"},
      {"the size of buckets (--bucket)", bucket},
      {"the parts of a backward (--parts)", parts},
      {"the use of factors (--no-factors)", o->no_factors ? "false" : "true"},
      {"what they share of the optimizer (--optimizer-shards)", o->optimizer_shards ? "true" : "false"}};
  return sp_ranks_same(x->ranks, texts, SP_ARRAY(texts), err);
}

static int make_memory(sp_graph *g, sp_reduce *x, sp_err *err) {
  if (g->sliced) x->room = (size_t)x->n_ranks << 12; /* sp_slices_gather() has it, too */
  int st = make_buckets(g, x, err);
  if (!st) st = take(x, x->room, &x->pieces, err);
  if (!st && g->shards.wire) st = take(x, x->room / 2, &x->wire, err);
  return st || !g->sliced ? st : sp_graph_slice(g, err);
}

int sp_graph_reduce(sp_graph *g, sp_err *err) {
  const sp_rank_opts *o = sp_ranks_opts(g->env->ranks);
  if (g->reduce && g->reduce->failure.status) return *err = g->reduce->failure, err->status;
  if (g->reduce && g->reduce->slices) return sp_graph_slice(g, err); /* the optimizer may have been planned again */
  if (g->reduce || o->ranks == 1 || !g->train.on) return SP_OK;
  sp_reduce *x = g->reduce = sp_calloc(1, sizeof *x);
  if (!x) return sp_nomem(err, sizeof *x, "a reduction");
  *x = (sp_reduce){.ranks = g->env->ranks, .rank = o->rank, .n_ranks = o->ranks};
  int st = same_options(g, x, err);
  if (!st) st = fill_buckets(g, x, err);
  if (!st) st = open_comm(g, x, err);
  if (st) {
    sp_graph_free_reduce(g); /* nothing has a place in it yet */
    return st;
  }
  if ((st = make_memory(g, x, err))) x->failure = *err;
  return st;
}

/* ---- factors ---- */
static int make_rows(sp_node *n, size_t i, sp_err *err) {
  sp_graph *g = n->g;
  sp_tensor *t = &n->params.rows[i];
  t->spec = n->params.factors[i].spec;
  t->spec.shape[0] *= g->opts.shards;
  size_t bytes = (size_t)sp_spec_bytes(&t->spec);
  if (g->reduce) return take(g->reduce, bytes, &t->data, err);
  t->data = sp_graph_alloc(g, sp_node_place(n), bytes, "factors", err);
  return t->data ? SP_OK : err->status;
}

int sp_graph_make_factors(sp_graph *g, sp_err *err) {
  int st = SP_OK;
  for (size_t k = 0; k < g->n_nodes && !st; k++) {
    sp_node *n = g->nodes[k];
    if (!n->params.n_factors || n->params.rows) continue;
    if (!(n->params.rows = sp_calloc(n->params.n_factors, sizeof *n->params.rows)))
      return sp_nomem(err, n->params.n_factors, "factors");
    for (size_t i = 0; i < n->params.n_factors && !st; i++) st = make_rows(n, i, err);
  }
  return st;
}

void sp_node_drop_factors(sp_node *n) {
  for (size_t i = 0; n->params.rows && i < n->params.n_factors; i++) {
    void *data = n->params.rows[i].data;
    if (data && n->g->reduce) n->g->reduce->type->free(n->g->reduce->comm, data);
    else sp_place_free(sp_node_place(n), data);
  }
  free(n->params.rows);
  free(n->params.factors);
  n->params.rows = NULL;
  n->params.factors = NULL;
  n->params.n_factors = 0;
}

void sp_graph_free_reduce(sp_graph *g) {
  sp_reduce *x = g->reduce;
  if (!x) return;
  if (x->comm) sp_ranks_remove_abort(x->ranks, &x->abort);
  for (size_t i = 0; i < x->n; i++) {
    for (size_t k = 0; x->buckets[i].given && k < x->buckets[i].n; k++) free(x->buckets[i].given[k]);
    free(x->buckets[i].given);
    free(x->buckets[i].parts);
    free(x->buckets[i].at);
  }
  sp_reduce_free_slices(g);
  if (x->memory) x->type->free(x->comm, x->memory);
  if (x->pieces) x->type->free(x->comm, x->pieces);
  if (x->wire) x->type->free(x->comm, x->wire);
  if (x->comm) x->type->close(x->comm);
  free(x->buckets);
  free(x);
  g->reduce = NULL;
}

bool sp_reduce_owns(const sp_graph *g, const void *data) {
  const sp_reduce *x = g->reduce;
  const char *at = data;
  return x && x->memory && at >= x->memory && at < x->memory + x->bytes;
}

uint64_t sp_reduce_bytes(const sp_graph *g) {
  size_t room = g->reduce ? g->reduce->room : 0;
  return g->shards.wire ? room + room / 2 : room;
}

/* ---- weights that are the same everywhere ---- */
bool sp_graph_writes(const sp_graph *g) { return sp_ranks_opts(g->env->ranks)->rank == 0 || !g->train.on; }

static bool is_shared(const sp_graph *g) { return g->train.on && sp_ranks_opts(g->env->ranks)->ranks > 1; }

/* What ranks have slices of goes to all where rank 0 was given it. */
static int is_given(sp_node *n, size_t i, uint8_t *given, sp_err *err) {
  *given = !sp_node_sliced(n, i) || (n->params.whole && n->params.whole[i]);
  return sp_node_sliced(n, i) ? sp_ranks_broadcast(n->g->env->ranks, given, sizeof *given, err) : SP_OK;
}

static int share_weight(sp_node *n, size_t i, sp_err *err) {
  size_t bytes = (size_t)sp_spec_bytes(&n->params.weights[i].spec);
  bool first = sp_ranks_opts(n->g->env->ranks)->rank == 0;
  const void *data = NULL;
  void *copy = NULL;
  uint8_t given;
  int st = is_given(n, i, &given, err);
  if (st || !given) return st;
  if (first) st = sp_node_get_weight(n, i, &data, &copy, err);
  if (!first && !(copy = sp_calloc(1, bytes ? bytes : 1))) st = sp_nomem(err, bytes, n->params.weights[i].name);
  if (!st) st = sp_ranks_broadcast(n->g->env->ranks, first ? (void *)data : copy, bytes, err);
  if (!st && !first) st = sp_node_put_weight(n, i, copy, err);
  free(copy);
  if (n->params.whole) free(n->params.whole[i]), n->params.whole[i] = NULL;
  return st;
}

int sp_graph_share_weights(sp_graph *g, const sp_node *node, sp_err *err) {
  int st = SP_OK;
  for (size_t k = 0; is_shared(g) && k < g->n_nodes && !st; k++) {
    sp_node *n = g->nodes[k];
    if (node && n != node && !(n->optimizer && g->train.optimizer->update.averages)) continue;
    for (size_t i = 0; i < n->params.n_weights && !st; i++) st = share_weight(n, i, err);
  }
  return st;
}

/* On the device: to copy all weights of the reference networks to the host and to hash them there took 0.4 s. */
static int hash_weight(sp_node *n, size_t i, uint64_t *hash, sp_err *err) {
  const sp_weight *w = &n->params.weights[i];
  if (!n->params.w[i].data) return sp_node_no_weight(n, i, err);
  return sp_place_checksum(sp_node_place(n), n->params.w[i].data, (size_t)sp_spec_bytes(&w->spec), w->name, hash, err);
}

/* Of what ranks have that of most of them, of the first where as many have another one. */
static int most_have(const uint64_t *all, size_t n, int ranks) {
  int most = 0, best = 0;
  for (int r = 0; r < ranks; r++) {
    int have = 0;
    for (int k = 0; k < ranks; k++) have += all[(size_t)k * n] == all[(size_t)r * n];
    if (have > best) most = r, best = have;
  }
  return most;
}

/* A rank that has another weight than most, in words; -1: there is none. */
static int differ(const sp_graph *g, const uint64_t *all, size_t n, uint64_t step, sp_err *err) {
  int ranks = sp_ranks_opts(g->env->ranks)->ranks;
  size_t at = 0;
  for (size_t k = 0; k < g->n_nodes; k++)
    for (size_t i = 0; i < g->nodes[k]->params.n_weights; i++, at++)
      for (int r = 1; r < ranks; r++) {
        if (all[(size_t)r * n + at] == all[at]) continue;
        int most = most_have(all + at, n, ranks), guilty = most ? 0 : r;
        sp_fail(err, SP_E_DATA,
                "weight '%s.%s' is not the same on rank %d as on rank %d before step %" PRIu64
                ": memory is damaged, or a stage does not compute the same twice",
                g->nodes[k]->name, g->nodes[k]->params.weights[i].name, guilty, most, step);
        return guilty;
      }
  return -1;
}

int sp_graph_compare_weights(sp_graph *g, uint64_t step, int *guilty, sp_err *err) {
  size_t n = 0, at = 0, ranks = (size_t)sp_ranks_opts(g->env->ranks)->ranks;
  int st = SP_OK;
  *guilty = -1;
  if (!is_shared(g)) return SP_OK;
  for (size_t k = 0; k < g->n_nodes; k++) n += g->nodes[k]->params.n_weights;
  uint64_t *mine = sp_calloc(n + 1, sizeof *mine), *all = sp_calloc(ranks * n + 1, sizeof *all);
  if (!mine || !all) st = sp_nomem(err, ranks * n * sizeof *all, "hashes of weights");
  for (size_t k = 0; k < g->n_nodes && !st; k++)
    for (size_t i = 0; i < g->nodes[k]->params.n_weights && !st; i++, at++)
      if (!sp_node_sliced(g->nodes[k], i)) st = hash_weight(g->nodes[k], i, &mine[at], err);
  if (!st) st = sp_ranks_exchange(g->env->ranks, mine, n * sizeof *mine, all, err);
  if (!st) *guilty = differ(g, all, n, step, err);
  free(mine);
  free(all);
  return *guilty >= 0 ? err->status : st;
}
