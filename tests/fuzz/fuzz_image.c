/* SPDX-License-Identifier: MIT
 * fuzz_image.c - damaged image files of all formats: decoded or refused in words, within max_pixels. PROGRAM ROUNDS
 * SEED FORMAT takes those of one format alone: jpeg, png, tiff, webp, bmp, pnm, npy or gif. */
#include <check.h>
#include <png.h>

#include <spcore/abi.h>

#include "fuzz.h"
#include "fuzz_files.h"
#include "plugins/kits/image/image.h"
#include "plugins/kits/image/keep.h"
#include "tests/kit/first_pictures.h"
#include "tests/kit/image_files.h"

enum { W = 23, H = 17, SEEDS = 64, MAX_PIXELS = 40000, FITTED = 64 };

/* No decoder asks for more than this, whatever a file claims: AddressSanitizer ends a program that does. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "max_allocation_size_mb=256"; }

typedef struct seeds {
  if_bytes file[SEEDS];
  const char *format[SEEDS], *wanted; /* wanted: NULL: all */
  int n;
} seeds;

/* Takes the file. */
static void add(seeds *s, const char *format, if_bytes file) {
  int wanted = !s->wanted || !strcmp(s->wanted, format);
  FZ_CHECK(s->n < SEEDS, "more than %d seeds", SEEDS);
  if (!wanted) free(file.p);
  else s->file[s->n] = file, s->format[s->n++] = format;
}

static void add_bytes(seeds *s, const char *format, const void *bytes, size_t n) {
  uint8_t *p = malloc(n);
  FZ_CHECK(p, "out of memory");
  add(s, format, (if_bytes){memcpy(p, bytes, n), n});
}

/* Headers of 40 bytes; the pixels are any. */
static void add_bmp(seeds *s, int w, int h, int bits, int compression) {
  uint8_t b[4096] = "BM";
  size_t colours = bits <= 8 ? (size_t)4 << bits : compression == 3 ? 12 : 0, at = 54 + colours, n = at + 900;
  const uint32_t head[] = {(uint32_t)n, 0, (uint32_t)at, 40, (uint32_t)w, (uint32_t)h, 1 | (uint32_t)bits << 16,
                           (uint32_t)compression};
  for (size_t i = 54; i < n; i++) b[i] = (uint8_t)(i * i >> 3);
  memcpy(b + 2, head, sizeof head);
  if (compression == 3) memcpy(b + 54, (const uint32_t[]){0xF800, 0x7E0, 0x1F}, 12);
  add_bytes(s, "bmp", b, n);
}

static void add_pnm(seeds *s, int kind, int w, int h, int most) {
  char b[4096];
  const char *head = kind % 3 == 1 ? "P%d\n# x\n%d %d\n" : "P%d\n# x\n%d %d\n%d\n";
  size_t n = (size_t)snprintf(b, sizeof b, head, kind, w, h, most);
  size_t values = (size_t)w * (size_t)h * (kind % 3 == 0 ? 3 : 1) * (most > 255 ? 2 : 1);
  for (size_t i = 0; i < values && n < sizeof b - 8; i++)
    if (kind <= 3) n += (size_t)snprintf(b + n, 8, "%d ", (int)(i * 37 % (size_t)(most + 1)));
    else b[n++] = (char)(i * 37);
  add_bytes(s, "pnm", b, n);
}

static void add_npy(seeds *s, const char *descr, const char *shape, size_t bytes) {
  uint8_t b[4096];
  add_bytes(s, "npy", b, fz_npy(b, descr, shape, bytes));
}

static void add_tiff(seeds *s, const fz_tiff_of *of) {
  uint8_t b[FZ_TIFF_BYTES];
  add_bytes(s, "tiff", b, fz_tiff(b, of));
}

static uint32_t crc(const uint8_t *p, size_t n) {
  uint32_t c = 0xffffffff;
  while (n--) {
    c ^= *p++;
    for (int k = 0; k < 8; k++) c = c & 1 ? 0xedb88320 ^ c >> 1 : c >> 1;
  }
  return ~c;
}

static void put_be32(uint8_t *p, uint32_t v) {
  for (int k = 0; k < 4; k++) p[k] = (uint8_t)(v >> (24 - 8 * k));
}

static uint32_t be32(const uint8_t *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* The checksums put right, so that the damage gets past them. */
static void mend(uint8_t *p, size_t n) {
  for (size_t at = 8; at + 12 <= n;) {
    size_t len = be32(p + at);
    if (len > n - at - 12) return;
    put_be32(p + at + 8 + len, crc(p + at + 4, len + 4));
    at += 12 + len;
  }
}

static uint8_t *put_chunk(uint8_t *to, const char *name, const uint8_t *bytes, size_t n) {
  put_be32(to, (uint32_t)n);
  memcpy(to + 4, name, 4);
  memcpy(to + 8, bytes, n);
  put_be32(to + 8 + n, crc(to + 4, n + 4));
  return to + 12 + n;
}

/* An animation (APNG) whose first picture is that of the file and its second one pixel of it. Takes the file. */
static if_bytes animated(if_bytes png) {
  enum { HEAD = 8 + 25, END = 12, EXTRA = 200 };
  static const uint8_t all[8] = {[3] = 2};
  uint8_t frame[26] = {[7] = W, [11] = H}, *b = malloc(png.n + EXTRA), *p = b + HEAD;
  FZ_CHECK(b, "out of memory");
  memcpy(b, png.p, HEAD);
  p = put_chunk(p, "acTL", all, sizeof all);
  p = put_chunk(p, "fcTL", frame, sizeof frame);
  memcpy(p, png.p + HEAD, png.n - HEAD - END);
  p += png.n - HEAD - END;
  frame[3] = frame[7] = frame[11] = 1;
  p = put_chunk(p, "fcTL", frame, sizeof frame);
  p = put_chunk(p, "fdAT", (const uint8_t[]){0, 0, 0, 2, 0x78, 1, 1, 4, 0, 0xfb, 0xff, 0, 1, 2, 3, 0, 0xd, 0, 7}, 19);
  memcpy(p, png.p + png.n - END, END);
  free(png.p);
  return (if_bytes){b, (size_t)(p - b) + END};
}

static void add_grey16(seeds *s, const uint16_t *px) {
  im_encoder e = {0};
  FZ_CHECK(!im_grey16_to_png(&e, px, W, H), "%s", e.why);
  add_bytes(s, "png", e.out, e.n);
  im_encoder_free(&e);
}

static void make_seeds(seeds *s) {
  uint8_t *rgb = if_picture(W, H, 1);
  uint16_t labels[W * H], wide[W * H * 4];
  for (int i = 0; i < W * H; i++) labels[i] = (uint16_t)(i % 4);
  for (int i = 0; i < W * H * 4; i++) wide[i] = (uint16_t)(i * 997);
  uint16_t *v = if_wide(rgb, W * H * 3);
  add(s, "jpeg", if_jpeg(rgb, W, H, 0));
  add(s, "jpeg", if_jpeg(rgb, W, H, 1));
  add(s, "png", if_png(v, W, H, PNG_COLOR_TYPE_RGB, 8, 0));
  add(s, "png", if_png(v, W, H, PNG_COLOR_TYPE_RGB, 8, 1));
  add(s, "png", if_png(labels, W, H, PNG_COLOR_TYPE_PALETTE, 2, 1));
  add(s, "png", if_png(labels, W, H, PNG_COLOR_TYPE_GRAY, 4, 0));
  add(s, "png", if_png(wide, W, H, PNG_COLOR_TYPE_RGB_ALPHA, 16, 0));
  uint8_t exif[IF_EXIF];
  if_exif(exif, 6, 0);
  add(s, "jpeg", if_with_exif(if_jpeg(rgb, W, H, 0), exif, IF_EXIF));
  add(s, "png", if_with_exif(if_png(labels, W, H, PNG_COLOR_TYPE_GRAY, 4, 0), exif, IF_EXIF));
  if_exif(exif, 7, 1);
  add(s, "png", if_with_exif(if_png(v, W, H, PNG_COLOR_TYPE_RGB, 8, 0), exif, IF_EXIF));
  add(s, "jpeg", if_cmyk_jpeg(rgb, W * 3 / 4, H));
  add(s, "tiff", if_tiff(rgb, W, H, 8)); /* where the build has no library, refused at once */
#ifdef HAVE_WEBP
  add(s, "webp", if_webp(rgb, W, H));
  add(s, "webp", if_with_exif(if_webp(rgb, W, H), exif, IF_EXIF));
  add_bytes(s, "webp", if_webp_animation, sizeof if_webp_animation);
#endif
  add_bmp(s, 7, 9, 1, 0);
  add_bmp(s, 9, -8, 4, 0);
  add_bmp(s, 9, 8, 8, 1);
  add_bmp(s, 9, 8, 4, 2);
  add_bmp(s, 9, 8, 16, 3);
  add_bmp(s, 9, 8, 24, 0);
  add_bmp(s, 9, 8, 32, 0);
  add(s, "png", if_png(wide, W, H, PNG_COLOR_TYPE_GRAY, 16, 0));
  add(s, "tiff", if_tiff(rgb, W, H, 3));
  static const fz_tiff_of tiffs[] = {
      {32, 3, 4, 0, 0}, {16, 1, 4, 1, 0},  {64, 3, 2, 0, 0},  {16, 2, 1, 0, 0}, {8, 1, 3, 0, 16},
      {8, 1, 1, 0, 16}, {16, 1, 2, 1, 16}, {32, 3, 1, 0, 16}, {1, 1, 1, 0, 16}, {8, 1, 1, 0, 3},
  };
  for (size_t i = 0; i < sizeof tiffs / sizeof *tiffs; i++) add_tiff(s, &tiffs[i]);
  add(s, "png", animated(if_png(v, W, H, PNG_COLOR_TYPE_RGB, 8, 0)));
  add(s, "png", animated(if_png(wide, W, H, PNG_COLOR_TYPE_GRAY, 16, 1)));
  add_grey16(s, wide);
  add_npy(s, "<u2", "(9, 8)", 144);
  add_npy(s, ">f4", "(9, 8, 3)", 864);
  add_npy(s, "|b1", "(4, 9, 8)", 288);
  for (int kind = 1; kind <= 6; kind++) add_pnm(s, kind, 9, 8, kind % 3 == 1 ? 1 : kind == 5 ? 1000 : 200);
#ifdef HAVE_GIF
  add_bytes(s, "gif", if_gif_animation, sizeof if_gif_animation);
#endif
  free(v);
  free(rgb);
}

static fz f;
static long rounds;

/* As the reader does it, with drawn parameters. */
static int keep(im_decoder *d, im_scaler *scaler, im_buf *raw, im_buf *px, im_pixels *found, float *to) {
  static const char *const ranges[] = {"", "0,1", "-7,65535"}, *const none[] = {"", "tag", "-999", "0"};
  const im_fitting fit = {.how = (int32_t)fz_below(&f, 3), .interpolation = (int32_t)fz_below(&f, 2)};
  im_keep_params p = {
      .range = "", .nodata = "", .fill = "", .channels = fz_below(&f, 6), .as = (int32_t)fz_below(&f, 3)};
  if (p.as) p.range = ranges[fz_below(&f, 3)], p.nodata = none[fz_below(&f, 4)];
  char words[256];
  im_keep k;
  im_kept is;
  FZ_CHECK(!im_keep_of(&p, &k, words), "%s", words);
  int rc = im_keep_read(d, &k, MAX_PIXELS, raw, px, &is);
  if (rc) return rc;
  FZ_CHECK(is.channels > 0 && (!k.channels || is.channels == k.channels), "%d channels", is.channels);
  *found = (im_pixels){.w = is.w, .h = is.h, .channels = is.channels, .type = p.as ? IM_F32 : IM_U8};
  k.channels = is.channels;
  im_buf copy = {0};
  size_t bytes = (size_t)is.w * (size_t)is.h * (size_t)is.channels * im_keep_bytes(&k);
  FZ_CHECK(im_reserve(&copy, bytes), "out of memory");
  memcpy(copy.p, px->p, bytes);
  if (is.channels <= FITTED) FZ_CHECK(!im_keep_fit(scaler, &k, &fit, copy.p, &is, to, 7, 5), "not fitted");
  im_buf_free(&copy);
  return SP_OK;
}

static const char *format; /* NULL: all */

START_TEST(damaged_files) {
  long decoded = 0;
  seeds s = {.wanted = format};
  make_seeds(&s);
  FZ_CHECK(s.n, "no seed is %s", format);
  for (int k = 0; k < s.n; k++) FZ_CHECK(s.file[k].n <= 1 << 14, "a seed of %zu bytes", s.file[k].n);
  im_decoder d = {0};
  im_buf px = {0}, raw = {0};
  im_scaler scaler = {0};
  static float fitted[7 * 5 * FITTED];
  uint8_t work[1 << 14];
  unsigned sum = 0; /* of all pixels, so that all are read */
  for (long r = 0; r < rounds; r++) {
    int k = (int)fz_below(&f, (uint32_t)s.n);
    memcpy(work, s.file[k].p, s.file[k].n);
    d.size = fz_mutate(&f, work, s.file[k].n);
    if (!strcmp(s.format[k], "png") && fz_below(&f, 4)) mend(work, d.size);
    im_buf_free(&d.file); /* a block of just that size, so that a read beyond it is seen */
    uint8_t *p = malloc(d.size);
    FZ_CHECK(p, "out of memory");
    d.file = (im_buf){memcpy(p, work, d.size), d.size};
    uint8_t palette[768];
    FZ_CHECK(im_palette(&d, palette) <= 256, "round %ld: a palette of more than 256 colours", r);
    for (int as = 0; as < 5; as++) { /* im_rgb, im_labels, im_numbers, im_about, im_keep_read */
      int w = 0, h = 0;
      im_pixels found = {0};
      d.why[0] = 0;
      int rc = as == 0   ? im_rgb(&d, MAX_PIXELS, &px, &w, &h)
               : as == 1 ? im_labels(&d, MAX_PIXELS, &px, &w, &h)
               : as == 2 ? im_numbers(&d, MAX_PIXELS, &px, &found)
               : as == 3 ? im_about(&d, &found)
                         : keep(&d, &scaler, &raw, &px, &found, fitted);
      if (rc != SP_OK) {
        FZ_CHECK(d.why[0], "round %ld: refused with %d and no words", r, rc);
        continue;
      }
      if (as == 3) {
        FZ_CHECK(found.w > 0 && found.h > 0 && found.channels > 0, "round %ld: a header of nothing", r);
        continue;
      }
      decoded++;
      if (as > 1) w = found.w, h = found.h;
      FZ_CHECK(d.orientation >= 1 && d.orientation <= 8, "round %ld: orientation %d", r, d.orientation);
      FZ_CHECK(w > 0 && h > 0 && (int64_t)w * h <= MAX_PIXELS, "round %ld: %d x %d pixels", r, w, h);
      size_t bytes = as == 0 ? 3 : as == 1 ? 1 : (size_t)found.channels * im_type_bytes(found.type);
      for (size_t i = 0; i < (size_t)w * (size_t)h * bytes; i++) sum += ((const uint8_t *)px.p)[i];
    }
  }
  printf("%ld rounds, %ld decoded, sum %u\n", rounds, decoded, sum);
  FZ_CHECK(rounds < 1000 || (decoded > rounds / 20 && decoded < rounds * 4), "the mutations are too harsh or too mild");
  for (int k = 0; k < s.n; k++) free(s.file[k].p);
  im_buf_free(&px);
  im_buf_free(&raw);
  im_scaler_free(&scaler);
  im_decoder_free(&d);
}
END_TEST

/* The files are made by what the tests share, which works within Check alone. */
int main(int argc, char **argv) {
  rounds = fz_begin(&f, argc, argv, 3000);
  format = argc > 3 ? argv[3] : NULL;
  TCase *tc = tcase_create("fuzz");
  tcase_add_test(tc, damaged_files);
  Suite *suite = suite_create("fuzz_image");
  suite_add_tcase(suite, tc);
  SRunner *sr = srunner_create(suite);
  srunner_set_fork_status(sr, CK_NOFORK); /* no time limit, so that many rounds can be asked for */
  srunner_run_all(sr, CK_NORMAL);
  int failed = srunner_ntests_failed(sr);
  srunner_free(sr);
  return failed != 0;
}
