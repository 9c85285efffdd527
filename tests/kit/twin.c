/* SPDX-License-Identifier: MIT
 * twin.c - one stage on the cpu and on another device with the same values. */
#include "twin.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>
#include <spcore/device.h>

const char *twin_device = "cuda";
int twin_threads = 2;
const char *const twin_precisions[] = {
    [SP_PRECISION_FP32] = "fp32", [SP_PRECISION_TF32] = "tf32", [SP_PRECISION_BF16] = "bf16"};

static const int kinds[] = {SPT_OUT, SPT_DIN, SPT_WEIGHT, SPT_DWEIGHT};
static const char *const kind_names[] = {[SPT_IN] = "input",
                                         [SPT_OUT] = "output",
                                         [SPT_DIN] = "input gradient",
                                         [SPT_WEIGHT] = "weight",
                                         [SPT_DWEIGHT] = "weight gradient"};

void twin_ok(spt *t, int rc) { ck_assert_msg(rc == SP_OK, "%s", spt_error(t)); }

static void *allocate(size_t bytes) {
  void *p = malloc(bytes + 1);
  ck_assert_ptr_nonnull(p);
  return p;
}

static size_t bytes_of(const spt *t, int what, int port, int item) {
  return (size_t)sp_spec_bytes(spt_spec(t, what, port, item));
}

/* ---- making ---- */
void twin_open(twin *w, const char *stage, const char *name, const char *params, int precision, twin_limits limits) {
  *w = (twin){
      .stage = stage, .name = name, .how = "", .precision = precision, .limits = limits, .seed = 1, .least = -0.9f};
  w->a = spt_new_on("cpu", stage, params, twin_threads);
  w->b = spt_new_on(twin_device, stage, params, twin_threads);
  ck_assert(w->a && w->b);
  twin_ok(w->a, spt_failed(w->a));
  twin_ok(w->b, spt_failed(w->b));
  if (limits.rms > 0) {
    w->c = spt_new_on("cpu", stage, params, twin_threads);
    ck_assert_ptr_nonnull(w->c);
    twin_ok(w->c, spt_failed(w->c));
  }
  TWIN_BOTH(w, spt_set_precision, precision);
}

/* float32 with the mantissa of the precision; half away from zero */
static void round_floats(float *v, int64_t n, int precision) {
  const uint32_t cut = precision == SP_PRECISION_BF16 ? 16 : 13;
  for (int64_t i = 0; i < n; i++) {
    uint32_t bits;
    memcpy(&bits, &v[i], sizeof bits);
    if ((bits >> 23 & 255) == 255) continue;
    bits = (bits + (UINT32_C(1) << (cut - 1))) >> cut << cut;
    memcpy(&v[i], &bits, sizeof bits);
  }
}

void twin_input(twin *w, int port, int dtype, int ndim, const int64_t *shape, int order, const void *data) {
  twin_ok(w->a, spt_input_of(w->a, port, dtype, ndim, shape, order, data));
  twin_ok(w->b, spt_input_of(w->b, port, dtype, ndim, shape, order, data));
  if (w->c) twin_ok(w->c, spt_input_of(w->c, port, dtype, ndim, shape, order, data));
}

void twin_floats(twin *w, int port, int ndim, const int64_t *shape, int order, float lo, float hi) {
  int64_t n = 1;
  for (int d = 0; d < ndim; d++) n *= shape[d];
  float *v = allocate((size_t)n * sizeof *v);
  spt_random(v, n, ++w->seed, lo, hi);
  twin_input(w, port, SP_F32, ndim, shape, order, v);
  free(v);
}

static void set_floats(twin *w, int what, int port, int item, float base, float lo, float hi) {
  int64_t n = sp_spec_count(spt_spec(w->a, what, port, item));
  float *v = allocate((size_t)n * sizeof *v);
  spt_random(v, n, ++w->seed, lo, hi);
  for (int64_t i = 0; i < n; i++) v[i] += base;
  twin_ok(w->a, spt_set(w->a, what, port, item, v));
  twin_ok(w->b, spt_set(w->b, what, port, item, v));
  if (w->c) twin_ok(w->c, spt_set(w->c, what, port, item, v));
  free(v);
}

void twin_set(twin *w, int what, int port, int item, float lo, float hi) { set_floats(w, what, port, item, 0, lo, hi); }

void twin_set_all(twin *w, int what, float lo, float hi) {
  for (int p = 0; p < spt_ports(w->a, what); p++)
    for (int i = 0; i < spt_count(w->a, what, p); i++)
      if (spt_spec(w->a, what, p, i)->dtype == SP_F32) twin_set(w, what, p, i, lo, hi);
}

static void round_all(twin *w, int what) {
  for (int p = 0; p < spt_ports(w->c, what); p++)
    for (int i = 0; i < spt_count(w->c, what, p); i++) {
      const sp_spec *s = spt_spec(w->c, what, p, i);
      if (s->dtype == SP_F32) round_floats(spt_raw(w->c, what, p, i), sp_spec_count(s), w->precision);
    }
}

void twin_plan(twin *w, int training) {
  twin_ok(w->a, spt_plan(w->a, training));
  twin_ok(w->b, spt_plan(w->b, training));
  if (w->c) twin_ok(w->c, spt_plan(w->c, training));
  for (int i = 0; i < spt_count(w->a, SPT_WEIGHT, 0); i++) {
    const sp_weight *x = spt_weight(w->a, i);
    if (x->init == SP_INIT_CONST && x->spec.dtype == SP_F32 && !(spt_type(w->a)->flags & SP_STAGE_OPTIMIZER))
      set_floats(w, SPT_WEIGHT, 0, i, (float)x->init_value, -0.3f, 0.3f);
  }
}

/* ---- comparing ---- */
static void element(const sp_spec *s, const void *data, int64_t i, double *v) {
  switch (s->dtype) {
    case SP_F32: *v = ((const float *)data)[i]; break;
    case SP_F64: *v = ((const double *)data)[i]; break;
    case SP_I32: *v = ((const int32_t *)data)[i]; break;
    case SP_I64: *v = (double)((const int64_t *)data)[i]; break;
    case SP_I8: *v = ((const int8_t *)data)[i]; break;
    default: *v = ((const uint8_t *)data)[i]; break;
  }
}

/* Both sides hold the same NaN where nothing was to be written: behind a short batch, in what was not wanted. */
static void distance(const sp_spec *s, const void *a, const void *b, double *most, double *rms) {
  int64_t n = sp_spec_count(s);
  double top = 0, far = 0, sum = 0, all = 0;
  for (int64_t i = 0; i < n; i++) {
    double x, y;
    element(s, a, i, &x);
    element(s, b, i, &y);
    if (isnan(x) && isnan(y)) continue;
    double d = fabs(x - y);
    if (isnan(d)) d = x == y ? 0 : INFINITY; /* equal infinities, or a NaN on one side */
    far = fmax(far, d);
    sum += d * d;
    if (isinf(x)) continue;
    top = fmax(top, fabs(x));
    all += x * x;
  }
  *most = top > 0 ? far / top : far;
  *rms = all > 0 ? sqrt(sum / all) : sqrt(sum);
}

static const char *tensor_name(const twin *w, int what, int port, int item) {
  return what == SPT_WEIGHT || what == SPT_DWEIGHT ? spt_weight_name(w->a, item) : spt_port_name(w->a, what, port);
}

/* What rounding moves the tensor by on the cpu. */
static void noise_of(twin *w, int what, int port, int item, const void *a, double *most, double *rms) {
  *most = *rms = 0;
  if (!w->c) return;
  void *c = allocate(bytes_of(w->c, what, port, item));
  twin_ok(w->c, spt_get(w->c, what, port, item, c));
  distance(spt_spec(w->c, what, port, item), a, c, most, rms);
  free(c);
}

static void compare_tensor(twin *w, int what, int port, int item) {
  const sp_spec *s = spt_spec(w->a, what, port, item);
  size_t bytes = bytes_of(w->a, what, port, item);
  void *a = allocate(bytes), *b = allocate(bytes);
  double most, rms, most_noise, rms_noise;
  bool forward = what == SPT_OUT, floats = s->dtype == SP_F32 || s->dtype == SP_F64;
  double limit = forward ? w->limits.forward : w->limits.gradient;
  twin_ok(w->a, spt_get(w->a, what, port, item, a));
  twin_ok(w->b, spt_get(w->b, what, port, item, b));
  distance(s, a, b, &most, &rms);
  noise_of(w, what, port, item, a, &most_noise, &rms_noise);
  double limit_rms = fmax(w->limits.rms, w->limits.times * rms_noise);
  limit = fmax(limit, w->limits.times * most_noise);
  if (forward) w->forward = fmax(w->forward, most);
  else w->gradient = fmax(w->gradient, most), w->rms = fmax(w->rms, rms);
  const char *where = tensor_name(w, what, port, item);
  if (!floats || limit <= 0)
    ck_assert_msg(memcmp(a, b, bytes) == 0, "%s, %s%s, %s: %s '%s' [%d]: other bits than on the cpu (error %.3g)",
                  w->stage, w->name, w->how, twin_precisions[w->precision], kind_names[what], where, item, most);
  else if (!forward && w->limits.rms > 0)
    ck_assert_msg(rms <= limit_rms, "%s, %s%s, %s: %s '%s' [%d]: RMS error %.3g, allowed %.3g", w->stage, w->name,
                  w->how, twin_precisions[w->precision], kind_names[what], where, item, rms, limit_rms);
  else
    ck_assert_msg(most <= limit, "%s, %s%s, %s: %s '%s' [%d]: error %.3g of the largest, allowed %.3g", w->stage,
                  w->name, w->how, twin_precisions[w->precision], kind_names[what], where, item, most, limit);
  free(a);
  free(b);
}

void twin_compare(twin *w, int what) {
  for (int p = 0; p < spt_ports(w->a, what); p++) {
    ck_assert_int_eq(spt_count(w->a, what, p), spt_count(w->b, what, p));
    for (int i = 0; i < spt_count(w->a, what, p); i++) compare_tensor(w, what, p, i);
  }
}

void twin_compare_step(twin *w) {
  for (size_t k = 0; k < SP_ARRAY(kinds); k++) twin_compare(w, kinds[k]);
}

/* ---- running ---- */
void twin_run_batch(twin *w, int64_t n) {
  twin_ok(w->a, spt_run_batch(w->a, n));
  twin_ok(w->b, spt_run_batch(w->b, n));
  if (w->c) twin_ok(w->c, spt_run_batch(w->c, n));
}

void twin_forward(twin *w, uint64_t step) {
  twin_ok(w->a, spt_forward(w->a, step));
  twin_ok(w->b, spt_forward(w->b, step));
  if (!w->c) return;
  round_all(w, SPT_IN);
  round_all(w, SPT_WEIGHT);
  twin_ok(w->c, spt_forward(w->c, step));
}

void twin_backward(twin *w) {
  twin_set_all(w, SPT_DOUT, -1, 1);
  twin_ok(w->a, spt_backward(w->a));
  twin_ok(w->b, spt_backward(w->b));
  if (w->c) twin_ok(w->c, spt_backward(w->c));
}

/* ---- the same bits again ---- */
typedef struct snapshot {
  void *data[SP_ARRAY(kinds)][64][SP_MAX_LIST]; /* by kind, port, item */
} snapshot;

static snapshot *take(const twin *w) {
  snapshot *s = sp_calloc(1, sizeof *s);
  ck_assert_ptr_nonnull(s);
  for (size_t k = 0; k < SP_ARRAY(kinds); k++)
    for (int p = 0; p < spt_ports(w->b, kinds[k]); p++)
      for (int i = 0; i < spt_count(w->b, kinds[k], p); i++) {
        size_t bytes = bytes_of(w->b, kinds[k], p, i);
        s->data[k][p][i] = allocate(bytes);
        memcpy(s->data[k][p][i], spt_raw(w->b, kinds[k], p, i), bytes);
      }
  return s;
}

static void drop(snapshot *s) {
  for (size_t k = 0; k < SP_ARRAY(kinds); k++)
    for (int p = 0; p < 64; p++)
      for (int i = 0; i < SP_MAX_LIST; i++) free(s->data[k][p][i]);
  free(s);
}

static void put_back(const twin *w, const snapshot *s) {
  for (size_t k = 0; k < SP_ARRAY(kinds); k++)
    for (int p = 0; p < spt_ports(w->b, kinds[k]); p++)
      for (int i = 0; i < spt_count(w->b, kinds[k], p); i++)
        memcpy(spt_raw(w->b, kinds[k], p, i), s->data[k][p][i], bytes_of(w->b, kinds[k], p, i));
}

static void same_bits(const twin *w, const snapshot *s, const char *when) {
  for (size_t k = 0; k < SP_ARRAY(kinds); k++)
    for (int p = 0; p < spt_ports(w->b, kinds[k]); p++)
      for (int i = 0; i < spt_count(w->b, kinds[k], p); i++)
        ck_assert_msg(memcmp(spt_raw(w->b, kinds[k], p, i), s->data[k][p][i], bytes_of(w->b, kinds[k], p, i)) == 0,
                      "%s, %s%s, %s: %s '%s' [%d]: other bits %s", w->stage, w->name, w->how,
                      twin_precisions[w->precision], kind_names[kinds[k]], tensor_name(w, kinds[k], p, i), i, when);
}

static void run_b(twin *w, bool backward) {
  twin_ok(w->b, spt_forward(w->b, 0));
  if (backward) twin_ok(w->b, spt_backward(w->b));
}

/* In a build for a sanitizer, which looks at memory and takes long: other builds compare all bits. */
static bool sanitized(void) {
  const char *sanitizers = getenv("SP_SANITIZERS");
  return sanitizers && strcmp(sanitizers, "none") != 0;
}

/* A capture admits no allocation and no wait, so it finds those too. */
void twin_repeat(twin *w, bool backward) {
  static int calls;
  const int apart = sanitized() ? 4 : getenv("SP_TEST_SMALL") ? 2 : 1;
  if (calls++ % apart) return;
  snapshot *before = take(w), *after;
  run_b(w, backward);
  after = take(w);
  put_back(w, before);
  run_b(w, backward);
  same_bits(w, after, "the second time");
  bool capturable = spt_type(w->b)->flags & SP_STAGE_CAPTURABLE;
  if (strcmp(spt_type(w->b)->device, "cpu") != 0) ck_assert_msg(capturable, "%s: not SP_STAGE_CAPTURABLE", w->stage);
  if (capturable && spt_device_flags(twin_device) & SP_DEVICE_CAPTURE) {
    spt_set_capture(w->b, SPT_CAPTURE);
    put_back(w, before);
    run_b(w, backward);
    same_bits(w, after, "when captured");
    twin_set_all(w, SPT_IN, w->least, 0.9f);
    spt_set_live(w->b, 0, 0.375f);
    spt_set_capture(w->b, SPT_REPLAY);
    put_back(w, before);
    run_b(w, backward);
    drop(after);
    after = take(w);
    spt_set_capture(w->b, SPT_EAGER);
    put_back(w, before);
    run_b(w, backward);
    same_bits(w, after, "when replayed with other inputs");
  }
  put_back(w, before);
  drop(before);
  drop(after);
}

/* ---- the table ---- */
static struct row {
  char stage[16], name[40], precision[8];
  double forward, gradient, rms;
} * rows;
static size_t n_rows, cap_rows;

static struct row *row_of(const twin *w) {
  const char *precision = twin_precisions[w->precision];
  for (size_t i = 0; i < n_rows; i++)
    if (!strcmp(rows[i].stage, w->stage) && !strcmp(rows[i].name, w->name) && !strcmp(rows[i].precision, precision))
      return &rows[i];
  if (!sp_grow(&rows, &cap_rows, n_rows + 1, sizeof *rows)) return NULL;
  struct row *r = &rows[n_rows++];
  *r = (struct row){.forward = 0};
  snprintf(r->stage, sizeof r->stage, "%s", w->stage);
  snprintf(r->name, sizeof r->name, "%s", w->name);
  snprintf(r->precision, sizeof r->precision, "%s", precision);
  return r;
}

void twin_close(twin *w) {
  struct row *r = row_of(w);
  if (r) {
    r->forward = fmax(r->forward, w->forward);
    r->gradient = fmax(r->gradient, w->gradient);
    r->rms = fmax(r->rms, w->rms);
  }
  spt_free(w->a);
  spt_free(w->b);
  spt_free(w->c);
  w->a = w->b = w->c = NULL;
}

static void print_table(void) {
  printf("\n%-14s %-38s %-9s %10s %10s %10s\n", "stage", "case", "precision", "forward", "gradients", "their RMS");
  for (size_t i = 0; i < n_rows; i++)
    printf("%-14s %-38s %-9s %10.2g %10.2g %10.2g\n", rows[i].stage, rows[i].name, rows[i].precision, rows[i].forward,
           rows[i].gradient, rows[i].rms);
  free(rows);
  rows = NULL;
  n_rows = cap_rows = 0;
}

int twin_run(Suite *suite) {
  SRunner *runner = srunner_create(suite);
  char why[1024];
  int failed = 0;
  if (getenv("SP_TEST_DEVICE")) twin_device = getenv("SP_TEST_DEVICE");
  const char *kept = getenv("SP_TEST_CACHE"); /* else what is measured here is kept in memory and leaves no file */
  setenv("SPCORE_CACHE", kept ? kept : "/dev/null", 1);
  const bool ready = !spt_device_ready(twin_device, why, sizeof why);
  if (ready) {
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    print_table();
    spt_device_close();
  } else {
    failed = strstr(why, "out of memory") != NULL; /* the GPU is there, and too much beside this runs on it */
    printf("%s: %s\n", failed ? "failed" : "skipped", why);
  }
  srunner_free(runner);
  return ready || failed ? failed != 0 : 77;
}
