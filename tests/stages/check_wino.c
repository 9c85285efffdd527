/* SPDX-License-Identifier: MIT
 * check_wino.c - Winograd's convolution beside the plain sum in double precision, by the code for each instruction set
 * that is here: of the source itself, since what is built takes the best one only. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <check.h>

#include "tests/kit/harness.h"
#include "plugins/kits/nn/cpu/wino.c"
#include "tests/kit/suite.h"

enum { N = 3 };

typedef void (*runner)(const nn_wino *w, int64_t first, int64_t n, float *scratch);

static const struct set {
  const char *name;
  runner run;
} sets[] = {
    {"any", run_any},
#ifdef NN_AVX2
    {"avx2", run_avx2},
#endif
#ifdef NN_AVX512
    {"avx512", run_avx512},
#endif
};
enum { SETS = sizeof sets / sizeof *sets };

static int is_here(const char *name) {
#ifdef NN_AVX2
  if (!strcmp(name, "avx2")) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
#ifdef NN_AVX512
  if (!strcmp(name, "avx512"))
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq");
#endif
  return !strcmp(name, "any");
}

static const struct net {
  int64_t c, h, w, o;
  int pad, bias, plus, relu;
} nets[] = {
    {32, 7, 7, 32, 1, 1, 1, 1},  {48, 9, 12, 64, 1, 0, 1, 1},  {32, 14, 14, 32, 0, 1, 0, 0},
    {64, 6, 11, 32, 2, 0, 0, 1}, {64, 20, 20, 32, 1, 1, 1, 0},
};

typedef struct job {
  nn_wino w;
  float *x, *weights, *packed, *y, *scratch;
  int64_t in, out; /* numbers of a sample */
} job;

static float *numbers(int64_t n, uint64_t seed) {
  float *v = malloc((size_t)n * sizeof *v);
  ck_assert_ptr_nonnull(v);
  spt_random(v, n, seed, -1, 1);
  return v;
}

static job job_of(const struct net *t) {
  int64_t oh = t->h + 2 * t->pad - 2, ow = t->w + 2 * t->pad - 2;
  nn_conv_shape sh = {t->c, t->h, t->w, t->o, oh, ow, {3, 3}, {1, 1}, {t->pad, t->pad}, {1, 1}, 1, 0, 0, 0};
  job j = {.in = t->h * t->w * t->c, .out = oh * ow * t->o};
  ck_assert(nn_wino_fits(&sh));
  j.x = numbers(N * j.in, 1);
  j.weights = numbers(t->o * t->c * 9, 2);
  j.packed = malloc(nn_wino_packed_bytes(&sh));
  j.y = malloc((size_t)(N * j.out) * sizeof *j.y);
  j.scratch = malloc(nn_wino_scratch_bytes(&sh));
  ck_assert(j.packed && j.y && j.scratch);
  nn_wino_pack(&sh, j.weights, j.packed);
  j.w = (nn_wino){sh, j.x, j.packed, NULL, NULL, j.y, t->relu, N};
  if (t->bias) j.w.bias = numbers(t->o, 3);
  if (t->plus) j.w.plus = numbers(N * j.out, 4);
  return j;
}

static void drop(job *j) {
  free((void *)(uintptr_t)j->w.bias), free((void *)(uintptr_t)j->w.plus);
  free(j->x), free(j->weights), free(j->packed), free(j->y), free(j->scratch);
}

static void run(job *j, const struct set *set, float *y) {
  int64_t all = tiles_of(&j->w.sh);
  j->w.y = y;
  for (int64_t i = 0; i < nn_wino_parts(&j->w); i++) {
    int64_t left = tiles_in(&j->w) - i * all;
    memset(j->scratch, 0xff, nn_wino_scratch_bytes(&j->w.sh)); /* NaN */
    set->run(&j->w, i * all, left < all ? left : all, j->scratch);
  }
}

/* Also the sum of the terms' sizes. */
static double plain(const job *j, int64_t n, int64_t y, int64_t x, int64_t o, double *size) {
  const nn_conv_shape *sh = &j->w.sh;
  int64_t to = ((n * sh->oh + y) * sh->ow + x) * sh->o + o;
  double sum = (j->w.bias ? j->w.bias[o] : 0) + (j->w.plus ? (double)j->w.plus[to] : 0);
  *size = fabs(sum);
  for (int i = 0; i < 9; i++) {
    int64_t iy = y + i / 3 - sh->p[0], ix = x + i % 3 - sh->p[1];
    if (iy < 0 || ix < 0 || iy >= sh->h || ix >= sh->w) continue;
    for (int64_t c = 0; c < sh->c; c++) {
      double v = (double)j->x[n * j->in + (iy * sh->w + ix) * sh->c + c] * j->weights[(o * sh->c + c) * 9 + i];
      sum += v;
      *size += fabs(v);
    }
  }
  return j->w.relu && sum < 0 ? 0 : sum;
}

START_TEST(as_the_sum) {
  const struct set *set = &sets[_i % SETS];
  job j = job_of(&nets[_i / SETS]);
  const nn_conv_shape *sh = &j.w.sh;
  if (is_here(set->name)) {
    run(&j, set, j.y);
    for (int64_t i = 0; i < N * j.out; i += 7) { /* all columns, rows and channels in turn */
      int64_t px = i / sh->o, row = px / sh->ow;
      double size, want = plain(&j, row / sh->oh, row % sh->oh, px % sh->ow, i % sh->o, &size);
      ck_assert_msg(fabs(j.y[i] - want) <= 2e-6 * size, "%s, net %d: number %d is %g, wanted %g", set->name, _i / SETS,
                    (int)i, (double)j.y[i], want);
    }
  }
  drop(&j);
}
END_TEST

/* A sample's bits are those that it has alone. */
START_TEST(alone) {
  const struct set *set = &sets[_i % SETS];
  job j = job_of(&nets[_i / SETS]);
  const float *plus = j.w.plus;
  float *own = malloc((size_t)j.out * sizeof *own);
  ck_assert_ptr_nonnull(own);
  if (is_here(set->name)) {
    run(&j, set, j.y);
    j.w.samples = 1;
    for (int n = 0; n < N; n++) {
      j.w.x = j.x + n * j.in;
      j.w.plus = plus ? plus + n * j.out : NULL;
      run(&j, set, own);
      ck_assert_msg(!memcmp(own, j.y + n * j.out, (size_t)j.out * sizeof *own), "%s: sample %d", set->name, n);
    }
  }
  j.w.plus = plus;
  free(own);
  drop(&j);
}
END_TEST

/* NaN reaches what reads it, through ReLU too, and no other sample. */
START_TEST(broken) {
  const struct set *set = &sets[_i];
  job j = job_of(&nets[0]);
  const nn_conv_shape *sh = &j.w.sh;
  float *whole = malloc((size_t)(N * j.out) * sizeof *whole);
  ck_assert_ptr_nonnull(whole);
  if (is_here(set->name)) {
    run(&j, set, whole);
    j.x[j.in + (4 * sh->w + 4) * sh->c + 5] = NAN;
    run(&j, set, j.y);
    ck_assert(!memcmp(whole, j.y, (size_t)j.out * sizeof *whole));
    ck_assert(!memcmp(whole + 2 * j.out, j.y + 2 * j.out, (size_t)j.out * sizeof *whole));
    for (int64_t i = 0; i < 9 * sh->o; i++) {
      int64_t y = 3 + i / sh->o / 3, x = 3 + i / sh->o % 3;
      ck_assert(isnan(j.y[j.out + (y * sh->ow + x) * sh->o + i % sh->o]));
    }
  }
  free(whole);
  drop(&j);
}
END_TEST

/* What gains nothing, or is something else, is left to oneDNN. */
START_TEST(others) {
  const nn_conv_shape good = {64, 14, 14, 64, 14, 14, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 0, 0, 0};
  nn_conv_shape sh[] = {good, good, good, good, good, good, good, good};
  sh[0].k[1] = 5, sh[1].s[0] = 2, sh[2].d[1] = 2, sh[3].groups = 2, sh[4].c = 72, sh[5].o = 48;
  sh[6].oh = sh[6].h = 1;
  sh[7].c = sh[7].o = 512; /* 36 MiB of constants */
  ck_assert(nn_wino_fits(&good));
  for (size_t i = 0; i < sizeof sh / sizeof *sh; i++) ck_assert_msg(!nn_wino_fits(&sh[i]), "shape %d", (int)i);
}
END_TEST

int main(void) {
  Suite *s = suite_create("wino");
  TCase *c = tcase_create("wino");
  enum { NETS = sizeof nets / sizeof *nets };
  tcase_add_loop_test(c, as_the_sum, 0, NETS * SETS);
  tcase_add_loop_test(c, alone, 0, NETS * SETS);
  tcase_add_loop_test(c, broken, 0, SETS);
  tcase_add_test(c, others);
  suite_add_tcase(s, c);
  return suite_run(s);
}
