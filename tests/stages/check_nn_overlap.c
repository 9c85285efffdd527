/* SPDX-License-Identifier: MIT
 * check_nn_overlap.c - encoder, decoder, layers and classifier: one instance called by several threads at once, each
 * with its own data, computes the bits that it computes for them one after another. */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kit/harness.h"
#include "tests/kit/suite.h"
#include "base/util.h"

enum { THREADS = 3, ROUNDS = 6, N = 3 };

static const struct net {
  const char *stage, *params;
  int64_t c, side;
  int training; /* frozen: gradients pass through */
} nets[] = {
    {"layers",
     "{ layers = { { \"conv\", 8, kernel = 3, pad = 1, bias = false }, { \"batch_norm\" }, { \"relu\" },"
     " { \"conv\", 12, kernel = 2, stride = 2 }, { \"relu\" }, { \"max_pool\" }, { \"residual\", 12 },"
     " { \"conv_transpose\", 6 }, { \"avg_pool\" }, { \"flatten\" }, { \"linear\", 5 } } }",
     3, 16, 1},
    {"layers", "{ layers = { { \"conv\", 8, kernel = 3, pad = 1 }, { \"conv\", 8, kernel = 5, pad = 2 } } }", 3, 16, 0},
    {"encoder", "{ model = \"unet\", width = 8, levels = 2 }", 3, 16, 0},
    {"decoder", "{ classes = 5, width = 8, levels = 2 }", 32, 8, 1},
    {"classifier", "{ classes = 5 }", 16, 8, 1},
};

/* What one thread does with the instance, and what came out. */
typedef struct user {
  spt *t;
  pthread_barrier_t *begin; /* NULL: alone */
  float *y, *dx;
  size_t y_bytes, dx_bytes;
  int differs;
} user;

static float *numbers(spt *t, int what, size_t *bytes) {
  float *v;
  *bytes = (size_t)sp_spec_count(spt_spec(t, what, 0, 0)) * sizeof *v;
  v = malloc(*bytes);
  ck_assert_ptr_nonnull(v);
  return v;
}

static user user_of(const struct net *net, uint64_t seed) {
  int64_t shape[4] = {N, net->c, net->side, net->side}, count = N * net->c * net->side * net->side;
  user u = {.t = spt_new(net->stage, net->params, 2)};
  float *x = malloc((size_t)count * sizeof *x);
  ck_assert_ptr_nonnull(x);
  ck_assert_msg(!spt_failed(u.t), "%s", spt_error(u.t));
  spt_random(x, count, seed, -1, 1);
  spt_input_of(u.t, 0, SP_F32, 4, shape, SP_ROW_MAJOR, x);
  spt_set_frozen(u.t, 1);
  ck_assert_msg(!spt_plan(u.t, net->training), "%s", spt_error(u.t));
  free(x);
  u.y = numbers(u.t, SPT_OUT, &u.y_bytes);
  if (!net->training) return u;
  x = numbers(u.t, SPT_DOUT, &u.dx_bytes);
  spt_random(x, (int64_t)(u.dx_bytes / sizeof *x), seed + 1, -1, 1);
  ck_assert_int_eq(spt_set(u.t, SPT_DOUT, 0, 0, x), SP_OK);
  free(x);
  u.dx = numbers(u.t, SPT_DIN, &u.dx_bytes);
  return u;
}

static int step(user *u) { return spt_forward(u->t, 0) || (u->dx && spt_backward(u->t)); }

static void keep(user *u) {
  ck_assert_msg(!step(u), "%s", spt_error(u->t));
  ck_assert_int_eq(spt_get(u->t, SPT_OUT, 0, 0, u->y), SP_OK);
  if (u->dx) ck_assert_int_eq(spt_get(u->t, SPT_DIN, 0, 0, u->dx), SP_OK);
}

static int other(spt *t, int what, const float *was, size_t bytes) {
  float *v = malloc(bytes);
  int differs = !v || spt_get(t, what, 0, 0, v) || memcmp(v, was, bytes) != 0;
  free(v);
  return differs;
}

static void *use(void *arg) {
  user *u = arg;
  for (int i = 0; i < ROUNDS; i++) {
    pthread_barrier_wait(u->begin);
    if (step(u)) continue; /* the words stay in u->t */
    u->differs |= other(u->t, SPT_OUT, u->y, u->y_bytes);
    if (u->dx) u->differs |= other(u->t, SPT_DIN, u->dx, u->dx_bytes);
  }
  return NULL;
}

START_TEST(overlap) {
  const struct net *net = &nets[_i];
  user users[THREADS];
  pthread_t threads[THREADS];
  pthread_barrier_t begin;
  for (int i = 0; i < THREADS; i++) {
    users[i] = user_of(net, 7 + 10 * (uint64_t)i);
    if (i) spt_share(users[i].t, users[0].t);
    keep(&users[i]);
  }
  ck_assert(spt_type(users[0].t)->flags & SP_STAGE_REENTRANT);
  ck_assert_mem_ne(users[0].y, users[1].y, users[0].y_bytes);
  ck_assert_int_eq(pthread_barrier_init(&begin, NULL, THREADS), 0);
  for (int i = 0; i < THREADS; i++) {
    users[i].begin = &begin;
    ck_assert_int_eq(pthread_create(&threads[i], NULL, use, &users[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  for (int i = THREADS - 1; i >= 0; i--) {
    ck_assert_msg(!spt_failed(users[i].t), "%s", spt_error(users[i].t));
    ck_assert_msg(!users[i].differs, "%s: other bits where calls overlap", net->stage);
    free(users[i].y);
    free(users[i].dx);
    spt_free(users[i].t);
  }
  pthread_barrier_destroy(&begin);
}
END_TEST

int main(void) {
  Suite *s = suite_create("nn_overlap");
  TCase *c = tcase_create("nn_overlap");
  tcase_set_timeout(c, 60);
  tcase_add_loop_test(c, overlap, 0, (int)SP_ARRAY(nets));
  suite_add_tcase(s, c);
  return suite_run(s);
}
