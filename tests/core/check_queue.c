/* SPDX-License-Identifier: MIT
 * check_queue.c - requests: bounded, in order, answered once; the histogram of their times. */
#include <check.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "source/histogram.h"
#include "source/queue.h"
#include "tests/kit/suite.h"

typedef struct kept {
  int n, status;
  uint64_t ticket, step;
  char error[128];
  float value;
  const char *name;
} kept;

static void keep(void *arg, const sp_answer *a) {
  kept *k = arg;
  k->n++;
  k->status = a->status;
  k->ticket = a->ticket;
  k->step = a->step;
  k->name = a->n_results ? a->names[0] : NULL;
  k->value = a->n_results ? *(const float *)a->results[0].data : 0;
  snprintf(k->error, sizeof k->error, "%s", a->error ? a->error : "");
}

static sp_queue *make(uint32_t batch, uint32_t capacity, int64_t wait_us) {
  sp_queue_opts o = {.batch = batch, .capacity = capacity, .bytes = 1 << 20, .wait_us = wait_us};
  const size_t bytes = sizeof(float);
  sp_queue *q;
  sp_err err;
  ck_assert_msg(!sp_queue_new(&q, &o, &err), "%s", err.msg);
  ck_assert_msg(!sp_queue_open(q, &bytes, 1, 0, &err), "%s", err.msg);
  return q;
}

static int ask(sp_queue *q, float value, kept *k, int64_t deadline_us, uint64_t *ticket, char why[256]) {
  sp_part part = {&value, sizeof value};
  sp_request r = {.size = sizeof r, .n_parts = 1, .parts = &part, .answer = keep, .arg = k, .deadline_us = deadline_us};
  return sp_queue_submit(q, &r, ticket, why, 256);
}

/* Answers a step with the values of its requests, times 10. */
static void answer(sp_queue *q, const uint64_t *ids, uint32_t n, uint32_t batch, uint64_t step) {
  static const char *const name = "y";
  float y[16];
  for (uint32_t i = 0; i < n; i++) {
    const sp_part *p = sp_queue_parts(q, ids[i], NULL, NULL);
    y[i] = p ? *(const float *)p->data * 10 : -1;
  }
  sp_tensor t = {{.dtype = SP_F32, .ndim = 1, .shape = {batch}}, y};
  sp_queue_answer(q, ids, n, step, &t, &name, 1);
}

START_TEST(in_order_and_bounded) {
  sp_queue *q = make(2, 3, 0);
  kept k[4] = {0};
  uint64_t ids[2], ticket;
  char why[256];
  for (int i = 0; i < 3; i++) ck_assert_int_eq(ask(q, (float)i, &k[i], 0, NULL, why), SP_OK);
  ck_assert(!sp_queue_has_room(q));
  ck_assert_int_eq(ask(q, 3, &k[3], 0, &ticket, why), SP_E_FULL);
  ck_assert_str_eq(why, "the queue is full: 3 requests are not answered yet (queue = 3)");
  ck_assert_uint_eq(sp_queue_take(q, ids, NULL), 2);
  ck_assert_int_eq(ask(q, 3, &k[3], 0, &ticket, why), SP_E_FULL); /* those under way are not answered either */
  answer(q, ids, 2, 2, 7);
  for (int i = 0; i < 2; i++) {
    ck_assert_int_eq(k[i].n, 1);
    ck_assert_int_eq(k[i].status, SP_OK);
    ck_assert_uint_eq(k[i].step, 7);
    ck_assert_str_eq(k[i].name, "y");
    ck_assert(k[i].value == (float)i * 10);
  }
  ck_assert_int_eq(ask(q, 3, &k[3], 0, &ticket, why), SP_OK);
  ck_assert_uint_eq(sp_queue_take(q, ids, NULL), 2);
  answer(q, ids, 2, 2, 8);
  ck_assert(k[2].value == 20 && k[3].value == 30 && k[3].ticket == ticket);
  ck_assert_uint_eq(sp_queue_take(q, ids, NULL), 0);
  ck_assert(sp_queue_over(q));
  sp_queue_free(q);
}
END_TEST

/* Places that nobody has taken say so, and nothing of an older request is seen there. */
START_TEST(a_part_of_a_batch) {
  sp_queue *q = make(4, 8, 0);
  kept k = {0};
  uint64_t ids[4];
  char why[256];
  ask(q, 1, &k, 0, NULL, why);
  ck_assert_uint_eq(sp_queue_take(q, ids, NULL), 1);
  for (int i = 1; i < 4; i++) {
    ck_assert_uint_eq(ids[i], SP_NO_REQUEST);
    ck_assert_ptr_null(sp_queue_parts(q, ids[i], NULL, NULL));
    ck_assert_str_eq(sp_queue_name(q, ids[i]), "");
    sp_queue_reject(q, ids[i], SP_E_DATA, "nobody");
  }
  uint64_t old = ids[0];
  answer(q, ids, 1, 4, 0);
  ck_assert_ptr_null(sp_queue_parts(q, old, NULL, NULL));
  ck_assert_int_eq(sp_queue_cancel(q, old), SP_E_NOTFOUND);
  sp_queue_free(q);
}
END_TEST

START_TEST(waits_for_a_full_batch) {
  sp_queue *q = make(2, 8, 60000000);
  kept k[3] = {0};
  uint64_t ids[2];
  char why[256];
  sp_queue_attach(q);
  ask(q, 1, &k[0], 0, NULL, why);
  ck_assert_uint_eq(sp_queue_take(q, ids, NULL), 0);
  ask(q, 2, &k[1], 0, NULL, why);
  ck_assert_uint_eq(sp_queue_take(q, ids, NULL), 2);
  answer(q, ids, 2, 2, 0);
  ask(q, 3, &k[2], 0, NULL, why);
  ck_assert_uint_eq(sp_queue_take(q, ids, NULL), 0);
  ck_assert(!sp_queue_over(q));
  sp_queue_detach(q); /* nobody could fill it any more */
  ck_assert_uint_eq(sp_queue_take(q, ids, NULL), 1);
  answer(q, ids, 1, 2, 1);
  ck_assert(sp_queue_over(q));
  sp_queue_free(q);
}
END_TEST

START_TEST(cancelled_and_late) {
  sp_queue *q = make(1, 8, 0);
  kept k[4] = {0};
  uint64_t ids[1], ticket[4];
  char why[256];
  ask(q, 0, &k[0], 0, &ticket[0], why);
  ask(q, 1, &k[1], 1, &ticket[1], why);
  ask(q, 2, &k[2], 0, &ticket[2], why);
  ask(q, 3, &k[3], 0, &ticket[3], why);
  ck_assert_int_eq(sp_queue_cancel(q, ticket[2]), SP_OK);
  ck_assert_int_eq(sp_queue_cancel(q, ticket[2]), SP_E_NOTFOUND);
  usleep(10);
  ck_assert_uint_eq(sp_queue_take(q, ids, NULL), 1);
  ck_assert_int_eq(k[1].status, SP_E_LATE);
  ck_assert_str_eq(k[1].error, "no step took it before its deadline");
  ck_assert_int_eq(k[2].status, SP_E_CANCELLED);
  ck_assert_int_eq(sp_queue_cancel(q, ticket[0]), SP_E_STATE); /* a step has it */
  answer(q, ids, 1, 1, 0);
  ck_assert_uint_eq(sp_queue_take(q, ids, NULL), 1);
  sp_queue_reject(q, ids[0], SP_E_DATA, "it is damaged");
  sp_queue_reject(q, ids[0], SP_E_IO, "the first counts");
  answer(q, ids, 1, 1, 1);
  ck_assert_int_eq(k[3].status, SP_E_DATA);
  ck_assert_str_eq(k[3].error, "it is damaged");
  for (int i = 0; i < 4; i++) ck_assert_int_eq(k[i].n, 1);
  sp_queue_stats s;
  sp_queue_get_stats(q, &s);
  ck_assert_uint_eq(s.accepted, 4);
  ck_assert_uint_eq(s.done, 1);
  ck_assert_uint_eq(s.late, 1);
  ck_assert_uint_eq(s.cancelled, 1);
  ck_assert_uint_eq(s.failed, 1);
  ck_assert_uint_eq(s.open, 0);
  sp_queue_free(q);
}
END_TEST

/* A deadline is kept also where a step has the request: it is answered then, and once. Until the step is over the slot
 * and its bytes stay, whatever the step does with them. */
START_TEST(late_while_a_step_has_it) {
  sp_queue *q = make(2, 3, 0);
  kept k[4] = {0};
  uint64_t ids[2], ticket;
  char why[256];
  sp_queue_stats s;
  ask(q, 7, &k[0], 200, &ticket, why);
  ask(q, 8, &k[1], 0, NULL, why);
  ask(q, 9, &k[2], 0, NULL, why);
  while (!sp_queue_take(q, ids, NULL)) usleep(1);
  if (k[0].n) { /* a busy machine: it was late before */
    sp_queue_free(q);
    return;
  }
  while (!sp_queue_expire(q)) usleep(10);
  ck_assert_int_eq(k[0].n, 1);
  ck_assert_int_eq(k[0].status, SP_E_LATE);
  ck_assert_str_eq(k[0].error, "its step was not over before its deadline");
  ck_assert_uint_eq(k[0].ticket, ticket);
  ck_assert_uint_eq(sp_queue_expire(q), 0);
  ck_assert_int_eq(sp_queue_cancel(q, ticket), SP_E_NOTFOUND);
  ck_assert_int_eq(ask(q, 10, &k[3], 0, NULL, why), SP_E_FULL);
  ck_assert_str_eq(
      why, "the queue is full: 3 requests are not answered yet, or late and their step is not over (queue = 3)");
  const sp_part *p = sp_queue_parts(q, ids[0], NULL, NULL);
  ck_assert(p && *(const float *)p->data == 7);
  sp_queue_reject(q, ids[0], SP_E_DATA, "words that nobody gets");
  sp_queue_get_stats(q, &s);
  ck_assert(s.late == 1 && s.open == 2 && s.done == 0);
  answer(q, ids, 2, 2, 0);
  ck_assert(k[0].n == 1 && k[1].n == 1 && k[1].value == 80);
  ck_assert_int_eq(ask(q, 10, &k[3], 0, NULL, why), SP_OK);
  sp_queue_get_stats(q, &s);
  ck_assert(s.late == 1 && s.done == 1 && s.open == 2);
  sp_queue_free(q);
  ck_assert(k[0].n == 1 && k[2].n == 1 && k[3].n == 1);
}
END_TEST

/* A deadline that nobody has looked at is missed all the same; what is late as the queue is closed is answered once. */
START_TEST(late_at_the_end_of_a_step) {
  sp_queue *q = make(1, 3, 0);
  kept k[2] = {0};
  uint64_t ids[1];
  char why[256];
  for (int i = 0; i < 2; i++) ask(q, 1, &k[i], 20000, NULL, why);
  uint32_t n = sp_queue_take(q, ids, NULL);
  usleep(20001);
  if (n) answer(q, ids, 1, 1, 0);
  ck_assert(k[0].n == 1 && k[0].status == SP_E_LATE && k[1].n == 1 && k[1].status == SP_E_LATE);
  ask(q, 1, &k[0], 20000, NULL, why);
  sp_queue_take(q, ids, NULL);
  usleep(20001);
  sp_queue_expire(q);
  ck_assert_int_eq(k[0].n, 2);
  sp_queue_free(q);
  ck_assert(k[0].n == 2 && k[1].n == 1);
}
END_TEST

START_TEST(closing_answers_all) {
  sp_queue *q = make(1, 8, 0);
  kept k[3] = {0}, later = {0};
  uint64_t ids[1];
  char why[256];
  for (int i = 0; i < 3; i++) ask(q, (float)i, &k[i], 0, NULL, why);
  sp_queue_take(q, ids, NULL);
  sp_queue_close(q, SP_E_DEVICE, "the device has failed");
  for (int i = 0; i < 3; i++) {
    ck_assert_int_eq(k[i].n, 1);
    ck_assert_int_eq(k[i].status, SP_E_DEVICE);
    ck_assert_str_eq(k[i].error, "the device has failed");
  }
  ck_assert_int_eq(ask(q, 1, &later, 0, NULL, why), SP_E_STATE);
  ck_assert_str_eq(why, "the queue is closed: the device has failed");
  sp_queue_free(q);
  ck_assert_int_eq(later.n, 0);
  ck_assert_int_eq(k[0].n, 1);
}
END_TEST

START_TEST(what_is_refused) {
  sp_queue_opts o = {.batch = 1, .capacity = 4, .bytes = 64};
  const size_t bytes[2] = {4, 8};
  char why[256], name[300];
  sp_queue *q;
  sp_err err;
  kept k = {0};
  double x = 1;
  ck_assert(!sp_queue_new(&q, &o, &err));
  ck_assert_int_eq(ask(q, 1, &k, 0, NULL, why), SP_E_STATE);
  ck_assert_str_eq(why, "the queue is not open before the graph is complete");
  ck_assert(!sp_queue_open(q, bytes, 2, 0, &err));
  ck_assert_int_eq(ask(q, 1, &k, 0, NULL, why), SP_E_INVALID);
  ck_assert_str_eq(why, "a request of 1 parts, where 2 are wanted");
  sp_part parts[2] = {{&x, 4}, {&x, 4}};
  sp_request r = {.size = sizeof r, .n_parts = 2, .parts = parts, .answer = keep, .arg = &k};
  ck_assert_int_eq(sp_queue_submit(q, &r, NULL, why, sizeof why), SP_E_RANGE);
  ck_assert_str_eq(why, "a request of 4 bytes, where 8 are wanted");
  parts[1].bytes = 8;
  memset(name, 'x', sizeof name - 1);
  name[sizeof name - 1] = 0;
  r.name = name;
  ck_assert_int_eq(sp_queue_submit(q, &r, NULL, why, sizeof why), SP_E_RANGE);
  r.name = NULL;
  parts[0].data = NULL;
  ck_assert_int_eq(sp_queue_submit(q, &r, NULL, why, sizeof why), SP_E_INVALID);
  parts[0].data = &x;
  r.answer = NULL;
  ck_assert_int_eq(sp_queue_submit(q, &r, NULL, why, 0), SP_E_INVALID);
  r.answer = keep;
  ck_assert_int_eq(sp_queue_submit(q, &r, NULL, why, sizeof why), SP_OK); /* 32 of the 64 bytes */
  ck_assert_int_eq(sp_queue_submit(q, &r, NULL, why, sizeof why), SP_OK);
  ck_assert_int_eq(sp_queue_submit(q, &r, NULL, why, sizeof why), SP_E_FULL);
  ck_assert_str_eq(why, "the queue is full: requests that are not answered yet hold 64 bytes of at most 64 (queue_mb)");
  ck_assert(!sp_queue_open(q, bytes, 2, 100, &err)); /* one part of the source's own */
  parts[0].bytes = 101;
  r.n_parts = 1;
  ck_assert_int_eq(sp_queue_submit(q, &r, NULL, why, sizeof why), SP_E_RANGE);
  ck_assert_str_eq(why, "a request of 101 bytes, where 1 to 100 are wanted");
  sp_queue_free(q);
  ck_assert_int_eq(k.n, 2);
}
END_TEST

/* ---- any history ---- */

/* Of random sizes, in any order of submission and answer: a request is accepted if, and only if, it fits beside those
 * that are open, and no more memory is held than the queue may. In between all are answered,
 * and one of the largest size fits. */
START_TEST(what_fits_is_accepted_after_any_history) {
  enum { BYTES = 1 << 16, CAPACITY = 5 };
  static char data[BYTES];
  sp_queue_opts o = {.batch = 1, .capacity = CAPACITY, .bytes = BYTES};
  const size_t sample = 16;
  size_t open[CAPACITY], n_open = 0, used = 0;
  uint64_t state = (uint64_t)_i + 1;
  char why[256];
  sp_queue *q;
  sp_err err;
  kept k = {0};
  ck_assert(!sp_queue_new(&q, &o, &err));
  ck_assert(!sp_queue_open(q, &sample, 1, 2 * BYTES, &err));
  for (int round = 0; round < 2000; round++) {
    uint64_t id;
    sp_queue_stats stats;
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    uint32_t draw = (uint32_t)(state >> 33);
    bool empty_it = draw % 61 == 0;
    while (n_open && (empty_it || draw % 3 == 0)) {
      ck_assert_uint_eq(sp_queue_take(q, &id, NULL), 1);
      sp_queue_answer(q, &id, 1, 0, NULL, NULL, 0);
      used -= open[0];
      memmove(open, open + 1, --n_open * sizeof *open);
      if (!empty_it) break;
    }
    size_t bytes = empty_it ? BYTES : (draw >> 8) % (draw % 5 ? BYTES / 3 : BYTES) + 1,
           rounded = (bytes + 15) / 16 * 16;
    sp_part part = {data, bytes};
    sp_request r = {.size = sizeof r, .n_parts = 1, .parts = &part, .answer = keep, .arg = &k};
    int status = sp_queue_submit(q, &r, NULL, why, sizeof why);
    bool fits = n_open < CAPACITY && used + rounded <= BYTES;
    ck_assert_msg(status == (fits ? SP_OK : SP_E_FULL), "round %d: %zu bytes beside %zu of %zu requests: %d, %s", round,
                  bytes, used, n_open, status, status ? why : "");
    if (fits) used += open[n_open++] = rounded;
    sp_queue_get_stats(q, &stats);
    ck_assert_uint_eq(stats.open, n_open);
    ck_assert(stats.bytes >= used && stats.bytes <= BYTES);
  }
  sp_part part = {data, BYTES + 1};
  sp_request r = {.size = sizeof r, .n_parts = 1, .parts = &part, .answer = keep, .arg = &k};
  ck_assert_int_eq(sp_queue_submit(q, &r, NULL, why, sizeof why), SP_E_RANGE);
  ck_assert_str_eq(
      why, "a request of 65552 bytes is larger than the whole queue of 65536: give the source queue_mb = 1 or more");
  sp_queue_free(q);
}
END_TEST

/* ---- threads ---- */
enum { THREADS = 6, EACH = 3000 };
typedef struct crowd {
  sp_queue *q;
  atomic_int answers[THREADS * EACH];
  int first;
} crowd;

static void count(void *arg, const sp_answer *a) {
  (void)a;
  atomic_fetch_add((atomic_int *)arg, 1);
}

static void *submit_many(void *arg) {
  crowd *c = ((void **)arg)[0];
  int first = (int)(intptr_t)((void **)arg)[1];
  float x = 1;
  sp_part part = {&x, sizeof x};
  for (int i = first; i < first + EACH; i++) {
    sp_request r = {.size = sizeof r, .n_parts = 1, .parts = &part, .answer = count, .arg = &c->answers[i]};
    uint64_t ticket;
    if (i % 5 == 0) r.deadline_us = 1 + i % 50;
    while (sp_queue_submit(c->q, &r, &ticket, NULL, 0) == SP_E_FULL) usleep(1);
    if (i % 7 == 0) sp_queue_cancel(c->q, ticket);
  }
  sp_queue_detach(c->q);
  return NULL;
}

START_TEST(each_is_answered_once) {
  static crowd c;
  pthread_t thread[THREADS];
  void *arg[THREADS][2];
  uint64_t ids[4], step = 0;
  c.q = make(4, 32, 20);
  for (int i = 0; i < THREADS; i++) {
    arg[i][0] = &c;
    arg[i][1] = (void *)(intptr_t)(i * EACH);
    sp_queue_attach(c.q);
    ck_assert(!pthread_create(&thread[i], NULL, submit_many, arg[i]));
  }
  while (!sp_queue_over(c.q)) {
    uint32_t n = sp_queue_take(c.q, ids, NULL);
    if (n) answer(c.q, ids, n, 4, step++);
    else sp_queue_wait(c.q, 0.01, true);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  for (int i = 0; i < THREADS * EACH; i++)
    if (c.answers[i] != 1) ck_abort_msg("request %d was answered %d times", i, c.answers[i]);
  sp_queue_stats s;
  sp_queue_get_stats(c.q, &s);
  ck_assert_uint_eq(s.open, 0);
  ck_assert_uint_eq(s.done + s.late + s.cancelled, THREADS * EACH);
  sp_queue_free(c.q);
}
END_TEST

START_TEST(quantiles) {
  sp_histogram h = {0};
  ck_assert(isnan(sp_histogram_quantile(&h, 0.5)));
  for (int i = 1; i <= 1000; i++) sp_histogram_add(&h, i * 1e-6);
  ck_assert_double_eq_tol(sp_histogram_quantile(&h, 0.5), 500e-6, 500e-6 * 0.035);
  ck_assert_double_eq_tol(sp_histogram_quantile(&h, 0.99), 990e-6, 990e-6 * 0.035);
  ck_assert_double_eq_tol(sp_histogram_quantile(&h, 1), 1000e-6, 1e-12);
  sp_histogram one = {0};
  sp_histogram_add(&one, 5e-9);
  sp_histogram_add(&one, -1);
  sp_histogram_add(&one, 1e12);
  ck_assert_uint_eq(one.n, 3);
  for (size_t i = 1; i < SP_HIST_BINS; i++) ck_assert(sp_histogram_from(i) > sp_histogram_from(i - 1));
}
END_TEST

int main(void) {
  Suite *s = suite_create("queue");
  TCase *c = tcase_create("queue");
  tcase_set_timeout(c, 60);
  tcase_add_test(c, in_order_and_bounded);
  tcase_add_test(c, a_part_of_a_batch);
  tcase_add_test(c, waits_for_a_full_batch);
  tcase_add_test(c, cancelled_and_late);
  tcase_add_test(c, late_while_a_step_has_it);
  tcase_add_test(c, late_at_the_end_of_a_step);
  tcase_add_test(c, closing_answers_all);
  tcase_add_test(c, what_is_refused);
  tcase_add_loop_test(c, what_fits_is_accepted_after_any_history, 0, 4);
  tcase_add_test(c, each_is_answered_once);
  tcase_add_test(c, quantiles);
  suite_add_tcase(s, c);
  return suite_run(s);
}
