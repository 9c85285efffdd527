/* SPDX-License-Identifier: MIT
 * check_augment.c - the stage augment against the stages that it puts together, which have tests of their own: the same
 * bits, with what was drawn exchanged. */
#include "tests/kit/aug_kit.h"
#include "tests/kit/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BOXES = KIT_DRAWN, ANGLES, SIGMAS };

static const int dtypes[] = {SP_U8, SP_F32}, orders[] = {SP_ROW_MAJOR, SP_CHANNELS_LAST};

/* ---- one stage after another ---- */
/* An image and its masks between two stages, row-major. */
typedef struct pair {
  sp_spec image, mask;
  void *x, *m;
} pair;

static void pair_free(pair *p) {
  free(p->x);
  free(p->m);
}

/* What a stage makes of it, in place; `drawn`: what goes to its port of parameters. */
static void after(pair *p, const char *stage, const char *params, int dtype, const sp_spec *shape, const void *drawn) {
  aug_kit k = {.t = spt_new(stage, params, 3)};
  kit_ok(&k, spt_failed(k.t));
  kit_ok(&k, spt_input(k.t, KIT_IMAGES, &p->image, p->x));
  bool masks = spt_ports(k.t, SPT_IN) > KIT_MASKS;
  if (masks) kit_ok(&k, spt_input(k.t, KIT_MASKS, &p->mask, p->m));
  if (drawn) kit_ok(&k, spt_input_of(k.t, KIT_DRAWN, dtype, shape->ndim, shape->shape, SP_ROW_MAJOR, drawn));
  kit_plan(&k, 1);
  kit_forward(&k);
  void *x = kit_get(&k, SPT_OUT, KIT_IMAGES, 0);
  p->image = *spt_spec(k.t, SPT_OUT, KIT_IMAGES, 0);
  free(p->x);
  p->x = x;
  if (masks) {
    void *m = kit_get(&k, SPT_OUT, KIT_MASKS, 0);
    p->mask = *spt_spec(k.t, SPT_OUT, KIT_MASKS, 0);
    free(p->m);
    p->m = m;
  }
  kit_close(&k);
}

/* The parameters of `augment`, and those of the stages; NULL: left out. */
typedef struct chain {
  const char *all, *crop, *resize, *rotate, *blur, *norm;
  int bytes; /* the stages get bytes as they are: nothing is rounded on the way */
} chain;

static pair input_of(const aug_kit *k, int image) {
  pair p = {.image = *spt_spec(k->t, SPT_IN, KIT_IMAGES, image), .mask = *spt_spec(k->t, SPT_IN, KIT_MASKS, 0)};
  p.x = kit_get(k, SPT_IN, KIT_IMAGES, image);
  p.m = kit_get(k, SPT_IN, KIT_MASKS, 0);
  return p;
}

static void compare(const aug_kit *k, const chain *c, int image, const char *what) {
  pair p = input_of(k, image);
  void *drawn[3];
  const sp_spec *spec[3];
  for (int i = 0; i < 3; i++) {
    drawn[i] = kit_get(k, SPT_OUT, BOXES + i, 0);
    spec[i] = spt_spec(k->t, SPT_OUT, BOXES + i, 0);
  }
  if (!c->bytes && p.image.dtype == SP_U8) after(&p, "to_float", "{}", 0, NULL, NULL);
  if (c->crop) after(&p, "batch_crop", c->crop, SP_I32, spec[0], drawn[0]);
  if (c->resize) after(&p, "resize", c->resize, 0, NULL, NULL);
  if (c->rotate) after(&p, "batch_rotate", c->rotate, SP_F32, spec[1], drawn[1]);
  if (c->blur) after(&p, "blur", c->blur, SP_F32, spec[2], drawn[2]);
  if (c->norm) after(&p, "normalize", c->norm, 0, NULL, NULL);
  const sp_spec *s = spt_spec(k->t, SPT_OUT, KIT_IMAGES, image);
  float *x = kit_get(k, SPT_OUT, KIT_IMAGES, image), *want = p.x;
  uint8_t *m = kit_get(k, SPT_OUT, KIT_MASKS, 0), *label = p.m;
  ck_assert_int_eq(s->dtype, SP_F32);
  ck_assert_int_eq(s->order, p.image.order);
  ck_assert_int_eq(p.image.dtype, SP_F32);
  ck_assert_int_eq(sp_spec_count(s), sp_spec_count(&p.image));
  for (int64_t i = 0; i < sp_spec_count(s); i++)
    kit_each(!memcmp(&x[i], &want[i], sizeof *x), "%s, %s: value %lld of %lld is %.9g, one by one %.9g", c->all, what,
             (long long)i, (long long)sp_spec_count(s), (double)x[i], (double)want[i]);
  for (int64_t i = 0; i < sp_spec_count(&p.mask); i++)
    kit_each(m[i] == label[i], "%s, %s: label %lld is %d, one by one %d", c->all, what, (long long)i, m[i], label[i]);
  for (int i = 0; i < 3; i++) free(drawn[i]);
  free(x);
  free(m);
  pair_free(&p);
}

/* Two images of the kind, the second with its values as the other type; some runs with parameters that are given. */
static void one(const chain *c, int64_t n, int64_t ch, int64_t h, int64_t w, int dtype, int order, bool given) {
  static const int32_t boxes[] = {0, 0, 1, 2, 2, 1, 0, 1, 1, 0};
  static const float angles[] = {0, 90, -33.5f, 180, 721}, sigmas[] = {0, 0.3f, 1.7f, 40, 1e-3f};
  char what[120];
  aug_kit k;
  snprintf(what, sizeof what, "%lld x %lld x %lld x %lld, %s, order %d%s", (long long)n, (long long)ch, (long long)h,
           (long long)w, dtype == SP_U8 ? "uint8" : "float32", order, given ? ", given" : "");
  kit_open(&k, "augment", c->all, n, ch, h, w, dtype, order, true);
  if (!strstr(c->all, "scale")) {
    int64_t shape[4] = {n, ch, h, w};
    float *more = malloc((size_t)(n * ch * h * w) * sizeof *more);
    ck_assert_ptr_nonnull(more);
    spt_random(more, n * ch * h * w, 5, -3, 3);
    kit_ok(&k, spt_input_of(k.t, KIT_IMAGES, SP_F32, 4, shape, orders[!order], more));
    free(more);
  }
  if (given) {
    int64_t shape[2] = {n, 2};
    kit_ok(&k, spt_input_of(k.t, BOXES, SP_I32, 2, shape, SP_ROW_MAJOR, boxes));
    kit_ok(&k, spt_input_of(k.t, ANGLES, SP_F32, 1, shape, SP_ROW_MAJOR, angles));
    if (c->blur) kit_ok(&k, spt_input_of(k.t, SIGMAS, SP_F32, 1, shape, SP_ROW_MAJOR, sigmas));
  }
  kit_plan(&k, 1);
  kit_forward(&k);
  for (int i = 0; i < spt_count(k.t, SPT_OUT, KIT_IMAGES); i++) compare(&k, c, i, what);
  if (n > 1) {
    spt_run_batch(k.t, n - 1);
    kit_forward(&k);
  }
  kit_close(&k);
}

/* Every part alone and all together, both modes, odd sizes and large tiles. */
START_TEST(as_one_by_one) {
  static const chain chains[] = {
      {.all = "{}"},
      {.all = "{ crop = { 11, 8 } }", .crop = "{ size = { 11, 8 } }", .rotate = "{ degrees = 1 }"},
      {.all = "{ crop = { 11, 8 }, mode = \"roi_align\" }",
       .crop = "{ size = { 11, 8 }, mode = \"roi_align\" }",
       .rotate = "{ degrees = 1 }"},
      {.all = "{ mode = \"roi_align\", degrees = 30, fill = 9 }",
       .crop = "{ size = { 13, 10 }, mode = \"roi_align\" }",
       .rotate = "{ degrees = 1, fill = 9 }"},
      {.all = "{ size = { 13, 31 }, degrees = 180 }", .resize = "{ size = { 13, 31 } }", .rotate = "{ degrees = 1 }"},
      {.all = "{ size = { 77, 10 }, mask_fill = 3, degrees = { 20, 80 } }",
       .resize = "{ size = { 77, 10 } }",
       .rotate = "{ degrees = 1, mask_fill = 3 }"},
      {.all = "{ kernel = { 5, 3 } }", .blur = "{ kernel = { 5, 3 } }"},
      {.all = "{ mean = 4.5, std = 0.3 }", .norm = "{ mean = 4.5, std = 0.3 }"},
      {.all =
           "{ crop = { 9, 7 }, mode = \"roi_align\", size = { 27, 40 }, degrees = 45, kernel = 7, mean = 3, std = 7 }",
       .crop = "{ size = { 9, 7 }, mode = \"roi_align\" }",
       .resize = "{ size = { 27, 40 } }",
       .rotate = "{ degrees = 1 }",
       .blur = "{ kernel = 7 }",
       .norm = "{ mean = 3, std = 7 }"},
      {.all = "{ crop = { 11, 8 }, size = { 150, 131 }, degrees = 90, fill = -4, kernel = { 3, 21 }, sigma = 3 }",
       .crop = "{ size = { 11, 8 } }",
       .resize = "{ size = { 150, 131 } }",
       .rotate = "{ degrees = 1, fill = -4 }",
       .blur = "{ kernel = { 3, 21 } }"},
      {.all = "{ crop = { 11, 8 }, degrees = 45, fill = 200, mean = 0.5, std = 0.25, scale = true }",
       .crop = "{ size = { 11, 8 } }",
       .rotate = "{ degrees = 1, fill = 200 }",
       .norm = "{ mean = 0.5, std = 0.25, scale = true }",
       .bytes = 1},
  };
  static const int64_t channels[] = {1, 3, 4};
  ck_assert_uint_eq(SP_ARRAY(chains), 11);
  const chain *c = &chains[_i];
  for (int d = 0; d < (c->bytes ? 1 : 2); d++)
    for (int o = 0; o < 2; o++)
      for (int i = 0; i < 3; i++) {
        one(c, 5, channels[i], 13, 10, dtypes[d], orders[o], c->crop && strstr(c->crop, "13") == NULL);
        one(c, 1 + i, channels[i], 13, 10, dtypes[d], orders[o], false);
      }
}
END_TEST

/* Images of more than one tile, also with a channel count that is none of the usual ones; and of one pixel. */
START_TEST(sizes) {
  chain large = {.all = "{ crop = 300, size = { 540, 601 }, degrees = 45, kernel = 3 }",
                 .crop = "{ size = 300 }",
                 .resize = "{ size = { 540, 601 } }",
                 .rotate = "{ degrees = 1 }",
                 .blur = "{ kernel = 3 }"};
  for (int o = 0; o < 2; o++) {
    one(&large, 1, 1, 310, 320, SP_U8, orders[o], false);
    one(&large, 2, 3, 300, 300, SP_F32, orders[o], false);
    chain many = {.all = "{ size = 40, degrees = 45, kernel = 7, std = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 } }",
                  .resize = "{ size = 40 }",
                  .rotate = "{ degrees = 1 }",
                  .blur = "{ kernel = 7 }",
                  .norm = "{ std = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 } }"};
    one(&many, 3, 11, 20, 31, SP_U8, orders[o], false);
    chain colours = {.all = "{ crop = 12, degrees = 45, fill = { 1, 2, 3 }, mean = { 3, 4, 5 }, std = 9, kernel = 3 }",
                     .crop = "{ size = 12 }",
                     .rotate = "{ degrees = 1, fill = { 1, 2, 3 } }",
                     .blur = "{ kernel = 3 }",
                     .norm = "{ mean = { 3, 4, 5 }, std = 9 }"};
    one(&colours, 4, 3, 15, 14, SP_F32, orders[o], true);
    chain pixel = {.all = "{ size = { 1, 5 }, mode = \"roi_align\", degrees = 45 }",
                   .crop = "{ size = 1, mode = \"roi_align\" }",
                   .resize = "{ size = { 1, 5 } }",
                   .rotate = "{ degrees = 1 }"};
    one(&pixel, 3, 3, 1, 1, SP_U8, orders[o], false);
    one(&pixel, 2, 1, 1, 1, SP_F32, orders[o], false);
  }
}
END_TEST

#define WHOLE "{ crop = { 30, 33 }, mode = \"roi_align\", size = 48, degrees = 45, kernel = 5, mean = 1, std = 3 }"

START_TEST(properties) {
  kit_aligned("augment", "{ crop = { 17, 20 }, degrees = 45, fill = 255 }");
  kit_by_id("augment", WHOLE);
  kit_draw_modes("augment", "{ crop = 20 }", NAN);
}
END_TEST

/* Outside of training: the middle window, no turn, no blur. */
START_TEST(nothing_left_to_chance) {
  for (int training = 0; training < 2; training++) {
    aug_kit k;
    kit_open(&k, "augment", "{ crop = 8, degrees = 45, kernel = 3 }", 4, 3, 15, 12, SP_U8, 0, true);
    kit_plan(&k, training);
    kit_forward(&k);
    int32_t *boxes = kit_get(&k, SPT_OUT, BOXES, 0);
    float *angles = kit_get(&k, SPT_OUT, ANGLES, 0), *sigmas = kit_get(&k, SPT_OUT, SIGMAS, 0);
    for (int i = 0; i < 4; i++) {
      bool still = boxes[2 * i] == 4 && boxes[2 * i + 1] == 2 && angles[i] == 0 && sigmas[i] == 0;
      ck_assert_msg(still == !training, "training %d, sample %d: %d %d %g %g", training, i, boxes[2 * i],
                    boxes[2 * i + 1], (double)angles[i], (double)sigmas[i]);
    }
    free(boxes);
    free(angles);
    free(sigmas);
    kit_close(&k);
  }
}
END_TEST

/* Each of the four numbers is uniform, and no two of them know of each other: chi-square below the 99.9 % point. */
START_TEST(draws) {
  enum { N = 4000, BINS = 8 };
  aug_kit k;
  static double v[4][N];
  kit_open(&k, "augment", "{ crop = 2, degrees = 45, kernel = 3, sigma = { 1, 3 } }", N, 1, 17, 9, SP_U8, 0, false);
  kit_plan(&k, 1);
  kit_forward(&k);
  int32_t *boxes = kit_get(&k, SPT_OUT, BOXES, 0);
  float *angles = kit_get(&k, SPT_OUT, ANGLES, 0), *sigmas = kit_get(&k, SPT_OUT, SIGMAS, 0);
  for (int i = 0; i < N; i++) {
    v[0][i] = boxes[2 * i] / 16.0;
    v[1][i] = boxes[2 * i + 1] / 8.0;
    v[2][i] = (angles[i] + 45) / 90;
    v[3][i] = (sigmas[i] - 1) / 2;
  }
  for (int a = 0; a < 4; a++)
    for (int b = 0; b <= a; b++) {
      int count[BINS * BINS] = {0}, bins = a == b ? BINS : BINS * BINS;
      double chi = 0, freedom = bins - 1, q = 2 / (9 * freedom);
      for (int i = 0; i < N; i++) {
        ck_assert_msg(v[a][i] >= 0 && v[a][i] < 1, "number %d of sample %d is outside: %g", a, i, v[a][i]);
        count[a == b ? (int)(v[a][i] * BINS) : (int)(v[a][i] * BINS) * BINS + (int)(v[b][i] * BINS)]++;
      }
      for (int i = 0; i < bins; i++) chi += pow(count[i] - (double)N / bins, 2) / ((double)N / bins);
      ck_assert_msg(chi < freedom * pow(1 - q + 3.0902 * sqrt(q), 3), "numbers %d and %d: chi-square %g", a, b, chi);
    }
  free(boxes);
  free(angles);
  free(sigmas);
  kit_close(&k);
}
END_TEST

START_TEST(refusals) {
  static const struct {
    const char *params, *words;
  } list[] = {
      {"{ crop = 9 }", "a window of 9 x 9 does not fit into images of 8 x 10"},
      {"{ size = { 8, 9 } }", "a window of 8 x 10 cannot become 8 x 9: this stage enlarges only; use the stages"},
      {"{ crop = 4, size = { 3, 20 } }", "a window of 4 x 4 cannot become 3 x 20"},
      {"{ size = { 1048576, 1048576 } }", "more than 1073741824 pixels; choose a smaller 'size'"},
      {"{ degrees = { 20, 10 } }", "degrees = {20, 10}: the first is the lowest angle"},
      {"{ fill = { 1, 2 } }", "fill has 2 numbers, but image 1 has 3 channels"},
      {"{ kernel = 4 }", "a kernel of 4 pixels has no middle"},
      {"{ kernel = { 0, 3 } }", "a kernel of 0 pixels has no middle"},
      {"{ kernel = 3, sigma = -1 }", "a sigma of -1 is not possible"},
      {"{ kernel = { 3, 17 } }", "images of 10 x 8 can be mirrored by 9 x 7 at most"},
      {"{ std = 0 }", "number 1 of 'std' is 0"},
      {"{ mean = { 1, 2 } }", "'mean' has 2 numbers, but image 1 has 3 channels"},
      {"{ mode = \"bilinear\" }", "mode"},
  };
  for (size_t i = 0; i < SP_ARRAY(list); i++) kit_refuses("augment", list[i].params, 2, 3, 8, 10, list[i].words);
  aug_kit k;
  kit_open(&k, "augment", "{ scale = true }", 1, 3, 8, 8, SP_F32, 0, false);
  kit_refused(&k, spt_plan(k.t, 1), "'scale' turns bytes into 0..1, but image 1 is float32");
  kit_close(&k);
  kit_open(&k, "augment", "{ mask_fill = 256 }", 1, 3, 8, 8, SP_U8, 0, true);
  kit_refused(&k, spt_plan(k.t, 1), "mask_fill is 256, but mask 1 is of bytes: 0..255");
  kit_close(&k);
  static const float sigmas[] = {1};
  int64_t one_sample = 1;
  kit_open(&k, "augment", "{}", 1, 3, 8, 8, SP_U8, 0, false);
  kit_ok(&k, spt_input_of(k.t, SIGMAS, SP_F32, 1, &one_sample, 0, sigmas));
  kit_refused(&k, spt_plan(k.t, 1), "'sigmas' is wired, but nothing is blurred: give 'kernel'");
  kit_close(&k);
}
END_TEST

/* What only the values show: the first bad sample is named, and what is wrong. */
START_TEST(bad_values) {
  static const struct {
    int32_t boxes[4];
    float angles[2], sigmas[2];
    const char *words;
  } list[] = {
      {{0, 0, 0, 5}, {1, 2}, {1, 1}, "sample 41: a box on 'boxes' begins at 5, but 0..4 is possible"},
      {{-1, 0, 9, 0}, {NAN, 2}, {1, 1}, "sample 40: a box on 'boxes' begins at -1, but 0..4 is possible"},
      {{0, 0, 0, 0},
       {1, NAN},
       {1, 1},
       "sample 41: its angle on 'angles' is not a finite number, or its number on 'sig"},
      {{0, 0, 9, 0}, {-INFINITY, 1}, {1, 1}, "sample 40: its angle on 'angles' is not a finite number, or"},
      {{0, 0, 0, 0},
       {1, 1},
       {-1, 1},
       "sample 40: its angle on 'angles' is not a finite number, or its number on 'sigm"},
  };
  int64_t two[2] = {2, 2}, three = 3;
  aug_kit k;
  for (size_t i = 0; i < SP_ARRAY(list); i++) {
    kit_open(&k, "augment", "{ crop = 4, kernel = 3 }", 2, 3, 8, 8, SP_U8, 0, false);
    kit_ok(&k, spt_input_of(k.t, BOXES, SP_I32, 2, two, 0, list[i].boxes));
    kit_ok(&k, spt_input_of(k.t, ANGLES, SP_F32, 1, two, 0, list[i].angles));
    kit_ok(&k, spt_input_of(k.t, SIGMAS, SP_F32, 1, two, 0, list[i].sigmas));
    kit_plan(&k, 1);
    spt_set_id(k.t, 0, 40);
    spt_set_id(k.t, 1, 41);
    kit_refused(&k, spt_forward(k.t, 0), list[i].words);
    kit_close(&k);
  }
  static const char *const ports[] = {"boxes", "angles", "sigmas"};
  for (int i = 0; i < 3; i++) {
    char words[60];
    kit_open(&k, "augment", "{ crop = 4, kernel = 3 }", 2, 3, 8, 8, SP_U8, 0, false);
    int64_t wrong[2] = {3, 2};
    kit_ok(&k, i ? spt_input_of(k.t, BOXES + i, SP_F32, 1, &three, 0, NULL)
                 : spt_input_of(k.t, BOXES, SP_I32, 2, wrong, 0, NULL));
    snprintf(words, sizeof words, i ? "'%s' must be 2 numbers, one a sample" : "'%s' must be 2 x 2", ports[i]);
    kit_refused(&k, spt_plan(k.t, 1), words);
    kit_close(&k);
  }
}
END_TEST

int main(void) {
  Suite *s = suite_create("augment");
  TCase *c = tcase_create("augment");
  tcase_set_timeout(c, 600);
  tcase_add_loop_test(c, as_one_by_one, 0, 11);
  tcase_add_test(c, sizes);
  tcase_add_test(c, properties);
  tcase_add_test(c, nothing_left_to_chance);
  tcase_add_test(c, draws);
  tcase_add_test(c, refusals);
  tcase_add_test(c, bad_values);
  suite_add_tcase(s, c);
  return suite_run(s);
}
