/* SPDX-License-Identifier: MIT
 * specs.c - what plan() said of a stage's weights, factors and constants, kept from one plan to the next. */
#include "params/params.h"

#include <stdlib.h>
#include <string.h>

/* The memory stands, so must the list. */
static bool is_same(const sp_weights *stage, const sp_plan *p) {
  if (p->n_weights != stage->n_weights) return false;
  for (size_t i = 0; i < stage->n_weights; i++)
    if (strcmp(stage->weights[i].name, p->weights[i].name) != 0 ||
        !sp_spec_equal(&stage->weights[i].spec, &p->weights[i].spec))
      return false;
  return true;
}

static void take_roles(sp_weights *stage, const sp_plan *p) {
  for (size_t i = 0; i < stage->n_weights; i++) {
    stage->weights[i].part = p->weights[i].part;
    stage->weights[i].flags = p->weights[i].flags;
    stage->weights[i].of = p->weights[i].of;
  }
}

static int drop_old(sp_weights *stage, sp_err *err) {
  for (size_t i = 0; stage->loaded && i < stage->n_weights; i++)
    if (stage->loaded[i])
      return sp_fail(err, SP_E_STATE,
                     "stage '%s' has other weights since those of a file were loaded: load them after all its "
                     "inputs are wired",
                     stage->name);
  sp_weights_drop(stage);
  return SP_OK;
}

static int copy_list(sp_weights *stage, const sp_plan *p, sp_err *err) {
  if (!p->n_weights) return SP_OK;
  stage->weights = sp_calloc(p->n_weights, sizeof *stage->weights);
  if (!stage->weights) return sp_nomem(err, p->n_weights * sizeof *stage->weights, "the list of weights");
  stage->n_weights = p->n_weights;
  stage->fixed = sp_calloc(p->n_weights, sizeof *stage->fixed);
  if (!stage->fixed) {
    sp_weights_drop(stage);
    return sp_nomem(err, p->n_weights, "the list of weights");
  }
  for (uint32_t i = 0; i < p->n_weights; i++) {
    stage->weights[i] = p->weights[i];
    stage->weights[i].name = NULL;
  }
  for (uint32_t i = 0; i < p->n_weights; i++)
    if (!(stage->weights[i].name = sp_strdup(p->weights[i].name))) {
      sp_weights_drop(stage);
      return sp_nomem(err, 64, "a name");
    }
  return SP_OK;
}

static int keep_list(sp_weights *stage, const sp_plan *p, sp_err *err) {
  if (stage->weights && is_same(stage, p)) {
    take_roles(stage, p);
    return SP_OK;
  }
  int status = stage->weights ? drop_old(stage, err) : SP_OK;
  return status ? status : copy_list(stage, p, err);
}

static int keep_factors(sp_weights *stage, const sp_plan *p, sp_err *err) {
  size_t bytes = p->n_factors * sizeof *stage->factors;
  if (stage->n_factors == p->n_factors && (!bytes || !memcmp(stage->factors, p->factors, bytes)))
    return SP_OK; /* rows stand */
  sp_weights_drop_factors(stage);
  stage->factors = sp_calloc(p->n_factors + 1, sizeof *stage->factors);
  if (!stage->factors) return sp_nomem(err, bytes, "factors");
  stage->n_factors = p->n_factors;
  memcpy(stage->factors, p->factors, bytes);
  return SP_OK;
}

static void keep_constants(sp_weights *stage, const sp_plan *p) {
  if (stage->const_bytes == p->const_bytes) return;
  sp_place_free(stage->place, stage->consts);
  stage->consts = NULL;
  stage->const_bytes = p->const_bytes;
}

int sp_weights_keep(sp_weights *stage, const sp_plan *p, sp_err *err) {
  stage->update = (sp_update_plan){.plain_sgd = p->inplace,
                                   .restores = p->restores,
                                   .separate = p->separate,
                                   .grouped = p->grouped,
                                   .slice = p->slice,
                                   .averages = p->averages};
  keep_constants(stage, p);
  int status = keep_list(stage, p, err);
  return status ? status : keep_factors(stage, p, err);
}

void sp_weights_free(sp_weights *stage) {
  sp_weights_drop_factors(stage);
  sp_weights_drop(stage);
}
