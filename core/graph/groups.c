/* SPDX-License-Identifier: MIT
 * groups.c - see groups.h. */
#include "graph/groups.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spec.h"
#include "graph/model.h"

/* ---- what a script says ------------------------------------------------------------------------------------------ */

/* Weights, and what is special about them. */
typedef struct group {
  sp_structs names; /* of const char *: globs */
  double lr, decay;
  int32_t frozen;
  int64_t phase;     /* above 0: frozen until then */
  const char *when;  /* and when that is, in words */
  int32_t flat;      /* of these the weights of at most one dimension alone: biases, and what normalisation has */
  const char *label; /* "": a script has named the weights; else what it has said instead, in one line for all groups
                        beside each other that have it */
} group;

typedef struct ask {
  sp_structs groups; /* of group */
  int64_t phases;
} ask;

static const sp_param name_params[] = {
    {.name = "name", .type = SP_PARAM_STRING, .flags = SP_PARAM_FIRST | SP_PARAM_REQUIRED}, {0}};
#define FACTOR(member) \
  { .name = #member, .type = SP_PARAM_FLOAT, .offset = offsetof(group, member), .def = 1, .min = 0, .max = 1e6 }
static const sp_param group_params[] = {
    {.name = "names",
     .type = SP_PARAM_LIST,
     .offset = offsetof(group, names),
     .fields = name_params,
     .fields_size = sizeof(const char *),
     .min_n = 1},
    FACTOR(lr),
    FACTOR(decay),
    {.name = "frozen", .type = SP_PARAM_BOOL, .offset = offsetof(group, frozen)},
    {.name = "phase", .type = SP_PARAM_INT, .offset = offsetof(group, phase), .imin = 0, .imax = SP_MAX_PHASES - 1},
    {.name = "when", .type = SP_PARAM_STRING, .offset = offsetof(group, when)},
    {.name = "flat", .type = SP_PARAM_BOOL, .offset = offsetof(group, flat)},
    {.name = "label", .type = SP_PARAM_STRING, .offset = offsetof(group, label)},
    {0}};
static const sp_param ask_params[] = {{.name = "groups",
                                       .type = SP_PARAM_LIST,
                                       .offset = offsetof(ask, groups),
                                       .fields = group_params,
                                       .fields_size = sizeof(group)},
                                      {.name = "phases",
                                       .type = SP_PARAM_INT,
                                       .offset = offsetof(ask, phases),
                                       .idef = 1,
                                       .imin = 1,
                                       .imax = SP_MAX_PHASES},
                                      {0}};

int sp_groups_take(sp_groups *s, const sp_value *asked, sp_err *err) {
  *s = (sp_groups){0};
  return asked ? sp_params_fill(&s->asked, ask_params, sizeof(ask), asked, err) : SP_OK;
}

void sp_groups_free(sp_groups *s) {
  sp_params_free(&s->asked);
  free(s->list);
  free(s->of);
  *s = (sp_groups){0};
}

static uint32_t n_asked(const sp_groups *s) { return s->asked.data ? ((const ask *)s->asked.data)->groups.n : 0; }
static const group *asked(const sp_groups *s, uint32_t i) {
  return (const group *)((const ask *)s->asked.data)->groups.v + i;
}
uint32_t sp_graph_phases(const sp_graph *g) {
  const ask *a = g->train.groups.asked.data;
  return a ? (uint32_t)a->phases : 1;
}
static const char *glob_of(const group *g, uint32_t i) { return ((const char *const *)g->names.v)[i]; }

/* ---- which weights they are -------------------------------------------------------------------------------------- */

/* "encoder.layer4" stands for all that begins so, "encoder.layer4.*". */
static bool glob_fits(const char *glob, const group *g, const sp_weights *stage, size_t i) {
  char name[512], below[512];
  size_t n = strlen(glob);
  if (g->flat && stage->weights[i].spec.ndim > 1) return false;
  snprintf(name, sizeof name, "%s.%s", stage->name, stage->weights[i].name);
  if (!fnmatch(glob, name, 0)) return true;
  if (n && glob[n - 1] == '*') return false;
  snprintf(below, sizeof below, "%s.*", glob);
  return !fnmatch(below, name, 0);
}

static bool fits(const group *g, const sp_weights *stage, size_t i) {
  for (uint32_t k = 0; k < g->names.n; k++)
    if (glob_fits(glob_of(g, k), g, stage, i)) return true;
  return false;
}

static bool is_frozen(const group *a, uint32_t phase) { return a->frozen || phase < a->phase; }

/* In all phases. */
static bool stays(const sp_groups *s, const sp_weights *w, size_t i) {
  for (uint32_t k = 0; k < n_asked(s); k++)
    if (asked(s, k)->frozen && fits(asked(s, k), w, i)) return true;
  return false;
}

void sp_graph_fix(sp_graph *g) {
  const sp_groups *s = &g->train.groups;
  for (size_t n = 0; n < g->n_nodes && n_asked(s); n++) {
    sp_weights *w = &g->nodes[n]->params;
    for (size_t i = 0; i < w->n_weights; i++) {
      w->fixed[i] = false;
      for (uint32_t k = 0; k < n_asked(s); k++)
        w->fixed[i] = w->fixed[i] || (is_frozen(asked(s, k), s->phase) && fits(asked(s, k), w, i));
    }
  }
}

/* Trained, or it would be but for a group. */
static bool may_train(const sp_node *n, size_t i) {
  return !n->frozen && !sp_node_apart(n) && !n->source && n->params.weights[i].flags & SP_WEIGHT_TRAINED;
}

/* ---- what does not fit ------------------------------------------------------------------------------------------- */

static int fits_nothing(const sp_graph *g, const group *of, const char *glob, sp_err *err) {
  const char **stages = sp_calloc(g->n_nodes + 1, sizeof *stages), *near = NULL;
  const sp_node *frozen = NULL, *some = NULL;
  size_t n = 0, stem = strcspn(glob, ".");
  char first[80];
  snprintf(first, sizeof first, "%.*s", (int)(stem < 79 ? stem : 79), glob);
  for (size_t k = 0; k < g->n_nodes; k++) {
    const sp_node *node = g->nodes[k];
    bool trains = false;
    for (size_t i = 0; i < node->params.n_weights; i++) {
      trains = trains || may_train(node, i);
      if (node->frozen && glob_fits(glob, of, &node->params, i)) frozen = node;
    }
    if (!trains) continue;
    if (!some || !strcmp(node->name, first)) some = node;
    if (stages) stages[n++] = node->name;
  }
  if (stages) near = sp_nearest(first, stages);
  if (frozen)
    sp_fail(err, SP_E_NOTFOUND, "groups: '%s' fits weights of '%s' alone, which is frozen as a whole", glob,
            frozen->name);
  else if (near && strcmp(near, first) != 0)
    sp_fail(err, SP_E_NOTFOUND, "groups: no weight's name fits '%s'; did you mean '%s%s'?", glob, near, glob + stem);
  else
    sp_fail(err, SP_E_NOTFOUND, "groups: no weight%s fits '%s'; a name is such as '%s.%s'",
            of->flat ? " of one dimension" : "'s name", glob, some ? some->name : "encoder",
            some ? some->params.weights[0].name : "0.weight");
  free(stages);
  return err->status;
}

static int check_glob(const sp_graph *g, const group *of, const char *glob, sp_err *err) {
  for (size_t n = 0; n < g->n_nodes; n++)
    for (size_t i = 0; i < g->nodes[n]->params.n_weights; i++)
      if (may_train(g->nodes[n], i) && glob_fits(glob, of, &g->nodes[n]->params, i)) return SP_OK;
  return fits_nothing(g, of, glob, err);
}

/* ---- what is told ------------------------------------------------------------------------------------------------ */

static void put_factor(sp_sb *sb, const char *what, double least, double most) {
  if (least == 1 && most == 1) return;
  sp_sb_putf(sb, ", %s x %g", what, least);
  if (most != least) sp_sb_putf(sb, " to x %g", most);
}

/* Of the groups from..end-1, which are told of together. */
static void tell(const sp_graph *g, uint32_t from, uint32_t end) {
  const sp_groups *s = &g->train.groups;
  const group *first = asked(s, from);
  bool moves = false;
  double lr[2] = {first->lr, first->lr}, decay[2] = {first->decay, first->decay};
  uint64_t tensors = 0, parameters = 0;
  sp_sb sb = {0};
  for (uint32_t k = 0; !*first->label && k < first->names.n; k++)
    sp_sb_putf(&sb, "%s%s", k ? ", " : "", glob_of(first, k));
  sp_sb_putf(&sb, "%s", first->label);
  for (uint32_t k = from; k < end; k++) {
    const group *a = asked(s, k);
    if (a->lr < lr[0]) lr[0] = a->lr;
    if (a->lr > lr[1]) lr[1] = a->lr;
    if (a->decay < decay[0]) decay[0] = a->decay;
    if (a->decay > decay[1]) decay[1] = a->decay;
  }
  for (size_t n = 0; n < g->n_nodes; n++)
    for (size_t i = 0; i < g->nodes[n]->params.n_weights; i++) {
      bool in = false;
      for (uint32_t k = from; k < end && !in; k++) in = fits(asked(s, k), &g->nodes[n]->params, i);
      if (in && is_frozen(first, s->phase) && g->nodes[n]->params.weights[i].flags & SP_WEIGHT_STATE)
        moves = moves || sp_node_changes(g->nodes[n]);
      if (!in || !may_train(g->nodes[n], i) || (!first->frozen && stays(s, &g->nodes[n]->params, i))) continue;
      tensors++;
      parameters += (uint64_t)sp_spec_count(&g->nodes[n]->params.weights[i].spec);
    }
  if (is_frozen(first, 0)) sp_sb_putf(&sb, ", frozen%s%s", *first->when ? " until " : "", first->when);
  put_factor(&sb, "lr", lr[0], lr[1]);
  put_factor(&sb, "decay", decay[0], decay[1]);
  if (!sb.broken)
    sp_log(SP_LOG_INFO, "groups: %s: %" PRIu64 " tensor%s, %" PRIu64 " parameters%s", sp_sb_str(&sb), tensors,
           tensors == 1 ? "" : "s", parameters,
           moves
               ? "; the running statistics of its batch norms still follow the batches (with statistics = \"keep\" the "
                 "stage keeps them)"
               : "");
  sp_sb_free(&sb);
}

static void tell_all(const sp_graph *g) {
  const sp_groups *s = &g->train.groups;
  for (uint32_t from = 0, end; from < n_asked(s); from = end) {
    const char *label = asked(s, from)->label;
    for (end = from + 1; *label && end < n_asked(s) && !strcmp(label, asked(s, end)->label);) end++;
    tell(g, from, end);
  }
}

/* Later is never where another group leaves all of them as they are. */
static int check_late(const sp_graph *g, const group *of, const char *glob, sp_err *err) {
  for (size_t n = 0; n < g->n_nodes; n++)
    for (size_t i = 0; i < g->nodes[n]->params.n_weights; i++)
      if (may_train(g->nodes[n], i) && glob_fits(glob, of, &g->nodes[n]->params, i) &&
          !stays(&g->train.groups, &g->nodes[n]->params, i))
        return SP_OK;
  return sp_fail(err, SP_E_INVALID, "unfreeze: another group freezes '%s' for good; leave it out of one of the two",
                 glob);
}

int sp_graph_check_groups(sp_graph *g, sp_err *err) {
  sp_groups *s = &g->train.groups;
  for (uint32_t k = 0; k < n_asked(s); k++)
    for (uint32_t i = 0; i < asked(s, k)->names.n && !*asked(s, k)->label; i++)
      if (check_glob(g, asked(s, k), glob_of(asked(s, k), i), err) ||
          (asked(s, k)->phase && check_late(g, asked(s, k), glob_of(asked(s, k), i), err)))
        return err->status;
  return SP_OK;
}

void sp_graph_tell_groups(sp_graph *g) {
  if (!g->train.groups.told && !sp_ranks_opts(g->env->ranks)->rank) tell_all(g);
  g->train.groups.told = true;
}

/* ---- what the optimizer is given --------------------------------------------------------------------------------- */

static sp_group factors(const sp_groups *s, const sp_weight_ref *r) {
  sp_group f = {.lr = 1, .decay = 1, .phase = 0};
  for (uint32_t k = 0; k < n_asked(s); k++) {
    const group *a = asked(s, k);
    if (!fits(a, r->of, r->i)) continue;
    f.lr *= a->lr;
    f.decay *= a->decay;
    if ((uint64_t)a->phase > f.phase) f.phase = (uint64_t)a->phase;
  }
  return f;
}

static int number(sp_groups *s, sp_group f, uint32_t *of, sp_err *err) {
  uint32_t k = 0;
  while (k < s->n && (s->list[k].lr != f.lr || s->list[k].decay != f.decay || s->list[k].phase != f.phase)) k++;
  if (k == SP_MAX_GROUPS)
    return sp_fail(err, SP_E_RANGE,
                   "groups: their factors make more than %d pairs of learning rate and decay (of each phase its own)",
                   SP_MAX_GROUPS);
  if (k == s->n) s->list[s->n++] = f;
  *of = k;
  return SP_OK;
}

int sp_graph_group(sp_graph *g, sp_err *err) {
  sp_groups *s = &g->train.groups;
  size_t n = 0;
  s->n = 0;
  if (!n_asked(s)) return SP_OK;
  for (sp_weight_ref at = {0}; sp_store_next_trained(&g->store, &at);) n++;
  free(s->list);
  free(s->of);
  s->list = sp_calloc(SP_MAX_GROUPS, sizeof *s->list);
  s->of = sp_calloc(n + 1, sizeof *s->of);
  if (!s->list || !s->of) return sp_nomem(err, n * sizeof *s->of, "groups of weights");
  n = 0;
  for (sp_weight_ref at = {0}; sp_store_next_trained(&g->store, &at);)
    if (number(s, factors(s, &at), &s->of[n++], err)) return err->status;
  if (s->n == 1 && s->list[0].lr == 1 && s->list[0].decay == 1 && !s->list[0].phase) s->n = 0;
  return SP_OK;
}

void sp_groups_put(const sp_groups *s, sp_plan *plan) {
  plan->groups = s->n ? s->list : NULL;
  plan->group_of = s->n ? s->of : NULL;
  plan->n_groups = s->n;
  plan->n_phases = s->asked.data ? (uint32_t)((const ask *)s->asked.data)->phases : 1;
}
