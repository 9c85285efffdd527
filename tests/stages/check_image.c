/* SPDX-License-Identifier: MIT
 * check_image.c - decoding, resizing and encoding on their own: every kind of PNG, damaged files, the formula. */
#include <check.h>
#include <math.h>
#include <png.h>
#include <stdio.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <turbojpeg.h>
#include <sys/resource.h>
#include <unistd.h>

#include <spcore/abi.h>

#include "plugins/kits/image/image.h"
#include "tests/kit/image_files.h"
#include "base/util.h"
#include "tests/kit/suite.h"

#define MANY (INT64_C(1) << 22)

static im_decoder dec;
static im_buf px;

static void begin(void) { if_begin(); }

static void end(void) {
  im_decoder_free(&dec);
  im_buf_free(&px);
  if_end();
}

/* Decodes bytes that are in memory. */
static int decode(const uint8_t *p, size_t n, int labels, int *w, int *h) {
  *w = *h = 0;
  ck_assert_ptr_nonnull(im_reserve(&dec.file, n));
  memcpy(dec.file.p, p, n);
  dec.size = n;
  dec.why[0] = 0;
  return labels ? im_labels(&dec, MANY, &px, w, h) : im_rgb(&dec, MANY, &px, w, h);
}

/* ---- PNG of every kind ---- */
static const struct kind {
  int colour, depth, labels;
} kinds[] = {
    {PNG_COLOR_TYPE_GRAY, 1, 1},       {PNG_COLOR_TYPE_GRAY, 2, 1},       {PNG_COLOR_TYPE_GRAY, 4, 1},
    {PNG_COLOR_TYPE_GRAY, 8, 1},       {PNG_COLOR_TYPE_GRAY, 16, 0},      {PNG_COLOR_TYPE_PALETTE, 1, 1},
    {PNG_COLOR_TYPE_PALETTE, 2, 1},    {PNG_COLOR_TYPE_PALETTE, 4, 1},    {PNG_COLOR_TYPE_PALETTE, 8, 1},
    {PNG_COLOR_TYPE_RGB, 8, 0},        {PNG_COLOR_TYPE_RGB, 16, 0},       {PNG_COLOR_TYPE_RGB_ALPHA, 8, 0},
    {PNG_COLOR_TYPE_RGB_ALPHA, 16, 0}, {PNG_COLOR_TYPE_GRAY_ALPHA, 8, 0}, {PNG_COLOR_TYPE_GRAY_ALPHA, 16, 0},
};

/* What RGB a sample of the file stands for. */
static void expect(const struct kind *k, const uint16_t *s, uint8_t rgb[3]) {
  int top = (1 << k->depth) - 1;
  if (k->colour == PNG_COLOR_TYPE_PALETTE) {
    rgb[0] = (uint8_t)s[0], rgb[1] = (uint8_t)(255 - s[0]), rgb[2] = (uint8_t)(s[0] * 7);
    return;
  }
  for (int c = 0; c < 3; c++) {
    uint16_t v = s[k->colour & PNG_COLOR_MASK_COLOR ? c : 0];
    rgb[c] = (uint8_t)(k->depth == 16 ? v >> 8 : v * 255 / top);
  }
}

START_TEST(test_png_kinds) {
  const struct kind *k = &kinds[_i / 2];
  enum { W = 13, H = 7 };
  int colour = k->colour & PNG_COLOR_MASK_COLOR && k->colour != PNG_COLOR_TYPE_PALETTE;
  int channels = (colour ? 3 : 1) + !!(k->colour & PNG_COLOR_MASK_ALPHA), w, h;
  uint16_t s[W * H * 4];
  for (int i = 0; i < W * H * channels; i++) s[i] = (uint16_t)((unsigned)i * 40503u >> 3 & ((1u << k->depth) - 1));
  if_bytes b = if_png(s, W, H, k->colour, k->depth, _i % 2);
  ck_assert_msg(decode(b.p, b.n, 0, &w, &h) == SP_OK, "%s", dec.why);
  ck_assert(w == W && h == H);
  for (int i = 0; i < W * H; i++) {
    uint8_t want[3];
    expect(k, s + i * channels, want);
    ck_assert_mem_eq((uint8_t *)px.p + i * 3, want, 3);
  }
  int rc = decode(b.p, b.n, 1, &w, &h);
  if (k->labels) {
    ck_assert_int_eq(rc, SP_OK);
    for (int i = 0; i < W * H; i++) ck_assert_uint_eq(((uint8_t *)px.p)[i], s[i]);
  } else {
    ck_assert_int_eq(rc, SP_E_DATA);
    const char *word = colour ? "in colour" : k->colour == PNG_COLOR_TYPE_GRAY ? "16 bits" : "with alpha";
    ck_assert_ptr_nonnull(strstr(dec.why, word));
  }
  free(b.p);
}
END_TEST

START_TEST(test_jpeg_is_turbojpeg) {
  enum { W = 61, H = 45 };
  for (int grey = 0; grey < 2; grey++) {
    uint8_t *rgb = if_picture(W, H, 4), want[W * H * 3];
    if_bytes b = if_jpeg(rgb, W, H, grey);
    tjhandle tj = tjInitDecompress();
    int w, h;
    ck_assert_int_eq(tjDecompress2(tj, b.p, b.n, want, W, 0, H, TJPF_RGB, 0), 0);
    ck_assert_msg(decode(b.p, b.n, 0, &w, &h) == SP_OK, "%s", dec.why);
    ck_assert(w == W && h == H);
    ck_assert_mem_eq(px.p, want, sizeof want);
    ck_assert_int_eq(decode(b.p, b.n, 1, &w, &h), IM_BROKEN); /* a mask is no JPEG */
    tjDestroy(tj);
    free(b.p);
    free(rgb);
  }
}
END_TEST

/* All of sw x sh to all of dw x dh. */
static im_geometry whole(int sw, int sh, int dw, int dh) {
  return im_fit(&(im_fitting){.how = IM_SQUASH}, sw, sh, dw, dh);
}
static void squashed(im_scaler *s, const uint8_t *src, int sw, int sh, uint8_t *dst, int dw, int dh) {
  im_geometry g = whole(sw, sh, dw, dh);
  ck_assert_int_eq(im_resize(s, src, &g, IM_BILINEAR, dst), SP_OK);
}
static void squashed_labels(const uint8_t *src, int sw, int sh, uint8_t *dst, int dw, int dh) {
  im_geometry g = whole(sw, sh, dw, dh);
  im_nearest(src, &g, dst);
}

/* At the smallest part of its sides that is not below what is asked for, upright or not: TurboJPEG's own, and near what
 * im_resize makes of the whole. */
START_TEST(test_jpeg_scaled) {
  enum { W = 200, H = 150 };
  static const struct {
    int least_w, least_h, turned, w, h;
  } sizes[] = {{25, 19, 0, 25, 19},  {26, 19, 0, 50, 38},    {50, 38, 0, 50, 38},
               {20, 39, 0, 100, 75}, {100, 76, 0, 200, 150}, {0, 0, 0, 200, 150},
               {38, 50, 1, 38, 50},  {50, 38, 1, 75, 100},   {300, 2, 0, 200, 150}};
  uint8_t *rgb = if_picture(W, H, 4), want[W * H * 3], exif[IF_EXIF];
  im_scaler s = {.acc = {NULL, 0}};
  if_exif(exif, 6, 0);
  for (size_t k = 0; k < SP_ARRAY(sizes); k++) {
    if_bytes b = if_jpeg(rgb, W, H, 0);
    int w, h;
    double sum = 0;
    if (sizes[k].turned) b = if_with_exif(b, exif, IF_EXIF);
    dec.least_w = dec.least_h = 0;
    ck_assert_msg(decode(b.p, b.n, 0, &w, &h) == SP_OK, "%s", dec.why);
    squashed(&s, px.p, w, h, want, sizes[k].w, sizes[k].h);
    dec.least_w = sizes[k].least_w;
    dec.least_h = sizes[k].least_h;
    ck_assert_msg(decode(b.p, b.n, 0, &w, &h) == SP_OK, "%s", dec.why);
    ck_assert_msg(w == sizes[k].w && h == sizes[k].h, "%zu: %d x %d", k, w, h);
    if (!sizes[k].turned) {
      tjhandle tj = tjInitDecompress();
      uint8_t *own = malloc((size_t)(w * h * 3));
      ck_assert_int_eq(tjDecompress2(tj, b.p, b.n, own, w, 0, h, TJPF_RGB, 0), 0);
      ck_assert_mem_eq(px.p, own, (size_t)(w * h * 3));
      tjDestroy(tj);
      free(own);
    }
    for (int i = 0; i < w * h * 3; i++) sum += abs(((uint8_t *)px.p)[i] - want[i]);
    ck_assert_msg(sum < 10.0 * w * h * 3, "%zu: %g", k, sum / (w * h * 3));
    free(b.p);
  }
  im_scaler_free(&s);
  free(rgb);
}
END_TEST

/* A JPEG without its tables is broken, also right after one that had them. */
START_TEST(test_jpeg_without_tables) {
  uint8_t *rgb = if_picture(32, 32, 4);
  if_bytes b = if_jpeg(rgb, 32, 32, 0);
  uint8_t *cut = malloc(b.n);
  size_t n = 2, at = 2;
  int w, h;
  ck_assert_ptr_nonnull(cut);
  memcpy(cut, b.p, 2);
  while (b.p[at + 1] != 0xDA) { /* up to the scan, leave out the segments DQT and DHT */
    size_t length = 2 + ((size_t)b.p[at + 2] << 8 | b.p[at + 3]);
    if (b.p[at + 1] != 0xDB && b.p[at + 1] != 0xC4) memcpy(cut + n, b.p + at, length), n += length;
    at += length;
  }
  memcpy(cut + n, b.p + at, b.n - at);
  n += b.n - at;
  ck_assert_int_eq(decode(b.p, b.n, 0, &w, &h), SP_OK);
  ck_assert_int_eq(decode(cut, n, 0, &w, &h), IM_BROKEN);
  free(cut);
  free(b.p);
  free(rgb);
}
END_TEST

/* ---- damage ---- */
/* Kind 0: JPEG, 1: PNG, 2: interlaced palette PNG. */
static if_bytes sample(int kind) {
  enum { W = 40, H = 33 };
  uint8_t *rgb = if_picture(W, H, 7);
  uint16_t *v = if_wide(rgb, W * H * 3);
  if_bytes b = kind == 0   ? if_jpeg(rgb, W, H, 0)
               : kind == 1 ? if_png(v, W, H, PNG_COLOR_TYPE_RGB, 8, 0)
                           : if_png(v, W, H, PNG_COLOR_TYPE_PALETTE, 8, 1);
  free(v);
  free(rgb);
  return b;
}

/* Behind a PNG's pixels come their checksum, that of their chunk, and the end. */
START_TEST(test_truncated) {
  enum { CHECKSUMS = 4 + 4, END = 12 };
  if_bytes b = sample(_i);
  int w, h;
  for (size_t n = 0; n < b.n; n += n < 700 || n + 30 > b.n ? 1 : 5) {
    int rc = decode(b.p, n, 0, &w, &h);
    if (_i && n + CHECKSUMS + END >= b.n) {
      ck_assert_msg(rc == SP_OK && !strcmp(dec.note, "no whole end (IEND)"), "%zu of %zu: %d, %s", n, b.n, rc, dec.why);
      continue;
    }
    ck_assert_msg(rc == IM_BROKEN, "%zu of %zu bytes give %d", n, b.n, rc);
    ck_assert_msg(dec.why[0], "%zu of %zu bytes are broken without words", n, b.n);
    if (_i == 2) ck_assert_int_eq(decode(b.p, n, 1, &w, &h), IM_BROKEN);
  }
  ck_assert_msg(decode(b.p, b.n, 0, &w, &h) == SP_OK, "whole again: %s", dec.why);
  free(b.p);
}
END_TEST

/* What is behind the pixels touches none of them; of a PNG the checksums of other chunks, too. */
START_TEST(test_damage_without_pixels) {
  static const struct {
    int kind, at; /* of sample(); where bytes are put in, from the end */
    const char *bytes, *note;
  } cases[] = {{0, 0, "", ""},
               {0, 0, "abc", "3 bytes behind its end"},
               {0, 0, "\xFF\xD8\xFF\xE1 more \xFF\xD9", "12 bytes behind its end"},
               {0, 2, "abcde", "stray bytes in front of its end's marker"},
               {0, 2, "\xFF", ""}, /* filling */
               {1, 0, "", ""},
               {1, 0, "abc", "3 bytes behind its end"},
               {1, 12, "\1", "no whole end (IEND)"},
               {2, 0, "x", "1 bytes behind its end"}};
  for (size_t k = 0; k < SP_ARRAY(cases); k++) {
    if_bytes b = sample(cases[k].kind);
    size_t more = strlen(cases[k].bytes), keep = b.n - (size_t)cases[k].at;
    int w, h;
    ck_assert_int_eq(decode(b.p, b.n, 0, &w, &h), SP_OK);
    ck_assert_str_eq(dec.note, "");
    size_t n = (size_t)w * (size_t)h * 3;
    uint8_t *want = malloc(n), *odd = malloc(b.n + more);
    ck_assert(want && odd);
    memcpy(want, px.p, n);
    memcpy(odd, b.p, keep);
    memcpy(odd + keep, cases[k].bytes, more);
    memcpy(odd + keep + more, b.p + keep, b.n - keep);
    ck_assert_msg(decode(odd, b.n + more, 0, &w, &h) == SP_OK, "case %zu: %s", k, dec.why);
    ck_assert_str_eq(dec.note, cases[k].note);
    ck_assert_mem_eq(px.p, want, n);
    free(want);
    free(odd);
    free(b.p);
  }
}
END_TEST

START_TEST(test_bits_flipped) {
  if_bytes b = sample(_i);
  unsigned r = 1, broken = 0, tries = 0;
  for (size_t i = 0; i < b.n; i += i < 700 ? 1 : 7, tries++) {
    int w, h;
    r = r * 1664525u + 1013904223u;
    uint8_t bit = (uint8_t)(1u << (r >> 29));
    b.p[i] ^= bit;
    int rc = decode(b.p, b.n, _i == 2, &w, &h);
    int fine = rc == SP_OK || (rc == IM_BROKEN && dec.why[0]) || (rc == SP_E_DATA && _i == 2);
    ck_assert_msg(fine, "byte %zu: %d", i, rc);
    broken += rc != SP_OK;
    b.p[i] ^= bit;
  }
  ck_assert_uint_gt(broken, _i ? tries * 3 / 4 : tries / 20); /* a PNG has checksums */
  free(b.p);
}
END_TEST

START_TEST(test_size_is_checked_before_memory) {
  uint8_t *rgb = if_picture(200, 100, 1);
  uint16_t *v = if_wide(rgb, 200 * 100 * 3);
  for (int kind = 0; kind < 2; kind++) {
    if_bytes b = kind ? if_png(v, 200, 100, PNG_COLOR_TYPE_RGB, 8, 0) : if_jpeg(rgb, 200, 100, 0);
    int w, h;
    ck_assert_int_eq(decode(b.p, b.n, 0, &w, &h), SP_OK);
    im_buf_free(&px);
    ck_assert_int_eq(im_rgb(&dec, 19999, &px, &w, &h), IM_BROKEN);
    ck_assert_ptr_nonnull(strstr(dec.why, "200 x 100 pixels, and max_pixels is 19999; `max_pixels = 20000` reads it"));
    ck_assert_ptr_null(px.p);
    ck_assert_int_eq(im_rgb(&dec, 20000, &px, &w, &h), SP_OK);
    free(b.p);
  }
  free(v);
  free(rgb);
}
END_TEST

START_TEST(test_files_that_are_none) {
  int w, h;
  if_put("empty.png", "", 0);
  ck_assert_int_eq(im_load(&dec, if_path("empty.png")), IM_BROKEN);
  ck_assert_str_eq(dec.why, "the file is empty");
  ck_assert_int_eq(im_load(&dec, if_path("images")), SP_E_IO);
  ck_assert_str_eq(dec.why, "not a regular file");
  ck_assert_int_eq(im_load(&dec, if_path("nowhere.png")), SP_E_IO);
  if_put("text.jpg", "hello, this is text", 19);
  ck_assert_int_eq(im_load(&dec, if_path("text.jpg")), SP_OK);
  ck_assert_int_eq(im_rgb(&dec, MANY, &px, &w, &h), IM_BROKEN);
  ck_assert_str_eq(dec.why,
                   "neither JPEG nor PNG, nor another format that is read: it is text: \"hello, this is text\"");
  ck_assert_int_eq(im_size(&dec, &w, &h), IM_BROKEN);
}
END_TEST

/* ---- resizing: against the formula, every weight computed in double ---- */
static double axis_weight(int in, int out, int i, int j) {
  double scale = (double)in / out, support = scale > 1 ? scale : 1, c = scale * (i + 0.5);
  double lo = floor(c - support + 0.5), hi = floor(c + support + 0.5);
  if (j < (lo < 0 ? 0 : lo) || j >= hi) return 0;
  double w = 1 - fabs((j - c + 0.5) / support);
  return w > 0 ? w : 0;
}

static void slow_axis(const double *in, int n_in, int step_in, double *out, int n_out, int step_out) {
  for (int i = 0; i < n_out; i++) {
    double sum = 0, total = 0;
    for (int j = 0; j < n_in; j++) {
      double w = axis_weight(n_in, n_out, i, j);
      sum += w * in[j * step_in];
      total += w;
    }
    out[i * step_out] = sum / total;
  }
}

static const int resizes[][4] = {{64, 48, 32, 32}, {37, 53, 20, 11}, {10, 10, 64, 64}, {1, 1, 5, 3},
                                 {300, 1, 7, 4},   {1, 300, 3, 7},   {33, 17, 1, 1},   {50, 40, 50, 13},
                                 {21, 20, 63, 9},  {9, 9, 9, 9},     {2, 2, 3, 3}};

START_TEST(test_resize_is_the_formula) {
  int sw = resizes[_i][0], sh = resizes[_i][1], dw = resizes[_i][2], dh = resizes[_i][3];
  uint8_t *src = if_picture(sw, sh, 3), *dst = malloc((size_t)(dw * dh * 3));
  double *a = calloc((size_t)(sw * sh * 3), sizeof *a), *b = calloc((size_t)(dw * sh * 3), sizeof *b);
  double *c = calloc((size_t)(dw * dh * 3), sizeof *c);
  im_scaler s = {.acc = {NULL, 0}};
  ck_assert(dst && a && b && c);
  for (int i = 0; i < sw * sh * 3; i++) a[i] = src[i];
  for (int y = 0; y < sh; y++)
    for (int k = 0; k < 3; k++) slow_axis(a + y * sw * 3 + k, sw, 3, b + y * dw * 3 + k, dw, 3);
  for (int x = 0; x < dw * 3; x++) slow_axis(b + x, sh, dw * 3, c + x, dh, dw * 3);
  squashed(&s, src, sw, sh, dst, dw, dh);
  for (int i = 0; i < dw * dh * 3; i++)
    ck_assert_msg(fabs(dst[i] - c[i]) <= 0.5 + 255 * 1e-6, "element %d: %d, %.6f", i, dst[i], c[i]);
  im_scaler_free(&s);
  free(a);
  free(b);
  free(c);
  free(dst);
  free(src);
}
END_TEST

START_TEST(test_nearest) {
  static const uint8_t in[] = {1, 2, 3, 4, 5, 6}; /* 3 wide, 2 high */
  static const uint8_t up[] = {1, 1, 2, 2, 3, 3, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 4, 4, 5, 5, 6, 6};
  uint8_t out[24];
  squashed_labels(in, 3, 2, out, 6, 4);
  ck_assert_mem_eq(out, up, sizeof up);
  squashed_labels(up, 6, 4, out, 3, 2);
  ck_assert_mem_eq(out, in, sizeof in);
  squashed_labels(in, 3, 2, out, 1, 1);
  ck_assert_uint_eq(out[0], 1);
}
END_TEST

/* ---- encoding ---- */
/* ---- fitting ---- */
static const struct {
  int how, sw, sh, dw, dh;
  im_geometry want;
} fits[] = {
    {IM_SQUASH, 50, 20, 8, 8, {0, 0, 50, 20, 0, 0, 8, 8, 8, 8, 0, 0}},
    {IM_CROP, 50, 20, 8, 8, {15, 0, 20, 20, 0, 0, 8, 8, 8, 8, 0, 0}},
    {IM_CROP, 20, 51, 8, 8, {0, 15, 20, 20, 0, 0, 8, 8, 8, 8, 0, 0}},
    {IM_CROP, 51, 20, 9, 6, {10, 0, 30, 20, 0, 0, 9, 6, 9, 6, 0, 0}},
    {IM_CROP, 30, 20, 6, 4, {0, 0, 30, 20, 0, 0, 6, 4, 6, 4, 0, 0}},
    {IM_CROP, 1, 300, 300, 1, {0, 149, 1, 1, 0, 0, 300, 1, 300, 1, 0, 0}},
    {IM_CROP, 7, 5, 3, 2, {0, 0, 7, 5, 0, 0, 3, 2, 3, 2, 0, 0}},
    {IM_PAD, 50, 20, 8, 8, {0, 0, 50, 20, 0, 2, 8, 3, 8, 3, 0, 0}},
    {IM_PAD, 20, 50, 8, 8, {0, 0, 20, 50, 2, 0, 3, 8, 3, 8, 0, 0}},
    {IM_PAD, 30, 20, 6, 4, {0, 0, 30, 20, 0, 0, 6, 4, 6, 4, 0, 0}},
    {IM_PAD, 300, 1, 5, 5, {0, 0, 300, 1, 0, 2, 5, 1, 5, 1, 0, 0}},
    {IM_PAD, 3, 2, 64, 64, {0, 0, 3, 2, 0, 10, 64, 43, 64, 43, 0, 0}},
    {IM_PAD, 16384, 16383, 16384, 1, {0, 0, 16384, 16383, 8191, 0, 1, 1, 1, 1, 0, 0}},
};

/* ---- the shorter side ---- */
/* What is made is a part of the whole picture at its new size, whose place is torchvision's. */
static const struct {
  int shorter, sw, sh, dw, dh;
  int64_t rw, rh, ox, oy;
} shorter[] = {
    {32, 50, 20, 28, 28, 80, 32, 26, 2}, {32, 20, 51, 28, 30, 32, 81, 2, 26},
    {32, 33, 32, 32, 31, 33, 32, 0, 0},  {64, 41, 30, 56, 56, 87, 64, 16, 4},
    {64, 41, 30, 55, 57, 87, 64, 16, 4}, {8, 200, 161, 8, 1, 9, 8, 0, 4},
    {16, 16, 16, 16, 16, 16, 16, 0, 0},  {16, 20, 16, 9, 9, 20, 16, 6, 4},
    {1, 1, 300, 1, 1, 1, 300, 0, 150},   {16384, 2, 1 << 30, 1, 1, 16384, INT64_C(1) << 43, 8192, (INT64_C(1) << 42)}};

START_TEST(test_shorter) {
  int sw = shorter[_i].sw, sh = shorter[_i].sh, dw = shorter[_i].dw, dh = shorter[_i].dh;
  for (int cubic = 0; cubic < 2; cubic++) {
    im_fitting f = {.interpolation = cubic ? IM_BICUBIC : IM_BILINEAR, .shorter = shorter[_i].shorter};
    im_geometry g = im_fit(&f, sw, sh, dw, dh);
    ck_assert_ptr_null(im_fitting_wrong(&f, dw, dh));
    ck_assert_msg(g.rw == shorter[_i].rw && g.rh == shorter[_i].rh && g.ox == shorter[_i].ox && g.oy == shorter[_i].oy,
                  "%lld x %lld from %lld, %lld", (long long)g.rw, (long long)g.rh, (long long)g.ox, (long long)g.oy);
    if ((int64_t)sw * sh > MANY) continue;
    int rw = (int)g.rw, rh = (int)g.rh;
    uint8_t *rgb = if_picture(sw, sh, 3), *labels = if_picture(sw, sh, 1), *big = malloc((size_t)(rw * rh * 3));
    uint8_t *big_labels = malloc((size_t)(rw * rh)), *out = malloc((size_t)(dw * dh * 3));
    im_scaler s = {0};
    ck_assert(big && big_labels && out);
    im_geometry all = whole(sw, sh, rw, rh);
    ck_assert_int_eq(im_resize(&s, rgb, &all, f.interpolation, big), SP_OK);
    ck_assert_int_eq(im_fit_rgb(&s, &f, rgb, sw, sh, out, dw, dh), SP_OK);
    for (int y = 0; y < dh; y++)
      ck_assert_mem_eq(out + y * dw * 3, big + ((g.oy + y) * rw + g.ox) * 3, (size_t)(dw * 3));
    im_nearest(labels, &all, big_labels);
    im_fit_labels(&f, labels, sw, sh, out, dw, dh);
    for (int y = 0; y < dh; y++) ck_assert_mem_eq(out + y * dw, big_labels + (g.oy + y) * rw + g.ox, (size_t)dw);
    im_scaler_free(&s);
    free(rgb);
    free(labels);
    free(big);
    free(big_labels);
    free(out);
  }
}
END_TEST

START_TEST(test_shorter_refused) {
  ck_assert_ptr_nonnull(strstr(im_fitting_wrong(&(im_fitting){.shorter = 8}, 9, 8), "must not be less"));
  ck_assert_ptr_nonnull(strstr(im_fitting_wrong(&(im_fitting){.shorter = 8}, 8, 9), "must not be less"));
  ck_assert_ptr_nonnull(strstr(im_fitting_wrong(&(im_fitting){.how = IM_PAD, .shorter = 8}, 8, 8), "leave one out"));
  ck_assert_ptr_null(im_fitting_wrong(&(im_fitting){.how = IM_PAD}, 900, 8));
}
END_TEST

/* The rectangle by hand, resized alone, at its place. */
START_TEST(test_fit) {
  im_fitting f = {.how = fits[_i].how};
  im_geometry w = fits[_i].want, g = im_fit(&f, fits[_i].sw, fits[_i].sh, fits[_i].dw, fits[_i].dh);
  int sw = fits[_i].sw, sh = fits[_i].sh, dw = fits[_i].dw, dh = fits[_i].dh;
  ck_assert_msg(!memcmp(&g, &w, sizeof g), "%d,%d %dx%d to %d,%d %dx%d", g.sx, g.sy, g.sw, g.sh, g.dx, g.dy, g.dw,
                g.dh);
  if (sw * sh > 100000) return;
  uint8_t *rgb = if_picture(sw, sh, 3), *part = malloc((size_t)(w.sw * w.sh * 3)),
          *small = malloc((size_t)(dw * dh * 3));
  uint8_t *out = malloc((size_t)(dw * dh * 3)), *one = malloc((size_t)(sw * sh));
  im_scaler s = {0};
  ck_assert(part && small && out && one);
  for (int labels = 0; labels < 2; labels++) {
    int n = labels ? 1 : 3;
    for (int i = 0; i < sw * sh; i++) one[i] = rgb[i * 3];
    for (int y = 0; y < w.sh; y++)
      memcpy(part + y * w.sw * n, (labels ? one : rgb) + ((w.sy + y) * sw + w.sx) * n, (size_t)(w.sw * n));
    if (labels) squashed_labels(part, w.sw, w.sh, small, w.dw, w.dh);
    else squashed(&s, part, w.sw, w.sh, small, w.dw, w.dh);
    if (labels) im_fit_labels(&f, one, sw, sh, out, dw, dh);
    else {
      uint8_t *copy = malloc((size_t)(sw * sh * 3));
      ck_assert_ptr_nonnull(copy);
      memcpy(copy, rgb, (size_t)(sw * sh * 3));
      ck_assert_int_eq(im_fit_rgb(&s, &f, copy, sw, sh, out, dw, dh), SP_OK);
      free(copy);
    }
    for (int y = 0; y < dh; y++)
      for (int x = 0; x < dw * n; x++) {
        int in = y >= w.dy && y < w.dy + w.dh && x >= w.dx * n && x < (w.dx + w.dw) * n;
        int want = in ? small[(y - w.dy) * w.dw * n + x - w.dx * n] : labels ? 255 : 0;
        ck_assert_msg(out[y * dw * n + x] == want, "labels %d, %d,%d: %d, not %d", labels, x, y, out[y * dw * n + x],
                      want);
      }
  }
  im_scaler_free(&s);
  free(one);
  free(out);
  free(small);
  free(part);
  free(rgb);
}
END_TEST

START_TEST(test_encode_and_back) {
  enum { W = 31, H = 22 };
  uint8_t *rgb = if_picture(W, H, 2), labels[W * H], c[3];
  im_encoder e = {.tj = NULL};
  int w, h;
  for (int i = 0; i < W * H; i++) labels[i] = (uint8_t)(i * 3);
  ck_assert_int_eq(im_to_png(&e, rgb, W, H), SP_OK);
  ck_assert_int_eq(decode(e.out, e.n, 0, &w, &h), SP_OK);
  ck_assert(w == W && h == H);
  ck_assert_mem_eq(px.p, rgb, W * H * 3);
  ck_assert_int_eq(im_labels_to_png(&e, labels, W, H), SP_OK);
  ck_assert_int_eq(decode(e.out, e.n, 1, &w, &h), SP_OK);
  ck_assert_mem_eq(px.p, labels, W * H);
  ck_assert_int_eq(decode(e.out, e.n, 0, &w, &h), SP_OK);
  im_label_colour(labels[5], c);
  ck_assert_mem_eq((uint8_t *)px.p + 15, c, 3);
  ck_assert_int_eq(im_to_jpeg(&e, rgb, W, H, 95), SP_OK);
  ck_assert_int_eq(im_save(&e, if_path("a.jpg")), SP_OK);
  ck_assert_int_eq(im_load(&dec, if_path("a.jpg")), SP_OK);
  ck_assert_int_eq(im_size(&dec, &w, &h), SP_OK);
  ck_assert(w == W && h == H);
  ck_assert_int_eq(im_save(&e, if_path("no/such/folder/a.jpg")), SP_E_IO);
  ck_assert_int_eq(im_save(&e, if_path("images")), SP_E_IO); /* a folder is in the way: no half file stays */
  im_encoder_free(&e);
  free(rgb);
}
END_TEST

/* A file that may have ten bytes stands in for a full disk. A link where the temporary file goes is not followed. */
START_TEST(test_disk_full) {
  uint8_t rgb[3] = {1, 2, 3};
  im_encoder e = {.tj = NULL};
  struct rlimit before, ten;
  ck_assert_int_eq(im_to_png(&e, rgb, 1, 1), SP_OK);
  char part[64];
  snprintf(part, sizeof part, "x.png.part-%ld", (long)getpid());
  ck_assert_int_eq(symlink(if_path("of_somebody"), if_path(part)), 0);
  ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
  ten = (struct rlimit){10, before.rlim_max};
  signal(SIGXFSZ, SIG_IGN);
  ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &ten), 0);
  int status = im_save(&e, if_path("x.png"));
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, SIG_DFL);
  ck_assert_int_eq(status, SP_E_IO);
  ck_assert_ptr_nonnull(strstr(e.why, "File too large"));
  ck_assert_int_ne(access(if_path("x.png"), F_OK), 0);
  ck_assert_int_ne(access(if_path(part), F_OK), 0);
  ck_assert_int_ne(access(if_path("of_somebody"), F_OK), 0);
  im_encoder_free(&e);
}
END_TEST

START_TEST(test_label_colours) {
  static const uint8_t voc[][3] = {{0, 0, 0}, {128, 0, 0}, {0, 128, 0}, {128, 128, 0}, {0, 0, 128}};
  uint8_t c[3];
  for (int i = 0; i < 5; i++) {
    im_label_colour((uint8_t)i, c);
    ck_assert_mem_eq(c, voc[i], 3);
  }
  im_label_colour(255, c);
  ck_assert(c[0] == 224 && c[1] == 224 && c[2] == 192);
}
END_TEST

int main(void) {
  Suite *s = suite_create("image");
  TCase *c = tcase_create("image");
  tcase_set_timeout(c, 60);
  tcase_add_checked_fixture(c, begin, end);
  tcase_add_loop_test(c, test_png_kinds, 0, 2 * (int)SP_ARRAY(kinds));
  tcase_add_test(c, test_jpeg_is_turbojpeg);
  tcase_add_test(c, test_jpeg_scaled);
  tcase_add_test(c, test_jpeg_without_tables);
  tcase_add_loop_test(c, test_truncated, 0, 3);
  tcase_add_test(c, test_damage_without_pixels);
  tcase_add_loop_test(c, test_bits_flipped, 0, 3);
  tcase_add_test(c, test_size_is_checked_before_memory);
  tcase_add_test(c, test_files_that_are_none);
  tcase_add_loop_test(c, test_resize_is_the_formula, 0, (int)SP_ARRAY(resizes));
  tcase_add_test(c, test_nearest);
  tcase_add_loop_test(c, test_fit, 0, (int)SP_ARRAY(fits));
  tcase_add_loop_test(c, test_shorter, 0, (int)SP_ARRAY(shorter));
  tcase_add_test(c, test_shorter_refused);
  tcase_add_test(c, test_encode_and_back);
  tcase_add_test(c, test_disk_full);
  tcase_add_test(c, test_label_colours);
  suite_add_tcase(s, c);
  return suite_run(s);
}
