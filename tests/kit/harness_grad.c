/* SPDX-License-Identifier: MIT
 * harness_grad.c - backward() against central differences of forward(), accumulation, and the update in place. */
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <spcore/rng.h>

#define PROJECTION_SEED 77

typedef struct check {
  spt *t;
  double eps, rtol, atol;
  int max_elems;
  void **state; /* STATE weights as they were, by weight index; NULL: not a STATE weight */
  sp_err err;
} check;

static int fail(check *c, const char *what, const char *name, int item, const char *detail) {
  return sp_fail(&c->err, SP_E_INTERNAL, "%s '%s' [%d]: %s", what, name, item, detail);
}

static size_t bytes_of(const spt *t, int what, int port, int item) {
  return (size_t)sp_spec_bytes(spt_spec(t, what, port, item));
}

static int n_weights(const spt *t) { return spt_count(t, SPT_WEIGHT, 0); }

static int keep_state(check *c) {
  int n = n_weights(c->t);
  c->state = sp_calloc((size_t)n + 1, sizeof *c->state);
  if (!c->state) return sp_nomem(&c->err, 0, "a gradient check");
  for (int i = 0; i < n; i++) {
    if (spt_weight(c->t, i)->flags & SP_WEIGHT_TRAINED) continue;
    size_t bytes = bytes_of(c->t, SPT_WEIGHT, 0, i);
    if (!(c->state[i] = malloc(bytes + 1))) return sp_nomem(&c->err, bytes, "a gradient check");
    memcpy(c->state[i], spt_raw(c->t, SPT_WEIGHT, 0, i), bytes);
  }
  return SP_OK;
}

static void restore_state(check *c) {
  for (int i = 0; i < n_weights(c->t); i++)
    if (c->state[i]) memcpy(spt_raw(c->t, SPT_WEIGHT, 0, i), c->state[i], bytes_of(c->t, SPT_WEIGHT, 0, i));
}

static int forward(check *c) {
  restore_state(c);
  if (spt_forward(c->t, 0)) return sp_fail(&c->err, spt_failed(c->t), "%s", spt_error(c->t));
  return SP_OK;
}

static int backward(check *c) {
  if (spt_type(c->t)->flags & SP_STAGE_LOSS) return forward(c);
  if (spt_backward(c->t)) return sp_fail(&c->err, spt_failed(c->t), "%s", spt_error(c->t));
  return SP_OK;
}

/* Draws the projection into dout; of a loss it is 1 on output 0 and needs none. */
static void draw_projection(spt *t) {
  for (int p = 0; p < spt_ports(t, SPT_DOUT); p++)
    for (int i = 0; i < spt_count(t, SPT_DOUT, p); i++)
      spt_random(spt_raw(t, SPT_DOUT, p, i), sp_spec_count(spt_spec(t, SPT_DOUT, p, i)),
                 (uint64_t)(PROJECTION_SEED + p * SP_MAX_LIST + i), -1, 1);
}

/* Outputs are poisoned with NaN before each call. */
static int outputs_written(check *c) {
  for (int p = 0; p < spt_ports(c->t, SPT_DOUT); p++)
    for (int i = 0; i < spt_count(c->t, SPT_DOUT, p); i++) {
      const float *y = spt_raw(c->t, SPT_OUT, p, i);
      int64_t n = sp_spec_count(spt_spec(c->t, SPT_OUT, p, i));
      for (int64_t k = 0; k < n; k++)
        if (!isfinite(y[k])) return fail(c, "output", spt_port_name(c->t, SPT_OUT, p), i, "not finite, or left over");
    }
  return SP_OK;
}

static double projected(spt *t) {
  double sum = 0;
  if (spt_type(t)->flags & SP_STAGE_LOSS) return *(const float *)spt_raw(t, SPT_OUT, 0, 0);
  for (int p = 0; p < spt_ports(t, SPT_DOUT); p++)
    for (int i = 0; i < spt_count(t, SPT_DOUT, p); i++) {
      const float *r = spt_raw(t, SPT_DOUT, p, i), *y = spt_raw(t, SPT_OUT, p, i);
      int64_t n = sp_spec_count(spt_spec(t, SPT_DOUT, p, i));
      for (int64_t k = 0; k < n; k++) sum += (double)r[k] * y[k];
    }
  return sum;
}

/* f at x[k] moved by h; the float that was really reached goes to *at. */
static int value_at(check *c, float *x, int64_t k, double h, double *f, double *at) {
  float old = x[k];
  x[k] = (float)(old + h);
  *at = x[k];
  int rc = forward(c);
  *f = projected(c->t);
  x[k] = old;
  return rc;
}

static double largest(const float *g, int64_t n) {
  double top = 0;
  for (int64_t i = 0; i < n; i++)
    if (!(fabs(g[i]) <= top)) top = fabs(g[i]);
  return top;
}

/* x and its analytic gradient g (both as they lie in memory). */
static int check_tensor(check *c, const char *what, const char *name, int item, float *x, const float *g, int64_t n) {
  char detail[256];
  double top = largest(g, n), tol = c->atol + c->rtol * top, f0, at0 = 0;
  int kinks = 0, tried = 0, rc;
  if (!isfinite(top)) return fail(c, what, name, item, "a gradient is not finite, or was not written");
  if (!n) return SP_OK;
  if ((rc = forward(c))) return rc;
  f0 = projected(c->t);
  for (int e = 0; e < c->max_elems && (e < n || n > c->max_elems); e++, tried++) {
    int64_t k = n <= c->max_elems ? e : (int64_t)(sp_rng(1, (uint64_t)e, 0).v[0] % (uint64_t)n);
    double up, down, at_up, at_down;
    at0 = x[k];
    if ((rc = value_at(c, x, k, c->eps, &up, &at_up)) || (rc = value_at(c, x, k, -c->eps, &down, &at_down))) return rc;
    double numeric = (up - down) / (at_up - at_down);
    double left = (f0 - down) / (at0 - at_down), right = (up - f0) / (at_up - at0);
    if (fabs(numeric - g[k]) <= tol) continue;
    if (fabs(left - right) > 2 * tol) {
      kinks++;
      continue;
    }
    snprintf(detail, sizeof detail, "element %lld: backward gives %.7g, central difference %.7g (allowed %.2g)",
             (long long)k, g[k], numeric, tol);
    return fail(c, what, name, item, detail);
  }
  if (2 * kinks > tried) return fail(c, what, name, item, "more than half of the elements lie at a kink");
  return SP_OK;
}

/* Calls fn for every tensor with a gradient: its values, its gradient, its name. */
typedef int (*grad_fn)(check *c, const char *what, const char *name, int item, float *x, float *g, int64_t n);

static int each_grad(check *c, grad_fn fn) {
  spt *t = c->t;
  int rc, seen = 0;
  for (int p = 0; p < spt_ports(t, SPT_IN); p++) {
    if (spt_type(t)->inputs[p].flags & SP_PORT_NOGRAD) continue;
    for (int i = 0; i < spt_count(t, SPT_IN, p); i++, seen++) {
      if (spt_spec(t, SPT_IN, p, i)->dtype != SP_F32) continue;
      if ((rc = fn(c, "input", spt_port_name(t, SPT_IN, p), i, spt_raw(t, SPT_IN, p, i), spt_raw(t, SPT_DIN, p, i),
                   sp_spec_count(spt_spec(t, SPT_IN, p, i)))))
        return rc;
    }
  }
  for (int i = 0; i < n_weights(t); i++) {
    if (!(spt_weight(t, i)->flags & SP_WEIGHT_TRAINED)) continue;
    seen++;
    if ((rc = fn(c, "weight", spt_weight_name(t, i), 0, spt_raw(t, SPT_WEIGHT, 0, i), spt_raw(t, SPT_DWEIGHT, 0, i),
                 sp_spec_count(spt_spec(t, SPT_WEIGHT, 0, i)))))
      return rc;
  }
  return seen ? SP_OK : sp_fail(&c->err, SP_E_INVALID, "harness: nothing has a gradient");
}

static int poison_grad(check *c, const char *what, const char *name, int item, float *x, float *g, int64_t n) {
  (void)c, (void)what, (void)name, (void)item, (void)x;
  memset(g, 0xFF, (size_t)n * sizeof *g);
  return SP_OK;
}

/* forward() for the numeric side of a loss overwrites din, so the analytic side is copied first. */
static int numeric_grad(check *c, const char *what, const char *name, int item, float *x, float *g, int64_t n) {
  float *kept = malloc((size_t)n * sizeof *kept + 1);
  if (!kept) return sp_nomem(&c->err, (size_t)n * sizeof *kept, "a gradient check");
  int rc = forward(c);
  if (!rc) rc = backward(c);
  memcpy(kept, g, (size_t)n * sizeof *kept);
  if (!rc) rc = check_tensor(c, what, name, item, x, kept, n);
  free(kept);
  return rc;
}

#define ACC_BASE 3.0f

static int set_base(check *c, const char *what, const char *name, int item, float *x, float *g, int64_t n) {
  (void)c, (void)what, (void)name, (void)item, (void)x;
  for (int64_t i = 0; i < n; i++) g[i] = ACC_BASE;
  return SP_OK;
}

/* One tensor: backward() twice, over a known base with accumulation and without. */
static int accumulated(check *c, const char *what, const char *name, int item, float *x, float *g, int64_t n) {
  float *sum = malloc((size_t)n * sizeof *sum + 1);
  if (!sum) return sp_nomem(&c->err, (size_t)n * sizeof *sum, "a gradient check");
  int rc = forward(c);
  spt_set_acc(c->t, 1, 1);
  each_grad(c, set_base);
  if (!rc) rc = backward(c);
  spt_set_acc(c->t, 0, 0);
  memcpy(sum, g, (size_t)n * sizeof *sum);
  if (!rc) rc = forward(c);
  if (!rc) rc = backward(c);
  double tol = 1e-5 * (ACC_BASE + largest(g, n));
  for (int64_t i = 0; i < n && !rc; i++)
    if (!(fabs((double)sum[i] - ACC_BASE - g[i]) <= tol)) rc = fail(c, what, name, item, "accumulation does not add");
  free(sum);
  (void)x;
  return rc;
}

#define DW_SCALE -0.25f

static int updated(check *c, const char *what, const char *name, int item, float *x, float *g, int64_t n) {
  if (strcmp(what, "weight")) return SP_OK;
  float *old = malloc((size_t)n * sizeof *old + 1), *grad = malloc((size_t)n * sizeof *grad + 1);
  int rc = old && grad ? forward(c) : sp_nomem(&c->err, (size_t)n * sizeof *old, "a gradient check");
  if (!rc && !(rc = backward(c))) {
    size_t bytes = (size_t)n * sizeof *old;
    void *all[512];
    int m = n_weights(c->t);
    memcpy(old, x, bytes);
    memcpy(grad, g, bytes);
    for (int i = 0; i < m; i++) { /* the update moves every weight: keep them all */
      size_t b = bytes_of(c->t, SPT_WEIGHT, 0, i);
      if ((all[i] = malloc(b + 1))) memcpy(all[i], spt_raw(c->t, SPT_WEIGHT, 0, i), b);
      else rc = sp_nomem(&c->err, b, "a gradient check");
    }
    spt_set_dw_scale(c->t, DW_SCALE);
    if (!rc) rc = backward(c);
    spt_set_dw_scale(c->t, 0);
    double tol = 1e-5 * (largest(old, n) + largest(grad, n));
    for (int64_t i = 0; i < n && !rc; i++)
      if (!(fabs((double)x[i] - (old[i] + (double)DW_SCALE * grad[i])) <= tol))
        rc = fail(c, what, name, item, "the update in place is not weights + dw_scale * gradient");
    for (int i = 0; i < m; i++) {
      if (all[i]) memcpy(spt_raw(c->t, SPT_WEIGHT, 0, i), all[i], bytes_of(c->t, SPT_WEIGHT, 0, i));
      free(all[i]);
    }
  }
  free(old);
  free(grad);
  return rc;
}

static int run_check(check *c) {
  int rc;
  spt *t = c->t;
  if ((rc = keep_state(c))) return rc;
  draw_projection(t);
  if ((rc = forward(c)) || (rc = outputs_written(c))) return rc;
  each_grad(c, poison_grad);
  if ((rc = each_grad(c, numeric_grad))) return rc;
  if (spt_type(t)->flags & SP_STAGE_LOSS) return SP_OK; /* its gradient is the first one written: never added */
  if ((rc = each_grad(c, accumulated))) return rc;
  return spt_type(t)->flags & SP_STAGE_INPLACE_SGD ? each_grad(c, updated) : SP_OK;
}

int spt_gradcheck(spt *t, double eps, double rtol, double atol, int max_elems) {
  check c = {.t = t, .eps = eps, .rtol = rtol, .atol = atol, .max_elems = max_elems};
  int rc = run_check(&c);
  if (c.state) restore_state(&c);
  for (int i = 0; c.state && i < n_weights(t); i++) free(c.state[i]);
  free(c.state);
  if (rc) spt_note(t, &c.err);
  return rc;
}
