/* SPDX-License-Identifier: MIT
 * fuzz_reader.h - the stage `reader` on sets that a driver writes: taken, or refused in one line. The working folder
 * is one of TMPDIR that goes away. */
#ifndef SP_TESTS_FUZZ_READER_H
#define SP_TESTS_FUZZ_READER_H

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"
#include "tests/kit/harness.h"

static char fzr_dir[256], fzr_words[8192];

static inline void fzr_begin(void) {
  const char *in = getenv("TMPDIR");
  snprintf(fzr_dir, sizeof fzr_dir, "%s/spcore-fuzz-XXXXXX", in && *in ? in : "/tmp");
  FZ_CHECK(mkdtemp(fzr_dir) && !chdir(fzr_dir), "no folder");
  setenv("SPCORE_CACHE", "cache", 1);
}

static inline void fzr_end(void) { FZ_CHECK(!rmdir(fzr_dir), "%s is not empty", fzr_dir); }

static inline void fzr_put(const char *name, const void *bytes, size_t n) {
  FILE *file = fopen(name, "w");
  FZ_CHECK(file && fwrite(bytes, 1, n, file) == n && !fclose(file), "%s cannot be written", name);
}

static inline int fzr_said(const spt *t) {
  return !spt_failed(t) || (spt_failed(t) != SP_E_INTERNAL && *spt_error(t) && !strchr(spt_error(t), '\n'));
}

/* 1: it was listed, 0: refused, in words; -1: refused otherwise, fzr_words are its words. So many samples of it are
 * read; warnings are not shown. */
static inline int fzr_take(const char *params, int samples) {
  int quiet = open("/dev/null", O_WRONLY), heard = dup(2);
  dup2(quiet, 2);
  spt *t = spt_new("reader", params, 1);
  FZ_CHECK(t, "no memory");
  spt_set_batch(t, samples);
  if (!spt_failed(t)) spt_plan(t, 0);
  int good = !spt_failed(t);
  if (good) {
    for (int i = 0; i < samples; i++) spt_set_id(t, i, SP_ID(2, (uint64_t)i));
    spt_forward(t, 0);
  }
  int said = fzr_said(t);
  snprintf(fzr_words, sizeof fzr_words, "%s", spt_error(t));
  spt_free(t);
  dup2(heard, 2);
  close(quiet);
  close(heard);
  return said ? good : -1;
}

#endif
