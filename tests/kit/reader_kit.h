/* SPDX-License-Identifier: MIT
 * reader_kit.h - short words for tests of the stage `reader`. */
#ifndef SP_TESTS_READER_KIT_H
#define SP_TESTS_READER_KIT_H

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/kit/harness.h"

#define KIT __attribute__((unused)) static /* not every test needs every word */

/* A reader, planned if it takes the parameters; n: samples a batch. */
KIT spt *open_set(const char *params, int64_t n) {
  spt *t = spt_new("reader", params, 4);
  ck_assert_ptr_nonnull(t);
  spt_set_batch(t, n);
  if (!spt_failed(t)) spt_plan(t, 0);
  return t;
}

KIT void ok(spt *t) { ck_assert_msg(!spt_failed(t), "%s", spt_error(t)); }

/* It has failed so, with the words, in one line. */
KIT void says(spt *t, int status, const char *words) {
  int good = spt_failed(t) == status && strstr(spt_error(t), words);
  ck_assert_msg(good, "status %d, \"%s\" in: %s", spt_failed(t), words, spt_error(t));
  ck_assert_ptr_null(strchr(spt_error(t), '\n'));
}

/* Samples first ... first + n - 1 into a batch. */
KIT void make(spt *t, uint64_t first, int64_t n) {
  ok(t);
  for (int64_t i = 0; i < n; i++) spt_set_id(t, i, SP_ID(2, first + (uint64_t)i));
  spt_forward(t, 0);
  ok(t);
}

KIT const uint8_t *image_of(spt *t, int64_t i) {
  const sp_spec *s = spt_spec(t, SPT_OUT, 0, 0);
  return (const uint8_t *)spt_raw(t, SPT_OUT, 0, 0) + i * 3 * s->shape[2] * s->shape[3];
}

KIT const uint8_t *mask_of(spt *t, int64_t i) {
  const sp_spec *s = spt_spec(t, SPT_OUT, 1, 0);
  return (const uint8_t *)spt_raw(t, SPT_OUT, 1, 0) + i * s->shape[1] * s->shape[2];
}

KIT int label_of(spt *t, int64_t i) {
  const void *v = spt_raw(t, SPT_OUT, 2, 0);
  return spt_spec(t, SPT_OUT, 2, 0)->dtype == SP_U8 ? ((const uint8_t *)v)[i] : ((const int32_t *)v)[i];
}

/* What is written to the standard error from log_begin to log_end; file: where it is kept meanwhile. */
KIT int log_begin(const char *file) {
  int keep = dup(2), out = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ck_assert(keep >= 0 && out >= 0);
  fflush(stderr);
  dup2(out, 2);
  close(out);
  return keep;
}

KIT const char *log_end(int keep, const char *file) {
  static char text[4096];
  fflush(stderr);
  dup2(keep, 2);
  close(keep);
  FILE *f = fopen(file, "r");
  ck_assert_ptr_nonnull(f);
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  return text;
}

KIT double attr(spt *t, const char *name) {
  double v = -1;
  ck_assert(spt_attr(t, name, &v));
  return v;
}

#endif
