/* SPDX-License-Identifier: MIT
 * check_image_photos.c - what cameras and other programs write: orientations, whole and damaged, inks,
 * WebP and TIFF. */
#include <check.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/kits/image/image.h"
#include "tests/kit/image_files.h"
#include "base/util.h"
#include "tests/kit/suite.h"

#define MANY (INT64_C(1) << 22)

static im_decoder dec;
static im_buf px;

static void end(void) {
  im_decoder_free(&dec);
  im_buf_free(&px);
}

static int decode(if_bytes b, int labels, int *w, int *h) {
  dec.why[0] = 0;
  ck_assert_int_eq(im_take(&dec, b.p, b.n), SP_OK);
  return labels ? im_labels(&dec, MANY, &px, w, h) : im_rgb(&dec, MANY, &px, w, h);
}

/* ---- orientation ---- */
/* What becomes of "abc" over "def", a row after another. */
static const struct {
  int w, h;
  const char *dots;
} turned[] = {{3, 2, "abcdef"}, {3, 2, "cbafed"}, {3, 2, "fedcba"}, {3, 2, "defabc"},
              {2, 3, "adbecf"}, {2, 3, "daebfc"}, {2, 3, "fcebda"}, {2, 3, "cfbead"}};

static if_bytes six_dots(int colour) {
  uint16_t v[6];
  for (int i = 0; i < 6; i++) v[i] = (uint16_t)('a' + i);
  return if_png(v, 3, 2, colour, 8, 0);
}

START_TEST(test_orientations) {
  uint8_t exif[IF_EXIF];
  int k = _i / 2, w, h;
  if_exif(exif, k + 1, _i % 2);
  if_bytes b = if_with_exif(six_dots(PNG_COLOR_TYPE_GRAY), exif, IF_EXIF);
  for (int stored = 0; stored < 2; stored++) {
    const char *want = turned[stored ? 0 : k].dots;
    dec.as_stored = stored;
    for (int labels = 0; labels < 2; labels++) {
      ck_assert_msg(decode(b, labels, &w, &h) == SP_OK, "%s", dec.why);
      ck_assert_int_eq(dec.orientation, k + 1);
      ck_assert(w == turned[stored ? 0 : k].w && h == turned[stored ? 0 : k].h);
      for (int i = 0; i < 6; i++) ck_assert_int_eq(((uint8_t *)px.p)[labels ? i : i * 3 + 1], want[i]);
    }
    w = h = 0;
    ck_assert_int_eq(im_size(&dec, &w, &h), SP_OK);
    ck_assert(w == turned[stored ? 0 : k].w && h == turned[stored ? 0 : k].h);
  }
  dec.as_stored = 0;
  free(b.p);
}
END_TEST

/* A JPEG's pixels, turned by hand: larger than a block of rows, not a multiple of it. */
START_TEST(test_jpeg_is_turned) {
  enum { W = 37, H = 50 };
  uint8_t exif[IF_EXIF], *rgb = if_picture(W, H, 3), plain[W * H * 3];
  int w, h;
  if_bytes b = if_jpeg(rgb, W, H, 0);
  ck_assert_int_eq(decode(b, 0, &w, &h), SP_OK);
  memcpy(plain, px.p, sizeof plain);
  if_exif(exif, 6, 1);
  b = if_with_exif(b, exif, IF_EXIF);
  ck_assert_msg(decode(b, 0, &w, &h) == SP_OK, "%s", dec.why);
  ck_assert(w == H && h == W);
  for (int y = 0; y < h; y++)
    for (int x = 0; x < w; x++)
      ck_assert_mem_eq((uint8_t *)px.p + (y * w + x) * 3, plain + ((H - 1 - x) * W + y) * 3, 3);
  free(rgb);
  free(b.p);
}
END_TEST

/* Other segments may come before; what is behind the first scan is none of them. */
START_TEST(test_where_exif_is_found) {
  uint8_t exif[IF_EXIF], other[40] = "another program's";
  uint8_t *rgb = if_picture(16, 8, 3);
  int w, h;
  if_exif(exif, 8, 0);
  if_bytes b = if_with_exif(if_jpeg(rgb, 16, 8, 0), exif, IF_EXIF);
  b = if_with_exif(b, other, sizeof other);
  memcpy(b.p + 6, "http:/", 6); /* no EXIF by its name */
  ck_assert_int_eq(decode(b, 0, &w, &h), SP_OK);
  ck_assert(dec.orientation == 8 && w == 8 && h == 16);
  free(b.p);
  b = if_jpeg(rgb, 16, 8, 0);
  b.p = realloc(b.p, b.n + 64);
  memcpy(b.p + b.n, "\xFF\xE1\0\42Exif\0", 10);
  memcpy(b.p + b.n + 10, exif, IF_EXIF);
  b.n += 36;
  ck_assert_int_eq(decode(b, 0, &w, &h), SP_OK);
  ck_assert(dec.orientation == 1 && w == 16 && h == 8);
  free(b.p);
  free(rgb);
}
END_TEST

/* Each says nonsense: the picture stays as it is stored. */
START_TEST(test_damaged_exif) {
  static const struct {
    size_t at;
    uint8_t value;
  } harm[] = {{0, 'X'}, {2, 43}, {4, 0xFF}, {5, 0x7F}, {7, 0xFF}, {4, 25}, {4, 24},   {8, 0},  {10, 0}, {12, 2},
              {12, 7},  {14, 0}, {14, 2},   {17, 1},   {18, 0},   {18, 9}, {18, 255}, {19, 1}, {4, 19}, {4, 3}};
  uint8_t exif[IF_EXIF], *rgb = if_picture(16, 8, 3);
  int w, h;
  for (size_t k = 0; k < SP_ARRAY(harm); k++)
    for (int png = 0; png < 2; png++) {
      if_exif(exif, 6, 0);
      exif[harm[k].at] = harm[k].value;
      if_bytes b = if_with_exif(png ? six_dots(PNG_COLOR_TYPE_GRAY) : if_jpeg(rgb, 16, 8, 0), exif, IF_EXIF);
      ck_assert_msg(decode(b, 0, &w, &h) == SP_OK, "case %zu: %s", k, dec.why);
      ck_assert_msg(dec.orientation == 1 && w > h, "case %zu: %d", k, dec.orientation);
      free(b.p);
    }
  free(rgb);
}
END_TEST

/* Cut anywhere, and more entries than there are. */
START_TEST(test_short_exif) {
  uint8_t exif[IF_EXIF];
  int w, h;
  for (size_t n = 0; n <= IF_EXIF; n++)
    for (int many = 0; many < 2; many++) {
      if_exif(exif, 6, 0);
      if (many) exif[8] = exif[9] = exif[10] = 0xFF;
      if_bytes b = if_with_exif(six_dots(PNG_COLOR_TYPE_GRAY), exif, n);
      ck_assert_msg(decode(b, 0, &w, &h) == SP_OK, "%zu bytes: %s", n, dec.why);
      ck_assert_msg(dec.orientation == (n >= 22 && !many ? 6 : 1), "%zu bytes: %d", n, dec.orientation);
      free(b.p);
    }
}
END_TEST

/* ---- inks ---- */
START_TEST(test_inks) {
  static const int stored[][4] = {
      {255, 255, 255, 255}, {255, 255, 255, 0}, {0, 255, 255, 255}, {200, 100, 50, 220}, {10, 240, 128, 128}};
  for (size_t k = 0; k < SP_ARRAY(stored); k++) {
    uint8_t inks[16 * 8 * 4];
    int w, h;
    for (int i = 0; i < 16 * 8 * 4; i++) inks[i] = (uint8_t)stored[k][i % 4];
    if_bytes b = if_cmyk_jpeg(inks, 16, 8);
    ck_assert_msg(decode(b, 0, &w, &h) == SP_OK, "%s", dec.why);
    ck_assert(w == 16 && h == 8);
    for (int c = 0; c < 3; c++) {
      int want = (stored[k][c] * stored[k][3] + 127) / 255, got = ((uint8_t *)px.p)[c + 3 * 77];
      ck_assert_msg(abs(got - want) <= 2, "case %zu, colour %d: %d, not %d", k, c, got, want);
    }
    free(b.p);
  }
}
END_TEST

/* ---- WebP and TIFF ---- */
enum { W = 23, H = 18 };

/* Turned or not, whole or cut, larger than allowed. */
static void other_format(if_bytes b, const uint8_t *rgb, int orientation) {
  int w, h, w2, h2;
  dec.as_stored = 1;
  ck_assert_msg(decode(b, 0, &w, &h) == SP_OK, "%s", dec.why);
  ck_assert(w == W && h == H && dec.orientation == orientation);
  ck_assert_mem_eq(px.p, rgb, W * H * 3);
  dec.as_stored = 0;
  ck_assert_msg(decode(b, 0, &w, &h) == SP_OK, "%s", dec.why);
  ck_assert(w == (orientation == 6 ? H : W) && h == (orientation == 6 ? W : H));
  if (orientation == 6) ck_assert_mem_eq(px.p, rgb + (H - 1) * W * 3, 3);
  ck_assert_int_eq(im_size(&dec, &w2, &h2), SP_OK);
  ck_assert(w2 == w && h2 == h);
  ck_assert_int_eq(im_labels(&dec, MANY, &px, &w, &h), IM_BROKEN);
  im_buf_free(&px);
  ck_assert_int_eq(im_rgb(&dec, W * H - 1, &px, &w, &h), IM_BROKEN);
  ck_assert_ptr_nonnull(strstr(dec.why, "23 x 18 pixels, and max_pixels is 413"));
  ck_assert_ptr_null(px.p);
  for (size_t n = 13; n < b.n - 40; n += 3) {
    int rc = decode((if_bytes){b.p, n}, 0, &w, &h);
    ck_assert_msg(rc == IM_BROKEN && dec.why[0] && !strchr(dec.why, '\n'), "%zu of %zu bytes: %d", n, b.n, rc);
  }
}

START_TEST(test_webp) {
  uint8_t *rgb = if_picture(W, H, 5), exif[IF_EXIF];
  if_exif(exif, 6, 1);
#ifdef HAVE_WEBP
  if_bytes b = if_webp(rgb, W, H);
  other_format(b, rgb, 1);
  b = if_with_exif(b, exif, IF_EXIF);
  other_format(b, rgb, 6);
#else
  int w, h;
  if_bytes b = {calloc(1, 40), 40};
  memcpy(b.p, "RIFF\40\0\0\0WEBPVP8L", 16);
  ck_assert_int_eq(decode(b, 0, &w, &h), SP_E_UNSUPPORTED);
  ck_assert_ptr_nonnull(strstr(dec.why, "built without libwebp; install that (Debian: libwebp-dev)"));
#endif
  free(b.p);
  free(rgb);
}
END_TEST

START_TEST(test_tiff) {
  uint8_t *rgb = if_picture(W, H, 5);
  for (int k = 0; k < 2; k++) {
    if_bytes b = if_tiff(rgb, W, H, k ? 6 : 1);
#ifdef HAVE_TIFF
    other_format(b, rgb, k ? 6 : 1);
#else
    int w, h;
    ck_assert_int_eq(decode(b, 0, &w, &h), SP_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(dec.why, "built without libtiff 4.5; install that (Debian: libtiff-dev)"));
    (void)other_format;
#endif
    free(b.p);
  }
  free(rgb);
}
END_TEST

#ifdef HAVE_TIFF
/* Headers that ask for more than the picture can need. */
START_TEST(test_tiff_bombs) {
  static const struct {
    int tag;
    unsigned value;
    const char *words;
  } bombs[] = {
      {277, 60000, ""},    {258, 64, "samples of "}, {256, 1u << 20, "1048576 x 18 pixels, and max_pixels is"},
      {257, 1u << 31, ""}, {262, 60000, ""},         {274, 77, NULL}, /* is none: as stored */
      {259, 50001, ""}};
  uint8_t *rgb = if_picture(W, H, 5);
  for (size_t k = 0; k < SP_ARRAY(bombs); k++) {
    int w, h;
    if_bytes b = if_tiff(rgb, W, H, 1);
    for (uint8_t *e = b.p + 10; e < b.p + 130; e += 12)
      if (e[0] + 256 * e[1] == bombs[k].tag) {
        if (bombs[k].tag == 258) e[4] = 1;
        memcpy(e + 8, &bombs[k].value, 4);
      }
    int rc = decode(b, 0, &w, &h);
    int fine = bombs[k].words ? rc == IM_BROKEN && strstr(dec.why, bombs[k].words) : rc == SP_OK;
    ck_assert_msg(fine, "case %zu: %d, %s", k, rc, dec.why);
    if (!bombs[k].words) ck_assert_int_eq(dec.orientation, 1);
    free(b.p);
  }
  free(rgb);
}
END_TEST
#endif

int main(void) {
  Suite *s = suite_create("image_photos");
  TCase *c = tcase_create("image_photos");
  tcase_set_timeout(c, 60);
  tcase_add_checked_fixture(c, NULL, end);
  tcase_add_loop_test(c, test_orientations, 0, 16);
  tcase_add_test(c, test_jpeg_is_turned);
  tcase_add_test(c, test_where_exif_is_found);
  tcase_add_test(c, test_damaged_exif);
  tcase_add_test(c, test_short_exif);
  tcase_add_test(c, test_inks);
  tcase_add_test(c, test_webp);
  tcase_add_test(c, test_tiff);
#ifdef HAVE_TIFF
  tcase_add_test(c, test_tiff_bombs);
#endif
  suite_add_tcase(s, c);
  return suite_run(s);
}
