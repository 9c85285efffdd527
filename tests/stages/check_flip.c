/* SPDX-License-Identifier: MIT
 * check_flip.c - the stage flip. */
#include "tests/kit/aug_kit.h"
#include "tests/kit/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int dtypes[] = {SP_U8, SP_F32}, orders[] = {SP_ROW_MAJOR, SP_CHANNELS_LAST};
static const int32_t all[4][2] = {{0, 0}, {1, 0}, {0, 1}, {1, 1}};

/* Every decision against plain loops, masks of every type beside the image. */
static void places(int64_t c, int64_t h, int64_t w, int dtype, int order) {
  enum { N = 4 };
  int64_t shape[2] = {N, 2}, masks[3] = {N, h, w}, n = N * h * w;
  int32_t *small = malloc((size_t)n * sizeof *small);
  int64_t *large = malloc((size_t)n * sizeof *large);
  float *map = malloc((size_t)n * sizeof *map);
  ck_assert(small && large && map);
  for (int64_t i = 0; i < n; i++)
    small[i] = (int32_t)(i * 48271 - 5), large[i] = (i << 33) - i, map[i] = (float)i / 3 - 7;
  aug_kit k;
  kit_open(&k, "flip", "{}", N, c, h, w, dtype, order, true);
  kit_ok(&k, spt_input_of(k.t, KIT_MASKS, SP_I32, 3, masks, SP_ROW_MAJOR, small));
  kit_ok(&k, spt_input_of(k.t, KIT_MASKS, SP_I64, 3, masks, SP_ROW_MAJOR, large));
  kit_ok(&k, spt_input_of(k.t, KIT_MASKS, SP_F32, 3, masks, SP_ROW_MAJOR, map));
  kit_ok(&k, spt_input_of(k.t, KIT_DRAWN, SP_I32, 2, shape, SP_ROW_MAJOR, all));
  kit_plan(&k, 1);
  kit_forward(&k);
  const sp_spec *s = spt_spec(k.t, SPT_OUT, KIT_IMAGES, 0);
  ck_assert(s->dtype == dtype && s->order == order && s->shape[2] == h && s->shape[3] == w);
  for (int port = KIT_IMAGES; port <= KIT_MASKS; port++)
    for (int i = 0; i < spt_count(k.t, SPT_OUT, port); i++) {
      void *x = kit_get(&k, SPT_IN, port, i), *y = kit_get(&k, SPT_OUT, port, i);
      int64_t planes = port == KIT_IMAGES ? c : 1;
      int type = spt_spec(k.t, SPT_OUT, port, i)->dtype;
      for (int64_t e = 0; e < N * planes * h * w; e++) {
        int64_t plane = e / (h * w), b = plane / planes, row = e / w % h, col = e % w;
        int64_t from = (plane * h + (all[b][1] ? h - 1 - row : row)) * w + (all[b][0] ? w - 1 - col : col);
        kit_each(kit_at(y, type, e) == kit_at(x, type, from), "%lld x %lld x %lld, port %d, item %d: element %lld",
                 (long long)c, (long long)h, (long long)w, port, i, (long long)e);
      }
      free(x);
      free(y);
    }
  int32_t *told = kit_get(&k, SPT_OUT, KIT_DRAWN, 0);
  ck_assert_mem_eq(told, all, sizeof all);
  free(told);
  free(small);
  free(large);
  free(map);
  kit_close(&k);
}

START_TEST(every_decision) {
  static const int64_t sizes[][2] = {{1, 1}, {1, 2}, {2, 1}, {5, 3}, {7, 16}, {9, 17}, {16, 31}, {33, 48}};
  for (size_t i = 0; i < SP_ARRAY(sizes); i++)
    for (int d = 0; d < 2; d++)
      for (int o = 0; o < 2; o++)
        for (int64_t c = 1; c <= 5; c++) places(c, sizes[i][0], sizes[i][1], dtypes[d], orders[o]);
}
END_TEST

START_TEST(properties) {
  kit_aligned("flip", "{ horizontal = 0.5, vertical = 0.5 }");
  kit_by_id("flip", "{ horizontal = 0.5, vertical = 0.5 }");
  kit_draw_modes("flip", "{ horizontal = 0.5, vertical = 0.5 }", 0);
}
END_TEST

START_TEST(draws) {
  kit_uniform("flip", "{ horizontal = 0.5, vertical = 0.5 }", 4, 4, 0, 0, 2, 2);
  kit_uniform("flip", "{ horizontal = 0.5, vertical = 0.5 }", 4, 4, 1, 0, 2, 2);
  kit_uniform("flip", "{}", 4, 4, 1, 0, 1, 1); /* never, unless asked for */
  kit_uniform("flip", "{ horizontal = 1, vertical = 0 }", 4, 4, 0, 1, 2, 1);
  kit_uniform("flip", "{ horizontal = 0, vertical = 1 }", 4, 4, 0, 0, 1, 1);
  kit_uniform("flip", "{ horizontal = 0, vertical = 1 }", 4, 4, 1, 1, 2, 1);
}
END_TEST

/* How often, of other probabilities, and that the two decisions know nothing of each other. */
START_TEST(how_often) {
  enum { N = 4000 };
  aug_kit k;
  int both[2][2] = {{0}};
  kit_open(&k, "flip", "{ horizontal = 0.9, vertical = 0.2 }", N, 1, 1, 1, SP_U8, SP_ROW_MAJOR, false);
  kit_plan(&k, 1);
  for (int64_t i = 0; i < N; i++) spt_set_id(k.t, i, SP_ID(0, i));
  kit_forward(&k);
  int32_t *v = kit_get(&k, SPT_OUT, KIT_DRAWN, 0);
  for (int i = 0; i < N; i++) both[v[2 * i]][v[2 * i + 1]]++;
  for (int a = 0; a < 2; a++)
    for (int b = 0; b < 2; b++) {
      double p = (a ? 0.9 : 0.1) * (b ? 0.2 : 0.8);
      ck_assert_double_le(fabs(both[a][b] - N * p), 4 * sqrt(N * p * (1 - p)));
    }
  free(v);
  kit_close(&k);
}
END_TEST

START_TEST(refusals) {
  kit_refuses("flip", "{ horizontal = 1.5 }", 1, 3, 8, 8, "parameter 'horizontal': 1.5 is above 1");
  kit_refuses("flip", "{ horizontal = -0.25 }", 1, 3, 8, 8, "parameter 'horizontal': -0.25 is below 0");
  kit_refuses("flip", "{ vertical = 2 }", 1, 3, 8, 8, "parameter 'vertical': 2 is above 1");
  kit_refuses("flip", "{ vertical = nan }", 1, 3, 8, 8, "parameter 'vertical': expected a finite number");
  kit_refuses("flip", "{ vertical = true }", 1, 3, 8, 8, "parameter 'vertical': expected a number");
  aug_kit k;
  int64_t small[3] = {2, 8, 7}, narrow[2] = {2, 1}, fine[2] = {2, 2};
  kit_open(&k, "flip", "{}", 2, 3, 8, 8, SP_U8, 0, false);
  kit_ok(&k, spt_input_of(k.t, KIT_MASKS, SP_U8, 3, small, 0, NULL));
  kit_refused(&k, spt_plan(k.t, 1), "mask 1 is 8 x 7, but image 1 is 8 x 8");
  kit_close(&k);
  kit_open(&k, "flip", "{}", 2, 3, 8, 8, SP_U8, 0, false);
  kit_ok(&k, spt_input_of(k.t, KIT_DRAWN, SP_I32, 2, narrow, 0, NULL));
  kit_refused(&k, spt_plan(k.t, 1), "'flips' must be 2 x 2, one row a sample");
  kit_close(&k);
  static const int32_t bad[][4] = {{0, 0, 2, 0}, {1, 1, 1, -1}};
  static const char *const words[] = {"2 on 'flips', which is neither 0 (leave it) nor 1 (mirror it)", "-1 on 'flips'"};
  for (int i = 0; i < 2; i++) {
    kit_open(&k, "flip", "{}", 2, 3, 8, 8, SP_U8, 0, false);
    kit_ok(&k, spt_input_of(k.t, KIT_DRAWN, SP_I32, 2, fine, 0, bad[i]));
    kit_plan(&k, 1);
    kit_refused(&k, spt_forward(k.t, 0), words[i]);
    kit_close(&k);
  }
  k.t = spt_new("flip", "{}", 1);
  kit_refused(&k, spt_plan(k.t, 1), "wire at least one image to 'images'");
  kit_close(&k);
}
END_TEST

int main(void) {
  Suite *s = suite_create("flip");
  TCase *c = tcase_create("flip");
  tcase_set_timeout(c, 600);
  tcase_add_test(c, every_decision);
  tcase_add_test(c, properties);
  tcase_add_test(c, draws);
  tcase_add_test(c, how_often);
  tcase_add_test(c, refusals);
  suite_add_tcase(s, c);
  return suite_run(s);
}
