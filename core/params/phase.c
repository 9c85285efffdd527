/* SPDX-License-Identifier: MIT
 * phase.c - from one phase of a training to the next, which trains other weights: gradients, factors and what ranks add
 * together lose their places, and what the optimizer keeps finds itself in the list of its next plan. */
#include "params/params.h"

#include <stdlib.h>
#include <string.h>

/* A weight of the optimizer: by its name up to the last dot and the weight that it is of, or by its name alone. */
typedef struct kept {
  char *name;
  sp_weight_ref of; /* NULL: of none */
  sp_spec spec;
  void *data;
} kept;

struct sp_kept {
  kept *all;
  size_t n;
};

void sp_kept_free(sp_kept *k) {
  for (size_t i = 0; k && i < k->n; i++) {
    free(k->all[i].name);
    free(k->all[i].data);
  }
  if (k) free(k->all);
  free(k);
}

/* The weight that weight i of the optimizer is of. */
static sp_weight_ref owner(const sp_store *store, size_t i) {
  uint32_t of = store->optimizer->weights[i].of, n = 0;
  sp_weight_ref r = {0};
  while (of && sp_store_next_trained(store, &r))
    if (++n == of) return r;
  return (sp_weight_ref){0};
}

/* "exp_avg.12" without its number, which is another one in another list. */
static size_t stem(const sp_weight *w) {
  const char *dot = w->of ? strrchr(w->name, '.') : NULL;
  return dot ? (size_t)(dot - w->name) : strlen(w->name);
}

static int keep(sp_store *store, size_t i, kept *k, sp_err *err) {
  sp_weights *opt = store->optimizer;
  size_t bytes = (size_t)sp_spec_bytes(&opt->weights[i].spec);
  const void *data;
  void *copy;
  *k = (kept){.name = sp_strdup(opt->weights[i].name), .of = owner(store, i), .spec = opt->weights[i].spec};
  k->data = sp_calloc(1, bytes + 1);
  if (!k->name || !k->data) return sp_nomem(err, bytes, "what the optimizer keeps");
  k->name[stem(&opt->weights[i])] = 0;
  int status = sp_weights_get(opt, i, &data, &copy, err);
  if (!status) memcpy(k->data, data, bytes);
  free(copy);
  return status;
}

int sp_store_keep(sp_store *store, sp_kept **out, sp_err *err) {
  sp_weights *opt = store->optimizer;
  sp_kept *k = *out = sp_calloc(1, sizeof *k);
  if (k) k->all = sp_calloc(opt->n_weights + 1, sizeof *k->all);
  if (!k || !k->all) return sp_nomem(err, opt->n_weights * sizeof *k->all, "what the optimizer keeps");
  for (size_t i = 0; i < opt->n_weights; i++) {
    if (!store->initialised && !(opt->loaded && opt->loaded[i])) continue;
    if (keep(store, i, &k->all[k->n++], err)) return err->status;
  }
  if (!k->n && !store->initialised) sp_kept_free(k), *out = NULL;
  return SP_OK;
}

static const kept *find(const sp_kept *k, const sp_weight *w, const sp_weight_ref *of) {
  for (size_t i = 0; i < k->n; i++) {
    const kept *one = &k->all[i];
    if (one->of.of == of->of && one->of.i == of->i && sp_spec_equal(&one->spec, &w->spec) &&
        strlen(one->name) == stem(w) && !memcmp(one->name, w->name, stem(w)))
      return one;
  }
  return NULL;
}

/* Averages of what was not trained begin with the weights as they are. */
int sp_store_give(sp_store *store, const sp_kept *k, sp_err *err) {
  sp_weights *opt = store->optimizer;
  int status = SP_OK;
  for (size_t s = 0; s < store->n_stages && store->initialised && !status; s++)
    if (store->stages[s]->empty) status = sp_weights_init(store->stages[s], NULL, err);
  if (!status) status = sp_store_restart_averages(store, NULL, err);
  for (size_t i = 0; i < opt->n_weights && !status; i++) {
    sp_weight_ref of = owner(store, i);
    const kept *one = find(k, &opt->weights[i], &of);
    if (!one) continue;
    if (!(status = sp_weights_put(opt, i, one->data, err))) opt->loaded[i] |= !store->initialised;
  }
  return status;
}

/* What a communicator's memory holds of a stage comes back to the stage's own. */
static int take_back(sp_store *store, sp_weights *stage, size_t i, sp_err *err) {
  size_t bytes = (size_t)sp_spec_bytes(&stage->weights[i].spec);
  const void *data;
  void *copy, *own = NULL;
  int status = sp_weights_get(stage, i, &data, &copy, err);
  if (!status && !(own = sp_store_alloc(store, stage->place, bytes ? bytes : 1, stage->weights[i].name, err)))
    status = err->status;
  if (!status) status = sp_place_upload(stage->place, own, data, bytes, err);
  free(copy);
  if (status) sp_place_free(stage->place, own);
  else stage->w[i].data = own;
  return status;
}

static int lay_down(sp_weights *stage, sp_err *err) {
  sp_store *store = stage->store;
  int status = SP_OK;
  for (size_t i = 0; i < stage->n_weights && stage->w && !status; i++) {
    if (sp_reduce_owns(store, stage->w[i].data)) status = take_back(store, stage, i, err);
    if (!sp_reduce_owns(store, stage->dw[i].data)) sp_place_free(stage->place, stage->dw[i].data);
    stage->dw[i].data = NULL;
  }
  sp_weights_drop_factors(stage);
  return status;
}

int sp_store_lay_down(sp_store *store, sp_err *err) {
  int status = SP_OK;
  for (size_t s = 0; s < store->n_stages && !status; s++) status = lay_down(store->stages[s], err);
  if (status) return status;
  sp_weights_drop(store->optimizer);
  sp_reduce_free(store);
  return SP_OK;
}
