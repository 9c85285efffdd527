/* SPDX-License-Identifier: MIT
 * check_races.c - which accesses nothing orders: cases by hand, and random runs beside an oracle that walks a graph. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include <spcore/rng.h>

#include "base/util.h"
#include "hand/races.h"
#include "tests/kit/suite.h"

enum { R = SP_RACE_READ, W = SP_RACE_WRITE };

static sp_races *r;
static sp_err err;
static int a, b, e, buf; /* two streams, an event, a buffer of 100 bytes */

static void open_two(void) {
  ck_assert(!sp_races_new(&r, true, &err));
  ck_assert(!sp_races_thread(r, "a", &a, &err) && !sp_races_thread(r, "b", &b, &err));
  ck_assert(!sp_races_event(r, &e, &err));
  ck_assert(!sp_races_buffer(r, "x", 100, "t.lua:1", &buf, &err));
}

static void close_two(void) { sp_races_free(r); }

static int touch(int thread, int mode, size_t from, size_t bytes, const char *who, const char *where) {
  uint64_t number;
  sp_race_touch t = {.buffer = buf, .mode = mode, .from = from, .bytes = bytes};
  err = (sp_err){0};
  return sp_races_access(r, thread, &t, 1, who, where, &number, &err);
}

static int use(int thread, int mode) { return touch(thread, mode, 0, 100, "an operation", ""); }
static void record(int thread) { ck_assert(!sp_races_record(r, e, thread, &err)); }
static void wait(int thread) { ck_assert(!sp_races_wait(r, thread, e, &err)); }

START_TEST(names_all_that_is_needed) {
  ck_assert(!touch(a, W, 0, 100, "the copy", "t.lua:3"));
  ck_assert_int_eq(touch(b, R, 0, 100, "stage 'enc'", "t.lua:4"), SP_E_RACE);
  ck_assert_str_eq(err.msg, "race on 'x': stage 'enc' reads it on stream 'b' (t.lua:4), the copy writes it on stream "
                            "'a' (t.lua:3), and nothing orders the two: stream 'b' must wait for an event recorded on "
                            "'a' behind t.lua:3");
  ck_assert_int_eq(touch(SP_RACES_HOST, R, 0, 100, "t:read()", "t.lua:5"), SP_E_RACE);
  ck_assert_str_eq(err.msg, "race on 'x': t:read() reads it on the host (t.lua:5), the copy writes it on stream 'a' "
                            "(t.lua:3), and nothing orders the two: the host must wait for stream 'a', or for an event "
                            "recorded on it behind t.lua:3");
  ck_assert_int_eq(touch(b, W, 10, 5, "stage 'enc'", ""), SP_E_RACE);
  ck_assert_ptr_nonnull(strstr(err.msg, "race on 'x', bytes 10..14: stage 'enc' writes it on stream 'b', the copy"));
}
END_TEST

START_TEST(waits_order) {
  ck_assert(!use(a, W));
  record(a);
  wait(b);
  ck_assert(!use(b, R));
  ck_assert(!use(b, W));
  ck_assert_int_eq(use(a, R), SP_E_RACE); /* nothing leads back */
  record(b);
  wait(a);
  ck_assert(!use(a, R));
  ck_assert(!use(a, W));
}
END_TEST

/* A record takes what was submitted before it, not what comes behind. */
START_TEST(a_record_is_of_its_moment) {
  record(a);
  ck_assert(!use(a, W));
  wait(b);
  ck_assert_int_eq(use(b, R), SP_E_RACE);
  record(a);
  ck_assert_int_eq(use(b, R), SP_E_RACE); /* recorded, not waited for */
  wait(b);
  ck_assert(!use(b, R));
}
END_TEST

START_TEST(the_host_is_before_and_learns) {
  ck_assert(!use(SP_RACES_HOST, W));
  ck_assert(!use(a, R));
  ck_assert(!use(b, R)); /* two reads */
  ck_assert_int_eq(use(SP_RACES_HOST, W), SP_E_RACE);
  ck_assert(!sp_races_sync(r, a, &err));
  ck_assert_int_eq(use(SP_RACES_HOST, W), SP_E_RACE); /* b's is left */
  record(b);
  wait(SP_RACES_HOST);
  ck_assert(!use(SP_RACES_HOST, W));
  ck_assert(!use(a, W));
  ck_assert(!sp_races_sync(r, a, &err));
  ck_assert(!use(b, W)); /* what the host learnt is before what it submits */
}
END_TEST

START_TEST(waits_carry_on) {
  int c;
  ck_assert(!sp_races_thread(r, "c", &c, &err));
  ck_assert(!use(a, W));
  record(a);
  wait(b);
  record(b);
  wait(c);
  ck_assert(!use(c, W));
}
END_TEST

START_TEST(ranges_apart) {
  ck_assert(!touch(a, W, 0, 50, "one", ""));
  ck_assert(!touch(b, W, 50, 50, "two", ""));
  ck_assert_int_eq(touch(a, R, 49, 2, "three", ""), SP_E_RACE);
  ck_assert_ptr_nonnull(strstr(err.msg, "bytes 50..50"));
  ck_assert(!touch(a, R, 49, 1, "three", ""));
  ck_assert(!touch(b, R, 0, 0, "nothing", ""));
  record(a);
  wait(b);
  ck_assert(!touch(b, W, 0, 100, "all", ""));
  ck_assert_uint_eq(sp_races_spans(r), 1); /* one history again */
}
END_TEST

/* However long it goes on, a range keeps a write and at most a read of each thread. */
START_TEST(bounded) {
  for (int i = 0; i < 1000; i++) {
    ck_assert(!touch(a, W, (size_t)(i % 10) * 10, 10, "a", "t.lua:1"));
    record(a);
    wait(b);
    ck_assert(!touch(b, R, (size_t)(i % 10) * 10, 10, "b", "t.lua:2"));
    record(b);
    wait(a);
  }
  ck_assert_uint_le(sp_races_spans(r), 10);
  ck_assert(!touch(b, W, 0, 100, "b", ""));
  ck_assert_uint_eq(sp_races_spans(r), 1);
}
END_TEST

START_TEST(freeing_is_a_write) {
  ck_assert(!use(a, R));
  ck_assert_int_eq(sp_races_end_buffer(r, buf, "t.lua:9", &err), SP_E_RACE);
  ck_assert_ptr_nonnull(strstr(err.msg, "freeing writes it on the host (t.lua:9)"));
  ck_assert(!sp_races_sync(r, a, &err));
  ck_assert(!sp_races_end_buffer(r, buf, "t.lua:9", &err));
  ck_assert(!sp_races_buffer(r, "y", 4, "", &buf, &err));
  ck_assert(!use(b, W)); /* of the place that the other had, but with no past */
}
END_TEST

START_TEST(a_stream_that_ended) {
  int c;
  ck_assert(!use(a, W));
  ck_assert(!sp_races_end_thread(r, a, &err));
  ck_assert(!use(b, W)); /* closing waits */
  ck_assert(!sp_races_thread(r, "c", &c, &err));
  ck_assert_int_eq(c, a); /* the number again */
  ck_assert_int_eq(use(c, R), SP_E_RACE);
  ck_assert_ptr_nonnull(strstr(err.msg, "on stream 'c'"));
  record(b);
  wait(c);
  ck_assert(!use(c, R));
}
END_TEST

START_TEST(clocks_alone) {
  sp_races *clocks;
  uint64_t n;
  int s, buffer;
  ck_assert(!sp_races_new(&clocks, false, &err) && !sp_races_thread(clocks, "s", &s, &err));
  ck_assert(!sp_races_buffer(clocks, "x", 10, "", &buffer, &err));
  ck_assert_int_eq(buffer, -1);
  ck_assert(!sp_races_access(clocks, s, NULL, 0, "", "", &n, &err));
  ck_assert(!sp_races_known(clocks, s, n));
  ck_assert(!sp_races_sync(clocks, s, &err));
  ck_assert(sp_races_known(clocks, s, n));
  sp_races_free(clocks);
}
END_TEST

START_TEST(too_many_pieces) {
  ck_assert(!sp_races_end_buffer(r, buf, "", &err));
  ck_assert(!sp_races_buffer(r, "big", 1 << 20, "", &buf, &err));
  int st = SP_OK;
  for (size_t i = 0; i < SP_RACES_MAX_SPANS && !st; i++) st = touch(a, W, i * 4, 1, "a", "");
  ck_assert_int_eq(st, SP_E_RANGE);
  ck_assert_ptr_nonnull(strstr(err.msg, "too many"));
}
END_TEST

/* ---- random runs ------------------------------------------------------------------------------------------------- */

enum { THREADS = 4, EVENTS = 3, NODES = 400, BYTES = 12 };

/* Every operation, record and wait is a node; edges lead to those that come right before. */
typedef struct node {
  int thread, mode; /* mode 0: no access */
  size_t from, to;
  bool before[NODES];
} node;

typedef struct world {
  node n[NODES];
  int count, last[THREADS], recorded[EVENTS], threads[THREADS], events[EVENTS], buffer;
} world;

static void edge(world *w, int from, int to) {
  if (from < 0) return;
  w->n[to].before[from] = true;
  for (int i = 0; i < NODES; i++) w->n[to].before[i] |= w->n[from].before[i];
}

static int add(world *w, int thread) {
  int i = w->count++;
  w->n[i] = (node){.thread = thread};
  edge(w, w->last[thread], i);
  if (thread) edge(w, w->last[0], i);
  w->last[thread] = i;
  return i;
}

static bool races(const world *w, int i) {
  for (int k = 0; k < i; k++) {
    const node *x = &w->n[k], *y = &w->n[i];
    bool conflict = x->mode && y->mode && (x->mode | y->mode) & W && x->from < y->to && y->from < x->to;
    if (conflict && !y->before[k] && x->thread != y->thread) return true;
  }
  return false;
}

static uint32_t draw(uint64_t seed, int *at, uint32_t n) { return sp_rng_below(sp_rng(seed, (*at)++, 0).v[0], n); }

static void random_access(world *w, uint64_t seed, int *at, int *found) {
  int thread = (int)draw(seed, at, THREADS), old = w->last[thread], i = add(w, thread);
  size_t from = draw(seed, at, BYTES), bytes = 1 + draw(seed, at, (uint32_t)(BYTES - from));
  uint64_t number;
  w->n[i].mode = draw(seed, at, 3) ? R : W;
  w->n[i].from = from;
  w->n[i].to = from + bytes;
  sp_race_touch t = {.buffer = w->buffer, .mode = w->n[i].mode, .from = from, .bytes = bytes};
  int st = sp_races_access(r, w->threads[thread], &t, 1, "an operation", "", &number, &err);
  ck_assert_msg(st == (races(w, i) ? SP_E_RACE : SP_OK), "seed %d, node %d: %d %s", (int)seed, i, st, err.msg);
  if (!st) return;
  ++*found; /* nothing is kept of it */
  w->count--;
  w->last[thread] = old;
}

static void random_step(world *w, uint64_t seed, int *at, int *found) {
  int thread = (int)draw(seed, at, THREADS), event = (int)draw(seed, at, EVENTS);
  switch (draw(seed, at, 6)) {
    case 0:
      if (!thread) break; /* the host records nothing */
      w->recorded[event] = add(w, thread);
      ck_assert(!sp_races_record(r, w->events[event], w->threads[thread], &err));
      break;
    case 1:
      edge(w, w->recorded[event], add(w, thread));
      ck_assert(!sp_races_wait(r, w->threads[thread], w->events[event], &err));
      break;
    case 2:
      if (draw(seed, at, 8)) break; /* seldom, or little would race */
      edge(w, w->last[thread], add(w, 0));
      ck_assert(!sp_races_sync(r, w->threads[thread], &err));
      break;
    default: random_access(w, seed, at, found);
  }
}

START_TEST(as_an_oracle) {
  static world w;
  int found = 0, taken = 0;
  for (uint64_t seed = 0; seed < 60; seed++) {
    int at = 0;
    w = (world){0};
    ck_assert(!sp_races_new(&r, true, &err));
    for (int i = 0; i < THREADS; i++) {
      w.last[i] = -1;
      if (i) ck_assert(!sp_races_thread(r, "s", &w.threads[i], &err));
    }
    for (int i = 0; i < EVENTS; i++) {
      w.recorded[i] = -1;
      ck_assert(!sp_races_event(r, &w.events[i], &err));
    }
    ck_assert(!sp_races_buffer(r, "x", BYTES, "", &w.buffer, &err));
    for (int i = 0; i < NODES - 2 && w.count < NODES - 2; i++) random_step(&w, seed, &at, &found);
    taken += w.count;
    ck_assert_uint_le(sp_races_spans(r), BYTES);
    sp_races_free(r);
  }
  ck_assert_msg(found > 500 && taken > 5000, "%d races, %d nodes", found, taken);
}
END_TEST

int main(void) {
  Suite *s = suite_create("races");
  TCase *c = tcase_create("two streams"), *random = tcase_create("random");
  tcase_add_checked_fixture(c, open_two, close_two);
  tcase_add_test(c, names_all_that_is_needed);
  tcase_add_test(c, waits_order);
  tcase_add_test(c, a_record_is_of_its_moment);
  tcase_add_test(c, the_host_is_before_and_learns);
  tcase_add_test(c, waits_carry_on);
  tcase_add_test(c, ranges_apart);
  tcase_add_test(c, bounded);
  tcase_add_test(c, freeing_is_a_write);
  tcase_add_test(c, a_stream_that_ended);
  tcase_add_test(c, clocks_alone);
  tcase_add_test(c, too_many_pieces);
  tcase_add_test(random, as_an_oracle);
  tcase_set_timeout(random, 60);
  suite_add_tcase(s, c);
  suite_add_tcase(s, random);
  return suite_run(s);
}
