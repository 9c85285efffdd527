/* SPDX-License-Identifier: MIT
 * check_acts.c - activations and products of maps on CUDA, run by the emulator, against plain loops; those of
 * activations have the formulas of act.h, which tests/parity/layers.py compares with PyTorch.
 */
#include "kernel_kit.h"
#include "../../plugins/kits/nn/ops/act.h"

static const int layouts[] = {-1, 0, 1};
static const int channels[] = {1, 6, 8, 70};
static const float K = 0.25f; /* of a function that has a number */

/* Of -8 .. 8, but where there is no slope. */
static kit_value scaled(int64_t c, int elt) {
  kit_value x = kit_random(3, c, 4, 6, elt);
  for (int64_t i = 0; i < x.size; i++) x.v[i] = fabs(x.v[i]) == 0.375 ? 4 : kit_round(8 * x.v[i], elt);
  return x;
}

START_TEST(activations) {
  for (int ci = 0; ci < 4; ci++)
    for (int l = 0; l < 3; l++)
      for (int act = NN_ACT_NONE + 1; act < NN_ACTS; act++) {
        int e = (ci + l) % 2, add = act % 2, masked = l % 2;
        kit_value x = scaled(channels[ci], e), dy = scaled(channels[ci], e), m = scaled(channels[ci], e),
                  want = kit_like(&x);
        nnk_map xd = kit_up(&x, e, layouts[l], ci == 2), dyd = kit_up(&dy, e, layouts[l], 0),
                md = kit_up(&m, e, layouts[l], 0);
        nnk_map yd = kit_up(&dy, e, layouts[l], 0);
        for (int64_t i = 0; i < x.size; i++) want.v[i] = nn_act(act, K, (float)x.v[i]);
        kit_ok(nnk_act_forward(NULL, act, K, &yd, &xd));
        kit_near(&yd, &want, 1e-6, "activation");
        yd = kit_up(&m, e, layouts[l], 0);
        for (int64_t i = 0; i < x.size; i++)
          want.v[i] = (masked && !(m.v[i] > 0) ? 0 : dy.v[i] * nn_slope(act, K, (float)x.v[i])) + (add ? m.v[i] : 0);
        kit_ok(nnk_act_backward(NULL, act, K, &yd, &dyd, &xd, masked ? &md : NULL, add));
        kit_near(&yd, &want, 1e-5, "slope");
        kit_free();
      }
}
END_TEST

/* What is broken must not look well. */
START_TEST(nan_stays) {
  kit_value x = kit_random(1, 1, 1, 4, NNK_F32);
  x.v[1] = NAN;
  for (int act = NN_ACT_NONE + 1; act < NN_ACTS; act++) {
    float got[4];
    nnk_map xd = kit_up(&x, NNK_F32, 0, 0), yd = kit_up(&x, NNK_F32, 0, 0);
    kit_ok(nnk_act_forward(NULL, act, K, &yd, &xd));
    kit_bytes(got, yd.p, sizeof got);
    ck_assert(isnan(got[1]) && !isnan(got[0]));
  }
  kit_free();
}
END_TEST

START_TEST(products) {
  for (int ci = 0; ci < 4; ci++)
    for (int l = 1; l < 3; l++)
      for (int one = 0; one < 2; one++) {
        int e = (ci + l) % 2, add = ci % 2, masked = one != add;
        int64_t c = channels[ci], px = one ? 1 : 24;
        kit_value a = kit_random(3, c, 4, 6, e), b = one ? kit_random(3, c, 1, 1, e) : kit_random(3, c, 4, 6, e);
        kit_value m = kit_random(3, c, 4, 6, e), want = kit_like(&a), sum = kit_like(&b);
        nnk_map ad = kit_up(&a, e, layouts[l], ci == 2), bd = kit_up(&b, e, one ? 0 : layouts[l], 0),
                md = kit_up(&m, e, layouts[l], 0);
        nnk_map yd = kit_up(&m, e, layouts[l], 0), sd = kit_up(&b, e, layouts[l], 0);
        for (int64_t i = 0; i < a.size; i++) {
          double v = a.v[i] * b.v[i / 24 * px + i % px];
          want.v[i] = (masked && !(m.v[i] > 0) ? 0 : v) + (add ? m.v[i] : 0);
          if (one) sum.v[i / 24] += a.v[i] * m.v[i];
        }
        kit_ok(nnk_mul(NULL, &yd, &ad, &bd, masked ? &md : NULL, add));
        kit_near(&yd, &want, 1e-6, "product");
        for (int64_t i = 0; one && i < b.size; i++)
          sum.v[i] = (masked && !(b.v[i] > 0) ? 0 : sum.v[i]) + (add ? b.v[i] : 0);
        if (one) kit_ok(nnk_mul_sum(NULL, &sd, &ad, &md, masked ? &bd : NULL, add));
        if (one) kit_near(&sd, &sum, 1e-6, "sum of products");
        kit_free();
      }
}
END_TEST

int main(void) {
  Suite *s = suite_create("acts");
  TCase *c = tcase_create("acts");
  tcase_set_timeout(c, 120);
  tcase_add_test(c, activations);
  tcase_add_test(c, nan_stays);
  tcase_add_test(c, products);
  suite_add_tcase(s, c);
  return kit_run(s);
}
