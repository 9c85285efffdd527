/* SPDX-License-Identifier: MIT
 * check_neck.c - what lies between two blocks of a frozen residual network, run by the emulator,
 * against plain loops in double.
 */
#include "kernel_kit.h"

typedef struct neck {
  int64_t n, h, w, out;
  int more, biased;
} neck;

enum { INNER = 64, OUTER = 256 };

static double at(const kit_value *x, int64_t n, int64_t c, int64_t y, int64_t z) {
  return y < 0 || y >= x->h || z < 0 || z >= x->w ? 0 : x->v[((n * x->c + c) * x->h + y) * x->w + z];
}

/* y = x in a k x k convolution with border, + b. */
static void convolve(kit_value *y, const kit_value *x, const kit_value *w, const kit_value *b, int k) {
  for (int64_t i = 0; i < y->size; i++) {
    int64_t col = i % y->w, row = i / y->w % y->h, o = i / (y->w * y->h) % y->c, n = i / (y->w * y->h * y->c);
    y->v[i] = b ? b->v[o] : 0;
    for (int64_t c = 0; c < x->c; c++)
      for (int ky = 0; ky < k; ky++)
        for (int kx = 0; kx < k; kx++)
          y->v[i] += w->v[((o * x->c + c) * k + ky) * k + kx] * at(x, n, c, row - k / 2 + ky, col - k / 2 + kx);
  }
}

/* Of what comes next, as the kernel has it: rounded. */
static void rectify(kit_value *y, const kit_value *plus) {
  for (int64_t i = 0; i < y->size; i++) {
    double sum = y->v[i] + (plus ? plus->v[i] : 0);
    y->v[i] = kit_round(sum < 0 ? 0 : sum, NNK_BF16);
  }
}

static kit_value weights(int64_t out, int64_t in, int k) {
  kit_value w = kit_random(out, in, k, k, NNK_BF16);
  for (int64_t i = 0; i < w.size; i++) w.v[i] = kit_round(w.v[i] / 8, NNK_BF16);
  return w;
}

static const void *packed(const kit_value *w, int own_order) {
  kit_value any = kit_random(w->n, w->c, w->h, w->w, NNK_BF16);
  nnk_map from = kit_up(w, NNK_BF16, 0, 0), to = kit_up(&any, NNK_BF16, 0, 0);
  kit_ok(nnk_wide_pack(NULL, to.p, from.p, w->n, (int)w->h, w->c, own_order));
  return to.p;
}

static void forward(neck s) {
  kit_value x = kit_random(s.n, INNER, s.h, s.w, NNK_BF16);
  kit_value plus = kit_random(s.n, s.more ? INNER : OUTER, s.h, s.w, NNK_BF16);
  kit_value w[4] = {weights(INNER, INNER, 3), weights(OUTER, INNER, 1), weights(OUTER, INNER, 1),
                    weights(s.out, OUTER, 1)};
  kit_value b[4], i = kit_like(&x), y = kit_random(s.n, OUTER, s.h, s.w, NNK_BF16), added = kit_like(&y);
  kit_value z = kit_random(s.n, s.out, s.h, s.w, NNK_BF16);
  const char *first = NULL;
  nnk_neck of = {.x = kit_up(&x, NNK_BF16, 0, 0), .plus = kit_up(&plus, NNK_BF16, 0, 0)};
  for (int k = 0; k < 4; k++) {
    b[k] = kit_random(1, w[k].n, 1, 1, NNK_F32);
    if (k == 2 && !s.more) continue;
    of.w[k] = packed(&w[k], k > 0);
    if (s.biased) of.bias[k] = kit_up(&b[k], NNK_F32, 0, 0).p;
  }
  of.y = kit_up(&y, NNK_BF16, 0, 0);
  of.z = kit_up(&z, NNK_BF16, 0, 0);
  convolve(&i, &x, &w[0], s.biased ? &b[0] : NULL, 3);
  rectify(&i, NULL);
  convolve(&y, &i, &w[1], s.biased ? &b[1] : NULL, 1);
  if (s.more) convolve(&added, &plus, &w[2], s.biased ? &b[2] : NULL, 1);
  rectify(&y, s.more ? &added : &plus);
  convolve(&z, &y, &w[3], s.biased ? &b[3] : NULL, 1);
  rectify(&z, NULL);
  ck_assert_int_eq(nnk_neck_shape(&of), 1);
  kit_ok(nnk_neck_prepare());
  for (int k = 0; k < KIT_DEVICES; k++) {
    kit_ok(nnk_neck_forward(NULL, &of, kit_devices[k]));
    /* a sum beside a border of bfloat16 is rounded to the other side, and what comes of it differs by as much */
    kit_near(&of.y, &y, 2e-3, "sum of a block");
    kit_near(&of.z, &z, 4e-3, "first convolution of the next block");
    if (k) kit_same(&of.z, first, "first convolution of the next block");
    else first = kit_copy(&of.z);
  }
  kit_free();
}

/* Tiles of which a part is beyond the border, more tiles than groups, and a group without one. */
static const neck all[] = {
    {1, 9, 5, 64, 0, 1}, {2, 16, 17, 64, 0, 0}, {1, 24, 24, 64, 1, 1}, {3, 8, 7, 64, 1, 0}, {1, 19, 16, 128, 0, 1}};

START_TEST(shapes) { forward(all[_i]); }
END_TEST

START_TEST(choices) {
  nnk_map x = {NULL, NNK_BF16, 0, 8, INNER, 64, 64}, y = x, z = x;
  nnk_neck of, other;
  y.c = OUTER;
  of = (nnk_neck){.x = x, .plus = y, .y = y, .z = z};
  ck_assert_int_eq(nnk_neck_shape(&of), 1);
  other = of, other.z.c = 128;
  ck_assert_int_eq(nnk_neck_shape(&other), 1);
  other.z.c = 96;
  ck_assert_int_eq(nnk_neck_shape(&other), 0);
  other = of, other.plus = x;
  ck_assert_int_eq(nnk_neck_shape(&other), 0);
  other.w[2] = "";
  ck_assert_int_eq(nnk_neck_shape(&other), 1);
  other.z.c = 128; /* no shared memory for all of these weights */
  ck_assert_int_eq(nnk_neck_shape(&other), 0);
  other = of, other.x.c = 128;
  ck_assert_int_eq(nnk_neck_shape(&other), 0);
  ck_assert_int_ne(nnk_neck_forward(NULL, &other, KIT_SMS), cudaSuccess);
  other = of, other.y.elt = NNK_F32;
  ck_assert_int_eq(nnk_neck_shape(&other), 0);
  other = of, other.plus.layout = 1;
  ck_assert_int_eq(nnk_neck_shape(&other), 0);
  other = of, other.z.w = 32;
  ck_assert_int_eq(nnk_neck_shape(&other), 0);
  other.x.n = other.plus.n = other.y.n = other.z.n = 3000, other.z.w = 64;
  ck_assert_int_eq(nnk_neck_shape(&other), 0); /* more numbers than an int counts */
  ck_assert_int_ne(nnk_wide_pack(NULL, NULL, NULL, 48, 1, 64, 1), cudaSuccess);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("neck");
  TCase *c = tcase_create("forward");
  tcase_set_timeout(c, 300);
  tcase_add_loop_test(c, shapes, 0, sizeof all / sizeof *all);
  tcase_add_test(c, choices);
  suite_add_tcase(suite, c);
  return kit_run(suite);
}
