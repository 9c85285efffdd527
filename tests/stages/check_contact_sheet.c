/* SPDX-License-Identifier: MIT
 * check_contact_sheet.c - the stage `contact_sheet`: cells hold the pixels of their sample and epoch, captions say the
 * numbers, the file is there when all of it is. */
#include <check.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugins/stages/contact_sheet/font.h"
#include "plugins/stages/contact_sheet/text.h"
#include "plugins/kits/image/image.h"
#include "tests/kit/harness.h"
#include "tests/kit/image_files.h"
#include "tests/kit/suite.h"
#include "base/util.h"

enum { N = 2, H = 20, W = 30, OH = 24, OW = 36, EPOCHS = 2 };
/* as the sheet has them */
enum { MARGIN = 16, FRAME = 1, MASK_GAP = 4, ORIGINAL_GAP = 28, CELL_GAP = 14, ROW_GAP = 16, TEXT_GAP = 6 };

static uint8_t image[EPOCHS][N * 3 * H * W], mask[EPOCHS][N * H * W], original[N * OH * OW], original_mask[N * OH * OW];
static float angles[EPOCHS][N] = {{-12.34f, 5}, {0.04f, -0.04f}};
static int32_t boxes[EPOCHS][N * 2] = {{3, 4, 0, 12}, {100000, 0, 7, 7}};

static void begin(void) {
  if_begin();
  for (int e = 0; e < EPOCHS; e++) {
    for (int i = 0; i < N * 3 * H * W; i++) image[e][i] = (uint8_t)(i * 7 + e * 100);
    for (int i = 0; i < N * H * W; i++) mask[e][i] = (uint8_t)((i + e) % 5 ? (i / W + e) % 4 : 255);
  }
  for (int i = 0; i < N * OH * OW; i++) original[i] = (uint8_t)(i * 5), original_mask[i] = (uint8_t)(i % 3);
}

static const char two[] = "captions = { { \"turn: {+.1}\u00b0\" }, { \"crop: {}, {}\" } }, rows = 2, columns = 2";

/* with: i image's mask, o original, m its mask, a angles, b boxes, l labels */
static spt *sheet(const char *file, const char *more, const char *with, int order) {
  const int64_t shape[] = {N, 3, H, W}, mshape[] = {N, H, W}, oshape[] = {N, 1, OH, OW}, omshape[] = {N, OH, OW};
  const int64_t rows[] = {N, 2};
  static const uint8_t labels[N] = {1, 255};
  char params[3000];
  snprintf(params, sizeof params, "{ file = \"%s\", %s }", file, more);
  spt *t = spt_new("contact_sheet", params, 1);
  if (spt_failed(t)) return t;
  spt_input_of(t, 0, SP_U8, 4, shape, order, image[0]);
  if (strchr(with, 'i')) spt_input_of(t, 1, SP_U8, 3, mshape, 0, mask[0]);
  if (strchr(with, 'o')) spt_input_of(t, 2, SP_U8, 4, oshape, 0, original);
  if (strchr(with, 'm')) spt_input_of(t, 3, SP_U8, 3, omshape, 0, original_mask);
  if (strchr(with, 'a')) spt_input_of(t, 4, SP_F32, 1, rows, 0, angles[0]);
  if (strchr(with, 'b')) spt_input_of(t, 4, SP_I32, 2, rows, 0, boxes[0]);
  if (strchr(with, 'l')) spt_input_of(t, 5, SP_U8, 1, rows, 0, labels);
  spt_set_batch(t, N);
  spt_plan(t, 0);
  return t;
}

static void forward(spt *t) {
  ck_assert_msg(!spt_failed(t), "%s", spt_error(t));
  spt_forward(t, 0);
  ck_assert_msg(!spt_failed(t), "%s", spt_error(t));
}

static void set_epoch(spt *t, int e, const char *with) {
  for (int i = 0; i < N; i++) spt_set_id(t, i, SP_ID(e, i));
  spt_set(t, SPT_IN, 0, 0, image[e]);
  if (strchr(with, 'i')) spt_set(t, SPT_IN, 1, 0, mask[e]);
  if (strchr(with, 'a')) spt_set(t, SPT_IN, 4, 0, angles[e]);
  if (strchr(with, 'b')) spt_set(t, SPT_IN, 4, 1, boxes[e]);
}

/* All epochs, from the last to the first: the column is the epoch, whenever it comes. */
static void run(spt *t, const char *with) {
  for (int e = EPOCHS - 1; e >= 0; e--) {
    set_epoch(t, e, with);
    forward(t);
  }
  spt_free(t);
}

/* ---- the sheet that was written ---- */
static im_buf px;
static int sw, sh;

static void load(const char *name) {
  im_decoder d = {.size = 0};
  ck_assert_msg(im_load(&d, if_path(name)) == SP_OK, "%s: %s", name, d.why);
  ck_assert_msg(im_rgb(&d, 1 << 24, &px, &sw, &sh) == SP_OK, "%s: %s", name, d.why);
  im_decoder_free(&d);
}

static const uint8_t *at(int x, int y) {
  ck_assert_msg(x >= 0 && y >= 0 && x < sw && y < sh, "%d, %d is outside of %d x %d", x, y, sw, sh);
  return (const uint8_t *)px.p + ((size_t)y * (size_t)sw + (size_t)x) * 3;
}

static int is_paper(int x, int y) { return at(x, y)[0] == 255 && at(x, y)[1] == 255 && at(x, y)[2] == 255; }

/* Text in one line at x, y, each dot and each gap of it; then nothing up to `room` letters. */
static void expect_text(int x, int y, int scale, const char *s, int room) {
  const char *begin = s;
  for (int n = 0; n < room; n++) {
    uint32_t code = cs_next(&s);
    for (int j = 0; j < CS_GLYPH_H * scale; j++)
      for (int i = 0; i < CS_ADVANCE * scale; i++) {
        int ink = code && i / scale < CS_GLYPH_W && cs_glyph(code, i / scale, j / scale);
        ck_assert_msg(is_paper(x + n * CS_ADVANCE * scale + i, y + j) == !ink,
                      "\"%s\" at %d, %d: letter %d, dot %d, %d", begin, x, y, n, i, j);
      }
  }
  ck_assert_msg(!*s, "\"%s\" is longer than %d letters", begin, room);
}

static void expect_frame(int x, int y, int w, int h) {
  for (int i = 0; i < w; i++) ck_assert(!is_paper(x + i, y) && !is_paper(x + i, y + h - 1));
  for (int j = 0; j < h; j++) ck_assert(!is_paper(x, y + j) && !is_paper(x + w - 1, y + j));
}

static void expect_picture(int x, int y, int zoom, const uint8_t *v, int c, int h, int w) {
  expect_frame(x, y, w * zoom + 2, h * zoom + 2);
  for (int j = 0; j < h * zoom; j++)
    for (int i = 0; i < w * zoom; i++)
      for (int k = 0; k < 3; k++)
        ck_assert_int_eq(at(x + FRAME + i, y + FRAME + j)[k],
                         v[(size_t)(c == 1 ? 0 : k) * (size_t)(h * w) + (size_t)(j / zoom * w + i / zoom)]);
}

static void expect_mask(int x, int y, int zoom, const uint8_t *v, int h, int w) {
  expect_frame(x, y, w * zoom + 2, h * zoom + 2);
  for (int j = 0; j < h * zoom; j++)
    for (int i = 0; i < w * zoom; i++) {
      uint8_t rgb[3];
      im_label_colour(v[j / zoom * w + i / zoom], rgb);
      ck_assert_mem_eq(at(x + FRAME + i, y + FRAME + j), rgb, 3);
    }
}

enum { Z = 2, L = CS_LINE };

/* Pictures, masks, names and captions of all cells, at their places. */
START_TEST(test_all_of_it) {
  char more[1000];
  const char *with = "iomabl",
             *turned[EPOCHS][N] = {{"turn: -12.3\u00b0", "turn: +5.0\u00b0"}, {"turn: +0.0\u00b0", "turn: +0.0\u00b0"}};
  const char *cut[EPOCHS][N] = {{"crop: 3, 4", "crop: 0, 12"}, {"crop: 100000, 0", "crop: 7, 7"}};
  snprintf(more, sizeof more,
           "%s, zoom = 2, title = \"One\ntwo\", class_names = \"cat\ndog\n\", mask_names = \"ground\nthing\", "
           "names = { { \"a.jpg\" } }",
           two);
  run(sheet(if_path("sheet.png"), more, with, _i ? SP_CHANNELS_LAST : 0), with);
  load("sheet.png");
  int first_w = 2 * (OW * Z + 2) + MASK_GAP, cell_w = 2 * (W * Z + 2) + MASK_GAP;
  int heads = MARGIN + 2 * L + L + TEXT_GAP + L + TEXT_GAP + TEXT_GAP, top = heads + L + TEXT_GAP;
  int first_h = OH * Z + 2 + TEXT_GAP + 2 * L, cell_h = H * Z + 2 + TEXT_GAP + 2 * L;
  int row_h = (first_h > cell_h ? first_h : cell_h) + ROW_GAP;
  ck_assert_int_eq(sw, 2 * MARGIN + first_w + ORIGINAL_GAP + 2 * cell_w + CELL_GAP);
  ck_assert_int_eq(sh, top + 2 * row_h - ROW_GAP + MARGIN);
  expect_text(MARGIN, MARGIN, 2, "One", 20);
  expect_text(MARGIN, MARGIN + 2 * L, 1, "two", 40);
  expect_text(MARGIN + 9 + 4, MARGIN + 3 * L + TEXT_GAP + 1, 1, "ground", 8);
  expect_text(MARGIN, heads, 1, "original", 12);
  for (int row = 0; row < N; row++) {
    int y = top + row * row_h, x = MARGIN;
    expect_picture(x, y, Z, original + row * OH * OW, 1, OH, OW);
    expect_mask(x + OW * Z + 2 + MASK_GAP, y, Z, original_mask + row * OH * OW, OH, OW);
    expect_text(x, y + OH * Z + 2 + TEXT_GAP, 1, row ? "sample 1" : "a.jpg", first_w / CS_ADVANCE);
    expect_text(x, y + OH * Z + 2 + TEXT_GAP + L, 1, row ? "no class" : "dog", first_w / CS_ADVANCE);
    for (int e = 0; e < EPOCHS; e++) {
      x = MARGIN + first_w + ORIGINAL_GAP + e * (cell_w + CELL_GAP);
      expect_text(x, heads, 1, e ? "epoch 2" : "epoch 1", 12);
      expect_picture(x, y, Z, image[e] + row * 3 * H * W, 3, H, W);
      expect_mask(x + W * Z + 2 + MASK_GAP, y, Z, mask[e] + row * H * W, H, W);
      expect_text(x, y + H * Z + 2 + TEXT_GAP, 1, turned[e][row], cell_w / CS_ADVANCE);
      expect_text(x, y + H * Z + 2 + TEXT_GAP + L, 1, cut[e][row], cell_w / CS_ADVANCE);
    }
  }
}
END_TEST

/* Neither masks nor originals nor captions; larger letters; what is beyond rows and columns is left out. */
START_TEST(test_images_alone) {
  run(sheet(if_path("sheet.png"), "rows = 1, columns = 1, text = 2", "", 0), "");
  load("sheet.png");
  int cell = 18 * CS_ADVANCE * 2, top = MARGIN + 2 * L + TEXT_GAP;
  ck_assert_int_eq(sw, 2 * MARGIN + 2 * cell + ORIGINAL_GAP);
  ck_assert_int_eq(sh, top + H + 2 + TEXT_GAP + MARGIN);
  expect_text(MARGIN, MARGIN, 2, "sample", 10);
  expect_text(MARGIN, top, 2, "sample 0", 17);
  expect_picture(MARGIN + cell + ORIGINAL_GAP, top, 1, image[0], 3, H, W);
}
END_TEST

/* Three lines of a name, then it is cut. */
START_TEST(test_long_name) {
  run(sheet(if_path("sheet.png"),
            "rows = 1, columns = 1, names = { { \"12345678901234567 90 345678901234567890 x y z\" } }", "", 0),
      "");
  load("sheet.png");
  int y = MARGIN + L + TEXT_GAP;
  expect_text(MARGIN, y, 1, "12345678901234567", 18);
  expect_text(MARGIN, y + L, 1, "90", 18);
  expect_text(MARGIN, y + 2 * L, 1, "34567890123456789\u2026", 18);
}
END_TEST

/* Where names stand beside the pictures, words are whole and no line is lost. */
START_TEST(test_names_beside) {
  run(sheet(if_path("sheet.png"),
            "rows = 1, columns = 1, cells = { 0 }, names = { { \"abcdefghijklmnopqrstuvwxyz\ntwo\nthree\nfour\" } }",
            "", 0),
      "");
  load("sheet.png");
  static const char *const lines[] = {"abcdefghijklmnopqrstuvwxyz", "two", "three", "four"};
  for (int i = 0; i < 4; i++) expect_text(MARGIN, MARGIN + i * L, 1, lines[i], 26);
  ck_assert_int_eq(cs_longest_word("ab cde\nf"), 3);
}
END_TEST

/* The file comes with the last cell, whatever the batches are; going over the samples again writes it again. */
START_TEST(test_when_it_is_written) {
  spt *t = sheet(if_path("sheet.png"), two, "iab", 0);
  forward(t);
  forward(t); /* the same epoch counts once */
  for (int i = 0; i < N; i++) spt_set_id(t, i, SP_ID(5, i));
  forward(t);
  set_epoch(t, 1, "iab");
  spt_run_batch(t, 1);
  forward(t);
  ck_assert_int_ne(access(if_path("sheet.png"), F_OK), 0);
  spt_set_id(t, 0, SP_ID(1, 1));
  forward(t);
  ck_assert_int_eq(access(if_path("sheet.png"), F_OK), 0);
  ck_assert_int_eq(unlink(if_path("sheet.png")), 0);
  forward(t);
  ck_assert_int_ne(access(if_path("sheet.png"), F_OK), 0);
  for (int e = 0; e < 2; e++)
    for (int i = 0; i < N; i++) {
      spt_set_id(t, 0, SP_ID(e, i));
      forward(t);
    }
  ck_assert_int_eq(access(if_path("sheet.png"), F_OK), 0);
  spt_free(t);
}
END_TEST

/* ---- words ---- */
static void expect_caption(const char *caption, const void *v, int dtype, int64_t columns, int64_t row,
                           const char *want) {
  sp_tensor t = {.spec = {.dtype = dtype, .ndim = columns ? 2 : 1, .shape = {3, columns}},
                 .data = (void *)(uintptr_t)v};
  char got[CS_WORDS];
  ck_assert_ptr_eq(cs_check_caption(caption, columns ? columns : 1), NULL);
  cs_write_caption(caption, v ? &t : NULL, row, got);
  ck_assert_str_eq(got, want);
}

START_TEST(test_captions) {
  const float f[] = {1.005f, -0.001f, 2, 1e30f, 0.5f, -3};
  const double nan[] = {0.0 / 0.0, 1.0 / 0.0, 12345.678};
  const int32_t i[] = {0, 1, 2, -1, 7, 2147483647};
  const int64_t big[] = {INT64_C(-9007199254740993), 5, 6};
  const uint8_t u[] = {255, 1, 0};
  expect_caption("{.2} {+.2}", f, SP_F32, 2, 0, "1.00 +0.00");
  expect_caption("{.2}|{.2}", f, SP_F32, 3, 0, "1.00|0.00"); /* columns may be left out */
  expect_caption("{} {}", f, SP_F32, 2, 1, "2 1e+30");
  expect_caption("{.1} {.0}", f, SP_F32, 2, 1, "2.0 1e+30");
  expect_caption("{} {+}", f, SP_F32, 2, 2, "0.5 -3");
  expect_caption("{.1}, {}", nan, SP_F64, 3, 0, "nan, inf");
  expect_caption("{}", nan, SP_F64, 0, 2, "12345.7");
  expect_caption("{no|yes}/{no|yes}", i, SP_I32, 2, 0, "no/yes");
  expect_caption("{a|b|c}{a|b|}", i, SP_I32, 2, 1, "c-1"); /* no word for -1 */
  expect_caption("{a|b} {|x}", f, SP_F32, 2, 1, "2 1e+30");
  expect_caption("{no!|yes} {}.", i, SP_I32, 2, 0, "no.");
  expect_caption("{no!|yes|c} {}.", i, SP_I32, 2, 1, "c -1.");
  expect_caption("{a||c}{+}", i, SP_I32, 2, 2, "7+2147483647");
  expect_caption("{}", big, SP_I64, 0, 0, "-9007199254740993");
  expect_caption("{}%s\n\\", u, SP_U8, 0, 0, "255%s\n\\");
  expect_caption("{.2} {} {no|never|yes}", NULL, 0, 3, 0, "-00.00 -00. never"); /* as long as numbers mostly are */
  ck_assert_str_eq(cs_check_caption("", 1), "it is empty");
  ck_assert_ptr_ne(strstr(cs_check_caption("{} {}", 1), "more {}"), NULL);
  static const char *const bad[] = {"{", "{.}", "{.10}", "{x}", "{+", "{2}", "{a{b|c}}", "{.x}"};
  for (size_t k = 0; k < SP_ARRAY(bad); k++)
    ck_assert_msg(strstr(cs_check_caption(bad[k], 9), "is expected") != NULL, "%s", bad[k]);
  ck_assert_ptr_ne(strstr(cs_check_caption("a } b", 9), "a } without"), NULL);
}
END_TEST

START_TEST(test_lines) {
  static const struct {
    const char *text;
    int width;
    const char *lines; /* with / between */
  } cases[] = {{"one two three", 7, "one two/three"},
               {"one two", 3, "one/two"},
               {"abcdefgh ij", 4, "abcd/efgh/ij"},
               {"a\nb\n\nc", 9, "a/b//c"},
               {"a  b", 1, "a/b"},
               {"\u00b0\u00b1\u00d7x", 2, "\u00b0\u00b1/\u00d7x"},
               {"a\u00a0b c", 3, "a\u00a0b/c"},
               {"\xff\xc3", 1, "\xff/\xc3"},
               {"", 3, ""},
               {"four", 4, "four"},
               {"four five", 4, "four/five"},
               {"site_01_north-east", 9, "site_01_/north-/east"},
               {"a_b cd", 5, "a_b/cd"},
               {" x", 1, " /x"}};
  for (size_t k = 0; k < SP_ARRAY(cases); k++) {
    char got[64] = "";
    const char *s = cases[k].text;
    int n = 0;
    for (; *s; n++) {
      const char *begin = s;
      size_t bytes = cs_take_line(&s, cases[k].width);
      if (n) strcat(got, "/");
      strncat(got, begin, bytes);
    }
    ck_assert_str_eq(got, cases[k].lines);
    ck_assert_int_eq(n, cs_count_lines(cases[k].text, cases[k].width));
  }
}
END_TEST

static int same_glyph(uint32_t a, uint32_t b) {
  for (int y = 0; y < CS_GLYPH_H; y++)
    for (int x = 0; x < CS_GLYPH_W; x++)
      if (cs_glyph(a, x, y) != cs_glyph(b, x, y)) return 0;
  return 1;
}

/* Every letter has ink and no two are the same; those with marks lose them, what the font lacks is a question mark. */
START_TEST(test_font) {
  uint64_t seen[128];
  int n = 0;
  for (uint32_t code = '!'; code <= 0x2026; code = code == '~'    ? 0xb0
                                                   : code == 0xb1 ? 0xd7
                                                   : code == 0xd7 ? 0x2026
                                                                  : code + 1) {
    uint64_t bits = 0;
    for (int y = 0; y < CS_GLYPH_H; y++)
      for (int x = 0; x < CS_GLYPH_W; x++) bits = bits << 1 | (uint64_t)cs_glyph(code, x, y);
    ck_assert_uint_ne(bits, 0);
    for (int i = 0; i < n; i++) ck_assert_msg(seen[i] != bits, "U+%04x looks like another", code);
    seen[n++] = bits;
  }
  static const uint32_t alike[][2] = {{0xc0, 'A'},   {0xe9, 'e'},   {0xfc, 'u'},    {0xdf, 's'},      {0xff, 'y'},
                                      {0x141, 'L'},  {0x17f, 's'},  {0x2019, '\''}, {0x2014, 0x2013}, {0x180, '?'},
                                      {0x4e00, '?'}, {0xfffd, '?'}, {'\t', '?'}};
  for (size_t i = 0; i < sizeof alike / sizeof *alike; i++)
    ck_assert_msg(same_glyph(alike[i][0], alike[i][1]), "U+%04x", alike[i][0]);
  const char *marked = "e\xcc\x81\xcc\xa7u"; /* as some systems write the names of files */
  ck_assert(cs_next(&marked) == 'e' && cs_next(&marked) == 'u' && !cs_next(&marked));
  ck_assert(!same_glyph(0xd7, '?') && !same_glyph(0xd7, 'O') && same_glyph(0xf7, ':'));
  ck_assert(!cs_glyph(' ', 2, 3) && !cs_glyph(0xa0, 2, 3));
}
END_TEST

/* ---- refusals ---- */
static void refuses(spt *t, int status, const char *words) {
  if (!spt_failed(t)) spt_forward(t, 0);
  int good = spt_failed(t) == status && strstr(spt_error(t), words);
  ck_assert_msg(good, "status %d, \"%s\" in: %s", spt_failed(t), words, spt_error(t));
  spt_free(t);
}

START_TEST(test_refusals) {
  char file[300];
  snprintf(file, sizeof file, "%s", if_path("sheet.png"));
  refuses(sheet(if_path("sheet.jpg"), "", "", 0), SP_E_INVALID, "the name must end in .png");
  refuses(sheet(if_path("none/sheet.png"), "", "", 0), SP_E_IO, "none: No such file or directory");
  if_put("file", "x", 1);
  refuses(sheet(if_path("file/sheet.png"), "", "", 0), SP_E_IO, "file: Not a directory");
  refuses(sheet(file, "", "m", 0), SP_E_INVALID, "original_mask is wired, but original is not");
  refuses(sheet(file, "", "a", 0), SP_E_INVALID, "1 tensors are wired to values, but there are 0 captions");
  refuses(sheet(file, two, "a", 0), SP_E_INVALID, "but there are 2 captions");
  refuses(sheet(file, "captions = { { \"{} {}\" } }", "a", 0), SP_E_INVALID, "captions[1] = \"{} {}\": it has more {}");
  refuses(sheet(file, "captions = { { \"{x}\" } }", "a", 0), SP_E_INVALID, "between { and }");
  refuses(sheet(file, "class_names = \"a\"", "", 0), SP_E_INVALID, "label is not wired");
  refuses(sheet(file, "columns = 1000", "i", 0), SP_E_SHAPE, "take fewer columns or smaller pictures");
  refuses(sheet(file, "rows = 1000", "i", 0), SP_E_SHAPE, "a sheet of 1000 rows and 4 columns would be");
  refuses(sheet(file, "rows = 300, columns = 110", "i", 0), SP_E_SHAPE, "67108864 in all are possible");
  refuses(sheet(file, "zoom = 64, columns = 8", "i", 0), SP_E_SHAPE, "pixels wide, 16384 are possible");
}
END_TEST

START_TEST(test_long_title) {
  static char more[2700] = "title = \"";
  size_t n = strlen(more);
  memset(more + n, 'x', 2540);
  strcpy(more + n + 2540, "\", rows = 2, columns = 2, text = 8");
  refuses(sheet(if_path("sheet.png"), more, "", 0), SP_E_SHAPE, "fewer words");
}
END_TEST

START_TEST(test_shapes_refused) {
  static const int64_t shape[] = {N, 3, H, W}, turned[] = {N, W, H}, three[] = {N + 1}, cube[] = {N, 1, 1};
  static const struct {
    const int64_t *image, *mask, *value;
    int ndim;
    const char *words;
  } cases[] = {{shape, turned, NULL, 0, "image is 20 x 30, but its mask is 30 x 20 (height x width)"},
               {shape, NULL, three, 1, "values[1] must have a number, or a row of numbers, for each sample"},
               {shape, NULL, cube, 3, "values[1] must have a number"}};
  char params[400];
  snprintf(params, sizeof params, "{ file = \"%s\", captions = { %s } }", if_path("sheet.png"),
           _i >= 1 ? "{ \"{}\" }" : "");
  spt *t = spt_new("contact_sheet", params, 1);
  spt_input_of(t, 0, SP_U8, 4, cases[_i].image, 0, NULL);
  if (cases[_i].mask) spt_input_of(t, 1, SP_U8, 3, cases[_i].mask, 0, NULL);
  if (cases[_i].value) spt_input_of(t, 4, SP_F32, cases[_i].ndim, cases[_i].value, 0, NULL);
  spt_plan(t, 0);
  refuses(t, SP_E_SHAPE, cases[_i].words);
}
END_TEST

/* The folder goes away between plan and the last cell: the file is named, and no part of it stays. */
START_TEST(test_write_fails) {
  char folder[300];
  snprintf(folder, sizeof folder, "mkdir '%s'", if_path("gone"));
  ck_assert_int_eq(system(folder), 0);
  spt *t = sheet(if_path("gone/sheet.png"), "rows = 1, columns = 1", "", 0);
  ck_assert_int_eq(rmdir(if_path("gone")), 0);
  refuses(t, SP_E_IO, "gone/sheet.png: No such file or directory");
}
END_TEST

int main(void) {
  Suite *s = suite_create("contact_sheet");
  TCase *c = tcase_create("contact_sheet");
  tcase_set_timeout(c, 600);
  tcase_add_checked_fixture(c, begin, if_end);
  tcase_add_loop_test(c, test_all_of_it, 0, 2);
  tcase_add_test(c, test_images_alone);
  tcase_add_test(c, test_long_name);
  tcase_add_test(c, test_names_beside);
  tcase_add_test(c, test_when_it_is_written);
  tcase_add_test(c, test_captions);
  tcase_add_test(c, test_lines);
  tcase_add_test(c, test_font);
  tcase_add_test(c, test_refusals);
  tcase_add_test(c, test_long_title);
  tcase_add_loop_test(c, test_shapes_refused, 0, 3);
  tcase_add_test(c, test_write_fails);
  suite_add_tcase(s, c);
  int failed = suite_run(s);
  im_buf_free(&px);
  return failed;
}
