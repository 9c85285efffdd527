/* SPDX-License-Identifier: MIT
 * init.c - first values of weights: constants, Philox uniforms, and PyTorch's generator bit for bit. */
#include "params/params.h"

#include "base/spec.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <spcore/rng.h>

#define MT_N 624
#define MT_M 397

void sp_mt19937_seed(sp_mt19937 *mt, uint64_t seed) {
  mt->state[0] = (uint32_t)seed;
  for (uint32_t i = 1; i < MT_N; i++) mt->state[i] = 1812433253u * (mt->state[i - 1] ^ (mt->state[i - 1] >> 30)) + i;
  mt->next = MT_N;
}

static uint32_t mt_twist(uint32_t a, uint32_t b) {
  uint32_t y = (a & 0x80000000u) | (b & 0x7fffffffu);
  return (y >> 1) ^ (b & 1u ? 0x9908b0dfu : 0u);
}

uint32_t sp_mt19937_draw(sp_mt19937 *mt) {
  uint32_t *s = mt->state;
  if (mt->next >= MT_N) {
    for (int i = 0; i < MT_N; i++) s[i] = s[(i + MT_M) % MT_N] ^ mt_twist(s[i], s[(i + 1) % MT_N]);
    mt->next = 0;
  }
  uint32_t y = s[mt->next++];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

static int fill_const(const sp_weight *w, void *data, const char *stage, int64_t count, sp_err *err) {
  double v = w->init_value;
  switch (w->spec.dtype) {
    case SP_F32:
      for (int64_t i = 0; i < count; i++) ((float *)data)[i] = (float)v;
      return SP_OK;
    case SP_F64:
      for (int64_t i = 0; i < count; i++) ((double *)data)[i] = v;
      return SP_OK;
    case SP_I64:
      for (int64_t i = 0; i < count; i++) ((int64_t *)data)[i] = (int64_t)v;
      return SP_OK;
    case SP_I32:
      for (int64_t i = 0; i < count; i++) ((int32_t *)data)[i] = (int32_t)v;
      return SP_OK;
    case SP_U8: memset(data, (uint8_t)v, (size_t)count); return SP_OK;
    case SP_I8: memset(data, (uint8_t)(int8_t)v, (size_t)count); return SP_OK;
    default:
      return sp_fail(err, SP_E_DTYPE, "weight '%s.%s': %s cannot be initialised", stage, w->name,
                     sp_dtype_name(w->spec.dtype));
  }
}

/* The bound as PyTorch computes it: kaiming_uniform_(a=sqrt(5)) for what has two or more dimensions, 1/sqrt for biases.
 * The two may differ in the last bit. */
static float torch_bound(const sp_weight *w) {
  double fan_in = w->init_value;
  if (w->spec.ndim < 2) return (float)(1.0 / sqrt(fan_in));
  double a = sqrt(5.0);
  return (float)(sqrt(3.0) * (sqrt(2.0 / (1.0 + a * a)) / sqrt(fan_in)));
}

static void fill_torch(const sp_weight *w, float *dst, int64_t count, sp_mt19937 *mt) {
  float hi = torch_bound(w), lo = -hi, span = hi - lo;
  for (int64_t i = 0; i < count; i++)
    dst[i] = fmaf((float)(sp_mt19937_draw(mt) & 0xffffffu) * (1.0f / 16777216.0f), span, lo);
}

static void fill_philox(const sp_weight *w, float *dst, int64_t count, uint64_t key) {
  float hi = (float)(1.0 / sqrt(w->init_value)), lo = -hi, span = hi - lo;
  for (int64_t i = 0; i < count; i += 4) {
    sp_rng4 r = sp_rng(key, (uint64_t)i / 4, 0);
    for (int64_t k = 0; k < 4 && i + k < count; k++) dst[i + k] = fmaf(sp_rng_float(r.v[k]), span, lo);
  }
}

static int fill_uniform(const sp_weight *w, void *data, const char *stage, uint64_t seed, sp_mt19937 *torch,
                        int64_t count, sp_err *err) {
  if (w->spec.dtype != SP_F32)
    return sp_fail(err, SP_E_DTYPE, "weight '%s.%s': only float32 has a random start, not %s", stage, w->name,
                   sp_dtype_name(w->spec.dtype));
  if (!(w->init_value > 0))
    return sp_fail(err, SP_E_RANGE, "weight '%s.%s': fan-in %g is not above 0", stage, w->name, w->init_value);
  float *rows = data;
  if (w->spec.order != SP_ROW_MAJOR) {
    rows = malloc((size_t)count * sizeof *rows + 1);
    if (!rows) return sp_nomem(err, (size_t)count * sizeof *rows, "initialising a weight");
  }
  if (torch) {
    fill_torch(w, rows, count, torch);
  } else {
    char name[512];
    snprintf(name, sizeof name, "%s.%s", stage, w->name);
    fill_philox(w, rows, count, sp_rng_key(seed, name));
  }
  if (rows != data) {
    sp_spec row_spec = w->spec;
    row_spec.order = SP_ROW_MAJOR;
    sp_spec_copy(&w->spec, data, &row_spec, rows);
    free(rows);
  }
  return SP_OK;
}

int sp_init_weights(const sp_weight *w, size_t n, void *const *data, const char *stage_name, uint64_t seed,
                    sp_mt19937 *torch, sp_err *err) {
  for (size_t i = 0; i < n; i++) {
    int64_t count = sp_spec_count(&w[i].spec);
    int rc;
    if (count < 0) return sp_fail(err, SP_E_SHAPE, "weight '%s.%s': impossible shape", stage_name, w[i].name);
    if (w[i].init == SP_INIT_CONST) rc = fill_const(&w[i], data[i], stage_name, count, err);
    else if (w[i].init == SP_INIT_UNIFORM) rc = fill_uniform(&w[i], data[i], stage_name, seed, torch, count, err);
    else rc = sp_fail(err, SP_E_INVALID, "weight '%s.%s': unknown initialisation %d", stage_name, w[i].name, w[i].init);
    if (rc) return rc;
  }
  return SP_OK;
}

/* ---- of a stage, of a graph ---- */
/* It lies in host memory as a whole. */
static bool is_direct(const sp_weights *stage, size_t i) {
  return sp_place_is_host(stage->place) && !sp_weights_sliced(stage, i);
}

/* First values are made in host memory, and what no file gave is taken from there: PyTorch's generator draws for every
 * weight, whether a file replaces it later or not. */
int sp_weights_init(sp_weights *stage, sp_mt19937 *torch, sp_err *err) {
  void **data = sp_calloc(stage->n_weights, sizeof *data);
  int status = data ? SP_OK : sp_nomem(err, 64, "first values");
  for (size_t i = 0; i < stage->n_weights && !status; i++) {
    size_t bytes = (size_t)sp_spec_bytes(&stage->weights[i].spec);
    data[i] = stage->w[i].data;
    if ((stage->loaded[i] || !is_direct(stage, i)) && !(data[i] = sp_calloc(1, bytes ? bytes : 1)))
      status = sp_nomem(err, bytes, "first values");
  }
  if (!status)
    status = sp_init_weights(stage->weights, stage->n_weights, data, stage->name, stage->store->seed, torch, err);
  for (size_t i = 0; i < stage->n_weights && !status; i++)
    if (!stage->loaded[i] && !is_direct(stage, i)) status = sp_weights_put(stage, i, data[i], err);
  for (size_t i = 0; data && i < stage->n_weights; i++)
    if (data[i] != stage->w[i].data) free(data[i]);
  free(data);
  stage->empty = false;
  return status ? sp_prefix(err, "stage '%s'", stage->name) : SP_OK;
}

int sp_store_init(sp_store *store, sp_err *err) {
  bool torch = store->torch;
  sp_mt19937 mt;
  int status = SP_OK;
  if (torch) sp_mt19937_seed(&mt, store->seed);
  for (size_t i = 0; i < store->n_stages && !status; i++) {
    sp_weights *stage = store->stages[i];
    bool all = !torch;
    for (size_t k = 0; k < stage->n_weights; k++) all = all && stage->loaded[k];
    if (stage->n_weights && !all) status = sp_weights_init(stage, torch ? &mt : NULL, err);
  }
  for (size_t i = 0; i < store->n_stages; i++) store->stages[i]->empty = false;
  store->initialised = !status;
  return status ? status : sp_store_begin_averages(store, err);
}
