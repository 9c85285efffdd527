/* SPDX-License-Identifier: MIT
 * check_patch.c - the kernel that computes a product's whole backward in one pass, run by the emulator, against plain
 * loops in double.
 */
#include "kernel_kit.h"

typedef struct product {
  int64_t m, n, k, cols, data_cols;
  int relu, add, bias, scaled;
} product;

/* Factors that bfloat16 holds are not rounded to TF32, so that only the order of the sums differs. */
static void backward(product s, int exact) {
  int e = exact ? NNK_BF16 : NNK_F32;
  int64_t stride = s.n * s.k + s.cols + s.data_cols, pieces = 0;
  size_t bytes = nnk_patch_work(s.m, s.n, s.k, KIT_SMS);
  float *work = kit_work(bytes);
  double tol = exact ? 3e-6 : 2e-3;
  kit_value x = kit_random(1, s.m * s.k, 1, 1, e), dy = kit_random(1, s.m * s.n, 1, 1, e);
  kit_value w = kit_random(1, s.n * s.k, 1, 1, e), b = kit_random(1, s.cols, 1, 1, NNK_F32);
  kit_value old = kit_random(1, s.m * s.k, 1, 1, NNK_F32), scale = kit_like(&b);
  kit_value columns = kit_random(1, s.data_cols, 1, 1, NNK_F32);
  nnk_map cd = kit_up(&columns, NNK_F32, 0, 0);
  kit_value dx = kit_like(&x), dw = kit_like(&w), db = kit_like(&b);
  scale.v[0] = s.scaled ? -0.25 : 1;
  nnk_map xd = kit_up(&x, NNK_F32, 0, 0), dyd = kit_up(&dy, NNK_F32, 0, 0), wd = kit_up(&w, NNK_F32, 0, 0);
  nnk_map bd = kit_up(&b, NNK_F32, 0, 0), dxd = kit_up(&old, NNK_F32, 0, 0), sd = kit_up(&scale, NNK_F32, 0, 0);
  nnk_map dwd = s.scaled ? wd : kit_up(&w, NNK_F32, 0, 0); /* in place: the weights themselves */
  columns = kit_like(&columns);
  for (int64_t i = 0; i < s.m; i++) {
    for (int64_t o = 0; o < s.n; o++) {
      double g = dy.v[i * s.n + o];
      db.v[o % s.cols] += g;
      for (int64_t c = 0; c < s.k; c++) {
        dx.v[i * s.k + c] += g * w.v[o * s.k + c];
        dw.v[o * s.k + c] += g * x.v[i * s.k + c];
      }
    }
    for (int64_t c = i * s.k; c < (i + 1) * s.k; c++) {
      if (s.add) dx.v[c] += old.v[c];
      if (s.relu && !(x.v[c] > 0)) dx.v[c] = 0;
      columns.v[c % s.data_cols] += dx.v[c];
    }
  }
  for (int64_t i = 0; i < dw.size; i++) dw.v[i] = (s.scaled ? w.v[i] : 0) + scale.v[0] * dw.v[i];
  for (int64_t i = 0; i < db.size; i++) db.v[i] = s.bias ? (s.scaled ? b.v[i] : 0) + scale.v[0] * db.v[i] : b.v[i];
  kit_ok(nnk_patch_prepare(s.n, s.k));
  kit_ok(nnk_patch_backward(NULL, dxd.p, s.add, s.relu, dyd.p, xd.p, wd.p, s.cols, s.data_cols, s.m, s.n, s.k, work,
                            &pieces, KIT_SMS));
  ck_assert_uint_le((size_t)(pieces * stride) * sizeof(float), bytes);
  nnk_pieces sums[] = {{{dwd.p, s.scaled ? sd.p : NULL, s.scaled}, work, s.n * s.k, stride, pieces},
                       {{bd.p, s.scaled ? sd.p : NULL, s.scaled}, work + s.n * s.k, s.cols, stride, pieces},
                       {{cd.p, NULL, 0}, work + s.n * s.k + s.cols, s.data_cols, stride, pieces}};
  if (!s.bias) sums[1].count = 0;
  kit_ok(nnk_add_pieces(NULL, 3, sums));
  kit_near(&dxd, &dx, tol, "patch data");
  kit_near(&dwd, &dw, tol, "patch weight");
  kit_near(&bd, &db, tol, "patch bias");
  kit_near(&cd, &columns, tol, "columns of data");
  kit_free();
}

START_TEST(shapes) {
  static const product all[] = {
      {1, 64, 32, 16, 8, 1, 0, 1, 1},    {31, 64, 32, 64, 32, 0, 1, 1, 0},     {300, 64, 32, 16, 32, 1, 1, 0, 1},
      {33, 128, 64, 32, 64, 1, 0, 1, 0}, {1000, 128, 64, 128, 16, 0, 0, 1, 1}, {64, 32, 64, 32, 16, 1, 0, 1, 1},
      {777, 32, 64, 1, 64, 1, 1, 1, 0},  {129, 64, 128, 64, 128, 1, 0, 0, 1},  {600, 64, 128, 64, 128, 0, 1, 1, 0},
  };
  for (int i = 0; i < 9; i++)
    for (int exact = 0; exact < 2; exact++) backward(all[i], exact);
}
END_TEST

/* So many rows that blocks take several tiles, and not all as many. */
START_TEST(steps) {
  backward((product){2 * 8 * 4 * 32 + 321, 64, 32, 16, 8, 1, 0, 1, 1}, 1);
  backward((product){8 * 4 * 32 + 5, 32, 64, 32, 64, 1, 0, 1, 0}, 1);
  backward((product){3 * KIT_SMS * 2 * 32 + 77, 128, 64, 32, 64, 1, 0, 1, 0}, 1);
  backward((product){KIT_SMS * 2 * 32 + 77, 64, 128, 64, 32, 1, 1, 1, 1}, 1);
}
END_TEST

START_TEST(choices) {
  ck_assert_int_eq(nnk_patch(131072, 64, 32, NNK_F32, 1, KIT_SHARED), 1);
  ck_assert_int_eq(nnk_patch(32768, 128, 64, NNK_F32, 1, KIT_SHARED), 1);
  ck_assert_int_eq(nnk_patch(131072, 64, 32, NNK_F32, 0, KIT_SHARED), 0);
  ck_assert_int_eq(nnk_patch(131072, 64, 32, NNK_BF16, 1, KIT_SHARED), 0);
  ck_assert_int_eq(nnk_patch(131072, 64, 64, NNK_F32, 1, KIT_SHARED), 0);
  ck_assert_int_eq(nnk_patch(1000, 64, 32, NNK_F32, 1, KIT_SHARED), 0);
  ck_assert_int_eq(nnk_patch(32768, 128, 64, NNK_F32, 1, 48 << 10), 0);
  ck_assert_int_ne(nnk_patch_prepare(64, 64), cudaSuccess);
  ck_assert_uint_eq(nnk_patch_work(131072, 64, 64, KIT_SMS), 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("patch");
  TCase *c = tcase_create("backward");
  tcase_set_timeout(c, 900);
  tcase_add_test(c, shapes);
  tcase_add_test(c, steps);
  tcase_add_test(c, choices);
  suite_add_tcase(suite, c);
  return kit_run(suite);
}
