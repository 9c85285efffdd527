/* SPDX-License-Identifier: MIT
 * check_sampler.c - which samples are in which step. */
#include <check.h>
#include <string.h>

#include <spcore/plugin.h>

#include "source/sampler.h"
#include "tests/kit/suite.h"

static sp_sampler make(uint64_t seed, uint64_t length, uint32_t batch, bool shuffle, bool drop) {
  sp_sampler s;
  sp_err err;
  ck_assert_msg(!sp_sampler_init(&s, seed, length, batch, shuffle, drop, &err), "%s", err.msg);
  return s;
}

START_TEST(each_sample_once_an_epoch) {
  sp_sampler s = make(1, 23, 4, true, false);
  ck_assert_uint_eq(s.steps, 6);
  for (int epoch = 0; epoch < 3; epoch++) {
    int seen[23] = {0};
    for (uint64_t i = 0; i < 6; i++) {
      uint64_t ids[4];
      uint32_t n = sp_sampler_ids(&s, (uint64_t)epoch * 6 + i, ids);
      ck_assert_uint_eq(n, i < 5 ? 4 : 3);
      ck_assert_uint_eq(n, sp_sampler_n(&s, (uint64_t)epoch * 6 + i));
      for (uint32_t k = 0; k < n; k++) {
        ck_assert_uint_eq(SP_ID_EPOCH(ids[k]), (uint64_t)epoch);
        seen[SP_ID_INDEX(ids[k])]++;
      }
    }
    for (int i = 0; i < 23; i++) ck_assert_int_eq(seen[i], 1);
  }
  sp_sampler_free(&s);
}
END_TEST

/* Samples are drawn as often as their numbers say; each time has an id of its own; those of 0 never come, be they the
 * last; any epoch is known without the ones before. */
START_TEST(drawn_with_replacement) {
  enum { N = 1000, EPOCHS = 40 };
  static const float draw[N + 4] = {[0] = 0, [1] = 3, [2] = 1, [N - 1] = 0}; /* two of N have all */
  int seen[4] = {0}, epochs = 0;
  static uint64_t all[EPOCHS][N];
  sp_sampler s = make(5, N, 100, true, false);
  sp_err err;
  ck_assert(!sp_sampler_weigh(&s, draw, 0, true, &err));
  for (uint64_t e = 0; e < EPOCHS; e++, epochs++)
    for (uint64_t i = 0; i < s.steps; i++)
      ck_assert_uint_eq(sp_sampler_ids(&s, e * s.steps + i, all[e] + i * 100), 100);
  for (int e = 0; e < EPOCHS; e++) {
    int times[4] = {0};
    for (int i = 0; i < N; i++) {
      uint64_t index = SP_ID_INDEX(all[e][i]);
      ck_assert(index == 1 || index == 2);
      ck_assert_uint_eq(SP_ID_EPOCH(all[e][i]), (uint64_t)e | (uint64_t)(times[index]++ % 256) << 16);
      seen[index]++;
    }
  }
  ck_assert_msg(seen[1] > 0.74 * N * EPOCHS && seen[1] < 0.76 * N * EPOCHS, "%d of %d", seen[1], N * EPOCHS);
  uint64_t again[100];
  sp_sampler_ids(&s, 7 * s.steps + 3, again);
  ck_assert_int_eq(memcmp(again, all[7] + 300, sizeof again), 0);
  sp_sampler_free(&s);
}
END_TEST

/* An epoch may have more draws, or fewer, than there are samples. */
START_TEST(so_many_draws) {
  static const float draw[4] = {1, 0, 2, 1};
  for (uint64_t places = 1; places < 30; places++) {
    sp_sampler s = make(5, 4, 3, true, false);
    sp_err err;
    uint64_t ids[3], n = 0;
    ck_assert(!sp_sampler_weigh(&s, draw, places, true, &err));
    ck_assert_uint_eq(s.steps, (places + 2) / 3);
    for (uint64_t i = 0; i < s.steps; i++) n += sp_sampler_ids(&s, 4 * s.steps + i, ids);
    ck_assert_uint_eq(n, places);
    sp_sampler_free(&s);
  }
}
END_TEST

/* Two of three that have odds, and one that has none: each order comes as often as draws one after another make it, as
 * torch.multinomial's do, and no sample twice. */
START_TEST(drawn_without_replacement) {
  enum { N = 4, EPOCHS = 60000 };
  static const float odds[N] = {1, 2, 0, 5};
  static int seen[N][N];
  sp_sampler s = make(3, N, 1, true, false);
  sp_err err;
  ck_assert(!sp_sampler_weigh(&s, odds, 2, false, &err));
  ck_assert_uint_eq(s.steps, 2);
  for (uint64_t e = 0; e < EPOCHS; e++) {
    uint64_t id[2];
    for (uint64_t i = 0; i < 2; i++) sp_sampler_ids(&s, 2 * e + i, &id[i]);
    ck_assert_uint_eq(SP_ID_EPOCH(id[0]), e % 65536);
    seen[SP_ID_INDEX(id[0])][SP_ID_INDEX(id[1])]++;
  }
  for (int a = 0; a < N; a++)
    for (int b = 0; b < N; b++) {
      double p = a == b ? 0 : (double)odds[a] / 8 * (double)odds[b] / (8 - (double)odds[a]);
      double off = seen[a][b] - p * EPOCHS;
      ck_assert_msg(off * off <= 16 * p * (1 - p) * EPOCHS, "%d, then %d: %d", a, b, seen[a][b]);
    }
  sp_sampler_free(&s);
}
END_TEST

/* All that have odds, once; any epoch is known without the ones before; and in parts, as shards and ranks take them. */
START_TEST(each_once_of_many) {
  enum { N = 5000, BATCH = 8 };
  static float odds[N];
  static uint64_t ids[N], again[N];
  uint64_t n = 0, m = 0;
  sp_sampler s = make(3, N, BATCH, true, false), part[2];
  sp_err err;
  for (int i = 0; i < N; i++) odds[i] = i % 5 ? (float)(1 + i % 7) : 0;
  ck_assert_uint_eq(sp_sampler_drawable(odds, N), N / 5 * 4);
  ck_assert(!sp_sampler_weigh(&s, odds, 0, false, &err));
  for (uint64_t i = 0; i < 3 * s.steps; i++) {
    if (i % s.steps == 0) n = 0;
    n += sp_sampler_ids(&s, i, ids + n);
  }
  ck_assert_uint_eq(n, N / 5 * 4);
  static bool seen[N];
  for (uint64_t i = 0; i < n; i++) {
    ck_assert(odds[SP_ID_INDEX(ids[i])] > 0 && !seen[SP_ID_INDEX(ids[i])]);
    seen[SP_ID_INDEX(ids[i])] = true;
  }
  for (uint32_t r = 0; r < 2; r++) {
    part[r] = make(3, N, BATCH / 2, true, false);
    ck_assert(!sp_sampler_weigh(&part[r], odds, 0, false, &err));
    ck_assert(!sp_sampler_share(&part[r], r, 1, 2, &err));
  }
  for (uint64_t i = 2 * part[0].steps; i < 3 * part[0].steps; i++)
    for (int r = 0; r < 2; r++) m += sp_sampler_ids(&part[r], i, again + m);
  ck_assert_uint_eq(m, n);
  ck_assert_mem_eq(ids, again, n * sizeof *ids);
  sp_sampler_free(&s);
  for (int r = 0; r < 2; r++) sp_sampler_free(&part[r]);
}
END_TEST

/* A last batch begins at the first samples again, unless all of them are fewer than one. */
START_TEST(refilled) {
  sp_sampler s = make(1, 10, 4, false, false), few = make(1, 3, 4, false, false);
  sp_feed feed;
  uint64_t ids[4];
  s.refill = few.refill = true;
  sp_sampler_feed(&s, &feed);
  ck_assert(feed.steps == 3 && feed.sizes[0] == 4 && feed.sizes[1] == 0);
  ck_assert_uint_eq(sp_sampler_ids(&s, 2, ids), 4);
  for (uint64_t i = 0; i < 4; i++) ck_assert_uint_eq(SP_ID_INDEX(ids[i]), (8 + i) % 10);
  sp_sampler_feed(&few, &feed);
  ck_assert(feed.steps == 1 && feed.sizes[0] == 3 && feed.sizes[1] == 0);
  ck_assert_uint_eq(sp_sampler_ids(&few, 0, ids), 3);
  sp_sampler_free(&s);
  sp_sampler_free(&few);
}
END_TEST

/* Any step's samples are known without going through the steps before, and differ by epoch and seed. */
START_TEST(a_pure_function_of_the_step) {
  sp_sampler a = make(9, 1000, 8, true, false), b = make(9, 1000, 8, true, false), c = make(10, 1000, 8, true, false);
  uint64_t x[8], y[8], z[8], w[8];
  for (uint64_t step = 0; step < 400; step++) sp_sampler_ids(&a, step, x);
  sp_sampler_ids(&b, 399, y);
  sp_sampler_ids(&c, 399, z);
  sp_sampler_ids(&b, 399 % 125, w);
  ck_assert(!memcmp(x, y, sizeof x));
  ck_assert(memcmp(x, z, sizeof x));
  for (int i = 0; i < 8; i++) x[i] = SP_ID_INDEX(x[i]), w[i] = SP_ID_INDEX(w[i]);
  ck_assert(memcmp(x, w, sizeof x));
  sp_sampler_free(&a);
  sp_sampler_free(&b);
  sp_sampler_free(&c);
}
END_TEST

START_TEST(in_order_and_dropped) {
  sp_sampler s = make(1, 10, 4, false, true);
  uint64_t ids[4];
  ck_assert_uint_eq(s.steps, 2);
  ck_assert_uint_eq(sp_sampler_ids(&s, 3, ids), 4);
  for (uint64_t i = 0; i < 4; i++) ck_assert_uint_eq(ids[i], SP_ID(1, 4 + i));
  sp_sampler_free(&s);
}
END_TEST

/* What the ranks get of a step is, together and in their order, the batch of all;
 * beyond the end a rank gets nothing. */
START_TEST(ranks_share_a_step) {
  enum { WORLD = 3, BATCH = 4 };
  for (int shuffle = 0; shuffle < 2; shuffle++) {
    sp_sampler whole = make(7, 29, WORLD * BATCH, shuffle, false), part[WORLD];
    sp_err err;
    uint64_t want[WORLD * BATCH], got[WORLD * BATCH];
    for (uint32_t r = 0; r < WORLD; r++) {
      part[r] = make(7, 29, BATCH, shuffle, false);
      ck_assert_msg(!sp_sampler_share(&part[r], r, 1, WORLD, &err), "%s", err.msg);
      ck_assert_uint_eq(part[r].steps, whole.steps);
    }
    for (uint64_t step = 0; step < 2 * whole.steps; step++) {
      uint32_t n = sp_sampler_ids(&whole, step, want), sum = 0;
      for (uint32_t r = 0; r < WORLD; r++) {
        uint32_t mine = sp_sampler_ids(&part[r], step, got + sum);
        ck_assert_uint_eq(mine, sp_sampler_n(&part[r], step));
        sum += mine;
      }
      ck_assert_uint_eq(sum, n);
      ck_assert(!memcmp(want, got, n * sizeof *want));
    }
    ck_assert_uint_eq(sp_sampler_n(&part[1], 2), 1); /* 29 are 12, 12, and 4 + 1 + 0 */
    ck_assert_uint_eq(sp_sampler_n(&part[2], 2), 0);
    for (uint32_t r = 0; r < WORLD; r++) sp_sampler_free(&part[r]);
    sp_sampler_free(&whole);
  }
}
END_TEST

/* All prepare for the same sizes, though one alone has the short batch; nobody comes with another one. */
START_TEST(sizes_are_those_of_all) {
  static const struct {
    uint64_t length;
    bool drop;
    uint32_t sizes[2];
  } cases[] = {{29, false, {4, 1}}, {24, false, {4, 0}}, {3, false, {3, 0}}, {29, true, {4, 0}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (uint32_t r = 0; r < 3; r++) {
      sp_sampler s = make(7, cases[i].length, 4, false, cases[i].drop);
      sp_feed feed;
      sp_err err;
      ck_assert_msg(!sp_sampler_share(&s, r, 1, 3, &err), "%s", err.msg);
      sp_sampler_feed(&s, &feed);
      ck_assert_uint_eq(feed.sizes[0], cases[i].sizes[0]);
      ck_assert_uint_eq(feed.sizes[1], cases[i].sizes[1]);
      for (uint64_t step = 0; step < s.steps; step++) {
        uint32_t n = sp_sampler_n(&s, step);
        ck_assert(!n || n == feed.sizes[0] || n == feed.sizes[1]);
      }
      sp_sampler_free(&s);
    }
}
END_TEST

START_TEST(refused) {
  sp_sampler s;
  sp_err err;
  ck_assert_int_eq(sp_sampler_init(&s, 0, 0, 1, true, false, &err), SP_E_RANGE);
  ck_assert_int_eq(sp_sampler_init(&s, 0, UINT64_C(1) << 31, 1, true, false, &err), SP_E_RANGE);
  ck_assert_int_eq(sp_sampler_init(&s, 0, 3, 4, true, true, &err), SP_E_RANGE);
  ck_assert_ptr_nonnull(strstr(err.msg, "take `batch = 3` or less"));
  s = make(0, 9, 4, false, true);
  ck_assert_int_eq(sp_sampler_share(&s, 2, 1, 2, &err), SP_E_RANGE);
  ck_assert_ptr_nonnull(strstr(err.msg, "batches 2 to 3 of 2"));
  ck_assert_int_eq(sp_sampler_share(&s, 0, 1, 3, &err), SP_E_RANGE); /* 12 are more than there are */
  sp_sampler_free(&s);
}
END_TEST

int main(void) {
  Suite *s = suite_create("sampler");
  TCase *c = tcase_create("sampler");
  tcase_add_test(c, drawn_with_replacement);
  tcase_add_test(c, so_many_draws);
  tcase_add_test(c, drawn_without_replacement);
  tcase_add_test(c, each_once_of_many);
  tcase_add_test(c, each_sample_once_an_epoch);
  tcase_add_test(c, a_pure_function_of_the_step);
  tcase_add_test(c, in_order_and_dropped);
  tcase_add_test(c, refilled);
  tcase_add_test(c, ranks_share_a_step);
  tcase_add_test(c, sizes_are_those_of_all);
  tcase_add_test(c, refused);
  suite_add_tcase(s, c);
  return suite_run(s);
}
