/* SPDX-License-Identifier: MIT
 * fuzz_image.c - damaged PNG, JPEG, WebP and TIFF files: decoded or refused in words, within max_pixels. */
#include <check.h>
#include <png.h>

#include <spcore/abi.h>

#include "fuzz.h"
#include "plugins/kits/image/image.h"
#include "tests/kit/image_files.h"

enum { W = 23, H = 17, SEEDS = 16, MAX_PIXELS = 40000 };

static uint32_t crc(const uint8_t *p, size_t n) {
  uint32_t c = 0xffffffff;
  while (n--) {
    c ^= *p++;
    for (int k = 0; k < 8; k++) c = c & 1 ? 0xedb88320 ^ c >> 1 : c >> 1;
  }
  return ~c;
}

static uint32_t be32(const uint8_t *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* The checksums put right, so that the damage gets past them. */
static void mend(uint8_t *p, size_t n) {
  for (size_t at = 8; at + 12 <= n;) {
    size_t len = be32(p + at);
    if (len > n - at - 12) return;
    uint32_t c = crc(p + at + 4, len + 4);
    for (int k = 0; k < 4; k++) p[at + 8 + len + (size_t)k] = (uint8_t)(c >> (24 - 8 * k));
    at += 12 + len;
  }
}

static int make_seeds(if_bytes seed[SEEDS]) {
  uint8_t *rgb = if_picture(W, H, 1);
  uint16_t labels[W * H], wide[W * H * 4];
  for (int i = 0; i < W * H; i++) labels[i] = (uint16_t)(i % 4);
  for (int i = 0; i < W * H * 4; i++) wide[i] = (uint16_t)(i * 997);
  uint16_t *v = if_wide(rgb, W * H * 3);
  int n = 0;
  seed[n++] = if_jpeg(rgb, W, H, 0);
  seed[n++] = if_jpeg(rgb, W, H, 1);
  seed[n++] = if_png(v, W, H, PNG_COLOR_TYPE_RGB, 8, 0);
  seed[n++] = if_png(v, W, H, PNG_COLOR_TYPE_RGB, 8, 1);
  seed[n++] = if_png(labels, W, H, PNG_COLOR_TYPE_PALETTE, 2, 1);
  seed[n++] = if_png(labels, W, H, PNG_COLOR_TYPE_GRAY, 4, 0);
  seed[n++] = if_png(wide, W, H, PNG_COLOR_TYPE_RGB_ALPHA, 16, 0);
  uint8_t exif[IF_EXIF];
  if_exif(exif, 6, 0);
  seed[n++] = if_with_exif(if_jpeg(rgb, W, H, 0), exif, IF_EXIF);
  seed[n++] = if_with_exif(if_png(labels, W, H, PNG_COLOR_TYPE_GRAY, 4, 0), exif, IF_EXIF);
  if_exif(exif, 7, 1);
  seed[n++] = if_with_exif(if_png(v, W, H, PNG_COLOR_TYPE_RGB, 8, 0), exif, IF_EXIF);
  seed[n++] = if_cmyk_jpeg(rgb, W * 3 / 4, H);
  seed[n++] = if_tiff(rgb, W, H, 8); /* where the build has no library, refused at once */
#ifdef HAVE_WEBP
  seed[n++] = if_webp(rgb, W, H);
  seed[n++] = if_with_exif(if_webp(rgb, W, H), exif, IF_EXIF);
#endif
  free(v);
  free(rgb);
  return n;
}

static fz f;
static long rounds;

START_TEST(damaged_files) {
  long decoded = 0;
  if_bytes seed[SEEDS];
  int n_seeds = make_seeds(seed);
  for (int k = 0; k < n_seeds; k++) FZ_CHECK(seed[k].n <= 1 << 14, "a seed of %zu bytes", seed[k].n);
  im_decoder d = {0};
  im_buf px = {0};
  uint8_t work[1 << 14];
  unsigned sum = 0; /* of all pixels, so that all are read */
  for (long r = 0; r < rounds; r++) {
    int k = (int)fz_below(&f, (uint32_t)n_seeds);
    memcpy(work, seed[k].p, seed[k].n);
    d.size = fz_mutate(&f, work, seed[k].n);
    if (fz_below(&f, 4)) mend(work, d.size);
    im_buf_free(&d.file); /* a block of just that size, so that a read beyond it is seen */
    uint8_t *p = malloc(d.size);
    FZ_CHECK(p, "out of memory");
    d.file = (im_buf){memcpy(p, work, d.size), d.size};
    for (int labels = 0; labels < 2; labels++) {
      int w = 0, h = 0;
      d.why[0] = 0;
      int rc = labels ? im_labels(&d, MAX_PIXELS, &px, &w, &h) : im_rgb(&d, MAX_PIXELS, &px, &w, &h);
      if (rc != SP_OK) {
        FZ_CHECK(d.why[0], "round %ld: refused with %d and no words", r, rc);
        continue;
      }
      decoded++;
      FZ_CHECK(d.orientation >= 1 && d.orientation <= 8, "round %ld: orientation %d", r, d.orientation);
      FZ_CHECK(w > 0 && h > 0 && (int64_t)w * h <= MAX_PIXELS, "round %ld: %d x %d pixels", r, w, h);
      for (size_t i = 0; i < (size_t)w * (size_t)h * (labels ? 1 : 3); i++) sum += ((const uint8_t *)px.p)[i];
    }
  }
  printf("%ld rounds, %ld decoded, sum %u\n", rounds, decoded, sum);
  FZ_CHECK(rounds < 1000 || (decoded > rounds / 20 && decoded < rounds * 2), "the mutations are too harsh or too mild");
  for (int k = 0; k < n_seeds; k++) free(seed[k].p);
  im_buf_free(&px);
  im_decoder_free(&d);
}
END_TEST

/* The files are made by what the tests share, which works within Check alone. */
int main(int argc, char **argv) {
  rounds = fz_begin(&f, argc, argv, 3000);
  TCase *tc = tcase_create("fuzz");
  tcase_add_test(tc, damaged_files);
  Suite *s = suite_create("fuzz_image");
  suite_add_tcase(s, tc);
  SRunner *sr = srunner_create(s);
  srunner_set_fork_status(sr, CK_NOFORK); /* no time limit, so that many rounds can be asked for */
  srunner_run_all(sr, CK_NORMAL);
  int failed = srunner_ntests_failed(sr);
  srunner_free(sr);
  return failed != 0;
}
