/* SPDX-License-Identifier: MIT
 * averages.c - what the optimizer keeps of weights: moving averages, and statistics as they were. */
#include "params/params.h"

#include <stdlib.h>

static int restart(sp_store *store, const sp_weights *stage, bool missing, sp_err *err) {
  sp_weights *opt = store->optimizer;
  int status = SP_OK;
  if (!sp_store_averages(store) || !store->initialised) return SP_OK;
  size_t at = opt->update.averages - 1;
  for (sp_weight_ref r = {0}; !status && sp_store_next_trained(store, &r); at++) {
    const void *data;
    void *copy;
    if ((stage && r.of != stage) || (missing && opt->loaded[at])) continue;
    if (!(status = sp_weights_get(r.of, r.i, &data, &copy, err))) status = sp_weights_put(opt, at, data, err);
    free(copy);
  }
  return status;
}

int sp_store_restart_averages(sp_store *store, const sp_weights *stage, sp_err *err) {
  return restart(store, stage, false, err);
}

int sp_store_begin_averages(sp_store *store, sp_err *err) { return restart(store, NULL, true, err); }

/* Bytes of device memory change places; tmp has room for both. */
static int swap_bytes(sp_place *a, char *at, sp_place *b, char *with, size_t bytes, char *tmp, sp_err *err) {
  int status = sp_place_download(a, tmp, at, bytes, err);
  if (!status) status = sp_place_download(b, tmp + bytes, with, bytes, err);
  if (!status) status = sp_place_upload(a, at, tmp + bytes, bytes, err);
  return status ? status : sp_place_upload(b, with, tmp, bytes, err);
}

/* Of a weight that ranks have slices of each changes its own, and has those of the others from them. */
int sp_store_swap_averages(sp_store *store, sp_err *err) {
  sp_weights *opt = store->optimizer;
  size_t most = 1, k = 0;
  int status = SP_OK;
  if (!sp_store_averages(store)) return SP_OK;
  for (sp_weight_ref r = {0}; sp_store_next_trained(store, &r);) {
    size_t bytes = (size_t)sp_spec_bytes(&r.of->weights[r.i].spec);
    most = bytes > most ? bytes : most;
  }
  char *tmp = sp_calloc(2, most);
  if (!tmp) return sp_nomem(err, 2 * most, "averages of the weights");
  for (sp_weight_ref r = {0}; !status && sp_store_next_trained(store, &r); k++) {
    sp_tensor own = sp_store_slice_tensor(store, k, &r.of->w[r.i]);
    status = swap_bytes(r.of->place, own.data, opt->place, opt->w[opt->update.averages - 1 + k].data,
                        (size_t)sp_spec_bytes(&own.spec), tmp, err);
  }
  free(tmp);
  return status || !store->sliced ? status : sp_slices_spread(store, err);
}

/* The last weights of the optimizer become what the statistics are now. */
int sp_store_keep_statistics(sp_store *store, sp_err *err) {
  sp_weights *opt = store->optimizer;
  int status = SP_OK;
  size_t count = 0;
  if (!sp_store_restores(store)) return SP_OK;
  for (sp_weight_ref r = {0}; sp_store_next_statistic(store, &r);) count++;
  if (opt->n_weights < count)
    return sp_fail(err, SP_E_INTERNAL, "optimizer '%s' restores %zu statistics, but has %zu weights", opt->name, count,
                   opt->n_weights);
  size_t at = opt->n_weights - count;
  for (sp_weight_ref r = {0}; !status && sp_store_next_statistic(store, &r); at++) {
    const void *data;
    void *copy;
    if (!sp_spec_equal(&r.of->weights[r.i].spec, &opt->weights[at].spec))
      return sp_fail(err, SP_E_INTERNAL, "optimizer '%s': weight '%s' is no copy of '%s.%s'", opt->name,
                     opt->weights[at].name, r.of->name, r.of->weights[r.i].name);
    if (!(status = sp_weights_get(r.of, r.i, &data, &copy, err))) status = sp_weights_put(opt, at, data, err);
    free(copy);
  }
  return status;
}
