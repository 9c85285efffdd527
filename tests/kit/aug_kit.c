/* SPDX-License-Identifier: MIT
 * aug_kit.c - what must hold of every stage that changes images and masks. */
#include "aug_kit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <spcore/rng.h>

static const int dtypes[] = {SP_U8, SP_F32}, orders[] = {SP_ROW_MAJOR, SP_CHANNELS_LAST};

void kit_ok(const aug_kit *k, int rc) { ck_assert_msg(rc == SP_OK, "%s", spt_error(k->t)); }

static size_t bytes_of(int dtype) { return dtype == SP_U8 ? 1 : dtype == SP_I64 ? 8 : 4; }

static void *take(size_t bytes) {
  void *p = malloc(bytes ? bytes : 1);
  ck_assert_ptr_nonnull(p);
  return p;
}

/* An image, and its channel 0 as a mask. Sample i depends on `first` + i alone. */
static void add_image(aug_kit *k, int dtype, int order, uint64_t seed, int64_t first, bool image, bool mask) {
  int64_t plane = k->h * k->w, each = k->c * plane, shape[4] = {k->n, k->c, k->h, k->w};
  int64_t mask_shape[3] = {k->n, k->h, k->w};
  char *v = take((size_t)(k->n * each) * bytes_of(dtype));
  uint8_t *m = take((size_t)(k->n * plane));
  for (int64_t i = 0; i < k->n * each; i++) {
    int64_t sample = i / each, at = i % each;
    uint8_t b = (uint8_t)sp_rng(seed, (uint64_t)(first + sample), (uint32_t)at).v[0];
    if (dtype == SP_U8) ((uint8_t *)v)[i] = b;
    else ((float *)v)[i] = b;
    if (at < plane) m[sample * plane + at] = b;
  }
  if (image) kit_ok(k, spt_input_of(k->t, KIT_IMAGES, dtype, 4, shape, order, v));
  if (mask) kit_ok(k, spt_input_of(k->t, KIT_MASKS, SP_U8, 3, mask_shape, SP_ROW_MAJOR, m));
  free(v);
  free(m);
}

static void open_with(aug_kit *k, const char *stage, const char *params, int64_t n, int64_t c, int64_t h, int64_t w,
                      int threads) {
  *k = (aug_kit){spt_new(stage, params, threads), n, c, h, w};
  kit_ok(k, spt_failed(k->t));
}

void kit_open(aug_kit *k, const char *stage, const char *params, int64_t n, int64_t c, int64_t h, int64_t w, int dtype,
              int order, bool mask) {
  open_with(k, stage, params, n, c, h, w, 2);
  add_image(k, dtype, order, 1, 0, true, mask);
}

void kit_plan(aug_kit *k, int training) { kit_ok(k, spt_plan(k->t, training)); }
void kit_forward(aug_kit *k) { kit_ok(k, spt_forward(k->t, 0)); }

void kit_refused(const aug_kit *k, int rc, const char *words) {
  ck_assert_int_ne(rc, SP_OK);
  ck_assert_msg(strstr(spt_error(k->t), words) != NULL, "'%s' is not in '%s'", words, spt_error(k->t));
}

void kit_close(aug_kit *k) {
  spt_free(k->t);
  k->t = NULL;
}

void *kit_get(const aug_kit *k, int what, int port, int item) {
  const sp_spec *s = spt_spec(k->t, what, port, item);
  ck_assert_ptr_nonnull(s);
  void *v = take((size_t)sp_spec_count(s) * bytes_of(s->dtype));
  kit_ok(k, spt_get(k->t, what, port, item, v));
  return v;
}

double kit_at(const void *v, int dtype, int64_t i) {
  if (dtype == SP_U8) return ((const uint8_t *)v)[i];
  if (dtype == SP_I32) return ((const int32_t *)v)[i];
  if (dtype == SP_I64) return (double)((const int64_t *)v)[i];
  return (double)((const float *)v)[i];
}

void kit_refuses(const char *stage, const char *params, int64_t n, int64_t c, int64_t h, int64_t w, const char *words) {
  aug_kit k = {spt_new(stage, params, 1), n, c, h, w};
  int rc = spt_failed(k.t);
  if (!rc) {
    add_image(&k, SP_U8, SP_ROW_MAJOR, 1, 0, true, false);
    rc = spt_plan(k.t, 1);
  }
  kit_refused(&k, rc, words);
  kit_close(&k);
}

/* ---- image and mask ---- */
/* The second mask as a map of floats, its numbers less 0.25. */
static void add_map(aug_kit *k) {
  int64_t shape[3] = {k->n, k->h, k->w}, n = k->n * k->h * k->w;
  uint8_t *m = kit_get(k, SPT_IN, KIT_MASKS, 1);
  float *v = take((size_t)n * sizeof *v);
  for (int64_t i = 0; i < n; i++) v[i] = (float)m[i] - 0.25f;
  kit_ok(k, spt_input_of(k->t, KIT_MASKS, SP_F32, 3, shape, SP_ROW_MAJOR, v));
  free(m);
  free(v);
}

/* The map has what the mask has, and NaN where that is one number, mask_fill. */
static void check_map(const aug_kit *k, const char *stage, const char *params) {
  int64_t n = sp_spec_count(spt_spec(k->t, SPT_OUT, KIT_MASKS, 2));
  uint8_t *m = kit_get(k, SPT_OUT, KIT_MASKS, 1);
  float *v = kit_get(k, SPT_OUT, KIT_MASKS, 2);
  int fill = -1;
  for (int64_t i = 0; i < n; i++) {
    if (v[i] != v[i] && fill < 0) fill = m[i];
    kit_each(v[i] == (float)m[i] - 0.25f || (v[i] != v[i] && m[i] == fill), "%s %s: value %lld is %g, the mask has %d",
             stage, params, (long long)i, (double)v[i], m[i]);
  }
  ck_assert_msg(fill >= 0 || !strstr(params, "mask_fill"), "%s %s: no value of a map is NaN", stage, params);
  free(m);
  free(v);
}

static void aligned(const char *stage, const char *params, int64_t c, int64_t h, int64_t w, int dtype, int order) {
  aug_kit k;
  kit_open(&k, stage, params, 5, c, h, w, dtype, order, true);
  add_image(&k, SP_F32, SP_ROW_MAJOR, 1, 0, true, true); /* the same picture as another type */
  add_map(&k);
  kit_plan(&k, 1);
  kit_forward(&k);
  check_map(&k, stage, params);
  for (int i = 0; i < 2; i++) {
    const sp_spec *s = spt_spec(k.t, SPT_OUT, KIT_IMAGES, i);
    int64_t plane = s->shape[2] * s->shape[3];
    void *image = kit_get(&k, SPT_OUT, KIT_IMAGES, i), *mask = kit_get(&k, SPT_OUT, KIT_MASKS, i);
    for (int64_t at = 0; at < s->shape[0] * plane; at++) {
      double p = kit_at(image, s->dtype, at / plane * c * plane + at % plane), m = kit_at(mask, SP_U8, at);
      kit_each(p == m, "%s %s, %lld x %lld x %lld, image %d: pixel %lld is %g, the mask has %g", stage, params,
               (long long)c, (long long)h, (long long)w, i + 1, (long long)at, p, m);
    }
    free(image);
    free(mask);
  }
  spt_want(k.t, SPT_OUT, KIT_MASKS, 0, 0); /* nobody reads it */
  kit_forward(&k);
  kit_close(&k);
}

void kit_aligned(const char *stage, const char *params) {
  for (int d = 0; d < 2; d++)
    for (int o = 0; o < 2; o++) {
      aligned(stage, params, 3, 40, 40, dtypes[d], orders[o]);
      aligned(stage, params, 1, 33, 47, dtypes[d], orders[o]);
      aligned(stage, params, 4, 50, 21, dtypes[d], orders[o]);
    }
}

/* ---- the same sample everywhere ---- */
/* Samples first .. first + n - 1 with those ids, and a second image like the first. Kept:
 * the images and what was drawn. */
typedef struct run {
  char *image;
  size_t each; /* bytes of a sample */
  int ports;   /* of drawn numbers, which follow each other; 0: the stage draws nothing */
  float *drawn[3];
  int64_t columns[3];
} run;

static run run_of(const char *stage, const char *params, int dtype, int order, int64_t first, int64_t n, int threads,
                  const run *wired) {
  aug_kit k;
  open_with(&k, stage, params, n, 3, 37, 41, threads);
  for (int i = 0; i < 2; i++) add_image(&k, dtype, order, 7, first, true, true);
  for (int i = 0; wired && i < wired->ports; i++) {
    int64_t shape[2] = {n, wired->columns[i]};
    int port = KIT_DRAWN + i, drawn = spt_type(k.t)->inputs[port].dtypes & SP_DT(SP_I32) ? SP_I32 : SP_F32;
    kit_ok(&k, spt_input_of(k.t, port, drawn, shape[1] > 1 ? 2 : 1, shape, SP_ROW_MAJOR, wired->drawn[i]));
  }
  kit_plan(&k, 1);
  for (int64_t i = 0; i < n; i++) spt_set_id(k.t, i, wired ? 1000 + (uint64_t)i : SP_ID(3, first + i));
  kit_forward(&k);
  const sp_spec *s = spt_spec(k.t, SPT_OUT, KIT_IMAGES, 0);
  run r = {.image = kit_get(&k, SPT_OUT, KIT_IMAGES, 0)};
  r.each = (size_t)(sp_spec_count(s) / n) * bytes_of(s->dtype);
  char *second = kit_get(&k, SPT_OUT, KIT_IMAGES, 1);
  ck_assert_msg(!memcmp(r.image, second, r.each * (size_t)n), "%s %s: two images of one list differ", stage, params);
  free(second);
  for (int port = KIT_DRAWN; port < spt_ports(k.t, SPT_IN) && r.ports < 3; port++) {
    const sp_spec *d = spt_spec(k.t, SPT_OUT, port, 0);
    r.drawn[r.ports] = kit_get(&k, SPT_OUT, port, 0);
    r.columns[r.ports++] = d->ndim > 1 ? d->shape[1] : 1;
  }
  kit_close(&k);
  return r;
}

static void run_free(run *r) {
  free(r->image);
  for (int i = 0; i < r->ports; i++) free(r->drawn[i]);
}

void kit_by_id(const char *stage, const char *params) {
  for (int d = 0; d < 2; d++)
    for (int o = 0; o < 2; o++) {
      run all = run_of(stage, params, dtypes[d], orders[o], 0, 65, 2, NULL);
      static const int64_t parts[][2] = {{0, 1}, {1, 7}, {30, 2}, {64, 1}};
      for (size_t p = 0; p < SP_ARRAY(parts); p++) {
        int64_t first = parts[p][0], n = parts[p][1];
        run few = run_of(stage, params, dtypes[d], orders[o], first, n, (int)p + 1, NULL);
        ck_assert_msg(!memcmp(few.image, all.image + (size_t)first * all.each, (size_t)n * all.each),
                      "%s %s: samples %lld and on differ in a batch of %lld", stage, params, (long long)first,
                      (long long)n);
        for (int i = 0; i < few.ports; i++)
          ck_assert_mem_eq(few.drawn[i], all.drawn[i] + first * all.columns[i],
                           (size_t)(n * all.columns[i]) * sizeof(float));
        run_free(&few);
      }
      if (all.ports && strcmp(stage, "gaussian_noise")) { /* with another id comes other noise */
        run again = run_of(stage, params, dtypes[d], orders[o], 0, 65, 2, &all);
        ck_assert_msg(!memcmp(again.image, all.image, 65 * all.each), "%s %s: what was drawn gives another image",
                      stage, params);
        for (int i = 0; i < all.ports; i++)
          ck_assert_mem_eq(again.drawn[i], all.drawn[i], (size_t)(65 * all.columns[i]) * sizeof(float));
        run_free(&again);
      }
      run_free(&all);
    }
}

/* ---- what is drawn ---- */
static char *with(char out[256], const char *params, const char *more) {
  size_t n = strlen(params);
  ck_assert(n && params[n - 1] == '}' && n + strlen(more) + 4 < 256);
  snprintf(out, 256, "%.*s, %s }", (int)n - 1, params, more);
  return out;
}

/* What n samples draw, as doubles [n][columns]. */
static double *draws_of(const char *stage, const char *params, int64_t n, int64_t h, int64_t w, int training,
                        int64_t *columns) {
  aug_kit k;
  open_with(&k, stage, params, n, 3, h, w, 2);
  add_image(&k, SP_U8, SP_CHANNELS_LAST, 1, 0, true, false);
  kit_plan(&k, training);
  for (int64_t i = 0; i < n; i++) spt_set_id(k.t, i, SP_ID(0, i));
  kit_forward(&k);
  const sp_spec *s = spt_spec(k.t, SPT_OUT, KIT_DRAWN, 0);
  void *v = kit_get(&k, SPT_OUT, KIT_DRAWN, 0);
  double *out = take((size_t)sp_spec_count(s) * sizeof *out);
  for (int64_t i = 0; i < sp_spec_count(s); i++) out[i] = kit_at(v, s->dtype, i);
  *columns = s->ndim > 1 ? s->shape[1] : 1;
  free(v);
  kit_close(&k);
  return out;
}

static bool all_equal(const double *v, int64_t n, int64_t columns) {
  for (int64_t i = columns; i < n * columns; i++)
    if (v[i] != v[i % columns]) return false;
  return true;
}

void kit_draw_modes(const char *stage, const char *params, double still) {
  char text[256];
  int64_t columns;
  double *own = draws_of(stage, params, 20, 37, 41, 1, &columns);
  ck_assert_msg(!all_equal(own, 20, columns), "%s: all samples draw the same", stage);
  double *same = draws_of(stage, with(text, params, "same_on_batch = true"), 20, 37, 41, 1, &columns);
  ck_assert_msg(all_equal(same, 20, columns), "%s: same_on_batch draws several", stage);
  ck_assert_mem_eq(same, own, (size_t)columns * sizeof *own);
  double *plain = draws_of(stage, params, 20, 37, 41, 0, &columns);
  ck_assert_msg(all_equal(plain, 20, columns), "%s: chance outside of training", stage);
  for (int64_t i = 0; i < columns && !isnan(still); i++) ck_assert_double_eq(plain[i], still);
  double *always = draws_of(stage, with(text, params, "always = true"), 20, 37, 41, 0, &columns);
  ck_assert_mem_eq(always, own, (size_t)(20 * columns) * sizeof *own);
  free(own);
  free(same);
  free(plain);
  free(always);
}

/* Wilson and Hilferty's approximation of the 99.9 % point of chi-square. */
static double chi_limit(double freedom) {
  double a = 2 / (9 * freedom), b = 1 - a + 3.0902 * sqrt(a);
  return freedom * b * b * b;
}

void kit_uniform(const char *stage, const char *params, int64_t h, int64_t w, int col, double lo, double hi, int bins) {
  enum { N = 4000 };
  int64_t columns;
  double *v = draws_of(stage, params, N, h, w, 1, &columns), chi = 0, pair = 0;
  int *ones = calloc((size_t)bins, sizeof *ones), *twos = calloc((size_t)(bins * bins), sizeof *twos), before = 0;
  ck_assert(ones && twos && col < columns);
  for (int i = 0; i < N; i++) {
    double x = v[i * columns + col];
    ck_assert_msg(x >= lo && x < hi, "%s: %g is outside of %g..%g", stage, x, lo, hi);
    int bin = (int)((x - lo) / (hi - lo) * bins);
    ones[bin]++;
    if (i % 2) twos[before * bins + bin]++;
    before = bin;
  }
  for (int i = 0; i < bins; i++) chi += pow(ones[i] - (double)N / bins, 2) / ((double)N / bins);
  for (int i = 0; i < bins * bins; i++) pair += pow(twos[i] - N / 2.0 / (bins * bins), 2) / (N / 2.0 / (bins * bins));
  if (bins > 1)
    ck_assert_msg(chi < chi_limit(bins - 1), "%s, column %d: chi-square %g of %d bins", stage, col, chi, bins);
  if (bins > 1)
    ck_assert_msg(pair < chi_limit(bins * bins - 1), "%s, column %d: neighbours depend, chi-square %g", stage, col,
                  pair);
  free(ones);
  free(twos);
  free(v);
}
