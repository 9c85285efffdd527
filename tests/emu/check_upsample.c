/* SPDX-License-Identifier: MIT
 * check_upsample.c - maps to another size on CUDA, run by the emulator, against plain loops in double.
 */
#include "kernel_kit.h"
#include "../../plugins/kits/nn/ops/axis.h"

/* Places are float32: of 40 pixels a share is off by some 1e-6. */
static const struct {
  int64_t c, h, w, to_h, to_w;
} sizes[] = {{8, 3, 5, 6, 10},     {6, 4, 4, 9, 3},  {5, 1, 7, 4, 1},   {4, 6, 2, 6, 2},
             {36, 5, 3, 1, 13},    {16, 4, 3, 8, 6}, {24, 3, 5, 6, 15}, {8, 2, 3, 6, 3},
             {21, 5, 16, 11, 131}, {3, 1, 1, 20, 8}, {70, 3, 4, 7, 9},  {64, 2, 33, 3, 40}};

/* How much of pixel i is in pixel o. */
static double share(int mode, int64_t in, int64_t out, int64_t i, int64_t o) {
  double at = mode == NN_BILINEAR ? (o + 0.5) * in / out - 0.5 : out > 1 ? (double)o * (in - 1) / (out - 1) : 0;
  if (mode == NN_NEAREST) return o * in / out == i;
  if (at < 0) at = 0;
  if (at > in - 1) at = in - 1;
  return fabs(at - i) < 1 ? 1 - fabs(at - i) : 0;
}

START_TEST(both_ways) {
  for (int k = 0; k < (int)(sizeof sizes / sizeof *sizes); k++)
    for (int mode = 0; mode < 3; mode++) {
      int e = (k + mode) % 2, add = k % 2, masked = mode ? mode % 2 : !add;
      int64_t c = sizes[k].c, h = sizes[k].h, w = sizes[k].w, oh = sizes[k].to_h, ow = sizes[k].to_w;
      kit_value x = kit_random(2, c, h, w, e), dy = kit_random(2, c, oh, ow, e), m = kit_random(2, c, h, w, e);
      kit_value y = kit_like(&dy), dx = kit_like(&x);
      nnk_map xd = kit_up(&x, e, 0, k == 3), yd = kit_up(&dy, e, 0, 0), dyd = kit_up(&dy, e, 0, 0);
      nnk_map md = kit_up(&m, e, 0, 0), dxd = kit_up(&m, e, 0, 0);
      for (int64_t i = 0; i < x.size; i++) {
        int64_t map = i / (h * w), iy = i / w % h, ix = i % w;
        for (int64_t o = 0; o < oh * ow; o++) {
          double part = share(mode, h, oh, iy, o / ow) * share(mode, w, ow, ix, o % ow);
          y.v[map * oh * ow + o] += part * x.v[i];
          dx.v[i] += part * dy.v[map * oh * ow + o];
        }
        if (add) dx.v[i] += m.v[i];
        if (masked && !(m.v[i] > 0)) dx.v[i] = 0;
      }
      kit_ok(nnk_upsample_forward(NULL, mode, &yd, &xd));
      kit_near(&yd, &y, 4e-6, "upsample");
      kit_ok(nnk_upsample_backward(NULL, mode, &dxd, &dyd, masked ? &md : NULL, add));
      kit_near(&dxd, &dx, 4e-6, "its gradient");
      kit_free();
    }
}
END_TEST

/* Pixels that have a share follow each other, from the one that is named on, however large or small the result is. */
START_TEST(firsts) {
  static const int n[] = {1, 2, 3, 7, 16, 65, 1000};
  for (int a = 0; a < 7; a++)
    for (int b = 0; b < 7; b++)
      for (int mode = 0; mode < 3; mode++) {
        nn_axis x = nn_axis_of(n[a], n[b], mode);
        for (int i = 0; i < x.in; i += 1 + x.in / 50) {
          int o = nn_axis_first(&x, i), last = o;
          for (int k = 0; k < x.out; k++) {
            nn_pair p = nn_axis_at(&x, k);
            ck_assert(p.a >= 0 && p.b >= p.a && p.b < x.in && p.share >= 0 && p.share <= 1);
            if (nn_share_of(&p, i) > 0) ck_assert_int_ge(k, o);
            if (k >= o && p.a <= i) ck_assert_int_eq(k, last++);
          }
        }
      }
}
END_TEST

/* Where pixels are said to be repeated they are; most numbers of times are, and all powers of two. */
START_TEST(times) {
  for (int in = 1; in < 40; in++)
    for (int n = 1, some = 0; n < 70; n++) {
      nn_axis x = nn_axis_of(in, in * n, NN_NEAREST), more = nn_axis_of(in, in * n + 1, NN_NEAREST);
      nn_axis smooth = nn_axis_of(in, in * n, NN_BILINEAR);
      int said = nn_axis_times(&x);
      for (int o = 0; o < x.out && said; o++) ck_assert_int_eq(nn_axis_at(&x, o).a, o / n);
      ck_assert(said == n || (said == 0 && n & (n - 1) && n > 7));
      if (in > 1) ck_assert_int_eq(nn_axis_times(&more), 0);
      ck_assert_int_eq(nn_axis_times(&smooth), 0);
      some += said != 0;
      if (n == 69) ck_assert_int_gt(some, 35);
    }
}
END_TEST

int main(void) {
  Suite *s = suite_create("upsample");
  TCase *c = tcase_create("upsample");
  tcase_set_timeout(c, 120);
  tcase_add_test(c, both_ways);
  tcase_add_test(c, firsts);
  tcase_add_test(c, times);
  suite_add_tcase(s, c);
  return kit_run(s);
}
