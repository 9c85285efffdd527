/* SPDX-License-Identifier: MIT
 * check_labels.c - stages that read logits and labels on the GPU against the same stage on the cpu: losses, confusion,
 * accuracy, argmax. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "tests/kit/twin.h"

static const twin_limits same_bits = {0, 0, 0, 0}, sums = {1e-6, 1e-6, 0, 0};
static const int orders[] = {SP_ROW_MAJOR, SP_CHANNELS_LAST};
static const char *const order_names[] = {"row-major", "channels last"};

static const int label_types[] = {SP_U8, SP_I32, SP_I64};

/* Labels below `classes`, every ninth `ignore`; the one at `bad` is `value`. */
static void labels(twin *w, int type, int64_t n, int64_t h, int64_t width, int64_t classes, int64_t ignore, int64_t bad,
                   int64_t value) {
  int64_t shape[3] = {n, h, width}, count = n * h * width;
  void *y = malloc((size_t)count * 8);
  ck_assert_ptr_nonnull(y);
  for (int64_t i = 0; i < count; i++) {
    int64_t v = i == bad ? value : i % 9 == 4 ? ignore : i * 7919 % classes;
    if (type == SP_U8) ((uint8_t *)y)[i] = (uint8_t)v;
    else if (type == SP_I32) ((int32_t *)y)[i] = (int32_t)v;
    else ((int64_t *)y)[i] = v;
  }
  twin_input(w, 1, type, 3, shape, SP_ROW_MAJOR, y);
  free(y);
}

static const struct logits {
  int64_t n, c, h, w;
  float spread;
} logits[] = {{1, 1, 1, 1, 3},  {2, 3, 4, 5, 3},   {3, 10, 33, 37, 20},  {2, 64, 9, 9, 5},    {2, 65, 9, 9, 5},
              {3, 21, 8, 8, 5}, {1, 300, 3, 3, 5}, {2, 10, 40, 40, 200}, {8, 10, 256, 256, 5}};

static bool too_large(const struct logits *l) { return l->h > 100 && getenv("SP_TEST_SMALL"); }

static void short_batch(twin *w, int64_t n) {
  if (n < 2) return;
  twin_run_batch(w, n - 1);
  twin_forward(w, 2);
  twin_compare_step(w);
}

/* exp and log are those of each side's library: a few units in the last place, 6e-8 each */
START_TEST(cross_entropy) {
  const twin_limits limits = {1e-6, 2e-6, 0, 0};
  for (size_t k = 0; k < SP_ARRAY(logits); k++)
    for (size_t type = 0; type < SP_ARRAY(label_types); type++) {
      const struct logits *l = &logits[k];
      int64_t shape[4] = {l->n, l->c, l->h, l->w}, ignore = label_types[type] == SP_U8 ? 255 : -100;
      char name[64];
      twin w;
      if (too_large(l) || (label_types[type] == SP_U8 ? l->c > 255 : l->h > 100)) continue;
      snprintf(name, sizeof name, "%d classes, %s", (int)l->c, order_names[_i]);
      twin_open(&w, "cross_entropy", name, label_types[type] == SP_U8 ? "{ ignore_index = 255 }" : NULL,
                SP_PRECISION_FP32, limits);
      twin_floats(&w, 0, 4, shape, orders[_i], -l->spread, l->spread);
      labels(&w, label_types[type], l->n, l->h, l->w, l->c, ignore, -1, 0);
      twin_plan(&w, 1);
      twin_forward(&w, 0);
      twin_compare_step(&w);
      twin_repeat(&w, false);
      TWIN_BOTH(&w, spt_set_loss_scale, 0.25f);
      twin_forward(&w, 1);
      twin_compare_step(&w);
      TWIN_BOTH(&w, spt_want, SPT_DIN, 0, 0, 0);
      twin_forward(&w, 1);
      twin_compare(&w, SPT_OUT);
      TWIN_BOTH(&w, spt_want, SPT_DIN, 0, 0, 1);
      twin_set_all(&w, SPT_DIN, -1e-3f, 1e-3f);
      TWIN_BOTH(&w, spt_set_acc, 1, 0);
      twin_forward(&w, 1);
      twin_compare_step(&w);
      TWIN_BOTH(&w, spt_set_acc, 0, 0);
      short_batch(&w, l->n);
      twin_close(&w);
    }
}
END_TEST

START_TEST(weighted_cross_entropy) {
  static const int64_t classes[] = {5, 130};
  for (size_t k = 0; k < SP_ARRAY(classes); k++) {
    const twin_limits limits = {1e-6, 2e-6, 0, 0};
    int64_t shape[4] = {2, classes[k], 9, 7};
    sp_sb params = {0};
    twin w;
    sp_sb_put(&params, "{ weight = 1.5, class_weights = {");
    for (int64_t c = 0; c < classes[k]; c++) sp_sb_putf(&params, "%g,", c == 3 ? 0 : 0.5 + 0.25 * (double)(c % 7));
    sp_sb_put(&params, "} }");
    twin_open(&w, "cross_entropy", k ? "130 class weights" : "5 class weights", sp_sb_str(&params), SP_PRECISION_FP32,
              limits);
    sp_sb_free(&params);
    twin_floats(&w, 0, 4, shape, orders[_i], -3, 3);
    labels(&w, SP_I64, 2, 9, 7, classes[k], -100, -1, 0);
    twin_plan(&w, 1);
    twin_forward(&w, 0);
    twin_compare_step(&w);
    twin_repeat(&w, false);
    short_batch(&w, 2);
    twin_close(&w);
  }
}
END_TEST

static const struct other_loss {
  const char *stage, *params;
} others[] = {{"dice", NULL},
              {"dice", "{ smooth = 1.5, weight = 2 }"},
              {"jaccard", NULL},
              {"lovasz", NULL},
              {"lovasz", "{ over = 'all', weight = 2 }"},
              {"tversky", "{ alpha = 0.3, beta = 0.7, gamma = 0.75, weight = 2 }"},
              {"focal", NULL},
              {"focal", "{ gamma = 1.5, alpha = 0.25, weight = 2 }"}};

START_TEST(other_losses) {
  const struct other_loss *o = &others[_i / 2];
  static const int64_t shapes[][4] = {{1, 1, 1, 1},    {2, 3, 4, 5},  {3, 10, 33, 37},
                                      {2, 21, 11, 13}, {2, 65, 9, 9}, {5, 4, 1, 1}};
  const twin_limits limits = {1e-6, 2e-6, 0, 0};
  for (size_t k = 0; k < SP_ARRAY(shapes); k++) {
    const int64_t *l = shapes[k];
    char name[64];
    twin w;
    snprintf(name, sizeof name, "%d classes, %s%s", (int)l[1], order_names[_i % 2], o->params ? ", params" : "");
    twin_open(&w, o->stage, name, o->params, SP_PRECISION_FP32, limits);
    twin_floats(&w, 0, 4, l, orders[_i % 2], -5, 5);
    labels(&w, label_types[1 + k % 2], l[0], l[2], l[3], l[1], -100, -1, 0);
    twin_plan(&w, 1);
    twin_forward(&w, 0);
    twin_compare_step(&w);
    twin_repeat(&w, false);
    TWIN_BOTH(&w, spt_set_loss_scale, 0.25f);
    twin_set_all(&w, SPT_DIN, -1e-3f, 1e-3f);
    TWIN_BOTH(&w, spt_set_acc, 1, 0);
    twin_forward(&w, 1);
    twin_compare_step(&w);
    TWIN_BOTH(&w, spt_set_acc, 0, 0);
    TWIN_BOTH(&w, spt_want, SPT_DIN, 0, 0, 0);
    twin_forward(&w, 1);
    twin_compare(&w, SPT_OUT);
    TWIN_BOTH(&w, spt_want, SPT_DIN, 0, 0, 1);
    short_batch(&w, l[0]);
    twin_close(&w);
  }
}
END_TEST

/* Numbers of which every third is unknown, and all of the first sample. */
static void unknown(twin *w, int port, const int64_t *shape, int order) {
  int64_t each = shape[1] * shape[2] * shape[3], all = shape[0] * each;
  float *v = malloc((size_t)all * sizeof *v);
  ck_assert_ptr_nonnull(v);
  for (int64_t i = 0; i < all; i++) v[i] = i < each || i % 3 == 0 ? NAN : (float)(i % 17) / 17;
  twin_input(w, port, SP_F32, 4, shape, order, v);
  free(v);
}

/* Targets of labels, of numbers, and of numbers that lie in the other order. */
START_TEST(numbers) {
  static const struct {
    const char *stage, *params;
    int64_t shape[4];
    int target; /* SP_F32: numbers */
  } cases[] = {{"bce", NULL, {3, 1, 33, 37}, SP_U8},
               {"bce", "{ pos_weight = 3, ignore_index = 7 }", {2, 1, 9, 1}, SP_I64},
               {"bce", "{ pos_weight = 0.5, weight = 2 }", {2, 5, 17, 19}, SP_F32},
               {"cross_entropy", NULL, {2, 5, 17, 19}, SP_F32},
               {"cross_entropy", "{ label_smoothing = 0.1, class_weights = {1, 2, 0.5} }", {3, 3, 9, 1}, SP_F32},
               {"cross_entropy", "{ label_smoothing = 0.1 }", {3, 40, 5, 3}, SP_F32},
               {"cross_entropy", "{ weight = 2 }", {33, 100, 1, 1}, SP_F32},
               {"mse", NULL, {1, 1, 1, 1}, SP_F32},
               {"l1", "{ ignore_nan = true }", {2, 5, 17, 19}, SP_F32},
               {"huber", "{ ignore_nan = true, delta = 0.5 }", {3, 1, 17, 19}, SP_F32},
               {"mse", "{ weight = -2 }", {2, 5, 17, 19}, SP_F32}};
  const twin_limits limits = {1e-6, 2e-6, 0, 0};
  for (size_t k = 0; k < SP_ARRAY(cases); k++) {
    const int64_t *l = cases[k].shape;
    char name[64];
    twin w;
    snprintf(name, sizeof name, "%d x %d, %s", (int)l[0], (int)l[1], order_names[_i % 2]);
    twin_open(&w, cases[k].stage, name, cases[k].params, SP_PRECISION_FP32, limits);
    w.least = 0; /* targets are probabilities */
    twin_floats(&w, 0, 4, l, orders[_i % 2], -5, 5);
    if (cases[k].params && strstr(cases[k].params, "ignore_nan")) unknown(&w, 1, l, orders[_i / 2]);
    else if (cases[k].target == SP_F32) twin_floats(&w, 1, 4, l, orders[_i / 2], 0, 1);
    else labels(&w, cases[k].target, l[0], l[2], l[3], 2, cases[k].target == SP_U8 ? 1 : 7, -1, 0);
    twin_plan(&w, 1);
    twin_forward(&w, 0);
    twin_compare_step(&w);
    twin_repeat(&w, false);
    TWIN_BOTH(&w, spt_set_loss_scale, 0.25f);
    twin_set_all(&w, SPT_DIN, -1e-3f, 1e-3f);
    TWIN_BOTH(&w, spt_set_acc, 1, 0);
    twin_forward(&w, 1);
    twin_compare_step(&w);
    TWIN_BOTH(&w, spt_set_acc, 0, 0);
    short_batch(&w, l[0]);
    twin_close(&w);
  }
}
END_TEST

/* So many that a thread has several of them, and sums go on where they were. */
START_TEST(many_numbers) {
  static const char *const stages[] = {"focal", "dice", "mse"};
  const int64_t shape[4] = {2, 3, 431, 409};
  const twin_limits limits = {1e-6, 2e-6, 0, 0};
  for (size_t k = 0; k < SP_ARRAY(stages); k++) {
    bool beside = k == 2; /* targets are numbers */
    twin w;
    twin_open(&w, stages[k], order_names[_i], beside ? NULL : "{ ignore_index = 255 }", SP_PRECISION_FP32, limits);
    twin_floats(&w, 0, 4, shape, orders[_i], -5, 5);
    if (beside) twin_floats(&w, 1, 4, shape, orders[!_i], 0, 1);
    else labels(&w, SP_U8, shape[0], shape[2], shape[3], shape[1], 255, -1, 0);
    twin_plan(&w, 1);
    twin_forward(&w, 0);
    twin_compare_step(&w);
    twin_close(&w);
  }
}
END_TEST

START_TEST(smoothed_cross_entropy) {
  static const int64_t classes[] = {2, 10, 21, 32, 65};
  const twin_limits limits = {1e-6, 2e-6, 0, 0};
  for (size_t k = 0; k < SP_ARRAY(classes); k++)
    for (int weighted = 0; weighted < 2; weighted++) {
      int64_t shape[4] = {2, classes[k], 9, 7};
      sp_sb params = {0};
      char name[64];
      twin w;
      sp_sb_put(&params, "{ label_smoothing = 0.1");
      for (int64_t c = 0; c < classes[k] && weighted; c++)
        sp_sb_putf(&params, "%s%g", c ? ", " : ", class_weights = { ", 0.25 * (double)(c % 7));
      sp_sb_put(&params, weighted ? " } }" : " }");
      snprintf(name, sizeof name, "smoothed, %d classes%s", (int)classes[k], weighted ? ", weights" : "");
      twin_open(&w, "cross_entropy", name, sp_sb_str(&params), SP_PRECISION_FP32, limits);
      sp_sb_free(&params);
      twin_floats(&w, 0, 4, shape, orders[_i], -5, 5);
      labels(&w, SP_I64, 2, 9, 7, classes[k], -100, -1, 0);
      twin_plan(&w, 1);
      twin_forward(&w, 0);
      twin_compare_step(&w);
      twin_repeat(&w, false);
      short_batch(&w, 2);
      twin_close(&w);
    }
}
END_TEST

START_TEST(not_training) {
  int64_t shape[4] = {2, 6, 5, 4};
  twin w;
  twin_open(&w, "cross_entropy", "not training", NULL, SP_PRECISION_FP32, sums);
  twin_floats(&w, 0, 4, shape, orders[_i], -3, 3);
  labels(&w, SP_I64, 2, 5, 4, 6, -100, -1, 0);
  twin_plan(&w, 0);
  twin_forward(&w, 0);
  twin_compare(&w, SPT_OUT);
  twin_close(&w);
}
END_TEST

/* The same failure in the same words, whatever the sample and the type. */
START_TEST(bad_labels) {
  static const char *const stages[] = {"cross_entropy", "confusion", "dice", "focal", "jaccard", "lovasz", "tversky"};
  static const int64_t at[] = {0, 41, 42, 83}, values[] = {10, 200, -1};
  for (size_t s = 0; s < SP_ARRAY(stages); s++)
    for (size_t k = 0; k < SP_ARRAY(at); k++)
      for (size_t v = 0; v < SP_ARRAY(values); v++) {
        int64_t shape[4] = {2, 10, 6, 7};
        twin w;
        twin_open(&w, stages[s], "bad label", NULL, SP_PRECISION_FP32, sums);
        twin_floats(&w, 0, 4, shape, orders[_i], -3, 3);
        labels(&w, values[v] < 0 ? SP_I32 : label_types[k % 3], 2, 6, 7, 10, 3, at[k], values[v]);
        twin_plan(&w, 1);
        int a = spt_forward(w.a, 5), b = spt_forward(w.b, 5);
        ck_assert_int_ne(a, SP_OK);
        ck_assert_int_eq(a, b);
        ck_assert_str_eq(spt_error(w.a), spt_error(w.b));
        spt_free(w.a);
        spt_free(w.b);
      }
}
END_TEST

/* Targets outside 0..1: the first in memory, whatever the order of either tensor. */
START_TEST(bad_targets) {
  static const char *const stages[] = {"cross_entropy", "bce"};
  static const float values[] = {1.5f, -1e-3f, NAN};
  for (size_t s = 0; s < SP_ARRAY(stages); s++)
    for (size_t v = 0; v < SP_ARRAY(values); v++) {
      int64_t shape[4] = {2, 10, 6, 7};
      float y[2 * 10 * 6 * 7] = {0};
      twin w;
      twin_open(&w, stages[s], "bad target", NULL, SP_PRECISION_FP32, sums);
      twin_floats(&w, 0, 4, shape, orders[_i % 2], -3, 3);
      y[430 + 7 * v] = values[v], y[839] = 3;
      twin_input(&w, 1, SP_F32, 4, shape, orders[_i / 2], y);
      twin_plan(&w, 1);
      TWIN_BOTH(&w, spt_set_id, 1, SP_ID(2, 77));
      int a = spt_forward(w.a, 5), b = spt_forward(w.b, 5);
      ck_assert_int_ne(a, SP_OK);
      ck_assert_int_eq(a, b);
      ck_assert_str_eq(spt_error(w.a), spt_error(w.b));
      ck_assert_msg(strstr(spt_error(w.a), "sample 77: target ") != NULL, "%s", spt_error(w.a));
      spt_free(w.a);
      spt_free(w.b);
    }
}
END_TEST

START_TEST(all_ignored) {
  int64_t shape[4] = {1, 4, 2, 2}, y[4] = {-100, -100, -100, -100}, rows[3] = {1, 2, 2};
  twin w;
  twin_open(&w, "cross_entropy", "all labels ignored", NULL, SP_PRECISION_FP32, sums);
  twin_floats(&w, 0, 4, shape, orders[_i], -3, 3);
  twin_input(&w, 1, SP_I64, 3, rows, SP_ROW_MAJOR, y);
  twin_plan(&w, 1);
  int a = spt_forward(w.a, 5), b = spt_forward(w.b, 5);
  ck_assert_int_eq(a, b);
  ck_assert_str_eq(spt_error(w.a), spt_error(w.b));
  twin_compare(&w, SPT_OUT);
  twin_compare(&w, SPT_DIN);
  twin_close(&w);
}
END_TEST

START_TEST(confusion) {
  for (size_t k = 0; k < SP_ARRAY(logits); k++) {
    const struct logits *l = &logits[k];
    int64_t shape[4] = {l->n, l->c, l->h, l->w};
    char name[64];
    twin w;
    if (too_large(l)) continue;
    snprintf(name, sizeof name, "%d classes, %s", (int)l->c, order_names[_i]);
    twin_open(&w, "confusion", name, NULL, SP_PRECISION_FP32, same_bits);
    twin_floats(&w, 0, 4, shape, orders[_i], -l->spread, l->spread);
    labels(&w, label_types[1 + k % 2], l->n, l->h, l->w, l->c, -100, -1, 0);
    twin_plan(&w, 1);
    twin_forward(&w, 0);
    twin_compare(&w, SPT_OUT);
    twin_repeat(&w, false);
    if (l->n > 1) {
      twin_run_batch(&w, l->n - 1);
      twin_forward(&w, 2);
      twin_compare(&w, SPT_OUT);
    }
    twin_close(&w);
  }
}
END_TEST

/* Rows of logits, with ties, NaN and labels that do not count; from one block to as many as there may be. */
static const struct rows {
  int64_t n, c;
  const char *params;
} rows[] = {{1, 1, NULL},
            {32, 10, NULL},
            {7, 3, "{ k = 2 }"},
            {33, 1000, "{ k = 5 }"},
            {5, 20000, "{ k = 100 }"},
            {3000, 20, "{ k = 3 }"},
            {2100, 600, "{ k = 50 }"}};

static void row_labels(twin *w, int type, int64_t n, int64_t classes, int64_t ignore, int64_t bad, int64_t value) {
  void *y = malloc((size_t)n * 8);
  ck_assert_ptr_nonnull(y);
  for (int64_t i = 0; i < n; i++) {
    int64_t v = i == bad ? value : i % 9 == 4 ? ignore : i * 7919 % classes;
    if (type == SP_U8) ((uint8_t *)y)[i] = (uint8_t)v;
    else if (type == SP_I32) ((int32_t *)y)[i] = (int32_t)v;
    else ((int64_t *)y)[i] = v;
  }
  twin_input(w, 1, type, 1, &n, SP_ROW_MAJOR, y);
  free(y);
}

static void row_logits(twin *w, int64_t n, int64_t c) {
  int64_t shape[2] = {n, c}, all = n * c;
  float *x = malloc((size_t)all * sizeof *x);
  ck_assert_ptr_nonnull(x);
  spt_random(x, all, 6, -4, 4);
  for (int64_t i = 0; i < all; i++) x[i] = i % 101 == 50 ? NAN : c > 100 ? x[i] : rintf(x[i]);
  twin_input(w, 0, SP_F32, 2, shape, SP_ROW_MAJOR, x);
  free(x);
}

START_TEST(accuracy) {
  const struct rows *r = &rows[_i];
  for (size_t type = 0; type < SP_ARRAY(label_types); type++) {
    char name[64];
    twin w;
    if (label_types[type] == SP_U8 && r->c > 200) continue;
    snprintf(name, sizeof name, "%d x %d", (int)r->n, (int)r->c);
    twin_open(&w, "accuracy", name, r->params, SP_PRECISION_FP32, same_bits);
    row_logits(&w, r->n, r->c);
    row_labels(&w, label_types[type], r->n, r->c, label_types[type] == SP_U8 ? r->c - 1 : -100, -1, 0);
    twin_plan(&w, 0);
    twin_forward(&w, 0);
    twin_compare(&w, SPT_OUT);
    twin_repeat(&w, false);
    if (r->n > 1) {
      twin_run_batch(&w, r->n - 1);
      twin_forward(&w, 2);
      twin_compare(&w, SPT_OUT);
    }
    twin_close(&w);
  }
}
END_TEST

START_TEST(bad_row_labels) {
  static const struct {
    int64_t n, c, bad, value;
  } cases[] = {{32, 10, 0, 10}, {32, 10, 31, -1}, {2100, 600, 1500, 600}, {2100, 600, 2099, 1000}};
  twin w;
  twin_open(&w, "accuracy", "bad label", NULL, SP_PRECISION_FP32, same_bits);
  row_logits(&w, cases[_i].n, cases[_i].c);
  row_labels(&w, SP_I32, cases[_i].n, cases[_i].c, -100, cases[_i].bad, cases[_i].value);
  twin_plan(&w, 0);
  TWIN_BOTH(&w, spt_set_id, cases[_i].bad, SP_ID(3, 12345));
  int a = spt_forward(w.a, 5), b = spt_forward(w.b, 5);
  ck_assert_int_eq(a, SP_E_DATA);
  ck_assert_int_eq(a, b);
  ck_assert_str_eq(spt_error(w.a), spt_error(w.b));
  twin_compare(&w, SPT_OUT);
  twin_close(&w);
}
END_TEST

/* The loss of a classifier: N x C logits, N labels. */
START_TEST(cross_entropy_of_rows) {
  const twin_limits limits = {1e-6, 2e-6, 0, 0};
  static const int64_t sizes[][2] = {{1, 2}, {32, 10}, {17, 65}, {40, 1000}, {3, 5000}};
  for (size_t k = 0; k < SP_ARRAY(sizes); k++) {
    char name[64];
    twin w;
    snprintf(name, sizeof name, "rows, %d x %d", (int)sizes[k][0], (int)sizes[k][1]);
    twin_open(&w, "cross_entropy", name, NULL, SP_PRECISION_FP32, limits);
    twin_floats(&w, 0, 2, sizes[k], SP_ROW_MAJOR, -5, 5);
    row_labels(&w, label_types[1 + _i], sizes[k][0], sizes[k][1], -100, -1, 0);
    twin_plan(&w, 1);
    twin_forward(&w, 0);
    twin_compare_step(&w);
    twin_repeat(&w, false);
    short_batch(&w, sizes[k][0]);
    twin_close(&w);
  }
}
END_TEST

START_TEST(argmax) {
  for (size_t k = 0; k < SP_ARRAY(logits); k++) {
    const struct logits *l = &logits[k];
    int64_t shape[4] = {l->n, l->c, l->h, l->w}, n = l->n * l->c * l->h * l->w;
    char name[64];
    twin w;
    if (too_large(l) || l->c > 256) continue;
    float *x = malloc((size_t)n * sizeof *x);
    ck_assert_ptr_nonnull(x);
    spt_random(x, n, k + 1, -4, 4);
    for (int64_t i = 0; i < n; i++) x[i] = rintf(x[i]); /* many ties: the first wins */
    snprintf(name, sizeof name, "%d classes, ties, %s", (int)l->c, order_names[_i]);
    twin_open(&w, "argmax", name, NULL, SP_PRECISION_FP32, same_bits);
    twin_input(&w, 0, SP_F32, 4, shape, orders[_i], x);
    free(x);
    twin_plan(&w, 0);
    twin_forward(&w, 0);
    twin_compare(&w, SPT_OUT);
    twin_repeat(&w, false);
    twin_close(&w);
  }
}
END_TEST

int main(void) {
  Suite *s = suite_create("cuda labels");
  TCase *c = tcase_create("labels");
  tcase_add_loop_test(c, cross_entropy, 0, 2);
  tcase_add_loop_test(c, weighted_cross_entropy, 0, 2);
  tcase_add_loop_test(c, smoothed_cross_entropy, 0, 2);
  tcase_add_loop_test(c, other_losses, 0, 2 * (int)SP_ARRAY(others));
  tcase_add_loop_test(c, numbers, 0, 4);
  tcase_add_loop_test(c, many_numbers, 0, 2);
  tcase_add_loop_test(c, not_training, 0, 2);
  tcase_add_loop_test(c, bad_labels, 0, 2);
  tcase_add_loop_test(c, bad_targets, 0, 4);
  tcase_add_loop_test(c, all_ignored, 0, 2);
  tcase_add_loop_test(c, confusion, 0, 2);
  tcase_add_loop_test(c, accuracy, 0, (int)SP_ARRAY(rows));
  tcase_add_loop_test(c, bad_row_labels, 0, 4);
  tcase_add_loop_test(c, cross_entropy_of_rows, 0, 2);
  tcase_add_loop_test(c, argmax, 0, 2);
  suite_add_tcase(s, c);
  return twin_run(s);
}
