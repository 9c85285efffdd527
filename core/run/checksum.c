/* SPDX-License-Identifier: MIT
 * checksum.c - what a checked run hashes of a call: outputs and statistics of a forward, gradients of a backward
 * (weights, where it updates them in place), weights of an update, where ranks have slices of them when they are whole
 * again; of what is made of factors the same. And which outputs have no hash,
 * since nobody reads them or a cache spares their stage. */
#include "run/machine.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- names ---- */
static int add_hash(sp_post *post, char *name, sp_err *err) {
  if (!name || !sp_grow(&post->hashes, &post->cap_hashes, post->n_hashes + 1, sizeof *post->hashes)) {
    free(name);
    return sp_nomem(err, 64, "a name");
  }
  post->hashes[post->n_hashes++] = (sp_hash){.name = name};
  return SP_OK;
}

static char *edge_name(const sp_node *n, const char *what, int index) {
  char buf[256];
  if (index < 0) snprintf(buf, sizeof buf, "%s.%s", n->name, what);
  else snprintf(buf, sizeof buf, "%s.%s[%d]", n->name, what, index + 1);
  return sp_strdup(buf);
}

static int name_hash(sp_post *post, const sp_node *n, const char *what, int index, sp_err *err) {
  return add_hash(post, edge_name(n, what, index), err);
}

static char *output_name(const sp_node *n, unsigned o, uint32_t k) {
  const sp_port *port = sp_node_out_port(n, o);
  return edge_name(n, port->name, port->flags & SP_PORT_LIST ? (int)k : -1);
}

static int add_absent(sp_machine *m, char *name, sp_err *err) {
  if (!name || !sp_grow(&m->absent, &m->cap_absent, m->n_absent + 1, sizeof *m->absent)) {
    free(name);
    return sp_nomem(err, 64, "a name");
  }
  m->absent[m->n_absent++] = name;
  return SP_OK;
}

/* An output that nobody reads has no memory. */
static bool is_given(const sp_task *t, unsigned o, uint32_t k) {
  size_t tensor = t->offset[t->node->n_in + o] + k;
  for (size_t i = 0; i < t->n_binds; i++)
    if (t->binds[i].tensor == tensor) return t->binds[i].buf >= 0;
  return false;
}

/* The call updates the weights that it makes the gradients of. */
static bool in_place(const sp_task *t) {
  return t->kind == SP_TASK_APPLY ? t->node->g->store.applied : t->node->params.inplace;
}

static int name_gradient(sp_post *post, const sp_task *t, size_t i, sp_err *err) {
  const sp_node *n = t->node;
  char grad[160];
  snprintf(grad, sizeof grad, "%s%s", n->params.weights[i].name, in_place(t) ? "" : ".grad");
  return name_hash(post, n, grad, -1, err);
}

static bool hashed_state(const sp_node *n, size_t i) {
  return !n->frozen && n->params.weights[i].flags & SP_WEIGHT_STATE;
}
static bool hashed_gradient(const sp_task *t, size_t i) {
  const sp_weight *w = &t->node->params.weights[i];
  bool made = t->kind == SP_TASK_BACKWARD || t->kind == SP_TASK_APPLY, late = w->flags & SP_WEIGHT_FACTORS;
  return made && t->node->params.trained && sp_weights_is_trained(&t->node->params, i) && w->part == t->part &&
         late == (t->kind == SP_TASK_APPLY);
}

/* All of what was updated. */
static bool has_weights(const sp_machine *m, const sp_task *t) {
  return t->kind == (m->p->looks ? SP_TASK_LOOK : SP_TASK_UPDATE);
}

static bool is_replica(const sp_machine *m, const sp_task *t) {
  return m->p->lanes[t->lane].props.replicas > 1 && t->phase;
}

static int name_outputs(sp_machine *m, const sp_task *t, sp_err *err) {
  const sp_node *n = t->node;
  int st = SP_OK;
  for (unsigned o = 0; o < n->n_out; o++)
    for (uint32_t k = 0; k < n->out_specs[o].n && !st; k++)
      if (is_given(t, o, k)) st = add_hash(&m->posts[t->index], output_name(n, o, k), err);
      else if (!is_replica(m, t)) st = add_absent(m, output_name(n, o, k), err);
  return st;
}

int sp_checksum_name(sp_machine *m, const sp_task *t, sp_err *err) {
  const sp_node *n = t->node;
  sp_post *post = &m->posts[t->index];
  int st = t->kind == SP_TASK_FORWARD ? name_outputs(m, t, err) : SP_OK;
  for (size_t i = 0; t->kind == SP_TASK_FORWARD && i < n->params.n_weights && !st; i++)
    if (hashed_state(n, i)) st = name_hash(post, n, n->params.weights[i].name, -1, err);
  for (size_t i = 0; i < n->params.n_weights && !st; i++)
    if (hashed_gradient(t, i)) st = name_gradient(post, t, i, err);
  for (sp_weight_ref r = {0}; has_weights(m, t) && !st && sp_store_next_trained(&m->g->store, &r);)
    st = name_hash(post, m->g->nodes[r.of->index], r.of->weights[r.i].name, -1, err);
  m->n_hashes += post->n_hashes;
  return st;
}

/* Whose part the weight is in: one of the node's calls of this kind, of which the first is given. */
static const sp_task *part_with(const sp_machine *m, const sp_task *first, size_t weight) {
  for (size_t i = (size_t)first->index; i < m->p->n_tasks; i++) {
    const sp_task *t = &m->p->tasks[i];
    if (t->node == first->node && t->kind == first->kind && hashed_gradient(t, weight)) return t;
  }
  return NULL;
}

static int name_spared(sp_machine *m, sp_err *err) {
  int st = SP_OK;
  if (!m->g->opts.checksums || m->p->fills) return SP_OK;
  for (size_t i = 0; i < m->g->n_nodes; i++) {
    const sp_node *n = m->g->nodes[i];
    for (unsigned o = 0; n->flow.spared && o < n->n_out; o++)
      for (uint32_t k = 0; k < n->out_specs[o].n && !st; k++) st = add_absent(m, output_name(n, o, k), err);
  }
  return st;
}

int sp_checksum_order(sp_machine *m, sp_err *err) {
  size_t k = 0, *used = sp_calloc(m->p->n_tasks + 1, sizeof *used);
  m->hash_of = used ? sp_graph_zalloc(m->g, m->n_hashes, sizeof *m->hash_of, "checksums", err) : NULL;
  if (!used) return sp_nomem(err, m->p->n_tasks * sizeof *used, "checksums");
  for (size_t i = 0; m->hash_of && i < m->p->n_tasks; i++) {
    const sp_task *t = &m->p->tasks[i];
    if (!m->posts[i].n_hashes || is_replica(m, t)) continue;
    bool parts = t->node->n_parts > 1 && (t->kind == SP_TASK_BACKWARD || t->kind == SP_TASK_APPLY);
    for (size_t weight = 0; parts && weight < t->node->params.n_weights; weight++) {
      const sp_task *of = part_with(m, t, weight);
      if (of && used[of->index] < m->posts[of->index].n_hashes)
        m->hash_of[k++] = (sp_hash_of){(size_t)of->index, used[of->index]++};
    }
    while (!parts && used[i] < m->posts[i].n_hashes) m->hash_of[k++] = (sp_hash_of){i, used[i]++};
  }
  m->n_hashes = k;
  free(used);
  return m->hash_of ? name_spared(m, err) : err->status;
}

/* ---- values ---- */
static int hash_tensor(sp_call *c, void *stream, const sp_tensor *t, size_t *k, sp_err *err) {
  sp_place *place = sp_node_place(c->task->node);
  int64_t of_spec = sp_spec_bytes(&t->spec);
  size_t bytes = t->data && of_spec > 0 ? (size_t)of_spec : 0;
  uint64_t *hash = &c->hash[(*k)++];
  if (!place->type->stream_hash) return sp_place_checksum(place, t->data, bytes, c->task->name, hash, err);
  return sp_place_hash(place, stream, t->data, bytes, hash, c->task->name, err);
}

int sp_checksum_call(sp_call *c, void *stream, sp_err *err) {
  const sp_task *t = c->task;
  const sp_node *n = t->node;
  size_t k = 0;
  int st = SP_OK;
  if (t->kind == SP_TASK_FORWARD)
    for (unsigned o = 0; o < n->n_out; o++)
      for (uint32_t i = 0; i < c->io.out[o].n && !st; i++)
        if (is_given(t, o, i)) st = hash_tensor(c, stream, &c->io.out[o].t[i], &k, err);
  for (size_t i = 0; t->kind == SP_TASK_FORWARD && i < n->params.n_weights && !st; i++)
    if (hashed_state(n, i)) st = hash_tensor(c, stream, &c->io.weights[i], &k, err);
  for (size_t i = 0; i < n->params.n_weights && !st; i++)
    if (hashed_gradient(t, i))
      st = hash_tensor(c, stream, in_place(t) ? &c->io.weights[i] : &c->io.dweights[i], &k, err);
  for (uint32_t i = 0; has_weights(c->m, t) && i < c->io.out[0].n && !st; i++)
    st = hash_tensor(c, stream, &c->io.out[0].t[i], &k, err);
  return st;
}
