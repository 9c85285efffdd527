/* SPDX-License-Identifier: MIT
 * check_stem.c - the kernels that compute a network's first two layers as one, run by the emulator, against plain loops
 * in double.
 */
#include "kernel_kit.h"

enum { MID = 16, OUT = 32, PLANAR = -1, SMS = 3 /* so that warps do not have equal shares */ };

typedef struct stem {
  int64_t n, c, h, w; /* of y */
  int layout, order;  /* of y and of x */
  int relu, bias, dx, add, scaled;
} stem;

/* The map between at pixel (i, j) of x; with factors that bfloat16 holds it is rounded to TF32 alone. */
static void middle(double *h, const kit_value *x, int64_t s, int64_t i, int64_t j, const kit_value *w0,
                   const kit_value *b0) {
  for (int k = 0; k < MID; k++) {
    h[k] = b0 ? b0->v[k] : 0;
    for (int64_t c = 0; c < x->c; c++) h[k] += w0->v[k * x->c + c] * x->v[((s * x->c + c) * x->h + i) * x->w + j];
    h[k] = h[k] > 0 ? h[k] : 0;
  }
}

/* exact: all numbers are small integers over a power of two, so that nothing is rounded and only the order of the sums
 * differs. */
static kit_value values(int64_t n, int64_t c, int64_t h, int64_t w, int exact) {
  kit_value v = kit_random(n, c, h, w, NNK_F32);
  for (int64_t i = 0; exact && i < v.size; i++) v.v[i] = rint(v.v[i] * 4) / 4;
  return v;
}

static void compare(stem s, int exact) {
  double tol = exact ? 3e-6 : 3e-3, h[MID], dh[MID];
  kit_value x = values(s.n, s.c, 2 * s.h, 2 * s.w, exact), w0 = values(1, MID * s.c, 1, 1, exact);
  kit_value b0 = values(1, MID, 1, 1, exact), w1 = values(1, OUT * 4 * MID, 1, 1, exact);
  kit_value b1 = values(1, OUT, 1, 1, exact), dy = values(s.n, OUT, s.h, s.w, exact), y = kit_like(&dy);
  kit_value old = values(s.n, s.c, 2 * s.h, 2 * s.w, exact), dx = kit_like(&x), scale = kit_like(&b1);
  kit_value d[4] = {kit_like(&w1), kit_like(&b1), kit_like(&w0), kit_like(&b0)};
  const kit_value *of[4] = {&w1, &b1, &w0, &b0};
  scale.v[0] = s.scaled ? -0.25 : 1;
  for (int64_t k = 0; s.add && k < dx.size; k++) dx.v[k] = old.v[k];
  for (int64_t m = 0; m < s.n * s.h * s.w * 4; m++) {
    int64_t tap = m % 4, p = m / 4, at = p % (s.h * s.w), sample = p / (s.h * s.w);
    int64_t i = at / s.w * 2 + tap / 2, j = at % s.w * 2 + tap % 2;
    middle(h, &x, sample, i, j, &w0, s.bias ? &b0 : NULL);
    memset(dh, 0, sizeof dh);
    for (int o = 0; o < OUT; o++) {
      int64_t e = (sample * OUT + o) * s.h * s.w + at;
      if (tap == 0) d[1].v[o] += dy.v[e];
      if (tap == 0 && s.bias) y.v[e] += b1.v[o];
      for (int k = 0; k < MID; k++) {
        y.v[e] += w1.v[o * 64 + tap * MID + k] * h[k];
        d[0].v[o * 64 + tap * MID + k] += dy.v[e] * h[k];
        dh[k] += dy.v[e] * w1.v[o * 64 + tap * MID + k];
      }
      if (tap == 3 && s.relu && y.v[e] < 0) y.v[e] = 0;
    }
    for (int k = 0; k < MID; k++) {
      if (!(h[k] > 0)) continue;
      d[3].v[k] += dh[k];
      for (int64_t c = 0; c < s.c; c++) {
        int64_t e = ((sample * s.c + c) * x.h + i) * x.w + j;
        d[2].v[k * s.c + c] += dh[k] * x.v[e];
        dx.v[e] += dh[k] * w0.v[k * s.c + c];
      }
    }
  }
  nnk_map xd = kit_up(&x, NNK_F32, s.order, 0), dyd = kit_up(&dy, NNK_F32, s.layout, 0),
          sd = kit_up(&scale, NNK_F32, 0, 0);
  nnk_map yd = kit_up(&dy, NNK_F32, s.layout, 0), dxd = kit_up(&old, NNK_F32, s.order, 0), wd[4], gd[4];
  for (int i = 0; i < 4; i++) {
    wd[i] = kit_up(of[i], NNK_F32, 0, 0);
    gd[i] = s.scaled ? wd[i] : kit_up(of[i], NNK_F32, 0, 0); /* in place: the weights themselves */
    for (int64_t k = 0; k < d[i].size; k++) d[i].v[k] = (s.scaled ? of[i]->v[k] : 0) + scale.v[0] * d[i].v[k];
  }
  nnk_layers layers = {wd[2].p, s.bias ? wd[3].p : NULL, wd[0].p, s.bias ? wd[1].p : NULL, s.relu};
  const char *first = NULL;
  size_t bytes = nnk_stem_work(&xd, &yd, SMS);
  float *work = kit_work(bytes);
  nnk_pieces sums[4];
  ck_assert(nnk_stem(&xd, MID, &yd));
  kit_ok(nnk_stem_prepare());
  for (int i = 0; i < KIT_DEVICES; i++) {
    kit_ok(nnk_stem_forward(NULL, &yd, &xd, &layers, kit_devices[i]));
    kit_near(&yd, &y, tol, "stem");
    if (i) kit_same(&yd, first, "stem");
    else first = kit_copy(&yd);
  }
  kit_ok(nnk_stem_backward(NULL, s.dx ? &dxd : NULL, s.add, &dyd, &xd, &layers, work, sums, SMS));
  for (int i = 0; i < 4; i++) {
    ck_assert_int_eq(sums[i].count, d[i].size);
    ck_assert(sums[i].parts >= work &&
              sums[i].parts + (sums[i].pieces - 1) * sums[i].stride + sums[i].count <= work + bytes / sizeof(float));
    sums[i].dst = (nnk_sum){gd[i].p, s.scaled ? sd.p : NULL, s.scaled};
  }
  kit_ok(nnk_add_pieces(NULL, 4, sums));
  for (int i = 0; i < 4; i++) kit_near(&gd[i], &d[i], tol, "gradient of the stem's weights");
  if (s.dx) kit_near(&dxd, &dx, tol, "gradient of the stem's input");
  kit_free();
}

START_TEST(shapes) {
  static const stem all[] = {
      {1, 3, 8, 8, 3, PLANAR, 1, 1, 0, 0, 1},   {2, 3, 8, 16, 3, 0, 1, 1, 1, 0, 0},
      {3, 1, 16, 16, 4, 0, 0, 1, 1, 1, 1},      {1, 3, 24, 8, 3, PLANAR, 0, 0, 1, 1, 0},
      {2, 3, 32, 32, 5, PLANAR, 1, 0, 1, 0, 1}, {1, 1, 8, 40, 3, 0, 1, 0, 0, 0, 0},
      {5, 3, 16, 8, 3, 0, 1, 1, 0, 1, 1},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    for (int exact = 0; exact < 2; exact++) compare(all[i], exact);
}
END_TEST

/* So many pixels that warps take several tiles, and not all as many. */
START_TEST(steps) { compare((stem){5, 3, 64, 64, 6, PLANAR, 1, 1, 1, 0, 1}, 1); }
END_TEST

START_TEST(choices) {
  nnk_map x = {NULL, NNK_F32, 0, 2, 3, 64, 64}, y = {NULL, NNK_F32, 3, 2, OUT, 32, 32}, other;
  ck_assert(nnk_stem(&x, MID, &y));
  ck_assert(!nnk_stem(&x, 32, &y));
  other = x, other.c = 2;
  ck_assert(!nnk_stem(&other, MID, &y));
  other = x, other.elt = NNK_BF16;
  ck_assert(!nnk_stem(&other, MID, &y));
  other = x, other.layout = 4;
  ck_assert(!nnk_stem(&other, MID, &y));
  other = y, other.layout = 2; /* 32 pixels that lie together are in no one square */
  ck_assert(!nnk_stem(&x, MID, &other));
  other = y, other.c = 64;
  ck_assert(!nnk_stem(&x, MID, &other));
  ck_assert_int_ne(nnk_stem_forward(NULL, &other, &x, &(nnk_layers){0}, SMS), cudaSuccess);
  ck_assert_int_ne(nnk_stem_backward(NULL, NULL, 0, &other, &x, &(nnk_layers){0}, NULL, NULL, SMS), cudaSuccess);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("stem");
  TCase *c = tcase_create("stem");
  tcase_set_timeout(c, 900);
  tcase_add_test(c, shapes);
  tcase_add_test(c, steps);
  tcase_add_test(c, choices);
  suite_add_tcase(suite, c);
  return kit_run(suite);
}
