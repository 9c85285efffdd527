/* SPDX-License-Identifier: MIT
 * check_wide.c - convolutions of many channels in a frozen network, run by the emulator, against plain loops in double.
 */
#include "../../plugins/kits/nn/cuda/ways/device.h"
#include "kernel_kit.h"

#include <stdlib.h>

typedef struct layer {
  int64_t n, h, w, in, out;
  int k, stride, bias, plus, relu;
} layer;

static double at(const kit_value *x, int64_t n, int64_t c, int64_t y, int64_t z) {
  return y < 0 || y >= x->h || z < 0 || z >= x->w ? 0 : x->v[((n * x->c + c) * x->h + y) * x->w + z];
}

static void convolve(kit_value *y, const kit_value *x, const kit_value *w, const kit_value *b, const kit_value *z,
                     const layer *s) {
  int pad = (s->k - 1) / 2;
  for (int64_t i = 0; i < y->size; i++) {
    int64_t col = i % y->w, row = i / y->w % y->h, o = i / (y->w * y->h) % y->c, n = i / (y->w * y->h * y->c);
    double sum = (s->bias ? b->v[o] : 0) + (s->plus ? z->v[i] : 0);
    for (int64_t c = 0; c < s->in; c++)
      for (int ky = 0; ky < s->k; ky++)
        for (int kx = 0; kx < s->k; kx++)
          sum += w->v[((o * s->in + c) * s->k + ky) * s->k + kx] *
                 at(x, n, c, row * s->stride - pad + ky, col * s->stride - pad + kx);
    y->v[i] = s->relu && sum < 0 ? 0 : sum;
  }
}

static void forward(layer s) {
  int64_t h = (s.h - 1) / s.stride + 1, w = (s.w - 1) / s.stride + 1;
  kit_value x = kit_random(s.n, s.in, s.h, s.w, NNK_BF16), f = kit_random(s.out, s.in, s.k, s.k, NNK_BF16);
  kit_value b = kit_random(1, s.out, 1, 1, NNK_F32), z = kit_random(s.n, s.out, h, w, NNK_BF16);
  kit_value y = kit_random(s.n, s.out, h, w, NNK_BF16), packed = kit_random(s.out, s.in, s.k, s.k, NNK_BF16);
  const char *first = NULL;
  int k[2] = {s.k, s.k}, stride[2] = {s.stride, s.stride}, pad[2] = {(s.k - 1) / 2, (s.k - 1) / 2};
  nnk_map xd = kit_up(&x, NNK_BF16, 0, 0), fd = kit_up(&f, NNK_BF16, 0, 0), bd = kit_up(&b, NNK_F32, 0, 0);
  nnk_map zd = kit_up(&z, NNK_BF16, 0, 0), yd = kit_up(&y, NNK_BF16, 0, 0), pd = kit_up(&packed, NNK_BF16, 0, 0);
  convolve(&y, &x, &f, &b, &z, &s);
  ck_assert_int_eq(nnk_wide_shape(&yd, &xd, k, stride, pad), 1);
  kit_ok(nnk_wide_prepare());
  kit_ok(nnk_wide_pack(NULL, pd.p, fd.p, s.out, s.k, s.in, 0));
  for (int i = 0; i < KIT_DEVICES; i++) {
    kit_ok(nnk_wide_forward(NULL, &yd, &xd, s.k, s.stride, pd.p, s.bias ? bd.p : NULL, s.plus ? &zd : NULL, s.relu,
                            kit_devices[i]));
    kit_near(&yd, &y, 2e-6, "wide convolution");
    if (i) kit_same(&yd, first, "wide convolution");
    else first = kit_copy(&yd);
  }
  kit_free();
}

/* Each kernel: blocks of 32, 64 and 128 channels, of one tile and of two, which the number of tiles decides. */
static const layer all[] = {
    {1, 9, 13, 64, 32, 3, 1, 1, 0, 1},    {1, 8, 8, 128, 96, 3, 1, 0, 1, 0},   {1, 17, 15, 64, 64, 3, 1, 1, 0, 1},
    {1, 16, 18, 128, 128, 3, 1, 0, 1, 1}, {2, 17, 9, 64, 32, 3, 2, 1, 1, 1},   {1, 30, 33, 128, 64, 3, 2, 1, 0, 0},
    {2, 31, 17, 64, 128, 3, 2, 1, 0, 1},  {1, 15, 17, 64, 64, 1, 2, 1, 1, 1},  {2, 16, 9, 128, 192, 1, 2, 0, 0, 1},
    {1, 33, 31, 128, 128, 1, 2, 1, 1, 1}, {1, 20, 17, 64, 64, 3, 1, 1, 1, 1},  {1, 40, 35, 64, 128, 1, 2, 1, 1, 1},
    {1, 9, 7, 128, 32, 1, 1, 1, 1, 1},    {1, 8, 13, 64, 64, 1, 1, 0, 1, 1},   {1, 19, 30, 64, 64, 1, 1, 1, 0, 0},
    {1, 8, 30, 128, 128, 1, 1, 1, 1, 0},  {1, 37, 29, 64, 128, 1, 1, 1, 1, 1}, {1, 8, 30, 64, 64, 3, 1, 0, 1, 1},
    {1, 16, 60, 64, 128, 1, 2, 1, 0, 1},  {1, 8, 30, 64, 64, 1, 1, 1, 1, 1},
};

START_TEST(shapes) { forward(all[_i]); }
END_TEST

START_TEST(choices) {
  nnk_map x = {NULL, NNK_BF16, 0, 8, 256, 16, 16}, y = x, other, half = {NULL, NNK_BF16, 0, 8, 512, 8, 8};
  int one[2] = {1, 1}, two[2] = {2, 2}, three[2] = {3, 3}, none[2] = {0, 0}, mixed[2] = {1, 2};
  ck_assert_int_eq(nnk_wide_shape(&y, &x, three, one, one), 1);
  ck_assert_int_eq(nnk_wide_shape(&half, &x, three, two, one), 1);
  ck_assert_int_eq(nnk_wide_shape(&half, &x, one, two, none), 1);
  ck_assert_int_eq(nnk_wide_shape(&y, &x, one, one, none), 1);
  ck_assert_int_eq(nnk_wide_shape(&y, &x, three, one, two), 0);
  ck_assert_int_eq(nnk_wide_shape(&y, &x, three, one, none), 0); /* without border */
  ck_assert_int_eq(nnk_wide_shape(&y, &x, three, mixed, one), 0);
  other = x, other.c = 96;
  ck_assert_int_eq(nnk_wide_shape(&y, &other, three, one, one), 0);
  ck_assert_int_ne(nnk_wide_forward(NULL, &y, &other, 3, 1, NULL, NULL, NULL, 0, KIT_SMS), cudaSuccess);
  ck_assert_int_ne(nnk_wide_pack(NULL, NULL, NULL, 256, 3, 96, 0), cudaSuccess);
  other = y, other.c = 48;
  ck_assert_int_eq(nnk_wide_shape(&other, &x, three, one, one), 0);
  other = half, other.c = 32;
  ck_assert_int_eq(nnk_wide_shape(&other, &x, one, two, none), 0);
  other = x, other.elt = NNK_F32;
  ck_assert_int_eq(nnk_wide_shape(&y, &other, three, one, one), 0);
  other = x, other.layout = 2;
  ck_assert_int_eq(nnk_wide_shape(&y, &other, three, one, one), 0);
  other = x, other.n = 40000;
  ck_assert_int_eq(nnk_wide_shape(&y, &other, three, one, one), 0); /* more numbers than an int counts */
}
END_TEST

/* Groups of warps multiply on 9.0 alone: neither on an older device nor on a newer one. */
START_TEST(devices) {
  enum { TWO = NNC_HAS_TF32 | NNC_HAS_BF16 };
  static const struct {
    int capability;
    unsigned has;
  } all_devices[] = {{75, 0}, {80, TWO}, {89, TWO}, {90, TWO | NNC_HAS_WARP_GROUPS}, {100, TWO}, {120, TWO}};
  for (size_t i = 0; i < sizeof all_devices / sizeof *all_devices; i++) {
    nnc_device device = nnc_device_of(&(sp_cuda){.capability = all_devices[i].capability, .multiprocessors = 7});
    nnc_device_code(&device);
    ck_assert_msg(device.has == all_devices[i].has, "capability %d", all_devices[i].capability);
    ck_assert_int_eq(device.multiprocessors, 7);
    ck_assert_int_eq(nnc_device_rounds(&device, SP_PRECISION_TF32), i ? SP_PRECISION_TF32 : SP_PRECISION_FP32);
    ck_assert_int_eq(nnc_device_rounds(&device, SP_PRECISION_BF16), i ? SP_PRECISION_BF16 : SP_PRECISION_FP32);
  }
  ck_assert_uint_eq(nnc_device_of(NULL).has, 0);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("wide");
  TCase *c = tcase_create("forward");
  tcase_set_timeout(c, 300);
  tcase_add_loop_test(c, shapes, 0, sizeof all / sizeof *all);
  tcase_add_test(c, choices);
  tcase_add_test(c, devices);
  suite_add_tcase(suite, c);
  return kit_run(suite);
}
