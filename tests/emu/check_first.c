/* SPDX-License-Identifier: MIT
 * check_first.c - the first convolution of a network, run by the emulator, against plain loops in double.
 */
#include "kernel_kit.h"

typedef struct image {
  int64_t n, h, w, out;
  int k, bias, relu;
} image;

static double at(const kit_value *x, int64_t n, int64_t c, int64_t y, int64_t z) {
  return y < 0 || y >= x->h || z < 0 || z >= x->w ? 0 : x->v[((n * x->c + c) * x->h + y) * x->w + z];
}

static void convolve(kit_value *y, const kit_value *x, const kit_value *w, const kit_value *b, const image *s) {
  int pad = (s->k - 1) / 2;
  for (int64_t i = 0; i < y->size; i++) {
    int64_t col = i % y->w, row = i / y->w % y->h, o = i / (y->w * y->h) % y->c, n = i / (y->w * y->h * y->c);
    double sum = s->bias ? b->v[o] : 0;
    for (int64_t c = 0; c < 3; c++)
      for (int ky = 0; ky < s->k; ky++)
        for (int kx = 0; kx < s->k; kx++)
          sum += w->v[((o * 3 + c) * s->k + ky) * s->k + kx] * at(x, n, c, row * 2 - pad + ky, col * 2 - pad + kx);
    y->v[i] = s->relu && sum < 0 ? 0 : sum;
  }
}

static const void *packed(const nnk_map *w, int k, int64_t out) {
  void *to = kit_work(nnk_first_bytes(k, out));
  kit_ok(nnk_first_pack(NULL, to, w->p, k, out));
  return to;
}

static void forward(image s) {
  kit_value x = kit_random(s.n, 3, s.h, s.w, NNK_BF16), w = kit_random(s.out, 3, s.k, s.k, NNK_BF16);
  kit_value b = kit_random(1, s.out, 1, 1, NNK_F32), none = {s.n, s.out, (s.h + 1) / 2, s.w / 2, 0, NULL};
  none.size = none.n * none.c * none.h * none.w;
  const char *first = NULL;
  kit_value y = kit_random(none.n, none.c, none.h, none.w, NNK_BF16);
  int k[2] = {s.k, s.k}, stride[2] = {2, 2}, pad[2] = {(s.k - 1) / 2, (s.k - 1) / 2};
  nnk_map xd = kit_up(&x, NNK_BF16, 0, 0), wd = kit_up(&w, NNK_BF16, 0, 0), bd = kit_up(&b, NNK_F32, 0, 0);
  nnk_map yd = kit_up(&y, NNK_BF16, 0, 0);
  convolve(&y, &x, &w, &b, &s);
  ck_assert_int_eq(nnk_first_shape(&yd, &xd, k, stride, pad), 1);
  for (int i = 0; i < KIT_DEVICES; i++) {
    kit_ok(
        nnk_first_forward(NULL, &yd, &xd, s.k, packed(&wd, s.k, s.out), s.bias ? bd.p : NULL, s.relu, kit_devices[i]));
    kit_near(&yd, &y, 2e-6, "first convolution");
    if (i) kit_same(&yd, first, "first convolution");
    else first = kit_copy(&yd);
  }
  kit_free();
}

START_TEST(shapes) {
  static const image all[] = {{1, 32, 64, 64, 7, 1, 1},  {2, 37, 68, 64, 7, 0, 0}, {1, 5, 4, 48, 7, 1, 0},
                              {2, 30, 132, 32, 3, 1, 1}, {1, 33, 72, 16, 3, 0, 1}, {1, 16, 8, 48, 3, 1, 0},
                              {1, 9, 12, 64, 3, 1, 1},   {1, 18, 8, 32, 7, 0, 1}};
  for (int i = 0; i < 8; i++) forward(all[i]);
}
END_TEST

/* So many tiles that blocks take several. */
START_TEST(turns) { forward((image){2, 34, 320, 16, 3, 1, 1}); }
END_TEST

/* A NaN reaches the pixels whose windows have it, and no others,
 * although the product's depth has numbers of other pixels. */
START_TEST(nans) {
  for (int k = 3; k <= 7; k += 4) {
    kit_value x = kit_random(1, 3, 24, 32, NNK_BF16), w = kit_random(16, 3, k, k, NNK_BF16);
    kit_value y = kit_random(1, 16, 12, 16, NNK_BF16);
    uint16_t got[16 * 12 * 16];
    int wrong = 0;
    x.v[1 * 24 * 32 + 11 * 32 + 13] = NAN;
    nnk_map xd = kit_up(&x, NNK_BF16, 0, 0), wd = kit_up(&w, NNK_BF16, 0, 0), yd = kit_up(&y, NNK_BF16, 0, 0);
    kit_ok(nnk_first_forward(NULL, &yd, &xd, k, packed(&wd, k, 16), NULL, 1, KIT_SMS));
    kit_bytes(got, yd.p, sizeof got);
    for (int i = 0; i < 16 * 12 * 16; i++) {
      int col = i / 16 % 16 * 2, row = i / 256 * 2, reach = (k - 1) / 2;
      wrong += ((got[i] & 0x7fff) > 0x7f80) != (abs(row - 11) <= reach && abs(col - 13) <= reach);
    }
    ck_assert_int_eq(wrong, 0);
    kit_free();
  }
}
END_TEST

START_TEST(choices) {
  nnk_map x = {NULL, NNK_BF16, 0, 8, 3, 64, 64}, y = {NULL, NNK_BF16, 0, 8, 64, 32, 32}, other;
  int seven[2] = {7, 7}, five[2] = {5, 5}, two[2] = {2, 2}, one[2] = {1, 1}, three[2] = {3, 3};
  ck_assert_int_eq(nnk_first_shape(&y, &x, seven, two, three), 1);
  ck_assert_int_eq(nnk_first_shape(&y, &x, five, two, two), 0);
  ck_assert_int_eq(nnk_first_shape(&y, &x, seven, one, three), 0);
  ck_assert_int_eq(nnk_first_shape(&y, &x, seven, two, two), 0);
  other = x, other.c = 4;
  ck_assert_int_eq(nnk_first_shape(&y, &other, seven, two, three), 0);
  other = x, other.w = 66;
  ck_assert_int_eq(nnk_first_shape(&y, &other, seven, two, three), 0);
  other = x, other.elt = NNK_F32;
  ck_assert_int_eq(nnk_first_shape(&y, &other, seven, two, three), 0);
  other = y, other.c = 40;
  ck_assert_int_eq(nnk_first_shape(&other, &x, seven, two, three), 0);
  ck_assert_int_ne(nnk_first_forward(NULL, &other, &x, 7, NULL, NULL, 0, KIT_SMS), cudaSuccess);
  ck_assert_int_ne(nnk_first_pack(NULL, NULL, NULL, 5, 64), cudaSuccess);
  ck_assert_int_ne(nnk_first_pack(NULL, NULL, NULL, 7, 80), cudaSuccess);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("first");
  TCase *c = tcase_create("forward");
  tcase_set_timeout(c, 300);
  tcase_add_test(c, shapes);
  tcase_add_test(c, turns);
  tcase_add_test(c, nans);
  tcase_add_test(c, choices);
  suite_add_tcase(suite, c);
  return kit_run(suite);
}
