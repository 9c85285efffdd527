/* SPDX-License-Identifier: MIT
 * groups.h - groups of parameters: weights whose learning rate or decay is multiplied by a factor, or that stay as they
 * are, by globs over their names, "STAGE.WEIGHT". Where several groups fit a weight, their factors are multiplied.
 *
 * A training may have phases: some weights stay as they are until the phase in which they are trained first.
 * sp_engine_phase begins one, between two loops. */
#ifndef SP_CORE_GROUPS_H
#define SP_CORE_GROUPS_H

#include "host/param.h"

struct sp_graph;
struct sp_plan;

typedef struct sp_groups {
  sp_params asked; /* what the script said */
  sp_group *list;  /* [n] the factors that there are, each pair once */
  uint32_t *of;    /* [n_weights] of the weights that the optimizer sees, in their order */
  uint32_t n;      /* 0: all factors are 1 */
  uint32_t phase;  /* from 0 */
  bool told;       /* what fits was printed */
} sp_groups;

/* Takes what g:train was given, NULL: nothing.
 * { groups = { { names = { GLOB, ... }, lr =, decay =, frozen =, phase =, when =, flat =, label = }, ... },
 *   phases = } */
int sp_groups_take(sp_groups *groups, const sp_value *asked, sp_err *err);
void sp_groups_free(sp_groups *groups);
/* Which weights stay as they are, of stages that have said which they have. */
void sp_graph_fix(struct sp_graph *g);
/* Every glob fits a weight that is trained, or that a group leaves as it is. */
int sp_graph_check_groups(struct sp_graph *g, sp_err *err);
void sp_graph_tell_groups(struct sp_graph *g); /* what fits, once */
/* The factors of the weights that the optimizer sees now, for its plan. */
int sp_graph_group(struct sp_graph *g, sp_err *err);
uint32_t sp_graph_phases(const struct sp_graph *g); /* at least 1 */
void sp_groups_put(const sp_groups *groups, struct sp_plan *plan);

#endif
