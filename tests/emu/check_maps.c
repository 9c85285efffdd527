/* SPDX-License-Identifier: MIT
 * check_maps.c - the CUDA kernels of networks, run by the emulator, against plain loops in double: elementwise, sums
 * over pixels, batch norm, pooling. check_products.c has the products.
 */
#include "kernel_kit.h"

static const int layouts[] = {-1, 0, 1, 2};
static const int channels[] = {1, 3, 8, 10, 36};

/* ---- moving ---- */
START_TEST(copies) {
  for (int ci = 0; ci < 5; ci++)
    for (int from = 0; from < 4; from++)
      for (int to = 0; to < 4; to++) {
        int e = (from + to + ci) % 2, e2 = (from + ci) / 2 % 2, add = ci % 2, masked = to % 2;
        kit_value x = kit_random(2, channels[ci], 12, 8, e), old = kit_random(2, channels[ci], 12, 8, e2);
        kit_value m = kit_random(2, channels[ci], 12, 8, e2), want = kit_like(&x);
        nnk_map xd = kit_up(&x, e, layouts[from], ci == 2), yd = kit_up(&old, e2, layouts[to], ci == 2);
        nnk_map md = kit_up(&m, e2, layouts[to], 0);
        for (int64_t i = 0; i < x.size; i++) want.v[i] = (masked && !(m.v[i] > 0) ? 0 : x.v[i]) + (add ? old.v[i] : 0);
        if (masked) kit_ok(nnk_mask(NULL, &yd, &xd, &md, add));
        else kit_ok(nnk_copy(NULL, &yd, &xd, add));
        kit_near(&yd, &want, 1e-7, "copy");
        xd.n = 0, yd.n = 0;
        kit_ok(nnk_copy(NULL, &yd, &xd, add));
        kit_free();
      }
}
END_TEST

START_TEST(elementwise) {
  for (int ci = 0; ci < 5; ci++)
    for (int l = 0; l < 3; l++)
      for (int off = 0; off < 2; off++) {
        int e = (ci + l + off) % 2, relu = l % 2;
        int64_t c = channels[ci];
        kit_value a = kit_random(2, c, 4, 6, e), b = kit_random(2, c, 4, 6, e), want = kit_like(&a);
        nnk_map ad = kit_up(&a, e, layouts[l], off), bd = kit_up(&b, e, layouts[l], 0),
                yd = kit_up(&b, e, layouts[l], off);
        kit_value bias = kit_random(1, c, 1, 1, NNK_F32);
        nnk_map biasd = kit_up(&bias, NNK_F32, 0, 0);
        for (int64_t i = 0; i < a.size; i++) want.v[i] = a.v[i] > 0 ? a.v[i] : 0;
        kit_ok(nnk_relu(NULL, &yd, &ad));
        kit_near(&yd, &want, 1e-7, "relu");
        for (int64_t i = 0; i < a.size; i++) {
          double s = a.v[i] + b.v[i];
          want.v[i] = relu && s < 0 ? 0 : s;
        }
        kit_ok(nnk_add(NULL, &yd, &ad, &bd, relu));
        kit_near(&yd, &want, 1e-7, "add");
        for (int plus = 0; plus < 2; plus++) {
          for (int64_t i = 0; i < a.size; i++) {
            double s = a.v[i] + bias.v[i / 24 % c] + (plus ? b.v[i] : 0);
            want.v[i] = relu && s < 0 ? 0 : s;
          }
          kit_ok(nnk_bias_relu(NULL, &yd, &ad, biasd.p, plus ? &bd : NULL, relu));
          kit_near(&yd, &want, 2e-7, plus ? "bias and a map" : "bias");
        }
        kit_free();
      }
}
END_TEST

START_TEST(parts) {
  static const int cs[][2] = {{4, 8}, {3, 5}, {2, 4}, {1, 1}};
  for (int k = 0; k < 4; k++)
    for (int l = 0; l < 3; l++) {
      int e = k % 2, ca = cs[k][0], cb = cs[k][1], add = l == 1, masked = l != 1;
      kit_value a = kit_random(2, ca, 4, 2, e), b = kit_random(2, cb, 4, 2, e), y = kit_random(2, ca + cb, 4, 2, e);
      kit_value m = kit_random(2, cb, 4, 2, e), want = kit_like(&y), part = kit_like(&b);
      nnk_map ad = kit_up(&a, e, layouts[l], 0), bd = kit_up(&b, e, layouts[l], 0), yd = kit_up(&y, e, layouts[l], 0);
      nnk_map md = kit_up(&m, e, layouts[l], 0);
      for (int n = 0; n < 2; n++)
        for (int c = 0; c < ca + cb; c++)
          for (int p = 0; p < 8; p++)
            want.v[(n * (ca + cb) + c) * 8 + p] = c < ca ? a.v[(n * ca + c) * 8 + p] : b.v[(n * cb + c - ca) * 8 + p];
      kit_ok(nnk_concat(NULL, &yd, 2, (nnk_map[]){ad, bd}));
      kit_near(&yd, &want, 1e-7, "concat");
      for (int n = 0; n < 2; n++)
        for (int c = 0; c < cb; c++)
          for (int p = 0; p < 8; p++) {
            int64_t i = (n * cb + c) * 8 + p;
            double g = want.v[(n * (ca + cb) + ca + c) * 8 + p];
            part.v[i] = (masked && !(m.v[i] > 0) ? 0 : g) + (add ? b.v[i] : 0);
          }
      kit_ok(nnk_split(NULL, &bd, &yd, ca, masked ? &md : NULL, add));
      kit_near(&bd, &part, 1e-7, "split");
      kit_free();
    }
}
END_TEST

/* A part, of either type, of which each pixel is some of the whole; its gradient is their sum. */
static void enlarge(int down, int right, int64_t c, int64_t rest, int e, int add) {
  kit_value a = kit_random(2, rest, 4 * down, 3 * right, e), b = kit_random(2, c, 4, 3, !e);
  kit_value y = kit_random(2, c + rest, a.h, a.w, NNK_BF16), m = kit_random(2, c, 4, 3, e), dx = kit_like(&b);
  kit_value old = kit_random(2, c, 4, 3, e), want = kit_like(&y);
  nnk_map ad = kit_up(&a, e, 0, 0), bd = kit_up(&b, !e, 0, 0), yd = kit_up(&y, NNK_BF16, 0, 0);
  nnk_map dxd = kit_up(&old, e, 0, 0), md = kit_up(&m, e, 0, 0), dyd = kit_up(&y, NNK_BF16, 0, 0);
  for (int64_t i = 0; i < y.size; i++) {
    int64_t px = i % (y.h * y.w), ch = i / (y.h * y.w) % y.c, n = i / (y.h * y.w * y.c);
    int64_t from = ((n * c + ch - rest) * 4 + px / y.w / down) * 3 + px % y.w / right;
    want.v[i] = kit_round(ch < rest ? a.v[(n * rest + ch) * a.h * a.w + px] : b.v[from], NNK_BF16);
    if (ch >= rest) dx.v[from] += y.v[i];
  }
  for (int64_t i = 0; i < dx.size; i++) dx.v[i] = add ? dx.v[i] + old.v[i] : m.v[i] > 0 ? dx.v[i] : 0;
  kit_ok(nnk_concat(NULL, &yd, 2, (nnk_map[]){ad, bd}));
  kit_near(&yd, &want, 0, "concat of a smaller map");
  kit_ok(nnk_split(NULL, &dxd, &dyd, rest, add ? NULL : &md, add));
  kit_near(&dxd, &dx, 1e-6, "its gradient");
  ad.w--;
  ck_assert_int_ne(nnk_concat(NULL, &yd, 2, (nnk_map[]){ad, bd}), cudaSuccess);
  kit_free();
}

START_TEST(enlarged_parts) {
  static const int by[][2] = {{1, 1}, {2, 2}, {3, 1}, {2, 3}, {4, 4}};
  static const int64_t cs[][2] = {{8, 16}, {4, 8}, {6, 2}, {3, 5}};
  for (int i = 0; i < 5; i++)
    for (int k = 0; k < 4; k++)
      for (int e = 0; e < 4; e++) enlarge(by[i][0], by[i][1], cs[k][0], cs[k][1], e % 2, e / 2);
}
END_TEST

/* As many as there may be, of both types. */
START_TEST(many_parts) {
  for (int l = 0; l < 3; l++) {
    static const int cs[] = {4, 8, 2, 6, 1, 3, 5, 12, 4, 4, 4, 7, 1, 2, 2, 3};
    kit_value x[16], want = kit_random(2, 68, 4, 2, NNK_F32);
    nnk_map all[16], y = kit_up(&want, NNK_F32, layouts[l], 0);
    for (int k = 0, first = 0; k < 16; first += cs[k++]) {
      x[k] = kit_random(2, cs[k], 4, 2, k % 2);
      all[k] = kit_up(&x[k], k % 2, layouts[l], 0);
      for (int i = 0; i < x[k].size; i++) want.v[i / (cs[k] * 8) * 68 * 8 + first * 8 + i % (cs[k] * 8)] = x[k].v[i];
    }
    kit_ok(nnk_concat(NULL, &y, 16, all));
    kit_near(&y, &want, 1e-7, "concat of 16");
    kit_free();
  }
}
END_TEST

START_TEST(lists) {
  static const int64_t count[] = {5, 9000, 4096, 4097}, period[] = {5, 3, 1024, 4096};
  void *half[4];
  const float *src[4];
  float *dst[4];
  kit_value x[4];
  nnk_map h[4], d[4];
  for (int k = 0; k < 4; k++) {
    x[k] = kit_random(1, count[k], 1, 1, NNK_F32);
    kit_value zero = kit_like(&x[k]);
    nnk_map s = kit_up(&x[k], NNK_F32, 0, k == 3);
    h[k] = kit_up(&zero, NNK_BF16, 0, 0), d[k] = kit_up(&zero, NNK_F32, 0, 0);
    src[k] = s.p, half[k] = h[k].p, dst[k] = d[k].p;
  }
  kit_ok(nnk_cast(NULL, 4, half, src, count));
  kit_ok(nnk_repeat(NULL, 4, dst, src, count, period));
  kit_ok(nnk_axpy(NULL, (nnk_sum){dst[1], src[0], 1}, NNK_F32, src[2], 4001));
  kit_ok(nnk_axpy(NULL, (nnk_sum){dst[2], src[0], 1}, NNK_BF16, half[1], 4096));
  for (int k = 0; k < 4; k++) {
    kit_value want = kit_like(&x[k]);
    for (int64_t i = 0; i < count[k]; i++) {
      want.v[i] = x[k].v[i % period[k]];
      if (k == 1 && i < 4001) want.v[i] += x[0].v[0] * x[2].v[i];
      if (k == 2) want.v[i] += x[0].v[0] * kit_round(x[1].v[i], NNK_BF16);
    }
    kit_near(&d[k], &want, 1e-6, "repeat");
    for (int64_t i = 0; i < count[k]; i++) want.v[i] = kit_round(x[k].v[i], NNK_BF16);
    kit_near(&h[k], &want, 0, "cast");
  }
  kit_free();
}
END_TEST

/* ---- sums over pixels ---- */
typedef struct shape {
  int64_t n, c, h, w;
} shape;

static const shape shapes[] = {{1, 3, 1, 1}, {2, 10, 16, 24}, {3, 16, 32, 32}, {4, 200, 2, 2}, {2, 36, 20, 8}};

START_TEST(bias_gradients) {
  for (int s = 0; s < 5; s++)
    for (int l = 0; l < 2; l++)
      for (int e = 0; e < 2; e++) {
        shape z = shapes[s];
        kit_value dy = kit_random(z.n, z.c, z.h, z.w, e), g = kit_random(1, z.c, 1, 1, NNK_F32), want = kit_like(&g);
        kit_value scale = kit_random(1, 1, 1, 1, NNK_F32);
        nnk_map dyd = kit_up(&dy, e, layouts[l], e), gd = kit_up(&g, NNK_F32, 0, 0), sd = kit_up(&scale, NNK_F32, 0, 0);
        void *work = kit_work(nnk_bias_grad_work(&dyd));
        for (int64_t c = 0; c < z.c; c++) want.v[c] = g.v[c];
        for (int64_t i = 0; i < dy.size; i++) want.v[i / (z.h * z.w) % z.c] += scale.v[0] * dy.v[i];
        kit_ok(nnk_bias_grad(NULL, (nnk_sum){gd.p, sd.p, 1}, &dyd, work));
        kit_near(&gd, &want, 1e-5, "bias gradient");
        kit_free();
      }
}
END_TEST

/* Masked on the way, from both layouts and types; the pieces of both maps are added up in one launch. */
START_TEST(masked_sums) {
  for (int s = 0; s < 5; s++)
    for (int l = 0; l < 4; l++)
      for (int e = 0; e < 2; e++) {
        shape z = shapes[s];
        int far = l == 3;
        kit_value dy = kit_random(z.n, z.c, z.h, z.w, e), m = kit_random(z.n, z.c, z.h, z.w, e), dx = kit_like(&dy);
        kit_value g = kit_random(1, z.c, 1, 1, NNK_F32), want = kit_like(&g), plain = kit_like(&g);
        kit_value scale = kit_random(1, 1, 1, 1, NNK_F32);
        nnk_map dyd = kit_up(&dy, e, layouts[l / 2], 0), md = kit_up(&m, e, layouts[l / 2], 0);
        nnk_map dxd = far ? kit_up(&dx, !e, 1 - layouts[l / 2], 0) : dyd, gd = kit_up(&g, NNK_F32, 0, 0);
        nnk_map sd = kit_up(&scale, NNK_F32, 0, 0), hd = kit_up(&plain, NNK_F32, 0, 0);
        if (far) md = kit_up(&m, !e, dxd.layout, 0);
        nnk_pieces list[2] = {{{gd.p, sd.p, 1}, kit_work(nnk_bias_grad_work(&dxd)), z.c, z.c, 0},
                              {{hd.p, NULL, 0}, kit_work(nnk_bias_grad_work(&dyd)), z.c, z.c, 0}};
        for (int64_t i = 0; i < dy.size; i++) {
          int64_t c = i / (z.h * z.w) % z.c;
          dx.v[i] = m.v[i] > 0 ? dy.v[i] : 0;
          if (far) dx.v[i] = kit_round(dx.v[i], !e);
          want.v[c] += scale.v[0] * dx.v[i];
          plain.v[c] += dy.v[i];
        }
        for (int64_t c = 0; c < z.c; c++) want.v[c] += g.v[c];
        kit_ok(nnk_bias_pieces(NULL, &dyd, (float *)list[1].parts, &list[1].pieces));
        kit_ok(nnk_mask_pieces(NULL, &dxd, &dyd, &md, (float *)list[0].parts, &list[0].pieces));
        kit_ok(nnk_add_pieces(NULL, 2, list));
        kit_near(&dxd, &dx, 1e-7, "masked");
        kit_near(&gd, &want, 1e-5, "sums of a masked gradient");
        kit_near(&hd, &plain, 1e-5, "sums of a gradient");
        kit_free();
      }
}
END_TEST

typedef struct norm {
  double mean[256], inv[256], var[256];
} norm;

static norm norm_of(const kit_value *x, double eps) {
  norm r = {0};
  int64_t px = x->h * x->w, rows = x->n * px;
  for (int64_t i = 0; i < x->size; i++) r.mean[i / px % x->c] += x->v[i] / (double)rows;
  for (int64_t i = 0; i < x->size; i++) {
    double d = x->v[i] - r.mean[i / px % x->c];
    r.var[i / px % x->c] += d * d / (double)rows;
  }
  for (int64_t c = 0; c < x->c; c++) r.inv[c] = 1 / sqrt(r.var[c] + eps);
  return r;
}

static void batch_norm(shape z, int layout, int e, int batch, double shift) {
  kit_value x = kit_random(z.n, z.c, z.h, z.w, NNK_F32), dy = kit_random(z.n, z.c, z.h, z.w, e);
  for (int64_t i = 0; i < x.size; i++) x.v[i] = kit_round(x.v[i] + shift, e);
  kit_value vec[4], want = kit_like(&x), st = kit_random(1, 2 * z.c, 1, 1, NNK_F32), count = kit_like(&st);
  nnk_map v[4], cd;
  for (int i = 0; i < 4; i++) {
    vec[i] = kit_random(1, z.c, 1, 1, NNK_F32);
    for (int64_t c = 0; c < z.c; c++) vec[i].v[c] = kit_round(fabs(vec[i].v[c]) + 0.5, NNK_F32);
    v[i] = kit_up(&vec[i], NNK_F32, 0, 0);
  }
  count.c = 2, count.size = 2, count.v[0] = count.v[1] = 0;
  cd = kit_up(&count, NNK_F32, 0, 0);
  nnk_map xd = kit_up(&x, e, layout, 0), dyd = kit_up(&dy, e, layout, 0), yd = kit_up(&dy, e, layout, 0);
  nnk_map sd = kit_up(&st, NNK_F32, 0, 0);
  void *work = kit_work(nnk_norm_work(&xd));
  norm r = norm_of(&x, 1e-5);
  double rows = (double)(z.n * z.h * z.w), tol = e == NNK_BF16 ? 1e-2 : shift > 1 ? 2e-4 : 2e-5;
  int64_t px = z.h * z.w;
  if (batch) {
    kit_ok(nnk_norm_stats(NULL, sd.p, &xd, 1e-5, 0.1, v[2].p, v[3].p, cd.p, work));
    kit_value rm = kit_like(&vec[2]), rv = kit_like(&vec[3]);
    for (int64_t c = 0; c < z.c; c++) {
      rm.v[c] = 0.9 * vec[2].v[c] + 0.1 * r.mean[c];
      rv.v[c] = 0.9 * vec[3].v[c] + 0.1 * r.var[c] * (rows > 1 ? rows / (rows - 1) : 1);
    }
    kit_near(&v[2], &rm, 1e-6, "running mean");
    kit_near(&v[3], &rv, 1e-6, "running variance");
    int64_t steps;
    kit_bytes(&steps, cd.p, sizeof steps);
    ck_assert_int_eq(steps, 1);
  } else {
    kit_ok(nnk_norm_running(NULL, sd.p, z.c, v[2].p, v[3].p, 1e-5));
    for (int64_t c = 0; c < z.c; c++) r.mean[c] = vec[2].v[c], r.inv[c] = 1 / sqrt(vec[3].v[c] + 1e-5);
  }
  for (int64_t c = 0; c < z.c; c++) st.v[c] = r.mean[c], st.v[z.c + c] = r.inv[c];
  if (rows > 1) kit_near(&sd, &st, 1e-5, "statistics");
  for (int64_t i = 0; i < x.size; i++) {
    int64_t c = i / px % z.c;
    double y = (x.v[i] - r.mean[c]) * r.inv[c] * vec[0].v[c] + vec[1].v[c];
    want.v[i] = y < 0 ? 0 : y;
  }
  kit_ok(nnk_norm_forward(NULL, &yd, &xd, sd.p, v[0].p, v[1].p, 1));
  kit_near(&yd, &want, tol, "normalised");

  kit_value dg = kit_like(&vec[0]), db = kit_like(&vec[0]), old = kit_random(z.n, z.c, z.h, z.w, e);
  kit_value m = kit_random(z.n, z.c, z.h, z.w, e);
  nnk_map dgd = kit_up(&dg, NNK_F32, 0, 0), dbd = kit_up(&db, NNK_F32, 0, 0), dxd = kit_up(&old, e, layout, 0);
  nnk_map md = kit_up(&m, e, layout, 0);
  for (int64_t i = 0; i < x.size; i++) {
    int64_t c = i / px % z.c;
    db.v[c] += dy.v[i];
    dg.v[c] += dy.v[i] * (x.v[i] - r.mean[c]) * r.inv[c];
  }
  for (int64_t i = 0; i < x.size; i++) {
    int64_t c = i / px % z.c;
    double g = dy.v[i];
    if (batch) g -= db.v[c] / rows + (x.v[i] - r.mean[c]) * r.inv[c] * dg.v[c] / rows;
    want.v[i] = m.v[i] > 0 ? g * vec[0].v[c] * r.inv[c] + old.v[i] : 0;
  }
  kit_ok(nnk_norm_backward(NULL, &dxd, &dyd, &xd, sd.p, v[0].p, (nnk_sum){dgd.p, NULL, 0}, (nnk_sum){dbd.p, NULL, 0},
                           batch, &md, 1, work));
  if (rows > 1) {
    kit_near(&dgd, &dg, shift > 1 ? 2e-4 : 2e-5, "dgamma"); /* the mean is kept as float32 */
    kit_near(&dxd, &want, tol, "norm dx");
  }
  kit_near(&dbd, &db, 2e-5, "dbeta");
  kit_free();
}

START_TEST(norms) {
  for (int s = 0; s < 5; s++)
    for (int l = 0; l < 2; l++)
      for (int e = 0; e < 2; e++)
        for (int batch = 0; batch < 2; batch++) batch_norm(shapes[s], layouts[l], e, batch, 0.25);
  batch_norm((shape){8, 6, 32, 32}, 0, NNK_F32, 1, 300);                      /* a mean far from 0 */
  for (int e = 0; e < 2; e++) batch_norm((shape){2, 31, 63, 65}, 0, e, 1, 3); /* as many pieces as there may be */
}
END_TEST

/* ---- pooling ---- */
static void pool(int max, nnk_window w, int64_t c, int e) {
  int64_t n = 2, h = 9, wd = 7, oh = (h + 2 * w.p[0] - w.k[0]) / w.s[0] + 1,
          ow = (wd + 2 * w.p[1] - w.k[1]) / w.s[1] + 1;
  kit_value x = kit_random(n, c, h, wd, e), y = kit_random(n, c, oh, ow, e), dy = kit_random(n, c, oh, ow, e);
  kit_value dx = kit_random(n, c, h, wd, e), m = kit_random(n, c, h, wd, e);
  for (int64_t i = 0; i < x.size; i++) x.v[i] = round(x.v[i] * 4); /* with equal ones */
  nnk_map xd = kit_up(&x, e, 0, 0), yd = kit_up(&y, e, 0, 0), dyd = kit_up(&dy, e, 0, 0), dxd = kit_up(&dx, e, 0, 0);
  nnk_map md = kit_up(&m, e, 0, 0);
  for (int64_t i = 0; i < y.size; i++) {
    int64_t plane = i / (oh * ow), oy = i / ow % oh, ox = i % ow, best = -1;
    double sum = 0;
    for (int64_t iy = oy * w.s[0] - w.p[0]; iy < oy * w.s[0] - w.p[0] + w.k[0]; iy++)
      for (int64_t ix = ox * w.s[1] - w.p[1]; ix < ox * w.s[1] - w.p[1] + w.k[1]; ix++) {
        int64_t at = (plane * h + iy) * wd + ix;
        if (iy < 0 || iy >= h || ix < 0 || ix >= wd) continue;
        if (best < 0 || x.v[at] > x.v[best]) best = at;
        sum += x.v[at];
        if (!max) dx.v[at] += dy.v[i] / (w.k[0] * w.k[1]);
      }
    y.v[i] = max ? x.v[best] : sum / (w.k[0] * w.k[1]);
    if (max) dx.v[best] += dy.v[i];
  }
  for (int64_t i = 0; i < dx.size; i++)
    if (!(m.v[i] > 0)) dx.v[i] = 0;
  kit_ok(nnk_pool_forward(NULL, max, &yd, &xd, w));
  kit_near(&yd, &y, 1e-6, "pool");
  kit_ok(nnk_pool_backward(NULL, max, &dxd, &dyd, max ? &xd : NULL, w, &md, 1));
  kit_near(&dxd, &dx, 1e-6, "pool gradient");
  kit_free();
}

START_TEST(pools) {
  static const nnk_window windows[] = {{{2, 2}, {2, 2}, {0, 0}},
                                       {{3, 3}, {2, 2}, {1, 1}},
                                       {{3, 2}, {1, 3}, {1, 0}},
                                       {{9, 7}, {1, 1}, {0, 0}},
                                       {{9, 6}, {1, 1}, {0, 0}}};
  for (int k = 0; k < 5; k++)
    for (int max = 0; max < 2; max++)
      for (int e = 0; e < 2; e++) pool(max, windows[k], k == 1 ? 8 : 5, e);
  for (int e = 0; e < 2; e++) /* means over the whole map, of few channels and of more than a block takes */
    for (int64_t c = 1; c < 300; c = c * 3 + 1) {
      pool(0, windows[3], c, e);
      pool(0, windows[3], 4 * c, e);
    }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("maps");
  TCase *c = tcase_create("maps");
  tcase_set_timeout(c, 900);
  tcase_add_test(c, copies);
  tcase_add_test(c, elementwise);
  tcase_add_test(c, parts);
  tcase_add_test(c, enlarged_parts);
  tcase_add_test(c, lists);
  tcase_add_test(c, many_parts);
  tcase_add_test(c, bias_gradients);
  tcase_add_test(c, masked_sums);
  tcase_add_test(c, norms);
  tcase_add_test(c, pools);
  suite_add_tcase(suite, c);
  return kit_run(suite);
}
