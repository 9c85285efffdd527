/* SPDX-License-Identifier: MIT
 * check_reader_arrays.c - the stage `reader` on .npy files: every form of images and labels, splits, and headers that
 * are damaged or lie. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/kit/image_files.h"
#include "tests/kit/reader_kit.h"
#include "tests/kit/suite.h"

#define CLASS "target = \"class\""

enum { H = 4, W = 6, ROW = H * W };

static spt *reader(const char *more, int64_t n) {
  char params[1024];
  snprintf(params, sizeof params, "{ path = \"%s\", size = { 4, 6 }, %s }", if_path("set"), more);
  return open_set(params, n);
}

static void begin(void) {
  if_begin();
  ck_assert(!mkdir(if_path("set"), 0777));
}

/* A file of version 1, 2 or 3 with this header, padded as NumPy does, and n bytes of elements. */
static void put_npy(const char *name, int version, const char *header, const void *bytes, size_t n) {
  uint8_t *p = calloc(1, 4096 + n);
  char path[64];
  int from = version == 1 ? 10 : 12, size = (int)((strlen(header) + 1 + (size_t)from + 63) / 64 * 64) - from;
  ck_assert_ptr_nonnull(p);
  memcpy(p, "\x93NUMPY", 6);
  p[6] = (uint8_t)version;
  p[8] = (uint8_t)size;
  p[9] = (uint8_t)(size >> 8);
  memset(p + from, ' ', (size_t)size);
  memcpy(p + from, header, strlen(header));
  p[from + size - 1] = '\n';
  memcpy(p + from + size, bytes, n);
  snprintf(path, sizeof path, "set/%s.npy", name);
  if_put(path, p, (size_t)(from + size) + n);
  free(p);
}

static void put(const char *name, const char *dtype, const char *shape, const void *bytes, size_t n) {
  char header[256];
  snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", dtype, shape);
  put_npy(name, 1, header, bytes, n);
}

/* The value of an image: sample, row, column, channel. */
static int value(int i, int y, int x, int c) { return (i * 60 + y * 13 + x * 3 + c * 40) % 256; }

/* n images; planar: a plane for each channel. */
static void put_images(const char *name, int n, int channels, int planar, const char *shape) {
  uint8_t v[8 * ROW * 3];
  for (int i = 0; i < n; i++)
    for (int y = 0; y < H; y++)
      for (int x = 0; x < W; x++)
        for (int c = 0; c < channels; c++) {
          int at = planar ? (c * H + y) * W + x : (y * W + x) * channels + c;
          v[i * ROW * channels + at] = (uint8_t)value(i, y, x, c);
        }
  put(name, "|u1", shape, v, (size_t)(n * ROW * channels));
}

static void check_image(spt *t, int at, int i, int channels) {
  for (int k = 0; k < ROW * 3; k++)
    ck_assert_int_eq(image_of(t, at)[k], value(i, k / 3 / W, k / 3 % W, channels == 3 ? k % 3 : 0));
}

/* ---- what is read ---- */
START_TEST(test_images) {
  static const struct {
    int channels, planar;
    const char *shape;
  } forms[] = {
      {3, 0, "3, 4, 6, 3"}, {3, 1, "3, 3, 4, 6"}, {1, 0, "3, 4, 6"}, {1, 0, "3, 4, 6, 1"}, {1, 0, "3, 1, 4, 6"}};
  put("labels", "|u1", "3,", "\1\0\1", 3);
  for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
    put_images("images", 3, forms[f].channels, forms[f].planar, forms[f].shape);
    spt *t = reader(CLASS, 3);
    make(t, 0, 3);
    ck_assert_int_eq(spt_length(t), 3);
    ck_assert_double_eq(attr(t, "classes"), 2);
    for (int i = 0; i < 3; i++) { /* by class, then by row */
      check_image(t, i, (int[]){1, 0, 2}[i], forms[f].channels);
      ck_assert_int_eq(label_of(t, i), i > 0);
    }
    spt_free(t);
  }
}
END_TEST

START_TEST(test_masks) {
  uint8_t masks[2 * ROW];
  for (int k = 0; k < 2 * ROW; k++) masks[k] = (uint8_t)(k % 5);
  put_images("images", 2, 3, 0, "2, 4, 6, 3");
  put("masks", "|u1", "2, 4, 6", masks, sizeof masks);
  spt *t = reader("classes = 5", 2);
  make(t, 0, 2);
  for (int i = 0; i < 2; i++) {
    check_image(t, i, i, 3);
    ck_assert_mem_eq(mask_of(t, i), masks + i * ROW, ROW);
  }
  spt_free(t);
  static const char *const forms[][2] = {{"|u1", "2, 4, 6, 1"}, {"|u1", "2, 1, 4, 6"}, {"|b1", "2, 4, 6"}};
  for (size_t f = 0; f < SP_ARRAY(forms); f++) {
    if (*forms[f][0] == '|' && forms[f][0][1] == 'b')
      for (int k = 0; k < 2 * ROW; k++) masks[k] &= 1;
    put("masks", forms[f][0], forms[f][1], masks, sizeof masks);
    t = reader("classes = 5", 2);
    make(t, 0, 2);
    ck_assert_mem_eq(mask_of(t, 1), masks + ROW, ROW);
    spt_free(t);
  }
  masks[ROW + 9] = 5;
  put("masks", "|u1", "2, 4, 6", masks, sizeof masks);
  t = reader("classes = 5", 2);
  ok(t);
  for (int i = 0; i < 2; i++) spt_set_id(t, i, (uint64_t)i);
  spt_forward(t, 0);
  says(t, SP_E_DATA,
       "set/masks.npy, row 1: label 5 at x = 3, y = 1, but there are 5 classes (0 to 4, and 255: no label)");
  spt_free(t);
}
END_TEST

/* Every type of integer, in either order of bytes. */
START_TEST(test_labels) {
  static const char *const names = "a\nb\nc";
  put_images("images", 2, 1, 0, "2, 4, 6");
  if_put("set/classes.txt", names, strlen(names));
  for (int k = 0; k < 16; k++) {
    char type[4] = {k & 8 ? '>' : '<', k & 4 ? 'i' : 'u', (char)('0' + (1 << k % 4)), 0};
    uint8_t v[16] = {0};
    int item = 1 << k % 4;
    v[k & 8 ? item - 1 : 0] = 1;
    v[item + (k & 8 ? item - 1 : 0)] = 2;
    char header[128];
    snprintf(header, sizeof header, "{\"shape\":(2%s),\"descr\":\"%s\",\"fortran_order\":False}", k % 2 ? ",1" : ",",
             type);
    put_npy("labels", 1 + k % 3, header, v, (size_t)(2 * item));
    spt *t = reader(CLASS, 2);
    make(t, 0, 2);
    ck_assert_int_eq(label_of(t, 0), 1);
    ck_assert_int_eq(label_of(t, 1), 2);
    ck_assert_str_eq(spt_attr_text(t, "class_names"), names);
    spt_free(t);
  }
  put("labels", "<i2", "2,", "\0\0\xFE\xFF", 4);
  spt *t = reader(CLASS, 1);
  says(t, SP_E_DATA, "set/labels.npy, row 1: the label is \"-2\", but ");
  spt_free(t);
}
END_TEST

static int64_t length(const char *more) {
  spt *t = reader(more, 1);
  ok(t);
  int64_t n = spt_length(t);
  spt_free(t);
  return n;
}

START_TEST(test_splits) {
  put_images("train_images", 4, 1, 0, "4, 4, 6");
  put_images("val_images", 2, 1, 0, "2, 4, 6");
  put("train_labels", "|u1", "4,", "\1\0\1\1", 4);
  put("val_labels", "|u1", "2,", "\1\2", 2);
  ck_assert_int_eq(length(CLASS ", split = \"train\""), 4);
  ck_assert_int_eq(length(CLASS ", split = \"val\""), 2);
  ck_assert_int_eq(length(CLASS), 6);
  spt *t = reader(CLASS ", val_fraction = 0.2", 1);
  says(t, SP_E_INVALID, "has train_images.npy and val_images.npy, which say what is for validation");
  spt_free(t);
  ck_assert(!mkdir(if_path("set/train"), 0777) && !mkdir(if_path("set/val"), 0777));
  for (int k = 0; k < 4; k++) {
    char from[64], to[64];
    snprintf(from, sizeof from, "set/%s_%s.npy", k & 1 ? "val" : "train", k & 2 ? "labels" : "images");
    snprintf(to, sizeof to, "set/%s/%s.npy", k & 1 ? "val" : "train", k & 2 ? "labels" : "images");
    ck_assert(!rename(if_path(from), if_path(to)));
  }
  ck_assert_int_eq(length(CLASS ", split = \"train\""), 4);
  ck_assert_int_eq(length(CLASS ", split = \"val\""), 2);
}
END_TEST

/* ---- what is refused ---- */
static void refused(const char *more, int status, const char *words) {
  spt *t = reader(more, 1);
  says(t, status, words);
  spt_free(t);
}

/* Numbers as they are, by range, and with NaN replaced; two workers give them as one does. */
START_TEST(test_numbers) {
  enum { N = 4, C = 5, ALL = N * ROW * C };
  static const int order[] = {0, 2, 1, 3}; /* one class after another */
  float v[ALL], planes[ALL];
  for (int i = 0; i < ALL; i++) v[i] = (float)(i - 100) * 0.37f;
  v[7] = NAN;
  for (int n = 0; n < N; n++)
    for (int k = 0; k < ROW; k++)
      for (int c = 0; c < C; c++) planes[(n * C + c) * ROW + k] = v[(n * ROW + k) * C + c];
  put("labels", "|u1", "4,", "\0\1\0\1", 4);
  for (int planar = 0; planar < 2; planar++)
    for (int ranged = 0; ranged < 2; ranged++) {
      put("images", "<f4", planar ? "4, 5, 4, 6" : "4, 4, 6, 5", planar ? planes : v, sizeof v);
      char more[128];
      snprintf(more, sizeof more, "dtype = \"float32\", channels = 5, workers = %d%s, " CLASS, 1 + ranged,
               ranged ? ", range = \"-2,6\"" : "");
      spt *t = reader(more, N);
      make(t, 0, N);
      const sp_spec *s = spt_spec(t, SPT_OUT, 0, 0);
      ck_assert(s->dtype == SP_F32 && s->shape[1] == C && s->shape[2] == H && s->shape[3] == W);
      const float *got = spt_raw(t, SPT_OUT, 0, 0);
      for (int i = 0; i < ALL; i++) {
        float want = v[order[i / (ROW * C)] * ROW * C + i % (ROW * C)];
        if (isnan(want)) want = ranged ? -2.0f : 0.0f;
        if (ranged) want = (want + 2.0f) / 8.0f;
        ck_assert_msg(fabsf(got[i] - want) < 1e-6f * (1.0f + fabsf(want)), "%d: %g, not %g", i, (double)got[i],
                      (double)want);
      }
      spt_free(t);
    }
}
END_TEST

START_TEST(test_numbers_refused) {
  static const struct {
    const char *more, *words;
    int status;
  } bad[] = {
      {"grey = true, channels = 4", "grey gives one channel, and channels is 4", SP_E_INVALID},
      {"range = \"0,1\"", "range goes with numbers, not with bytes", SP_E_INVALID},
      {"dtype = \"float32\", range = \"1,0\"", "two numbers are expected, the lower one first", SP_E_INVALID},
      {"dtype = \"float32\", nodata = \"x\"", "nodata = \"x\": a number is expected, or tag", SP_E_INVALID},
      {"dtype = \"float32\", channels = 7", "reads all of these", SP_E_DATA},
  };
  float zeros[4 * ROW * 6] = {0};
  put("labels", "|u1", "4,", "\0\1\0\1", 4);
  put("images", "<f4", "4, 4, 6, 6", zeros, sizeof zeros);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char more[160];
    snprintf(more, sizeof more, "%s, " CLASS, bad[i].more);
    spt *t = reader(more, 1);
    says(t, bad[i].status, bad[i].words);
    spt_free(t);
  }
}
END_TEST

START_TEST(test_types_refused) {
  static const struct {
    const char *dtype, *shape, *words;
  } bad[] = {
      {"<f4", "2, 4, 6, 3",
       "set/images.npy holds 2 x 4 x 6 x 3 of float32; images are bytes unless dtype = \"float32\" keeps such numbers"},
      {"<i4", "2, 4, 6, 3", "of int32; images are bytes"},
      {"|b1", "2, 4, 6", "2 x 4 x 6 of bool; images are bytes"},
      {"<U3", "2, 4, 6", "its elements are texts"},
      {"|u1", "2, 4, 6, 4",
       "holds 2 x 4 x 6 x 4 of uint8; N x H x W x C or N x C x H x W of 1 or 3 channels, or N x H x W, are read"},
      {"|u1", "2, 24", "holds 2 x 24 of uint8; images are N x H x W, N x H x W x C or N x C x H x W"},
      {"|u1", "2, 3, 6, 3", "that is N x H x W x C as well as N x C x H x W, of as many channels"},
      {"|u1", "2, 3, 6, 1", "that is N x H x W x C as well as N x C x H x W, of as many channels"},
      {"|u1", "0, 4, 6", "a row must be a picture"},
      {"|u1", "2, 0, 6", "a row must be a picture"},
  };
  uint8_t zeros[1024] = {0};
  put("labels", "|u1", "2,", "\0\0", 2);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    put("images", bad[i].dtype, bad[i].shape, zeros, sizeof zeros);
    refused(CLASS, SP_E_DATA, bad[i].words);
  }
}
END_TEST

START_TEST(test_partners_refused) {
  uint8_t zeros[10 * ROW] = {0};
  put_images("images", 2, 3, 0, "2, 4, 6, 3");
  refused(CLASS, SP_E_NOTFOUND, "set/labels.npy is missing, which target = \"class\" wants beside images.npy");
  refused("classes = 2", SP_E_NOTFOUND, "set/masks.npy is missing");
  put("labels", "|u1", "3,", "\0\0\0", 3);
  refused(CLASS, SP_E_DATA,
          "set/labels.npy holds 3 of uint8; labels are 2 numbers, one for each image, or so many rows");
  put("labels", "<f8", "2,", zeros, 16);
  refused(CLASS, SP_E_DATA, "set/labels.npy holds 2 of float64; all are whole numbers, and may be classes");
  put("labels", "|u1", "2, 2", zeros, 4);
  refused(CLASS, SP_E_DATA, "set/labels.npy holds 2 x 2 of uint8; row 0 has no 1, so it is for target = \"labels\"");
  put("labels", "|u1", "", zeros, 1);
  refused(CLASS, SP_E_DATA, "set/labels.npy holds uint8; labels are 2 numbers");
  put("masks", "<c8", "1, 4, 6", zeros, sizeof zeros);
  refused("classes = 2", SP_E_DATA, "set/masks.npy holds ");
  put("masks", "|u1", "2, 6, 4", zeros, sizeof zeros);
  refused("classes = 2", SP_E_DATA,
          "holds 2 x 6 x 4 of uint8; masks are whole numbers, and these 2 x 4 x 6");
  put("masks", "|u1", "2, 5, 4, 5", zeros, sizeof zeros);
  refused("classes = 2", SP_E_DATA, "perhaps with a plane for each class");
  put("labels", "|u1", "2, 4", "\0\1\0\0\0\0\0\1", 8);
  refused(CLASS, SP_E_DATA, "each row has one 1, and may be one class, cells = \"vector\"");
}
END_TEST

START_TEST(test_headers_refused) {
  static const struct {
    const char *header, *words;
  } bad[] = {
      {"{'descr': '|u1', 'fortran_order': True, 'shape': (2, 4, 6), }",
       "its elements lie in Fortran's order; save it from "
       "numpy.ascontiguousarray(array)"},
      {"{'descr': [('a', '|u1')], 'fortran_order': False, 'shape': (2, 4, 6), }",
       "its elements are records; save each field"},
      {"{'descr': '|O', 'fortran_order': False, 'shape': (2,), }",
       "it holds objects (a pickle of Python), as of rows of"},
      {"{'descr': '<U3', 'fortran_order': False, 'shape': (2,), }", "its elements are texts; save numbers"},
      {"{'descr': '|S3', 'fortran_order': False, 'shape': (2,), }", "its elements are texts; save numbers"},
      {"{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (2,), }", "its elements are times; save numbers"},
      {"{'descr': '|u1', 'fortran_order': False, }", "its header is damaged"},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (2, 4, 6), 'shape': (2, 4, 6)}", "its header is damaged"},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (2, 4, 6", "its header is damaged"},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (2, -4, 6), }", "its header is damaged"},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 2, 4, 6), }", "its header is damaged"},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999999999999, 4, 6), }", "its header is damaged"},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (4294967296, 4294967296, 6), }", "it is cut off"},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (3, 4, 6), }",
       "its header says 3 x 4 x 6 of uint8, and the file has 48 bytes of that: it is cut off"},
      {"", "its header is damaged"},
  };
  uint8_t zeros[2 * ROW] = {0};
  put("labels", "|u1", "2,", "\0\0", 2);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    put_npy("images", 1, bad[i].header, zeros, sizeof zeros);
    refused(CLASS, SP_E_DATA, bad[i].words);
    put_npy("images", 2, bad[i].header, zeros, sizeof zeros);
    refused(CLASS, SP_E_DATA, bad[i].words);
  }
  put_npy("images", 4, bad[0].header, zeros, sizeof zeros);
  refused(CLASS, SP_E_DATA, "set/images.npy: it is of version 4.0, those from 1 to 3 are read");
  if_put("set/images.npy", "\x93NUMPY\1\0\xFF\xFF", 10);
  refused(CLASS, SP_E_DATA, "set/images.npy: it ends within its header");
  if_put("set/images.npy", "\x93NUMPY\2\0\xFF\xFF\xFF\xFF{", 13);
  refused(CLASS, SP_E_DATA, "set/images.npy: its header is damaged");
  if_put("set/images.npy", "\x93NUMPX\1\0\0\0{", 11);
  refused(CLASS, SP_E_DATA, "set/images.npy: it is no .npy file by its first bytes");
  if_put("set/images.npy", "", 0);
  refused(CLASS, SP_E_DATA, "set/images.npy: it is no .npy file by its first bytes: the file is empty");
  if_put("set/images.npy", "PK\3\4\24\0\0\0\10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\5\0\0\0a.npy", 35);
  refused(CLASS, SP_E_DATA, "set/images.npy: it is no .npy file by its first bytes: it is a NumPy archive (.npz)");
}
END_TEST

START_TEST(test_file_becomes_shorter) {
  put_images("images", 2, 1, 0, "2, 4, 6");
  put("labels", "|u1", "2,", "\0\0", 2);
  spt *t = reader(CLASS, 2);
  make(t, 0, 2);
  ck_assert(!truncate(if_path("set/images.npy"), 130));
  for (int i = 0; i < 2; i++) spt_set_id(t, i, (uint64_t)i);
  spt_forward(t, 0);
  says(t, SP_E_IO, "set/images.npy, row 0: the file has become shorter since it was opened");
  spt_free(t);
}
END_TEST

int main(void) {
  Suite *s = suite_create("reader_arrays");
  TCase *c = tcase_create("reader_arrays");
  tcase_set_timeout(c, 600);
  tcase_add_checked_fixture(c, begin, if_end);
  tcase_add_test(c, test_images);
  tcase_add_test(c, test_masks);
  tcase_add_test(c, test_labels);
  tcase_add_test(c, test_splits);
  tcase_add_test(c, test_numbers);
  tcase_add_test(c, test_numbers_refused);
  tcase_add_test(c, test_types_refused);
  tcase_add_test(c, test_partners_refused);
  tcase_add_test(c, test_headers_refused);
  tcase_add_test(c, test_file_becomes_shorter);
  suite_add_tcase(s, c);
  return suite_run(s);
}
