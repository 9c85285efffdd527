/* SPDX-License-Identifier: MIT
 * twin.h - one stage on the cpu and on another device with the same values: how far apart are they? For Check. */
#ifndef SP_TESTS_TWIN_H
#define SP_TESTS_TWIN_H

#include <check.h>

#include <spcore/ext/precision.h>

#include "tests/kit/harness.h"

/* What results are compared by. Errors are relative to the largest value of a tensor, or of RMS to RMS. */
typedef struct twin_limits {
  double forward, gradient; /* largest error; 0: the same bits */
  double rms;               /* of gradients, instead of their largest error; 0: not so */
  /* Where rms is not 0: the stage on the cpu runs also with inputs and weights rounded to the precision. Errors may be
   * as many times the distance that this makes, where that is more than the limit: it is what the precision can do. */
  double times;
} twin_limits;

typedef struct twin {
  spt *a, *b;                     /* on the cpu, on the device */
  spt *c;                         /* on the cpu with rounded inputs and weights; NULL: not asked for */
  const char *stage, *name, *how; /* how: "" or what is special about this run of the case */
  int precision;
  twin_limits limits;
  double forward, gradient, rms; /* largest errors so far; rms of gradients */
  uint64_t seed;                 /* of the values: every call that draws takes the next */
  float least;                   /* of the values that twin_repeat() puts in */
} twin;

extern const char *twin_device; /* "cuda" */
extern int twin_threads;        /* of the cpu */
extern const char *const twin_precisions[];

/* Ends the test with the words if rc is not SP_OK. */
void twin_ok(spt *t, int rc);

void twin_open(twin *w, const char *stage, const char *name, const char *params, int precision, twin_limits limits);
/* Appends an input of uniform floats. */
void twin_floats(twin *w, int port, int ndim, const int64_t *shape, int order, float lo, float hi);
void twin_input(twin *w, int port, int dtype, int ndim, const int64_t *shape, int order, const void *data);
/* Plans both; weights that begin as constants, such as those of a norm, are moved off them. */
void twin_plan(twin *w, int training);

/* The same values on both sides, drawn anew. */
void twin_set(twin *w, int what, int port, int item, float lo, float hi);
void twin_set_all(twin *w, int what, float lo, float hi); /* float tensors only */
#define TWIN_BOTH(w, call, ...) \
  (call((w)->a, __VA_ARGS__), call((w)->b, __VA_ARGS__), (w)->c ? call((w)->c, __VA_ARGS__) : (void)0)

void twin_run_batch(twin *w, int64_t n);
void twin_forward(twin *w, uint64_t step);
void twin_backward(twin *w); /* with gradients of the outputs drawn anew */

/* Compares all tensors of a kind: SPT_OUT by limits.forward, others by limits.gradient or .rms, integers exactly. */
void twin_compare(twin *w, int what);
void twin_compare_step(twin *w); /* outputs, gradients, weights and state */

/* On the device alone: the same bits a second time, captured, and replayed with other values. One call in two where
 * $SP_TEST_SMALL is set, as for the emulator, and one in four under a sanitizer: the memory that it touches is that of
 * the calls before it. */
void twin_repeat(twin *w, bool backward);

void twin_close(twin *w); /* the errors go to the case's line of the table */

/* For main() to return: runs the suite on twin_device or, if it is set, $SP_TEST_DEVICE ("copy" shows a test itself
 * to be sound where there is no GPU); 77 where there is none. In one process, as CUDA does not survive fork(). A table
 * of the errors is at the end. */
int twin_run(Suite *suite);

#endif
