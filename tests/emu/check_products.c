/* SPDX-License-Identifier: MIT
 * check_products.c - the CUDA kernels of products, run by the emulator, against plain loops in double: convolutions
 * with few channels, matrix products with few rows.
 */
#include "kernel_kit.h"

/* ---- narrow convolutions ---- */
typedef struct conv {
  int k;
  int64_t in, out, n, h, w;
} conv;

/* y += w * x, dw += dy * x, dx += dy * w */
static void convolve(const conv *s, const kit_value *x, const double *w, double *y, const kit_value *dy, double *dw,
                     double *dx) {
  int p = (s->k - 1) / 2;
  for (int64_t n = 0; n < s->n; n++)
    for (int64_t o = 0; o < s->out; o++)
      for (int64_t i = 0; i < s->in; i++)
        for (int64_t oy = 0; oy < s->h; oy++)
          for (int64_t ox = 0; ox < s->w; ox++)
            for (int t = 0; t < s->k * s->k; t++) {
              int64_t iy = oy + t / s->k - p, ix = ox + t % s->k - p;
              int64_t at = (o * s->k * s->k + t) * s->in + i, to = ((n * s->out + o) * s->h + oy) * s->w + ox;
              int64_t from = ((n * s->in + i) * s->h + iy) * s->w + ix;
              if (iy < 0 || iy >= s->h || ix < 0 || ix >= s->w) continue;
              y[to] += w[at] * x->v[from];
              dw[at] += dy->v[to] * x->v[from];
              dx[from] += dy->v[to] * w[at];
            }
}

static void narrow(conv s, int lx, int ly, int e, int off, int precision) {
  int taps = s.k * s.k, relu = ly == 0;
  double tol = precision == SP_PRECISION_FP32 ? 2e-6 : 2e-3;
  kit_value x = kit_random(s.n, s.in, s.h, s.w, e), dy = kit_random(s.n, s.out, s.h, s.w, e);
  kit_value w = kit_random(1, s.out * taps * s.in, 1, 1, NNK_F32), bias = kit_random(1, s.out, 1, 1, NNK_F32);
  kit_value old = kit_random(s.n, s.in, s.h, s.w, e), m = kit_random(s.n, s.in, s.h, s.w, e);
  kit_value dw = kit_like(&w), y = kit_like(&dy), dx = kit_like(&x), db = kit_like(&bias), scale = kit_like(&bias);
  nnk_map xd = kit_up(&x, e, lx, off), dyd = kit_up(&dy, e, ly, off), yd = kit_up(&dy, e, ly, off);
  nnk_map wd = kit_up(&w, NNK_F32, 0, 0), bd = kit_up(&bias, NNK_F32, 0, 0), dxd = kit_up(&old, e, lx, off);
  nnk_map md = kit_up(&m, e, lx, off), dwd = kit_up(&w, NNK_F32, 0, 0), dbd = kit_up(&bias, NNK_F32, 0, 0);
  scale.v[0] = -0.5;
  nnk_map sd = kit_up(&scale, NNK_F32, 0, 0);
  const char *first = NULL;
  void *work = kit_work(nnk_narrow_weight_work(s.k, &xd, &dyd, KIT_SMS));
  convolve(&s, &x, w.v, y.v, &dy, dw.v, dx.v);
  for (int64_t i = 0; i < y.size; i++) {
    y.v[i] += bias.v[i / (s.h * s.w) % s.out];
    if (relu && y.v[i] < 0) y.v[i] = 0;
    db.v[i / (s.h * s.w) % s.out] += dy.v[i];
  }
  ck_assert(precision == SP_PRECISION_FP32 ? nnk_narrow(s.k, s.in, s.out) : nnk_narrow_tf32(s.k, s.in, s.out));
  for (int i = 0; i < KIT_DEVICES; i++) {
    kit_ok(nnk_narrow_forward(NULL, s.k, &yd, &xd, wd.p, bd.p, relu, precision, kit_devices[i]));
    if (i) kit_same(&yd, first, "narrow forward");
    else first = kit_copy(&yd);
  }
  kit_near(&yd, &y, tol, "narrow forward");
  for (int64_t i = 0; i < dx.size; i++) dx.v[i] = relu && !(m.v[i] > 0) ? 0 : dx.v[i] + (relu ? old.v[i] : 0);
  kit_ok(nnk_narrow_data(NULL, s.k, &dxd, &dyd, wd.p, relu ? &md : NULL, relu, precision, KIT_SMS));
  kit_near(&dxd, &dx, tol, "narrow data");
  for (int64_t i = 0; i < dw.size; i++) dw.v[i] = relu ? w.v[i] - 0.5 * dw.v[i] : dw.v[i];
  kit_ok(nnk_narrow_weight(NULL, s.k, (nnk_sum){dwd.p, relu ? sd.p : NULL, relu}, (nnk_sum){dbd.p, NULL, 0}, &xd, &dyd,
                           precision, work, KIT_SMS));
  kit_near(&dwd, &dw, tol, "narrow weight");
  kit_near(&dbd, &db, 2e-5, "narrow bias");
  kit_free();
}

START_TEST(narrows) {
  static const conv shapes[] = {{3, 16, 10, 1, 32, 16}, {3, 3, 5, 2, 8, 24},    {1, 3, 16, 2, 16, 16},
                                {1, 16, 10, 1, 40, 4},  {3, 10, 16, 1, 16, 36}, {3, 1, 1, 1, 4, 4},
                                {3, 8, 8, 2, 20, 20},   {1, 7, 2, 2, 12, 4},    {3, 12, 11, 1, 28, 20},
                                {3, 32, 16, 1, 20, 20}, {3, 16, 21, 2, 12, 36}, {3, 21, 5, 1, 16, 20},
                                {3, 7, 32, 1, 8, 36},   {3, 18, 8, 1, 16, 32}}; /* the last ones in TF32 alone */
  static const int layouts[][2] = {{2, 0}, {-1, 2}, {0, 0}, {1, -1}};
  for (int s = 0; s < 14; s++)
    for (int l = 0; l < 4; l++)
      for (int precision = s < 9 ? SP_PRECISION_FP32 : SP_PRECISION_TF32; precision <= SP_PRECISION_TF32; precision++)
        narrow(shapes[s], layouts[l][0], layouts[l][1], (s + l) % 3 == 2 ? NNK_BF16 : NNK_F32, (s + l) % 4 == 3,
               precision);
}
END_TEST

/* More tiles than blocks. */
START_TEST(many_tiles) {
  for (int precision = SP_PRECISION_FP32; precision <= SP_PRECISION_TF32; precision++) {
    narrow((conv){3, 4, 2, 2, 80, 96}, 4, 0, NNK_F32, 0, precision);
    narrow((conv){1, 3, 4, 2, 80, 96}, -1, 4, NNK_F32, 0, precision);
  }
  narrow((conv){3, 17, 2, 2, 80, 96}, 0, 0, NNK_F32, 0, SP_PRECISION_TF32);
  ck_assert(!nnk_narrow(3, 17, 2) && !nnk_narrow_tf32(3, 17, 17) && !nnk_narrow_tf32(3, 33, 2) &&
            !nnk_narrow_tf32(1, 17, 2));
}
END_TEST

/* ---- gradients of weights in bfloat16 ---- */
typedef struct few_conv {
  conv s;
  int x_elt, x_layout, dy_elt, dy_layout, off;
} few_conv;

/* dw += dy * x in numbers of bfloat16, db += dy as it is. */
static void few_sums(const conv *s, const kit_value *x, const kit_value *dy, double *dw, double *db) {
  kit_value near_x = kit_like(x), near_dy = kit_like(dy), none = kit_like(x), y = kit_like(dy);
  double *w = calloc((size_t)(s->out * 9 * s->in), sizeof *w);
  for (int64_t i = 0; i < x->size; i++) near_x.v[i] = kit_round(x->v[i], NNK_BF16);
  for (int64_t i = 0; i < dy->size; i++) {
    near_dy.v[i] = kit_round(dy->v[i], NNK_BF16);
    db[i / (s->h * s->w) % s->out] += dy->v[i];
  }
  convolve(s, &near_x, w, y.v, &near_dy, dw, none.v);
  free(w);
}

/* Twice, which must give the same bits. */
static void few_weight(few_conv f, int add) {
  conv s = f.s;
  kit_value x = kit_random(s.n, s.in, s.h, s.w, f.x_elt), dy = kit_random(s.n, s.out, s.h, s.w, f.dy_elt);
  kit_value w = kit_random(1, s.out * 9 * s.in, 1, 1, NNK_F32), b = kit_random(1, s.out, 1, 1, NNK_F32);
  kit_value dw = kit_like(&w), db = kit_like(&b), scale = kit_like(&b);
  scale.v[0] = -0.5;
  nnk_map xd = kit_up(&x, f.x_elt, f.x_layout, f.off), dyd = kit_up(&dy, f.dy_elt, f.dy_layout, f.off);
  nnk_map sd = kit_up(&scale, NNK_F32, 0, 0), wd[2], bd[2];
  void *work = kit_work(nnk_narrow_weight_work(3, &xd, &dyd, KIT_SMS));
  char *first = calloc((size_t)w.size, 4), *second = calloc((size_t)w.size, 4);
  few_sums(&s, &x, &dy, dw.v, db.v);
  for (int i = 0; i < 2; i++) {
    wd[i] = kit_up(&w, NNK_F32, 0, 0), bd[i] = kit_up(&b, NNK_F32, 0, 0);
    nnk_sum to_w = {wd[i].p, add ? sd.p : NULL, add}, to_b = {bd[i].p, NULL, add};
    kit_ok(nnk_narrow_weight(NULL, 3, to_w, to_b, &xd, &dyd, SP_PRECISION_BF16, work, KIT_SMS));
  }
  kit_bytes(first, wd[0].p, (size_t)w.size * 4);
  kit_bytes(second, wd[1].p, (size_t)w.size * 4);
  ck_assert_mem_eq(first, second, (size_t)w.size * 4);
  for (int64_t i = 0; i < w.size && add; i++) dw.v[i] = w.v[i] - 0.5 * dw.v[i];
  for (int64_t i = 0; i < b.size && add; i++) db.v[i] += b.v[i];
  kit_near(&wd[0], &dw, 5e-6, "weights");
  kit_near(&bd[0], &db, 5e-6, "bias");
  free(first);
  free(second);
  kit_free();
}

START_TEST(few_weights) {
  kit_ok(nnk_narrow_prepare());
  static const few_conv all[] = {
      {{3, 16, 16, 1, 40, 48}, NNK_BF16, 0, NNK_BF16, 0, 0}, {{3, 32, 16, 2, 21, 19}, NNK_BF16, 0, NNK_BF16, 0, 0},
      {{3, 16, 21, 1, 18, 40}, NNK_BF16, 0, NNK_F32, 0, 0},  {{3, 16, 21, 2, 12, 24}, NNK_BF16, 0, NNK_BF16, 0, 0},
      {{3, 32, 32, 1, 17, 33}, NNK_BF16, 0, NNK_BF16, 0, 0}, {{3, 32, 24, 1, 9, 16}, NNK_BF16, 0, NNK_BF16, 0, 0},
      {{3, 5, 7, 2, 11, 13}, NNK_BF16, 0, NNK_BF16, 0, 0},   {{3, 5, 7, 1, 11, 13}, NNK_F32, 0, NNK_F32, 0, 1},
      {{3, 3, 16, 1, 20, 12}, NNK_F32, -1, NNK_BF16, 0, 0},  {{3, 20, 30, 1, 16, 20}, NNK_BF16, 2, NNK_F32, -1, 0},
      {{3, 24, 8, 1, 24, 16}, NNK_BF16, 3, NNK_BF16, 2, 0},  {{3, 32, 16, 1, 8, 20}, NNK_BF16, -1, NNK_BF16, -1, 0},
      {{3, 16, 16, 1, 12, 20}, NNK_F32, 0, NNK_F32, 0, 0},   {{3, 8, 17, 1, 1, 1}, NNK_BF16, 0, NNK_BF16, 0, 0}};
  for (int i = 0; i < 14; i++) few_weight(all[i], i % 2);
}
END_TEST

/* More tiles than warps, of which some have one tile more than others. */
START_TEST(few_tiles) {
  kit_ok(nnk_narrow_prepare());
  few_weight((few_conv){{3, 3, 2, 1, 3, 560}, NNK_BF16, 0, NNK_BF16, 0, 0}, 0);
  few_weight((few_conv){{3, 17, 17, 1, 2, 288}, NNK_BF16, 0, NNK_BF16, 0, 0}, 1);
}
END_TEST

/* ---- forward and data gradient in bfloat16 ---- */
/* Numbers that bfloat16 holds, in a map of elements e. */
static nnk_map exact(kit_value *x, const conv *s, int64_t c, int e, int layout, int off) {
  *x = kit_random(s->n, c, s->h, s->w, NNK_BF16);
  return kit_up(x, e, layout, off);
}

/* plain: without bias, ReLU, mask and sum. */
static void few_forward(const few_conv *f, int plain) {
  const conv *s = &f->s;
  kit_value x, dy, old, m, w = kit_random(1, s->out * 9 * s->in, 1, 1, NNK_BF16), bias = kit_random(1, s->out, 1, 1, 0);
  nnk_map xd = exact(&x, s, s->in, f->x_elt, f->x_layout, f->off),
          dxd = exact(&old, s, s->in, f->x_elt, f->x_layout, f->off);
  nnk_map md = exact(&m, s, s->in, f->x_elt, f->x_layout, f->off),
          dyd = exact(&dy, s, s->out, f->dy_elt, f->dy_layout, f->off);
  nnk_map wd = kit_up(&w, NNK_F32, 0, 0), bd = kit_up(&bias, NNK_F32, 0, 0), yd = dyd;
  kit_value y = kit_like(&dy), dx = kit_like(&x), dw = kit_like(&w);
  convolve(s, &x, w.v, y.v, &dy, dw.v, dx.v);
  ck_assert(nnk_narrow_bf16(3, s->in, s->out));
  kit_ok(nnk_narrow_data(NULL, 3, &dxd, &dyd, wd.p, plain ? NULL : &md, !plain, SP_PRECISION_BF16, KIT_SMS));
  for (int64_t i = 0; i < dx.size && !plain; i++) dx.v[i] = m.v[i] > 0 ? dx.v[i] + old.v[i] : 0;
  kit_near(&dxd, &dx, 2e-6, "data in bfloat16");
  kit_ok(nnk_narrow_forward(NULL, 3, &yd, &xd, wd.p, plain ? NULL : bd.p, !plain, SP_PRECISION_BF16, KIT_SMS));
  for (int64_t i = 0; i < y.size && !plain; i++) y.v[i] = fmax(y.v[i] + bias.v[i / (s->h * s->w) % s->out], 0);
  kit_near(&yd, &y, 2e-6, "forward in bfloat16");
  kit_free();
}

START_TEST(few_forwards) {
  enum { F = NNK_F32, B = NNK_BF16 };
  static const few_conv all[] = {
      {{3, 16, 16, 2, 20, 40}, B, 0, B, 0, 0}, {{3, 32, 16, 1, 17, 33}, B, 0, B, 0, 0},
      {{3, 32, 32, 1, 36, 24}, B, 0, B, 0, 0}, {{3, 16, 21, 1, 19, 44}, B, 0, F, 0, 0},
      {{3, 16, 21, 2, 6, 35}, B, 0, F, 0, 0},  {{3, 16, 24, 1, 8, 40}, B, 0, B, 3, 0},
      {{3, 21, 16, 1, 18, 36}, B, 0, B, 0, 0}, {{3, 24, 8, 1, 20, 36}, F, -1, B, 1, 0},
      {{3, 5, 7, 1, 9, 37}, F, 0, F, 0, 1},    {{3, 3, 32, 1, 24, 40}, F, -1, B, 0, 0},
      {{3, 5, 7, 2, 8, 24}, B, 2, B, -1, 0},   {{3, 1, 1, 1, 1, 1}, F, 0, F, 0, 0},
      {{3, 8, 24, 1, 16, 32}, B, 3, B, 0, 0},  {{3, 32, 30, 1, 12, 20}, F, 0, F, 0, 0},
      {{3, 16, 8, 1, 10, 12}, B, 0, B, 1, 1},  {{3, 32, 8, 12, 2, 4}, B, 0, F, 0, 0} /* more tiles than blocks */
  };
  kit_ok(nnk_narrow_prepare());
  ck_assert(!nnk_narrow_bf16(3, 33, 16) && !nnk_narrow_bf16(3, 16, 33) && !nnk_narrow_bf16(1, 32, 16));
  for (int i = 0; i < 16; i++) few_forward(&all[i], i % 2);
}
END_TEST

/* ---- skinny products ---- */
static void skinny(int64_t m, int64_t n, int64_t k, int e, int we, int off) {
  int flag = (int)(m + n) % 2;
  kit_value x = kit_random(1, m * k, 1, 1, e), w = kit_random(1, n * k, 1, 1, we), dy = kit_random(1, m * n, 1, 1, e);
  kit_value bias = kit_random(1, n, 1, 1, NNK_F32), mask = kit_random(1, m * k, 1, 1, e),
            old = kit_random(1, m * k, 1, 1, e);
  kit_value y = kit_like(&dy), dx = kit_like(&x), dw = kit_random(1, n * k, 1, 1, NNK_F32), scale = kit_like(&bias);
  scale.v[0] = -0.25;
  nnk_map xd = kit_up(&x, e, 0, off), wd = kit_up(&w, we, 0, off), dyd = kit_up(&dy, e, 0, 0),
          yd = kit_up(&dy, e, 0, 0);
  nnk_map bd = kit_up(&bias, NNK_F32, 0, 0), md = kit_up(&mask, e, 0, 0), dxd = kit_up(&old, e, 0, 0);
  nnk_map dwd = kit_up(&dw, NNK_F32, 0, off), sd = kit_up(&scale, NNK_F32, 0, 0);
  void *work = kit_work(nnk_skinny_work(m, n, k));
  for (int64_t i = 0; i < n * k && !flag; i++) dw.v[i] = 0;
  for (int64_t a = 0; a < m; a++)
    for (int64_t b = 0; b < n; b++)
      for (int64_t c = 0; c < k; c++) {
        y.v[a * n + b] += x.v[a * k + c] * w.v[b * k + c];
        dx.v[a * k + c] += dy.v[a * n + b] * w.v[b * k + c];
        dw.v[b * k + c] += (flag ? -0.25 : 1) * dy.v[a * n + b] * x.v[a * k + c];
      }
  for (int64_t i = 0; i < m * n && flag; i++) y.v[i] = fmax(y.v[i] + bias.v[i % n], 0);
  for (int64_t i = 0; i < m * k && flag; i++) dx.v[i] = mask.v[i] > 0 ? dx.v[i] + old.v[i] : 0;
  kit_ok(nnk_skinny_forward(NULL, e, yd.p, xd.p, we, wd.p, flag ? bd.p : NULL, flag, m, n, k, work));
  kit_near(&yd, &y, 3e-6, "skinny forward");
  kit_ok(nnk_skinny_data(NULL, e, dxd.p, dyd.p, we, wd.p, flag ? md.p : NULL, flag, m, n, k, work));
  kit_near(&dxd, &dx, 3e-6, "skinny data");
  kit_ok(nnk_skinny_weight(NULL, e, (nnk_sum){dwd.p, flag ? sd.p : NULL, flag}, dyd.p, xd.p, m, n, k));
  kit_near(&dwd, &dw, 3e-6, "skinny weight");
  kit_free();
}

START_TEST(skinnies) {
  static const int64_t shapes[][3] = {{8, 40, 1156}, {1, 3, 5},      {5, 70, 33},   {8, 600, 132}, {16, 65, 520},
                                      {9, 130, 128}, {32, 300, 264}, {17, 10, 514}, {3, 1, 4096}};
  for (int s = 0; s < 9; s++)
    for (int e = 0; e < 2; e++)
      for (int we = 0; we < 2; we++) skinny(shapes[s][0], shapes[s][1], shapes[s][2], e, we, (s + e + we) % 3 == 1);
}
END_TEST

/* ---- large weights over few rows ---- */
typedef struct large {
  int64_t m, n, k, cols;    /* 0: without the sums of columns */
  int add, scaled, columns; /* columns: only their sums */
} large;

/* Factors that bfloat16 holds are not rounded to TF32, so that only the order of the sums differs. */
static void outer(large s, int exact) {
  int e = exact ? NNK_BF16 : NNK_F32;
  double tol = exact ? 3e-6 : 2e-3, scale = s.scaled ? -0.25 : 1;
  kit_value x = kit_random(1, s.m * s.k, 1, 1, e), dy = kit_random(1, s.m * s.n, 1, 1, e);
  kit_value dw = kit_random(1, s.n * s.k, 1, 1, NNK_F32), db = kit_random(1, s.cols ? s.cols : 1, 1, 1, NNK_F32);
  kit_value by = kit_like(&db);
  by.v[0] = scale;
  nnk_map xd = kit_up(&x, NNK_F32, 0, 0), dyd = kit_up(&dy, NNK_F32, 0, 0), dwd = kit_up(&dw, NNK_F32, 0, 0),
          dbd = kit_up(&db, NNK_F32, 0, 0), sd = kit_up(&by, NNK_F32, 0, 0);
  for (int64_t i = 0; i < dw.size && !s.add && !s.columns; i++) dw.v[i] = 0;
  for (int64_t i = 0; i < s.cols && !s.add; i++) db.v[i] = 0;
  for (int64_t i = 0; i < s.m; i++)
    for (int64_t o = 0; o < s.n; o++) {
      double g = scale * dy.v[i * s.n + o];
      if (s.cols) db.v[o % s.cols] += g;
      for (int64_t c = 0; c < s.k && !s.columns; c++) dw.v[o * s.k + c] += g * x.v[i * s.k + c];
    }
  nnk_outer of = {dyd.p, xd.p, s.m, s.n, s.k, {dwd.p, s.scaled ? sd.p : NULL, s.add}, {NULL, NULL, 0}, s.cols};
  if (s.cols) of.db = (nnk_sum){dbd.p, s.scaled ? sd.p : NULL, s.add};
  if (s.columns) of.dw.p = NULL;
  ck_assert(s.columns || nnk_outer_takes(s.m, s.n, s.k, NNK_F32, 1));
  kit_ok(nnk_outer_weight(NULL, &of));
  kit_near(&dwd, &dw, tol, "large weight");
  kit_near(&dbd, &db, tol, "sums of columns");
  kit_free();
}

START_TEST(outers) {
  static const large all[] = {
      {1, 64, 64, 64, 1, 1, 0},  {8, 64, 192, 0, 0, 0, 0},   {33, 128, 64, 32, 1, 0, 0}, {64, 192, 128, 12, 0, 1, 0},
      {97, 64, 64, 16, 1, 1, 0}, {256, 64, 128, 4, 1, 1, 0}, {32, 64, 64, 8, 0, 0, 0},   {300, 33, 5, 11, 1, 1, 1},
  };
  ck_assert(!nnk_outer_takes(16, 96, 64, NNK_F32, 1) && !nnk_outer_takes(16, 64, 32, NNK_F32, 1));
  ck_assert(!nnk_outer_takes(NNK_OUTER + 1, 64, 64, NNK_F32, 1) && !nnk_outer_takes(0, 64, 64, NNK_F32, 1));
  ck_assert(!nnk_outer_takes(16, 64, 64, NNK_BF16, 1) && !nnk_outer_takes(16, 64, 64, NNK_F32, 0));
  for (int i = 0; i < 16; i++) outer(all[i / 2], i % 2);
}
END_TEST

/* ---- gradients of a product's input, masked ---- */
typedef struct masking {
  int64_t m, n, k, cols;
  int rows, sums;
} masking;

static void masked(masking s, int exact) {
  int e = exact ? NNK_BF16 : NNK_F32;
  double tol = exact ? 3e-6 : 2e-3;
  kit_value dy = kit_random(1, s.m * s.n, 1, 1, e), w = kit_random(1, s.n * s.k, 1, 1, e);
  kit_value x = kit_random(1, s.m * s.k, 1, 1, NNK_F32), dx = kit_random(1, s.m * s.k, 1, 1, NNK_F32);
  kit_value sums = kit_random(1, s.cols, 1, 1, NNK_F32);
  nnk_map dyd = kit_up(&dy, NNK_F32, 0, 0), wd = kit_up(&w, NNK_F32, 0, 0), xd = kit_up(&x, NNK_F32, 0, 0),
          dxd = kit_up(&dx, NNK_F32, 0, 0), sd = kit_up(&sums, NNK_F32, 0, 0);
  size_t bytes = nnk_masked_work(s.m, s.n, s.k, s.cols);
  nnk_masked of = {dxd.p, dyd.p, wd.p, xd.p, s.m, s.n, s.k, s.cols, s.sums ? kit_work(bytes) : NULL};
  nnk_pieces all = {{sd.p, NULL, 0}, of.sums, s.cols, s.cols, 0};
  for (int64_t j = 0; j < s.cols && s.sums; j++) sums.v[j] = 0;
  for (int64_t i = 0; i < s.m; i++)
    for (int64_t c = 0; c < s.k; c++) {
      double v = 0;
      for (int64_t o = 0; o < s.n; o++) v += dy.v[i * s.n + o] * w.v[o * s.k + c];
      if (!(x.v[i * s.k + c] > 0)) v = 0;
      dx.v[i * s.k + c] = v;
      if (s.sums) sums.v[c % s.cols] += v;
    }
  ck_assert(nnk_masked_takes(s.m, s.n, s.k, s.cols, NNK_F32, 1, KIT_SHARED));
  kit_ok(nnk_masked_prepare());
  kit_ok(nnk_masked_data(NULL, s.rows, &of, &all.pieces));
  ck_assert_uint_le((size_t)(all.pieces * s.cols) * sizeof(float), bytes);
  if (s.sums) kit_ok(nnk_add_pieces(NULL, 1, &all));
  kit_near(&dxd, &dx, tol, "masked data");
  kit_near(&sd, &sums, tol, "sums of its columns");
  kit_free();
}

START_TEST(masks) {
  static const masking all[] = {{64, 32, 128, 32, 64, 1},     {64, 64, 128, 128, 128, 1}, {200, 96, 256, 64, 64, 1},
                                {200, 32, 512, 256, 128, 1},  {130, 32, 384, 128, 64, 1}, {300, 160, 128, 1, 64, 1},
                                {129, 128, 384, 128, 128, 0}, {65, 32, 128, 64, 64, 0}};
  ck_assert(!nnk_masked_takes(63, 32, 128, 32, NNK_F32, 1, KIT_SHARED) &&
            !nnk_masked_takes(64, 48, 128, 32, NNK_F32, 1, KIT_SHARED));
  ck_assert(!nnk_masked_takes(64, 32, 192, 64, NNK_F32, 1, KIT_SHARED) &&
            !nnk_masked_takes(64, 32, 384, 96, NNK_F32, 1, KIT_SHARED));
  ck_assert(!nnk_masked_takes(64, 32, 128, 32, NNK_BF16, 1, KIT_SHARED) &&
            !nnk_masked_takes(64, 32, 128, 32, NNK_F32, 0, KIT_SHARED));
  ck_assert(!nnk_masked_takes(64, 32, 128, 32, NNK_F32, 1, 48 << 10));
  for (int i = 0; i < 16; i++) masked(all[i / 2], i % 2);
  ck_assert_uint_eq(nnk_masked_work(64, 48, 128, 32), 0);
}
END_TEST

/* Memory that is planned for a batch serves smaller ones. */
START_TEST(work_sizes) {
  for (int64_t m = 1; m < NNK_SKINNY; m++)
    ck_assert_uint_le(nnk_skinny_work(m, 1000, 3000), nnk_skinny_work(m + 1, 1000, 3000));
  for (int64_t n = 1; n < 9; n++) {
    nnk_map few = {NULL, 0, 0, n, 16, 36, 20}, more = few;
    more.n = n + 1;
    ck_assert_uint_le(nnk_bias_grad_work(&few), nnk_bias_grad_work(&more));
    ck_assert_uint_le(nnk_norm_work(&few), nnk_norm_work(&more));
    ck_assert_uint_le(nnk_narrow_weight_work(3, &few, &few, KIT_SMS), nnk_narrow_weight_work(3, &more, &more, KIT_SMS));
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("products");
  TCase *c = tcase_create("products");
  tcase_set_timeout(c, 900);
  tcase_add_test(c, narrows);
  tcase_add_test(c, many_tiles);
  tcase_add_test(c, few_weights);
  tcase_add_test(c, few_tiles);
  tcase_add_test(c, few_forwards);
  tcase_add_test(c, skinnies);
  tcase_add_test(c, outers);
  tcase_add_test(c, masks);
  tcase_add_test(c, work_sizes);
  suite_add_tcase(suite, c);
  return kit_run(suite);
}
