/* SPDX-License-Identifier: MIT
 * groups.c - ops that one way can compute at once: found when a network is planned, and then measured beside their ops,
 * or chosen by the way alone. */
#include "way.h"

#include <stdlib.h>

/* ---- planning ---------------------------------------------------------------------------------------------------- */
/* Keeps what was found, unless one of its ops is a part of another group. */
static int keep(sp_ctx *ctx, nn_cuda *cuda, const nnc_group *found) {
  nnc_group *group = &cuda->groups[cuda->n_groups];
  for (int i = 0; i < NNC_GROUP_OPS; i++)
    if (found->op[i] >= 0 && cuda->cops[found->op[i]].group) return SP_OK;
  *group = *found;
  group->by = calloc((size_t)cuda->low.batch + 1, sizeof *group->by);
  if (!group->by) return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory for the network's plan");
  cuda->n_groups++;
  for (int i = 0; i < NNC_GROUP_OPS; i++)
    if (group->op[i] >= 0) cuda->cops[group->op[i]].group = group;
  group->way->together->join(cuda, group);
  return SP_OK;
}

int nnc_groups_find(sp_ctx *ctx, nn_cuda *cuda) {
  int status = SP_OK;
  cuda->groups = calloc((size_t)cuda->low.n_ops + 1, sizeof *cuda->groups);
  if (!cuda->groups) return ctx->host->fail(ctx, SP_E_NOMEM, "out of memory for the network's plan");
  for (int i = 0; i < NNC_WAYS; i++) {
    const nnc_way *way = nnc_ways[i];
    for (int j = 0; way->together && j < cuda->low.n_ops && !status; j++) {
      nnc_group found = {.way = way, .op = {-1, -1, -1, -1}};
      if (way->together->matches(cuda, j, &found)) status = keep(ctx, cuda, &found);
    }
  }
  return status;
}

void nnc_groups_size(nn_cuda *cuda, size_t *arena) {
  for (int i = 0; i < cuda->n_groups; i++) cuda->groups[i].way->together->size(cuda, &cuda->groups[i], arena);
}

void nnc_groups_free(nn_cuda *cuda) {
  for (int i = 0; i < cuda->n_groups; i++) free(cuda->groups[i].by);
  free(cuda->groups);
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */
int nnc_groups_prepare(nnc_call *c) {
  int status = SP_OK;
  for (int i = 0; i < c->cuda->n_groups && !status; i++)
    status = c->cuda->groups[i].way->together->prepare(c, &c->cuda->groups[i]);
  return status;
}

void nnc_groups_bind(const nnc_call *c) {
  for (int i = 0; i < c->cuda->n_groups; i++) {
    const nnc_group *group = &c->cuda->groups[i];
    if (group->way->together->bind) group->way->together->bind(c, group);
  }
}

int nnc_group_forward(nnc_call *c, const nn_xop *op, int *status) {
  const nnc_group *group = nnc_cop(c, op)->group;
  return group && group->way->together->forward(c, group, op, status);
}

int nnc_group_backward(nnc_call *c, const nn_xop *op, int *status) {
  const nnc_group *group = nnc_cop(c, op)->group;
  return group && group->way->together->backward && group->way->together->backward(c, group, op, status);
}

/* ---- the ops, each in its own fastest way ------------------------------------------------------------------------ */
static int run_apart(const nnc_job *job) {
  const nnc_group *group = ((const nnc_group_job *)job)->group;
  const nn_low *low = &job->c->cuda->low;
  int status = SP_OK;
  for (int i = 0; i < low->n_ops; i++)
    for (int j = 0; j < NNC_GROUP_OPS && !status; j++)
      if (group->op[j] == i) status = nnc_ops[low->ops[i].x]->forward(job->c, &low->ops[i]);
  return status;
}

static const char *const texts[] = {"apart", NULL};

const nnc_way nnc_way_apart = {.id = NNC_WAY_APART, .jobs = NNC_GROUP, .texts = texts, .run = run_apart};
